"""The tests with the oldest and the newest libraries, on each Python here: `make test-matrix`.

    python tests/matrix.py                       # each environment: made, then tested
    python tests/matrix.py --only 3.11-oldest    # one of them
    python tests/matrix.py --only 3.13-newest tests/test_panel.py     # these tests alone

"oldest" has each library at the lower bound that pyproject.toml declares, on the oldest Python;
"pandas2" the newest but for pandas. The tests are the numerical ones and those of series, panels,
frames, files and the command line.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from cpus import MACHINES, OTHER, environment, passed

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Of those without numbers, the ones that libraries can break.
DOOR = {"backtest", "calendar", "cli", "cli_options", "cli_reading", "exog", "export", "history"}
DOOR |= {"panel", "random", "report", "saving", "scores", "series", "times"}


def oldest() -> list[str]:
    """The declared lower bounds as pins, `numpy==1.26`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["dask"], *extras["dataframes"]]
    # newer ones warn of what matplotlib 3.8 does
    return ["pyparsing<3.3"] + [
        re.sub(r"\[.*\]", "", one.split(",")[0]).replace(">=", "==") for one in declared
    ]


def pythons() -> dict[str, str]:
    """Interpreters by version, of pyenv or of the path, as far as they are here."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = {}
    for version in PYTHONS:
        here = sorted(map(str, root.glob(f"versions/{version}.*/bin/python")))
        interpreter = here[-1] if here else shutil.which(f"python{version}")
        if interpreter:
            found[version] = interpreter
        else:
            print(f"{version:13} skipped: not here", flush=True)
    return found


def environments() -> dict[str, tuple[str, list[str]]]:
    """Interpreter and what is pinned, by name."""
    found = pythons()
    first = next(iter(found))
    made = {f"{first}-oldest": (found[first], oldest())}
    made[f"{first}-pandas2"] = found[first], ["pandas<3"]
    return made | {f"{version}-newest": (path, []) for version, path in found.items()}


def install(name: str, interpreter: str, pins: list[str]) -> str:
    """The interpreter of an environment in .venv that holds the package and what is pinned."""
    folder = ROOT / ".venv" / name
    if not (folder / "bin" / "python").exists():
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--prefer-binary", "-e", ".[test]", *pins], cwd=ROOT, check=True)
    return python


def main() -> int:
    """Make and test each environment; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", help="environments, such as 3.11-oldest")
    parser.add_argument("tests", nargs="*", help="tests in the place of those that are usual")
    arguments = parser.parse_args()
    left_out = [f"--ignore=tests/test_{each}.py" for each in OTHER if each not in DOOR]
    tests = arguments.tests or ["tests", *left_out]
    all_passed = []
    for name, (interpreter, pins) in environments().items():
        if not arguments.only or name in arguments.only:
            python = install(name, interpreter, pins)
            # those of old libraries, such as scikit-learn's own tests under a new pytest
            quiet = ["-W", "ignore::DeprecationWarning"] if name.endswith("oldest") else []
            asked = ["-n", "auto", *quiet, *tests]
            all_passed.append(passed(f"{name:13}", python, asked, environment(MACHINES[0])))
    return 0 if all(all_passed) else 1


if __name__ == "__main__":
    sys.exit(main())
