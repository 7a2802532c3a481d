"""Skill against time on the tasks of GIFT-Eval: MASE over seconds, the published scores apart.

    python examples/benchmarks/gift_picture.py --data DIR --scores ours.csv rivals.csv

The scores are outputs of gift_eval.py, from one machine. What the leaderboard has was made on other
machines, so its scores stand in a strip beside each panel, not on the axis of seconds.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator
from scipy.optimize import isotonic_regression

from forecast_unc import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS = "forecast_unc"
# published entries with a name in the strip, beside the best one
PRETRAINED = ("chronos-2", "TiRex", "Toto-2.0-2.5B", "TimesFM-2.5", "Moirai2")
ANCHORS = (*PRETRAINED, "auto_arima", "auto_ets", "auto_theta", "seasonal_naive")
MARKERS = "sDo^vP"  # with a color each; ours is a black star
LONGEST = 20  # letters of a name


def check_once(results: pd.DataFrame) -> None:
    """Raise if a model has two lines for a window."""
    repeated = results.duplicated(["task", "unique_id", "window", "model"])
    if repeated.any():
        line = results[repeated].iloc[0]
        raise ValueError(
            "results must hold a model once for each window; got "
            f"{line['model']} twice for {line['task']}, {line['unique_id']}. Leave a file out."
        )


def placed_apart(values: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Positions (n,) at least ``gap`` apart, closest to ascending ``values`` in least squares.

    p_i - p_(i-1) >= gap says that p_i - i gap does not fall: an isotonic regression.
    """
    steps = gap * np.arange(len(values))
    rising = isotonic_regression(values - steps).x
    return np.clip(rising, low, high - steps[-1]) + steps


def draw_published(strip: "Axes", published: pd.Series, low: float, high: float) -> None:
    """A line for each published score between the limits, and the names of some."""
    strip.set_facecolor("0.94")
    strip.tick_params(left=False, labelleft=False, which="both")
    strip.set(xlim=(0, 1), xticks=[], xlabel=f"published ({len(published)})")
    strip.hlines(published[published <= high], 0.03, 0.14, color="0.55", lw=0.8)
    best = str(published.idxmin())
    named = published.reindex([best, *(name for name in ANCHORS if name != best)])
    named = named[named <= high].sort_values()
    strip.hlines(named, 0.03, 0.19, color="black", lw=1.4)
    heights = np.log(named.to_numpy() / low) / np.log(high / low)
    leader = {"arrowstyle": "-", "lw": 0.6, "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 0}
    for name, height in zip(named.index, placed_apart(heights, 0.08, 0.05, 0.95), strict=True):
        label = strip.annotate(
            name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…",
            (0.19, named[name]),
            (0.28, height),
            textcoords="axes fraction",
            fontsize=8,
            va="center",
            arrowprops=leader,
        )
        label.set_in_layout(False)


def draw_measured(ax: "Axes", means: pd.DataFrame, models: list[str]) -> None:
    """A point for each model, the same marker in all panels."""
    rivals = [name for name in models if name != OURS]
    styles = dict(zip(rivals, zip(MARKERS, plot.COLORS, strict=True), strict=False))
    for name in models:
        marker, color = styles.get(name, ("*", "black"))
        size = 14 if name == OURS else 8
        x, y = means.reindex([name])[["seconds", "MASE"]].to_numpy().T
        ax.plot(x, y, marker, c=color, ms=size, mec="black", label=name)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="processor seconds a forecast, one core", ylabel="MASE, log scale")
    ax.grid(axis="y", color="0.9")


def draw_task(
    ax: "Axes", strip: "Axes", means: pd.DataFrame, models: list[str], published: pd.Series
) -> None:
    """The panel of a task and its strip, on one scale of MASE.

    Entries above all that is measured or has a name are left out.
    """
    low = min(means["MASE"].min(), published.min())
    high = max(means["MASE"].max(), published.reindex(ANCHORS).max())
    margin = (high / low) ** 0.08
    draw_measured(ax, means, models)
    for each in (ax, strip):
        each.set(yscale="log", ylim=(low / margin, high * margin))
        each.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        each.yaxis.set_major_formatter("{x:.4g}")
        each.yaxis.set_minor_locator(NullLocator())
    if OURS in means.index:
        for each, end in ((ax, 1), (strip, 0.19)):  # up to the names
            each.axhline(means["MASE"][OURS], 0, end, color="black", lw=0.8, ls="--", zorder=1.6)
    draw_published(strip, published, low / margin, high * margin)


def draw(results: pd.DataFrame, full: dict[str, int], board: pd.DataFrame) -> Figure:
    """A panel for each task; a model is in it if none of its ``full[task]`` windows is missing."""
    check_once(results)
    grouped = results.groupby(["task", "model"], sort=False)
    means, counts = grouped[["MASE", "seconds"]].mean(), grouped.size()
    means = means[[count == full[task] for (task, _), count in counts.items()]]
    if means.empty:
        raise ValueError(
            "results must hold a model with all windows of a task; got none. The published scores "
            "are of all series and windows: run without --limit and --windows, or without --plot."
        )
    tasks, models = (list(dict.fromkeys(means.index.get_level_values(level))) for level in (0, 1))
    models.sort(key=lambda name: name != OURS)
    columns = min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(6.6 * columns, 3.6 * rows + 0.6), layout="constrained")
    grid = figure.add_gridspec(rows, columns)
    for cell, task in enumerate(tasks):
        pair = grid[divmod(cell, columns)].subgridspec(1, 2, width_ratios=(3, 2))
        ax, strip = pair.subplots()
        published = board[board["task"] == task].set_index("model")["MASE"]
        draw_task(ax, strip, means.loc[task], models, published)
        ax.set_xlim(means["seconds"].min() / 2, means["seconds"].max() * 2)
        ax.set_title(task, loc="left")
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4 * columns,  # more are wider than the figure
        title="measured on one machine",
        frameon=False,
    )
    return figure


def main() -> None:
    """Read the scores, draw them, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with gift_tasks.csv")
    parser.add_argument("--scores", type=Path, nargs="+", required=True, help="of gift_eval.py")
    parser.add_argument("--output", type=Path, default=Path("gift_skill.png"), help="PNG file")
    arguments = parser.parse_args()

    tasks = pd.read_csv(arguments.data / "gift_tasks.csv").set_index("task")
    results = pd.concat([pd.read_csv(path) for path in arguments.scores])
    board = pd.read_csv(arguments.data / "gift_leaderboard.csv")
    full = (tasks["windows"] * tasks["series"]).to_dict()
    draw(results, full, board).savefig(arguments.output, dpi=110)


if __name__ == "__main__":
    main()
