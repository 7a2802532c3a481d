"""
Local optima of the relevance vector machine, a reconstruction
==============================================================

The evidence of the relevance vector machine has many local optima, and the one that a trainer finds
depends on its start. Yearly sunspot numbers on 9 lags: 200 rows to learn from, the 100 that follow
to test, one step ahead. Every trainer starts from the same random precisions and noise. The last
picture is that of Bishop's Fig. 7.11 (2006), of the sparsity s and quality q of all candidate
bases, on data of our own.

Here each trainer has 20 starts; the figures of 100 are in :doc:`/theory/rvm`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from forecast_unc import datasets, plot
from forecast_unc.regression.estimator import typical_lengthscale
from forecast_unc.regression.rvm import batch
from forecast_unc.regression.rvm.sequential import SequentialTrainer
from forecast_unc.regression.rvm.sparse_evidence import (
    Evidence,
    NoisePrior,
    design,
    weight_posterior,
)

LAGS, ROWS, BUDGET, STARTS = 9, 200, 50, 20
# all of RVMRegressor, for standardized targets
NOISE = NoisePrior(median=0.1, log_std=1.5, floor=1e-4, ceiling=10.0)
SPREAD = 2.0  # std of the logarithms of the random starts

# %%
# Standardized designs of the training and the test rows, and the scores of a trained model.

values = datasets.load_sunspots().to_numpy(dtype=float)
X = np.column_stack([values[LAGS - lag : len(values) - lag] for lag in range(1, LAGS + 1)])
y = values[LAGS:]
Z = (X - X[:ROWS].mean(axis=0)) / X[:ROWS].std(axis=0)
scale = y[:ROWS].std()
t = (y - y[:ROWS].mean()) / scale
lengthscales = np.full(LAGS, typical_lengthscale(Z[:ROWS]))
Phi_all = design(Z, Z[:ROWS], lengthscales, False, True)
Phi, Phi_later = np.asfortranarray(Phi_all[:ROWS]), Phi_all[ROWS:]
persistence = np.sqrt(np.mean((y[ROWS:] - X[ROWS:, 0]) ** 2))


def candidates(model):
    """Sparsity and quality of all bases: how each overlaps with the rest, and what it explains."""
    inside = model.active
    C = model.noise_var * np.eye(ROWS) + (Phi[:, inside] / model.alpha) @ Phi[:, inside].T
    solved = np.linalg.solve(C, np.column_stack([Phi, t[:ROWS]]))
    s, q = np.einsum("ij,ij->j", Phi, solved[:, :-1]), Phi.T @ solved[:, -1]
    share = model.alpha / (model.alpha - s[inside])  # the rest of the model, without the basis
    s[inside], q[inside] = share * s[inside], share * q[inside]
    return s, q


def end(model):
    """Relevance vectors, log evidence, test RMSE, and the most one more basis would gain."""
    inside = model.active
    posterior = weight_posterior(Phi[:, inside], t[:ROWS], model.alpha, model.noise_var)
    error = Phi_later[:, inside] @ posterior.mean - t[ROWS:]
    s, q = candidates(model)
    ratio = np.maximum(np.delete(q**2 / s, inside), 1.0)
    return {
        "relevance vectors": (inside < ROWS).sum(),  # the last column is the bias
        "log evidence": posterior.log_evidence - ROWS * np.log(scale),
        "test RMSE": scale * np.sqrt(np.mean(error**2)),
        "gain": (0.5 * (ratio - 1.0 - np.log(ratio))).max(),
    }


# %%
# Four trainers: EM, EM on blocks of bases, MacKay's fixed point, and the sequential algorithm. The
# last is the default of ``RVMRegressor``, restarted as it restarts itself, from 50 random bases.


def em(start, rng):
    return batch.fixed_point(Evidence.of(Phi, t[:ROWS]), NOISE, start, batch.em_step, 2000)


def mackay(start, rng):
    return batch.fixed_point(Evidence.of(Phi, t[:ROWS]), NOISE, start, batch.mackay_step, 2000)


def subspace_em(start, rng):
    order = rng.permutation(Phi.shape[1])
    drawn = start[0][order], start[1]
    model = batch.subspace_em(Phi[:, order], t[:ROWS], NOISE, drawn, BUDGET, 2000)
    return model._replace(active=order[model.active])


def sequential(start, rng):
    some = np.sort(rng.permutation(Phi.shape[1])[:50])
    first = batch.SparseModel(some, start[0][some], float(np.exp(start[1])), False, 0)
    return SequentialTrainer(Phi, t[:ROWS], NOISE, rng).fit(first)


rows, models = [], []
for train in (em, subspace_em, mackay, sequential):
    for seed in range(STARTS):
        rng = np.random.default_rng(seed)
        start = batch.random_start(Phi, t[:ROWS], SPREAD, rng)
        models.append(train(start, rng))
        rows.append({"trainer": train.__name__, **end(models[-1])})
ends = pd.DataFrame(rows)
print(f"Test RMSE of the last value as the forecast: {persistence:.1f}")

# %%
# The ends of each trainer: lowest, median and highest.

ends.groupby("trainer", sort=False).agg(["min", "median", "max"]).round(2).T

# %%
# Nearly all starts of the default end within half a nat of the best evidence seen, hardly any of
# the others do. But among good optima the evidence does not rank the test errors, and the number of
# relevance vectors is no property of the data.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
shift = np.random.default_rng(0).uniform(-0.25, 0.25, len(ends))  # whole numbers would overlap
for (name, group), color, marker in zip(
    ends.groupby("trainer", sort=False), plot.COLORS, "osD^", strict=False
):
    style = {"color": color, "ms": 5, "alpha": 0.5, "mew": 0, "label": name}
    count = group["relevance vectors"] + shift[group.index]
    axes[0].plot(group["log evidence"], count, marker, **style)
    axes[1].plot(group["log evidence"], group["test RMSE"], marker, **style)
axes[0].set(xlabel="log evidence (nats)", ylabel="relevance vectors")
axes[1].set(xlabel="log evidence (nats)", ylabel="test RMSE (sunspot numbers)")
axes[0].legend(loc="best", frameon=False)

# %%
# A basis with :math:`q^2 > s` outside the model would raise the evidence. Left, the worst end of
# "mackay": bases above the line were pruned and cannot be added again. Right, the best end of
# "sequential": all bases inside lie above the line, all others below it.

evidence = ends["log evidence"]
worst = evidence[ends["trainer"] == "mackay"].idxmin()
best = evidence[ends["trainer"] == "sequential"].idxmax()
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for axis, which in zip(axes, (worst, best), strict=True):
    s, q = candidates(models[which])
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
axes[0].legend(loc="lower right", frameon=False, fontsize=9)
plt.show()
