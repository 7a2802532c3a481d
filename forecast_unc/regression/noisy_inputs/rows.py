"""Rows whose inputs are noisy, linearized: what a posterior is given in their place."""

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import check_covariance, refusal
from forecast_unc._typing import Array
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.process import GaussianProcess

# Gauss-Newton steps of the smoothed inputs at most, and the gain in squared stds that ends them.
_STEPS = 100
_LEAST_GAIN = 1e-9


def linearized(
    process: GaussianProcess, X: Array, y: Array, at: Array, slopes: Array, input_cov: Array
) -> KernelPosterior:
    r"""Posterior of rows whose input noise is referred to the output, by slopes g (n, d).

    With the true input x = u + delta, u observed and delta ~ N(0, S), and an input x-bar,

    .. math:: y = f(\bar x) + g \cdot (u - \bar x) + g \cdot \delta + \varepsilon :

    a row `at` x-bar, with the target y - g.(u - x-bar) and the variance s^2 + g' S g.
    """
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
    through = (
        slope @ input_cov if input_cov.ndim == 2 else np.einsum("nd,nde->ne", slope, input_cov)
    )
    return np.asarray(np.einsum("nd,nd->n", through, slope))


def smoothed_inputs(
    curve: KernelPosterior, X: Array, y: Array, input_cov: Array, noise_var: float
) -> Array:
    r"""Inputs (n, d) where (y - m(x))^2 / s^2 + (u - x)' S^-1 (u - x) is least, u as observed.

    Gauss-Newton steps, halved where they do not gain, without an inverse as x = u + S c:

    .. math:: \bar x \leftarrow u + S g\, \frac{y - m(\bar x) - g \cdot (u - \bar x)}{s^2 + g' S g}
    """
    S = np.broadcast_to(input_cov, (len(X), *input_cov.shape[-2:]))

    def loss(c: Array) -> tuple[Array, Array, Array]:
        """Of each row, with its residual and input."""
        shift = np.einsum("nde,ne->nd", S, c)
        residual = y - curve.mean(X + shift)
        return residual**2 / noise_var + np.einsum("nd,nd->n", c, shift), residual, X + shift

    c, size = np.zeros_like(X), np.ones(len(X))
    least, residual, x = loss(c)
    for _ in range(_STEPS):
        slope = curve.gradient(x)
        innovation = residual - np.einsum("nd,nd->n", slope, X - x)
        target = slope * (innovation / (noise_var + referred(slope, S)))[:, None]
        moved = c + size[:, None] * (target - c)
        now = loss(moved)
        gains = now[0] < least
        if float(np.max(np.abs(now[0] - least))) < _LEAST_GAIN:
            break
        c = np.where(gains[:, None], moved, c)
        x, residual = np.where(gains[:, None], now[2], x), np.where(gains, now[1], residual)
        least, size = np.where(gains, now[0], least), np.where(gains, 1.0, 0.5 * size)
    return np.asarray(x)


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
