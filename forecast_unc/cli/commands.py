"""The commands, ``forecast-unc``; errors are one line on standard error, and an exit code."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from types import SimpleNamespace
from typing import Any

import click
import pandas as pd
from click.shell_completion import get_completion_class

from forecast_unc import load_model
from forecast_unc._version import __version__
from forecast_unc.cli import output
from forecast_unc.cli.checks import check_backtest, check_forecast
from forecast_unc.cli.options import (
    BACKTEST,
    BASELINES,
    DATA,
    DEMO,
    FORECAST,
    MODEL,
    Command,
    make_forecaster,
)
from forecast_unc.cli.tables import (
    STANDARD,
    Layout,
    read_ahead,
    read_panel,
    read_panel_ahead,
    read_series,
)
from forecast_unc.evaluation import backtest as backtests
from forecast_unc.evaluation.folds import percent
from forecast_unc.forecasting.combination import Combination
from forecast_unc.forecasting.forecaster import Forecaster, outliers_named
from forecast_unc.panels.backtest import backtest_panel
from forecast_unc.panels.forecast import FailedSeriesWarning, forecast_panel
from forecast_unc.series.times import MissingTimesError, future_index

_DONE, _SOME_FAILED, _WRONG = 0, 1, 2  # exit codes
_INTERRUPTED = 130  # 128 and the number of the signal, as of a shell
_PIPE_CLOSED = 141
_NAME = "forecast-unc"
# Arguments of the package that the options call by another name.
_RENAMED = {"n_jobs": "jobs", "seasonal_period": "period", "path": "load"}

_EXAMPLES = """\b
examples:
  forecast-unc forecast data.csv --steps 24 --output f.csv --plot f.png
  forecast-unc backtest data.csv --steps 24 --compare naive ets theta
  forecast-unc forecast --help     all options, with more examples
"""
_OF_FORECAST = """\b
examples:
  A CSV with the columns ds and y, and a pipe:
    forecast-unc forecast data.csv --steps 24 --output f.csv --plot f.png
    cat data.csv | forecast-unc forecast - --steps 24 --output - | head
  Carbon dioxide as NOAA publishes it, with the probability of a value above 430:
    forecast-unc forecast co2_mm_mlo.csv --comment '#' --time year,month --target average \\
        --missing -99.99 --steps 24 --prob-above 430
  Sums by month; holidays, one date a line; regressors that are known ahead:
    forecast-unc forecast sales.csv --steps 90 --sum MS --prob-above 1000
    forecast-unc forecast sales.csv --steps 90 --holidays holidays.txt
    forecast-unc forecast sales.csv --steps 90 --exog price --exog-future prices.csv
  Many series in one file, on four processes:
    forecast-unc forecast shops.parquet --id shop --steps 12 --jobs 4 --output f.parquet
  Fit once, forecast later from the end of newer data:
    forecast-unc forecast data.csv --steps 24 --save model.npz
    forecast-unc forecast newer.csv --steps 24 --load model.npz

exit codes: 0; 1 where some series of a panel have no forecast, with the reasons in the column
error; 2 after wrong usage or bad data
"""
_OF_BACKTEST = """\b
examples:
  forecast-unc backtest data.csv --steps 24 --origins 10 --compare naive ets theta
  forecast-unc backtest data.csv --steps 24 --output - > forecasts.csv
  forecast-unc backtest shops.csv --id shop --steps 12 --jobs 4
"""
_OF_COMPLETION = """\b
examples:
  forecast-unc completion bash > ~/.local/share/bash-completion/completions/forecast-unc
  forecast-unc completion zsh > ~/.zfunc/_forecast-unc     a folder of fpath, before compinit
"""


def _answering(run: Callable[[Any], int]) -> Callable[..., int]:
    """The callback of a command, given its options as one namespace; errors are exit codes."""

    @wraps(run)
    def answer(**given: Any) -> int:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _in_one_line
                code = run(SimpleNamespace(**given))
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at its end, and would say what is wrong
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _PIPE_CLOSED
        except KeyboardInterrupt:
            output.say("interrupted")
            return _INTERRUPTED
        except (ValueError, TypeError, OSError) as error:
            output.say(_in_options(str(error), given))
            return _WRONG
        except MemoryError as error:
            output.say(
                f"data and --steps must fit in memory; got {error}. Take fewer rows or steps."
            )
            return _WRONG
        return code

    return answer


def _in_options(message: str, options: dict[str, Any]) -> str:
    """The message of an error, which begins with an argument, with the option in its place."""
    name, _, rest = message.partition(" ")
    given = name if name in options else _RENAMED.get(name, "")
    if given == "data" or given not in options or not rest.startswith("must "):
        return message
    return f"--{given.replace('_', '-')} {rest}"


def _in_one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning without the line of code that it came from."""
    output.say(str(message))


@click.group(
    epilog=_EXAMPLES,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(version)s")
def program() -> None:
    """How sure are we about this series, k steps ahead?"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit code: 0; 1 where some series of a panel have no result; 2 after wrong usage or bad
        data, which is one line on standard error; 130 after an interrupt; 141 where nobody reads
        what is printed any more.
    """
    try:
        code: int = program.main(argv, _NAME, standalone_mode=False)
    except click.UsageError as error:
        path = _NAME if error.ctx is None else error.ctx.command_path
        message = error.format_message()
        message += "" if message[-1] in ".?" else "."
        output.say(f"{message} See {path} --help.")
        return _WRONG
    return code


@program.command(cls=Command, params=DEMO)
@_answering
def demo(options: Any) -> int:
    """Forecast bundled real data: a picture and a table."""
    from forecast_unc.demo import demo

    demo(options.output)
    return _DONE


@program.command(
    cls=Command,
    params=[*DATA, *MODEL, *FORECAST],
    options_metavar="--steps N [OPTIONS]",
    epilog=_OF_FORECAST,
)
@_answering
def forecast(options: Any) -> int:
    """Forecast a series, or many, in a CSV or Parquet file. As DATA, - is standard input."""
    check_forecast(options)
    layout = Layout.of(options)
    if layout.id is not None:
        return _forecast_panel(options, layout)
    model, y, exog = _read(options, layout)
    asked: dict[str, Any] = {"propagation": options.propagation}
    if options.exog_future is not None:
        asked["exog"] = read_ahead(options.exog_future, layout, y.index, options.steps)
    freq, counts = None if options.sum == "all" else options.sum, None
    if options.sum is not None:
        counts = output.counted(future_index(y.index, options.steps), freq)
    if _watched():
        output.say(f"forecasting {options.steps} steps after {len(y)} values ...")
    if options.load is None:
        model = model.fit(y, exog)
    elif options.data is not None:
        model = model.apply(y, exog)
    if isinstance(model, Forecaster):
        for line in outliers_named(model.ensemble_.history):
            output.say(line)
    ahead = model.forecast(options.steps, **asked)
    answer = ahead if counts is None else ahead.aggregate("sum", freq=freq)
    table = output.forecast_table(answer, options.coverage, options.prob_above or ())
    if counts is not None:
        table.insert(0, "steps", counts)
    if table.index.name is None:  # of a model that was fitted elsewhere
        table.index.name = layout.time_column
    if options.output is None:
        output.print_table(table, table, table["std"])
    else:
        output.write_table(table, options.output)
    if options.plot is not None:
        output.draw_forecast(ahead, y, options.coverage, options.plot)
    if options.save is not None:
        model.save(options.save)
    return _DONE


@program.command(
    cls=Command,
    params=[*DATA, *MODEL, *BACKTEST],
    options_metavar="--steps N [OPTIONS]",
    epilog=_OF_BACKTEST,
)
@_answering
def backtest(options: Any) -> int:
    """Forecast from many origins and score."""
    check_backtest(options)
    layout = Layout.of(options)
    compared = options.compare
    if compared is None:
        compared = ["naive"] if options.report is None else ["naive", "seasonal_naive", "ets"]
    asked = {
        "origins": options.origins,
        "step": options.step,
        "refit": options.refit,
        "compare": {name: BASELINES[name]() if name in BASELINES else name for name in compared},
        "coverage": options.coverage,
        "n_jobs": options.jobs,
        "progress": _watched(),
    }
    model, code = make_forecaster(options), _DONE
    if layout.id is None:
        y, exog = read_series(options.data, layout)
        result = backtests.backtest(model, y, options.steps, exog=exog, **asked)
    else:
        panel = read_panel(options.data, layout)
        asked |= _columns(layout)
        result = _quietly(backtest_panel, panel, model, options.steps, **asked)
        code = _told(result.failures, panel[layout.id].nunique(), "backtested")
    # Standard output may be for the forecasts.
    scores = result.scores().round(4).to_string()
    print(scores, file=sys.stderr if options.output == STANDARD else sys.stdout)
    if options.output is not None:
        output.write_table(result.frame, options.output)
    if options.plot is not None:
        output.draw_backtest(result, options.plot)
    if options.report is not None:
        result.report(options.report)
    return code


@program.command(cls=Command, epilog=_OF_COMPLETION)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@_answering
def completion(options: Any) -> int:
    """Print what completes options in a shell."""
    shell = get_completion_class(options.shell)
    assert shell is not None
    print(shell(program, {}, _NAME, "_FORECAST_UNC_COMPLETE").source())
    return _DONE


def _read(
    options: Any, layout: Layout
) -> tuple[Forecaster | Combination, pd.Series[float], pd.DataFrame | None]:
    """The model, and the series at whose end it forecasts: that of the data, or its own."""
    if options.load is None:
        return make_forecaster(options), *read_series(options.data, layout)
    model = load_model(options.load)
    if isinstance(model, Forecaster) and options.exog is None:
        columns = list(map(str, model.ensemble_.history.columns))
        if columns:
            raise ValueError(
                f"--exog must be given for a model with regressors, {', '.join(columns)}; got "
                f"none. Pass --exog {' '.join(map(shlex.quote, columns))} --exog-future FILE, "
                "which holds them at the steps ahead."
            )
    if options.data is not None:
        return model, *read_series(options.data, layout)
    if not isinstance(model, Forecaster):
        raise ValueError(
            f"data must be given for a {type(model).__name__}; got {options.load} alone. Name "
            "the series that it is to forecast."
        )
    history = model.ensemble_.history
    return model, pd.Series(history.given, history.index, name=history.name), None


def _forecast_panel(options: Any, layout: Layout) -> int:
    panel, exog = read_panel(options.data, layout), None
    if options.exog_future is not None:
        exog = read_panel_ahead(options.exog_future, layout, panel, options.steps)
    table = _quietly(
        forecast_panel,
        panel,
        make_forecaster(options),
        options.steps,
        levels=[_level(percent(coverage)) for coverage in options.coverage],
        exog=exog,
        propagation=options.propagation,
        n_jobs=options.jobs,
        progress=_watched(),
        **_columns(layout),
    )
    if options.output is None:
        figures = table.drop(columns=[layout.id, layout.time_column, "error"])
        low = percent(min(options.coverage))
        ends = [figures[f"forecast_unc-{end}-{low}"] for end in ("lo", "hi")]
        output.print_table(table, figures, (ends[1] - ends[0]) / 2)
    else:
        output.write_table(table, options.output)
    failures = table.loc[table["error"].notna(), [layout.id, "error"]]
    return _told(failures, panel[layout.id].nunique(), "forecast")


def _level(text: str) -> float:
    """A coverage in percent, whole where it is, as it stands in the names of columns."""
    return int(text) if text.isdigit() else float(text)


def _columns(layout: Layout) -> dict[str, Any]:
    """Names of the columns of a panel."""
    return {"id_col": layout.id, "time_col": layout.time_column, "target_col": layout.target}


def _quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    """A call about a panel, whose failures are told in other words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FailedSeriesWarning)
        return call(*arguments, **options)


def _told(failures: pd.DataFrame, n_series: int, done: str) -> int:
    """Say which series failed, and return the exit code."""
    if failures.empty:
        return _DONE
    name, reason = failures.iloc[0]
    gaps = failures["error"].str.startswith(MissingTimesError.__name__).any()
    remedy = " Pass --freq to take rows that are missing for missing values." if gaps else ""
    output.say(
        f"{len(failures)} of {n_series} series could not be {done}; the first: {name}: "
        f"{reason}{remedy}"
    )
    return _SOME_FAILED


def _watched() -> bool:
    """Whether somebody looks at standard error, for progress."""
    return sys.stderr.isatty()
