"""The options of the commands that read a series."""

from __future__ import annotations

import argparse
from pathlib import Path

from forecast_unc.cli.models import BASELINES, REGRESSORS
from forecast_unc.forecasting.recursion import PROPAGATIONS
from forecast_unc.series.calendar import NAMES

_COVERAGE = (0.8, 0.95)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the series is, and how it is written.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    group = parser.add_argument_group("data")
    group.add_argument(
        "data",
        type=Path,
        nargs="?",
        help="CSV or Parquet file with a time and a value column; - for standard input",
    )
    group.add_argument(
        "--time",
        default="ds",
        metavar="COLUMN",
        help="column of times (default: ds); several as year,month or year,month,day,hour, "
        "year,quarter or date,time",
    )
    group.add_argument(
        "--target", default="y", metavar="COLUMN", help="column of values (default: y)"
    )
    group.add_argument("--id", metavar="COLUMN", help="column that names series: forecast each")
    group.add_argument("--exog", nargs="+", metavar="COLUMN", help="columns of regressors")
    group.add_argument(
        "--freq",
        help="frequency of the times, such as D, MS or h, of whole numbers their distance: rows "
        "that are missing are then missing values, which are uncertain, not filled",
    )
    _add_csv(parser)


def _add_csv(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("values and CSV")
    group.add_argument(
        "--missing",
        nargs="+",
        metavar="VALUE",
        help="what stands for a missing value, such as -99.99 (an empty field always does)",
    )
    group.add_argument(
        "--comment", metavar="CHARACTER", help="skip the rest of a line from it on, such as '#'"
    )
    group.add_argument(
        "--sep", default=",", help="what separates columns (default: ,); \\t tabs, \\s+ spaces"
    )
    group.add_argument(
        "--decimal", default=".", metavar="CHARACTER", help="what is before decimals (default: .)"
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options that say the forecaster: None is not given, and left to its own default.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    group = parser.add_argument_group(
        "model", "What is not given is chosen from the series; with --lags it is the plain choice."
    )
    group.add_argument(
        "--model",
        choices=("auto", *REGRESSORS),
        help="Gaussian process, relevance vector machine or reduced rank (default: auto)",
    )
    group.add_argument(
        "--lags",
        type=int,
        nargs="+",
        metavar="LAG",
        help="one number p for lags 1 to p, or the lags",
    )
    group.add_argument(
        "--differences",
        type=int,
        nargs="+",
        metavar="LAG",
        help="lags of differences, such as 1 12; 0 for none",
    )
    _add_of_series(group)
    group.add_argument(
        "--max-train", type=int, metavar="ROWS", help="learn from the last rows only"
    )
    group.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of monte_carlo, auto and restarts (default: 0)",
    )


def _add_of_series(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--transform", choices=("auto", "none", "log", "sqrt", "boxcox"), help="of y"
    )
    group.add_argument(
        "--lower",
        type=float,
        metavar="BOUND",
        help="what y is never below (default: 0 for zeros and none below; --lower=-inf for none)",
    )
    group.add_argument(
        "--outliers",
        choices=("mask", "keep"),
        help="what becomes of gross outliers: taken for missing, and named, or kept",
    )
    group.add_argument(
        "--period",
        type=int,
        nargs="+",
        metavar="N",
        help="seasonal periods (default: from the times)",
    )
    group.add_argument(
        "--calendar",
        nargs="+",
        choices=("none", *NAMES),
        metavar="PART",
        help=f"inputs from the calendar: none, {', '.join(NAMES)}",
    )
    group.add_argument(
        "--holidays",
        type=Path,
        metavar="FILE",
        help="file with one date a line, beside --calendar (of which the default is then fourier "
        "without --lags)",
    )


def _add_answers(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--steps", type=int, required=True, metavar="N", help="steps ahead")
    parser.add_argument(
        "--coverage",
        type=float,
        nargs="+",
        metavar="P",
        default=list(_COVERAGE),
        help="coverages of the intervals, in (0, 1) (default: 0.8 0.95)",
    )


def _add_jobs(parser: argparse._ActionsContainer, what: str) -> None:
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help=f"{what}, -1 for all processors (default: 1)",
    )


def add_forecast(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is asked of a forecast, and its files.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    group = parser.add_argument_group("forecast")
    _add_answers(group)
    _add_jobs(group, "parallel jobs over the series of --id")
    group.add_argument(
        "--propagation",
        choices=PROPAGATIONS,
        default="exact",
        help="how the uncertainty of one step enters the next (default: exact)",
    )
    group.add_argument(
        "--exog-future",
        type=Path,
        metavar="FILE",
        help="regressors at the steps ahead: their times, and the columns of --exog",
    )
    group.add_argument(
        "--sum",
        metavar="FREQ",
        help="forecast sums of steps instead: by year (YS), by month (MS), ..., or all",
    )
    group.add_argument(
        "--prob-above",
        type=float,
        nargs="+",
        metavar="X",
        help="columns with the probability of a value, or a sum, above X",
    )
    group = parser.add_argument_group("files")
    group.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="CSV or Parquet to write, - for standard output (default: print, rounded)",
    )
    group.add_argument(
        "--plot", type=Path, metavar="FILE", help="picture to write, of the steps with --sum too"
    )
    group.add_argument("--save", type=Path, metavar="FILE", help="write the fitted model")
    group.add_argument(
        "--load",
        type=Path,
        metavar="FILE",
        help="forecast with such a model, at the end of the data or, without, of its own",
    )


def add_backtest(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is asked of a backtest, and its files.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    group = parser.add_argument_group("backtest")
    _add_answers(group)
    _add_jobs(group, "parallel jobs")
    group.add_argument(
        "--origins", type=int, default=10, metavar="N", help="number of origins (default: 10)"
    )
    group.add_argument(
        "--step",
        type=int,
        metavar="N",
        help="observations between origins (default: as many as --steps)",
    )
    group.add_argument(
        "--refit", type=int, default=1, metavar="K", help="refit at every k-th origin (default: 1)"
    )
    group.add_argument(
        "--compare",
        nargs="*",
        choices=(*PROPAGATIONS, *BASELINES),
        metavar="MODEL",
        help="propagations and other models to compare with: "
        f"{', '.join((*PROPAGATIONS, *BASELINES))} (default: naive, and for "
        "--report seasonal_naive and ets too)",
    )
    group = parser.add_argument_group("files")
    group.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="CSV or Parquet of all forecasts to write, - for standard output",
    )
    group.add_argument(
        "--plot", type=Path, metavar="FILE", help="picture to write: CRPS by step, calibration"
    )
    group.add_argument(
        "--report", type=Path, metavar="FILE", help="page of HTML to write, for a browser"
    )
