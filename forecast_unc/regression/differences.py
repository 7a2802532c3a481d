"""Numerical derivatives of predictions, and Taylor's moments from them.

All formulas are of fourth order: their error falls with the fourth power of the step, so that
the step can be large enough for predictions that have lost some digits.
"""

from collections.abc import Callable

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.moments import Moments, covariance_root

# Step along a direction, in scales.
_STEP = 0.02


def slope_by_differences(mean: Callable[[Array], Array], X: Array, scale: Array) -> Array:
    """Gradient of a function of the inputs at the rows of X.

    Parameters
    ----------
    mean : callable
        Values (k,) at rows (k, d).
    X : ndarray of shape (n, d)
        Inputs.
    scale : ndarray of shape (d,)
        Length of each input over which the function changes; steps are 1/50 of it.

    Returns
    -------
    ndarray of shape (n, d)
    """
    n, d = X.shape
    step = _STEP * scale
    moves = np.array([-2, -1, 1, 2])[:, None, None] * np.diag(step)  # (4, d, d)
    far0, near0, near1, far1 = (
        mean((X[:, None] + move).reshape(-1, d)).reshape(n, d) for move in moves
    )
    return np.asarray((8.0 * (near1 - near0) - (far1 - far0)) / (12.0 * step))


def taylor_by_differences(
    predict: Callable[[Array], tuple[Array, Array]],
    slope: Array,
    mean: Array,
    cov: Array,
    scale: Array,
) -> Moments:
    """Moments as in `KernelPosterior.taylor_moments`, the second derivatives numerical.

    They are taken along the columns of a root of `cov`.

    Parameters
    ----------
    predict : callable
        Means and variances (k,) at rows (k, d).
    slope : ndarray of shape (d,)
        Gradient of the mean at `mean`.
    mean : ndarray of shape (d,)
        Mean of the input.
    cov : ndarray of shape (d, d)
        Covariance of the input.
    scale : ndarray of shape (d,)
        Length of each input over which the predictions change.

    Returns
    -------
    Moments
    """
    root = covariance_root(cov)
    length = np.sqrt(np.einsum("dr,dr->r", root, root / scale[:, None] ** 2))
    step = _STEP / np.where(length > 0, length, 1.0)
    shifts = (root * step).T  # (r, d)
    points = np.concatenate([mean + k * shifts for k in (-2, -1, 1, 2)] + [mean[None]])
    means, variances = predict(points)
    far0, near0, near1, far1 = variances[:-1].reshape(4, -1)
    second = (16.0 * (near0 + near1) - far0 - far1 - 30.0 * variances[-1]) / 12.0
    push = root.T @ slope
    var = variances[-1] + 0.5 * (second / step**2).sum() + push @ push
    return Moments(float(means[-1]), float(var), slope)
