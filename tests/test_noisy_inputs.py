"""Noisy inputs in training: evidence, posteriors and trainers against their definitions."""

import functools
import importlib

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from forecast_unc import Forecaster, GPRegressor
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.noisy_inputs.noisy_inputs_evidence import (
    blurred_evidence,
    log_evidence,
    smoothed_inputs,
)
from forecast_unc.regression.noisy_inputs.noisy_inputs_training import (
    Learned,
    Problem,
    Round,
    _Rows,
    annealed,
    held_out_density,
    joint_maximum,
    nigp_terms,
    sweep,
)
from forecast_unc.regression.search import SearchSpace
from tests import oracles

KINDS = ["nigp", "annealed", "stochastic_em"]
# The last takes three seconds on 60 rows, and is fitted to 14 besides.
FITTED = [*KINDS[:2], pytest.param(KINDS[2], marks=pytest.mark.slow)]
LENGTHSCALES, AMPLITUDE, TAU, NOISE_STD, BIAS = np.array([0.8, 1.7]), 1.3, 0.4, 0.2, 0.9
SCALES = LENGTHSCALES, AMPLITUDE, np.full(2, TAU), BIAS
BLUR = np.array([0.3, 0.1])


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(12, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(12)
    return X, y, rng.uniform(0.02, 0.3, 12)


def row_evidence(X, y, linear=True, groups=(0, 0)):
    return GaussianProcessEvidence(X, y, linear, groups, BIAS)


# Evidence


def test_log_evidence_from_a_posterior_is_that_of_the_search():
    X = np.linspace(-2.0, 2.0, 25)[:, None]
    gp = GPRegressor().fit(X, np.sin(2.0 * X[:, 0]) + 0.1 * np.cos(9.0 * X[:, 0]))
    found = log_evidence(gp.posterior_, gp.amplitude_)
    np.testing.assert_allclose(found, gp.log_evidence_, rtol=1e-7)


@pytest.mark.parametrize("linear", [True, False], ids=["linear", "no linear"])
def test_row_evidence_and_its_gradients(rows, linear):
    X, y, row_var = rows

    def definition(lengthscales, amplitude, tau, row_var, X):
        linear_part = (np.full(2, tau), BIAS) if linear else (np.zeros(2), 0.0)
        K = oracles.gp_kernel(X, X, lengthscales, amplitude, *linear_part)
        return -oracles.gp_log_evidence(y, K + np.diag(row_var))

    at = np.log([*LENGTHSCALES, AMPLITUDE, TAU])
    evidence = row_evidence(np.zeros_like(X), y, linear)
    terms = evidence.of_rows(X, LENGTHSCALES, AMPLITUDE, np.array([TAU]), row_var)
    scales = LENGTHSCALES, AMPLITUDE, TAU
    np.testing.assert_allclose(terms.value, definition(*scales, row_var, X), rtol=1e-10)
    for gradient, function, point in (
        (terms.hyper, lambda x: definition(np.exp(x[:2]), *np.exp(x[2:]), row_var, X), at),
        (terms.row_var, lambda v: definition(*scales, v, X), row_var),
        (terms.inputs.ravel(), lambda x: definition(*scales, row_var, x.reshape(X.shape)), X),
    ):
        expected = oracles.finite_difference(function, point.ravel())
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_row_evidence_of_groups(rows):
    X, y, row_var = rows
    tau = np.array([0.4, 0.9])

    def definition(log_tau):
        K = oracles.gp_kernel(
            X, X, LENGTHSCALES, AMPLITUDE, np.append(0.0, np.exp(log_tau[1])), BIAS
        )
        return -oracles.gp_log_evidence(y, K + np.diag(row_var))

    evidence = row_evidence(X, y, groups=(-1, 1))
    terms = evidence.of_rows(X, LENGTHSCALES, AMPLITUDE, tau, row_var)
    expected = oracles.finite_difference(definition, np.log(tau))
    np.testing.assert_allclose(terms.hyper[3:], expected, rtol=1e-5, atol=1e-6)


def test_slopes_are_those_of_the_posterior_mean(rows):
    X, y, row_var = rows
    evidence = row_evidence(X, y)
    tau = np.array([TAU])
    weights = evidence.of_rows(X, LENGTHSCALES, AMPLITUDE, tau, row_var).weights
    slopes = evidence.slopes(X, LENGTHSCALES, AMPLITUDE, tau, weights)
    b = np.linalg.solve(oracles.gp_kernel(X, X, *SCALES) + np.diag(row_var), y)
    for x, slope in zip(X, slopes, strict=True):
        mean = lambda at: (oracles.gp_kernel(at[None], X, *SCALES) @ b).item()  # noqa: E731
        np.testing.assert_allclose(slope, oracles.finite_difference(mean, x), rtol=1e-6, atol=1e-7)


def expected_kernel(X, blur, scales=SCALES):
    """E[k(x_i, x_j)] for x_i ~ N(u_i, diag(blur)), of one row with itself E[k(x_i, x_i)]."""
    K = np.empty((len(X), len(X)))
    nodes, p = oracles.quadrature(np.zeros(4), np.diag(np.tile(blur, 2)), 12)
    for i, u in enumerate(X):
        for j, v in enumerate(X):
            first = u + nodes[:, :2]
            second = first if i == j else v + nodes[:, 2:]
            distance = (((first - second) / scales[0]) ** 2).sum(axis=1)
            linear = (first * second) @ scales[2] ** 2 + scales[3] ** 2
            K[i, j] = p @ (scales[1] ** 2 * np.exp(-0.5 * distance) + linear)
    return K


def test_blurred_evidence_is_that_of_the_expected_kernel(rows):
    X, y, _ = rows
    X, y = X[:6], y[:6]
    plain = GaussianProcessEvidence(X, y, True, np.zeros(2, dtype=int), BIAS)
    evidence = blurred_evidence(plain, BLUR)
    value, gradient = evidence(LENGTHSCALES, AMPLITUDE, TAU, NOISE_STD)
    K = expected_kernel(X, BLUR) + NOISE_STD**2 * np.eye(6)
    np.testing.assert_allclose(-value, oracles.gp_log_evidence(y, K), rtol=1e-6)
    at = np.log([*LENGTHSCALES, AMPLITUDE, TAU, NOISE_STD])
    expected = oracles.finite_difference(lambda x: evidence(np.exp(x[:2]), *np.exp(x[2:]))[0], at)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def problem(X, y, input_cov=None, free=5):
    start = np.log([*LENGTHSCALES, AMPLITUDE, TAU, NOISE_STD])
    bounds = np.tile([-9.0, 4.0], (5, 1))
    log_std, learned = np.full(5, 1.5), np.arange(5) < free
    space = SearchSpace(2, start, learned, np.zeros(5), log_std, bounds, least_ratio=1e-2)
    return Problem(row_evidence(X, y), space, start, input_cov, tol=1e-12)


def test_log_evidence_beside_slopes_is_that_of_the_rows_with_their_noise(rows):
    X, y, _ = rows
    X, y, added = X[:6], y[:6], np.linspace(0.1, 0.3, 6)
    p = problem(X, y)
    _, value = p.slopes(p.start, X, added)
    noise_var = NOISE_STD**2 + (1e-2 * AMPLITUDE) ** 2 + added
    K = expected_kernel(X, np.zeros(2)) + np.diag(noise_var)
    np.testing.assert_allclose(value, oracles.gp_log_evidence(y, K), rtol=1e-9)


def test_annealing_has_converged_if_its_best_level_is_not_the_last(rows, monkeypatch):
    X, y, _ = rows
    p, train = problem(X, y), importlib.import_module(Problem.__module__)
    start = train.Learned(p.start, 0.01 * np.eye(2), X, np.zeros_like(X), [], True, 0)
    monkeypatch.setattr(train, "annealed", lambda *given: iter([start] * len(given[-1])))
    for best in (11, 12, 13):
        scores = (-abs(level - best) for level in range(14) for _ in range(5))
        monkeypatch.setattr(train, "held_out_density", lambda *_, scores=scores: next(scores))
        found = train.learn_annealed(p, start)
        assert len(found.rounds) == 14
        assert found.converged == (best < 13)


@pytest.mark.parametrize(("drift", "rest"), [(0.0, True), (0.004, True), (0.1, False)])
def test_rounds_have_settled_unless_they_drift(drift, rest):
    settled = importlib.import_module(Problem.__module__).settled
    stds = 0.01 * np.exp(drift * np.arange(24.0))
    for rounds in (
        [Round(one, np.array([0.3]), 0.0) for one in stds],
        [Round(0.3, np.array([one]), 0.0) for one in stds],
    ):
        assert settled(rounds) == rest


def test_input_noise_of_samples_is_between_theirs_and_its_prior(rows):
    """log s has the precision 2 n of the samples and 1 / 1.5^2 of its prior, around .1."""
    X, y, _ = rows
    p, n = problem(X, y), len(X)
    for std in (0.1, 0.4):
        samples = np.full((3, n, 2), std)
        found = p.input_cov_of(samples)
        expected = np.average(np.log([std, 0.1]), weights=[2.0 * n, 1.5**-2])
        np.testing.assert_allclose(found, np.exp(2.0 * expected) * np.eye(2), rtol=1e-12)


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
def test_gradient_of_nigp(rows, rng, known):
    X, y, _ = rows
    p = problem(X, y, np.diag(BLUR) if known else None)
    slopes, log_std = rng.normal(size=X.shape), np.log([0.2, 0.5])[: 0 if known else 2]

    def objective(x):
        value, *gradients = nigp_terms(p, slopes, x[:5], x[5:])
        return value, np.concatenate(gradients)

    at = np.append(p.start, log_std)
    expected = oracles.finite_difference(lambda x: objective(x)[0], at)
    np.testing.assert_allclose(objective(at)[1], expected, rtol=1e-5, atol=1e-5)


# Posteriors


@pytest.fixture
def process():
    linear_std = np.array([TAU, TAU, BIAS])
    return GaussianProcess(
        LENGTHSCALES, AMPLITUDE, linear_std, NOISE_STD, np.zeros(2), 0.5, np.zeros(2)
    )


def dense(K, cross, own, y):
    """Mean and covariance of the function from the covariances of rows and inputs."""
    solved = np.linalg.solve(K, cross.T)
    return 0.5 + solved.T @ (y - 0.5), own - cross @ solved


def test_posterior_of_rows_with_their_own_noise(rows, rng, process):
    X, y, row_var = rows
    new = rng.normal(size=(4, 2))
    posterior = process.posterior(X, y, row_var=row_var)
    K = oracles.gp_kernel(X, X, *SCALES) + np.diag(row_var)
    cross, own = (oracles.gp_kernel(new, other, *SCALES) for other in (X, new))
    mean, cov = dense(K, cross, own, y)
    np.testing.assert_allclose(posterior.mean(new), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.covariance(new), cov, atol=1e-10)
    np.testing.assert_allclose(posterior.predict(new)[1], np.diag(cov) + NOISE_STD**2, rtol=1e-8)


def test_functions_drawn_have_the_noise_of_each_row(rows, rng, process):
    X, y, _ = rows
    row_var = np.where(np.arange(12) % 2, 1e-3, 3.0)
    posterior = process.posterior(X, y, row_var=row_var)
    functions = posterior.function_sample(3000, rng)
    for x in X[:2]:
        values = functions(np.tile(x, (3000, 1)))
        std = np.sqrt(posterior.covariance(x[None]).item())
        assert abs(values.mean() - posterior.mean(x[None]).item()) < 4 * std / np.sqrt(3000)
        # a set of features is off by some per cent besides
        np.testing.assert_allclose(values.std(), std, rtol=0.15)


def test_posterior_of_blurred_rows(rows, rng, process):
    X, y, _ = rows
    X, y, new = X[:5], y[:5], rng.normal(size=(3, 2))
    posterior = process.posterior(X, y, blur=BLUR)
    nodes, p = oracles.quadrature(np.zeros(2), np.diag(BLUR), 20)
    cross = np.array([[p @ oracles.gp_kernel(u + nodes, x[None], *SCALES) for u in X] for x in new])
    K = expected_kernel(X, BLUR) + NOISE_STD**2 * np.eye(5)
    mean, cov = dense(K, cross[..., 0], oracles.gp_kernel(new, new, *SCALES), y)
    np.testing.assert_allclose(posterior.mean(new), mean, rtol=1e-6)
    np.testing.assert_allclose(posterior.covariance(new), cov, atol=1e-6)
    path = posterior.function_path(3)
    steps = [path.append(x[None])[1][:, 0] for x in new]
    np.testing.assert_allclose(steps[2], cov[2], atol=1e-6)
    assert posterior.function_sample(2, rng) is None


@pytest.mark.parametrize("cov", [np.diag(BLUR), [[0.3, 0.15], [0.15, 0.1]], [[0.2, 0], [0, 0]]])
def test_smoothed_inputs_are_the_most_probable(rows, process, cov):
    X, y, row_var = rows
    cov, curve = np.array(cov, dtype=float), process.posterior(X, y, row_var=row_var)
    root, noise_var = np.linalg.cholesky(cov + 1e-12 * np.eye(2)), 0.3**2
    x = smoothed_inputs(curve, X[:4], y[:4], cov, noise_var)

    def loss(c, u, t):
        return (t - curve.mean((u + root @ c)[None]).item()) ** 2 / noise_var + c @ c

    for found, u, t in zip(x, X, y, strict=False):
        best = minimize(loss, np.zeros(2), (u, t), method="Nelder-Mead", options={"fatol": 1e-10})
        at = np.linalg.solve(root, found - u)
        assert loss(at, u, t) < best.fun + 1e-6
    if cov[1, 1] == 0.0:
        np.testing.assert_array_equal(x[:, 1], X[:4, 1])


# Trainers


def test_inputs_are_drawn_from_their_posterior(rng):
    U, y = np.array([[-0.4, 0.0], [0.5, 0.2]]), np.array([-0.9, 0.3])
    p, cov = problem(U, y), np.array([[0.3, 0.0], [0.0, 1e-12]])
    shift, roots, shifts = np.zeros((2, 2)), np.tile(np.sqrt(cov), (2, 1, 1)), np.empty((2000, 2))
    for row in shifts:
        shift = sweep(p, p.start, shift, roots, rng)
        row[:] = shift[:, 0]
    nodes, weight = oracles.quadrature(np.zeros(2), 0.3 * np.eye(2), 40)
    noise_var = NOISE_STD**2 + (1e-2 * AMPLITUDE) ** 2

    def density(shift):
        X = U + np.column_stack([shift, np.zeros(2)])
        K = oracles.gp_kernel(X, X, *SCALES) + noise_var * np.eye(2)
        return np.exp(oracles.gp_log_evidence(y, K))

    weight = weight * [density(node) for node in nodes]
    weight /= weight.sum()
    # of batches of 40 sweeps, which are nearly independent
    for power in (1, 2):
        batches = (shifts**power).reshape(50, 40, 2).mean(axis=1)
        error = batches.std(axis=0) / np.sqrt(50)
        assert (np.abs(batches.mean(axis=0) - weight @ nodes**power) < 4.0 * error).all()
    both = shifts.prod(axis=1).reshape(50, 40).mean(axis=1)
    assert abs(both.mean() - weight @ nodes.prod(axis=1)) < 4.0 * both.std() / np.sqrt(50)


def test_annealing_follows_the_joint_maximum(rows):
    """Of a part of the rows, whose noise is correlated and differs: stationary at each level."""
    X, y, _ = rows
    p, kept = problem(X, y), np.array([0, 1, 3, 4, 5, 7, 8, 9, 10, 11])
    S = np.array([[0.09, 0.03], [0.03, 0.04]]) * np.linspace(0.5, 1.5, 12)[:, None, None]
    *_, before, found = annealed(p, kept, S, np.full(14, np.log(NOISE_STD)))
    assert found.n_iter >= before.n_iter > 9
    np.testing.assert_array_equal(found.input_cov, S[kept])
    np.testing.assert_allclose(found.theta[4], np.log(NOISE_STD))

    def definition(x):
        l, a, tau, s = np.exp(x[:2]), *np.exp(x[2:4]), NOISE_STD
        at = x[4:].reshape(10, 2)
        K = oracles.gp_kernel(at, at, l, a, np.full(2, tau), BIAS)
        K += (s**2 + (1e-2 * a) ** 2) * np.eye(10)
        away = at - X[kept]
        far = np.einsum("nd,nde,ne->", away, np.linalg.inv(S[kept]), away)
        return -oracles.gp_log_evidence(y[kept], K) + 0.5 * (x[:4] @ x[:4] / 1.5**2 + far)

    at = np.append(found.theta[:4], found.inputs.ravel())
    assert np.abs(oracles.finite_difference(definition, at)).max() < 2e-2
    l, (a, tau, s) = np.exp(found.theta[:2]), np.exp(found.theta[2:])
    K = oracles.gp_kernel(found.inputs, found.inputs, l, a, np.full(2, tau), BIAS)
    b = np.linalg.solve(K + (s**2 + (1e-2 * a) ** 2) * np.eye(10), y[kept])
    for x, slopes in zip(found.inputs, found.slopes, strict=True):

        def mean(x):
            return (oracles.gp_kernel(x[None], found.inputs, l, a, np.full(2, tau), BIAS) @ b)[0]

        np.testing.assert_allclose(slopes, oracles.finite_difference(mean, x), rtol=1e-5, atol=1e-7)


def test_annealing_takes_the_level_that_explains_what_was_left_out(rows, monkeypatch):
    X, y, _ = rows
    p, train = problem(X, y), importlib.import_module(Problem.__module__)
    start, asked, left_out = plain_start(p), [], []

    def descent(_, kept, S, levels):
        asked.append((kept, levels))
        return iter([start._replace(n_iter=i) for i in range(len(levels))])

    def density(_, found, kept, out, S):
        left_out.append((kept, out))
        return -((found.n_iter - 3.0) ** 2) * len(out)

    monkeypatch.setattr(train, "annealed", descent)
    monkeypatch.setattr(train, "held_out_density", density)
    found = train.learn_annealed(p, start)
    for fold, (kept, out) in enumerate(left_out[:5]):
        np.testing.assert_array_equal(out, np.arange(fold, 12, 5))
        np.testing.assert_array_equal(np.sort([*kept, *out]), np.arange(12))
        np.testing.assert_array_equal(asked[fold][0], kept)
    levels = 0.5 * np.log(NOISE_STD**2 + (1e-2 * AMPLITUDE) ** 2) + np.log(0.75) * np.arange(14)
    np.testing.assert_allclose(asked[0][1], levels)
    assert len(left_out) == 5 * 8  # four levels in a row after that of 3
    kept, followed = asked[5]
    np.testing.assert_array_equal(kept, np.arange(12))
    np.testing.assert_allclose(followed, levels[:4])
    assert found.n_iter == 3
    assert found.converged
    np.testing.assert_allclose([r.noise_std for r in found.rounds], np.exp(levels[:8]))
    scores = [r.score for r in found.rounds]
    np.testing.assert_allclose(scores, -((np.arange(8) - 3.0) ** 2))
    np.testing.assert_allclose(found.rounds[0].input_std, [0.3, 0.2])
    # noise that is given, or fewer than ten rows: at the first level alone
    for few in (problem(X, y, free=4), problem(X[:9], y[:9])):
        found = train.learn_annealed(few, start)
        assert len(asked[-1][1]) == len(found.rounds) == 1
    assert len(left_out) == 5 * 8
    train.learn_annealed(problem(X[:10], y[:10]), start)
    assert len(left_out) == 2 * 5 * 8


def plain_start(p):
    nothing = np.zeros_like(p.X)
    return Learned(p.start, np.diag([0.09, 0.04]), p.X, nothing, [], True, 0)


def test_density_of_what_was_left_out_is_that_of_the_others(rows):
    """Of known inputs the conditional of the joint density."""
    X, y, _ = rows
    p, kept, out = problem(X, y), np.arange(9), np.array([9, 11])
    none = np.zeros((12, 2, 2))
    found = plain_start(p)._replace(inputs=X[:9], slopes=np.ones((9, 2)), input_cov=none[:9])
    K = oracles.gp_kernel(X, X, *SCALES) + (NOISE_STD**2 + (1e-2 * AMPLITUDE) ** 2) * np.eye(12)

    def density(at):
        return oracles.gp_log_evidence(y[at], K[np.ix_(at, at)])

    expected = sum(density(np.append(kept, i)) - density(kept) for i in out)
    np.testing.assert_allclose(held_out_density(p, found, kept, out, none), expected, rtol=1e-9)


def test_stochastic_em_averages_the_second_half_of_its_rounds(rows, monkeypatch):
    X, y, _ = rows
    p, train = problem(X, y), importlib.import_module(Problem.__module__)
    calls, last = iter(range(10**6)), []
    monkeypatch.setattr(train, "sweep", lambda *_: np.full((12, 2), 0.1 + 1e-4 * next(calls)))
    monkeypatch.setattr(train, "settled", lambda rounds: last.append(len(rounds)) or len(last) == 3)
    seen = []

    def search(evaluate, theta, more, bounds, most):
        if not seen:
            seen.append(evaluate(theta, more))
        return theta + 0.01, more, 2

    monkeypatch.setattr(p, "search", search)
    monkeypatch.setattr(p, "slopes", lambda at, X: (at[0] * X, at[1] + X.sum()))
    found = train.learn_stochastic_em(p, plain_start(p), None)
    assert last == [24, 36, 48]
    assert found.converged
    assert len(found.rounds) == 48
    assert found.n_iter == 2 * 48
    np.testing.assert_allclose(found.theta, p.start + 0.01 * np.arange(1, 49)[24:].mean())
    shifts = 0.1 + 1e-4 * np.arange(8 * 48).reshape(48, 8)
    np.testing.assert_allclose(found.inputs, X + shifts[24:].mean())
    stds = [
        np.sqrt(np.diag(p.input_cov_of(each[:, None, None] * np.ones((12, 2))))) for each in shifts
    ]
    np.testing.assert_allclose([r.input_std for r in found.rounds], stds)
    noises = [p.log_noise(p.start + 0.01 * k) for k in range(1, 49)]
    np.testing.assert_allclose([r.noise_std for r in found.rounds], np.exp(noises))
    variances = np.exp(2.0 * np.log(stds)[24:].mean(axis=0))
    np.testing.assert_allclose(found.input_cov, np.diag(variances))
    first = [p(p.start, X + shift)[:2] for shift in shifts[0]]
    np.testing.assert_allclose(seen[0][0], np.mean([value for value, _ in first]))
    np.testing.assert_allclose(seen[0][1], np.mean([slopes for _, slopes in first], axis=0))
    means, at = shifts.mean(axis=1), p.start + 0.01 * np.arange(1, 49)[:, None]
    slopes = at[:, :1, None] * (X + means[:, None, None])
    np.testing.assert_allclose(found.slopes, slopes[24:].mean(axis=0))
    scores = at[:, 1] + X.sum() + X.size * means
    np.testing.assert_allclose([r.score for r in found.rounds], scores)
    monkeypatch.setattr(train, "settled", lambda rounds: False)
    restless = train.learn_stochastic_em(p, plain_start(p), None)
    assert len(restless.rounds) == 96
    assert not restless.converged


def test_a_row_is_taken_out_predicted_and_put_in_as_by_the_whole_matrix(rows):
    X, y, _ = rows
    p = problem(X, y)
    held, noise_var = _Rows(p, p.start, X.copy()), NOISE_STD**2 + (1e-2 * AMPLITUDE) ** 2
    others, x = np.delete(np.arange(12), 4), np.array([0.3, -1.1])

    def covariance(X):
        return oracles.gp_kernel(X, X, *SCALES) + noise_var * np.eye(len(X))

    taken, moved = held.take_out(4), held.candidate(4, x)
    for found, at in ((taken, X[4]), (moved, x)):
        K = covariance(np.vstack([X[others], at]))
        solved = np.linalg.solve(K[:-1, :-1], K[:-1, -1])
        np.testing.assert_allclose(found.solved[others], solved, atol=1e-10)
        np.testing.assert_allclose(found.var, K[-1, -1] - K[-1, :-1] @ solved, rtol=1e-9)
        np.testing.assert_allclose(found.innovation, y[4] - solved @ y[others], rtol=1e-9)
        density = oracles.gp_log_evidence(np.append(y[others], y[4]), K)
        density -= oracles.gp_log_evidence(y[others], K[:-1, :-1])
        np.testing.assert_allclose(found.log_density - 0.5 * np.log(2.0 * np.pi), density)
    held.put_in(4, moved)
    at = X.copy()
    at[4] = x
    P = np.linalg.inv(covariance(at))
    np.testing.assert_allclose(held.P, P, atol=1e-9 * np.abs(P).max())
    np.testing.assert_allclose(held.b, P @ y, atol=1e-9 * np.abs(P).max())


@functools.cache
def sinc(n=60, input_std=0.5, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-10, 10, n)
    y = np.sinc(x / np.pi) + 0.05 * rng.standard_normal(n)
    return (x + input_std * rng.standard_normal(n))[:, None], y


@functools.cache
def fitted(kind):
    return GPRegressor(noisy_inputs=kind, linear=False, random_state=0).fit(*sinc())


def test_the_joint_maximum_explains_the_targets_by_their_inputs_if_the_noise_is_learned():
    X, y = sinc()
    p = problem(np.column_stack([X / X.std(), np.zeros(60)]), (y - y.mean()) / y.std())
    roots = np.tile(np.diag([0.5 / X.std(), 0.0]), (60, 1, 1))
    theta, shift = p.start, np.zeros((60, 2))
    for _ in range(30):
        theta, shift, _ = joint_maximum(p, theta, shift, roots)
    assert np.exp(theta[-1]) * y.std() < 0.25 * 0.05


@pytest.mark.parametrize("kind", FITTED)
def test_trainers_beat_the_fit_that_ignores_input_noise(kind):
    rng = np.random.default_rng(7)
    x = rng.uniform(-10, 10, 500)
    y = np.sinc(x / np.pi) + 0.05 * rng.standard_normal(500)
    densities = []
    for gp in (fitted(kind), fitted(None)):
        mean, std = gp.predict(x[:, None], return_std=True)
        densities.append(np.mean(-0.5 * ((y - mean) / std) ** 2 - np.log(std)))
    assert densities[0] > densities[1] + 0.05
    assert 0.02 < fitted(kind).noise_std_ < 0.08 < fitted(None).noise_std_
    assert 0.3 < np.sqrt(fitted(kind).input_cov_.item()) < 0.8


def draw_of_the_prior(n=300, input_std=0.2):
    """Rows of a function drawn with length-scale and amplitude 1, and noise of std 0.1."""
    rng = np.random.default_rng(11)
    x = rng.uniform(-15, 15, (n, 1))
    K = oracles.squared_exponential(x, x, [1.0]) + 0.1**2 * np.eye(n)
    return x + input_std * rng.standard_normal((n, 1)), np.linalg.cholesky(K) @ rng.standard_normal(
        n
    )


def test_input_noise_is_learned_from_many_rows():
    gp = GPRegressor(noisy_inputs="nigp", linear=False).fit(*draw_of_the_prior())
    np.testing.assert_allclose(np.sqrt(gp.input_cov_.item()), 0.2, rtol=0.2)
    np.testing.assert_allclose(gp.noise_std_, 0.1, rtol=0.3)
    assert gp.converged_


def test_log_evidence_of_nigp_is_that_of_its_rows():
    X, y = sinc()
    gp = fitted("nigp")
    K = gp.amplitude_**2 * oracles.squared_exponential(X, X, gp.lengthscales_)
    slopes = gp._curve.gradient(X)
    K += np.diag(gp.noise_std_**2 + slopes[:, 0] ** 2 * gp.input_cov_.item())
    expected = oracles.gp_log_evidence(y - y.mean(), K)
    np.testing.assert_allclose(gp.log_evidence_, expected, rtol=1e-8)
    # the fixed point: the slopes of the curve are those of the posterior that rests on them
    np.testing.assert_allclose(slopes, gp.posterior_.gradient(X), atol=5e-3 * np.abs(slopes).max())


@pytest.mark.parametrize("kind", [None, *KINDS[:2]])
def test_known_noise_of_nothing_changes_nothing(kind):
    X, y = sinc()
    if kind == "annealed":
        gp = GPRegressor(noisy_inputs=kind, linear=False, noise_std=0.1)
        plain = clone(gp).set_params(noisy_inputs=None).fit(X, y)
    else:
        gp, plain = GPRegressor(noisy_inputs=kind, linear=False, random_state=0), fitted(None)
    gp.fit(X, y, input_cov=[0.0])
    for now, then in zip(
        gp.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(now, then, atol=2e-3)


def test_known_noise_is_not_taken_for_noise_of_the_targets():
    X, y = draw_of_the_prior()
    gp = GPRegressor(linear=False).fit(X, y, input_cov=[0.2**2])
    np.testing.assert_allclose(gp.noise_std_, 0.1, rtol=0.3)
    assert GPRegressor(linear=False).fit(X, y).noise_std_ > 1.8 * gp.noise_std_
    np.testing.assert_allclose(gp.input_cov_, [[0.2**2]], rtol=1e-12)


def test_shapes_of_the_same_noise_agree():
    X, y = sinc(30)
    variances, matrix, each = (
        GPRegressor(noisy_inputs="nigp", linear=False).fit(X, y, input_cov=cov).predict(X)
        for cov in ([0.25], [[0.25]], np.full((30, 1, 1), 0.25))
    )
    np.testing.assert_allclose(matrix, variances, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(each, variances, atol=1e-2 * y.std())  # rounds end at 1e-3


@pytest.mark.parametrize("kind", KINDS[1:])
def test_noise_can_differ_between_the_rows(kind):
    X, y = sinc(14)
    cov = np.where(np.arange(14) < 7, 1.0, 0.0)[:, None, None]
    gp = GPRegressor(noisy_inputs=kind, linear=False, random_state=0).fit(X, y, input_cov=cov)
    moved = gp.posterior_.centers + gp.posterior_.input_offset - X
    assert np.abs(moved[:7]).min() > 0.0
    np.testing.assert_allclose(moved[7:], 0.0, atol=1e-12)
    assert len(gp.rounds_) >= {"annealed": 1, "stochastic_em": 24}[kind]


@pytest.mark.parametrize("kind", FITTED)
def test_conditioning_on_the_same_rows_is_the_fit(kind):
    X, y = sinc()
    gp = fitted(kind)
    again = gp.condition(X, y)
    np.testing.assert_allclose(again.predict(X), gp.predict(X), rtol=1e-9)
    X_new = np.append(X, [[1.0]], axis=0)
    more = gp.condition(X_new, np.append(y, 5.0))
    assert more.predict([[1.0]]) > gp.predict([[1.0]])
    means = gp.leading_means(X, y, [30, 60])(np.array([[2.0], [2.0]]))
    expected = [gp.condition(X[:30], y[:30]).predict([[2.0]]), gp.predict([[2.0]])]
    np.testing.assert_allclose(means, np.ravel(expected), rtol=1e-9)


def test_noise_of_the_rows_of_a_fit_says_nothing_of_others():
    X, y = sinc()
    gp = GPRegressor(noisy_inputs="nigp").fit(X, y, input_cov=np.full((60, 1, 1), 0.1))
    with pytest.raises(ValueError, match=r"input_cov must be given for these 59 rows"):
        gp.condition(X[:-1], y[:-1])
    gp.condition(X[:-1], y[:-1], input_cov=[0.1])


def test_units_change_nothing():
    X, y = sinc()
    gp, other = (
        fitted("nigp"),
        GPRegressor(noisy_inputs="nigp", linear=False).fit(9 * X, 3 + 0.1 * y),
    )
    change = (other.predict(9 * X) - 3) / 0.1 - gp.predict(X)
    assert np.abs(change).max() < 1e-2 * y.std()  # rounds end at 1e-3
    np.testing.assert_allclose(other.input_cov_, 81 * gp.input_cov_, rtol=2e-2)
    learned = np.sqrt(np.diagonal(other.input_cov_))
    np.testing.assert_allclose(other.rounds_[-1].input_std, learned, rtol=2e-2)


def test_rounds_are_recorded():
    for kind, n in (("nigp", 2), ("annealed", 5)):
        rounds = fitted(kind).rounds_
        assert len(rounds) >= n
        assert np.isfinite([r.score for r in rounds]).all()
    levels = fitted("annealed").rounds_
    best = max(levels, key=lambda r: r.score)
    np.testing.assert_allclose(best.noise_std, fitted("annealed").noise_std_, rtol=1e-2)
    assert fitted(None).rounds_ == []


@pytest.mark.parametrize("kind", [FITTED[0], FITTED[2]])
def test_forecasts_update_and_keep_their_model(kind, tmp_path, rng):
    y = pd.Series(np.sin(0.7 * np.arange(48)) + 0.1 * rng.standard_normal(48))
    model = Forecaster(GPRegressor(noisy_inputs=kind, random_state=0), lags=2, differences=())
    model.fit(y[:40])
    before = model.forecast(4)
    assert np.abs(before.mean - np.sin(0.7 * np.arange(40, 44))).max() < 0.6
    after = model.update(y[40:]).forecast(4)
    fresh = model.models_[0].regressor
    assert len(fresh.posterior_.centers) == 46
    assert np.isfinite(after.cov.to_numpy()).all()
    paths = model.forecast(2, propagation="monte_carlo", n_samples=400, random_state=0)
    np.testing.assert_allclose(paths.std, model.forecast(2).std, rtol=0.3)


# Messages


@pytest.mark.parametrize(
    ("kind", "input_cov", "message"),
    [
        ("nigp", [0.1, 0.2], r"input_cov must have shape \(1,\), \(1, 1\) or \(60, 1, 1\); got"),
        ("nigp", [np.nan], "input_cov must be finite"),
        ("nigp", [-0.1], "input_cov must be positive semi-definite"),
        (None, np.full((60, 1, 1), 0.1), "input_cov must be the same variances for all rows"),
        (
            "slopes",
            None,
            "noisy_inputs must be one of None, 'nigp', 'annealed', 'stochastic_em'; got",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(kind, input_cov, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(noisy_inputs=kind).fit(*sinc(), input_cov=input_cov)


def test_input_noise_cannot_come_after_the_fit():
    with pytest.raises(ValueError, match="input_cov must be None after a fit without input noise"):
        fitted(None).condition(*sinc(), input_cov=[0.1])
