"""What the calendar says about a series: the seasons that its frequency can have."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.tseries.offsets import BusinessDay, Day, Tick

# Observations in a year, by the base of the frequency; the number before it divides them.
_IN_A_YEAR = {
    **dict.fromkeys(("M", "MS", "ME", "BMS", "BME", "CBMS", "CBME"), 12),
    **dict.fromkeys(("Q", "QS", "QE", "BQS", "BQE"), 4),
    "W": 52,
}


def seasonal_periods(index: pd.Index[Any]) -> tuple[int, ...]:
    """Seasonal periods that the frequency of an index suggests, shortest first.

    The day and the week of anything finer than a day, the week and the year of days, the year of
    weeks, months and quarters. Whether the data have them is another question.

    Parameters
    ----------
    index : Index
        A regular index: DatetimeIndex with its frequency set, PeriodIndex, or whole numbers,
        which have no calendar.

    Returns
    -------
    tuple of int
        In observations; only whole ones, so that every 5 days there is a year (73) but no week.

    Examples
    --------
    >>> seasonal_periods(pd.date_range("2024-01-01", periods=100, freq="30min"))
    (48, 336)
    >>> seasonal_periods(pd.period_range("2024-01", periods=24, freq="M"))
    (12,)
    >>> seasonal_periods(pd.RangeIndex(100))
    ()
    """
    freq: Any = getattr(index, "freq", None)
    if freq is None:
        return ()
    if isinstance(freq, Tick) and not isinstance(freq, Day):  # Day is a Tick before pandas 3 only
        unit, spans = pd.Timedelta(freq).value, [pd.Timedelta(days=d).value for d in (1, 7)]
        if unit >= spans[0] and unit % spans[0] == 0:  # "24h"
            unit, spans = unit // spans[0], [7, 365]
    elif isinstance(freq, Day):
        unit, spans = freq.n, [7, 365]
    elif isinstance(freq, BusinessDay):
        unit, spans = freq.n, [5, 260]
    else:
        year = _IN_A_YEAR.get(freq.rule_code.split("-")[0])
        unit, spans = freq.n, [] if year is None else [year]
    return tuple(span // unit for span in spans if span % unit == 0 and span > unit)
