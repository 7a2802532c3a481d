"""Learning from inputs that were observed with noise: the mathematics of three trainers."""
