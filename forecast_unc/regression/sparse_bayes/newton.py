"""Joint re-estimation of all precisions and the noise by Newton's method on the exact evidence."""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.sparse_bayes.evidence import Evidence, EvidenceTerms
from forecast_unc.regression.sparse_bayes.model import Indices, NoisePrior

# Below this share of its weight determined by the data a column is as good as gone: several of
# them leave at once. A choice, for speed: those that were still of use are added again.
_NEARLY_OUT = 1e-3


class Maximum(NamedTuple):
    """Where the joint re-estimation ended."""

    kept: Indices  # positions that were not deleted
    alpha: Array
    log_var: float
    terms: EvidenceTerms
    objective: float  # log evidence plus the log prior of the noise


def maximize(
    evidence: Evidence, alpha: Array, log_var: float, noise: NoisePrior, tolerance: float
) -> Maximum | None:
    """Local maximum of evidence and noise prior in (log alpha, log s^2).

    Marquardt's damping keeps the steps uphill where the Hessian is not negative definite. A
    column with q^2 <= s has its own maximum at infinity: it is deleted, and the evidence rises.

    Parameters
    ----------
    evidence : Evidence
        Of the columns in the model; unit norms condition it best.
    alpha : ndarray of shape (m,)
        Precisions to start from.
    log_var : float
        Log s^2 to start from.
    noise : NoisePrior
        Prior, floor and ceiling of the noise.
    tolerance : float
        Largest element of the gradient at which to stop.

    Returns
    -------
    Maximum or None
        None if the start is not numerically positive definite.
    """
    low, high = noise.bounds()
    log_var = min(max(log_var, low), high)
    kept = np.arange(len(alpha))
    terms = evidence.gradient(alpha, log_var)
    if terms is None:
        return None
    damping = 1e-3
    for _ in range(100 + len(alpha)):
        stay = _stay(alpha, terms)
        if not stay.all():
            kept, alpha, evidence = kept[stay], alpha[stay], evidence.select(stay)
            fewer = evidence.gradient(alpha, log_var)
            if fewer is None:
                return None
            terms = fewer
            continue
        log_prior, by_log_var, curvature = noise.terms(log_var)
        gradient = np.append(terms.by_log_alpha, terms.by_log_var + by_log_var)
        at_bound = (log_var <= low and gradient[-1] < 0) or (log_var >= high and gradient[-1] > 0)
        if at_bound or low == high:
            gradient[-1] = 0.0
        if np.abs(gradient).max() < tolerance:
            break
        hessian = terms.hessian(alpha, log_var)
        hessian[-1, -1] += curvature
        if gradient[-1] == 0.0:
            hessian[-1, :-1] = hessian[:-1, -1] = 0.0
        objective = terms.value + log_prior
        while damping < 1e8:
            step = _damped_step(hessian, gradient, damping)
            if step is not None:
                tried_alpha = alpha * np.exp(step[:-1])
                tried_var = min(max(log_var + float(step[-1]), low), high)
                tried = evidence.gradient(tried_alpha, tried_var)
                if tried is not None:
                    gain = tried.value + noise.terms(tried_var)[0] - objective
                    if gain >= 0:
                        break
            damping = max(10.0 * damping, 1e-4)
        else:
            break
        assert tried is not None
        alpha, log_var, terms = tried_alpha, tried_var, tried
        damping *= 0.1
        if gain < 1e-13 * abs(objective):
            break
    return Maximum(kept, alpha, log_var, terms, terms.value + noise.terms(log_var)[0])


def _stay(alpha: Array, terms: EvidenceTerms) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """False for the columns to delete: the worst with q^2 <= s, and all that are nearly out."""
    gamma = 1.0 - alpha * terms.variances
    excess = terms.mean**2 - terms.variances * gamma  # (q^2 - s) Sigma_ii^2
    stay = (excess > 0) | (gamma > _NEARLY_OUT)
    if len(alpha):
        ratio = excess / (terms.variances * np.maximum(gamma, 1e-15))
        worst = int(np.argmin(ratio))
        stay[worst] &= ratio[worst] > 0
    return stay


def _damped_step(hessian: Array, gradient: Array, damping: float) -> Array | None:
    """Newton step of at most 3 in any logarithm; None where the damped matrix is not definite."""
    matrix = -hessian
    diagonal = np.diagonal(matrix)
    matrix.ravel(order="K")[:: len(gradient) + 1] += damping * np.maximum(np.abs(diagonal), 1e-6)
    chol, info = dpotrf(matrix, lower=1, overwrite_a=1)
    if info:
        return None
    step: Array = dpotrs(chol, gradient, lower=1)[0]
    step *= min(1.0, 3.0 / float(np.abs(step).max()))
    return step
