"""Log evidence of a reduced-rank Gaussian process, streamed over blocks of rows."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dgemv, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import inverse
from forecast_unc.regression.kernels import exponent_factors, squared_exponential
from forecast_unc.regression.reduced_rank.centers import BLOCK, center_root, row_blocks

Criterion = Literal["evidence", "bound"]


class Sums(NamedTuple):
    """What one pass over the rows leaves, V = L^-1 K of unit amplitude, Psi = [X, 1]."""

    kernel: Array  # (m, m), V V', lower triangle
    cross: Array  # (m, p), V Psi
    target: Array  # (m,), V y
    linear: Array  # (p, p), Psi' Psi
    linear_target: Array  # (p,), Psi' y


class Solution(NamedTuple):
    """Of the M = m + p whitened weights, B = I + Phi' Phi / s^2."""

    precision: Array  # (M, M), B^-1
    mean: Array  # (M,)
    half_log_det: float  # of B


class ReducedRankEvidence:
    r"""-log N(y | 0, Q + s^2 I) or a bound on the exact one, and its gradient.

    .. math::
        Q = a^2 K_{fu} (K_{uu} + j I)^{-1} K_{uf} + \textstyle\sum_j \tau_j^2 x_j x_j'
        + \tau_0^2 1 1' = \Phi \Phi'

    With the Cholesky factor L of K_uu + jI, V = L^-1 K_uf, and Phi = [a V', X tau, tau_0],

    .. math::
        -\log p = \tfrac n2 \log 2 \pi s^2 + \tfrac12 \log |B|
        + \tfrac12 \min_\mu \bigl(|y - \Phi\mu|^2 / s^2 + |\mu|^2\bigr), \quad
        B = I + \Phi'\Phi / s^2 .

    "bound" adds tr(K - Q) / (2 s^2): the negative of a lower bound on the log evidence of the
    exact Gaussian process.

    Two passes over the rows in blocks. The first forms V V' (a triangular solve and a symmetric
    product, n m^2 / 2 multiply-adds each), the second the gradient in the entries of K_uf (n m^2).
    Memory is O(m^2) and a block. V and not K_uf, since sums of K_uf K_fu would be multiplied by
    the inverse of K_uu afterwards, and lose its condition number. The sum of squares comes from
    the residuals of the second pass: of second order in the error of mu.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, about centered and scaled.
    y : ndarray of shape (n,)
        Targets, about centered and scaled.
    centers : ndarray of shape (m, d)
        Support set.
    linear : bool
        Whether the linear term and the bias are part of the model.
    groups : ndarray of shape (d,), optional
        Number of the group of each input, from 0, or -1 for no linear weight.
    bias_scale : float
        Prior std tau_0 of the bias.
    objective : {"evidence", "bound"}
        What is minimized.

    References
    ----------
    Quinonero-Candela & Rasmussen, JMLR 6 (2005); Titsias, AISTATS 2009.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        centers: Array,
        linear: bool,
        groups: NDArray[np.intp] | None = None,
        bias_scale: float = 1.0,
        objective: Criterion = "evidence",
    ) -> None:
        n, d = X.shape
        self.X = np.asfortranarray(X.T)  # (d, n)
        self.y = y
        self.centers = centers
        self.linear = linear
        self.groups = np.zeros(d, dtype=np.intp) if groups is None else groups
        self.bias_scale = bias_scale
        self.objective = objective
        p = d + 1 if linear else 0
        self._linear_gram = np.zeros((p, p))  # Psi' Psi
        self._linear_target = np.zeros(p)  # Psi' y
        for rows in row_blocks(n):
            psi = self._psi(rows)
            self._linear_gram += dgemm(1.0, psi, psi, trans_b=1)
            self._linear_target += psi @ y[rows]
        # Kept between calls, as fresh pages cost as much as the kernel.
        self._block = np.empty((len(centers), BLOCK), order="F")
        self._product = np.empty((len(centers), BLOCK), order="F")

    def __call__(
        self,
        lengthscales: Array,
        amplitude: float,
        linear_scale: Array | float,
        noise_std: float,
    ) -> tuple[float, Array]:
        """Negative log evidence or bound, and its gradient in the logs of the hyper-parameters.

        Parameters
        ----------
        lengthscales : ndarray of shape (d,)
            Length-scales l.
        amplitude : float
            Prior standard deviation a of the nonlinear part.
        linear_scale : float or ndarray of shape (g,)
            Prior standard deviation tau of the linear weights of each group; unused without
            `linear`.
        noise_std : float
            Standard deviation s of the noise.

        Returns
        -------
        value : float
            ``inf`` where B is not numerically positive definite.
        gradient : ndarray of shape (d + 2 + g,)
            With respect to log l, log a, log tau, log s.
        """
        n, d, m = len(self.y), len(lengthscales), len(self.centers)
        tau, noise_var = np.atleast_1d(linear_scale), noise_std**2
        scales = self._linear_scales(tau)
        gradient = np.zeros(d + 2 + len(tau))
        chol = center_root(self.centers, lengthscales)
        sums = self._accumulate(chol, lengthscales)
        solution = self._solve(sums, amplitude, scales, noise_var)
        if solution is None:
            return np.inf, gradient
        precision, mean, half_log_det = solution

        squares, gradient[:d] = self._second_pass(
            chol, lengthscales, sums, solution, amplitude, scales, noise_var
        )
        share = 1.0 - np.diagonal(precision)  # of each weight's variance that the data took
        gradient[d] = share[:m].sum() - mean[:m] @ mean[:m]
        if self.linear:
            change = share[m:] - mean[m:] ** 2
            grouped = np.bincount(self.groups + 1, change[:-1], len(tau) + 1)
            gradient[d + 1 : -1] = grouped[1:]
        gradient[-1] = n - share.sum() - squares / noise_var
        value = 0.5 * n * np.log(2.0 * np.pi * noise_var) + half_log_det
        value += 0.5 * (squares / noise_var + mean @ mean)
        if self.objective == "bound":
            left = 0.5 * amplitude**2 / noise_var * (n - np.trace(sums.kernel))
            value += left
            gradient[d] += 2.0 * left
            gradient[-1] -= 2.0 * left
        return float(value), gradient

    def noise_profile(
        self, lengthscales: Array, amplitude: float, linear_scale: float, noise_stds: Array
    ) -> Array:
        """Negative log evidence or bound at several noise stds, from one pass over the rows.

        Parameters
        ----------
        lengthscales : ndarray of shape (d,)
            Length-scales l.
        amplitude : float
            Prior standard deviation a of the nonlinear part.
        linear_scale : float
            Prior standard deviation tau of the linear weights; unused without `linear`.
        noise_stds : ndarray of shape (k,)
            Standard deviations s of the noise.

        Returns
        -------
        ndarray of shape (k,)
        """
        n, squares = len(self.y), self.y @ self.y
        sums = self._accumulate(center_root(self.centers, lengthscales), lengthscales)
        scales = self._linear_scales(np.atleast_1d(linear_scale))
        target = np.concatenate([amplitude * sums.target, scales * self._linear_target])
        left = amplitude**2 * (n - np.trace(sums.kernel)) * (self.objective == "bound")
        values = np.full(len(noise_stds), np.inf)
        for i, noise_var in enumerate(noise_stds**2):
            solution = self._solve(sums, amplitude, scales, noise_var)
            if solution is not None:
                fit = (squares - target @ solution.mean + left) / noise_var
                scale = n * np.log(2.0 * np.pi * noise_var)
                values[i] = 0.5 * (scale + fit) + solution.half_log_det
        return values

    def _linear_scales(self, tau: Array) -> Array:
        """Prior stds of the linear weights and the bias, (p,)."""
        scales = np.append(np.where(self.groups < 0, 0.0, tau[self.groups]), self.bias_scale)
        return scales[: len(self._linear_target)]

    def _psi(self, rows: slice) -> Array:
        """[X, 1]' of some rows, (p, r); no rows at all without a linear part."""
        inputs = self.X[:, rows]
        if not self.linear:
            return np.empty((0, inputs.shape[1]), order="F")
        psi = np.ones((len(inputs) + 1, inputs.shape[1]), order="F")
        psi[:-1] = inputs
        return psi

    def _kernel(self, left: Array, Z: Array) -> Array:
        """Kernels between the centers and the columns of Z, (m, r), in the kept block."""
        out = self._block[:, : Z.shape[1]]
        _, right = exponent_factors(Z)
        dgemm(1.0, left, right, trans_a=1, c=out, overwrite_c=1)
        return np.exp(out, out=out)

    def _accumulate(self, chol: Array, lengthscales: Array) -> Sums:
        """The first pass: sums over the rows."""
        m, p = len(self.centers), len(self._linear_target)
        left, _ = exponent_factors((self.centers / lengthscales).T)
        gram, cross = np.zeros((m, m), order="F"), np.zeros((m, p), order="F")
        target = np.zeros(m)
        for rows in row_blocks(len(self.y)):
            V = self._kernel(left, self.X[:, rows] / lengthscales[:, None])
            V = dtrsm(1.0, chol, V, lower=1, overwrite_b=1)
            gram = dsyrk(1.0, V, beta=1.0, c=gram, lower=1, overwrite_c=1)
            if p:
                psi = self._psi(rows)
                cross = dgemm(1.0, V, psi, trans_b=1, beta=1.0, c=cross, overwrite_c=1)
            target += dgemv(1.0, V, self.y[rows])
        return Sums(gram, cross, target, self._linear_gram, self._linear_target)

    def _solve(
        self, sums: Sums, amplitude: float, scales: Array, noise_var: float
    ) -> Solution | None:
        """Posterior of the whitened weights; None if B is not positive definite."""
        m, p = sums.cross.shape
        B = np.zeros((m + p, m + p), order="F")  # its lower triangle
        B[:m, :m] = amplitude**2 / noise_var * sums.kernel
        B[m:, :m] = (amplitude / noise_var * sums.cross * scales).T
        B[m:, m:] = np.outer(scales, scales) / noise_var * sums.linear
        B.ravel(order="K")[:: m + p + 1] += 1.0
        chol, info = dpotrf(B, lower=1, clean=0, overwrite_a=1)
        if info or not np.isfinite(np.diagonal(chol)).all():
            return None
        target = np.concatenate([amplitude * sums.target, scales * sums.linear_target])
        mean, _ = dpotrs(chol, target / noise_var, lower=1)
        half_log_det = float(np.log(np.diagonal(chol)).sum())
        precision = np.tril(inverse(chol, overwrite=True))
        precision += np.tril(precision, -1).T
        return Solution(np.asfortranarray(precision), mean, half_log_det)

    def _second_pass(
        self,
        chol: Array,
        lengthscales: Array,
        sums: Sums,
        solution: Solution,
        amplitude: float,
        scales: Array,
        noise_var: float,
    ) -> tuple[float, Array]:
        r"""Sum of squared residuals, and the gradient in the logs of the length-scales.

        With w = a L^-T mu_m the weights of the kernels and r the residuals, the gradient in the
        entries of K_uf is

        .. math:: G = \tfrac{a^2}{s^2} L^{-\top} [B^{-1}]_{mm} L^{-1} K_{uf}
            + \tfrac{a}{s^2} L^{-\top} [B^{-1}]_{mp} (\Psi \tau)' - w r' / s^2 .
        """
        m, beta = len(self.centers), 1.0 / noise_var
        inner = solution.precision[:m, :m].copy(order="F")
        if self.objective == "bound":
            inner.ravel(order="K")[:: m + 1] -= 1.0
        H = amplitude**2 * beta * between(chol, inner)
        side = np.empty((m, len(scales) + 1), order="F")
        side[:, :-1] = amplitude * beta * solution.precision[:m, m:] * scales
        side[:, -1] = -amplitude * solution.mean[:m]
        side = dtrsm(1.0, chol, side, lower=1, trans_a=1)
        weights, slopes = -side[:, -1], scales * solution.mean[m:]
        U = (self.centers / lengthscales).T  # (d, m)
        left, _ = exponent_factors(U)
        d, squares = len(U), 0.0
        pushed = np.zeros((m, 2 * d + 1), order="F")  # (G o K) [Z; Z^2; 1]'
        for rows in row_blocks(len(self.y)):
            Z = self.X[:, rows] / lengthscales[:, None]
            K, psi = self._kernel(left, Z), self._psi(rows)
            residual = self.y[rows] - dgemv(1.0, K, weights, trans=1)
            if len(psi):
                residual -= dgemv(1.0, psi, slopes, trans=1)
            squares += float(residual @ residual)
            G = self._product[:, : K.shape[1]]
            dgemm(1.0, H, K, c=G, overwrite_c=1)
            dgemm(1.0, side, np.vstack([psi, beta * residual]), beta=1.0, c=G, overwrite_c=1)
            G *= K
            right = np.vstack([Z, Z**2, np.ones((1, len(residual)))])
            pushed = dgemm(1.0, G, right, trans_b=1, beta=1.0, c=pushed, overwrite_c=1)
        total = by_lengthscale(pushed, U)
        inner = self._center_matrix(solution)
        if self.objective == "bound":
            gram = np.tril(sums.kernel)
            inner -= amplitude**2 * beta * (gram + np.tril(gram, -1).T)
        return squares, total + self._center_part(chol, U, inner)

    def _center_matrix(self, solution: Solution) -> Array:
        """[I - B^-1]_mm - mu_m mu_m'."""
        m = len(self.centers)
        mean = solution.mean[:m]
        return np.asarray(np.eye(m) - solution.precision[:m, :m] - np.outer(mean, mean))

    def _center_part(self, chol: Array, U: Array, inner: Array) -> Array:
        """What a gradient -L^-T A L^-1 / 2 in K_uu is in the log length-scales."""
        M = -0.5 * between(chol, np.asfortranarray(inner))
        M *= squared_exponential(U.T, U.T, np.ones(len(U)))
        MU = dgemm(1.0, M, U, trans_b=1)  # (m, d)
        return np.asarray(2.0 * (U**2 @ M.sum(axis=1) - np.einsum("dm,md->d", U, MU)))


def by_lengthscale(pushed: Array, U: Array) -> Array:
    """Gradient in the log length-scales, (d,), from (G o K) [Z; Z^2; 1]', (m, 2 d + 1)."""
    d = len(U)
    total = pushed[:, d : 2 * d].sum(axis=0) - 2.0 * np.einsum("dm,md->d", U, pushed[:, :d])
    return np.asarray(total + U**2 @ pushed[:, -1])


def between(chol: Array, inner: Array) -> Array:
    """L^-T A L^-1 for a symmetric A, (m, m)."""
    half: Array = dtrsm(1.0, chol, inner, lower=1, trans_a=1)
    return np.asarray(dtrsm(1.0, chol, np.asfortranarray(half.T), lower=1, trans_a=1))
