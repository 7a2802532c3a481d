r"""Normal scores of which some are known and of others only that they lie below a limit.

What a value at a bound says of the others: the score z_i is at most b_i. The conditional
distribution is no normal one; each such limit is replaced by an observation t_i of z_i with an
error of variance v_i, so that given those of all others the mean and variance of z_i are those of
the truncated normal (expectation propagation). With one limit both moments of every score are
exact.

References
----------
T. P. Minka, "Expectation propagation for approximate Bayesian inference", UAI 2001.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from forecast_unc._typing import Array

# Sweeps at most, and what precisions (in units of 1 + themselves) change by in the last one.
_SWEEPS, _TOLERANCE = 200, 1e-9
# Shares of the variance that a limit takes away, from next to nothing to next to all of it: beyond
# them they would be roundoff.
_LEAST_SHARE, _LARGEST_SHARE = 1e-9, 1.0 - 1e-9


def as_observed(cor: Array, z: Array, limited: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Observations with errors that stand for known scores and for limits.

    Parameters
    ----------
    cor : ndarray of shape (n, n)
        Prior correlations of the scores, positive definite.
    z : ndarray of shape (n,)
        The scores, or what they are at most.
    limited : ndarray of bool of shape (n,)
        Which are limits.

    Returns
    -------
    observed : ndarray of shape (n,)
    variance : ndarray of shape (n,)
        Of their errors; 0 for known scores.
    """
    observed, variance = z.copy(), np.where(limited, 1.0, 0.0)
    places = np.flatnonzero(limited)
    for _ in range(_SWEEPS if len(places) else 0):
        before = variance[places]
        inverse = np.linalg.inv(cor + np.diag(variance))
        for i in places:
            # mean and variance of z_i given the others
            mean = observed[i] - (inverse[i] @ observed) / inverse[i, i]
            var = 1.0 / inverse[i, i] - variance[i]
            a = (z[i] - mean) / np.sqrt(var)
            hazard = np.exp(-0.5 * a**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(a))
            share = np.clip(hazard * (hazard + a), _LEAST_SHARE, _LARGEST_SHARE)
            replaced = variance[i]
            variance[i] = var * (1.0 - share) / share  # not by a sum, which could round it to 0
            change = variance[i] - replaced
            observed[i] = mean - np.sqrt(var) * hazard / share
            column = inverse[:, i].copy()
            inverse -= np.outer(column, column * (change / (1.0 + change * column[i])))
        change_of_precision = np.abs(1.0 / variance[places] - 1.0 / before)
        if (change_of_precision <= _TOLERANCE * (1.0 + 1.0 / before)).all():
            break
    return observed, variance
