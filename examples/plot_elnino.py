"""
A first forecast: El Niño
=========================

Monthly sea surface temperature off Peru: a forecast of 24 months, its bands, its yearly means, and
where its variance comes from.
"""

import matplotlib.pyplot as plt

from forecast_unc import Forecaster, datasets, plot

y = datasets.load_elnino()
known, actual = y[:-24], y[-24:]

# %%
# The inputs are the recent months, and the same season one and two years ago.

model = Forecaster(lags=(1, 2, 3, 4, 12, 13, 24)).fit(known)
ahead = model.forecast(24)
ahead.interval(0.95).round(1).head()

# %%
# The fan: half of all outcomes are expected in the dark band, 95 % in the lightest. It widens for
# as long as the past tells something, and then stays as wide as the spread of the season's values.

figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
ax.plot(actual, "k.", ms=4, label="observed", zorder=3)
ahead.plot(known[-72:], ax=ax)

# %%
# The same model with its uncertainty propagated (by a mixture, the default for one model) and
# without ("naive").

figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
naive = model.forecast(24, propagation="naive")
plot.compare({"naive": naive, "mixture": ahead}, history=known[-48:], actual=actual, ax=ax)

# %%
# The steps go together: a warm month is followed by a warm one. The interval of a yearly mean takes
# that from the joint covariance, and cannot be had from the intervals of single months.

ahead.aggregate("mean", freq="YS").interval(0.95).round(2)

# %%
figure, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
std = ahead.std.to_numpy()
image = ax.imshow(
    ahead.cov / (std[:, None] * std), cmap="PuOr", vmin=-1, vmax=1, extent=(0.5, 24.5, 24.5, 0.5)
)
ax.set(xlabel="steps ahead", ylabel="steps ahead", title="correlation of the steps")
figure.colorbar(image, ax=ax)

# %%
# Where the variance comes from: at one month it is noise; at six, most of it is that of the inputs,
# which are forecasts themselves.

figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
plot.decomposition(ahead, ax=ax)
plt.show()
