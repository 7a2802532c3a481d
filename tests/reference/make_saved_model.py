"""A saved model of every kind, and its forecasts: what later versions have to read.

Run with ``PYTHONPATH=. python tests/reference/make_saved_model.py FORMAT`` when the format of files
changes, and keep the earlier ones. Writes saved_model_FORMAT.npz.gz and .json.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
)

HERE = Path(__file__).parent


def main(version):
    rng = np.random.default_rng(15)
    values = 20 + 3 * np.sin(np.arange(30) / 2) + rng.normal(size=30)
    y = pd.Series(values, pd.period_range("2020-01", periods=30, freq="M"), name="sales")
    y.iloc[20] = np.nan
    holidays = pd.DatetimeIndex(["2020-12-25", "2021-12-25", "2022-12-25"])
    few = {"lags": 1, "max_train": 10}
    members = [
        Forecaster(max_train=12),
        Forecaster(GPRegressor(), transform="log", calendar=holidays, **few),
        Forecaster(GPRegressor(hyperparameters="integrated"), **few),
        Forecaster(GPRegressor(noisy_inputs="nigp"), **few),
        Forecaster(differences=1, noise="observation", **few),
        Forecaster(RVMRegressor(), prior_mean="last", **few),
        Forecaster(RVMRegressor(variance="augmented"), **few),
        Forecaster(ReducedRankGPRegressor(n_support=4), **few),
        Forecaster(ReducedRankGPRegressor(n_support=4, variance="augmented"), **few),
    ]
    model = Combination(members).fit(y)
    path = HERE / f"saved_model_{version}.npz"
    model.save(path)
    path.with_suffix(".npz.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    forecasts = [one.forecast(3, propagation="taylor") for one in model.forecasters_]
    numbers = [{"mean": f.mean.tolist(), "std": f.std.tolist()} for f in forecasts]
    text = json.dumps({"written_by": "make_saved_model.py", "forecasts": numbers}, indent=1)
    (HERE / f"saved_model_{version}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
