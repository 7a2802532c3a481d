"""Distributions of sample paths, smoothed: theory/transforms.md."""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions.marginals import Curve, normal_density

_CORE, _TAIL = np.linspace(-4.0, 4.0, 401), 4.0 * 1.12 ** np.arange(1, 29)
_BINS = np.concatenate([-_TAIL[::-1], _CORE, _TAIL])  # up to 96 units
_AT = np.concatenate([[_BINS[0] - 10.0], _BINS, [_BINS[-1] + 10.0]])
# Stds of the kernel. Values of chaotic maps have edges: with .05 alone probabilities are .02 off,
# with .025 alone at some steps of the Henon map .03, and as bins of .04 are as wide.
_WIDTHS = 0.6, 0.35, 0.2, 0.1, 0.05, 0.025, 0.0125
_LOSS = 10.0  # nats below the best so far at which no narrower one is tried
_GAIN = 3.0  # nats by which values must be likelier than under a normal distribution
_EVEN = np.linspace(0.0, 1.0, 26)[1:-1]


class Smoothed(NamedTuple):
    """Increasing functions of normal scores, on lines between those of values `_AT`, of h rows."""

    scores: Array  # (h, n)
    log_slopes: Array  # (h, n)
    unit: Array  # (h,), of values in those of the table
    normal: Flags  # (h,), rows that are as likely normal

    def curve(self, z: Array) -> Curve:
        """Values and slopes (h, n) at scores (1 or h, n)."""
        z = np.broadcast_to(z, (len(self.unit), z.shape[1]))
        at = np.array([np.interp(row, x, _AT) for row, x in zip(z, self.scores, strict=True)])
        slopes = [np.interp(row, _AT, s) for row, s in zip(at, self.log_slopes, strict=True)]
        return self.unit[:, None] * at, self.unit[:, None] * np.exp(slopes)

    def scores_of(self, values: Array) -> Array:
        """Scores (h, n) of values (1 or h, n)."""
        values = np.broadcast_to(values, (len(self.unit), values.shape[1])) / self.unit[:, None]
        return np.array([np.interp(v, _AT, x) for v, x in zip(values, self.scores, strict=True)])

    @property
    def kinks(self) -> Array:
        """Scores (h, 24) of values at even distances, where a function may be steep."""
        ends = np.array([np.interp([-2.5, 2.5], x, _AT) for x in self.scores])
        kinks = self.scores_of(self.unit[:, None] * (ends[:, :1] + np.diff(ends) * _EVEN))
        return np.where(self.normal[:, None], 0.0, kinks)  # as if no other row were smoothed


def smoothed(x: Array) -> Smoothed | None:
    """The distributions of rows (h, n) of mean 0 and variance 1; None if all are normal.

    A value becomes normal ones of a std b around its a-fold, a^2 + b^2 = 1, with the b that makes
    each value likeliest by the others: mean and variance stay, and b = 1 is N(0, 1).
    """
    x, n = np.sort(x, axis=1), x.shape[1]  # found among the bins in a third of the time
    first, last = x[:, (n - 1) // 4], x[:, (3 * n) // 4]
    unit = np.clip((last - first) / 1.349, 0.02, 1.0)  # less than the std where values are far out
    column, x = unit[:, None], x / unit[:, None]
    counts = _binned(x)
    anywhere = 1.0 / (np.pi * n * (1.0 + _BINS**2))  # one of n

    def likelihood(rows: Positions, density: Array) -> Array:
        logs = np.log((1.0 - 1.0 / n) * density + anywhere)
        return np.asarray((counts[rows] * logs).sum(axis=1))

    rows, width, centers = np.arange(len(x)), np.zeros(len(x)), np.zeros_like(counts)
    best = likelihood(rows, column * normal_density(column * _BINS)) + _GAIN
    for b in _WIDTHS:
        a = np.sqrt(1.0 - (b * column[rows]) ** 2)
        moved = _binned(a * x[rows])
        own = normal_density((1.0 - a) * _BINS / b) / b
        now = likelihood(rows, np.maximum(moved @ _kernel(b) - own, 0.0) / (n - 1))
        better = now > best[rows]
        taken = rows[better]
        best[taken], width[taken], centers[taken] = now[better], b, moved[better]
        rows = rows[now > best[rows] - _LOSS]
        if not rows.size:
            break
    if not width.any():
        return None
    scores, slopes = column * _AT, np.tile(-np.log(column), len(_AT))
    for b in np.unique(width[width > 0.0]):
        rows = width == b
        density, below, above = (centers[rows] @ table / n for table in _tables(float(b)))
        z = np.where(below < above, ndtri(below), -ndtri(above))
        scores[rows] = z = np.clip(z, -37.0, 37.0)
        with np.errstate(divide="ignore"):
            slope = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - np.log(density)
        slopes[rows] = np.where(np.abs(z) < 37.0, slope, np.log(b))
    return Smoothed(scores, slopes, unit, width == 0.0)


def _binned(x: Array) -> Array:
    """Numbers of values at each of the bins, each shared between two by its distance."""
    x, m = np.clip(x, _BINS[0], _BINS[-1]), len(_BINS)
    at = np.clip(np.searchsorted(_BINS, x) - 1, 0, m - 2)
    share = ((x - _BINS[at]) / (_BINS[at + 1] - _BINS[at])).ravel()
    at = (at + m * np.arange(len(x))[:, None]).ravel()
    left, right = (np.bincount(i, w, m * len(x)) for i, w in ((at, 1.0 - share), (at + 1, share)))
    return np.asarray(left + right).reshape(len(x), m)


@cache
def _kernel(b: float) -> Array:
    """Densities at all bins of normal values around each."""
    return normal_density((_BINS[:, None] - _BINS) / b) / b


@cache
def _tables(b: float) -> tuple[Array, Array, Array]:
    """Densities at `_AT` of normal values around each bin, and probabilities below and above."""
    z = (_AT - _BINS[:, None]) / b
    return normal_density(z) / b, ndtr(z), ndtr(-z)
