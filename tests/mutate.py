"""Mutants of the mathematics, and whether the tests notice: a sample by a seed.

    python tests/mutate.py --sample 300 --out mutants.csv     # make mutants
    python tests/mutate.py --show 17                          # one mutant as a diff

A mutant is one change of one expression in a copy of the tree. The tests that name the module, by
`TESTS`, run until one fails; a mutant that they pass has survived: a test is missing, or the change
changes nothing, which a person has to say. Slow tests and documentation are left out. What was
tried stands in a file, from which a run goes on.
"""

import argparse
import ast
import copy
import csv
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 240
_MANY = 10**9
# Tests of each part, those that are likely to fail first.
TESTS = {
    "regression/reduced_rank/": "reduced_rank reduced_rank_evidence",
    "regression/sparse_bayes/": "sparse_bayes rvm rvm_classifier",
    "regression/noisy_inputs/": "noisy_inputs",
    "regression/rvm": "rvm rvm_classifier",
    "regression/linear": "linear",
    "regression/mixture": "mixture normal_mixture integrated",
    "regression/integrated": "integrated",
    "regression/errors_in_variables": "errors_in_variables",
    "regression/": "moments posterior posterior_kinds gp evidence functions kernels predictor",
    "forecasting/propagation": "propagation first_steps mixture decomposition state",
    "forecasting/recursion": "propagation state decomposition",
    "forecasting/state": "state missing",
    "forecasting/sources": "decomposition propagation state",
    "forecasting/sampling": "propagation random mixture",
    "forecasting/averaging": "averaging combination ensemble",
    "forecasting/calibration": "calibration",
    "forecasting/smoothing": "smoothing",
    "forecasting/counts": "counts whole",
    "forecasting/calendar_effects": "effects holidays exog",
    "forecasting/rows": "rows model noisy_inputs exog",
    "distributions/power": "power forecast_properties",
    "distributions/scores": "scores",
    "distributions/mixture": "normal_mixture mixture",
    "distributions/condition": "joint forecast_properties whole questions",
    "distributions/sums": "joint questions lower upper whole",
    "distributions/": "joint forecast_properties lower upper whole recalibrated questions",
    "series/seasons": "seasons",
}
# Where those pass.
WIDE = "integrated noisy_inputs rvm reduced_rank propagation missing forecaster ensemble"
# Where few numbers are: bounds of searches, and words.
_LEFT = ("check.py", "tables.py", "picture.py", "page.py", "fitted.py", "search.py", "estimator.py")
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
        if path.name in _LEFT or not any(name.startswith(part) for part in TESTS):
            continue
        counter = _Changed(_MANY)
        counter.visit(ast.parse(path.read_text()))
        found += [(name, number) for number in range(_MANY - counter.left)]
    return found


def tests_of(name: str) -> list[str]:
    """Files of tests, those that are likely to fail first; then others."""
    part = max((part for part in TESTS if name.startswith(part)), key=len)
    names = dict.fromkeys([*TESTS[part].split(), *WIDE.split()])
    return [f"tests/test_{each}.py" for each in names]


def outcome(tree: Path, name: str, number: int) -> tuple[str, int]:
    """Whether tests notice a mutant in a copy of the tree, and its line."""
    path = tree / "forecast_unc" / name
    source = path.read_text()
    mutant = changed(source, number)
    assert mutant is not None
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    where: dict[str, Any] = {"cwd": tree, "env": os.environ | {"PYTHONPATH": str(tree)}}
    path.write_text(mutant[0])
    try:
        done = subprocess.run(
            [*command, *tests_of(name)], capture_output=True, timeout=SECONDS, **where
        )
        return ("survived" if done.returncode == 0 else "killed"), mutant[1]
    except subprocess.TimeoutExpired:
        return "too long", mutant[1]
    finally:
        path.write_text(source)


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
    out, end = Path(options.out), time.monotonic() + 60 * options.minutes
    known = {row[0] for row in csv.reader(out.open())} if out.exists() else set()
    with tempfile.TemporaryDirectory() as folder, out.open("a", newline="") as file:
        tree = Path(folder) / "tree"
        ignore = shutil.ignore_patterns(".*", "_build", "__pycache__", "demo")
        shutil.copytree(ROOT, tree, ignore=ignore)
        for place, at in enumerate(order):
            if str(place) in known or time.monotonic() > end:
                continue
            name, number = everything[at]
            found, line = outcome(tree, name, number)
            csv.writer(file).writerow([place, name, line, number, found])
            file.flush()
    rows = list(csv.reader(out.open()))
    survived = [row for row in rows if row[-1] == "survived"]
    for row in survived:
        print("survived:", *row)
    print(
        f"{len(everything)} mutants; of {len(rows)} tried {len(rows) - len(survived)} were noticed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
