"""Differences and scale against integrating paths one step at a time."""

import numpy as np
import pytest

from forecast_unc.forecasting.transforms import Transform
from tests import oracles

DIFFERENCES = [(), (1,), (2,), (12,), (1, 1), (1, 12), (12, 1), (2, 3, 1)]


@pytest.fixture(params=DIFFERENCES, ids=str)
def differences(request):
    return request.param


@pytest.fixture
def y(rng):
    return 5.0 + np.cumsum(rng.normal(0.3, 2.0, size=60))


def test_forward_standardizes_the_differences(y, differences):
    transform = Transform.fit(y, differences)
    z = transform.forward(y)
    assert len(z) == len(y) - sum(differences)
    np.testing.assert_allclose([z.mean(), z.std()], [0.0, 1.0], atol=1e-12)
    changes = y
    for lag in differences:
        changes = np.array([changes[t] - changes[t - lag] for t in range(lag, len(changes))])
    np.testing.assert_allclose(z * transform.scale + transform.shift, changes, atol=1e-12)


def test_order_of_differences_does_not_matter(y):
    one, other = (Transform.fit(y, lags).forward(y) for lags in ((1, 12), (12, 1)))
    np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 3, 30])
def test_inverse_integrates_the_path(y, rng, differences, steps):
    transform = Transform.fit(y, differences)
    z = rng.normal(size=steps)
    matrix, offset = transform.inverse(y, steps)
    changes = z * transform.scale + transform.shift
    expected = oracles.undo_differences(y, changes, differences)
    np.testing.assert_allclose(matrix @ z + offset, expected, rtol=1e-10, atol=1e-10)
    assert (np.triu(matrix, 1) == 0).all()


def test_inverse_undoes_forward(y, differences):
    transform = Transform.fit(y[:45], differences)
    z = transform.forward(y)[-15:]
    matrix, offset = transform.inverse(y[:45], 15)
    np.testing.assert_allclose(matrix @ z + offset, y[45:], rtol=1e-11)


def test_inverse_needs_no_more_history_than_the_differences(y, differences):
    transform = Transform.fit(y, differences)
    used = max(1, sum(differences))
    for whole, part in zip(transform.inverse(y, 20), transform.inverse(y[-used:], 20), strict=True):
        np.testing.assert_array_equal(whole, part)


def test_covariance_of_a_random_walk():
    s, h = 1.7, 6
    matrix, offset = Transform((1,), 0.5, s).inverse(np.array([3.0, 10.0]), h)
    steps = np.arange(1, h + 1)
    np.testing.assert_allclose(matrix @ matrix.T, s**2 * np.minimum.outer(steps, steps))
    np.testing.assert_allclose(offset, 10.0 + 0.5 * steps)  # the drift


def test_covariance_of_a_seasonal_random_walk():
    s, m, h = 0.8, 3, 8
    matrix, offset = Transform((m,), 0.0, s).inverse(np.array([1.0, 2.0, 3.0]), h)
    t = np.arange(h)
    same_season = (t[:, None] - t) % m == 0
    expected = s**2 * same_season * (np.minimum.outer(t, t) // m + 1)
    np.testing.assert_allclose(matrix @ matrix.T, expected)
    np.testing.assert_allclose(offset, [1, 2, 3, 1, 2, 3, 1, 2])


def test_covariance_of_an_integrated_random_walk():
    h = 5
    matrix, offset = Transform((1, 1), 0.0, 1.0).inverse(np.array([4.0, 6.0]), h)
    np.testing.assert_allclose(offset, [8, 10, 12, 14, 16])  # the last slope goes on
    var = [sum(k**2 for k in range(1, t + 1)) for t in range(1, h + 1)]
    np.testing.assert_allclose(np.diagonal(matrix @ matrix.T), var)


def test_without_differences_only_the_scale():
    matrix, offset = Transform((), 3.0, 2.0).inverse(np.array([9.0]), 4)
    np.testing.assert_array_equal(matrix, 2.0 * np.eye(4))
    np.testing.assert_array_equal(offset, np.full(4, 3.0))


def test_series_is_not_modified(y, differences):
    before = y.copy()
    transform = Transform.fit(y, differences)
    transform.forward(y)[:] = np.nan
    transform.inverse(y, 5)
    np.testing.assert_array_equal(y, before)
