"""The largest or smallest of several steps, from paths: arrays."""

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from forecast_unc._typing import Array
from forecast_unc.distributions.component import Component
from forecast_unc.distributions.marginals import Flags, Marginals
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.tail import EmpiricalTail

# Quantiles .1 apart in the normal score, up to where so many paths lie beyond; closer ones would
# show the noise of the paths in the density.
_SPACING, _BEYOND = 0.1, 10.0
_PIECES = 4000


def paths_at(marginals: Marginals, scores: Array) -> Array:
    """Values (h, n) at normal scores, by straight lines over 4,000 pieces of their range.

    The quantiles of an average with heavy tails take 2 s at 24 times 65,536 scores themselves.
    """
    grid = np.linspace(scores.min(), scores.max(), _PIECES + 1)
    values = marginals.latent_quantile(grid[None])
    each = [np.interp(*row) for row in zip(scores, [grid] * len(scores), values, strict=True)]
    return marginals.bounded(np.array(each))


def extremes(paths: Array, groups: Flags, largest: bool) -> Array:
    """Largest or smallest value of each group of steps along each path, (g, n).

    Parameters
    ----------
    paths : ndarray of shape (h, n)
        The paths.
    groups : ndarray of bool of shape (g, h)
        The steps of each group.
    largest : bool
        Or smallest.
    """
    found = [paths[steps].max(axis=0) if largest else paths[steps].min(axis=0) for steps in groups]
    return np.array(found)


def marginals_of_paths(paths: Array, lower: Array) -> tuple[Marginals, Array]:
    """Distributions of sampled steps, and the correlations of their normal scores.

    The quantiles are those of the paths, .1 apart in the normal score, with straight lines between
    them and from the median through the outermost beyond; the scores are those of the ranks.

    Parameters
    ----------
    paths : ndarray of shape (g, n)
        The paths.
    lower : ndarray of shape (g,)
        Bounds, -inf for none, at which there may be several paths.

    Returns
    -------
    marginals : Marginals
        The distributions of the g steps.
    cor : ndarray of shape (g, g)
        The correlations.
    """
    n = paths.shape[1]
    end = -ndtri(min(_BEYOND / n, 0.25))
    half = np.linspace(0.0, end, 1 + int(np.ceil(end / _SPACING)))
    nodes = np.concatenate([-half[:0:-1], half])
    quantiles = np.quantile(paths, ndtr(nodes), axis=1).T  # (g, k)
    for values, row, bound in zip(quantiles, paths, lower, strict=True):
        _continue_below(values, nodes, row, bound)
    center, spread = quantiles[:, len(half) - 1], paths.std(axis=1)
    unit = np.where(spread > 0.0, spread, 1.0)
    tail = EmpiricalTail.through(nodes, (quantiles - center[:, None]) / unit[:, None])
    component = Component(np.ones(len(paths)), PowerTransform(), center, unit, tail)
    scores = ndtri((rankdata(paths, axis=1) - 0.5) / n)
    cor = np.atleast_2d(np.corrcoef(scores)) if (spread > 0.0).all() else np.eye(len(paths))
    np.fill_diagonal(cor, 1.0)
    return Marginals([component], None, lower), cor


def _continue_below(values: Array, nodes: Array, path: Array, bound: float) -> None:
    """Continue quantiles (k,) below a bound, in place, by a line that leaves it where paths do.

    Between nodes its probability would be off by up to .04.
    """
    at_bound = np.mean(path <= bound)
    if not 0.0 < at_bound < 1.0:
        return
    start = ndtri(at_bound)
    above = np.append(nodes, -ndtri(0.5 / len(path))), np.append(values, path.max())
    first = int(((above[0] > start) & (above[1] > bound)).argmax())
    slope = (above[1][first] - bound) / (above[0][first] - start)
    below = np.arange(len(nodes)) < first
    values[below] = bound + slope * (nodes[below] - start)
