"""What is left "auto": the few specifications that suit a series, and why.

One specification is never best everywhere, and choosing one by its evidence picked
disasters (log differences on weekly data). The average of a few different ones, levels
and differences, with and without a logarithm, was better than each of them nearly
everywhere. The figures are in docs/benchmarks/all.md.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.distributions.power import PowerTransform

# Figures where one is on record; the others are choices, which keep the frequencies apart.

# Fewer values than this support no autoregression without a season (a choice: yearly series).
FEW = 60
# Seasons from this many steps have enough rows to be learned as levels, and those of a day or
# longer enough to be learned from lags (a choice: quarters, months and weeks, hours).
_SHORT_SEASON, _DAY = 7, 24
# Seasons from this many steps are learned from the lag of a season ago too (a choice: minutes).
_LONG_SEASON = 100
# The most rows of an exact process here: its cost grows with their cube.
_MOST = 800
# Rows of the long window of days and months and of the short one of several seasons, and those of
# the short window of days and months. Recent rows beside all took the MSIS of weekly series from
# 14.5 to 13.1; six years of months are a choice.
_MANY, _RECENT = 400, 72
# All rows count where there are so many times as many as the others learn from (a choice).
_LONG = 2
# A season counts unless the autocorrelation at it is below so many standard errors: on M3 monthly
# MASE .83, where a season that is missed costs .05.
_SEASONAL_SIGNIFICANCE = -1.0
# Or if the mean square of the changes over it is below so many variances and the series holds it
# twice: 431 series of M3, M4, tourism, hospitals and NN5, cut after 2.2 to 2.8 cycles, MASE .58 of
# what it was without the season, of those between 1 and 1.5 variances .81, error .03, of 62 in
# reserve .74 (before levels of the cycles, with which 64 of 638 are no more found). Of random walks
# 9 % pass with two cycles, 3 % with almost three.
_PLAIN = 1.5
# Or if the series holds it so many times, and its power there is so many times that of so many
# cycles more or fewer: the .001 of an F(2, 12). On 1118 series of M3, M4, tourism and NN5 nothing
# was found that the changes did not show, in 600 of white noise and random walks nothing at all.
_CYCLES, _STANDS_OUT, _BESIDE = 8, 13.0, np.array([-4, -3, -2, 2, 3, 4])
# Values with zeros have a candidate of square roots where the likelihood takes a power nearer to a
# logarithm, which zeros do not have. 22 monthly tourism series, 4 origins: MASE - .040, standard
# error .014, CRPS - 1.7 %, .5, MSIS - 4.3 %, 2.2, coverage of 95 % from .897 to .920. With powers
# above 1/2, 36 daily series of NN5: MASE + .022, .008, CRPS + 1.2 %, .5.
_MOST_ROOT = 0.5


@dataclass(frozen=True)
class Candidate:
    """A specification for a series, and the Gaussian process that suits it.

    Parameters
    ----------
    lags : tuple of int
        Past values used as inputs.
    differences : tuple of int
        Lags of the differences taken first.
    transform : {None, "log", "sqrt", "boxcox"}
        Nonlinear transform of the values.
    prior_mean : {"zero", "last", "seasonal"}
        What the regressor learns the deviation from.
    calendar : {None, "fourier"}
        Inputs from the calendar.
    prior : {"weak", "shrunk"}
        Prior of the default regressor.
    lag_weights : {"shrunk", "free", None}
        Linear weights of the lags under the default regressor's prior; those of other inputs
        are free.
    bias : {"free", "shrunk", None}
        Bias of the default regressor; in differences it is a drift.
    why : str
        The reason, a few words.
    rows : int or None
        The most training rows; None for all of them, of a reduced-rank process.
    """

    lags: tuple[int, ...]
    differences: tuple[int, ...]
    transform: Literal["log", "sqrt", "boxcox"] | None
    prior_mean: Literal["zero", "last", "seasonal"]
    calendar: Literal["fourier"] | None
    prior: Literal["weak", "shrunk"]
    lag_weights: Literal["shrunk", "free"] | None
    bias: Literal["free", "shrunk"] | None
    why: str
    rows: int | None = _MOST


def seasons_in(y: Array, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the periods that the data show, shortest first.

    A period counts if the series holds it three times (twice, if it has a shorter one as well) and
    its changes are not negatively correlated at it by more than a standard error: to miss a season
    costs more than to look for one that is not there (M3 monthly, MASE .883 and .83). Or if the
    series holds it twice and repeats plainly. Or if it holds it eight times, and its power there
    stands out: a smooth year is hardly seen in the changes of noisy days.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The series, NaN where missing.
    periods : tuple of int
        Periods that the frequency suggests.

    Returns
    -------
    tuple of int
    """
    n = int((~np.isnan(y)).sum())
    changes = np.diff(y)
    if np.isnan(changes).all():
        return ()
    changes = changes - np.nanmean(changes)
    found: list[int] = []
    for period in sorted(periods):
        plain = 2 * period <= n < 3 * period and _repeats(y, period)
        if not plain and n < (2 if found else 3) * period:
            continue
        product = changes[period:] * changes[:-period]
        pairs = int((~np.isnan(product)).sum())
        scale = np.nanmean(changes**2)
        benefit = pairs and np.nanmean(product) > _SEASONAL_SIGNIFICANCE * scale / np.sqrt(pairs)
        if plain or benefit or (n >= _CYCLES * period and _stands_out(y, period)):
            found.append(period)
    return tuple(found)


def _repeats(y: Array, period: int) -> bool:
    """Whether a season is plain when it has been seen but twice.

    Without their straight line values are about as near to those a season ago as to their mean: the
    mean square of the changes is below 1.5 variances, where that of white noise is two. And so with
    a level for each cycle: a shift of the level between two of them is no season.
    """
    n, t = len(y), np.flatnonzero(~np.isnan(y))
    cycle = (n - 1 - t) // period  # the last one is whole
    line = np.column_stack([np.ones(len(t)), t])
    levels = np.column_stack([cycle[:, None] == np.unique(cycle), t]).astype(np.float64)
    for design in (line, levels):
        rest = np.full(n, np.nan)
        rest[t] = y[t] - design @ np.linalg.lstsq(design, y[t], rcond=None)[0]
        change = rest[period:] - rest[:-period]
        if np.isnan(change).all() or np.nanmean(change**2) >= _PLAIN * np.nanvar(rest):
            return False
    return True


def _stands_out(y: Array, period: int) -> bool:
    """Whether the power at a period is above that at the frequencies beside it, as an F(2, 12)."""
    t = np.flatnonzero(~np.isnan(y))
    level = y[t] - np.polyval(np.polyfit(t, y[t], 1), t)
    cycles = len(y) / period + np.concatenate([[0], _BESIDE])
    power = [abs(np.exp(-2j * np.pi * count / len(y) * t) @ level) ** 2 for count in cycles]
    return bool(power[0] > _STANDS_OUT * np.mean(power[1:]))


def lags_for(n: int, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Recent lags, and those around the seasons, no deeper than a third of the data.

    Parameters
    ----------
    n : int
        Number of observed values.
    periods : tuple of int
        Seasonal periods, shortest first.

    Returns
    -------
    tuple of int
    """
    if not periods:
        return (1,) if n < FEW else tuple(range(1, 13))
    first = periods[0]
    if first <= 13:
        lags = set(range(1, first + 2))
    else:
        lags = set(range(1, 5 if len(periods) > 1 else 9)) | {first - 1, first, first + 1}
    for longer in periods[1:]:
        lags |= {2 * first - 1, 2 * first, 2 * first + 1}
        lags |= {longer - first - 1, longer - first, longer - 1, longer, longer + 1}
    return tuple(sorted(lag for lag in lags if lag == 1 or 1 < lag <= n / 3))


def candidates(
    y: Array,
    periods: tuple[int, ...],
    transform: bool = True,
    regressors: bool = False,
    bounded: bool = False,
) -> tuple[Candidate, ...]:
    """The candidates to average for a series, simplest first.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The series, NaN where missing.
    periods : tuple of int
        Its seasonal periods, shortest first.
    transform : bool, default=True
        Whether there may be one; then positive values have specifications with a logarithm.
    regressors : bool, default=False
        Whether there are any. They belong to the levels: of the changes they explain little.
    bounded : bool, default=False
        Whether 0 is a bound of the values; then those with zeros may have square roots.

    Returns
    -------
    tuple of Candidate
    """
    n = int((~np.isnan(y)).sum())
    log: Literal["log"] | None = "log" if transform and np.nanmin(y, initial=np.inf) > 0 else None
    kinds = _kinds(n, periods, log)
    if transform and bounded and len(periods) == 1 and _takes_roots(y, periods[0]):
        why = "changes of square roots, which zeros have, without a drift"
        kinds = kinds._replace(
            relative=(replace(kinds.changes, transform="sqrt", bias=None, why=why),)
        )
    if regressors:
        raw = replace(kinds.levels, transform=None, why="levels, which the regressors explain")
        recent: tuple[Candidate, ...] = (raw, kinds.levels) if log else (raw,)
    else:
        recent = _recent(n, periods, kinds)
    most = max(kind.rows for kind in recent if kind.rows is not None)
    return recent if n <= _LONG * most else (*recent, *_whole(n, periods, kinds, regressors))


def _takes_roots(y: Array, period: int) -> bool:
    """Whether a series with zeros has square roots: of weeks and years alone."""
    above = y[y > 0]
    zeros = np.nanmin(y) == 0 and len(above) > 0 and above.min() < above.max()
    if not zeros or not _SHORT_SEASON <= period < _DAY:  # others were not measured
        return False
    power = PowerTransform.fit(y).power
    return power is not None and power < _MOST_ROOT


class _Kinds(NamedTuple):
    """What candidates are made of."""

    steady: Candidate
    changes: Candidate
    relative: tuple[Candidate, ...]  # empty where there is no logarithm
    levels: Candidate
    seasonal: Candidate
    last: Candidate
    log: Literal["log"] | None  # the transform of positive values


def _kinds(n: int, periods: tuple[int, ...], log: Literal["log"] | None) -> _Kinds:
    """The kinds of candidates for n observed values."""
    changes = Candidate(
        lags=lags_for(n, periods),
        differences=(1,),
        transform=None,
        prior_mean="zero",
        calendar="fourier" if periods else None,
        prior="shrunk",
        lag_weights="shrunk",
        bias="shrunk",
        why="changes, with a drift as large as the data support",
    )
    on_season = " on the season" if periods else ""
    steady = replace(
        changes,
        lags=(1,),
        lag_weights=None,
        why=f"a random walk{on_season}, with a drift as large as the data support",
    )
    why = "relative changes, without a term for a drift, which would grow exponentially"
    relative = (replace(changes, transform=log, bias=None, why=why),) if log else ()
    levels = replace(
        changes,
        differences=(),
        transform=log,
        lag_weights="free",
        bias="free",
        why="levels, which return to where they were",
    )
    seasonal = replace(
        levels,
        prior_mean="seasonal",
        calendar=None,
        lag_weights="shrunk",
        bias="shrunk",
        why="the change from a season ago",
    )
    last = replace(seasonal, prior_mean="last", why="the change from the last value")
    return _Kinds(steady, changes, relative, levels, seasonal, last, log)


def _recent(n: int, periods: tuple[int, ...], kinds: _Kinds) -> tuple[Candidate, ...]:
    """The candidates that learn from the last rows."""
    steady, changes, relative, levels, seasonal, last, log = kinds
    if len(periods) > 1:
        near = {1, 2} | {period + j for period in periods for j in (0, 1)}
        lags = tuple(lag for lag in levels.lags if lag in near)
        several = (seasonal, replace(levels, lags=lags), replace(levels, prior="weak"))
        return (*several, replace(seasonal, rows=_MANY)) if n > _MANY else several
    if not periods and n < FEW:
        return (steady, *(replace(kind, lags=(1, 2)) for kind in relative or (last,)))
    if not periods:
        return (steady, *(relative or (changes,)), levels, last)
    if periods[0] < _SHORT_SEASON:
        steady = replace(steady, transform=log, bias=None, why="the season, moved up or down")
        changes = replace(changes, bias=None, why="changes, without a drift")
        recent = 6 * periods[0]
        lately = tuple(replace(kind, rows=recent) for kind in relative if n > recent)
        return (steady, changes, *relative, *lately, seasonal)
    if periods[0] < _DAY:
        moving = (steady, changes, *relative, levels)
        if n <= _RECENT:
            return _learned_from(moving, _MANY)
        return (*_learned_from((steady, levels), _MANY), *_learned_from(moving, _RECENT))
    # A long season, of which little is seen: weeks of a year. But for one its kinds take it from
    # the lags alone.
    plain = replace(changes, calendar=None, why="changes, the season from the lags alone")
    relative = tuple(replace(kind, calendar=None) for kind in relative)
    levels = replace(levels, transform=None, calendar=None)
    beyond = (seasonal,) if periods[0] >= _LONG_SEASON else ()
    kinds_of_weeks = (plain, changes, *relative, levels, *beyond)
    return _windows(kinds_of_weeks, n, 4 * periods[0], 2 * periods[0])


def _whole(
    n: int, periods: tuple[int, ...], kinds: _Kinds, regressors: bool
) -> tuple[Candidate, ...]:
    """The candidates that learn from all rows of a long series.

    Beside the others they took the MASE of daily, hourly, half-hourly and weekly series down by 14,
    4 and 15, 16 and 3 %; what is learned in levels without a logarithm can run away.
    """
    levels = replace(kinds.levels, rows=None)
    changes = replace(kinds.changes, rows=None, why="changes, with their mean for a drift")
    if not periods:
        return (levels,) if regressors else (levels, replace(kinds.last, rows=None))
    if len(periods) == 1:
        return (levels,) if regressors else (levels, changes)
    first, last = periods[0], periods[-1]
    deeper = {2 * last + j for j in (-first, -1, 0, 1, first)} | {3 * first, 4 * first}
    lags = tuple(sorted({*levels.lags, *(lag for lag in deeper if lag <= n / 3)}))
    twice = replace(levels, lags=lags, why="levels, from two of the longest season")
    return (levels, twice) if regressors else (levels, twice, replace(kinds.seasonal, rows=None))


class Smoothed(NamedTuple):
    """Exponential smoothing for a series."""

    period: int  # 1 for none
    transform: Literal["log", "sqrt", "boxcox"] | None
    rows: int
    why: str


def smoothed(y: Array, periods: tuple[int, ...]) -> tuple[Smoothed, ...]:
    """The exponential smoothing that is averaged with the candidates.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The series, NaN where missing.
    periods : tuple of int
        Its seasonal period, if it has one. With several, hours of a week, the average was the same
        within an error.

    Returns
    -------
    tuple of Smoothed
    """
    period = periods[0] if periods else 1
    why = "level, trend and season, their parameters averaged over"
    plain = Smoothed(period, None, _MOST, why)
    return (
        (plain, plain._replace(transform="log")) if np.nanmin(y, initial=np.inf) > 0 else (plain,)
    )


def averaging(n: int, seasonal: bool) -> tuple[bool, float]:
    """`by_width` and `widest` of the average of the candidates of a series.

    Members with narrower bands count more, and those dropped are unstable, or their logarithm
    explodes. The two of short series without a season are overconfident all too often: equal
    weights, and wide bands (a limit of 8 times the narrowest width and not 6: MSIS of yearly
    tourism series - 9 %, of M3 yearly - 31 % in reserve, with coverage + 1 and + 11 points).

    Parameters
    ----------
    n : int
        Number of observed values.
    seasonal : bool
        Whether the series has a season.

    Returns
    -------
    by_width : bool
    widest : float
    """
    return (False, 8.0) if n < FEW and not seasonal else (True, 4.0)


def _learned_from(kinds: tuple[Candidate, ...], rows: int) -> tuple[Candidate, ...]:
    """Each kind learned from the last so many rows."""
    return tuple(replace(kind, rows=rows) for kind in kinds)


def _windows(kinds: tuple[Candidate, ...], n: int, *rows: int) -> tuple[Candidate, ...]:
    """Each kind learned from the last so many rows: the first number, and those below n.

    None from more than its own.

    Long series change: on M4 weekly 400 rows beside 208 and 104 changed MASE by .4 %, error .6.
    """
    capped = list(dict.fromkeys(min(most, _MOST) for most in rows))
    kept = [most for most in capped if most == capped[0] or n > most]
    return tuple(one for most in kept for one in _learned_from(kinds, most))
