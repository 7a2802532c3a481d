"""At home in scikit-learn: searches, pipelines, clones and pickles.

`failed_checks` runs in the file of each estimator, without an expected failure.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import forecast_unc
from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    LinearRegressor,
    ReducedRankGPRegressor,
    RVMClassifier,
    RVMRegressor,
)

ESTIMATORS = [
    GPRegressor(),
    LinearRegressor(),
    ReducedRankGPRegressor(n_support=8, random_state=0),
    RVMRegressor(lengthscales=1.5),
    RVMClassifier(lengthscales=1.5),
]
MODEL = Forecaster(GPRegressor(lengthscales=2.0), lags=1)


def rows(estimator, n=40):
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    y = np.sin(2.0 * X["a"]) + 0.3 * X["b"] + 0.2 * rng.normal(size=n)
    return X, (y > 0.0 if is_classifier(estimator) else y)


def series(n=60):
    rng = np.random.default_rng(6)
    values = 10.0 * np.sin(0.9 * np.arange(n)) + rng.normal(size=n)
    return pd.Series(values, pd.period_range("2019-01", periods=n, freq="M"))


def crps(ahead, y):
    return ahead.score(y)["crps"].mean()


def test_all_estimators_are_here():
    found = {
        name
        for name in forecast_unc.__all__
        if isinstance(one := getattr(forecast_unc, name), type)
        and issubclass(one, BaseEstimator)
        and hasattr(one, "predict")
    }
    assert found == {type(one).__name__ for one in ESTIMATORS}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_clones_and_pickles_predict_the_same(estimator):
    X, y = rows(estimator)
    fitted = clone(estimator).fit(X, y)
    for other in (pickle.loads(pickle.dumps(fitted)), clone(fitted).fit(X, y)):
        np.testing.assert_allclose(other.predict(X), fitted.predict(X), rtol=1e-9)
    assert clone(fitted).get_params() == estimator.get_params()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_names_of_features_go_through_a_pipeline(estimator):
    X, y = rows(estimator)
    pipeline = make_pipeline(StandardScaler(), clone(estimator)).set_output(transform="pandas")
    pipeline.fit(X, y)  # warnings are errors: names that were lost would be one
    plain = make_pipeline(StandardScaler(), clone(estimator)).fit(X.to_numpy(), y)
    assert list(pipeline[-1].feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(pipeline.predict(X), plain.predict(X.to_numpy()), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline[-1].predict(X[["b", "a"]])


def test_a_search_inside_a_pipeline():
    X, y = rows(GPRegressor())
    pipeline = make_pipeline(StandardScaler(), GPRegressor())
    search = GridSearchCV(pipeline, {"gpregressor__lengthscales": [0.7, 50.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"gpregressor__lengthscales": 0.7}


# Forecasters


def test_what_follows_is_scored_as_the_next_values():
    y = series()
    model = clone(MODEL).fit(y[:50])
    wanted = -crps(model.forecast(10), y[50:])
    for given in (y[50:], y, y[40:], y[50:].to_frame()):  # what is known by then does not count
        np.testing.assert_allclose(model.score(given), wanted, rtol=1e-12)
    steps = model.forecast(10).score(y[50:])["crps"]
    np.testing.assert_allclose(model.score(y[53:]), -steps[3:].mean(), rtol=1e-12)


def test_missing_values_do_not_count():
    y = series()
    model = clone(MODEL).fit(y[:50])
    steps = model.forecast(10).score(y[50:])["crps"]
    y.iloc[[51, 58]] = np.nan
    np.testing.assert_allclose(model.score(y[50:]), -steps.iloc[[0, *range(2, 8), 9]].mean())
    with pytest.raises(
        ValueError,
        match=r"y must hold numbers where it is scored; got only missing values in its last 2\. ",
    ):
        model.score(y[50:52] * np.nan)


@pytest.mark.parametrize(("n", "fold"), [(60, 6), (300, 24), (15, 1)])
def test_otherwise_the_last_fold_is_forecast(n, fold):
    y = series(n)
    model = clone(MODEL).fit(y)
    wanted = -crps(model.apply(y[:-fold]).forecast(fold), y[-fold:])
    np.testing.assert_allclose(model.score(y), wanted, rtol=1e-12)
    earlier = y.set_axis(y.index - 12 * 50)
    np.testing.assert_allclose(model.score(earlier), wanted, rtol=1e-12)


def test_regressors_of_the_scored_times_are_used():
    y = series()
    exog = pd.DataFrame({"x": np.cos(np.arange(60.0))}, y.index)
    model = clone(MODEL).fit(y[:50], exog[:50])
    wanted = -crps(model.forecast(10, exog[50:]), y[50:])
    np.testing.assert_allclose(model.score(y[50:], exog[50:]), wanted, rtol=1e-12)
    np.testing.assert_allclose(model.score(y, exog), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="exog must have exactly the times of y, 60 rows from"):
        model.score(y, exog[50:])
    with pytest.raises(ValueError, match="exog must be given for the 10 steps after the origin"):
        model.score(y)


def test_times_of_another_grid_are_named():
    y = series()
    y = y.set_axis(y.index.to_timestamp())
    model = clone(MODEL).fit(y[:50])
    days = y[50:].set_axis(pd.date_range("2023-03-01", periods=10, freq="D"))
    with pytest.raises(
        ValueError, match=r"y must lie at the times that are forecast; got 2023-03-02\. Give it"
    ):
        model.score(days)
    with pytest.raises(ValueError, match="y must have the frequency of the fit, MS; got"):
        model.score(series())


@pytest.mark.parametrize(("whole", "gap"), [("forecaster", 2), ("combination", 0)])
def test_searches_score_what_follows_each_split(whole, gap):
    y = series()  # slices lose the frequency, and it is inferred
    y = y.set_axis(y.index.to_timestamp()) if gap else y.reset_index(drop=True)
    splitter = TimeSeriesSplit(3, test_size=8, gap=gap)
    if whole == "forecaster":
        model, name, values = MODEL, "lags", [1, 2]
    else:
        members = [clone(MODEL), clone(MODEL).set_params(lags=2)]
        model, name, values = Combination(members), "weights", [[1, 0], [0, 1]]
    search = GridSearchCV(model, {name: values}, cv=splitter).fit(y)
    for place, lags in enumerate((1, 2)):
        one = clone(MODEL).set_params(lags=lags)
        wanted = [
            -one.fit(y.iloc[train])
            .forecast(8 + gap)
            .score(y.iloc[train[-1] + 1 :][: 8 + gap])["crps"]
            .iloc[gap:]
            .mean()
            for train, _ in splitter.split(y)
        ]
        got = [search.cv_results_[f"split{i}_test_score"][place] for i in range(3)]
        np.testing.assert_allclose(got, wanted, rtol=1e-9)
    assert search.best_params_ == {name: values[1]}  # a sine takes two lags
    assert len(search.best_estimator_.forecast(3)) == 3


def test_a_search_takes_regressors_in_the_place_of_a_target():
    y = series()
    exog = pd.DataFrame({"x": np.cos(np.arange(60.0))}, y.index)
    splitter = TimeSeriesSplit(2, test_size=5)
    got = cross_val_score(MODEL, y, exog, cv=splitter)
    wanted = [
        -crps(clone(MODEL).fit(y[:n], exog[:n]).forecast(5, exog[n:][:5]), y[n:][:5])
        for n in (50, 55)
    ]
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_a_series_too_short_to_score_says_how_it_was_divided():
    y = series()
    message = (
        r"y must have at least .*; got 1\. .* Of the 2 values of y, the last 1 would be scored"
    )
    with pytest.raises(ValueError, match=message):
        clone(MODEL).set_params(lags=3).fit(y).score(y[:2])


EQUAL = [GPRegressor, LinearRegressor, ReducedRankGPRegressor, RVMRegressor]


@pytest.mark.parametrize("n", [20, 2])
@pytest.mark.parametrize("regressor", EQUAL, ids=lambda one: one.__name__)
def test_equal_targets_have_stds_of_their_size(regressor, n):
    """Not in absolute units: a process had 1e-4 for values of 3e-6."""
    X = np.arange(20.0)[:, None]
    small, one = (regressor().fit(X[:n], np.full(n, size)) for size in (3e-6, 1.0))
    std = one.predict(X, return_std=True)[1]
    np.testing.assert_allclose(small.predict(X, return_std=True)[1], 3e-6 * std, rtol=1e-6)
