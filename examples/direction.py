"""Will the next value be higher? Probabilities of a rise, from lags, by a relevance vector machine.

One step ahead, rolling origin: the machine is trained on the first half of a series, predicts the
probability of a rise for the next ten values (lags always observed), is refitted, and so on.
It is compared with the base rate of rises so far, with the rate after a rise and after a fall,
with logistic regression on the same lags, and with the probability of a rise under the forecast of
a Gaussian process trained on the values themselves.

Sunspots are shown, the most predictable series. There the machine is far better than the rates,
equal to logistic regression, and a little worse than the Gaussian process, which learns from the
values and not only from their direction. On the other series it is near the base rate, or worse.

    python examples/direction.py --output DIR
    python examples/direction.py --output DIR --quick    # sunspots alone, two refits

Written to DIR: direction.md (tables), direction.csv (every probability), direction.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from forecast_unc import GPRegressor, datasets
from forecast_unc.regression.rvm_classifier import RVMClassifier

LAGS = 9  # the order usually taken for sunspots
BLOCK = 10  # values between refits
RVM, GP, BASE = "RVM classifier", "GP on the values", "base rate"


def others():
    """Series without a yearly cycle, or with it removed by a difference over a year."""
    gdp, elnino, co2 = datasets.load_us_gdp(), datasets.load_elnino(), datasets.load_co2()
    return {
        "Nile, flow": datasets.load_nile(),
        "US GDP, growth over a quarter": np.log(gdp).diff().dropna(),
        "El Niño, change over a year": elnino.diff(12).dropna(),
        "CO2, growth over a year": co2.diff(12).dropna(),
    }


def lagged(series):
    """Inputs (n, LAGS) with the previous value first, the value to come, and its time."""
    v = series.to_numpy()
    X = np.column_stack([v[LAGS - lag : len(v) - lag] for lag in range(1, LAGS + 1)])
    return X, v[LAGS:], series.index[LAGS:]


def probabilities(series, refits=None, everything=True):
    """Probability of a rise by each method, and whether it occurred, for the second half."""
    X, y, index = lagged(series)
    rise, rose = y > X[:, 0], X[:, 0] > X[:, 1]
    first = len(y) // 2
    if refits is not None:
        first = len(y) - refits * BLOCK
    rows = []
    for origin in range(first, len(y), BLOCK):
        past, now = slice(0, origin), slice(origin, min(origin + BLOCK, len(y)))
        columns = {"rise": rise[now]}
        columns[RVM] = RVMClassifier().fit(X[past], rise[past]).predict_proba(X[now])[:, 1]
        columns[BASE] = np.full(len(X[now]), rise[past].mean())
        if everything:
            after = [rise[past][rose[past] == direction].mean() for direction in (False, True)]
            columns["rate after a rise or fall"] = np.array(after)[rose[now].astype(int)]
            logistic = make_pipeline(StandardScaler(), LogisticRegression())
            logistic.fit(X[past], rise[past])
            columns["logistic regression"] = logistic.predict_proba(X[now])[:, 1]
            mean, std = GPRegressor().fit(X[past], y[past]).predict(X[now], return_std=True)
            columns[GP] = ndtr((mean - X[now, 0]) / std)
        rows.append(pd.DataFrame(columns, index=index[now]))
    return pd.concat(rows)


def brier(p, rise):
    return (p - rise) ** 2


def log_score(p, rise):
    return -np.log(np.where(rise, p, 1 - p))


def comparison(frame):
    """Scores of every method; lower is better."""
    rise = frame["rise"].to_numpy()
    lines = [
        "|  | Brier score | gain on the base rate (± standard error) | log score (nats) | hits |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in frame.columns.drop("rise"):
        p = frame[name].to_numpy()
        gain = brier(frame[BASE].to_numpy(), rise) - brier(p, rise)
        margin = f"{gain.mean():.3f} ± {gain.std() / np.sqrt(len(gain)):.3f}"
        lines.append(
            f"| {name} | {brier(p, rise).mean():.3f} | {'' if name == BASE else margin} | "
            f"{log_score(p, rise).mean():.3f} | {100 * ((p > 0.5) == rise).mean():.0f} % |"
        )
    return "\n".join(lines)


def overview(frames):
    """Brier and log score of the machine and of the base rate, a series a row."""
    lines = [
        "| series | forecasts | Brier: RVM | base rate | log score: RVM | base rate |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, frame in frames.items():
        rise = frame["rise"].to_numpy()
        scores = [
            f"{score(frame[method].to_numpy(), rise).mean():.3f}"
            for score in (brier, log_score)
            for method in (RVM, BASE)
        ]
        lines.append(f"| {name} | {len(frame)} | {' | '.join(scores)} |")
    return "\n".join(lines)


def draw(series, frame, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    top = figure.add_subplot(grid[0, 0])
    below = figure.add_subplot(grid[1, 0], sharex=top)
    right = figure.add_subplot(grid[:, 1])
    p, rise, time = frame[RVM].to_numpy(), frame["rise"].to_numpy(), frame.index

    top.plot(series[time[0] :], color="0.75", lw=1, zorder=1)
    points = top.scatter(time, series[time], c=p, cmap="coolwarm", vmin=0, vmax=1, s=18)
    figure.colorbar(points, ax=top, label="forecast prob. of a rise", pad=0.01)
    top.set(ylabel="sunspot number", title="Values, colored by the forecast probability of a rise")

    below.axhspan(0.5, 1.0, color="0.95", zorder=0)
    below.plot(time, p, color="0.6", lw=1, zorder=1)
    for came, marker, color, label in (
        (True, "^", "C3", "rise observed"),
        (False, "v", "C0", "fall observed"),
    ):
        below.plot(time[rise == came], p[rise == came], marker, color=color, ms=4, label=label)
    below.plot(time, frame[BASE], "k--", lw=1, label="base rate")
    below.set(ylim=(-0.03, 1.03), ylabel="probability of a rise")
    below.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)

    edges = np.linspace(0, 1, 6)
    right.plot([0, 1], [0, 1], color="0.6", lw=1)
    for name, color in ((RVM, "C0"), (GP, "C1"), ("logistic regression", "C2")):
        which = np.clip(np.digitize(frame[name], edges) - 1, 0, 4)
        bins = pd.DataFrame({"p": frame[name].to_numpy(), "rise": rise}).groupby(which)
        means, count = bins.mean(), bins.size()
        error = np.sqrt(means["p"] * (1 - means["p"]) / count)  # if the probabilities are right
        right.errorbar(
            means["p"], means["rise"], error, fmt="o-", color=color, ms=4, lw=1, label=name
        )
    right.set(
        xlabel="forecast probability",
        ylabel="frequency of a rise",
        title="Calibration (± binomial std)",
        aspect="equal",
        ylim=(-0.05, 1.05),
    )
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), frameon=False)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="sunspots alone, two refits")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    series = datasets.load_sunspots()
    frame = probabilities(series, refits=2 if args.quick else None)
    frame.to_csv(args.output / "direction.csv", index_label="year")
    draw(series, frame, args.output / "direction.png")
    text = (
        f"Sunspots, {len(frame)} years from {frame.index[0].year} on, one year ahead, {LAGS} lags, "
        f"refitted every {BLOCK} years.\n\n{comparison(frame)}\n"
    )
    if not args.quick:
        frames = {name: probabilities(s, everything=False) for name, s in others().items()}
        text += f"\nOther series, the same way.\n\n{overview(frames)}\n"
    (args.output / "direction.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
