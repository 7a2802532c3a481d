"""KernelPosterior and its factors against the definition with the matrix G written out."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from forecast_unc import GPRegressor, ReducedRankGPRegressor, RVMRegressor
from forecast_unc.regression.posterior import Unstable, check_positive_variance
from tests import oracles
from tests.test_moments import built_by_hand, fitted, gp_by_hand


@pytest.fixture(params=[(), (-1,), (1,), (1, -1)], ids=str)
def posterior(request, rng):
    return built_by_hand(rng, 6, request.param)


@pytest.fixture
def X(rng):
    return rng.uniform(-3, 3, size=(8, 2))


@pytest.mark.parametrize(
    ("noise_var", "remedy"),
    [(1e-4, "The inputs have run far away"), (1e-8, "The noise is 0.0001 of the signal, too lit")],
)
def test_variances_that_are_not_positive_name_the_lowest_and_why(posterior, noise_var, remedy):
    """From a noise of .001 of the signal's std on the inputs are to blame."""
    given = replace(posterior, noise_var=noise_var * posterior.signal_var)
    with pytest.raises(Unstable, match=rf"variance must be positive; got -2\. {remedy}"):
        check_positive_variance(np.array([1.0, -2.0, -1.0]), given)


def test_prediction_is_the_definition(posterior, X):
    mean, std = oracles.explicit_predict(posterior, X)
    np.testing.assert_allclose(posterior.mean(X), mean, rtol=1e-12)
    np.testing.assert_allclose(posterior.predict(X), (mean, std**2), rtol=1e-12)


def test_features_are_the_definition(posterior, X):
    kernel, linear = posterior.features(X)
    phi = np.vstack([kernel, linear]).T
    np.testing.assert_allclose(phi, oracles.explicit_features(posterior, X), rtol=2e-13)


def test_covariance_is_the_definition(posterior, X):
    phi, centered = oracles.explicit_features(posterior, X), X - posterior.input_offset
    outside = posterior.kernel_var * oracles.squared_exponential(
        centered, centered, posterior.lengthscales
    )
    cov = posterior.covariance(X)
    np.testing.assert_allclose(
        cov, outside + phi @ oracles.explicit_G(posterior) @ phi.T, rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(cov, cov.T, atol=1e-14 * cov.max())
    _, var = posterior.predict(X)
    np.testing.assert_allclose(np.diagonal(cov), var - posterior.noise_var, rtol=1e-12)


def test_gradient_is_that_of_the_mean(posterior, X):
    by_differences = [oracles.finite_difference(lambda x: posterior.mean(x[None])[0], x) for x in X]
    np.testing.assert_allclose(posterior.gradient(X), by_differences, rtol=1e-7, atol=1e-9)


PLUS = {
    "gp": lambda X, y: GPRegressor().fit(X, y),
    "rvm": lambda X, y: RVMRegressor(linear=True).fit(X, y),
    "reduced rank": lambda X, y: ReducedRankGPRegressor(n_support=5).fit(X, y),
    "reduced rank augmented": lambda X, y: ReducedRankGPRegressor(
        n_support=5, variance="augmented"
    ).fit(X, y),
    "augmented": lambda X, y: RVMRegressor(variance="augmented").fit(X, y),
    "augmented linear": lambda X, y: RVMRegressor(variance="augmented", linear=True).fit(X, y),
}


@pytest.mark.parametrize("kind", ["by hand", *PLUS])
def test_plus_input_is_the_posterior_of_y_plus_the_input(rng, X, kind):
    column = len(kind) % 2
    if kind == "by hand":
        posterior = built_by_hand(rng, 6, (1, -1))
    else:
        y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(len(X))
        posterior = PLUS[kind](X + 5.0, y).posterior_
    plus = posterior.plus_input(column)
    assert type(plus) is type(posterior)
    near = X + getattr(posterior, "plain", posterior).input_offset + 0.2
    mean, var = posterior.predict(near)
    np.testing.assert_allclose(plus.mean(near), mean + near[:, column], rtol=1e-11)
    np.testing.assert_allclose(plus.predict(near), (mean + near[:, column], var), rtol=1e-11)
    unit = np.eye(2)[column]
    np.testing.assert_allclose(plus.gradient(near), posterior.gradient(near) + unit, rtol=1e-10)
    np.testing.assert_array_equal(plus.covariance(near), posterior.covariance(near))
    cov = np.array([[0.3, 0.1], [0.1, 0.2]])
    for method in ("taylor_moments", "moments")[: 1 if "augmented" in kind else 2]:
        plain, moved = (getattr(p, method)(near[0], cov) for p in (posterior, plus))
        # E[y + x_j], Var[y] + 2 Cov[y, x_j] + Var[x_j], slope + e_j
        var = plain.var + 2.0 * (cov @ plain.slope)[column] + cov[column, column]
        np.testing.assert_allclose(moved.mean, plain.mean + near[0, column], rtol=1e-9)
        np.testing.assert_allclose(moved.var, var, rtol=1e-7)
        np.testing.assert_allclose(moved.slope, plain.slope + unit, rtol=1e-9)
    if "augmented" not in kind:
        moments = plus.moments(near[0], cov)
        first, var, cross = oracles.quadrature_moments(
            lambda Z: (plus.predict(Z)[0], np.sqrt(plus.predict(Z)[1])), near[0], cov
        )
        np.testing.assert_allclose(moments.mean, first, rtol=1e-8)
        np.testing.assert_allclose(moments.var, var, rtol=1e-7)
        np.testing.assert_allclose(cov @ moments.slope, cross, rtol=1e-7)


def test_shift_of_inputs_and_outputs_shifts_everything(rng, X):
    posterior = built_by_hand(rng, 5, (1,))
    shift = np.array([100.0, -50.0])
    moved = replace(
        posterior,
        input_offset=posterior.input_offset + shift,
        output_offset=posterior.output_offset + 7.0,
    )
    far = X + shift
    np.testing.assert_allclose(moved.mean(far), posterior.mean(X) + 7.0, rtol=1e-11)
    np.testing.assert_allclose(moved.covariance(far), posterior.covariance(X), rtol=1e-11)
    cov = np.array([[0.3, 0.1], [0.1, 0.2]])
    here, there = posterior.moments(X[0], cov), moved.moments(far[0], cov)
    np.testing.assert_allclose(there.mean, here.mean + 7.0, rtol=1e-11)
    np.testing.assert_allclose(there.var, here.var, rtol=1e-11)
    np.testing.assert_allclose(there.slope, here.slope, rtol=1e-11)


def test_variance_at_the_data_keeps_its_digits(rng):
    # At a training input with tiny noise the latent variance is s^2 (1 - s^2 / k + ...): by a
    # triangular solve it is there, by the explicit G it is lost in roundoff.
    X = rng.uniform(-2, 2, size=(30, 1))
    gp = gp_by_hand(X, np.sin(X[:, 0]), [0.5], 1.0, [0.0], 0.0, 1e-4)
    _, var = gp.predict(X)
    assert (var > gp.noise_var).all()
    assert (var < 2.0 * gp.noise_var * (1 + 1e-6)).all()


def augmented(X):
    return RVMRegressor(variance="augmented").fit(X, np.sin(X[:, 0])).posterior_


@pytest.mark.parametrize("kind", ["by hand", "gp", "augmented"])
def test_path_is_the_covariance_of_its_inputs(rng, kind):
    X = rng.uniform(-2, 2, size=(12, 2))
    posterior = {
        "by hand": lambda: built_by_hand(rng, 6, (1, -1)),
        "gp": lambda: gp_by_hand(X, np.sin(X[:, 0]), [0.9, 1.4], 1.1, [0.3] * 2, 0.5, 0.1),
        "augmented": lambda: augmented(X),
    }[kind]()
    inputs = rng.uniform(-3, 3, size=(7, 3, 2))  # steps, paths, d
    whole, single = posterior.function_path(7, 3), posterior.function_path(7)
    for t in range(4):
        mean, row = whole.append(inputs[t])
        np.testing.assert_allclose(mean, posterior.mean(inputs[t]), rtol=1e-12)
        assert row.shape == (t + 1, 3)
        for path in range(3):
            cov = posterior.covariance(inputs[: t + 1, path])
            np.testing.assert_allclose(row[:, path], cov[t], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(single.append(inputs[t, 1:2])[1][:, 0], row[:, 1], rtol=1e-11)
    whole.take(np.array([1, 0, 1, 1]))
    for t in range(4, 7):
        _, row = whole.append(inputs[t][[1, 0, 1, 2]])
        for column, path in ((0, 1), (1, 0), (2, 1)):
            cov = posterior.covariance(inputs[: t + 1, path])
            np.testing.assert_allclose(row[:, column], cov[t], rtol=1e-10, atol=1e-12)
        # the last path has the past of the second and an input of its own
        mixed = np.concatenate([inputs[:4, 1], inputs[4 : t + 1, 2]])
        np.testing.assert_allclose(row[:, 3], posterior.covariance(mixed)[t], rtol=1e-10)
        np.testing.assert_allclose(single.append(inputs[t, 1:2])[1][:, 0], row[:, 0], rtol=1e-11)
    with pytest.raises(IndexError):  # there is no more room
        single.append(inputs[4, 1:2])


def test_error_of_the_observation_is_in_every_variance_and_in_no_covariance(posterior, X):
    both = replace(posterior, observation_var=0.2)
    np.testing.assert_allclose(both.predict(X)[1], posterior.predict(X)[1] + 0.2, rtol=1e-12)
    np.testing.assert_allclose(both.covariance(X), posterior.covariance(X), rtol=1e-12)
    for method in ("moments", "taylor_moments"):
        a, b = (getattr(p, method)(X[0], 0.1 * np.eye(2)) for p in (posterior, both))
        assert b.var == pytest.approx(a.var + 0.2, rel=1e-12)


def test_what_was_computed_is_no_part_of_a_pickle():
    X = np.random.default_rng(0).normal(size=(60, 2))
    posterior = GPRegressor(lengthscales=1.0).fit(X, np.sin(X[:, 0])).posterior_
    before = len(pickle.dumps(posterior))
    mean, cov = np.array([0.1, 0.3]), 0.1 * np.eye(2)
    moments = posterior.moments(mean, cov)
    assert len(pickle.dumps(posterior)) == before
    again = pickle.loads(pickle.dumps(posterior)).moments(mean, cov)
    np.testing.assert_allclose(again.var, moments.var, rtol=1e-12)


def test_posterior_is_frozen():
    with pytest.raises(FrozenInstanceError, match="noise_var"):
        fitted(2).posterior_.noise_var = 0.0
