"""The search for hyper-parameters by the evidence: where, with which priors, and how far.

theta = log [l, a, tau by group, s (, s_e)] on standardized data; x are those that are not given.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from forecast_unc._checks import RandomState, generator
from forecast_unc._typing import Array, Flags
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence

Prior = Literal["weak", "shrunk"] | None
Evidence = Callable[..., tuple[float, Array]]
"""From l, a, tau, s (and the errors' std) to -log evidence and its gradient in their logs."""

# Log-normal priors for standardized data: median and log-std of the amplitude, the linear
# scale and the noise. Length-scales have a median of 2 sqrt(d): distances between
# standardized inputs grow like sqrt(2 d), so that the function starts smooth in any d.
LOG_STD = 1.5
PRIORS: dict[str | None, tuple[tuple[float, float], ...]] = {
    "weak": ((0.5, LOG_STD), (0.5, LOG_STD), (0.1, LOG_STD)),
    "shrunk": ((0.1, 0.7), (0.1, 0.7), (0.7, 1.0)),
    None: ((0.5, np.inf), (0.5, np.inf), (0.1, np.inf)),
}
# Where least squares on the linear part leaves less std than the weak median of the noise, the weak
# medians of noise and amplitude are as much smaller (to .001, the noise's bound), and the prior of
# the amplitude narrows to the shrunk one's: a large amplitude is then undone by the linear
# weights where the data are, and nowhere else. Of noise-free Mackey-Glass, of which 8 lags leave
# .001, the root of the linear recursion came out above 1.05 in 56 sections of 64.
_LEFT_BY_LINEAR = PRIORS["weak"][2][0]
# Where a search starts without the shrunk prior: l / sqrt(d), a, tau, s. Of 64 data sets (lags of
# ten series, few of many inputs, long length-scales, little noise, two optima) it ends within half
# a nat of the best of 20 random starts in 52, from the medians in 37, in 39 evaluations for 45. The
# better of two starts after 15 evaluations gets to 53 in 52, the best of three after 25 to 56, 85.
_START = (0.5, 1.0, 0.1, 0.3)
# With fewer rows an input it starts from the medians, too, and leaves their optimum for one that
# has more evidence by Schwarz's criterion for the length-scales: what memorizes the rows has a few
# nats more and narrow bands. Of the airline model (13 lags, 94 rows) 95 % bands of the first step
# held .83, for .94 from the medians, at a log density lower by .17; functions of 3 of 12 or 20
# inputs have 30 to 150 nats more, and gain as much.
_ROWS_AN_INPUT = 10
# Where the search may go, on standardized data. Below a noise of 1e-4 the covariance of a few
# hundred rows is no longer positive definite in double precision.
NOISE_BOUNDS = (1e-4, 1e1)
_BOUNDS = {"length": (1e-2, 1e4), "amplitude": (1e-3, 1e2), "linear": (1e-4, 1e1)}
# Least noise std in amplitudes. Predictions keep the digits of eps n (a / s)^2: at a ratio of
# 1e-6 (noise-free logistic map, amplitude 60) variances were 2 % wrong, at 1e-4 they keep five
# digits or more.
LEAST_NOISE_RATIO = 1e-4
# Steps whose gains count together. Near a saddle, as where the nonlinear part has yet to show,
# single steps gain nothing for a while: of 493 searches (Mackey-Glass, Lorenz, autoregressions and
# competitions, 18 to 588 rows) 4 ended .1 to 1.1 nats below where they would have got to; with 8
# steps 6, at most 14 nats.
_STEPS = 10
# SciPy would stop at rounding: at 1e-10 and a gradient of 1e-4 a search stayed 75 nats below its
# end, at a saddle that it leaves four steps later. The curvature is learned from 20 pairs in the
# place of 10: scaled by the curvature of log noise, 2 n, ordinary data took a sixth fewer
# evaluations, but series without noise a third more, and 10 of 58 ended 10 nats short.
_OPTIONS = {"maxcor": 20, "ftol": 1e-14, "gtol": 1e-6}


class Minimum(NamedTuple):
    """End of a descent."""

    x: Array  # (q,)
    value: float
    converged: bool
    n_iter: int


class Optimum(NamedTuple):
    """End of the best search."""

    x: Array  # (q,), the free ones of theta
    theta: Array  # all, the noise as it is used
    value: float  # of the objective
    log_evidence: float  # of the standardized targets
    converged: bool
    n_iter: int


class SearchSpace(NamedTuple):
    """Priors and bounds of theta, each (d + 2 + g,), and which of it are free."""

    d: int
    start: Array  # given values, and where the search starts
    free: Flags
    median: Array
    log_std: Array  # of the prior; infinite without
    bounds: Array  # (d + 2 + g, 2)
    least_ratio: float  # of the noise to the amplitude
    warm: bool = False  # the start is where an earlier search ended: one search is enough
    errors: bool = False  # theta ends with the errors' std
    share_of_errors: float | None = None  # that the noise is of them, where it is not searched
    rough: Array | None = None  # another start, with shorter length-scales
    margin: float = 0.0  # nats by which another end than the first has to be better

    def starting_at(self, end: tuple[Flags, Array] | None) -> "SearchSpace":
        """The space that starts where a search ended, at theta, if that had the same ones free."""
        if end is None or not np.array_equal(end[0], self.free):
            return self
        start = np.where(self.free, np.clip(end[1], *self.bounds.T), self.start)
        return self._replace(start=start, warm=True, rough=None)

    def starts(self, n_restarts: int, seed: RandomState) -> list[Array]:
        """The standard start or starts, and random ones, of the free ones."""
        rng, median = generator(seed), self.median[self.free]
        draws = [LOG_STD * rng.standard_normal(len(median)) for _ in range(n_restarts)]
        limits = self.bounds[self.free].T
        standard = [one[self.free] for one in (self.start, self.rough) if one is not None]
        return standard + [np.clip(median + draw, *limits) for draw in draws]


class Objective:
    """-log(evidence prior) of the free log hyper-parameters x, and its gradient."""

    def __init__(self, evidence: Evidence, space: SearchSpace) -> None:
        self._evidence, self.space, self._d = evidence, space, space.d
        self._noise_at = len(space.start) - (2 if space.errors else 1)
        self._free, self._median = space.free, space.median[space.free]
        self._precision = space.log_std[space.free] ** -2

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Value, and gradient (q,)."""
        d, noise = self._d, self._noise_at
        arguments, share = self._arguments(x)
        value, gradient = self._evidence(*arguments)
        gradient[d] += (1.0 - share) * gradient[noise]
        gradient[noise] *= share
        if self.space.share_of_errors is not None:
            gradient[-1] += gradient[noise]
        away = self._precision * (x - self._median)
        return value - self.log_prior(x), gradient[self._free] + away

    def log_prior(self, x: Array) -> float:
        """Log prior, up to a constant."""
        return float(-0.5 * self._precision @ (x - self._median) ** 2)

    def theta(self, x: Array) -> Array:
        """All log hyper-parameters, the noise as it is used."""
        theta = self.space.start.copy()
        theta[self._free] = x
        theta[self._noise_at] = np.log(self._arguments(x)[0][3])
        return theta

    def _arguments(self, x: Array) -> tuple[tuple[Any, ...], float]:
        """l, a, tau, s (, s_e), the least noise added to s^2; and the share of s^2 in the sum."""
        theta, space, d, noise = self.space.start.copy(), self.space, self._d, self._noise_at
        theta[self._free] = x
        own = np.exp(2.0 * theta[noise])
        if space.share_of_errors is not None:
            own = space.share_of_errors**2 * np.exp(2.0 * theta[-1])
        scales = np.exp(theta)
        least = (space.least_ratio * scales[d]) ** 2
        noise_std, rest = float(np.sqrt(own + least)), scales[noise + 1 :]
        arguments = scales[:d], scales[d], scales[d + 1 : noise], noise_std, *rest
        return arguments, float(own / (own + least))


def maximize(objective: Objective, starts: Sequence[Array], tol: float, most: int = 500) -> Optimum:
    """Best of the searches from these x, the first if none is better by the margin of the space.

    Its log evidence is not finite if no covariance is.
    """
    bounds = objective.space.bounds[objective.space.free]
    ends = [descend(objective, start, bounds, tol, most) for start in starts]
    best = min(ends, key=lambda end: end.value)
    if ends[0].value - best.value < objective.space.margin:
        best = ends[0]
    log_evidence = -best.value - objective.log_prior(best.x)
    theta = objective.theta(best.x)
    return Optimum(best.x, theta, best.value, log_evidence, best.converged, best.n_iter)


def descend(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: ArrayLike,
    tol: float,
    most: int = 500,
) -> Minimum:
    """Minimum within bounds (q, 2) by L-BFGS-B; it ends when ten steps gain less than `tol`."""
    limits = np.asarray(bounds, dtype=np.float64)
    values: list[float] = []

    def valued(x: Array) -> tuple[float, Array]:
        found = objective(x)
        if not values:
            values.append(found[0])
        return found

    def after_step(intermediate_result: Any) -> None:
        values.append(float(intermediate_result.fun))
        if len(values) > _STEPS and values[-1 - _STEPS] - values[-1] < tol:
            raise StopIteration

    search: Any = minimize
    given = {"bounds": limits, "callback": after_step, "options": {"maxiter": most, **_OPTIONS}}
    found = search(valued, np.clip(start, *limits.T), jac=True, method="L-BFGS-B", **given)
    # a line search that finds no lower value ends at rounding, too
    arrived = found.nit < most and len(values) > 1 and values[-2] - values[-1] < tol
    converged = bool(np.isfinite(found.fun)) and (bool(found.success) or arrived)
    return Minimum(found.x, float(found.fun), converged, int(found.nit))


def search_space(
    evidence: GaussianProcessEvidence,
    prior: Prior,
    lengthscales: ArrayLike | None,
    noise_std: float | None,
    input_scale: Array,
    output_scale: float,
) -> SearchSpace:
    """Priors and bounds for standardized data; what is given is in the units of the data."""
    d, n_groups = len(evidence.X), max(1, int(evidence.groups.max()) + 1)
    amplitude, linear_scale, noise = PRIORS[prior]
    others = [PRIORS["weak" if prior else None][1]] * (n_groups - 1)
    length = (2.0 * np.sqrt(d), LOG_STD if prior else np.inf)
    priors = np.array([length] * d + [amplitude, linear_scale, *others, noise])
    median, log_std = np.log(priors[:, 0]), priors[:, 1]
    lengths, linear = [_BOUNDS["length"]] * d, [_BOUNDS["linear"]] * n_groups
    bounds = np.log([*lengths, _BOUNDS["amplitude"], *linear, NOISE_BOUNDS])
    free = np.ones(len(median), dtype=bool)
    short, a, tau, s = _START
    unlike = [short * np.sqrt(d)] * d + [a] + [tau] * n_groups + [s]
    start = median.copy() if prior == "shrunk" else np.log(unlike)
    n, rough, margin = len(evidence.y), None, 0.0
    if prior == "weak" and n < _ROWS_AN_INPUT * d:
        rough, start, margin = start, median.copy(), 0.5 * d * float(np.log(n))
    if prior == "weak":
        share = _share_left(evidence)
        median[[d, -1]] += np.log(share)
        log_std[d] = share * LOG_STD + (1.0 - share) * PRIORS["shrunk"][0][1]
    if lengthscales is not None:
        start[:d], free[:d] = np.log(np.asarray(lengthscales) / input_scale), False
    if noise_std is not None:
        start[-1], free[-1] = np.log(noise_std / output_scale), False
        # the amplitude gives way to the noise here; where both are learned, the noise does
        least = np.log(LEAST_NOISE_RATIO)
        bounds[d, 1] = np.clip(start[-1] - least, bounds[d, 0] + 1.0, bounds[d, 1])
    free[d + 1 : -1] &= evidence.linear
    least_ratio = LEAST_NOISE_RATIO if noise_std is None else 0.0
    space = SearchSpace(d, start, free, median, log_std, bounds, least_ratio)
    return space._replace(rough=rough, margin=margin)


def bias_std(bias: Literal["free", "shrunk"] | None, y: Array) -> float:
    """Prior std tau_0 of the bias of standardized targets; see `GPRegressor`."""
    if bias == "free":
        return 1.0
    if bias is None:
        return 0.0
    # if it brings more than its cost of one parameter in Akaike's criterion, 2
    return float(np.sqrt(max(0.0, y.mean() ** 2 - 2.0 * y.var() / len(y))))


def widening(prior: Prior, noise_std: float | None, n: int) -> float:
    """Variance of Student's t with n - 1 degrees of freedom, for the shrunk prior; else 1."""
    widened = prior == "shrunk" and noise_std is None and n > 3
    return (n - 1.0) / (n - 3.0) if widened else 1.0


def _share_left(evidence: GaussianProcessEvidence) -> float:
    """Std that least squares on the linear part leaves, in `_LEFT_BY_LINEAR`; 1 at most."""
    if not evidence.linear:
        return 1.0
    columns = np.append(evidence.groups >= 0, evidence.bias_scale > 0.0)
    basis = np.vstack([evidence.X, np.ones((1, len(evidence.y)))])[columns].T
    n, k = basis.shape
    if not 0 < k < n:
        return 1.0
    weights, _, rank, _ = np.linalg.lstsq(basis, evidence.y, None)
    left = float(np.linalg.norm(evidence.y - basis @ weights)) / np.sqrt(n - rank)
    return float(np.clip(left / _LEFT_BY_LINEAR, 1e-3, 1.0))
