"""A Gaussian process through a few centers: error bars that collapse away from them, and two cures.

Values of a function on [-8, 8] with a gap, and the same reduced-rank model with the variance of its
own degenerate prior ("standard"), with a center at each test input ("augmented", RRGP*), and with
the prior variance that the centers leave ("corrected"), beside the exact process.

    python examples/reduced_rank.py --output DIR
    python examples/reduced_rank.py --output DIR --quick    # fewer rows

Written to DIR: reduced_rank.md (table), reduced_rank.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from forecast_unc import GPRegressor, ReducedRankGPRegressor, plot

NOISE_STD, ROWS, CENTERS, SEED = 0.2, 600, 14, 0
PLACES = np.array([-6.0, -1.0, 1.0, 8.0, 9.0, 10.0, 12.0, 16.0])


def truth(x):
    return np.sin(1.2 * x) + 0.4 * np.sin(2.5 * x)


def fitted(x, y):
    settings = {
        # by the bound all three have the same hyper-parameters
        kind: ReducedRankGPRegressor(
            n_support=CENTERS, variance=kind, objective="bound", linear=False
        )
        for kind in ("standard", "augmented", "corrected")
    }
    models = {**settings, "exact": GPRegressor(linear=False)}
    return {name: model.fit(x[:, None], y) for name, model in models.items()}


def function_std(model, grid):
    _, total = model.predict(grid[:, None], return_std=True)
    return np.sqrt(np.maximum(total**2 - model.noise_std_**2, 1e-12))


def table(models):
    lines = [
        f"| x | {' | '.join(f'{place:g}' for place in PLACES)} |",
        "|---|" + "---:|" * len(PLACES),
    ]
    for name, model in models.items():
        _, std = model.predict(PLACES[:, None], return_std=True)
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in std)} |")
    return "\n".join(lines)


def draw(models, x, y, grid, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9.3, 5.4), layout="constrained")
    grid_spec = figure.add_gridspec(2, 3)
    below = figure.add_subplot(grid_spec[1, :])
    first = None
    styles = zip(models.items(), plot.COLORS, ("-", "--", "-.", ":"), strict=False)
    for column, ((name, model), color, style) in enumerate(styles):
        below.plot(grid, function_std(model, grid), color=color, ls=style, label=name)
        if column == 3:  # the exact process has no picture of its own
            break
        axis = figure.add_subplot(grid_spec[0, column], sharex=below, sharey=first)
        first = first or axis
        mean, std = model.predict(grid[:, None], return_std=True)
        axis.plot(x, y, ".", color="0.6", ms=1.5, zorder=0)
        axis.fill_between(grid, mean - 2 * std, mean + 2 * std, color=color, alpha=0.25, lw=0)
        axis.plot(grid, mean, color=color)
        axis.plot(grid, truth(grid), color="black", lw=0.8, ls="--")
        axis.plot(model.support_[:, 0], np.full(len(model.support_), -3.3), "k|", ms=8)
        axis.set_title(name)
        axis.tick_params(labelleft=column == 0)
    first.set(ylabel="y, ± 2 std", ylim=(-3.6, 3.6))
    below.axhline(models["exact"].noise_std_, color="black", lw=0.8)
    below.text(-17.5, 1.15 * NOISE_STD, "noise", fontsize=9)
    below.set(
        yscale="log",
        ylim=(3e-3, 6),
        xlim=(grid[0], grid[-1]),
        xlabel="x",
        ylabel="std of the function",
    )
    below.legend(loc="upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="fewer rows, a coarser grid")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-8, 5, 200 if args.quick else ROWS)
    x = np.where(x > -2.5, x + 3.0, x)  # none between -2.5 and 0.5
    y = truth(x) + NOISE_STD * rng.standard_normal(len(x))
    models = fitted(x, y)
    text = (
        f"{len(x)} rows on [-8, 8], none in (-2.5, 0.5), {CENTERS} centers; standard deviation of "
        f"an observation at x:\n\n{table(models)}\n"
    )
    (args.output / "reduced_rank.md").write_text(text, encoding="utf-8")
    grid = np.linspace(-18, 18, 91 if args.quick else 361)
    draw(models, x, y, grid, args.output / "reduced_rank.png")
    print(text)


if __name__ == "__main__":
    main()
