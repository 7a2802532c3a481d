r"""What is known of log hyper-parameters x: nodes and weights that stand for their posterior.

With L(x) the negative log of evidence times prior and x* its minimum, in units of the prior's stds

.. math::

    H = \nabla\nabla' L(x^*) = V \mathrm{diag}(\lambda) V', \qquad
    x(z) = x^* + B z, \quad B = V \mathrm{diag}(\max(\lambda, 1))^{-1/2},

the curvature by differences of the analytic gradient. An eigenvalue below 1, that of the prior
alone, counts as 1: the approximation is positive definite, and no wider than the prior. Of the
directions of z only those count along which predictions move. With g(x) the effect, their means
in stds and log stds, they are the leading right singular vectors u_i of its derivative in z,

.. math:: \frac{\partial g}{\partial z} = W \mathrm{diag}(s) U' .

Along a direction the posterior is neither symmetric nor normal. On either side the node lies where
its density has fallen as far as that of a normal distribution at its node,

.. math:: L(x^* \pm B u_i \sigma_i^\pm \sqrt{\kappa}) = L(x^*) + \kappa / 2,

and sigma is the std of that side: half a normal distribution, whose mass is in proportion to it
(a split normal). With r directions the weights are

.. math:: p_0 = 1 - r / \kappa, \qquad p_i^\pm = \frac{1}{\kappa}
    \frac{\sigma_i^\pm}{\sigma_i^+ + \sigma_i^-} ,

with kappa = max(3, r): exact for polynomials of degree 3 if the posterior is normal.

References
----------
H. Rue, S. Martino and N. Chopin, "Approximate Bayesian inference for latent Gaussian models by
using integrated nested Laplace approximations", JRSS B 71 (2009) 319-392, sec. 3 and 6.5,
https://doi.org/10.1111/j.1467-9868.2008.00700.x
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from forecast_unc._typing import Array

# Log hyper-parameters move by so much for the differences.
_STEP = 0.025
# Directions, at most, and the least squared distance of their nodes. With r > 3 it is r: no weight
# is negative, and the mode has none. Of 10 AR(1) series of 60 values, std of step 10 over that of
# a long Markov chain: the mode alone .93 +- .08, 3 directions .96 +- .05, 4 .98, 5 .99 +- .03.
_MOST_DIRECTIONS = 5
_LEAST_KAPPA = 3.0
# Directions along which a std of the posterior moves predictions by less than this are left out.
_LEAST_EFFECT = 0.001
# Stds of the sides are looked for between these, in those of the curvature, in so many evidences or
# until the root of what the log density has fallen by is as close as this.
_LEAST_SIGMA, _MOST_SIGMA = 0.05, 8.0
_SEARCHES, _CLOSE = 8, 0.01


class Design(NamedTuple):
    """Nodes of the log hyper-parameters, and their weights, which are positive and add up to 1."""

    nodes: Array  # (k, q)
    p: Array  # (k,)


def curvature(gradient: Callable[[Array], Array], mode: Array, bounds: Array) -> Array:
    """Hessian (q, q) by differences of the gradient, one-sided where a bound is in the way.

    Parameters
    ----------
    gradient : callable
        From (q,) to (q,).
    mode : ndarray of shape (q,)
        Where.
    bounds : ndarray of shape (q, 2)
        Of the hyper-parameters.

    Returns
    -------
    ndarray of shape (q, q)
    """
    rows = derivative(gradient, mode, bounds)
    return np.asarray(0.5 * (rows + rows.T))


def derivative(function: Callable[[Array], Array], mode: Array, bounds: Array) -> Array:
    """Derivative (m, q) of a function (m,) of q log hyper-parameters, by differences."""
    columns = []
    for i in range(len(mode)):
        ends = np.tile(mode, (2, 1))
        ends[:, i] = np.clip(mode[i] + np.array([-_STEP, _STEP]), *bounds[i])
        low, high = map(function, ends)
        columns.append((high - low) / (ends[1, i] - ends[0, i]))
    return np.array(columns).T


def design(
    objective: Callable[[Array], tuple[float, Array]],
    effect: Callable[[Array], Array],
    mode: Array,
    log_std: Array,
    bounds: Array,
) -> Design:
    """Nodes and weights along the directions that move the forecast most.

    Parameters
    ----------
    objective : callable
        From log hyper-parameters (q,) to -log(evidence prior) and its gradient.
    effect : callable
        From log hyper-parameters (q,) to means in stds and log stds of predictions, (m,).
    mode : ndarray of shape (q,)
        Minimum of the objective within the bounds.
    log_std : ndarray of shape (q,)
        Stds of the prior, positive and finite.
    bounds : ndarray of shape (q, 2)
        Nodes lie within them.

    Returns
    -------
    Design
        The mode alone if nothing moves the forecast.
    """
    hessian = curvature(lambda x: objective(x)[1], mode, bounds)
    values, vectors = np.linalg.eigh(log_std[:, None] * hessian * log_std)
    basis = log_std[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
    moved = derivative(effect, mode, bounds) @ basis
    _, sizes, rows = np.linalg.svd(moved)
    least = _LEAST_EFFECT * np.sqrt(len(moved))
    n = int((sizes[:_MOST_DIRECTIONS] > least).sum())
    kappa, best = max(_LEAST_KAPPA, float(n)), objective(mode)[0]
    nodes, p = [mode], [1.0 - n / kappa]
    for direction in rows[:n] @ basis.T:
        sides = [_side(objective, best, kappa, mode, sign * direction, bounds) for sign in (-1, 1)]
        total = sum(sigma for _, sigma in sides)
        for node, sigma in sides:
            nodes.append(node)
            p.append(sigma / (kappa * total))
    used = np.array(p) > 0.0
    return Design(np.array(nodes)[used], np.array(p)[used])


def _side(
    objective: Callable[[Array], tuple[float, Array]],
    best: float,
    kappa: float,
    mode: Array,
    direction: Array,
    bounds: Array,
) -> tuple[Array, float]:
    """Node on one side of the mode, and the std of that side in units of the direction.

    The root of how far the density has fallen is linear in the distance where it is normal.
    """
    room = np.where(direction > 0.0, bounds[:, 1] - mode, mode - bounds[:, 0])
    moving, reach = direction != 0.0, np.sqrt(kappa)
    farthest = float(np.min(room[moving] / np.abs(direction[moving]))) / reach
    low, high = _LEAST_SIGMA, max(min(_MOST_SIGMA, farthest), _LEAST_SIGMA)
    sigma = min(1.0, high)
    for _ in range(_SEARCHES):
        fall = max(objective(mode + sigma * reach * direction)[0] - best, 0.0)
        ratio = float(np.sqrt(2.0 * fall / kappa))
        low, high = (sigma, high) if ratio < 1.0 else (low, sigma)
        if abs(ratio - 1.0) < _CLOSE or high <= low:
            break
        guess = sigma / ratio if ratio > 0.0 else high
        sigma = guess if low < guess < high else float(np.sqrt(low * high))
    return np.clip(mode + sigma * reach * direction, *bounds.T), sigma
