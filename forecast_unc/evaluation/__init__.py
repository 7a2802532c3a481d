"""Evaluation of forecasts: backtests, comparison, scores, pictures."""
