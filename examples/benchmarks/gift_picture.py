"""Skill against time on tasks of GIFT-Eval: scores over seasonal naive's, the published ones apart.

    python examples/benchmarks/gift_picture.py examples/benchmarks/skill.csv --output skill.png

The table is what ``gift_eval.py --plot`` writes beside its picture. What the leaderboard has was
made on other machines: its scores stand in a strip beside each panel, not on the axis of seconds.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from scipy.optimize import isotonic_regression

from forecast_unc import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, NAIVE = "forecast_unc", "seasonal_naive"
# names in statsforecast
KINDS = {"autoets": "AutoETS", "autoarima": "AutoARIMA", "autotheta": "AutoTheta", "mstl": "MSTL"}
# published entries in the strip
PRETRAINED = ("chronos-2", "TiRex", "Toto-2.0-2.5B", "TimesFM-2.5", "Moirai2")
PANELS = {
    "MASE / naive": "MASE, of the median",
    "MSIS 9q / naive": "MSIS, of the 95 % interval",
}
MARKERS = "sDo^vP"  # with a color each; ours is a black star
STEPS = np.array([1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 5, 6, 7, 8, 9])  # ticks of a decade


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """Geometric means of ratios and seconds over the tasks that every measured model has.

    Index (source, model); an entry that lacks one of these tasks is left out. ``partial`` says
    whether windows of a task are missing.
    """
    measured = table[table["source"] == "measured"]
    counts = measured.groupby("task")["model"].nunique()
    tasks = counts.index[counts == measured["model"].nunique()]
    if tasks.empty:
        raise ValueError(
            "table must have a task that every measured model has; got none. Leave a model out."
        )
    shared = table[table["task"].isin(tasks)].set_index(["source", "model"])
    if shared[list(PANELS)].isna().any(axis=None):
        raise ValueError(
            f"table must have ratios to {NAIVE} of every model; got missing ones. Score {NAIVE} on "
            "the same windows."
        )
    grouped = np.log(shared[[*PANELS, "seconds"]]).groupby(level=[0, 1], sort=False)
    missing = (shared["windows"] < shared["of"]).groupby(level=[0, 1], sort=False)
    means = np.exp(grouped.mean()).assign(partial=missing.any(), tasks=len(tasks))
    return means[grouped.size() == len(tasks)]


def placed_apart(values: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Positions (n,) at least ``gap`` apart, closest to ascending ``values`` in least squares.

    p_i - p_(i-1) >= gap says that p_i - i gap does not fall: an isotonic regression.
    """
    steps = gap * np.arange(len(values))
    rising = isotonic_regression(values - steps).x
    return np.clip(rising, low, high - steps[-1]) + steps


def draw_published(strip: "Axes", published: pd.Series) -> None:
    """A line for each published score, and its name."""
    strip.set_facecolor("0.94")
    strip.tick_params(left=False, labelleft=False, which="both")
    strip.set(xlim=(0, 1), xticks=[], xlabel="published,\nother machines")
    if published.empty:
        return
    published = published.sort_values()
    strip.hlines(published, 0, 0.14, color="black", lw=1.4)
    low, high = strip.get_ylim()
    heights = np.log(published.to_numpy() / low) / np.log(high / low)
    leader = {"arrowstyle": "-", "lw": 0.6, "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 0}
    for (name, value), height in zip(
        published.items(), placed_apart(heights, 0.07, 0.05, 0.95), strict=True
    ):
        label = strip.annotate(
            name,
            (0.14, value),
            (0.22, height),
            textcoords="axes fraction",
            fontsize=8,
            va="center",
            arrowprops=leader,
        )
        label.set_in_layout(False)


def draw_measured(ax: "Axes", measured: pd.DataFrame, score: str) -> None:
    """A point for each model, the same marker in all panels, hollow where windows are missing."""
    models = sorted(measured.index, key=lambda name: name != OURS)
    rivals = [name for name in models if name != OURS]
    styles = dict(zip(rivals, zip(MARKERS, plot.COLORS, strict=True), strict=False))
    for name in models:
        marker, color = styles.get(name, ("*", "black"))
        line = measured.loc[name]
        ax.plot(
            line["seconds"],
            line[score],
            marker,
            ms=14 if name == OURS else 8,
            mfc="white" if line["partial"] else color,
            mec=color if line["partial"] else "black",
            mew=1.8 if line["partial"] else 1,
            label=KINDS.get(name, name) + (", some windows" if line["partial"] else ""),
        )
    seconds = measured["seconds"]
    ax.set(xscale="log", xlim=(seconds.min() / 2, seconds.max() * 2))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("seconds a forecast,\nmeasured on one core")


def scale_ratios(ax: "Axes", low: float, high: float) -> None:
    """A logarithmic axis of ratios, with a line at 1."""
    margin = max((high / low) ** 0.08, 1.02)  # all ratios may be 1
    ax.set(yscale="log", ylim=(low / margin, high * margin))
    ax.yaxis.set_major_locator(FixedLocator(np.outer([0.01, 0.1, 1, 10], STEPS).ravel()))
    ax.yaxis.set_major_formatter("{x:.3g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color="0.85")
    ax.set_axisbelow(True)
    ax.axhline(1, color="black", lw=0.8, ls=":")


def draw(table: pd.DataFrame) -> Figure:
    """A panel for the median and one for the interval, each with its strip of published scores."""
    means = relative(table)
    measured = means.loc["measured"].drop(index=NAIVE, errors="ignore")
    if measured.empty:
        raise ValueError(f"table must have a measured model beside {NAIVE}; got none.")
    published = means[means.index.get_level_values("source") == "published"].droplevel("source")
    figure = Figure(figsize=(8.6, 3.7), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=(3, 1.35, 3, 1.35))
    for score, ax, strip in zip(PANELS, axes[::2], axes[1::2], strict=True):
        every = [*measured[score], *published[score], 1.0]
        for each in (ax, strip):
            scale_ratios(each, min(every), max(every))
        draw_measured(ax, measured, score)
        ax.annotate(
            "seasonal naive", (0.98, 1), (0, -3), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", va="top", fontsize=8,
        )  # fmt: skip
        if OURS in measured.index:
            for each, end in ((ax, 1), (strip, 0.14)):  # up to the names
                ours = measured[score][OURS]
                each.axhline(ours, 0, end, color="black", lw=0.8, ls="--", zorder=1.6)
        draw_published(strip, published[score])
        ax.set_title(PANELS[score], loc="left", fontsize=10)
    tasks = int(means["tasks"].iloc[0])
    axes[0].set_ylabel(f"ratio to seasonal naive, {tasks} tasks")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(measured),
        frameon=False,
    )
    return figure


def main() -> None:
    """Read the table, draw it, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path, help="CSV file that gift_eval.py --plot wrote")
    parser.add_argument("--output", type=Path, default=Path("skill.png"), help="PNG file")
    arguments = parser.parse_args()
    draw(pd.read_csv(arguments.table)).savefig(arguments.output, dpi=100)


if __name__ == "__main__":
    main()
