"""Every command of docs/command_line.md, and of the help, runs on small files."""

import io
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast_unc import datasets
from forecast_unc.cli import main
from forecast_unc.cli.commands import program

ROOT = Path(__file__).parents[1]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[str]:
    return CONSOLE.findall((ROOT / "docs" / "command_line.md").read_text(encoding="utf-8"))


@pytest.fixture
def files(tmp_path, monkeypatch, rng):
    """The files that the page names, in a folder where the commands run."""
    monkeypatch.chdir(tmp_path)
    co2 = datasets.load_co2().iloc[-48:].rename("y").rename_axis("ds").reset_index()
    co2[:-3].to_csv("data.csv", index=False)
    co2.to_csv("newer.csv", index=False)
    days = pd.date_range("2024-01-01", periods=90, freq="D", name="ds")
    price = 10 + rng.standard_normal(90)
    y = 50 + 5 * np.sin(2 * np.pi * np.arange(90) / 7) - 2 * price + rng.standard_normal(90)
    sales = pd.DataFrame({"ds": days, "y": y, "price": price})
    sales[:70].to_csv("sales.csv", index=False)
    sales[:70].drop(index=[10, 11]).to_csv("gaps.csv", index=False)
    sales[["ds", "price"]].to_csv("prices.csv", index=False)
    shops = [sales[["ds", "y"]].assign(shop=name)[:60] for name in ("north", "south")]
    pd.concat(shops).to_csv("shops.csv", index=False)
    Path("holidays.txt").write_text("2024-02-14\n2024-03-17\n")
    shutil.copy(ROOT / "tests" / "reference" / "co2_mm_mlo.csv", tmp_path)
    return tmp_path


def run(line: str, capsys, monkeypatch) -> str:
    """What a line of a shell prints: a command, after `cat`, before `>`, or by itself."""
    words = shlex.split(line)
    if words[0] == "cat":
        content = io.BytesIO(Path(words[1]).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
        words = words[words.index("|") + 1 :]
    target = words[words.index(">") + 1] if ">" in words else None
    assert words[0] == "forecast-unc"
    code = main(words[1 : words.index(">") if ">" in words else None])
    out, err = capsys.readouterr()
    assert (code == 0) == ("must" not in err), err
    if target is not None:
        Path(target).write_text(out)
    return out + err


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.splitlines()[0][2:60])
def test_commands_of_the_page_run(files, capsys, monkeypatch, block):
    lines = block.splitlines()
    for line, following in zip(lines, [*lines[1:], "$"], strict=True):
        if line.startswith("$ "):
            said = run(line[2:], capsys, monkeypatch)
            if not following.startswith("$"):
                assert said == f"{following}\n"
    for name in re.findall(r"(?:--output|--plot|--save|>) ([\w.-]+)", block):
        assert name == "-" or Path(name).stat().st_size > 0


@pytest.mark.parametrize("command", ["forecast", "backtest", "completion"])
def test_examples_of_the_help_are_commands(command, capsys):
    assert main([command, "--help"]) == 0
    text = re.sub(r"\\\n +", "", capsys.readouterr().out).partition("examples:")[2]
    examples = re.findall(r"(?:^ +|\| )forecast-unc (.*?)(?: [|>]|   |$)", text, re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        name, *words = shlex.split(example)
        program.commands[name].make_context(name, words)
