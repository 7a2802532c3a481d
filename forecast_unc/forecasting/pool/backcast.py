"""Forecasts of models from origins inside the series, and their errors there.

For the errors the posterior of each origin is that of the rows before it, with the hyper-parameters
and the scale of all; plug-in means suffice. Origins are in the last part of the rows, so that each
has at least some of them to learn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.prediction import PastSteps, Prediction
from forecast_unc.forecasting.models.base import FittedModel

# Origins, at most: their errors over many steps overlap, and with 24 the figures were the same.
MOST_ORIGINS = 32
# That models are compared at: with 4 the MSIS of short yearly series is .4 % higher, error .4.
_LEAST_ORIGINS = 8

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
    effects = model.taken_out.at(model.history.index, model.history.exog)
    times, n = origins[:, None] + np.arange(steps), len(effects)
    levels = np.where(times < n, levels + effects[np.minimum(times, n - 1)], np.nan)
    return RollingForecasts(model.transform.inverse(levels), model.transform.slope(levels))


def past_steps(model: FittedModel, at: Positions) -> PastSteps | None:
    """A model's one-step forecasts of some times of its history, before any calibration."""
    with blas_threads(model.n_rows):
        mean, var = model.next_levels(at)
    mean = mean + model.taken_out.at(model.history.index, model.history.exog)[at]
    known = np.isfinite(mean) & np.isfinite(var) & (var > 0.0)
    if not known.any():
        return None
    # what is not known stands as a copy of what is: a joint has no gaps
    fill = np.where(known, np.arange(len(at)), known.argmax())
    joint = Joint.normal(mean[fill], np.diag(var[fill]), model.transform)
    return PastSteps(at, Prediction(joint).checked(lambda i: model.history.time(at[i])), known)
