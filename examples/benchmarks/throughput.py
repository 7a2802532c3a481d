"""Items of a panel a second and core, beside automatic models of statsforecast in one process.

    make bench
    python examples/benchmarks/throughput.py --items 5000 --output DIRECTORY

The second takes so many items of 45 months with many zeros, writes their forecasts in parts, and
says how much memory it took.
"""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from speed import of
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, forecast_panel


def intermittent(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.poisson(2.0, n) * (rng.random(n) < 0.3) * 1.0


def seasonal(period: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Walks in noise with a season."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        wave = 8 * np.sin(2 * np.pi * (np.arange(n) / period + rng.random()))
        return 100 + wave + rng.standard_normal(n).cumsum() + 2 * rng.standard_normal(n)

    return make


# values, frequency, period, steps, items, how they are made
CASES = {
    "45 months, 70 % zeros": (45, "MS", 12, 6, 60, intermittent),
    "45 months": (45, "MS", 12, 12, 40, seasonal(12)),
    "150 weeks": (150, "W", 52, 8, 12, seasonal(52)),
    "700 days": (700, "D", 7, 28, 8, seasonal(7)),
}
PEERS = ("AutoETS", "AutoARIMA")


def panel(n: int, freq: str, items: int, make: Callable[..., np.ndarray]) -> pd.DataFrame:
    rng, times = np.random.default_rng(0), pd.date_range("2010-01-01", periods=n, freq=freq)
    values = np.concatenate([make(rng, n) for _ in range(items)])
    ids = np.repeat([f"item {i}" for i in range(items)], n)
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(times, items), "y": values})


def rates(case: str) -> list[float]:
    """Items a second: ours, and those of the peers."""
    n, freq, period, steps, items, make = CASES[case]
    frame = panel(n, freq, items, make)
    forecast_panel(frame[: 2 * n], Forecaster(), steps)  # imports
    start = time.perf_counter()
    forecast_panel(frame, Forecaster(), steps)
    found = [items / (time.perf_counter() - start)]
    series = [y for _, y in frame.groupby("unique_id")["y"]]
    for name in PEERS:
        peer = of(name, season_length=period)
        peer(series[0], steps)  # compiles
        start = time.perf_counter()
        for y in series:
            peer(y, steps)
        found.append(items / (time.perf_counter() - start))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int)
    parser.add_argument("--output")
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.items:
            n, freq, _, steps, _, make = CASES["45 months, 70 % zeros"]
            frame, start = panel(n, freq, options.items, make), time.perf_counter()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            forecast_panel(frame, Forecaster(), steps, output=options.output)
            seconds = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            rate, more = options.items / seconds, (after - before) / 1024
            print(f"{options.items} items, {rate:.1f} a second, {more:.0f} MB above the frame's")
            return
        print("| items a second | forecast_unc | " + " | ".join(PEERS) + " |\n|---|" + "---:|" * 3)
        for case in CASES:
            print(f"| {case} | " + " | ".join(f"{rate:.3g}" for rate in rates(case)) + " |")


if __name__ == "__main__":
    main()
