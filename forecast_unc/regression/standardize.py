"""Scales of standardized data, and checks of the hyper-parameters that estimators share."""

from collections.abc import Sequence

import numpy as np

from forecast_unc._typing import Array

Lengthscales = float | Sequence[float] | Array | None


def column_scale(X: Array) -> Array:
    """Standard deviation of each column, (d,); 1 where all values are the same.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, or targets as one column.

    Returns
    -------
    ndarray of shape (d,)
    """
    std = X.std(axis=0)
    return np.asarray(np.where(std > 1e-12 * np.abs(X).max(axis=0), std, 1.0))


def typical_lengthscale(Z: Array) -> float:
    """Half the median distance between standardized rows; of at most 500, evenly spaced.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Standardized inputs.

    Returns
    -------
    float
        1 where most rows are the same.
    """
    Z = Z[np.linspace(0, len(Z) - 1, min(len(Z), 500)).astype(np.intp)]
    squares = np.einsum("ij,ij->i", Z, Z)
    distances = squares[:, None] + squares - 2.0 * Z @ Z.T
    above = distances[np.triu_indices(len(Z), 1)]
    median = float(np.sqrt(max(np.median(above), 0.0))) if len(above) else 0.0
    return 0.5 * median if median > 1e-6 else 1.0


def check_lengthscales(lengthscales: Lengthscales, d: int, otherwise: str) -> None:
    """Raise unless length-scales are None, a positive number or d of them.

    Parameters
    ----------
    lengthscales : float, sequence of float or None
        What came.
    d : int
        Number of inputs.
    otherwise : str
        What None does, the end of "Use None to ...".
    """
    if lengthscales is None:
        return
    given = np.asarray(lengthscales)
    numeric = np.issubdtype(given.dtype, np.number)
    if given.shape not in ((), (d,)) or not numeric or not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(
            f"lengthscales must be positive, one number or {d} (one an input); "
            f"got {lengthscales!r}. Use None to {otherwise}."
        )


def check_noise_std(noise_std: float | None) -> None:
    """Raise unless a noise standard deviation is None or positive.

    Parameters
    ----------
    noise_std : float or None
        What came.
    """
    if noise_std is None:
        return
    if not isinstance(noise_std, (int, float, np.number)) or not (
        np.isfinite(noise_std) and noise_std > 0
    ):
        raise ValueError(
            f"noise_std must be positive; got {noise_std!r}. For data without noise pass "
            "a small number, such as 1e-4 of the std of y; use None to learn it."
        )
