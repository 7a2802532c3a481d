"""What is left "auto": the few specifications that suit a series, a row of a table each, and why.

One specification is never best everywhere, and choosing one by its evidence picked disasters (log
differences on weekly data). The average of a few different ones, levels and differences, with and
without a logarithm, was better than each of them nearly everywhere: docs/benchmarks/all.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.distributions.power import PowerTransform

# Figures where one is on record; the others are choices, which keep the frequencies apart.

# Fewer values than this support no autoregression without a season (a choice: yearly series).
FEW = 60
# Fewer values than this support no logarithm: the tail of what two or three of them say explodes.
_LOG = 5
# Seasons from this many steps have enough rows to be learned as levels, and those of a day or
# longer enough to be learned from lags (a choice: quarters, months and weeks, hours).
_SHORT_SEASON, _DAY = 7, 24
# The most rows of an exact process here: its cost grows with their cube.
MOST_ROWS = 800
# Rows of the short window of days and months: six years of months are a choice. Recent rows beside
# all took the MSIS of weekly series from 14.5 to 13.1.
_RECENT = 72
# All rows count where there are so many times as many as the others learn from (a choice).
_LONG = 2
# Values with zeros have a candidate of square roots where the likelihood takes a power nearer to a
# logarithm, which zeros do not have. 22 monthly tourism series, 4 origins: MASE - .040, standard
# error .014, CRPS - 1.7 %, .5, MSIS - 4.3 %, 2.2, coverage of 95 % from .897 to .920. With powers
# above 1/2, 36 daily series of NN5: MASE + .022, .008, CRPS + 1.2 %, .5.
_MOST_ROOT = 0.5


@dataclass(frozen=True)
class Candidate:
    """A specification for a series, and the Gaussian process that suits it."""

    kind: str  # of `KINDS`
    rows: int | None  # the most training rows; None for all of them, of a reduced-rank process
    why: str
    lags: tuple[int, ...]
    differences: tuple[int, ...] = (1,)
    transform: Literal["log", "sqrt"] | None = None
    prior_mean: Literal["zero", "last", "seasonal"] = "zero"
    calendar: Literal["fourier"] | None = "fourier"
    prior: Literal["weak", "shrunk"] = "shrunk"
    lag_weights: Literal["shrunk", "free", None] = "shrunk"  # those of other inputs are free
    bias: Literal["free", "shrunk", None] = "shrunk"  # in differences it is a drift


PLAIN = Candidate("given", None, "as given", (), (), calendar=None)
"""What is left open beside lags of one's own, which need no table."""


class Row:
    """A kind of candidate for the series of a regime, learned from its last rows."""

    def __init__(
        self,
        regime: str,
        kind: str,
        rows: int | None = MOST_ROWS,
        *,
        cycles: int | None = None,  # of the first season instead of `rows`, if these are fewer
        longer: bool = False,  # only where the series has more values than these rows
        season: int = 0,  # the shortest season that it is for
        otherwise: str = "",  # the kind where values with zeros have no relative changes
        **overrides: Any,  # of the kind
    ) -> None:
        self.regime, self.kind, self.rows, self.cycles = regime, kind, rows, cycles
        self.longer, self.season, self.otherwise = longer, season, otherwise
        self.overrides = overrides


def _near(lags: tuple[int, ...], n: int, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Of the lags the last two and those at the seasons."""
    near = {1, 2} | {period + j for period in periods for j in (0, 1)}
    return tuple(lag for lag in lags if lag in near)


def _twice(lags: tuple[int, ...], n: int, periods: tuple[int, ...]) -> tuple[int, ...]:
    """The lags, and those around two of the longest season."""
    first, last = periods[0], periods[-1]
    deeper = {2 * last + j for j in (-first, -1, 0, 1, first)} | {3 * first, 4 * first}
    return tuple(sorted({*lags, *(lag for lag in deeper if lag <= n / 3)}))


_LEVELS = {"differences": (), "transform": "log"}  # the logarithm of positive values
_FROM_LAG = {**_LEVELS, "calendar": None}
KINDS: dict[str, dict[str, Any]] = {
    "changes": {"why": "changes, with a drift as large as the data support"},
    "plain": {"why": "changes, the season from the lags alone"},
    "walk": {
        "lags": (1,),
        "lag_weights": None,
        "why": "a random walk, with a drift as large as the data support",
    },
    "season walk": {
        "lags": (1,),
        "lag_weights": None,
        "why": "a random walk on the season, with a drift as large as the data support",
    },
    "relative": {
        "transform": "log",
        "bias": None,
        "why": "relative changes, without a term for a drift, which would grow exponentially",
    },
    "roots": {
        "transform": "sqrt",
        "bias": None,
        "why": "changes of square roots, which zeros have, without a drift",
    },
    "levels": {
        **_LEVELS,
        "lag_weights": "free",
        "bias": "free",
        "why": "levels, which return to where they were",
    },
    "seasonal": {**_FROM_LAG, "prior_mean": "seasonal", "why": "the change from a season ago"},
    "last": {**_FROM_LAG, "prior_mean": "last", "why": "the change from the last value"},
    "smoothing": {"why": "level, trend and season, their parameters averaged over"},
}
"""Fields of a `Candidate` that differ from its defaults."""
_MOVING = ("season walk", "changes", "relative", "levels")

TABLE = (
    # regressors belong to the levels: of the changes they explain little
    Row("regressors", "levels", transform=None, why="levels, which the regressors explain"),
    Row("regressors", "levels"),
    Row("several seasons", "seasonal"),
    Row("several seasons", "levels", lags=_near),
    Row("several seasons", "levels", prior="weak"),
    Row("several seasons", "seasonal", 400, longer=True),
    Row("few", "walk"),
    Row("few", "relative", otherwise="last", lags=(1, 2)),
    Row("no season", "walk"),
    Row("no season", "relative", otherwise="changes"),
    Row("no season", "levels"),
    Row("no season", "last"),
    Row("quarters", "walk", transform="log", bias=None, why="the season, moved up or down"),
    Row("quarters", "changes", bias=None, why="changes, without a drift"),
    Row("quarters", "relative"),
    Row("quarters", "relative", cycles=6, longer=True),
    Row("quarters", "seasonal"),
    *(Row("few months", kind, 400) for kind in _MOVING),
    Row("months", "season walk", 400),
    Row("months", "levels", 400),
    *(Row("months", kind, _RECENT) for kind in _MOVING),
    # A long season, of which little is seen: weeks of a year. But for one its kinds take it from
    # the lags alone, and from 100 steps on (a choice: minutes) that of a season ago counts, too.
    # Long series change: on M4 weekly 400 rows beside 208 and 104 changed MASE by .4 %, error .6.
    *(
        row
        for n, longer in ((4, False), (2, True))
        for row in (
            Row("weeks", "plain", cycles=n, longer=longer, calendar=None),
            Row("weeks", "changes", cycles=n, longer=longer),
            Row("weeks", "relative", cycles=n, longer=longer, calendar=None),
            Row("weeks", "levels", cycles=n, longer=longer, transform=None, calendar=None),
            Row("weeks", "seasonal", cycles=n, longer=longer, season=100),
        )
    ),
    # All rows of a long series. Beside the others they took the MASE of daily, hourly, half-hourly
    # and weekly series down by 14, 4 and 15, 16 and 3 %; what is learned in levels without a
    # logarithm can run away.
    Row("long", "levels", None),
    Row("long", "last", None),
    Row("long, a season", "levels", None),
    Row("long, a season", "changes", None, why="changes, with their mean for a drift"),
    Row("long, several seasons", "levels", None),
    Row(
        "long, several seasons",
        "levels",
        None,
        lags=_twice,
        why="levels, from two of the longest season",
    ),
    Row("long, several seasons", "seasonal", None),
    # With several seasons, hours of a week, the average was the same within an error.
    Row("any", "smoothing"),
    Row("any", "smoothing", transform="log"),
)


def candidates(
    y: Array,
    periods: tuple[int, ...],
    transform: bool = True,
    regressors: bool = False,
    bounded: bool = False,
) -> tuple[Candidate, ...]:
    """The candidates to average for a series with NaN where missing, simplest first.

    `transform`: there may be one; `bounded`: 0 is a bound, and values with zeros may have roots.
    """
    n = int((~np.isnan(y)).sum())
    log = transform and n >= _LOG and np.nanmin(y, initial=np.inf) > 0
    roots = transform and bounded and _takes_roots(y, periods)
    relative = "relative" if log else "roots" if roots else ""
    season = periods[0] if periods else 0

    def of(regime: str) -> Iterator[Candidate]:
        for row in TABLE:
            kind = row.kind if row.kind != "relative" else relative or row.otherwise
            rows = row.rows if row.cycles is None else min(row.cycles * season, MOST_ROWS)
            shorter = row.longer and rows is not None and n <= rows
            if row.regime != regime or not kind or shorter or season < row.season:
                continue
            fields = {"lags": lags_for(n, periods), **KINDS[kind], **row.overrides}
            if callable(fields["lags"]):
                fields["lags"] = fields["lags"](lags_for(n, periods), n, periods)
            if fields.get("transform") == "log" and not log:
                fields["transform"] = None
            if not periods:
                fields["calendar"] = None
            yield Candidate(kind, rows, **fields)

    found = list(of(_regime(n, periods, regressors)))
    if n > _LONG * max(one.rows for one in found if one.rows is not None):
        long = ("long", "long, a season", "long, several seasons")[min(len(periods), 2)]
        found += [one for one in of(long) if one.kind == "levels" or not regressors]
    return tuple(dict.fromkeys([*found, *of("any")]))


def _regime(n: int, periods: tuple[int, ...], regressors: bool) -> str:
    """The rows of the table that are for a series, but for those of all its values."""
    if regressors:
        return "regressors"
    if len(periods) > 1:
        return "several seasons"
    if not periods:
        return "few" if n < FEW else "no season"
    if periods[0] < _SHORT_SEASON:
        return "quarters"
    if periods[0] < _DAY:
        return "few months" if n <= _RECENT else "months"
    return "weeks"


def _takes_roots(y: Array, periods: tuple[int, ...]) -> bool:
    """Whether a series with zeros has square roots: of weeks and years alone, as measured."""
    above = y[y > 0]
    zeros = np.nanmin(y) == 0 and len(above) > 0 and above.min() < above.max()
    if not zeros or len(periods) != 1 or not _SHORT_SEASON <= periods[0] < _DAY:
        return False
    power = PowerTransform.fit(y).power
    return power is not None and power < _MOST_ROOT


def lags_for(n: int, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Recent lags, and those around the seasons, no deeper than a third of the n values."""
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


def averaging(n: int, seasonal: bool) -> tuple[bool, float]:
    """`by_width` and `widest` of the average of the candidates of n values.

    Members with narrower bands count more, and those dropped are unstable, or their logarithm
    explodes. The two of short series without a season are overconfident all too often: equal
    weights, and wide bands (a limit of 8 times the narrowest width and not 6: MSIS of yearly
    tourism series - 9 %, of M3 yearly - 31 % in reserve, with coverage + 1 and + 11 points).
    """
    return (False, 8.0) if n < FEW and not seasonal else (True, 4.0)
