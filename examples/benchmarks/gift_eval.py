"""Tasks of GIFT-Eval by its protocol: scores, rank among the published entries, skill against time.

    python examples/benchmarks/gift_eval.py --data DIR --task all --jobs 2 --plot skill.png

DIR holds gift_tasks.csv (task, freq, start, horizon, season, windows, series, exact),
gift_leaderboard.csv (task, model, MASE, sMAPE, MSIS, WQL) and for each task gift_<task>.csv.gz
(unique_id, t, y). The last windows x horizon values of a series are the test part, cut into windows
that do not overlap; each is forecast from all that comes before it by one default call,
``Forecaster().fit(y).forecast(h)``. Rivals of statsforecast are told the seasons of the calendar.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from gift_picture import KINDS, NAIVE, OURS, PRETRAINED, draw
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecast, Forecaster, baselines, scores

COVERAGE = 0.95
# The deciles are what an entry of the benchmark hands in; the others are the ends of our interval.
LEVELS = (0.025, *(k / 10 for k in range(1, 10)), 0.975)
# pandas frequency, and the seasons that statsforecast's models are told
FREQUENCIES = {
    "Hourly": ("h", (24, 168)),
    "Daily": ("D", (7, 365)),
    "Weekly": ("W", (52,)),
    "Monthly": ("M", (12,)),
}
SCORES = ["MASE", "sMAPE", "MSIS", "WQL"]
WINDOW = ["task", "unique_id", "window"]


class Task(NamedTuple):
    """A line of gift_tasks.csv."""

    task: str
    freq: str
    start: str
    horizon: int
    season: int  # of the scale of MASE and MSIS, and of the seasonal naive forecast
    windows: int
    series: int
    exact: bool  # whether the values are those of the benchmark


class Window(NamedTuple):
    """What a forecast may know, and what followed."""

    number: int
    past: pd.Series
    actual: np.ndarray  # (horizon,)


# --- the protocol


def times(task: Task, n: int) -> pd.PeriodIndex:
    """Periods from the start of the task; weeks begin on the weekday of their first day."""
    freq, _ = FREQUENCIES[task.freq]
    if freq == "W":
        last_day = pd.Timestamp(task.start) - pd.Timedelta(days=1)
        freq = f"W-{last_day.day_name()[:3].upper()}"
    return pd.period_range(task.start, periods=n, freq=freq)


def windows(values: np.ndarray, task: Task, name: str) -> Iterator[Window]:
    """The windows of a series (n,), the earliest first."""
    y = pd.Series(values, index=times(task, len(values)), name=name)
    for number in range(task.windows):
        origin = len(y) - (task.windows - number) * task.horizon
        yield Window(number, y.iloc[:origin], values[origin : origin + task.horizon])


def scored(window: Window, quantiles: np.ndarray, season: int) -> dict[str, float]:
    """Scores of a window from the quantiles (horizon, 11) at LEVELS.

    ``MSIS 9q`` is of the interval that GluonTS makes of nine deciles, with exponential tails:
    q(.025) = q(.1) - log 4 / log 2 (q(.2) - q(.1)) = 3 q(.1) - 2 q(.2). The leaderboard has this
    one for every entry that hands in deciles, its seasonal naive forecast among them.
    """
    actual, lower, upper = window.actual, quantiles[:, 0], quantiles[:, -1]
    deciles, levels = quantiles[:, 1:-1], np.array(LEVELS[1:-1])
    median = deciles[:, 4]
    tails = 3 * deciles[:, 0] - 2 * deciles[:, 1], 3 * deciles[:, -1] - 2 * deciles[:, -2]
    scale = scores.naive_scale(window.past, season)
    below = actual[:, None] <= deciles
    loss = 2 * np.abs((actual[:, None] - deciles) * (below - levels))
    return {
        "MASE": float(np.mean(np.abs(actual - median)) / scale),
        "sMAPE": float(np.mean(scores.smape(actual, median)) / 100),
        "MSIS": float(np.mean(scores.interval_score(actual, lower, upper, COVERAGE)) / scale),
        "MSIS 9q": float(np.mean(scores.interval_score(actual, *tails, COVERAGE)) / scale),
        "coverage": float(np.mean(scores.coverage(actual, lower, upper))),
        "loss": float(loss.mean(axis=1).sum()),  # WQL = sum of loss / sum of size, all windows
        "size": float(np.abs(actual).sum()),
    }


# --- the models: quantiles (horizon, 11) at LEVELS from the past


def at_levels(ahead: Forecast) -> np.ndarray:
    return ahead.quantile(LEVELS).to_numpy()


def own(y: pd.Series, task: Task) -> np.ndarray:
    return at_levels(Forecaster().fit(y).forecast(task.horizon))


def seasonal_naive(y: pd.Series, task: Task) -> np.ndarray:
    return at_levels(baselines.SeasonalNaive(task.season).fit(y).forecast(task.horizon))


def last_value(y: pd.Series, task: Task) -> np.ndarray:
    return at_levels(baselines.SeasonalNaive(1).fit(y).forecast(task.horizon))


def nixtla(kind: str) -> Callable[[pd.Series, Task], np.ndarray]:
    """A model of statsforecast; its deciles are the ends of 20, 40, 60 and 80 % intervals."""

    def quantiles(y: pd.Series, task: Task) -> np.ndarray:
        from statsforecast import models  # not needed for --help

        _, seasons = FREQUENCIES[task.freq]
        model = getattr(models, kind)(season_length=list(seasons) if kind == "MSTL" else seasons[0])
        ends = [95, 80, 60, 40, 20]
        ahead = model.forecast(y=y.to_numpy(), h=task.horizon, level=ends[::-1])
        columns = [f"lo-{end}" for end in ends], ["mean"], [f"hi-{end}" for end in ends[::-1]]
        return np.column_stack([ahead[name] for part in columns for name in part])

    return quantiles


MODELS: dict[str, Callable[[pd.Series, Task], np.ndarray]] = {
    OURS: own,
    NAIVE: seasonal_naive,
    "last_value": last_value,
    **{name: nixtla(kind) for name, kind in KINDS.items()},
}


@cache
def warm(model: str) -> None:
    """Have a process import what a model needs before its seconds are counted."""
    task = Task("warm", "Monthly", "2000-01", 2, 12, 1, 1, True)
    t = np.arange(60)
    y = pd.Series(np.sin(t / 2) + np.cos(t**2), index=times(task, len(t)))
    MODELS[model](y, task)


def evaluate(window: Window, task: Task, names: Sequence[str]) -> list[dict[str, object]]:
    """Scores and processor seconds of each model on one window."""
    lines = []
    for name in names:
        key = {"task": task.task, "unique_id": window.past.name, "window": window.number}
        try:
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warm(name)
                started = time.process_time()
                quantiles = MODELS[name](window.past, task)
                seconds = time.process_time() - started
            result = scored(window, quantiles, task.season)
        except Exception as error:
            error.add_note(f"{name} failed at {key}")
            raise
        lines.append({**key, "model": name, **result, "seconds": seconds})
    return lines


def jobs(folder: Path, task: Task, sample: int | None = None) -> list[Window]:
    """The windows of a task, or so many of them drawn with seed 0; more include the fewer."""
    path = folder / f"gift_{task.task}.csv.gz"
    groups = pd.read_csv(path, dtype={"unique_id": str}).groupby("unique_id", sort=False)
    if groups.ngroups != task.series:
        raise ValueError(
            f"{path.name} must hold {task.series} series; got {groups.ngroups}. Ranks compare with "
            "scores of the complete set: get the complete file."
        )
    parts = [windows(rows["y"].to_numpy(np.float64), task, name) for name, rows in groups]
    every = [window for part in parts for window in part]
    if sample is None:
        return every
    return [every[k] for k in np.random.default_rng(0).permutation(len(every))[:sample]]


# --- the table


def check_once(results: pd.DataFrame) -> None:
    """Raise if a model has two lines for a window."""
    repeated = results.duplicated([*WINDOW, "model"])
    if repeated.any():
        line = results[repeated].iloc[0]
        raise ValueError(
            "results must hold a model once for each window; got "
            f"{line['model']} twice for {line['task']}, {line['unique_id']}. Leave a file out."
        )


def summary(results: pd.DataFrame, tasks: dict[str, Task], board: pd.DataFrame) -> pd.DataFrame:
    """Scores of each task and model, and their ratios to seasonal naive's on the same windows.

    Ranks among the published are of models without a missing window.
    """
    check_once(results)
    naive = results[results["model"] == NAIVE].set_index(WINDOW)
    lines = []
    for (name, model), part in results.groupby(["task", "model"], sort=False):
        of = tasks[name].windows * tasks[name].series
        line = {"task": name, "model": model, "windows": len(part), "of": of}
        line |= part[["MASE", "sMAPE", "MSIS", "MSIS 9q"]].mean()
        line["WQL"] = part["loss"].sum() / part["size"].sum()
        line |= part[["coverage", "seconds"]].mean()
        same = naive.reindex(pd.MultiIndex.from_frame(part[WINDOW]))
        for score in ("MASE", "MSIS 9q"):
            line[f"{score} / naive"] = line[score] / same[score].mean(skipna=False)
        published = board[board["task"] == name]
        for score in ("MASE", "MSIS", "MSIS 9q"):
            better = int((published[score.split()[0]] < line[score]).sum())
            line[f"rank {score}"] = 1 + better if len(part) == of else np.nan
        lines.append(line)
    return pd.DataFrame(lines)


def skill(means: pd.DataFrame, board: pd.DataFrame) -> pd.DataFrame:
    """The table of the picture: what was measured, and what pretrained models published.

    The published MSIS is of the interval from deciles, and stands under MSIS 9q.
    """
    naive = board[board["model"] == NAIVE].set_index("task")
    board = board.rename(columns={"MSIS": "MSIS 9q"}).assign(source="published")
    for score in ("MASE", "MSIS 9q"):
        board[f"{score} / naive"] = board[score] / board["task"].map(naive[score.split()[0]])
    shown = board["model"].isin(PRETRAINED) & board["task"].isin(means["task"])
    table = pd.concat([means.assign(source="measured"), board[shown]], ignore_index=True)
    return table.astype({"windows": "Int64", "of": "Int64"})


def published_lines(board: pd.DataFrame, task: str) -> pd.DataFrame:
    """The best published entries by MASE and by MSIS, chronos-2 and seasonal naive."""
    part = board[board["task"] == task].set_index("model")
    anchors = [name for name in ("chronos-2", "seasonal_naive") if name in part.index]
    sources = {name: ["published"] for name in anchors}
    for score in ("MASE", "MSIS"):
        sources.setdefault(part[score].idxmin(), ["published"]).append(f"best {score}")
    lines = part.loc[list(sources), SCORES].sort_values("MASE").reset_index()
    lines.insert(0, "task", task)
    lines["source"] = [", ".join(sources[name]) for name in lines["model"]]
    return lines


def report(means: pd.DataFrame, board: pd.DataFrame) -> str:
    """The table of all tasks, what was published below what was measured."""
    parts = [
        part
        for task, measured in means.groupby("task", sort=False)
        for part in (measured.assign(source="measured"), published_lines(board, task))
    ]
    table = pd.concat(parts)
    counts = [name for name in table if name in ("windows", "of") or name.startswith("rank")]
    table[counts] = table[counts].map(lambda count: "" if np.isnan(count) else f"{count:.0f}")
    table.insert(2, "source", table.pop("source"))
    text = table.to_string(index=False, float_format="{:#.4g}".format, na_rep="")
    entries = board.groupby("task")["model"].nunique().max()
    return (
        f"{text}\npublished scores are of all series and windows; ranks are among {entries} "
        "entries, none where windows are missing"
    )


# --- the command line


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the files")
    parser.add_argument("--task", nargs="+", default=["all"], help='names in gift_tasks.csv, "all"')
    parser.add_argument("--sample", type=int, help="so many windows a task, drawn with seed 0")
    parser.add_argument(
        "--rivals", nargs="*", default=["seasonal_naive"], choices=[m for m in MODELS if m != OURS]
    )
    parser.add_argument("--rivals-only", action="store_true", help="leave our default call out")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    parser.add_argument("--output", type=Path, default=Path("gift_scores.csv"))
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], help="outputs of earlier runs, to show beside"
    )
    parser.add_argument(
        "--plot", type=Path, help="PNG file for skill against seconds; its table is beside it"
    )
    return parser.parse_args()


def main() -> None:
    """Forecast every window, write a line a window and model, print the means, draw them."""
    arguments = parsed()
    folder = arguments.data
    rows = pd.read_csv(folder / "gift_tasks.csv").itertuples(index=False)
    tasks = {row.task: Task(*row) for row in rows}
    wanted = list(tasks) if arguments.task == ["all"] else arguments.task
    if unknown := [name for name in wanted if name not in tasks]:
        raise SystemExit(f"--task must be among {', '.join(tasks)}; got {unknown[0]}.")
    names = [*([] if arguments.rivals_only else [OURS]), *arguments.rivals]
    if find_spec("statsforecast") is None and (missing := [m for m in names if m in KINDS]):
        print(f"skipped, statsforecast is not installed: {', '.join(missing)}")
        names = [name for name in names if name not in KINDS]
    if not names and not arguments.add:
        raise SystemExit("--rivals must name a model that is installed; got none. Or --add scores.")
    earlier = [pd.read_csv(path, dtype={"unique_id": str}) for path in arguments.add]
    if names and arguments.output in arguments.add:
        raise SystemExit(
            f"--output must be a new file; got {arguments.output}, which --add reads. It would be "
            "written over: name another."
        )

    lines: list[dict[str, object]] = []
    for task in (tasks[name] for name in wanted if names):
        todo = jobs(folder, task, arguments.sample)
        done = Parallel(n_jobs=arguments.jobs, return_as="generator")(
            delayed(evaluate)(window, task, names) for window in todo
        )
        lines += [line for part in tqdm(done, total=len(todo), desc=task.task) for line in part]
        pd.DataFrame(lines).to_csv(arguments.output, index=False)  # a task that fails loses itself
    results = pd.concat([*([pd.DataFrame(lines)] if lines else []), *earlier])
    results = results[results["task"].isin(wanted)]
    board = pd.read_csv(folder / "gift_leaderboard.csv")
    means = summary(results, tasks, board)
    print(report(means, board))
    if arguments.plot:
        table = skill(means, board)
        table.to_csv(arguments.plot.with_suffix(".csv"), index=False, float_format="%.5g")
        draw(table).savefig(arguments.plot, dpi=100)


if __name__ == "__main__":
    import gift_eval  # by this name other processes find `warm` and what it has done

    gift_eval.main()
