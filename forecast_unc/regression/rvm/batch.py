"""Batch trainers of sparse Bayesian learning: all alphas at once, and length-scales with them."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm
from scipy.optimize import minimize

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.regression.kernels import inverse, mirrored
from forecast_unc.regression.rvm.sparse_evidence import (
    Bases,
    Evidence,
    NoisePrior,
    SparseModel,
    Statistics,
    weight_posterior,
)
from forecast_unc.regression.search import LOG_STD

Start = tuple[Array, float]  # precisions (M,) and log s^2
Charged = tuple[float, Array, Array]
Step = Callable[[Statistics, NoisePrior, Evidence], Start]

# A column leaves when the data determine its weight to less than this share (gamma): its alpha
# then grows without bound. EM approaches infinity like the number of iterations, so it needs a
# generous one, and the sign of q^2 - s to confirm it. These shares are choices, which guard
# against columns that leave too early and never come back.
_PRUNED = {"mackay": 1e-6, "em": 1e-2, "gradient": 1e-5}

_lbfgs = partial(minimize, jac=True, method="L-BFGS-B")


def em_step(at: Statistics, noise: NoisePrior, evidence: Evidence) -> Start:
    """alpha = 1 / (mu^2 + Sigma_ii), s^2 = (|e|^2 + s^2 sum gamma) / n; raises the objective."""
    moments, slopes = (
        at.mean**2 + at.variances,
        noise.charges(at.alpha, at.log_var, evidence.squares)[1],
    )
    # the charge is convex in 1 / alpha and in 1 / s^2: its tangents are below it
    alpha = (1.0 + np.sqrt(1.0 + 8.0 * at.alpha * slopes * moments)) / (2.0 * moments)
    slopes = noise.charges(alpha, at.log_var, evidence.squares)[1]
    squares = at.squares + np.exp(at.log_var) * (at.gamma.sum() + 2.0 * slopes.sum())
    return alpha, noise.update(squares, evidence.n)


def mackay_step(at: Statistics, noise: NoisePrior, evidence: Evidence) -> Start:
    """alpha = gamma / mu^2, s^2 = |e|^2 / (n - sum gamma); faster than EM, and may overshoot."""
    slopes = noise.charges(at.alpha, at.log_var, evidence.squares)[1]
    gamma = np.maximum(at.gamma, 1e-15)
    # a weight of zero sends its alpha to infinity, in steps that keep the matrix regular
    updated = (gamma + 2.0 * slopes) / np.maximum(at.mean**2, 1e-300)
    updated = np.minimum(updated, 1e4 * at.alpha)
    squares = at.squares + 2.0 * np.exp(at.log_var) * slopes.sum()
    return updated, noise.update(squares, evidence.n - gamma.sum())


def fixed_point(
    evidence: Evidence, noise: NoisePrior, start: Start, step: Step, max_iter: int
) -> SparseModel:
    """Repeat `em_step` or `mackay_step`, pruning, until the evidence rests (Tipping 2001)."""
    alpha, log_var = start[0], noise.within(start[1])
    kept, value, converged, n_iter = np.arange(len(alpha)), -np.inf, False, 0
    pruned = _PRUNED["em" if step is em_step else "mackay"]
    while n_iter < max_iter and not converged:
        n_iter += 1
        at = evidence.at(alpha, log_var)
        if at is not None and not (keep := _stays(at, pruned)).all():
            kept, alpha, evidence = kept[keep], alpha[keep], evidence.select(keep)
            at = evidence.at(alpha, log_var)
        if at is None:
            break
        last, value = value, evidence.objective(at, noise)
        # a choice, small beside the 0.01 to 1 nats between local optima
        converged = abs(value - last) < 1e-6
        if not converged:
            alpha, log_var = step(at, noise, evidence)
    return SparseModel(kept, alpha, float(np.exp(log_var)), converged, n_iter)


def _stays(at: Statistics, pruned: float) -> Flags:
    """False for columns whose alpha runs to infinity: gamma below a share, and q^2 <= s."""
    return np.asarray((at.gamma > pruned) | (at.by_log_alpha < 0))


def random_start(Phi: Array, y: Array, spread: float, rng: np.random.Generator) -> Start:
    """Start from equal shares of the variance of y, but for factors exp(spread N(0, 1))."""
    var = max(float(y @ y) / len(y), 1e-300)
    squares = np.einsum("ij,ij->j", Phi, Phi)
    alpha = np.maximum(squares, 1e-300) * np.count_nonzero(squares) / (len(y) * var)
    alpha = alpha * np.exp(spread * rng.standard_normal(len(alpha)))
    return alpha, float(np.log(0.1 * var) + spread * rng.standard_normal())


def subspace_em(
    Phi: Array, y: Array, noise: NoisePrior, start: Start, budget: int, max_iter: int
) -> SparseModel:
    """EM on blocks of columns within a budget: Quinonero-Candela & Winther, NIPS 15 (2003)."""
    block, columns = max(1, budget // 10), np.arange(Phi.shape[1])

    def iterated(active: Positions, alpha: Array, noise_var: float, most: int) -> SparseModel:
        own, start = Evidence.of(Phi[:, active], y), (alpha, float(np.log(noise_var)))
        end = fixed_point(own, noise, start, em_step, most)
        return end._replace(active=active[end.active])

    model, n_iter = SparseModel(columns[:0], np.empty(0), np.exp(start[1]), False, 0), 0
    for first in range(0, len(columns), block):
        if n_iter >= max_iter:
            break
        active, alpha, noise_var, *_ = model
        # those that leave over the budget are the least determined of the old ones
        if len(active) > budget - block:
            at = Evidence.of(Phi[:, active], y).at(alpha, np.log(noise_var))
            gamma = np.zeros(len(active)) if at is None else at.gamma
            kept = np.sort(np.argsort(-gamma, kind="stable")[: budget - block])
            active, alpha = active[kept], alpha[kept]
        new = columns[first : first + block]
        active, alpha = np.concatenate([active, new]), np.concatenate([alpha, start[0][new]])
        model = iterated(active, alpha, noise_var, min(10, max_iter - n_iter))
        n_iter += model.n_iter
    model = iterated(*model[:3], max(max_iter - n_iter, 1))
    return model.sorted()._replace(n_iter=n_iter + model.n_iter)


def direct(Phi: Array, y: Array, noise: NoisePrior, start: Start, max_iter: int) -> SparseModel:
    """L-BFGS on the evidence in log alpha and log s^2, pruned between rounds of 50 iterations."""
    alpha, log_var = start[0], noise.within(start[1])
    active, evidence = np.arange(Phi.shape[1]), Evidence.of(Phi, y)
    n_iter, value, converged = 0, -np.inf, False
    while n_iter < max_iter and not converged:

        def objective(x: Array, evidence: Evidence = evidence) -> tuple[float, Array]:
            at = evidence.at(np.exp(x[:-1]), x[-1])
            if at is None:
                return np.inf, np.zeros(len(x))
            slopes = noise.charges(at.alpha, at.log_var, evidence.squares)[1]
            by_log_var = at.by_log_var + noise.terms(x[-1])[1] + slopes.sum()
            gradient = np.append(at.by_log_alpha + slopes, by_log_var)
            return -evidence.objective(at, noise), -gradient

        # beyond the upper bound a column has no part in the model
        top = np.log(np.diagonal(evidence.gram) + 1e-300) + 14.0 - log_var
        bottom = top - 60.0  # a flat prior long since; log alpha must not underflow
        first = np.append(np.clip(np.log(alpha), bottom, top), log_var)
        bounds = [*zip(bottom, top, strict=True), noise.bounds()]
        options = {"maxiter": min(50, max_iter - n_iter), "ftol": 1e-13, "gtol": 1e-6}
        search = _lbfgs(objective, first, bounds=bounds, options=options)
        n_iter += max(int(search.nit), 1)
        alpha, log_var = np.exp(search.x[:-1]), float(search.x[-1])
        at = evidence.at(alpha, log_var)
        if at is not None:
            keep = _stays(at, _PRUNED["gradient"])
            active, alpha, evidence = active[keep], alpha[keep], evidence.select(keep)
        converged = bool(-search.fun - value < 1e-5)
        value = -search.fun
    return SparseModel(active, alpha, float(np.exp(log_var)), converged, n_iter)


def shared(Phi: Array, y: Array, noise: NoisePrior) -> SparseModel:
    """One precision for all columns: C has the eigenvalues s^2 + e_k / alpha, e_k of Phi Phi'."""
    n, M = Phi.shape
    values, vectors = eigh(dgemm(1.0, Phi, Phi, trans_b=1))
    values, rotated = np.maximum(values, 0.0), (vectors.T @ y) ** 2

    def objective(x: Array) -> tuple[float, Array]:
        signal, noise_var = values * np.exp(-x[0]), np.exp(x[1])
        var = signal + noise_var
        log_prior, slope, _ = noise.terms(x[1])
        value = np.log(var).sum() + (rotated / var).sum()
        pull = (1.0 - rotated / var) / var
        by_noise = 0.5 * noise_var * pull.sum() - slope
        return 0.5 * value - log_prior, np.array([-0.5 * signal @ pull, by_noise])

    var = max(float(y @ y) / n, 1e-300)
    center = np.log(max(values.sum(), 1e-300) / (n * var))
    grid = [
        np.array([center + a, noise.within(np.log(var) + t)])
        for a in (-6.0, -3.0, 0.0, 3.0)
        for t in (-7.0, -4.0, -1.0)
    ]
    best = min(grid, key=lambda x: objective(x)[0])
    bounds = [(center - 30.0, center + 30.0), noise.bounds()]
    search = _lbfgs(objective, best, bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-7})
    alpha, noise_var = np.full(M, np.exp(search.x[0])), float(np.exp(search.x[1]))
    return SparseModel(np.arange(M), alpha, noise_var, bool(search.success), int(search.nit))


def lengthscale_evidence(
    Z: Array, y: Array, bases: Bases, lengthscales: Array, alpha: Array, noise_var: float
) -> tuple[float, Array]:
    """Log evidence and its gradient in (log l, log alpha, log s^2), (d + m + 1,)."""
    centers, m = bases.centers, len(bases.centers)
    Phi = bases.at(Z, lengthscales)
    posterior = weight_posterior(Phi, y, alpha, noise_var)
    cov = mirrored(inverse(posterior.chol))
    residual = y - Phi @ posterior.mean
    gamma = 1.0 - alpha * np.diagonal(cov)
    by_alpha = 0.5 * (gamma - alpha * posterior.mean**2)
    by_noise = 0.5 * (residual @ residual / noise_var - len(y) + gamma.sum())
    # D = beta (e mu' - Phi Sigma) o Phi, times (z_d - c_d)^2 / l_d^2
    D = np.multiply.outer(residual, posterior.mean[:m])
    D -= dgemm(1.0, Phi, np.asfortranarray(cov[:, :m]))
    D *= Phi[:, :m] / noise_var
    by_scale = _squared_distances(D, Z, centers) / lengthscales**2
    gradient = np.concatenate([by_scale, by_alpha, [by_noise]])
    return posterior.log_evidence, gradient


class Prior(NamedTuple):
    """Medians (d,) of the length-scales, and the prior of the noise."""

    center: Array
    noise: NoisePrior


def _charged(Z: Array, bases: Bases, at: Start, scales: Array, noise: NoisePrior) -> Charged:
    """Log prior of the precisions, its slopes (m,) in log alpha and (d,) in log length-scales."""
    Phi, m = bases.at(Z, scales), len(bases.centers)
    squares = np.einsum("ij,ij->j", Phi, Phi)
    value, slopes, _ = noise.charges(*at, squares)
    # falls where |phi_i|^2 grows, by 2 sum_n phi_ni^2 (z_nd - c_id)^2 / l_d^2 in log l_d
    D = Phi[:, :m] ** 2 * (-2.0 * slopes[:m] / squares[:m])
    return value, slopes, _squared_distances(D, Z, bases.centers) / scales**2


def _squared_distances(D: Array, Z: Array, centers: Array) -> Array:
    """sum_ni D_ni (z_nd - c_id)^2, (d,)."""
    out: Array = D.sum(axis=1) @ Z**2 + D.sum(axis=0) @ centers**2
    out -= 2.0 * np.einsum("nd,nd->d", Z, D @ centers)
    return out


def adapt(
    Z: Array, y: Array, model: SparseModel, bases: Bases, lengthscales: Array, prior: Prior
) -> tuple[SparseModel, Array]:
    """Model and length-scales (d,) of higher evidence and prior; same bases."""
    d, (center, noise) = Z.shape[1], prior

    def objective(x: Array) -> tuple[float, Array]:
        scales, alpha, noise_var = np.exp(x[:d]), np.exp(x[d:-1]), float(np.exp(x[-1]))
        value, gradient = lengthscale_evidence(Z, y, bases, scales, alpha, noise_var)
        # without a prior an input that hardly matters sends its length-scale to infinity
        z = (x[:d] - np.log(center)) / LOG_STD
        log_prior, slope, _ = noise.terms(x[-1])
        if noise.charge:
            charged, slopes, by_scale = _charged(Z, bases, (alpha, x[-1]), scales, noise)
            log_prior += charged
            gradient += np.concatenate([by_scale, slopes, [slopes.sum()]])
        gradient[:d] -= z / LOG_STD
        gradient[-1] += slope
        return float(0.5 * z @ z) - value - log_prior, -gradient

    start = np.log(np.concatenate([lengthscales, model.alpha, [model.noise_var]]))
    # within a factor 20 of the start, so that every factorization stays possible
    bounds = [*((v - 3.0, v + 3.0) for v in start[:-1]), noise.bounds()]
    x = _lbfgs(objective, start, bounds=bounds, options={"maxiter": 60, "ftol": 1e-11}).x
    adapted = model._replace(alpha=np.exp(x[d:-1]), noise_var=float(np.exp(x[-1])))
    return adapted, np.exp(x[:d])
