"""All rows of a long series against the last 800, and reduced rank against the exact process.

1. Victoria electricity by the hour (`--data`: a CSV file with the columns Time and Demand, every
   half hour): the default call from rolling origins, learned from all rows and from the last 800.
2. One default call on a simulated series of hours: seconds of processor time and peak memory, in a
   process of its own.
3. `ReducedRankGPRegressor` with 300 centers on all rows against `GPRegressor` on as many of the
   last as take a few minutes: Mackey-Glass with noise, and the half hours of Victoria. The CRPS of
   24 steps from rolling origins, each model fitted once, and the seconds of its fit.

    python examples/benchmarks/long_series.py --data vic_electricity_halfhourly.csv.gz
    python examples/benchmarks/long_series.py --quick   # a small version, without data
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, GPRegressor, ReducedRankGPRegressor, datasets, scores

STEPS, SEASON, COVERAGE = 48, 24, 0.95


def demand(path):
    """Half-hourly demand; clock changes are taken for no gap."""
    y = pd.read_csv(path)["Demand"].to_numpy(float)
    return pd.Series(y, pd.date_range("2012-01-01", periods=len(y), freq="30min"))


def scored(y, origin, ahead):
    actual = y.iloc[origin : origin + STEPS].to_numpy()
    scale = scores.naive_scale(y.iloc[:origin], SEASON)
    lower, upper = ahead.interval(COVERAGE).to_numpy().T
    return {
        "MASE": np.mean(np.abs(actual - ahead.median.to_numpy())) / scale,
        "MSIS": np.mean(scores.interval_score(actual, lower, upper, COVERAGE)) / scale,
        "CRPS": ahead.score(y.iloc[origin : origin + STEPS])["crps"].mean() / scale,
        "coverage": np.mean(scores.coverage(actual, lower, upper)),
    }


def all_rows(y, n_origins):
    print(f"\n## {len(y)} hours, {n_origins} origins, {STEPS} steps\n")
    print("| learned from | MASE | MSIS | CRPS | coverage | seconds |")
    print("|---|---:|---:|---:|---:|---:|")
    found = {}
    origins = np.linspace(len(y) // 2, len(y) - STEPS, n_origins).astype(int)
    for name, max_train in (("the last 800 rows", 800), ("all rows", None)):
        started, lines = time.process_time(), []
        for origin in origins:
            model = Forecaster(max_train=max_train).fit(y.iloc[:origin])
            lines.append(scored(y, origin, model.forecast(STEPS)))
        found[name] = pd.DataFrame(lines)
        mean = found[name].mean()
        seconds = (time.process_time() - started) / n_origins
        print(f"| {name} | {' | '.join(f'{v:.3f}' for v in mean)} | {seconds:.1f} |")
    few, many = found.values()
    change = np.log(many["CRPS"] / few["CRPS"])
    error = change.std() / np.sqrt(n_origins)
    print(f"\nCRPS of all rows: {100 * change.mean():+.1f} +- {100 * error:.1f} %, by origin.")


def simulated_hours(n):
    """A day, a week and a year in noise that has a memory."""
    t, rng = np.arange(n), np.random.default_rng(0)
    cycles = sum(a * np.sin(2 * np.pi * t / p) for a, p in ((20, 24), (10, 168), (15, 8766)))
    noise, last = np.empty(n), 0.0
    for i, e in enumerate(3.0 * rng.standard_normal(n)):
        noise[i] = last = 0.9 * last + e
    return pd.Series(200 + cycles + noise, pd.date_range("2010-01-01", periods=n, freq="h"))


def one_call(n):
    """Processor time of a default call on n hours, and the peak memory of this process."""
    y = simulated_hours(n)
    started = time.process_time()
    Forecaster().fit(y).forecast(STEPS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {n} | {time.process_time() - started:.1f} | {peak:.0f} |")


def against_exact(name, y, lags, n_exact, n_support, n_origins):
    """CRPS from the last origins of an exact process on the last rows and of one of all rows."""
    origins = np.linspace(len(y) - 24 * n_origins, len(y) - 24, n_origins).astype(int)
    GPRegressor.most_rows = None  # of this process: it is asked for
    models = {
        f"exact, last {n_exact} rows": Forecaster(GPRegressor(), lags, max_train=n_exact),
        f"{n_support} centers, all rows": Forecaster(
            ReducedRankGPRegressor(n_support=n_support, objective="bound", search_rows=10_000), lags
        ),
    }
    for label, model in models.items():
        started = time.process_time()
        fitted = model.fit(y.iloc[: origins[0]])
        seconds = time.process_time() - started
        values = []
        for origin in origins:
            ahead = fitted.apply(y.iloc[:origin]).forecast(24)
            values.append(ahead.score(y.iloc[origin : origin + 24])["crps"].mean())
        print(f"| {name} | {label} | {np.mean(values):.4g} | {seconds:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="half-hourly demand; left out without it")
    parser.add_argument("--quick", action="store_true", help="a small version")
    parser.add_argument("--origins", type=int, default=20)
    parser.add_argument("--exact", type=int, default=2000, help="rows of the exact process")
    parser.add_argument("--parts", default="1,2,3", help="which of the three")
    parser.add_argument("--rows", type=int, help="one call on so many rows; used by this script")
    arguments = parser.parse_args()
    if arguments.rows:
        return one_call(arguments.rows)
    parts, quick = arguments.parts.split(","), arguments.quick
    with threadpool_limits(1):
        if "1" in parts and arguments.data:
            y = demand(arguments.data).resample("h").mean()
            all_rows(y, 2 if quick else arguments.origins)
        if "2" in parts:
            print("\n## One default call\n\n| rows | seconds | MB |\n|---:|---:|---:|", flush=True)
            for n in (2000,) if quick else (10_000, 100_000):
                subprocess.run([sys.executable, __file__, "--rows", str(n)], check=True)
        if "3" in parts:
            print("\n## Against the exact process\n\n| series | model | CRPS | seconds |")
            print("|---|---|---:|---:|", flush=True)
            n, exact, m = (1500, 200, 20) if quick else (20_000, arguments.exact, 300)
            chaos = datasets.make_mackey_glass(n, noise_std=0.05, random_state=0)
            against_exact("Mackey-Glass", chaos, 16, exact, m, 3 if quick else 40)
            if arguments.data:
                y, lags = demand(arguments.data), (*range(1, 7), 47, 48, 49, 335, 336, 337)
                against_exact("Victoria", y, lags, exact, m, 3 if quick else 40)
    return None


if __name__ == "__main__":
    main()
