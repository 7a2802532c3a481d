import pandas as pd
import pytest

from forecast_unc.forecasting.calendar import seasonal_periods


@pytest.mark.parametrize(
    ("freq", "periods"),
    [
        ("15min", (96, 672)),
        ("30min", (48, 336)),
        ("h", (24, 168)),
        ("2h", (12, 84)),
        ("7min", (1440,)),  # a week holds a whole number of them, a day does not
        ("24h", (7, 365)),
        ("D", (7, 365)),
        ("5D", (73,)),
        ("2D", ()),
        ("B", (5, 260)),
        ("W", (52,)),
        ("W-WED", (52,)),
        ("MS", (12,)),
        ("ME", (12,)),
        ("BMS", (12,)),
        ("2MS", (6,)),
        ("QS", (4,)),
        ("QE-NOV", (4,)),
        ("YS", ()),
    ],
)
def test_periods_of_dates(freq, periods):
    assert seasonal_periods(pd.date_range("2024-01-01", periods=3, freq=freq)) == periods


@pytest.mark.parametrize(
    ("freq", "periods"),
    [("h", (24, 168)), ("D", (7, 365)), ("W", (52,)), ("M", (12,)), ("Q", (4,)), ("Y", ())],
)
def test_periods_of_periods(freq, periods):
    assert seasonal_periods(pd.period_range("2024-01-01", periods=3, freq=freq)) == periods


def test_whole_numbers_have_no_calendar_and_a_time_zone_changes_nothing():
    assert seasonal_periods(pd.RangeIndex(50)) == ()
    index = pd.date_range("2024-03-30", periods=100, freq="h", tz="Europe/Paris")
    assert seasonal_periods(index) == (24, 168)
