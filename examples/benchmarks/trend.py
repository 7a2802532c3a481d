"""Differences of a series with a trend: how often bands hold, and at which score.

Monthly series with a level, a slope (constant, or a random walk) and a fixed season, 144 values to
learn from and 24 to forecast.

    python examples/benchmarks/trend.py [--quick]
"""

import argparse

import numpy as np
import pandas as pd

from forecast_unc import Forecaster

STEPS, ROWS = 24, 144
MODELS = {
    "12": {"lags": 12, "differences": 12},
    "12, calibrated": {"lags": 12, "differences": 12, "calibrate": True},
    "(1, 12)": {"lags": 12, "differences": (1, 12)},
    "1, calendar": {"lags": 12, "differences": 1, "calendar": "fourier"},
    "automatic": {},
}


def simulated(slope_std, rng):
    n = ROWS + STEPS
    slope = 0.3 + np.cumsum(slope_std * rng.standard_normal(n))
    level = 100 + np.cumsum(slope + 0.5 * rng.standard_normal(n))
    season = rng.normal(0, 3, 12)
    season -= season.mean()
    values = level + season[np.arange(n) % 12] + 0.5 * rng.standard_normal(n)
    return pd.Series(values, index=pd.date_range("2010-01-01", periods=n, freq="MS"))


def scores(model, y):
    """CRPS, and the share of values in the 95 and 80 % bands."""
    ahead, actual = model.fit(y[:-STEPS]).forecast(STEPS), y[-STEPS:]
    inside = [actual.between(*ahead.interval(c).T.to_numpy()).mean() for c in (0.95, 0.8)]
    return [ahead.score(actual)["crps"].mean(), *inside]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="4 series, without the automatic choice"
    )
    parser.add_argument("--series", type=int, default=100)
    args = parser.parse_args()
    models = {name: settings for name, settings in MODELS.items() if settings or not args.quick}
    print("| slope | differences | in 95 % band | in 80 % band | CRPS |\n|---|---|---:|---:|---:|")
    for label, slope_std in (("constant", 0.0), ("random walk", 0.05)):
        for name, settings in models.items():
            rows = [
                scores(Forecaster(**settings), simulated(slope_std, np.random.default_rng(seed)))
                for seed in range(4 if args.quick else args.series)
            ]
            crps, wide, narrow = np.mean(rows, axis=0)
            print(f"| {label} | {name} | {wide:.2f} | {narrow:.2f} | {crps:.2f} |", flush=True)


if __name__ == "__main__":
    main()
