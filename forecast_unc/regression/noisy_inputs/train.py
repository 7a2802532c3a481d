"""Training on rows with noisy inputs: which trainer, and noise referred to the output (NIGP)."""

from functools import partial
from typing import Literal

import numpy as np

from forecast_unc._checks import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.noisy_inputs.evidence import (
    INPUT_STD_BOUNDS,
    Learned,
    Problem,
    Round,
    input_std,
)
from forecast_unc.regression.noisy_inputs.rows import referred
from forecast_unc.regression.noisy_inputs.true_inputs import learn_annealed, learn_stochastic_em
from forecast_unc.regression.search import SearchSpace

NoisyInputs = Literal["nigp", "annealed", "stochastic_em"]

# Rounds end when the std of no row's error changes by more than this share.
_TOLERANCE = 1e-3
_MOST_ROUNDS = 50
_START = 0.1  # std of standardized inputs


def train(
    kind: NoisyInputs,
    evidence: GaussianProcessEvidence,
    space: SearchSpace,
    start: Array,
    input_cov: Array | None,
    random_state: RandomState,
    tol: float,
) -> Learned:
    """Run a trainer on standardized data; those other than "nigp" start from what that finds.

    `start` (d + 2 + g,) is the theta of the fit without input noise, `input_cov` that if known.
    """
    problem = Problem(evidence, space, start, input_cov)
    found = learn_nigp(problem, tol)
    if kind == "annealed":
        found = learn_annealed(problem, found, tol)
    elif kind == "stochastic_em":
        found = learn_stochastic_em(problem, found, generator(random_state), tol)
    theta = found.theta.copy()
    theta[-1] = 0.5 * np.log(problem.scales(theta)[-1])
    return found._replace(theta=theta)


def learn_nigp(problem: Problem, tol: float) -> Learned:
    r"""Maximize the evidence of rows whose noise contains that of their inputs, in rounds.

    .. math::
        y \sim \mathcal N\bigl(0, K + \mathrm{diag}(s^2 + g_i' S g_i)\bigr), \qquad
        g_i = \nabla m(u_i), \quad S = \mathrm{diag}(\sigma_1^2, \dots, \sigma_d^2) .

    In a round the slopes g stay; then they become those of the new posterior mean m, half way from
    the second round on, since full steps may alternate between two states. Known S stay.

    References
    ----------
    McHutchon & Rasmussen, Gaussian process training with input noise, NIPS 24 (2011). There the
    search differentiates through the slopes; here the rounds go on to a fixed point.
    """
    X, theta, known = problem.X, problem.start.copy(), problem.input_cov
    slopes = problem.slopes(theta, X, problem(theta, X)[2].weights)
    log_std = np.full(X.shape[1] if known is None else 0, np.log(_START))
    rounds: list[Round] = []
    n_iter, converged, before = 0, False, np.zeros(len(X))
    while len(rounds) < _MOST_ROUNDS and not converged:
        terms_at = partial(nigp_terms, problem, slopes)
        bounds = np.tile(np.log(INPUT_STD_BOUNDS), (len(log_std), 1))
        theta, log_std, n_used = problem.search(terms_at, theta, log_std, bounds, tol)
        n_iter += n_used
        S = np.diag(np.exp(2.0 * log_std)) if known is None else known
        added = referred(slopes, S)
        terms, noise_var = problem(theta, X, added)[2], problem.scales(theta)[-1]
        rounds.append(Round(float(np.sqrt(noise_var)), input_std(S), -terms.value))
        now = 0.5 * np.log(noise_var + added)
        converged = len(rounds) > 1 and bool(np.abs(now - before).max() < _TOLERANCE)
        before, fresh = now, problem.slopes(theta, X, terms.weights)
        slopes = fresh if len(rounds) == 1 else 0.5 * (slopes + fresh)
    return Learned(theta, S, X, slopes, rounds, converged, n_iter)


def nigp_terms(
    problem: Problem, slopes: Array, theta: Array, log_std: Array
) -> tuple[float, Array, Array]:
    """-log(evidence prior) at slopes, and its gradients in theta and log stds (q,) to learn."""
    if problem.input_cov is not None:
        value, gradient, _ = problem(theta, problem.X, referred(slopes, problem.input_cov))
        return value, gradient, np.empty(0)
    each = slopes**2 * np.exp(2.0 * log_std)  # (n, d)
    value, gradient, terms = problem(theta, problem.X, each.sum(axis=1))
    penalty, pull = problem.input_prior(log_std)
    return value + penalty, gradient, 2.0 * terms.row_var @ each + pull
