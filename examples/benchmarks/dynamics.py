"""Nonlinear series: the maps and flows of dysts, and some others, by several methods.

    python examples/benchmarks/dynamics.py                    # the page's tables, half an hour
    python examples/benchmarks/dynamics.py --flows 40 --noises "" o03 o10 p03 p10 --seeds 3

Maps are all of `dysts` (Gilpin, NeurIPS 2021), flows the first so many by name, sampled 15 times a
period; beside them the logistic map, a bistable one, a threshold autoregression, Mackey-Glass, and
as real series sunspots and lynx from several origins. The first coordinate is forecast 8 steps
ahead from 100 and 300 values. Noise is normal, with 3 or 10 % of the std of the coordinate: "p" of
the process, in each coordinate and fed back (maps alone; drawn again where the map would
leave the range of its own values), "o" of the observation. Actual values have it, too. The group
"periods" has flows again, ten periods of n / 10 values, of which the next two are forecast:

    python examples/benchmarks/dynamics.py --groups periods --sizes 150 1000 --noises ""

Scores are means over steps: CRPS in stds of the training values, sMAPE of the medians, NLPD of
values in stds (clipped at 20), shares in the 80 and 95 % intervals of steps and of the sum; of the
medians also the valid steps, up to the first at which the sMAPE so far is above 30 (of the last).
What was computed is kept in a folder, a file a series, and only what is missing is computed.
"""

import argparse
import inspect
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from forecast_unc import (
    Forecast,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    datasets,
    scores,
)

Array = np.ndarray
STEPS, BURN_IN, PER_PERIOD = 8, 200, 15
VALID = 30.0  # sMAPE of the steps so far up to which a forecast is valid
SHARES = {"p": "process", "o": "observation"}
# Canadian lynx trapped 1821 to 1934 (Elton and Nicholson 1942).
LYNX = """269 321 585 871 1475 2821 3928 5943 4950 2577 523 98 184 279 409 2285 2685 3409 1824 409
151 45 68 213 546 1033 2129 2536 957 361 377 225 360 731 1638 2725 2871 2119 684 299 236 245 552
1623 3311 6721 4254 687 255 473 358 784 1594 1676 2251 1426 756 299 201 229 469 736 2042 2811 4431
2511 389 73 39 49 59 188 377 1292 4031 3495 587 105 153 387 758 1307 3465 6991 6313 3794 1836 345
382 808 1388 2713 3800 3091 2985 3790 374 81 80 108 229 399 1132 2432 3574 2935 1537 529 485 662
1000 1590 2657 3396"""


def systems(module: object, base: type) -> list[str]:
    """Names of the systems of a module, in its order."""
    classes = inspect.getmembers(module, lambda c: inspect.isclass(c) and issubclass(c, base))
    return [name for name, c in classes if c is not base and c.__module__ == module.__name__]


# --- series


def generator(*key: object) -> np.random.Generator:
    return np.random.default_rng([crc32(str(part).encode()) for part in key])


def of_map(name: str, n: int, process: float, rng: np.random.Generator) -> Array:
    """The first coordinate of n states of a map, after a burn-in."""
    from dysts import maps

    made = getattr(maps, name)()

    def step(state: Array) -> Array:
        return np.asarray(made.rhs(state if len(state) > 1 else state[None]), float).ravel()

    attractor = np.asarray(made.make_trajectory(2000)).reshape(2000, -1)[500:]
    std, room = attractor.std(axis=0), 0.1 * np.ptp(attractor, axis=0)
    low, high = attractor.min(axis=0) - room, attractor.max(axis=0) + room
    if name in ("Circle", "Chirikov"):  # their values drift
        low, high = np.full_like(low, -np.inf), np.full_like(high, np.inf)

    def stays(state: Array) -> bool:
        for _ in range(1 if name == "BlinkingVortexMap" else 20):  # which is slow
            if not ((low <= state) & (state <= high)).all():
                return False
            state = step(state)
        return True

    state, values = attractor[rng.integers(len(attractor))], []
    for _ in range(BURN_IN + n):
        state = moved = step(state)
        for _ in range(20 if process else 0):
            noisy = moved + process * std * rng.standard_normal(len(moved))
            if stays(noisy):
                state = noisy
                break
        values.append(state[0])
    return np.array(values[BURN_IN:])


def of_flow(name: str, n: int, per_period: int, rng: np.random.Generator) -> Array:
    """The first coordinate of a flow, so many values a period, after a burn-in."""
    from dysts import flows

    made = getattr(flows, name)()
    start = rng.integers(BURN_IN)
    times = np.arange(BURN_IN + n) * made.period / per_period
    with np.errstate(all="ignore"):
        solved = solve_ivp(
            lambda t, x: np.asarray(made.rhs(x, t), float),
            (0.0, times[-1]),
            np.asarray(made.ic, float),
            method="LSODA",
            t_eval=times,
            rtol=1e-8,
            atol=1e-10,
        )
    return solved.y[0, start : start + n]


def recursion(step: Callable[[Array, float], float], n: int, std: float, seed: object) -> Array:
    """n values of a stochastic recursion on the last three, with noise of its own."""
    rng, values = generator(seed, "own"), [0.4, 0.4, 0.4]
    for _ in range(BURN_IN + n):
        values.append(step(np.array(values[-3:]), std * rng.standard_normal()))
    return np.array(values[-n:])


OTHERS: dict[str, Callable[[int, object], Array]] = {
    "logistic 3.8": lambda n, seed: recursion(
        lambda p, e: np.clip(3.8 * p[-1] * (1 - p[-1]) + e, 0.01, 0.99), n, 0.01, seed
    ),
    "bistable": lambda n, seed: recursion(
        lambda p, e: 1.5 * p[-1] - 0.5 * p[-1] ** 3 + e, n, 0.25, seed
    ),
    "threshold": lambda n, seed: recursion(
        lambda p, e: (1.5 + 0.6 * p[-1] if p[-2] <= 0 else -1.5 + 0.7 * p[-1]) + e, n, 0.5, seed
    ),
    "Mackey-Glass 17": lambda n, seed: datasets.make_mackey_glass(
        n + 100 * (seed % 10 + 1), random_state=seed
    ).to_numpy()[-n:],
}


def series(group: str, name: str, n: int, noise: str, seed: int) -> tuple[Array, Array]:
    """Training values (n,) and what followed (steps,)."""
    kind, size = (noise[0], int(noise[1:]) / 100) if noise else ("", 0.0)
    steps = n // 5 if group == "periods" else STEPS
    rng, length = generator(name, noise, seed), n + steps
    if group == "real":
        whole = np.array(LYNX.split(), float) if name == "lynx" else datasets.load_sunspots()
        values = np.asarray(whole, float)
        end = len(values) - (7 if name == "lynx" else 20) * seed
        values = values[max(end - length, 0) : end]
    elif group == "others":
        values = OTHERS[name](length, seed)
    elif group == "maps":
        values = of_map(name, length, size if kind == "p" else 0.0, rng)
    else:
        values = of_flow(name, length, n // 10 if group == "periods" else PER_PERIOD, rng)
    if kind == "o":
        values = values + size * values.std() * rng.standard_normal(len(values))
    return values[:-steps], values[-steps:]


# --- methods: a Forecast, paths (steps, k), or means and stds (steps, 2)

Result = Forecast | Array


def own(propagation: str = "auto", regressor: object = None, **options: object) -> Callable:
    def forecast(y: Array, steps: int) -> Result:
        model = Forecaster(regressor, random_state=0, **options).fit(pd.Series(y))
        return model.forecast(steps, propagation=propagation)

    return forecast


def past_values(y: Array, steps: int) -> Result:
    return np.tile(y, (steps, 1))


def iterated(y: Array, steps: int) -> Result:
    """200 paths of a process of scikit-learn on three lags, a value of the function a step."""
    z, rng = (y - y.mean()) / y.std(), np.random.default_rng(0)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0, 1.0]) + WhiteKernel(0.1, (1e-8, 10.0))
    windows = np.lib.stride_tricks.sliding_window_view(z, 4)
    gp = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0)
    gp.fit(windows[:, :3], windows[:, 3])
    paths = np.tile(z[-3:], (200, 1))
    for _ in range(steps):
        mean, std = gp.predict(paths[:, -3:], return_std=True)
        paths = np.column_stack([paths, mean + std * rng.standard_normal(200)])
    return y.mean() + y.std() * paths[:, 3:].T


def arima(y: Array, steps: int) -> Result:
    from statsforecast.models import AutoARIMA

    said = AutoARIMA(season_length=1).forecast(y=y, h=steps, level=[80])
    std = (np.asarray(said["hi-80"]) - np.asarray(said["mean"])) / 1.2815515655
    return np.column_stack([said["mean"], std])


def analogs(y: Array, steps: int) -> Result:
    """What followed the ten past windows that are most like the last, of the best of 1-4 values."""
    k, errors = 10, []
    for d in (1, 2, 3, 4):
        windows = np.lib.stride_tricks.sliding_window_view(y, d)
        after = y[d:]
        apart = ((windows[:-1, None] - windows[None, :-1]) ** 2).sum(axis=2)
        np.fill_diagonal(apart, np.inf)
        near = np.argsort(apart, axis=1)[:, :k]
        errors.append(np.mean((after[near].mean(axis=1) - after) ** 2))
    d = int(np.argmin(errors)) + 1
    windows = np.lib.stride_tricks.sliding_window_view(y, d)
    apart = ((windows[:-steps] - windows[-1]) ** 2).sum(axis=1)
    near = np.argsort(apart)[:k]
    return np.array([y[near + d - 1 + step] for step in range(1, steps + 1)])


class EchoState:
    """A reservoir of 100 tanh units with a ridge regression on its states and the input."""

    def __init__(self, radius: float, gain: float, rng: np.random.Generator) -> None:
        W = rng.standard_normal((100, 100)) * (rng.random((100, 100)) < 0.1)
        self.W = W * radius / np.abs(np.linalg.eigvals(W)).max()
        self.inputs, self.bias = gain * rng.uniform(-1, 1, (100, 1)), rng.uniform(-1, 1, (100, 1))

    def step(self, state: Array, value: Array) -> Array:
        """States (100, k) after values (k,)."""
        return np.tanh(self.W @ state + self.inputs * value + self.bias)

    def fit(self, y: Array, ridge: float, n: int) -> tuple[float, Array]:
        """Learn from n values; the mean square of the errors of the next ones, state at the end."""
        states, state = [], np.zeros((100, 1))
        for value in y:
            state = self.step(state, np.array([value]))
            states.append(np.append(state[:, 0], [value, 1.0]))
        X, target = np.array(states)[20:-1], y[21:]
        used = n - 21
        G = X[:used].T @ X[:used] + ridge * np.eye(102)
        self.weights = np.linalg.solve(G, X[:used].T @ target[:used])
        self.errors = target[:used] - X[:used] @ self.weights
        freedom = np.trace(np.linalg.solve(G, X[:used].T @ X[:used]))
        self.errors *= np.sqrt(used / max(used - freedom, 10))
        rest = target[used:] - X[used:] @ self.weights
        return float(np.mean(rest**2)) if len(rest) else np.inf, state


def echo_state(y: Array, steps: int) -> Result:
    """Paths of ten networks with resampled errors; radius, gain and ridge by the last fifth."""
    z, rng = (y - y.mean()) / y.std(), np.random.default_rng(0)
    grid = [(r, g, a) for r in (0.3, 0.9) for g in (0.5, 1.5) for a in (1e-6, 1e-4, 1e-2, 1.0)]
    n = int(0.8 * len(z))

    def held_out(setting: tuple[float, float, float]) -> float:
        made = [EchoState(*setting[:2], np.random.default_rng(seed)) for seed in (0, 1)]
        return float(np.mean([network.fit(z, setting[2], n)[0] for network in made]))

    radius, gain, ridge = min(grid, key=held_out)
    paths = []
    for seed in range(10):
        network = EchoState(radius, gain, np.random.default_rng(seed))
        _, state = network.fit(z, ridge, len(z))
        state, values = np.repeat(state, 20, axis=1), np.full((1, 20), z[-1])
        for _ in range(steps):
            mean = network.weights @ np.vstack([state, values[-1], np.ones(20)])
            now = np.clip(mean + rng.choice(network.errors, 20), -5, 5)
            state, values = network.step(state, now), np.vstack([values, now])
        paths.append(values[1:])
    return y.mean() + y.std() * np.hstack(paths)


METHODS: dict[str, Callable[[Array, int], Result]] = {
    "Forecaster()": own(),
    "process, exact": own("exact", GPRegressor(), lags=3),
    "process": own("auto", GPRegressor(), lags=3),
    'process, noise="both"': own("auto", GPRegressor(), lags=3, noise="both"),
    "relevance vectors": own("auto", RVMRegressor(), lags=3),
    "reduced rank": own("auto", ReducedRankGPRegressor(), lags=3),
    "scikit-learn's process, iterated": iterated,
    "AutoARIMA": arima,
    "analogs": analogs,
    "echo state network": echo_state,
    "past values": past_values,
}


# --- scores


def of_paths(paths: Array, y: Array) -> tuple[Array, Array]:
    """CRPS (h,) of the distribution of paths, and its quantiles (5, h)."""
    first = np.abs(paths - y[:, None]).mean(axis=1)
    apart = np.abs(paths[:, :, None] - paths[:, None, :]).mean(axis=(1, 2))
    return first - 0.5 * apart, np.quantile(paths, (0.025, 0.1, 0.5, 0.9, 0.975), axis=1)


def scored(result: Result, y: Array, unit: float) -> dict[str, float]:
    """Scores of steps and of the sum; None where there is none."""
    total, nlpd = None, None
    if isinstance(result, Forecast):
        actual = pd.Series(y, result.index)
        table = result.score(actual)
        crps, nlpd = table["crps"].to_numpy(), table["nlpd"].to_numpy()
        at = result.quantile([0.025, 0.1, 0.5, 0.9, 0.975]).to_numpy().T
        whole = result.aggregate("sum").quantile([0.025, 0.1, 0.9, 0.975]).to_numpy()[0]
    elif result.shape[1] == 2:
        mean, std = result.T
        crps, nlpd = scores.crps(y, mean, std), scores.nlpd(y, mean, std)
        at, whole = mean + np.outer([-1.96, -1.2816, 0, 1.2816, 1.96], std), None
    else:
        crps, at = of_paths(result, y)
        whole = np.quantile(result.sum(axis=0), (0.025, 0.1, 0.9, 0.975))
    if whole is not None:
        total = [bool(whole[i] <= y.sum() <= whole[-1 - i]) for i in (1, 0)]
    if nlpd is not None:
        nlpd = float(np.minimum(nlpd - np.log(unit), 20.0).mean())
    smape = 200 * np.abs(at[2] - y) / (np.abs(at[2]) + np.abs(y))
    so_far = smape.cumsum() / np.arange(1, len(y) + 1)
    return {
        "crps": float(crps.mean() / unit),
        "smape": float(smape.mean()),
        "valid": int(np.argmax(np.append(so_far, np.inf) > VALID)),
        "nlpd": nlpd,
        "in": [float(((at[i] <= y) & (y <= at[-1 - i])).mean()) for i in (1, 0)],
        "sum": total,
    }


def computed(key: tuple, methods: list[str], folder: Path) -> dict[str, dict]:
    """Scores of a series by method, from the folder or computed now."""
    path = folder / ("_".join(map(str, key)).replace(" ", "-") + ".json")
    known = json.loads(path.read_text()) if path.exists() else {}
    missing = [name for name in methods if name not in known]
    if missing:
        y, actual = series(*key)
        for name in missing:
            began = time.perf_counter()
            try:
                found = scored(METHODS[name](y, len(actual)), actual, float(y.std()))
            except ValueError as error:  # a path that diverges, or a series that explodes
                found = {"error": str(error)[:200]}
            known[name] = found | {"seconds": time.perf_counter() - began}
            path.write_text(json.dumps(known))
    return known


def of_truth(name: str, y: Array, std: float) -> Result | None:
    """Paths (h, 400) of a map itself, from states whose last values are as observed with errors.

    Of 3.6 million states on the attractor those are drawn by the density of the errors of the last
    values, of which as many count, 12 at most, as leave 40 states. None for a map with a memory.
    """
    from dysts import maps

    made, rng = getattr(maps, name)(), np.random.default_rng(0)
    if name == "BlinkingVortexMap":
        return None
    attractor = np.asarray(made.make_trajectory(2000)).reshape(2000, -1)[500:]
    state = attractor[rng.integers(len(attractor), size=4000)].T
    state *= 1.0 + 1e-3 * rng.standard_normal(state.shape)
    values = np.empty((1000, 4000))
    with np.errstate(all="ignore"):
        for row in values:
            state = np.reshape(type(made)._rhs(*state, **made.params), state.shape)
            row[:] = state[0]
    values = values[100:, np.isfinite(values).all(axis=0)]
    logs = np.zeros((len(values), values.shape[1]))
    for lag in range(12):
        n = len(values) - STEPS - lag  # of windows that end before the steps ahead
        logs = logs[-n:] - 0.5 * ((values[:n] - y[-1 - lag]) / std) ** 2
        now = np.exp(logs - logs.max())
        now /= now.sum()
        if lag and np.sum(now**2) > 1.0 / 40.0:
            break
        chosen, last = now, lag
    at, which = np.unravel_index(rng.choice(chosen.size, 400, p=chosen.ravel()), chosen.shape)
    ahead = np.array([values[at + last + step, which] for step in range(1, STEPS + 1)])
    return ahead + std * rng.standard_normal(ahead.shape)


def truth(names: list[str], n: int, noise: str) -> list[tuple[str, float]]:
    """CRPS of maps with errors of observation by `of_truth`, in stds of the training values."""
    found = []
    for name in names:
        y, actual = series("maps", name, n, noise, 0)
        exact = of_map(name, n + STEPS, 0.0, generator(name, noise, 0))
        paths = of_truth(name, y, int(noise[1:]) / 100 * exact.std())
        if paths is not None:
            found.append((name, float(of_paths(paths, actual)[0].mean() / y.std())))
    return found


# --- tables


def mean_of(rows: list[dict], methods: list[str], field: str, at: int | None = None) -> list[float]:
    """Means of a score by method over the series; NaN where a method has none."""
    out = []
    for name in methods:
        values = [row[name].get(field) for row in rows]
        values = [v if at is None or v is None else v[at] for v in values]
        known = [v for v in values if v is not None]
        out.append(float(np.mean(known)) if known else np.nan)
    return out


def line(label: str, values: list[float], best: bool = True) -> str:
    lowest = np.nanmin(values) if best else None
    cells = ["" if np.isnan(v) else f"**{v:.3f}**" if v == lowest else f"{v:.3f}" for v in values]
    return f"| {label} | " + " | ".join(cells) + " |"


def losses(found: dict[tuple, dict], methods: list[str]) -> list[str]:
    """Where the first method loses most, in CRPS over that of the best other."""
    first, *others = methods
    ratios = []
    for (_, name, n, noise, _), row in found.items():
        known = {other: row[other]["crps"] for other in others if "crps" in row[other]}
        best = min(known, key=known.get)
        # a thousandth of a std more or less is none
        ratio = (row[first]["crps"] + 1e-3) / (known[best] + 1e-3)
        ratios.append((ratio, f"{name}, {n}, {noise or 'none'}", best))
    size = [ratio for ratio, *_ in ratios]
    worst = sorted(ratios, reverse=True)[:8]
    return [
        f"{first} over the best other of each series, which nobody knows before: median "
        f"{np.median(size):.2f}, at most 1.05 in {np.mean(np.array(size) <= 1.05):.0%}. Worst:\n",
        "| series, values, noise | CRPS over the best's | best |\n|---|---:|---|",
        *(f"| {label} | {ratio:.2f} | {best} |" for ratio, label, best in worst),
    ]


def tables(found: dict[tuple, dict], methods: list[str]) -> str:
    """The page's tables."""
    head = "| series | " + " | ".join(methods) + " |\n|---|" + "---:|" * len(methods)
    groups: dict[tuple, list[dict]] = {}
    for (group, _, n, noise, _), row in found.items():
        groups.setdefault((group, n, noise), []).append(row)
    out = losses(found, methods) if len(methods) > 1 else []
    out += ["\nCRPS, in stds of the training values (mean over series and steps):\n", head]
    for (group, n, noise), rows in groups.items():
        said = f", {int(noise[1:])} % {SHARES[noise[0]]} noise" if noise else ""
        label = f"{len(rows)} {group}, {n} values{said}"
        out.append(line(label, mean_of(rows, methods, "crps")))
    every = list(found.values())
    out += ["\nAll series:\n", head.replace("series", "score", 1)]
    for label, field, at in (
        ("CRPS", "crps", None),
        ("sMAPE", "smape", None),
        ("valid steps", "valid", None),
        ("NLPD", "nlpd", None),
        ("in 80 %", "in", 0),
        ("in 95 %", "in", 1),
        ("sums in 80 %", "sum", 0),
        ("sums in 95 %", "sum", 1),
        ("seconds", "seconds", None),
    ):
        values = mean_of(every, methods, field, at)
        out.append(line(label, values, best=label in ("CRPS", "sMAPE", "NLPD")))
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path(".benchmarks/dynamics"))
    parser.add_argument("--flows", type=int, default=8, help="how many, by name (8)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--noises", nargs="+", default=["", "o03", "o10", "p03", "p10"])
    parser.add_argument("--seeds", type=int, default=1, help="series of each (1)")
    parser.add_argument("--groups", nargs="+", default=["maps", "flows", "others", "real"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--truth", action="store_true", help="CRPS of maps by themselves, o03, o10")
    arguments = parser.parse_args()
    from dysts import flows, maps
    from dysts.base import DynMap, DynSys

    if arguments.truth:
        for n, noise in ((300, "o03"), (100, "o03"), (100, "o10"), (1000, "o03")):
            crps = truth(systems(maps, DynMap), n, noise)
            print(n, noise, f"{np.mean([one for _, one in crps]):.3f}", dict(crps))
        return
    arguments.cache.mkdir(parents=True, exist_ok=True)
    names = {
        "maps": systems(maps, DynMap),
        "flows": systems(flows, DynSys)[: arguments.flows],
        "periods": systems(flows, DynSys)[: arguments.flows],
        "others": list(OTHERS),
        "real": ["sunspots", "lynx"],
    }
    keys = [
        (group, name, n, noise, seed)
        for n in arguments.sizes
        for noise in arguments.noises
        for group in arguments.groups
        for name in names[group]
        for seed in range(3 if group == "real" else arguments.seeds)
        if not (noise and group == "real")
        and not (noise[:1] == "p" and group in ("flows", "periods", "others"))
        and not (name == "lynx" and n > 100)
    ]
    found = {}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for i, key in enumerate(keys):
            began = time.perf_counter()
            found[key] = computed(key, arguments.methods, arguments.cache)
            print(i, len(keys), key, f"{time.perf_counter() - began:.1f} s", flush=True)
    print(tables(found, arguments.methods))


if __name__ == "__main__":
    main()
