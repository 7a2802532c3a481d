"""LinearRegressor: its evidence, its posterior, and forecasts with it."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.linear_model import Ridge

from forecast_unc import Forecaster, GPRegressor, LinearRegressor, datasets, load_model
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.linear import LinearPosterior, _factored
from tests.contract import failed_checks

PLACES = 6


def test_it_is_a_scikit_learn_estimator():
    assert failed_checks(LinearRegressor()) == {}


def data(n=40, seed=0):
    """Three lags, and a profile of six places: columns that are orthogonal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 3.0, 0.5] + [0.0, 20.0, -1.0]
    X = np.hstack([X, np.eye(PLACES)[np.arange(n) % PLACES]])
    y = X @ [0.5, -0.2, 1.0, *rng.normal(size=PLACES)] + 0.3 * rng.normal(size=n)
    return X, y + 5.0


GROUPS = (0, 0, 0) + (1,) * PLACES
FITS = [
    LinearRegressor(),
    LinearRegressor(groups=GROUPS),
    LinearRegressor(groups=GROUPS, bias="shrunk"),
]


def fit_id(model):
    return f"{1 if model.groups is None else 2} groups, bias {model.bias}"


@pytest.fixture(params=FITS, ids=fit_id)
def model(request):
    return request.param


def standardized(model, X, y):
    """Inputs in stds, and the prior precision of each; 1e-9 for a flat prior of the bias."""
    Z = np.column_stack([X / X.std(axis=0), np.ones(len(X))])
    groups = np.zeros(X.shape[1], int) if model.groups is None else np.array(model.groups)
    flat = model.bias == "free"
    bias = 1e-9 if flat else model.precisions_[-1]
    center = Z[:, :-1].mean(axis=0)
    if model.groups is not None and flat:  # the profile, which is orthogonal
        center[groups == 1] = 0.0
    Z[:, :-1] -= center
    return Z, np.append(model.precisions_[groups], bias)


def covariance(model, X, y):
    """Covariance of the targets over s^2."""
    Z, a = standardized(model, X, y)
    return np.eye(len(X)) + Z / a @ Z.T


def test_log_evidence_integrates_over_the_noise(model):
    X, y = data()
    model.fit(X, y)
    K, n = covariance(model, X, y), len(y)
    y = y - y.mean() if model.bias == "free" else y
    left, half_log_det = y @ np.linalg.solve(K, y), 0.5 * np.linalg.slogdet(K)[1]
    if model.bias == "shrunk":

        def density(log_s2):  # N(y | 0, s^2 K) / s^2 ds^2, over its largest value
            return np.exp(-0.5 * n * (log_s2 - np.log(left / n)) - 0.5 * left / np.exp(log_s2))

        middle = np.log(left / n)
        area, _ = quad(density, middle - 3.0, middle + 3.0, epsabs=0.0, epsrel=1e-12)
        expected = np.log(area) - 0.5 * n * np.log(2 * np.pi * left / n) - half_log_det
    else:  # the flat prior is N(0, s^2 / 1e-9) without its constant
        nu = n - 1
        expected = gammaln(nu / 2) - 0.5 * nu * np.log(np.pi * left) - half_log_det
        expected -= 0.5 * np.log(1e-9)
    np.testing.assert_allclose(model.log_evidence_, expected, rtol=1e-6)
    # the noise variance, left / chi^2 of nu degrees of freedom, has the mean left / (nu - 2)
    nu = n - (model.bias == "free")
    np.testing.assert_allclose(model.noise_std_**2, left / (nu - 2), rtol=1e-6)


def test_a_matrix_that_has_no_factor_leaves_those_of_the_others():
    good, bad = np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    found = _factored(np.array([good, bad, good]))
    np.testing.assert_allclose(found[[0, 2]], np.linalg.cholesky([good, good]))
    np.testing.assert_array_equal(np.diagonal(found[1]), np.inf)


def test_no_other_precisions_of_the_grid_have_more_evidence():
    X, y = data(25)
    best = LinearRegressor(groups=GROUPS).fit(X, y)
    assert best.converged_
    for factors in itertools.product((0.1, 10**-0.5, 1.0, 10**0.5, 10.0), repeat=2):
        other = LinearRegressor(groups=GROUPS).fit(X, y)
        other.precisions_ = best.precisions_ * factors
        K, z = covariance(other, X, y), y - y.mean()
        value = -0.5 * np.linalg.slogdet(K)[1]
        value -= 0.5 * (len(y) - 1) * np.log(z @ np.linalg.solve(K, z))
        K = covariance(best, X, y)
        most = -0.5 * np.linalg.slogdet(K)[1]
        most -= 0.5 * (len(y) - 1) * np.log(z @ np.linalg.solve(K, z))
        assert value <= most + 1e-6


def test_weights_are_those_of_ridge_regression():
    X, y = data()
    for groups, bias in ((None, "free"), (None, "shrunk")):
        model = LinearRegressor(groups=groups, bias=bias).fit(X, y)
        Z, a = standardized(model, X, y)
        center = y.mean() if bias == "free" else 0.0
        root = np.sqrt(a)  # ridge with a common penalty of 1, of inputs over their roots
        w = (
            Ridge(1.0, fit_intercept=False, solver="cholesky").fit(Z / root, y - center).coef_
            / root
        )
        np.testing.assert_allclose(model.coef_, w[:-1] / X.std(axis=0), rtol=1e-6)


def test_an_orthogonal_group_is_eliminated_without_a_change():
    """With a column that is not quite orthogonal it is not eliminated, and nearly the same."""
    X, y = data()
    plain = LinearRegressor(groups=GROUPS).fit(X, y)
    off = X.copy()
    off[0, -1] = 1e-9
    other = LinearRegressor(groups=GROUPS).fit(off, y)
    np.testing.assert_allclose(other.predict(X), plain.predict(X), rtol=1e-6)
    np.testing.assert_allclose(other.log_evidence_, plain.log_evidence_, rtol=1e-6)


def test_a_group_that_explains_nothing_gets_no_weight(rng):
    X = rng.normal(size=(400, 8))
    y = X[:, :4] @ [1.0, -1.0, 0.5, 2.0] + rng.normal(size=400)
    model = LinearRegressor(groups=[0] * 4 + [1] * 4).fit(X, y)
    assert model.precisions_[1] > 100 * model.precisions_[0]
    assert np.abs(model.coef_[4:]).max() < 0.1
    assert model.noise_std_ == pytest.approx(1.0, rel=0.1)


# The posterior


def as_kernel_posterior(posterior):
    """Another implementation: a kernel posterior without kernels."""
    d = len(posterior.input_offset)
    return KernelPosterior(
        centers=np.empty((0, d)),
        lengthscales=np.ones(d),
        weights=posterior.weights,
        factors=(Factor(1, np.asfortranarray(posterior.chol), 0.0, np.diag(posterior.scale)),),
        linear_var=np.zeros(d + 1),
        kernel_var=0.0,
        noise_var=posterior.noise_var,
        input_offset=posterior.input_offset,
        output_offset=posterior.output_offset,
    )


@pytest.fixture(scope="module")
def posteriors():
    X, y = data()
    posterior = LinearRegressor(groups=GROUPS).fit(X, y).posterior_.plus_input(1)
    return posterior, as_kernel_posterior(posterior)


def inputs(rng, rank):
    root = rng.normal(size=(3 + PLACES, rank))
    root[4:] = 0.0  # a profile is known
    return data(1)[0][0] + rng.normal(size=3 + PLACES), root @ root.T


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_moments_are_those_of_a_posterior_without_kernels(posteriors, rank, rng):
    ours, other = posteriors
    mean, cov = inputs(rng, rank)
    for method in ("moments", "taylor_moments"):
        a, b = getattr(ours, method)(mean, cov), getattr(other, method)(mean, cov)
        np.testing.assert_allclose([a.mean, a.var, *a.slope], [b.mean, b.var, *b.slope], rtol=1e-9)


def test_moments_are_those_of_monte_carlo(posteriors):
    ours, _ = posteriors
    rng = np.random.default_rng(3)
    mean, cov = inputs(rng, 3)
    X = rng.multivariate_normal(mean, cov, size=200_000)
    y = ours.function_sample(len(X), rng)(X) + np.sqrt(ours.noise_var) * rng.normal(size=len(X))
    moments = ours.moments(mean, cov)
    assert y.mean() == pytest.approx(moments.mean, abs=4 * y.std() / np.sqrt(len(y)))
    assert y.var() == pytest.approx(moments.var, rel=0.02)
    np.testing.assert_allclose(np.cov(X.T, y)[:3, -1], (cov @ moments.slope)[:3], rtol=0.05)


def test_covariances_along_paths_are_those_between_rows(posteriors, rng):
    ours, other = posteriors
    X = data(12, seed=1)[0]
    cov = ours.covariance(X)
    np.testing.assert_allclose(cov, other.covariance(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.predict(X), other.predict(X), rtol=1e-9)
    np.testing.assert_allclose(ours.gradient(X), other.gradient(X), rtol=1e-12)
    path = ours.function_path(6, 2)
    for t in range(6):
        mean, found = path.append(X[[t, t + 6]])
        np.testing.assert_allclose(mean, ours.mean(X[[t, t + 6]]))
        np.testing.assert_allclose(found, np.array([cov[: t + 1, t], cov[6 : t + 7, t + 6]]).T)
    path = ours.function_path(2, 2)
    path.append(X[:2])
    path.take(np.array([1, 1]))
    np.testing.assert_allclose(path.append(X[[2, 3]])[1][0], cov[1, [2, 3]])


def test_functions_drawn_have_its_mean_and_covariance(posteriors, rng):
    ours, _ = posteriors
    x = data(2, seed=2)[0]
    draw = ours.function_sample(20_000, rng)
    values = np.array([draw(np.tile(one, (20_000, 1))) for one in x])
    cov = ours.covariance(x)
    np.testing.assert_allclose(values.mean(axis=1), ours.mean(x), atol=5 * np.sqrt(cov.max() / 2e4))
    np.testing.assert_allclose(np.cov(values), cov, atol=0.05 * cov.max())


def test_an_input_may_be_added_to_what_is_predicted(model):
    X, y = data()
    posterior = model.fit(X, y).posterior_
    mean, var = posterior.predict(X)
    found = posterior.plus_input(1).predict(X)
    np.testing.assert_allclose(found, [mean + X[:, 1], var], rtol=1e-12)


def test_leading_means_are_those_of_the_first_rows(model):
    X, y = data(60)
    model.fit(X, y)
    counts = [20, 41, 20, 60]
    expected = [model.condition(X[:n], y[:n]).posterior_.mean(X[[n - 1]])[0] for n in counts]
    found = model.leading_means(X, y, counts)(X[[n - 1 for n in counts]])
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_units_of_the_target_change_nothing_else(shift, factor):
    X, y = data()
    plain = LinearRegressor(groups=GROUPS).fit(X, y)
    other = LinearRegressor(groups=GROUPS).fit(X * [1, 2, 3, *[1] * PLACES], shift + factor * y)
    mean, std = plain.predict(X, return_std=True)
    found = other.predict(X * [1, 2, 3, *[1] * PLACES], return_std=True)
    size = factor * np.abs(mean).max() + abs(shift)
    np.testing.assert_allclose(found[0], shift + factor * mean, rtol=1e-6, atol=1e-9 * size)
    np.testing.assert_allclose(found[1], factor * std, rtol=1e-5)


def test_inputs_may_be_far_from_zero(model):
    """With a shrunk bias that is at the mean input, and the noise is measured by the std of y."""
    X, y = data()
    far = X + np.array([1e5] * 3 + [0.0] * PLACES)
    plain, other = clone(model).fit(X, y), clone(model).fit(far, y)
    np.testing.assert_allclose(other.predict(far), plain.predict(X), rtol=1e-6)
    assert other.noise_std_ == pytest.approx(plain.noise_std_, rel=1e-6)
    shifted = clone(model).fit(X, y + 1e3)
    assert shifted.noise_std_ == pytest.approx(plain.noise_std_, rel=0.05)


def test_a_search_over_many_groups_ends_where_none_gains(rng):
    X = np.hstack([rng.normal(size=(90, 40)), np.eye(PLACES)[np.arange(90) % PLACES]])
    groups = (*range(30), *np.repeat(range(30, 35), 2), *[35] * PLACES)
    y = X @ (rng.normal(size=X.shape[1]) * (np.arange(X.shape[1]) % 3 == 0)) + rng.normal(size=90)
    many = LinearRegressor(groups=groups).fit(X, y)
    again = LinearRegressor(groups=groups).fit_near(X, y, many.precisions_)
    np.testing.assert_array_equal(many.precisions_, again.precisions_)
    np.testing.assert_allclose(many.log_evidence_, again.log_evidence_, rtol=1e-9)
    assert again.n_iter_ == 1


def test_groups_that_cancel_are_found(rng):
    """From little weight alone the search ends 120 nats below, at noise without a signal."""
    common, own = 100.0 * rng.normal(size=50), rng.normal(size=50)
    X = np.column_stack([common + own, common])
    y = own + 0.1 * rng.normal(size=50)
    model = LinearRegressor(groups=[0, 1]).fit(X, y)
    assert model.noise_std_ == pytest.approx(0.1, rel=0.3)
    np.testing.assert_allclose(model.coef_, [1.0, -1.0], atol=0.1)


def test_what_the_data_do_not_tell_is_not_chosen_by_roundoff():
    """Two rows and a free bias have the same evidence under any precision."""
    model = LinearRegressor().fit([[1.0], [2.0]], [1.0, 2.0])
    assert model.precisions_ == [1.0]
    for value in (0.1, 3.0, 1e9 + 0.1):
        flat = LinearRegressor().fit(np.arange(20.0)[:, None], np.full(20, value))
        assert flat.noise_std_ == pytest.approx(1e-4 * value)


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_units_of_any_size(unit):
    X, y = data()
    plain = LinearRegressor(groups=GROUPS).fit(X, y)
    other = LinearRegressor(groups=GROUPS).fit(X, unit * y)
    assert other.noise_std_ == pytest.approx(unit * plain.noise_std_, rel=1e-6)


def test_a_straight_line_without_noise_keeps_a_positive_variance():
    X = np.arange(30.0)[:, None]
    mean, std = LinearRegressor().fit(X, 2.0 * X[:, 0] + 1.0).predict([[40.0]], return_std=True)
    assert mean[0] == pytest.approx(81.0, rel=1e-3)
    assert 0.0 < std[0] < 0.1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"groups": [0, 1]}, "groups must be 9 whole numbers from 0 on, one an input; got"),
        ({"groups": [0.5] * 9}, "groups must be 9 whole numbers"),
        ({"groups": [-1] + [0] * 8}, "groups must be 9 whole numbers"),
        ({"bias": None}, "bias must be one of 'free', 'shrunk'; got None. Use 'free' if unsure."),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearRegressor(**parameters).fit(*data())


# Forecasts


def autoregression(n=200):
    rng = np.random.default_rng(4)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 0.6 * y[t - 1] + 0.3 * y[t - 2] + rng.normal()
    return pd.Series(y, pd.period_range("2001-01", periods=n, freq="M"))


def test_a_forecast_with_nearly_known_weights_is_that_of_the_autoregression():
    y = autoregression(3000)
    model = Forecaster(LinearRegressor(), lags=2).fit(y)
    weights = model.models_[0].regressor.coef_
    psi = [1.0]
    for _ in range(7):
        psi.append(weights @ np.append(psi[::-1], 0.0)[:2])
    std = np.sqrt(np.cumsum(np.square(psi))) * model.models_[0].regressor.noise_std_
    np.testing.assert_allclose(model.forecast(8).std, y.std(ddof=0) * std, rtol=0.01)


def test_the_forecast_is_that_of_paths_of_the_model():
    found = Forecaster(LinearRegressor(), lags=(1, 2, 12), differences=1).fit(autoregression(80))
    check = found.forecast(12, propagation="exact").check(4000, random_state=0)
    assert check.verdict == "exact"


def test_it_is_near_the_process_that_has_nothing_but_a_linear_part():
    """A Gaussian process whose kernel has no amplitude to speak of is this model."""
    y = autoregression()
    linear = Forecaster(LinearRegressor(), lags=2).fit(y).forecast(12)
    process = Forecaster(GPRegressor(), lags=2).fit(y).forecast(12)
    np.testing.assert_allclose(linear.mean, process.mean, atol=0.3)
    np.testing.assert_allclose(linear.std, process.std, rtol=0.1)


def test_updates_and_files_keep_what_was_learned(tmp_path):
    y = datasets.load_co2()
    model = Forecaster(LinearRegressor(), lags=(1, 12), differences=12).fit(y[:-12])
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    pd.testing.assert_series_equal(again.forecast(6).std, model.forecast(6).std, rtol=1e-9)
    after = model.update(y[-12:])
    assert isinstance(after.models_[0].regressor.posterior_, LinearPosterior)
    assert after.models_[0].regressor.noise_std_ == again.models_[0].regressor.noise_std_
    X = np.array([[0.1, 0.2]])
    assert after.models_[0].regressor.predict(X) != again.models_[0].regressor.predict(X)


def test_a_shrunk_bias_is_that_at_the_mean_input_of_columns_apart_too():
    """A shift of such columns by 1e-10 moved a prediction from 0 to 2.5."""
    rng = np.random.default_rng(6)
    X = np.zeros((6, 2))
    X[:3, 0], X[3:, 1] = 3 + 0.3 * rng.normal(size=(2, 3))
    y = X @ [2.0, 2.0] + 0.5 * rng.normal(size=6) - 6.0
    for shift in (0.0, 1e-10, 1.0):
        model = LinearRegressor(bias="shrunk").fit(X + shift, y)
        found = model.predict(np.array([[4.0, 0.0]]) + shift, return_std=True)
        if not shift:
            expected = found
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_weights_without_their_own_prior_are_those_of_a_flat_one(rng):
    """By the normal equations, the precisions of the others as they are."""
    X = rng.standard_normal((60, 4)) @ np.diag([1.0, 3.0, 0.2, 1.0])
    y = X @ [0.2, 0.0, 1.0, 1.0] + rng.standard_normal(60)
    model = LinearRegressor(groups=[0, 1, 2, 2]).fit(X, y)
    means, variances = model.without_prior()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    prior = np.diag(model.precisions_[[0, 1, 2, 2]])
    inverse = np.linalg.inv(Z.T @ Z + prior)
    np.testing.assert_allclose(model.determined().sum(), np.trace(inverse @ Z.T @ Z), rtol=1e-6)
    for j in range(4):
        flat = prior.copy()
        flat[j, j] = 0.0
        alone = np.linalg.inv(Z.T @ Z + flat)
        unit = 1.0 / X[:, j].std()
        np.testing.assert_allclose(means[j], unit * (alone @ Z.T @ (y - y.mean()))[j], rtol=1e-6)
        np.testing.assert_allclose(
            variances[j], unit**2 * model.noise_std_**2 * alone[j, j], rtol=1e-6
        )


def test_a_fit_near_precisions_ends_where_a_fit_does(rng):
    X = rng.standard_normal((80, 30))
    y = X[:, 0] - X[:, 3] + rng.standard_normal(80)
    plain = LinearRegressor(groups=np.arange(30)).fit(X, y)
    near = LinearRegressor(groups=np.arange(30)).fit_near(X, y, plain.precisions_)
    assert near.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-4)
    assert near.n_iter_ == 1
    np.testing.assert_allclose(near.coef_, plain.coef_, rtol=1e-6, atol=1e-9)
