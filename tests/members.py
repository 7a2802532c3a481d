"""Of what a forecaster averages: the models on lagged values, and exponential smoothing."""

from forecast_unc import Forecaster
from forecast_unc.forecasting.model import LaggedModel
from forecast_unc.forecasting.smoothing_model import SmoothingModel


def on_lags(forecaster: Forecaster) -> list[LaggedModel]:
    return [one for one in forecaster.models_ if isinstance(one, LaggedModel)]


def smoothing(forecaster: Forecaster) -> list[SmoothingModel]:
    return [one for one in forecaster.models_ if isinstance(one, SmoothingModel)]
