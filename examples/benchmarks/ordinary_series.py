"""Ordinary series: situations, each of simulated series or of those inside installed packages.

    python examples/benchmarks/ordinary_series.py   # prints the situations

A situation is a row of SITUATIONS: series that are alike, each forecast from three origins, one
horizon apart. Rules of the package are chosen on the part "chosen"; "reserve", a third of the seeds
and series, is for looking once. `cases("chosen")` are the origins.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import expit

from forecast_unc import datasets

ORIGINS = 3
END = "2025-01-12"  # of simulated series: a Sunday, holidays just before it
RECENT = 4000  # values that rivals learn from, at most: the last ones

Generator = np.random.Generator
Array = np.ndarray
Made = Array | tuple[Array, dict[str, Array]]


# --- parts of simulated series


def arma(rng: Generator, n: int, phi: float = 0.0, theta: float = 0.0, dof: float = 0) -> Array:
    """Autoregressive moving average of order (1, 1) and unit variance; Student innovations."""
    e = rng.standard_t(dof, n + 500) * np.sqrt(1 - 2 / dof) if dof else rng.normal(size=n + 500)
    var = (1 + 2 * phi * theta + theta**2) / (1 - phi**2)
    return lfilter([1, theta], [1, -phi], e)[500:] / np.sqrt(var)


def wave(rng: Generator, cycles: Array, harmonics: int = 3) -> Array:
    """Smooth function of unit variance whose period is one cycle."""
    k = np.arange(1, harmonics + 1)
    size = rng.uniform(0.5, 1, harmonics) / k
    angle = 2 * np.pi * (np.outer(cycles, k) + rng.uniform(size=harmonics))
    return np.cos(angle) @ size * np.sqrt(2 / (size @ size))


def years(t: pd.DatetimeIndex) -> Array:
    return np.asarray(t.year + (t.day_of_year + t.hour / 24) / 365.25)


def order(t: pd.DatetimeIndex) -> Array:
    return np.arange(len(t), dtype=float)


def place(rng: Generator, t: pd.DatetimeIndex, low: float, high: float) -> int:
    """A position between two fractions of the series."""
    return int(rng.uniform(low, high) * len(t))


# --- makers: a pure function of a generator and the times; values, and regressors if there are any


def steady(rng, t):
    slope = rng.uniform(0.3, 1.5) * rng.choice([-1, 1])
    return 300 + slope * order(t) + 4 * arma(rng, len(t), 0.4)


def recovery(rng, t):
    rate = np.full(len(t), rng.uniform(0.0012, 0.0025))
    start = place(rng, t, 0.3, 0.45)
    rate[start : start + 24] *= -rng.uniform(1.5, 3)
    level = np.cumsum(rate + 0.001 * arma(rng, len(t), 0.3))
    return 1000 * np.exp(level + 0.003 * wave(rng, order(t) / 12))


def shift(rng, t):
    after = order(t) >= place(rng, t, 0.4, 0.6)
    return 100 + 5 * arma(rng, len(t), 0.3) + rng.uniform(25, 50) * rng.choice([-1, 1]) * after


def outlier(rng, t):
    y = 100 + 10 * wave(rng, order(t) / 12) + 4 * arma(rng, len(t), 0.3)
    y[place(rng, t, 0.45, 0.7)] += rng.uniform(40, 80) * rng.choice([-1, 1])
    return y


def zeros(rng, t):
    y = weekdays(rng, t)
    start = place(rng, t, 0.45, 0.65)
    y[start : start + rng.integers(7, 15)] = 0
    return y


def stationary(rng, t, **of_arma):
    return 50 + 5 * arma(rng, len(t), **of_arma)


def walk(rng, t, drift=0.0, dof=0):
    return 100 * np.exp(np.cumsum(0.01 * (drift + arma(rng, len(t), dof=dof))))


def airline(rng, t):
    e = 0.03 * rng.normal(size=len(t))
    both = np.convolve([1, -0.4], [1, *[0] * 11, -0.6])
    x = lfilter(both, np.convolve([1, -1], [1, *[0] * 11, -1]), e)
    return np.exp(5 + 0.006 * order(t) + 0.15 * wave(rng, order(t) / 12) + x)


def multiplicative(rng, t):
    level = 50 + rng.uniform(0.3, 0.8) * order(t)
    return level * (1 + 0.25 * wave(rng, order(t) / 12)) * np.exp(0.03 * arma(rng, len(t)))


def changing(rng, t):
    phase = order(t) / 12 + np.cumsum(0.008 * rng.normal(size=len(t)))
    size = 10 * np.linspace(0.6, 1.8, len(t))
    return 100 + size * wave(rng, phase, 2) + 3 * arma(rng, len(t), 0.3)


def temperature(rng, t):
    season = np.cos(2 * np.pi * (years(t) - rng.uniform(0.53, 0.57)))
    return rng.uniform(8, 14) + rng.uniform(7, 11) * season + 3 * arma(rng, len(t), 0.75)


def weeks(rng, t):
    season = 0.15 * wave(rng, years(t), 4)
    return (200 + 0.2 * order(t)) * (1 + season) + 10 * arma(rng, len(t), 0.5)


def load(rng, t):
    hours = np.asarray(t.hour + t.minute / 60)
    a_day = pd.Timedelta(days=1) / (t[1] - t[0])
    work, rest = (1 + size * wave(rng, hours / 24, 4) for size in (0.18, 0.12))
    profile = np.where(t.day_of_week < 5, work, 0.88 * rest)
    slow = 0.04 * arma(rng, len(t), 0.5 ** (2 / a_day))
    return 5000 * (profile * (1 + 0.06 * wave(rng, years(t), 1)) + slow + 0.01 * arma(rng, len(t)))


def weekdays(rng, t):
    profile = 0.25 * rng.normal(size=7)
    return 200 * np.exp(profile[t.day_of_week] + 0.1 * arma(rng, len(t), 0.5))


DAYS = "01-01 01-06 03-08 05-01 07-04 08-15 10-03 11-01 11-11 12-06 12-24 12-25 12-26 12-31"


def holidays(rng, t, given):
    flag = np.isin(t.strftime("%m-%d"), DAYS.split()).astype(float)
    y = weekdays(rng, t) * (1 + 0.1 * wave(rng, years(t), 2)) * (1 - rng.uniform(0.3, 0.7) * flag)
    return (y, {"holiday": flag}) if given else y


def promotion(rng, t):
    flag = (rng.random(len(t)) < 0.15).astype(float)
    y = 100 + 8 * arma(rng, len(t), 0.4) + 6 * wave(rng, years(t), 1) + rng.uniform(30, 60) * flag
    return y, {"promotion": flag}


def useless(rng, t):
    y = 100 + 10 * wave(rng, order(t) / 12) + 5 * arma(rng, len(t), 0.6)
    return y, {"other": np.cumsum(rng.normal(size=len(t)))}


def lagged(rng, t):
    spent = rng.gamma(2, 10, len(t))
    acts = np.convolve(spent, rng.uniform(0.8, 1.2) * np.array([0, 0.3, 0.8, 0.3]))[: len(t)]
    return 100 + acts + 6 * arma(rng, len(t), 0.4), {"spent": spent}


def threshold(rng, t):
    """Two regimes in logarithms, as H. Tong has them for the lynx: a cycle of nine years."""
    x = [3.0, 3.0]
    for e in 0.2 * rng.normal(size=len(t) + 50):
        low = x[-2] <= 3.25
        ahead = 0.62 + 1.25 * x[-1] - 0.43 * x[-2] if low else 2.25 + 1.52 * x[-1] - 1.24 * x[-2]
        x.append(ahead + e)
    return 10 ** np.array(x[-len(t) :])


def cycle(rng, t):
    """A population that its own past limits, two years late."""
    rate, x = rng.uniform(1.1, 1.4), [1.0, 0.7]
    for e in 0.06 * rng.normal(size=len(t) + 50):
        x.append(x[-1] * np.exp(rate * (1 - x[-2]) + e))
    return 100 * np.array(x[-len(t) :])


def logistic(rng, t):
    middle, width = place(rng, t, 0.5, 0.8), len(t) / 9
    share = expit((order(t) - middle) / width)
    return rng.uniform(300, 900) * share * np.exp(0.03 * arma(rng, len(t), 0.3))


def saturation(rng, t):
    rising = 1 - np.exp(-(order(t) + 3) / (rng.uniform(0.15, 0.3) * len(t)))
    return 100 * rising + 1.5 * arma(rng, len(t), 0.3)


def share(rng, t):
    return expit(rng.uniform(-2.5, 2.5) + arma(rng, len(t), 0.9))


def counts(rng, t, mean, even=np.inf):
    rate = mean * np.exp(0.3 * rng.normal(size=7)[t.day_of_week] + 0.15 * arma(rng, len(t), 0.8))
    return rng.poisson(rate * (rng.gamma(even, 1 / even, len(t)) if np.isfinite(even) else 1)) * 1.0


def intermittent(rng, t):
    demanded = rng.random(len(t)) < rng.uniform(0.15, 0.35)
    return demanded * rng.geometric(0.3, len(t)) * 1.0


def two_valued(rng, t):
    return np.cumsum(rng.random(len(t)) < rng.uniform(0.08, 0.2)) % 2 * 1.0


def late(rng, t):
    moving = order(t) >= place(rng, t, 0.45, 0.65)
    return 40 + np.cumsum(moving * rng.normal(0.1, 1, len(t)))


def sales(rng, t):
    return 100 * np.exp(np.cumsum(rng.normal(rng.uniform(-0.01, 0.06), 0.06, len(t))))


def gaps(rng, t, missing):
    y = 100 + 0.2 * order(t) + 10 * wave(rng, order(t) / 12) + 4 * arma(rng, len(t), 0.5)
    y[1:][rng.random(len(t) - 1) < missing] = np.nan
    return y


def trading(rng, t):
    """Monthly sums of days that differ by their weekday."""
    days = pd.date_range(t[0], t[-1] + t.freq, inclusive="left")
    number = np.zeros((len(t), 7))
    np.add.at(number, (t.searchsorted(days, side="right") - 1, days.day_of_week), 1)
    profile = np.array([1, 1.1, 1.1, 1.2, 1.5, 0.8, 0.2]) * rng.uniform(0.7, 1.3, 7)
    sums = (number * profile).sum(axis=1)
    season = 1 + 0.06 * wave(rng, order(t) / 12)
    return sums * (20 + 0.03 * order(t)) * season * np.exp(0.008 * arma(rng, len(t), 0.4))


def shop(rng, t):
    """One of many shops with the same good and bad weeks; closed on Sundays."""
    common = arma(np.random.default_rng(1), len(t), 0.9)
    y = 20 * np.exp(rng.normal(0, 0.7) + 0.15 * common) * weekdays(rng, t) / 200
    return np.round(y * (t.day_of_week != 6) if t.freqstr == "D" else 6 * y)


# --- bundled series: the name of one -> the series


@cache
def read(package: str, file: str) -> pd.DataFrame:
    """A CSV file inside a package, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"{package} is not installed")
    path = Path(spec.origin).parent / file
    return pd.read_csv(path, comment="#", float_precision="round_trip")


def dated(values: pd.Series, start: str, freq: str) -> pd.Series:
    """Known part of a column, as a series that begins at ``start``."""
    values = values.loc[values.first_valid_index() : values.last_valid_index()]
    index = pd.date_range(start, periods=len(values), freq=freq)
    return pd.Series(values.to_numpy(float), index=index)


def until(load: Callable[[], pd.Series], year: str) -> pd.Series:
    return load().loc[:year]


def quarters(name: str) -> pd.Series:
    return dated(read("statsmodels", "datasets/macrodata/macrodata.csv")[name], "1959", "QS")


def months(name: str) -> pd.Series:
    folder = "tsa/statespace/tests/results/frbny_nowcast/Nowcasting/data/US"
    column = read("statsmodels", f"{folder}/2016-06-29.csv").set_index("Date")[name]
    start = pd.to_datetime(column.first_valid_index(), format="%m/%d/%y")
    return dated(column, start, "MS")


def fertility(country: str) -> pd.Series:
    table = read("statsmodels", "datasets/fertility/fertility.csv").set_index("Country Code")
    return dated(table.loc[country, "1960":"2011"].astype(float), "1960", "YS")


def stocks(name: str) -> pd.Series:
    table = read("matplotlib", "mpl-data/sample_data/Stocks.csv")
    table = table[table["Date"].str.endswith("-01")].set_index("Date")  # others hold dividends
    return dated(table[name], table[name].first_valid_index(), "MS")


def victoria(hour: str) -> pd.Series:
    """Hourly demand for electricity up to an hour."""
    table = read("statsmodels", "tsa/stl/tests/results/mstl_elec_vic.csv")
    return dated(table["y"], "2012", "h").iloc[: int(hour)]


def lynx() -> pd.Series:
    return dated(read("sktime", "datasets/data/Lynx/Lynx.csv")["0"], "1821", "YS")


TEXTBOOK = {  # package, file, column, first month
    "airline": ("sktime", "datasets/data/Airline/Airline.csv", 1, "1949"),
    "seatbelts": ("sktime", "datasets/data/seatbelts/seatbelts.csv", 1, "1969"),
    "prescriptions": ("sktime", "datasets/data/PBS_dataset/PBS_dataset.csv", 1, "1991-07"),
    "equipment": ("statsmodels", "datasets/elec_equip/elec_equip.csv", 1, "1995"),
    "shampoo": ("sktime", "datasets/data/ShampooSales/ShampooSales.csv", 1, "1991"),
    "bond yields": ("statsmodels", "tsa/tests/results/BAA.csv", 0, "1949"),
}


def textbook(name: str) -> pd.Series:
    package, path, column, start = TEXTBOOK[name]
    return dated(read(package, path).iloc[:, column], start, "MS")


# --- the table


class Situation(NamedTuple):
    """Series that are alike, and how they are forecast."""

    name: str
    group: str
    freq: str
    seasons: tuple[int, ...]  # that the frequency suggests: told to rivals, not to us
    steps: int
    n: int  # values before the first origin, at most for bundled series
    make: Callable[..., Made] | None = None  # of a generator and the times
    load: Callable[[str], pd.Series] | None = None  # of the name of a bundled series
    chosen: tuple[str, ...] = ("0", "1", "2", "3")  # seeds, or names
    reserve: tuple[str, ...] = ("4", "5")

    def series(self, part: str) -> tuple[str, ...]:
        parts = {"chosen": self.chosen, "reserve": self.reserve, "all": self.chosen + self.reserve}
        return parts[part]


def bundled(name, freq, seasons, steps, n, load, chosen, reserve):
    names = tuple(chosen.split(", ")), tuple(reserve.split(", "))
    return Situation(name, "bundled", freq, seasons, steps, n, None, load, *names)


S, B = Situation, bundled
MONTH, WEEK, YEAR, DAY = (12,), (7,), (), (24, 168)
# fmt: off
SITUATIONS = (
    # name, group, frequency, seasons, steps, values, maker
    S("steady trend", "level", "MS", MONTH, 12, 96, steady),
    S("break and recovery", "level", "MS", MONTH, 12, 180, recovery),
    S("level shift", "level", "MS", MONTH, 12, 96, shift),
    S("one outlier", "level", "MS", MONTH, 12, 96, outlier),
    S("a run of zeros", "level", "D", WEEK, 14, 140, zeros),
    S("constant, then moving", "level", "W", YEAR, 8, 100, late),
    S("white noise", "memory", "MS", MONTH, 12, 120, stationary),
    S("AR(1) .3", "memory", "MS", MONTH, 12, 120, partial(stationary, phi=0.3)),
    S("AR(1) .6", "memory", "MS", MONTH, 12, 120, partial(stationary, phi=0.6)),
    S("AR(1) .9", "memory", "MS", MONTH, 12, 120, partial(stationary, phi=0.9)),
    S("AR(1) .98", "memory", "MS", MONTH, 12, 120, partial(stationary, phi=0.98)),
    S("MA(1) .8", "memory", "MS", MONTH, 12, 120, partial(stationary, theta=0.8)),
    S("AR(1) .7, t3", "memory", "MS", MONTH, 12, 120, partial(stationary, phi=0.7, dof=3)),
    S("random walk", "memory", "MS", MONTH, 12, 120, walk),
    S("random walk, drift", "memory", "QS", (4,), 8, 80, partial(walk, drift=0.5)),
    S("random walk, t3", "memory", "B", (5,), 20, 250, partial(walk, dof=3)),
    S("airline", "season", "MS", MONTH, 12, 120, airline),
    S("multiplicative season", "season", "MS", MONTH, 12, 96, multiplicative),
    S("changing season", "season", "MS", MONTH, 12, 120, changing),
    S("years of days", "season", "D", (7, 365), 120, 1461, temperature),
    S("years of weeks", "season", "W", (52,), 26, 260, weeks),
    S("half hours of a week", "season", "30min", (48, 336), 48, 4032, load),
    S("hours of a week", "season", "h", DAY, 48, 1008, load),
    S("weekdays", "season", "D", WEEK, 14, 180, weekdays),
    S("trading days", "season", "MS", MONTH, 12, 144, trading),
    S("holidays", "season", "D", (7, 365), 28, 1000, partial(holidays, given=False)),
    S("holidays, given", "regressor", "D", (7, 365), 28, 1000, partial(holidays, given=True)),
    S("a promotion", "regressor", "W", (52,), 12, 156, promotion),
    S("a useless regressor", "regressor", "MS", MONTH, 12, 120, useless),
    S("a regressor with a lag", "regressor", "W", YEAR, 12, 156, lagged),
    S("threshold", "cycle", "YS", YEAR, 10, 110, threshold),
    S("limit cycle", "cycle", "YS", YEAR, 10, 80, cycle),
    S("logistic growth", "growth", "QS", (4,), 6, 36, logistic),
    S("saturation", "growth", "MS", MONTH, 12, 60, saturation),
    S("bounded shares", "kind", "W", YEAR, 12, 150, share),
    S("small counts", "kind", "D", WEEK, 14, 200, partial(counts, mean=2)),
    S("large counts", "kind", "D", WEEK, 14, 200, partial(counts, mean=300, even=30)),
    S("intermittent", "kind", "W", YEAR, 8, 120, intermittent),
    S("two-valued", "kind", "D", WEEK, 14, 150, two_valued),
    S("5 values", "length", "YS", YEAR, 2, 5, sales),
    S("8 values", "length", "YS", YEAR, 2, 8, sales),
    S("12 values", "length", "QS", (4,), 4, 12, sales),
    S("20 values", "length", "YS", YEAR, 4, 20, sales),
    S("30 values", "length", "MS", MONTH, 6, 30, multiplicative),
    S("50,000 values", "length", "h", DAY, 48, 50_000, load),
    S("gaps of 1 %", "gaps", "MS", MONTH, 12, 120, partial(gaps, missing=0.01)),
    S("gaps of 10 %", "gaps", "MS", MONTH, 12, 120, partial(gaps, missing=0.1)),
    S("gaps of 30 %", "gaps", "MS", MONTH, 12, 120, partial(gaps, missing=0.3)),
    S("shops, nine months of days", "shops", "D", WEEK, 14, 231, shop),
    S("shops, forty weeks", "shops", "W", YEAR, 6, 34, shop),
    # name, frequency, seasons, steps, values at most, loader, chosen, reserve
    B("Nile", "YS", YEAR, 8, 80, partial(until, datasets.load_nile),
      "1930, 1940, 1950, 1970", "1935, 1960"),
    B("sunspots", "YS", YEAR, 20, 250, partial(until, datasets.load_sunspots),
      "1840, 1880, 1960, 2008", "1900, 1980"),
    B("lynx", "YS", YEAR, 10, 84, partial(until, lynx),
      "1897, 1907, 1922, 1934", "1902, 1928"),
    B("El Niño", "MS", MONTH, 12, 240, partial(until, datasets.load_elnino),
      "1975, 1985, 1994, 2010", "1980, 2002"),
    B("CO2", "MS", MONTH, 24, 240, partial(until, datasets.load_co2),
      "1980, 1985, 1993, 2001", "1989, 1997"),
    B("US economy by the quarter", "QS", (4,), 8, 160, quarters,
      "realgdp, realinv, cpi, unemp, tbilrate, m1", "realcons, realgovt, realdpi"),
    B("US economy by the month", "MS", MONTH, 12, 200, months,
      "PAYEMS, INDPRO, UNRATE, HOUST, RSAFS, CPIAUCSL", "PERMIT, DSPIC96, TCU"),
    B("children a woman", "YS", YEAR, 5, 40, fertility,
      "USA, FRA, BRA, IND, KOR, NGA", "JPN, SWE, EGY"),
    B("share prices", "MS", MONTH, 12, 180, stocks,
      "IBM, AAPL, MSFT, AMZN, ^GSPC, XRX", "^IXIC, ADBE, GOOGL"),
    B("demand for electricity", "h", DAY, 48, 1008, victoria,
      "1400, 2000, 2700, 3600", "1700, 3200"),
    B("months of textbooks", "MS", MONTH, 12, 160, textbook,
      "airline, seatbelts, equipment, prescriptions", "shampoo, bond yields"),
)
# fmt: on


class Case(NamedTuple):
    """One origin of one series."""

    situation: str
    series: str
    origin: int
    y: pd.Series  # up to the origin
    exog: pd.DataFrame | None
    future: pd.DataFrame | None  # regressors of the steps
    actual: pd.Series
    seasons: tuple[int, ...]
    unit: float  # mean absolute seasonal change of the series, of scores

    @property
    def steps(self) -> int:
        return len(self.actual)

    @property
    def known(self) -> pd.Series:
        """The past with gaps filled, of rivals: straight lines between neighbors."""
        return self.y.interpolate().iloc[-RECENT:]

    @property
    def periods(self) -> list[int]:
        """Seasons that fit into the past twice."""
        return [m for m in self.seasons if 2 * m <= len(self.known)]


def whole(situation: Situation, series: str) -> tuple[pd.Series, pd.DataFrame | None]:
    """A series with all its origins, and its regressors."""
    length = situation.n + ORIGINS * situation.steps
    if situation.load is not None:
        return situation.load(series).iloc[-length:], None
    times = pd.date_range(end=END, periods=length, freq=situation.freq)
    rng = np.random.default_rng([crc32(situation.name.encode()), int(series)])
    made = situation.make(rng, times)
    values, exog = made if isinstance(made, tuple) else (made, None)
    return pd.Series(values, index=times), None if exog is None else pd.DataFrame(exog, times)


def cases(part: str = "chosen", situations: Iterable[str] = ()) -> Iterator[Case]:
    """The origins of a part: "chosen", "reserve" or "all"; of some situations."""
    names = list(situations) or [one.name for one in SITUATIONS]
    for situation in SITUATIONS:
        if situation.name not in names:
            continue
        for series in situation.series(part):
            try:
                y, exog = whole(situation, series)
            except FileNotFoundError as error:
                print(f"left out: {situation.name}, {series}: {error}")
                continue
            season = next((m for m in situation.seasons if 2 * m <= len(y)), 1)
            unit = float(y.diff(season).abs().mean())
            for origin in range(ORIGINS):
                end = len(y) - (ORIGINS - origin) * situation.steps
                if end == 0:  # 36 months have two origins with values before them
                    continue
                past, ahead = slice(end), slice(end, end + situation.steps)
                given = (None, None) if exog is None else (exog.iloc[past], exog.iloc[ahead])
                yield Case(
                    situation.name, series, origin, y.iloc[past], *given, y.iloc[ahead],
                    situation.seasons, unit if unit > 0 else 1.0,
                )  # fmt: skip


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for one in SITUATIONS:
        names = f"{', '.join(one.chosen)}; in reserve {', '.join(one.reserve)}"
        print(f"{one.name} ({one.group}): {one.freq}, {one.n} values, {one.steps} steps: {names}")


if __name__ == "__main__":
    main()
