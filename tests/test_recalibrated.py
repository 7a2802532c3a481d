"""Forecasts with other bands, and their first steps: against scipy, sampling and their parts."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from forecast_unc import Combination, Forecast, Forecaster, GPRegressor
from forecast_unc.distributions.forecast import forecast_of, prediction_of
from forecast_unc.distributions.power import PowerTransform
from tests.test_check import Given, with_paths
from tests.test_first_steps import assert_first_steps

H = 4
INDEX = pd.date_range("2024-01-31", periods=H, freq="ME")
FACTOR = np.array([1.5, 0.8, 1.0, 2.0])
SIZES = np.abs(np.random.default_rng(3).standard_t(3, (H, 12)))


def make(power=None, seed=0, h=H, parts=True):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(h, h + 2))
    unit = 0.2 if power is None else 0.01  # the sizes of errors go to 5 stds
    cov = unit * (root @ root.T + np.eye(h))
    given = {"noise": unit * np.eye(h), "function_own": 0.1 * cov}
    return Forecast(
        INDEX[:h],
        rng.normal(2, 0.5, size=h),
        cov,
        parts=given if parts else None,
        name="load",
        transform=None if power is None else PowerTransform(power),
    )


def average(seed=0):
    members = [make(None, seed), make(0.0, seed + 1), make(0.5, seed + 2)]
    return Forecast.average(members, [0.5, 0.3, 0.2])


PLAIN = {"log": lambda: make(0.0), "average": average}
CHANGES = {
    "wider": lambda f: f.recalibrated(FACTOR),
    "tails": lambda f: f.recalibrated(FACTOR, dof=4.0),
    "all": lambda f: f.recalibrated(FACTOR, dof=5.0, correlation=-0.4),
    "conformal": lambda f: f.conformal(SIZES),
}


@pytest.fixture(params=PLAIN, ids=str)
def plain(request):
    return PLAIN[request.param]()


@pytest.fixture(params=CHANGES, ids=str)
def change(request):
    return CHANGES[request.param]


def correlations(cov):
    std = np.sqrt(np.diag(cov))
    return np.asarray(cov) / np.outer(std, std)


# Bands


def test_medians_names_and_times_stay(plain, change):
    changed = change(plain)
    np.testing.assert_allclose(changed.median, plain.median, rtol=1e-12)
    assert changed.index.equals(plain.index)
    assert changed.name == "load"


def test_normal_bands_are_multiplied():
    plain = make()
    wider = plain.recalibrated(FACTOR)
    np.testing.assert_allclose(wider.std, FACTOR * plain.std, rtol=1e-12)
    np.testing.assert_allclose(wider.cov, np.outer(FACTOR, FACTOR) * plain.cov, rtol=1e-12)
    np.testing.assert_allclose(wider.mean, plain.mean, rtol=1e-14)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_transformed_bands_are_multiplied_on_their_scale(power):
    plain, scale = make(power), PowerTransform(power)
    levels = [-2.0, -1.0, 1.0, 2.0]
    q = plain.quantile(stats.norm.cdf(levels)).to_numpy()
    wider = plain.recalibrated(FACTOR, dof=4.0).quantile(stats.norm.cdf(levels)).to_numpy()
    center = scale.forward(plain.median.to_numpy())[:, None]
    expected = scale.inverse(center + FACTOR[:, None] * (scale.forward(q) - center))
    inside = q > 0
    np.testing.assert_allclose(wider[inside], expected[inside], rtol=1e-6)


def test_one_changes_nothing(plain):
    same = plain.recalibrated(np.ones(H))
    np.testing.assert_allclose(same.cov, plain.cov, rtol=1e-6)  # of a logarithm a closed form
    np.testing.assert_allclose(same.mean, plain.mean, rtol=1e-6)
    share = same.decompose()["calibration"] / same.var
    np.testing.assert_allclose(share, 0.0, atol=1e-6)


@pytest.mark.parametrize("r", [-1.0, -0.3, 0.0, 0.25, 1.0])
def test_correlations_move_to_independence_or_to_one(r):
    plain = make()
    before = correlations(plain.cov)
    target = np.eye(H) if r < 0 else np.ones((H, H))
    expected = (1 - abs(r)) * before + abs(r) * target
    for dof in (None, 6.0):
        changed = plain.recalibrated(np.ones(H), dof=dof, correlation=r)
        # of the normal scores, not of what they become
        np.testing.assert_allclose(changed._joint.cor, expected, rtol=1e-12, atol=1e-14)
    changed = plain.recalibrated(np.ones(H), correlation=r)
    np.testing.assert_allclose(correlations(changed.cov), expected, rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(changed.cov)[0] > -1e-12


def test_the_sum_is_as_wide_as_the_correlations_say():
    plain = make()
    std = plain.std.to_numpy()
    apart = plain.recalibrated(np.ones(H), correlation=-1.0).aggregate("sum")
    assert apart.std.item() == pytest.approx(np.sqrt((std**2).sum()))
    as_one = plain.recalibrated(np.ones(H), correlation=1.0).aggregate("sum")
    assert as_one.std.item() == pytest.approx(std.sum())


def test_sums_of_positive_values_stay_positive_in_wider_bands():
    total = make(0.0).aggregate("sum")
    wide = total.recalibrated(np.full(1, 6.0))
    low, median, high = (wide.quantile(p).item() for p in (1e-4, 0.5, 1 - 1e-4))
    assert 0.0 <= low < 0.3 * total.quantile(1e-4).item()
    assert median == pytest.approx(total.median.item())
    assert high > 2.0 * total.quantile(1 - 1e-4).item()


def test_conformal_sizes_are_in_units_of_the_bands_that_they_change():
    """Also where those have tails of their own: half the 68 % band is then not the scale."""
    heavy = make().recalibrated(FACTOR, dof=3.0)
    held = stats.norm.cdf(1) - stats.norm.cdf(-1)
    unit = 0.5 * np.diff(heavy.interval(held), axis=1)[:, 0]
    bands = heavy.conformal(SIZES)
    k, sizes = SIZES.shape[1], np.sort(SIZES, axis=1)
    upper = bands.interval(3 / (k + 1))["upper"]
    np.testing.assert_allclose(upper, heavy.median + unit * sizes[:, 2], rtol=1e-9)


def test_calibration_of_what_is_left_after_some_steps_keeps_its_medians():
    """With tails the score of the median is not 0 once other steps are known."""
    for plain in (make().recalibrated(FACTOR, dof=3.5), make().conformal(SIZES)):
        rest = plain.condition(pd.Series([plain.quantile(0.95).iloc[0]], plain.index[:1]))
        for again in (rest.recalibrated([2.0] * 3), rest.conformal(SIZES[1:])):
            np.testing.assert_allclose(again.median, rest.median, rtol=1e-10)
        wider = rest.recalibrated([2.0] * 3)
        width = rest.quantile(0.9) - rest.median
        if plain._joint.q.dof is None and plain._joint.q.is_normal:
            np.testing.assert_allclose(wider.quantile(0.9) - rest.median, 2.0 * width, rtol=1e-9)
        assert (wider.quantile(0.9) - rest.median >= 1.2 * width).all()


# What follows from them


def test_decompose_adds_up(plain, change):
    changed = change(plain)
    for each in (changed, changed.first(2), change(changed)):
        np.testing.assert_allclose(each.decompose().sum(axis=1), each.var, rtol=1e-10)
        kinds = each.decompose(by_kind=True)
        np.testing.assert_allclose(kinds.sum(axis=1), each.var, rtol=1e-10)
    calibration = changed.decompose()["calibration"]
    np.testing.assert_allclose(calibration, changed.var - plain.var, rtol=1e-9, atol=1e-12)
    others = changed.decompose().drop(columns="calibration")
    expected = plain.decompose().drop(columns="calibration")
    pd.testing.assert_frame_equal(others, expected, rtol=1e-9, atol=1e-12)
    for how in ("sum", "mean", [1.0, 0.0, -1.0, 2.0]):
        total = changed.aggregate(how)
        np.testing.assert_allclose(total.decompose().sum(axis=1), total.var, rtol=1e-10)


def test_scores_are_those_of_scipy_t():
    plain = make()
    heavy = plain.recalibrated(FACTOR, dof=4.0)
    actual = plain.mean + np.array([0.3, -2.0, 0.0, 5.0])
    scale = FACTOR * plain.std.to_numpy() * stats.norm.ppf(0.9) / stats.t.ppf(0.9, 4.0)
    scipy = stats.t(4.0, plain.mean.to_numpy(), scale)
    found = heavy.score(actual)
    np.testing.assert_allclose(found["nlpd"], -scipy.logpdf(actual.to_numpy()), rtol=1e-5)
    np.testing.assert_allclose(found["pit"], scipy.cdf(actual.to_numpy()), rtol=1e-5)


def test_averages_keep_the_tails_of_their_members():
    """The average of quantile functions, to the last member's end and beyond it."""
    a, b = make().recalibrated(FACTOR, dof=3.0), make(0.0, 5).conformal(SIZES)
    c = make(None, 7, h=2).conformal(SIZES[:2, :9])
    both = Forecast.average([a, b, c], [1.0, 2.0, 1.0])
    q = np.array([0.001, 0.2, 0.5, 0.99])
    expected = (a.quantile(q) + 2.0 * b.quantile(q)).to_numpy(copy=True)
    expected[:2] = (expected[:2] + c.quantile(q).to_numpy()) / 4.0
    expected[2:] /= 3.0
    np.testing.assert_allclose(both.quantile(q), expected, rtol=1e-5)
    np.testing.assert_allclose(both.mean[2:], (a.mean[2:] + 2.0 * b.mean[2:]) / 3.0, rtol=1e-5)
    np.testing.assert_allclose(both.decompose().sum(axis=1), both.var, rtol=1e-10)
    assert_first_steps(both, Forecast.average([a.first(3), b.first(3), c], [1.0, 2.0, 1.0]), 1e-9)


def test_nothing_given_is_changed():
    plain, factor, sizes = make(), FACTOR.copy(), SIZES.copy()
    before = plain.cov.copy()
    plain.recalibrated(factor, dof=4.0, correlation=0.3)
    plain.conformal(sizes)
    pd.testing.assert_frame_equal(plain.cov, before)
    np.testing.assert_array_equal(factor, FACTOR)
    np.testing.assert_array_equal(sizes, SIZES)


def test_without_parts_there_are_none():
    with pytest.raises(ValueError, match="decompose must be called on a forecast that knows its"):
        make(parts=False).recalibrated(FACTOR).decompose()


# Messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": [1.0, 0.0, 1.0, 1.0]}, "factor must be positive; got 0. 1 leaves a step as"),
        ({"factor": [1.0, -2.0, 1.0, 1.0]}, "factor must be positive; got -2. 1 leaves a step as"),
        ({"factor": [1.0]}, "factor must have shape"),
        ({"factor": [1.0, np.nan, 1.0, 1.0]}, "factor must be finite"),
        ({"dof": 2.9}, "dof must be None or a number from 3; got 2.9. None leaves the shape as"),
        ({"dof": np.inf}, "dof must be None or a number from 3; got inf"),
        ({"dof": np.nan}, "dof must be None or a number from 3; got nan"),
        ({"correlation": 1.1}, "correlation must lie between -1 and 1; got 1.1. 0 leaves the"),
        ({"correlation": -1.001}, "correlation must lie between -1 and 1; got -1.001"),
        ({"correlation": np.nan}, "correlation must lie between -1 and 1; got nan"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make().recalibrated(**{"factor": np.ones(H), **options})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (np.ones((H - 1, 5)), "sizes must have shape"),
        (np.ones(H), "sizes must have shape"),
        (np.ones((H, 0)), "sizes must hold an error or more of each step; got none"),
        (np.where(SIZES[1, 2] == SIZES, 0.0, SIZES), "sizes must be positive; got 0. Leave out"),
        (np.where(SIZES[1, 2] == SIZES, np.nan, SIZES), "sizes must be finite"),
    ],
    ids=["rows", "one row", "none", "zero", "nan"],
)
def test_sizes_that_cannot_be_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        make().conformal(sizes)


def test_words_are_no_numbers():
    with pytest.raises(TypeError, match="factor must"):
        make().recalibrated(["a", "b", "c", "d"])
    with pytest.raises(TypeError, match="sizes must"):
        make().conformal([["a"], ["b"], ["c"], ["d"]])


# First steps


def test_first_steps_are_the_forecast_of_fewer(plain, change):
    for forecast in (plain, change(plain)):
        for n in (1, 3):
            first = forecast.first(n)
            assert len(first) == n
            assert_first_steps(forecast, first, 1e-10)
            expected = forecast.decompose()[:n]
            pd.testing.assert_frame_equal(first.decompose(), expected, rtol=1e-9, atol=1e-12)
        assert forecast.first(H) is forecast
        assert forecast.first(9) is forecast


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(2)
    values = 20 + np.cumsum(0.5 * rng.standard_normal(60))
    y = pd.Series(values, pd.date_range("2024-01-01", periods=60, freq="D"), name="y")
    GP = GPRegressor(lengthscales=3.0, noise_std=0.5)
    return {
        "levels": Forecaster(GP, lags=2).fit(y),
        "log": Forecaster(GP, lags=2, transform="log").fit(y),
        "calibrated": Forecaster(GP, lags=2, calibrate=True).fit(y),
        "conformal": Forecaster(GP, lags=2, calibrate="conformal").fit(y),
        "automatic": Forecaster().fit(y),
        "combination": Combination(
            [Forecaster(GP, lags=1, calibrate=True), Forecaster(GP, lags=3)]
        ).fit(y),
    }


NAMES = ["levels", "log", "calibrated", "conformal", "automatic", "combination"]


@pytest.mark.parametrize("name", NAMES)
def test_first_steps_of_a_model_are_its_forecast_of_fewer(models, name):
    longer, shorter = (models[name].forecast(h, propagation="exact") for h in (9, 3))
    first = longer.first(3)
    assert_first_steps(first, shorter, 1e-10)
    assert first.propagation == shorter.propagation == "exact"
    pd.testing.assert_frame_equal(first.decompose(), shorter.decompose(), rtol=1e-7, atol=1e-9)
    # the paths of a seed depend on the horizon: the same kind of check, not the same digits
    a, b = first.check(200, 0), shorter.check(200, 0)
    assert a.frame.index.equals(b.frame.index)


def test_first_steps_keep_their_paths(models):
    longer = models["levels"].forecast(6, propagation="monte_carlo", n_samples=50, random_state=0)
    first = longer.first(2)
    pd.testing.assert_frame_equal(first.paths, longer.paths[:2])
    assert first.propagation == "monte_carlo"


def test_first_steps_are_a_number_from_one():
    for n in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n must be a whole number"):
            make().first(n)


# The check is of the bands before


@pytest.mark.parametrize("name", ["calibrated", "conformal", "automatic"])
def test_a_calibrated_forecast_is_checked_as_it_was_before(models, name):
    ahead = models[name].forecast(4)
    rules = dataclasses.replace(models[name].ensemble_.rules, calibrate=False)
    plain = dataclasses.replace(models[name].ensemble_, rules=rules)
    method_forecast = copy.copy(models[name])
    method_forecast.ensemble_ = plain
    before = method_forecast.forecast(4)
    assert not np.allclose(before.std, ahead.std, rtol=1e-3)
    found, expected = ahead.check(200, 1), before.check(200, 1)
    pd.testing.assert_frame_equal(found.frame, expected.frame)
    assert found.verdict == expected.verdict


def test_an_average_of_calibrated_forecasts_is_checked_as_it_was_before():
    cov = np.array([[1.0, 0.4], [0.4, 2.0]])
    members = [
        with_paths(Forecast(pd.RangeIndex(2), [m, m], cov), Given(np.full(2, m), cov))
        for m in (0.0, 3.0)
    ]
    changed = [m.recalibrated([3.0, 3.0], dof=4.0) for m in members]
    for mixed in (changed, [changed[0], members[1]]):
        found = Forecast.average(mixed, [1.0, 2.0]).check(400, 2)
        expected = Forecast.average(members, [1.0, 2.0]).check(400, 2)
        pd.testing.assert_frame_equal(found.frame, expected.frame)
    again = changed[0].recalibrated([0.5, 0.5]).check(400, 2)
    pd.testing.assert_frame_equal(again.frame, members[0].check(400, 2).frame)


@pytest.mark.parametrize("weights", ["sum", [1.0, 0.0, -1.0, 0.0]], ids=str)
def test_a_sum_of_calibrated_steps_is_checked_as_it_was_before(models, weights):
    ahead = models["calibrated"].forecast(4)
    before = forecast_of(ahead.index, prediction_of(ahead).before)
    found = ahead.aggregate(weights).check(200, 3)
    pd.testing.assert_frame_equal(found.frame, before.aggregate(weights).check(200, 3).frame)
    again = ahead.recalibrated(np.full(4, 2.0)).aggregate(weights).check(200, 3)
    pd.testing.assert_frame_equal(found.frame, again.frame)
    with pytest.raises(ValueError, match="the aggregate of an average have no sample paths"):
        models["automatic"].forecast(4).aggregate("sum").check()


@pytest.mark.parametrize("correlation", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_paths_keep_their_ranks_but_for_a_share(models, correlation):
    drawn = models["levels"].forecast(3, propagation="monte_carlo", n_samples=40, random_state=0)
    changed = drawn.recalibrated(np.full(3, 2.0), correlation=correlation)
    before, after = (one.paths.rank(axis=1).to_numpy() for one in (drawn, changed))
    alike = (before == after).all(axis=0).sum()
    assert alike >= 40 * (1.0 - abs(correlation))
    assert alike < 40 * (1.1 - abs(correlation)) or correlation == 0.0
    if correlation == 1.0:
        assert (after == after[0]).all()
    assert changed.propagation == "monte_carlo"


def test_other_degrees_of_freedom_take_the_place_of_the_first():
    plain = Forecast(pd.RangeIndex(2), [5.0, 5.0], np.eye(2))
    twice = plain.recalibrated([1, 1], dof=3).recalibrated([1, 1], dof=30)
    once = plain.recalibrated([1, 1], dof=30)
    np.testing.assert_allclose(twice.quantile(0.999), once.quantile(0.999), rtol=1e-12)


@pytest.mark.parametrize(
    "wrong", [{"dof": "3"}, {"dof": True}, {"correlation": "a"}, {"correlation": True}]
)
def test_what_is_no_number_is_refused_by_name(wrong):
    plain = Forecast(pd.RangeIndex(2), [5.0, 5.0], np.eye(2))
    with pytest.raises(ValueError, match=next(iter(wrong)) + " must "):
        plain.recalibrated([1, 1], **wrong)


def test_a_sum_of_heavy_tails_lies_between_students_t_and_the_normal():
    one = Forecast(INDEX[:2], [0.0, 0.0], np.eye(2)).recalibrated([1.0, 1.0], dof=4.0)
    tail, student = 0.999, stats.t.ppf(0.999, 4.0) / stats.t.std(4.0)
    for weights in ([1.0, 1.0], [1.0, -1.0]):
        total = one.aggregate(weights)
        np.testing.assert_allclose(total.var, 2.0 * one.var.iloc[0], rtol=1e-5)
        found = total.quantile(tail).item() / total.std.item()
        assert 1.05 * stats.norm.ppf(tail) < found < 0.97 * student
