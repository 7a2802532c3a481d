"""What the commands do."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from typing import Any

import pandas as pd

from forecast_unc import load_model
from forecast_unc.cli import writing
from forecast_unc.cli.checks import check_backtest, check_forecast
from forecast_unc.cli.models import BASELINES, make_forecaster
from forecast_unc.cli.reading import (
    Given,
    Layout,
    read_ahead,
    read_panel,
    read_panel_ahead,
    read_series,
    time_column,
)
from forecast_unc.cli.tables import STANDARD
from forecast_unc.evaluation import backtest as backtests
from forecast_unc.evaluation.folds import percent
from forecast_unc.forecasting.combination import Combination
from forecast_unc.forecasting.forecaster import Forecaster, outliers_named
from forecast_unc.panels.backtest import backtest_panel
from forecast_unc.panels.forecast import FailedSeriesWarning, forecast_panel
from forecast_unc.series.times import MissingTimesError, future_index

_DONE, _SOME_FAILED = 0, 1  # exit codes


def demo(arguments: argparse.Namespace) -> int:
    """Forecast bundled data.

    Parameters
    ----------
    arguments : Namespace
        The options.

    Returns
    -------
    int
        Exit code.
    """
    from forecast_unc.demo import demo

    demo(arguments.output)
    return _DONE


def completion(arguments: argparse.Namespace) -> int:
    """Print the script that completes options in a shell.

    Parameters
    ----------
    arguments : Namespace
        The options.

    Returns
    -------
    int
        Exit code.
    """
    from forecast_unc.cli.completion import script
    from forecast_unc.cli.parser import make_parser

    print(script(make_parser(), arguments.shell), end="")
    return _DONE


def forecast(arguments: argparse.Namespace) -> int:
    """Forecast a series, or every series of a panel.

    Parameters
    ----------
    arguments : Namespace
        The options.

    Returns
    -------
    int
        Exit code: 1 if some series of a panel have no forecast.
    """
    check_forecast(arguments)
    layout = Layout.of(arguments)
    if layout.id is not None:
        return _forecast_panel(arguments, layout)
    model, given = _read(arguments, layout)
    index = given.y.index
    options: dict[str, Any] = {"propagation": arguments.propagation}
    if arguments.exog_future is not None:
        options["exog"] = read_ahead(arguments.exog_future, layout, index, arguments.steps)
    counts = None
    if arguments.sum is not None:
        counts = writing.counted(future_index(index, arguments.steps), arguments.sum)
    _tell(f"forecasting {arguments.steps} steps after {len(given.y)} values ...")
    if arguments.load is None:
        model = model.fit(given.y, given.exog)
    elif arguments.data is not None:
        model = model.apply(given.y, given.exog)
    if isinstance(model, Forecaster):
        for line in outliers_named(model.ensemble_.history):
            writing.say(line)
    ahead = model.forecast(arguments.steps, **options)
    asked = ahead if counts is None else writing.summed(ahead, arguments.sum)
    table = writing.forecast_table(asked, arguments.coverage, arguments.prob_above or ())
    if counts is not None:
        table.insert(0, "steps", counts)
    if table.index.name is None:  # of a model that was fitted elsewhere
        table.index.name = time_column(layout)
    if arguments.output is None:
        writing.print_table(table, table, table["std"])
    else:
        writing.write_table(table, arguments.output)
    if arguments.plot is not None:
        writing.draw_forecast(ahead, given.y, arguments.coverage, arguments.plot)
    if arguments.save is not None:
        model.save(arguments.save)
    return _DONE


def backtest(arguments: argparse.Namespace) -> int:
    """Forecast from many origins and print the scores.

    Parameters
    ----------
    arguments : Namespace
        The options.

    Returns
    -------
    int
        Exit code: 1 if some series of a panel could not be backtested.
    """
    check_backtest(arguments)
    layout = Layout.of(arguments)
    compared = arguments.compare
    if compared is None:
        compared = ["naive"] if arguments.report is None else ["naive", "seasonal_naive", "ets"]
    options = {
        "n_origins": arguments.origins,
        "step": arguments.step,
        "refit": arguments.refit,
        "compare": {name: BASELINES[name]() if name in BASELINES else name for name in compared},
        "coverage": arguments.coverage,
        "n_jobs": arguments.jobs,
        "progress": _watched(),
    }
    model = make_forecaster(arguments)
    if layout.id is None:
        given = read_series(arguments.data, layout)
        result = backtests.backtest(model, given.y, arguments.steps, exog=given.exog, **options)
        code = _DONE
    else:
        panel = read_panel(arguments.data, layout)
        result = _quietly(
            backtest_panel, panel, model, arguments.steps, **_names(layout), **options
        )
        code = _told(result.failures, panel[layout.id].nunique(), "backtested")
    _write(arguments, result)
    return code


def _read(arguments: argparse.Namespace, layout: Layout) -> tuple[Forecaster | Combination, Given]:
    """The model, and the series at whose end it forecasts: that of the data, or its own."""
    if arguments.load is None:
        return make_forecaster(arguments), read_series(arguments.data, layout)
    model = load_model(arguments.load)
    if isinstance(model, Forecaster) and arguments.exog is None:
        _check_no_regressors(model)
    if arguments.data is not None:
        return model, read_series(arguments.data, layout)
    if not isinstance(model, Forecaster):
        raise ValueError(
            f"data must be given for a {type(model).__name__}; got {arguments.load} alone. Name "
            "the series that it is to forecast."
        )
    history = model.ensemble_.history
    return model, Given(pd.Series(history.given, history.index, name=history.name), None)


def _check_no_regressors(model: Forecaster) -> None:
    columns = list(map(str, model.ensemble_.history.columns))
    if columns:
        raise ValueError(
            f"--exog must be given for a model with regressors, {', '.join(columns)}; got none. "
            f"Pass --exog {' '.join(map(shlex.quote, columns))} --exog-future FILE, which holds "
            "them at the steps ahead."
        )


def _forecast_panel(arguments: argparse.Namespace, layout: Layout) -> int:
    panel, exog = read_panel(arguments.data, layout), None
    if arguments.exog_future is not None:
        exog = read_panel_ahead(arguments.exog_future, layout, panel, arguments.steps)
    table = _quietly(
        forecast_panel,
        panel,
        make_forecaster(arguments),
        arguments.steps,
        levels=[_level(percent(coverage)) for coverage in arguments.coverage],
        exog=exog,
        propagation=arguments.propagation,
        n_jobs=arguments.jobs,
        progress=_watched(),
        **_names(layout),
    )
    if arguments.output is None:
        figures = table.drop(columns=[layout.id, time_column(layout), "error"])
        low = percent(min(arguments.coverage))
        ends = [figures[f"forecast_unc-{end}-{low}"] for end in ("lo", "hi")]
        writing.print_table(table, figures, (ends[1] - ends[0]) / 2)
    else:
        writing.write_table(table, arguments.output)
    failures = table.loc[table["error"].notna(), [layout.id, "error"]]
    return _told(failures, panel[layout.id].nunique(), "forecast")


def _level(text: str) -> float:
    """A coverage in percent, whole where it is, as it stands in the names of columns."""
    return int(text) if text.isdigit() else float(text)


def _names(layout: Layout) -> dict[str, Any]:
    """Names of the columns of a panel."""
    return {"id_col": layout.id, "time_col": time_column(layout), "target_col": layout.target}


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
    writing.say(
        f"{len(failures)} of {n_series} series could not be {done}; the first: {name}: "
        f"{reason}{remedy}"
    )
    return _SOME_FAILED


def _write(arguments: argparse.Namespace, result: backtests.Backtest) -> None:
    """Print the scores, where standard output is not for the forecasts, and write the files."""
    scores = result.scores().round(4).to_string()
    print(scores, file=sys.stderr if arguments.output == STANDARD else sys.stdout)
    if arguments.output is not None:
        writing.write_table(result.frame, arguments.output)
    if arguments.plot is not None:
        writing.draw_backtest(result, arguments.plot)
    if arguments.report is not None:
        result.report(arguments.report)


def _watched() -> bool:
    """Whether somebody looks at standard error."""
    return sys.stderr.isatty()


def _tell(what: str) -> None:
    """Say what takes time, where somebody looks."""
    if _watched():
        writing.say(what)
