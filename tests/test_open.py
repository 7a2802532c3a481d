"""Closed times, told by a regressor: zeros for certain, of which nothing else is learned."""

import numpy as np
import pandas as pd
import pytest

from forecast_unc import (
    Combination,
    Forecaster,
    LinearRegressor,
    backtest,
    backtest_panel,
    baselines,
    forecast_panel,
    load_model,
)
from forecast_unc.cli import main
from forecast_unc.errors import InvalidArgument
from forecast_unc.panels.panel_forecast import FailedSeriesWarning

N, STEPS = 90, 14
DAYS = pd.date_range("2024-01-01", periods=N + STEPS, freq="D")


def model(**arguments):
    return Forecaster(LinearRegressor(), lags=2, open="open", **arguments)


def shop(rng, n=N + STEPS, sundays=True, share=0.05):
    """Sales with noise of std 2 beside a walk back to 50, and whether open."""
    index = pd.date_range("2024-01-01", periods=n, freq="D")
    opened = rng.random(n) >= share
    if sundays:
        opened &= index.day_of_week < 6
    promotion, y = rng.random(n) < 0.3, np.zeros(n)
    for t in range(1, n):
        y[t] = 0.6 * y[t - 1] + 2.0 * rng.standard_normal()
    y = np.where(opened, 50.0 + y + 8.0 * promotion, 0.0)
    exog = pd.DataFrame({"promotion": promotion * 1.0, "open": opened * 1}, index)
    return pd.Series(y, index, name="sales"), exog


@pytest.mark.parametrize("sundays", [True, False])
def test_closed_steps_are_zero_for_certain(rng, sundays):
    y, exog = shop(rng, sundays=sundays, share=0.2)
    future = exog[N:]
    ahead = model().fit(y[:N], exog[:N]).forecast(STEPS, future)
    closed = future["open"] == 0
    assert ahead.index.equals(future.index)
    for zero in (ahead.mean, ahead.std, ahead.quantile(0.99), ahead.interval(0.9)["lower"]):
        assert (zero[closed] == 0.0).all()
        assert (zero[~closed] != 0.0).all()
    assert (ahead.cdf(0.0)[closed] == 1.0).all()
    assert (ahead.cdf(-1e-9)[closed] == 0.0).all()
    assert (ahead.score(y[N:])["crps"][closed] == 0.0).all()
    assert (ahead.sample(5, random_state=0)[closed] == 0.0).all(axis=None)
    total = ahead.aggregate("sum")
    assert total.mean.iloc[0] == pytest.approx(ahead.mean[~closed].sum())
    assert total.var.iloc[0] == pytest.approx(ahead.cov.loc[~closed, ~closed].to_numpy().sum())
    least, most = ahead.aggregate("min"), ahead.aggregate("max")
    assert least.std.iloc[0] == least.mean.iloc[0] == 0.0 < most.std.iloc[0]
    by_day = ahead.aggregate("sum", freq="D")
    np.testing.assert_allclose(by_day.std, ahead.std, rtol=1e-9)
    np.testing.assert_allclose(ahead.decompose().drop(columns="total", errors="ignore")[closed], 0)


def test_weekdays_that_are_always_closed_are_left_out(rng):
    """As if the series had been given without them; other closed days are missing."""
    y, exog = shop(rng)
    fitted = model().fit(y[:N], exog[:N])
    ahead = fitted.forecast(STEPS, exog[N:])
    open_days = pd.offsets.CustomBusinessDay(weekmask="Mon Tue Wed Thu Fri Sat")
    own = y.where(exog["open"] == 1).asfreq(open_days)
    promotion = exog[["promotion"]].asfreq(open_days)
    n = int((own.index < DAYS[N]).sum())
    by_hand = Forecaster(LinearRegressor(), lags=2).fit(own[:n], promotion[:n])
    other = by_hand.forecast(len(own) - n, promotion[n:])
    some = exog["open"][other.index] == 1
    np.testing.assert_array_equal(ahead.mean[other.index][some], other.mean[some])
    times = other.index[some]
    np.testing.assert_array_equal(ahead.cov.loc[times, times], other.cov.loc[times, times])
    assert any(line.kind == "open" and "Sunday" in line for line in fitted.choices_)
    assert list(fitted.effects().index) == ["promotion"]
    assert exog["open"].asfreq(open_days)[:n].min() == 0
    assert "missing" not in fitted.summary()  # a holiday is closed
    y.iloc[9] = np.nan
    assert "1 missing" in model().fit(y[:N], exog[:N]).summary()


def test_hours_that_are_always_closed_are_left_out(rng):
    index = pd.date_range("2024-01-01", periods=24 * 20, freq="h")
    opened = (index.hour >= 8) & (index.hour < 18) & (index.day_of_week < 6)
    opened &= rng.random(len(index)) > 0.02
    y = pd.Series(np.where(opened, 40.0 + index.hour + rng.standard_normal(len(index)), 0.0), index)
    exog, n = pd.DataFrame({"open": opened * 1}, index), 24 * 18 + 20  # to 20 o'clock
    fitted = model(calendar="profile", seasonal_period=10).fit(y[:n], exog[:n])
    assert fitted.history_.index.freq.kwds["weekmask"] == "Mon Tue Wed Thu Fri Sat"
    assert any(line.kind == "open" and "08:00 to 18:00" in line for line in fitted.choices_)
    for at, ahead in (
        (n, fitted.forecast(20, exog[n : n + 20])),
        (n + 3, fitted.apply(y[: n + 3], exog[: n + 3]).forecast(17, exog[n + 3 : n + 20])),
        (n + 15, fitted.update(y[n : n + 15], exog[n : n + 15]).forecast(5, exog[n + 15 : n + 20])),
    ):
        assert ahead.index.equals(index[at : n + 20])
        assert (ahead.mean[~opened[at : n + 20]] == 0.0).all()
        some = opened[at : n + 20]
        assert (ahead.mean[some] - 40.0 - ahead.index.hour[some]).abs().max() < 1.0


@pytest.mark.parametrize(
    ("is_open", "left_out"),
    [
        (lambda index: index.day_of_week < 5, False),
        (lambda index: (index.hour >= 18) | (index.hour < 2), False),
        (lambda index: index.normalize() != pd.Timestamp("2024-01-04"), False),
        (lambda index: index.hour >= 10, True),
        (lambda index: index.hour < 23, True),
    ],
)
def test_opening_hours_to_midnight_and_beyond(rng, is_open, left_out):
    index = pd.date_range("2024-01-01", periods=24 * 15, freq="h")
    opened = np.asarray(is_open(index))
    y = pd.Series(np.where(opened, 30.0 + rng.standard_normal(len(index)), 0.0), index)
    exog, n = pd.DataFrame({"open": opened * 1}, index), 24 * 14
    fitted = model().fit(y[:n], exog[:n])
    assert (len(fitted.history_.index) < n) == left_out
    ahead = fitted.forecast(24, exog[n:])
    assert ahead.index.equals(index[n:])
    assert (ahead.mean[~opened[n:]] == 0.0).all()
    assert (ahead.mean[opened[n:]] > 25.0).all()


def test_closed_steps_in_cards_checks_and_averages(rng):
    y, exog = shop(rng)
    closed = exog["open"][N:] == 0
    both = Combination([model(), model(differences=1)]).fit(y[:N], exog[:N])
    ahead = both.forecast(STEPS, exog[N:])
    assert (ahead.mean[closed] == 0.0).all()
    assert (ahead.std[closed] == 0.0).all()
    assert (ahead.std[~closed] > 1.0).all()
    ahead = both.forecasters_[0].forecast(STEPS, exog[N:])
    assert "Forecast" in ahead._repr_html_()
    steps = ahead.check(n_samples=100, random_state=0).frame.index
    assert len(steps) == (~closed).sum() + 1  # and the sum


def test_every_time_has_a_row_in_tables_of_the_past(rng):
    y, exog = shop(rng, N + 21)
    fitted = model().fit(y[:N], exog[:N]).update(y[N : N + 7], exog[N : N + 7])
    n, closed = N + 7, exog["open"] == 0
    past = fitted.fitted()
    pd.testing.assert_index_equal(past.index, y.index[:n])
    for zero in (past.mean, past.std, past.residuals, past.interval(0.9)["lower"]):
        assert (zero[closed[:n]] == 0.0).all()
        assert (zero[~closed[:n]].iloc[9:] != 0.0).sum() > 0.8 * n - 20
    assert f"{past.mean.notna().sum()} of {n} times" in repr(past)
    ahead = fitted.forecast(14, exog[n:])
    parts = fitted.contributions(exog[n:])
    pd.testing.assert_index_equal(parts.index, y.index, check_names=False)
    np.testing.assert_allclose(parts.sum(axis=1)[n:], ahead.mean, rtol=1e-9)
    assert (parts[closed.to_numpy()] == 0.0).all(axis=None)
    both = Combination([fitted, model(differences=1)]).fit(y[:n], exog[:n])
    pd.testing.assert_index_equal(both.fitted().index, y.index[:n])


def test_members_have_the_same_open_times(rng):
    y, exog = shop(rng)
    both = Combination([model(), Combination([model(differences=1)])])
    assert both.open == "open"
    for other in (Forecaster(LinearRegressor(), lags=6), baselines.Naive()):
        with pytest.raises(InvalidArgument) as caught:
            Combination([both, other]).fit(y, exog)
        assert (caught.value.argument, caught.value.got) == ("forecasters", "'open' beside None")


def test_values_of_closed_times_are_as_good_as_missing(rng):
    y, exog = shop(rng, sundays=False)
    means = [model().fit(one[:N], exog[:N]).forecast(STEPS, exog[N:]).mean
             for one in (y, y.where(exog["open"] == 1))]  # fmt: skip
    pd.testing.assert_series_equal(*means)


def test_open_steps_have_the_widths_of_a_series_that_never_closes():
    inside, width = [], []
    for seed in range(16):
        y, exog = shop(np.random.default_rng(seed), 240 + STEPS, seed % 2 == 0)
        ahead = model().fit(y[:240], exog[:240]).forecast(STEPS, exog[240:])
        interval, some = ahead.interval(0.9), exog["open"][240:] == 1
        actual = y[240:]
        covered = (actual >= interval["lower"]) & (actual <= interval["upper"])
        assert covered[~some].all()
        inside += covered[some].tolist()
        width.append((interval["upper"] - interval["lower"])[some][-3:].mean())
    # of AR(1): 2 * 1.645 std / sqrt(1 - .6^2); correlated errors, four standard errors
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)
    assert np.mean(width) == pytest.approx(3.29 * 2.0 / 0.8, rel=0.08)


def test_every_way_onwards(rng, tmp_path):
    """At a later origin, from a file, in a backtest, and between scenarios."""
    y, exog = shop(rng, N + 2 * STEPS)
    fitted = model().fit(y[:N], exog[:N])
    fitted.save(tmp_path / "m")
    then = slice(N, N + 8)
    later, last = slice(N + 8, N + 15), exog.index[N + 7]
    assert last.day_of_week == 6  # after a closed one
    means = [
        load_model(tmp_path / "m").update(y[then], exog[then]).forecast(7, exog[later]).mean,
        fitted.apply(y[: N + 8], exog[: N + 8]).forecast(7, exog[later]).mean,
        fitted.update(y[then], exog[then]).forecast(7, exog[later]).mean,
    ]
    for mean, limit in zip(means, (1e-9, 0.02, 0.0), strict=True):  # nothing is learned by `apply`
        assert mean.index.equals(exog.index[later])
        np.testing.assert_allclose(mean, means[-1], rtol=limit)
    plan = exog[later].assign(promotion=1.0)
    both = fitted.scenarios({"base": exog[later], "plan": plan}, 7)
    change = (both["plan"] - both["base"]).mean
    closed, more = exog["open"][later] == 0, exog["promotion"][later] == 0
    assert (change[closed] == 0.0).all()
    np.testing.assert_allclose(change[more & ~closed], 8.0, atol=3.0)
    result = backtest(model(), y, 7, exog=exog, n_origins=3, refit=False)
    at = result.frame.set_index("time")
    is_closed = exog["open"].reindex(at.index) == 0
    assert (at["mean"][is_closed] == 0.0).all()
    assert is_closed.sum() >= 3


@pytest.mark.parametrize("aggregate", [None, "sum"])
def test_closed_steps_of_items_without_a_model(rng, aggregate):
    """One of few values, and one whose model fails: 0 where closed, and changes while open."""
    y, exog = shop(rng)
    whole = exog.assign(y=y).rename_axis("ds").reset_index()
    few, failed = whole[N - 5 : N].copy(), whole[:N].copy()
    few.loc[N - 5, ["y", "open"]] = 0  # so that four are left
    failed.loc[failed["open"].to_numpy() == 0, "y"] = 1.0
    past = {"whole": whole[:N], "few": few, "failed": failed}
    ids = [*past]
    frame = pd.concat([one.assign(unique_id=name) for name, one in past.items()])
    ahead = whole[N : N + 7].drop(columns="y")
    future = pd.concat([ahead.assign(unique_id=name) for name in ids])
    with pytest.warns(FailedSeriesWarning, match="1 of 3"):
        table = forecast_panel(
            frame, model(), 7, levels=(80,), exog=future, freq="D", aggregate=aggregate
        ).set_index("unique_id")
    closed = (ahead["open"] == 0).to_numpy()
    assert closed.any()
    for name in ids:
        figures = table.loc[[name]].filter(like="forecast_unc").to_numpy()
        if aggregate is None:
            assert (figures[closed] == 0.0).all()
            assert (figures[~closed] > 20.0).all()
            assert np.ptp(figures[~closed][0]) < 40.0  # not the 50 between open and closed days
        else:
            np.testing.assert_allclose(figures[0, 0], 50.0 * (~closed).sum(), rtol=0.2)


def test_scenarios_of_open_times_alone(rng):
    y, exog = shop(rng)
    fitted = model().fit(y[:N], exog[["open"]][:N])
    base = exog[["open"]][N:].copy()
    at = np.flatnonzero(base["open"] == 1)[2]
    plan = base.copy()
    plan.iloc[at] = 0
    both = fitted.scenarios({"base": base, "plan": plan}, STEPS)
    alone = fitted.forecast(STEPS, base)
    np.testing.assert_array_equal(both["base"].mean, alone.mean)
    change = both["plan"] - both["base"]
    same = np.arange(STEPS) != at
    assert change.mean.iloc[at] == pytest.approx(-alone.mean.iloc[at])
    assert change.std.iloc[at] == pytest.approx(alone.std.iloc[at])
    np.testing.assert_allclose(change.mean[same], 0.0, atol=1e-9)
    np.testing.assert_allclose(change.std[same], 0.0, atol=1e-6)
    with pytest.raises(InvalidArgument) as caught:
        fitted.effects()
    assert (caught.value.argument, caught.value.got) == ("exog", "it alone")


def refused(*arguments, **given):
    with pytest.raises(InvalidArgument) as caught:
        model(**given).fit(*arguments)
    return caught.value


def test_what_a_column_of_open_times_is(rng):
    y, exog = shop(rng)
    assert refused(y).argument == "open"
    assert refused(y, exog.rename(columns={"open": "is_open"})).argument == "open"
    assert refused(y, exog.replace({"open": {0: 2}})).argument == "exog"
    error = refused(y + 1.0, exog)
    assert (error.argument, error.got) == ("y", f"1 at {y.index[(exog['open'] == 0).argmax()]:%F}")
    frame = exog.assign(unique_id=1, y=y).rename_axis("ds").reset_index()
    for wrong in (["open"], exog["open"]):
        one = Forecaster(LinearRegressor(), lags=2, open=wrong)
        with pytest.raises(InvalidArgument) as caught:
            one.fit(y, exog)
        with pytest.raises(InvalidArgument) as of_panel:
            forecast_panel(frame[:N], one, STEPS, exog=frame[N:].drop(columns="y"))
        for error in (caught.value, of_panel.value):
            assert (error.argument, error.got) == ("open", type(wrong).__name__)
    fitted = model().fit(y[:N], exog[:N])
    with pytest.raises(InvalidArgument) as caught:  # a Sunday
        fitted.forecast(STEPS, exog[N:].assign(open=1))
    assert caught.value.argument == "exog"


def test_the_command_line_takes_the_column(rng, tmp_path):
    y, exog = shop(rng)
    past, future = tmp_path / "past.csv", tmp_path / "future.csv"
    exog[:N].assign(y=y[:N]).rename_axis("ds").to_csv(past)
    exog[N:].rename_axis("ds").to_csv(future)
    columns = ("--exog", "promotion", "--exog", "open", "--open", "open")
    out = tmp_path / "f.csv"
    given = ("--model", "linear", "--lags", "2", "--steps", str(STEPS), "--output", str(out))
    words = ("forecast", past, *columns, "--exog-future", future, *given)
    assert main([*map(str, words)]) == 0
    table = pd.read_csv(out, index_col="ds", parse_dates=True)
    closed = exog["open"][N:] == 0
    assert (table["mean"][closed] == 0.0).all()
    assert (table["mean"][~closed] > 20.0).all()


def test_a_season_of_seven_steps_where_sundays_are_left_out_is_remarked_on():
    days = pd.offsets.CustomBusinessDay(weekmask="Mon Tue Wed Thu Fri Sat")
    index = pd.date_range("2024-01-01", periods=40, freq=days)
    y = pd.Series(np.random.default_rng(0).normal(size=40), index)
    seven, six = (Forecaster(LinearRegressor(), lags=n, seasonal_period=n).fit(y) for n in (7, 6))
    (note,) = seven.notes_
    assert (note.kind, note.places, six.notes_) == ("week", (6,), [])


def test_two_shifts_a_day_are_two_spans_of_opening_hours(rng):
    index = pd.date_range("2024-01-01", periods=24 * 21, freq="h")
    at_work = ((index.hour >= 8) & (index.hour < 12)) | ((index.hour >= 14) & (index.hour < 18))
    opened = at_work & (index.day_of_week < 5)
    y = pd.Series(np.where(opened, 50.0 + rng.normal(size=len(index)), 0.0), index)
    exog, n = pd.DataFrame({"open": opened * 1}, index), 24 * 18
    fitted = model().fit(y[:n], exog[:n])
    assert len(fitted.history_.y) == opened[:n].sum()
    ahead = fitted.forecast(72, exog[n:])
    assert (ahead.mean[~opened[n:]] == 0.0).all()
    assert (ahead.mean[opened[n:]] > 45.0).all()
    assert any("from 08:00 to 12:00 and from 14:00 to 18:00" in line for line in fitted.choices_)


def test_coverage_of_a_panel_by_whether_it_was_open(rng):
    y, exog = shop(rng)
    table = exog.assign(y=y).rename_axis("ds").reset_index()
    panel = pd.concat([table.assign(unique_id=name) for name in "ab"])
    found = backtest_panel(panel, model(), 7, origins=3).coverage(by="open")
    one = backtest(model(), y, 7, exog=exog, origins=3).coverage(by="open")
    keys = ["held", "n"]
    np.testing.assert_allclose(found[keys] / [1, 2], one[keys])


def test_closed_quarters_of_an_hour_are_said_to_be_missing(rng):
    index = pd.date_range("2024-01-01", periods=4 * 24 * 3, freq="15min")
    opened = (index.hour >= 8) & (index.hour < 18)
    y = pd.Series(np.where(opened, rng.normal(50.0, 1.0, len(index)), 0.0), index)
    fitted = model().fit(y, pd.DataFrame({"open": opened * 1}, index))
    assert any("lags do not step over it; sums or means by the hour" in x for x in fitted.choices_)


@pytest.mark.parametrize(("argument", "size"), [("exog_std", "0.5"), ("exog_cov", "0.25")])
def test_whether_it_is_open_is_certain(rng, argument, size):
    y, exog = shop(rng)
    stds = 0.0 * exog[N:]
    stds.iloc[3, 1] = 0.5
    given = stds if argument == "exog_std" else np.diag(stds.to_numpy().ravel() ** 2)
    with pytest.raises(InvalidArgument) as error:
        model().fit(y[:N], exog[:N]).forecast(STEPS, exog[N:], **{argument: given})
    assert error.value.argument == argument
    assert error.value.got.startswith(f"{size} at {stds.index[3]:%Y-%m-%d}")
