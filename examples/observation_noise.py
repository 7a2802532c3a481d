"""Mackey-Glass seen with noise, 100 steps ahead: noise of the process, or of the observation.

The series of the mackey_glass example (tau = 17, one value a unit of time, normalized to mean 0
and variance 1) with an error of its observations, of variance .001, .01 or .05; 16 lags, 200 or 500
consecutive pairs. The same Gaussian process learns that error as noise of the process, which is
fed back at every step (classic recursion, and path-consistent), or as what it is, alone
(noise="observation") or beside noise of the process (noise="both"). With --trainers also as noise
of the inputs, independent from row to row and from lag to lag, as GPRegressor(noisy_inputs=...)
takes it.

    python examples/observation_noise.py --output DIR              # 10 seeds, 12 or 6 origins each
    python examples/observation_noise.py --output DIR --quick      # a small version, in seconds
    python examples/observation_noise.py --output DIR --trainers   # 200 pairs; half an hour

Written to DIR: observation_noise.md (tables), observation_noise.csv, observation_noise.png.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster, GPRegressor, datasets, scores

LAGS, STEPS = 16, 100
TRAIN, TEST = 2000, 2000  # values that the pairs are drawn from, and that are forecast
RUN_IN = 140  # values before an origin
VARIANCES = (0.001, 0.01, 0.05)
ORIGINS = {200: 12, 500: 6}  # of each seed, by pairs
# name: noise, noisy_inputs, path_consistent
MODELS = {
    "process, classic": ("process", None, False),
    "process": ("process", None, True),
    "observation": ("observation", None, True),
    "both": ("both", None, True),
}
TRAINERS = {
    f'process, "{trainer}"': ("process", trainer, True)
    for trainer in ("nigp", "annealed", "stochastic_em")
}


def normalized_series():
    clean = datasets.make_mackey_glass(TRAIN + TEST)
    return (clean - clean.mean()) / clean.std(ddof=0)


def one_seed(clean, models, noise_var, pairs, seed, n_origins):
    """A row for each model, origin and step, and the forecasts from the first origin."""
    rng = np.random.default_rng(seed)
    y = clean + rng.normal(0.0, np.sqrt(noise_var), len(clean))
    first = int(rng.integers(TRAIN - pairs - LAGS))
    origins = rng.choice(np.arange(TRAIN + RUN_IN, len(y) - STEPS), n_origins, replace=False)
    tables, shown, fits = [], {}, {}
    with threadpool_limits(1):
        for name, (*kind, path_consistent) in models.items():
            key = noise, trainer = tuple(kind)
            if key not in fits:
                regressor = GPRegressor(noisy_inputs=trainer, random_state=seed)
                model = Forecaster(regressor, lags=LAGS, noise=noise)
                fits[key] = model.fit(y[first : first + pairs + LAGS])
            stds = learned_stds(fits[key])
            for origin in origins:
                here = fits[key].apply(y[origin - RUN_IN : origin])
                ahead = here.forecast(STEPS, path_consistent=path_consistent)
                table = scored(ahead, y[origin : origin + STEPS])
                tables.append(table.assign(model=name, origin=origin, **stds))
                shown.setdefault(name, (ahead, y[origin - 60 : origin], y[origin : origin + STEPS]))
    setting = {"variance": noise_var, "pairs": pairs, "seed": seed}
    return pd.concat(tables).assign(**setting), shown


def learned_stds(model):
    """Stds of both noises in units of the series; of noisy inputs the average over the lags."""
    fitted = model.models_[0]
    regressor, scale = fitted.regressor, fitted.differencing.scale
    of_inputs = np.sqrt(np.diag(regressor.input_cov_)).mean()
    error_std = getattr(regressor, "observation_std_", of_inputs)
    return {"process_std": scale * regressor.noise_std_, "error_std": scale * error_std}


def scored(ahead, actual):
    band = ahead.interval(0.95)
    return pd.DataFrame(
        {
            "step": np.arange(1, STEPS + 1),
            "nlpd": ahead.score(actual)["nlpd"].to_numpy(),
            "squared_error": (actual - ahead.mean).to_numpy() ** 2,
            "covered": scores.coverage(actual, band["lower"], band["upper"]),
        }
    )


def markdown(frame, models):
    """A row for each setting and model."""
    yield (
        "| variance | pairs | noise | NLPD | seeds below classic | squared error | in 95 % band "
        "| every tenth step | learned / true std |"
    )
    yield "|---:|---:|---|---:|---:|---:|---:|---:|---:|"
    for (variance, pairs), setting in frame.groupby(["variance", "pairs"]):
        by_seed = setting.pivot_table("nlpd", "seed", "model")
        for name in models:
            rows = setting[setting["model"] == name]
            tenth = rows[rows["step"] % 10 == 0].groupby("step")["covered"].mean()
            stds = rows.groupby("seed")["error_std"].first() / np.sqrt(variance)
            below = int((by_seed[name] < by_seed["process, classic"]).sum())
            classic, learned = name == "process, classic", stds.max() > 0.0
            yield (
                f"| {variance:g} | {pairs} | {name} | {rows['nlpd'].mean():.2f} "
                f"| {'' if classic else f'{below} of {len(by_seed)}'} "
                f"| {rows['squared_error'].mean():.3f} "
                f"| {rows['covered'].mean():.3f} | {tenth.min():.2f}-{tenth.max():.2f} "
                f"| {f'{stds.mean():.2f} ({stds.min():.2f}-{stds.max():.2f})' if learned else ''} |"
            )


def picture(shown, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = ("process", "observation")
    figure, axes = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, sharey=True)
    for ax, name in zip(axes, names, strict=True):
        ahead, history, actual = shown[name]
        ahead.plot(history, actual=actual, coverage=(0.5, 0.95), ax=ax)
        ax.set_ylabel(f"noise of the\n{name}")
    axes[0].set_xlabel("")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trainers", action="store_true", help="those of noisy inputs as well")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    seeds, origins, variances = arguments.seeds, ORIGINS, VARIANCES
    if arguments.quick:
        seeds, origins, variances = 1, {60: 1}, (0.01,)
    clean, models = normalized_series(), MODELS
    if arguments.trainers:
        models, variances, origins = MODELS | TRAINERS, variances[-2:], dict([*origins.items()][:1])
    pairs = tuple(origins)
    settings = [(v, n, s) for v in variances for n in pairs for s in range(seeds)]
    run = Parallel(n_jobs=arguments.jobs)
    found = run(delayed(one_seed)(clean, models, v, n, s, origins[n]) for v, n, s in settings)
    frame = pd.concat([table for table, _ in found], ignore_index=True)
    frame.to_csv(arguments.output / "observation_noise.csv", index=False)
    text = "\n".join(markdown(frame, models))
    (arguments.output / "observation_noise.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    picked = settings.index((0.01, pairs[0], 0))
    picture(found[picked][1], arguments.output / "observation_noise.png")


if __name__ == "__main__":
    main()
