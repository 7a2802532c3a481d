"""ReducedRankGPRegressor: the posterior by its definition, its support, updates, limits."""

import functools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from forecast_unc import Forecaster, GPRegressor, ReducedRankGPRegressor, datasets
from forecast_unc.regression.reduced_rank import support
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import JITTER
from forecast_unc.regression.reduced_rank.support import CANDIDATES, GreedySupport, cluster_means
from tests import oracles
from tests.contract import failed_checks
from tests.members import rows_of

VARIANCES = ["corrected", "standard", "augmented"]
FIXED = {"lengthscales": [0.8, 9.0], "noise_std": 0.3}


def data(n=150, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2)) * [1.0, 10.0] + 5.0
    y = 4.0 * np.sin(X[:, 0]) + (X[:, 1] - 5.0) / 10.0 + 7.0
    return X, y + noise * rng.standard_normal(n)


NEW = np.array([[5.3, 8.0], [8.5, 40.0], [3.0, -10.0], [30.0, 5.0]])


def prior(gp, A, B, centers):
    """Prior covariances Q and K between the rows of A and B, from the definition."""
    off = getattr(gp.posterior_, "plain", gp.posterior_).input_offset
    A, B, U = A - off, B - off, centers - off
    lengths, a2 = gp.lengthscales_, gp.amplitude_**2
    K_uu = oracles.squared_exponential(U, U, lengths) + JITTER * np.eye(len(U))
    left, right = (oracles.squared_exponential(Z, U, lengths) for Z in (A, B))
    straight = (A * gp.linear_scale_**2) @ B.T + gp.bias_var
    Q = a2 * left @ np.linalg.solve(K_uu, right.T) + straight
    return Q, a2 * oracles.squared_exponential(A, B, lengths) + straight


def rest(gp, X, centers):
    """What counts as noise of each row: the prior variance left, with evidence and corrected."""
    if (gp.objective, gp.variance) != ("evidence", "corrected"):
        return np.zeros((len(X), len(X)))
    Q, K = prior(gp, X, X, centers)
    return np.diag(np.diagonal(K - Q))


def conditioned(gp, X, y, new, centers, corrected):
    """Mean and covariance of the function at new inputs, by Bayes' rule with (n, n) matrices."""
    Q, _ = prior(gp, X, X, centers)
    cross, _ = prior(gp, new, X, centers)
    there, full = prior(gp, new, new, centers)
    C = Q + gp.noise_std_**2 * np.eye(len(X)) + rest(gp, X, centers)
    mean = y.mean() + cross @ np.linalg.solve(C, y - y.mean())
    return mean, (full if corrected else there) - cross @ np.linalg.solve(C, cross.T)


X, Y = data()


def fitted(X, y, **settings):
    gp = ReducedRankGPRegressor(**{"n_support": 15, **settings}).fit(X, y)
    gp.bias_var = y.var() if gp.linear_scale_.any() else 0.0
    return gp


@functools.cache
def one_of(variance, objective="evidence", linear=True):
    return fitted(X, Y, variance=variance, objective=objective, linear=linear)


FITS = [
    ("corrected", "evidence", True),
    ("corrected", "bound", False),
    ("standard", "evidence", False),
    ("standard", "bound", True),
]


@pytest.mark.parametrize("settings", FITS, ids=str)
def test_prediction_and_evidence_are_their_definitions(settings):
    y, gp = Y, one_of(*settings)
    corrected = gp.variance == "corrected"
    mean, cov = conditioned(gp, X, y, NEW, gp.support_, corrected)
    found, std = gp.predict(NEW, return_std=True)
    # the definition loses the digits of the condition of K_uu, at most 1 / JITTER
    assert_allclose(found, mean, rtol=1e-6)
    assert_allclose(gp.posterior_.covariance(NEW), cov, rtol=1e-5, atol=1e-6 * cov.max())
    assert_allclose(std**2, np.diagonal(cov) + gp.noise_std_**2, rtol=1e-5)
    Q, K = prior(gp, X, X, gp.support_)
    noise_var = gp.noise_std_**2
    C = Q + noise_var * np.eye(len(X)) + rest(gp, X, gp.support_)
    expected = oracles.gp_log_evidence(y - y.mean(), C)
    if gp.objective == "bound":
        expected -= 0.5 * np.trace(K - Q) / noise_var
    assert_allclose(gp.log_evidence_, expected, rtol=1e-6)


@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
def test_augmented_prediction_is_that_with_the_input_among_the_centers(linear):
    y, gp = Y, one_of("augmented", linear=linear)
    found, std = gp.predict(NEW, return_std=True)
    for x, mean, one in zip(NEW[:, None], found, std, strict=True):
        grown = np.vstack([gp.support_, x])
        expected, cov = conditioned(gp, X, y, x, grown, corrected=False)
        assert_allclose(mean, expected[0], rtol=1e-5)
        # the definition has a center's jitter at x, which is no part of the function
        assert_allclose(one**2, cov[0, 0] + gp.noise_std_**2, rtol=1e-4)
    cov = gp.posterior_.covariance(NEW)
    assert_allclose(np.diagonal(cov), std**2 - gp.noise_std_**2, rtol=1e-6)


def test_with_all_rows_as_centers_it_is_the_exact_process():
    X, y = data(60)
    exact = GPRegressor(tol=1e-8).fit(X, y)
    for variance in VARIANCES:
        gp = ReducedRankGPRegressor(n_support=60, support="random", variance=variance, tol=1e-8)
        gp.fit(X, y)
        # the jitter is next to nothing beside the noise; two searches
        assert_allclose(gp.log_evidence_, exact.log_evidence_, atol=0.1)
        if variance != "standard":
            assert_allclose(gp.predict(NEW, True), exact.predict(NEW, True), rtol=0.01)
        assert_allclose(gp.predict(X[:5], True), exact.predict(X[:5], True), rtol=0.01)


def test_standard_collapses_away_from_the_centers_and_the_others_do_not():
    X, y = data()
    far = np.array([[60.0, 5.0]])
    settings = {"linear": False, "objective": "bound"}  # the same hyper-parameters for all
    gps = {v: fitted(X, y, variance=v, **settings) for v in VARIANCES}
    noise, amplitude = gps["standard"].noise_std_, gps["standard"].amplitude_
    _, std = gps["standard"].predict(far, return_std=True)
    assert_allclose(std, noise, rtol=1e-6)
    for cured in ("corrected", "augmented"):
        _, std = gps[cured].predict(far, return_std=True)
        assert_allclose(std, np.hypot(noise, amplitude), rtol=1e-6)
    # at a center there is nothing to correct
    center = gps["standard"].support_[:1]
    stds = [gps[v].predict(center, return_std=True)[1] for v in VARIANCES]
    assert_allclose(np.ravel(stds), stds[0][0], rtol=1e-2)


@pytest.mark.parametrize("variance", ["corrected", "standard"])
def test_moments_are_those_of_quadrature(variance):
    gp = one_of(variance, *(("bound",) if variance == "standard" else ()))
    mean, cov = np.array([4.5, 9.0]), np.array([[0.3, 0.5], [0.5, 20.0]])

    def predict(Z):
        return gp.predict(Z, return_std=True)

    first, var, cross = oracles.quadrature_moments(predict, mean, cov)
    found = gp.predict_uncertain(mean, cov)
    assert_allclose(found.mean, first, rtol=1e-7)
    assert_allclose(found.var, var, rtol=1e-6)
    assert_allclose(cov @ found.slope, cross, rtol=1e-6)


def test_augmented_slope_is_that_of_its_mean():
    gp = one_of("augmented")
    slopes = [oracles.finite_difference(lambda x: gp.predict(x[None])[0], x) for x in NEW]
    assert_allclose(gp.posterior_.gradient(NEW), slopes, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="'taylor' or 'monte_carlo'.*got 'exact'"):
        gp.predict_uncertain(NEW[0], np.eye(2))
    moments = gp.predict_uncertain(NEW[0], 1e-6 * np.eye(2), "taylor")
    _, std = gp.predict(NEW[:1], return_std=True)
    assert_allclose(moments.var, std[0] ** 2, rtol=1e-4)


# Updates


@pytest.mark.parametrize(
    ("variance", "objective"),
    [("corrected", "evidence"), ("augmented", "bound")],
)
def test_rows_one_by_one_give_what_all_of_them_give(variance, objective):
    X, y = data(200)
    gp = fitted(X[:150], y[:150], variance=variance, objective=objective)
    before = gp.predict(NEW, return_std=True)
    step = gp
    for n in range(151, 200, 7):
        step = step.condition(X[:n], y[:n])
    # n = 150, 151, 158, ..., 193, and the rest at once
    step = step.condition(X, y)
    shifted = gp.condition(X[::-1], y[::-1])  # in another order, so from nothing
    assert_allclose(step.predict(NEW, True), shifted.predict(NEW, True), rtol=1e-7)
    centers, offset = gp.support_, y[:150].mean()
    if variance == "corrected":
        shift = offset - y.mean()
        mean, cov = conditioned(gp, X, y - shift, NEW, centers, corrected=True)
        # the offset of the targets stays that of the fit
        C = prior(gp, X, X, centers)[0] + gp.noise_std_**2 * np.eye(200)
        C += rest(gp, X, centers)
        mean = offset + prior(gp, NEW, X, centers)[0] @ np.linalg.solve(C, y - offset)
        assert_allclose(step.predict(NEW), mean, rtol=1e-6)
        assert_allclose(step.posterior_.covariance(NEW), cov, rtol=1e-5, atol=1e-6 * cov.max())
    assert_allclose(gp.predict(NEW, return_std=True), before, rtol=1e-14)


def test_changed_targets_are_not_taken_for_those_held():
    X, y = data(60)
    gp = fitted(X[:50], y[:50])
    other = y + 1.0
    moved = gp.condition(X, other)
    fresh = gp.condition(X[::-1], other[::-1])
    assert_allclose(moved.predict(NEW), fresh.predict(NEW), rtol=1e-8)
    y[:50] += 5.0  # the caller's own array, after the fit
    assert_allclose(
        gp.condition(X, y).predict(NEW), gp.condition(X[::-1], y[::-1]).predict(NEW), rtol=1e-8
    )


@pytest.mark.parametrize("variance", ["corrected", "augmented"])
def test_leading_means_are_those_of_the_first_rows(variance):
    X, y = data(80)
    gp = fitted(X, y, variance=variance)
    counts = [40, 79, 55]
    means = gp.leading_means(X, y, counts)(NEW[:3])
    expected = [
        gp.condition(X[:n], y[:n]).predict(x[None])[0] for n, x in zip(counts, NEW[:3], strict=True)
    ]
    assert_allclose(means, expected, rtol=1e-8)


# Support


@pytest.mark.parametrize("objective", ["evidence", "bound"])
@pytest.mark.parametrize("p", [0, 3])
def test_the_cached_gains_are_those_of_the_definition(rng, objective, p):
    n, m, a, s = 90, 7, 1.3, 0.3
    Z = rng.normal(size=(n, 2))
    y = np.sin(2 * Z[:, 0]) + 0.3 * rng.standard_normal(n)
    linear = rng.normal(size=(n, p))
    greedy = GreedySupport(Z, y, linear, a, s, m + 1, objective)
    chosen = list(greedy.choose(m, np.random.default_rng(0)))
    assert len(set(chosen)) == m

    def value(rows):
        K = a**2 * oracles.squared_exponential(Z, Z[rows], np.ones(2))
        Q = K @ np.linalg.solve(K[rows] + JITTER * a**2 * np.eye(len(rows)), K.T)
        left = 0.5 * (n * a**2 - np.trace(Q)) / s**2 if objective == "bound" else 0.0
        return oracles.gp_log_evidence(y, Q + linear @ linear.T + s**2 * np.eye(n)) - left

    waiting = np.setdiff1d(np.arange(n), [*chosen, *np.delete(greedy._rows, greedy._free)])
    greedy._enter(waiting[: len(greedy._free)])
    gains, rows = greedy._gains(), greedy._rows
    expected = [value([*chosen, row]) - value(chosen) for row in rows]
    assert len(rows) == CANDIDATES
    if objective == "bound" or max(expected) > 0.0:
        assert_allclose(gains, expected, atol=1e-5 * abs(value(chosen)))


def test_where_nothing_gains_the_choice_spreads(rng):
    Z = rng.uniform(-5, 5, size=(200, 1))
    noise = rng.standard_normal(200)
    rows = GreedySupport(Z, noise, np.empty((200, 0)), 0.3, 1.0, 12, "evidence").choose(12, rng)
    gaps = np.diff(np.sort(np.concatenate([Z[rows, 0], [-5.0, 5.0]])))
    assert gaps.max() < 2.5


def test_a_gain_of_less_than_a_nat_decides(rng):
    Z, y = rng.uniform(-5, 5, size=(40, 1)), 1.2 * rng.standard_normal(40)
    K = 0.3**2 * oracles.squared_exponential(Z, Z, np.ones(1))
    gains = [
        oracles.gp_log_evidence(y, np.outer(k, k) / 0.3**2 + np.eye(40))
        - oracles.gp_log_evidence(y, np.eye(40))
        for k in K
    ]
    assert 0.1 < max(gains) < 0.9
    greedy = GreedySupport(Z, y, np.empty((40, 0)), 0.3, 1.0, 1, "evidence")
    assert greedy.choose(1, rng)[0] == np.argmax(gains)


@pytest.mark.parametrize("objective", ["bound", "evidence"])
def test_greedy_is_better_than_random_and_means(objective):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(3 * X[:, 2]) + 0.1 * rng.standard_normal(300)
    found = {
        support: ReducedRankGPRegressor(
            n_support=25, support=support, objective=objective, variance="standard"
        )
        .fit(X, y)
        .log_evidence_
        for support in ("greedy", "random", "kmeans")
    }
    assert found["greedy"] == max(found.values())


def test_means_of_clusters(rng):
    corners = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])
    Z = np.repeat(corners, 50, axis=0) + 0.1 * rng.standard_normal((200, 2))
    means = cluster_means(Z, 4, rng)
    expected = Z.reshape(4, 50, 2).mean(axis=1)
    order = np.lexsort(means.round().T[::-1])
    assert_allclose(means[order], expected, rtol=1e-10, atol=1e-12)
    assert_allclose(cluster_means(np.repeat(corners, 3, axis=0), 6, rng), corners)


@pytest.mark.parametrize("support", ["greedy", "random", "kmeans"])
def test_rows_that_repeat_are_no_trouble(support):
    X, y = data(6)
    gp = ReducedRankGPRegressor(n_support=12, support=support)
    gp.fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert np.isfinite(gp.predict(NEW, return_std=True)).all()


# The search


@pytest.mark.parametrize("objective", ["bound", "evidence"])
def test_the_fit_is_at_an_optimum(objective):
    X, y = data()
    gp = fitted(X, y, objective=objective, prior=None, tol=1e-6, support="random")
    assert gp.converged_
    for name, change in ((0, 1.05), (0, 0.95), ("noise", 1.05), ("noise", 0.95)):
        lengthscales, noise_std = gp.lengthscales_.copy(), gp.noise_std_
        if name == "noise":
            noise_std *= change
        else:
            lengthscales[name] *= change
        # the same rows at random, the others free
        other = fitted(
            X,
            y,
            objective=objective,
            prior=None,
            tol=1e-6,
            support="random",
            lengthscales=lengthscales,
            noise_std=noise_std,
        )
        assert other.log_evidence_ < gp.log_evidence_ + 1e-4


def test_units_change_nothing():
    y, plain = Y, one_of("corrected")
    other = fitted(X * [1e-3, 1e4] + 7.0, 1e3 * y - 5.0)
    # the search goes by differences of roundoff apart
    assert_allclose(other.lengthscales_, plain.lengthscales_ * [1e-3, 1e4], rtol=1e-3)
    mean, std = plain.predict(NEW, return_std=True)
    expected = 1e3 * mean - 5.0, 1e3 * std
    assert_allclose(other.predict(NEW * [1e-3, 1e4] + 7.0, True), expected, rtol=1e-3)


def test_what_is_given_is_kept():
    X, y = data()
    gp = fitted(X, y, **FIXED)
    assert_allclose(gp.lengthscales_, FIXED["lengthscales"])
    assert_allclose(gp.noise_std_, FIXED["noise_std"])


def test_weights_of_a_linear_prior_mean_are_added(rng):
    X, y = data()
    weights = np.array([0.7, -0.2])
    gp = fitted(X, y, linear=weights)
    line = (X - X.mean(axis=0)) @ weights
    plain = fitted(X, y - line, linear=False)
    for one in (gp, gp.condition(X[::-1], y[::-1])):
        mean, std = one.predict(NEW, return_std=True)
        expected, same = plain.predict(NEW, return_std=True)
        # two searches, which end within their tolerance
        assert_allclose(mean, expected + (NEW - X.mean(axis=0)) @ weights, rtol=1e-3)
        assert_allclose(std, same, rtol=1e-3)


def test_rows_beyond_those_for_the_choice_are_searched_on_in_the_end(monkeypatch):
    X, y = data(300)
    monkeypatch.setattr(support, "_SELECTION_ROWS", 80)
    gp = fitted(X, y, objective="evidence", support="greedy", linear=False)
    Q, _ = prior(gp, X, X, gp.support_)
    C = Q + gp.noise_std_**2 * np.eye(len(X)) + rest(gp, X, gp.support_)
    assert_allclose(gp.log_evidence_, oracles.gp_log_evidence(y - y.mean(), C), rtol=1e-6)
    assert (gp.support_[:, None] == X[None]).all(axis=2).any(axis=1).all()


def test_the_shrunk_prior_widens_like_students_t():
    X, y = data(12)
    gp = fitted(X, y, prior="shrunk", n_support=5)
    assert_allclose(gp.posterior_.noise_var, gp.noise_std_**2 * 11.0 / 9.0)


def test_a_fit_repeats_itself_and_leaves_its_data_alone():
    copies = X.copy(), Y.copy()
    again = fitted(X, Y, variance="augmented", objective="evidence", linear=True)
    assert_allclose(again.predict(NEW, True), one_of("augmented").predict(NEW, True), rtol=0)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(Y, copies[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"support": "best"}, "support must be one of 'greedy', 'random', 'kmeans'; got 'best'. "),
        ({"objective": "loss"}, "objective must be one of 'evidence', 'bound'; got 'loss'. "),
        ({"variance": "fitc"}, "variance must be one of 'corrected', .*; got 'fitc'. "),
        ({"prior": "flat"}, "prior must be one of 'weak', 'shrunk', None; got 'flat'. "),
        ({"n_support": 0}, "n_support must be a whole number, at least 1; got 0. "),
        ({"linear": [1.0]}, "linear must be True, False or 2 finite weights .*; got .*"),
        ({"tol": 0.0}, "tol must lie strictly between 0 and 1 nat; got 0.0. "),
        ({"lengthscales": -1.0}, "lengthscales must be positive, .*; got -1.0. "),
        ({"noise_std": 0.0}, "noise_std must be positive; got 0.0. "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_messages(settings, message):
    with pytest.raises(ValueError, match=message):
        ReducedRankGPRegressor(**settings).fit(*data(20))


def test_it_is_a_scikit_learn_estimator():
    given = ReducedRankGPRegressor(n_support=4, lengthscales=2.0, noise_std=0.3)
    assert failed_checks(given) == {}


# Forecasts


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(4)
    y = 10.0 + 2.0 * np.tanh(oracles.autoregression([1.2, -0.4], 130, rng))
    return pd.Series(y, pd.period_range("2000-01", periods=130, freq="M"))


def test_a_forecast_is_nearly_that_of_the_exact_process(series):
    gp = ReducedRankGPRegressor(n_support=40)
    ours = Forecaster(gp, lags=2).fit(series[:120]).forecast(8)
    exact = Forecaster(GPRegressor(), lags=2).fit(series[:120]).forecast(8)
    assert_allclose((ours.mean - exact.mean) / exact.std, 0.0, atol=0.1)
    assert_allclose(ours.std, exact.std, rtol=0.1)


def test_a_linear_part_that_runs_away_gives_way():
    y = datasets.make_mackey_glass(300)
    model = Forecaster(ReducedRankGPRegressor(n_support=20), lags=range(1, 9)).fit(y[:200])
    ahead = model.forecast(100)
    assert np.abs(ahead.mean - y.mean()).max() < 2.0 * (y.max() - y.min())


@pytest.mark.parametrize("variance", VARIANCES)
def test_paths_agree_with_the_closed_form(series, variance):
    gp = ReducedRankGPRegressor(n_support=20, variance=variance, lengthscales=3.0)
    model = Forecaster(gp, lags=2, random_state=0).fit(series[:120])
    closed = "taylor" if variance == "augmented" else "exact"
    ahead = model.forecast(3, propagation=closed)
    paths = model.forecast(3, propagation="monte_carlo", n_samples=4000, random_state=0)
    # six errors of 4000 paths, and what a step that bends leaves out
    assert_allclose((paths.mean - ahead.mean) / ahead.std, 0.0, atol=0.1 + 6 / np.sqrt(4000))
    assert_allclose(paths.std, ahead.std, rtol=0.1 + 6 / np.sqrt(8000))


def test_an_update_is_a_fit_with_the_same_hyper_parameters(series):
    model = Forecaster(ReducedRankGPRegressor(n_support=20), lags=2).fit(series[:120])
    held = model.models_[0].regressor
    model.update(series[120:])
    (updated,) = model.models_
    _, X, y = rows_of(updated)
    fresh = held.condition(X[::-1], y[::-1])
    assert_allclose(
        updated.regressor.posterior_.mean(X[-5:]), fresh.posterior_.mean(X[-5:]), rtol=1e-7
    )
    assert len(y) == 128


@pytest.mark.parametrize("support", ["greedy", "random", "kmeans"])
def test_no_center_comes_twice(support, rng):
    X = np.repeat(rng.normal(size=(6, 2)), 5, axis=0)
    y = X[:, 0] + 0.1 * rng.standard_normal(30)
    centers = ReducedRankGPRegressor(n_support=10, support=support).fit(X, y).support_
    assert len(centers) == len(np.unique(centers, axis=0)) <= 6


def test_a_search_begins_with_some_rows_but_where_an_earlier_one_ended(monkeypatch):
    kinds, maximize = [], support.maximize

    def noted(objective, *given, **more):
        kinds.append(type(objective._evidence).__name__)
        return maximize(objective, *given, **more)

    monkeypatch.setattr(support, "maximize", noted)
    y = datasets.load_nile()
    model = Forecaster(ReducedRankGPRegressor(n_support=8), lags=2).fit(y[:90])
    assert kinds[0] == "GaussianProcessEvidence"
    kinds.clear()
    model.refit(y)
    assert kinds
    assert "GaussianProcessEvidence" not in kinds
