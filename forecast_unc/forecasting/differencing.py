"""Maps between the series and what the regressor sees: differences and scale.

All are affine: the recursion carries the levels themselves, with no approximation.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array


@dataclass(frozen=True)
class Differencing:
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
        """Differencing whose shift and scale standardize the differences of y.

        Parameters
        ----------
        y : ndarray of shape (n,)
            The training series; n exceeds the sum of the differences. Differences that
            touch a missing value are left out.
        differences : tuple of int
            Lags of the differences.

        Returns
        -------
        Differencing
        """
        changes = difference(y, differences)
        changes = changes[~np.isnan(changes)]
        return cls(differences, float(changes.mean()), float(changes.std()))

    def forward(self, y: Array) -> Array:
        """Standardized differences of (..., n) levels, fewer by the sum of the lags."""
        return (difference(y, self.differences) - self.shift) / self.scale

    def terms(self) -> tuple[NDArray[np.intp], Array]:
        """Powers of the backshift B in prod(1 - B^lag), from 0, and their coefficients."""
        polynomial = np.ones(1)
        for lag in self.differences:
            factor = np.zeros(lag + 1)
            factor[0], factor[lag] = 1.0, -1.0
            polynomial = np.convolve(polynomial, factor)
        back = np.flatnonzero(polynomial)
        return back, polynomial[back]


def difference(y: Array, lags: tuple[int, ...]) -> Array:
    """Differences at the lags, one after the other, along the last axis."""
    for lag in lags:
        y = y[..., lag:] - y[..., :-lag]
    return y
