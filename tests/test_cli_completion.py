"""Completion in a shell, from the script that `forecast-unc completion` prints."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forecast_unc.cli import main


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """The command, as an installed one is."""
    path = tmp_path_factory.mktemp("bin") / "forecast-unc"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\n"
        "from forecast_unc.cli import main\nsys.exit(main())\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["fore"], ["forecast"]),
        (["backtest", "y.csv", "--st"], ["--steps", "--step"]),
        (["forecast", "--calendar", "hour_of_"], ["hour_of_day", "hour_of_week"]),
    ],
)
def test_bash_completes(program, capsys, words, completed):
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    assert main(["completion", "bash"]) == 0
    line = " ".join(f"'{word}'" for word in ["forecast-unc", *words])
    script = f"""{capsys.readouterr().out}
        COMP_WORDS=({line}); COMP_CWORD={len(words)}
        _forecast_unc_completion '{program}'
        printf '%s\\n' "${{COMPREPLY[@]}}" """
    run = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    assert run.stdout.split() == completed


@pytest.mark.parametrize("command", [[], ["forecast"], ["backtest"], ["completion"]])
def test_help_has_examples(capsys, command):
    assert main([*command, "--help"]) == 0
    assert "examples:\n" in capsys.readouterr().out
