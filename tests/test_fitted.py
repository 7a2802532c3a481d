"""One-step forecasts of the past: what forecasts from each time say, in a table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    LinearRegressor,
    RVMRegressor,
    baselines,
)
from forecast_unc.forecasting.choose.specification import SmoothingSpecification
from forecast_unc.forecasting.horizon.gaussian import propagate
from forecast_unc.forecasting.horizon.origin import without_window
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.smoothing import SmoothingModel
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.forecasting.pool.backcast import past_steps
from forecast_unc.series.history import History
from tests.members import predicted

GP = GPRegressor(lengthscales=2.0, noise_std=0.5)  # nothing to search
LOG = {"transform": "log", "differences": 1, "prior_mean": "zero"}
KINDS = {
    "gp": Forecaster(GP, lags=(1, 3)),
    "log": Forecaster(GP, lags=2, **LOG),
    "prior mean": Forecaster(GP, lags=2, prior_mean="last"),
    "rvm": Forecaster(RVMRegressor(lengthscales=2.0), lags=2),
    "scikit-learn": Forecaster(BayesianRidge(), lags=2),
    "both noises": Forecaster(GPRegressor(), lags=1, noise="both", max_train=20),
    "calibrated": Forecaster(GP, lags=2, calibrate=True),
    "conformal": Forecaster(GP, lags=2, calibrate="conformal"),
    "censored": Forecaster(GP, lags=2, lower=2.0),
}


def series(n=40, start="2024-01-01"):
    rng = np.random.default_rng(3)
    values = 6.0 + np.cumsum(rng.normal(size=n)) * 0.3 + np.sin(np.arange(n))
    return pd.Series(values, pd.date_range(start, periods=n, freq="D"), name="y")


def assert_as_forecast(model, y, times, **options):
    fitted = model.fitted()
    quantiles, band = fitted.quantile([0.05, 0.6]), fitted.interval(0.5)
    for t in times:
        one = model.apply(y[:t]).forecast(1, **options)
        for name in ("mean", "median", "std"):
            value = getattr(fitted, name).iloc[t]
            np.testing.assert_allclose(value, getattr(one, name).iloc[0], rtol=1e-7, err_msg=name)
        np.testing.assert_allclose(quantiles.iloc[t], one.quantile([0.05, 0.6]).iloc[0], rtol=1e-7)
        np.testing.assert_allclose(band.iloc[t], one.interval(0.5).iloc[0], rtol=1e-7)


SLOW = ("both noises",)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in KINDS]
)
def test_each_time_is_forecast_from_the_values_before_it(kind):
    y = series()
    model = KINDS[kind].fit(y)
    options = {"propagation": "taylor"} if kind == "scikit-learn" else {}
    assert_as_forecast(model, y, (6, 39), **options)
    depth = model.models_[0].depth
    assert model.fitted().mean.isna().tolist() == [True] * depth + [False] * (40 - depth)


def test_times_before_the_first_value_have_no_forecast():
    y = series()
    y.iloc[:5] = np.nan
    assert Forecaster(GP, lags=2).fit(y).fitted().mean.isna().tolist() == [True] * 6 + [False] * 34


def test_missing_and_noisy_values_make_it_wider():
    y = series()
    y.iloc[[12, 20, 21]] = np.nan
    model = Forecaster(GP, lags=2).fit(y)
    assert_as_forecast(model, y, (12, 13, 14, 21, 23))
    std = model.fitted().std
    assert (std.iloc[[13, 21, 22]] > 1.1 * std.iloc[[11, 19]].max()).all()
    assert model.fitted().residuals.isna().sum() == 2 + 3
    noisy = Forecaster(GP, lags=2).fit(series(), y_std=0.0 * series() + 0.5)
    assert (noisy.fitted().std[5:] > Forecaster(GP, lags=2).fit(series()).fitted().std[5:]).all()


@pytest.mark.parametrize("period", [1, 7])
def test_exponential_smoothing_is_filtered_once(period):
    y = series(60)
    y.iloc[[20, 33]] = np.nan
    history = History.checked(y)
    model = SmoothingModel.fit(
        SmoothingSpecification(period, "log", 800, "test"), TrainingSeries(history)
    )
    at = np.arange(60)
    found = past_steps(model, at)
    assert not found.known[: period + 4].any()
    assert found.known[period + 6 :].all()
    for t in (15, 21, 34, 59):
        one = predicted(model.at(history.part(0, t)), 1).joint
        np.testing.assert_allclose(found.prediction.joint.mean[t], one.mean[0], rtol=1e-9)
        np.testing.assert_allclose(found.prediction.joint.std[t], one.std[0], rtol=1e-9)


def test_quantiles_of_a_combination_are_averages():
    y = series()
    members = [Forecaster(GP, lags=3), Forecaster(GP, lags=1, **LOG)]
    both = Combination(members, weights=[3, 1]).fit(y)
    levels = [0.1, 0.5, 0.8]
    own = [member.fitted().quantile(levels) for member in both.forecasters_]
    got = both.fitted().quantile(levels)
    np.testing.assert_allclose(got[3:], (0.75 * own[0] + 0.25 * own[1])[3:], rtol=1e-9)
    np.testing.assert_allclose(got[2:3], own[1][2:3], rtol=1e-9)  # three lags are not there yet
    mean = 0.75 * both.forecasters_[0].fitted().mean + 0.25 * both.forecasters_[1].fitted().mean
    np.testing.assert_allclose(both.fitted().mean[3:], mean[3:], rtol=1e-9)


def test_of_two_alike_a_weight_by_width_makes_the_same():
    y = series()
    one = Forecaster(GP, lags=2).fit(y).fitted()
    for options in ({"weights": "inverse_width"}, {"widest": 2.0}):
        twice = Combination([Forecaster(GP, lags=2)] * 2, **options).fit(y).fitted()
        np.testing.assert_allclose(twice.interval(), one.interval(), rtol=1e-9)


def test_the_automatic_choice_has_all_but_the_first_times():
    y = series(60)
    model = Forecaster().fit(y)
    assert len(model.models_) > 1
    fitted = model.fitted()
    assert fitted.mean.iloc[10:].notna().all()
    ahead = model.apply(y[:50]).forecast(1)
    assert abs(fitted.mean.iloc[50] - ahead.mean.iloc[0]) < 0.3 * ahead.std.iloc[0]
    np.testing.assert_allclose(fitted.residuals, y - fitted.mean)
    assert repr(fitted).startswith("Fitted(name='y', 2024-01-01 to 2024-02-29, ")


def test_it_is_of_the_series_at_whose_end_the_model_is():
    y = series(50)
    model = Forecaster(GP, lags=2).fit(y[:40])
    before = model.fitted().mean
    applied = model.apply(series(30, "2030-01-01"))
    assert applied.fitted().index[0] == pd.Timestamp("2030-01-01")
    assert len(model.update(y[40:]).fitted()) == 50
    assert len(before) == 40


def test_a_series_that_is_too_short_has_none():
    y = series(50)
    fitted = Forecaster(GP, lags=2).fit(y[:40]).apply(y[40:42]).fitted()
    assert fitted.mean.isna().all()
    assert fitted.interval().shape == (2, 2)
    assert fitted.quantile([0.1]).isna().all(axis=None)


def test_regressors_are_those_of_the_time():
    y = series()
    exog = pd.DataFrame({"x": np.cos(np.arange(40.0))}, y.index)
    for calibrate in (False, True):
        model = Forecaster(GP, lags=2, calibrate=calibrate).fit(y, exog)
        one = model.apply(y[:30], exog[:30]).forecast(1, exog[30:31])
        np.testing.assert_allclose(model.fitted().mean.iloc[30], one.mean.iloc[0], rtol=1e-7)


def test_a_long_series_goes_in_blocks():
    y = pd.Series(np.sin(np.arange(140.0)) + 0.1 * np.cos(np.arange(140.0) ** 2))
    model = Forecaster(GP, lags=2).fit(y)
    assert_as_forecast(model, y, (127, 128, 139))
    assert isinstance(model.fitted().index, pd.RangeIndex)


def test_a_baseline_has_none():
    both = Combination([Forecaster(GP, lags=2), baselines.SeasonalNaive()]).fit(series())
    for ask in (both.fitted, lambda: both.score(series())):
        with pytest.raises(
            TypeError,
            match=r"forecasters must be Forecasters, or Combinations of them, for one-step .*; got "
            r"SeasonalNaive\. Leave it out, or use backtest\.",
        ):
            ask()


@pytest.mark.parametrize("regressor", [LinearRegressor(), GP], ids=["linear", "process"])
def test_one_pass_over_gaps_has_the_forecasts_from_each_origin(regressor):
    y = pd.Series(np.sin(0.7 * np.arange(60.0)) + 0.1 * np.cos(np.arange(60.0) ** 2))
    y.iloc[[9, 20, 22, 27, 28, 31, 50]] = np.nan
    (model,) = Forecaster(regressor, lags=[1, 4], differences=1).fit(y).models_
    at = np.arange(60)
    mean, var = model.next_levels(at)
    assert np.isfinite(mean[10:]).all()
    for place in np.flatnonzero(np.isfinite(mean)):
        before, future = model.past.before(place), model.past.step(place)
        joint = propagate(model.one_step, before, future, Method(model.moments))
        # without a window the errors of the function at steps of the pass are independent
        limit = 0.03 if without_window(model.one_step, model.past, np.array([place])) else 1e-7
        assert abs(mean[place] - joint.mean[0]) < limit * np.sqrt(joint.cov[0, 0])
        np.testing.assert_allclose(var[place], joint.cov[0, 0], rtol=limit)


def test_one_pass_has_the_forecasts_from_each_origin_of_a_noisy_series():
    rng = np.random.default_rng(0)
    y = pd.Series(np.sin(0.7 * np.arange(70)) + 0.1 * rng.standard_normal(70))
    y.iloc[45] = np.nan
    (model,) = Forecaster(GPRegressor(), lags=2, noise="both", random_state=0).fit(y).models_
    at = np.array([44, 45, 46, 69])
    mean, var = model.next_levels(at)
    for i, place in enumerate(at):
        before, future = model.past.before(place), model.past.step(place)
        joint = propagate(model.one_step, before, future, Method("exact", False))
        assert mean[i] == pytest.approx(joint.mean[0], abs=1e-6)
        assert var[i] == pytest.approx(joint.cov[0, 0], rel=1e-5)
