"""The command line as ``python -m forecast_unc.cli``."""

from forecast_unc.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
