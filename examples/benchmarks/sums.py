"""Steps, sums and largest values of forecasts of four maps: probabilities and coverage.

For each map and propagation: by how much P(sum > x) is off that of many sample paths of the same
model, at worst over x and series, in the mean over series, and of a normal distribution with the
moments of the forecast; the share of the paths in the band for all steps of 90 %; and the shares of
futures of the map itself that intervals of 50, 80 and 95 % of steps, sum and largest value hold.

    python examples/benchmarks/sums.py
    python examples/benchmarks/sums.py --quick   # a small version
"""

import argparse

import numpy as np
import pandas as pd
from scipy.stats import norm

from forecast_unc import Forecaster, GPRegressor

STEPS, COVERAGES = 24, (0.5, 0.8, 0.95)


def logistic(x, noise):
    return np.clip(3.8 * x[0] * (1.0 - x[0]) + 0.01 * noise, 0.01, 0.99)


def bistable(x, noise):
    return 1.5 * x[0] - 0.5 * x[0] ** 3 + 0.25 * noise


def henon(x, noise):
    return np.clip(1.0 - 1.4 * x[0] ** 2 + 0.3 * x[1] + 0.003 * noise, -1.5, 1.5)


def threshold(x, noise):
    return np.where(x[0] > 0.0, 1.5 - 0.9 * x[0], -0.5 - 0.6 * x[0]) + 0.4 * noise


MAPS = {"logistic": (logistic, 1), "bistable": (bistable, 1), "Henon": (henon, 2)}
MAPS["threshold AR"] = (threshold, 1)


def simulated(step, past, n, rng):
    """The n values that follow arrays of past ones, the last two first."""
    values = list(past)
    for _ in range(n):
        values.append(step(values[:-3:-1], rng.standard_normal(np.shape(values[-1]))))
    return np.array(values[len(past) :])


def row(step, lags, seed, n_values, n_paths):
    """Errors of P(sum > x), share of the paths in the band, shares of futures; by propagation."""
    rng = np.random.default_rng(seed)
    y = simulated(step, [np.array(0.1), np.array(0.1)], n_values + 50, rng)[50:]
    model = Forecaster(GPRegressor(), lags=lags, differences=0, transform=None, calibrate=False)
    model.fit(pd.Series(y))
    future = simulated(step, [np.full(1000, y[-2]), np.full(1000, y[-1])], STEPS, rng)
    many = model.forecast(STEPS, propagation="monte_carlo", n_samples=n_paths, random_state=1)
    paths = many.paths.to_numpy()
    p = np.arange(0.02, 1.0, 0.02)
    levels = np.quantile(paths.sum(axis=0), p)
    for ahead in (model.forecast(STEPS, propagation="mixture"), many):
        total = ahead.aggregate("sum")
        normal = norm.cdf(levels, total.mean, total.std)
        off = [np.abs(cdf - p).max() for cdf in (total.cdf(levels).iloc[0], normal)]
        band = ahead.simultaneous_interval(0.9).to_numpy().T[:, :, None]
        inside = ((band[0] <= paths) & (paths <= band[1])).all(axis=0).mean()
        shares = []
        for one, actual in (
            (ahead, future),
            (total, future.sum(axis=0, keepdims=True)),
            (ahead.aggregate("max"), future.max(axis=0, keepdims=True)),
        ):
            for coverage in COVERAGES:
                low, high = one.interval(coverage).to_numpy().T[:, :, None]
                shares.append(((low <= actual) & (actual <= high)).mean())
        yield [*off, inside, *shares]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two series of each map")
    parser.add_argument("--series", type=int, default=30, help="of each map")
    parser.add_argument("--paths", type=int, default=20000, help="of Monte Carlo")
    parser.add_argument("--length", type=int, default=200, help="of a series")
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    arguments = parser.parse_args()
    n_series, n_paths = (2, 1000) if arguments.quick else (arguments.series, arguments.paths)
    print("| map | propagation | P(sum > x) off | mean | normal | band | steps | sum | largest |")
    print("|---|---|---:|---:|---:|---:|---|---|---|")
    for name in arguments.maps:
        sizes = arguments.length, n_paths
        table = np.array([list(row(*MAPS[name], seed, *sizes)) for seed in range(n_series)])
        for i, kind in enumerate(("mixture", "monte_carlo")):
            worst, mean = table[:, i].max(axis=0), table[:, i].mean(axis=0)
            shares = [
                ", ".join(f"{share:.2f}" for share in three) for three in mean[3:].reshape(3, 3)
            ]
            print(
                f"| {name if i == 0 else ''} | {kind} | {worst[0]:.3f} | {mean[0]:.3f} "
                f"| {mean[1]:.3f} | {mean[2]:.3f} | {' | '.join(shares)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
