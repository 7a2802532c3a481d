"""What the command line reads: files, columns that make a time, missing values and rows."""

import io
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from forecast_unc.cli import main
from forecast_unc.cli.commands import forecast
from forecast_unc.cli.dates import converted
from forecast_unc.cli.reading import read_holidays, read_panel, read_series
from tests.shell import refused

NOAA = Path(__file__).parent / "reference" / "co2_mm_mlo.csv"
OF_NOAA = ["--comment", "#", "--time", "year", "--time", "month"]
OF_NOAA += ["--target", "average", "--missing", "-99.99"]
DAYS = pd.date_range("2024-01-01", periods=6, freq="D")
FRAME = pd.DataFrame({"ds": DAYS, "y": [1.5, 2.0, 4.0, 3.5, 5.0, 4.5]})


def asked(path: Path, *options: str) -> SimpleNamespace:
    """What a command line says of a file."""
    given = forecast.make_context("forecast", [str(path), "--steps", "1", *options]).params
    return SimpleNamespace(**given)


def repeated(option: str, values: Iterable[str]) -> list[str]:
    """An option that is given once for each value."""
    return [word for value in values for word in (option, value)]


def error_of(capsys, arguments: list[str]) -> str:
    """The one line on standard error of a command that is wrong."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("forecast-unc: ")
    return err.removeprefix("forecast-unc: ").rstrip("\n")


def piped(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("form", ["%Y%m%d", "%d%m%Y", "%y%m%d"])
def test_dates_of_digits_alone_have_a_format(form, tmp_path):
    """Also where they were read as numbers, without the zero of 01012024."""
    path = tmp_path / "digits.csv"
    FRAME.assign(ds=FRAME["ds"].dt.strftime(form)).to_csv(path, index=False)
    y, _ = read_series(asked(path, "--date-format", form))
    pd.testing.assert_index_equal(y.index, DAYS, check_names=False, exact=False)


def test_blanks_around_names_are_none_of_them(tmp_path):
    path = tmp_path / "blanks.csv"
    path.write_text(" ds , y \n2024-01-01, 1.5\n2024-01-02, 2.0\n")
    y, _ = read_series(asked(path, "--freq", "D"))
    assert y.name == "y"
    assert y.tolist() == [1.5, 2.0]


def test_a_file_of_noaa_is_read_as_it_comes(capsys):
    y, exog = read_series(asked(NOAA, *OF_NOAA))
    assert exog is None
    lines = [line for line in NOAA.read_text().splitlines() if not line.startswith("#")]
    rows = [line.split(",") for line in lines[1:]]
    assert [f"{t.year},{t.month}" for t in y.index] == [",".join(row[:2]) for row in rows]
    expected = [np.nan if row[3] == "-99.99" else float(row[3]) for row in rows]
    np.testing.assert_array_equal(y, expected)
    assert np.isnan(expected).sum() == 3
    assert y.index.freqstr == "MS"
    options = [*OF_NOAA, "--steps", "2", "--lags", "1", "--lags", "12"]
    assert main(["forecast", str(NOAA), *options]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert printed["ds"].tolist() == ["2002-01-01", "2002-02-01"]
    assert printed["mean"].between(368, 376).all()


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (0, "Skip its comments with --comment '#'."),
        (2, "--time must name a column of {path}; got 'ds'. The file has 'year', 'month', "),
        (6, "--target must name a column of {path}; got 'y'. The file has 'year', 'month', "),
    ],
)
def test_what_a_file_of_noaa_needs_is_said(capsys, left_out, message):
    taken = 4 if left_out == 2 else 2  # the time has two columns
    options = OF_NOAA[:left_out] + OF_NOAA[left_out + taken :]
    err = error_of(capsys, ["forecast", str(NOAA), *options, "--steps", "2"])
    assert message.format(path=NOAA) in err


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("y.csv", {}),
        ("y.csv.gz", {}),
        ("y.parquet", {}),
        ("named_index.parquet", {}),
        ("y.tsv", {"sep": "\\t"}),
        ("y.txt", {"sep": "\\s+"}),
        ("y.csv", {"sep": ";", "decimal": ","}),
    ],
)
def test_each_kind_of_file_holds_the_same_series(tmp_path, name, options):
    path = tmp_path / name
    written = {"sep": {"\\t": "\t", "\\s+": "  "}.get(options.get("sep"), options.get("sep", ","))}
    if name.startswith("named"):
        FRAME.set_index("ds").to_parquet(path)
    elif name.endswith("parquet"):
        FRAME.to_parquet(path)
    elif written["sep"] == "  ":
        path.write_text("\n".join(f"{t.date()}   {y}" for t, y in FRAME.to_numpy()))
        path.write_text("ds  y\n" + path.read_text())
    else:
        FRAME.to_csv(path, index=False, decimal=options.get("decimal", "."), **written)
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    y, _ = read_series(asked(path, *words))
    assert y.index.freqstr == "D"
    pd.testing.assert_series_equal(
        y, FRAME.set_index("ds")["y"], check_freq=False, check_index_type=False
    )


def test_standard_input_is_csv_or_parquet(monkeypatch):
    parquet = io.BytesIO()
    FRAME.to_parquet(parquet)
    for content in (FRAME.to_csv(index=False).encode(), parquet.getvalue()):
        piped(monkeypatch, content)
        y, _ = read_series(asked(Path("-")))
        assert y.tolist() == FRAME["y"].tolist()
        assert y.index[0] == DAYS[0]


def test_parquet_keeps_the_zone_of_its_times(tmp_path):
    days = pd.date_range("2024-03-29", periods=5, freq="D", tz="Europe/Oslo")  # summer begins
    FRAME[:5].assign(ds=days).to_parquet(tmp_path / "d.parquet")
    y, _ = read_series(asked(tmp_path / "d.parquet"))
    assert y.index.tolist() == days.tolist()
    assert str(y.index.tz) == "Europe/Oslo"
    assert y.index.freqstr == "D"


def test_a_pipe_with_a_name_is_read_once(tmp_path):
    """As of ``<(zcat data.csv.gz)``."""
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=FRAME.to_csv, args=(tmp_path / "pipe",), kwargs={"index": False})
    writer.start()
    y, _ = read_series(asked(tmp_path / "pipe"))
    writer.join()
    assert y.tolist() == FRAME["y"].tolist()


def test_an_error_of_standard_input_names_its_line(monkeypatch, capsys):
    piped(monkeypatch, b"ds,y\n# from here\n\n2024-01-01,1\n2024-01-02,x # odd\n")
    err = error_of(capsys, ["forecast", "-", "--comment", "#", "--steps", "2"])
    assert err == (
        "--target must hold numbers; got 'x ' in column 'y' on line 5. Correct the value, or pass "
        "--missing x if it stands for none."
    )
    piped(monkeypatch, b"")
    err = error_of(capsys, ["forecast", "-", "--steps", "2"])
    assert "got standard input, which is empty. Look at the program that should" in err


@pytest.mark.parametrize(
    ("text", "time", "first"),
    [
        ("Jahr,Monat,y\n2023,12,1\n2024,1,2\n2024,2,3\n", "Jahr,Monat", "2023-12-01"),
        ("a,b,c,y\n2024,2,28,1\n2024,2,29,2\n2024,3,1,3\n", "a,b,c", "2024-02-28"),
        (
            "a,b,c,h,y\n2024,12,31,23,2\n2025,1,1,0,3\n2025,1,1,1,3\n",
            "a,b,c,h",
            "2024-12-31 23:00",
        ),
        (
            "date,time,y\n2024-01-31,23:30,1\n2024-02-01,00:00,2\n2024-02-01,00:30,2\n",
            "date,time",
            "2024-01-31 23:30",
        ),
    ],
)
def test_several_columns_make_the_time(tmp_path, text, time, first):
    (tmp_path / "d.csv").write_text(text)
    y, _ = read_series(asked(tmp_path / "d.csv", *repeated("--time", time.split(","))))
    freq = {"Jahr,Monat": "MS", "a,b,c": "D", "a,b,c,h": "h", "date,time": "30min"}[time]
    assert y.index.tolist() == pd.date_range(first, periods=3, freq=freq).tolist()
    assert y.index.name == "ds"


def test_a_year_and_a_quarter_are_periods(tmp_path):
    (tmp_path / "d.csv").write_text("year,Quarter,y\n2023,4,1\n2024,1,2\n2024,2,2\n")
    y, _ = read_series(asked(tmp_path / "d.csv", "--time", "year", "--time", "Quarter"))
    assert y.index.equals(pd.PeriodIndex(["2023Q4", "2024Q1", "2024Q2"], freq="Q"))


NO_TIME = [
    (
        "year,month,y\n2024,12,1\n2024,13,1\n",
        "year,month",
        "--time",
        "2024, 13 in columns 'year', 'month' on line 3",
    ),
    (
        "month,year,y\n1,2024,1\n",
        "month,year",
        "--time",
        "1, 2024 in columns 'month', 'year' on line 2",
    ),
    (
        "year,month,y\n58,1,1\n",
        "year,month",
        "--time",
        "58, 1 in columns 'year', 'month' on line 2",
    ),
    (
        "year,month,y\n2024,,1\n",
        "year,month",
        "--time",
        "2024, nan in columns 'year', 'month' on line 2",
    ),
    ("year,q,y\n2024,5,1\n", "year,q", "--time", "2024, 5 in columns 'year', 'q' on line 2"),
    ("year,month,y\n2024,1,1\n", "year,day", "--time", "'day'"),
    ("year,month,y\n2024,1,1\n", "year,", "--time", "''"),
    ("a,b,y\nJan,2024,1\nFeb,2024,2\n", "a,b", "--time", "'Jan 2024' in column 'ds' on line 2"),
    ("a,b,c,d,e,f,g,y\n2024,1,1,1,1,1,1,1\n", "a,b,c,d,e,f,g", "--time", "7"),
]


def test_columns_that_make_no_time_are_named(tmp_path):
    path = tmp_path / "d.csv"
    for text, time, argument, got in NO_TIME:
        path.write_text(text)
        words = repeated("--time", time.split(","))
        error = refused("forecast", path, *words, "--steps", "1")
        assert (error.argument, error.got[: len(got)]) == (argument, got)


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (["1.0", "-99.99", "3", "-9.990"], ("-99.99", "-9.99")),
        (["1.0", "n.d.", "3", ""], ("n.d.",)),
        (["1.0", "-99.99", "3", "M"], ("M", "-99.99")),
    ],
)
def test_what_stands_for_a_missing_value(tmp_path, values, missing):
    path = tmp_path / "d.csv"
    rows = [f"2024-01-0{i},{value}" for i, value in enumerate(values, 1)]
    path.write_text("ds,y\n" + "\n".join(rows) + "\n")
    y, _ = read_series(asked(path, *repeated("--missing", missing)))
    np.testing.assert_array_equal(y, [1.0, np.nan, 3.0, np.nan])


@pytest.mark.parametrize("mark", [";", ";;", " ; "])
def test_rows_of_separators_alone_are_none(tmp_path, capsys, mark):
    path = tmp_path / "d.csv"
    rows = [mark, *(f"{day}.01.2024;{day};" for day in range(1, 20)), "", mark, mark]
    path.write_text("ds;y;\n" + "\n".join(rows) + "\n")
    y, _ = read_series(asked(path, "--sep", ";"))
    np.testing.assert_array_equal(y, np.arange(1, 20))
    path.write_text("ds;y;\n" + "\n".join([*rows, "20.01.2024;x;"]) + "\n")
    err = error_of(capsys, ["forecast", str(path), "--sep", ";", "--steps", "1"])
    assert "got 'x' in column 'y' on line 25" in err


def test_whole_numbers_above_a_row_of_separators_count(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("ds,y\n1,3\n2,5\n3,4\n,\n")
    assert read_series(asked(path))[0].index.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "options", "read"),
    [
        (["1.234,5", "999,5", "-12.345.678"], ["--decimal", ",", "--thousands", "."],
         [1234.5, 999.5, -12345678]),
        (["1.234", "2.345", "3.456"], ["--decimal", ",", "--thousands", "."], [1234, 2345, 3456]),
        (['"1,234.5"', '"2,345"', "7"], ["--thousands", ","], [1234.5, 2345, 7]),
        (["1'234.5", "2'345", "7"], ["--thousands", "'"], [1234.5, 2345, 7]),
        (["\u22125.97", "\u20131e\u22122", "-2"], [], [-5.97, -0.01, -2]),
        (["\u22125.234,5", "999,5", "\u2013"], ["--decimal", ",", "--thousands", ".", "--missing",
         "\u2013"], [-5234.5, 999.5, np.nan]),
        (["1", "\u221299", "3"], ["--missing", "\u221299"], [1, np.nan, 3]),
        (["12,5", "k.A.", "7,25"], ["--decimal", ",", "--missing", "k.A."], [12.5, np.nan, 7.25]),
    ],
)  # fmt: skip
def test_numbers_of_spreadsheets(tmp_path, values, options, read):
    path = tmp_path / "d.csv"
    sep = ";" if "--decimal" in options else ","
    rows = [f"2024-01-0{i}{sep}{value}" for i, value in enumerate(values, 1)]
    path.write_text(f"ds{sep}y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    np.testing.assert_array_equal(read_series(asked(path, "--sep", sep, *options))[0], read)


UNSURE = [
    ("1.720", ["--decimal", ","], "If . separates thousands, pass --thousands ."),
    ("1.720,74", ["--decimal", ","], "If . separates thousands, pass --thousands ."),
    ("1.720.740", [], "If . separates thousands, pass --thousands . --decimal ,"),
    ("1.72", ["--decimal", ",", "--thousands", "."], "Correct the value."),
    ("\u22125.97 kg", [], "Remove the unit kg, or pass --remove kg, which takes it off."),
    ("1\u20132", [], "Correct the value, or pass --missing 1-2 if it stands for none."),
]


def test_what_may_be_thousands_is_not_guessed(tmp_path):
    path = tmp_path / "d.csv"
    for value, options, remedy in UNSURE:
        path.write_text(f"ds;y\n2024-01-01;{value}\n2024-01-02;{value}\n")
        error = refused("forecast", path, "--sep", ";", *options, "--steps", "1")
        assert error.got == f"{value!r} in column 'y' on line 2"
        assert error.remedy == remedy


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        (["1.360", "980", "", "1.000"], True),
        (["980", "-1.360"], True),
        (["1.360", "1.370"], False),  # of decimals all of one length nobody knows
        (["0.360", "980"], False),
        (["1.36", "1.370", "980"], False),
        (["1.360", "1980"], False),
    ],
)
def test_points_that_look_like_thousands_are_named(tmp_path, values, warned):
    path = tmp_path / "d.csv"
    rows = [f"2024-01-0{i},{value}" for i, value in enumerate(values, 1)]
    path.write_text("# of mine\nds,y\n" + "\n".join(rows) + "\n")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        read_series(asked(path, "--comment", "#", "--freq", "D"))
    assert bool(said) == warned
    if warned:
        value, number = next((v, i) for i, v in enumerate(values, 3) if "." in v)
        assert str(said[0].message) == (
            f"column 'y' holds {value} on line {number} and numbers of three digits or fewer, as "
            f"if points separated thousands; it is read as {float(value):g}. Pass --thousands . "
            "--decimal , if they do."
        )


def test_thousands_and_decimals_have_marks_of_their_own(tmp_path, capsys):
    path = tmp_path / "d.csv"
    FRAME.to_csv(path, index=False)
    arguments = ["forecast", str(path), "--steps", "1", "--thousands"]
    rule = "--thousands must be another mark than --decimal; got "
    assert error_of(capsys, [*arguments, "."]) == (
        f"{rule}'.', the default of --decimal. Give --decimal , as well."
    )
    both = error_of(capsys, [*arguments, ",", "--decimal", ","])
    assert both == f"{rule}',' for both. Leave one out."


@pytest.mark.parametrize("freq", ["D", "1D"])
def test_rows_that_are_missing_become_missing_values(tmp_path, capsys, freq):
    path = tmp_path / "d.csv"
    FRAME.assign(x=range(6)).drop(2).to_csv(path, index=False)
    y, _ = read_series(asked(path, "--freq", freq))
    np.testing.assert_array_equal(y, [1.5, 2.0, np.nan, 3.5, 5.0, 4.5])
    assert y.index.freqstr == "D"
    ahead = ["--exog", "x", "--exog-future", str(path)]
    assert error_of(capsys, ["forecast", str(path), "--steps", "1", "--freq", freq, *ahead]) == (
        "--exog must have a value at each time of --freq; got no row for 2024-01-03. Add it, with "
        "the target left empty if it is not known."
    )
    err = error_of(capsys, ["forecast", str(path), "--steps", "1"])
    assert err.endswith("first 2024-01-03. Pass --freq D: rows that are missing are then missing "
                        "values, which are uncertain, not filled.")  # fmt: skip


UNSUITED = [
    ("W", "column 'ds'", "2024-01-01"),
    ("2D", "column 'ds'", "2024-01-02"),
    ("no", "freq", "'no' for a DatetimeIndex"),
    ("1", "freq", "'1' for a DatetimeIndex"),
]


def test_a_frequency_that_does_not_suit_is_refused(tmp_path):
    path = tmp_path / "d.csv"
    FRAME.to_csv(path, index=False)
    for freq, argument, got in UNSUITED:
        error = refused("forecast", path, "--freq", freq, "--steps", "1")
        assert (error.argument, error.got[: len(got)]) == (argument, got)


def test_rows_of_panels_are_those_of_the_file(tmp_path):
    path = tmp_path / "d.csv"
    pd.concat([FRAME.assign(unit="a").drop(2), FRAME.assign(unit="b").iloc[2:]]).to_csv(path)
    panel = read_panel(asked(path, "--id", "unit", "--freq", "D"))
    assert panel.columns.tolist() == ["unit", "ds", "y"]
    assert panel["unit"].tolist() == ["a"] * 5 + ["b"] * 4
    assert panel["ds"].tolist() == [*DAYS[:2], *DAYS[3:], *DAYS[2:]]
    assert panel["y"].tolist() == [1.5, 2, 3.5, 5, 4.5, 4, 3.5, 5, 4.5]


NAMED = ["07", "7", "007", "1e3", "1000", "NA", "True", "1.0"]


def test_ids_of_csv_are_their_text(tmp_path):
    """Some are equal as numbers: 07 for the first days and 7 for the next were one series."""
    path = tmp_path / "d.csv"
    rows = [f"{shop},2024-01-0{day},{day}" for shop in NAMED for day in range(1, 4)]
    path.write_text("shop,ds,y\n" + "\n".join(rows) + "\n,,\n")
    panel = read_panel(asked(path, "--id", "shop"))
    assert panel["shop"].tolist() == [shop for shop in NAMED for _ in range(3)]
    assert panel["y"].tolist() == [1, 2, 3] * len(NAMED)


def test_an_id_that_is_empty_is_none(tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("shop,ds,y\n07,2024-01-01,1\n\n,2024-01-02,2\n")
    err = error_of(capsys, ["forecast", str(path), "--id", "shop", "--steps", "1"])
    assert err.startswith("--id must name the series of each row; got none in column 'shop' on li")
    assert "on line 4" in err


def test_ids_of_parquet_keep_their_type(tmp_path):
    path = tmp_path / "d.parquet"
    FRAME.assign(shop=7).to_parquet(path)
    assert read_panel(asked(path, "--id", "shop"))["shop"].tolist() == [7] * len(FRAME)


def test_a_name_of_two_columns_is_refused(tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("# two\n\nds;y;y;\n2024-01-01;1;2;\n")
    options = ["--comment", "#", "--sep", ";", "--steps", "1"]
    for target in ("y", "y.1"):
        err = error_of(capsys, ["forecast", str(path), "--target", target, *options])
        assert err == f"data must have distinct columns; got 'y' twice in {path}. Rename one."
    path.write_text("ds;y;y.1;;\n2024-01-01;1;2;;\n2024-01-02;3;4;;\n2024-01-03;5;7;;\n")
    assert read_series(asked(path, "--target", "y.1", "--sep", ";"))[0].tolist() == [2, 4, 7]


def test_options_of_csv_are_single_characters(tmp_path):
    (tmp_path / "d.csv").write_text("ds,y\n")
    for option, value in (("--sep", ";;"), ("--decimal", ""), ("--comment", "//")):
        error = refused("forecast", tmp_path / "d.csv", option, value, "--steps", "1")
        assert (error.argument, error.got) == (option, repr(value))


@pytest.mark.parametrize(
    ("sep", "remedy"),
    [(";", "If semicolons separate the columns, pass --sep ';', and --decimal , for 1,5."),
     ("\t", "If tabs separate the columns, pass --sep '\\t'.")],
)  # fmt: skip
def test_another_separator_is_suggested(tmp_path, capsys, sep, remedy):
    path = tmp_path / "d.csv"
    FRAME.to_csv(path, index=False, sep=sep)
    assert error_of(capsys, ["forecast", str(path), "--steps", "1"]).endswith(remedy)


def test_a_comment_taken_for_the_header_is_told(tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("# of the year, by month\n" + FRAME.to_csv(index=False))
    err = error_of(capsys, ["forecast", str(path), "--steps", "1"])
    assert err == (
        f"--time must name a column of {path}; got 'ds'. The file has '# of the year', 'by month'. "
        "Skip its comments with --comment '#'."
    )


def test_damaged_parquet_is_one_line(tmp_path, capsys, monkeypatch):
    path = tmp_path / "d.parquet"
    FRAME.to_parquet(path)
    for name in ("d.parquet", "named.csv"):  # known by how it begins
        (tmp_path / name).write_bytes(path.read_bytes()[:200])
        err = error_of(capsys, ["forecast", str(tmp_path / name), "--steps", "1"])
        assert err.startswith(f"data must be a Parquet file; got {tmp_path / name}: ")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    err = error_of(capsys, ["forecast", str(path), "--steps", "1"])
    assert err == (
        f"data must be CSV where pyarrow is missing; got {path}, which is Parquet. Install "
        "forecast_unc[dataframes]."
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_holidays_are_dates_by_line(tmp_path, encoding):
    path = tmp_path / "holidays.txt"
    path.write_text("2024-05-17\n# of Norway\n\n 2024-12-25 \n", encoding=encoding)
    assert read_holidays(path).tolist() == [pd.Timestamp("2024-05-17"), pd.Timestamp("2024-12-25")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2024-05-17\n17.5.2024\n", "--holidays must hold one date a line; got '17.5.2024' on li"),
        ("# none\n", "--holidays must hold dates; got none in {path}. Write one a line."),
    ],
)
def test_what_is_no_holiday_is_named(tmp_path, capsys, text, message):
    (tmp_path / "d.csv").write_text(FRAME.to_csv(index=False))
    path = tmp_path / "holidays.txt"
    path.write_text(text)
    arguments = ["forecast", str(tmp_path / "d.csv"), "--holidays", str(path), "--steps", "1"]
    assert message.format(path=path) in error_of(capsys, arguments)


# --- files as an adversary writes them


ROWS = "ds,größe\n" + "".join(f"2024-01-{day:02},{day % 5}\n" for day in range(1, 31))
FORECAST = ["--steps", "2", "--target", "größe", "--lags", "1"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_marks_of_unicode_are_no_part_of_a_name(tmp_path, encoding):
    path = tmp_path / "d.csv"
    path.write_text(ROWS, encoding=encoding)
    assert main(["forecast", str(path), *FORECAST]) == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "cp1252", "mac-roman"])
def test_other_encodings_are_named(tmp_path, capsys, encoding):
    path = tmp_path / "d.csv"
    path.write_text(ROWS, encoding=encoding)
    err = error_of(capsys, ["forecast", str(path), *FORECAST])
    assert err.startswith(f"data must be a CSV file with a header; got {path}, not in UTF-8.")
    assert err.endswith("Save it as UTF-8, which is called CSV UTF-8 in Excel.")


LONG = "9" * 10**6


CELLS = [
    ("2024-01-31,=1+1", "--target", "'=1+1' in column 'größe' on line 32"),
    ("2024-01-31,0x10", "--target", "'0x10' in column 'größe' on line 32"),
    ("2024-01-31,1+2j", "--target", "'1+2j' in column 'größe' on line 32"),
    ("2024-01-31,True", "--target", "'True' in column 'größe' on line 32"),
    ("2024-01-31,inf", "y", "1 infinite value(s), first at 2024-01-31"),
    (f"2024-01-31,{LONG}", "--target", "'999999999999999999999999999999999999999"),
    (f"2024-01-31,a{LONG}", "--target", "'a99999999999999999999999999999999999999"),
    (f"{LONG},1", "--time", "'999999999999999999999999999999999999999"),
    ("=2024-01-31,1", "--time", "'=2024-01-31' in column 'ds' on line 32"),
    ('"2024-01-31,1', "data", "{folder}/d.csv: Error tokenizing data. C"),
    ("2024-01-31,1,2", "data", "{folder}/d.csv: Error tokenizing data. C"),
]


def test_cells_of_every_kind_are_numbers_or_named_in_few_words(tmp_path, capsys):
    path = tmp_path / "d.csv"
    for row, argument, got in CELLS:
        path.write_bytes((ROWS + row + "\n").encode())
        error = refused("forecast", path, *FORECAST)
        assert error.argument == argument
        assert error.got.startswith(got.format(folder=tmp_path))
        assert len(error_of(capsys, ["forecast", str(path), *FORECAST])) < 5000


def test_names_in_quotes_and_those_of_formulas_are_names(tmp_path, capsys):
    for name in ('y "a"\nb, c', "=1+1", "<script>", "@SUM(A1)"):
        quoted = '"' + name.replace('"', '""') + '"'
        path = tmp_path / "d.csv"
        path.write_text(ROWS.replace("ds", quoted))
        output = tmp_path / "f.csv"
        options = [*FORECAST, "--time", name, "--output", str(output)]
        assert main(["forecast", str(path), *options]) == 0
        assert pd.read_csv(output).columns[0] == name


def test_many_columns_and_rows_that_are_short(tmp_path, capsys):
    wide = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(10_000)]
    wide.write_text(",".join(["ds", *names]) + "\n" + ("1" + ",2" * 10_000 + "\n") * 3)
    err = error_of(capsys, ["forecast", str(wide), "--steps", "1"])
    assert err.startswith(f"--target must name a column of {wide}; got 'y'. The file has 'ds', 'c0")
    assert len(err) < 5000
    short = tmp_path / "short.csv"
    rows = "".join(f"{i},{i % 7}\n" for i in range(50_000))
    short.write_text("ds,y,a,b,c\n" + rows + "50000\n")
    options = ["--steps", "1", "--max-train", "50", "--lags", "1"]
    assert main(["forecast", str(short), *options]) == 0
    assert capsys.readouterr().out.startswith("ds,mean,std,lower_80,upper_80,lower_95,upper_95\n5")


@pytest.mark.slow
def test_a_million_columns_or_short_rows_are_read(tmp_path):
    wide, short = tmp_path / "wide.csv", tmp_path / "short.csv"
    names = [f"c{i}" for i in range(10**6)]
    rows = "".join(f"{i}" + f",{i % 3}" * 10**6 + "\n" for i in range(8))
    wide.write_text(",".join(["ds", *names]) + "\n" + rows)
    assert main(["forecast", str(wide), "--steps", "1", "--target", "c77"]) == 0
    short.write_text("ds,y,a,b,c\n" + "".join(f"{i},{i % 7}\n" for i in range(10**6)))
    options = ["--steps", "1", "--max-train", "50", "--lags", "1"]
    assert main(["forecast", str(short), *options]) == 0


@pytest.mark.parametrize(
    ("days", "later"),
    [("01 11 21", "11 21"), ("01 10 20", "10 20"), ("10 20 31", "10 20"), ("05 15 25", "25")],
)
def test_dekads_ahead_are_numbered_as_those_of_the_data(days, later):
    options = SimpleNamespace(zone=None, to_period="dekad")
    data, ahead = (
        converted(pd.DatetimeIndex([f"2024-{month}-{day}" for day in text.split()]), options)
        for month, text in (("01", days), ("03", later))
    )
    assert data.tolist() == [36 * 2024, 36 * 2024 + 1, 36 * 2024 + 2]
    places = {day: 6 + at for at, day in enumerate(days.split())}
    assert ahead.tolist() == [36 * 2024 + places[day] for day in later.split()]
