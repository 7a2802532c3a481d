"""The average of several forecasts, step by step: quantiles and correlations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._typing import Array
from forecast_unc.distributions.checked import frozen, numbers
from forecast_unc.distributions.marginals import Marginals


class Member(NamedTuple):
    """A forecast of the first n of h steps, as arrays."""

    marginals: Marginals  # of n steps
    cor: Array  # (n, n), of the normal scores
    std: Array  # (n,), in units of y


def check_weights(
    weights: ArrayLike | None, lengths: Sequence[int], label: Callable[[int], str]
) -> Array:
    """Weights of the members of an average at each step, or an error.

    Parameters
    ----------
    weights : array_like of shape (k,) or (k, h), or None
        What came; None weights all alike.
    lengths : sequence of int
        Steps of each of the k members, at most h.
    label : function of int
        Name of a step, counted from 0, in a message.

    Returns
    -------
    ndarray of shape (k, h)
        Adding up to 1 at each step, 0 beyond the end of a member.

    Raises
    ------
    TypeError, ValueError
        If they are not numbers of such a shape, negative, all 0 at a step, or beyond an end.
    """
    k, h = len(lengths), max(lengths)
    within = np.arange(h) < np.array(lengths)[:, None]  # (k, h)
    given = numbers("weights", np.ones(k) if weights is None else weights)
    if given.ndim == 2:
        given = frozen("weights", given, (k, h))
        beyond = (given != 0) & ~within
        if beyond.any():
            i, at = np.argwhere(beyond)[0]
            raise ValueError(
                f"weights must be 0 beyond the end of a forecast; got {given[i, at]:g} at "
                f"{label(at)} for forecast {i + 1}, of {lengths[i]} steps. Pass one weight for "
                "each forecast to have each count for its own steps."
            )
    else:
        given = frozen("weights", given, (k,))[:, None] * within
    wrong = (given < 0).any(axis=0) | ~given.any(axis=0)
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            f"weights must not be negative, nor all 0 at a step; got {given[:, at].tolist()} at "
            f"{label(at)}. Leave them out to weight all forecasts alike."
        )
    scaled = given / given.max(axis=0)  # the sum of huge weights is no float
    return np.asarray(scaled / scaled.sum(axis=0))


def pool(members: Sequence[Member], weights: Array) -> tuple[Marginals, Array]:
    r"""Distributions of the average and the correlations of its normal scores.

    .. math::

        q_t(z) = \sum_k w_{kt} q_{kt}(z), \qquad
        R_{tu} \propto \sum_k \sqrt{w_{kt} w_{ku}}\, s_{kt} s_{ku} (R_k)_{tu}

    with s_k the std of member k in units of y, and R scaled to a diagonal of ones. Each term is a
    Schur product of positive semidefinite matrices, hence so is R. Of members with bounds q_k is
    what it is without them, and the average has the average of the bounds.

    Parameters
    ----------
    members : sequence of Member
        The longest has all h steps.
    weights : ndarray of shape (k, h)
        Adding up to 1 at each step; 0 beyond the end of a member.

    Returns
    -------
    marginals : Marginals
        The distributions of the h steps.
    cor : ndarray of shape (h, h)
        The correlations.
    """
    components = [
        c.extended(w)
        for w, member in zip(weights, members, strict=True)
        for c in member.marginals.components
    ]
    # Of each step's largest: the squares of tiny and of huge stds are no floats.
    stds = _used(weights, [m.std for m in members])
    roots = np.sqrt(weights) * (stds / stds.max(axis=0))
    roots = roots / np.sqrt((roots**2).sum(axis=0))
    cor = joined(roots, [m.cor for m in members])
    np.fill_diagonal(cor, 1.0)
    offset = _averaged(weights, [m.marginals.offset for m in members])
    lower = _averaged(weights, [m.marginals.lower for m in members])
    return Marginals(components, offset, lower), cor


def joined(roots: Array, matrices: Sequence[Array]) -> Array:
    """Sum over k of ``outer(roots[k], roots[k]) * matrices[k]``, (h, h), each of n <= h steps."""
    total = np.zeros((roots.shape[1], roots.shape[1]))
    for root, matrix in zip(roots, matrices, strict=True):
        n = len(matrix)
        at = np.flatnonzero(root[:n])  # what has no weight is not read
        block = np.ix_(at, at)
        total[block] += np.outer(root[at], root[at]) * matrix[block]
    return total


def _averaged(weights: Array, rows: Sequence[Array]) -> Array:
    """Weighted averages of rows, -inf where one with a weight is; exact where all are the same."""
    values = np.array([_extended(row, weights.shape[1]) for row in rows])
    first = np.where(weights > 0, values, -np.inf).max(axis=0)
    used = (weights > 0) & (values != first)
    apart = np.subtract(values, first, out=np.zeros_like(values), where=used)
    return np.asarray(first + (weights * apart).sum(axis=0))


def _used(weights: Array, rows: Sequence[Array]) -> Array:
    """Rows extended to h steps, with 0 wherever there is no weight, (k, h)."""
    extended = np.array([_extended(row, weights.shape[1]) for row in rows])
    return np.where(weights > 0, extended, 0.0)


def _extended(row: Array, h: int) -> Array:
    """Row of n <= h entries with zeros after them, (h,)."""
    return np.pad(row, (0, h - len(row)))
