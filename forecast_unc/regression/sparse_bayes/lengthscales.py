"""The design of kernel bases, and their length-scales by the evidence."""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import exponent_factors
from forecast_unc.regression.search import LOG_STD
from forecast_unc.regression.sparse_bayes.model import (
    Indices,
    NoisePrior,
    SparseModel,
    weight_posterior,
)


def design(Z: Array, centers: Array, lengthscales: Array, linear: bool, bias: bool) -> Array:
    """Design [kernels at centers (m, d), inputs Z (n, d), 1] in Fortran order."""
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


class Bases(NamedTuple):
    """The active columns of a design, by themselves."""

    centers: Array  # (k, d), standardized
    columns: Indices  # (m,), among [kernels at the centers, inputs, 1]
    linear: bool
    bias: bool

    @classmethod
    def of(cls, Z: Array, active: Indices, linear: bool, bias: bool) -> "Bases":
        """Those of the design whose centers are the rows of Z."""
        centers = Z[active[active < len(Z)]]
        rest = active[active >= len(Z)] - len(Z) + len(centers)
        return cls(centers, np.concatenate([np.arange(len(centers)), rest]), linear, bias)

    def at(self, Z: Array, lengthscales: Array) -> Array:
        """Their values at the rows of Z, (n, m), in Fortran order."""
        full = design(Z, self.centers, lengthscales, self.linear, self.bias)
        return np.asfortranarray(full[:, self.columns])


def lengthscale_evidence(
    Z: Array, y: Array, bases: Bases, lengthscales: Array, alpha: Array, noise_var: float
) -> tuple[float, Array]:
    r"""Log evidence and its gradient in (log l, log alpha, log s^2), (d + m + 1,).

    .. math:: \partial_{\log l_d} = \textstyle\sum_{ni} M_{ni} (z_{nd} - c_{id})^2 / l_d^2, \quad
        M = \beta (e \mu' - \Phi \Sigma) \circ \Phi
    """
    centers, m = bases.centers, len(bases.centers)
    Phi = bases.at(Z, lengthscales)
    posterior = weight_posterior(Phi, y, alpha, noise_var)
    inverse, _ = dpotri(posterior.chol, lower=1)
    cov = np.tril(inverse) + np.tril(inverse, -1).T
    residual = y - Phi @ posterior.mean
    gamma = 1.0 - alpha * np.diagonal(cov)
    by_alpha = 0.5 * (gamma - alpha * posterior.mean**2)
    by_noise = 0.5 * (residual @ residual / noise_var - len(y) + gamma.sum())
    D = np.multiply.outer(residual, posterior.mean[:m])
    D -= dgemm(1.0, Phi, np.asfortranarray(cov[:, :m]))
    D *= Phi[:, :m] / noise_var
    squares = D.sum(axis=1) @ Z**2 + D.sum(axis=0) @ centers**2
    squares -= 2.0 * np.einsum("nd,nd->d", Z, D @ centers)
    gradient = np.concatenate([squares / lengthscales**2, by_alpha, [by_noise]])
    return posterior.log_evidence, gradient


def adapt(
    Z: Array,
    y: Array,
    model: SparseModel,
    bases: Bases,
    lengthscales: Array,
    center: Array,
    noise: NoisePrior,
) -> tuple[SparseModel, Array]:
    """Model and length-scales (d,) of higher evidence and prior, of median `center`; same bases."""
    # without the prior an input that hardly matters sends its length-scale to infinity
    d, m = Z.shape[1], len(model.active)

    def objective(x: Array) -> tuple[float, Array]:
        scales, alpha, noise_var = np.exp(x[:d]), np.exp(x[d:-1]), float(np.exp(x[-1]))
        value, gradient = lengthscale_evidence(Z, y, bases, scales, alpha, noise_var)
        z = (x[:d] - np.log(center)) / LOG_STD
        log_prior, slope, _ = noise.terms(x[-1])
        gradient[:d] -= z / LOG_STD
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
        options={"maxiter": 60, "ftol": 1e-11},
    )
    x = search.x
    adapted = model._replace(alpha=np.exp(x[d : d + m]), noise_var=float(np.exp(x[-1])))
    return adapted, np.exp(x[:d])
