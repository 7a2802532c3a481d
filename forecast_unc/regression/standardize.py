"""What the estimators share before they fit: scales of the data, and checks of parameters."""

from collections.abc import Sequence

import numpy as np

from forecast_unc._typing import Array

Lengthscales = float | Sequence[float] | Array | None
RandomState = int | np.random.Generator | None


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


def check_whole(name: str, value: object, lowest: int, remedy: str) -> None:
    """Raise unless a value is a whole number of at least `lowest`.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        What came.
    lowest : int
        The least it may be.
    remedy : str
        What to do, a sentence.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < lowest:  # type: ignore[operator]
        raise ValueError(
            f"{name} must be a whole number, at least {lowest}; got {value!r}. {remedy}"
        )


def generator(random_state: RandomState) -> np.random.Generator:
    """Random numbers from a seed or generator, or an error in words.

    Parameters
    ----------
    random_state : int, Generator or None
        A seed; a generator is returned as it is; None seeds from the system.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    ValueError
        If it is none of these.
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be a whole number, not negative, a numpy Generator or None; got "
            f"{random_state!r}. Pass 0 for the same numbers every time."
        ) from error
