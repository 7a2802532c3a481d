"""A factor moved on is that of the matrix moved on, and does not drift; and the inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError

from forecast_unc.regression.kernels import inverse, move


def covariance(n, seed, noise_std=0.3):
    """Covariance of n random inputs; its leading parts are those of the first inputs."""
    X = np.random.default_rng(seed).standard_normal((n, 2))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * squares) + noise_std**2 * np.eye(n)


@given(
    n=st.integers(1, 90),
    dropped=st.integers(0, 90),
    k=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_it_equals_a_fresh_factorization(n, dropped, k, seed):
    dropped = min(dropped, n)
    K = covariance(n + k, seed)
    chol = np.asfortranarray(np.linalg.cholesky(K[:n, :n]))
    before = chol.copy()
    moved = move(chol, dropped, K[dropped:n, n:], K[n:, n:])
    rest = K[dropped:, dropped:]
    fresh = np.linalg.cholesky(rest) if len(rest) else np.zeros((0, 0))
    np.testing.assert_allclose(moved, fresh, atol=1e-12)
    assert (np.triu(moved, 1) == 0.0).all()
    np.testing.assert_array_equal(chol, before)


@pytest.mark.parametrize("noise_std", [0.1, 1e-4])
def test_a_window_moved_a_thousand_times_does_not_drift(noise_std):
    """Backward error, which the condition (1e10 with the small noise) does not enter."""
    n, moves = 50, 1000
    K = covariance(n + moves, 1, noise_std)
    chol = np.asfortranarray(np.linalg.cholesky(K[:n, :n]))
    for t in range(moves):
        new = slice(t + n, t + n + 1)
        chol = move(chol, 1, K[t + 1 : t + n, new], K[new, new])
    np.testing.assert_allclose(chol @ chol.T, K[-n:, -n:], rtol=0, atol=2e-14)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    K = covariance(6, 0)
    chol = np.asfortranarray(np.linalg.cholesky(K[:4, :4]))
    with pytest.raises(LinAlgError, match="not positive definite at row 5"):
        move(chol, 0, K[:4, 4:], K[4:, 4:] - 10.0 * np.eye(2))


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130, 257])
@pytest.mark.parametrize("overwrite", [False, True])
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
