"""RVMClassifier: Laplace's approximation, both trainers, probabilities, invariances, messages."""

import csv
import functools
import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.base import clone

from forecast_unc.regression.rvm import laplace as sbl
from forecast_unc.regression.rvm.rvm_classifier import (
    RVMClassifier,
    _best_multiple,
    _Search,
    _train,
)
from tests import oracles_rvm as oracles
from tests.contract import failed_checks


def data(n=80, seed=0, k=2):
    """Noisy rings in two inputs of very different units."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    radius = np.hypot(X[:, 0], X[:, 1]) + 0.25 * rng.standard_normal(n)
    return X * [1.0, 50.0] + [3.0, 0.0], np.digitize(radius, [1.3, 2.0][: k - 1])


X, Y = data()


@functools.cache
def fitted(algorithm):
    """The length-scales are learned by the default alone."""
    given = None if algorithm == "sequential" else [0.8, 40.0]
    return RVMClassifier(algorithm=algorithm, lengthscales=given).fit(X, Y)


def problem(n=60, seed=0, lengthscale=0.8):
    """Full design (n, n + 1), labels -1 and 1."""
    X, y = data(n, seed)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Phi = np.column_stack([oracles.kernel(Z, Z, lengthscale * np.ones(2)), np.ones(n)])
    return np.asfortranarray(Phi), np.where(y == 1, 1.0, -1.0)


def log_joint(Phi, signs, alpha, w):
    """log p(t | w) + log p(w), as the formulas say it."""
    log_prior = 0.5 * np.log(alpha / (2 * np.pi)).sum() - 0.5 * alpha @ w**2
    return np.log(expit(signs * (Phi @ w))).sum() + log_prior


def hessian(Phi, alpha, w):
    y = expit(Phi @ w)
    return np.diag(alpha) + Phi.T @ np.diag(y * (1 - y)) @ Phi


def brute_force_evidence(Phi, signs, alpha, w):
    _, log_det = np.linalg.slogdet(hessian(Phi, alpha, w) / (2 * np.pi))
    return log_joint(Phi, signs, alpha, w) - 0.5 * log_det


def working(Phi, signs, w):
    """Target and noise variances of the regression at the mode; labels +-1, s = 1 / (1 + e^tf)."""
    f = Phi @ w
    curvature = expit(f) * (1 - expit(f))
    return f + signs / (1 + np.exp(signs * f)) / curvature, 1 / curvature


def working_evidence(Phi, alpha, target, noise_var):
    inside = np.isfinite(alpha)
    C = np.diag(noise_var) + (Phi[:, inside] / alpha[inside]) @ Phi[:, inside].T
    return multivariate_normal(np.zeros(len(target)), C).logpdf(target)


def some_model(seed=0, k=6):
    Phi, signs = problem(seed=seed)
    rng = np.random.default_rng(seed)
    columns = np.append(np.sort(rng.choice(60, k - 1, replace=False)), 60)
    return Phi[:, columns], signs, np.exp(2 * rng.standard_normal(k))


@pytest.mark.parametrize("seed", range(2))
def test_mode_is_stationary_and_curvature_is_the_finite_difference(seed):
    Phi, signs, alpha = some_model(seed)
    posterior = sbl.laplace(Phi, signs, alpha)
    w, h = posterior.mean, 1e-4
    gradient = Phi.T @ ((signs + 1) / 2 - expit(Phi @ w)) - alpha * w
    assert_allclose(gradient, 0, atol=1e-9)

    def slope(w):
        steps = h * np.eye(len(w))
        ahead = [log_joint(Phi, signs, alpha, w + s) for s in steps]
        back = [log_joint(Phi, signs, alpha, w - s) for s in steps]
        return (np.array(ahead) - np.array(back)) / (2 * h)

    assert_allclose(slope(w), 0, atol=1e-6)
    differences = [(slope(w + s) - slope(w - s)) / (2 * h) for s in h * np.eye(len(w))]
    root = np.sqrt(alpha)
    own = root[:, None] * (posterior.chol @ posterior.chol.T) * root
    assert_allclose(own, -np.array(differences), rtol=1e-4, atol=1e-5)
    assert_allclose(own, hessian(Phi, alpha, w), rtol=1e-10)


def test_working_target_leads_back_to_the_mode():
    """One weighted least-squares step from the mode stays there: the misprint would not."""
    Phi, signs, alpha = some_model()
    w = sbl.laplace(Phi, signs, alpha).mean
    target, noise_var = working(Phi, signs, w)
    step = np.linalg.solve(hessian(Phi, alpha, w), Phi.T @ (target / noise_var))
    assert_allclose(step, w, rtol=1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_laplace_evidence_is_its_definition(seed):
    Phi, signs, alpha = some_model(seed)
    posterior = sbl.laplace(Phi, signs, alpha)
    expected = brute_force_evidence(Phi, signs, alpha, posterior.mean)
    assert_allclose(posterior.log_evidence, expected, rtol=1e-12)


def test_laplace_evidence_is_near_the_integral():
    Phi, signs, alpha = some_model(k=2)
    w1, w0 = np.meshgrid(np.linspace(-30, 30, 301), np.linspace(-30, 30, 301), indexing="ij")
    f = np.multiply.outer(w1, Phi[:, 0]) + np.multiply.outer(w0, Phi[:, 1])
    log_joints = -np.logaddexp(0, -signs * f).sum(axis=-1) + 0.5 * np.log(alpha / (2 * np.pi)).sum()
    log_joints -= 0.5 * (alpha[0] * w1**2 + alpha[1] * w0**2)
    integral = np.log(np.exp(log_joints).sum() * 0.2**2)
    assert_allclose(sbl.laplace(Phi, signs, alpha).log_evidence, integral, atol=0.05)


def test_sparsity_and_quality_are_their_definition():
    Phi, signs = problem()
    active, alpha = np.array([3, 20, 41, 60]), np.array([0.1, 1.0, 3.0, 0.5])
    posterior = sbl.laplace(Phi[:, active], signs, alpha)
    s, q = sbl.sparsity_and_quality(Phi, active, alpha, posterior)
    target, noise_var = working(Phi[:, active], signs, posterior.mean)
    precision = np.full(61, np.inf)
    precision[active] = alpha
    # whitened by the noise, this is regression with unit noise
    white = 1 / np.sqrt(noise_var)
    expected = oracles.sparsity_and_quality(Phi * white[:, None], target * white, precision, 1.0)
    assert_allclose(s, expected[0], rtol=1e-9)
    assert_allclose(q, expected[1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("algorithm", ["sequential", "mackay"])
def test_labels_by_chance_are_no_function_of_many_inputs(algorithm):
    """By the plain prior 49 rows have a basis, and the log loss is .3 above that of chance."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((300, 20)), rng.integers(0, 2, 300)
    rvm = RVMClassifier(lengthscales=3.0, algorithm=algorithm).fit(X[:60], y[:60])
    assert rvm.prior_ == "smooth"
    assert rvm.n_relevance_ <= 3
    assert -np.log(rvm.predict_proba(X)[np.arange(300), y])[60:].mean() < 0.72


@pytest.mark.parametrize("charge", [0.3, 2.0])
def test_a_charged_action_gains_what_it_says(charge):
    Phi, signs = problem()
    alpha, active = np.full(61, np.inf), np.array([3, 60])
    alpha[active] = 1.0
    posterior = sbl.laplace(Phi[:, active], signs, alpha[active])
    changed, promised = sbl.best_action(Phi, alpha, posterior, charge)
    target, noise_var = working(Phi[:, active], signs, posterior.mean)

    def objective(alpha):
        p = 1 / (1 + 4 * alpha / (Phi**2).sum(axis=0))
        return working_evidence(Phi, alpha, target, noise_var) - charge * p.sum()

    assert (changed != alpha).sum() == 1
    assert_allclose(objective(changed) - objective(alpha), promised, rtol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_an_action_gains_what_it_says_and_never_lowers_the_evidence_of_the_regression(seed):
    Phi, signs = problem(seed=seed)
    alpha, kinds = np.full(61, np.inf), set()
    for _ in range(25):
        active = np.flatnonzero(np.isfinite(alpha))
        posterior = sbl.laplace(Phi[:, active], signs, alpha[active])
        changed, promised = sbl.best_action(Phi, alpha, posterior)
        if promised <= sbl.GAIN_TOLERANCE:
            break
        target, noise_var = working(Phi[:, active], signs, posterior.mean)
        before = working_evidence(Phi, alpha, target, noise_var)
        gain = working_evidence(Phi, changed, target, noise_var) - before
        size = np.isfinite(changed).sum() - len(active)
        if size > 0 or (size == 0 and len(active) == 1):
            assert_allclose(gain, promised, rtol=1e-5, atol=1e-9)
        else:  # joint
            assert gain >= promised - 1e-6
        kinds.add(np.sign(size))
        alpha = changed
    else:
        pytest.fail("25 actions should do")
    assert {0, 1} <= kinds


def test_units_of_columns_change_no_action():
    """What a column adds to the span of the model counts in its own size."""
    Phi, signs = problem(30)
    alpha = np.full(Phi.shape[1], np.inf)
    alpha[-1] = 1.0
    posterior = sbl.laplace(Phi[:, -1:], signs, alpha[-1:])
    changed, gain = sbl.best_action(Phi, alpha, posterior)
    assert gain > 0.1
    units = np.append(np.full(Phi.shape[1] - 1, 1e-6), 1.0)
    other, same = sbl.best_action(Phi * units, alpha, posterior)
    assert same == pytest.approx(gain, rel=1e-9)
    assert_allclose(other, changed * units**2, rtol=1e-9)


def fitted_problem(rvm, X, y):
    """Full design and labels from public attributes alone."""
    Z, lengthscales = (X - X.mean(axis=0)) / X.std(axis=0), rvm.lengthscales_ / X.std(axis=0)
    Phi = np.column_stack([oracles.kernel(Z, Z, lengthscales), np.ones(len(Z))])
    return Phi, np.where(y == rvm.classes_[1], 1.0, -1.0)


@pytest.mark.parametrize(("lengthscales", "seed"), [([1.0, 50.0], 1), ([0.5, 30.0], 0)], ids=str)
def test_faul_and_tippings_conditions_hold_at_the_end(lengthscales, seed):
    X, y = data(seed=seed)
    rvm = RVMClassifier(lengthscales=lengthscales).fit(X, y)
    assert rvm.converged_
    Phi, signs = fitted_problem(rvm, X, y)
    machine = rvm.machines_[0]
    target, noise_var = working(Phi[:, machine.active], signs, machine.mean)
    alpha = np.full(Phi.shape[1], np.inf)
    alpha[machine.active] = machine.alpha
    white = 1 / np.sqrt(noise_var)
    s, q = oracles.sparsity_and_quality(Phi * white[:, None], target * white, alpha, 1.0)
    out = np.isinf(alpha)
    assert (q[out] ** 2 <= s[out] * (1 + 2.1e-3) + 1e-9).all()
    assert (q[~out] ** 2 > s[~out]).all()
    best = (s**2 / (q**2 - s))[~out]

    def part(a):
        return 0.5 * (np.log(a) - np.log(a + s[~out]) + q[~out] ** 2 / (a + s[~out]))

    assert (part(best) - part(machine.alpha) < 1e-6 + 1e-9).all()
    assert_allclose(machine.alpha, best, rtol=0.05)


@pytest.mark.parametrize("algorithm", ["sequential", "mackay"])
def test_evidence_of_a_fit_is_its_definition(algorithm):
    rvm = fitted(algorithm)
    Phi, signs = fitted_problem(rvm, X, Y)
    (machine,) = rvm.machines_
    expected = brute_force_evidence(Phi[:, machine.active], signs, machine.alpha, machine.mean)
    assert_allclose(rvm.log_evidence_, [expected], rtol=1e-9)


def test_both_algorithms_reach_comparable_evidence():
    differences = []
    for seed in range(4):
        X, y = data(seed=seed)
        fits = [
            RVMClassifier(lengthscales=[0.8, 40.0], algorithm=name).fit(X, y)
            for name in ("sequential", "mackay")
        ]
        assert all(fit.converged_ for fit in fits)
        differences.append(fits[0].log_evidence_[0] - fits[1].log_evidence_[0])
    assert min(differences) > -1.0, differences
    assert sum(d > -0.5 for d in differences) >= 3, differences


def test_mackay_ends_where_alpha_is_gamma_over_mean_squared():
    rvm = fitted("mackay")
    (machine,) = rvm.machines_
    Phi, _ = fitted_problem(rvm, X, Y)
    Sigma = np.linalg.inv(hessian(Phi[:, machine.active], machine.alpha, machine.mean))
    gamma = 1 - machine.alpha * np.diagonal(Sigma)
    assert_allclose(machine.alpha, gamma / machine.mean**2, rtol=1e-3)


def test_probabilities_are_near_the_average_over_the_posterior(rng):
    X, y = data(30, seed=1)
    rvm = RVMClassifier(lengthscales=[1.0, 50.0]).fit(X, y)
    (machine,) = rvm.machines_
    tests = rng.uniform(-4, 4, (200, 2)) * [1.0, 50.0] + [3.0, 0.0]
    center, scale = X.mean(axis=0), X.std(axis=0)
    lengthscales = rvm.lengthscales_ / scale
    at = oracles.kernel((tests - center) / scale, (X - center) / scale, lengthscales)
    at = np.column_stack([at, np.ones(200)])[:, machine.active]
    Phi, _ = fitted_problem(rvm, X, y)
    Sigma = np.linalg.inv(hessian(Phi[:, machine.active], machine.alpha, machine.mean))
    weights = rng.multivariate_normal(machine.mean, Sigma, 20_000)
    averaged = expit(weights @ at.T).mean(axis=0)
    plain = expit(at @ machine.mean)
    assert np.abs(plain - averaged).max() > 0.05  # there is something to correct
    # by quadrature the approximation is off by 0.0177 at most, over all (mu, v); 0.005 for draws
    assert_allclose(rvm.predict_proba(tests)[:, 1], averaged, atol=0.023)
    var = np.einsum("ij,jk,ik->i", at, Sigma, at)
    expected = at @ machine.mean / np.sqrt(1 + np.pi * var / 8)
    assert_allclose(rvm.decision_function(tests), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mean", [-40.0, -3.0, 0.0, 0.7, 25.0])
@pytest.mark.parametrize("std", [1e-3, 0.9, 1.1, 5.0, 60.0])
def test_the_integral_over_f_is_that_of_a_fine_grid(mean, std):
    z = np.linspace(-14.0, 14.0, 400_001)
    expected = np.sum(expit(mean + std * z) * np.exp(-0.5 * z**2)) * 7e-5 / np.sqrt(2 * np.pi)
    got = np.exp(sbl.log_mean_sigmoid(np.array([mean]), np.array([std**2])))
    assert_allclose(got, expected, rtol=1e-9)


def test_probabilities_by_quadrature_average_over_the_posterior():
    rvm = clone(fitted("sequential")).set_params(lengthscales=[1.0, 50.0]).fit(X, Y)
    approximate = rvm.predict_proba(X)
    exact = rvm.set_params(integral="quadrature").predict_proba(X)
    assert_allclose(exact.sum(axis=1), 1.0, rtol=1e-12)
    assert 1e-4 < np.abs(exact - approximate).max() < 0.018
    assert_array_equal(exact > 0.5, approximate > 0.5)


def test_far_from_the_data_the_bias_decides():
    rvm = fitted("sequential")
    (machine,) = rvm.machines_
    bias = machine.active == len(X)
    assert bias.sum() == 1
    Phi, _ = fitted_problem(rvm, X, Y)
    Sigma = np.linalg.inv(hessian(Phi[:, machine.active], machine.alpha, machine.mean))
    odds = machine.mean[bias] / np.sqrt(1 + np.pi / 8 * Sigma[bias][:, bias][0])
    assert_allclose(rvm.decision_function([[1e5, 1e7]]), odds, rtol=1e-8)


def test_more_classes_are_one_against_the_rest():
    X, y = data(120, k=3)
    names = np.array(["center", "ring", "outside"])[y]
    rvm = RVMClassifier(lengthscales=[0.8, 40.0]).fit(X, names)
    assert_array_equal(rvm.classes_, ["center", "outside", "ring"])
    assert rvm.log_evidence_.shape == (3,)
    assert rvm.decision_function(X).shape == (120, 3)
    proba = rvm.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    assert_array_equal(rvm.predict(X), rvm.classes_[proba.argmax(axis=1)])
    assert (rvm.predict(X) == names).mean() > 0.75  # the labels are noisy
    # a machine alone: the same bases, and the probabilities before the normalization
    alone = np.empty((120, 3))
    Phi, _ = fitted_problem(rvm, X, names)
    for j, machine in enumerate(rvm.machines_):
        signs = np.where(names == rvm.classes_[j], 1.0, -1.0)
        posterior = sbl.laplace(Phi[:, machine.active], signs, machine.alpha)
        assert_allclose(posterior.mean, machine.mean, rtol=1e-6, atol=1e-9)
        alone[:, j] = expit(machine.log_odds(Phi[:, machine.active]))
    assert_allclose(proba, alone / alone.sum(axis=1, keepdims=True), rtol=1e-6)
    assert_array_equal(rvm.relevance_, np.unique(rvm.relevance_))
    used = np.concatenate([machine.active for machine in rvm.machines_])
    assert set(rvm.relevance_) == set(used) - {120}


def test_units_change_nothing():
    plain, shift, units = fitted("sequential"), -40.0, [1e5, 1e-4]
    other = RVMClassifier().fit(X * units + shift, Y)
    assert_allclose(other.lengthscales_, plain.lengthscales_ * units, rtol=1e-6)
    assert_allclose(other.log_evidence_, plain.log_evidence_, atol=1e-4)
    assert_allclose(
        other.predict_proba(X * units + shift), plain.predict_proba(X), rtol=1e-3, atol=1e-6
    )


def test_swapping_the_classes_swaps_the_probabilities():
    model = RVMClassifier(lengthscales=[0.8, 40.0])
    one, other = clone(model).fit(X, Y), clone(model).fit(X, 1 - Y)
    assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1], dtype=np.int8),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_any_type_come_back(labels):
    X, y = data(40)
    expected = RVMClassifier(lengthscales=[1.0, 50.0]).fit(X, y)
    rvm = RVMClassifier(lengthscales=[1.0, 50.0]).fit(X, labels[y])
    predicted = rvm.predict(X)
    assert predicted.dtype == labels.dtype
    assert_array_equal(predicted, labels[expected.predict(X)])
    assert_array_equal(rvm.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("algorithm", ["sequential", "mackay"])
@pytest.mark.parametrize("gap", [0.5, 1e6])
def test_separable_classes_keep_finite_weights(algorithm, gap):
    x = np.linspace(0, 1, 15)
    X = np.concatenate([x, x + 1 + gap])[:, None]
    y = np.arange(30) >= 15
    rvm = RVMClassifier(algorithm=algorithm, lengthscales=0.5 * (1 + gap)).fit(X, y)
    assert rvm.converged_
    assert_array_equal(rvm.predict(X), y)
    (machine,) = rvm.machines_
    assert np.abs(machine.mean).max() < 100
    proba = rvm.predict_proba(X)
    assert (proba.max(axis=1) > 0.8).all()
    assert (proba > 0).all()


@pytest.mark.parametrize("alpha", [1e-12, 1e12])
def test_mode_is_found_with_extreme_precisions(alpha):
    Phi, signs = problem()
    posterior = sbl.laplace(Phi, signs, np.full(61, alpha))
    residual = (signs + 1) / 2 - expit(Phi @ posterior.mean)
    scaled = Phi.T @ residual / np.sqrt(alpha) - np.sqrt(alpha) * posterior.mean
    assert_allclose(scaled, 0, atol=1e-7 * max(1.0, np.sqrt(1 / alpha)))
    assert np.isfinite(posterior.log_evidence)


def test_a_sequential_search_starts_from_some_columns_and_the_bias(monkeypatch):
    """Of a restart with precisions drawn anew; by MacKay's updates all of them to the end."""
    Phi, signs = problem(40)
    begun = []

    def trained(Phi, signs, start, max_iter, charge):
        return SimpleNamespace(active=start[0], alpha=start[1], converged=True, n_iter=1)

    def mackay(Phi, signs, start, max_iter, charge):
        begun.append((*start, max_iter))
        return trained(Phi, signs, start, max_iter, charge)

    monkeypatch.setattr(sbl, "train_mackay", mackay)
    monkeypatch.setattr(sbl, "train_sequential", trained)
    for most, size in ((12, 12), (40, 40), (41, 41)):
        begun.clear()
        _train(Phi, signs, _Search(15, 15, most), np.random.default_rng(0))
        drawn = np.unique(np.concatenate([columns for columns, _, _ in begun]))
        assert_array_equal(drawn, np.arange(41))
        for columns, alpha, max_iter in begun:
            assert_array_equal(columns, np.unique(columns))
            assert (len(columns), columns[-1], max_iter) == (size, 40, 10)
            _, plain = sbl.equal_shares(Phi, columns)
            if columns is begun[0][0]:
                assert_allclose(alpha, plain)
        logs = np.log([alpha / sbl.equal_shares(Phi, at)[1] for at, alpha, _ in begun[1:]])
        assert 1.7 < logs.std() < 2.3
        assert abs(logs.mean()) < 0.5
    begun.clear()
    _train(Phi, signs, _Search(0, 15, None), np.random.default_rng(0))
    assert_array_equal(begun[0][0], np.arange(41))
    assert begun[0][2] == 15


@pytest.mark.parametrize(("share", "chosen"), [(0.9, 1.0), (1.1, 2.0)])
def test_other_lengthscales_are_taken_where_their_gain_is_clear(share, chosen, monkeypatch):
    """Sum of gains beyond the std of a sum whose terms share training rows (Nadeau & Bengio)."""
    module = importlib.import_module(RVMClassifier.__module__)
    n, counts = 30, []
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)

    def log_p(odds):
        return -np.log1p(np.exp(-odds))

    def ratio(level):
        gain = log_p(odds_of(2.0, level)) - log_p(odds_of(1.0, level))
        return gain.sum() / np.sqrt((1.0 + 5 / 4) * n) / gain.std()

    def odds_of(multiple, level):  # of the right class; the best at 2
        return {0.5: 0.2, 1.0: 0.4, 2.0: 0.4 + wiggle + level, 4.0: 0.0}[multiple] * np.ones(n)

    wiggle = np.sin(np.arange(n))
    low, high = 0.0, 5.0
    for _ in range(60):
        level = 0.5 * (low + high)
        low, high = (level, high) if ratio(level) < share else (low, level)

    class Fixed:
        active = slice(None)

        def log_odds(self, features):
            return features[:, 0]

    def design(Z, centers, lengthscales, *_):
        return (signs * odds_of(float(lengthscales[0]) / 3.0, level))[Z[:, 0].astype(int), None]

    def train(inside, signs, search, rng):
        counts.append(len(inside))
        return Fixed()

    monkeypatch.setattr(module, "design", design)
    monkeypatch.setattr(module, "_train", train)
    labels, Z = (signs > 0).astype(int), np.arange(float(n))[:, None]
    asked = Z, labels, np.array([3.0]), _Search(0, 10, 100), np.random.default_rng(0)
    assert _best_multiple(*asked) == chosen
    assert counts == [24] * 15 * 4  # four fifths, three times, for each multiple
    few = np.where(np.arange(n) == 0, 1, 0)
    assert _best_multiple(Z, few, *asked[2:]) == 1.0
    counts.clear()
    _best_multiple(Z, np.where(np.arange(n) < 2, 1, 0), *asked[2:])
    assert counts == [15] * 6 * 4  # halves


def test_lengthscales_of_many_rows_are_judged_by_some(monkeypatch):
    module, n, sizes = importlib.import_module(RVMClassifier.__module__), 600, []
    right = np.where(np.arange(n) % 2, 1.0, -1.0)

    class Fixed:
        active = slice(None)

        def log_odds(self, features):
            sizes.append(len(features))
            return features[:, 0]

    def design(Z, centers, lengthscales, *_):
        return (right * (lengthscales[0] == 2.0))[:, None]

    monkeypatch.setattr(module, "design", design)
    monkeypatch.setattr(module, "_train", lambda *_: Fixed())
    labels, rng = (right > 0).astype(int), np.random.default_rng(0)
    assert _best_multiple(np.zeros((n, 1)), labels, np.ones(1), _Search(0, 10, 100), rng) == 2.0
    assert sizes == [60] * 15 * 4  # of the 120 of a fold


def test_labels_without_structure_need_no_bases():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((100, 2)), np.arange(100) % 2
    rvm = RVMClassifier(lengthscales=2.0).fit(X, rng.permutation(y))
    assert rvm.n_relevance_ <= 2
    assert np.abs(rvm.predict_proba(X) - 0.5).max() < 0.35


def test_duplicate_rows_and_constant_inputs_are_no_obstacle():
    X, y = data(30)
    plain = np.column_stack([X, np.full(30, 3.0)])
    rvm = RVMClassifier(lengthscales=[1.0, 50.0, 1.0])
    rvm.fit(np.vstack([plain, plain]), np.append(y, y))
    assert rvm.converged_
    assert (rvm.predict(plain) == y).mean() > 0.7


def test_a_class_of_a_single_row_is_learned_with_the_plain_rule():
    X, y = data(40)
    X[0], y[0] = [30.0, 900.0], 7
    rvm = RVMClassifier().fit(X, y)
    assert_array_equal(rvm.predict(X[:1]), [7])


def test_inputs_are_not_modified_and_a_fit_repeats():
    before = X.copy(), Y.copy()
    again = RVMClassifier().fit(X, Y)  # the folds of its cross-validation included
    assert_array_equal(X, before[0])
    assert_array_equal(Y, before[1])
    assert_array_equal(again.predict_proba(X), fitted("sequential").predict_proba(X))


def test_too_few_iterations_are_recorded():
    rvm = RVMClassifier(max_iter=1, lengthscales=[0.5, 25.0]).fit(X, Y)
    assert not rvm.converged_
    assert rvm.n_iter_ == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "em"}, "algorithm must be one of 'sequential', 'mackay'; got 'em'"),
        ({"integral": "erf"}, "integral must be one of 'probit', 'quadrature'; got 'erf'"),
        ({"lengthscales": -1.0}, "lengthscales must be positive, one number or 2 .*; got -1.0"),
        ({"lengthscales": [1.0]}, "lengthscales must be positive, one number or 2"),
        ({"n_restarts": -1}, "n_restarts must be a whole number, at least 0; got -1"),
        ({"max_iter": 0.5}, "max_iter must be a whole number, at least 1; got 0.5"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        RVMClassifier(**options).fit(*data(20))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="y must hold at least two classes; got one class, 'a'"):
        RVMClassifier().fit(np.arange(4.0)[:, None], ["a"] * 4)


def read(path, label):
    """Inputs (n, d) and labels of a file whose first column is the row's name."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    inputs = [name for name in rows[0] if name not in ("rownames", label)]
    X = np.array([[float(row[name]) for name in inputs] for row in rows])
    return X, np.array([row[label] for row in rows])


def test_a_few_vectors_tell_the_classes_of_new_rows():
    rows, labels = data(400, seed=9)
    assert fitted("sequential").n_relevance_ <= 8
    assert (fitted("sequential").predict(rows) == labels).mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "label", "most_errors", "most_vectors", "seed"),
    [
        ("ripley_synth", "yc", 0.10, 8, None),
        ("ripley_synth", "yc", 0.10, 8, 6),
        ("pima", "type", 0.22, 8, None),
    ],
)
def test_benchmarks_of_the_literature(shared_data, name, label, most_errors, most_vectors, seed):
    files = f"{name}_tr.csv", f"{name}_te.csv"
    train, test = (read(shared_data / file, label) for file in files)
    rvm = RVMClassifier(random_state=seed).fit(*train)
    assert rvm.converged_
    assert rvm.n_relevance_ <= most_vectors
    assert (rvm.predict(test[0]) != test[1]).mean() <= most_errors


@pytest.mark.parametrize(
    "without", [("check_classifiers_train",), pytest.param((), marks=pytest.mark.slow)], ids=str
)
def test_it_is_a_scikit_learn_estimator(without):
    """That check fits 300 rows three times; fixed length-scales spare each fit 60 others."""
    assert failed_checks(RVMClassifier(lengthscales=1.0), without=without) == {}
