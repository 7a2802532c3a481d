"""Every ratio of speed that was promised, measured in one process on one core, in one table.

    make bench
    python examples/benchmarks/promises.py --write docs/benchmarks/index.md

Best of a few rounds each. What needs a peer that is not installed is left out, and said so.
"""

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import evidence
import exact_step
import fit
import forecast
import numpy as np
import rvm
import speed
from scipy.linalg.blas import dgemm
from threadpoolctl import threadpool_limits

from forecast_unc import ReducedRankGPRegressor
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.gaussian import propagate
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel, Past

START, END = "<!-- promises -->\n", "<!-- end of promises -->\n"
Row = tuple[str, str, float]  # what over what, the promise, measured


def best(run: Callable[[], object], rounds: int = 3) -> float:
    """Least seconds."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def installed(*names: str) -> bool:
    """Whether all of these can be imported."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"left out: {', '.join(missing)} not installed", file=sys.stderr)
    return not missing


def mathematics() -> Iterator[Row]:
    """Evidence, exact step and exact steps beside their floors and sample paths."""
    X, y = evidence.problem(2000)
    made = {"floor": evidence.Floor(X, y), "ours": evidence.Ours(X, y)}
    times = {name: np.min(found) for name, found in evidence.timed(made, 5).items()}
    yield (
        "log evidence and gradient, 2,000 rows, over LAPACK's potrf + potri",
        "1.3",
        times["ours"] / times["floor"],
    )
    model, _, _, m, S = exact_step.problem(2000)
    runs = {"ours": lambda: model.predict_uncertain(m, S), "floor": exact_step.floor(2000)}
    runs["ours"]()
    times = {name: found.min() for name, found in exact_step.timed(runs, 20).items()}
    yield (
        "exact step, 2,000 rows, over exp + product",
        "1.5",
        times["ours"] / times["floor"],
    )
    posterior, history = forecast.problem(1000)
    own = {f.name: getattr(posterior, f.name) for f in fields(posterior)}
    n, one = len(history), forecast.Conditioned(**own)
    past = Past(history, np.zeros(n), np.empty((n, 0)), np.ones(n, dtype=bool))

    def steps(kind: str) -> None:
        at = OneStepModel(one, forecast.LAGS, Differencing((), 0.0, 1.0))
        propagate(at, past, Future(np.empty((100, 0))), Method(kind, True, 1000, 0))

    exact, paths = best(lambda: steps("exact")), best(lambda: steps("monte_carlo"), 1)
    yield (
        "1,000 paths that condition on their past over 100 exact steps",
        "15 or more",
        paths / exact,
    )


def fits() -> Iterator[Row]:
    """Fits beside other libraries, and their growth."""

    def nothing(value: float) -> None:
        """What records evaluations elsewhere."""

    X, y = fit.problem(500)
    own = best(lambda: fit.forecast_unc(X, y, nothing), 2)
    yield (
        "scikit-learn's fit over ours, 500 rows",
        "10 or more",
        best(lambda: fit.scikit_learn(X, y, nothing), 1) / own,
    )
    if installed("torch", "gpytorch"):
        fit.THREADS = 1
        fit.gpytorch(X[:20], y[:20], nothing)
        other = best(lambda: fit.gpytorch(X, y, nothing), 1)
        yield "GPyTorch's fit over ours, 500 rows", "3 or more", other / own
    if installed("fastrvm"):
        X, y, lengthscales = rvm.mackey_glass(3000, np.random.default_rng(0))
        X, y = X[:3000], y[:3000] - y[:3000].mean()
        own, other = (
            best(lambda one=one: one(X, y, lengthscales)) for one in (rvm.fit_ours, rvm.fit_fastrvm)
        )
        yield "relevance vector machine over fastrvm (C++), 3,000 rows", "0.5", own / other
    rng, seconds = np.random.default_rng(0), []
    for n in (10_000, 100_000):
        X = rng.standard_normal((n + 5000, 4))
        y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n + 5000)
        model = ReducedRankGPRegressor(n_support=100, random_state=0).fit(X[n:], y[n:])
        seconds.append(best(lambda model=model, X=X[:n], y=y[:n]: model.condition(X, y), 3))
    yield "reduced rank, 100,000 rows over 10,000", "11", seconds[1] / seconds[0]


def defaults() -> Iterator[Row]:
    """Default calls beside automatic models."""
    goals = dict(zip(speed.CASES, ("4", "0.1", "1", "1"), strict=True))
    if installed("statsforecast"):
        for name, (y, steps, peer) in speed.CASES.items():
            own, other = (speed.seconds(run, y, steps) for run in (speed.ours, peer))
            yield f"default call over the peer, {name}", goals[name], own / other


def package() -> Iterator[Row]:
    """Seconds of imports, each by its own interpreter."""
    bare, first, whole = (
        best(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True), 5)
        for code in (
            "import pandas, sklearn.base",
            "import forecast_unc",
            "from forecast_unc import Forecaster",
        )
    )
    yield "seconds of the import", "0.5", first
    yield "import of Forecaster over that of pandas and sklearn.base", "", whole / bare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="page with the marks of the table")
    path = parser.parse_args().write
    lines = ["| | promised | measured |", "|---|---:|---:|"]
    with threadpool_limits(1):
        square = np.asfortranarray(np.random.default_rng(0).standard_normal((1000, 1000)))
        rate = 2e-9 * 1000**3 / best(lambda: dgemm(1.0, square, square))
        for part in (mathematics, fits, defaults, package):
            for name, promised, measured in part():
                lines.append(f"| {name} | {promised} | {measured:.2g} |")
                print(lines[-1], flush=True)
    floor = f"One core, at {rate:.0f} GFLOP/s in products of 1,000 x 1,000 numbers."
    print(floor)
    if path is not None:
        before, rest = path.read_text().split(START)
        table = "\n".join([*lines, "", floor])
        path.write_text(f"{before}{START}\n{table}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
