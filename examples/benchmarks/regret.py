"""Regret of the default forecast: its CRPS over that of the best of its own members.

    python examples/benchmarks/regret.py --jobs 2
    python examples/benchmarks/regret.py --sets counts "Henon map" --series 10 --output regret.md

`Forecaster()` averages members. A series has a best one *in hindsight*, which nobody knows before;
a set has a best one *on average*, which a rule could have known. Series are simulated (nonlinear
maps beside the truth: paths of the map from its last state), or from files as for m4.py, of which
the last horizon of the training part is forecast. A member is as in `Forecast.members`, before the
calibration and the bound of the average; a member without a weight is forecast by its own model,
and one that diverges is left out.

Columns: median, mean and mean of the worst tenth of the default's CRPS over that of the best member
in hindsight; the sum over the series over that of the best member on average (of those that 80 % of
the series have); shares of values in the intervals; of maps the sum over the truth's, and the std
of the first step over the truth's, its mean and the one farthest from 1.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from choose import Series as Training
from choose import competition, origins
from joblib import Parallel, delayed
from ordinary import markdown
from ordinary_series import airline, load, wave
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecast, Forecaster, scores
from forecast_unc.distributions.forecast import forecast_of
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.series.history import Ahead

Array = np.ndarray
Generator = np.random.Generator

SEED = 0
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
COVERAGES = (0.8, 0.95)
OCCURS = 0.8  # share of a set's series that have its best member on average
WORST = 0.1  # share of the series that are the worst
BURN_IN, PATHS = 100, 4000
RECENT = 2000  # values of a file that are learned from


class Case(NamedTuple):
    """A series up to its origin, and what followed."""

    set: str
    y: pd.Series
    actual: Array
    season: int  # of the scale of the scores
    truth: Array | None = None  # sample paths of the process, (steps, paths)


# --- simulated series


def falling(rng: Generator, t: pd.DatetimeIndex, steps: int) -> Array:
    """A line from 1,000 to 30, 100 or 200 at the origin, and a random walk."""
    n, end = len(t) - steps, rng.choice([30, 100, 200])
    walk = np.cumsum(6 * rng.standard_normal(len(t)))
    return end + (1000 - end) * (1 - np.arange(len(t)) / (n - 1)) + walk - walk[n - 1]


def dip(rng: Generator, t: pd.DatetimeIndex, steps: int) -> Array:
    """Growth, 22 months of a fall, and a recovery of two years before the origin."""
    k, season = np.arange(len(t)), np.resize(rng.standard_normal(12), len(t))
    line = 2.2 * np.minimum(k, 50) - 3.5 * np.clip(k - 50, 0, 22) + 2.6 * np.clip(k - 72, 0, None)
    return 900 + line + 4 * season + np.cumsum(0.5 * rng.standard_normal(len(t)))


def growth(rng: Generator, t: pd.DatetimeIndex, steps: int) -> Array:
    return airline(rng, t)


def half_hours(rng: Generator, t: pd.DatetimeIndex, steps: int) -> Array:
    return load(rng, t)


def counts(rng: Generator, t: pd.DatetimeIndex, steps: int) -> Array:
    """Poisson, the rate a function of the hour."""
    rate = rng.uniform(1, 8) * np.exp(0.7 * wave(rng, np.asarray(t.hour) / 24))
    return rng.poisson(rate).astype(float)


class Made(NamedTuple):
    """Simulated series that are alike."""

    freq: str
    season: int
    n: int
    steps: int
    make: Callable[[Generator, pd.DatetimeIndex, int], Array]

    def case(self, name: str, number: int) -> Case:
        rng = generator(name, number)
        t = pd.date_range("2015-01-04", periods=self.n + self.steps, freq=self.freq)
        y = pd.Series(self.make(rng, t, self.steps), t)
        return Case(name, y.iloc[: self.n], y.to_numpy()[self.n :], self.season)


def generator(*key: object) -> Generator:
    return np.random.default_rng([SEED, *(crc32(str(part).encode()) for part in key)])


MADE = {
    "falling, months": Made("MS", 12, 84, 12, falling),
    "falling, weeks": Made("W", 1, 84, 12, falling),
    "falling, days": Made("D", 7, 84, 12, falling),
    "falling, quarters": Made("QS", 4, 84, 12, falling),
    "airline": Made("MS", 12, 96, 12, growth),
    "dip and recovery": Made("MS", 12, 96, 12, dip),
    "half hours of a week": Made("30min", 336, 4032, 48, half_hours),
    "hourly counts": Made("h", 24, 1000, 24, counts),
}


# --- nonlinear maps with noise in each step


def plain(state: Array, noise: Array) -> Array:
    return state


def volatile(state: Array, noise: Array) -> Array:
    """A value whose log variance is the state."""
    return np.exp(state / 2) * noise


class Map(NamedTuple):
    """The next state by the last states and normal noise, and what is observed of it."""

    start: float
    step: Callable[[Sequence[Array], Array], Array]
    observe: Callable[[Array, Array], Array] = plain

    def paths(self, states: Sequence[Array], rng: Generator, steps: int) -> tuple[Array, Array]:
        """States and values (steps, paths) that follow the last three states."""
        path, values = list(states), []
        for _ in range(steps):
            moved, seen = rng.standard_normal((2, *np.shape(path[-1])))
            path.append(self.step(path, moved))
            values.append(self.observe(path[-1], seen))
        return np.array(path[len(states) :]), np.array(values)

    def case(self, name: str, number: int, n: int) -> Case:
        rng, steps = generator(name, number), 10
        states, y = self.paths([np.full(1, self.start)] * 3, rng, BURN_IN + n + steps)
        last = [np.full(PATHS, state) for state in states[-steps - 3 : -steps, 0]]
        _, truth = self.paths(last, rng, steps)
        y = y[BURN_IN:, 0]
        return Case(name, pd.Series(y[:n]), y[n:], 1, truth)


def threshold(p: Sequence[Array], e: Array) -> Array:
    return np.where(p[-2] <= 0, 1.5 + 0.6 * p[-1], -1.5 + 0.7 * p[-1]) + 0.5 * e


MAPS = {
    "logistic map": Map(
        0.4, lambda p, e: np.clip(3.7 * p[-1] * (1 - p[-1]) + 0.03 * e, 0.001, 0.999)
    ),
    "bistable map": Map(0.4, lambda p, e: 2.4 * np.sin(p[-1]) + 0.3 * p[-2] + 0.3 * e),
    "Henon map": Map(
        0.1, lambda p, e: 1 - 1.3 * np.clip(p[-1], -1.3, 1.3) ** 2 + 0.3 * p[-2] + 0.01 * e
    ),
    "threshold map": Map(0.1, threshold),
    # in reserve: not for choosing rules
    "map of two lags": Map(
        0.4,
        lambda p, e: np.clip(
            3.75 * p[-1] * (1 - 0.85 * p[-1] - 0.15 * p[-2]) + 0.02 * e, 0.001, 1.5
        ),
    ),
    "map of three lags": Map(
        0.3,
        lambda p, e: (
            0.9 * np.tanh(2 * p[-1]) - 0.8 * np.sin(1.5 * p[-2]) + 0.5 * np.cos(2 * p[-3]) + 0.2 * e
        ),
    ),
    "stochastic volatility": Map(0.0, lambda p, e: 0.95 * p[-1] + 0.3 * e, volatile),
}
SIMULATED: dict[str, Callable[[str, int], Case]] = {name: one.case for name, one in MADE.items()}
SIMULATED |= {
    f"{name}, {n} values": partial(one.case, n=n) for name, one in MAPS.items() for n in (100, 300)
}


# --- series of files


COMPETITIONS = (
    "m4_hourly_dev", "m4_weekly_dev", "m4_monthly_dev", "m4_quarterly_dev", "m4_yearly_dev",
    "m3_dev2", "tourism_dev", "nn5_dev",
)  # fmt: skip
FILES = "files_dev"
HORIZONS = {"5min": (48, 1), "h": (48, 24), "D": (28, 7), "MS": (12, 12)}  # steps, season


def drawn(data: Path, asked: Callable[[str], bool], most: int) -> Iterator[Case]:
    """A seeded draw of the series of each set of the competitions, each at its last origin."""
    for path in (data / f"{name}.csv.gz" for name in COMPETITIONS):
        if not path.exists():
            print(f"left out: {path} is not there")
            continue
        found: dict[str, list[Case]] = {}
        for one in competition(path):
            for window in origins(one, 1) if asked(one.set) else []:
                case = Case(one.set, window.past, window.actual, one.season)
                found.setdefault(one.set, []).append(case)
        for name, cases in found.items():
            places = generator(name).permutation(len(cases))[:most]
            yield from (cases[place] for place in sorted(places))


def recent(data: Path, asked: Callable[[str], bool], most: int) -> Iterator[Case]:
    """The last origins of the few series of a file, of each frequency as many as `most`."""
    path = data / f"{FILES}.csv.gz"
    if not path.exists():
        print(f"left out: {path} is not there")
        return
    for freq, part in pd.read_csv(path).groupby("freq", sort=False):
        steps, season = HORIZONS[freq]
        series = [rows for _, rows in part.groupby("name", sort=False)]
        for rows in series:
            t = pd.date_range(rows["start"].iloc[0], periods=len(rows), freq=freq)
            one = Training(f"{FILES} {freq}", pd.Series(rows["y"].to_numpy(), t), steps, season)
            for window in origins(one, ceil(most / len(series))) if asked(one.set) else []:
                yield Case(one.set, window.past.iloc[-RECENT:], window.actual, season)


def cases(data: Path, names: Sequence[str], most: int) -> Iterator[Case]:
    """Up to `most` series of each set whose name has one of some words, of all by default."""

    def asked(name: str) -> bool:
        return not names or any(word in name for word in names)

    for name, make in SIMULATED.items():
        if asked(name):
            yield from (make(name, number) for number in range(most))
    yield from drawn(data, asked, most)
    yield from recent(data, asked, most)


# --- scores


def named(model: FittedModel) -> str:
    """Description of a member without its number of rows, which comes last."""
    bends = "nonlinear " if getattr(model.specification, "bend", 0.0) else ""
    return bends + str(model).rpartition(", ")[0]


def alone(model: FittedModel, ahead: Ahead) -> Forecast | None:
    """A member's forecast as the average asks for it; None if it diverges."""
    kind = "mixture" if model.splits(alone=False) else model.moments
    try:
        return forecast_of(ahead.index, model.predict(ahead, Method(kind)))
    except ValueError:
        return None


def members(forecaster: Forecaster, ahead: Forecast) -> dict[str, Forecast]:
    """Forecasts of the members that reach the last step, by description."""
    ensemble = forecaster.ensemble_
    weighted = {share.number: share.forecast for share in ahead.members}
    future, found = ensemble.history.future(len(ahead)), {}
    for number, model in enumerate(ensemble.models, start=1):
        forecast = weighted[number] if number in weighted else alone(model, future)
        if forecast is not None and len(forecast) == len(ahead):
            found[named(model)] = forecast
    return found


def sample_crps(paths: Array, actual: Array) -> Array:
    """CRPS (h,) of the distribution of samples (h, m)."""
    m = paths.shape[1]
    weights = (2 * np.arange(1, m + 1) - m - 1) / m**2
    return np.abs(paths - actual[:, None]).mean(axis=1) - np.sort(paths, axis=1) @ weights


def evaluate(case: Case, number: int) -> list[dict[str, object]]:
    """CRPS in units of the series: a line of the default, with its coverages, one a member."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            forecaster = Forecaster(random_state=0).fit(case.y)
            ahead = forecaster.forecast(len(case.actual))
            parts = members(forecaster, ahead)
        except Exception as error:
            error.add_note(f"the default failed at series {number}, of {case.set}")
            raise
    actual = pd.Series(case.actual, ahead.index)
    scale = scores.naive_scale(case.y, case.season)
    key = {"set": case.set, "series": number}
    line: dict[str, object] = {"member": "", "crps": ahead.score(actual)["crps"].mean() / scale}
    for coverage in COVERAGES:
        ends = ahead.interval(coverage).to_numpy().T
        line[f"in {coverage:.0%}"] = np.nanmean(scores.coverage(case.actual, *ends))
    if case.truth is not None:
        line["truth"] = sample_crps(case.truth, case.actual).mean() / scale
        line["std"] = ahead.std.iloc[0] / case.truth[0].std()
    lines = [line]
    for name, forecast in parts.items():
        lines.append({"member": name, "crps": forecast.score(actual)["crps"].mean() / scale})
    return [key | one for one in lines]


# --- the table


def best_on_average(default: pd.Series, parts: pd.DataFrame) -> tuple[str, float]:
    """The member with the least CRPS where it occurs, and the default's over it there.

    Parts are CRPS (series, members), NaN where a member does not occur or diverges.
    """
    often = parts.loc[:, parts.notna().mean() >= OCCURS]
    if often.empty:
        return "", np.nan
    over = often.apply(lambda one: default[one.notna()].sum() / one.sum())
    return str(over.idxmax()), float(over.max())


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """A row a set: the default's CRPS over the best members' and the truth's, and its coverage."""
    rows = []
    for name, part in lines.groupby("set", sort=False):
        ours = part[part["member"] == ""].set_index("series")
        parts = part[part["member"] != ""].pivot_table("crps", "series", "member")
        parts = parts.reindex(ours.index)
        hindsight = (ours["crps"] / parts.min(axis=1)).sort_values()
        member, over = best_on_average(ours["crps"], parts)
        row: dict[str, object] = {"set": name, "series": len(ours)}
        row |= {"median": hindsight.median(), "mean": hindsight.mean()}
        row["worst tenth"] = hindsight.iloc[-ceil(WORST * len(hindsight)) :].mean()
        row["over best on average"] = over
        row |= {column: ours[column].mean() for column in ours if column.startswith("in ")}
        if "truth" in ours and ours["truth"].notna().all():
            std = ours["std"]
            row["over the truth"] = ours["crps"].sum() / ours["truth"].sum()
            row |= {"std of step 1": std.mean(), "worst std": std[np.log(std).abs().idxmax()]}
        rows.append(row | {"best on average": member})
    return pd.DataFrame(rows)


def text(table: pd.DataFrame) -> str:
    """The table in Markdown: ratios with two digits, members by kind, target and lags."""
    shown = table.assign(
        **{"best on average": table["best on average"].str.split(", ").str[:2].str.join(", ")}
    )
    rows = []
    for row in shown.to_numpy(object):
        numbers = [f"{one:.2f}" if isinstance(one, float) else str(one) for one in row]
        rows.append(["" if one == "nan" else one for one in numbers])
    return markdown([*shown], rows)


def main() -> None:
    """Forecast every series, and print a row for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the files as for m4.py")
    parser.add_argument("--sets", nargs="+", default=[], metavar="WORD",
                        help="sets whose names have one of these")  # fmt: skip
    parser.add_argument("--series", type=int, default=40, help="of each set, at most (40)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    parser.add_argument("--output", type=Path, help="the table, Markdown if .md, else CSV")
    arguments = parser.parse_args()
    chosen = list(cases(arguments.data, arguments.sets, arguments.series))
    if not chosen:
        raise SystemExit("--sets must be words in names of sets; none has these.")
    done = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(evaluate)(case, number) for number, case in enumerate(chosen)
    )
    lines = [line for part in tqdm(done, total=len(chosen), desc="series") for line in part]
    table = summary(pd.DataFrame(lines))
    print(text(table))
    if arguments.output and arguments.output.suffix == ".md":
        arguments.output.write_text(f"{text(table)}\n", encoding="utf-8")
    elif arguments.output:
        table.to_csv(arguments.output, index=False)


if __name__ == "__main__":
    main()
