"""RVMRegressor: predictions, exact moments, RVM*, invariances, messages."""

import functools
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.model_selection import ShuffleSplit

from forecast_unc import datasets, scores
from forecast_unc.regression.rvm.rvm import RVMRegressor, _Training
from forecast_unc.regression.rvm.sparse_evidence import NoisePrior, best_precisions
from tests import oracles_rvm as oracles
from tests.contract import failed_checks

SETTINGS = [
    {},
    {"algorithm": "em", "max_iter": 300},
    {"algorithm": "mackay"},
    {"algorithm": "gradient"},
    {"algorithm": "subspace_em", "budget": 30},
    {"prior": "shared"},
    {"adapt_lengthscales": True},
    {"linear": True},
    {"bias": False, "linear": True},
    {"noise_std": 0.5},
]


def data(n=60, d=2, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, d)) * np.array([1.0, 10.0])[:d] + 5.0
    y = 4.0 * np.sin(X[:, 0]) + (X[:, -1] - 5.0) / 10.0 + 7.0
    return X, y + noise * rng.standard_normal(n)


X, Y = data()


@functools.cache
def of(settings):
    return RVMRegressor(**dict(settings)).fit(X, Y)


def fitted(**settings):
    """Fits of X and Y, once."""
    return of(tuple(settings.items()))


def standardized(rvm, X, y):
    """Inputs, targets, active design and evidence constant, from public attributes alone."""
    Z, scale = (X - X.mean(axis=0)) / X.std(axis=0), y.std()
    lengthscales = rvm.lengthscales_ / X.std(axis=0)
    columns = [oracles.kernel(Z, Z, lengthscales)]
    if rvm.linear:
        columns.append(Z)
    if rvm.bias:
        columns.append(np.ones((len(Z), 1)))
    Phi = np.hstack(columns)[:, rvm.active_]
    return Z, (y - y.mean()) / scale, Phi, scale


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_evidence_and_prediction_are_those_of_the_textbook(settings):
    rvm = fitted(**settings)
    _, t, Phi, scale = standardized(rvm, X, Y)
    noise_var = (rvm.noise_std_ / scale) ** 2
    expected = oracles.log_evidence(Phi, t, rvm.alpha_, noise_var)
    assert_allclose(rvm.log_evidence_, expected - len(Y) * np.log(scale), rtol=1e-9)
    mean, std = rvm.predict(X[:5], return_std=True)
    for i in range(5):
        expected = oracles.weight_space_prediction(Phi, t, rvm.alpha_, noise_var, Phi[i])
        assert_allclose(mean[i], Y.mean() + scale * expected.mean, rtol=1e-8)
        assert_allclose(std[i], scale * np.sqrt(expected.var), rtol=1e-8)


def quadrature(rvm, mean, cov, nodes=60):
    """Moments of an observation by Gauss-Hermite on the model's own predictions."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    root = np.linalg.cholesky(cov)
    grid = np.stack(np.meshgrid(*[z] * len(mean), indexing="ij"), axis=-1).reshape(-1, len(mean))
    weight = np.prod(np.stack(np.meshgrid(*[w] * len(mean), indexing="ij"), axis=-1), axis=-1)
    weight = weight.ravel() / weight.sum()
    X = mean + grid @ root.T
    mu, std = rvm.predict(X, return_std=True)
    m = weight @ mu
    slope = np.linalg.solve(cov, (X - mean).T @ (weight * mu))
    return m, weight @ (std**2 + mu**2) - m**2, slope


@pytest.mark.parametrize(
    ("settings", "noise"),
    [({}, 0.3), ({"linear": True}, 1e-3), ({"prior": "shared"}, 0.3)],
    ids=str,
)
def test_exact_moments_are_the_quadrature(settings, noise):
    X, y = data(noise=noise)
    rvm = RVMRegressor(**settings).fit(X, y)
    cov = np.array([[0.5, 1.0], [1.0, 9.0]])
    for mean in (np.array([5.5, 9.0]), np.array([11.0, -40.0])):
        got = rvm.predict_uncertain(mean, cov)
        m, var, slope = quadrature(rvm, mean, cov)
        assert_allclose(got.mean, m, rtol=1e-8)
        assert_allclose(got.var, var, rtol=1e-7 if noise < 0.1 else 1e-8)
        assert_allclose(got.slope, slope, rtol=1e-7, atol=1e-9)


def test_certain_inputs_give_the_plain_prediction():
    rvm = fitted()
    mean, std = rvm.predict(X[:1], return_std=True)
    got = rvm.predict_uncertain(X[0], np.zeros((2, 2)))
    assert_allclose([got.mean, np.sqrt(got.var)], [mean[0], std[0]], rtol=1e-12)


def test_far_from_the_data_a_plain_rvm_is_certain_and_an_augmented_one_is_not():
    X, y = data(30, d=1)
    far = [[1e4]]
    plain = RVMRegressor(bias=False).fit(X, y)
    _, std = plain.predict(far, return_std=True)
    assert_allclose(std[0], plain.noise_std_, rtol=1e-10)
    _, std = RVMRegressor(bias=False, variance="augmented").fit(X, y).predict(far, return_std=True)
    assert_allclose(std[0] ** 2, y.var(), rtol=1e-10)  # signal variance plus noise


def test_augmented_prior_variance_is_at_least_that_of_the_noise():
    X, y = data(d=1)
    noise = 2.0 * y.std()
    rvm = RVMRegressor(bias=False, variance="augmented", noise_std=noise).fit(X, y)
    _, std = rvm.predict([[1e4]], return_std=True)
    assert_allclose(std[0] ** 2, 2.0 * noise**2, rtol=1e-10)


@pytest.mark.parametrize("linear", [False, True])
def test_augmented_prediction_is_direct_augmentation(linear):
    """The posterior of the m + 1 weights with the basis at the test input in the design."""
    rvm = fitted(variance="augmented", linear=linear)
    Z, t, Phi, scale = standardized(rvm, X, Y)
    noise_var = (rvm.noise_std_ / scale) ** 2
    tests = np.array([[5.3, 8.0], [8.5, 40.0], [20.0, 0.0], X[rvm.relevance_[0]]])
    mean, std = rvm.predict(tests, return_std=True)
    lengthscales = rvm.lengthscales_ / X.std(axis=0)
    precision = 1.0 / (1.0 - noise_var)
    for i, z in enumerate((tests - X.mean(axis=0)) / X.std(axis=0)):
        own = oracles.kernel(Z, z[None], lengthscales)
        at = [oracles.kernel(Z, z[None], lengthscales)[:, 0], z, np.ones(1)]
        full = np.concatenate([part for part, used in zip(at, (1, linear, 1), strict=True) if used])
        features = np.append(full[rvm.active_], 1.0)
        expected = oracles.weight_space_prediction(
            np.hstack([Phi, own]), t, np.append(rvm.alpha_, precision), noise_var, features
        )
        assert_allclose(mean[i], Y.mean() + scale * expected.mean, rtol=1e-10)
        assert_allclose(std[i] ** 2, scale**2 * expected.var, rtol=1e-10)


def test_augmented_has_no_closed_form_and_says_what_works():
    rvm = fitted(variance="augmented", linear=False)
    with pytest.raises(
        ValueError, match="propagation must be 'taylor' or 'monte_carlo'.*got 'exact'"
    ):
        rvm.predict_uncertain(X[0], np.eye(2))


@pytest.mark.parametrize("linear", [False, True])
def test_augmented_gradient_and_taylor_are_right(linear):
    rvm = fitted(variance="augmented", linear=linear)
    x, h = np.array([[7.0, 12.0]]), 1e-4
    steps = h * np.eye(2)
    expected = [(rvm.predict(x + s) - rvm.predict(x - s))[0] / (2 * h) for s in steps]
    assert_allclose(rvm.posterior_.gradient(x)[0], expected, rtol=1e-6)
    cov = 1e-4 * np.array([[0.5, 1.0], [1.0, 9.0]])
    taylor = rvm.predict_uncertain(x[0], cov, "taylor")
    _, var, slope = quadrature(rvm, x[0], cov, nodes=10)
    mean, std = rvm.predict(x, return_std=True)
    # what is left is of second order in cov: far smaller than what the covariance changes
    assert_allclose(taylor.mean, mean[0], rtol=1e-12)
    assert_allclose(taylor.var - std[0] ** 2, var - std[0] ** 2, rtol=1e-3)
    assert_allclose(taylor.slope, slope, rtol=1e-2)


def test_augmented_monte_carlo_is_the_quadrature():
    rvm = fitted(variance="augmented", linear=False)
    mean, cov = np.array([6.0, 10.0]), np.array([[0.1, 0.1], [0.1, 4.0]])
    got = rvm.predict_uncertain(mean, cov, "monte_carlo", n_samples=20000, random_state=0)
    m, var, slope = quadrature(rvm, mean, cov)
    assert_allclose(got.mean, m, rtol=0.01)
    assert_allclose(got.var, var, rtol=0.05)
    assert_allclose(got.slope, slope, rtol=0.05, atol=0.01)


def test_augmented_covariance_has_the_variances_on_its_diagonal():
    posterior = fitted(variance="augmented", linear=False).posterior_
    cov = posterior.covariance(X[:8])
    _, var = posterior.predict(X[:8])
    assert_allclose(np.diagonal(cov), var - posterior.noise_var, rtol=1e-8)
    assert np.linalg.eigvalsh(cov)[0] > 0


@pytest.mark.parametrize(("shift", "y_scale", "x_scale"), [(-40.0, 1e-3, 1e5), (3.0, 1e4, 1e-3)])
def test_units_change_nothing(shift, y_scale, x_scale):
    y, plain = Y, fitted()
    other = RVMRegressor().fit(X * x_scale + shift, shift + y_scale * y)
    assert abs(other.n_relevance_ - plain.n_relevance_) <= 1  # a basis of next to no weight
    assert_allclose(other.lengthscales_, plain.lengthscales_ * x_scale, rtol=1e-6)
    assert_allclose(other.noise_std_, plain.noise_std_ * y_scale, rtol=1e-4)
    assert_allclose(other.log_evidence_, plain.log_evidence_ - len(y) * np.log(y_scale), atol=1e-3)
    mean, std = plain.predict(X, return_std=True)
    other_mean, other_std = other.predict(X * x_scale + shift, return_std=True)
    assert_allclose(other_mean, shift + y_scale * mean, atol=1e-3 * y_scale)
    assert_allclose(other_std, y_scale * std, rtol=1e-3)


@pytest.mark.parametrize("prior", ["individual", "smooth"])
@pytest.mark.parametrize("algorithm", ["sequential", "em", "mackay", "gradient", "subspace_em"])
def test_every_trainer_ends_where_no_single_change_of_a_basis_gains(algorithm, prior):
    """By the definition of sparsity and quality, of all candidates."""
    X, y = data(n=40, seed=3)
    rvm = RVMRegressor(algorithm=algorithm, prior=prior).fit(X, y)
    assert rvm.converged_
    Z, scale = (X - X.mean(axis=0)) / X.std(axis=0), y.std()
    Phi = np.column_stack([oracles.kernel(Z, Z, rvm.lengthscales_ / X.std(axis=0)), np.ones(40)])
    alpha, noise_var = np.full(41, np.inf), (rvm.noise_std_ / scale) ** 2
    alpha[rvm.active_] = rvm.alpha_
    s, q = oracles.sparsity_and_quality(Phi, (y - y.mean()) / scale, alpha, noise_var)
    charge = 0.5 * np.log(40) if prior == "smooth" else 0.0
    best, gain = best_precisions(s, q, noise_var / (Phi**2).sum(axis=0), charge)
    inside = np.isfinite(alpha)
    assert gain[~inside].max() < 1e-4
    assert (gain[inside] > 0).all()
    assert_allclose(alpha[inside], best[inside], rtol=1e-3)


def test_a_budget_holds_to_the_end():
    assert len(RVMRegressor(algorithm="subspace_em", budget=3).fit(X, Y).active_) <= 3


def test_more_restarts_are_never_worse():
    X, y = data(n=50, noise=0.5)
    fits = [RVMRegressor(algorithm="mackay", n_restarts=k).fit(X, y) for k in (0, 1, 3)]
    assert (np.diff([fit.log_evidence_ for fit in fits]) > -0.05).all()


def test_adapted_lengthscales_ignore_an_input_without_influence():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.standard_normal(60)
    fixed = RVMRegressor(prior="individual").fit(X, y)
    adapted = RVMRegressor(prior="individual", adapt_lengthscales=True).fit(X, y)
    assert adapted.log_evidence_ > fixed.log_evidence_ + 10
    assert adapted.lengthscales_[1] > 5 * adapted.lengthscales_[0]


def lagged_mackey_glass(n, n_test, ahead=6, lags=16):
    """Rows of 16 lags without noise, the value 6 steps later, and its standard deviation."""
    series = np.asarray(datasets.make_mackey_glass(n + n_test + lags + ahead - 1))
    rows = len(series) - lags - ahead + 1
    X = np.column_stack([series[lags - 1 - j :][:rows] for j in range(lags)])
    return X, series[lags - 1 + ahead :], series.std()


@pytest.mark.slow
def test_adapted_lengthscales_cut_the_error_fivefold():
    """Mackey-Glass without noise, as Quinonero-Candela & Hansen (2002), with fewer rows."""
    n = 200
    X, y, _ = lagged_mackey_glass(n, 500)

    def error(**settings):
        rvm = RVMRegressor(prior="individual", **settings).fit(X[:n], y[:n])
        return np.mean((rvm.predict(X[n:]) - y[n:]) ** 2)

    fixed = error(lengthscales=1.0)
    assert fixed > 5 * error(lengthscales=1.0, adapt_lengthscales=True)
    assert fixed > 5 * error(adapt_lengthscales=True)


@pytest.mark.parametrize("split", [4, pytest.param(7, marks=pytest.mark.slow)])
def test_adapted_lengthscales_do_not_give_every_row_a_basis_of_its_own(split):
    """12 inputs, 160 rows: the evidence alone prefers 150 bases and no noise, an NLPD of 1e7."""
    wine = load_wine().data
    splits = ShuffleSplit(10, test_size=0.1, random_state=0).split(wine)
    train, test = next(itertools.islice(splits, split, None))
    nlpd = []
    for adapt in (False, True):
        rvm = RVMRegressor(adapt_lengthscales=adapt).fit(wine[train, 1:], wine[train, 0])
        mean, std = rvm.predict(wine[test, 1:], return_std=True)
        nlpd.append(scores.nlpd(wine[test, 0], mean, std).mean())
    assert rvm.n_relevance_ < 50
    assert nlpd[1] < nlpd[0] + 0.3


def test_fits_are_compared_by_their_evidence_and_both_priors(rng):
    """Of the noise, and of length-scales: log-normal, of std 1.5 around their centers."""
    Z, center = rng.standard_normal((20, 2)), np.array([1.0, 2.0])
    noise = NoisePrior(median=0.1, log_std=1.5, floor=1e-4, ceiling=10.0)
    training = _Training(RVMRegressor(), Z, np.sin(2.0 * Z[:, 0]), center, noise, rng)
    fit = training._fit([0.5, 3.0] * center, 0, None, 0)
    of_noise = noise.terms(np.log(fit.model.noise_var))[0]
    of_lengthscales = -0.5 * np.sum((np.log([0.5, 3.0]) / 1.5) ** 2)
    assert fit.objective == pytest.approx(fit.log_evidence + of_noise + of_lengthscales)


def test_restarts_begin_with_other_lengthscales():
    X, y, _ = lagged_mackey_glass(60, 0)
    plain = {"prior": "individual", "adapt_lengthscales": True}
    fits = [RVMRegressor(**plain, n_restarts=k).fit(X, y) for k in (0, 1)]
    assert fits[1].log_evidence_ > fits[0].log_evidence_ + 1.0


def test_conditioning_on_the_same_data_changes_nothing():
    rvm = fitted()
    before = rvm.predict(X, return_std=True)
    assert_allclose(rvm.condition(X, Y).predict(X, return_std=True), before, rtol=1e-12)
    more = np.vstack([X, X]), np.append(Y, Y)
    assert (rvm.condition(*more).predict(X, return_std=True)[1] < before[1]).all()


@pytest.mark.parametrize("variance", ["standard", "augmented"])
def test_constant_targets_are_predicted_with_a_noise_of_their_size(variance):
    rvm = RVMRegressor(variance=variance).fit(X, np.full(len(X), 3e-6))
    assert_allclose(rvm.predict(X), 3e-6)
    assert rvm.n_relevance_ == 0
    assert 3e-10 <= rvm.noise_std_ < 3.3e-10


def test_a_single_row_has_a_noise_of_its_size():
    one, other = (RVMRegressor().fit(X[:1], [y]) for y in (-5e4, 1.0))
    assert one.predict(X)[0] == pytest.approx(-5e4)
    assert one.noise_std_ == pytest.approx(5e4 * other.noise_std_)


@pytest.mark.parametrize("prior", ["individual", "smooth", "shared"])
def test_a_fixed_noise_below_the_digits_is_refused(prior):
    """At 1e-6 std of y means with the shared prior were wrong by three stds."""
    with pytest.raises(ValueError, match="noise_std must be 1e-05 to") as caught:
        RVMRegressor(prior=prior, noise_std=9e-6 * Y.std()).fit(X, Y)
    assert caught.value.argument == "noise_std"


@pytest.mark.parametrize(
    ("d", "n", "prior"), [(1, 20, "individual"), (2, 119, "smooth"), (2, 120, "individual")]
)
def test_many_inputs_beside_the_rows_have_the_smooth_prior(d, n, prior):
    """With 4 inputs and 200 rows the plain one holds .86 of a smooth function of two at 95 %."""
    inputs = np.linspace(0.0, 1.0, n * d).reshape(n, d)
    assert RVMRegressor(max_iter=1).fit(inputs, inputs[:, 0]).prior_ == prior


@pytest.mark.parametrize(("d", "n"), [(20, 60), (30, 100)])
def test_noise_is_no_function_of_many_inputs(d, n):
    """By the plain prior the noise learned is .07 and .01 of its std, and bands hold as little."""
    rng = np.random.default_rng(d)
    inputs, y = rng.standard_normal((n + 200, d)), rng.standard_normal(n + 200)
    rvm = RVMRegressor().fit(inputs[:n], y[:n])
    mean, std = rvm.predict(inputs[n:], return_std=True)
    assert rvm.noise_std_ > 0.85 * y[:n].std()
    assert (np.abs(y[n:] - mean) < 1.96 * std).mean() > 0.88


def test_with_the_smooth_prior_lengthscales_may_be_wider():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((80, 6))
    y = inputs[:, 0] + 0.1 * rng.standard_normal(80)
    plain = RVMRegressor(prior="individual").fit(inputs, y)
    ratio = RVMRegressor().fit(inputs, y).lengthscales_ / plain.lengthscales_
    assert_allclose(ratio, 4.0)


def test_a_search_with_constant_targets_calls_no_lapack_in_vain(capfd):
    RVMRegressor(adapt_lengthscales=True).fit(X[:20], np.full(20, 3.0))
    assert capfd.readouterr() == ("", "")  # DTRTRI writes of an empty matrix


@pytest.mark.parametrize("y", [np.full(9, 3.0), np.ones(1)], ids=["constant", "one row"])
def test_blocks_of_columns_may_all_leave(y):
    rvm = RVMRegressor(algorithm="subspace_em").fit(np.arange(float(len(y)))[:, None], y)
    assert_allclose(rvm.predict([[0.0]]), y[0])


def test_the_order_of_memory_changes_nothing():
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(40, 3))
    y = np.sin(2 * inputs[:, 0]) + 0.1 * rng.normal(size=40)
    rows, columns = (RVMRegressor().fit(one, y) for one in (inputs, np.asfortranarray(inputs)))
    np.testing.assert_array_equal(rows.predict(inputs), columns.predict(inputs))


def test_inputs_are_not_modified_and_a_fit_repeats():
    before = X.copy(), Y.copy()
    again = RVMRegressor().fit(X, Y)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])
    np.testing.assert_array_equal(again.predict(X), fitted().predict(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "newton"}, "algorithm must be one of 'sequential', .*; got 'newton'"),
        ({"prior": None}, "prior must be one of 'auto', .*'shared'; got None"),
        ({"variance": "exact"}, "variance must be one of 'standard', 'augmented'; got 'exact'"),
        ({"lengthscales": -1.0}, "lengthscales must be positive, one number or 2 .*; got -1.0"),
        ({"lengthscales": [1.0]}, "lengthscales must be positive, one number or 2"),
        ({"noise_std": 0.0}, "noise_std must be positive; got 0.0"),
        ({"bias": "no"}, "bias must be True or False; got 'no'"),
        ({"linear": [1.0]}, r"linear must be True or False; got \[1.0\]"),
        ({"adapt_lengthscales": "x"}, "adapt_lengthscales must be True or False; got 'x'"),
        ({"budget": 1}, "budget must be a whole number, at least 2; got 1"),
        ({"n_restarts": -1}, "n_restarts must be a whole number, at least 0; got -1"),
        ({"max_iter": 0.5}, "max_iter must be a whole number, at least 1; got 0.5"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        RVMRegressor(**settings).fit(*data(n=10))


@pytest.mark.parametrize(
    "model",
    [RVMRegressor(prior="shared"), pytest.param(RVMRegressor(), marks=pytest.mark.slow)],
    ids=["shared", "default"],
)
def test_it_is_a_scikit_learn_estimator(model):
    assert failed_checks(model) == {}
