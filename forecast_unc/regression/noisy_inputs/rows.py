"""Rows whose inputs are noisy: what a posterior is given in their place."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dtrsv

from forecast_unc._checks import check_covariance, refusal
from forecast_unc._typing import Array
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.process import GaussianProcess

# Gauss-Newton steps of the smoothed inputs at most, and the gain in squared stds that ends them.
_STEPS = 100
_LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class BlurredRows:
    """Rows whose inputs have known noise, by the kernel's expectation; see `GaussianProcess`."""

    process: GaussianProcess
    blur: Array  # (d,), variances

    def posterior(self, X: Array, y: Array, input_cov: Array | None = None) -> KernelPosterior:
        """Given inputs as observed and targets."""
        blur = self.blur if input_cov is None else np.diagonal(input_cov)
        return self.process.posterior(X, y, blur=blur)


@dataclass(frozen=True)
class LinearizedRows:
    r"""Rows whose input noise is referred to the output, by the slope g of a mean function m.

    With the true input x = u + delta, u observed and delta ~ N(0, S),

    .. math:: y = f(\bar x) + g \cdot (u - \bar x) + g \cdot \delta + \varepsilon, \quad
        g = \nabla m(\bar x) :

    a row at the input x-bar, with the target y - g.(u - x-bar) and the variance s^2 + g' S g. The
    input x-bar is u itself or, smoothed, the one that is most probable given y on the curve m. m is
    part of what was learned: it stays as it was at the fit, so that a row always means the same.
    """

    process: GaussianProcess
    curve: KernelPosterior  # whose mean is m; it has no more than its mean
    input_cov: Array  # (d, d), S of every row, or (n, d, d), of each of those of the fit
    smoothed: bool  # whether x-bar is smoothed

    @classmethod
    def of(
        cls,
        process: GaussianProcess,
        X: Array,
        y: Array,
        inputs: Array,
        slopes: Array,
        input_cov: Array,
        smoothed: bool,
    ) -> Self:
        """Rows by the curve through them as they are linearized at inputs with slopes (n, d)."""
        targets = y - np.einsum("nd,nd->n", slopes, X - inputs)
        row_var = process.noise_std**2 + referred(slopes, input_cov)
        curve = replace(process.posterior(inputs, targets, row_var=row_var), factors=())
        return cls(process, curve, input_cov, smoothed)

    def posterior(self, X: Array, y: Array, input_cov: Array | None = None) -> KernelPosterior:
        """Given inputs as observed and targets, and S where it is not that of every row."""
        S = self.input_cov if input_cov is None else input_cov
        if S.ndim == 3 and len(S) != len(X):
            raise refusal(
                "input_cov",
                f"be given for these {len(X)} rows, of shape ({len(X)}, d, d)",
                f"{'none' if input_cov is None else S.shape}, and each of the {len(S)} rows of the "
                "fit had its own",
                "Pass condition(X, y, input_cov=...).",
            )
        at, targets, row_var = self._rows(X, y, S)
        return self.process.posterior(at, targets, row_var=row_var)

    def log_evidence(self, X: Array, y: Array, posterior: KernelPosterior) -> float:
        """log N of the targets of the rows of the fit as linearized, given their posterior."""
        chol = posterior.factors[0].chol
        targets = self._rows(X, y, self.input_cov)[1] - self.process.output_offset
        whitened = dtrsv(chol, targets, lower=1)
        log_det = 2.0 * np.log(np.diagonal(chol)).sum()
        return -0.5 * float(whitened @ whitened + log_det + len(y) * np.log(2.0 * np.pi))

    def _rows(self, X: Array, y: Array, S: Array) -> tuple[Array, Array, Array]:
        """Inputs x-bar, targets there, and their variances."""
        noise_var = self.process.noise_std**2
        at = smoothed_inputs(self.curve, X, y, S, noise_var) if self.smoothed else X
        slope = self.curve.gradient(at)
        targets = y - np.einsum("nd,nd->n", slope, X - at)
        return at, targets, noise_var + referred(slope, S)


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
    """Covariance of the noise of inputs of a shape (n, d), (d, d) or (n, d, d); None stays None.

    `diagonal` says that it has to be the same variances for all rows.
    """
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
