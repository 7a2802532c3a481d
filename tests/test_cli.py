import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, __version__, backtest, datasets
from forecast_unc.cli import main, read_series
from forecast_unc.demo import demo


@pytest.fixture
def nile(tmp_path):
    path = tmp_path / "nile.csv"
    datasets.load_nile().rename("flow").rename_axis("year").to_csv(path)
    return path


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
    arguments = ["--time", "year", "--target", "flow", "--steps", "2", "--lags", "1", "2"]
    assert main(["forecast", str(nile), *arguments, "--coverage", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "year,mean,std,lower_50,upper_50"
    assert len(lines) == 3


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
        compare={"naive": "naive"},
        coverage=(0.8, 0.95),
    )
    for model, name in (("forecast_unc", "exact"), ("naive", "naive")):
        line = next(line for line in printed.splitlines() if line.startswith(name))
        assert float(line.split()[1]) == pytest.approx(
            expected.scores().loc[model, "MAE"], abs=1e-3
        )
    assert len(pd.read_csv(out)) == 12
    assert picture.read_bytes()[1:4] == b"PNG"


def test_times_may_be_whole_numbers(tmp_path):
    path = tmp_path / "d.csv"
    pd.DataFrame({"ds": [3, 4, 5], "y": [1.0, 2.0, 4.0]}).to_csv(path, index=False)
    assert read_series(path, "ds", "y").index.tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["forecast", "absent.csv", "--steps", "3"], "No such file"),
        (["forecast", "{nile}", "--steps", "3"], "--time must name a column of .*; got 'ds'"),
        (
            ["forecast", "{nile}", "--time", "year", "--steps", "3"],
            "--target must name a column of .*; got 'y'. The file has 'year', 'flow'",
        ),
        (
            ["forecast", "{nile}", "--time", "year", "--target", "flow", "--steps", "0"],
            "steps must be a whole number, at least 1; got 0",
        ),
        (
            [
                *["forecast", "{nile}", "--time", "year", "--target", "flow"],
                *["--steps", "3", "--coverage", "95"],
            ],
            "coverage must lie strictly between 0 and 1; got 95",
        ),
        (["forecast", "{words}", "--steps", "3"], "--time must hold dates or whole numbers; got"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(nile, tmp_path, capsys, arguments, message):
    words = tmp_path / "words.csv"
    words.write_text("ds,y\nnow,1\nthen,2\n")
    assert main([a.format(nile=nile, words=words) for a in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("forecast-unc: ")
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(err)


@pytest.mark.parametrize("arguments", [["forecast"], ["forecast", "a.csv", "--steps", "two"], []])
def test_misuse_is_one_line_too(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_installed_module_runs():
    command = [sys.executable, "-c", "from forecast_unc.cli import main; main(['--version'])"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == __version__


def test_demo_writes_a_picture_and_a_table(tmp_path, capsys):
    demo(tmp_path / "new", n_origins=1)
    table = pd.read_csv(tmp_path / "new" / "scores.csv", index_col=0)
    assert list(table.index) == ["naive", "Taylor", "exact", "Monte Carlo"]
    assert table.loc["naive", "coverage_95"] < table.loc["exact", "coverage_95"]
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"
    rows = (tmp_path / "new" / "scores.md").read_text().splitlines()
    assert rows[0].startswith("| propagation | RMSE | CRPS |")
    assert len(rows) == 6
    assert "Wrote" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert main(["demo", "--output", str(tmp_path / "new" / "scores.md")]) == 2
