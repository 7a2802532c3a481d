"""Exponential smoothing fitted on one history: a member of the automatic choice. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from forecast_unc._checks import RandomState, refusal
from forecast_unc._text import std_in_words
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions, Times
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.forecasting.choose.specification import LEAST_BEYOND, SmoothingSpecification
from forecast_unc.forecasting.horizon.types import LevelJoint, Method
from forecast_unc.forecasting.models.base import FittedModel, predicted, sampled_levels
from forecast_unc.forecasting.models.effects import NO_CALENDAR, Effects
from forecast_unc.forecasting.models.relative_noise import RelativeNoise
from forecast_unc.forecasting.models.smoothing_filter import Smoothing, unknowns
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.series.history import Ahead, History
from forecast_unc.series.rows import interpolated

# Gaps add unknowns to a linear model whose cost grows with their square.
_MOST_UNKNOWN = 60


@dataclass(frozen=True, eq=False)
class SmoothingModel(FittedModel):
    """Exponential smoothing at the end of the history that it was fitted on, or of another."""

    specification: SmoothingSpecification
    history: History = field(repr=False)
    transform: PowerTransform
    smoothing: Smoothing = field(repr=False)
    levels: Array = field(repr=False)  # (n_rows,), the last, transformed; the first is observed
    taken_out: Effects = field(repr=False)
    relative_noise: RelativeNoise | None = field(default=None, repr=False)
    _joints: dict[int, LevelJoint] = field(default_factory=dict, init=False, repr=False)

    made_of = ("specification", "transform", "taken_out", "smoothing", "relative_noise")

    @classmethod
    def fit(
        cls,
        specification: SmoothingSpecification,
        series: TrainingSeries,
        earlier: Sequence[FittedModel] = (),
    ) -> Self:
        """Learn the parameters from a series; nothing of an earlier fit is used."""
        history = series.history
        transform = series.transform(specification.transform, specification.lower)
        taken_out = series.effects(transform, specification.effects, specification.exog_lags)
        known = specification.effects, specification.exog_lags or 0
        relative_noise, noise = series.relative_noise(transform, *known), None
        levels = _levels(specification, transform, taken_out, history, relative_noise)
        if relative_noise is not None:
            noise = relative_noise.of_rows(history.index[-len(levels) :])
        with blas_threads(0):
            smoothing = Smoothing.learn(levels, specification.period, noise)
        return cls(specification, history, transform, smoothing, levels, taken_out, relative_noise)

    @classmethod
    def made(
        cls,
        history: History,
        specification: SmoothingSpecification,
        transform: PowerTransform,
        taken_out: Effects,
        smoothing: Smoothing,
        relative_noise: RelativeNoise | None,
    ) -> Self:
        """A model by its recipe, at the end of a history."""
        levels = _levels(specification, transform, taken_out, history, relative_noise)
        return cls(specification, history, transform, smoothing, levels, taken_out, relative_noise)

    def _noise(self, ahead: Times) -> Array:
        """Relative noise of the levels, and of the steps after them."""
        given = self.given_noise
        if given is None:
            return np.ones(len(self.levels) + len(ahead))
        noise = np.concatenate([given.seasonal[-len(self.levels) :], given.ahead(ahead).std])
        return noise * self._unheard

    @property
    def why(self) -> str:
        """Reason for the specification, and what became of the regressors."""
        if self.specification.exog_lags is None:
            return super().why
        if self.taken_out.exog.weights is None:
            return f"{super().why}; without the regressors"
        return f"{super().why}; effects of the regressors are taken out before"

    def predict(self, ahead: Ahead, method: Method) -> Prediction:
        """Joint distribution of the next values."""
        return predicted(self, ahead, self.level_joint(ahead, method), method.propagation)

    def level_joint(self, ahead: Ahead, method: Method) -> LevelJoint:
        """Joint of the next levels, whose moments are those of a linear model.

        `method` has no effect except "naive" (steps as uncertain as the first) and "monte_carlo".
        """
        steps = len(ahead.index)
        noise = self._noise(ahead.index)
        if steps not in self._joints:
            with blas_threads(0):
                self._joints[steps] = self.smoothing.forecast(self.levels, steps, noise)
        joint = self._joints[steps]
        if method.propagation == "monte_carlo":
            with blas_threads(0):
                paths = self.smoothing.sample(self.levels, steps, *method[2:], noise)
            joint = LevelJoint.of_paths(paths.T, joint.parts)
        elif method.propagation == "naive" and joint.parts is not None:
            own = joint.parts()["noise"]
            known = np.diag(joint.cov)[0] - own[0, 0]
            cov = np.diag(np.minimum(known + np.diag(own), np.diag(joint.cov)))
            parts = {"noise": own, "function_own": cov - own}
            joint = joint._replace(cov=cov, parts=partial(dict, parts))
        return self._with_effects(joint, ahead, method)

    def carried(self, columns: Array, steps: int) -> Array:
        """What the means of the next levels (h, d) change by for past ones (n, d) added."""
        columns = np.where(np.isnan(self.levels)[:, None], np.nan, columns[-len(self.levels) :])
        noise = self._noise(self.history.index[:0])
        with blas_threads(0):
            return self.smoothing.carried(columns, steps, noise)

    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h) in units of y, each of one start and set of parameters."""
        method = Method("monte_carlo", True, n_samples, random_state)
        return sampled_levels(self.level_joint(ahead, method), self.transform)

    def without_calendar(self) -> Self:
        """The model of the same levels, without effects of the calendar taken out of them."""
        if self.taken_out.calendar is NO_CALENDAR:
            return self
        return replace(self, taken_out=replace(self.taken_out, calendar=NO_CALENDAR))

    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Levels (k, h) forecast from origins inside; NaN where the value before is missing."""
        skipped = len(self.history.y) - len(self.levels)
        noise = self._noise(self.history.index[:0])
        with blas_threads(0):
            at = (origins - skipped).tolist()
            levels = self.smoothing.rolling(self.levels, at, steps, noise)
        levels[np.isnan(self.history.y[origins - 1])] = np.nan
        return self._scale_from(origins, steps).levels(levels)

    def next_levels(self, at: Positions) -> tuple[Array, Array]:
        """One-step forecasts of the times in its window."""
        origins = at - (len(self.history.y) - len(self.levels))
        before = np.concatenate([[0], np.cumsum(~np.isnan(self.levels))])
        mean, var = np.full((2, len(at)), np.nan)
        some = (origins >= 0) & (before[np.maximum(origins, 0)] >= self.depth)
        if some.any():
            noise = self._noise(self.history.index[:0])
            found = self.smoothing.next_values(self.levels, origins[some].tolist(), noise)
            mean[some], var[some] = found
            if self.given_noise is not None:
                own = self.given_noise.past**2 - self.given_noise.seasonal**2
                var[some] += self.own_std**2 * own[at[some]]
        scale = self.scale(self.history.index).taken(at)
        return scale.levels(mean), scale.size**2 * var

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

    @property
    def own_std(self) -> float:
        """Root mean square of the stds of the innovations."""
        return self._unheard * float(np.sqrt(self.smoothing.weights @ self.smoothing.variance))

    @property
    def _unheard(self) -> float:
        """What the noise is larger by than with steps that never vary, which have no residual."""
        return 1.0 if self.relative_noise is None else self.relative_noise.varying**-0.5

    def learned(self) -> list[str]:
        """The innovations' standard deviation, and how many sets of parameters count."""
        weights, variance = self.smoothing.weights, self.smoothing.variance
        std = self.unit * float(np.sqrt(weights @ variance))
        averaged = f"hyper-parameters averaged over {len(weights)} sets of values"
        return [std_in_words("noise", std, self.transform.power is not None), averaged]


def _levels(
    specification: SmoothingSpecification,
    transform: PowerTransform,
    taken_out: Effects,
    history: History,
    relative_noise: RelativeNoise | None,
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
    levels = transform.forward(history.y) - taken_out.at(history.index, history.exog)
    if relative_noise is not None:
        levels = relative_noise.scale(history.index).standardized(levels)
    return levels[known.argmax() :]
