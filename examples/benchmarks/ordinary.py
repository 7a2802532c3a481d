"""The default call on ordinary series, beside simple methods and automatic ones of statsforecast.

    python examples/benchmarks/ordinary.py                    # the chosen part, an hour
    python examples/benchmarks/ordinary.py --situations lynx "white noise"
    python examples/benchmarks/ordinary.py --cache board --write docs/ordinary.md

The series are those of ordinary_series.py, three origins each. Rivals are told the seasons,
`Forecaster().fit(y).forecast(steps)` is told nothing. Other scripts can use

    for case in ordinary.cases("chosen"):
        ordinary.score(case, quantiles)  # (steps, 21), at ordinary.LEVELS
"""

import argparse
import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from ordinary_series import RECENT, SITUATIONS, Case, cases
from scipy.stats import norm
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

import forecast_unc
from forecast_unc import Forecaster, baselines, scores

LEVELS = np.round([0.025, *np.arange(1, 20) / 20, 0.975], 3)  # quantiles asked of every method
COVERAGE = 0.95
WITHIN = 1.10
SMALL = 1e-3  # added to both sides of a ratio, in units of the series: errors may be zero
SCORES = {"mae": "MAE", "crps": "CRPS", "msis": "MSIS"}

Array = np.ndarray


# --- the methods: a case -> quantiles (steps, levels); None where there is nothing to run


def normal(mean: Array, std: Array) -> Array:
    return np.asarray(mean)[:, None] + np.asarray(std)[:, None] * norm.ppf(LEVELS)


def last(case: Case) -> Array:
    y, ahead = case.known.to_numpy(), np.arange(1, case.steps + 1)
    return normal(np.full(case.steps, y[-1]), np.sqrt(np.mean(np.diff(y) ** 2) * ahead))


def seasonal_last(case: Case) -> Array | None:
    """Of the longest season."""
    y, m, ahead = case.known.to_numpy(), max(case.periods, default=1), np.arange(case.steps)
    if m == 1:
        return None
    var = np.mean((y[m:] - y[:-m]) ** 2)
    return normal(y[-m:][ahead % m], np.sqrt(var * (ahead // m + 1)))


def drift(case: Case) -> Array:
    y, ahead = case.known.to_numpy(), np.arange(1, case.steps + 1)
    changes = np.diff(y)
    var = changes.var(ddof=1) * ahead * (1 + ahead / len(changes))
    return normal(y[-1] + changes.mean() * ahead, np.sqrt(var))


def mean(case: Case) -> Array:
    y = case.known.to_numpy()
    std = y.std(ddof=1) * np.sqrt(1 + 1 / len(y))
    return normal(np.full(case.steps, y.mean()), np.full(case.steps, std))


def autoregression(case: Case) -> Array:
    """Least squares, the order by Akaike's criterion, seasons among the lags."""
    model = baselines.AutoReg(seasonal_period=min(case.periods, default=1))
    exog = None if case.exog is None else case.exog.iloc[-RECENT:]
    ahead = model.fit(case.known, exog).forecast(case.steps, case.future)
    return ahead.quantile(LEVELS).to_numpy()


def automatic(case: Case, name: str) -> Array | None:
    """A model of statsforecast; the median is its forecast, the quantiles are of its intervals."""
    from statsforecast import models

    y, season, regressors = case.known.to_numpy(), min(case.periods, default=1), {}
    if name == "MSTL":
        if not case.periods:
            return None  # AutoARIMA itself
        model = models.MSTL(season_length=case.periods, trend_forecaster=models.AutoARIMA())
    else:
        if name == "AutoARIMA":
            if season > 12:
                return None  # minutes a fit
            if case.exog is not None:
                X = case.exog.to_numpy()[-RECENT:]
                regressors = {"X": X, "X_future": case.future.to_numpy()}
        model = getattr(models, name)(season_length=season)
    percent = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]
    found = model.forecast(y=y, h=case.steps, level=percent, **regressors)
    lower = [found[f"lo-{p}"] for p in reversed(percent)]
    return np.column_stack([*lower, found["mean"], *(found[f"hi-{p}"] for p in percent)])


def ours(case: Case) -> Array:
    ahead = Forecaster().fit(case.y, case.exog).forecast(case.steps, case.future)
    return ahead.quantile(LEVELS).to_numpy()


class Method(NamedTuple):
    """How quantiles are made, of what kind it is, and the package whose version counts."""

    run: Callable[[Case], Array | None]
    kind: str  # "simple", "rival" or "ours"
    package: str


OURS, SIMPLE = "forecast_unc", "simple"
METHODS = {
    "last value": Method(last, SIMPLE, "numpy"),
    "seasonal last value": Method(seasonal_last, SIMPLE, "numpy"),
    "drift": Method(drift, SIMPLE, "numpy"),
    "mean": Method(mean, SIMPLE, "numpy"),
    "AutoReg": Method(autoregression, "rival", "statsmodels"),
    "AutoETS": Method(partial(automatic, name="AutoETS"), "rival", "statsforecast"),
    "AutoTheta": Method(partial(automatic, name="AutoTheta"), "rival", "statsforecast"),
    "AutoARIMA": Method(partial(automatic, name="AutoARIMA"), "rival", "statsforecast"),
    "MSTL + AutoARIMA": Method(partial(automatic, name="MSTL"), "rival", "statsforecast"),
    OURS: Method(ours, "ours", OURS),
}


def version_of(method: str) -> str | None:
    """Of what was run: the version of a library, of ours the sources; None if not installed."""
    package = METHODS[method].package
    if package == OURS:
        root = Path(forecast_unc.__file__).parent
        files = sorted(path for path in root.rglob("*.py"))
        return hashlib.sha1(b"".join(path.read_bytes() for path in files)).hexdigest()[:10]
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# --- scores


def score(case: Case, quantiles: Array) -> dict[str, float]:
    """Means over the steps, in units of the series.

    CRPS is twice the mean pinball loss of the 19 levels .05 to .95; MSIS is of 95 %.
    """
    actual = case.actual.to_numpy(float)
    known = ~np.isnan(actual)
    a, q = actual[known, None], np.asarray(quantiles, float)[known]
    if not np.isfinite(q).all():
        raise ValueError("quantiles must be finite")
    error, inner = a - q, LEVELS[1:-1]
    pinball = np.maximum(inner * error[:, 1:-1], (inner - 1) * error[:, 1:-1])
    width = scores.interval_score(a[:, 0], q[:, 0], q[:, -1], COVERAGE)
    return {
        "mae": float(np.abs(error[:, len(LEVELS) // 2]).mean() / case.unit),
        "crps": float(2 * pinball.mean() / case.unit),
        "msis": float(np.mean(width) / case.unit),
        "coverage": float(np.mean((q[:, :1] <= a) & (a <= q[:, -1:]))),
    }


def fingerprint(case: Case) -> str:
    """Of the data: what is cached of other data is not of this case."""
    parts = [case.y, case.actual, case.exog, case.future]
    arrays = [np.ascontiguousarray(part) for part in parts if part is not None]
    return f"{crc32(b''.join(array.tobytes() for array in arrays)):08x}"


KEY = ["situation", "series", "origin", "method"]
NOT_RUN = "not run"
COLUMNS = [*KEY, "data", *SCORES, "coverage", "seconds", "error"]


def evaluate(case: Case, method: str) -> dict[str, object]:
    """Scores and seconds of one method at one origin, or its error."""
    line = dict(zip(KEY, (*case[:3], method), strict=True)) | {"data": fingerprint(case)}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches
        start = time.process_time()
        try:
            quantiles = METHODS[method].run(case)
            line["seconds"] = time.process_time() - start
            line |= {"error": NOT_RUN} if quantiles is None else score(case, quantiles)
        except Exception as error:  # counted in the table
            text = str(error).partition("\n")[0]
            line |= {"error": f"{type(error).__name__}: {text}"[:200]}
    return {column: line.get(column) for column in COLUMNS}


# --- the cache: a file a method and version, a line an origin


def newest(folder: Path, method: str) -> Path | None:
    """The file of the installed version; the last written where the library is not installed."""
    found = version_of(method)
    if found is not None:
        path = folder / f"{method}@{found}.csv"
        return path if path.exists() else None
    files = folder.glob(f"{method}@*.csv")
    return max(files, key=lambda path: path.stat().st_mtime, default=None)


def cached(folder: Path | None, method: str) -> pd.DataFrame:
    path = None if folder is None else newest(folder, method)
    if path is None:
        return pd.DataFrame(columns=COLUMNS)
    lines = pd.read_csv(path, dtype={"series": str, "data": str, "error": str})
    return lines.drop_duplicates([*KEY, "data"], keep="last")


def run(
    chosen: Sequence[Case],
    methods: Iterable[str] = tuple(METHODS),
    folder: Path | None = None,
    jobs: int = 1,
    compute: bool = True,
) -> pd.DataFrame:
    """Lines of all methods at all origins: read where they are cached, else computed and cached."""
    results: list[dict[str, object]] = []
    for method in methods:
        wanted = {(*case[:3], fingerprint(case)): case for case in chosen}
        known = cached(folder, method).set_index([*KEY[:3], "data"], drop=False)
        known = known[known.index.isin(list(wanted))]
        results += known.to_dict("records")
        wanted = {key: case for key, case in wanted.items() if key not in known.index}
        installed, package = version_of(method), METHODS[method].package
        if installed is None and wanted:
            print(f"{method}: {len(wanted)} origins are missing, {package} is not installed")
        if installed is None or not wanted or not compute:
            continue
        found = Parallel(n_jobs=jobs, return_as="generator_unordered")(
            delayed(evaluate)(case, method) for case in wanted.values()
        )
        for line in tqdm(found, total=len(wanted), desc=method):
            results.append(line)
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / f"{method}@{installed}.csv"
                frame = pd.DataFrame([line], columns=COLUMNS)
                frame.to_csv(path, mode="a", header=not path.exists(), index=False)
    return pd.DataFrame(results, columns=COLUMNS)


# --- the tables


def means(results: pd.DataFrame) -> pd.DataFrame:
    """Mean scores by (situation, method); an origin that failed has the worst score of the others.

    It has no coverage. A method that was not run somewhere in a situation has none there.
    """
    lines = results[results["error"] != NOT_RUN].copy()
    failed = lines["error"].notna()
    lines["failed"] = failed.astype(int)
    worst = lines[~failed].groupby(KEY[:3])[[*SCORES]].max()
    at = pd.MultiIndex.from_frame(lines.loc[failed, KEY[:3]])
    lines.loc[failed, [*SCORES]] = worst.reindex(at).to_numpy()
    groups = lines.groupby(["situation", "method"])
    found = groups[[*SCORES, "coverage", "seconds"]].mean()
    found["failed"], found["origins"] = groups["failed"].sum(), groups.size()
    return found[found["origins"] == found["origins"].groupby(level=0).transform("max")]


def over(found: pd.DataFrame, kinds: Sequence[str]) -> pd.DataFrame:
    """Scores over the least of the methods of some kinds in the same situation."""
    kind = found.index.get_level_values("method").map(lambda name: METHODS[name].kind)
    best = found.loc[kind.isin(kinds), [*SCORES]].groupby(level="situation").min()
    return (found[[*SCORES]] + SMALL) / (best.reindex(found.index, level=0) + SMALL)


def geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def by_situation(results: pd.DataFrame) -> str:
    """A line a situation, the largest loss first."""
    found = means(results)
    rivals, simple = over(found, ["simple", "rival"]), over(found, ["simple"])
    others = found.drop(index=OURS, level="method")["mae"]
    best = others.groupby(level="situation").idxmin().map(lambda key: key[1])
    rows = []
    for name in rivals.xs(OURS, level="method").sort_values("mae", ascending=False).index:
        line = found.loc[(name, OURS)]
        numbers = [
            ", ".join(f"{part.loc[(name, OURS), one]:.2f}" for one in SCORES)
            for part in (rivals, simple)
        ]
        seconds = f"{line['seconds']:.2g}"
        rows.append([name, best[name], *numbers, f"{line['coverage']:.2f}", seconds])
    names = [f"{', '.join(SCORES.values())} / {of}" for of in ("best", "simple")]
    return markdown(["situation", "best other by MAE", *names, "in 95 % band", "seconds"], rows)


def by_method(results: pd.DataFrame) -> str:
    """A line a method, over the best of all others than ours in each situation."""
    found = means(results)
    ratios = over(found, ["simple", "rival"])
    rows = []
    for name in METHODS:
        if name not in found.index.get_level_values("method"):
            continue
        own, lines = ratios.xs(name, level="method"), found.xs(name, level="method")
        shares = f"{(own['mae'] <= WITHIN).mean():.2f}"
        most = own["mae"].max()
        worst = f"{most:.2f}" if most < 1e4 else f"{most:.2g}"
        worst += f" ({own['mae'].idxmax()})"
        good = lines["coverage"].between(0.9, 0.985).mean()
        numbers = [f"{geometric(own[score]):.3f}" for score in SCORES]
        last = [f"{lines['coverage'].mean():.3f}", f"{good:.2f}", f"{lines['seconds'].mean():.2g}"]
        rows.append(
            [name, len(own), *numbers, shares, worst, *last, f"{lines['failed'].sum():.0f}"]
        )
    header = ["method", "situations", *SCORES.values(), f"MAE within {WITHIN}", "worst MAE"]
    last = ["in 95 % band", "situations whose band holds .90 to .985, share", "seconds", "failed"]
    return markdown([*header, *last], sorted(rows, key=lambda row: float(row[2])))


def summary(results: pd.DataFrame) -> str:
    """Ours over the best other method and over the best simple one, of each part."""
    reserve = {(one.name, series) for one in SITUATIONS for series in one.reserve}
    keys = zip(results["situation"], results["series"], strict=True)
    part = np.array(["reserve" if key in reserve else "chosen" for key in keys])
    rows = []
    both = ["both"] if len(set(part)) > 1 else []
    for name in [*dict.fromkeys(part), *both]:
        found = means(results[(part == name) | (name == "both")])
        for title, kinds in {"best other": ["simple", "rival"], "best simple": ["simple"]}.items():
            own = over(found, kinds).xs(OURS, level="method")
            row = [f"{name}, over the {title}"]
            for score in SCORES:
                worst = f"{own[score].max():.2f} ({own[score].idxmax()})"
                share = f"{(own[score] <= WITHIN).mean():.2f}"
                row += [f"{geometric(own[score]):.3f}", share, worst]
            rows.append(row)
    header = [one for score in SCORES.values() for one in (score, f"within {WITHIN}", "worst")]
    return markdown(["part", *header], rows)


def errors(results: pd.DataFrame) -> str:
    """What failed, how often, and one of the messages."""
    failed = results[results["error"].notna() & (results["error"] != NOT_RUN)]
    texts = failed.groupby(["method", "situation"])["error"].agg(["size", "first"])
    return "\n".join(f"- {m}, {s}, {n} times, as: {text}" for (m, s), n, text in texts.itertuples())


PAGE = """# Ordinary series

```sh
make benchmarks  # or python examples/benchmarks/ordinary.py --part all --write docs/ordinary.md
```

writes this page: `Forecaster().fit(y).forecast(steps)` on {situations} situations (kinds of
series), {series} series, {origins} origins, beside simple methods and automatic ones ({rivals}).
`examples/benchmarks/ordinary_series.py` says how the series of a situation are made, how long they
are, how many steps are forecast, and which seasons rivals are told: the shortest of several, MSTL
all, seasonal last value the longest. Rivals get gaps filled by straight lines, and the last
{recent} values.
Regressors are given in four situations, with their future, to `Forecaster`, AutoReg and AutoARIMA.
AutoARIMA is not run where the shortest season has more than 12 steps, nor MSTL without a
season.{missing}

Scores are in units of each series' mean absolute change, future values included, over its shortest
season (one step if it has none): the error of the median (MAE), the CRPS as twice the mean pinball
loss of 19 quantiles, the score of the 95 % interval (MSIS). The score of a situation is the mean
over its origins. A ratio divides it by the lowest such score of any other method, *in hindsight*,
or of the four simple methods (last value, seasonal last value, drift, mean). An origin at which a
method fails has the worst score of the others, and does not count in the coverage. Seconds are of a
fit and a forecast on one core. A third of the series of each situation is "reserve"; of the page's
series only the rest ("chosen") served to choose rules. "Both" is all series: the more series, the
less often a rival is best by luck.

Geometric means of the ratios over the situations, the share within {within}, and the worst:

{summary}

## Situations, losses first

{by_situation}

## Methods, over the best without forecast_unc

{by_method}

## Failures

{errors}
"""


def page(results: pd.DataFrame, folder: Path | None, origins: int) -> str:
    files = {method: folder and newest(folder, method) for method in METHODS}
    versions = {
        method.package: version_of(name) or (files[name] and files[name].stem.partition("@")[2])
        for name, method in METHODS.items()
        if method.kind == "rival"
    }
    there = results["method"].value_counts()
    lacks = {name: origins - there.get(name, 0) for name in METHODS}
    absent = [f"{name} at {n} of {origins} origins" for name, n in lacks.items() if n]
    return PAGE.format(
        situations=results["situation"].nunique(),
        series=results.groupby("situation")["series"].nunique().sum(),
        origins=f"{origins:,}",
        rivals=", ".join(
            f"{name} {found or '(not installed)'}" for name, found in versions.items()
        ),
        recent=f"{RECENT:,}",
        missing=f" Not yet run: {', '.join(absent)}." if absent else "",
        within=f"{WITHIN:.2f}",
        summary=summary(results),
        by_situation=by_situation(results),
        by_method=by_method(results),
        errors=errors(results) or "None.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["chosen", "reserve", "all"], default="chosen")
    parser.add_argument("--situations", nargs="+", default=[], metavar="NAME", help="these only")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), metavar="NAME",
                        help='these only; "simple" is four')  # fmt: skip
    parser.add_argument("--cache", type=Path, help="folder of results that need not be run again")
    parser.add_argument(
        "--cached", action="store_true", help="run nothing: show what the cache has"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    parser.add_argument("--write", type=Path, help="Markdown page of the tables")
    arguments = parser.parse_args()
    simple = [name for name, method in METHODS.items() if method.kind == SIMPLE]
    methods = [one for name in arguments.methods for one in (simple if name == SIMPLE else [name])]
    known = {"--situations": [one.name for one in SITUATIONS], "--methods": list(METHODS)}
    for option, given in {"--situations": arguments.situations, "--methods": methods}.items():
        if unknown := set(given) - set(known[option]):
            parser.error(f"{option} must be of {known[option]}; got {sorted(unknown)}.")
    chosen = list(cases(arguments.part, arguments.situations))
    results = run(
        chosen, dict.fromkeys(methods), arguments.cache, arguments.jobs, not arguments.cached
    )
    if OURS not in methods or not set(simple) & set(methods):
        print(means(results).to_string())
        return
    text = page(results, arguments.cache, len(chosen))
    print(text)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
