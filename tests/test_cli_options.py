"""What the options of the command line do, against the calls of Python that they stand for."""

import io
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import forecast_unc.cli.commands
from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    backtest_panel,
    baselines,
    forecast_panel,
)
from forecast_unc.cli import main
from forecast_unc.cli.options import make_forecaster
from forecast_unc.cli.reading import chance
from forecast_unc.distributions.page import past
from tests.shell import refused

DAYS = pd.date_range("2024-01-01", periods=70, freq="D")
N = 60
HOLIDAYS = pd.DatetimeIndex(["2024-02-12", "2024-03-02"])


@pytest.fixture
def sales(rng) -> pd.DataFrame:
    """Sales and prices of 70 days."""
    price = 10 + rng.standard_normal(70)
    season = 5 * np.sin(2 * np.pi * np.arange(70) / 7)
    y = 50 + season - 2 * price + rng.standard_normal(70)
    return pd.DataFrame({"ds": DAYS, "y": y, "price": price})


@pytest.fixture
def folder(sales, tmp_path, monkeypatch):
    """A folder with the files of the tests, which the commands run in."""
    monkeypatch.chdir(tmp_path)
    sales[:N].to_csv("sales.csv", index=False)
    sales[["ds", "price"]].to_csv("prices.csv", index=False)
    shops = [
        sales.assign(shop=name, y=factor * sales["y"]) for name, factor in (("a", 1), ("b", 3))
    ]
    pd.concat([shop[:N] for shop in shops]).to_csv("shops.csv", index=False)
    shops[0].replace({"shop": {"a": None}}).to_csv("noid.csv", index=False)
    pd.concat(shops)[["shop", "ds", "price"]].to_csv("shop_prices.csv", index=False)
    (tmp_path / "holidays.txt").write_text("\n".join(map(str, HOLIDAYS.date)))
    return tmp_path


def printed(capsys, *arguments: str, code: int = 0, index: int | None = 0) -> pd.DataFrame:
    """The table that a command prints."""
    assert main([*arguments]) == code
    return pd.read_csv(io.StringIO(capsys.readouterr().out), index_col=index)


def error_of(capsys, *arguments: str) -> str:
    """The one line on standard error of a command that is wrong."""
    assert main([*arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("forecast-unc: ").rstrip("\n")


def series(frame: pd.DataFrame) -> pd.Series:
    return frame.set_index("ds")["y"].asfreq("D")


def parsed(*options: str) -> Forecaster:
    command = forecast_unc.cli.commands.forecast
    given = command.make_context("forecast", ["d.csv", "--steps", "1", *options]).params
    return make_forecaster(SimpleNamespace(**given))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {}),
        (["--model", "auto"], {}),
        (["--model", "gp"], {"regressor": GPRegressor()}),
        (["--model", "rvm"], {"regressor": RVMRegressor()}),
        (["--model", "reduced-rank"], {"regressor": ReducedRankGPRegressor()}),
        (["--max-train", "500"], {"max_train": 500}),
        (["--lags", "3"], {"lags": 3}),
        (["--differences", "1", "--differences", "12"], {"differences": (1, 12)}),
        (["--lower", "1", "--upper", "100"], {"lower": 1.0, "upper": 100.0}),
        (["--transform", "none", "--lower=-inf"], {"transform": None, "lower": -np.inf}),
        (["--transform", "log", "--period", "7"], {"transform": "log", "seasonal_period": 7}),
        (["--calendar", "none"], {"calendar": ()}),
        (["--calendar", "fourier", "--calendar", "month"], {"calendar": ("fourier", "month")}),
        (
            ["--calendar", "fourier", "--calendar", "holidays:DE-BY", "--calendar", "easter"],
            {"calendar": ("fourier", "holidays:DE-BY", "easter")},
        ),
        (["--outliers", "keep"], {"outliers": "keep"}),
        (["--seed", "7"], {"random_state": 7}),
    ],
)
def test_options_are_arguments_of_the_forecaster(options, expected):
    assert repr(parsed(*options)) == repr(Forecaster(**{"random_state": 0, **expected}))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], ["fourier"]),
        (["--lags", "2"], []),
        (["--calendar", "month"], ["month"]),
        (["--calendar", "holidays:US"], ["fourier", "holidays:US"]),
    ],
)
def test_holidays_stand_beside_the_calendar(folder, options, named):
    *names, days = parsed("--holidays", "holidays.txt", *options).calendar
    assert names == named
    assert days.equals(HOLIDAYS)


def test_a_missing_package_is_one_line(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    options = ["sales.csv", "--steps", "3", "--calendar", "holidays:FI"]
    message = "calendar='holidays:FI' needs the package holidays: install forecast_unc[holidays]."
    assert error_of(capsys, "forecast", *options) == message


def test_scenarios_are_rows_with_their_differences_to_the_first(folder, sales, capsys):
    dearer = sales.assign(price=sales["price"] * 1.05)
    dearer[["ds", "price"]].to_csv("dearer.csv", index=False)
    options = ["--model", "linear", "--lags", "2", "--exog", "price", "--output", "-"]
    options += ["--scenario", "base=prices.csv", "--scenario", "plan=dearer.csv"]
    table = printed(capsys, "forecast", "sales.csv", "--steps", "3", *options, "--plot", "p.png")
    assert table["scenario"].tolist() == ["base"] * 3 + ["plan"] * 3 + ["plan - base"] * 3
    base, plan, change = table["mean"].to_numpy().reshape(3, 3)
    np.testing.assert_allclose(change, plan - base)
    assert (table["std"][6:] < 0.5 * table["std"][:3].to_numpy()).all()
    total = printed(capsys, "forecast", "sales.csv", "--steps", "3", "--sum", "all", *options)
    np.testing.assert_allclose(total["mean"].iloc[-1], change.sum())


def test_stds_of_regressors_are_columns_of_the_files_ahead(folder, sales, capsys):
    dearer = sales.assign(price=sales["price"] * 1.05, off=0.5)
    dearer.drop(columns="y").to_csv("dearer.csv", index=False)
    options = ["--model", "linear", "--lags", "2", "--exog", "price", "--exog-std", "price=off"]
    options += ["--output", "-"]
    files = ["--scenario", "base=prices.csv", "--scenario", "plan=dearer.csv"]
    table = printed(capsys, "forecast", "sales.csv", "--steps", "3", *options, *files)
    _, plan, change = table["std"].to_numpy().reshape(3, 3)
    assert (change > 0.5).all()
    alone = printed(
        capsys, "forecast", "sales.csv", "--steps", "3", *options, "--exog-future", "dearer.csv"
    )
    np.testing.assert_allclose(alone["std"], plan)


@pytest.mark.parametrize(
    ("words", "got"), [("price", "'price'"), ("cost=off", "'cost=off'"), ("price=off", "'off'")]
)
def test_wrong_columns_of_stds_are_refused(folder, words, got):
    exog = ["--exog", "price", "--exog-future", "prices.csv", "--exog-std", words]
    error = refused("forecast", "sales.csv", "--steps", "3", *exog)
    assert (error.argument, error.got) == ("--exog-std", got)


def test_truth_values_of_a_regressor_are_1_and_0(folder, sales, capsys):
    sales["price"] = sales["price"] > 10.0
    sales[:N].to_csv("sales.csv", index=False)
    sales.drop(columns="y").to_csv("prices.csv", index=False)
    options = ["forecast", "sales.csv", "--steps", "3", "--model", "linear", "--lags", "1"]
    options += ["--exog", "price", "--exog-future", "prices.csv", "--output", "-"]
    found = printed(capsys, *options)
    sales = sales.astype({"price": int})
    sales[:N].to_csv("sales.csv", index=False)
    sales.drop(columns="y").to_csv("prices.csv", index=False)
    pd.testing.assert_frame_equal(printed(capsys, *options), found)


def test_regressors_of_the_future_are_picked_by_time(folder, sales, capsys):
    options = ["--lags", "2", "--exog", "price", "--exog-future", "prices.csv", "--output", "-"]
    table = printed(capsys, "forecast", "sales.csv", "--steps", "5", *options)
    exog = sales.set_index("ds")[["price"]].asfreq("D")
    ahead = (
        Forecaster(lags=2, random_state=0)
        .fit(series(sales[:N]), exog[:N])
        .forecast(5, exog[N : N + 5])
    )
    np.testing.assert_allclose(table["mean"], ahead.mean, rtol=1e-9)
    np.testing.assert_allclose(table["std"], ahead.std, rtol=1e-9)
    err = error_of(capsys, "forecast", "sales.csv", "--steps", "11", *options)
    assert err == (
        "--exog-future must have one row for each of the 11 steps after 2024-02-29; got none at "
        "2024-03-11. Write one row for each, with times as in data, or take fewer --steps."
    )
    pd.concat([sales, sales[-1:]]).to_csv("prices.csv", index=False)
    err = error_of(capsys, "forecast", "sales.csv", "--steps", "2", *options)
    assert "after 2024-02-29; got several at 2024-03-10. Write" in err


@pytest.mark.parametrize("how", ["W", "all"])
def test_sums_and_probabilities_are_those_of_the_joint_forecast(folder, sales, capsys, how):
    options = ["--lags", "2", "--sum", how, "--prob-above", "400", "--prob-above", "210"]
    options += ["--quantile", "0.3", "--quantile", "0.9", "--output", "-"]
    assert main(["forecast", "sales.csv", "--steps", "14", *options]) == 0
    out, err = capsys.readouterr()
    table = pd.read_csv(io.StringIO(out), index_col=0)
    partial = "not complete: 2024-03-03 (3 of 7 steps), 2024-03-17 (4 of 7 steps). The column"
    assert (partial in err) == (how == "W")
    ahead = Forecaster(lags=2, random_state=0).fit(series(sales[:N])).forecast(14)
    sums = ahead.aggregate("sum", freq=None if how == "all" else how, partial="keep")
    assert table.columns[0] == "steps"
    assert table["steps"].tolist() == ([14] if how == "all" else [3, 7, 4])
    np.testing.assert_allclose(table["mean"], sums.mean, rtol=1e-9)
    np.testing.assert_allclose(table["lower_95"], sums.interval(0.95)["lower"], rtol=1e-9)
    paths = sums.sample(20_000, random_state=0).to_numpy()
    for p in (0.3, 0.9):
        np.testing.assert_allclose(table[f"quantile_{p}"], sums.quantile(p), rtol=1e-9)
    for level in (400, 210):  # four standard errors of the paths
        np.testing.assert_allclose(
            table[f"above_{level}"], (paths > level).mean(axis=1), atol=0.015
        )


def test_what_is_printed_is_rounded_by_the_std(folder, sales, capsys):
    above = [word for value in ("30", "-200", "28", "90") for word in ("--prob-above", value)]
    asked = ["--lags", "2", *above, "--sum", "all"]
    command = ["forecast", "sales.csv", "--steps", "1", *asked]
    exact = printed(capsys, *command, "--output", "-").iloc[0]
    assert main(command) == 0
    row = dict(
        zip(*(line.split(",") for line in capsys.readouterr().out.splitlines()), strict=True)
    )
    assert 1 < exact["std"] < 10
    for name in ("mean", "std", "lower_80", "upper_95"):
        assert row[name] == f"{exact[name]:.2f}"
    assert row["steps"] == "1"
    assert exact["above_-200"] > 0.9999
    assert row["above_30"] == f"{exact['above_30']:.4f}"
    assert 0 < exact["above_90"] < 1e-4
    assert row["above_90"] == "<0.0001"
    assert [chance(p) for p in (0.0, 0.99994, 0.99996, 1.0)] == ["0", "0.9999", ">0.9999", "1"]


def test_a_picture_shows_a_season_and_a_half_of_the_past():
    weeks = pd.Series(1.0, pd.date_range("2020-01-05", periods=200, freq="W"))
    assert len(past(weeks[:190], weeks.index[190:194])) == 78
    assert len(past(weeks[:190], weeks.index[190:], horizons=15)) == 150
    assert len(past(weeks[:50], weeks.index[50:54])) == 50
    days = pd.Series(1.0, pd.date_range("2020-01-05", periods=200, freq="D"))
    assert len(past(days[:190], days.index[190:194])) == 24


def test_an_option_takes_one_value_each_time(folder, capsys):
    """Negative numbers and - are values."""
    assert parsed("--lags", "1", "--lags", "7", "--lower", "-inf").lags == (1, 7)
    assert parsed("--differences", "0").differences == 0
    assert parsed("--lags=3", "--lower=-2.5").lower == -2.5
    err = error_of(capsys, "forecast", "sales.csv", "--steps", "2", "--output")
    assert err.startswith("Option '--output' requires an argument.")
    err = error_of(capsys, "forecast", "sales.csv", "--steps", "2", "--lags", "1", "2")
    assert err.startswith("Got unexpected extra argument (2): an option that takes several values")


UNMET = [
    (["--sum", "Q"], "--sum", "'Q'"),
    (["--sum", "no"], "--sum", "'no'"),
    (["--exog", "price", "--exog-future", "sales.csv"], "--exog-future", "none at 2024-03-01"),
]


def test_what_is_asked_is_checked_before_the_work(folder, monkeypatch):
    monkeypatch.setattr(Forecaster, "fit", lambda *_: pytest.fail("fitted"))
    for options, argument, got in UNMET:
        error = refused("forecast", "sales.csv", "--steps", "2", "--lags", "2", *options)
        assert (error.argument, error.got[: len(got)]) == (argument, got)


@pytest.mark.parametrize("output", ["f.parquet", "f.csv", "-", None])
def test_panels_are_forecast_as_by_forecast_panel(folder, capsys, output):
    exog = ["--exog", "price", "--exog-future", "shop_prices.csv"]
    options = ["--id", "shop", "--lags", "2", "--coverage", "0.8", "--coverage", "0.975", *exog]
    written = [] if output is None else ["--output", output]
    assert main(["forecast", "shops.csv", "--steps", "3", *options, *written]) == 0
    out = capsys.readouterr().out
    if output == "f.parquet":
        table = pd.read_parquet(output)
    else:
        table = pd.read_csv(output if output == "f.csv" else io.StringIO(out), parse_dates=["ds"])
    frame = pd.read_csv("shops.csv", parse_dates=["ds"])
    future = pd.read_csv("shop_prices.csv", parse_dates=["ds"])
    expected = forecast_panel(
        frame,
        Forecaster(lags=2, random_state=0),
        3,
        id_col="shop",
        levels=(80, 97.5),
        exog=future[future["ds"].between(DAYS[N], DAYS[N + 2])],
    )
    assert list(table.columns) == list(expected.columns)
    assert table["shop"].tolist() == ["a"] * 3 + ["b"] * 3
    assert table["ds"].tolist() == expected["ds"].tolist()
    figures = [name for name in expected if name.startswith("forecast_unc")]
    width = (expected["forecast_unc-hi-80"] - expected["forecast_unc-lo-80"]).to_numpy() / 2
    # three digits of it are printed
    atol = 0.005 * width[:, None] if output is None else 1e-9 * expected[figures].abs().to_numpy()
    assert (np.abs(table[figures] - expected[figures]) <= atol).all(axis=None)
    if output is None:
        assert max(map(len, out.splitlines()[1].split(","))) <= len("2024-03-01")
    assert table["error"].isna().all()


@pytest.mark.parametrize("kinds", [("parquet", "csv"), ("csv", "parquet"), ("csv", "csv")])
def test_ids_of_csv_are_those_of_parquet(folder, capsys, kinds):
    """The text 7 of one file is the number 7 of the other."""
    for name, kind in zip(("shops", "shop_prices"), kinds, strict=True):
        frame = pd.read_csv(f"{name}.csv", parse_dates=["ds"])
        frame["shop"] = frame["shop"].map({"a": 7, "b": 10})
        write = {"csv": frame.to_csv, "parquet": frame.to_parquet}[kind]
        write(f"{name}.{kind}", index=False)
    options = ["--id", "shop", "--exog", "price", "--exog-future", f"shop_prices.{kinds[1]}"]
    command = ["forecast", f"shops.{kinds[0]}", "--steps", "3", "--lags", "2", *options]
    table = printed(capsys, *command, index=None)
    assert table["shop"].tolist() == [7] * 3 + [10] * 3
    assert table["error"].isna().all()


def test_remarks_on_series_of_a_panel_are_named(folder, capsys):
    frame = pd.read_csv("shops.csv")[["shop", "ds", "y"]]
    frame.loc[15, "y"] = 1000.0
    frame.to_csv("wild.csv", index=False)
    assert main(["forecast", "wild.csv", "--id", "shop", "--steps", "2", "--lags", "2"]) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"forecast-unc: {frame.loc[15, 'shop']}: ")
    assert "2024-01-16 (1,000)" in err
    assert err.count("\n") == 1


def test_a_panel_has_quantiles_and_no_median(folder, capsys):
    command = ["forecast", "shops.csv", "--id", "shop", "--steps", "2", "--lags", "2"]
    command += ["--output", "-", "--coverage", "0.8", "--coverage", "0.4"]
    quantiles = [word for p in ("0.9", "0.025", "0.97") for word in ("--quantile", p)]
    table = printed(capsys, *command, *quantiles)
    few = forecast_panel(
        pd.read_csv("shops.csv", parse_dates=["ds"])[["shop", "ds", "y"]],
        Forecaster(lags=2, random_state=0),
        2,
        id_col="shop",
        levels=(80, 94, 95),
    )
    assert [*table][-6:-3] == ["quantile_0.9", "quantile_0.025", "quantile_0.97"]
    assert table.filter(like="-hi-").columns.tolist() == [
        "forecast_unc-hi-40",
        "forecast_unc-hi-80",
    ]
    for p, name in ((0.9, "hi-80"), (0.025, "lo-95"), (0.97, "hi-94")):
        np.testing.assert_allclose(table[f"quantile_{p}"], few[f"forecast_unc-{name}"], rtol=1e-9)
    err = error_of(capsys, *command, "--quantile", "0.5")
    assert (
        err == "--quantile must be .005 from 0.5 or more with --id; got 0.5. The mean is beside it."
    )


def test_a_panel_is_printed_with_the_digits_that_tell_its_intervals_apart(folder, capsys):
    shops = pd.read_csv("shops.csv")
    shops["shop"] = shops["shop"].map({"a": 1234567.25, "b": 1234567.5})
    shops["y"] += 1e7  # the std is near 1
    shops.to_csv("high.csv", index=False)
    command = ["forecast", "high.csv", "--id", "shop", "--steps", "2", "--lags", "2"]
    table = printed(capsys, *command, index=None)
    exact = printed(capsys, *command, "--output", "-", index=None)
    assert table["shop"].tolist() == [1234567.25, 1234567.25, 1234567.5, 1234567.5]
    low, high = (f"forecast_unc-{end}-80" for end in ("lo", "hi"))
    width = exact[high] - exact[low]
    assert ((table[low] - exact[low]).abs() < 6e-3 * width).all()
    assert table[low].astype(str).str.len().max() < exact[low].astype(str).str.len().max()
    shops.loc[shops["shop"] == 1234567.5, "y"] -= 1e7 - 10
    shops.to_csv("high.csv", index=False)
    lengths = printed(capsys, *command, index=None)[low].astype(str).str.len().tolist()
    assert min(lengths[:2]) > 8 >= max(lengths[2:])  # each row has its own digits


def test_series_of_too_few_values_are_counted_beside_those_that_fail(folder, capsys):
    first = pd.read_csv("shops.csv")[:12].assign(shop="a")
    short = [first[:3].assign(shop=f"short {i}") for i in range(6)]
    flat = first.assign(shop="flat", y=3.0)
    every = pd.concat([*short, flat, first], ignore_index=True)
    command = ["forecast", "few.csv", "--id", "shop", "--steps", "2", "--lags", "1"]
    for names, code in (("flat", 1), ("", 0)):
        every[(every["shop"] != "flat") | (names == "flat")].to_csv("few.csv", index=False)
        assert main(command) == code
        lines = capsys.readouterr().err.splitlines()
        n = 7 + code
        assert (
            f"forecast-unc: 6 of {n} series have too few values for the model, see status" in lines
        )
        assert len(lines) == 1 + code


def test_series_that_fail_are_rows_and_an_exit_code(folder, capsys):
    frame = pd.read_csv("shops.csv")
    frame.drop(index=N + 5).to_csv("gaps.csv", index=False)
    command = ["forecast", "gaps.csv", "--id", "shop", "--steps", "2", "--lags", "2"]
    assert main(command) == 1
    out, err = capsys.readouterr()
    table = pd.read_csv(io.StringIO(out))
    assert table["shop"].tolist() == ["a", "a", "b", "b"]
    assert table["error"].notna().tolist() == [False, False, True, True]
    assert table["status"].str.partition(":")[0].tolist() == ["ok"] * 2 + ["the model failed"] * 2
    assert table["forecast_unc"].notna().all()
    assert err.startswith(
        "forecast-unc: 1 of 2 series could not be forecast by the model, see status; the first: b: "
    )
    assert " Pass --freq D: rows that are missing are then missing values, which" in err
    assert printed(capsys, *command, "--freq", "D")["error"].isna().all()
    backtest = ["backtest", "gaps.csv", "--id", "shop", "--steps", "1", "--origins", "2"]
    assert main([*backtest, "--lags", "2"]) == 1
    assert "1 of 2 series could not be backtested; the first: b: " in capsys.readouterr().err
    days = pd.date_range("2024-01-01", periods=24, freq="D")
    series = {"still": [0] * 24, "one": [1], "four": range(4), "long": range(24)}
    each = [pd.DataFrame({"shop": k, "ds": days[: len(y)], "y": y}) for k, y in series.items()]
    pd.concat(each).to_csv("short.csv", index=False)
    command = ["backtest", "short.csv", "--id", "shop", "--steps", "2", "--origins", "2"]
    assert main([*command, "--compare", "last_value"]) == 1
    out, err = capsys.readouterr()
    for said in (
        "2 of 4 series could not",
        "first: one: ValueError: y must",
        " four: ValueError: y",
    ):
        assert said in err
    assert out.endswith("MASE, MSIS: of series that changed in the past; others have no unit.\n")


def test_a_panel_has_the_frequency_that_is_given(folder, capsys):
    frame = pd.read_csv("shops.csv", parse_dates=["ds"])
    frame.drop(index=N + 5).to_csv("gaps.csv", index=False)
    command = ["forecast", "--id", "shop", "--steps", "2", "--lags", "2", "--freq"]
    exog = ["D", "gaps.csv", "--exog", "price", "--exog-future", "shop_prices.csv"]
    assert main([*command, *exog]) == 1
    assert "got no row of series 'b' at 2024-01-06. Add one, " in capsys.readouterr().err
    frame[frame["ds"].dt.day_of_week < 6].to_csv("open.csv", index=False)
    table = printed(capsys, *command, "Mon Tue Wed Thu Fri Sat", "open.csv", index=None)
    assert table["ds"].tolist() == ["2024-03-01", "2024-03-02"] * 2


def test_panels_are_backtested_as_by_backtest_panel(folder, capsys):
    options = ["--lags", "2", "--id", "shop", "--origins", "3", "--compare", "seasonal_naive"]
    table = printed(capsys, "backtest", "shops.csv", "--steps", "2", *options, "--output", "-")
    frame = pd.read_csv("shops.csv", parse_dates=["ds"])
    expected = backtest_panel(
        frame[["shop", "ds", "y"]],
        Forecaster(lags=2, random_state=0),
        2,
        id_col="shop",
        n_origins=3,
        compare={"seasonal_naive": baselines.SeasonalNaive()},
        coverage=(0.8, 0.95),
    )
    assert table.reset_index()["shop"].tolist() == expected.frame["shop"].tolist()
    np.testing.assert_allclose(table["crps"], expected.frame["crps"], rtol=1e-9)


def test_regressors_enter_a_backtest(folder, capsys):
    command = ["backtest", "sales.csv", "--steps", "1", "--origins", "8", "--refit", "8"]
    command += ["--lags", "7", "--compare", "none", "--output", "-"]
    crps = [
        printed(capsys, *command, *options, index=None)["crps"].mean()
        for options in ([], ["--exog", "price"])
    ]
    assert crps[1] < 0.8 * crps[0]  # the price is half of what varies


def test_a_saved_model_forecasts_without_learning(folder, sales, capsys, monkeypatch):
    sales[: N + 5].to_csv("newer.csv", index=False)
    command = ["forecast", "--steps", "3", "--output", "-"]
    first = printed(capsys, *command, "sales.csv", "--lags", "2", "--save", "model.npz")
    model = Forecaster(lags=2, random_state=0).fit(series(sales[:N]))
    monkeypatch.setattr(Forecaster, "fit", lambda *_: pytest.fail("fitted"))
    pd.testing.assert_frame_equal(
        printed(capsys, *command, "--load", "model.npz", "--plot", "p.png"), first
    )
    assert (folder / "p.png").read_bytes()[1:4] == b"PNG"
    later = printed(capsys, *command, "newer.csv", "--load", "model.npz")
    expected = model.update(series(sales[N : N + 5])).forecast(3)
    np.testing.assert_allclose(later["std"], expected.std, rtol=1e-9)
    assert later.index[0] == "2024-03-06"


UPDATED, APPLIED = (
    "the saved model is updated with ",
    "the saved model is applied, with nothing learned: ",
)


@pytest.mark.parametrize(
    ("rows", "factor", "said"),
    [
        (slice(None), 1, f"{UPDATED}10 values after 2024-02-29"),
        (slice(30, N + 1), 1, f"{UPDATED}1 value after 2024-02-29"),
        (slice(N, None), 1, f"{UPDATED}10 values after 2024-02-29"),
        (slice(N), 1, f"{UPDATED}0 values after 2024-02-29"),
        (slice(None), 2, f"{APPLIED}it was fitted on other values, first at 2024-01-01"),
        (
            slice(N - 1),
            1,
            f"{APPLIED}data run from 2024-01-01 to 2024-02-28, its series to 2024-02-29",
        ),
        (
            slice(N + 2, None),
            1,
            f"{APPLIED}data run from 2024-03-03 to 2024-03-10, its series to 2024-02-29",
        ),
    ],
)
def test_a_saved_model_is_updated_where_data_go_on(folder, sales, capsys, rows, factor, said):
    model = Forecaster(lags=2, random_state=0).fit(series(sales[:N]))
    model.save("model.npz")
    new = sales[rows].assign(y=factor * sales["y"][rows])
    new.to_csv("newer.csv", index=False)
    assert (
        main(["forecast", "newer.csv", "--steps", "3", "--load", "model.npz", "--output", "-"]) == 0
    )
    out, err = capsys.readouterr()
    assert err == f"forecast-unc: {said}\n"
    y = series(new)
    if said.startswith(APPLIED):
        model = model.apply(y)
    elif len(later := y.loc["2024-03-01":]):
        model.update(later)
    table = pd.read_csv(io.StringIO(out), index_col=0)
    np.testing.assert_allclose(table["std"], model.forecast(3).std, rtol=1e-9)


def test_a_saved_combination_is_applied_to_data(folder, sales, capsys):
    both = Combination([Forecaster(lags=1), Forecaster(lags=2)]).fit(series(sales[:N]))
    both.save("both.npz")
    command = ["forecast", "--steps", "3", "--load", "both.npz"]
    table = printed(capsys, *command, "sales.csv", "--output", "-")
    np.testing.assert_allclose(table["mean"], both.forecast(3).mean, rtol=1e-9)
    err = error_of(capsys, *command)
    assert err.startswith("data must be given for a Combination; got both.npz alone. Name the")


UNREAD = [
    (["--steps", "2", "--compare", "naive"], "'naive' may be last_value, the last value again"),
    (["--steps", "two"], "valid integer. Pass a whole number, such as --steps 12. See forecast"),
    ([], "Missing option '--steps'. Pass a whole number, such as --steps 12. See forecast-unc"),
    (
        ["--steps", "2", "--lags", "a"],
        "integer. Pass a whole number, such as --lags 12, once for each value. See ",
    ),
    (
        ["--steps", "2", "--coverage", "a"],
        "Pass a number, such as --coverage 0.9, once for each value. See forecast",
    ),
    (["--steps", "2", "--model", "arima"], "'rvm', 'reduced-rank'. See forecast-unc backtest "),
    (["--stepps", "2"], "No such option"),
]


def test_values_that_are_none_of_an_option_are_answered(folder, capsys):
    for options, message in UNREAD:
        assert message in error_of(capsys, "backtest", "sales.csv", *options)


APART = [
    (["--steps", "2"], "data", "none"),
    (["sales.csv", "--exog", "price"], "--exog-future", "none"),
    (["shops.csv", "--id", "shop", "--exog", "price"], "--exog-future", "none"),
    (["sales.csv", "--exog", "prise"], "--exog", "'prise'"),
    (["sales.csv", "--exog-future", "prices.csv"], "--exog", "none"),
    (["-", "--exog", "a", "--exog-future", "-"], "--exog-future", "- for both"),
    (["sales.csv", "--exog", "price", "--scenario", "prices.csv"], "--scenario", "'prices.csv'"),
    (
        ["sales.csv", "--exog", "price", "--scenario", "a=prices.csv", "--scenario", "a=b"],
        "--scenario",
        "'a' twice",
    ),
    (["sales.csv", "--scenario", "a=prices.csv"], "--exog", "none"),
    (
        ["sales.csv", "--exog", "price", "--scenario", "a=no.csv"],
        "--scenario a",
        "no.csv: No such file or directory",
    ),
    (
        ["sales.csv", "--exog-future", "prices.csv", "--scenario", "a=prices.csv"],
        "--exog-future",
        "prices.csv",
    ),
    (["shops.csv", "--id", "shop", "--plot", "p.png"], "--plot", "p.png"),
    (
        ["shops.csv", "--id", "shop", "--prob-above", "1", "--prob-above", "2"],
        "--prob-above",
        "1.0 2.0",
    ),
    (["shops.csv", "--id", "shop", "--sum", "W"], "--sum", "W"),
    (["sales.csv", "--quantile", "95"], "--quantile", "95"),
    (["shops.csv", "--id", "no"], "--id", "'no'"),
    (["--load", "m", "--lags", "1", "--lags", "2"], "--lags", "1 2"),
    (["--load", "holidays.txt"], "path", "holidays.txt, which is incomplete or of another kind"),
    (["sales.csv", "--save", "-"], "--save", "-"),
    (["sales.csv", "--save", "sales.csv"], "--save", "sales.csv"),
    (["--load", "m", "--save", "m"], "--save", "m"),
    (["sales.csv", "--prob-above", "nan"], "--prob-above", "nan"),
    (["sales.csv", "--jobs", "0"], "--jobs", "0"),
    (["no.csv"], "data", "no.csv: No such file or directory"),
    (["."], "data", ".: Is a directory"),
    (["--load", "no.npz"], "--load", "no.npz: No such file or directory"),
    (["sales.csv", "--holidays", "-"], "--holidays", "-: No such file or directory"),
    (["--load", "."], "--load", ".: Is a directory"),
    (
        ["sales.csv", "--exog", "price", "--exog-future", "no.csv"],
        "--exog-future",
        "no.csv: No such file or directory",
    ),
    (["sales.csv", "--calendar", "none", "--calendar", "month"], "--calendar", "none month"),
    (["sales.csv", "--max-train", "1"], "max_train", "1"),
    (["sales.csv", "--period", "1"], "seasonal_period", "1"),
    (["sales.csv", "--differences", "-1"], "differences", "-1"),
    (["sales.csv", "--lower", "200"], "lower", "200, and y is "),
    (["sales.csv", "--lower", "nan"], "lower", "nan"),
    (["noid.csv", "--id", "shop"], "--id", "none in column 'shop' on line 2"),
    (["sales.csv", "--target", "ds"], "--time, --target, --id and --exog", "'ds' twice"),
    (["sales.csv", "--coverage", "80"], "coverage", "80.0"),
]


def test_options_that_do_not_go_together_are_refused(folder):
    for words, argument, got in APART:
        error = refused("forecast", *words, "--steps", "2")
        assert (error.argument, error.got[: len(got)]) == (argument, got)


def test_names_of_tables_that_are_not_written_are_refused(folder):
    for name in ("f.xlsx", "f.JSON", "f.parquet.gz"):
        for command in ("forecast", "backtest"):
            error = refused(command, "sales.csv", "--steps", "2", "--output", name)
            assert (error.argument, error.got) == ("--output", name)
        assert not (folder / name).exists()


@pytest.mark.parametrize("name", ["F.CSV", "f.csv.gz", "f.txt", "f"])
def test_names_of_csv_are_written_as_such(folder, name):
    assert main(["forecast", "sales.csv", "--steps", "2", "--lags", "2", "--output", name]) == 0
    written = pd.read_csv(name, index_col=0)
    assert len(written) == 2
    assert written.columns[0] == "mean"
    assert (folder / name).read_bytes().startswith(b"ds,mean") != name.endswith(("gz", "xz"))


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        (
            slice(2),
            "for its frequency to be inferred; got 2. Pass --freq, for example --freq D.",
        ),
        ([*range(N), *range(2 * N - 1, N - 1, -1)], "out of place. Sort its rows by time."),
    ],
)
def test_the_first_series_that_fails_is_told_in_options(folder, capsys, rows, remedy):
    pd.read_csv("shops.csv").iloc[rows].to_csv("bad.csv", index=False)
    command = ["forecast", "bad.csv", "--id", "shop", "--steps", "2", "--lags", "2"]
    assert main(command) == 1
    assert capsys.readouterr().err.endswith(f"{remedy}\n")


def test_backtest_says_how_to_refit(folder, capsys):
    err = error_of(capsys, "backtest", "sales.csv", "--steps", "2", "--refit", "0")
    assert err == (
        "--refit must be a whole number, at least 1; got 0. 1 fits at every origin, as many as "
        "--origins at the first alone."
    )


def test_a_saved_model_with_regressors_needs_those_ahead_and_no_data(folder, capsys):
    exog = ["--exog", "price", "--exog-future", "prices.csv"]
    command = ["forecast", "--steps", "3", "--output", "-"]
    first = printed(capsys, *command, "sales.csv", "--lags", "2", *exog, "--save", "m.npz")
    pd.testing.assert_frame_equal(printed(capsys, *command, "--load", "m.npz", *exog), first)
    for data in ([], ["sales.csv"]):
        assert error_of(capsys, *command, *data, "--load", "m.npz") == (
            "--exog must be given for a model with regressors, price; got none. Pass --exog price "
            "--exog-future FILE, which holds them at the steps ahead."
        )


def test_parquet_that_cannot_be_written_is_refused_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr(Forecaster, "fit", lambda *_: pytest.fail("fitted"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    arguments = ["sales.csv", "--steps", "2", "--output", "f.parquet"]
    assert error_of(capsys, "forecast", *arguments).startswith(
        "--output must be CSV where pyarrow is missing; got f.parquet, which is Parquet. Install"
    )


def test_periods_are_written_to_parquet_as_their_first_days(folder, capsys):
    rows = [f"{2000 + i // 4},{1 + i % 4},{i % 5}" for i in range(40)]
    (folder / "q.csv").write_text("year,quarter,y\n" + "\n".join(rows) + "\n")
    options = ["--time", "year", "--time", "quarter", "--steps", "2", "--lags", "2"]
    assert main(["forecast", "q.csv", *options, "--output", "f.parquet"]) == 0
    written = pd.read_parquet("f.parquet")
    assert written.index.tolist() == [pd.Timestamp("2010-01-01"), pd.Timestamp("2010-04-01")]
    assert written.index.name == "ds"


@pytest.mark.parametrize("watched", [True, False])
def test_progress_is_shown_to_those_who_look(folder, capsys, monkeypatch, watched):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched, raising=False)
    assert main(["forecast", "sales.csv", "--steps", "2", "--lags", "2"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    line = "forecast-unc: forecasting 2 steps after 60 values ...\n"
    assert err == (line if watched else "")


def test_warnings_and_interrupts_are_one_line(folder, capsys, monkeypatch):
    def run(_):
        import warnings

        warnings.simplefilter("always")
        warnings.warn("not\nconverged", stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(forecast_unc.cli.options, "check_forecast", run)
    assert main(["forecast", "sales.csv", "--steps", "2"]) == 130
    assert capsys.readouterr().err == "forecast-unc: not converged\nforecast-unc: interrupted\n"


@pytest.mark.slow
def test_a_shell_pipes_both_ways_through_the_module(folder):
    program = [sys.executable, "-W", "error", "-m", "forecast_unc.cli"]
    command = [*program, "forecast", "-", "--steps", "40"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "sales.csv").open() as data:
        run = subprocess.Popen(
            [*command, "--lags", "2", "--output", "-"],
            stdin=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert run.stdout is not None
        run.stdout.close()  # nobody reads
        err = run.communicate()[1]
    assert err == b""
    assert run.returncode == 141


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y"])
def test_dates_with_the_year_last_are_read_where_they_are_clear(form, tmp_path, capsys):
    times = pd.date_range("2024-01-01", periods=40, freq="D")
    y = np.random.default_rng(0).normal(10.0, 1.0, 40)
    path = tmp_path / "y.csv"
    pd.DataFrame({"ds": times.strftime(form), "y": y}).to_csv(path, index=False)
    assert main(["forecast", str(path), "--steps", "1", "--lags", "1"]) == 0
    assert "2024-02-10" in capsys.readouterr().out
    pd.DataFrame({"ds": times[:12].strftime(form), "y": y[:12]}).to_csv(path, index=False)
    asked = ["forecast", str(path), "--steps", "1", "--lags", "1"]
    assert main(asked) == 2
    mark = form[2]
    ways = [f"--date-format {a}{mark}{b}{mark}%Y" for a, b in (("%d", "%m"), ("%m", "%d"))]
    assert f"Pass {ways[0]} or {ways[1]}." in capsys.readouterr().err
    assert main([*asked, "--date-format", form]) == 0
    assert "2024-01-13" in capsys.readouterr().out
    assert main([*asked, "--date-format", "%Y"]) == 2
    assert "--time must hold dates as %Y; got" in capsys.readouterr().err
    for unclear in ("DD.MM.YYYY", "%Y-%m-%d"):
        assert main([*asked, "--date-format", unclear]) == 2
        assert f"dates as {unclear}; got" in (err := capsys.readouterr().err)
        assert err.endswith(f"Pass {ways[0]} or {ways[1]}.\n")
    pd.DataFrame({"ds": times.strftime(form), "y": y}).to_csv(path, index=False)
    assert main([*asked, "--date-format", "DD.MM.YYYY"]) == 2
    assert capsys.readouterr().err.endswith(f". Pass --date-format {form}, or leave it out.\n")
    assert main([*asked, "--date-format", "%G-W%V"]) == 2
    assert "--date-format must be one of strptime; got %G-W%V: ISO year" in capsys.readouterr().err


def test_few_dates_ahead_are_read_as_those_of_the_data(tmp_path, capsys):
    """The first days of a month are no more ambiguous than the file they belong to."""
    times = pd.date_range("2024-01-01", periods=31, freq="D")
    y = np.random.default_rng(0).normal(10.0, 1.0, 31)
    data, ahead = tmp_path / "y.csv", tmp_path / "ahead.csv"
    columns = {"ds": times.strftime("%d.%m.%Y"), "y": y, "x": y.round()}
    pd.DataFrame(columns).to_csv(data, index=False)
    asked = ["forecast", str(data), "--steps", "2", "--lags", "1", "--exog", "x"]
    asked += ["--exog-future", str(ahead)]
    ahead.write_text("ds,x\n01.02.2024,9\n02.02.2024,11\n")
    assert main(asked) == 0
    assert "2024-02-02" in capsys.readouterr().out
    ahead.write_text("ds,x\n2024-02-01,9\n2024-02-02,yes\n")
    assert main(asked) == 2
    assert f"got 'yes' in column 'x' on line 3 of {ahead}. Write the column as" in (
        capsys.readouterr().err
    )


def test_decimal_commas_are_named(tmp_path, capsys):
    path = tmp_path / "y.csv"
    path.write_text("ds;y\n2024-01-01;1.234,50\n2024-01-02;2,5\n")
    asked = ["forecast", str(path), "--steps", "1", "--sep", ";"]
    assert main(asked) == 2
    remedy = "If the comma is the decimal mark, pass --decimal , --thousands ."
    assert remedy in capsys.readouterr().err


def test_a_season_too_long_for_sarimax_is_answered_with_another_baseline(folder, capsys):
    hours = pd.date_range("2024-01-01", periods=90, freq="h")
    y = 10.0 + np.sin(np.arange(90.0))
    pd.DataFrame({"ds": hours, "y": y}).to_csv("hours.csv", index=False)
    command = ["backtest", "hours.csv", "--steps", "2", "--origins", "1", "--lags", "2"]
    assert "--compare ets" in error_of(capsys, *command, "--compare", "sarimax")


def test_empty_names_of_files_are_refused(folder, capsys):
    command = ["forecast", "sales.csv", "--steps", "1"]
    for option in ("--output", "--plot", "--summary", "--save"):
        assert error_of(capsys, *command, option, "").startswith(f"{option} must ")
    assert error_of(capsys, "forecast", "", "--steps", "1").startswith("data must ")


def test_coverage_by_groups(folder, sales, capsys):
    words = ["backtest", "sales.csv", "--steps", "7", "--origins", "2", "--lags", "1"]
    words += ["--model", "linear", "--compare", "none", "--coverage-by"]
    assert main([*words, "weekday", "--coverage-by", "step"]) == 0
    _, _, shown = capsys.readouterr().out.partition("Coverage by weekday\n")
    assert "Coverage by step\n" in shown
    days = [line.split()[-8] for line in shown.splitlines()[3:10]]
    assert days == sales["ds"][:7].dt.day_name().tolist()
    for by, got in (("price", "'price'"), ("hour", "'hour' of times")):
        error = refused(*words, by)
        assert error.argument in ("by", "--coverage-by")
        assert error.got.startswith(got)
    assert main([*words, "weekday", "--origins", "1"]) == 0
    assert "Too few origins for a test of the groups" in capsys.readouterr().out
    assert main([*words, "hour"]) == 2
    assert capsys.readouterr().err.startswith("forecast-unc: --coverage-by must be a part of the")
