"""Exact moments, the mixture and 1000 sample paths against many paths of the same model.

For each series and method: the std over that of the paths, its range over the steps and that of the
sum; the KL divergence of the normal distributions with the moments of the paths and of the method,
largest and mean over the steps and of the sum; the time; and what `Forecast.check` says. Then the
coverage of actual sums of sunspots.

    python examples/benchmarks/mixture.py
    python examples/benchmarks/mixture.py --quick   # a small version

Without --laser, the Santa Fe laser (columns t, y, is_test) is looked for in ../shared/data.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from forecast_unc import Forecaster, datasets

LASER = Path(__file__).resolve().parents[3] / "shared" / "data" / "santafe_a_laser.csv"
ONE_MODEL = {"random_state": 0}


def autoregression(n=200):
    rng, y = np.random.default_rng(0), np.zeros(n + 100)
    for t in range(2, len(y)):
        y[t] = 1.5 * y[t - 1] - 0.8 * y[t - 2] + rng.standard_normal()
    return pd.Series(y[100:])


def logistic_map(n=120):
    rng, y = np.random.default_rng(0), [0.3]
    while len(y) < n + 30:
        y.append(np.clip(3.8 * y[-1] * (1 - y[-1]) + 0.01 * rng.standard_normal(), 0.01, 0.99))
    return pd.Series(y[30:])


def cases(laser):
    """Name, fitted model and steps of each row of the table."""
    sunspots, nino = datasets.load_sunspots(), datasets.load_elnino()[-360:]
    yield "El Nino", Forecaster(lags=12, **ONE_MODEL).fit(nino), 36
    yield "sunspots", Forecaster(lags=9, **ONE_MODEL).fit(sunspots), 24
    yield "50 years earlier", Forecaster(lags=9, **ONE_MODEL).fit(sunspots[:-50]), 24
    if laser.exists():
        y = pd.read_csv(laser)["y"].astype(float)[:1000]
        yield "laser", Forecaster(lags=10, max_train=500, **ONE_MODEL).fit(y), 60
    yield "logistic map", Forecaster(lags=1, **ONE_MODEL).fit(logistic_map()), 12
    lorenz = datasets.make_lorenz(400, noise_std=0.1, random_state=0)
    yield "Lorenz", Forecaster(lags=6, **ONE_MODEL).fit(lorenz), 30
    yield "AR(2)", Forecaster(lags=2, **ONE_MODEL).fit(autoregression()), 24
    carbon = Forecaster(lags=13, differences=1, **ONE_MODEL).fit(datasets.load_co2())
    yield "carbon dioxide", carbon, 36


def divergence(paths, forecast):
    """Ratios of the stds and KL divergences, each of the steps and last of their sum."""
    paths = np.column_stack([paths, paths.sum(axis=1)])
    total = forecast.aggregate("sum")
    mean = np.append(forecast.mean, total.mean)
    std = np.append(forecast.std, total.std)
    spread, shift = paths.std(axis=0) / std, (paths.mean(axis=0) - mean) / std
    return 1.0 / spread, 0.5 * (spread**2 + shift**2 - 1.0) - np.log(spread)


def rows(name, model, steps, n_paths):
    (one,) = model.models_
    truth = one.sample_paths(one.history.future(steps), n_paths, 1)
    verdict = model.forecast(steps).check(random_state=0).verdict
    for kind in ("exact", "mixture", "monte_carlo"):
        began = time.perf_counter()
        forecast = model.forecast(steps, propagation=kind, random_state=0)
        taken = time.perf_counter() - began
        ratio, kl = divergence(truth, forecast)
        first = f"{name}, {steps}: use {verdict}" if kind == "exact" else ""
        yield (
            f"| {first} | {kind} | {ratio[:-1].min():.2f}-{ratio[:-1].max():.2f} | {ratio[-1]:.2f} "
            f"| {kl[:-1].mean():.4f} | {kl[:-1].max():.3f} | {kl[-1]:.4f} | {1000 * taken:.0f} |"
        )


def coverage(n_origins, steps=24, first=200):
    """Share of actual sums within their 80 and 95 % intervals, by propagation."""
    y = datasets.load_sunspots()
    kinds = ("exact", "mixture", "auto", "monte_carlo")
    z = {kind: [] for kind in kinds}
    used = []
    for origin in np.linspace(first, len(y) - steps, n_origins).round().astype(int):
        model = Forecaster(lags=9, **ONE_MODEL).fit(y[:origin])
        actual = y[origin : origin + steps].sum()
        for kind in kinds:
            forecast = model.forecast(steps, propagation=kind, random_state=0)
            total = forecast.aggregate("sum")
            z[kind].append((actual - total.mean.item()) / total.std.item())
            used += [forecast.propagation] if kind == "auto" else []
    for kind, values in z.items():
        held = [np.mean(np.abs(values) < norm.isf(tail)) for tail in (0.1, 0.025)]
        counts = ", ".join(f"{used.count(name)} {name}" for name in dict.fromkeys(used))
        yield (
            f"| {kind}{f' ({counts})' if kind == 'auto' else ''} | {held[0]:.0%} | {held[1]:.0%} "
            f"| {np.sqrt(np.mean(np.square(values))):.2f} |"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1000 paths, 3 origins")
    parser.add_argument("--paths", type=int, default=20_000, help="of the truth (20000)")
    parser.add_argument("--origins", type=int, default=29, help="of the sunspots (29)")
    parser.add_argument("--laser", type=Path, default=LASER, help="CSV of the laser")
    arguments = parser.parse_args()
    n_paths, origins = (1000, 3) if arguments.quick else (arguments.paths, arguments.origins)
    print("| series, steps: verdict | method | std ratio | sum | KL, mean | largest | sum | ms |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for name, model, steps in cases(arguments.laser):
        for row in rows(name, model, steps, n_paths):
            print(row, flush=True)
    print("\n| sunspots, sum of 24 years | 80 % | 95 % | rms z |\n|---|---:|---:|---:|")
    for row in coverage(origins):
        print(row, flush=True)


if __name__ == "__main__":
    main()
