"""Forecasts from origins inside the training part, against models conditioned by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from forecast_unc import Forecaster, GPRegressor, RVMRegressor
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.lagged import _one_step
from forecast_unc.forecasting.pool.backcast import (
    MOST_ORIGINS,
    Rolling,
    rolling_forecasts,
    rolling_spreads,
)
from forecast_unc.forecasting.pool.past_scores import past_scores
from forecast_unc.regression.predictor import ScikitLearnRegressor
from forecast_unc.series.history import History
from forecast_unc.series.rows import interpolated
from tests.members import ahead_of, rows_of

N, STEPS = 72, 5
GP = GPRegressor(lengthscales=3.0, noise_std=0.5)  # nothing to search

# Means given the first rows

REGRESSORS = {
    "gp": GPRegressor(lengthscales=2.0),
    "gp, learned": GPRegressor(),
    "gp without linear part": GPRegressor(linear=False, lengthscales=2.0),
    "gp, shrunk": GPRegressor(prior="shrunk", bias="shrunk", lengthscales=2.0),
    "gp, two groups": GPRegressor(groups=[0, 1, -1], bias=None, lengthscales=2.0),
    "rvm": RVMRegressor(lengthscales=2.0),
    "bayesian ridge": ScikitLearnRegressor(BayesianRidge()),
}


@pytest.mark.parametrize("regressor", REGRESSORS.values(), ids=REGRESSORS)
def test_leading_means_are_those_of_the_first_rows(regressor, rng):
    X = 3.0 + rng.standard_normal((40, 3))
    y = 100.0 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(40)
    fitted = regressor.fit(X, y)
    counts = [3, 17, 17, 40]
    means = fitted.leading_means(X, y, counts)
    for _ in range(2):  # as many times as there are steps
        inputs = 3.0 + 2.0 * rng.standard_normal((4, 3))
        found = means(inputs)
        for mean, x, m in zip(found, inputs, counts, strict=True):
            expected = fitted.condition(X[:m], y[:m]).predict(x[None])[0]
            assert mean == pytest.approx(expected, abs=1e-8)
    full = fitted.predict(inputs)
    np.testing.assert_allclose(fitted.leading_means(X, y, [40] * 4)(inputs), full, atol=1e-8)


def test_leading_means_of_a_conditioned_gp_are_of_the_rows_that_it_holds(rng):
    """After rows came and went, whose factor was updated."""
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    moved = GPRegressor(lengthscales=1.0, noise_std=0.3).fit(X[:40], y[:40])
    moved = moved.condition(X[2:45], y[2:45])
    found = moved.leading_means(X[2:45], y[2:45], [10, 43])(X[48:])
    expected = [moved.condition(X[2 : 2 + m], y[2 : 2 + m]) for m in (10, 43)]
    for mean, one, x in zip(found, expected, X[48:], strict=True):
        assert mean == pytest.approx(one.predict(x[None])[0], abs=1e-9)


# Origins


def series(n=N, gaps=()):
    rng = np.random.default_rng(11)
    t = np.arange(n)
    values = 20.0 + 0.05 * t + 3.0 * np.sin(2 * np.pi * t / 12)
    values += np.cumsum(0.2 * rng.standard_normal(n)) + 0.5 * rng.standard_normal(n)
    values[list(gaps)] = np.nan
    return pd.Series(values, pd.date_range("2015-01-01", periods=n, freq="MS"), name="y")


@pytest.mark.parametrize(
    ("forecaster", "n", "first"),
    [
        (Forecaster(GP, lags=3), 72, 31),  # 72 - .6 of 69 rows
        (Forecaster(GP, lags=3, differences=(1, 12)), 72, 39),  # of 56 rows
        (Forecaster(GP, lags=3, max_train=40), 72, 48),  # of the last 40
        (Forecaster(GP, lags=12), 24, 17),  # of 12 rows
        (Forecaster(GP, lags=12), 16, 14),  # two rows have to come before
        (Forecaster(GP, lags=3), 400, 162),
    ],
)
def test_origins_are_in_the_last_part_of_the_rows(forecaster, n, first):
    models = forecaster.fit(series(n)).models_
    origins = Rolling(models).origins
    assert (origins[0], origins[-1]) == (first, n - 1)
    assert len(origins) == min(MOST_ORIGINS, n - first)
    gaps = np.diff(origins)
    assert (gaps > 0).all()
    assert gaps.max() - gaps.min() <= 1
    times, _, _ = rows_of(models[0])
    assert np.searchsorted(times, origins[0]) >= 0.4 * len(times)


def test_origins_suit_all_of_the_models():
    short, deep = (Forecaster(GP, lags=p).fit(series()).models_[0] for p in (2, 30))
    origins = Rolling((short, deep)).origins
    assert origins[0] == Rolling((deep,)).origins[0] > Rolling((short,)).origins[0]
    (window,) = Forecaster(GP, lags=2, max_train=20).fit(series()).models_
    origins = Rolling((short, window)).origins
    assert origins[0] == N - 12  # 0.6 of the last 20 rows
    check(short, origins[:1])
    check(window, origins[:1])


def test_a_series_too_short_has_none():
    (model,) = Forecaster(GP, lags=4).fit(series(7)).models_
    origins = Rolling((model,)).origins
    np.testing.assert_array_equal(origins, [6])
    (model,) = Forecaster(GP, lags=3).fit(series(6)).models_
    short = model.at(History.checked(series(5)))
    assert Rolling((short,)).origins.size == 0
    assert rolling_forecasts(short, Rolling((short,)).origins, 3).value.shape == (0, 3)


# Forecasts


def by_hand(model, origin, steps):
    """Plain iteration of the means of the rows before an origin, level by level."""
    times, X, target = rows_of(model)
    m = int((times < origin).sum())
    regressor = model.regressor.condition(X[:m], target[:m])
    levels = interpolated(model.past.levels[:origin])
    anchor = model.specification.anchor
    for step in range(steps):
        z = model.differencing.forward(levels)
        exog = model.past.exog[min(origin + step, len(model.past.exog) - 1)]
        x = np.concatenate([[z[-lag] for lag in model.specification.lags], exog])
        change = regressor.predict(x[None])[0] + (0.0 if anchor is None else x[anchor])
        # standardized changes are linear in the last level
        low, high = (model.differencing.forward(np.append(levels, v))[-1] for v in (0.0, 1.0))
        levels = np.append(levels, (change - low) / (high - low))
    return model.transform.inverse(levels[origin:])


FORECASTERS = {
    "levels": Forecaster(GP, lags=3),
    "some lags": Forecaster(GP, lags=(2, 5)),
    "changes": Forecaster(GP, lags=2, differences=(1, 12)),
    "last value": Forecaster(GP, lags=3, prior_mean="last"),
    "a season ago": Forecaster(GP, lags=12, prior_mean="seasonal", seasonal_period=12),
    "log": Forecaster(GP, lags=2, transform="log", differences=1),
    "boxcox": Forecaster(GP, lags=2, transform="boxcox"),
    "calendar": Forecaster(GP, lags=2, calendar=["fourier", "month"], seasonal_period=12),
    "last rows": Forecaster(GP, lags=2, max_train=30),
    "shrunk": Forecaster(GPRegressor(prior="shrunk", bias="shrunk"), lags=2, differences=1),
    "rvm": Forecaster(RVMRegressor(lengthscales=3.0), lags=3),
    "bayesian ridge": Forecaster(BayesianRidge(), lags=3),
}


def check(model, origins, steps=STEPS):
    found = rolling_forecasts(model, np.array(origins), steps)
    n = len(model.past.levels)
    for value, slope, origin in zip(found.value, found.slope, origins, strict=True):
        expected = np.full(steps, np.nan)
        within = min(steps, n - origin)
        expected[:within] = by_hand(model, origin, steps)[:within]
        np.testing.assert_allclose(value, expected, rtol=1e-7)
        level, d = model.transform.forward(expected[:within]), 1e-6
        moved = model.transform.inverse(level + d) - model.transform.inverse(level - d)
        np.testing.assert_allclose(slope[:within], moved / (2 * d), rtol=1e-6)


@pytest.mark.parametrize("forecaster", FORECASTERS.values(), ids=FORECASTERS)
def test_they_are_iterated_by_hand(forecaster):
    (model,) = forecaster.fit(series()).models_
    check(model, [45, 58, 69, 71])


def test_they_see_regressors():
    y = series()
    exog = pd.DataFrame({"cube": ((np.arange(N) - 40.0) / 20.0) ** 3}, y.index)
    (model,) = Forecaster(GP, lags=2).fit(y, exog).models_
    check(model, [45, 58, 69])


def test_they_are_naive_forecasts_of_the_same_model():
    y = series()
    for forecaster in (FORECASTERS["changes"], FORECASTERS["boxcox"]):
        (model,) = forecaster.fit(y).models_
        times, X, target = rows_of(model)
        m = int((times < 60).sum())
        regressor = model.regressor.condition(X[:m], target[:m])
        one_step = _one_step(model.specification, model.differencing, regressor)
        history, past = model.history.part(0, 60), model.past.before(60)
        then = replace(model, history=history, past=past, regressor=regressor, one_step=one_step)
        ahead = ahead_of(then, STEPS, Method("naive"))
        found = rolling_forecasts(model, np.array([60]), STEPS)
        np.testing.assert_allclose(found.value[0], ahead.median, rtol=1e-8)


@pytest.mark.parametrize("forecaster", [FORECASTERS["some lags"], FORECASTERS["changes"]], ids=str)
def test_gaps_before_an_origin_are_interpolated(forecaster):
    (model,) = forecaster.fit(series(gaps=(8, 30, 31, 50, 52, 66))).models_
    check(model, [45, 54, 68])


def test_what_looks_back_at_a_gap_that_lasts_until_the_origin_is_nan():
    """To interpolate it would take what comes after: the value that is to be forecast."""
    y = series(gaps=(50, 51, 60))
    (model,) = Forecaster(GP, lags=(2, 5)).fit(y).models_
    found = rolling_forecasts(model, np.array([51, 52, 53, 61]), 6).value
    expected = [
        [True, False, True, False, False, False],  # step 2 needs 50, 4 needs step 2, 5 needs 50
        [False] * 6,  # steps 1 and 2 need 50 and 51
        [True] * 6,  # between 49 and 52
        [True, False, True, False, False, False],
    ]
    np.testing.assert_array_equal(np.isfinite(found), expected)
    np.testing.assert_allclose(found[2], by_hand(model, 53, 6), rtol=1e-7)


def test_values_after_an_origin_change_nothing_but_the_scale():
    """With the regressor, the scale and the rows of the whole series given."""
    y = series(gaps=(49,))
    (model,) = Forecaster(GP, lags=2).fit(y).models_
    origin = 50
    spoiled = model.past.levels.copy()
    spoiled[origin:] = 1e3
    other = replace(model, past=model.past._replace(levels=spoiled))
    times, X, _ = rows_of(model)
    late = times >= origin
    _, X_other, _ = rows_of(other)
    np.testing.assert_array_equal(X_other[~late], X[~late])
    one, two = (
        rolling_forecasts(m, np.array([origin - 1, origin]), 2).value for m in (model, other)
    )
    np.testing.assert_array_equal(np.isfinite(one), [[True, True], [False, False]])
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_an_origin_with_too_few_rows_is_nan():
    (model,) = Forecaster(GP, lags=3).fit(series()).models_
    found = rolling_forecasts(model, np.array([4, 5]), 2).value
    assert np.isnan(found[0]).all()  # a row
    assert np.isfinite(found[1]).all()  # two


# What models say of their own


def test_models_that_start_from_what_is_known():
    y = series()
    (model,) = Forecaster(GP, lags=3).fit(y).models_
    assert model.from_known() is model
    (early,) = Forecaster(GP, lags=3).fit(series(gaps=(20, 68))).models_
    assert early.from_known() is early  # three values back is 69
    (late,) = Forecaster(GP, lags=3).fit(series(gaps=(20, 69))).models_
    levels = late.from_known().past.levels
    expected = 0.5 * (y.iloc[68] + y.iloc[70])
    assert levels[69] == pytest.approx(expected)
    assert np.isnan(late.past.levels[69])
    stds = pd.Series(np.where(np.arange(N) == 71, 0.5, 0.0), y.index)
    (noisy,) = Forecaster(GP, lags=3).fit(y, y_std=stds).models_
    exact = ahead_of(noisy.from_known(), 4)
    pd.testing.assert_frame_equal(exact.cov, ahead_of(model, 4).cov)


def test_training_rows_are_times_inputs_and_targets():
    y = series(gaps=(30,))
    (model,) = Forecaster(GP, lags=(1, 3), prior_mean="last", max_train=50).fit(y).models_
    times, X, target = rows_of(model)
    assert len(times) == model.n_rows == 50
    z = model.differencing.forward(y.to_numpy())
    np.testing.assert_allclose(X, np.column_stack([z[times - 1], z[times - 3]]), rtol=1e-12)
    np.testing.assert_allclose(target, z[times] - z[times - 1], atol=1e-12)
    assert not {30, 31, 33} & set(times.tolist())


# Models compared


def test_past_scores_are_of_the_times_that_all_models_forecast():
    """Absolute errors: of forecasts without a width."""
    y = series(gaps=[50])
    models = tuple(Forecaster(GP, lags=p).fit(y).models_[0] for p in (2, 12, [1, 40]))
    origins, errors = Rolling(models).origins, []
    for model in models:
        values = rolling_forecasts(model, origins, STEPS).value
        rows = []
        for origin, row in zip(origins, values, strict=True):
            actual = y.to_numpy()[origin : origin + STEPS]
            rows.append([*np.abs(row[: len(actual)] - actual), *[np.nan] * (STEPS - len(actual))])
        errors.append(rows)
    errors = np.array(errors)
    known = np.isfinite(errors).all(axis=0)
    assert 8 < known.sum() < known.size  # not after the gap, not beyond the end
    recent = np.exp(-2.0 * np.linspace(1.0, 0.0, len(origins)))[:, None] * known
    expected = []
    for step in range(1, STEPS + 1):
        window = slice(max(step // 2, 1) - 1, step)
        weights = recent[:, window]
        total = (weights * np.where(known, errors, 0.0)[:, :, window]).sum(axis=(1, 2))
        expected.append(total / weights.sum())
    rolling = Rolling(models)
    spreads = rolling_spreads(rolling, [None] * 3, [None] * 3, STEPS)
    past = np.array([rolling.forecasts(i, STEPS).value for i in range(3)])
    sure = spreads._replace(
        width=np.ones((3, STEPS)), past_median=past, past_width=np.zeros(past.shape)
    )
    found = past_scores(rolling, sure)
    np.testing.assert_allclose(found.mean.T, expected, rtol=1e-9)
    number = (len(y) - origins[0]) * known[:, 0].mean() / np.arange(1, STEPS + 1)
    np.testing.assert_allclose(found.number, number, rtol=1e-12)


def test_without_origins_there_are_no_past_scores():
    models = tuple(Forecaster(GP, lags=p).fit(series(12)).models_[0] for p in (1, 6))
    rolling = Rolling(models)
    rolling.__dict__["origins"] = np.zeros(0, dtype=np.intp)
    found = past_scores(rolling, rolling_spreads(rolling, [None, None], [None, None], STEPS))
    assert not found.mean.any()
    assert not found.number.any()


def test_gaps_cost_no_origins(rng):
    """Few rows are complete between gaps, but they reach back as far as those of a whole series."""
    y = pd.Series(
        50 + rng.standard_normal(120).cumsum(), pd.date_range("2010", periods=120, freq="MS")
    )
    holes = y.mask(np.arange(120) % 7 == 3)
    whole, torn = (Forecaster(lags=4, calibrate=True).fit(one).ensemble_ for one in (y, holes))
    assert torn.models[0].n_rows < 0.5 * whole.models[0].n_rows
    assert (torn.models[0].span, whole.models[0].span) == (112, 116)
    assert torn.rolling.origins[0] - whole.rolling.origins[0] in (2, 3)  # .6 of 4 values
    assert len(torn.rolling.origins) == len(whole.rolling.origins)
