"""A series of a time zone keeps its instants; its seasons and lags follow the clock on the wall."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, backtest, load_model
from forecast_unc.cli.dates import converted
from forecast_unc.errors import ArgumentError, InvalidArgument
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.series.history import History
from forecast_unc.series.times import regular_index

CHANGES = {"forward": "2024-03-31", "back": "2024-10-27"}


def load(day, rng, before=10, after=3, freq="h"):
    """Values with a profile by the clock of Berlin and noise of std 1, by days around one."""
    start, end = (pd.Timestamp(day) + pd.Timedelta(days=days) for days in (-before, after))
    index = pd.date_range(start, end, freq=freq, tz="Europe/Berlin", inclusive="left")
    profile = 10.0 * np.sin(2.0 * np.pi * (index.hour - 2) / 24.0) + 8.0 * (index.hour == 3)
    return pd.Series(profile + rng.standard_normal(len(index)), index)


@pytest.mark.parametrize("start", [-12, 3, 24])
@pytest.mark.parametrize("change", CHANGES)
def test_lags_of_a_day_follow_the_clock(rng, change, start):
    """With lags by instants the error was 3.6 of the noise."""
    y = load(CHANGES[change], rng)
    origin = pd.Timestamp(CHANGES[change], tz="Europe/Berlin") + pd.Timedelta(hours=start)
    past = y[y.index < origin]
    model = Forecaster(LinearRegressor(), lags=(24, 48, 72)).fit(past)
    ahead = model.forecast(24)
    assert ahead.index.equals(y.index[len(past) :][:24])
    error = (ahead.mean - y.reindex(ahead.index)).to_numpy()
    assert np.sqrt(np.mean(error**2)) < 1.5
    assert model.history_.index.equals(past.index)


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_across_a_change_is_saved_updated_and_applied(rng, change, tmp_path):
    y = load(CHANGES[change], rng, 3, 1)
    model = Forecaster(LinearRegressor(), lags=(1, 24)).fit(y.iloc[:74])
    for at in range(74, 80):  # by single values, those of an hour that is repeated among them
        model.update(y.iloc[at : at + 1])
        whole = Forecaster(LinearRegressor(), lags=(1, 24)).fit(y.iloc[:74]).apply(y.iloc[: at + 1])
        model.save(tmp_path / "m.npz")
        again = load_model(tmp_path / "m.npz")
        assert again.history_.index.equals(y.index[: at + 1])
        ahead = model.forecast(5)
        np.testing.assert_allclose(again.forecast(5).mean, ahead.mean, rtol=1e-9)
        np.testing.assert_array_equal(whole.history_.y, model.history_.y)
        assert whole.forecast(5).index.equals(y.index[at + 1 : at + 6])
    assert model.fitted().mean.index.equals(y.index[:80])
    assert model.fitted().mean.notna().sum() == 56
    folds = backtest(Forecaster(LinearRegressor(), lags=(1, 24)), y, 6, n_origins=6, step=2)
    assert folds.frame["mean"].notna().all()


def test_an_hour_that_is_repeated_has_the_mean_of_its_values_from_when_it_is_over():
    index = pd.date_range("2024-10-27 01:00", periods=8, freq="30min", tz="Europe/Berlin")
    y = pd.Series([1.0, 2.0, 3.0, 4.0, 7.0, np.nan, 6.0, 8.0], index)
    stds = pd.Series([0.0, 0.0, 3.0, 1.0, 4.0, 0.0, 0.0, 0.0], index)
    x = pd.DataFrame({"x": y.fillna(9.0)})
    given = History.checked(y, x, stds)
    local = given.by_clock()
    np.testing.assert_array_equal(local.y, [1.0, 2.0, 5.0, 4.0, 6.0, 8.0])
    np.testing.assert_array_equal(local.stds, [0.0, 0.0, 2.5, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(local.exog[:, 0], [1.0, 2.0, 5.0, 6.5, 6.0, 8.0])
    assert str(local.index[2]) == "2024-10-27 02:00:00"
    np.testing.assert_array_equal(local.places, [0, 1, 2, 3, 2, 3, 4, 5])
    for values, left, waiting in [(3, 2, 1), (4, 2, 2), (5, 3, 1), (6, 4, 0)]:
        some = given.part(0, values).by_clock()
        assert len(some.y) == left
        assert (some.places < 0).sum() == waiting
        ahead, places = given.part(0, values).future(8 - values, x[values:]).by_clock(some)
        np.testing.assert_array_equal(places + left, [0, 1, 2, 3, 2, 3, 4, 5][values:])
        assert len(ahead.index) == 6 - left


def test_an_hour_that_is_skipped_is_missing():
    index = pd.date_range("2024-03-31 00:00", periods=4, freq="h", tz="Europe/Berlin")
    y, x = pd.Series([1.0, 2.0, 3.0, 4.0], index), pd.DataFrame({"x": [5.0, 6.0, 7.0, 8.0]}, index)
    local = History.checked(y, x).by_clock()
    np.testing.assert_array_equal(local.y, [1.0, 2.0, np.nan, 3.0, 4.0])
    np.testing.assert_array_equal(local.exog[:, 0], [5.0, 6.0, 7.0, 7.0, 8.0])
    before = History.checked(y[:2], x[:2])
    ahead = before.future(2, x[2:], None, np.diag([1.0, 4.0]))
    ahead, places = ahead.by_clock(before.by_clock())
    np.testing.assert_array_equal(places, [1, 2])
    np.testing.assert_array_equal(ahead.exog_cov, [[1, 1, 0], [1, 1, 0], [0, 0, 4]])


@pytest.mark.parametrize(
    ("freq", "zone"), [("D", "Europe/Berlin"), ("7h", "Europe/Berlin"), ("h", None)]
)
def test_whole_days_and_times_without_a_zone_are_as_they_are(freq, zone):
    index = pd.date_range("2024-03-20", periods=30, freq=freq, tz=zone)
    history = History.checked(pd.Series(1.0, index))
    assert history.by_clock() is history


def test_short_lags_are_of_instants():
    """An hour ago is an hour ago, also as clocks change."""
    index = pd.date_range("2024-10-26", periods=40, freq="h", tz="Europe/Berlin")
    model = Forecaster(LinearRegressor(), lags=2).fit(pd.Series(np.sin(np.arange(40.0)), index))
    assert model.ensemble_.history is model.history_


# Local times without a zone

BERLIN = SimpleNamespace(zone="Europe/Berlin", to_period=None)


@pytest.mark.parametrize("freq", ["h", "15min"])
@pytest.mark.parametrize("part", [slice(None), slice(0, 10), slice(9, None), slice(13, None)])
@pytest.mark.parametrize("step", [1, -1])
def test_local_times_are_told_apart_by_their_order(freq, part, step):
    """Also those of several series, and where a series ends or begins in the hour."""
    index = pd.date_range("2024-10-27 00:00", periods=24, freq=freq, tz="Europe/Berlin")
    ids = pd.Series([1] * 24 + [2] * len(index[part]))
    times = index[::step].append(index[part][::step])
    found = converted(times.tz_localize(None), BERLIN, ids)
    assert found.tolist() == times.tolist()


@pytest.mark.parametrize(
    ("times", "got"),
    [
        (["2024-10-27 01:00", "2024-10-27 02:00", "2024-10-27 03:00"], "2024-10-27 02:00:00 once"),
        (["2024-03-31 01:00", "2024-03-31 02:00", "2024-03-31 03:00"], "2024-03-31 02:00:00"),
    ],
)
def test_times_that_clocks_do_not_tell_are_named(times, got):
    with pytest.raises(ArgumentError) as error:
        converted(pd.DatetimeIndex(times), BERLIN)
    assert (error.value.argument, error.value.got) == ("--time", got)


@pytest.mark.parametrize(
    ("kind", "advice", "line"),
    [
        (
            "local",
            "Aggregate the duplicates, for example y.groupby(level=0).mean(). It may be the hour "
            "of which clocks went back. Then name its zone, {}.",
            'y.index = y.index.tz_localize("Europe/Berlin", ambiguous="infer")',
        ),
        *[
            (
                kind,
                "Convert times with pd.to_datetime, {}.",
                'y.index = pd.to_datetime(y.index, utc=True).tz_convert("Europe/Berlin")',
            )
            for kind in ("text", "dates")
        ],
    ],
)
def test_the_line_that_names_the_zone_is_said(kind, advice, line):
    index = pd.date_range("2024-10-26 20:00", periods=30, freq="h", tz="Europe/Berlin", unit="us")
    y = pd.Series(1.0, index.tz_localize(None))
    if kind != "local":
        text = [time.isoformat() for time in index]
        y.index = pd.Index(text if kind == "text" else list(map(pd.Timestamp, text)), dtype=object)
    with pytest.raises(InvalidArgument) as error:
        regular_index(y.index, "y")
    assert error.value.remedy == advice.format(line)
    exec(line, {"y": y, "pd": pd})
    assert regular_index(y.index, "y").equals(index)
