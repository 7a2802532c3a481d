"""Seeds and generators of random numbers, and roots of covariances for draws."""

import numpy as np

from forecast_unc._typing import Array

RandomState = int | np.random.Generator | None

# What a variable has of its own beside those before it, in its variance: below, it is roundoff.
_ROUNDOFF = 1e-12


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


def one_seed(random_state: RandomState) -> int | None:
    """A seed that can be used several times, each time for the same numbers.

    Parameters
    ----------
    random_state : int, Generator or None
        A generator goes on by one number; None stays None.

    Returns
    -------
    int or None
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    return random_state


def lower_root(cov: Array) -> Array:
    """Lower triangular root of a positive semi-definite matrix.

    Without pivots: a seed gives the same draws on every machine, and the root of the first rows
    and columns is the first block of the root.

    Parameters
    ----------
    cov : ndarray of shape (m, m)
        A covariance, of any rank.

    Returns
    -------
    ndarray of shape (m, m)
        Columns of less than 1e-12 of a variance are zero.
    """
    std = np.sqrt(np.diagonal(cov))
    unit = np.where(std > 0, std, 1.0)
    left, root = cov / np.outer(unit, unit), np.zeros_like(cov)
    for i in range(len(cov)):
        if left[i, i] > _ROUNDOFF:
            root[i:, i] = left[i:, i] / np.sqrt(left[i, i])
            left -= np.outer(root[:, i], root[:, i])
    return np.asarray(unit[:, None] * root)
