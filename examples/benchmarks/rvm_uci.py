"""Uncertainty on regression data: GP, RVM and RVM* by their negative log predictive density.

Boston housing with its ten published splits (`--data uci_housing.npz`: X, y and test_mask, one
column a split), and two sets that come with scikit-learn: diabetes, and the alcohol content of its
178 wines from the other 12 measurements (a classification set used as a regression; the class is
not an input). These two are split at random, a tenth for the test, ten times.

NLPD is in nats a test value, in units of the standardized target; "kept" is the number of relevance
vectors over that of training rows. The last table is RVM* minus RVM, split by split.

    python examples/benchmarks/rvm_uci.py --data uci_housing.npz [--quick]
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import ShuffleSplit

from forecast_unc import GPRegressor, RVMRegressor, scores

METHODS = {
    "GP": GPRegressor(),
    "RVM": RVMRegressor(prior="individual"),
    "RVM, adaptive": RVMRegressor(prior="individual", adapt_lengthscales=True),
}


def problems(path):
    """Name, X, y and a list of (train, test) rows of each set."""
    if path is not None:
        with np.load(path) as data:
            X, y, mask = data["X"], data["y"], data["test_mask"]
        yield "housing", X, y, [(np.flatnonzero(~m), np.flatnonzero(m)) for m in mask.T]
    splits = ShuffleSplit(10, test_size=0.1, random_state=0)
    diabetes, wine = load_diabetes(), load_wine().data
    for name, X, y in (
        ("diabetes", diabetes.data, diabetes.target),
        ("wine", wine[:, 1:], wine[:, 0]),
    ):
        yield name, X, y, list(splits.split(X))


def score(model, X, y, train, test):
    """NLPD, RMSE, coverage of the central 95 %, and the share of rows kept."""
    mean, std = model.predict(X[test], return_std=True)
    scale, error = y[train].std(), y[test] - mean
    return (
        scores.nlpd(y[test], mean, std).mean() - np.log(scale),
        np.sqrt(np.mean(error**2)) / scale,
        np.mean(np.abs(error) < 1.96 * std),
        getattr(model, "n_relevance_", len(train)) / len(train),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="uci_housing.npz; left out without it")
    parser.add_argument("--quick", action="store_true", help="2 splits, no adapted length-scales")
    arguments = parser.parse_args()
    methods = dict(list(METHODS.items())[:2]) if arguments.quick else METHODS
    head = f"{'NLPD':>13} {'RMSE':>6} {'95 %':>6} {'kept':>6} {'seconds':>7}"
    print(f"{'set':>9} {'method':>14} {head}")
    differences = []
    for name, X, y, splits in problems(arguments.data):
        if arguments.quick:
            splits = splits[:2]
        rows = {}
        for method, regressor in methods.items():
            for train, test in splits:
                start = time.process_time()
                model = clone(regressor).fit(X[train], y[train])
                seconds = time.process_time() - start
                figures = [*score(model, X, y, train, test), seconds]
                rows.setdefault(method, []).append(figures)
                if method != "GP":  # the same fit, with the other variance
                    model.set_params(variance="augmented")
                    model = model.condition(X[train], y[train])
                    figures = [*score(model, X, y, train, test), seconds]
                    rows.setdefault(method.replace("RVM", "RVM*"), []).append(figures)
        nlpd = {method: np.array(figures)[:, 0] for method, figures in rows.items()}
        for method, figures in rows.items():
            density, rmse, coverage, kept, seconds = np.mean(figures, axis=0)
            spread = nlpd[method].std(ddof=1) / np.sqrt(len(splits))
            print(
                f"{name:>9} {method:>14} {density:>7.3f}±{spread:.3f} {rmse:>6.3f} "
                f"{100 * coverage:>5.1f}% {100 * kept:>5.1f}% {seconds:>7.2f}",
                flush=True,
            )
        for plain in ("RVM", "RVM, adaptive"):
            if plain in nlpd:
                star = plain.replace("RVM", "RVM*")
                differences.append((name, star, nlpd[star] - nlpd[plain]))
    print(f"\n{'set':>9} {'method':>14}  NLPD minus that without *: mean, worst, splits it wins")
    for name, star, gain in differences:
        wins = f"{(gain < 0).sum()} of {len(gain)}"
        print(f"{name:>9} {star:>14} {gain.mean():>+8.3f} {gain.max():>+8.3f} {wins:>9}")


if __name__ == "__main__":
    main()
