"""The search for hyper-parameters of a Gaussian process: where, with which priors, and how.

All of it is of x = log [l, a, tau, s] on standardized data: length-scales, amplitude, prior stds of
the linear weights by group, noise std. Those that are given are not free, and not searched.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.regression.descent import descend
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.learned_prior import LearnedPrior
from forecast_unc.regression.standardize import Lengthscales

Prior = Literal["weak", "shrunk"] | LearnedPrior | None

# Log-normal priors for standardized data: median and log-std of the amplitude, the linear
# scale and the noise. Length-scales have a median of 2 sqrt(d): distances between
# standardized inputs grow like sqrt(2 d), so that the function starts smooth in any d.
_LOG_STD = 1.5
_PRIORS: dict[str | None, tuple[tuple[float, float], ...]] = {
    "weak": ((0.5, _LOG_STD), (0.5, _LOG_STD), (0.1, _LOG_STD)),
    "shrunk": ((0.1, 0.7), (0.1, 0.7), (0.7, 1.0)),
    None: ((0.5, np.inf), (0.5, np.inf), (0.1, np.inf)),
}
# Where least squares on the linear part leaves less std than the weak median of the noise, the
# weak medians of noise and amplitude are as much smaller, and the prior of the amplitude narrows to
# the shrunk one's: a large amplitude is then undone by the linear weights where the data are, and
# nowhere else. Of noise-free Mackey-Glass, of which 8 lags leave .001, the root of the linear
# recursion came out above 1.05 in 56 sections of 64, with 3 to 10 nats less than is to be had.
_LEFT_BY_LINEAR = _PRIORS["weak"][2][0]
_LEAST_SHARE = 1e-3  # the median of the noise is at its bound
# A bias counts if it brings more than its cost of one parameter in Akaike's criterion.
_AKAIKE = 2.0
# Where the search may go, on standardized data. Below a noise of 1e-4 the covariance of a
# few hundred rows is no longer positive definite in double precision.
_LENGTHSCALE_BOUNDS = (1e-2, 1e4)
_SCALE_BOUNDS = ((1e-3, 1e2), (1e-4, 1e1), (1e-4, 1e1))
# Least noise std in amplitudes. Predictions keep the digits of eps n (a / s)^2: at a ratio of
# 1e-6 (noise-free logistic map, amplitude 60) variances were 2 % wrong, at 1e-4 they keep five
# digits or more.
LEAST_NOISE_RATIO = 1e-4


class Optimum(NamedTuple):
    """Where the best search ended."""

    log_hyperparameters: Array  # (q,), the free ones of log [l, a, tau, s], standardized
    log_evidence: float  # of the standardized targets
    converged: bool
    n_iter: int


class SearchEnd(NamedTuple):
    """Where a search ended: log [l, a, tau, s] on standardized data, each (d + 2 + g,)."""

    free: NDArray[np.bool_]  # learned, not given
    theta: Array


class SearchSpace(NamedTuple):
    """Of log [l, a, tau, s] on standardized data, each (d + 2 + g,)."""

    start: Array  # given values, and plain medians where they are learned
    free: NDArray[np.bool_]
    median: Array
    log_std: Array  # of the prior; infinite without
    bounds: Array  # (d + 2 + g, 2)
    warm: bool = False  # the start is where an earlier search ended: one search is enough

    def starting_at(self, end: SearchEnd | None) -> "SearchSpace":
        """The space with the start of an earlier search's end, if that learned the same ones."""
        if end is None or not np.array_equal(end.free, self.free):
            return self
        start = np.where(self.free, np.clip(end.theta, *self.bounds.T), self.start)
        return self._replace(start=start, warm=True)


class Objective:
    """-log(evidence prior) of the free log hyper-parameters x, and its gradient.

    Parameters
    ----------
    evidence : GaussianProcessEvidence
        Of standardized data.
    space : SearchSpace
        What is free, and its prior.
    least_ratio : float
        The noise is no less than so many amplitudes.
    """

    def __init__(
        self, evidence: GaussianProcessEvidence, space: SearchSpace, least_ratio: float
    ) -> None:
        self._evidence, self.space, self._least_ratio = evidence, space, least_ratio
        self._d, free = len(evidence.X), space.free
        self._median, self._precision = space.median[free], space.log_std[free] ** -2

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Value, and gradient (q,)."""
        theta, d = self._with_given(x), self._d
        scales = np.exp(theta)
        noise_std, share = self._noise(theta)
        value, gradient = self._evidence(scales[:d], scales[d], scales[d + 1 : -1], noise_std)
        gradient[d] += (1.0 - share) * gradient[-1]
        gradient[-1] *= share
        away = self._precision * (x - self._median)
        return value - self.log_prior(x), gradient[self.space.free] + away

    def value(self, x: Array) -> float:
        """The objective alone."""
        theta, d = self._with_given(x), self._d
        scales = np.exp(theta)
        noise_std, _ = self._noise(theta)
        value = self._evidence.value(scales[:d], scales[d], scales[d + 1 : -1], noise_std)
        return value - self.log_prior(x)

    def log_prior(self, x: Array) -> float:
        """Log prior, up to a constant."""
        return float(-0.5 * self._precision @ (x - self._median) ** 2)

    def theta(self, x: Array) -> Array:
        """All log [l, a, tau, s], (d + 2 + g,), the noise as it is used."""
        theta = self._with_given(x)
        theta[-1] = np.log(self._noise(theta)[0])
        return theta

    def _with_given(self, x: Array) -> Array:
        theta = self.space.start.copy()
        theta[self.space.free] = x
        return theta

    def _noise(self, theta: Array) -> tuple[float, float]:
        """Noise std, no less than its least ratio to the amplitude, and s's share of it."""
        own = np.exp(2.0 * theta[-1])
        least = (self._least_ratio * np.exp(theta[self._d])) ** 2
        return float(np.sqrt(own + least)), float(own / (own + least))


def bias_std(bias: Literal["free", "shrunk"] | None, prior: Prior, y: Array) -> float:
    """Prior std tau_0 of the bias of standardized targets; see `GPRegressor`."""
    if bias == "free":
        return 1.0
    if bias is None:
        return 0.0
    if isinstance(prior, LearnedPrior) and prior.bias is not None:
        return prior.bias[1]
    return float(np.sqrt(max(0.0, y.mean() ** 2 - _AKAIKE * y.var() / len(y))))


def widening(prior: Prior, noise_std: float | None, n: int) -> float:
    """Variance of Student's t with n - 1 degrees of freedom, for the shrunk prior; else 1.

    A common scale of all variances, integrated out under 1 / scale, makes the prediction
    a t process; it is replaced by the Gaussian of its mean and variance.
    """
    widened = _base(prior) == "shrunk" and noise_std is None and n > 3
    return (n - 1.0) / (n - 3.0) if widened else 1.0


def search_space(
    evidence: GaussianProcessEvidence,
    prior: Prior,
    lengthscales: Lengthscales,
    noise_std: float | None,
) -> SearchSpace:
    """Priors and bounds of the log hyper-parameters, and which of them are free.

    Parameters
    ----------
    evidence : GaussianProcessEvidence
        Of standardized data.
    prior : {"weak", "shrunk", None} or LearnedPrior
        As of `GPRegressor`.
    lengthscales : float or ndarray of shape (d,), optional
        Of standardized inputs, if given.
    noise_std : float, optional
        In stds of the targets, if given.

    Returns
    -------
    SearchSpace
    """
    d, n_groups = len(evidence.X), max(1, int(evidence.groups.max()) + 1)
    base = _base(prior)
    amplitude, linear_scale, noise = _PRIORS[base]
    others = [_PRIORS["weak" if base else None][1]] * (n_groups - 1)
    length = (2.0 * np.sqrt(d), _LOG_STD if base else np.inf)
    priors = np.array([length] * d + [amplitude, linear_scale, *others, noise])
    median = np.log(priors[:, 0])
    scales = [_SCALE_BOUNDS[0], *[_SCALE_BOUNDS[1]] * n_groups, _SCALE_BOUNDS[2]]
    bounds = np.log([_LENGTHSCALE_BOUNDS] * d + scales)
    free = np.ones(len(median), dtype=bool)
    log_std = priors[:, 1]
    if isinstance(prior, LearnedPrior) and prior.median is not None and prior.log_std is not None:
        learned = ~np.isnan(prior.median)
        median = np.clip(np.where(learned, prior.median, median), *bounds.T)
        log_std = np.where(learned, prior.log_std, log_std)
    start = median.copy()
    if base == "weak" and prior == base:
        share = _share_left(evidence)
        median[[d, -1]] += np.log(share)
        log_std[d] = share * _LOG_STD + (1.0 - share) * _PRIORS["shrunk"][0][1]
    if lengthscales is not None:
        start[:d], free[:d] = np.log(np.asarray(lengthscales)), False
    if noise_std is not None:
        start[-1], free[-1] = np.log(noise_std), False
        # the amplitude gives way to the noise here; where both are learned, the noise does
        least = np.log(LEAST_NOISE_RATIO)
        bounds[d, 1] = np.clip(start[-1] - least, bounds[d, 0] + 1.0, bounds[d, 1])
    free[d + 1 : -1] &= evidence.linear
    return SearchSpace(start, free, median, log_std, bounds)


def maximize(objective: Objective, n_restarts: int, tol: float, seed: RandomState) -> Optimum:
    """Best of the searches from the standard start and from random ones.

    Parameters
    ----------
    objective : Objective
        What is minimized.
    n_restarts : int
        Random starts.
    tol : float
        Nats, as of `descend`.
    seed : int, Generator or None
        Of the restarts.

    Returns
    -------
    Optimum
        Its log evidence is not finite if no search came to a positive definite covariance.
    """
    space = objective.space
    median, bounds = space.median[space.free], space.bounds[space.free]
    rng = generator(seed)
    starts = [space.start[space.free]]
    for _ in range(n_restarts):
        draw = median + _LOG_STD * rng.standard_normal(len(median))
        starts.append(np.clip(draw, *bounds.T))
    ends = [descend(objective, start, bounds, tol) for start in starts]
    best = min(ends, key=lambda end: end.value)
    log_evidence = -best.value - objective.log_prior(best.x)
    return Optimum(best.x, log_evidence, best.converged, best.n_iter)


def _base(prior: Prior) -> Literal["weak", "shrunk"] | None:
    """The prior that counts where nothing was learned."""
    return prior.base if isinstance(prior, LearnedPrior) else prior


def _share_left(evidence: GaussianProcessEvidence) -> float:
    """Std that least squares on the linear part leaves, in `_LEFT_BY_LINEAR`; 1 at most."""
    if not evidence.linear:
        return 1.0
    basis = evidence.basis[np.append(evidence.groups >= 0, evidence.bias_scale > 0.0)].T
    n, k = basis.shape
    if not 0 < k < n:
        return 1.0
    weights, _, rank, _ = np.linalg.lstsq(basis, evidence.y)
    left = float(np.linalg.norm(evidence.y - basis @ weights)) / np.sqrt(n - rank)
    return float(np.clip(left / _LEFT_BY_LINEAR, _LEAST_SHARE, 1.0))
