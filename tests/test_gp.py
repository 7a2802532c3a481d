"""GPRegressor: what the fit finds, what it predicts, and what it refuses."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from forecast_unc import GPRegressor
from forecast_unc.regression import gp as regression_gp
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.series.rows import lag_embedding
from tests import oracles
from tests.contract import failed_checks


def test_it_is_a_scikit_learn_estimator():
    assert failed_checks(GPRegressor(lengthscales=2.0)) == {}


@functools.cache
def data(n=40, d=2, noise_std=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 3.0, 0.5][:d] + [0.0, 2.0, -1.0][:d]
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, -1] + noise_std * rng.standard_normal(n)
    return X, y


def covariance(gp, X, y):
    """K of the training rows, from the public hyper-parameters."""
    bias = y.std() if gp.linear else 0.0
    centered = X - X.mean(axis=0)
    scales = gp.lengthscales_, gp.amplitude_, gp.linear_scale_, bias
    K = oracles.gp_kernel(centered, centered, *scales)
    return K + gp.noise_std_**2 * np.eye(len(X))


@pytest.fixture(params=[True, False], ids=["linear", "no linear"])
def linear(request):
    return request.param


# The fit


def test_log_evidence_is_that_of_the_data(linear):
    X, y = data()
    gp = GPRegressor(linear=linear).fit(X, y)
    expected = oracles.gp_log_evidence(y - y.mean(), covariance(gp, X, y))
    np.testing.assert_allclose(gp.log_evidence_, expected, rtol=1e-9)


def test_search_rows_are_evenly_spread_and_the_posterior_rests_on_all():
    X, y = data(90)
    gp = GPRegressor(search_rows=30).fit(X, y)
    K = covariance(gp, X, y)
    some = np.linspace(0, 89, 30).round().astype(int)
    expected = oracles.gp_log_evidence((y - y.mean())[some], K[np.ix_(some, some)])
    np.testing.assert_allclose(gp.log_evidence_, expected, rtol=1e-9)
    at = X[:5] + 0.1
    centered = at - X.mean(axis=0), X - X.mean(axis=0)
    scales = gp.lengthscales_, gp.amplitude_, gp.linear_scale_, y.std()
    mean = y.mean() + oracles.gp_kernel(*centered, *scales) @ np.linalg.solve(K, y - y.mean())
    np.testing.assert_allclose(gp.predict(at), mean, rtol=1e-8)
    one, other = GPRegressor(search_rows=90).fit(X, y), GPRegressor().fit(X, y)
    assert one.log_evidence_ == pytest.approx(other.log_evidence_)


@pytest.mark.parametrize("prior", ["weak", None])
def test_fit_ends_at_a_stationary_point_or_a_bound(linear, prior):
    X, y = data(60)
    gp = GPRegressor(linear=linear, prior=prior).fit(X, y)
    units = X.std(axis=0), y.std()
    d = X.shape[1]
    at = np.log(
        np.concatenate(
            [
                gp.lengthscales_ / units[0],
                [gp.amplitude_ / units[1], gp.noise_std_ / units[1]],
                [gp.linear_scale_[0] * units[0][0] / units[1]] if linear else [],
            ]
        )
    )
    median = np.log([2 * np.sqrt(d)] * d + [0.5, 0.1] + [0.5] * linear)
    lowest = np.log([1e-2] * d + [1e-3, 1e-4] + [1e-4] * linear)
    highest = np.log([1e4] * d + [1e2, 1e1] + [1e1] * linear)
    Z, t = (X - X.mean(axis=0)) / units[0], (y - y.mean()) / units[1]

    def objective(log_theta):
        l, (a, s), tau = np.exp(log_theta[:d]), np.exp(log_theta[d : d + 2]), log_theta[d + 2 :]
        scales = (np.full(d, np.exp(tau[0])), 1.0) if linear else (np.zeros(d), 0.0)
        K = oracles.gp_kernel(Z, Z, l, a, *scales) + s**2 * np.eye(len(Z))
        penalty = 0.5 * np.sum((log_theta - median) ** 2) / 1.5**2 if prior else 0.0
        return penalty - oracles.gp_log_evidence(t, K)

    gradient = oracles.finite_difference(objective, at, 1e-4)
    gradient[(at < lowest + 1e-6) & (gradient > 0)] = 0.0
    gradient[(at > highest - 1e-6) & (gradient < 0)] = 0.0
    assert np.abs(gradient).max() < 2e-2


def test_fit_finds_what_made_the_data(rng):
    X = rng.uniform(-3, 3, size=(150, 2))
    K = 2.0**2 * oracles.squared_exponential(X, X, [1.0, 2.5])
    y = 10 + np.linalg.cholesky(K + 0.3**2 * np.eye(150)) @ rng.standard_normal(150)
    gp = GPRegressor(linear=False).fit(X, y)
    np.testing.assert_allclose(gp.noise_std_, 0.3, rtol=0.15)
    np.testing.assert_allclose(gp.lengthscales_, [1.0, 2.5], rtol=0.3)
    np.testing.assert_allclose(gp.amplitude_, 2.0, rtol=0.5)


def test_restarts_are_never_worse():
    X, y = data(25)
    evidences = [
        GPRegressor(prior=None, n_restarts=n, random_state=0).fit(X, y).log_evidence_
        for n in (0, 2, 5)  # the first starts are the same
    ]
    assert evidences[0] <= evidences[1] + 1e-9
    assert evidences[1] <= evidences[2] + 1e-9


def test_restarts_can_find_a_better_optimum(rng):
    X = np.sort(rng.uniform(0, 20, size=(40, 1)), axis=0)
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(40)  # starts far too smooth
    plain, restarted = (
        GPRegressor(n_restarts=n, random_state=0, prior=None).fit(X, y) for n in (0, 8)
    )
    assert restarted.log_evidence_ > plain.log_evidence_ + 1


def test_few_rows_are_not_memorized():
    # 13 lags of the airline model's changes: with short length-scales and hardly any noise the
    # evidence of four of the eight is a few nats higher
    rng = np.random.default_rng(3)
    e = rng.standard_normal((8, 140))
    changes = e[:, 13:] - 0.4 * e[:, 12:-1] - 0.6 * e[:, 1:-12] + 0.24 * e[:, :-13]
    noises = []
    for series in changes[:, :107]:
        X, y = lag_embedding(series, tuple(range(1, 14)), np.empty((107, 0)))
        noises.append(GPRegressor().fit(X, y).noise_std_ / y.std())
    assert np.median(noises) > 0.7


def test_a_function_of_few_of_many_inputs_is_found_in_few_rows():
    rng = np.random.default_rng(0)  # smooth starts alone end at noise
    X = rng.standard_normal((60, 12))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    gp = GPRegressor().fit(X, y + 0.1 * rng.standard_normal(60))
    assert gp.noise_std_ < 0.3
    assert set(np.argsort(gp.lengthscales_)[:3]) == {0, 1, 2}


def test_no_prior_gives_at_least_the_evidence_of_the_weak_one(linear):
    X, y = data(30)
    weak, none = (
        GPRegressor(linear=linear, prior=prior, n_restarts=5, random_state=0).fit(X, y)
        for prior in ("weak", None)
    )
    assert none.log_evidence_ >= weak.log_evidence_ - 1e-6
    assert none.log_evidence_ < weak.log_evidence_ + 10  # the prior is weak


def test_prior_keeps_an_irrelevant_input_off_the_bound(rng):
    X = rng.normal(size=(80, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(80)
    weak = GPRegressor().fit(X, y)
    # without a prior a single search may end in noise taken for signal, at roundoff's whim
    none = GPRegressor(prior=None, n_restarts=4, random_state=0).fit(X, y)
    assert 5 * weak.lengthscales_[0] < weak.lengthscales_[1] < 1e3 < none.lengthscales_[1]


@pytest.mark.parametrize("lengthscales", [1.7, (0.9, 2.2)], ids=str)
def test_given_hyperparameters_stay(lengthscales):
    X, y = data()
    gp = GPRegressor(lengthscales=lengthscales, noise_std=0.33).fit(X, y)
    np.testing.assert_allclose(gp.lengthscales_, np.broadcast_to(lengthscales, 2), rtol=1e-12)
    np.testing.assert_allclose(gp.noise_std_, 0.33, rtol=1e-12)
    assert gp.posterior_.noise_var == gp.noise_std_**2


# Predictions


def test_prediction_and_evidence_agree_with_scikit_learn(linear):
    X, y = data(50, d=3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)  # DotProduct has one scale for all inputs
    y = (y - y.mean()) / y.std()
    gp = GPRegressor(linear=linear).fit(X, y)
    kernel = ConstantKernel(gp.amplitude_**2) * RBF(gp.lengthscales_)
    kernel += WhiteKernel(gp.noise_std_**2)
    if linear:
        tau = gp.linear_scale_[0]
        np.testing.assert_allclose(gp.linear_scale_, tau, rtol=1e-12)
        kernel += ConstantKernel(tau**2, (1e-20, 1e20)) * DotProduct(1.0 / tau, (1e-20, 1e20))
    other = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    np.testing.assert_allclose(gp.log_evidence_, other.log_marginal_likelihood_value_, rtol=1e-8)
    X_new = np.random.default_rng(1).normal(size=(20, 3))
    ours, theirs = (model.predict(X_new, return_std=True) for model in (gp, other))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-8)


def test_far_from_the_data_a_linear_model_goes_on_and_the_other_returns(rng):
    X = np.linspace(0, 10, 40)[:, None]
    y = 2 * X[:, 0] + 0.1 * rng.standard_normal(40)
    goes_on, returns = (GPRegressor(linear=linear).fit(X, y) for linear in (True, False))
    far = [[1000.0]]
    np.testing.assert_allclose(goes_on.predict(far), 2000.0, rtol=0.01)
    np.testing.assert_allclose(returns.predict(far), y.mean(), rtol=1e-9)


def moved_and_fresh(gp, windows, X, y):
    """One regressor led through windows of rows, another that sees only the last."""
    moved = gp
    for start, stop in windows:
        moved = moved.condition(X[start:stop], y[start:stop])
    fresh = gp.condition(X[::-1], y[::-1])  # nothing to continue
    return moved.posterior_, fresh.condition(X[start:stop], y[start:stop]).posterior_


@pytest.fixture
def factorizations(monkeypatch):
    """Sizes of the complete factorizations that follow."""
    sizes = []

    def counted(self, X, *arguments, covariance=GaussianProcess.covariance):
        sizes.append(len(X))
        return covariance(self, X, *arguments)

    monkeypatch.setattr(GaussianProcess, "covariance", counted)
    return sizes


WINDOWS = {
    "one by one": [(0, 100 + t) for t in range(30)],
    "several": [(0, 120), (0, 127), (0, 160)],
    "the same": [(0, 160), (0, 160)],
}


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_rows_that_go_on_update_the_factor(windows, linear, factorizations):
    X, y = data(160)
    gp = GPRegressor(linear=linear).fit(X[:40], y[:40])
    before = gp.posterior_.factors[0].chol.copy()
    factorizations.clear()
    moved, fresh = moved_and_fresh(gp, windows, X, y)
    assert factorizations == [160, windows[-1][1] - windows[-1][0]]  # those of `fresh`
    np.testing.assert_array_equal(gp.posterior_.factors[0].chol, before)
    np.testing.assert_allclose(moved.factors[0].chol, fresh.factors[0].chol, atol=1e-10)
    np.testing.assert_allclose(moved.weights, fresh.weights, rtol=5e-10, atol=5e-10)
    X_new = X[:20] + 0.1
    np.testing.assert_allclose(moved.predict(X_new), fresh.predict(X_new), rtol=1e-10)
    a, b = (posterior.moments(X_new[0], 0.1 * np.eye(2)) for posterior in (moved, fresh))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-10)
    np.testing.assert_allclose(a.var, b.var, rtol=2e-10)


def test_rows_that_do_not_go_on_are_factorized_anew(factorizations):
    X, y = data(60)
    gp = GPRegressor().fit(X[:40], y[:40])
    factorizations.clear()
    changed = X[:45].copy()
    changed[20] += 0.1
    for rows in (X[1:41], X[20:60], X[:30], changed, X[10:11]):
        gp = gp.condition(rows, np.zeros(len(rows)))
    assert factorizations == [40, 40, 30, 45, 1]


def test_an_update_with_little_noise_is_as_good_as_its_condition_allows():
    X, y = data(160, noise_std=0.0)
    gp = GPRegressor(noise_std=1e-3).fit(X[:100], y[:100])
    moved, fresh = moved_and_fresh(gp, [(0, 100 + t) for t in range(61)], X, y)
    scale = fresh.kernel_var
    K, L = fresh.factors[0].chol, moved.factors[0].chol
    np.testing.assert_allclose(L @ L.T / scale, K @ K.T / scale, rtol=0, atol=3e-13)
    np.testing.assert_allclose(moved.predict(X[60:]), fresh.predict(X[60:]), rtol=1e-5)


def test_other_targets_of_the_same_rows():
    X, y = data()
    gp = GPRegressor(noise_std=0.3).fit(X, y)
    before = gp.predict(X)
    np.testing.assert_allclose(gp.condition(X, 2 * y - y.mean()).predict(X), 2 * before - y.mean())


# The shrunk prior, groups of linear weights, and the drift


def drift_std(y):
    """tau_0 by the empirical-Bayes rule of the documentation."""
    return np.sqrt(max(0.0, y.mean() ** 2 - 2.0 * y.var() / len(y)))


def bayes(gp, fitted_to, data, X_new):
    """Mean and covariance of new observations from the public hyper-parameters alone.

    `fitted_to` gave the hyper-parameters, `data` the posterior.
    """
    (X0, y0), (X, y) = fitted_to, data
    centered = gp.bias == "free" or not gp.linear
    bias = {"free": y0.std(), "shrunk": drift_std(y0), None: 0.0}[gp.bias] * gp.linear
    level = y0.mean() if centered else 0.0
    A, B = X - X0.mean(axis=0), X_new - X0.mean(axis=0)
    scales = gp.lengthscales_, gp.amplitude_, gp.linear_scale_, bias
    K = oracles.gp_kernel(A, A, *scales) + gp.noise_std_**2 * np.eye(len(A))
    cross = oracles.gp_kernel(B, A, *scales)
    mean = level + cross @ np.linalg.solve(K, y - level)
    cov = oracles.gp_kernel(B, B, *scales) - cross @ np.linalg.solve(K, cross.T)
    cov += gp.noise_std_**2 * np.eye(len(B))
    n = len(y)
    return mean, cov * ((n - 1) / (n - 3) if gp.prior == "shrunk" else 1.0)


OPTIONS = [
    {},
    {"linear": False},
    {"prior": "shrunk"},
    {"prior": "shrunk", "groups": (0, -1, 1), "bias": "shrunk"},
    {"prior": "weak", "groups": (-1, -1, -1), "bias": None},
    {"prior": None, "groups": (1, 1, 0), "bias": "shrunk"},
    {"prior": "shrunk", "linear": False, "bias": "shrunk"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_posterior_with_options_is_bayes_rule(options):
    X, y = data(25, d=3)
    y = y + 1.5  # a drift that counts
    gp = GPRegressor(**options).fit(X, y)
    X_new = X[:6] + 0.3
    mean, cov = bayes(gp, (X, y), (X, y), X_new)
    ours, std = gp.predict(X_new, return_std=True)
    np.testing.assert_allclose(ours, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(cov)), rtol=1e-8)
    latent = cov - gp.posterior_.noise_var * np.eye(6)
    np.testing.assert_allclose(gp.posterior_.covariance(X_new), latent, rtol=1e-6, atol=1e-9)
    input_cov = 0.1 * np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.3]])
    moments = gp.predict_uncertain(X[0], input_cov)
    first, var, cross = oracles.quadrature_moments(
        lambda Z: gp.predict(Z, return_std=True), X[0], input_cov
    )
    np.testing.assert_allclose(moments.mean, first, rtol=1e-6)
    np.testing.assert_allclose(moments.var, var, rtol=1e-6)
    np.testing.assert_allclose(input_cov @ moments.slope, cross, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("options", OPTIONS[1:5], ids=str)
def test_condition_with_options_is_bayes_rule(options):
    X, y = data(25, d=3)
    y = y + 1.5
    gp = GPRegressor(**options).fit(X[:12], y[:12])
    kept, before = gp.linear_scale_.copy(), gp.predict(X)
    fitted = gp
    for n in (14, 25):  # by an update of the factor, which other rows then cannot have
        gp = gp.condition(X[:n], y[:n])
    mean, cov = bayes(gp, (X[:12], y[:12]), (X, y), X[:6] + 0.3)
    ours, std = gp.predict(X[:6] + 0.3, return_std=True)
    np.testing.assert_allclose(ours, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(cov)), rtol=1e-7)
    np.testing.assert_array_equal(gp.linear_scale_, kept)
    np.testing.assert_array_equal(fitted.predict(X), before)


@pytest.mark.parametrize("bias", ["free", "shrunk", None])
def test_evidence_with_groups_is_that_of_the_data(bias):
    X, y = data(30, d=3)
    gp = GPRegressor(prior="shrunk", groups=(1, -1, 0), bias=bias).fit(X, y)
    level = y.mean() if bias == "free" else 0.0
    tau_0 = {"free": y.std(), "shrunk": drift_std(y), None: 0.0}[bias]
    A = X - X.mean(axis=0)
    K = oracles.gp_kernel(A, A, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, tau_0)
    expected = oracles.gp_log_evidence(y - level, K + gp.noise_std_**2 * np.eye(30))
    np.testing.assert_allclose(gp.log_evidence_, expected, rtol=1e-9)


def test_a_group_has_one_prior_std_and_group_minus_one_none():
    X, y = data(40, d=3)
    gp = GPRegressor(groups=(0, 1, 0)).fit(X, y)
    tau = gp.linear_scale_ * X.std(axis=0)
    np.testing.assert_allclose(tau[0], tau[2], rtol=1e-12)
    assert abs(np.log(tau[1] / tau[0])) > 0.1
    one = GPRegressor(groups=(0, 0, 0)).fit(X, y)
    np.testing.assert_allclose(one.predict(X), GPRegressor().fit(X, y).predict(X), rtol=1e-9)
    none = GPRegressor(groups=(0, -1, 0)).fit(X, y)
    assert none.linear_scale_[1] == 0.0
    far = np.array([[0.0, 1e6, 0.0], [0.0, 2e6, 0.0]])  # no slope there
    np.testing.assert_allclose(*none.predict(far), rtol=1e-9)


def test_shrunk_prior_is_what_the_documentation_says():
    """The fit is stationary under its medians and stds, those of a second group the weak ones."""
    X, y = data(40, d=3)
    gp = GPRegressor(prior="shrunk", groups=(0, 0, 1), bias=None).fit(X, y)
    scale, unit = X.std(axis=0), y.std()
    tau = (gp.linear_scale_ * scale / unit)[[0, 2]]
    at = np.log([*(gp.lengthscales_ / scale), gp.amplitude_ / unit, *tau, gp.noise_std_ / unit])
    median = np.log([2 * np.sqrt(3)] * 3 + [0.1, 0.1, 0.5, 0.7])
    std = np.array([1.5] * 3 + [0.7, 0.7, 1.5, 1.0])
    Z = (X - X.mean(axis=0)) / scale

    def objective(log_theta):
        theta = np.exp(log_theta)
        K = oracles.gp_kernel(Z, Z, theta[:3], theta[3], theta[[4, 4, 5]], 0.0)
        evidence = oracles.gp_log_evidence(y / unit, K + theta[6] ** 2 * np.eye(40))
        return 0.5 * np.sum(((log_theta - median) / std) ** 2) - evidence

    assert np.abs(oracles.finite_difference(objective, at, 1e-4)).max() < 2e-2


def test_weak_prior_expects_no_more_than_the_linear_part_leaves(rng):
    """With a tenth of .1 std left: medians of a tenth, and a log-std of a between both priors'."""
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -0.5] + 0.01 * np.sin(2 * X[:, 0]) + 0.003 * rng.standard_normal(60)
    gp = GPRegressor().fit(X, y)
    scale, unit = X.std(axis=0), y.std()
    Z, t = (X - X.mean(axis=0)) / scale, (y - y.mean()) / unit
    rest = t - Z @ np.linalg.solve(Z.T @ Z, Z.T @ t)
    share = np.sqrt(rest @ rest / (60 - 3)) / 0.1
    assert 0.03 < share < 0.3
    tau = gp.linear_scale_[0] * scale[0] / unit
    at = np.log([*(gp.lengthscales_ / scale), gp.amplitude_ / unit, tau, gp.noise_std_ / unit])
    median = np.log([2 * np.sqrt(2)] * 2 + [0.5 * share, 0.5, 0.1 * share])
    std = np.array([1.5] * 2 + [0.7 + 0.8 * share, 1.5, 1.5])

    def objective(log_theta):
        theta = np.exp(log_theta)
        K = oracles.gp_kernel(Z, Z, theta[:2], theta[2], np.full(2, theta[3]), 1.0)
        evidence = oracles.gp_log_evidence(t, K + theta[4] ** 2 * np.eye(60))
        return 0.5 * np.sum(((log_theta - median) / std) ** 2) - evidence

    assert np.abs(oracles.finite_difference(objective, at, 1e-4)).max() < 2e-2


def test_weak_prior_with_nothing_left_by_the_linear_part_is_finite(rng):
    X = rng.normal(size=(20, 3))
    gp = GPRegressor().fit(X, X @ [1.0, 2.0, 3.0])
    np.testing.assert_allclose(gp.predict([[1.0, 1.0, 1.0]]), 6.0, rtol=1e-3)
    few = GPRegressor().fit(X[:3], X[:3, 0])  # no residual to tell from
    assert np.isfinite(few.predict(X)).all()


@pytest.mark.parametrize(("mean", "counts"), [(0.0, False), (0.1, False), (2.0, True)])
def test_drift_is_as_large_as_the_data_support(rng, mean, counts):
    X = rng.normal(size=(50, 1))
    noise = rng.standard_normal(50)
    y = mean + (noise - noise.mean()) / noise.std()
    gp = GPRegressor(bias="shrunk", groups=[-1], prior="shrunk").fit(X, y)
    expected = max(0.0, mean**2 - 2.0 / 50)
    np.testing.assert_allclose(gp.posterior_.linear_var[-1], expected * 49 / 47, rtol=1e-9)
    assert (expected > 0) == counts
    far = gp.predict([[1e6]])[0]  # the drift alone
    assert far == pytest.approx(mean, rel=0.05) if counts else far == pytest.approx(0.0, abs=1e-9)


def test_units_of_y_scale_a_shrunk_fit():
    X, y = data(20)
    gp = GPRegressor(prior="shrunk", groups=(0, -1), bias="shrunk")
    mean, std = gp.fit(X, y + 1).predict(X, return_std=True)
    other, other_std = gp.fit(X, -100.0 * (y + 1)).predict(X, return_std=True)
    np.testing.assert_allclose(other, -100.0 * mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other_std, 100.0 * std, rtol=1e-6)


def test_shrunk_prior_of_three_rows_is_finite():
    X, y = data(3)
    _, std = GPRegressor(prior="shrunk").fit(X, y).predict(X, return_std=True)
    assert (std > 0).all()
    assert np.isfinite(std).all()


# Invariances


@settings(max_examples=6)
@given(
    scale=st.floats(0.01, 100),
    shift=st.floats(-50, 50),
    y_scale=st.one_of(st.floats(0.01, 100), st.floats(-100, -0.01)),
    y_shift=st.floats(-50, 50),
)
def test_change_of_units_changes_the_units_of_the_answer(scale, shift, y_scale, y_shift):
    X, y = data(20)
    gp = GPRegressor().fit(X, y)
    other = GPRegressor().fit(X * scale + shift, y * y_scale + y_shift)
    np.testing.assert_allclose(other.lengthscales_, gp.lengthscales_ * scale, rtol=1e-3)
    np.testing.assert_allclose(other.noise_std_, gp.noise_std_ * abs(y_scale), rtol=1e-3)
    mean, std = gp.predict(X, return_std=True)
    mean_other, std_other = other.predict(X * scale + shift, return_std=True)
    tolerance = 1e-3 * std.max()
    np.testing.assert_allclose((mean_other - y_shift) / y_scale, mean, atol=tolerance)
    np.testing.assert_allclose(std_other / abs(y_scale), std, rtol=1e-3)
    cov = 0.1 * np.eye(2)
    ours = gp.predict_uncertain(X[0], cov)
    theirs = other.predict_uncertain(X[0] * scale + shift, cov * scale**2)
    np.testing.assert_allclose((theirs.mean - y_shift) / y_scale, ours.mean, atol=tolerance)
    np.testing.assert_allclose(theirs.var / y_scale**2, ours.var, rtol=1e-3)
    np.testing.assert_allclose(theirs.slope * scale / y_scale, ours.slope, atol=tolerance)


def test_permuted_inputs_permute_the_lengthscales():
    X, y = data(30, d=3)
    order = [2, 0, 1]
    plain, permuted = GPRegressor().fit(X, y), GPRegressor().fit(X[:, order], y)
    np.testing.assert_allclose(permuted.lengthscales_, plain.lengthscales_[order], rtol=1e-3)
    np.testing.assert_allclose(permuted.predict(X[:, order]), plain.predict(X), atol=1e-4)


def test_permuted_rows_change_nothing(rng):
    X, y = data(30)
    order = rng.permutation(30)
    plain, permuted = GPRegressor().fit(X, y), GPRegressor().fit(X[order], y[order])
    np.testing.assert_allclose(permuted.predict(X), plain.predict(X), atol=1e-4)


def test_data_are_neither_modified_nor_aliased():
    X, y = (array.copy() for array in data())
    gp = GPRegressor(lengthscales=1.0).fit(X, y)
    np.testing.assert_array_equal(X, data()[0])
    np.testing.assert_array_equal(y, data()[1])
    before = gp.predict(data()[0], return_std=True)
    X[:], y[:] = np.nan, np.nan
    np.testing.assert_array_equal(gp.predict(data()[0], return_std=True), before)


def test_input_without_variation_is_harmless():
    X, y = data()
    padded = np.column_stack([X, np.full(len(X), 3.0)])
    plain, other = (GPRegressor(lengthscales=1.0).fit(Z, y) for Z in (X, padded))
    np.testing.assert_allclose(other.predict(padded), plain.predict(X), atol=1e-4)


# Errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior": "strong"}, r"prior must be one of 'weak', 'shrunk', None; got 'strong'\. Use"),
        ({"bias": "none"}, r"bias must be one of 'free', 'shrunk', None; got 'none'\. Use"),
        ({"groups": [0]}, r"groups must number the group of each of the 2 inputs.*got \[0\]\. Use"),
        ({"groups": [0, -2]}, r"groups must .*from 0, or -1 for no linear weight; got \[0, -2\]"),
        ({"groups": [0.0, 1.0]}, r"groups must number .*; got \[0\.0, 1\.0\]"),
        ({"tol": 0.0}, r"tol must lie strictly between 0 and 1 nat; got 0\.0\. Leave it out"),
        ({"tol": "a"}, r"tol must lie strictly between 0 and 1 nat; got 'a'\. Leave it out"),
        ({"lengthscales": -1.0}, r"lengthscales must be positive, one number or 2 .*got -1\.0\."),
        ({"lengthscales": [1.0, 2.0, 3.0]}, r"one number or 2 \(one an input\); got \[1\.0, 2\.0"),
        ({"lengthscales": [1.0, np.nan]}, r"lengthscales must be positive.*got \[1\.0, nan\]"),
        ({"noise_std": 0.0}, r"noise_std must be positive; got 0\.0\. For data without noise"),
        ({"noise_std": np.nan}, r"noise_std must be positive; got nan\."),
        ({"n_restarts": 1.5}, r"n_restarts must be a whole number, at least 0; got 1\.5\."),
        ({"search_rows": 1}, r"search_rows must be a whole number, at least 2; got 1\. None"),
        ({"search_rows": 9, "noisy_inputs": "nigp"}, r"search_rows must be None with noisy_inputs"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(**parameters).fit(*data())


def test_hyperparameters_that_leave_a_singular_covariance_are_refused():
    X = np.repeat(np.linspace(0, 1, 10), 10)[:, None]
    with pytest.raises(
        ValueError,
        match=r"noise_std and lengthscales must give a positive definite covariance; got a "
        r"factorization that fails with noise_std=1e-12.*Give a larger noise_std",
    ):
        GPRegressor(noise_std=1e-12).fit(X, np.sin(X[:, 0]))


def test_condition_that_leaves_a_singular_covariance_is_refused():
    X = np.linspace(-3, 3, 12)[:, None]
    gp = GPRegressor(noise_std=1e-12, lengthscales=0.3, linear=False).fit(X, np.sin(X[:, 0]))
    close = np.linspace(-1, 1, 400)[:, None]
    with pytest.raises(
        ValueError, match=r"noise_std must keep the covariance positive definite; got a factor"
    ):
        gp.condition(close, np.sin(close[:, 0]))


def test_unfitted_is_refused():
    for use in (
        lambda gp: gp.predict([[0.0]]),
        lambda gp: gp.predict_uncertain([0.0], [[1.0]]),
        lambda gp: gp.condition([[0.0], [1.0]], [0.0, 1.0]),
    ):
        with pytest.raises(NotFittedError, match="This GPRegressor instance is not fitted yet"):
            use(GPRegressor())


def test_wrong_number_of_inputs_is_refused():
    gp = GPRegressor(lengthscales=1.0).fit(*data())
    with pytest.raises(ValueError, match="X has 3 features, but GPRegressor is expecting 2"):
        gp.predict(np.ones((1, 3)))
    with pytest.raises(ValueError, match="X has 1 features, but GPRegressor is expecting 2"):
        gp.condition(np.ones((2, 1)), np.ones(2))


def test_more_rows_than_memory_holds_are_refused_before_any_work():
    n = 3_000_000
    with pytest.raises(
        ValueError,
        match=r"fit into memory; got 3000000 rows, which need 2.01e\+05 GiB. Use fewer rows: the "
        r"last ones, by Forecaster\(max_train=",
    ):
        GPRegressor().fit(np.zeros((n, 1)), np.zeros(n))


def test_nothing_positional():
    with pytest.raises(TypeError, match="positional"):
        GPRegressor(True)


def test_a_given_noise_is_not_widened():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 1))
    gp = GPRegressor(prior="shrunk", noise_std=0.1).fit(X, X[:, 0] + 0.1 * rng.standard_normal(12))
    assert gp.posterior_.noise_var == pytest.approx(0.01, rel=1e-12)


def test_a_first_search_on_some_rows_ends_at_the_same_evidence(rng, monkeypatch):
    X = rng.uniform(-3, 3, (240, 3))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(240)
    monkeypatch.setattr(regression_gp, "_FIRST_ROWS", 80)
    found = GPRegressor().fit(X, y)
    monkeypatch.setattr(regression_gp, "_FIRST_ROWS", 81)
    direct = GPRegressor().fit(X, y)
    assert found.log_evidence_ == pytest.approx(direct.log_evidence_, abs=0.5)
    assert found.n_iter_ < direct.n_iter_


def test_a_linear_prior_mean_is_taken_from_the_targets_and_given_back(rng):
    X, w = rng.normal(size=(40, 3)), np.array([1.0, -2.0, 0.5])
    y = 3.0 + X @ w + np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    ahead = rng.normal(size=(5, 3))
    gp = GPRegressor(linear=w).fit(X, y)
    rest = GPRegressor(linear=False).fit(X, y - X @ w)
    mean, std = gp.predict(ahead, return_std=True)
    of_rest, same_std = rest.predict(ahead, return_std=True)
    np.testing.assert_allclose(mean, of_rest + ahead @ w, rtol=1e-5)
    np.testing.assert_allclose(std, same_std, rtol=1e-5)
    np.testing.assert_allclose(gp.log_evidence_, rest.log_evidence_, rtol=1e-6)
    shorter = gp.condition(X[:30], y[:30]).predict(ahead)
    of_rest = rest.condition(X[:30], y[:30] - X[:30] @ w).predict(ahead)
    np.testing.assert_allclose(shorter, of_rest + ahead @ w, rtol=1e-5)
    leading = gp.leading_means(X, y, [30, 40])(ahead[[0, 0]])
    np.testing.assert_allclose(leading, [shorter[0], mean[0]], rtol=1e-9)
    far = gp.predict(1e3 * ahead)
    np.testing.assert_allclose(far - gp.predict(2e3 * ahead), -1e3 * ahead @ w, rtol=1e-9)


@pytest.mark.parametrize("linear", [[1.0, 2.0], [np.nan, 1.0, 1.0], "both"])
def test_weights_of_the_prior_mean_are_checked(rng, linear):
    with pytest.raises(ValueError, match="linear must be True, False or 3 finite weights"):
        GPRegressor(linear=linear).fit(rng.normal(size=(9, 3)), rng.normal(size=9))


def test_the_search_sees_two_of_eight_inputs():
    """From the medians of the prior it ended where all is noise, 131 nats below."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (150, 8))
    y = np.sin(5 * X[:, 3]) * (X[:, 1] > 0) + 0.1 * rng.standard_normal(150)
    found = GPRegressor().fit(X, y)
    best = GPRegressor(n_restarts=2, random_state=0).fit(X, y)
    assert found.log_evidence_ > best.log_evidence_ - 0.5
    assert set(np.argsort(found.lengthscales_)[:2]) == {1, 3}
