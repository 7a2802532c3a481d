"""The options of the commands, their checks before the work, and the forecaster they describe."""

from __future__ import annotations

import errno
import math
import os
import re
from inspect import cleandoc
from itertools import combinations, takewhile
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
from click.shell_completion import CompletionItem

from forecast_unc._checks import check_coverages, check_jobs, check_steps, check_whole, refusal
from forecast_unc.cli.reading import STANDARD, check_table, read_holidays
from forecast_unc.distributions.power import POWERS
from forecast_unc.evaluation import baselines
from forecast_unc.evaluation.folds import COMPARED, percent
from forecast_unc.evaluation.report import check_suffix
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.horizon.types import PROPAGATIONS
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.regression.rvm.rvm import RVMRegressor
from forecast_unc.series.calendar import EFFECTS, HOLIDAYS, NAMES, is_effect

_REGRESSORS = {
    "gp": GPRegressor,
    "linear": LinearRegressor,
    "rvm": RVMRegressor,
    "reduced-rank": ReducedRankGPRegressor,
}
BASELINES = {
    "last_value": baselines.Naive,
    "drift": baselines.Drift,
    "seasonal_naive": baselines.SeasonalNaive,
    "autoreg": baselines.AutoReg,
    "ets": baselines.ETS,
    "theta": baselines.Theta,
    "sarimax": baselines.SARIMAX,
}
PROPAGATED = {name.replace(" ", "_"): name for name in COMPARED}  # no blank in an option's value
_COMPARED = [*PROPAGATED, *BASELINES]


def compared(name: str) -> Any:
    """The contender that a name of `--compare` stands for."""
    return BASELINES[name]() if name in BASELINES else PROPAGATED[name]


# Between the values of an option that takes several: no argument of a process can hold it.
_BETWEEN = "\0"
_OPEN = "forecast_unc.cli.open"  # key of the option of several values that may get one more
_FILE = click.Path(readable=False, path_type=Path)  # files are checked below


class _Several(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Values of one type, as a list, from the words that a `Command` has joined."""

    def __init__(self, one: Any = str, least: int = 1) -> None:
        self.one = click.types.convert_type(one)
        self.name, self.least = self.one.name, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The list of a joined text; a default is one."""
        if not isinstance(value, str):
            return value
        return [self.one.convert(each, param, ctx) for each in value.split(_BETWEEN) if value]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        """Completions of one of the values."""
        return self.one.shell_complete(ctx, param, incomplete)


class _Calendar(click.Choice):  # type: ignore[type-arg]
    """A part of the calendar, or the holidays of a country."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Holidays are checked where they are looked up."""
        held = isinstance(value, str) and value.startswith(HOLIDAYS)
        return value if held else super().convert(value, param, ctx)


class _Compared(click.Choice):  # type: ignore[type-arg]
    """A model that can be compared; of the naive ones it has three."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A choice, or an error."""
        if value == "naive":
            said = "last_value, the last value again; seasonal_naive, the last season again; or "
            said += "naive_propagation, the same model, its own forecasts taken as known"
            self.fail(f"'naive' may be {said}.", param, ctx)
        return super().convert(value, param, ctx)


class _Option(click.Option):
    def __init__(self, name: str, metavar: str, text: str, heading: str, **how: Any) -> None:
        super().__init__([name], metavar=metavar, help=text, **how)
        self.heading = heading


class Command(click.Command):
    """A command whose options take all words up to the next one, and have headings."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Data first: after an option of several values it would be one of them."""
        return super().collect_usage_pieces(ctx)[::-1]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options under their headings."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                heading = param.heading if isinstance(param, _Option) else "help"
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the values of an option, all words up to the next option."""
        options = {param.opts[0]: param for param in self.params if isinstance(param, _Option)}
        words, joined = list(args), []
        while words:
            word = words.pop(0)
            joined.append(word)
            if word not in options:
                continue
            kind = options[word].type
            most, least = (None, kind.least) if isinstance(kind, _Several) else (1, 1)
            values = list(takewhile(_is_value, words))[:most]
            if len(values) < least and not ctx.resilient_parsing:
                raise click.BadOptionUsage(word, f"Option '{word}' requires an argument.", ctx)
            joined.append(_BETWEEN.join(values))
            del words[: len(values)]
            if not words and most is None:
                ctx.meta[_OPEN] = options[word]
        return super().parse_args(ctx, joined)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """One more value of the option that the words end with, or an option."""
        if _OPEN in ctx.meta and _is_value(incomplete):
            values: list[CompletionItem] = ctx.meta[_OPEN].shell_complete(ctx, incomplete)
            return values
        return super().shell_complete(ctx, incomplete)


def _is_value(word: str) -> bool:
    """Whether a word is no option: - is standard input, -99.99 a number."""
    return not word.startswith("--") and word != "-h"


def example(error: click.UsageError) -> str:
    """A right value of the option that an error is about, as a sentence; of choices none."""
    param: Any = getattr(error, "param", None)
    kind = getattr(param, "type", None)
    more = ", or several with blanks between" if hasattr(kind, "one") else ""
    kind = getattr(kind, "one", kind)
    shown = {click.INT: "a whole number, such as {} 12", click.FLOAT: "a number, such as {} 0.9"}
    return f" Pass {shown[kind].format(param.opts[0])}{more}." if kind in shown else ""


def _options(heading: str, text: str, **how: dict[str, Any]) -> list[click.Parameter]:
    """Options under a heading of the help, from its text; `how` has defaults and choices by name.

    One a line, "--name METAVAR: what it is", which goes on in lines that begin with a blank.
    """
    found: list[click.Parameter] = []
    for entry in re.split(r"\n(?! )", cleandoc(text)):
        read = re.fullmatch(r"--(\S+) (.+?): (.+)", entry, re.DOTALL)
        assert read is not None, entry
        name, metavar, said = read.groups()
        more = {"type": _TYPES.get(metavar, str)} | how.get(name.replace("-", "_"), {})
        found.append(_Option(f"--{name}", metavar, " ".join(said.split()), heading, **more))
    return found


# By what the help calls a value.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("FILE", "FOLDER"), _FILE),
    **dict.fromkeys(("N", "K", "ROWS"), int),
    **dict.fromkeys(("N ...", "LAG ..."), _Several(int)),
    **dict.fromkeys(("P ...", "X ..."), _Several(float)),
    **dict.fromkeys(("COLUMN ...", "VALUE ..."), _Several()),
    "BOUND": float,
}


def _one_of(*names: str, **how: Any) -> dict[str, Any]:
    return {"type": click.Choice(names), **how}


DATA = [
    click.Argument(["data"], type=_FILE, required=False),
    *_options(
        "data",
        """
        --time COLUMN: column of times (default: ds), or several of them, joined by commas:
          year,month or year,month,day,hour or year,quarter or date,time
        --target COLUMN: column of values (default: y)
        --date-format FORMAT: how dates are written, such as %d.%m.%Y; needed where the year does
          not come first and the day cannot be told from the month
        --id COLUMN: column that names the series of each row; each series is forecast by itself
        --exog COLUMN ...: columns of regressors
        --freq FREQ: how often there is a value: D (days), MS (months), h (hours), the weekdays of
          a business such as 'Mon Tue Wed Thu Fri Sat', or the distance of times that are whole
          numbers. Times without a row then count as missing values, which are uncertain, not filled
        """,
        time={"default": "ds"},
        target={"default": "y"},
        exog={"default": []},
    ),
    *_options(
        "values and CSV",
        r"""
        --missing VALUE ...: values that mean "missing", such as -99.99 (an empty field always does)
        --comment CHARACTER: start of a comment, which lasts to the end of its line, such as '#'
        --sep CHARACTER: separator of columns (default: ,); \t for tabs, \s+ for spaces
        --decimal CHARACTER: decimal mark, such as , in 1.234,50 (default: .)
        --thousands CHARACTER: thousands separator, such as . in 1.234,50 (default: none)
        """,
        sep={"default": ","},
        decimal={"default": "."},
        missing={"default": []},
    ),
]

# None is not given, and left to the forecaster's own default.
MODEL = _options(
    "model: what is not given is chosen from the series; with --lags one plain model is fitted",
    f"""
    --model KIND: gp (Gaussian process), linear, rvm (relevance vector machine), reduced-rank or
      auto, the default
    --lags LAG ...: past values that are inputs: 12 for the last 12, or several, such as 1 2 12
    --differences LAG ...: lags of differences, such as 1 12; 0 for none
    --transform KIND: transform of y: auto, none, {", ".join(filter(None, POWERS))}
    --lower BOUND: smallest value that y can take (default: 0 if y has zeros and no value below;
      --lower=-inf for no bound)
    --upper BOUND: largest value that y can take, such as 100 for percentages (default: no bound)
    --outliers KIND: mask (treat gross outliers as missing, and name them) or keep
    --period N ...: seasonal periods, in steps (default: from the times)
    --calendar PART ...: inputs from the date: none, {", ".join(NAMES)}; or effects that are
      estimated first and taken out of the series: {", ".join(EFFECTS)} (monthly series),
      {HOLIDAYS}DE (of a country, or a part of it, DE-BY)
    --holidays FILE: file with one date a line, used beside --calendar, whose default is then
      fourier, unless --lags are given
    --max-train ROWS: learn from so many of the last rows
    --seed N: seed of random numbers: of monte_carlo, auto and restarts (default: 0)
    """,
    model=_one_of("auto", *_REGRESSORS),
    transform=_one_of("auto", "none", *filter(None, POWERS)),
    outliers=_one_of("mask", "keep"),
    calendar={"type": _Several(_Calendar(["none", *NAMES, *EFFECTS]))},
)


def _common(heading: str) -> list[click.Parameter]:
    return _options(
        heading,
        """
        --steps N: steps ahead
        --coverage P ...: coverages of the intervals, between 0 and 1 (default: 0.8 0.95)
        --jobs N: number of processes, -1 for one per processor (default: 1); a forecast uses them
          for the series of --id
        """,
        steps={"required": True},
        coverage={"default": [0.8, 0.95]},
        jobs={"default": 1},
    )


FORECAST = [
    *_common("forecast"),
    *_options(
        "forecast",
        f"""
        --propagation KIND: how the uncertainty of one step enters the next:
          {", ".join(PROPAGATIONS)} (default: auto)
        --exog-future FILE: file with the regressors at the steps ahead: their times, the columns of
          --exog, and that of --id
        --sum FREQ: forecast sums of steps instead, by year (YS), quarter (QS), month (MS), week (W,
          labelled by its last day, a Sunday; W-FRI for weeks that end on Friday) or of all steps
          (all)
        --prob-above X ...: columns with the probability that a value, or a sum, is above X
        --quantile P ...: columns quantile_P, the value that is exceeded with probability 1 - P;
          upper_80, the upper end of the 80 % interval, is the quantile of 0.9
        """,
        propagation=_one_of(*PROPAGATIONS, default="auto"),
    ),
    *_options(
        "files",
        """
        --output FILE: CSV or Parquet file to write, - for standard output (default: print, rounded)
        --plot FILE: picture to write, of single steps even with --sum
        --summary FILE: text file to write: what was chosen and why; - for standard output
        --save FILE: write the fitted model, for --load
        --load FILE: forecast with a saved model, from the end of the series it was fitted on or of
          DATA: updated with the values that follow its series there, or, if DATA hold another
          series, applied to it with nothing learned
        """,
    ),
]

BACKTEST = [
    *_common("backtest"),
    *_options(
        "backtest",
        f"""
        --origins N: number of origins (default: 10)
        --step N: number of values from one origin to the next (default: as many as --steps)
        --refit K: refit at every k-th origin (default: 1)
        --compare MODEL ...: other models, or the same model with another propagation:
          {", ".join(_COMPARED)} (default: naive_propagation, and for --report seasonal_naive and
          ets too)
        """,
        origins={"default": 10},
        refit={"default": 1},
        compare={"type": _Several(_Compared(_COMPARED), least=0)},
    ),
    *_options(
        "files",
        """
        --output FILE: CSV or Parquet of all forecasts, - for standard output
        --plot FILE: picture to write: CRPS by step, calibration
        --report FILE: page of HTML to write, for a browser
        """,
    ),
]

DEMO = _options(
    "files", "--output FOLDER: folder to write to (default: demo)", output={"default": Path("demo")}
)


def make_forecaster(options: Any) -> Forecaster:
    """The forecaster of the options, not fitted; what was not given has its own default."""
    seed = 0 if options.seed is None else options.seed
    check_whole("--seed", seed, 0, "Any such number will do.")
    alike = ("lags", "differences", "lower", "upper", "outliers", "max_train", "transform")
    given = {name: vars(options)[name] for name in alike}
    given |= {"seasonal_period": options.period, "calendar": _calendar(options)}
    given["regressor"] = _REGRESSORS[options.model]() if options.model in _REGRESSORS else None
    arguments = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in given.items()
        if value is not None
    }
    if options.transform == "none":
        arguments["transform"] = None
    return Forecaster(random_state=seed, **arguments)


def _calendar(options: Any) -> tuple[Any, ...] | None:
    parts, holidays = options.calendar, options.holidays
    if parts is None and holidays is not None:
        # What is chosen with lags has the Fourier terms of the season, which holidays alone would
        # take the place of.
        parts = ["fourier"] if options.lags is None else []
    if holidays is not None and options.lags is None and all(map(is_effect, parts)):
        parts = ["fourier", *parts]
    if parts is None:
        return None
    if "none" in parts and len(parts) > 1:
        must = "be none or parts of the calendar"
        raise refusal("--calendar", must, " ".join(parts), "Leave none out.")
    names = tuple(part for part in parts if part != "none")
    return names if holidays is None else (*names, read_holidays(holidays))


def check_forecast(options: Any) -> None:
    """Raise for options of ``forecast`` that do not go together, or cannot be met."""
    if options.load is None:
        _check_data(options, " without --load")
    else:
        names = [str(option.name) for option in MODEL]
        _check_without(options, "--load", names, "The file holds the model")
    if options.id is not None:
        for p in options.quantile or ():
            if abs(p - 0.5) < 0.005:
                remedy = "The mean is beside it."
                raise refusal("--quantile", "be .005 from 0.5 or more with --id", f"{p:g}", remedy)
        one = ["prob_above", "plot", "summary", "save", "load"]
        _check_without(options, "--id", one, "It is for a single series")
        if options.sum not in (None, "all"):
            remedy = "all sums the steps of each series; other sums are for a single series."
            raise refusal("--sum", "be all with --id", options.sum, remedy)
    if options.data == STANDARD == options.exog_future:
        must = "be a file if data is standard input"
        raise refusal("--exog-future", must, "- for both", "Name one.")
    for value in options.prob_above or ():
        if not math.isfinite(value):
            raise refusal("--prob-above", "be finite numbers", str(value), "Leave it out.")
    for p in options.quantile or ():
        if not 0 < p < 1:
            remedy = "The quantile of 0.9 is exceeded once in ten times."
            raise refusal("--quantile", "lie strictly between 0 and 1", f"{p:g}", remedy)
    _check_common(options)


def check_exog(options: Any) -> None:
    """Raise unless regressors are given both in the past, where they have been read, and ahead."""
    if (not options.exog) != (options.exog_future is None):
        given, absent = "--exog", "--exog-future"
        if not options.exog:
            given, absent = absent, given
        remedy = (
            "Regressors are needed in the past, columns of data, and at the steps ahead, columns "
            "of another file."
        )
        raise refusal(absent, f"be given with {given}", "none", remedy)


def check_backtest(options: Any) -> None:
    """Raise for options of ``backtest`` that cannot be met."""
    _check_data(options, "")
    _check_common(options)


def option_of(name: str) -> str:
    """A parameter as the user writes it."""
    return name if name == "data" else f"--{name.replace('_', '-')}"


def _check_data(options: Any, when: str) -> None:
    if options.data is None:
        remedy = (
            "Name the file first: after an option that takes several values it would be one of "
            "them."
        )
        raise refusal("data", f"be given{when}", "none", remedy)


def _check_without(options: Any, option: str, others: list[str], why: str) -> None:
    for name in others:
        value = vars(options)[name]
        if value is not None:
            said = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            raise refusal(option_of(name), f"be left out with {option}", said, f"{why}.")


def _check_common(options: Any) -> None:
    check_steps(options.steps, "--steps")
    check_jobs(options.jobs)
    columns = [*options.time.split(","), options.target, options.id, *options.exog]
    twice = [name for at, name in enumerate(columns) if name in columns[:at]]
    if twice:
        names, got = "--time, --target, --id and --exog", f"{twice[0]!r} twice"
        raise refusal(names, "name different columns", got, "Leave it out of one.")
    check_coverages(options.coverage)
    for one, other in combinations(options.coverage, 2):
        if percent(one) == percent(other):
            must, got = "be fractions that differ in 6 digits", f"{one:.15g} and {other:.15g}"
            raise refusal("--coverage", must, got, "Leave one of them out.")
    files: dict[str, Path] = {}
    written = ("output", "plot", "summary", "save", "report")
    for name in ("data", "exog_future", "holidays", "load", *written):
        path, option = vars(options).get(name), option_of(name)
        piped = path == STANDARD and name in ("data", "exog_future", "output", "summary")
        if path is None or piped:
            continue
        if name in written:
            _check_written(option, path, files)
        files[option] = path
    if "--output" in files:
        check_table("--output", files["--output"])
    read = ("data", "--exog-future", "--holidays", "--load")
    for option, path in ((name, files[name]) for name in read if name in files):
        for wrong, number, remedy in (  # what is no file, such as a pipe, is not opened
            (not path.exists(), errno.ENOENT, "Correct the path."),
            (path.is_dir(), errno.EISDIR, "Name a file in it."),
            (not os.access(path, os.R_OK), errno.EACCES, "Ask its owner, or take a copy of it."),
        ):
            if wrong:
                got = f"{path}: {os.strerror(number)}"
                raise refusal(option, "name a file that can be read", got, remedy)


def _check_written(option: str, path: Path, others: dict[str, Path]) -> None:
    """Raise unless a file can be written and is none of the others; the file stays as it is."""
    if option == "--plot":
        from matplotlib.backend_bases import FigureCanvasBase

        if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
            must = "end in a picture format"
            raise refusal(option, must, repr(path.suffix), "Use .png, .svg or .pdf.")
    if path == STANDARD:
        raise refusal(option, "be a file", "-", "Name one.")
    absent = not path.exists()
    for other, taken in others.items():
        both = not absent and taken.exists()  # then links count, too
        if path.samefile(taken) if both else path.resolve() == taken.resolve():
            must = f"be another file than {other}"
            raise refusal(option, must, str(path), "Name one of its own.")
    if option == "--report":
        check_suffix(option, path)
    try:
        path.open("ab").close()
        if path.is_file():  # which is replaced by another of its folder
            TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        got, remedy = f"{path}: {error.strerror}", "Name one in a folder that is there."
        raise refusal(option, "name a file that can be written", got, remedy) from error
    if absent:
        path.unlink()
