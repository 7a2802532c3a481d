"""Values that no model learns from: gross outliers, excursions, values before a shift."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.forecasting.choose.arguments import (
    Arguments,
    calendar_effects_of,
    calendar_inputs_of,
    deepest,
    given_lags,
    is_auto,
    suggested_periods,
    value_or,
)
from forecast_unc.series.calendar import EFFECTS, calendar_inputs, check_calendar, effect_inputs
from forecast_unc.series.history import History
from forecast_unc.series.rows import complete_rows, interpolated, runs_of


@dataclass(frozen=True)
class _Rule:
    """Limits of an outlier: choices, from pictures of 3,827 series (docs/theory/state.md)."""

    least: int = 12  # observed values, of which fewer say too little of what is usual
    # The most that are outliers: one in twenty values up to three, then one in a hundred. What is
    # more frequent is how the series is.
    few: int = 3
    one_in: int = 20
    rare: int = 100
    tail: int = 10  # the largest tenth of the steps says how far is too far,
    least_tail: int = 5  # at least five of them
    expected: float = 0.02  # steps beyond the limit, on average, of a series with such a tail
    least_index: float = 0.2  # of a tail; that of a bounded distribution, 0, would leave no margin
    alike: float = 3.0  # a scale counts whose tail is up to so many times as heavy as the other's
    near: int = 12  # values on either side, to be `times` the quantile `larger` of their steps
    larger: float = 0.9
    times: float = 4.0
    times_other: float = 2.0  # on the other scale
    at_ends: float = 1.75  # times all this, for the first and the last, with neighbors on one side
    cycles: int = 4  # a season is taken out where the series holds it so many times
    shift: float = 4.0  # times the quantile `unshifted` of other changes is a shift of the level
    unshifted: float = 0.95
    least_shift: int = 8  # steps of such changes at least, whole seasons,
    least_after: int = 24  # and values after one, at least two of these
    near_lags: int = 10  # of such steps on either side, whose quantile counts if it is larger
    away: float = 0.1  # the most of the values that lie in excursions
    least_year: int = 26  # weeks of a year that has excursions of weeks,
    weeks: int = 5  # by medians of so many: at least 3, at most a third of the year
    named: float = 2.5  # times the quantile `unshifted` of other changes from year to year

    def most(self, n: int) -> int:
        """Most outliers among n observed values."""
        if n < self.least:
            return 0
        return max(min(self.few, max(1, n // self.one_in)), n // self.rare)


_RULE = _Rule()


def without_outliers(arguments: Arguments, history: History) -> History:
    """The history with gross outliers treated as missing, unless they are to be kept.

    Values on holidays and at rare values of a regressor are kept, and all are if masking some costs
    half of the rows. Where what to fit is left open, excursions of the level are outliers, too.
    """
    if arguments.outliers == "keep":
        return history
    periods = suggested_periods(arguments, history)
    outliers = gross_outliers(history.given, periods)
    if outliers.any():
        outliers &= ~_unusual(arguments, history)
    masked = history.without(outliers)
    if _is_open(arguments, history):
        runs = excursions(masked.y, min(periods, default=1))
        runs += excursions_of_weeks(masked.y, periods, _RULE.shift)
        # not of one value alone, such as zeros, which may be right and are named
        runs = [run for run in runs if np.ptp(masked.y[run])]
        for run in runs:
            outliers[run] = True
        return history.without(outliers) if runs else masked
    if is_auto(arguments.lags) or not outliers.any():
        return masked
    return masked if _leaves_half_of_the_rows(arguments, masked) else history


def _leaves_half_of_the_rows(arguments: Arguments, masked: History) -> bool:
    """Whether rows of the given lags that touch no outlier are half of all or more."""
    lags, differences = given_lags(arguments)
    if deepest(lags) + sum(differences) >= len(masked.y):  # before a range becomes numbers
        return True
    kept, all_ = (len(complete_rows(y, tuple(lags), differences)) for y in (masked.y, masked.given))
    return 2 * kept >= all_


def since_last_shift(arguments: Arguments, history: History) -> History:
    """The history from its last gross shift of the level on, where what to fit is left open.

    Of 2,412 series of competitions 5 have one: CRPS without the values before -43 %, error 32.
    """
    if arguments.outliers == "keep" or not _is_open(arguments, history):
        return history
    period = min(suggested_periods(arguments, history), default=1)
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


def _unusual(arguments: Arguments, history: History) -> Flags:
    """Times of a holiday, or of a regressor outside the central 90 % of its values, (n,)."""
    parts = check_calendar(value_or(calendar_inputs_of(arguments), None))
    holidays = tuple(part for part in parts if not isinstance(part, str))
    words = tuple(word for word in calendar_effects_of(arguments) if word not in EFFECTS)
    days = effect_inputs(history.index, words).values()
    low, high = np.quantile(history.exog, [0.05, 0.95], axis=0)
    rare = (history.exog < low) | (history.exog > high)
    given = calendar_inputs(history.index, holidays, ()).T
    return np.asarray(np.vstack([rare.T, given, *days]).any(axis=0))


def gross_outliers(y: Array, periods: tuple[int, ...] = ()) -> Flags:
    """Gross outliers (n,) of a series with such seasons; none if too many would be.

    A deviation has to be beyond four times the larger steps nearby, and beyond a limit by Hill's
    (1975) estimate of their tail: docs/theory/state.md has the rule.
    """
    found, most = np.zeros(len(y), dtype=np.bool_), _RULE.most(int((~np.isnan(y)).sum()))
    while found.sum() <= most:
        new = _beyond_limit(np.where(found, np.nan, y), periods)
        if not new.any():
            return found
        found |= new
    return np.zeros(len(y), dtype=np.bool_)


def last_shift(y: Array, period: int) -> int:
    """Number of values before the last gross shift of the level; 0 if there is none.

    All changes over w steps, whole seasons, that lead over it have one sign, and the least of them
    is four times 95 % of the others. After it there are 2 w values or more, and the last
    season, or three values, are still half that change away from those before it.
    """
    w = _whole_seasons(period)
    after = max(2 * w, _RULE.least_after)
    if len(y) < w + after:
        return 0
    changes = y[w:] - y[:-w]
    gaps = np.isnan(changes)
    if gaps.all():
        return 0

    def over(values: Array) -> Array:  # those from y[i] to y[i + w], ...
        return sliding_window_view(values[: len(y) - after], w)

    lowest = over(np.where(gaps, np.inf, changes)).min(axis=1)
    highest = over(np.where(gaps, -np.inf, changes)).max(axis=1)
    least = np.maximum(lowest, -highest)
    least[2 * over(gaps).sum(axis=1) > w] = 0.0
    sizes = np.abs(changes)
    places = np.flatnonzero(least > _RULE.shift * np.nanmedian(sizes))
    last = y[-max(period, 3) :]
    last = last[~np.isnan(last)]
    for i in places[::-1]:
        if last.size and abs(last.mean() - np.nanmean(y[i : i + w])) < 0.5 * least[i]:
            continue
        if least[i] > _RULE.shift * _far(sizes, w, _RULE.unshifted, slice(i, i + w)):
            return int(i) + w
    return 0


def excursions(y: Array, period: int) -> list[slice]:
    """Runs of values far from those whole seasons before and after: the level left, and came back.

    On one of the scales of an outlier they are four times 95 % of the other changes over as many
    steps, and on the other twice; a single value is none. Too many are how the series is.
    """
    y = y.copy()
    lag = _whole_seasons(period)
    most = min(_RULE.most(int((~np.isnan(y)).sum())), _RULE.few)
    away, found = np.zeros(len(y), dtype=np.bool_), list[tuple[int, int]]()
    while 2 * lag + _RULE.least_shift <= len(y) and len(found) <= most:
        run = _excursion(y, lag)
        if run is None:
            if lag > _RULE.away * len(y):
                break
            lag = period * -(-3 * lag // (2 * period))  # for longer ones
        else:
            y[run], away[run] = np.nan, True
            found = runs_of(away)  # of a long one the middle may be found first
    if len(found) > most or away.sum() > _RULE.away * len(y):
        return []
    return [slice(start, stop) for start, stop in found]


def excursions_of_weeks(
    y: Array, periods: tuple[int, ...], times: float = _RULE.named
) -> list[slice]:
    """Runs of weeks that are far from those of the years before and after, as in a lockdown.

    By medians of weeks, or of single values where these have but the year; two other years at least
    agree with each other. Their size is so many times the quantile of other changes of a year.
    """
    block = min(periods) if len(periods) > 1 else 1
    n, year = len(y) // block, round(max(periods, default=1) / block)
    if year < _RULE.least_year or n <= 2 * year:
        return []
    first = len(y) - n * block
    weeks = _medians(y[first:].reshape(n, block))
    scaled, gap = _scales(weeks)[-1], np.full(year, np.nan)
    if np.isnan(scaled).all():
        return []
    changes = scaled[year:] - scaled[:-year]
    changes = _medians_around(changes - _medians_around(changes, year), _RULE.weeks)
    sizes, found = np.concatenate([gap, np.abs(changes)]), list[slice]()
    around = np.concatenate([gap, gap, changes, gap, gap])  # from the year before each, of all
    earlier, before, after, later = (around[i * year : i * year + n] for i in range(4))
    for sign in (1.0, -1.0):
        up, down = sign * before, -sign * after
        away = np.where(np.isnan(down), np.where(np.abs(earlier) < 0.5 * up, up, 0.0), down)
        away = np.where(np.isnan(up), np.where(np.abs(later) < 0.5 * down, down, 0.0), away)
        away = np.fmin(away, np.where(np.isnan(up), np.inf, up))
        for start, stop in runs_of(away > _RULE.named * np.nanmedian(sizes)):
            others, half = sizes.copy(), _RULE.weeks // 2
            for ago in (0, year):
                others[max(start + ago - half, 0) : stop + ago + half] = np.nan
            limit = times * _quantile(others, _RULE.unshifted, year // 2)
            is_far = 0.0 < limit < np.median(away[start:stop])
            if is_far and 3 <= stop - start <= year // 3 and stop < n:
                found.append(slice(first + start * block, first + stop * block))
    return found if len(found) <= _RULE.few else []


def _medians_around(x: Array, width: int) -> Array:
    """Medians of the known values among so many around each, an odd number."""
    padded = np.pad(x, width // 2, constant_values=np.nan)
    return _medians(sliding_window_view(padded, 2 * (width // 2) + 1))


def _medians(rows: Array) -> Array:
    """Medians of the known values of each row; NaN where there is none."""
    ordered, known = np.sort(rows, axis=1), (~np.isnan(rows)).sum(axis=1)  # NaN come last
    middle = np.array([(known - 1) // 2, known // 2]).T
    return np.asarray(np.take_along_axis(ordered, middle, axis=1).mean(axis=1))


def _far(sizes: Array, lag: int, quantile: float, *runs: slice) -> float:
    """Quantile of the sizes of changes outside runs, or of those nearby if they are larger.

    So a volatile time has larger limits. Infinite if few are known.
    """
    others = sizes.copy()
    for run in runs:
        others[run] = np.nan
    far = _quantile(others, quantile, lag)
    if runs:
        near = _RULE.near_lags * lag
        around = others[max(runs[0].start - near, 0) : runs[-1].stop + near]
        far = np.fmax(far, _quantile(around, quantile, near // 2))
    return far if far > 0.0 else np.inf


def _quantile(sizes: Array, quantile: float, least: int) -> float:
    """Quantile of the known sizes; NaN if they are fewer than the least."""
    known = sizes[~np.isnan(sizes)]
    if len(known) < least:
        return np.nan
    place = int(quantile * (len(known) - 1))
    return float(np.partition(known, place)[place])


def _whole_seasons(period: int) -> int:
    return period * -(-_RULE.least_shift // period)


class _Sides:
    """How far the values of a view lie from those so many steps before and after."""

    def __init__(self, view: Array, lag: int) -> None:
        ends = np.full(lag, np.nan)
        changes = view[lag:] - view[:-lag]
        self.lag, self.changes = lag, np.abs(changes)
        self.sides = np.array([np.append(ends, changes), np.append(-changes, ends)])
        # distance above both sides, or the one that is known, and below, (2, n)
        self.away = np.array([np.fmin(*self.sides), -np.fmax(*self.sides)])

    def far(self, quantile: float, run: slice | None = None) -> float:
        """Quantile of the sizes of changes outside a run; infinite if few are left."""
        back = [] if run is None else [max(end - self.lag, 0) for end in (run.start, run.stop)]
        runs = [] if run is None else [slice(*back), run]
        return _far(self.changes, self.lag, quantile, *runs)

    def known_sides(self, run: slice) -> int:
        """Sides of a run that are known: 2; 1 if as many values beyond it, from three on, are near.

        That is less than half as far from the same side as the run.
        """
        before, after = np.abs(self.sides)
        both = [not np.isnan(side[run]).any() for side in (before, after)]
        if all(both):
            return 2
        m = max(3, run.stop - run.start)
        if both[0]:
            beyond, least = before[run.stop : run.stop + m], before[run].min()
        else:
            beyond, least = after[max(run.start - m, 0) : run.start], after[run].min()
        return int(any(both) and len(beyond) == m and bool((beyond < 0.5 * least).all()))


def _excursion(y: Array, lag: int) -> slice | None:
    """The first excursion of up to `lag` steps; those seen from both sides go first."""
    views, found = [_Sides(view, lag) for view in _scales(y)], dict[int, slice]()
    # no more than the quantile of all changes but those of an excursion
    low = max(_RULE.unshifted - 2.0 * lag / len(y), 0.0)
    gross = _gross([one.away / one.far(low) for one in views])
    for sign in np.flatnonzero(gross.any(axis=1)):
        for start, stop in runs_of(gross[sign]):
            run = slice(start, stop)
            far = [one.away[sign, run] / one.far(_RULE.unshifted, run) for one in views]
            for first, last in runs_of(_gross(far)):
                inner = slice(start + first, start + last)
                if 1 < last - first <= lag:
                    found.setdefault(min(one.known_sides(inner) for one in views), inner)
    return found.get(2, found.get(1))


def _gross(ratios: list[Array]) -> Flags:
    """Beyond one limit on some scale, and beyond another on all."""
    one, all_ = np.max(ratios, axis=0) > _RULE.shift, np.min(ratios, axis=0) > _RULE.times_other
    return np.asarray(one & all_)


def _scales(y: Array) -> list[Array]:
    """The values, and their logarithms where there are such."""
    known = y[~np.isnan(y)]
    zeros = np.count_nonzero(known == 0.0)
    if not known.size or known.min() < 0.0 or zeros > _RULE.most(len(known)):
        return [y]
    # a few zeros among positive values are as far out as the smallest numbers
    return [y, np.log(np.where(y == 0.0, np.finfo(np.float64).tiny, y))]


class _Seen(NamedTuple):
    """The n observed values on one scale."""

    deviations: Array  # (n,)
    steps: Array  # (2, n), forwards and backwards; NaN where none leads to a value
    limits: Array  # (n,)
    heaviness: float  # the limit over the median step

    def stands_out(self, i: int, times: float) -> bool:
        """Whether a deviation is so many times the larger steps nearby."""
        first = max(i - _RULE.near, 0)
        near = np.delete(self.steps[:, first : i + _RULE.near + 1], i - first, axis=1)
        return bool(self.deviations[i] > times * np.nanquantile(near, _RULE.larger))


def _beyond_limit(y: Array, periods: tuple[int, ...]) -> Flags:
    """Values (n,) that stand out on every scale, and beyond the limit on one with a light tail."""
    observed, outliers = np.flatnonzero(~np.isnan(y)), np.zeros(len(y), dtype=np.bool_)
    if not _RULE.most(len(observed)):
        return outliers
    scales = [_seen(scaled, observed, periods) for scaled in _scales(y)]
    lightest = min(scale.heaviness for scale in scales)
    for scale in scales:
        if scale.heaviness > _RULE.alike * lightest:
            continue
        for i in np.flatnonzero(scale.deviations > scale.limits).tolist():
            stricter = _RULE.at_ends if i in (0, len(observed) - 1) else 1.0
            on_all = all(other.stands_out(i, _RULE.times_other * stricter) for other in scales)
            outliers[observed[i]] |= on_all and scale.stands_out(i, _RULE.times * stricter)
    return outliers


def _seen(y: Array, t: Positions, periods: tuple[int, ...]) -> _Seen:
    """Deviations and steps of the values observed at t, and the limit of the deviations."""
    y, t = y[t[0] : t[-1] + 1], t - t[0]  # what is missing at an end would repeat its neighbour
    filled = interpolated(y)
    around = filled - _level(filled, max(periods, default=1))
    whole = [period for period in periods if len(t) >= _RULE.cycles * period]
    views = [filled[t]] + [(around - _season(around, period))[t] for period in whole]
    deviations, steps = min(
        (_beside_neighbors(view) for view in views), key=lambda one: np.nanmedian(one[1])
    )
    around[np.isnan(y)] = np.nan
    back = {period + j for period in periods for j in (-1, 0, 1)}
    for ago in (one for one in back if one < len(around)):
        change, beyond = np.abs(around[ago:] - around[:-ago]), np.full(ago, np.inf)
        away = np.fmin(np.append(beyond, change), np.append(change, beyond))
        deviations = np.fmin(deviations, away[t])
    most = _RULE.most(len(t))
    limit, heaviness = _limit(steps[:, 1:-1].min(axis=0), most)
    limits = np.full(len(t), limit)
    limits[[0, -1]] = _RULE.at_ends * _limit(steps[~np.isnan(steps)], 2 * most)[0]
    return _Seen(deviations, steps, limits, heaviness)


def _limit(steps: Array, most: int) -> tuple[float, float]:
    """Reach of the tail of all but the largest steps, and heaviness; inf if under six are not 0."""
    rest = np.sort(steps)[::-1][most:]
    others = int((rest > 0.0).sum()) - 1
    if others < _RULE.least_tail:
        return np.inf, np.inf
    size = min(max(_RULE.least_tail, len(rest) // _RULE.tail), others)
    index = max(np.log(rest[:size] / rest[size]).mean(), _RULE.least_index)
    index *= 1.0 + 1.0 / np.sqrt(size)  # Hill's estimate has a standard error of index / sqrt(size)
    limit = float(rest[size] * (size / _RULE.expected) ** index)
    return limit, limit / float(np.median(rest) or rest[size])


def _beside_neighbors(x: Array) -> tuple[Array, Array]:
    """Deviations from the range of both sides' medians (n,), and steps from either side (2, n).

    A side is the three values before or after; a step is from its median or its nearest value,
    whichever is closer. An end has one side: its deviation is the step from there.
    """
    before, after = _medians_before(x), _medians_before(x[::-1])[::-1]
    deviations = np.fmax(np.fmin(before, after) - x, x - np.fmax(before, after)).clip(0.0)
    steps = np.abs([x - before, x - after])
    change = np.abs(np.diff(x))
    steps[0, 1:] = np.fmin(steps[0, 1:], change)
    steps[1, :-1] = np.fmin(steps[1, :-1], change)
    deviations[0], deviations[-1] = steps[1, 0], steps[0, -1]
    return deviations, steps


def _medians_before(x: Array) -> Array:
    """Median of the three values before each, of fewer the first; NaN where there is none."""
    medians = np.median(sliding_window_view(x[:-1], 3), axis=1)
    return np.concatenate([[np.nan, x[0], x[0]], medians])


def _level(x: Array, width: int) -> Array:
    """Moving mean, about a width wide, of medians of five."""
    # reflected, as an outlier at the end would be three of its five otherwise
    padded = np.pad(x, 2, mode="reflect")
    clean = np.median(sliding_window_view(padded, 5), axis=1)
    total, i = np.concatenate([[0.0], np.cumsum(clean)]), np.arange(len(x))
    first, last = np.maximum(i - width // 2, 0), np.minimum(i + width // 2 + 1, len(x))
    return np.asarray((total[last] - total[first]) / (last - first))


def _season(around: Array, period: int) -> Array:
    """Median of each season over the whole cycles, at all times."""
    whole = len(around) // period
    cycle = np.median(around[: whole * period].reshape(whole, period), axis=0)
    return np.resize(cycle, len(around))
