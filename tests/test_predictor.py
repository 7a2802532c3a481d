"""Regressors of scikit-learn: what can be done with a mean and a std alone."""

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import ARDRegression, BayesianRidge, Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from forecast_unc import Forecaster, GPRegressor, RVMRegressor
from forecast_unc.regression.predictor import (
    ScikitLearnRegressor,
    slope_by_differences,
    taylor_by_differences,
)
from forecast_unc.series.rows import lag_embedding
from tests import oracles
from tests.contract import failed_checks
from tests.recursions import propagate

NOISY_GP = GaussianProcessRegressor(
    ConstantKernel(30.0) * RBF(12.0) + WhiteKernel(0.3), optimizer=None
)
MODELS = {"gp": NOISY_GP, "pipeline": make_pipeline(StandardScaler(), BayesianRidge())}


def test_it_is_a_scikit_learn_estimator():
    assert failed_checks(ScikitLearnRegressor(BayesianRidge())) == {}


@pytest.fixture
def y(rng):
    values = oracles.autoregression([0.6, 0.25], 80, rng)
    return pd.Series(3 + values, pd.date_range("2020-01-01", periods=80), name="y")


@pytest.fixture
def alike():
    """The same Gaussian process twice, ours and scikit-learn's, and uncertain inputs."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2)) * [1.0, 3.0]
    y = np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.2 * rng.standard_normal(40)
    ours = GPRegressor(linear=False).fit(X, y)
    scale = y.std()
    kernel = ConstantKernel((ours.amplitude_ / scale) ** 2) * RBF(ours.lengthscales_)
    kernel += WhiteKernel((ours.noise_std_ / scale) ** 2)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0, normalize_y=True)
    A = 0.3 * rng.normal(size=(2, 2))
    return ours, ScikitLearnRegressor(theirs).fit(X, y), X, A @ A.T


def test_numerical_moments_are_those_of_the_same_kernel_model(alike):
    ours, theirs, X, cov = alike
    for mean in X[:5] + 0.1:
        a = ours.predict_uncertain(mean, cov, method="taylor")
        b = theirs.predict_uncertain(mean, cov, method="taylor")
        np.testing.assert_allclose(b.mean, a.mean, rtol=1e-9)
        np.testing.assert_allclose(b.var, a.var, rtol=1e-5)
        np.testing.assert_allclose(b.slope, a.slope, rtol=1e-5, atol=1e-7)
        a, b = (
            model.predict_uncertain(mean, cov, method="monte_carlo", random_state=0)
            for model in (ours, theirs)
        )
        np.testing.assert_allclose(b.var, a.var, rtol=1e-6)
        np.testing.assert_allclose(b.slope, a.slope, rtol=1e-5, atol=1e-7)
    gradient = theirs.posterior_.gradient(X)
    np.testing.assert_allclose(gradient, ours.posterior_.gradient(X), atol=1e-5)


def test_numerical_moments_go_by_the_units_of_the_inputs(alike):
    X, cov, units = alike[2], alike[3], np.array([1e-4, 1e3])
    y = np.sin(X[:, 0]) + 0.2 * X[:, 1]
    kernel = RBF(1.0) + WhiteKernel(0.1)
    gp = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, optimizer=None))
    a = ScikitLearnRegressor(gp).fit(X, y).predict_uncertain(X[0], cov, "taylor")
    scaled = units[:, None] * cov * units
    b = ScikitLearnRegressor(gp).fit(X * units, y).predict_uncertain(X[0] * units, scaled, "taylor")
    np.testing.assert_allclose(b.var, a.var, rtol=1e-6)
    np.testing.assert_allclose(b.slope * units, a.slope, rtol=1e-6)


@pytest.mark.parametrize("kind", ["taylor", "monte_carlo", "naive"])
def test_propagation_is_the_classic_one_of_the_same_kernel_model(alike, kind):
    ours, theirs, *_ = alike
    known = (1, 2), np.array([0.1, 0.7, -0.4]), np.empty((5, 0))
    a, b = (
        propagate(
            model.posterior_,
            *known,
            propagation=kind,
            path_consistent=path_consistent,
            n_samples=50,
            random_state=0,
        )
        for model, path_consistent in ((ours, False), (theirs, True))
    )
    np.testing.assert_allclose(b.mean, a.mean, rtol=1e-6)
    np.testing.assert_allclose(b.cov, a.cov, rtol=1e-4, atol=1e-6)


def linear_recursion(ridge, lags, history, steps):
    """Joint moments of a Bayesian linear model, its weights independent at every step.

    With u = w . x: Var[u] = w' S w + tr(Sigma (S + m m')) and Cov[z, u] = Cov[z, x] w.
    """
    p = len(history)
    mean, cov = np.append(history, np.zeros(steps)), np.zeros((p + steps, p + steps))
    for t in range(p, p + steps):
        x = t - np.array(lags)
        S = cov[np.ix_(x, x)]
        mean[t], std = np.ravel(ridge.predict(mean[x][None], return_std=True))
        cov[t, :t] = cov[:t, t] = cov[:t, x] @ ridge.coef_
        # std^2 = s^2 + m' Sigma m, of m from the mean of the rows but in scikit-learn 1.6
        cov[t, t] = std**2 + ridge.coef_ @ S @ ridge.coef_ + np.sum(ridge.sigma_ * S)
    return mean[p:], cov[p:, p:]


def test_a_linear_model_has_the_linear_gaussian_answer(y):
    model = Forecaster(BayesianRidge(), lags=[1, 2, 5]).fit(y)
    ahead = model.forecast(10, propagation="taylor")
    history = model.models_[0].differencing.forward(y.to_numpy())
    ridge = model.models_[0].regressor.estimator_
    mean, cov = linear_recursion(ridge, (1, 2, 5), history, 10)
    scale = model.models_[0].differencing.scale
    np.testing.assert_allclose(
        ahead.mean, scale * mean + model.models_[0].differencing.shift, rtol=1e-9
    )
    np.testing.assert_allclose(ahead.cov, scale**2 * cov, rtol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_taylor_agrees_with_sample_paths(y, name):
    model = Forecaster(MODELS[name], lags=2, random_state=0).fit(y)
    taylor = model.forecast(5, propagation="taylor")
    sampled = model.forecast(5, propagation="monte_carlo", n_samples=8000)
    std = taylor.std.to_numpy()
    # four standard errors of 8000 paths
    np.testing.assert_array_less(np.abs(sampled.mean - taylor.mean) / std, 0.045)
    scale = np.outer(std, std)
    np.testing.assert_allclose(sampled.cov / scale, taylor.cov / scale, atol=0.065)
    naive = model.forecast(5, propagation="naive")
    np.testing.assert_allclose(naive.std.iloc[0], std[0], rtol=1e-12)
    assert (naive.std.iloc[1:] < 0.95 * std[1:]).all()


def test_exact_says_why_not(y):
    model = Forecaster(ARDRegression(), lags=2).fit(y)
    with pytest.raises(
        ValueError,
        match=r"propagation must be 'taylor', .*, method 'taylor' or 'monte_carlo', for \w+; got "
        r"'exact'. Moments under an uncertain input have a closed form for kernel models only",
    ):
        model.forecast(2, propagation="exact")


def test_what_is_not_known_of_two_inputs_is_refused(alike):
    posterior = alike[1].posterior_
    assert not posterior.closed_form
    assert not posterior.joint
    with pytest.raises(ValueError, match=r"prior_mean must be 'zero' for a regressor of scikit-l"):
        posterior.plus_input(0)
    for use in (lambda: posterior.covariance(np.zeros((2, 2))), lambda: posterior.function_path(3)):
        with pytest.raises(ValueError, match=r"path_consistent must be False .*; got True\. It do"):
            use()


def test_parts_that_are_not_known_are_not_shown(y):
    ahead = Forecaster(BayesianRidge(), lags=2).fit(y).forecast(3, propagation="taylor")
    with pytest.raises(ValueError, match="regressor that predicts a std alone, .* has no such"):
        ahead.decompose()


def test_an_update_is_a_new_fit_of_a_copy(y):
    model = Forecaster(BayesianRidge(), lags=2).fit(y.iloc[:60])
    first, applied = model.models_[0].regressor, model.apply(y.iloc[:60])
    model.update(y.iloc[60:])
    z = model.models_[0].differencing.forward(y.to_numpy())
    X, target = lag_embedding(z, (1, 2), np.empty((len(y), 0)))
    np.testing.assert_allclose(
        model.models_[0].regressor.estimator_.coef_,
        BayesianRidge().fit(X, target).coef_,
        rtol=1e-12,
    )
    assert applied.models_[0].regressor is first
    assert first.estimator_.coef_[0] != model.models_[0].regressor.estimator_.coef_[0]


def test_nothing_of_the_caller_is_fitted(y, tmp_path):
    ridge = BayesianRidge()
    model = clone(Forecaster(ridge, lags=2)).fit(y)
    assert not hasattr(ridge, "coef_")
    assert not hasattr(model.regressor, "coef_")
    assert clone(model).set_params(regressor__max_iter=7).regressor.max_iter == 7
    with pytest.raises(TypeError, match="regressor must be of this package.* got BayesianRidge"):
        model.save(tmp_path / "model")
    again = pickle.loads(pickle.dumps(model))
    a, b = (m.forecast(3, propagation="taylor") for m in (model, again))
    pd.testing.assert_frame_equal(a.cov, b.cov)


@pytest.mark.parametrize(
    "regressor",
    [
        Lasso(),
        make_pipeline(StandardScaler(), Lasso()),
        TransformedTargetRegressor(BayesianRidge()),  # takes return_std and breaks on it
    ],
    ids=["lasso", "pipeline", "transformed target"],
)
def test_a_regressor_without_a_std_is_refused_at_the_fit(y, regressor):
    with pytest.raises(
        TypeError,
        match=r"regressor must predict a standard deviation, by predict\(X, return_std=True\); got "
        r"(.|\n)*Use one that does, such as BayesianRidge",
    ):
        Forecaster(regressor, lags=2).fit(y)


class Unfitted(Lasso):
    def fit(self, X, y, sample_weight=None):
        raise AssertionError("fitted")


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_regressor_whose_signature_has_no_std_is_refused_before_the_fit(y, pipeline):
    regressor = make_pipeline(StandardScaler(), Unfitted()) if pipeline else Unfitted()
    with pytest.raises(TypeError, match=r"regressor must predict a standard deviation"):
        Forecaster(regressor, lags=2).fit(y)
    with pytest.raises(TypeError, match=r"regressor must predict a standard deviation"):
        ScikitLearnRegressor(regressor).fit(np.eye(3), np.arange(3))


class Deaf(Lasso):
    """Takes any keyword, and does nothing with it."""

    def predict(self, X, **ignored):
        return super().predict(X)


@pytest.mark.parametrize("regressor", [BayesianRidge, "ridge", 3.0, StandardScaler()], ids=repr)
def test_what_is_no_regressor_is_refused(y, regressor):
    with pytest.raises(TypeError, match=r"regressor must be one of the package's, .*; got "):
        Forecaster(regressor, lags=2).fit(y)


def test_an_array_is_no_pair_of_mean_and_std(y):
    with pytest.raises(TypeError, match=r"predict a standard deviation, .*; got Deaf\(\)"):
        Forecaster(Deaf(), lags=2).fit(y)


def test_a_std_of_zero_is_refused(y):
    model = Forecaster(DummyRegressor(), lags=2).fit(y)
    with pytest.raises(ValueError, match=r"regressor must predict a positive std; got 0. Let the"):
        model.forecast(2, propagation="taylor")


def test_taylor_far_outside_its_range_says_so(alike):
    theirs = alike[1]
    message = "variance must be positive.* outside its range.* Forecast by 'monte_carlo'"
    with pytest.raises(ValueError, match=message):
        theirs.predict_uncertain([-4.0, -2.0], 9.0 * np.eye(2), method="taylor")


def test_differences_are_exact_for_polynomials(rng):
    """A mean of fourth and a variance of fifth degree, along every direction, on any scale."""
    weights, scale = rng.normal(size=3), np.array([1e-3, 1.0, 50.0])
    mean, A = 3.0 * scale, rng.normal(size=(3, 3)) * scale[:, None]

    def u(X):
        return (X / scale) @ weights

    slope = slope_by_differences(lambda X: u(X) ** 4, np.stack([mean, 2 * mean]), scale)
    for row, at in zip(slope, (mean, 2 * mean), strict=True):
        np.testing.assert_allclose(row, 4 * u(at) ** 3 * weights / scale, rtol=1e-9)
    cov = A @ A.T
    posterior = SimpleNamespace(
        predict=lambda X: (u(X) ** 4, 1e4 + u(X) ** 5), gradient=lambda X: slope[:1]
    )
    moments = taylor_by_differences(posterior, mean, cov, scale)
    along = (weights / scale) @ cov @ (weights / scale)
    var = 1e4 + u(mean) ** 5 + 10 * u(mean) ** 3 * along + slope[0] @ cov @ slope[0]
    np.testing.assert_allclose(moments.var, var, rtol=1e-6)
    assert moments.mean == pytest.approx(u(mean) ** 4)


def test_a_relevance_vector_machine_is_one_of_the_package_s(y):
    assert isinstance(Forecaster(RVMRegressor(), lags=2).fit(y).models_[0].regressor, RVMRegressor)
