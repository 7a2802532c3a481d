"""Forecasts from origins inside the series: errors of models there, `fitted()` and `score()`.

For the errors the posterior of each origin is that of the rows before it, with the hyper-parameters
and the scale of all; plug-in means suffice. Origins are in the last part of the rows, so that each
has at least some of them to learn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from forecast_unc._checks import refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.fitted import Fitted, PastSteps
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.distributions.page import model_card
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting.models.effects import taken_out
from forecast_unc.forecasting.models.lagged import FittedModel
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import format_time, future_index
from forecast_unc.series.values import check_is_series

# Origins, at most: their errors over many steps overlap, and with 24 the figures were the same.
MOST_ORIGINS = 32
# That models are compared at: with 4 the MSIS of short yearly series is .4 % higher, error .4.
_LEAST_ORIGINS = 8
# Times in one Forecast of `fitted`, whose covariance is dense.
_BLOCK = 128

AskPast = Callable[[Positions], PastSteps | None]
"""One-step forecasts of some times by their places, or None if there is none of any."""


class RollingForecasts(NamedTuple):
    """Values forecast from k origins, and the local scale of the transform there."""

    value: Array  # (k, h), in units of y; NaN beyond the data, or where it diverges
    slope: Array  # (k, h), of y in the level


@dataclass(frozen=True, eq=False)
class Rolling:
    """Forecasts of some models from origins inside their one history, each made once."""

    models: tuple[FittedModel, ...]  # at the end of what they have learned from

    @cached_property
    def origins(self) -> Positions:
        """Numbers of values before the origins, (k,), with .4 of each model's span; maybe none."""
        n = len(self.models[0].history.y)
        # in the last .6 of the time that the rows of each span, gaps included
        first = max(max(m.depth + 2, int(np.ceil(n - 0.6 * m.span))) for m in self.models)
        if first >= n:
            return np.zeros(0, dtype=np.intp)
        return np.unique(np.linspace(first, n - 1, min(MOST_ORIGINS, n - first)).astype(np.intp))

    @cached_property
    def _made(self) -> dict[int, RollingForecasts]:
        return {}

    def forecasts(self, number: int, steps: int) -> RollingForecasts:
        """Forecasts of one of the models, by its place."""
        made = self._made.get(number)
        if made is None or made.value.shape[1] < steps:
            made = self._made[number] = rolling_forecasts(self.models[number], self.origins, steps)
        return RollingForecasts(made.value[:, :steps], made.slope[:, :steps])

    def prepare(self, steps: int) -> None:
        """Make those of all models at once, where fewer steps will be asked for first."""
        for number in range(len(self.models)):
            self.forecasts(number, steps)

    def observed(self, steps: int) -> Array:
        """Observations at those times, (k, h); NaN where missing or beyond the data."""
        y, times = self.models[0].history.y, self.origins[:, None] + np.arange(steps)
        return np.where(times < len(y), y[np.minimum(times, len(y) - 1)], np.nan)

    def error_ratios(self, steps: int) -> Array:
        """Mean absolute error of each model over the least of any, at the same times, (m,).

        All are 1 where fewer than 8 origins have errors of the first step of all models, or where
        the series never changes.
        """
        models = range(len(self.models))
        if len(models) == 1 or len(self.origins) < _LEAST_ORIGINS:
            return np.ones(len(models))
        values = np.array([self.forecasts(number, steps).value for number in models])
        errors = np.abs(values - self.observed(steps))
        common = np.asarray(np.isfinite(errors).all(axis=0))  # (k, h)
        if np.count_nonzero(common[:, 0]) < _LEAST_ORIGINS:
            return np.ones(len(models))
        y = self.models[0].history.y
        # Smaller errors are as good as none: models of a straight line without noise have some of
        # 1e-3 and 1e-6 of the mean change, and those which go on with it the larger ones.
        floor = 0.1 * np.abs(np.diff(y[~np.isnan(y)])).mean()
        if floor == 0.0:
            return np.ones(len(models))
        means = np.maximum(errors[:, common].mean(axis=1), floor)
        return np.asarray(means / means.min())


def rolling_forecasts(model: FittedModel, origins: Positions, steps: int) -> RollingForecasts:
    """Point forecasts from k origins inside the history that a model has learned from."""
    if not len(origins):
        return RollingForecasts(np.zeros((0, steps)), np.zeros((0, steps)))
    levels = model.plug_in(origins, steps)
    effects = taken_out(model.specification, model.history)
    times, n = origins[:, None] + np.arange(steps), len(effects)
    levels = np.where(times < n, levels + effects[np.minimum(times, n - 1)], np.nan)
    return RollingForecasts(model.transform.inverse(levels), model.transform.slope(levels))


def past_steps(model: FittedModel, at: Positions) -> PastSteps | None:
    """A model's one-step forecasts of some times of its history, before any calibration."""
    with blas_threads(model.n_rows):
        p, mean, var = model.next_levels(at)
    mean = mean + taken_out(model.specification, model.history)[at]
    known = np.asarray((np.isfinite(mean) & (var > 0.0)).all(axis=0))
    if not known.any():
        return None
    # what is not known stands as a copy of what is: a Forecast has no gaps
    fill = np.where(known, np.arange(len(at)), known.argmax())
    mean, var = mean[:, fill], var[:, fill]
    mixture, center, cov = None, mean[0], np.diag(var[0])
    if len(p) > 1:
        mixture = NormalMixture(p, mean, var[:, :, None] * np.eye(len(at)))
        center, cov = mixture.mean, mixture.cov
    transform = None if model.transform.power is None else model.transform
    index = model.history.index[at]
    return PastSteps(at, Forecast(index, center, cov, transform=transform, mixture=mixture), known)


class Scored(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Past forecasts and scores of a forecaster or an average, by `_history` and `_past_steps`."""

    _repr_html_, _repr_mimebundle_ = model_card, None  # in the place of scikit-learn's diagram

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
        history, ask = self._history, self._past_steps()
        times, parts = np.arange(len(history.y)), list[PastSteps]()
        for start in range(0, len(times), _BLOCK):
            parts += _some(ask, times[start : start + _BLOCK])
        return Fitted(history.index, history.given, parts, history.name)

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
        model, index, series = self, self._history.index, check_is_series(y)
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
