"""Sparse Bayesian learning on a design matrix: the evidence, its derivatives, and every trainer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg.blas import dtrsm
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.stats import norm

from forecast_unc.regression.rvm import batch
from forecast_unc.regression.rvm.sequential import (
    GAIN_TOLERANCE,
    SequentialTrainer,
    _batch,
    _exchanges,
    _statistics,
)
from forecast_unc.regression.rvm.sparse_evidence import (
    Bases,
    Evidence,
    NoisePrior,
    SparseModel,
    best_precisions,
    design,
    left_out_log_density,
    maximize,
    weight_posterior,
)
from tests import oracles_rvm as oracles

NOISE = NoisePrior(median=0.1, log_std=1.5, floor=1e-4, ceiling=10.0)
CHARGED = NOISE._replace(charge=2.0)


def problem(seed, n=120, d=2, noise=0.1, width=0.7):
    """A smooth function of d inputs, standardized, and the design of an RVM with a bias."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (n, d))
    y = np.sin(X @ rng.standard_normal((d, 3))).sum(axis=1)
    y += noise * y.std() * rng.standard_normal(n)
    y = (y - y.mean()) / y.std()
    return X, design(X, X, np.full(d, width * np.sqrt(d)), False, True), y


def train(algorithm, Phi, y, noise=NOISE, seed=0):
    rng = np.random.default_rng(seed)
    start = batch.random_start(Phi, y, 0.0, rng)
    if algorithm == "sequential":
        return SequentialTrainer(Phi, y, noise, rng).fit()
    if algorithm == "gradient":
        return batch.direct(Phi, y, noise, start, 2000)
    if algorithm == "subspace_em":
        order = rng.permutation(Phi.shape[1])
        drawn = start[0][order], start[1]
        model = batch.subspace_em(Phi[:, order], y, noise, drawn, 40, 2000)
        return model._replace(active=order[model.active]).sorted()
    if algorithm == "shared":
        return batch.shared(Phi, y, noise)
    step = batch.em_step if algorithm == "em" else batch.mackay_step
    return batch.fixed_point(Evidence.of(Phi, y), noise, start, step, 3000)


TRAINERS = ("sequential", "em", "mackay", "gradient", "subspace_em", "shared")


def objective(Phi, y, model, noise=NOISE):
    value = oracles.log_evidence(Phi[:, model.active], y, model.alpha, model.noise_var)
    ratio = model.noise_var * model.alpha / (Phi[:, model.active] ** 2).sum(axis=0)
    return value + NOISE.terms(np.log(model.noise_var))[0] - noise.charge * np.sum(1 / (1 + ratio))


@pytest.fixture
def small(rng):
    Phi = np.asfortranarray(rng.standard_normal((15, 6)))
    return Phi, rng.standard_normal(15), rng.uniform(0.3, 3.0, 6), 0.4


def test_log_evidence_is_its_definition(small):
    Phi, y, alpha, noise_var = small
    expected = oracles.log_evidence(Phi, y, alpha, noise_var)
    posterior = weight_posterior(Phi, y, alpha, noise_var)
    assert_allclose(posterior.log_evidence, expected, rtol=1e-12)
    assert_allclose(Evidence.of(Phi, y).at(alpha, np.log(noise_var)).value, expected, rtol=1e-12)
    Sigma = np.linalg.inv(np.diag(alpha) + Phi.T @ Phi / noise_var)
    assert_allclose(posterior.mean, Sigma @ Phi.T @ y / noise_var, rtol=1e-11)
    assert_allclose(posterior.chol @ posterior.chol.T @ Sigma, np.eye(6), atol=1e-12)


def test_gradient_and_hessian_are_finite_differences(small):
    Phi, y, alpha, noise_var = small
    x = np.append(np.log(alpha), np.log(noise_var))
    evidence = Evidence.of(Phi, y)

    def value(x):
        return oracles.log_evidence(Phi, y, np.exp(x[:-1]), np.exp(x[-1]))

    def gradient(x):
        at = evidence.at(np.exp(x[:-1]), x[-1])
        return np.append(at.by_log_alpha, at.by_log_var)

    assert_allclose(gradient(x), approx_fprime(x, value, 1e-6), atol=2e-5)
    hessian = evidence.at(alpha, x[-1]).hessian()
    steps = 1e-5 * np.eye(len(x))
    expected = [(gradient(x + step) - gradient(x - step)) / 2e-5 for step in steps]
    assert_allclose(hessian, expected, atol=1e-8)


def test_the_charge_is_that_of_the_paper_and_its_slopes_are_finite_differences(rng):
    """-c sum 1 / (1 + s^2 alpha) for columns of unit norm (Schmolck & Everson 2007)."""
    squares, x = np.array([1.0, 1.0, 9.0]), rng.standard_normal(4)

    def value(x):
        ratio = np.exp(x[:-1] + x[-1]) / squares
        return -2.0 * np.sum(1.0 / (1.0 + ratio))

    def slopes(x):
        return CHARGED.charges(np.exp(x[:-1]), x[-1], squares)[1]

    assert CHARGED.charges(np.exp(x[:-1]), x[-1], squares)[0] == pytest.approx(value(x))
    gradient = np.append(slopes(x), slopes(x).sum())
    assert_allclose(gradient, approx_fprime(x, value, 1e-7), atol=1e-6)
    bends = CHARGED.charges(np.exp(x[:-1]), x[-1], squares)[2]
    ahead, back = slopes(x + 1e-5 * np.eye(4)[3]), slopes(x - 1e-5 * np.eye(4)[3])
    assert_allclose(bends, (ahead - back) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("charge", [0.0, 0.3, 2.0, 5.0])
def test_the_best_precision_is_that_of_a_fine_grid(charge, rng):
    s = np.exp(rng.uniform(-8.0, 0.0, 60))
    q = np.sqrt(s * (1.0 + np.exp(rng.uniform(-3.0, 5.0, 60))))
    alpha, gain = best_precisions(s, q, 1.0, charge)
    grid = np.exp(np.linspace(-25.0, 25.0, 20001))[:, None]

    def worth(alpha):
        of_evidence = 0.5 * (q**2 / (alpha + s) - np.log1p(s / alpha))
        return of_evidence - charge / (1.0 + alpha)

    assert_allclose(gain, np.maximum(worth(grid).max(axis=0), 0.0), atol=1e-5)
    inside = np.isfinite(alpha)
    assert 5 < inside.sum() < 60 or charge == 0.0
    assert (gain[~inside] == 0.0).all()
    assert_allclose(worth(np.where(inside, alpha, 1.0))[inside], gain[inside], atol=1e-9)


def test_lengthscale_gradient_of_the_charge_is_finite_differences(rng):
    X, _, _ = problem(3, n=30, d=2)
    bases, alpha = Bases.of(X, np.array([2, 7, 19, 30, 32]), True, True), np.exp(rng.normal(size=5))
    x = np.log([0.7, 1.2])

    def value(x):
        return batch._charged(X, bases, (alpha, -1.0), np.exp(x), CHARGED)[0]

    by_scale = batch._charged(X, bases, (alpha, -1.0), np.exp(x), CHARGED)[2]
    assert_allclose(by_scale, approx_fprime(x, value, 1e-7), rtol=1e-5)


def test_lengthscale_gradient_is_finite_differences(rng):
    X, _, y = problem(3, n=40, d=2)
    active = np.array([2, 7, 19, 33, 40, 42])  # kernels, one input, the bias
    bases = Bases.of(X, active, True, True)
    x = np.concatenate([np.log([0.7, 1.2]), rng.standard_normal(6), [-2.0]])

    def value(x):
        full = design(X, X, np.exp(x[:2]), True, True)
        return oracles.log_evidence(full[:, active], y, np.exp(x[2:-1]), np.exp(x[-1]))

    scales = np.exp(x[:2]), np.exp(x[2:-1]), np.exp(x[-1])
    got, gradient = batch.lengthscale_evidence(X, y, bases, *scales)
    assert_allclose(got, value(x), rtol=1e-11)
    steps = 1e-5 * np.eye(len(x))
    expected = [(value(x + step) - value(x - step)) / 2e-5 for step in steps]
    assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


def test_adapted_lengthscales_raise_the_objective():
    """From a start that is four times too short."""
    X, Phi, y = problem(5, n=80, d=2, width=0.2)
    model = train("sequential", Phi, y)
    center = np.full(2, 0.2 * np.sqrt(2))
    bases = Bases.of(X, model.active, False, True)
    adapted, lengthscales = batch.adapt(X, y, model, bases, center, batch.Prior(center, NOISE))
    new = design(X, X, lengthscales, False, True)
    assert objective(new, y, adapted) > objective(Phi, y, model) + 5.0
    assert (lengthscales > center).all()
    # stationary, with a log-normal prior of std 1.5 around the center
    prior = batch.Prior(center, NOISE)
    for _ in range(10):
        adapted, lengthscales = batch.adapt(X, y, adapted, bases, lengthscales, prior)
    at = X, y, bases, lengthscales, adapted.alpha, adapted.noise_var
    gradient = batch.lengthscale_evidence(*at)[1][:2]
    assert_allclose(gradient, np.log(lengthscales / center) / batch.LOG_STD**2, atol=0.02)


def test_density_of_rows_left_out_is_its_definition(small):
    Phi, y, alpha, noise_var = small
    active = np.array([1, 4, 7, 8, 14, 15])  # the last is no basis at a row
    model = SparseModel(active, alpha, noise_var, True, 0)
    total = 0.0
    for i in range(15):
        kept = active != i
        C = noise_var * np.eye(15) + (Phi[:, kept] / alpha[kept]) @ Phi[:, kept].T
        others = np.arange(15) != i
        weights = np.linalg.solve(C[np.ix_(others, others)], C[others, i])
        mean, var = weights @ y[others], C[i, i] - weights @ C[others, i]
        total += norm.logpdf(y[i], mean, np.sqrt(var))
    assert_allclose(left_out_log_density(Phi, y, model), total, rtol=1e-11)


@pytest.mark.parametrize("noise", [NOISE, CHARGED], ids=["plain", "smooth"])
@pytest.mark.parametrize("algorithm", TRAINERS)
def test_trainers_end_at_a_stationary_point(algorithm, noise):
    if algorithm == "shared" and noise.charge:
        return
    _, Phi, y = problem(1, n=80)
    model = train(algorithm, Phi, y, noise)
    assert model.converged
    x = np.append(np.log(model.alpha), np.log(model.noise_var))
    if algorithm == "shared":
        x = x[-2:]

    def value(x):
        alpha = np.exp(x[:-1]) * np.ones(len(model.active))
        return objective(Phi, y, SparseModel(model.active, alpha, np.exp(x[-1]), True, 0), noise)

    # the fixed points stop when an iteration brings 1e-6 nats
    tolerance = 1e-5 if algorithm in ("sequential", "shared") else 2e-2
    steps = 1e-4 * np.eye(len(x))
    slopes = [(value(x + step) - value(x - step)) / 2e-4 for step in steps]
    assert_allclose(slopes, 0.0, atol=tolerance)


@pytest.mark.parametrize("noise", [NOISE, CHARGED], ids=["plain", "smooth"])
@pytest.mark.parametrize("algorithm", ["em", "gradient", "subspace_em"])
def test_the_objective_never_falls(algorithm, noise):
    """What these trainers promise, seen from outside: more iterations are never worse."""
    _, Phi, y = problem(2, n=60)
    rng = np.random.default_rng(0)
    start = batch.random_start(Phi, y, 0.0, rng)
    values = []
    for most in (1, 3, 10, 30, 100, 300):
        if algorithm == "em":
            model = batch.fixed_point(Evidence.of(Phi, y), noise, start, batch.em_step, most)
        elif algorithm == "gradient":
            model = batch.direct(Phi, y, noise, start, most)
        else:
            model = batch.subspace_em(Phi, y, noise, start, 610, most)
        values.append(objective(Phi, y, model, noise))
    assert (np.diff(values) > -1e-6).all()


@pytest.mark.parametrize("seed", [0, 3])
def test_sequential_ends_where_no_single_change_gains(seed):
    """Faul & Tipping's conditions, from the definition: q^2 <= s outside, alpha inside."""
    _, Phi, y = problem(10 + seed, n=60, d=1 + seed)
    model = train("sequential", Phi, y)
    precision = np.full(Phi.shape[1], np.inf)
    precision[model.active] = model.alpha
    s, q = oracles.sparsity_and_quality(Phi, y, precision, model.noise_var)
    outside = np.setdiff1d(np.arange(Phi.shape[1]), model.active)
    ratio = np.maximum(q[outside] ** 2 / s[outside], 1.0)
    assert 0.5 * (ratio - 1.0 - np.log(ratio)).max() < GAIN_TOLERANCE
    s, q = s[model.active], q[model.active]
    assert (q**2 > s).all()
    assert_allclose(model.alpha, s**2 / (q**2 - s), rtol=1e-5)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_sequential_reaches_the_best_of_the_batch_trainers(seed):
    """A small edition of examples/benchmarks/rvm_optima.py."""
    noise = (0.02, 0.1, 0.3)[seed % 3]
    _, Phi, y = problem(20 + seed, n=60, d=(1, 2, 4, 8)[seed % 4], noise=noise)
    best = max(objective(Phi, y, train(a, Phi, y)) for a in ("em", "mackay", "gradient"))
    assert objective(Phi, y, train("sequential", Phi, y)) > best - 0.5


def test_a_warm_start_is_kept_or_improved():
    _, Phi, y = problem(4)
    model = train("mackay", Phi, y)
    trainer = SequentialTrainer(Phi, y, NOISE, np.random.default_rng(0))
    assert objective(Phi, y, trainer.fit(model, n_kicks=0)) >= objective(Phi, y, model) - 1e-9


def test_the_pool_is_no_restriction():
    """With more columns than the pool holds, candidates outside are priced."""
    _, Phi, y = problem(6, n=800, d=1, width=0.2)
    trainer = SequentialTrainer(Phi, y, NOISE, np.random.default_rng(0))
    model = trainer.fit(n_kicks=0)
    assert len(trainer.pool) < Phi.shape[1]
    inside, outside = model.active, np.setdiff1d(np.arange(Phi.shape[1]), trainer.pool)
    C = model.noise_var * np.eye(len(y)) + (Phi[:, inside] / model.alpha) @ Phi[:, inside].T
    S = np.einsum("ij,ij->j", Phi[:, outside], np.linalg.solve(C, Phi[:, outside]))
    Q = Phi[:, outside].T @ np.linalg.solve(C, y)
    assert (Q**2 / S).max() < 1.01


def test_the_pool_begins_with_the_strongest_the_given_and_the_last(rng):
    """The last column is the bias, or a linear one."""

    class InOrder:
        permutation = staticmethod(np.arange)

    Phi = np.asfortranarray(rng.standard_normal((12, 700)))
    Phi[:, :320] *= 1e-3  # of columns of unit norm: scales do not count
    y = Phi[:, 500] - Phi[:, 600]
    given = SparseModel(np.array([650]), np.ones(1), 1.0, True, 0)
    trainer = SequentialTrainer(Phi, y, NOISE, InOrder(), max_iter=0)
    trainer.fit(given, n_kicks=0)
    cosines = np.abs(Phi.T @ y) / np.linalg.norm(Phi, axis=0)
    strongest = np.argsort(-cosines)[:40]
    expected = np.unique([*range(320), *strongest, 650, 699])
    np.testing.assert_array_equal(trainer.pool[: len(expected)], expected)


def test_columns_of_a_batch_enter_one_after_the_other_with_their_best_alphas(rng):
    Phi = rng.standard_normal((40, 3))
    y = Phi @ [2.0, -2.0, 0.0] + 0.7 * rng.standard_normal(40)
    chosen, alphas = _batch(Phi.T @ Phi / 0.5, Phi.T @ y / 0.5, np.log(0.5), 0.0)
    assert sorted(chosen) == [0, 1]
    for at, alpha in enumerate(alphas):

        def loss(log_alpha, at=at):
            own = np.append(alphas[:at], np.exp(log_alpha))
            return -oracles.log_evidence(Phi[:, chosen[: at + 1]], y, own, 0.5)

        best = minimize_scalar(loss, bounds=(-10.0, 5.0))
        assert alpha == pytest.approx(np.exp(best.x), rel=1e-3)


def test_joint_maximum_deletes_what_does_not_help(rng):
    Phi = np.asfortranarray(rng.standard_normal((50, 4)) / np.sqrt(50))
    y = 3.0 * Phi[:, 1]
    y += 0.01 * rng.standard_normal(50)
    found = maximize(Evidence.of(Phi, y), np.ones(4), -3.0, NOISE, 1e-8)
    assert 1 in found.active
    own = oracles.log_evidence(Phi[:, found.active], y, found.at.alpha, np.exp(found.at.log_var))
    assert found.objective == pytest.approx(own + NOISE.terms(found.at.log_var)[0], rel=1e-9)
    alone = maximize(Evidence.of(Phi[:, [1]], y), np.ones(1), -3.0, NOISE, 1e-8)
    # two searches, each to 1e-8: equal bases reached on two ways differ in the last digits
    assert found.objective >= alone.objective - 1e-8 * abs(alone.objective)


def test_noise_without_signal_leaves_noise_alone(rng):
    y = rng.standard_normal(60)
    y -= y.mean()
    Phi = np.zeros((60, 3), order="F")
    Phi[:, 0] = 1.0
    model = SequentialTrainer(Phi, y, NOISE, rng).fit()
    assert len(model.active) == 0
    best = minimize_scalar(
        lambda t: 30 * t + 0.5 * y @ y * np.exp(-t) - NOISE.terms(t)[0], bounds=(-5, 5)
    )
    assert_allclose(np.log(model.noise_var), best.x, atol=1e-4)


@given(st.floats(1e-3, 1e3), st.floats(5.0, 500.0))
def test_noise_update_is_the_maximum(squares, dof):
    t = NOISE.update(squares, dof)
    low, high = NOISE.bounds()

    def value(t):
        return -0.5 * dof * t - 0.5 * squares * np.exp(-t) + NOISE.terms(t)[0]

    for other in np.clip([t - 1e-3, t + 1e-3], low, high):
        assert value(t) >= value(other)


def test_shared_precision_is_the_best_of_a_fine_grid():
    _, Phi, y = problem(7, n=40)
    model = batch.shared(Phi, y, NOISE)
    best = objective(Phi, y, model)
    everything = np.arange(Phi.shape[1])
    for a in np.linspace(-8, 8, 33):
        for t in np.linspace(-9, 1, 21):
            other = SparseModel(everything, np.full(len(everything), np.exp(a)), np.exp(t), True, 0)
            assert objective(Phi, y, other) <= best + 1e-8


def test_shared_precision_with_fewer_columns_than_rows():
    _, Phi, y = problem(7, n=60)
    Phi = np.asfortranarray(Phi[:, :5])
    model = batch.shared(Phi, y, NOISE)
    x = np.array([np.log(model.alpha[0]), np.log(model.noise_var)])

    def value(x):
        return objective(
            Phi, y, model._replace(alpha=np.full(5, np.exp(x[0])), noise_var=np.exp(x[1]))
        )

    assert_allclose(approx_fprime(x, value, 1e-6), 0.0, atol=1e-3)


def test_subspace_em_keeps_what_the_data_determine(rng):
    Phi = rng.standard_normal((60, 40))
    y = Phi[:, :3] @ [3.0, -2.0, 2.0] + 0.1 * rng.standard_normal(60)
    start = np.ones(40), np.log(y.var())
    # the three come first, and 37 that tell nothing pass by them
    model = batch.subspace_em(Phi, y, NOISE, start, 10, 500)
    assert {0, 1, 2} <= set(model.active)


def test_subspace_em_stays_within_its_budget():
    _, Phi, y = problem(8, noise=0.02)
    start = batch.random_start(Phi, y, 0.0, np.random.default_rng(0))
    model = batch.subspace_em(Phi, y, NOISE, start, 12, 500)
    assert 0 < len(model.active) <= 12
    assert (np.diff(model.active) > 0).all()


@pytest.mark.parametrize("charge", [0.0, 0.5])
def test_exchanges_gain_what_the_evidence_of_the_exchanged_model_says(charge, rng):
    Phi = rng.standard_normal((25, 9)) @ (np.eye(9) + 0.4)  # columns that are alike
    Phi /= np.linalg.norm(Phi, axis=0)
    y, active = 3.0 * Phi @ rng.standard_normal(9) + rng.standard_normal(25), np.array([1, 4, 6])
    alpha, log_var = np.array([0.2, 0.05, 1.0]), -0.3
    at = Evidence.of(Phi[:, active], y).at(alpha, log_var)
    products = np.asfortranarray(Phi.T @ Phi[:, active])
    worth, entering, alphas = _exchanges(
        at, *_statistics(at, products, Phi.T @ y, np.ones(9)), active, charge
    )
    assert np.isfinite(worth).all()
    for i in range(3):
        columns = np.append(np.delete(active, i), entering[i])
        precisions = np.append(np.delete(alpha, i), alphas[i])
        exchanged = oracles.log_evidence(Phi[:, columns], y, precisions, np.exp(log_var))
        paid = [charge * np.sum(1 / (1 + np.exp(log_var) * one)) for one in (precisions, alpha)]
        assert_allclose(worth[i], exchanged - paid[0] - at.value + paid[1], rtol=1e-9)


@pytest.mark.parametrize("seed", [1, 55])
def test_an_exchange_gains_half_of_what_the_best_one_promises(seed):
    """Of seed 55 several at once gain less, and the best one is made alone."""
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((20, 14))
    Phi = np.asfortranarray(Phi + 0.6 * Phi @ rng.standard_normal((14, 14)))
    y = Phi[:, :4] @ rng.standard_normal(4) + 0.3 * rng.standard_normal(20)
    trainer = SequentialTrainer(Phi, y / y.std(), NOISE, rng)
    trainer._enter(np.arange(14))
    before = trainer._joint(np.arange(10, 14), np.ones(4), -1.0, 1e-8)
    worth, _, _ = _exchanges(before.at, *trainer._in_pool(before), before.active, 0.0)
    assert trainer._exchange(before).objective - before.objective > 0.5 * worth.max()


def test_no_exchange_where_only_the_deletion_gains(rng):
    """What would enter has no finite positive alpha there: q^2 <= s."""
    Phi = np.linalg.qr(rng.standard_normal((30, 5)))[0]
    y = Phi[:, 4] * 5.0  # nothing for the first four to explain
    alpha, active = np.array([1e-3]), np.array([0])
    at = Evidence.of(Phi[:, active], y).at(alpha, 0.0)
    W = dtrsm(1.0, at.chol, np.asfortranarray(Phi[:, :4].T @ Phi[:, active]), side=1, lower=1)
    S, Q = 1.0 - (W**2).sum(axis=1), Phi[:, :4].T @ (y - Phi[:, active] @ at.mean)
    worth, _, _ = _exchanges(at, W, S, Q, active, 0.0)
    assert worth[0] == -np.inf
    W, S, Q = np.vstack([W, np.zeros((1, 1))]), np.append(S, 1.0), np.append(Q, 5.0)
    worth, entering, alphas = _exchanges(at, W, S, Q, active, 0.0)
    assert entering[0] == 4
    without = oracles.log_evidence(Phi[:, [4]], y, alphas, 1.0)
    assert_allclose(worth[0], without - at.value, rtol=1e-6)
