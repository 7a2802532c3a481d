"""What is left "auto": the few specifications that suit a series, and why.

One specification is never best everywhere, and choosing one by its evidence picked
disasters (log differences on weekly data). The average of a few different ones, levels
and differences, with and without a logarithm, was better than each of them nearly
everywhere. The figures are in examples/benchmarks/README.md.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from forecast_unc._typing import Array

# Fewer values than this support no autoregression without a season.
FEW = 60
# Seasons from this many steps have enough rows to be learned as levels, and those of a day or
# longer enough to be learned from lags.
_SHORT_SEASON, _DAY = 7, 24
# Rows of the long window of a series with one season, and the least of the short one.
_MANY, _RECENT = 400, 72
# A season counts unless the autocorrelation at it is below so many standard errors.
_SEASONAL_SIGNIFICANCE = -1.0


@dataclass(frozen=True)
class Specification:
    """All that a `Forecaster` and its Gaussian process leave open.

    Parameters
    ----------
    lags : tuple of int
        Past values used as inputs.
    differences : tuple of int
        Lags of the differences taken first.
    transform : {None, "log", "boxcox"}
        Nonlinear transform of the values.
    prior_mean : {"zero", "last", "seasonal"}
        What the regressor learns the departure from.
    calendar : {None, "fourier"}
        Inputs from the calendar.
    prior : {"weak", "shrunk"}
        Prior of the default regressor.
    lag_weights : {"shrunk", "free", None}
        Linear weights of the lags under prior "shrunk"; those of other inputs are free.
    bias : {"free", "shrunk", None}
        Bias of the default regressor; in differences it is a drift.
    why : str
        The reason, a few words.
    weight : float
        Its weight in the average.
    rows : int
        The most training rows.
    """

    lags: tuple[int, ...]
    differences: tuple[int, ...]
    transform: Literal["log", "boxcox"] | None
    prior_mean: Literal["zero", "last", "seasonal"]
    calendar: Literal["fourier"] | None
    prior: Literal["weak", "shrunk"]
    lag_weights: Literal["shrunk", "free"] | None
    bias: Literal["free", "shrunk"] | None
    why: str
    weight: float = 1.0
    rows: int = 800


def seasons_in(y: Array, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the periods that the data show, shortest first.

    A period counts if the series holds it three times (once of two or more periods, twice)
    and its changes are not negatively correlated at it by more than one standard error: to miss
    a season costs more than to look for one that is not there (M3 monthly, MASE .883 and .83).

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
        if n < (2 if found else 3) * period:
            continue
        product = changes[period:] * changes[:-period]
        pairs = int((~np.isnan(product)).sum())
        scale = np.nanmean(changes**2)
        if pairs and np.nanmean(product) > _SEASONAL_SIGNIFICANCE * scale / np.sqrt(pairs):
            found.append(period)
    return tuple(found)


def lags_for(n: int, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Recent lags, and those around one and two seasons, no deeper than a third of the data.

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
    return tuple(sorted(lag for lag in lags if lag == 1 or 3 * lag <= n))


def specifications(
    y: Array, periods: tuple[int, ...], transform: bool = True, regressors: bool = False
) -> tuple[Specification, ...]:
    """The specifications to average for a series, simplest first.

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

    Returns
    -------
    tuple of Specification
    """
    n = int((~np.isnan(y)).sum())
    log: Literal["log"] | None = "log" if transform and np.nanmin(y, initial=np.inf) > 0 else None
    lags = lags_for(n, periods)
    few = n < FEW and not periods
    changes = Specification(
        lags=lags,
        differences=(1,),
        transform=None,
        prior_mean="zero",
        calendar="fourier" if periods else None,
        prior="shrunk",
        lag_weights=None if few else "shrunk",
        bias="shrunk",
        why="changes, with a drift as large as the data support",
        weight=2.0 if few else 1.0,
    )
    relative = replace(
        changes,
        transform=log,
        bias=None,
        why="relative changes, without a term for a drift, which would grow exponentially",
        weight=1.0,
    )
    levels = replace(
        relative,
        differences=(),
        lag_weights="free",
        bias="free",
        why="levels, which return to where they were",
    )
    if regressors:
        raw = replace(levels, transform=None, why="levels, which the regressors explain")
        return (raw, levels) if log else (raw,)
    if few or (periods and periods[0] < _SHORT_SEASON):
        return (changes, relative) if log else (changes,)
    if not periods:
        return (changes, relative, levels) if log else (changes, levels)
    if periods[0] < _DAY:
        steady = replace(
            changes,
            lags=(1,),
            lag_weights=None,
            why="a random walk on the season, with a drift as large as the data support",
        )
        kinds = (steady, changes, relative, levels) if log else (steady, changes, levels)
        return _windows(kinds, n, periods[0])
    if len(periods) == 1:  # a long season, of which little is seen: weeks of a year
        plain = replace(changes, calendar=None, why="changes, the season from the lags alone")
        relative, levels = replace(relative, calendar=None), replace(levels, calendar=None)
        kinds = (plain, changes, relative, levels) if log else (plain, changes, levels)
        return _windows(kinds, n, periods[0])
    seasonal = replace(
        levels,
        prior_mean="seasonal",
        calendar=None,
        lag_weights="shrunk",
        bias="shrunk",
        why="the departure from a season ago",
    )
    return (seasonal, replace(levels, prior="weak"))


def _windows(kinds: tuple[Specification, ...], n: int, period: int) -> tuple[Specification, ...]:
    """Each specification learned from many rows and, in a long series, from recent ones too.

    Long series change: on M4 weekly 400 and 104 rows together took the MSIS of 800 from 15.3 to
    13.5, on M4 monthly 72 beside all rows the MASE from .984 to .964.
    """
    recent = max(_RECENT, 2 * period)
    rows = (_MANY, recent) if n > 1.5 * recent else (_MANY,)
    return tuple(replace(kind, rows=most) for most in rows for kind in kinds)
