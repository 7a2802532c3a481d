"""Weights over forecasts: by the step, never by the horizon."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone

from forecast_unc import Combination, Forecast, Forecaster, GPRegressor, baselines
from forecast_unc.distributions.forecast import prediction_of
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.choose.specification import Averaging
from forecast_unc.forecasting.pool.weights import average, own_changes, shares_by_width
from tests.test_first_steps import assert_first_steps

BAND = 3.919927969080108  # width of the 95 % band of a unit std
GP = GPRegressor(lengthscales=3.0, noise_std=0.5)


def normal(widths, mean=0.0):
    """A forecast whose 95 % bands have these widths."""
    std = np.asarray(widths) / BAND
    index = pd.RangeIndex(len(std))
    return Forecast(index, np.full(len(std), mean), np.diag(std**2))


def steps_of(widths, mean=0.0):
    return prediction_of(normal(widths, mean))


def lognormal(stds):
    """A forecast of median 1 whose logarithms have these stds: mean exp(std^2 / 2)."""
    stds = np.asarray(stds)
    index, log = pd.RangeIndex(len(stds)), PowerTransform(0.0)
    return Forecast(index, 0 * stds, np.diag(stds**2), transform=log)


def shares(rule, *widths, ahead=1):
    horizon = max(map(len, widths))
    forecasts = [steps_of(w) if len(w) else None for w in widths]
    return shares_by_width(rule, forecasts, horizon, ahead)


# Widths


def test_shares_are_the_inverse_widths():
    found = shares(Averaging(True, None, 1), [1.0, 4.0], [4.0, 1.0], [4.0, 9.0])
    np.testing.assert_allclose(found, [[1, 1 / 4], [1 / 4, 1], [1 / 4, 1 / 9]], rtol=1e-12)


def test_widths_are_looked_ahead_for_and_then_trail():
    rule = Averaging(True, None, 3)
    steady, growing = [2.0] * 5, [1.0, 2.0, 3.0, 4.0, 14.0]
    # the first three, 1 2 3, to step 3; then 2 3 4 and 3 4 14
    means = np.array([2.0, 2.0, 2.0, 3.0, 7.0])
    expected = np.array([np.ones(5), 2.0 / means])
    np.testing.assert_allclose(shares(rule, steady, growing, ahead=3), expected, rtol=1e-12)
    # without a look ahead from the steps so far: 1, 1.5, 2, 3, 7
    means = np.array([1.0, 1.5, 2.0, 3.0, 7.0])
    least = np.minimum(means, 2.0)
    expected = np.array([least / 2.0, least / means])
    np.testing.assert_allclose(shares(rule, steady, growing), expected, rtol=1e-12)


def test_a_width_lost_to_roundoff_has_all_the_weight():
    sure = steps_of([1e-20, 1e-20], mean=1.0)
    found = shares_by_width(Averaging(True, None, 2), [sure, steps_of([1.0, 1.0])], 2, 1)
    np.testing.assert_array_equal(found, [[1, 1], [0, 0]])


# Guards


def test_what_is_wider_than_the_changes_allow_is_dropped():
    """Beside the narrowest, or the widths that are given; where all are, the narrowest stays."""
    rule = Averaging(False, 4.0, 1)
    found = shares(rule, [1.0, 1.1], [3.9, 4.5], [0.3, 4.3])
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [1, 1]])
    forecasts = [steps_of([w, w]) for w in (1.0, 3.9, 9.0)]
    found = shares_by_width(rule, forecasts, 2, 1, np.array([1.0, 2.5]))
    np.testing.assert_array_equal(found, [[1, 1], [1, 1], [0, 0]])  # for good
    found = shares_by_width(rule, forecasts, 2, 1, np.array([1.0, 2.5]), for_good=False)
    np.testing.assert_array_equal(found, [[1, 1], [1, 1], [0, 1]])
    found = shares_by_width(rule, forecasts, 2, 1, np.array([0.2, 0.2]))
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [0, 0]])


def test_guards_see_the_widths_that_weights_see():
    """Over the last two steps: 1, 5.5, 5.5, 1; looked ahead for 5.5 at the first, too."""
    ones, jump = [1.0] * 4, [1.0, 10.0, 1.0, 1.0]
    found = shares(Averaging(False, 5.4, 2), ones, jump)
    np.testing.assert_array_equal(found[1], [1, 0, 0, 0])  # for good
    found = shares(Averaging(False, 5.4, 2), ones, jump, ahead=2)
    np.testing.assert_array_equal(found[1], [0, 0, 0, 0])


def test_a_mean_of_a_tail_drops_a_member_for_good():
    """Mean over median is exp(s^2 / 2), beyond exp(2) where the log std s is more than 2."""
    rule = Averaging(False, 1e9)
    exploding = prediction_of(lognormal([1.0, 1.99, 2.01, 0.5]))
    calm = steps_of([2.0] * 4, mean=1.0)
    found = shares_by_width(rule, [exploding, calm], 4, 1)
    np.testing.assert_array_equal(found, [[1, 1, 0, 0], [1, 1, 1, 1]])
    # where all explode, the narrowest stays; a median that is not positive tells nothing
    worse = prediction_of(lognormal([3.0] * 4))
    both = shares_by_width(rule, [exploding, worse], 4, 1)
    np.testing.assert_array_equal(both, [[1, 1, 1, 1], [0, 0, 0, 0]])
    below = shares_by_width(rule, [steps_of([1.0], mean=-1.0), steps_of([1.0], mean=-9.0)], 1, 1)
    np.testing.assert_array_equal(below, [[1], [1]])


def test_members_count_as_far_as_they_go():
    rule = Averaging(False, 4.0)
    np.testing.assert_array_equal(
        shares(rule, [1.0], [1.0, 1.0, 1.0], []), [[1, 0, 0], [1] * 3, [0] * 3]
    )
    # one that does not get to where others are looked at does not count at all
    found = shares(rule, [1.0, 1.0], [1.0] * 4, ahead=3)
    np.testing.assert_array_equal(found, [[0] * 4, [1] * 4])
    # but where none gets there
    found = shares(rule, [1.0, 1.0], [1.0], [1.0, 1.0, 1.0][:2], ahead=2)
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [1, 1]])


widths = st.lists(st.floats(1e-3, 1e3), min_size=12, max_size=12)


@given(
    st.lists(widths, min_size=2, max_size=5), st.booleans(), st.floats(1.1, 50), st.integers(1, 8)
)
def test_shares_depend_on_the_steps_so_far(rows, by_width, widest, ahead):
    rule = Averaging(by_width, widest, 8)
    longer = shares(rule, *rows, ahead=ahead)
    assert ((longer >= 0) & (longer <= 1)).all()
    assert longer.any(axis=0).all()
    shorter = shares(rule, *[row[:9] for row in rows], ahead=ahead)
    np.testing.assert_allclose(longer[:, :9], shorter, rtol=1e-12, atol=1e-12)


# Averages: the first steps are a shorter average


def diverged(step):
    return Diverged("steps", "stay where the forecast is stable", f"{step}", "Ask for fewer.", step)


class Fixed(baselines.SeasonalNaive):
    """Bands of given widths, up to a step from which it diverges."""

    def __init__(self, growth=1.0, size=1.0, until=10**6):
        super().__init__(1)
        self.growth, self.size, self.until = growth, size, until

    def forecast(self, steps, exog=None, propagation="exact"):
        if steps > self.until:
            raise diverged(self.until + 1)
        plain = super().forecast(steps)
        std = self.size * self.growth ** np.arange(steps)
        if propagation == "naive":
            std = np.full(steps, self.size)
        cor = 0.5 ** np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
        return Forecast(plain.index, plain.mean + self.size, cor * np.outer(std, std))


@pytest.fixture(scope="module")
def y():
    rng = np.random.default_rng(8)
    values = 30 + np.cumsum(rng.standard_normal(60))
    return pd.Series(values, pd.date_range("2024-01-01", periods=60, freq="D"), name="y")


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.floats(0.8, 1.6), st.floats(0.05, 20.0), st.integers(1, 12)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([None, "inverse_width", "numbers"]),
    st.sampled_from([1.5, 4.0, 50.0]),
    st.sampled_from(["exact", "naive"]),
    st.booleans(),
    st.integers(1, 10),
    st.integers(0, 12),
)
def test_first_steps_of_members_that_diverge(y, drawn, weights, widest, kind, given, k, more):
    members = [Fixed(), *(Fixed(*each) for each in drawn)]
    weights = np.arange(1.0, len(members) + 1.0) if weights == "numbers" else weights
    both = Combination(members, weights, widest=widest).fit(y)
    exog = pd.DataFrame({"x": 0.0}, pd.date_range("2024-03-01", periods=k + more, freq="D"))
    options = {"propagation": kind} if kind == "naive" else {}
    longer, shorter = (
        both.forecast(h, exog[:h] if given else None, **options) for h in (k + more, k)
    )
    assert_first_steps(longer, shorter)


def test_an_error_without_widest_is_that_of_the_average(y):
    both = Combination([Fixed(), Fixed(until=3)]).fit(y)
    assert len(both.forecast(3)) == 3
    with pytest.raises(Diverged, match="got 4"):
        both.forecast(4)


def test_the_error_of_all_names_the_step_that_none_gets_beyond(y):
    both = Combination([Fixed(until=2), Fixed(until=5)], widest=4.0).fit(y)
    assert len(both.forecast(5)) == 5
    with pytest.raises(Diverged) as error:
        both.forecast(9)
    assert error.value.step == 6


def test_a_member_of_ones_own_is_asked_as_it_is(y):
    """Of one member there is nothing to average, nor to look ahead for."""
    alone = Combination([Fixed(until=2)], "inverse_width", widest=4.0).fit(y)
    expected = clone(alone.forecasters[0]).fit(y).forecast(2)
    pd.testing.assert_frame_equal(alone.forecast(2).cov, expected.cov)


def test_a_shorter_forecast_that_fails_earlier_is_asked_for_again():
    """Of three steps the third diverges, of two the second, for another reason."""

    def ask(steps):
        if steps > 1:
            raise diverged(steps)
        return steps_of([1.0])

    both = average(Averaging(False, 4.0, 1), [ask, lambda h: steps_of([2.0] * h)], np.ones(2), 3)
    np.testing.assert_allclose(
        both.prediction.joint.std, np.array([1.5, 2.0, 2.0]) / BAND, rtol=1e-12
    )


def until(step, width):
    """A forecast of a width that diverges at a step."""

    def ask(steps):
        if steps >= step:
            raise diverged(step)
        return steps_of([width] * steps)

    return ask


def test_members_that_all_diverge_early_are_judged_by_their_own_steps():
    rule = Averaging(True, 4.0, 8)
    found = shares_by_width(rule, [until(4, 1.0)(3), until(8, 1.0)(7)], 8, 8)
    np.testing.assert_allclose(found[1, :7], 1.0)  # it alone gets farthest
    assert not found[0].any()
    found = shares_by_width(rule, [until(8, 1.0)(7), until(8, 2.0)(7)], 8, 8)
    np.testing.assert_allclose(found[1, :7], 1 / 2, rtol=1e-12)


def test_what_diverges_beyond_the_steps_asked_for_is_no_error():
    asks = [until(5, 1.0), lambda steps: steps_of([2.0] * steps)]
    ahead = average(Averaging(True, None, 8), asks, np.ones(2), 3)
    # the one that gets through the look-ahead
    np.testing.assert_allclose(ahead.prediction.joint.std * BAND, 2.0)
    with pytest.raises(Diverged, match="got 5"):
        average(Averaging(True, None, 8), asks, np.ones(2), 6)


def test_the_error_of_all_is_that_of_the_one_that_gets_farthest():
    with pytest.raises(Diverged, match="got 6") as raised:
        average(Averaging(False, 4.0, 1), [until(3, 1.0), until(6, 1.0)], np.ones(2), 9)
    assert raised.value.step == 6


def test_a_member_that_diverges_before_its_first_step_is_asked_once():
    asked = []

    def ask(steps):
        asked.append(steps)
        raise diverged(0)

    ahead = average(Averaging(True, 8.0, 8), [ask, lambda n: steps_of([2.0] * n)], np.ones(2), 3)
    np.testing.assert_allclose(ahead.prediction.joint.std * BAND, 2.0)
    assert len(asked) == 1


def test_a_generator_gives_the_same_first_steps_whatever_the_horizon():
    y = pd.Series(np.random.default_rng(0).standard_normal(70).cumsum())
    model = Forecaster().fit(y)
    assert len(model.models_) > 1
    short, long = (
        model.forecast(
            h, propagation="monte_carlo", n_samples=20, random_state=np.random.default_rng(5)
        )
        for h in (3, 10)
    )
    np.testing.assert_allclose(short.mean, long.mean.iloc[:3], rtol=1e-12)
    np.testing.assert_allclose(short.cov, long.cov.iloc[:3, :3], rtol=1e-10)


def test_what_weights_were_taken_from_is_known():
    """Members without weight are not asked; widths of those asked for more steps, as far as one."""
    asks = [until(9, 1.0), until(1, 5.0), until(9, 3.0), until(6, 2.0)]
    rule = Averaging(True, None, 8)
    found = average(rule, asks, np.array([1.0, 0.0, 1.0, 1.0]), 3)
    assert [len(member) for member in found.members] == [8, 8, 5]
    expected = shares_by_width(rule, found.members, 8, 8)
    np.testing.assert_allclose(found.shares, expected, rtol=1e-12)
    assert len(found.reference) == 8
    longer, shorter = found.reference.first(3).joint, found.prediction.joint
    np.testing.assert_allclose(longer.std, shorter.std, rtol=1e-12)
    np.testing.assert_allclose(
        found.reference.joint.std * BAND,
        expected.T @ [1.0, 3.0, 2.0] / expected.sum(axis=0),
        rtol=1e-12,
    )
    # of others the weights and the reference are those of the widths that decide
    other = average(rule, [until(9, 7.0)] * 4, np.array([1.0, 0.0, 1.0, 1.0]), 3, references=asks)
    np.testing.assert_allclose(other.prediction.joint.std * BAND, 7.0)
    np.testing.assert_array_equal(other.reference.joint.cov, found.reference.joint.cov)
    # without a look ahead the reference is what was asked for
    plain = average(rule, asks[:1], np.ones(1), 3, can_look_ahead=False)
    assert plain.reference is plain.prediction


def test_a_member_that_runs_away_by_another_propagation_is_dropped_from_there_on():
    """Paths of a logarithm may run away where its exact forecast does not."""
    calm, wild = steps_of([1.0] * 4), steps_of([1.0, 1.0, 9.0, 1.0])
    exact = [lambda h: calm.first(h)] * 2
    rule = Averaging(False, 4.0, 1)
    asks = [lambda h: calm.first(h), lambda h: wild.first(h)]
    kept = average(rule, asks, np.ones(2), 4, references=exact).prediction
    np.testing.assert_allclose(kept.joint.std * BAND, 1.0, rtol=1e-12)
    alone = average(rule, asks[1:], np.ones(1), 4, references=exact[1:]).prediction
    np.testing.assert_allclose(alone.joint.std * BAND, [1.0, 1.0, 9.0, 1.0], rtol=1e-12)


# The series' own changes


def own_changes_by_hand(y, steps):
    widths = []
    for step in range(1, steps + 1):
        squares = [
            (y[t + step] - y[t]) ** 2
            for t in range(len(y) - step)
            if np.isfinite(y[t]) and np.isfinite(y[t + step])
        ]
        width = BAND * np.sqrt(sum(squares) / len(squares)) if squares else 0.0
        widths.append(max([width, *widths]))
    return widths


@pytest.mark.parametrize("gaps", [(), (3, 4, 17), tuple(range(0, 40, 2))])
def test_own_changes_are_the_widths_of_changes_over_so_many_steps(gaps, rng):
    y = np.sin(np.arange(40.0)) + rng.standard_normal(40)  # its changes shrink from step to step
    y[list(gaps)] = np.nan
    np.testing.assert_allclose(own_changes(y, 20), own_changes_by_hand(y, 20), rtol=1e-12)


def test_own_changes_beyond_half_of_the_series_grow_as_those_of_a_walk(rng):
    y = rng.standard_normal(11).cumsum()
    found, half = own_changes(y, 20), own_changes_by_hand(y, 5)
    at_half = BAND * np.sqrt(np.mean((y[5:] - y[:-5]) ** 2))
    expected = [at_half * np.sqrt(step / 5) for step in range(6, 21)]
    np.testing.assert_allclose(found[:5], half, rtol=1e-12)
    np.testing.assert_allclose(found[5:], np.maximum(expected, half[-1]), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_own_changes_are_never_narrower_and_those_of_a_walk_grow_as_the_root(scale, rng):
    walk = scale * rng.standard_normal(4000).cumsum()
    found = own_changes(walk, 100) / scale
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(found, BAND * np.sqrt(np.arange(1, 101)), rtol=0.25)


@pytest.mark.parametrize("y", [[1.0, 2.0], [1.0, np.nan, np.nan], [5.0] * 4])
def test_own_changes_of_next_to_nothing_are_finite(y):
    found = own_changes(np.array(y), 6)
    # of a constant the least std that smoothing gives it
    size = {2: 1.0, 3: 0.0, 4: 5e-9}[len(y)]
    steps = np.array([1, 2, 3, 4, 5, 6]) if len(y) == 2 else np.array([1, 1, 1.5, 2, 2.5, 3])
    np.testing.assert_allclose(found, BAND * size * np.sqrt(steps), rtol=1e-12)


# What members disagree about


def half_widths(forecast):
    """Half the width of the 68 % band."""
    low, high = forecast.quantile(norm.cdf([-1.0, 1.0])).to_numpy().T
    return 0.5 * (high - low)


MEMBERS = {
    "normal": [normal([4.0, 5.0]), normal([2.0, 9.0], mean=3.0), normal([1.0, 1.0], mean=-1.0)],
    "skewed": [lognormal([0.2, 0.9]), lognormal([0.5, 0.1]) + 4.0],
    "both": [normal([4.0, 5.0], mean=5.0), lognormal([0.3, 0.6])],
    "turned": [-lognormal([0.2, 0.9]), -lognormal([0.5, 0.1]) - 4.0],
    "far apart": [normal([0.1, 0.1], mean=50.0), lognormal([0.02, 0.03])],
    "agreed": [normal([4.0, 5.0]), normal([2.0, 9.0])],
}


@pytest.mark.parametrize("name", MEMBERS)
def test_bands_are_wider_by_the_variance_of_the_medians(name):
    """c^2 = 1 + sum of w (m_k - m)^2 / u^2, u half the width of the 68 % band."""
    members = MEMBERS[name]
    weights = np.array([[0.5, 0.2], [0.2, 0.3], [0.3, 0.5]])[: len(members)]
    weights /= weights.sum(axis=0)
    plain = Forecast.average(members, weights)
    apart = Forecast.average(members, weights, disagreement=True)
    medians = np.array([one.median for one in members])
    between = (weights * (medians - plain.median.to_numpy()) ** 2).sum(axis=0)
    expected = half_widths(plain) * np.sqrt(1.0 + between / half_widths(plain) ** 2)
    np.testing.assert_allclose(half_widths(apart), expected, rtol=1e-9)
    np.testing.assert_allclose(apart.median, plain.median, rtol=1e-12, atol=1e-12)
    assert (between > 0).all() == (name != "agreed")
    if name in ("normal", "agreed"):
        np.testing.assert_allclose(apart.std**2, plain.std**2 + between, rtol=1e-12)
    if name == "skewed":
        assert (apart.quantile(1e-6) > 0).all()  # and nothing is below the bound


def test_members_far_apart_do_not_explode():
    """Medians 50 apart, widths of a tenth: so many stds of a logarithm are beyond any float."""
    ahead = Forecast.average(MEMBERS["far apart"], disagreement=True)
    band = ahead.interval(0.95)
    assert ahead.mean.between(band["lower"], band["upper"]).all()
    assert (half_widths(ahead) < 25.0).all()


@pytest.mark.parametrize("transform", [None, PowerTransform(0.0)])
def test_what_members_disagree_about_is_their_part_of_the_variance(transform):
    index, parts = pd.RangeIndex(2), {"noise": np.diag([0.03, 0.02])}
    cov = np.diag([0.04, 0.05])
    members = [
        Forecast(index, np.full(2, mean), cov, parts=parts, transform=transform)
        for mean in (0.0, 0.3)
    ]
    plain, apart = (Forecast.average(members, disagreement=d) for d in (False, True))
    found, before = apart.decompose(), plain.decompose()
    np.testing.assert_allclose(
        found["members"] - before["members"], apart.var - plain.var, rtol=1e-9
    )
    others = [name for name in before.columns if name != "members"]
    np.testing.assert_allclose(found[others], before[others], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=1), apart.var, rtol=1e-12)


def test_members_in_other_units_disagree_as_much():
    apart = Forecast.average(MEMBERS["both"], disagreement=True)
    found = (3.0 * apart).members
    again = Forecast.average(
        [one.forecast for one in found], [one.weight for one in found], disagreement=True
    )
    np.testing.assert_allclose(half_widths(again), 3.0 * half_widths(apart), rtol=1e-9)


def test_members_disagree_before_their_bounds():
    one, other = (Forecast(pd.RangeIndex(1), [m], [[1.0]]) for m in (0.2, 1.0))
    bounded = [one.censored(0.0), other.censored(0.0)]
    found = Forecast.average(bounded, disagreement=True)
    expected = Forecast.average([one, other], disagreement=True).censored(0.0)
    np.testing.assert_allclose(found.quantile(0.9), expected.quantile(0.9), rtol=1e-9)


def test_members_that_end_early_disagree_while_they_last():
    """One shorter than the others was refused: found by generated calls."""
    one, other = (Forecast(pd.RangeIndex(3), [m, m, m], np.eye(3)) for m in (0.0, 2.0))
    found = Forecast.average([one, other.first(2)], disagreement=True)
    both = Forecast.average([one, other], disagreement=True)
    np.testing.assert_allclose(found.std[:2], both.std[:2], rtol=1e-12)
    assert found.std[2] == pytest.approx(1.0)


def test_disagreement_is_true_or_false():
    with pytest.raises(ValueError, match="disagreement must be True or False; got 'x'"):
        Forecast.average(MEMBERS["both"], disagreement="x")


def test_the_averaging_of_the_automatic_choice_has_the_disagreement():
    rule = Averaging(True, 6.0, 1, disagreement=True)
    asks = [lambda h, m=m: steps_of([2.0] * h, mean=m) for m in (0.0, 4.0)]
    found = average(rule, asks, np.ones(2), 3)
    expected = np.sqrt((2.0 / BAND) ** 2 + 4.0)
    np.testing.assert_allclose(found.prediction.joint.std, expected, rtol=1e-12)
    np.testing.assert_allclose(found.reference.joint.std, expected, rtol=1e-12)


def test_the_changes_of_the_series_say_what_explodes():
    """Not the narrowest: of three that are alike beside it none is dropped."""
    rule = Averaging(False, 6.0, 1)
    asks = [lambda h, w=w: steps_of([w] * h) for w in (1.0, 20.0, 21.0, 700.0)]
    found = average(rule, asks, np.ones(4), 2, change_widths=np.array([4.0, 100.0]))
    np.testing.assert_array_equal(found.shares, [[1, 1], [1, 1], [1, 1], [0, 0]])
    found = average(rule, asks, np.ones(4), 2, change_widths=np.array([120.0, 120.0]))
    np.testing.assert_array_equal(found.shares[3], [1, 1])
