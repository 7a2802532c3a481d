"""Fits that start from an earlier fit's hyper-parameters."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from forecast_unc import (
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    backtest,
    datasets,
)
from forecast_unc.regression import search
from tests.members import on_lags


@pytest.fixture
def evaluations(monkeypatch):
    """Calls of the objective of all searches."""
    calls, call = [], search.Objective.__call__

    def counted(self, x):
        calls.append(x)
        return call(self, x)

    monkeypatch.setattr(search.Objective, "__call__", counted)
    return calls


def evidences(forecaster):
    return np.array([model.regressor.log_evidence_ for model in on_lags(forecaster)])


# A search to the end finds the same optimum to the tolerance of both. The centers of reduced rank
# depend on where it starts.
@pytest.mark.parametrize(
    ("forecaster", "series", "lost"),
    [
        (Forecaster(lags=4), datasets.load_nile(), 0.1),
        (Forecaster(), datasets.load_us_gdp().iloc[:150], 0.1),
        (
            Forecaster(ReducedRankGPRegressor(n_support=20), lags=4),
            datasets.make_mackey_glass(150, noise_std=0.01, random_state=0),
            2.0,
        ),
    ],
    ids=["nile", "automatic", "reduced rank"],
)
def test_a_refit_takes_fewer_evaluations_to_the_evidence_of_a_fit(
    forecaster, series, lost, evaluations
):
    n = len(series)
    first = forecaster.fit(series.iloc[: n - 12])
    evaluations.clear()
    again = first.refit(series)
    warm = len(evaluations)
    evaluations.clear()
    scratch = clone(forecaster).fit(series)
    assert warm < len(evaluations)
    assert [m.specification.described() for m in again.models_] == [
        m.specification.described() for m in scratch.models_
    ]
    assert (evidences(again) > evidences(scratch) - lost).all()


def test_restarts_are_for_the_first_fit(evaluations):
    y = datasets.load_nile()
    first = Forecaster(GPRegressor(n_restarts=3, random_state=0), lags=2).fit(y.iloc[:90])
    evaluations.clear()
    again = first.refit(y)
    warm = len(evaluations)
    evaluations.clear()
    one = Forecaster(GPRegressor(), lags=2).fit(y)
    assert warm <= len(evaluations)
    assert evidences(again)[0] > evidences(one)[0] - 0.1


def test_restarts_stay_where_the_earlier_fit_has_other_hyper_parameters(rng, monkeypatch):
    starts = []
    plain = search.descend

    def spy(objective, start, *arguments):
        starts.append(start)
        return plain(objective, start, *arguments)

    monkeypatch.setattr(search, "descend", spy)
    X = rng.standard_normal((40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    earlier = GPRegressor(n_restarts=2, random_state=0).fit(X, y)
    for regressor, inputs, searches in (
        (GPRegressor(n_restarts=2, random_state=0), X, 1),
        (GPRegressor(n_restarts=2, random_state=0), X[:, :1], 3),
        (GPRegressor(n_restarts=2, random_state=0, linear=False), X, 3),
    ):
        starts.clear()
        started = regressor.starting_from(earlier).fit(inputs, y)
        assert len(starts) == searches
    starts.clear()
    started.fit(X, y)  # of that fit alone
    assert len(starts) == 3


@pytest.mark.slow  # starts workers
def test_a_refit_draws_the_same_whatever_the_number_of_jobs():
    y = datasets.load_nile()
    model = Forecaster(
        GPRegressor(lengthscales=3.0, noise_std=0.1), 2, random_state=np.random.default_rng(0)
    )
    arguments = {"origins": 4, "compare": {"paths": "monte_carlo"}}
    one, two = (backtest(model, y, 3, n_jobs=n, **arguments).frame for n in (1, 2))
    np.testing.assert_allclose(one["mean"], two["mean"], rtol=1e-9)
    first = model.fit(y.iloc[:60])
    again = first.refit(y)
    again.set_params(regressor__noise_std=0.5)
    assert first.regressor.noise_std == 0.1


def test_the_earlier_fit_stays_as_it_was():
    y = datasets.load_nile()
    first = Forecaster(lags=2).fit(y.iloc[:60])
    before, ahead = first.ensemble_, first.forecast(3)
    regressor = first.models_[0].specification.regressor
    again = first.refit(y.iloc[20:])
    assert first.ensemble_ is before
    assert again.models_[0].history.index[0] == y.index[20]
    assert again.models_[0].specification.regressor is not regressor
    np.testing.assert_array_equal(first.forecast(3).mean, ahead.mean)


def test_other_inputs_start_a_new_search():
    y = datasets.load_nile()
    first = Forecaster(lags=2).fit(y)
    again = first.set_params(lags=3).refit(y)
    scratch = Forecaster(lags=3).fit(y)
    np.testing.assert_allclose(
        again.models_[0].regressor.lengthscales_,
        scratch.models_[0].regressor.lengthscales_,
        rtol=1e-9,
    )


def test_regressors_without_a_search_are_fitted_as_ever():
    y = datasets.load_nile()
    forecaster = Forecaster(RVMRegressor(prior="shared"), lags=2)
    again = forecaster.fit(y.iloc[:60]).refit(y)
    np.testing.assert_allclose(again.forecast(3).mean, forecaster.fit(y).forecast(3).mean)


def test_a_refit_needs_a_fit():
    with pytest.raises(NotFittedError):
        Forecaster(lags=2).refit(datasets.load_nile())
