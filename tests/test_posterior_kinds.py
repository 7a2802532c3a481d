"""A new kind of posterior is one file: toys, and nothing of the recursion changed.

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
from sklearn.utils.validation import validate_data
from statsmodels.tsa.arima_process import arma_acovf
from statsmodels.tsa.statespace.sarimax import SARIMAX

from forecast_unc import Forecaster, GPRegressor
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from tests import oracles
from tests.recursions import propagate
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
