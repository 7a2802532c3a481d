"""sktime's forecasters: its conformance suite, and the same figures as the package's own.

In an environment of its own (`make test-slow`), as sktime holds pandas back.
"""

import doctest

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sktime", reason="needs the extra sktime; make test-slow installs it")

from sktime.forecasting.base import ForecastingHorizon
from sktime.forecasting.compose import TransformedTargetForecaster
from sktime.forecasting.model_evaluation import evaluate
from sktime.performance_metrics.forecasting.probabilistic import PinballLoss
from sktime.split import ExpandingWindowSplitter
from sktime.transformations.detrend import Detrender
from sktime.utils.estimator_checks import check_estimator

import forecast_unc.sktime
from forecast_unc import Forecaster, GPRegressor, RVMRegressor
from forecast_unc.sktime import AutoForecaster, GPForecaster, RVMForecaster

pytestmark = pytest.mark.slow

GP = GPRegressor(lengthscales=2.0, noise_std=0.5)
LOG = {"transform": "log", "differences": 1, "prior_mean": "zero"}
PAIRS = {
    "gp": (GPForecaster(3, regressor=GP), Forecaster(GP, 3)),
    "log": (GPForecaster(2, regressor=GP, **LOG), Forecaster(GP, 2, **LOG)),
    "rvm": (RVMForecaster(2), Forecaster(RVMRegressor(), 2)),
    "auto": (AutoForecaster(), Forecaster()),
}
FH = [2, 3, 7]


def series(n=60):
    rng = np.random.default_rng(8)
    values = 9.0 + 3.0 * np.sin(0.8 * np.arange(n)) + rng.normal(size=n)
    return pd.Series(values, pd.date_range("2024-01-31", periods=n, freq="ME"), name="load")


def regressors(n=70):
    return pd.DataFrame({"x": np.cos(np.arange(n))}, series(n).index)


def model():
    return GPForecaster(2, regressor=GP)


@pytest.mark.filterwarnings("ignore")  # sktime's own, of what it tries on purpose
@pytest.mark.parametrize("kind", [GPForecaster, RVMForecaster, AutoForecaster])
def test_the_conformance_suite_passes_whole(kind):
    results = check_estimator(kind, verbose=False)
    print(f"\n{kind.__name__}: {len(results)} checks of sktime")
    assert {name: found for name, found in results.items() if found != "PASSED"} == {}
    assert len(results) >= 700  # 754 in sktime 1.2


def test_the_examples_run():
    found = doctest.testmod(forecast_unc.sktime)
    assert found.attempted > 3
    assert found.failed == 0


@pytest.mark.parametrize("pair", PAIRS)
def test_figures_are_those_of_the_forecast(pair):
    theirs, ours = PAIRS[pair]
    y = series()
    f = theirs.clone().fit(y, fh=FH)
    ahead = ours.fit(y).forecast(7)
    at = ahead.index[[1, 2, 6]]
    pd.testing.assert_series_equal(f.predict(), ahead.mean[at], check_freq=False)
    quantiles = f.predict_quantiles(alpha=[0.9, 0.2])
    assert quantiles.columns.tolist() == [("load", 0.9), ("load", 0.2)]
    np.testing.assert_allclose(quantiles, ahead.quantile([0.9, 0.2]).loc[at], rtol=1e-9)
    interval = f.predict_interval(coverage=[0.5, 0.95])
    for coverage in (0.5, 0.95):
        wanted = ahead.interval(coverage).loc[at]
        np.testing.assert_allclose(interval["load"][coverage], wanted, rtol=1e-9)
    np.testing.assert_allclose(f.predict_var()["load"], ahead.var[at], rtol=1e-9)
    cov = f.predict_var(cov=True)["load"]
    assert cov.columns.equals(cov.index)
    np.testing.assert_allclose(cov, ahead.cov.loc[at, at], rtol=1e-9)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_past_is_forecast_one_step_ahead(pair):
    theirs, ours = PAIRS[pair]
    y = series()
    f = theirs.clone().fit(y, fh=[-70, -59, -8, 0, 2, 3])
    fitted, ahead = ours.fit(y).fitted(), ours.forecast(3)
    mean = f.predict()
    assert mean[:2].isna().all()  # before the series, and its first value
    np.testing.assert_allclose(mean[2:4], fitted.mean.iloc[[-9, -1]], rtol=1e-9)
    np.testing.assert_allclose(mean[4:], ahead.mean[1:], rtol=1e-9)
    band = f.predict_interval(coverage=0.8)["load"][0.8]
    np.testing.assert_allclose(band[2:4], fitted.interval(0.8).iloc[[-9, -1]], rtol=1e-9)
    cov = f.predict_var(cov=True).to_numpy()
    np.testing.assert_allclose(cov[4:, 4:], ahead.cov.iloc[1:, 1:], rtol=1e-9)
    np.testing.assert_allclose(cov[3, :], [0, 0, 0, fitted.std.iloc[-1] ** 2, 0, 0], rtol=1e-9)


def test_residuals_of_the_past():
    y = series()
    f = model().fit(y)
    times = ForecastingHorizon(y.index[5:], is_relative=False)
    f.predict(times)
    wanted = Forecaster(GP, 2).fit(y).fitted().residuals[5:]
    np.testing.assert_allclose(f.predict_residuals(y[5:]), wanted, rtol=1e-9)


def test_numbers_that_are_not_one_apart_are_refused():
    """For sktime the step after 118 is 119."""
    y = series().to_numpy()
    for index in (pd.RangeIndex(0, 2 * len(y), 2), pd.Index(2 * np.arange(len(y)))):
        with pytest.raises(ValueError, match=r"y must count its times by 1 in sktime; got steps"):
            model().fit(pd.Series(y, index))
    assert model().fit(pd.Series(y)).predict(fh=[1]).index[0] == len(y)


def test_regressors_are_found_by_their_times():
    y, X = series(), regressors()
    f = model().fit(y, X=X, fh=FH)  # with rows to spare
    ours = Forecaster(GP, 2).fit(y, X[:60])
    np.testing.assert_allclose(
        f.predict(X=X), ours.forecast(7, X[60:67]).mean.iloc[[1, 2, 6]], rtol=1e-9
    )
    np.testing.assert_allclose(f.predict(fh=[-3, 0]), ours.fitted().mean.iloc[[-4, -1]], rtol=1e-9)
    with pytest.raises(ValueError, match="exog must have exactly the times of the 7 steps after"):
        f.predict(fh=FH, X=X.iloc[[61, 62, 66]])


@pytest.mark.parametrize("given", [slice(50, 60), slice(45, 60)], ids=["next", "overlapping"])
def test_updates_take_in_what_followed(given):
    y, X = series(), regressors()
    f = model().fit(y[:50], X=X[:50], fh=FH)
    f.update(y[given], X=X[given])
    ours = Forecaster(GP, 2).fit(y[:50], X[:50]).update(y[50:], X[50:60])
    wanted = ours.forecast(7, X[60:67]).mean.iloc[[1, 2, 6]]
    np.testing.assert_allclose(f.predict(X=X), wanted, rtol=1e-9)


def test_without_parameters_only_the_origin_moves():
    y = series()
    f = model().fit(y[:40], fh=FH)
    ours = Forecaster(GP, 2).fit(y[:40])
    f.update(y[40:50], update_params=False)
    np.testing.assert_allclose(
        f.predict(), ours.apply(y[:50]).forecast(7).mean.iloc[[1, 2, 6]], rtol=1e-9
    )
    f.update(y[50:])  # and now from all that was seen
    wanted = ours.update(y[40:]).forecast(7).mean.iloc[[1, 2, 6]]
    np.testing.assert_allclose(f.predict(), wanted, rtol=1e-9)
    f.update(y[40:45], update_params=False)  # back, as the cutoff
    assert f.predict().index[0] == y.index[46]
    wanted = ours.apply(y[:45]).forecast(7).mean.iloc[[1, 2, 6]]
    np.testing.assert_allclose(f.predict(), wanted, rtol=1e-9)


def test_a_gap_before_new_values_is_told():
    f = model().fit(series()[:40], fh=FH)
    with pytest.raises(ValueError, match="y_new must follow the series without a gap"):
        f.update(series()[45:])


def test_normal_steps_are_normal_distributions():
    from skpro.distributions import Normal

    y = series()
    found = model().fit(y, fh=[-1, *FH]).predict_proba()
    ours = Forecaster(GP, 2).fit(y)
    ahead = ours.forecast(7)
    assert isinstance(found, Normal)
    assert found.columns.tolist() == ["load"]
    np.testing.assert_allclose(found.mean()[1:], ahead.mean.iloc[[1, 2, 6]].to_frame(), rtol=1e-9)
    np.testing.assert_allclose(found.var()[1:], ahead.var.iloc[[1, 2, 6]].to_frame(), rtol=1e-9)


def test_other_steps_are_a_thousand_quantiles():
    y = series()
    found = PAIRS["log"][0].clone().fit(y, fh=FH).predict_proba()
    ahead = PAIRS["log"][1].fit(y).forecast(7)
    for level in (0.1, 0.5, 0.9):
        wanted = ahead.quantile(level).iloc[[1, 2, 6]]
        np.testing.assert_allclose(found.quantile(level)["load"].iloc[:, 0], wanted, rtol=5e-3)


def test_jointly_they_are_paths():
    y = series()
    f = GPForecaster(2, regressor=GP, random_state=3).fit(y, fh=FH)
    found = f.predict_proba(marginal=False)
    cov = np.cov(found.spl["load"].to_numpy().reshape(1000, 3), rowvar=False)
    wanted = f.predict_var(cov=True).to_numpy()
    scale = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()))
    assert np.abs((cov - wanted) / scale).max() < 4.0 * np.sqrt(2.0 / 1000)
    assert found.index.equals(f.predict().index)
    with pytest.raises(
        NotImplementedError, match="marginal must be True for a horizon that begins"
    ):
        f.predict_proba(fh=[0, 1], marginal=False)


def test_missing_values_are_not_filled():
    y = series()
    y.iloc[[20, 57]] = np.nan
    f = model().fit(y, fh=FH)
    np.testing.assert_allclose(
        f.predict_var()["load"], Forecaster(GP, 2).fit(y).forecast(7).var.iloc[[1, 2, 6]], rtol=1e-9
    )


@pytest.mark.filterwarnings("ignore")  # of sktime's and skpro's own classes
def test_it_goes_into_pipelines_and_evaluations():
    y = series()
    pipeline = TransformedTargetForecaster([Detrender(), model()])
    splitter = ExpandingWindowSplitter(fh=[1, 2, 3], initial_window=45, step_length=5)
    table = evaluate(pipeline, splitter, y, scoring=PinballLoss(), error_score="raise")
    assert len(table) == 3
    assert table["test_PinballLoss"].between(0.05, 3.0).all()
