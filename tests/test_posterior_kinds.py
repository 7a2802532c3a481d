"""A new kind of posterior is one file: toys, a mixture, and nothing of the recursion changed.

"Adding a posterior" in CONTRIBUTING.md points here. Each toy is what its one file would hold.
"""

import copy
import inspect
import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import cholesky, qr, solve_triangular, toeplitz
from scipy.special import softmax
from sklearn.linear_model import BayesianRidge
from sklearn.utils.validation import validate_data
from statsmodels.tsa.arima_process import arma_acovf
from statsmodels.tsa.statespace.sarimax import SARIMAX

from forecast_unc import Forecaster, GPRegressor
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.mixture import PosteriorMixture
from forecast_unc.regression.predictor import ScikitLearnRegressor
from tests import oracles
from tests.recursions import NAMED, MeanAndCov, conditioned, propagate
from tests.test_propagation import AR, HISTORY, NOISE_VAR, linear_posterior, no_exog

# Added to the diagonal of a kernel matrix, whose smallest eigenvalues are roundoff.
JITTER = 1e-10


class NoisyAutoregression(KernelRegressor):
    """Two kinds of noise: values seen with an error, a given share of their variance."""

    def __init__(self, error_share=0.0):
        self.error_share = error_share

    def fit(self, X, y):
        """Least squares, less what the errors add to X'X and to the residuals."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        (n, d), error_var = X.shape, self.error_share * y.var()
        weights = np.linalg.solve(X.T @ X - n * error_var * np.eye(d), X.T @ y)
        residual_var = np.mean((y - X @ weights) ** 2)
        self.posterior_ = KernelPosterior(
            centers=np.empty((0, d)),
            lengthscales=np.ones(d),
            weights=np.append(weights, 0.0),
            factors=(),
            linear_var=np.zeros(d + 1),
            kernel_var=0.0,
            noise_var=residual_var - error_var * (1.0 + weights @ weights),  # fed back
            observation_var=error_var,  # added once, to what is observed
            input_offset=np.zeros(d),
        )
        return self

    def condition(self, X, y):
        """A new one, its weights those of other data."""
        return copy.copy(self).fit(X, y)


class ReducedRankGP(KernelRegressor):
    """Reduced rank (Subset of Regressors): a GP through its values at m rows, in O(n m^2)."""

    most_rows = None

    def __init__(self, n_support=20, lengthscale=1.0, amplitude=1.0, noise_std=0.1):
        self.n_support, self.lengthscale = n_support, lengthscale
        self.amplitude, self.noise_std = amplitude, noise_std

    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.support_, self.offset_ = X[:: -(-len(X) // self.n_support)], y.mean()
        self.posterior_ = self._posterior(X, y)
        return self

    def condition(self, X, y):
        conditioned = copy.copy(self)
        conditioned.posterior_ = self._posterior(*validate_data(self, X, y, reset=False))
        return conditioned

    def _posterior(self, X, y):
        """Weights ~ N(0, a^2 Kuu^-1), given the rows: precision R'R, with R of a QR for digits."""
        m, d = self.support_.shape
        prior = squared_exponential(self.support_, self.support_, self.lengthscale)
        prior = cholesky(prior + JITTER * np.eye(m)) / self.amplitude
        kernel = squared_exponential(X, self.support_, self.lengthscale)  # (n, m)
        Q, R = qr(np.vstack([kernel / self.noise_std, prior]), mode="economic")
        weights = solve_triangular(R, Q[: len(y)].T @ (y - self.offset_) / self.noise_std)
        return KernelPosterior(
            centers=self.support_,
            lengthscales=np.full(d, self.lengthscale),
            weights=np.append(weights, np.zeros(d + 1)),
            factors=(Factor(1, np.asfortranarray(R.T), 1.0, np.zeros((m, d + 1), order="F")),),
            linear_var=np.zeros(d + 1),
            kernel_var=0.0,
            noise_var=self.noise_std**2,
            input_offset=np.zeros(d),
            output_offset=self.offset_,
        )


class MixtureOfGPs(KernelRegressor):
    """GPs with given length-scales, mixed by their evidence: a regressor that returns a mixture."""

    def __init__(self, lengthscales=(1.0, 2.0)):
        self.lengthscales = lengthscales

    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.gps_ = [GPRegressor(lengthscales=one).fit(X, y) for one in self.lengthscales]
        self.p_ = softmax([gp.log_evidence_ for gp in self.gps_])
        self.posterior_ = PosteriorMixture(tuple(gp.posterior_ for gp in self.gps_), self.p_)
        return self

    def condition(self, X, y):
        conditioned = copy.copy(self)
        conditioned.gps_ = [gp.condition(X, y) for gp in self.gps_]
        conditioned.posterior_ = PosteriorMixture(
            tuple(gp.posterior_ for gp in conditioned.gps_), self.p_
        )
        return conditioned


@pytest.mark.parametrize("toy", [NoisyAutoregression, ReducedRankGP])
def test_a_toy_has_forty_lines_at_most(toy):
    assert len(inspect.getsource(toy).splitlines()) <= 40


# Two kinds of noise


def noisy_autoregression(n, missing):
    """AR(2) around 50 seen with an error, by months."""
    rng = np.random.default_rng(7)
    y = oracles.autoregression(AR, n, rng, np.sqrt(NOISE_VAR)) + 0.6 * rng.standard_normal(n)
    y[missing] = np.nan
    return pd.Series(50.0 + 3.0 * y, pd.period_range("1990-01", periods=n, freq="M"))


@pytest.mark.parametrize(
    ("missing", "propagation"),
    [([], "taylor"), (range(290, 296), "exact"), ([200, 297, 299], "exact")],
    ids=str,
)
def test_two_kinds_of_noise_are_a_kalman_filter(missing, propagation):
    y, steps = noisy_autoregression(300, list(missing)), 6
    model = Forecaster(NoisyAutoregression(0.2), lags=2).fit(y)
    ahead = model.forecast(steps, propagation=propagation)
    posterior, differencing = model.models_[0].regressor.posterior_, model.models_[0].differencing
    ar, noises = posterior.weights[:2], (posterior.observation_var, posterior.noise_var)
    assert min(noises) > 0.05
    z = differencing.forward(y.to_numpy())
    kalman = SARIMAX(z, order=(2, 0, 0), measurement_error=True).filter([*ar, *noises])
    theirs = kalman.get_forecast(steps)
    mean = differencing.shift + differencing.scale * theirs.predicted_mean
    # the wide start 100 values before the origin is forgotten, at a factor of .4 a value
    np.testing.assert_allclose((ahead.mean - mean) / ahead.std, 0.0, atol=1e-8)
    np.testing.assert_allclose(ahead.var, differencing.scale**2 * theirs.var_pred_mean, rtol=1e-8)
    # all steps together, by conditioning the stationary process on the values observed
    acovf = arma_acovf([1.0, *-ar], [1.0], 300 + steps, sigma2=posterior.noise_var)
    joint = toeplitz(acovf) + posterior.observation_var * np.eye(300 + steps)
    seen, last = np.flatnonzero(~np.isnan(z)), np.arange(300, 300 + steps)
    gain = np.linalg.solve(joint[np.ix_(seen, seen)], joint[np.ix_(seen, last)])
    cov = joint[np.ix_(last, last)] - joint[np.ix_(last, seen)] @ gain
    np.testing.assert_allclose(ahead.cov, differencing.scale**2 * cov, rtol=1e-8)


@dataclass(frozen=True)
class Apart(KernelPosterior):
    """A posterior that says nothing of two inputs together, and has two kinds of noise."""

    joint: ClassVar[bool] = False


def test_naive_adds_an_observation_error_once_without_a_joint_covariance():
    known = replace(linear_posterior(AR), observation_var=0.3)
    apart = Apart(**vars(known))
    answers = [
        propagate(one, (1, 2), HISTORY, no_exog(4), propagation="naive") for one in (known, apart)
    ]
    np.testing.assert_allclose(answers[1].cov, answers[0].cov, rtol=1e-14)


# A mixture of posteriors


@pytest.fixture(scope="module")
def gps():
    """Two GPs of one series that differ in length-scale and noise."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(25, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(25)
    first, second = (
        GPRegressor(lengthscales=length, noise_std=noise).fit(X, y).posterior_
        for length, noise in ((0.7, 0.1), (2.0, 0.3))
    )
    return first, replace(second, observation_var=0.05)


@pytest.fixture(scope="module")
def mixture(gps):
    return PosteriorMixture(gps, np.array([0.3, 0.7]))


def test_a_mixture_has_the_moments_of_quadrature(gps, mixture):
    mean, cov = np.array([0.4, -0.9]), np.array([[0.3, 0.1], [0.1, 0.2]])
    X, q = oracles.quadrature(mean, cov)
    means, variances = np.transpose([one.predict(X) for one in gps], (1, 0, 2))
    first = mixture.p @ means @ q
    second = mixture.p @ (variances + (means - first) ** 2) @ q
    cross = (X - mean).T @ (q * (mixture.p @ (means - first)))
    found = mixture.moments(mean, cov)
    np.testing.assert_allclose(found.mean, first, rtol=1e-9)
    np.testing.assert_allclose(found.var, second, rtol=1e-9)
    np.testing.assert_allclose(cov @ found.slope, cross, rtol=1e-9)
    # the same as a step of the recursion from uncertain values
    options = {"history_cov": cov, "path_consistent": False}
    step = propagate(mixture, (2, 1), mean, no_exog(1), **options)
    np.testing.assert_allclose(step.mean, first, rtol=1e-9)
    np.testing.assert_allclose(step.cov, second, rtol=1e-9)
    # where the input hardly moves the means, the expansion of each part is enough
    near = mixture.taylor_moments(mean, 1e-8 * cov)
    for mine, theirs in zip(near, mixture.moments(mean, 1e-8 * cov), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_a_mixture_has_the_total_covariance_of_the_function(gps, mixture, rng):
    for X in rng.uniform(-2, 2, size=(3, 4, 2)):
        second = sum(
            p * (one.covariance(X) + np.outer(one.mean(X), one.mean(X)))
            for p, one in zip(mixture.p, gps, strict=True)
        )
        total = second - np.outer(mixture.mean(X), mixture.mean(X))
        np.testing.assert_allclose(mixture.covariance(X), total, rtol=1e-11)
        noise = mixture.noise_var + mixture.observation_var
        np.testing.assert_allclose(mixture.predict(X)[1], np.diagonal(total) + noise, rtol=1e-11)
        slopes = [oracles.finite_difference(lambda x: mixture.mean(x[None])[0], x) for x in X]
        np.testing.assert_allclose(mixture.gradient(X), slopes, rtol=1e-7)


@pytest.mark.parametrize("path_consistent", [True, False])
@pytest.mark.parametrize("propagation", NAMED)
def test_a_mixture_of_intercepts_is_an_unknown_intercept(propagation, path_consistent):
    """Linear models: two intercepts have the first two moments of one that is known up to a var."""
    p, intercepts = np.array([0.25, 0.75]), np.array([1.0, -0.6])
    center = p @ intercepts
    # with it, the state at the origin tells of the intercept, and not of both to the same extent
    error = 0.0 if path_consistent else 0.2
    parts = [replace(linear_posterior(AR, 0.0, one), observation_var=error) for one in intercepts]
    single = linear_posterior(AR, p @ (intercepts - center) ** 2, center)
    single = replace(single, observation_var=error)
    history = oracles.autoregression(AR, 30, np.random.default_rng(1))
    if not path_consistent:
        history[[20, 27]] = np.nan
    options = {"propagation": propagation, "path_consistent": path_consistent, "random_state": 0}
    ours, theirs = (
        propagate(one, (1, 2), history, no_exog(6), **options)
        for one in (PosteriorMixture(tuple(parts), p), single)
    )
    if path_consistent and propagation == "naive":  # which forgets what an error does later
        ours, theirs = (MeanAndCov(one.mean[:1], one.cov[:1, :1]) for one in (ours, theirs))
    assert_same(ours, theirs, sampled=path_consistent and propagation == "monte_carlo")


def assert_same(ours, theirs, sampled):
    """The same moments, to roundoff or to six errors of 1000 paths."""
    std = np.sqrt(np.diagonal(theirs.cov))
    atol = 6.0 / np.sqrt(1000) if sampled else 1e-9
    np.testing.assert_allclose(ours.mean / std, theirs.mean / std, rtol=0, atol=atol)
    scale = np.outer(std, std)
    np.testing.assert_allclose(ours.cov / scale, theirs.cov / scale, rtol=0, atol=2.0 * atol)


@pytest.mark.parametrize(
    ("propagation", "path_consistent"), [(name, name != "taylor") for name in NAMED]
)
def test_a_mixture_of_twice_the_same_is_the_same(gps, propagation, path_consistent):
    history = 1.5 * np.sin(1.3 * np.arange(40))
    history[[30, 37]] = np.nan
    options = {"propagation": propagation, "path_consistent": path_consistent, "random_state": 0}
    twice = PosteriorMixture((gps[0], gps[0]), np.array([0.3, 0.7])).plus_input(1)
    ours, theirs = (
        propagate(one, (1, 2), history, no_exog(8), **options)
        for one in (twice, conditioned(gps[0].plus_input(1)))
    )
    assert_same(ours, theirs, sampled=path_consistent and propagation == "monte_carlo")


@pytest.mark.parametrize("propagation", NAMED)
def test_a_mixture_of_one_is_that_one(gps, propagation):
    alone = PosteriorMixture(gps[:1], np.ones(1))
    options = {"propagation": propagation, "random_state": 0}
    ours, theirs = (
        propagate(one, (1, 2), HISTORY, no_exog(4), **options) for one in (alone, gps[0])
    )
    np.testing.assert_allclose(ours.cov, theirs.cov, rtol=1e-12)


@pytest.mark.parametrize("prior_mean", ["zero", "last"])
def test_a_regressor_with_a_mixture_forecasts_like_any_other(prior_mean, rng):
    y = pd.Series(oracles.autoregression(AR, 60, rng))
    y[50] = np.nan
    ours, theirs = (
        Forecaster(one, lags=2, prior_mean=prior_mean).fit(y[:57]).update(y[57:]).forecast(5)
        for one in (MixtureOfGPs((1.5, 1.5)), GPRegressor(lengthscales=1.5))
    )
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-9)
    np.testing.assert_allclose(ours.cov, theirs.cov, rtol=1e-9)
    np.testing.assert_allclose(ours.decompose(), theirs.decompose(), rtol=1e-9)


def test_a_mixture_can_do_what_all_its_parts_can(gps, rng):
    X = rng.normal(size=(30, 2))
    line = ScikitLearnRegressor(BayesianRidge()).fit(X, X @ AR + 0.3 * rng.standard_normal(30))
    mixture = PosteriorMixture((gps[0], line.posterior_), np.array([0.5, 0.5]))
    assert not mixture.closed_form
    assert not mixture.joint
    with pytest.raises(ValueError, match="propagation must be 'taylor'"):
        propagate(mixture, (1, 2), HISTORY, no_exog(2), propagation="exact")
    joint = propagate(mixture, (1, 2), HISTORY, no_exog(1), propagation="taylor")
    parts = [one.predict(HISTORY[None, :0:-1]) for one in mixture.posteriors]
    means, variances = np.array(parts)[..., 0].T
    np.testing.assert_allclose(joint.mean, means.mean(), rtol=1e-12)
    np.testing.assert_allclose(joint.cov, variances.mean() + means.var(), rtol=1e-12)


# A reduced-rank regressor


def test_reduced_rank_with_all_inputs_as_support_is_the_gp(rng):
    X = rng.uniform(-3, 3, size=(60, 2))
    y = 5.0 + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(60)
    gp = GPRegressor(linear=False, lengthscales=0.8, noise_std=0.1).fit(X, y)
    ours = ReducedRankGP(60, 0.8, gp.amplitude_, 0.1).fit(X, y)
    near = rng.uniform(-3, 3, size=(20, 2))
    # the jitter moves an answer by some JITTER (a / s)^2, 3e-9
    np.testing.assert_allclose(ours.predict(near), gp.predict(near), rtol=1e-6)
    # where the features span the prior, at the support, so are its variances
    for mine, theirs in zip(
        ours.predict(X, return_std=True), gp.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def weight_space_mean(toy, X, y, x):
    """offset + k (Kuu + Kux Kxu a^2 / s^2)^-1 Kux (y - offset) a^2 / s^2, written out."""
    U, lengthscales = toy.support_, toy.lengthscale
    prior, kernel, new = (
        oracles.squared_exponential(U, other, lengthscales) for other in (U, X, x[None])
    )
    gain = (toy.amplitude / toy.noise_std) ** 2
    return toy.offset_ + new.T @ np.linalg.solve(
        prior + gain * kernel @ kernel.T, gain * kernel @ (y - toy.offset_)
    )


def test_reduced_rank_forecasts_updates_and_is_pickled(tmp_path, rng):
    y = pd.Series(oracles.autoregression(AR, 200, rng))
    model = Forecaster(ReducedRankGP(15, 0.5, 1.0, 0.5), lags=2).fit(y[:190])
    fitted = model.models_[0].regressor
    before = model.forecast(4)
    model.update(y[190:])
    toy, differencing = model.models_[0].regressor, model.models_[0].differencing
    assert toy is not fitted
    assert toy.posterior_ is not fitted.posterior_
    z = differencing.forward(y.to_numpy())
    for one, n in ((fitted, 190), (toy, 200)):
        rows = np.column_stack([z[1 : n - 1], z[: n - 2]])
        expected = weight_space_mean(one, rows, z[2:n], z[[n - 1, n - 2]])
        ahead = before if n == 190 else model.forecast(4)
        found = (ahead.mean.iloc[0] - differencing.shift) / differencing.scale
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    exact, paths = model.forecast(4), model.forecast(4, propagation="monte_carlo", random_state=1)
    np.testing.assert_array_less(np.abs(paths.mean - exact.mean), 5 * exact.std / np.sqrt(1000))
    with pytest.raises(TypeError, match="regressor must be of this package.* got ReducedRankGP"):
        model.save(tmp_path / "model")
    again = pickle.loads(pickle.dumps(model)).forecast(4)
    np.testing.assert_array_equal(again.cov, exact.cov)


def test_reduced_rank_takes_more_rows_than_a_gp(rng):
    y = pd.Series(oracles.autoregression(AR, 3500, rng))
    with pytest.raises(ValueError, match="max_train must be given for more than 3000"):
        Forecaster(GPRegressor(), lags=2).fit(y)
    assert Forecaster(ReducedRankGP(), lags=2).fit(y).models_[0].n_rows == 3498


def test_a_toy_is_sampled_as_well(rng):
    X = rng.normal(size=(40, 2))
    toy = ReducedRankGP(lengthscale=2.0).fit(X, np.sin(X[:, 0]))
    mean, cov = np.zeros(2), 0.1 * np.eye(2)
    exact = toy.predict_uncertain(mean, cov)
    sampled = toy.predict_uncertain(mean, cov, "monte_carlo", n_samples=4000, random_state=0)
    assert sampled.mean == pytest.approx(exact.mean, abs=5 * np.sqrt(exact.var / 4000))
    assert sampled.var == pytest.approx(exact.var, rel=8 * np.sqrt(2 / 4000))
    unseeded = toy.predict_uncertain(mean, cov, "monte_carlo", n_samples=4000)
    assert unseeded.var == pytest.approx(exact.var, rel=8 * np.sqrt(2 / 4000))
