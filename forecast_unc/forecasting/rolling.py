"""Forecasts from origins inside the training part: what the data say of a model's errors.

The posterior of each origin is that of the rows before it, with the hyper-parameters and the scale
of all; plug-in means suffice. Origins are in the last part of the rows, so that each has at least
some of them to learn from.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.forecasting.embedding import interpolated
from forecast_unc.forecasting.members import Member
from forecast_unc.forecasting.model import FittedModel
from forecast_unc.forecasting.recursion import Trajectory
from forecast_unc.forecasting.smoothing_model import SmoothingModel

# Origins, at most: their errors over many steps overlap, and with 24 the figures were the same.
MOST_ORIGINS = 32
# The last part of the rows of a model that holds them: a posterior needs rows before.
_PART = 0.6
_LEAST_ROWS = 2  # that a posterior rests on
# That models are compared at: with 4 the MSIS of short yearly series is .4 % higher, error .4.
_LEAST_ORIGINS = 8
# Errors below this share of the mean change are as good as none: models of a straight line without
# noise have some of 1e-3 and 1e-6 of it, and those which go on with it the larger ones.
_SMALL = 0.1


class RollingForecasts(NamedTuple):
    """Values forecast from k origins, and the local scale of the transform there."""

    value: Array  # (k, h), in units of y; NaN beyond the data, or where it diverges
    slope: Array  # (k, h), of y in the level


@dataclass(frozen=True, eq=False)
class Rolling:
    """Forecasts of some models from origins inside their history, each made once.

    Parameters
    ----------
    models : tuple of FittedModel or SmoothingModel
        Of one history, at the end of what they have learned from.
    """

    models: tuple[Member, ...]

    @cached_property
    def origins(self) -> NDArray[np.intp]:
        """Numbers of values before the origins, (k,)."""
        return rolling_origins(self.models)

    @cached_property
    def _made(self) -> dict[int, RollingForecasts]:
        return {}

    def forecasts(self, number: int, steps: int) -> RollingForecasts:
        """Those of one of the models.

        Parameters
        ----------
        number : int
            Its place.
        steps : int
            Steps h from each origin.

        Returns
        -------
        RollingForecasts
            Of shape (k, h).
        """
        made = self._made.get(number)
        if made is None or made.value.shape[1] < steps:
            made = rolling_forecasts(self.models[number], self.origins, steps)
            self._made[number] = made
        return RollingForecasts(made.value[:, :steps], made.slope[:, :steps])

    def prepare(self, steps: int) -> None:
        """Make those of all models at once, where fewer steps will be asked for first.

        Parameters
        ----------
        steps : int
            The most steps that will be asked for.
        """
        for number in range(len(self.models)):
            self.forecasts(number, steps)

    def observed(self, steps: int) -> Array:
        """What was observed at those times, (k, h); NaN where missing or beyond the data.

        Parameters
        ----------
        steps : int
            Steps h from each origin.

        Returns
        -------
        ndarray
        """
        y, times = self.models[0].history.y, self.origins[:, None] + np.arange(steps)
        return np.where(times < len(y), y[np.minimum(times, len(y) - 1)], np.nan)

    def error_ratios(self, steps: int) -> Array:
        """Mean absolute error of each model over the least of any, at the same times.

        Parameters
        ----------
        steps : int
            Steps from each origin.

        Returns
        -------
        ndarray of shape (m,)
            From 1, with errors below a tenth of the mean change of the series counted as that; all
            1 where fewer than 8 origins have errors of the first step of all models.
        """
        models = range(len(self.models))
        if len(self.origins) < _LEAST_ORIGINS:
            return np.ones(len(models))
        values = np.array([self.forecasts(number, steps).value for number in models])
        errors = np.abs(values - self.observed(steps))
        common = np.asarray(np.isfinite(errors).all(axis=0))  # (k, h)
        if np.count_nonzero(common[:, 0]) < _LEAST_ORIGINS:
            return np.ones(len(models))
        y = self.models[0].history.y
        floor = _SMALL * np.abs(np.diff(y[~np.isnan(y)])).mean()
        means = np.maximum(errors[:, common].mean(axis=1), floor)
        return np.asarray(means / means.min())


def rolling_origins(models: tuple[Member, ...]) -> NDArray[np.intp]:
    """Numbers of values before the origins, (k,): evenly spaced, the last before the last value.

    Parameters
    ----------
    models : tuple of FittedModel or SmoothingModel
        Of one history. Each has learned from at least 0.4 of its rows at all origins.

    Returns
    -------
    ndarray of int of shape (k,)
        Increasing; empty if the series is too short.
    """
    n = len(models[0].history.y)
    first = max(max(m.depth + 2, int(np.ceil(n - _PART * m.n_rows))) for m in models)
    if first >= n:
        return np.zeros(0, dtype=np.intp)
    return np.unique(np.linspace(first, n - 1, min(MOST_ORIGINS, n - first)).astype(np.intp))


def rolling_forecasts(model: Member, origins: NDArray[np.intp], steps: int) -> RollingForecasts:
    """Point forecasts of a model from origins inside its own history.

    Parameters
    ----------
    model : FittedModel or SmoothingModel
        At the end of the history that it has learned from.
    origins : ndarray of int of shape (k,)
        Numbers of values before them.
    steps : int
        Steps h from each.

    Returns
    -------
    RollingForecasts
    """
    n = len(model.history.y)
    if not len(origins):
        return RollingForecasts(np.zeros((0, steps)), np.zeros((0, steps)))
    if isinstance(model, SmoothingModel):
        levels = model.rolling(origins.tolist(), steps)
        levels[np.isnan(model.history.y[origins - 1])] = np.nan  # those are of more steps
    else:
        levels = _iterated(model, origins, steps)
    levels = np.where(origins[:, None] + np.arange(steps) < n, levels, np.nan)
    return RollingForecasts(model.transform.inverse(levels), model.transform.slope(levels))


def _iterated(model: FittedModel, origins: NDArray[np.intp], steps: int) -> Array:
    """Levels (k, h) of plug-in forecasts.

    With a noise of the observations they start from the means of the levels given the rows before
    the origin. Missing values are interpolated between those observed before an origin. What looks
    back at a gap that lasts until the origin is NaN: to interpolate it would take what comes after.
    """
    levels, exog, n = model.past.levels, model.past.exog, len(model.past.levels)
    one_step, anchor = model.one_step, model.specification.anchor
    rows, scale = model.noisy_rows(), one_step.differencing.scale
    found = np.searchsorted(rows.times, origins)
    enough = found >= _LEAST_ROWS
    counts = [max(int(count), _LEAST_ROWS) for count in found]
    back = origins[:, None] + np.arange(-one_step.depth, 0)
    observed = np.maximum.accumulate(np.where(np.isnan(levels), -1, np.arange(n)))  # the last one
    with blas_threads(len(rows.y)), np.errstate(over="ignore", invalid="ignore"):
        means, errors = rows.leading(model.regressor, counts)
        start = np.array(
            [interpolated(levels - scale * e)[at] for e, at in zip(errors, back, strict=True)]
        )
        start = np.where(back <= observed[origins - 1, None], start, np.nan)
        trajectory = Trajectory(one_step, start, steps)
        for step in range(steps):
            inputs = trajectory.inputs(exog[np.minimum(origins + step, n - 1)])
            known = np.asarray(np.isfinite(inputs).all(axis=1))
            change = means(np.where(known[:, None], inputs, 0.0))
            if anchor is not None:
                change = change + inputs[:, anchor]
            trajectory.append(np.where(known, change, np.nan))
        ahead = trajectory.levels[:, one_step.depth :]
        return np.where(enough[:, None], ahead, np.nan)
