"""Maps between the series and what the regressor sees: differences and scale.

All are affine, so mean and joint covariance of the horizon map back exactly.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from forecast_unc._typing import Array


@dataclass(frozen=True)
class Transform:
    """Differences at the given lags, then shift and scale to mean 0 and std 1.

    Parameters
    ----------
    differences : tuple of int
        Lags of the differences, applied one after the other; (1, 12) is the seasonal
        difference of the monthly change. Empty for none.
    shift : float
        Mean of the differenced training series.
    scale : float
        Standard deviation of the differenced training series.
    """

    differences: tuple[int, ...]
    shift: float
    scale: float

    @classmethod
    def fit(cls, y: Array, differences: tuple[int, ...]) -> Self:
        """Transform whose shift and scale standardize the differences of y.

        Parameters
        ----------
        y : ndarray of shape (n,)
            The training series; n exceeds the sum of the differences.
        differences : tuple of int
            Lags of the differences.

        Returns
        -------
        Transform
        """
        changes = _difference(y, differences)
        return cls(differences, float(changes.mean()), float(changes.std()))

    def forward(self, y: Array) -> Array:
        """Standardized differences, shorter than y by the sum of the difference lags."""
        return (_difference(y, self.differences) - self.shift) / self.scale

    def inverse(self, history: Array, steps: int) -> tuple[Array, Array]:
        """Matrix (h, h) and offset (h,) that take future transformed values back to y.

        The differences Delta y = z with known past are a triangular system: y_future =
        T^-1 (z - Delta_past y_past), T the Toeplitz matrix of the difference polynomial.

        Parameters
        ----------
        history : ndarray of shape (n,)
            The series up to the origin.
        steps : int
            Steps h ahead.

        Returns
        -------
        matrix : ndarray of shape (h, h)
            Lower triangular.
        offset : ndarray of shape (h,)
        """
        polynomial = _difference_polynomial(self.differences)  # 1, then minus what is carried on
        order = len(polynomial) - 1
        padded = np.zeros(steps + order)
        padded[: order + 1] = polynomial
        future = toeplitz(padded[:steps], np.zeros(steps))
        past = np.array(
            [
                sum(padded[t + j] * history[-j] for j in range(1, order - t + 1))
                for t in range(steps)
            ]
        )
        matrix = solve_triangular(future, np.eye(steps), lower=True)
        return self.scale * matrix, matrix @ (self.shift - past)


def _difference(y: Array, lags: tuple[int, ...]) -> Array:
    for lag in lags:
        y = y[lag:] - y[:-lag]
    return y


def _difference_polynomial(lags: tuple[int, ...]) -> Array:
    """Coefficients of prod(1 - B^lag) in powers of the backshift B."""
    polynomial = np.ones(1)
    for lag in lags:
        factor = np.zeros(lag + 1)
        factor[0], factor[lag] = 1.0, -1.0
        polynomial = np.convolve(polynomial, factor)
    return polynomial
