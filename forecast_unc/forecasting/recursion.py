"""The recursion: a one-step model iterated, one level after the other.

The way to the origin (`filtering`), the horizon (`propagation`) and sample paths (`sampling`) are
made of the same steps: the inputs are read off a `Trajectory`, the posterior gives the next
standardized change, and the trajectory turns it into a level. `MomentMatching` carries the joint
covariance along.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from forecast_unc._random import RandomState
from forecast_unc._typing import Array
from forecast_unc.distributions.diverged import Diverged
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.function_error import FunctionError
from forecast_unc.regression.moments import Moments
from forecast_unc.regression.posterior import Posterior, Unstable, check_positive_variance

Propagation = Literal["exact", "taylor", "mixture", "monte_carlo", "naive", "auto"]
PROPAGATIONS: tuple[str, ...] = get_args(Propagation)

# A mean or std beyond this many times the largest change of the history is no forecast (a choice:
# what diverges gets there in some steps, and digits are left to say so).
_DIVERGED = 1e6
# A variance of an input below this share of those of the levels it is made of is roundoff.
_ROUNDOFF = 1e-13


class Method(NamedTuple):
    """How uncertainty is propagated; see `Forecaster.forecast`."""

    propagation: Propagation = "exact"
    path_consistent: bool = True
    n_samples: int = 1000
    random_state: RandomState = None


class Past(NamedTuple):
    """What was observed up to the origin, on the scale of the levels."""

    levels: Array  # (n,), NaN where missing
    stds: Array  # (n,), of the measurement errors
    exog: Array  # (n, k)
    learned: NDArray[np.bool_] | None = None  # (n,), part of the posterior's data; None for all


class Future(NamedTuple):
    """Regressors of the h future steps."""

    exog: Array  # (h, k), means where they are uncertain
    exog_cov: Array | None = (
        None  # (h u, h u), of the first u <= k, all u of step 1, then of step 2
    )

    def first(self, steps: int) -> "Future":
        """The first steps of them."""
        if self.exog_cov is None:
            return Future(self.exog[:steps])
        size = steps * (len(self.exog_cov) // len(self.exog))
        return Future(self.exog[:steps], self.exog_cov[:size, :size])


class Step(NamedTuple):
    """A step of moment matching: its standardized change, and what its variance is made of."""

    mean: float
    weights: Array  # (q,), on the coordinates of its inputs
    shared: Array | None  # (n,), covariance of the function's error with the coordinates so far
    learned: float  # of the function's variance, what observations on the way took away


class Found(NamedTuple):
    """What the posterior says of the next step."""

    input_cov: Array  # (d, d)
    moments: Moments
    row: Array | None  # of `FunctionError.next_step`


class LevelMap:
    """The sparse linear maps between levels, inputs and changes.

    With c the coefficients of the difference polynomial, c_0 = 1, the lagged inputs and the
    next level are

        x_tj = (sum_i c_i y_(t - lag_j - i) - shift) / scale,
        y_t = scale f(x_t) + shift - sum_(i > 0) c_i y_(t - i).

    Covariances are kept in units of scale^2, where the coefficients are those of c.

    Parameters
    ----------
    lags : tuple of int
        Lags of the inputs.
    differencing : Differencing
        Differences, shift and scale.
    """

    def __init__(self, lags: tuple[int, ...], differencing: Differencing) -> None:
        back, coefficients = differencing.terms()
        self.depth = int(max(lags) + back[-1])  # levels that one step looks back
        self.lagged = np.add.outer(np.array(lags), back).ravel()  # (l q,), steps back
        self.combine: Array = block_diag(*[coefficients] * len(lags))  # (l, l q)
        self.own, self.carried = back[1:], coefficients[1:]  # (q - 1,)


@dataclass(frozen=True, eq=False)
class OneStepModel:
    """A posterior of the next standardized change, and what its inputs are made of.

    Parameters
    ----------
    posterior : Posterior
        Of the standardized change given [lagged changes; regressors].
    lags : tuple of int
        Lags of the inputs, in the order of the posterior's columns.
    differencing : Differencing
        Differences, shift and scale between the levels and what the posterior sees.
    """

    posterior: Posterior
    lags: tuple[int, ...]
    differencing: Differencing

    @cached_property
    def maps(self) -> LevelMap:
        """What inputs and levels are made of."""
        return LevelMap(self.lags, self.differencing)

    @cached_property
    def alternatives(self) -> tuple[tuple[float, Self], ...]:
        """Models of which one is right at all steps, with their probabilities; or itself."""
        found = self.posterior.alternatives
        if len(found) == 1:
            return ((1.0, self),)
        return tuple((p, replace(self, posterior=one)) for p, one in found)

    @property
    def depth(self) -> int:
        """Levels that a step looks back, p."""
        return self.maps.depth

    def limit(self, levels: Array) -> float:
        """Mean or std of a change beyond which a forecast from these levels has diverged."""
        changes = self.differencing.forward(levels)
        # standardized: 1 is a usual change, if the last ones happen to be smaller
        return _DIVERGED * float(np.abs(changes[~np.isnan(changes)]).max(initial=1.0))


class Trajectory:
    """Levels and their standardized changes up to now; of one series, or of many abreast.

    Parameters
    ----------
    model : OneStepModel
        What the levels are made of.
    start : ndarray of shape (..., p)
        The last levels before the first step.
    steps : int
        Room for so many steps.
    """

    def __init__(self, model: OneStepModel, start: Array, steps: int) -> None:
        self.model, self.now = model, start.shape[-1]
        self._back = np.array(model.lags)
        room = np.zeros((*start.shape[:-1], steps))
        self._levels = np.concatenate([start, room], axis=-1)
        self._changes = np.concatenate([model.differencing.forward(start), room], axis=-1)
        self._lead = self._levels.shape[-1] - self._changes.shape[-1]

    @property
    def levels(self) -> Array:
        """Levels so far, (..., now), the first the start's; a view."""
        return self._levels[..., : self.now]

    def inputs(self, exog: Array) -> Array:
        """Inputs of the next step, (..., d), with its regressors (..., k)."""
        lagged = self._changes[..., self.now - self._lead - self._back]
        return np.concatenate([lagged, exog], axis=-1)

    def append(self, change: Array | float) -> None:
        """Enter the next level by its standardized change, (...)."""
        maps, differencing, t = self.model.maps, self.model.differencing, self.now
        self._changes[..., t - self._lead] = change
        self._levels[..., t] = differencing.scale * change + differencing.shift
        self._levels[..., t] -= self._levels[..., t - maps.own] @ maps.carried
        self.now += 1

    def revise(self, last: Array) -> None:
        """Replace the last levels, (..., m), m > 0, and the changes that they are part of."""
        m = last.shape[-1]
        self._levels[..., self.now - m : self.now] = last
        first = max(self.now - m - self._lead, 0)
        window = self._levels[..., first : self.now]
        self._changes[..., first : self.now - self._lead] = self.model.differencing.forward(window)

    def take(self, paths: NDArray[np.intp]) -> None:
        """Keep these of the series abreast, repeats allowed."""
        self._levels, self._changes = self._levels[paths], self._changes[paths]


class MomentMatching:
    """A joint Gaussian over coordinates, to which every step adds the next level.

    Parameters
    ----------
    model : OneStepModel
        The one-step model.
    method : {"exact", "taylor"}
        Moments under an uncertain input.
    limit : float
        Mean or std of a change beyond which the forecast has diverged.
    function : FunctionError, optional
        What the steps' errors of the function have in common, if it is one and the same.
    uncertain : int, default=0
        Number of regressors that are coordinates, the first ones.
    """

    def __init__(
        self,
        model: OneStepModel,
        method: Literal["exact", "taylor"],
        limit: float,
        function: FunctionError | None,
        uncertain: int = 0,
    ) -> None:
        self.model, self.method, self.limit, self.function = model, method, limit, function
        posterior = model.posterior
        self.moments = posterior.moments if method == "exact" else posterior.taylor_moments
        self.combine: Array = block_diag(model.maps.combine, np.eye(uncertain))

    def step(
        self,
        cov: Array,
        n: int,
        x: Array,
        at: NDArray[np.intp],
        levels: NDArray[np.intp],
        learned_from: bool = False,
    ) -> Step:
        """Enter the next level as a coordinate, and return what was found of its change.

        Parameters
        ----------
        cov : ndarray
            Joint covariance of the coordinates; row and column n are filled in place.
        n : int
            Number of coordinates so far.
        x : ndarray of shape (d,)
            Mean input.
        at : ndarray of shape (q,)
            Coordinates that the first inputs are linear in; the other inputs are known.
        levels : ndarray of shape (m,)
            Coordinates of the last m >= p levels.
        learned_from : bool, default=False
            As for `FunctionError.next_step`.

        Returns
        -------
        Step

        Raises
        ------
        Unstable
            If the forecast has diverged, or a variance is not positive.
        """
        found = self.found(x, self.input_cov(len(x), at, cov[:n, :n]))
        return self.enter(cov, n, found, at, levels, learned_from)

    def found(self, x: Array, input_cov: Array) -> Found:
        """What the posterior says of a step with this input."""
        row = None if self.function is None else self.function.covariances(x)
        return Found(input_cov, self.moments(x, input_cov), row)

    def enter(
        self,
        cov: Array,
        n: int,
        found: Found,
        at: NDArray[np.intp],
        levels: NDArray[np.intp],
        learned_from: bool = False,
    ) -> Step:
        """`step` with what the posterior says of it."""
        maps, posterior, before = self.model.maps, self.model.posterior, cov[:n, :n]
        input_cov, (mean, var, slope), row = found
        var -= posterior.observation_var
        slope, added = _explainable(slope, input_cov, var - posterior.noise_var)
        weights = slope[: len(self.combine)] @ self.combine
        # Stein: Cov(z, y) = Cov(z, x) E[dy/dx], so no inverse of a singular Cov(x).
        cross = weights @ before[at]
        shared, learned = None, 0.0
        if self.function is not None and row is not None:
            now = self.function.depth + self.function.step
            error = self.function.next_step(
                row,
                now - np.append(maps.lagged, maps.own),
                np.append(weights[: len(maps.lagged)], -maps.carried),
                added,
                learned_from,
            )
            shared = np.zeros(n)
            shared[levels] = error.cross[-len(levels) :]
            shared[np.diagonal(before) == 0.0] = 0.0
            cross += shared
            mean, learned = mean + error.mean, error.learned
            var += 2.0 * float(weights @ shared[at]) - learned
        check_stable(mean, float(np.sqrt(abs(var))), self.limit)
        check_positive_variance(np.array([var]), posterior, self.method)
        own = levels[len(levels) - maps.own]
        taken = maps.carried @ before[own]  # Cov(carried . levels, z), of y = change - that
        cov[n, :n] = cov[:n, n] = cross - taken
        cov[n, n] = var - 2.0 * maps.carried @ cross[own] + taken[own] @ maps.carried
        return Step(mean, weights, shared, learned)

    def input_cov(self, d: int, at: NDArray[np.intp], cov: Array) -> Array:
        """Covariance (d, d) of an input that is linear in coordinates."""
        r = len(self.combine)
        input_cov = np.zeros((d, d))
        input_cov[:r, :r] = self.combine @ cov[np.ix_(at, at)] @ self.combine.T
        # The change between two levels can be known far better than they are.
        known = np.diagonal(input_cov)[:r] <= _ROUNDOFF * (self.combine**2 @ cov[at, at])
        input_cov[:r][known] = 0.0
        input_cov[:, :r][:, known] = 0.0
        return input_cov


def check_stable(mean: float, std: float, limit: float) -> None:
    """Raise if the next standardized change is beyond what the history has seen.

    Parameters
    ----------
    mean, std : float
        Of the change.
    limit : float
        See `OneStepModel.limit`.

    Raises
    ------
    Unstable
    """
    if not abs(mean) + std < limit:
        raise Unstable(
            "steps must stay where the forecast is stable; got one that diverges. Ask for "
            "fewer steps, take differences, or use other lags."
        )


@contextmanager
def at_step(step: int, where: str = "") -> Iterator[None]:
    """Errors of a step with the number of the step, from 1; 0 is before the first forecast.

    Raises
    ------
    Diverged
        In the place of Unstable; other errors pass.
    """
    try:
        yield
    except Unstable as error:
        problem, _, remedy = str(error).partition(". ")
        place = where or f"at step {step}"
        raise Diverged(f"{problem} {place}. {remedy}", step) from error


def _explainable(slope: Array, cov: Array, latent_var: float) -> tuple[Array, float]:
    """A slope that explains no more than the function's variance, and what it leaves of it.

    Var[f] >= slope' S slope holds for the exact moments, and makes the joint a covariance.
    It may fail by roundoff where there is next to no noise, and in earnest for Taylor's
    moments, which need not belong to any distribution: there the slope is shortened.
    """
    explained = float(slope @ cov @ slope)
    room = max(latent_var, 0.0)
    if explained > room:
        slope, explained = slope * np.sqrt(room / explained), room
    return slope, room - explained
