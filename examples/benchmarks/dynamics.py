"""Nonlinear series: the maps and flows of dysts, and some others, by several methods.

    python examples/benchmarks/dynamics.py                    # the page's tables, 90 minutes
    python examples/benchmarks/dynamics.py --groups maps --sizes 300 --noises o03

Maps are all of `dysts` (Gilpin, NeurIPS 2021), flows the first 40 by name, sampled 15 times a
period; beside them the logistic map, a bistable one, a threshold autoregression, Mackey-Glass, and
as real series sunspots and lynx from several origins. The first coordinate is forecast 8 steps
ahead from 100, 300 and 1000 values. Noise is normal, with 3 or 10 % of the std of the coordinate:
"p" of the process, in each coordinate and fed back (maps alone; drawn again where the map would
leave the range of its own values), "o" of the observation. Actual values have it, too. The group
"laser" is series A of the Santa Fe competition, 100 steps from its official origin and from five
earlier ones (left out without its file). The group "periods" has flows again: ten periods of 15 or
100 values, of which the next two are forecast. Methods that take long have at most so many values.

Scores are means over steps: CRPS in stds of the training values, sMAPE of the medians, NLPD of
values in stds (clipped at 20), shares in the 80 and 95 % intervals of steps, of the sum and of the
maximum, and in the 90 % band of all steps; of the medians also the valid steps, up to the first at
which the sMAPE so far is above 30 (of the last). What was computed is kept in a folder, a file a
series, and only what is missing is computed.
"""

import argparse
import inspect
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp
from scipy.special import ndtri
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
LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
WHOLE = {"sum": lambda paths: paths.sum(axis=0), "max": lambda paths: paths.max(axis=0)}
VALID = 30.0  # sMAPE of the steps so far up to which a forecast is valid
SHARES = {"p": "process", "o": "observation"}
LASER = Path("../shared/data/santafe_a_laser.csv")  # from the root of the repository
# Canadian lynx trapped 1821 to 1934 (Elton and Nicholson 1942).
LYNX = """269 321 585 871 1475 2821 3928 5943 4950 2577 523 98 184 279 409 2285 2685 3409 1824 409
151 45 68 213 546 1033 2129 2536 957 361 377 225 360 731 1638 2725 2871 2119 684 299 236 245 552
1623 3311 6721 4254 687 255 473 358 784 1594 1676 2251 1426 756 299 201 229 469 736 2042 2811 4431
2511 389 73 39 49 59 188 377 1292 4031 3495 587 105 153 387 758 1307 3465 6991 6313 3794 1836 345
382 808 1388 2713 3800 3091 2985 3790 374 81 80 108 229 399 1132 2432 3574 2935 1537 529 485 662
1000 1590 2657 3396"""


def systems(kind: str) -> list[str]:
    """Names of the "maps" or "flows" of dysts, in its order."""
    import dysts.flows
    import dysts.maps
    from dysts.base import DynMap, DynSys

    module, base = {"maps": (dysts.maps, DynMap), "flows": (dysts.flows, DynSys)}[kind]
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


def mackey_glass(n: int, tau: float, seed: int) -> Array:
    return datasets.make_mackey_glass(n + 100 * (seed + 1), tau).to_numpy()[-n:]


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
    "Mackey-Glass 17": lambda n, seed: mackey_glass(n, 17, seed),
    "Mackey-Glass 30": lambda n, seed: mackey_glass(n, 30, seed),
}


class Group(NamedTuple):
    """What is run of a group: its systems, kinds of noise, sizes if not any, series of each."""

    names: Callable[[int], Sequence[str]]  # of the number of flows
    noises: str = ""
    sizes: tuple[int, ...] | None = None
    seeds: int = 1


GROUPS = {
    "maps": Group(lambda flows: systems("maps"), "op"),
    "flows": Group(lambda flows: systems("flows")[:flows], "o"),
    "others": Group(lambda flows: list(OTHERS), "o", seeds=3),
    "real": Group(lambda flows: ["sunspots", "lynx"], sizes=(100, 300), seeds=3),
    "laser": Group(lambda flows: ["laser"], sizes=(500, 600, 700, 800, 900, 1000)),
    "periods": Group(lambda flows: systems("flows")[:flows], sizes=(150, 1000)),
}


def keys(
    groups: Sequence[str], sizes: Sequence[int], noises: Sequence[str], flows: int
) -> list[tuple[str, str, int, str, int]]:
    """Group, name, values, noise and seed of each series."""
    return [
        (group, name, n, noise, seed)
        for group in groups
        for n in GROUPS[group].sizes or sizes
        for noise in noises
        if noise[:1] in GROUPS[group].noises
        for name in GROUPS[group].names(flows)
        for seed in range(GROUPS[group].seeds)
        if not (name == "lynx" and n > 100) and not (noise[1:] == "10" and n > 300)
    ]


def steps_of(group: str, n: int) -> int:
    return {"periods": n // 5, "laser": 100}.get(group, STEPS)


def series(group: str, name: str, n: int, noise: str, seed: int) -> tuple[Array, Array]:
    """Training values (n,) and what followed (steps,)."""
    kind, size = (noise[0], int(noise[1:]) / 100) if noise else ("", 0.0)
    steps = steps_of(group, n)
    rng, length = generator(name, noise, seed), n + steps
    if group == "real":
        whole = np.array(LYNX.split(), float) if name == "lynx" else datasets.load_sunspots()
        values = np.asarray(whole, float)
        end = len(values) - (7 if name == "lynx" else 20) * seed
        values = values[max(end - length, 0) : end]
    elif group == "laser":
        values = pd.read_csv(LASER)["y"].to_numpy(float)[:length]
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


def echo_state(y: Array, steps: int) -> Result:
    """Paths of ten networks of reservoirpy with resampled errors; settings by the last fifth."""
    from reservoirpy import mat_gen
    from reservoirpy.nodes import Reservoir, Ridge

    z, rng, warm = ((y - y.mean()) / y.std())[:, None], np.random.default_rng(0), 20
    low, high = z.min() - 0.1 * np.ptp(z), z.max() + 0.1 * np.ptp(z)  # else some paths diverge

    def driven(radius: float, gain: float, seed: int) -> tuple[Reservoir, Array]:
        """A reservoir after the series, and its states and inputs (n, 101)."""
        made = {"sr": radius, "input_scaling": gain, "input_connectivity": 1.0, "seed": seed}
        pool = Reservoir(100, Win=mat_gen.uniform, bias=mat_gen.uniform, **made)
        return pool, np.hstack([pool.run(z), z])

    def learned(X: Array, ridge: float, n: int) -> tuple[Ridge, Array, Array]:
        """A readout of n values, its errors by degrees of freedom, and those of later values."""
        X, target = X[warm:-1], z[warm + 1 :]
        used = n - warm - 1
        out = Ridge(ridge).fit(X[:used], target[:used])
        errors = (target - out.run(X))[:, 0]
        G = np.cov(X[:used].T) * (used - 1)
        freedom = np.trace(np.linalg.solve(G + ridge * np.eye(len(G)), G))
        return out, errors[:used] * np.sqrt(used / max(used - freedom - 1, 10)), errors[used:]

    def held_out(setting: tuple[float, float]) -> tuple[float, float, float, float]:
        X = [driven(*setting, seed)[1] for seed in (0, 1)]
        n = int(0.8 * len(z))
        return min(
            (np.mean([np.mean(learned(one, ridge, n)[2] ** 2) for one in X]), *setting, ridge)
            for ridge in (1e-6, 1e-4, 1e-2, 1.0)
        )

    _, radius, gain, ridge = min(held_out((r, g)) for r in (0.3, 0.9) for g in (0.5, 1.5))
    paths = []
    for seed in range(10):
        pool, X = driven(radius, gain, seed)
        readout, errors, _ = learned(X, ridge, len(z))
        start = pool.state
        for _ in range(20):
            pool.state, path = start, [X[-1]]
            for error in rng.choice(errors, steps):
                value = np.clip(readout.run(path[-1][None])[0] + error, low, high)
                path.append(np.append(pool.step(value), value))
            paths.append([one[-1] for one in path[1:]])
    return y.mean() + y.std() * np.array(paths).T


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


# Values times steps up to which a method is run on series that a simulation gives.
MOST = {
    "process": 30_000,  # 3 s for 1000 values and 8 steps, 30 s for 200 steps
    "relevance vectors": 30_000,
    "process, exact": 4_500,  # as long as the mixture
    'process, noise="both"': 4_500,  # 8 to 16 s for 1000 values
    "scikit-learn's process, iterated": 4_500,  # 11 to 19 s
    "reduced rank": 800,  # 2 s for 300 values
}


def run(method: str, group: str, n: int) -> bool:
    """Whether a method is run on the series of a group with so many values."""
    return group in ("real", "laser") or n * steps_of(group, n) <= MOST.get(method, np.inf)


# --- scores


def of_paths(paths: Array, y: Array) -> Array:
    """CRPS (h,) of the distribution of paths (h, k)."""
    k = paths.shape[1]
    first = np.abs(paths - y[:, None]).mean(axis=1)
    # half of the mean distance of two paths, by ranks
    return first - np.sort(paths, axis=1) @ (2 * np.arange(k) - k + 1) / k**2


def band_of_paths(paths: Array, coverage: float) -> Array:
    """Lower and upper quantiles (2, h), the same at each step, that hold this share of paths."""
    k = paths.shape[1]
    ranks = paths.argsort(axis=1).argsort(axis=1)
    reach = np.quantile(np.abs(2 * ranks - k + 1).max(axis=0) / (k - 1), coverage)
    return np.quantile(paths, [0.5 - reach / 2, 0.5 + reach / 2], axis=1)


def held(at: Array, y: Array) -> list[float]:
    """Shares of values in the 80 and 95 % intervals, of quantiles (5, h)."""
    return [float(((at[i] <= y) & (y <= at[-1 - i])).mean()) for i in (1, 0)]


def scored(result: Result, y: Array, unit: float) -> dict[str, object]:
    """Scores of steps, sum, maximum and all steps at once; None where there is none."""
    nlpd, band, whole = None, None, {}
    if isinstance(result, Forecast):
        table = result.score(pd.Series(y, result.index))
        crps = table["crps"].to_numpy()
        nlpd = float(np.minimum(table["nlpd"] - np.log(unit), 20.0).mean())
        at = result.quantile(LEVELS).to_numpy().T
        whole = {how: result.aggregate(how).quantile(LEVELS).to_numpy()[0] for how in WHOLE}
        band = result.simultaneous_interval(0.9).to_numpy().T
    elif result.shape[1] == 2:
        mean, std = result.T
        crps = scores.crps(y, mean, std)
        nlpd = float(np.minimum(scores.nlpd(y, mean, std) - np.log(unit), 20.0).mean())
        at = mean + np.outer(ndtri(LEVELS), std)
    else:
        crps, at = of_paths(result, y), np.quantile(result, LEVELS, axis=1)
        whole = {how: np.quantile(of_all(result), LEVELS) for how, of_all in WHOLE.items()}
        band = band_of_paths(result, 0.9)
    if not np.isfinite(crps).all():
        raise ValueError(f"the CRPS must be finite; got {crps}")
    smape = 200 * np.abs(at[2] - y) / (np.abs(at[2]) + np.abs(y))
    so_far = smape.cumsum() / np.arange(1, len(y) + 1)
    return {
        "crps": float(crps.mean() / unit),
        "smape": float(smape.mean()),
        "valid": int(np.argmax(np.append(so_far, np.inf) > VALID)),
        "nlpd": nlpd,
        "in": held(at, y),
        **{how: held(whole[how], WHOLE[how](y)) if whole else None for how in WHOLE},
        "all": None if band is None else float(((band[0] <= y) & (y <= band[1])).all()),
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
            found.append((name, float(of_paths(paths, actual).mean() / y.std())))
    return found


# --- tables

Found = dict[tuple[str, str, int, str, int], dict[str, dict]]
# Label, score, place in it, how series are summed up, whether the lowest is the best.
SUMMARY = (
    ("CRPS", "crps", None, np.mean, True),
    ("CRPS, median", "crps", None, np.median, True),
    ("sMAPE", "smape", None, np.mean, True),
    ("valid steps", "valid", None, np.mean, False),
    ("NLPD", "nlpd", None, np.mean, True),
    ("in 80 %", "in", 0, np.mean, False),
    ("in 95 %", "in", 1, np.mean, False),
    ("sums in 80 %", "sum", 0, np.mean, False),
    ("sums in 95 %", "sum", 1, np.mean, False),
    ("maxima in 80 %", "max", 0, np.mean, False),
    ("maxima in 95 %", "max", 1, np.mean, False),
    ("all steps in the 90 % band", "all", None, np.mean, False),
    ("seconds", "seconds", None, np.mean, False),
)


def label(group: str, n: int, noise: str) -> tuple[str, str, str]:
    """The row of a series: group, values, noise."""
    if group == "laser":
        return group, "1000" if n == 1000 else "500 to 900", "none"
    said = f"{int(noise[1:])} % {SHARES[noise[0]]}" if noise else "none"
    return group, f"{n}", "its own" if group == "real" else said


def column(rows: list[dict], name: str, field: str, at: int | None = None) -> list[float] | None:
    """A score of a method by series; None where a series has none."""
    values = [row.get(name, {}).get(field) for row in rows]
    return None if None in values else [value if at is None else value[at] for value in values]


def line(labels: tuple[str, ...], values: list[float], best: bool = True) -> str:
    lowest = np.nanmin(values) if best and not np.isnan(values).all() else None
    cells = [f"{v:.3f}" if v < 1000 else f"{v:.0e}" for v in values]
    cells = ["" if np.isnan(v) else cell for v, cell in zip(values, cells, strict=True)]
    cells = [f"**{cell}**" if v == lowest else cell for v, cell in zip(values, cells, strict=True)]
    return f"| {' | '.join([*labels, *cells])} |"


def head(labels: str, methods: list[str]) -> list[str]:
    return [
        f"| {' | '.join([labels, *methods])} |",
        f"|{'---|' * (labels.count('|') + 1)}{'---:|' * len(methods)}",
    ]


def losses(found: Found, methods: list[str]) -> list[str]:
    """Where the first method loses most, in CRPS over that of the best other."""
    first, *others = methods
    ratios = []
    for (group, name, n, noise, _), row in found.items():
        known = {other: row[other]["crps"] for other in others if "crps" in row.get(other, {})}
        if first not in row or not known:
            continue
        best = min(known, key=known.get)
        # a thousandth of a std more or less is none
        ratio = (row[first].get("crps", np.inf) + 1e-3) / (known[best] + 1e-3)
        periods = " in ten periods" if group == "periods" else ""
        ratios.append((ratio, f"{name}, {n}{periods}, {noise or 'none'}", best))
    size = [ratio for ratio, *_ in ratios]
    return [
        f"{first} over the best other of each of {len(size)} series, which nobody knows before: "
        f"median {np.median(size):.2f}, at most 1.05 in {np.mean(np.array(size) <= 1.05):.0%}. "
        "Worst:\n",
        "| series, values, noise | CRPS over the best's | best |\n|---|---:|---|",
        *(f"| {key} | {ratio:.2f} | {best} |" for ratio, key, best in sorted(ratios)[:-11:-1]),
    ]


def of_rows(found: Found, methods: list[str]) -> list[str]:
    """The CRPS of each set of series, and how often the first method is the best."""
    sets: dict[tuple[str, str, str], list[dict]] = {}
    for (group, _, n, noise, _), row in found.items():
        sets.setdefault(label(group, n, noise), []).append(row)
    lines, over = [], []
    for (group, n, noise), rows in sets.items():
        columns = [column(rows, name, "crps") for name in methods]
        crps = [np.nan if values is None else float(np.mean(values)) for values in columns]
        lines.append(line((f"{len(rows)} {group}", n, noise), crps))
        over.append(crps[0] / np.nanmin(crps))
    return [
        f"{methods[0]} is first in {sum(ratio == 1.0 for ratio in over)} of {len(over)} rows, and "
        f"within 5 % of the first in {sum(ratio <= 1.05 for ratio in over)}.\n",
        *head("series | values | noise", methods),
        *lines,
    ]


def summary(found: Found, methods: list[str]) -> list[str]:
    """All scores over the series that all these methods forecast."""
    methods = [name for name in methods if all(name in row for row in found.values())]
    rows = [row for row in found.values() if all("crps" in row.get(name, {}) for name in methods)]
    out = [f"{len(rows)} series, which all these methods forecast:\n", *head("score", methods)]
    for name, field, at, mean, best in SUMMARY:
        columns = [column(rows, method, field, at) for method in methods]
        values = [np.nan if one is None else float(mean(one)) for one in columns]
        out.append(line((name,), values, best))
    return out


def tables(found: Found, methods: list[str]) -> dict[str, list[str]]:
    """The page's tables by heading."""
    out = {"Losses first": losses(found, methods)} if len(methods) > 1 else {}
    out["CRPS"] = of_rows(found, methods)
    short = {k: row for k, row in found.items() if k[2] <= 300 or k[0] == "laser"}
    short = {key: row for key, row in short.items() if key[0] != "periods"}
    if short:
        out["All series"] = summary(short, methods)
    for n, heading in ((150, "15 points a period"), (1000, "100 points a period")):
        rows = {key: row for key, row in found.items() if key[0] == "periods" and key[2] == n}
        if rows:
            out[heading] = summary(rows, methods)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path(".benchmarks/dynamics"))
    parser.add_argument("--flows", type=int, default=40, help="how many, by name (40)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--noises", nargs="+", default=["", "o03", "o10", "p03", "p10"])
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=GROUPS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--truth", action="store_true", help="CRPS of maps by themselves, o03, o10")
    arguments = parser.parse_args()
    if arguments.truth:
        for n, noise in ((300, "o03"), (100, "o03"), (100, "o10"), (1000, "o03")):
            crps = truth(systems("maps"), n, noise)
            print(n, noise, f"{np.mean([one for _, one in crps]):.3f}", dict(crps))
        return
    groups = list(arguments.groups)
    if "laser" in groups and not LASER.is_file():
        print(f"The laser is left out: there is no {LASER}.")
        groups.remove("laser")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    of_all = keys(groups, arguments.sizes, arguments.noises, arguments.flows)
    found = {}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for i, key in enumerate(of_all):
            began = time.perf_counter()
            methods = [name for name in arguments.methods if run(name, *key[:3:2])]
            found[key] = computed(key, methods, arguments.cache)
            print(i, len(of_all), key, f"{time.perf_counter() - began:.1f} s", flush=True)
    for heading, lines in tables(found, arguments.methods).items():
        print(f"\n## {heading}\n", *lines, sep="\n")


if __name__ == "__main__":
    main()
