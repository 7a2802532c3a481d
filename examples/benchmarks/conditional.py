"""Sizes of the tests of `Backtest.coverage`: how often they reject intervals that are right.

Forecasts of an autoregression of order 1 with known parameters, 24 steps from each origin, whose
errors are correlated; "volatile": the variance of all errors of an origin is drawn, as in volatile
times, and known on average only (Student's t, 4 degrees of freedom). Origins are 24 steps apart, or
6, so that horizons overlap. Groups are all values, quarters of the horizon, single steps, and
origins by turns, as months are. Percent rejected at 5 % by the test of one group, p, and by that of
equal groups, =.

    python examples/benchmarks/conditional.py              # 1000 series each, five minutes
    python examples/benchmarks/conditional.py --quick      # 50
"""

import argparse

import numpy as np
from scipy.stats import norm, t

from forecast_unc.evaluation.conditional import shares_tested

STEPS = 24
KINDS = {"independent": (0.0, False), "phi .9": (0.9, False), "phi 1": (1.0, False)}
KINDS["volatile"] = (0.5, True)


def levels(rng, n_origins, apart, phi, volatile):
    """The least coverage of the interval that holds each value, (origins, steps)."""
    noise = rng.normal(size=(n_origins - 1) * apart + STEPS)
    windows = np.lib.stride_tricks.sliding_window_view(noise, STEPS)[::apart]
    lag = np.subtract.outer(np.arange(STEPS), np.arange(STEPS))
    weights = np.where(lag >= 0, phi ** np.maximum(lag, 0.0), 0.0)
    z = windows @ weights.T / np.sqrt((weights**2).sum(axis=1))
    if not volatile:
        return np.abs(2 * norm.cdf(z) - 1)
    scale = np.sqrt(4 / rng.chisquare(4, size=(n_origins, 1)))
    return np.abs(2 * t.cdf(scale * z, 4) - 1)


def rejected(rng, n_origins, apart, kind, repeats):
    """Percent rejected, by coverage, groups and test."""
    origin, step = (places.ravel() for places in np.indices((n_origins, STEPS)))
    units = origin if apart >= STEPS else origin * apart // (2 * STEPS)  # as `Backtest.coverage`
    groupings = {"all": 0 * step, "quarter": step // 6, "step": step, "origins": units % 4}
    counts = {}
    for _ in range(repeats):
        needed = levels(rng, n_origins, apart, *KINDS[kind]).ravel()
        for nominal in (0.8, 0.95):
            held = (needed <= nominal).astype(float)
            for name, groups in groupings.items():
                if groups.max() == 0 and name == "origins":
                    continue
                tests = shares_tested(held, groups, units, nominal)
                counts.setdefault((nominal, name, "p"), []).append(tests.p_value[-1] < 0.05)
                counts.setdefault((nominal, name, "="), []).append(tests.p_equal < 0.05)
    return {key: 100 * np.mean(each) for key, each in counts.items() if key[1:] != ("all", "=")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="50 series each, not 1000")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    for apart, sizes in {24: (2, 5, 10, 20, 60), 6: (20, 80, 240)}.items():
        for n_origins in sizes:
            for kind in KINDS:
                table = rejected(rng, n_origins, apart, kind, 50 if args.quick else 1000)
                print(f"{n_origins} origins, {apart} apart, {kind}")
                for nominal in (0.8, 0.95):
                    cells = [
                        f"{name} {test}: {value:.1f}"
                        for (level, name, test), value in table.items()
                        if level == nominal
                    ]
                    print(f"  {nominal:.2f}  {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
