"""Effects of holidays, trading days and Easter: their days, their sizes, their forecasts."""

import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.base import clone

from forecast_unc import Forecaster, LinearRegressor, load_model
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting.models.effects import CalendarEffects
from forecast_unc.series.calendar import MOVABLE, _feasts, effect_inputs, effects_apart

# Known by heart or from an almanac, not from the package
KNOWN = {
    "holidays:DE": ["2020-04-10", "2020-04-13", "2024-04-01", "2024-05-09", "2024-10-03"],
    "holidays:DE-SN": ["2020-11-18", "2023-11-22", "2024-11-20"],  # Buss- und Bettag
    "holidays:DE-BY": ["2024-01-06", "2024-05-30", "2024-11-01"],
    "holidays:US": ["2023-11-23", "2024-05-27", "2024-07-04", "2024-11-28"],
}
EASTER = {"2008": "2008-03-23", "2011": "2011-04-24", "2020": "2020-04-12", "2024": "2024-03-31"}


def days_of(word, index):
    """The days of any holiday."""
    columns = effect_inputs(index, (word,))
    return index[np.sum([c for (kind, _), c in columns.items() if kind == word], axis=0) > 0]


@pytest.fixture
def package():
    return pytest.importorskip("holidays")


# What a time holds


@pytest.mark.parametrize("word", KNOWN)
def test_known_holidays(package, word):
    found = days_of(word, pd.date_range("2019-12-01", "2024-12-31", freq="D"))
    assert set(pd.DatetimeIndex(KNOWN[word])) <= set(found)
    if word != "holidays:DE":
        plain = days_of("holidays:DE", pd.date_range("2019-12-01", "2024-12-31", freq="D"))
        assert not set(pd.DatetimeIndex(KNOWN[word])) & set(plain)


def test_days_around_a_holiday_reach_beyond_the_year_and_the_index(package):
    new_year = effect_inputs(pd.DatetimeIndex(["2023-12-31"], freq="D"), ("holidays:DE",))
    assert [name for _, name in new_year] == ["day before New Year's Day"]
    for day, named in (("2024-12-24", "day before "), ("2024-12-25", ""), ("2024-12-26", "day ")):
        ((_, name), *_) = effect_inputs(pd.DatetimeIndex([day], freq="D"), ("holidays:US",))
        assert name.startswith(named)
        assert name.endswith("Christmas Day")


INDEXES = {
    "hours": pd.date_range("2024-03-28", "2024-04-04 23:00", freq="h"),
    "half hours of a zone": pd.date_range(
        "2024-03-28", "2024-04-04 23:30", freq="30min", tz="Europe/Berlin"
    ),
    "days of a zone": pd.date_range("2024-03-28", "2024-04-04", freq="D", tz="Asia/Tokyo"),
    "hourly periods": pd.period_range("2024-03-28 00:00", "2024-04-04 23:00", freq="h"),
    "daily periods": pd.period_range("2024-03-28", "2024-04-04", freq="D"),
}


@pytest.mark.parametrize("name", INDEXES)
def test_a_holiday_is_a_whole_local_day_of_any_index(package, name):
    index = INDEXES[name]
    columns = effect_inputs(index, ("holidays:DE",))
    days = {"Good Friday": "2024-03-29", "day before Easter Monday": "2024-03-31"}
    days |= {"Easter Monday": "2024-04-01", "day after Easter Monday": "2024-04-02"}
    at = {name: column for (_, name), column in columns.items()}
    dates = (index.start_time if isinstance(index, pd.PeriodIndex) else index).strftime("%F")
    for holiday, day in days.items():
        np.testing.assert_array_equal(at[holiday], np.asarray(dates == day, dtype=float))


@pytest.mark.parametrize("freq", ["MS", "ME", "QS", "QE", "BMS", "2MS"])
def test_trading_days_are_counted(freq):
    index = pd.date_range("2019-01-01", periods=30, freq=freq)
    width = {"M": 1, "Q": 3, "B": 1, "2": 2}[freq[0]]
    columns = effect_inputs(index, ("trading_days",))
    for i, time in enumerate(index):
        month = time.to_period("M")
        first = month - (width - 1) if freq.endswith("E") else month
        days = pd.date_range(first.start_time, (first + width - 1).end_time, freq="D")
        counts = np.bincount(days.day_of_week, minlength=7)
        for weekday, label in enumerate(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]):
            assert columns["trading_days", label][i] == counts[weekday] - counts[6]
        leap = ((days.month == 2) & (days.day == 29)).sum()
        assert columns["trading_days", "leap day"][i] == leap


@pytest.mark.parametrize(("year", "easter"), EASTER.items())
def test_the_share_of_easter(year, easter):
    for index in (
        pd.date_range(f"{year}-01-01", periods=12, freq="MS"),
        pd.period_range(f"{year}-01", periods=12, freq="M"),
    ):
        share = effect_inputs(index, ("easter",))["easter", "Easter"]
        days = pd.date_range(end=easter, periods=8, freq="D")
        expected = [(days.month == month).mean() for month in range(1, 13)]
        np.testing.assert_allclose(share, expected, atol=1e-12)


# The sizes of effects


def simulated(rng, freq, periods, words, sizes, ar=0.0, std=1.0):
    """A season, an autoregression, and what the words name of these sizes, by name."""
    index = pd.date_range("2012-01-01", periods=periods, freq=freq)
    season = {"D": 7, "MS": 12}[freq]
    noise = std * rng.standard_normal(periods)
    for t in range(1, periods):
        noise[t] += ar * noise[t - 1]
    columns = effect_inputs(index, words)
    effect = sum(size * columns[name] for name, size in sizes.items())
    season = 3.0 * np.sin(2 * np.pi * np.arange(periods) / season)
    return pd.Series(100.0 + season + noise + effect, index), effect


SIZES = {
    ("holidays:DE", "New Year's Day"): -20.0,
    ("holidays:DE", "Easter Monday"): -15.0,
    ("holidays:DE around", "day before Christmas Day"): 10.0,
}
TRADING = {
    ("trading_days", "Saturday"): 2.0,
    ("trading_days", "Monday"): -1.0,
    ("easter", "Easter"): 6.0,
}


def test_effects_of_independent_errors_are_those_of_least_squares(package, rng):
    y, _ = simulated(rng, "D", 3000, ("holidays:DE",), SIZES)
    found = CalendarEffects.learn(("holidays:DE",), y.to_numpy(), y.index, (7,))
    columns = effect_inputs(y.index, ("holidays:DE",))
    week = np.eye(7)[y.index.day_of_week]
    # "day after Christmas Day" and the second day of it are one column
    H = np.unique(np.column_stack([*columns.values()]), axis=1)
    ols = sm.OLS(y.to_numpy(), np.column_stack([H, week])).fit()
    k = H.shape[1]
    assert found.names == tuple(columns)
    # shrunk, and filtered by an autoregression of weights near 0: within two standard errors
    error = np.sqrt(np.einsum("ni,ij,nj->n", H, ols.cov_params()[:k, :k], H))
    away = np.abs(found.at(y.index) - H @ ols.params[:k])
    assert (away <= 2.0 * error + 1e-9).all()
    for name, size in SIZES.items():
        assert found.weights[found.names.index(name)] == pytest.approx(size, abs=1.0)


@pytest.mark.parametrize("ar", [0.8, 1.0])
def test_effects_on_an_autoregression_do_not_come_back_through_its_lags(package, rng, ar):
    y, effect = simulated(rng, "D", 3000, ("holidays:DE",), SIZES, ar)
    found = CalendarEffects.learn(("holidays:DE",), y.to_numpy(), y.index, (7,))
    known = dict(zip(found.names, found.weights, strict=True))
    for name, size in SIZES.items():
        assert known.pop(name) == pytest.approx(size, abs=1.5)
    assert np.abs([*known.values()]).max() < 1.5
    assert np.abs(found.at(y.index) - effect).max() < 1.5


def test_trading_days_of_months_are_those_of_least_squares(rng):
    words = ("trading_days", "easter")
    y, effect = simulated(rng, "MS", 240, words, TRADING, std=0.5)
    found = CalendarEffects.learn(words, y.to_numpy(), y.index, (12,))
    columns = effect_inputs(y.index, words)
    months = np.eye(12)[y.index.month - 1]
    ols = sm.OLS(y.to_numpy(), np.column_stack([*columns.values(), months])).fit()
    k = len(columns)
    np.testing.assert_array_less(np.abs(found.weights - ols.params[:k]), 2.0 * ols.bse[:k])
    away = found.at(y.index) - effect
    assert (away - away.mean()).std() < 0.3 * effect.std()


def test_no_effects_are_next_to_none(package, rng):
    y, _ = simulated(rng, "D", 1500, ("holidays:DE",), {("holidays:DE", "New Year's Day"): 0.0})
    found = CalendarEffects.learn(("holidays:DE",), y.to_numpy(), y.index, (7,))
    assert np.abs(found.at(y.index)).max() < 0.5


@pytest.mark.parametrize("missing", [slice(0, 0), slice(300, 340), slice(5, 700, 9)])
def test_few_or_missing_values(package, rng, missing):
    y, _ = simulated(rng, "D", 1500, ("holidays:DE",), SIZES)
    y.iloc[missing] = np.nan
    found = CalendarEffects.learn(("holidays:DE",), y.to_numpy(), y.index, (7,))
    assert found.weights[found.names.index(("holidays:DE", "Easter Monday"))] < -12.0
    none = CalendarEffects.learn(("holidays:DE",), y.to_numpy()[:20], y.index[:20], ())
    np.testing.assert_array_equal(none.at(y.index), 0.0)


# Forecasts


def test_feasts_that_move_are_forecast_and_what_follows_is_not_moved(package, rng):
    y, _ = simulated(rng, "D", 3000, ("holidays:DE",), SIZES, ar=0.5)
    cut = y.index.get_loc("2019-03-20")  # Easter Monday of 2019 was April 22
    model = Forecaster(calendar="holidays:DE", lags=8, max_train=200, random_state=0).fit(y[:cut])
    ahead = model.forecast(42)
    week = ahead.mean["2019-04-22"] - ahead.mean["2019-04-15"]
    assert week == pytest.approx(-15.0, abs=1.5)
    assert ahead.mean["2019-04-29"] - ahead.mean["2019-04-15"] == pytest.approx(0.0, abs=1.0)
    drawn = model.forecast(42, propagation="monte_carlo").paths.mean(axis=1)
    np.testing.assert_allclose(drawn, ahead.mean, atol=0.3)


@pytest.mark.parametrize("freq", ["D", pytest.param("MS", marks=pytest.mark.slow)])
def test_the_default_call_keeps_its_candidates(package, rng, freq):
    words = {"D": ("holidays:DE",), "MS": ("trading_days", "easter")}[freq]
    sizes = {"D": SIZES, "MS": TRADING}[freq]
    y, _ = simulated(rng, freq, 380 if freq == "D" else 96, words, sizes)
    plain = Forecaster(max_train=120).fit(y)
    model = Forecaster(max_train=120, calendar=words).fit(y)
    named = ", ".join(words)
    kept = [one.specification.described().replace(f", {named}", "") for one in model.models_]
    assert kept == [one.specification.described() for one in plain.models_]
    assert all(named in line for line in model.choices_ if line.startswith("model"))
    given = Forecaster(calendar=("fourier", *words), lags=2).fit(y)
    assert {one.specification.calendar for one in given.models_} == {("fourier",)}
    # one step after another, in the past
    fitted = model.fitted().residuals["y" if y.name else slice(None)].dropna()
    errors = plain.fitted().residuals.dropna()
    assert fitted.abs().mean() < errors.abs().mean()


@pytest.mark.parametrize("zone", ["Europe/Berlin"])
def test_hours_by_their_date(package, rng, zone):
    index = pd.date_range("2023-01-02", periods=24 * 500, freq="h", tz=zone)
    holiday = np.isin(index.strftime("%F"), [str(d) for d in KNOWN_DE_2023])
    hour = np.sin(2 * np.pi * np.arange(len(index)) / 24)
    y = pd.Series(50.0 + 5.0 * hour - 10.0 * holiday + rng.standard_normal(len(index)), index)
    cut = 24 * 454  # 2024-03-31, the day before Easter Monday
    model = Forecaster(calendar="holidays:DE", lags=(1, 24), max_train=200).fit(y[:cut])
    ahead = model.forecast(72).mean
    days = ahead.groupby(ahead.index.strftime("%F")).mean()
    assert days["2024-04-01"] - days["2024-04-02"] == pytest.approx(-10.0, abs=2.0)


def test_hours_that_follow_each_other_leave_a_holiday_whole(package, rng):
    """An autoregression of hours would see the change at midnight alone."""
    index = pd.date_range("2023-01-02", periods=24 * 454, freq="h")
    holiday = np.isin(index.strftime("%F"), KNOWN_DE_2023)
    noise = rng.standard_normal(len(index))
    for t in range(1, len(index)):
        noise[t] += 0.9 * noise[t - 1]
    levels = 50.0 - 10.0 * holiday + noise
    levels[rng.random(len(index)) < 0.02] = np.nan
    found = CalendarEffects.learn(("holidays:DE",), levels, index, (24, 168))
    at = found.at(index)
    assert at[holiday].mean() == pytest.approx(-10.0, abs=1.5)
    assert np.abs(at[~holiday]).mean() < 0.5


KNOWN_DE_2023 = ["2023-04-07", "2023-04-10", "2023-05-01", "2023-05-18", "2023-05-29"]
KNOWN_DE_2023 += ["2023-10-03", "2023-12-25", "2023-12-26", "2024-01-01", "2024-03-29"]
KNOWN_DE_2023 += ["2024-04-01"]


@pytest.mark.parametrize("kind", ["periods"])
def test_months_of_any_index_and_every_way_onwards(rng, tmp_path, kind):
    y, _ = simulated(rng, "MS", 160, ("trading_days", "easter"), TRADING)
    y.name = "sales"
    y = y.to_period("M") if kind == "periods" else y
    model = Forecaster(calendar=["trading_days", "easter"], random_state=0).fit(y[:150])
    ahead = model.forecast(10)
    assert (ahead.mean - y[150:]).abs().mean() < 2.0
    assert clone(model).calendar == ["trading_days", "easter"]
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    pd.testing.assert_series_equal(again.forecast(10).mean, ahead.mean)
    moved = model.apply(y[:145]).forecast(3)
    updated = again.update(y[150:155]).forecast(3)
    assert (moved.mean - y[145:148]).abs().max() < 4.0
    assert (updated.mean - y[155:158]).abs().max() < 4.0


# What cannot be


def test_the_package_is_missing(monkeypatch):
    _feasts.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)
    y = pd.Series(np.arange(30.0) % 7, pd.date_range("2024-01-01", periods=30, freq="D"))
    message = "calendar='holidays:DE' needs the package holidays: install forecast_unc.holidays."
    with pytest.raises(ImportError, match=message):
        Forecaster(calendar="holidays:DE").fit(y)


@pytest.mark.parametrize("place", ["XX", "de", "DE-XX", ""])
def test_unknown_countries(package, place):
    y = pd.Series(np.arange(30.0) % 7, pd.date_range("2024-01-01", periods=30, freq="D"))
    unknown = (
        "'XX' is not a known part of DE" if "-" in place else f"'{place}' is not a known count"
    )
    said = f"calendar must name a country .*got 'holidays:{place}'. {unknown}"
    with pytest.raises(ValueError, match=said):
        Forecaster(calendar=f"holidays:{place}").fit(y)


@pytest.mark.parametrize(
    ("word", "index", "message"),
    [
        ("trading_days", pd.date_range("2024-01-01", periods=40, freq="D"), "for months, quarters"),
        ("easter", pd.date_range("2024-01-01", periods=40, freq="W"), "for months, quarters"),
        ("trading_days", pd.RangeIndex(40), "a RangeIndex, which has no dates"),
        ("trading day", pd.date_range("2024-01-01", periods=40, freq="MS"), "trading_days, easter"),
    ],
)
def test_words_that_do_not_suit_the_times(word, index, message):
    y = pd.Series(np.arange(40.0) % 7, index)
    with pytest.raises(ValueError, match=message):
        Forecaster(calendar=word).fit(y)


def test_inputs_and_effects_apart():
    days = pd.DatetimeIndex(["2024-12-25"])
    assert effects_apart("auto") == ("auto", ())
    assert effects_apart(None) == (None, ())
    assert effects_apart(days)[0] is days
    assert effects_apart("easter") == ("auto", ("easter",))
    both = effects_apart(["month", "holidays:US", "holidays:DE", "holidays:US"])
    assert both == (("month",), ("holidays:US", "holidays:DE"))


# Feasts that move by weeks


def test_a_date_of_the_moon_that_is_estimated_is_the_holiday(package):
    """In the years to come the package says "(estimated)" behind the name."""
    for word in ("holidays:BN", "holidays:TR"):
        past, future = (
            effect_inputs(pd.date_range(f"{year}-01-01", periods=365), (word,))
            for year in (2024, 2028)
        )
        eid = {name for kind, name in past if "Eid al-Fitr" in name and kind == word}
        assert eid & {name for _, name in future}
        assert not any("estimated" in name for _, name in future)


def test_weeks_of_ramadan_and_of_the_lunar_new_year(package):
    days = pd.date_range("2021-12-25", "2024-06-30", freq="D")
    found = {name: days[c > 0] for (_, name), c in effect_inputs(days, MOVABLE).items()}
    assert list(found["week 1 of Ramadan"][[0, 6, 7, 14]].strftime("%F")) == [
        "2022-04-03", "2022-04-09", "2023-03-23", "2024-03-12"]  # fmt: skip
    assert found["week +0 of Lunar New Year"][0] == pd.Timestamp("2022-02-01")
    assert found["week -3 of Lunar New Year"][0] == pd.Timestamp("2022-01-11")
    assert len(found["week +2 of Lunar New Year"]) == 21
    weeks = pd.date_range("2024-01-07", periods=30, freq="W")
    counts = effect_inputs(weeks, ("lunar_new_year",))
    assert list(counts["lunar_new_year", "week +0 of Lunar New Year"][4:7]) == [0, 2, 5]
    months = effect_inputs(pd.period_range("2024-01", periods=6, freq="M"), ("ramadan",))
    assert months["ramadan", "last days of Ramadan"][3] == 9


@pytest.mark.parametrize("first", ["1970-01", "2100-06"])
def test_feasts_of_years_that_are_not_known_are_refused(package, first):
    with pytest.raises(ArgumentError) as caught:
        effect_inputs(pd.period_range(first, periods=9, freq="M"), ("ramadan",))
    assert caught.value.argument == "calendar"


def test_ramadan_is_forecast_in_its_weeks(package, rng):
    """A fifth of the sales is missing in Ramadan, two fifths more are sold in the week of Eid."""
    index = pd.date_range("2021-01-01", "2024-12-31", freq="D")
    weeks = {name: column for (_, name), column in effect_inputs(index, ("ramadan",)).items()}
    truth = 100 - 20 * sum(c for name, c in weeks.items() if "of Ramadan" in name)
    truth = truth + 40 * weeks["week of Eid al-Fitr"] + 5 * (index.day_of_week > 4)
    y = pd.Series(truth + 3 * rng.standard_normal(len(index)), index)
    cut = index.get_loc("2024-03-09")
    model = Forecaster(
        LinearRegressor(), lags=2, calendar=("profile", "ramadan"), seasonal_period=7
    )
    ahead = model.fit(y[:cut]).forecast(48)
    assert (ahead.mean - truth[cut : cut + 48]).abs().mean() < 1.5
    interval, actual = ahead.interval(0.9), y[cut : cut + 48]
    inside = (actual > interval["lower"]) & (actual < interval["upper"])
    assert 0.78 < inside.mean() < 0.98
