"""The user's series: checked values, times, regressors and calendar."""
