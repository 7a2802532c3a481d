"""Taking in new values: the Cholesky factor updated, against factorized anew.

A Gaussian process on 8 lags of a noisy sine, to which one row or ten are appended. All contenders
compute the weights, too, and take turns in one process. Then rows are appended one by one, and the
factor and predictions compared with fresh ones.

    python examples/benchmarks/update.py
    python examples/benchmarks/update.py --quick   # a small version
"""

import argparse
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from forecast_unc import GPRegressor
from forecast_unc.series.rows import lag_embedding

LAGS = tuple(range(1, 9))
THREADS = 1


def problem(n):
    """n rows, and a model of the last hundred of them."""
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(n + max(LAGS)) / 7) + 0.1 * rng.standard_normal(n + max(LAGS))
    X, y = lag_embedding(series, LAGS, np.empty((len(series), 0)))
    return GPRegressor().fit(X[-100:], y[-100:]), X, y


def timed(runs, repeats):
    """Median seconds by name; the contenders take turns."""
    seconds = {name: [] for name in runs}
    for _ in range(repeats):
        for name, (model, rows, targets) in runs.items():
            began = time.perf_counter()
            model.condition(rows, targets)
            seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def speed(n, repeats):
    unrelated, X, y = problem(n + 200)
    held = unrelated.condition(X[:n], y[:n])
    runs = {"anew": (unrelated, X[1 : n + 1], y[1 : n + 1])}
    for more in (1, 10):
        runs[more] = held, X[: n + more], y[: n + more]
    seconds = timed(runs, repeats)
    ratios = " | ".join(f"{seconds['anew'] / seconds[more]:.1f}" for more in (1, 10))
    return f"| {n} | {1e3 * seconds['anew']:.1f} | {ratios} |"


def drift(first, more):
    """Largest differences after many rows one by one: factor, mean and std."""
    model, X, y = problem(first + more + 200)
    fresh = model.condition(X[: first + more], y[: first + more])
    for n in range(first, first + more + 1):
        model = model.condition(X[:n], y[:n])
    chol = [np.tril(each.posterior_.factors[0].chol) for each in (model, fresh)]
    predictions = [each.predict(X[-100:], return_std=True) for each in (model, fresh)]
    mean, std = np.abs(np.subtract(*predictions)).max(axis=1)
    return f"{np.abs(chol[0] - chol[1]).max():.1e}, {mean:.1e} and {std:.1e}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 200, two repeats, 50 rows")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each contender")
    arguments = parser.parse_args()
    sizes, repeats, first, more = (800, 2000), arguments.repeats, 300, 500
    if arguments.quick:
        sizes, repeats, first, more = (200,), 2, 50, 50
    with threadpool_limits(THREADS):
        print("Times faster than anew, medians.\n")
        print("| n | anew, ms | 1 row more | 10 rows more |")
        print("|---:|---:|---:|---:|")
        for n in sizes:
            print(speed(n, repeats))
        print(f"\nLargest differences in factor, mean and std, {more} rows after {first}:")
        print(drift(first, more))
    return 0


if __name__ == "__main__":
    sys.exit(main())
