"""Differences and lags against integrating and taking values one step at a time."""

import numpy as np
import pandas as pd
import pytest

from forecast_unc.forecasting.horizon.differencing import Differencing, LevelMap
from forecast_unc.series.rows import CompleteRows, complete_rows, interpolated, lag_embedding

DIFFERENCES = [(), (1,), (1, 12), (2, 3, 1)]


@pytest.fixture(params=DIFFERENCES, ids=str)
def differences(request):
    return request.param


@pytest.fixture
def y(rng):
    return 5.0 + np.cumsum(rng.normal(0.3, 2.0, size=60))


def test_forward_standardizes_the_differences(y, differences):
    transform = Differencing.fit(y, differences)
    z = transform.forward(y)
    assert len(z) == len(y) - sum(differences)
    np.testing.assert_allclose([z.mean(), z.std()], [0.0, 1.0], atol=1e-12)
    changes = y
    for lag in differences:
        changes = np.array([changes[t] - changes[t - lag] for t in range(lag, len(changes))])
    np.testing.assert_allclose(z * transform.scale + transform.shift, changes, atol=1e-12)


def test_order_of_differences_does_not_matter(y):
    one, other = (Differencing.fit(y, lags).forward(y) for lags in ((1, 12), (12, 1)))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_terms_are_the_difference_written_out(y, differences):
    maps = LevelMap((1,), Differencing(differences, 0.0, 1.0))
    back, coefficients = np.append(0, maps.own), np.append(1.0, maps.carried)
    assert back[-1] == sum(differences)
    assert (coefficients != 0).all()
    times = np.arange(sum(differences), len(y))
    changes = y[times[:, None] - back] @ coefficients
    np.testing.assert_allclose(changes, Differencing(differences, 0.0, 1.0).forward(y), atol=1e-12)


def test_forward_takes_many_paths(y, differences):
    transform = Differencing.fit(y, differences)
    paths = np.stack([y, y**2])
    np.testing.assert_array_equal(transform.forward(paths)[1], transform.forward(y**2))


def test_missing_values_leave_out_the_differences_that_touch_them(y, differences):
    holed = y.copy()
    holed[[20, 21, 37]] = np.nan
    transform = Differencing.fit(holed, differences)
    changes = holed
    for lag in differences:
        changes = np.array([changes[t] - changes[t - lag] for t in range(lag, len(changes))])
    left = [change for change in changes if change == change]
    assert len(left) < len(changes)
    np.testing.assert_allclose([transform.shift, transform.scale], [np.mean(left), np.std(left)])
    assert np.isnan(transform.forward(holed)).sum() == len(changes) - len(left)


def test_series_is_not_modified(y, differences):
    before = y.copy()
    transform = Differencing.fit(y, differences)
    transform.forward(y)[:] = np.nan
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("lags", [(1, 2, 3), (7, 2)], ids=str)
@pytest.mark.parametrize("columns", [0, 2])
def test_row_holds_the_past_and_the_regressors_of_its_target(rng, lags, columns):
    y, exog = rng.normal(size=12), rng.normal(size=(12, columns))
    X, target = lag_embedding(y, lags, exog)
    assert X.shape == (12 - max(lags), len(lags) + columns)
    for row, t in enumerate(range(max(lags), 12)):
        assert target[row] == y[t]
        np.testing.assert_array_equal(X[row], [*(y[t - lag] for lag in lags), *exog[t]])
    assert len(target) == 12 - max(lags)


def test_rows_do_not_alias_the_series(rng):
    y = rng.normal(size=8)
    X, target = lag_embedding(y, (1, 2), np.empty((8, 0)))
    before = y.copy()
    X[:], target[:] = 0.0, 0.0
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize(
    "missing",
    [[3, 4, 5, 8], [0, 1, 10, 11], [], list(range(1, 12))],
    ids=["inside", "ends", "none", "all but one"],
)
def test_what_is_missing_is_interpolated_as_pandas_does(rng, missing):
    y = pd.Series(rng.normal(size=12))
    y[missing] = np.nan
    before = y.copy()
    expected = y.interpolate(limit_direction="both")
    np.testing.assert_allclose(interpolated(y.to_numpy()), expected, rtol=1e-12)
    pd.testing.assert_series_equal(y, before)


@pytest.mark.parametrize("lags", [(1, 2, 3), (7, 2)], ids=str)
def test_complete_rows_are_those_of_the_embedding_without_a_gap(y, differences, lags):
    y[[10, 31, 32, 59]] = np.nan
    changes = Differencing(differences, 0.0, 1.0).forward(y)
    X, target = lag_embedding(changes, lags, np.zeros((len(changes), 0)))
    complete = ~(np.isnan(X).any(axis=1) | np.isnan(target))
    times = complete_rows(y, lags, differences)
    np.testing.assert_array_equal(times, max(lags) + sum(differences) + np.flatnonzero(complete))
    assert CompleteRows(y).count(lags, differences) == complete.sum()
    assert CompleteRows(y).count(lags, differences, most=5) == 5


def test_a_series_shorter_than_its_lags_has_no_row(y):
    assert len(complete_rows(y[:13], (1, 12), (1,))) == 0
    assert complete_rows(y[:14], (1, 12), (1,)).tolist() == [13]
