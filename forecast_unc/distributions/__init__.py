"""What a forecast is: a joint distribution of future values, and its scores."""
