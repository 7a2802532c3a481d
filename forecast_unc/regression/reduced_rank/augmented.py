"""RRGP*: one more center at every test input, so that uncertainty grows away from the support."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dgemm, dtrsm

from forecast_unc._typing import Array
from forecast_unc.regression.augmented import Augmentation
from forecast_unc.regression.differences import slope_by_differences
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.reduced_rank.centers import JITTER, row_blocks
from forecast_unc.regression.reduced_rank.posterior import Support


@dataclass(frozen=True, kw_only=True)
class CenterAtInput:
    r"""A center at the test input, less its projection on the other centers.

    With the centers U and x* the prior covariance is that of U alone plus g g' / delta, where

    .. math:: g(x) = a^2 \bigl[k(x, x_*) - k_u(x)' (K_{uu} + j I)^{-1} k_u(x_*)\bigr], \quad
        \delta = g(x_*) + j a^2 .

    So g is a basis of its own, with a weight of precision delta. At x* the prior variance is then
    that of the exact process. Rows are streamed in blocks: O(n m) an input.

    Parameters
    ----------
    plain : KernelPosterior
        The posterior without it, of one factor.
    model : Support
        The centers.
    inputs : ndarray of shape (n, d)
        Training inputs.
    scaled_residual : ndarray of shape (n,)
        C^-1 y, which is the residual over the noise variance.
    """

    plain: KernelPosterior
    model: Support
    inputs: Array
    scaled_residual: Array

    @property
    def prior_var(self) -> float:
        """Prior variance of the nonlinear part."""
        return self.model.hyper.amplitude**2

    def __call__(self, X: Array) -> Augmentation:
        """What it does at the rows of X."""
        plain, model, a2 = self.plain, self.model, self.prior_var
        (factor,), beta = plain.factors, 1.0 / plain.noise_var
        kernel, linear = plain.features(X)
        half: Array = dtrsm(1.0, model.root, kernel, lower=1)
        projection: Array = dtrsm(1.0, model.root, half, lower=1, trans_a=1)
        left = a2 * (1.0 - np.einsum("mk,mk->k", half, half))  # g(x*)
        pushed = np.zeros((len(factor.chol), len(X)), order="F")  # P Phi' g
        squares, q = np.zeros(len(X)), np.zeros(len(X))
        for rows in row_blocks(len(self.inputs)):
            own, straight = plain.features(self.inputs[rows])
            g = a2 * squared_exponential(straight[:-1].T, linear[:-1].T, plain.lengthscales)
            g -= a2 * dgemm(1.0, own, projection, trans_a=1)
            pushed += dgemm(1.0, factor.project(own, straight), g)
            squares += np.einsum("rk,rk->k", g, g)
            q += self.scaled_residual[rows] @ g
        whitened: Array = dtrsm(1.0, factor.chol, pushed, lower=1)
        features = factor.whiten(kernel, linear)
        e = left - beta * np.einsum("rk,rk->k", features, whitened)
        s = beta * (squares - beta * np.einsum("rk,rk->k", whitened, whitened))
        return Augmentation(e, left + JITTER * a2 + s, q)

    def gradient(self, X: Array) -> Array:
        """Gradient of what it adds to the mean, by differences of fourth order, (n, d)."""

        def added(rows: Array) -> Array:
            e, room, q = self(rows)
            return e * q / room

        return slope_by_differences(added, X, self.plain.lengthscales)
