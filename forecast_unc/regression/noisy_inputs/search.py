"""What the trainers share: the penalized evidence of rows, and what a trainer returns."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from forecast_unc._typing import Array
from forecast_unc.regression.noisy_inputs.evidence import RowEvidence, RowTerms

# Prior of the std of input noise on standardized inputs, and how far it may go.
INPUT_STD_MEDIAN = 0.1
INPUT_STD_LOG_STD = 1.5
INPUT_STD_BOUNDS = (1e-4, 1.0)


class SearchSpace(Protocol):
    """Of log [l, a, tau, s] on standardized data, each (d + 2 + g,)."""

    @property
    def start(self) -> Array: ...
    @property
    def free(self) -> NDArray[np.bool_]: ...
    @property
    def median(self) -> Array: ...
    @property
    def log_std(self) -> Array: ...
    @property
    def bounds(self) -> Array: ...


class Round(NamedTuple):
    """One round of a trainer."""

    noise_std: float  # s, in units of y
    input_std: Array  # (d,), root mean square over the rows, in units of the inputs
    score: float  # "nigp" and "stochastic_em": log evidence; "annealed": held-out log density a row


class Learned(NamedTuple):
    """What a trainer found, on standardized data."""

    log_hyper: Array  # (d + 2 + g,)
    input_cov: Array  # (d, d) or (n, d, d)
    inputs: Array  # (n, d), where the rows were linearized
    slopes: Array  # (n, d)
    rounds: list[Round]
    converged: bool
    n_iter: int


class Problem:
    """Standardized rows, their priors and the known part of their input noise.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Observed inputs, standardized.
    evidence : RowEvidence
        Of the standardized targets.
    space : SearchSpace
        Priors, bounds, and which hyper-parameters are free.
    start : ndarray of shape (d + 2 + g,)
        Log hyper-parameters of the fit that ignores input noise.
    input_cov : ndarray of shape (d, d) or (n, d, d), optional
        Covariance of the input noise, where it is known.
    least_ratio : float
        Least noise std in amplitudes.
    """

    def __init__(
        self,
        X: Array,
        evidence: RowEvidence,
        space: SearchSpace,
        start: Array,
        input_cov: Array | None,
        least_ratio: float,
    ) -> None:
        self.X, self.evidence, self.space, self.start = X, evidence, space, start
        self.input_cov = input_cov
        self.precision = np.where(space.free, space.log_std**-2.0, 0.0)
        given = not space.free[-1]
        self.least_ratio = 0.0 if given else least_ratio

    @property
    def weak(self) -> bool:
        """Whether there is a prior at all."""
        return bool(np.isfinite(self.space.log_std[: self.X.shape[1]]).any())

    def scales(self, theta: Array) -> tuple[Array, float, Array, float]:
        """Length-scales, amplitude, linear scales, and the noise variance above its least."""
        d = self.X.shape[1]
        scales = np.exp(theta)
        noise_var = scales[-1] ** 2 + (self.least_ratio * scales[d]) ** 2
        return scales[:d], float(scales[d]), scales[d + 1 : -1], float(noise_var)

    def __call__(
        self, theta: Array, X: Array, added_var: Array | float = 0.0
    ) -> tuple[float, Array, RowTerms]:
        """Negative log evidence with the log prior, its gradient in theta, and its terms."""
        d = self.X.shape[1]
        l, a, tau, noise_var = self.scales(theta)
        row_var = np.broadcast_to(noise_var + added_var, len(X))
        terms = self.evidence(X, l, a, tau, row_var)
        away = theta - self.space.median
        total = float(terms.row_var.sum())
        least = (self.least_ratio * a) ** 2
        gradient = np.append(terms.hyper, 2.0 * total * (noise_var - least))
        gradient[d] += 2.0 * total * least
        value = terms.value + 0.5 * float(self.precision @ away**2)
        return value, gradient + self.precision * away, terms

    def slopes(self, theta: Array, X: Array, added_var: Array | float) -> Array:
        """Gradient of the posterior mean at the rows X, which it rests on."""
        l, a, tau, noise_var = self.scales(theta)
        row_var = np.broadcast_to(noise_var + added_var, len(X))
        weights = self.evidence(X, l, a, tau, row_var).weights
        return self.evidence.slopes(X, l, a, tau, weights)


def search(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Any,
    tol: float,
    most: int = 500,
) -> Any:
    """The result of L-BFGS-B with a gradient."""
    options = {"maxiter": most, "ftol": tol, "gtol": 1e-4}
    return minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )


def input_std(S: Array) -> Array:
    """Root mean square of the input noise of each input over the rows, (d,)."""
    variances = np.diagonal(S, axis1=-2, axis2=-1)
    return np.asarray(np.sqrt(variances if S.ndim == 2 else variances.mean(axis=0)))


def symmetric_roots(S: Array) -> Array:
    """Symmetric roots of covariances, (d, d) or (n, d, d)."""
    values, axes = np.linalg.eigh(S)
    return np.asarray((axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(axes, -1, -2))
