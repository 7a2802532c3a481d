"""Adaptive length-scales: Mackey-Glass, 16 lags, 6 steps ahead (Quinonero-Candela & Hansen 2002).

The target is y(t + 6) itself, forecast directly from y(t), ..., y(t - 15): nothing is iterated.
700 training rows (`--rows`) of the series with tau = 17, one value a unit of time; the 2000 rows
that follow are for the test, against the series without noise. Noise is in standard deviations of
the series. "Unit width" is a length-scale of 1 in units of the inputs (4.4 of their standard
deviations), or of 1 standard deviation; the other rows begin where their names say. The normalized
mean squared error is divided by the variance of the series.

    python examples/benchmarks/rvm_adaptive.py [--quick]
"""

import argparse
import time

import numpy as np

from forecast_unc import GPRegressor, RVMRegressor, datasets

LAGS, AHEAD, TEST = 16, 6, 2000


def lagged(series):
    """Rows of 16 lags, latest first, and the value 6 steps after the latest."""
    n = len(series) - LAGS - AHEAD + 1
    X = np.column_stack([series[LAGS - 1 - j :][:n] for j in range(LAGS)])
    return X, series[LAGS - 1 + AHEAD :]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="150 rows, the cheap rows of the table"
    )
    parser.add_argument("--rows", type=int, default=700)
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    arguments = parser.parse_args()
    n = 150 if arguments.quick else arguments.rows
    clean = np.asarray(datasets.make_mackey_glass(n + TEST + LAGS + AHEAD - 1))
    std = clean.std()
    methods = {
        "unit width": RVMRegressor(lengthscales=1.0),
        "unit width (std)": RVMRegressor(lengthscales=std),
        "default width": RVMRegressor(),
        "adaptive from unit": RVMRegressor(lengthscales=1.0, adapt_lengthscales=True),
        "adaptive from unit (std)": RVMRegressor(lengthscales=std, adapt_lengthscales=True),
        "adaptive from default": RVMRegressor(adapt_lengthscales=True),
        "adaptive, 3 restarts": RVMRegressor(adapt_lengthscales=True, n_restarts=3),
        "GP": GPRegressor(),
    }
    if arguments.quick:
        methods = {name: methods[name] for name in ("unit width", "adaptive from default")}
    print(
        f"{'noise':>5} {'method':>24} {'test MSE':>9} {'normalized':>10} {'fixed/this':>10} "
        f"{'vectors':>7} {'noise found':>11} {'log evidence':>12} {'seconds':>7}"
    )
    for noise in (0.0, 0.1):
        rng = np.random.default_rng(arguments.seed)
        X, y = lagged(clean + noise * std * rng.standard_normal(len(clean)))
        actual = lagged(clean)[1][n:]
        fixed = None
        for name, method in methods.items():
            start = time.process_time()
            if name != "GP":  # as in the paper
                method.set_params(prior="individual")
            model = method.fit(X[:n], y[:n])
            seconds = time.process_time() - start
            error = np.mean((model.predict(X[n:]) - actual) ** 2)
            fixed = fixed or error
            print(
                f"{noise:>5.2f} {name:>24} {error:>9.2e} {error / std**2:>10.2e} "
                f"{fixed / error:>10.1f} {getattr(model, 'n_relevance_', n):>7} "
                f"{model.noise_std_ / std:>11.1e} {model.log_evidence_:>12.1f} {seconds:>7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
