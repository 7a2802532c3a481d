"""How far default forecasts of the bundled series differ between processors.

OpenBLAS holds a set of kernels for each kind of processor, which round differently; one processor
can run those of its elders. Under each set `Forecaster().fit(y).forecast(h)` in a process of its
own; then the largest movement of the mean and of an end of the 95 % band between any two sets, and
between one thread and two, in standard deviations of the step.

    python examples/benchmarks/kernels.py
    python examples/benchmarks/kernels.py --quick   # the two shortest series
"""

import argparse
import itertools
import json
import os
import subprocess
import sys

import numpy as np
from threadpoolctl import threadpool_info

from forecast_unc import Forecaster, datasets

KERNELS = ("SkylakeX", "Haswell", "Sandybridge", "Nehalem", "Prescott")
# Steps ahead: two years of the monthly and quarterly series, three months of the weekly one.
STEPS = {"nile": 10, "us_gdp": 8, "sunspots": 22, "elnino": 24, "co2": 13}


def forecasts(names):
    """Means, stds and bands of the series as lists, and the kernels that were used."""
    found = {}
    for name in names:
        forecast = Forecaster().fit(getattr(datasets, f"load_{name}")()).forecast(STEPS[name])
        band = forecast.interval(0.95).to_numpy().T
        found[name] = np.vstack([forecast.std, forecast.mean, band]).tolist()
    used = {info.get("architecture") for info in threadpool_info() if info["user_api"] == "blas"}
    return {"kernels": "+".join(sorted(map(str, used))), "forecasts": found}


def elsewhere(kernels, threads, names):
    """`forecasts` of a process with this environment, or None where it cannot run."""
    changed = {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, __file__, "--series", *names, "--json"],
        env={**os.environ, **changed},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def movement(one, other):
    """Largest differences of the mean and of the band's ends, in stds."""
    one, other = np.array(one), np.array(other)
    moved = np.abs(one - other)[1:] / one[0]
    return moved[0].max(), moved[1:].max()


def largest(pairs, name):
    moved = [movement(a["forecasts"][name], b["forecasts"][name]) for a, b in pairs]
    return " | ".join(f"{value:.0e}" for value in np.max(moved, axis=0))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the two shortest series")
    parser.add_argument("--series", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--json", action="store_true", help="the forecasts of this process alone")
    arguments = parser.parse_args()
    names = arguments.series[:2] if arguments.quick else arguments.series
    if arguments.json:
        print(json.dumps(forecasts(names)))
        return 0
    runs = {}
    for kernels in KERNELS:
        run = elsewhere(kernels, 1, names)
        if run is None or run["kernels"] in runs:  # unknown to this OpenBLAS: it took others
            print(f"{kernels}: cannot be run here")
        else:
            runs[run["kernels"]] = run
            print(f"{kernels}: ran as {run['kernels']}")
    pairs = list(itertools.combinations(runs.values(), 2))
    by_threads = [(elsewhere(kernels, 2, names), runs[kernels]) for kernels in list(runs)[:1]]
    print("\n|  |  | between kernel sets |  | between 1 and 2 threads |  |")
    print("|---|---:|---:|---:|---:|---:|")
    print("| series | steps | mean | 95 % band | mean | 95 % band |")
    for name in names:
        print(f"| {name} | {STEPS[name]} | {largest(pairs, name)} | {largest(by_threads, name)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
