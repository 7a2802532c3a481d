r"""Sparse Bayesian learning for two classes: Laplace's approximation inside, precisions outside.

At the mode w* of the weights, f = Phi w*, y = sigma(f) and B = diag(y (1 - y)), this is regression
on the working target f + B^-1 (t - y) with noise variances B^-1: the rules of regression apply.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.special import expit, log_expit, log_ndtr, logsumexp

from forecast_unc._typing import Array, Positions
from forecast_unc.regression.rvm import sparse_evidence
from forecast_unc.regression.rvm.sparse_evidence import Evidence, NoisePrior, SparseModel

# Largest gain, in nats, that a single change of one alpha may still offer at the end; in terms of
# the conditions, q^2 < (1 + 2.1e-3) s outside the model.
GAIN_TOLERANCE = 1e-6
_UNIT_NOISE = NoisePrior(median=1.0, log_std=1.0, floor=1.0, ceiling=1.0)

Start = tuple[Positions, Array]  # columns (m,), ascending, and their precisions (m,)


class LaplacePosterior(NamedTuple):
    """Gaussian at the mode of the weights."""

    mean: Array  # (m,), the mode
    chol: Array  # (m, m), lower triangular L, L L' = I + A^-1/2 Phi' B Phi A^-1/2
    log_evidence: float
    latent: Array  # (n,), f at the mode
    residual: Array  # (n,), t - y
    curvature: Array  # (n,), the diagonal of B

    def prior_share(self) -> Array:
        """alpha_i Sigma_ii, which is 1 - gamma_i, of shape (m,)."""
        return np.diagonal(dpotri(self.chol, lower=1)[0]).copy() if len(self.chol) else np.zeros(0)


def laplace(Phi: Array, signs: Array, alpha: Array, start: Array | None = None) -> LaplacePosterior:
    """Mode of the weights of Phi (n, m) for labels -1 and 1, and Laplace's log evidence there."""
    m = Phi.shape[1]
    # In v = A^(1/2) w the objective sum log sigma(s_n f_n) - |v|^2 / 2 has no eigenvalue of its
    # Hessian -(I + D Phi' B Phi D), D = A^(-1/2), above -1: no alpha is too small or too large.
    scaled = np.asfortranarray(Phi / np.sqrt(alpha))
    v = np.zeros(m) if start is None else start * np.sqrt(alpha)
    f, chol = scaled @ v, np.zeros((0, 0), order="F")

    def log_posterior(f: Array, v: Array) -> float:
        return float(-np.logaddexp(0.0, -signs * f).sum() - 0.5 * v @ v)

    for _ in range(100):
        # first and minus second derivative of log sigma, without cancellation at large |f|
        wrong = expit(-signs * f)
        residual, curvature, value = signs * wrong, wrong * expit(signs * f), log_posterior(f, v)
        if not m:  # BLAS refuses empty arrays
            break
        weighted = np.asfortranarray(scaled * np.sqrt(curvature)[:, None])
        matrix = dgemm(1.0, weighted, weighted, trans_a=1)
        matrix.ravel(order="K")[:: m + 1] += 1.0
        chol = dpotrf(matrix, lower=1, clean=1, overwrite_a=1)[0]
        gradient = scaled.T @ residual - v
        step: Array = dpotrs(chol, gradient, lower=1)[0]
        promised = float(gradient @ step)
        # A last step of 1e-10 prior standard deviations, a choice: Newton's method converges
        # quadratically, and the gradient of the evidence assumes the mode.
        if promised < 1e-20:
            break
        along, size = scaled @ step, 1.0
        while size >= 1e-10:
            tried = log_posterior(f + size * along, v + size * step)
            if tried >= value + 1e-4 * size * promised:
                break
            size *= 0.5
        # near the mode the objective is flat to roundoff, and the full step is the right one
        v = v + (1.0 if promised < 1e-8 else size) * step
        f = scaled @ v
    log_evidence = float(value - np.log(np.diagonal(chol)).sum())
    return LaplacePosterior(v / np.sqrt(alpha), chol, log_evidence, f, residual, curvature)


def sparsity_and_quality(
    Phi: Array, active: Positions, alpha: Array, posterior: LaplacePosterior
) -> tuple[Array, Array]:
    """Sparsity s and quality q, each (M,), of all columns at the mode (Bishop 2006, 7.2.3)."""
    s = posterior.curvature @ Phi**2
    q = Phi.T @ posterior.residual
    if len(active):
        weighted = Phi[:, active] * (posterior.curvature[:, None] / np.sqrt(alpha))
        cross = dgemm(1.0, np.asfortranarray(weighted), Phi, trans_a=1)
        whitened = dtrsm(1.0, posterior.chol, cross, lower=1, overwrite_b=1)
        s -= np.einsum("ij,ij->j", whitened, whitened)
        # inside, 1 / Sigma_ii - alpha and mu / Sigma_ii say the same without alpha - S
        share = posterior.prior_share()
        s[active] = alpha * (1.0 - share) / share
        q[active] = alpha * posterior.mean / share
    return s, q


def charge_squares(Phi: Array) -> Array:
    """|phi_i|^2 at even odds, where B = 1/4, by which the smooth prior measures alpha_i."""
    return np.asarray(0.25 * np.maximum(np.einsum("ij,ij->j", Phi, Phi), 1e-300))


def best_action(
    Phi: Array, alpha: Array, posterior: LaplacePosterior, charge: float = 0.0
) -> tuple[Array, float]:
    """Alphas (M,) after the best change, a column in, out or all re-estimated, and its nats."""
    active = np.flatnonzero(np.isfinite(alpha))
    s, q = sparsity_and_quality(Phi, active, alpha[active], posterior)
    # in the span of the model s and q are roundoff
    size = posterior.curvature.max() * np.einsum("ij,ij->j", Phi, Phi)
    candidate = np.isfinite(alpha) | (s > sparse_evidence.SPAN_TOLERANCE * size)
    with np.errstate(divide="ignore", invalid="ignore"):  # eq. 20
        target = np.where(candidate & (q * q > s), s * s / (q * q - s), np.inf)
    unit = 1.0 / charge_squares(Phi)
    if charge:
        best_alone = sparse_evidence.best_precisions(s, q, unit, charge)[0]
        target = np.where(candidate, best_alone, np.inf)

    def contribution(alpha: Array) -> Array:
        """Part of the log evidence of the regression that depends on alpha_i; 0 at infinity."""
        of_evidence = 0.5 * (q * q / (alpha + s) - np.log1p(s / alpha))
        return np.asarray(of_evidence - charge / (1.0 + unit * alpha))

    gains = contribution(target) - contribution(alpha)
    best = int(np.argmax(gains))
    changed = alpha.copy()
    changed[best] = target[best]
    if np.isfinite(alpha[best]) and np.isfinite(target[best]):
        joint = _reestimated(Phi[:, active], alpha[active], posterior, charge)
        if joint is not None:
            changed[active] = joint
    return changed, float(gains[best])


def _reestimated(
    Phi: Array, alpha: Array, posterior: LaplacePosterior, charge: float
) -> Array | None:
    """Precisions that maximize the evidence of the regression together; infinite where deleted."""
    B, f, residual = posterior.curvature, posterior.latent, posterior.residual
    weighted = np.asfortranarray(Phi * np.sqrt(B)[:, None])
    gram: Array = dgemm(1.0, weighted, weighted, trans_a=1)
    projection = dgemv(1.0, np.asfortranarray(Phi), B * f + residual, trans=1)
    wrong = np.abs(residual)
    # B (f + r / B)^2, with r^2 / B = |r| / (1 - |r|) whatever underflows
    y_squared = float(np.sum(B * f * f + 2.0 * f * residual + wrong / (1.0 - wrong)))
    evidence = Evidence(gram, projection, y_squared, len(f), charge_squares(Phi))
    prior = _UNIT_NOISE._replace(charge=charge)
    found = sparse_evidence.maximize(evidence, alpha, 0.0, prior, 1e-8)
    if found is None:
        return None
    out = np.full(len(alpha), np.inf)
    out[found.active] = found.at.alpha
    return out


def log_prior(Phi: Array, alpha: Array, charge: float) -> float:
    """Log prior of the precisions of Phi (n, m), up to a constant."""
    return _UNIT_NOISE._replace(charge=charge).charges(alpha, 0.0, charge_squares(Phi))[0]


def train_sequential(
    Phi: Array, signs: Array, start: Start, max_iter: int, charge: float = 0.0
) -> SparseModel:
    """The best action each time, then the mode again, until none gains over `GAIN_TOLERANCE`."""
    # The start is not empty: of very wide bases no first column gains alone.
    M = Phi.shape[1]
    alpha, mean = np.full(M, np.inf), np.zeros(M)
    alpha[start[0]] = start[1]
    best, highest = SparseModel(*start, 1.0, False, 0), -np.inf
    for n_iter in range(1, max_iter + 1):
        active = np.flatnonzero(np.isfinite(alpha))
        posterior = laplace(Phi[:, active], signs, alpha[active], mean[active])
        changed, gain = best_action(Phi, alpha, posterior, charge)
        if gain <= GAIN_TOLERANCE:
            return SparseModel(active, alpha[active], 1.0, True, n_iter)
        objective = posterior.log_evidence + log_prior(Phi[:, active], alpha[active], charge)
        if objective > highest + GAIN_TOLERANCE:
            highest = objective
            best = SparseModel(active, alpha[active], 1.0, False, n_iter)
        # the rules, which hold B fixed, may undo each other; 50 is a choice
        if n_iter == best.n_iter + 50:
            break
        mean[:] = 0.0
        mean[active] = posterior.mean
        alpha = changed
    return best._replace(n_iter=n_iter)


def train_mackay(
    Phi: Array, signs: Array, start: Start, max_iter: int, charge: float = 0.0
) -> SparseModel:
    """All alphas at once, alpha = gamma / mu^2 (MacKay 1992, Tipping 2001), until they rest."""
    active, alpha = start
    mean = np.zeros(len(active))
    for n_iter in range(1, max_iter + 1):
        posterior = laplace(Phi[:, active], signs, alpha, mean)
        gamma = np.maximum(1.0 - posterior.prior_share(), 1e-15)
        # a weight of zero sends its alpha to infinity, in steps
        prior = _UNIT_NOISE._replace(charge=charge)
        slopes = prior.charges(alpha, 0.0, charge_squares(Phi[:, active]))[1]
        pull = gamma + 2.0 * slopes
        ratio = np.minimum(pull / np.maximum(alpha * posterior.mean**2, 1e-300), 1e4)
        # choices, a hundred times those of regression, since each iteration costs a mode
        kept = (gamma > 1e-4) | (ratio < 1.0)
        if kept.all() and np.abs(np.log(ratio)).max(initial=0.0) < 1e-4:
            return SparseModel(active, alpha, 1.0, True, n_iter)
        active, alpha, mean = active[kept], (alpha * ratio)[kept], posterior.mean[kept]
    return SparseModel(active, alpha, 1.0, False, max_iter)


def equal_shares(Phi: Array, columns: Positions) -> Start:
    """Some columns, those of zeros left out, which share a prior variance of f of one equally."""
    squares = np.einsum("ij,ij->j", Phi[:, columns], Phi[:, columns])
    columns, squares = columns[squares > 0], squares[squares > 0]
    return columns, squares * len(columns) / len(Phi)


def log_mean_sigmoid(mean: Array, var: Array) -> Array:
    """log E sigma(f), f ~ N(mean, var), each (k,), by the trapezoidal rule: 1e-12 of E."""
    std, out = np.sqrt(var), np.empty(len(mean))
    wide = std > 1.0
    z, m, s = 0.25 * np.arange(-36, 37), mean[~wide, None], std[~wide, None]
    terms = log_expit(m + s * z) - 0.5 * z**2
    out[~wide] = logsumexp(terms, axis=1) + np.log(0.25 / np.sqrt(2.0 * np.pi))
    # sigma(f) = P(l < f) of a logistic l: smooth in l, where sigma would be a step in z
    m, s = mean[wide, None], std[wide, None]
    at = np.minimum(m + s**2, 0.0) + 0.5 * np.arange(-90, 91)
    terms = log_ndtr((m - at) / s) + log_expit(at) + log_expit(-at)
    out[wide] = logsumexp(terms, axis=1) + np.log(0.5)
    return out
