"""Mutants of the mathematics, and whether the tests notice: a sample by a seed.

    python tests/mutate.py --sample 300 --out mutants.csv     # make mutants
    python tests/mutate.py --show 17                          # one mutant as a diff

A mutant is one change of one expression in a copy of the tree. The tests that reach its line run,
cheapest first, until one fails. What these pass, others try in the end, those of the same files
first: what is cached counts as reached by the first test alone. A mutant that all pass has
survived: a test is missing, or the change changes nothing, which a person has to say. Which lines a
test reaches, and its seconds, are measured once and kept in a folder beside the file (delete it
after other changes). Slow tests and documentation are left out. What was tried stands in the file,
from which a run goes on; the last row of a mutant counts.
"""

import argparse
import ast
import copy
import csv
import difflib
import importlib
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from coverage import CoverageData
from cpus import OTHER

ROOT = Path(__file__).resolve().parents[1]
_MANY = 10**9
# The mathematics, by names of modules.
PARTS = re.compile(
    "regression/|distributions/|series/seasons|"
    "forecasting/(horizon/|models/(counts|design|effects|smoothing)|pool/(calibration|weights))"
)
# Seconds of tests for a mutant, as they were measured, those of the tests that try what these pass,
# and so many times that until it hangs.
SECONDS, MORE_SECONDS, _PATIENCE = 60.0, 120.0, 10.0
# Loaded once, by the process whose forks run the tests.
_LIBRARIES = (
    "scipy.stats scipy.optimize pandas sklearn.gaussian_process statsmodels.tsa.api hypothesis"
)
# Where few numbers are: bounds of searches, and words.
_LEFT = (
    *("diagnose.py", "export.py", "picture.py", "interactive.py", "page.py", "fitted.py"),
    *("search.py", "estimator.py"),
)
_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OTHER |= {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq}
_OTHER |= {ast.And: ast.Or, ast.Or: ast.And, ast.NotEq: ast.Eq}
_WORDS = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "sum": "mean"}
_DROPPED = {"abs", "sqrt", "exp", "log", "tril", "square", "log1p", "expm1"}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Changes of one node, each a new one."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
        yield ast.BinOp(node.left, _OTHER[type(node.op)](), node.right)
        if isinstance(node.op, ast.Add | ast.Sub):
            yield node.left  # a term less
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield ast.Compare(node.left, [_OTHER[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(_OTHER[type(node.op)](), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1 if node.value in (0, 1, -1) else node.value * 1.1)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _WORDS:
            changed = ast.Attribute(node.func.value, _WORDS[node.func.attr], ast.Load())
            yield ast.Call(changed, node.args, node.keywords)
        elif node.func.attr in _DROPPED and node.args:
            yield node.args[0]


class _Changed(ast.NodeTransformer):
    """Replace the n-th variant of a tree."""

    def __init__(self, number: int) -> None:
        self.left, self.line = number, 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.AnnAssign | ast.FunctionDef):
            node = copy.copy(node)
            hidden = [
                (name, getattr(node, name))
                for name in ("annotation", "returns")
                if hasattr(node, name)
            ]
            for name, _ in hidden:
                setattr(node, name, None if name == "returns" else ast.Constant(None))
            node = self._visited(node)
            for name, value in hidden:
                setattr(node, name, value)
            return node
        return self._visited(node)

    def _visited(self, node: ast.AST) -> ast.AST:
        for other in variants(node):
            if self.left == 0:
                self.left, self.line = -1, getattr(node, "lineno", 0)
                return ast.copy_location(other, node)
            self.left -= 1
        return self.generic_visit(node) if self.left >= 0 else node


def changed(source: str, number: int) -> tuple[str, int] | None:
    """The source with the n-th change of a file, and its line; None if there are fewer."""
    change = _Changed(number)
    tree = change.visit(ast.parse(source))
    return (ast.unparse(ast.fix_missing_locations(tree)), change.line) if change.left < 0 else None


def mutants() -> list[tuple[str, int]]:
    """All changes of the mathematics: file and number."""
    found = []
    for path in sorted((ROOT / "forecast_unc").rglob("*.py")):
        name = path.relative_to(ROOT / "forecast_unc").as_posix()
        if path.name in _LEFT or not PARTS.match(name):
            continue
        counter = _Changed(_MANY)
        counter.visit(ast.parse(path.read_text()))
        found += [(name, number) for number in range(_MANY - counter.left)]
    return found


def lines_of(source: str, line: int) -> range:
    """The lines of the innermost statement that holds a line; of a compound one its head."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno if body else (node.end_lineno or 0) + 1
            if node.lineno <= line < end:
                found = range(node.lineno, end)
    return found


def uses_of(source: str, line: int) -> set[int]:
    """Lines that use what a line sets at import: of a default its function, else of a name."""
    found = set[int]()
    for node in _at_import(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line < node.body[0].lineno:
            found |= {*range(node.body[0].lineno, (node.end_lineno or 0) + 1)}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (
            node.end_lineno or 0
        ):
            stored = (one for one in ast.walk(node) if isinstance(one, ast.Name))
            names = {one.id for one in stored if isinstance(one.ctx, ast.Store)}
            named = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
            found |= {i for i, text in enumerate(source.split("\n"), 1) if named.search(text)}
    return found


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module and of its classes, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.ClassDef):
            yield from _at_import(node)


class Reach:
    """Which tests reach a line, and their seconds, measured in a copy of the tree."""

    def __init__(self, tree: Path, folder: Path) -> None:
        data, report = folder.resolve() / "coverage", folder.resolve() / "tests.xml"
        if not report.exists():
            command = [sys.executable, "-m", "pytest", "-q", "tests", f"--junitxml={report}"]
            command += ["--cov=forecast_unc", "--cov-context=test", "--cov-report="]
            command += ["--cov-fail-under=0"]
            command += [f"--ignore=tests/test_{name}.py" for name in (*OTHER, "docs")]
            where = os.environ | {"PYTHONPATH": str(tree), "COVERAGE_FILE": str(data)}
            subprocess.run(command, cwd=tree, env=where, check=True)
        self.data, self.seconds = CoverageData(str(data)), defaultdict[str, float](float)
        self.data.read()
        self.files = {Path(file).as_posix(): file for file in self.data.measured_files()}
        for case in ElementTree.parse(report).iter("testcase"):
            path = case.get("classname", "").replace(".", "/")
            self.seconds[f"{path}.py::{case.get('name')}"] += float(case.get("time", 0.0))

    def tests(self, name: str, lines: Iterable[int]) -> list[str]:
        """The tests that reach some lines of a module, cheapest first."""
        file = next(file for path, file in self.files.items() if path.endswith(f"/{name}"))
        by_line = self.data.contexts_by_lineno(file)
        found = {one.split("|")[0] for line in lines for one in by_line.get(line, []) if one}
        return sorted(found, key=lambda test: (self.seconds[test], test))

    def others(self, name: str, tests: list[str]) -> list[str]:
        """All other tests: those in the files of some tests or that name the module come first."""
        word = re.compile(rf"\b(test_)?{Path(name).stem}\b")
        files = {test.split("::")[0] for test in self.seconds}
        near = {file for file in files if word.search(file + (ROOT / file).read_text())}
        near |= {test.split("::")[0] for test in tests}
        left = self.seconds.keys() - {*tests}
        return sorted(left, key=lambda t: (t.split("::")[0] not in near, self.seconds[t], t))

    def within(self, tests: list[str], seconds: float) -> list[str]:
        """The first of some tests, as far as some seconds go."""
        total = np.cumsum([self.seconds[test] for test in tests])
        return tests[: int(np.searchsorted(total, seconds)) + 1]


class _InOrder:
    """Run some tests alone, in their order."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: at for at, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if item.nodeid in self.place]
        items[:] = sorted(chosen, key=lambda item: self.place[item.nodeid])


def _run(tree: Path, tests: list[str], log: Path) -> None:
    """Run tests in a fork of its own; its exit code is pytest's."""
    os.setsid()
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    files = dict.fromkeys(test.split("::")[0] for test in tests)
    quiet = ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    os._exit(pytest.main(["-x", "-q", *quiet, *files], plugins=[_InOrder(tests)]))


def outcome(tree: Path, name: str, number: int, reach: Reach, last: bool) -> tuple[str, int]:
    """Whether tests notice a mutant in a copy of the tree, at last the wider ones; its line."""
    path = tree / "forecast_unc" / name
    source = path.read_text()
    mutant = changed(source, number)
    assert mutant is not None
    reaching = reach.tests(name, {*lines_of(source, mutant[1]), *uses_of(source, mutant[1])})
    tests = reach.within(reaching, SECONDS)
    if last:
        tests = reach.within(reach.others(name, tests), MORE_SECONDS)
    elif not tests:
        return "passed", mutant[1]
    seconds = _PATIENCE * sum(reach.seconds[test] for test in tests) + 120.0
    arguments = (tree, tests, tree.parent / "log.txt")
    child = multiprocessing.get_context("fork").Process(target=_run, args=arguments)
    path.write_text(mutant[0])
    Path(cache_from_source(str(path))).unlink(missing_ok=True)  # maybe of the same second
    try:
        child.start()
        child.join(seconds)
        if child.exitcode is None:
            os.killpg(child.pid or 0, 9)
            child.join()
            return "too long", mutant[1]
        if child.exitcode in (4, 5):  # pytest found none
            raise RuntimeError(arguments[2].read_text())
        passed = ("survived" if reaching else "reached by no test") if last else "passed"
        return (passed if child.exitcode == 0 else "killed"), mutant[1]
    finally:
        path.write_text(source)
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="mutants.csv")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    everything = mutants()
    order = np.random.default_rng(options.seed).permutation(len(everything))[: options.sample]
    if options.show is not None:
        name, number = everything[order[options.show]]
        source = (ROOT / "forecast_unc" / name).read_text()
        before, after = ast.unparse(ast.parse(source)), changed(source, number)
        assert after is not None
        print(
            "\n".join(
                difflib.unified_diff(
                    before.split("\n"), after[0].split("\n"), name, lineterm="", n=2
                )
            )
        )
        return 0
    for library in _LIBRARIES.split():
        importlib.import_module(library)
    out, end = Path(options.out), time.monotonic() + 60 * options.minutes
    measured = out.with_suffix("")
    measured.mkdir(exist_ok=True)
    out.touch()
    with tempfile.TemporaryDirectory() as folder, out.open("a", newline="") as file:
        tree = Path(folder) / "tree"
        ignore = shutil.ignore_patterns(".*", "_build", "__pycache__", "demo", "mutants")
        shutil.copytree(ROOT, tree, ignore=ignore)
        reach = Reach(tree, measured)
        for last in (False, True):
            known = {row[0]: row[-1] for row in csv.reader(out.open())}
            for place, at in enumerate(order):
                due = known.get(str(place)) == ("passed" if last else None)
                if not due or time.monotonic() > end:
                    continue
                name, number = everything[at]
                found, line = outcome(tree, name, number, reach, last)
                csv.writer(file).writerow([place, name, line, number, found])
                file.flush()
    rows = [*{row[0]: row for row in csv.reader(out.open())}.values()]
    survived = [row for row in rows if row[-1] != "killed"]
    for row in survived:
        print(row[-1], *row[:-1])
    print(
        f"{len(everything)} mutants; of {len(rows)} tried {len(rows) - len(survived)} were noticed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
