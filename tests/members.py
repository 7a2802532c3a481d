"""Of what a forecaster averages: the models on lagged values, and exponential smoothing."""

from collections.abc import Sequence
from typing import Any

from forecast_unc import Forecaster
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


def noisy_rows(model: LaggedModel) -> NoisyRows:
    return model.rows


def rows_of(model: LaggedModel) -> tuple[Any, Any, Any]:
    """Times, inputs and targets that a model has learned from."""
    rows = noisy_rows(model)
    return rows.times, rows.X, rows.y
