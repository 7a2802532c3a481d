"""Learning from inputs that are themselves observed with noise: the mathematics of three trainers."""
