"""Lag embedding: a series as rows of past values and their targets."""

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.forecasting.differencing import difference


def lag_embedding(y: Array, lags: tuple[int, ...], exog: Array) -> tuple[Array, Array]:
    """Rows of past values (and the regressors of the same time), and their targets.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The series.
    lags : tuple of int
        Column j of X is the value ``lags[j]`` steps back.
    exog : ndarray of shape (n, k)
        Regressors at the times of y, appended as the last k columns; k may be 0.

    Returns
    -------
    X : ndarray of shape (n - max(lags), len(lags) + k)
    target : ndarray of shape (n - max(lags),)

    Examples
    --------
    >>> X, target = lag_embedding(np.arange(5.0), (1, 3), np.empty((5, 0)))
    >>> X
    array([[2., 0.],
           [3., 1.]])
    >>> target
    array([3., 4.])
    """
    first = max(lags)
    past = [y[first - lag : len(y) - lag] for lag in lags]
    return np.column_stack([*past, exog[first:]]), y[first:].copy()


def complete_rows(
    values: Array, lags: tuple[int, ...], differences: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Which training rows touch no missing value."""
    changes = difference(values, differences)
    X, target = lag_embedding(changes, lags, np.empty((len(changes), 0)))
    return ~(np.isnan(X).any(axis=1) | np.isnan(target))


def interpolated(levels: Array) -> Array:
    """Levels with straight lines over what is missing, and the nearest value at the ends."""
    known = np.flatnonzero(~np.isnan(levels))
    return np.interp(np.arange(len(levels)), known, levels[known])
