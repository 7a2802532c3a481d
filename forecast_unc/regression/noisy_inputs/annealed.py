"""Joint maximization over true inputs and hyper-parameters, the output noise annealed."""

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.regression.descent import descend
from forecast_unc.regression.noisy_inputs.evidence import RowEvidence
from forecast_unc.regression.noisy_inputs.posterior import Hyperparameters, referred
from forecast_unc.regression.noisy_inputs.search import (
    Learned,
    Problem,
    Round,
    input_std,
    symmetric_roots,
)

# The output noise falls from that of the plain fit by this factor a level, to the last.
_FACTOR = 0.75
_LEVELS = 14
_SEARCH = 30
# Levels in a row without a better held-out density before the descent ends.
_PATIENCE = 4
_FOLDS = 5
_LEAST_ROWS = 10


def joint_maximum(
    problem: Problem,
    theta: Array,
    shift: Array,
    roots: Array,
    tol: float,
    learn_noise: bool = False,
) -> tuple[Array, Array, int]:
    r"""True inputs and hyper-parameters that maximize their joint density, from a start.

    .. math:: \log \mathcal N(y \mid 0, K(X) + s^2 I) + \log p(\theta)
        - \tfrac12 \textstyle\sum_i (x_i - u_i)' S_i^{-1} (x_i - u_i)

    in c with x_i = u_i + S_i^(1/2) c_i, so that S may be singular. If s is learned, too, the inputs
    move until they explain the targets, and s falls to its bound.

    Parameters
    ----------
    problem : Problem
        The rows.
    theta : ndarray of shape (d + 2 + g,)
        Log hyper-parameters to start from.
    shift : ndarray of shape (n, d)
        c to start from.
    roots : ndarray of shape (n, d, d)
        Roots of the covariances of the input noise.
    tol : float
        Of the search.
    learn_noise : bool, default=False
        Whether s is learned instead of kept.

    Returns
    -------
    theta : ndarray
    shift : ndarray of shape (n, d)
    n_iter : int
    """
    free = problem.space.free.copy()
    free[-1] &= learn_noise
    n_free = int(free.sum())

    def objective(x: Array) -> tuple[float, Array]:
        at = theta.copy()
        at[free] = x[:n_free]
        c = x[n_free:].reshape(shift.shape)
        X = problem.X + np.einsum("nde,ne->nd", roots, c)
        value, gradient, terms = problem(at, X)
        change = np.einsum("nde,nd->ne", roots, terms.inputs) + c
        return value + 0.5 * float(np.sum(c**2)), np.append(gradient[free], change.ravel())

    bounds = [*problem.space.bounds[free], *[(-np.inf, np.inf)] * shift.size]
    best = descend(objective, np.append(theta[free], shift.ravel()), bounds, tol, most=_SEARCH)
    found = theta.copy()
    found[free] = best.x[:n_free]
    return found, np.asarray(best.x[n_free:]).reshape(shift.shape), int(best.n_iter)


class Descent:
    """The joint maximum on some rows, followed from one output noise to the next.

    Parameters
    ----------
    problem : Problem
        All rows.
    rows : ndarray of int
        Those to learn from.
    S : ndarray of shape (n, d, d)
        Covariances of the input noise of all rows.
    """

    def __init__(self, problem: Problem, rows: NDArray[np.intp], S: Array) -> None:
        whole = problem.evidence
        own = RowEvidence(whole.y[rows], whole.linear, whole.groups, whole.bias_scale)
        X, ratio = problem.X[rows], problem.least_ratio
        self.problem = Problem(X, own, problem.space, problem.start, S[rows], ratio)
        self.S, self.roots = S[rows], symmetric_roots(S[rows])
        self.theta, self.shift, self.n_iter = problem.start, np.zeros_like(X), 0

    def to(self, log_noise: float, tol: float) -> None:
        """Go on at another output noise."""
        theta = np.append(self.theta[:-1], log_noise)
        found = joint_maximum(self.problem, theta, self.shift, self.roots, tol)
        self.theta, self.shift = found[:2]
        self.n_iter += found[2]

    def linearized(self) -> tuple[Array, Array]:
        """The inputs of the maximum and the slopes of the posterior mean there, each (n, d)."""
        inputs = self.problem.X + np.einsum("nde,ne->nd", self.roots, self.shift)
        weights = self.problem(self.theta, inputs)[2].weights
        return inputs, self.problem.slopes(self.theta, inputs, weights)

    def density(self, X: Array, y: Array, S: Array) -> float:
        """Sum of the log densities of targets given their inputs as observed."""
        problem, (inputs, slope) = self.problem, self.linearized()
        l, a, tau, noise_var = problem.scales(self.theta)
        linear_std = problem.evidence.linear_std(tau)
        hyper = Hyperparameters(l, a, linear_std, noise_var**0.5, np.zeros(len(l)), 0.0)
        targets = problem.evidence.y - np.einsum("nd,nd->n", slope, problem.X - inputs)
        posterior = hyper.posterior(inputs, targets, noise_var + referred(slope, self.S))
        moments = [posterior.moments(x, s) for x, s in zip(X, S, strict=True)]
        mean, var = (np.array([m[k] for m in moments]) for k in (0, 1))
        return float(-0.5 * np.sum(np.log(2.0 * np.pi * var) + (y - mean) ** 2 / var))


def learn_annealed(problem: Problem, start: Learned, tol: float) -> Learned:
    """The joint maximum at the output noise that predicts held-out rows best, reached from above.

    From that of the fit that ignores input noise the output noise falls, and the maximum is
    followed. What is learned is where to stop: at the level of the highest density of held-out
    targets given their inputs as observed, over five folds of every fifth row. A given noise std
    is the only level, and nothing is held out, as with fewer than ten rows.

    Parameters
    ----------
    problem : Problem
        The rows.
    start : Learned
        What "nigp" found; its input noise is kept.
    tol : float
        Of the searches.

    Returns
    -------
    Learned
        The score of its rounds, the levels, is the mean held-out log density of a target. It
        converged if a level below the one kept was worse.
    """
    n, free = len(problem.X), problem.space.free[-1]
    S = np.broadcast_to(start.input_cov, (n, *start.input_cov.shape[-2:]))
    first = 0.5 * float(np.log(problem.scales(problem.start)[-1]))
    levels = first + np.log(_FACTOR) * np.arange(_LEVELS if free and n >= _LEAST_ROWS else 1)
    scores = held_out_densities(problem, S, levels, tol) if len(levels) > 1 else [np.nan]
    best = int(np.argmax(scores))
    whole = Descent(problem, np.arange(n), S)
    for level in levels[: best + 1]:
        whole.to(float(level), tol)
    rounds = [
        Round(float(np.exp(level)), input_std(S), score)
        for level, score in zip(levels, scores, strict=False)
    ]
    converged = best < len(scores) - 1 or not free
    return Learned(
        whole.theta, start.input_cov, *whole.linearized(), rounds, converged, whole.n_iter
    )


def held_out_densities(problem: Problem, S: Array, levels: Array, tol: float) -> list[float]:
    """Mean log density of a held-out target at the log noises, until it has fallen for a while."""
    rows = np.arange(len(problem.X))
    folds = [rows[rows % _FOLDS == k] for k in range(_FOLDS)]
    descents = [Descent(problem, np.setdiff1d(rows, fold), S) for fold in folds]
    scores: list[float] = []
    for level in levels:
        total = 0.0
        for fold, descent in zip(folds, descents, strict=True):
            descent.to(float(level), tol)
            total += descent.density(problem.X[fold], problem.evidence.y[fold], S[fold])
        scores.append(total / len(rows))
        if len(scores) - 1 - int(np.argmax(scores)) >= _PATIENCE:
            break
    return scores
