"""A Gaussian process of known hyper-parameters, and its posterior given rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dgemm, dgemv, dtrsv
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import move
from forecast_unc.regression.evidence import covariance_matrix
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.noisy_inputs.posterior import Hyperparameters
from forecast_unc.regression.regressor import LeadingMeans

# One row in so many is the most to drop by an update: 64 of 800 took 10 ms where the complete
# factorization took 8, 64 of 2000 took 60 of 93 ms.
_DROPS = 16


@dataclass(frozen=True)
class GaussianProcess:
    """A process with an ARD squared-exponential kernel, a linear term and noise.

    Its rows' inputs are measured from the offset of the hyper-parameters.

    Parameters
    ----------
    hyper : Hyperparameters
        Length-scales, stds and offsets.
    mean_weights : ndarray of shape (d,)
        Weights of a linear prior mean.
    """

    hyper: Hyperparameters
    mean_weights: Array

    def factor(self, X: Array) -> Array:
        """Cholesky factor of the covariance of the rows X, (n, n)."""
        own = self.hyper
        chol = np.empty((len(X), len(X)), order="F")
        basis = np.column_stack([X, np.ones(len(X))]) * own.linear_std
        covariance_matrix(
            (X / own.lengthscales).T,
            own.amplitude,
            own.noise_std,
            np.asfortranarray(basis.T if own.linear_std.any() else basis.T[:0]),
            chol,
        )
        chol, info = dpotrf(chol, lower=1, clean=1, overwrite_a=1)
        if info:
            raise ValueError(
                "noise_std must keep the covariance positive definite; got a factorization that "
                f"fails at row {info} with {own.noise_std:.3g}. Give a larger noise_std."
            )
        return np.asarray(chol)

    def moved_factor(self, held: KernelPosterior, X: Array) -> Array | None:
        """Cholesky factor of the rows X from that of a posterior whose rows they continue."""
        rows = held.centers
        for dropped in np.flatnonzero((rows[: len(rows) // _DROPS + 1] == X[0]).all(axis=1)):
            kept = len(rows) - int(dropped)
            if np.array_equal(rows[dropped:], X[:kept]):
                new = X[kept:]
                cross, block = self.covariance(X[:kept], new), self.covariance(new, new)
                block += self.hyper.noise_std**2 * np.eye(len(new))
                try:
                    return move(held.factors[0].chol, int(dropped), cross, block)
                except LinAlgError:  # which a fresh factorization puts in terms of the noise
                    return None
        return None

    def covariance(self, A: Array, B: Array) -> Array:
        """Prior covariance of the function between rows."""
        own, var = self.hyper, self.hyper.linear_std**2
        kernel = squared_exponential(A, B, own.lengthscales)
        return np.asarray(own.amplitude**2 * kernel + (A * var[:-1]) @ B.T + var[-1])

    def posterior(self, X: Array, y: Array, chol: Array) -> KernelPosterior:
        """w = P' K^-1 y and G = diag(0, A) - P' K^-1 P, with k(X, x) = P phi(x), K = L L'.

        The weights of a linear prior mean are taken from y and added to w.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        y : ndarray of shape (n,)
            Targets.
        chol : ndarray of shape (n, n)
            Cholesky factor of the covariance of the rows.

        Returns
        -------
        KernelPosterior
        """
        own = self.hyper
        b, _ = dpotrs(chol, y - own.output_offset - X @ self.mean_weights, lower=1)
        basis = np.column_stack([X, np.ones(len(y))])
        projection = np.asfortranarray(basis * own.linear_std**2)  # Xt A
        slopes = dgemv(1.0, projection, b, trans=1)
        slopes[:-1] += self.mean_weights
        unit = np.sqrt(own.widening)
        return KernelPosterior(
            centers=X,
            lengthscales=own.lengthscales,
            weights=np.concatenate([own.amplitude**2 * b, slopes]),
            factors=(
                Factor(-1, chol, unit * own.amplitude**2, unit * projection, own.noise_std**2),
            ),
            linear_var=own.widening * own.linear_std**2,
            kernel_var=own.widening * own.amplitude**2,
            noise_var=own.widening * own.noise_std**2,
            input_offset=own.input_offset,
            output_offset=own.output_offset,
        )

    def leading_means(self, held: KernelPosterior, y: Array, counts: Sequence[int]) -> LeadingMeans:
        """Means given the first rows of a posterior alone; see `GPRegressor.leading_means`."""
        own, chol = self.hyper, held.factors[0].chol
        rest = y - own.output_offset - held.centers @ self.mean_weights
        residual = dtrsv(chol, rest, lower=1)
        weights = np.zeros((len(y), len(counts)), order="F")
        for column, m in zip(weights.T, counts, strict=True):
            column[:m] = dtrsv(np.asfortranarray(chol[:m, :m]), residual[:m], lower=1, trans=1)
        basis = np.column_stack([held.centers, np.ones(len(y))])
        slopes = dgemm(1.0, np.asfortranarray(basis * own.linear_std**2), weights, trans_a=1)
        slopes[:-1] += self.mean_weights[:, None]

        def means(inputs: Array) -> Array:
            centered = inputs - own.input_offset
            kernel = squared_exponential(held.centers, centered, own.lengthscales)
            kernel *= weights
            smooth = own.amplitude**2 * kernel.sum(axis=0)
            linear = np.einsum("kd,dk->k", centered, slopes[:-1]) + slopes[-1]
            return np.asarray(own.output_offset + smooth + linear)

        return means
