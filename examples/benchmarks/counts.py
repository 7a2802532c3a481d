"""Demand with many zeros: the default call beside TSB, ADIDA and Croston of statsforecast.

    python examples/benchmarks/counts.py --data DATA/carparts_dev.csv.gz

Quantiles .5, .8, .9, .95 and .99 of each month and of the sum of all: pinball loss over the mean
demand; those of the other methods are of a negative binomial with their mean and, over it, the
variance that the series has over its mean.
"""

import argparse
import time

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster

LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
OTHERS = {
    "TSB .1": ("TSB", {"alpha_d": 0.1, "alpha_p": 0.1}),
    "TSB .2": ("TSB", {"alpha_d": 0.2, "alpha_p": 0.2}),
    "ADIDA": ("ADIDA", {}),
    "Croston SBA": ("CrostonSBA", {}),
}
COLUMNS = ("pinball", "of the sum", "bias", "up to the 95 % quantile", "seconds")


def pinball(actual: np.ndarray, quantiles: np.ndarray) -> float:
    error = np.asarray(actual)[..., None] - quantiles
    return float(np.maximum(LEVELS * error, (LEVELS - 1) * error).mean())


def negative_binomial(mean: float, ratio: float) -> np.ndarray:
    """Quantiles of a mean and a variance of `ratio` times it."""
    if ratio <= 1.001:
        return stats.poisson.ppf(LEVELS, mean)
    return stats.nbinom.ppf(LEVELS, mean / (ratio - 1.0), 1.0 / ratio)


def scores(
    y: np.ndarray, actual: np.ndarray
) -> list[tuple[str, float, float, float, float, float]]:
    from statsforecast import models

    unit, h, found = max(y.mean(), 0.05), len(actual), []
    ratio = y.var(ddof=1) / y.mean() if y.any() else 1.0
    series = pd.Series(y, index=pd.period_range("2000-01", periods=len(y), freq="M"))
    start = time.perf_counter()
    with threadpool_limits(1):
        ahead = Forecaster().fit(series).forecast(h)
    each, total = ahead.quantile(LEVELS).to_numpy(), ahead.aggregate("sum").quantile(LEVELS)
    seconds = time.perf_counter() - start
    rows = [("forecast_unc", each, total.to_numpy()[0], ahead.mean.mean(), seconds)]
    for name, (kind, settings) in OTHERS.items():
        start = time.perf_counter()
        model = getattr(models, kind)(**settings)
        mean = max(float(model.forecast(y=y, h=1)["mean"][0]), 1e-3)
        seconds = time.perf_counter() - start
        one, six = (negative_binomial(k * mean, ratio) for k in (1, h))
        rows.append((name, np.tile(one, (h, 1)), six, mean, seconds))
    for name, each, total, mean, seconds in rows:
        of_sum = pinball(actual.sum(), total) / unit / h
        held = float(np.mean(actual <= each[:, 3]))
        bias = (mean - actual.mean()) / unit
        found.append((name, pinball(actual, each) / unit, of_sum, bias, held, seconds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="unique_id, y, is_test")
    parser.add_argument("--inside", action="store_true", help="six months before the training end")
    parser.add_argument("--every", type=int, default=1, help="every so many series")
    parser.add_argument("--jobs", type=int, default=-1)
    args = parser.parse_args()
    cases = []
    for _, one in list(pd.read_csv(args.data).groupby("unique_id"))[:: args.every]:
        y, test = one["y"].to_numpy(float), one["is_test"].to_numpy(bool)
        split = int((~test).sum()) - 6 * args.inside
        cases.append((y[:split], y[split : split + 6]))
    found = Parallel(args.jobs)(delayed(scores)(*case) for case in cases)
    rows = pd.DataFrame([row for rows in found for row in rows], columns=("method", *COLUMNS))
    table = rows.groupby("method", sort=False).mean()
    print(f"{len(cases)} series")
    print(table.round(3).to_string())
    own = rows[rows["method"] == "forecast_unc"].reset_index(drop=True)
    for name in OTHERS:
        other = rows[rows["method"] == name].reset_index(drop=True)
        for column in COLUMNS[:2]:
            gain = own[column] - other[column]
            share, error = gain.mean(), gain.std() / len(gain) ** 0.5
            print(f"{column} against {name}: {share / other[column].mean():+.1%}", end="")
            print(f", standard error {error / other[column].mean():.1%}")


if __name__ == "__main__":
    main()
