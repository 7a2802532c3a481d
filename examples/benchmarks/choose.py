"""Which members of the default call to average, chosen so that it holds for new series.

    python examples/benchmarks/choose.py --data m3_dev2.csv.gz tourism_dev.csv.gz --freq Quarterly

Files are those of m4.py, or gift_<task>.csv.gz beside gift_tasks.csv as of gift_eval.py. Nothing is
read of their test parts. A rule takes some of the members of ``Forecaster().fit(y)``; all rules are
scored from the same fits, at the last origins inside the training part, one horizon apart. Nested
cross-validation over series then says what the choice among the rules is worth on other series.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from gift_eval import Task, Window, at_levels, scored, times
from joblib import Parallel, delayed
from m4 import FREQUENCIES, split
from nested import COVERAGE, DECIDES, DEFAULT, add_arguments, report
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecaster, scores
from forecast_unc.distributions.forecast import forecast_of
from forecast_unc.forecasting.choose.specification import (
    CountSpecification,
    MemberSpecification,
    SmoothingSpecification,
)
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.pool.backcast import Rolling
from forecast_unc.forecasting.pool.pool import Ensemble
from forecast_unc.regression.linear import LinearRegressor

WITHOUT, SMOOTHING = "without ", "smoothing"
ONLY, NONE, TWICE = "only smoothing", "without smoothing", "smoothing twice"
SCORES = ["MASE", "MSIS", DECIDES, COVERAGE]
LEAST, SEASONS = 10, 2  # values and seasons before an origin


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
    tasks = pd.read_csv(path.parent / "gift_tasks.csv").set_index("task", drop=False)
    task = Task(*tasks.loc[path.name.removeprefix("gift_").split(".")[0]])
    data = pd.read_csv(path, dtype={"unique_id": str})
    for key, rows in data.groupby("unique_id", sort=False):
        values = rows["y"].to_numpy(np.float64)[: -task.windows * task.horizon]
        y = pd.Series(values, index=times(task, len(values)), name=key)
        yield Series(f"{task.task} {task.freq}", y, task.horizon, task.season)


def series_of(paths: Sequence[Path], freqs: Sequence[str], limit: int | None) -> list[Series]:
    """The first series of each set."""
    sets: dict[str, list[Series]] = {}
    for path in paths:
        for one in (gift if path.name.startswith("gift_") else competition)(path):
            if not freqs or one.set.split()[-1] in freqs:
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


def kinds(models: Sequence[FittedModel]) -> list[str]:
    """A short name of what each member is, the same for all series."""
    return [kind_of(member.specification) for member in models]


def kind_of(one: MemberSpecification) -> str:
    """A short name of a specification, but for how many lags there are."""
    if isinstance(one, CountSpecification):
        return "counts"
    if isinstance(one, SmoothingSpecification):
        return f"{SMOOTHING} {one.transform or 'plain'}"
    named = {one.periods[:1]: "seasonal changes", (): "levels", (1,): "changes"}
    words = [
        named.get(one.differences, "changes over the longest season"),
        {"zero": "", "last": "from the last", "seasonal": "from a season ago"}[one.prior_mean],
        one.transform or "",
        "1 lag" if len(one.lags) == 1 else "lags",
        *one.calendar,
        "linear" if isinstance(one.regressor, LinearRegressor) else "",
    ]
    return " ".join(word for word in words if word)


def members(rule: str, names: Sequence[str]) -> list[int]:
    """Places of the members that a rule takes, some twice; of all if it finds none."""
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
        own = (ONLY, NONE, TWICE, *(WITHOUT + name for name in names))
        for rule in rules or dict.fromkeys(own):
            taken = members(rule, names)
            if taken == list(range(len(names))):
                continue
            models = tuple(ensemble.models[i] for i in taken)
            trained = tuple(ensemble.trained[i] for i in taken)
            try:
                found = scores_of(
                    replace(ensemble, models=models, rolling=Rolling(trained)), series, window
                )
            except ValueError:  # none of these members gets so far: never to be chosen
                found = dict.fromkeys(SCORES, np.inf)
            lines.append(key | {"rule": rule} | found)
    return lines


def scores_of(ensemble: Ensemble, series: Series, window: Window) -> dict[str, float]:
    """Scores of the averaged forecast of a window, of its values that are known."""
    known = ~np.isnan(window.actual)
    future = ensemble.history.future(series.horizon)
    ahead = forecast_of(future.index, ensemble.predict(future, Method()))
    found = scored(
        window._replace(actual=window.actual[known]), at_levels(ahead)[known], series.season
    )
    scale = known.sum() * scores.naive_scale(window.past, series.season)
    return {score: ({DECIDES: found["loss"] / scale} | found)[score] for score in SCORES}


# --- the command line


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="CSV files")
    parser.add_argument("--freq", nargs="+", choices=FREQUENCIES, default=[], help="all by default")
    parser.add_argument("--limit", type=int, help="first so many series of each set")
    parser.add_argument("--origins", type=int, default=5, help="at most, of each series")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    parser.add_argument("--rules", nargs="+", default=[], metavar="RULE", help="these only")
    parser.add_argument("--output", type=Path, default=Path("choose_scores.csv"))
    add_arguments(parser)
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
    if not jobs:
        raise SystemExit(
            f"--data must hold series of {LEAST} values and more before an origin; got none. Give "
            "another file or --freq."
        )
    left_out = arguments.origins * len(found) - len(jobs)
    used = len({(one.set, one.y.name) for one, _ in jobs})
    print(f"{used} of {len(found)} series, {len(jobs)} origins; {left_out} have too little before")
    done = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(evaluate)(one, window, arguments.rules) for one, window in jobs
    )
    lines = [line for part in tqdm(done, total=len(jobs), desc="origins") for line in part]
    results = pd.DataFrame(lines)
    results.to_csv(arguments.output, index=False)
    if unknown := set(arguments.rules) - set(results["rule"]):
        print(f"same as the default everywhere: {', '.join(sorted(unknown))}")
    print(f"\n{report(results, arguments.folds, arguments.sure, arguments.drop)}")


if __name__ == "__main__":
    main()
