"""Posterior of a reduced-rank process: an orthogonal factor that takes in rows, block by block."""

from typing import Literal, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dtpqrt

from forecast_unc._typing import Array
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.process import GaussianProcess
from forecast_unc.regression.reduced_rank.evidence import JITTER, center_root, row_blocks

# Columns reduced at once: 16 and 32 ran at the same rate with 200 and 500 centers.
_PANEL = 32

Variance = Literal["corrected", "standard", "augmented"]


class Support(NamedTuple):
    r"""A reduced-rank model: everything but data.

    With phi(x) = [k(U, x); tau x; tau_0], x measured from the input offset, the targets are
    y = phi(x) . w + noise with w ~ N(0, P^-1), P = diag((K_uu + jI) / a^2, I).
    """

    centers: Array  # (m, d), U, measured from the input offset
    root: Array  # (m, m), Cholesky factor of K_uu + jI
    hyper: GaussianProcess
    mean_weights: Array  # (d,), of a linear prior mean
    independent_rest: bool  # the prior variance that the centers leave is noise of each row (FITC)

    @classmethod
    def of(
        cls, centers: Array, hyper: GaussianProcess, mean_weights: Array, independent_rest: bool
    ) -> Self:
        """The model of these centers and hyper-parameters."""
        root = center_root(centers, hyper.lengthscales)
        return cls(centers, root, hyper, mean_weights, independent_rest)

    def triangle(self) -> Array:
        """What is known without rows, (M + 1, M + 1): see `with_rows`."""
        m = len(self.centers)
        size = m + len(self.linear_std) + 1
        out = np.zeros((size, size), order="F")
        out[:m, :m] = self.root.T / self.hyper.amplitude
        linear = np.arange(m, size - 1)
        out[linear, linear] = 1.0
        return out

    @property
    def linear_std(self) -> Array:
        """Prior stds of the linear weights and the bias, (p,); none without a linear part."""
        std = self.hyper.linear_std
        return std if std.any() else std[:0]

    def with_rows(self, triangle: Array, X: Array, y: Array) -> Array:
        """The triangle (M + 1, M + 1) after more rows; the one before is not changed.

        It is R of a QR factorization of [phi(X), y], each row divided by the std of its noise,
        stacked on what it was before: with M weights, R' R has the precision of the weights as
        its first block, and R_MM^2 is the least sum of squares. Orthogonal transformations alone:
        nothing drifts, however many rows come one by one, at O(M^2) each, and no condition number
        is squared.
        """
        hyper, m = self.hyper, len(self.centers)
        out = triangle.copy(order="F")
        std = self.linear_std
        for rows in row_blocks(len(y)):
            inputs = X[rows] - hyper.input_offset
            block = np.empty((len(inputs), len(out)), order="F")
            block[:, :m] = squared_exponential(inputs, self.centers, hyper.lengthscales)
            if len(std):
                block[:, m:-2] = inputs * std[:-1]
                block[:, -2] = std[-1]
            block[:, -1] = y[rows] - hyper.output_offset - inputs @ self.mean_weights
            block /= self._row_std(block[:, :m])[:, None]
            panel = min(_PANEL, len(out))
            out, *_ = dtpqrt(0, panel, out, block, overwrite_a=1, overwrite_b=1)
        # Signs as of one block: sample paths depend on the rows alone, and not on how they came.
        out[np.diagonal(out) > 0.0] *= -1.0
        return np.asarray(out)

    def _row_std(self, kernel: Array) -> Array:
        """Std of what the weights do not explain of rows with kernels (r, m): (r,)."""
        noise_var = self.hyper.noise_std**2
        if not self.independent_rest:
            return np.full(len(kernel), np.sqrt(noise_var))
        V: Array = dtrsm(1.0, self.root, kernel, side=1, lower=1, trans_a=1)
        rest = 1.0 - np.einsum("rm,rm->r", V, V)
        return np.asarray(np.sqrt(noise_var + self.hyper.amplitude**2 * rest))

    def weights(self, triangle: Array) -> Array:
        """Mean weights of [k(U, x); x; 1], (m + d + 1,), given the rows of a triangle."""
        m, d = self.centers.shape
        mean: Array = dtrsv(np.asfortranarray(triangle[:-1, :-1]), triangle[:-1, -1])
        linear = np.zeros(d + 1)
        linear[: len(self.linear_std)] = self.linear_std * mean[m:]
        linear[:-1] += self.mean_weights
        return np.concatenate([mean[:m], linear])

    def posterior(self, triangle: Array, corrected: bool) -> KernelPosterior:
        """The posterior given the rows of a triangle.

        Corrected by what the centers leave of the prior variance, a^2 (k - k_u' (K_uu + jI)^-1
        k_u), with the prior's correlations. Otherwise the prior has rank M, and the function no
        variance away from the centers but that of its linear part.
        """
        (m, d), hyper = self.centers.shape, self.hyper
        unit = float(np.sqrt(hyper.widening))
        linear = np.zeros((len(triangle) - 1, d + 1), order="F")
        columns = np.arange(len(self.linear_std))
        linear[m + columns, columns] = unit * self.linear_std
        chol = np.asfortranarray(triangle[:-1, :-1].T)
        factors: tuple[Factor, ...] = (Factor(1, chol, unit, linear),)
        a = hyper.amplitude
        if corrected:
            none = np.zeros((m, d + 1), order="F")
            factors += (Factor(-1, a * self.root, unit * a**2, none, JITTER * a**2),)
        return KernelPosterior(
            centers=self.centers,
            lengthscales=hyper.lengthscales,
            weights=self.weights(triangle),
            factors=factors,
            linear_var=np.zeros(d + 1),
            kernel_var=hyper.widening * a**2 if corrected else 0.0,
            noise_var=hyper.widening * hyper.noise_std**2,
            input_offset=hyper.input_offset,
            output_offset=hyper.output_offset,
        )
