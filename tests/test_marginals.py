"""Distributions of the steps, against scipy, adaptive quadrature and sums over fine grids."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from forecast_unc.distributions.aggregation import aggregate
from forecast_unc.distributions.component import Component
from forecast_unc.distributions.marginals import Marginals
from forecast_unc.distributions.power import PowerTransform

H = 3
COR = np.array([[1.0, 0.7, -0.4], [0.7, 1.0, 0.1], [-0.4, 0.1, 1.0]])


def component(power, mean, std, weight=1.0):
    weight, mean, std = (np.broadcast_to(x, H) * 1.0 for x in (weight, mean, std))
    return Component(weight, PowerTransform(power), mean, std)


IDENTITY = component(None, [4.0, -1.0, 2.0], [1.0, 2.0, 0.5], 0.3)
LOG = component(0.0, [0.0, 1.0, -2.0], [0.3, 1.0, 0.7], 0.3)
WIDE = component(0.0, 1.0, [3.0, 2.5, 0.1])
ROOT = component(0.5, [2.0, -1.0, 6.0], [0.5, 1.5, 2.0], 0.4)
LINE = component(1.0, [-1.0, 0.5, -2.0], 1.0)
NEARLY_LOG = component(1e-3, [0.5, 1.0, -1.0], [1.0, 2.0, 3.0])

KINDS = {
    "identity": [IDENTITY],
    "log": [LOG],
    "wide log": [WIDE],
    "root": [ROOT],
    "truncated": [LINE],
    "nearly log": [NEARLY_LOG],
    "identity and log": [IDENTITY, LOG],
    "log and root": [LOG, ROOT],
    "roots": [ROOT, LINE],
    "all": [IDENTITY, LOG, ROOT],
}


@pytest.fixture(params=KINDS, ids=str)
def marginals(request):
    return Marginals(KINDS[request.param])


def at_step(marginals, t):
    """q_t as a plain function of a number."""
    return lambda z: float(marginals.quantile(np.full((H, 1), z))[t, 0])


def points(marginals, t, end):
    """Kinks of q_t, where an adaptive rule has to be told to look, and 0."""
    kinks = [
        (-1 / c.transform.power - c.mean[t]) / c.std[t]
        for c in marginals.components
        if c.transform.power
    ]
    return sorted({0.0, *(k for k in kinks if -12 < k < end)})


def expected(marginals, t, function, end=20.0):
    """E[function(z, q_t(z))] by adaptive quadrature between the kinks."""
    q = at_step(marginals, t)
    edges = [-12.0, *points(marginals, t, end), end]
    return sum(
        integrate.quad(
            lambda z: function(z, q(z)) * stats.norm.pdf(z), a, b, epsabs=0, epsrel=1e-11, limit=200
        )[0]
        for a, b in pairwise(edges)
    )


def test_mean_and_variance_are_their_integrals(marginals):
    var = marginals.covariance(COR).diagonal()
    for t, (mean, v) in enumerate(zip(marginals.mean(), var, strict=True)):
        first = expected(marginals, t, lambda z, y: y)
        assert mean == pytest.approx(first, rel=1e-9)
        assert v == pytest.approx(
            expected(marginals, t, lambda z, y, m=mean: (y - m) ** 2), rel=1e-8
        )


def test_lognormal_moments_are_closed_forms():
    for c in (LOG, WIDE):
        marginals = Marginals([c])
        lognormal = stats.lognorm(c.std, scale=np.exp(c.mean))
        np.testing.assert_allclose(marginals.mean(), lognormal.mean(), rtol=1e-12)
        m, s = lognormal.mean(), c.std
        cov = np.outer(m, m) * (np.exp(COR * np.outer(s, s)) - 1)
        np.testing.assert_allclose(marginals.covariance(COR), cov, rtol=1e-10)


def test_covariance_is_its_double_integral(marginals):
    """E[(q_t(z) - m) E[q_u(rho z + sqrt(1 - rho^2) e) - m' | z]] on fine grids, by midpoints."""
    mean, cov = marginals.mean(), marginals.covariance(COR)
    scale = np.sqrt(np.outer(cov.diagonal(), cov.diagonal()))
    z = np.arange(-10, 16, 0.02) + 0.01
    e = np.arange(-9, 9, 0.02) + 0.01
    at_z, at_e = (stats.norm.pdf(x) * 0.02 for x in (z, e))
    for t, u in ((0, 1), (0, 2), (1, 2)):
        rho = COR[t, u]
        shift = np.sqrt(1 - rho**2)
        inner = [
            at_e @ marginals.quantile((rho * x + shift * e)[None])[u] - at_e.sum() * mean[u]
            for x in z
        ]
        outer = marginals.quantile(z[None])[t] - mean[t]
        integral = (at_z * outer) @ np.array(inner)
        assert cov[t, u] == pytest.approx(integral, abs=2e-5 * scale[t, u])


def test_mehler_and_the_closed_form_agree_where_box_cox_tends_to_the_log():
    box_cox = Marginals([component(1e-9, WIDE.mean, WIDE.std)]).covariance(COR)
    np.testing.assert_allclose(box_cox, Marginals([WIDE]).covariance(COR), rtol=1e-6)


def test_covariance_is_positive_semidefinite_at_perfect_correlation(marginals):
    one = np.ones((H, H))
    cov = marginals.covariance(one)
    std = np.sqrt(cov.diagonal())
    assert np.linalg.eigvalsh(cov / np.outer(std, std))[0] > -1e-12


def test_normal_score_inverts_the_quantile(marginals):
    for z in np.linspace(-3, 4, 15):
        y = marginals.quantile(np.full((H, 1), z))[:, 0]
        inside = y > 0 if marginals.components[0].transform.power is not None else np.full(H, True)
        np.testing.assert_allclose(marginals.normal_score(y)[inside], z, rtol=0, atol=1e-10)


def test_values_below_all_others_have_no_probability():
    for parts in ([LOG], [ROOT], [LOG, ROOT], [ROOT, LINE]):
        marginals, y = Marginals(parts), np.array([-1.0, -1e-9, -1e9])
        np.testing.assert_array_equal(marginals.pit(y), 0.0)
        np.testing.assert_array_equal(marginals.nlpd(y), np.inf)
    np.testing.assert_array_equal(Marginals([LOG, ROOT]).pit(np.zeros(H)), 0.0)
    far = np.array([-1e3, -3e2, -50.0])
    marginals = Marginals([IDENTITY, LOG])
    np.testing.assert_allclose(
        marginals.quantile(marginals.normal_score(far)[:, None])[:, 0], far, rtol=1e-10
    )


def test_zero_has_the_probability_below_the_boundary():
    marginals, zero = Marginals([LINE]), np.zeros(H)
    mass = stats.norm.cdf(-1.0, LINE.mean, LINE.std)
    np.testing.assert_allclose(marginals.pit(zero), mass, rtol=1e-12)
    np.testing.assert_allclose(marginals.nlpd(zero), -np.log(mass), rtol=1e-12)
    both = Marginals([LINE, ROOT])
    mass = np.minimum(mass, stats.norm.cdf(-2.0, ROOT.mean, ROOT.std))
    np.testing.assert_allclose(both.pit(zero), mass, rtol=1e-9)


def test_nlpd_is_the_slope_of_the_pit(marginals):
    d = 1e-5
    for z in (-0.5, 0.4, 2.0):
        y = marginals.quantile(np.full((H, 1), z))[:, 0]
        smooth = (
            y > 1e-3 if marginals.components[0].transform.power is not None else np.full(H, True)
        )
        step = d * np.where(smooth, np.abs(y), 1.0)
        density = (marginals.pit(y + step) - marginals.pit(y - step)) / (2 * step)
        np.testing.assert_allclose(marginals.nlpd(y)[smooth], -np.log(density)[smooth], atol=1e-4)


def test_nlpd_of_a_lognormal_is_that_of_scipy():
    y = np.array([0.2, 3.0, 1.0])
    lognormal = stats.lognorm(LOG.std, scale=np.exp(LOG.mean))
    np.testing.assert_allclose(Marginals([LOG]).nlpd(y), -lognormal.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(Marginals([LOG]).pit(y), lognormal.cdf(y), rtol=1e-12)


@pytest.mark.parametrize("actual", [-2.0, 0.0, 0.3, 2.0, 30.0])
def test_crps_is_the_integral_of_the_quantile_score(marginals, actual):
    y = np.full(H, actual)
    got = marginals.crps(y)
    for t in range(H):
        cut = float(np.clip(marginals.normal_score(y)[t], -12, 14))
        q = at_step(marginals, t)

        def score(z, q=q):
            level = stats.norm.cdf(z)
            loss = (actual - q(z)) * (level if actual >= q(z) else level - 1)
            # 1 - Phi(z) keeps its digits.
            loss = (q(z) - actual) * stats.norm.sf(z) if actual < q(z) else loss
            return 2 * loss * stats.norm.pdf(z)

        edges = sorted({-12.0, *points(marginals, t, 14.0), cut, 14.0})
        integral = sum(
            integrate.quad(score, a, b, epsabs=1e-12, epsrel=1e-10, limit=200)[0]
            for a, b in pairwise(edges)
        )
        assert got[t] == pytest.approx(integral, rel=1e-6, abs=1e-8)


def test_missing_values_have_no_score(marginals):
    y = np.array([1.0, np.nan, 1.0])
    for score in (marginals.crps, marginals.nlpd, marginals.pit):
        np.testing.assert_array_equal(np.isnan(score(y)), [False, True, False])


def test_identities_merge_into_one():
    other = component(None, 0.0, 1.0, 0.1)
    marginals = Marginals([IDENTITY, LOG, other])
    assert len(marginals.components) == 2
    np.testing.assert_allclose(sum(c.weight for c in marginals.components), 1)
    z = np.array([[-1.0, 0.0, 2.0]])
    expected = (0.3 * IDENTITY.quantile(z) + 0.3 * LOG.quantile(z) + 0.1 * other.quantile(z)) / 0.7
    np.testing.assert_allclose(marginals.quantile(z), expected, rtol=1e-13)


MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
def test_aggregates_keep_mean_and_variance(kind):
    marginals = Marginals(KINDS[kind])
    total, cor = aggregate(marginals, COR, MATRIX[:2])
    exact = MATRIX[:2] @ marginals.covariance(COR) @ MATRIX[:2].T
    np.testing.assert_allclose(total.mean(), MATRIX[:2] @ marginals.mean(), rtol=1e-9)
    got = total.covariance(cor)
    np.testing.assert_allclose(got.diagonal(), exact.diagonal(), rtol=1e-8)
    assert np.linalg.eigvalsh(cor)[0] >= -1e-12


@pytest.mark.parametrize("kind", ["log", "identity and log", "log and root", "all"])
def test_aggregates_keep_covariances_that_their_shapes_allow(kind):
    marginals = Marginals(KINDS[kind])
    positive = np.array([[1.0, 0.7, 0.4], [0.7, 1.0, 0.1], [0.4, 0.1, 1.0]])
    total, cor = aggregate(marginals, positive, MATRIX[:2])
    exact = MATRIX[:2] @ marginals.covariance(positive) @ MATRIX[:2].T
    assert abs(cor[0, 1]) < 1
    np.testing.assert_allclose(total.covariance(cor), exact, rtol=1e-7)


def test_correlations_of_overlapping_aggregates_remain_a_correlation_matrix(marginals):
    one = np.ones((H, H))
    for cor in (COR, one):
        _, joint = aggregate(marginals, cor, np.vstack([MATRIX, MATRIX[2:]]))
        np.testing.assert_array_equal(joint.diagonal(), 1.0)
        np.testing.assert_allclose(joint, joint.T)
        assert np.linalg.eigvalsh(joint)[0] >= -1e-10
        assert joint[2, 3] == pytest.approx(1)


def test_single_steps_are_scaled_exactly(marginals):
    rows = np.array([[0.0, 0.0, 3.0], [0.5, 0.0, 0.0]])
    picked, cor = aggregate(marginals, COR, rows)
    z = np.linspace(-2, 3, 7)[None]
    q = marginals.quantile(z)
    np.testing.assert_allclose(picked.quantile(z), [3 * q[2], 0.5 * q[0]], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(cor, [[1, COR[2, 0]], [COR[2, 0], 1]])
