"""Standard models to compare with, each with the joint covariance of its steps.

They fit, forecast, update and apply as a `Forecaster` does, and so run on the same folds in
``backtest(compare={"ets": baselines.ETS()})``. Parameters are estimated by statsmodels and then
treated as known: no interval holds their estimation error. Definitions, covariances, sources:
theory/smoothing.md.
"""

from forecast_unc.evaluation.baselines.arima import SARIMAX
from forecast_unc.evaluation.baselines.autoreg import AutoReg
from forecast_unc.evaluation.baselines.exponential_smoothing import ETS, Theta
from forecast_unc.evaluation.baselines.naive import Drift, Naive, SeasonalNaive

__all__ = ["ETS", "SARIMAX", "AutoReg", "Drift", "Naive", "SeasonalNaive", "Theta"]
