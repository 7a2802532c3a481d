"""Series that are never below a bound: censored forecasts, and transforms from the bound on."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from forecast_unc import (
    Combination,
    Forecast,
    Forecaster,
    backtest,
    forecast_panel,
    load_model,
)
from forecast_unc.distributions.condition import as_observed
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.power import PowerTransform
from tests.members import in_turn

INDEX = pd.period_range("2024-01", periods=3, freq="M")
MEAN, STD = np.array([1.0, -0.5, 3.0]), np.array([2.0, 1.0, 1.5])
COR = np.array([[1.0, 0.7, 0.4], [0.7, 1.0, 0.6], [0.4, 0.6, 1.0]])
COV = COR * np.outer(STD, STD)
LOWER = 0.25


def normal(mean=MEAN, cov=COV, **kwargs):
    return Forecast(INDEX, mean, cov, **kwargs)


def mixed():
    """An identity, a logarithm and a root, of which the identity goes below the bound."""
    log = Forecast(INDEX, [0.0, -1.0, 1.0], 0.2 * COR, transform=PowerTransform(0.0))
    root = Forecast(INDEX, [0.5, -1.5, 1.0], COR, transform=PowerTransform(0.5))
    return Forecast.average([normal(), log, root], [0.6, 0.2, 0.2])


KINDS = {
    "normal": normal,
    "heavy tails": lambda: normal().recalibrated([1.0, 1.2, 0.9], dof=4.0),
    "conformal": lambda: normal().conformal([[0.3, 0.8, 1.5, 1.6]] * 3),
    "log": lambda: normal([0.0, -1.0, 1.0], 0.3 * COR, transform=PowerTransform(0.0)),
    "average": mixed,
}


@pytest.fixture(params=KINDS, ids=str)
def free(request):
    return KINDS[request.param]()


def test_a_minimum_that_is_certain_is_refused():
    ahead = Forecast(pd.RangeIndex(24), np.zeros(24), np.eye(24)).censored(0.0)
    message = r"how must leave what is uncertain; got an extreme that is the same in all 65536 pat"
    for certain, how in ((ahead, "min"), (-ahead, "max")):
        with pytest.raises(ValueError, match=message):
            certain.aggregate(how)
    assert ahead.aggregate("max").mean.item() > 1.0


def test_a_limit_beside_a_known_value_that_all_but_decides_it():
    """Where the two are one, z = (.4, -.1), the third has mean .1 + .075 and variance .75."""
    near = 1.0 - 1e-8
    free = Forecast(pd.RangeIndex(3), [0.1] * 3, [[1, near, 0.5], [near, 1, 0.5], [0.5, 0.5, 1]])
    after = free.censored(0.0).condition(pd.Series([0.5, 0.0], [0, 1]))
    mean, std = 0.175, np.sqrt(0.75)
    expected = mean * stats.norm.cdf(mean / std) + std * stats.norm.pdf(mean / std)
    np.testing.assert_allclose(after.mean, expected, rtol=1e-4)


@pytest.fixture
def censored(free):
    return free.censored(LOWER)


def at_bound(forecast):
    """Scores of values at the bound; the probability of it is the pit."""
    return forecast.score(pd.Series(LOWER, index=INDEX))


def integral(free, t, function):
    """E[function(y_t)] over a fine grid of z, by the midpoint rule; an error of 1e-6 or so."""
    edges = np.linspace(-8.0, 8.0, 40_001)
    z = 0.5 * (edges[1:] + edges[:-1])
    q = free.quantile(stats.norm.cdf(z)).iloc[t].to_numpy()
    return float(np.diff(stats.norm.cdf(edges)) @ function(np.maximum(q, LOWER)))


# The distribution


def test_moments_of_a_censored_normal_are_the_closed_forms():
    ahead, a = normal().censored(LOWER), (LOWER - MEAN) / STD
    above = stats.norm.sf(a)
    first = LOWER + (MEAN - LOWER) * above + STD * stats.norm.pdf(a)
    m = MEAN - LOWER
    second = (m**2 + STD**2) * above + m * STD * stats.norm.pdf(a)
    np.testing.assert_allclose(ahead.mean, first, rtol=1e-12)
    np.testing.assert_allclose(ahead.var, second - (first - LOWER) ** 2, rtol=1e-11)
    np.testing.assert_allclose(ahead.cdf(LOWER), stats.norm.cdf(a), rtol=1e-12)
    np.testing.assert_allclose(at_bound(ahead)["pit"], 0.5 * stats.norm.cdf(a), rtol=1e-12)


def test_covariance_is_that_of_censored_normals():
    ahead = normal().censored(LOWER)
    # the second step given the first is a censored normal; the first on a fine grid
    edges = np.linspace(-8.0, 8.0, 20_001)
    z = 0.5 * (edges[1:] + edges[:-1])
    center, spread = MEAN[1] + STD[1] * COR[0, 1] * z - LOWER, STD[1] * np.sqrt(1 - COR[0, 1] ** 2)
    second = center * stats.norm.cdf(center / spread) + spread * stats.norm.pdf(center / spread)
    first = np.maximum(MEAN[0] + STD[0] * z, LOWER)
    p = np.diff(stats.norm.cdf(edges))
    expected = p @ (first * (LOWER + second)) - (p @ first) * (LOWER + p @ second)
    # what the terms of Mehler's series leave at a kink: 1e-4 of the product of the stds
    assert ahead.cov.iloc[0, 1] == pytest.approx(expected, abs=2e-4)


def test_values_below_the_bound_are_impossible(censored):
    below = pd.Series(LOWER - 1.0, index=INDEX)
    score = censored.score(below)
    assert (score["nlpd"] == np.inf).all()
    assert (score["pit"] == 0.0).all()
    # E|Y - y| - E|Y - Y'| / 2 grows by what y is farther below
    n, draw = 4_000, censored.sample(4_000, 0).to_numpy()
    np.testing.assert_array_less(
        abs(score["crps"] - (draw - below.iloc[0]).mean(1) + 0.5 * _apart(draw)),
        5 * censored.std / np.sqrt(n),
    )
    assert (score["crps"] > at_bound(censored)["crps"]).all()


def _apart(draw):
    """Mean distance of two draws of each row, from the sorted rows."""
    n = draw.shape[1]
    weights = 2 * np.arange(1, n + 1) - n - 1
    return 2 * (np.sort(draw, axis=1) @ weights) / (n * (n - 1))


@settings(max_examples=4)
@given(y=st.floats(LOWER, 8.0), coverage=st.floats(0.1, 0.99))
def test_no_score_is_worse_for_values_above(y, coverage):
    actual = pd.Series(y, index=INDEX)
    for make in KINDS.values():
        free = make()
        before = free.score(actual, coverage)
        after = free.censored(LOWER).score(actual, coverage)
        assert (after["crps"] <= before["crps"] * (1 + 1e-9) + 1e-12).all()
        assert (after["interval_score"] <= before["interval_score"]).all()


def test_a_bound_out_of_reach_changes_no_moment(free):
    far = free.censored(-1e3)
    pd.testing.assert_series_equal(far.mean, free.mean)
    pd.testing.assert_frame_equal(far.cov, free.cov)
    actual = pd.Series([1.0, 2.0, 3.0], index=INDEX)
    pd.testing.assert_frame_equal(far.score(actual), free.score(actual), rtol=1e-9)
    assert free.censored(-np.inf) is free


@settings(max_examples=4)
@given(shift=st.floats(-100, 100), scale=st.floats(0.1, 10))
def test_units_of_the_series_do_not_matter(shift, scale):
    ahead = normal().censored(LOWER)
    other = normal(shift + scale * MEAN, scale**2 * COV).censored(shift + scale * LOWER)
    np.testing.assert_allclose(other.mean, shift + scale * ahead.mean, rtol=1e-9)
    np.testing.assert_allclose(other.std, scale * ahead.std, rtol=1e-9)
    np.testing.assert_allclose(other.aggregate().std, scale * ahead.aggregate().std, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-140, 1e148])
def test_sums_in_extreme_units_are_those_of_plain_ones(scale):
    ahead = normal().censored(LOWER).aggregate()
    other = normal(scale * MEAN, scale**2 * COV).censored(scale * LOWER).aggregate()
    np.testing.assert_allclose(other.interval(0.9), scale * ahead.interval(0.9), rtol=1e-9)


def test_a_step_certain_to_be_at_the_bound_is_an_error():
    assert normal([-20.0, 1.0, 1.0]).censored(0.0).std.iloc[0] > 0.0
    with pytest.raises(Diverged, match=r"got none at 2024-01, .* is certain to be at its bound"):
        normal([-1e3, 1.0, 1.0]).censored(0.0)


@pytest.mark.parametrize("lower", [np.inf, np.nan, "0", None, True])
def test_a_bound_is_a_number(lower):
    with pytest.raises(
        ValueError, match=r"lower must be a number below inf; got .* -np.inf for no"
    ):
        normal().censored(lower)


# What is made of it


@pytest.mark.parametrize(
    ("kind", "how"),
    in_turn(list(KINDS), ["sum", [1.0, 0.5, 3.0], "mean", [0.0, 2.0, 0.0]]),
    ids=str,
)
def test_aggregates_have_the_exact_moments_and_the_bound(kind, how):
    censored = KINDS[kind]().censored(LOWER)
    weights = {"sum": np.ones(3), "mean": np.ones(3) / 3}.get(str(how), how)
    total = censored.aggregate(how)
    assert total.mean.item() == pytest.approx(weights @ censored.mean, rel=1e-9)
    assert total.var.item() == pytest.approx(weights @ censored.cov.to_numpy() @ weights, rel=1e-8)
    lowest = total.quantile(1e-9).item()
    assert lowest >= LOWER * np.sum(weights) * (1 - 1e-12)
    assert total.sample(100, 0).to_numpy().min() >= LOWER * np.sum(weights) * (1 - 1e-12)


@pytest.mark.xfail(reason="between its bounds the table of a sum has no atoms", strict=True)
def test_a_difference_of_steps_at_their_bounds_is_0():
    change = Forecast(pd.RangeIndex(2), [0.0, 0.0], np.eye(2)).censored(0.0).aggregate([-1.0, 1.0])
    assert change.cdf(0.0).item() == pytest.approx(0.625, abs=0.01)  # a quarter at 0, and half
    assert change.atoms["probability"].tolist() == pytest.approx([0.25], abs=0.01)


def test_the_shape_of_a_sum_is_near_that_of_paths():
    # nearly all near the bound: the most skewed
    ahead = normal([0.0, -0.5, 0.5]).censored(0.0)
    paths = ahead.sample(50_000, 1).sum()
    total = ahead.aggregate()
    for q in (0.5, 0.9, 0.975):
        assert (paths <= total.quantile(q).item()).mean() == pytest.approx(q, abs=0.03)


def test_differences_of_steps_have_no_bound(censored):
    change = censored.aggregate([-1.0, 0.0, 1.0])
    assert change.mean.item() == pytest.approx(censored.mean.iloc[2] - censored.mean.iloc[0])
    assert change.quantile(1e-6).item() < LOWER


def test_conditioning_keeps_the_bound(free, censored):
    known = pd.Series([2.0], index=INDEX[:1])
    rest, before = censored.condition(known), free.condition(known)
    levels = [0.01, 0.4, 0.9]
    np.testing.assert_allclose(rest.quantile(levels), before.quantile(levels).clip(LOWER))
    below = pd.Series([LOWER - 0.1], index=INDEX[:1])
    with pytest.raises(ValueError, match=r"positive density; got 0.15 at 2024-01, .* excludes"):
        censored.condition(below)


def test_a_value_at_the_bound_says_that_the_score_is_no_higher(free, censored):
    """Mean and variance of the truncated normal are passed on by the correlations."""
    rest = censored.condition(pd.Series([LOWER], index=INDEX[:1]))
    limit = stats.norm.ppf(censored.cdf(LOWER).iloc[0])
    mean, var = stats.truncnorm(-np.inf, limit).stats()
    gain = censored._joint.cor[0, 1:]
    std = np.sqrt(1.0 - gain**2 * (1.0 - var))
    for z in (-1.0, 0.5, 2.0):
        expected = [
            free.quantile(stats.norm.cdf(gain[t] * mean + std[t] * z)).iloc[1 + t] for t in (0, 1)
        ]
        found = rest.quantile(stats.norm.cdf(z))
        np.testing.assert_allclose(found, np.maximum(expected, LOWER), rtol=1e-8)


@pytest.mark.parametrize("limits", [[-0.3, 0.4], [-2.0, -1.5], [1.0, -1.0]])
def test_several_values_at_the_bound_are_as_sampled(limits, rng):
    """Scores 0 and 1 have limits, 2 is known; the moments of 3 against paths that meet them."""
    cor = 0.6 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    known = np.array([*limits, 0.5])
    low = np.array([-np.inf, -np.inf, 0.5])
    z, variance = as_observed(cor[:3, :3], low, known)
    gain = np.linalg.solve(cor[:3, :3] + np.diag(variance), cor[:3, 3])
    rest = np.linalg.solve(cor[2:3, 2:3], cor[2:3, [0, 1, 3]])  # given score 2
    given = cor[np.ix_([0, 1, 3], [0, 1, 3])] - rest.T @ cor[2:3, [0, 1, 3]]
    paths = rng.multivariate_normal(rest[0] * 0.5, given, 300_000)
    kept = paths[(paths[:, :2] <= limits).all(axis=1), 2]
    assert variance[2] == 0.0
    error = 4.0 / np.sqrt(len(kept))
    assert gain @ z == pytest.approx(kept.mean(), abs=error + 0.002)
    assert 1.0 - gain @ cor[:3, 3] == pytest.approx(kept.var(), abs=2 * error + 0.002)


def test_a_bound_below_all_that_is_likely_tells_nothing():
    z, variance = as_observed(np.eye(2), np.array([-np.inf, 0.3]), np.array([12.0, 0.3]))
    assert variance[0] > 1e8
    assert z[1] == 0.3


def test_bands_are_widened_and_cut_before_the_bound(free, censored):
    for change in (
        lambda f: f.recalibrated([1.5, 1.0, 0.7], correlation=0.3),
        lambda f: f.recalibrated([1.5, 1.0, 0.7], dof=5.0),
        lambda f: f.first(2),
    ):
        a, b = change(censored), change(free).censored(LOWER)
        np.testing.assert_allclose(a.quantile([0.01, 0.5, 0.99]), b.quantile([0.01, 0.5, 0.99]))
        np.testing.assert_allclose(a.cov, b.cov, rtol=1e-9)


def test_averages_are_censored_after_averaging(free):
    other = normal(MEAN + 1.0)
    both = Forecast.average([free.censored(LOWER), other.censored(LOWER)], [1, 3])
    expected = Forecast.average([free, other], [1, 3]).censored(LOWER)
    levels = [0.01, 0.2, 0.5, 0.9]
    np.testing.assert_allclose(both.quantile(levels), expected.quantile(levels))
    np.testing.assert_allclose(both.mean, expected.mean)
    # the bound is exact whatever the weights, and gone beside a member without one
    thirds = Forecast.average([free.censored(LOWER)] * 3)
    assert thirds.quantile(1e-9).min() == LOWER
    beside = Forecast.average([normal().censored(LOWER), other])
    np.testing.assert_allclose(
        beside.quantile(0.01), 0.5 * (normal().quantile(0.01) + other.quantile(0.01))
    )
    # that of a logarithm is where no value gets
    log = KINDS["log"]()
    assert Forecast.average([normal().censored(LOWER), log]).quantile(1e-9).min() == 0.5 * LOWER


def test_a_bound_of_some_steps_is_theirs_alone(free):
    censored, other = free.censored(LOWER), normal(MEAN + 1.0)
    some = Forecast.average([censored, other], [[1.0, 0.5, 1.0], [0.0, 0.5, 0.0]])
    at, levels = [0, 2], [0.01, 0.2, 0.5, 0.9]
    for one in ("mean", "var"):
        np.testing.assert_allclose(getattr(some, one).iloc[at], getattr(censored, one).iloc[at])
    np.testing.assert_allclose(
        some.quantile(levels).iloc[at], censored.quantile(levels).iloc[at], rtol=1e-9
    )
    np.testing.assert_allclose(some.cdf(LOWER).iloc[at], censored.cdf(LOWER).iloc[at], rtol=1e-9)
    assert some.quantile(1e-6).iloc[1] < LOWER


def test_parts_keep_their_shares():
    noise = 0.5 * COV
    free = normal(parts={"noise": noise, "function_own": COV - noise})
    parts = free.censored(LOWER).decompose()
    np.testing.assert_allclose(parts["noise"], parts["function_own"], rtol=1e-9)
    np.testing.assert_allclose(parts.sum(axis=1), free.censored(LOWER).var, rtol=1e-9)


def test_paths_kept_are_raised_to_the_bound(rng):
    paths = rng.multivariate_normal(MEAN, COV, size=50).T
    ahead = normal(paths=paths).censored(LOWER)
    np.testing.assert_array_equal(ahead.paths, np.maximum(paths, LOWER))
    assert ahead.aggregate().paths.to_numpy().min() >= 3 * LOWER


# Transforms from the bound


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_a_transform_from_a_bound_is_that_of_what_is_above(power):
    from_bound, plain = PowerTransform(power, -2.0), PowerTransform(power)
    y = np.array([-1.5, 0.0, 4.0])
    np.testing.assert_array_equal(from_bound.forward(y), plain.forward(y + 2.0))
    np.testing.assert_allclose(from_bound.inverse(from_bound.forward(y)), y, atol=1e-12)
    np.testing.assert_array_equal(from_bound.slope([0.1, 2.0]), plain.slope([0.1, 2.0]))
    assert from_bound.forward([-3.0]).item() == -np.inf
    a = normal(transform=plain, cov=0.1 * COV)
    b = normal(transform=from_bound, cov=0.1 * COV)
    np.testing.assert_allclose(b.quantile([0.01, 0.5]), a.quantile([0.01, 0.5]) - 2.0)
    np.testing.assert_allclose(b.mean, a.mean - 2.0)
    np.testing.assert_allclose(b.cov, a.cov, rtol=1e-12)
    np.testing.assert_allclose(b.aggregate().mean, a.aggregate().mean - 6.0)
    y = pd.Series([0.5, 1.0, 2.0], index=INDEX)
    np.testing.assert_allclose(b.score(y - 2.0), a.score(y), rtol=1e-9, atol=1e-12)


def test_transform_messages():
    with pytest.raises(
        ValueError, match=r"y must be above 5 for a log transform; got 5 at positio"
    ):
        PowerTransform(0.0, 5.0).check(np.array([6.0, 5.0]))
    with pytest.raises(ValueError, match=r"y must be not below 5 for a sqrt transform; got 4 at"):
        PowerTransform(0.5, 5.0).check(np.array([6.0, 4.0]))
    with pytest.raises(ValueError, match=r"lower must be finite; got -inf\. "):
        PowerTransform(0.5, -np.inf)


@pytest.mark.parametrize(("power", "center"), [(0.3, 0.0), (0.6, 1.0)])
def test_a_power_with_zeros_is_the_censored_maximum_of_likelihood(power, center, rng):
    y = PowerTransform(power).inverse(rng.normal(center, 2.5, size=400))
    zeros = (y == 0).sum()
    assert zeros > 20

    def loss(parameters):
        p, mean, log_std = parameters
        x = (y[y > 0] ** p - 1) / p
        density = stats.norm.logpdf(x, mean, np.exp(log_std)) + (p - 1) * np.log(y[y > 0])
        return -density.sum() - zeros * stats.norm.logcdf(-1 / p, mean, np.exp(log_std))

    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}
    best = optimize.minimize(loss, (power, center, 1.0), method="Nelder-Mead", options=options)
    assert PowerTransform.fit(y).power == pytest.approx(best.x[0], abs=1e-3)
    assert best.x[0] == pytest.approx(power, abs=0.1)
    moved = PowerTransform.fit(1e3 * y - 7.0, lower=-7.0)
    assert moved.power == pytest.approx(best.x[0], abs=1e-3)
    assert moved.lower == -7.0


def test_a_power_of_zeros_alone_is_an_error():
    with pytest.raises(ValueError, match=r"different values .* got 3 throughout above 0\. Use no"):
        PowerTransform.fit(np.array([0.0, 3.0, 3.0]))


# Forecasters


@pytest.fixture
def counts(rng):
    """Monthly counts with zeros."""
    index = pd.period_range("2015-01", periods=72, freq="M")
    rate = np.exp(0.4 + 0.6 * np.sin(2 * np.pi * np.arange(72) / 12))
    return pd.Series(rng.poisson(rate).astype(float), index=index, name="claims")


def test_zeros_set_the_bound_and_choices_say_so(counts):
    model = Forecaster().fit(counts)
    said = "lower 0: some values are 0 and none is below; lower=-inf for no bound"
    assert said in model.choices_
    assert said in model.summary()
    ahead = model.forecast(12)
    without = Forecaster(lower=-np.inf).fit(counts)
    assert not any(line.startswith("lower") for line in without.choices_)
    free = without.forecast(12)
    assert (free.interval(0.95)["lower"] < 0).any()
    q = ahead.quantile([0.05, 0.7])
    np.testing.assert_array_equal(q, q.round().clip(0.0))
    assert "whole numbers: all values are, so that forecasts are of counts" in model.choices_
    assert "lower 0: as given" in Forecaster(lower=0).fit(counts).choices_


def test_logarithms_are_of_what_is_above_the_bound(rng):
    index = pd.period_range("2015-01", periods=60, freq="M")
    y = pd.Series(np.exp(0.3 * rng.normal(size=60)), index=index)
    zeros = y.where(np.arange(60) % 20 != 7, 0.0)
    for values, kwargs, expected in (
        (zeros, {}, {None}),
        (zeros + 2.0, {}, {None, "log"}),
        (zeros + 2.0, {"lower": 2.0}, {None}),
        (y + 2.0, {"lower": 2.0}, {None, "log"}),
    ):
        model = Forecaster(**kwargs, outliers="keep").fit(values)
        assert {one.specification.transform for one in model.models_} == expected
        assert model.forecast(6).quantile(1e-4).min() >= model.ensemble_.rules.lower


@pytest.mark.parametrize(
    ("y", "kwargs"),
    [
        (lambda y: y - 1.0, {}),
        (lambda y: (y + 1.0).where(y.index != y.index[7], 0.0), {}),
        (lambda y: y, {"lags": 3}),
    ],
    ids=["negative", "a single zero", "lags of one's own"],
)
def test_no_bound_is_chosen_otherwise(counts, y, kwargs):
    model = Forecaster(**kwargs).fit(y(counts))
    assert not any(line.startswith("lower") for line in model.choices_)


@pytest.mark.parametrize(
    ("propagation", "transform"),
    in_turn(["exact", "taylor", "mixture", "monte_carlo", "naive"], [None, "sqrt"]),
)
def test_nothing_is_below_by_any_propagation(counts, propagation, transform):
    model = Forecaster(lags=3, lower=0.0, transform=transform).fit(counts)
    ahead = model.forecast(6, propagation=propagation, n_samples=200, random_state=0)
    assert ahead.propagation == propagation
    assert ahead.quantile(1e-6).min() >= 0.0
    assert ahead.sample(100, 0).to_numpy().min() >= 0.0
    assert ahead.interval(0.9).to_numpy().min() >= 0.0
    assert ahead.aggregate("sum").quantile(1e-6).min() >= 0.0
    assert ahead.to_nixtla(levels=(95,))["forecast_unc-lo-95"].min() >= 0.0
    if transform is None:
        free = Forecaster(lags=3).fit(counts)
        free = free.forecast(6, propagation=propagation, n_samples=200, random_state=0)
        levels = [0.05, 0.5, 0.95]
        np.testing.assert_allclose(ahead.quantile(levels), free.quantile(levels).clip(0.0))


def test_a_check_is_that_of_the_forecast_before(counts):
    model, free = Forecaster(lags=3, lower=0.0).fit(counts), Forecaster(lags=3).fit(counts)
    a, b = (m.forecast(4).check(200, 0) for m in (model, free))
    pd.testing.assert_frame_equal(a.frame, b.frame)
    a, b = (m.forecast(4).aggregate().check(200, 0) for m in (model, free))
    pd.testing.assert_frame_equal(a.frame, b.frame)
    again = model.forecast(4, propagation="auto", random_state=0)
    assert again.quantile(1e-6).min() >= 0.0


def test_a_square_root_is_box_cox_of_a_half(counts):
    model = Forecaster(lags=2, transform="sqrt").fit(counts)
    assert model.models_[0].transform == PowerTransform(0.5)
    assert "of the square root, " in model.choices_[-1]
    # the pieces of the default's mixture are split by rounding here
    root = Forecaster(lags=2).fit(2 * np.sqrt(counts) - 2).forecast(3, propagation="exact")
    np.testing.assert_allclose(
        model.forecast(3, propagation="exact").quantile([0.1, 0.6]),
        (root.quantile([0.1, 0.6]) / 2 + 1).clip(0) ** 2,
    )


@pytest.mark.parametrize("transform", ["log", "sqrt", "boxcox"])
def test_transforms_are_measured_from_the_bound(counts, transform):
    model = Forecaster(lags=2, transform=transform, lower=5.0).fit(counts + 6.0)
    plain = Forecaster(lags=2, transform=transform, lower=0.0).fit(counts + 1.0)
    np.testing.assert_allclose(model.forecast(4).mean, plain.forecast(4).mean + 5.0, rtol=1e-6)


def test_box_cox_takes_zeros(counts):
    model = Forecaster(lags=2, transform="boxcox").fit(counts)
    assert 0.01 < model.models_[0].transform.power < 1.0
    assert model.forecast(6).interval(0.95).to_numpy().min() >= 0.0


def test_noise_of_the_values_is_no_matter(counts):
    y_std = pd.Series(0.5, index=counts.index)
    for kwargs in ({}, {"transform": "sqrt"}, {"noise": "observation"}):
        model = Forecaster(lags=2, lower=0.0, **kwargs).fit(counts, y_std=y_std)
        assert model.forecast(3).quantile(0.001).min() >= 0.0


def test_what_is_below_the_bound_is_an_error(counts):
    said = (
        r"lower must be at most every value of y; got 1, and y is 0 at 20.*smaller one, or lower="
    )
    with pytest.raises(ValueError, match=said):
        Forecaster(lower=1.0).fit(counts)
    model = Forecaster(lags=2, lower=0.0).fit(counts)
    before = model.forecast(2)
    later = pd.Series([1.0, -3.0], index=counts.index[-1] + 1 + np.arange(2))
    later.index = pd.PeriodIndex(later.index, freq="M")
    said = r"lower must be at most every value of y; got 0, and y is -3 at 2021-02"
    with pytest.raises(ValueError, match=said):
        model.update(later)
    pd.testing.assert_frame_equal(model.forecast(2).cov, before.cov)
    with pytest.raises(ValueError, match=r"got 0, and y is -1 at"):
        model.apply(counts - 1.0)
    with pytest.raises(ValueError, match=r"lower must be a number below inf; got 'zero'\. Use -np"):
        Forecaster(lower="zero").fit(counts)


def test_the_bound_goes_with_the_model(counts, tmp_path):
    model = Forecaster(lags=3, lower=0.0).fit(counts[:-6])
    model.save(tmp_path / "model")
    for again in (
        load_model(tmp_path / "model"),
        model.apply(counts[:-3]),
        model.refit(counts),
        model.update(counts[-6:]),
    ):
        assert again.forecast(3).quantile(1e-6).min() >= 0.0


def test_a_bound_that_was_chosen_is_dropped_by_a_value_below():
    """Nobody gave it, so nobody can take a smaller one; a bound that was given is an error."""
    rng = np.random.default_rng(2)
    values = np.round(np.abs(rng.standard_normal(70) * 3))
    values[55:] = np.round(rng.standard_normal(15) * 3) - 2
    y = pd.Series(values, pd.period_range("2000-01", periods=70, freq="M"))
    model = Forecaster(random_state=0).fit(y[:55])
    assert any(line.startswith("lower 0") for line in model.choices_)
    for later in (model.apply(y), model.update(y[55:])):
        assert later.forecast(3).interval(0.95)["lower"].min() < 0
        assert not any(line.startswith("lower") for line in later.choices_)
    folds = backtest(Forecaster(random_state=0), y, 3, n_origins=2, refit=False)
    assert folds.scores()["CRPS"].notna().all()


def test_values_of_the_caller_are_left_alone(counts):
    before = counts.copy()
    Forecaster(lags=2, lower=0.0, transform="sqrt").fit(counts).forecast(2)
    pd.testing.assert_series_equal(counts, before)


def test_backtests_and_panels_have_the_bound(counts):
    models = {"sqrt": Forecaster(lags=2, transform="sqrt")}
    found = backtest(Forecaster(lags=2, lower=0.0), counts, 4, n_origins=3, compare=models)
    lower = found.frame.filter(like="lower").to_numpy()
    assert lower.min() >= 0.0
    assert np.isfinite(found.frame["mean"]).all()
    frame = pd.DataFrame(
        {"unique_id": "a", "ds": counts.index.to_timestamp(), "y": counts.to_numpy()}
    )
    table = forecast_panel(frame, Forecaster(lags=2, lower=0.0), 3)
    assert table["forecast_unc-lo-95"].min() >= 0.0


def test_a_combination_is_as_wide_as_its_members_before_the_bound(counts):
    # of a member far below the bound the censored band is narrow, which is no precision
    falling = (counts + np.linspace(3.0, -3.0, len(counts))).clip(0.0)
    members = [Forecaster(lags=2, lower=0.0), Forecaster(lags=4, differences=1, lower=0.0)]
    free = [Forecaster(lags=2), Forecaster(lags=4, differences=1)]
    both = Combination(members, weights="inverse_width").fit(falling).forecast(4)
    plain = Combination(free, weights="inverse_width").fit(falling).forecast(4)
    levels = [0.05, 0.5, 0.9]
    np.testing.assert_allclose(both.quantile(levels), plain.quantile(levels).clip(0.0))


def test_a_picture_shows_nothing_below(counts):
    ax = Forecaster(lags=3, lower=0.0).fit(counts).forecast(6).plot()
    for band in ax.collections:
        for path in band.get_paths():
            assert path.vertices[:, 1].min() >= 0.0
