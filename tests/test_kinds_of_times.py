"""Times and values as databases, sensors and spreadsheets give them: taken, or named."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, forecast_panel, load_model
from forecast_unc.errors import InvalidArgument
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.series.calendar import seasonal_periods
from forecast_unc.series.times import (
    AS_NUMBERS,
    DaysOfMonthsError,
    UnevenTimesError,
    epoch_unit,
    fiscal_months,
    foreign_months,
)
from forecast_unc.series.values import check_is_series
from tests.named_case import case

pa = pytest.importorskip("pyarrow")

N = 40
VALUES = np.sin(np.arange(float(N))).round(3)
DAYS = pd.date_range("2020-01-01", periods=N)
MODEL = Forecaster(LinearRegressor(), lags=2)


def refusal_of(call, *arguments, **named):
    with pytest.raises(InvalidArgument) as caught:
        call(*arguments, **named)
    return caught.value


SIZES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
STARTS = {"1970-01-01": [3600, 86400, 604800], "1975-06-01": [60, 3600, 86400, 604800],
          "2001-10-01": [5, 10, 60, 900, 3600, 86400, 604800], "2020-01-01": [30, 60, 86400],
          "2098-01-01": [60, 3600, 86400]}  # fmt: skip


def test_epochs_are_no_numbers_that_count():
    for unit, size in SIZES.items():
        for start, steps in STARTS.items():
            for step in steps:
                with case(unit, start, step):
                    first = int(pd.Timestamp(start).timestamp())
                    index = pd.Index((first + step * np.arange(N)) * size)
                    assert epoch_unit(index) == unit
                    error = refusal_of(MODEL.fit, pd.Series(VALUES, index))
                    assert (error.argument, error.code) == ("y", "epochs")
                    assert f'pd.to_datetime(y.index, unit="{unit}")' in error.remedy
                    date = pd.Timestamp(start)
                    assert str(date.date()) in error.got


def test_epochs_of_months_with_gaps_or_backwards_are_seen_too():
    months = pd.date_range("2019-01-01", periods=N, freq="MS").as_unit("s").asi8
    for index in (months, months[::-1], np.delete(months, 7)):
        assert epoch_unit(pd.Index(index)) == "s"
        assert refusal_of(MODEL.fit, pd.Series(VALUES[: len(index)], index)).code == "epochs"


@pytest.mark.parametrize(
    ("start", "step"),
    [(0, 1), (0, 60), (1949, 1), (20240101, 1), (5, 900), (-3600, 3600), (10**9, 1), (2**62, 60)],
)
def test_numbers_that_count_are_no_epochs(start, step):
    assert epoch_unit(pd.RangeIndex(start, start + step * 5, step)) == ""


def test_epochs_of_frames_are_named_in_terms_of_the_frame():
    frame = pd.DataFrame({"ds": DAYS.as_unit("s").asi8, "y": VALUES})
    error = refusal_of(MODEL.fit, frame)
    assert error.remedy == "Convert it, y['ds'] = pd.to_datetime(y['ds'], unit=\"s\")."
    error = refusal_of(forecast_panel, frame.assign(unique_id="a"), MODEL, 2)
    code = "frame['ds'] = pd.to_datetime(frame['ds'], unit=\"s\")"
    assert error.remedy == f"Convert them, {code}."
    exec(code, {"frame": frame, "pd": pd})
    assert MODEL.fit(frame).forecast(1).index[0] == DAYS[-1] + DAYS.freq


DECIMALS = [Decimal(str(value)) for value in VALUES]
ARROW = {
    "timestamp": pd.Series(VALUES, DAYS.astype("timestamp[ns][pyarrow]")),
    "seconds": pd.Series(VALUES, DAYS.astype("timestamp[s][pyarrow]")),
    "date32": pd.Series(VALUES, pd.Index(pd.array(DAYS.date, pd.ArrowDtype(pa.date32())))),
    "date64": pd.Series(VALUES, pd.Index(pd.array(DAYS.date, pd.ArrowDtype(pa.date64())))),
    "decimal": pd.Series(DECIMALS, DAYS),
    "decimal128": pd.Series(DECIMALS, DAYS, dtype=pd.ArrowDtype(pa.decimal128(9, 3))),
    "double": pd.Series(VALUES, DAYS, dtype="double[pyarrow]"),
    "frame": pd.DataFrame({"ds": DAYS.astype("timestamp[us][pyarrow]"), "y": DECIMALS}),
}


def test_types_of_arrow_and_decimals_are_taken():
    expected = MODEL.fit(pd.Series(VALUES, DAYS)).forecast(3)
    for name, y in ARROW.items():
        with case(name):
            before = y.copy(deep=True)
            ahead = MODEL.fit(y).forecast(3)
            assert ahead.index.tolist() == expected.index.tolist()
            np.testing.assert_array_equal(ahead.mean, expected.mean)
            assert y.equals(before)


def test_arrow_keeps_its_zone_and_what_is_missing():
    zoned = DAYS.tz_localize("Europe/Oslo")
    index = pd.Index(zoned.astype(pd.ArrowDtype(pa.timestamp("us", "Europe/Oslo"))))
    y = pd.Series([None, *DECIMALS[1:]], index, dtype=pd.ArrowDtype(pa.decimal128(9, 3)))
    series = check_is_series(y)
    assert series.index.tolist() == zoned.tolist()
    assert np.isnan(series.iloc[0])
    absent = pd.Series(VALUES, pd.array([*DAYS[:-1], None], "timestamp[ns][pyarrow]"))
    assert refusal_of(MODEL.fit, absent).got == "NaT"


def test_frames_of_arrow_are_regressors_and_panels():
    arrow = pd.DataFrame({"ds": DAYS.astype("timestamp[us][pyarrow]"), "y": DECIMALS})
    frame = pd.DataFrame({"ds": DAYS, "y": VALUES})
    left, right = (forecast_panel(f.assign(unique_id="a"), MODEL, 2) for f in (arrow, frame))
    pd.testing.assert_frame_equal(left[["ds", "forecast_unc"]], right[["ds", "forecast_unc"]])
    y = pd.Series(VALUES, DAYS)
    means = [
        MODEL.fit(y[:38], x[:38]).forecast(2, x[38:]).mean
        for x in (arrow.set_index("ds"), frame.set_index("ds"))
    ]
    pd.testing.assert_series_equal(*means)


def later(index, some, **by):
    """The times of an index, those that are chosen a while later."""
    return index + pd.to_timedelta(np.where(some, pd.Timedelta(**by), pd.Timedelta(0)))


EVERY = np.arange(N)
MONTHLY = pd.date_range("2020-01-01", periods=N, freq="MS")
FIFTEENTH = later(MONTHLY, EVERY >= 0, days=14)
UNEVEN = {
    "a day near the 15th": (later(FIFTEENTH, EVERY % 3 == 1, days=1), "M"),
    "the 30th": (later(later(MONTHLY, EVERY >= 0, days=27), MONTHLY.month != 2, days=2), "M"),
    "a trading day": (later(pd.date_range("2020-01-01", periods=N, freq="BMS"), EVERY == 4,
                            days=1), "M"),
    "a month missing": (FIFTEENTH.delete(9), "M"),
    "quarters": (pd.date_range("2010-01-01", periods=N, freq="QS") + pd.Timedelta(days=49), "Q"),
    "years": (pd.date_range("1980-01-01", periods=N, freq="YS") + pd.Timedelta(days=99), "Y"),
    "weeks": (later(pd.date_range("2020-01-01", periods=N, freq="W-WED"), EVERY % 9 == 2,
                    days=1), "W"),
    "days": (later(DAYS, EVERY % 5 == 1, minutes=3), "D"),
    "hours": (later(pd.date_range("2020-01-01", periods=N, freq="h"), EVERY % 5 == 1,
                    seconds=1), "h"),
    "minutes in a zone": (later(pd.date_range("2020-01-01", periods=N, freq="min",
                                              tz="Asia/Tokyo"), EVERY % 5 == 1, seconds=1), "min"),
}  # fmt: skip


def test_times_in_periods_of_their_own_name_to_period():
    for name, (index, freq) in UNEVEN.items():
        with case(name):
            y = pd.Series(VALUES[: len(index)], pd.DatetimeIndex(index, freq=None))
            error = refusal_of(MODEL.fit, y)
            assert isinstance(error, UnevenTimesError)
            assert error.freq == freq
            assert error.remedy.endswith(f'y.index.to_period("{freq}").')
            error = refusal_of(
                forecast_panel, y.rename("y").rename_axis("ds").reset_index().assign(unique_id=1),
                MODEL, 2,
            )  # fmt: skip
            assert f"frame['ds'].dt.to_period(\"{freq}\")" in error.remedy


@pytest.mark.parametrize(("months", "season"), [(1, (12,)), (3, (4,)), (12, ())])
def test_one_day_of_the_month_is_a_frequency(months, season, tmp_path):
    """As if dated by the first days of months."""
    first = pd.date_range("1990-01-01", periods=N, freq=f"{months}MS")
    later_days = pd.DatetimeIndex(later(first, EVERY >= 0, days=14), freq=None)
    wave = VALUES + 9 * np.sin(2 * np.pi * EVERY * months / 12)
    fitted = [Forecaster(LinearRegressor(), lags=2).fit(pd.Series(wave, index))
              for index in (first, later_days)]  # fmt: skip
    ahead, other = (model.forecast(3) for model in fitted)
    assert seasonal_periods(other.index) == season
    assert (other.index == ahead.index + pd.Timedelta(days=14)).all()
    assert np.array_equal(other.cov, ahead.cov)
    named = "month" if months == 1 else f"{months} months"
    assert fitted[1].history_.described().endswith(f"every {named}")
    fitted[1].save(tmp_path / "m")
    assert load_model(tmp_path / "m").forecast(3).index.equals(other.index)


def test_months_of_weeks_have_the_name_of_their_middle():
    """The calendar of the National Retail Federation: years end near the end of January."""
    year = pd.offsets.FY5253(startingMonth=1, weekday=5, variation="nearest")
    weeks = [48, 43, 39, 35, 30, 26, 22, 17, 13, 9, 4, 0]  # 4-5-4, and 53 weeks to 2018-02-03
    ends = pd.DatetimeIndex([end - pd.Timedelta(weeks=week)
                             for end in pd.date_range("2017-01-01", periods=4, freq=year)
                             for week in weeks])  # fmt: skip
    months = pd.period_range("2016-02", periods=48, freq="M")
    for days in (0, 2):  # the last days; first days of later months, Mondays
        index = ends + pd.Timedelta(days=days)
        error = refusal_of(MODEL.fit, pd.Series(np.arange(48.0), index))
        assert error.freq == "fiscal"
        named = eval(error.periods("index"))
        assert (named == months + days // 2).all()
        assert (fiscal_months(index) == named).all()
        frame = pd.DataFrame({"unique_id": 1, "ds": index, "y": np.arange(48.0)})
        code = refusal_of(forecast_panel, frame, MODEL, 2).remedy.split(" = ")[1]
        assert (eval(code.rstrip(".")) == named).all()


def test_times_at_random_have_no_periods(rng):
    index = DAYS[0] + pd.to_timedelta(np.sort(rng.integers(0, 10**6, N)), unit="min")
    assert refusal_of(MODEL.fit, pd.Series(VALUES, index)).code == "no frequency"


def test_newest_first_is_sorted_by_index_or_by_column():
    for index in (DAYS, pd.RangeIndex(N), DAYS.to_period()):
        error = refusal_of(MODEL.fit, pd.Series(VALUES, index)[::-1])
        assert error.remedy == "Sort it with y.sort_index()."
    for times in (DAYS[::-1], DAYS[::-1].astype(str)):
        error = refusal_of(MODEL.fit, pd.DataFrame({"date": times, "y": VALUES}))
        assert (error.code, error.remedy) == ("order", "Sort it with y.sort_values('date').")


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
NAMES = "January February March April May June July August September October November December"
TABLE = VALUES[:36].reshape(3, 12)


@pytest.mark.parametrize(
    "wide",
    [
        pd.DataFrame(TABLE, [2020, 2021, 2022], MONTHS),
        pd.DataFrame(TABLE, columns=MONTHS).assign(Year=[2020, 2021, 2022]),
        pd.DataFrame(TABLE, columns=NAMES.split()).assign(year=[2020, 2021, 2022]),
    ],
    ids=["index", "column", "names"],
)
def test_columns_of_months_have_a_line_of_pandas(wide):
    line = re.search(r": (values = .*)\.$", refusal_of(MODEL.fit, wide).remedy)[1]
    given = {"y": wide, "pd": pd}
    exec(line, given)
    expected = pd.Series(TABLE.ravel(), pd.date_range("2020-01-01", periods=36, freq="MS"))
    assert given["values"].index.equals(expected.index)
    np.testing.assert_array_equal(given["values"], expected)


def test_columns_of_dates_have_a_line_of_pandas():
    wide = pd.DataFrame([VALUES, VALUES], columns=DAYS.astype(str)).assign(region=["a", "b"])
    line = re.search(r": (long = .*); forecast_panel", refusal_of(MODEL.fit, wide).remedy)[1]
    given = {"y": wide, "pd": pd}
    exec(line, given)
    result = forecast_panel(given["long"], MODEL, 1, id_col="region")
    assert result["ds"].tolist() == [DAYS[-1] + DAYS.freq] * 2


@pytest.mark.parametrize(
    ("days", "end"),
    [((1, 11, 21), "36 steps."), ((1, 10, 20), "36 steps."), ((10, 20, 31), "36 steps."),
     ((1, 15), 'y.asfreq("SMS-15").'), ((15, 31), 'y.asfreq("SME-15").'),
     ((10, 20), "24 steps.")],
)  # fmt: skip
def test_days_of_each_month_are_numbered_or_have_a_frequency(days, end):
    ends = pd.date_range("2019-01-01", periods=10, freq="ME")
    times = pd.DatetimeIndex([t.replace(day=min(day, t.day)) for t in ends for day in days][1:])
    error = refusal_of(MODEL.fit, pd.Series(np.arange(len(times)) % 4.0, times))
    assert isinstance(error, DaysOfMonthsError)
    assert error.remedy.endswith(end)
    if "freq" in end:
        freq = pd.Series(1.0, times).asfreq(error.freq).index.freqstr
        assert (freq, len(pd.date_range(times[0], times[-1], freq=freq))) == (
            error.freq,
            len(times),
        )
    frame = pd.DataFrame({"unique_id": 1, "ds": times, "y": np.arange(len(times)) % 4.0})
    remedy = refusal_of(forecast_panel, frame, MODEL, 2).remedy
    assert ("cumcount()" in remedy) == ("steps" in end)


@pytest.mark.parametrize("first", ["janv. 2019", "Mär 2020", "ene-21", "1 de março de 2020"])
def test_months_in_other_languages_are_named(first):
    y = pd.Series([1.0, 2.0, 4.0], pd.Index([first, "Feb 2020", "2020"], name="ds"))
    for given in (y, y.rename("y").reset_index()):
        error = refusal_of(MODEL.fit, given)
        assert error.got.startswith(repr(first))
        assert error.remedy.startswith(AS_NUMBERS)


def test_months_in_english_are_no_others():
    names = pd.date_range("2020-01-01", periods=12, freq="MS")
    for form in ("%b %Y", "%B %Y", "%d-%b-%y", "%Y %B", "%Y-%m"):
        assert not foreign_months(names.strftime(form).to_series()).any()
