"""One-step forecasts and scores of a fitted model on the past: `fitted()` and `score()`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from forecast_unc._checks import refusal
from forecast_unc._typing import Positions
from forecast_unc.distributions.fitted import Fitted
from forecast_unc.distributions.page import model_card
from forecast_unc.distributions.prediction import PastSteps
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting.pool.backcast import AskPast
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import format_time, future_index
from forecast_unc.series.values import check_is_series

# Times in one Forecast of `fitted`, whose covariance is dense.
_BLOCK = 128


class Scored(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Past forecasts and scores of a forecaster or an average, by `history_` and `_past_steps`."""

    _repr_html_, _repr_mimebundle_ = model_card, None  # instead of scikit-learn's diagram

    def fitted(self) -> Fitted:
        """One-step forecasts of the series itself, each from the values before it.

        As by `apply` to the values before each. The model has learned from all of them: residuals
        are smaller than errors of forecasts, which `backtest` tells. An average has the weights of
        its members' widths at that time alone, and the calibration of the last value; a Combination
        that of the members that forecast the time.

        Returns
        -------
        Fitted
            By time, NaN where there is no forecast. Times whose lagged values are missing or have
            errors cost a forecast each.

        Raises
        ------
        TypeError
            If a member of a Combination is no Forecaster or Combination.
        """
        return self._fitted_by(self._past_steps())

    def _fitted_by(self, ask: AskPast) -> Fitted:
        history = self.history_
        times, parts = np.arange(len(history.y)), list[PastSteps]()
        for start in range(0, len(times), _BLOCK):
            parts += _some(ask, times[start : start + _BLOCK])
        index, closed, places = history.all_times
        actual = np.zeros(len(index))
        actual[places] = np.where(closed[places], 0.0, history.given)
        parts = [part._replace(places=places[part.places]) for part in parts]
        return Fitted(pd.Series(actual, index, name=history.name), parts, closed)

    def score(self, y: pd.Series, exog: pd.DataFrame | None = None) -> float:
        """Negative mean CRPS, in units of y: the higher, the better.

        Where y goes on after the series of the fit, what comes after it is forecast from there and
        scored, for searches with a splitter of time, such as
        ``GridSearchCV(Forecaster(), {"lags": [3, 12]}, cv=TimeSeriesSplit(5)).fit(y, exog)``. Else
        its last tenth, 24 values at most, is forecast by the fitted model from those before: that
        flatters a model that has learned from them.

        Parameters
        ----------
        y : Series
            What followed, the whole series, or another one of its kind. NaN does not count.
        exog : DataFrame, optional
            Regressors at the times of y, if the model was fitted with some.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If nothing of what would be scored was observed.
        TypeError
            If a member of a Combination is no Forecaster or Combination.
        """
        model = self
        index = self.history_.index
        series = check_is_series(y)
        if exog is not None:
            exog = check_aligned(exog, series.index, "y")
        after = _steps_after(index, series.index)
        if after:
            new = np.asarray(series.index > index[-1])
            future = None if exog is None else exog[new]
        else:
            after = min(max(1, int(0.1 * len(series))), 24)
            new = np.arange(len(series)) >= len(series) - after
            past, future = (None, None) if exog is None else (exog[~new], exog[new])
            try:
                model = model.apply(series[~new], past)
            except ArgumentError as error:
                scored = f"Of the {len(series)} values of y, the last {after} would be scored."
                raise error.but(context=scored) from error
        ahead = model.forecast(after, future)
        between = series.index[new].difference(ahead.index)
        if len(between):
            must, remedy = "lie at the times that are forecast", "Give it the frequency of the fit."
            raise refusal("y", must, format_time(between, 0), remedy)
        crps = ahead.score(series[new].reindex(ahead.index))["crps"].mean()
        if np.isnan(crps):
            got = f"only missing values in its last {after}"
            remedy = "Give a series that ends with what was observed."
            raise refusal("y", "hold numbers where it is scored", got, remedy)
        return -float(crps)


def _some(ask: AskPast, at: Positions) -> list[PastSteps]:
    """Forecasts of some times, without those of which there is none by an error."""
    try:
        found = ask(at)
    except ValueError:  # a time at which a forecast diverges, or is certain to be at the bound
        if len(at) == 1:
            return []
        return [part for half in np.array_split(at, 2) for part in _some(ask, half)]
    return [] if found is None else [found]


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
