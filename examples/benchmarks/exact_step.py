"""One exact step, a prediction at an uncertain input: forecast_unc, its floor, the textbook.

The floor is the least that the moments need: exp of n^2 / 2 numbers and one thin product, (n, d)
times (d, n), into arrays that exist already. The textbook is the formula as it is usually written,
in NumPy: the inverse of S, the (n, n) matrix of expectations, and the explicit inverse of K. The
moments of the two are compared before anything is timed. All take turns in one process, in random
order.

    python examples/benchmarks/exact_step.py
    python examples/benchmarks/exact_step.py --quick   # a small version
"""

import argparse
import sys
import time

import numpy as np
from scipy.linalg.blas import dgemm
from threadpoolctl import threadpool_limits

from forecast_unc import GPRegressor

D = 16
THREADS = 2


def problem(n):
    """A Gaussian process on n rows, and an uncertain input with a covariance of full rank."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    model = GPRegressor(linear=False).fit(X[:300], y[:300])
    A = 0.2 * rng.standard_normal((D, D))
    return model.condition(X, y), X, y, 0.3 * rng.standard_normal(D), A @ A.T / D + 0.05 * np.eye(D)


def floor(n):
    rng = np.random.default_rng(0)
    exponents, values = rng.uniform(-5.0, 0.0, n * n // 2), np.empty(n * n // 2)
    left, right = (np.asfortranarray(rng.standard_normal((D, n))) for _ in range(2))
    product = np.empty((n, n), order="F")

    def run():
        np.exp(exponents, out=values)
        dgemm(1.0, left, right, trans_a=1, c=product, overwrite_c=1)

    return run


def textbook(model, X, y):
    L, a2, s2 = model.lengthscales_**2, model.amplitude_**2, model.noise_std_**2
    offset = model.posterior_.output_offset
    Z = X / model.lengthscales_
    squared = (Z**2).sum(axis=1)
    between = squared[:, None] + squared - 2.0 * Z @ Z.T  # squared distances
    inverse = np.linalg.inv(a2 * np.exp(-0.5 * between) + s2 * np.eye(len(X)))
    beta = inverse @ (y - offset)

    def run(m, S):
        nu = X - m
        B = S + np.diag(L)
        q = a2 / np.sqrt(np.linalg.det(S / L + np.eye(D)))
        q = q * np.exp(-0.5 * np.sum(nu @ np.linalg.inv(B) * nu, axis=1))
        mean = beta @ q
        k = np.log(a2) - 0.5 * np.sum(nu**2 / L, axis=1)
        R = S * (2.0 / L) + np.eye(D)
        T = np.linalg.inv(R) @ S
        v = nu / L
        vT = v @ T
        t = np.sum(vT * v, axis=1)
        exponent = k[:, None] + k + 0.5 * (t[:, None] + t + 2.0 * vT @ v.T)
        Q = np.exp(exponent) / np.sqrt(np.linalg.det(R))
        var = a2 + s2 + np.sum((np.outer(beta, beta) - inverse) * Q) - mean**2
        return offset + mean, var

    return run


def timed(runs, repeats):
    """Seconds of every repeat, by name; the contenders take turns."""
    seconds = {name: [] for name in runs}
    rng = np.random.default_rng(0)
    for _ in range(repeats):
        for name in rng.permutation(list(runs)):
            time.sleep(0.05)  # until idle BLAS threads of the one before have stopped spinning
            began = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - began)
    return {name: np.array(values) for name, values in seconds.items()}


def table(seconds):
    base = seconds["floor"]
    lines = [
        "| | median, ms | min, ms | median over floor | min over floor |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, values in seconds.items():
        median, least = np.median(values), values.min()
        lines.append(
            f"| {name} | {1e3 * median:.2f} | {1e3 * least:.2f} | "
            f"{median / np.median(base):.2f} | {least / base.min():.2f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 300, five repeats")
    parser.add_argument("--repeats", type=int, default=50, help="turns of each contender")
    arguments = parser.parse_args()
    n, repeats = (300, 5) if arguments.quick else (2000, arguments.repeats)
    print(f"one exact step, d = {D}, S of full rank, {THREADS} threads, {repeats} repeats")
    with threadpool_limits(THREADS):
        model, X, y, m, S = problem(n)
        naive = textbook(model, X, y)
        # the first call keeps the inverse of K, which later ones share
        ours = model.predict_uncertain(m, S)
        np.testing.assert_allclose(ours[:2], naive(m, S), rtol=1e-6)
        runs = {
            "floor": floor(n),
            "forecast_unc": lambda: model.predict_uncertain(m, S),
            "textbook": lambda: naive(m, S),
        }
        runs["floor"]()
        seconds = timed(runs, repeats)
    print(f"\nn = {n}: the same mean and variance to 1e-6\n\n{table(seconds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
