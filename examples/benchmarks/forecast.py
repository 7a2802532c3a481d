"""A forecast of 100 steps: exact moments against 1000 sample paths of the same model.

A Gaussian process on 16 lags of 1000 values of a noisy Mackey-Glass series. The classic recursion
takes the function's error as new at every step; the path-consistent one, the default, keeps one
function for the whole horizon. Both in closed form and by Monte Carlo, the latter with functions
drawn as a whole and with paths that condition on their own past, in one process in turns of random
order. The closed form pays for its inverse of K in every repeat, though a model keeps it between
forecasts. At the end the moments of the two kinds of paths, in their Monte Carlo errors.

    python examples/benchmarks/forecast.py
    python examples/benchmarks/forecast.py --quick   # a small version
"""

import argparse
import sys
import time
from dataclasses import fields, replace

import numpy as np
from threadpoolctl import threadpool_limits

from forecast_unc import GPRegressor
from forecast_unc.datasets import make_mackey_glass
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.gaussian import propagate
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel, Past
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.series.rows import lag_embedding

LAGS = tuple(range(1, 17))


class Conditioned(KernelPosterior):
    """A posterior that draws no functions: paths condition on their own past."""

    def function_sample(self, n_paths, rng):
        return None


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
    for name, kind in (
        ("classic", "Monte Carlo"),
        ("path-consistent", "functions drawn"),
        ("path-consistent", "conditioned"),
    ):
        exact, sampled = seconds[f"{name}, exact"], seconds[f"{name}, {kind}"]
        lines.append(
            f"| {name}, {kind} | {np.median(exact):.3f} | {np.median(sampled):.2f} | "
            f"{np.median(sampled) / np.median(exact):.1f} | {sampled.min() / exact.min():.1f} |"
        )
    slow, fast = (
        seconds[f"path-consistent, {kind}"] for kind in ("conditioned", "functions drawn")
    )
    ratios = np.median(slow) / np.median(fast), slow.min() / fast.min()
    lines.append("\nconditioned over drawn: {:.1f} (medians), {:.1f} (minima)".format(*ratios))
    return "\n".join(lines)


def moments(paths):
    """Mean, log std and their errors of every step, and of the sum of all; each (h + 1,)."""
    values = np.vstack([paths, paths.sum(axis=0)])
    n, mean, std = values.shape[1], values.mean(axis=1), values.std(axis=1)
    kurtosis = (((values.T - mean) / std) ** 4).mean(axis=0)
    return mean, np.log(std), std / np.sqrt(n), 0.5 * np.sqrt((kurtosis - 1.0) / n)


def agreement(drawn, conditioned):
    """How far the moments of two sets of paths lie apart, in Monte Carlo errors of both."""
    ours, theirs = moments(drawn), moments(conditioned)
    lines = []
    for name, i in (("mean", 0), ("std", 1)):
        away = (ours[i] - theirs[i]) / np.hypot(ours[i + 2], theirs[i + 2])
        rms = np.sqrt(np.mean(away[:-1] ** 2))
        lines.append(
            f"{name}: {rms:.2f} errors (rms over the steps), {np.abs(away[:-1]).max():.1f} at "
            f"most, {away[-1]:+.1f} for the sum"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 200, 10 steps, two repeats")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each contender")
    parser.add_argument("--threads", type=int, default=2, help="BLAS threads")
    arguments = parser.parse_args()
    n, steps, paths, repeats = 1000, 100, 1000, arguments.repeats
    if arguments.quick:
        n, steps, paths, repeats = 200, 10, 200, 2
    threads = arguments.threads
    print(f"{steps} steps, n = {n}, {len(LAGS)} lags, {threads} threads, {repeats} repeats\n")
    with threadpool_limits(threads):
        posterior, history = problem(n)
        conditioned = Conditioned(**{f.name: getattr(posterior, f.name) for f in fields(posterior)})
        n = len(history)
        past = Past(history, np.zeros(n), np.empty((n, 0)), np.ones(n, dtype=bool))

        def run(propagation, path_consistent, posterior=posterior, seed=0):
            # a copy, without the inverse of K that an earlier one kept
            model = OneStepModel(replace(posterior), LAGS, Differencing((), 0.0, 1.0))
            method = Method(propagation, path_consistent, paths, seed)
            return propagate(model, past, Future(np.empty((steps, 0))), method)

        seconds = timed(
            {
                "classic, exact": lambda: run("exact", False),
                "classic, Monte Carlo": lambda: run("monte_carlo", False),
                "path-consistent, exact": lambda: run("exact", True),
                "path-consistent, functions drawn": lambda: run("monte_carlo", True),
                "path-consistent, conditioned": lambda: run("monte_carlo", True, conditioned),
            },
            repeats,
        )
        drawn = run("monte_carlo", True, seed=1).paths
        others = run("monte_carlo", True, conditioned, seed=2).paths
    print(table(seconds, paths))
    print(agreement(drawn, others))
    return 0


if __name__ == "__main__":
    sys.exit(main())
