"""The kernel is its definition; a Cholesky factor with more rows is that of the larger matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError

from forecast_unc.regression.kernels import (
    exponent_factors,
    extended,
    inverse,
    lower_tiles,
    squared_exponential,
)
from tests import oracles


def test_kernel_is_its_definition(rng):
    X1, X2, lengthscales = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), [0.7, 1.5, 20.0]
    np.testing.assert_allclose(
        squared_exponential(X1, X2, np.array(lengthscales)),
        oracles.squared_exponential(X1, X2, lengthscales),
        rtol=2e-13,
    )


def test_kernel_of_far_inputs_is_at_most_one(rng):
    # squared distances of 4e16 +- 10, expanded
    X = 1e7 + rng.normal(size=(40, 3))
    lengthscales = np.full(3, 0.05)
    np.testing.assert_array_equal(np.diagonal(squared_exponential(X, X, lengthscales)), 1.0)
    assert squared_exponential(X, X.copy(), lengthscales).max() <= 1.0


@pytest.mark.parametrize(("n1", "n2"), [(0, 4), (3, 0)])
def test_kernel_of_no_inputs_is_empty(n1, n2):
    assert squared_exponential(np.ones((n1, 2)), np.ones((n2, 2)), np.ones(2)).shape == (n1, n2)


def test_factors_multiply_to_the_exponent(rng):
    Z = rng.normal(size=(3, 6))
    left, right = exponent_factors(Z)
    distances = ((Z[:, :, None] - Z[:, None, :]) ** 2).sum(axis=0)
    np.testing.assert_allclose(left.T @ right, -0.5 * distances, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 400])
def test_tiles_cover_the_lower_triangle_once(n):
    times = np.zeros((n, n), dtype=int)
    for rows, columns in lower_tiles(n):
        assert rows.start >= columns.start
        assert (rows == columns) == (rows.start == columns.start)
        times[rows, columns] += 1
    below = np.tril(np.ones((n, n), dtype=bool))
    assert (times[below] == 1).all()
    assert times.max(initial=0) <= 1


# Cholesky factors


def covariance(n, seed, noise_std=0.3):
    """Covariance of n random inputs; its leading parts are those of the first inputs."""
    X = np.random.default_rng(seed).standard_normal((n, 2))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * squares) + noise_std**2 * np.eye(n)


@given(n=st.integers(1, 90), k=st.integers(0, 40), seed=st.integers(0, 99))
def test_it_equals_a_fresh_factorization(n, k, seed):
    K = covariance(n + k, seed)
    chol = np.asfortranarray(np.linalg.cholesky(K[:n, :n]))
    before = chol.copy()
    longer = extended(chol, K[:n, n:], K[n:, n:])
    np.testing.assert_allclose(longer, np.linalg.cholesky(K), atol=1e-12)
    assert (np.triu(longer, 1) == 0.0).all()
    np.testing.assert_array_equal(chol, before)


@pytest.mark.parametrize("noise_std", [0.1, 1e-4])
def test_a_factor_extended_four_hundred_times_does_not_drift(noise_std):
    """Backward error, which the condition (1e10 with the small noise) does not enter."""
    n = 450
    K = covariance(n, 1, noise_std)
    chol = np.asfortranarray(np.linalg.cholesky(K[:50, :50]))
    for t in range(50, n):
        chol = extended(chol, K[:t, t : t + 1], K[t : t + 1, t : t + 1])
    np.testing.assert_allclose(chol @ chol.T, K, rtol=0, atol=1e-13)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    K = covariance(6, 0)
    chol = np.asfortranarray(np.linalg.cholesky(K[:4, :4]))
    with pytest.raises(LinAlgError, match="not positive definite at row 5"):
        extended(chol, K[:4, 4:], K[4:, 4:] - 10.0 * np.eye(2))


@pytest.mark.parametrize(("n", "overwrite"), [(1, False), (64, True), (65, False), (257, True)])
def test_the_inverse_is_that_of_the_matrix(n, overwrite):
    A = covariance(n, 0)
    chol = np.asfortranarray(np.linalg.cholesky(A))
    chol[np.triu_indices(n, 1)] = np.nan  # not used
    before = chol.copy(order="F")
    lower = inverse(chol, overwrite)
    expected = np.linalg.inv(A)
    np.testing.assert_allclose(
        lower[np.tril_indices(n)], expected[np.tril_indices(n)], atol=1e-11 * np.abs(expected).max()
    )
    assert np.shares_memory(lower, chol) == overwrite
    if not overwrite:
        np.testing.assert_array_equal(chol, before)
