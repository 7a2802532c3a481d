"""Coverage of a short autoregression near a unit root, with hyper-parameters estimated.

60 values of an AR(1) with coefficient .95, lags 1-2, 90 %: coverage of 10 steps on the average and
of their sum, and mean widths over those of statsmodels' AutoReg with parameters drawn from their
normal distribution.

    python examples/benchmarks/hyperparameters.py              # 200 series, two minutes
    python examples/benchmarks/hyperparameters.py --quick      # a small version
"""

import argparse

import numpy as np
import pandas as pd
from statsmodels.tsa.ar_model import AutoReg

from forecast_unc import Forecaster, GPRegressor

N, STEPS, ORDER, DRAWS = 60, 10, 2, 4000
MODELS = {
    f"{prior}, {prior_mean}": Forecaster(
        GPRegressor(prior=prior), lags=ORDER, prior_mean=prior_mean
    )
    for prior, prior_mean in (("weak", "zero"), ("weak", "last"), ("shrunk", "last"))
}


def series(seed):
    """Values to learn from, those that follow, and the generator."""
    rng = np.random.default_rng(seed)
    noise, z = rng.standard_normal(300), np.zeros(300)
    for t in range(1, 300):
        z[t] = 0.95 * z[t - 1] + noise[t]
    return pd.Series(z[-N - STEPS : -STEPS]), z[-STEPS:], rng


def judged(lower, upper, actual):
    """Whether each step and the sum, the last of each, were covered, and the widths."""
    return np.append((lower <= actual) & (actual <= upper), upper - lower)


def ours(model, y, actual):
    ahead = model.fit(y).forecast(STEPS)
    band = np.vstack([ahead.interval(0.9), ahead.aggregate("sum").interval(0.9)])
    return judged(*band.T, actual)


def autoregression(y, actual, rng):
    fitted = AutoReg(y.to_numpy(), ORDER).fit()
    parameters = rng.multivariate_normal(fitted.params, fitted.cov_params(), DRAWS)
    paths = np.tile(y.to_numpy()[-ORDER:], (DRAWS, 1))
    for _ in range(STEPS):
        last = np.column_stack([np.ones(DRAWS), paths[:, -1], paths[:, -2]])
        noise = np.sqrt(fitted.sigma2) * rng.standard_normal(DRAWS)
        new = np.einsum("ij,ij->i", last, parameters) + noise
        paths = np.column_stack([paths, new])
    paths = paths[:, ORDER:]
    paths = np.column_stack([paths, paths.sum(axis=1)])
    return judged(*np.quantile(paths, [0.05, 0.95], axis=0), actual)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 series")
    found = {name: [] for name in (*MODELS, "AutoReg")}
    for seed in range(5 if parser.parse_args().quick else 200):
        y, actual, rng = series(seed)
        actual = np.append(actual, actual.sum())
        for name, model in MODELS.items():
            found[name].append(ours(model, y, actual))
        found["AutoReg"].append(autoregression(y, actual, rng))
    means = {name: np.mean(rows, axis=0) for name, rows in found.items()}
    reference = means["AutoReg"][STEPS + 1 : -1].mean()
    print("| prior, prior mean | steps | sum | width |\n|---|---:|---:|---:|")
    for name, row in means.items():
        steps, total, width = row[:STEPS].mean(), row[STEPS], row[STEPS + 1 : -1].mean()
        print(f"| {name} | {steps:.3f} | {total:.3f} | {width / reference:.2f} |")


if __name__ == "__main__":
    main()
