"""Forecasts of whole numbers: each against the probabilities of what is rounded to them."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from forecast_unc import Forecast
from forecast_unc.distributions.condition import as_observed
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.models.counts import count_marginals
from tests.members import in_turn

H = 3
INDEX = pd.RangeIndex(H)
MEAN, STD = np.array([1.4, 4.0, -0.3]), np.array([1.1, 2.5, 0.8])
COR = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])


def normal(scale=1.0):
    return Forecast(INDEX, MEAN * scale, np.outer(STD, STD) * COR * scale**2)


def of_log():
    cov = 0.3 * COR
    return Forecast(INDEX, [0.5, 1.0, 2.0], cov, transform=PowerTransform(0.0))


LATENT = {
    "normal": normal(),
    "bounded": normal().censored(0.0),
    "t": normal().recalibrated(np.full(H, 1.3), dof=5),
    "log": of_log(),
    "average": Forecast.average([normal(), of_log()], [0.3, 0.7], disagreement=True),
    "turned": -of_log(),
    "wide": normal(30.0),
}


@pytest.fixture(params=LATENT)
def latent(request):
    return LATENT[request.param]


def masses(latent):
    """Whole numbers and their probabilities at each step, (H, n)."""
    k = np.arange(-700.0, 701.0)
    edges = latent.cdf(np.append(k - 0.5, k[-1] + 0.5)).to_numpy(copy=True)
    edges[:, 0], edges[:, -1] = 0.0, 1.0
    return k, np.diff(edges)


def test_moments_and_scores_are_those_of_the_probabilities(latent):
    whole, (k, p) = latent.whole(), masses(latent)
    np.testing.assert_allclose(whole.mean, p @ k, rtol=1e-5, atol=1e-8)
    var = (p * (k - (p @ k)[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(whole.var, var, rtol=3e-5, atol=0.1 * (whole.std.max() > 20.0))
    spread = np.abs(k[:, None] - k)
    for y in (0.0, 2.0, -3.0, 1.5):
        found = whole.score(pd.Series(y, INDEX))
        crps = [row @ np.abs(k - y) - 0.5 * row @ spread @ row for row in p]
        np.testing.assert_allclose(found["crps"], crps, rtol=1e-5, atol=1e-8)
        below, upto = p[:, k < y].sum(axis=1), p[:, k <= y].sum(axis=1)
        np.testing.assert_allclose(found["pit"], 0.5 * (below + upto), atol=1e-9)
        np.testing.assert_allclose(whole.cdf(y), upto, atol=1e-9)
        with np.errstate(divide="ignore"):
            expected = -np.log(p[:, k == y][:, 0]) if y in k else np.full(H, np.inf)
        likely = expected < 30.0
        np.testing.assert_allclose(found["nlpd"][likely], expected[likely], rtol=1e-6)
        assert (found["nlpd"][~likely] > 25.0).all()


def test_quantiles_are_the_least_numbers_of_enough_probability(latent):
    whole, (k, p) = latent.whole(), masses(latent)
    for level in (1e-4, 0.05, 0.31, 0.5, 0.87, 0.999):
        expected = k[(p.cumsum(axis=1) >= level).argmax(axis=1)]
        np.testing.assert_array_equal(whole.quantile(level), expected)
    for y in (-2.0, 0.0, 1.0, 1.7):
        np.testing.assert_allclose(whole.prob(lower=y), p[:, k > y].sum(axis=1), atol=1e-9)


def test_atoms_are_listed_with_their_probabilities(latent):
    k, p = masses(latent)
    atoms = latent.whole().atoms
    for step in range(H):
        own = atoms[atoms.index == INDEX[step]]
        expected = p[step, np.searchsorted(k, own["value"])]
        np.testing.assert_allclose(own["probability"], expected, rtol=1e-6, atol=1e-9)
        assert own["probability"].sum() == pytest.approx(1.0, abs=1e-4)


def test_atoms_of_a_bound_and_of_what_has_none():
    assert normal().atoms.empty
    for ahead, value in ((normal().censored(0.5), 0.5), (-normal().censored(0.5), -0.5)):
        assert ahead.atoms["value"].tolist() == [value] * H
        expected = stats.norm.cdf((0.5 - MEAN) / STD)
        np.testing.assert_allclose(ahead.atoms["probability"], expected, rtol=1e-9)


def test_covariances_are_those_of_pairs_of_numbers():
    whole, k = normal().whole(), np.arange(-15.0, 25.0)
    for t, u in ((0, 1), (0, 2), (1, 2)):
        both = stats.multivariate_normal([0.0, 0.0], [[1.0, COR[t, u]], [COR[t, u], 1.0]])
        at = [(np.append(k - 0.5, k[-1] + 0.5) - MEAN[i]) / STD[i] for i in (t, u)]
        p = np.diff(np.diff(both.cdf(np.stack(np.meshgrid(*at, indexing="ij"), -1)), axis=0))
        expected = k @ p @ k - (p.sum(1) @ k) * (p.sum(0) @ k)
        # Mehler's series of a function that jumps ends with one term more
        scale = whole.std.iloc[t] * whole.std.iloc[u]
        assert whole.cov.iloc[t, u] == pytest.approx(expected, abs=2e-3 * scale)


def test_the_first_steps_are_a_forecast_of_their_own(latent):
    whole = latent.whole()._joint
    for n in (1, 2):
        alone = Joint.of(whole.q[np.arange(n)], whole.cor[:n, :n])
        np.testing.assert_allclose(alone.mean, whole.mean[:n], rtol=1e-12)
        np.testing.assert_allclose(alone.cov, whole.cov[:n, :n], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "how"),
    in_turn(
        list(LATENT), ["sum", [1.0, 0.0, -1.0], "max", [1.0, 2.0, 0.5], "mean", "min"], times=2
    ),
    ids=str,
)
def test_aggregates_are_those_of_paths(name, how):
    whole = LATENT[name].whole()
    total, paths = whole.aggregate(how), whole.sample(50_000, random_state=0).to_numpy()
    values = getattr(np, how)(paths, axis=0) if isinstance(how, str) else np.array(how) @ paths
    assert total.mean.item() == pytest.approx(values.mean(), abs=0.02 * total.std.item())
    assert total.std.item() == pytest.approx(values.std(), rel=0.02)
    for level in (0.1, 0.5, 0.9):
        at = total.quantile(level).item()
        assert np.mean(values < at - 1e-9) <= level + 0.012
        assert np.mean(values <= at + 1e-9) >= level - 0.012
        if how != [1.0, 2.0, 0.5]:  # of no common unit
            assert np.min(np.abs(values - at)) < 1e-6  # one of the values
            assert total.cdf(at).item() == pytest.approx(np.mean(values <= at + 1e-9), abs=0.01)


def test_what_is_known_is_a_range_of_scores():
    whole = normal().censored(0.0).whole()
    known = pd.Series([2.0, 5.0], INDEX[:2])
    rest = whole.condition(known)
    paths = whole.sample(1_000_000, random_state=1).to_numpy()
    kept = paths[2, (paths[:2] == known.to_numpy()[:, None]).all(axis=0)]
    assert rest.mean.item() == pytest.approx(kept.mean(), abs=4.0 * kept.std() / len(kept) ** 0.5)
    for k in (0.0, 1.0):
        assert rest.cdf(k).item() == pytest.approx(np.mean(kept <= k), abs=0.01)
    with pytest.raises(ValueError, match="observed must hold values of positive density"):
        whole.condition(pd.Series([2.5], INDEX[:1]))


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.7), (2.0, 2.5), (-9.0, -8.0), (-np.inf, 1.0)])
def test_one_range_is_a_truncated_normal(low, high):
    z, variance = as_observed(np.eye(1), np.array([low]), np.array([high]))
    own = stats.truncnorm(low, high)
    gain = 1.0 / (1.0 + variance[0])
    assert gain * z[0] == pytest.approx(own.mean(), rel=1e-6, abs=1e-8)
    assert 1.0 - gain == pytest.approx(own.var(), rel=1e-5)


def test_counts_that_are_scaled_keep_their_unit():
    whole = normal().whole()
    np.testing.assert_array_equal((2.0 * whole + 1.0).quantile(0.8), 2.0 * whole.quantile(0.8) + 1)
    np.testing.assert_allclose((-whole).quantile(0.8), -whole.quantile(0.2 - 1e-12))
    assert ((0.1 * whole).atoms["value"] * 10 % 1).round(9).isin([0.0, 1.0]).all()


@pytest.mark.parametrize("factor", [0.01])
def test_moments_do_not_depend_on_the_unit(latent, factor):
    whole = latent.whole()
    scaled = Forecast.average([factor * whole, factor * whole])  # whose moments are integrals
    np.testing.assert_allclose(scaled.mean, factor * whole.mean, rtol=1e-9, atol=1e-9 * factor)
    np.testing.assert_allclose(scaled.cov, factor**2 * whole.cov, rtol=1e-9)
    np.testing.assert_allclose(scaled.quantile(0.3), factor * whole.quantile(0.3), rtol=1e-9)


def test_averages_are_rounded_if_all_are():
    both = Forecast.average([normal().whole(), of_log().whole()])
    expected = Forecast.average([normal(), of_log()]).whole()
    np.testing.assert_array_equal(both.quantile([0.1, 0.6]), expected.quantile([0.1, 0.6]))
    one = Forecast.average([normal().whole(), of_log()])
    plain = Forecast.average([normal(), of_log()])
    np.testing.assert_allclose(one.quantile([0.1, 0.6]), plain.quantile([0.1, 0.6]))


def test_marginals_of_counts_go_through_their_probabilities():
    below = np.array([0.0, 0.3, 0.9, 1.0])
    q = count_marginals(np.array([-0.5, 0.5, 1.5, 4.5]), below, 1.0 - below, 2)
    p = np.array([1e-9, 0.15, 0.3, 0.6, 0.95, 1 - 1e-9])
    z = stats.norm.ppf(p)[None]
    expected = np.interp(p, below, [-0.5, 0.5, 1.5, 4.5])
    np.testing.assert_allclose(q(z), [expected, expected], atol=1e-6)
    np.testing.assert_allclose(q.score(q(z))[:, 1:-1], np.repeat(z, 2, axis=0)[:, 1:-1], rtol=1e-6)
    assert q.mean() == pytest.approx([0.6 + 0.3] * 2, rel=1e-6)
    rounded = q.rounded()
    np.testing.assert_allclose(rounded.cdf(np.tile([0.0, 1.0, 9.0], (2, 1)))[0], [0.3, 0.9, 1.0])
    masses = {value: mass for step, value, mass in rounded.atoms() if step == 0}
    assert masses[0.0] == pytest.approx(0.3)
    assert masses[1.0] == pytest.approx(0.6)


@pytest.mark.parametrize("bounds", [(0.2, np.inf), (-np.inf, 3.5), (0.2, 3.5), (0.0, 2.0)])
def test_rounding_and_bounds_come_in_any_order(bounds):
    """One distribution of the whole numbers within the bounds, with all of the probability."""
    lower, upper = bounds
    one = normal().censored(lower, upper=upper).whole()
    other = normal().whole().censored(lower, upper=upper)
    pd.testing.assert_frame_equal(one.atoms, other.atoms)
    pd.testing.assert_series_equal(one.mean, other.mean)
    np.testing.assert_allclose(one.atoms.groupby(level=0)["probability"].sum(), 1.0, atol=1e-4)
    assert one.atoms["value"].between(lower, upper).all()
    for p in (0.01, 0.5, 0.99):
        value = one.quantile(p)
        assert ((one.prob(upper=value) >= p - 1e-12) & value.between(lower, upper)).all()
    with pytest.raises(ValueError, match="bounds must hold a whole number"):
        normal().censored(0.2, upper=0.8).whole()


@pytest.mark.parametrize("order", ["whole first", "bound first"])
def test_moments_are_kept_by_counts_too(order):
    def kept(f):
        return f.censored(0.0, keep_moments=True)

    before = Forecast(INDEX, [1.0, 2.0, 5.0], np.diag([1.0, 2.0, 4.0]))
    ahead = kept(before.whole()) if order == "whole first" else kept(before).whole()
    np.testing.assert_allclose(ahead.mean, before.mean, rtol=0.02)
    np.testing.assert_allclose(ahead.std, before.std, rtol=0.08)  # and the rounding
    assert (ahead.atoms["value"] % 1 == 0.0).all()


def test_paths_of_counts_that_keep_their_moments_are_whole(rng):
    paths = 1.0 + rng.standard_normal((2, 100))
    counts = Forecast(pd.RangeIndex(2), paths.mean(axis=1), np.cov(paths), paths=paths).whole()
    kept = counts.censored(0.0, keep_moments=True)
    assert (kept.paths % 1 == 0.0).all(axis=None)


def test_a_mean_below_the_first_whole_number_is_raised_above_it():
    counts = Forecast(pd.RangeIndex(1), [0.5], [[1.0]]).whole()
    kept = counts.censored(0.2, keep_moments=True)  # at 1
    assert kept.mean.item() == pytest.approx(1.0 + 0.2 * counts.std.item(), rel=0.01)


def test_atoms_of_wide_counts_take_no_memory():
    """A table of 1.7 GB was built for no row."""
    wide = Forecast(pd.RangeIndex(2), [0.0, 5.0], [[1e24, 0.0], [0.0, 1e12]])
    tracemalloc.start()
    atoms = wide.censored(0.0).whole().atoms
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert atoms["value"].tolist() == [0.0, 0.0]
    assert atoms["probability"].tolist() == pytest.approx([0.5, 0.5], abs=1e-5)
    assert peak < 1e8


def test_pits_of_calibrated_counts_are_even_about_a_half(rng):
    """Counts drawn from their own forecast: mean .5, where the probability up to them has .8."""
    few = Forecast(pd.RangeIndex(400), np.full(400, 0.2), 0.4 * np.eye(400)).censored(0.0).whole()
    drawn = few.sample(1, random_state=rng).iloc[:, 0]
    assert few.score(drawn)["pit"].mean() == pytest.approx(0.5, abs=0.04)
    assert few.cdf(drawn).mean() > 0.7
