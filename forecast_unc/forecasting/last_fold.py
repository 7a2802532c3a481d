"""The score of a fitted model: how well it forecasts what follows, or the last fold of a series."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import pandas as pd

from forecast_unc.distributions.forecast import Forecast
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import format_time, future_index
from forecast_unc.series.values import check_is_series

# A fold is this share of the values, and at most so many.
_SHARE, _MOST = 0.1, 24


class Model(Protocol):
    """What is scored."""

    def apply(self, y: pd.Series, exog: pd.DataFrame | None = None) -> Self:
        """The fitted model at the end of another series."""
        ...

    def forecast(self, steps: int, exog: pd.DataFrame | None = None) -> Forecast:
        """Joint forecast of the next values."""
        ...


def score(model: Model, index: pd.Index[Any], y: object, exog: pd.DataFrame | None = None) -> float:
    """Negative mean CRPS of a model's forecasts, see `Forecaster.score`.

    Parameters
    ----------
    model : Forecaster or Combination
        Fitted.
    index : Index
        The times of the series at whose end it is.
    y : Series
        What followed, or a series that ends with what is to be forecast.
    exog : DataFrame, optional
        Regressors at its times.

    Returns
    -------
    float
    """
    series = check_is_series(y)
    if exog is not None:
        exog = check_aligned(exog, series.index, "y")
    after = _steps_after(index, series.index)
    if after:
        new = np.asarray(series.index > index[-1])
        future = None if exog is None else exog[new]
    else:
        after = min(max(1, int(_SHARE * len(series))), _MOST)
        new = np.arange(len(series)) >= len(series) - after
        past, future = (None, None) if exog is None else (exog[~new], exog[new])
        model = model.apply(series[~new], past)
    ahead = model.forecast(after, future)
    between = series.index[new].difference(ahead.index)
    if len(between):
        raise ValueError(
            f"y must lie at the times that are forecast; got {format_time(between, 0)}. Give it "
            "the frequency of the fit."
        )
    crps = ahead.score(series[new].reindex(ahead.index))["crps"].mean()
    if np.isnan(crps):
        raise ValueError(
            "y must hold numbers where it is scored; got only missing values in its last "
            f"{after}. Give a series that ends with what was observed."
        )
    return -float(crps)


def _steps_after(index: pd.Index[Any], times: pd.Index[Any]) -> int:
    """Steps from the end of a series to the last of some times; 0 if that is not after it."""
    last = times.max()
    try:
        if not last > index[-1]:
            return 0
    except TypeError:  # of another kind: what it should be is for `apply` to say
        return 0
    steps = len(times)
    while future_index(index, steps)[-1] < last:
        steps *= 2
    return int(future_index(index, steps).searchsorted(last)) + 1
