"""Priors learned from the panel: the default forecaster with and without.

    python examples/benchmarks/pooled.py --data m3.csv.gz --freq Yearly
    python examples/benchmarks/pooled.py --data m3.csv.gz --freq Yearly --inside

The file is as for m4.py. The prior is learned from the training parts of all its series of one
frequency, the test parts are forecast with it and without; with --inside the last horizon of the
training parts takes the place of the test parts, which are not looked at. Changes of the mean
scores in percent, with the standard error of the paired mean.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from m4 import FREQUENCIES, scored, split
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, learn_prior

SCORES = ("mase", "msis")


def parts(rows, inside):
    """What is known of a series, and what is forecast."""
    y, actual = split(rows)
    return (y[: -len(actual)], y[-len(actual) :]) if inside else (y, actual)


def evaluate(y, actual, prior, period):
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ahead = Forecaster(prior=prior).fit(y).forecast(len(actual))
        except ValueError:
            return None
        return scored(actual, y, ahead, period)


def change(before, after):
    """Change of the mean in percent, and its standard error."""
    difference = 100.0 * (after - before) / before.mean()
    return f"{difference.mean():+.1f} +- {difference.std() / np.sqrt(len(difference)):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--freq", required=True, choices=list(FREQUENCIES))
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="only every so many series")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    data = pd.read_csv(arguments.data)
    data = data[data["freq"] == arguments.freq]
    groups = [rows for _, rows in data.groupby("unique_id", sort=False)][:: arguments.every]
    series = [parts(rows, arguments.inside) for rows in groups]
    period = FREQUENCIES[arguments.freq][1]
    prior = learn_prior([y for y, _ in series], n_jobs=arguments.jobs)
    print(prior)
    run = Parallel(n_jobs=arguments.jobs)
    found = [
        run(delayed(evaluate)(y, actual, one, period) for y, actual in series)
        for one in (None, prior)
    ]
    kept = [pair for pair in zip(*found, strict=True) if None not in pair]
    before, after = (pd.DataFrame(side) for side in zip(*kept, strict=True))
    changes = "; ".join(
        f"{name.upper()} {before[name].mean():.3f} -> {after[name].mean():.3f} "
        f"({change(before[name], after[name])} %)"
        for name in SCORES
    )
    covered = f"coverage {before['coverage'].mean():.3f} -> {after['coverage'].mean():.3f}"
    print(f"{arguments.data.name} {arguments.freq}, {len(kept)} series: {changes}; {covered}")


if __name__ == "__main__":
    main()
