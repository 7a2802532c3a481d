"""
A backtest: scores by step, calibration and PIT
===============================================

Forecasts of the Niño temperature from 20 origins, a year apart, by one model with and without
propagated uncertainty, and by exponential smoothing.
"""

import matplotlib.pyplot as plt

from forecast_unc import Forecaster, backtest, baselines, datasets

y = datasets.load_elnino()
model = Forecaster(lags=(1, 2, 3, 4, 12, 13, 24))
result = backtest(
    model,
    y,
    steps=12,
    origins=20,
    step=12,
    refit=5,
    compare={"naive iteration": "naive propagation", "ETS": baselines.ETS()},
)
result.scores()[["MAE", "CRPS", "NLPD", "coverage_50", "coverage_80", "coverage_95"]].round(2)

# %%
# Is the difference significant? The test of Diebold and Mariano, on one value an origin.

result.significance("CRPS", reference="forecast_unc").round(3)

# %%
# By step: naive iteration loses where it feeds forecasts back, from the second step on.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
result.plot_errors("CRPS", ax=ax)

# %%
# Calibration. The gray areas contain a calibrated model with a probability of 95 %: the dark one if
# all values are independent, the light one with one independent value an origin.

figure, ax = plt.subplots(figsize=(5.4, 5), layout="constrained")
result.plot_calibration(ax=ax)

# %%
# The probability integral transform: flat if the distributions are right. Naive iteration has too
# many values at both ends.

figure, ax = plt.subplots(figsize=(5.4, 5), layout="constrained")
result.plot_pit(ax=ax)
plt.show()
