"""Gaussian processes through a support set of m centers, in O(n m^2)."""
