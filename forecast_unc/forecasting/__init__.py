"""The forecaster: specifications, fitted models and the recursion over the horizon."""
