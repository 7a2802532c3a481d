"""Pictures of the theory pages and of fan charts, each of the smallest case that shows its point.

    python examples/theory.py --output docs/img            # all, some ten seconds
    python examples/theory.py --output docs/img --only averages

Written to DIR: theory_NAME.png.
"""

import numpy as np
import pandas as pd
from guides import write
from scipy.stats import norm

from forecast_unc import Forecast, Forecaster, GPRegressor, datasets, plot
from forecast_unc.distributions.power import PowerTransform

QUICK = "transforms"
BLUE, RED, GREEN, _, AMBER, _ = plot.COLORS


def title(ax, text):
    ax.set_title(text, loc="left", fontsize="medium")


def legend_above(figure, ax, **options):
    handles, labels = ax.get_legend_handles_labels()
    given = {"ncols": len(labels), "fontsize": "small", "frameon": False} | options
    figure.legend(handles, labels, loc="outside upper left", **given)


def density(forecast, grid):
    """Density of the first step of a forecast on a grid, by differences of its cdf."""
    return np.gradient(forecast.cdf(grid).iloc[0].to_numpy(), grid)


def one(mean, std, **given):
    return Forecast(pd.RangeIndex(1), [mean], [[std**2]], **given)


def rows(n, seed):
    """Rows of a function that bends, with noise."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-4, 4, n))
    return x[:, None], 2 * np.sin(1.3 * x) + 0.4 * x + 0.25 * rng.standard_normal(n)


def draw_one_step(figure):
    X, y = rows(40, 0)
    model = GPRegressor().fit(X, y)
    mean, std = 0.8, 0.7
    grid = np.linspace(-4, 4, 200)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    center, spread = model.predict(grid[:, None], return_std=True)
    left.fill_between(grid, center - 2 * spread, center + 2 * spread, color=BLUE, alpha=0.25, lw=0)
    left.plot(grid, center, color=BLUE, label="function, 95 % band")
    left.plot(X[:, 0], y, ".", color="black", ms=4, label="rows")
    shown = -4 + 3 * norm.pdf(grid, mean, std)
    left.fill_between(grid, -4, shown, color=AMBER, alpha=0.5, lw=0, label="density of the input")
    left.set(xlabel="input: the value before", ylabel="next value", ylim=(-4, 4.5))
    rng = np.random.default_rng(1)
    inputs = rng.normal(mean, std, 40_000)
    means, stds = model.predict(inputs[:, None], return_std=True)
    drawn = rng.normal(means, stds)
    right.hist(drawn, 80, density=True, orientation="horizontal", color="0.8")
    levels = np.linspace(-4, 4.5, 300)
    exact = model.predict_uncertain([mean], [[std**2]])
    plain = model.predict([[mean]], return_std=True)
    right.plot(norm.pdf(levels, exact.mean, np.sqrt(exact.var)), levels, color=BLUE)
    right.plot(norm.pdf(levels, *map(float, np.ravel(plain))), levels, "--", color=RED)
    right.set(xlabel="density of the next value", xlim=(0, None))
    for color, line, name in ((BLUE, "-", "exact moments"), (RED, "--", "mean input, as if known")):
        left.plot([], [], line, color=color, label=name)
    left.fill([], [], color="0.8", label="draws")
    legend_above(figure, left, ncols=3)


def walk(n, phi, seed):
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = phi * y[t - 1] + rng.standard_normal()
    return pd.Series(y + 10, index=pd.RangeIndex(n))


def draw_horizon(figure):
    y = walk(60, 0.95, 3)
    model = Forecaster(GPRegressor(), lags=2).fit(y)
    left, right = figure.subplots(1, 2)
    past = y.iloc[-25:]
    left.plot(past.index, past, color="black", lw=1)
    steps = np.arange(1, 25)
    for name, color, line, options in (
        ("Monte Carlo paths", "0.4", ":", {"propagation": "monte_carlo", "n_samples": 4000}),
        ("path-consistent", BLUE, "-", {"propagation": "exact"}),
        ("independent functions", RED, "--", {"propagation": "exact", "path_consistent": False}),
    ):
        ahead = model.forecast(24, random_state=0, **options)
        band = ahead.interval(0.95)
        left.plot(band.index, band, line, color=color)
        sums = [ahead.first(int(k)).aggregate("sum").std.item() for k in steps]
        right.plot(steps, sums, line, color=color, label=name)
    left.set(xlabel="time", ylabel="value")
    title(left, "95 % bands of the steps")
    title(right, "std of the sum of the first steps")
    right.set(xlabel="steps", ylim=(0, None))
    legend_above(figure, right)


def draw_propagations(figure):
    y = datasets.load_sunspots()[:1980]
    model = Forecaster(GPRegressor(), lags=9).fit(y)
    paths = model.forecast(12, propagation="monte_carlo", n_samples=8000, random_state=0)
    axes = figure.subplots(1, 3)
    for ax, step in zip(axes, (1, 5, 12), strict=True):
        drawn = paths.paths.iloc[step - 1].to_numpy()
        low, high = np.quantile(drawn, [0.0005, 0.9995])
        ax.hist(
            drawn, np.linspace(low, high, 60), density=True, color="0.8", label="Monte Carlo paths"
        )
        grid = np.linspace(low, high, 300)
        for name, color, line in (
            ("mixture", GREEN, "-"), ("exact", BLUE, "--"), ("naive", RED, ":"),
        ):  # fmt: skip
            ahead = model.forecast(12, propagation=name)[step - 1 : step]
            ax.plot(grid, density(ahead, grid), line, color=color, label=name)
        title(ax, f"{step} year{'s' * (step > 1)} ahead")
        ax.set(xlabel="sunspots", yticks=[], ylim=(0, None))
    axes[0].set_ylabel("density")
    legend_above(figure, axes[0])


def draw_regions(figure):
    rng, values = np.random.default_rng(2), [1.0]
    while len(values) < 200 or abs(values[-1]) > 0.1:  # until it is between its two sides
        values.append(1.5 * values[-1] - 0.5 * values[-1] ** 3 + 0.3 * rng.standard_normal())
    y = pd.Series(values[-200:], name="value")
    ahead = Forecaster(GPRegressor(), lags=1).fit(y).forecast(12)
    for ax, regions in zip(figure.subplots(1, 2, sharey=True), (False, None), strict=True):
        ahead.plot(y[-25:], ax=ax, regions=regions, legend=False)
        title(ax, "central intervals" if regions is False else "shortest regions")
    legend_above(figure, ax)


def draw_questions(figure):
    y = walk(120, 0.9, 1)
    ahead = Forecaster(GPRegressor(), lags=2).fit(y).forecast(24, propagation="exact")
    left, right = figure.subplots(1, 2)
    left.plot(ahead.sample(15, random_state=4), color="0.7", lw=0.7)
    for name, band, color, line in (
        ("each step with 90 %", ahead.interval(0.9), BLUE, "--"),
        ("the whole path with 90 %", ahead.simultaneous_interval(0.9), RED, "-"),
    ):
        for side in band:
            left.plot(band[side], line, color=color, label=name if side == "lower" else None)
    left.plot([], [], color="0.7", label="sample paths")
    left.set(xlabel="time", ylabel="value")
    title(left, "two bands")
    grid = np.linspace(5, 16, 300)
    for name, color, line, asked in (
        ("last step", "black", ":", ahead[-1:]),
        ("mean of the steps", BLUE, "-", ahead.aggregate("mean")),
        ("largest", RED, "--", ahead.aggregate("max")),
    ):
        right.plot(grid, asked.cdf(grid).iloc[0], line, color=color, label=name)
    right.set(xlabel="value", ylim=(0, 1))
    title(right, "probability up to a value")
    legend_above(figure, left)
    right.legend(fontsize="small", frameon=False)


def draw_transforms(figure):
    axes = figure.subplots(1, 3)
    log = one(0.5, 0.6, transform=PowerTransform(0.0))
    normal = one(1.2, 1.4)
    grid = np.linspace(-2.5, 6, 400)
    positive = grid[grid > 0]
    axes[0].plot(positive, density(log, positive), color=BLUE)
    for value, name, line in ((log.mean, "mean", "-"), (log.median, "median", "--")):
        axes[0].axvline(value.item(), color="0.3", ls=line, lw=1, label=name)
    axes[0].legend(fontsize="small", frameon=False)
    title(axes[0], "a normal logarithm")
    axes[1].plot(grid, density(normal, grid), ":", color="0.5", label="before")
    bounded = normal.censored(0.0)
    axes[1].plot(positive, density(normal, positive), color=BLUE, label="bound at 0")
    atom = bounded.atoms["probability"].item()
    axes[1].bar([0.0], [atom], 0.15, color=BLUE)
    axes[1].text(-0.2, atom + 0.01, f"{atom:.2f} at 0", ha="right", fontsize="small")
    axes[1].legend(fontsize="small", frameon=False, loc="upper right")
    axes[1].set_ylim(0, 0.42)
    title(axes[1], "at or above 0")
    counts = bounded.whole().atoms
    axes[2].bar(counts["value"], counts["probability"], 0.7, color=BLUE)
    axes[2].set_xlim(-0.7, 6.5)
    title(axes[2], "counts")
    for ax in axes:
        ax.set_xlabel("value")
    axes[0].set_ylabel("density or probability")


def draw_smoothing(figure):
    from forecast_unc import baselines

    axes = figure.subplots(1, 2)
    quick = walk(60, 1.0, 11)
    steady = 10 + pd.Series(np.random.default_rng(4).standard_normal(60))
    for ax, y, name in zip(axes, (steady, quick), ("noise", "a random walk"), strict=True):
        ahead = baselines.ETS().fit(y).forecast(12)
        ahead.plot(y, coverage=(0.8, 0.95), ax=ax)
        ax.get_legend().remove()
        ax.set(xlabel="time", ylabel="")
        title(ax, name)
    axes[0].set_ylabel("value")
    legend_above(figure, axes[0])


def draw_averages(figure):
    grid = np.linspace(-7, 9, 400)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, apart, name in zip(
        axes, (0.7, 3.0), ("members agree", "members disagree"), strict=True
    ):
        members = [one(-apart / 2, 1.0), one(apart, 1.6)]
        pool = np.mean([density(member, grid) for member in members], axis=0)
        for number, member in enumerate(members):
            label = None if number else "members"
            ax.plot(grid, density(member, grid), color="0.65", lw=1, label=label)
        ax.plot(grid, pool, ":", color="black", label="mixture of the members")
        plain = Forecast.average(members)
        wide = Forecast.average(members, disagreement=True)
        ax.plot(grid, density(plain, grid), "--", color=RED, label="average of quantiles")
        ax.plot(grid, density(wide, grid), color=BLUE, label="with disagreement")
        ax.set_xlabel("value")
        title(ax, name)
    axes[0].set(ylabel="density", ylim=(0, 0.45))
    legend_above(figure, axes[0])


SIZES = {
    "one_step": (7.2, 3.2),
    "horizon": (7.2, 3.0),
    "propagations": (7.2, 2.8),
    "regions": (7.6, 3.0),
    "questions": (7.2, 3.0),
    "transforms": (7.2, 2.6),
    "smoothing": (7.2, 2.9),
    "averages": (7.2, 2.8),
}


def main():
    def draw(page, figure):
        globals()[f"draw_{page}"](figure)

    write(__doc__.splitlines()[0], SIZES, QUICK, "theory", draw)


if __name__ == "__main__":
    main()
