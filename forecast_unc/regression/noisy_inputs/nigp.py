"""Input noise referred to the output through the squared slope of the posterior mean."""

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.noisy_inputs.posterior import referred
from forecast_unc.regression.noisy_inputs.search import (
    INPUT_STD_BOUNDS,
    INPUT_STD_LOG_STD,
    INPUT_STD_MEDIAN,
    Learned,
    Problem,
    Round,
    input_std,
    search,
)

# Rounds end when the std of no row's error changes by more than this share.
_TOLERANCE = 1e-3
_MOST_ROUNDS = 50


def learn_nigp(problem: Problem, tol: float) -> Learned:
    r"""Maximize the evidence of rows whose noise contains that of their inputs, in rounds.

    .. math::
        y \sim \mathcal N\bigl(0, K + \mathrm{diag}(s^2 + g_i' S g_i)\bigr), \qquad
        g_i = \nabla m(u_i), \quad S = \mathrm{diag}(\sigma_1^2, \dots, \sigma_d^2) .

    In a round the slopes g stay; then they become those of the new posterior mean m, half way from
    the second round on, since full steps may go to and fro. Known covariances S stay.

    Parameters
    ----------
    problem : Problem
        The rows.
    tol : float
        Of the search in a round.

    Returns
    -------
    Learned
        Its log_hyper and, where the noise is learned, its input_cov.

    References
    ----------
    McHutchon & Rasmussen, Gaussian process training with input noise, NIPS 24 (2011). The paper
    differentiates through the slopes once; here the rounds go on to a fixed point.
    """
    X, space = problem.X, problem.space
    d, free, known = X.shape[1], space.free, problem.input_cov
    n_free = int(free.sum())
    theta, slopes = problem.start.copy(), problem.slopes(problem.start, X, 0.0)
    log_std = np.full(d if known is None else 0, np.log(INPUT_STD_MEDIAN))
    precision = INPUT_STD_LOG_STD**-2.0 if problem.weak else 0.0
    bounds = np.vstack([space.bounds[free], np.tile(np.log(INPUT_STD_BOUNDS), (len(log_std), 1))])

    def objective(x: Array) -> tuple[float, Array]:
        at = theta.copy()
        at[free] = x[:n_free]
        each = slopes**2 * np.exp(2.0 * x[n_free:]) if known is None else referred(slopes, known)
        value, gradient, terms = problem(at, X, each.sum(axis=1) if known is None else each)
        if known is not None:
            return value, gradient[free]
        away = x[n_free:] - np.log(INPUT_STD_MEDIAN)
        change = 2.0 * terms.row_var @ each + precision * away
        value += 0.5 * precision * float(away @ away)
        return value, np.append(gradient[free], change)

    rounds: list[Round] = []
    n_iter, converged = 0, False
    row_std = np.zeros(len(X))
    while len(rounds) < _MOST_ROUNDS and not converged:
        best = search(objective, np.append(theta[free], log_std), bounds, tol)
        theta[free], log_std = best.x[:n_free], best.x[n_free:]
        n_iter += int(best.nit)
        S = np.diag(np.exp(2.0 * log_std)) if known is None else known
        added = referred(slopes, S)
        _, _, terms = problem(theta, X, added)
        noise_var = problem.scales(theta)[-1]
        rounds.append(Round(float(np.sqrt(noise_var)), input_std(S), -terms.value))
        new_std = np.sqrt(noise_var + added)
        converged = bool(np.abs(np.log(new_std) - np.log(row_std)).max() < _TOLERANCE) if len(rounds) > 1 else False
        row_std = new_std
        now = problem.slopes(theta, X, added)
        slopes = now if len(rounds) == 1 else 0.5 * (slopes + now)
    return Learned(theta, S, X, slopes, rounds, converged, n_iter)
