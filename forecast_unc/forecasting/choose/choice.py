"""The choice: specifications with nothing left open, from arguments and a series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from forecast_unc._checks import refusal
from forecast_unc._notes import Note
from forecast_unc._typing import Array
from forecast_unc.forecasting.choose.arguments import (
    Arguments,
    calendar_effects_of,
    calendar_inputs_of,
    check_within,
    deepest,
    differences_or,
    given_lags,
    is_auto,
    periods_of,
    value_or,
)
from forecast_unc.forecasting.choose.specification import (
    LEAST_BEYOND,
    LOOK_AHEAD,
    MOST_AHEAD,
    WIDEST,
    Averaging,
    CountSpecification,
    MemberSpecification,
    Rules,
    SmoothingSpecification,
    Specification,
    are_counts,
    check_length,
    longest_lag,
)
from forecast_unc.forecasting.choose.table import MOST_ROWS, PLAIN, Candidate, candidates
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.series.calendar import (
    calendar_inputs,
    check_calendar,
    check_changes,
    check_effects,
    seasonal_periods,
    seasons_within,
)
from forecast_unc.series.clock import steps_a_day
from forecast_unc.series.exog import check_exog_lags
from forecast_unc.series.history import History
from forecast_unc.series.rows import CompleteRows
from forecast_unc.series.seasons import held_twice
from forecast_unc.series.values import check_varies

# The most rows of an exact process where the choice is left open: with 16 lags a fit of 1000 takes
# 3 s, and its cost grows with their cube.
_MOST_EXACT = 2000
# Of a reduced-rank process: rows that its hyper-parameters are learned from, and centers. With 50
# centers or 2000 rows daily births and hours of transformers were the same within two errors.
_SEARCH_ROWS, _CENTERS = 5000, 200
# Weight of exponential smoothing beside a model on lagged values. At origins inside the training
# parts of ten sets the quantile loss is .45 % lower than with 1, standard error .15 over the sets.
_SMOOTHING = 2.0
# Evidence (nats) of a nonlinear function for which each of its models has one vote.
_NATS_A_VOTE = 20.0
# Rows for each effect of a profile: of one row each, effect and noise cannot be told apart.
_ROWS_AN_EFFECT = 1.5
# Nats in ten steps that a search among several models goes on for: hourly series MASE - 1.3 %,
# standard error .7, in 1.6 times less time than with .01; reduced rank on weekly ones - .3 %, .3.
_TOL = 0.5
# Zeros that make 0 a bound: one may be an error, or a difference that happens to be 0.
_FEWEST_ZEROS = 2
# The largest value over the smallest from which 0 is a bound without a zero, too: two orders of
# magnitude; of whole numbers, counts, one. (Choices.)
_ORDERS, _WHOLE_ORDERS = 100.0, 10.0
# Below 0 by less than the largest over so much, and in one value of so many, is rounding: meters of
# turbines read -2.5 of 3,600 kW in 57 of 50,530 values of ten minutes. (Choices.)
_ROUNDING, _RARE = 1000.0, 100
_LEAST_SHARE = 0.1  # the largest of shares is above it: smaller numbers are of another unit
# Rows that regressors need: of walks of 4 values with one that is noise 95 % bands held .52 to .68,
# and without it .93 to .98.
_LEAST_REGRESSED = 5
# Groups of linear weights in GPRegressor; the first is shrunk, the third those of other inputs.
_LAG_GROUP, _OTHERS = {"shrunk": 0, "free": 1, None: -1}, 2


class Choice(NamedTuple):
    """What is fitted to a series, and by which rules its forecasts are made."""

    specifications: tuple[MemberSpecification, ...]  # one for given lags, else a few to average
    rules: Rules
    rows: CompleteRows  # of the series, found on the way


def resolve(arguments: Arguments, history: History) -> Choice:
    """Specifications with nothing left open, from the arguments and the series."""
    periods = periods_of(arguments, history)
    lower = _bound(arguments, history)
    upper = np.inf if arguments.upper is None else float(arguments.upper)
    check_within(history, lower, upper)
    check_exog_lags(arguments.exog_lags, history.exog.shape[1])
    check_changes(history.index, check_calendar(value_or(calendar_inputs_of(arguments), None)))
    rows = CompleteRows(history.y)
    if is_auto(arguments.lags):
        specifications, rules = _automatic(arguments, history, rows, periods, lower)
    else:
        check_varies(history.y)
        one = _as_given(arguments, len(history.y), rows, periods)
        specifications = (replace(one, lower=_measured_from(lower)),)
        rules = Rules(Averaging(), periods, value_or(arguments.calibrate, False))
    check_effects(history.index, calendar_effects_of(arguments))
    given = arguments.lower is not None
    tested = bool(held_twice(history.y, seasonal_periods(history.index)))
    rules = replace(rules, lower=lower, lower_given=given, upper=upper, tested=tested)
    return Choice(specifications, rules, rows)


def resolve_by_clock(arguments: Arguments, history: History) -> tuple[Choice, History]:
    """What `resolve` gives, and the history, by the clock if a lag or a season is a day or more."""
    local = history.by_clock()
    choice = resolve(arguments, local)
    longest = max(map(longest_lag, choice.specifications))
    if local is history or longest >= steps_a_day(history.index):
        return choice, local
    return resolve(arguments, history), history


def _automatic(
    arguments: Arguments,
    history: History,
    rows: CompleteRows,
    periods: tuple[int, ...],
    lower: float,
) -> tuple[tuple[MemberSpecification, ...], Rules]:
    """The specifications to average, from the rows of the table that suit the series."""
    origin = _measured_from(lower)
    otherwise = _otherwise(arguments, history, origin)
    if otherwise is None:
        check_varies(history.y)
    n = int((~np.isnan(history.y)).sum())
    periods = tuple(period for period in periods if n >= period + LEAST_BEYOND)
    not_found: tuple[int, ...] = ()
    if is_auto(arguments.seasonal_period) and not periods:
        not_found = held_twice(history.y, seasonal_periods(history.index)[:1])
    zeros = np.count_nonzero(history.y == 0.0) >= _FEWEST_ZEROS
    whole = bool(lower == 0.0 and zeros and are_counts(history.y))
    regressed = history.exog.shape[1] > 0
    members = [
        _member(arguments, candidate, history, rows, origin)
        for candidate in candidates(
            history.y - origin,
            periods,
            arguments.transform is not None,
            regressed,
            whole
            and not (why_no_smoothing(arguments, history, ()) or calendar_effects_of(arguments))
            and is_auto(arguments.transform),
            not_found,
        )
        if _suits(arguments, candidate, history, periods)
    ]
    if otherwise is not None and regressed:
        members = [
            one
            for one in members
            if not isinstance(one, Specification) or _n_rows(one, rows) >= _LEAST_REGRESSED
        ]
    season = periods[0] if periods else 0
    bends = any(isinstance(one, Specification) and one.bend for one in members)
    look_ahead = int(np.clip(3 * season // 2, LOOK_AHEAD, MOST_AHEAD))
    # A model of counts alone is as wide as its states say.
    counted = all(isinstance(one, CountSpecification) for one in members)
    # Smoothing of zeros alone is narrower than a whole number: rounded it had no variance.
    rules = Rules(
        Averaging(widest=WIDEST, look_ahead=look_ahead, disagreement=True),
        periods,
        value_or(arguments.calibrate, arguments.noise == "process" and not counted),
        whole=whole and bool(counted or np.nanmax(history.y)),
        noise_periods=periods,
        volatile=not bends,  # errors of a line are not noise there
        otherwise=otherwise,
    )
    return _distinct(members, rows), rules


def _suits(
    arguments: Arguments, candidate: Candidate, history: History, periods: tuple[int, ...]
) -> bool:
    """Whether what was given leaves room for a kind of candidate."""
    if candidate.model == "smoothing":
        return not why_no_smoothing(arguments, history, periods)
    if candidate.model == "linear":
        return arguments.regressor is None and arguments.noise == "process"
    return True


def _member(
    arguments: Arguments,
    candidate: Candidate,
    history: History,
    rows: CompleteRows,
    origin: float,
) -> MemberSpecification:
    """The specification of a candidate, after the arguments that were given."""
    regressed = history.exog.shape[1] > 0
    most = min(arguments.max_train or candidate.rows, candidate.rows)
    if candidate.model == "counts":
        without = "; without the regressors" if regressed else ""
        return CountSpecification(most, candidate.why + without)
    if candidate.model == "smoothing":
        return SmoothingSpecification(
            period=max(candidate.periods, default=1),
            transform=value_or(arguments.transform, candidate.transform),
            max_train=most,
            why=candidate.why,
            lower=origin,
            weight=_SMOOTHING,
            effects=calendar_effects_of(arguments),
            exog_lags=arguments.exog_lags if regressed else None,
        )
    if not regressed or arguments.regressor is not None:
        candidate = replace(candidate, exog_as="inputs")
    return replace(_completed(arguments, candidate, history, rows), lower=origin)


def _otherwise(
    arguments: Arguments, history: History, lower: float
) -> SmoothingSpecification | None:
    """Level and trend alone, which need two values, if what excludes them is left open."""
    inputs = calendar_inputs_of(arguments)
    choice = (arguments.lags, arguments.differences, arguments.prior_mean, inputs)
    if not all(map(is_auto, choice)) or arguments.regressor is not None or history.stds.any():
        return None
    transform, most = value_or(arguments.transform, None), arguments.max_train or MOST_ROWS
    why = "level and trend alone: too few values for more, or none that differ"
    why += "; regressors are left out" if history.exog.shape[1] else ""
    return SmoothingSpecification(1, transform, most, why, lower)


def why_no_smoothing(arguments: Arguments, history: History, periods: tuple[int, ...]) -> list[str]:
    """Why a series whose lags are chosen here has no exponential smoothing; empty if it has one."""
    given = {
        "differences": not is_auto(arguments.differences),
        "prior_mean": not is_auto(arguments.prior_mean),
        "calendar": not is_auto(calendar_inputs_of(arguments)),
        "regressor": arguments.regressor is not None,
        "noise": arguments.noise != "process",
        "y_std": bool(history.stds.any()),
    }
    several = ["there are several seasons"] if len(periods) > 1 else []
    return [f"{name} was given" for name, is_given in given.items() if is_given] + several


def _bound(arguments: Arguments, history: History) -> float:
    """The lower bound: that given, or what the values are never below; -inf for none."""
    if arguments.lower is not None:
        return float(arguments.lower)
    reason = never_below(history.y)
    return float(*reason.places) if is_auto(arguments.lags) and reason else -np.inf


def _measured_from(lower: float) -> float:
    """Origin of a transform: the bound, or 0 without one."""
    return lower if np.isfinite(lower) else 0.0


def never_below(y: Array) -> Note:
    """Reason why values are never below 0, or a smallest one near it; empty if there is none."""
    known = y[~np.isnan(y)]
    low, high = known.min(), known.max()
    below, beside = np.count_nonzero(known < 0.0), np.count_nonzero(np.abs(known) <= -low)
    if 0 < _RARE * below <= len(known) and beside >= 2 * below and high > -_ROUNDING * low:
        fact = f"{below} of {len(known):,} values are below 0, by rounding"
        return Note("lower", fact, (float(low),))
    if low < 0.0 or low == high != 0.0:
        return Note("", "")
    if low == 0.0 and np.count_nonzero(known == 0.0) >= _FEWEST_ZEROS:
        return Note("lower", "some values are 0 and none is below", (0.0,))
    if _LEAST_SHARE < high <= 1.0:
        fact = "all lie between 0 and 1, as shares do"
        return Note("shares", fact, (0.0,), "pass upper=1, too")
    if low > 0.0 and high > _ORDERS * low:
        times = f"{high / low:.0f} times the smallest"
        return Note("lower", f"none is below 0, and the largest is {times}", (0.0,))
    if high > _WHOLE_ORDERS * low > 0.0 and (known == np.round(known)).all():
        return Note("lower", "whole numbers, none below 0", (0.0,))
    return Note("", "")


def _as_given(
    arguments: Arguments, n: int, rows: CompleteRows, periods: tuple[int, ...]
) -> Specification:
    """The one specification of given lags for n values: what else is left open is plain."""
    lags, differences = given_lags(arguments)
    check_length(n, deepest(lags), differences)  # before a range becomes numbers
    one = _filled(arguments, PLAIN, tuple(lags), periods)
    many = _n_rows(one, rows) > _MOST_EXACT
    if arguments.regressor is None and many and arguments.noise == "process":
        regressor = ReducedRankGPRegressor(
            n_support=_CENTERS,
            objective="bound",
            prior="weak",
            search_rows=_SEARCH_ROWS,
            random_state=arguments.random_state,
        )
        why = f"{one.why}; reduced rank for more than {_MOST_EXACT} rows"
        return replace(one, regressor=regressor, why=why)
    return one


def _completed(
    arguments: Arguments, candidate: Candidate, history: History, rows: CompleteRows
) -> Specification:
    """A model on lagged values by a candidate, after the arguments that were given."""
    periods = candidate.periods
    prior_mean = value_or(arguments.prior_mean, candidate.prior_mean)
    differences = differences_or(arguments, candidate.differences)
    lags = _affordable(candidate.lags, rows, differences)
    if prior_mean == "seasonal" and periods:
        lags = tuple(sorted({*lags, periods[0]}))
    if candidate.calendar == "profile":
        n_effects = calendar_inputs(history.index[:1], ("profile",), periods).shape[1]
        if rows.count(lags, differences, candidate.rows) < _ROWS_AN_EFFECT * n_effects:
            candidate = replace(candidate, calendar=None)
    one = _filled(arguments, candidate, lags, periods)
    regressor, why = one.regressor, candidate.why
    own = () if candidate.calendar is None else (candidate.calendar,)
    named = tuple(part if isinstance(part, str) else None for part in one.calendar)  # no holidays
    n_others = history.exog.shape[1] * (1 + arguments.exog_lags)
    n_others += calendar_inputs(history.index[:1], one.calendar, periods).shape[1]
    if arguments.regressor is None and candidate.model == "linear":
        groups = (0,) * len(lags) + (1,) * n_others
        if named == own == ("profile",):
            n_within = seasons_within(history.index[:1], periods).shape[1]
            groups, one = (*groups, *(2,) * n_within), replace(one, within=n_within > 0)
        regressor = LinearRegressor(groups=groups, bias=candidate.bias or "shrunk")
    elif arguments.regressor is None:
        regressor = GPRegressor(
            prior=candidate.prior,
            bias=candidate.bias if differences == candidate.differences else "free",
            groups=(_LAG_GROUP[candidate.lag_weights],) * len(lags) + (_OTHERS,) * n_others,
            search_rows=candidate.search_rows,
            tol=_TOL,
            random_state=arguments.random_state,
        )
    as_chosen = arguments.regressor is None and all(
        getattr(one, name) == getattr(candidate, name)
        for name in ("differences", "transform", "prior_mean")
    )
    if not as_chosen or named != own:
        why += "; but for what was given"
    if own and own[0] not in named:
        terms = {"fourier": "Fourier terms", "profile": "profile"}[own[0]]
        why += f", which leaves out the {terms} of the season"
    most = _most_rows(arguments, candidate)
    changes = differences if is_auto(arguments.differences) else ()
    return replace(
        one,
        regressor=regressor,
        max_train=most,
        exog_differences=changes,
        why=why,
        bend=candidate.bend,
        weight=candidate.bend / _NATS_A_VOTE if candidate.bend else 1.0,
    )


def _most_rows(arguments: Arguments, candidate: Candidate) -> int | None:
    """The most rows that a candidate learns from: those given, if they are affordable."""
    given, regressor = arguments.max_train, arguments.regressor
    if isinstance(regressor, ReducedRankGPRegressor):
        return given
    too_many = given is not None and given > _MOST_EXACT and regressor is None
    return candidate.rows if given is None or (too_many and candidate.model != "linear") else given


def _filled(
    arguments: Arguments, candidate: Candidate, lags: tuple[int, ...], periods: tuple[int, ...]
) -> Specification:
    """A candidate after the arguments that were given, with their regressor or a plain process."""
    prior_mean = value_or(arguments.prior_mean, candidate.prior_mean)
    _check_prior_mean(arguments, prior_mean, lags, periods)
    regressor: BaseEstimator = GPRegressor(random_state=arguments.random_state)
    if arguments.regressor is not None:
        regressor = clone(as_kernel_regressor(arguments.regressor))
    return Specification(
        regressor=regressor,
        lags=lags,
        differences=differences_or(arguments, candidate.differences),
        periods=periods,
        transform=value_or(arguments.transform, candidate.transform),
        prior_mean=prior_mean,
        calendar=check_calendar(value_or(calendar_inputs_of(arguments), candidate.calendar)),
        max_train=arguments.max_train,
        noise=arguments.noise,
        exog_lags=arguments.exog_lags,
        exog_as=candidate.exog_as,
        effects=calendar_effects_of(arguments),
        why=candidate.why,
    )


def _distinct(
    members: Iterable[MemberSpecification], rows: CompleteRows
) -> tuple[MemberSpecification, ...]:
    """Without repeats, which what was given can make of different candidates."""
    kept: dict[tuple[Any, ...], MemberSpecification] = {}
    for one in members:
        key: tuple[Any, ...] = (one.described(),)
        if isinstance(one, Specification):
            regressor = repr(one.regressor.get_params() | {"random_state": None})
            key += _n_rows(one, rows), regressor
        kept.setdefault(key, one)
    return tuple(kept.values())


def _n_rows(one: Specification, rows: CompleteRows) -> int:
    """Number of rows that a specification learns from."""
    return rows.count(one.lags, one.differences, one.max_train)


def _check_prior_mean(
    arguments: Arguments, prior_mean: str, lags: Sequence[int], periods: tuple[int, ...]
) -> None:
    """Raise unless the lag that is the prior mean is among the lags."""
    if prior_mean == "seasonal" and not periods:
        must = "not be 'seasonal' for a series without a season"
        got = f"one for which seasonal_period is {arguments.seasonal_period!r}"
        raise refusal("prior_mean", must, got, "Give its period.")
    lag = {"zero": None, "last": 1}.get(prior_mean, periods[0] if periods else None)
    if lag is not None and lag not in lags:
        must = f"hold {lag} for prior_mean={prior_mean!r}"
        raise refusal("lags", must, repr(arguments.lags), "Add it.")


def _affordable(
    lags: tuple[int, ...], rows: CompleteRows, differences: tuple[int, ...]
) -> tuple[int, ...]:
    """The lags without the deepest that gaps in the values leave too few rows to learn from."""
    if not np.isnan(rows.values).any():
        return lags
    while len(lags) > 1:
        enough = min(2 * len(lags) + 10, len(rows.values) // 3)
        if rows.count(lags, differences) >= enough:
            break
        lags = lags[:-1]
    return lags
