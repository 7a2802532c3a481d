"""How far default forecasts of the bundled series differ between processors.

`Forecaster().fit(y).forecast(h)` in a process of its own on each machine that tests/cpus.py can
simulate here; then the largest movement of the mean and of an end of the 95 % interval between any
two of one thread, and between one thread and two, in standard deviations of the step.

    python examples/benchmarks/kernels.py
    python examples/benchmarks/kernels.py --quick   # the two shortest series
"""

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from forecast_unc import Forecaster, datasets

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.cpus import MACHINES, environment, obstacle

# Steps ahead: two years of the monthly and quarterly series, three months of the weekly one.
STEPS = {"nile": 10, "us_gdp": 8, "sunspots": 22, "elnino": 24, "co2": 13}


def forecasts(names):
    """Stds, means and ends of the intervals of the series, as lists."""
    found = {}
    for name in names:
        forecast = Forecaster().fit(getattr(datasets, f"load_{name}")()).forecast(STEPS[name])
        band = forecast.interval(0.95).to_numpy().T
        found[name] = np.vstack([forecast.std, forecast.mean, band]).tolist()
    return found


def on(machine, names):
    """`forecasts` of a process on a simulated machine."""
    command = [sys.executable, __file__, "--series", *names, "--json"]
    done = subprocess.run(
        command, env=environment(machine), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def movement(one, other):
    """Largest differences of the mean and of the interval's ends, in stds."""
    one, other = np.array(one), np.array(other)
    moved = np.abs(one - other)[1:] / one[0]
    return moved[0].max(), moved[1:].max()


def largest(pairs, name):
    moved = [movement(one[name], other[name]) for one, other in pairs]
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
    for machine in MACHINES:
        if reason := obstacle(machine):
            print(f"{machine.name}: {reason}")
        else:
            runs[machine] = on(machine, names)
    pairs = list(itertools.combinations([runs[m] for m in runs if m.threads == 1], 2))
    by_threads = [(runs[MACHINES[0]], runs[m]) for m in runs if m.threads == 2]
    print("\n|  |  | between machines |  | between 1 and 2 threads |  |")
    print("|---|---:|---:|---:|---:|---:|")
    print("| series | steps | mean | 95 % interval | mean | 95 % interval |")
    for name in names:
        print(f"| {name} | {STEPS[name]} | {largest(pairs, name)} | {largest(by_threads, name)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
