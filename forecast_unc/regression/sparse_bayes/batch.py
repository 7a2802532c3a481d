"""Batch trainers of sparse Bayesian learning: all alphas at once, from the full design down.

Columns leave for good when their alpha runs away; what is left is a local optimum of the evidence,
which depends on the start.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm, dgemv
from scipy.optimize import minimize

from forecast_unc._typing import Array
from forecast_unc.regression.sparse_bayes.model import (
    Evidence,
    Indices,
    Mask,
    NoisePrior,
    SparseModel,
    Statistics,
)

# A column leaves when the data determine its weight to less than this share (gamma): its alpha
# then grows without bound. EM approaches infinity like the number of iterations, so it needs a
# generous one, and the sign of q^2 - s to confirm it. These shares are choices, which guard
# against columns that leave too early and never come back.
_PRUNED, _PRUNED_EM, _PRUNED_DIRECT = 1e-6, 1e-2, 1e-5
# Nats that an iteration has to gain; a choice, small beside the 0.01 to 1 between local optima.
_TOLERANCE = 1e-6

Start = tuple[Array, float]  # precisions (M,) and log s^2
Step = Callable[[Statistics, NoisePrior, int], Start]


def em_step(at: Statistics, noise: NoisePrior, n: int) -> Start:
    """alpha = 1 / (mu^2 + Sigma_ii), s^2 = (|e|^2 + s^2 sum gamma) / n; raises the evidence.

    It takes hundreds of iterations to send a column out.
    """
    squares = at.squares + np.exp(at.log_var) * at.gamma.sum()
    return 1.0 / (at.mean**2 + at.variances), noise.update(squares, n, at.log_var)


def mackay_step(at: Statistics, noise: NoisePrior, n: int) -> Start:
    """alpha = gamma / mu^2, s^2 = |e|^2 / (n - sum gamma); faster than EM, and may overshoot."""
    gamma = np.maximum(at.gamma, 1e-15)
    # a weight of zero sends its alpha to infinity, in steps that keep the matrix regular
    updated = np.minimum(gamma / np.maximum(at.mean**2, 1e-300), 1e4 * at.alpha)
    return updated, noise.update(at.squares, n - gamma.sum(), at.log_var)


class Iterated(NamedTuple):
    """Where an iteration ended; `kept` are the positions that were not pruned."""

    kept: Indices
    alpha: Array
    log_var: float
    converged: bool
    n_iter: int

    def model(self) -> SparseModel:
        """The model, if the iteration began with all columns."""
        noise_var = float(np.exp(self.log_var))
        return SparseModel(self.kept, self.alpha, noise_var, self.converged, self.n_iter)


def iterate(
    evidence: Evidence, start: Start, noise: NoisePrior, step: Step, max_iter: int
) -> Iterated:
    """Repeat `em_step` or `mackay_step`, pruning, until the evidence stands still."""
    alpha, log_var = start[0], noise.within(start[1])
    kept, value, converged, n_iter = np.arange(len(alpha)), -np.inf, False, 0
    pruned = _PRUNED_EM if step is em_step else _PRUNED
    while n_iter < max_iter:
        n_iter += 1
        at = evidence.at(alpha, log_var)
        if at is None:
            break
        keep = _stays(at, pruned)
        if not keep.all():
            kept, alpha, evidence = kept[keep], alpha[keep], evidence.select(keep)
            at = evidence.at(alpha, log_var)
            if at is None:
                break
        objective = at.value + noise.terms(log_var)[0]
        if abs(objective - value) < _TOLERANCE:
            converged = True
            break
        value = objective
        alpha, log_var = step(at, noise, evidence.n)
    return Iterated(kept, alpha, log_var, converged, n_iter)


def _stays(at: Statistics, pruned: float) -> Mask:
    """False for columns whose alpha runs to infinity: gamma below a share, and q^2 <= s."""
    return np.asarray((at.gamma > pruned) | (at.by_log_alpha < 0))


def random_start(Phi: Array, y: Array, spread: float, rng: np.random.Generator) -> Start:
    """Start from equal shares of the variance of y, but for factors exp(spread N(0, 1))."""
    var = max(float(y @ y) / len(y), 1e-300)
    squares = np.einsum("ij,ij->j", Phi, Phi)
    alpha = np.maximum(squares, 1e-300) * np.count_nonzero(squares) / (len(y) * var)
    alpha = alpha * np.exp(spread * rng.standard_normal(len(alpha)))
    return alpha, float(np.log(0.1 * var) + spread * rng.standard_normal())


def fixed_point(
    Phi: Array, y: Array, noise: NoisePrior, start: Start, step: Step, max_iter: int
) -> SparseModel:
    """EM or MacKay's fixed point (Tipping 2001) from the full design (n, M) down."""
    return iterate(Evidence.of(Phi, y), start, noise, step, max_iter).model()


def subspace_em(
    Phi: Array,
    y: Array,
    noise: NoisePrior,
    start: Start,
    budget: int,
    order: Indices,
    max_iter: int,
) -> SparseModel:
    """EM on an active set that grows block by block and never exceeds a budget.

    Each cycle adds the next block of columns (a tenth of the budget) in their order, takes ten EM
    steps on the active set and drops what should leave; over the budget, the columns that the data
    determine least go. One pass over the columns, then EM on what is left; an iteration costs
    O(budget^3). Quinonero-Candela & Winther, NIPS 15 (2003).
    """
    initial, log_var = start
    block = max(1, budget // 10)
    active, alpha, n_iter = np.empty(0, dtype=np.intp), np.empty(0), 0
    for first in range(0, len(order), block):
        if n_iter >= max_iter:
            break
        # those that leave over the budget are the least determined of the old ones
        if len(active) > budget - block:
            at = Evidence.of(Phi[:, active], y).at(alpha, log_var)
            gamma = np.zeros(len(active)) if at is None else at.gamma
            kept = np.sort(np.argsort(-gamma, kind="stable")[: budget - block])
            active, alpha = active[kept], alpha[kept]
        new = order[first : first + block]
        active, alpha = np.concatenate([active, new]), np.concatenate([alpha, initial[new]])
        evidence = Evidence.of(Phi[:, active], y)
        end = iterate(evidence, (alpha, log_var), noise, em_step, min(10, max_iter - n_iter))
        active, alpha, log_var = active[end.kept], end.alpha, end.log_var
        n_iter += end.n_iter
    evidence = Evidence.of(Phi[:, active], y)
    end = iterate(evidence, (alpha, log_var), noise, em_step, max(max_iter - n_iter, 1))
    active = active[end.kept]
    sorting = np.argsort(active)
    total = n_iter + end.n_iter
    return end.model()._replace(active=active[sorting], alpha=end.alpha[sorting], n_iter=total)


def direct(Phi: Array, y: Array, noise: NoisePrior, start: Start, max_iter: int) -> SparseModel:
    """L-BFGS on the evidence in log alpha and log s^2, pruned between rounds of 50 iterations."""
    alpha, log_var, active = start[0], noise.within(start[1]), np.arange(Phi.shape[1])
    evidence = Evidence.of(Phi, y)
    n_iter, value, converged = 0, -np.inf, False
    while n_iter < max_iter and not converged:

        def objective(x: Array, evidence: Evidence = evidence) -> tuple[float, Array]:
            at = evidence.at(np.exp(x[:-1]), x[-1])
            if at is None:
                return np.inf, np.zeros(len(x))
            prior = noise.terms(x[-1])
            slope = np.append(at.by_log_alpha, at.by_log_var + prior[1])
            return -at.value - prior[0], -slope

        # beyond the upper bound a column has no part in the model
        top = np.log(np.diagonal(evidence.gram) + 1e-300) + 14.0 - log_var
        bottom = top - 60.0  # a flat prior long since; log alpha must not underflow
        search = minimize(
            objective,
            np.append(np.clip(np.log(alpha), bottom, top), log_var),
            jac=True,
            method="L-BFGS-B",
            bounds=[*zip(bottom, top, strict=True), noise.bounds()],
            options={"maxiter": min(50, max_iter - n_iter), "ftol": 1e-13, "gtol": 1e-6},
        )
        n_iter += max(int(search.nit), 1)
        alpha, log_var = np.exp(search.x[:-1]), float(search.x[-1])
        at = evidence.at(alpha, log_var)
        if at is not None:
            keep = _stays(at, _PRUNED_DIRECT)
            active, alpha, evidence = active[keep], alpha[keep], evidence.select(keep)
        converged = bool(-search.fun - value < 1e-5)
        value = -search.fun
    return SparseModel(active, alpha, float(np.exp(log_var)), converged, n_iter)


def shared(Phi: Array, y: Array, noise: NoisePrior) -> SparseModel:
    """One precision for all columns: the evidence maximized over (log alpha, log s^2).

    With the eigenvalues e_k of Phi Phi' and y in their basis, C has the eigenvalues
    s^2 + e_k / alpha, so that a value costs O(n); the best of a grid is refined.
    """
    n, M = Phi.shape
    y_squared = float(y @ y)
    if n <= M:
        values, vectors = eigh(dgemm(1.0, Phi, Phi, trans_b=1))
        rotated = (vectors.T @ y) ** 2
        rest, rest_n = 0.0, 0
    else:
        values, vectors = eigh(dgemm(1.0, Phi, Phi, trans_a=1))
        values = np.maximum(values, values[-1] * 1e-15)
        rotated = (vectors.T @ dgemv(1.0, Phi, y, trans=1)) ** 2 / values
        rest, rest_n = max(y_squared - rotated.sum(), 0.0), n - M
    values = np.maximum(values, 0.0)

    def objective(x: Array) -> tuple[float, Array]:
        signal, noise_var = values * np.exp(-x[0]), np.exp(x[1])
        var = signal + noise_var
        prior = noise.terms(x[1])
        value = np.log(var).sum() + (rotated / var).sum() + rest_n * x[1] + rest / noise_var
        pull = (1.0 - rotated / var) / var
        by_noise = noise_var * pull.sum() + rest_n - rest / noise_var
        return 0.5 * value - prior[0], np.array([-0.5 * signal @ pull, 0.5 * by_noise - prior[1]])

    var = max(y_squared / n, 1e-300)
    center = np.log(max(values.sum(), 1e-300) / (n * var))
    grid = [
        np.array([center + a, noise.within(np.log(var) + t)])
        for a in (-6.0, -3.0, 0.0, 3.0)
        for t in (-7.0, -4.0, -1.0)
    ]
    search = minimize(
        objective,
        min(grid, key=lambda x: objective(x)[0]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(center - 30.0, center + 30.0), noise.bounds()],
        options={"ftol": 1e-14, "gtol": 1e-7},
    )
    alpha, noise_var = np.full(M, np.exp(search.x[0])), float(np.exp(search.x[1]))
    return SparseModel(np.arange(M), alpha, noise_var, bool(search.success), int(search.nit))
