"""The folds of a backtest: who is compared, where the origins lie, and what comes of each."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from itertools import pairwise
from typing import Any, Protocol, TypeGuard

import numpy as np
import pandas as pd
from sklearn.base import clone

from forecast_unc._checks import check_mapping, check_several, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions import scores
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.horizon.types import PROPAGATIONS
from forecast_unc.series.times import format_time

# The name of the backtested forecaster itself among those it is compared with.
COMPARED = {f"{name} propagation" if name == "naive" else name: name for name in PROPAGATIONS}
"""Propagations by the names that `compare` knows: a naive one is not the naive method."""
OWN_NAME = "forecast_unc"
ExogFuture = Callable[[Any, pd.Index], pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame | Array]]
"""The regressors' forecasts, or they and their stds, from an origin for some times."""


class Model(Protocol):
    """Protocol of the models of a backtest; nothing need be inherited.

    A model with more is given more, by the names of its methods and of their parameters:

    - ``fit(y, exog)`` and ``forecast(steps, exog)``: the regressors, unless its attribute
      ``takes_exog`` is False;
    - ``forecast(..., exog_cov)``: the uncertainty of the future regressors;
    - ``update(y_new)``, which takes in the next values in place, or ``apply(y)``, which returns
      the fitted model at the end of a longer series (with ``exog`` too if ``fit`` takes them):
      the way to the next origin without a fit. A model with neither is fitted at every origin;
    - ``refit(y)``, which returns a new model fitted to another window from what this one has
      learned (with ``exog`` too if ``fit`` takes them): all fits after the first one.
    """

    def fit(self, y: pd.Series[Any], /) -> Any:
        """Learn from a series, in place."""
        ...

    def forecast(self, steps: int, /) -> Forecast:
        """Return the forecast of the next steps."""
        ...


@dataclass(frozen=True)
class Contender:
    """A model, and the names and propagations (None for its own) that share its fit."""

    model: Model
    names: tuple[tuple[str, str | None], ...] = ((OWN_NAME, None),)

    @cached_property
    def can(self) -> set[str]:
        """Abilities of the model beyond ``fit`` and ``forecast``, by the names of `Model`."""
        options = signature(self.model.forecast).parameters
        can = {name for name in ("update", "apply", "refit") if _has(self.model, name)}
        can |= {"propagation"} & set(options)
        if getattr(self.model, "takes_exog", "exog" in signature(self.model.fit).parameters):
            can |= {"exog"} | {"exog_cov"} & set(options)
        return can


def contenders(forecaster: Model, compare: Mapping[str, Model | str] | None) -> list[Contender]:
    """The forecaster and those it is compared with, or an error."""
    if not _is_model(forecaster):
        remedy = "Pass a Forecaster()."
        raise refusal("forecaster", "have fit and forecast", f"{forecaster!r}", remedy, TypeError)
    if compare is not None:
        remedy = 'Pass {"ETS": baselines.ETS()}, for example.'
        check_mapping("compare", compare, "forecasters", remedy)
    own, others = Contender(forecaster), []
    for name, model in (compare or {}).items():
        if name == OWN_NAME:
            remedy = "It is the forecaster itself."
            raise refusal("compare", f"not use the name {OWN_NAME!r}", "it twice", remedy)
        if model == "naive":
            remedy = 'Pass "naive propagation", which forgets the uncertainty of earlier steps, or '
            remedy += "baselines.Naive(), the last value again."
            raise refusal("compare", "say which naive is meant", f"'naive' for {name!r}", remedy)
        if isinstance(model, str) and model in COMPARED:
            if "propagation" not in own.can:
                got = f"{model!r} for {name!r} with {type(forecaster).__name__}"
                must = "hold no propagation if the forecaster has none"
                raise refusal("compare", must, got, "Pass a Forecaster instead.")
            own = replace(own, names=(*own.names, (name, COMPARED[model])))
        elif _is_model(model):
            others.append(Contender(model, ((name, None),)))
        else:
            must = f"hold forecasters or one of {', '.join(COMPARED)}"
            remedy = "A forecaster has fit and forecast, such as baselines.ETS()."
            if isinstance(model, type) and _has(model, "forecast"):
                remedy = f"That is a class, not a forecaster: call it, {model.__name__}()."
            raise refusal("compare", must, f"{model!r} for {name!r}", remedy)
    return [own, *others]


def _is_model(model: object) -> TypeGuard[Model]:
    return not isinstance(model, type) and _has(model, "fit") and _has(model, "forecast")


def _has(model: object, method: str) -> bool:
    return callable(getattr(model, method, None))


@dataclass(frozen=True)
class Fold:
    """An origin, and the regressors that follow it."""

    origin: int  # position of the last observed value
    start: int  # position of the first value of the training window
    exog: pd.DataFrame | None  # regressors after the origin, as known or forecast there
    exog_cov: pd.DataFrame | Array | None

    def ahead(self, contender: Contender) -> dict[str, Any]:
        """The regressors that a model's forecast is given."""
        given = {"exog": self.exog, "exog_cov": self.exog_cov}
        return {k: v for k, v in given.items() if v is not None and k in contender.can}


@dataclass(frozen=True)
class Plan:
    """Data and settings that all folds share, and the run of one."""

    y: pd.Series[float]
    exog: pd.DataFrame | None
    steps: int
    gap: int
    seasonal_period: int
    coverage: tuple[float, ...]

    @property
    def horizon(self) -> int:
        """Steps that are forecast, the first of which, the gap, are not scored."""
        return self.gap + self.steps

    def _after(self, origin: int) -> slice:
        """Positions of the steps that are forecast from an origin."""
        return slice(origin + 1, origin + 1 + self.horizon)

    def fold(self, origin: int, start: int, exog_future: ExogFuture | None = None) -> Fold:
        """The fold of an origin, with the regressors as they are, or as they were forecast."""
        index, after = self.y.index, self._after(origin)
        if exog_future is None:
            return Fold(origin, start, None if self.exog is None else self.exog.iloc[after], None)
        future = exog_future(index[origin], index[after])
        mean, cov = future if isinstance(future, tuple) and len(future) == 2 else (future, None)
        if not isinstance(mean, pd.DataFrame):
            must = "return a DataFrame, or a pair of it and its uncertainty"
            got = f"{type(mean).__name__} for origin {format_time(index, origin)}"
            raise refusal("exog_future", must, got, "Pass the regressors' forecasts.", TypeError)
        return Fold(origin, start, mean, cov)

    def fit(self, contender: Contender, fold: Fold, earlier: Any = None) -> Any:
        """The model fitted at an origin, from what an earlier one has learned if given."""
        with self._at(fold, contender):
            past, exog = self._known(contender, fold.start, fold)
            if earlier is not None:
                return earlier.refit(past, **exog)
            fitted: Any = clone(contender.model, safe=False)
            fitted.fit(past, **exog)
            return fitted

    def block(
        self, contender: Contender, folds: list[Fold], fitted: Any = None, earlier: Any = None
    ) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
        """Rows of the frame and of the joint scores, of one fit, made here or changed."""
        model = self.fit(contender, folds[0], earlier) if fitted is None else fitted
        parts = []
        for previous, fold in zip([None, *folds], folds, strict=False):
            with self._at(fold, contender):
                if previous is not None and "update" in contender.can:
                    past, exog = self._known(contender, previous.origin + 1, fold)
                    model.update(past, **exog)
                elif previous is not None:
                    past, exog = self._known(contender, fold.start, fold)
                    model = model.apply(past, **exog)
                known = fold.ahead(contender)
                for name, kind in contender.names:
                    chosen = {} if kind is None else {"propagation": kind}
                    forecast = model.forecast(self.horizon, **known, **chosen)
                    if not isinstance(forecast, Forecast):
                        must = "hold forecasters whose forecast returns a Forecast"
                        got = f"{type(forecast).__name__} of {name!r}"
                        remedy = "Make one of index, mean and covariance: "
                        remedy += "Forecast(index, mean, cov)."
                        raise refusal("compare", must, got, remedy, TypeError)
                    parts.append(self._scored(name, forecast, fold, refit=previous is None))
        return parts

    @contextmanager
    def _at(self, fold: Fold, contender: Contender) -> Iterator[None]:
        """One BLAS thread, and a note on the origin and the model on errors."""
        try:
            with blas_threads(0):
                yield
        except Exception as error:
            names = ", ".join(repr(name) for name, _ in contender.names)
            origin = format_time(self.y.index, fold.origin)
            error.add_note(f"while forecasting from origin {origin} with {names}")
            raise

    def _known(
        self, contender: Contender, start: int, fold: Fold
    ) -> tuple[pd.Series[float], dict[str, Any]]:
        """Series and regressors from a position to the origin: nothing after it is visible."""
        known = slice(start, fold.origin + 1)
        if self.exog is None or "exog" not in contender.can:
            return self.y.iloc[known], {}
        return self.y.iloc[known], {"exog": self.exog.iloc[known]}

    def _scored(
        self, name: str, forecast: Forecast, fold: Fold, *, refit: bool
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows of the frame and of the joint scores of one forecast."""
        after = self._after(fold.origin)
        times = self.y.index[after]
        if not forecast.index.equals(times):
            first, last = format_time(times, 0), format_time(times, -1)
            must = f"be for the {len(times)} times after the origin, {first} to {last}"
            raise refusal(f"forecast of {name!r}", must, f"{forecast!r}", "Keep the index of y.")
        actual = np.asarray(self.y.iloc[after].to_numpy(na_value=np.nan), dtype=np.float64)
        score = forecast.score(pd.Series(actual, times))
        part: dict[str, Any] = {"model": name, "origin": self.y.index[fold.origin]}
        part |= {"step": np.arange(1, len(times) + 1), "time": times, "actual": actual}
        part |= {key: getattr(forecast, key).to_numpy() for key in ("mean", "median", "std")}
        for level in self.coverage:
            for end, values in forecast.interval(level).items():
                part[f"{end}_{percent(level)}"] = values.to_numpy()
        part |= {key: score[key].to_numpy() for key in ("crps", "nlpd", "pit")}
        past = self.y.iloc[fold.start : fold.origin + 1].to_numpy(np.float64, na_value=np.nan)
        try:
            scale = scores.naive_scale(past, self.seasonal_period)
        except ValueError:  # no season in it, or no change over one; the other scores need none
            scale = np.nan
        part |= {"scale": scale, "refit": refit}
        # Seeded by the origin: the same draws for every model, other ones at every origin.
        energy = _energy(forecast, actual, self.gap, seed=fold.origin)
        joint = {key: [part[key]] for key in ("model", "origin", "refit")} | {"energy": [energy]}
        return pd.DataFrame(part).iloc[self.gap :], pd.DataFrame(joint)


@dataclass(frozen=True)
class Request:
    """Request of a backtest of one series: enough to report it, and to forecast once more."""

    plan: Plan
    own: Contender  # the backtested forecaster, and the propagations that share its fit
    compared: dict[str, str]  # the others, as they print
    folds: list[Fold]
    refit: bool | int
    window: str

    def latest(self) -> tuple[Any, Forecast]:
        """Forecaster and forecast at the end of the series; with regressors at the last origin."""
        fold, plan = self.folds[-1], self.plan
        if plan.exog is None:
            end = len(plan.y) - 1
            start = fold.start + end - fold.origin if self.window == "rolling" else 0
            fold = plan.fold(end, start)
        model = plan.fit(self.own, fold)
        with blas_threads(0):
            return model, model.forecast(plan.horizon, **fold.ahead(self.own))


def positions_of(origins: Any, step: int, index: pd.Index[Any], horizon: int) -> list[int]:
    """Positions of the origins: so many, evenly spaced and as late as can be, or those given."""
    last = len(index) - 1 - horizon
    if isinstance(origins, int | np.integer):
        step = int(step)
        before = (int(origins) - 1) * step
        if last < before:
            must = f"have more than {horizon + before} values for {origins} origins, {step} apart, "
            must += f"with {horizon} steps after the last"
            raise refusal("y", must, f"{len(index)}", "Take fewer origins, or a smaller step.")
        return list(range(last - before, last + 1, step))
    labels = check_several("origins", origins, "times of y", "how many, such as 10, or [time]")
    wrong = [label for label in labels if not isinstance(label, Hashable)]
    if wrong:
        got = reprlib.repr(wrong[0])
        raise refusal("origins", "be times of y", got, "Use y.index[...].", TypeError)
    positions = [int(i) for i in index.get_indexer(pd.Index(list(labels)))] if labels else []
    for label, position in zip(labels, positions, strict=True):
        if position < 0:
            raise refusal("origins", "be times of y", f"{label}, which is not", "Use y.index[...].")
        if position > last:
            latest = f"The latest is {format_time(index, -1 - horizon)}."
            got = f"{label}, with {len(index) - 1 - position}"
            raise refusal("origins", f"leave {horizon} values to score", got, latest)
    if not positions or any(b <= a for a, b in pairwise(positions)):
        must = "be ascending times of y, at least one"
        raise refusal("origins", must, f"{list(labels)}", "Sort them.")
    return positions


def _energy(forecast: Forecast, actual: Array, gap: int, seed: int) -> float:
    """Energy score of the observed steps after a gap; NaN if there are none, or no paths."""
    scored = ~np.isnan(actual)
    scored[:gap] = False
    if not scored.any():
        return np.nan
    # 500 paths, 12 ms a forecast of 24 steps. With other seeds the mean over 20 origins of El Nino
    # moved by 0.6 %; between models it moves less, as all share the same draws.
    n_paths = 500 if forecast.paths is None else min(500, forecast.paths.shape[1])
    try:
        paths = forecast.sample(n_paths, random_state=seed).to_numpy()
    except ValueError:  # a covariance with a negative eigenvalue; the scores by step need none
        return np.nan
    return scores.energy_score(actual[scored], paths[scored].T)


def percent(level: float) -> str:
    """Coverage as it stands in the names of columns: 0.95 as "95"."""
    return f"{100 * level:g}"
