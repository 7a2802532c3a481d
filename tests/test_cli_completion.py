"""Completion: what the command answers a shell, and the script that asks it."""

import shutil
import subprocess

import pytest

from forecast_unc.cli import main


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["fore"], ["plain,forecast"]),
        (["backtest", "y.csv", "--st"], ["plain,--steps", "plain,--step"]),
        (
            ["forecast", "y.csv", "--lags", "1", "--lags", "2", "--calendar", "hour_of_"],
            ["plain,hour_of_day", "plain,hour_of_week"],
        ),
        (["backtest", "y.csv", "--compare", "ets", "--compare", "th"], ["plain,theta"]),
        (["backtest", "y.csv", "--compare", "last_value", "--ref"], ["plain,--refit"]),
        (["forecast", "--output", "x"], ["file,x"]),
    ],
)
def test_words_are_completed(monkeypatch, capsys, words, completed):
    monkeypatch.setenv("_FORECAST_UNC_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "\n".join(["forecast-unc", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == completed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_the_command(capsys, shell):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_FORECAST_UNC_COMPLETE={shell}_complete" in script
    if shell == "bash" and shutil.which("bash") is not None:
        program = f"{script}\ncomplete -p forecast-unc"
        run = subprocess.run(
            ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
        )
        assert run.stdout.strip().endswith("-F _forecast_unc_completion forecast-unc")


@pytest.mark.parametrize("command", [[], ["forecast"], ["backtest"], ["completion"]])
def test_help_has_examples(capsys, command):
    assert main([*command, "--help"]) == 0
    assert "examples:\n" in capsys.readouterr().out
