"""Weights of the models of the automatic choice by their scores inside the series."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from forecast_unc import Forecaster
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.pool.past_scores import PastScores, weights_by_scores

HORIZON = 6
BOTH = np.ones((2, 1), dtype=np.bool_)


def crps_by_quadrature(y, mean, std):
    """The integral of the squared distance of both distribution functions."""
    below = quad(lambda t: ndtr((t - mean) / std) ** 2, -np.inf, y, epsabs=1e-10)[0]
    return below + quad(lambda t: ndtr((mean - t) / std) ** 2, y, np.inf, epsabs=1e-10)[0]


def growing(n, seed):
    rng = np.random.default_rng(seed)
    values = 100.0 * np.exp(0.05 * np.arange(n) + 0.03 * rng.standard_normal(n))
    return pd.Series(values, pd.date_range("2015-01-01", periods=n, freq="MS"))


def score_by_hand(ensemble, number, prediction, known):
    """s of each step: CRPS at the origins with the width there, and that expected, as one more."""
    model, rolling, y = ensemble.models[number], ensemble.rolling, ensemble.history.y
    origins, low = rolling.origins, prediction.joint.q(np.array([[-1.0, 0.0, 1.0]]))
    width, slope = 0.5 * (low[:, 2] - low[:, 0]), model.transform.slope
    here = slope(model.transform.forward(low[:, 1]))
    values, there = rolling.forecasts(number, HORIZON)
    own, found = np.zeros(known.shape), []
    for i, h in np.argwhere(known):
        std = width[h] * there[i, h] / here[h]
        own[i, h] = crps_by_quadrature(y[origins[i] + h], values[i, h], std)
    for step in range(1, HORIZON + 1):
        first = max(step // 2, 1)
        total = weight = 0.0
        for i in range(len(origins)):
            age = 1.0 - i / (len(origins) - 1)
            for h in range(first, step + 1):
                if known[i, h - 1]:
                    total += np.exp(-2.0 * age) * own[i, h - 1]
                    weight += np.exp(-2.0 * age)
        m = (len(y) - origins[0]) * known[:, 0].mean() / step
        std = prediction.joint.width(0.95) / (2.0 * norm.ppf(0.975))
        expected = std[first - 1 : step].mean() / np.sqrt(np.pi)
        found.append((expected + m * total / weight) / (1.0 + m))
    return np.array(found)


def test_weights_are_the_third_power_of_the_scores():
    ensemble = Forecaster().fit(growing(60, 0)).ensemble_
    ahead = ensemble.history.future(HORIZON)
    predictions = [model.predict(ahead, Method("exact")) for model in ensemble.models]
    at = ensemble.rolling.origins[:, None] + np.arange(HORIZON)
    scores = np.array(
        [score_by_hand(ensemble, i, one, at < 60) for i, one in enumerate(predictions)]
    )
    ratio = scores / scores.min(axis=0)
    n_errors = (60 - ensemble.rolling.origins[0]) / np.arange(1, HORIZON + 1)
    assert (ratio.max(axis=0) > 2.0).any()
    expected = np.where((ratio > 2.0) & (n_errors >= 8.0), 0.0, ratio**-3.0)
    everything = np.ones(ratio.shape, dtype=np.bool_)
    found = weights_by_scores(ensemble.rolling, [None] * len(predictions), predictions, everything)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    votes = ensemble.votes[:, None] * found
    shares = votes[:, 0] / votes[:, 0].sum()
    np.testing.assert_allclose(Forecaster().fit(growing(60, 0)).weights_, shares, rtol=1e-6)


def test_without_errors_the_width_decides():
    scores = PastScores(np.zeros((3, 2)), np.zeros(2), 1e-9)
    stds = np.array([[1.0, 1.0], [1.5, 1.0], [2.5, 3.0]])
    found = scores.factors(stds, np.ones((3, 2), dtype=np.bool_))
    np.testing.assert_allclose(found, stds**-3.0)
    found = scores.factors(stds, np.array([[False, True], [True, True], [True, False]]))
    np.testing.assert_allclose(found, [[0.0, 1.0], [1.0, 1.0], [(5 / 3) ** -3.0, 0.0]])


def test_many_errors_decide_whatever_a_model_expects():
    """One of a level is sure of itself, and was wrong at every origin."""
    scores = PastScores(np.array([[9.0], [3.0]]), np.array([1e9]), 1e-9)
    np.testing.assert_allclose(scores.factors(np.array([[0.01], [5.0]]), BOTH), [[0.0], [1.0]])


def test_scores_below_the_least_are_as_good_as_none():
    scores = PastScores(np.array([[1e-3], [1e-6]]), np.array([50.0]), 0.01)
    np.testing.assert_allclose(scores.factors(np.zeros((2, 1)), BOTH), [[1.0], [1.0]])


@pytest.mark.parametrize("end", [30.0, 100.0])
def test_a_series_that_falls_in_a_line_is_not_left_to_its_logarithm(end):
    """The logarithm is narrow at the low level of today, and was wrong at those before.

    Weights by today's width: 95 % bands held .25, and means were 240 ranges away.
    """
    inside, n = [], 84
    for seed in range(4):
        rng, t = np.random.default_rng(seed), np.arange(n + 12) / (n - 1)
        walk = np.cumsum(rng.normal(0.0, 6.0, n + 12))
        values = end + (1000.0 - end) * (1.0 - t) + walk - walk[n - 1]
        y = pd.Series(values, pd.date_range("2015-01-01", periods=n + 12, freq="MS"))
        ahead = Forecaster(random_state=0).fit(y[:n]).forecast(12)
        band = ahead.interval(0.95)
        inside.append(np.mean((band["lower"] <= y[n:]) & (y[n:] <= band["upper"])))
        assert (np.abs(ahead.mean - end) < 500.0).all()
    assert np.mean(inside) >= 0.75
