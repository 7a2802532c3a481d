"""The automatic choice: the few specifications that suit a series, a row of a table each.

One specification is never best everywhere, and choosing one by its evidence picked disasters (log
differences on weekly data). The average of a few different ones, levels and differences, with and
without a logarithm, was better than each of them nearly everywhere: docs/benchmarks/all.md.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.series.calendar import LONGEST_PROFILE
from forecast_unc.series.nonlinearity import Bend, bend, evidence_of_logarithm
from forecast_unc.series.seasons import recurs

# Figures where one is on record; the others are choices, which keep the frequencies apart.

# Fewer values than this support no autoregression without a season (a choice: yearly series).
FEW = 60
# Share of zeros beyond which counts without a season have their own model alone.
MANY_ZEROS = 0.4
# The square root stands for the logarithm where two values or more are 0, and the 5 % quantile is
# below a fifth of the median: hourly and daily counts MSIS -5 %. Where zeros are closures alone, as
# of cash machines, MAE is 3 % higher with it.
_TAIL, _SMALL = 0.05, 0.2
# Fewer values than this support no logarithm: with two or three the lognormal tail explodes.
_LOG = 5
# Seasons from this many steps have enough rows to be learned as levels, and those of a day or
# longer enough to be learned from lags (a choice: quarters, months and weeks, hours).
_SHORT_SEASON, _DAY = 7, 24
# The most rows of an exact process here: its cost grows with their cube.
MOST_ROWS = 800
# Rows that a process learns from: of months; without a season and of longer ones, of which it has
# four at least, and of a walk without one. Recent rows know how wide changes are now: with these
# and fewer linear ones CRPS and MSIS of 70 weekly series are 4 % lower, of the geometric mean.
_MONTHS, _LEAST, _WALK, _CYCLES = 400, 208, 104, 4
# Linear models count from so many values on, and learn from the last so many, of short seasons
# from more, or from so many of the longest seasons.
_LINEAR_FROM, _LINEAR_ROWS, _LINEAR_SHORT, _LINEAR_CYCLES = 72, 300, 600, 6
# Nats for a nonlinear function, and for one of logarithms: CRPS of 13 positive series .68 that
# of levels, error .13, of 34 in reserve .87, .09, of 16 real ones .99, .02. Maps with noise have 50
# and more, 100 values of one with a threshold 7 to 12, 300 of it 30 to 46; of 1,417 real series 8 %
# have 7, where CRPS is .6 % higher, error .6.
# Its rows, and those that hyper-parameters are learned from: of 1000 values of maps and flows CRPS
# is .88 times that of the last 300 rows alone, error .04, in reserve .85, .05; of weeks .99, .01.
_BENDS, _NONLINEAR_ROWS, _NONLINEAR_SEARCH = 7.0, 1000, 300


@dataclass(frozen=True)
class Candidate:
    """A specification for a series, and the Gaussian process that suits it."""

    kind: str = field(compare=False)  # of `KINDS`
    periods: tuple[int, ...]  # seasonal, shortest first
    rows: int  # the most training rows
    why: str = field(compare=False)
    lags: tuple[int, ...]
    differences: tuple[int, ...] = (1,)
    transform: Literal["log"] | None = None
    prior_mean: Literal["zero", "last", "seasonal"] = "zero"
    calendar: Literal["fourier", "profile"] | None = "fourier"
    prior: Literal["weak", "shrunk"] = "shrunk"
    lag_weights: Literal["shrunk", "free", None] = "shrunk"  # those of other inputs are free
    bias: Literal["free", "shrunk", None] = "shrunk"  # in differences it is a drift
    model: Literal["process", "linear", "smoothing", "counts"] = "process"
    exog_as: Literal["inputs", "lasting", "evidence"] = "inputs"  # how it has regressors
    search_rows: int | None = None  # that hyper-parameters of a process are learned from
    bend: float = 0.0  # log evidence (nats) of a nonlinear function over a line; 0: not nonlinear


PLAIN = Candidate("given", (), MOST_ROWS, "as given", (), (), calendar=None)
"""Fields that are left open beside given lags, which need no table."""


class Row:
    """A kind of candidate for the series of a regime.

    `otherwise`: the kind used when values are not positive; `overrides`: fields that are not as
    usual for the kind, some by (n, periods).
    """

    def __init__(self, regime: str, kind: str, *, otherwise: str = "", **overrides: Any) -> None:
        self.regime = regime
        self.kind = kind
        self.otherwise = otherwise
        self.overrides = overrides


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
        lags |= {longer - 1, longer, longer + 1, 2 * longer}
    return tuple(sorted(lag for lag in lags if lag == 1 or 1 < lag <= n / 3))


def _recent(n: int) -> int:
    """Number of recent lags for few values."""
    return min(12, n // 4)


def _apart(n: int, stride: int) -> tuple[int, ...]:
    """Six lags so many steps apart from the first, none deeper than an eighth of the n values."""
    return tuple(1 + back for back in range(0, 6 * stride, stride) if back < n / 8)


def _linear_rows(n: int, periods: tuple[int, ...]) -> int:
    """The last rows, or six of the longest seasons."""
    rows = _LINEAR_SHORT if periods and periods[0] < _DAY else _LINEAR_ROWS
    return max(rows, _LINEAR_CYCLES * max(periods, default=0))


_LEVELS = {"differences": (), "transform": "log"}  # the logarithm of positive values
# Processes keep regressors as inputs, where they learn how these go together with the hour: with
# lasting effects by evidence CRPS of an hourly demand with temperature is 13 % higher.
_LINEAR = {
    "model": "linear",
    "calendar": "profile",
    "bias": "free",
    "rows": _linear_rows,
    "exog_as": "evidence",
}
# A long season, of which little is seen: weeks of a year
_LONG_SEASON: dict[str, Any] = {
    "rows": lambda n, periods: min(max(_CYCLES * periods[0], _LEAST), MOST_ROWS),
    "calendar": lambda n, periods: None if periods[0] <= LONGEST_PROFILE else "fourier",
    "transform": None,
}
# Where the evidence is for inputs, too: with them by it alone CRPS of daily series is 2 % higher.
_RECENT_LAGS: dict[str, Any] = {
    "lags": (1, 2, 3, 4),
    "exog_as": "lasting",
    "why": "the usual season, and changes that fade out",
}
KINDS: dict[str, dict[str, Any]] = {
    "walk": {
        "lags": (1,),
        "lag_weights": None,
        "why": "a random walk with a drift as large as the data support",
    },
    "relative": {
        "lags": (1, 2),
        "transform": "log",
        "bias": None,
        "why": "changes that fade out, without a drift",
    },
    "last": {
        **_LEVELS,
        "lags": (1, 2),
        "prior_mean": "last",
        "calendar": None,
        "why": "a value near the last one",
    },
    "seasonal": {
        **_LEVELS,
        "prior_mean": "seasonal",
        "calendar": None,
        "why": "a value near that of a season ago",
    },
    "levels": {
        **_LEVELS,
        "lag_weights": "free",
        "bias": "free",
        "why": "levels that return to their mean",
    },
    "linear": {**_LINEAR, "differences": (), "why": "levels that return to their mean"},
    "linear changes": {
        **_LINEAR,
        "differences": lambda n, periods: periods[:1],
        "why": "the last season again, with the change since the one before",
    },
    "smoothing": {
        "model": "smoothing",
        "why": lambda n, periods: (
            ("level, trend and season" if periods else "level and trend")
            + ", recent values counting most"
        ),
    },
    "nonlinear": {
        **_LEVELS,
        "lag_weights": "free",
        "bias": "free",
        "calendar": None,
        "prior": "weak",
        "rows": _NONLINEAR_ROWS,
        "search_rows": _NONLINEAR_SEARCH,
        "why": "a nonlinear function of lagged values",
    },
    "counts": {"model": "counts", "why": "whether anything occurs, and how much"},
}
"""Fields of a `Candidate` that differ from its defaults, or functions of (n, periods)."""

TABLE = (
    Row("few", "walk"),
    Row("few", "relative", otherwise="last"),
    # Of 1,078 short series of M3, M4 and tourism 5 recur, CRPS -2 %, error 4; of cycles of 9 and 12
    # steps in noise, 36 to 54 values, nine in ten, CRPS -80 %. For all short series it loses.
    Row("few that recur", "linear", lags=lambda n, periods: tuple(range(1, _recent(n) + 1))),
    Row("no season", "walk", rows=_WALK),
    Row("no season", "levels", rows=_LEAST),
    Row("quarters", "walk", transform="log", bias=None, why="the past season, moved up or down"),
    Row("quarters", "seasonal"),
    Row("months", "walk", rows=_MONTHS, why="a random walk with a drift, and the season"),
    Row("months", "levels", rows=_MONTHS),
    Row("weeks", "levels", **_LONG_SEASON),
    Row("weeks", "relative", lags=lags_for, rows=_LEAST, calendar=None),
    Row("several seasons", "levels", prior="weak"),
    # Of the logarithm, too, CRPS of both is the same within .4 %.
    Row("several seasons", "linear", differences=(1,), why="the last value, and the usual change"),
    Row("linear", "linear"),
    Row("linear", "linear", transform="log"),
    # With several seasons, too: CRPS of 52 series of M4 hours .0 %, error .7, made loads MAE -7,
    # MSIS -11 %. Lags of the season beside a profile make a walk of changes that fade out. Without
    # those, M4 hours +4 %.
    Row("recent lags", "linear", **_RECENT_LAGS),
    Row("recent lags", "linear", **_RECENT_LAGS, transform="log"),
    # Of no season they are the same models.
    Row("linear", "linear changes"),
    Row("linear", "linear changes", transform="log"),
    # Without a logarithm, too, CRPS of 30 hourly series is 1.2 % higher, of a demand .1 % lower.
    Row("linear", "linear changes", differences=lambda n, periods: periods[-1:], transform="log"),
    # With several seasons, hours of a week, the average was the same within an error.
    Row("nonlinear", "nonlinear", lags=(1, 2, 3)),
    Row("nonlinear", "nonlinear", lags=lambda n, periods: tuple(range(1, min(12, n // 16) + 1))),
    # 200 steps of 16 flows with 100 points a period: CRPS .45 times that without such members.
    Row("sampled finely", "nonlinear", why="a nonlinear function of values some steps apart"),
    Row("any", "smoothing"),
    # The season of the index that the test does not find, too. Smoothing on 224 origins of months
    # and quarters: CRPS -1.3 %, error .5, MSIS -2.2, .7; on 112 of simulated series without one
    # +.2, .4. The process on 211 of weeks: CRPS -1.0, .3, MASE -1.3, .5; of months -.5, .3.
    Row("not found", "smoothing"),
    Row("any", "smoothing", transform="log"),
    Row("not found", "smoothing", transform="log"),
    Row("weeks not found", "levels", **_LONG_SEASON),
    Row("counts", "counts"),
    Row("intermittent", "counts"),
)


def candidates(
    y: Array,
    periods: tuple[int, ...],
    transform: bool = True,
    regressors: bool = False,
    whole: bool = False,
    not_found: tuple[int, ...] = (),
) -> tuple[Candidate, ...]:
    """The candidates to average for a series with NaN where missing.

    `transform`: may have one; `whole`: values are counts, with zeros; `not_found`: a season that
    the index suggests, but the values do not show.
    """
    n = int((~np.isnan(y)).sum())
    zeros, power = np.count_nonzero(y == 0.0), ""
    if transform and n >= _LOG and np.nanmin(y, initial=np.inf) >= 0.0:
        power = "" if zeros else "log"
        small = np.nanquantile(y, _TAIL) < _SMALL * np.nanmedian(y)
        if 2 <= zeros <= MANY_ZEROS * n and small:
            power = "sqrt"
    recent = regressors or len(periods) > 1
    linear = ["linear", *["recent lags"] * recent] if n >= _LINEAR_FROM else []
    regimes = dict.fromkeys([_regime(n, periods), *linear, "any"], periods)
    if "few" in regimes and recurs(y, _recent(n)):
        regimes["few that recur"] = periods
    bent, of_bend = bend(y) if "no season" in regimes else Bend(0.0, 1), ""
    if bent.nats > _BENDS:
        if power == "log" and evidence_of_logarithm(y, bent.stride) > _BENDS:
            of_bend = power
        regimes["nonlinear"] = periods
        if bent.stride > 1:
            regimes["sampled finely"] = periods
    if not_found:
        regimes |= dict.fromkeys(["not found", f"{_regime(n, not_found)} not found"], not_found)
    if whole:
        many = zeros > MANY_ZEROS * n
        # a constant tells nothing of a season or a regressor
        alone = many and (not np.nanmax(y) or not (periods or regressors))
        regimes = {"intermittent": periods} if alone else regimes | {"counts": periods}

    rows = [row for row in TABLE if row.regime in regimes]
    powers = [of_bend if row.kind == "nonlinear" else power for row in rows]
    each = zip(rows, powers, strict=True)
    found = [_candidate(row, regimes[row.regime], n, one, not_found, bent) for row, one in each]
    return tuple(dict.fromkeys(found))


def _candidate(
    row: Row, periods: tuple[int, ...], n: int, power: str, not_found: tuple[int, ...], bent: Bend
) -> Candidate:
    """The candidate of a row for n values; `power`: the transform that values may have, or ""."""
    kind = row.kind if power or not row.otherwise else row.otherwise
    fields: dict[str, Any] = {"rows": MOST_ROWS, "lags": lags_for} | KINDS[kind]
    fields |= row.overrides
    fields = {k: v(n, periods) if callable(v) else v for k, v in fields.items()}
    if fields.get("transform") == "log":
        fields["transform"] = power or None
    if not periods:
        fields["calendar"] = None
    if periods and periods == not_found:
        fields["why"] += "; the season is kept as a hedge, though not significant"
    if row.kind == "nonlinear":
        fields["bend"] = bent.nats
    if row.regime == "sampled finely":
        fields["lags"] = _apart(n, bent.stride)
    return Candidate(kind, periods, **fields)


def _regime(n: int, periods: tuple[int, ...]) -> str:
    """Regime of a series: the rows of the table that are for it, beside those for all."""
    if len(periods) > 1:
        return "several seasons"
    if not periods:
        return "few" if n < FEW else "no season"
    if periods[0] < _SHORT_SEASON:
        return "quarters"
    return "months" if periods[0] < _DAY else "weeks"
