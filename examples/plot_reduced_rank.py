"""
RRGP*, a reconstruction: error bars that collapse, and two cures
================================================================

A reconstruction of the point of the thesis' third chapter (Quiñonero-Candela 2004; Rasmussen and
Quiñonero-Candela 2005), on data of our own: a Gaussian process through a few centers has the same
defect as the relevance vector machine. The papers' tables were not read.

600 values of a function on [-8, 8] with a gap, and the same reduced-rank model with the variance of
its own degenerate prior ("standard"), with a center at each test input ("augmented", RRGP*), and
with the prior variance that the centers do not explain added ("corrected", the default), beside the
exact process.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from forecast_unc import GPRegressor, ReducedRankGPRegressor, plot

NOISE_STD, ROWS, CENTERS = 0.2, 600, 14


def truth(x):
    return np.sin(1.2 * x) + 0.4 * np.sin(2.5 * x)


rng = np.random.default_rng(0)
x = rng.uniform(-8, 5, ROWS)
x = np.where(x > -2.5, x + 3.0, x)  # none between -2.5 and 0.5
y = truth(x) + NOISE_STD * rng.standard_normal(ROWS)

# %%
# With ``objective="bound"`` all three learn the same hyper-parameters, and differ in the variance
# alone.

models = {
    kind: ReducedRankGPRegressor(n_support=CENTERS, variance=kind, objective="bound", linear=False)
    for kind in ("standard", "augmented", "corrected")
}
models["exact"] = GPRegressor(linear=False)
for model in models.values():
    model.fit(x[:, None], y)

places = [-6.0, -1.0, 1.0, 8.0, 9.0, 10.0, 12.0, 16.0]
pd.DataFrame(
    {name: m.predict(np.c_[places], return_std=True)[1] for name, m in models.items()},
    index=pd.Index(places, name="x"),
).T.round(3)

# %%
# At x = 16, far from all data, the standard deviation of an observation is 0.20 for "standard", the
# noise and nothing else, 0.62 with either cure, and 0.79 for the exact process. Bars at the bottom
# are the centers, the dashed line is the true function.

grid = np.linspace(-18, 18, 361)
figure, axes = plt.subplots(1, 3, figsize=(9.3, 2.8), sharey=True, layout="constrained")
for axis, (name, model), color in zip(axes, models.items(), plot.COLORS, strict=False):
    mean, std = model.predict(grid[:, None], return_std=True)
    axis.plot(x, y, ".", color="0.6", ms=1.5, zorder=0)
    axis.fill_between(grid, mean - 2 * std, mean + 2 * std, color=color, alpha=0.25, lw=0)
    axis.plot(grid, mean, color=color)
    axis.plot(grid, truth(grid), color="black", lw=0.8, ls="--")
    axis.plot(model.support_[:, 0], np.full(CENTERS, -3.3), "k|", ms=8)
    axis.set(title=name, xlabel="x", ylim=(-3.6, 3.6))
axes[0].set_ylabel("y, ± 2 std")

# %%
# The standard deviation of the function alone. In the gap that of the standard variance is a fifth
# of the exact one, and beyond the data it goes to zero.

figure, ax = plt.subplots(figsize=(9.3, 3), layout="constrained")
styles = zip(models.items(), plot.COLORS, ("-", "--", "-.", ":"), strict=False)
for (name, model), color, style in styles:
    _, std = model.predict(grid[:, None], return_std=True)
    function = np.sqrt(np.maximum(std**2 - model.noise_std_**2, 1e-12))
    ax.plot(grid, function, color=color, ls=style, label=name)
ax.axhline(models["exact"].noise_std_, color="black", lw=0.8)
ax.text(-17.5, 1.15 * NOISE_STD, "noise", fontsize=9)
ax.set(yscale="log", ylim=(3e-3, 6), xlim=(-18, 18), xlabel="x", ylabel="std of the function")
ax.legend(loc="upper center", ncols=4, frameon=False)
plt.show()
