"""Joint maximization over true inputs and hyper-parameters, the output noise annealed."""

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.regression.noisy_inputs.evidence import RowEvidence
from forecast_unc.regression.noisy_inputs.posterior import Hyperparameters, referred
from forecast_unc.regression.noisy_inputs.search import (
    Learned,
    Problem,
    Round,
    input_std,
    search,
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
    problem: Problem, theta: Array, shift: Array, S: Array, tol: float, fixed_noise: bool = True
) -> tuple[Array, Array, int]:
    r"""True inputs and hyper-parameters that maximize their joint density, from a start.

    .. math:: \log \mathcal N(y \mid 0, K(X) + s^2 I) + \log p(\theta)
        - \tfrac12 \textstyle\sum_i (x_i - u_i)' S_i^{-1} (x_i - u_i)

    in c with x_i = u_i + S_i^(1/2) c_i, so that S may be singular. With s learned
    (`fixed_noise=False`) the inputs move until they explain the targets, and s falls to its bound.

    Parameters
    ----------
    problem : Problem
        The rows.
    theta : ndarray of shape (d + 2 + g,)
        Log hyper-parameters to start from.
    shift : ndarray of shape (n, d)
        c to start from.
    S : ndarray of shape (n, d, d)
        Roots of the covariances of the input noise.
    tol : float
        Of the search.
    fixed_noise : bool
        Whether s stays.

    Returns
    -------
    theta : ndarray
    shift : ndarray of shape (n, d)
    n_iter : int
    """
    free = problem.space.free.copy()
    free[-1] &= not fixed_noise
    n_free = int(free.sum())

    def objective(x: Array) -> tuple[float, Array]:
        at = theta.copy()
        at[free] = x[:n_free]
        c = x[n_free:].reshape(shift.shape)
        X = problem.X + np.einsum("nde,ne->nd", S, c)
        value, gradient, terms = problem(at, X)
        change = np.einsum("nde,nd->ne", S, terms.inputs) + c
        return value + 0.5 * float(np.sum(c**2)), np.append(gradient[free], change.ravel())

    bounds = [*problem.space.bounds[free], *[(None, None)] * shift.size]
    best = search(objective, np.append(theta[free], shift.ravel()), bounds, tol, _SEARCH)
    theta = theta.copy()
    theta[free] = best.x[:n_free]
    return theta, best.x[n_free:].reshape(shift.shape), int(best.nit)


class _Descent:
    """The joint maximum on some rows, followed from one output noise to the next."""

    def __init__(self, problem: Problem, rows: NDArray[np.intp], theta: Array, S: Array) -> None:
        evidence = problem.evidence
        own = RowEvidence(evidence.y[rows], evidence.linear, evidence.groups, evidence.bias_scale)
        self.problem = Problem(
            problem.X[rows], own, problem.space, theta, S[rows], problem.least_ratio
        )
        self.S, self.roots = S[rows], symmetric_roots(S[rows])
        self.theta, self.shift, self.n_iter = theta, np.zeros_like(self.problem.X), 0

    @property
    def inputs(self) -> Array:
        return self.problem.X + np.einsum("nde,ne->nd", self.roots, self.shift)

    def to(self, log_noise: float, tol: float) -> None:
        """Go on at another output noise."""
        theta = np.append(self.theta[:-1], log_noise)
        self.theta, self.shift, n_iter = joint_maximum(
            self.problem, theta, self.shift, self.roots, tol
        )
        self.n_iter += n_iter

    def slopes(self) -> Array:
        """Of the posterior mean at the inputs."""
        return self.problem.slopes(self.theta, self.inputs, 0.0)

    def density(self, X: Array, y: Array, S: Array) -> float:
        """Sum of the log densities of targets given their inputs as observed."""
        problem, inputs, slope = self.problem, self.inputs, self.slopes()
        l, a, tau, noise_var = problem.scales(self.theta)
        hyper = Hyperparameters(
            l, a, problem.evidence.linear_std(tau), noise_var**0.5, np.zeros(len(l)), 0.0
        )
        targets = problem.evidence.y - np.einsum("nd,nd->n", slope, problem.X - inputs)
        posterior = hyper.posterior(inputs, targets, noise_var + referred(slope, self.S))
        moments = [posterior.moments(x, s) for x, s in zip(X, S, strict=True)]
        mean, var = (np.array([m[k] for m in moments]) for k in (0, 1))
        return float(-0.5 * np.sum(np.log(2.0 * np.pi * var) + (y - mean) ** 2 / var))


def learn_annealed(problem: Problem, start: Learned, tol: float) -> Learned:
    """The joint maximum at the output noise that predicts held-out rows best, reached from above.

    From the noise of the fit that ignores input noise, the output noise falls level by level, and the
    maximum is followed. What is learned of it is where to stop: at the level of the highest density
    of held-out targets given their inputs as observed, over five folds of every fifth row. A given
    noise std is the last level, and nothing is held out.

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
        Its rounds are the levels; converged says that the density fell after the one kept.
    """
    X, y, n = problem.X, problem.evidence.y, len(problem.X)
    S = np.broadcast_to(start.input_cov, (n, *start.input_cov.shape[-2:]))
    rows = np.arange(n)
    first = 0.5 * np.log(problem.scales(problem.start)[-1])
    given = not problem.space.free[-1]
    full = _Descent(problem, rows, problem.start, S)
    if given or n < _LEAST_ROWS:
        full.to(float(first), tol)
        last = Round(float(np.exp(first)), input_std(S), np.nan)
        return Learned(full.theta, start.input_cov, full.inputs, full.slopes(), [last], given, full.n_iter)
    folds = [rows[rows % _FOLDS == k] for k in range(_FOLDS)]
    descents = [_Descent(problem, np.setdiff1d(rows, fold), problem.start, S) for fold in folds]
    rounds: list[Round] = []
    best = 0
    for level in range(_LEVELS):
        log_noise = float(first + level * np.log(_FACTOR))
        total = 0.0
        for fold, descent in zip(folds, descents, strict=True):
            descent.to(log_noise, tol)
            total += descent.density(X[fold], y[fold], S[fold])
        rounds.append(Round(float(np.exp(log_noise)), input_std(S), total / n))
        best = max(range(level + 1), key=lambda k: rounds[k].score)
        if level - best >= _PATIENCE:
            break
    for level in range(best + 1):
        full.to(float(first + level * np.log(_FACTOR)), tol)
    return Learned(
        full.theta, start.input_cov, full.inputs, full.slopes(), rounds, best < len(rounds) - 1, full.n_iter
    )
