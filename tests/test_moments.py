"""Moments under an uncertain input: against quadrature, 80 digits, the textbook and limits."""

import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecast_unc import GPRegressor, datasets
from forecast_unc.regression import feature_covariance as spread_module
from forecast_unc.regression import kernel_posterior
from forecast_unc.regression import moments as moments_module
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.moments import covariance_root, departure
from tests import oracles
from tests.members import in_turn

REFERENCE = json.loads((Path(__file__).parent / "reference" / "moments.json").read_text())

# Number of inputs and rank of their covariance
RANKS = [(1, 1), (2, 0), (2, 1), (2, 2), (3, 1), (4, 2), (4, 4)]


@functools.cache
def fitted(d, linear=True, seed=0, noise_std=None):
    rng = np.random.default_rng([d, seed])
    X = rng.uniform(-2, 2, size=(20, d))
    y = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, -1] + 0.1 * rng.standard_normal(20)
    gp = GPRegressor(linear=linear, lengthscales=np.linspace(1.3, 2.0, d), noise_std=noise_std)
    return gp.fit(X, y)


def uncertain_input(d, rank, seed=0, spread=0.4):
    rng = np.random.default_rng([d, rank, seed])
    root = spread * rng.normal(size=(d, rank))
    return rng.uniform(-1.5, 1.5, size=d), root @ root.T


def built_by_hand(rng, m, signs, d=2, scale=1.0):
    """A posterior with arbitrary weights and G; the variances stay positive."""
    factors = []
    for k, sign in enumerate(signs):
        r = m + k  # the second factor has rows beyond the kernels
        root = rng.normal(size=(r, r + 3))
        A = root @ root.T / (r + 3) + (40.0 * (m + 1) if sign < 0 else 0.5) * np.eye(r)
        chol = np.asfortranarray(np.linalg.cholesky(A))
        linear = np.asfortranarray(0.3 * rng.normal(size=(r, d + 1)))
        factors.append(Factor(sign, chol, 0.8 + 0.1 * k, linear))
    return KernelPosterior(
        centers=rng.uniform(-2, 2, size=(m, d)) * scale,
        lengthscales=rng.uniform(1.0, 2.0, size=d) * scale,
        weights=rng.normal(size=m + d + 1),
        factors=tuple(factors),
        linear_var=rng.uniform(0.3, 0.6, size=d + 1),
        kernel_var=0.7,
        noise_var=0.3,
        input_offset=rng.normal(size=d),
        output_offset=-1.2,
    )


def gp_by_hand(X, y, lengthscales, amplitude, linear_scale, bias_scale, noise_std, **_):
    """The posterior of a GP with given hyper-parameters, by numpy alone."""
    X, lengthscales = np.array(X), np.array(lengthscales)
    linear_var = np.append(linear_scale, bias_scale) ** 2
    K = oracles.gp_kernel(X, X, lengthscales, amplitude, np.array(linear_scale), bias_scale)
    K += noise_std**2 * np.eye(len(X))
    projection = np.column_stack([X, np.ones(len(X))]) * linear_var
    b = np.linalg.solve(K, y)
    chol = np.asfortranarray(np.linalg.cholesky(K))
    return KernelPosterior(
        centers=X,
        lengthscales=lengthscales,
        weights=np.concatenate([amplitude**2 * b, projection.T @ b]),
        factors=(Factor(-1, chol, amplitude**2, np.asfortranarray(projection)),),
        linear_var=linear_var,
        kernel_var=amplitude**2,
        noise_var=noise_std**2,
        input_offset=np.zeros(X.shape[1]),
    )


@functools.cache
def mackey_glass(noise_std, every=6):
    """316 rows of 4 lags of a nearly deterministic series: lags are collinear, the hard case."""
    rng = np.random.default_rng(0)
    series = np.asarray(datasets.make_mackey_glass(400 * every))[::every]
    series = (series - series.mean()) / series.std()
    X, y = np.column_stack([series[4 - k : 320 - k] for k in range(1, 5)]), series[4:320]
    y = y + noise_std * rng.standard_normal(316)
    return X, y, rng.normal(size=(4, 2))


def assert_same(moments, cov, oracle, rtol=1e-8):
    mean, var, input_output_cov = oracle
    scale = np.sqrt(var)
    np.testing.assert_allclose(moments.mean, mean, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(moments.var, var, rtol=rtol)
    np.testing.assert_allclose(
        cov @ moments.slope, input_output_cov, rtol=rtol, atol=rtol * scale * np.sqrt(cov.max())
    )


# Roots


def test_root_has_the_rank_and_squares_to_the_covariance():
    for d, rank in RANKS:
        _, cov = uncertain_input(d, rank)
        root = covariance_root(cov)
        assert root.shape == (d, rank)
        np.testing.assert_allclose(root @ root.T, cov, atol=1e-15)
        units = 10.0 ** -np.arange(0.0, 8.0 * d, 8.0)  # of inputs, which change no rank
        moved = covariance_root(cov * np.outer(units, units))
        assert moved.shape == (d, rank)
        moved /= units[:, None]
        np.testing.assert_allclose(moved @ moved.T, cov, atol=1e-12)


# Exact moments against quadrature


@pytest.mark.parametrize(("rank", "linear"), in_turn(RANKS, (True, False)), ids=str)
def test_exact_equals_quadrature_of_predict(rank, linear):
    (d, rank), seed = rank, int(not linear)
    gp = fitted(d, linear, seed)
    mean, cov = uncertain_input(d, rank, seed)
    oracle = oracles.quadrature_moments(lambda X: gp.predict(X, return_std=True), mean, cov)
    assert_same(gp.predict_uncertain(mean, cov), cov, oracle)


@pytest.mark.parametrize(
    ("m", "rank", "signs"),
    [
        (0, 2, (1,)),
        (0, 2, ()),
        (1, 1, (-1,)),
        (1, 1, (1, -1)),
        (9, 1, ()),
        (9, 1, (1,)),
        (9, 2, (-1,)),
        (9, 2, (1, -1)),
    ],
    ids=str,
)
def test_exact_equals_quadrature_for_arbitrary_weights_and_G(rng, m, signs, rank):
    if m == 0 and signs:
        signs = tuple(sign for sign in signs if sign > 0)
        posterior = built_by_hand(rng, 3, signs)
        posterior = replace(posterior, centers=np.empty((0, 2)), weights=posterior.weights[3:])
    else:
        posterior = built_by_hand(rng, m, signs)
    mean, cov = uncertain_input(2, rank)
    oracle = oracles.quadrature_moments(lambda X: oracles.explicit_predict(posterior, X), mean, cov)
    assert_same(posterior.moments(mean, cov), cov, oracle)


def test_slope_is_the_mean_gradient_in_every_direction():
    # cov @ slope does not see the slope where cov has no extent: integrate the gradient itself
    gp = fitted(3)
    mean, cov = uncertain_input(3, 1)
    X, p = oracles.quadrature(mean, cov)
    gradients = [oracles.finite_difference(lambda x: gp.predict(x[None])[0], x) for x in X]
    np.testing.assert_allclose(gp.predict_uncertain(mean, cov).slope, p @ gradients, rtol=1e-7)


@pytest.mark.parametrize(("d", "linear"), [(1, True), (2, False), (4, True)])
def test_certain_input_gives_the_plain_prediction(d, linear):
    gp = fitted(d, linear)
    x = np.linspace(-0.4, 0.7, d)
    (mean,), (std,) = gp.predict(x[None], return_std=True)
    for method in ("exact", "taylor", "monte_carlo"):
        moments = gp.predict_uncertain(x, np.zeros((d, d)), method)
        np.testing.assert_allclose([moments.mean, moments.var], [mean, std**2], rtol=2e-12)
        slope = oracles.finite_difference(lambda x: gp.predict(x[None])[0], x)
        np.testing.assert_allclose(moments.slope, slope, rtol=1e-7)


# Small noise


def test_exact_agrees_with_eighty_digits():
    for name, case in REFERENCE.items():
        cov, answer = np.array(case["cov"]), case["answer"]
        posterior = gp_by_hand(**case)
        condition = np.linalg.cond(posterior.factors[0].chol) ** 2
        moments = posterior.moments(np.array(case["mean"]), cov)
        # 1e-4 at a condition of 2e11
        rtol = 1e-9 + 2.0 * np.finfo(float).eps * condition
        scale = np.abs(case["y"]).max()
        for found, expected, unit in (
            (moments.mean, answer["mean"], scale),
            (moments.var, answer["var"], answer["var"]),
            (cov @ moments.slope, answer["input_output_cov"], scale * np.sqrt(cov.max())),
        ):
            np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * unit, err_msg=name)


@pytest.mark.parametrize("name", [name for name in REFERENCE if "twins" in name])
def test_explicit_form_fails_where_rows_contradict_the_noise(name, monkeypatch):
    # Why the factored form: the same posterior through G + w w' is wrong by a factor.
    case = REFERENCE[name]
    monkeypatch.setattr(kernel_posterior, "_MOST_ROUNDOFF", np.inf)
    posterior, at = gp_by_hand(**case), (np.array(case["mean"]), np.array(case["cov"]))
    departed = departure(
        at[0],
        covariance_root(at[1]),
        ((posterior.centers - at[0]) / posterior.lengthscales).T,
        posterior.lengthscales,
        posterior.weights,
        posterior._second_moment,
    )
    error = abs(posterior.moments(*at).var - case["answer"]["var"])
    assert error < departed.roundoff  # which is known without the answer
    assert departed.roundoff > case["answer"]["var"]


@pytest.mark.parametrize(
    ("signs", "most", "spread"),
    [((-1,), 512, 1e-5), ((1, -1), 0, 0.3), ((-1,), 512, 0.3), ((1, -1), 512, 20.0)],
    ids=str,
)
def test_factored_form_is_the_explicit_one(rng, monkeypatch, signs, most, spread):
    # by Hermite columns and by pivots alone; far out, too, where exponents are combined
    posterior = built_by_hand(rng, 25, signs)
    mean, cov = uncertain_input(2, 2, spread=spread)
    explicit = posterior.moments(mean, cov)
    monkeypatch.setattr(kernel_posterior, "_MOST_ROUNDOFF", -1.0)
    monkeypatch.setattr(spread_module, "_MOST_HERMITE", most)
    np.testing.assert_allclose(posterior.moments(mean, cov).var, explicit.var, rtol=1e-7)


def test_forecast_after_values_that_contradict_the_noise():
    x = [0.3]
    for _ in range(60):
        x.append(3.9 * x[-1] * (1 - x[-1]))
    series = np.append(x, [0.5] * 3)
    gp = GPRegressor().fit(np.column_stack([series[1:60], series[:59]]), series[2:61])
    gp = gp.condition(np.column_stack([series[1:-1], series[:-2]]), series[2:])
    cov = np.diag([1e-7, 1e-8])
    oracle = oracles.quadrature_moments(
        lambda X: gp.predict(X, return_std=True), series[-1:-3:-1], cov, 40
    )
    condition = np.linalg.cond(gp.posterior_.factors[0].chol) ** 2
    rtol = 1e-6 + 10.0 * np.finfo(float).eps * condition
    assert_same(gp.predict_uncertain(series[-1:-3:-1], cov), cov, oracle, rtol)


@pytest.mark.parametrize(
    ("noise_std", "spread"), [(1e-2, 0.3), (1e-3, 1e-2), (1e-4, 1e-8), (1e-4, 0.3)]
)
def test_exact_agrees_with_quadrature_at_small_noise(noise_std, spread):
    X, y, F = mackey_glass(noise_std)
    posterior = gp_by_hand(X, y, [1.5] * 4, 1.5, [0.5] * 4, 1.0, noise_std)
    cov = spread**2 * F @ F.T
    moments = posterior.moments(X[50], cov)

    def predict(X):
        mean, var = posterior.predict(X)  # by a triangular solve: no cancellation
        return mean, np.sqrt(var)

    assert moments.var > 0
    assert_same(moments, cov, oracles.quadrature_moments(predict, X[50], cov, 30), 1e-4)


@pytest.mark.parametrize("spread", [1e-8, 1e-2])
def test_fitted_with_small_noise_agrees_with_quadrature(spread):
    X, y, F = mackey_glass(0.0)
    gp = GPRegressor(noise_std=1e-4 * y.std()).fit(X[:76], y[:76])
    cov = spread**2 * F @ F.T
    oracle = oracles.quadrature_moments(lambda X: gp.predict(X, return_std=True), X[50], cov, 30)
    assert_same(gp.predict_uncertain(X[50], cov), cov, oracle, 1e-4)


def test_a_fit_at_the_least_noise_keeps_the_digits_of_its_variances():
    # With these length-scales the amplitude runs to its bound, 1e4 times the noise.
    X, y, F = mackey_glass(1e-4, every=1)
    gp = GPRegressor(noise_std=1e-4 * y.std(), lengthscales=1.5).fit(X, y)
    for spread in (1e-6, 1e-4, 1e-3, 1e-2, 1e-1):
        cov = spread**2 * F @ F.T
        _, var, _ = oracles.quadrature_moments(
            lambda X: gp.predict(X, return_std=True), X[50], cov, 30
        )
        assert gp.predict_uncertain(X[50], cov).var == pytest.approx(var, rel=1e-3)


def test_learned_noise_keeps_the_digits_of_the_variances_too():
    # noise-free chaos: without the least ratio the noise ends 1e-6 amplitudes low
    x = [0.3]
    for _ in range(60):
        x.append(3.9 * x[-1] * (1 - x[-1]))
    series = np.array(x) / np.std(x)
    gp = GPRegressor().fit(series[:-1, None], series[1:])
    assert gp.noise_std_ / gp.amplitude_ >= 1e-4 * (1 - 1e-9)
    for spread in (1e-4, 1e-2, 1e-1):
        cov = np.array([[spread**2]])
        _, var, _ = oracles.quadrature_moments(
            lambda X: gp.predict(X, return_std=True), series[7:8], cov, 90
        )
        assert gp.predict_uncertain(series[7:8], cov).var == pytest.approx(var, rel=1e-4)


def test_the_sum_over_tiles_is_the_sum_over_all(rng):
    # 200 centers are three tiles a side, the last ones smaller
    m, half = 200, 0.3
    W = np.asfortranarray(rng.standard_normal((m, m)))
    W += W.T
    kernel, z = rng.uniform(0.1, 1.0, m), 0.3 * rng.standard_normal((4, m))
    exponents = 0.5 * ((z[:, :, None] + z[:, None]) ** 2).sum(axis=0) - half
    expected = kernel @ (W * np.expm1(exponents)) @ kernel
    scale = kernel @ np.abs(W * np.expm1(exponents)) @ kernel
    tiles = moments_module.contiguous_tiles(W)
    found = moments_module._weighted_expm1(tiles, kernel, np.log(kernel), z, half)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * scale)


def test_textbook_form_fails_at_small_noise():
    # Why the departure form: the same formula, the same data, the same doubles.
    X, y, F = mackey_glass(1e-4)
    posterior = gp_by_hand(X, y, [1.5] * 4, 1.5, [0.5] * 4, 1.0, 1e-4)
    cov = 1e-6 * F @ F.T
    _, var, _ = oracles.textbook_moments(posterior, X[50], cov)
    # 7 to 100 times the variance, with either sign, depending on the processor
    assert abs(var / posterior.moments(X[50], cov).var - 1.0) > 0.5

    case = REFERENCE["noise of 1e-4, tiny cov"]
    mean, cov, true = np.array(case["mean"]), np.array(case["cov"]), case["answer"]["var"]
    _, var, _ = oracles.textbook_moments(gp_by_hand(**case), mean, cov)
    ours = gp_by_hand(**case).moments(mean, cov).var
    # 1e-3 to 6e-2 against 4e-9 at most, depending on the processor
    assert abs(var / true - 1) > 1e4 * abs(ours / true - 1)


# Wide inputs


@pytest.mark.parametrize(("m", "rank", "distance"), [(12, 1, 0.5), (700, 2, 30.0), (12, 1, 80.0)])
def test_exact_agrees_with_the_textbook_however_far(rng, m, rank, distance):
    posterior = built_by_hand(rng, m, (-1, 1))
    _, cov = uncertain_input(2, rank)
    mean, cov = np.array([distance, -0.7 * distance]), cov * distance**2
    oracle = oracles.textbook_moments(posterior, mean, cov)
    assert_same(posterior.moments(mean, cov), cov, oracle, 1e-8)


def test_far_input_keeps_its_digits_where_kernels_are_all_there_is(rng):
    # nothing linear and little noise: what is left far out are the combined exponents
    posterior = built_by_hand(rng, 700, (1,))
    m = len(posterior.centers)
    (factor,) = posterior.factors
    kernels_only = replace(
        posterior,
        weights=np.append(posterior.weights[:m], np.zeros(3)),
        factors=(replace(factor, linear=np.zeros_like(factor.linear)),),
        linear_var=np.zeros(3),
        kernel_var=0.0,
        noise_var=1e-6,
    )
    for rank in (1, 2):
        _, cov = uncertain_input(2, rank)
        mean, cov = np.array([25.0, -30.0]), 30.0**2 * cov
        oracle = oracles.textbook_moments(kernels_only, mean, cov)
        assert_same(kernels_only.moments(mean, cov), cov, oracle)


def test_far_input_uses_combined_exponents_and_agrees_with_quadrature(rng, monkeypatch):
    posterior = built_by_hand(rng, 9, (-1,), d=1)
    mean, cov = np.array([45.0]), np.array([[400.0]])
    moments = posterior.moments(mean, cov)
    grid = np.linspace(-300.0, 400.0, 400_001)  # the kernels are narrow against cov
    p = np.exp(-0.5 * (grid - mean) ** 2 / cov[0, 0])
    p /= p.sum()
    mu, std = oracles.explicit_predict(posterior, grid[:, None])
    first = p @ mu
    oracle = first, p @ (std**2 + (mu - first) ** 2), [p @ ((grid - mean) * (mu - first))]
    assert_same(moments, cov, oracle)
    monkeypatch.setattr(moments_module, "LARGE_EXPONENT", np.inf)
    with np.errstate(all="ignore"):
        assert not np.isfinite(posterior.moments(mean, cov).var)  # so the branch was needed


@pytest.mark.parametrize("spread", [1e4, 1e6])
def test_wide_input_returns_to_the_prior(spread):
    gp = fitted(2, linear=False)
    moments = gp.predict_uncertain([0.3, -0.2], spread**2 * np.eye(2))
    prior = gp.amplitude_**2 + gp.noise_std_**2
    mean, std = gp.posterior_.output_offset, np.sqrt(prior)
    np.testing.assert_allclose(moments.mean, mean, atol=10 * std / spread)
    np.testing.assert_allclose(moments.var, prior, rtol=10 / spread)


def test_far_certain_input_returns_to_the_prior():
    gp = fitted(2, linear=False)
    moments = gp.predict_uncertain([1e3, -1e3], 1e-3 * np.eye(2))
    prior = gp.amplitude_**2 + gp.noise_std_**2
    np.testing.assert_allclose(moments.mean, gp.posterior_.output_offset, rtol=1e-12)
    np.testing.assert_allclose(moments.var, prior, rtol=1e-12)
    np.testing.assert_array_equal(moments.slope, [0.0, 0.0])


# Taylor


def taylor_by_finite_differences(gp, mean, cov, step=1e-3):
    """mu, v + tr(v'' S) / 2 + mu' S mu', and S mu', from predictions alone."""

    def predict(x):
        (mu,), (std,) = gp.predict(x[None], return_std=True)
        return np.array([mu, std**2])

    d = len(mean)
    unit = step * np.eye(d)
    bend = sum(
        cov[i, j]
        * (
            predict(mean + unit[i] + unit[j])
            - predict(mean + unit[i] - unit[j])
            - predict(mean - unit[i] + unit[j])
            + predict(mean - unit[i] - unit[j])
        )[1]
        / (4 * step**2)
        for i in range(d)
        for j in range(d)
    )
    slope = oracles.finite_difference(lambda x: predict(x)[0], mean, step)
    mu, v = predict(mean)
    return mu, v + 0.5 * bend + slope @ cov @ slope, cov @ slope


@pytest.mark.parametrize(("d", "rank", "linear"), [(1, 1, True), (2, 1, False), (3, 3, True)])
def test_taylor_is_the_expansion_by_finite_differences(d, rank, linear):
    gp = fitted(d, linear)
    mean, cov = uncertain_input(d, rank, spread=0.1)
    oracle = taylor_by_finite_differences(gp, mean, cov)
    assert_same(gp.predict_uncertain(mean, cov, "taylor"), cov, oracle, 1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_taylor_variance_is_right_to_first_order(seed):
    gp = fitted(3, seed=seed)
    mean, cov = uncertain_input(3, 3, seed)
    errors = []
    for scale in (1e-3, 1e-4):
        exact, taylor = (gp.predict_uncertain(mean, scale * cov, m) for m in ("exact", "taylor"))
        away = [getattr(taylor, name) - getattr(exact, name) for name in ("var", "mean", "slope")]
        errors.append(np.abs(np.hstack(away)))
    ratio = errors[1] / errors[0]
    np.testing.assert_allclose(ratio[0], 0.01, rtol=0.1)  # second order is what is missing
    np.testing.assert_allclose(ratio[1:], 0.1, rtol=0.1)  # the mean and its slope are plain


def test_taylor_refuses_a_negative_variance():
    gp = fitted(2, linear=False)
    far = gp.posterior_.centers.mean(axis=0) + 3.5
    with pytest.raises(
        ValueError,
        match=r"variance must be positive; got -.*used outside its range.*Use 'exact'\.",
    ):
        gp.predict_uncertain(far, 1e4 * np.eye(2), "taylor")


# Monte Carlo


def test_monte_carlo_agrees_with_exact_within_its_own_error():
    n = 50_000
    gp = fitted(2)
    mean, cov = uncertain_input(2, 2)
    exact = gp.predict_uncertain(mean, cov)
    sampled = gp.predict_uncertain(mean, cov, "monte_carlo", n_samples=n, random_state=1)
    X = np.random.default_rng(2).multivariate_normal(mean, cov, size=n)
    mu, std = gp.predict(X, return_std=True)
    spread_mean, spread_var = mu.std(), (std**2 + (mu - mu.mean()) ** 2).std()
    assert abs(sampled.mean - exact.mean) < 5 * spread_mean / np.sqrt(n)
    assert abs(sampled.var - exact.var) < 5 * spread_var / np.sqrt(n)
    spread_slope = gp.posterior_.gradient(X).std(axis=0)
    assert (np.abs(sampled.slope - exact.slope) < 5 * spread_slope / np.sqrt(n)).all()


def test_monte_carlo_follows_its_seed():
    gp = fitted(2)
    mean, cov = uncertain_input(2, 2)

    def draw(**kwargs):
        return gp.predict_uncertain(mean, cov, "monte_carlo", n_samples=50, **kwargs).mean

    assert draw(random_state=3) == draw(random_state=3)
    assert draw(random_state=3) == draw(random_state=np.random.default_rng(3))
    assert draw(random_state=3) != draw(random_state=4)


def test_monte_carlo_takes_the_seed_of_the_estimator():
    gp = fitted(2)
    mean, cov = uncertain_input(2, 2)
    seeded = GPRegressor(random_state=3)
    seeded.__dict__.update({k: v for k, v in vars(gp).items() if k != "random_state"})
    answers = [
        model.predict_uncertain(mean, cov, "monte_carlo", n_samples=50, random_state=seed).mean
        for model, seed in ((seeded, None), (gp, 3), (seeded, 4))
    ]
    assert answers[0] == answers[1] != answers[2]


# Bad input


@pytest.mark.parametrize(
    ("mean", "cov", "message"),
    [
        ([0.0], np.eye(2), r"mean must have shape \(2,\), one number an input; got \(1,\)"),
        ([[0.0, 0.0]], np.eye(2), r"got \(1, 2\)\. Pass one input at a time\."),
        ([0.0, 0.0], np.ones(2), r"cov must have shape \(2, 2\); got \(2,\)\. For independent"),
        ([0.0, np.nan], np.eye(2), r"mean and cov must be finite; got NaN or infinity\."),
        ([0.0, 0.0], np.full((2, 2), np.inf), r"mean and cov must be finite"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], r"cov must be symmetric; .*differ by 0\.5 "),
        (
            [0.0, 0.0],
            [[1.0, 2.0], [2.0, 1.0]],
            r"cov must be positive semi-definite; got correlations with an eigenvalue of -1\.",
        ),
    ],
)
def test_bad_uncertain_input_is_refused(mean, cov, message):
    with pytest.raises(ValueError, match=message):
        fitted(2).predict_uncertain(mean, cov)


def test_unknown_method_is_refused():
    with pytest.raises(
        ValueError,
        match=r"method must be one of 'exact', 'taylor', 'monte_carlo'; got 'sampling'\.",
    ):
        fitted(2).predict_uncertain([0.0, 0.0], np.eye(2), "sampling")


def test_uncertain_input_is_not_modified():
    mean, cov = uncertain_input(2, 2)
    for method in ("exact", "taylor", "monte_carlo"):
        before = mean.copy(), cov.copy()
        fitted(2).predict_uncertain(mean, cov, method)
        np.testing.assert_array_equal(mean, before[0])
        np.testing.assert_array_equal(cov, before[1])
