"""Independent, slow and obvious answers for the sparse Bayesian models."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def kernel(X1: Array, X2: Array, lengthscales: Array) -> Array:
    difference = (X1[:, None, :] - X2[None, :, :]) / lengthscales
    return np.exp(-0.5 * (difference**2).sum(axis=2))


def log_evidence(Phi: Array, y: Array, alpha: Array, noise_var: float) -> float:
    """log N(y | 0, C), with the n x n matrix C = s^2 I + Phi A^-1 Phi'."""
    C = noise_var * np.eye(len(y)) + (Phi / alpha) @ Phi.T
    _, log_det = np.linalg.slogdet(C)
    return float(-0.5 * (len(y) * np.log(2 * np.pi) + log_det + y @ np.linalg.solve(C, y)))


def sparsity_and_quality(
    Phi: Array, y: Array, alpha: Array, noise_var: float
) -> tuple[Array, Array]:
    """phi_i' C_-i^-1 phi_i and phi_i' C_-i^-1 y, C_-i without column i; alpha (M,), inf for out."""
    s, q = np.empty(Phi.shape[1]), np.empty(Phi.shape[1])
    for i in range(Phi.shape[1]):
        precision = alpha.copy()
        precision[i] = np.inf
        C = noise_var * np.eye(len(y)) + (Phi / precision) @ Phi.T
        solved = np.linalg.solve(C, np.column_stack([Phi[:, i], y]))
        s[i], q[i] = Phi[:, i] @ solved
    return s, q


class Prediction(NamedTuple):
    mean: float
    var: float


def weight_space_prediction(
    Phi: Array, y: Array, alpha: Array, noise_var: float, features: Array
) -> Prediction:
    """Posterior of all weights by the textbook formula, then the prediction of an observation."""
    Sigma = np.linalg.inv(np.diag(alpha) + Phi.T @ Phi / noise_var)
    mean = Sigma @ Phi.T @ y / noise_var
    return Prediction(float(features @ mean), float(noise_var + features @ Sigma @ features))
