"""How the arguments of a forecaster and a series become specifications with nothing left open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from sklearn.base import clone

from forecast_unc._random import RandomState
from forecast_unc._typing import Array
from forecast_unc.forecasting.arguments import Arguments, as_lags, is_auto, plain
from forecast_unc.forecasting.averaging import LOOK_AHEAD, MOST_AHEAD, Averaging
from forecast_unc.forecasting.embedding import complete_rows
from forecast_unc.forecasting.members import MemberSpecification
from forecast_unc.forecasting.selection import Candidate, averaging, candidates, smoothed
from forecast_unc.forecasting.smoothing_model import SmoothingSpecification
from forecast_unc.forecasting.specification import (
    LAG_GROUP,
    Calibrate,
    Specification,
    check_length,
)
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.series.calendar import calendar_inputs, check_calendar
from forecast_unc.series.history import History

# The most rows of an exact process where the choice is left open: with 16 lags a fit of 1000 takes
# 3 s, and its cost grows with their cube.
_MOST_EXACT = 2000
# Of a reduced-rank process: rows that its hyper-parameters are learned from, and centers where it
# is one model of several. On daily births and on hours of seven transformers 50 or 200 centers,
# 2000 rows or FITC in the place of the bound were the same within two standard errors.
_SEARCH_ROWS, _CENTERS = 5000, 100
# Weight of exponential smoothing beside a model on lagged values. At origins inside the training
# parts of ten sets the quantile loss is .45 % lower than with 1, standard error .15 over the sets.
# Short series without a season, whose weights are equal, gain nothing (yearly: -.1, -.6, +1.1 %).
_SMOOTHING = 2.0
# Nats in ten steps that a search among several models goes on for: hourly series MASE - 1.3 %,
# standard error .7, in 1.6 times less time than with .01; reduced rank on weekly ones - .3 %, .3.
_TOL = 0.5


@dataclass(frozen=True, eq=False)
class Resolution:
    """The specifications of a series, and how their forecasts are averaged."""

    specifications: tuple[MemberSpecification, ...]
    averaging: Averaging
    periods: tuple[int, ...]
    calibrate: Calibrate
    lower: float = -np.inf
    lower_given: bool = False


def resolve(arguments: Arguments, history: History) -> Resolution:
    """Specifications with nothing left open: one for lags of one's own, else a few to average.

    Parameters
    ----------
    arguments : Arguments
        Checked ones.
    history : History
        The series.

    Returns
    -------
    Resolution

    Raises
    ------
    ValueError
        If the arguments do not suit the series.
    """
    periods, lower = arguments.periods(history), arguments.bound(history)
    check_above(history, lower)
    given = arguments.lower is not None
    origin = lower if np.isfinite(lower) else 0.0
    if not is_auto(arguments.lags):
        specification = replace(_given(arguments, history, periods), origin=origin)
        calibrate = plain(arguments.calibrate, False)
        return Resolution((specification,), Averaging(), periods, calibrate, lower, given)
    n_observed = int((~np.isnan(history.y)).sum())
    found: dict[tuple[str, int | None, str], Specification] = {}
    for candidate in candidates(
        history.y - origin,
        periods,
        arguments.transform is not None,
        history.exog.shape[1] > 0,
        bounded=bool(np.isfinite(lower)),
    ):
        if candidate.rows is None and not _has_reduced_rank(arguments):
            continue
        chosen = _completed(arguments, candidate, history, periods)
        key = chosen.described(), chosen.max_train, repr(chosen.regressor.get_params())
        found.setdefault(key, replace(chosen, origin=origin))
    lagged = _merged(found.values(), history.y)
    by_width, widest = averaging(n_observed, bool(periods))
    smooth = _smoothing(arguments, history, periods, origin, _SMOOTHING if by_width else 1.0)
    season = periods[0] if periods else 0
    look_ahead = int(np.clip(3 * season // 2, LOOK_AHEAD, MOST_AHEAD))
    rule = Averaging(by_width, widest, look_ahead)
    calibrate = plain(arguments.calibrate, arguments.noise == "process")
    return Resolution((*lagged, *smooth), rule, periods, calibrate, lower, given)


def _merged(found: Iterable[Specification], values: Array) -> tuple[Specification, ...]:
    """One of those whose windows hold the same rows, as they are few or gaps leave few."""
    merged: dict[tuple[str, int, str], Specification] = {}
    for one in found:
        key = one.described(), _n_rows(one, values), repr(one.regressor.get_params())
        first = merged.setdefault(key, one)
        if first is not one:
            why = f"{first.why}; for two windows of the same rows"
            merged[key] = replace(first, weight=first.weight + one.weight, why=why)
    return tuple(merged.values())


def _smoothing(
    arguments: Arguments,
    history: History,
    periods: tuple[int, ...],
    origin: float,
    weight: float,
) -> tuple[SmoothingSpecification, ...]:
    """Exponential smoothing, where nothing was given that it cannot have."""
    if unsmoothed(arguments, history, periods):
        return ()
    found = smoothed(history.y - origin, periods)
    given = arguments.transform
    if given != "auto":
        found = (found[0]._replace(transform=given),)
    most = np.inf if arguments.max_train is None else arguments.max_train
    return tuple(
        SmoothingSpecification(
            one.period, one.transform, int(min(most, one.rows)), one.why, origin, weight
        )
        for one in found
    )


def unsmoothed(arguments: Arguments, history: History, periods: tuple[int, ...]) -> list[str]:
    """Why a series whose lags are chosen here has no exponential smoothing.

    Parameters
    ----------
    arguments : Arguments
        Checked ones.
    history : History
        The series.
    periods : tuple of int
        Its seasonal periods.

    Returns
    -------
    list of str
        What it cannot have; empty where it has one.
    """
    names = ("differences", "prior_mean", "calendar")
    given = {
        **{name: not is_auto(getattr(arguments, name)) for name in names},
        "regressor": arguments.regressor is not None,
        "noise": arguments.noise != "process",
        "exog": history.exog.shape[1] > 0,
        "y_std": bool(history.stds.any()),
    }
    several = ["there are several seasons"] if len(periods) > 1 else []
    return [f"{name} was given" for name, is_given in given.items() if is_given] + several


def check_above(history: History, lower: float) -> None:
    """Raise unless no value of a history is below a bound."""
    below = history.y < lower
    if below.any():
        at = int(below.argmax())
        raise ValueError(
            f"lower must be at most every value of y; got {lower:g}, and y is {history.y[at]:g} "
            f"at {history.time(at)}. Take a smaller one, or lower=-np.inf for none."
        )


def _given(arguments: Arguments, history: History, periods: tuple[int, ...]) -> Specification:
    """The one specification of lags of one's own: what else is left open is plain."""
    lags = as_lags("lags", arguments.lags, upto=True)
    differences = tuple(as_lags("differences", plain(arguments.differences, ()), upto=False))
    deepest = lags[-1] if isinstance(lags, range) else max(lags)
    check_length(len(history.y), deepest, differences)  # before a range becomes numbers
    prior_mean = plain(arguments.prior_mean, "zero")
    _check_prior_mean(arguments, prior_mean, lags, periods)
    regressor = arguments.regressor
    why = "as given"
    if regressor is None:
        regressor = GPRegressor(random_state=arguments.random_state)
        n_rows = int(complete_rows(history.y, tuple(lags), differences).sum())
        n_rows = min(n_rows, arguments.max_train or n_rows)
        if n_rows > _MOST_EXACT and arguments.noise == "process":
            regressor = _reduced_rank("weak", 2 * _CENTERS, arguments.random_state)
            why += f"; reduced rank for more than {_MOST_EXACT} rows"
    return Specification(
        regressor=as_kernel_regressor(regressor),
        lags=tuple(lags),
        differences=differences,
        periods=periods,
        transform=plain(arguments.transform, None),
        prior_mean=prior_mean,
        calendar=check_calendar(plain(arguments.calendar, None)),
        max_train=arguments.max_train,
        noise=arguments.noise,
        why=why,
    )


def _completed(
    arguments: Arguments, candidate: Candidate, history: History, periods: tuple[int, ...]
) -> Specification:
    """A candidate of the automatic choice, with what was given in the place of its own."""
    differences = candidate.differences
    if not is_auto(arguments.differences):
        differences = tuple(as_lags("differences", arguments.differences, upto=False))
    prior_mean = plain(arguments.prior_mean, candidate.prior_mean)
    parts = check_calendar(plain(arguments.calendar, candidate.calendar))
    lags = _affordable(candidate.lags, history.y, differences)
    if prior_mean == "seasonal" and periods:
        lags = tuple(sorted({*lags, periods[0]}))
    _check_prior_mean(arguments, prior_mean, lags, periods)
    regressor, why = arguments.regressor, candidate.why
    if regressor is None:
        n_others = history.exog.shape[1]
        n_others += calendar_inputs(history.index[:1], parts, periods).shape[1]
        regressor = GPRegressor(
            prior=candidate.prior,
            bias=candidate.bias if differences == candidate.differences else "free",
            groups=(LAG_GROUP[candidate.lag_weights],) * len(lags) + (2,) * n_others,
            tol=_TOL,
            random_state=arguments.random_state,
        )
        if candidate.rows is None:
            regressor = _reduced_rank(candidate.prior, _CENTERS, arguments.random_state)
            regressor.set_params(tol=_TOL)
            why += f"; reduced rank, {_CENTERS} centers"
    transform = plain(arguments.transform, candidate.transform)
    as_chosen = arguments.regressor is None and (differences, transform, prior_mean) == (
        candidate.differences,
        candidate.transform,
        candidate.prior_mean,
    )
    own_parts = check_calendar(candidate.calendar)
    named = tuple(part if isinstance(part, str) else None for part in parts)  # holidays have none
    if not as_chosen or named != own_parts:
        why += "; but for what was given"
    if "fourier" in own_parts and "fourier" not in named:
        why += ", which leaves out the Fourier terms of the season"
    return Specification(
        regressor=clone(as_kernel_regressor(regressor)),
        lags=lags,
        differences=differences,
        periods=periods,
        transform=transform,
        prior_mean=prior_mean,
        calendar=parts,
        max_train=_most_rows(arguments, candidate),
        noise=arguments.noise,
        why=why,
    )


def _most_rows(arguments: Arguments, candidate: Candidate) -> int | None:
    """The most rows that a candidate learns from: its own, or those given; None for all."""
    if isinstance(arguments.regressor, ReducedRankGPRegressor) or candidate.rows is None:
        return arguments.max_train
    if arguments.regressor is None and _has_reduced_rank(arguments):
        return candidate.rows  # what is given is for those of all rows
    return candidate.rows if arguments.max_train is None else arguments.max_train


def _n_rows(specification: Specification, values: Array) -> int:
    """Rows that a specification learns from."""
    if len(values) <= specification.depth:
        return 0
    complete = complete_rows(values, specification.lags, specification.differences)
    n_rows = int(complete.sum())
    return n_rows if specification.max_train is None else min(n_rows, specification.max_train)


def _has_reduced_rank(arguments: Arguments) -> bool:
    """Whether candidates of all rows may be of reduced rank: exact ones have fewer."""
    if arguments.regressor is None:
        few = arguments.max_train is not None and arguments.max_train <= _MOST_EXACT
        return arguments.noise == "process" and not few
    return isinstance(arguments.regressor, ReducedRankGPRegressor)


def _reduced_rank(
    prior: Literal["weak", "shrunk"], n_support: int, random_state: RandomState
) -> ReducedRankGPRegressor:
    """The default regressor of many rows."""
    return ReducedRankGPRegressor(
        n_support=n_support,
        objective="bound",
        prior=prior,
        search_rows=_SEARCH_ROWS,
        random_state=random_state,
    )


def _check_prior_mean(
    arguments: Arguments, prior_mean: str, lags: Sequence[int], periods: tuple[int, ...]
) -> None:
    """Raise unless the lag that is the prior mean is among the lags."""
    if prior_mean == "seasonal" and not periods:
        raise ValueError(
            "prior_mean must not be 'seasonal' for a series without a season; got one for "
            f"which seasonal_period is {arguments.seasonal_period!r}. Give its period."
        )
    lag = {"zero": None, "last": 1}.get(prior_mean, periods[0] if periods else None)
    if lag is not None and lag not in lags:
        raise ValueError(
            f"lags must hold {lag} for prior_mean={prior_mean!r}; got {arguments.lags!r}. Add it."
        )


def _affordable(
    lags: tuple[int, ...], values: Array, differences: tuple[int, ...]
) -> tuple[int, ...]:
    """The lags without the deepest that gaps in the values leave too few rows to learn from."""
    if not np.isnan(values).any():
        return lags
    while len(lags) > 1:
        enough = min(2 * len(lags) + 10, len(values) // 3)
        if complete_rows(values, lags, differences).sum() >= enough:
            break
        lags = lags[:-1]
    return lags
