"""Missing values: left missing, or interpolated before the fit; forecasts and bands of both.

From each of many origins in a bundled series 10 % of the history is removed at random, and a block
of 20 values: just before the origin, or ending 4 values before it. The next 12 values are
forecast from three histories: the complete one, the one with its missing values left missing (NaN:
nothing is filled), and the one with them interpolated linearly, which repeats the last value
where nothing was observed after it. Two models: 3 lags and a calendar, and the automatic choice.

    python examples/missing.py --output DIR                  # 39 origins in the El Nino series
    python examples/missing.py --output DIR --series co2     # 30 in the carbon dioxide of the air
    python examples/missing.py --output DIR --quick          # a small version, in seconds

Written to DIR: missing.md (tables), missing.csv (a row each forecast value), missing.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, datasets, plot, scores

STEPS, BLOCK, SHARE = 12, 20, 0.1
SPACING = 11  # months between origins, so that they fall into all months
SERIES = {"elnino": (datasets.load_elnino, 300), "co2": (datasets.load_co2, 120)}
GAPS = {"up to the origin": 0, "up to 4 values before the origin": 4}
# Each missing value removes one row more than there are lags: few lags, the year as a calendar.
FEW = Forecaster(lags=3, seasonal_period=12, calendar="fourier", max_train=400)
MODELS = {"3 lags and calendar": FEW, "automatic": Forecaster()}
COMPLETE, MISSING, INTERPOLATED = "complete", "left missing", "interpolated"


def with_gaps(y, after, rng):
    """A tenth of the values removed, and a block that ends `after` values before the end."""
    holed = y.mask(rng.random(len(y)) < SHARE)
    end = len(y) - after
    holed.iloc[end - BLOCK : end] = np.nan
    holed.iloc[end:] = y.iloc[end:]
    return holed


def one_origin(y, origin, models):
    """Scores of every forecast from one origin, a row each value."""
    past, actual = y.iloc[:origin], y.iloc[origin : origin + STEPS]
    rows = []
    with threadpool_limits(1):
        for gap, after in GAPS.items():
            holed = with_gaps(past, after, np.random.default_rng([origin, after]))
            histories = {COMPLETE: past, MISSING: holed, INTERPOLATED: holed.interpolate()}
            for model, forecaster in models.items():
                for name, history in histories.items():
                    ahead = forecaster.fit(history).forecast(STEPS)
                    rows.append(scored(ahead, actual).assign(gap=gap, model=model, history=name))
    return pd.concat(rows).assign(origin=origin)


def scored(ahead, actual):
    table = pd.DataFrame({"step": np.arange(1, STEPS + 1)}, index=actual.index)
    table["crps"] = ahead.score(actual)["crps"]
    for percent in (80, 95):
        band = ahead.interval(percent / 100)
        table[f"in_{percent}"] = scores.coverage(actual, band["lower"], band["upper"])
        table[f"width_{percent}"] = band["upper"] - band["lower"]
    return table


def markdown(frame, unit):
    """A row for each gap, model and history; errors are standard errors over the origins."""
    yield (
        f"| block of {BLOCK} | model | history | CRPS ({unit}) | in 80 % band | in 95 % band "
        f"| in 95 % band, step 1 | width of 95 % band, step 1 | step {STEPS} |"
    )
    yield "|---|---|---|" + "---:|" * 6
    for key, rows in frame.groupby(["gap", "model", "history"], sort=False):
        by_origin = rows.groupby("origin")[["crps", "in_80", "in_95"]].mean()
        mean, error = by_origin.mean(), by_origin.sem()
        first, last = rows[rows["step"] == 1], rows[rows["step"] == STEPS]
        cells = [
            f"{mean['crps']:.2f} ± {error['crps']:.2f}",
            f"{100 * mean['in_80']:.0f} ± {100 * error['in_80']:.0f} %",
            f"{100 * mean['in_95']:.0f} ± {100 * error['in_95']:.0f} %",
            f"{100 * first['in_95'].mean():.0f} %",
            f"{first['width_95'].mean():.2f}",
            f"{last['width_95'].mean():.2f}",
        ]
        yield "| " + " | ".join([*key, *cells]) + " |"


def bridge(holed, after):
    """Distribution of the missing block: a forecast through it, given the observations after it."""
    before = holed.iloc[: len(holed) - after - BLOCK]
    through = FEW.fit(holed).apply(before).forecast(BLOCK + after)
    return through.condition(holed.iloc[len(holed) - after :]) if after else through


def draw_bands(ax, forecast, color, label):
    for coverage in (0.95, 0.8):
        band = forecast.interval(coverage)
        ax.fill_between(band.index, band["lower"], band["upper"], color=color, alpha=0.25, lw=0)
    ax.plot(forecast.index, forecast.mean, color=color, label=label)


def draw(y, origin, path):
    mpl.use("Agg")
    import matplotlib.dates as mdates
    import matplotlib.pyplot as plt

    past, actual = y.iloc[:origin], y.iloc[origin : origin + STEPS]
    figure, axes = plt.subplots(2, 2, figsize=(11, 6.2), sharex=True, sharey=True)
    for (left, right), (gap, after) in zip(axes, GAPS.items(), strict=True):
        holed = with_gaps(past, after, np.random.default_rng([origin, after]))
        filled = holed.interpolate()
        recent = past.index[-BLOCK - max(GAPS.values()) - 18 :]
        draw_bands(left, bridge(holed, after), "0.5", "missing block: mean, 80 % and 95 %")
        right.plot(recent, filled[recent], ":", color="0.4", label="interpolated")
        for ax, history, color in ((left, holed, plot.COLORS[1]), (right, filled, plot.COLORS[0])):
            ahead = FEW.fit(history).forecast(STEPS)
            name = MISSING if history is holed else INTERPOLATED
            draw_bands(ax, ahead, color, f"forecast, {name}: mean, 80 % and 95 %")
            ax.plot(recent, holed[recent], "o-", color="black", ms=3, lw=1, label="observed")
            unseen = pd.concat([past[recent][holed[recent].isna()], actual])
            ax.plot(unseen.index, unseen, "x", color="black", ms=4, label="removed or future")
            ax.axvline(past.index[-1], color="0.6", lw=0.8)
            ax.set_title(f"{name}; block {gap}", fontsize="medium")
        left.set_ylabel(f"{y.name}, {y.attrs['unit']}")
        left.xaxis.set_major_locator(mdates.YearLocator())
        left.xaxis.set_major_formatter(mdates.DateFormatter("%Y"))
    entries = {
        label: handle
        for ax in axes[0]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    figure.legend(
        entries.values(), entries, ncols=3, loc="upper center", frameon=False, fontsize="small"
    )
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="2 origins")
    parser.add_argument("--series", choices=SERIES, default="elnino")
    parser.add_argument("--n-jobs", type=int, default=2, help="worker processes")
    args = parser.parse_args()
    load, first = SERIES[args.series]
    y = load()
    origins = list(range(first, len(y) - STEPS + 1, SPACING))
    if args.quick:
        origins, args.n_jobs = origins[:2], 1
    results = Parallel(n_jobs=args.n_jobs)(
        delayed(one_origin)(y, origin, MODELS) for origin in origins
    )
    frame = pd.concat(results)
    table = "\n".join(markdown(frame, y.attrs["unit"]))
    text = f"{args.series}, {len(origins)} origins, {STEPS} steps.\n\n{table}\n"
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "missing.md").write_text(text, encoding="utf-8")
    frame.to_csv(args.output / "missing.csv", index_label="time", float_format="%.6g")
    draw(y, origins[len(origins) // 2], args.output / "missing.png")
    print(text)


if __name__ == "__main__":
    main()
