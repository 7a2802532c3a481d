"""Seasons that an index suggests, and inputs made of its dates."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, LinearRegressor
from forecast_unc.series.calendar import (
    calendar_inputs,
    check_calendar,
    check_changes,
    season_of,
    season_steps,
    seasonal_periods,
    seasons_within,
)

# Seasonal periods, and the one that the M4 competition counted
SEASONS = {
    "15min": ((96, 672), 96),
    "30min": ((48, 336), 48),
    "h": ((24, 168), 24),
    "2h": ((12, 84), 12),
    "7min": ((1440,), 1),  # a week holds a whole number of them, a day does not
    "24h": ((7, 365), 1),
    "48h": ((), 1),
    "D": ((7, 365), 1),
    "5D": ((73,), 1),
    "2D": ((), 1),
    "B": ((5, 260), 1),
    "W": ((52,), 1),
    "W-WED": ((52,), 1),
    "2W": ((26,), 1),
    "7D": ((52,), 1),
    "14D": ((26,), 1),
    "168h": ((52,), 1),
    "MS": ((12,), 12),
    "ME": ((12,), 12),
    "BMS": ((12,), 12),
    "2MS": ((6,), 6),
    "5MS": ((), 1),
    "QS": ((4,), 4),
    "QE-NOV": ((4,), 4),
    "YS": ((), 1),
    "bh": ((8, 40), 8),
    "2bh": ((4, 20), 4),
    "3bh": ((), 1),
    pd.DateOffset(months=1): ((12,), 12),
    pd.DateOffset(months=3): ((4,), 4),
}


def test_seasons_of_dates():
    found = {}
    for freq in SEASONS:
        index = pd.date_range("2024-01-01", periods=3, freq=freq)
        found[freq] = (seasonal_periods(index), season_of(index))
    assert found == SEASONS


def test_seven_days_are_a_week():
    """Read without its anchor, a file of Mondays has the season of W-MON."""
    mondays = pd.date_range("2021-01-04", periods=160, freq="W-MON")
    days = pd.date_range("2021-01-04", periods=160, freq="7D")
    for inputs in (("fourier",), ("profile",), ("month",)):
        found = calendar_inputs(days, inputs, (52,))
        np.testing.assert_array_equal(found, calendar_inputs(mondays, inputs, (52,)))


OPEN = pd.offsets.CustomBusinessDay(
    weekmask="Mon Tue Wed Thu Fri Sat", holidays=["2024-05-01", "2024-05-09"]
)


def test_a_shop_closed_on_sundays_has_a_week_of_six_days():
    index = pd.date_range("2024-01-05", periods=300, freq=OPEN)
    assert seasonal_periods(index) == (6, 312)
    profile = calendar_inputs(index, ("profile",), (6,))
    one_hot = calendar_inputs(index, ("day_of_week",), (6,))[:, :6]
    shift = int(profile[0].argmax() - one_hot[0].argmax())  # holidays in between change nothing
    np.testing.assert_array_equal(profile, np.roll(one_hot, shift, axis=1))


def test_opening_hours_have_a_day_and_a_week():
    hours = pd.offsets.CustomBusinessHour(
        weekmask="Tue Wed Thu Fri Sat",
        start=["08:30", "14:00"],
        end=["12:30", "17:00"],
        holidays=["2024-05-01", "2024-05-09"],
    )
    index = pd.date_range("2024-04-02 08:30", periods=400, freq=hours)
    assert seasonal_periods(index) == (7, 35)
    of_clock = np.unique(index.hour, return_inverse=True)[1]
    for period, phase in ((7, of_clock), (35, 7 * (index.day_of_week - 1) + of_clock)):
        profile = calendar_inputs(index, ("profile",), (period,))
        one_hot = np.eye(period)[phase]
        shift = int(profile[0].argmax() - one_hot[0].argmax())  # holidays change nothing
        np.testing.assert_array_equal(profile, np.roll(one_hot, shift, axis=1))
    night = pd.offsets.BusinessHour(start="20:00", end="04:00")
    index = pd.date_range("2024-04-02 20:00", periods=50, freq=night)
    assert seasonal_periods(index) == (8, 40)
    steps = season_steps(index, 8)
    np.testing.assert_array_equal((steps - steps[0]) % 8, np.arange(50) % 8)


@pytest.mark.parametrize("season", [8, 40])
def test_business_hours_are_forecast_with_their_season(season, rng):
    """95 % intervals of a noise of std 1 are 3.9 wide; they were 6 without a season."""
    index = pd.date_range("2024-01-02 09:00", periods=336, freq="bh")
    profile = 6 * rng.standard_normal(season)[season_steps(index, season)]
    y = pd.Series(100 + profile + rng.standard_normal(len(index)), index)
    ahead = Forecaster(LinearRegressor(), lags=2, calendar="profile").fit(y[:-16]).forecast(16)
    interval = ahead.interval(0.95)
    assert np.ptp(interval, axis=1).mean() == pytest.approx(3.92, rel=0.15)
    inside = (y[-16:] > interval["lower"]) & (y[-16:] < interval["upper"])
    assert inside.sum() >= 13


def test_seasons_of_periods():
    wanted = {"h": (24, 168), "D": (7, 365), "W": (52,), "M": (12,), "Q": (4,), "Y": ()}
    indexes = {freq: pd.period_range("2024-01-01", periods=3, freq=freq) for freq in wanted}
    assert {freq: seasonal_periods(index) for freq, index in indexes.items()} == wanted


def test_whole_numbers_have_no_calendar_and_a_time_zone_changes_nothing():
    assert seasonal_periods(pd.RangeIndex(50)) == ()
    assert season_of(pd.RangeIndex(50)) == 1
    index = pd.date_range("2024-03-30", periods=100, freq="h", tz="Europe/Paris")
    assert seasonal_periods(index) == (24, 168)


# Inputs from the calendar

INDEXES = {
    "hours": pd.date_range("2024-03-30", periods=400, freq="h"),
    "hours of a zone": pd.date_range("2024-03-30", periods=400, freq="h", tz="Europe/Paris"),
    "half hours": pd.date_range("2024-03-30", periods=400, freq="30min"),
    "days": pd.date_range("2024-02-01", periods=800, freq="D"),
    "days of a zone": pd.date_range("2024-02-01", periods=800, freq="D", tz="America/New_York"),
    "every second day": pd.date_range("2024-02-01", periods=400, freq="2D"),
    "business days": pd.date_range("2024-02-01", periods=800, freq="B"),
    "open days": pd.date_range("2024-02-01", periods=400, freq=OPEN),
    "weeks": pd.date_range("2020-01-01", periods=200, freq="W-WED"),
    "month starts": pd.date_range("1999-01-01", periods=50, freq="MS"),
    "month ends": pd.date_range("1999-01-01", periods=50, freq="ME"),
    "business months": pd.date_range("1999-01-01", periods=50, freq="BMS"),
    "two months": pd.date_range("1999-01-01", periods=50, freq="2MS"),
    "quarters": pd.date_range("1999-01-01", periods=50, freq="QE-NOV"),
    "years": pd.date_range("1980-01-01", periods=50, freq="YS"),
    "two years": pd.date_range("1980-01-01", periods=50, freq="2YE"),
    "half months": pd.date_range("1999-01-01", periods=50, freq="SMS"),
    "third Fridays": pd.date_range("1999-01-01", periods=50, freq="WOM-3FRI"),
    "yearly periods": pd.period_range("1980", periods=50, freq="Y"),
    "monthly periods": pd.period_range("1999-01", periods=50, freq="M"),
    "quarterly periods": pd.period_range("1999-01", periods=50, freq="Q"),
    "hourly periods": pd.period_range("2024-03-30", periods=400, freq="h"),
    "daily periods": pd.period_range("2024-02-01", periods=800, freq="D"),
    "weekly periods": pd.period_range("2020-01-01", periods=200, freq="W"),
    "whole numbers": pd.RangeIndex(3, 403, 4),
}
DATED = {name: index for name, index in INDEXES.items() if name != "whole numbers"}


@pytest.mark.parametrize("freq", ["D", "h", "2h", "W-SUN", "W-WED", "M", "Q-DEC"])
def test_periods_and_their_dates_have_the_same_phases(freq):
    """Else a process whose search has two ends finds another."""
    periods = pd.period_range("2021-03-01", periods=60, freq=freq)
    dates = periods.to_timestamp(how="end" if freq.startswith("W") else "start").normalize()
    if freq.endswith("h"):
        dates = periods.to_timestamp()
    dates = pd.DatetimeIndex(dates, freq="infer")
    seasons = seasonal_periods(periods) or (5,)
    for part in ("fourier", "profile"):
        of_periods, of_dates = (calendar_inputs(i, (part,), seasons) for i in (periods, dates))
        np.testing.assert_allclose(of_periods, of_dates, atol=1e-9)


@pytest.mark.parametrize("name", INDEXES)
def test_a_time_has_one_row_whatever_the_rest_of_the_index(name):
    index = INDEXES[name]
    parts = ("fourier", "profile")
    if name in DATED:
        parts += ("hour_of_week", "month", pd.DatetimeIndex(["2024-04-01", "2000-01-01"]))
    periods = seasonal_periods(index) or (7,)
    whole = calendar_inputs(index, parts, periods)
    assert whole.shape[0] == len(index)
    assert np.isfinite(whole).all()
    for part in (slice(17, 40), slice(1, 2), slice(30, None)):
        rows = calendar_inputs(index[part], parts, periods)
        np.testing.assert_allclose(rows, whole[part], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "period", "exact"),
    [
        ("hours", 24, 24),
        ("hours", 168, 168),
        ("hours", 52, 52),  # weeks of a year are those of a weekly index alone
        ("half hours", 48, 48),
        ("days", 7, 7),
        ("days", 365, 365.2425),
        ("business days", 260, 260),
        ("weeks", 52, 365.2425 / 7),
        ("weekly periods", 52, 365.2425 / 7),
        ("month ends", 12, 12),
        ("two months", 6, 6),
        ("quarters", 4, 4),
        ("years", 4, 4),
        ("two years", 5, 5),
        ("half months", 24, 24),
        ("third Fridays", 12, 12),
        ("yearly periods", 4, 4),
        ("monthly periods", 12, 12),
        ("quarterly periods", 4, 4),
        ("hourly periods", 24, 24),
        ("whole numbers", 7, 7),
        ("whole numbers", 3, 3),
    ],
)
def test_fourier_inputs_are_the_sines_and_cosines_of_the_period(name, period, exact):
    """Those of the definition turned by a constant phase: the same span, the same products."""
    rows = calendar_inputs(INDEXES[name], ("fourier",), (period,))
    t = np.arange(len(rows))
    harmonics = range(1, min(period // 2, 4 if period <= 48 else 3) + 1)
    column = 0
    for h in harmonics:
        width = 1 if 2 * h == period else 2
        wave = rows[:, column] + (1j * rows[:, column + 1] if width == 2 else 0)
        turned = np.exp(2j * np.pi * h * t / exact)
        np.testing.assert_allclose(wave, wave[0] * turned, atol=1e-6)
        np.testing.assert_allclose(np.abs(wave), 1.0, atol=1e-9)
        column += width
    assert column == rows.shape[1]


def test_several_periods_stand_side_by_side():
    index = INDEXES["hours"]
    both = calendar_inputs(index, ("fourier",), (24, 168))
    apart = [calendar_inputs(index, ("fourier",), (period,)) for period in (24, 168)]
    np.testing.assert_array_equal(both, np.hstack(apart))
    assert [part.shape[1] for part in apart] == [8, 6]
    assert calendar_inputs(index, ("fourier",), ()).shape == (400, 0)
    assert calendar_inputs(index, (), (24,)).shape == (400, 0)


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("hours", 24),
        ("half hours", 336),
        ("business days", 5),
        ("days", 340),
        ("weeks", 52),
        ("month ends", 12),
        ("two months", 6),
        ("years", 4),
        ("third Fridays", 12),
        ("quarterly periods", 4),
        ("whole numbers", 7),
    ],
)
def test_a_profile_is_one_column_a_step_of_the_season(name, period):
    """Each time in the column after that of the time before, and back to the first."""
    index = INDEXES[name]
    rows = calendar_inputs(index, ("profile",), (period,))
    assert rows.shape == (len(index), period)
    at = int(rows[0].argmax())
    for row in rows:
        assert list(np.flatnonzero(row)) == [at]
        assert row[at] == 1.0
        at = (at + 1) % period


def test_a_profile_of_several_seasons():
    """Of the longest up to 340 steps; longer ones and those beside its grid have Fourier terms."""

    def inputs(name, part, *periods):
        return calendar_inputs(INDEXES[name], (part,), periods)

    hours, days = partial(inputs, "hours"), partial(inputs, "days")
    np.testing.assert_array_equal(hours("profile", 24, 168), hours("profile", 168))
    np.testing.assert_array_equal(days("profile", 341), days("fourier", 341))
    np.testing.assert_array_equal(
        days("profile", 7, 365), np.hstack([days("profile", 7), days("fourier", 365)])
    )
    np.testing.assert_array_equal(
        hours("profile", 5, 12), np.hstack([hours("profile", 12), hours("fourier", 5)])
    )
    assert hours("profile").shape == (400, 0)


def test_a_profile_is_of_the_hours_of_the_clock():
    spring = pd.date_range("2024-03-30", periods=48, freq="h", tz="Europe/Paris")
    profile = calendar_inputs(spring, ("profile",), (24,))
    clock = calendar_inputs(spring, ("hour_of_day",), ())
    turned = [np.roll(clock, k, axis=1) for k in range(24)]
    assert sum(np.array_equal(profile, one) for one in turned) == 1


@pytest.mark.parametrize(
    "name",
    ["half hours", "hours of a zone", "business days", "weeks", "month ends", "hourly periods"],
)
def test_parts_of_the_date_are_one_column_a_value(name):
    index = INDEXES[name]
    parts = {"hour_of_day": "hour", "day_of_week": "day_of_week", "month": "month"}
    for part, attribute in parts.items():
        rows = calendar_inputs(index, (part,), ())
        assert rows.shape == (len(index), {"hour_of_day": 24, "day_of_week": 7, "month": 12}[part])
        np.testing.assert_array_equal(rows.sum(axis=1), 1.0)
        times = index.start_time if isinstance(index, pd.PeriodIndex) else index
        expected = getattr(times, attribute) - (part == "month")
        np.testing.assert_array_equal(rows.argmax(axis=1), expected)
    week = calendar_inputs(index, ("hour_of_week",), ())
    apart = [calendar_inputs(index, (part,), ()) for part in ("hour_of_day", "day_of_week")]
    np.testing.assert_array_equal(week, np.hstack(apart))


def test_hours_are_those_of_the_clock_on_the_wall():
    """At the change to summer time no 2 o'clock, at its end two of them, with the same row."""
    spring = pd.date_range("2024-03-31", periods=24, freq="h", tz="Europe/Paris")
    hours = calendar_inputs(spring, ("hour_of_day",), ()).argmax(axis=1)
    assert list(hours[:5]) == [0, 1, 3, 4, 5]
    autumn = pd.date_range("2024-10-27", periods=24, freq="h", tz="Europe/Paris")
    rows = calendar_inputs(autumn, ("hour_of_day", "fourier"), (24,))
    assert list(rows[:, :24].argmax(axis=1)[:5]) == [0, 1, 2, 2, 3]
    np.testing.assert_array_equal(rows[2], rows[3])
    noon = [index[index.hour == 12] for index in (spring, autumn)]
    phases = [calendar_inputs(i, ("fourier",), (24,)) for i in (spring, autumn)]
    for index, rows, at in zip((spring, autumn), phases, noon, strict=True):
        np.testing.assert_allclose(rows[index == at[0]], phases[0][spring == noon[0][0]], atol=1e-9)
    days = pd.date_range("2024-03-28", periods=9, freq="D", tz="Europe/Paris")
    np.testing.assert_allclose(
        calendar_inputs(days, ("fourier",), (7,)),
        calendar_inputs(pd.date_range("2024-03-28", periods=9, freq="D"), ("fourier",), (7,)),
        atol=1e-12,
    )


def test_holidays_are_their_whole_local_days():
    holidays = pd.DatetimeIndex(["2024-12-25", "2025-01-01 15:00"])
    index = pd.date_range("2024-12-24", "2025-01-02", freq="6h", tz="Asia/Tokyo")
    rows = calendar_inputs(index, (holidays,), ())
    expected = [str(day) in ("2024-12-25", "2025-01-01") for day in index.date]
    np.testing.assert_array_equal(rows[:, 0], np.array(expected, dtype=float))
    periods = pd.period_range("2024-12-24", "2025-01-02", freq="D")
    days = calendar_inputs(periods, (holidays, "day_of_week"), ())
    np.testing.assert_array_equal(np.flatnonzero(days[:, 0]), [1, 8])
    assert days.shape == (10, 8)
    zoned = holidays.tz_localize("Asia/Tokyo")
    np.testing.assert_array_equal(calendar_inputs(index, (zoned,), ()), rows)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (pd.date_range("2024-11-01", periods=3, freq="MS"), [0, 1, 1]),
        (pd.date_range("2024-11-30", periods=3, freq="ME"), [0, 1, 1]),
        (pd.date_range("2024-11-29", periods=3, freq="BME"), [0, 1, 1]),
        (pd.date_range("2024-10-01", periods=3, freq="2MS"), [0, 1, 0]),
        (pd.date_range("2024-07-01", periods=3, freq="QS"), [0, 1, 1]),
        (pd.date_range("2024-10-31", periods=3, freq="QE-JAN"), [0, 1, 0]),
        (pd.date_range("2023-01-01", periods=4, freq="YS"), [0, 1, 1, 0]),
        (pd.date_range("2023-12-31", periods=3, freq="YE"), [0, 1, 1]),
        (pd.date_range("2024-12-22", periods=4, freq="W-SUN"), [0, 1, 1, 0]),
        (pd.date_range("2024-12-22", periods=3, freq="2W-SUN"), [0, 1, 0]),
        (pd.date_range("2024-12-20", periods=4, freq="7D"), [1, 1, 0, 0]),
        (pd.date_range("2024-12-24", periods=3, freq="D"), [0, 1, 0]),
        (pd.period_range("2024-11", periods=3, freq="M"), [0, 1, 1]),
        (pd.period_range("2024-12-16", periods=4, freq="W-SUN"), [0, 1, 1, 0]),
        (pd.period_range("2024-12-24 18:00", periods=3, freq="6h"), [0, 1, 1]),
    ],
    ids=lambda value: getattr(value, "freqstr", None),
)
def test_weeks_months_quarters_and_years_hold_their_holidays(index, expected):
    holidays = pd.DatetimeIndex(["2025-01-01", "2024-12-25", "2024-12-26"])
    expected = np.array(expected, dtype=float)
    if index[0] == pd.Timestamp("2024-12-24") and index.freqstr == "D":
        expected[2] = 1.0
    np.testing.assert_array_equal(calendar_inputs(index, (holidays,), ())[:, 0], expected)


def test_what_a_calendar_can_be():
    days = pd.DatetimeIndex(["2024-12-25"])
    assert check_calendar(None) == ()
    assert check_calendar("month") == ("month",)
    assert check_calendar(["fourier", "month"]) == ("fourier", "month")
    assert check_calendar(days)[0] is days
    assert check_calendar(("fourier", days))[1] is days


def test_bad_calendars():
    stamp = pd.Timestamp("2024-12-25")
    for bad in ("weekday", ["fourier", "hour"], 7, ["2024-12-25"], [stamp]):
        got = re.escape(repr(bad[-1] if isinstance(bad, list) else bad))
        message = f"calendar must name fourier, profile, hour_of_day, .*got {got}. "
        with pytest.raises(ValueError, match=message):
            check_calendar(bad)


def test_dates_in_an_array_are_no_calendar():
    for bad in (np.array(["2024-12-25", "2025-01-01"]), pd.Series(["month", "fourier"])):
        with pytest.raises(ValueError, match="or hold holidays as a DatetimeIndex; got"):
            check_calendar(bad)


@pytest.mark.parametrize(
    ("freq", "never", "changes"),
    [
        ("MS", ("hour_of_day", "hour_of_week", "day_of_week"), ("fourier", "month")),
        ("QE", ("hour_of_day", "day_of_week"), ("month",)),
        ("YS", ("day_of_week", "month"), ()),
        ("W", ("hour_of_day", "day_of_week"), ("month",)),
        ("D", ("hour_of_day",), ("hour_of_week", "day_of_week", "month")),
        ("B", ("hour_of_day",), ("day_of_week",)),
        ("6h", (), ("hour_of_day", "hour_of_week", "day_of_week")),
    ],
)
def test_parts_that_never_change_are_refused(freq, never, changes):
    indexes = [pd.date_range("2024-01-01", periods=9, freq=freq)]
    if freq in ("W", "D"):
        indexes.append(indexes[0].to_period())
    for index in indexes:
        for part in never:
            with pytest.raises(ValueError, match=f"calendar must hold parts .*; got '{part}' at"):
                check_changes(index, ("fourier", part))
        check_changes(index, (*changes, pd.DatetimeIndex(["2024-12-25"])))


def test_indexes_without_dates():
    for part in ("month", "hour_of_week", pd.DatetimeIndex(["2024-12-25"])):
        with pytest.raises(ValueError, match="None, 'fourier' or 'profile' for a RangeIndex"):
            calendar_inputs(pd.RangeIndex(5), (part,), ())


@pytest.mark.parametrize(
    ("index", "period"),
    [
        (pd.date_range("2024-01-01 03:00", periods=40, freq="6h"), 4),
        (pd.date_range("2024-01-01 06:00", periods=40, freq="12h"), 2),
        (pd.RangeIndex(1, 81, 2), 4),
        (pd.period_range("2024-02", periods=40, freq="2M"), 6),
    ],
)
def test_times_off_the_grid_lose_no_input(index, period):
    X = calendar_inputs(index, ("fourier",), (period,))
    assert X.shape[1] == period - 1
    assert np.linalg.matrix_rank(np.column_stack([X, np.ones(len(X))])) == period


EMPTY = {
    "third Fridays": pd.date_range("2024-01-01", periods=0, freq="WOM-3FRI"),
    "months": pd.PeriodIndex([], freq="M"),
    "rows": pd.RangeIndex(0),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_series_is_called_empty_whatever_its_calendar(kind):
    days = pd.date_range("2024-01-01", periods=9)
    for part in ("fourier", "profile", "month", "hour_of_week", pd.DatetimeIndex([])):
        rows = calendar_inputs(EMPTY[kind], (part,), (12,))
        assert rows.shape == (0, calendar_inputs(days, (part,), (12,)).shape[1])
        y = pd.Series([], EMPTY[kind], dtype=float)
        model = Forecaster(lags=2, calendar=(part,))
        with pytest.raises(ValueError, match=r"y must have more than one value; got none"):
            model.fit(y)


@pytest.mark.parametrize("freq", [pd.DateOffset(months=3, days=2), pd.offsets.Easter()], ids=str)
def test_frequencies_without_a_name_suggest_no_season(freq):
    index = pd.date_range("2000-01-01", periods=12, freq=freq)
    assert seasonal_periods(index) == ()
    assert season_of(index) == 1
    ahead = Forecaster(lags=1).fit(pd.Series(np.arange(12.0) % 5, index)).forecast(2)
    assert list(ahead.index) == list(pd.date_range(index[-1] + freq, periods=2, freq=freq))


def test_seasons_within_a_profile_are_those_that_divide_it():
    index = pd.date_range("2024-01-01", periods=400, freq="h")
    hours = calendar_inputs(index, ("hour_of_day",), ())
    np.testing.assert_array_equal(seasons_within(index, (24, 168)), hours)
    for periods in ((24,), (7, 365), (5, 168), ()):
        assert seasons_within(index, periods).shape == (400, 0)
