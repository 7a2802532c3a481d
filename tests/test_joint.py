"""Joints of every kind against their definition: functions of normal scores, on fine grids."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from forecast_unc import Forecast
from forecast_unc.distributions.average import average as joint_average
from forecast_unc.distributions.forecast import forecast_of
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.marginals import (
    SCORES,
    Marginals,
    average,
    error_scores,
    error_sizes,
    newton,
    student,
)
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.distributions.sums import linear

H = 3
COR = np.array([[1.0, 0.7, -0.4], [0.7, 1.0, 0.1], [-0.4, 0.1, 1.0]])
M, S = np.array([0.4, -0.3, 1.0]), np.array([0.5, 0.8, 0.3])
SIZES = np.sort(np.random.default_rng(1).uniform(0.2, 3.0, (H, 9)), axis=1)
EDGES = np.linspace(-13.0, 17.0, 120_001)
Z = 0.5 * (EDGES[1:] + EDGES[:-1])
DENSITY = stats.norm.pdf(Z) * np.diff(EDGES)


def forecast(power=None, lower=0.0, mean=M, std=S):
    transform = PowerTransform(power, lower)
    return Forecast(pd.RangeIndex(H), mean, np.outer(std, std) * COR, transform=transform)


def student_of_scipy(z, dof):
    scale = stats.norm.ppf(0.9) / stats.t.ppf(0.9, dof)
    return -np.sign(z) * scale * stats.t.ppf(stats.norm.cdf(-np.abs(z)), dof)


def lines(z, t):
    nodes = stats.norm.ppf(0.5 + 0.5 * np.arange(1, 10) / 10)
    far = SIZES[t, -1] / nodes[-1] * np.abs(z)
    inner = np.interp(np.abs(z), [0.0, *nodes], [0.0, *SIZES[t]])
    return np.sign(z) * np.where(np.abs(z) > nodes[-1], far, inner)


def box_cox(x, power, lower=0.0):
    return lower + np.maximum(power * x + 1.0, 0.0) ** (1.0 / power)


def members(z, t, shape=lambda z: z, factor=1.0):
    x = M[t] + factor * S[t] * z
    return (M[t] + factor * S[t] * shape(z), np.exp(x), box_cox(x, 0.4))


def shares(values):
    return 0.2 * values[0] + 0.5 * values[1] + 0.3 * values[2]


AVERAGE = Forecast.average([forecast(), forecast(0.0), forecast(0.4)], [0.2, 0.5, 0.3])
JOINTS = {
    "normal": (forecast(), lambda z, t: M[t] + S[t] * z),
    "log": (forecast(0.0), lambda z, t: np.exp(M[t] + S[t] * z)),
    "root from 2": (forecast(0.5, 2.0), lambda z, t: box_cox(M[t] + S[t] * z, 0.5, 2.0)),
    "line with zeros": (
        forecast(1.0, mean=M - 1.2),
        lambda z, t: box_cox(M[t] - 1.2 + S[t] * z, 1.0),
    ),
    "average": (AVERAGE, lambda z, t: shares(members(z, t))),
    "t": (
        forecast().recalibrated(np.full(H, 1.5), dof=5),
        lambda z, t: M[t] + 1.5 * S[t] * student_of_scipy(z, 5),
    ),
    "recalibrated average": (
        AVERAGE.recalibrated(np.full(H, 1.2), dof=6, correlation=-0.3),
        lambda z, t: shares(members(z, t, lambda z: student_of_scipy(z, 6), 1.2)),
    ),
    "conformal": (
        forecast(0.0).conformal(SIZES),
        lambda z, t: np.exp(M[t] + S[t] * lines(z, t)),
    ),
    "censored": (forecast().censored(0.3), lambda z, t: np.maximum(M[t] + S[t] * z, 0.3)),
    "censored average": (
        AVERAGE.censored(0.9),
        lambda z, t: np.maximum(shares(members(z, t)), 0.9),
    ),
    "censored t": (
        forecast().recalibrated(np.ones(H), dof=4).censored(0.3),
        lambda z, t: np.maximum(M[t] + S[t] * student_of_scipy(z, 4), 0.3),
    ),
    "minus censored conformal": (
        1.0 - forecast().conformal(SIZES).censored(0.2),
        lambda z, t: 1.0 - np.maximum(M[t] + S[t] * lines(-z, t), 0.2),
    ),
    "minus log": (3.0 - forecast(0.0), lambda z, t: 3.0 - np.exp(M[t] - S[t] * z)),
    "scaled": (10.0 * AVERAGE - 4.0, lambda z, t: 10.0 * shares(members(z, t)) - 4.0),
}  # fmt: skip


@pytest.fixture(params=JOINTS)
def kind(request):
    return request.param


@pytest.fixture
def ahead(kind):
    return JOINTS[kind][0]


@pytest.fixture
def q(kind):
    """The functions of the steps on the grid, (H, n)."""
    return np.array([JOINTS[kind][1](Z, t) for t in range(H)])


def test_quantiles_are_the_functions_of_the_scores(kind, ahead):
    z = np.array([-4.0, -1.5, -0.3, 0.0, 0.4, 2.0, 4.5])
    expected = np.array([JOINTS[kind][1](z, t) for t in range(H)])
    found = ahead.quantile(stats.norm.cdf(z)).to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4)  # cubics of a table, far out
    np.testing.assert_allclose(found[:, 1:-1], expected[:, 1:-1], rtol=2e-6, atol=2e-6)


def test_cdf_undoes_quantiles(ahead):
    for p in (1e-6, 0.02, 0.3, 0.5, 0.77, 0.99, 1 - 1e-6):
        values = ahead.quantile(p)
        atom = ahead.cdf(values) > ahead.cdf(values - 1e-9 * ahead.std) + 1e-6
        back = ahead.cdf(values)
        np.testing.assert_allclose(back[~atom], p, rtol=1e-10)
        assert (back[atom] >= p - 1e-12).all()
        np.testing.assert_allclose(ahead.prob(lower=values), 1.0 - back, atol=1e-12)


def test_impossible_values_have_no_probability(ahead):
    low, high = ahead.cdf(-1e9), ahead.cdf(1e9)
    np.testing.assert_allclose(low, 0.0, atol=1e-12)
    np.testing.assert_allclose(high, 1.0, atol=1e-12)
    assert np.isnan(ahead.cdf(pd.Series(np.nan, ahead.index))).all()


def test_moments_are_their_integrals(ahead, q):
    mean = q @ DENSITY
    np.testing.assert_allclose(ahead.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(ahead.var, (q - mean[:, None]) ** 2 @ DENSITY, rtol=1e-5)


def test_covariance_is_its_double_integral(kind, ahead):
    smooth = kind in ("t", "recalibrated average")  # and slow
    edges = np.linspace(-8.0, 8.0, 801 if smooth else 1201)
    z = 0.5 * (edges[1:] + edges[:-1])
    weight = stats.norm.pdf(z) * (edges[1] - edges[0])
    cor = ahead._joint.cor
    for t, u in ((0, 1), (0, 2), (1, 2)):
        rho = cor[t, u]
        other = rho * z[:, None] + np.sqrt(1.0 - rho**2) * z
        values = JOINTS[kind][1](other.ravel(), u).reshape(other.shape) @ weight
        expected = weight @ (JOINTS[kind][1](z, t) * values) - ahead.mean[t] * ahead.mean[u]
        scale = ahead.std[t] * ahead.std[u]
        assert ahead.cov.iloc[t, u] / scale == pytest.approx(expected / scale, abs=2e-5)


@pytest.mark.parametrize("y", [0.3, 2.5, -9.0])
def test_crps_is_the_integral_of_the_quantile_score(ahead, q, y):
    p = stats.norm.cdf(Z)
    expected = 2.0 * ((q > y) - p) * (q - y) @ DENSITY
    found = ahead.score(pd.Series(y, ahead.index))["crps"]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_the_crps_of_a_value_far_out_is_its_distance(ahead):
    for y in (-1e30, 1e30):
        found = ahead.score(pd.Series(y, ahead.index))["crps"]
        np.testing.assert_allclose(found, 1e30, rtol=2e-12)


def test_nlpd_is_the_slope_of_the_pit(kind, ahead):
    values = ahead.quantile(0.2 if "minus" in kind else 0.8)  # not at a bound
    step = 1e-5 * ahead.std
    values = values + 2.0 * step  # not at an end of a line
    slope = (ahead.cdf(values + step) - ahead.cdf(values - step)) / (2.0 * step)
    np.testing.assert_allclose(ahead.score(values)["nlpd"], -np.log(slope), atol=1e-6)


def test_paths_have_the_joint_distribution(ahead):
    n = 40_000
    paths = ahead.sample(n, random_state=0).to_numpy()
    for p in (0.2, 0.9):
        below = (paths <= ahead.quantile(p).to_numpy()[:, None]).mean(axis=1)
        share = ahead.cdf(ahead.quantile(p)).to_numpy()
        np.testing.assert_allclose(below, share, atol=5.0 / np.sqrt(n) * 0.5)
    both = stats.spearmanr(paths.T).statistic
    expected = 6.0 / np.pi * np.arcsin(ahead._joint.cor / 2.0)
    free = ~np.array([(row == row.min()).mean() > 0.001 for row in np.vstack([paths, -paths])])
    free = free[:H] & free[H:]
    away = (both - expected)[np.ix_(free, free)]
    np.testing.assert_allclose(away, 0.0, atol=5.0 / np.sqrt(n))


@pytest.mark.parametrize("weights", ["sum", [1.0, 0.0, 2.0], [1.0, -1.0, 0.5]], ids=str)
def test_sums_have_the_mean_and_the_variance(ahead, weights):
    w = np.ones(H) if weights == "sum" else np.array(weights)
    total = ahead.aggregate(weights)
    assert total.mean.item() == pytest.approx(w @ ahead.mean, rel=1e-9)
    assert total.var.item() == pytest.approx(w @ ahead.cov @ w, rel=1e-8)
    for p in (0.01, 0.5, 0.97):
        value = total.quantile(p)
        assert total.cdf(value).item() >= p - 1e-9
    if (w >= 0).all():
        q = total._joint.q(Z[None, ::4])[0]
        weight = stats.norm.pdf(Z[::4]) * 4.0 * (EDGES[1] - EDGES[0])
        assert weight @ q == pytest.approx(total.mean.item(), abs=0.002 * total.std.item())
        away = weight @ (q - total.mean.item()) ** 2
        assert away == pytest.approx(total.var.item(), rel=0.04)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [1.0, -0.5, 2.0]], ids=str)
def test_sums_have_the_quantiles_of_their_paths(ahead, weights):
    cor = np.array([[1.0, 0.8, 0.6], [0.8, 1.0, 0.8], [0.6, 0.8, 1.0]])
    ahead = forecast_of(ahead.index, Prediction(Joint.of(ahead._joint.q, cor), "y"))
    total, p = ahead.aggregate(weights), np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    paths = weights @ ahead.sample(100_000, random_state=1).to_numpy()
    below = np.array([np.mean(paths <= value + 1e-9) for value in total.quantile(p).iloc[0]])
    at = np.array([np.mean(paths < value - 1e-9) for value in total.quantile(p).iloc[0]])
    assert (below >= p - 0.008).all()  # 100,000 draws: .0016 is one error
    assert (at <= p + 0.008).all()


def test_groups_have_their_covariance(kind):
    index = pd.period_range("2024-11", periods=4, freq="M")
    base = JOINTS[kind][0]._joint
    longer = replace(base, paths=None, parts=None)
    at = np.array([0, 1, 2, 1])
    cor = longer.cor[np.ix_(at, at)] * 0.9 + 0.1 * np.eye(4)
    ahead = forecast_of(index, Prediction(Joint.of(longer.q[at], cor), "y"))
    years = ahead.aggregate("mean", freq="Y", partial="keep")
    matrix = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    np.testing.assert_allclose(years.cov, matrix @ ahead.cov @ matrix.T, rtol=1e-4)


def test_the_first_steps_are_a_forecast_of_their_own_bit_for_bit(ahead):
    joint = ahead._joint
    for k in (1, 2):
        at = np.arange(k)
        alone = Joint.of(joint.q[at], joint.cor[:k, :k])
        again = Joint.of(joint.q, joint.cor)
        np.testing.assert_array_equal(alone.cov, again.cov[:k, :k])
        np.testing.assert_array_equal(alone.mean, again.mean[:k])


@pytest.mark.parametrize("power", [0.2, 0.5])
def test_steps_near_a_bound_change_nothing_of_those_before(power):
    """They need more terms of Mehler's series and have a kink in reach."""
    std = np.linspace(0.1, 2.0, 12)
    cov = np.outer(std, std) * 0.9 ** abs(np.subtract.outer(np.arange(12), np.arange(12)))
    joints = [Joint.normal(np.full(k, 1.5), cov[:k, :k], PowerTransform(power)) for k in (1, 5, 12)]
    for shorter, longer in itertools.pairwise(joints):
        k = len(shorter)
        np.testing.assert_array_equal(longer.mean[:k], shorter.mean)
        np.testing.assert_array_equal(longer.cov[:k, :k], shorter.cov)


def test_condition_is_that_of_the_scores(kind, ahead):
    p = 0.03 if "minus" in kind else 0.97  # not at a bound
    known = ahead.quantile(p)[1:2]
    rest = ahead.condition(known)
    cor, z = ahead._joint.cor, stats.norm.ppf(p)
    for i, t in enumerate((0, 2)):
        score = cor[t, 1] * z + np.sqrt(1.0 - cor[t, 1] ** 2) * stats.norm.ppf(0.35)
        expected = ahead.quantile(stats.norm.cdf(score))[t]
        assert rest.quantile(0.35).iloc[i] == pytest.approx(expected, rel=1e-6)


def test_values_at_a_bound_have_the_probability_of_all_below(kind, ahead):
    sign = -1.0 if "minus" in kind else 1.0
    bound = (sign * ahead).quantile(1e-9)  # the least value, if it has a probability
    p = (sign * ahead).cdf(bound).to_numpy()
    at = p > 1e-6
    found = ahead.score(sign * bound)["nlpd"].to_numpy()
    np.testing.assert_allclose(found[at], -np.log(p[at]), rtol=1e-9)
    assert ((sign * ahead).cdf(bound - 1e-9)[at] == 0.0).all()


def test_scores_moved_before_are_those_of_the_functions(ahead):
    q, z = ahead._joint.q, np.linspace(-3.0, 3.0, 13)
    mean, std = np.array([0.3, -0.2, 0.0]), np.array([0.5, 1.2, 0.8])
    moved = q.at_scores(mean, std)(z[None])
    expected = q(mean[:, None] + std[:, None] * z)
    np.testing.assert_allclose(moved, expected, rtol=1e-5)


def test_scores_of_an_average_are_correlated_by_the_shares_of_the_stds():
    other = Forecast(pd.RangeIndex(H), M, np.outer(S, S) * (0.5 * COR + 0.5 * np.eye(H)))
    weights = np.array([[0.2, 0.5, 0.9], [0.8, 0.5, 0.1]])
    both = Forecast.average([forecast(0.0), other], weights)
    total = np.zeros((H, H))
    for one, w in zip((forecast(0.0), other), weights, strict=True):
        share = np.sqrt(w) * one.std.to_numpy()
        total += np.outer(share, share) * one._joint.cor
    scale = np.sqrt(np.diagonal(total))
    np.testing.assert_allclose(both._joint.cor, total / np.outer(scale, scale), rtol=1e-12)


def test_units_move_everything(ahead):
    other, y = 2.0 + 5.0 * ahead, ahead.quantile(0.61)  # between sizes of errors
    np.testing.assert_allclose(other.quantile(0.1), 2.0 + 5.0 * ahead.quantile(0.1), rtol=1e-12)
    np.testing.assert_allclose(other.cov, 25.0 * ahead.cov, rtol=1e-12)
    turned, before = (-ahead).score(-y), ahead.score(y)
    np.testing.assert_allclose(turned["crps"], before["crps"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(turned["nlpd"], before["nlpd"], rtol=1e-9)
    np.testing.assert_allclose(turned["interval_score"], before["interval_score"], rtol=1e-9)
    free = abs(before["pit"] - 0.61) < 1e-6  # not at a bound
    np.testing.assert_allclose(turned["pit"][free], 1.0 - before["pit"][free], atol=1e-12)
    np.testing.assert_allclose((-ahead).quantile(0.2), -ahead.quantile(0.8), rtol=1e-11)
    np.testing.assert_allclose((0.0 - (-ahead)).quantile(0.2), ahead.quantile(0.2), rtol=1e-13)
    moved, back, sums = (
        one.aggregate("sum").quantile([0.1, 0.9]) for one in (other, 0.0 - (-ahead), ahead)
    )
    np.testing.assert_allclose(moved, 6.0 + 5.0 * sums, rtol=1e-6)
    np.testing.assert_allclose(back, sums, rtol=1e-9)
    turned = -(-ahead).aggregate("sum").quantile([0.9, 0.1])
    np.testing.assert_allclose(turned, sums, rtol=0.01)  # of other paths


def test_scores_of_sums_by_paths_correlate_as_the_sums_of_the_normals():
    """Of a bound that has 2 % of each step: nearly."""
    cor = 0.8 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    normal = Joint.normal(np.full(4, 0.2), 0.01 * cor, PowerTransform())
    pairs = np.kron(np.eye(2), np.ones(2))
    found = linear(normal.censored(np.zeros(4), np.full(4, np.inf)), pairs).cor
    expected = pairs @ cor @ pairs.T
    np.testing.assert_allclose(found, expected / expected[0, 0], atol=0.01)


def test_a_pickle_is_the_same(ahead):
    again = pickle.loads(pickle.dumps(ahead.aggregate("sum")))
    np.testing.assert_array_equal(again.quantile(0.3), ahead.aggregate("sum").quantile(0.3))


def test_known_moments_of_lognormals_are_closed_forms():
    ahead = forecast(0.0)
    mean = np.exp(M + 0.5 * S**2)
    np.testing.assert_allclose(ahead.mean, mean, rtol=1e-14)
    expected = np.outer(mean, mean) * np.expm1(np.outer(S, S) * COR)
    np.testing.assert_allclose(ahead.cov, expected, rtol=1e-13)
    wide = forecast(0.0, std=np.full(H, 3.0))
    np.testing.assert_allclose(wide.mean, np.exp(M + 4.5), rtol=1e-14)


@pytest.mark.parametrize("std", [0.5, 2.5])
def test_moments_of_a_log_with_a_bound_are_closed_forms(std):
    """Of a wide one they are those of the far tail, at scores of two stds of the log."""
    bound, s = 0.7, np.full(H, std)
    ahead = forecast(0.0, std=s).censored(bound)
    k = (np.log(bound) - M) / std

    def power(n):
        above = np.exp(n * M + 0.5 * (n * std) ** 2) * stats.norm.cdf(n * std - k)
        return bound**n * stats.norm.cdf(k) + above

    for one, sign in ((ahead, 1.0), (-ahead, -1.0)):
        np.testing.assert_allclose(one.mean, sign * power(1), rtol=1e-4)
        np.testing.assert_allclose(one.var, power(2) - power(1) ** 2, rtol=1e-3)


def test_mehler_and_the_closed_form_agree_where_box_cox_tends_to_the_log():
    near, log = forecast(1e-9), forecast(0.0)
    np.testing.assert_allclose(near.cov, log.cov, rtol=1e-5)
    np.testing.assert_allclose(near.mean, log.mean, rtol=1e-6)


def test_steps_that_move_as_one_have_a_covariance_of_rank_one_in_their_scores():
    joint = Joint.of(AVERAGE._joint.q, np.ones((H, H)))
    values = np.linalg.eigvalsh(joint.cov)
    assert values[0] > -1e-12 * values[-1]


@pytest.mark.parametrize("dof", [3.0, 4.5, 30.0])
def test_student_is_that_of_scipy_and_keeps_the_80_percent_interval(dof):
    z = np.array([[-30.0, -6.0, -1.0, 0.0, 2.0, 8.0]])
    values, slopes = student(z, dof)
    expected = student_of_scipy(-np.abs(z), dof) * -np.sign(z)
    np.testing.assert_allclose(values, expected, rtol=1e-11)
    near = (student(z + 1e-6, dof)[0] - student(z - 1e-6, dof)[0]) / 2e-6
    np.testing.assert_allclose(slopes[:, 1:], near[:, 1:], rtol=1e-6)
    end = np.array([[special.ndtri(0.9)]])
    np.testing.assert_allclose(student(end, dof)[0], end, rtol=3e-14)


@pytest.mark.parametrize("k", [1, 8, 19])
def test_intervals_end_at_the_sorted_sizes(k, rng):
    sizes = np.sort(rng.uniform(0.1, 3.0, (2, k)), axis=1)
    q = Marginals.normal(np.zeros(2), np.ones(2)).conformal(sizes)
    for i, z in enumerate(error_scores(k), start=1):
        np.testing.assert_allclose(
            q(np.array([[-z, z]])), sizes[:, [i - 1]] * [[-1, 1]], rtol=1e-12
        )
        assert error_sizes(np.array([z]), sizes[0]) == pytest.approx(sizes[0, i - 1], rel=1e-13)


def test_an_interval_holds_the_next_of_exchangeable_errors_with_its_probability(rng):
    n = 2000
    errors = rng.standard_cauchy((n, 10))
    sizes = np.sort(np.abs(errors[:, :9]), axis=1)
    q = Marginals.normal(np.zeros(n), np.ones(n)).conformal(sizes)
    low, high = q(special.ndtri(np.array([[0.1, 0.9]]))).T
    held = ((low <= errors[:, 9]) & (errors[:, 9] <= high)).mean()
    assert held == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / n))


def test_equal_sizes_are_values_of_positive_probability():
    ahead = Forecast(pd.RangeIndex(1), [0.0], [[1.0]]).conformal([[1.0, 1.0, 2.0]])
    assert ahead.cdf(1.0).item() == pytest.approx(0.75)
    assert ahead.cdf(1.0 - 1e-9).item() == pytest.approx(0.625)


def test_a_bound_above_is_a_single_value_too():
    none = np.full(2, np.inf)
    q = Marginals.normal(np.ones(2), np.ones(2)).censored(np.array([0.8, -np.inf]), none)
    turned = q.affine(-2.0, 0.5)
    for own, value in ((turned, -1.1), (q, 0.8)):
        below, upto = own.jump(np.full((2, 1), value))
        assert (below < upto).ravel().tolist() == [True, False]


def test_half_the_68_percent_band_grows_by_what_is_asked(rng):
    """Of normals, lognormals, and their average, whose medians stay."""
    scale, more = rng.uniform(0.1, 0.5, 20), rng.uniform(0.0, 1.0, 20)
    normal = Marginals.normal(rng.normal(0.0, 1.0, 20), scale)
    log = Joint.normal(rng.normal(0.0, 1.0, 20), np.diag(scale**2), PowerTransform(0.0)).q
    both = average([normal.with_dof(4.0), log.with_dof(4.0)], np.full((2, 20), 0.5))
    for q in (normal, log, both):
        wider = q.with_wider_band(more)
        np.testing.assert_allclose(wider.spread[0], q.spread[0], rtol=1e-12)
        np.testing.assert_allclose(wider.spread[1], q.spread[1] + more, rtol=1e-6)


def test_tables_increase_between_wild_slopes_too(rng):
    """Cubics of the slopes given would fall between the nodes."""
    values = np.sort(rng.standard_cauchy((5, SCORES.shape[1])), axis=1)
    none = np.full(5, np.inf)
    slopes = rng.uniform(0.0, 1e3, values.shape)
    q = Marginals(values, slopes, np.zeros(5), -none, none, np.empty((1, 0)))
    z = np.linspace(-13.0, 13.0, 5000)[None]
    assert (np.diff(q(z)) >= 0.0).all()
    np.testing.assert_allclose(
        q(q.score(values[:, 10:-10])), values[:, 10:-10], rtol=1e-9, atol=1e-9
    )


def test_the_largest_solution_is_taken_where_a_function_is_flat():
    def stairs(x):
        slope = np.where((x < 0.0) | (x >= 1.0), 1.0, 0.0)
        return np.where(x < 1.0, np.minimum(x, 0.0), x - 1.0), slope

    found = newton(stairs, np.full((1, 1), -4.0), np.full((1, 1), 4.0))
    np.testing.assert_allclose(found, 1.0, atol=1e-12)
    flat = Forecast(pd.RangeIndex(1), [0.0], [[1.0]]).conformal([[1.0, 1.0, 2.0]])._joint.q
    assert flat.score(np.array([[1.0]]))[0, 0] == pytest.approx(special.ndtri(0.75))


def two_peaks(transform, rng):
    """One step with two peaks on the scale of a transform, by 2000 paths."""
    paths = np.where(rng.random(2000) < 0.5, -1.0, 1.0) + 0.3 * rng.standard_normal(2000)
    paths = paths[None] / paths.std()
    return Joint.normal(np.zeros(1), np.eye(1), transform, paths=paths)


@pytest.mark.parametrize(("power", "has_tails"), [(None, True), (0.0, False)])
def test_a_shape_has_tails_of_students_t_where_it_is_no_logarithm(power, has_tails, rng):
    """Over the decades of an attractor they had a mean of 1e5 times all values."""
    member = two_peaks(PowerTransform(power), rng)
    members = member, Joint.normal(np.full(1, 0.1), np.eye(1), PowerTransform(None))
    for plain in (
        members[:1] if has_tails else (member, joint_average(members, np.full((2, 1), 0.5)))
    ):
        normal, heavy = (plain.recalibrated(np.array([1.2]), dof, 0.0) for dof in (None, 3.5))
        far = [joint.marginals(np.array([[4.0]])).item() for joint in (normal, heavy)]
        assert (far[1] > 1.3 * far[0]) == has_tails


def test_a_shape_leaves_the_mean_where_it_was(rng):
    """Nearly all in one place and a few far away: 30 stds of a logarithm were 1e6 values."""
    own = Joint.normal(np.zeros(2), np.eye(2) * 0.6**2, PowerTransform(0.0))
    values = np.exp(0.01 * rng.standard_normal((2, 2000)))
    values[0, :3] = 1.5
    values[1] = np.exp(0.6 * rng.uniform(-1.7, 1.7, 2000))
    shaped = own.shaped_as(values)
    assert (abs(shaped.marginals.mean() - own.mean) < own.std).all()
    assert np.ptp(shaped.paths[1]) < np.exp(1.2)  # evenly spread, as given
