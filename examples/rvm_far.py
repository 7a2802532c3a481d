"""Far from its data a plain RVM is overconfident: prior and posterior of RVM, RVM* and GP.

60 noisy values of sin(x) / x on [-8, 8], and three models far beyond them: functions drawn from the
prior of each, its predictive band given the values, and its standard deviation.

    python examples/rvm_far.py --output DIR
    python examples/rvm_far.py --output DIR --quick    # a coarser grid

Written to DIR: rvm_far.md (table), rvm_far.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from forecast_unc import GPRegressor, RVMRegressor, plot

NOISE_STD, ROWS, LENGTHSCALE, SEED = 0.1, 60, 1.5, 0
PLACES = np.array([0.0, 6.0, 8.0, 9.0, 10.0, 12.0, 16.0])


def sinc(x):
    return np.sinc(x / np.pi)  # numpy's has a factor pi


def fitted(x, y):
    settings = {
        "RVM": RVMRegressor(lengthscales=LENGTHSCALE),
        "RVM*": RVMRegressor(lengthscales=LENGTHSCALE, variance="augmented"),
        # no linear term: the others, too, return to the mean of y
        "GP": GPRegressor(linear=False),
    }
    return {name: model.fit(x[:, None], y) for name, model in settings.items()}


def prior_cov(model, x, y, grid):
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
        # a basis at every point; between points correlated like the kernel
        cov += kernel(grid) * model.posterior_.signal_var
    return cov


def samples(cov, count, rng):
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # singular: few bases, many points
    return root @ rng.standard_normal((len(cov), count))


def std(model, grid):
    """Standard deviation of an observation, and of the function alone."""
    _, total = model.predict(grid[:, None], return_std=True)
    return total, np.sqrt(np.maximum(total**2 - model.noise_std_**2, 0.0))


def table(models):
    lines = [
        f"| x | {' | '.join(f'{place:g}' for place in PLACES)} |",
        "|---|" + "---:|" * len(PLACES),
    ]
    for name, model in models.items():
        cells = " | ".join(f"{value:.3f}" for value in std(model, PLACES)[0])
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def draw(models, x, y, grid, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9.3, 7), layout="constrained")
    grid_spec = figure.add_gridspec(3, 3)
    below = figure.add_subplot(grid_spec[2, :])
    first = [None, None]
    for column, (name, color) in enumerate(zip(models, plot.COLORS, strict=False)):
        model = models[name]
        top, middle = (
            figure.add_subplot(grid_spec[row, column], sharex=below, sharey=first[row])
            for row in (0, 1)
        )
        first = first if column else [top, middle]
        cov = prior_cov(model, x, y, grid)
        band = 2 * np.sqrt(np.maximum(np.diagonal(cov), 0.0))
        center = y.mean()
        top.fill_between(grid, center - band, center + band, color=color, alpha=0.15, lw=0)
        paths = center + samples(cov, 4, np.random.default_rng(SEED))
        top.plot(grid, paths, color=color, lw=0.9)
        top.set_title(name)

        mean, total = model.predict(grid[:, None], return_std=True)
        middle.fill_between(grid, mean - 2 * total, mean + 2 * total, color=color, alpha=0.2, lw=0)
        middle.plot(grid, mean, color=color)
        middle.plot(grid, sinc(grid), color="0.4", lw=0.8, ls="--")
        middle.plot(x, y, "k.", ms=3)
        if hasattr(model, "relevance_"):
            kept = model.relevance_
            middle.plot(x[kept], y[kept], "o", color="black", ms=8, mfc="none")
        below.plot(grid, std(model, grid)[1], color=color, ls=("-", "--", "-.")[column], label=name)
        for axis in (top, middle):
            axis.tick_params(labelleft=column == 0)
    first[0].set_ylabel("prior: function, ± 2 std")
    first[1].set_ylabel("posterior: y, ± 2 std")
    below.axvspan(x.min(), x.max(), color="0.93", zorder=0)
    below.axhline(NOISE_STD, color="black", lw=0.8, ls=":")
    below.text(0, 1.1 * NOISE_STD, "noise", ha="center", fontsize=9)
    below.text(0, 1.2e-3, "data", ha="center", fontsize=9)
    below.set(
        yscale="log",
        ylim=(1e-3, 1),
        xlim=(grid[0], grid[-1]),
        xlabel="x",
        ylabel="std of the function",
    )
    below.legend(loc="lower left", frameon=False)
    figure.savefig(path, dpi=70)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="a coarser grid")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-8, 8, ROWS)
    y = sinc(x) + NOISE_STD * rng.standard_normal(ROWS)
    models = fitted(x, y)
    text = (
        f"{ROWS} rows on [-8, 8], {models['RVM'].n_relevance_} relevance vectors; standard "
        f"deviation of an observation at x:\n\n{table(models)}\n"
    )
    (args.output / "rvm_far.md").write_text(text, encoding="utf-8")
    grid = np.linspace(-18, 18, 91 if args.quick else 361)
    draw(models, x, y, grid, args.output / "rvm_far.png")
    print(text)


if __name__ == "__main__":
    main()
