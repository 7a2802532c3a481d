"""Command line: ``forecast-unc demo | forecast | backtest``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from forecast_unc._checks import check_whole
from forecast_unc._version import __version__
from forecast_unc.csv_series import read_series
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation import baselines
from forecast_unc.evaluation.backtest import backtest
from forecast_unc.evaluation.folds import percent
from forecast_unc.forecasting.forecaster import Forecaster, outliers_named
from forecast_unc.forecasting.recursion import PROPAGATIONS

_COVERAGE = (0.8, 0.95)
_MOST_STEPS = 10_000  # their covariance takes .8 GB
_BASELINES = {
    "seasonal_naive": baselines.SeasonalNaive,
    "autoreg": baselines.AutoReg,
    "ets": baselines.ETS,
    "theta": baselines.Theta,
    "sarimax": baselines.SARIMAX,
}


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
        message = str(error)
    except MemoryError as error:
        message = f"data and --steps must fit in memory; got {error}. Take fewer rows or steps."
    else:
        return 0
    print("forecast-unc:", " ".join(message.split()), file=sys.stderr)
    return 2


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
    _add_forecast_arguments(forecast)
    forecast.set_defaults(run=_forecast)

    test = commands.add_parser("backtest", help="forecast from many origins and score")
    _add_series_arguments(test)
    _add_backtest_arguments(test)
    test.set_defaults(run=_backtest)
    return parser


def _add_forecast_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--propagation",
        choices=PROPAGATIONS,
        default="exact",
        help="how the uncertainty of one step enters the next (default: exact)",
    )
    parser.add_argument("--output", type=Path, help="CSV to write (default: print)")
    parser.add_argument("--plot", type=Path, help="picture to write")


def _add_backtest_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--origins", type=int, default=10, help="number of origins (default: 10)")
    parser.add_argument(
        "--step", type=int, help="observations between origins (default: as many as --steps)"
    )
    parser.add_argument(
        "--refit", type=int, default=1, help="refit at every k-th origin (default: 1)"
    )
    parser.add_argument(
        "--compare",
        nargs="*",
        choices=(*PROPAGATIONS, *_BASELINES),
        help="propagations and other models to compare with (default: naive, and for --report "
        "seasonal_naive and ets too)",
    )
    parser.add_argument(
        "--seasonal-period",
        type=int,
        help="seasonal period of the MASE's scale (default: from the times)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="parallel jobs (default: 1)")
    parser.add_argument("--output", type=Path, help="CSV of all forecasts to write")
    parser.add_argument("--plot", type=Path, help="picture to write: CRPS by step, calibration")
    parser.add_argument("--report", type=Path, help="page of HTML to write, for a browser")


def _add_series_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="CSV file with a time and a value column")
    parser.add_argument("--time", default="ds", help="name of the time column (default: ds)")
    parser.add_argument("--target", default="y", help="name of the value column (default: y)")
    parser.add_argument("--steps", type=int, required=True, help="steps ahead")
    parser.add_argument(
        "--lags",
        type=int,
        nargs="+",
        help="one number p for lags 1 to p, or the lags (default: chosen from the series, as is "
        "every other option not given; once lags are given: no differences, no transform)",
    )
    parser.add_argument(
        "--differences", type=int, nargs="+", help="lags of differences, such as 1 12; 0 for none"
    )
    parser.add_argument(
        "--transform",
        choices=("auto", "none", "log", "sqrt", "boxcox"),
        default="auto",
        help="of y",
    )
    parser.add_argument(
        "--lower",
        type=float,
        help="what y is never below (default: 0 for zeros and none below; --lower=-inf for none)",
    )
    parser.add_argument(
        "--outliers",
        choices=("mask", "keep"),
        default="mask",
        help="what becomes of gross outliers: taken for missing, and named, or kept",
    )
    parser.add_argument(
        "--period", type=int, nargs="+", help="seasonal periods (default: from the times)"
    )
    parser.add_argument(
        "--coverage",
        type=float,
        nargs="+",
        default=list(_COVERAGE),
        help="coverages of the intervals, in (0, 1) (default: 0.8 0.95)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of monte_carlo and auto (default: 0)"
    )


def _demo(arguments: argparse.Namespace) -> None:
    from forecast_unc.demo import demo

    demo(arguments.output)


def _forecast(arguments: argparse.Namespace) -> None:
    _check_options(arguments)
    y = read_series(arguments.data, arguments.time, arguments.target)
    model = _forecaster(arguments).fit(y)
    for line in outliers_named(model.ensemble_.history):
        print("forecast-unc:", line, file=sys.stderr)
    ahead = model.forecast(arguments.steps, propagation=arguments.propagation)
    table = _table(ahead, arguments.coverage)
    if arguments.output is None:
        # six digits, and more where the level is large beside the std: three of the least std
        std = float(table["std"].min())
        largest = float(np.abs(table.to_numpy()).max())
        digits = max(6, 3 + int(np.ceil(np.log10(largest / std))))
        print(table.to_csv(float_format=f"%.{digits}g"), end="")
    else:
        table.to_csv(arguments.output)
    if arguments.plot is not None:
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
        ahead.plot(history=y.iloc[-4 * arguments.steps :], coverage=arguments.coverage, ax=ax)
        figure.savefig(arguments.plot)


def _backtest(arguments: argparse.Namespace) -> None:
    _check_options(arguments)
    y = read_series(arguments.data, arguments.time, arguments.target)
    compared = arguments.compare
    if compared is None:
        compared = ["naive"] if arguments.report is None else ["naive", "seasonal_naive", "ets"]
    result = backtest(
        _forecaster(arguments),
        y,
        arguments.steps,
        n_origins=arguments.origins,
        step=arguments.step,
        refit=arguments.refit,
        compare={name: _BASELINES[name]() if name in _BASELINES else name for name in compared},
        seasonal_period=arguments.seasonal_period,
        coverage=arguments.coverage,
        n_jobs=arguments.jobs,
        progress=sys.stderr.isatty(),
    )
    print(result.scores().round(4).to_string())
    if arguments.output is not None:
        result.frame.to_csv(arguments.output, index=False)
    if arguments.report is not None:
        result.report(arguments.report)
    if arguments.plot is not None:
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
        result.plot_errors(ax=left)
        result.plot_calibration(ax=right)
        figure.savefig(arguments.plot)


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise before the work begins for what would fail at its end."""
    check_whole("--seed", arguments.seed, 0, "Any such number will do.")
    if arguments.steps > _MOST_STEPS:
        raise ValueError(
            f"--steps must be at most {_MOST_STEPS}; got {arguments.steps}. The covariance of all "
            "steps is computed, whose size grows with their square: forecast a coarser series."
        )
    names: dict[str, float] = {}
    for level in arguments.coverage:
        if percent(level) in names:
            raise ValueError(
                "--coverage must be fractions that differ in 6 digits; got "
                f"{names[percent(level)]:.15g} and {level:.15g}. Leave one of them out."
            )
        names[percent(level)] = level
    _check_files(arguments)


def _check_files(arguments: argparse.Namespace) -> None:
    """Raise unless what is written can be written, and overwrites neither the data nor itself."""
    if arguments.plot is not None:
        from matplotlib.backend_bases import FigureCanvasBase

        formats = FigureCanvasBase.get_supported_filetypes()
        if arguments.plot.suffix[1:].lower() not in formats:
            raise ValueError(
                f"--plot must end in a picture format; got {arguments.plot.suffix!r}. "
                "Use .png, .svg or .pdf."
            )
    files: dict[str, Path] = {"data": arguments.data}
    report = getattr(arguments, "report", None)
    for option, path in (
        ("--output", arguments.output),
        ("--plot", arguments.plot),
        ("--report", report),
    ):
        if path is None:
            continue
        for other, taken in files.items():
            if _is_same(path, taken):
                raise ValueError(
                    f"{option} must be another file than {other}; got {path}. Name one of its own."
                )
        files[option] = path
        _check_writable(option, path)


def _is_same(path: Path, other: Path) -> bool:
    """Whether two names are of one file, by symbolic or hard links too."""
    both = path.exists() and other.exists()
    return path.samefile(other) if both else path.resolve() == other.resolve()


def _check_writable(option: str, path: Path) -> None:
    absent = not path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise ValueError(
            f"{option} must name a file that can be written; got {path}: {error.strerror}. "
            "Name one in a folder that is there."
        ) from error
    if absent:
        path.unlink()


def _forecaster(arguments: argparse.Namespace) -> Forecaster:
    return Forecaster(
        lags=_one_or_several(arguments.lags),
        differences=_one_or_several(arguments.differences),
        seasonal_period="auto" if arguments.period is None else arguments.period,
        transform=None if arguments.transform == "none" else arguments.transform,
        lower=arguments.lower,
        outliers=arguments.outliers,
        random_state=arguments.seed,
    )


def _one_or_several(values: list[int] | None) -> Any:
    if values is None:
        return "auto"
    return values[0] if len(values) == 1 else values


def _table(forecast: Forecast, coverage: Sequence[float]) -> pd.DataFrame:
    columns = {"mean": forecast.mean, "std": forecast.std}
    for level in coverage:
        band = forecast.interval(level)
        columns[f"lower_{percent(level)}"] = band["lower"]
        columns[f"upper_{percent(level)}"] = band["upper"]
    return pd.DataFrame(columns)
