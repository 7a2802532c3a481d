"""Functions drawn whole: their moments are those of the posterior, and so are their paths'."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from forecast_unc import Forecaster, GPRegressor, ReducedRankGPRegressor, RVMRegressor
from forecast_unc.forecasting.horizon.types import Future, Method
from forecast_unc.regression.kernel_posterior import Factor
from forecast_unc.regression.predictor import ScikitLearnRegressor
from forecast_unc.regression.prior_draws import frequencies
from tests import oracles
from tests.recursions import conditioned
from tests.recursions import paths_of as sample_paths
from tests.test_moments import built_by_hand
from tests.test_propagation import assert_close_in_errors, linear_posterior


def values_at(posterior, X, n, seed=0):
    """Values of n functions at the rows of X, (n, len(X))."""
    sample = posterior.function_sample(n, np.random.default_rng(seed))
    return np.column_stack([sample(np.tile(x, (n, 1))) for x in X])


# Random features


@pytest.mark.parametrize("d", [1, 2, 9])
def test_features_have_the_kernel_as_their_mean(d):
    rng = np.random.default_rng(d)
    away = np.array([0.0, 0.3, 1.0, 2.5])[:, None] * np.ones(d) / np.sqrt(d)
    sets = [frequencies(64, d, rng) for _ in range(1000)]
    kernels = np.array([np.cos(away @ omega) @ weights for omega, weights in sets])
    error = kernels.std(axis=0) / np.sqrt(len(kernels)) + 1e-12
    expected = np.exp(-0.5 * (away**2).sum(axis=1))
    np.testing.assert_array_less(np.abs(kernels.mean(axis=0) - expected), 5 * error)
    assert max(weights.max() for _, weights in sets) <= 2 / 64  # a tail of no set counts for all


# Functions


def sines(n, rng, noise=0.1):
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 3.0 + noise * rng.standard_normal(n)


POSTERIORS = {
    "gp": lambda rng: GPRegressor().fit(*sines(25, rng)).posterior_,
    "shrunk": lambda rng: GPRegressor(prior="shrunk").fit(*sines(8, rng)).posterior_,
    "anchored": lambda rng: GPRegressor(linear=False).fit(*sines(25, rng)).posterior_.plus_input(1),
    "rvm": lambda rng: RVMRegressor(prior="individual").fit(*sines(25, rng)).posterior_,
    "reduced rank": lambda rng: ReducedRankGPRegressor(n_support=6).fit(*sines(40, rng)).posterior_,
    "reduced rank, standard": lambda rng: (
        ReducedRankGPRegressor(n_support=6, variance="standard").fit(*sines(40, rng)).posterior_
    ),
    "weights and a kernel": lambda rng: built_by_hand(rng, 6, (1,)),
    "linear": lambda rng: linear_posterior(np.array([0.5, -0.2]), 0.3, 0.7),
}


@pytest.mark.parametrize("kind", POSTERIORS)
def test_functions_have_the_moments_of_their_posterior(kind, rng):
    posterior = POSTERIORS[kind](rng)
    X = np.vstack([rng.uniform(-3, 3, size=(4, 2)), [[6.0, -5.0]]])
    values = values_at(posterior, X, 8_000)
    assert_close_in_errors(values, posterior.mean(X), posterior.covariance(X))


@pytest.mark.parametrize("kind", ["gp", "rvm"])
def test_a_function_has_one_value_at_an_input(kind, rng):
    sample = POSTERIORS[kind](rng).function_sample(50, rng)
    X = rng.uniform(-3, 3, size=(50, 2))
    first = sample(X)
    other = sample(X + 1.0)
    np.testing.assert_array_equal(sample(X), first)
    mixed = np.where(np.arange(50)[:, None] % 2, X, X + 1.0)
    # in single precision a value of the prior's draw is good to some 1e-6 of its std
    expected = np.where(np.arange(50) % 2, first, other)
    np.testing.assert_allclose(sample(mixed), expected, atol=1e-4)


def test_with_little_noise_functions_are_as_sharp_as_the_posterior():
    """At the rows, between and beyond them: stds from 1e-4 of the signal to all of it."""
    x = np.linspace(-2, 2, 25)[:, None]
    gp = GPRegressor(linear=False, lengthscales=1.0, noise_std=2e-4)
    gp.fit(x, np.sin(2 * x[:, 0]))
    X = np.concatenate([x[::6], x[:3] + 0.05, [[2.5], [3.0], [3.5], [4.0], [6.0]]])
    values = values_at(gp.posterior_, X, 4000)
    std = np.sqrt(np.diagonal(gp.posterior_.covariance(X)))
    scaled = (values - gp.posterior_.mean(X)) / std
    assert std.max() / std.min() > 50
    # each of the 125 sets of frequencies errs by 2 % of a variance or less, beside the 2.2 % here
    np.testing.assert_array_less(np.abs(scaled.mean(axis=0)), 5 / np.sqrt(4000))
    np.testing.assert_allclose(scaled.var(axis=0), 1.0, atol=5 * np.sqrt(2 / 4000))
    np.testing.assert_allclose((scaled**4).mean(axis=0), 3.0, atol=5 * np.sqrt(96 / 4000))


def test_a_posterior_that_cannot_draw_functions_says_so(rng):
    gp = GPRegressor().fit(*sines(25, rng)).posterior_
    (factor,) = gp.factors
    assert gp.function_sample(2, rng) is not None
    # errors of rows that are smaller than those of the features
    nearly_none = replace(factor, error_var=1e-10 * gp.kernel_var)
    line = ScikitLearnRegressor(BayesianRidge()).fit(*sines(25, rng)).posterior_
    for posterior in (
        replace(gp, factors=(factor, factor)),
        replace(gp, factors=(Factor(-1, factor.chol, factor.scale, factor.linear),)),
        replace(gp, factors=(nearly_none,)),
        RVMRegressor(variance="augmented").fit(*sines(25, rng)).posterior_,
        ReducedRankGPRegressor(variance="augmented").fit(*sines(25, rng)).posterior_,
        line,
    ):
        assert posterior.function_sample(2, rng) is None


# Few centers


@pytest.mark.parametrize("kind", ["smooth", "anchored", "widened", "errors", "quiet"])
def test_few_centers_have_the_posterior_of_all_rows(kind, rng):
    """Near the rows, between and beyond them, in stds."""
    X = rng.uniform(-2, 2, size=(150, 2))
    noise_std = 3e-4 if kind == "quiet" else 0.2
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 3.0 + noise_std * rng.standard_normal(150)
    whole = GPRegressor(prior="shrunk" if kind == "widened" else "weak").fit(X, y).posterior_
    if kind == "anchored":
        whole = whole.plus_input(1)
    if kind == "errors":
        (factor,) = whole.factors
        errors = np.full(150, factor.error_var)
        whole = replace(whole, factors=(replace(factor, error_var=errors),))
    few = whole.on_few_centers
    assert len(few.centers) < 75
    assert few.on_few_centers is few
    X = np.vstack([rng.uniform(-2, 2, size=(20, 2)), [[3.0, -3.0], [8.0, 8.0]]])
    mean, var = whole.predict(X)
    np.testing.assert_array_less(np.abs(few.mean(X) - mean), 0.05 * np.sqrt(var))
    std = np.sqrt(np.diagonal(whole.covariance(X)))
    off = (few.covariance(X) - whole.covariance(X)) / np.outer(std, std)
    np.testing.assert_allclose(off, 0.0, atol=0.1)


def test_the_first_few_centers_leave_a_tenth_as_much(rng):
    """Of one input: the variance is off by 1 or 2 %, with a hundredth of the noise by 20."""
    x = rng.uniform(-2, 2, size=(200, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(200)
    whole = GPRegressor().fit(x, y).posterior_
    few = whole.on_few_centers
    assert len(few.centers) < 20
    std = np.sqrt(np.diagonal(whole.covariance(x)))
    off = (few.covariance(x) - whole.covariance(x)) / np.outer(std, std)
    np.testing.assert_allclose(off, 0.0, atol=0.05)


def test_few_centers_are_for_processes_with_noise(rng):
    x = np.linspace(-2, 2, 25)[:, None]
    sharp = GPRegressor(linear=False, lengthscales=0.2, noise_std=1e-2).fit(x, np.sin(2 * x[:, 0]))
    others = POSTERIORS["rvm"](rng), POSTERIORS["reduced rank"](rng), sharp.posterior_
    for posterior in others:
        assert posterior.on_few_centers is posterior


# Paths


def one_step(name):
    """A fitted model's one-step model, its history and six future steps."""
    rng = np.random.default_rng(3)
    y = pd.Series(5.0 + 2.0 * np.tanh(oracles.autoregression([1.2, -0.4], 30, rng)))
    exog = pd.DataFrame({"a": np.cos(0.7 * np.arange(36.0))})
    forecaster = {
        "gp": Forecaster(GPRegressor(linear=False), lags=2),
        "log changes": Forecaster(
            GPRegressor(), lags=2, differences=1, transform="log", prior_mean="last"
        ),
        "regressor": Forecaster(GPRegressor(), lags=2),
        "rvm": Forecaster(RVMRegressor(), lags=(1, 3)),
    }[name]
    known = name != "regressor"
    (model,) = forecaster.fit(y, None if known else exog[:30]).models_
    future = Future(np.empty((6, 0))) if known else Future(exog[30:].to_numpy(), 0.3 * np.eye(6))
    return model.one_step, model.past, future


def paths_of(model, past, future, n, seed):
    return sample_paths(model, past, future, Method("monte_carlo", True, n, seed))


def assert_same_moments(ours, theirs, errors=5.0):
    """Means, stds and the std of the sum, within the Monte Carlo errors of both."""
    n = 1 / (1 / len(ours) + 1 / len(theirs))
    ours, theirs = (np.column_stack([a, a.sum(axis=1)]) for a in (ours, theirs))
    std = theirs.std(axis=0)
    np.testing.assert_array_less(
        np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / std, errors / np.sqrt(n)
    )
    kurtosis = (((theirs - theirs.mean(axis=0)) / std) ** 4).mean(axis=0)
    error = 0.5 * np.sqrt((kurtosis - 1.0) / n)
    np.testing.assert_array_less(np.abs(ours.std(axis=0) / std - 1.0), errors * error)


@pytest.mark.parametrize("name", ["gp", "log changes", "regressor", "rvm"])
def test_paths_have_the_moments_of_those_that_condition_on_themselves(name):
    model, past, future = one_step(name)
    exact = replace(model, posterior=conditioned(model.posterior))
    ours = paths_of(model, past, future, 3000, 0)
    theirs = paths_of(exact, past, future, 3000, 1)
    assert_same_moments(ours, theirs)
    apart = Method("monte_carlo", False, 3000, 2)
    classic = sample_paths(model, past, future, apart).sum(axis=1).std()
    if name != "rvm":  # sharing the function counts here
        assert classic < 0.95 * theirs.sum(axis=1).std()


@pytest.mark.parametrize("missing", [[29], [25, 28]], ids=["at the end", "before a value"])
def test_paths_after_a_gap(missing):
    model, past, future = one_step("gp")
    levels = past.levels.copy()
    levels[missing] = np.nan
    past = past._replace(levels=levels)
    exact = replace(model, posterior=conditioned(model.posterior))
    ours, theirs = paths_of(model, past, future, 4000, 0), paths_of(exact, past, future, 4000, 0)
    if missing == [29]:
        assert (ours != theirs).all()
        assert_same_moments(ours, theirs)
    else:  # observed on the way: functions are conditioned on it, and not drawn
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
