"""Forecasts of models from origins inside the series, and their errors there.

For the errors the posterior of each origin is that of the rows before it, with the hyper-parameters
and the scale of all; plug-in means suffice. Origins are in the last part of the rows, so that each
has at least some of them to learn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.prediction import PastSteps, Prediction
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.models.relative_noise import StepNoise

# Origins, at most: their errors over many steps overlap, and with 24 the figures were the same.
MOST_ORIGINS = 32
# Age of the first origin: errors of long ago are of another level. In reserve log likelihood of a
# step is .0038 higher, error .0016, of ordinary series .0069, .0027, of simulated ones the same.
_OLDEST = 2.0

Noises = Sequence[StepNoise | None]
"""Each model's own noise of some steps; None of those whose noise is alike."""
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

    @property
    def n_values(self) -> int:
        """Number of values from the first origin on."""
        n = len(self.models[0].history.y)
        return n - int(self.origins.min(initial=n))


def recent_means(values: Array, weights: Array | Flags) -> Array:
    """Means (..., h) of (..., k, h) with weights, from step h // 2 (or 1) to h; NaN if all are 0.

    An origin is weighted by exp(-2 a), too, its age a from 0, of the last, to 1.
    """
    weights = np.asarray(weights, dtype=np.float64)
    recent = np.exp(-np.linspace(_OLDEST, 0.0, weights.shape[-2]))
    end = np.arange(1, weights.shape[-1] + 1)
    start = np.maximum(end // 2, 1) - 1

    def summed(part: Array) -> Array:
        sums = np.cumsum(recent @ part, axis=-1)
        before = np.zeros((*sums.shape[:-1], 1))
        sums = np.concatenate([before, sums], axis=-1)
        return np.asarray(sums[..., end] - sums[..., start])

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(summed(np.where(weights, values, 0.0) * weights) / summed(weights))


def rolling_forecasts(model: FittedModel, origins: Positions, steps: int) -> RollingForecasts:
    """Point forecasts from k origins inside the history that a model has learned from."""
    if not len(origins):
        return RollingForecasts(np.zeros((0, steps)), np.zeros((0, steps)))
    levels = model.plug_in(origins, steps)
    effects = model.taken_out.at(model.history.index, model.history.exog)
    times, n = origins[:, None] + np.arange(steps), len(effects)
    levels = np.where(times < n, levels + effects[np.minimum(times, n - 1)], np.nan)
    return RollingForecasts(model.transform.inverse(levels), model.transform.slope(levels))


class RollingSpreads(NamedTuple):
    """Medians and half 68 % bands of some models, now (m, h), and from k origins inside."""

    median: Array
    width: Array  # 0 beyond the end of a forecast
    past_median: Array  # (m, k, h); NaN where there is none
    past_width: Array
    """That of now with the noise of the time there, times the slope of the transform there over
    that here."""


def rolling_spreads(
    rolling: Rolling, members: Sequence[Prediction | None], noise: Noises, steps: int
) -> RollingSpreads:
    """What predictions of now say of those from the origins inside; None: a model without one.

    `noise`: each model's own of the steps (h,) that are predicted.
    """
    now = np.zeros((2, len(members), steps))
    past = np.full((2, len(members), len(rolling.origins), steps), np.nan)
    each = zip(rolling.models, members, noise, strict=True)
    for number, (model, member, own) in enumerate(each):
        if member is None:
            continue
        n = min(len(member), steps)
        median, width = member.first(n).joint.q.spread
        now[:, number, :n] = median, width
        slope = model.transform.slope(model.transform.forward(median))
        # No scale where Box-Cox ends, at y = 0.
        in_levels = np.divide(width, slope, out=np.zeros(n), where=slope > 0.0)
        past[0, number], slopes = rolling.forecasts(number, steps)
        there = None if own is None else model.noise_from(rolling.origins, n)
        if own is not None and there is not None:
            in_levels = _widths_there(in_levels, own, there)
        past[1, number, :, :n] = slopes[:, :n] * in_levels
    return RollingSpreads(*now, *past)


def _widths_there(width: Array, own: StepNoise, there: StepNoise) -> Array:
    """Widths (k, h) of levels at origins, by those of now (h,) and the noise of both."""
    n = len(width)
    std, before = own.std[:n], np.cumsum(own.variance[:n]) - own.variance[:n]
    # no more of a width is noise of its own time than all; the rest is that of the steps before
    share = np.divide(std, width, out=np.ones(n), where=width > std) ** 2
    before_there = np.cumsum(there.variance, axis=1) - there.variance
    rest = np.divide(before_there, before, out=np.ones_like(before_there), where=before > 0.0)
    sizes = (there.size / own.size[:n]) ** 2
    ratio = share * (there.std / std) ** 2 + (1.0 - share) * rest * sizes
    return np.asarray(width * np.sqrt(ratio))


def past_steps(model: FittedModel, at: Positions, more: Array | None = None) -> PastSteps | None:
    """A model's one-step forecasts of some times of its history, before any calibration.

    `more` (n, k) is what the regressors are more at each time, and not as lagged ones.
    """
    with blas_threads(model.n_rows):
        mean, var = (model if more is None else model.with_more(more)).kept_next_levels(at)
    mean = mean + model.taken_out.at(model.history.index, model.history.exog)[at]
    if more is not None:
        mean += model.taken_out.exog.moved(model.history.exog, more)[at]
    known = np.isfinite(mean) & np.isfinite(var) & (var > 0.0)
    if not known.any():
        return None
    # what is not known stands as a copy of what is: a joint has no gaps
    fill = np.where(known, np.arange(len(at)), known.argmax())
    joint = Joint.normal(mean[fill], np.diag(var[fill]), model.transform)
    return PastSteps(at, Prediction(joint).checked(lambda i: model.history.time(at[i])), known)
