"""Mixtures of joint normals: steps, sums, what is left once some are known, and as a Forecast."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from forecast_unc import Forecast
from forecast_unc.distributions import normal_mixture as normal_mixture
from forecast_unc.distributions.normal_mixture import MixtureShape, NormalMixture
from forecast_unc.distributions.power import PowerTransform

INDEX = pd.RangeIndex(3)


@pytest.fixture
def mixture(rng):
    """Four normals of three steps, whose means and widths differ by much."""
    p = np.array([0.4, 0.3, 0.2, 0.1])
    means = rng.normal(size=(4, 3))
    roots = rng.normal(size=(4, 3, 3)) * np.array([0.5, 1.0, 1.5, 2.0])[:, None, None]
    return NormalMixture(p, means, roots @ roots.transpose(0, 2, 1) + 0.2 * np.eye(3))


@pytest.fixture
def forecast(mixture):
    return Forecast(INDEX, mixture.mean, mixture.cov, mixture=mixture)


def cdf(mixture, step, y):
    stds = np.sqrt(mixture.covs[:, step, step])
    return float(mixture.p @ norm.cdf(y, mixture.means[:, step], stds))


def density(mixture, at, y):
    """Joint density of some steps."""
    return sum(
        p * multivariate_normal.pdf(y, mean[at], cov[np.ix_(at, at)])
        for p, mean, cov in zip(mixture.p, mixture.means, mixture.covs, strict=True)
    )


def test_moments_are_those_of_draws(mixture, rng):
    draws = np.vstack(
        [
            rng.multivariate_normal(mean, cov, int(p * 40000))
            for p, mean, cov in zip(mixture.p, mixture.means, mixture.covs, strict=True)
        ]
    )
    std = np.sqrt(np.diagonal(mixture.cov))
    np.testing.assert_allclose((mixture.mean - draws.mean(axis=0)) / std, 0.0, atol=5 / 200)
    # five errors of a covariance at a kurtosis of 3 above the normal's
    away = (mixture.cov - np.cov(draws.T)) / np.outer(std, std)
    np.testing.assert_allclose(away, 0.0, atol=5 * np.sqrt(5) / 200)


@pytest.mark.parametrize("q", [1e-9, 0.05, 0.5, 0.8, 1 - 1e-6])
def test_quantiles_are_roots_of_the_distribution_function(mixture, forecast, q):
    for step, value in enumerate(forecast.quantile(q)):
        root = brentq(lambda y, at=step: cdf(mixture, at, y) - q, -60.0, 60.0, xtol=1e-13)
        # one unit of rounding in q, over the density
        error = 1e-14 / density(mixture, [step], [root])
        assert value == pytest.approx(root, abs=1e-11 + error)


def test_the_shape_is_increasing_and_inverted(mixture):
    shape, units = mixture.chain()
    z = np.linspace(-9.0, 9.0, 181)[None]
    values = shape(z)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(shape(np.zeros((1, 1))), 0.0, atol=1e-14)
    np.testing.assert_allclose(shape.inverse(values), np.tile(z, (3, 1)), atol=1e-12)
    slope = (shape(z + 1e-5) - shape(z - 1e-5)) / 2e-5
    np.testing.assert_allclose(shape.slope(z), slope, rtol=1e-6)
    np.testing.assert_allclose(shape[np.array([2, 0])](z), values[[2, 0]])
    np.testing.assert_allclose(units.scale**2, np.diagonal(mixture.cov), rtol=1e-14)
    assert np.isnan(shape.inverse(np.full((3, 1), np.nan))).all()
    assert np.isneginf(shape.inverse(np.full((3, 1), -np.inf))).all()
    assert units.shift[0] == pytest.approx(brentq(lambda y: cdf(mixture, 0, y) - 0.5, -9, 9))


def bisected(log_p, means, stds, z):
    """The quantile at a score by halves, from the nearer tail."""
    side = -1.0 if z > 0 else 1.0
    low, high = -1e4, 1e4
    for _ in range(120):
        middle = 0.5 * (low + high)
        log_tail = logsumexp(log_p + norm.logcdf((middle - side * means) / stds))
        if log_tail < norm.logcdf(side * z):
            low = middle
        else:
            high = middle
    return side * high


PARTS = {
    "alike": ([0.5, 0.3, 0.2], [-0.2, 0.1, 0.3], [0.8, 1.0, 1.1]),
    "a wide one": ([0.6, 0.399, 0.001], [0.0, 0.1, -3.0], [0.5, 0.7, 50.0]),
    "far apart": ([0.3, 0.5, 0.2], [-4.0, 0.0, 5.0], [0.01, 0.1, 0.02]),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_far_out_too_quantiles_are_those_of_bisection(parts):
    p, means, stds = map(np.array, parts)
    tail = MixtureShape(np.log(p), means[:, None], stds[:, None])
    z = np.array([-45.0, -38.0, -12.0, -4.0, -1.0, -0.4, 0.0, 0.1, 0.7, 2.0, 7.0, 30.0, 45.0])
    found = tail(z[None])[0]
    for one, value in zip(z, found, strict=True):
        # a unit of rounding in the score, over its slope there
        slope = float(tail.slope(np.array([[one]]))[0, 0])
        error = 1e-14 * (1.0 + abs(one)) * (1.0 + slope) + 1e-13 * abs(value)
        assert value == pytest.approx(bisected(np.log(p), means, stds, one), abs=error)


def test_a_quantile_takes_few_steps(mixture, monkeypatch):
    """The slope of the distribution function is looked at once a step."""
    tail, _ = mixture.chain()
    steps = []

    def counted(log_p, u, stds, score, steepness=normal_mixture._steepness):
        steps.append(u.shape[1])
        return steepness(log_p, u, stds, score)

    monkeypatch.setattr(normal_mixture, "_steepness", counted)
    tail(np.linspace(-12.0, 12.0, 200)[None])
    assert len(steps) <= 6
    assert np.isposinf(tail(np.array([[np.inf]]))).all()


def test_a_forecast_is_scored_by_the_mixture(mixture, forecast):
    actual = pd.Series([0.3, -4.0, 2.0], INDEX)
    found = forecast.score(actual)
    for step, y in enumerate(actual):
        below = quad(lambda x, at=step: cdf(mixture, at, x) ** 2, -40, y, limit=200)[0]
        above = quad(lambda x, at=step: (1 - cdf(mixture, at, x)) ** 2, y, 40, limit=200)[0]
        assert found["crps"][step] == pytest.approx(below + above, abs=1e-6)
        assert found["pit"][step] == pytest.approx(cdf(mixture, step, y), abs=1e-12)
        assert found["nlpd"][step] == pytest.approx(-np.log(density(mixture, [step], [y])))
    np.testing.assert_array_equal(forecast.mean, mixture.mean)
    np.testing.assert_array_equal(forecast.cov, mixture.cov)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [-1.0, 0.0, 2.0]])
def test_a_sum_of_steps_is_the_mixture_of_their_sums(mixture, forecast, weights):
    total = forecast.aggregate(weights)
    means, stds = mixture.means @ weights, np.sqrt(weights @ mixture.covs @ weights)
    for q in (0.05, 0.5, 0.95):
        (value,) = total.quantile(q)
        assert float(mixture.p @ norm.cdf(value, means, stds)) == pytest.approx(q, abs=1e-12)


def test_the_first_steps_are_those_of_the_longer_forecast(forecast, mixture):
    short = forecast.first(2)
    np.testing.assert_allclose(short.interval(), forecast.interval()[:2], rtol=1e-12)
    np.testing.assert_allclose(short.cov, mixture.cov[:2, :2], rtol=1e-14)
    both, first = short.aggregate("sum"), forecast.aggregate([1.0, 1.0, 0.0])
    np.testing.assert_allclose(both.interval(), first.interval(), rtol=1e-10)


def test_what_is_left_has_the_conditional_density(mixture, forecast):
    known = pd.Series([1.2, -0.4], index=[2, 0])
    left = forecast.condition(known)
    for y in (-2.0, 0.0, 1.5):
        joint = density(mixture, [0, 1, 2], [-0.4, y, 1.2])
        expected = -np.log(joint / density(mixture, [0, 2], [-0.4, 1.2]))
        found = left.score(pd.Series([y], index=[1]))["nlpd"]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_paths_have_the_steps_and_the_covariance(mixture, forecast):
    paths = forecast.sample(40000, random_state=0).to_numpy()
    std = np.sqrt(np.diagonal(mixture.cov))
    for step in range(3):
        below = (paths[step] <= forecast.quantile(0.05).iloc[step]).mean()
        assert below == pytest.approx(0.05, abs=5 * np.sqrt(0.05 * 0.95 / 40000))
    away = (np.cov(paths) - mixture.cov) / np.outer(std, std)
    np.testing.assert_allclose(away, 0.0, atol=5 * np.sqrt(5) / 200)


def test_after_a_logarithm_quantiles_are_mapped_and_the_mean_is_that_of_lognormals(mixture):
    small = NormalMixture(mixture.p, 0.3 * mixture.means, 0.09 * mixture.covs)
    log = PowerTransform(0.0)
    ahead = Forecast(INDEX, small.mean, small.cov, transform=log, mixture=small)
    plain = Forecast(INDEX, small.mean, small.cov, mixture=small)
    np.testing.assert_allclose(ahead.interval(), np.exp(plain.interval()), rtol=1e-12)
    var = np.diagonal(small.covs, axis1=1, axis2=2)
    # by quadrature over z, in which a shape of so different stds is steep
    np.testing.assert_allclose(ahead.mean, small.p @ np.exp(small.means + 0.5 * var), rtol=1e-5)
    second = small.p @ np.exp(2 * small.means + 2 * var)
    np.testing.assert_allclose(ahead.var, second - ahead.mean**2, rtol=1e-4)
    total = ahead.aggregate("sum")
    np.testing.assert_allclose(total.mean, ahead.mean.sum(), rtol=1e-9)
    np.testing.assert_allclose(total.var, ahead.cov.to_numpy().sum(), rtol=1e-6)


def test_an_average_averages_the_quantiles_of_a_mixture(forecast):
    other = Forecast(pd.RangeIndex(4), np.arange(4.0), np.eye(4))
    both = Forecast.average([forecast, other])
    expected = 0.5 * (forecast.quantile(0.9) + other.quantile(0.9)[:3])
    np.testing.assert_allclose(both.quantile(0.9)[:3], expected, rtol=1e-12)
    np.testing.assert_allclose(both.quantile(0.9)[3], other.quantile(0.9)[3], rtol=1e-12)


def test_wider_bands_keep_the_median(forecast):
    wider = forecast.recalibrated(np.full(3, 2.0))
    np.testing.assert_allclose(wider.median, forecast.median, rtol=1e-12, atol=1e-13)
    low, high = (one.quantile(0.9) - one.median for one in (forecast, wider))
    np.testing.assert_allclose(high, 2.0 * low, rtol=1e-10)


def test_one_normal_is_a_normal(rng):
    root = rng.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    alone = NormalMixture(np.ones(1), np.ones((1, 3)), cov[None])
    ahead = Forecast(INDEX, alone.mean, alone.cov, mixture=alone)
    normal = Forecast(INDEX, np.ones(3), cov)
    np.testing.assert_allclose(ahead.interval(), normal.interval(), rtol=1e-12)
    np.testing.assert_allclose(ahead.aggregate().interval(), normal.aggregate().interval())
