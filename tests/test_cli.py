import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, __version__, backtest, datasets
from forecast_unc.cli import main
from forecast_unc.cli.commands import forecast
from forecast_unc.cli.reading import read_series
from forecast_unc.demo import demo
from tests.shell import refused


@pytest.fixture
def nile(tmp_path):
    path = tmp_path / "nile.csv"
    datasets.load_nile().rename("flow").rename_axis("year").to_csv(path)
    return path


def read(path, *options: str) -> pd.Series:
    """The series that a command line names."""
    given = forecast.make_context("forecast", [str(path), "--steps", "1", *options]).params
    return read_series(SimpleNamespace(**given))[0]


def test_forecast_writes_what_the_forecaster_says(nile, tmp_path):
    out, picture = tmp_path / "f.csv", tmp_path / "f.png"
    arguments = ["--time", "year", "--target", "flow", "--steps", "5", "--lags", "3"]
    code = main(["forecast", str(nile), *arguments, "--output", str(out), "--plot", str(picture)])
    assert code == 0
    written = pd.read_csv(out, index_col=0, parse_dates=True)
    ahead = Forecaster(lags=3).fit(datasets.load_nile()).forecast(5)
    np.testing.assert_allclose(written["mean"], ahead.mean, rtol=1e-9)
    np.testing.assert_allclose(written["upper_95"], ahead.interval(0.95)["upper"], rtol=1e-9)
    assert list(written.index) == list(ahead.index)
    assert picture.read_bytes()[1:4] == b"PNG"


def test_forecast_prints_by_default(nile, capsys):
    arguments = ["--time", "year", "--target", "flow", "--steps", "2", "--lags", "1", "--lags", "2"]
    assert main(["forecast", str(nile), *arguments, "--coverage", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "year,mean,std,lower_50,upper_50"
    assert len(lines) == 3


def test_a_summary_says_what_was_chosen_and_why_the_forecast_moves(nile, tmp_path, capsys):
    columns = ["forecast", str(nile), "--time", "year", "--target", "flow", "--steps", "3"]
    assert main([*columns, "--summary", str(tmp_path / "s.txt")]) == 0
    capsys.readouterr()
    chosen, why = (tmp_path / "s.txt").read_text().split("\n\n")
    model = Forecaster(random_state=0).fit(datasets.load_nile())
    written, summary = chosen.splitlines(), model.summary().splitlines()
    assert written[0] == "flow: 100 values, from 1871-01-01 to 1970-01-01, frequency YS-JAN"
    assert written[1:] == summary[1:]
    assert why.startswith("What each model adds to the change of the mean from the first step to ")
    change = model.forecast(3).explain()["change"]
    told = [line.split() for line in why.splitlines()[2:]]
    assert [float(words[-1]) for words in told] == pytest.approx(change.tolist(), rel=6e-3)
    assert told[-1][0] == "forecast"
    assert main([*columns, "--lags", "2", "--summary", "-"]) == 0
    out = capsys.readouterr().out
    assert out.index("year,mean") < out.index("flow: 100 values") < out.index("member 1")


def test_outliers_are_named_or_kept(nile, tmp_path, capsys):
    table = pd.read_csv(nile)
    table.loc[len(table) - 1, table.columns[1]] *= 20
    table.to_csv(tmp_path / "spike.csv", index=False)
    told = {}
    for kind in ("mask", "keep"):
        columns = ["--time", "year", "--target", "flow"]
        spike = ["forecast", str(tmp_path / "spike.csv"), *columns, "--steps", "3"]
        assert main([*spike, "--outliers", kind]) == 0
        out, told[kind] = capsys.readouterr()
        assert (float(out.splitlines()[1].split(",")[1]) > 1200) == (kind == "keep")
    assert "1 value treated as missing" in told["mask"]
    assert told["mask"].endswith("; --outliers keep keeps them\n")
    assert told["keep"] == ""
    assert main([*spike, "--save", str(tmp_path / "m"), "--summary", "-"]) == 0
    out, err = capsys.readouterr()
    assert "; --outliers keep keeps them\n" in out
    assert "outliers=" not in out
    assert main(["forecast", "--steps", "3", "--load", str(tmp_path / "m"), "--summary", "-"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("forecast-unc: outliers: 1 value treated as missing")
    assert " keep" not in out + err


def test_backtest_prints_the_scores(nile, tmp_path, capsys):
    out, picture = tmp_path / "b.csv", tmp_path / "b.png"
    arguments = ["--time", "year", "--target", "flow", "--steps", "2", "--lags", "2"]
    files = ["--output", str(out), "--plot", str(picture)]
    assert main(["backtest", str(nile), *arguments, "--origins", "3", *files]) == 0
    printed = capsys.readouterr().out
    expected = backtest(
        Forecaster(lags=2),
        datasets.load_nile(),
        2,
        n_origins=3,
        compare={"naive": "naive propagation"},
        coverage=(0.8, 0.95),
    )
    for model, own in (("forecast_unc", "forecast_unc"), ("naive", "naive_propagation")):
        line = next(line for line in printed.splitlines() if line.startswith(own))
        assert float(line.split()[1]) == pytest.approx(
            expected.scores().loc[model, "MAE"], abs=1e-3
        )
    crps = expected.scores()["CRPS"]
    change = 100 * (crps["forecast_unc"] / crps["naive"] - 1)
    side = "below" if change < 0 else "above"
    assert " that of naive_propagation, the best of the others" in printed
    assert f"{abs(change):.1f} % {side}" in printed
    assert "better; coverage_80 should be 0.8, coverage_95 should be 0.95.\n" in printed
    assert "units of the mean absolute change over 1 step in the past;\n" in printed  # no season
    assert "MAE, RMSE, CRPS, energy: in units of flow; sMAPE: in %;\n" in printed
    assert printed.splitlines()[-1].startswith("naive_propagation: the same model")
    written = pd.read_csv(out)
    assert len(written) == 12
    assert set(written["model"]) == {"forecast_unc", "naive_propagation"}
    assert picture.read_bytes()[1:4] == b"PNG"


def test_whole_numbers_of_the_length_of_dates_are_no_dates(tmp_path):
    path = tmp_path / "d.csv"
    for times in (
        [3, 4, 5],
        [99999998, 99999999, 100000000],
        [20240199, 20240200],
        [100099, 100100],
    ):
        pd.DataFrame({"ds": times, "y": 1.0}).to_csv(path, index=False)
        assert read(path).index.tolist() == times


@pytest.mark.parametrize("label", ["{}Q{}", "{}-Q{}"])
def test_quarters_are_periods(tmp_path, capsys, label):
    path = tmp_path / "d.csv"
    gdp = datasets.load_us_gdp().iloc[-40:]
    labels = [label.format(t.year, t.quarter) for t in gdp.index]
    pd.DataFrame({"ds": labels, "y": gdp.to_numpy()}).to_csv(path, index=False)
    expected = pd.PeriodIndex(gdp.index, freq="Q", name="ds")
    pd.testing.assert_index_equal(read(path).index, expected)
    assert main(["forecast", str(path), "--steps", "2", "--lags", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{expected[-1] + 1},")


AUTUMN = pd.date_range("2024-10-20", periods=300, freq="h", tz="Europe/Berlin")
LOCAL_DAYS = pd.date_range("2024-10-01", periods=60, tz="Europe/Berlin")
TUESDAY_TO_SUNDAY = [day for day in pd.date_range("2024-01-02", "2024-02-25") if day.day_of_week]
DAYS = [f"2024-01-{day:02}" for day in range(1, 31)]


WRONG = [
    ("", "data", "{folder}/d.csv, which is empty"),
    ("ds,y\n", "data", "none in {folder}/d.csv"),
    ("ds,y\n1,2\n3,4,5\n", "data", "{folder}/d.csv: Error tokenizing data. C error: Expected 2 f"),
    ("ds,y\n1,2,3\n", "data", "more on line 2"),
    ("ds;y\n2024-01-31;1,5\n", "data", "more on line 2"),
    ("ds,y\n\n2024-01-31,1\n2024-02-01,abc\n", "--target", "'abc' in column 'y' on line 4"),
    ("ds,y\n1,True\n2,False\n", "--target", "True in column 'y' on line 2"),
    ("ds,y\n2024-01-31,1\nsoon,2\n", "--time", "'soon' in column 'ds' on line 3"),
    ("ds,y\n1,1\n2.5,2\n", "--time", "2.5 in column 'ds' on line 3"),
    ("ds,y\n1,1\n,2\n", "--time", "nan in column 'ds' on line 3"),
    ("ds,y\nJan 2024,1\nFeb 2024,2\n", "--time", "'Jan 2024' in column 'ds' on line 2"),
    ("ds,y\n05/01/2024,1\n", "--time", "'05/01/2024' in column 'ds' on line 2"),
    ("ds,y\n20240130,1\n20240131,2\n20240201,3\n", "--time", "20240130 in column 'ds'"),
    ("ds,y\n202411,1\n202412,2\n202501,3\n", "--time", "202411 in column 'ds'"),
    (
        "ds,y\n2024-03-31T01:00+01:00,1\n2024-03-31T03:00+02:00,2\n",
        "--time",
        "+01:00 and +02:00 in column 'ds'",
    ),
    (
        "ds,y\n" + "".join(f"{day},1\n" for day in [*DAYS, DAYS[3]]),
        "column 'ds'",
        "2024-01-04 more than once",
    ),
    (
        "ds,y\n" + "".join(f"{day},1\n" for day in [*DAYS[2:], *DAYS[:2]]),
        "column 'ds'",
        "2024-01-03 out of place",
    ),
    (
        "ds,y\n" + "".join(f"{day},1\n" for day in [*DAYS[:9], *DAYS[10:]]),
        "column 'ds'",
        "1 missing timestamp, first 2024-01-10",
    ),
    (
        "ds,y\n" + "".join(f"{day:%Y-%m-%d},1\n" for day in TUESDAY_TO_SUNDAY),
        "column 'ds'",
        "7 missing timestamps, first 2024-01-08",
    ),
    (
        "ds,y\n" + "".join(f"{i},1\n" for i in (1, 2, 4, 5)),
        "column 'ds'",
        "1 missing timestamp, first 3",
    ),
    ("ds,y\n2024-01-31,1\n", "column 'ds'", "1 time without a frequency that pandas can infer"),
    (
        "ds,y\n2024-01-01,1\n2024-01-08,2\n",
        "column 'ds'",
        "2 times without a frequency that pandas can infer",
    ),
    (
        "ds,y\n" + "".join(f"{time},1\n" for time in AUTUMN.tz_localize(None)),
        "column 'ds'",
        "2024-10-27 02:00:00 more than once",
    ),
    (
        "ds,y\n" + "".join(f"{day.tz_convert('UTC')},1\n" for day in LOCAL_DAYS),
        "column 'ds'",
        "60 times without a frequency that pandas can infer",
    ),
    ('ds,y\n1,"421,0 €"\n2,"389,5 €"\n', "--target", "'421,0 €' in column 'y' on line 2"),
    ("ds,y\n1,2..5\n", "--target", "'2..5' in column 'y' on line 2"),
    ("ds,y\n2024-01-31,1\n,2\n", "--time", "nan in column 'ds' on line 3"),
]


def test_what_is_wrong_with_a_file_is_named_with_its_place(tmp_path):
    path = tmp_path / "d.csv"
    for text, argument, got in WRONG:
        path.write_text(text)
        error = refused("forecast", path, "--steps", "3")
        assert error.argument == argument
        assert error.got.startswith(got.format(folder=tmp_path))


def test_a_file_in_another_encoding_is_named(tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_bytes("ds,y\n1,größer\n".encode("latin-1"))
    assert main(["forecast", str(path), "--steps", "3"]) == 2
    err = capsys.readouterr().err
    assert f"data must be a CSV file with a header; got {path}, not in UTF-8" in err
    assert err.endswith("Save it as UTF-8, which is called CSV UTF-8 in Excel.\n")


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
def test_a_workbook_is_named(tmp_path, capsys, start):
    path = tmp_path / "d.xlsx"
    path.write_bytes(start + bytes(range(256)))
    assert main(["forecast", str(path), "--steps", "3"]) == 2
    assert capsys.readouterr().err == (
        f"forecast-unc: data must be a CSV file; got {path}, an Excel workbook. Save it as CSV "
        "UTF-8.\n"
    )


REFUSED = [
    (["--output", "{folder}"], "--output", "{folder}: Is a directory"),
    (["--plot", "{folder}/no/f.png"], "--plot", "{folder}/no/f.png: No such file or directory"),
    (["--plot", "{folder}/f.xyz"], "--plot", "'.xyz'"),
    (["--seed", "-1"], "--seed", "-1"),
    (["--steps", "0"], "--steps", "0"),
    (["--steps", "200000"], "--steps", "200,000, whose joint covariance would take 320 GB"),
    (
        ["--coverage", "0.95", "--coverage", "0.8", "--coverage", "0.9500001"],
        "--coverage",
        "0.95 and 0.9500001",
    ),
    (["--output", "{folder}/nile.csv"], "--output", "{folder}/nile.csv"),
    (["--plot", "{folder}/nile.png"], "--plot", "{folder}/nile.png"),
    (["--output", "{folder}/a/../nile.csv"], "--output", "{folder}/a/../nile.csv"),
    (["--output", "{folder}/hard.csv"], "--output", "{folder}/hard.csv"),
    (
        ["--output", "{folder}/x.png", "--plot", "{folder}/a/../x.png"],
        "--plot",
        "{folder}/a/../x.png",
    ),
]


def test_options_are_checked_before_the_work(nile, tmp_path, monkeypatch):
    monkeypatch.setattr(Forecaster, "fit", lambda *_: pytest.fail("fitted"))
    (tmp_path / "a").mkdir()
    (tmp_path / "nile.png").symlink_to(nile)
    (tmp_path / "hard.csv").hardlink_to(nile)
    content = nile.read_bytes()
    before = sorted(tmp_path.iterdir())
    columns = ["--time", "year", "--target", "flow", "--steps", "2", "--lags", "2"]
    for options, argument, got in REFUSED:
        for command in ("forecast", "backtest"):
            words = [option.format(folder=tmp_path) for option in options]
            error = refused(command, nile, *columns, *words)
            assert error.argument == argument
            assert error.got.startswith(got.format(folder=tmp_path))
    assert sorted(tmp_path.iterdir()) == before
    assert nile.read_bytes() == content


def test_a_relative_name_of_the_data_is_no_other_file(nile, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--time", "year", "--target", "flow", "--steps", "2", "--output", "nile.csv"]
    assert main(["forecast", str(nile), *arguments]) == 2
    assert "--output must be another file than data; got nile.csv" in capsys.readouterr().err
    pd.testing.assert_series_equal(
        read(nile, "--time", "year", "--target", "flow"),
        datasets.load_nile(),
        check_names=False,
        check_freq=False,
    )


def test_too_little_memory_is_one_line(nile, capsys, monkeypatch):
    def fit(*_):
        raise MemoryError("Unable to allocate 298. GiB")

    monkeypatch.setattr(Forecaster, "fit", fit)
    arguments = ["--time", "year", "--target", "flow", "--steps", "2"]
    assert main(["forecast", str(nile), *arguments]) == 2
    assert capsys.readouterr().err == (
        "forecast-unc: data and --steps must fit in memory; got Unable to allocate 298. GiB. Take "
        "fewer rows or steps.\n"
    )


def test_files_are_kept_when_the_work_fails(nile, tmp_path):
    kept, absent = tmp_path / "kept.csv", tmp_path / "absent.png"
    kept.write_text("mine")
    files = ["--output", str(kept), "--plot", str(absent)]
    arguments = ["--time", "year", "--target", "flow", "--steps", "2", "--lags", "500", *files]
    assert main(["forecast", str(nile), *arguments]) == 2
    assert kept.read_text() == "mine"
    assert not absent.exists()


@pytest.mark.parametrize("arguments", [["forecast"], ["forecast", "a.csv", "--steps", "two"], []])
def test_misuse_is_one_line_too(capsys, arguments):
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_line_runs_as_a_module():
    command = [sys.executable, "-m", "forecast_unc", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == __version__


def test_demo_writes_a_picture_and_a_table(tmp_path, capsys):
    demo(tmp_path / "new", n_origins=1)
    table = pd.read_csv(tmp_path / "new" / "scores.csv", index_col=0)
    assert list(table.index) == ["naive", "Taylor", "exact", "mixture", "Monte Carlo"]
    assert table.loc["naive", "coverage_95"] < table.loc["exact", "coverage_95"]
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"
    rows = (tmp_path / "new" / "scores.md").read_text().splitlines()
    assert rows[0].startswith("| propagation | RMSE | CRPS |")
    assert len(rows) == 7
    assert "Wrote" in capsys.readouterr().out
    assert main(["demo", "--help"]) == 0


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_demo_checks_its_folder_before_the_work(tmp_path, capsys, monkeypatch, folder):
    monkeypatch.setattr(Forecaster, "fit", lambda *_: pytest.fail("fitted"))
    (tmp_path / "file").write_text("mine")
    assert main(["demo", "--output", str(tmp_path / folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("forecast-unc: ")
    assert err.count("\n") == 1
    assert "file" in err


def test_printed_digits_tell_the_interval_at_a_large_level(tmp_path, capsys):
    """A std of about 1 at a level of 1e9: six digits made all bounds 1e+09."""
    y = 1e9 + np.random.default_rng(0).standard_normal(60).cumsum()
    times = pd.date_range("2020-01-01", periods=60, freq="MS")
    pd.DataFrame({"ds": times, "y": y}).to_csv(tmp_path / "y.csv", index=False)
    arguments = [str(tmp_path / "y.csv"), "--time", "ds", "--target", "y", "--steps", "3"]
    assert main(["forecast", *arguments, "--output", str(tmp_path / "f.csv")]) == 0
    capsys.readouterr()
    assert main(["forecast", *arguments]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out), index_col=0)
    written = pd.read_csv(tmp_path / "f.csv", index_col=0)
    np.testing.assert_allclose(printed, written, rtol=0, atol=0.01 * written["std"].min())
