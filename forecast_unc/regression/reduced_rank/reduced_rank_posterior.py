"""Posterior of a reduced-rank process: an orthogonal factor that takes in rows, block by block."""

from typing import Literal, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dtpqrt

from forecast_unc._typing import Array
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import (
    JITTER,
    center_root,
    row_blocks,
)

Variance = Literal["corrected", "standard", "augmented"]


class Support(NamedTuple):
    """A reduced-rank model, and what its rows so far say of it: theory/reduced_rank.md."""

    centers: Array  # (m, d), U, measured from the input offset
    process: GaussianProcess  # of which it is a projection
    independent_rest: bool  # the prior variance that the centers leave is noise of each row (FITC)
    root: Array  # (m, m), Cholesky factor of K_uu + jI
    triangle: Array  # (M + 1, M + 1), M weights: see `with_rows`

    @classmethod
    def of(cls, centers: Array, process: GaussianProcess, independent_rest: bool) -> Self:
        """The model, without rows."""
        m, root = len(centers), center_root(centers, process.lengthscales)
        triangle = np.eye(m + len(_linear_std(process)) + 1, order="F")
        triangle[:m, :m] = root.T / process.amplitude
        triangle[-1, -1] = 0.0
        return cls(centers, process, independent_rest, root, triangle)

    def with_rows(self, X: Array, y: Array) -> Self:
        """Posterior with more rows: a triangle R of the QR factorization of [phi(X), y] / std."""
        process, m = self.process, len(self.centers)
        out = self.triangle.copy(order="F")
        std = _linear_std(process)
        for rows in row_blocks(len(y)):
            inputs = X[rows] - process.input_offset
            block = np.empty((len(inputs), len(out)), order="F")
            block[:, :m] = squared_exponential(inputs, self.centers, process.lengthscales)
            if len(std):
                block[:, m:-2] = inputs * std[:-1]
                block[:, -2] = std[-1]
            block[:, -1] = y[rows] - process.output_offset - inputs @ process.mean_weights
            # of what the weights do not explain of the rows
            row_var = np.full(len(block), process.noise_std**2)
            if self.independent_rest:
                V: Array = dtrsm(1.0, self.root, block[:, :m], side=1, lower=1, trans_a=1)
                row_var += process.amplitude**2 * (1.0 - np.einsum("rm,rm->r", V, V))
            block /= np.sqrt(row_var)[:, None]
            # columns at once: 16 and 32 ran at the same rate with 200 and 500 centers
            out, *_ = dtpqrt(0, min(32, len(out)), out, block, overwrite_a=1, overwrite_b=1)
        # Signs as of one block: sample paths depend on the rows alone, and not on how they came.
        out[np.diagonal(out) > 0.0] *= -1.0
        return self._replace(triangle=np.asarray(out))

    def weights(self) -> Array:
        """Mean weights of [k(U, x); x; 1], (m + d + 1,)."""
        (m, d), std = self.centers.shape, _linear_std(self.process)
        triangle = np.asfortranarray(self.triangle[:-1, :-1])
        mean: Array = dtrsv(triangle, self.triangle[:-1, -1])
        linear = np.zeros(d + 1)
        linear[: len(std)] = std * mean[m:]
        linear[:-1] += self.process.mean_weights
        return np.concatenate([mean[:m], linear])

    def posterior(self, corrected: bool) -> KernelPosterior:
        """The posterior; corrected by what the centers leave, a^2 (k - k_u' (K_uu + jI)^-1 k_u)."""
        (m, d), process, std = self.centers.shape, self.process, _linear_std(self.process)
        unit = float(np.sqrt(process.widening))
        linear = np.zeros((len(self.triangle) - 1, d + 1), order="F")
        columns = np.arange(len(std))
        linear[m + columns, columns] = unit * std
        chol = np.asfortranarray(self.triangle[:-1, :-1].T)
        factors: tuple[Factor, ...] = (Factor(1, chol, unit, linear),)
        a = process.amplitude
        if corrected:
            none = np.zeros((m, d + 1), order="F")
            factors += (Factor(-1, a * self.root, unit * a**2, none, JITTER * a**2),)
        return KernelPosterior(
            centers=self.centers,
            lengthscales=process.lengthscales,
            weights=self.weights(),
            factors=factors,
            linear_var=np.zeros(d + 1),
            kernel_var=process.widening * a**2 if corrected else 0.0,
            noise_var=process.widening * process.noise_std**2,
            input_offset=process.input_offset,
            output_offset=process.output_offset,
        )


def _linear_std(process: GaussianProcess) -> Array:
    """Prior stds of the linear weights and the bias, (p,); none without a linear part."""
    return process.linear_std if process.linear_std.any() else process.linear_std[:0]
