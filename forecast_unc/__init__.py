"""How sure are we about this series, k steps ahead?"""

__version__ = "0.1.0"

from forecast_unc import datasets
from forecast_unc.evaluation import plot
from forecast_unc.evaluation.backtest import backtest
from forecast_unc.forecasting import scores
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.forecaster import Forecaster, load_model
from forecast_unc.regression.gp import GPRegressor

__all__ = [
    "Forecast",
    "Forecaster",
    "GPRegressor",
    "backtest",
    "datasets",
    "load_model",
    "plot",
    "scores",
]
