"""Averages of joint distributions: of their quantiles at each step, and of their correlations."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import first_true, frozen, numbers, refusal
from forecast_unc._typing import Array
from forecast_unc.distributions import marginals
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.variance_parts import averaged_parts, joined


def check_weights(
    weights: ArrayLike | None, lengths: Sequence[int], label: Callable[[int], str]
) -> Array:
    """Weights (k, h), 1 in all at a step, 0 beyond a member's end, or an error; None: all alike."""
    k, h = len(lengths), max(lengths)
    within = np.arange(h) < np.array(lengths)[:, None]  # (k, h)
    given = numbers("weights", np.ones(k) if weights is None else weights)
    given = frozen("weights", given, (k, h) if given.ndim == 2 else (k,))
    given = given if given.ndim == 2 else given[:, None] * within
    beyond = (given != 0) & ~within
    if beyond.any():
        i, at = np.argwhere(beyond)[0]
        remedy = "Pass one weight for each forecast to have each count for its own steps."
        got = f"{given[i, at]:g} at {label(at)} for forecast {i + 1}, of {lengths[i]} steps"
        raise refusal("weights", "be 0 beyond the end of a forecast", got, remedy)
    if (at := first_true((given < 0).any(axis=0) | ~given.any(axis=0))) is not None:
        remedy = "Leave them out to weight all forecasts alike."
        got = f"{given[:, at].tolist()} at {label(at)}"
        raise refusal("weights", "not be negative, nor all 0 at a step", got, remedy)
    scaled = given / given.max(axis=0)  # the sum of huge weights is no float
    return np.asarray(scaled / scaled.sum(axis=0))


def share_roots(members: Sequence[Joint], weights: Array) -> Array:
    """Roots (k, h) of each member's share in the variance of the average, 1 in all at a step."""
    h = weights.shape[1]
    stds = np.array([np.pad(member.std, (0, h - len(member))) for member in members])
    stds = np.where(weights > 0, stds, 0.0)
    stds = np.where(stds.any(axis=0), stds, weights > 0)  # a step that is certain
    # Of each step's largest: the squares of tiny and of huge stds are no floats.
    roots = np.sqrt(weights) * (stds / stds.max(axis=0))
    return np.asarray(roots / np.sqrt((roots**2).sum(axis=0)))


def average(members: Sequence[Joint], weights: Array, disagreement: bool = False) -> Joint:
    """The average of members by weights (k, h), 1 in all at each step: theory/averages.md."""
    h, roots = weights.shape[1], share_roots(members, weights)
    # each term is a Schur product of positive semidefinite matrices
    cor = joined(roots, [member.cor for member in members])
    np.fill_diagonal(cor, 1.0)
    each = [member.q for member in members]
    q = marginals.average(each, weights)
    if disagreement:
        median, scale = q.latent_spread
        medians = np.array([np.pad(own.latent_spread.median, (0, h - len(own))) for own in each])
        between = (weights * (medians - median) ** 2).sum(axis=0)
        more = np.hypot(scale, np.sqrt(between)) - scale
        wider = [
            own.with_wider_band(more[: len(own)], w[: len(own)] > 0)
            for own, w in zip(each, weights, strict=True)
        ]
        q = marginals.average(wider, weights)
    mean, cov = q.mean(), q.covariance(cor)
    parts = [member.parts for member in members if member.parts is not None]
    if len(parts) < len(members):
        return Joint(q, cor, mean, cov)
    covs = [member.cov for member in members]
    return Joint(q, cor, mean, cov, partial(averaged_parts, parts, covs, weights, cov))
