"""What the public surface answers, as numbers: those of one checkout held against another's.

    python tests/characterize.py store FOLDER [GROUP ...]     with PYTHONPATH at the earlier one
    python tests/characterize.py compare FOLDER [GROUP ...]   with PYTHONPATH at the later one

One BLAS thread. The same code under another set of OpenBLAS kernels moves numbers that a search has
learned by up to 3e-7, those of the series "clean" by 8e-6 and of "monte_carlo" by 2e-6.
"""

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from forecast_unc import (
    Combination,
    Forecast,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMClassifier,
    RVMRegressor,
    backtest,
    backtest_panel,
    baselines,
    datasets,
    forecast_panel,
    load_model,
)

Q = [0.025, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.975]
OUT: dict = {}


def put(key, value):
    if isinstance(value, (pd.Series, pd.DataFrame)):
        value = value.select_dtypes("number") if isinstance(value, pd.DataFrame) else value
        value = value.to_numpy(float)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], str):
        OUT[key] = list(value)
    elif isinstance(value, str):
        OUT[key] = [value]
    else:
        OUT[key] = np.asarray(value, float).ravel().tolist()


def attempt(key, make):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            put(key, make())
    except Exception as error:
        OUT[key] = [f"{type(error).__name__}: {error}"]


def forecast(key, f, *, deep=True):
    put(f"{key}/mean", f.mean)
    put(f"{key}/cov", f.cov)
    put(f"{key}/quantiles", f.quantile(Q))
    put(f"{key}/median", f.median)
    h = len(f.index)
    if not deep:
        return
    attempt(f"{key}/decompose", lambda: f.decompose())
    attempt(f"{key}/cdf", lambda: f.cdf(float(f.mean.mean())))
    attempt(f"{key}/prob", lambda: f.prob(lower=float(f.mean.min()), upper=float(f.mean.max())))
    attempt(
        f"{key}/sum",
        lambda: [
            f.aggregate("sum").mean.item(),
            f.aggregate("sum").std.item(),
            *f.aggregate("mean").quantile(Q).to_numpy().ravel(),
        ],
    )
    attempt(f"{key}/max", lambda: f.aggregate("max").quantile(Q))
    attempt(
        f"{key}/weights",
        lambda: np.r_[
            (g := f.aggregate(np.arange(1.0, h + 1))).mean, g.std, g.quantile(Q).to_numpy().ravel()
        ],
    )
    seen = f.quantile(0.6).iloc[: max(1, h // 3)]
    attempt(
        f"{key}/condition", lambda: np.r_[(c := f.condition(seen)).mean, c.std, c.quantile(0.9)]
    )
    attempt(f"{key}/band", lambda: f.simultaneous_interval(0.9))
    attempt(f"{key}/sample", lambda: f.sample(3, random_state=1))
    attempt(f"{key}/score", lambda: f.score(f.quantile(0.8)))
    attempt(f"{key}/energy", lambda: np.ravel(f.energy_score(f.quantile(0.8), random_state=0)))
    attempt(f"{key}/units", lambda: np.r_[(g := 3.0 - 2.0 * f).mean, g.std, g.quantile(0.1)])
    attempt(f"{key}/first", lambda: np.r_[(g := f.first(max(1, h // 2))).mean, g.std])
    attempt(f"{key}/recalibrated", lambda: f.recalibrated(np.full(h, 1.3), dof=5).quantile(Q))
    attempt(
        f"{key}/censored",
        lambda: np.r_[(g := f.censored(float(f.quantile(0.2).mean()))).mean, g.std],
    )
    attempt(f"{key}/nixtla", lambda: f.to_nixtla())
    attempt(f"{key}/summary", lambda: f.summary_frame())


def series():
    rng = np.random.default_rng(7)
    co2, nino, nile = datasets.load_co2(), datasets.load_elnino(), datasets.load_nile()
    spots, gdp = datasets.load_sunspots(), datasets.load_us_gdp()
    gaps = co2[-120:].copy()
    gaps.iloc[[5, 40, 41, 90, 119]] = np.nan
    t = np.arange(24 * 30)
    hours = pd.Series(
        50
        + 10 * np.sin(2 * np.pi * t / 24)
        + 4 * np.sin(2 * np.pi * t / 168)
        + rng.normal(0, 1.5, len(t)),
        pd.date_range("2024-01-01", periods=len(t), freq="h"),
        name="load",
    )
    days = pd.Series(
        np.exp(3 + 0.2 * np.sin(2 * np.pi * np.arange(200) / 7) + rng.normal(0, 0.1, 200)),
        pd.period_range("2023-01-01", periods=200, freq="D"),
        name="sales",
    )
    counts = pd.Series(
        rng.poisson(1.2, 96).astype(float),
        pd.date_range("2015-01", periods=96, freq="MS"),
        name="items",
    )
    growth = pd.Series(
        100 * np.exp(0.03 * np.arange(60) + rng.normal(0, 0.02, 60)),
        pd.date_range("2010-01", periods=60, freq="QS"),
        name="growth",
    )
    clean = pd.Series(
        np.sin(0.3 * np.arange(120)) + 0.5 * np.sin(0.11 * np.arange(120)), name="clean"
    )
    short = nile[-15:]
    walk = pd.Series(
        np.cumsum(rng.normal(0, 1, 90)),
        pd.date_range("2020-01-06", periods=90, freq="W"),
        name="walk",
    )
    return {
        "co2": co2[-150:],
        "elnino": nino[-144:],
        "nile": nile,
        "sunspots": spots[-120:],
        "gdp": gdp[-100:],
        "gaps": gaps,
        "hours": hours,
        "days": days,
        "counts": counts,
        "growth": growth,
        "clean": clean,
        "short": short,
        "walk": walk,
    }


S = series()


def default_1(names=("co2", "elnino", "nile", "sunspots")):
    for name in names:
        model = Forecaster().fit(S[name])
        OUT[f"{name}/choices"] = model.choices_
        forecast(name, model.forecast(12))


def default_2():
    default_1(("gdp", "gaps", "counts", "growth"))


def default_3():
    default_1(("clean", "short", "walk", "days"))


def default_hours():
    model = Forecaster().fit(S["hours"])
    OUT["hours/choices"] = model.choices_
    forecast("hours", model.forecast(48), deep=False)


def known_regressors(n, index):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {"a": rng.normal(size=n), "b": (np.arange(n) % 5 == 0).astype(float)}, index=index
    )


def options():
    y = S["nile"]
    for name, kwargs in {
        "plain": {},
        "log": {"transform": "log"},
        "sqrt": {"transform": "sqrt"},
        "boxcox": {"transform": "boxcox"},
        "lower": {"lower": 400.0},
        "last": {"prior_mean": "last"},
        "diff": {"differences": 1},
        "max_train": {"max_train": 50},
        "calibrate": {"calibrate": True},
        "conformal": {"calibrate": "conformal"},
        "keep": {"outliers": "keep"},
        "calibrated_log": {"transform": "log", "calibrate": True},
        "lags": {"lags": (1, 2, 5)},
    }.items():
        model = Forecaster(**{"lags": 3, **kwargs}).fit(y)
        OUT[f"{name}/choices"] = model.choices_
        forecast(name, model.forecast(10))
    y = S["co2"][-72:]
    for name, kwargs in {
        "seasonal": {"lags": (1, 12), "prior_mean": "seasonal", "seasonal_period": 12},
        "fourier": {"lags": 2, "calendar": "fourier", "seasonal_period": 12},
        "month": {"lags": 2, "calendar": "month"},
        "both": {"lags": (1, 12), "differences": (1, 12)},
    }.items():
        forecast(name, Forecaster(**kwargs).fit(y).forecast(14), deep=False)


def noises():
    for noise in ("observation", "both", "auto"):
        for name in ("nile", "gaps"):
            model = Forecaster(lags=2, noise=noise).fit(S[name][-60:])
            OUT[f"{noise}/{name}/choices"] = model.choices_
            forecast(f"{noise}/{name}", model.forecast(8), deep=name == "nile")


def propagations():
    model = Forecaster(lags=4).fit(S["sunspots"])
    for way in ("exact", "taylor", "monte_carlo", "naive", "mixture", "auto"):
        forecast(
            way,
            model.forecast(15, propagation=way, n_samples=300, random_state=2),
            deep=way != "auto",
        )
    forecast("classic", model.forecast(15, path_consistent=False), deep=False)
    gaps = Forecaster(lags=(1, 12)).fit(S["gaps"])
    for way in ("exact", "taylor", "monte_carlo", "naive", "mixture"):
        forecast(
            f"gaps/{way}",
            gaps.forecast(6, propagation=way, n_samples=100, random_state=2),
            deep=False,
        )
    logs = Forecaster(lags=2, transform="log").fit(S["days"][-90:])
    for way in ("exact", "monte_carlo"):
        forecast(f"logs/{way}", logs.forecast(6, propagation=way, n_samples=100, random_state=2))
    check = model.forecast(6).check(200, random_state=0)
    put("check", check.frame if hasattr(check, "frame") else str(check))
    put("check/words", str(check))


def regressors():
    """Known and uncertain regressors, measurement errors."""
    y = S["nile"]
    X = known_regressors(len(y) + 6, pd.date_range("1871", periods=len(y) + 6, freq="YS"))
    model = Forecaster(lags=2).fit(y, X[: len(y)])
    forecast("known", model.forecast(6, X[len(y) :]))
    forecast("uncertain", model.forecast(6, X[len(y) :], exog_std=0.3 * (1 + 0 * X[len(y) :])))
    std = pd.Series(np.where(np.arange(len(y)) % 3, 50.0, 0.0), y.index)
    forecast("y_std", Forecaster(lags=2).fit(y, y_std=std).forecast(6))
    model = Forecaster().fit(y, X[: len(y)])
    OUT["auto/choices"] = model.choices_
    forecast("auto", model.forecast(6, X[len(y) :]), deep=False)


def life():
    """update, apply, refit, fitted, score, saving."""
    for name, args in {
        "gp": {"lags": 3},
        "auto": {},
        "rvm": {"regressor": RVMRegressor(), "lags": 3},
        "rr": {"regressor": ReducedRankGPRegressor(n_support=20, random_state=0), "lags": 3},
    }.items():
        y = S["sunspots"]
        model = Forecaster(**args).fit(y[:-20])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m"
            model.save(path)
            forecast(f"{name}/loaded", load_model(path).forecast(8), deep=False)
            updated = load_model(path).update(y[-20:-10])
            forecast(f"{name}/loaded_updated", updated.forecast(8), deep=False)
            updated.save(path)
            forecast(f"{name}/updated_loaded", load_model(path).forecast(8), deep=False)
            applied = model.apply(y[:60])
            forecast(f"{name}/applied", applied.forecast(8), deep=False)
            applied.save(path)
            forecast(f"{name}/applied_loaded", load_model(path).forecast(8), deep=False)
        put(f"{name}/score", [model.score(y[-20:]), model.score(y[:-20])])
        fitted = model.fitted()
        put(f"{name}/fitted", np.r_[fitted.mean, fitted.std])
        forecast(f"{name}/refit", model.refit(y[10:-10]).forecast(5), deep=False)
        model.update(y[-20:])
        forecast(f"{name}/updated", model.forecast(8), deep=False)


def estimators():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + rng.normal(0, 0.1, 60)
    Z = rng.normal(size=(5, 3))
    S1 = 0.2 * np.eye(3) + 0.05
    groups = [0, 0, 1]
    rows = {
        "gp": GPRegressor(),
        "gp_se": GPRegressor(linear=False),
        "gp_none": GPRegressor(prior=None),
        "gp_shrunk": GPRegressor(prior="shrunk"),
        "gp_groups": GPRegressor(groups=groups, prior="shrunk"),
        "gp_fixed": GPRegressor(lengthscales=1.5, noise_std=0.1),
        "gp_restarts": GPRegressor(n_restarts=2, random_state=0),
        "gp_bias": GPRegressor(bias="shrunk", prior="shrunk"),
        "gp_nigp": GPRegressor(noisy_inputs="nigp"),
        "gp_annealed": GPRegressor(noisy_inputs="annealed"),
        "gp_sem": GPRegressor(noisy_inputs="stochastic_em", random_state=0),
        **{
            f"rvm_{a}": RVMRegressor(algorithm=a)
            for a in ("sequential", "em", "mackay", "gradient", "subspace_em")
        },
        "rvm_shared": RVMRegressor(prior="shared"),
        "rvm_adapt": RVMRegressor(adapt_lengthscales=True),
        "rvm_aug": RVMRegressor(variance="augmented"),
        "rvm_linear": RVMRegressor(linear=True, bias=False),
        "rvm_noise": RVMRegressor(noise_std=0.1, lengthscales=[1.0, 2.0, 3.0]),
        **{
            f"rr_{s}": ReducedRankGPRegressor(n_support=15, support=s, random_state=0)
            for s in ("greedy", "random", "kmeans")
        },
        "rr_bound": ReducedRankGPRegressor(n_support=15, objective="bound", random_state=0),
        **{
            f"rr_{v}": ReducedRankGPRegressor(n_support=15, variance=v, random_state=0)
            for v in ("standard", "augmented")
        },
        "rr_shrunk": ReducedRankGPRegressor(
            n_support=15, prior="shrunk", search_rows=40, random_state=0
        ),
    }
    for name, reg in rows.items():
        try:
            cov = (
                {"input_cov": 0.05 * np.eye(3)}
                if "nigp" in name or "annealed" in name or "sem" in name
                else {}
            )
            try:
                reg.fit(X, y, **cov)
            except TypeError:
                reg.fit(X, y)
            mean, std = reg.predict(Z, return_std=True)
            put(f"{name}/predict", np.r_[mean, std])
            for attr in (
                "log_evidence_",
                "noise_std_",
                "lengthscales_",
                "amplitude_",
                "linear_scale_",
                "n_relevance_",
            ):
                if hasattr(reg, attr):
                    put(f"{name}/{attr}", getattr(reg, attr))
            for way in ("exact", "taylor", "monte_carlo"):
                for label, cv in (("wide", S1), ("zero", 0 * S1)):

                    def ask(reg=reg, way=way, cv=cv):
                        m = reg.predict_uncertain(Z[0], cv, method=way)
                        return np.r_[m.mean, m.var, m.slope]

                    if way != "monte_carlo":
                        attempt(f"{name}/{way}/{label}", ask)
            if hasattr(reg, "condition"):
                attempt(
                    f"{name}/condition",
                    lambda reg=reg: np.r_[
                        reg.condition(X[:40], y[:40]).predict(Z, return_std=True)
                    ],
                )
        except Exception as error:
            OUT[name] = [f"{type(error).__name__}: {error}"]
    labels = np.where(X[:, 0] ** 2 + X[:, 1] > 0.8, "yes", "no")
    for algorithm in ("sequential", "mackay"):
        c = RVMClassifier(algorithm=algorithm).fit(X, labels)
        put(f"classifier/{algorithm}", c.predict_proba(Z))
        put(f"classifier/{algorithm}/n", c.n_relevance_)
    from sklearn.linear_model import BayesianRidge

    model = Forecaster(BayesianRidge(), lags=3).fit(S["nile"])
    forecast("ridge", model.forecast(6, propagation="taylor"), deep=False)
    forecast("rvm", Forecaster(RVMRegressor(), lags=3).fit(S["nile"]).forecast(8))
    forecast(
        "rr",
        Forecaster(ReducedRankGPRegressor(n_support=20, random_state=0), lags=3)
        .fit(S["nile"])
        .forecast(8),
    )


def combinations():
    y = S["nile"]
    parts = [
        Forecaster(lags=2),
        Forecaster(lags=3, transform="log"),
        Forecaster(lags=4, differences=1),
    ]
    for name, weights in {
        "equal": None,
        "width": "inverse_width",
        "validation": "validation",
        "numbers": [0.5, 0.3, 0.2],
    }.items():
        model = Combination(parts, weights).fit(y)
        f = model.forecast(9)
        forecast(name, f)
        put(
            f"{name}/members",
            [m.weight.mean() if hasattr(m.weight, "mean") else m.weight for m in f.members]
            if hasattr(f.members[0], "weight")
            else str(len(f.members)),
        )
    forecast(
        "widest", Combination(parts, "inverse_width", widest=1.5).fit(y).forecast(9), deep=False
    )
    model = Combination([Forecaster(), baselines.SeasonalNaive(), baselines.Theta()]).fit(S["co2"])
    forecast("baselines", model.forecast(12))


def forecasts():
    """Forecasts made by hand: marginals, conformal, averages."""
    from forecast_unc.distributions.power import PowerTransform

    rng = np.random.default_rng(5)
    index = pd.period_range("2024-01", periods=6, freq="M")
    A = rng.normal(size=(6, 6))
    cov = 0.04 * (A @ A.T + np.eye(6))
    mean = np.linspace(1.0, 2.0, 6)
    normal = Forecast(
        index,
        mean,
        cov,
        parts={"noise": 0.5 * cov, "function_shared": 0.3 * cov, "inputs_propagated": 0.2 * cov},
        name="n",
    )
    log = Forecast(index, mean, cov, transform=PowerTransform(0.0), name="l")
    box = Forecast(index, mean, cov, transform=PowerTransform(0.4), name="b")
    for name, f in {
        "normal": normal,
        "log": log,
        "boxcox": box,
        "minus_log": -log,
        "censored": normal.censored(1.0),
        "kept": normal.censored(1.2, keep_moments=True),
        "conformal": normal.conformal(np.sort(np.abs(rng.normal(size=(6, 30))), axis=1)),
        "t": normal.recalibrated(np.linspace(0.8, 1.7, 6), dof=4, correlation=-0.3),
        "average": Forecast.average([normal, log, box], [0.5, 0.3, 0.2]),
        "t_average": Forecast.average([normal, log], [0.5, 0.5]).recalibrated(
            np.full(6, 1.3), dof=5
        ),
    }.items():
        forecast(name, f)
        attempt(
            f"{name}/quarter",
            lambda f=f: np.r_[(g := f.aggregate("sum", freq="Q")).mean, g.std, g.quantile(0.9)],
        )
        attempt(
            f"{name}/conformal",
            lambda f=f: f.conformal(
                np.sort(np.abs(np.random.default_rng(1).normal(size=(6, 30))), axis=1)
            ).quantile(Q),
        )


def backtests():
    y = S["nile"]
    r = backtest(
        Forecaster(lags=2),
        y,
        4,
        n_origins=4,
        compare={
            "naive": "naive propagation",
            "mc": "monte_carlo" if False else "taylor",
            "ets": baselines.ETS(),
            "theta": baselines.Theta(),
            "ar": baselines.AutoReg(),
            "last": baselines.SeasonalNaive(),
        },
    )
    put("frame", r.frame[["mean", "std"]])
    put("scores", r.scores())
    put("steps", r.scores(by="step"))
    put("significance", r.significance("CRPS").select_dtypes("number"))
    for kwargs in ({"refit": False}, {"refit": 2}, {"window": "rolling"}, {"gap": 2}, {"step": 2}):
        r = backtest(Forecaster(lags=2), y, 3, n_origins=3, **kwargs)
        put(f"{kwargs}", r.frame[["mean", "std"]])
    for name, b in {
        "ets": baselines.ETS(12),
        "sarimax": baselines.SARIMAX(12),
        "theta": baselines.Theta(12),
        "naive": baselines.SeasonalNaive(12),
        "ar": baselines.AutoReg(3, seasonal=True, seasonal_period=12),
    }.items():
        attempt(
            f"baseline/{name}",
            lambda b=b: np.r_[(f := b.fit(S["co2"]).forecast(6)).mean, f.cov.to_numpy().ravel()],
        )


def panels():
    frame = pd.concat(
        [
            pd.DataFrame({"unique_id": k, "ds": S[k].index[-60:], "y": S[k].to_numpy()[-60:]})
            for k in ("co2", "elnino", "gaps")
        ]
    )
    put(
        "forecast",
        forecast_panel(frame, Forecaster(lags=3), 4).drop(columns=["ds"]).select_dtypes("number"),
    )
    frame = frame[frame.unique_id != "gaps"]
    r = backtest_panel(frame, Forecaster(lags=3), 3, n_origins=2)
    put("backtest", r.frame[["mean", "std"]])
    put("scores", r.scores())


GROUPS = {
    f.__name__: f
    for f in (
        forecasts,
        options,
        noises,
        propagations,
        regressors,
        life,
        estimators,
        combinations,
        backtests,
        panels,
        default_1,
        default_2,
        default_3,
        default_hours,
    )
}


def run(name):
    OUT.clear()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GROUPS[name]()
    return dict(OUT), time.perf_counter() - start


def differences(old, new, tol=1e-9):
    """How far two records are apart, relative to the largest entry; None where they agree."""
    if (old and isinstance(old[0], str)) or (new and isinstance(new[0], str)):
        return None if old == new else (np.inf, f"was {old}, now {new}")
    a, b = np.array(old, float), np.array(new, float)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf, f"shapes {a.shape} and {b.shape}, or what is finite"
    known = np.isfinite(a)
    apart = np.abs(a - b)[known].max(initial=0.0) / np.abs(a[known]).max(initial=1e-300)
    return None if apart <= tol else (float(apart), "")


def main():
    verb, folder, *names = sys.argv[1:]
    Path(folder).mkdir(exist_ok=True)
    n_apart = 0
    for name in names or GROUPS:
        path = Path(folder) / f"{name}.json"
        found, seconds = run(name)
        if verb == "store":
            path.write_text(json.dumps(found), encoding="utf-8")
            print(f"{name}: {len(found)} records, {seconds:.0f} s", flush=True)
            continue
        kept = json.loads(path.read_text(encoding="utf-8"))
        apart = {key: differences(old, found.get(key, [])) for key, old in kept.items()}
        apart = {key: what for key, what in apart.items() if what is not None}
        n_apart += len(apart)
        print(f"{name}: {len(apart)} of {len(kept)} records apart, {seconds:.0f} s", flush=True)
        for key, (far, text) in sorted(apart.items(), key=lambda item: -item[1][0]):
            print(f"   {far:.1e} {key} {text[:500]}")
    return n_apart > 0


if __name__ == "__main__":
    sys.exit(main())
