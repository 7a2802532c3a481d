"""How good are the local optima? The evidence of every trainer on 30 random problems.

Each problem is a function of 1 to 16 inputs with 60 to 1000 rows: a noisy Mackey-Glass series with
lags, sums of sines, or bumps. All trainers get the same design, noise prior and standard start. The
table gives the log evidence of "sequential" minus the best of "em", "mackay" and "gradient".

    python examples/benchmarks/rvm_optima.py [--quick]
"""

import argparse
import time

import numpy as np

from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.rvm import batch
from forecast_unc.regression.rvm.sequential import SequentialTrainer
from forecast_unc.regression.rvm.sparse_evidence import (
    Evidence,
    NoisePrior,
    design,
    weight_posterior,
)

NOISE = NoisePrior(median=0.1, log_std=1.5, floor=1e-4, ceiling=10.0)
BATCH = ("em", "mackay", "gradient")


def mackey_glass(n, rng):
    """x' = 0.2 x(t-17) / (1 + x(t-17)^10) - 0.1 x by Heun's method, one value a unit of time."""
    steps, delay = 10, 170
    x = np.full((n + 200) * steps + delay + 1, 1.2)
    x[: delay + 1] += 0.1 * rng.standard_normal()
    for t in range(delay, len(x) - 1):
        gain = [0.2 * x[s] / (1 + x[s] ** 10) for s in (t - delay, t - delay + 1)]
        slope = gain[0] - 0.1 * x[t]
        x[t + 1] = x[t] + 0.05 * (slope + gain[1] - 0.1 * (x[t] + 0.1 * slope))
    return x[delay + 1 + 200 * steps :: steps][:n]


def lagged(n, d, noise, rng):
    """Rows of d lags and the next value of a noisy Mackey-Glass series, standardized."""
    series = mackey_glass(n + d, rng)
    series = (series - series.mean()) / series.std() + noise * rng.standard_normal(n + d)
    X = np.column_stack([series[d - 1 - j : n + d - 1 - j] for j in range(d)])
    return X, series[d:]


def problem(seed, most):
    """Design, targets and a description of one problem."""
    rng = np.random.default_rng(1000 + seed)
    d = (1, 2, 3, 4, 6, 8, 12, 16)[seed % 8]
    n = int(rng.choice([60, 150, 300, 600, most]))
    n, noise = min(n, most), float(rng.choice([0.02, 0.1, 0.3]))
    kind = ("series", "sines", "bumps")[seed % 3]
    if kind == "series":
        X, y = lagged(n, d, noise, rng)
    elif kind == "sines":
        X = rng.standard_normal((n, d))
        y = np.sin(X @ rng.standard_normal((d, 3)) / np.sqrt(d)).sum(axis=1)
        y = y / y.std() + noise * rng.standard_normal(n)
    else:
        X = rng.uniform(-2, 2, (n, d))
        bumps = squared_exponential(X, rng.standard_normal((8, d)), np.full(d, np.sqrt(d)))
        y = bumps @ rng.standard_normal(8)
        y = (y - y.mean()) / y.std() + noise * rng.standard_normal(n)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    width = np.sqrt(d) * float(rng.choice([0.5, 1.0]))
    Phi = design(X, X, np.full(d, width), False, True)
    return Phi, y, f"{kind:>6} {d:>2} {n:>4} {noise:>5.2f}"


def train(algorithm, Phi, y):
    """Trained model of one algorithm from the standard start."""
    rng = np.random.default_rng(0)
    start = batch.random_start(Phi, y, 0.0, rng)
    if algorithm == "sequential":
        return SequentialTrainer(Phi, y, NOISE, rng).fit()
    if algorithm == "gradient":
        return batch.direct(Phi, y, NOISE, start, 2000)
    step = batch.em_step if algorithm == "em" else batch.mackay_step
    return batch.fixed_point(Evidence.of(Phi, y), NOISE, start, step, 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 problems of at most 300 rows")
    parser.add_argument("--rows", type=int, default=1000, help="most rows of a problem")
    arguments = parser.parse_args()
    count, most = (10, min(300, arguments.rows)) if arguments.quick else (30, arguments.rows)
    algorithms = (*BATCH, "sequential")
    print(
        "log evidence, relevance vectors and seconds; last column: sequential minus the best other"
    )
    print("  kind  d    n noise " + " ".join(f"{name:>22}" for name in algorithms) + "  difference")
    differences = []
    for seed in range(count):
        Phi, y, label = problem(seed, most)
        evidence, cells = {}, []
        for name in algorithms:
            start = time.perf_counter()
            model = train(name, Phi, y)
            seconds = time.perf_counter() - start
            columns = Phi[:, model.active]
            evidence[name] = weight_posterior(columns, y, model.alpha, model.noise_var).log_evidence
            cells.append(f"{evidence[name]:10.2f} {len(model.active):>4} {seconds:6.2f}")
        differences.append(evidence["sequential"] - max(evidence[name] for name in BATCH))
        print(label, " ".join(cells), f"{differences[-1]:+10.3f}", flush=True)
    differences = np.array(differences)
    print(
        f"within 0.5 nat of the best or above: {(differences > -0.5).sum()} of {count}; "
        f"above by more than 0.5: {(differences > 0.5).sum()}; worst {differences.min():+.2f}"
    )


if __name__ == "__main__":
    main()
