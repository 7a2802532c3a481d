"""Local optima of the RVM: relevance vectors, evidence and test error from 100 random starts.

Yearly sunspot numbers on 9 lags: 200 rows to learn from, the 100 that follow to test, one step
ahead. Every trainer starts 100 times from the same random precisions and noise. The lower panels
are those of Bishop's Fig. 7.11: sparsity s and quality q of all candidate bases; adding one with
q^2 > s would raise the evidence. Left, the end of the worst MacKay start: bases above the line were
pruned and cannot be added again. Right, the end of the best sequential start.

    python examples/rvm_optima.py --output DIR
    python examples/rvm_optima.py --output DIR --quick    # 5 starts

Written to DIR: rvm_optima.md (tables), rvm_optima.csv (every start), rvm_optima.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from forecast_unc import datasets, plot
from forecast_unc.regression.sparse_bayes import batch
from forecast_unc.regression.sparse_bayes.lengthscales import design
from forecast_unc.regression.sparse_bayes.model import (
    NoisePrior,
    sparsity_and_quality,
    weight_posterior,
)
from forecast_unc.regression.sparse_bayes.sequential import SequentialTrainer
from forecast_unc.regression.standardize import typical_lengthscale

LAGS, ROWS, BUDGET = 9, 200, 50
# all of RVMRegressor, for standardized targets
NOISE = NoisePrior(median=0.1, log_std=1.5, floor=1e-4, ceiling=10.0)
SPREAD = 2.0  # std of the logarithms of the random starts


class Problem:
    """Standardized designs of the training and the test rows."""

    def __init__(self):
        v = datasets.load_sunspots().to_numpy(dtype=float)
        X = np.column_stack([v[LAGS - lag : len(v) - lag] for lag in range(1, LAGS + 1)])
        y, past = v[LAGS:], X[:ROWS]
        Z = (X - past.mean(axis=0)) / past.std(axis=0)
        self.scale = y[:ROWS].std()
        t = (y - y[:ROWS].mean()) / self.scale
        self.t, self.later = t[:ROWS], t[ROWS:]
        self.persistence = np.sqrt(np.mean((y[ROWS:] - X[ROWS:, 0]) ** 2))
        lengthscales = np.full(LAGS, typical_lengthscale(Z[:ROWS]))
        Phi = design(Z, Z[:ROWS], lengthscales, False, True)
        self.Phi, self.Phi_later = np.asfortranarray(Phi[:ROWS]), Phi[ROWS:]

    def end(self, model):
        """Relevance vectors, log evidence, test RMSE, and the most one more basis would gain."""
        inside = model.active
        posterior = weight_posterior(self.Phi[:, inside], self.t, model.alpha, model.noise_var)
        error = self.Phi_later[:, inside] @ posterior.mean - self.later
        s, q = self.candidates(model)
        ratio = np.maximum(np.delete(q**2 / s, inside), 1.0)
        return {
            "relevance vectors": (inside < ROWS).sum(),  # the last column is the bias
            "log evidence": posterior.log_evidence - ROWS * np.log(self.scale),
            "test RMSE": self.scale * np.sqrt(np.mean(error**2)),
            "gain": (0.5 * (ratio - 1.0 - np.log(ratio))).max(),
        }

    def candidates(self, model):
        return sparsity_and_quality(self.Phi, self.t, model.active, model.alpha, model.noise_var)


def em(problem, start, rng):
    return batch.fixed_point(problem.Phi, problem.t, NOISE, start, batch.em_step, 2000)


def mackay(problem, start, rng):
    return batch.fixed_point(problem.Phi, problem.t, NOISE, start, batch.mackay_step, 2000)


def subspace_em(problem, start, rng):
    order = rng.permutation(problem.Phi.shape[1])
    return batch.subspace_em(problem.Phi, problem.t, NOISE, start, BUDGET, order, 2000)


def sequential(problem, start, rng):
    """As RVMRegressor restarts it: from 50 random bases."""
    some = np.sort(rng.permutation(problem.Phi.shape[1])[:50])
    first = batch.SparseModel(some, start[0][some], float(np.exp(start[1])), False, 0)
    return SequentialTrainer(problem.Phi, problem.t, NOISE, rng).fit(first)


TRAINERS = {"em": em, "subspace_em": subspace_em, "mackay": mackay, "sequential": sequential}


def from_random_starts(problem, starts):
    """A row a start, and the trained models in the same order."""
    rows, models = [], []
    for name, train in TRAINERS.items():
        for seed in range(starts):
            rng = np.random.default_rng(seed)
            start = batch.random_start(problem.Phi, problem.t, SPREAD, rng)
            models.append(train(problem, start, rng))
            rows.append({"trainer": name, "start": seed, **problem.end(models[-1])})
    return pd.DataFrame(rows), models


def table(ends):
    lines = [
        "| trainer | log evidence: worst, median, best | within 0.5 nat of the best of all | "
        "relevance vectors | test RMSE: lowest, median, highest | "
        "most that one more basis would gain (nats): median, highest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    best = ends["log evidence"].max()
    for name, group in ends.groupby("trainer", sort=False):
        evidence, error = group["log evidence"], group["test RMSE"]
        count = group["relevance vectors"]
        values = [
            ", ".join(f"{value:.1f}" for value in evidence.quantile([0, 0.5, 1])),
            f"{100 * (evidence > best - 0.5).mean():.0f} %",
            f"{count.min()} to {count.max()}",
            ", ".join(f"{value:.1f}" for value in error.quantile([0, 0.5, 1])),
            ", ".join(f"{value:.2f}" for value in group["gain"].quantile([0.5, 1])),
        ]
        lines.append(f"| {name} | {' | '.join(values)} |")
    return "\n".join(lines)


def correlations(ends):
    """How far evidence ranks the starts by test error."""
    pair = ends[["log evidence", "test RMSE"]]
    near = pair[pair["log evidence"] > pair["log evidence"].max() - 5]
    over_all, of_near = (frame.corr(method="spearman").iloc[0, 1] for frame in (pair, near))
    return (
        f"Rank correlation of log evidence and test RMSE: {over_all:.2f} over all {len(pair)} "
        f"ends, {of_near:.2f} over the {len(near)} within 5 nats of the best."
    )


def draw(ends, problem, models, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9.5, 8), layout="constrained")
    shift = np.random.default_rng(0).uniform(-0.25, 0.25, len(ends))  # whole numbers would overlap
    for (name, group), color, marker in zip(
        ends.groupby("trainer", sort=False), plot.COLORS, "osD^", strict=False
    ):
        style = {"color": color, "ms": 5, "alpha": 0.5, "mew": 0, "label": name}
        count = group["relevance vectors"] + shift[group.index]
        axes[0, 0].plot(group["log evidence"], count, marker, **style)
        axes[0, 1].plot(group["log evidence"], group["test RMSE"], marker, **style)
    axes[0, 0].set(xlabel="log evidence (nats)", ylabel="relevance vectors")
    axes[0, 1].set(xlabel="log evidence (nats)", ylabel="test RMSE (sunspot numbers)")
    axes[0, 0].legend(loc="best", frameon=False)

    evidence = ends["log evidence"]
    worst = evidence[ends["trainer"] == "mackay"].idxmin()
    best = evidence[ends["trainer"] == "sequential"].idxmax()
    for axis, which in zip(axes[1], (worst, best), strict=True):
        s, q = problem.candidates(models[which])
        inside = np.isin(np.arange(len(s)), models[which].active)
        above = ~inside & (q**2 > 1.01 * s)
        for part, marker, color, label in (
            (~inside & ~above, ".", "0.6", "outside"),
            (above, "v", plot.COLORS[1], "outside, would gain"),
            (inside, "o", plot.COLORS[0], "in the model"),
        ):
            axis.plot(s[part], q[part] ** 2, marker, color=color, ms=5, label=label)
        axis.axline((1, 1), slope=1, color="black", lw=0.8)
        axis.set(xscale="log", yscale="log", xlabel="sparsity $s$", ylabel="quality $q^2$")
        axis.set_title(f"{ends['trainer'][which]}, log evidence {evidence[which]:.1f}")
    axes[1, 0].legend(loc="lower right", frameon=False, fontsize=9)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="5 starts")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    problem = Problem()
    starts = 5 if args.quick else 100
    ends, models = from_random_starts(problem, starts)
    ends.to_csv(args.output / "rvm_optima.csv", index=False)
    text = (
        f"{starts} random starts each; test RMSE of the last value as the forecast: "
        f"{problem.persistence:.1f}.\n\n{table(ends)}\n\n{correlations(ends)}\n"
    )
    (args.output / "rvm_optima.md").write_text(text, encoding="utf-8")
    draw(ends, problem, models, args.output / "rvm_optima.png")
    print(text)


if __name__ == "__main__":
    main()
