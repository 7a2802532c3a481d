"""Forecasts of many origins that share a fit, made together: the same as one at a time."""

import numpy as np
import pandas as pd
import pytest

from forecast_unc import (
    Forecaster,
    GPRegressor,
    datasets,
)
from forecast_unc.forecasting import propagation
from forecast_unc.forecasting.abreast import forecasts_together
from forecast_unc.regression import moments_abreast as abreast
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.kernels import squared_exponential

# Of means in stds, and of covariances over the largest: a step is right to 1e-9 or better, and the
# recursion makes more of it.
RTOL = 1e-7
GP = GPRegressor(tol=1e-6)


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(3)
    index = pd.date_range("2020-01-01", periods=330, freq="D")
    values = datasets.make_mackey_glass(330, noise_std=0.02, random_state=0).to_numpy()
    week = 0.1 * np.sin(2 * np.pi * np.arange(330) / 7)
    exog = pd.DataFrame({"x": rng.standard_normal(330)}, index)
    return pd.Series(values + week + 0.05 * exog["x"].to_numpy(), index), exog


def test_what_is_at_hand_is_only_for_what_it_was_made_for(series):
    y = series[0]
    fitted = Forecaster(GP, lags=3).fit(y.iloc[:300])
    models = [fitted.apply(y.iloc[:n]) for n in (300, 310)]
    ready = forecasts_together(models, 8, [None, None], [None, None])
    assert [m.models_[0].at_hand is not None for m in ready] == [True, True]
    assert [m.models_[0].at_hand for m in models] == [None, None]
    for options in ({"path_consistent": False}, {"propagation": "taylor"}, {}):
        a, b = (m.forecast(5, **options) for m in (ready[1], models[1]))
        np.testing.assert_array_equal(a.cov, b.cov)
    assert ready[0].apply(y).models_[0].at_hand is None
    assert ready[0].update(y.iloc[300:305]).models_[0].at_hand is None


def test_a_diverging_origin_is_left_to_say_so(series, monkeypatch):
    y = series[0]
    fitted = Forecaster(GP, lags=3).fit(y.iloc[:300])
    models = [fitted.apply(y.iloc[:n]) for n in (300, 305, 310)]
    entered, enter = [], propagation._Matching.enter

    def fails(self, found):
        entered.append(self)
        if len(entered) == 5:  # the second origin at its second step
            raise propagation.Unstable("too wide. Stop.")
        enter(self, found)

    monkeypatch.setattr(propagation._Matching, "enter", fails)
    ready = forecasts_together(models, 8, [None] * 3, [None] * 3)
    assert [m.models_[0].at_hand is not None for m in ready] == [True, False, True]
    monkeypatch.undo()
    for a, b in zip(ready, models, strict=True):
        np.testing.assert_allclose(a.forecast(8).std, b.forecast(8).std, rtol=RTOL)


def problem(n, d, lengthscale, noise, rng):
    """A posterior, and inputs near and far, of full and of lower rank, wide and narrow."""
    X = rng.standard_normal((n, d))
    y = np.sin(X[:, 0]) + 0.3 * X[:, -1] + noise * rng.standard_normal(n)
    posterior = GPRegressor(lengthscales=lengthscale, noise_std=noise).fit(X, y).posterior_
    A = rng.standard_normal((9, d, d)) * np.array([0.01, 0.1, 0.5, 2.0] * 2 + [5.0])[:, None, None]
    A[4:, :, 0] = 0.0
    A[4:, 0] = 0.0  # a known coordinate
    means = rng.standard_normal((9, d)) * np.array([1.0] * 7 + [4.0, 30.0])[:, None]
    return posterior, means, A @ np.swapaxes(A, 1, 2)


@pytest.mark.parametrize("lengthscale", [0.7, 3.0])
@pytest.mark.parametrize(("n", "d", "noise"), [(150, 1, 0.1), (300, 3, 0.01), (260, 6, 0.3)])
def test_moments_are_those_of_each_input(rng, n, d, noise, lengthscale):
    posterior, means, covs = problem(n, d, lengthscale, noise, rng)
    for one, mean, cov in zip(posterior.moments_abreast(means, covs), means, covs, strict=True):
        alone = posterior.moments(mean, cov)
        std = np.sqrt(alone.var)
        np.testing.assert_allclose(one.mean, alone.mean, atol=1e-9 * std)
        np.testing.assert_allclose(one.var, alone.var, rtol=1e-8)
        np.testing.assert_allclose(one.slope, alone.slope, atol=1e-9 * np.abs(alone.slope).max())


def test_known_inputs_are_the_plain_prediction(rng):
    posterior, means, covs = problem(60, 2, 1.0, 0.1, rng)
    found = posterior.moments_abreast(means, 0.0 * covs)
    mean, var = posterior.predict(means)
    np.testing.assert_allclose([one.mean for one in found], mean, rtol=1e-12)
    np.testing.assert_allclose([one.var for one in found], var, rtol=1e-12)
    np.testing.assert_allclose([one.slope for one in found], posterior.gradient(means), rtol=1e-12)


def test_what_few_rows_do_not_span_goes_over_all(rng, monkeypatch):
    """Between two groups of rows the kernels of an input are not those of any of them."""
    X = np.concatenate([rng.uniform(-3, -1, 200), rng.uniform(1, 3, 200)])[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(400)
    posterior = GPRegressor(lengthscales=0.5, noise_std=0.1).fit(X, y).posterior_
    assert len(posterior._weighted_kernels.span.rows) < 60
    pairs, plain = [], abreast.weighted_expm1

    def spy(weights, *parts):
        pairs.append((len(weights) < 60, len(parts[0])))
        return plain(weights, *parts)

    monkeypatch.setattr(abreast, "weighted_expm1", spy)
    means, covs = np.array([[-2.0], [2.2], [0.0], [0.2]]), np.full((4, 1, 1), 0.01)
    found = posterior.moments_abreast(means, covs)
    assert pairs == [(True, 2), (False, 2)]
    for one, mean, cov in zip(found[2:], means[2:], covs[2:], strict=True):
        np.testing.assert_allclose(one.var, posterior.moments(mean, cov).var, rtol=1e-11)
    assert problem(300, 8, 0.5, 0.1, rng)[0]._weighted_kernels.span is None


@pytest.mark.parametrize(("n", "d", "lengthscale"), [(1000, 1, 0.5), (500, 1, 0.15), (600, 2, 5.0)])
def test_spanning_rows_leave_what_they_say(rng, n, d, lengthscale):
    """Of smooth kernels a few dozen rows leave the rest no variance: k - k_S K_SS^-1 k_S'."""
    centers = rng.standard_normal((n, d))
    kernel = squared_exponential(centers, centers, np.full(d, lengthscale))
    weights = np.diag(rng.random(n))
    span = abreast.SpanningRows.of(centers, np.full(d, lengthscale), weights, 1.0)
    rank = int((np.linalg.eigvalsh(kernel) > span.least / n).sum())
    assert len(span.rows) <= rank + 20
    left = 1.0 - np.einsum("iq,qi->i", span.T, kernel[span.rows])
    assert np.abs(left).max() < 100 * span.least
    assert np.abs(kernel - span.T @ kernel[span.rows]).max() < 100 * np.sqrt(span.least) * 1e-3
    np.testing.assert_allclose(span.weights, span.T.T @ weights @ span.T, rtol=1e-9, atol=1e-9)


def test_inputs_are_left_as_they_were(rng):
    posterior, means, covs = problem(50, 2, 1.0, 0.1, rng)
    given = means.copy(), covs.copy()
    posterior.moments_abreast(means, covs)
    np.testing.assert_array_equal(means, given[0])
    np.testing.assert_array_equal(covs, given[1])


def test_what_was_computed_is_not_saved(rng):
    posterior, means, covs = problem(50, 2, 1.0, 0.1, rng)
    posterior.moments_abreast(means, covs)
    assert isinstance(posterior, KernelPosterior)
    assert "_weighted_kernels" not in posterior.__getstate__()
