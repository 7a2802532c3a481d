"""The options of the commands, by the headings of their help, and the forecaster they describe."""

from __future__ import annotations

import re
from inspect import cleandoc
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from forecast_unc._checks import check_whole, refusal
from forecast_unc.cli.tables import read_holidays
from forecast_unc.distributions.power import POWERS
from forecast_unc.evaluation import baselines
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.recursion import PROPAGATIONS
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.regression.rvm import RVMRegressor
from forecast_unc.series.calendar import NAMES

_REGRESSORS = {"gp": GPRegressor, "rvm": RVMRegressor, "reduced-rank": ReducedRankGPRegressor}
BASELINES = {
    "seasonal_naive": baselines.SeasonalNaive,
    "autoreg": baselines.AutoReg,
    "ets": baselines.ETS,
    "theta": baselines.Theta,
    "sarimax": baselines.SARIMAX,
}
_COMPARED = [*PROPAGATIONS, *BASELINES]
# Between the values of an option that takes several: no argument of a process can hold it.
_BETWEEN = "\0"
_OPEN = "forecast_unc.cli.open"  # key of the option of several values that may get one more
_FILE = click.Path(readable=False, path_type=Path)  # `checks` looks at files before the work


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
        """What each of the values may be."""
        return self.one.shell_complete(ctx, param, incomplete)


class _Option(click.Option):
    """An option under a heading of the help."""

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
        --time COLUMN: column of times (default: ds); several as year,month or
          year,month,day,hour, year,quarter or date,time
        --target COLUMN: column of values (default: y)
        --id COLUMN: column that names series: forecast each
        --exog COLUMN ...: columns of regressors
        --freq FREQ: frequency of the times, such as D, MS or h, of whole numbers their distance:
          rows that are missing are then missing values, which are uncertain, not filled
        """,
        time={"default": "ds"},
        target={"default": "y"},
    ),
    *_options(
        "values and CSV",
        r"""
        --missing VALUE ...: what stands for a missing value, such as -99.99 (an empty field always
          does)
        --comment CHARACTER: skip the rest of a line from it on, such as '#'
        --sep CHARACTER: what separates columns (default: ,); \t tabs, \s+ spaces
        --decimal CHARACTER: what is before decimals (default: .)
        """,
        sep={"default": ","},
        decimal={"default": "."},
    ),
]

# None is not given, and left to the forecaster's own default.
MODEL = _options(
    "model, chosen from the series where not given (with --lags the plain choice)",
    f"""
    --model KIND: gp (Gaussian process), rvm (relevance vector machine), reduced-rank or auto, the
      default
    --lags LAG ...: one number p for lags 1 to p, or the lags
    --differences LAG ...: lags of differences, such as 1 12; 0 for none
    --transform KIND: of y: auto, none, {", ".join(filter(None, POWERS))}
    --lower BOUND: what y is never below (default: 0 for zeros and none below; -inf for none)
    --outliers KIND: mask gross outliers, which are then taken for missing, and named, or keep them
    --period N ...: seasonal periods (default: from the times)
    --calendar PART ...: inputs from the calendar: none, {", ".join(NAMES)}
    --holidays FILE: file with one date a line, beside --calendar (of which the default is then
      fourier without --lags)
    --max-train ROWS: learn from the last rows only
    --seed N: seed of monte_carlo, auto and restarts (default: 0)
    """,
    model=_one_of("auto", *_REGRESSORS),
    transform=_one_of("auto", "none", *filter(None, POWERS)),
    outliers=_one_of("mask", "keep"),
    calendar={"type": _Several(click.Choice(["none", *NAMES]))},
)


def _common(heading: str) -> list[click.Parameter]:
    """What a forecast and a backtest are both asked for."""
    return _options(
        heading,
        """
        --steps N: steps ahead
        --coverage P ...: coverages of the intervals, in (0, 1) (default: 0.8 0.95)
        --jobs N: parallel jobs, of a forecast over the series of --id, -1 for all processors
          (default: 1)
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
          {", ".join(PROPAGATIONS)} (default: exact)
        --exog-future FILE: regressors at the steps ahead: their times, and the columns of --exog
        --sum FREQ: forecast sums of steps instead: by year (YS), by month (MS), ..., or all
        --prob-above X ...: columns with the probability of a value, or a sum, above X
        """,
        propagation=_one_of(*PROPAGATIONS, default="exact"),
    ),
    *_options(
        "files",
        """
        --output FILE: CSV or Parquet to write, - for standard output (default: print, rounded)
        --plot FILE: picture to write, of the steps with --sum too
        --save FILE: write the fitted model
        --load FILE: forecast with such a model, at the end of the data or, without, of its own
        """,
    ),
]

BACKTEST = [
    *_common("backtest"),
    *_options(
        "backtest",
        f"""
        --origins N: number of origins (default: 10)
        --step N: values between origins (default: as many as --steps)
        --refit K: refit at every k-th origin (default: 1)
        --compare MODEL ...: propagations and other models to compare with:
          {", ".join(_COMPARED)} (default: naive, and for --report seasonal_naive and ets too)
        """,
        origins={"default": 10},
        refit={"default": 1},
        compare={"type": _Several(click.Choice(_COMPARED), least=0)},
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
    "files",
    "--output FOLDER: to write to (default: demo)",
    output={"default": Path("demo")},
)


def make_forecaster(options: Any) -> Forecaster:
    """The forecaster of the options, not fitted; what was not given has its own default."""
    seed = 0 if options.seed is None else options.seed
    check_whole("--seed", seed, 0, "Any such number will do.")
    given = {
        "lags": _one_or_several(options.lags),
        "differences": _one_or_several(options.differences),
        "seasonal_period": options.period,
        "lower": options.lower,
        "outliers": options.outliers,
        "max_train": options.max_train,
        "transform": options.transform,
        "calendar": _calendar(options),
        "regressor": _REGRESSORS[options.model]() if options.model in _REGRESSORS else None,
    }
    arguments = {name: value for name, value in given.items() if value is not None}
    if options.transform == "none":
        arguments["transform"] = None
    return Forecaster(random_state=seed, **arguments)


def _calendar(options: Any) -> tuple[Any, ...] | None:
    """Parts of the calendar, and holidays."""
    parts = options.calendar
    if parts is None and options.holidays is None:
        return None
    if parts is None:
        # What is chosen with lags has the Fourier terms of the season, which holidays alone would
        # take the place of.
        parts = ["fourier"] if options.lags is None else []
    if "none" in parts and len(parts) > 1:
        raise refusal(
            "--calendar", "be none or parts of the calendar", " ".join(parts), "Leave none out."
        )
    names = tuple(part for part in parts if part != "none")
    return names if options.holidays is None else (*names, read_holidays(options.holidays))


def _one_or_several(values: list[int] | None) -> Any:
    return values[0] if values is not None and len(values) == 1 else values
