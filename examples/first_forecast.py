"""Picture of a default forecast: carbon dioxide at Mauna Loa, five years ahead, and what followed.

`Forecaster()` is fitted to the values up to December 1996; the points, 1997 to 2001, are held out.
It is the first picture of the README and of the documentation.

    python examples/first_forecast.py --output docs/img

Written to DIR: first_forecast.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl

from forecast_unc import Forecaster, datasets

STEPS, SHOWN = 60, 84  # months ahead, and months of the history in the picture


def draw(path):
    mpl.use("Agg")
    import matplotlib.dates as mdates
    import matplotlib.pyplot as plt

    y = datasets.load_co2()
    past, actual = y.iloc[:-STEPS], y.iloc[-STEPS:]
    ahead = Forecaster().fit(past).forecast(STEPS)

    figure, ax = plt.subplots(figsize=(7.2, 3.5), layout="constrained", facecolor="white")
    ahead.plot(past.iloc[-SHOWN:], actual=actual, ax=ax)
    ax.set_ylabel("CO2 in the air (ppm)")
    ax.set_title("Forecast from the values up to December 1996", loc="left", fontsize="medium")
    ax.xaxis.set_major_locator(mdates.YearLocator(2))
    ax.xaxis.set_major_formatter(mdates.DateFormatter("%Y"))
    figure.savefig(path, dpi=125)
    for coverage in (0.8, 0.95):
        band = ahead.interval(coverage)
        inside = actual.between(band["lower"], band["upper"]).sum()
        print(f"{inside} of {STEPS} months lie in the {100 * coverage:g} % band.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="the same: it takes a second")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    draw(args.output / "first_forecast.png")


if __name__ == "__main__":
    main()
