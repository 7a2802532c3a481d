"""The recursion: against AR theory, nested quadrature, joint predictions and sampled paths."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from scipy.linalg import toeplitz
from statsmodels.tsa.arima_process import arma2ma

from forecast_unc import GPRegressor
from forecast_unc.distributions.joint import Diverged
from forecast_unc.forecasting.horizon import gaussian
from forecast_unc.forecasting.horizon import paths as horizon_paths
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.series.rows import lag_embedding
from tests import oracles
from tests.members import in_turn
from tests.recursions import conditioned, propagate, sample_paths, step_inputs
from tests.test_moments import built_by_hand

AR, NOISE_VAR, STEPS = np.array([0.6, 0.25]), 0.5, 8
HISTORY = np.array([0.3, 1.0, -0.5])
METHODS = ["exact", "taylor", "naive", "monte_carlo"]


def no_exog(steps):
    return np.empty((steps, 0))


def linear_posterior(ar, bias_var=0.0, intercept=0.0):
    """y = ar . x + intercept + noise; the intercept known up to bias_var."""
    d = len(ar)
    return KernelPosterior(
        centers=np.empty((0, d)),
        lengthscales=np.ones(d),
        weights=np.append(ar, intercept),
        factors=(),
        linear_var=np.append(np.zeros(d), bias_var),
        kernel_var=0.0,
        noise_var=NOISE_VAR,
        input_offset=np.zeros(d),
    )


@functools.cache
def fitted(lags, n=40, columns=0, linear=True):
    """A GP on lags (and regressors) of a nonlinear series, and all that it was fitted to."""
    rng = np.random.default_rng([n, columns, *lags])
    exog = rng.normal(size=(n, columns))
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = 1.2 * np.sin(2 * y[t - 1]) + 0.2 * rng.standard_normal() + exog[t].sum() / 2
    X, target = lag_embedding(y, lags, exog)
    return GPRegressor(linear=linear).fit(X, target), y, X, target


def predict_of(gp):
    return lambda X: gp.predict(X, return_std=True)


def assert_close_in_errors(paths, mean, cov, errors=5.0):
    """Mean and covariance of sampled paths agree within so many of their standard errors."""
    n = len(paths)
    std = paths.std(axis=0)
    np.testing.assert_array_less(np.abs(paths.mean(axis=0) - mean), errors * std / np.sqrt(n))
    centered = paths - paths.mean(axis=0)
    products = np.einsum("ni,nj->nij", centered, centered)
    error = products.std(axis=0) / np.sqrt(n)
    np.testing.assert_array_less(np.abs(products.mean(axis=0) - cov), errors * error)


# Linear models, where everything is known


@pytest.mark.parametrize("method", ["exact", "taylor"])
@pytest.mark.parametrize("path_consistent", [True, False])
def test_linear_recursion_is_the_ar_forecast(method, path_consistent):
    mean, cov = propagate(
        linear_posterior(AR),
        (1, 2),
        HISTORY,
        no_exog(STEPS),
        propagation=method,
        path_consistent=path_consistent,
    )
    psi = oracles.arma_psi_weights(AR, STEPS)
    np.testing.assert_allclose(psi, arma2ma(np.append(1.0, -AR), [1.0], STEPS), rtol=1e-13)
    T = toeplitz(psi, np.zeros(STEPS))
    np.testing.assert_allclose(cov, NOISE_VAR * T @ T.T, rtol=1e-12)
    path = list(HISTORY)
    for _ in range(STEPS):
        path.append(AR @ [path[-1], path[-2]])
    np.testing.assert_allclose(mean, path[3:], rtol=1e-12)


def test_naive_linear_recursion_has_the_right_mean_and_only_the_noise():
    args = linear_posterior(AR), (1, 2), HISTORY, no_exog(STEPS)
    mean, cov = propagate(*args, propagation="naive")
    np.testing.assert_allclose(mean, propagate(*args).mean, rtol=1e-12)
    np.testing.assert_allclose(cov, NOISE_VAR * np.eye(STEPS), rtol=1e-12)


@pytest.mark.parametrize("path_consistent", [True, False])
def test_sampled_linear_paths_have_the_ar_covariance(path_consistent):
    args = linear_posterior(AR), (1, 2), HISTORY, no_exog(STEPS)
    paths = sample_paths(*args, 100_000, path_consistent, 0)
    assert_close_in_errors(paths, *propagate(*args))


@pytest.mark.parametrize("lags", [(2, 1), (3,), (5, 2, 1)])
def test_sparse_and_unordered_lags_are_the_ar_forecast(lags):
    weights = np.array([0.5, 0.3, -0.2])[: len(lags)]
    full = np.zeros(max(lags))
    full[np.array(lags) - 1] = weights
    history = np.linspace(-1, 1, 6)
    mean, cov = propagate(linear_posterior(weights), lags, history, no_exog(STEPS))
    T = toeplitz(oracles.arma_psi_weights(full, STEPS), np.zeros(STEPS))
    np.testing.assert_allclose(cov, NOISE_VAR * T @ T.T, rtol=1e-12, atol=1e-14)
    path = list(history)
    for _ in range(STEPS):
        path.append(full @ path[::-1][: len(full)])
    np.testing.assert_allclose(mean, path[6:], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", ["exact", "taylor"])
def test_unknown_intercept_is_one_and_the_same_at_all_steps(method):
    # y = ar . x + b + noise, b ~ N(0, bias_var): jointly Gaussian, so the joint is exact.
    bias_var = 0.3
    posterior = linear_posterior(AR, bias_var, 0.7)
    T = toeplitz(oracles.arma_psi_weights(AR, STEPS), np.zeros(STEPS))
    shared = T @ (bias_var * np.ones((STEPS, STEPS)) + NOISE_VAR * np.eye(STEPS)) @ T.T
    fresh = (bias_var + NOISE_VAR) * T @ T.T
    for path_consistent, expected in ((True, shared), (False, fresh)):
        _, cov = propagate(
            posterior,
            (1, 2),
            HISTORY,
            no_exog(STEPS),
            propagation=method,
            path_consistent=path_consistent,
        )
        np.testing.assert_allclose(cov, expected, rtol=1e-12)


def test_unknown_intercept_in_naive_and_sampled_paths():
    bias_var = 0.3
    args = linear_posterior(AR, bias_var, 0.7), (1, 2), HISTORY, no_exog(STEPS)
    _, cov = propagate(*args, propagation="naive")
    np.testing.assert_allclose(cov, bias_var + NOISE_VAR * np.eye(STEPS), rtol=1e-12)
    for path_consistent in (True, False):
        paths = sample_paths(*args, 100_000, path_consistent, 1)
        assert_close_in_errors(paths, *propagate(*args, path_consistent=path_consistent))


# Gaussian processes, classic recursion


@pytest.mark.parametrize("lags", [(1,), (1, 3)], ids=str)
@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
def test_exact_recursion_agrees_with_nested_quadrature(lags, linear):
    gp, y, _, _ = fitted(lags, linear=linear)
    steps = 4 if lags == (1,) else 3
    mean, cov = propagate(gp.posterior_, lags, y, no_exog(steps), path_consistent=False)
    oracle_mean, oracle_cov = oracles.quadrature_recursion(predict_of(gp), lags, y, steps)
    np.testing.assert_allclose(mean, oracle_mean, rtol=1e-8)
    np.testing.assert_allclose(cov, oracle_cov, rtol=1e-8, atol=1e-9)
    assert cov[0, 0] < cov[1, 1]


def test_regressors_are_known_at_every_step():
    lags, steps = (1, 2), 3
    gp, y, _, _ = fitted(lags, columns=2)
    exog = np.random.default_rng(7).normal(size=(steps, 2))
    mean, cov = propagate(gp.posterior_, lags, y, exog, path_consistent=False)
    oracle = oracles.quadrature_recursion(predict_of(gp), lags, y, steps, exog)
    np.testing.assert_allclose(mean, oracle[0], rtol=1e-8)
    np.testing.assert_allclose(cov, oracle[1], rtol=1e-8, atol=1e-9)
    other = propagate(gp.posterior_, lags, y, exog + 1.0, path_consistent=False)
    assert abs(other.mean - mean).max() > 0.1


@pytest.mark.parametrize("method", ["exact", "taylor"])
@pytest.mark.parametrize("lags", [(1, 2), (2, 5, 1)], ids=str)
def test_classic_recursion_is_that_of_the_style_guide(method, lags):
    gp, y, _, _ = fitted(lags)
    one_step = gp.posterior_.moments if method == "exact" else gp.posterior_.taylor_moments
    mean, cov = propagate(
        gp.posterior_, lags, y, no_exog(12), propagation=method, path_consistent=False
    )
    oracle_mean, oracle_cov = oracles.propagate(one_step, lags, y, 12)
    np.testing.assert_allclose(mean, oracle_mean, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(cov, oracle_cov, rtol=1e-12, atol=1e-13)


def test_first_step_is_the_plain_prediction():
    lags = (1, 2)
    gp, y, _, _ = fitted(lags)
    (mean,), (std,) = gp.predict([[y[-1], y[-2]]], return_std=True)
    for method in ("exact", "taylor", "naive"):
        joint = propagate(gp.posterior_, lags, y, no_exog(1), propagation=method)
        np.testing.assert_allclose(joint.mean, [mean], rtol=1e-12)
        np.testing.assert_allclose(joint.cov, [[std**2]], rtol=1e-12)


def test_naive_iterates_the_mean_alone():
    lags, steps = (1, 3), 6
    gp, y, _, _ = fitted(lags)
    path, stds = list(y), []
    for _ in range(steps):
        (mean,), (std,) = gp.predict([[path[-1], path[-3]]], return_std=True)
        path.append(mean)
        stds.append(std)
    args = gp.posterior_, lags, y, no_exog(steps)
    mean, cov = propagate(*args, propagation="naive", path_consistent=False)
    np.testing.assert_allclose(mean, path[-steps:], rtol=1e-11)
    np.testing.assert_allclose(cov, np.diag(np.square(stds)), rtol=1e-11)
    _, joint = propagate(*args, propagation="naive")
    np.testing.assert_allclose(np.diagonal(joint), np.square(stds), rtol=1e-11)
    inputs = step_inputs(lags, y, mean, no_exog(steps))
    np.testing.assert_allclose(
        joint - cov, oracles_latent(gp, lags, inputs) * (1 - np.eye(steps)), atol=1e-9
    )


def oracles_latent(gp, lags, inputs):
    """Posterior covariance of the function, by Bayes' rule."""
    _, _, X, target = fitted(lags)
    bias = target.std()
    _, cov = oracles.fitted_gp_joint(gp, X, target, inputs, bias)
    return cov - gp.noise_std_**2 * np.eye(len(inputs))


# One function for all steps


@pytest.mark.parametrize("columns", [0, 2], ids=["lags", "lags and regressors"])
@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
def test_with_observed_inputs_the_joint_is_that_of_the_gp(columns, linear):
    # lags beyond the horizon: nothing uncertain enters, so every method must give Bayes' rule
    h, lags = 5, (5, 6)
    gp, y, X, target = fitted(lags, columns=columns, linear=linear)
    exog = np.random.default_rng(3).normal(size=(h, columns))
    inputs = np.array([np.append(y[[40 + t - 5, 40 + t - 6]], exog[t]) for t in range(h)])
    bias = target.std() * linear
    mean, cov = oracles.fitted_gp_joint(gp, X, target, inputs, bias)
    assert np.abs(cov - np.diag(np.diagonal(cov))).max() > 1e-3
    args = gp.posterior_, lags, y, exog
    for method in ("exact", "taylor", "naive"):
        for path_consistent in (True, False):
            joint = propagate(*args, propagation=method, path_consistent=path_consistent)
            expected = cov if path_consistent else np.diag(np.diagonal(cov))
            np.testing.assert_allclose(joint.mean, mean, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(joint.cov, expected, rtol=1e-8, atol=1e-9)
    expected = {True: cov, False: np.diag(np.diagonal(cov))}
    paths = sample_paths(*args, 4_000, linear, 0)
    assert_close_in_errors(paths, mean, expected[linear])


def test_with_observed_inputs_the_joint_holds_for_arbitrary_G(rng):
    h, lags = 4, (4, 5)
    posterior = built_by_hand(rng, 6, (1, -1))
    history = rng.normal(size=6)
    inputs = np.array([history[[6 + t - 4, 6 + t - 5]] for t in range(h)])
    phi, centered = oracles.explicit_features(posterior, inputs), inputs - posterior.input_offset
    kernel = oracles.squared_exponential(centered, centered, posterior.lengthscales)
    cov = posterior.kernel_var * kernel + phi @ oracles.explicit_G(posterior) @ phi.T
    cov += posterior.noise_var * np.eye(h)
    for method in ("exact", "taylor", "naive"):
        joint = propagate(posterior, lags, history, no_exog(h), propagation=method)
        np.testing.assert_allclose(joint.cov, cov, rtol=1e-11)
    paths = sample_paths(posterior, lags, history, no_exog(h), 40_000, True, 0)
    assert_close_in_errors(paths, phi @ posterior.weights + posterior.output_offset, cov)


def test_path_is_the_cholesky_factor_of_its_joint_times_the_draws():
    # digits that no number of samples would show
    h, lags, n = 5, (5, 6), 3
    gp, y, X, target = fitted(lags)
    inputs = np.array([y[[40 + t - 5, 40 + t - 6]] for t in range(h)])
    bias = target.std()
    mean, cov = oracles.fitted_gp_joint(gp, X, target, inputs, bias)
    paths = sample_paths(conditioned(gp.posterior_), lags, y, no_exog(h), n, True, 0)
    draws = np.random.default_rng(0).standard_normal((h, n))
    np.testing.assert_allclose(paths, mean + (np.linalg.cholesky(cov) @ draws).T, rtol=1e-8)


@functools.cache
def uncertain_function():
    """Few rows and little noise: the function is uncertain, not the noise."""
    rng = np.random.default_rng(11)
    y = oracles.autoregression([0.9], 10, rng, 0.3)
    gp = GPRegressor(linear=False, lengthscales=1.5, noise_std=0.2)
    gp.fit(*lag_embedding(y, (1,), np.empty((10, 0))))
    y = np.append(y, 1.2 * y.max())
    second = oracles.second_step_of_one_function(
        predict_of(gp), gp.posterior_.covariance, gp.noise_std_**2, (1,), y
    )
    return gp, y, second


@pytest.mark.parametrize(("kind", "n"), [(conditioned, 50_000), (dataclasses.replace, 20_000)])
def test_sampled_paths_keep_their_function(kind, n):
    gp, y, (mean, var, cross) = uncertain_function()
    (m1,), (std1,) = gp.predict([[y[-1]]], return_std=True)
    paths = sample_paths(kind(gp.posterior_), (1,), y, no_exog(2), n, True, 5)
    assert_close_in_errors(paths, [m1, mean], np.array([[std1**2, cross], [cross, var]]))


def test_exact_keeps_its_function_far_better_than_the_classic_recursion():
    gp, y, (_, var, cross) = uncertain_function()
    args = gp.posterior_, (1,), y, no_exog(2)
    one, fresh = (propagate(*args, path_consistent=flag).cov for flag in (True, False))
    assert abs(one[0, 1] - cross) < 0.25 * abs(fresh[0, 1] - cross)
    assert abs(one[1, 1] - var) < 0.25 * abs(fresh[1, 1] - var)


@pytest.mark.parametrize("method", ["exact", "taylor"])
def test_path_consistent_covariance_is_the_linearized_one_where_its_errors_are_small(method):
    # deviations: dy_t = slope . dy_(t - lags) + error of f + noise, so cov = T (K + s^2 I) T'
    lags, steps = (1, 2), 6
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(30, 2))
    gp = GPRegressor(linear=False, lengthscales=1.5, noise_std=1e-3)
    gp.fit(X, 0.9 * np.sin(X[:, 0]) - 0.5 * X[:, 1])
    history = np.array([0.4, 1.1])
    args = gp.posterior_, lags, history, no_exog(steps)
    mean, cov = propagate(*args, propagation=method)
    inputs = step_inputs(lags, history, mean, no_exog(steps))
    A = np.zeros((steps, steps))
    for t, gradient in enumerate(gp.posterior_.gradient(inputs)):
        for lag, slope in zip(lags, gradient, strict=True):
            if t >= lag:
                A[t, t - lag] = slope
    T = np.linalg.inv(np.eye(steps) - A)
    function = gp.posterior_.covariance(inputs)
    expected = T @ (function + gp.noise_std_**2 * np.eye(steps)) @ T.T
    scale = np.sqrt(np.outer(np.diagonal(expected), np.diagonal(expected)))
    np.testing.assert_allclose(cov / scale, expected / scale, atol=5e-3)
    _, classic = propagate(*args, propagation=method, path_consistent=False)
    assert np.abs((classic - expected) / scale).max() > 0.05  # the shared part matters here


def spread_of_sums(n_series, n_samples):
    """Std of the 10-step sum, path-consistent and classic, over that of sampled paths."""
    rng = np.random.default_rng(0)
    ratios = []
    for seed in range(n_series):
        y = oracles.autoregression([0.95], 60, rng)
        y = (y - y.mean()) / y.std()
        gp = GPRegressor(linear=False).fit(*lag_embedding(y, (1,), np.empty((60, 0))))
        args = gp.posterior_, (1,), y, no_exog(10)
        stds = [
            np.sqrt(propagate(*args, **kwargs).cov.sum())
            for kwargs in (
                {"propagation": "monte_carlo", "n_samples": n_samples, "random_state": seed},
                {},
                {"path_consistent": False},
            )
        ]
        ratios.append(np.array(stds[1:]) / stds[0])
    return np.mean(ratios, axis=0)


def test_sums_are_as_wide_as_those_of_sampled_paths():
    consistent, classic = spread_of_sums(4, 1000)
    assert 0.88 < consistent < 1.05
    assert classic < 0.87


@pytest.mark.slow
def test_sums_of_forty_series_are_as_wide_as_those_of_sampled_paths():
    consistent, classic = spread_of_sums(40, 4000)
    assert abs(consistent - 1) < 0.08
    assert classic < 0.9


# Sampling


@pytest.mark.parametrize("path_consistent", [True, False])
def test_paths_follow_their_seed(path_consistent):
    gp, y, _, _ = fitted((1, 2))

    def draw(seed):
        return sample_paths(gp.posterior_, (1, 2), y, no_exog(4), 20, path_consistent, seed)

    assert draw(1).shape == (20, 4)
    np.testing.assert_array_equal(draw(1), draw(1))
    np.testing.assert_array_equal(draw(1), draw(np.random.default_rng(1)))
    assert (draw(1) != draw(2)).all()


def test_monte_carlo_reports_the_moments_of_its_paths():
    """With observed inputs the paths are known: the root of the joint times the draws."""
    h, lags, n = 3, (5, 6), 7
    gp, y, X, target = fitted(lags)
    inputs = np.array([y[[40 + t - 5, 40 + t - 6]] for t in range(h)])
    mean, cov = oracles.fitted_gp_joint(gp, X, target, inputs, target.std())
    root, draws = np.linalg.cholesky(cov), np.random.default_rng(4).standard_normal((h, n))
    away = draws - draws.sum(axis=1, keepdims=True) / n
    options = {"propagation": "monte_carlo", "random_state": 4}
    args = conditioned(gp.posterior_), lags, y
    sampled = propagate(*args, no_exog(h), n_samples=n, **options)
    np.testing.assert_allclose(sampled.mean, mean + root @ draws.sum(axis=1) / n, rtol=1e-8)
    expected = root @ away @ away.T @ root.T / (n - 1)
    np.testing.assert_allclose(sampled.cov, expected, rtol=1e-8)
    assert propagate(*args, no_exog(1), **options).cov.shape == (1, 1)


def test_blocks_of_paths_are_all_there(monkeypatch):
    gp, y, _, _ = fitted((1, 2))
    args = gp.posterior_, (1, 2), y, no_exog(4)
    whole = propagate(*args)
    size = 8 * gp.posterior_.path_size * 900  # bytes of a step of 900 paths
    monkeypatch.setattr(horizon_paths, "_PATH_MEMORY", size * horizon_paths._PATH_STEPS)
    paths = sample_paths(*args, 6_000, True, 0)
    assert paths.shape == (6_000, 4)
    assert len(np.unique(paths[:, 0])) == 6_000
    assert abs(paths[:, 0].std() / np.sqrt(whole.cov[0, 0]) - 1) < 5 / np.sqrt(2 * 6_000)


def test_classic_sampled_paths_agree_with_quadrature_over_two_steps():
    gp, y, _, _ = fitted((1, 2))
    paths = sample_paths(gp.posterior_, (1, 2), y, no_exog(2), 50_000, False, 8)
    oracle = oracles.quadrature_recursion(predict_of(gp), (1, 2), y, 2)
    assert_close_in_errors(paths, *oracle)  # two steps: the first is Gaussian indeed


@pytest.mark.parametrize("method", METHODS)
def test_only_the_last_lags_matter_and_nothing_is_modified(method):
    gp, y, _, _ = fitted((1, 3), columns=1)
    options = {"propagation": method, "n_samples": 30, "random_state": 0}
    history, exog = y.copy(), np.ones((4, 1))
    long, short = (
        propagate(gp.posterior_, (1, 3), known, exog, **options) for known in (history, y[-3:])
    )
    np.testing.assert_allclose(long.mean, short.mean, rtol=1e-12)
    np.testing.assert_allclose(long.cov, short.cov, rtol=1e-12)
    np.testing.assert_array_equal(history, y)
    np.testing.assert_array_equal(exog, np.ones((4, 1)))


def test_negative_variance_names_the_step():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(15, 1))
    gp = GPRegressor(linear=False, noise_std=0.01, lengthscales=0.3).fit(X, 3 * X[:, 0])
    with pytest.raises(
        ValueError, match=r"variance must be positive; got -.* at step \d+\. The expansion is used"
    ):
        propagate(gp.posterior_, (1,), np.array([0.55]), no_exog(40), propagation="taylor")


@pytest.mark.parametrize("method", [*METHODS, "mixture"])
def test_what_diverges_names_its_step(method):
    """30^5 is the first power beyond a million times the history, 1."""
    with pytest.raises(Diverged, match=r"diverges at step 5\.") as error:
        propagate(linear_posterior([30.0]), (1,), np.ones(1), no_exog(8), propagation=method)
    assert error.value.step == 5


def test_a_variance_of_naive_that_is_not_positive_names_its_step(monkeypatch):
    gp, y, _, _ = fitted((1,))
    monkeypatch.setattr(gaussian, "function_covariance", lambda *_: np.diag([1.0, 1.0, -5.0, 1.0]))
    with pytest.raises(Diverged, match=r"variance must be positive; got -.* at step 3\.") as error:
        propagate(gp.posterior_, (1,), y[-1:], no_exog(4), propagation="naive")
    assert error.value.step == 3


def test_path_consistent_covariance_is_a_covariance():
    """Random sparse GPs of little noise; the last six seeds are indefinite without the damping."""
    for seed in (*range(10), 42, 63, 79, 92, 126, 142):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 9))
        X = rng.uniform(-2, 2, size=(n, 1))
        gp = GPRegressor(linear=False, lengthscales=rng.uniform(0.5, 1.5), noise_std=0.1)
        posterior = gp.fit(X, rng.standard_normal(n)).posterior_
        history = rng.uniform(-2, 2, size=1)
        _, cov = propagate(posterior, (1,), history, np.empty((5, 0)))
        std = np.sqrt(np.diagonal(cov))
        lowest = np.linalg.eigvalsh(cov / np.outer(std, std))[0]
        assert lowest > -1e-12


# Uncertain inputs of every kind, and levels behind differences


def next_levels(ar, by_exog, lags, transform, history, exog, shocks):
    """The next levels of a linear model, one at a time, from the definition."""
    levels = list(history)
    for regressors, shock in zip(exog, shocks, strict=True):
        z = transform.forward(np.array(levels))
        change = sum(a * z[-lag] for a, lag in zip(ar, lags, strict=True))
        change += by_exog @ regressors + shock
        undone = oracles.undo_differences(
            levels, [transform.scale * change + transform.shift], transform.differences
        )
        levels.append(undone[0])
    return np.array(levels[len(history) :])


def random_cov(rng, n, rank):
    root = rng.normal(size=(n, rank))
    return root @ root.T


LINEAR_CASES = [
    ((1, 3), (), 2),
    ((2, 1), (1,), 1),
    ((1,), (1, 4), 0),
    ((3, 1), (1, 1), 1),
]


def linear_case(lags, differences, k, steps=6):
    """A linear model with all of its inputs uncertain, and the exact distribution of its future."""
    rng = np.random.default_rng([*lags, *differences, k])
    ar, by_exog = np.array([0.5, -0.3])[: len(lags)], np.array([0.7, -1.1])[:k]
    transform = affine(differences)
    p = max(lags) + sum(differences)
    history, exog = rng.normal(size=p + 3), rng.normal(size=(steps, k))
    history_cov = random_cov(rng, p, 2)
    exog_cov = random_cov(rng, steps * k, 2) if k else None
    bias_var = 0.2
    posterior = linear_posterior(np.append(ar, by_exog), bias_var, 0.1)

    def path(history, exog, shocks):
        return next_levels(ar, by_exog, lags, transform, history, exog, shocks)

    mean = path(history, exog, np.full(steps, 0.1))
    no = np.zeros_like
    start = path(no(history), no(exog), np.zeros(steps))  # the constants
    moved = [path(e, no(exog), np.zeros(steps)) - start for e in np.eye(p + 3)[3:]]
    cov = np.array(moved).T @ history_cov @ np.array(moved)
    if k:
        units = np.eye(steps * k).reshape(-1, steps, k)
        moved = [path(no(history), e, np.zeros(steps)) - start for e in units]
        cov = cov + np.array(moved).T @ exog_cov @ np.array(moved)
    moved = np.array([path(no(history), no(exog), e) - start for e in np.eye(steps)])
    own = {
        True: moved.T @ (NOISE_VAR * np.eye(steps) + bias_var) @ moved,
        False: moved.T @ ((NOISE_VAR + bias_var) * np.eye(steps)) @ moved,
    }
    args = posterior, lags, history, exog
    given = {"transform": transform, "history_cov": history_cov, "exog_cov": exog_cov}
    return args, given, mean, {flag: cov + own[flag] for flag in own}


def affine(differences):
    return Differencing(differences, 0.3, 1.7)


@pytest.mark.parametrize("case", LINEAR_CASES, ids=str)
def test_linear_models_with_all_inputs_uncertain(case):
    args, given, mean, cov = linear_case(*case)
    for method, path_consistent in itertools.product(("exact", "taylor"), (True, False)):
        joint = propagate(*args, **given, propagation=method, path_consistent=path_consistent)
        name = f"{method}, path_consistent={path_consistent}"
        np.testing.assert_allclose(joint.mean, mean, 1e-10, 1e-10, err_msg=name)
        np.testing.assert_allclose(joint.cov, cov[path_consistent], 1e-10, 1e-10, err_msg=name)


@pytest.mark.parametrize(("case", "path_consistent"), in_turn(LINEAR_CASES, (True, False)), ids=str)
def test_sampled_linear_paths_with_all_inputs_uncertain(case, path_consistent):
    args, given, mean, cov = linear_case(*case, steps=4)
    paths = sample_paths(*args, 40_000, path_consistent, 2, **given)
    assert_close_in_errors(paths, mean, cov[path_consistent])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("path_consistent", "differences"), [(True, (2, 3)), (False, (1, 1)), (True, (1, 12))], ids=str
)
def test_levels_are_the_changes_integrated(method, path_consistent, differences):
    """The affine map back, which the recursion contains, against integrating its columns."""
    lags, steps = (1, 2), 5
    gp, y, _, _ = fitted(lags)
    transform = affine(differences)
    rng = np.random.default_rng(4)
    start = rng.normal(size=sum(differences))
    levels = np.append(start, oracles.undo_differences(start, 1.7 * y[-9:] + 0.3, differences))
    options = {
        "propagation": method,
        "path_consistent": path_consistent,
        "n_samples": 40,
        "random_state": 1,
    }
    changes = propagate(gp.posterior_, lags, y[-9:], no_exog(steps), **options)
    joint = propagate(gp.posterior_, lags, levels, no_exog(steps), transform=transform, **options)
    mean = oracles.undo_differences(levels, 1.7 * changes.mean + 0.3, differences)
    zero = np.zeros(len(levels))
    M = np.array([oracles.undo_differences(zero, e, differences) for e in 1.7 * np.eye(steps)]).T
    np.testing.assert_allclose(joint.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(joint.cov, M @ changes.cov @ M.T, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        step_inputs(lags, levels, joint.mean, no_exog(steps), transform),
        step_inputs(lags, y, changes.mean, no_exog(steps)),
        atol=1e-9,
    )


def test_one_step_from_uncertain_history_and_regressors_is_the_quadrature():
    lags = (1, 2)
    gp, y, _, _ = fitted(lags, columns=1)
    rng = np.random.default_rng(1)
    history_cov, exog_cov = 0.1 * random_cov(rng, 2, 2), np.array([[0.4]])
    x = np.array([y[-1], y[-2], 0.3])
    cov = np.zeros((3, 3))
    cov[:2, :2] = history_cov[::-1, ::-1]  # oldest first in the history, latest first in x
    cov[2, 2] = 0.4
    mean, var, _ = oracles.quadrature_moments(predict_of(gp), x, cov)
    for path_consistent in (True, False):
        joint = propagate(
            gp.posterior_,
            lags,
            y,
            np.array([[0.3]]),
            history_cov=history_cov,
            exog_cov=exog_cov,
            path_consistent=path_consistent,
        )
        np.testing.assert_allclose(joint.mean, [mean], rtol=1e-9)
        np.testing.assert_allclose(joint.cov, [[var]], rtol=1e-8)


@pytest.mark.parametrize(("path_consistent", "differences"), [(True, (1,)), (False, ())], ids=str)
def test_sampled_nonlinear_paths_with_uncertain_inputs(path_consistent, differences):
    # Little noise and many rows, so that step 2 is close to Gaussian: what the closure leaves out
    # is at most 2 of the 6 standard errors (with 200 000 paths); on 40 rows and with all of the
    # noise it was up to 6.5, and the draw decided.
    lags, steps, n_samples = (1, 2), 2, 20_000
    gp, y, _, _ = fitted(lags, 200, columns=1)
    posterior = dataclasses.replace(gp.posterior_, noise_var=gp.posterior_.noise_var / 16)
    rng = np.random.default_rng(9)
    p = 2 + sum(differences)
    given = {
        "transform": Differencing(differences, 0.0, 1.0),
        "history_cov": 0.00125 * random_cov(rng, p, p),
        "exog_cov": 0.0025 * random_cov(rng, steps, steps),
        "path_consistent": path_consistent,
    }
    args = posterior, lags, np.cumsum(y) if differences else y, rng.normal(size=(steps, 1))
    exact = propagate(*args, **given)
    sampled = propagate(
        *args, **given, propagation="monte_carlo", n_samples=n_samples, random_state=0
    )
    var = np.diagonal(sampled.cov)
    error = np.sqrt(var / n_samples)
    np.testing.assert_array_less(np.abs(exact.mean - sampled.mean), 6 * error)
    error = np.sqrt((np.outer(var, var) + sampled.cov**2) / n_samples)  # of a Gaussian's covariance
    np.testing.assert_array_less(np.abs(exact.cov - sampled.cov), 6 * error)
    known = propagate(*args, transform=given["transform"], path_consistent=path_consistent)
    assert (np.diagonal(exact.cov) > 1.1 * np.diagonal(known.cov)).all()


def test_uncertain_inputs_of_no_variance_are_known():
    lags, steps = (1, 3), 5
    gp, y, _, _ = fitted(lags, columns=1)
    args = gp.posterior_, lags, y, np.ones((steps, 1))
    none = {"history_cov": np.zeros((3, 3)), "exog_cov": np.zeros((steps, steps))}
    for path_consistent in (True, False):
        joint, known = (
            propagate(*args, path_consistent=path_consistent, **given) for given in (none, {})
        )
        np.testing.assert_allclose(joint.mean, known.mean, rtol=1e-13)
        np.testing.assert_allclose(joint.cov, known.cov, rtol=1e-12, atol=1e-15)


def test_covariance_with_uncertain_inputs_is_a_covariance():
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, size=(6, 2))
        gp = GPRegressor(linear=False, lengthscales=rng.uniform(0.5, 1.5, 2), noise_std=0.1)
        posterior = gp.fit(X, rng.standard_normal(6)).posterior_
        _, cov = propagate(
            posterior,
            (1,),
            rng.uniform(-2, 2, size=2),
            rng.uniform(-2, 2, size=(5, 1)),
            transform=Differencing((1,), 0.0, 1.0),
            history_cov=random_cov(rng, 2, 1),
            exog_cov=random_cov(rng, 5, 3),
        )
        std = np.sqrt(np.diagonal(cov))
        assert np.linalg.eigvalsh(cov / np.outer(std, std))[0] > -1e-12


@pytest.mark.parametrize(("path_consistent", "differences"), [(True, ()), (False, (1,))], ids=str)
def test_uncertain_regressors_beside_known_ones(path_consistent, differences):
    """A covariance of the first columns alone is one of all with zeros, and that of the paths."""
    lags, steps = (1, 2), 2
    gp, y, _, _ = fitted(lags, columns=2)
    rng = np.random.default_rng(5)
    exog = rng.normal(size=(steps, 2))
    first = 0.05 * random_cov(rng, steps, steps)
    both = np.zeros((steps, 2, steps, 2))
    both[:, 0, :, 0] = first
    args = gp.posterior_, lags, np.cumsum(y) if differences else y, exog
    given = {"transform": Differencing(differences, 0.0, 1.0), "path_consistent": path_consistent}
    exact = propagate(*args, **given, exog_cov=first)
    padded = propagate(*args, **given, exog_cov=both.reshape(2 * steps, 2 * steps))
    np.testing.assert_allclose(exact.mean, padded.mean, rtol=1e-10)
    np.testing.assert_allclose(exact.cov, padded.cov, rtol=1e-9, atol=1e-12)
    sampled = propagate(
        *args,
        **given,
        exog_cov=first,
        propagation="monte_carlo",
        n_samples=20_000,
        random_state=0,
    )
    std = np.sqrt(np.diagonal(sampled.cov))
    scale = np.outer(std, std)
    np.testing.assert_allclose(exact.mean / std, sampled.mean / std, atol=0.05)
    np.testing.assert_allclose(exact.cov / scale, sampled.cov / scale, atol=0.06)
    known = propagate(*args, **given)
    assert (np.diagonal(exact.cov) > 1.02 * np.diagonal(known.cov)).all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_at_which_step_it_diverges(method):
    """An autoregression of 2 from 1 doubles at each step, and its limit is 1e6."""
    history = np.array([0.0, 1.0])
    with pytest.raises(Diverged, match=r"diverges at step (19|20)\.") as raised:
        propagate(linear_posterior([2.0]), (1,), history, no_exog(30), propagation=method)
    assert raised.value.step in (19, 20)
    propagate(linear_posterior([2.0]), (1,), history, no_exog(18), propagation=method)
