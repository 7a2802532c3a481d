"""Command line: ``forecast-unc demo | forecast | backtest``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pandas as pd

from forecast_unc._version import __version__
from forecast_unc.evaluation.backtest import OWN_NAME, backtest
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.propagation import PROPAGATIONS

_COVERAGE = (0.8, 0.95)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; errors are one line on stderr and exit code 2.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit code: 0, or 2 after an error.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, TypeError, OSError) as error:
        message = " ".join(str(error).split())
        print(f"forecast-unc: {message}", file=sys.stderr)
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line, without the usage.

        Parameters
        ----------
        message : str
            What is wrong with the arguments.
        """
        self.exit(2, f"forecast-unc: {message}. See {self.prog} --help.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="forecast-unc",
        description="How sure are we about this series, k steps ahead?",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")

    demo = commands.add_parser("demo", help="forecast bundled real data: a picture and a table")
    demo.add_argument(
        "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)"
    )
    demo.set_defaults(run=_demo)

    forecast = commands.add_parser("forecast", help="forecast a series in a CSV file")
    _add_series_arguments(forecast)
    forecast.add_argument(
        "--propagation",
        choices=PROPAGATIONS,
        default="exact",
        help="how the doubt of one step enters the next (default: exact)",
    )
    forecast.add_argument("--output", type=Path, help="CSV to write (default: print)")
    forecast.add_argument("--plot", type=Path, help="picture to write")
    forecast.set_defaults(run=_forecast)

    test = commands.add_parser("backtest", help="forecast from many origins and score")
    _add_series_arguments(test)
    test.add_argument("--origins", type=int, default=10, help="number of origins (default: 10)")
    test.add_argument(
        "--step", type=int, help="observations between origins (default: as many as --steps)"
    )
    test.add_argument(
        "--refit", type=int, default=1, help="fit anew at every k-th origin (default: 1)"
    )
    test.add_argument(
        "--compare",
        nargs="*",
        choices=PROPAGATIONS,
        default=["naive"],
        help="propagations to compare with (default: naive)",
    )
    test.add_argument(
        "--seasonal-period", type=int, default=1, help="period of the MASE's scale (default: 1)"
    )
    test.add_argument("--jobs", type=int, default=1, help="parallel jobs (default: 1)")
    test.add_argument("--output", type=Path, help="CSV of all forecasts to write")
    test.add_argument("--plot", type=Path, help="picture of CRPS by step and calibration to write")
    test.set_defaults(run=_backtest)
    return parser


def _add_series_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="CSV file with a time and a value column")
    parser.add_argument("--time", default="ds", help="name of the time column (default: ds)")
    parser.add_argument("--target", default="y", help="name of the value column (default: y)")
    parser.add_argument("--steps", type=int, required=True, help="steps ahead")
    parser.add_argument(
        "--lags",
        type=int,
        nargs="+",
        default=[12],
        help="one number p for lags 1 to p, or the lags",
    )
    parser.add_argument(
        "--differences", type=int, nargs="+", default=[], help="lags of differences, such as 1 12"
    )
    parser.add_argument(
        "--coverage",
        type=float,
        nargs="+",
        default=list(_COVERAGE),
        help="coverages of the intervals, in (0, 1) (default: 0.8 0.95)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of monte_carlo (default: 0)")


def _demo(arguments: argparse.Namespace) -> None:
    from forecast_unc.demo import demo

    demo(arguments.output)


def _forecast(arguments: argparse.Namespace) -> None:
    y = read_series(arguments.data, arguments.time, arguments.target)
    ahead = (
        _forecaster(arguments).fit(y).forecast(arguments.steps, propagation=arguments.propagation)
    )
    table = _table(ahead, arguments.coverage)
    if arguments.output is None:
        print(table.to_csv(float_format="%.6g"), end="")
    else:
        table.to_csv(arguments.output)
    if arguments.plot is not None:
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
        ahead.plot(history=y.iloc[-4 * arguments.steps :], coverage=arguments.coverage, ax=ax)
        figure.savefig(arguments.plot)


def _backtest(arguments: argparse.Namespace) -> None:
    y = read_series(arguments.data, arguments.time, arguments.target)
    result = backtest(
        _forecaster(arguments),
        y,
        arguments.steps,
        n_origins=arguments.origins,
        step=arguments.step,
        refit=arguments.refit,
        compare={name: name for name in arguments.compare},
        seasonal_period=arguments.seasonal_period,
        coverage=arguments.coverage,
        n_jobs=arguments.jobs,
        progress=sys.stderr.isatty(),
    )
    print(result.scores().rename(index={OWN_NAME: "exact"}).round(4).to_string())
    if arguments.output is not None:
        result.frame.to_csv(arguments.output, index=False)
    if arguments.plot is not None:
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
        result.plot_errors(ax=left)
        result.plot_calibration(ax=right)
        figure.savefig(arguments.plot)


def _forecaster(arguments: argparse.Namespace) -> Forecaster:
    lags = arguments.lags[0] if len(arguments.lags) == 1 else arguments.lags
    return Forecaster(lags=lags, differences=arguments.differences, random_state=arguments.seed)


def _table(forecast: Forecast, coverage: Sequence[float]) -> pd.DataFrame:
    columns = {"mean": forecast.mean, "std": forecast.std}
    for level in coverage:
        band = forecast.interval(level)
        columns[f"lower_{100 * level:g}"] = band["lower"]
        columns[f"upper_{100 * level:g}"] = band["upper"]
    return pd.DataFrame(columns)


def read_series(path: Path, time: str, target: str) -> pd.Series[float]:
    """One series from a CSV file, indexed by its time column.

    Parameters
    ----------
    path : Path
        The file.
    time : str
        Name of the column of times; whole numbers are taken as they are.
    target : str
        Name of the column of values.

    Returns
    -------
    Series

    Raises
    ------
    ValueError
        If the file lacks a column or a time cannot be read.
    """
    frame = pd.read_csv(path)
    for option, column in (("--time", time), ("--target", target)):
        if column not in frame:
            raise ValueError(
                f"{option} must name a column of {path}; got {column!r}. "
                f"The file has {', '.join(map(repr, frame.columns))}."
            )
    times = frame[time]
    if not pd.api.types.is_integer_dtype(times.dtype):
        try:
            times = pd.to_datetime(times)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"--time must hold dates or whole numbers; got {times.iloc[0]!r} in column "
                f"{time!r}. Write dates as 2024-01-31."
            ) from error
    index = pd.Index(times, name=time)
    return pd.Series(frame[target].to_numpy(), index=index, name=target)
