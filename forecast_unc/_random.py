"""Roots of covariances for draws."""

import numpy as np

from forecast_unc._checks import RandomState, generator, one_seed
from forecast_unc._typing import Array

__all__ = ["RandomState", "generator", "lower_root", "one_seed"]

# What a variable has of its own beside those before it, in its variance: below, it is roundoff.
_ROUNDOFF = 1e-12


def lower_root(cov: Array) -> Array:
    """Lower triangular root (m, m) of a covariance of any rank.

    Without pivots: a seed gives the same draws on every machine, and the root of the first rows
    and columns is the first block of the root.
    """
    std = np.sqrt(np.diagonal(cov))
    unit = np.where(std > 0, std, 1.0)
    left, root = cov / np.outer(unit, unit), np.zeros_like(cov)
    for i in range(len(cov)):
        if left[i, i] > _ROUNDOFF:
            root[i:, i] = left[i:, i] / np.sqrt(left[i, i])
            left -= np.outer(root[:, i], root[:, i])
    return np.asarray(unit[:, None] * root)
