"""What people do with forecasts: score, compare, backtest, draw."""
