"""Scores of one default forecaster on the series of a forecasting competition.

    python examples/benchmarks/m4.py --data m4_hourly.csv.gz --jobs 2

The file has the columns unique_id, freq, t, y, is_test, as the competition's own split. Each
series is forecast by ``Forecaster().fit(train).forecast(h)``: nothing depends on the file but the
frequency. Scores are those of the M4 competition, of the median and the 95 % interval, with
seasonal naive forecasts and the last value beside them. Last come the series with more than five
times the MSIS of seasonal naive.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecast, Forecaster, baselines, scores

# pandas frequency and the seasonal period of the competition's scale
FREQUENCIES = {
    "Hourly": ("h", 24),
    "Daily": ("D", 1),
    "Weekly": ("W", 1),
    "Monthly": ("M", 12),
    "Quarterly": ("Q", 4),
    "Yearly": ("Y", 1),
    "Other": (None, 1),
}
COVERAGE = 0.95
FLOOR = 5  # times the MSIS of seasonal naive
# prefixes of the columns of their scores
MODELS = {"": "forecast_unc", "naive_": "seasonal naive", "last_": "last value"}
START = pd.Period("1970-01-01", "h")  # the competition gives no dates


def split(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Training and test part of one series, on an index of its frequency."""
    freq, _ = FREQUENCIES[rows["freq"].iloc[0]]
    n = len(rows)
    index = (
        pd.RangeIndex(n)
        if freq is None
        else pd.period_range(START.asfreq(freq), periods=n, freq=freq)
    )
    y = pd.Series(rows["y"].to_numpy(np.float64), index=index, name=rows["unique_id"].iloc[0])
    test = rows["is_test"].to_numpy(bool)
    return y[~test], y[test]


def scored(actual: pd.Series, y: pd.Series, ahead: Forecast, period: int) -> dict[str, float]:
    """sMAPE, MASE, MSIS and coverage of one series, of the steps that were observed."""
    seen = actual.notna().to_numpy()
    a, median = actual.to_numpy()[seen], ahead.median.to_numpy()[seen]
    lower, upper = ahead.interval(COVERAGE).to_numpy()[seen].T
    scale = scores.naive_scale(y, period)
    return {
        "smape": float(np.mean(scores.smape(a, median))),
        "mase": float(np.mean(np.abs(a - median)) / scale),
        "msis": float(np.mean(scores.interval_score(a, lower, upper, COVERAGE)) / scale),
        "coverage": float(np.mean(scores.coverage(a, lower, upper))),
    }


def naive(y: pd.Series, actual: pd.Series, period: int, season: int) -> dict[str, float]:
    """Scores of the value a season ago; NaN for a series too short for a baseline's errors."""
    if len(y) < max(10, 2 * season):
        return dict.fromkeys(("smape", "mase", "msis", "coverage"), np.nan)
    ahead = baselines.SeasonalNaive(season).fit(y.ffill()).forecast(len(actual))
    return scored(actual, y, ahead, period)


def evaluate(rows: pd.DataFrame) -> dict[str, object]:
    """Scores of the default forecaster, of seasonal naive and the last value, and its seconds."""
    y, actual = split(rows)
    freq = rows["freq"].iloc[0]
    _, period = FREQUENCIES[freq]
    started = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ahead = Forecaster().fit(y).forecast(len(actual))
    seconds = time.process_time() - started
    contenders = {
        "": scored(actual, y, ahead, period),
        "naive_": naive(y, actual, period, period),
        "last_": naive(y, actual, period, 1),
    }
    scores_of_all = {
        f"{prefix}{name}": value
        for prefix, result in contenders.items()
        for name, value in result.items()
    }
    return {"unique_id": y.name, "freq": freq, "n": len(y), **scores_of_all, "seconds": seconds}


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Mean scores by frequency, and the worst MSIS of a series."""
    lines = []
    for freq, part in results.groupby("freq", sort=False):
        for prefix, model in MODELS.items():
            lines.append(
                {
                    "freq": freq,
                    "series": len(part),
                    "model": model,
                    "sMAPE": part[f"{prefix}smape"].mean(),
                    "MASE": part[f"{prefix}mase"].mean(),
                    "MSIS": part[f"{prefix}msis"].mean(),
                    "coverage": part[f"{prefix}coverage"].mean(),
                    "worst MSIS": part[f"{prefix}msis"].max(),
                    "worst over naive": (part["msis"] / part["naive_msis"]).max()
                    if not prefix
                    else np.nan,
                    "s a series": part["seconds"].mean() if not prefix else np.nan,
                }
            )
    return pd.DataFrame(lines)


def below_the_floor(results: pd.DataFrame) -> pd.DataFrame:
    """Series with more than five times the MSIS of seasonal naive, the worst first."""
    ratio = results["msis"] / results["naive_msis"]
    names = ["unique_id", "freq", "n", "mase", "naive_mase", "msis", "naive_msis"]
    worst = results[names].assign(ratio=ratio)[ratio > FLOOR]
    return worst.sort_values("ratio", ascending=False)


def main() -> None:
    """Read the file, forecast every series, write a line a series, print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="CSV file, may be compressed")
    parser.add_argument("--limit", type=int, help="first so many series of each frequency")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    parser.add_argument("--output", type=Path, help="CSV file for the scores of each series")
    arguments = parser.parse_args()

    data = pd.read_csv(arguments.data)
    groups = [
        rows
        for _, part in data.groupby("freq", sort=False)
        for rows in [g for _, g in part.groupby("unique_id", sort=False)][: arguments.limit]
    ]
    done = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(evaluate)(rows) for rows in groups
    )
    results = pd.DataFrame(list(tqdm(done, total=len(groups), desc="series")))
    output = arguments.output or Path(arguments.data.name.split(".")[0] + "_scores.csv")
    results.to_csv(output, index=False)
    print(table(results).round(3).to_string(index=False))
    worst = below_the_floor(results)
    print(f"{len(worst)} series with more than {FLOOR} times the MSIS of seasonal naive")
    if len(worst):
        print(worst.round(2).to_string(index=False))


if __name__ == "__main__":
    main()
