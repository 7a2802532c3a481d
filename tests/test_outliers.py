"""Gross outliers: found where they were planted, nothing found where there are none, and said."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    LinearRegressor,
    backtest,
    forecast_panel,
    load_model,
)
from forecast_unc.forecasting.choose.screen import (
    excursions,
    excursions_of_weeks,
    gross_outliers,
    last_shift,
    without_outliers,
)
from forecast_unc.series.history import History
from tests.members import in_turn

N = 144
GP = GPRegressor(lengthscales=1.0, noise_std=0.3)  # nothing to search


def monthly(seed=0, n=N):
    """Growth, a season and noise in proportion, as of airline passengers."""
    t, noise = np.arange(n), np.random.default_rng(seed).standard_normal(n)
    return np.exp(5 + 0.01 * t + 0.2 * np.sin(2 * np.pi * t / 12) + 0.03 * noise)


def walk(seed=0, n=N):
    return 100.0 + np.cumsum(np.random.default_rng(seed).standard_normal(n))


def autoregression(seed=0, n=N):
    y = np.random.default_rng(seed).standard_normal(n)
    for t in range(1, n):
        y[t] += 0.7 * y[t - 1]
    return 30.0 + y


def hourly(seed=0, n=1000):
    t = np.arange(n)
    working = 1 + 0.5 * (t // 24 % 7 < 5)
    return 100 + 40 * np.sin(2 * np.pi * t / 24) * working + 10 * (autoregression(seed, n) - 30)


SERIES = {
    "monthly": (monthly, (12,)),
    "walk": (walk, ()),
    "autoregression": (autoregression, ()),
    "hourly": (hourly, (24, 168)),
}
SPIKES = {
    "five times": lambda y, at: 5.0 * y[at],
    "ten thousand times": lambda y, at: 1e4 * y[at],
    "a sentinel": lambda y, at: -999.0,
}


def at_random(draw):
    """A series of independent values, or of several kinds, by seed."""
    return lambda seed, n: draw(np.random.default_rng(seed), n)


# ------------------------------------------------------------------------------------------------
# The rule


@pytest.mark.parametrize("spike", ["five times", "a sentinel"])
@pytest.mark.parametrize("name", SERIES)
def test_a_gross_outlier_is_found_anywhere_and_alone(name, spike):
    make, periods = SERIES[name]
    for place in (0, 1, 100, -2, -1):
        y = make()
        y[place] = SPIKES[spike](y, place)
        found = np.flatnonzero(gross_outliers(y, periods))
        np.testing.assert_array_equal(found, np.arange(len(y))[[place]])


def test_three_outliers_beside_a_level_shift():
    for seed in range(5):
        y = walk(seed)
        y[90:] += 12.0
        y[[20, 61, 125]] += [60.0, -60.0, 80.0]
        np.testing.assert_array_equal(np.flatnonzero(gross_outliers(y)), [20, 61, 125])


NO_OUTLIERS = {
    "normal": (at_random(lambda rng, n: rng.standard_normal(n)), 150, ()),
    "few": (at_random(lambda rng, n: rng.standard_normal(n)), 20, ()),
    "walk": (walk, 150, ()),
    "walk of t3": (at_random(lambda rng, n: np.cumsum(rng.standard_t(3, n))), 200, ()),
    "monthly": (monthly, 100, (12,)),
    "log-normal": (at_random(lambda rng, n: np.exp(rng.standard_normal(n))), 150, ()),
    "exponential growth": (
        at_random(lambda rng, n: np.exp(0.3 * np.arange(n) + 0.1 * rng.standard_normal(n))),
        50,
        (),
    ),
    "few counts": (at_random(lambda rng, n: rng.poisson(0.5, n).astype(float)), 100, (12,)),
    "counts": (at_random(lambda rng, n: rng.poisson(5, n).astype(float)), 72, (12,)),
    "intermittent": (
        at_random(lambda rng, n: rng.poisson(20, n) * (rng.random(n) < 0.1) * 1.0),
        150,
        (),
    ),
    "intermittent sizes": (
        at_random(lambda rng, n: (rng.random(n) < 0.06) * np.ceil(np.exp(1 + rng.normal(size=n)))),
        400,
        (),
    ),
    "prices with offers": (
        at_random(lambda rng, n: 100 - (rng.random(n) < 0.06) * rng.uniform(5, 30, n)),
        150,
        (),
    ),
    "full most of the time": (
        at_random(lambda rng, n: np.minimum(100, rng.normal(106, 4, n))),
        150,
        (),
    ),
    "steps": (
        at_random(lambda rng, n: np.repeat(rng.integers(1, 9, n), 10)[:n].astype(float)),
        150,
        (),
    ),
    "closed on Sundays": (
        at_random(lambda rng, n: np.where(np.arange(n) % 7 == 6, 0.0, rng.normal(100, 10, n))),
        200,
        (7,),
    ),
    "closed at times": (
        at_random(lambda rng, n: np.where(rng.random(n) < 0.05, 0.0, rng.normal(100, 10, n))),
        400,
        (7,),
    ),
}


@pytest.mark.parametrize("name", NO_OUTLIERS)
def test_what_is_usual_is_left_alone(name):
    make, n, periods = NO_OUTLIERS[name]
    found = [gross_outliers(make(seed, n), periods).any() for seed in range(20)]
    # Where one series in a hundred has something, three of 20 have with probability .001.
    assert sum(found) < 3


@pytest.mark.parametrize("freedom", [2, 3])
def test_heavy_tails_are_mostly_left_alone(freedom):
    """Of t2 and t3 a twentieth of the series is touched: no two of three hundred values."""
    draws = np.random.default_rng(7).standard_t(freedom, (100, 150))
    found = np.array([gross_outliers(y).sum() for y in draws])
    assert (found > 0).mean() < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert found.mean() < 0.1


def test_a_level_shift_is_none_however_near_the_end():
    """One value on the new level may be anything up to six stds away, two agree with each other."""
    for after in (1, 2, 3, 10, 50):
        for seed in range(20):
            y = np.random.default_rng(seed).standard_normal(100)
            y[-after:] += 6.0 if after == 1 else 50.0
            assert not gross_outliers(y).any()


def test_a_spike_in_a_series_that_hardly_changes():
    """Less than one step in ten differs from 0."""
    for seed in range(4):
        y = 100.0 + (np.arange(150) % 16 == seed)
        y[75 + seed] = 1000.0
        np.testing.assert_array_equal(np.flatnonzero(gross_outliers(y)), [75 + seed])
        y[75 + seed] = 102.0
        assert not gross_outliers(y).any()


def test_what_recurs_is_the_process():
    rng = np.random.default_rng(0)
    y = 100.0 + rng.standard_normal(400)
    y[rng.permutation(398)[:8] + 1] += 60.0  # two in a hundred
    assert not gross_outliers(y).any()
    y = 100.0 + rng.standard_normal(120)
    y[[35, 47]] += 60.0  # in the same season
    assert not gross_outliers(y, (12,)).any()
    assert gross_outliers(y).sum() == 2  # without one they are two outliers


def test_more_than_three_are_no_outliers_even_if_the_last_one_is_found_later():
    """Each twice as far out as the one before: the larger ones hide the others."""
    at = np.linspace(10, N - 10, 4).astype(int)
    sizes = 1000.0 * np.array([1, -2, 4, -8])
    for seed in range(4):
        four, three = walk(seed), walk(seed)
        four[at] += sizes
        three[at[:3]] += sizes[:3]
        assert not gross_outliers(four).any()
        np.testing.assert_array_equal(np.flatnonzero(gross_outliers(three)), at[:3])


def test_fewer_than_twelve_values_say_nothing():
    y = walk(n=12)
    y[5] = 1e6
    assert gross_outliers(y)[5]
    y[0] = np.nan
    assert not gross_outliers(y).any()
    assert gross_outliers(np.full(30, np.nan)).sum() == 0
    assert gross_outliers(np.full(30, 2.0)).sum() == 0


@given(
    seed=st.integers(0, 10_000),
    scale=st.floats(1e-3, 1e3),
    shift=st.floats(-1e3, 1e3),
    tail=st.integers(1, 5),
)
def test_properties(seed, scale, shift, tail):
    """Found again nowhere; the same on another scale, upside down and backwards."""
    rng = np.random.default_rng(seed)
    y = rng.standard_t(tail, 80) - 1e6  # negative: no logarithm
    y[rng.integers(80)] += 30.0
    found = gross_outliers(y)
    assert not gross_outliers(np.where(found, np.nan, y)).any()
    np.testing.assert_array_equal(gross_outliers(y[::-1]), found[::-1])
    # powers of two and whole numbers, so that roundoff decides nothing
    y = np.round(y * 1024)
    found = gross_outliers(y)
    scale, shift = 2.0 ** np.round(np.log2(scale)), np.round(shift) * 1024
    np.testing.assert_array_equal(gross_outliers(scale * (y - shift - 1e9)), found)
    np.testing.assert_array_equal(gross_outliers(scale * (y + 1e6 * 1024) - 1e12), found)


def test_a_positive_series_is_looked_at_by_its_logarithm():
    """A fifth of the usual early in a series that grows a hundredfold is seen in proportion."""
    y = np.exp(np.linspace(0, 4.6, N)) * (1 + 0.03 * np.random.default_rng(0).standard_normal(N))
    y[10] /= 5
    np.testing.assert_array_equal(np.flatnonzero(gross_outliers(y)), [10])
    assert not gross_outliers(y - 1e6).any()


@pytest.mark.parametrize("value", [0.0, 1.0, 20.0])
def test_a_zero_is_as_far_out_as_the_smallest_numbers(value, rng):
    y = 130 + 15 * np.sin(2 * np.pi * np.arange(300) / 7) + rng.normal(0, 13, 300)
    y[200] = value
    assert np.flatnonzero(gross_outliers(y, (7,))).tolist() == [200]
    y[201:203] = value  # a run is no isolated value
    assert not gross_outliers(y, (7,)).any()


def test_a_few_zeros_of_small_counts_are_none(rng):
    for mean in (3.0, 6.0, 10.0):
        found = [gross_outliers(rng.poisson(mean, 100).astype(float)).sum() for _ in range(20)]
        assert sum(found) <= 1


@pytest.mark.parametrize("periods", [(), (7,)], ids=str)
def test_missing_values_stay_missing(periods):
    y = walk()
    y[30:40] = y[-3:] = y[0] = np.nan
    y[41] = 1e4
    before = y.copy()
    np.testing.assert_array_equal(np.flatnonzero(gross_outliers(y, periods)), [41])
    np.testing.assert_array_equal(y, before)


def test_a_spike_beside_missing_values_at_an_end():
    """Filled in they would repeat it, and a few values that stay are a new level."""
    for missing in (1, 2, 3):
        rng, t = np.random.default_rng(0), np.arange(60)
        y = 100 + 10 * np.sin(2 * np.pi * t / 12) + rng.standard_normal(60)
        y[59 - missing], y[60 - missing :] = 900, np.nan
        assert np.flatnonzero(gross_outliers(y, (12,))).tolist() == [59 - missing]
        assert np.flatnonzero(gross_outliers(y[::-1], (12,))).tolist() == [missing]


@pytest.mark.parametrize("n", [60])
def test_holidays_are_spared_however_many(n):
    rng, index = np.random.default_rng(0), pd.date_range("2022-01-01", periods=400, freq="D")
    holidays = index[np.sort(rng.choice(400, n, replace=False))]
    y = pd.Series(100 + rng.standard_normal(400), index)
    y[holidays[3]] = 160
    model = Forecaster(lags=7, calendar=holidays).fit(y)
    assert not any("outlier" in line for line in model.choices_)


def test_a_period_longer_than_the_series():
    y = walk()
    y[50] = 1e4
    np.testing.assert_array_equal(np.flatnonzero(gross_outliers(y, (12, 143, 400))), [50])


# ------------------------------------------------------------------------------------------------
# The forecaster


def series(values, freq="MS"):
    return pd.Series(values, pd.date_range("2000-01-01", periods=len(values), freq=freq), name="y")


def plain(**options):
    return Forecaster(GP, lags=2, differences=1, **options)


@pytest.mark.parametrize("lags", [{"lags": 16}, {"lags": 2, "differences": 1}], ids=str)
def test_the_next_median_moves_by_less_than_a_std_of_the_changes(lags):
    clean = autoregression()
    median = Forecaster(**lags).fit(series(clean)).forecast(1).median.item()
    for spike, place in (("five times", 70), ("ten thousand times", -1)):
        y = clean.copy()
        y[place] = SPIKES[spike](y, place)
        moved = Forecaster(**lags).fit(series(y)).forecast(1).median.item() - median
        assert abs(moved) < np.diff(clean).std()


def test_a_last_value_five_times_too_large_is_not_the_new_level():
    """The automatic choice, and what "keep" makes of it."""
    y = series(monthly())
    actual = y.iloc[-1]
    y.iloc[-1] *= 5
    masked, kept = Forecaster().fit(y), Forecaster(outliers="keep").fit(y)
    missing = Forecaster().fit(y.where(np.arange(N) < N - 1))
    pd.testing.assert_series_equal(masked.forecast(3).median, missing.forecast(3).median)
    assert masked.forecast(1).median.item() < 1.3 * actual < kept.forecast(1).median.item()
    line = f"outliers: 1 value treated as missing: 2011-12-01 ({y.iloc[-1]:,.6g}); "
    assert masked.choices_[1] == f"{line}outliers='keep' keeps them"
    assert line in masked.summary()
    assert not any("outliers" in line for line in kept.choices_)


def test_masked_is_missing_and_the_data_stay_as_they_are():
    y = series(walk())
    y.iloc[[40, 80]] = [500.0, -500.0]
    exog = pd.DataFrame({"x": np.random.default_rng(1).standard_normal(N)}, y.index)
    std = pd.Series(0.0, y.index)
    std.iloc[[40, 100]] = 0.1
    before = y.copy(), exog.copy(), std.copy()
    masked = plain().fit(y, exog, std)
    for one, other in zip((y, exog, std), before, strict=True):
        (pd.testing.assert_frame_equal if one is exog else pd.testing.assert_series_equal)(
            one, other
        )
    missing = plain(outliers="keep").fit(y.where(y.abs() < 400), exog, std)
    future = pd.DataFrame({"x": 0.0}, pd.date_range("2012-01-01", periods=4, freq="MS"))
    pd.testing.assert_frame_equal(masked.forecast(4, future).cov, missing.forecast(4, future).cov)
    history = masked.ensemble_.history
    np.testing.assert_array_equal(history.given, y)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(history.y)), [40, 80])


def test_many_are_counted():
    y = walk(n=600)
    y[[100, 200, 300, 400, 500]] += 300.0
    named = plain().fit(series(y, "D")).choices_[1]
    assert named.startswith("outliers: 5 values treated as missing: 2000-04-10 (")
    assert "), and 2 more; outliers='keep' keeps them" in named
    assert named.count("(") == 3


def test_update_looks_at_what_came_and_again_at_what_was():
    y = series(walk())
    model = plain().fit(y[:-3])
    later = y[-3:].copy()
    later.iloc[0] += 200.0
    model.update(later[:1])
    assert "treated as missing: 2011-10-01" in model.choices_[1]
    pd.testing.assert_series_equal(
        model.forecast(2).median, plain().fit(y[:-3]).update(later[:1] * np.nan).forecast(2).median
    )
    # the next value agrees with it: that was a new level
    model.update(later[1:2] + 200.0)
    assert not any("outliers" in line for line in model.choices_)
    whole = pd.concat([y[:-3], later[:1], later[1:2] + 200.0])
    kept = plain(outliers="keep").fit(y[:-3]).update(whole[-2:])
    np.testing.assert_allclose(model.forecast(2).median, kept.forecast(2).median, rtol=1e-9)
    # or it does not: then it stays missing
    other = plain().fit(y[:-3]).update(later[:1]).update(later[1:])
    assert "treated as missing: 2011-10-01" in other.choices_[1]


def test_apply_and_files(tmp_path):
    y = series(walk())
    model = plain().fit(y)
    spiked = y.copy()
    spiked.iloc[-1] *= 5
    applied = model.apply(spiked)
    assert "treated as missing: 2011-12-01" in applied.choices_[1]
    assert not any("outliers" in line for line in model.choices_)
    np.testing.assert_allclose(
        applied.forecast(3).median, model.apply(spiked.where(spiked < 300)).forecast(3).median
    )
    applied.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.choices_ == applied.choices_
    loaded.update(series(np.append(spiked, spiked.iloc[-1]))[-1:])  # and was no outlier after all
    assert not any("outliers" in line for line in loaded.choices_)


def test_refit_clone_and_combination():
    y = series(walk())
    spiked = y.copy()
    spiked.iloc[70] = 5e3
    assert "2005-11-01" in plain().fit(y).refit(spiked).choices_[1]
    assert clone(plain(outliers="keep")).outliers == "keep"
    both = Combination([plain(), plain(outliers="keep")]).fit(spiked)
    named = [any("outliers" in line for line in model.choices_) for model in both.forecasters_]
    assert named == [True, False]


def test_a_backtest_scores_the_outlier_and_forgets_it():
    """Origins at and after an outlier; nothing after an origin decides what is missing before."""
    y = series(walk())
    y.iloc[-20] += 300.0
    options = {"steps": 2, "origins": list(y.index[-22:-17])}
    for extra in ({"refit": True}, {"refit": False}):
        frame = backtest(plain(), y, **options, **extra).frame
        assert frame["actual"].max() == y.iloc[-20]
        assert (frame["mean"] - np.median(y)).abs().max() < 50.0
        poisoned = y.where(np.arange(N) <= N - 18, 1e5)
        again = backtest(plain(), poisoned, **options, **extra).frame
        np.testing.assert_array_equal(again["mean"], frame["mean"])


def test_a_panel():
    frame = pd.concat(
        pd.DataFrame({"unique_id": i, "ds": series(walk(i)).index, "y": walk(i)}) for i in range(2)
    ).reset_index(drop=True)
    frame.loc[N - 1, "y"] *= 5
    forecasts = forecast_panel(frame, plain(), steps=1)
    clean = plain().fit(series(walk()).where(np.arange(N) < N - 1)).forecast(1)
    value = forecasts.loc[forecasts["unique_id"] == 0, "forecast_unc"].item()
    np.testing.assert_allclose(value, clean.mean.item())


def test_lags_of_ones_own_keep_half_of_their_rows():
    y = series(walk(n=40))
    y.iloc[20] = 5e3
    assert "outliers" in Forecaster(GP, lags=5).fit(y).choices_[1]  # 29 of 35 rows
    kept = Forecaster(GP, lags=18).fit(y)  # 3 of 22
    assert not any("outliers" in line for line in kept.choices_)
    with pytest.raises(ValueError, match="y must have at least 53 values for lags up to 50"):
        Forecaster(lags=50).fit(y)


def test_what_a_regressor_or_a_holiday_may_explain_stays():
    y = series(walk(), "D")
    y.iloc[[40, 90]] += 60.0
    promotion = pd.DataFrame({"x": 0.0}, y.index)
    promotion.iloc[[40, 135]] = 1.0
    assert "1 value treated as missing: 2000-03-31" in plain().fit(y, promotion).choices_[1]
    on_day = plain(calendar=[y.index[[90, 143]]]).fit(y)
    assert "1 value treated as missing: 2000-02-10" in on_day.choices_[1]
    assert "2 values" in plain(calendar="day_of_week").fit(y).choices_[1]


def test_seasonal_periods_that_are_given_count():
    y = 100.0 + np.random.default_rng(0).standard_normal(120)
    y[[25, 75]] += 60.0  # ten periods of five apart
    given_, none = (
        plain(seasonal_period=period, calendar="fourier").fit(series(y, "h")).choices_
        for period in (50, None)
    )
    assert not any("outliers" in line for line in given_)
    assert "2 values" in none[1]


def test_bad_values_are_refused():
    for value in ("drop", None, True):
        message = f"outliers must be one of 'mask', 'keep'; got {value!r}. Leave it out if unsure"
        with pytest.raises(ValueError, match=message):
            Forecaster(outliers=value).fit(series(walk()))


def shifted(factor=1.0, added=0.0, at=60, seed=0):
    """Months with a season in proportion, multiplied or moved from a time on."""
    i, rng = np.arange(120), np.random.default_rng(seed)
    y = 3500 * (1 + 0.2 * np.sin(2 * np.pi * i / 12)) * np.exp(0.03 * rng.normal(size=120))
    y[at:] = factor * y[at:] + added
    return y


@pytest.mark.parametrize(
    ("how", "at"), in_turn([(0.5,), (10.0,), (1e-3,), (1.0, 3000.0)], [24, 60, 96]), ids=str
)
def test_a_gross_shift_is_found_where_it_is(how, at):
    y = shifted(*how, at=at)
    y_with_gaps = y.copy()
    y_with_gaps[[at - 20, at + 14]] = np.nan  # not of a change across the shift
    last_wrong = y.copy()
    last_wrong[-1] = y[at - 1]
    beside = y.copy()
    beside[at - 1] = np.nan
    for one in (y, -7e5 * y, y + 5.0 * np.arange(120), y_with_gaps, last_wrong, beside):
        assert last_shift(one, 12) == at
        assert excursions(one, 12) == []


def closed(start=340, n=14, share=0.3, seed=0):
    """400 days with a week, and two weeks at another level."""
    rng, y = np.random.default_rng(seed), np.full(400, 200.0)
    y[np.arange(400) % 7 > 4] *= 0.9
    y += 4.0 * rng.normal(size=400)
    y[start : start + n] *= share
    return y


@pytest.mark.parametrize(
    ("place", "share"),
    in_turn(
        [(30, 2), (60, 20), (200, 6), (280, 40), (350, 14), (370, 14), (388, 5)], [0.0, 0.3, 2.0]
    ),
    ids=str,
)
def test_an_excursion_is_found_where_it_is(place, share):
    start, n = place
    y = closed(start, n, share)
    for one in (y, -3.0 * y, y + 0.2 * np.arange(400)):
        assert excursions(one, 7) == [slice(start, start + n)]
    y[5] = np.nan  # that none of it is compared with
    assert excursions(y, 7) == [slice(start, start + n)]


def test_two_excursions_of_months_are_found_and_gaps_are_none():
    y, away = shifted(), shifted()
    away[50:52] *= 0.3
    away[100:102] *= 2.0
    assert excursions(away, 12) == [slice(50, 52), slice(100, 102)]
    y[20:23] = y[80:83] = np.nan
    assert excursions(y, 12) == []


def test_three_excursions_of_a_tenth_of_the_values_at_most():
    y = closed(share=1.0)
    for count, start in enumerate((60, 150, 240, 330), start=1):
        y[start : start + 2] *= 0.3
        assert len(excursions(y, 7)) == (count if count < 4 else 0)
    assert excursions(closed(200, 40), 7) != []
    assert excursions(closed(200, 48), 7) == []
    alone = closed(share=1.0)
    alone[200] *= 0.3
    assert excursions(alone, 7) == []  # gross_outliers has single values


def test_a_level_that_comes_back_in_part_is_no_excursion():
    y = closed(385, 6)
    y[391:] *= 0.55
    assert excursions(y, 7) == []


def test_a_longer_season_is_no_excursion():
    """Mondays are far from two days ago where weekends are low, and no later ones are known."""
    hour, rng = np.arange(24 * 24 + 10), np.random.default_rng(0)
    working = (hour // 24) % 7 < 5
    peak = 300.0 * np.exp(-0.5 * ((hour % 24 - 8) / 1.5) ** 2)
    y = 20.0 + working * peak + 3.0 * rng.normal(size=len(hour))
    for end in range(20 * 24, len(y), 7):
        assert excursions(y[:end], 24) == []


def test_large_values_of_a_skewed_series_are_no_excursions():
    for seed in range(60):
        y = np.exp(np.random.default_rng(seed).normal(size=200))
        assert excursions(np.repeat(y, 2)[: 200 + seed % 2], 1) == []


@pytest.mark.parametrize(("start", "n"), [(350, 30), (355, 40), (340, 50), (300, 80)])
def test_a_return_of_late_is_no_shift(start, n):
    y = closed(start, n)
    for run in excursions(y, 7):
        y[run] = np.nan
    assert last_shift(y, 7) == 0


def test_a_level_that_stays_and_what_recurs_are_no_excursions():
    """Nor what began the series, or goes on to its end."""
    assert excursions(closed(0, 10), 7) == []
    assert excursions(closed(388, 12), 7) == []
    assert excursions(shifted(0.5, at=70), 12) == []
    weekly = closed(share=1.0)
    for start in range(20, 400, 60):
        weekly[start : start + 5] *= 0.3
    assert excursions(weekly, 7) == []
    assert excursions(np.full(80, np.nan), 12) == []
    assert excursions(np.full(80, 7.0), 4) == []


def test_the_default_takes_an_excursion_as_missing(tmp_path):
    index = pd.date_range("2024-01-01", periods=400, freq="D")
    y = pd.Series(closed(), index)
    model = Forecaster(max_train=100, calibrate=False).fit(y)
    without = clone(model).fit(y.mask(y < 100.0))
    pd.testing.assert_frame_equal(model.forecast(14).cov, without.forecast(14).cov)
    (said,) = model.notes_
    assert said.startswith("outliers: 14 values treated as missing: 2024-12-06 to 2024-12-19; ")
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").notes_ == [said]
    kept = clone(model).set_params(outliers="keep").fit(y)
    assert kept.notes_ == []
    assert (kept.forecast(14).std > 2.0 * model.forecast(14).std).all()
    later = pd.Series(closed(seed=1)[:7], index[:7] + pd.Timedelta(days=400))
    assert model.update(later).notes_ == [said]
    closure = pd.DataFrame({"closed": (y < 100.0) * 1.0}, index)
    assert clone(model).fit(y, closure).notes_ == []
    # one value over and over may be right: it is named
    zeros = clone(model).fit(y.where(y > 100.0, 0.0))
    assert zeros.notes_[0].startswith("repeated: 14 values of 0")


def years(freq, start, share, n_years=4):
    """Weeks or days with a year, and twelve weeks at another level from a time on."""
    n, week = (52, 1) if freq == "W-MON" else (365, 7)
    t, rng = np.arange(n_years * n), np.random.default_rng(0)
    y = 1000.0 * np.exp(0.15 * np.sin(2 * np.pi * t / n) + 0.05 * rng.standard_normal(len(t)))
    if week > 1:
        y[t % 7 > 4] *= 0.7
    y[start : start + 12 * week] *= share
    return pd.Series(y, pd.date_range("2017-01-02", periods=len(y), freq=freq))


@pytest.mark.parametrize(
    ("freq", "start", "share"),
    [
        ("W-MON", 20, 0.4),
        ("W-MON", 120, 2.0),
        ("W-MON", 185, 0.4),
        ("D", 1200, 0.5),
        ("D", 100, 0.5),
    ],
)
def test_a_lockdown_is_masked_and_a_milder_one_is_named(freq, start, share):
    periods, week = ((52,), 1) if freq == "W-MON" else ((7, 365), 7)
    y = years(freq, start, share)
    (run,) = excursions_of_weeks(y.to_numpy(), periods)
    assert max(abs(run.start - start), abs(run.stop - start - 12 * week)) < 2 * week
    masked = without_outliers(Forecaster(), History.checked(y, None, None))
    assert np.isnan(masked.y[run]).all()
    assert np.isnan(masked.y).sum() < 15 * week
    assert excursions_of_weeks(masked.y, periods) == []  # nor is its echo a year later
    assert excursions_of_weeks(years(freq, start, 1.0).to_numpy(), periods) == []
    assert excursions_of_weeks(years(freq, start, share, 2).to_numpy(), periods) == []
    assert excursions_of_weeks(np.full(len(y), np.nan), periods) == []


def test_an_excursion_that_stays_in_the_series_is_named():
    y = years("W-MON", 150, 0.7)
    model = Forecaster(LinearRegressor(), lags=2).fit(y)
    (note,) = model.notes_
    assert note.kind == "excursion"
    assert note.fact == "excursion: from 2019-11-18 to 2020-02-03 y is far from other years"
    assert note.remedy == "if it will not recur, leave it out: y.iloc[150:162] = np.nan"
    assert clone(model).set_params(outliers="keep").fit(y).notes_ == []
    assert clone(model).fit(y, pd.DataFrame({"shut": (y < 0.0) * 1.0}, y.index)).notes_ == []


def test_shifts_too_late_or_that_recur_or_of_constants_are_none():
    assert last_shift(shifted(0.5, at=97), 12) == 0  # two seasons or more are learned from
    up_and_down = shifted()
    up_and_down[30:60] += 3000.0
    up_and_down[80:100] += 3000.0
    assert last_shift(up_and_down, 12) == 0
    assert last_shift(np.repeat([1.0, 2.0], 40), 1) == 0
    assert last_shift(np.full(80, np.nan), 12) == 0
    assert last_shift(np.arange(31.0), 1) == 0


@pytest.mark.parametrize(("period", "series"), in_turn([1, 4, 12], [walk, autoregression, monthly]))
def test_processes_have_no_shift(series, period):
    for seed in range(100):
        y = series(seed)
        assert last_shift(y, period) == 0
        assert excursions(y, period) == []


@pytest.mark.parametrize(("seed", "log"), [(0, True), (4, True), (6, True), (1, False)])
def test_moves_of_a_volatile_time_are_real(seed, log):
    """GARCH(1, 1) of t(4), as share prices: two days at another price, or a rally of ten."""
    rng, var, changes = np.random.default_rng([11, seed]), 1.0, np.zeros(8000)
    shocks = rng.standard_t(4, 8000) / np.sqrt(2.0)
    for t in range(1, 8000):
        var = 0.005 + 0.1 * changes[t - 1] ** 2 + 0.895 * var
        changes[t] = np.sqrt(var) * shocks[t]
    level = 0.01 * changes.cumsum()
    y = np.exp(4.0 + level) if log else 1000.0 + 100.0 * level
    assert not gross_outliers(y, (5,)).any()
    assert excursions(y, 5) == []
    assert last_shift(y, 5) == 0


def test_walks_with_heavy_tails_have_few():
    rng = np.random.default_rng(0)
    found = [last_shift(rng.standard_t(3, 200).cumsum(), 4) > 0 for _ in range(100)]
    assert np.mean(found) < 0.07


def test_the_default_learns_from_the_values_after_a_shift(tmp_path):
    index = pd.date_range("2010-01-01", periods=120, freq="MS")
    y = pd.Series(shifted(0.5), index)
    model, after = Forecaster().fit(y), Forecaster().fit(y[60:])
    pd.testing.assert_frame_equal(model.forecast(12).cov, after.forecast(12).cov)
    said = (
        "shift: the level is another from 2015-01-01 on; the 60 values before are left out; "
        "outliers='keep' keeps them"
    )
    assert model.notes_ == [said]
    assert said in model.choices_
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").notes_ == [said]
    kept = Forecaster(outliers="keep").fit(y)
    assert kept.notes_ == []
    assert (kept.forecast(12).std > 1.5 * model.forecast(12).std).all()
    assert Forecaster(lags=2).fit(y).notes_ == []
    dam = pd.DataFrame({"new": (np.arange(120) >= 60) * 1.0}, index)
    assert Forecaster().fit(y, dam).notes_ == []
    longer = model.update(pd.Series(y.to_numpy()[60:66], index[:6] + pd.DateOffset(years=10)))
    assert longer.notes_ == [said]
