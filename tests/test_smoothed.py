"""Steps and sums of a forecast that has its own paths: two peaks, bounds, transforms."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

from forecast_unc import Forecast, Forecaster, GPRegressor
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.smoothed import smoothed

H, N = 4, 4000
INDEX = pd.RangeIndex(H)


def two_peaks(n=N, seed=0):
    """Paths that stay around -1 or 1, of which a third are above."""
    rng = np.random.default_rng(seed)
    side = np.where(np.arange(n) < n // 3, 1.0, -1.0)
    return side + 0.3 * rng.standard_normal((H, n))


def of_paths(paths, **options):
    return Forecast(INDEX, paths.mean(axis=1), np.cov(paths), paths=paths, **options)


def of_normal(seed=1):
    cov = 0.5 + 0.5 * np.eye(H)
    return of_paths(np.random.default_rng(seed).multivariate_normal(np.zeros(H), cov, N).T)


TWO = of_paths(two_peaks())
ALTERED = {
    "as it is": TWO,
    "affine": 3.0 - 2.0 * TWO,
    "some steps": TWO[1:3],
    "sum": TWO.aggregate("sum"),
    "weights": TWO.aggregate([1.0, -0.5, 2.0, 0.0]),
    "mean of an affine": (5.0 - TWO).aggregate("mean"),
    "largest": TWO.aggregate("max"),
    "bounded": TWO.censored(-0.9),
    "between bounds": TWO.censored(-0.9, upper=1.1),
    "of whole numbers": (4.0 * TWO).whole(),
    "bounded sum": TWO.censored(-0.9).aggregate("sum"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_the_distribution_is_that_of_the_paths(name):
    ahead = ALTERED[name]
    paths = ahead.paths.to_numpy()
    np.testing.assert_allclose(ahead.mean, paths.mean(axis=1), atol=0.01 * ahead.std.max())
    np.testing.assert_allclose(ahead.std, paths.std(axis=1), rtol=0.01)
    for row in range(len(ahead)):
        levels = np.unique(np.quantile(paths[row], np.arange(0.02, 1.0, 0.02)))
        share = (paths[row] <= levels[:, None]).mean(axis=1)
        found = ahead.cdf(levels).iloc[row]
        np.testing.assert_allclose(found, share, atol=0.015)
    lower, upper = ahead.simultaneous_interval(0.8).to_numpy().T[:, :, None]
    inside = ((lower <= paths) & (paths <= upper)).all(axis=0).mean()
    assert inside >= 0.8 - 1.5 / paths.shape[1]  # a path at the end of the band
    if not len(ahead.atoms):
        assert inside == pytest.approx(0.8, abs=0.003)


def test_moments_are_those_of_smoothed_steps():
    grid = np.linspace(-4.0, 4.0, 8001)
    cdf = TWO.cdf(grid).to_numpy()
    mean = grid[-1] - np.trapezoid(cdf, grid, axis=1)
    square = grid[-1] ** 2 - 2.0 * np.trapezoid(grid * cdf, grid, axis=1)
    np.testing.assert_allclose(mean, TWO.mean, atol=2e-3)
    np.testing.assert_allclose(np.sqrt(square - mean**2), TWO.std, rtol=3e-3)


@pytest.mark.parametrize("factor", [1.0, 1.6])
def test_recalibrated_steps_keep_their_peaks(factor):
    """The quantile at a normal score is that of the paths at a score ``factor`` times as large."""
    ahead, paths = TWO.recalibrated(np.full(H, factor)), two_peaks()
    levels = np.arange(0.05, 1.0, 0.05)
    at = stats.norm.cdf(factor * stats.norm.ppf(levels))
    for row in range(H):
        values = np.quantile(paths[row], at)
        np.testing.assert_allclose(ahead.cdf(values).iloc[row], levels, atol=0.015)
    np.testing.assert_allclose(ahead.median, TWO.median, atol=1e-6)
    if factor == 1.0:
        np.testing.assert_allclose(ahead.std, paths.std(axis=1), rtol=5e-3)
        heavy = TWO.recalibrated(np.ones(H), dof=5)  # only the tails are others
        np.testing.assert_allclose(heavy.cdf([0.0]), TWO.cdf([0.0]), atol=0.02)
    draws = ahead.sample(4000, random_state=0)
    assert ahead.aggregate("sum").cdf([0.0]).to_numpy().item() == pytest.approx(
        (draws.sum() < 0).mean(), abs=0.03
    )


def test_scores_are_those_of_two_peaks():
    paths, y = two_peaks(), pd.Series([-1.0, 0.0, 1.0, 0.3], INDEX)
    scores = TWO.score(y)
    apart = [np.abs(row[:, None] - row[::7]).mean() for row in paths]
    crps = np.abs(paths - y.to_numpy()[:, None]).mean(axis=1) - 0.5 * np.array(apart)
    np.testing.assert_allclose(scores["crps"], crps, rtol=0.03)
    density = (stats.norm.pdf(y, 1.0, 0.3) + 2.0 * stats.norm.pdf(y, -1.0, 0.3)) / 3.0
    np.testing.assert_allclose(scores["nlpd"][[0, 2]], -np.log(density[[0, 2]]), atol=0.1)
    assert (scores["nlpd"][[1, 3]] > 2.0).all()  # between the peaks; .9 of the normal


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_the_shortest_region_of_two_peaks_has_two_pieces(coverage):
    pieces, paths = TWO.highest_density(coverage), two_peaks()
    if coverage > 0.5:
        assert pieces.index.value_counts().eq(2).all()
    for row in range(H):
        own = pieces.loc[[row]]
        inside = sum(
            ((low <= paths[row]) & (paths[row] <= high)).mean()
            for low, high in own[["lower", "upper"]].to_numpy()
        )
        assert inside == pytest.approx(coverage, abs=0.03)
        assert own["probability"].sum() == pytest.approx(coverage, abs=0.002)
        whole = TWO.interval(coverage).loc[row]
        assert (own["upper"] - own["lower"]).sum() < whole["upper"] - whole["lower"]


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_the_shortest_region_of_a_normal_step_is_its_central_interval(coverage):
    normal = Forecast(INDEX, [0.0, 1.0, -5.0, 30.0], np.diag([1.0, 4.0, 1e-6, 1e6]))
    found, expected = normal.highest_density(coverage), normal.interval(coverage)
    apart = (found[["lower", "upper"]] - expected).abs().max(axis=1)
    assert (apart < 0.01 * normal.std).all()


def test_the_region_at_a_bound_begins_there():
    bounded = Forecast(INDEX, np.zeros(H), np.eye(H)).censored(0.0)
    np.testing.assert_array_equal(bounded.highest_density(0.8)["lower"], 0.0)


def test_regions_of_counts_hold_whole_numbers():
    counts = Forecast(INDEX, np.full(H, 1.2), 1.3 * np.eye(H)).censored(0.0).whole()
    for coverage, numbers in ((0.2, 1), (0.5, 2), (0.8, 3)):
        own = counts.highest_density(coverage).loc[[INDEX[0]]]
        assert (own["upper"] - own["lower"] + 1).sum() == numbers
        held = sum(
            counts.prob(low - 0.5, high + 0.5).iloc[0]
            for low, high in own[["lower", "upper"]].to_numpy()
        )
        assert own["probability"].sum() == pytest.approx(held, abs=0.003)
        assert held > coverage
    ax = counts.plot(regions=True, ax=Figure().subplots())
    assert sum(len(one.get_paths()) for one in ax.collections) >= 3 * H
    (single,) = counts[:1].plot(None, (0.2,), regions=True, ax=Figure().subplots()).collections
    assert single.get_capstyle() == "projecting"  # a line from 1 to 1 would not be seen


def test_a_value_at_a_bound_is_in_the_region_whole():
    bounded = Forecast(INDEX, np.zeros(H), np.eye(H)).censored(0.0)
    assert bounded.highest_density(0.3)["probability"].to_numpy() == pytest.approx(0.5, abs=0.03)


def test_normal_paths_leave_all_normal():
    ahead = of_normal()
    np.testing.assert_allclose(ahead.quantile(0.9), ahead.mean + 1.2815515655 * ahead.std)
    total = ahead.aggregate("sum")
    np.testing.assert_allclose(total.quantile(0.1), total.mean - 1.2815515655 * total.std)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_after_a_transform_the_peaks_stay(power):
    transform, levels = PowerTransform(power), 3.0 + two_peaks()
    log = Forecast(
        INDEX,
        levels.mean(axis=1),
        np.cov(levels),
        paths=transform.inverse(levels),
        transform=transform,
    )
    y = transform.inverse(np.array([2.0, 3.0, 4.0]))
    expected = TWO.cdf(transform.forward(y) - 3.0)
    np.testing.assert_allclose(log.cdf(y), expected, atol=1e-3)


@pytest.mark.parametrize("propagation", ["mixture", "monte_carlo"])
def test_sums_of_a_bistable_map(propagation):
    rng, values = np.random.default_rng(0), [1.0]
    for _ in range(250):
        values.append(1.5 * values[-1] - 0.5 * values[-1] ** 3 + 0.25 * rng.standard_normal())
    model = Forecaster(GPRegressor(), lags=1, differences=0, transform=None)
    ahead = model.fit(pd.Series(values[-200:])).forecast(
        12, propagation=propagation, random_state=0
    )
    total, paths = ahead.aggregate("sum"), ahead.paths.sum()
    levels = np.quantile(paths, [0.05, 0.2, 0.5, 0.8, 0.95])
    np.testing.assert_allclose(total.cdf(levels).iloc[0], [0.05, 0.2, 0.5, 0.8, 0.95], atol=0.02)
    normal = stats.norm.cdf(levels, total.mean, total.std)
    assert np.abs(normal - total.cdf(levels).iloc[0]).max() > 0.1
    check = ahead.check(random_state=0)
    assert (check.verdict, check.reasons) == (propagation, ())


# Averages

TILTED = of_paths(1.5 * two_peaks(seed=5)[::-1] + np.linspace(0.0, 1.0, H)[:, None])
NORMAL = Forecast(INDEX, np.full(H, 0.5), 0.5 + 0.5 * np.eye(H))


def pooled(members, weights, rng, n=40_000):
    """Paths with the ranks of a member's, by its share in the variance, and averaged quantiles."""
    many = [(one.sample(n, 0) if one.paths is None else one.paths).to_numpy() for one in members]
    shares = np.array([w * one.std.mean() ** 2 for w, one in zip(weights, members, strict=True)])
    which = rng.choice(len(members), n, p=shares / shares.sum())
    u = np.empty((H, n))
    for k, paths in enumerate(many):
        ranks = stats.rankdata(paths, axis=1) / (paths.shape[1] + 1.0)
        u = np.where(which == k, ranks[:, rng.integers(paths.shape[1], size=n)], u)
    pairs = list(zip(weights, many, strict=True))
    return np.array([sum(w * np.quantile(paths[t], u[t]) for w, paths in pairs) for t in range(H)])


@pytest.mark.parametrize("other", [TILTED, NORMAL], ids=["paths", "normal"])
@pytest.mark.parametrize("how", ["steps", "sum", "max", [1.0, -1.0, 0.0, 0.0]], ids=str)
def test_an_average_has_averaged_quantiles_and_the_ranks_of_paths(other, how, rng):
    weights = [0.7, 0.3]
    paths, ahead = pooled([TWO, other], weights, rng), Forecast.average([TWO, other], weights)
    if how == "max":
        ahead, paths = ahead.aggregate("max"), paths.max(axis=0, keepdims=True)
    elif how != "steps":
        row = np.ones(H) if how == "sum" else np.array(how)
        ahead, paths = ahead.aggregate(row), (row @ paths)[None]
    p = np.arange(0.05, 1.0, 0.05)
    for row in range(len(ahead)):
        found = ahead.cdf(np.quantile(paths[row], p)).iloc[row]
        np.testing.assert_allclose(found, p, atol=0.04)


def test_an_average_with_itself_has_its_paths():
    twice = Forecast.average([TWO, TWO], [1.0, 2.0])
    np.testing.assert_allclose(twice.paths, TWO.paths, atol=5e-4)  # stds by n - 1 and by n
    np.testing.assert_allclose(twice.quantile(0.4), TWO.quantile(0.4), atol=5e-4)


@pytest.mark.parametrize("other", [TILTED, NORMAL], ids=["paths", "normal"])
def test_paths_of_an_average_do_not_depend_on_its_horizon(other):
    weights = np.array([[1.0, 0.6, 0.2, 0.0], [0.0, 0.4, 0.8, 1.0]])
    whole = Forecast.average([TWO, other], weights)
    first = Forecast.average([TWO[:2], other[:2]], weights[:, :2])
    np.testing.assert_allclose(whole.paths.iloc[:2], first.paths, atol=1e-12)
    shorter = Forecast.average([TWO[:3], other], weights)
    np.testing.assert_allclose(whole.paths, shorter.paths, atol=1e-12)
    np.testing.assert_allclose(whole.paths.iloc[0], TWO.paths.iloc[0], atol=5e-4)


def test_a_sharp_edge_stays_sharp(rng):
    """As of the Henon map at some steps: .03 off with kernels of .025 stds and wider."""
    x = 1.0 - rng.standard_normal(20000) ** 2 / 2.0 + 0.004 * rng.standard_normal(20000)
    x = (x - x.mean()) / x.std()
    p = np.arange(0.01, 1.0, 0.01)
    levels = np.quantile(x, p)[None]
    known = smoothed(x[None])
    assert known is not None
    np.testing.assert_allclose(stats.norm.cdf(known.scores_of(levels))[0], p, atol=0.016)
