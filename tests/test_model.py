"""A fitted model: one specification on one history."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest
from scipy.special import boxcox

from forecast_unc import Forecaster, GPRegressor, RVMRegressor
from forecast_unc.distributions.joint import Diverged
from forecast_unc.forecasting.horizon import paths as horizon_paths
from forecast_unc.forecasting.horizon.types import LevelJoint, Method
from forecast_unc.forecasting.models import lagged as model_module
from forecast_unc.regression.kernels import inverse, lower_root
from tests.members import ahead_of, predicted
from tests.test_first_steps import assert_first_steps

GP = GPRegressor(lengthscales=3.0, noise_std=0.5)


@pytest.fixture(scope="module")
def y():
    rng = np.random.default_rng(5)
    t = np.arange(80)
    values = 20 + np.sin(t / 3) + np.cumsum(0.2 * rng.standard_normal(80))
    return pd.Series(values, pd.date_range("2024-01-01", periods=80, freq="D"), name="y")


SPECIFICATIONS = {
    "gp": Forecaster(GP, lags=3),
    "changes": Forecaster(GP, lags=2, differences=(1, 7)),
    "log": Forecaster(GP, lags=2, transform="log"),
    "boxcox": Forecaster(GP, lags=[1, 3], transform="boxcox", prior_mean="last"),
    "automatic": Forecaster(),
}


@pytest.fixture(scope="module")
def fitted(y):
    return functools.cache(lambda name: SPECIFICATIONS[name].fit(y))


@pytest.mark.parametrize("n_samples", [5, 25], ids=["one block", "several"])
def test_first_steps_of_sample_paths_in_blocks(y, monkeypatch, n_samples):
    model = Forecaster(GP, lags=2).fit(y)
    size = 8 * model.models_[0].regressor.posterior_.path_size * horizon_paths._PATH_STEPS
    monkeypatch.setattr(horizon_paths, "_PATH_MEMORY", 10 * size)
    options = {"propagation": "monte_carlo", "n_samples": n_samples, "random_state": 1}
    assert_first_steps(model.forecast(9, **options), model.forecast(4, **options))


@pytest.mark.parametrize("name", ["gp", "changes", "log", "boxcox"])
def test_sampled_paths_are_kept_in_units_of_y(name, fitted):
    model = fitted(name)
    ahead = model.forecast(5, propagation="monte_carlo", n_samples=300, random_state=0)
    sampled = ahead.paths.to_numpy()
    assert sampled.shape == (5, 300)
    power = model.models_[0].transform.power
    z = sampled if power is None else boxcox(sampled, power)
    if power is None:
        np.testing.assert_allclose(ahead.mean, z.mean(axis=1), rtol=1e-12)
        np.testing.assert_allclose(ahead.cov, np.cov(z), rtol=1e-10)
    else:  # the quantiles are those of the same mean and variance, transformed
        np.testing.assert_allclose(boxcox(ahead.median, power), z.mean(axis=1), rtol=1e-10)
    one = model.forecast(3, propagation="monte_carlo", n_samples=300, random_state=0)
    np.testing.assert_allclose(one.paths, sampled[:3], rtol=1e-9)
    assert model.forecast(5, propagation="exact").paths is None
    assert model.forecast(5).paths.shape[1] in {k * horizon_paths.PIECES for k in (1, 2, 4, 8)}


def test_an_average_has_paths_if_a_member_has(fitted):
    ahead = fitted("automatic")
    assert len(ahead.models_) > 1
    assert ahead.forecast(2).paths is None
    drawn = ahead.forecast(2, propagation="monte_carlo", n_samples=20, random_state=0)
    assert drawn.paths.shape == (2, 20)


def test_a_path_beyond_a_float_has_diverged(monkeypatch, fitted):
    (model,) = fitted("log").models_
    drawn = ahead_of(model, 4, Method("monte_carlo", True, 20, 0))
    levels = np.log(drawn.paths.to_numpy())
    joint = LevelJoint(levels.mean(axis=1), np.cov(levels), None, levels)
    levels[2, 7] = 800.0
    monkeypatch.setattr(model_module, "propagate", lambda *_: joint)
    with pytest.raises(Diverged, match="paths must be finite in units of y; got inf at step 3"):
        predicted(model, 4, Method("monte_carlo"))


@pytest.mark.parametrize("rank", [0, 1, 4, 6])
def test_root_of_a_covariance_of_any_rank(rank):
    factor = np.random.default_rng(rank).standard_normal((6, rank))
    cov = np.diag([1.0, 1e6, 1.0, 0.0, 1.0, 1e-6]) @ (factor @ factor.T)
    cov = cov @ np.diag([1.0, 1e6, 1.0, 0.0, 1.0, 1e-6])
    root = lower_root(cov)
    std = np.sqrt(np.diagonal(cov))
    # what is dropped of a variance is below 1e-12 of it, and of a covariance below its root
    assert (np.abs(root @ root.T - cov) <= 1e-6 * np.outer(std, std)).all()
    assert not np.triu(root, 1).any()
    np.testing.assert_array_equal(lower_root(cov[:4, :4]), root[:4, :4])


# How many rows are too many


@pytest.mark.parametrize("n", [4000, 100_000])
@pytest.mark.parametrize("regressor", [GPRegressor(), RVMRegressor()], ids=["gp", "rvm"])
def test_more_rows_than_a_regressor_can_have_are_an_error_before_any_work(
    monkeypatch, n, regressor
):
    def unasked(self, X, y):
        raise AssertionError("must not be fitted")

    for kind in (GPRegressor, RVMRegressor):
        monkeypatch.setattr(kind, "fit", unasked)
    y = pd.Series(np.random.default_rng(0).standard_normal(n))
    most = regressor.most_rows
    message = f"max_train must be given for more than {most} training rows; got {n - 2}, of which "
    with pytest.raises(ValueError, match=f"{message}.* Pass max_train={most} or fewer"):
        Forecaster(regressor, lags=2).fit(y)
    with pytest.raises(AssertionError, match="must not be fitted"):
        Forecaster(regressor, lags=2, max_train=most).fit(y)


def test_rows_are_counted_without_those_that_touch_missing_values(monkeypatch):
    monkeypatch.setattr(GPRegressor, "most_rows", 40)
    y = pd.Series(np.random.default_rng(0).standard_normal(60))
    with pytest.raises(
        ValueError, match=r"more than 40 training rows; got 58, of which GPRegresso"
    ):
        Forecaster(GP, lags=2).fit(y)
    y.iloc[::6] = np.nan  # each leaves out three rows
    assert Forecaster(GP, lags=2).fit(y).models_[0].n_rows < 40
    monkeypatch.setattr(GPRegressor, "most_rows", None)
    assert Forecaster(GP, lags=2).fit(y.dropna().reset_index(drop=True)).models_[0].n_rows == 48


def test_the_oldest_rows_leave_for_what_is_taken_in_later(monkeypatch):
    monkeypatch.setattr(GPRegressor, "most_rows", 40)
    y = pd.Series(np.random.default_rng(0).standard_normal(60))
    model = Forecaster(GP, lags=2).fit(y[:42]).update(y[42:])
    assert model.models_[0].n_rows == 40


# New ones only


def test_a_fitted_model_makes_others(y):
    (model,) = Forecaster(GP, lags=2).fit(y[:60]).models_
    ahead, history = ahead_of(model, 3), model.history
    longer = history.followed_by(y[60:])
    extended, moved = model.extend(longer), model.at(longer)
    assert (model.n_rows, extended.n_rows, moved.n_rows) == (58, 78, 58)
    assert model.history is history
    assert moved.regressor is model.regressor
    assert extended.regressor is not model.regressor
    again = ahead_of(model, 3)
    pd.testing.assert_frame_equal(again.cov, ahead.cov)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.n_rows = 3


def test_rows_are_the_last_only_where_there_were_more(y):
    both = [Forecaster(GP, lags=2, max_train=50).fit(part).models_[0] for part in (y, y[:40])]
    assert [one.n_rows for one in both] == [50, 38]
    assert str(both[0]).endswith(", last 50 rows")
    assert str(both[1]).endswith(", 38 rows")
    short = Forecaster().fit(y[:15])
    assert not any("last" in str(one) for one in short.models_)


@pytest.mark.parametrize("prior_mean", ["zero", "last"])
def test_what_exact_moments_need_is_made_once(y, monkeypatch, prior_mean):
    """The inverse of a factor, O(n^3), by the first forecast; later ones and `apply` share it."""
    calls = []

    def counted(chol, overwrite=False):
        calls.append(len(chol))
        return inverse(chol, overwrite)

    model = Forecaster(GP, lags=2, prior_mean=prior_mean).fit(y)
    monkeypatch.setattr("forecast_unc.regression.kernel_posterior.inverse", counted)
    exact = {"propagation": "exact"}
    first = model.forecast(4, **exact)
    pd.testing.assert_frame_equal(model.forecast(4, **exact).cov, first.cov)
    model.apply(y.iloc[:-3]).forecast(4, **exact)
    assert calls == [model.models_[0].n_rows]


def test_a_model_is_shown_by_its_settings(fitted):
    shown = repr(fitted("automatic").models_)
    assert shown.startswith("(LaggedModel(specification=Specification(regressor=GPRegressor(")
    assert "SmoothingModel(specification=SmoothingSpecification(" in shown
    assert len(shown) < 10_000  # and not by its series and posterior
