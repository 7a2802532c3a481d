"""Calls of the whole public surface with arguments of all kinds, a seed a case.

A call ends in a result that has the properties of one, or in an error of this package, which names
the argument, what it must be and what came; without a warning of another package, with the caller's
data as they were, within ten seconds.

    python tests/fuzz.py --cases 20000      # make fuzz; failures by kind, then the count
    python tests/fuzz.py --case 1234        # one again, with its traceback
"""

import argparse
import collections
import contextlib
import copy
import datetime
import decimal
import io
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

import forecast_unc as fu
from forecast_unc.cli.commands import main as command_line
from forecast_unc.evaluation.backtest import Backtest

mpl.use("agg")
SECONDS = 10
# "{argument} must {be}; got {value}. {what to do}", or what happened and what to do
_OURS = re.compile(
    r"(must|needs?|cannot|can't|has no|have no|is not|are not|not fitted)\b", re.DOTALL
)
_FOREIGN = re.compile(
    r"ambiguous|unsupported operand|object is not|not subscriptable|has no attribute|positional|"
    r"could not broadcast|shape mismatch|unhashable|cannot convert|NoneType|float\(\)|int\(\)|"
    r"invalid literal|Unknown format|could not convert|setting an array|ufunc|cannot be interpreted"
)
ODD: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    7,
    10**9,
    -(10**9),
    1e300,
    -1e300,
    1e-300,
    0.5,
    1.5,
    -0.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    1 + 2j,
    "",
    "auto",
    "exact",
    "x",
    "1",
    b"x",
    "log",
    [],
    (),
    {},
    [1, 2],
    (1, 2, 3),
    [0],
    [-1],
    ["a"],
    [None],
    [[1, 2], [3, 4]],
    {"a": 1},
    {1, 2},
    np.array([1.0, 2.0]),
    np.array(["a", "b"]),
    np.zeros((2, 2)),
    np.array([]),
    np.float32(2.0),
    np.int64(3),
    np.bool_(True),
    decimal.Decimal("1.5"),
    datetime.date(2020, 1, 1),
    pd.NaT,
    pd.NA,
    pd.Timestamp("2020-01-01"),
    pd.Series([1.0, 2.0]),
    pd.Series(dtype=float),
    pd.DataFrame(),
    pd.Index([1, 2]),
    slice(0, 2),
    slice(None, None, 0),
    range(3),
    object(),
    len,
    int,
    Ellipsis,
    pd.date_range("2020", periods=3, freq="D"),
    np.array([np.nan, 1.0]),
    np.eye(3),
    [True, False],
    np.array([1, 2], dtype=object),
    pd.Period("2020-01", "M"),
    float,
    "2020-01-01",
    "YS",
    "sum",
]


def some_series(rng: np.random.Generator) -> Any:
    """A series of one of many kinds, often fit to be forecast."""
    n = int(
        rng.choice(
            [0, 1, 2, 3, 5, 8, 12, 20, 30, 60, 100, 150],
            p=[0.02] * 4 + [0.06] * 2 + [0.1] * 2 + [0.2] * 2 + [0.12, 0.08],
        )
    )
    walk = rng.standard_normal(n).cumsum()
    values: Any = [
        lambda: walk,
        lambda: 50 + walk + 5 * np.sin(np.arange(n) * np.pi / 6),
        lambda: np.exp(0.1 * walk),
        lambda: rng.poisson(float(rng.choice([0.2, 2, 50])), n),
        lambda: np.full(n, float(rng.choice([0, 1, -3.5, 1e8]))),
        lambda: rng.integers(0, 2, n),
        lambda: walk * float(10.0 ** rng.integers(-150, 151)),
        lambda: np.where(rng.random(n) < 0.2, np.nan, walk),
        lambda: 1e9 + walk,
        lambda: np.where(np.arange(n) == n // 2, 1e6, walk),
        lambda: walk.astype(np.float32),
        lambda: rng.random(n),
        lambda: 100 * rng.random(n).round(2),
        lambda: np.arange(n),
        lambda: rng.standard_t(1, n),
        lambda: walk.astype(object),
        lambda: np.array([decimal.Decimal(str(v)) for v in walk], dtype=object),
        lambda: np.where(np.arange(n) == n // 3, np.inf, walk),
        lambda: walk.astype(str),
        lambda: walk > 0,
        lambda: walk + 1j,
    ][int(rng.choice(21, p=[0.06] * 15 + [0.02] * 4 + [0.01] * 2))]()
    start = ["2020-01-01", "1999-12-31", "2024-02-29", "1800-01-01"][rng.integers(4)]
    freq = ["MS", "D", "h", "QS", "YS", "W", "30min", "ME", "B"][rng.integers(9)]
    dates = pd.date_range(start, periods=n, freq=freq)
    index: Any = [
        lambda: dates,
        lambda: dates.tz_localize("Europe/Berlin", ambiguous="NaT", nonexistent="NaT"),
        lambda: pd.period_range(start, periods=n, freq="M"),
        lambda: pd.RangeIndex(n),
        lambda: pd.RangeIndex(5, 5 + 2 * n, 2),
        lambda: pd.Index(np.arange(n)),
        lambda: dates._with_freq(None),
        lambda: dates[rng.permutation(n)],
        lambda: dates[np.sort(rng.integers(0, max(n, 1), n))],
        lambda: dates.astype(str),
        lambda: pd.Index(rng.random(n)),
    ][int(rng.choice(11, p=[0.55, 0.05, 0.1, 0.1, 0.02, 0.02, 0.04, 0.04, 0.03, 0.03, 0.02]))]()
    y = pd.Series(values, index, name=[None, "y", 3, ("a", "b")][rng.integers(4)])
    shape = rng.random()
    if shape < 0.03:
        return y.to_numpy()
    if shape < 0.06:
        return y.to_frame("y")
    if shape < 0.1:
        return y.rename_axis("ds").rename("y").reset_index()
    return y


def pick(rng: np.random.Generator, *options: Any) -> Any:
    return options[rng.integers(len(options))]


def changed(
    rng: np.random.Generator, arguments: dict[str, Any], often: float = 0.5
) -> dict[str, Any]:
    """The arguments, half the time with one or two that are odd."""
    arguments = dict(arguments)
    if arguments and rng.random() < often:
        for name in rng.choice(list(arguments), int(rng.integers(1, 3))):
            arguments[name] = copy.copy(ODD[rng.integers(len(ODD))])
    return arguments


def a_forecaster(rng: np.random.Generator, often: float = 0.3) -> Any:
    kind = rng.integers(8)
    if kind == 0:
        return fu.Forecaster()
    if kind == 1:
        return pick(
            rng,
            fu.baselines.Naive,
            fu.baselines.Drift,
            fu.baselines.SeasonalNaive,
            fu.baselines.ETS,
            fu.baselines.Theta,
        )()
    asked: dict[str, Any] = {
        "regressor": pick(
            rng,
            None,
            None,
            fu.GPRegressor(),
            fu.LinearRegressor(),
            fu.RVMRegressor(),
            fu.ReducedRankGPRegressor(n_support=10),
        ),
        "lags": pick(rng, 1, 2, 3, (1, 2, 12), "auto", [1, 3]),
        "differences": pick(rng, "auto", 0, 1, (1,), ()),
        "transform": pick(rng, None, "log", "sqrt", "boxcox", "auto"),
        "lower": pick(rng, None, None, 0, -5.0),
        "upper": pick(rng, None, None, 1, 100.0),
        "calendar": pick(rng, None, "auto", "month", ("fourier",), "profile", "day_of_week"),
        "noise": pick(rng, "process", "process", "observation", "both", "auto"),
        "calibrate": pick(rng, "auto", True, False, "conformal"),
        "outliers": pick(rng, "mask", "keep"),
        "seasonal_period": pick(rng, "auto", None, 7, 12),
        "prior_mean": pick(rng, "auto", "zero", "last", "seasonal"),
        "max_train": pick(rng, None, 50),
        "random_state": pick(rng, None, 0),
    }
    few = rng.choice(list(asked), int(rng.integers(1, 5)), replace=False)
    return fu.Forecaster(**changed(rng, {name: asked[name] for name in few}, often))


@cache
def kinds() -> dict[str, Any]:
    """Forecasts of every kind."""
    rng = np.random.default_rng(0)
    months = pd.date_range("2015-01-01", periods=72, freq="MS")
    walk = pd.Series(30 + rng.standard_normal(72).cumsum(), months, name="y")
    counts = pd.Series(rng.poisson(0.7, 72), months)
    model = fu.Forecaster(lags=2, random_state=0).fit(walk)
    plain = model.forecast(6, propagation="exact")
    average = fu.Forecaster().fit(walk).forecast(6)
    boxcox = fu.Forecaster(lags=2, transform="boxcox").fit(walk).forecast(6)
    few = fu.Forecaster().fit(counts).forecast(6)
    return {
        "plain": plain,
        "average": average,
        "box-cox": boxcox,
        "log": fu.Forecaster(lags=2, transform="log").fit(walk).forecast(6, propagation="exact"),
        "counts": few,
        "paths": model.forecast(6, propagation="monte_carlo", n_samples=200),
        "mixture": model.forecast(6),
        "bounded": plain.censored(29.0, upper=31.0),
        "bounded average": average.censored(29.5),
        "conditioned": plain.condition(pd.Series([30.0, 31.0], plain.index[:2])),
        "summed": average.aggregate("sum", freq="QS"),
        "turned": -plain * 2 + 1,
        "turned counts": -few[:3],
        "whole": plain.whole(),
        "largest": average.aggregate("max"),
        "average of kinds": fu.Forecast.average([plain, boxcox]),
        "stretched": plain.recalibrated(np.full(6, 1.3)),
        "heavy tails": plain.recalibrated(np.full(6, 1.3), dof=4.0),
        "conformal": fu.Forecaster(lags=2, calibrate="conformal").fit(walk).forecast(6),
    }


def bank() -> list[Any]:
    return list(kinds().values())


def case_fit(rng: np.random.Generator) -> Any:
    y, model = some_series(rng), a_forecaster(rng)
    asked = {
        "steps": int(rng.choice([1, 3, 12])),
        "propagation": pick(rng, *["auto"] * 4, "exact", "taylor", "naive", "monte_carlo"),
    }
    if not isinstance(model, fu.Forecaster):
        del asked["propagation"]
    asked = changed(rng, asked, 0.2)
    return [y], lambda: model.fit(y).forecast(**asked)


def case_after_fit(rng: np.random.Generator) -> Any:
    y = pd.Series(rng.standard_normal(40).cumsum(), pd.date_range("2020", periods=40, freq="D"))
    model = fu.Forecaster(lags=2, random_state=0)
    new = pd.Series(rng.standard_normal(3), pd.date_range(y.index[-1], periods=4, freq="D")[1:])
    odd = copy.copy(ODD[rng.integers(len(ODD))]) if rng.random() < 0.5 else None
    call = pick(
        rng,
        lambda m: m.update(new if odd is None else odd).forecast(3),
        lambda m: m.apply(y[:30] if odd is None else odd).forecast(3),
        lambda m: m.score(y if odd is None else odd),
        lambda m: m.fitted(),
        lambda m: m.fitted().interval(0.9 if odd is None else odd),
        lambda m: m.forecast(3, exog=odd),
        lambda m: m.forecast(3, path_consistent=True if odd is None else odd),
        lambda m: m.effects(),
        lambda m: m.save(odd),
        lambda m: fu.load_model(odd),
        lambda m: m.fit(y, exog=odd).forecast(2),
        lambda m: m.fit(y, y_std=odd).forecast(2),
        lambda m: fu.Combination([m, fu.baselines.Naive()], weights=odd).fit(y).forecast(2),
        lambda m: fu.Combination(odd).fit(y),
    )
    return [y, new], lambda: call(model.fit(y))


def case_forecast(rng: np.random.Generator) -> Any:
    f = pick(rng, *bank())
    seen = pd.Series(np.round(f.mean.to_numpy()[:1]), f.index[:1])
    actual = f.mean.round()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("interval", {"coverage": float(rng.random())}),
        ("simultaneous_interval", {"coverage": float(rng.random())}),
        ("quantile", {"q": rng.random(3)}),
        ("cdf", {"values": rng.normal(30, 3, 4)}),
        ("prob", {"lower": 29.0, "upper": 33.0}),
        ("sample", {"n": 20, "random_state": 0}),
        (
            "aggregate",
            {
                "how": pick(rng, "sum", "mean", "max", "min", np.ones(len(f))),
                "freq": pick(rng, None, None, "YS"),
                "partial": pick(rng, "keep", "drop"),
            },
        ),
        ("condition", {"observed": seen}),
        ("score", {"actual": actual, "coverage": 0.9}),
        ("energy_score", {"actual": actual, "n_samples": 50, "random_state": 0}),
        ("censored", {"lower": 28.0, "upper": 40.0, "keep_moments": False}),
        ("recalibrated", {"factor": np.full(len(f), 1.2)}),
        ("conformal", {"sizes": rng.random((30, len(f)))}),
        ("decompose", {}),
        ("summary_frame", {"alpha": 0.1}),
        ("to_nixtla", {"level": (80, 95)}),
        ("__getitem__", {"key": slice(0, 2)}),
        ("__mul__", {"other": 2.0}),
        ("__truediv__", {"other": 2.0}),
        ("__pow__", {"other": 2}),
        ("__add__", {"other": 1.0}),
        ("first", {"n": 2}),
        ("whole", {}),
        ("check", {"n_samples": 100, "random_state": 0}),
        ("plot", {"history": None}),
    ]
    name, arguments = calls[rng.integers(len(calls))]
    asked = changed(rng, arguments, 0.7)
    values = list(asked.values())
    # the first by position, so that names of arguments do not matter here
    return [*values], lambda: getattr(f, name)(*values[:1], **dict(list(asked.items())[1:]))


def case_backtest(rng: np.random.Generator) -> Any:
    n = int(rng.choice([3, 10, 30, 60]))
    y = pd.Series(rng.standard_normal(n).cumsum(), pd.date_range("2020", periods=n, freq="D"))
    model = pick(
        rng, fu.baselines.Naive(), fu.baselines.Drift(), fu.Forecaster(fu.LinearRegressor(), lags=1)
    )
    asked = {
        "steps": 2,
        "origins": 3,
        "step": None,
        "refit": pick(rng, True, False, 2),
        "window": "expanding",
        "gap": 0,
        "coverage": (0.8,),
        "compare": pick(rng, None, {"naive": fu.baselines.Naive()}),
        "exog": None,
    }
    asked = changed(rng, asked)
    after = pick(
        rng,
        lambda r: r,
        lambda r: r.scores(),
        lambda r: r.scores(by=copy.copy(ODD[rng.integers(len(ODD))])),
        lambda r: r.significance(),
        lambda r: r.coverage("level"),
        lambda r: fu.plot.calibration(r),
    )
    return [y], lambda: after(
        fu.backtest(model, y, asked["steps"], **{k: v for k, v in asked.items() if k != "steps"})
    )


def case_panel(rng: np.random.Generator) -> Any:
    parts = []
    for i in range(int(rng.integers(0, 4))):
        n = int(rng.choice([1, 2, 5, 20, 40]))
        y = pick(rng, rng.standard_normal(n), np.zeros(n), rng.poisson(0.4, n).astype(float))
        days = pd.date_range("2020", periods=n, freq="D")
        parts.append(pd.DataFrame({"unique_id": f"s{i}", "ds": days, "y": y, "g": "ab"[i % 2]}))
    columns = {
        "unique_id": pd.Series(dtype=str),
        "ds": pd.DatetimeIndex([]),
        "y": pd.Series(dtype=float),
        "g": pd.Series(dtype=str),
    }
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns)
    grouped = rng.random() < 0.5
    frame = frame if grouped else frame.drop(columns="g")
    model = pick(rng, fu.baselines.Naive(), fu.Forecaster(), fu.Forecaster(lags=1))
    if rng.random() < 0.3:
        asked = changed(rng, {"steps": 1, "origins": 2, "id_col": "unique_id", "freq": None})
        frame = frame.drop(columns="g", errors="ignore")
        return [frame], lambda: fu.backtest_panel(frame, model, **asked)
    asked = {
        "steps": 2,
        "levels": (80,),
        "freq": pick(rng, None, "D"),
        "id_col": "unique_id",
        "time_col": "ds",
        "target_col": "y",
        "propagation": "auto",
        "exog": None,
    }
    if grouped:
        asked |= {"by": pick(rng, "g", ["g"]), "correlation": 0.3}
    asked = changed(rng, asked)
    return [frame], lambda: fu.forecast_panel(frame, model, **asked)


def case_regressor(rng: np.random.Generator) -> Any:
    n, d = int(rng.choice([0, 1, 2, 3, 10, 40])), int(rng.choice([0, 1, 2, 5]))
    X = rng.standard_normal((n, d)) * float(pick(rng, 1, 1, 1, 1e-100, 1e100))
    y = np.sin(X[:, 0]) if d else np.zeros(n)
    y = pick(rng, y, y + rng.standard_normal(n), np.full(n, 2.0), y * 1e100)
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (
            fu.GPRegressor,
            {
                "linear": True,
                "prior": "weak",
                "lengthscales": None,
                "noise_std": None,
                "n_restarts": 0,
                "random_state": 0,
                "noisy_inputs": None,
            },
        ),
        (fu.LinearRegressor, {"groups": None, "bias": "free"}),
        (
            fu.RVMRegressor,
            {
                "algorithm": "sequential",
                "prior": "individual",
                "variance": "standard",
                "lengthscales": None,
                "noise_std": None,
                "budget": 10,
                "max_iter": 50,
                "random_state": 0,
            },
        ),
        (
            fu.ReducedRankGPRegressor,
            {
                "n_support": 5,
                "support": "greedy",
                "objective": "evidence",
                "variance": "corrected",
                "noise_std": None,
                "lengthscales": None,
                "random_state": 0,
            },
        ),
        (
            fu.RVMClassifier,
            {"lengthscales": 1.0, "algorithm": "sequential", "max_iter": 50, "random_state": 0},
        ),
    ]
    kind, settings = kinds[rng.integers(len(kinds))]
    few = {name: settings[name] for name in rng.choice(list(settings), 2, replace=False)}
    asked = changed(rng, {**few, "X": X, "y": y > 0 if kind is fu.RVMClassifier else y})
    X, y = asked.pop("X"), asked.pop("y")
    at = pick(rng, X, np.zeros((2, d)), copy.copy(ODD[rng.integers(len(ODD))]))

    def call() -> Any:
        model = kind(**asked).fit(X, y)
        if kind is fu.RVMClassifier:
            return model.predict_proba(at)
        if rng.random() < 0.3:
            return model.predict_uncertain(np.zeros((1, d)), np.eye(d)[None])
        return model.predict(at, return_std=True)

    return [X, y], call


def case_function(rng: np.random.Generator) -> Any:
    h = int(rng.integers(1, 5))
    y, mean, std = rng.standard_normal(h), rng.standard_normal(h), rng.random(h)
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (fu.scores.crps, {"y": y, "mean": mean, "std": std}),
        (fu.scores.nlpd, {"y": y, "mean": mean, "std": std}),
        (fu.scores.pit, {"y": y, "mean": mean, "std": std}),
        (
            fu.scores.interval_score,
            {"y": y, "lower": mean - std, "upper": mean + std, "coverage": 0.9},
        ),
        (fu.scores.coverage, {"y": y, "lower": mean - std, "upper": mean + std}),
        (fu.scores.energy_score, {"y": y, "paths": rng.standard_normal((20, h))}),
        (fu.scores.smape, {"y": y, "mean": mean}),
        (fu.scores.naive_scale, {"y": rng.standard_normal(20), "seasonal_period": 1}),
        (fu.datasets.make_mackey_glass, {"n": 20, "random_state": 0}),
        (fu.datasets.make_lorenz, {"n": 20, "random_state": 0}),
        (fu.Forecast, {"index": pd.RangeIndex(h), "mean": mean, "cov": np.diag(std + 0.1)}),
        (fu.Forecast.average, {"forecasts": bank()[:2], "weights": [0.5, 0.5]}),
        (fu.plot.fan, {"forecast": bank()[0]}),
        (fu.plot.members, {"forecast": bank()[1]}),
        (fu.plot.joint, {"forecast": bank()[0]}),
    ]
    function, arguments = kinds[rng.integers(len(kinds))]
    values = list(changed(rng, arguments, 0.8).values())
    return [*values], lambda: function(*values)


@cache
def files() -> Path:
    """A folder with a series and a panel as files, kept until the process ends."""
    folder = tempfile.TemporaryDirectory()
    _kept.append(folder)
    rng, where = np.random.default_rng(0), Path(folder.name)
    days = pd.date_range("2020", periods=40, freq="D")
    y = rng.standard_normal(40).cumsum() + 20
    frame = pd.DataFrame({"ds": days, "y": y, "x": rng.random(40)})
    frame.to_csv(where / "one.csv", index=False)
    pd.concat([frame.assign(shop=name) for name in "ab"]).to_csv(where / "many.csv", index=False)
    (where / "broken.csv").write_bytes(b'ds,y\n"2020-01-01,3\n\xff\xfe,"\n')
    (where / "empty.csv").write_bytes(b"")
    return where


_kept: list[Any] = []


def case_command(rng: np.random.Generator) -> Any:
    folder = files()
    data = str(
        folder / pick(rng, "one.csv", "one.csv", "many.csv", "broken.csv", "empty.csv", "none.csv")
    )
    words = [
        pick(rng, "forecast", "forecast", "backtest", "fit", "x"),
        data,
        "--model",
        pick(rng, "linear", "linear", "auto"),
    ]
    options: list[list[str]] = [
        ["--time", "ds"],
        ["--target", "y"],
        ["--steps", "3"],
        ["--id", "shop"],
        ["--freq", "D"],
        ["--coverage", "0.8"],
        ["--lags", "2"],
        ["--output", str(folder / "out.csv")],
        ["--exog", "x"],
        ["--origins", "2"],
        ["--compare", "last_value"],
        ["--sum", "all"],
        ["--date-format", "%Y-%m-%d"],
        ["--lower", "0"],
        ["--decimal", ","],
        ["--propagation", "naive"],
        ["--transform", "log"],
    ]
    chosen = [options[i] for i in (0, 1, 2)]
    chosen += [
        options[i]
        for i in rng.choice(range(3, len(options)), int(rng.integers(0, 4)), replace=False)
    ]
    for name, value in chosen:
        odd = rng.random() < 0.15
        words += [
            name,
            pick(rng, "", "x", "-1", "nan", "1e99", "0", "é", "--", "'") if odd else value,
        ]
    words = [word for word in words if rng.random() > 0.02]

    def call() -> Any:
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = command_line(words)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        said = err.getvalue().strip()
        assert code in (0, 1) or (code == 2 and said and not _FOREIGN.search(said)), (code, said)

    return [], call


CASES = (
    case_fit,
    case_fit,
    case_after_fit,
    case_forecast,
    case_forecast,
    case_forecast,
    case_backtest,
    case_panel,
    case_regressor,
    case_regressor,
    case_function,
    case_command,
)


def check_result(result: Any) -> None:
    """Assert what every result has; of a forecast its distribution's properties."""
    if isinstance(result, fu.Forecast):
        check_forecast(result)
    elif isinstance(result, Backtest):
        assert len(result.frame)
    elif isinstance(result, tuple):
        for each in result:
            check_result(each)
    elif isinstance(result, np.ndarray):
        assert result.dtype.kind in "fibO", result.dtype


def check_forecast(f: fu.Forecast) -> None:
    q = np.array([0.01, 0.1, 0.3, 0.5, 0.8, 0.99])
    quantiles = f.quantile(q).to_numpy()
    assert np.isfinite(quantiles).all(), "quantiles are not finite"
    assert (np.diff(quantiles, axis=1) >= 0).all(), "quantiles fall"
    std = f.std.to_numpy()
    assert np.isfinite(f.mean).all(), "the mean is not finite"
    assert np.isfinite(std).all(), "the std is not finite"
    assert (std >= 0).all()
    scale = np.where(std > 0, std, 1.0)
    correlation = f.cov.to_numpy() / scale / scale[:, None]
    assert np.linalg.eigvalsh(correlation)[0] > -1e-8, "covariance not positive semi-definite"
    if f.atoms.empty:
        near = 1e-7 * scale + 1e-12 * np.abs(quantiles[:, 2])
        below, above = (f.cdf(pd.Series(quantiles[:, 2] + off, f.index)) for off in (-near, near))
        right = (below < 0.3 + 1e-6) & (above > 0.3 - 1e-6)
        assert right.all(), f"cdf(quantile(.3)) is {below.to_numpy()} to {above.to_numpy()}"


def same(before: Any, after: Any) -> bool:
    if isinstance(before, pd.Series | pd.DataFrame):
        return (
            type(before) is type(after)
            and before.equals(after)
            and before.index.equals(after.index)
        )
    if isinstance(before, np.ndarray):
        return bool(np.array_equal(before, after, equal_nan=before.dtype.kind in "fc"))
    return True


class TooLong(BaseException):
    """Beyond the time limit."""


@contextlib.contextmanager
def limited() -> Any:
    def stop(*_: object) -> None:
        raise TooLong

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def is_own(warned: warnings.WarningMessage) -> bool:
    """Whether a warning is of this package: of its category, or of a text that says what to do."""
    return (
        type(warned.message).__module__.startswith("forecast_unc")
        or (issubclass(warned.category, UserWarning) and "forecast_unc" in warned.filename)
        or "fuzz.py" in warned.filename
    )


def is_ours(error: BaseException) -> bool:
    text, where = str(error), traceback.extract_tb(error.__traceback__)
    if any(frame.filename.endswith("sklearn/utils/validation.py") for frame in where):
        return True  # its checks of X and y, whose words its conformance suite asks for
    if isinstance(error, OSError) and error.errno is not None:
        return True  # of the system about a file, which it names
    kinds = (ValueError, TypeError, KeyError, OSError, ZeroDivisionError)
    return (
        isinstance(error, kinds)
        and bool(_OURS.search(text))
        and not _FOREIGN.search(text.split("; got")[0])
    )


def run(number: int, seed: int = 0) -> str | None:
    """What is wrong with a case, or None."""
    rng = np.random.default_rng([seed, number])
    kind = CASES[rng.integers(len(CASES))]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        given, call = kind(rng)
        before = copy.deepcopy(
            [each for each in given if isinstance(each, pd.Series | pd.DataFrame | np.ndarray)]
        )
        try:
            with limited(), contextlib.chdir(files()):
                check_result(call())
        except TooLong:
            return f"{kind.__name__}: over {SECONDS} s"
        except AssertionError as error:
            return f"{kind.__name__}: {error}"
        except (Exception, SystemExit) as error:
            if not is_ours(error):
                where = traceback.extract_tb(error.__traceback__)
                last = next(
                    (f for f in reversed(where) if "/forecast_unc/" in f.filename), where[-1]
                )
                place = f"{Path(last.filename).name}:{last.name}"
                return f"{kind.__name__}: {type(error).__name__} in {place}: {str(error)[:200]}"
        finally:
            import matplotlib.pyplot as plt

            plt.close("all")
    after = [each for each in given if isinstance(each, pd.Series | pd.DataFrame | np.ndarray)]
    if not all(map(same, before, after)):
        return f"{kind.__name__}: changed the caller's data"
    foreign = [one for one in warned if not is_own(one)]
    if foreign:
        one = foreign[0]
        return (
            f"{kind.__name__}: {one.category.__name__} of {Path(one.filename).name}: {one.message}"
        )
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    if options.case is not None:
        warnings.simplefilter("error")
        rng = np.random.default_rng([options.seed, options.case])
        given, call = CASES[rng.integers(len(CASES))](rng)
        print(given)
        check_result(call())
        return 0
    found, begun = collections.defaultdict(list), time.monotonic()
    for number in range(options.first, options.first + options.cases):
        wrong = run(number, options.seed)
        if wrong is not None:
            found[re.sub(r"[\d.]+", "#", wrong)[:160]].append((number, wrong))
    for those in sorted(found.values(), key=len, reverse=True):
        print(f"{len(those):5}  case {those[0][0]}: {those[0][1]}")
    bad = sum(map(len, found.values()))
    took = time.monotonic() - begun
    print(f"{options.cases} cases, {bad} wrong of {len(found)} kinds, {took:.0f} s")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
