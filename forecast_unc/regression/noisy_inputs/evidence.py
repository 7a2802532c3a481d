"""Evidence of rows with noisy inputs, and what trainers make of it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._typing import Array
from forecast_unc.regression.evidence import GaussianProcessEvidence, RowTerms
from forecast_unc.regression.kernels import blurred
from forecast_unc.regression.search import PRIORS, SearchSpace, descend

INPUT_STD_BOUNDS = (1e-4, 1.0)
"""How far the learned std of input noise may go, on standardized inputs."""
# Median and log-std of its log-normal prior, those of the noise of standardized targets.
_MEDIAN, _LOG_STD = PRIORS["weak"][2]


class Round(NamedTuple):
    """One round of a trainer, or one level of the output noise."""

    noise_std: float  # s, in units of y
    input_std: Array  # (d,), root mean square over the rows, in units of the inputs
    score: float  # of standardized targets; see the trainer


class Learned(NamedTuple):
    """What a trainer found, on standardized data."""

    theta: Array  # (d + 2 + g,), log [l, a, tau, s]
    input_cov: Array  # (d, d) or (n, d, d)
    inputs: Array  # (n, d), where the rows were linearized
    slopes: Array  # (n, d)
    rounds: list[Round]
    converged: bool
    n_iter: int


class BlurredEvidence:
    r"""The evidence where each input is known up to independent noise of given variances v.

    The covariance of two rows is the kernel's expectation over their inputs; what that takes from
    the variance of one row is its noise:

    .. math::
        \mathrm{Cov}[y_i, y_j] = \mathrm E[k(x_i, x_j)] = A^2 e^{-\frac12 |u_i - u_j|_L^2}
            + u_i' T u_j + \tau_0^2 + \delta_{ij} N^2, \qquad
        N^2 = s^2 + a^2 - A^2 + \textstyle\sum_j \tau_j^2 v_j ,

    with L and A of `blurred` at 2 v and T the prior variances of the linear weights: the `plain`
    evidence, in whose units v (d,) is, at other hyper-parameters, and the chain rule.
    """

    def __init__(self, plain: GaussianProcessEvidence, input_var: Array) -> None:
        self._plain, self.input_var = plain, input_var

    def __call__(
        self, lengthscales: Array, amplitude: float, linear_scale: Array | float, noise_std: float
    ) -> tuple[float, Array]:
        """As that of the plain evidence; s is the noise without what the inputs add."""
        d, v = len(lengthscales), self.input_var
        tau = np.atleast_1d(np.asarray(linear_scale, dtype=np.float64))
        L, A = blurred(lengthscales, amplitude, 2.0 * v)
        by_group = np.bincount(self._plain.groups + 1, v, len(tau) + 1)[1:]
        added = self._plain.linear * tau**2 * by_group
        lost = amplitude**2 - A**2
        noise_var = noise_std**2 + lost + added.sum()
        value, g = self._plain(L, A, tau, float(np.sqrt(noise_var)))
        share = v / L**2  # d log A / d log l
        gradient = g.copy()
        gradient[:d] = g[:d] * (lengthscales / L) ** 2 + share * (g[d] - g[-1] * A**2 / noise_var)
        gradient[d] += g[-1] * lost / noise_var
        gradient[d + 1 : -1] += g[-1] * added / noise_var
        gradient[-1] *= noise_std**2 / noise_var
        return value, gradient


class Problem:
    """Standardized rows with what is known of them, and their evidence times the prior."""

    def __init__(
        self,
        evidence: GaussianProcessEvidence,  # of the inputs as observed
        space: SearchSpace,
        start: Array,  # (d + 2 + g,), theta of the fit that ignores input noise
        input_cov: Array | None,  # (d, d) or (n, d, d), where it is known
    ) -> None:
        self.X, self.evidence = np.ascontiguousarray(evidence.X.T), evidence  # (n, d)
        self.space, self.start, self.input_cov = space, start, input_cov
        self._precision = np.where(space.free, space.log_std**-2.0, 0.0)
        weak = np.isfinite(space.log_std).any()
        self._input_precision = _LOG_STD**-2.0 if weak else 0.0

    def scales(self, theta: Array) -> tuple[Array, float, Array, float]:
        """Length-scales, amplitude, linear scales, and the variance of the noise with its least."""
        d, scales = self.space.d, np.exp(theta)
        noise_var = scales[-1] ** 2 + (self.space.least_ratio * scales[d]) ** 2
        return scales[:d], float(scales[d]), scales[d + 1 : -1], float(noise_var)

    def __call__(
        self, theta: Array, X: Array, added_var: Array | float = 0.0
    ) -> tuple[float, Array, RowTerms]:
        """Negative log evidence less log prior, its gradient in theta, and the evidence's terms.

        Of rows at X (n, d), whose noise has variances `added_var` (n,) beside s^2.
        """
        d, away = self.space.d, theta - self.space.median
        l, a, tau, noise_var = self.scales(theta)
        row_var = np.broadcast_to(noise_var + added_var, len(X))
        terms = self.evidence.of_rows(X, l, a, tau, row_var)
        total, least = float(terms.row_var.sum()), (self.space.least_ratio * a) ** 2
        gradient = np.append(terms.hyper, 2.0 * total * (noise_var - least))
        gradient[d] += 2.0 * total * least
        value = terms.value + 0.5 * float(self._precision @ away**2)
        return value, gradient + self._precision * away, terms

    def search(
        self,
        evaluate: Callable[[Array, Array], tuple[float, Array, Array]],
        theta: Array,
        more: Array,
        bounds: ArrayLike,
        tol: float,
        most: int = 500,
    ) -> tuple[Array, Array, int]:
        """theta, where free, and further numbers at a minimum, and the steps to it.

        `evaluate` gives the value and its gradients in both; `bounds` (q, 2) are of the further.
        """
        free = self.space.free
        k = int(free.sum())

        def objective(x: Array) -> tuple[float, Array]:
            at = theta.copy()
            at[free] = x[:k]
            value, gradient, further = evaluate(at, x[k:])
            return value, np.append(gradient[free], further)

        both = np.vstack([self.space.bounds[free], bounds])
        best = descend(objective, np.append(theta[free], more), both, tol, most)
        found = theta.copy()
        found[free] = best.x[:k]
        return found, best.x[k:], best.n_iter

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
