"""A forecast of 100 steps: exact moments against 1000 sample paths of the same model.

A Gaussian process on 16 lags of 1000 values of a noisy Mackey-Glass series. The classic recursion
takes the function's error as new at every step; the path-consistent one, the default, keeps one
function for the whole horizon. Both in closed form and by Monte Carlo, in one process in turns of
random order. The closed form pays for its inverse of K in every repeat, though a model keeps it
between forecasts.

    python examples/benchmarks/forecast.py
    python examples/benchmarks/forecast.py --quick   # a small version
"""

import argparse
import sys
import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from forecast_unc import GPRegressor
from forecast_unc.datasets import make_mackey_glass
from forecast_unc.forecasting.embedding import lag_embedding
from forecast_unc.forecasting.propagation import propagate

LAGS = tuple(range(1, 17))
THREADS = 2


def problem(n):
    """A posterior on n pairs, and the history."""
    series = make_mackey_glass(n + max(LAGS)).to_numpy()
    series = (series - series.mean()) / series.std()
    series += np.sqrt(0.001) * np.random.default_rng(0).standard_normal(len(series))
    X, y = lag_embedding(series, LAGS, np.empty((len(series), 0)))
    few = min(n, 300)  # enough to learn the hyper-parameters, which do not matter here
    return GPRegressor().fit(X[-few:], y[-few:]).condition(X, y).posterior_, series


def timed(runs, repeats):
    """Seconds of every repeat, by name; the contenders take turns."""
    seconds = {name: [] for name in runs}
    rng = np.random.default_rng(0)
    for _ in range(repeats):
        for name in rng.permutation(list(runs)):
            time.sleep(0.05)  # until idle BLAS threads of the one before have stopped spinning
            began = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - began)
    return {name: np.array(values) for name, values in seconds.items()}


def table(seconds, paths):
    lines = [
        f"| | exact, s | {paths} paths, s | paths over exact, medians | minima |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in ("classic", "path-consistent"):
        exact, sampled = seconds[f"{name}, exact"], seconds[f"{name}, Monte Carlo"]
        lines.append(
            f"| {name} | {np.median(exact):.3f} | {np.median(sampled):.2f} | "
            f"{np.median(sampled) / np.median(exact):.1f} | {sampled.min() / exact.min():.1f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 200, 10 steps, two repeats")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each contender")
    arguments = parser.parse_args()
    n, steps, paths, repeats = 1000, 100, 1000, arguments.repeats
    if arguments.quick:
        n, steps, paths, repeats = 200, 10, 200, 2
    print(f"{steps} steps, n = {n}, {len(LAGS)} lags, {THREADS} threads, {repeats} repeats\n")
    with threadpool_limits(THREADS):
        posterior, history = problem(n)

        def run(propagation, path_consistent):
            return propagate(
                replace(posterior),  # a copy, without the inverse of K that an earlier one kept
                LAGS,
                history,
                np.empty((steps, 0)),
                propagation=propagation,
                path_consistent=path_consistent,
                n_samples=paths,
                random_state=0,
            )

        seconds = timed(
            {
                "classic, exact": lambda: run("exact", False),
                "classic, Monte Carlo": lambda: run("monte_carlo", False),
                "path-consistent, exact": lambda: run("exact", True),
                "path-consistent, Monte Carlo": lambda: run("monte_carlo", True),
            },
            repeats,
        )
    print(table(seconds, paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
