"""
RVM, RVM* and GP far from their data, a reconstruction
======================================================

A reconstruction of the point of Figs 2.1 to 2.3 of Quiñonero-Candela's thesis (2004): a relevance
vector machine is most certain where it knows least. The data, the seed and the figures are ours;
the thesis' own settings of these figures were not read.

60 noisy values of sin(x)/x on [-8, 8], and three models far beyond them: functions drawn from the
prior of each, its band given the values, and the standard deviation of the function.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from forecast_unc import GPRegressor, RVMRegressor, plot

NOISE_STD = 0.1


def sinc(x):
    return np.sinc(x / np.pi)  # numpy's has a factor pi


rng = np.random.default_rng(0)
x = rng.uniform(-8, 8, 60)
y = sinc(x) + NOISE_STD * rng.standard_normal(60)

# %%
# Three models of the same rows. RVM* (``variance="augmented"``) adds one basis at the input that is
# asked for. The Gaussian process has no linear term: the others, too, return to the mean of y.

models = {
    "RVM": RVMRegressor(lengthscales=1.5),
    "RVM*": RVMRegressor(lengthscales=1.5, variance="augmented"),
    "GP": GPRegressor(linear=False),
}
for model in models.values():
    model.fit(x[:, None], y)

# %%
# The standard deviation of an observation at some inputs. That of the RVM *falls* beyond the data,
# from 0.100 to 0.094, the noise it estimated: every basis but the bias is zero there.

places = [0.0, 6.0, 8.0, 9.0, 10.0, 12.0, 16.0]
pd.DataFrame(
    {name: m.predict(np.c_[places], return_std=True)[1] for name, m in models.items()},
    index=pd.Index(places, name="x"),
).T.round(3)


# %%
# The reason is the prior. With the fitted precisions, the prior covariance of the function is
# :math:`\Phi A^{-1} \Phi^\top`: away from the few relevance vectors all its functions are flat.


def prior_cov(model, grid):
    """Prior covariance of the function on the grid, with the fitted hyper-parameters."""

    def kernel(centers):
        return np.exp(-0.5 * ((grid[:, None] - centers) / model.lengthscales_) ** 2)

    if isinstance(model, GPRegressor):
        return model.amplitude_**2 * kernel(grid)
    bases = kernel(x[model.relevance_])
    if len(model.alpha_) > model.n_relevance_:  # the bias is the last
        bases = np.column_stack([bases, np.ones(len(grid))])
    cov = y.var() * (bases / model.alpha_) @ bases.T  # alpha_ is that of standardized targets
    if model.variance == "augmented":
        cov += kernel(grid) * model.posterior_.signal_var  # a basis at every point
    return cov


def samples(cov, count):
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # singular: few bases, many points
    return root @ np.random.default_rng(0).standard_normal((len(cov), count))


def function_std(model, grid):
    _, std = model.predict(grid[:, None], return_std=True)
    return np.sqrt(np.maximum(std**2 - model.noise_std_**2, 0.0))


# %%
# Top: the prior, two standard deviations and four functions. Middle: mean and two standard
# deviations of an observation; circles are relevance vectors, the dashed line is the true function.

grid = np.linspace(-18, 18, 361)
figure, axes = plt.subplots(2, 3, figsize=(9.3, 5), sharex=True, sharey="row", layout="constrained")
for (top, below), (name, model), color in zip(axes.T, models.items(), plot.COLORS, strict=False):
    cov = prior_cov(model, grid)
    band = 2 * np.sqrt(np.maximum(np.diagonal(cov), 0.0))
    top.fill_between(grid, y.mean() - band, y.mean() + band, color=color, alpha=0.15, lw=0)
    top.plot(grid, y.mean() + samples(cov, 4), color=color, lw=0.9)
    top.set_title(name)

    mean, std = model.predict(grid[:, None], return_std=True)
    below.fill_between(grid, mean - 2 * std, mean + 2 * std, color=color, alpha=0.2, lw=0)
    below.plot(grid, mean, color=color)
    below.plot(grid, sinc(grid), color="0.4", lw=0.8, ls="--")
    below.plot(x, y, "k.", ms=3)
    if name != "GP":
        below.plot(x[model.relevance_], y[model.relevance_], "o", color="black", ms=8, mfc="none")
    below.set_xlabel("x")
axes[0, 0].set_ylabel("prior: function, ± 2 std")
axes[1, 0].set_ylabel("posterior: y, ± 2 std")

# %%
# The standard deviation of the function alone. Within the data (gray) that of the RVM falls between
# its three relevance vectors, and towards the ends; outside it is zero, where the others return to
# the spread of y. An iterated forecast that leaves the range of its data needs one of the others.

figure, ax = plt.subplots(figsize=(9.3, 2.8), layout="constrained")
for (name, model), color, style in zip(
    models.items(), plot.COLORS, ("-", "--", "-."), strict=False
):
    ax.plot(grid, function_std(model, grid), color=color, ls=style, label=name)
ax.axvspan(x.min(), x.max(), color="0.93", zorder=0)
ax.axhline(NOISE_STD, color="black", lw=0.8, ls=":")
ax.text(0, 1.1 * NOISE_STD, "noise", ha="center", fontsize=9)
ax.set(yscale="log", ylim=(1e-3, 1), xlim=(-18, 18), xlabel="x", ylabel="std of the function")
ax.legend(loc="lower left", frameon=False)
plt.show()
