"""What the trainers share: the penalized evidence of rows, and what a trainer returns."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.regression.noisy_inputs.evidence import RowEvidence, RowTerms

INPUT_STD_BOUNDS = (1e-4, 1.0)
"""How far the learned std of input noise may go, on standardized inputs."""
# Median and log-std of its log-normal prior, those of the noise of standardized targets.
_MEDIAN, _LOG_STD = 0.1, 1.5


class SearchSpace(Protocol):
    """Of log [l, a, tau, s] on standardized data, each (d + 2 + g,)."""

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which are learned."""

    @property
    def median(self) -> Array:
        """Of the prior."""

    @property
    def log_std(self) -> Array:
        """Of the prior; infinite without."""

    @property
    def bounds(self) -> Array:
        """Of the search, (d + 2 + g, 2)."""


class Round(NamedTuple):
    """One round of a trainer, or one level of the output noise."""

    noise_std: float  # s, in units of y
    input_std: Array  # (d,), root mean square over the rows, in units of the inputs
    score: float  # of standardized targets; see the trainer


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
    """Standardized rows with what is known of them, and the penalized evidence.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs as observed.
    evidence : RowEvidence
        Of the targets.
    space : SearchSpace
        Priors, bounds, and which hyper-parameters are learned.
    start : ndarray of shape (d + 2 + g,)
        Log hyper-parameters of the fit that ignores input noise.
    input_cov : ndarray of shape (d, d) or (n, d, d), optional
        Covariance of the input noise, where it is known.
    least_ratio : float
        Least noise std in amplitudes, where the noise is learned.
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
        self.input_cov, self.least_ratio = input_cov, least_ratio if space.free[-1] else 0.0
        self._precision = np.where(space.free, space.log_std**-2.0, 0.0)
        weak = np.isfinite(space.log_std).any()
        self._input_precision = _LOG_STD**-2.0 if weak else 0.0

    def scales(self, theta: Array) -> tuple[Array, float, Array, float]:
        """Length-scales, amplitude, linear scales, and the variance of the noise with its least."""
        d, scales = self.X.shape[1], np.exp(theta)
        noise_var = scales[-1] ** 2 + (self.least_ratio * scales[d]) ** 2
        return scales[:d], float(scales[d]), scales[d + 1 : -1], float(noise_var)

    def __call__(
        self, theta: Array, X: Array, added_var: Array | float = 0.0
    ) -> tuple[float, Array, RowTerms]:
        """Negative log evidence less log prior, its gradient in theta, and the evidence's terms.

        Of rows at X (n, d), whose noise has variances `added_var` (n,) beside s^2.
        """
        d, away = self.X.shape[1], theta - self.space.median
        l, a, tau, noise_var = self.scales(theta)
        terms = self.evidence(X, l, a, tau, np.broadcast_to(noise_var + added_var, len(X)))
        total, least = float(terms.row_var.sum()), (self.least_ratio * a) ** 2
        gradient = np.append(terms.hyper, 2.0 * total * (noise_var - least))
        gradient[d] += 2.0 * total * least
        value = terms.value + 0.5 * float(self._precision @ away**2)
        return value, gradient + self._precision * away, terms

    def slopes(self, theta: Array, X: Array, weights: Array) -> Array:
        """Gradient of the posterior mean at the rows X, (n, d), from their `RowTerms.weights`."""
        l, a, tau, _ = self.scales(theta)
        return self.evidence.slopes(X, l, a, tau, weights)

    def input_prior(self, log_std: Array) -> tuple[float, Array]:
        """Minus the log prior of the log stds of the input noise, (d,), and its gradient."""
        away = log_std - np.log(_MEDIAN)
        gradient = self._input_precision * away
        return 0.5 * float(gradient @ away), gradient

    def input_mode(self, mean_square: Array, n: int) -> Array:
        """Log stds of input noise from the mean squares of n draws, nearly the mode, (d,)."""
        log_std = 0.5 * np.log(np.maximum(mean_square, INPUT_STD_BOUNDS[0] ** 2))
        # n draws have the information 2 n on a log std
        prior = self._input_precision
        log_std = (2.0 * n * log_std + prior * np.log(_MEDIAN)) / (2.0 * n + prior)
        return np.asarray(np.minimum(log_std, np.log(INPUT_STD_BOUNDS[1])))


def input_std(S: Array) -> Array:
    """Root mean square of the input noise of each input over the rows, (d,)."""
    variances = np.diagonal(S, axis1=-2, axis2=-1)
    return np.asarray(np.sqrt(variances if S.ndim == 2 else variances.mean(axis=0)))


def symmetric_roots(S: Array) -> Array:
    """Symmetric roots of covariances, (d, d) or (n, d, d), singular ones too."""
    values, axes = np.linalg.eigh(S)
    stretched = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(stretched @ np.swapaxes(axes, -1, -2))
