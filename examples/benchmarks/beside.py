"""Seconds of this tree over those of an earlier checkout, both in one run, on one thread.

Each job runs in a process of its own, the two trees in turn, and the best of several rounds counts:
what else the machine does hits both alike.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]


def best(call: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def default_call() -> float:
    from forecast_unc import Forecaster, datasets

    series = [datasets.load_elnino()[-150:], datasets.load_nile(), datasets.load_us_gdp()[-120:]]
    return best(lambda: [Forecaster().fit(y).forecast(12).interval(0.9) for y in series], 3)


def evidence() -> float:
    import numpy as np

    from forecast_unc import GPRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 6))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + rng.normal(0, 0.1, 250)
    return best(lambda: GPRegressor().fit(X, y), 3)


def exact_steps() -> float:
    from forecast_unc import Forecaster, datasets

    model = Forecaster(lags=12).fit(datasets.load_elnino()[-500:])
    return best(lambda: model.forecast(48), 5)


def intervals() -> float:
    from forecast_unc import Forecaster, datasets

    ahead = Forecaster().fit(datasets.load_elnino()[-200:]).forecast(48)
    months = ahead.index.strftime("%Y")

    def ask() -> object:
        again = ahead * 1.0  # what is computed once is computed again
        return [again.interval(0.9), again.std, again.aggregate("sum").std, len(months)]

    return best(ask, 5)


def rvm() -> float:
    import numpy as np

    from forecast_unc import RVMRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(0, 0.1, 400)
    return best(lambda: RVMRegressor(lengthscales=1.0).fit(X, y), 3)


def reduced_rank() -> float:
    import numpy as np

    from forecast_unc import ReducedRankGPRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = np.sin(X[:, 0]) + rng.normal(0, 0.1, 2000)
    return best(lambda: ReducedRankGPRegressor(n_support=100, random_state=0).fit(X, y), 2)


def backtest() -> float:
    from forecast_unc import Forecaster, backtest, datasets

    y = datasets.load_sunspots()
    return best(lambda: backtest(Forecaster(lags=5), y, 10, n_origins=10, refit=False), 3)


def panel() -> float:
    import pandas as pd

    from forecast_unc import Forecaster, datasets, forecast_panel

    y = datasets.load_elnino()
    frame = pd.concat(
        pd.DataFrame(
            {"unique_id": k, "ds": y.index[:120], "y": y[12 * k : 12 * k + 120].to_numpy()}
        )
        for k in range(12)
    )
    return best(lambda: forecast_panel(frame, Forecaster(lags=3), 12), 3)


def saving() -> float:
    import tempfile

    from forecast_unc import Forecaster, datasets, load_model

    model = Forecaster().fit(datasets.load_elnino()[-200:])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        return best(lambda: (model.save(path), load_model(path)), 3)


def light_import() -> float:
    code = "import forecast_unc"
    return best(lambda: subprocess.run([sys.executable, "-c", code], check=True), 3)


JOBS = [
    light_import,
    default_call,
    evidence,
    exact_steps,
    intervals,
    rvm,
    reduced_rank,
    backtest,
    panel,
    saving,
]


def seconds(job: str, tree: Path) -> float:
    """One job in a process of its own, with that tree's package."""
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--job", job, "--before", str(tree)]
    run = subprocess.run(
        command, env=environment, cwd=tree, capture_output=True, text=True, check=True
    )
    return float(run.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the earlier commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[job.__name__ for job in JOBS])
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        print(next(job for job in JOBS if job.__name__ == given.job)())
        return
    print("| job | before, s | now, s | ratio |\n|---|---|---|---|")
    for job in (job.__name__ for job in JOBS if given.only is None or job.__name__ in given.only):
        pairs = [(seconds(job, given.before), seconds(job, HERE)) for _ in range(given.rounds)]
        before, now = (min(column) for column in zip(*pairs, strict=True))
        print(f"| {job} | {before:.4f} | {now:.4f} | {now / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
