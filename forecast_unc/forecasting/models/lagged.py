"""The model on lagged values of one history. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.sparse import block_diag, csr_array, kron
from scipy.special import ndtri
from sklearn.base import clone

from forecast_unc._checks import RandomState, refusal
from forecast_unc._text import figure, std_in_words
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.forecasting.choose.specification import (
    MIN_ROWS,
    Specification,
    check_length,
    deep,
)
from forecast_unc.forecasting.horizon.differencing import Differencing, LevelMap
from forecast_unc.forecasting.horizon.futures import shared_innovations
from forecast_unc.forecasting.horizon.gaussian import propagate, propagate_from
from forecast_unc.forecasting.horizon.origin import (
    next_values,
    run_in,
    states_before,
    without_window,
)
from forecast_unc.forecasting.horizon.step import Trajectory
from forecast_unc.forecasting.horizon.types import Future, LevelJoint, Method, OneStepModel, Past
from forecast_unc.forecasting.models.base import FittedModel, predicted, sampled_levels
from forecast_unc.forecasting.models.design import NoiseChoice, NoisyRows
from forecast_unc.forecasting.models.effects import NO_CALENDAR, Effects
from forecast_unc.forecasting.models.exog_effects import ExogColumns, ExogEffects, without_prior
from forecast_unc.forecasting.models.relative_noise import RelativeNoise
from forecast_unc.forecasting.models.stability import Training, bounded
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.series.calendar import calendar_inputs, in_profile, seasons_within
from forecast_unc.series.exog import joint_errors
from forecast_unc.series.history import Ahead, History
from forecast_unc.series.rows import (
    ROUNDOFF,
    complete_rows,
    difference,
    interpolated,
    lag_embedding,
)

# Standard deviations of an effect of the season, of a robust size of all, from which it may have a
# precision of its own, and nats of evidence that this has to gain.
_FAR, _MARGIN = 4.0, 5.0
_LEAST_ROWS = 2  # that the posterior of an origin inside rests on
_ALIKE = ("lags", "differences", "transform", "prior_mean", "max_train", "noise")
# What was learned, in words.
_STDS = {"noise_std_": "noise", "observation_std_": "noise of the observation"}
_SEARCH = {
    "log_evidence_": "log evidence {} (nats, of its own rows)",
    "n_iter_": "iterations of the search: {}",
}


class Learned(NamedTuple):
    """What a model is made again of, on a history."""

    specification: Specification
    transform: PowerTransform
    taken_out: Effects
    differencing: Differencing
    regressor: KernelRegressor
    noise: NoiseChoice
    replaced: str  # why the regressor is not the one of the specification
    relative_noise: RelativeNoise | None  # sizes of the noise; None: all alike


@dataclass(frozen=True, eq=False)
class LaggedModel(FittedModel):
    """A regressor of the next value on lagged ones, at the end of a history."""

    specification: Specification
    history: History = field(repr=False)  # where forecasts start: the series up to the origin
    transform: PowerTransform
    regressor: KernelRegressor  # fitted
    rows: NoisyRows = field(repr=False)  # that its posterior rests on
    past: Past = field(repr=False)  # the history on the scale of the levels
    one_step: OneStepModel = field(repr=False)
    """The posterior, of levels with the prior mean. Kept, as it caches what exact moments need: to
    make it anew cost O(n^3) a forecast."""
    noise: NoiseChoice

    taken_out: Effects = field(repr=False)
    replaced: str = ""  # why the regressor is not the one of the specification
    relative_noise: RelativeNoise | None = field(default=None, repr=False)

    made_of = Learned._fields

    @classmethod
    def fit(
        cls,
        specification: Specification,
        series: TrainingSeries,
        earlier: Sequence[FittedModel] = (),
    ) -> Self:
        """Learn the one-step model, from where the search of an earlier one like it ended."""
        history = series.history
        times = _checked_rows(specification, series)
        transform = series.transform(specification.transform, specification.lower)
        words, lags = specification.effects, specification.exog_lags
        taken_out = series.effects(transform, words)
        if specification.exog_as != "inputs":
            found = series.effects(transform, words, lags)
            specification = _with_regressors(specification, found.exog, history.index)
            taken_out = found if specification.exog_as == "lasting" else taken_out
        relative_noise = None
        if specification.regressor.takes_noise and specification.noise == "process":
            relative_noise = series.relative_noise(transform, words, lags)
        past = _past(specification, transform, taken_out, history, relative_noise)
        differencing = _standardizing(specification, past)
        rows = _rows(specification, differencing, past, times, relative_noise, history.index)
        regressor = clone(specification.regressor)
        alike = _inputs_and_target(specification)
        for one in earlier:
            if isinstance(one, cls) and _inputs_and_target(one.specification) == alike:
                regressor = regressor.starting_from(one.regressor)
                break
        regressor, noise = rows.learn(regressor, specification.noise)
        if specification.within:
            n_calendar = _inputs(specification, np.zeros((1, 0)), history.index[:1]).shape[1]
            first = rows.X.shape[1] - n_calendar
            profile = slice(first, first + in_profile(specification.periods))
            regressor = _with_steps_apart(regressor, rows, profile)
        replaced = ""
        if noise.kind == "process":
            training = _training(specification, differencing, past, rows)
            regressor, replaced = bounded(regressor, training)
        learned = Learned(
            specification,
            transform,
            taken_out,
            differencing,
            regressor,
            noise,
            replaced,
            relative_noise,
        )
        return cls._of(learned, history, rows, past)

    @classmethod
    def made(cls, history: History, **recipe: Any) -> Self:
        """A model by its recipe, which are the fields of `Learned`, with a history's posterior."""
        learned = Learned(**recipe)
        specification = learned.specification
        past = _past(
            specification, learned.transform, learned.taken_out, history, learned.relative_noise
        )
        times = complete_rows(history.y, specification.lags, specification.differences)
        noise = learned.relative_noise
        rows = _rows(specification, learned.differencing, past, times, noise, history.index)
        learned = learned._replace(regressor=rows.condition(learned.regressor))
        return cls._of(learned, history, rows, past)

    @classmethod
    def _of(cls, learned: Learned, history: History, rows: NoisyRows, past: Past) -> Self:
        fields = learned._asdict()
        one_step = _one_step(learned.specification, fields.pop("differencing"), learned.regressor)
        return cls(history=history, rows=rows, past=past, one_step=one_step, **fields)

    @property
    def why(self) -> str:
        """Reason for the specification, and why another regressor stands for its own."""
        return f"{super().why}; {self.replaced}" if self.replaced else super().why

    def at(self, history: History) -> Self:
        """Model at the end of another history, with nothing learned."""
        self.transform.check(history.y, history.time)
        spec, n = self.specification, len(history.y)
        if n < spec.depth:
            of = deep(max(spec.lags), spec.differences)
            must = f"have at least {spec.depth} values for {of}"
            raise refusal("y", must, f"{n}", "Give more history.")
        places = self.history.index.get_indexer(history.index)
        learned = (places >= 0) & (self.history.y[places] == history.y) & self.past.learned[places]
        past = _past(spec, self.transform, self.taken_out, history, self.relative_noise)
        past = past._replace(learned=learned)
        return replace(self, history=history, past=past)

    @property
    def moments(self) -> Literal["exact", "taylor"]:
        """Propagation of the moments of one Gaussian: "taylor" without a closed form."""
        return "exact" if self.regressor.posterior_.closed_form else "taylor"

    def splits(self, alone: bool) -> bool:
        """Whether pieces have one function each, and nothing was observed on the way to the origin.

        Else they would be weighted by it, and their cost grow with the square of the way.
        """
        # An average of several is within 8 % of its own Monte Carlo by exact moments, in the std of
        # sums and of maxima (24 series); one model's are off by up to 48 %.
        if not (alone or self.specification.bend):
            return False
        start = run_in(self.one_step, self.past)
        return self.one_step.posterior.joint and not start.observed[start.now :].any()

    def predict(self, ahead: Ahead, method: Method) -> Prediction:
        """Joint distribution of the next values."""
        return predicted(self, ahead, self.level_joint(ahead, method), method.propagation)

    def level_joint(self, ahead: Ahead, method: Method) -> LevelJoint:
        """Joint of the next levels, with the effects that are not in its own."""
        with blas_threads(self.n_rows):
            joint = propagate(self.one_step, self.past, self._future(ahead), method)
        return self._with_effects(joint, ahead, method)

    def carried(self, columns: Array, steps: int) -> Array:
        """What the means of the next levels (h, d) change by for past ones (n, d) added."""
        start, p = self.from_known(), self.depth
        units = columns.std(axis=0) / self.differencing.scale
        units = np.where(units > 0.0, units, 1.0)
        levels = start.past.levels[-p:] + np.vstack([np.zeros(p), columns[-p:].T / units[:, None]])
        trajectory = Trajectory(self.one_step, levels, steps)
        known = np.tile(start.past.exog[-1], (len(levels), 1))
        for _ in range(steps):
            trajectory.append(self.one_step.posterior.mean(trajectory.inputs(known)))
        means = trajectory.levels[:, p:]
        return np.asarray((means[1:] - means[0]).T * units)

    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h) in units of y, each of one function."""
        method = Method("monte_carlo", True, n_samples, random_state)
        return sampled_levels(self.level_joint(ahead, method), self.transform)

    def shared_innovations(self, futures: Sequence[Ahead]) -> Array:
        """Correlations (s h, s h) of the innovations of the steps of s futures of one length."""
        if self.specification.exog_as == "lasting":
            return super().shared_innovations(futures)
        each = [self._future(ahead) for ahead in futures]
        with blas_threads(self.n_rows):
            return shared_innovations(
                self.one_step, self.past, each, Method(self.moments), self._joint_errors(futures)
            )

    def with_more(self, exog: Array) -> Self:
        """The model whose regressors are so much more (n, k) at each time, not as lagged ones."""
        if self.specification.exog_as == "lasting" or not exog.any():
            return self
        inputs = self.past.exog.copy()
        moved = self.exog_columns.moved(self.history.exog, exog)
        inputs[:, : moved.shape[1]] += moved
        return replace(self, past=self.past._replace(exog=inputs))

    def without_calendar(self) -> Self:
        """The model of the same levels, without effects of the calendar taken out of them."""
        if self.taken_out.calendar is NO_CALENDAR:
            return self
        return replace(self, taken_out=replace(self.taken_out, calendar=NO_CALENDAR))

    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Levels (k, h) by posteriors of the rows before each origin, from means given these rows.

        Missing ones are interpolated; what looks back at a gap that lasts until the origin is NaN.
        """
        levels = self.past.levels
        exog = self.past.exog
        n = len(self.past.levels)
        one_step = self.one_step
        anchor = self.specification.anchor
        p = self.depth
        rows = self.rows
        found = np.searchsorted(rows.times, origins)
        enough = found >= _LEAST_ROWS
        counts = [max(int(count), _LEAST_ROWS) for count in found]
        back = origins[:, None] + np.arange(-p, 0)
        observed = np.maximum.accumulate(np.where(np.isnan(levels), -1, np.arange(n)))  # the last
        with blas_threads(len(rows.y)), np.errstate(over="ignore", invalid="ignore"):
            means, errors = rows.leading(self.regressor, counts)
            known = levels - self.differencing.scale * errors  # (k, n), as far as they are
            if np.isnan(known).any():
                known = np.array([interpolated(one) for one in known])
            start = np.take_along_axis(known, back, axis=1)
            start = np.where(back <= observed[origins - 1, None], start, np.nan)
            trajectory = Trajectory(one_step, start, steps)
            for step in range(steps):
                inputs = trajectory.inputs(exog[np.minimum(origins + step, n - 1)])
                good = np.asarray(np.isfinite(inputs).all(axis=1))
                change = means(np.where(good[:, None], inputs, 0.0))
                if anchor is not None:
                    change = change + inputs[:, anchor]
                trajectory.append(np.where(good, change, np.nan))
            levels = np.where(enough[:, None], trajectory.levels[:, p:], np.nan)
            return self._scale_from(origins, steps).levels(levels)

    def next_levels(self, at: Positions) -> tuple[Array, Array]:
        """One-step forecasts, in one call where lagged values were observed without error."""
        past, one_step = self.past, self.one_step
        mean, var = np.full((2, len(at)), np.nan)
        there = at > max(self.depth - 1, int(np.isfinite(past.levels).argmax()))
        back = np.maximum(at[:, None], self.depth) + np.arange(-self.depth, 0)
        exact = there & np.isfinite(past.levels[back]).all(axis=1) & ~past.stds[back].any(axis=1)
        exact &= one_step.posterior.observation_var == 0.0
        loose = there & ~exact  # those of one pass, without a complete window before
        if one_step.posterior.observation_var == 0.0:
            loose[loose] = without_window(one_step, past, at[loose])
            used = np.maximum(at[:, None], self.depth) - one_step.maps.touched[1:]
            known = np.isfinite(past.levels[used]).all(axis=1) & ~past.stds[used].any(axis=1)
            exact, loose = exact | (loose & known), loose & ~known
        if exact.any():
            trajectory = Trajectory(one_step, past.levels[back[exact]], 1)
            change, spread = one_step.posterior.predict(trajectory.inputs(past.exog[at[exact]]))
            trajectory.append(change)
            mean[exact] = trajectory.levels[:, -1]
            spread += one_step.noise_var(past.noise, len(past.levels))[at[exact]]
            spread -= one_step.posterior.noise_var
            var[exact] = one_step.differencing.scale**2 * spread
        method, noisy = Method(self.moments), there & ~exact
        if loose.any():
            times = np.unique(at[loose])
            found = next_values(one_step, past, method, times)
            mean[loose], var[loose] = found[:, np.searchsorted(times, at[loose])]
        for time, state in states_before(one_step, past, method, at[noisy & np.isnan(mean)]):
            place = np.searchsorted(at, time)
            with suppress(ValueError):  # it diverges
                joint = propagate_from(one_step, state, past.step(time), method)
                mean[place], var[place] = joint.mean[0], joint.cov[0, 0]
        scale = self.scale(self.history.index).taken(at)
        return scale.levels(mean), scale.size**2 * var

    @property
    def n_rows(self) -> int:
        """Rows that its posterior rests on."""
        return len(self.rows.y)

    @property
    def span(self) -> int:
        """Values of the history that it has learned from, from the first of its rows on."""
        return len(self.history.y) - int(self.rows.times[0])

    def __str__(self) -> str:
        most = self.specification.max_train or self.specification.regressor.most_rows
        last = "last " if self.n_rows == most else ""
        power = self.transform.power if self.specification.transform == "boxcox" else None
        return f"{self.specification.described(power)}, {last}{self.n_rows} rows"

    @property
    def differencing(self) -> Differencing:
        """Differences, shift and scale from levels to what the regressor sees."""
        return self.one_step.differencing

    @property
    def unit(self) -> float:
        """Units of y in one of the stds of the regressor, at the median of the series."""
        return float(self.differencing.scale * super().unit)

    @property
    def depth(self) -> int:
        """Values that a step looks back."""
        return self.specification.depth

    def from_known(self) -> Self:
        """The model with missing values interpolated, and all treated as exact, if need be."""
        last = slice(len(self.past.levels) - self.depth, None)
        if not (np.isnan(self.past.levels[last]).any() or self.past.stds[last].any()):
            return self
        levels, stds = interpolated(self.past.levels), np.zeros_like(self.past.stds)
        return replace(self, past=self.past._replace(levels=levels, stds=stds))

    def effects(self, steps: Array, at: float) -> tuple[Array, Array]:
        """Mean and variance (m,) of the change of a value `at` for a step of each regressor."""
        spec = self.specification
        if spec.exog_as == "lasting":
            return super().effects(steps, at)
        start = self.from_known()
        posterior = self.one_step.posterior
        p = self.depth
        row = Trajectory(self.one_step, start.past.levels[-p:], 1).inputs(start.past.exog[-1])
        changes = _columns(spec).changes(steps, self.history.exog.mean(axis=0))
        first = len(spec.lags)
        X = np.tile(row, (1 + len(steps), 1))
        X[1:, first : first + changes.shape[1]] += changes
        mean, cov = posterior.mean(X), posterior.covariance(X)
        change, var = mean[1:] - mean[0], cov[0, 0] + cov.diagonal()[1:] - 2.0 * cov[0, 1:]
        if isinstance(self.regressor, LinearRegressor):
            means, variances = self.regressor.without_prior()
            columns = slice(first, first + changes.shape[1])
            plain = means[columns], variances[columns]
            change, var = without_prior(changes, change, var, plain)
        scale = self.differencing.scale
        return self._in_units(at, scale * change, scale * np.sqrt(var.clip(0.0)))

    @property
    def exog_columns(self) -> ExogColumns:
        """Columns of the regressors, which are inputs or have lasting effects."""
        if self.specification.exog_as == "lasting":
            return self.taken_out.exog.columns
        return _columns(self.specification)

    @property
    def own_std(self) -> float:
        """Root mean square of the stds of the levels' noise."""
        return float(self.differencing.scale * np.sqrt(self.one_step.posterior.noise_var))

    def learned(self) -> list[str]:
        """Noise, evidence and search of the regressor in words, where it has them."""
        regressor = self.regressor
        lines = list[str]()
        for name, noise in _STDS.items():
            if (std := getattr(regressor, name, None)) is not None:
                at_median = self.transform.power is not None
                lines.append(std_in_words(noise, std * self.unit, at_median))
        for name, words in _SEARCH.items():
            if (value := getattr(regressor, name, None)) is not None:
                lines.append(words.format(figure(value)))
        if isinstance(regressor, ReducedRankGPRegressor):
            rows = f"{regressor.n_searched(self.n_rows):,} rows"
            lines.append(f"hyper-parameters by the {regressor.objective} of {rows}")
        if not getattr(regressor, "converged_", True):
            lines.append("not converged")
        return lines or [repr(regressor)]

    def _future(self, ahead: Ahead) -> Future:
        """Regressors and inputs from the calendar of the steps."""
        spec, cov, before = self.specification, ahead.exog_cov, self.history.exog
        columns = _columns(spec)
        if spec.exog_as == "lasting":
            exog, cov = ahead.exog[:, :0], None
        elif cov is None:
            exog = _changes(spec, columns.of(before), columns.of(ahead.exog, before))
        else:
            exog, slopes = self._in_columns(ahead, cov)
            cov = np.asarray((slopes @ (slopes @ cov).T).T)
        given = self.given_noise
        noise = None if given is None else given.ahead(ahead.index).std
        return Future(_inputs(spec, exog, ahead.index), cov, noise)

    def _in_columns(self, ahead: Ahead, cov: Array) -> tuple[Array, csr_array]:
        """Mean inputs (h, d) of uncertain regressors, and their slopes (h d, h k), by step."""
        spec, before, h = self.specification, self.history.exog, len(ahead.index)
        columns = _columns(spec)
        means, linear = columns.linear(ahead.exog, cov, before)
        changes = _changes(spec, np.zeros((len(before), h)), np.eye(h))
        slopes = csr_array(kron(changes, np.eye(means.shape[1]))) @ linear
        return _changes(spec, columns.of(before), means), slopes

    def _joint_errors(self, futures: Sequence[Ahead]) -> Array | None:
        """Covariance of uncertain inputs of the futures that have some; None: all known."""
        covs, (h, k) = [one.exog_cov for one in futures], futures[0].exog.shape
        errors = joint_errors(covs, h, k)
        if errors is None:
            return None
        known = csr_array((0, h * k))
        slopes = block_diag(
            [
                known if cov is None else self._in_columns(one, cov)[1]
                for one, cov in zip(futures, covs, strict=True)
            ],
            format="csr",
        )
        return np.asarray((slopes @ (slopes @ errors).T).T)


def _checked_rows(specification: Specification, series: TrainingSeries) -> Positions:
    """Times of the complete rows of a series; an error if there are too few, or too many."""
    lags, differences = specification.lags, specification.differences
    n_values = len(series.history.y)
    check_length(n_values, max(lags), differences)
    times = series.rows.times(lags, differences)
    n, most = len(times), specification.regressor.most_rows
    if n < MIN_ROWS:
        of = deep(max(lags), differences)
        must = f"leave at least {MIN_ROWS} complete training rows for {of}"
        n_all = n_values - max(lags) - sum(differences)
        got = f"{n} of {n_all}, the others touch missing values"
        remedy = "Use fewer lags, or some that miss the gaps: even ones if every other value is "
        raise refusal("y", must, got, f"{remedy}missing.")
    if specification.max_train is None and most is not None and n > most:
        got = f"{n}, of which {type(specification.regressor).__name__} would keep matrices of "
        got += f"{8e-9 * n**2:.2g} GB, at a time that grows with their cube"
        remedy = f"Pass max_train={most} or fewer to learn from the last rows"
        remedy += ", or ReducedRankGPRegressor()." if specification.noise == "process" else "."
        raise refusal("max_train", f"be given for more than {most} training rows", got, remedy)
    return times


def _past(
    specification: Specification,
    transform: PowerTransform,
    taken_out: Effects,
    history: History,
    relative_noise: RelativeNoise | None = None,
) -> Past:
    """A history on the scale of the levels; a std s becomes g(y + s) - g(y), finite near y = 0."""
    values, stds = history.y, history.stds
    levels = transform.forward(values)
    if transform.power is not None and stds.any():
        stds = np.where(np.isnan(levels), stds, transform.forward(values + stds) - levels)
    levels = levels - taken_out.at(history.index, history.exog)
    learned = np.ones(len(values), dtype=np.bool_)
    exog = history.exog[:, :0]
    if specification.exog_as != "lasting":
        exog = _columns(specification).of(history.exog)
        first = np.full((sum(specification.exog_differences), exog.shape[1]), np.nan)
        exog = _changes(specification, first, exog)
        exog[: specification.exog_depth] = np.nan  # no row has these
    noise = None
    if relative_noise is not None:
        noise = relative_noise.given(transform.forward(values), history).past
        scale = relative_noise.scale(history.index)
        levels, stds = scale.standardized(levels), stds / scale.size
    return Past(levels, stds, _inputs(specification, exog, history.index), learned, noise)


def _with_regressors(
    specification: Specification, found: ExogEffects, index: pd.Index[Any]
) -> Specification:
    """The specification with regressors as the evidence has them, whose regressor is linear."""
    regressor, n_lags = clone(specification.regressor), len(specification.lags)
    n_calendar = _inputs(specification, np.zeros((1, 0)), index[:1]).shape[1]
    lagged, others = regressor.groups[:n_lags], regressor.groups[n_lags:]
    calendar = others[len(others) - n_calendar :]
    if specification.exog_as == "lasting" or found.nats > 0.0:
        regressor = regressor.set_params(groups=(*lagged, *calendar))
        return replace(specification, regressor=regressor, exog_as="lasting")
    columns = found.columns
    distinct = list(dict.fromkeys(columns.kinds))
    kinds = (3 + distinct.index(kind) for kind in columns.kinds)
    regressor = regressor.set_params(groups=(*lagged, *kinds, *calendar))
    inputs = replace(specification, exog_lags=columns.lags, exog_bends=columns.bends)
    return replace(inputs, regressor=regressor, exog_as="inputs")


def _columns(specification: Specification) -> ExogColumns:
    """Columns of the regressors that are inputs."""
    return ExogColumns(specification.exog_lags, specification.exog_bends)


def _changes(specification: Specification, before: Array, columns: Array) -> Array:
    """Columns (n, d) after others, or changes of them."""
    lags = specification.exog_differences
    both = np.vstack([before[len(before) - sum(lags) :], columns])
    return difference(both.T, lags).T


def _inputs(specification: Specification, exog: Array, index: pd.Index[Any]) -> Array:
    """Regressors and inputs from the calendar, (len(index), k)."""
    periods = specification.periods
    inputs = [exog, calendar_inputs(index, specification.calendar, periods)]
    inputs += [seasons_within(index, periods)] if specification.within else []
    return np.hstack(inputs)


def _standardizing(specification: Specification, past: Past) -> Differencing:
    """The differences of levels, with the shift and scale that standardize them."""
    differencing = Differencing.fit(past.levels, specification.differences)
    if differencing.scale <= ROUNDOFF * np.nanmax(np.abs(past.levels)):
        got = f"a constant series after differencing at lags {specification.differences}"
        raise refusal("differences", "leave some variation", got, "Take fewer differences.")
    # from their mean, but for a bias that is shrunk, which is a drift to see
    return differencing if specification.regressor.centers else replace(differencing, shift=0.0)


def _noisy_rows(
    specification: Specification, differencing: Differencing, past: Past, times: Positions
) -> NoisyRows:
    """The last of the complete rows, whose targets have these times, with the errors they share."""
    lags, anchor = specification.lags, specification.anchor
    times = times[times >= specification.exog_depth]
    most = specification.max_train or specification.regressor.most_rows
    times = times[-most:] if most else times
    z = differencing.forward(past.levels)
    lost = len(past.levels) - len(z)
    X, target = lag_embedding(z, lags, past.exog[lost:])
    rows = times - lost - max(lags)
    X, target = X[rows], target[rows]
    if anchor is not None:
        target = target - X[:, anchor]
    maps, stds = LevelMap(lags, differencing), past.stds / differencing.scale
    return NoisyRows(X, target, times, maps, anchor, stds)


def _rows(
    specification: Specification,
    differencing: Differencing,
    past: Past,
    times: Positions,
    relative_noise: RelativeNoise | None,
    index: pd.Index[Any],
) -> NoisyRows:
    """Those of targets that vary, with the noise of their steps of the season."""
    if relative_noise is None:
        return _noisy_rows(specification, differencing, past, times)
    times = times[relative_noise.varies(index)[times]]
    rows = _noisy_rows(specification, differencing, past, times)
    weights = relative_noise.of_rows(index)
    return rows if weights is None else replace(rows, noise=weights[rows.times])


def _with_steps_apart(
    regressor: KernelRegressor, rows: NoisyRows, profile: slice
) -> KernelRegressor:
    """With another precision for steps of the season whose effects are far from all others.

    Such as at midnight before a weekend: one precision of all would shrink the jump.
    """
    if not isinstance(regressor, LinearRegressor):
        return regressor
    effects = np.abs(regressor.coef_[profile])
    apart = effects > _FAR * np.median(effects) / ndtri(0.75)
    if not apart.any():
        return regressor
    groups = np.array(regressor.groups)
    groups[profile][apart] = groups.max() + 1
    other, _ = rows.learn(clone(regressor).set_params(groups=tuple(groups.tolist())), "process")
    gained = isinstance(other, LinearRegressor)
    gained = gained and other.log_evidence_ > regressor.log_evidence_ + _MARGIN
    return other if gained else regressor


def _training(
    specification: Specification, differencing: Differencing, past: Past, rows: NoisyRows
) -> Training:
    """Rows and the changes that they are made of, to judge the stability of what was learned."""
    first = rows.times[0] - max(specification.lags)
    changes = differencing.forward(past.levels)[first - len(past.levels) :]
    lags, anchor = specification.lags, specification.anchor
    return Training(rows.X, rows.y, changes, past.exog[first:], lags, anchor, rows.noise)


def _inputs_and_target(specification: Specification) -> tuple[Any, ...]:
    """Inputs and target of a model: one with the same starts its search from this one's end."""
    return *(getattr(specification, name) for name in _ALIKE), len(specification.calendar)


def _one_step(
    specification: Specification, differencing: Differencing, regressor: KernelRegressor
) -> OneStepModel:
    """The one-step model of a fitted regressor; an error if it cannot have the prior mean."""
    posterior = regressor.posterior_
    if specification.anchor is not None:
        posterior = posterior.plus_input(specification.anchor)
    return OneStepModel(posterior, specification.lags, differencing)
