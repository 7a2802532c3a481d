"""What the documentation shows runs, and what it links to exists."""

import doctest
import os
import py_compile
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.printed import PrintedOutput

ROOT = Path(__file__).parents[1]


def found(*patterns: str) -> list[str]:
    """Paths from the root, which read well as test names."""
    paths = (path for pattern in patterns for path in ROOT.glob(pattern))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


PAGES = found("*.md", "docs/**/*.md", "examples/**/*.md", "datasets/*.md")
GALLERY = found("examples/plot_*.py")
EXAMPLES = sorted({*found("examples/*.py")} - {*GALLERY})
BENCHMARKS = found("examples/benchmarks/*.py")

FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<inline>[^)\s]+)[^)]*\)|(?:src|href)=\"(?P<html>[^\"]+)\"")
# Words that no textbook's index has (docs/glossary.md has ours); the pages use fewer still.
UNUSED = r"abreast|afresh|at hand|doubt|goes on without|outruns?|prolong\w*|surer|too sure"
UNUSED += "|seasonal (?:harmonics?|profiles?)"
UNUSED_IN_PAGES = UNUSED + r"|judged|looks after itself|runs? away|kin"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def python_blocks(text: str) -> list[tuple[int, str]]:
    """(line of the first statement, code) of every fenced block marked python that can run.

    One marked ``python requires=library`` is left out where the library is not installed.
    """
    blocks = []
    for block in FENCE.finditer(text):
        language, _, needs = block["info"].strip().partition(" requires=")
        if language in ("python", "pycon", "py") and (not needs or find_spec(needs)):
            blocks.append((text.count("\n", 0, block.start("code")) + 1, block["code"]))
    return blocks


def run_block(code: str, line: int, page: Path, namespace: dict[str, object]) -> None:
    """Run a block as a doctest if it holds prompts, else as plain Python; keep its names."""
    if ">>>" not in code:
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
        return
    name = f"{page.name}:{line}"
    case = doctest.DocTestParser().get_doctest(code, {}, name, str(page), line - 1)
    case.globs = namespace
    report: list[str] = []
    runner = doctest.DocTestRunner(PrintedOutput(), optionflags=FLAGS)
    failed, _ = runner.run(case, out=report.append, clear_globs=False)
    assert failed == 0, "".join(report)


def run_script(script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # plt.show() shows nothing here, and says so.
    strict = ("-W", "error", "-W", "ignore:FigureCanvasAgg")
    return subprocess.run(
        [sys.executable, *strict, str(ROOT / script), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_blocks_are_found_and_share_their_names(tmp_path):
    text = "a\n```python\nx = 2\n```\n```console\nls\n```\n```pycon\n>>> x + 1\n3\n```\n"
    blocks = python_blocks(text)
    assert blocks == [(3, "x = 2\n"), (9, ">>> x + 1\n3\n")]
    namespace: dict[str, object] = {}
    for line, code in blocks:
        run_block(code, line, tmp_path / "page.md", namespace)
    with pytest.raises(AssertionError, match="Expected:\n *4"):
        run_block(">>> x + 1\n4\n", 1, tmp_path / "page.md", namespace)


AGREE = [  # as printed, as found
    ("3.88", "3.89"),
    ("3.88", "3.8812345"),
    ("-0.00", "0.00"),
    ("[ 0.10 -0.00]", "[0.10  0.00]"),
    ("1.23e-05", "1.24e-05"),
    ("1.00e-05", "9.99e-06"),
    ("12.", "12.0"),
    ("a  noise\n2020-01-01  0.10", "a noise \n2020-01-01   0.11"),
    ("low ... 3.88 high", "low 1 2 3.89 high"),
    ("0.123...", "0.1239"),
    ("<Forecaster at 0x...>", "<Forecaster at 0x7f>"),
    ("a\n<BLANKLINE>\n1.0", "a\n\n1.1"),
]
DISAGREE = [
    ("3.88", "3.90"),
    ("3.88", "-3.88"),
    ("12", "13"),
    ("12.", "13."),
    ("1e-05", "2e-05"),
    ("1.23e-05", "1.25e-05"),
    ("1.23e-05", "1.23e-04"),
    ("2020-01-01", "2020-01-02"),
    ("v1.2", "v1.3"),
    ("low 3.88", "high 3.88"),
    ("a b", "ab"),
    ("0.10 0.20", "0.10"),
    ("0.10", "0.10 0.20"),
    ("0.10", "nan"),
    ("low ... 3.88 high", "low 1 2 3.90 high"),
    ("1.0\n", ""),
]


def test_outputs_agree_to_the_digits_printed():
    def agree(pair):
        return PrintedOutput().check_output(*(f"{text}\n" for text in pair), FLAGS)

    assert [pair for pair in AGREE if not agree(pair)] == []
    assert [pair for pair in DISAGREE if agree(pair)] == []


# One second and more of one core each, nine tenths of what all pages and examples take: `make
# test-slow`, and `make docs` runs those of the gallery. README, index and quickstart never wait.
LONG = {
    "docs/guides/choosing.md",
    "docs/guides/load.md",
    "docs/guides/nightly.md",
    "docs/guides/panel.md",
    "docs/guides/price.md",
    "docs/guides/sensor.md",
    "docs/guides/shop.md",
    "docs/guides/year.md",
    "docs/how_to/backtest.md",
    "docs/how_to/fan_chart.md",
    "docs/how_to/lags.md",
    "docs/how_to/missing.md",
    "docs/how_to/panels.md",
    "docs/how_to/regressors.md",
    "docs/how_to/seasonal.md",
    "docs/how_to/trend.md",
    "docs/migration/skforecast.md",
    "docs/migration/statsmodels.md",
    "examples/first_forecast.py",
    "examples/guides.py",
    "examples/mackey_glass.py",
    "examples/missing.py",
    "examples/noisy_inputs.py",
    "examples/observation_noise.py",
    "examples/plot_backtest.py",
    "examples/plot_co2.py",
    "examples/plot_direction.py",
    "examples/plot_elnino.py",
    "examples/plot_mackey_glass.py",
    "examples/plot_noisy_inputs.py",
    "examples/plot_reduced_rank.py",
    "examples/plot_rvm_far.py",
    "examples/plot_rvm_optima.py",
    "examples/plot_sinc.py",
    "examples/electricity.py",
    "examples/santa_fe.py",
    "examples/theory.py",
}


def slow_if_long(file):
    return pytest.param(file, marks=pytest.mark.slow) if file in LONG else file


@pytest.mark.parametrize(
    "page", [slow_if_long(page) for page in PAGES if python_blocks(read(page))]
)
def test_python_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in python_blocks(read(page)):
        run_block(code, line, ROOT / page, namespace)


def anchors(page: Path) -> set[str]:
    """What can follow the # in a link to the page: its headings, as code hosts spell them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_links_meet_a_file_and_its_heading():
    wrong = []
    for page in PAGES:
        for link in LINK.finditer(FENCE.sub("", read(page))):
            path, _, anchor = (link["inline"] or link["html"]).partition("#")
            if re.match(r"[a-z][a-z0-9+.-]*:|//", path):
                continue
            target = (ROOT / page).parent / path if path else ROOT / page
            lacks = anchor and target.suffix == ".md" and anchor not in anchors(target)
            if not target.exists() or lacks:
                wrong.append(f"{page}: {path}#{anchor}")
    assert wrong == []


def table_rows(page: str) -> list[list[str]]:
    """Cells of the rows of all tables of a page."""
    rows = re.findall(r"^\| (.*) \|$", read(page), re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def test_readme_is_short_and_its_figures_are_those_of_the_board():
    assert len(read("README.md").splitlines()) <= 150
    # method, situations, MAE, CRPS, MSIS, two of MAE, coverage, ...; rows of the summary alone
    board = {row[0]: row[1:] for row in table_rows("docs/ordinary.md") if len(row) == 11}
    rows = {row[0]: row[1:] for row in table_rows("README.md") if len(row) == 3}
    for method, start in {
        "forecast_unc": "forecast_unc: ",
        "AutoARIMA": "AutoARIMA of",
        "AutoETS": "AutoETS of",
        "seasonal last value": "seasonal last value",
    }.items():
        (row,) = (cells for name, cells in rows.items() if name.startswith(start))
        assert row == [board[method][6], board[method][3]], method
    reserve = next(row for row in table_rows("docs/ordinary.md") if row[0].startswith("reserve, "))
    assert f"has {reserve[7]}." in read("README.md")


def test_readme_repeats_its_table_of_propagations():
    whole = {row[0]: [row[7], row[4]] for row in table_rows("README.md") if len(row) == 8}
    part = {row[0]: row[1:] for row in table_rows("README.md") if len(row) == 3}
    default = whole["mixture (default for one model)"]
    assert part["one Gaussian process, uncertainty propagated"] == default
    assert part["the same, naive propagation"] == whole["naive"]


def test_private_words_are_not_used():
    code = found("forecast_unc/**/*.py", "examples/**/*.py", "tests/**/*.py", "datasets/*.py")
    lines = []
    for words, files in (UNUSED_IN_PAGES, PAGES), (UNUSED, {*code} - {"tests/test_docs.py"}):
        for file in files:
            lines += [
                f"{file}: {match[0]}"
                for match in re.finditer(rf"\b(?:{words})\b", read(file), re.IGNORECASE)
            ]
    assert lines == []


def test_the_glossary_has_each_term_once_in_order():
    terms = re.findall(r"^## (.+)$", read("docs/glossary.md"), re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)


@pytest.mark.parametrize("script", [slow_if_long(file) for file in GALLERY])
def test_gallery_page_runs_without_warnings(script, tmp_path):
    run = run_script(script, cwd=tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("script", [slow_if_long(file) for file in EXAMPLES])
def test_example_runs_without_warnings(script, tmp_path):
    run = run_script(script, "--quick", "--output", str(tmp_path / "out"), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert any((tmp_path / "out").iterdir()), "an example writes what it shows into --output"


def test_benchmarks_compile(tmp_path):
    for script in BENCHMARKS:
        py_compile.compile(str(ROOT / script), cfile=str(tmp_path / "compiled"), doraise=True)


@pytest.mark.slow
@pytest.mark.parametrize("script", BENCHMARKS)
def test_benchmark_answers_help(script, tmp_path):
    # The other libraries are not installed for the tests, so they are imported inside functions.
    run = run_script(script, "--help", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "usage:" in run.stdout
