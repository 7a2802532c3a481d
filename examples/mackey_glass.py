"""Mackey-Glass series, 100 steps ahead: a reconstruction of Girard et al. (2003).

Girard, Rasmussen, Quinonero-Candela and Murray-Smith (NIPS 15, 2003) iterate a Gaussian process on
lagged values of the Mackey-Glass series; relevance vector machines are added here, on the same
pairs and from the same origins: RVM, RVM* (variance="augmented", which has no exact propagation)
and an RVM with adapted length-scales. The setting: tau = 17, one value a unit of time, 16 lags,
100 training pairs drawn at random, noise of variance 0.001 on the series normalized to mean 0 and
variance 1, horizon 100. The sections of the series, the seeds, the pairs and the kernel (with a
linear term) are not those of the paper, and neither are the figures.

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
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, GPRegressor, RVMRegressor, datasets, plot, scores

LAGS, PAIRS, STEPS, NOISE_VAR = 16, 100, 100, 0.001
TRAIN, TEST = 2000, 2000  # values that the pairs are drawn from, and that are forecast
SHOWN = [1, 10, 50, 100]

# name: propagation, path_consistent
PROPAGATIONS = {
    "naive": ("naive", True),
    "Taylor, classic": ("taylor", False),
    "Taylor, path-consistent": ("taylor", True),
    "exact, classic": ("exact", False),
    "exact, path-consistent": ("exact", True),
    "Monte Carlo, classic": ("monte_carlo", False),
    "Monte Carlo, path-conditioned": ("monte_carlo", True),
}


class RandomPairs:
    """Mixin: a regressor that learns from a few rows drawn at random."""

    def fit(self, X, y):
        rows = np.random.default_rng(self.random_state).choice(len(y), PAIRS, replace=False)
        return super().fit(X[rows], y[rows])


class GP(RandomPairs, GPRegressor):
    """Gaussian process of some pairs."""


class RVM(RandomPairs, RVMRegressor):
    """Relevance vector machine of the same pairs."""


REGRESSORS = {
    "GP": GP(),
    "RVM": RVM(prior="individual"),
    "RVM*": RVM(prior="individual", variance="augmented"),
    "RVM, adaptive": RVM(prior="individual", adapt_lengthscales=True),
}
# The augmented posterior has no closed form for uncertain inputs.
METHODS = [
    (regressor, name)
    for regressor in REGRESSORS
    for name, (propagation, _) in PROPAGATIONS.items()
    if not (regressor == "RVM*" and propagation == "exact")
]


def normalized_series():
    clean = datasets.make_mackey_glass(TRAIN + TEST)
    return (clean - clean.mean()) / clean.std(ddof=0)


def fitted(y, pairs, rng, seed):
    """A forecaster of each regressor, all on the same pairs."""
    start = int(rng.integers(TRAIN - PAIRS - LAGS)) if pairs == "consecutive" else 0
    known = y[:TRAIN] if pairs == "random" else y[start : start + PAIRS + LAGS]
    return {
        name: Forecaster(clone(regressor).set_params(random_state=seed), lags=LAGS).fit(known)
        for name, regressor in REGRESSORS.items()
    }


def one_seed(seed, clean, n_origins, n_samples, pairs):
    """Scores by step, scores of the horizon's mean, refusals, and the first origin's forecasts."""
    rng = np.random.default_rng(seed)
    y = clean + rng.normal(0.0, np.sqrt(NOISE_VAR), len(clean))
    origins = np.sort(rng.choice(np.arange(TRAIN + LAGS, len(y) - STEPS), n_origins, replace=False))
    by_step, of_mean, refused, shown = [], [], [], {}
    with threadpool_limits(1):
        models = fitted(y, pairs, rng, seed)
        for origin in origins:
            here = {name: model.apply(y[origin - LAGS : origin]) for name, model in models.items()}
            actual = y[origin : origin + STEPS]
            for method in METHODS:
                propagation, path_consistent = PROPAGATIONS[method[1]]
                try:
                    ahead = here[method[0]].forecast(
                        STEPS,
                        propagation=propagation,
                        path_consistent=path_consistent,
                        n_samples=n_samples,
                        random_state=int(origin),
                    )
                except ValueError as error:
                    if propagation != "taylor" or "variance" not in str(error):
                        raise
                    refused.append(method)  # the expansion has a negative variance
                    continue
                by_step.append(score(method, seed, ahead, actual))
                average = ahead.aggregate("mean")
                of_mean.append(
                    score(method, seed, average, pd.Series(actual.mean(), average.index))
                )
                if origin == origins[0]:
                    shown[method] = ahead
    history = y[origins[0] - 60 : origins[0]]
    picture = (history, y[origins[0] : origins[0] + STEPS], shown)
    return pd.concat(by_step), pd.concat(of_mean), refused, picture


def score(method, seed, ahead, actual):
    row = ahead.score(actual)
    band = ahead.interval(0.95)
    return pd.DataFrame(
        {
            "regressor": method[0],
            "method": method[1],
            "seed": seed,
            "step": np.arange(1, len(ahead) + 1),
            "squared_error": row["error"].to_numpy() ** 2,
            "nlpd": row["nlpd"].to_numpy(),
            "coverage": scores.coverage(actual, band["lower"], band["upper"]),
        }
    )


def tables(by_step, of_mean, refused):
    """Markdown: squared error and NLPD by step, coverage, and the mean of the horizon."""
    which = ["regressor", "method"]
    steps = by_step.groupby([*which, "step"])[["squared_error", "nlpd", "coverage"]].mean()
    pooled = by_step.groupby(which)[["squared_error", "nlpd", "coverage"]].mean()
    by_seed = by_step.groupby([*which, "seed"])["nlpd"].mean().groupby(which).agg(["min", "max"])
    average = of_mean.groupby(which)[["nlpd", "coverage"]].mean()
    error_rows, density_rows = [], []
    for method in METHODS:
        if method not in pooled.index:
            continue
        at, all_steps, mean, seeds = (
            frame.loc[method] for frame in (steps, pooled, average, by_seed)
        )
        at = at.loc[SHOWN]
        error_rows.append(
            [*method, *(f"{v:.4f}" for v in [*at["squared_error"], all_steps["squared_error"]])]
        )
        density_rows.append(
            [
                *method,
                *(f"{v:.2f}" for v in at["nlpd"]),
                f"**{all_steps['nlpd']:.2f}**",
                f"{seeds['min']:.2f} to {seeds['max']:.2f}",
                f"{100 * all_steps['coverage']:.1f} %",
                f"{mean['nlpd']:.2f}",
                f"{100 * mean['coverage']:.1f} %",
                str(refused.count(method)),
            ]
        )
    at_steps = [f"k = {k}" for k in SHOWN]
    return "\n".join(
        [
            "Squared error, normalized units:",
            "",
            *markdown(["", "", *at_steps, "average of 1-100"], error_rows),
            "",
            "Negative log predictive density (NLPD, nats), and coverage of the 95 % band:",
            "",
            *markdown(
                [
                    "",
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
    yield "|---|---|" + "---:|" * (len(head) - 2)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def draw(by_step, picture, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    history, actual, shown = picture
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), width_ratios=(1.3, 1))
    ahead = {
        "naive": shown["GP", "naive"],
        "exact": shown["GP", "exact, path-consistent"],
    }
    plot.compare(ahead, history=history, actual=actual, ax=left)
    left.set(xlabel="time", ylabel="Mackey-Glass, normalized")

    lines = {
        "GP, naive": ("GP", "naive", plot.COLORS[0], "-"),
        "GP, exact": ("GP", "exact, path-consistent", plot.COLORS[1], "-"),
        "GP, Monte Carlo": ("GP", "Monte Carlo, path-conditioned", "black", "--"),
        "RVM, naive": ("RVM", "naive", plot.COLORS[0], ":"),
        "RVM, exact": ("RVM", "exact, path-consistent", plot.COLORS[2], "-"),
        "RVM*, Monte Carlo": ("RVM*", "Monte Carlo, path-conditioned", plot.COLORS[2], "--"),
    }
    mean = by_step.groupby(["regressor", "method", "step"])["nlpd"].mean()
    for label, (regressor, name, color, dashes) in lines.items():
        line = mean[regressor, name]
        right.plot(line.index, line, color=color, linestyle=dashes, label=label)
    right.set_yscale("symlog", linthresh=2, linscale=1.2)
    ticks = [-2, -1, 0, 1, 2, 5, 10, 20, 50]
    right.set_yticks(ticks, [f"{tick}" for tick in ticks])
    right.minorticks_off()
    right.set(xlabel="steps ahead", ylabel="NLPD (nats), logarithmic above 2")
    right.grid(visible=True, color="0.9", lw=0.8)
    right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize="small")
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
    steps = by_step.groupby(["regressor", "method", "step"])[
        ["squared_error", "nlpd", "coverage"]
    ].mean()
    steps.to_csv(args.output / "mackey_glass_by_step.csv", float_format="%.6g")
    draw(by_step, results[0][3], args.output / "mackey_glass.png")
    print(text)


if __name__ == "__main__":
    main()
