"""Exponential smoothing fitted on one history: a member of the automatic choice. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from forecast_unc._checks import refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.choose.specification import series_named
from forecast_unc.forecasting.horizon.gaussian import LevelJoint
from forecast_unc.forecasting.horizon.step import Method
from forecast_unc.forecasting.models.design import interpolated
from forecast_unc.forecasting.models.effects import (
    NO_EFFECTS,
    NO_EXOG,
    CalendarEffects,
    ExogEffects,
    taken_out,
)
from forecast_unc.forecasting.models.lagged import (
    FittedModel,
    fitted_transform,
    forecast_of,
    std_said,
)
from forecast_unc.forecasting.models.smoothing_filter import Smoothing, unknowns
from forecast_unc.series.history import Ahead, History

# Gaps add unknowns to a linear model whose cost grows with their square.
_MOST_UNKNOWN = 60
# Values besides one season that a season is learned from, and that an origin inside has before it.
LEAST_BEYOND = 4


@dataclass(frozen=True, eq=False)
class SmoothingSpecification:
    """Exponential smoothing with nothing left open."""

    period: int  # of the season; 1 for none
    transform: str | None  # a name of `POWERS`
    max_train: int  # the most values, the last ones; fewer where more than 60 are missing
    why: str
    lower: float = 0.0  # what the transform measures values from
    weight: float = 1.0  # in an average, beside the others' and before the widths are known
    calendar_effects: CalendarEffects = NO_EFFECTS  # of holidays, taken out of the levels
    exog_effects: ExogEffects = NO_EXOG  # of regressors, likewise

    def described(self, power: float | None = None) -> str:
        """The specification as text, with the power of its Box-Cox transform once it is known."""
        season = f"season of {self.period} steps" if self.period > 1 else "no season"
        whole = [f"exponential smoothing of {series_named(self, power)}", season]
        return ", ".join([*whole, *map(str, self.calendar_effects.words)])


@dataclass(frozen=True, eq=False)
class SmoothingModel(FittedModel):
    """Exponential smoothing at the end of the history that it was fitted on, or of another."""

    specification: SmoothingSpecification
    history: History = field(repr=False)
    transform: PowerTransform
    smoothing: Smoothing = field(repr=False)
    levels: Array = field(repr=False)  # (n_rows,), the last, transformed; the first is observed
    _joints: dict[int, LevelJoint] = field(default_factory=dict, init=False, repr=False)

    made_of = ("specification", "transform", "smoothing")

    @classmethod
    def fit(
        cls,
        specification: SmoothingSpecification,
        history: History,
        earlier: Sequence[FittedModel] = (),
    ) -> Self:
        """Learn the parameters from a history; nothing of an earlier fit is used."""
        transform = fitted_transform(specification.transform, specification.lower, history)
        levels = _levels(specification, transform, history)
        with blas_threads(0):
            smoothing = Smoothing.learn(levels, specification.period)
        return cls(specification, history, transform, smoothing, levels)

    @classmethod
    def made(
        cls,
        history: History,
        specification: SmoothingSpecification,
        transform: PowerTransform,
        smoothing: Smoothing,
    ) -> Self:
        """A model by its recipe, at the end of a history."""
        levels = _levels(specification, transform, history)
        return cls(specification, history, transform, smoothing, levels)

    def forecast(self, ahead: Ahead, method: Method | None = None) -> Forecast:
        """Joint forecast of the next values, by default exactly."""
        method = method or Method()
        propagation = "exact" if method.propagation == "auto" else method.propagation
        return forecast_of(self, ahead, self.joint(ahead, method), propagation)

    def joint(self, ahead: Ahead, method: Method) -> LevelJoint:
        """Joint of the next levels: of a linear model methods have the same moments.

        But for "naive", whose steps are each as uncertain as the first, and "monte_carlo".
        """
        steps, effects = len(ahead.index), self.specification.exog_effects
        if steps not in self._joints:
            with blas_threads(0):
                self._joints[steps] = self.smoothing.forecast(self.levels, steps)
        joint = self._joints[steps]
        if method.propagation == "monte_carlo":
            with blas_threads(0):
                paths = self.smoothing.sample(self.levels, steps, *method[2:])
            joint = LevelJoint.of_paths(paths.T, joint.parts)
        elif method.propagation == "naive" and joint.parts is not None:
            noise = joint.parts()["noise"]
            cov = np.diag(np.minimum(joint.cov[0, 0], np.diag(joint.cov)))
            parts = {"noise": noise, "function_own": cov - noise}
            joint = joint._replace(cov=cov, parts=partial(dict, parts))
        added = effects.at(ahead.exog, self.history.exog)
        joint = joint.shifted(self.specification.calendar_effects.at(ahead.index) + added)
        if ahead.exog_cov is not None:
            units = np.eye(ahead.exog.size).reshape(-1, *ahead.exog.shape)
            by = np.array([effects.at(unit) for unit in units])
            joint = joint.widened(by.T @ ahead.exog_cov @ by)
        return joint

    def effects(self, k: int, at: float) -> tuple[Array, Array]:
        """Mean and variance (k,) of the change of a value `at` for one unit of each regressor."""
        effects = self.specification.exog_effects
        if effects.weights is None or effects.stds is None:
            return super().effects(k, at)
        return self._in_units(at, effects.weights, effects.stds)

    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Levels (k, h) forecast from origins inside; NaN where the value before is missing."""
        skipped = len(self.history.y) - len(self.levels)
        with blas_threads(0):
            levels = self.smoothing.rolling(self.levels, (origins - skipped).tolist(), steps)
        levels[np.isnan(self.history.y[origins - 1])] = np.nan
        return levels

    def next_levels(self, at: Positions) -> tuple[Array, Array]:
        """One-step forecasts of the times in its window."""
        origins = at - (len(self.history.y) - len(self.levels))
        before = np.concatenate([[0], np.cumsum(~np.isnan(self.levels))])
        mean, var = np.full((2, len(at)), np.nan)
        some = (origins >= 0) & (before[np.maximum(origins, 0)] >= self.depth)
        if some.any():
            found = self.smoothing.next_values(self.levels, origins[some].tolist())
            mean[some], var[some] = found
        return mean, var

    def __str__(self) -> str:
        known = ~np.isnan(self.history.y)
        n, first = len(known), len(known) - self.n_rows
        last = "last " if known[:first].any() else ""
        shorter = known[max(n - self.specification.max_train, 0) : first].any()
        why = ", before which too many are missing" if shorter else ""
        power = self.transform.power if self.specification.transform == "boxcox" else None
        return f"{self.specification.described(power)}, {last}{known[first:].sum()} values{why}"

    @property
    def n_rows(self) -> int:
        """Values that it rests on."""
        return len(self.levels)

    span = n_rows

    @property
    def depth(self) -> int:
        """Values that are needed before a forecast."""
        return self.specification.period + LEAST_BEYOND

    def from_known(self) -> Self:
        """Model with missing values interpolated."""
        known = np.isfinite(self.levels[-1])
        return self if known else replace(self, levels=interpolated(self.levels))

    def learned(self) -> list[str]:
        """The innovations' standard deviation, and how many sets of parameters count."""
        weights, variance = self.smoothing.weights, self.smoothing.variance
        std = self.unit * float(np.sqrt(weights @ variance))
        averaged = f"hyper-parameters averaged over {len(weights)} sets of values"
        return [std_said("noise", std, self.transform), averaged]


def _levels(
    specification: SmoothingSpecification, transform: PowerTransform, history: History
) -> Array:
    """The last values of a history, transformed, from one that was observed; checked."""
    if history.stds.any():
        must = "be None for exponential smoothing, which knows no errors of measurement"
        raise refusal("y_std", must, "some", "Give lags of your own.")
    season, n = specification.period, len(history.y)
    observed = ~np.isnan(history.y)
    least = season + LEAST_BEYOND if season > 1 else 1
    unknown = unknowns(~observed[::-1], season)[::-1]
    known = observed & (unknown <= _MOST_UNKNOWN) & (np.arange(n) >= n - specification.max_train)
    if season == 1:  # two values however far apart: a gap is two unknowns
        known[np.flatnonzero(observed)[-2:]] = True
    if known.sum() < least:
        must = f"have at least {least} observed values for exponential smoothing with season "
        must += f"{season}, the last ones with {_MOST_UNKNOWN} missing between them"
        raise refusal("y", f"{must} at most", f"{known.sum()}", "Give more data.")
    levels = transform.forward(history.y) - taken_out(specification, history)
    return levels[known.argmax() :]
