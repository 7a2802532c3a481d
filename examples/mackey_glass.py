"""Mackey-Glass series, 100 steps ahead: a reconstruction of Girard et al. 2003 with our figures.

Girard, Rasmussen, Quinonero-Candela and Murray-Smith (NIPS 15, 2003) iterate a Gaussian process on
lagged values of the Mackey-Glass series. The setting: tau = 17, one value a unit of time, 16 lags,
100 training pairs drawn at random, noise of variance 0.001 on the series normalized to mean 0 and
variance 1, horizon 100. The stretches, the seeds, the pairs and the kernel (with a linear term) are
ours, so that no figure it prints is one of the paper.

    python examples/mackey_glass.py --output DIR              # 10 seeds, 25 origins each
    python examples/mackey_glass.py --output DIR --quick      # a small version, in seconds
    python examples/mackey_glass.py --pairs consecutive ...   # 100 pairs from 116 values in a row

Written to DIR: mackey_glass.md (tables), mackey_glass_by_step.csv, mackey_glass.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, GPRegressor, datasets, plot, scores

LAGS, PAIRS, STEPS, NOISE_VAR = 16, 100, 100, 0.001
TRAIN, TEST = 2000, 2000  # values of the stretch the pairs are drawn from, and of the test stretch
SHOWN = [1, 10, 50, 100]

# name: propagation, path_consistent
METHODS = {
    "naive": ("naive", True),
    "Taylor, classic": ("taylor", False),
    "Taylor, path-consistent": ("taylor", True),
    "exact, classic": ("exact", False),
    "exact, path-consistent": ("exact", True),
    "Monte Carlo, classic": ("monte_carlo", False),
    "Monte Carlo, path-conditioned": ("monte_carlo", True),
}


class RandomPairs(GPRegressor):
    """A Gaussian process that learns from a few rows drawn at random."""

    def __init__(self, n_pairs=PAIRS, random_state=None):
        super().__init__(random_state=random_state)
        self.n_pairs = n_pairs

    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state)
        rows = rng.choice(len(y), self.n_pairs, replace=False)
        return super().fit(X[rows], y[rows])


def normalized_series():
    clean = datasets.make_mackey_glass(TRAIN + TEST)
    return (clean - clean.mean()) / clean.std(ddof=0)


def fitted(y, pairs, rng, seed):
    if pairs == "random":
        return Forecaster(RandomPairs(random_state=seed), lags=LAGS).fit(y[:TRAIN])
    start = int(rng.integers(TRAIN - PAIRS - LAGS))
    return Forecaster(lags=LAGS).fit(y[start : start + PAIRS + LAGS])


def one_seed(seed, clean, n_origins, n_samples, pairs):
    """Scores by step, scores of the horizon's mean, refusals, and the first origin's forecasts."""
    rng = np.random.default_rng(seed)
    y = clean + rng.normal(0.0, np.sqrt(NOISE_VAR), len(clean))
    origins = np.sort(rng.choice(np.arange(TRAIN + LAGS, len(y) - STEPS), n_origins, replace=False))
    by_step, of_mean, refused, shown = [], [], [], {}
    with threadpool_limits(1):
        model = fitted(y, pairs, rng, seed)
        for origin in origins:
            here = model.apply(y[origin - LAGS : origin])
            actual = y[origin : origin + STEPS]
            for name, (propagation, path_consistent) in METHODS.items():
                try:
                    ahead = here.forecast(
                        STEPS,
                        propagation=propagation,
                        path_consistent=path_consistent,
                        n_samples=n_samples,
                        random_state=int(origin),
                    )
                except ValueError as error:
                    if propagation != "taylor" or "variance" not in str(error):
                        raise
                    refused.append(name)  # the expansion gave a negative variance
                    continue
                by_step.append(score(name, seed, ahead, actual))
                average = ahead.aggregate("mean")
                of_mean.append(score(name, seed, average, pd.Series(actual.mean(), average.index)))
                if origin == origins[0]:
                    shown[name] = ahead
    history = y[origins[0] - 60 : origins[0]]
    picture = (history, y[origins[0] : origins[0] + STEPS], shown)
    return pd.concat(by_step), pd.concat(of_mean), refused, picture


def score(name, seed, ahead, actual):
    row = ahead.score(actual)
    band = ahead.interval(0.95)
    return pd.DataFrame(
        {
            "method": name,
            "seed": seed,
            "step": np.arange(1, len(ahead) + 1),
            "squared_error": row["error"].to_numpy() ** 2,
            "nlpd": row["nlpd"].to_numpy(),
            "coverage": scores.coverage(actual, band["lower"], band["upper"]),
        }
    )


def tables(by_step, of_mean, refused):
    """Markdown: squared error and NLPD by step, coverage, and the mean of the horizon."""
    names = [name for name in METHODS if name in set(by_step["method"])]
    steps = by_step.groupby(["method", "step"])[["squared_error", "nlpd", "coverage"]].mean()
    pooled = by_step.groupby("method")[["squared_error", "nlpd", "coverage"]].mean()
    seeds = by_step.groupby(["method", "seed"])["nlpd"].mean().groupby("method").agg(["min", "max"])
    average = of_mean.groupby("method")[["nlpd", "coverage"]].mean()
    error_rows, density_rows = [], []
    for name in names:
        at = steps.loc[name].loc[SHOWN]
        error_rows.append(
            [name, *(f"{v:.4f}" for v in [*at["squared_error"], pooled["squared_error"][name]])]
        )
        density_rows.append(
            [
                name,
                *(f"{v:.2f}" for v in at["nlpd"]),
                f"**{pooled['nlpd'][name]:.2f}**",
                f"{seeds['min'][name]:.2f} to {seeds['max'][name]:.2f}",
                f"{100 * pooled['coverage'][name]:.1f} %",
                f"{average['nlpd'][name]:.2f}",
                f"{100 * average['coverage'][name]:.1f} %",
                str(refused.count(name)),
            ]
        )
    at_steps = [f"k = {k}" for k in SHOWN]
    return "\n".join(
        [
            "Squared error, normalized units:",
            "",
            *markdown(["", *at_steps, "average of 1-100"], error_rows),
            "",
            "Negative log predictive density (NLPD, nats), and coverage of the 95 % band:",
            "",
            *markdown(
                [
                    "",
                    *at_steps,
                    "average of 1-100",
                    "average, by seed",
                    "coverage",
                    "mean of the 100 values: NLPD",
                    "its coverage",
                    "refused",
                ],
                density_rows,
            ),
        ]
    )


def markdown(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def draw(by_step, picture, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    history, actual, shown = picture
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), width_ratios=(1.3, 1))
    ahead = {"naive": shown["naive"], "exact": shown["exact, path-consistent"]}
    plot.compare(ahead, history=history, actual=actual, ax=left)
    left.set(xlabel="time", ylabel="Mackey-Glass, normalized")

    lines = [
        ("naive", plot.COLORS[0], "-"),
        ("Taylor, path-consistent", plot.COLORS[2], ":"),
        ("exact, path-consistent", plot.COLORS[1], "-"),
        ("Monte Carlo, path-conditioned", "black", "--"),
    ]
    mean = by_step.groupby(["method", "step"])["nlpd"].mean()
    for name, color, dashes in lines:
        if name in mean:
            right.plot(mean[name].index, mean[name], color=color, linestyle=dashes, label=name)
    right.set_yscale("symlog", linthresh=2, linscale=1.2)
    ticks = [-2, -1, 0, 1, 2, 5, 10, 20, 50]
    right.set_yticks(ticks, [f"{tick}" for tick in ticks])
    right.minorticks_off()
    right.set(xlabel="steps ahead", ylabel="NLPD (nats), logarithmic above 2")
    right.grid(visible=True, color="0.9", lw=0.8)
    right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="2 seeds, 2 origins, 50 paths")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--origins", type=int, default=25, help="origins a seed")
    parser.add_argument("--samples", type=int, default=1000, help="Monte Carlo paths")
    parser.add_argument("--pairs", choices=("random", "consecutive"), default="random")
    parser.add_argument("--n-jobs", type=int, default=2, help="worker processes")
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.origins, args.samples, args.n_jobs = 2, 2, 50, 1
    clean = normalized_series()
    results = Parallel(n_jobs=args.n_jobs)(
        delayed(one_seed)(seed, clean, args.origins, args.samples, args.pairs)
        for seed in range(args.seeds)
    )
    by_step = pd.concat([result[0] for result in results], ignore_index=True)
    of_mean = pd.concat([result[1] for result in results], ignore_index=True)
    refused = [name for result in results for name in result[2]]
    text = (
        f"{args.seeds} seeds, {args.origins} origins each, {PAIRS} {args.pairs} training pairs, "
        f"{args.samples} Monte Carlo paths.\n\n" + tables(by_step, of_mean, refused) + "\n"
    )
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "mackey_glass.md").write_text(text, encoding="utf-8")
    steps = by_step.groupby(["method", "step"])[["squared_error", "nlpd", "coverage"]].mean()
    steps.to_csv(args.output / "mackey_glass_by_step.csv", float_format="%.6g")
    draw(by_step, results[0][3], args.output / "mackey_glass.png")
    print(text)


if __name__ == "__main__":
    main()
