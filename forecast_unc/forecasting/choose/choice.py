"""Specifications with nothing left open, from the arguments of a forecaster and a series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from forecast_unc._checks import first_true, refusal
from forecast_unc._notes import Note
from forecast_unc._typing import Array, Flags
from forecast_unc.forecasting.choose.screen import excursions, gross_outliers, last_shift
from forecast_unc.forecasting.choose.specification import (
    Arguments,
    Calibrate,
    Specification,
    as_lags,
    check_length,
    is_auto,
    value_or,
)
from forecast_unc.forecasting.choose.table import MOST_ROWS, PLAIN, Candidate, candidates
from forecast_unc.forecasting.models.counts import CountSpecification, are_counts
from forecast_unc.forecasting.models.design import complete_rows
from forecast_unc.forecasting.models.effects import (
    NO_EFFECTS,
    NO_EXOG,
    CalendarEffects,
    ExogEffects,
)
from forecast_unc.forecasting.models.lagged import fitted_transform
from forecast_unc.forecasting.models.smoothing import LEAST_BEYOND, SmoothingSpecification
from forecast_unc.forecasting.pool.weights import LOOK_AHEAD, MOST_AHEAD, WIDEST, Averaging
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.series.calendar import (
    HOLIDAYS,
    calendar_inputs,
    check_calendar,
    check_changes,
    effect_inputs,
    seasonal_periods,
)
from forecast_unc.series.exog import check_exog_lags
from forecast_unc.series.history import History
from forecast_unc.series.seasons import held_twice, seasons_in
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
_LEAST_SHARE = 0.1  # the largest of shares is above it: smaller numbers are of another unit
# Rows that regressors need: of walks of 4 values with one that is noise 95 % bands held .52 to .68,
# and without it .93 to .98.
_LEAST_REGRESSED = 5
# Groups of linear weights in GPRegressor; the first is shrunk, the third those of other inputs.
_LAG_GROUP, _OTHERS = {"shrunk": 0, "free": 1, None: -1}, 2

MemberSpecification = Specification | SmoothingSpecification | CountSpecification


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules of averaging, calibration and censoring of the forecasts of a series."""

    averaging: Averaging
    periods: tuple[int, ...]  # seasonal, shortest first
    calibrate: Calibrate  # whether bands are as wide as errors inside the training part say
    lower: float = -np.inf  # the bound at which forecasts are censored
    lower_given: bool = False  # one that was chosen is dropped where a value is below it
    upper: float = np.inf
    whole: bool = False  # forecasts are rounded to whole numbers
    otherwise: MemberSpecification | None = None  # what answers where no specification suits


def resolve(
    arguments: Arguments, history: History
) -> tuple[tuple[MemberSpecification, ...], Rules]:
    """Specifications with nothing left open: one for lags of one's own, else a few to average."""
    periods, lower = _periods(arguments, history), _bound(arguments, history)
    upper = np.inf if arguments.upper is None else float(arguments.upper)
    check_within(history, lower, upper)
    check_exog_lags(arguments.exog_lags, history.exog.shape[1])
    given, measured_from = arguments.lower is not None, lower if np.isfinite(lower) else 0.0
    check_changes(history.index, check_calendar(value_or(arguments._inputs, None)))
    otherwise = _otherwise(arguments, history, measured_from)
    if otherwise is None:
        check_varies(history.y)
    if not is_auto(arguments.lags):
        one = replace(_as_given(arguments, history, periods), lower=measured_from)
        calibrate = value_or(arguments.calibrate, False)
        rules = Rules(Averaging(), periods, calibrate, lower, given, upper)
        return _with_effects([one], arguments, history, rules)
    n = int((~np.isnan(history.y)).sum())
    periods = tuple(period for period in periods if n >= period + LEAST_BEYOND)
    season = periods[0] if periods else 0
    not_found: tuple[int, ...] = ()
    if is_auto(arguments.seasonal_period) and not periods:
        not_found = held_twice(history.y, seasonal_periods(history.index)[:1])
    zeros = np.count_nonzero(history.y == 0.0) >= _FEWEST_ZEROS
    whole = bool(lower == 0.0 and zeros and are_counts(history.y))
    found: list[MemberSpecification] = []
    without = "; without the regressors" if history.exog.shape[1] else ""
    for candidate in candidates(
        history.y - measured_from,
        periods,
        arguments.transform is not None,
        history.exog.shape[1] > 0,
        whole
        and not (why_no_smoothing(arguments, history, ()) or arguments._effects)
        and is_auto(arguments.transform),
        not_found,
    ):
        most = min(arguments.max_train or candidate.rows, candidate.rows)
        if candidate.model == "counts":
            found.append(CountSpecification(most, candidate.why + without))
        elif candidate.model == "smoothing":
            if why_no_smoothing(arguments, history, periods):
                continue
            period, why = max(candidate.periods, default=1), candidate.why
            form = value_or(arguments.transform, candidate.transform)
            own = SmoothingSpecification(period, form, most, why, measured_from, weight=_SMOOTHING)
            found.append(own)
        elif candidate.model == "linear" and (
            arguments.regressor is not None or arguments.noise != "process"
        ):
            continue
        else:
            one = _completed(arguments, candidate, history)
            n_rows = _n_rows(history.y, one.lags, one.differences, one.max_train)
            if otherwise is None or not history.exog.shape[1] or n_rows >= _LEAST_REGRESSED:
                found.append(replace(one, lower=measured_from))
    look_ahead = int(np.clip(3 * season // 2, LOOK_AHEAD, MOST_AHEAD))
    rule = Averaging(True, WIDEST, look_ahead, disagreement=True)
    # A model of counts alone is as wide as its states say.
    counted = all(isinstance(one, CountSpecification) for one in found)
    calibrate = value_or(arguments.calibrate, arguments.noise == "process" and not counted)
    # Smoothing of zeros alone is narrower than a whole number: rounded it had no variance.
    whole = whole and bool(counted or np.nanmax(history.y))
    rules = Rules(rule, periods, calibrate, lower, given, upper, whole, otherwise)
    return _with_effects(_distinct(found, history.y), arguments, history, rules)


def _with_effects(
    found: Iterable[MemberSpecification], arguments: Arguments, history: History, rules: Rules
) -> tuple[tuple[MemberSpecification, ...], Rules]:
    """Specifications with effects on their levels, learned once a transform.

    Those of the calendar for all, those of regressors for smoothing, which has no other inputs.
    """
    words, (index, exog) = arguments._effects, (history.index, history.exog)

    @cache
    def learned(transform: str | None, lower: float) -> tuple[CalendarEffects, ExogEffects]:
        try:
            levels = fitted_transform(transform, lower, history).forward(history.y)
        except ValueError:  # that it does not suit the series is said by the fit
            return NO_EFFECTS, NO_EXOG
        days = CalendarEffects.learn(words, levels, index, rules.periods) if words else NO_EFFECTS
        if not exog.shape[1]:
            return days, NO_EXOG
        levels, lags = levels - days.at(index), arguments.exog_lags
        return days, ExogEffects.learn(levels, index, exog, lags, rules.periods)

    def with_own(one: MemberSpecification) -> MemberSpecification:
        if isinstance(one, CountSpecification):
            return one
        days, of_exog = learned(one.transform, one.lower)
        if isinstance(one, SmoothingSpecification):
            what = "without the regressors"
            if of_exog.weights is not None:
                what = "effects of the regressors are taken out before"
            why = f"{one.why}; {what}" if exog.shape[1] else one.why
            return replace(one, calendar_effects=days, exog_effects=of_exog, why=why)
        return replace(one, calendar_effects=days)

    if not words and not exog.shape[1]:
        return tuple(found), rules
    return tuple(with_own(one) for one in found), rules


def _otherwise(
    arguments: Arguments, history: History, lower: float
) -> SmoothingSpecification | None:
    """Level and trend alone, which need two values, if what excludes them is left open."""
    choice = (arguments.lags, arguments.differences, arguments.prior_mean, arguments._inputs)
    if not all(map(is_auto, choice)) or arguments.regressor is not None or history.stds.any():
        return None
    transform, most = value_or(arguments.transform, None), arguments.max_train or MOST_ROWS
    why = "level and trend alone: too few values for more, or none that differ"
    why += "; regressors are left out" if history.exog.shape[1] else ""
    return SmoothingSpecification(1, transform, most, why, lower)


def without_outliers(arguments: Arguments, history: History) -> History:
    """The history with gross outliers treated as missing, unless they are to be kept.

    None on a holiday or a rare value of a regressor, nor where half of the rows would go with them.
    Where what to fit is left open, excursions of the level are outliers, too.
    """
    if arguments.outliers == "keep":
        return history
    periods = _suggested(arguments, history)
    outliers = gross_outliers(history.given, periods)
    if outliers.any():
        outliers &= ~_unusual(arguments, history)
    found = history.without(outliers)
    if _is_open(arguments, history):
        # not of one value alone, such as zeros, which may be right and are named
        runs = excursions(found.y, min(periods, default=1))
        away = [run for run in runs if np.ptp(found.y[run])]
        for run in away:
            outliers[run] = True
        return history.without(outliers) if away else found
    if is_auto(arguments.lags) or not outliers.any():
        return found
    lags, differences = _given_lags(arguments)
    if _deepest(lags) + sum(differences) >= len(found.y):  # before a range becomes numbers
        return found
    rows = [complete_rows(y, tuple(lags), differences).sum() for y in (found.y, found.given)]
    return found if 2 * rows[0] >= rows[1] else history


def since_last_shift(arguments: Arguments, history: History) -> History:
    """The history from its last gross shift of the level on, where what to fit is left open.

    Of 2,412 series of competitions 5 have one: CRPS without the values before -43 %, error 32.
    """
    if arguments.outliers == "keep" or not _is_open(arguments, history):
        return history
    period = min(_suggested(arguments, history), default=1)
    before = last_shift(history.y, period)
    if before:
        y = history.y.copy()
        for run in excursions(y, period):
            y[run] = np.nan  # the way back from one is no shift
        before = last_shift(y, period)
    return replace(history.part(before), shifted=before) if before else history


def _is_open(arguments: Arguments, history: History) -> bool:
    """Whether lags are left open, and no regressors are given, which may explain a level."""
    return is_auto(arguments.lags) and not history.exog.shape[1]


def why_no_smoothing(arguments: Arguments, history: History, periods: tuple[int, ...]) -> list[str]:
    """Why a series whose lags are chosen here has no exponential smoothing; empty if it has one."""
    given = {
        "differences": not is_auto(arguments.differences),
        "prior_mean": not is_auto(arguments.prior_mean),
        "calendar": not is_auto(arguments._inputs),
        "regressor": arguments.regressor is not None,
        "noise": arguments.noise != "process",
        "y_std": bool(history.stds.any()),
    }
    several = ["there are several seasons"] if len(periods) > 1 else []
    return [f"{name} was given" for name, is_given in given.items() if is_given] + several


def check_within(history: History, lower: float, upper: float) -> None:
    """Raise unless no value of a history is beyond a bound."""
    for name, end, beyond, rule, other, no_bound in (
        ("lower", lower, history.y < lower, "at most", "smaller", "-np.inf"),
        ("upper", upper, history.y > upper, "at least", "larger", "None"),
    ):
        if (at := first_true(beyond)) is not None:
            got = f"{end:g}, and y is {history.y[at]:g} at {history.time(at)}"
            remedy = f"Take a {other} one, or {name}={no_bound} for none."
            raise refusal(name, f"be {rule} every value of y", got, remedy, code=f"{name} of y")


def _periods(arguments: Arguments, history: History) -> tuple[int, ...]:
    """Seasonal periods: those given, or those of the index that the data show."""
    if arguments.seasonal_period is None:
        return ()
    if is_auto(arguments.seasonal_period):
        return seasons_in(history.y, seasonal_periods(history.index))
    return tuple(sorted(set(as_lags("seasonal_period", arguments.seasonal_period, upto=False))))


def _suggested(arguments: Arguments, history: History) -> tuple[int, ...]:
    """Seasonal periods: those given, or all that the index suggests."""
    auto = is_auto(arguments.seasonal_period)
    return seasonal_periods(history.index) if auto else _periods(arguments, history)


def _bound(arguments: Arguments, history: History) -> float:
    """The lower bound: that given, or 0 for what is never negative; -inf for none."""
    if arguments.lower is not None:
        return float(arguments.lower)
    return 0.0 if is_auto(arguments.lags) and never_negative(history.y) else -np.inf


def never_negative(y: Array) -> Note:
    """Reason to treat values as never negative; empty if there is none."""
    known = y[~np.isnan(y)]
    low, high = known.min(), known.max()
    if low < 0.0 or low == high != 0.0:
        return Note("", "")
    if low == 0.0 and np.count_nonzero(known == 0.0) >= _FEWEST_ZEROS:
        return Note("lower", "some values are 0 and none is below")
    if _LEAST_SHARE < high <= 1.0:
        return Note("shares", "all lie between 0 and 1, as shares do", remedy="pass upper=1, too")
    if low > 0.0 and high > _ORDERS * low:
        times = f"{high / low:.0f} times the smallest"
        return Note("lower", f"none is below 0, and the largest is {times}")
    if high > _WHOLE_ORDERS * low > 0.0 and (known == np.round(known)).all():
        return Note("lower", "whole numbers, none below 0")
    return Note("", "")


def _unusual(arguments: Arguments, history: History) -> Flags:
    """Times of a holiday, or of a regressor outside the central 90 % of its values, (n,)."""
    parts = check_calendar(value_or(arguments._inputs, None))
    holidays = tuple(part for part in parts if not isinstance(part, str))
    words = tuple(word for word in arguments._effects if word.startswith(HOLIDAYS))
    days = effect_inputs(history.index, words).values()
    low, high = np.quantile(history.exog, [0.05, 0.95], axis=0)
    rare = (history.exog < low) | (history.exog > high)
    given = calendar_inputs(history.index, holidays, ()).T
    return np.asarray(np.vstack([rare.T, given, *days]).any(axis=0))


def _given_lags(arguments: Arguments) -> tuple[Sequence[int], tuple[int, ...]]:
    """Lags of one's own, which may be a long range, and differences."""
    return as_lags("lags", arguments.lags, upto=True), _differences(arguments, ())


def _differences(arguments: Arguments, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(as_lags("differences", value_or(arguments.differences, otherwise), upto=False))


def _deepest(lags: Sequence[int]) -> int:
    return lags[-1] if isinstance(lags, range) else max(lags)


def _as_given(arguments: Arguments, history: History, periods: tuple[int, ...]) -> Specification:
    """The one specification of lags of one's own: what else is left open is plain."""
    lags, differences = _given_lags(arguments)
    check_length(len(history.y), _deepest(lags), differences)  # before a range becomes numbers
    one = _filled(arguments, PLAIN, tuple(lags), periods)
    n_rows = _n_rows(history.y, one.lags, differences, arguments.max_train)
    if arguments.regressor is None and n_rows > _MOST_EXACT and arguments.noise == "process":
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


def _completed(arguments: Arguments, candidate: Candidate, history: History) -> Specification:
    """A candidate of the automatic choice, with what was given in the place of its own."""
    periods = candidate.periods
    prior_mean = value_or(arguments.prior_mean, candidate.prior_mean)
    differences = _differences(arguments, candidate.differences)
    lags = _affordable(candidate.lags, history.y, differences)
    if prior_mean == "seasonal" and periods:
        lags = tuple(sorted({*lags, periods[0]}))
    if candidate.calendar == "profile":
        n_effects = calendar_inputs(history.index[:1], ("profile",), periods).shape[1]
        if _n_rows(history.y, lags, differences, candidate.rows) < _ROWS_AN_EFFECT * n_effects:
            candidate = replace(candidate, calendar=None)
    one = _filled(arguments, candidate, lags, periods)
    regressor, why = one.regressor, candidate.why
    n_others = history.exog.shape[1] * (1 + arguments.exog_lags)
    n_others += calendar_inputs(history.index[:1], one.calendar, periods).shape[1]
    if arguments.regressor is None and candidate.model == "linear":
        groups = (0,) * len(lags) + (1,) * n_others
        regressor = LinearRegressor(groups=groups, bias=candidate.bias or "shrunk")
    elif arguments.regressor is None:
        regressor = GPRegressor(
            prior=candidate.prior,
            bias=candidate.bias if differences == candidate.differences else "free",
            groups=(_LAG_GROUP[candidate.lag_weights],) * len(lags) + (_OTHERS,) * n_others,
            tol=_TOL,
            random_state=arguments.random_state,
        )
    as_chosen = arguments.regressor is None and all(
        getattr(one, name) == getattr(candidate, name)
        for name in ("differences", "transform", "prior_mean")
    )
    own = () if candidate.calendar is None else (candidate.calendar,)
    named = tuple(part if isinstance(part, str) else None for part in one.calendar)  # no holidays
    if not as_chosen or named != own:
        why += "; but for what was given"
    if own and own[0] not in named:
        terms = {"fourier": "Fourier terms", "profile": "profile"}[own[0]]
        why += f", which leaves out the {terms} of the season"
    most = _most_rows(arguments, candidate)
    changes = differences if is_auto(arguments.differences) else ()
    return replace(one, regressor=regressor, max_train=most, exog_differences=changes, why=why)


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
    """A candidate with what was given in the place of its own, and a regressor of its own."""
    prior_mean = value_or(arguments.prior_mean, candidate.prior_mean)
    _check_prior_mean(arguments, prior_mean, lags, periods)
    regressor: BaseEstimator = GPRegressor(random_state=arguments.random_state)
    if arguments.regressor is not None:
        regressor = clone(as_kernel_regressor(arguments.regressor))
    return Specification(
        regressor=regressor,
        lags=lags,
        differences=_differences(arguments, candidate.differences),
        periods=periods,
        transform=value_or(arguments.transform, candidate.transform),
        prior_mean=prior_mean,
        calendar=check_calendar(value_or(arguments._inputs, candidate.calendar)),
        max_train=arguments.max_train,
        noise=arguments.noise,
        exog_lags=arguments.exog_lags,
        why=candidate.why,
    )


def _distinct(
    found: Iterable[MemberSpecification], values: Array
) -> tuple[MemberSpecification, ...]:
    """Without repeats, which what was given can make of different candidates."""
    kept: dict[tuple[Any, ...], MemberSpecification] = {}
    for one in found:
        key: tuple[Any, ...] = (one.described(),)
        if isinstance(one, Specification):
            n_rows = _n_rows(values, one.lags, one.differences, one.max_train)
            key += n_rows, repr(one.regressor.get_params() | {"random_state": None})
        kept.setdefault(key, one)
    return tuple(kept.values())


def _n_rows(
    values: Array, lags: tuple[int, ...], differences: tuple[int, ...], most: int | None
) -> int:
    """Rows that are learned from."""
    if len(values) <= max(lags) + sum(differences):
        return 0
    n_rows = int(complete_rows(values, lags, differences).sum())
    return n_rows if most is None else min(n_rows, most)


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
