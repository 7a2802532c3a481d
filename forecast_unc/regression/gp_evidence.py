"""Log evidence of a Gaussian process and its gradient, at the cost of one factorization."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dgemm, dgemv, dsymm, dsyr
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array, Positions
from forecast_unc.regression import kernels


def covariance_matrix(
    Z: Array,
    amplitude: float,
    row_var: Array | float,
    linear: Array,
    out: Array,
    kernel_out: Array | None = None,
) -> None:
    """Write the lower triangle of a^2 K_se + U U' + diag(v) into `out` (n, n), Fortran order.

    `Z` (d, n) are the inputs in length-scales, `linear` U'; `kernel_out` gets a^2 K_se.
    """
    n = Z.shape[1]
    left, right = kernels.exponent_factors(Z)
    left[-2] += 2.0 * np.log(amplitude)  # the row that meets the ones of `right`
    scratch = np.empty(kernels.TILE**2)
    for rows, columns in kernels.lower_tiles(n):
        tile = kernels.reshaped(scratch, rows, columns)
        dgemm(1.0, left[:, rows], right[:, columns], trans_a=1, c=tile, overwrite_c=1)
        np.exp(tile, out=tile)
        if kernel_out is not None:
            kernel_out[rows, columns] = tile
        if len(linear):
            left_part, right_part = linear[:, rows], linear[:, columns]
            dgemm(1.0, left_part, right_part, trans_a=1, beta=1.0, c=tile, overwrite_c=1)
        out[rows, columns] = tile
    out.ravel(order="K")[:: n + 1] += row_var


class CorrelatedErrors(NamedTuple):
    """Errors of n targets with the covariance s_e^2 C + V, both sparse: their lower triangles."""

    rows: Positions  # (q,)
    columns: Positions  # (q,)
    shape: Array  # (q,), entries of C
    known: Array  # (q,), entries of V

    def add_to(self, out: Array, error_std: float) -> None:
        """Add the covariance to the lower triangle of `out`, (n, n), in place."""
        out[self.rows, self.columns] += error_std**2 * self.shape + self.known


class RowTerms(NamedTuple):
    """-log N(y | 0, K + diag(v)) and its gradients."""

    value: float  # inf where the covariance is not numerically positive definite
    hyper: Array  # (d + 1 + g,), in log l, log a, log tau
    row_var: Array  # (n,), in v
    inputs: Array  # (n, d), in X
    weights: Array  # (n,), b = (K + diag(v))^-1 y


class GaussianProcessEvidence:
    r"""-log N(y | 0, K + diag(v)) and its gradient in the log hyper-parameters.

    .. math:: K = a^2 K_{se}(l) + \textstyle\sum_j \tau_j^2 x_j x_j' + \tau_0^2 1 1'

    with one tau for each group of columns x_j of X, and v = s^2 or `of_rows`.
    With b = (K + diag(v))^-1 y, W = (K + diag(v))^-1 - b b', M = W o a^2 K_se, r = M 1, Z = X / l,

    .. math::
        \frac{\partial(-\log p)}{\partial \log l_d}
            = \textstyle\sum_i r_i Z_{id}^2 - \sum_i Z_{id} (M Z)_{id}, \quad
        \frac{\partial}{\partial v_i} = \tfrac12 W_{ii}, \quad
        \frac{\partial}{\partial X} = \bigl(M Z - \mathrm{diag}(r) Z\bigr) / l + W X A:

    all length-scales come from one thin matrix product, with no (n, n, d) array. One
    factorization, one inverse from it; all else is O(n^2 d) in cache-sized tiles.

    X (n, d) and y are about centered and scaled. `groups` (d,) numbers the group of each input, -1
    for no linear weight. With `errors` r (n,), stds in units of s, v = s^2 r^2; with correlated
    ones s_e^2 C + V is added to K, and s_e is a hyper-parameter.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        linear: bool,
        groups: ArrayLike | None = None,
        bias_scale: float = 1.0,
        errors: CorrelatedErrors | Array | None = None,
    ) -> None:
        n, d = X.shape
        self.relative_var = np.ones(n)
        self.errors: CorrelatedErrors | None = None
        if isinstance(errors, CorrelatedErrors):
            self.errors = errors
        elif errors is not None:
            self.relative_var = errors**2
        self.groups = np.zeros(d, dtype=np.intp) if groups is None else np.asarray(groups)
        self.bias_scale = bias_scale
        self.X = np.asfortranarray(X.T)  # (d, n)
        self.y = y
        self.linear = linear
        # Kept between calls: fresh pages for two (n, n) arrays cost as much as the kernel.
        self._covariance = np.empty((n, n), order="F")
        self._kernel = np.empty((n, n), order="F")
        size = min(n, kernels.TILE)
        self._half = np.tri(size, k=-1) + 0.5 * np.eye(size)

    def linear_std(self, tau: Array) -> Array:
        """Prior stds of the linear weights and the bias, (d + 1,)."""
        std = np.zeros(len(self.groups) + 1)
        if self.linear:
            std[:-1] = np.where(self.groups < 0, 0.0, tau[self.groups])
            std[-1] = self.bias_scale
        return std

    def __call__(
        self, l: Array, a: float, tau: Array | float, s: float, s_e: float = 0.0
    ) -> tuple[float, Array]:
        """-log evidence, inf where K is not definite, and its gradient in log l, a, tau, s, s_e."""
        tau, Z = np.atleast_1d(tau), self.X / l[:, None]
        value, chol, b = self._factored(self.X, Z, a, tau, s**2 * self.relative_var, s_e)
        if not np.isfinite(value):
            return np.inf, np.zeros(len(Z) + 2 + len(tau) + (self.errors is not None))
        precision = kernels.inverse(chol, overwrite=True)
        noises: list[float] = [s**2 * float(self.relative_var @ (np.diagonal(precision) - b**2))]
        if self.errors is not None:  # s_e^2 (tr[K^-1 C] - b' C b), from lower triangles
            i, j, shape, _ = self.errors
            twice = np.where(i == j, 1.0, 2.0) * shape
            noises.append(s_e**2 * float(twice @ (precision[i, j] - b[i] * b[j])))
        return value, self._gradients(self.X, Z, tau, precision, b, noises)[0]

    def of_rows(self, X: Array, l: Array, a: float, tau: Array, row_var: Array) -> RowTerms:
        """Evidence of the targets at other inputs X (n, d), with noise of variances (n,)."""
        rows = np.asfortranarray(X.T)
        Z = rows / l[:, None]
        value, chol, b = self._factored(rows, Z, a, tau, row_var)
        if not np.isfinite(value):
            empty = np.zeros(len(Z) + 1 + len(tau))
            return RowTerms(value, empty, np.zeros(len(X)), np.zeros(X.shape), b)
        precision = kernels.inverse(chol, overwrite=True)
        in_row_var = 0.5 * (np.diagonal(precision) - b**2)
        hyper, solved, row_sums, MZ = self._gradients(rows, Z, tau, precision, b, [])
        inputs = ((MZ - row_sums * Z) / l[:, None]).T
        if self.linear:
            inputs += (solved - np.outer(b, rows @ b)) * self.linear_std(tau)[:-1] ** 2
        return RowTerms(value, hyper, in_row_var, inputs, b)

    def slopes(self, X: Array, l: Array, a: float, tau: Array, weights: Array) -> Array:
        """Gradient of the posterior mean at its own rows, (n, d), from the weights b."""
        kernel = a**2 * kernels.squared_exponential(X, X, l)
        weighted = np.asfortranarray(kernel * weights)
        pull = dgemm(1.0, weighted, np.asfortranarray(X)) - weighted.sum(axis=1)[:, None] * X
        linear = self.linear_std(tau)[:-1] ** 2 * dgemv(1.0, np.asfortranarray(X), weights, trans=1)
        return np.asarray(pull / l**2 + linear)

    def _factored(
        self, X: Array, Z: Array, a: float, tau: Array, row_var: Array | float, s_e: float = 0.0
    ) -> tuple[float, Array, Array]:
        """Negative log evidence, inf if C = K + diag(v) is not definite; its factor; C^-1 y.

        X and Z = X / l have a row an input, (d, n); `row_var` is v.
        """
        scaled_inputs = np.empty((len(X) + 1 if self.linear else 0, X.shape[1]), order="F")
        if self.linear:
            std = self.linear_std(tau)
            np.multiply(std[:-1, None], X, out=scaled_inputs[:-1])
            scaled_inputs[-1] = std[-1]  # of the bias
        covariance_matrix(Z, a, row_var, scaled_inputs, self._covariance, self._kernel)
        if self.errors is not None:
            self.errors.add_to(self._covariance, s_e)
        chol, info = dpotrf(self._covariance, lower=1, clean=0, overwrite_a=1)
        if info:
            return np.inf, chol, self.y
        b, _ = dpotrs(chol, self.y, lower=1)
        value = 0.5 * self.y @ b + np.log(np.diagonal(chol)).sum()
        return float(value + 0.5 * len(self.y) * np.log(2.0 * np.pi)), chol, b

    def _gradients(
        self, X: Array, Z: Array, tau: Array, precision: Array, b: Array, noises: list[float]
    ) -> tuple[Array, Array, Array, Array]:
        """Slopes in log l, log a, log tau, `noises`; K^-1 X (n, d), r (n,), M Z; K^-1 is lost."""
        d, last = len(Z), len(Z) + 1 + len(tau)
        hyper, solved = np.zeros(last + len(noises)), X.T
        hyper[last:] = noises
        if self.linear:  # x_j' K^-1 x_j - (x_j' b)^2, summed over the group of column j
            solved = dsymm(1.0, precision, X.T, lower=1)
            change = np.einsum("ij,ji->j", solved, X) - dgemv(1.0, X, b) ** 2
            hyper[d + 1 : last] = tau**2 * np.bincount(self.groups + 1, change, len(tau) + 1)[1:]
        row_sums, MZ = self._products(precision, b, Z)
        hyper[:d] = (Z**2) @ row_sums - np.einsum("ij,ij->i", Z, MZ)
        hyper[d] = row_sums.sum()
        return hyper, solved, row_sums, MZ

    def _products(self, precision: Array, b: Array, Z: Array) -> tuple[Array, Array]:
        """Row sums r of M = (K^-1 - b b') o a^2 K_se and M Z, from lower triangles."""
        d, n = Z.shape
        right = np.ones((d + 1, n), order="F")  # [Z; 1]
        right[:d] = Z
        out = np.zeros((d + 1, n), order="F")
        scratch = np.empty(kernels.TILE**2)
        precision = dsyr(-1.0, b, lower=1, a=precision, overwrite_a=1)
        for rows, columns in kernels.lower_tiles(n):
            tile = kernels.reshaped(scratch, rows, columns)
            np.multiply(precision[rows, columns], self._kernel[rows, columns], out=tile)
            if rows == columns:  # the upper half is not part of the triangle
                tile *= self._half[: len(tile), : len(tile)]
            # the tile and its transpose: together they are M
            out[:, rows] += dgemm(1.0, right[:, columns], tile, trans_b=1)
            out[:, columns] += dgemm(1.0, right[:, rows], tile)
        return out[d], out[:d]
