"""The forecaster, its result, and the array maps between them."""
