"""The calendar: seasons that a series can have, and inputs made of dates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from dateutil.easter import easter
from pandas.tseries.offsets import (
    BusinessDay,
    BusinessHour,
    CustomBusinessDay,
    CustomBusinessHour,
    Day,
    Tick,
    Week,
)

from forecast_unc._checks import refusal
from forecast_unc._typing import Array, Positions
from forecast_unc.series.times import DAYS, months_of

Calendar = str | Sequence[Any] | pd.DatetimeIndex | None
# Parts of the date that can be inputs, with the number of their values.
_PARTS = {"hour_of_day": 24, "day_of_week": 7, "month": 12}
NAMES = ("fourier", "profile", "hour_of_day", "hour_of_week", "day_of_week", "month")
# What shifts single times, which is learned and taken out before anything else.
EFFECTS = ("trading_days", "easter")
HOLIDAYS = "holidays:"  # and a country, such as DE, or a part of one, DE-BY
# Weeks of feasts that move: first and last day of each, from a feast's day on.
_WEEKS = {
    "ramadan": (
        ("First Day of Ramadan", -7, -1, "week before Ramadan"),
        ("First Day of Ramadan", 0, 6, "week 1 of Ramadan"),
        ("First Day of Ramadan", 7, 13, "week 2 of Ramadan"),
        ("First Day of Ramadan", 14, 20, "week 3 of Ramadan"),
        ("Eid al-Fitr", -9, -1, "last days of Ramadan"),
        ("Eid al-Fitr", 0, 6, "week of Eid al-Fitr"),
        ("Eid al-Fitr", 7, 13, "week after that of Eid al-Fitr"),
    ),
    "lunar_new_year": tuple(
        ("Lunar New Year", 7 * week, 7 * week + 6, f"week {week:+d} of Lunar New Year")
        for week in range(-3, 3)
    ),
}
MOVABLE = tuple(_WEEKS)
_OF_BOTH = "BN"  # Brunei has a holiday at the first day of each
_AROUND = {-1: "day before ", 0: "", 1: "day after "}
# The longest season with a column for each of its steps: half hours of a week, not days of a year.
LONGEST_PROFILE = 340
# Days from which on steps are too long for a part to change from one to the next.
_TOO_LONG = {"hour_of_day": 1, "hour_of_week": 7, "day_of_week": 7, "month": 365}
# Observations in a year, by the base of the frequency; the number before it divides them.
_IN_A_YEAR = {
    **dict.fromkeys(("M", "MS", "ME", "BMS", "BME", "CBMS", "CBME"), 12),
    **dict.fromkeys(("Q", "QS", "QE", "BQS", "BQE"), 4),
    **dict.fromkeys(("Y", "YS", "YE", "BYS", "BYE"), 1),
    "W": 52,
}
_START = pd.Timestamp("2000-01-01")  # from which times are counted
_DAY = pd.Timedelta(days=1)


def seasonal_periods(index: pd.Index[Any]) -> tuple[int, ...]:
    """Seasonal periods, in observations, that the frequency of an index suggests, shortest first.

    The day and the week of anything finer than a day and of opening hours, the week and the year of
    days and of open days, the year of weeks, months and quarters; only whole ones: every 5 days
    there is a year (73) but no week.
    """
    freq: Any = getattr(index, "freq", None)
    unit: Any = _length(freq)
    cycles: list[Any] = [_DAY, 7 * _DAY]
    if unit is not None and not unit % (7 * _DAY):  # "7D" is a week, too
        unit, cycles = unit // (7 * _DAY), [_IN_A_YEAR["W"]]
    elif unit is None:
        unit, cycles = _step_of(freq), [_in_a_year(freq) or 1]
        if isinstance(freq, BusinessDay | BusinessHour):
            days = int(_open_days(freq).weekmask.sum())
            cycles = [days, 52 * days]
        if isinstance(freq, BusinessHour):
            hours = _open_hours(freq)
            cycles = [hours, days * hours]
    elif not unit % _DAY:  # "24h" is a day, too
        cycles = [7 * _DAY, 365 * _DAY]
    return tuple(int(one // unit) for one in cycles if one > unit and not one % unit)


def _step_of(freq: Any) -> int:
    """The number before a frequency, in months of one such as every 15th."""
    months = months_of(freq)
    return months or getattr(freq, "n", 1)


def _open_days(freq: Any) -> np.busdaycalendar:
    """The weekdays that a frequency of business days counts; its holidays shift no weekday."""
    if isinstance(freq, CustomBusinessDay | CustomBusinessHour):
        calendar: Any = freq.calendar  # type: ignore[union-attr]
        return np.busdaycalendar(weekmask=calendar.weekmask.astype(int))
    return np.busdaycalendar()


def _openings(freq: Any) -> list[tuple[float, float]]:
    """Opening and closing of each part of a day, in hours; a night's end is beyond 24."""
    starts, ends = ([one.hour + one.minute / 60 for one in each] for each in (freq.start, freq.end))
    both = zip(starts, ends, strict=True)
    return [(start, end if end > start else end + 24) for start, end in both]


def _open_hours(freq: Any) -> float:
    """Hours of a day that a frequency of business hours counts."""
    return sum(end - start for start, end in _openings(freq))


def season_of(index: pd.Index[Any]) -> int:
    """Seasonal period of a regular index, as the M4 competition counted it.

    The day of anything finer, the year of months and quarters; 1, no season, for the others.
    """
    freq: Any = getattr(index, "freq", None)
    unit, cycle = _length(freq), _DAY
    if unit is None:
        unit, cycle = _step_of(freq), _in_a_year(freq) or 1  # type: ignore[assignment]
        if isinstance(freq, BusinessHour):
            cycle = _open_hours(freq)  # type: ignore[assignment]
    return 1 if cycle % unit else int(cycle // unit)


def _length(freq: Any) -> Any:
    """The time between weeks, days or shorter steps; None where it varies."""
    if isinstance(freq, Day | Week):  # no Ticks as of pandas 3
        return freq.n * (_DAY if isinstance(freq, Day) else 7 * _DAY)
    return pd.Timedelta(freq) if isinstance(freq, Tick) else None


def _in_a_year(freq: Any) -> int | None:
    """Observations in a year of weeks, months, quarters or years, the number before left out."""
    return 12 if months_of(freq) else _IN_A_YEAR.get(_code(freq))


def _code(freq: Any) -> str:
    """The name of a frequency without its anchor, such as "QS"; "" for one that has no name."""
    try:
        return str(freq.rule_code).split("-")[0]
    except (AttributeError, NotImplementedError):  # None; DateOffset(months=3), Easter()
        return ""


def check_calendar(calendar: Calendar) -> tuple[Any, ...]:
    """The parts of a calendar, names among `NAMES` and dates of holidays, or an error."""
    if calendar is None:
        return ()
    alone = isinstance(calendar, str | pd.DatetimeIndex) or not isinstance(calendar, Sequence)
    parts: tuple[Any, ...] = (calendar,) if alone else tuple(calendar)
    for part in parts:
        if not (isinstance(part, pd.DatetimeIndex) or (isinstance(part, str) and part in NAMES)):
            must = f"name {', '.join((*NAMES, *EFFECTS, *MOVABLE))}, holidays:DE (or another "
            must += "country), or hold holidays as a DatetimeIndex"
            remedy = "Use None for no inputs from the calendar."
            raise refusal("calendar", must, f"{part!r}", remedy)
    return parts


def is_effect(part: object) -> bool:
    """Whether a part of a calendar is a word for effects: holidays, trading days, Easter."""
    return isinstance(part, str) and (part in EFFECTS + MOVABLE or part.startswith(HOLIDAYS))


def effects_apart(calendar: Calendar) -> tuple[Calendar, tuple[str, ...]]:
    """The inputs of a calendar, "auto" where only effects are named, and the words for these."""
    parts = (calendar,) if isinstance(calendar, str) else calendar
    if not isinstance(parts, Sequence) or not any(map(is_effect, parts)):
        return calendar, ()
    inputs = tuple(part for part in parts if not is_effect(part))
    return inputs or "auto", tuple(dict.fromkeys(part for part in parts if is_effect(part)))


def effect_inputs(index: pd.Index[Any], words: tuple[str, ...]) -> dict[tuple[str, str], Array]:
    """Inputs of the words at each time, (n,) each, by kind and name; only names that occur.

    A holiday: how many of it a time holds, for days and shorter times also those of the day before
    and after. "trading_days": how many of each weekday, less the Sundays, and a leap day. "easter":
    the share of the eight days up to Easter Sunday.
    """
    found: dict[tuple[str, str], Array] = {}
    if not words or not len(index):
        return found
    _times(index[:1])  # an error without dates
    first, last = _days_of(index)
    years = range((first[0] - _DAY).year, (last[-1] + _DAY).year + 1)
    daily = bool((first == last).all())

    def count(days: pd.DatetimeIndex) -> Array:
        column, begins = np.zeros(len(index)), last.searchsorted(days, "left")
        for begin, end in zip(begins, first.searchsorted(days, "right"), strict=True):
            column[begin:end] += 1.0
        return column

    for word in words:
        if word in EFFECTS and _in_a_year(getattr(index, "freq", None)) not in (1, 4, 12):
            must, got = f"hold {word!r} for months, quarters and years alone", index.freqstr  # type: ignore[attr-defined]
            raise refusal("calendar", must, got, "Use holidays:DE, or another country.")
        if word == "trading_days":
            weeks, days = np.divmod((last - first).days.to_numpy() + 1, 7)
            place = (np.arange(7) - first.day_of_week.to_numpy()[:, None]) % 7
            weekdays = weeks[:, None] + (place < days[:, None])
            less = weekdays[:, :6] - weekdays[:, 6:]
            found |= {(word, day): less[:, i] * 1.0 for i, day in enumerate(DAYS[:6])}
            leap = [pd.Timestamp(year, 2, 29) for year in years if year % 4 == 0]
            found[word, "leap day"] = count(pd.DatetimeIndex(leap))
        elif word == "easter":
            ends = pd.DatetimeIndex([easter(year) for year in years])
            # 8 days that end with Easter Sunday: regARIMA's Easter[8] ends the day before
            shares = [count(ends - day * _DAY) for day in range(8)]
            found[word, "Easter"] = np.mean(shares, axis=0)
        elif word in MOVABLE:
            more = range(years.start - 1, years.stop + 1)
            feasts = _feasts(_OF_BOTH, more, word)
            for feast, start, stop, name in _WEEKS[word]:
                begins = _first_days(feasts.get(feast, pd.DatetimeIndex([])))
                if unknown := sorted(set(years) - set(begins.year)):
                    remedy = "Leave it out, or give a regressor of your own."
                    must = "name feasts whose days the package holidays knows in each year"
                    raise refusal("calendar", must, f"{word!r} in {unknown[0]}", remedy)
                shifted = [begins + day * _DAY for day in range(start, stop + 1)]
                found[word, name] = np.sum([count(days) for days in shifted], axis=0)
        else:
            feasts = _feasts(word.removeprefix(HOLIDAYS), years)
            for name, dates in feasts.items():
                for shift, around in _AROUND.items() if daily else [(0, "")]:
                    kind = f"{word} around" if shift else word
                    found[kind, around + name] = count(dates + shift * _DAY)
    return {key: column for key, column in found.items() if column.any()}


def daily_means(
    levels: Array, index: pd.Index[Any], periods: tuple[int, ...]
) -> tuple[Array, pd.Index[Any], tuple[int, ...]]:
    """Means of local days of which 3/4 was observed, and their seasons; longer times as they are.

    An autoregression of hours would leave of a holiday its first hour alone.
    """
    _times(index[:1])
    days = pd.Series(levels, _days_of(index)[0]).groupby(level=0)
    counts = days.count()
    a_day = int(counts.max())
    if a_day <= 1:
        return levels, index, periods
    means = days.mean().where(counts >= 0.75 * a_day).asfreq("D")
    seasons = tuple(one // a_day for one in periods if one % a_day == 0 and one > a_day)
    return np.asarray(means, dtype=np.float64), means.index, seasons


def _first_days(days: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """The first of days that follow each other."""
    return days[np.diff(days, prepend=days[:1] - 2 * _DAY) > np.timedelta64(1, "D")]


@lru_cache(maxsize=64)
def _feasts(place: str, years: range, word: str = "") -> dict[str, pd.DatetimeIndex]:
    """The days of each holiday of a country, or a part of one, by name; those to come, too."""
    try:
        import holidays
    except ImportError as error:
        what = f"calendar={word or HOLIDAYS + place!r} needs the package holidays"
        raise ImportError(f"{what}: install forecast_unc[holidays].") from error
    country, _, part = place.partition("-")
    try:
        found = holidays.country_holidays(
            country, subdiv=part or None, years=years, language="en_US"
        )
    except NotImplementedError as error:
        must = "name a country by two letters, and a part of it as in holidays:DE-BY"
        known = country in holidays.list_supported_countries()
        unknown = f"{part!r} is not a known part of {country}"
        unknown = unknown if known else f"{country!r} is not a known country"
        remedy = f"{unknown}: see holidays.list_supported_countries()."
        raise refusal("calendar", must, repr(HOLIDAYS + place), remedy) from error
    days: dict[str, list[Any]] = {}
    for day, names in sorted(found.items()):
        # dates of moons to come have the effects of those seen
        plain = names.replace(" (estimated)", "").replace(", estimated)", ")")
        for name in plain.split("; "):
            days.setdefault(name, []).append(day)
    return {name: pd.DatetimeIndex(dates) for name, dates in days.items()}


def check_changes(index: pd.Index[Any], parts: tuple[Any, ...]) -> None:
    """Raise if a part of the date never changes, as the steps of an index (2 or more) are long."""
    for part in parts:
        if isinstance(part, str) and part in _TOO_LONG:
            first, second = _times(index[:2])
            if second - first >= _TOO_LONG[part] * _DAY:
                must = "hold parts of the date that change with each step of the index"
                raise refusal("calendar", must, f"{part!r} at {index.freqstr}", "Leave it out.")  # type: ignore[attr-defined]


def check_effects(index: pd.Index[Any], words: tuple[str, ...]) -> None:
    """Raise unless an index has times for which each word has effects."""
    effect_inputs(index[:1], words)


def calendar_inputs(
    index: pd.Index[Any], parts: tuple[Any, ...], periods: tuple[int, ...]
) -> Array:
    """Inputs (n, k) made of dates, a row a time, which does not depend on the rest of the index.

    "fourier": sines and cosines of the seasonal periods; "profile": a column for each step of the
    longest up to 340, and those of periods that do not divide it; "hour_of_day", "day_of_week",
    "month": one column a value, "hour_of_week" the first two; a DatetimeIndex: 1 on its days, and
    for weeks, months, quarters and years that hold one of them, else 0. Local time where there is a
    zone.
    """
    if not len(index):  # of any kind: that a series is empty is said where its length is checked
        index = pd.DatetimeIndex([], freq="D")
    columns = [np.empty((len(index), 0))]
    for part in parts:
        if isinstance(part, pd.DatetimeIndex):
            days = part.tz_localize(None).normalize().sort_values()
            first, last = _days_of(index)
            holds = days.searchsorted(last, "right") > days.searchsorted(first, "left")
            columns.append(holds[:, None].astype(np.float64))
        elif part == "fourier":
            columns.append(_fourier(index, periods))
        elif part == "profile":
            longest = in_profile(periods)
            if longest:
                columns.append(np.asarray(np.eye(longest)[season_steps(index, longest)]))
            others = tuple(one for one in periods if not longest or longest % one)
            columns.append(_fourier(index, others))
        else:
            times = _times(index)
            values = {"hour_of_day": times.hour, "day_of_week": times.day_of_week}
            values["month"] = times.month - 1
            names = ("hour_of_day", "day_of_week") if part == "hour_of_week" else (part,)
            columns += [np.eye(_PARTS[name])[values[name]] for name in names]
    return np.hstack(columns)


def season_steps(index: pd.Index[Any], period: int) -> Positions:
    """The step of a season at each time, (n,), from 0."""
    return np.asarray(np.floor(_ordinal(index)).astype(np.intp) % period)


def in_profile(periods: tuple[int, ...]) -> int:
    """Steps of the season that a profile has a column for each of; 0 without one."""
    return max((one for one in periods if one <= LONGEST_PROFILE), default=0)


def seasons_within(index: pd.Index[Any], periods: tuple[int, ...]) -> Array:
    """An indicator (n, k) of each step of shorter seasons, which a profile repeats: of days."""
    longest = in_profile(periods)
    shorter = [one for one in periods if 1 < one < longest and longest % one == 0]
    each = [np.eye(one)[season_steps(index, one)] for one in shorter]
    return np.hstack([np.empty((len(index), 0)), *each])


def _open_hours_since(times: pd.DatetimeIndex, freq: Any) -> Array:
    """Opening hours from 2000 to each time, as of weeks without holidays."""
    openings = _openings(freq)
    hours = np.asarray((times - times.normalize()) / pd.Timedelta(hours=1))
    late = hours < max(end for _, end in openings) - 24  # of the night before
    days = times.to_numpy().astype("datetime64[D]") - late.astype("timedelta64[D]")
    since = np.busday_count("2000-01-01", days, busdaycal=_open_days(freq)) * _open_hours(freq)
    hours = hours + 24 * late
    parts = [np.clip(hours - start, 0.0, end - start) for start, end in openings]
    return np.asarray(since + np.sum(parts, axis=0))


def _days_of(index: pd.Index[Any]) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
    """First and last day of what each time stands for.

    A week ends with the day of its label, as in pandas' resample; months, quarters and years begin
    with it or end with it, as their frequency says.
    """
    freq: Any = getattr(index, "freq", None)
    if isinstance(index, pd.PeriodIndex):
        return index.start_time.normalize(), index.end_time.normalize()
    times = _times(index).normalize()
    if isinstance(freq, Day | Week):
        more = _length(freq) - _DAY
        return (times, times + more) if isinstance(freq, Day) else (times - more, times)
    in_a_year = _in_a_year(freq)
    if in_a_year is None:
        return times, times
    label, more = times.to_period("M"), 12 // in_a_year * freq.n - 1
    begins = _code(freq).endswith("S")
    first, last = (label, label + more) if begins else (label - more, label)
    return first.start_time, last.end_time.normalize()


def _fourier(index: pd.Index[Any], periods: tuple[int, ...]) -> Array:
    """Harmonics of the periods, of a year of days or weeks at its exact length."""
    # whole, so that the sine left out is zero; a constant shift changes nothing else
    count = np.floor(_ordinal(index))
    freq: Any = getattr(index, "freq", None)
    year = 365.2425 / (_length(freq) / _DAY) if isinstance(freq, Day | Week) else 0.0
    exact = [year if abs(year - period) < 0.5 else period for period in periods]
    columns = [harmonics(count, *each) for each in zip(periods, exact, strict=True)]
    return np.hstack([np.empty((len(index), 0)), *columns])


def harmonics(t: Array, period: int, exact: float | None = None) -> Array:
    """Up to four harmonics of a period up to 48, up to three of a longer one, at times t."""
    columns = []
    for harmonic in range(1, min(period // 2, 4 if period <= 48 else 3) + 1):
        phase = 2.0 * np.pi * harmonic * t / (exact or period)
        columns.append(np.cos(phase))
        if 2 * harmonic != period:  # there the sine is zero throughout
            columns.append(np.sin(phase))
    return np.column_stack(columns) if columns else np.empty((len(t), 0))


def _times(index: pd.Index[Any]) -> pd.DatetimeIndex:
    """Local times without their zone."""
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        return index.tz_localize(None)
    must = f"be None, 'fourier' or 'profile' for a {type(index).__name__}, which has no dates"
    remedy = "Give the series a DatetimeIndex or a PeriodIndex."
    raise refusal("calendar", must, "a part of the date", remedy, code="no dates")


def _ordinal(index: pd.Index[Any]) -> Array:
    """Position of each time on an unending grid of the index's frequency."""
    if not len(index):
        return np.empty(0)
    if isinstance(index, pd.RangeIndex):
        return np.asarray(index.to_numpy() / index.step)
    freq: Any = index.freq  # type: ignore[attr-defined]
    if isinstance(index, pd.PeriodIndex):
        # of days and hours from where dates count: a process need not take another phase alike
        zero = 0 if _length(freq) is None else pd.Period(_START, freq.base).ordinal
        return np.asarray((index.asi8 - zero) / freq.n)
    times, length, year = _times(index), _length(freq), _in_a_year(freq)
    if length is not None:
        return np.asarray((times - _START) / length)
    if isinstance(freq, BusinessDay):
        days = times.to_numpy().astype("datetime64[D]")
        since = np.busday_count("2000-01-01", days, busdaycal=_open_days(freq))
        return np.asarray(since / freq.n)
    if isinstance(freq, BusinessHour):
        return _open_hours_since(times, freq) / freq.n
    if year in (4, 12):
        return np.asarray(times.to_period("M" if year == 12 else "Q").asi8 / _step_of(freq))
    # no rule: the grid itself is counted
    start, end = min(times[0], _START), max(times[0], _START)
    between = pd.date_range(start, end, freq=freq.base, inclusive="left")
    count = len(between) if times[0] >= _START else -len(between)
    return np.asarray(count / freq.n + np.arange(len(times)))
