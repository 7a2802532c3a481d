"""The suite under the kernel sets of OpenBLAS, and on two threads: `make test-cpus`.

OpenBLAS holds a kernel set for each kind of processor, and the last digits of a matrix product
differ between them. One processor can run those of its elders, and so show what others would do.

    python tests/cpus.py                # all tests under all kernel sets, and on two threads
    python tests/cpus.py --numerical --kernels Haswell   # what .ci/run adds
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# From the newest processors to the oldest, each with the name it goes by in older builds.
KERNELS = {
    "SkylakeX": "SkylakeX",
    "Haswell": "Haswell",
    "Sandybridge": "Sandybridge",
    "Nehalem": "Nehalem",
    "Prescott": "Katmai",
}

# Not the numerical part of the suite: words, pictures, indices and files, where digits count for
# nothing, and the examples, which take long. New files are numerical until they are named here.
OTHER = [
    "backtest",
    "calendar",
    "choose",
    "cli",
    "cli_completion",
    "cli_options",
    "cli_page",
    "cli_reading",
    "cpus",
    "dask",
    "datasets",
    "docs",
    "exog",
    "export",
    "faults",
    "gift_eval",
    "history",
    "layering",
    "m4",
    "no_leak",
    "panel",
    "plot",
    "random",
    "report",
    "report_browser",
    "saving",
    "scores",
    "series",
    "significance",
    "sktime",
    "times",
]

PROBE = """
import numpy, threadpoolctl
from scipy.linalg import cho_factor
for size in (8, 200):
    X = numpy.ones((size, size)) + size * numpy.eye(size)
    cho_factor(X @ X)
print(*{each.get("architecture") for each in threadpoolctl.threadpool_info()
        if each["internal_api"] == "openblas"})
"""


def environment(kernels: str | None, threads: int) -> dict[str, str]:
    """The present one with so many BLAS threads and these kernels, or the processor's own."""
    changed = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    kept = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    return {**kept, **changed} | ({"OPENBLAS_CORETYPE": kernels} if kernels else {})


def obstacle(kernels: str) -> str | None:
    """Why a kernel set cannot be run here, or None if it can: found by computing with it."""
    probe = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment(kernels, 1),
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode:
        return f"this processor cannot run them (exit code {probe.returncode})"
    found = set(probe.stdout.split())
    if not found:
        return "NumPy and SciPy do not use OpenBLAS here"
    if not found <= {kernels, KERNELS.get(kernels)}:
        return f"not in this OpenBLAS, which takes {', '.join(sorted(found))} instead"
    return None


def passed(title: str, python: str, asked: list[str], given: dict[str, str]) -> bool:
    """Run pytest, print its closing line under a title and what failed; whether all passed."""
    command = [python, "-m", "pytest", "-q", *asked]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"]
    print(f"{title}: {lines[-1]}", flush=True)
    if done.returncode:
        told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        print(*(told or lines[-20:]), sep="\n", flush=True)
    return done.returncode == 0


def run(kernels: str | None, threads: int, numerical: bool) -> bool:
    """Run the tests under a kernel set; whether all passed."""
    workers = max(1, (os.cpu_count() or 1) // threads)
    left_out = [f"--ignore=tests/test_{name}.py" for name in OTHER] if numerical else []
    title = f"{(kernels or 'own kernels') + ',':13} {threads} thread{'s' * (threads > 1)}"
    asked = ["-n", str(workers), *left_out]
    return passed(title, sys.executable, asked, environment(kernels, threads))


def main() -> int:
    """Run what was asked for; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--numerical", action="store_true", help="only the numerical tests")
    parser.add_argument("--kernels", nargs="+", help="these, on one thread, and no run on two")
    arguments = parser.parse_args()
    all_passed = []
    for kernels in arguments.kernels or KERNELS:
        if reason := obstacle(kernels):
            print(f"{kernels + ',':13} skipped: {reason}", flush=True)
        else:
            all_passed.append(run(kernels, 1, arguments.numerical))
    if not arguments.kernels:
        all_passed.append(run(None, 2, arguments.numerical))
    return 0 if all(all_passed) else 1


if __name__ == "__main__":
    sys.exit(main())
