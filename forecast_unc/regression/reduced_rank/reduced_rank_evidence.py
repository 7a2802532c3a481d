"""Log evidence of a reduced-rank Gaussian process, streamed over blocks of rows."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import exponent_factors, inverse, mirrored, squared_exponential

Criterion = Literal["evidence", "bound", "fitc"]

# Variance of an error of the function's value at each center, in squared amplitudes. Without it
# centers that nearly coincide make K_uu singular. With 1e-6 the error of a smooth function without
# noise was 7e-4 in the place of 1.5e-4 (2000 rows, 200 centers).
JITTER = 1e-8

# Rows of a block: (500, 512) numbers take 2 MB. Products of 256 to 1024 columns ran at the same
# rate, 2048 were 4 % to 10 % slower.
BLOCK = 512


def row_blocks(n: int) -> Iterator[slice]:
    """Slices of `BLOCK` rows that cover n rows."""
    for start in range(0, n, BLOCK):
        yield slice(start, min(n, start + BLOCK))


def center_root(centers: Array, lengthscales: Array) -> Array:
    """Lower Cholesky factor of K_uu + `JITTER` I, (m, m), zeros above the diagonal."""
    kernel = squared_exponential(centers, centers, lengthscales)
    kernel.ravel(order="K")[:: len(kernel) + 1] += JITTER
    chol: Array = dpotrf(kernel, lower=1, clean=1, overwrite_a=1)[0]
    return chol


class Sums(NamedTuple):
    """Sums over the rows in one pass, V = L^-1 K of unit amplitude, Psi = [X, 1]."""

    kernel: Array  # (m, m), V V', lower triangle
    cross: Array  # (m, p), V Psi
    target: Array  # (m,), V y
    linear: Array  # (p, p), Psi' Psi
    linear_target: Array  # (p,), Psi' y


class Solution(NamedTuple):
    """Posterior of the M = m + p whitened weights, B = I + Phi' Phi / s^2."""

    precision: Array  # (M, M), B^-1
    mean: Array  # (M,)
    half_log_det: float  # of B


class Parameters(NamedTuple):
    """Of the second pass: hyper-parameters, and the variances that they give."""

    lengthscales: Array  # (d,)
    amplitude: float
    scales: Array  # (p,), prior stds of the linear weights
    unit: float  # of variances in the sums
    variances: Array  # (n,) with "fitc", else (0,)


class ReducedRankEvidence:
    """-log N(y | 0, Q + s^2 I), a bound or FITC's, and its gradient: theory/reduced_rank.md."""

    # V and not K_uf in the sums: K_uf K_fu times the inverse of K_uu would lose its condition
    # number. The squares of the second pass are of second order in the error of mu.

    def __init__(
        self, X: Array, y: Array, centers: Array, linear: bool, objective: Criterion = "evidence"
    ) -> None:
        n, d = X.shape
        basis = np.ones((d + 1, n), order="F")  # [X, 1]'
        basis[:d] = X.T
        self.X, self.psi = basis[:d], basis if linear else basis[:0]
        self.y, self.centers, self.linear, self.objective = y, centers, linear, objective
        # Kept between calls, as fresh pages cost as much as the kernel.
        self._block = np.empty((len(centers), BLOCK), order="F")
        self._product = np.empty((len(centers), BLOCK), order="F")

    def __call__(
        self, lengthscales: Array, amplitude: float, linear_scale: Array | float, noise_std: float
    ) -> tuple[float, Array]:
        """Value and gradient in log [l, a, tau, s], (d + 3,); inf where B is not definite."""
        n, d, m = len(self.y), len(lengthscales), len(self.centers)
        noise_var, a2, fitc = noise_std**2, amplitude**2, self.objective == "fitc"
        scales = self._linear_scales(linear_scale)
        gradient = np.zeros(d + 3)
        chol = center_root(self.centers, lengthscales)
        sums, rest = self._accumulate(chol, lengthscales, a2, noise_var)
        variances = noise_var + a2 * rest  # of the rows with "fitc", else none
        unit = 1.0 if fitc else noise_var
        solution = self._solve(sums, amplitude, scales, unit)
        if solution is None:
            return np.inf, gradient
        precision, mean, half_log_det = solution

        at = Parameters(lengthscales, amplitude, scales, unit, variances)
        squares, pull, gradient[:d] = self._second_pass(chol, sums, solution, at)
        share = 1.0 - np.diagonal(precision)  # of each weight's variance that the data took
        gradient[d] = share[:m].sum() - mean[:m] @ mean[:m]
        if self.linear:
            gradient[d + 1] = (share[m:] - mean[m:] ** 2)[:-1].sum()
        fit = 0.5 * (squares / unit + mean @ mean)
        if fitc:
            gradient[d] += 2.0 * a2 * (pull @ rest)
            gradient[-1] = 2.0 * noise_var * pull.sum()
            log_det = n * np.log(2.0 * np.pi) + np.log(variances).sum()
            value = 0.5 * log_det + (half_log_det + fit)
        else:
            gradient[-1] = n - share.sum() - squares / noise_var
            value = 0.5 * n * np.log(2.0 * np.pi * noise_var) + half_log_det + fit
        if self.objective == "bound":
            left = 0.5 * a2 / noise_var * (n - np.trace(sums.kernel))
            value += left
            gradient[d] += 2.0 * left
            gradient[-1] -= 2.0 * left
        return float(value), gradient

    def noise_profile(
        self, lengthscales: Array, amplitude: float, linear_scale: float, noise_stds: Array
    ) -> Array:
        """Negative log evidence (k,) at noise stds (k,), in one pass of the rows; not "fitc"."""
        n, squares = len(self.y), self.y @ self.y
        chol = center_root(self.centers, lengthscales)
        sums, _ = self._accumulate(chol, lengthscales, amplitude**2, 0.0)
        scales = self._linear_scales(linear_scale)
        target = np.concatenate([amplitude * sums.target, scales * sums.linear_target])
        is_bound = self.objective == "bound"
        unexplained = amplitude**2 * (n - np.trace(sums.kernel)) if is_bound else 0.0
        values = np.full(len(noise_stds), np.inf)
        for i, noise_var in enumerate(noise_stds**2):
            solution = self._solve(sums, amplitude, scales, noise_var)
            if solution is not None:
                fit = (squares - target @ solution.mean + unexplained) / noise_var
                scale = n * np.log(2.0 * np.pi * noise_var)
                values[i] = 0.5 * (scale + fit) + solution.half_log_det
        return values

    def _linear_scales(self, tau: Array | float) -> Array:
        """Prior stds of the linear weights and the bias, (p,)."""
        return np.append(np.full(len(self.X), tau), 1.0)[: len(self.psi)]

    def _kernel(self, left: Array, Z: Array) -> Array:
        """Kernels between the centers and the columns of Z, (m, r), in the kept block."""
        out = self._block[:, : Z.shape[1]]
        _, right = exponent_factors(Z)
        dgemm(1.0, left, right, trans_a=1, c=out, overwrite_c=1)
        return np.exp(out, out=out)

    def _accumulate(
        self, chol: Array, lengthscales: Array, a2: float, noise_var: float
    ) -> tuple[Sums, Array]:
        """The first pass: sums over rows, with "fitc" in units of their stds, and 1 - |v|^2."""
        m, p, fitc = len(self.centers), len(self.psi), self.objective == "fitc"
        left, _ = exponent_factors((self.centers / lengthscales).T)
        gram, cross = np.zeros((m, m), order="F"), np.zeros((m, p), order="F")
        linear, linear_target = np.zeros((p, p)), np.zeros(p)
        target, rest = np.zeros(m), np.empty(len(self.y) * fitc)
        for rows in row_blocks(len(self.y)):
            V = self._kernel(left, self.X[:, rows] / lengthscales[:, None])
            V = dtrsm(1.0, chol, V, lower=1, overwrite_b=1)
            t, psi = self.y[rows], self.psi[:, rows]
            if fitc:
                rest[rows] = 1.0 - np.einsum("mr,mr->r", V, V)
                weight = 1.0 / np.sqrt(noise_var + a2 * rest[rows])
                V *= weight
                t, psi = t * weight, psi * weight
            gram = dsyrk(1.0, V, beta=1.0, c=gram, lower=1, overwrite_c=1)
            if p:
                linear += dgemm(1.0, psi, psi, trans_b=1)
                linear_target += psi @ t
                cross = dgemm(1.0, V, psi, trans_b=1, beta=1.0, c=cross, overwrite_c=1)
            target += dgemv(1.0, V, t)
        return Sums(gram, cross, target, linear, linear_target), rest

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
        precision = np.asfortranarray(mirrored(inverse(chol, overwrite=True)))
        return Solution(precision, mean, half_log_det)

    def _second_pass(
        self, chol: Array, sums: Sums, solution: Solution, at: Parameters
    ) -> tuple[float, Array, Array]:
        """Sum of squared residuals, the f of each row, and the gradient in log length-scales."""
        lengthscales, amplitude, scales, unit, variances = at
        m, a2, beta, fitc = len(self.centers), amplitude**2, 1.0 / unit, self.objective == "fitc"
        own_part, bound = solution.precision[:m, :m], self.objective == "bound"
        H = a2 * beta * _between(chol, own_part - bound * np.eye(m))
        side = np.empty((m, len(scales) + 1), order="F")
        side[:, :-1] = amplitude * beta * solution.precision[:m, m:] * scales
        side[:, -1] = -amplitude * solution.mean[:m]
        side = dtrsm(1.0, chol, side, lower=1, trans_a=1)
        weights, slopes = -side[:, -1], scales * solution.mean[m:]
        corner = solution.precision[m:, m:] * np.outer(scales, scales)
        U = (self.centers / lengthscales).T  # (d, m)
        left, _ = exponent_factors(U)
        d, squares, pull = len(U), 0.0, np.empty(len(variances))
        pushed = np.zeros((m, 2 * d + 1), order="F")  # (G o K) [Z; Z^2; 1]'
        gram = np.zeros((m, m), order="F")  # V diag(f) V'
        for rows in row_blocks(len(self.y)):
            Z = self.X[:, rows] / lengthscales[:, None]
            K, psi = self._kernel(left, Z), self.psi[:, rows]
            residual = self.y[rows] - dgemv(1.0, K, weights, trans=1)
            if len(psi):
                residual -= dgemv(1.0, psi, slopes, trans=1)
            G = self._product[:, : K.shape[1]]
            dgemm(1.0, H, K, c=G, overwrite_c=1)
            if fitc:
                var, straight = variances[rows], 0.0
                squares += float(residual @ (residual / var))
                if len(psi):
                    dgemm(1.0, side[:, :-1], psi, beta=1.0, c=G, overwrite_c=1)
                    mixed = dgemm(1.0, side[:, :-1], K, trans_a=1) + corner @ psi
                    straight = np.einsum("pr,pr->r", psi, mixed)
                own = np.einsum("mr,mr->r", K, G) + straight  # phi' B^-1 phi
                pull[rows] = f = 0.5 * (1.0 / var - own / var**2 - (residual / var) ** 2)
                G /= var
                G -= np.multiply.outer(weights, residual / var)
                V: Array = dtrsm(1.0, chol, K, lower=1)
                gram = dgemm(1.0, V * f, V, trans_b=1, beta=1.0, c=gram, overwrite_c=1)
                V = dtrsm(1.0, chol, V, lower=1, trans_a=1, overwrite_b=1)
                V *= 2.0 * a2 * f
                G -= V
            else:
                squares += float(residual @ residual)
                dgemm(1.0, side, np.vstack([psi, beta * residual]), beta=1.0, c=G, overwrite_c=1)
            G *= K
            right = np.vstack([Z, Z**2, np.ones((1, len(residual)))])
            pushed = dgemm(1.0, G, right, trans_b=1, beta=1.0, c=pushed, overwrite_c=1)
        total = pushed[:, d : 2 * d].sum(axis=0) - 2.0 * np.einsum("dm,md->d", U, pushed[:, :d])
        total += U**2 @ pushed[:, -1]
        mean = solution.mean[:m]
        inner = np.eye(m) - own_part - np.outer(mean, mean)
        if bound:
            inner -= a2 * beta * mirrored(sums.kernel)
        elif fitc:
            inner -= 2.0 * a2 * gram
        # a gradient -L^-T A L^-1 / 2 in K_uu, in the log length-scales
        M = -0.5 * _between(chol, inner)
        M *= squared_exponential(U.T, U.T, np.ones(d))
        MU = dgemm(1.0, M, U, trans_b=1)  # (m, d)
        total += 2.0 * (U**2 @ M.sum(axis=1) - np.einsum("dm,md->d", U, MU))
        return squares, pull, total


def _between(chol: Array, inner: Array) -> Array:
    """L^-T A L^-1 for a symmetric A, (m, m)."""
    half: Array = dtrsm(1.0, chol, np.asfortranarray(inner), lower=1, trans_a=1)
    return np.asarray(dtrsm(1.0, chol, np.asfortranarray(half.T), lower=1, trans_a=1))
