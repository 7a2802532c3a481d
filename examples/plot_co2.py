"""
Carbon dioxide: naive, Taylor and exact propagation on a trend
==============================================================

A reconstruction in the spirit of the iterated forecasts of the Mauna Loa record in the literature
on Gaussian processes; no paper's table was read, and sections, seeds and settings are ours. Monthly
means, 48 months ahead from 12 origins, two years apart, with one fit.
"""

import matplotlib.pyplot as plt
import pandas as pd

from forecast_unc import Forecaster, GPRegressor, RVMRegressor, backtest, datasets, plot

y = datasets.load_co2()
y.tail(3)

# %%
# A level with a trend and a season: ``differences=(1, 12)`` takes out both: what is learned is the
# change from month to month, less that of a year ago. Learned from 240 months.

settings = {"lags": 13, "differences": (1, 12), "transform": None, "calendar": None}
gp = Forecaster(GPRegressor(), max_train=240, **settings)
rvm = Forecaster(RVMRegressor(), max_train=240, **settings)

folds = {
    name: backtest(
        model,
        y,
        steps=48,
        n_origins=12,
        step=24,
        refit=False,
        compare={"naive": "naive", "taylor": "taylor"},
    )
    for name, model in {"GP": gp, "RVM": rvm}.items()
}
pd.concat(
    {
        name: fold.scores()[["RMSE", "CRPS", "NLPD", "coverage_80", "coverage_95"]]
        for name, fold in folds.items()
    }
).rename({"forecast_unc": "exact"}).round(3)

# %%
# The model of the differences is nearly linear here, so that Taylor and exact agree. Naive
# iteration knows that levels are sums of changes, but takes each change as if those before it were
# known.

model = gp.fit(y[:-48])
figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
plot.compare(
    {p: model.forecast(48, propagation=p) for p in ("naive", "exact")},
    history=y[-120:-48],
    actual=y[-48:],
    ax=ax,
)

# %%
# Where the variance of the exact forecast comes from. At one month nearly all of it is noise; later
# it is the propagated inputs, what naive iteration leaves out.

figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
plot.decomposition(model.forecast(48), ax=ax)
plt.show()
