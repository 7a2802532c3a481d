"""A check of covariance matrices that a caller gives."""

import numpy as np
from scipy.linalg import eigvalsh

from forecast_unc._typing import Array

# Correlations may differ from their transpose, and their eigenvalues lie below zero, by no more:
# a covariance written with nine digits passes, and what is neglected is a std of 1e-4 of an
# input's own.
_TOLERANCE = 1e-8


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
            f"{lowest:.3g}. Variances and covariances must belong together."
        )
