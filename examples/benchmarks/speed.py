"""Seconds of the default call over those of statsforecast's automatic models, on one core.

    make bench

Fit, forecast and the 95 % interval of one series, the best of a few rounds, both in one process.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster

ROUNDS = 3


def series(n: int, freq: str, periods: tuple[int, ...]) -> pd.Series:
    """A random walk in noise, with waves of the periods."""
    rng, t = np.random.default_rng(n), np.arange(n)
    waves = sum(10 / k * np.sin(2 * np.pi * t / m) for k, m in enumerate(periods, start=1))
    values = 200 + waves + 0.5 * rng.standard_normal(n).cumsum() + rng.standard_normal(n)
    return pd.Series(values, index=pd.date_range("2000-01-01", periods=n, freq=freq))


def ours(y: pd.Series, steps: int) -> None:
    Forecaster().fit(y).forecast(steps).interval(0.95)


def of(name: str, **settings: object) -> Callable[[pd.Series, int], None]:
    """A model of statsforecast: by AutoARIMA on the remainder if it is MSTL."""

    def run(y: pd.Series, steps: int) -> None:
        from statsforecast import models

        own = {"trend_forecaster": models.AutoARIMA()} if name == "MSTL" else {}
        model = getattr(models, name)(**settings, **own)
        model.forecast(y=y.to_numpy(), h=steps, level=[95])

    return run


CASES = {
    "50 years, AutoETS": (series(50, "YS", ()), 6, of("AutoETS", season_length=1)),
    "150 months, AutoARIMA": (
        series(150, "MS", (12,)),
        18,
        of("AutoARIMA", season_length=12),
    ),
    "1,000 hours, MSTL + AutoARIMA": (
        series(1000, "h", (24, 168)),
        48,
        of("MSTL", season_length=[24, 168]),
    ),
    "4,000 half hours, MSTL + AutoARIMA": (
        series(4000, "30min", (48, 336)),
        48,
        of("MSTL", season_length=[48, 336]),
    ),
}


def seconds(run: Callable[[pd.Series, int], None], y: pd.Series, steps: int) -> float:
    run(y, steps)  # compiles
    best = np.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(y, steps)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print("| series, peer | ours, s | peer, s | ratio |\n|---|---:|---:|---:|")
    with threadpool_limits(1):
        for name, (y, steps, peer) in CASES.items():
            own, other = (seconds(run, y, steps) for run in (ours, peer))
            print(f"| {name} | {own:.3g} | {other:.3g} | {own / other:.2g} |")


if __name__ == "__main__":
    main()
