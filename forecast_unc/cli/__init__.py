"""The command line, ``forecast-unc``."""

from forecast_unc.cli.commands import main

__all__ = ["main"]
