"""The first steps of a forecast are the shorter forecast, whatever was asked for."""

import functools
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    datasets,
)
from tests.recursions import NAMED

GP = GPRegressor(lengthscales=3.0)


def assert_first_steps(longer, shorter, tolerance=1e-12):
    """The first steps of a forecast are a shorter one, relative to its stds."""
    k, std = len(shorter), shorter.std.to_numpy()
    assert longer.index[:k].equals(shorter.index)
    quantiles = [0.025, 0.3, 0.5, 0.9]
    for a, b, unit in (
        (longer.mean[:k], shorter.mean, std),
        (longer.cov.iloc[:k, :k], shorter.cov, np.outer(std, std)),
        (longer.quantile(quantiles)[:k], shorter.quantile(quantiles), std[:, None]),
    ):
        difference = np.abs(np.asarray(a) - np.asarray(b)) / unit
        assert difference.max() <= tolerance, difference.max()


def walk(n, seed=5, freq="D", level=20.0, gaps=()):
    rng = np.random.default_rng(seed)
    values = level + np.sin(np.arange(n) / 3) + np.cumsum(0.2 * rng.standard_normal(n))
    values[list(gaps)] = np.nan
    return pd.Series(values, pd.date_range("2020-01-01", periods=n, freq=freq), name="y")


def season(n, period, freq, noise=0.1, gaps=()):
    rng = np.random.default_rng(n)
    values = 3 + np.sin(2 * np.pi * np.arange(n) / period) + noise * rng.standard_normal(n)
    values[list(gaps)] = np.nan
    return pd.Series(values, pd.date_range("2020-01-01", periods=n, freq=freq))


def regressors(y, steps=14):
    n = len(y) + steps
    index = pd.date_range(y.index[0], periods=n, freq=y.index.freq)
    return pd.DataFrame({"a": np.cos(np.arange(n)), "b": np.arange(n) % 5.0}, index)


def members(weights, widest, **options):
    wild = Forecaster(GP, lags=1, differences=(1, 1))
    log = Forecaster(GP, lags=1, transform="log")
    return Combination([Forecaster(GP, lags=2, **options), wild, log], weights, widest=widest)


class Row(NamedTuple):
    model: BaseEstimator
    y: pd.Series
    exog: str = ""  # "known", "uncertain"
    tolerance: float = 1e-12


PLAIN, GAPS = walk(80), walk(80, gaps=(30, 77))
MONTHS, MONTHS_GAPS = (season(72, 12, "MS", 0.5, gaps) for gaps in ((), (*range(50, 56), 70)))
ROWS = {
    "gp": Row(Forecaster(GP, lags=3), GAPS),
    "rvm": Row(Forecaster(RVMRegressor(), lags=2), GAPS),
    "reduced rank": Row(Forecaster(ReducedRankGPRegressor(n_support=10), lags=2), GAPS),
    "changes": Row(Forecaster(GP, lags=2, differences=(1, 7)), GAPS),
    "log": Row(Forecaster(GP, lags=2, transform="log"), GAPS),
    "boxcox": Row(Forecaster(GP, lags=[1, 3], transform="boxcox", prior_mean="last"), PLAIN),
    "calendar": Row(Forecaster(GP, lags=1, calendar="day_of_week"), GAPS),
    "last rows": Row(Forecaster(GP, lags=2, max_train=40), PLAIN),
    "errors of observation": Row(Forecaster(lags=2, differences=1, noise="both"), PLAIN[:40]),
    "regressors": Row(Forecaster(GP, lags=3), PLAIN, "known"),
    "uncertain regressors": Row(Forecaster(GP, lags=3), PLAIN, "uncertain"),
    "uncertain, changes": Row(Forecaster(GP, lags=2, differences=(1, 7)), PLAIN, "uncertain"),
    "uncertain, log": Row(Forecaster(GP, lags=2, transform="log"), PLAIN, "uncertain"),
    "gdp": Row(Forecaster(), datasets.load_us_gdp(), tolerance=1e-10),
    "nile": Row(Forecaster(), datasets.load_nile()),
    "short": Row(Forecaster(), walk(15, 0)),
    "short, lognormal": Row(Forecaster(), np.exp(3 * walk(15, 1, "B").diff().dropna())),
    "negative": Row(Forecaster(), walk(70, 2, level=0.0)),
    "months": Row(Forecaster(), season(100, 12, "MS")),
    "months, log": Row(Forecaster(), np.exp(season(60, 12, "MS"))),
    "weeks": Row(Forecaster(), season(118, 52, "W")),
    "a gap at the end": Row(Forecaster(), walk(70, 3, gaps=(68,))),
    "automatic, regressors": Row(Forecaster(), PLAIN, "known"),
    "automatic, uncertain": Row(Forecaster(), PLAIN, "uncertain"),
    "calibrated": Row(
        Forecaster(GP, lags=2, differences=1, transform="log", calibrate=True),
        MONTHS_GAPS + 5,
        tolerance=1e-9,
    ),
    "calibrated season": Row(
        Forecaster(GP, lags=2, differences=(1, 12), calibrate=True), MONTHS, tolerance=1e-9
    ),
    "calibrated, regressors": Row(
        Forecaster(GP, lags=2, calibrate=True), MONTHS_GAPS, "known", 1e-9
    ),
    "conformal": Row(Forecaster(calibrate="conformal"), MONTHS_GAPS, tolerance=1e-9),
    "conformal boxcox": Row(
        Forecaster(GP, lags=2, transform="boxcox", calibrate="conformal"),
        MONTHS + 5,
        tolerance=1e-9,
    ),
    "conformal, regressors": Row(
        Forecaster(GP, lags=2, calibrate="conformal"), MONTHS_GAPS, "known", 1e-9
    ),
    "combination": Row(members(None, None), PLAIN),
    "weighted": Row(members((1, 2, 3), 3.0), PLAIN),
    "by widths": Row(members("inverse_width", 3.0, calibrate=True), PLAIN),
    "by widths, regressors": Row(members("inverse_width", 3.0), PLAIN, "known"),
    "by errors": Row(members("validation", None), PLAIN, "known"),
}


@functools.cache
def fitted(name):
    row = ROWS[name]
    return row.model.fit(row.y, regressors(row.y)[: len(row.y)] if row.exog else None)


def forecast(name, steps, **options: Any):
    row, model = ROWS[name], fitted(name)
    if row.exog:
        options["exog"] = regressors(row.y)[len(row.y) :][:steps]
    if row.exog == "uncertain":
        root = np.random.default_rng(0).standard_normal((28, 15))  # a singular covariance
        options["exog_cov"] = 0.01 * (root @ root.T)[: 2 * steps, : 2 * steps]
    return model.forecast(steps, n_samples=20, random_state=3, **options)


# What others hold in part, a third of a second to a second each.
SLOW = {
    "integrated",
    "log",
    "last rows",
    "uncertain regressors",
    "uncertain, log",
    "gdp",
    "nile",
    "short",
    "negative",
    "months",
    "weeks",
    "automatic, regressors",
    "calibrated season",
    "calibrated, regressors",
    "conformal",
    "conformal boxcox",
    "combination",
    "weighted",
    "by widths",
    "by errors",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ROWS]
)
def test_first_steps_are_the_shorter_forecast(name):
    several = len(getattr(fitted(name), "models_", ())) > 1  # each kind is that of its members
    for kind in ("exact", "monte_carlo") if several else NAMED:
        longest = forecast(name, 9, propagation=kind)
        for steps in (1, 6) if kind == "exact" else (2,):
            shorter = forecast(name, steps, propagation=kind)
            assert_first_steps(longest, shorter, ROWS[name].tolerance)


@pytest.mark.parametrize("name", ["gp", "uncertain, changes", "months, log"])
def test_so_are_those_of_the_classic_recursion(name):
    for kind in NAMED:
        longer, shorter = (
            forecast(name, steps, propagation=kind, path_consistent=False) for steps in (6, 3)
        )
        assert_first_steps(longer, shorter, 1e-10)
