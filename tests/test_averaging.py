"""Weights over forecasts: by the step, never by the horizon."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from forecast_unc import Combination, Forecast, Forecaster, GPRegressor, baselines
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.averaging import Averaging
from tests.test_first_steps import assert_first_steps

BAND = 3.919927969080108  # width of the 95 % band of a unit std
GP = GPRegressor(lengthscales=3.0)


def normal(widths, mean=0.0):
    """A forecast whose 95 % bands have these widths."""
    std = np.asarray(widths) / BAND
    return Forecast(pd.RangeIndex(len(std)), np.full(len(std), mean), np.diag(std**2))


def lognormal(stds):
    """A forecast of median 1 whose logarithms have these stds: mean exp(std^2 / 2)."""
    stds = np.asarray(stds)
    index = pd.RangeIndex(len(stds))
    return Forecast(index, 0 * stds, np.diag(stds**2), transform=PowerTransform(0.0))


def shares(rule, *widths, ahead=1):
    horizon = max(map(len, widths))
    forecasts = [normal(w) if len(w) else None for w in widths]
    return rule.shares(forecasts, horizon, ahead)


# Widths


def test_shares_are_the_inverse_widths_to_the_power_of_three_halves():
    found = shares(Averaging(True, None, 1), [1.0, 4.0], [4.0, 1.0], [4.0, 9.0])
    np.testing.assert_allclose(found, [[1, 1 / 8], [1 / 8, 1], [1 / 8, 1 / 27]], rtol=1e-12)


def test_widths_are_looked_ahead_for_and_then_trail():
    rule = Averaging(True, None, 3)
    steady, growing = [2.0] * 5, [1.0, 2.0, 3.0, 4.0, 14.0]
    # the first three, 1 2 3, to step 3; then 2 3 4 and 3 4 14
    means = np.array([2.0, 2.0, 2.0, 3.0, 7.0])
    expected = np.array([np.ones(5), (2.0 / means) ** 1.5])
    np.testing.assert_allclose(shares(rule, steady, growing, ahead=3), expected, rtol=1e-12)
    # without a look ahead from the steps so far: 1, 1.5, 2, 3, 7
    means = np.array([1.0, 1.5, 2.0, 3.0, 7.0])
    least = np.minimum(means, 2.0)
    expected = np.array([(least / 2.0) ** 1.5, (least / means) ** 1.5])
    np.testing.assert_allclose(shares(rule, steady, growing), expected, rtol=1e-12)


def test_a_width_lost_to_roundoff_has_all_the_weight():
    sure = normal([1e-20, 1e-20], mean=1.0)
    found = Averaging(True, None, 2).shares([sure, normal([1.0, 1.0])], 2, 1)
    np.testing.assert_array_equal(found, [[1, 1], [0, 0]])


# Guards


@pytest.mark.parametrize(
    ("width", "share"),
    [
        (3.19, 1.0),  # 4 / 1.25 is where it begins to fade
        (4.0 / np.sqrt(1.25), 0.75),
        (4.0, 0.5),
        (4.0 * np.sqrt(1.25), 0.25),
        (5.01, 0.0),
    ],
)
def test_the_widest_fades_out_around_the_limit(width, share):
    found = shares(Averaging(False, 4.0), [1.0, 1.0], [width, width])
    np.testing.assert_allclose(found, [[1, 1], [share, share]], atol=1e-12)


@pytest.mark.parametrize(
    ("next_one", "share"),
    [
        (3.19, 1.0),
        (4.0 / np.sqrt(1.25), 0.75),
        (4.0, 0.5),
        (4.0 * np.sqrt(1.25), 0.25),
        (5.01, 0.0),
    ],
)
def test_the_narrowest_of_three_fades_out_where_the_next_is_four_times_as_wide(next_one, share):
    found = shares(Averaging(False, 1e6), [1.0], [next_one], [next_one])
    np.testing.assert_allclose(found, [[share], [1], [1]], atol=1e-12)
    of_two = shares(Averaging(False, 1e6), [1.0], [next_one])
    np.testing.assert_array_equal(of_two, [[1], [1]])


def test_without_the_narrowest_the_next_is_what_others_are_wide_beside():
    found = shares(Averaging(False, 4.0), [1.0], [6.0], [18.0], [60.0])
    np.testing.assert_allclose(found, [[0], [1], [1], [0]], atol=1e-12)
    # half in: the reference is between the two, sqrt(1 * 4) = 2, of which 8 is the limit
    found = shares(Averaging(False, 4.0), [1.0], [4.0], [8.0])
    np.testing.assert_allclose(found, [[0.5], [1], [0.5]], atol=1e-12)


def test_guards_see_the_widths_that_weights_see():
    """Over the last two steps: 1, 5.5, 5.5, 1; looked ahead for 5.5 at the first, too."""
    ones, jump = [1.0] * 4, [1.0, 10.0, 1.0, 1.0]
    found = shares(Averaging(False, 5.5, 2), ones, jump)
    np.testing.assert_allclose(found[1], [1, 0.5, 0.5, 1], atol=1e-12)
    found = shares(Averaging(False, 5.5, 2), ones, jump, ahead=2)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0.5, 1], atol=1e-12)


def test_a_mean_of_a_tail_drops_a_member_for_good():
    """Mean over median is exp(s^2 / 2), beyond exp(2) where the log std s is more than 2."""
    rule = Averaging(False, 1e9)
    exploding, calm = lognormal([1.0, 1.99, 2.01, 0.5]), normal([2.0] * 4, mean=1.0)
    found = rule.shares([exploding, calm], 4, 1)
    np.testing.assert_array_equal(found, [[1, 1, 0, 0], [1, 1, 1, 1]])
    # where all explode, the narrowest stays; a median that is not positive tells nothing
    worse = lognormal([3.0] * 4)
    both = rule.shares([exploding, worse], 4, 1)
    np.testing.assert_array_equal(both, [[1, 1, 1, 1], [0, 0, 0, 0]])
    below = rule.shares([normal([1.0], mean=-1.0), normal([1.0], mean=-9.0)], 1, 1)
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


@settings(max_examples=20)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=5), st.integers(0, 4), st.floats(1.1, 20))
def test_guards_are_continuous_in_the_widths(logs, which, widest):
    """A change of a width by a share e changes a factor by at most e / (2 log 1.25), chained."""
    rule, step = Averaging(False, widest), 1e-7
    rows = np.exp(logs)[:, None]
    which %= len(rows)
    moved = rows.copy()
    moved[which] *= np.exp(step)
    change = np.abs(shares(rule, *moved) - shares(rule, *rows)).max()
    # The narrowest's factor w moves by e / (2 log 1.25) and with it the log of the reference
    # between two widths, at most log(4 * 1.25) apart, and then every factor once more.
    slope = 1 / (2 * np.log(1.25))
    assert change <= step * slope * (2 + 2 * slope * np.log(5)) * 1.01


# Averages: the first steps are a shorter average


class Fixed(baselines.SeasonalNaive):
    """Bands of given widths, up to a step from which it diverges."""

    def __init__(self, growth=1.0, size=1.0, until=10**6):
        super().__init__(1)
        self.growth, self.size, self.until = growth, size, until

    def forecast(self, steps, exog=None, propagation="exact"):
        if steps > self.until:
            raise Diverged(f"It diverges at step {self.until + 1}.", self.until + 1)
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
    with pytest.raises(Diverged, match="It diverges at step 4"):
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
            raise Diverged("steps must stay where the forecast is stable; got one", steps)
        return normal([1.0])

    both = Averaging(False, 4.0, 1).average([ask, lambda h: normal([2.0] * h)], np.ones(2), 3)
    np.testing.assert_allclose(both.forecast.std, np.array([1.5, 2.0, 2.0]) / BAND, rtol=1e-12)


def until(step, width):
    """A forecast of a width that diverges at a step."""

    def ask(steps):
        if steps >= step:
            raise Diverged(f"steps must stay where the forecast is stable; got {step}", step)
        return normal([width] * steps)

    return ask


def test_members_that_all_diverge_early_are_judged_by_their_own_steps():
    rule = Averaging(True, 4.0, 8)
    found = rule.shares([until(4, 1.0)(3), until(8, 1.0)(7)], 8, 8)
    np.testing.assert_allclose(found[1, :7], 1.0)  # it alone gets farthest
    assert not found[0].any()
    found = rule.shares([until(8, 1.0)(7), until(8, 2.0)(7)], 8, 8)
    np.testing.assert_allclose(found[1, :7], 2**-1.5, rtol=1e-12)


def test_what_diverges_beyond_the_steps_asked_for_is_no_error():
    asks = [until(5, 1.0), lambda steps: normal([2.0] * steps)]
    ahead = Averaging(True, None, 8).average(asks, np.ones(2), 3)
    # the one that gets through the look-ahead
    np.testing.assert_allclose(ahead.forecast.std * BAND, 2.0)
    with pytest.raises(Diverged, match="got 5"):
        Averaging(True, None, 8).average(asks, np.ones(2), 6)


def test_the_error_of_all_is_that_of_the_one_that_gets_farthest():
    with pytest.raises(Diverged, match="got 6") as raised:
        Averaging(False, 4.0, 1).average([until(3, 1.0), until(6, 1.0)], np.ones(2), 9)
    assert raised.value.step == 6


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
    found = rule.average(asks, np.array([1.0, 0.0, 1.0, 1.0]), 3)
    assert [len(member) for member in found.members] == [8, 8, 5]
    expected = rule.shares(found.members, 8, 8)
    np.testing.assert_allclose(found.shares, expected, rtol=1e-12)
    assert len(found.reference) == 8
    assert_first_steps(found.reference, found.forecast)
    np.testing.assert_allclose(
        found.reference.std * BAND, expected.T @ [1.0, 3.0, 2.0] / expected.sum(axis=0), rtol=1e-12
    )
    # of others the weights and the reference are those of the widths that decide
    other = rule.average([until(9, 7.0)] * 4, np.array([1.0, 0.0, 1.0, 1.0]), 3, references=asks)
    np.testing.assert_allclose(other.forecast.std * BAND, 7.0)
    pd.testing.assert_frame_equal(other.reference.cov, found.reference.cov)
    # without a look ahead the reference is what was asked for
    plain = rule.average(asks[:1], np.ones(1), 3, can_look_ahead=False)
    assert plain.reference is plain.forecast


def test_a_member_that_runs_away_by_another_propagation_is_dropped_from_there_on():
    """Paths of a logarithm may run away where its exact forecast does not."""
    calm, wild = normal([1.0] * 4), normal([1.0, 1.0, 9.0, 1.0])
    exact = [lambda h: calm.first(h)] * 2
    rule = Averaging(False, 4.0, 1)
    asks = [lambda h: calm.first(h), lambda h: wild.first(h)]
    kept = rule.average(asks, np.ones(2), 4, references=exact).forecast
    np.testing.assert_allclose(kept.std * BAND, 1.0, rtol=1e-12)
    alone = rule.average(asks[1:], np.ones(1), 4, references=exact[1:]).forecast
    np.testing.assert_allclose(alone.std * BAND, [1.0, 1.0, 9.0, 1.0], rtol=1e-12)
