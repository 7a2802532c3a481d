"""The parts of a covariance: their names, and how they are checked, mapped, averaged and read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from forecast_unc._checks import check_mapping, check_symmetric, frozen, refusal
from forecast_unc._typing import Array
from forecast_unc.regression.kernels import symmetric

Parts = Mapping[str, Array]
# Makes parts where they are asked for, and can be pickled: to make those of every forecast takes
# 1 to 12 % of it, of "mixture" up to 25 %.
MakeParts = Callable[[], Parts]

# Of :meth:`Forecast.decompose`, each named after its kind, and what it is in plain words.
PARTS = {
    "noise": "noise of the step itself",
    "noise_observation": "error of its observation, which no later step has",
    "function_own": "uncertainty of the learned function at this step",
    "function_shared": "errors of the function in common with earlier steps; negative if they "
    "compensate",
    "inputs_propagated": "uncertainty of earlier steps, which are inputs of this one",
    "inputs_missing": "missing or noisy values before the first step",
    "inputs_regressors": "uncertainty of the regressors",
    "inputs_nonlinear": "curvature of the function over its uncertain inputs; may be negative",
    "hyperparameters": "uncertainty of the hyper-parameters",
    "members": "disagreement of the models averaged; negative if averaging narrows",
    "calibration": "change by the calibration on past errors; negative if it narrows",
}
REST = "inputs_nonlinear"  # what the others do not add up to; it is never kept
# Share of a step's variance below which a part is 0. Variances of a process are right to some
# eps n (a / s)^2: 1e-9 for 800 rows and an amplitude of 70 stds of the noise; smoothing leaves
# 6e-16 of what adds up exactly. So small a part is 3e-5 of the step's std.
_ROUNDOFF = 1e-9


def check_parts(parts: Mapping[str, Any], scale: Array) -> dict[str, Array]:
    """Parts as a caller gives them, symmetric within 1e-8 of the products of the stds (h, h)."""
    names = [name for name in PARTS if name != REST]
    check_mapping("parts", parts, "matrices", f"The names are {', '.join(names)}.")
    checked = {}
    for name, part in parts.items():
        if name not in names:
            remedy = f"What they do not add up to counts as {REST}."
            raise refusal("parts", f"have names among {', '.join(names)}", repr(name), remedy)
        checked[name] = frozen(f"parts[{name!r}]", part, scale.shape)
        check_symmetric(f"parts[{name!r}]", checked[name], scale)
    return checked


def stretched(parts: MakeParts, before: Array, after: Array) -> Parts:
    """Parts of a covariance whose stds (h,) were others, each with the same share."""
    growth = after / before
    return {name: np.outer(growth, growth) * part for name, part in parts().items()}


def mapped_parts(parts: MakeParts, matrix: Array) -> Parts:
    """Parts of the covariance of ``matrix @ y``."""
    return {name: mapped(matrix, part) for name, part in parts().items()}


def mapped(matrix: Array, cov: Array) -> Array:
    """Covariance of ``matrix @ y``."""
    return symmetric(matrix @ cov @ matrix.T)


def with_more(parts: MakeParts, name: str, more: Array) -> Parts:
    """Parts of a covariance to which some is added, counted as the named one."""
    made = parts()
    return {**made, name: made.get(name, 0.0) + more}


def averaged_parts(
    parts: Sequence[MakeParts], covs: Sequence[Array], weights: Array, cov: Array
) -> Parts:
    """Parts of an average by weights (k, h): the members', and what averaging quantiles changes."""
    roots, of_members = np.sqrt(weights), [make() for make in parts]
    averaged: dict[str, Array] = {}
    for name in dict.fromkeys(name for each in of_members for name in each):
        having = [i for i, each in enumerate(of_members) if name in each]
        averaged[name] = joined(roots[having], [of_members[i][name] for i in having])
    averaged["members"] = averaged.get("members", 0.0) + (cov - joined(roots, covs))
    return averaged


def joined(roots: Array, matrices: Sequence[Array]) -> Array:
    """Sum over k of ``outer(roots[k], roots[k]) * matrices[k]``, (h, h), each of n <= h steps."""
    total = np.zeros((roots.shape[1], roots.shape[1]))
    for root, matrix in zip(roots, matrices, strict=True):
        n = len(matrix)
        at = np.flatnonzero(root[:n])  # what has no weight is not read
        block = np.ix_(at, at)
        total[block] += np.outer(root[at], root[at]) * matrix[block]
    return total


def variances(parts: Parts, cov: Array) -> dict[str, Array]:
    """Variance (h,) of each of `PARTS`, which add up to that of the steps; roundoff is 0."""
    var, nothing = cov.diagonal(), np.zeros(len(cov))

    def without_roundoff(part: Array) -> Array:
        return np.where(np.abs(part) < _ROUNDOFF * var, 0.0, part)

    known = dict.fromkeys(PARTS, nothing)
    known |= {name: without_roundoff(part.diagonal()) for name, part in parts.items()}
    known[REST] = without_roundoff(var - sum(known.values(), nothing))
    return known


def of_kinds(parts: Parts) -> dict[str, Array]:
    """Sums over the parts of a kind, which is the first word of their names."""
    sums: dict[str, Array] = {}
    for name, values in parts.items():
        kind = name.partition("_")[0]
        sums[kind] = sums.get(kind, 0.0) + values
    return sums
