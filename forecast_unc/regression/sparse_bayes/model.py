r"""Sparse Bayesian learning on a design matrix: what every trainer shares.

The model is y = Phi w + noise with w_i ~ N(0, 1 / alpha_i) and noise variance s^2, so that
y ~ N(0, C) with C = s^2 I + Phi A^-1 Phi', A = diag(alpha). A column whose alpha is infinite is
out of the model; only the others, the active ones, are ever in a matrix. With beta = 1 / s^2,

.. math::
    \Sigma = (A + \beta \Phi'\Phi)^{-1}, \quad \mu = \beta \Sigma \Phi' y, \quad
    \gamma_i = 1 - \alpha_i \Sigma_{ii},

and for any column, in or out, S = phi' C^-1 phi and Q = phi' C^-1 y (Tipping & Faul 2003).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dtrsm
from scipy.linalg.lapack import dgeqrf, dtrtri

from forecast_unc._typing import Array

Indices = NDArray[np.intp]


class NoisePrior(NamedTuple):
    """Weak log-normal prior on the noise's standard deviation, and its floor.

    The evidence has degenerate optima with a noise of zero: a model that passes through every
    row. The prior makes them unattractive, the floor keeps the factorizations possible.
    """

    median: float  # of the standard deviation, in units of y
    log_std: float
    floor: float  # lowest standard deviation, in units of y
    ceiling: float  # equal to the floor: the noise is fixed

    def terms(self, log_var: float) -> tuple[float, float, float]:
        """Log density in log s^2 up to a constant, and its first and second derivative."""
        z = (0.5 * log_var - np.log(self.median)) / self.log_std
        return -0.5 * z * z, -0.5 * z / self.log_std, -0.25 / self.log_std**2

    def bounds(self) -> tuple[float, float]:
        """Lowest and highest log s^2."""
        return 2.0 * np.log(self.floor), 2.0 * np.log(self.ceiling)

    def update(self, squares: float, dof: float, log_var: float) -> float:
        """Log s^2 that maximizes -dof/2 log s^2 - squares / (2 s^2) + the log prior.

        Without the prior it is log(squares / dof); Newton's method from there or from the
        present value, on a concave function.
        """
        low, high = self.bounds()
        if low == high:
            return low
        t = np.log(squares / dof) if squares > 0 and dof > 0 else log_var
        t = min(max(t, low), high)
        for _ in range(50):
            _, slope, curvature = self.terms(t)
            pull = 0.5 * squares * np.exp(-t)
            step = (pull - 0.5 * dof + slope) / (pull - curvature)
            t = min(max(t + min(max(step, -1.0), 1.0), low), high)
            if abs(step) < 1e-12:
                break
        return float(t)


class SparseModel(NamedTuple):
    """A trained model: the active columns and their precisions."""

    active: Indices  # (m,), columns of the design, ascending
    alpha: Array  # (m,)
    noise_var: float
    converged: bool
    n_iter: int


class WeightPosterior(NamedTuple):
    """Posterior N(mean, (R' R)^-1) of the active weights, and the log evidence."""

    mean: Array  # (m,)
    chol: Array  # (m, m), lower triangular L = R' with L L' = Sigma^-1
    log_evidence: float


def weight_posterior(Phi: Array, y: Array, alpha: Array, noise_var: float) -> WeightPosterior:
    r"""Posterior of the weights and log evidence by an orthogonal factorization.

    [Phi / s; A^{1/2}] = Q R gives Sigma^-1 = R' R without forming Phi' Phi, whose condition
    number is the square; with r the residual of the stacked least-squares problem,

    .. math:: -2 \log p(y) = n \log 2\pi s^2 - \log|A| + 2 \log|R| + |r|^2 .

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Active columns of the design.
    y : ndarray of shape (n,)
        Targets.
    alpha : ndarray of shape (m,)
        Precisions of the weights.
    noise_var : float
        Variance s^2 of the noise.

    Returns
    -------
    WeightPosterior
    """
    n, m = Phi.shape
    stacked = np.zeros((n + m, m + 1), order="F")
    stacked[:n, :m] = Phi
    stacked[:n, m] = y
    stacked[:n] /= np.sqrt(noise_var)
    stacked[n + np.arange(m), np.arange(m)] = np.sqrt(alpha)
    # y rides along as the last column: R_mm is then the norm of the residual
    qr, _, _, _ = dgeqrf(stacked, overwrite_a=1)
    R = np.triu(qr[: m + 1])
    mean: Array = dtrsm(1.0, R[:m, :m], R[:m, m:])[:, 0] if m else np.zeros(0)
    log_det = 2.0 * np.log(np.abs(np.diagonal(R)[:m])).sum() - np.log(alpha).sum()
    log_evidence = -0.5 * (n * np.log(2.0 * np.pi * noise_var) + log_det + R[m, m] ** 2)
    return WeightPosterior(mean, np.asfortranarray(R[:m, :m].T), float(log_evidence))


def left_out_log_density(Phi: Array, y: Array, model: SparseModel) -> float:
    r"""Log density of the rows, each predicted without itself and without the basis at it.

    The evidence of a model of one narrow basis a row is high, and so is the density of a row left
    out whose basis stays: that basis has the variance that suits the row. Without it the row tells
    what the model knows of a new input. With C_i = C - phi_i phi_i' / alpha_i,

    .. math::
        C_i^{-1} = C^{-1} + C^{-1} \phi_i \phi_i' C^{-1} / (\alpha_i^2 \Sigma_{ii}), \quad
        y_i \mid y_{\setminus i} \sim \mathcal N\bigl(y_i - [C_i^{-1} y]_i / k_i,\, 1 / k_i\bigr),
        \quad k_i = [C_i^{-1}]_{ii},

    precisions and noise as they are; C_i = C for a row without a basis.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Active columns of the design.
    y : ndarray of shape (n,)
        Targets.
    model : SparseModel
        A column below n is the basis at that row.

    Returns
    -------
    float
        In nats; minus infinity where a k_i is lost to roundoff.
    """
    beta = 1.0 / model.noise_var
    posterior = weight_posterior(Phi, y, model.alpha, model.noise_var)
    inverse, _ = dtrtri(posterior.chol, lower=1)  # Sigma = inverse' inverse
    whitened = Phi @ inverse.T  # (n, m)
    k = beta * (1.0 - beta * np.einsum("nm,nm->n", whitened, whitened))
    pull = beta * (y - Phi @ posterior.mean)  # C^-1 y
    at = np.flatnonzero(model.active < len(y))
    rows = model.active[at]
    inside = np.einsum("rm,mr->r", whitened[rows], inverse[:, at])  # [Phi Sigma]_{i i}
    var = np.einsum("mr,mr->r", inverse[:, at], inverse[:, at])
    pull[rows] += beta * inside * posterior.mean[at] / var
    k[rows] += (beta * inside) ** 2 / var
    if k.min() <= 0.0:
        return -np.inf
    return float(0.5 * np.sum(np.log(k / (2.0 * np.pi)) - pull**2 / k))


def sparsity_and_quality(
    Phi: Array, y: Array, active: Indices, alpha: Array, noise_var: float
) -> tuple[Array, Array]:
    r"""Sparsity s and quality q of every column, from their definition.

    .. math:: s_i = \alpha_i S_i / (\alpha_i - S_i), \quad q_i = \alpha_i Q_i / (\alpha_i - S_i)

    for an active column, S and Q for the others: how much a column overlaps with the rest of
    the model, and how well it explains what the rest leaves. At an optimum q^2 <= s outside the
    model and alpha = s^2 / (q^2 - s) inside.

    Parameters
    ----------
    Phi : ndarray of shape (n, M)
        Design.
    y : ndarray of shape (n,)
        Targets.
    active : ndarray of shape (m,)
        Active columns.
    alpha : ndarray of shape (m,)
        Their precisions.
    noise_var : float
        Variance of the noise.

    Returns
    -------
    s, q : ndarray of shape (M,)

    References
    ----------
    Faul & Tipping, NIPS 14 (2002); Bishop, PRML (2006), 7.2.2.
    """
    posterior = weight_posterior(Phi[:, active], y, alpha, noise_var)
    s, q = np.empty(Phi.shape[1]), np.empty(Phi.shape[1])
    cross = dgemm(1.0 / noise_var, Phi[:, active], Phi, trans_a=1)  # (m, M)
    whitened = dtrsm(1.0, posterior.chol, cross, lower=1)
    s[:] = np.einsum("ij,ij->j", Phi, Phi) / noise_var - np.einsum("ij,ij->j", whitened, whitened)
    q[:] = (y - Phi[:, active] @ posterior.mean) @ Phi / noise_var
    # inside, 1 / Sigma_ii - alpha and mu / Sigma_ii say the same without alpha - S
    inverse, _ = dtrtri(posterior.chol, lower=1)
    var = np.einsum("ij,ij->j", inverse, inverse)
    s[active] = 1.0 / var - alpha
    q[active] = posterior.mean / var
    return s, q
