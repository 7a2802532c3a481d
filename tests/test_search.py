"""The descent of the evidence: known minima, what it stops at, and what it loses."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from forecast_unc import GPRegressor, datasets
from forecast_unc.regression.search import descend
from forecast_unc.series.rows import lag_embedding

FREE = np.array([[-np.inf, np.inf]])


def quadratic(curvature):
    """0.5 sum_j c_j x_j^2 less 7, whose minimum is -7 at 0."""

    def objective(x):
        return float(0.5 * curvature @ x**2) - 7.0, curvature * x

    return objective


def test_a_quadratic_is_followed_to_its_minimum():
    curvature = np.geomspace(1e-2, 1e4, 12)
    found = descend(quadratic(curvature), np.ones(12), FREE.repeat(12, axis=0), 1e-6)
    assert found.converged
    assert found.value == pytest.approx(-7.0, abs=1e-5)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_has_no_value_does_not_converge(value):
    found = descend(lambda x: (value, np.zeros(2)), np.ones(2), FREE.repeat(2, axis=0), 1e-6)
    assert not found.converged
    assert not np.isfinite(found.value)


def test_a_bent_valley_is_followed_to_its_end():
    found = descend(
        lambda x: (float(rosen(x)), rosen_der(x)),
        np.array([-1.2, 1.0, -0.7, 1.3]),
        FREE.repeat(4, axis=0),
        1e-6,
    )
    assert found.converged
    assert found.value < 1e-4


def test_a_saddle_is_left():
    """x^2 (1 + y^2) / 2 - y^2 / 2 + y^4 / 4: 0 at the saddle, -1/4 at (0, 1) and (0, -1)."""

    def objective(z):
        x, y = z
        value = 0.5 * x**2 * (1 + y**2) - 0.5 * y**2 + 0.25 * y**4
        return float(value), np.array([x * (1 + y**2), x**2 * y - y + y**3])

    found = descend(objective, np.array([1.0, 1e-3]), FREE.repeat(2, axis=0), 0.01)
    assert found.value == pytest.approx(-0.25, abs=1e-3)


def test_bounds_hold_and_starts_are_taken_into_them():
    bounds = np.array([[0.5, 3.0], [-1.0, 1.0]])
    found = descend(quadratic(np.array([2.0, 5.0])), np.array([9.0, -4.0]), bounds, 1e-8)
    np.testing.assert_allclose(found.x, [0.5, 0.0], atol=1e-3)
    assert found.x[0] >= 0.5


def test_few_steps_are_no_arrival():
    found = descend(
        quadratic(np.geomspace(1e-2, 1e4, 12)), np.ones(12), FREE.repeat(12, 0), 1e-6, most=3
    )
    assert found.n_iter == 3
    assert not found.converged


def mackey_glass(n, noise):
    y = datasets.make_mackey_glass(n + 6).to_numpy()
    y = (y - y.mean()) / y.std() + noise * np.random.default_rng(0).standard_normal(n + 6)
    return lag_embedding(y, tuple(range(1, 7)), np.empty((len(y), 0)))


def sinc(n, noise):
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 5, (n, 1))
    return X, np.sinc(X[:, 0]) + noise * rng.standard_normal(n)


def autoregression(n, noise):
    rng, y = np.random.default_rng(0), np.zeros(n + 6)
    for t in range(2, n + 6):
        y[t] = 0.6 * y[t - 1] + 0.25 * y[t - 2] + noise * rng.standard_normal()
    return lag_embedding(y, tuple(range(1, 7)), np.empty((len(y), 0)))


@pytest.mark.parametrize(
    ("data", "n", "noise", "prior"),
    [
        (mackey_glass, 150, 1e-3, "weak"),
        (mackey_glass, 150, 0.05, "shrunk"),
        (mackey_glass, 150, 0.2, "weak"),
        (sinc, 40, 0.1, "weak"),
        (autoregression, 30, 1.0, "shrunk"),
        (autoregression, 120, 1.0, "weak"),
    ],
    ids=lambda value: value if not callable(value) else value.__name__,
)
def test_the_search_ends_within_a_tenth_of_a_nat(data, n, noise, prior):
    X, y = data(n, noise)
    usual, far = (GPRegressor(prior=prior, tol=tol).fit(X, y) for tol in (0.01, 1e-8))
    assert usual.converged_
    assert usual.n_iter_ <= far.n_iter_
    # the path is the same up to the stop; log_evidence_ is without the prior, which moves as little
    assert abs(usual.log_evidence_ - far.log_evidence_) < 0.1
    before, after = (gp.predict(X[-12:], return_std=True) for gp in (usual, far))
    np.testing.assert_allclose(before[0], after[0], atol=0.02 * after[1].min())
    np.testing.assert_allclose(before[1], after[1], rtol=0.02)
