"""Santa Fe laser, 100 steps ahead: intensities of a chaotic laser that collapse near step 60.

Series A of the Santa Fe competition: the first 1000 values are known, the next 100 are forecast by
a Gaussian process on 30 lags. The data are not part of the package: pass a CSV with the columns t,
y and is_test (0 for the 1000 known values, 1 for those to forecast).

    python examples/santa_fe.py --data santafe_a_laser.csv --output DIR
    python examples/santa_fe.py --data santafe_a_laser.csv --output DIR --quick   # a small version

Written to DIR: santa_fe.md (table), santa_fe.png. Without the data, --quick says so and succeeds.
"""

import argparse
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from forecast_unc import Forecaster, GPRegressor, plot, scores

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "santafe_a_laser.csv"
LAGS = 30
MONTE_CARLO = "Monte Carlo, path-conditioned"


def read(path):
    table = pd.read_csv(path)
    y = pd.Series(table["y"].to_numpy(dtype=float), table["t"].to_numpy(), name="laser intensity")
    later = table["is_test"].to_numpy() == 1
    return y[~later], y[later]


def forecasts(model, steps, n_samples):
    """Forecast by name of the method, or the message of the error."""
    methods = {
        "naive": {"propagation": "naive"},
        "Taylor": {"propagation": "taylor"},
        "exact, classic": {"path_consistent": False},
        "exact": {},
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


def table(ahead, actual):
    lines = [
        "|  | NLPD (nats) | coverage of the 95 % band | CRPS | RMSE |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, forecast in ahead.items():
        if isinstance(forecast, str):
            lines.append(f"| {name} | refused: {forecast} | | | |")
            continue
        row, band = forecast.score(actual), forecast.interval(0.95)
        inside = scores.coverage(actual, band["lower"], band["upper"]).mean()
        lines.append(
            f"| {name} | {row['nlpd'].mean():.2f} | {100 * inside:.0f} % | "
            f"{row['crps'].mean():.1f} | {np.sqrt((row['error'] ** 2).mean()):.1f} |"
        )
    return "\n".join(lines)


def draw(ahead, history, actual, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawn = [name for name in ("naive", "exact", MONTE_CARLO) if name in ahead]
    figure, axes = plt.subplots(
        len(drawn), 1, figsize=(9, 2.9 * len(drawn)), sharex=True, sharey=True
    )
    for axis, name, color in zip(axes, drawn, plot.COLORS, strict=False):
        label = name.partition(",")[0]
        plot.fan(ahead[name], (0.5, 0.95), history=history, ax=axis, color=color, label=label)
        axis.plot(actual.index, actual, "o", color="black", ms=2.5, zorder=4, label="actual")
        axis.set(xlabel="", ylabel="laser intensity")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False, fontsize=9)
    axes[-1].set_xlabel("sample")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, metavar="CSV")
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="the last 300 values, 30 steps")
    parser.add_argument("--linear", action="store_true", help="the regressor's default linear term")
    parser.add_argument("--noise", default="process", help="as Forecaster takes it")
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
    if args.quick:
        past, actual, args.samples = past[-300:], actual[:30], 50
    # The laser is bounded: far from the data the mean function should return to the mean.
    model = Forecaster(GPRegressor(linear=args.linear), lags=LAGS, noise=args.noise).fit(past)
    ahead = forecasts(model, len(actual), args.samples)
    text = (
        f"{len(past)} values, the next {len(actual)}, {LAGS} lags; "
        f"log evidence {model.models_[0].regressor.log_evidence_:.1f}.\n\n{table(ahead, actual)}\n"
    )
    (args.output / "santa_fe.md").write_text(text, encoding="utf-8")
    draw(ahead, past[-60:], actual, args.output / "santa_fe.png")
    print(text)


if __name__ == "__main__":
    main()
