"""Evidence of rows with noisy inputs, and the posterior of rows linearized in their place."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import check_covariance, refusal
from forecast_unc._typing import Array
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.kernels import blurred
from forecast_unc.regression.search import Evidence


class Round(NamedTuple):
    """One round of a trainer, or one level of the output noise."""

    noise_std: float  # s, in units of y
    input_std: Array  # (d,), root mean square over the rows, in units of the inputs
    score: float  # log evidence, "annealed" mean log density of held-out targets; standardized


def blurred_evidence(plain: GaussianProcessEvidence, v: Array) -> Evidence:
    """The evidence of inputs known up to noise of variances v (d,): theory/noisy_inputs.md."""

    def evidence(
        lengthscales: Array, amplitude: float, linear_scale: Array | float, noise_std: float
    ) -> tuple[float, Array]:
        d, tau = len(lengthscales), np.atleast_1d(np.asarray(linear_scale, dtype=np.float64))
        L, A = blurred(lengthscales, amplitude, 2.0 * v)
        by_group = np.bincount(plain.groups + 1, v, len(tau) + 1)[1:]
        added, lost = plain.linear * tau**2 * by_group, amplitude**2 - A**2
        noise_var = noise_std**2 + lost + added.sum()
        value, g = plain(L, A, tau, float(np.sqrt(noise_var)))
        share = v / L**2  # d log A / d log l
        gradient = g.copy()
        gradient[:d] = g[:d] * (lengthscales / L) ** 2 + share * (g[d] - g[-1] * A**2 / noise_var)
        gradient[d] += g[-1] * lost / noise_var
        gradient[d + 1 : -1] += g[-1] * added / noise_var
        gradient[-1] *= noise_std**2 / noise_var
        return value, gradient

    return evidence


def linearized(
    process: GaussianProcess, X: Array, y: Array, at: Array, slopes: Array, input_cov: Array
) -> KernelPosterior:
    """Posterior of rows `at` inputs x-bar, input noise referred to the output by slopes (n, d)."""
    targets = y - np.einsum("nd,nd->n", slopes, X - at)
    row_var = process.noise_std**2 + referred(slopes, input_cov)
    return process.posterior(at, targets, row_var=row_var)


def log_evidence(posterior: KernelPosterior, amplitude: float) -> float:
    """log N(r | 0, K) of the centered targets of a posterior: |L' b|^2 = r' K^-1 r, b = K^-1 r."""
    chol = posterior.factors[0].chol
    n = len(chol)
    whitened = chol.T @ (posterior.weights[:n] / amplitude**2)
    log_det = 2.0 * np.log(np.diagonal(chol)).sum()
    return -0.5 * float(whitened @ whitened + log_det + n * np.log(2.0 * np.pi))


def referred(slope: Array, input_cov: Array) -> Array:
    """Variance g' S g that input noise has at the output, (n,), for slopes (n, d)."""
    subscripts = "nd,de->ne" if input_cov.ndim == 2 else "nd,nde->ne"
    return np.asarray(np.einsum("nd,nd->n", np.einsum(subscripts, slope, input_cov), slope))


def smoothed_inputs(
    curve: KernelPosterior, X: Array, y: Array, input_cov: Array, noise_var: float
) -> Array:
    """Inputs (n, d) where (y - m(x))^2 / s^2 + (u - x)' S^-1 (u - x) is least, u as observed."""
    S = np.broadcast_to(input_cov, (len(X), *input_cov.shape[-2:]))

    def loss(c: Array) -> tuple[Array, Array, Array]:
        """Loss, residual and input of each row."""
        shift = np.einsum("nde,ne->nd", S, c)
        residual = y - curve.mean(X + shift)
        return residual**2 / noise_var + np.einsum("nd,nd->n", c, shift), residual, X + shift

    # Gauss-Newton steps, halved where they do not gain, in x = u + S c: without an inverse
    c, size = np.zeros_like(X), np.ones(len(X))
    least, residual, x = loss(c)
    for _ in range(100):
        slope = curve.gradient(x)
        innovation = residual - np.einsum("nd,nd->n", slope, X - x)
        target = slope * (innovation / (noise_var + referred(slope, S)))[:, None]
        moved = c + size[:, None] * (target - c)
        now = loss(moved)
        gains = now[0] < least
        if float(np.max(np.abs(now[0] - least))) < 1e-9:  # squared stds
            break
        c[gains], x[gains] = moved[gains], now[2][gains]
        residual[gains], least[gains] = now[1][gains], now[0][gains]
        size = np.where(gains, 1.0, 0.5 * size)
    return x


def check_input_cov(
    input_cov: ArrayLike | None, shape: tuple[int, ...], diagonal: bool
) -> Array | None:
    """Noise of inputs of a shape (n, d), (d, d) or (n, d, d); `diagonal` if it has to be (d,)."""
    if input_cov is None:
        return None
    n, d = shape
    S = np.asarray(input_cov, dtype=np.float64)
    if S.shape not in ((d,), (d, d), (n, d, d)):
        must = f"have shape ({d},), ({d}, {d}) or ({n}, {d}, {d})"
        remedy = "Give variances, a covariance for all rows, or one for each."
        raise refusal("input_cov", must, f"{S.shape}", remedy)
    if not np.isfinite(S).all():
        remedy = "Leave rows without an input out."
        raise refusal("input_cov", "be finite", "NaN or infinity", remedy)
    S = np.diag(S) if S.shape == (d,) else S
    for each in S.reshape(-1, d, d):
        check_covariance("input_cov", each)
    if diagonal and (S.ndim == 3 or np.count_nonzero(S - np.diag(np.diagonal(S)))):
        must = "be the same variances for all rows with noisy_inputs=None"
        remedy = "Use noisy_inputs='nigp' for others."
        raise refusal("input_cov", must, f"shape {np.shape(input_cov)}", remedy)
    return S
