"""Which members of the default call to average, chosen so that it holds for new series.

    python examples/benchmarks/choose.py --data m3_dev2.csv.gz tourism_dev.csv.gz --freq Quarterly

Files are those of m4.py, or gift_<task>.csv.gz beside gift_tasks.csv as of gift_eval.py. Nothing is
read of their test parts. A rule takes some of the members of ``Forecaster().fit(y)``; all rules are
scored from the same fits, at the last origins inside the training part, one horizon apart. Nested
cross-validation over series then says what the choice among the rules is worth on other series.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from gift_eval import Task, Window, at_levels, scored, times
from joblib import Parallel, delayed
from m4 import FREQUENCIES, split
from nested import DEFAULT, KEY, report, table
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecaster, scores
from forecast_unc.forecasting.ensemble import Ensemble
from forecast_unc.forecasting.members import Member
from forecast_unc.forecasting.recursion import Method
from forecast_unc.forecasting.smoothing_model import SmoothingModel
from forecast_unc.forecasting.specification import Specification

WITHOUT, SMOOTHING = "without ", "smoothing"
ONLY, NONE, TWICE = "only smoothing", "without smoothing", "smoothing twice"
SCORES = ["MASE", "MSIS", "quantile loss", "coverage"]
DECIDES = "quantile loss"
LEAST, SEASONS = 10, 2  # values and seasons before an origin
WINDOWS = ("", ", recent", ", most recent")  # the longest first


class Series(NamedTuple):
    """The training part of a series."""

    set: str  # one frequency of one file
    y: pd.Series
    horizon: int
    season: int  # of the scale of the scores


# --- the data


def competition(path: Path) -> Iterator[Series]:
    """Training parts of a file of m4.py; of the test part only its length is used."""
    data = pd.read_csv(path, dtype={"unique_id": str})
    for (freq, _), rows in data.groupby(["freq", "unique_id"], sort=False):
        test = rows["is_test"].to_numpy(bool)
        y, rest = split(rows[~test])
        assert rest.empty
        assert not test[: len(y)].any()  # it comes last
        yield Series(f"{path.name.split('.')[0]} {freq}", y, int(test.sum()), FREQUENCIES[freq][1])


def gift(path: Path) -> Iterator[Series]:
    """What is before the official windows of a task of GIFT-Eval."""
    rows = pd.read_csv(path.parent / "gift_tasks.csv").itertuples(index=False)
    name = path.name.removeprefix("gift_").split(".")[0]
    [task] = [task for task in (Task(*row) for row in rows) if task.task == name]
    data = pd.read_csv(path, dtype={"unique_id": str})
    for key, part in data.groupby("unique_id", sort=False):
        values = part["y"].to_numpy(np.float64)[: -task.windows * task.horizon]
        y = pd.Series(values, index=times(task, len(values)), name=key)
        yield Series(f"{task.task} {task.freq}", y, task.horizon, task.season)


def series_of(
    paths: Sequence[Path], freqs: Sequence[str] | None, limit: int | None
) -> list[Series]:
    """The first series of each set."""
    sets: dict[str, list[Series]] = {}
    for path in paths:
        for one in (gift if path.name.startswith("gift_") else competition)(path):
            if freqs is None or one.set.split()[-1] in freqs:
                sets.setdefault(one.set, []).append(one)
    return [one for members in sets.values() for one in members[:limit]]


def origins(series: Series, most: int) -> list[Window]:
    """The last windows of the training part with enough values before them, the latest first."""
    found = []
    for number in range(most):
        end = max(len(series.y) - number * series.horizon, 0)
        past = series.y.iloc[: max(end - series.horizon, 0)]
        actual = series.y.to_numpy()[len(past) : end]
        enough = past.count() >= max(LEAST, SEASONS * series.season)
        changes = past.diff(series.season).any()  # there is a scale
        if enough and changes and not np.isnan(actual).all():
            found.append(Window(number, past, actual))
    return found


# --- the members and the rules


def kinds(models: Sequence[Member]) -> list[str]:
    """A short name of what each member is, the same for all series.

    Windows are named by their rank among the members on lagged values, the longest by nothing.
    """
    lagged = {m.specification.max_train for m in models if not isinstance(m, SmoothingModel)}
    longest_first = sorted(lagged - {None}, reverse=True)
    rows = {None: ", all rows"} | dict(zip(longest_first, WINDOWS, strict=False))
    return [
        f"{SMOOTHING} {m.specification.transform or 'plain'}"
        if isinstance(m, SmoothingModel)
        else f"{lagged_kind(m.specification)}{rows.get(m.specification.max_train, WINDOWS[-1])}"
        for m in models
    ]


def lagged_kind(one: Specification) -> str:
    """A short name of a specification on lagged values, but for its window."""
    weak = one.regressor.get_params().get("prior") == "weak"
    words = [
        "changes" if one.differences else "levels",
        {"zero": "", "last": "from the last", "seasonal": "from a season ago"}[one.prior_mean],
        one.transform or "",
        f"{len(one.lags)} lag{'s' if len(one.lags) > 1 else ''}",
        "fourier" if one.calendar else "",
        "weak" if weak else "",
    ]
    return " ".join(word for word in words if word)


def members(rule: str, names: Sequence[str]) -> list[int]:
    """Places of the members that a rule takes, those of double weight twice; all if it finds none.

    A member that is there twice is never by itself the narrowest by far, which is a guard's case.
    """
    everyone = list(range(len(names)))
    smooth = [i for i in everyone if names[i].startswith(SMOOTHING)]
    if rule == TWICE:
        return everyone + smooth
    if rule == ONLY:
        return smooth or everyone
    out = smooth if rule == NONE else [i for i in everyone if WITHOUT + names[i] == rule]
    return [i for i in everyone if i not in out] or everyone


def evaluate(series: Series, window: Window, rules: Sequence[str]) -> list[dict[str, object]]:
    """Scores at one origin: of the default, and of each rule that takes other members there."""
    key = {"set": series.set, "unique_id": series.y.name, "window": window.number}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ensemble = Forecaster().fit(window.past).ensemble_
            names = kinds(ensemble.models)
            lines = [key | {"rule": DEFAULT} | scores_of(ensemble, series, window)]
        except Exception as error:
            error.add_note(f"the default failed at {key}")
            raise
        for rule in rules or dict.fromkeys(
            (ONLY, NONE, TWICE, *(WITHOUT + name for name in names))
        ):
            taken = members(rule, names)
            if taken == list(range(len(names))):
                continue
            models = tuple(ensemble.models[i] for i in taken)
            trained = tuple(ensemble.trained[i] for i in taken)
            try:
                found = scores_of(replace(ensemble, models=models, trained=trained), series, window)
            except ValueError:  # none of these members gets so far: never to be chosen
                found = dict.fromkeys(SCORES, np.inf)
            lines.append(key | {"rule": rule} | found)
    return lines


def scores_of(ensemble: Ensemble, series: Series, window: Window) -> dict[str, float]:
    """Scores of the averaged forecast of a window, of its values that are known."""
    known = ~np.isnan(window.actual)
    ahead = ensemble.forecast(ensemble.history.future(series.horizon), Method())
    found = scored(
        window._replace(actual=window.actual[known]), at_levels(ahead)[known], series.season
    )
    scale = known.sum() * scores.naive_scale(window.past, series.season)
    return {score: ({DECIDES: found["loss"] / scale} | found)[score] for score in SCORES}


def by_series(lines: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means over origins (series, rules x scores), and which series each rule changes.

    Where a rule has no line it takes the members of the default.
    """
    parts = {
        rule: part.set_index([*KEY, "window"])[SCORES]
        for rule, part in lines.groupby("rule", sort=False)
    }
    wide = pd.concat(parts, axis=1)
    filled = pd.concat({rule: wide[rule].fillna(wide[DEFAULT]) for rule in parts}, axis=1)
    changed = wide.xs(DECIDES, axis=1, level=1).notna()
    return filled.groupby(level=KEY).mean(), changed.groupby(level=KEY).any()


# --- the command line


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="CSV files")
    parser.add_argument("--freq", nargs="+", choices=FREQUENCIES, help="of these frequencies only")
    parser.add_argument("--limit", type=int, help="first so many series of each set")
    parser.add_argument("--origins", type=int, default=5, help="at most, of each series")
    parser.add_argument("--folds", type=int, default=5, help="of the nested cross-validation")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    parser.add_argument("--rules", nargs="+", default=[], metavar="RULE", help="these only")
    parser.add_argument("--drop", action="store_true", help="show only rules whose gain is sure")
    parser.add_argument("--output", type=Path, help="CSV file for the scores of each series")
    arguments = parser.parse_args()
    for rule in arguments.rules:
        if rule not in (DEFAULT, ONLY, NONE, TWICE) and not rule.startswith(WITHOUT):
            parser.error(
                f"--rules must be {ONLY!r}, {NONE!r}, {TWICE!r} or {WITHOUT + 'KIND'!r}; got "
                f"{rule!r}. Kinds are those of the table of a run without --rules."
            )
    return arguments


def main() -> None:
    """Fit the default call at every origin, score the rules, print how the choice holds."""
    arguments = parsed()
    found = series_of(arguments.data, arguments.freq, arguments.limit)
    jobs = [(one, window) for one in found for window in origins(one, arguments.origins)]
    counts = Counter(name for name, _ in {(one.set, one.y.name) for one, _ in jobs})
    left_out = arguments.origins * len(found) - len(jobs)
    print(f"{len(jobs)} origins of {counts.total()} series; {left_out} have too little before them")
    for name in {one.set: None for one in found}:
        if counts[name] < arguments.folds:
            raise SystemExit(
                f"--folds must be at most the series of each set; got {arguments.folds} for "
                f"{counts[name]} of {name}. Give more series, or leave this set out."
            )
    done = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(evaluate)(one, window, arguments.rules) for one, window in jobs
    )
    lines = [line for part in tqdm(done, total=len(jobs), desc="origins") for line in part]
    means, changed = by_series(pd.DataFrame(lines))
    if unknown := [rule for rule in arguments.rules if rule not in changed]:
        print(f"same as the default everywhere: {', '.join(unknown)}")
    if arguments.output:
        pd.concat({rule: means[rule] for rule in changed}, names=["rule"]).to_csv(arguments.output)
    sets = list(means.groupby(level="set"))
    for name, part in [*sets, *([("all", means)] if len(sets) > 1 else [])]:
        text = table(part, changed.loc[part.index], DECIDES, arguments.drop)
        print(f"\n{name}\n{text.to_string(index=False, float_format='{:.3f}'.format)}")
    print(f"\n{DECIDES}\n{report(means.xs(DECIDES, axis=1, level=1), arguments.folds)}")


if __name__ == "__main__":
    main()
