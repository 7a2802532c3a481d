import numpy as np
import pytest

from forecast_unc.regression.kernels import exponent_factors, lower_tiles, squared_exponential
from tests import oracles


def test_kernel_is_its_definition(rng):
    X1, X2, lengthscales = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), [0.7, 1.5, 20.0]
    np.testing.assert_allclose(
        squared_exponential(X1, X2, np.array(lengthscales)),
        oracles.squared_exponential(X1, X2, lengthscales),
        rtol=1e-13,
    )


def test_kernel_of_far_inputs_is_at_most_one(rng):
    # squared distances of 4e16 +- 10, expanded
    X = 1e7 + rng.normal(size=(40, 3))
    lengthscales = np.full(3, 0.05)
    np.testing.assert_array_equal(np.diagonal(squared_exponential(X, X, lengthscales)), 1.0)
    assert squared_exponential(X, X.copy(), lengthscales).max() <= 1.0


@pytest.mark.parametrize(("n1", "n2"), [(0, 4), (3, 0), (0, 0)])
def test_kernel_of_no_inputs_is_empty(n1, n2):
    assert squared_exponential(np.ones((n1, 2)), np.ones((n2, 2)), np.ones(2)).shape == (n1, n2)


def test_factors_multiply_to_the_exponent(rng):
    Z = rng.normal(size=(3, 6))
    left, right = exponent_factors(Z)
    distances = ((Z[:, :, None] - Z[:, None, :]) ** 2).sum(axis=0)
    np.testing.assert_allclose(left.T @ right, -0.5 * distances, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 15, 400, 1500])
def test_tiles_cover_the_lower_triangle_once(n):
    times = np.zeros((n, n), dtype=int)
    for rows, columns in lower_tiles(n):
        assert rows.start >= columns.start
        assert (rows == columns) == (rows.start == columns.start)
        times[rows, columns] += 1
    below = np.tril(np.ones((n, n), dtype=bool))
    assert (times[below] == 1).all()
    assert times.max(initial=0) <= 1
