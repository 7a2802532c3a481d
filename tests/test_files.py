"""Files as programs, offices and services write them: read in two tries, by the messages alone."""

import csv
import io
import shlex
import sys
import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from forecast_unc.cli.commands import forecast
from forecast_unc.cli.mending import options_of, typed
from forecast_unc.cli.reading import read_panel, read_series
from forecast_unc.errors import InvalidArgument
from tests.named_case import case
from tests.shell import refused

CASES = Path(__file__).parent / "cases"
PAGE = Path(__file__).parents[1] / "docs" / "how_to" / "files.md"
with (CASES / "cases.csv").open(encoding="utf-8", newline="") as table:
    ROWS = list(csv.DictReader(table))  # file, layout, time and value of the last row, source


def read(path, *words):
    """The time and the value of the last row."""
    given = forecast.make_context("forecast", [str(path), "--steps", "1", *words]).params
    options = SimpleNamespace(**given)
    with warnings.catch_warnings(action="ignore"):
        if options.id is None:
            y, _ = read_series(options)
            return str(y.index[-1]), y.iloc[-1]
        panel = read_panel(options)
    return str(panel["ds" if "ds" in panel else options.time[0]].iloc[-1]), panel.iloc[-1, -1]


@cache
def tried(path):
    """The error of a first try without options, the words that mend it, and what is then read."""
    try:
        return None, "", read(path)
    except InvalidArgument as error:
        words = typed(getattr(error, "needed", None) or options_of(error)[0])
        return error, words, read(path, *shlex.split(words)) if words else None


def page_of_layouts() -> str:
    """The table of docs/how_to/files.md, one row a case."""
    rows = ["| layout | what the first message says to add |", "|---|---|"]
    for row in ROWS:
        error, words, _ = tried(CASES / row["file"])
        said = "read as it is" if error is None else f"`{words}`" if words else error.remedy
        rows.append(f"| {row['layout']} | {said} |".replace("'|'", r"'\|'"))
    return "\n".join(rows)


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_a_file_is_read_in_two_tries(row):
    error, words, last = tried(CASES / row["file"])
    if row["last"] == "refused":
        assert error.got.startswith(row["value"])
        return
    assert last[0].removesuffix(" 00:00:00") == row["last"]
    assert last[1] == pytest.approx(float(row["value"]), rel=1e-12)
    assert words in str(error or "") or error.code == "missing times"


def test_the_page_of_layouts_is_what_is_said():
    assert page_of_layouts() in PAGE.read_text(encoding="utf-8")


def written(tmp_path, text):
    path = tmp_path / "d.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


DAYS = pd.date_range("2024-01-01", periods=14).strftime("%Y-%m-%d")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_nul_is_no_end_of_a_number(tmp_path, encoding):
    rows = "".join(f"{day},154.64\n" for day in DAYS).encode(encoding)
    for old, new in ((b"154", b"15\0"), (b"54.64\n", b"\0\n"), (b"2024-01-05", b"2024\0-01-05")):
        path = written(tmp_path, b"ds,y\n" + rows.replace(old, new))
        error = refused("forecast", path, "--steps", "1")
        assert (error.argument, error.rule) == ("data", "be text without NUL characters")
        assert error.got.endswith(f"on line {5 + 1 if b'2024' in old else 2} of {path}")


NOT_TEXT = [
    (b"\x1f\x8b\x08\x00abc", "be a whole file"),
    (b"BZh91AY&SY", "be a whole file"),
]


def test_a_packed_file_that_was_cut_is_named(tmp_path):
    for content, rule in NOT_TEXT:
        assert refused("forecast", written(tmp_path, content), "--steps", "1").rule == rule


def test_a_sentinel_that_occurs_often_is_named(tmp_path):
    values = [str(20 + day % 5) for day in range(14)]
    for sentinel in ("-200", "-999", "-9999", "-99.9", "9999"):
        some = [sentinel if day % 4 == 2 else value for day, value in enumerate(values)]
        path = written(tmp_path, "ds,y\n" + "\n".join(map(",".join, zip(DAYS, some, strict=True))))
        given = forecast.make_context("forecast", [str(path), "--steps", "1"]).params
        with pytest.warns(UserWarning, match=f"holds {sentinel} 3 times, .* --missing {sentinel}"):
            read_series(SimpleNamespace(**given))
        assert read(path, "--missing", sentinel)[1] == 23.0


def test_values_that_may_be_there_are_no_sentinels(tmp_path):
    for some in (["-1", "0", "1", "-1"] * 4, ["99", "97", "99", "98"] * 4):
        rows = "\n".join(map(",".join, zip(DAYS, some, strict=False)))
        given = forecast.make_context(
            "forecast", [str(written(tmp_path, f"ds,y\n{rows}")), "--steps", "1"]
        ).params
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_series(SimpleNamespace(**given))


def test_numbers_of_two_magnitudes_are_not_stripped(tmp_path):
    path = written(
        tmp_path, "ds,y\n" + "".join(f"{d},{5 + i}{'MK'[i % 2]}\n" for i, d in enumerate(DAYS))
    )
    assert "--remove" not in refused("forecast", path, "--steps", "1").remedy


def test_a_cell_of_many_characters_is_told_in_few(tmp_path):
    for long in ("9" * 10**6, "a" * 10**6):
        for row in (f"2024-01-15,{long}", f"{long},1"):
            path = written(tmp_path, "ds,y\n" + "".join(f"{d},1\n" for d in DAYS) + row)
            error = refused("forecast", path, "--steps", "1")
            assert error.rule == "hold short cells"
            assert len(error.got) < 200


HOURS = pd.date_range("2024-01-01", periods=20, freq="h")
WRITTEN = {  # how the times are written, and the option that the message names
    "%Y%m%d%H%M": "--date-format %Y%m%d%H%M",
    "%Y%m%d%H": "--date-format %Y%m%d%H",
    "%d.%m.%y %H:%M": "--date-format '%d.%m.%y %H:%M'",
    "%d/%b/%Y:%H:%M:%S +0000": "--date-format '%d/%b/%Y:%H:%M:%S %z'",
    "%m/%d/%Y %I %p": "--date-format '%m/%d/%Y %I %p'",
    "%a %d %b %Y %H:%M": "--date-format '%a %d %b %Y %H:%M'",
    "%Y-%m-%dT%H:%M:%SZ": "",
    "%Y/%m/%d %H:%M": "",
}


def test_hours_in_any_writing_are_read_in_two_tries(tmp_path):
    for at, (form, option) in enumerate(WRITTEN.items()):
        with case(form):
            path = tmp_path / f"{at}.csv"
            rows = "".join(f"{time},{i}\n" for i, time in enumerate(HOURS.strftime(form)))
            path.write_text(f"ds,y\n{rows}")
            _, words, last = tried(path)
            assert words in option
            assert last[0].removesuffix("+00:00") == "2024-01-01 19:00:00"


# Reports on other packages and files of repositories, rebuilt: head, one row of the time t, words.
REPORTS = {
    # facebook/prophet issue 1883, of write.table of R
    "row names": ('"data" "price"', '"{i}" "{t:%Y-%m-%d}" 5', "row,data,price"),
    # facebook/prophet issue 611
    "a word": ("ds,y", "{t:%d-%m-%Y} 01:00 DST,5", "'%d-%m-%Y %H:%M DST'"),
    # TAWES of GeoSphere Austria, as teaching pages read it
    "a station": ("time,station,rr", "{t:%Y-%m-%d},5925,{i}.5", "--target rr"),
    # NOAA Climate Data Online, text
    "dashes": ("STATION DATE TMAX\n------- ----- ----", "US7 {t:%Y%m%d} {i}.5", "--units 1"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_files_of_reports_are_read_in_two_tries(name, tmp_path):
    head, form, word = REPORTS[name]
    rows = [form.format(i=i, t=t) for i, t in enumerate(pd.to_datetime(DAYS), 1)]
    _, words, last = tried(written(tmp_path, "\n".join([head, *rows])))
    assert word in words
    assert last[0][:10] == "2024-01-14"


def test_rows_of_one_id_in_a_wide_table_are_told(tmp_path):
    rows = ["geo,kind,2024-01,2024-02,2024-03", "ZA,gdp,1,2,3", "ZA,cpi,1,2,3"]
    path = written(tmp_path, "\n".join(rows))
    error = refused("forecast", path, "--wide", "--id", "geo", "--steps", "1")
    assert (error.argument, error.got) == ("--id", "'ZA' in several rows")


def test_standard_input_is_read_once_for_all_tries(monkeypatch):
    content = (CASES / "semicolons.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    error = refused("forecast", "-", "--steps", "1")
    assert error.needed == {"sep": ";", "time": ("Datum",), "target": "Wert", "decimal": ","}


if __name__ == "__main__":
    print(page_of_layouts())
