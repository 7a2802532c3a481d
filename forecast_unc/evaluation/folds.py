"""The folds of a backtest: where they lie, who runs on them, and what comes of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pandas as pd
from sklearn.base import clone
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from forecast_unc._typing import Array
from forecast_unc.forecasting import scores
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.recursion import PROPAGATIONS
from forecast_unc.forecasting.times import format_time

# The name of the backtested forecaster itself among those it is compared with.
OWN_NAME = "forecast_unc"

# Sample paths of the energy score, 12 ms a forecast of 24 steps. With other seeds its mean over 20
# origins of El Nino moved by 0.6 %; between models it moves less, as all share the same draws.
_N_PATHS = 500

ExogFuture = Callable[[Any, pd.Index], pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame | Array]]
"""The regressors' forecasts, or they and their stds, from an origin for some times."""


class Model(Protocol):
    """What a backtest asks of a model; nothing need be inherited.

    A model with more is given more, by the names of its parameters: ``fit(y, exog)`` and
    ``forecast(steps, exog)`` the regressors, unless its attribute ``takes_exog`` is False;
    ``forecast(..., exog_cov)`` their doubt. With ``apply(y)`` it moves on to the next origin
    without a fit; without, it is fitted at every origin.
    """

    def fit(self, y: pd.Series[Any], /) -> Any:
        """Learn from a series, in place."""
        ...

    def forecast(self, steps: int, /) -> Forecast:
        """Return the forecast of the next steps."""
        ...


@dataclass(frozen=True)
class Fold:
    """An origin, and the regressors that follow it."""

    origin: int  # position of the last observed value
    start: int  # position of the first value of the training window
    exog: pd.DataFrame | None  # regressors after the origin, as known or forecast there
    exog_cov: pd.DataFrame | Array | None


@dataclass(frozen=True)
class Plan:
    """What all folds share."""

    y: pd.Series[float]
    exog: pd.DataFrame | None
    steps: int
    gap: int
    seasonal_period: int
    coverage: tuple[float, ...]


def spaced_origins(n: int, horizon: int, n_origins: int, step: int) -> list[int]:
    """Positions of evenly spaced origins, the last the latest that leaves a horizon."""
    last = n - 1 - horizon
    first = last - (n_origins - 1) * step
    if first < 0:
        raise ValueError(
            f"y must have more than {horizon + (n_origins - 1) * step} values for {n_origins} "
            f"origins, {step} apart, with {horizon} steps after the last; got {n}. Take fewer "
            "origins, or a smaller step."
        )
    return list(range(first, last + 1, step))


def given_origins(index: pd.Index[Any], origins: Any, horizon: int) -> list[int]:
    """Positions of the origins of the user, or an error that names the first bad one."""
    labels = scores.check_several("origins", origins, "times of y", "[time] for one")
    positions = [int(i) for i in index.get_indexer(pd.Index(list(labels)))] if labels else []
    for label, position in zip(labels, positions, strict=True):
        if position < 0:
            raise ValueError(
                f"origins must be times of y; got {label}, which is not. Use y.index[...]."
            )
        if position > len(index) - 1 - horizon:
            raise ValueError(
                f"origins must leave {horizon} values to score; got {label}, with "
                f"{len(index) - 1 - position}. The latest is {format_time(index, -1 - horizon)}."
            )
    if not positions or any(b <= a for a, b in pairwise(positions)):
        raise ValueError(
            f"origins must be ascending times of y, at least one; got {list(labels)}. Sort them."
        )
    return positions


def future_exog(
    exog: pd.DataFrame | None,
    exog_future: ExogFuture | None,
    index: pd.Index[Any],
    origin: int,
    horizon: int,
) -> tuple[pd.DataFrame | None, pd.DataFrame | Array | None]:
    """Regressors after an origin, and their doubt."""
    after = slice(origin + 1, origin + 1 + horizon)
    if exog is None:
        return None, None
    if exog_future is None:
        return exog.iloc[after], None
    future = exog_future(index[origin], index[after])
    mean, cov = future if isinstance(future, tuple) and len(future) == 2 else (future, None)
    if not isinstance(mean, pd.DataFrame):
        raise TypeError(
            "exog_future must return a DataFrame, or a pair of it and its doubt; got "
            f"{type(mean).__name__} for origin {format_time(index, origin)}. Pass the regressors' "
            "forecasts."
        )
    return mean, cov


def contenders(
    forecaster: Model, compare: Mapping[str, Model | str] | None
) -> list[tuple[Model, list[tuple[str, str | None]]]]:
    """Each forecaster with the names and propagations that share its fit."""
    if not _is_model(forecaster):
        raise TypeError(
            f"forecaster must have fit and forecast; got {forecaster!r}. Pass a Forecaster()."
        )
    own: list[tuple[str, str | None]] = [(OWN_NAME, None)]
    others: list[tuple[Model, list[tuple[str, str | None]]]] = []
    for name, model in (compare or {}).items():
        if name == OWN_NAME:
            raise ValueError(
                f"compare must not use the name {OWN_NAME!r}; got it twice. "
                "It is the forecaster itself."
            )
        if isinstance(model, str) and model in PROPAGATIONS:
            if not _takes(forecaster.forecast, "propagation"):
                raise ValueError(
                    f"compare must hold no propagation if the forecaster has none; got {model!r} "
                    f"for {name!r} with {type(forecaster).__name__}. Pass a Forecaster instead."
                )
            own.append((name, model))
        elif not isinstance(model, str) and _is_model(model):
            others.append((model, [(name, None)]))
        else:
            raise ValueError(
                f"compare must hold forecasters or one of {', '.join(PROPAGATIONS)}; got {model!r} "
                f"for {name!r}. Spell the propagation as in Forecaster.forecast; a forecaster has "
                "fit and forecast."
            )
    return [(forecaster, own), *others]


def _is_model(model: object) -> bool:
    return not isinstance(model, type) and all(
        callable(getattr(model, method, None)) for method in ("fit", "forecast")
    )


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    return parameter in signature(function).parameters


def run_block(
    forecaster: Model, names: list[tuple[str, str | None]], folds: list[Fold], plan: Plan
) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rows of the frame and of the joint scores, for folds that share one fit, the first's."""
    fitted: Any = clone(forecaster, safe=False)
    takes_exog = plan.exog is not None and getattr(
        forecaster, "takes_exog", _takes(forecaster.fit, "exog")
    )
    takes_cov = takes_exog and _takes(forecaster.forecast, "exog_cov")
    index, horizon = plan.y.index, plan.gap + plan.steps
    parts = []
    for i, fold in enumerate(folds):
        # Nothing of the series after the origin is visible below this line but for scoring.
        known = slice(fold.start, fold.origin + 1)
        past = plan.y.iloc[known]
        past_exog = {"exog": plan.exog.iloc[known]} if takes_exog and plan.exog is not None else {}
        ahead: dict[str, Any] = {"exog": fold.exog} if takes_exog else {}
        if takes_cov and fold.exog_cov is not None:
            ahead["exog_cov"] = fold.exog_cov
        times = index[fold.origin + 1 : fold.origin + 1 + horizon]
        try:
            with threadpool_limits(1):
                if i == 0:
                    fitted.fit(past, **past_exog)
                    model = fitted
                else:
                    model = fitted.apply(past, **past_exog)
                for name, kind in names:
                    propagation = {"propagation": kind} if kind else {}
                    forecast = model.forecast(horizon, **ahead, **propagation)
                    parts.append(_scored(name, forecast, fold, times, plan, refit=i == 0))
        except Exception as error:
            error.add_note(
                f"while forecasting from origin {format_time(index, fold.origin)} with "
                f"{', '.join(map(repr, (name for name, _ in names)))}"
            )
            raise
    return parts


def _scored(
    name: str, forecast: Forecast, fold: Fold, times: pd.Index[Any], plan: Plan, *, refit: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the frame and of the joint scores of one forecast."""
    if not forecast.index.equals(times):
        raise ValueError(
            f"forecast of {name!r} must be for the {len(times)} times after the origin, "
            f"{format_time(times, 0)} to {format_time(times, -1)}; got {forecast!r}. Keep the "
            "index of y."
        )
    after = plan.y.iloc[fold.origin + 1 : fold.origin + 1 + len(times)]
    actual = np.asarray(after.to_numpy(na_value=np.nan), dtype=np.float64)
    score = forecast.score(pd.Series(actual, times))
    part: dict[str, Any] = {
        "model": name,
        "origin": plan.y.index[fold.origin],
        "step": np.arange(1, len(times) + 1),
        "time": times,
        "actual": actual,
        "mean": forecast.mean.to_numpy(),
        "median": forecast.median.to_numpy(),
        "std": forecast.std.to_numpy(),
    }
    for level in plan.coverage:
        band = forecast.interval(level)
        part[f"lower_{percent(level)}"] = band["lower"].to_numpy()
        part[f"upper_{percent(level)}"] = band["upper"].to_numpy()
    for column in ("crps", "nlpd", "pit"):
        part[column] = score[column].to_numpy()
    past = plan.y.iloc[fold.start : fold.origin + 1]
    part |= {"scale": _scale(past, plan.seasonal_period), "refit": refit}
    # Seeded by the origin: the same draws for every model, other ones at every origin.
    energy = _energy(forecast, actual, plan.gap, seed=fold.origin)
    joint = {key: [part[key]] for key in ("model", "origin", "refit")} | {"energy": [energy]}
    return pd.DataFrame(part).iloc[plan.gap :], pd.DataFrame(joint)


def _scale(past: pd.Series[float], seasonal_period: int) -> float:
    values = past.to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        return scores.naive_scale(values, seasonal_period)
    except ValueError:  # no season in it, or no change over one; the other scores need none
        return np.nan


def _energy(forecast: Forecast, actual: Array, gap: int, seed: int) -> float:
    scored = ~np.isnan(actual)
    scored[:gap] = False
    if not scored.any():
        return np.nan
    try:
        paths = forecast.sample(_N_PATHS, random_state=seed).to_numpy()
    except ValueError:  # a covariance with a negative eigenvalue; the scores by step need none
        return np.nan
    return scores.energy_score(actual[scored], paths[scored].T)


def percent(level: float) -> str:
    """Coverage as it stands in the names of columns: 0.95 as "95"."""
    return f"{100 * level:g}"
