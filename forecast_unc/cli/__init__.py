"""The command line, ``forecast-unc``."""

from forecast_unc.cli.run import main

__all__ = ["main"]
