"""The commands, ``forecast-unc``; errors are one line on standard error, and an exit code."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pandas as pd
from click.shell_completion import get_completion_class

from forecast_unc import Forecast, Forecaster, backtest_panel, forecast_panel
from forecast_unc._checks import first_true, refusal
from forecast_unc._files import whole_file
from forecast_unc._text import counted, figure
from forecast_unc._version import __version__
from forecast_unc.cli import options as of
from forecast_unc.cli import reading
from forecast_unc.cli.messages import error_text, failure_text, note_text, notes_text, say
from forecast_unc.cli.sources import STANDARD
from forecast_unc.distributions import page
from forecast_unc.distributions.export import nixtla_columns
from forecast_unc.evaluation import backtest as backtests
from forecast_unc.evaluation.folds import percent
from forecast_unc.evaluation.grouping import check_part
from forecast_unc.evaluation.report import unit_of_mase, verdict
from forecast_unc.forecasting.combination import Combination, load_model
from forecast_unc.forecasting.forecaster import summary_lines
from forecast_unc.panels.groups import SAID
from forecast_unc.panels.panel_forecast import FailedSeriesWarning
from forecast_unc.series import times

_DONE, _SOME_FAILED, _WRONG = 0, 1, 2  # exit codes
_NAME = "forecast-unc"

# What is below a table of scores.
_SCORES = """
Lower is better; {}.
MAE, RMSE, CRPS, energy: in units of {}; sMAPE: in %;
MASE, MSIS: in units of the {};
CRPS: error of the distribution, energy: of whole paths; NLPD: -log density of what followed."""
_NAIVE = "naive_propagation: the same model, which takes its own forecasts as if they were known."
_COVERAGE = "p_value: of the nominal coverage in the group; p of the same coverage in all groups:"
_TOO_FEW = "Too few origins for a test of the groups: take more by --origins."
_NO_UNIT = "MASE, MSIS: of series that changed in the past; others have no unit."

_EXAMPLES = """\b
examples:
  forecast-unc forecast data.csv --steps 24 --output f.csv --plot f.png
  forecast-unc backtest data.csv --steps 24 --compare ets --compare theta
  forecast-unc forecast --help     all options, with more examples
"""
_OF_FORECAST = """\b
examples:
  A CSV with the columns ds and y, and a pipe:
    forecast-unc forecast data.csv --steps 24 --output f.csv --plot f.png
    cat data.csv | forecast-unc forecast - --steps 24 --output - | head
  Carbon dioxide as NOAA publishes it, with the probability of a value above 430:
    forecast-unc forecast co2_mm_mlo.csv --comment '#' --time year --time month \\
        --target average --missing -99.99 --steps 24 --prob-above 430
  Sums by month; holidays, one date a line; regressors that are known ahead:
    forecast-unc forecast sales.csv --steps 90 --sum MS --prob-above 1000
    forecast-unc forecast sales.csv --steps 90 --holidays holidays.txt
    forecast-unc forecast sales.csv --steps 90 --exog price --exog-future prices.csv
  What if the price rises? Each scenario, and how far it is from the first:
    forecast-unc forecast sales.csv --steps 90 --sum all --exog price \\
        --scenario base=prices.csv --scenario plan=higher.csv
  Many series in one file, on four processes:
    forecast-unc forecast shops.parquet --id shop --steps 12 --jobs 4 --output f.parquet
  Fit once; later take in the new values of the same file, and forecast from their end:
    forecast-unc forecast data.csv --steps 24 --save model.npz
    forecast-unc forecast newer.csv --steps 24 --load model.npz

exit codes: 0; 1 where the model of some series of a panel failed (column error: why; column
status: what was forecast instead); 2 after wrong usage or bad data
"""
_OF_BACKTEST = """\b
examples:
  forecast-unc backtest data.csv --steps 24 --origins 10 --compare ets --compare theta
  forecast-unc backtest data.csv --steps 24 --origins 60 --coverage-by hour
  forecast-unc backtest data.csv --steps 24 --output - > forecasts.csv
  forecast-unc backtest shops.csv --id shop --steps 12 --jobs 4
"""
_OF_COMPLETION = """\b
examples:
  forecast-unc completion bash > ~/.local/share/bash-completion/completions/forecast-unc
  forecast-unc completion zsh > ~/.zfunc/_forecast-unc     a folder of fpath, before compinit
  forecast-unc completion fish > ~/.config/fish/completions/forecast-unc.fish
"""


def _with_exit_code(run: Callable[[Any], int]) -> Callable[..., int]:
    """A click callback that calls `run` with a namespace of options and turns errors into codes."""

    @wraps(run)
    def answer(**given: Any) -> int:
        shown = set[str]()

        def show(message: Warning | str, *_: object, **__: object) -> None:
            if str(message) not in shown:  # as at an earlier origin
                shown.add(str(message))
                say(message)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", times.ClosedDaysWarning)  # it is among the notes
                warnings.showwarning = show
                code = run(SimpleNamespace(**given))
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at its end, and would say what is wrong
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141  # 128 and the number of the signal, as of a shell
        except KeyboardInterrupt:
            say("interrupted")
            return 130
        except (ValueError, TypeError, OSError, ImportError) as error:
            say(error_text(error, given))
            return _WRONG
        except MemoryError as error:
            say(f"data and --steps must fit in memory; got {error}. Take fewer rows or steps.")
            return _WRONG
        return code

    return answer


@click.group(
    epilog=_EXAMPLES,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(version)s")
def program() -> None:
    """How sure are we about this series, k steps ahead?"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on arguments, by default those of the process; return the exit code.

    0; 1 where the model of some series failed; 2 after wrong usage or bad data, which is one line
    on standard error; 130 after an interrupt; 141 where nobody reads what is printed any more.
    """
    try:
        code: int = program.main(argv, _NAME, standalone_mode=False)
    except click.UsageError as error:
        path = _NAME if error.ctx is None else error.ctx.command_path
        message = error.format_message()
        message += "" if message[-1] in ".?" else "."
        say(f"{message}{of.example(error)} See {path} --help.")
        return _WRONG
    return code


@program.command(cls=of.Command, params=of.DEMO)
@_with_exit_code
def demo(options: Any) -> int:
    """Forecast bundled real data: a picture and a table."""
    from forecast_unc.demo import demo

    demo(options.output)
    return _DONE


@program.command(
    cls=of.Command,
    params=[*of.DATA, *of.MODEL, *of.FORECAST],
    options_metavar="--steps N [OPTIONS]",
    epilog=_OF_FORECAST,
)
@_with_exit_code
def forecast(options: Any) -> int:
    """Forecast a series, or many, in a CSV or Parquet file. As DATA, - is standard input."""
    of.check_forecast(options)
    if options.id is not None:
        return _forecast_panel(options)
    model, y, exog = _read(options)
    of.check_exog(options)
    futures, stds = _futures(options, y)
    freq, counts = None if options.sum == "all" else options.sum, None
    if options.sum is not None:
        try:
            steps = times.future_index(y.index, options.steps)
            labels, weights = times.group_weights(steps, "sum", freq)
        except ValueError as error:
            must = "be a frequency of pandas that suits the times, or all"
            remedy = (
                "Pass YS for years (of quarters Y), QS for quarters, MS for months, W for weeks."
            )
            raise refusal("--sum", must, repr(freq), remedy) from error
        counts = pd.Series(weights.sum(axis=1).astype(int), labels)
        if freq is not None and (partial_sums := times.partial_periods(steps, freq)):
            named = ", ".join(partial_sums.values())
            rule = f"--sum {freq} has periods that are not complete: {named}"
            say(f"{rule}. The column steps counts them.")
    if sys.stderr.isatty():
        steps_asked = counted(options.steps, "step")
        say(f"forecasting {steps_asked} after {counted(len(y), 'value')} ...")
    if options.load is None:
        model = model.fit(y, exog)
    elif options.data is not None:
        model = _continued(model, y, exog)
    loaded = options.load is not None
    if isinstance(model, Forecaster):
        for note in model.notes_:
            say(note_text(note, loaded))
    draw: Callable[..., Any]
    if options.scenario:
        way = options.propagation
        scenarios = model.scenarios(futures, options.steps, exog_std=stds, propagation=way)
        each, draw = dict(scenarios.items()), scenarios.plot
        first, *others = scenarios.names
        each |= {f"{name} - {first}": scenarios.difference(name, first) for name in others}
    else:
        future = next(iter(futures.values()), None)
        std: Any = {"exog_std": next(iter(stds.values()))} if stds else {}
        ahead = model.forecast(options.steps, future, propagation=options.propagation, **std)
        each, draw = {"": ahead}, ahead.plot
    tables, widths = [], []
    for name in each if not options.scenario else futures:
        for note in each[name].notes_:
            say(f"{name}: {note}" if name else note)
    for name, one in each.items():
        answer = one if counts is None else one.aggregate("sum", freq=freq, partial="keep")
        table = _columns(answer, options)
        for column, values in (("steps", counts), ("scenario", name or None)):
            if values is not None:
                table.insert(0, column, values)
        # up to where a difference begins it is 0, and so is its std
        widths.append(table["std"].clip(lower=0.0 if name in futures else table["std"].max()))
        tables.append(table)
    table = pd.concat(tables)
    if table.index.name is None:  # of a model that was fitted elsewhere
        table.index.name = reading.time_column(options)
    chances = [f"above_{value:g}" for value in options.prob_above]
    if options.output is None:
        figures = table.drop(columns=["scenario", "steps", *chances], errors="ignore")
        table[chances] = table[chances].map(reading.chance)
        reading.print_table(table, figures, pd.concat(widths))
    else:
        reading.write_table(table, options.output)
    if options.plot is not None:
        past = page.past(y, next(iter(each.values())).index, 4)
        few = options.coverage[:1] if options.scenario else options.coverage
        with _picture(options.plot, 1, 9) as ax:
            draw(history=past, coverage=few, ax=ax)
    if options.summary is not None:
        summary = _summary(model, ahead, loaded)
        if options.summary == STANDARD:
            print(summary)
        else:
            with whole_file(options.summary) as unfinished:
                unfinished.write_text(f"{summary}\n", encoding="utf-8")
    if options.save is not None:
        model.save(options.save)
    return _DONE


def _futures(
    options: Any, y: pd.Series[float]
) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """The regressors ahead, and their stds where there are some, by scenario."""
    columns, futures, stds = of.columns_of_stds(options), {}, {}
    absent = dict(columns)
    for name, (option, path) in of.future_files(options).items():
        futures[name], std = reading.read_ahead(options, y.index, option, path, columns)
        if len(std.columns):
            stds[name] = std.reindex(columns=futures[name].columns, fill_value=0.0)
        absent = {one: column for one, column in absent.items() if one not in std}
    for column in absent.values():
        must = "name a column of a file with the regressors ahead"
        raise refusal("--exog-std", must, repr(column), "Write the stds there.")
    return futures, stds


def _columns(answer: Forecast, options: Any) -> pd.DataFrame:
    """What is asked of a forecast, a column each."""
    columns: dict[str, Any] = {"mean": answer.mean, "std": answer.std}
    for level in options.coverage:
        for end, values in answer.interval(level).items():
            columns[f"{end}_{percent(level)}"] = values
    for value in options.prob_above:
        columns[f"above_{value:g}"] = answer.prob(lower=value)
    for p in options.quantile:
        columns[f"quantile_{p:g}"] = answer.quantile(p)
    return pd.DataFrame(columns)


def _summary(model: Forecaster | Combination, ahead: Forecast, loaded: bool) -> str:
    """The choices of a model, and each member's part in the change over the horizon."""
    lines = summary_lines(model) if isinstance(model, Forecaster) else model.choices_
    chosen = "\n".join(note_text(line, loaded) for line in lines)
    contributions = ahead.explain().to_string(float_format=partial(figure, digits=3), na_rep="")
    heading = "What each model adds to the change of the mean from the first step to the last"
    return f"{chosen}\n\n{heading}:\n{contributions}"


@program.command(
    cls=of.Command,
    params=[*of.DATA, *of.MODEL, *of.BACKTEST],
    options_metavar="--steps N [OPTIONS]",
    epilog=_OF_BACKTEST,
)
@_with_exit_code
def backtest(options: Any) -> int:
    """Forecast from many origins and score."""
    of.check_backtest(options)
    names = [name for name in options.compare if name != "none"]
    if not options.compare:
        names = ["naive_propagation"]
        names += [] if options.report is None else ["seasonal_naive", "ets"]
    asked = {name: vars(options)[name] for name in ("origins", "step", "refit", "coverage")}
    asked |= {"n_jobs": options.jobs, "progress": sys.stderr.isatty()}
    asked["compare"] = {name: of.compared(name) for name in names}
    model, code = of.make_forecaster(options), _DONE
    if options.id is None:
        y, exog = reading.read_series(options)
        first = {"origin": y.index[:1], "time": y.index[1:2], "step": 1}
        for by in options.coverage_by if len(y) > 1 else ():
            check_part(by, pd.DataFrame(first))
        result = backtests.backtest(model, y, options.steps, exog=exog, **asked)
    else:
        panel = reading.read_panel(options)
        result = _of_panel(backtest_panel, options, panel, model, **asked)
        code = _report_failures(result.failures, panel[options.id].nunique(), "backtested")
    # Standard output may be for the forecasts.
    right = ", ".join(f"coverage_{percent(p)} should be {p:g}" for p in options.coverage)
    below, scores = _SCORES.format(right, options.target, unit_of_mase(result)), result.scores()
    lines = [scores.round(4).to_string(), f"\n{verdict(result)}", below]
    lines += [_NAIVE] if "naive_propagation" in names else []
    lines += [_NO_UNIT] if result.frame["scale"].isna().any() else []
    for by in dict.fromkeys(options.coverage_by):
        lines += _coverage(result, by)
    print(*lines, sep="\n", file=sys.stderr if options.output == STANDARD else sys.stdout)
    if options.output is not None:
        reading.write_table(result.frame, options.output)
    if options.plot is not None:
        with _picture(options.plot, 2, 10) as (errors, calibration):
            result.plot_errors(ax=errors)
            result.plot_calibration(ax=calibration)
    if options.report is not None:
        result.report(options.report)
    return code


def _coverage(result: backtests.Backtest, by: str) -> list[str]:
    """What the intervals held in groups, a row a model and group, and the test of all groups."""
    table, parts, equal = result.coverage(by), {}, []
    for level in result.coverages:
        rows: Any = table.xs(level, level="coverage")
        parts[f"{percent(level)} %"] = rows[["held", "std_error", "p_value"]].round(3)
        firsts = rows["p_equal"].groupby("model", sort=False).first()
        equal += [f"{model} {percent(level)} %: {p:.2g}" for model, p in firsts.dropna().items()]
    parts["n"] = rows[["n"]].set_axis([""], axis=1)
    wide = pd.concat(parts, axis=1).to_string()
    tests = [_COVERAGE, *equal] if equal else [_TOO_FEW]
    return [f"\nCoverage by {by}\n{wide}", *tests]


@program.command(cls=of.Command, epilog=_OF_COMPLETION)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@_with_exit_code
def completion(options: Any) -> int:
    """Print what completes options in a shell."""
    shell = get_completion_class(options.shell)
    assert shell is not None
    print(shell(program, {}, _NAME, "_FORECAST_UNC_COMPLETE").source())
    return _DONE


def _read(options: Any) -> tuple[Forecaster | Combination, pd.Series[float], pd.DataFrame | None]:
    """The model, and the series at whose end it forecasts: that of the data, or its own."""
    if options.load is None:
        return of.make_forecaster(options), *reading.read_series(options)
    model = load_model(options.load)
    history = model.history_ if isinstance(model, Forecaster) else None
    columns = [] if history is None else list(map(str, history.given_columns))
    if columns and not options.exog:
        named = " ".join(f"--exog {shlex.quote(name)}" for name in columns)
        remedy = f"Pass {named} --exog-future FILE, which holds them at the steps ahead."
        must = f"be given for a model with regressors, {', '.join(columns)}"
        raise refusal("--exog", must, "none", remedy)
    if options.data is not None:
        return model, *reading.read_series(options)
    if history is None:
        must, got = f"be given for a {type(model).__name__}", f"{options.load} alone"
        raise refusal("data", must, got, "Name the series that it is to forecast.")
    return model, pd.Series(history.given, history.index, name=history.name), None


def _continued(
    model: Forecaster | Combination, y: pd.Series[float], exog: pd.DataFrame | None
) -> Forecaster | Combination:
    """A saved model at the end of data: updated where they go on with its series, else applied."""
    why = "a Combination holds no series of its own"
    if isinstance(model, Forecaster):
        history, n = model.history_, len(y)
        other = history.alike(y, exog)  # raises where the times cannot be compared
        end, n_new = times.format_time(history.last, -1), int((y.index > history.last[-1]).sum())
        place = history.index.get_indexer(other.index)  # -1: not a time of the model's series
        same = np.isclose(other.y, history.given[place], rtol=1e-12, atol=0.0, equal_nan=True)
        if (at := first_true(~same & (place >= 0))) is not None:
            why = f"it was fitted on other values, first at {times.format_time(other.index, at)}"
        elif y.index[-1] < history.last[-1] or y.index[0] > times.future_index(history.last, 1)[0]:
            first, last = (times.format_time(y.index, at) for at in (0, -1))
            why = f"data run from {first} to {last}, its series to {end}"
        else:
            say(f"the saved model is updated with {counted(n_new, 'value')} after {end}")
            later = None if exog is None else exog.iloc[n - n_new :]
            return model.update(y.iloc[n - n_new :], later) if n_new else model
    say(f"the saved model is applied, with nothing learned: {why}")
    return model.apply(y, exog)


def _forecast_panel(options: Any) -> int:
    panel, exog = reading.read_panel(options), None
    of.check_exog(options)
    if options.exog_future is not None:
        exog = reading.read_panel_ahead(options, panel)
    # A quantile is an end of an interval, whose other end is left out.
    n, quantiles = len(options.coverage), list(dict.fromkeys(options.quantile))
    wanted = map(percent, [*options.coverage, *(abs(2 * p - 1) for p in quantiles)])
    levels = [int(level) if level.isdigit() else float(level) for level in wanted]
    table = _of_panel(
        forecast_panel,
        options,
        panel,
        of.make_forecaster(options),
        levels=levels,
        exog=exog,
        propagation=options.propagation,
        aggregate=None if options.sum is None else "sum",
        n_jobs=options.jobs,
        progress=sys.stderr.isatty(),
    )
    for p, level in zip(quantiles, levels[n:], strict=True):
        end = table[f"forecast_unc-{'hi' if p > 0.5 else 'lo'}-{level}"]
        table.insert(table.columns.get_loc("error"), f"quantile_{p:g}", end)
    table = table.drop(columns=nixtla_columns([*({*levels[n:]} - {*levels[:n]})])[1:])
    if options.output is None:
        figures = table.drop(columns=[options.id, reading.time_column(options), *SAID])
        low, high = (figures[f"forecast_unc-{end}-{min(levels[:n])}"] for end in ("lo", "hi"))
        reading.print_table(table, figures, (high - low) / 2)
    else:
        reading.write_table(table, options.output)
    series = table.drop_duplicates(options.id)
    noted = series.loc[series["notes"] != "", [options.id, "notes"]]
    for name, note in noted.itertuples(index=False):
        say(f"{name}: {notes_text(note)}")
    if few := int((series["error"].isna() & (series["status"] != "ok")).sum()):
        say(f"{few} of {len(series)} series have too few values for the model, see status")
    failures = series.loc[series["error"].notna(), [options.id, "error"]]
    return _report_failures(failures, len(series), "forecast by the model, see status")


def _of_panel(call: Any, options: Any, panel: pd.DataFrame, *arguments: Any, **asked: Any) -> Any:
    """Call `forecast_panel` or `backtest_panel` without its warning of failures."""
    names = {"id_col": options.id, "time_col": reading.time_column(options)}
    freq = options.freq
    if freq is not None and pd.api.types.is_integer_dtype(panel[names["time_col"]].dtype):
        freq = int(freq)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FailedSeriesWarning)
        names["target_col"] = options.target
        return call(panel, *arguments, options.steps, freq=freq, **names, **asked)


def _report_failures(failures: pd.DataFrame, n_series: int, done: str) -> int:
    if failures.empty:
        return _DONE
    first = failures.drop_duplicates(failures.columns[-1])[:3].itertuples(index=False)
    reasons = " ".join(f"{name}: {failure_text(reason)}" for name, reason in first)
    say(f"{len(failures)} of {n_series} series could not be {done}; the first: {reasons}")
    return _SOME_FAILED


@contextmanager
def _picture(path: Path, columns: int, width: float) -> Iterator[Any]:
    """Axes beside each other, and at the end the file of their picture."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=(width, 4.5), layout="constrained")
    yield axes
    with whole_file(path) as unfinished:
        figure.savefig(unfinished)
