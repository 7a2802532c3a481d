"""Sinc with noisy inputs: each trainer against a plain Gaussian process, and how not to do it.

60 values of sin(x) / x with noise of std 0.05, whose inputs on [-10, 10] were observed with noise
of std 0.5. The 1000 test values are scored at their true inputs, and at inputs as noisy as those of
the rows, with `predict_uncertain`. "joint" maximizes over the true inputs and all hyper-parameters,
the output noise included: the inputs move until they explain the targets.

    python examples/noisy_inputs.py --output DIR
    python examples/noisy_inputs.py --output DIR --quick    # 2 draws

Written to DIR: noisy_inputs.md (table), noisy_inputs.png.
"""

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.optimize import minimize

from forecast_unc import GPRegressor, plot
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence

ROWS, TEST, INPUT_STD, NOISE_STD = 60, 1000, 0.5, 0.05
KNOWN_COV = np.array([[INPUT_STD**2]])
TRAINERS = {
    "plain": (None, False),
    "known noise": (None, True),
    '"nigp"': ("nigp", False),
    '"nigp", noise known': ("nigp", True),
    '"annealed"': ("annealed", False),
    '"annealed", noise known': ("annealed", True),
    '"stochastic_em"': ("stochastic_em", False),
    '"stochastic_em", noise known': ("stochastic_em", True),
}
JOINT = "joint, noise known"
PICTURED = 0


def sinc(x):
    return np.sinc(x / np.pi)  # numpy's has a factor pi


def draw_rows(n, rng):
    """True inputs (n,), inputs as observed (n, 1), and targets (n,)."""
    x = rng.uniform(-10, 10, n)
    observed = x + INPUT_STD * rng.standard_normal(n)
    return x, observed[:, None], sinc(x) + NOISE_STD * rng.standard_normal(n)


def joint_maximum(X, y):
    """Posterior and inputs of the highest joint density, all hyper-parameters learned."""
    mean = y.mean()
    evidence = GaussianProcessEvidence(X, y - mean, linear=False)

    def objective(z):
        (l, a, s), shift = np.exp(z[:3]), z[3:, None]
        inputs, row_var = X + INPUT_STD * shift, np.full(len(y), s**2)
        terms = evidence.of_rows(inputs, np.array([l]), a, np.ones(1), row_var)
        noise = 2.0 * s**2 * terms.row_var.sum()
        inputs = INPUT_STD * terms.inputs[:, 0] + z[3:]
        return terms.value + 0.5 * z[3:] @ z[3:], np.concatenate([terms.hyper[:2], [noise], inputs])

    start = np.concatenate([np.log([2.0, y.std(), 0.5 * y.std()]), np.zeros(len(y))])
    lowest = np.log([0.1, 1e-2, 1e-4])
    bounds = [*zip(lowest, np.log([20.0, 10.0, 1.0]), strict=True), *[(None, None)] * len(y)]
    z = minimize(objective, start, jac=True, bounds=bounds, options={"maxiter": 2000}).x
    l, a, s = np.exp(z[:3])
    process = GaussianProcess(np.array([l]), a, np.zeros(2), s, np.zeros(1), mean, np.zeros(1))
    inputs = X + INPUT_STD * z[3:, None]
    return process.posterior(inputs, y), inputs


def density(y, mean, var):
    """Negative log predictive density, in nats a value."""
    return float(np.mean(0.5 * np.log(2.0 * np.pi * var) + 0.5 * (y - mean) ** 2 / var))


def scores(posterior, input_cov, x, observed, y):
    """NLPD at known and at noisy inputs, error of the function, coverage."""
    mean, var = posterior.predict(x[:, None])
    moments = [posterior.moments(u, input_cov) for u in observed]
    noisy_mean, noisy_var = (np.array([m[k] for m in moments]) for k in (0, 1))
    return [
        density(y, mean, var),
        density(y, noisy_mean, noisy_var),
        float(np.sqrt(np.mean((mean - sinc(x)) ** 2))),
        100.0 * float(np.mean(np.abs(y - mean) < 1.96 * np.sqrt(var))),
        float(np.sqrt(posterior.noise_var)),
        float(np.sqrt(input_cov[0, 0])),
    ]


def one_draw(seed):
    """Scores and seconds of every trainer, and what the picture shows."""
    rng = np.random.default_rng(seed)
    _, X, y = draw_rows(ROWS, rng)
    test = draw_rows(TEST, rng)
    results, shown = {}, {"data": (X, y)}
    for name, (kind, known) in TRAINERS.items():
        start = time.process_time()
        gp = GPRegressor(noisy_inputs=kind, linear=False, random_state=seed)
        gp.fit(X, y, input_cov=KNOWN_COV if known else None)
        seconds = time.process_time() - start
        results[name] = [*scores(gp.posterior_, gp.input_cov_, *test), seconds]
        shown[name] = gp
    start = time.process_time()
    posterior, inputs = joint_maximum(X, y)
    seconds = time.process_time() - start
    results[JOINT] = [*scores(posterior, KNOWN_COV, *test), seconds]
    shown[JOINT] = posterior, inputs
    return results, shown


def table(figures):
    lines = [
        "| | NLPD, known inputs | below plain's | NLPD, noisy inputs | below plain's | "
        "error of the function | in 95 % band | noise std | input noise std | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    plain = np.array(figures["plain"])
    for name, values in figures.items():
        known, noisy, error, covered, noise, own, seconds = np.mean(values, axis=0)
        wins = (np.array(values) < plain).sum(axis=0)
        own_wins = ("", "") if name == "plain" else (f"{w} of {len(plain)}" for w in wins[:2])
        first, second = own_wins
        digits = ".3f" if known < 100 else ".1g"
        lines.append(
            f"| {name} | {known:{digits}} | {first} | {noisy:.3f} | {second} | {error:.3f} | "
            f"{covered:.0f} % | {noise:.3f} | {own:.2f} | {seconds:.2g} |"
        )
    return "\n".join(lines)


def draw(shown, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    X, y = shown["data"]
    grid = np.linspace(-10.5, 10.5, 400)
    panels = {
        "plain": (shown["plain"].posterior_, None),
        '"joint", output noise learned': shown[JOINT],
        '"annealed"': (shown['"annealed", noise known'].posterior_,) * 2,
        '"nigp"': (shown['"nigp", noise known'].posterior_, None),
    }
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, sharey=True)
    figure.set_layout_engine("constrained")
    for axis, (title, (posterior, inputs)) in zip(axes.flat, panels.items(), strict=True):
        mean, var = posterior.predict(grid[:, None])
        band = 1.96 * np.sqrt(var)
        axis.plot(grid, sinc(grid), color="black", lw=1, ls="--", label="sin(x) / x")
        axis.fill_between(grid, mean - band, mean + band, color=plot.COLORS[0], alpha=0.2, lw=0)
        axis.plot(grid, mean, color=plot.COLORS[0], label="mean and 95 % band of an observation")
        axis.plot(X[:, 0], y, "o", ms=3, color="gray", label="inputs as observed")
        if inputs is not None:
            moved = posterior.centers + posterior.input_offset
            axis.plot(moved[:, 0], y, "x", ms=4, color=plot.COLORS[1], label="inputs as estimated")
            axis.plot([X[:, 0], moved[:, 0]], [y, y], color=plot.COLORS[1], lw=0.5)
        axis.set_title(f"{title}: noise std {np.sqrt(posterior.noise_var):.3f}", fontsize=10)
    axes[0, 0].set_ylim(-0.5, 1.3)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="2 draws")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    figures = {}
    for seed in range(2 if args.quick else 30):
        results, shown = one_draw(seed)
        for name, values in results.items():
            figures.setdefault(name, []).append(values)
        if seed == PICTURED:
            draw(shown, args.output / "noisy_inputs.png")
    text = table(figures)
    (args.output / "noisy_inputs.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
