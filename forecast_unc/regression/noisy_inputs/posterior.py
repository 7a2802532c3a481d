"""Posteriors of rows with noise of their own, and of rows whose inputs are noisy."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsv
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.noisy_inputs.evidence import blurred

# Gauss-Newton steps of the smoothed inputs at most, and the gain in squared stds that ends them.
_STEPS = 100
_LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class Hyperparameters:
    """Of a Gaussian process with a linear term, and where its inputs and targets are measured from.

    Parameters
    ----------
    lengthscales : ndarray of shape (d,)
        Length-scales l.
    amplitude : float
        Prior std a of the nonlinear part.
    linear_std : ndarray of shape (d + 1,)
        Prior stds of the linear weights and the bias.
    noise_std : float
        Std s of the noise.
    input_offset : ndarray of shape (d,)
        Subtracted from inputs.
    output_offset : float
        Subtracted from targets.
    widening : float
        Factor of all variances.
    """

    lengthscales: Array
    amplitude: float
    linear_std: Array
    noise_std: float
    input_offset: Array
    output_offset: float
    widening: float = 1.0

    def posterior(
        self, X: Array, y: Array, row_var: Array, blur: Array | None = None
    ) -> KernelPosterior:
        r"""The posterior of rows with noise of variances `row_var`, noise of the targets included.

        With a blur v, the inputs X are known up to noise of variances v, of the rows alone: then
        the rows' covariance is that of `BlurredEvidence`, and with an input x that is known

        .. math::
            \mathrm E[k(x_i, x)] = A_1^2 e^{-\frac12 |u_i - x|_{L_1}^2} + u_i' T x + \tau_0^2 ,

        with L_1 and A_1 of `blurred` at v. Mean and variance are those of the best linear
        predictor, exactly; y given its inputs' distribution is not normal.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        y : ndarray of shape (n,)
            Targets.
        row_var : ndarray of shape (n,)
            Variances of the rows' errors; what a blur adds is added here.
        blur : ndarray of shape (d,), optional
            Variances of the inputs' noise.

        Returns
        -------
        KernelPosterior
        """
        n, centered = len(X), X - self.input_offset
        (l_one, a_one), (l_two, a_two) = [(self.lengthscales, self.amplitude)] * 2
        if blur is not None:
            l_one, a_one = blurred(self.lengthscales, self.amplitude, blur)
            l_two, a_two = blurred(self.lengthscales, self.amplitude, 2.0 * blur)
            row_var = row_var + self.amplitude**2 - a_two**2 + self.linear_std[:-1] ** 2 @ blur
        basis = np.column_stack([centered, np.ones(n)])
        U = basis * self.linear_std
        K = a_two**2 * squared_exponential(centered, centered, l_two)
        K = dgemm(1.0, U, U, trans_b=1, beta=1.0, c=K, overwrite_c=1)
        K.ravel(order="K")[:: n + 1] += row_var
        chol = factor(K, self.noise_std)
        b, _ = dpotrs(chol, y - self.output_offset, lower=1)
        projection = np.asfortranarray(basis * self.linear_std**2)
        unit = np.sqrt(self.widening)
        errors = row_var if blur is None else None  # of a blurred row not independent of f
        return KernelPosterior(
            centers=centered,
            lengthscales=l_one,
            weights=np.concatenate([a_one**2 * b, dgemv(1.0, projection, b, trans=1)]),
            factors=(Factor(-1, chol, unit * a_one**2, unit * projection, errors),),
            linear_var=self.widening * self.linear_std**2,
            kernel_var=self.widening * self.amplitude**2,
            noise_var=self.widening * self.noise_std**2,
            input_offset=self.input_offset,
            output_offset=self.output_offset,
            prior_lengthscales=None if blur is None else self.lengthscales,
        )


@dataclass(frozen=True)
class BlurredRows:
    """Rows whose inputs have known noise, by the kernel's expectation; see `Hyperparameters`."""

    hyper: Hyperparameters
    blur: Array  # (d,), variances

    @property
    def input_cov(self) -> Array:
        """Covariance of the input noise, (d, d)."""
        return np.diag(self.blur)

    def posterior(self, X: Array, y: Array, input_cov: Array | None = None) -> KernelPosterior:
        """Given inputs as observed and targets."""
        blur = self.blur if input_cov is None else np.diagonal(input_cov)
        return self.hyper.posterior(X, y, np.full(len(X), self.hyper.noise_std**2), blur)


@dataclass(frozen=True)
class LinearizedRows:
    r"""Rows whose input noise is referred to the output, by the slope g of a mean function m.

    With the true input x = u + delta, u observed and delta ~ N(0, S),

    .. math:: y = f(\bar x) + g \cdot (u - \bar x) + g \cdot \delta + \varepsilon, \quad
        g = \nabla m(\bar x) :

    a row at the input x-bar, with the target y - g.(u - x-bar) and the variance s^2 + g' S g. The
    input x-bar is u itself or, smoothed, the one that is most probable given y on the curve
    m, where

    .. math:: \frac{(y - m(\bar x))^2}{s^2} + (u - \bar x)' S^{-1} (u - \bar x)

    is least (orthogonal distance regression). m is part of what was learned: it stays what it was
    at the fit, so that a row always means the same.

    Parameters
    ----------
    hyper : Hyperparameters
        Those learned.
    curve : KernelPosterior
        Whose mean is m.
    input_cov : ndarray of shape (d, d), or (n, d, d)
        S of every row, or of each of those of the fit.
    smoothed : bool
        Whether x-bar is smoothed.
    """

    hyper: Hyperparameters
    curve: KernelPosterior
    input_cov: Array
    smoothed: bool

    def posterior(self, X: Array, y: Array, input_cov: Array | None = None) -> KernelPosterior:
        """Given inputs as observed and targets, and S where it is not that of every row."""
        S = self.input_cov if input_cov is None else input_cov
        if S.ndim == 3 and len(S) != len(X):
            raise ValueError(
                f"input_cov must be given for these {len(X)} rows, of shape ({len(X)}, d, d); got "
                f"{'none' if input_cov is None else S.shape}, and each of the {len(S)} rows of the "
                "fit had its own. Pass condition(X, y, input_cov=...)."
            )
        at, targets, row_var = self._rows(X, y, S)
        return self.hyper.posterior(at, targets, row_var)

    def log_evidence(self, X: Array, y: Array, posterior: KernelPosterior) -> float:
        """log N of the targets of the rows of the fit as linearized, given their posterior."""
        chol = posterior.factors[0].chol
        targets = self._rows(X, y, self.input_cov)[1] - self.hyper.output_offset
        whitened = dtrsv(chol, targets, lower=1)
        log_det = 2.0 * np.log(np.diagonal(chol)).sum()
        return -0.5 * float(whitened @ whitened + log_det + len(y) * np.log(2.0 * np.pi))

    def _rows(self, X: Array, y: Array, S: Array) -> tuple[Array, Array, Array]:
        """Inputs x-bar, targets there, and their variances."""
        noise_var = self.hyper.noise_std**2
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


def factor(K: Array, noise_std: float) -> Array:
    """Lower Cholesky factor of a covariance, which it overwrites, or an error about the noise."""
    chol, info = dpotrf(K, lower=1, clean=1, overwrite_a=1)
    if info:
        raise ValueError(
            "noise_std must keep the covariance positive definite; got a factorization that "
            f"fails at row {info} with {noise_std:.3g}. Give a larger noise_std."
        )
    return np.asarray(chol)


def smoothed_inputs(
    curve: KernelPosterior, X: Array, y: Array, input_cov: Array, noise_var: float
) -> Array:
    r"""The most probable true inputs given a curve, by Gauss-Newton steps from the observed ones.

    .. math:: \bar x \leftarrow u + S g\, \frac{y - m(\bar x) - g \cdot (u - \bar x)}{s^2 + g' S g}

    A step that does not gain is halved. With x = u + S c the penalty is c' S c, without an inverse.

    Parameters
    ----------
    curve : KernelPosterior
        Whose mean is m.
    X : ndarray of shape (n, d)
        Observed inputs u.
    y : ndarray of shape (n,)
        Targets.
    input_cov : ndarray of shape (d, d) or (n, d, d)
        S.
    noise_var : float
        s^2.

    Returns
    -------
    ndarray of shape (n, d)
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
