"""The parts of a covariance: their names, and how they are checked, mapped, averaged and read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.distributions.checked import check_symmetric, frozen
from forecast_unc.distributions.pooling import joined

PARTS = (
    "noise",
    "noise_observation",
    "function_own",
    "function_shared",
    "inputs_propagated",
    "inputs_missing",
    "inputs_regressors",
    "inputs_nonlinear",
    "hyperparameters",
    "members",
    "calibration",
)
"""Of :meth:`Forecast.decompose`, each named after its kind."""

REST = "inputs_nonlinear"
"""What the others do not add up to; it is never kept."""


class Deferred(Mapping[str, Array]):
    """Parts made when they are first read: few forecasts are decomposed.

    At once they would cost 1 % of a forecast of 24 steps by 100 rows, 3 % of an average of four.

    Parameters
    ----------
    make : callable
        Returns the parts. For a forecast to be pickled, a method or a partial of a function.
    """

    def __init__(self, make: Callable[[], Mapping[str, Array]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Array]:
        return self._make()

    def __getitem__(self, name: str) -> Array:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def check_parts(parts: Mapping[str, Any], scale: Array) -> dict[str, Array]:
    """Parts of a covariance as a caller gives them, checked.

    Parameters
    ----------
    parts : mapping of str to array_like of shape (h, h)
        By names in `PARTS`, without `REST`.
    scale : ndarray of shape (h, h)
        Products of the stds, for the tolerance.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    TypeError, ValueError
        If there is another name, or one is not a symmetric matrix of this shape.
    """
    names = [name for name in PARTS if name != REST]
    if not isinstance(parts, Mapping):
        raise TypeError(
            f"parts must be a mapping of names to matrices; got {type(parts).__name__}. "
            f"The names are {', '.join(names)}."
        )
    checked = {}
    for name, part in parts.items():
        if name not in names:
            raise ValueError(
                f"parts must have names among {', '.join(names)}; got {name!r}. "
                f"What they do not add up to counts as {REST}."
            )
        checked[name] = frozen(f"parts[{name!r}]", part, scale.shape)
        check_symmetric(f"parts[{name!r}]", checked[name], scale)
    return checked


def stretched(parts: Mapping[str, Array], stretch: Array) -> dict[str, Array]:
    """Parts times a matrix, entry by entry."""
    return {name: stretch * part for name, part in parts.items()}


def mapped_parts(parts: Mapping[str, Array], matrix: Array) -> dict[str, Array]:
    """Parts of the covariance of ``matrix @ y``."""
    return {name: mapped(matrix, part) for name, part in parts.items()}


def mapped(matrix: Array, cov: Array) -> Array:
    """Covariance of ``matrix @ y``."""
    product = matrix @ cov @ matrix.T
    return np.asarray(0.5 * (product + product.T))  # the product is symmetric but for roundoff


def with_change(
    parts: Mapping[str, Array], name: str, before: Array, after: Array
) -> dict[str, Array]:
    """Parts of a covariance that was another before, the difference counted as the named one."""
    change = after - before
    return {**parts, name: parts[name] + change if name in parts else change}


def pool_parts(
    parts: Sequence[Mapping[str, Array]], covs: Sequence[Array], weights: Array, cov: Array
) -> dict[str, Array]:
    r"""Parts of an average: the members' averaged, and what averaging quantiles changes.

    .. math::

        P_{tu} = \sum_k \sqrt{w_{kt} w_{ku}}\, (P_k)_{tu}, \qquad
        \text{members} = \Sigma_{tu} - \sum_k \sqrt{w_{kt} w_{ku}}\, (\Sigma_k)_{tu},

    at a step the average of each part, and the variance of the average less the average variance:
    minus the average squared distance of the members' quantile functions from the average's, each
    less its mean. For normal members :math:`-\sum_k w_k (s_k - \bar s)^2`, s the stds.

    Parameters
    ----------
    parts : sequence of mapping of str to ndarray of shape (n, n)
        Of each of the k members, of its n <= h steps.
    covs : sequence of ndarray of shape (n, n)
        Their covariances.
    weights : ndarray of shape (k, h)
        As for :func:`forecast_unc.distributions.pooling.pool`.
    cov : ndarray of shape (h, h)
        Covariance of the average.

    Returns
    -------
    dict of str to ndarray of shape (h, h)
    """
    roots, pooled = np.sqrt(weights), {}
    for name in dict.fromkeys(name for each in parts for name in each):
        having = [i for i, each in enumerate(parts) if name in each]
        pooled[name] = joined(roots[having], [parts[i][name] for i in having])
    between = cov - joined(roots, covs)
    pooled["members"] = pooled.get("members", 0.0) + between
    return pooled


def mixed_parts(parts: Sequence[Mapping[str, Array]], p: Array, between: Array) -> dict[str, Array]:
    """Parts of a mixture: the average of those of each, and the covariance of their means.

    Parameters
    ----------
    parts : sequence of mapping of str to ndarray of shape (h, h)
        Of each of the k.
    p : ndarray of shape (k,)
        Their probabilities.
    between : ndarray of shape (h, h)
        Covariance of the means.

    Returns
    -------
    dict of str to ndarray of shape (h, h)
    """
    mixed = {"hyperparameters": between}  # of mixtures themselves, some terms more
    for name in dict.fromkeys(name for each in parts for name in each):
        terms = [share * each[name] for share, each in zip(p, parts, strict=True) if name in each]
        mixed[name] = mixed.get(name, 0.0) + np.sum(terms, axis=0)
    return mixed


def variances(parts: Mapping[str, Array], cov: Array) -> dict[str, Array]:
    """Diagonals of all `PARTS`, which add up to that of the covariance: (h,) each."""
    nothing = np.zeros(len(cov))
    found = {
        name: parts[name].diagonal() if name in parts else nothing for name in PARTS if name != REST
    }
    rest = cov.diagonal() - sum(found.values(), nothing)
    return {name: rest if name == REST else found[name] for name in PARTS}


def of_kinds(parts: Mapping[str, Array]) -> dict[str, Array]:
    """Sums over the parts of a kind, which is the first word of their names."""
    sums: dict[str, Array] = {}
    for name, values in parts.items():
        kind = name.partition("_")[0]
        sums[kind] = sums[kind] + values if kind in sums else values
    return sums
