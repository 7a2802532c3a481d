import numpy as np
import pandas as pd
import pytest

from forecast_unc.forecasting.embedding import interpolated, lag_embedding


@pytest.mark.parametrize("lags", [(1,), (1, 2, 3), (3, 1), (2, 7)], ids=str)
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
