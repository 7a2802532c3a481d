"""Santa Fe laser, 100 steps ahead: intensities of a chaotic laser that collapse near step 60.

Series A of the Santa Fe competition: the first 1000 values are known, the next 100 are forecast by
a Gaussian process on lagged values. Lags, noise, transform and propagation are chosen by forecasts
of 100 steps from five origins among the 1000 (500, 600, ..., 900), each learned from all values
before; the choice is then compared with the plain model at the end. The data are not part of the
package: pass a CSV with the columns t, y and is_test (0 for the 1000 known values, 1 for those to
forecast).

    python examples/santa_fe.py --data santafe_a_laser.csv --output DIR
    python examples/santa_fe.py --data santafe_a_laser.csv --output DIR --quick   # a small version

Written to DIR: santa_fe.md (tables), santa_fe.png. Without the data, --quick says so and succeeds.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from forecast_unc import Forecaster, GPRegressor, plot, scores

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "santafe_a_laser.csv"
ORIGINS = (500, 600, 700, 800, 900)
NOISES = ("process", "observation", "both")
MONTE_CARLO = "Monte Carlo, path-conditioned"


def read(path):
    table = pd.read_csv(path)
    y = pd.Series(table["y"].to_numpy(dtype=float), table["t"].to_numpy(), name="laser intensity")
    later = table["is_test"].to_numpy() == 1
    return y[~later], y[later]


def fitted(y, lags, noise="process", transform=None, linear=False):
    # The laser is bounded: far from the data the mean function should return to the mean.
    regressor = GPRegressor(linear=linear)
    return Forecaster(regressor, lags=lags, noise=noise, transform=transform).fit(y)


def scored(forecast, actual, variance):
    """Averages over the steps; squared errors in units of a variance."""
    rows, band = forecast.score(actual), forecast.interval(0.95)
    return {
        "NLPD": rows["nlpd"].mean(),
        "of the mean": (rows["error"] ** 2).mean() / variance,
        "of the median": ((actual - forecast.median) ** 2).mean() / variance,
        "in 95 % band": scores.coverage(actual, band["lower"], band["upper"]).mean(),
        "CRPS": rows["crps"].mean(),
    }


def inside(y, origins, steps, all_lags, linear):
    """Scores by setting and origin."""
    rows = []
    for transform, noise, lags, origin in product((None, "boxcox"), NOISES, all_lags, origins):
        model = fitted(y.iloc[:origin], lags, noise, transform, linear)
        for propagation in ("exact", "mixture"):
            ahead = model.forecast(steps, propagation=propagation)
            setting = {
                "transform": transform or "none",
                "noise": noise,
                "lags": lags,
                "propagation": propagation,
            }
            figures = scored(ahead, y.iloc[origin : origin + steps], y.var(ddof=0))
            rows.append({**setting, "origin": origin, **figures})
    return pd.DataFrame(rows)


def averaged(frame):
    """A row for each setting, the lowest average NLPD first."""
    keys = ["transform", "noise", "lags", "propagation"]
    by_origin = frame.pivot_table(index=keys, columns="origin", values="NLPD")
    figures = frame.drop(columns=["origin", "CRPS"]).groupby(keys).mean()
    return by_origin.add_prefix("from ").join(figures).sort_values("NLPD")


def inside_table(averages):
    digits = {column: 2 for column in averages if column.startswith("from ")}
    columns = {**digits, "NLPD": 2, "of the mean": 2, "of the median": 2, "in 95 % band": 2}
    lines = [
        f"| transform | noise | lags | propagation | {' | '.join(columns)} |",
        f"|---|---|---:|---|{'---:|' * len(columns)}",
    ]
    for setting, row in averages.iterrows():
        numbers = [f"{row[column]:.{d}f}" for column, d in columns.items()]
        lines.append(f"| {' | '.join(map(str, setting))} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def forecasts(model, steps, n_samples):
    """Forecast by name of the method, or the message of the error."""
    methods = {
        "naive": {"propagation": "naive"},
        "Taylor": {"propagation": "taylor"},
        "exact, classic": {"path_consistent": False},
        "exact": {},
        "mixture": {"propagation": "mixture"},
    }
    if n_samples:
        methods[MONTE_CARLO] = {
            "propagation": "monte_carlo",
            "n_samples": n_samples,
            "random_state": 0,
        }
    ahead = {}
    for name, options in methods.items():
        try:
            ahead[name] = model.forecast(steps, **options)
        except ValueError as error:
            if name != "Taylor" or "variance" not in str(error):
                raise
            ahead[name] = str(error).partition(". ")[0]  # a negative variance
    return ahead


def table(ahead, actual, variance):
    lines = [
        "|  | NLPD (nats) | squared error of the mean | of the median | in 95 % band | CRPS |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, forecast in ahead.items():
        if isinstance(forecast, str):
            lines.append(f"| {name} | refused: {forecast} | | | | |")
            continue
        row = scored(forecast, actual, variance)
        lines.append(
            f"| {name} | {row['NLPD']:.2f} | {row['of the mean']:.3g} | "
            f"{row['of the median']:.3g} | {100 * row['in 95 % band']:.0f} % | {row['CRPS']:.1f} |"
        )
    return "\n".join(lines)


def draw(shown, history, actual, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(shown), 1, figsize=(9, 2.9 * len(shown)), sharex=True, sharey=True
    )
    for axis, (label, forecast), color in zip(axes, shown.items(), plot.COLORS, strict=False):
        plot.fan(forecast, (0.5, 0.95), history=history, ax=axis, color=color, label=label)
        axis.plot(actual.index, actual, "o", color="black", ms=2.5, zorder=4, label="actual")
        axis.set(xlabel="", ylabel="laser intensity", ylim=(-60, 400))
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False, fontsize=9)
    axes[-1].set_xlabel("sample")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, metavar="CSV")
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="the last 300 values, 30 steps")
    parser.add_argument("--lags", type=int, nargs="+", default=[16, 32, 40], help="to choose from")
    parser.add_argument("--linear", action="store_true", help="the regressor's default linear term")
    parser.add_argument("--samples", type=int, default=1000, help="Monte Carlo paths, 0 for none")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    if not args.data.is_file():
        absent = f"The Santa Fe data are not at {args.data}: pass --data CSV. Nothing was forecast."
        if not args.quick:
            sys.exit(absent)
        (args.output / "santa_fe.md").write_text(absent + "\n", encoding="utf-8")
        print(absent)
        return
    past, actual = read(args.data)
    origins = ORIGINS
    if args.quick:
        past, actual, origins = past[-300:], actual[:30], (150,)
        args.lags, args.samples = [6], 50
    variance, steps = past.var(ddof=0), len(actual)
    averages = averaged(inside(past, origins, steps, args.lags, args.linear))
    transform, noise, lags, propagation = averages.index[0]
    text = [f"From {len(origins)} origins inside:\n\n{inside_table(averages)}\n"]
    print(text[0], flush=True)
    models = {
        f"plain, {max(args.lags)} lags": fitted(past, max(args.lags), linear=args.linear),
        f"chosen: {', '.join(map(str, averages.index[0]))}": fitted(
            past, lags, noise, None if transform == "none" else transform, args.linear
        ),
    }
    shown = {}
    for name, model in models.items():
        ahead = forecasts(model, steps, args.samples)
        evidence = model.models_[0].regressor.log_evidence_
        text.append(f"{name}; log evidence {evidence:.1f}:\n\n{table(ahead, actual, variance)}\n")
        print(text[-1], flush=True)
        if not shown:
            shown = {"plain, naive": ahead["naive"], "plain, exact": ahead["exact"]}
        else:
            shown[f"chosen, {propagation}"] = ahead[propagation]
    (args.output / "santa_fe.md").write_text("\n".join(text), encoding="utf-8")
    draw(shown, past[-60:], actual, args.output / "santa_fe.png")


if __name__ == "__main__":
    main()
