"""The default call against standard models, on the series of the package.

Each series is forecast from 12 origins, 12 or 24 steps, by one call each with nothing set, fitted
anew at each origin. Scores are in units of the seasonal naive error, so that series compare.

    python examples/benchmarks/bundled.py
    python examples/benchmarks/bundled.py --quick   # the two short series, 3 origins
"""

import argparse
import time
import warnings

from forecast_unc import Forecaster, backtest, baselines, datasets

# name: series, steps, values between origins
SERIES = {
    "Nile, yearly": (datasets.load_nile, 12, 3),
    "US GDP, quarterly": (datasets.load_us_gdp, 12, 8),
    "sunspots, yearly": (datasets.load_sunspots, 12, 11),
    "El Niño, monthly": (datasets.load_elnino, 24, 18),
    "CO2, monthly": (datasets.load_co2, 24, 18),
}
MODELS = {
    "Forecaster()": Forecaster,
    "ETS": baselines.ETS,
    "Theta": baselines.Theta,
    "AutoReg": baselines.AutoReg,
    "SARIMAX": baselines.SARIMAX,
    "SeasonalNaive": baselines.SeasonalNaive,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the two short series, 3 origins")
    args = parser.parse_args()
    names = list(SERIES)[: 2 if args.quick else None]
    origins = 3 if args.quick else 12
    print("| series | model | MASE | MSIS | in 80 % band | in 95 % band | seconds a fit |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in names:
        load, steps, step = SERIES[name]
        for model, make in MODELS.items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of statsmodels' searches
                result = backtest(make(), load(), steps, origins=origins, step=step)
            seconds = (time.process_time() - start) / origins
            score = result.scores().iloc[0]
            print(
                f"| {name} | {model} | {score['MASE']:.2f} | {score['MSIS']:.1f} | "
                f"{score['coverage_80']:.2f} | {score['coverage_95']:.2f} | {seconds:.2g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
