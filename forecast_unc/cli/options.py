"""The options of the commands, their checks before the work, and the forecaster they describe."""

from __future__ import annotations

import errno
import math
import os
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click

from forecast_unc._checks import check_choice, check_coverages, check_steps, check_whole, refusal
from forecast_unc.cli.messages import option_of
from forecast_unc.cli.reading import check_table, read_holidays
from forecast_unc.cli.sources import STANDARD
from forecast_unc.distributions.power import POWERS
from forecast_unc.evaluation import baselines
from forecast_unc.evaluation.folds import COMPARED, percent
from forecast_unc.evaluation.grouping import WORDS
from forecast_unc.evaluation.report import check_suffix
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.horizon.types import PROPAGATIONS
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.regression.rvm.rvm import RVMRegressor
from forecast_unc.series.calendar import EFFECTS, HOLIDAYS, MOVABLE, NAMES, is_effect

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


_FILE = click.Path(readable=False, path_type=Path)  # files are checked below


class _Calendar(click.Choice):  # type: ignore[type-arg]
    """A part of the calendar, or the holidays of a country."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A part; holidays are checked where they are looked up."""
        is_country = isinstance(value, str) and value.startswith(HOLIDAYS)
        return value if is_country else super().convert(value, param, ctx)


class _Compared(click.Choice):  # type: ignore[type-arg]
    """A model that can be compared; of the naive ones it has three."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A choice, or an error."""
        if value == "naive":
            models = "last_value, the last value again; seasonal_naive, the last season again; or "
            models += "naive_propagation, the same model, its own forecasts taken as known"
            self.fail(f"'naive' may be {models}.", param, ctx)
        return super().convert(value, param, ctx)


class Option(click.Option):
    """An option under a heading of the help; `multiple` ones may be given several times."""

    heading = "help"

    def __init__(self, name: str, metavar: str, text: str, **settings: Any) -> None:
        text = f"{text} (repeatable)" if settings.get("multiple") else text
        super().__init__(name.split(), metavar=metavar, help=text, **settings)


class Command(click.Command):
    """A command whose help has its options under headings."""

    allow_extra_args = True  # refused below

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse words that belong to no option, and say how several values are given."""
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            rule = "an option that takes several values is given once for each value"
            raise click.UsageError(f"Got unexpected extra argument ({rest[0]}): {rule}.", ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options under their headings."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                heading = getattr(param, "heading", Option.heading)
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def example(error: click.UsageError) -> str:
    """A right value of the option that an error is about, as a sentence; of choices none."""
    param = getattr(error, "param", None)
    if not isinstance(param, click.Option):
        return ""
    kinds = {click.INT: "a whole number, such as {} 12", click.FLOAT: "a number, such as {} 0.9"}
    if param.type not in kinds:
        return ""
    each = ", once for each value" if param.multiple else ""
    return f" Pass {kinds[param.type].format(param.opts[0])}{each}."


def _under(heading: str, *options: Option) -> list[click.Parameter]:
    """Options under a heading of the help."""
    for option in options:
        option.heading = heading
    return [*options]


DATA: list[click.Parameter] = [
    click.Argument(["data"], type=_FILE, required=False),
    *_under(
        "data",
        Option(
            "--time",
            "COLUMN",
            "column of times (default: ds), or the columns that make one together: --time year "
            "--time month, and day and hour, or year and quarter, or date and time",
            multiple=True,
            default=("ds",),
        ),
        Option("--target", "COLUMN", "column of values (default: y)", default="y"),
        Option(
            "--date-format",
            "FORMAT",
            "how dates are written, such as %d.%m.%Y; needed where the year does not come first "
            "and the day cannot be told from the month",
        ),
        Option(
            "--time-unit",
            "UNIT",
            "what numbers as times are: s, ms, us or ns since 1970, excel (days of spreadsheets), "
            "year (such as 1958.25), or count (whole numbers that count)",
            type=click.Choice(["s", "ms", "us", "ns", "excel", "year", "count"]),
        ),
        Option(
            "--zone --tz",
            "ZONE",
            "time zone of the times, such as Europe/Berlin: the hour that clocks repeat is told "
            "apart by its order; times with an offset from UTC are converted; days and weeks are "
            "by its clock",
        ),
        Option(
            "--to-period",
            "PERIOD",
            "take each time as the month (M) that it lies in, quarter (Q), year (Y), week (W), day "
            "(D) or hour (h), such as months that are dated by their 30th; dekad numbers thirds of "
            "months, 36 a year; fiscal is for months of four or five weeks (4-4-5), dated by their "
            "last day, or by their first, a Monday",
        ),
        Option("--sort", "", "sort the rows by time, such as newest first", is_flag=True),
        Option(
            "--wide",
            "",
            "several values stand in a row: columns of months beside one of years, columns of "
            "times beside --id, or, with --id NAME, each column a series",
            is_flag=True,
        ),
        Option(
            "--id",
            "COLUMN",
            "column that names the series of each row; each series is forecast by itself",
        ),
        Option("--exog", "COLUMN", "column of a regressor", multiple=True),
        Option(
            "--freq",
            "FREQ",
            "how often there is a value: D (days), MS (months), h (hours), the weekdays of a "
            "business such as 'Mon Tue Wed Thu Fri Sat', or the distance of times that are whole "
            "numbers. Times without a row then count as missing values, which are uncertain, not "
            "filled",
        ),
    ),
    *_under(
        "values and CSV",
        Option(
            "--missing",
            "VALUE",
            'value that means "missing", such as -99.99 (an empty field always does)',
            multiple=True,
        ),
        Option("--skip", "N", "lines above the header", type=click.IntRange(0), default=0),
        Option(
            "--units",
            "N",
            "lines below the header that hold units and the like (default: 0)",
            type=click.IntRange(0),
            default=0,
        ),
        Option("--skip-end", "N", "lines below the table", type=click.IntRange(0), default=0),
        Option(
            "--drop",
            "VALUE",
            "leave out rows whose time is this, such as Total",
            multiple=True,
        ),
        Option("--names", "NAMES", "names of the columns of a file without a header, as ds,y"),
        Option(
            "--remove",
            "TEXT",
            "text beside numbers that is taken off, such as $ or %",
            multiple=True,
        ),
        Option("--encoding", "NAME", "encoding of the text, such as cp1252 (default: UTF-8)"),
        Option(
            "--comment",
            "CHARACTER",
            "start of a comment, which lasts to the end of its line, such as '#'",
        ),
        Option(
            "--sep",
            "CHARACTER",
            "separator of columns (default: ,); \\t for tabs, \\s+ for spaces",
            default=",",
        ),
        Option(
            "--decimal",
            "CHARACTER",
            "decimal mark, such as , in 1.234,50 (default: .)",
            default=".",
        ),
        Option(
            "--thousands",
            "CHARACTER",
            "thousands separator, such as . in 1.234,50 (default: none)",
        ),
    ),
]

# None or no value: not given, and left to the forecaster's own default.
MODEL = _under(
    "model: what is not given is chosen from the series; with --lags one plain model is fitted",
    Option(
        "--model",
        "KIND",
        "gp (Gaussian process), linear, rvm (relevance vector machine), reduced-rank or auto, the "
        "default",
        type=click.Choice(["auto", *_REGRESSORS]),
    ),
    Option(
        "--lags",
        "LAG",
        "past value that is an input: 12 for the last 12, or one by one, --lags 1 --lags 12",
        type=int,
        multiple=True,
    ),
    Option("--differences", "LAG", "lag of a difference; 0 for none", type=int, multiple=True),
    Option(
        "--transform",
        "KIND",
        f"transform of y: auto, none, {', '.join(filter(None, POWERS))}",
        type=click.Choice(["auto", "none", *filter(None, POWERS)]),
    ),
    Option(
        "--lower",
        "BOUND",
        "smallest value that y can take (default: 0 if y has zeros and no value below; "
        "--lower=-inf for no bound)",
        type=float,
    ),
    Option(
        "--upper",
        "BOUND",
        "largest value that y can take, such as 100 for percentages (default: no bound)",
        type=float,
    ),
    Option(
        "--open",
        "COLUMN",
        "column of --exog that is 1 where open and 0 where closed: there y is 0 for certain",
    ),
    Option(
        "--outliers",
        "KIND",
        "mask (treat gross outliers as missing, and name them) or keep",
        type=click.Choice(["mask", "keep"]),
    ),
    Option(
        "--period",
        "N",
        "seasonal period, in steps (default: from the times)",
        type=int,
        multiple=True,
    ),
    Option(
        "--calendar",
        "PART",
        f"input from the date: none, {', '.join(NAMES)}; or an effect that is estimated first and "
        f"taken out of the series: {', '.join(EFFECTS)} (monthly series), {', '.join(MOVABLE)} "
        f"(weeks of it and around it), {HOLIDAYS}DE (of a country, or a part of it, DE-BY)",
        type=_Calendar(["none", *NAMES, *EFFECTS, *MOVABLE]),
        multiple=True,
    ),
    Option(
        "--holidays",
        "FILE",
        "file with one date a line, used beside --calendar, whose default is then fourier, unless "
        "--lags are given",
        type=_FILE,
    ),
    Option("--max-train", "ROWS", "learn from so many of the last rows", type=int),
    Option(
        "--seed",
        "N",
        "seed of random numbers: of monte_carlo, auto and restarts (default: 0)",
        type=int,
    ),
)


def _common(heading: str) -> list[click.Parameter]:
    return _under(
        heading,
        Option("--steps", "N", "steps ahead", type=int, required=True),
        Option(
            "--coverage",
            "P",
            "coverage of an interval, between 0 and 1 (default: 0.8 and 0.95)",
            type=float,
            multiple=True,
            default=(0.8, 0.95),
        ),
        Option(
            "--jobs",
            "N",
            "number of processes, -1 for one per processor (default: 1); a forecast uses them for "
            "the series of --id",
            type=int,
            default=1,
        ),
    )


FORECAST = [
    *_common("forecast"),
    *_under(
        "forecast",
        Option(
            "--propagation",
            "KIND",
            "how the uncertainty of one step enters the next: "
            f"{', '.join(PROPAGATIONS)} (default: auto)",
            type=click.Choice(PROPAGATIONS),
            default="auto",
        ),
        Option(
            "--exog-future",
            "FILE",
            "file with the regressors at the steps ahead: their times, the columns of --exog, and "
            "that of --id",
            type=_FILE,
        ),
        Option(
            "--scenario",
            "NAME=FILE",
            "forecast what happens with the regressors of this file, as of --exog-future, and how "
            "far it is from the first scenario",
            multiple=True,
        ),
        Option(
            "--exog-std",
            "REGRESSOR=COLUMN",
            "column of the files of --exog-future or --scenario with the std of a regressor's "
            "error; in a file without it the regressor is known; scenarios of the same stds have "
            "one error",
            multiple=True,
        ),
        Option(
            "--sum",
            "FREQ",
            "forecast sums of steps instead, by year (YS), quarter (QS), month (MS), week (W, "
            "labelled by its last day, a Sunday; W-FRI for weeks that end on Friday) or of all "
            "steps (all)",
        ),
        Option(
            "--prob-above",
            "X",
            "column with the probability that a value, or a sum, is above X",
            type=float,
            multiple=True,
        ),
        Option(
            "--quantile",
            "P",
            "column quantile_P, the value that is exceeded with probability 1 - P; upper_80, the "
            "upper end of the 80 % interval, is the quantile of 0.9",
            type=float,
            multiple=True,
        ),
    ),
    *_under(
        "files",
        Option(
            "--output",
            "FILE",
            "CSV or Parquet file to write, - for standard output (default: print, rounded)",
            type=_FILE,
        ),
        Option("--plot", "FILE", "picture to write, of single steps even with --sum", type=_FILE),
        Option(
            "--summary",
            "FILE",
            "text file to write: what was chosen and why; - for standard output",
            type=_FILE,
        ),
        Option("--save", "FILE", "write the fitted model, for --load", type=_FILE),
        Option(
            "--load",
            "FILE",
            "forecast with a saved model, from the end of the series it was fitted on or of DATA: "
            "updated with the values that follow its series there, or, if DATA hold another "
            "series, applied to it with nothing learned",
            type=_FILE,
        ),
    ),
]

BACKTEST = [
    *_common("backtest"),
    *_under(
        "backtest",
        Option("--origins", "N", "number of origins (default: 10)", type=int, default=10),
        Option(
            "--step",
            "N",
            "number of values from one origin to the next (default: as many as --steps)",
            type=int,
        ),
        Option("--refit", "K", "refit at every k-th origin (default: 1)", type=int, default=1),
        Option(
            "--compare",
            "MODEL",
            "another model, or the same model with another propagation: "
            f"{', '.join(_COMPARED)}, or none (default: naive_propagation, and for --report "
            "seasonal_naive and ets too)",
            type=_Compared(["none", *_COMPARED]),
            multiple=True,
        ),
    ),
    *_under(
        "questions to the bands",
        Option(
            "--coverage-by",
            "GROUPS",
            f"print what the intervals held by {', '.join(WORDS)} (thirds of the forecasts), step, "
            "or a column of --exog or --id",
            multiple=True,
        ),
    ),
    *_under(
        "files",
        Option(
            "--output",
            "FILE",
            "CSV or Parquet of all forecasts, - for standard output",
            type=_FILE,
        ),
        Option("--plot", "FILE", "picture to write: CRPS by step, calibration", type=_FILE),
        Option("--report", "FILE", "page of HTML to write, for a browser", type=_FILE),
    ),
]

DEMO = _under(
    "files",
    Option(
        "--output",
        "FOLDER",
        "folder to write to (default: demo)",
        type=_FILE,
        default=Path("demo"),
    ),
)


def make_forecaster(options: Any) -> Forecaster:
    """The forecaster of the options, not fitted; what was not given has its own default."""
    seed = 0 if options.seed is None else options.seed
    check_whole("--seed", seed, 0, "Any such number will do.")
    arguments: dict[str, Any] = {"random_state": seed}
    names = ("lags", "differences", "lower", "upper", "outliers", "max_train", "transform", "open")
    values = {name: vars(options)[name] for name in names} | {"seasonal_period": options.period}
    for name, value in values.items():
        if _is_given(value):
            alone = isinstance(value, tuple) and len(value) == 1
            arguments[name] = value[0] if alone else value
    if options.transform == "none":
        arguments["transform"] = None
    if options.model in _REGRESSORS:
        arguments["regressor"] = _REGRESSORS[options.model]()
    if options.calendar or options.holidays is not None:
        arguments["calendar"] = _calendar(options)
    return Forecaster(**arguments)


def _is_given(value: object) -> bool:
    """Whether an option was given; of those that may be given several times, once or more."""
    return value is not None and value != ()


def _calendar(options: Any) -> tuple[Any, ...]:
    """The parts of the calendar that were named, and the holidays of a file."""
    parts, holidays = options.calendar, options.holidays
    if holidays is not None and not options.lags and all(map(is_effect, parts)):
        # The automatic choice has the Fourier terms of the season: holidays stand beside them.
        parts = ("fourier", *parts)
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
        for p in options.quantile:
            if abs(p - 0.5) < 0.005:
                remedy = "The mean is beside it."
                raise refusal("--quantile", "be .005 from 0.5 or more with --id", f"{p:g}", remedy)
        one = ["scenario", "exog_std", "prob_above", "plot", "summary", "save", "load"]
        _check_without(options, "--id", one, "It is for a single series")
        if options.sum not in (None, "all"):
            remedy = "all sums the steps of each series; other sums are for a single series."
            raise refusal("--sum", "be all with --id", options.sum, remedy)
    if options.scenario:
        without = ["exog_future", "summary"]
        _check_without(options, "--scenario", without, "It has the regressors of each scenario")
        scenario_files(options)
    if options.data == STANDARD == options.exog_future:
        must = "be a file if data is standard input"
        raise refusal("--exog-future", must, "- for both", "Name one.")
    for value in options.prob_above:
        if not math.isfinite(value):
            raise refusal("--prob-above", "be finite numbers", str(value), "Leave it out.")
    for p in options.quantile:
        if not 0 < p < 1:
            remedy = "The quantile of 0.9 is exceeded once in ten times."
            raise refusal("--quantile", "lie strictly between 0 and 1", f"{p:g}", remedy)
    _check_common(options)


def scenario_files(options: Any) -> dict[str, Path]:
    """The file of each scenario by its name, or an error."""
    files: dict[str, Path] = {}
    for one in options.scenario:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            remedy = "Pass --scenario base=prices.csv --scenario plan=other.csv."
            raise refusal("--scenario", "be NAME=FILE", repr(one), remedy)
        if name in files:
            raise refusal("--scenario", "have distinct names", f"{name!r} twice", "Rename one.")
        files[name] = Path(path)
    return files


def columns_of_stds(options: Any) -> dict[str, str]:
    """The column of stds of each uncertain regressor, or an error."""
    columns: dict[str, str] = {}
    for one in options.exog_std:
        name, _, column = one.partition("=")
        if name not in options.exog or not column or name in columns:
            must = f"be REGRESSOR=COLUMN, once for each of --exog, {', '.join(options.exog)}"
            remedy = "Pass --exog temperature --exog-std temperature=spread."
            raise refusal("--exog-std", must, repr(one), remedy)
        columns[name] = column
    return columns


def future_files(options: Any) -> dict[str, tuple[str, Path]]:
    """Option and file of the regressors ahead by scenario, "" if there is one without a name."""
    if options.exog_future is not None:
        return {"": ("--exog-future", options.exog_future)}
    return {name: (f"--scenario {name}", path) for name, path in scenario_files(options).items()}


def check_exog(options: Any) -> None:
    """Raise unless regressors are given both in the past, where they have been read, and ahead."""
    if (not options.exog) != (options.exog_future is None and not options.scenario):
        given, absent = "--exog", "--scenario" if options.scenario else "--exog-future"
        if not options.exog:
            given, absent = absent, given
        remedy = (
            "Regressors are needed in the past, columns of data, and at the steps ahead, columns "
            "of another file."
        )
        raise refusal(absent, f"be given with {given}", "none", remedy)
    columns_of_stds(options)


def check_backtest(options: Any) -> None:
    """Raise for options of ``backtest`` that cannot be met."""
    _check_data(options, "")
    _check_common(options)
    columns = [*options.exog, *filter(None, [options.id])]
    remedy = "A column of data is named by --exog, too, and that of --id is one."
    for by in options.coverage_by:
        check_choice("--coverage-by", by, (*WORDS, "step", *columns), remedy)


def _check_data(options: Any, when: str) -> None:
    if options.data is None:
        remedy = "Name a CSV or Parquet file, or - for standard input."
        raise refusal("data", f"be given{when}", "none", remedy)


def _check_without(options: Any, option: str, others: list[str], why: str) -> None:
    for name in others:
        value = vars(options)[name]
        if _is_given(value):
            got = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            raise refusal(option_of(name), f"be left out with {option}", got, f"{why}.")


def _check_common(options: Any) -> None:
    check_steps(options.steps, "--steps")
    if options.jobs == 0:
        remedy = "-1 takes all processors."
        raise refusal("--jobs", "be a whole number other than 0", "0", remedy)
    columns = [*options.time, options.target, options.id, *options.exog]
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
    read = ["data", "--exog-future", "--holidays", "--load"]
    for name, path in scenario_files(options).items() if "scenario" in vars(options) else ():
        files[f"--scenario {name}"] = path
        read.append(f"--scenario {name}")
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
