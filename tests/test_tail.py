"""Shapes that are not normal, against scipy's t, sorted samples, sums over fine grids, sampling."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from forecast_unc.distributions.aggregation import aggregate
from forecast_unc.distributions.component import Component
from forecast_unc.distributions.marginals import Marginals
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.tail import EmpiricalTail, StudentTail

H = 3
COR = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, 0.0], [-0.5, 0.0, 1.0]])
MEAN, STD = np.array([4.0, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])
SIZES = np.sort(np.abs(np.random.default_rng(4).standard_t(3, (H, 15))), axis=1)
SCORES = np.array([-8.0, -3.0, -1.0, -1e-3, 0.0, 0.4, 1.2815515655446004, 2.5, 7.0])
MIXTURE = NormalMixture(
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.0, 1.0, 2.0], [0.5, -1.0, 2.0], [-1.0, 0.0, 2.3]]),
    np.array([1.0, 0.25, 3.0])[:, None, None] * np.eye(H),
)
LEVEL = NormalMixture(MIXTURE.p, np.zeros((3, H)), MIXTURE.covs)

TAILS = {
    "t, 3": StudentTail.of(3.0, H),
    "t, 5.5": StudentTail.of(5.5, H),
    "t, 30": StudentTail.of(30.0, H),
    "errors": EmpiricalTail.of(SIZES),
    "mixture of one mean": LEVEL.shape()[2],
    "conditioned t": StudentTail.of(4.0, H).conditioned(
        np.array([0.5, -2.0, 0.0]), np.array([0.9, 0.3, 1.0])
    ),
    "conditioned errors": EmpiricalTail.of(SIZES).conditioned(
        np.array([0.5, -2.0, 0.0]), np.array([0.9, 0.3, 1.0])
    ),
    "conditioned mixture": MIXTURE.shape()[2].conditioned(
        np.array([0.5, -2.0, 0.0]), np.array([0.9, 0.3, 1.0])
    ),
}
POWERS = {"identity": None, "log": 0.0, "root": 0.5}


def shaped(tail, power=None, weight=1.0):
    """Steps of mean and std, or after a transform of values of the same size."""
    mean = MEAN if power is None else np.array([1.0, 0.2, 3.0])
    std = STD if power is None else np.array([0.3, 0.5, 0.2])
    return Component(np.full(H, weight), PowerTransform(power), mean, std, tail)


# With the mean of a transformed t infinite: errors alone after a transform.
# Roots by Newton's method are slow on fine grids: mixtures are in test_normal_mixture.py.
KINDS = {name: [shaped(tail)] for name, tail in TAILS.items() if "mixture" not in name}
KINDS |= {f"errors, {name}": [shaped(TAILS["errors"], power)] for name, power in POWERS.items()}
KINDS |= {
    "conditioned errors, root": [shaped(TAILS["conditioned errors"], 0.5)],
    "average": [
        shaped(TAILS["t, 5.5"], weight=0.3),
        shaped(TAILS["errors"], 0.0, 0.5),
        shaped(None, weight=0.2),
    ],
    "average of errors": [
        shaped(TAILS["errors"], weight=0.5),
        shaped(EmpiricalTail.of(2.0 * SIZES[:, ::2]), 0.5, 0.5),
    ],
}


@pytest.fixture(params=KINDS, ids=str)
def marginals(request):
    return Marginals(KINDS[request.param])


@pytest.fixture(params=TAILS, ids=str)
def tail(request):
    return TAILS[request.param]


def student(dof, t=0):
    """Student's t whose 90 % quantile is that of N(MEAN, STD^2), at one step."""
    scale = STD[t] * stats.norm.ppf(0.9) / stats.t.ppf(0.9, dof)
    return stats.t(dof, MEAN[t], scale)


# Student's t


@pytest.mark.parametrize("dof", [3.0, 4.5, 30.0])
def test_student_is_that_of_scipy(dof):
    marginals = Marginals([shaped(StudentTail.of(dof, H))])
    levels = np.array([1e-9, 1e-3, 0.1, 0.4, 0.5, 0.9, 0.999, 1 - 1e-9])
    z = stats.norm.ppf(levels)
    z[-1] = -z[0]  # 1 - 1e-9 has lost digits
    y = np.array([0.3, 12.0, 2.0])
    q, var = marginals.quantile(z[None]), marginals.variance()
    pit, nlpd = marginals.pit(y), marginals.nlpd(y)
    for t in range(H):
        scipy = student(dof, t)
        expected = np.append(scipy.ppf(levels[:-1]), 2 * MEAN[t] - scipy.ppf(1e-9))
        np.testing.assert_allclose(q[t], expected, rtol=1e-9, atol=1e-12)
        assert marginals.mean()[t] == pytest.approx(MEAN[t], abs=1e-12 * STD[t])
        # exp(-z^2 / 6) of the variance at 3 degrees of freedom lies beyond 12 stds
        assert var[t] == pytest.approx(scipy.var(), rel=1e-9)
        assert pit[t] == pytest.approx(scipy.cdf(y[t]), rel=1e-10)
        assert nlpd[t] == pytest.approx(-scipy.logpdf(y[t]), rel=1e-9)


@pytest.mark.parametrize("dof", [3.0, 8.0])
def test_student_leaves_the_80_percent_interval_where_it_was(dof):
    q = Marginals([shaped(StudentTail.of(dof, H))]).quantile(stats.norm.ppf([[0.1, 0.9]]))
    normal = Marginals([shaped(None)]).quantile(stats.norm.ppf([[0.1, 0.9]]))
    np.testing.assert_allclose(q, normal, rtol=1e-12)


def test_student_of_many_degrees_of_freedom_is_normal():
    tail = StudentTail.of(1e7, 1)
    z = np.linspace(-4, 4, 17)[None]
    np.testing.assert_allclose(tail.forward(z), z, atol=1e-5)
    assert tail.var == pytest.approx(1.0, abs=1e-6)


# Any tail


def test_forward_increases_and_inverse_undoes_it(tail):
    values = tail.forward(SCORES[None])
    assert (np.diff(values) > 0).all()
    for z, t in zip(SCORES, values.T, strict=True):
        np.testing.assert_allclose(tail.inverse(t), z, rtol=1e-9, atol=1e-9)


def test_slope_is_the_derivative(tail):
    z, d = np.array([[-2.9, -1.02, 0.33, 2.2]]), 1e-6
    difference = (tail.forward(z + d) - tail.forward(z - d)) / (2 * d)
    np.testing.assert_allclose(tail.slope(z), difference, rtol=1e-6)


def test_inverse_keeps_what_is_not_finite(tail):
    found = tail.inverse(np.array([np.nan, np.inf, -np.inf]))
    np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf])


@pytest.mark.parametrize("name", [name for name in TAILS if "conditioned" not in name])
def test_var_is_its_integral(name):
    tail = TAILS[name]
    edges = np.unique(np.append(np.linspace(0, 25, 30), np.abs(getattr(tail, "nodes", 0.0))))
    for t in range(H):
        one = tail.picked(np.array([t]))

        def square(z, one=one):
            return 2 * one.forward(np.array([[z]]))[0, 0] ** 2 * stats.norm.pdf(z)

        parts = [integrate.quad(square, a, b, epsrel=1e-12)[0] for a, b in pairwise(edges)]
        assert np.broadcast_to(tail.var, H)[t] == pytest.approx(sum(parts), rel=1e-9)


def test_conditioned_is_the_function_of_a_mean_and_a_std(tail):
    mean, std = np.array([0.3, -1.0, 2.0]), np.array([0.2, 1.0, 0.7])
    z = np.linspace(-3, 3, 11)[None]
    expected = tail.forward(mean[:, None] + std[:, None] * z)
    np.testing.assert_allclose(tail.conditioned(mean, std).forward(z), expected, rtol=1e-12)


def test_picked_and_extended_tails_are_those_of_their_steps(tail):
    z, at = np.linspace(-3, 3, 7)[None], np.array([2, 0])
    np.testing.assert_allclose(tail.picked(at).forward(z), tail.forward(z)[at], 1e-12, 1e-14)
    longer = tail.extended(5)
    np.testing.assert_allclose(longer.forward(z)[:H], tail.forward(z), 1e-12, 1e-14)
    assert (np.diff(longer.forward(z)) > 0).all()


# Distributions made of them, against sums over a fine grid that ends at all corners


def grid(marginals, t):
    """Midpoints and weights of N(0, 1), and q_t there."""
    corners = [c.tail.corners() for c in marginals.components if c.tail is not None]
    corners = [each[t] for each in corners if each is not None]
    edges = np.unique(np.clip(np.concatenate([np.linspace(-12, 20, 4001), *corners]), -12, 20))
    points, weights = np.polynomial.legendre.leggauss(4)
    half = 0.5 * np.diff(edges)[:, None]
    z = (edges[:-1, None] + half * (1 + points)).ravel()
    weights = (half * weights).ravel() * stats.norm.pdf(z)
    return z, weights, marginals.quantile(np.broadcast_to(z, (H, len(z))))[t]


def test_moments_are_their_integrals(marginals):
    var = marginals.covariance(COR).diagonal()
    np.testing.assert_allclose(marginals.variance(), var, rtol=1e-10)
    for t in range(H):
        _, weights, q = grid(marginals, t)
        mean = weights @ q
        assert marginals.mean()[t] == pytest.approx(mean, rel=1e-8, abs=1e-9)
        assert var[t] == pytest.approx(weights @ (q - mean) ** 2, rel=1e-7)


@pytest.mark.parametrize("actual", [0.01, 1.3, 6.0])
def test_crps_is_the_integral_of_the_squared_difference(marginals, actual):
    """E|Y - y| - E|Y - Y'| / 2, the second by sorting: E[Y (2 F - 1)]."""
    got = marginals.crps(np.full(H, actual))
    for t in range(H):
        z, weights, q = grid(marginals, t)
        expected = weights @ np.abs(q - actual) - weights @ (q * (2 * stats.norm.cdf(z) - 1))
        # the corner of |q - y| lies inside one of 4000 panels
        assert got[t] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_nlpd_is_the_slope_of_the_pit(marginals):
    d = 1e-6
    for z in (-0.52, 0.4, 1.9):
        y = marginals.quantile(np.full((H, 1), z))[:, 0]
        inside = ~marginals.atom(y)  # 0 has a probability after Box-Cox
        density = (marginals.pit(y + d) - marginals.pit(y - d))[inside] / (2 * d)
        np.testing.assert_allclose(marginals.nlpd(y)[inside], -np.log(density), atol=1e-4)


def test_covariance_is_its_double_integral(marginals):
    """Mehler's series against E[q_t(z) q_u(rho z + sqrt(1 - rho^2) e)], by midpoints in e."""
    mean, cov = marginals.mean(), marginals.covariance(COR)
    e = np.arange(-9, 9, 0.05) + 0.025
    at_e = stats.norm.pdf(e) * 0.05
    z = np.arange(-11, 14, 0.02) + 0.01
    at_z = stats.norm.pdf(z) * 0.02
    outer = marginals.quantile(np.broadcast_to(z, (H, len(z))))
    for t, u in ((0, 1), (0, 2), (1, 2)):
        rho = COR[t, u]
        at = rho * z[:, None] + np.sqrt(1 - rho**2) * e
        inner = marginals.quantile(np.broadcast_to(at.ravel(), (H, at.size)))[u].reshape(at.shape)
        integral = (at_z * (outer[t] - mean[t])) @ ((inner - mean[u]) @ at_e)
        scale = np.sqrt(cov[t, t] * cov[u, u])
        assert cov[t, u] == pytest.approx(integral, abs=1e-4 * scale)


@pytest.mark.parametrize("name", ["t, 5.5", "errors"])
def test_covariances_are_those_of_a_sample(name, rng):
    """Monte Carlo: with 200,000 draws a correlation has a standard error below .01."""
    marginals = Marginals(KINDS[name])
    z = np.linalg.cholesky(COR) @ rng.standard_normal((H, 200_000))
    sample = np.corrcoef(marginals.quantile(z))
    cov = marginals.covariance(COR)
    std = np.sqrt(cov.diagonal())
    np.testing.assert_allclose(cov / np.outer(std, std), sample, atol=0.03)


def test_shares_of_a_tail_after_a_transform_reach_where_its_integrand_peaks():
    """A steep last line moves the peak of y^2 exp(-z^2 / 2) of a log to twice its slope."""
    tail = EmpiricalTail.of(np.array([[0.5, 0.7, 4.0]] * H))
    one = Marginals([shaped(tail, 0.0)])
    z = np.linspace(-12, 25, 1_000_001)
    weights = stats.norm.pdf(z) * (z[1] - z[0])
    for t in range(H):
        q = one.quantile(np.broadcast_to(z, (H, len(z))))[t]
        mean = weights @ q
        assert one.mean()[t] == pytest.approx(mean, rel=1e-7)
        assert one.variance()[t] == pytest.approx(weights @ (q - mean) ** 2, rel=1e-7)


# Sums


@pytest.mark.parametrize("name", [name for name in KINDS if "conditioned" not in name])
def test_aggregates_keep_mean_and_variance(name):
    marginals = Marginals(KINDS[name])
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, 0.5, 1.0]])
    total, cor = aggregate(marginals, COR, matrix)
    exact = matrix @ marginals.covariance(COR) @ matrix.T
    np.testing.assert_allclose(total.mean(), matrix @ marginals.mean(), rtol=1e-7)
    np.testing.assert_allclose(total.covariance(cor).diagonal(), exact.diagonal(), rtol=1e-7)
    assert np.linalg.eigvalsh(cor)[0] >= -1e-12
    q = total.quantile(np.linspace(-5, 5, 41)[None])
    assert (np.diff(q) >= 0).all()


def test_sums_have_the_degrees_of_freedom_of_their_steps():
    marginals = Marginals([shaped(StudentTail.of(4.0, H))])
    total, _ = aggregate(marginals, COR, np.ones((1, H)))
    std = np.sqrt(marginals.covariance(COR).sum())
    scipy = stats.t(4.0, MEAN.sum(), std / np.sqrt(2.0))
    levels = np.array([0.01, 0.2, 0.5, 0.9])
    q = total.quantile(stats.norm.ppf(levels)[None])[0]
    np.testing.assert_allclose(q, scipy.ppf(levels), rtol=1e-8)


def test_sums_of_steps_with_bands_of_errors_are_normal():
    marginals = Marginals([shaped(TAILS["errors"])])
    total, _ = aggregate(marginals, COR, np.ones((1, H)))
    assert total.normal
    single, cor = aggregate(marginals, COR, np.array([[0.0, 2.0, 0.0]]))
    z = np.linspace(-3, 3, 7)[None]
    np.testing.assert_allclose(single.quantile(z)[0], 2.0 * marginals.quantile(z)[1], rtol=1e-12)
    assert cor == np.ones((1, 1))


# Empirical


@pytest.mark.parametrize("k", [1, 8, 19])
def test_intervals_end_at_the_sorted_sizes(k, rng):
    sizes = np.sort(rng.exponential(size=(2, k)), axis=1)
    tail = EmpiricalTail.of(sizes)
    for i in range(1, k + 1):
        z = stats.norm.ppf(0.5 + 0.5 * i / (k + 1))
        np.testing.assert_allclose(tail.forward(np.array([[z]]))[:, 0], sizes[:, i - 1], rtol=1e-9)
        np.testing.assert_allclose(tail.inverse(-sizes[:, i - 1]), -z, rtol=1e-9)


def test_an_interval_holds_the_next_of_exchangeable_errors_with_its_probability(rng):
    """Coverage i / (k + 1) whatever the distribution: the rank of the next error is uniform."""
    k, n = 9, 20_000
    errors = np.exp(1.5 * rng.standard_normal((n, k + 1)))
    tail = EmpiricalTail.of(np.sort(errors[:, :k], axis=1))
    for i in (3, 8, 9):
        coverage = i / (k + 1)
        z = stats.norm.ppf(0.5 + 0.5 * coverage) * (1 + 1e-12)
        held = errors[:, k] <= tail.forward(np.array([[z]]))[:, 0]
        assert held.mean() == pytest.approx(coverage, abs=4 * np.sqrt(coverage / n))


def test_equal_sizes_are_values_of_positive_probability():
    """Of 1, 2, 2, 4: 2 is the end of the intervals from 40 to 60 %, as is -2 on the other side."""
    tail = EmpiricalTail.of(np.array([[1.0, 2.0, 2.0, 4.0]] * 2))
    upper = stats.norm.ppf(0.5 + 0.5 * 0.6)
    lower = -stats.norm.ppf(0.5 + 0.5 * 0.4)
    np.testing.assert_allclose(tail.inverse(np.array([2.0, -2.0])), [upper, lower], rtol=1e-12)
    z = np.array([[stats.norm.ppf(0.75)]])
    np.testing.assert_allclose(tail.forward(z), 2.0)
    np.testing.assert_allclose(tail.forward(-z), -2.0)
