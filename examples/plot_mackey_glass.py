"""
Mackey-Glass, a reconstruction: naive, Taylor and exact propagation
===================================================================

A reconstruction of the experiment of Girard, Rasmussen, Quiñonero-Candela and Murray-Smith (NIPS
15, 2003), small enough for half a minute: the chaotic Mackey-Glass series with tau = 17,
normalized, noise of variance 0.001, 100 training pairs (16 lags and the next value) drawn at
random, 100 steps ahead. The paper's table was not read; sections of the series, pairs, seeds and
kernel are ours, and so are the figures. The relevance vector machine learns from the same pairs.

One seed and 12 origins. With ten seeds and 25 origins each the table is in :doc:`/experiments`,
made by ``examples/mackey_glass.py``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from forecast_unc import Forecaster, GPRegressor, RVMRegressor, datasets, plot

LAGS, PAIRS, STEPS, NOISE_VAR, ORIGINS = 16, 100, 100, 0.001, 12

rng = np.random.default_rng(1)
clean = datasets.make_mackey_glass(4000)
y = (clean - clean.mean()) / clean.std() + rng.normal(0.0, np.sqrt(NOISE_VAR), len(clean))
origins = np.sort(rng.choice(np.arange(2000 + LAGS, 4000 - STEPS), ORIGINS, replace=False))

# %%
# Both regressors learn from the same 100 pairs out of the first 2000 values.


class RandomPairs:
    """Mixin: a regressor that learns from a few rows drawn at random."""

    def fit(self, X, y):
        rows = np.random.default_rng(0).choice(len(y), PAIRS, replace=False)
        return super().fit(X[rows], y[rows])


class GP(RandomPairs, GPRegressor):
    """Gaussian process of some pairs."""


class RVM(RandomPairs, RVMRegressor):
    """Relevance vector machine of the same pairs."""


models = {
    "GP": Forecaster(GP(), lags=LAGS).fit(y[:2000]),
    "RVM": Forecaster(RVM(prior="individual"), lags=LAGS).fit(y[:2000]),
}

# %%
# ``apply`` moves a fitted model to another origin and learns nothing there.
# ``path_consistent=False`` is the recursion of the paper.

scores, shown = [], {}
for name, model in models.items():
    for origin in origins:
        here = model.apply(y[origin - LAGS : origin])
        for propagation in ("naive", "taylor", "exact"):
            ahead = here.forecast(STEPS, propagation=propagation, path_consistent=False)
            actual = y[origin : origin + STEPS]
            row, band = ahead.score(actual), ahead.interval(0.95)
            scores.append(
                pd.DataFrame(
                    {
                        "model": name,
                        "propagation": propagation,
                        "step": np.arange(1, STEPS + 1),
                        "squared error": row["error"].to_numpy() ** 2,
                        "NLPD": row["nlpd"].to_numpy(),
                        "in 95 % band": actual.between(band["lower"], band["upper"]).to_numpy(),
                    }
                )
            )
            if origin == origins[0]:
                shown[name, propagation] = ahead
scores = pd.concat(scores)

# %%
# Averages over the steps and origins. The three propagations have errors of similar size, and
# differ in the uncertainty they state. The 95 % band of naive iteration covers a third of the
# values, and the logarithmic score punishes that. With the others the bands of the Gaussian process
# are nearly right, those of the relevance vector machine too narrow (:doc:`plot_rvm_far`).

scores.groupby(["model", "propagation"], sort=False)[
    ["squared error", "NLPD", "in 95 % band"]
].mean().round(3)

# %%
# From one origin, by the Gaussian process.

origin = origins[0]
figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
plot.compare(
    {"naive": shown["GP", "naive"], "exact": shown["GP", "exact"]},
    history=y[origin - 60 : origin],
    actual=y[origin : origin + STEPS],
    ax=ax,
)
ax.set(xlabel="time", ylabel="Mackey-Glass, normalized")

# %%
# The negative log predictive density by step, averaged over the origins; lower is better.

figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
mean = scores.groupby(["model", "propagation", "step"])["NLPD"].mean()
for name, style in (("GP", "-"), ("RVM", ":")):
    for propagation, color in zip(("naive", "taylor", "exact"), plot.COLORS, strict=False):
        ax.plot(
            mean[name, propagation], color=color, linestyle=style, label=f"{name}, {propagation}"
        )
ax.set_yscale("symlog", linthresh=2)
ticks = [-2, -1, 0, 1, 2, 5, 10, 50, 100]
ax.set_yticks(ticks, [f"{tick}" for tick in ticks])
ax.set(xlabel="steps ahead", ylabel="NLPD (nats), logarithmic above 2")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
plt.show()
