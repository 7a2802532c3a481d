"""A fit on one BLAS thread and on all, on the machine as it is and with other processes busy.

A Gaussian process on 8 lags of a noisy sine. The limit that a fit sets itself is lifted here: this
is where its size comes from. BLAS threads wait for each other at the end of every product; one that
another process keeps from its core holds up all, for a time slice of the scheduler.

    python examples/benchmarks/threads.py
    python examples/benchmarks/threads.py --quick   # a small version
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from forecast_unc import GPRegressor, _threads
from forecast_unc.series.rows import lag_embedding

LAGS = tuple(range(1, 9))


def problem(n):
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(n + max(LAGS)) / 7) + 0.1 * rng.standard_normal(n + max(LAGS))
    return lag_embedding(series, LAGS, np.empty((len(series), 0)))


@contextlib.contextmanager
def busy(number):
    """So many processes that do nothing but compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def seconds(n, threads):
    X, y = problem(n)
    with threadpool_limits(threads, user_api="blas"):
        began = time.perf_counter()
        GPRegressor().fit(X, y)
        return time.perf_counter() - began


def row(n, threads, others, repeats):
    """Median seconds on one thread and on all, with nothing and with others beside; in turns."""
    taken = {}
    for _ in range(repeats):
        for number in (0, others):
            with busy(number):
                for each in (1, threads):
                    taken.setdefault((number, each), []).append(seconds(n, each))
    one, more, one_busy, more_busy = (float(np.median(values)) for values in taken.values())
    return (
        f"| {n} | {one:.2f} | {more:.2f} | {more / one:.1f} "
        f"| {one_busy:.2f} | {more_busy:.2f} | {more_busy / one_busy:.1f} |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="250 rows, one repeat")
    parser.add_argument("--rows", type=int, nargs="+", default=[250, 1000, 2000])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="all cores by default")
    parser.add_argument("--busy", type=int, default=1, help="processes that compute beside")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows, repeats = ([250], 1) if arguments.quick else (arguments.rows, arguments.repeats)
    _threads.MANY_ROWS = 0
    seconds(50, 1)  # loads what is loaded at the first use
    print(f"Seconds of a fit, medians of {repeats}; load before it {os.getloadavg()[0]:.1f}.\n")
    print("|  | alone |  |  | beside busy processes |  |  |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    print(f"| rows | 1 thread | {arguments.threads} threads | ratio | 1 thread | ", end="")
    print(f"{arguments.threads} threads | ratio |")
    for n in rows:
        print(row(n, arguments.threads, arguments.busy, repeats), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
