"""Panels: throughput of two jobs and of two Dask workers, and what failures cost.

    python examples/benchmarks/panel.py --data m4_hourly.csv.gz
    python examples/benchmarks/panel.py            # the failures alone, on simulated series

The file has the columns unique_id, freq, t, y, is_test; some of its series, evenly spread over it,
are forecast 48 hours ahead with the default forecaster: in this process, by two jobs of joblib, and
by two workers of Dask, in turns, the workers started and warm. On a busy machine look at the
processor seconds: two free cores do 2 / (processor s over serial) times the work of one.

Then 1000 random walks by the month, of which one is garbage and one kills the worker that has it
the first time: 999 are forecast.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import parallel_config

from forecast_unc import Forecaster, baselines, forecast_panel

STEPS = 48


def hourly(path, n_series):
    """The training parts of some series of the file, on hours from one start."""
    data = pd.read_csv(path)
    data = data[data["is_test"] == 0]
    ids = data["unique_id"].unique()
    ids = ids[np.linspace(0, len(ids) - 1, n_series).astype(int)]
    data = data[data["unique_id"].isin(ids)].reset_index(drop=True)
    data["ds"] = pd.Timestamp("1970-01-01") + pd.to_timedelta(data["t"] - 1, unit="h")
    return data[["unique_id", "ds", "y"]].astype({"y": float})


def processor_seconds():
    """Of this process and all that it started."""
    import psutil  # Dask needs it

    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def throughput(panel, n_series, repeats):
    """Seconds of the three ways, in turns, and the ratios of their throughput."""
    # imported here, so that --help needs no Dask
    from distributed import Client, LocalCluster

    warm = panel[panel["unique_id"].isin(panel["unique_id"].unique()[:2])].groupby("unique_id")
    warm = warm.tail(60)
    ways = {
        "serial": nullcontext,
        "2 jobs": lambda: parallel_config(backend="loky", n_jobs=2),
        "2 Dask workers": lambda: parallel_config(backend="dask"),
    }
    taken, processor = {name: [] for name in ways}, {name: [] for name in ways}
    results = {}
    with ExitStack() as stack:
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        stack.enter_context(cluster)
        stack.enter_context(Client(cluster))
        for name, way in ways.items():
            with way():
                began = time.perf_counter()
                forecast_panel(warm, Forecaster(), 2)
                print(f"{name}: first call {time.perf_counter() - began:.1f} s", flush=True)
        for _ in range(repeats):
            for name, way in ways.items():
                with way():
                    began, before = time.perf_counter(), processor_seconds()
                    result = forecast_panel(panel, Forecaster(), STEPS)
                    taken[name].append(time.perf_counter() - began)
                    processor[name].append(processor_seconds() - before)
                results.setdefault(name, result)
                print(f"{name}: {taken[name][-1]:.1f} s", flush=True)
    for name in ways:
        pd.testing.assert_frame_equal(results[name], results["serial"], check_exact=True)
    print(f"\n{n_series} series, medians of {repeats}; load now {os.getloadavg()[0]:.1f}\n")
    print("| | s | processor s | throughput over serial | processor s over serial |")
    print("|---|---:|---:|---:|---:|")
    for name in ways:
        row = [np.median(taken[name]), np.median(processor[name])]
        row.append(np.median(np.divide(taken["serial"], taken[name])))
        row.append(np.median(np.divide(processor[name], processor["serial"])))
        print(f"| {name} | {row[0]:.1f} | {row[1]:.1f} | {row[2]:.2f} | {row[3]:.2f} |")
    print("\nThe figures are the same, to the last bit.")


class Walk(baselines.SeasonalNaive):
    """Kills its own process for one series, the first time."""

    def __init__(self, marker=None, seasonal_period=None):
        super().__init__(seasonal_period)
        self.marker = marker

    def fit(self, y, exog=None):
        marker = Path(self.marker)
        if y.name == "s0500" and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(y, exog)


def failures(n_series):
    """Forecasts of simulated series, one of them infinite, one deadly for the first worker."""
    rng = np.random.default_rng(0)
    panel = pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i:04d}" for i in range(n_series)], 48),
            "ds": np.tile(pd.date_range("2020-01-01", periods=48, freq="MS"), n_series),
            "y": rng.standard_normal((n_series, 48)).cumsum(axis=1).ravel(),
        }
    )
    panel.loc[panel["unique_id"] == "s0123", "y"] = np.inf
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        result = forecast_panel(panel, Walk(f"{folder}/killed"), 12, n_jobs=2)
        seconds = time.perf_counter() - began
        killed = Path(folder, "killed").exists()
    done = result[result["error"].isna()]["unique_id"].nunique()
    print(
        f"\n{done} of {n_series} series forecast in {seconds:.0f} s; a worker was killed: {killed}"
    )
    print(*(f"{one.category.__name__}: {one.message}" for one in caught), sep="\n")
    whole = forecast_panel(panel[panel["unique_id"] != "s0123"], baselines.SeasonalNaive(), 12)
    ours = result[result["error"].isna()].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, whole, check_exact=True)
    print("The others are those of a serial run without the two, to the last bit.")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="4 series, one repeat; 600 simulated")
    parser.add_argument("--data", type=Path, help="CSV file, may be compressed")
    parser.add_argument("--series", type=int, default=24, help="so many of its series")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    n_series, repeats = (4, 1) if arguments.quick else (arguments.series, arguments.repeats)
    if arguments.data is not None:
        throughput(hourly(arguments.data, n_series), n_series, repeats)
    failures(600 if arguments.quick else 1000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
