"""The sinc toy of the thesis: the distribution of its figures over draws of the noise.

20 values of sin(x) / x with noise of variance 0.01, inputs on [-10, 10], a Gaussian basis of width
1 at each; the test inputs are 1000 points on [-12, 12], the test error is against the noise-free
function. The thesis prints figures of one draw of the noise: a mean squared test error of 0.066 for
least squares and 0.033 for ridge regression with lambda = 1, and the evidence of the one-precision
model highest at a weight variance of 0.0633 and a noise variance of 0.0067. Here are 200 draws, for
the four readings that the text allows: inputs even or random, width 1 with or without the 2 in
exp(-(x - x')^2 / 2).

    python examples/sinc.py --output DIR
    python examples/sinc.py --output DIR --quick    # 20 draws

Written to DIR: sinc.md (table), sinc.png.
"""

import argparse
from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np

from forecast_unc import RVMRegressor, plot

NOISE_VAR, ROWS, SEED = 0.01, 20, 0
PRINTED = {
    "test MSE, least squares": 0.066,
    "test MSE, ridge": 0.033,
    "weight variance": 0.0633,
    "noise variance": 0.0067,
}
# the scale l of exp(-(x - x')^2 / (2 l^2))
WIDTHS = {"with the 2": 1.0, "without the 2": np.sqrt(0.5)}
READINGS = list(product(("even", "random"), WIDTHS))


def sinc(x):
    return np.sinc(x / np.pi)  # numpy's has a factor pi


def one_draw(inputs, lengthscale, rng):
    """The figures of one draw, in the order of PRINTED."""
    x = np.linspace(-10, 10, ROWS) if inputs == "even" else rng.uniform(-10, 10, ROWS)
    y = sinc(x) + np.sqrt(NOISE_VAR) * rng.standard_normal(ROWS)
    test = np.linspace(-12, 12, 1000)

    def bases(points):
        return np.exp(-0.5 * ((points[:, None] - x) / lengthscale) ** 2)

    Phi = bases(x)
    weights = (
        np.linalg.lstsq(Phi, y, rcond=None)[0],
        np.linalg.solve(Phi.T @ Phi + np.eye(ROWS), Phi.T @ y),
    )
    errors = [np.mean((bases(test) @ w - sinc(test)) ** 2) for w in weights]
    rvm = RVMRegressor(prior="shared", bias=False, lengthscales=lengthscale).fit(x[:, None], y)
    # alpha_ is that of standardized targets
    return [*errors, y.var() / rvm.alpha_[0], rvm.noise_std_**2]


def table(figures, draws):
    lines = [
        f"| inputs, width | {draws} draws of | printed | 5 % | median | 95 % | below printed |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for reading, values in figures.items():
        for (name, printed), column in zip(PRINTED.items(), values.T, strict=True):
            low, median, high = np.quantile(column, (0.05, 0.5, 0.95))
            lines.append(
                f"| {', '.join(reading)} | {name} | {printed} | {low:.3g} | {median:.3g} | "
                f"{high:.3g} | {100 * (column < printed).mean():.0f} % |"
            )
    return "\n".join(lines)


def draw(figures, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), sharey=True, layout="constrained")
    for axis, (name, printed), column in zip(axes.flat, PRINTED.items(), range(4), strict=True):
        for (inputs, width), color in zip(figures, plot.COLORS, strict=False):
            values = figures[inputs, width][:, column]
            axis.ecdf(
                values,
                color=color,
                linestyle="-" if inputs == "even" else "--",
                label=f"{inputs} inputs, width {width}",
            )
        axis.axvline(printed, color="black", lw=1, label="printed")
        axis.set_xlabel(name)
    axes[0, 0].set(xscale="log", xlim=(1e-3, 1e3))
    axes[0, 1].set(xscale="log", xlim=(1e-3, 1e0))
    axes[1, 0].set_xlim(0, 0.15)
    axes[1, 1].set(xscale="log", xlim=(2e-4, 5e-2))
    for axis in axes[:, 0]:
        axis.set_ylabel("share of draws below")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=90)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="20 draws")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    draws = 20 if args.quick else 200
    figures = {}
    for inputs, width in READINGS:
        rng = np.random.default_rng(SEED)
        figures[inputs, width] = np.array(
            [one_draw(inputs, WIDTHS[width], rng) for _ in range(draws)]
        )
    text = table(figures, draws) + "\n"
    (args.output / "sinc.md").write_text(text, encoding="utf-8")
    draw(figures, args.output / "sinc.png")
    print(text)


if __name__ == "__main__":
    main()
