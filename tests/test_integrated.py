"""Hyper-parameters that are not known: the design, and a GP integrated over them."""

import copy
import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from forecast_unc import Forecaster, GPRegressor, load_model
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.forecasting.horizon.gaussian import propagate
from forecast_unc.forecasting.horizon.step import Future, Method
from forecast_unc.regression.gp_base import Units
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.integrated import (
    curvature,
    design,
    kronecker_normals,
    weighted_points,
)
from tests import oracles
from tests.members import rows_of

FAR = np.tile([-50.0, 50.0], (3, 1))
UNIT = np.ones(3)
ROOT = np.array([[0.6, 0.0, 0.0], [0.2, 0.5, 0.0], [-0.1, 0.3, 0.4]])


def normal(x):
    """-log density of N(1, R R')."""
    return 0.5 * float((x - 1.0) @ np.linalg.solve(ROOT @ ROOT.T, x - 1.0))


def slope(x):
    return np.linalg.solve(ROOT @ ROOT.T, x - 1.0)


def test_points_have_the_moments_of_a_normal_posterior():
    x, w = weighted_points(normal, slope, UNIT, 10.0 * UNIT, FAR)
    np.testing.assert_allclose(w.sum(), 1.0, rtol=1e-12)
    std = np.sqrt(np.diagonal(ROOT @ ROOT.T))
    # 700 points spread evenly, of which the last .005 of the weight is cut off
    np.testing.assert_allclose((w @ x - 1.0) / std, 0.0, atol=0.03)
    cov = (w * (x - 1.0).T) @ (x - 1.0) / np.outer(std, std)
    np.testing.assert_allclose(cov, ROOT @ ROOT.T / np.outer(std, std), atol=0.1)


def test_points_find_the_mass_beside_a_narrow_peak():
    """A peak of height 3 that holds less than half of the mass, and a hill to the right of it."""

    def value(x):
        peak = 3.0 * np.exp(-0.5 * float((x / 0.3) @ (x / 0.3)))
        return -float(np.log(peak + np.exp(-0.5 * float((x - 2.5) @ (x - 2.5)))))

    def gradient(x):
        return oracles.finite_difference(value, x, 1e-5)

    x, w = weighted_points(value, gradient, np.zeros(1), np.array([3.0]), np.array([[-9.0, 9.0]]))
    share = 0.9 / 1.9
    mean, second = (1 - share) * 2.5, share * 0.09 + (1 - share) * 7.25
    np.testing.assert_allclose(w @ x[:, 0], mean, atol=0.05)
    np.testing.assert_allclose(w @ x[:, 0] ** 2, second, rtol=0.05)


def test_points_lie_within_the_bounds_and_the_prior():
    bounds = np.array([[-0.3, 4.0], [0.0, 0.7]])
    # a maximum of the value, not a minimum: as wide as the prior
    x, w = weighted_points(
        lambda x: -1e-3 * float(x @ x), lambda x: -2e-3 * x, np.zeros(2), np.ones(2), bounds
    )
    assert (x >= bounds[:, 0]).all()
    assert (x <= bounds[:, 1]).all()
    np.testing.assert_allclose(w @ x, [1.85, 0.35], rtol=0.05)


def test_points_of_the_sequence_are_normal():
    z = kronecker_normals(7, 600, 3)
    np.testing.assert_array_equal(z[100:], kronecker_normals(107, 500, 3))
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=0.04)
    np.testing.assert_allclose(z.T @ z / 600, np.eye(3), atol=0.1)


def test_nodes_keep_the_moments_of_predictions():
    def effect(x):
        return np.array([0.2 * x[0], 0.1 * x[1] - x[0] ** 2 / 50]), np.exp(0.3 * x[:2] * x[2])

    x, w = weighted_points(normal, slope, UNIT, 10.0 * UNIT, FAR)
    nodes, p = design(*weighted_points(normal, slope, UNIT, 10.0 * UNIT, FAR), effect, UNIT)
    assert len(p) == 10
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)

    def moments(points, weights):
        means, variances = (np.array(each) for each in zip(*map(effect, points), strict=True))
        mean = weights @ means
        return mean, weights @ (variances + (means - mean) ** 2)

    (mean, var), (all_mean, all_var) = moments(nodes, p), moments(x, w)
    np.testing.assert_allclose((mean - all_mean) / np.sqrt(all_var), 0.0, atol=0.01)
    np.testing.assert_allclose(var, all_var, rtol=0.03)


def test_without_an_effect_there_is_one_node():
    points = weighted_points(normal, slope, UNIT, 10.0 * UNIT, FAR)
    _, p = design(*points, lambda x: (np.zeros(2), UNIT[:2]), UNIT)
    np.testing.assert_allclose(p, [1.0], rtol=1e-12)


def test_the_curvature_is_the_second_difference_of_the_value():
    def value(x):
        return float(np.exp(x[0]) + np.cos(x[1] * x[0]) + x[2] ** 4)

    def gradient(x):
        return oracles.finite_difference(value, x, 1e-6)

    at = np.array([0.3, -0.4, 0.8])
    hessian = np.array(
        [
            [np.exp(at[0]) - at[1] ** 2 * np.cos(at[0] * at[1]), 0.0, 0.0],
            [0.0, -(at[0] ** 2) * np.cos(at[0] * at[1]), 0.0],
            [0.0, 0.0, 12 * at[2] ** 2],
        ]
    )
    mixed = -np.sin(at[0] * at[1]) - at[0] * at[1] * np.cos(at[0] * at[1])
    hessian[0, 1] = hessian[1, 0] = mixed
    np.testing.assert_allclose(curvature(gradient, at, FAR), hessian, atol=3e-3)
    # at bounds by one-sided differences
    ends = np.column_stack([at, at + 1.0])
    np.testing.assert_allclose(curvature(lambda x: x**2, at, ends), np.diag(2 * at), atol=0.03)


# A GP


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(15, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(15)


def test_a_single_hyperparameter_is_integrated_like_by_quadrature(data):
    """The amplitude alone: its posterior is a curve."""
    X, y = data
    fixed = {"linear": False, "lengthscales": 0.8, "noise_std": 0.3}
    gp = GPRegressor(hyperparameters="integrated", **fixed).fit(X, y)
    centered, scale = y - y.mean(), y.std()
    at = np.linspace(-3, 3, 7)[:, None]
    grid = np.linspace(np.log(1e-3), np.log(1e2), 2000)
    log_p, means, variances = [], [], []
    for log_amplitude in grid:
        a = np.exp(log_amplitude) * scale
        K = a**2 * oracles.squared_exponential(X, X, np.array([0.8])) + 0.09 * np.eye(15)
        k = a**2 * oracles.squared_exponential(X, at, np.array([0.8]))
        evidence = oracles.gp_log_evidence(centered, K)
        log_p.append(evidence + norm.logpdf(log_amplitude, np.log(0.5), 1.5))
        means.append(y.mean() + k.T @ np.linalg.solve(K, centered))
        variances.append(a**2 + 0.09 - np.einsum("ij,ij->j", k, np.linalg.solve(K, k)))
    p = np.exp(np.array(log_p) - np.max(log_p))
    p /= p.sum()
    mean = p @ means
    var = p @ (variances + (means - mean) ** 2)
    ours, std = gp.predict(at, return_std=True)
    np.testing.assert_allclose((ours - mean) / np.sqrt(var), 0.0, atol=0.03)
    np.testing.assert_allclose(std, np.sqrt(var), rtol=0.03)
    mode = GPRegressor(**fixed).fit(X, y).predict(at, return_std=True)
    assert np.abs(std / np.sqrt(var) - 1).max() < 0.3 * np.abs(mode[1] / np.sqrt(var) - 1).max()


def test_predictions_are_the_mixture_of_the_nodes(data):
    X, y = data
    gp = GPRegressor(hyperparameters="integrated").fit(X, y)
    mode = GPRegressor().fit(X, y)
    assert gp.noise_std_ == mode.noise_std_
    assert gp.log_evidence_ == mode.log_evidence_
    np.testing.assert_allclose(gp.node_weights_.sum(), 1.0, rtol=1e-14)
    at, p = np.array([[0.3], [5.0]]), gp.node_weights_
    each = np.array([node.predict(at, return_std=True) for node in gp.nodes_])
    mean = p @ each[:, 0]
    var = p @ (each[:, 1] ** 2 + (each[:, 0] - mean) ** 2)
    ours, std = gp.predict(at, return_std=True)
    np.testing.assert_allclose(ours, mean, rtol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(var), rtol=1e-12)
    found = gp.predict_uncertain([0.3], [[0.2]])
    moments = [node.predict_uncertain([0.3], [[0.2]]) for node in gp.nodes_]
    np.testing.assert_allclose(found.mean, p @ [m.mean for m in moments], rtol=1e-12)
    np.testing.assert_allclose(
        found.var, p @ [m.var + (m.mean - found.mean) ** 2 for m in moments], rtol=1e-12
    )
    counts = [5, 9]
    means = gp.leading_means(X, y, counts)(at)
    again = [
        gp.condition(X[:n], y[:n]).predict(x[None])[0] for n, x in zip(counts, at, strict=True)
    ]
    np.testing.assert_allclose(means, again, rtol=1e-9)


@pytest.mark.parametrize("n", [7, 15])
def test_nodes_are_compared_at_twelve_rows_from_the_first_to_the_last(data, n, monkeypatch):
    X, y = data[0][:n], data[1][:n]
    module, seen = importlib.import_module(GPRegressor.__module__), []
    monkeypatch.setattr(module, "weighted_points", lambda *given: (given[2][None], np.ones(1)))

    def compared(points, weights, predict, mode):
        seen.append(predict(mode)[0])
        return points, weights

    monkeypatch.setattr(module, "design", compared)
    gp = GPRegressor(hyperparameters="integrated").fit(X, y)
    rows = [*range(7)] if n == 7 else [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 14]
    np.testing.assert_allclose(seen[0], gp.nodes_[0].predict(X[rows]), rtol=1e-12)


def test_a_change_of_units_changes_nothing(data):
    X, y = data
    gp = GPRegressor(hyperparameters="integrated").fit(X, y)
    other = GPRegressor(hyperparameters="integrated").fit(100.0 * X, 5.0 + 0.01 * y)
    at = np.array([[0.3], [3.0]])
    mean, std = gp.predict(at, return_std=True)
    theirs, theirs_std = other.predict(100.0 * at, return_std=True)
    np.testing.assert_allclose((theirs - 5.0) / 0.01, mean, rtol=1e-4)
    np.testing.assert_allclose(theirs_std / 0.01, std, rtol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hyperparameters": "mcmc"}, "hyperparameters must be one of 'mode', 'integrated'; got"),
        ({"hyperparameters": "integrated", "prior": None}, "prior must be 'weak' or 'shrunk' with"),
        (
            {"hyperparameters": "integrated", "noisy_inputs": "nigp"},
            "noisy_inputs must be None with hyperparameters='integrated'; got 'nigp'. Use 'mode'",
        ),
        (
            {"hyperparameters": "integrated", "linear": [0.5]},
            "linear must be True or False with hyperparameters='integrated'; got weights. Use 'mo",
        ),
    ],
)
def test_says_what_it_refuses(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(**parameters).fit(*data)


def test_says_that_inputs_have_no_noise(data):
    message = "input_cov must be None with hyperparameters='integrated'; got one. Use 'mode'"
    with pytest.raises(ValueError, match=message):
        GPRegressor(hyperparameters="integrated").fit(*data, input_cov=[0.01])
    with pytest.raises(ValueError, match="input_cov must be None after a fit without input noise"):
        GPRegressor(hyperparameters="integrated").fit(*data).condition(*data, input_cov=[0.01])


@pytest.mark.parametrize("noise", ["both"])
def test_says_that_a_forecaster_has_one_kind_of_noise(series, noise):
    message = rf"noise must be 'process' for GPRegressor\(hyperparameters='integrated'\); .*{noise}"
    with pytest.raises(ValueError, match=message):
        Forecaster(GPRegressor(hyperparameters="integrated"), lags=2, noise=noise).fit(series)


def test_a_linear_part_that_explodes_is_left_to_the_mixture():
    y = pd.Series(np.sin(np.arange(40.0)))  # next to no noise
    model = Forecaster(GPRegressor(hyperparameters="integrated"), lags=2).fit(y)
    assert model.models_[0].regressor.nodes_


# A forecast


@pytest.fixture(scope="module")
def series():
    return pd.Series(oracles.autoregression([0.8], 40, np.random.default_rng(5)))


@pytest.fixture(scope="module")
def model(series):
    return Forecaster(GPRegressor(hyperparameters="integrated"), lags=2).fit(series)


def node_forecasts(model, series, steps, **options):
    """A forecaster for each node, of the same rows."""
    found = []
    for node in model.models_[0].regressor.nodes_:
        one = Forecaster(GPRegressor(), lags=2).fit(series)
        fitted = one.models_[0]
        step = type(fitted.one_step)(node.posterior_, fitted.one_step.lags, fitted.differencing)
        object.__setattr__(fitted, "one_step", step)
        found.append(one.forecast(steps, **options))
    return found


def test_the_horizon_is_the_mixture_of_the_horizons_of_the_nodes(model, series):
    ahead, p = model.forecast(6), model.models_[0].regressor.node_weights_
    each = node_forecasts(model, series, 6)
    means = np.array([one.mean for one in each])
    away = means - p @ means
    cov = np.tensordot(p, [one.cov for one in each], 1) + (p * away.T) @ away
    np.testing.assert_allclose(ahead.mean, p @ means, rtol=1e-12)
    np.testing.assert_allclose(ahead.cov, cov, rtol=1e-12)
    value = ahead.quantile(0.95).iloc[-1]
    below = [norm.cdf(value, one.mean.iloc[-1], one.std.iloc[-1]) for one in each]
    assert p @ below == pytest.approx(0.95, abs=1e-12)
    parts = ahead.decompose()
    np.testing.assert_allclose(parts.sum(axis=1), ahead.var, rtol=1e-12)
    np.testing.assert_allclose(parts["hyperparameters"], p @ away**2, rtol=1e-10)
    noise = p @ [one.decompose()["noise"] for one in each]
    np.testing.assert_allclose(parts["noise"], noise, rtol=1e-12)
    assert f"averaged over {len(p)} sets of values" in model.summary()


def test_sample_paths_follow_one_node_each(model):
    exact = model.forecast(6)
    paths = model.forecast(6, propagation="monte_carlo", n_samples=4000, random_state=0)
    assert paths.paths.shape == (6, 4000)
    error = exact.std / np.sqrt(4000)
    np.testing.assert_array_less(np.abs(paths.mean - exact.mean), 6 * error + 0.05 * exact.std)
    np.testing.assert_allclose(paths.std, exact.std, rtol=0.12)
    parts = paths.decompose()
    np.testing.assert_allclose(parts.sum(axis=1), paths.var, rtol=1e-12)
    longer = model.forecast(9, propagation="monte_carlo", n_samples=4000, random_state=0)
    np.testing.assert_allclose(longer.mean[:6], paths.mean, rtol=1e-12)
    few = model.forecast(2, propagation="monte_carlo", n_samples=7, random_state=0)
    assert few.paths.shape == (2, 7)
    assert (few.decompose()["noise"] > 0).all()


@pytest.mark.parametrize("options", [{"transform": "log"}, {"calibrate": True}], ids=str)
def test_update_apply_and_a_file_keep_the_nodes(series, options, tmp_path):
    y = np.exp(0.2 * series)
    model = Forecaster(GPRegressor(hyperparameters="integrated"), lags=2, **options).fit(y[:36])
    weights = model.models_[0].regressor.node_weights_
    before = model.forecast(3)
    elsewhere = model.apply(y[10:30]).forecast(3)
    model.update(y[36:])
    after = model.forecast(3)
    fresh = Forecaster(GPRegressor(), lags=2, **options).fit(y)
    assert not np.allclose(before.mean, after.mean)
    assert np.isfinite(elsewhere.std).all()
    np.testing.assert_array_equal(model.models_[0].regressor.node_weights_, weights)
    assert model.models_[0].n_rows == fresh.models_[0].n_rows
    model.save(tmp_path / "model.pkl")
    again = load_model(tmp_path / "model.pkl").forecast(3)
    np.testing.assert_allclose(again.interval(), after.interval(), rtol=1e-12)


# A long Markov chain


def log_posterior(X, y):
    """-log posterior of log [l, a, tau, s] on standardized data, written out, and its gradient."""
    d = X.shape[1]
    evidence = GaussianProcessEvidence(X, y, linear=True)
    median = np.log([*[2 * np.sqrt(d)] * d, 0.5, 0.5, 0.1])
    bounds = np.log([*[(1e-2, 1e4)] * d, (1e-3, 1e2), (1e-4, 1e1), (1e-4, 1e1)])

    def energy(x):
        if not ((x > bounds[:, 0]) & (x < bounds[:, 1])).all():
            return np.inf, np.zeros(len(x))
        theta = np.exp(x)
        value, gradient = evidence(theta[:d], theta[d], theta[d + 1], theta[-1])
        away = (x - median) / 1.5**2
        return value + 0.5 * float(away @ (x - median)), gradient + away

    return energy


def hamiltonian(energy, start, scale, n, rng):
    """Hamiltonian Monte Carlo: (n, q) draws, with a mass from given stds."""
    x, (value, gradient) = start, energy(start)
    draws = np.empty((n, len(start)))
    for i in range(n):
        momentum = rng.standard_normal(len(start))
        new, new_gradient = x.copy(), gradient
        new_momentum, step = momentum.copy(), rng.uniform(0.15, 0.45)
        for _ in range(rng.integers(4, 9)):
            new_momentum = new_momentum - 0.5 * step * scale * new_gradient
            new = new + step * scale * new_momentum
            new_value, new_gradient = energy(new)
            new_momentum = new_momentum - 0.5 * step * scale * new_gradient
        before, after = (
            value + 0.5 * momentum @ momentum,
            new_value + 0.5 * new_momentum @ new_momentum,
        )
        if np.isfinite(after) and np.log(rng.random()) < before - after:
            x, value, gradient = new, new_value, new_gradient
        draws[i] = x
    return draws


def short_series(name):
    rng = np.random.default_rng(11)
    if name == "threshold":
        z = np.zeros(80)
        for t in range(1, 80):
            z[t] = 1.5 * np.tanh(1.2 * z[t - 1]) - 0.5 * z[t - 2] + 0.4 * rng.standard_normal()
        return pd.Series(z[-45:])
    coefficients = {
        "slow": [0.8],
        "white": [0.2],
        "waves": [1.2, -0.6],
        "alternating": [-0.6],
    }[name]
    return pd.Series(oracles.autoregression(coefficients, 45, rng))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slow", "white", "waves", "threshold", "alternating"])
def test_forecasts_are_those_of_a_long_markov_chain(name):
    """Of series on which chains from several seeds agree to some .02 stds."""
    y, steps = short_series(name), 10
    model = Forecaster(GPRegressor(hyperparameters="integrated"), lags=2, differences=()).fit(y)
    fitted = model.models_[0]
    _, X, target = rows_of(fitted)
    scale, unit = X.std(axis=0), target.std()
    energy = log_posterior((X - X.mean(axis=0)) / scale, (target - target.mean()) / unit)
    gp = fitted.regressor
    mode = [*gp.lengthscales_ / scale, gp.amplitude_ / unit]
    mode = np.log([*mode, gp.linear_scale_[0] * scale[0] / unit, gp.noise_std_ / unit])
    rng = np.random.default_rng(0)
    first = hamiltonian(energy, mode, 0.3 * np.ones(5), 1500, rng)[300:]
    draws = hamiltonian(energy, first[-1], first.std(axis=0), 12000, rng)
    means, covs = [], []
    for x in draws[::40]:
        theta = np.exp(x)
        node = copy.copy(gp.nodes_[0])
        node._set_hyperparameters(x, Units(scale, unit))
        assert node.noise_std_ == pytest.approx(theta[-1] * unit)
        posterior = node._process_of(len(X)).posterior(X, target)
        one = replace(fitted.one_step, posterior=posterior)
        joint = propagate(one, fitted.past, Future(np.empty((steps, 0))), Method())
        means.append(joint.mean)
        covs.append(joint.cov)
    chain = NormalMixture(np.full(len(means), 1 / len(means)), np.array(means), np.array(covs))
    ahead = model.forecast(steps, propagation="exact")
    std = np.sqrt(np.diagonal(chain.cov))
    np.testing.assert_allclose((ahead.mean - chain.mean) / std, 0.0, atol=0.05)
    np.testing.assert_allclose(ahead.std, std, rtol=0.05)
    np.testing.assert_allclose(ahead.aggregate().std, np.sqrt(chain.cov.sum()), rtol=0.05)
