"""Pictures of the guides, each drawn from what the Python of its page has computed.

The blocks of docs/guides/NAME.md are run, outputs aside, and the names they leave are drawn.

    python examples/guides.py --output docs/img            # all, half a minute
    python examples/guides.py --output docs/img --only year

Written to DIR: guide_NAME.png, and of load guide_load_coverage.png.
"""

import argparse
import doctest
import io
import os
import re
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from forecast_unc import plot
from forecast_unc.distributions.picture import finish

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUICK = "year"
BLUE, RED, GREEN = plot.COLORS[:3]


def computed(guide):
    """Names that the Python of a page leaves."""
    page = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    names, here = {"__name__": "__main__"}, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:  # for the files that the page writes
        os.chdir(folder)
        try:
            for block in FENCE.findall(page):
                for example in doctest.DocTestParser().get_examples(block):
                    exec(example.source, names)
        finally:
            os.chdir(here)
    return names


def title(ax, text):
    ax.set_title(text, loc="left", fontsize="medium")


def days(ax, interval=1):
    from matplotlib.dates import DateFormatter, DayLocator

    ax.xaxis.set_major_locator(DayLocator(interval=interval))
    ax.xaxis.set_major_formatter(DateFormatter("%d %b"))


def draw_shop(names, figure):
    from matplotlib.dates import MO, DateFormatter, WeekdayLocator

    ahead, order, bread = names["ahead"], names["order"], names["bread"]
    past = bread["sold"][-42:]
    ax = figure.subplots()
    ahead.plot(past, coverage=(0.5, 0.9), ax=ax)
    ax.plot(order.index, order, "_", ms=7, mew=2, color=RED, label="order")
    plan = names["plan"]["promotion"]
    promoted = pd.concat([bread["promotion"][-42:], plan])
    low, high = 0, 1.12 * max(order.max(), past.max())
    for first in promoted.index[promoted.diff().fillna(promoted) > 0]:
        run = promoted[first:]
        length = int((run == 0).argmax()) or len(run)
        ax.axvspan(
            first - pd.Timedelta("12h"),
            first + pd.Timedelta(days=length - 0.5),
            color="#E69F00",
            alpha=0.15,
            lw=0,
            label="promotion" if "promotion" not in ax.get_legend_handles_labels()[1] else None,
        )
    feast = pd.Timestamp("2026-05-01")
    ax.annotate(
        "May Day",
        (feast, order[feast]),
        (feast, 0.9 * high),
        ha="center",
        fontsize="small",
        arrowprops={"arrowstyle": "-", "color": "0.4"},
    )
    ax.set(ylim=(low, high), ylabel="loaves a day")
    finish(ax, ahead.index)
    ax.xaxis.set_major_locator(WeekdayLocator(MO))
    ax.xaxis.set_major_formatter(DateFormatter("%d %b"))
    ax.set_xlabel("Mondays of 2026")


def draw_price(names, figure):
    from matplotlib.dates import DateFormatter, MonthLocator

    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    names["what_if"].plot(names["coffee"]["sold"][-26:], ax=left)
    left.set_ylabel("packs a week")
    names["change"].plot(coverage=(0.5, 0.9), ax=right, color="0.2")
    right.axhline(0, color="black", lw=0.8)
    right.set_ylabel("plan less base")
    for ax in (left, right):
        ax.xaxis.set_major_locator(MonthLocator(interval=2 if ax is left else 1))
        ax.xaxis.set_major_formatter(DateFormatter("%b %Y" if ax is left else "%b"))


def draw_load(names, figure):
    from matplotlib.dates import DateFormatter, HourLocator

    ahead, y = names["ahead"], names["y"]
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    ahead.plot(y[-96:], coverage=(0.5, 0.9), ax=top)
    top.axhline(1000, color=RED, ls="--", label="capacity")
    top.set_ylabel("kW")
    finish(top, ahead.index)
    above = names["above"]
    below.fill_between(above.index, above, step="mid", color=RED, alpha=0.5, lw=0)
    below.set(ylabel="P(above)", ylim=(0, None))
    below.grid(color="0.9")
    below.xaxis.set_major_locator(HourLocator(range(0, 24, 12)))
    below.xaxis.set_major_formatter(DateFormatter("%a %H:%M"))


def draw_load_coverage(names, figure):
    axes = figure.subplots(1, 2, sharey=True)
    for ax, model in zip(axes, ("forecast_unc", "four lags"), strict=True):
        names["result"].plot_coverage(lambda times: times.hour // 3 * 3, model, ax=ax, legend=False)
        title(ax, model)
        ax.set_xlabel("first of three hours")
    axes[1].set_ylabel("")
    entries = axes[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside upper left", ncols=4, fontsize="small", frameon=False)


def draw_panel(names, figure):
    frame, ahead = names["frame"], names["ahead"].set_index("item")
    kinds = ("regular", "regular", "rare", "rare", "new", "new")
    axes = figure.subplots(2, 3, sharex=True)
    for ax, item, kind in zip(axes.T.flat, names["shown"], kinds, strict=True):
        past = frame[frame["item"] == item].set_index("month")["sold"][-24:]
        ax.plot(past.index, past, ".-", color="black", lw=0.8, ms=4)
        row = ahead.loc[item]
        low, mean, high = (row[f"forecast_unc{end}"] for end in ("-lo-90", "", "-hi-90"))
        ax.errorbar(
            [row["month"]], [mean], [[mean - low], [high - mean]], fmt="o", ms=4, color=BLUE
        )
        top = 1.05 * max(past.max(), high)
        ax.set_ylim(-0.03 * top, top)
        title(ax, f"{item}, {kind}")
        ax.grid(color="0.9", lw=0.8)
    for ax in axes[1]:
        from matplotlib.dates import DateFormatter, YearLocator

        ax.xaxis.set_major_locator(YearLocator())
        ax.xaxis.set_major_formatter(DateFormatter("%Y"))
        ax.set_xlim(pd.Timestamp("2023-09-15"), pd.Timestamp("2025-11-15"))
    figure.supylabel("pieces a month", fontsize="medium")


def draw_year(names, figure):
    from matplotlib.dates import DateFormatter, MonthLocator

    then, brought = names["then"], names["y"]["2024"]
    rows = {pd.Timestamp("2023-12-01"): then.aggregate("sum")}
    for month in brought.index[:-1]:
        known = brought[:month]
        rows[month] = then.condition(known).aggregate("sum") + known.sum()
    ax = figure.subplots()
    times = [*rows]
    for coverage in (0.95, 0.8, 0.5):
        ends = np.array([one.interval(coverage).to_numpy()[0] for one in rows.values()])
        ax.fill_between(times, *ends.T, color=BLUE, alpha=0.2, lw=0)
    for depth, coverage in enumerate((95, 80, 50), start=1):
        ax.fill([], [], color=BLUE, alpha=1 - 0.8**depth, lw=0, label=f"{coverage} %")
    ax.plot(times, [one.mean.item() for one in rows.values()], "o-", ms=4, color=BLUE, label="mean")
    ax.axhline(brought.sum(), color="black", ls="--", label="total in the end")
    ax.set(ylabel="total of 2024, thousands", xlabel="last month known")
    finish(ax)
    ax.xaxis.set_major_locator(MonthLocator())
    ax.xaxis.set_major_formatter(DateFormatter("%b"))


def draw_sensor(names, figure):
    from matplotlib.dates import DateFormatter, HourLocator

    axes = figure.subplots(1, 2, sharey=True)
    forecasts = {'noise="auto"': names["ahead"], "noise of the process": names["plain"]}
    for ax, (kind, ahead) in zip(axes, forecasts.items(), strict=True):
        ahead.plot(names["y"][-48:], coverage=(0.5, 0.95), ax=ax)
        ax.plot(names["actual"], color=GREEN, lw=1.5, ls="--", label="temperature")
        ax.axhline(75, color=RED, lw=1, label="limit")
        title(ax, kind)
        ax.get_legend().remove()
        ax.set_ylabel("")
        ax.xaxis.set_major_locator(HourLocator(range(0, 24, 6)))
        ax.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes[0].set_ylabel("°C")
    entries = axes[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside upper left", ncols=6, fontsize="small", frameon=False)


def draw_nightly(names, figure):
    log = names["log"]
    ax = figure.subplots()
    ax.fill_between(
        log.index, log["lower"], log["upper"], step="mid", color=BLUE, alpha=0.25, lw=0,
        label="99.5 % band of each night",
    )  # fmt: skip
    fine, alerts = log[~log["alert"]], log[log["alert"]]
    ax.plot(fine.index, fine["value"], "o", ms=4, color="black", label="orders")
    ax.plot(alerts.index, alerts["value"], "X", ms=9, color=RED, label="alert")
    ax.set_ylabel("orders a day")
    finish(ax)
    days(ax, 4)


def draw_choosing(names, figure):
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    left, right, below = (figure.add_subplot(grid[at]) for at in ((0, 0), (0, 1), (1, slice(2))))
    names["result"].plot_calibration(ax=left)
    handles, labels = left.get_legend_handles_labels()
    finish(left, handles=handles[:3], labels=labels[:3])  # the models are named on the right
    names["result"].plot_errors("CRPS", ax=right)
    right.set_ylim(0, None)
    names["result"].plot_coverage("step", ax=below)
    below.set_xlabel("months ahead")


SIZES = {
    "shop": (7.2, 3.6),
    "price": (7.6, 3.2),
    "load": (7.2, 4.0),
    "load_coverage": (7.2, 3.2),
    "panel": (7.2, 3.8),
    "year": (7.2, 3.2),
    "sensor": (7.6, 3.4),
    "nightly": (7.2, 3.0),
    "choosing": (8.0, 6.6),
}


def write(description, sizes, quick, kind, draw):
    """The command line of a script that draws pictures of pages: a PNG each."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--only", choices=sizes, help=f"one {kind}")
    parser.add_argument("--quick", action="store_true", help=f"the {kind} {quick} alone")
    args = parser.parse_args()
    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    args.output.mkdir(parents=True, exist_ok=True)
    only = args.only or (quick if args.quick else None)
    for page in [only] if only else sizes:
        figure = plt.figure(figsize=sizes[page], layout="constrained", facecolor="white")
        draw(page, figure)
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=110)
        plt.close(figure)
        few = Image.open(drawn).convert("RGB").quantize(64)  # colors: a third of the bytes
        few.save(args.output / f"{kind}_{page}.png", optimize=True)


def main():
    def draw(guide, figure):
        globals()[f"draw_{guide}"](computed(guide.split("_")[0]), figure)

    write(__doc__.splitlines()[0], SIZES, QUICK, "guide", draw)


if __name__ == "__main__":
    main()
