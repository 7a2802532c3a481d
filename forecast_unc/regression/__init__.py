"""Regressors and the one posterior they all return; arrays only."""
