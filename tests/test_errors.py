"""Errors and remarks are data: their fields, their words once, and nothing that takes one apart."""

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast_unc
from forecast_unc import Forecast, Forecaster, datasets
from forecast_unc._checks import refusal
from forecast_unc._notes import Note, Notes
from forecast_unc.cli import main, messages, reading
from forecast_unc.distributions.joint import Diverged
from forecast_unc.errors import ArgumentError, ArgumentTypeError, InvalidArgument
from forecast_unc.panels.jobs import Failure, cause_of
from forecast_unc.regression.posterior import Unstable
from forecast_unc.series.times import DaysOfMonthsError, MissingTimesError

PACKAGE = Path(forecast_unc.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}

ERRORS = [
    ArgumentError("y", "vary", "the constant 7", "Give more.", code="constant"),
    ArgumentTypeError("y", "be a Series", "int", "Wrap it.", context="All have this."),
    DaysOfMonthsError("y", "72 times", 24, "SMS-15"),
    MissingTimesError("y", "2 missing timestamps", "Reindex.", "Mon Tue", ("Wednesday",)),
    Unstable("variance", "be positive", "-1", "Ask for fewer steps."),
    Diverged("steps", "stay stable", "one that diverges at step 7", "Ask for fewer.", 7),
]


# --- fields


def test_the_text_is_made_of_the_fields():
    error, wrong_type, *_ = ERRORS
    assert str(error) == "y must vary; got the constant 7. Give more."
    assert str(wrong_type) == "y must be a Series; got int. Wrap it. All have this."
    other = wrong_type.but(argument="data", context="")
    assert str(other) == "data must be a Series; got int. Wrap it."
    assert (type(other), other.args) == (ArgumentTypeError, (str(other),))
    assert wrong_type.argument == "y"


def test_what_catches_an_error_of_python_catches_no_more_than_before():
    assert isinstance(refusal("n", "be 1", "2", "Pass 1."), ValueError)
    wrong_type = refusal("n", "be an int", "''", "Pass 1.", TypeError)
    assert isinstance(wrong_type, TypeError)
    assert not isinstance(wrong_type, ValueError)
    assert not isinstance(ERRORS[0], TypeError)
    assert all(isinstance(error, InvalidArgument) for error in ERRORS)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error):
    error.add_note("while forecasting")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_failure_is_a_text_with_its_error():
    error = ArgumentError("y", "vary", "the constant 7", "Give more.")
    failure = pickle.loads(pickle.dumps(Failure.of(error)))
    assert failure == "ValueError: y must vary; got the constant 7. Give more."
    other = Failure.of(error.but(got="the constant 8"))
    assert cause_of(failure) == cause_of(other) != cause_of(Failure.of(ValueError("no")))
    assert cause_of(str(failure)) != cause_of(str(other))  # as read from a file
    error.add_note("at 2020")
    assert Failure.of(error) == "ValueError: y must vary; got the constant 7. Give more; at 2020"


def test_a_remark_is_a_text_with_its_parts():
    note = pickle.loads(pickle.dumps(Note("outliers", "outliers: 1 value", (3,), "keep it")))
    assert note == "outliers: 1 value; keep it"
    assert (note.kind, note.fact, note.places) == ("outliers", "outliers: 1 value", (3,))
    several = pickle.loads(pickle.dumps(Notes.of([note, note])))
    assert several == f"{note}; {note}"
    assert several.notes == (note, note)
    assert Notes.of([]) == ""


def test_places_are_those_of_the_series():
    y = datasets.load_nile()
    y.iloc[70] *= 5
    model = Forecaster(lags=2).fit(y)
    (note,) = model.notes_
    assert (note.kind, note.places) == ("outliers", (70,))
    kinds = [line.kind for line in model.choices_]
    assert kinds == ["season", "outliers", "model"]


# --- codes


def test_the_shell_advises_on_codes_and_kinds_that_there_are():
    tables = PACKAGE / "cli" / "messages.py", PACKAGE / "cli" / "reading.py"
    used = [node for path, tree in TREES.items() if path not in tables for node in ast.walk(tree)]
    texts = {node.value for node in used if isinstance(node, ast.Constant)}
    texts |= {f"{bound} of y" for bound in ("lower", "upper")}  # made of the argument
    for table in (messages._REMEDIES, messages._ADVICE, reading._OF_ONE_SERIES):
        assert set(table) - texts == set()


# --- words, each once


def series(*values: float) -> pd.Series:
    return pd.Series(values, pd.date_range("2024-01-01", periods=len(values), freq="D"))


DAILY = pd.date_range("2024-01-01", periods=40, freq="D")
OPEN = pd.DatetimeIndex([day for day in DAILY if day.day_of_week])
WORDS = [
    (
        lambda: Forecaster().fit(series(3)),
        "y must have more than one value; got 3 alone. Give more history.",
    ),
    (
        lambda: Forecaster(lags=1).fit(series(3, 3, 3, 3, 3)),
        "y must vary; got the constant 3 throughout, to 12 digits. There is nothing to learn; "
        "subtract a large offset if there is one.",
    ),
    (
        lambda: Forecaster().fit(series(1, 2, 3)[::-1]),
        "y must be in ascending order of time; got 2024-01-03 out of place. Sort it with "
        "y.sort_index().",
    ),
    (
        lambda: Forecaster().fit(pd.concat([series(1, 2), series(1, 2)])),
        "y must have unique times; got 2024-01-01 more than once. Aggregate the duplicates, for "
        "example y.groupby(level=0).mean().",
    ),
    (
        lambda: Forecaster().fit(pd.Series(range(39), DAILY.delete(20))),
        "y must have a regular index; got 1 missing timestamp, first 2024-01-21. Reindex with "
        'y.asfreq("D"): missing values are then uncertain, not filled.',
    ),
    (
        lambda: Forecaster().fit(pd.Series(range(len(OPEN)), OPEN)),
        "y must have a regular index; got 5 missing timestamps, first 2024-01-08. None is on a "
        "Monday: leave closed days out by y.asfreq(pd.offsets.CustomBusinessDay("
        "weekmask='Tue Wed Thu Fri Sat Sun')).",
    ),
    (
        lambda: Forecaster(seasonal_period=1).fit(series(1, 2, 3)),
        "seasonal_period must be a whole number of steps, at least 2, or several; got 1. Use None "
        "for a series without a season.",
    ),
    (
        lambda: Forecaster(lower=2).fit(series(1, 2, 3)),
        "lower must be at most every value of y; got 2, and y is 1 at 2024-01-01. Take a smaller "
        "one, or lower=-np.inf for none.",
    ),
    (
        lambda: Forecast(DAILY[:2], np.ones(2), np.eye(2)).interval(95),
        "coverage must lie strictly between 0 and 1; got 95. For a 95 % interval pass 0.95.",
    ),
    (
        lambda: Forecaster().fit([1, 2]),
        "y must be a pandas Series; got list. Wrap it, for example pd.Series(values, index=times).",
    ),
]
ROW = "Write one row for each time, in order and without a gap."
EMPTY = "are then missing values, which are uncertain, not filled."
IN_A_SHELL = [
    (
        DAILY[::-1],
        [],
        "column 'ds' must be in ascending order of time; got 2024-02-09 out of place. Pass "
        f"--sort. {ROW}",
    ),
    (
        DAILY.append(DAILY[3:4]),
        [],
        f"column 'ds' must have unique times; got 2024-01-04 more than once. {ROW} Of several "
        "series name the column that tells them apart with --id.",
    ),
    (
        DAILY.delete(9),
        [],
        "column 'ds' must have a regular index; got 1 missing timestamp, first 2024-01-10. Pass "
        f"--freq D: rows that are missing {EMPTY}",
    ),
    (
        OPEN,
        [],
        "column 'ds' must have a regular index; got 5 missing timestamps, first 2024-01-08. No row "
        "is on a Monday. Pass --freq 'Tue Wed Thu Fri Sat Sun' to leave closed days out: other "
        f"rows that are missing {EMPTY}",
    ),
    (
        DAILY[:1],
        [],
        "column 'ds' must have a regular index; got 1 time without a frequency that pandas can "
        "infer. A fit takes two values at least; fewer than three need --freq, such as D, W-MON "
        "(weeks) or MS (months).",
    ),
    (
        pd.date_range("2024-10-20", periods=300, freq="h", tz="Europe/Berlin").tz_localize(None),
        [],
        "column 'ds' must have unique times; got 2024-10-27 02:00:00 more than once. Aggregate the "
        "duplicates. It may be the hour of which clocks went back. Then pass --zone Europe/Berlin, "
        "or their zone.",
    ),
    (
        pd.date_range("2024-10-01", periods=60, tz="Europe/Berlin").tz_convert("UTC"),
        [],
        "column 'ds' must have a regular index; got 60 times without a frequency that pandas can "
        "infer. Its times are days apart but for an hour, as local days are in UTC: write local "
        "dates, as 2024-01-31.",
    ),
    (
        DAILY,
        ["--period", "1"],
        "--period must be a whole number of steps, at least 2, or several; got 1. Leave it out for "
        "the season of the times.",
    ),
    (
        DAILY,
        ["--max-train", "1"],
        "--max-train must be a whole number, at least 3; got 1. Leave it out to learn from all "
        "rows.",
    ),
    (
        DAILY,
        ["--differences", "-1"],
        "--differences must be lags, positive whole numbers; got -1. Use 0 for none.",
    ),
    (
        DAILY,
        ["--lower", "200"],
        "--lower must be at most every value of y; got 200, and y is 0 at 2024-01-01. Take a "
        "smaller one, or --lower=-inf for none.",
    ),
    (
        DAILY,
        ["--upper", "2"],
        "--upper must be at least every value of y; got 2, and y is 3 at 2024-01-04. Take a "
        "larger one, or leave it out.",
    ),
    (
        DAILY,
        ["--lower", "nan"],
        "--lower must be a number below inf; got nan. Use --lower=-inf for no bound.",
    ),
    (
        DAILY,
        ["--lower", "3", "--upper", "2"],
        "--upper must be a number above 3; got 2.0. Leave it out for no bound.",
    ),
    (
        range(40),
        ["--calendar", "month"],
        "--calendar must be None, 'fourier' or 'profile' for a RangeIndex, which has no dates; got "
        "a part of the date. Write times as dates, as 2024-01-31.",
    ),
    (
        DAILY,
        ["--jobs", "0"],
        "--jobs must be a whole number other than 0; got 0. -1 takes all processors.",
    ),
]


def test_words_for_python():
    said = []
    for call, _ in WORDS:
        with pytest.raises(InvalidArgument) as caught:
            call()
        said.append(str(caught.value))
    assert said == [words for _, words in WORDS]


def test_words_for_a_shell(tmp_path, capsys):
    path, said = tmp_path / "d.csv", []
    for times, options, words in IN_A_SHELL:
        pd.DataFrame({"ds": times, "y": np.arange(len(times)) % 5}).to_csv(path, index=False)
        assert main(["forecast", str(path), "--steps", "2", *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        said.append(err.removeprefix("forecast-unc: ").rstrip("\n")[: len(words)])
    assert said == [words for *_, words in IN_A_SHELL]


def test_a_saved_model_that_is_none_is_told_in_a_shell(tmp_path, capsys):
    path = tmp_path / "m.npz"
    path.write_text("mine")
    assert main(["forecast", "--steps", "2", "--load", str(path)]) == 2
    assert capsys.readouterr().err.endswith("of another kind. Give the file that --save wrote.\n")


def test_remarks_advise_in_a_shell():
    notes = [Note(kind, f"{kind}: a", (2.0,), "in Python") for kind in messages._ADVICE]
    assert [messages.note_text(note) for note in notes if note.kind in ("highest", "shift")] == [
        "highest: a; if none can be, give --upper 2",
        "shift: a; --outliers keep keeps them",
    ]
    assert [messages.note_text(note, loaded=True) for note in notes] == [n.fact for n in notes]
    assert messages.note_text("of another model") == "of another model"


# --- no text is taken apart

HABITS = {"partition", "rpartition", "split", "rsplit", "startswith", "endswith", "replace"}
HABITS |= {"removeprefix", "removesuffix", "find", "rfind", "index", "count", "translate"}
FIELDS = {"args", "notes_", "choices_", "remedy", "reason", "rule", "got", "fact"}
PATTERNS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}


def is_message(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression holds the text of an error or a remark, or a name of one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in FIELDS:
            return True
        if isinstance(part, ast.Name) and part.id in names:
            return True
    return False


def names_in(*targets: ast.AST) -> set[str]:
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def names_of_messages(tree: ast.AST) -> set[str]:
    """Names bound by handlers and loops, and those of a text that `str` made of one."""
    names = {"error", "problem", "reason", "message", "note", "remedy"}
    names |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and is_message(node.iter, set()):
            names |= names_in(node.target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func) == "str" and is_message(node.value, names)
            names |= names_in(*node.targets) if made else set()
    return names


def taken_apart(tree: ast.AST) -> Iterator[str]:
    """Expressions that search or cut the text of an error or a remark."""
    names = names_of_messages(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner, method = node.func.value, node.func.attr
            if method in HABITS and is_message(owner, names):
                yield ast.unparse(node)
            is_pattern = method in PATTERNS and ast.unparse(owner) == "re"
            if is_pattern and any(is_message(argument, names) for argument in node.args):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant | ast.JoinedStr):
            searched = " in " in ast.unparse(node)
            if searched and is_message(node.comparators[0], names):
                yield ast.unparse(node)


def test_the_scan_sees_the_habits():
    habits = """
try:
    work()
except ValueError as wrong:
    text = str(wrong)
    text.partition(". ")
    "infer" in text
    str(wrong).replace("y", "z")
    re.search("a", str(wrong))
    wrong.args[0].split(";")
any(line.startswith("outliers:") for line in model.notes_)
[c for c in takewhile(lambda line: line.endswith("model"), model.choices_)]
error.remedy.partition("; got")
outcome.error.partition("; got")
"""
    assert len(list(taken_apart(ast.parse(habits)))) == 8
    assert (
        list(taken_apart(ast.parse("name.partition('.'); 'a' in names; x.replace('a', 'b')"))) == []
    )


def test_no_text_of_an_error_or_a_remark_is_taken_apart():
    found = {path.name: list(taken_apart(tree)) for path, tree in TREES.items()}
    assert {name: habits for name, habits in found.items() if habits} == {}
