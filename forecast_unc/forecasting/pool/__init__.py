"""Several models: weights, calibration, and errors at earlier origins."""
