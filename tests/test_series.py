"""Every kind of index, and every bad input with its own message."""

import re

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, GPRegressor
from forecast_unc._checks import check_steps, check_whole
from forecast_unc.errors import InvalidArgument
from forecast_unc.forecasting.choose.arguments import as_lags
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import (
    ClosedDaysWarning,
    closed_days,
    extended_index,
    format_time,
    future_index,
    regular_index,
)
from forecast_unc.series.values import check_series, check_y_std

N, H = 40, 5
TOGETHER = {
    "daily": pd.date_range("2024-02-01", periods=N + H, freq="D", name="day"),
    "month start": pd.date_range("2019-11-01", periods=N + H, freq="MS"),
    "month end": pd.date_range("2019-11-30", periods=N + H, freq="ME"),
    "quarter": pd.date_range("2001-03-31", periods=N + H, freq="QE"),
    "year end": pd.date_range("1950-12-31", periods=N + H, freq="YE"),
    "weekly": pd.date_range("2024-01-07", periods=N + H, freq="W-SUN"),
    "business day": pd.bdate_range("2024-03-01", periods=N + H),
    "15 minutes": pd.date_range("2024-03-01", periods=N + H, freq="15min"),
    # 40 hours from here the clocks go forward, so that the forecast crosses it
    "hourly, clocks forward": pd.date_range(
        "2024-03-29 11:00", periods=N + H, freq="h", tz="Europe/Berlin", name="time"
    ),
    "hourly, clocks back": pd.date_range(
        "2024-10-25 12:00", periods=N + H, freq="h", tz="Europe/Berlin"
    ),
    "daily, clocks forward": pd.date_range(
        "2024-02-22", periods=N + H, freq="D", tz="America/New_York"
    ),
    "monthly period": pd.period_range("2019-11", periods=N + H, freq="M", name="month"),
    "hourly period": pd.period_range("2024-01-01", periods=N + H, freq="h"),
    "range": pd.RangeIndex(N + H, name="row"),
    "range from 7 in steps of 2": pd.RangeIndex(7, 7 + 2 * (N + H), 2),
    "years": pd.Index(range(1950, 1950 + N + H), name="year"),
    "every fourth year": pd.Index(range(1850, 1850 + 4 * (N + H), 4)),
}
MODEL = Forecaster(GPRegressor(lengthscales=3.0, noise_std=1.0), lags=2)


@pytest.fixture(params=TOGETHER, ids=str)
def together(request):
    return TOGETHER[request.param]


def series(index, seed=0):
    return pd.Series(np.random.default_rng(seed).normal(size=len(index)), index, name="load")


def without_frequency(index):
    return pd.DatetimeIndex(index, freq=None) if isinstance(index, pd.DatetimeIndex) else index


# Times


@pytest.fixture(scope="module")
def plain():
    return MODEL.fit(series(pd.RangeIndex(N))).forecast(H)


@pytest.mark.parametrize("prepare", [lambda index: index, without_frequency], ids=["", "inferred"])
def test_forecast_continues_the_index_and_depends_on_the_values_alone(together, prepare, plain):
    y = series(prepare(together[:N]))
    before = y.copy(deep=True)
    ahead = MODEL.fit(y).forecast(H)
    expected = together[N:]
    pd.testing.assert_index_equal(pd.Index(ahead.index), pd.Index(expected), exact="equiv")
    assert type(ahead.index) is type(expected) or isinstance(ahead.index, pd.RangeIndex)
    assert ahead.index.name == together.name
    assert getattr(ahead.index, "tz", None) == getattr(together, "tz", None)
    assert getattr(ahead.index, "freq", None) == getattr(together, "freq", None)
    assert ahead.mean.name == "load"
    np.testing.assert_array_equal(ahead.mean, plain.mean)
    np.testing.assert_array_equal(ahead.cov, plain.cov)
    pd.testing.assert_series_equal(y, before)


def test_extended_index_joins_index_and_future(together):
    index = regular_index(together[:N], "y")
    longer = extended_index(index, H)
    pd.testing.assert_index_equal(longer, pd.Index(together), exact="equiv")
    assert longer.name == together.name
    assert getattr(longer, "freq", None) == getattr(together, "freq", None)
    pd.testing.assert_index_equal(future_index(index, H), longer[N:])


def test_two_times_with_a_frequency_are_enough_for_the_future():
    index = pd.date_range("2024-01-31", periods=2, freq="ME")
    assert list(future_index(index, 2)) == [pd.Timestamp("2024-03-31"), pd.Timestamp("2024-04-30")]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "Int64", "Float64", "uint8"])
def test_numbers_of_every_kind_are_taken_and_copied(dtype):
    y = pd.Series(np.arange(5) ** 2, dtype=dtype)
    values, _ = check_series(y)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [0, 1, 4, 9, 16])
    values[:] = -1
    assert list(y) == [0, 1, 4, 9, 16]


def test_times_are_written_plainly():
    times = {
        "2024-03-01": pd.Timestamp("2024-03-01"),
        "2024-03-01 05:00:00": pd.Timestamp("2024-03-01 05:00"),
        "2024-03": pd.Period("2024-03", "M"),
        "7": 7,
    }
    assert {text: format_time(pd.Index([time]), 0) for text, time in times.items()} == {
        text: text for text in times
    }


# Bad values


def daily(values):
    return pd.Series(values, pd.date_range("2024-01-01", periods=len(values), freq="D"))


def normal(n=30):
    return daily(np.random.default_rng(0).normal(size=n))


def changed(position, value):
    y = normal()
    y.iloc[position] = value
    return y


BAD_SERIES = {
    "only NaN": (daily([np.nan] * 30), r"y must hold numbers; got only missing values\. Check"),
    "empty": (
        pd.Series([], dtype=float),
        r"y must have more than one value; got none\. Give more history",
    ),
    "infinite": (
        changed(5, -np.inf),
        r"y must be finite or missing; got 1 infinite value\(s\), first at 2024-01-06\. Replace or",
    ),
    "too short": (
        normal(4),
        r"y must have at least 5 values for lags up to 2; got 4\. Give more",
    ),
    "constant": (
        daily([4.0] * 30),
        r"y must vary; got the constant 4 throughout, to 12 digits. There is nothing to learn;",
    ),
}


@pytest.mark.parametrize("case", BAD_SERIES)
def test_bad_values_are_refused(case):
    y, message = BAD_SERIES[case]
    with pytest.raises(ValueError, match=message):
        MODEL.fit(y)


def test_too_short_for_its_differences_is_refused():
    with pytest.raises(
        ValueError,
        match=r"at least 18 values for lags up to 2 and differences \(1, 12\); got 17\.",
    ):
        Forecaster(lags=2, differences=(1, 12)).fit(normal(17))
    Forecaster(GPRegressor(lengthscales=1.0), lags=2, differences=(1, 12)).fit(normal(18))


@pytest.mark.parametrize(
    ("values", "differences"),
    [
        (np.arange(30.0), 1),
        (0.1 * np.arange(30), 1),  # constant but for roundoff
        (np.tile([1.0, 5.0, 2.0], 10), 3),
        (np.arange(30.0) ** 2, (1, 1)),
    ],
)
def test_constant_after_differencing_is_refused(values, differences):
    with pytest.raises(
        ValueError,
        match=r"differences must leave some variation; got a constant series after differencing "
        r"at lags \(.*\)\. Take fewer differences\.",
    ):
        Forecaster(lags=2, differences=differences).fit(daily(values))


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        (normal().astype(str), "str|object"),
        (normal() > 0, "bool"),
        (normal().astype(object), "object"),
        (normal().astype(complex), "complex128"),
        (pd.Series(pd.date_range("2024-01-01", periods=30)), "datetime64"),
        (pd.Series(list("abcde") * 6).astype("category"), "category"),
    ],
)
def test_other_than_numbers_is_refused(y, dtype):
    with pytest.raises(
        TypeError, match=rf"y must be numeric; got dtype ({dtype}).*Convert it with pd\.to_numeric"
    ):
        MODEL.fit(y)


def test_durations_are_refused_with_their_seconds():
    with pytest.raises(InvalidArgument) as caught:
        MODEL.fit(pd.Series(pd.to_timedelta(range(30), "min")))
    assert caught.value.remedy == "Convert it with y.dt.total_seconds()."


@pytest.mark.parametrize(
    ("y", "kind"), [(np.arange(30.0), "ndarray"), (list(range(30)), "list")], ids=["array", "list"]
)
def test_other_than_a_series_is_refused(y, kind):
    with pytest.raises(TypeError, match=rf"y must be a pandas Series; got {kind}\. Wrap it"):
        MODEL.fit(y)


def test_a_frame_of_one_column_is_a_series_of_its_name():
    y = normal(24)
    wanted = MODEL.fit(y[:20]).forecast(4)
    model = MODEL.fit(y[:20].to_frame("load"))
    ahead = model.forecast(4)
    assert ahead.name == "load"
    np.testing.assert_allclose(ahead.mean, wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(ahead.score(y[20:].to_frame()), ahead.score(y[20:]), rtol=1e-12)
    model.update(y[20:].to_frame())
    np.testing.assert_allclose(model.apply(y.to_frame()).forecast(1).mean, model.forecast(1).mean)


def test_of_a_frame_of_several_columns_one_is_asked_for():
    frame = normal().to_frame("load").assign(price=1.0)
    with pytest.raises(
        TypeError,
        match=r"y must be one series; got a frame of 2 columns of values\. Take one, for example "
        r"y\[\['load'\]\], or name time= and target= in fit; forecast_panel takes many series",
    ):
        MODEL.fit(frame)
    rows = frame.rename_axis("ds").reset_index()
    with pytest.raises(TypeError, match=r"for example y\.set_index\('ds'\)\[\['load'\]\], or name"):
        MODEL.fit(rows)
    assert MODEL.fit(rows.set_index("ds")[["load"]]).forecast(1).name == "load"
    for empty in (frame[[]], frame.astype(str)):
        with pytest.raises(TypeError, match=r"Pass one of numbers, for example pd\.Series\(values"):
            MODEL.fit(empty)


def test_a_series_with_a_time_zone_is_none_without():
    y = normal()
    model = MODEL.fit(y[:20])
    message = r"y must have the kind of index of the fit, .* without time zone; got .* with time z"
    for ask in (model.apply, model.score):
        with pytest.raises(ValueError, match=message):
            ask(y.tz_localize("UTC"))
    with pytest.raises(
        ValueError, match=r"follow .* time zone None; got 2 values from .*, time zone Asia/Tokyo\. "
    ):
        model.update(y[20:22].tz_localize("Asia/Tokyo"))


def test_regressors_of_another_kind_of_index_or_library_are_named():
    polars = pytest.importorskip("polars")
    y = normal()
    X = exogenous(y)
    model = MODEL.fit(y[:20], X[:20])
    with pytest.raises(ValueError, match=r"of another kind, text and not Dat.*to_datetime"):
        model.forecast(2, X[20:22].set_axis(X.index[20:22].astype(str)))
    with pytest.raises(
        TypeError, match=r"exog must be a pandas DataFrame; got polars\.DataFrame\. "
    ):
        model.forecast(2, polars.from_pandas(X[20:22]))


_DAYS = pd.date_range("2024-03-01", periods=3, freq="D")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (_DAYS, _DAYS.to_period()),
        (_DAYS, _DAYS.astype(str)),
        (_DAYS, _DAYS.tz_localize("Asia/Tokyo")),
        (_DAYS.tz_localize("Asia/Tokyo"), _DAYS),
        (_DAYS.tz_localize("Asia/Tokyo"), _DAYS.to_period()),
        (_DAYS.to_period(), _DAYS),
        (_DAYS.to_period(), _DAYS.astype(str)),
        (pd.RangeIndex(20, 23), _DAYS),
        (_DAYS, pd.RangeIndex(3)),
    ],
)
def test_the_remedy_for_another_kind_of_index_is_code_that_mends_it(ours, theirs):
    exog = pd.DataFrame({"day": _DAYS, "x": 1.0}).set_axis(theirs)
    with pytest.raises(ValueError, match="an index of another kind") as raised:
        check_aligned(exog, ours, "y")
    names = {"exog": exog, "pd": pd, "column": "day"}
    exec(str(raised.value).rpartition(": ")[2].rstrip("."), names)
    assert names["exog"].index.equals(ours)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "dates"])
def test_frames_of_other_libraries_bring_their_times(library):
    polars = pytest.importorskip("polars")
    y = normal()
    frame = polars.from_pandas(y.rename("load").rename_axis("ds").reset_index())
    if library == "dates":
        frame = frame.with_columns(polars.col("ds").cast(polars.Date))
    wanted = MODEL.fit(y).forecast(3)
    ahead = MODEL.fit(frame.to_arrow() if library == "pyarrow" else frame).forecast(3)
    assert ahead.name == "load"
    np.testing.assert_array_equal(ahead.index, wanted.index)
    np.testing.assert_allclose(ahead.mean, wanted.mean, rtol=1e-12)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_series_of_other_libraries_have_no_times(library):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"ds": ["2024-01-01"], "y": [1.0], "z": [2.0]})
    one = frame["y"] if library == "polars" else frame.to_arrow()["y"]
    with pytest.raises(
        TypeError,
        match=rf"y must be a pandas Series; got {library}\.\w+, which has no index of times\. Pass "
        r'the frame with its times instead, .* take df\["y"\] and make an index: pd\.Series\(df',
    ):
        MODEL.fit(one)
    with pytest.raises(
        TypeError,
        match=r"y must have one column of dates or times; got none in a polars\.DataFrame of "
        r"columns \['ds', 'y', 'z'\]\. Select it and the values, and convert text to dates",
    ):
        MODEL.fit(frame)
    with pytest.raises(TypeError, match=r"y must be one series; .* y\[\['ds', 'y'\]\]\."):
        MODEL.fit(frame.with_columns(polars.col("ds").str.to_date()))


def test_complex_stds_are_refused():
    y = normal()
    with pytest.raises(TypeError, match=r"y_std must be numeric; got dtype complex128\. Convert"):
        check_y_std(y.astype(complex), y.to_numpy(), y.index)


# Bad times


BAD_TIMES = {
    "duplicate": (
        [0, 1, 2, 2, 3, 4, 5, 6],
        r"y must have unique times; got 2024-01-03 more than once\. Aggregate the duplicates",
    ),
    "descending": (
        range(19, -1, -1),
        r"y must be in ascending order of time; got 2024-01-20 out of place\. Sort it with y\.sort",
    ),
    "one out of place": (
        [0, 1, 2, 4, 3, 5, 6, 7],
        r"y must be in ascending order of time; got 2024-01-05 out of place\.",
    ),
    "gap": (
        [0, 1, 2, 3, 6, 7, 8, 9, 10, 11],
        r"y must have a regular index; got 2 missing timestamps, first 2024-01-05\. Reindex with "
        r'y\.asfreq\("D"\): missing values are then uncertain, not filled',
    ),
}


@pytest.mark.parametrize("case", BAD_TIMES)
def test_bad_dates_are_refused(case):
    days, message = BAD_TIMES[case]
    index = pd.DatetimeIndex(pd.Timestamp("2024-01-01") + pd.to_timedelta(list(days), unit="D"))
    with pytest.raises(ValueError, match=message):
        MODEL.fit(series(index))


def test_days_that_are_closed_are_left_out_and_named():
    """A museum closed on Mondays, without the day of a storm."""
    days = pd.date_range("2024-01-02", periods=70, freq="D")
    y = pd.Series(9 * days.day_of_week + np.sin(np.arange(70)), days)[days.day_of_week > 0].drop(
        pd.Timestamp("2024-02-10")
    )
    wanted = (
        "got 10 missing timestamps, first 2024-01-08. None is on a Monday: leave closed days out "
        "by y.asfreq(pd.offsets.CustomBusinessDay(weekmask='Tue Wed Thu Fri Sat Sun'))."
    )
    with pytest.raises(ValueError, match=re.escape(wanted)):
        MODEL.fit(y)
    open_days = y.asfreq(pd.offsets.CustomBusinessDay(weekmask="Tue Wed Thu Fri Sat Sun"))
    model = Forecaster().fit(open_days)
    assert model.seasonal_period_ == (6,)
    assert model.notes_ == []
    assert 0 not in model.forecast(12).index.day_of_week
    with pytest.warns(
        ClosedDaysWarning, match="closed: no value on any Monday; leave these days out"
    ):
        every_day = Forecaster(lags=1).fit(y.asfreq("D"))
    assert every_day.notes_ == [
        "closed: no value on any Monday; leave these days out: "
        "y.dropna().asfreq(pd.offsets.CustomBusinessDay(weekmask='Tue Wed Thu Fri Sat Sun'))"
    ]
    with pytest.raises(ValueError, match="first 2024-01-08. Reindex"):  # of less than four weeks
        MODEL.fit(y[:20])


def test_days_that_are_seen_now_and_then_close_no_weekday(rng):
    """Of 20 among 200 one series in five has none on some weekday, by chance."""
    index = pd.date_range("2024-01-01", periods=200, freq="D")
    closed = 0
    for _ in range(40):
        seen = rng.choice(200, 20, replace=False)
        closed += bool(closed_days(index[seen], index.freq, 200)[0])
    assert closed == 0
    open_days = index[index.day_of_week < 5]
    assert closed_days(open_days[:20], index.freq, 28)[0] == ["Saturday", "Sunday"]


@pytest.mark.parametrize("case", BAD_TIMES)
def test_bad_numbers_are_refused(case):
    rows, message = BAD_TIMES[case]
    numbers = {"2024-01-03": "2", "2024-01-20": "19", "2024-01-05": "4"}
    for date, number in numbers.items():
        message = message.replace(date, number)
    message = message.split("Reindex")[0]
    with pytest.raises(ValueError, match=message):
        MODEL.fit(series(pd.Index(list(rows))))


def test_remedy_for_numbers_with_a_gap_is_to_renumber():
    with pytest.raises(ValueError, match=r"Number the rows without gaps.*reset_index\(drop=True"):
        MODEL.fit(series(pd.Index([0, 1, 2, 4, 5, 6, 7])))


@pytest.mark.parametrize("case", BAD_TIMES)
def test_bad_periods_are_refused(case):
    days, message = BAD_TIMES[case]
    index = pd.PeriodIndex([pd.Period("2024-01-01", "D") + day for day in days])
    message = message.split(r"y\.asfreq")[0]
    with pytest.raises(ValueError, match=message):
        MODEL.fit(series(index))


@pytest.mark.parametrize(
    ("freq", "drop", "first"),
    [
        ("MS", [4, 5], "2024-05-01"),
        ("ME", [9], "2024-10-31"),
        ("h", [3, 17], "2024-01-01 03:00:00"),
        ("B", [6], "2024-01-09"),
        ("W-SUN", [2], "2024-01-21"),
    ],
)
def test_gap_names_the_first_missing_time_at_every_frequency(freq, drop, first):
    index = pd.date_range("2024-01-01", periods=30, freq=freq).delete(drop)
    with pytest.raises(
        ValueError, match=rf'got {len(drop)} missing timestamps?, first {first}\..*"{freq}"'
    ):
        MODEL.fit(series(index))


def test_times_without_any_frequency_are_refused(rng):
    index = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(rng.integers(1, 99, 30)), "min")
    with pytest.raises(
        ValueError,
        match=r"y must have a regular index; got 30 times without a frequency that pandas can ",
    ):
        MODEL.fit(series(pd.DatetimeIndex(index)))


def test_missing_time_is_refused():
    index = pd.DatetimeIndex([*pd.date_range("2024-01-01", periods=9), pd.NaT])
    with pytest.raises(ValueError, match=r"y must have no missing times in its index; got NaT\."):
        MODEL.fit(series(index))


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([f"2024-01-{day:02}" for day in range(1, 31)]),
        pd.Index(np.arange(30) / 2),
        pd.MultiIndex.from_product([["a"], range(30)]),
        pd.to_timedelta(np.arange(30), unit="D"),
    ],
    ids=["text", "float", "multi", "timedelta"],
)
def test_other_kinds_of_index_are_refused(index):
    with pytest.raises(
        TypeError,
        match=r"y must have a DatetimeIndex, PeriodIndex or evenly spaced whole numbers as index; "
        r"got .*Convert times with pd\.to_datetime",
    ):
        MODEL.fit(series(index))


# Bad regressors


def exogenous(y):
    rng = np.random.default_rng(3)
    return pd.DataFrame(rng.normal(size=(len(y), 2)), y.index, columns=["sun", "wind"])


def replaced(frame, row, column, value):
    frame = frame.copy()
    frame.iloc[row, column] = value
    return frame


BAD_FRAMES = {
    "a series": (lambda f: f["sun"], TypeError, r"must be a pandas DataFrame; got Series\."),
    "an array": (lambda f: f.to_numpy(), TypeError, r"must be a pandas DataFrame; got ndarray\."),
    "shifted": (
        lambda f: f.shift(1, freq="D"),
        ValueError,
        r"exog must have exactly the times of .*2024-.*; got no row at 2024-.*Give a value",
    ),
    "shorter": (
        lambda f: f.iloc[:-1],
        ValueError,
        r"exog must have exactly the times of .*; got no row at 2024-",
    ),
    "longer": (
        lambda f: pd.concat([f, f.iloc[-1:].shift(1, freq="D")]),
        ValueError,
        r"exog must have exactly the times of .*; got \d+ rows\. Select the times with exog\.loc",
    ),
    "out of order": (lambda f: f[::-1], ValueError, r"exog must have exactly the times of "),
    "missing": (
        lambda f: replaced(f, 2, 1, np.nan),
        ValueError,
        r"exog must be finite; got nan at 2024-.* in column 'wind'\. Fill or drop it knowingly\.",
    ),
    "infinite": (
        lambda f: replaced(f, 1, 0, np.inf),
        ValueError,
        r"exog must be finite; got inf at 2024-.* in column 'sun'\.",
    ),
    "text": (
        lambda f: f.assign(wind="strong"),
        TypeError,
        r"exog must be numeric; got column 'wind' of dtype (object|str)\. Encode it as numbers\.",
    ),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_regressors_are_refused_at_the_fit(case):
    change, kind, message = BAD_FRAMES[case]
    y = normal()
    with pytest.raises(kind, match=message):
        MODEL.fit(y, change(exogenous(y)))


@pytest.fixture(scope="module")
def explained():
    """A model of 30 days with two regressors, and these of 36 days."""
    y = normal(36)
    exog = exogenous(y)
    return Forecaster(GPRegressor(lengthscales=3.0, noise_std=0.5), lags=2).fit(
        y[:30], exog[:30]
    ), exog


@pytest.mark.parametrize("case", ["an array", "shifted", "missing", "text"])
def test_bad_regressors_are_refused_at_the_forecast(case, explained):
    change, kind, message = BAD_FRAMES[case]
    model, exog = explained
    with pytest.raises(kind, match=message):
        model.forecast(6, change(exog[30:]))


@pytest.mark.parametrize("columns", [["sun"], ["sun", "rain"], ["sun", "wind", "rain"]], ids=str)
def test_other_columns_than_at_the_fit_are_refused(columns, explained):
    model, exog = explained
    with pytest.raises(
        ValueError, match=r"exog must have the columns of the fit, \['sun', 'wind'\]; got \["
    ):
        model.forecast(6, exog[30:].reindex(columns=columns, fill_value=0.0))


def test_regressors_and_what_is_not_known_of_them_are_aligned_by_name(rng, explained):
    model, exog = explained
    future, turned = exog[30:33], exog[30:33][["wind", "sun"]]
    stds = (0.0 * future).assign(sun=0.1, wind=0.7)
    root = rng.standard_normal((6, 6))
    cov, order = root @ root.T, [1, 0, 3, 2, 5, 4]
    for given, theirs in (
        ({}, {}),
        ({"exog_std": stds}, {"exog_std": stds}),
        ({"exog_cov": stds}, {"exog_std": stds[["wind", "sun"]].to_numpy()}),
        ({"exog_cov": cov}, {"exog_cov": cov[np.ix_(order, order)]}),
    ):
        ahead, again = model.forecast(3, future, **given), model.forecast(3, turned, **theirs)
        np.testing.assert_allclose(again.mean, ahead.mean, rtol=1e-10)
        np.testing.assert_allclose(again.cov, ahead.cov, rtol=1e-10)


def test_regressors_left_out_of_the_forecast_are_asked_for(explained):
    with pytest.raises(
        ValueError,
        match=r"exog must be given for the 3 steps after the origin; got None, but the model was "
        r"fitted with \['sun', 'wind'\]\.",
    ):
        explained[0].forecast(3)


def test_regressors_that_the_fit_did_not_have_are_refused():
    y = normal(36)
    with pytest.raises(
        ValueError, match="exog must be None for a model fitted without regressors; got a DataFrame"
    ):
        MODEL.fit(y[:30]).forecast(6, exogenous(y)[30:])


# Bad arguments


BAD_OF_FORECAST = {
    "steps": (
        (0, -1, 2.5, 3.0, "3", True, None, [3]),
        r"steps must be a whole number, at least 1; got .*1 is",
    ),
    "n_samples": (
        (0, 1, 10.0),
        r"n_samples must be a whole number, at least 2; got .*1000 is a good",
    ),
    "propagation": (
        ("Exact", "mc", "", None, 3),
        r"propagation must be one of 'auto', 'exact', .*mixture.*; got .*Use 'auto'",
    ),
}
BAD_OF_FORECASTER = {
    "lags": (
        (0, -2, (), (1, 1), (0, 1), (1, 2.0), 1.5, "12", True, None, (1, True), ["a"]),
        r"lags must be a positive whole number or distinct positive ones; got .*Lag 1 is the "
        "previous value",
    ),
    "differences": (
        (-1, 1.5, (0,), (1, -12), "1", True, None),
        r"differences must be lags, positive whole numbers; got .*Use 0 or \(\) for none\.",
    ),
    "max_train": (
        (0, 2, 10.5, "all", True),
        r"max_train must be a whole number, at least 3; got ",
    ),
}


@pytest.mark.parametrize("name", BAD_OF_FORECAST)
def test_bad_arguments_of_the_forecast_are_refused(name):
    values, message = BAD_OF_FORECAST[name]
    model = MODEL.fit(normal())
    for value in values:
        with pytest.raises(ValueError, match=message):
            model.forecast(**{"steps": 3, "propagation": "monte_carlo", name: value})


@pytest.mark.parametrize("name", BAD_OF_FORECASTER)
def test_bad_arguments_of_the_forecaster_are_refused(name):
    values, message = BAD_OF_FORECASTER[name]
    for value in values:
        with pytest.raises(ValueError, match=message):
            Forecaster(**{"lags": 2, name: value}).fit(normal())


def test_whole_steps_of_every_kind_are_taken():
    model = MODEL.fit(normal())
    assert [len(model.forecast(h).mean) for h in (3, np.int64(3), np.int32(3))] == [3, 3, 3]


@pytest.mark.parametrize("number", [2, np.array(2), np.int8(2)], ids=repr)
def test_a_number_in_an_array_is_that_number(number):
    assert as_lags("lags", number, upto=True) == range(1, 3)
    assert as_lags("differences", number, upto=False) == (2,)
    y = normal()
    plain, other = (Forecaster(MODEL.regressor, lags=lags).fit(y) for lags in (2, number))
    pd.testing.assert_series_equal(other.forecast(2).mean, plain.forecast(2).mean)
    with pytest.raises(ValueError, match=r"lags must be a positive whole number .*got .*2.5"):
        Forecaster(lags=np.array(2.5)).fit(y)


def test_more_steps_than_memory_holds_are_refused():
    check_steps(10_000)
    message = r"^steps must be at most 10,000; got 100,000, whose joint covariance .* 80 GB\. Forec"
    with pytest.raises(ValueError, match=message):
        check_steps(100_000)
    with pytest.raises(ValueError, match="steps must be at most"):
        Forecaster(lags=2).fit(normal()).forecast(100_000)


def test_check_whole_accepts_its_lowest():
    check_whole("steps", 1, 1, "Say more.")
    with pytest.raises(ValueError, match=r"^steps must be a whole number, at least 2; got 1\. Say"):
        check_whole("steps", 1, 2, "Say more.")


@pytest.mark.parametrize("lags", ["auto", 2])
def test_values_whose_squares_vanish_are_refused(lags):
    y = pd.Series(np.sin(np.arange(60.0)), pd.date_range("2024-01-01", periods=60, freq="D"))
    message = r"y must vary by at least 1e-150, .*; got a range of 1.9999e-300. Multiply the series"
    with pytest.raises(ValueError, match=message):
        Forecaster(lags=lags).fit(1e-300 * y)
    before = Forecaster(lags=lags).fit(y).forecast(3)
    small = Forecaster(lags=lags).fit(1e-149 * y).forecast(3)
    np.testing.assert_allclose(small.mean / 1e-149, before.mean, rtol=1e-4)


@pytest.mark.parametrize("transform", ["sqrt", "boxcox"])
def test_roots_of_values_that_lose_their_digits_are_refused(transform):
    """Box-Cox measures them from -1 / power."""
    y = pd.Series(1e-60 * (2 + np.sin(np.arange(60.0))))
    with pytest.raises(
        ValueError, match=f"y must be larger for a {transform} .* got 2.99991e-60 at mo"
    ):
        Forecaster(lags=2, transform=transform).fit(y)


@pytest.mark.parametrize("lags", ["auto", 2])
def test_values_whose_squares_overflow_are_refused(lags):
    y = pd.Series(np.sin(np.arange(60.0)), pd.date_range("2024-01-01", periods=60, freq="D"))
    message = r"y must lie within 1e\+150 of 0, .*; got .*e\+152 at 2024-01-0\d. Divide the series"
    with pytest.raises(ValueError, match=message):
        Forecaster(lags=lags).fit(1e153 * y)
    model = Forecaster(lags=lags).fit(y)
    before = model.forecast(3)
    with pytest.raises(
        ValueError, match=r"y_new must lie within 1e\+150 .*; got 1e\+308 at 2024-03-0"
    ):
        model.update(pd.Series([1e308], pd.date_range("2024-03-01", periods=1, freq="D")))
    pd.testing.assert_frame_equal(model.forecast(3).cov, before.cov)
    large = Forecaster(lags=lags).fit(1e140 * y).forecast(3)
    np.testing.assert_allclose(large.mean / 1e140, before.mean, rtol=1e-4)


def test_another_step_of_a_range_is_another_frequency():
    y = pd.Series(np.sin(np.arange(60.0)))
    model = Forecaster(lags=2).fit(y)
    with pytest.raises(ValueError, match="y must have the frequency of the fit, 1; got 2. Fit a"):
        model.apply(y.set_axis(pd.RangeIndex(0, 120, 2)))
