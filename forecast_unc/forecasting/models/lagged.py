"""Fitted models: their protocol, and the model on lagged values. All immutable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from forecast_unc._checks import RandomState, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.power import POWERS, PowerTransform
from forecast_unc.forecasting.choose.specification import (
    MIN_ROWS,
    Specification,
    check_length,
    deep,
)
from forecast_unc.forecasting.horizon.gaussian import LevelJoint, propagate
from forecast_unc.forecasting.horizon.origin import run_in
from forecast_unc.forecasting.horizon.step import Future, Method, OneStepModel, Past, Trajectory
from forecast_unc.forecasting.models.design import (
    Differencing,
    LevelMap,
    NoiseChoice,
    NoisyRows,
    complete_rows,
    difference,
    interpolated,
    lag_embedding,
)
from forecast_unc.forecasting.models.stability import Training, bounded
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.series.calendar import calendar_inputs
from forecast_unc.series.exog import lagged
from forecast_unc.series.history import Ahead, History

# Levels whose range or changes are a smaller share of their size are all the same.
_ROUNDOFF = 1e-12
_LEAST_ROWS = 2  # that the posterior of an origin inside rests on
_ALIKE = ("lags", "differences", "transform", "prior_mean", "max_train", "noise")
# What was learned, in words.
_STDS = {"noise_std_": "noise", "observation_std_": "noise of the observation"}
_SEARCH = {
    "log_evidence_": "log evidence {} (nats, of its own rows)",
    "n_iter_": "iterations of the search: {}",
}


def figure(value: float, digits: int = 4) -> str:
    """A number to at most four digits as people write it: 2,451 and not 2.451e+03."""
    said = f"{value:.{digits}g}"
    return f"{float(said):,.0f}" if 1000 <= abs(float(said)) < 1e12 else said


def std_said(noise: str, std: float, transform: PowerTransform) -> str:
    """A standard deviation in words, with its unit; that of a transform depends on the level."""
    unit = "units of y" if transform.power is None else "units of y, at its median"
    return f"{noise}: standard deviation {figure(std)} ({unit})"


class FittedModel(Protocol):
    """A specification fitted on a history, at its end or that of another: all an Ensemble knows."""

    specification: Any  # what was fitted: its `weight`, `why` and `described()` are asked for
    history: History  # where forecasts start: the series up to the origin
    transform: PowerTransform  # from values to levels
    made_of: ClassVar[tuple[str, ...]]  # settings, and what was learned

    @property
    def n_rows(self) -> int:
        """Rows or values that it rests on."""

    @property
    def span(self) -> int:
        """Values of the history from the first of these rows on, missing ones included."""

    @property
    def depth(self) -> int:
        """Values that are needed before a forecast."""

    @classmethod
    def made(cls, *args: Any, **recipe: Any) -> Self:
        """A model by its recipe, at the end of a history that it learns from."""

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

    def forecast(self, ahead: Ahead, method: Method | None = None) -> Forecast:
        """Joint forecast of the next values; without a method the default one."""

    def joint(self, ahead: Ahead, method: Method) -> LevelJoint:
        """Joint of the next levels, with the effects that are not in its own."""

    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h) in units of y, each of one function."""
        paths = self.joint(ahead, Method("monte_carlo", True, n_samples, random_state)).paths
        return self.transform.inverse(np.asarray(paths).T)

    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Levels (k, h) forecast from increasing numbers of values, by the values before each."""

    def next_levels(self, at: Positions) -> tuple[Array, Array, Array]:
        """One-step forecasts of k times of the history, increasing places, by what was learned.

        Probabilities (c,) of the posteriors, and means and variances (c, k); NaN where none.
        """

    @property
    def unit(self) -> float:
        """Units of y in one of what was learned, at the median of the series."""
        return float(self.transform.slope(self.transform.forward(np.nanmedian(self.history.y))))

    def effects(self, k: int, at: float) -> tuple[Array, Array]:
        """Mean and variance (k,) of the change of a value `at` for one unit of a regressor."""
        return np.zeros(k), np.zeros(k)

    def _in_units(self, at: float, change: Array, std: Array) -> tuple[Array, Array]:
        """What a change of the level (k,), and its std, are in a value; std by the slope there."""
        level = self.transform.forward(at)
        mean = self.transform.inverse(level + change) - self.transform.inverse(level)
        return mean, (self.transform.slope(level + change) * std) ** 2

    def learned(self) -> list[str]:
        """Noise, evidence and search in words, where it has them."""


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

    made_of = ("specification", "transform", "differencing", "regressor", "noise")

    @classmethod
    def fit(
        cls, specification: Specification, history: History, earlier: Sequence[FittedModel] = ()
    ) -> Self:
        """Learn the one-step model, from where the search of an earlier one like it ended."""
        _check_rows(specification, history)
        transform = fitted_transform(specification.transform, specification.lower, history)
        past = _past(specification, transform, history)
        differencing = _standardizing(specification, past)
        rows = _noisy_rows(specification, differencing, past)
        regressor, own = clone(specification.regressor), _inputs_and_target(specification)
        for one in earlier:
            if isinstance(one, cls) and _inputs_and_target(one.specification) == own:
                regressor = regressor.starting_from(one.regressor)
                break
        regressor, noise = rows.learn(regressor, specification.noise)
        if specification.noise == "process":
            first, lags = rows.times[0] - max(specification.lags), specification.lags
            changes = differencing.forward(past.levels)[first - len(past.levels) :]
            exog, anchor = past.exog[first:], specification.anchor
            regressor, why = bounded(
                regressor, Training(rows.X, rows.y, changes, exog, lags, anchor)
            )
            if why:
                why, plain = f"{specification.why}; {why}", clone(regressor)
                specification = replace(specification, regressor=plain, why=why)
        one_step = _one_step(specification, differencing, regressor)
        return cls(specification, history, transform, regressor, rows, past, one_step, noise)

    @classmethod
    def made(
        cls,
        history: History,
        specification: Specification,
        transform: PowerTransform,
        differencing: Differencing,
        regressor: KernelRegressor,
        noise: NoiseChoice,
    ) -> Self:
        """A model by its recipe, with the posterior of a history."""
        past = _past(specification, transform, history)
        rows = _noisy_rows(specification, differencing, past)
        regressor = rows.condition(regressor)
        one_step = _one_step(specification, differencing, regressor)
        return cls(specification, history, transform, regressor, rows, past, one_step, noise)

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
        past = _past(spec, self.transform, history)._replace(learned=learned)
        return replace(self, history=history, past=past)

    def forecast(self, ahead: Ahead, method: Method | None = None) -> Forecast:
        """Joint forecast of the next, by default exactly, or "taylor" without closed form."""
        closed = Method("exact" if self.regressor.posterior_.closed_form else "taylor")
        if method is None:
            method = closed
        elif method.propagation == "auto":
            several = len(ahead.index) > 1  # one step is normal
            if several and method.path_consistent and self._splits_cheaply:
                with suppress(Diverged):  # a few pieces may, where one Gaussian does not
                    return self.forecast(ahead, Method("mixture"))
            method = closed._replace(path_consistent=method.path_consistent)
        return forecast_of(self, ahead, self.joint(ahead, method), method.propagation)

    def joint(self, ahead: Ahead, method: Method) -> LevelJoint:
        """Joint of the next levels, with the effects that are not in its own."""
        with blas_threads(self.n_rows):
            joint = propagate(self.one_step, self.past, self._future(ahead), method)
        return joint.shifted(self.specification.calendar_effects.at(ahead.index))

    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Levels (k, h) by posteriors of the rows before each origin, from means given these rows.

        Missing ones are interpolated; what looks back at a gap that lasts until the origin is NaN.
        """
        levels, exog, n = self.past.levels, self.past.exog, len(self.past.levels)
        one_step, anchor, p = self.one_step, self.specification.anchor, self.depth
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
            return np.where(enough[:, None], trajectory.levels[:, p:], np.nan)

    def next_levels(self, at: Positions) -> tuple[Array, Array, Array]:
        """One-step forecasts, in one call where lagged values were observed without error."""
        past, one_step, alternatives = self.past, self.one_step, self.one_step.alternatives
        mean, var = np.full((2, len(alternatives), len(at)), np.nan)
        there = at >= self.depth
        back = np.maximum(at[:, None], self.depth) + np.arange(-self.depth, 0)
        exact = there & np.isfinite(past.levels[back]).all(axis=1) & ~past.stds[back].any(axis=1)
        exact &= one_step.posterior.observation_var == 0.0
        for number, (_, one) in enumerate(alternatives if exact.any() else ()):
            trajectory = Trajectory(one, past.levels[back[exact]], 1)
            change, spread = one.posterior.predict(trajectory.inputs(past.exog[at[exact]]))
            trajectory.append(change)
            mean[number, exact] = trajectory.levels[:, -1]
            var[number, exact] = one.differencing.scale**2 * spread
        method = Method("exact" if one_step.posterior.closed_form else "taylor")
        for place in np.flatnonzero(there & ~exact):
            before, future = past.before(at[place]), Future(past.exog[at[place], None])
            try:
                joint = propagate(one_step, before, future, method)
            except ValueError:  # it diverges on the way
                continue
            mixture = joint.mixture
            mean[:, place] = joint.mean[0] if mixture is None else mixture.means[:, 0]
            var[:, place] = joint.cov[0, 0] if mixture is None else mixture.covs[:, 0, 0]
        return np.array([p for p, _ in alternatives]), mean, var

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

    def effects(self, k: int, at: float) -> tuple[Array, Array]:
        """Mean and variance (k,) of the change of a value `at` for one unit of each regressor."""
        start, posterior, p = self.from_known(), self.one_step.posterior, self.depth
        row = Trajectory(self.one_step, start.past.levels[-p:], 1).inputs(start.past.exog[-1])
        first = len(self.specification.lags)
        X = np.vstack([row, row + np.eye(len(row))[first : first + k]])
        mean, cov = posterior.mean(X), posterior.covariance(X)
        var = cov[0, 0] + cov.diagonal()[1:] - 2.0 * cov[0, 1:]
        scale = self.differencing.scale
        return self._in_units(at, scale * (mean[1:] - mean[0]), scale * np.sqrt(var.clip(0.0)))

    def learned(self) -> list[str]:
        """Noise, evidence and search of the regressor in words, where it has them."""
        regressor, said = self.regressor, []
        for name, noise in _STDS.items():
            if (std := getattr(regressor, name, None)) is not None:
                said.append(std_said(noise, std * self.unit, self.transform))
        for name, words in _SEARCH.items():
            if (value := getattr(regressor, name, None)) is not None:
                said.append(words.format(figure(value)))
        if isinstance(regressor, ReducedRankGPRegressor):
            rows = f"{regressor.n_searched(self.n_rows):,} rows"
            said.append(f"hyper-parameters by the {regressor.objective} of {rows}")
        if nodes := getattr(regressor, "nodes_", None):
            said.append(f"hyper-parameters averaged over {len(nodes)} sets of values")
        if not getattr(regressor, "converged_", True):
            said.append("not converged")
        return said or [repr(regressor)]

    def _future(self, ahead: Ahead) -> Future:
        """Regressors and inputs from the calendar of the steps."""
        spec, cov, (steps, k) = self.specification, ahead.exog_cov, ahead.exog.shape
        past = self.history.exog[len(self.history.exog) - spec.exog_depth :]
        exog = _explanatory(spec, np.vstack([past, ahead.exog]))
        if cov is not None and spec.exog_depth:
            units = np.eye(steps * k).reshape(-1, steps, k)
            known = np.zeros_like(past)
            matrix = [_explanatory(spec, np.vstack([known, unit])).ravel() for unit in units]
            cov = np.transpose(matrix) @ cov @ matrix
        return Future(_inputs(spec, exog, ahead.index), cov)

    @property
    def _splits_cheaply(self) -> bool:
        """Whether pieces have one function each, and nothing was observed on the way to the origin.

        Else they would be weighted by it, and their cost grow with the square of the way.
        """
        start = run_in(self.one_step, self.past)
        return self.one_step.posterior.joint and not start.observed[start.now :].any()


def forecast_of(model: FittedModel, ahead: Ahead, joint: LevelJoint, propagation: str) -> Forecast:
    """The forecast of these levels; `Diverged` if it is beyond a float in units of the series."""
    transform, paths = model.transform, joint.paths
    if paths is not None:
        paths = transform.inverse(paths)
        finite = np.isfinite(paths).all(axis=1)
        if not finite.all():
            step = int(finite.argmin()) + 1
            remedy = "The transformed forecast diverges: ask for fewer steps, or use no transform."
            must = "be finite in units of y"
            raise Diverged("paths", must, f"inf at step {step}", remedy, step)
    forecast = Forecast(
        ahead.index,
        joint.mean,
        joint.cov,
        parts=joint.parts,
        name=model.history.name,
        transform=None if transform.power is None else transform,
        paths=paths,
        mixture=joint.mixture,
    )
    return forecast._made(propagation, partial(model.sample_paths, ahead), str(model))


def fitted_transform(kind: str | None, lower: float, history: History) -> PowerTransform:
    """The nonlinear transform of a history, measured from an origin; checked."""
    transform = PowerTransform(POWERS[kind], lower)
    transform.check(history.y, history.time)
    if kind == "boxcox":
        transform = PowerTransform.fit(history.y, lower)
    levels = transform.forward(history.y)
    spread, size = np.ptp(levels[~np.isnan(levels)]), np.nanmax(np.abs(levels))
    varies = np.nanmin(history.y) < np.nanmax(history.y)
    if transform.power and varies and spread <= _ROUNDOFF * size:
        must = f"be larger for a {kind} transform, after which all its values are the same"
        got = f"{np.nanmax(history.y):g} at most"
        raise refusal("y", f"{must} to 12 digits", got, "Multiply the series by a constant.")
    return transform


def _check_rows(specification: Specification, history: History) -> None:
    """Raise unless a history leaves rows to learn from, and not too many."""
    lags, differences = specification.lags, specification.differences
    check_length(len(history.y), max(lags), differences)
    complete = complete_rows(history.y, lags, differences)
    n, most = int(complete.sum()), specification.regressor.most_rows
    if n < MIN_ROWS:
        of = deep(max(lags), differences)
        must = f"leave at least {MIN_ROWS} complete training rows for {of}"
        got = f"{n} of {len(complete)}, the others touch missing values"
        remedy = "Use fewer lags, or some that miss the gaps: even ones if every other value is "
        raise refusal("y", must, got, f"{remedy}missing.")
    if specification.max_train is None and most is not None and n > most:
        got = f"{n}, of which {type(specification.regressor).__name__} would keep matrices of "
        got += f"{8e-9 * n**2:.2g} GB, at a time that grows with their cube"
        remedy = f"Pass max_train={most} or fewer to learn from the last rows"
        remedy += ", or ReducedRankGPRegressor()." if specification.noise == "process" else "."
        raise refusal("max_train", f"be given for more than {most} training rows", got, remedy)


def _past(specification: Specification, transform: PowerTransform, history: History) -> Past:
    """A history on the scale of the levels; a std s becomes g(y + s) - g(y), finite near y = 0."""
    values, stds = history.y, history.stds
    levels = transform.forward(values)
    if transform.power is not None and stds.any():
        stds = np.where(np.isnan(levels), stds, transform.forward(values + stds) - levels)
    levels = levels - specification.calendar_effects.at(history.index)
    learned, exog = np.ones(len(values), dtype=np.bool_), _explanatory(specification, history.exog)
    first = np.full((len(values) - len(exog), exog.shape[1]), np.nan)  # no row has these
    exog = np.vstack([first, exog])
    return Past(levels, stds, _inputs(specification, exog, history.index), learned)


def _explanatory(specification: Specification, exog: Array) -> Array:
    """Regressors (n, k) as inputs: changes of them, and their lags from 0 on, (n - depth, k l)."""
    changes, most = difference(exog.T, specification.exog_differences).T, specification.exog_lags
    return lagged(changes, most)[most:]


def _inputs(specification: Specification, exog: Array, index: pd.Index[Any]) -> Array:
    """Regressors and inputs from the calendar, (len(index), k)."""
    calendar = calendar_inputs(index, specification.calendar, specification.periods)
    return np.hstack([exog, calendar])


def _standardizing(specification: Specification, past: Past) -> Differencing:
    """The differences of levels, with the shift and scale that standardize them."""
    differencing = Differencing.fit(past.levels, specification.differences)
    if differencing.scale <= _ROUNDOFF * np.nanmax(np.abs(past.levels)):
        got = f"a constant series after differencing at lags {specification.differences}"
        raise refusal("differences", "leave some variation", got, "Take fewer differences.")
    # from their mean, but for a bias that is shrunk, which is a drift to see
    return differencing if specification.regressor.centers else replace(differencing, shift=0.0)


def _noisy_rows(specification: Specification, differencing: Differencing, past: Past) -> NoisyRows:
    """The last complete training rows, with the errors that they share."""
    lags, anchor = specification.lags, specification.anchor
    z = differencing.forward(past.levels)
    X, target = lag_embedding(z, lags, past.exog[len(past.levels) - len(z) :])
    rows = np.flatnonzero(~(np.isnan(X).any(axis=1) | np.isnan(target)))
    most = specification.max_train or specification.regressor.most_rows
    rows = rows[-most:] if most else rows
    X, target = X[rows], target[rows]
    if anchor is not None:
        target = target - X[:, anchor]
    times = len(past.levels) - len(z) + max(lags) + rows
    maps, stds = LevelMap(lags, differencing), past.stds / differencing.scale
    return NoisyRows(X, target, times, maps, anchor, stds)


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
