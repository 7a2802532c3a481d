"""Noise whose size follows its recent size, against simulated innovations."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from forecast_unc import Forecaster, load_model
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.effects import Effects
from forecast_unc.forecasting.models.relative_noise import RelativeNoise
from forecast_unc.forecasting.models.volatility import Volatility, log_likelihoods, p_value
from forecast_unc.forecasting.pool.backcast import rolling_spreads
from forecast_unc.series.history import History

PHI, ALPHA = 0.95, 0.1


def innovations(shape, seed, variance=1.0, phi=PHI, alpha=ALPHA):
    """Normal innovations (..., n) of a mean variance of 1, and the variance of each."""
    draws = np.random.default_rng(seed).normal(size=shape)
    e, h = np.empty(shape), np.empty(shape)
    now = np.broadcast_to(variance, shape[:-1])
    for t in range(shape[-1]):
        h[..., t], e[..., t] = now, np.sqrt(now) * draws[..., t]
        now = 1.0 + phi * (now - 1.0) + alpha * (e[..., t] ** 2 - now)
    return e, h


def walk(n=300, seed=0, spell=40):
    """Prices, the last changes of which are four times as large."""
    e = np.random.default_rng(seed).normal(size=n)
    size = np.where(np.arange(n) // 50 % 2 == 1, 2.0, 0.5)
    size[-spell:] = 2.0
    return pd.Series(500.0 + np.cumsum(size * e), pd.date_range("2024-01-01", periods=n, freq="W"))


def relative_noise(y, periods=()):
    history = History.checked(y)
    return RelativeNoise.learn(history.y, history, Effects(), periods, True)


@pytest.mark.parametrize("first", [0.3, 4.0])
def test_the_variance_of_later_steps_is_that_of_simulated_ones(first):
    e, _ = innovations((200_000, 12), 0, first, alpha=0.1)
    expected = Volatility(PHI, 0.1, 1.0).ahead(np.array(first), 12)
    assert_allclose(np.mean(e**2, axis=0), expected, rtol=0.05)


def test_variances_are_those_of_the_innovations_before():
    e, h = innovations((500,), 1, phi=0.9, alpha=0.1)
    found = Volatility(0.9, 0.1, 2.0).variances(2.0 * e)
    assert (e**2 / h).max() < 16.0
    assert_allclose(found[:-1], h, rtol=1e-9)
    gap = np.where(np.arange(500) < 490, e, np.nan)
    later = Volatility(0.9, 0.1, 1.0).variances(gap)
    assert_allclose(later[490:] - 1.0, 0.9 ** np.arange(11) * (h[490] - 1.0), rtol=1e-9)


def test_a_single_outlier_counts_for_sixteen_variances():
    e = np.ones(10)
    e[4] = 1e6
    found = Volatility(PHI, ALPHA, 1.0).variances(e)
    assert_allclose(found[5], 1.0 + 15.0 * ALPHA)


def test_likelihoods_are_those_of_students_t():
    e, h = innovations((300,), 2)
    t = stats.t(8, scale=np.sqrt(6.0 / 8.0))  # of variance 1
    expected = [t.logpdf(e / np.sqrt(one)) - 0.5 * np.log(one) for one in (h, np.ones(300))]
    found = log_likelihoods(e**2, np.array([PHI, 0.0]), np.array([ALPHA, 0.0]))
    assert_allclose(found[0] - found[1], np.sum(expected[0] - expected[1]), rtol=1e-9)


def test_parameters_are_found():
    found = [Volatility.learn(innovations((2500,), seed)[0]) for seed in range(4)]
    assert np.mean([one.phi for one in found]) == pytest.approx(PHI, abs=0.03)
    assert np.mean([one.alpha for one in found]) == pytest.approx(ALPHA, abs=0.05)


@pytest.mark.parametrize("name", ["normal", "tails", "outliers", "ties", "gaps"])
def test_it_is_seldom_found_where_there_is_none(name):
    rng = np.random.default_rng(0)
    e = rng.standard_t(3, (200, 150)) if name == "tails" else rng.normal(size=(200, 150))
    if name == "outliers":
        e[:, 70:72] *= 15.0
    if name == "ties":
        e = np.where(np.abs(e) < 1.0, 0.0, e)
    if name == "gaps":
        e[:, 40:80:2] = np.nan
    assert np.mean([p_value(one) < 0.05 for one in e]) < 0.1
    assert np.mean([Volatility.learn(one) is not None for one in e[:60]]) < 0.05


def test_too_few_values_or_none_that_differ_say_nothing():
    assert Volatility.learn(innovations((99,), 0)[0]) is None
    index = pd.date_range("2024-01-01", periods=200)
    assert relative_noise(pd.Series(np.arange(200.0), index)) is None
    assert relative_noise(pd.Series(5.0, index)) is None


def test_it_is_beside_the_noise_of_the_season():
    """Quiet weekends are no volatility, and innovations are measured in their size."""
    e, h = innovations((1400,), 3, alpha=0.15)
    index = pd.date_range("2024-01-01", periods=1401)
    size = np.where(index.day_of_week > 4, 0.2, 1.0)
    y = pd.Series(np.append(size[:-1] * e, 0.0) + 50.0, index)
    history = History.checked(y[:-1])
    noise = relative_noise(y[:-1], (7,))
    ahead = noise.given(history.y, history).ahead(index[-1:])
    last = size[-1] / np.sqrt(np.mean(size**2)) * np.sqrt(1.0 + PHI * (h[-1] - 1.0))
    assert noise.seasonal.periods == (7,)
    assert ahead.std[0] == pytest.approx(last, rel=0.25)
    past = noise.given(history.y, history).past
    assert np.corrcoef(np.log(past), np.log(size[:-1] * np.sqrt(h)))[0, 1] > 0.95
    constant = pd.Series(size * np.random.default_rng(0).normal(size=1401), index)
    assert relative_noise(constant, (7,)).volatility is None


# Forecasts


@pytest.fixture(scope="module")
def prices():
    y = walk()
    return y, Forecaster().fit(y)


def width(forecast):
    return np.diff(forecast.interval(0.8).to_numpy())[:, 0]


def test_bands_follow_the_recent_size(prices):
    y, model = prices
    calm, wild = (model.apply(y[:end]).forecast(3) for end in (250, 300))
    assert width(wild)[0] > 1.8 * width(calm)[0]


def test_sums_have_it(prices):
    y, model = prices
    calm, wild = (model.apply(y[:end]).forecast(4).aggregate("sum") for end in (250, 300))
    assert float(np.squeeze(wild.std)) > 1.8 * float(np.squeeze(calm.std))


def test_a_line_names_it(prices):
    (line,) = (one for one in map(str, prices[1].choices_) if one.startswith("noise"))
    assert line.startswith("noise: its size follows recent changes, half of it is forgotten in")


def test_a_saved_model_goes_on(prices, tmp_path):
    y, model = prices
    model.save(tmp_path / "model.npz")
    again, more = load_model(tmp_path / "model.npz"), walk(320, seed=0)
    for one in (lambda m: m, lambda m: m.apply(y[:-40]), lambda m: m.update(more[300:])):
        assert_allclose(width(one(again).forecast(3)), width(one(model).forecast(3)), rtol=1e-9)


def test_widths_of_earlier_origins_are_those_of_their_time(prices):
    """What models have there when they are applied to what was known then."""
    _, model = prices
    ensemble = model.ensemble_
    ahead = ensemble.history.future(5)
    predictions = [one.predict(ahead, Method()) for one in ensemble.models]
    now = [one.noise_ahead(ahead.index) for one in ensemble.models]
    spreads = rolling_spreads(ensemble.rolling, predictions, now, 5)
    origin = int(ensemble.rolling.origins[8])
    earlier = ensemble.at(ensemble.history.part(0, origin))
    for number, (one, there) in enumerate(zip(ensemble.models, earlier.models, strict=True)):
        if one.transform.power is None:
            joint = there.predict(there.history.future(5), Method()).joint
            widths = spreads.past_width[number, 8], joint.q.spread[1]
            assert_allclose(*widths, rtol=0.1)
            assert_allclose(widths[0][0], widths[1][0], rtol=0.01)
    ratio = spreads.past_width[..., 0] / spreads.width[:, None, 0]
    assert ratio.max() > 1.8 * ratio.min()


def test_fitted_bands_follow_it(prices):
    y, model = prices
    std = model.fitted().std
    assert std[y.index[190:200]].mean() > 1.5 * std[y.index[240:250]].mean()


def test_where_a_function_bends_errors_of_a_line_are_no_noise():
    y = np.empty(160)
    y[0] = 0.3
    for t in range(1, 160):
        y[t] = 3.9 * y[t - 1] * (1.0 - y[t - 1])
    model = Forecaster().fit(pd.Series(y, pd.date_range("2024-01-01", periods=160, freq="YS")))
    assert not model.ensemble_.rules.volatile
