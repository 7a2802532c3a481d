"""Arrays that come from a caller: numbers, finite, of one shape; covariances that are some."""

import reprlib
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._typing import Array


def frozen(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Own, write-protected copy of a finite array of the given shape."""
    array = numbers(name, value)
    if array.shape != shape:
        raise ValueError(
            f"{name} must have shape {shape}; got {array.shape}. One entry is needed for each step."
        )
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(
            f"{name} must be finite; got {array[wrong][0]} at step {np.argwhere(wrong)[0][0] + 1}. "
            "If a forecast has diverged, ask for fewer steps or difference the series; if its "
            "values are this large, divide the series by a constant."
        )
    array.setflags(write=False)
    return array


def numbers(name: str, value: ArrayLike) -> Array:
    """Copy as an array of floats, or a TypeError."""
    try:
        array = np.array(value)
        if array.dtype.kind in "biufO":  # strings of digits are no numbers
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise TypeError(
        f"{name} must be numbers; got {reprlib.repr(value)}. Pass an array of floats, all rows as "
        "long as each other."
    )


def check_positive(cov: Array, label: Callable[[int], str]) -> None:
    """Raise if a variance is not positive."""
    var = cov.diagonal()
    if (var <= 0).any():
        at = int((var <= 0).argmax())
        raise ValueError(
            f"cov must have a positive diagonal; got {var[at]:.6g} at {label(at)}, from "
            f"a matrix of condition number {np.linalg.cond(cov):.3g}. A variance that is "
            "not positive is a numerical failure, or a value that is known already."
        )


def check_symmetric(name: str, cov: Array, scale: Array) -> None:
    """Raise if a covariance differs from its transpose by more than 1e-8 of ``scale`` (h, h)."""
    apart = float((np.abs(cov - cov.T) / scale).max())
    if apart > 1e-8:
        raise ValueError(
            f"{name} must be symmetric; got entries that differ by {apart:.3g} standard deviations "
            "squared. Pass 0.5 * (cov + cov.T) if only roundoff is to blame."
        )
