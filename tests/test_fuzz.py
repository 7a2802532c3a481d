"""Fifty generated calls (500 if slow), and by name what was found; `make fuzz` runs thousands."""

import functools
import warnings
from decimal import Decimal
from itertools import pairwise

import fuzz
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from forecast_unc import (
    Forecast,
    Forecaster,
    GPRegressor,
    LinearRegressor,
    ReducedRankGPRegressor,
    RVMClassifier,
    RVMRegressor,
    backtest,
    backtest_panel,
    baselines,
    datasets,
    forecast_panel,
    scores,
)
from tests.named_case import case

X = np.linspace(-1.0, 1.0, 30)[:, None]
Y = pd.Series(np.arange(20.0) % 7, pd.date_range("2020", periods=20, freq="D"))
FRAME = pd.DataFrame({"unique_id": "a", "ds": Y.index, "y": Y.to_numpy()})
AHEAD = Forecast(pd.RangeIndex(3), np.array([1.0, 2.0, 3.0]), np.eye(3) + 0.5)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(50, 500, 50))]
)
def test_every_call_ends_in_a_result_or_a_reason(first, monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", 60)  # of a machine that does other things beside
    found = {number: fuzz.run(number) for number in range(first, first + 50)}
    assert {number: wrong for number, wrong in found.items() if wrong} == {}


WORDS = np.array(["log", "sqrt"])
CORPUS = {
    "array for a word": (
        lambda: Forecaster(transform=WORDS).fit(Y),
        "transform must be one of .*; got array",
    ),
    "frame for a word": (
        lambda: Forecaster(noise=pd.DataFrame()).fit(Y),
        "noise must be one of .*; got Empty DataFra",
    ),
    "array for a propagation": (
        lambda: Forecaster(lags=1).fit(Y).forecast(2, propagation=WORDS),
        "propagation must be one of 'auto', .*; got array",
    ),
    "power": (lambda: AHEAD**2, "a forecast must be shifted or multiplied; got a power or"),
    "absolute value": (lambda: abs(AHEAD), "a forecast must be shifted or multiplied; got"),
    "more paths than memory": (
        lambda: AHEAD.sample(10**12),
        r"n must be at most 33,333,333 for 3 steps; got 1,000,000,000,000, which would take 2.4e",
    ),
    "more paths than memory of a model": (
        lambda: Forecaster(lags=1).fit(Y).forecast(2, n_samples=10**12),
        "n_samples must be at most 50,000,000 for 2 steps; got",
    ),
    "a series of truth values": (
        lambda: AHEAD.censored(0.0, keep_moments=Y > 0),
        "keep_moments must be True or False; got ",
    ),
    "text for a number of paths": (
        lambda: AHEAD.energy_score(AHEAD.mean, n_samples="x"),
        "n_samples must be a whole number, at least 2; got 'x'",
    ),
    "array for a choice": (
        lambda: LinearRegressor(bias=WORDS).fit(X, X[:, 0]),
        "bias must be one of 'free', 'shrunk'; got array",
    ),
    "list for a column": (
        lambda: forecast_panel(FRAME, baselines.Naive(), 1, id_col=["unique_id"]),
        "id_col must be a column of frame; got",
    ),
    "set for a column": (
        lambda: backtest_panel(FRAME, baselines.Naive(), 1, id_col={"unique_id"}),
        "id_col must be a column of frame; got",
    ),
    "array for a delay": (
        lambda: datasets.make_mackey_glass(10, tau=np.ones(2)),
        "tau must be from 1 to 1000; got",
    ),
    "text for a season": (
        lambda: scores.naive_scale(Y, "2020-01-01"),
        "seasonal_period must be a positive whole number; got '2020-01-01'",
    ),
    "a frame of decimals": (
        lambda: Forecaster().fit(FRAME[["ds", "y"]].assign(ds=Decimal("2.5"))),
        "y must have dates with the year first; got '2.5' in column 'ds'",
    ),
    "arrays for origins": (
        lambda: backtest(baselines.Naive(), Y, 2, origins=[np.ones(2)]),
        r"origins must be times of y; got array\(\[1",
    ),
    "no complex values": (
        lambda: Forecaster().fit(pd.Series([], dtype=complex)),
        "y must be numeric; got dtype complex128",
    ),
    "a forecast of infinity": (
        lambda: scores.smape([1.0, 2.0], [1.0, np.inf]),
        "mean must be finite; got inf at position 1",
    ),
    "an endless season": (
        lambda: Forecaster(seasonal_period=10**9).fit(Y),
        "seasonal_period must be at most 1,000,000; got 1000000000",
    ),
    "text for targets": (
        lambda: GPRegressor().fit(X[:2], np.array(["a", "b"])),
        "y must be numbers; got array",
    ),
    "complex noise": (
        lambda: GPRegressor(noise_std=1 + 2j).fit(X, X[:, 0]),
        r"noise_std must be positive; got \(1\+2j\)",
    ),
    "noise of nothing": (
        lambda: RVMRegressor(noise_std=1e-300).fit(X, X[:, 0]),
        r"noise_std must be 1e-05 to 1e\+100 times the std of the data; got 1e-300 beside",
    ),
    "noise below roundoff": (
        lambda: ReducedRankGPRegressor(noise_std=1e-12).fit(X, X[:, 0]),
        r"noise_std must be 1e-08 to 1e\+100 times the std of the data; got 1e-12 beside",
    ),
    "a length-scale of nothing": (
        lambda: RVMClassifier(lengthscales=1e-300).fit(X, X[:, 0] > 0),
        r"lengthscales must be 1e-06 to 1e\+100 times the std of the data; got 1e-300 beside",
    ),
    "noise beyond all": (
        lambda: GPRegressor(noise_std=1e300).fit(X, X[:, 0]),
        r"noise_std must be 1e-100 to 1e\+100 times the std of the data; got 1e\+300 beside",
    ),
}


def test_what_calls_have_found():
    for name, (call, message) in CORPUS.items():
        with (
            case(name),
            warnings.catch_warnings(action="error"),
            pytest.raises((ValueError, TypeError), match=message),
        ):
            call()


def of_every_kind(check):
    """A test of a check of each kind of forecast."""

    @functools.wraps(check)
    def test():
        for name, f in fuzz.kinds().items():
            with case(name):
                check(name, f)

    del test.__wrapped__  # whose arguments would be fixtures
    return test


@of_every_kind
def test_every_kind_has_the_properties_of_a_distribution(name, f):
    fuzz.check_forecast(f)
    bands = [f.interval(coverage).to_numpy() for coverage in (0.2, 0.5, 0.9, 0.999)]
    for inner, outer in pairwise(bands):
        assert (outer[:, 0] <= inner[:, 0]).all()
        assert (inner[:, 1] <= outer[:, 1]).all()
    x = np.linspace(*f.quantile([0.001, 0.999]).to_numpy()[0], 50)
    assert (np.diff(f.cdf(x).to_numpy(), axis=1) >= 0).all()


@of_every_kind
def test_probabilities_of_many_values_are_those_of_each(name, f):
    x = np.linspace(*f.quantile([0.01, 0.99]).to_numpy()[0], 7)
    each = np.column_stack([f.cdf(float(one)) for one in x])
    np.testing.assert_allclose(f.cdf(x), each, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="values must be numbers; got nan at position 1"):
        f.cdf([x[0], np.nan])


@of_every_kind
def test_paths_of_every_kind_have_its_steps_and_its_sum(name, f):
    paths = f.sample(400 if name != "paths" else 200, random_state=1).to_numpy()
    rng, total = np.random.default_rng(2), f.aggregate("sum", partial="keep")
    for steps, drawn in ((f, paths[0]), (total, paths.sum(axis=0))):
        before = 0.5 if "whole" in name or "counts" in name else 1e-6 * steps.std.iloc[0]
        low, high = (steps.cdf(drawn - off).to_numpy()[0] for off in (before, 0.0))
        u = low + (high - low) * rng.random(len(drawn))  # uniform, at atoms too
        assert stats.kstest(u, "uniform").pvalue > 1e-4


@of_every_kind
def test_parts_of_every_kind_add_up(name, f):
    if name in ("conditioned", "largest") or "counts" in name:
        with pytest.raises(ValueError, match="parts"):
            f.decompose()
    else:
        np.testing.assert_allclose(f.decompose().sum(axis=1), f.var, rtol=1e-9)


@of_every_kind
def test_other_units_of_every_kind_are_an_affine_map(name, f):
    q = np.array([0.02, 0.3, 0.7, 0.98])
    moved = f * 3.0 + 7.0
    np.testing.assert_allclose(moved.quantile(q), 3.0 * f.quantile(q) + 7.0, rtol=1e-9)
    np.testing.assert_allclose((-f).quantile(1.0 - q), -f.quantile(q), rtol=1e-9)
    np.testing.assert_allclose(moved.mean, 3.0 * f.mean + 7.0, rtol=1e-9)
    np.testing.assert_allclose(moved.cov, 9.0 * f.cov, rtol=1e-9)
    assert len(f.atoms) == len(moved.atoms) == len((-f).atoms)


@of_every_kind
def test_what_was_forecast_moves_no_mean(name, f):
    if len(f) == 1 or name in ("paths", "counts", "whole", "turned counts", "mixture"):
        return  # of a mean that is no value of theirs, or of several normals
    expected = f.median if name != "conformal" else f.mean
    later = f.condition(expected[:1])
    reference = f.median[1:] if name != "conformal" else f.mean[1:]
    moved = (later.median if name != "conformal" else later.mean) - reference
    assert np.abs(moved / f.std[1:]).max() < (1e-8 if name in ("plain", "turned") else 0.25)
