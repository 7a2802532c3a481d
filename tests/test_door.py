"""What people bring: frames, names that cannot be mistaken, periods that are not whole."""

import pickle
import warnings
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from forecast_unc import (
    Combination,
    Forecast,
    Forecaster,
    LinearRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    backtest,
    backtest_panel,
    baselines,
    datasets,
    forecast_panel,
    scores,
)
from forecast_unc.errors import InvalidArgument
from forecast_unc.series.times import PartialPeriodWarning


@pytest.fixture
def frame(rng):
    times = pd.date_range("2020-01-01", periods=48, freq="MS")
    return pd.DataFrame({"ds": times, "y": rng.normal(100.0, 5.0, 48)})


@pytest.fixture
def series(frame):
    return frame.set_index("ds")["y"].asfreq("MS")


def test_a_frame_of_times_and_values_is_the_series(frame, series):
    before = frame.copy()
    expected = Forecaster(lags=2).fit(series).forecast(3)
    for y in (frame, frame[["y", "ds"]], frame.assign(ds=frame["ds"].dt.strftime("%Y-%m-%d"))):
        found = Forecaster(lags=2).fit(y).forecast(3)
        pd.testing.assert_series_equal(found.mean, expected.mean, check_names=False)
    pd.testing.assert_frame_equal(frame, before)
    assert Forecaster(lags=2).fit(frame[:40]).update(frame[40:]).forecast(1).index[0].year == 2024


MODELS = [Forecaster(lags=2), Combination([Forecaster(lags=2), baselines.ETS()]), baselines.Drift()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_columns_of_a_wider_frame_are_named(frame, series, model):
    wide = frame.assign(shop="a", price=1.5)
    expected = model.fit(series).forecast(3).mean
    found = model.fit(wide, time="ds", target="y").forecast(3).mean
    np.testing.assert_array_equal(found, expected)
    assert list(found.index) == list(expected.index)


def test_the_column_of_times_need_not_be_named_where_there_is_one(frame, series):
    expected = Forecaster(lags=2).fit(series).forecast(3).mean
    text = frame.assign(ds=frame["ds"].dt.strftime("%Y-%m-%d"))
    for wide in (frame.assign(shop="a", price=1.5), text.assign(price=1.5), text):
        found = Forecaster(lags=2).fit(wide, target="y").forecast(3).mean
        pd.testing.assert_series_equal(found, expected, check_names=False, check_freq=False)
    result = backtest(Forecaster(lags=2), frame.assign(price=1.5), 3, origins=2, target="y")
    assert result.frame["origin"].isin(series.index).all()
    plain = frame.assign(price=1.5)[["y", "price"]]  # has no times
    assert Forecaster(lags=2).fit(plain, target="y").forecast(1).index[0] == len(frame)


def test_a_backtest_and_an_indexed_frame_have_named_columns_too(frame, series):
    wide = frame.assign(shop="a", price=1.5)
    expected = Forecaster(lags=2).fit(series).forecast(3).mean
    indexed = wide.set_index("ds").asfreq("MS")
    np.testing.assert_array_equal(
        Forecaster(lags=2).fit(indexed, target="y").forecast(3).mean, expected
    )
    result = backtest(Forecaster(lags=2), wide, 3, origins=2, time="ds", target="y")
    same = backtest(Forecaster(lags=2), series, 3, origins=2)
    pd.testing.assert_frame_equal(result.scores(), same.scores())


UNCLEAR = [
    ({"ds": "31.12.2025"}, {}, "y", "'31.12.2025' in column 'ds'"),
    ({"shop": "a"}, {}, "y", "a frame of 3 columns of values"),
    ({}, {"time": "ds"}, "target", "None"),
    ({}, {"time": ["ds"], "target": "y"}, "time and target", "no ['ds'] in ['ds', 'y']"),
    ({}, {"time": "day", "target": "y"}, "time and target", "no 'day' in ['ds', 'y']"),
]


def test_what_is_not_clear_is_an_error(frame, series):
    cases = [(frame.assign(**change), *others) for change, *others in UNCLEAR]
    cases.append((series, {"target": "y"}, "y", "pandas.Series"))
    for y, kwargs, argument, got in cases:
        with pytest.raises(InvalidArgument) as caught:
            Forecaster().fit(y, **kwargs)
        assert (caught.value.argument, caught.value.got) == (argument, got)


def test_naive_says_which(series):
    message = r'compare must say which naive is meant; .*"naive propagation".*baselines.Naive\(\)'
    with pytest.raises(ValueError, match=message):
        backtest(Forecaster(lags=2), series, 2, compare={"naive": "naive"})
    compare = {"last": baselines.Naive(), "forgetful": "naive propagation"}
    result = backtest(Forecaster(lags=2), series, 2, origins=3, compare=compare)
    last = result.frame[result.frame["model"] == "last"]
    assert (last["mean"] == series.reindex(last["origin"]).to_numpy()).all()


def test_drift_is_a_walk_with_an_uncertain_mean_change(rng):
    """Its errors over simulated walks have the stated covariance."""
    n, h = 30, 5
    paths = 0.5 * np.arange(n + h) + rng.normal(size=(6000, n + h)).cumsum(axis=1)
    drift = (paths[:, n - 1] - paths[:, 0]) / (n - 1)
    errors = paths[:, n:] - paths[:, [n - 1]] - drift[:, None] * np.arange(1, h + 1)
    model = baselines.Drift().fit(pd.Series(paths[0, :n]))
    ahead = model.forecast(h)
    assert model.drift_ == pytest.approx(drift[0])
    np.testing.assert_allclose(ahead.mean, paths[0, n - 1] + drift[0] * np.arange(1, h + 1))
    unit = ahead.cov.to_numpy() / model.noise_std_**2
    np.testing.assert_allclose(unit, np.cov(errors.T), rtol=0.1, atol=0.15)
    assert "seasonal_period" not in model.get_params()


PARTS = [
    (pd.period_range("2025-10", periods=15, freq="M"), "Y", ["2025 (3 of 12 steps)"], [12.0]),
    (pd.date_range("2025-10-01", periods=15, freq="MS"), "YE", ["2025-12-31 (3 of 12"], [12.0]),
    (pd.date_range("2025-01-01", periods=24, freq="MS"), "YS", [], [12.0, 12.0]),
    (pd.date_range("2025-01-01", periods=50, freq="h"), "D", ["(2 of 24 steps)"], [24.0, 24.0]),
    (
        pd.date_range("2025-01-01", periods=20, freq="D", tz="Europe/Berlin"),
        "W",
        ["(5 of 7 steps)", "(1 of 7 steps)"],
        [7.0, 7.0],
    ),
    # of several weeks and months, which are counted from the first one
    (
        pd.date_range("2024-03-31", periods=40, freq="D"),
        "2W",
        ["2024-03-31 (1 of 14 steps)", "2024-05-12 (11 of 14 steps)"],
        [14.0, 14.0],
    ),
    (pd.date_range("2025-01-15", periods=9, freq="MS"), "2MS", ["(1 of 2 steps)"], [2.0] * 4),
    (
        pd.date_range("2025-01-31", periods=9, freq="ME"),
        "3ME",
        ["2025-01-31 (1 of 3", "(2 of 3"],
        [3.0] * 2,
    ),
    (pd.date_range("2025-01-01 05:00", periods=60, freq="h"), "2D", ["(43 of 48", "(17 of 48"], []),
    (pd.date_range("2025-01-01", periods=23, freq="D"), "10D", ["2025-01-21 (3 of 10"], [10.0] * 2),
]


@pytest.mark.parametrize(("index", "freq", "parts", "whole"), PARTS)
def test_parts_of_periods_are_named_or_dropped(index, freq, parts, whole):
    ahead = Forecast(index, np.ones(len(index)), np.eye(len(index)), name="y")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        total = ahead.aggregate("sum", freq)
    assert all(part in str(found[0].message) for part in parts) if parts else not found
    assert all(issubclass(one.category, PartialPeriodWarning) for one in found)
    assert len(total) == len(whole) + len(parts)
    if not whole:
        return
    assert ahead.aggregate("sum", freq, partial="drop").mean.tolist() == whole
    assert len(ahead.aggregate("max", freq, partial="drop")) == len(whole)
    kept = ahead.aggregate("sum", freq, partial="keep")
    np.testing.assert_array_equal(kept.cov, total.cov)


def test_two_days_of_a_time_zone_are_whole_where_pandas_can_tell():
    index = pd.date_range("2025-01-01", periods=7, freq="D", tz="Europe/Rome")
    ahead = Forecast(index, np.ones(7), np.eye(7))
    found = ahead.aggregate("sum", "2D", partial="drop").mean
    assert found[:3].tolist() == [2.0, 2.0, 2.0]
    assert found[3:].tolist() in ([], [1.0])  # pandas 2 and 3


def test_nothing_but_parts_is_an_error():
    index = pd.period_range("2025-10", periods=3, freq="M")
    ahead = Forecast(index, np.ones(3), np.eye(3))
    with pytest.raises(
        ValueError, match=r"partial must leave a whole period; got only parts: 2025"
    ):
        ahead.aggregate("sum", "Y", partial="drop")
    with pytest.raises(ValueError, match="partial must be one of 'warn', 'keep', 'drop'"):
        ahead.aggregate("sum", "Y", partial="mark")


def test_a_meter_that_failed_is_named_and_nothing_is_changed(rng):
    index = pd.date_range("2024-01-01", periods=120, freq="D")
    y = pd.Series(rng.normal(500.0, 20.0, 120), index)
    assert Forecaster(lags=1).fit(y).notes_ == []
    y.iloc[60:64] = 0.0
    model = Forecaster(lags=1).fit(y)
    (note,) = model.notes_
    assert note.startswith("repeated: 4 values of 0 from 2024-03-01 to 2024-03-04; if a meter")
    assert note in model.choices_
    gone = y.copy()
    exec(note.split("out: ")[1], {"y": gone, "np": np})
    assert gone.isna().sum() == 4
    assert Forecaster(lags=1).fit(gone).notes_ == []


@pytest.mark.parametrize("kind", ["counts", "prices", "new item", "step", "nights"])
def test_values_that_repeat_by_nature_are_not_named(rng, kind):
    y = {
        "counts": rng.poisson(2.0, 120),
        "prices": np.repeat(rng.normal(10.0, 1.0, 24), 5),
        "new item": np.r_[np.zeros(30), rng.normal(100.0, 5.0, 90)],
        "step": np.repeat([1.0, 2.0, 3.0, 2.0], 30) + 0.0,
        "nights": rng.normal(9.0, 1.0, 120) * (np.arange(120) % 24 > 7),
    }[kind]
    model = Forecaster(lags=1, outliers="keep").fit(pd.Series(y.astype(float)))
    assert model.notes_ == []


WALK = pd.Series(
    30 + np.random.default_rng(0).standard_normal(60).cumsum(),
    pd.date_range("2015-01-01", periods=60, freq="MS"),
)
LINEAR = Forecaster(LinearRegressor(), lags=2).fit(WALK)
AHEAD = LINEAR.forecast(6)
LONG = pd.DataFrame({"unique_id": "a", "ds": np.arange(60) * 3, "y": WALK.to_numpy()})
X, TARGETS = np.linspace(-1, 1, 30)[:, None], np.sin(np.arange(30) / 5.0)


def fitted(k, **arguments):
    return Forecaster(LinearRegressor(), **{"lags": 2} | arguments).fit(WALK).forecast(k).cov


WHOLE = {
    "steps": (100, lambda k: LINEAR.forecast(k).cov),
    "steps of an average": (40, lambda k: Combination([LINEAR]).fit(WALK).forecast(k).cov),
    "steps of a baseline": (40, lambda k: baselines.Naive().fit(WALK).forecast(k).cov),
    "paths": (120, lambda k: LINEAR.forecast(3, propagation="monte_carlo", n_samples=k).index),
    "sample": (100, lambda k: AHEAD.sample(k, k)),
    "check": (120, lambda k: AHEAD.check(k, k).verdict),
    "energy": (120, lambda k: AHEAD.energy_score(AHEAD.mean, k, k)),
    "first": (5, lambda k: AHEAD.first(k).mean),
    "lags": (9, lambda k: fitted(3, lags=k)),
    "several lags": (60, lambda k: fitted(3, lags=(k // 6, k // 5))),
    "differences": (12, lambda k: fitted(13, differences=(k, 1))),
    "season": (12, lambda k: fitted(3, seasonal_period=k, calendar="fourier")),
    "max_train": (40, lambda k: fitted(3, max_train=k)),
    "exog_lags": (3, lambda k: fitted(3, exog_lags=k)),
    "bounds": (20, lambda k: fitted(3, lower=k, upper=k + k)),
    "backtest": (3, lambda k: backtest(LINEAR, WALK, k, origins=k, gap=k, refit=k).frame["mean"]),
    "apart": (7, lambda k: backtest(LINEAR, WALK, 2, origins=8, step=k, refit=9).frame["crps"]),
    "panel": (3, lambda k: forecast_panel(LONG, baselines.Naive(), k, freq=k).iloc[:, 2:5]),
    "panel of many steps": (99, lambda k: forecast_panel(LONG, LINEAR, k).iloc[:, 2:5]),
    "backtest of a panel": (
        3,
        lambda k: backtest_panel(LONG, baselines.Naive(), k, origins=k, gap=k).frame["std"],
    ),
    "season of a baseline": (
        12,
        lambda k: baselines.SeasonalNaive(seasonal_period=k).fit(WALK).forecast(40).cov,
    ),
    "orders": (4, lambda k: baselines.AutoReg(lags=k).fit(WALK).forecast(40).cov),
    "delay": (99, lambda k: datasets.make_mackey_glass(k, k, 0.1, k)),
    "values": (99, lambda k: datasets.make_lorenz(k)),
    "support": (
        9,
        lambda k: (
            ReducedRankGPRegressor(n_support=k, search_rows=2 * k, random_state=k)
            .fit(X, TARGETS)
            .predict(X)
        ),
    ),
    "iterations": (9, lambda k: RVMRegressor(max_iter=k).fit(X, TARGETS).predict(X)),
    "inputs": (
        120,
        lambda k: (
            LinearRegressor()
            .fit(X, TARGETS)
            .predict_uncertain([0.5], [[0.1]], "monte_carlo", n_samples=k, random_state=k)
            .var
        ),
    ),
    "units": (100, lambda k: (AHEAD * k + k - k / 2).cov),
}


def test_whole_numbers_of_numpy_are_those_of_python():
    for name, (value, call) in WHOLE.items():
        expected = call(value)
        for kind in (np.uint8, np.uint64):
            np.testing.assert_array_equal(call(kind(value)), expected, err_msg=name)
    for kind in (np.int8, np.int16):  # which overflow earlier
        for name in ("steps", "sample", "energy"):
            assert np.isfinite(WHOLE[name][1](kind(100))).all(axis=None)


ODD = [Fraction(1, 3), 10**400, -(10**400), timedelta(days=1), pd.Timedelta("3D"), 1e200]
ODD += [np.timedelta64(3, "D"), np.timedelta64(3), Fraction(10**400), np.float16(0.5), Decimal(1)]


def sixfold(value):
    return pd.Series([value] * 6, AHEAD.index)


NUMBERS = {
    "prob": lambda v: AHEAD.prob(v),
    "prob of a series": lambda v: AHEAD.prob(upper=sixfold(v)),
    "cdf": lambda v: AHEAD.cdf([v]).to_numpy(),
    "quantile": lambda v: AHEAD.quantile(v),
    "interval": lambda v: AHEAD.interval(v),
    "product": lambda v: (AHEAD * v).mean,
    "sum": lambda v: (v - AHEAD).mean,
    "quotient": lambda v: (AHEAD / v).std,
    "lower": lambda v: AHEAD.censored(v).mean,
    "upper": lambda v: AHEAD.censored(-1e9, upper=v).mean,
    "width": lambda v: AHEAD.recalibrated([v] * 6).std,
    "freedom": lambda v: AHEAD.recalibrated(np.ones(6), dof=v).std,
    "correlation": lambda v: AHEAD.recalibrated(np.ones(6), correlation=v).cov,
    "sizes": lambda v: AHEAD.conformal([[v] * 9] * 6).std,
    "weights": lambda v: AHEAD.aggregate([v] * 6).std,
    "shares": lambda v: Forecast.average([AHEAD, AHEAD * 2], [v, 1]).mean,
    "condition": lambda v: AHEAD.condition(pd.Series([v], AHEAD.index[:1])).mean,
    "score": lambda v: AHEAD.score(sixfold(v)),
    "levels": lambda v: AHEAD.to_nixtla([v]).iloc[:, 2:].to_numpy(),
    "bounds": lambda v: fitted(2, lower=v),
    "above": lambda v: fitted(2, upper=v),
    "errors": lambda v: (
        Forecaster(LinearRegressor(), lags=2)
        .fit(WALK, y_std=pd.Series([v] * 60, WALK.index))
        .forecast(2)
        .std
    ),
    "widest": lambda v: Combination([LINEAR, baselines.Naive()], widest=v).fit(WALK).forecast(1),
    "parts": lambda v: Combination([LINEAR], weights=[v]).fit(WALK).forecast(1).std,
    "noise": lambda v: LinearRegressor().fit(X, TARGETS).predict_uncertain([v], [[v]]).var,
    "targets": lambda v: LinearRegressor().fit(X, sixfold(v).to_list() * 5).noise_std_,
    "scale": lambda v: scores.naive_scale(WALK, v),
    "loss": lambda v: scores.crps([v], [1.0], [1.0]),
    "delay": lambda v: datasets.make_mackey_glass(3, v, v, 0),
    "apart": lambda v: datasets.make_lorenz(3, v),
    "bands": lambda v: backtest(baselines.Naive(), WALK, 2, origins=2, coverage=(v,)).frame["std"],
    "season": lambda v: fitted(2, seasonal_period=v),
    "jobs": lambda v: backtest(baselines.Naive(), WALK, 2, origins=2, n_jobs=v),
    "steps": lambda v: LINEAR.forecast(v),
    "origins": lambda v: backtest(baselines.Naive(), WALK, 2, origins=v),
}


def test_numbers_of_other_types_are_taken_or_refused():
    for name, call in NUMBERS.items():
        for value in ODD:
            try:
                found = call(value)
            except (InvalidArgument, ZeroDivisionError):
                continue
            except (TypeError, ValueError, OverflowError):  # of scikit-learn's check of rows
                if name == "targets":
                    continue
                raise
            assert name not in ("steps", "jobs", "origins", "season"), (name, value)
            if isinstance(value, Fraction | Decimal):
                np.testing.assert_allclose(found, call(float(value)), err_msg=name)


def test_errors_of_every_kind_have_fields(tmp_path):
    for kind, call in (
        (ZeroDivisionError, lambda: AHEAD / 0),
        (FileNotFoundError, lambda: LINEAR.save(tmp_path / "none" / "m.npz")),
        (TypeError, lambda: AHEAD * "2"),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, InvalidArgument)
        assert caught.value.remedy
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.got) == (str(caught.value), caught.value.got)
