"""The mixture: exact where the model is linear, and where it bends near the paths themselves."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import toeplitz
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge

from forecast_unc import Forecaster, GPRegressor
from forecast_unc.forecasting.horizon import paths
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.paths import PIECES, Points, pieces
from forecast_unc.series.rows import lag_embedding
from tests import oracles
from tests.recursions import propagate, sample_paths
from tests.test_propagation import AR, NOISE_VAR, linear_posterior, no_exog, random_cov

STEPS = 12


def gaussian_kl(paths, mean, cov):
    """KL divergence of normal distributions with the moments of paths from those given, (h + 1,).

    Of each step, and of the sum of all.
    """
    paths = np.column_stack([paths, paths.sum(axis=1)])
    mean = np.append(mean, mean.sum())
    var = np.append(np.diagonal(cov), cov.sum())
    ratio = paths.var(axis=0) / var
    return 0.5 * (ratio + (paths.mean(axis=0) - mean) ** 2 / var - 1.0 - np.log(ratio))


def test_points_are_an_orthogonal_latin_hypercube():
    columns = Points(PIECES).standard_normal((PIECES, 100))
    np.testing.assert_allclose(columns.T @ columns, PIECES * np.eye(100), atol=1e-9 * PIECES)
    np.testing.assert_allclose(columns.sum(axis=0), 0.0, atol=1e-9 * PIECES)
    quantiles = norm.ppf((np.arange(PIECES) + 0.5) / PIECES)
    np.testing.assert_allclose(np.sort(columns[:, 0]), quantiles / quantiles.std())


def test_points_come_column_by_column():
    whole = Points(PIECES).standard_normal((PIECES, 130))
    points = Points(PIECES)
    np.testing.assert_array_equal([points.standard_normal(PIECES) for _ in range(130)], whole.T)
    assert Points(PIECES).standard_normal((PIECES, 0)).shape == (PIECES, 0)


@pytest.mark.parametrize("m", [1024, 1000, 61])
def test_alike_pieces_get_quantiles_far_apart(rng, m):
    """Of 16 neighbors in one number one is in each sixteenth of a normal distribution."""
    first, points = rng.standard_normal(m), Points(m)
    column = points.beside(first, first)
    sixteenth = (16 * norm.cdf(column)).astype(int)[np.argsort(first)]
    kinds = [len(set(sixteenth[i : i + 16])) for i in range(0, m - 15, 16)]
    assert np.mean(kinds) > (15.0 if m == 1024 else 11.0)  # of independent ones 10.3
    again = points.beside(first, np.zeros(m))
    np.testing.assert_allclose([column.sum(), column @ again], 0.0, atol=1e-9 * m)


def test_pieces_alike_in_two_numbers_get_quantiles_far_apart(rng):
    m, first, second = 4096, *rng.standard_normal((2, 4096))
    column = Points(m).beside(first, second)
    cell = [np.argsort(np.argsort(x)) * 8 // m for x in (first, second)]
    means = np.bincount(8 * cell[0] + cell[1], column) / np.bincount(8 * cell[0] + cell[1])
    assert means.std() < 0.25 / np.sqrt(m / 64)  # of independent ones 1


@pytest.mark.parametrize("path_consistent", [True, False])
@pytest.mark.parametrize("differences", [(), (1,)], ids=str)
def test_known_linear_models_are_exact(path_consistent, differences):
    transform = Differencing(differences, 0.3, 2.0)
    history = np.array([0.3, 1.0, -0.5, 0.2])
    mean, cov = propagate(
        linear_posterior(AR),
        (1, 2),
        history,
        no_exog(60),
        transform=transform,
        propagation="mixture",
        path_consistent=path_consistent,
    )
    psi = oracles.arma_psi_weights(AR, 60)
    T = toeplitz(np.cumsum(psi) if differences else psi, np.zeros(60))
    np.testing.assert_allclose(cov, 4.0 * NOISE_VAR * T @ T.T, rtol=1e-9)
    changes = list((np.diff(history) if differences else history) / 2.0 - 0.15)
    for _ in range(60):
        changes.append(AR @ changes[:-3:-1])
    path = 2.0 * np.array(changes[-60:]) + 0.3
    if differences:
        path = history[-1] + np.cumsum(path)
    np.testing.assert_allclose(mean, path, rtol=1e-9, atol=1e-9)


def test_an_unknown_intercept_is_one_and_the_same_at_all_steps():
    _, cov = propagate(
        linear_posterior(AR, bias_var=0.4),
        (1, 2),
        np.array([0.3, 1.0]),
        no_exog(STEPS),
        propagation="mixture",
    )
    psi = oracles.arma_psi_weights(AR, STEPS)
    T = toeplitz(psi, np.zeros(STEPS))
    shared = 0.4 * np.outer(np.cumsum(psi), np.cumsum(psi))
    np.testing.assert_allclose(cov, NOISE_VAR * T @ T.T + shared, rtol=1e-9)


def test_uncertain_regressors_of_a_known_linear_model(rng):
    ar, by_exog = AR, np.array([0.7])
    exog, exog_cov = rng.normal(size=(STEPS, 1)), random_cov(rng, STEPS, STEPS)
    _, cov = propagate(
        linear_posterior(np.append(ar, by_exog)),
        (1, 2),
        np.array([0.3, 1.0]),
        exog,
        exog_cov=exog_cov,
        propagation="mixture",
    )
    T = toeplitz(oracles.arma_psi_weights(ar, STEPS), np.zeros(STEPS))
    expected = T @ (NOISE_VAR * np.eye(STEPS) + 0.49 * exog_cov) @ T.T
    np.testing.assert_allclose(cov, expected, rtol=1e-9, atol=1e-9)


@functools.cache
def bent():
    """A GP on a few values of a series far from its mean, and 4000 paths of its own functions."""
    rng = np.random.default_rng(5)
    y = np.zeros(60)
    for t in range(2, 60):
        y[t] = 2.0 * np.sin(1.3 * y[t - 1]) - 0.3 * y[t - 2] + 0.3 * rng.standard_normal()
    gp = GPRegressor().fit(*lag_embedding(y, (1, 2), no_exog(60)))
    paths = sample_paths(gp.posterior_, (1, 2), y, no_exog(STEPS), 4000, True, 1)
    return gp.posterior_, y, paths


def test_where_the_function_bends_it_is_near_the_paths_and_exact_is_not():
    posterior, y, paths = bent()
    kl = {
        kind: gaussian_kl(paths, *propagate(posterior, (1, 2), y, no_exog(STEPS), propagation=kind))
        for kind in ("exact", "mixture")
    }
    # of 4000 paths themselves: 1 / n on average, for a mean and a variance
    noise = 1.0 / len(paths)
    assert kl["exact"].max() > 40 * noise
    assert kl["mixture"].mean() < kl["exact"].mean() / 4
    assert kl["mixture"].max() < kl["exact"].max() / 4


def test_classic_mixture_is_near_classic_paths():
    posterior, y, _ = bent()
    paths = sample_paths(posterior, (1, 2), y, no_exog(STEPS), 4000, False, 1)
    method = {"propagation": "mixture", "path_consistent": False}
    kl = gaussian_kl(paths, *propagate(posterior, (1, 2), y, no_exog(STEPS), **method))
    # 256 independent paths would have 1/256 + 1/4000 on average
    assert kl.mean() < 1 / PIECES + 1 / len(paths)


def test_probabilities_of_a_chaotic_map_are_those_of_paths():
    """3.8 y (1 - y) with noise: chance leaves .02 of 4000 paths and 4096 pieces."""
    rng, y = np.random.default_rng(1), [0.4]
    for _ in range(60):
        y.append(3.8 * y[-1] * (1.0 - y[-1]) + 0.01 * rng.standard_normal())
    model = Forecaster(GPRegressor(), lags=1, differences=0, transform=None, calibrate=False)
    ours = model.fit(pd.Series(y)).forecast(8, propagation="mixture")
    many = model.forecast(8, propagation="monte_carlo", n_samples=4000, random_state=0)
    p = np.arange(0.05, 1.0, 0.05)
    for how in ("sum", "max"):
        levels = np.quantile(many.paths.agg(how), p)
        np.testing.assert_allclose(ours.aggregate(how).cdf(levels).iloc[0], p, atol=0.025)
    levels = np.quantile(many.paths, p, axis=1)
    off = [ours.cdf(at).iloc[step] - p for step, at in enumerate(levels.T)]
    assert np.abs(off).max(axis=1).mean() < 0.02


def test_more_pieces_where_a_step_takes_less_time():
    x = np.linspace(0.0, 1.0, 201)[:, None]
    posterior = GPRegressor(lengthscales=1.0, noise_std=0.1).fit(x, x[:, 0]).posterior_
    assert pieces(posterior) == pieces(linear_posterior(AR)) == PIECES
    assert pieces(posterior.on_few_centers) == 8 * PIECES


def test_no_seed_is_needed_and_nothing_is_modified():
    posterior, y, _ = bent()
    before = y.copy()
    for_all = {"propagation": "mixture"}
    first = propagate(posterior, (1, 2), y, no_exog(STEPS), **for_all)
    np.random.default_rng().normal()
    again = propagate(posterior, (1, 2), y, no_exog(STEPS), **for_all, random_state=3)
    np.testing.assert_array_equal(first.cov, again.cov)
    np.testing.assert_array_equal(y, before)


def test_blocks_are_as_near_as_all_at_once(monkeypatch):
    posterior, y, many = bent()
    monkeypatch.setattr(paths, "_PATH_MEMORY", 1)
    monkeypatch.setattr(paths, "_LEAST_PARTICLES", 60)
    blocks = propagate(posterior, (1, 2), y, no_exog(STEPS), propagation="mixture")
    kl = gaussian_kl(many, *blocks)
    assert kl.mean() < 1 / PIECES + 1 / len(many)


def test_missing_and_noisy_values_before_the_origin():
    rng = np.random.default_rng(2)
    y = oracles.autoregression([0.8], 80, rng)
    y[[-2, -4, -5]] = np.nan
    times = pd.period_range("2000-01", periods=80, freq="M")
    model = Forecaster(lags=1).fit(pd.Series(y, times), y_std=pd.Series(0.3, times))
    merged = model.forecast(8, propagation="mixture")
    n = 4000
    paths = model.forecast(8, propagation="monte_carlo", n_samples=n, random_state=0)
    # the particles that are left of 256 count for half as many at least
    error = np.sqrt(1 / n + 2 / PIECES)
    assert (abs(merged.mean - paths.mean) < 4 * error * paths.std).all()
    np.testing.assert_allclose(merged.std, paths.std, rtol=4 * error / np.sqrt(2))


def test_a_regressor_without_closed_form_and_a_logarithm():
    rng = np.random.default_rng(4)
    times = pd.period_range("2000-01", periods=120, freq="M")
    y = pd.Series(np.exp(0.5 * oracles.autoregression([0.7], 120, rng)), times)
    model = Forecaster(BayesianRidge(), lags=2, transform="log").fit(y)
    merged = model.forecast(6, propagation="mixture")
    by_taylor = model.forecast(6, propagation="taylor")  # nearly linear: nothing is left out
    np.testing.assert_allclose(merged.median, by_taylor.median, rtol=0.02)
    np.testing.assert_allclose(merged.std, by_taylor.std, rtol=0.1)
    assert (merged.interval(0.95)["lower"] > 0).all()
