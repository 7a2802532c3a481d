"""The times of a series: what a regular index is, what follows it, its groups by a frequency."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from contextlib import suppress
from datetime import datetime
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.errors import OutOfBoundsDatetime, OutOfBoundsTimedelta
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import CustomBusinessDay, DateOffset, Day, Tick

from forecast_unc._checks import check_choice, first_true, frozen, is_whole, refusal
from forecast_unc._text import counted
from forecast_unc._typing import Array, Positions
from forecast_unc.errors import ArgumentError

# Stretches whose frequency is inferred, of each length and chosen each way, at .1 to .3 ms each.
_STRETCHES = 16
_HIGHEST = 2**63 - 1  # of a RangeIndex
_HOUR = 3600  # seconds, by which clocks change
_REINDEX = "Reindex with {}: missing values are then uncertain, not filled."
AT_CLOCK_CHANGE = "It may be the hour of which clocks went back."
_EPOCHS = (("ns", 10**9), ("us", 10**6), ("ms", 10**3), ("s", 1))  # units, and as many a second
_IN_1973, _IN_2001, _AT_2100 = 10**8, 10**9, 41 * 10**8  # seconds since the start of 1970
# Periods that may hold one time each, coarsest first.
_PERIODS = ("Y", "Q", "M", "W", "D", "h", "min")
# How months begin in French, German, Spanish, Italian, Portuguese, Dutch, Polish, Danish, Swedish,
# Norwegian and Russian, and not in English.
_MONTH = (
    "(?:janv|jän|ene|gen|styc|fév|fev|lut|mär|mrz|maart|mrt|mar[sz]|marc(?!h)|març|avr|abr|kwi|mai|"
    "mei|maj|mag|jui[nl]|jun[ih]|giu|cze|jul[ih]|lug|lip|aoû|aou|ago|sier|set|wrz|okt|ott|out|paź|"
    r"lis|déc|dez|des|dic|gru|янв|фев|мар|апр|ма[йя]|июн|июл|авг|сен|окт|ноя|дек)[^\W\d_]*"
)
_FOREIGN_MONTH = (
    rf"(?i)(?:\d{{1,2}}\W+(?:de )?)?{_MONTH}\W*(?:de )?\d{{2,4}}"
    rf"|\d{{4}}\W+{_MONTH}(?:\W+\d{{1,2}})?"
)
AS_NUMBERS = "Write months as numbers, such as 2019-01"
LOCAL_DAYS = "Its times are days apart but for an hour, as local days are in UTC: {}."

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEKDAYS = tuple(day[:3] for day in DAYS)


class ClosedDaysWarning(UserWarning):
    """A daily series has no value on some weekdays, which are forecast all the same."""


class InterpolatedWarning(UserWarning):
    """Missing values were interpolated for a baseline that has no other way."""


class UnevenTimesError(ArgumentError):
    """Times that each lie in a period of their own, of frequency `freq`, as the 30th of months.

    "fiscal" are months of four or five weeks, the middle of which is `shift` days later.
    """

    def __init__(self, argument: str, got: str, freq: str, shift: int = 0) -> None:
        self.freq, self.shift = freq, shift
        remedy = f"Take their periods, {argument}.index = {self.periods(f'{argument}.index')}."
        super().__init__(argument, "have a regular index", got, remedy, "uneven times")

    def periods(self, times: str, accessor: str = "") -> str:
        """Code that makes periods of times."""
        if not self.shift:
            return f'{times}{accessor}.to_period("{self.freq}")'
        moved = f"({times} {'+-'[self.shift < 0]} pd.Timedelta(days={abs(self.shift)}))"
        return f'{moved}{accessor}.to_period("M")'


class DaysOfMonthsError(ArgumentError):
    """Times on the same two or three days of each month, `steps` a year.

    Their frequency `freq` is one of pandas for two, such as "SMS-15", and "dekad" where each lies
    in a third of its own; or "".
    """

    def __init__(self, argument: str, got: str, steps: int, freq: str) -> None:
        remedy = f"They are {steps // 12} days of each month: number them, {argument} = "
        remedy += f"{argument}.reset_index(drop=True); a year is {steps} steps."
        if freq not in ("", "dekad"):
            remedy = f'Give their frequency, {argument}.asfreq("{freq}").'
        super().__init__(argument, "have a regular index", got, remedy, "days of months")
        self.freq, self.steps = freq, steps


class MissingTimesError(ArgumentError):
    """An index lacks some times of the grid of frequency `freq`, as `on_grid` takes it.

    `closed` are the weekdays on which it has none at all: `freq` leaves them out.
    """

    def __init__(
        self, argument: str, got: str, remedy: str, freq: str, closed: tuple[str, ...] = ()
    ) -> None:
        super().__init__(argument, "have a regular index", got, remedy, "missing times")
        self.freq = freq
        self.closed = closed


def regular_index(index: pd.Index, name: str) -> pd.Index:
    """The index with its frequency set, or an error that names the first offending time.

    A DatetimeIndex with ``freq``, a PeriodIndex, or a RangeIndex.
    """
    _check_times(index, name)
    if isinstance(index, pd.DatetimeIndex):
        return index if index.freq is not None else _with_frequency(index, name)
    if isinstance(index, pd.PeriodIndex):
        _check_periods(index, name)
        return index
    return _as_range(index, name)


def on_grid(index: pd.Index, freq: Any, name: str) -> pd.Index:
    """Every time of a frequency from the first of an index to its last, which may lack some.

    The frequency of whole numbers is their distance, of periods their own.
    """
    _check_times(index, name)
    if not len(index):
        raise refusal(name, "hold times", "none", "Write one row for each time.")
    try:
        if isinstance(index, pd.DatetimeIndex):
            grid: pd.Index = pd.date_range(
                index[0], index[-1], freq=as_frequency(freq), unit=index.unit
            )
        elif isinstance(index, pd.PeriodIndex):
            grid = pd.period_range(index[0], index[-1], freq=freq)
        else:
            grid = pd.RangeIndex(int(index[0]), int(index[-1]) + 1, int(freq))
    except ValueError as error:
        must = "be a frequency of pandas, such as D, MS or h, weekdays, such as 'Mon Tue Wed Thu "
        must += "Fri Sat', or the distance of whole numbers"
        got = f"{freq!r} for a {type(index).__name__}"
        raise refusal("freq", must, got, "Leave it out to have it found.") from error
    if (at := first_true(~index.isin(grid))) is not None:
        first = format_time(index, at)
        named = getattr(freq, "freqstr", freq)
        remedy = _fitting(index, str(named).startswith("W"))
        raise refusal(name, f"have times of freq={named!r} alone", first, remedy)
    return grid.rename(index.name)


def _fitting(index: pd.Index[Any], weekly: bool) -> str:
    """A frequency that fits times, as a sentence; if one of weeks was meant, of weeks."""
    days = set(index.day_of_week) if isinstance(index, pd.DatetimeIndex) else set()
    freq = f"W-{WEEKDAYS[min(days)].upper()}" if weekly and len(days) == 1 else ""
    try:
        found = regular_index(index, "y")
        freq = freq or str(getattr(found, "freqstr", spacing(found)))
    except MissingTimesError as error:
        freq = freq or error.freq
    except ValueError:
        pass
    if freq.startswith("W-"):
        return f"Its times are {DAYS[min(days)]}s: {freq} fits."
    return f"{freq} fits its times." if freq else "Give another frequency."


def _check_times(index: pd.Index, name: str) -> None:
    is_time = isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex))
    if not is_time and not pd.api.types.is_integer_dtype(index.dtype):
        must = "have a DatetimeIndex, PeriodIndex or evenly spaced whole numbers as index"
        got = f"{type(index).__name__} of {index.dtype}"
        remedy = "Convert times with pd.to_datetime"
        if _is_text(index) and (is_foreign := foreign_months(index.to_series())).any():
            got, remedy = f"{index[is_foreign][0]!r} in it", f"{AS_NUMBERS}, and convert them"
            remedy += f", {name}.index = pd.to_datetime({name}.index)"
        elif _offsets(index) > 1:
            got = "times of several offsets from UTC, as where clocks change"
            remedy += f", {name}.index = pd.to_datetime({name}.index, utc=True)"
            remedy += '.tz_convert("Europe/Berlin")'
        elif _is_text(index):
            remedy += (
                f", {name}.index = pd.to_datetime({name}.index), dayfirst=True if days are first"
            )
        elif pd.api.types.is_float_dtype(index.dtype):
            remedy += f', unit="s" of seconds, or number rows, {name}.reset_index(drop=True)'
        remedy += "."
        raise refusal(name, must, got, remedy, TypeError)
    if not is_time and (unit := epoch_unit(index)):
        date = format_time(pd.DatetimeIndex(index[:1].astype(f"datetime64[{unit}]")), 0)
        got = f"{index[0]}, as if of {date} in {unit} since 1970"
        remedy = f'Convert it, {name}.index = pd.to_datetime({name}.index, unit="{unit}"), or '
        remedy += f"number the rows with {name}.reset_index(drop=True)."
        must = "have an index of dates, or of whole numbers that count"
        raise refusal(name, must, got, remedy, code="epochs")
    if index.hasnans:
        raise refusal(name, "have no missing times in its index", "NaT", "Drop those rows.")
    if not index.is_unique:
        first = format_time(index, int(index.duplicated().argmax()))
        got = f"{first} more than once"
        remedy = f"Aggregate the duplicates, for example {name}.groupby(level=0).mean()."
        if _clocks_go_back(index):
            remedy += f" {AT_CLOCK_CHANGE} Then name its zone, {name}.index = "
            remedy += f'{name}.index.tz_localize("Europe/Berlin", ambiguous="infer").'
            raise refusal(name, "have unique times", got, remedy, code="clock change")
        raise refusal(name, "have unique times", got, remedy, code="repeated")
    if not index.is_monotonic_increasing:
        order = np.argsort(index)
        first = format_time(index, int((order != np.arange(len(index))).argmax()))
        remedy = f"Sort it with {name}.sort_index()."
        got = f"{first} out of place"
        raise refusal(name, "be in ascending order of time", got, remedy, code="order")


def _offsets(index: pd.Index[Any]) -> int:
    """How many offsets from UTC text or dates of an index have."""
    if _is_text(index):
        return int(index.str.extract(r":\d\d\S*?\s?([+-]\d\d:?\d\d)$")[0].nunique())
    return len({one.utcoffset() for one in index if isinstance(one, datetime)} - {None})


def foreign_months(text: pd.Series[str]) -> pd.Series[bool]:
    """Which texts are dates with the name of a month that is not English, as janv. 2019."""
    return text.str.fullmatch(_FOREIGN_MONTH).fillna(False).astype(bool)


def _is_text(index: pd.Index[Any]) -> bool:
    return index.inferred_type == "string"


def epoch_unit(index: pd.Index[Any]) -> str:
    """Unit of whole numbers that look like times since the start of 1970; "" for other numbers.

    Times are before 2100, and their steps are multiples of 5 seconds, of a minute if some are
    before 2001, of an hour if some are before 1973: numbers with other steps count something.
    """
    if len(index) < 2 or index.hasnans or int(index.max()) > _HIGHEST:
        return ""
    numbers = index.to_numpy(dtype=np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    step = int(np.gcd.reduce(np.diff(numbers)))
    if lowest < 0 or not step:
        return ""
    for unit, a_second in _EPOCHS:
        start = lowest // a_second
        least_step = 5 if start >= _IN_2001 else 60 if start >= _IN_1973 else _HOUR
        if highest // a_second < _AT_2100 and step % (least_step * a_second) == 0:
            return unit
    return ""


def native_times(index: pd.Index[Any]) -> pd.Index[Any]:
    """Dates and times of Arrow as those of pandas; any other index as it is."""
    if not isinstance(index.dtype, pd.ArrowDtype) or index.dtype.kind not in "MO":
        return index
    try:
        return pd.DatetimeIndex(index.array.to_numpy(), name=index.name)
    except (ValueError, TypeError):  # text
        return index


def _clocks_go_back(index: pd.Index[Any]) -> bool:
    """Whether hourly or finer times are repeated in one hour of some nights alone."""
    if not isinstance(index, pd.DatetimeIndex) or index.tz is not None:
        return False
    seconds = index.as_unit("s").asi8
    hours = np.unique(seconds[index.duplicated()] // _HOUR)
    one_a_night = len(np.unique(hours // 24)) == len(hours) and (hours % 24 < 4).all()
    return bool(one_a_night and np.median(np.diff(seconds)) <= _HOUR)


def _in_utc(index: pd.DatetimeIndex) -> bool:
    """Whether times look like local days in UTC: 23:00 in winter, 22:00 in summer."""
    seconds = index.as_unit("s").asi8
    clocks = np.unique(seconds % (24 * _HOUR))
    apart = len(clocks) == 2 and np.diff(seconds).min() >= 23 * _HOUR
    return bool(apart and clocks[1] - clocks[0] in (_HOUR, 23 * _HOUR))


def _with_frequency(index: pd.DatetimeIndex, name: str) -> pd.DatetimeIndex:
    for inferred in (_infer(index), _on_one_day(index)):
        if inferred.freq is not None:
            return inferred
    # the coarsest frequency whose grid holds all times is that with the fewest missing
    for freq in _candidates(index):
        grid = pd.date_range(index[0], index[-1], freq=freq)
        # 1 ms for 50,000 times in 500,000; `isin` takes 25
        at = np.minimum(grid.searchsorted(index), len(grid) - 1)
        if len(grid) > len(index) and (grid[at] == index).all():
            first = format_time(grid, int((grid[: len(index)] != index).argmax()))
            named = str(grid.freqstr)
            remedy = _REINDEX.format(f'{name}.asfreq("{named}")')
            closed, mask = closed_days(index, freq, len(grid))
            if closed:
                by = f"{name}.asfreq(pd.offsets.CustomBusinessDay(weekmask={mask!r}))"
                remedy = left_out(closed, by)
                named = mask
            raise _gap(name, len(grid) - len(index), first, remedy, named, closed)
    got = f"{counted(len(index), 'time')} without a frequency that pandas can infer"
    code, remedy = "no frequency", f'Give one, for example {name}.asfreq("D").'
    if len(index) < 3:
        code = "too few times"
        remedy = f'Give one, for example {name}.asfreq("D") for days, "W-MON" for weeks; a fit '
        remedy += "takes two values at least."
    elif _in_utc(index):
        zone = "" if index.tz is not None else '.tz_localize("UTC")'
        named = f'{name}{zone}.tz_convert("Europe/Berlin")'
        code, remedy = "local days", LOCAL_DAYS.format(f"name their zone, for example {named}")
    elif n := _times_a_month(index):
        raise DaysOfMonthsError(name, got, 12 * n, _freq_of_months(index, n))
    elif _of_weeks(index):
        raise UnevenTimesError(name, got, "fiscal", _to_middle(index))
    elif freq := _period(index):
        raise UnevenTimesError(name, got, freq)
    raise refusal(name, "have a regular index", got, remedy, code=code)


def _period(index: pd.DatetimeIndex) -> str:
    """The coarsest periods of which each holds one time at most and two thirds hold one, or ""."""
    for freq in _PERIODS:
        periods = index.tz_localize(None).to_period(freq)
        if periods.is_unique and 2 * (periods.asi8[-1] - periods.asi8[0] + 1) <= 3 * len(index):
            return freq
    return ""


def _on_one_day(index: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """The index with its frequency if it is one day of months equally far apart, as the 15th."""
    months = np.diff(index.year * 12 + index.month)
    # the 29th and later are another day of some months
    if len(index) < 3 or index.day.max() > 28 or np.ptp(index.day) or np.ptp(months):
        return index
    freq: Any = DateOffset(months=int(months[0]))
    grid = pd.date_range(index[0], periods=len(index), freq=freq, unit=index.unit)
    return pd.DatetimeIndex(index, freq=freq) if grid.equals(index) else index


def months_of(freq: Any) -> int:
    """Months between times on one day of the month, as the 15th; 0 for other frequencies."""
    is_plain = type(freq) is DateOffset and set(freq.kwds) == {"months"}
    return freq.n * freq.kwds["months"] if is_plain else 0


def _of_weeks(index: pd.DatetimeIndex) -> bool:
    """Whether times are of all fiscal months of some years, as in a 4-4-5 calendar."""
    days = np.diff(index.tz_localize(None)) / np.timedelta64(1, "D")
    of_weeks = {28.0, 35.0} <= {*days} <= {28.0, 35.0, 42.0}  # 42 in a year of 53 weeks
    return of_weeks and bool((np.diff(fiscal_months(index).asi8) == 1).all())


def _to_middle(times: pd.DatetimeIndex) -> int:
    """Days from the last day of fiscal months to their middle; from the first, if on a Monday."""
    return -14 if len(times) and times[0].day_of_week else 14


def fiscal_months(times: pd.DatetimeIndex) -> pd.PeriodIndex:
    """Fiscal months of four or five weeks, each with the name of the month of its middle."""
    middle = times.tz_localize(None) + pd.Timedelta(days=_to_middle(times))
    return middle.to_period("M")


def _times_a_month(index: pd.DatetimeIndex) -> int:
    """How many days of each month the times are, as of dekads, if they are the same; or 0."""
    n, months = len(_days_of_month(index)), index.year * 12 + index.month
    whole = np.bincount(months - months[0])[1:-1]  # the first and last month may be cut off
    return n if n in (2, 3) and whole.size and (whole == n).all() else 0


def _days_of_month(index: pd.DatetimeIndex) -> list[int]:
    """The days of months of times; 31 is the last one, if all that are the last are counted so."""
    days, ends = set(index.day), set(np.where(index.is_month_end, 31, index.day))
    return sorted(ends if len(ends) < len(days) else days)


def _freq_of_months(index: pd.DatetimeIndex, n: int) -> str:
    """The frequency of times on two days of each month, one the first or last; "dekad"; or ""."""
    first, *_, last = _days_of_month(index)
    if n == 2 and first == 1:
        return f"SMS-{last}" if last < 28 else ""
    if n == 2 and last == 31:
        return f"SME-{first}"
    return "dekad" if dekads(index, dekads_end(index)).is_unique else ""


def dekads(times: pd.DatetimeIndex, ends: bool) -> pd.Index[int]:
    """Thirds of months as whole numbers, 36 a year; a 10th and a 20th end theirs, or begin them."""
    thirds = np.minimum((times.day - ends) // 10, 2)
    return pd.Index(36 * times.year + 3 * (times.month - 1) + thirds, name=times.name)


def dekads_end(times: pd.DatetimeIndex) -> bool:
    """Whether a 10th and a 20th end a third of a month; beside a 1st alone they begin one."""
    return not times.day.isin([1, 10, 20]).all()


def left_out(closed: Sequence[str], by: str) -> str:
    """Advice on how to leave out weekdays on which there is no time, a sentence."""
    return f"None is on a {' or '.join(closed)}: leave closed days out by {by}."


def closed_days(times: Any, freq: Any, n: int) -> tuple[list[str], str]:
    """Weekdays without any of the times, and the others as the mask of business days.

    None is closed in less than four weeks of n days, at another frequency, or if of days that are
    observed at random some weekday would have none in more than 1 % of such series.
    """
    if freq != Day() or n < 28:
        return [], ""
    there = {WEEKDAYS[day] for day in times.day_of_week}
    observed = min(len(times) / (n * len(there) / 7), 1.0) if there else 0.0
    if 7 * (1.0 - observed) ** (n / 7) > 0.01:
        return [], ""
    mask = " ".join(day for day in WEEKDAYS if day in there)
    return [day for day in DAYS if day[:3] not in there], mask


def as_frequency(freq: Any) -> Any:
    """A frequency of pandas, also the weekdays of open days such as "Mon Tue Wed Thu Fri Sat"."""
    if isinstance(freq, str) and freq.split() and set(freq.split()) <= {*WEEKDAYS}:
        return CustomBusinessDay(weekmask=freq)
    return freq


def _infer(index: pd.DatetimeIndex) -> pd.DatetimeIndex:
    # freq="infer" and not pd.infer_freq, whose result changes its type in pandas 4
    return pd.DatetimeIndex(index, freq="infer") if len(index) > 2 else index


def _candidates(index: pd.DatetimeIndex) -> list[Any]:
    """Plausible frequencies of some stretches of an index, coarsest first.

    Of the stretches of three and of six times, the shortest and some evenly spread ones.
    """
    if len(index) < 3:
        return []
    times = index.asi8.view(np.uint64)  # modulo 2**64: differences may exceed the highest int64
    # Where fewer than one time in ten is there is no plausible one: no grid is built for it, and a
    # remedy that makes the series ten times as long would help nobody.
    finest = float((times[-1:] - times[:1])[0]) / (10 * len(times))
    # without them the grid of business hours, 14 microseconds a time, is built for nothing
    some = index[np.linspace(0, len(index) - 1, _STRETCHES).astype(int)]
    found: dict[Any, float] = {}
    for length in (3, 6):
        if length > len(times):
            break
        spans = times[length - 1 :] - times[: len(times) - length + 1]
        shortest = np.flatnonzero(spans == spans.min())[:_STRETCHES]
        spread = np.linspace(0, len(spans) - 1, _STRETCHES).astype(int)
        for start in np.union1d(shortest, spread):
            freq = _infer(index[start : start + length]).freq
            step = float(spans[start]) / (length - 1)
            if freq is not None and step >= finest and all(map(freq.is_on_offset, some)):
                found[freq] = step
    return sorted(found, key=lambda freq: found[freq], reverse=True)


def _check_periods(index: pd.PeriodIndex, name: str) -> None:
    freq: Any = index.freq
    step, steps = int(freq.n), np.diff(index.asi8)
    if (at := first_true(steps % step != 0)) is not None:
        got = f"{index[at + 1]} after {index[at]}, not a whole number of {index.freqstr} later"
        raise refusal(name, "have a regular index", got, "Give the periods another frequency.")
    if (at := first_true(steps != step)) is not None:
        missing = int(index.asi8[-1] - index.asi8[0]) // step + 1 - len(index)
        first = str(index[at] + 1)
        grid = f"{name}.reindex(pd.period_range({name}.index[0], {name}.index[-1]))"
        raise _gap(name, missing, first, _REINDEX.format(grid), str(index.freqstr))


def _as_range(index: pd.Index, name: str) -> pd.RangeIndex:
    if not len(index):
        return pd.RangeIndex(0, name=index.name)
    first, last = int(index[0]), int(index[-1])  # Python's, which do not overflow
    if last > _HIGHEST:
        remedy = f"Number the rows with {name}.reset_index(drop=True)."
        raise refusal(name, "have an index below 2**63", f"{last}", remedy)
    # modulo 2**64, so that the differences of int64 are right beyond its maximum
    steps = np.diff(index.to_numpy(dtype=np.int64).view(np.uint64))
    step = int(np.gcd.reduce(steps)) if len(steps) else 1
    missing = (last - first) // step + 1 - len(index)
    if missing:
        missed = int(index[int((steps != step).argmax())]) + step
        remedy = f"Number the rows without gaps, for example {name}.reset_index(drop=True)."
        raise _gap(name, missing, str(missed), remedy, str(step))
    return pd.RangeIndex(first, last + 1, step, name=index.name)


def _gap(
    name: str, missing: int, first: str, remedy: str, freq: str, closed: Sequence[str] = ()
) -> MissingTimesError:
    got = f"{counted(missing, 'missing timestamp')}, first {first}"
    return MissingTimesError(name, got, remedy, freq, tuple(closed))


def future_index(index: pd.Index, steps: int) -> pd.Index:
    """Times of the next `steps` values after a regular index, of its kind and time zone."""
    if isinstance(index, pd.DatetimeIndex):
        return _dates(index, -1, steps + 1)[1:]
    if isinstance(index, pd.PeriodIndex):
        return pd.period_range(index[-1] + 1, periods=steps, freq=index.freq, name=index.name)
    assert isinstance(index, pd.RangeIndex)
    start = index.start + index.step * len(index)
    stop = start + index.step * steps
    if stop - index.step > _HIGHEST:
        got = f"{steps} after {start - index.step}"
        remedy = "Take fewer steps, or number the rows anew with reset_index(drop=True)."
        raise refusal("steps", "keep the index below 2**63", got, remedy)
    return pd.RangeIndex(start, stop, index.step, name=index.name)


def extended_index(index: pd.Index, steps: int) -> pd.Index:
    """A regular index with the times of `steps` more values, its frequency kept."""
    if isinstance(index, pd.DatetimeIndex):
        return _dates(index, 0, len(index) + steps)
    return index.append(future_index(index, steps))


def _dates(index: pd.DatetimeIndex, start: int, periods: int) -> pd.DatetimeIndex:
    """Dates at the frequency of an index from its time at `start`."""
    try:
        times = pd.date_range(
            index[start], periods=periods, freq=index.freq, name=index.name, unit=index.unit
        )
        return times[:periods]  # from a Saturday night's opening hours pandas makes more
    except (OutOfBoundsDatetime, OutOfBoundsTimedelta, OverflowError) as error:
        steps = periods - len(range(len(index))[start:])
        must = f"stay within the dates that datetime64[{index.unit}] can hold"
        got = f"{steps} after {format_time(index, -1)}"
        remedy = 'Take fewer steps, or a coarser unit of time, as index.as_unit("s") gives.'
        raise refusal("steps", must, got, remedy) from error


def spacing(index: pd.Index[Any]) -> Any:
    """Frequency of a regular index, or the step of one of whole numbers."""
    return index.step if isinstance(index, pd.RangeIndex) else getattr(index, "freq", None)


def index_kind(index: pd.Index) -> str:
    """Kind of an index, as text; times of two kinds cannot be compared."""
    if isinstance(index, pd.DatetimeIndex):
        return f"DatetimeIndex {'without' if index.tz is None else 'with'} time zone"
    if isinstance(index, pd.PeriodIndex):
        return "PeriodIndex"
    if _is_text(index):
        return "text"
    return "numbers" if pd.api.types.is_numeric_dtype(index.dtype) else str(index.dtype)


def conversion(
    index: pd.Index[Any], wanted: pd.Index[Any], name: str, column: Hashable = None
) -> str:
    """Code that makes times of a frame, its index or a column, of the kind that is wanted."""
    place = f"{name}.index" if column is None else f"{name}[{column!r}]"
    at, zone = place if column is None else f"pd.Index({place})", getattr(wanted, "tz", None)
    localized = "" if zone is None else f'.tz_localize("{zone}")'
    if index_kind(wanted) == "numbers":
        return f"Number its rows: {at} = pd.RangeIndex({wanted[0]}, {wanted[-1] + 1})."
    if index_kind(index) == "numbers":
        return f"Take the times from a column: {name} = {name}.set_index(column)."
    if isinstance(wanted, pd.PeriodIndex):
        code = f'pd.PeriodIndex({at}, freq="{wanted.freqstr}")'
    elif isinstance(index, pd.DatetimeIndex):
        code = f"{at}{localized or '.tz_localize(None)'}"
    elif isinstance(index, pd.PeriodIndex):
        code = f"{at}.to_timestamp(){localized}"
    else:
        code = f"pd.to_datetime({at}){localized}"
    return f"Convert it: {place} = {code}."


def format_time(index: pd.Index, position: int) -> str:
    """A time of an index as text, a date without its midnight."""
    time = index[position]
    if isinstance(time, pd.Timestamp) and time == time.normalize():
        return str(time.date())
    return str(time)


class PartialPeriodWarning(UserWarning):
    """A group of steps is only a part of its period, such as three months of a year."""


def group_weights(
    index: pd.Index[Any], how: str | ArrayLike, freq: str | None, partial: str = "keep"
) -> tuple[pd.Index[Any], Array]:
    """Labels of the groups (g,) and the weights of the steps in each, (g, h).

    `partial`: "drop" what is a part of its period, "keep" it, or "warn" of it.
    """
    h = len(index)
    check_choice("partial", partial, ("warn", "keep", "drop"))
    labels, group = (index[-1:], np.zeros(h)) if freq is None else _groups(index, freq)
    if freq is not None and partial != "keep" and (parts := partial_periods(index, freq)):
        if partial == "drop":
            kept = [i for i, label in enumerate(labels.astype(str)) if label not in parts]
            if not kept:
                must, got = "leave a whole period", f"only parts: {', '.join(parts.values())}"
                raise refusal("partial", must, got, 'Pass partial="keep", or forecast further.')
            group = np.where(np.isin(group, kept), np.searchsorted(kept, group), -1)
            labels = labels[kept]
        else:
            text = f"freq={freq!r} makes groups of parts of periods: {', '.join(parts.values())}. "
            text += 'Pass partial="drop" to leave them out, or "keep" to have them.'
            warnings.warn(text, PartialPeriodWarning, stacklevel=3)
    member = (group == np.arange(len(labels))[:, None]).astype(np.float64)  # (groups, h)
    if isinstance(how, str):
        if how not in ("sum", "mean"):
            remedy = "Pass the weight of each step for any other linear combination."
            must = f'be "sum", "mean", "max", "min" or {h} weights'
            raise refusal("how", must, repr(how), remedy)
        matrix = member / member.sum(axis=1, keepdims=True) if how == "mean" else member
    else:
        matrix = member * frozen("how", how, (h,))
    empty = ~matrix.any(axis=1)
    if empty.any():
        must, got = "have a weight other than 0 in each group", f"only zeros for {labels[empty][0]}"
        raise refusal("how", must, got, "A sum of nothing has no forecast.")
    return labels, matrix


def positions(index: pd.Index[Any], key: Any) -> slice | Positions:
    """Positions of the steps that a key of :meth:`Forecast.__getitem__` names, from 0."""
    if isinstance(key, Real) or np.ndim(key) > 0:
        if isinstance(key, pd.Series) and pd.api.types.is_bool_dtype(key.dtype):
            if not key.index.is_unique or not index.isin(key.index).all():
                got, remedy = "another index", "Pass its to_numpy() for a mask by position."
                raise refusal("a mask", "have the times of the forecast", got, remedy, TypeError)
            key = key[index]  # by its times, as pandas aligns it
        mask = np.asarray(key)
        if mask.dtype == np.bool_ and mask.shape == index.shape and mask.any():
            return np.flatnonzero(mask)
        if mask.dtype == np.bool_ and mask.ndim:
            must = f"hold a value for each of {len(index)} steps, and one True or more"
            got = "only False" if mask.shape == index.shape else f"shape {mask.shape}"
            remedy = "Make it from the forecast, such as f.mean > 0."
            raise refusal("a mask", must, got, remedy, TypeError)
        must = "be a slice, a time or a mask of the steps"
        remedy = "A number could be a position or a time: for the first step pass [:1]."
        raise refusal("a key", must, repr(key), remedy, TypeError)
    where: Any = key
    try:
        if not isinstance(key, slice):
            where = index.get_loc(key)  # of unique, increasing times a slice or a position
        elif any(isinstance(end, np.timedelta64) for end in (key.start, key.stop)):
            where = slice(0)  # a duration, which is an integer to numpy
        elif not all(end is None or is_whole(end) for end in (key.start, key.stop)):
            where = index.slice_indexer(key.start, key.stop, key.step)
        if isinstance(where, slice):
            where.indices(len(index))
    except (KeyError, TypeError, ValueError, pd.errors.InvalidIndexError):
        where = slice(0)
    where = where if isinstance(where, slice) else slice(where, where + 1)
    part = slice(0, 0, 1) if where.step == 0 else slice(*where.indices(len(index)))
    if part.step < 0 or part.start >= part.stop:
        first, last = index[[0, -1]].astype(str)
        empty = ", an empty slice" if isinstance(key, slice) and part.step > 0 else ""
        places = f"; positions count from 0 to {len(index) - 1}" if where is key else ""
        raise KeyError(
            f"a key must pick steps of the forecast, in their order; got {key!r}{empty}. They are "
            f"those from {first} to {last}{places}."
        )
    return part


def partial_periods(index: pd.Index[Any], freq: str) -> dict[str, str]:
    """Groups at the ends that have fewer steps than their period, in words by label."""
    if getattr(index, "freq", None) is None:  # steps that were picked
        return {}
    labels, group = _groups(index, freq)
    own, more, wide = np.bincount(group), len(index), labels
    until = pd.period_range if isinstance(index, pd.PeriodIndex) else pd.date_range
    with suppress(ValueError):  # dates that no index can hold
        while not (wide[0] < labels[0] and wide[-1] > labels[-1]):
            before = until(end=index[0], periods=more + 1, freq=index.freq)  # type: ignore[attr-defined]
            wider, more = extended_index(before, len(index) - 1 + more), 2 * more
            wide, group = _groups(_begun_with(labels[0], wider, freq), freq, index[0])
    if len(wide) == len(labels):
        return {}
    at = wide.get_indexer(labels)
    # pandas counts two days of a time zone from the first time: what is whole is not known there
    whole = np.where(at < 0, own, np.bincount(group)[at])
    both = zip(labels.astype(str), own, whole, strict=True)
    return {label: f"{label} ({k} of {n} steps)" for label, k, n in both if k < n}


def _begun_with(label: Any, wider: pd.Index[Any], freq: str) -> pd.Index[Any]:
    """The times from which groups of two months, two weeks, ... have this label among theirs.

    Those of pandas begin with the first time.
    """
    if isinstance(wider, pd.PeriodIndex):  # groups of several are refused
        return wider
    offset = to_offset(freq)
    if offset.n == 1 or isinstance(offset, Tick | Day):
        return wider
    labels, group = _groups(wider, offset.base.freqstr)
    from_there: pd.Index[Any] = wider[labels[group] >= label - offset]
    return from_there


def _groups(
    index: pd.Index[Any], freq: str, first: Any = None
) -> tuple[pd.Index[Any], NDArray[Any]]:
    """Labels and the group of each time; hours or days are counted from the day of the first."""
    if not isinstance(freq, str | pd.DateOffset):
        must, remedy = "be a frequency of pandas, a str", 'Pass one such as "YE".'
        raise refusal("freq", must, repr(freq), remedy, TypeError)
    if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        remedy = "Give the series a DatetimeIndex or a PeriodIndex, or pass weights."
        raise refusal("freq", f"be None for a {type(index).__name__}", repr(freq), remedy)
    whole = True
    try:
        if isinstance(index, pd.PeriodIndex):
            labels = index.asfreq(freq)
            plain = labels[0].freq.n == 1  # "2M" would overlap
            whole = plain and bool((labels == index.asfreq(freq, how="START")).all())
            counts = labels.value_counts(sort=False)
        else:
            with warnings.catch_warnings(action="error", category=FutureWarning):  # as in pandas 3
                # pandas has no other origin for weeks and months, nor for days of a time zone
                own = isinstance(to_offset(freq), Tick if index.tz else Tick | Day)
                origin: Any = (index[0] if first is None else first).normalize()
                counts = pd.Series(1, index=index)
                counts = counts.resample(freq, origin=origin if own else "start_day").count()
    except (ValueError, FutureWarning):
        must = f"be a frequency of pandas that suits a {type(index).__name__}"
        named = '"Y"' if isinstance(index, pd.PeriodIndex) else '"YE", "QS" or "MS"'
        remedy = f"Pass one such as {named}."
        raise refusal("freq", must, repr(freq), remedy) from None
    if not whole:
        must = f"be a plain, coarser frequency than {index.freqstr}"
        remedy = 'Groups hold whole periods and do not overlap: pass one such as "Y", or weights.'
        raise refusal("freq", must, repr(freq), remedy)
    counts = counts[counts > 0]
    return counts.index, np.repeat(np.arange(len(counts)), counts.to_numpy())
