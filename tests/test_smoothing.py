"""Exponential smoothing against dense normal algebra, sample paths and plain loops."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from forecast_unc import Forecaster, GPRegressor
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.choose.choice import resolve
from forecast_unc.forecasting.choose.specification import SmoothingSpecification
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.effects import Effects
from forecast_unc.forecasting.models.exog_effects import ExogColumns, ExogEffects
from forecast_unc.forecasting.models.smoothing import SmoothingModel
from forecast_unc.forecasting.models.smoothing_filter import Smoothing, _grid, _log_ahead
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.forecasting.pool.backcast import Rolling, rolling_forecasts
from forecast_unc.series.history import History
from tests.members import ahead_of

STEPS = 6


def seasonal(n, period=4, seed=0, missing=()):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    y = 50 + 0.5 * t + 3 * np.sin(2 * np.pi * t / max(period, 3)) + rng.standard_normal(n)
    y[list(missing)] = np.nan
    return y


@pytest.mark.parametrize("period", [1, 4, 52])
def test_no_node_is_there_twice(period):
    """Two of the same parameters would count twice in the average."""
    nodes = np.column_stack(_grid(period)[0])
    assert len(np.unique(nodes, axis=0)) == len(nodes)


@pytest.mark.parametrize(("period", "count"), [(1, 60), (4, 332), (52, 120)])
def test_nodes_are_the_grid_of_the_docs(period, count):
    nodes = _grid(period)[0]
    assert len(nodes.alpha) == count
    assert_allclose(np.unique(nodes.alpha), [0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1])
    trends = nodes.beta[:, None] / np.maximum(nodes.alpha[:, None], 1e-9)
    kinds = set(zip(trends[:, 0].round(9), nodes.phi, nodes.drift_var, strict=True))
    still = {(0.0, 1.0, v) for v in (1e-3, 1e-2, 1e-1, 1.0)}
    assert kinds == still | {(0.1, 0.9, 0.1), (0.3, 0.9, 0.1), (0.2, 1.0, 0.01)}
    assert set(nodes.season_var) == ({1.0} if period == 1 else {1.0, 100.0})
    shares = nodes.gamma / np.maximum(1.0 - nodes.alpha, 1e-9)
    assert_allclose(np.unique(shares.round(9)), [0.0, 0.15, 0.4] if period == 4 else [0.0])


def dense(smoothing, k, n):
    """Effects of the start (n, 2 + m) and of the innovations (n, n) on the values of node k."""
    alpha, beta, phi, gamma = (float(each[k]) for each in smoothing.nodes[:4])
    m = smoothing.period if 1 < smoothing.period <= 24 else 0
    columns = []
    for c in range(2 + m + n):
        level, trend = float(c == 0), float(c == 1)
        season, column = [float(c == 2 + i) for i in range(m)], []
        for t in range(n):
            innovation = float(c == 2 + m + t)
            value = level + phi * trend + (season[t % m] if m else 0.0)
            column.append(value + innovation)
            level += phi * trend + alpha * innovation
            trend = phi * trend + beta * innovation
            if m:
                season[t % m] += gamma * innovation
        columns.append(column)
    columns = np.array(columns).T
    start, innovations = columns[:, : 2 + m], columns[:, 2 + m :]
    if smoothing.period > 24:  # a sum of six waves in the place of states
        angles = 2 * np.pi * np.arange(n)[:, None] / smoothing.period * np.arange(1, 7)
        start = np.hstack([start, np.cos(angles), np.sin(angles)])
    return start, innovations


def oracle(smoothing, k, y, steps, noise=1.0):
    """Mean, covariance, log evidence and variance of node k from one big normal distribution."""
    n = len(y)
    X, T = dense(smoothing, k, n + steps)
    T = T * noise
    V = np.diag(
        [1e4, smoothing.nodes.drift_var[k]] + [smoothing.nodes.season_var[k]] * (X.shape[1] - 2)
    )
    C = X @ V @ X.T + T @ T.T
    seen, ahead = np.flatnonzero(~np.isnan(y)), np.arange(n, n + steps)
    z, K = y[seen] - y[0], C[np.ix_(seen, seen)]
    weights = np.linalg.solve(K, C[np.ix_(seen, ahead)])
    square = z @ np.linalg.solve(K, z)
    variance = square / (len(seen) - 3)
    evidence = -0.5 * np.linalg.slogdet(K)[1] - 0.5 * len(seen) * np.log(square)
    cov = (C[np.ix_(ahead, ahead)] - C[np.ix_(seen, ahead)].T @ weights) * variance
    return y[0] + weights.T @ z, cov, evidence, variance


@pytest.mark.parametrize(
    ("n", "period", "missing"),
    [
        (30, 1, ()),
        (30, 1, (7, *range(10, 19), 22, 23, 28, 29)),
        (30, 4, ()),
        (30, 4, (7, 28, 29)),
        (90, 30, (7, *range(20, 29), 88, 89)),
    ],
)
@pytest.mark.parametrize("own_noise", [False, True])
def test_forecasts_are_those_of_one_normal_distribution(n, period, missing, own_noise, rng):
    y = seasonal(n, period, missing=missing)
    noise = rng.uniform(0.5, 2.0, n + STEPS) if own_noise else np.ones(n + STEPS)
    smoothing = Smoothing.learn(y, period, noise[:n])
    joint = smoothing.forecast(y, STEPS, noise)
    found = [oracle(smoothing, k, y, STEPS, noise) for k in range(len(smoothing.weights))]
    mean = sum(w * one[0] for w, one in zip(smoothing.weights, found, strict=True))
    second = sum(
        w * (one[1] + np.outer(one[0] - mean, one[0] - mean))
        for w, one in zip(smoothing.weights, found, strict=True)
    )
    assert_allclose(joint.mean, mean, rtol=1e-9)
    assert_allclose(joint.cov, second, rtol=1e-7)
    assert_allclose(smoothing.variance, [one[3] for one in found], rtol=1e-8)
    assert_allclose(sum(joint.parts().values()), joint.cov, rtol=1e-12)
    if period == 1:  # else half of the weights is that of errors several steps ahead
        evidence = np.array([one[2] for one in found])
        weights = np.exp(evidence - evidence.max())
        assert_allclose(smoothing.weights, weights / weights.sum(), rtol=1e-6)


def test_weights_of_a_season_are_half_those_of_errors_several_steps_ahead():
    y = seasonal(40, 4)
    smoothing = Smoothing.learn(y, 4)
    logs = []
    for k in range(len(smoothing.weights)):
        _, _, evidence, variance = oracle(smoothing, k, y, 1)
        n, square = len(y), variance * (len(y) - 3)
        errors = ahead_by_hand(smoothing, k, y)
        several = np.mean([np.log(np.mean(np.square(each))) for each in errors])
        logs.append(evidence + 0.25 * n * np.log(square) - 0.25 * n * several)
    weights = np.exp(np.array(logs) - max(logs))
    assert_allclose(smoothing.weights, weights / weights.sum(), rtol=1e-6)


def ahead_by_hand(smoothing, k, y):
    """Errors 1 to m steps ahead from each time, at the posterior mean of the start."""
    alpha, beta, phi, gamma = (float(each[k]) for each in smoothing.nodes[:4])
    m, z = smoothing.period, y - y[0]
    X, T = dense(smoothing, k, len(y))
    V = np.diag([1e4, smoothing.nodes.drift_var[k]] + [smoothing.nodes.season_var[k]] * m)
    start = V @ X.T @ np.linalg.solve(X @ V @ X.T + T @ T.T, z)
    level, trend, season = start[0], start[1], list(start[2:])
    errors = [[] for _ in range(m)]
    for t in range(len(z)):
        for j in range(min(m, len(z) - t)):
            damped = sum(phi ** (i + 1) for i in range(j + 1)) * trend
            errors[j].append(z[t + j] - level - damped - season[(t + j) % m])
        innovation = errors[0][-1]
        level += phi * trend + alpha * innovation
        trend = phi * trend + beta * innovation
        season[t % m] += gamma * innovation
    return errors


def test_errors_ahead_leave_out_what_is_missing():
    y, gap = seasonal(40, 4), seasonal(40, 4, missing=[39])
    smoothing = Smoothing.learn(y, 4)
    start = np.zeros((len(smoothing.weights), 6))
    at_end = _log_ahead(smoothing.nodes, 4, gap, start, np.ones(len(gap)))
    assert_allclose(at_end, _log_ahead(smoothing.nodes, 4, y[:39], start, np.ones(39)), rtol=1e-12)


def test_paths_have_the_moments_of_the_joint():
    y = seasonal(40, 4, missing=[20])
    smoothing = Smoothing.learn(y, 4)
    joint, paths = smoothing.forecast(y, STEPS), smoothing.sample(y, STEPS, 50_000, 0)
    std = np.sqrt(np.diag(joint.cov))
    assert_allclose(paths.mean(axis=0), joint.mean, atol=5 * std.max() / np.sqrt(5e4))
    assert_allclose(np.cov(paths.T), joint.cov, rtol=0.05)
    assert_allclose(smoothing.sample(y, 3, 50_000, 0), paths[:, :3], rtol=1e-12)


@pytest.mark.parametrize("period", [1, 4, 30])
def test_what_columns_carry_on_is_that_of_each_alone(rng, period):
    columns = rng.normal(size=(40, 3)) + np.array([0.0, 5.0, -9.0])
    columns[[7, 8, 20]] = np.nan
    smoothing, noise = Smoothing.learn(seasonal(40), period), np.ones(40)
    each = [smoothing.carried(column[:, None], 5, noise) for column in columns.T]
    np.testing.assert_allclose(smoothing.carried(columns, 5, noise), np.hstack(each), rtol=1e-9)
    one = replace(smoothing, nodes=smoothing.nodes.take([smoothing.weights.argmax()]))
    alone = replace(one, weights=np.ones(1)).rolling(columns[:, 0], [40], 5)
    np.testing.assert_allclose(each[0].T, alone, rtol=1e-9)


def test_rolling_means_take_what_comes_before_the_origin_alone():
    y = seasonal(40, 4, missing=[5, 30])
    smoothing = Smoothing.learn(y, 4)
    means = smoothing.rolling(y, [20, 31, 40], STEPS)
    for row, origin in zip(means, [20, 31, 40], strict=True):
        assert_allclose(row, smoothing.forecast(y[:origin], STEPS).mean, rtol=1e-9)


def test_waves_are_followed_a_season_on():
    """A year of weeks with two waves, and noise: nearer than the values of a year ago."""
    rng, t = np.random.default_rng(8), np.arange(208)
    signal = 20 + 5 * np.sin(2 * np.pi * t / 52) + 2 * np.cos(4 * np.pi * t / 52)
    y = signal + rng.standard_normal(208)
    smoothing = Smoothing.learn(y[:182], 52)
    mean = smoothing.forecast(y[:182], 26).mean
    assert np.abs(mean - signal[182:]).mean() < 0.6 * np.abs(y[130:156] - signal[182:]).mean()
    rolled = smoothing.rolling(y, [150, 182], 26)
    assert_allclose(rolled[1], mean, rtol=1e-9)


@pytest.mark.parametrize("period", [1, 4])
def test_a_change_of_units_changes_nothing_else(period):
    y = seasonal(40, period)
    one, other = (s.forecast(x, STEPS) for s, x in both(y, 1000 * y - 5e4, period))
    assert_allclose(other.mean, 1000 * one.mean - 5e4, rtol=1e-7)
    assert_allclose(other.cov, 1e6 * one.cov, rtol=1e-6)


def both(y, other, period):
    return [(Smoothing.learn(x, period), x) for x in (y, other)]


def test_a_line_in_noise_is_followed():
    """50 + 3 t, noise of std 4, 14 values: nearer than the last value with the true drift."""
    rng = np.random.default_rng(5)
    t, errors = np.arange(17.0), {"smoothing": [], "line": [], "last": []}
    for _ in range(100):
        y = 50 + 3 * t[:14] + 4 * rng.standard_normal(14)
        actual = 50 + 3 * t[14:]
        line = np.polyval(np.polyfit(t[:14], y, 1), t[14:])
        errors["smoothing"].append(Smoothing.learn(y, 1).forecast(y, 3).mean - actual)
        errors["line"].append(line - actual)
        errors["last"].append(y[-1] + 3 * np.arange(1, 4) - actual)
    sizes = {name: np.abs(each).mean() for name, each in errors.items()}
    assert sizes["line"] < sizes["smoothing"] < sizes["last"]


def test_a_random_walk_is_forecast_by_its_last_value():
    y = np.cumsum(np.random.default_rng(3).standard_normal(300))
    joint = Smoothing.learn(y, 1).forecast(y, 4)
    assert_allclose(joint.mean, y[-1], atol=0.5)
    assert_allclose(np.diag(joint.cov), np.arange(1, 5), rtol=0.3)


def test_no_noise_at_all_is_no_division_by_zero():
    y = 3.0 + 2.0 * np.arange(20.0)
    joint = Smoothing.learn(y, 1).forecast(y, 3)
    assert_allclose(joint.mean, 3.0 + 2.0 * np.arange(20, 23), rtol=1e-2)
    assert (np.diag(joint.cov) > 0).all()


# On a history


def history(y):
    index = pd.period_range("2000-01", periods=len(y), freq="M")
    return History.checked(pd.Series(y, index), None, None)


def fitted(y, transform=None, period=4, max_train=800):
    specification = SmoothingSpecification(period, transform, max_train, "a test")
    return SmoothingModel.fit(specification, TrainingSeries(history(y)))


def test_the_model_forecasts_in_units_of_the_series():
    y = seasonal(40)
    model = fitted(y, "log")
    joint = Smoothing.learn(np.log(y), 4).forecast(np.log(y), STEPS)
    ahead = ahead_of(model, STEPS)
    assert_allclose(ahead.median, np.exp(joint.mean), rtol=1e-9)
    assert model.transform == PowerTransform(0.0)
    assert list(ahead.index) == list(pd.period_range("2003-05", periods=STEPS, freq="M"))


def test_uncertain_regressors_add_the_covariance_of_their_effects(rng):
    """Two regressors, now and a step later; the covariance is of all steps and regressors."""
    model, root = fitted(seasonal(40)), rng.standard_normal((6, 6))
    weights = np.array([2.0, -1.0, 0.5, 0.3])
    effects = ExogEffects(ExogColumns(1), weights=weights, cov=np.zeros((4, 4)))
    ahead = replace(model.history.future(3), exog=np.zeros((3, 2)))
    model = replace(
        model,
        history=replace(model.history, exog=np.zeros((40, 2))),
        taken_out=Effects(exog=effects),
    )
    by = np.array([[2, -1, 0, 0, 0, 0], [0.5, 0.3, 2, -1, 0, 0], [0, 0, 0.5, 0.3, 2, -1]])
    known = model.level_joint(ahead, Method())
    found = model.level_joint(replace(ahead, exog_cov=root @ root.T), Method())
    added = by @ root @ root.T @ by.T
    assert_allclose(found.cov - known.cov, added, rtol=1e-9)
    assert_allclose(found.parts()["inputs_regressors"], added, rtol=1e-9)


def test_another_history_has_its_own_level_and_season():
    y = seasonal(60)
    model = fitted(y[:40])
    moved = model.at(history(y))
    joint = model.smoothing.forecast(y, STEPS)
    assert_allclose(ahead_of(moved, STEPS).mean, joint.mean, rtol=1e-12)
    assert moved.smoothing is model.smoothing
    longer = model.extend(history(y))
    assert_allclose(ahead_of(longer, 2).mean, joint.mean[:2], rtol=1e-12)


def test_the_last_values_are_learned_from():
    y = seasonal(60)
    y[20] = np.nan
    model = fitted(y, max_train=40)
    assert str(model) == "exponential smoothing of the series, season of 4 steps, last 39 values"
    assert_allclose(model.levels, y[21:])
    assert str(fitted(y, max_train=30)).endswith("last 30 values")
    power = PowerTransform.fit(y).power
    found = str(fitted(y, "boxcox"))
    assert found == (
        f"exponential smoothing of the Box-Cox transform of power {power:.3g}, season of 4 steps, "
        "59 values"
    )


def test_more_gaps_than_it_can_hold_shorten_the_window():
    """60 of the last 121 values are missing, and one more before them."""
    y = seasonal(200, missing=range(78, 200, 2))
    model = fitted(y)
    assert_allclose(model.levels, y[79:])
    assert str(model).endswith("last 61 values, before which too many are missing")
    moved = fitted(y[:60]).at(history(y))
    assert_allclose(moved.levels, y[79:])
    long = fitted(seasonal(200, missing=range(1, 100)), max_train=100)
    assert str(long).endswith("steps, last 100 values")  # no gap among them


def test_a_series_of_many_gaps_is_forecast_by_smoothing_alone():
    y = pd.Series(seasonal(400, missing=[t for t in range(400) if t % 3]))
    model = Forecaster(seasonal_period=None).fit(y)
    assert {type(one) for one in model.models_} == {SmoothingModel}
    assert np.isfinite(model.forecast(3).interval(0.9)).all(axis=None)


def test_origins_count_from_the_start_of_the_history():
    """Of 60 values the last 39 are learned from; what an origin does not know is not read."""
    y = seasonal(60)
    y[20] = np.nan
    model = fitted(y, "log", max_train=40)
    origins = np.array([40, 52, 57])
    found = rolling_forecasts(model, origins, STEPS)
    for row, slope, origin in zip(found.value, found.slope, origins, strict=True):
        levels = np.log(y[21:origin])
        expected = np.exp(model.smoothing.forecast(levels, STEPS).mean)
        expected[60 - origin :] = np.nan  # nothing to compare with
        assert_allclose(row, expected, rtol=1e-9)
        assert_allclose(slope[: 60 - origin], expected[: 60 - origin], rtol=1e-9)  # of exp


def test_origins_leave_the_first_part_to_learn_from():
    model = fitted(seasonal(60), max_train=40)
    assert Rolling((model,)).origins[[0, -1]].tolist() == [36, 59]  # 60 - .6 of 40 values
    assert Rolling((fitted(seasonal(10)),)).origins.size == 0  # 8 and two more come before


def test_methods_have_the_same_moments():
    model = fitted(seasonal(40))
    exact = ahead_of(model, STEPS)
    for name in ("exact", "taylor", "mixture"):
        again = ahead_of(model, STEPS, Method(name))
        assert_allclose(again.cov, exact.cov, rtol=1e-12)
        assert again.propagation == name
    sampled = ahead_of(model, STEPS, Method("monte_carlo", True, 20_000, 0))
    assert_allclose(sampled.mean, exact.mean, atol=5 * exact.std.max() / np.sqrt(2e4))
    assert_allclose(sampled.std, exact.std, rtol=0.05)
    again = ahead_of(model, STEPS, Method("exact", path_consistent=False))
    assert_allclose(again.cov, exact.cov, rtol=1e-12)
    naive = ahead_of(model, STEPS, Method("naive"))
    assert_allclose(naive.std.iloc[0], exact.std.iloc[0], rtol=1e-12)
    assert (naive.std <= exact.std * (1 + 1e-12)).all()


@pytest.mark.parametrize("transform", [None, "log", "sqrt"])
def test_paths_are_in_units_of_the_series(transform):
    """The median of paths is that of the forecast, and its check, of paths, finds it right."""
    model = fitted(seasonal(40), transform)
    future, n = model.history.future(STEPS), 20_000
    ahead, paths = ahead_of(model, STEPS), model.sample_paths(future, n, 0)
    assert paths.shape == (n, STEPS)
    error = 5 * 1.2533 / np.sqrt(n)  # of a median, in stds: sqrt(pi / 2 n)
    assert_allclose(np.median(paths, axis=0), ahead.median, atol=error * ahead.std.max())
    check = ahead.check(2_000, 0)
    assert (check.verdict, check.reasons) == ("exact", ())


def test_parts_are_named():
    ahead = ahead_of(fitted(seasonal(40)), STEPS)
    table = ahead.decompose(by_kind=True)
    assert {"noise", "function", "inputs", "hyperparameters"} <= set(table.columns)
    assert_allclose(table.sum(axis=1), ahead.var, rtol=1e-9)
    assert table["inputs"].iloc[0] == pytest.approx(0, abs=1e-12)


def test_a_gap_at_the_end_widens_the_bands():
    y = seasonal(40)
    known, gap = fitted(y[:37]), y.copy()
    gap[37:] = np.nan
    model = fitted(gap)
    assert known.from_known() is known
    ahead = ahead_of(model, 1)
    later = ahead_of(known, 4)
    assert_allclose(ahead.mean, later.mean.iloc[3:], rtol=1e-6)
    assert_allclose(ahead.std, later.std.iloc[3:], rtol=1e-6)
    assert np.isfinite(model.from_known().levels).all()


@pytest.mark.parametrize(
    ("y", "period", "message"),
    [
        (seasonal(7), 4, "y must have at least 8 observed values .* season 4, .* got 7"),
        (seasonal(5), 2, "y must have at least 6 observed values .* season 2, .* got 5"),
        (seasonal(80, missing=range(5, 73)), 4, "8 observed .* 60 missing between them .* got 7"),
    ],
)
def test_what_it_cannot_learn_from(y, period, message):
    with pytest.raises(ValueError, match=message):
        fitted(y, period=period)


def test_origins_inside_a_gap_tell_nothing_of_one_step():
    y = seasonal(60)
    y[30:35] = np.nan
    ahead = rolling_forecasts(fitted(y), np.array([30, 33, 36]), 2).value
    assert np.isnan(ahead).all(axis=1).tolist() == [False, True, False]


def test_max_train_is_the_most_and_no_more_than_800():
    y = pd.Series(seasonal(1200, 1), pd.period_range("2000-01-01", periods=1200, freq="D"))
    for most, rows in ((100, 100), (900, 800), (2500, 800)):
        arguments = Forecaster(max_train=most, seasonal_period=None)
        specifications = resolve(arguments, History.checked(y)).specifications
        found = [one for one in specifications if isinstance(one, SmoothingSpecification)]
        assert [one.max_train for one in found] == [rows, rows]
        series = TrainingSeries(History.checked(y))
        assert SmoothingModel.fit(found[0], series).n_rows == rows


def test_errors_of_measurement_are_refused():
    y = pd.Series(seasonal(40), pd.period_range("2000-01", periods=40, freq="M"))
    noisy = History.checked(y, None, pd.Series(0.1, y.index))
    with pytest.raises(ValueError, match="y_std must be None for exponential smoothing"):
        SmoothingModel.fit(SmoothingSpecification(4, None, 800, "a test"), TrainingSeries(noisy))


def test_the_automatic_choice_has_it_where_nothing_forbids_it():
    y = pd.Series(seasonal(60), pd.period_range("2000Q1", periods=60, freq="Q"))

    def kinds(**given):
        return [type(model).__name__ for model in Forecaster(**given).fit(y).models_]

    assert kinds().count("SmoothingModel") == 2  # with and without a logarithm
    assert kinds(transform=None).count("SmoothingModel") == 1
    assert "SmoothingModel" not in kinds(lags=4)


@pytest.mark.parametrize(
    ("given", "data", "why"),
    [
        ({"differences": 1}, (), "differences was given"),
        ({"calendar": None, "prior_mean": "last"}, (), "prior_mean was given, calendar was given"),
        ({"regressor": GPRegressor()}, (), "regressor was given"),
        ({"noise": "observation", "transform": None}, (), "noise was given"),
        ({"seasonal_period": (4, 8)}, (), "there are several seasons"),
        ({}, ("y_std",), "y_std was given"),
        ({"lags": 4, "differences": 1}, (), None),
        ({"transform": "log", "lower": 0.0}, (), None),
    ],
)
def test_choices_say_why_there_is_none(given, data, why):
    y = pd.Series(seasonal(40), pd.period_range("2000Q1", periods=40, freq="Q"))
    y_std = pd.Series(0.1, y.index) if "y_std" in data else None
    model = Forecaster(**given).fit(y, y_std=y_std)
    found = [line for line in model.choices_ if line.startswith("no exponential smoothing")]
    assert found == ([] if why is None else [f"no exponential smoothing: {why}"])
    if why:
        assert "SmoothingModel" not in [type(one).__name__ for one in model.models_]


def test_it_is_saved_and_copied_with_the_rest(tmp_path):
    from forecast_unc import load_model

    y = pd.Series(seasonal(60), pd.period_range("2000Q1", periods=60, freq="Q"))
    model = Forecaster().fit(y)
    model.save(tmp_path / "model")
    for other in (load_model(tmp_path / "model"), copy.deepcopy(model)):
        assert_allclose(other.forecast(3).mean, model.forecast(3).mean, rtol=1e-12)


def test_values_far_from_0_have_bands_as_wide():
    """The least std was 1e-9 of the largest value, 100 units at 1e11."""
    y = np.random.default_rng(3).standard_normal(40).cumsum()
    at_zero = Smoothing.learn(y, 1).forecast(y, 6)
    far = Smoothing.learn(y + 1e11, 1).forecast(y + 1e11, 6)
    np.testing.assert_allclose(np.diag(far.cov), np.diag(at_zero.cov), rtol=1e-3)
