"""Series with missing values, by way of the forecaster: nothing is filled, and bands cover.

That gaps of a linear model are a Kalman filter's is tested in test_state.py.
"""

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, GPRegressor, datasets, load_model
from tests import oracles

AR, BLOCK = [1.2, -0.4], 20


def with_gaps(y, after, seed):
    """A tenth of the values removed, and a block that ends `after` values before the end."""
    holed = y.mask(np.random.default_rng(seed).random(len(y)) < 0.1)
    end = len(y) - after
    holed.iloc[end - BLOCK : end] = np.nan
    holed.iloc[end:] = y.iloc[end:]
    return holed


def simulated(n, seed):
    values = oracles.autoregression(AR, n, np.random.default_rng([7, seed]))
    return pd.Series(values, pd.date_range("2020-01-01", periods=n, freq="D"))


@pytest.mark.parametrize("after", [0, 4])
def test_nothing_is_filled(after):
    y = with_gaps(simulated(150, 0), after, 0)
    kept = y.copy()
    model = Forecaster(GPRegressor(lengthscales=5.0), lags=2).fit(y)
    model.forecast(5)
    model.apply(y).forecast(5)
    pd.testing.assert_series_equal(y, kept)
    # only what was observed, with both values before it, is learned from
    observed = y.notna().to_numpy()
    rows = (observed[2:] & observed[1:-1] & observed[:-2]).sum()
    assert model.models_[0].n_rows == rows
    assert len(model.models_[0].regressor.posterior_.centers) == rows
    assert model.models_[0].differencing.shift == pytest.approx(y.mean(), rel=1e-12)


@pytest.mark.parametrize("after", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_bands_cover_after_a_gap_and_those_of_a_filled_one_do_not(after):
    """80 and 95 % bands of 20 simulated series, against the binomial error."""
    n, steps, series = 110, 6, 20
    model = Forecaster(GPRegressor(lengthscales=5.0), lags=2)
    inside = {(name, level): [] for name in ("missing", "filled") for level in (0.8, 0.95)}
    for seed in range(series):
        full = simulated(n + steps, seed)
        holed, future = with_gaps(full.iloc[:n], after, seed), full.iloc[n:]
        histories = {"missing": holed}
        if after == 0 and seed < 10:
            histories["filled"] = holed.interpolate()
        for name, history in histories.items():
            ahead = model.fit(history).forecast(steps)
            for level in (0.8, 0.95):
                band = ahead.interval(level)
                inside[name, level].append(future.between(band["lower"], band["upper"]))
    for level in (0.8, 0.95):
        by_series = np.mean(inside["missing", level], axis=1)
        # of a share near 1 the spread between series says too little
        error = max(by_series.std(ddof=1), np.sqrt(level * (1 - level) / 2)) / np.sqrt(series)
        assert abs(by_series.mean() - level) < 3 * error
        error = np.sqrt(level * (1 - level) / series)
        assert abs(np.mean(inside["missing", level], axis=0)[0] - level) < 3 * error
    if after == 0:  # carried on, the last value is taken for an observation
        assert np.mean(inside["filled", 0.95], axis=0)[0] < 0.8


def test_a_gap_is_a_forecast_through_it_given_what_was_observed_after_it():
    """The same from the joint forecast: nearly linear and well known, so nearly the same."""
    y = simulated(500, 1)
    model = Forecaster(GPRegressor(lengthscales=1e3), lags=2).fit(y.iloc[:400])
    holed = y.iloc[:430].copy()
    holed.iloc[405:425] = np.nan
    ahead = model.apply(holed).forecast(8, path_consistent=False)
    through = model.apply(y.iloc[:405]).forecast(33, path_consistent=False)
    expected = through.condition(holed.iloc[425:])
    at = expected.mean.index >= ahead.index[0]
    assert (at.sum(), (~at).sum()) == (8, BLOCK)
    np.testing.assert_allclose(ahead.mean, expected.mean[at], rtol=0.01, atol=0.01)
    np.testing.assert_allclose(ahead.std, expected.std[at], rtol=0.01)


@pytest.mark.slow  # two fits of two seconds; test_first_steps.py has a short one
def test_the_automatic_choice_takes_gaps():
    y = datasets.load_co2()
    past, actual = y.iloc[:200], y.iloc[200:212]
    std = {}
    for after in (0, 4):
        model = Forecaster().fit(with_gaps(past, after, 2))
        assert not any(line.startswith("refused") for line in model.choices_)
        ahead = model.forecast(12)
        assert ((actual - ahead.mean).abs() < 3 * ahead.std).all()
        std[after] = ahead.std.iloc[0]
    assert std[0] > 2 * std[4]  # four observed values tell nearly all there is to know


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"calibrate": False}, marks=pytest.mark.slow),
        {"lags": 3, "calibrate": True},
        pytest.param({"lags": 2, "calibrate": "conformal"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_late_values_leave_the_later_part_of_a_longer_forecast(options, tmp_path):
    """Weights and bands count steps from the last observed value, not from the end of the index.

    Calibrated as the first of three steps the ninth was a third too narrow.
    """
    y = datasets.load_us_gdp()[:120]
    late = pd.Series(np.nan, y.index[-6:] + pd.DateOffset(months=18), name=y.name)
    whole = pd.concat([y, late]).asfreq(y.index.freq)
    expected = Forecaster(**options).fit(y).forecast(9)[6:]
    fitted = Forecaster(**options).fit(whole)
    fitted.save(tmp_path / "late")
    for model in (fitted, Forecaster(**options).fit(y).update(late), load_model(tmp_path / "late")):
        ahead = model.forecast(3)
        pd.testing.assert_frame_equal(ahead.cov, expected.cov, rtol=1e-8)
        pd.testing.assert_series_equal(ahead.median, expected.median)
        pd.testing.assert_frame_equal(ahead.interval(0.95), expected.interval(0.95), rtol=1e-8)
        for own, other in zip(ahead.members, expected.members, strict=True):
            pd.testing.assert_series_equal(own.weight, other.weight)
    shares = [one.weight.iloc[0] for one in fitted.forecast(1).members]
    lines = [one for one in fitted.choices_ if ", weight " in one]
    for share, line in zip(shares, lines, strict=True):
        assert f", weight {100 * share:.0f} %" in line


def test_late_values_with_regressors_are_forecast_with_those_of_their_times():
    rng = np.random.default_rng(3)
    index = pd.date_range("2020-01-01", periods=109, freq="MS")
    exog = pd.DataFrame({"x": rng.standard_normal(109)}, index)
    y = 3.0 * exog["x"] + rng.standard_normal(109)
    late = y[:106].copy()
    late.iloc[100:] = np.nan
    std = pd.DataFrame({"x": np.full(9, 0.5)}, index[100:])
    known, unknown = std.copy(), std[6:]
    known.iloc[:6] = 0.0
    expected = Forecaster().fit(y[:100], exog[:100]).forecast(9, exog[100:], exog_std=known)[6:]
    ahead = Forecaster().fit(late, exog[:106]).forecast(3, exog[106:], exog_std=unknown)
    pd.testing.assert_frame_equal(ahead.cov, expected.cov, rtol=1e-8)
    pd.testing.assert_series_equal(ahead.mean, expected.mean)


def test_paths_from_noisy_values_alone_start_as_widely_as_the_moments():
    """Five values with errors leave no known window: the levels before are drawn, too."""
    walk = 0.3 * np.random.default_rng(3).standard_normal(120).cumsum()
    regressor = GPRegressor(lengthscales=[50.0, 50.0], noise_std=0.3)  # nearly linear
    model = Forecaster(regressor, lags=2).fit(pd.Series(walk))
    few = pd.Series(walk[:5])
    start = model.apply(few, y_std=pd.Series(1.0, few.index))
    moments, paths = (
        start.forecast(3, propagation=kind, path_consistent=False, n_samples=8000, random_state=0)
        for kind in ("exact", "monte_carlo")
    )
    np.testing.assert_allclose(paths.std, moments.std, rtol=0.06)
    np.testing.assert_allclose(paths.mean, moments.mean, atol=0.06 * moments.std.min())
