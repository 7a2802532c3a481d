"""The command line as ``python -m forecast_unc.cli``."""

import sys

from forecast_unc.cli import main

if __name__ == "__main__":
    sys.exit(main())
