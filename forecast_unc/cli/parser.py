"""The options of the command line, and their help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from forecast_unc._version import __version__
from forecast_unc.cli import commands
from forecast_unc.cli.completion import SHELLS
from forecast_unc.cli.options import add_backtest, add_data, add_forecast, add_model

_EXAMPLES = """\
examples:
  forecast-unc forecast data.csv --steps 24 --output f.csv --plot f.png
  forecast-unc backtest data.csv --steps 24 --compare naive ets theta
  forecast-unc forecast --help     all options, with more examples
"""
_OF_FORECAST = """\
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
_OF_BACKTEST = """\
examples:
  forecast-unc backtest data.csv --steps 24 --origins 10 --compare naive ets theta
  forecast-unc backtest data.csv --steps 24 --output - > forecasts.csv
  forecast-unc backtest shops.csv --id shop --steps 12 --jobs 4
"""
_OF_COMPLETION = """\
examples:
  forecast-unc completion bash > ~/.local/share/bash-completion/completions/forecast-unc
  forecast-unc completion zsh > ~/.zfunc/_forecast-unc     a folder of fpath, before compinit
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line, without the usage.

        Parameters
        ----------
        message : str
            What is wrong with the arguments.
        """
        self.exit(2, f"forecast-unc: {message}. See {self.prog} --help.\n")


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line.

    Returns
    -------
    ArgumentParser
    """
    parser = _Parser(
        prog="forecast-unc",
        description="How sure are we about this series, k steps ahead?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, usage: str, text: str, epilog: str = "") -> argparse.ArgumentParser:
        return subparsers.add_parser(
            name,
            usage=f"forecast-unc {name} {usage}",
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    demo = command("demo", "[--output FOLDER]", "forecast bundled real data: a picture and a table")
    demo.add_argument(
        "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)"
    )
    demo.set_defaults(run=commands.demo)

    forecast = command(
        "forecast",
        "DATA --steps N [options]",
        "forecast a series, or many, in a CSV or Parquet file",
        _OF_FORECAST,
    )
    forecast.set_defaults(run=commands.forecast)
    add_data(forecast)
    add_model(forecast)
    add_forecast(forecast)

    backtest = command(
        "backtest", "DATA --steps N [options]", "forecast from many origins and score", _OF_BACKTEST
    )
    backtest.set_defaults(run=commands.backtest)
    add_data(backtest)
    add_model(backtest)
    add_backtest(backtest)

    completion = command(
        "completion", "{bash,zsh}", "print what completes options in a shell", _OF_COMPLETION
    )
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(run=commands.completion)
    return parser
