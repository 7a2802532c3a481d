"""The suite on other processors, which this one simulates: `make test-cpus`.

The last digits of a matrix product, of exp and of log depend on the processor: OpenBLAS has a
kernel set for each kind, NumPy and the C library have loops for AVX-512, for AVX2 with FMA, and for
neither. A processor can run what older ones run, and so show what would come out there.

    python tests/cpus.py                       # all tests on each machine of the table
    python tests/cpus.py --only Nehalem "two threads"
    python tests/cpus.py --other --numerical   # one machine that is not this one
    python tests/cpus.py --other --numerical --half 0  # what .ci/run adds: one half or the other
    python tests/cpus.py --deviations FOLDER   # and how much of its limit each comparison used
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from math import floor, log10
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MARGIN = 30.0  # limits of comparisons are so many times the largest deviation, or more

# Names that releases of NumPy give to these instructions; those that one dispatches are disabled.
AVX512 = ("X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX", "AVX512_CLX", "AVX512_CNL")
AVX512 += ("AVX512_ICL", "AVX512_SPR")
AVX2 = ("X86_V3", "FMA3", "AVX2")
# The C library has its own loops for exp, log, sin and pow.
LIBM = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"


class Machine(NamedTuple):
    """A processor: kernels of OpenBLAS, and instructions that NumPy and the C library lack."""

    name: str
    kernels: str | None = None  # None: the processor's own
    lacks: tuple[str, ...] = ()
    tunables: str = ""
    threads: int = 1


# From the newest processors to the oldest.
MACHINES = (
    Machine("this one"),
    Machine("two threads", threads=2),
    Machine("SkylakeX", "SkylakeX"),
    Machine("Haswell", "Haswell", AVX512),
    Machine("Sandybridge", "Sandybridge", AVX512 + AVX2, LIBM),
    Machine("Nehalem", "Nehalem", AVX512 + AVX2, LIBM),
    Machine("Prescott", "Prescott", AVX512 + AVX2, LIBM),
)
OLDER_NAMES = {"Prescott": "Katmai"}  # of kernels, in older builds of OpenBLAS

# Not the numerical part of the suite: words, pictures, indices and files, where digits count for
# nothing. New files are numerical until they are named here.
OTHER = [
    "calendar",
    "choose",
    "cli",
    "cli_completion",
    "cli_options",
    "cli_page",
    "cli_reading",
    "cpus",
    "dask",
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
    "series",
    "sktime",
    "times",
]

PROBE = """
import json, numpy, threadpoolctl
from scipy.linalg import cho_factor
try:
    from numpy._core import _multiarray_umath as of
except ImportError:
    from numpy.core import _multiarray_umath as of
for size in (8, 200):
    X = numpy.ones((size, size)) + size * numpy.eye(size)
    cho_factor(X @ X)
kernels = {each.get("architecture") for each in threadpoolctl.threadpool_info()
           if each["internal_api"] == "openblas"}
loops = [name for name in of.__cpu_dispatch__ if of.__cpu_features__.get(name)]
print(json.dumps({"kernels": sorted(map(str, kernels)), "loops": loops}))
"""


def environment(machine: Machine) -> dict[str, str]:
    """The present environment, changed to that of a machine."""
    changes = {name: str(machine.threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    # NumPy warns of names that it does not know or this processor does not have.
    lacking = [name for name in machine.lacks if name in loops_here()] if machine.lacks else []
    settings = {
        "OPENBLAS_CORETYPE": machine.kernels or "",
        "NPY_DISABLE_CPU_FEATURES": " ".join(lacking),
        "GLIBC_TUNABLES": machine.tunables,
    }
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    return kept | changes | {name: value for name, value in settings.items() if value}


@cache
def probe(machine: Machine) -> dict[str, list[str]] | int:
    """Kernels and loops that run on a machine, or the exit code if it cannot be simulated."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment(machine),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode or json.loads(done.stdout)


def loops_here() -> list[str]:
    """The instructions that this NumPy has loops for and this processor runs."""
    answer = probe(MACHINES[0])
    if isinstance(answer, int):
        raise RuntimeError(f"NumPy and SciPy do not run here: exit code {answer}")
    return answer["loops"]


def obstacle(machine: Machine) -> str | None:
    """Why a machine cannot be simulated here, or None if it can: found by computing with it."""
    answer = probe(machine)
    if isinstance(answer, int):
        return f"this processor cannot run its kernels (exit code {answer})"
    kernels = answer["kernels"]
    if not kernels:
        return "NumPy and SciPy do not use OpenBLAS here"
    named = {machine.kernels, OLDER_NAMES.get(machine.kernels or "")}
    if machine.kernels and not named >= {*kernels}:
        return f"not in this OpenBLAS, which takes {', '.join(kernels)} instead"
    if left := {*answer["loops"]} & {*machine.lacks}:
        return f"this NumPy cannot disable {', '.join(sorted(left))}"
    return None


def other_than_this() -> list[Machine]:
    """The newest machine that can be simulated and has other kernels and other loops, if any."""
    here = probe(MACHINES[0])
    for machine in MACHINES:
        there = probe(machine)
        if isinstance(here, int) or isinstance(there, int) or obstacle(machine):
            continue
        if all(here[part] != there[part] for part in ("kernels", "loops")):
            return [machine]
    print("no other processor can be simulated here", flush=True)
    return []


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


def run(
    machine: Machine, numerical: bool, half: int | None = None, deviations: Path | None = None
) -> bool:
    """Run the tests on a simulated machine; whether all passed."""
    workers = max(1, (os.cpu_count() or 1) // machine.threads)
    asked = ["-n", str(workers)]
    if half is not None:
        asked += ["--half", str(half)]
    given = environment(machine)
    if numerical:
        asked += [f"--ignore=tests/test_{name}.py" for name in OTHER]
    if deviations is not None:
        folder = (deviations / machine.name.replace(" ", "_")).resolve()
        asked += ["--deviations", str(folder), "-o", "enable_assertion_pass_hook=true"]
        given["PYTHONPYCACHEPREFIX"] = str(deviations.resolve() / "pycache")  # asserts as compiled
    demo = ["-m", "slow", "tests/test_demo.py"]
    suite = passed(f"{machine.name:12}", sys.executable, asked, given)
    return passed(f"{machine.name:12} demo", sys.executable, demo, given) and suite


def margins(folder: Path) -> dict[str, tuple[float, float, str]]:
    """Limit, largest share of it and where, of each comparison tighter than 1e-8, by its place."""
    largest: dict[str, tuple[float, float, str]] = {}
    for file in sorted(folder.glob("*/*.json")):
        for place, (limit, share) in json.loads(file.read_text()).items():
            if limit <= 1e-8 and share >= largest.get(place, (0.0, -1.0, ""))[1]:
                largest[place] = limit, share, file.parent.name
    return largest


def told(found: dict[str, tuple[float, float, str]]) -> Iterable[str]:
    """Lines of a table by the size of the limit, and the places without enough room."""
    yield "| limit | comparisons | largest share of it that was used |"
    yield "|---|---:|---:|"
    decades: dict[int | None, list[float]] = {}
    for limit, share, _ in found.values():
        decades.setdefault(floor(log10(limit)) if limit else None, []).append(share)
    exact = decades.pop(None, [])
    if exact:
        yield f"| none | {len(exact)} | {max(exact):.2g} |"
    for decade, shares in sorted(decades.items()):
        yield f"| 1e{decade} to 1e{decade + 1} | {len(shares)} | {max(shares):.2g} |"
    for place, (limit, share, machine) in sorted(found.items(), key=lambda one: -one[1][1]):
        if share > 1.0 / MARGIN:
            yield f"{place}: {limit:.1e}, of which {share:.2g} was used on {machine}"


def main() -> int:
    """Run what was asked for; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--numerical", action="store_true", help="only the tests that compare numbers"
    )
    parser.add_argument("--half", type=int, choices=(0, 1), help="every second test by its name")
    parser.add_argument("--only", nargs="+", help="these machines of the table")
    parser.add_argument("--other", action="store_true", help="one machine that is not this one")
    parser.add_argument("--deviations", type=Path, help="folder for the share of each limit used")
    arguments = parser.parse_args()
    machines = [one for one in MACHINES if one.name in (arguments.only or [one.name])]
    if arguments.other:
        machines = other_than_this()
    all_passed = []
    for machine in machines:
        if reason := obstacle(machine):
            print(f"{machine.name:12}: skipped: {reason}", flush=True)
        else:
            asked = arguments.numerical, arguments.half, arguments.deviations
            all_passed.append(run(machine, *asked))
    if arguments.deviations is not None:
        print(*told(margins(arguments.deviations)), sep="\n")
    return 0 if all(all_passed) else 1


if __name__ == "__main__":
    sys.exit(main())
