"""A backtest without refits against as many separate forecasts from the same fit.

A Gaussian process on lags of a noisy Mackey-Glass series. Separate: `model.apply(history)` and
`forecast(steps)` for each origin. The backtest (`refit=False, between_fits="apply"`) propagates all
origins together and scores them, too; its fit, which both share, is timed by itself. Both
propagate exactly, in one process on one BLAS thread. The stds of both are compared.

    python examples/benchmarks/backtest.py
    python examples/benchmarks/backtest.py --lags 3 --noise 0.05
    python examples/benchmarks/backtest.py --quick   # a small version
"""

import argparse
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, GPRegressor, backtest
from forecast_unc.datasets import make_mackey_glass


class Fitted(Forecaster):
    """A forecaster whose `fit` takes a fit that was made before."""

    made: Forecaster

    def fit(self, y, exog=None, y_std=None):
        self.ensemble_ = self.made.apply(y).ensemble_
        return self


def compared(n, origins, steps, lags, noise):
    """Seconds of the fit, the separate forecasts and the backtest, and how far apart they are."""
    series = make_mackey_glass(n + lags + origins + steps, noise_std=noise, random_state=0)
    began = time.perf_counter()
    model = Forecaster(GPRegressor(tol=1e-6), lags=lags).fit(series.iloc[: n + lags])
    fit = time.perf_counter() - began
    Fitted.made = model
    model.forecast(1)
    model.forecast(2)  # keeps the inverse of K, which all later ones share

    began = time.perf_counter()
    ends = range(n + lags, n + lags + origins)
    alone = [model.apply(series.iloc[:end]).forecast(steps) for end in ends]
    separate = time.perf_counter() - began

    began = time.perf_counter()
    result = backtest(
        Fitted(lags=lags),
        series.iloc[: n + lags + origins - 1 + steps],
        steps,
        n_origins=origins,
        step=1,
        refit=False,
        between_fits="apply",
    )
    together = time.perf_counter() - began
    std = result.frame["std"].to_numpy().reshape(origins, steps)
    apart = np.abs(std / np.array([one.std for one in alone]) - 1.0).max()
    return fit, separate, together, apart


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 rows, 6 origins, 8 steps, 3 lags")
    parser.add_argument("--n", type=int, default=1000, help="training rows")
    parser.add_argument("--origins", type=int, default=200)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--lags", type=int, nargs="+", default=[3, 16])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0073, 0.05], help="noise std")
    given = parser.parse_args()
    lags, noises, sizes = given.lags, given.noise, (given.n, given.origins, given.steps)
    if given.quick:
        lags, noises, sizes = [3], [0.05], (100, 6, 8)
    n, origins, steps = sizes
    print(f"{origins} origins, {steps} steps, n = {n}, one thread\n")
    print("| lags | noise std | fit, s | separate, s | backtest, s | ratio | stds apart |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    with threadpool_limits(1):
        for d in lags:
            for noise in noises:
                fit, separate, together, apart = compared(n, origins, steps, d, noise)
                print(
                    f"| {d} | {noise:g} | {fit:.2f} | {separate:.2f} | {together:.2f} | "
                    f"{together / separate:.2f} | {apart:.0e} |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
