"""Forecasts: joint distributions of future values, and their scores."""
