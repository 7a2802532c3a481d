"""Checks of arguments that any module may need."""

from os import PathLike

import numpy as np
from scipy.linalg import eigvalsh

from forecast_unc._typing import Array

# Sums of squares of some thousand such values are finite.
LARGEST = 1e150
# Squares of a hundredth of it are normal floats.
SMALLEST = 1e-150
# The joint covariance of so many steps takes .8 GB, of which a model holds several.
_MOST_STEPS = 10_000
# Correlations may differ from their transpose, and their eigenvalues lie below zero, by no more:
# a covariance written with nine digits passes, and what is neglected is a std of 1e-4 of an
# input's own.
_TOLERANCE = 1e-8


def refusal(
    name: str, must: str, got: str, remedy: str, kind: type[Exception] = ValueError
) -> Exception:
    """The error of an argument: what it must be, what came, and what to do, a sentence."""
    return kind(f"{name} must {must}; got {got}. {remedy}")


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
        raise refusal(name, f"be a whole number, at least {lowest}", f"{value!r}", remedy)


def check_steps(steps: object, name: str = "steps") -> None:
    """Raise unless so many steps can be forecast together.

    Parameters
    ----------
    steps : object
        What came.
    name : str, default="steps"
        What messages call it.
    """
    check_whole(name, steps, 1, "1 is the next value.")
    if steps > _MOST_STEPS:  # type: ignore[operator]
        memory = 8e-9 * float(steps) ** 2  # type: ignore[arg-type]
        raise ValueError(
            f"{name} must be at most {_MOST_STEPS:,}; got {steps:,}, whose joint covariance would "
            f"take {memory:,.3g} GB. Forecast a coarser series, such as y.resample('D').mean()."
        )


def check_lower(lower: object) -> None:
    """Raise unless a lower bound is a number, or -inf for none.

    Parameters
    ----------
    lower : object
        What came.
    """
    number = isinstance(lower, (int, float, np.number)) and not isinstance(lower, bool)
    if not number or not lower < np.inf:  # type: ignore[operator]
        raise ValueError(
            f"lower must be a number below inf; got {lower!r}. Use -np.inf for no bound."
        )


def check_path(path: object) -> None:
    """Raise unless something names a file.

    Parameters
    ----------
    path : object
        What came.
    """
    if not isinstance(path, (str, PathLike)):
        raise TypeError(
            f"path must be a str or a path; got {path!r}. Name the file, such as 'model.npz'."
        )


def check_jobs(n_jobs: object) -> None:
    """Raise unless a number of jobs is one of joblib's.

    Parameters
    ----------
    n_jobs : object
        What came.
    """
    if n_jobs == 0 or not isinstance(n_jobs, int | np.integer | None):
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0; got {n_jobs!r}. "
            "-1 takes all processors."
        )


def check_covariance(name: str, cov: Array) -> None:
    """Raise unless a matrix is symmetric and positive semi-definite.

    Of the correlations, so that what is roundoff does not depend on units; a zero variance leaves
    its covariances as they are, which then have to be zero too.

    Parameters
    ----------
    name : str
        Name of the argument.
    cov : ndarray of shape (n, n)
        Finite; of any rank.
    """
    var = np.diagonal(cov)
    unit = np.sqrt(np.where(var > 0, var, 1.0))
    correlation = cov / np.outer(unit, unit)
    apart = float(np.abs(correlation - correlation.T).max(initial=0.0))
    if apart > _TOLERANCE:
        raise ValueError(
            f"{name} must be symmetric; got correlations that differ by {apart:.3g}. "
            f"Pass ({name} + {name}.T) / 2 if the difference is roundoff."
        )
    lowest = float(eigvalsh(correlation)[0]) if len(cov) else 0.0
    if lowest < -_TOLERANCE:
        raise ValueError(
            f"{name} must be positive semi-definite; got correlations with an eigenvalue of "
            f"{lowest:.3g}. Estimate it from data, or give variances alone."
        )
