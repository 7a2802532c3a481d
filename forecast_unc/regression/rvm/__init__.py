"""Sparse Bayesian learning on a design matrix: the mathematics of the relevance vector machine."""
