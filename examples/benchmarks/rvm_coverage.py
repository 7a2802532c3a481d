"""What an RVM takes for noise: coverage on new data with 1 to 30 inputs and 60 to 200 rows.

Normal inputs; y is noise alone (std 1), a product of waves of two of the inputs, or a smooth sum,
2 sin x1 + x2, both with noise of std 0.5. Coverage of 95 % bands of 500 new rows, learned noise std
over the true one, relevance vectors and CRPS in stds of y, means over `--seeds` data sets, by the
plain prior of the papers, by the smooth one, and with the length-scales adapted as well.

    python examples/benchmarks/rvm_coverage.py [--quick] [--seeds 10]
"""

import argparse
import time

import numpy as np

from forecast_unc import RVMRegressor, scores

SIZES = ((1, 60), (2, 60), (3, 60), (5, 60), (10, 60), (20, 60), (5, 200), (10, 200), (30, 200))
METHODS = {
    "individual": {"prior": "individual"},
    "smooth": {"prior": "smooth"},
    "auto": {},
    "auto, adapted": {"adapt_lengthscales": True},
}
FUNCTIONS = {
    "noise": lambda x, z: 0.0 * x,
    "product": lambda x, z: 2.0 * np.sin(1.5 * x) * np.cos(z),
    "sum": lambda x, z: 2.0 * np.sin(x) + z,
}


def figures(kind, d, n, seed, parameters):
    """Coverage, noise over the true one, vectors, CRPS and seconds of one fit."""
    rng = np.random.default_rng([d, n, seed])
    X = rng.standard_normal((n + 500, d))
    std = 1.0 if kind == "noise" else 0.5
    second = X[:, 1] if d > 1 else np.zeros(len(X))
    y = FUNCTIONS[kind](X[:, 0], second) + std * rng.standard_normal(len(X))
    start = time.process_time()
    model = RVMRegressor(**parameters).fit(X[:n], y[:n])
    seconds = time.process_time() - start
    mean, spread = model.predict(X[n:], return_std=True)
    inside = np.abs(y[n:] - mean) < 1.96 * spread
    crps = scores.crps(y[n:], mean, spread).mean() / y[n:].std()
    return inside.mean(), model.noise_std_ / std, model.n_relevance_, crps, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sizes, two data sets each")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["individual", "auto"])
    arguments = parser.parse_args()
    sizes, seeds = (SIZES[3:5], 2) if arguments.quick else (SIZES, arguments.seeds)
    print(f"{'data':>8} {'inputs':>6} {'rows':>4} {'prior':>13}  95 %  noise  kept   CRPS seconds")
    for kind in FUNCTIONS:
        for d, n in sizes:
            for name in arguments.methods:
                rows = [figures(kind, d, n, seed, METHODS[name]) for seed in range(seeds)]
                coverage, noise, kept, crps, seconds = np.mean(rows, axis=0)
                print(
                    f"{kind:>8} {d:>6} {n:>4} {name:>13} {coverage:>5.3f} {noise:>6.2f} "
                    f"{kept:>5.1f} {crps:>6.3f} {seconds:>7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
