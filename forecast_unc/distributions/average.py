"""Averages of joint distributions: of their quantiles at each step, and of their correlations."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from forecast_unc._checks import first_true, frozen, numbers, refusal
from forecast_unc._typing import Array
from forecast_unc.distributions import marginals
from forecast_unc.distributions.joint import Joint, normal_scores
from forecast_unc.distributions.variance_parts import averaged_parts, joined
from forecast_unc.regression.kernels import lower_root


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
    made = Joint(q, cor, mean, cov)
    if len(parts) == len(members):
        covs = [member.cov for member in members]
        made = replace(made, parts=partial(averaged_parts, parts, covs, weights, cov))
    known = [member.scores.shape[1] for member in members if member.scores is not None]
    return made.shaped_as(_paths(members, weights, roots**2, max(known))) if known else made


def _paths(members: Sequence[Joint], weights: Array, shares: Array, n: int) -> Array:
    """Paths (h, n): average quantiles, each path with the ranks of a member by its share (k, h)."""
    h, levels = weights.shape[1], (np.arange(n) + 0.5) / n
    scores, quantiles = np.zeros((len(members), h, n)), np.zeros((h, n))
    for number, member in enumerate(members):
        steps = slice(len(member))
        if member.scores is not None:
            m = member.scores.shape[1]
            again, known = np.arange(n) % m, (np.arange(m) + 0.5) / m  # a member of fewer
            scores[number, steps] = normal_scores(member.scores)[:, again]
            values = np.sort(member.q.latent(member.scores), axis=1)
            own = np.array([np.interp(levels, known, row) for row in values])
        else:
            normals = np.random.default_rng(number).standard_normal((len(member), n))
            scores[number, steps] = lower_root(member.cor) @ normals
            own = member.q.latent(ndtri(levels)[None])
        weight = weights[number, steps, None]
        quantiles[steps] += weight * np.where(weight > 0.0, own, 0.0)
    places = (np.random.default_rng(0).permutation(n) + 0.5) / n
    which = (places >= np.cumsum(shares, axis=0)[:-1, :, None]).sum(axis=0)  # (h, n)
    pooled = np.take_along_axis(scores, which[None], axis=0)[0]
    ranks = pooled.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return np.take_along_axis(quantiles, ranks, axis=1)
