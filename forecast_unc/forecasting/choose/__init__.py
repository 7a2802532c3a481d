"""What to fit: arguments, candidates, and a series fit to be learned from."""
