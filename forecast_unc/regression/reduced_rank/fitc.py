"""Log evidence where what the centers leave of a row's prior variance is noise of that row."""

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dsyrk, dtrsm

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import exponent_factors
from forecast_unc.regression.reduced_rank.centers import center_root, row_blocks
from forecast_unc.regression.reduced_rank.evidence import (
    ReducedRankEvidence,
    Solution,
    Sums,
    between,
    by_lengthscale,
)


class IndependentRestEvidence(ReducedRankEvidence):
    r"""-log N(y | 0, Q + Lambda) and its gradient (FITC).

    .. math::
        \Lambda = \mathrm{diag}(\lambda_i), \quad \lambda_i = s^2 + a^2 (1 - |v_i|^2)

    with v_i the columns of V = L^-1 K_uf: the evidence of the "corrected" model, but that the rest
    of the function counts as independent from row to row. With alpha_i = r_i / lambda_i of the
    residuals r and B = I + Phi' Lambda^-1 Phi,

    .. math::
        f_i = \frac{\partial(-\log p)}{\partial \lambda_i}
        = \tfrac12 \bigl(1/\lambda_i - \phi_i' B^{-1} \phi_i / \lambda_i^2 - \alpha_i^2\bigr),

    and the gradients in K_uf and K_uu gain -2 a^2 (K_uu + j I)^-1 k_i f_i and
    a^2 L^-T V diag(f) V' L^-1: twice the multiply-adds of `ReducedRankEvidence`.

    References
    ----------
    Snelson & Ghahramani, NIPS 18 (2006); Quinonero-Candela & Rasmussen, JMLR 6 (2005).
    """

    def __call__(
        self,
        lengthscales: Array,
        amplitude: float,
        linear_scale: Array | float,
        noise_std: float,
    ) -> tuple[float, Array]:
        """Negative log evidence, and its gradient; see `ReducedRankEvidence`."""
        n, d, m = len(self.y), len(lengthscales), len(self.centers)
        tau, a2, noise_var = np.atleast_1d(linear_scale), amplitude**2, noise_std**2
        scales = self._linear_scales(tau)
        gradient = np.zeros(d + 2 + len(tau))
        chol = center_root(self.centers, lengthscales)
        sums, left = self._weighted(chol, lengthscales, a2, noise_var)
        solution = self._solve(sums, amplitude, scales, 1.0)
        if solution is None:
            return np.inf, gradient
        variances = noise_var + a2 * left
        squares, pull, gradient[:d] = self._by_rows(
            chol, lengthscales, solution, amplitude, scales, variances
        )
        share, mean = 1.0 - np.diagonal(solution.precision), solution.mean
        gradient[d] = share[:m].sum() - mean[:m] @ mean[:m] + 2.0 * a2 * (pull @ left)
        if self.linear:
            change = share[m:] - mean[m:] ** 2
            gradient[d + 1 : -1] = np.bincount(self.groups + 1, change[:-1], len(tau) + 1)[1:]
        gradient[-1] = 2.0 * noise_var * pull.sum()
        value = 0.5 * (n * np.log(2.0 * np.pi) + np.log(variances).sum())
        value += solution.half_log_det + 0.5 * (squares + mean @ mean)
        return float(value), gradient

    def _weighted(
        self, chol: Array, lengthscales: Array, a2: float, noise_var: float
    ) -> tuple[Sums, Array]:
        """Sums over rows in units of their stds, and what the centers leave, 1 - |v|^2, (n,)."""
        m, p = len(self.centers), len(self._linear_target)
        left, _ = exponent_factors((self.centers / lengthscales).T)
        gram, cross = np.zeros((m, m), order="F"), np.zeros((m, p), order="F")
        target, linear, linear_target = np.zeros(m), np.zeros((p, p)), np.zeros(p)
        rest = np.empty(len(self.y))
        for rows in row_blocks(len(self.y)):
            V = self._kernel(left, self.X[:, rows] / lengthscales[:, None])
            V = dtrsm(1.0, chol, V, lower=1, overwrite_b=1)
            rest[rows] = 1.0 - np.einsum("mr,mr->r", V, V)
            weight = 1.0 / np.sqrt(noise_var + a2 * rest[rows])
            V *= weight
            t, psi = self.y[rows] * weight, self._psi(rows) * weight
            gram = dsyrk(1.0, V, beta=1.0, c=gram, lower=1, overwrite_c=1)
            target += dgemv(1.0, V, t)
            if p:
                cross = dgemm(1.0, V, psi, trans_b=1, beta=1.0, c=cross, overwrite_c=1)
                linear += dgemm(1.0, psi, psi, trans_b=1)
                linear_target += dgemv(1.0, psi, t)
        return Sums(gram, cross, target, linear, linear_target), rest

    def _by_rows(
        self,
        chol: Array,
        lengthscales: Array,
        solution: Solution,
        amplitude: float,
        scales: Array,
        variances: Array,
    ) -> tuple[float, Array, Array]:
        """Sum of squared residuals in stds, the f of each row, gradient by log length-scales."""
        m, a2 = len(self.centers), amplitude**2
        H = a2 * between(chol, solution.precision[:m, :m].copy(order="F"))
        side = np.empty((m, len(scales) + 1), order="F")
        side[:, :-1] = amplitude * solution.precision[:m, m:] * scales
        side[:, -1] = amplitude * solution.mean[:m]
        side = dtrsm(1.0, chol, side, lower=1, trans_a=1)
        side, weights, slopes = side[:, :-1], side[:, -1], scales * solution.mean[m:]
        corner = solution.precision[m:, m:] * np.outer(scales, scales)
        U = (self.centers / lengthscales).T
        left, _ = exponent_factors(U)
        squares, pull = 0.0, np.empty(len(self.y))
        pushed = np.zeros((m, 2 * len(U) + 1), order="F")
        gram = np.zeros((m, m), order="F")  # V diag(f) V'
        for rows in row_blocks(len(self.y)):
            Z, var = self.X[:, rows] / lengthscales[:, None], variances[rows]
            K, psi = self._kernel(left, Z), self._psi(rows)
            residual = self.y[rows] - dgemv(1.0, K, weights, trans=1) - slopes @ psi
            squares += float(residual @ (residual / var))
            G = self._product[:, : K.shape[1]]
            dgemm(1.0, H, K, c=G, overwrite_c=1)
            straight = np.zeros(len(var))
            if len(psi):
                dgemm(1.0, side, psi, beta=1.0, c=G, overwrite_c=1)
                mixed = dgemm(1.0, side, K, trans_a=1) + corner @ psi
                straight = np.einsum("pr,pr->r", psi, mixed)
            own = np.einsum("mr,mr->r", K, G) + straight  # phi' B^-1 phi
            f = 0.5 * (1.0 / var - own / var**2 - (residual / var) ** 2)
            pull[rows] = f
            G /= var
            G -= np.multiply.outer(weights, residual / var)
            V: Array = dtrsm(1.0, chol, K, lower=1)
            gram = dgemm(1.0, V * f, V, trans_b=1, beta=1.0, c=gram, overwrite_c=1)
            V = dtrsm(1.0, chol, V, lower=1, trans_a=1, overwrite_b=1)
            V *= 2.0 * a2 * f
            G -= V
            G *= K
            right = np.vstack([Z, Z**2, np.ones((1, len(var)))])
            pushed = dgemm(1.0, G, right, trans_b=1, beta=1.0, c=pushed, overwrite_c=1)
        inner = self._center_matrix(solution) - 2.0 * a2 * gram
        return squares, pull, by_lengthscale(pushed, U) + self._center_part(chol, U, inner)
