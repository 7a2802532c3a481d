"""
Sinc with noisy inputs, a reconstruction
========================================

A reconstruction of the setting of the thesis' chapter on learning with noisy inputs
(Quiñonero-Candela 2004), with data and seeds of our own: 60 values of sin(x)/x with noise of
standard deviation 0.05, whose inputs on [-10, 10] were observed with noise of standard deviation
0.5. The thesis' tables were not read.

Five samples; with 30 samples, two more trainers and how not to do it, the table is in
:doc:`/experiments`, made by ``examples/noisy_inputs.py``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from forecast_unc import GPRegressor, plot, scores

ROWS, TEST, INPUT_STD, NOISE_STD, SAMPLES = 60, 500, 0.5, 0.05, 5
INPUT_COV = np.array([[INPUT_STD**2]])


def sinc(x):
    return np.sinc(x / np.pi)  # numpy's has a factor pi


def draw_rows(n, rng):
    """True inputs (n,), inputs as observed (n, 1), and targets (n,)."""
    x = rng.uniform(-10, 10, n)
    observed = x + INPUT_STD * rng.standard_normal(n)
    return x, observed[:, None], sinc(x) + NOISE_STD * rng.standard_normal(n)


# %%
# Four fits of the same rows. "plain" takes the inputs for known; "known noise" is given the noise
# of the inputs, and takes the kernel's expectation over it; "nigp" learns that noise by the slopes
# of the function; "annealed" estimates the true inputs. Each is scored at known inputs, and at
# inputs as noisy as those of the rows, for which ``predict_uncertain`` integrates over the input.

fits = {
    "plain": (None, False),
    "known noise": (None, True),
    "nigp": ("nigp", False),
    "annealed": ("annealed", False),
}
rows, shown = [], {}
for seed in range(SAMPLES):
    rng = np.random.default_rng(seed)
    _, X, y = draw_rows(ROWS, rng)
    x_test, noisy_test, y_test = draw_rows(TEST, rng)
    for name, (kind, known) in fits.items():
        gp = GPRegressor(noisy_inputs=kind, linear=False, random_state=seed)
        gp.fit(X, y, input_cov=INPUT_COV if known else None)
        mean, std = gp.predict(x_test[:, None], return_std=True)
        noisy = [gp.predict_uncertain(u, INPUT_COV) for u in noisy_test]
        noisy_mean = np.array([moments.mean for moments in noisy])
        noisy_std = np.sqrt([moments.var for moments in noisy])
        rows.append(
            {
                "fit": name,
                "NLPD, known inputs": scores.nlpd(y_test, mean, std).mean(),
                "NLPD, noisy inputs": scores.nlpd(y_test, noisy_mean, noisy_std).mean(),
                "in 95 % band": (np.abs(y_test - mean) < 1.96 * std).mean(),
                "noise std": gp.noise_std_,
            }
        )
        if seed == 0:
            shown[name] = gp, X, y

# %%
# The plain fit takes the noise of the inputs for noise of the targets, the same everywhere.

pd.DataFrame(rows).groupby("fit", sort=False).mean().round(3)

# %%
# The first sample. The plain fit flattens the peak and is too wide where the function is flat.

grid = np.linspace(-10.5, 10.5, 300)
figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, (gp, X, y)) in zip(axes.flat, shown.items(), strict=True):
    mean, std = gp.predict(grid[:, None], return_std=True)
    axis.plot(grid, sinc(grid), color="black", lw=1, ls="--", label="sin(x)/x")
    axis.fill_between(
        grid, mean - 1.96 * std, mean + 1.96 * std, color=plot.COLORS[0], alpha=0.2, lw=0
    )
    axis.plot(grid, mean, color=plot.COLORS[0], label="mean and 95 % band of an observation")
    axis.plot(X[:, 0], y, "o", ms=3, color="gray", label="rows, inputs as observed")
    axis.set_title(f"{name}: noise std {gp.noise_std_:.3f}", fontsize=10)
axes[0, 0].set_ylim(-0.5, 1.3)
handles, labels = axes[0, 0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
plt.show()
