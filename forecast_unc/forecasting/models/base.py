"""What every fitted model can do, and the forecast of its levels in units of the series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from forecast_unc._checks import RandomState, check_positive, frozen
from forecast_unc._typing import Array, Positions, Times
from forecast_unc.distributions.joint import Diverged, Joint
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.forecasting.horizon.futures import innovations
from forecast_unc.forecasting.horizon.types import LevelJoint, Method
from forecast_unc.forecasting.models.effects import Effects
from forecast_unc.forecasting.models.phase_units import PhaseScale
from forecast_unc.forecasting.models.relative_noise import GivenNoise, RelativeNoise, StepNoise
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.series.history import Ahead, History
from forecast_unc.series.times import format_time


class FittedModel(ABC):
    """A specification fitted on a history, at its end or that of another. Immutable."""

    specification: Any  # what was fitted: its `weight`, `why` and `described()` are asked for
    history: History  # where forecasts start: the series up to the origin
    transform: PowerTransform  # from values to levels
    taken_out: Effects  # which the levels are without
    relative_noise: RelativeNoise | None = None  # sizes of the noise; None: all alike
    made_of: ClassVar[tuple[str, ...]]  # settings, and what was learned

    @classmethod
    @abstractmethod
    def fit(
        cls, specification: Any, series: TrainingSeries, earlier: Sequence[FittedModel] = ()
    ) -> Self:
        """Learn from a series; a search starts from where that of an earlier one like it ended."""

    @classmethod
    @abstractmethod
    def made(cls, history: History, *args: Any, **recipe: Any) -> Self:
        """A model by its recipe, at the end of a history that it learns from."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Rows or values that it rests on."""

    @property
    @abstractmethod
    def span(self) -> int:
        """Values of the history from the first of these rows on, missing ones included."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """Values that are needed before a forecast."""

    @property
    def why(self) -> str:
        """Reason for the specification, and what fitting it added."""
        return str(self.specification.why)

    def recipe(self) -> dict[str, Any]:
        """Settings and learned numbers, of which `made` makes it again on a history."""
        return {name: getattr(self, name) for name in self.made_of}

    def extend(self, history: History) -> Self:
        """Model with these hyper-parameters and the posterior of a longer history."""
        self.transform.check(history.y, history.time)
        return self.made(history, **self.recipe())

    def at(self, history: History) -> Self:
        """Model at the end of another history, with nothing learned."""
        return self.extend(history)

    def from_known(self) -> Self:
        """The model with the values that it starts from known: itself, if they are."""
        return self

    @property
    def moments(self) -> Literal["exact", "taylor"]:
        """Propagation of the moments of one Gaussian: "taylor" without a closed form."""
        return "exact"

    def splits(self, alone: bool) -> bool:
        """Whether the mixture is cheap, and so much better than one Gaussian as to be "auto"."""
        return False

    @abstractmethod
    def predict(self, ahead: Ahead, method: Method) -> Prediction:
        """Joint distribution of the next values by a propagation, other than "auto"."""

    @abstractmethod
    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h) in units of y, each of one function."""

    @abstractmethod
    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Levels (k, h) forecast from increasing numbers of values, by the values before each."""

    @abstractmethod
    def next_levels(self, at: Positions) -> tuple[Array, Array]:
        """Means and variances (k,) one step ahead of k times of the history; NaN where none.

        The places of the times increase; hyper-parameters are those of the fit.
        """

    def kept_next_levels(self, at: Positions) -> tuple[Array, Array]:
        """The same, found once; not to be changed."""
        if (key := at.tobytes()) not in self._next_levels:
            self._next_levels[key] = self.next_levels(at)
        return self._next_levels[key]

    @cached_property
    def _next_levels(self) -> dict[bytes, tuple[Array, Array]]:
        return {}

    @abstractmethod
    def learned(self) -> list[str]:
        """Noise, evidence and search in words, as far as it has them."""

    @cached_property
    def given_noise(self) -> GivenNoise | None:
        """Sizes of the noise given the history, where they differ."""
        relative = self.relative_noise
        if relative is None:
            return None
        return relative.given(self.transform.forward(self.history.y), self.history)

    def noise_ahead(self, index: Times) -> StepNoise | None:
        """The levels' own noise at the times (h,) of the next steps, where it differs."""
        given = self.given_noise
        if given is None:
            return None
        return given.ahead(index).scaled(self.own_std, self.scale(index).size)

    def noise_from(self, origins: Positions, steps: int) -> StepNoise | None:
        """The levels' own noise (k, h) of steps from origins inside, where it differs."""
        given = self.given_noise
        if given is None:
            return None
        size = self._scale_from(origins, steps).size
        return given.from_origins(origins, steps).scaled(self.own_std, size)

    def scale(self, index: Times) -> PhaseScale:
        """Units of the steps of the season at some times, in which levels are forecast."""
        relative = self.relative_noise
        return PhaseScale.plain(index) if relative is None else relative.scale(index)

    def _scale_from(self, origins: Positions, steps: int) -> PhaseScale:
        """Those (k, h) of steps from origins inside; beyond the end those of the last time."""
        index = self.history.index
        times = np.minimum(origins[:, None] + np.arange(steps), len(index) - 1)
        return self.scale(index).taken(times)

    @property
    def own_std(self) -> float:
        """Root mean square of the stds of the levels' own noise."""
        raise NotImplementedError

    @property
    def unit(self) -> float:
        """Units of y in one of what was learned, at the median of the series."""
        return float(self.transform.slope(self.transform.forward(np.nanmedian(self.history.y))))

    def shared_innovations(self, futures: Sequence[Ahead]) -> Array:
        """Correlations (s h, s h) of the innovations of the steps of s futures of one length.

        Here the futures differ by effects that were taken out of the levels, the errors of whose
        weights they share, and those of regressors as far as they are the same; levels without
        them are the same.
        """
        effects, s, h = self.taken_out.exog, len(futures), len(futures[0].index)
        every = np.ones((s, s))
        if effects.weights is None:
            return np.asarray(np.kron(every, np.eye(h)))
        exogs, covs = [one.exog for one in futures], [one.exog_cov for one in futures]
        carried = partial(self._carried_to, futures[0].index)
        added = effects.added_jointly(exogs, covs, self.history.exog, carried)
        levels = self.level_joint(futures[0], Method(self.moments)).cov - added[:h, :h]
        return innovations(np.kron(every, levels) + added, s)

    def with_more(self, exog: Array) -> FittedModel:
        """The model whose regressors are so much more (n, k) at each time, not as lagged ones.

        What was taken out of the levels stays as it was.
        """
        return self

    def without_calendar(self) -> FittedModel:
        """The model of the same levels, without effects of the calendar taken out of them."""
        return self

    def effects(self, steps: Array, at: float) -> tuple[Array, Array]:
        """Mean and variance (m,) of the change of a value `at` for a step of each regressor."""
        around = self.history.exog.mean(axis=0)
        return self._in_units(at, *self.taken_out.exog.of_steps(steps, around))

    def _with_effects(self, joint: LevelJoint, ahead: Ahead, method: Method) -> LevelJoint:
        """The joint of the levels with the effects that were taken out, and the errors of these."""
        scale = self.scale(ahead.index)
        joint = joint.scaled(scale.size).shifted(scale.center)
        joint = joint.shifted(self.taken_out.calendar.at(ahead.index))
        effects, before = self.taken_out.exog, self.history.exog
        if effects.weights is None:
            return joint
        carried = partial(self._carried_to, ahead.index)
        added = effects.added(ahead.exog, ahead.exog_cov, before, carried)
        joint = joint.shifted(added.mean)
        joint = joint.widened(added.of_weights, "function_shared", method.random_state)
        return joint.widened(added.of_regressors, "inputs_regressors", method.random_state)

    def level_joint(self, ahead: Ahead, method: Method) -> LevelJoint:
        """Joint distribution of the next levels, with the effects that were taken out."""
        raise NotImplementedError

    def carried(self, columns: Array, steps: int) -> Array:
        """What the means of the next levels (h, d) change by for past ones (n, d) added.

        All in units of the steps of the season, where levels are.
        """
        raise NotImplementedError

    def _carried_to(self, index: Times, columns: Array) -> Array:
        """The same of levels as they are, at the next times (h,)."""
        before = self.scale(self.history.index).size[:, None]
        return self.scale(index).size[:, None] * self.carried(columns / before, len(index))

    def _in_units(self, at: float, change: Array, std: Array) -> tuple[Array, Array]:
        """What a change of the level (k,), and its std, are in a value; std by the slope there."""
        level = self.transform.forward(at)
        mean = self.transform.inverse(level + change) - self.transform.inverse(level)
        return mean, (self.transform.slope(level + change) * std) ** 2


def sampled_levels(joint: LevelJoint, transform: PowerTransform) -> Array:
    """Sample paths (n, h) of levels in units of y."""
    return transform.inverse(np.asarray(joint.paths).T)


def predicted(model: FittedModel, ahead: Ahead, levels: LevelJoint, propagation: str) -> Prediction:
    """What these levels are in units of the series; `Diverged` if it is beyond a float."""
    transform, paths, h = model.transform, levels.paths, len(ahead.index)
    if paths is not None:
        finite = np.isfinite(transform.inverse(paths)).all(axis=1)
        if not finite.all():
            step = int(finite.argmin()) + 1
            remedy = "The transformed forecast diverges: ask for fewer steps, or use no transform."
            must = "be finite in units of y"
            raise Diverged("paths", must, f"inf at step {step}", remedy, step)
    mean, cov = frozen("mean", levels.mean, (h,)), frozen("cov", levels.cov, (h, h))
    label = partial(format_time, ahead.index)
    check_positive(cov, label)
    joint = Joint.normal(mean, cov, transform, levels.parts, paths)
    joint = replace(joint, draw=partial(model.sample_paths, ahead))
    return Prediction(joint, model.history.name, propagation, str(model)).checked(label)
