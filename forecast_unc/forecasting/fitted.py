"""One-step forecasts of the past, each from the values before it, with what was learned of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions.fitted import Fitted, PastSteps
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.forecasting.averaging import Averaging
from forecast_unc.forecasting.members import Member
from forecast_unc.forecasting.model import FittedModel
from forecast_unc.forecasting.propagation import propagate
from forecast_unc.forecasting.recursion import Future, Method, Past, Trajectory
from forecast_unc.forecasting.smoothing_model import SmoothingModel
from forecast_unc.series.history import History

AskPast = Callable[[NDArray[np.intp]], PastSteps | None]
"""Forecasts of some times by their places, or None if there is none of any."""

# Times in one Forecast, whose covariance is dense.
_BLOCK = 128


class _Steps(NamedTuple):
    """One-step distributions of levels at k times, by each of c posteriors; NaN where none."""

    p: Array  # (c,), probabilities of the posteriors
    mean: Array  # (c, k)
    var: Array  # (c, k)


def fitted(ask: AskPast, history: History) -> Fitted:
    """The forecasts of all times of a history that have one.

    Parameters
    ----------
    ask : callable
        Forecasts of some times.
    history : History
        The series.

    Returns
    -------
    Fitted
    """
    n = len(history.y)
    parts = [
        part for start in range(0, n, _BLOCK) for part in _some(ask, np.arange(n)[start:][:_BLOCK])
    ]
    return Fitted(history.index, history.given, parts, history.name)


def past_steps(model: Member, at: NDArray[np.intp]) -> PastSteps | None:
    """A model's forecasts of some times of its history, before any calibration.

    Parameters
    ----------
    model : FittedModel or SmoothingModel
        What was learned.
    at : ndarray of int of shape (k,)
        Places of the times, increasing.

    Returns
    -------
    PastSteps or None
    """
    with blas_threads(model.n_rows):
        steps = _smoothed(model, at) if isinstance(model, SmoothingModel) else _lagged(model, at)
    known = np.asarray((np.isfinite(steps.mean) & (steps.var > 0.0)).all(axis=0))
    if not known.any():
        return None
    # what is not known stands as a copy of what is: a Forecast has no gaps
    fill = np.where(known, np.arange(len(at)), known.argmax())
    mean, var = steps.mean[:, fill], steps.var[:, fill]
    mixture, center, cov = None, mean[0], np.diag(var[0])
    if len(steps.p) > 1:
        mixture = NormalMixture(steps.p, mean, var[:, :, None] * np.eye(len(at)))
        center, cov = mixture.mean, mixture.cov
    transform = None if model.transform.power is None else model.transform
    index = model.history.index[at]
    return PastSteps(at, Forecast(index, center, cov, transform=transform, mixture=mixture), known)


def averaged(
    found: Sequence[PastSteps | None], weights: Array, averaging: Averaging
) -> PastSteps | None:
    """The average of several models' forecasts, at each time of those that have one.

    Parameters
    ----------
    found : sequence of PastSteps or None
        Of the same times.
    weights : ndarray of shape (m,)
        Weights of the models before their widths are known.
    averaging : Averaging
        What widths do to the weights: here those of the time itself alone.

    Returns
    -------
    PastSteps or None
    """
    pairs = [(one, w) for one, w in zip(found, weights, strict=True) if one is not None and w > 0.0]
    if not pairs:
        return None
    at, forecasts = pairs[0][0].places, [one.forecast for one, _ in pairs]
    shares = np.array([w * one.known for one, w in pairs])
    if len(pairs) > 1 and (averaging.by_width or averaging.widest is not None):
        factors = replace(averaging, look_ahead=1).shares(forecasts, len(at), 1) * shares
        shares = np.where(factors.any(axis=0), factors, shares)
    known = np.asarray(shares.any(axis=0))
    shares[:, ~known] = 1.0  # whatever stands there is not known
    return PastSteps(at, Forecast.average(forecasts, shares), known)


def _some(ask: AskPast, at: NDArray[np.intp]) -> list[PastSteps]:
    """Forecasts of some times, without those of which there is none by an error."""
    try:
        found = ask(at)
    except ValueError:  # a time at which a forecast diverges, or is certain to be at the bound
        if len(at) == 1:
            return []
        return [part for half in np.array_split(at, 2) for part in _some(ask, half)]
    return [] if found is None else [found]


def _smoothed(model: SmoothingModel, at: NDArray[np.intp]) -> _Steps:
    """By exponential smoothing, of the times in its window."""
    skipped = len(model.history.y) - len(model.levels)
    before = np.concatenate([[0], np.cumsum(~np.isnan(model.levels))])
    mean, var = np.full((2, 1, len(at)), np.nan)
    some = at >= skipped
    some[some] = before[at[some] - skipped] >= model.depth
    if some.any():
        origins = (at[some] - skipped).tolist()
        mean[0, some], var[0, some] = model.smoothing.next_values(model.levels, origins)
    return _Steps(np.ones(1), mean, var)


def _lagged(model: FittedModel, at: NDArray[np.intp]) -> _Steps:
    """By a posterior of lagged values, in one call where these were observed without error."""
    past, one_step, alternatives = model.past, model.one_step, model.one_step.alternatives
    mean, var = np.full((2, len(alternatives), len(at)), np.nan)
    there = at >= model.depth
    back = np.maximum(at[:, None], model.depth) + np.arange(-model.depth, 0)
    exact = there & np.isfinite(past.levels[back]).all(axis=1) & ~past.stds[back].any(axis=1)
    exact &= one_step.posterior.observation_var == 0.0
    for number, (_, one) in enumerate(alternatives if exact.any() else ()):
        trajectory = Trajectory(one, past.levels[back[exact]], 1)
        change, spread = one.posterior.predict(trajectory.inputs(past.exog[at[exact]]))
        trajectory.append(change)
        mean[number, exact] = trajectory.levels[:, -1]
        var[number, exact] = one.differencing.scale**2 * spread
    method = Method("exact" if one_step.posterior.closed_form else "taylor")
    for place in np.flatnonzero(there & ~exact):
        t = int(at[place])
        learned = None if past.learned is None else past.learned[:t]
        before = Past(past.levels[:t], past.stds[:t], past.exog[:t], learned)
        try:
            joint = propagate(one_step, before, Future(past.exog[t : t + 1]), method)
        except ValueError:  # it diverges on the way
            continue
        mixture = joint.mixture
        mean[:, place] = joint.mean[0] if mixture is None else mixture.means[:, 0]
        var[:, place] = joint.cov[0, 0] if mixture is None else mixture.covs[:, 0, 0]
    return _Steps(np.array([p for p, _ in alternatives]), mean, var)
