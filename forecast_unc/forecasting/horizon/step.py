"""A one-step model iterated on a `Trajectory`; `MomentMatching` carries the joint covariance."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
from scipy.linalg import block_diag

from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.joint import Diverged
from forecast_unc.forecasting.horizon.function_error import FunctionError
from forecast_unc.forecasting.horizon.types import Given, Method, OneStepModel, Step
from forecast_unc.regression.posterior import Unstable, check_positive_variance


class Trajectory:
    """Levels and their standardized changes from a start (..., p) on, of one series or of many."""

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
        maps = self.model.maps
        differencing = self.model.differencing
        t = self.now
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

    def take(self, paths: Positions) -> None:
        """Keep these of the series, repeats allowed."""
        self._levels, self._changes = self._levels[paths], self._changes[paths]


class MomentMatching:
    """A joint Gaussian over coordinates, to which every step adds the next level."""

    def __init__(
        self,
        model: OneStepModel,
        method: Method,
        limit: float,
        function: FunctionError | None,  # of one and the same function; None for independent errors
        uncertain: int = 0,  # regressors that are coordinates, the first ones
    ) -> None:
        self.model = model
        self.limit = limit
        self.function = function
        kind, posterior = method.propagation, model.posterior
        # those of a run-in to paths are exact where they have a closed form
        exact = kind == "exact" or (kind != "taylor" and posterior.closed_form)
        self.kind: Literal["exact", "taylor"] = "exact" if exact else "taylor"
        self.moments = posterior.moments if exact else posterior.taylor_moments
        self.combine = model.maps.combine
        if uncertain:
            self.combine = block_diag(self.combine, np.eye(uncertain))

    def step(
        self,
        cov: Array,
        n: int,
        given: Given,
        levels: Positions,
        learned_from: bool = False,
    ) -> Step:
        """Enter the next level as coordinate n of `cov`, of which row and column n are filled.

        `levels` (m,) are the coordinates of the last m >= p levels.
        """
        x, at, noise_var = given
        maps = self.model.maps
        posterior = self.model.posterior
        before = cov[:n, :n]
        input_cov = self._input_cov(len(x), at, before)
        mean, var, slope = self.moments(x, input_cov)
        var += noise_var - posterior.noise_var - posterior.observation_var
        # Var[f] >= slope' S slope makes the joint a covariance. Exact moments fail it by roundoff,
        # Taylor's, which need not belong to any distribution, in earnest.
        explained, room = float(slope @ input_cov @ slope), max(var - noise_var, 0.0)
        if explained > room:
            slope, explained = slope * np.sqrt(room / explained), room
        weights = slope[: len(self.combine)] @ self.combine
        # Stein: Cov(z, y) = Cov(z, x) E[dy/dx], so no inverse of a singular Cov(x).
        cross = weights @ before[at]
        shared, learned = None, 0.0
        if self.function is not None:
            through = np.append(-maps.carried, weights[: len(maps.lagged)])
            back, added = maps.touched[1:], room - explained
            error, learned, with_levels = self.function.next_step(
                x, back, through, added, learned_from
            )
            shared = np.zeros(n)
            shared[levels] = with_levels[-len(levels) :]
            shared[np.diagonal(before) == 0.0] = 0.0
            mean, cross = mean + error, cross + shared
            var += 2.0 * float(weights @ shared[at]) - learned
        check_stable(mean, float(np.sqrt(abs(var))), self.limit)
        check_positive_variance(np.array([var]), posterior, self.kind)
        own = levels[len(levels) - maps.own]
        taken = maps.carried @ before[own]  # Cov(carried . levels, z), of y = change - that
        cov[n, :n] = cov[:n, n] = cross - taken
        cov[n, n] = var - 2.0 * maps.carried @ cross[own] + taken[own] @ maps.carried
        return Step(mean, weights, shared, learned)

    def _input_cov(self, d: int, at: Positions, cov: Array) -> Array:
        """Covariance (d, d) of an input that is linear in coordinates."""
        input_cov, r = np.zeros((d, d)), len(self.combine)
        input_cov[:r, :r] = self.combine @ cov[np.ix_(at, at)] @ self.combine.T
        # The change between two levels can be known far better than they are: below is roundoff.
        known = np.diagonal(input_cov)[:r] <= 1e-13 * (self.combine**2 @ cov[at, at])
        input_cov[:r][known] = 0.0
        input_cov[:, :r][:, known] = 0.0
        return input_cov


def check_stable(mean: float, std: float, limit: float) -> None:
    """Raise if the next standardized change is beyond a limit, of `OneStepModel.limit`."""
    if not abs(mean) + std < limit:
        rule = "stay where the forecast is stable"
        remedy = "Ask for fewer steps, take differences, or use other lags."
        raise Unstable("steps", rule, "one that diverges", remedy)


@contextmanager
def at_step(step: int, where: str = "") -> Iterator[None]:
    """Raise `Unstable` again as `Diverged` with the number of the step; 0 is before the first."""
    try:
        yield
    except Unstable as error:
        got = f"{error.got} {where or f'at step {step}'}"
        raise Diverged(error.argument, error.rule, got, error.remedy, step) from error
