"""Log evidence of a Gaussian process and its gradient, at the cost of one factorization."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dgemv, dsymm, dsyr
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import (
    TILE,
    exponent_factors,
    inverse,
    lower_tiles,
    reshaped,
)


def covariance_matrix(
    Z: Array,
    amplitude: float,
    noise_std: float,
    linear: Array,
    out: Array,
    kernel_out: Array | None = None,
) -> None:
    """Write the lower triangle of a^2 K_se + U U' + s^2 I into `out` (n, n), Fortran order.

    `Z` (d, n) are the inputs in length-scales, `linear` (k, n) is U', and `kernel_out` gets the
    lower triangle of a^2 K_se. What lies above the diagonals is of no meaning.
    """
    n = Z.shape[1]
    left, right = exponent_factors(Z)
    left[-2] += 2.0 * np.log(amplitude)  # the row that meets the ones of `right`
    scratch = np.empty(TILE**2)
    for rows, columns in lower_tiles(n):
        tile = reshaped(scratch, rows, columns)
        dgemm(1.0, left[:, rows], right[:, columns], trans_a=1, c=tile, overwrite_c=1)
        np.exp(tile, out=tile)
        if kernel_out is not None:
            kernel_out[rows, columns] = tile
        if len(linear):
            dgemm(
                1.0,
                linear[:, rows],
                linear[:, columns],
                trans_a=1,
                beta=1.0,
                c=tile,
                overwrite_c=1,
            )
        out[rows, columns] = tile
    out.ravel(order="K")[:: n + 1] += noise_std**2


class CorrelatedErrors(NamedTuple):
    """Errors of n targets with the covariance s_e^2 C + V, both sparse: their lower triangles."""

    rows: NDArray[np.intp]  # (q,)
    columns: NDArray[np.intp]  # (q,)
    shape: Array  # (q,), entries of C
    known: Array  # (q,), entries of V

    def add_to(self, out: Array, error_std: float) -> None:
        """Add the covariance to the lower triangle of `out`, (n, n), in place."""
        out[self.rows, self.columns] += error_std**2 * self.shape + self.known


class GaussianProcessEvidence:
    r"""-log N(y | 0, K) and its gradient as a function of the log hyper-parameters.

    .. math:: K = a^2 K_{se}(l) + \textstyle\sum_j \tau_j^2 x_j x_j' + \tau_0^2 1 1' + s^2 I

    with one tau for all columns x_j of X, or one for each group of them.

    With b = K^-1 y and M = (K^-1 - b b') o a^2 K_se, r = M 1, Z = X / l,

    .. math:: \frac{\partial(-\log p)}{\partial \log l_d}
        = \textstyle\sum_i r_i Z_{id}^2 - \sum_i Z_{id} (M Z)_{id}:

    all length-scales come from one thin matrix product, with no (n, n, d) array. One
    factorization, one inverse from it; all else is O(n^2 d) in cache-sized tiles.

    X (n, d) and y are about centered and scaled. `groups` (d,) numbers the group of each input, -1
    for no linear weight; tau_0 is no hyper-parameter: centered targets leave little to learn. With
    `errors` s_e^2 C + V is added to K, and s_e is a further hyper-parameter.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        linear: bool,
        groups: NDArray[np.intp] | None = None,
        bias_scale: float = 1.0,
        errors: CorrelatedErrors | None = None,
    ) -> None:
        n = len(y)
        self.errors = errors
        self.groups = np.zeros(X.shape[1], dtype=np.intp) if groups is None else groups
        self.bias_scale = bias_scale
        self.X = np.asfortranarray(X.T)  # (d, n)
        self.y = y
        self.linear = linear
        self.basis = np.vstack([self.X, np.ones((1, n))]) if linear else np.empty((0, n))
        # Kept between calls: fresh pages for two (n, n) arrays cost as much as the kernel.
        self._covariance = np.empty((n, n), order="F")
        self._kernel = np.empty((n, n), order="F")

    def __call__(
        self,
        lengthscales: Array,
        amplitude: float,
        linear_scale: Array | float,
        noise_std: float,
        error_std: float = 0.0,
    ) -> tuple[float, Array]:
        """Negative log evidence and its gradient in the logs of the hyper-parameters.

        Those of log l, log a, log tau by group, log s and, with `errors`, log s_e; the value is
        infinite where the covariance is not numerically positive definite.
        """
        d, tau = len(lengthscales), np.atleast_1d(linear_scale)
        Z = self.X / lengthscales[:, None]
        gradient = np.zeros(d + 2 + len(tau) + (self.errors is not None))
        last = d + 1 + len(tau)  # of log s
        value, chol, b = self._factored(Z, amplitude, tau, noise_std, error_std)
        if not np.isfinite(value):
            return np.inf, gradient

        precision = inverse(chol, overwrite=True)
        if self.linear:  # x_j' K^-1 x_j - (x_j' b)^2, summed over the group of column j
            solved: Array = dsymm(1.0, precision, self.X.T, lower=1)  # (n, d)
            change = np.einsum("ij,ji->j", solved, self.X) - dgemv(1.0, self.X, b) ** 2
            gradient[d + 1 : last] = tau**2 * np.bincount(self.groups + 1, change, len(tau) + 1)[1:]
        trace = np.diagonal(precision).sum()
        gradient[last] = noise_std**2 * (trace - b @ b)
        if self.errors is not None:  # s_e^2 (tr[K^-1 C] - b' C b), from lower triangles
            i, j, shape, _ = self.errors
            twice = np.where(i == j, 1.0, 2.0) * shape
            gradient[-1] = error_std**2 * twice @ (precision[i, j] - b[i] * b[j])
        row_sums, MZ = self._products(precision, b, Z)
        gradient[:d] = (Z**2) @ row_sums - np.einsum("ij,ij->i", Z, MZ)
        gradient[d] = row_sums.sum()
        return float(value), gradient

    def value(
        self,
        lengthscales: Array,
        amplitude: float,
        linear_scale: Array | float,
        noise_std: float,
        error_std: float = 0.0,
    ) -> float:
        """Negative log evidence alone, at a third of the cost; see :meth:`__call__`."""
        Z, tau = self.X / lengthscales[:, None], np.atleast_1d(linear_scale)
        return self._factored(Z, amplitude, tau, noise_std, error_std)[0]

    def _factored(
        self, Z: Array, amplitude: float, tau: Array, noise_std: float, error_std: float
    ) -> tuple[float, Array, Array]:
        """Negative log evidence, Cholesky factor of K, and b; infinite if there is none."""
        scales = np.append(np.where(self.groups < 0, 0.0, tau[self.groups]), self.bias_scale)
        U = np.asfortranarray(scales[: len(self.basis), None] * self.basis)
        covariance_matrix(Z, amplitude, noise_std, U, self._covariance, self._kernel)
        if self.errors is not None:
            self.errors.add_to(self._covariance, error_std)
        chol, info = dpotrf(self._covariance, lower=1, clean=0, overwrite_a=1)
        if info:
            return np.inf, chol, self.y
        b, _ = dpotrs(chol, self.y, lower=1)
        value = 0.5 * self.y @ b + np.log(np.diagonal(chol)).sum()
        return float(value + 0.5 * len(self.y) * np.log(2.0 * np.pi)), chol, b

    def _products(self, precision: Array, b: Array, Z: Array) -> tuple[Array, Array]:
        """Row sums r of M = (K^-1 - b b') o a^2 K_se and M Z, from lower triangles."""
        d, n = Z.shape
        right = np.ones((d + 1, n), order="F")  # [Z; 1]
        right[:d] = Z
        out = np.zeros((d + 1, n), order="F")
        scratch = np.empty(TILE**2)
        precision = dsyr(-1.0, b, lower=1, a=precision, overwrite_a=1)
        for rows, columns in lower_tiles(n):
            tile = reshaped(scratch, rows, columns)
            np.multiply(precision[rows, columns], self._kernel[rows, columns], out=tile)
            if rows == columns:  # the upper half is not part of the triangle
                tile *= np.tri(len(tile), k=-1) + 0.5 * np.eye(len(tile))
            # the tile and its transpose: together they are M
            out[:, rows] += dgemm(1.0, right[:, columns], tile, trans_b=1)
            out[:, columns] += dgemm(1.0, right[:, rows], tile)
        return out[d], out[:d]
