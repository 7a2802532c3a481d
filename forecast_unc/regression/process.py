"""A Gaussian process of known hyper-parameters, and its posterior given rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dgemm, dgemv, dtrsv
from scipy.linalg.lapack import dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.estimator import LeadingMeans
from forecast_unc.regression.evidence import covariance_matrix
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import blurred, factor, move, squared_exponential

# One row in so many is the most to drop by an update: 64 of 800 took 10 ms where the complete
# factorization took 8, 64 of 2000 took 60 of 93 ms.
_DROPS = 16


@dataclass(frozen=True)
class GaussianProcess:
    """A process with an ARD squared-exponential kernel, a linear term and noise."""

    lengthscales: Array  # (d,), l
    amplitude: float  # a, prior std of the nonlinear part
    linear_std: Array  # (d + 1,), prior stds of the linear weights and the bias
    noise_std: float  # s
    input_offset: Array  # (d,), subtracted from inputs
    output_offset: float  # subtracted from targets
    widening: float = 1.0  # factor of all variances
    mean_weights: Array | None = None  # (d,), of a linear prior mean

    def covariance(
        self, X: Array, row_var: Array | float | None = None, blur: Array | None = None
    ) -> Array:
        """Lower triangle of the covariance of rows, (n, n); see `posterior`."""
        inputs, a, var = X - self.input_offset, self.amplitude, self.noise_std**2
        lengthscales, amplitude = self.lengthscales, a
        if blur is not None:
            lengthscales, amplitude = blurred(lengthscales, a, 2.0 * blur)
            var += a**2 - amplitude**2 + float(self.linear_std[:-1] ** 2 @ blur)
        K = np.empty((len(X), len(X)), order="F")
        basis = np.column_stack([inputs, np.ones(len(X))]) * self.linear_std
        linear = np.asfortranarray(basis.T if self.linear_std.any() else basis.T[:0])
        noise_var = var if row_var is None else row_var
        covariance_matrix((inputs / lengthscales).T, amplitude, noise_var, linear, K)
        return K

    def posterior(
        self,
        X: Array,
        y: Array,
        *,
        row_var: Array | None = None,
        blur: Array | None = None,
        chol: Array | None = None,
        independent: bool = True,
    ) -> KernelPosterior:
        r"""w = P' K^-1 y and G = diag(0, A) - P' K^-1 P, with k(X, x) = P phi(x), K = L L'.

        The rows' errors have the variance s^2, or `row_var` (n,), noise of the targets included.
        With a `blur` v (d,) the inputs X are known up to noise of variances v, of the rows alone:
        then K is that of `BlurredEvidence`, and with an input x that is known

        .. math::
            \mathrm E[k(x_i, x)] = A_1^2 e^{-\frac12 |u_i - x|_{L_1}^2} + u_i' T x + \tau_0^2 ,

        with L_1 and A_1 of `blurred` at v. Mean and variance are those of the best linear
        predictor, exactly; y given its inputs' distribution is not normal. A factor `chol` of K
        saves the factorization; it may hold errors that are not `independent`.
        """
        if chol is None:
            chol = factor(self.covariance(X, row_var, blur), self.noise_std)
        lengthscales, amplitude = self.lengthscales, self.amplitude
        errors = self.noise_std**2 if row_var is None else row_var
        if blur is not None:
            lengthscales, amplitude = blurred(lengthscales, amplitude, blur)
        inputs, rest = self._centered(X, y)
        b, _ = dpotrs(chol, rest, lower=1)
        basis = np.column_stack([inputs, np.ones(len(y))])
        projection = np.asfortranarray(basis * self.linear_std**2)  # Xt A
        slopes = dgemv(1.0, projection, b, trans=1)
        if self.mean_weights is not None:
            slopes[:-1] += self.mean_weights
        unit, wide = np.sqrt(self.widening), self.widening
        of_f = independent and blur is None  # errors independent of each other and of f
        stated = errors if of_f else None
        down = Factor(-1, chol, unit * amplitude**2, unit * projection, stated)
        return KernelPosterior(
            centers=inputs,
            lengthscales=lengthscales,
            weights=np.concatenate([amplitude**2 * b, slopes]),
            factors=(down,),
            linear_var=wide * self.linear_std**2,
            kernel_var=wide * self.amplitude**2,
            noise_var=wide * self.noise_std**2,
            input_offset=self.input_offset,
            output_offset=self.output_offset,
            prior_lengthscales=None if blur is None else self.lengthscales,
        )

    def moved_factor(self, held: KernelPosterior, X: Array) -> Array | None:
        """Cholesky factor of the rows X from that of a posterior whose rows they continue."""
        rows, X = held.centers, X - self.input_offset
        for dropped in np.flatnonzero((rows[: len(rows) // _DROPS + 1] == X[0]).all(axis=1)):
            kept = len(rows) - int(dropped)
            if np.array_equal(rows[dropped:], X[:kept]):
                new = X[kept:]
                cross, block = self._between(X[:kept], new), self._between(new, new)
                block += self.noise_std**2 * np.eye(len(new))
                try:
                    return move(held.factors[0].chol, int(dropped), cross, block)
                except LinAlgError:  # which a fresh factorization puts in terms of the noise
                    return None
        return None

    def leading_weights(self, X: Array, y: Array, chol: Array, counts: Sequence[int]) -> Array:
        """K_m^-1 y_m of the first m rows, a column for each m: with r = L^-1 y, L_m' b = r_m."""
        _, rest = self._centered(X, y)
        residual = dtrsv(chol, rest, lower=1)
        weights = np.zeros((len(y), len(counts)), order="F")
        for column, m in zip(weights.T, counts, strict=True):
            column[:m] = dtrsv(np.asfortranarray(chol[:m, :m]), residual[:m], lower=1, trans=1)
        return weights

    def means(self, X: Array, weights: Array) -> LeadingMeans:
        """Mean at an input of its own for each column of weights (n, k) of rows X (n, d)."""
        inputs = X - self.input_offset
        basis = np.column_stack([inputs, np.ones(len(X))])
        slopes = dgemm(1.0, np.asfortranarray(basis * self.linear_std**2), weights, trans_a=1)
        if self.mean_weights is not None:
            slopes[:-1] += self.mean_weights[:, None]

        def means(at: Array) -> Array:
            centered = at - self.input_offset
            kernel = squared_exponential(inputs, centered, self.lengthscales)
            kernel *= weights
            smooth = self.amplitude**2 * kernel.sum(axis=0)
            linear = np.einsum("kd,dk->k", centered, slopes[:-1]) + slopes[-1]
            return np.asarray(self.output_offset + smooth + linear)

        return means

    def _centered(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Inputs from their offset, and targets from the prior mean."""
        inputs, rest = X - self.input_offset, y - self.output_offset
        if self.mean_weights is not None:
            rest = rest - inputs @ self.mean_weights
        return inputs, rest

    def _between(self, A: Array, B: Array) -> Array:
        """Prior covariance of the function between rows, measured from the offset."""
        var = self.linear_std**2
        kernel = squared_exponential(A, B, self.lengthscales)
        return np.asarray(self.amplitude**2 * kernel + (A * var[:-1]) @ B.T + var[-1])
