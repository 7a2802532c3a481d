"""Whether the next value of a series bends in those before it: evidence against a line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from forecast_unc._typing import Array

# Values that are compared of the way to the first correlation of 0, a quarter of a period, at most:
# so of a curve that is sampled more finely some are left out.
_A_QUARTER = 4
# Rows that are compared, the last ones: 10 ms, and maps of 100 values show 50 nats and more.
_MOST_ROWS, _LEAST_ROWS = 208, 50
# Lagged values in which a line is, each shrunk by its lag; those in which the function bends.
_IN_LINE, _BENDING = 12, (1, 2, 3)
# Hyper-parameters are not searched for: variances of weights over that of the noise; length scales,
# in stds, and variances of the noise over that of the function; and the share of the line.
_WEIGHTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_LENGTHS, _NOISES, _LINE = (0.25, 0.5, 1.0, 2.0), (1e-3, 1e-2, 0.1, 0.5), 0.1


class Bend(NamedTuple):
    """Log evidence (nats) of a nonlinear function over a line, and steps between its values."""

    nats: float
    stride: int


def bend(y: Array) -> Bend:
    r"""Log evidence of a smooth function of lagged values over that of a line in them.

    Both are Gaussian processes with the scale of all at its likeliest,
    :math:`-\frac{n}{2} \log y^T K^{-1} y - \frac{1}{2} \log |K|` with K of unit noise or function,
    each at the best of a few hyper-parameters; 0 for too few complete rows, or values all alike.
    Of every value and, where it is more, of every so many that a quarter of the way to the first
    correlation of 0 lies between them: a line goes on with a smooth curve for a step, not for many.
    """
    fine = -(-_first_zero(y) // _A_QUARTER)
    return max(Bend(_evidence_of_bend(_every(y, k)), k) for k in (1, fine) if k)


def evidence_of_logarithm(y: Array, stride: int = 1) -> float:
    """Log evidence of a function of lagged logarithms over that of one of lagged positive values.

    Of densities of the same values; 0 for too few complete rows, or values all alike.
    """
    y = _every(y, stride)
    levels, logs = _complete_rows(y), _complete_rows(np.log(y))
    if levels is None or logs is None:
        return 0.0
    size = len(logs) * float(np.log(levels[:, -1].std() / logs[:, -1].std()))
    return _bent(logs) - _bent(levels) + size - float(logs[:, -1].sum())


def _every(y: Array, stride: int) -> Array:
    """Every so many values, with the last."""
    return y[(len(y) - 1) % stride :: stride]


def _first_zero(y: Array) -> int:
    """Lag of the first correlation of 0 or less in a quarter of the series; 0: there is none."""
    known, n = ~np.isnan(y), len(y)
    if not known.any():
        return 0
    apart = np.where(known, y - y[known].mean(), 0.0)
    power = np.abs(np.fft.rfft(apart, 2 * n)) ** 2
    below = np.fft.irfft(power)[1 : n // 4 + 1] <= 0.0
    return int(below.argmax()) + 1 if below.any() else 0


def _complete_rows(y: Array) -> Array | None:
    """The last complete rows of lagged values and the next, (n, 13); None if too few, or alike."""
    if len(y) <= _IN_LINE:
        return None
    rows = np.lib.stride_tricks.sliding_window_view(y, _IN_LINE + 1)
    rows = rows[~np.isnan(rows).any(axis=1)][-_MOST_ROWS:]
    return rows if len(rows) >= _LEAST_ROWS and np.ptp(rows[:, -1]) else None


def _evidence_of_bend(y: Array) -> float:
    """Evidence of a function of adjacent values over a line in them."""
    rows = _complete_rows(y)
    if rows is None:
        return 0.0
    target, _, line = _standardized(rows)
    unit = np.eye(len(target))
    straight = max(_log_evidence(weight * line + unit, target) for weight in _WEIGHTS)
    return _bent(rows) - straight


def _bent(rows: Array) -> float:
    """Log evidence of the best function, of standardized values."""
    target, past, line = _standardized(rows)
    best, unit = -np.inf, np.eye(len(target))
    for k in _BENDING:
        apart = past[:, None, :k] - past[None, :, :k]
        distance = np.einsum("ijk,ijk->ij", apart, apart) / k
        for length in _LENGTHS:
            function = np.exp(-0.5 * distance / length**2) + _LINE * line
            best = max(best, *(_log_evidence(function + var * unit, target) for var in _NOISES))
    return float(best)


def _standardized(rows: Array) -> tuple[Array, Array, Array]:
    """Targets (n,), lagged values (n, 12), in stds of the targets; and the covariance of a line."""
    z = (rows - rows[:, -1].mean()) / rows[:, -1].std()
    past = z[:, -2::-1]
    shrunk = past / np.arange(1, _IN_LINE + 1)
    return z[:, -1], past, 1.0 + shrunk @ shrunk.T


def _log_evidence(cov: Array, target: Array) -> float:
    """Log evidence of a target (n,) with this covariance, of any scale; less a constant."""
    factor, failed = lapack.dpotrf(cov, lower=1)
    if failed:
        return -np.inf
    white, _ = lapack.dtrtrs(factor, target, lower=1)
    return float(-0.5 * len(target) * np.log(white @ white) - np.log(factor.diagonal()).sum())
