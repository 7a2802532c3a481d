from forecast_unc import datasets, plot
from forecast_unc._version import __version__
from forecast_unc.distributions import scores
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation import baselines
from forecast_unc.evaluation.backtest import backtest
from forecast_unc.forecasting.combination import Combination, load_model
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.panels.panel_backtest import backtest_panel
from forecast_unc.panels.panel_forecast import forecast_panel
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.regression.rvm.rvm import RVMRegressor
from forecast_unc.regression.rvm.rvm_classifier import RVMClassifier

__all__ = [
    "Combination",
    "Forecast",
    "Forecaster",
    "GPRegressor",
    "LinearRegressor",
    "RVMClassifier",
    "RVMRegressor",
    "ReducedRankGPRegressor",
    "__version__",
    "backtest",
    "backtest_panel",
    "baselines",
    "datasets",
    "forecast_panel",
    "load_model",
    "plot",
    "scores",
]
