"""Of what a forecaster averages: the models on lagged values, and exponential smoothing."""

from collections.abc import Sequence
from typing import Any

from forecast_unc import Forecast, Forecaster
from forecast_unc.distributions.forecast import forecast_of
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.models.design import NoisyRows
from forecast_unc.forecasting.models.lagged import LaggedModel
from forecast_unc.forecasting.models.smoothing import SmoothingModel


def on_lags(forecaster: Forecaster) -> list[LaggedModel]:
    return [one for one in forecaster.models_ if isinstance(one, LaggedModel)]


def smoothing(forecaster: Forecaster) -> list[SmoothingModel]:
    return [one for one in forecaster.models_ if isinstance(one, SmoothingModel)]


def in_turn(first: Sequence[Any], *others: Sequence[Any], times: int = 1) -> list[tuple[Any, ...]]:
    """Each of the first beside so many of the others, which take turns: all of them are there."""
    return [
        (one, *(other[(i * times + j) % len(other)] for other in others))
        for i, one in enumerate(first)
        for j in range(times)
    ]


def predicted(model: FittedModel, steps: int, method: Method | None = None) -> Prediction:
    """What a fitted model says of the next steps, by default by the moments of one Gaussian."""
    return model.predict(model.history.future(steps), method or Method(model.moments))


def ahead_of(model: FittedModel, steps: int, method: Method | None = None) -> Forecast:
    return forecast_of(model.history.future(steps).index, predicted(model, steps, method))


def noisy_rows(model: LaggedModel) -> NoisyRows:
    return model.rows


def rows_of(model: LaggedModel) -> tuple[Any, Any, Any]:
    """Times, inputs and targets that a model has learned from."""
    rows = noisy_rows(model)
    return rows.times, rows.X, rows.y
