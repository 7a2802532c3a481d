"""Length-scales of the kernel bases by the evidence, together with the precisions and the noise."""

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import exponent_factors
from forecast_unc.regression.sparse_bayes.model import (
    Indices,
    NoisePrior,
    SparseModel,
    weight_posterior,
)

# Log-std of the log-normal prior on the length-scales around where they start, that of GPRegressor:
# without it an input that hardly matters sends its length-scale to infinity.
LENGTHSCALE_LOG_STD = 1.5


def design(Z: Array, centers: Array, lengthscales: Array, linear: bool, bias: bool) -> Array:
    """Design [kernel at the centers, inputs, 1] in Fortran order, (n, m + d + 1) at most.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Standardized inputs.
    centers : ndarray of shape (m, d)
        Kernel centers.
    lengthscales : ndarray of shape (d,)
        In units of the standardized inputs.
    linear, bias : bool
        Whether the inputs themselves and a constant are columns.
    """
    (n, d), m = Z.shape, len(centers)
    out = np.empty((n, m + d * linear + bias), order="F")
    if m:  # written in place: at 3000 rows a copy costs as much as the kernel itself
        left, _ = exponent_factors((Z / lengthscales).T)
        _, right = exponent_factors((centers / lengthscales).T)
        kernel: Array = dgemm(1.0, left, right, trans_a=1, c=out[:, :m], overwrite_c=1)
        np.exp(kernel, out=out[:, :m])
    if linear:
        out[:, m : m + d] = Z
    if bias:
        out[:, -1] = 1.0
    return out


class LengthscaleEvidence:
    r"""Log evidence in (log l, log alpha, log s^2) with the active columns fixed.

    With e the residual and D = beta (e mu' - Phi Sigma) the derivative in Phi, and
    M = D o Phi on the kernel columns,

    .. math:: \partial L / \partial \log l_d
        = \textstyle\sum_{ni} M_{ni} (z_{nd} - c_{id})^2 / l_d^2 .

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Standardized inputs.
    y : ndarray of shape (n,)
        Targets.
    active : ndarray of shape (m,)
        Active columns of the full design; those below n are kernels at rows of Z.
    linear, bias : bool
        Other columns of the full design.
    """

    def __init__(self, Z: Array, y: Array, active: Indices, linear: bool, bias: bool) -> None:
        self.Z, self.y, self.active = Z, y, active
        n = len(Z)
        self.centers = Z[active[active < n]]
        # position of an active column among [kernels at the centers, inputs, 1]
        rest = active[active >= n] - n + len(self.centers)
        self.columns = np.concatenate([np.arange(len(self.centers)), rest])
        self.linear, self.bias = linear, bias

    def __call__(self, lengthscales: Array, alpha: Array, noise_var: float) -> tuple[float, Array]:
        """Log evidence and its gradient, (d + m + 1,).

        Parameters
        ----------
        lengthscales : ndarray of shape (d,)
            Length-scales.
        alpha : ndarray of shape (m,)
            Precisions of the active columns.
        noise_var : float
            Variance of the noise.
        """
        Z, m = self.Z, len(self.centers)
        Phi = design(Z, self.centers, lengthscales, self.linear, self.bias)[:, self.columns]
        Phi = np.asfortranarray(Phi)
        posterior = weight_posterior(Phi, self.y, alpha, noise_var)
        inverse, _ = dpotri(posterior.chol, lower=1)
        cov = np.tril(inverse) + np.tril(inverse, -1).T
        residual = self.y - Phi @ posterior.mean
        gamma = 1.0 - alpha * np.diagonal(cov)
        by_alpha = 0.5 * (gamma - alpha * posterior.mean**2)
        by_noise = 0.5 * (residual @ residual / noise_var - len(self.y) + gamma.sum())
        D = np.multiply.outer(residual, posterior.mean[:m])
        D -= dgemm(1.0, Phi, np.asfortranarray(cov[:, :m]))
        D *= Phi[:, :m] / noise_var
        squares = D.sum(axis=1) @ Z**2 + D.sum(axis=0) @ self.centers**2
        squares -= 2.0 * np.einsum("nd,nd->d", Z, D @ self.centers)
        gradient = np.concatenate([squares / lengthscales**2, by_alpha, [by_noise]])
        return posterior.log_evidence, gradient


def adapt(
    Z: Array,
    y: Array,
    model: SparseModel,
    lengthscales: Array,
    center: Array,
    noise: NoisePrior,
    linear: bool,
    bias: bool,
    max_iter: int = 60,
) -> tuple[SparseModel, Array]:
    """Model and length-scales of higher evidence (and prior), active columns as they are.

    Parameters
    ----------
    Z, y
        Standardized inputs (n, d) and targets (n,).
    model : SparseModel
        Where to start.
    lengthscales : ndarray of shape (d,)
        Where to start.
    center : ndarray of shape (d,)
        Medians of the prior on the length-scales.
    noise : NoisePrior
        Prior, floor and ceiling of the noise.
    linear, bias : bool
        Columns of the design besides the kernels.
    max_iter : int
        Most L-BFGS iterations.

    Returns
    -------
    model : SparseModel
    lengthscales : ndarray of shape (d,)
    """
    d, m = Z.shape[1], len(model.active)
    evidence = LengthscaleEvidence(Z, y, model.active, linear, bias)

    def objective(x: Array) -> tuple[float, Array]:
        value, gradient = evidence(np.exp(x[:d]), np.exp(x[d:-1]), float(np.exp(x[-1])))
        z = (x[:d] - np.log(center)) / LENGTHSCALE_LOG_STD
        log_prior, slope, _ = noise.terms(x[-1])
        gradient[:d] -= z / LENGTHSCALE_LOG_STD
        gradient[-1] += slope
        return float(0.5 * z @ z) - value - log_prior, -gradient

    start = np.concatenate([np.log(lengthscales), np.log(model.alpha), [np.log(model.noise_var)]])
    # within a factor 20 of the start, so that every factorization stays possible
    bounds = [(v - 3.0, v + 3.0) for v in start[:-1]] + [noise.bounds()]
    search = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "ftol": 1e-11},
    )
    x = search.x
    adapted = model._replace(alpha=np.exp(x[d : d + m]), noise_var=float(np.exp(x[-1])))
    return adapted, np.exp(x[:d])
