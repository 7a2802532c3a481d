"""Linear parts that explode: what they are told by, and what takes their place."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from forecast_unc import Forecaster, GPRegressor, datasets
from forecast_unc.distributions.marginals import Spread
from forecast_unc.forecasting.models.lagged import LaggedModel
from forecast_unc.forecasting.models.stability import (
    Training,
    bounded,
    excess,
    largest_root,
    least_squares,
)
from forecast_unc.forecasting.pool import pool
from forecast_unc.forecasting.pool.weights import far_from_past

REMARK = "as the fitted one runs away"
SERIES = {
    "mackey_glass": functools.cache(lambda: datasets.make_mackey_glass(1000)),
    "lorenz": functools.cache(lambda: datasets.make_lorenz(1200)),
}


def training(changes, lags, anchor=None, exog=None):
    """Rows of a series, made one by one."""
    changes = np.asarray(changes)
    exog = np.empty((len(changes), 0)) if exog is None else exog
    times = range(max(lags), len(changes))
    X = np.array([[*(changes[t - lag] for lag in lags), *exog[t]] for t in times])
    target = changes[max(lags) :] - (0.0 if anchor is None else X[:, anchor])
    return Training(X, target, changes, exog, lags, anchor)


def section(series, origin, n, steps=100):
    return series[origin - n : origin], series[origin : origin + steps]


@pytest.mark.parametrize(
    ("name", "lags", "origin"),
    [
        # left by 3 ranges before; a linear part of least squares
        pytest.param("mackey_glass", 8, 580, marks=pytest.mark.slow),
        ("lorenz", 6, 570),  # refused as diverging; no linear part
    ],
)
def test_the_mean_stays_in_the_range_of_the_series(name, lags, origin):
    series = SERIES[name]()
    known, future = section(series, origin, 200 + lags)
    model = Forecaster(lags=lags).fit(known)
    assert any(REMARK in line for line in model.choices_)
    assert REMARK in model.summary()
    ahead = model.forecast(100)
    room = 0.1 * np.ptp(series)
    assert ahead.mean.between(series.min() - room, series.max() + room).all()
    assert np.sqrt(np.mean((ahead.mean - future) ** 2)) < 1.5 * series.std()
    assert (ahead.std < 3.0 * np.ptp(series)).all()
    later = model.update(future[:3]).forecast(40, propagation="exact")
    assert later.mean.between(series.min() - room, series.max() + room).all()
    assert any(REMARK in line for line in model.choices_)


def test_what_replaces_a_process_learns_with_the_noise_of_its_rows():
    known, _ = section(SERIES["lorenz"](), 570, 86)
    rows = training(((known - known.mean()) / known.std()).to_numpy(), (1, 2, 3, 4, 5, 6))
    noise = np.where(np.arange(len(rows.X)) % 2, 0.5, 1.3)
    own = GPRegressor().fit(rows.X, rows.target)
    other, what = bounded(own, rows._replace(noise=noise))
    assert what
    again = other.condition(rows.X, rows.target, relative_noise=noise)
    new = rows.X[::9] + 0.01
    np.testing.assert_allclose(other.predict(new), again.predict(new), rtol=1e-9)


def test_a_regressor_of_ones_own_is_told_of_and_never_modified():
    known, _ = section(SERIES["lorenz"](), 570, 206)
    own = GPRegressor()
    model = Forecaster(own, lags=6).fit(known)
    assert own.linear is True
    assert model.models_[0].regressor.linear is not True
    alone = Forecaster(GPRegressor(prior=None), lags=6).fit(known)  # the evidence alone decides
    assert not any(REMARK in line for line in alone.choices_)
    assert alone.models_[0].regressor.linear is True


@pytest.mark.parametrize(
    "values",
    [
        np.exp(0.05 * np.arange(80)),
        np.arange(80.0) ** 2,
        np.sin(np.arange(80) / 5) * np.arange(80),
        np.sin(np.arange(80) / 5) * np.exp(0.02 * np.arange(80)),
        datasets.load_us_gdp().to_numpy()[-120:],
        datasets.load_co2().dropna().to_numpy()[-150:],
        datasets.load_sunspots().to_numpy()[-150:],
    ],
    ids=["growth", "square", "wider", "explosion", "gdp", "co2", "sunspots"],
)
def test_series_that_grow_and_ordinary_ones_keep_theirs(values):
    model = Forecaster(lags=4).fit(pd.Series(values))
    assert not any(REMARK in line for line in model.choices_)
    assert model.models_[0].regressor.linear is True


@pytest.mark.parametrize(
    ("roots", "anchor"),
    [([1.3, -0.5, 0.2], None), ([0.6 + 1.0j, 0.6 - 1.0j, 0.9], None), ([1.1, 0.4, 0.3], 0)],
)
def test_largest_root_is_that_of_the_polynomial(roots, anchor, rng):
    weights = -np.real(np.poly(roots))[1:]
    weights[0] -= anchor == 0
    rows = training(rng.normal(size=20), (1, 2, 3), anchor)
    np.testing.assert_allclose(largest_root(weights, rows), np.abs(roots).max(), rtol=1e-9)
    sparse = training(rng.normal(size=40), (2, 6))  # in powers of z^2
    squared = np.sqrt(np.abs(np.roots([1.0, -0.7, 0.0, -0.5])).max())
    np.testing.assert_allclose(largest_root(np.array([0.7, 0.5]), sparse), squared, rtol=1e-9)


def test_least_squares_and_what_they_leave(rng):
    rows = training(rng.normal(size=60), (1, 3), exog=rng.normal(size=(60, 1)))
    weights, left = least_squares(rows)
    A = np.column_stack([np.ones(len(rows.X)), rows.X])
    normal = np.linalg.solve(A.T @ A, A.T @ rows.target)
    np.testing.assert_allclose(weights, normal[1:], rtol=1e-9, atol=1e-12)
    rest = rows.target - A @ normal
    np.testing.assert_allclose(left, np.sqrt(rest @ rest / (len(rest) - 4)), rtol=1e-9)


def test_excess_of_growth_is_its_power(rng):
    """From the last value 1, the greatest, to 1.01^100; the range is from -1 to 1."""
    changes = np.append(rng.uniform(-0.9, 0.9, 60), [-1.0, 1.0])
    grown = excess(lambda X: 1.01 * X[:, 0], training(changes, (1,)))
    np.testing.assert_allclose(grown, (1.01**100 - 1.0) / 2.0, rtol=1e-9)
    on_last = excess(lambda X: 0.01 * X[:, 0], training(changes, (1,), anchor=0))
    np.testing.assert_allclose(on_last, grown, rtol=1e-9)
    assert excess(lambda X: 0.9 * X[:, 0], training(changes, (1,))) == 0.0
    assert np.isfinite(excess(lambda X: 1e9 * X[:, 0], training(changes, (1,))))


def test_excess_takes_the_regressors_of_the_time_and_leaves_gaps_out():
    """Runs of 3 + 5 values: y_t = y_(t-1) + x_t, where x is 1 at two times."""
    changes, exog = np.zeros(11), np.zeros((11, 1))
    changes[[0, 1]], changes[4] = [-1.0, 1.0], np.nan
    exog[[9, 10]] = 1.0
    rows = Training(np.empty((0, 2)), np.empty(0), changes, exog, (1,), None)
    out = excess(lambda X: X[:, 0] + X[:, 1], rows)
    assert out == pytest.approx((2.0 - 1.0) / 2.0)


def test_a_gap_and_a_few_last_rows_are_no_obstacle():
    known, _ = section(SERIES["lorenz"](), 570, 206)
    gapped = known.copy()
    gapped.iloc[50] = np.nan
    model = Forecaster(lags=6, max_train=100).fit(gapped)
    assert model.models_[0].n_rows == 100
    fitted = model.models_[0]
    assert isinstance(fitted, LaggedModel)
    assert np.isfinite(model.forecast(5).mean).all()


def test_steps_far_from_a_series_that_stays_in_a_range_have_its_mean_and_std():
    """An oscillation without noise, two models that leave it and a walk with its last drift."""
    t = np.arange(1000)
    y = pd.Series(np.sin(2 * np.pi * t / 97) + 0.4 * np.sin(2 * np.pi * t / 41.3))
    assert not far_from_past(y.to_numpy(), Spread(np.full(9, 3.5 * y.std()), np.ones(9))).any()
    medians, widths = np.full(200, 8 * y.std()), np.full(200, 5 * y.std())
    narrow = Spread(
        0.6 * medians, np.full(200, 0.1)
    )  # a burst of a noise-free map, rightly forecast
    assert not far_from_past(y.to_numpy(), narrow).any()
    for spread in (Spread(medians, np.ones(200)), Spread(np.zeros(200), widths)):
        far = far_from_past(y.to_numpy(), spread)
        assert far[-100:].all()
        assert not far[3:40].any()  # half a season, in which changes grow with the time
        others = y + 0.02 * t, y.cumsum(), y[:99], pd.concat([y, pd.Series([9.0])]), 0.0 * y + 5.0
        for other in others:
            assert not far_from_past(other.to_numpy(), spread)[-100:].any()


def test_such_steps_are_told_in_a_note(monkeypatch):
    y = pd.Series(np.sin(np.arange(60.0)) + np.random.default_rng(0).standard_normal(60))
    model = Forecaster().fit(y)
    plain = model.forecast(4)
    assert plain.notes_ == []
    monkeypatch.setattr(pool, "far_from_past", lambda y, spread: np.arange(4) >= 2)
    ahead = model.forecast(4)
    assert [note.kind for note in ahead.notes_] == ["far"]
    pd.testing.assert_frame_equal(ahead.first(2).cov, plain.first(2).cov)
    np.testing.assert_allclose(ahead.median[2:], y.mean())
    half = 0.5 * np.ptp(ahead.quantile(norm.cdf([-1.0, 1.0])).to_numpy()[2:], axis=1)
    np.testing.assert_allclose(half, y.std(ddof=0))
    cors = [one.cov / np.outer(one.std, one.std) for one in (ahead, plain)]
    np.testing.assert_allclose(*cors, rtol=1e-9)
