"""The folds of a backtest: where they lie, how a model gets there, and what comes of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions import scores
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation.contenders import Capabilities, Contender
from forecast_unc.series.times import format_time

# Sample paths of the energy score, 12 ms a forecast of 24 steps. With other seeds its mean over 20
# origins of El Nino moved by 0.6 %; between models it moves less, as all share the same draws.
_N_PATHS = 500

ExogFuture = Callable[[Any, pd.Index], pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame | Array]]
"""The regressors' forecasts, or they and their stds, from an origin for some times."""


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
    """Regressors after an origin, and their uncertainty."""
    after = slice(origin + 1, origin + 1 + horizon)
    if exog is None:
        return None, None
    if exog_future is None:
        return exog.iloc[after], None
    future = exog_future(index[origin], index[after])
    mean, cov = future if isinstance(future, tuple) and len(future) == 2 else (future, None)
    if not isinstance(mean, pd.DataFrame):
        raise TypeError(
            "exog_future must return a DataFrame, or a pair of it and its uncertainty; got "
            f"{type(mean).__name__} for origin {format_time(index, origin)}. Pass the regressors' "
            "forecasts."
        )
    return mean, cov


def fit_at(contender: Contender, fold: Fold, plan: Plan, earlier: Any = None) -> Any:
    """The model fitted at the origin of a fold, from what an earlier one has learned if given."""
    with _blamed(contender, fold, plan), blas_threads(0):
        past, exog = _known(contender.can, fold.start, fold, plan)
        if earlier is not None:
            return earlier.refit(past, **exog)
        fitted: Any = clone(contender.model, safe=False)
        fitted.fit(past, **exog)
        return fitted


def run_block(
    contender: Contender, folds: list[Fold], plan: Plan, fitted: Any = None, earlier: Any = None
) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rows of the frame and of the joint scores, for folds that share one fit, the first's.

    It is made here, from an earlier one if given, unless it is given: then it is changed.
    """
    model = fit_at(contender, folds[0], plan, earlier) if fitted is None else fitted
    parts = []
    for previous, fold in zip([None, *folds], folds, strict=False):
        with _blamed(contender, fold, plan), blas_threads(0):
            if previous is not None:
                model = _moved(model, contender, previous, fold, plan)
            for name, forecast in _forecasts(model, contender, fold, plan.gap + plan.steps):
                parts.append(_scored(name, forecast, fold, plan, refit=previous is None))
    return parts


@contextmanager
def _blamed(contender: Contender, fold: Fold, plan: Plan) -> Iterator[None]:
    """Errors with a note on the origin and the model."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"while forecasting from origin {format_time(plan.y.index, fold.origin)} with "
            f"{', '.join(repr(name) for name, _ in contender.names)}"
        )
        raise


def _known(
    can: Capabilities, start: int, fold: Fold, plan: Plan
) -> tuple[pd.Series[float], dict[str, Any]]:
    """Series and regressors from a position to the origin: nothing after it is visible."""
    known = slice(start, fold.origin + 1)
    exog = {"exog": plan.exog.iloc[known]} if can.exog and plan.exog is not None else {}
    return plan.y.iloc[known], exog


def _moved(fitted: Any, contender: Contender, previous: Fold, fold: Fold, plan: Plan) -> Any:
    """The model of the fold before, moved on to the origin of a fold."""
    if contender.can.update:
        past, exog = _known(contender.can, previous.origin + 1, fold, plan)
        fitted.update(past, **exog)
        return fitted
    past, exog = _known(contender.can, fold.start, fold, plan)
    return fitted.apply(past, **exog)


def _forecasts(
    model: Any, contender: Contender, fold: Fold, horizon: int
) -> Iterator[tuple[str, Forecast]]:
    """Forecasts from the origin of a fold by each name of the contender."""
    known = ahead(contender.can, fold)
    for name, kind in contender.names:
        yield name, model.forecast(horizon, **known, **({"propagation": kind} if kind else {}))


def ahead(can: Capabilities, fold: Fold) -> dict[str, Any]:
    """What a model's forecast is given from the origin of a fold."""
    given: dict[str, Any] = {}
    if can.exog and fold.exog is not None:
        given["exog"] = fold.exog
    if can.exog_cov and fold.exog_cov is not None:
        given["exog_cov"] = fold.exog_cov
    return given


def _scored(
    name: str, forecast: Forecast, fold: Fold, plan: Plan, *, refit: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the frame and of the joint scores of one forecast."""
    after = slice(fold.origin + 1, fold.origin + 1 + plan.gap + plan.steps)
    times = plan.y.index[after]
    if not forecast.index.equals(times):
        raise ValueError(
            f"forecast of {name!r} must be for the {len(times)} times after the origin, "
            f"{format_time(times, 0)} to {format_time(times, -1)}; got {forecast!r}. Keep the "
            "index of y."
        )
    actual = np.asarray(plan.y.iloc[after].to_numpy(na_value=np.nan), dtype=np.float64)
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
    n_paths = _N_PATHS if forecast.paths is None else min(_N_PATHS, forecast.paths.shape[1])
    try:
        paths = forecast.sample(n_paths, random_state=seed).to_numpy()
    except ValueError:  # a covariance with a negative eigenvalue; the scores by step need none
        return np.nan
    return scores.energy_score(actual[scored], paths[scored].T)


def percent(level: float) -> str:
    """Coverage as it stands in the names of columns: 0.95 as "95"."""
    return f"{100 * level:g}"
