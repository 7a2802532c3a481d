"""Evidence and bound of the reduced-rank model against their definitions with (n, n) matrices."""

import numpy as np
import pytest

from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import (
    BLOCK,
    JITTER,
    ReducedRankEvidence,
)
from tests import oracles

LENGTHSCALES = np.array([0.8, 1.7, 5.0])
SCALES = 1.3, 0.4, 0.2  # amplitude, linear scale, noise std


@pytest.fixture
def data(rng):
    X = rng.normal(size=(BLOCK + 30, 3))  # two blocks
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(len(X))
    centers = np.vstack([X[:9], X[:3] + 0.3])  # rows, and what is none
    return X, y, centers


def definition(X, y, centers, objective, linear, lengthscales, amplitude, linear_scale, noise):
    """-log N(y | 0, Q + s^2 I) from dense matrices, plus tr(K - Q) / (2 s^2) for the bound."""
    Kuu = oracles.squared_exponential(centers, centers, lengthscales)
    Kfu = oracles.squared_exponential(X, centers, lengthscales)
    Q = amplitude**2 * Kfu @ np.linalg.solve(Kuu + JITTER * np.eye(len(centers)), Kfu.T)
    nonlinear = np.diagonal(Q).copy()
    left = len(X) * amplitude**2 - np.trace(Q)
    if linear:
        Q += linear_scale**2 * X @ X.T + 1.0
    rest = amplitude**2 * np.diag(1.0 - nonlinear / amplitude**2)
    if objective == "fitc":
        Q += rest
    value = -oracles.gp_log_evidence(y, Q + noise**2 * np.eye(len(X)))
    return value + (0.5 * left / noise**2 if objective == "bound" else 0.0)


@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
@pytest.mark.parametrize("objective", ["evidence", "bound", "fitc"])
def test_value_and_gradient_are_those_of_the_definition(data, objective, linear):
    X, y, centers = data

    def at(log_theta):
        theta = np.exp(log_theta)
        return definition(X, y, centers, objective, linear, theta[:3], *theta[3:])

    model = ReducedRankEvidence(X, y, centers, linear, objective)
    value, gradient = model(LENGTHSCALES, *SCALES)
    theta = np.log(np.concatenate([LENGTHSCALES, SCALES]))
    np.testing.assert_allclose(value, at(theta), rtol=1e-9)
    # the differences lose the digits of the condition of K_uu: a tenth of 1 / JITTER at most
    expected = oracles.finite_difference(at, theta)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("objective", "length", "noise"),
    [
        ("evidence", 0.1, 3.0),
        ("evidence", 30.0, 1e-3),
        ("bound", 0.1, 1e-3),
        ("bound", 30.0, 3.0),
        ("fitc", 0.1, 1e-3),
        ("fitc", 30.0, 1e-3),
    ],
)
def test_at_any_condition_the_gradient_is_that_of_the_value(data, objective, length, noise):
    """From kernels that hardly overlap to a K_uu of rank 3, from no noise to nothing else."""
    X, y, centers = data
    model = ReducedRankEvidence(X, y, centers, True, objective)
    scales = length * np.array([1.0, 2.0, 3.0]), 1.3, 0.4, noise
    value, gradient = model(*scales)
    theta = np.log(np.concatenate([scales[0], scales[1:]]))

    def at(log_theta):
        one = np.exp(log_theta)
        return model(one[:3], *one[3:])[0]

    np.testing.assert_allclose(
        value, definition(X, y, centers, objective, True, *scales), rtol=1e-6
    )
    expected = oracles.finite_difference(at, theta)
    # of wide kernels and next to no noise 1e-5 of the largest entry is left of the differences
    atol = 1e-4 * np.abs(gradient).max() + 1e-4
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=atol)


def test_with_all_rows_as_centers_it_is_the_exact_evidence(rng):
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(60)
    exact, slope = GaussianProcessEvidence(X, y, True)(np.array([0.5, 0.7]), 1.0, 0.4, 0.3)
    for objective in ("evidence", "bound"):
        model = ReducedRankEvidence(X, y, X, True, objective=objective)
        value, gradient = model(np.array([0.5, 0.7]), 1.0, 0.4, 0.3)
        # the jitter is 1e-5 of the noise's variance, of each of 60 rows
        np.testing.assert_allclose(value, exact, atol=60 * 2e-5)
        np.testing.assert_allclose(gradient, slope, atol=60 * 2e-4)


def test_the_bound_is_below_the_evidence_of_the_exact_process(data):
    X, y, centers = data
    exact, _ = GaussianProcessEvidence(X, y, True)(LENGTHSCALES, *SCALES)
    for k in (3, 6, 12):
        bound, _ = ReducedRankEvidence(X, y, centers[:k], True, objective="bound")(
            LENGTHSCALES, *SCALES
        )
        assert bound > exact


@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
@pytest.mark.parametrize("objective", ["evidence", "bound"])
def test_the_noise_profile_is_the_value_at_each_noise(data, objective, linear):
    X, y, centers = data
    model = ReducedRankEvidence(X, y, centers, linear, objective=objective)
    stds = np.array([0.05, 0.2, 1.0])
    values = [model(LENGTHSCALES, 1.3, 0.4, std)[0] for std in stds]
    profile = model.noise_profile(LENGTHSCALES, 1.3, 0.4, stds)
    np.testing.assert_allclose(profile, values, rtol=1e-8)
