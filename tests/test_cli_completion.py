"""Completion in the shells themselves, from the scripts that `forecast-unc completion` prints."""

import shutil
import subprocess

import pytest

from forecast_unc.cli import main
from forecast_unc.cli.parser import make_parser


def script(shell: str, capsys) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def run(shell: str, program: str, cwd) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    options = ["--norc"] if shell == "bash" else ["-f"]
    result = subprocess.run(
        [shell, *options, "-c", program], cwd=cwd, capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["fore"], "forecast"),
        ([""], "demo forecast backtest completion --help --version"),
        (["forecast", "--prob"], "--prob-above"),
        (["forecast", "y.csv", "--st"], "--steps"),
        (["backtest", "y.csv", "--st"], "--steps --step"),
        (["forecast", "--model", "r"], "rvm reduced-rank"),
        (["forecast", "--model", "rvm", ""], ""),  # which leaves it to files
        (["forecast", "--calendar", "fourier", "hour_of_"], "hour_of_day hour_of_week"),
        (["backtest", "--compare", "naive", "ets", "th"], "theta"),
        (["forecast", "--output", "x"], ""),
        (["completion", ""], "bash zsh"),
    ],
)
def test_bash_completes(tmp_path, capsys, words, completed):
    line = " ".join(f"'{word}'" for word in ["forecast-unc", *words])
    program = f"""{script("bash", capsys)}
        COMP_WORDS=({line})
        COMP_CWORD={len(words)}
        _forecast_unc
        echo "${{COMPREPLY[*]}}"
        complete -p forecast-unc"""
    found, registered = run("bash", program, tmp_path).splitlines()
    assert found == completed
    assert registered == "complete -o default -F _forecast_unc forecast-unc"


def test_zsh_completes(tmp_path, capsys):
    """The function hands each command's specifications to `_arguments`, which is stubbed here."""
    program = f"""
        compdef() {{ registered="$*"; }}
        _describe() {{ print -l $commands; }}
        _arguments() {{ print -l "$words[1] $CURRENT" "$@"; }}
        {script("zsh", capsys)}
        print $registered
        words=(forecast-unc '') CURRENT=2; _forecast_unc
        words=(forecast-unc backtest y.csv --compare '') CURRENT=5; _forecast_unc"""
    lines = run("zsh", program, tmp_path).splitlines()
    assert lines[0] == "_forecast_unc forecast-unc"
    assert [line.partition(":")[0] for line in lines[1:5]] == [
        *("demo", "forecast", "backtest", "completion")
    ]
    assert lines[5] == "backtest 4"
    specifications = {line.partition("[")[0]: line for line in lines[6:]}
    assert specifications["--steps"] == "--steps[steps ahead]:steps: "
    assert specifications["--compare"].endswith(" ets theta sarimax)")
    assert "]:*-*:compare:(exact taylor " in specifications["--compare"]
    assert specifications["--model"].endswith("]:model:(auto gp rvm reduced-rank)")
    assert "\\[" not in specifications["--output"]
    assert lines[-1] == "1:data:_files"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_all_options_are_in_the_script(capsys, shell):
    text = script(shell, capsys)
    for command in ("demo", "forecast", "backtest", "completion"):
        with pytest.raises(SystemExit):
            make_parser().parse_args([command, "--help"])
        words = capsys.readouterr().out.replace("[", " ").split()
        options = {word.rstrip(",)") for word in words if word.startswith("--")}
        described = {option for option in options if option.replace("-", "").isalpha()}
        assert {option for option in described if option not in text} == set()


@pytest.mark.parametrize("command", [[], ["forecast"], ["backtest"], ["completion"]])
def test_help_has_examples(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert "examples:\n" in capsys.readouterr().out
