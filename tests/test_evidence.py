"""Evidence and gradient against the definition, finite differences and scikit-learn."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from forecast_unc.regression.gp_evidence import GaussianProcessEvidence, covariance_matrix
from tests import oracles

LENGTHSCALES = np.array([0.8, 1.7, 5.0])
SCALES = 1.3, 0.4, 0.2  # amplitude, linear scale, noise std


def rows(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)


@pytest.fixture(params=[25, 420], ids=["one panel", "several panels"])
def data(request):
    return rows(request.param)


@pytest.mark.parametrize(
    ("n", "groups", "bias_scale"),
    [
        (420, (1, -1, 0), 0.6),
        (25, (0, 0, 1), 0.0),
        (25, (-1, -1, -1), 0.6),
        (25, (0, 2, 2), 0.6),
    ],
    ids=str,
)
def test_evidence_and_gradient_of_groups(n, groups, bias_scale):
    X, y = rows(n)
    groups = np.array(groups)
    tau = np.array([0.4, 0.9, 1.3])[: max(1, groups.max() + 1)]

    def definition(log_theta):
        l, a, tau, s = np.split(np.exp(log_theta), [3, 4, len(log_theta) - 1])
        scales = np.array([0.0 if g < 0 else tau[g] for g in groups])
        K = oracles.gp_kernel(X, X, l, a, scales, bias_scale) + s**2 * np.eye(len(X))
        return -oracles.gp_log_evidence(y, K)

    at = np.log(np.concatenate([LENGTHSCALES, [1.3], tau, [0.2]]))
    evidence = GaussianProcessEvidence(X, y, True, groups, bias_scale)
    value, gradient = evidence(LENGTHSCALES, 1.3, tau, 0.2)
    np.testing.assert_allclose(value, definition(at), rtol=2e-11)
    np.testing.assert_allclose(
        gradient, oracles.finite_difference(definition, at), rtol=1e-6, atol=1e-5
    )
    used = np.isin(np.arange(len(tau)), groups)
    np.testing.assert_array_equal(gradient[4:-1] != 0.0, used)


@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
def test_evidence_and_gradient_agree_with_scikit_learn(data, linear):
    X, y = data
    a, tau, s = SCALES
    kernel = ConstantKernel(a**2) * RBF(LENGTHSCALES) + WhiteKernel(s**2)
    if linear:
        kernel += ConstantKernel(tau**2) * DotProduct(sigma_0=1.0 / tau)
    other = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    theirs, their_gradient = other.log_marginal_likelihood(other.kernel_.theta, True)
    value, gradient = GaussianProcessEvidence(X, y, linear)(LENGTHSCALES, *SCALES)
    np.testing.assert_allclose(-value, theirs, rtol=1e-10)
    # their parameters: log a^2, log l, log s^2
    np.testing.assert_allclose(-gradient[3], 2 * their_gradient[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(-gradient[:3], their_gradient[1:4], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(-gradient[5], 2 * their_gradient[4], rtol=1e-8)


def test_evidence_does_not_depend_on_what_was_asked_before(data):
    evidence = GaussianProcessEvidence(*data, True)
    value, gradient = evidence(LENGTHSCALES, *SCALES)
    evidence(10 * LENGTHSCALES, 0.1, 2.0, 3.0)
    again = evidence(LENGTHSCALES, *SCALES)
    assert again[0] == value
    np.testing.assert_array_equal(again[1], gradient)


def test_singular_covariance_has_no_evidence():
    X = np.zeros((5, 1))  # five times the same input, and noise below the last digit
    value, gradient = GaussianProcessEvidence(X, np.arange(5.0), False)(np.ones(1), 1.0, 1.0, 1e-12)
    assert value == np.inf
    np.testing.assert_array_equal(gradient, np.zeros(4))


def test_covariance_matrix_writes_both_triangles_asked_for(rng):
    X = rng.normal(size=(40, 3))
    U = rng.normal(size=(2, 40))
    out, kernel = np.full((40, 40), np.nan, order="F"), np.full((40, 40), np.nan, order="F")
    covariance_matrix(np.asfortranarray((X / LENGTHSCALES).T), 1.5, 0.1**2, U, out, kernel)
    nonlinear = 1.5**2 * oracles.squared_exponential(X, X, LENGTHSCALES)
    np.testing.assert_allclose(np.tril(kernel), np.tril(nonlinear), rtol=1e-12)
    full = nonlinear + U.T @ U + 0.01 * np.eye(40)
    np.testing.assert_allclose(np.tril(out), np.tril(full), rtol=2e-12, atol=3e-14)
