"""Every series of two observed values or more is forecast: short, constant and gappy ones too."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from forecast_unc import (
    Combination,
    Forecaster,
    backtest,
    backtest_panel,
    baselines,
    forecast_panel,
    load_model,
)
from forecast_unc.cli import main
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting.models.smoothing_filter import _variance_of_one, unknowns

NAN = np.nan
CONSTANTS = [(3.0, 2), (-4.0, 30), (1e14, 12), (1e-3, 50), (0.5, 40)]  # zeros: test_counts


def series(values, freq=None):
    index = pd.date_range("2020-01-01", periods=len(values), freq=freq) if freq else None
    return pd.Series(np.asarray(values, dtype=float), index)


# --- any series


values = st.one_of(
    st.just(NAN), st.integers(-3, 3), st.floats(-1e6, 1e6).map(lambda x: round(x, 2))
)
some = st.lists(values, min_size=2, max_size=14).filter(lambda y: np.isfinite(y).sum() > 1)


@given(y=some, freq=st.sampled_from([None, "MS", "D", "h"]), repeats=st.sampled_from([1, 1, 3]))
def test_fit_answers_for_every_series_of_two_values(y, freq, repeats):
    y = series(y * repeats, freq)
    ahead = Forecaster(random_state=0).fit(y).forecast(3)
    bands = ahead.quantile([0.025, 0.5, 0.975]).to_numpy()
    assert np.isfinite(bands).all()
    assert (np.diff(bands, axis=1) >= 0).all()
    assert (ahead.std > 0).all()
    assert (ahead.cdf(ahead.quantile(0.975)) >= 0.975 - 1e-5).all()
    size = max(np.ptp(y.dropna()), 1e-6 * y.abs().max(), 1e-6)
    away = np.maximum(y.min() - ahead.median, ahead.median - y.max())
    assert (away < 3 * size).all()  # no explosion, no dive
    assert np.isfinite(ahead.aggregate("sum").interval(0.9)).all(axis=None)


@pytest.mark.parametrize("y", [[1, 3], [1, 2, 4], [4, 2, 3, 3], [5, NAN, NAN, 7]])
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_other_units_give_the_same_forecast(y, factor):
    ahead = Forecaster().fit(series(y)).forecast(4)
    other = Forecaster().fit(factor * series(y)).forecast(4)
    assert_allclose(other.mean, factor * ahead.mean, rtol=1e-6)
    assert_allclose(other.interval(0.95), factor * ahead.interval(0.95), rtol=1e-6)
    moved = Forecaster().fit(series(y) + 10).forecast(4)
    assert_allclose(moved.interval(0.95), ahead.interval(0.95) + 10, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_bands_of_a_few_values_are_wide_enough(n, rng):
    """Of 120 random walks; a std of what was seen would hold .6 to .8 of the next."""
    walks = rng.standard_normal((120, n + 1)).cumsum(axis=1)
    held = 0
    for walk in walks:
        low, high = Forecaster().fit(series(walk[:n])).forecast(1).interval(0.95).iloc[0]
        held += low <= walk[n] <= high
    assert 0.84 < held / 120 < 0.99


@pytest.mark.parametrize("n", [2, 3, 4])
def test_variance_of_a_few_values_is_that_of_the_band_of_student(n):
    square = 7.0  # of n - 1 changes of a random walk
    student = stats.t(n - 1, scale=np.sqrt(square / (n - 1)))
    normal = stats.norm(scale=np.sqrt(square * _variance_of_one(n)))
    assert_allclose(normal.interval(0.9), student.interval(0.9), rtol=1e-9)
    assert _variance_of_one(n) > _variance_of_one(n + 1) > 1 / (n + 1)


# --- constants


@pytest.mark.parametrize(("value", "n"), CONSTANTS)
def test_a_constant_goes_on(value, n, tmp_path):
    y, near = series(np.full(n, value)), 1e-6 * (abs(value) or 1.0)
    model = Forecaster().fit(y)
    ahead = model.forecast(3)
    for found in (ahead.mean, ahead.median, ahead.quantile(0.01), ahead.sample(9, 0)):
        assert_allclose(found, value, rtol=0, atol=near)
    assert (ahead.std > 0).all()
    if abs(value) < 1e9:  # else rounding is wider than the changes
        assert not any("diverges" in line for line in model.choices_)
    assert_allclose(ahead.prob(value - near, value + near), 1.0, rtol=1e-9)
    assert_allclose(ahead.aggregate("sum").mean, 3 * value, rtol=0, atol=3 * near)
    assert (ahead.score(series(np.full(3, value)).set_axis(ahead.index))["crps"] < near).all()
    wrong = ahead.score(series(np.full(3, value + 1000 * near)).set_axis(ahead.index))
    assert_allclose(wrong["crps"], 1000 * near, rtol=0.01)
    assert np.isfinite(wrong).all(axis=None)
    model.save(tmp_path / "model")
    assert_allclose(load_model(tmp_path / "model").forecast(3).std, ahead.std, rtol=1e-6)
    assert_allclose(model.apply(y).forecast(3).mean, value, rtol=0, atol=near)
    assert_allclose(model.fitted().mean.dropna(), value, rtol=0, atol=near)
    step = abs(value) or 1.0
    moved = model.update(pd.Series(value + step * np.array([1.0, 3.0]), ahead.index[:2])).forecast(
        1
    )
    assert moved.mean.iloc[0] > value + step / 2
    assert moved.std.iloc[0] > 0.1 * step  # members of another level disagree


def test_a_long_constant_has_a_season_and_errors_of_nothing():
    ahead = Forecaster().fit(series(np.full(200, 5.0), "h")).forecast(30)
    assert_allclose(ahead.interval(0.95), 5.0, rtol=1e-6)
    conformal = Forecaster(calibrate="conformal").fit(series(np.full(60, 5.0), "D")).forecast(3)
    assert_allclose(conformal.interval(0.95), 5.0, rtol=1e-6)


@pytest.mark.parametrize("transform", ["log", "sqrt"])
def test_a_constant_may_have_a_transform(transform):
    ahead = Forecaster(transform=transform).fit(series(np.full(20, 5.0))).forecast(3)
    assert_allclose(ahead.interval(0.95), 5.0, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 5.0])
@pytest.mark.parametrize("given", [{}, {"seasonal_period": 4}, {"transform": None}])
def test_a_constant_tells_nothing_of_a_regressor(value, given):
    y = series(np.full(60, value), "W-MON")
    promo = pd.DataFrame({"promo": (np.arange(63) % 7 == 0) * 1.0})
    promo.index = pd.date_range(y.index[0], periods=63, freq="W-MON")
    plain = Forecaster(**given).fit(y).forecast(3)
    ahead = Forecaster(**given).fit(y, promo[:60]).forecast(3, promo[60:])
    assert_allclose(ahead.mean, plain.mean, rtol=1e-6, atol=1e-9)
    assert_allclose(ahead.std, plain.std, rtol=1e-6, atol=1e-9)  # of a constant: rounding
    assert_allclose(ahead.median, value, atol=1e-6)


def test_constants_in_a_backtest_a_panel_and_on_the_command_line(tmp_path, capsys):
    zeros, two = series(np.zeros(30), "D"), series([1, 3], "D")
    assert (backtest(Forecaster(), zeros, 2, n_origins=2).scores()["MAE"] < 1e-6).all()
    both = {"zeros": zeros, "two": two}
    parts = [
        pd.DataFrame({"unique_id": k, "ds": y.index, "y": y.to_numpy()}) for k, y in both.items()
    ]
    rivals = {"last_value": baselines.Naive(), "season": baselines.SeasonalNaive()}
    scores = backtest_panel(parts[0], Forecaster(), 2, n_origins=2, compare=rivals).scores()
    assert (scores["MAE"] < 1e-6).all()
    result = forecast_panel(pd.concat(parts), Forecaster(), 2, freq="D")
    assert np.isfinite(result["forecast_unc"]).all()
    zeros.rename("y").rename_axis("ds").to_csv(tmp_path / "zeros.csv")
    assert main(["forecast", str(tmp_path / "zeros.csv"), "--steps", "2"]) == 0
    assert "2020-01-31" in capsys.readouterr().out


# --- what else there is


def test_regressors_that_too_few_values_tell_nothing_of_are_left_out():
    y, exog = series([1, 3, 2]), pd.DataFrame({"x": [0.0, 1, 0]})
    model = Forecaster().fit(y, exog)
    plain = Forecaster().fit(y).forecast(2)
    future = pd.DataFrame({"x": [5.0, 9]}, index=[3, 4])
    assert_allclose(model.forecast(2, future).mean, plain.mean, rtol=1e-9)
    text = "\n".join(model.choices_)
    assert "recent values counting most; without the regressors" in text
    assert "no exponential smoothing" not in text
    assert Combination([Forecaster(), Forecaster()]).fit(y, exog).forecast(2, future).std.min() > 0


def test_a_season_of_which_too_little_is_seen_does_not_count():
    model = Forecaster(seasonal_period=12).fit(series([10, 20, 40, 30, 50]))
    assert model.choices_[0] == "no season: y has too few values for one of 12 steps"
    plain = Forecaster(seasonal_period=None).fit(series([10, 20, 40, 30, 50]))
    assert_allclose(model.forecast(3).mean, plain.forecast(3).mean, rtol=1e-9)
    assert Forecaster(seasonal_period=12).fit(series(np.arange(16) % 12)).seasonal_period_ == (12,)


def test_a_gap_costs_the_same_however_long():
    missing = np.isin(np.arange(12), [2, 3, 4, 7, 11])
    assert unknowns(missing, 1).tolist() == [0, 0, 2, 2, 2, 2, 2, 4, 4, 4, 4, 6]
    assert unknowns(missing, 4)[-1] == 5
    far = Forecaster(max_train=10).fit(series([1, *[NAN] * 900, 5, *[NAN] * 100])).forecast(2)
    assert (far.median > 1).all()
    near = Forecaster().fit(series([1, 5])).forecast(2)
    assert far.std.max() < near.std.min()  # a walk of 901 steps that went 4 has small ones


UNANSWERED = [
    ([3], {}, "have more than one value", "3 alone"),
    ([NAN, 3, NAN], {}, "have more than one value", "3 alone"),
    ([], {}, "have more than one value", "none"),
    ([3, 3, 3, 3, 3, 3], {"lags": 1}, "vary", "the constant 3 throughout, to 12 digits"),
    ([3, 3, 3, 3, 3, 3], {"differences": 1}, "vary", "the constant 3 throughout, to 12 digits"),
    ([3, 4], {"prior_mean": "last"}, "have at least 5 values for lags up to 1", "2"),
    ([3, 4], {"lags": 1}, "have at least 4 values for lags up to 1", "2"),
]


def test_what_no_model_answers_for():
    for y, arguments, rule, got in UNANSWERED:
        with pytest.raises(ArgumentError) as caught:
            Forecaster(**arguments).fit(series(y))
        error = caught.value
        assert (error.argument, error.rule[: len(rule)], error.got[: len(got)]) == ("y", rule, got)


def test_errors_of_measurement_need_rows():
    y = series([1.0, 2.0])
    with pytest.raises(ValueError, match="y must have at least 5 values"):
        Forecaster().fit(y, y_std=0.1 * y)


def test_a_regressor_that_is_noise_does_not_narrow_the_bands_of_four_values(rng):
    """Of 60 walks; a model of three rows with a lag and a regressor held .5 to .7."""
    held = 0
    for walk, noise in zip(
        rng.standard_normal((60, 5)).cumsum(axis=1), rng.standard_normal((60, 5)), strict=True
    ):
        exog = pd.DataFrame({"x": noise})
        model = Forecaster().fit(series(walk[:4]), exog[:4])
        low, high = model.forecast(1, exog[4:]).interval(0.95).iloc[0]
        held += low <= walk[4] <= high
    assert held >= 50
