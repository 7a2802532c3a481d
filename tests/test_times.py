"""What a regular index is, at a cost that the number of times bounds; and the times that follow."""

import pickle
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from forecast_unc.series import times
from forecast_unc.series.times import (
    MissingTimesError,
    extended_index,
    future_index,
    on_grid,
    regular_index,
)

FEW = ["2024-01-01 00:00:00", "2024-01-01 00:00:03", "2024-01-01 00:00:06"]
UNEVEN = pd.DatetimeIndex([*FEW, "2024-01-03", "2026-07-01", "2031-01-01"])
MILLISECONDS = pd.DatetimeIndex(
    ["2024-01-01 00:00:00.000", "2024-01-01 00:00:00.001", "2024-01-01 00:00:00.002", *UNEVEN[3:]]
)


def test_a_saturday_night_of_opening_hours_has_as_many_steps_as_are_asked_for():
    nights = pd.offsets.CustomBusinessHour(start="22:00", end="06:00")
    all_hours = pd.date_range("2024-01-22", periods=80, freq=nights)
    for n in range(30, 45):  # the night of Friday, January 26, and after it
        index = pd.DatetimeIndex(all_hours[:n], freq=nights)
        assert future_index(index, 10).equals(all_hours[n : n + 10])
        assert extended_index(index, 10).equals(all_hours[: n + 10])


@pytest.fixture
def grids(monkeypatch):
    """Lengths of all grids of dates that were built."""
    lengths, build = [], pd.date_range

    def spy(*args, **kwargs):
        grid = build(*args, **kwargs)
        lengths.append(len(grid))
        return grid

    monkeypatch.setattr(pd, "date_range", spy)
    return lengths


def peak(index):
    """Most bytes held at once while an index is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="y must have a regular index"):
            regular_index(index, "y")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("index", [UNEVEN, MILLISECONDS], ids=["seconds", "milliseconds"])
def test_no_grid_is_built_for_a_frequency_that_almost_no_time_has(index, grids):
    with pytest.raises(ValueError, match=r"got 6 times without a frequency that pandas can infer"):
        regular_index(index, "y")
    assert sum(grids) <= 100 * len(index)


def test_a_gap_in_a_long_index_costs_one_grid_of_its_length(grids):
    n = 50_000
    index = pd.DatetimeIndex(
        pd.date_range("2018-01-01", periods=n, freq="h").delete(700), freq=None
    )
    grids.clear()
    with pytest.raises(ValueError, match=r"got 1 missing timestamp, first 2018-01-30 04:00:00\."):
        regular_index(index, "y")
    assert grids == [n]
    assert peak(index) < 100 * 8 * n  # bytes: a hundred arrays of its length would be too many


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_dates_have_no_frequency(n):
    index = pd.DatetimeIndex(pd.date_range("2024-01-01", periods=n), freq=None)
    remedy = (
        'Give one, for example y.asfreq("D") for days, "W-MON" for weeks; a fit takes two values'
    )
    with pytest.raises(
        ValueError,
        match=rf"got {n} times? without a frequency that pandas can infer. {re.escape(remedy)}",
    ):
        regular_index(index, "y")


@pytest.mark.parametrize(
    ("zone", "name", "freq"),
    [("Europe/Berlin", "UTC", "D"), ("Europe/Berlin", None, "D"), ("America/Lima", "UTC", "D"),
     ("America/New_York", "UTC", "W-MON"), ("Europe/London", "UTC", "D")],
)  # fmt: skip
def test_local_days_in_utc_have_their_zone_named(zone, name, freq):
    local = pd.date_range("2024-02-01", periods=200, freq=freq, tz=zone)
    index = pd.DatetimeIndex(local.tz_convert("UTC").tz_localize(None).tz_localize(name), freq=None)
    if zone == "America/Lima":  # where clocks do not change
        assert regular_index(index, "y").freqstr == "D"
        return
    code = 'y.tz_convert("Europe/Berlin")'
    code = code if name else code.replace("y", 'y.tz_localize("UTC")', 1)
    message = "Its times are days apart but for an hour, as local days are in UTC: name their zone"
    with pytest.raises(ValueError, match=re.escape(f"{message}, for example {code}.")):
        regular_index(index, "y")
    y = pd.Series(1.0, index)
    y = eval(code.replace("Europe/Berlin", zone), {"y": y})
    assert regular_index(y.index, "y").equals(local)


@pytest.mark.parametrize(
    "times",
    [
        ["2024-01-01 08:00", "2024-01-01 09:00", "2024-01-04 08:00", "2024-01-09 09:00"],
        ["1678-01-01", "2261-01-01 02:00", "2261-03-01"],  # more than an int64 of ns apart
    ],
)
def test_other_times_without_a_frequency_are_no_local_days(times):
    with pytest.raises(ValueError, match=r'infer\. Give one, for example y\.asfreq\("D"\)\.'):
        regular_index(pd.DatetimeIndex(times), "y")


@pytest.mark.parametrize("freq", ["h", "15min"])
def test_an_hour_of_the_night_that_is_there_twice_may_be_of_the_clocks(freq):
    zoned = pd.date_range("2023-10-01", "2024-11-05", freq=freq, tz="Europe/Berlin")  # two nights
    index = zoned.tz_localize(None)
    message = r"y must have unique times; got 2023-10-29 02:00:00 more than once\. "
    clocks = r"Aggregate .* for example y\.groupby\(level=0\)\.mean\(\)\. It may be the hour of"
    with pytest.raises(ValueError, match=message + clocks):
        regular_index(index, "y")
    days = pd.date_range("2024-01-01", periods=20)
    noon = days.union(pd.date_range("2024-01-01", periods=20, freq="h"))
    for other in (index.append(index), days.append(days[3:4]), noon.append(noon[12:13])):
        with pytest.raises(
            ValueError, match=r"more than once\. Aggregate the duplicates.*mean\(\)\.$"
        ):
            regular_index(other.sort_values(), "y")


def test_business_hours_are_not_built_for_an_index_with_nights(grids):
    rare = pd.DatetimeIndex(["2024-01-01 15:00", "2024-01-01 16:00", "2024-01-02 09:00"])
    assert pd.DatetimeIndex(rare, freq="infer").freqstr == "bh"
    hourly = pd.date_range("2024-01-03", periods=300, freq="h")
    grids.clear()
    with pytest.raises(ValueError, match=r'got 30 missing .*first 2024-01-01 17:00:00\..*\("h"\)'):
        regular_index(pd.DatetimeIndex([*rare, *hourly], freq=None), "y")
    assert grids == [333]  # hours


def test_few_stretches_of_a_long_index_are_looked_at(monkeypatch, rng):
    counted, infer = [], times._infer
    monkeypatch.setattr(times, "_infer", lambda part: counted.append(len(part)) or infer(part))
    steps = pd.to_timedelta(np.cumsum(rng.integers(1, 99, 20_000)), "min")
    index = pd.DatetimeIndex(pd.Timestamp("2024-01-01") + steps, freq=None)
    with pytest.raises(ValueError, match="without a frequency"):
        regular_index(index, "y")
    assert counted[0] == len(index)
    assert len(counted) < 200
    assert max(counted[1:]) <= 6


@pytest.mark.parametrize("freq", ["D", "MS", "ME", "B", "W-SUN", "QE-DEC", "h"])
def test_a_frequency_is_found_where_most_times_are_missing(freq, rng):
    full = pd.date_range("1970-01-01", periods=1100, freq=freq, tz="Europe/Berlin")
    kept = np.sort(rng.choice(np.arange(1, 1100), 330, replace=False))
    # a few in a row at the start say the frequency; the rest lie anywhere on it
    kept = np.union1d([0, 1, 2, 3, 4, 5], kept)
    index = pd.DatetimeIndex(full[kept], freq=None)
    missing = full[np.setdiff1d(np.arange(kept[-1]), kept)]
    message = rf'got {len(missing)} missing timestamps, first {missing[0]:%Y-%m-%d}.*"{freq}"'
    with pytest.raises(ValueError, match=message):
        regular_index(index, "y")


@pytest.mark.parametrize(
    ("numbers", "missing", "first"),
    [
        ([0, 1, 10**12], 10**12 - 2, 2),
        ([0, 2, 4, 10], 2, 6),
        ([0, 2, 5], 3, 1),
        ([-(2**63), -(2**63) + 1, 2**63 - 1], 2**64 - 3, -(2**63) + 2),
    ],
)
def test_missing_numbers_are_counted_without_a_grid(numbers, missing, first):
    index = pd.Index(np.array(numbers, dtype=np.int64))
    with pytest.raises(
        ValueError, match=rf"got {missing} missing timestamps, first {first}\. Numb"
    ):
        regular_index(index, "y")
    assert peak(index) < 100_000


def test_missing_periods_are_counted_without_a_grid():
    index = pd.PeriodIndex(["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2290-01-01"], freq="s")
    count = index[-1].ordinal - index[0].ordinal - 2
    with pytest.raises(
        ValueError, match=rf"got {count} missing timestamps, first 2024-01-01 00:00:02"
    ):
        regular_index(index, "y")
    assert peak(index) < 100_000


def test_the_remedy_for_periods_makes_them_regular():
    y = pd.Series([1.0, 2, 5], pd.PeriodIndex(["2024-01", "2024-02", "2024-05"], freq="M"))
    with pytest.raises(ValueError, match="got 2 missing timestamps, first 2024-03") as error:
        regular_index(y.index, "y")
    remedy = str(error.value).split("Reindex with ")[1].split(": missing")[0]
    mended = eval(remedy, {"y": y, "pd": pd})
    assert list(mended.isna()) == [False, False, True, True, False]
    pd.testing.assert_index_equal(regular_index(mended.index, "y"), mended.index)


@pytest.mark.parametrize("months", [["2024-01", "2024-02", "2024-03"], ["2024-01", "2024-04"]])
def test_periods_of_two_months_lie_two_months_apart(months):
    index = pd.PeriodIndex(months, freq="2M")
    with pytest.raises(
        ValueError,
        match=rf"y must have a regular index; got {months[1]} after 2024-01, not a whole "
        r"number of 2M later\. ",
    ):
        regular_index(index, "y")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64", "Int64", "UInt8"])
def test_numbers_that_end_at_the_maximum_of_their_type_go_on(dtype):
    top = min(np.iinfo(dtype.lower()).max, 2**63 - 10)
    index = regular_index(pd.Index([top - 4, top - 2, top], dtype=dtype, name="row"), "y")
    assert list(index) == [top - 4, top - 2, top]
    assert list(future_index(index, 2)) == [top + 2, top + 4]
    assert list(extended_index(index, 1)) == [top - 4, top - 2, top, top + 2]
    assert index.name == future_index(index, 2).name == "row"


def test_numbers_that_pandas_cannot_hold_are_refused():
    index = regular_index(pd.RangeIndex(2**63 - 9, 2**63 - 1, 2), "y")
    assert list(future_index(index, 1)) == [2**63 - 1]
    with pytest.raises(
        ValueError,
        match=rf"steps must keep the index below 2\*\*63; got 2 after {2**63 - 3}\. Take fewer",
    ):
        future_index(index, 2)
    with pytest.raises(
        ValueError, match=rf"y must have an index below 2\*\*63; got {2**64 - 1}\. Number the rows"
    ):
        regular_index(pd.Index(np.array([2**64 - 2, 2**64 - 1], dtype=np.uint64)), "y")


@pytest.mark.parametrize("freq", ["D", "h", "MS", "YE", "B", "W-SUN"])
def test_dates_that_pandas_cannot_hold_are_refused(freq):
    index = pd.date_range(end="2262-03-01", periods=5, freq=freq).as_unit("ns")
    message = (
        r"steps must stay within the dates that datetime64\[ns\] can hold; got 9999 after "
        rf"{index[-1]:%Y-%m-%d}.*\. Take fewer steps, or a coarser unit of time"
    )
    with pytest.raises(ValueError, match=message):
        future_index(index, 9999)
    with pytest.raises(ValueError, match=message):
        extended_index(index, 9999)
    steps = 900 if freq == "YE" else 9999  # pandas 2.2 has no year 12261
    assert future_index(index.as_unit("s"), steps)[-1] > pd.Timestamp.max


@pytest.mark.parametrize(
    "whole",
    [
        pd.date_range("2024-01-31", periods=30, freq="ME", name="month"),
        pd.date_range("2024-03-29", periods=30, freq="D", tz="Europe/Oslo"),
        pd.date_range("2024-01-01", periods=30, freq="B"),
        pd.period_range("2024Q1", periods=30, freq="Q"),
        pd.period_range("2024-01", periods=30, freq="2M"),
        pd.RangeIndex(5, 155, 5, name="row"),
    ],
    ids=lambda index: f"{type(index).__name__} {getattr(index, 'freqstr', '')}",
)
def test_the_frequency_that_the_error_names_puts_the_missing_times_back(whole):
    lacking = whole.delete([13, 17])
    with pytest.raises(MissingTimesError, match="got 2 missing timestamps") as caught:
        regular_index(lacking, "y")
    sent = pickle.loads(pickle.dumps(caught.value))  # to another process
    assert str(sent) == str(caught.value)
    pd.testing.assert_index_equal(on_grid(lacking, sent.freq, "y"), whole)
    pd.testing.assert_index_equal(on_grid(whole, sent.freq, "y"), whole)


@pytest.mark.parametrize(
    ("index", "freq", "message"),
    [
        (UNEVEN, "D", "y must have times of freq='D' alone; got 2024-01-01 00:00:03. Give another"),
        (
            pd.DatetimeIndex(["2023-01-02"]),
            "W-SUN",
            "got 2023-01-02. Its times are Mondays: W-MON f",
        ),
        (pd.date_range("2023", periods=9, freq="ME").delete(4), "MS", "-31. ME fits its times."),
        (pd.Index([1, 2, 5]), "2", "y must have times of freq='2' alone; got 2. 1 fits its times"),
        (pd.Index([1, 2, 5]), "D", "freq must be a frequency of pandas, .*; got 'D' for a Index. "),
        (pd.Index([1, 2, 5]), "0", "freq must be a frequency of pandas, .*; got '0' for a Index. "),
        (UNEVEN, "0", "freq must be a frequency of pandas, .*; got '0' for a DatetimeIndex. Leave"),
        (UNEVEN[::-1], "D", "y must be in ascending order of time"),
        (UNEVEN[:0], "D", "y must hold times; got none. Write one row for each time."),
    ],
)
def test_a_frequency_that_is_none_of_the_times_is_refused(index, freq, message):
    with pytest.raises(ValueError, match=message):
        on_grid(index, freq, "y")
