import os
import pickle
import re
import signal
import subprocess
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from joblib import parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from scipy import stats
from scipy.stats import binom, ttest_1samp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import (
    Combination,
    Forecast,
    Forecaster,
    GPRegressor,
    backtest,
    backtest_panel,
    baselines,
    forecast_panel,
)
from forecast_unc.errors import ArgumentError
from forecast_unc.evaluation.backtest import Backtest
from forecast_unc.evaluation.folds import OWN_NAME
from forecast_unc.panels import checkpoints, jobs
from forecast_unc.panels.fallback import Answer
from forecast_unc.panels.panel import Columns, Panel
from forecast_unc.panels.panel_forecast import FailedSeriesWarning
from forecast_unc.series.times import future_index

NO_BAR = tqdm(disable=True)
CLOSE = {"rtol": 1e-6, "atol": 1e-6}  # of searches: a panel is on one thread of the linear algebra
FIGURES = ["forecast_unc", *(f"forecast_unc-{end}" for end in ("lo-95", "lo-80", "hi-80", "hi-95"))]


@pytest.fixture
def model() -> Forecaster:
    return Forecaster(GPRegressor(lengthscales=3.0, noise_std=0.5), lags=2, random_state=0)


@pytest.fixture
def series(rng: np.random.Generator) -> dict[str, pd.Series]:
    """Three daily random walks of different lengths that begin on different days."""
    return {
        name: pd.Series(
            rng.standard_normal(n).cumsum(), pd.date_range(start, periods=n, freq="D"), name=name
        )
        for name, n, start in (("b", 30, "2020-01-05"), ("a", 25, "2020-01-01"), ("c", 40, "2019"))
    }


def long(series, **columns):
    """A long frame, the rows of all series mixed, those of each in order of time."""
    frame = pd.concat(
        [
            pd.DataFrame({"unique_id": name, "ds": y.index, "y": y.to_numpy(), "at": range(len(y))})
            for name, y in series.items()
        ],
        ignore_index=True,
    )
    frame = frame.assign(**columns).sort_values("at", kind="stable")
    return frame.drop(columns="at").reset_index(drop=True)


class LastValue:
    """A random walk: the least a panel asks for."""

    def fit(self, y):
        self.index, self.y = y.index, y.dropna()
        return self

    def forecast(self, steps):
        t = np.arange(1.0, steps + 1)
        var = np.mean(np.diff(self.y) ** 2)
        last = np.full(steps, self.y.iloc[-1])
        return Forecast(future_index(self.index, steps), last, var * np.minimum.outer(t, t))


class Never:
    """Fails a test that expects an error before any work."""

    def fit(self, y):
        pytest.fail("a model was fitted")

    def forecast(self, steps, exog=None):
        pytest.fail("a model was asked for a forecast")


class NeverWithExog(Never):
    def fit(self, y, exog=None):
        pytest.fail("a model was fitted")


def of(result, name):
    return result[result["unique_id"] == name]


# --- what a forecast of a panel is


def test_each_series_is_forecast_as_by_itself(series, model):
    result = forecast_panel(long(series), model, 3)
    assert list(result.columns) == ["unique_id", "ds", *FIGURES, "error", "status", "notes"]
    assert result["unique_id"].tolist() == [name for name in series for _ in range(3)]
    assert result["error"].tolist() == [None] * 9
    assert result["status"].tolist() == ["ok"] * 9
    for name, y in series.items():
        alone = model.fit(y).forecast(3).to_nixtla(unique_id=name)
        rows = of(result, name).drop(columns=["error", "status", "notes"]).reset_index(drop=True)
        pd.testing.assert_frame_equal(rows, alone, **CLOSE, check_dtype=False)


def test_names_levels_and_propagation_are_the_users(series, model):
    frame = long(series).rename(columns={"unique_id": "shop", "ds": "day", "y": "sales"})
    names = {"id_col": "shop", "time_col": "day", "target_col": "sales"}
    result = forecast_panel(frame, model, 2, **names, levels=[90, 50], propagation="naive")
    ends = [f"forecast_unc-{end}" for end in ("lo-90", "lo-50", "hi-50", "hi-90")]
    assert list(result.columns) == [
        "shop",
        "day",
        "forecast_unc",
        *ends,
        "error",
        "status",
        "notes",
    ]
    alone = model.fit(series["a"]).forecast(2, propagation="naive").interval(0.9)
    rows = result[result["shop"] == "a"]
    np.testing.assert_allclose(rows["forecast_unc-lo-90"], alone["lower"], **CLOSE)
    np.testing.assert_allclose(rows["forecast_unc-hi-90"], alone["upper"], **CLOSE)


@pytest.mark.parametrize(
    "forecaster",
    [
        LastValue(),
        baselines.SeasonalNaive(),
        Combination(
            [
                Forecaster(GPRegressor(lengthscales=3.0, noise_std=0.5), lags=2),
                baselines.SeasonalNaive(),
            ]
        ),
    ],
    ids=lambda forecaster: type(forecaster).__name__,
)
def test_anything_that_fits_and_forecasts_will_do(series, forecaster):
    result = forecast_panel(long(series), forecaster, 2)
    for name, y in series.items():
        alone = forecaster.fit(y).forecast(2)
        np.testing.assert_allclose(of(result, name)["forecast_unc"], alone.mean, **CLOSE)


def test_neither_the_forecaster_nor_the_frames_are_touched(series, model):
    frame = long(series, x=0.5)
    future = frame[["unique_id", "ds", "x"]].assign(ds=frame["ds"] + pd.Timedelta(days=90))
    before, ahead = frame.copy(), future.copy()
    said = (
        "exog must have exactly the times .* got no row at 2020-02-04.*All series have this; the "
    )
    said += "first is 'b'"
    with pytest.raises(ValueError, match=said):
        forecast_panel(frame, model, 2, exog=future)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(future, ahead)
    with pytest.raises(NotFittedError):
        model.forecast(1)
    ensemble = model.fit(series["a"]).ensemble_
    forecast_panel(frame.drop(columns="x"), model, 2)
    assert model.ensemble_ is ensemble


def test_an_empty_frame_has_an_empty_forecast_of_the_same_columns(series, model):
    frame = long(series)
    full, empty = (forecast_panel(part, model, 2) for part in (frame, frame.iloc[:0]))
    assert len(empty) == 0
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)


# --- ids and times


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        [("x", 3), ("x", 1), ("y", 1)],
        [True, False, "neither"],
        pd.Categorical(["b", "a", "c"], categories=["c", "b", "a", "unused"]),
        pd.to_datetime(["2020-01-03", "2020-01-01", "2020-01-02"]),
        pd.array([7, 5, 6], dtype="Int64"),
    ],
    ids=["int", "tuple", "mixed", "categorical", "datetime", "nullable"],
)
def test_ids_keep_their_type_and_order(series, ids):
    frame = long(series)
    places = frame["unique_id"].map({name: i for i, name in enumerate(series)}).to_numpy()
    kept = pd.Series(ids) if not isinstance(ids, list) else pd.Series(dict(enumerate(ids)))
    frame["unique_id"] = (
        kept.take(places).to_numpy()
        if isinstance(ids, list)
        else pd.Series(kept.array.take(places), frame.index)
    )
    result = forecast_panel(frame, LastValue(), 2)
    assert result["unique_id"].dtype == frame["unique_id"].dtype
    assert result["unique_id"].tolist() == [name for name in kept.tolist() for _ in range(2)]
    np.testing.assert_allclose(
        result["forecast_unc"], np.repeat([y.iloc[-1] for y in series.values()], 2), **CLOSE
    )


@pytest.mark.parametrize("kind", ["zone", "period", "whole", "seconds"])
def test_every_kind_of_time(series, model, kind):
    def index(n):
        return {
            "zone": pd.date_range("2020-03-01", periods=n, freq="D", tz="Europe/Paris"),
            "period": pd.period_range("2020-01", periods=n, freq="M"),
            "whole": pd.RangeIndex(5, 5 + 2 * n, 2),
            "seconds": pd.date_range("2020-01-01", periods=n, freq="15min", unit="s"),
        }[kind]

    moved = {name: y.set_axis(index(len(y))) for name, y in series.items()}
    result = forecast_panel(long(moved), model, 3)
    for name, y in moved.items():
        alone = model.fit(y).forecast(3).to_nixtla(unique_id=name)
        assert of(result, name)["ds"].tolist() == alone["ds"].tolist()
        np.testing.assert_allclose(of(result, name)[FIGURES], alone[FIGURES], **CLOSE)
    expected = {"whole": "Int64", "period": alone["ds"].dtype}.get(kind, index(1).dtype)
    assert result["ds"].dtype == expected


def test_a_frequency_serves_series_too_short_to_show_theirs(series):
    series["a"] = series["a"].iloc[:2]
    inferred = forecast_panel(long(series), LastValue(), 2)
    assert of(inferred, "a")["ds"].tolist() == list(pd.date_range("2020-01-03", periods=2))
    assert set(of(inferred, "a")["status"]) == {
        "2 values: last value, spread of the panel's changes"
    }
    with pytest.warns(FailedSeriesWarning, match="the model failed for 1 of 1 series"):
        alone = forecast_panel(long({"a": series["a"]}), LastValue(), 2)
    assert alone["error"].item() == (
        "ValueError: y must have 3 times or more for its frequency to be inferred; got 2. Pass "
        'freq, for example freq="D".'
    )
    assert alone["status"].item().startswith("no forecast: no frequency to continue its times by")
    given = forecast_panel(long(series), LastValue(), 2, freq="D")
    assert of(given, "a")["ds"].tolist() == list(pd.date_range("2020-01-03", periods=2))
    numbered = {name: y.set_axis(range(0, 7 * len(y), 7)) for name, y in series.items()}
    result = forecast_panel(long(numbered), LastValue(), 2, freq=7)
    assert of(result, "a")["ds"].tolist() == [14, 21]


@pytest.mark.parametrize(
    ("spoil", "freq", "message"),
    [
        (
            lambda a: a.iloc[[0, 2, 1, *range(3, 25)]],
            None,
            "y must be in ascending order of time; got 2020-01-03 out of place. Sort it with "
            "frame.sort_values(['unique_id', 'ds']).",
        ),
        (
            lambda a: a.iloc[[0, 1, 1, *range(2, 25)]],
            "D",
            "y must have unique times; got 2020-01-02 more than once. Aggregate the duplicates, "
            "for example frame.drop_duplicates(['unique_id', 'ds']).",
        ),
        (
            lambda a: a.set_axis(a.index.where(a.index.day != 7)),
            None,
            "y must have no missing times in its index; got NaT",
        ),
        (
            lambda a: a.drop(a.index[4]),
            None,
            "y must have a regular index; got 1 missing timestamp, first 2020-01-05. Pass "
            'freq="D": missing values are then uncertain, not filled.',
        ),
        (
            lambda a: a.set_axis([*a.index[:4], a.index[4] + pd.Timedelta("1h"), *a.index[5:]]),
            "D",
            "y must have times of freq='D' alone; got 2020-01-05",
        ),
        (lambda a: a * np.inf, None, "y must be finite or missing"),
        (lambda a: a * 0, None, "y must vary"),
    ],
)
def test_a_series_that_fails_is_answered_and_the_others_are_forecast(
    series, model, spoil, freq, message
):
    sound = forecast_panel(long({n: y for n, y in series.items() if n != "a"}), model, 2)
    series["a"] = spoil(series["a"])
    found = "the model failed for 1 of 3 series, see the columns error and status; the first: 'a'"
    with pytest.warns(FailedSeriesWarning, match=found) as caught:
        result = forecast_panel(long(series), model, 2, freq=freq)
    assert [one.filename for one in caught] == [__file__]
    row = of(result, "a").iloc[0]
    assert of(result, "a")["ds"].tolist() == list(pd.date_range("2020-01-26", periods=2))
    assert of(result, "a")[FIGURES].notna().all(axis=None)
    assert (np.diff(of(result, "a")[FIGURES[1:]]) > 0).all()
    instead = (
        "no value: median level" if message.startswith("y must be fin") else "the model failed"
    )
    assert row["status"].startswith(instead)
    assert row["error"].partition("Error: ")[2].startswith(message)
    others = result[result["unique_id"] != "a"].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, sound, check_exact=True)


def test_a_warning_counts_the_causes_of_failures(series):
    a = series["a"]
    spoilt = {f"gap {i}": a.drop(a.index[i]) for i in (3, 5, 7)}
    spoilt |= {f"back {i}": a[::-1] for i in range(2)}
    spoilt |= {"twice": a.iloc[[0, *range(25)]], "far": a * np.inf}
    frame = pd.concat(long({name: y}) for name, y in {**spoilt, **series}.items())
    with pytest.warns(FailedSeriesWarning, match="failed for 7 of 10") as caught:
        forecast_panel(frame, Forecaster(lags=2), 2)
    said = str(caught[0].message).partition("status; ")[2]
    assert said.startswith("the first of 3: 'gap 3': MissingTimesError: y must have a regular")
    assert "; the first of 2: 'back 0': ValueError: y must be in ascending order" in said
    assert said.count("the first of") == 3
    assert said.endswith("; 1 of other causes")


def test_whole_number_times_are_continued_where_a_series_fails(series):
    numbered = {name: y.reset_index(drop=True) for name, y in series.items()}
    numbered["b"] = numbered["b"].set_axis([*range(29), 50])
    with pytest.warns(FailedSeriesWarning, match="first: 'b': MissingTimesError: y must"):
        result = forecast_panel(long(numbered), LastValue(), 1)
    assert result["ds"].tolist() == [51, 25, 40]


FEW = {
    "none": [np.nan] * 5,
    "one": [3.0],
    "two": [3.0, 4.0],
    "three, one missing": [3.0, np.nan, 5.0, 4.0],
    "one zero": [0.0],
    "constant": [7.0] * 24,
    "zeros": [0.0] * 24,
    "one-valued once": [0.0] * 23 + [5.0],
    "two-valued": [1.0, 2.0] * 12,
    "infinite": [1.0] * 11 + [np.inf],
}


@pytest.mark.parametrize(
    "forecaster", [Forecaster(), pytest.param(baselines.ETS(), marks=pytest.mark.slow)]
)
def test_every_item_of_a_shop_has_an_answer(rng, forecaster):
    """Sixteen items: new ones, long zeros, ordinary ones; no row without numbers."""
    items = {name: np.array(y) for name, y in FEW.items()}
    for i in range(3):
        items[f"slow {i}"] = rng.poisson(2.0, 36) * (rng.random(36) < 0.3) * 1.0
        items[f"usual {i}"] = 50.0 + rng.normal(0, 5, 36).cumsum().clip(-40)
    end = pd.Timestamp("2023-01-01")
    frame = long(
        {
            n: pd.Series(y, pd.date_range(end=end, periods=len(y), freq="MS"))
            for n, y in items.items()
        }
    )
    with warnings.catch_warnings(action="ignore"):
        result = forecast_panel(frame, forecaster, 3)
    assert result.groupby("unique_id").size().to_dict() == dict.fromkeys(items, 3)
    assert result[FIGURES].notna().all(axis=None)
    assert set(result["ds"]) == set(pd.date_range("2023-02-01", periods=3, freq="MS"))
    status = result.groupby("unique_id")["status"].first()
    last = "last value, spread of the panel's changes"
    assert status["one"] == status["one zero"] == f"1 value: {last}"
    assert status["two"] == f"2 values: {last}"
    assert status["three, one missing"] == f"3 values: {last}"
    assert status["none"].startswith("no value: median level of the panel")
    assert status["infinite"].startswith("the model failed: last value, spread of its own")
    assert (status == "ok").sum() >= (6 if isinstance(forecaster, Forecaster) else 3)
    new = result[result["status"] != "ok"]
    assert (new[FIGURES] >= 0).all(axis=None)  # as all values of the panel
    assert (new["forecast_unc-hi-95"] > new["forecast_unc-lo-95"]).all()


def few_and_many(rng, **new):
    """Twelve items of 40 weeks that sell now and then, and new ones."""
    weeks = pd.date_range("2024-01-01", periods=40, freq="W-MON")
    items = {f"old {i}": rng.poisson(rng.uniform(0.2, 4), 40) for i in range(12)} | new
    return long({name: pd.Series(y, weeks[-len(y) :], float) for name, y in items.items()})


def test_new_items_of_counts_have_whole_bounds_and_the_mean_that_goes_with_them(rng):
    new = {"none": [0, 0, 0], "one": [1, 0, 0], "three": [0, 0, 3]}
    ahead = forecast_panel(few_and_many(rng, **new), LastValue(), 3, levels=(90,))
    bounds = ahead.set_index("unique_id")[["forecast_unc-lo-90", "forecast_unc-hi-90"]].loc[[*new]]
    assert (bounds == bounds.round()).all(axis=None)
    assert (bounds >= 0).all(axis=None)
    first = ahead.groupby("unique_id").first()
    upper, mean = first["forecast_unc-hi-90"], first["forecast_unc"]
    assert upper["none"] <= upper["one"] <= upper["three"]  # nothing sold is no reason for more
    assert 0.0 < mean["none"] < mean["one"] < 1.0


def test_the_mean_of_a_borrowed_answer_is_that_of_the_censored_distribution(rng):
    """E max(T, 0) by paths: 3 and Student's t of 4 degrees, at two scales."""
    scale = np.array([1.0, 9.0])
    one = Answer(pd.RangeIndex(2), 3.0, scale, 4.0, 0.0, False, "", np.array([False] * 2))
    drawn = np.maximum(3.0 + scale * rng.standard_t(4.0, (400_000, 2)), 0.0)
    np.testing.assert_allclose(one.mean(), drawn.mean(axis=0), rtol=0.01)
    walk = 3.0 + (np.array([1.0, np.sqrt(80.0)]) * rng.standard_normal((400_000, 2))).cumsum(axis=1)
    total = one._replace(lower=-np.inf).aggregated("sum")
    assert total.level == pytest.approx(walk.sum(axis=1).mean(), abs=0.1)
    assert total.scale == pytest.approx(walk.sum(axis=1).std(), rel=0.01)
    half = one._replace(lower=-np.inf).aggregated("mean")
    assert half.level == total.level / 2
    assert half.scale == pytest.approx(total.scale / 2)


def test_a_panel_sums_the_steps_of_each_series(series, model):
    frame = long({**series, "new": series["a"][-2:]}, region="all")
    sums = forecast_panel(frame, model, 3, aggregate="sum", by="region", correlation=0.5)
    for name, y in series.items():
        alone = model.fit(y).forecast(3).aggregate("sum").to_nixtla(unique_id=name)
        row = of(sums, name)
        assert row["ds"].tolist() == [y.index[-1] + pd.Timedelta("3D")]
        np.testing.assert_allclose(row[FIGURES], alone[FIGURES], **CLOSE)
    new = of(sums, "new")
    np.testing.assert_allclose(new["forecast_unc"], 3 * series["a"].iloc[-1])
    means = of(forecast_panel(frame, model, 3, aggregate="mean", by="region", correlation=0.5), "a")
    np.testing.assert_allclose(3 * means[FIGURES], of(sums, "a")[FIGURES])
    with pytest.raises(ValueError, match="aggregate must be one of None, 'sum', 'mean'; got 'max'"):
        forecast_panel(frame, model, 3, aggregate="max")


def test_a_new_item_borrows_from_items_of_its_size(rng):
    large = {f"large {i}": 200 + rng.normal(0, 20, 40) for i in range(20)}  # changes of 14 %
    rare = {f"rare {i}": 1.5 * rng.binomial(1, 0.2, 40) for i in range(30)}  # of 280 %
    items = {**large, **rare, "new": np.array([190.0]), "new and rare": np.array([1.5])}
    months = pd.date_range("2021-01-01", periods=40, freq="MS")
    frame = pd.concat(
        [
            pd.DataFrame({"unique_id": name, "ds": months[-len(y) :], "y": y})
            for name, y in items.items()
        ]
    )
    ahead = forecast_panel(frame, baselines.Naive(), steps=1).set_index("unique_id")
    last = pd.Series({"new": 190.0, "new and rare": 1.5})
    width = (ahead["forecast_unc-hi-80"] - last) / last
    t = stats.t.ppf(0.9, 4)
    for name, others in (("new", large), ("new and rare", rare)):
        changes = [np.sqrt(np.mean(np.diff(y) ** 2)) / y.mean() for y in others.values()]
        assert width[name] == pytest.approx(t * np.median(changes), rel=0.25)  # 12 of them lend


def test_a_new_item_borrows_the_relative_changes_of_the_others(rng):
    """Items of other sizes: the spread is that of the others times the item's own size."""
    times = pd.date_range("2020-01-01", periods=200, freq="D")
    walks = rng.normal(0, 1, (3, 200)).cumsum(axis=1) + 100
    items = {f"s{i}": pd.Series(w * 10.0**i, times) for i, w in enumerate(walks)}
    r = {
        h: np.median([np.sqrt(np.mean((w[h:] - w[:-h]) ** 2)) / w.mean() for w in walks])
        for h in (1, 2)
    }
    new = [5000.0, 5100.0]
    result = forecast_panel(
        long({**items, "new": pd.Series(new, times[-2:])}), LastValue(), 2, levels=(90,)
    )
    first = np.sqrt((4 * (r[1] * np.mean(new)) ** 2 + 100.0**2) / 5)
    half = np.array([first, first * r[2] / r[1]]) * stats.t(5).ppf(0.95)
    assert len(forecast_panel(long(items | {"new": items["s0"][-3:]}), LastValue(), 300)) == 1200
    rows = of(result, "new")
    np.testing.assert_allclose(rows["forecast_unc"], new[-1])
    np.testing.assert_allclose(rows["forecast_unc-hi-90"], new[-1] + half, rtol=1e-9)
    np.testing.assert_allclose(rows["forecast_unc-lo-90"], new[-1] - half, rtol=1e-9)


def test_a_panel_of_new_items_alone_has_wide_answers(model):
    times = pd.date_range("2020-01-01", periods=1, freq="D")
    with pytest.warns(FailedSeriesWarning, match="2 of 2"):
        result = forecast_panel(
            long({"a": pd.Series(4.5, times), "b": pd.Series(np.nan, times)}),
            model,
            1,
            freq="D",
        )
    width = 4.5 * stats.t(4).ppf(0.975)
    assert result["status"].tolist() == [
        "1 value: last value, spread of its size, none to borrow",
        "no forecast: no value, and no series of the panel to borrow from",
    ]
    assert result["forecast_unc-hi-95"][0] == pytest.approx(4.5 + width)
    assert result["forecast_unc-lo-95"][0] == 0.0


def test_missing_targets_are_left_to_the_model(series, model):
    series["a"].iloc[[3, 10, 24]] = np.nan
    alone = model.fit(series["a"]).forecast(2)
    frame = long(series)
    np.testing.assert_allclose(
        of(forecast_panel(frame, model, 2), "a")["forecast_unc"], alone.mean, **CLOSE
    )
    nullable = frame.astype({"y": "Float64"})
    assert nullable["y"].isna().sum() == 3
    np.testing.assert_allclose(
        of(forecast_panel(nullable, model, 2), "a")["forecast_unc"], alone.mean, **CLOSE
    )


# --- regressors


@pytest.fixture
def regressors(series, rng):
    """A long frame with two regressors, and a long one of their future values."""
    whole = {
        name: pd.DataFrame(
            {"x": rng.standard_normal(len(y) + 3), "on": rng.random(len(y) + 3) > 0.5},
            pd.date_range(y.index[0], periods=len(y) + 3, freq="D"),
        )
        for name, y in series.items()
    }
    frame = long(series)
    past = [whole[i].loc[t] for i, t in zip(frame["unique_id"], frame["ds"], strict=True)]
    frame = frame.assign(x=[row["x"] for row in past], on=[row["on"] for row in past])
    future = pd.concat(
        [table.iloc[-3:].rename_axis("ds").assign(unique_id=n) for n, table in whole.items()]
    ).reset_index()
    return frame, future, whole


def test_further_columns_are_regressors(series, regressors, model):
    frame, future, whole = regressors
    shuffled = future[::-1].sort_values("ds", kind="stable")[["on", "unique_id", "x", "ds"]]
    more = pd.DataFrame({"unique_id": ["other"], "ds": [pd.Timestamp("2020-01-01")], "x": [0.0]})
    shuffled = pd.concat([more.assign(on=False), shuffled])
    result = forecast_panel(frame, model, 3, exog=shuffled)
    for name, y in series.items():
        table = whole[name].astype({"x": float, "on": bool})
        alone = model.fit(y, table.iloc[:-3]).forecast(3, table.iloc[-3:])
        np.testing.assert_allclose(of(result, name)["forecast_unc"], alone.mean, **CLOSE)


def test_regressors_that_are_missing_fail_their_series(regressors, model):
    frame, future, _ = regressors
    exog = future[(future["unique_id"] != "a")]
    exog = exog[
        (exog["unique_id"] != "b") | (exog["ds"] != exog["ds"][exog["unique_id"] == "b"].max())
    ]
    with pytest.warns(FailedSeriesWarning, match="2 of 3 series"):
        result = forecast_panel(frame, model, 3, exog=exog)
    assert result[FIGURES].notna().all(axis=None)
    assert of(result, "a")["error"].iloc[0] == (
        "ValueError: exog must have rows of each series; got none of this one. Give its regressors "
        "at the 3 steps after its last time."
    )
    assert (
        of(result, "b")["error"].iloc[0]
        == "ValueError: exog must have exactly the times of the 3 steps after the origin, 3 rows "
        "from 2020-02-04; got no row at 2020-02-06. Give a value for every time."
    )
    assert of(result, "c")["error"].isna().all()


@pytest.mark.parametrize(("ours", "theirs"), [(int, str), (str, int)])
def test_ids_of_regressors_of_another_type_are_named(regressors, model, ours, theirs):
    frame, future, _ = regressors
    frame, exog = (
        table.assign(unique_id=table["unique_id"].map({"a": 1, "b": 2, "c": 3}).astype(kind))
        for table, kind in ((frame, ours), (future, theirs))
    )
    message = "exog must have ids as frame has, numbers; got text, '2' beside 2. Convert them: "
    if ours is str:
        message = "exog must have ids as frame has, text; got numbers, 2 beside '2'. Convert them: "
    with pytest.raises(TypeError, match=message) as raised:
        forecast_panel(frame, model, 3, exog=exog)
    exec(str(raised.value).partition("them: ")[2].rstrip("."), {"exog": exog})
    assert forecast_panel(frame, model, 3, exog=exog)["error"].isna().all()
    with pytest.raises(ValueError, match="none of this one.* All series .* the first is '?2'?.$"):
        forecast_panel(frame, model, 3, exog=exog[exog["ds"] > "2100"])


def test_times_of_regressors_may_have_another_unit(regressors, model):
    frame, future, _ = regressors
    exog = future.assign(ds=future["ds"].dt.as_unit("ns"))
    result = forecast_panel(frame, model, 3, exog=exog)
    pd.testing.assert_frame_equal(result, forecast_panel(frame, model, 3, exog=future))


# --- wrong calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps must be a whole number, at least 1; got 0. 1 is the next value."),
        ({"steps": 2.0}, "steps must be a whole number, at least 1; got 2.0"),
        ({"levels": (0.95,)}, "levels must be percentages from 1 to below 100; got 0.95"),
        ({"levels": 95}, "levels must be a sequence of percentages; got 95. Pass (95,) for one."),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0; got 0"),
        ({"propagation": "magic"}, "propagation must be one of 'auto', .*; got 'magic'"),
        (
            {"propagation": "naive"},
            "propagation must be 'exact', the default, for Never, which has no choice; got "
            "'naive'. Leave it out.",
        ),
        ({"forecaster": Forecaster}, "forecaster must have fit and forecast; got "),
        (
            {"id_col": "id"},
            "id_col must be a column of frame; got 'id', and the columns are ['unique_id', 'ds', "
            "'y']. An index becomes a column by frame.reset_index().",
        ),
        ({"time_col": "t"}, "time_col must be a column of frame; got 't'"),
        ({"target_col": "t"}, "target_col must be a column of frame; got 't'"),
        (
            {"target_col": "ds"},
            "id_col, time_col and target_col must be three columns; got 'unique_id', 'ds', 'ds'.",
        ),
        ({"freq": "fortnight"}, "freq must be a frequency of pandas; got 'fortnight'."),
        ({"freq": 1}, "freq must be a frequency of pandas; got 1"),
        ({"frame": [1, 2]}, "frame must be a DataFrame of pandas, polars, pyarrow or .*; got "),
    ],
)
def test_a_wrong_call_is_an_error_before_any_work(series, arguments, message):
    given = {"frame": long(series), "forecaster": Never(), "steps": 2, **arguments}
    pattern = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises((ValueError, TypeError), match=pattern):
        forecast_panel(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f.astype({"ds": str}),
            "time_col must be a column of datetimes, periods or whole numbers; got 'ds' of dtype "
            "str. Convert it with pd.to_datetime.",
        ),
        (
            lambda f: f.assign(y="1"),
            "target_col must be a column of numbers; got 'y' of dtype str. Convert it with "
            "pd.to_numeric, truth values with astype(float).",
        ),
        (
            lambda f: f.assign(unique_id=f["unique_id"].where(f.index != 7)),
            "id_col must name the series of each row; got no id in row 7. Fill it in, or drop",
        ),
        (
            lambda f: f.assign(unique_id=[[1]] * len(f)),
            "id_col must be a column of hashable ids; got 'unique_id' with an unhashable type: "
            "'list'. Convert them, lists for example to tuples.",
        ),
        (
            lambda f: f.assign(x=1.0),
            "exog must be given if frame has further columns; got None beside ['x']. Pass "
            "regressors' future values, or leave them out, frame[['unique_id', 'ds', 'y']].",
        ),
        (
            lambda f: f.assign(x="red"),
            "frame must have numbers in its further columns, which are regressors; got 'x' of "
            "dtype str. Leave it out, encode it as numbers, or name it in by= if it groups the "
            "series.",
        ),
        (
            lambda f: pd.concat([f, f[["y"]]], axis=1),
            "frame must have distinct columns; got 'y' twice. Rename one.",
        ),
    ],
)
def test_a_wrong_column_is_an_error_before_any_work(series, change, message):
    message = re.escape(message).replace(r"dtype\ str", r"dtype\ (str|object)")
    with pytest.raises((ValueError, TypeError), match=message):
        forecast_panel(change(long(series)), NeverWithExog(), 2)


@pytest.mark.parametrize(
    ("frame", "exog", "message"),
    [
        (
            {},
            {"x": 1.0},
            "exog must be None if frame has no further columns; got a DataFrame. Give the past of",
        ),
        (
            {"x": 1.0},
            {"z": 1.0},
            "exog must have the columns ['unique_id', 'ds', 'x']; got ['unique_id', 'ds', 'z'].",
        ),
        ({"x": 1.0}, {"x": 1.0, "ds": 3}, "exog must have times of the kind that frame has, date"),
        ({"x": 1.0}, {"x": 1.0, "ds": "x"}, "time_col of exog must be a column of datetimes, "),
        ({"x": 1.0}, {"x": 1.0, "unique_id": None}, "id_col of exog must name the series of each"),
        ({"x": 1.0}, {"x": "red"}, "exog must have numbers in its further columns"),
    ],
)
def test_wrong_regressors_are_an_error_before_any_work(series, frame, exog, message):
    given = long(series, **frame)
    future = given[["unique_id", "ds"]].assign(**exog)
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        forecast_panel(given, NeverWithExog(), 2, exog=future)


@pytest.mark.parametrize("kinds", ["date, period", "period, date", "zone, date", "period, zone"])
def test_the_remedy_for_other_times_of_regressors_is_code_that_mends_them(series, kinds):
    as_kind = {
        "date": lambda times: times,
        "period": lambda times: times.dt.to_period("D"),
        "zone": lambda times: times.dt.tz_localize("Asia/Tokyo"),
    }
    ours, theirs = (as_kind[kind] for kind in kinds.split(", "))
    frame = long(series, x=1.0)
    given = frame.assign(ds=ours(frame["ds"]))
    exog = frame[["unique_id", "ds", "x"]].assign(ds=theirs(frame["ds"]))
    with pytest.raises(TypeError, match="of the kind that frame has") as raised:
        forecast_panel(given, NeverWithExog(), 2, exog=exog)
    exec(str(raised.value).rpartition(": ")[2].rstrip("."), {"exog": exog, "pd": pd})
    assert exog["ds"].equals(given["ds"])


ALL = " All series have this; the first is 'b'."


@pytest.mark.parametrize(
    ("spoil", "freq", "message"),
    [
        (
            lambda y: y[::-1],
            None,
            r"y must be in ascending order of time; .*frame.sort_values\(\['unique_id', 'ds'\]\)",
        ),
        (
            lambda y: y.iloc[[0, 1, 1, 2, 3]],
            "D",
            r"y must have unique times; got .*frame.drop_duplicates\(\['unique_id', 'ds'\]\)",
        ),
        (
            lambda y: y.set_axis(
                y.index.shift(70) - pd.to_timedelta(np.arange(len(y)) // 10 % 2, "h")
            ),
            None,
            r"name their zone, for example frame\['ds'\].dt.tz_localize\(\"UTC\"\).dt.tz_convert",
        ),
        (
            lambda y: y[y.index.day_of_week == 0],
            "W",
            "y must have times of freq='W-SUN' alone; got 2020-01-06. Its times are Mondays: "
            "W-MON fits",
        ),
        (
            lambda y: y.drop(y.index[4]),
            None,
            r'y must have a regular index; got .* first 2020-01-09. Pass freq="D": missing values',
        ),
    ],
)
def test_times_that_are_wrong_in_all_series_are_an_error_before_any_work(
    series, spoil, freq, message
):
    series = {name: spoil(y) for name, y in series.items()}
    frame = pd.concat(long({name: y}) for name, y in series.items())  # in the order given
    for work in (forecast_panel, backtest_panel):
        with pytest.raises(ValueError, match=f"{message}.*{ALL}"):
            work(frame, Never(), 2, freq=freq)
    frame = pd.concat(
        [frame, long({"sound": pd.Series(1.0, pd.date_range("2020", periods=5, freq="D"))})]
    )
    if freq != "W":
        with pytest.raises(pytest.fail.Exception, match="a model was fitted"):
            forecast_panel(frame, Never(), 2, freq=freq)


@pytest.mark.parametrize(("kind", "freq"), [("date", "D"), ("date", None), ("period", None)])
def test_a_time_without_a_row_has_no_regressors(regressors, model, kind, freq):
    frame, future, _ = regressors
    times = frame["ds"].dt.to_period("D") if kind == "period" else frame["ds"]
    gap = (frame["unique_id"] == "a") & (frame["ds"] == "2020-01-05")
    future = future if kind == "date" else future.assign(ds=future["ds"].dt.to_period("D"))
    with pytest.warns(FailedSeriesWarning, match="1 of 3 series"):
        found = forecast_panel(frame.assign(ds=times)[~gap], model, 3, exog=future, freq=freq)
    assert of(found, "a")["error"].iloc[0] == (
        "ValueError: frame must have regressors at each time; got no row of series 'a' at "
        "2020-01-05. Add one, its target left empty (NaN), with the regressors of that time."
        if freq
        else "MissingTimesError: y must have a regular index; got 1 missing timestamp, first "
        "2020-01-05. Add rows, the target left empty (NaN), with the regressors of those times."
    )


def test_a_model_without_regressors_is_told_so(series):
    frame = long(series, x=1.0)
    message = "frame must have no further columns for Never, which takes no regressors; got ['x']."
    with pytest.raises(ValueError, match=re.escape(message)):
        forecast_panel(frame, Never(), 2, exog=frame[["unique_id", "ds", "x"]])
    with pytest.raises(ValueError, match=re.escape(message.replace("Never", "SeasonalNaive"))):
        backtest_panel(frame, baselines.SeasonalNaive(1), 2, n_origins=2)
    remedy = r"'x' of dtype (str|object)\. Leave it out or encode it as numbers\.$"
    with pytest.raises(TypeError, match=remedy):  # which has no by=
        backtest_panel(frame.assign(x="red"), baselines.SeasonalNaive(1), 2, origins=2)


def test_frequencies_of_other_times(series):
    periods = long(series).assign(ds=lambda f: f["ds"].dt.to_period("D"))
    with pytest.raises(ValueError, match="freq must be None for periods, which have one; got 'D'"):
        forecast_panel(periods, Never(), 2, freq="D")
    numbered = long({name: y.reset_index(drop=True) for name, y in series.items()})
    with pytest.raises(ValueError, match="freq must be a whole number, at least 1; got 'D'. Of"):
        forecast_panel(numbered, Never(), 2, freq="D")


def test_columns_of_the_result_are_not_taken_twice(series):
    frame = long(series).rename(columns={"unique_id": "error"})
    with pytest.raises(
        ValueError, match="id_col, time_col and by must not name columns of the result; g"
    ):
        forecast_panel(frame, Never(), 2, id_col="error")


# --- other libraries


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_dataframes_come_back_as_what_they_were(series, model, library):
    polars = pytest.importorskip("polars")
    series["a"] = series["a"].set_axis(pd.DatetimeIndex([pd.NaT] * 25))
    frame = long(series)
    given = pa.Table.from_pandas(frame, preserve_index=False)
    if library == "polars":
        given = polars.from_arrow(given).with_columns(polars.col("ds").cast(polars.Date))
    with pytest.warns(FailedSeriesWarning, match="1 of 3"):
        expected = forecast_panel(frame, model, 2)
    with pytest.warns(FailedSeriesWarning, match="1 of 3"):
        result = forecast_panel(given, model, 2)
    assert type(result) is type(given)
    types = given.schema
    if library == "polars":
        assert result.schema["ds"] == types["ds"] == polars.Date
        assert result.schema["unique_id"] == types["unique_id"]
        rows, nulls = result.to_dicts(), result["error"].null_count()
    else:
        assert result.schema.field("ds").type == types.field("ds").type
        assert result.schema.field("unique_id").type == types.field("unique_id").type
        rows, nulls = result.to_pylist(), result["error"].null_count
    assert nulls == 4
    for row, (_, wanted) in zip(rows, expected.iterrows(), strict=True):
        assert row["unique_id"] == wanted["unique_id"]
        assert row["error"] == wanted["error"]
        assert (row["ds"] is None) == (wanted["ds"] is pd.NaT)
        if row["ds"] is not None:
            assert pd.Timestamp(row["ds"]) == wanted["ds"]
            assert [row[name] for name in FIGURES] == wanted[FIGURES].tolist()


def test_a_lazy_frame_is_refused(series):
    polars = pytest.importorskip("polars")
    lazy = polars.from_arrow(pa.Table.from_pandas(long(series))).lazy()
    with pytest.raises(TypeError, match="frame must be .*; got polars.LazyFrame. Collect a lazy"):
        forecast_panel(lazy, Never(), 2)


def test_other_dataframes_need_narwhals(series, monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    table = pa.Table.from_pandas(long(series), preserve_index=False)
    message = (
        r"frame must be a pandas DataFrame; got pyarrow.Table. Other dataframes need narwhals: "
        r"install forecast_unc\[dataframes\]."
    )
    with pytest.raises(TypeError, match=message):
        forecast_panel(table, Never(), 2)


# --- output


class Stops(LastValue):
    """A run that is broken off at one series, as by a keyboard."""

    at, fits = None, 0

    def fit(self, y):
        if y.name == type(self).at:
            raise KeyboardInterrupt
        type(self).fits += 1
        return super().fit(y)


def test_a_run_that_is_broken_off_is_resumed(series, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SIZE", 2)
    monkeypatch.setattr(Stops, "at", "e")
    series |= {name: y.iloc[:20] for name, y in zip("def", series.values(), strict=True)}
    series["new"] = series["a"].iloc[:2]
    series["gap"] = series["a"].drop(series["a"].index[4])
    frame, folder = long(series), tmp_path / "of" / "sales"
    with pytest.warns(FailedSeriesWarning, match="1 of 8 .*'gap': Missing"):
        expected = forecast_panel(frame, LastValue(), 3)
    with pytest.raises(KeyboardInterrupt):
        forecast_panel(frame, Stops(), 3, output=folder)
    assert [path.name[:11] for path in sorted(folder.iterdir())] == ["part-00000-", "part-00001-"]
    monkeypatch.setattr(Stops, "at", None)
    monkeypatch.setattr(Stops, "fits", 0)
    for where in (folder, str(folder)):
        with pytest.warns(FailedSeriesWarning, match="1 of 8 .*'gap': Missing"):
            result = forecast_panel(frame, Stops(), 3, output=where)
        assert Stops.fits == 2
        pd.testing.assert_frame_equal(result, expected, check_exact=True)
    pd.testing.assert_frame_equal(pd.read_parquet(folder)[FIGURES], expected[FIGURES])
    frame.loc[3, "y"] += 1.0
    with pytest.raises(ValueError, match="output must be a directory without parts of another ca"):
        forecast_panel(frame, Never(), 3, output=folder)


class Starts(LastValue):
    """While it runs, another call is asked to write to the same folder."""

    folder = None

    def fit(self, y):
        with pytest.raises(ArgumentError) as caught:
            forecast_panel(long({"other": y}), Never(), 2, output=self.folder)
        assert caught.value.rule == "be a directory to which no other call writes"
        return super().fit(y)


def test_two_calls_at_once_do_not_share_a_folder(series, tmp_path, monkeypatch):
    monkeypatch.setattr(Starts, "folder", tmp_path)
    forecast_panel(long({"a": series["a"]}), Starts(), 2, output=tmp_path)
    assert [path.name[:11] for path in tmp_path.iterdir()] == ["part-00000-"]


def test_an_output_without_a_name_is_refused(series):
    with pytest.raises(ArgumentError) as caught:
        forecast_panel(long(series), Never(), 2, output="")
    assert (caught.value.argument, caught.value.got) == ("output", "''")


def test_parts_that_are_not_whole_are_named(shops, tmp_path):
    asked = {"output": tmp_path, "by": "region", "correlation": 0.3}
    expected = forecast_panel(shops, LastValue(), 2, **asked)
    for name in ("part-*", "_sums-part-*"):
        (path,) = tmp_path.glob(name)
        path.write_bytes(path.read_bytes()[:100])
        message = rf"output must hold whole parts; got {path}: .*[^.]\. Delete it: its series are"
        with pytest.raises(ValueError, match=message) as raised:
            forecast_panel(shops, LastValue(), 2, **asked)
        assert (raised.value.argument, raised.value.rule) == ("output", "hold whole parts")
        path.unlink()
        again = forecast_panel(shops, LastValue(), 2, **asked)
        pd.testing.assert_frame_equal(again, expected)


def test_a_file_in_the_way_of_the_output_is_named(series, tmp_path):
    path = tmp_path / "sales.parquet"
    path.write_text("")
    for output in (path, path / "sales"):
        with pytest.raises(OSError, match="output must be a directory, or none yet; got .* in the"):
            forecast_panel(long(series), Never(), 2, output=output)


def test_one_bar_counts_the_series_of_all_parts(series, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "SIZE", 2)
    for _ in range(2):  # done, then read
        forecast_panel(long(series), baselines.Naive(), 2, output=tmp_path, progress=True)
        bars = {line.split("%")[0] for line in capsys.readouterr().err.split("\r") if "3/3" in line}
        assert bars == {"forecast_panel: 100"}


@pytest.mark.slow
def test_parts_have_the_same_names_in_another_process(series, tmp_path):
    frame, folder = long(series), tmp_path / "sales"
    frame.to_pickle(tmp_path / "frame.pkl")
    forecast_panel(frame, baselines.SeasonalNaive(), 3, output=folder)
    code = (
        "import sys, pandas as pd; from forecast_unc import baselines, forecast_panel as f;"
        "f(pd.read_pickle(sys.argv[1]), baselines.SeasonalNaive(), 3, output=sys.argv[2])"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "frame.pkl", folder], check=True, timeout=300
    )
    assert len(list(folder.iterdir())) == 1


# --- sums over groups


def groups_of(frame, result):
    """Rows of a result that are sums, and the rows of series."""
    sums = result["unique_id"].isna()
    assert not frame["unique_id"].isin(result.loc[sums, "unique_id"]).any()
    return result[sums].reset_index(drop=True), result[~sums].reset_index(drop=True)


@pytest.fixture
def shops(rng):
    """Twelve walks of twenty days, in two regions, of integer ids."""
    walks = {i: pd.Series(rng.normal(50, 1 + i, 20)).cumsum() for i in range(12)}
    days = pd.date_range("2024", periods=20, freq="D")
    frame = long({i: y.set_axis(days) for i, y in walks.items()})
    return frame.assign(region=frame["unique_id"].mod(3).map({0: "east", 1: "west", 2: "west"}))


@pytest.mark.parametrize("correlation", [0.0, 0.4, 1.0])
def test_sums_of_groups_have_the_stated_correlation(shops, correlation):
    model = baselines.Drift()
    result = forecast_panel(shops, model, 3, by="region", correlation=correlation)
    alone = forecast_panel(shops.drop(columns="region"), model, 3)
    sums, items = groups_of(shops, result)
    items["unique_id"] = items["unique_id"].astype("int64")
    pd.testing.assert_frame_equal(items.drop(columns="region"), alone)
    assert list(result.columns[:3]) == ["unique_id", "ds", "region"]
    assert list(sums["region"]) == ["east"] * 3 + ["west"] * 3
    assert set(sums["status"]) == {"ok"}
    z = stats.norm.ppf(0.975)
    for row in sums.itertuples():
        own = items[(items["region"] == row.region) & (items["ds"] == row.ds)]
        assert row.forecast_unc == pytest.approx(own["forecast_unc"].sum())
        stds = (own["forecast_unc-hi-95"] - own["forecast_unc-lo-95"]).to_numpy() / (2 * z)
        std = np.sqrt((1 - correlation) * (stds**2).sum() + correlation * stds.sum() ** 2)
        lower, upper = (sums.loc[row.Index, f"forecast_unc-{end}-95"] for end in ("lo", "hi"))
        # 10,000 draws: a standard error of .027 at each end
        assert upper - row.forecast_unc == pytest.approx(z * std, rel=0.06)
        assert row.forecast_unc - lower == pytest.approx(z * std, rel=0.06)


def test_a_group_of_one_series_has_its_intervals_and_sums_of_counts_are_counts(rng):
    days = pd.date_range("2020-01-31", periods=40, freq="ME")
    demand = {name: pd.Series(rng.poisson(0.6, 40), days) for name in "abc"}
    frame = long(demand).assign(kind=lambda frame: frame["unique_id"].eq("a"))
    result = forecast_panel(frame, Forecaster(), 2, by=["kind"], correlation=0.3)
    sums, items = groups_of(frame, result)
    alone = sums[sums["kind"]].reset_index(drop=True)
    a = items[items["unique_id"] == "a"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone[FIGURES], a[FIGURES])
    others = sums.loc[~sums["kind"], FIGURES[1:]].to_numpy()
    np.testing.assert_array_equal(others, np.round(others))


def test_sums_say_what_they_are_made_of(series, model):
    series["new"] = series["a"].iloc[-2:]
    ends = {name: y.index[-1] for name, y in series.items()}
    assert ends["a"] != ends["b"]
    frame = long(series)
    result = forecast_panel(frame, model, 3, by=[], correlation=0)
    sums, items = groups_of(frame, result)
    assert sums["ds"].is_monotonic_increasing
    counted = items.groupby("ds").size()
    assert list(sums["ds"]) == list(counted.index)
    for row in sums.itertuples():
        n = counted[row.ds]
        instead = (items.loc[items["ds"] == row.ds, "status"] != "ok").sum()
        expected = [f"{n} of 4 series have a forecast of this time"] * int(n < 4)
        expected += [f"{instead} of {n} series without a model"] * int(instead > 0)
        assert row.status == ("; ".join(expected) or "ok")


def test_sums_do_not_depend_on_jobs_or_parts(shops, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SIZE", 5)
    asked = {"by": ["region"], "correlation": 0.2}
    model = baselines.Drift()  # of this module a process would have to import all
    expected = forecast_panel(shops, model, 2, **asked)
    jobs = forecast_panel(shops, model, 2, n_jobs=2, **asked)
    pd.testing.assert_frame_equal(jobs, expected, rtol=1e-9)
    for _ in range(2):  # the second run reads all
        result = forecast_panel(shops, model, 2, output=tmp_path, **asked)
        sums, _ = groups_of(shops, expected)
        pd.testing.assert_frame_equal(result, expected, rtol=1e-12)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path)[FIGURES], result[FIGURES])
    assert pd.read_parquet(tmp_path / "sums.parquet")["status"].tolist() == ["ok"] * len(sums)
    with pytest.raises(ValueError, match="output must be a directory without parts of another"):
        forecast_panel(shops, model, 2, output=tmp_path, by="region", correlation=0.3)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"by": "region"}, "correlation must be a number from 0 to 1 with by; got None. It is"),
        ({}, {"by": "region", "correlation": 1.5}, "correlation must be .* got 1.5"),
        ({}, {"by": "region", "correlation": True}, "correlation must be .* got True"),
        ({}, {"correlation": 0.5}, "correlation must be None without by; got 0.5"),
        ({}, {"by": "shop", "correlation": 0}, "by must be a column of frame; got 'shop'"),
        ({}, {"by": 3, "correlation": 0}, "by must be a sequence of columns; got 3. Pass by='reg"),
        ({}, {"by": ["y"], "correlation": 0}, "by must hold further columns, each once; got"),
        (
            {"region": ["east", "north"] * 120},
            {"by": "region", "correlation": 0},
            "by must hold one label throughout a series; got 'north' beside 'east' for 0",
        ),
        (
            {"region": ["east", None] * 120},
            {"by": "region", "correlation": 0},
            "by must hold a label in each row; got none in column 'region' for 0. Fill it in",
        ),
        (
            {"region": [np.nan] * 20 + [1.0, 2.0] * 110},
            {"by": "region", "correlation": 0},
            "by must hold a label in each row; got none in column 'region' for 0. Fill it in",
        ),
        (
            {"region": [1, 2] * 120},
            {"by": "region", "correlation": 0},
            "by must hold one label throughout a series; got 2 beside 1 for 0",
        ),
        (
            {"status": "a"},
            {"by": "status", "correlation": 0},
            "id_col, time_col and by must not name columns of the result; got",
        ),
    ],
)
def test_wrong_groups_are_an_error_before_any_work(shops, change, arguments, message):
    frame = shops.sort_values("unique_id", kind="stable").assign(**change)
    if "status" in change:
        frame = frame.drop(columns="region")
    with pytest.raises((TypeError, ValueError), match=message):
        forecast_panel(frame, Never(), 2, **arguments)


# --- jobs


@pytest.mark.filterwarnings("ignore:.*use of fork")  # of multiprocessing, by joblib's backend
def test_the_figures_do_not_depend_on_the_jobs(series, model, capsys):
    series["a"] *= 0
    frame = long(series)
    arguments = {"steps": 3, "propagation": "monte_carlo"}
    with pytest.warns(FailedSeriesWarning, match="1 of 3"):
        one = forecast_panel(frame, model, **arguments)
    assert capsys.readouterr().err == ""
    with pytest.warns(FailedSeriesWarning, match="1 of 3"):
        two = forecast_panel(frame, model, **arguments, n_jobs=2, progress=True)
    assert "forecast_panel: 100%" in capsys.readouterr().err
    pd.testing.assert_frame_equal(one, two, rtol=1e-6, atol=1e-8)  # of searches, by other threads
    for backend in ("threading", "multiprocessing"):  # as Ray's, the last one gives lists alone
        with (
            parallel_config(backend=backend, n_jobs=2),
            pytest.warns(FailedSeriesWarning, match="1 of 3"),
        ):
            pd.testing.assert_frame_equal(one, forecast_panel(frame, model, **arguments))


def test_a_job_is_sent_its_own_rows_only(series):
    sizes = []
    for copies in (1, 50):
        many = {f"{name}{i}": y for name, y in series.items() for i in range(copies)}
        frame, columns = long(many, x=1.0), Columns("unique_id", "ds", "y")
        sizes.append(len(pickle.dumps(Panel.checked(frame, columns, None)[0])))
    assert sizes[1] <= sizes[0] + 10  # an id of one more character


class Threads:
    """Fails with the number of BLAS threads that it has."""

    def fit(self, y):
        found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        raise ValueError(f"threads {found}")

    def forecast(self, steps):
        raise NotImplementedError


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_job_has_one_blas_thread(series, n_jobs):
    with (
        threadpool_limits(2, user_api="blas"),
        pytest.warns(FailedSeriesWarning, match="3 of 3"),
    ):
        result = forecast_panel(long(series), Threads(), 1, n_jobs=n_jobs)
    assert result["error"].tolist() == ["ValueError: threads {1}"] * 3


class Warns(LastValue):
    def fit(self, y):
        if y.name != "a":
            warnings.warn("it did not converge", ConvergenceWarning, stacklevel=1)
        return super().fit(y)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_warnings_of_the_models_reach_the_caller(series, n_jobs):
    with pytest.warns(ConvergenceWarning, match="it did not converge") as caught:
        forecast_panel(long(series), Warns(), 1, n_jobs=n_jobs)
    told = [str(one.message) for one in caught]  # each once, with the series
    assert told == ["it did not converge (2 series, the first 'b')"]


class Kills(LastValue):
    """Kills its own process for series "a", and for "b" the first time, as a lack of memory may."""

    def __init__(self, marker):
        self.marker = marker

    def fit(self, y):
        if y.name == "a" or (y.name == "b" and not self.marker.exists()):
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(y)


@pytest.mark.slow
def test_a_worker_that_dies_loses_nothing_but_what_kills_it_twice(series, tmp_path):
    frame = long(series)
    expected = forecast_panel(frame, LastValue(), 2)
    with pytest.warns(FailedSeriesWarning, match="1 of 3 .*: 'a': the worker process died twice"):
        result = forecast_panel(frame, Kills(tmp_path / "killed"), 2, n_jobs=2)
    answered = of(result, "a")
    assert (answered["error"].str[:40] == "the worker process died twice while it w").all()
    assert set(answered["status"]) == {
        "the model failed: last value, spread of its own and the panel's changes"
    }
    for name in "bc":
        pd.testing.assert_frame_equal(
            of(result, name).reset_index(drop=True),
            of(expected, name).reset_index(drop=True),
            check_exact=True,
        )


@pytest.mark.parametrize("deadly", [set(), {99}, {0, 1, 50}, set(range(0, 100, 9))])
@pytest.mark.parametrize("held", [1, 7, 40])
def test_those_that_kill_are_found_whatever_a_pool_holds(monkeypatch, deadly, held):
    """A pool that holds some tasks at a time, and loses all of them if one kills it."""
    tried = []

    def outcomes(work, tasks, group, sent, n_jobs, again):
        for start in range(0, len(group), held):
            part = group[start : start + held]
            sent.extend(part)
            tried.extend(part)
            # what comes before the deadly one in the pool is done, and may be lost all the same
            if deadly & set(part):
                raise TerminatedWorkerError("gone")
            for i in part:
                yield i, jobs.Outcome(work(tasks[i]), None, ())

    monkeypatch.setattr(jobs, "_outcomes", outcomes)
    done = jobs.run_jobs(str, list(range(100)), n_jobs=2, bar=NO_BAR)
    for i, outcome in enumerate(done):
        assert outcome.value == (None if i in deadly else str(i))
        assert (outcome.error or "").startswith("the worker process died" if i in deadly else "")
    assert all(tried.count(i) >= 2 for i in deadly)


def test_a_pool_that_dies_before_it_has_anything_is_the_callers_error(monkeypatch):
    def outcomes(*arguments):
        raise TerminatedWorkerError("gone")

    monkeypatch.setattr(jobs, "_outcomes", outcomes)
    with pytest.raises(TerminatedWorkerError, match="gone"):
        jobs.run_jobs(str, [1, 2], n_jobs=2, bar=NO_BAR)


# --- backtests


@pytest.fixture
def panel(series):
    return long(series)


def test_a_backtest_of_a_panel_is_that_of_each_series(series, panel, model):
    arguments = {
        "steps": 2,
        "n_origins": 2,
        "gap": 1,
        "refit": 2,
        "compare": {"n": "naive propagation"},
    }
    result = backtest_panel(panel, model, **arguments)
    assert list(result.frame.columns[:3]) == ["unique_id", "frequency", "model"]
    assert list(result.joint.columns[:3]) == ["unique_id", "frequency", "model"]
    assert result.frame["unique_id"].unique().tolist() == list(series)
    assert set(result.frame["frequency"]) == {"D"}
    assert result.seasonal_period == 1
    assert len(result.failures) == 0
    assert repr(result) == f"Backtest({OWN_NAME}, n; 3 series, 6 origins, steps 2 to 3)"
    for name, y in series.items():
        alone = backtest(model, y, **arguments)
        for ours, theirs in ((result.frame, alone.frame), (result.joint, alone.joint)):
            rows = of(ours, name).drop(columns=["unique_id", "frequency"]).reset_index(drop=True)
            pd.testing.assert_frame_equal(rows, theirs, **CLOSE)


def test_a_constant_series_has_no_unit_and_leaves_that_of_the_others(series):
    without = backtest_panel(long(series), baselines.Naive(), 2, origins=3).scores()
    series["flat"] = pd.Series(7.0, next(iter(series.values())).index, name="flat")
    result = backtest_panel(long(series), baselines.Naive(), 2, origins=3)
    for name in ("MASE", "MSIS"):
        assert result.scores()[name].item() == pytest.approx(without[name].item())
        assert np.isnan(result.scores(by="unique_id").loc["flat", name])
    assert result.scores()["n"].item() == without["n"].item() + 6


def test_scores_by_series_frequency_and_step(series, rng, model):
    index = pd.date_range("2010-01-31", periods=50, freq="ME")
    series["m"] = pd.Series(rng.standard_normal(50).cumsum(), index, name="m")
    series["a"].iloc[-1] = np.nan
    result = backtest_panel(long(series), LastValue(), 2, n_origins=3)
    assert result.seasonal_period is None  # 12 for months, 1 for days
    by_id = result.scores(by="unique_id")
    assert by_id["n"].to_dict() == {"b": 6, "a": 5, "c": 6, "m": 6}
    for name, y in series.items():
        alone = backtest(LastValue(), y, 2, n_origins=3).scores().loc[OWN_NAME]
        np.testing.assert_allclose(by_id.loc[name].to_numpy(float), alone.to_numpy(float))
    by_freq = result.scores(by="frequency")
    np.testing.assert_allclose(by_freq.loc["ME"].to_numpy(float), by_id.loc["m"].to_numpy(float))
    assert by_freq.loc["D", "n"] == 17
    assert result.scores(by=["model", "step"])["n"].tolist() == [12, 11]
    assert result.scores()["energy"].item() == pytest.approx(result.joint["energy"].mean())


def test_series_that_cannot_be_backtested_are_listed(series, model):
    series["b"], series["c"] = series["b"].iloc[:4], series["c"] * 0
    with pytest.warns(FailedSeriesWarning, match="the backtest failed for 2 of 3 series, see fail"):
        result = backtest_panel(long(series), LastValue(), 2, n_origins=3)
    assert result.frame["unique_id"].unique().tolist() == ["a"]
    assert result.failures["unique_id"].tolist() == ["b", "c"]
    assert result.failures["error"][0].startswith("ValueError: y must have more than 6 values for")
    with pytest.raises(
        ValueError, match="frame must have a series that can be backtested; got none of"
    ):
        backtest_panel(long({"b": series["b"]}), LastValue(), 2)


def test_a_backtest_of_a_panel_takes_regressors_as_known(series, regressors, model):
    frame, _, whole = regressors
    result = backtest_panel(frame, model, 2, n_origins=2)
    table = whole["c"].astype({"x": float, "on": bool}).iloc[:-3]
    alone = backtest(model, series["c"], 2, n_origins=2, exog=table)
    np.testing.assert_allclose(of(result.frame, "c")["mean"], alone.frame["mean"], **CLOSE)


def test_a_backtest_of_a_panel_does_not_depend_on_the_jobs(panel, model):
    one = backtest_panel(panel, model, 2, n_origins=2)
    two = backtest_panel(panel, model, 2, n_origins=2, n_jobs=2)
    pd.testing.assert_frame_equal(one.frame, two.frame, rtol=1e-6, atol=1e-8)
    pd.testing.assert_frame_equal(one.joint, two.joint, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps must be a whole number, at least 1; got 0"),
        ({"n_origins": 0}, "origins must be a whole number, at least 1; got 0"),
        ({"refit": 0}, "refit must be a whole number, at least 1; got 0"),
        ({"window": "sliding"}, "window must be one of 'expanding', 'rolling'; got 'sl"),
        ({"compare": ["naive"]}, "compare must be a mapping of names to forecasters; got list"),
        (
            {"compare": {"n": "naive propagation"}},
            "compare must hold no propagation if the forecaster has no",
        ),
        ({"coverage": (95,)}, "coverage must lie strictly between 0 and 1; got 95"),
        ({"origins": "a"}, "origins must be a sequence of times of y; got 'a'"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0; got 0"),
        ({"target_col": "t"}, "target_col must be a column of frame; got 't'"),
        ({"id_col": "lower_95"}, "id_col must not be a column of a backtest; got 'lower_95'. Ren"),
        ({"id_col": "step"}, "id_col must not be a column of a backtest; got 'step'. Rename"),
    ],
)
def test_a_wrong_backtest_is_an_error_before_any_work(panel, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        backtest_panel(panel, **{"forecaster": Never(), "steps": 2, **arguments})


def test_errors_within_errors_end_in_one_full_stop(panel):
    with pytest.raises(ValueError, match="got none of .*; the first, .*") as caught:
        backtest_panel(panel, baselines.ETS(), steps=3, origins=1000)
    assert "a smaller step. Take fewer origins or steps" in str(caught.value)


def test_a_note_follows_an_error_without_its_full_stop():
    def work(task):
        error = ValueError("y must be finite. Mend it.")
        error.add_note("while forecasting")
        raise error

    (outcome,) = jobs.run_jobs(work, [0], n_jobs=1, bar=NO_BAR)
    assert outcome.error == "ValueError: y must be finite. Mend it; while forecasting"


# --- significance of many series


def scored(crps, origins):
    """A backtest of two models with given CRPS (series, origins, models), of one step each."""
    i, j, k = (places.ravel() for places in np.indices(crps.shape))
    frame = pd.DataFrame(
        {
            "unique_id": np.array([f"s{n}" for n in range(len(crps))])[i],
            "model": np.array([OWN_NAME, "other"])[k],
            "origin": np.asarray(origins)[i, j],
            "step": 1,
            "time": np.asarray(origins)[i, j] + 1,
            **dict.fromkeys(("actual", "mean", "median", "nlpd"), 0.0),
            **{"lower_95": -1.0, "upper_95": 1.0, "scale": 1.0},
            "crps": crps.ravel(),
        }
    )
    return Backtest(frame, (0.95,), frame[["unique_id", "model", "origin"]], 1, "unique_id")


def test_losses_are_paired_by_series_and_origin(rng):
    """The levels of series and origins differ by far more than the models do."""
    level = 100 * rng.random((8, 1, 1)) + 10 * rng.random((8, 6, 1))
    crps = level + rng.random((8, 6, 2))
    shared = np.tile(np.arange(6), (8, 1))
    result = scored(crps, shared)
    difference = crps[:, :, 1] - crps[:, :, 0]
    for unit, values in (
        (None, difference.mean(axis=1)),
        ("series", difference.mean(axis=1)),
        ("origin", difference.mean(axis=0)),
    ):
        row = result.significance(unit=unit).loc["other"]
        expected = ttest_1samp(values, 0.0)  # with n - 1, as the correction of no lags has it
        assert row["difference"] == pytest.approx(values.mean())
        assert row["statistic"] == pytest.approx(expected.statistic)
        assert row["p_value"] == pytest.approx(expected.pvalue)
        assert row["n"] == len(values)
    # other origins for every series: the values of a series stay together
    apart = scored(crps, shared + 3 * np.arange(8)[:, None])
    pd.testing.assert_frame_equal(apart.significance(), result.significance())


@pytest.mark.parametrize("unit", ["series", pytest.param("origin", marks=pytest.mark.slow)])
def test_a_true_hypothesis_is_rejected_as_often_as_it_should(rng, unit):
    """Losses that are alike along the origins of a series, or among the series at an origin."""
    n, rejected, wrongly = 12, 0, 0
    common = (15, 1, 2) if unit == "series" else (1, 15, 2)
    for _ in range(n):
        crps = rng.standard_normal(common) + 0.3 * rng.standard_normal((15, 15, 2))
        result = scored(crps, np.tile(np.arange(15), (15, 1)))
        other = "origin" if unit == "series" else "series"
        rejected += result.significance(unit=unit).loc["other", "p_value"] < 0.05
        wrongly += result.significance(unit=other).loc["other", "p_value"] < 0.05
    low, high = binom.ppf([0.0005, 0.9995], n, 0.05)
    assert low <= rejected <= high
    assert wrongly > n / 2


def test_significance_of_a_panel_says_what_it_cannot_do(rng, series):
    crps = rng.random((3, 4, 2))
    apart = scored(crps, np.arange(4) + 2 * np.arange(3)[:, None])
    message = (
        "unit must be 'series' unless all series have the same origins; got 'origin', and only "
        "some have 0, as s0 has. Pass origins= to backtest_panel."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        apart.significance(unit="origin")
    with pytest.raises(ValueError, match="unit must be one of 'origin', 'series'; got 'model'"):
        apart.significance(unit="model")
    with pytest.raises(ValueError, match="significance must have 2 series or more to compare over"):
        scored(crps[:1], np.arange(4)[None]).significance()
    alone = backtest(LastValue(), series["a"], 2, n_origins=3, compare={"other": LastValue()})
    with pytest.raises(ValueError, match="unit must be 'origin' for a backtest of one series; got"):
        alone.significance(unit="series")


def test_shared_origins_of_a_panel(series, panel):
    origins = list(pd.date_range("2020-01-14", periods=4, freq="3D"))
    with pytest.warns(FailedSeriesWarning, match="1 of 3"):
        result = backtest_panel(
            panel, LastValue(), 2, origins=origins, compare={"theta": baselines.Theta()}
        )
    assert result.failures["unique_id"].tolist() == ["c"]
    assert result.significance(unit="origin").loc["theta", "n"] == 4
    assert result.significance(unit="series").loc["theta", "n"] == 2
    assert result.significance("energy", by="model").loc["theta", "n"] == 2


def test_pictures_of_a_panel_count_horizons_by_series(panel):
    result = backtest_panel(panel, LastValue(), 4, n_origins=2, step=1)
    ax = result.plot_pit()
    assert any("horizons" in text.get_text() for text in ax.get_legend().get_texts())
    plt.figure()
    assert result.plot_errors("CRPS").get_ylabel() == "CRPS"


# --- what a panel says and borrows


def test_a_time_without_a_row_is_a_missing_value_where_the_frequency_is_given(series):
    frame = long(series)
    given = frame[~((frame["unique_id"] == "a") & (frame["ds"] == "2020-01-05"))]
    model = Forecaster(lags=2)
    found = forecast_panel(given, model, 2, freq="D")
    assert set(found["status"]) == {"ok"}
    gap = series["a"].where(series["a"].index != pd.Timestamp("2020-01-05"))
    expected = model.fit(gap).forecast(2)
    np.testing.assert_allclose(of(found, "a")["forecast_unc"], expected.mean, rtol=1e-12)


def test_few_values_borrow_the_bound_of_a_panel_without_negative_values():
    rng, months = np.random.default_rng(3), pd.date_range("2023-01-01", periods=36, freq="MS")
    old = {"p": pd.Series(rng.poisson(9, 36) + 1.0, months)}
    items = old | {"new": pd.Series([8.0, 3.0, 13.0, 4.0, 9.0, 3.0], months[:6])}
    bounds = ["forecast_unc-lo-95", "forecast_unc-hi-95"]
    alone = Forecaster().fit(items["new"]).forecast(3)
    assert (alone.interval(0.95)["lower"] < 0).any()
    found = forecast_panel(long(items), Forecaster(), 3)
    expected = alone.censored(0.0).interval(0.95)
    np.testing.assert_allclose(of(found, "new")[bounds], expected, **CLOSE)
    negative = items | {"p": items["p"] - 20.0}
    for panel, model in ((items, Forecaster(lower=-np.inf)), (negative, Forecaster())):
        free = forecast_panel(long(panel), model, 3)
        np.testing.assert_allclose(of(free, "new")[bounds], alone.interval(0.95), **CLOSE)


def test_what_was_noticed_in_a_series_stands_beside_its_forecast():
    rng, days = np.random.default_rng(4), pd.date_range("2024-01-01", periods=90)
    calm = pd.Series(rng.normal(100, 5, 90), days)
    wild = calm.where(np.arange(90) != 50, 900.0)
    found = forecast_panel(long({"calm": calm, "wild": wild}), Forecaster(lags=2), 2)
    assert set(of(found, "calm")["notes"]) == {""}
    assert of(found, "wild")["notes"].str.contains("2024-02-20").all()
    assert set(found["status"]) == {"ok"}


def test_regressors_ahead_that_fit_some_series_answer_the_others(series, model):
    frame, far = long(series, x=0.5), pd.Timedelta(days=90)
    future = frame[["unique_id", "ds", "x"]].assign(ds=frame["ds"] + far)
    ahead = [
        pd.DataFrame({"unique_id": name, "ds": y.index[-1] + pd.to_timedelta([1, 2], unit="D")})
        for name, y in series.items()
    ]
    right = pd.concat(ahead, ignore_index=True).assign(x=0.5)
    some = pd.concat([right[right["unique_id"] != "a"], future[future["unique_id"] == "a"]])
    with pytest.warns(FailedSeriesWarning, match="the model failed for 1 of 3 series"):
        found = forecast_panel(frame, model, 2, exog=some)
    assert of(found, "a")["status"].str.startswith("the model failed").all()


def test_a_file_in_the_way_is_an_error_with_fields(tmp_path):
    (tmp_path / "file").write_text("")
    frame = long({"a": pd.Series(np.arange(9.0), pd.date_range("2024-01-01", periods=9))})
    for folder, kind in (("file", FileExistsError), ("file/x", NotADirectoryError)):
        with pytest.raises(kind) as caught:
            forecast_panel(frame, baselines.Drift(), 1, output=tmp_path / folder)
        assert (caught.value.argument, caught.value.rule) == (
            "output",
            "be a directory, or none yet",
        )


def test_nuls_do_not_end_ids(tmp_path):
    times = pd.date_range("2024-01-01", periods=12)
    names = ["a", "a\0", "a\0b"]
    frame = long({name: pd.Series(np.arange(12.0) % 3 + i, times) for i, name in enumerate(names)})
    for _ in range(2):  # the second run reads the files
        result = forecast_panel(frame, baselines.Drift(), 1, output=tmp_path)
        assert result["unique_id"].tolist() == names
        assert np.diff(result["forecast_unc"]) == pytest.approx([1.0, 1.0])
