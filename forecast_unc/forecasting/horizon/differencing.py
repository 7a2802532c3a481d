"""Linear maps between levels and their standardized changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.series.rows import difference


@dataclass(frozen=True)
class Differencing:
    """Differences at some lags, one after the other, then a shift and a scale."""

    differences: tuple[int, ...]
    shift: float
    scale: float

    @classmethod
    def fit(cls, y: Array, differences: tuple[int, ...]) -> Self:
        """Scaling by the mean and std of the differences of y that touch no missing value."""
        changes = difference(y, differences)
        changes = changes[~np.isnan(changes)]
        return cls(differences, float(changes.mean()), float(changes.std()))

    def forward(self, y: Array) -> Array:
        """Standardized differences of (..., n) levels, fewer by the sum of the lags."""
        return (difference(y, self.differences) - self.shift) / self.scale


class LevelMap:
    """The sparse linear maps between levels, inputs and changes of one step.

    `lagged` are the levels that its inputs are made of by `combine`, `own` those that its level
    repeats with weights -`carried`, `touched` both and the level itself; all are steps back.

    With c the coefficients of prod(1 - B^lag), B the backshift, and covariances over scale^2,

        x_tj = (sum_i c_i y_(t - lag_j - i) - shift) / scale,
        y_t = scale f(x_t) + shift - sum_(i > 0) c_i y_(t - i).
    """

    def __init__(self, lags: tuple[int, ...], differencing: Differencing) -> None:
        polynomial = np.ones(1)
        for lag in differencing.differences:
            polynomial = np.convolve(polynomial, [1.0, *np.zeros(lag - 1), -1.0])
        back = np.flatnonzero(polynomial)
        coefficients = polynomial[back]
        self.depth = int(max(lags) + back[-1])  # levels that one step looks back
        self.lagged = np.add.outer(np.array(lags), back).ravel()  # (l q,)
        self.combine = np.asarray(np.kron(np.eye(len(lags)), coefficients))  # (l, l q)
        self.own, self.carried = back[1:], coefficients[1:]  # (q - 1,), without the level itself
        self.touched = np.concatenate([[0], self.own, self.lagged])
