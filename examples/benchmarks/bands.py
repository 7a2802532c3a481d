"""How often the bands of one default call hold what follows: steps and their sum.

    python examples/benchmarks/bands.py --data m3.csv.gz --jobs 2
    python examples/benchmarks/bands.py --data m3.csv.gz --part train
    python examples/benchmarks/bands.py --simulate 100 --jobs 2

Data: a file as for m4.py, or one with the columns unique_id and y alone, of which the last
``--steps`` values of each series are forecast. ``--part train`` forecasts the last values of the
training part instead, on which rules are chosen. Simulated: fifteen processes, 48 and 120 months to
learn from, twelve to forecast. Beside the calibrated default stands the same with calibrate=False.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from m4 import FREQUENCIES, split
from scipy import special  # a ufunc of __main__ is not found in a worker
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecast, Forecaster, scores

COVERAGES = (0.5, 0.8, 0.95)
STEPS, BURN_IN = 12, 200


def linear(rng: np.random.Generator, n: int, ar: tuple[float, ...]) -> np.ndarray:
    """An autoregression with normal noise, past its start."""
    noise, y = rng.standard_normal(n + BURN_IN), np.zeros(n + BURN_IN)
    for t in range(len(ar), len(y)):
        y[t] = noise[t] + sum(phi * y[t - lag] for lag, phi in enumerate(ar, start=1))
    return y[BURN_IN:]


def moving_average(rng: np.random.Generator, n: int, theta: float) -> np.ndarray:
    """A moving average of normal noise."""
    noise = rng.standard_normal(n + 1)
    return noise[1:] + theta * noise[:-1]


def garch(rng: np.random.Generator, n: int) -> np.ndarray:
    """GARCH(1, 1): the variance is .05 + .1 y^2 + .85 of itself."""
    y, var = np.zeros(n + BURN_IN), 1.0
    for t in range(1, len(y)):
        var = 0.05 + 0.1 * y[t - 1] ** 2 + 0.85 * var
        y[t] = np.sqrt(var) * rng.standard_normal()
    return y[BURN_IN:]


def shifts(rng: np.random.Generator, n: int) -> np.ndarray:
    """Noise on a level that jumps at 3 % of the times, by a std of 5."""
    return np.cumsum((rng.random(n) < 0.03) * rng.normal(0, 5, n)) + rng.standard_normal(n)


def logistic(rng: np.random.Generator, n: int) -> np.ndarray:
    """The logistic map at 3.9, observed with a noise of .001."""
    x = [rng.uniform(0.1, 0.9)]
    while len(x) <= n + BURN_IN:
        x.append(3.9 * x[-1] * (1.0 - x[-1]))
    return np.array(x[-n:]) + 1e-3 * rng.standard_normal(n)


def airline(rng: np.random.Generator, n: int) -> np.ndarray:
    """SARIMA(0, 1, 1)(0, 1, 1)12 with moving averages .4 and .6."""
    e, y = rng.standard_normal(n + 13), np.zeros(n + 13)
    for t in range(13, n + 13):
        noise = e[t] - 0.4 * e[t - 1] - 0.6 * e[t - 12] + 0.24 * e[t - 13]
        y[t] = y[t - 1] + y[t - 12] - y[t - 13] + noise
    return y[13:]


def wave(rng: np.random.Generator, n: int) -> np.ndarray:
    """A sine of 12 months."""
    return np.sin(2 * np.pi * np.arange(n) / 12 + rng.uniform(0, 2 * np.pi))


PROCESSES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "AR(1) .7": lambda rng, n: linear(rng, n, (0.7,)),
    "AR(1) .95": lambda rng, n: linear(rng, n, (0.95,)),
    "AR(2), cycle of 9": lambda rng, n: linear(rng, n, (1.8 * np.cos(2 * np.pi / 9), -0.81)),
    "white noise": lambda rng, n: rng.standard_normal(n),
    "MA(1) .8": lambda rng, n: moving_average(rng, n, 0.8),
    "IMA(1, 1) -.8": lambda rng, n: np.cumsum(moving_average(rng, n, -0.8)),
    "walk with drift .5": lambda rng, n: np.cumsum(0.5 + rng.standard_normal(n)),
    "walk with t3 shocks": lambda rng, n: np.cumsum(rng.standard_t(3, n)),
    "GARCH(1, 1)": garch,
    "level shifts": shifts,
    "logistic map": logistic,
    "airline": airline,
    "sine plus noise": lambda rng, n: 2.0 * wave(rng, n) + rng.standard_normal(n),
    "positive, seasonal": lambda rng, n: np.exp(
        4 + 0.045 * np.cumsum(rng.standard_normal(n)) + 0.4 * wave(rng, n) + rng.normal(0, 0.1, n)
    ),
    "ARIMA(1, 1, 0) .5": lambda rng, n: np.cumsum(linear(rng, n, (0.5,))),
}


def simulated(name: str, n: int, number: int) -> tuple[pd.Series, pd.Series]:
    """Training part and future of a simulated series."""
    rng = np.random.default_rng([list(PROCESSES).index(name), n, number])
    index = pd.period_range("1990-01", periods=n + STEPS, freq="M")
    y = pd.Series(PROCESSES[name](rng, n + STEPS), index)
    return y[:n], y[n:]


def judged(ahead: Forecast, actual: pd.Series, scale: float) -> dict[str, float]:
    """Coverages of the steps and of their sum, MSIS, and the sum's normal score."""
    a, found = actual.to_numpy(), {}
    for coverage in COVERAGES:
        lower, upper = ahead.interval(coverage).to_numpy().T
        inside = np.where(np.isnan(a), np.nan, (lower <= a) & (a <= upper))
        found[f"{coverage:.0%}"] = float(np.nanmean(inside))
        if coverage == COVERAGES[-1]:
            found["MSIS"] = float(np.nanmean(scores.interval_score(a, lower, upper, 0.95)) / scale)
    found["MASE"] = float(np.nanmean(np.abs(a - ahead.median.to_numpy())) / scale)
    pit = np.nan
    if not np.isnan(a).any():
        total = ahead.aggregate("sum")
        pit = total.score(pd.Series([a.sum()], total.index))["pit"].item()
    for coverage in COVERAGES[1:]:
        found[f"sum {coverage:.0%}"] = float(abs(2 * pit - 1) <= coverage) if pit == pit else np.nan
    found["sum z2"] = float(np.clip(special.ndtri(pit), -5, 5)) ** 2
    return found


def evaluate(group: str, y: pd.Series, actual: pd.Series, period: int) -> list[dict[str, object]]:
    """What the default call says of one series, calibrated and not."""
    lines = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for calibrate in (False, "auto"):
            ahead = Forecaster(calibrate=calibrate).fit(y).forecast(len(actual))
            scale = scores.naive_scale(y, period if len(y) > period else 1)
            kind = "calibrated" if calibrate else "not"
            lines.append({"group": group, "bands": kind, **judged(ahead, actual, scale)})
    return lines


def series_of(arguments: argparse.Namespace) -> list[tuple[str, pd.Series, pd.Series, int]]:
    """Name of the group, training part, future and season of each series of the file."""
    data, found = pd.read_csv(arguments.data), []
    if "is_test" not in data:
        place = data.groupby("unique_id").cumcount(ascending=False)
        data = data.assign(freq=arguments.freq, is_test=(place < arguments.steps).astype(int))
    for freq, part in data.groupby("freq", sort=False):
        for _, rows in list(part.groupby("unique_id", sort=False))[: arguments.limit]:
            y, actual = split(rows)
            if arguments.part == "train":
                steps = len(actual)
                if len(y) < max(steps + 12, 2 * steps):
                    continue
                y, actual = y.iloc[:-steps], y.iloc[-steps:]
            found.append((freq, y, actual, FREQUENCIES[freq][1]))
    return found


def main() -> None:
    """Forecast every series and print a line for each group."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="CSV file, may be compressed")
    source.add_argument("--simulate", type=int, help="so many series of each process and length")
    parser.add_argument("--part", choices=("test", "train"), default="test")
    parser.add_argument("--freq", choices=tuple(FREQUENCIES), default="Monthly")
    parser.add_argument("--steps", type=int, default=12, help="of a file without a test part")
    parser.add_argument("--limit", type=int, help="first so many series of each frequency")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one BLAS thread each")
    arguments = parser.parse_args()
    if arguments.data:
        jobs = series_of(arguments)
    else:
        jobs = [
            (f"{name}, {n}", *simulated(name, n, number), 12)
            for name in PROCESSES
            for n in (48, 120)
            for number in range(arguments.simulate)
        ]
    done = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(evaluate)(*job) for job in jobs
    )
    lines = pd.DataFrame([line for lines in tqdm(done, total=len(jobs)) for line in lines])
    table = lines.groupby(["group", "bands"], sort=False).mean()
    table["sum rms z"] = np.sqrt(table.pop("sum z2"))
    table["series"] = lines.groupby(["group", "bands"], sort=False).size()
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
