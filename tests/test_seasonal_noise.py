"""Noise that differs between rows and steps of a season, against dense normal algebra."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal

from forecast_unc import Forecaster, GPRegressor, LinearRegressor, RVMRegressor, load_model
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting.horizon.gaussian import propagate
from forecast_unc.forecasting.horizon.types import Future, LevelJoint, Method, OneStepModel
from forecast_unc.forecasting.models.effects import Effects
from forecast_unc.forecasting.models.phase_units import PhaseUnits
from forecast_unc.forecasting.models.relative_noise import RelativeNoise
from forecast_unc.forecasting.models.seasonal_noise import SeasonalNoise
from forecast_unc.forecasting.pool.backcast import rolling_spreads
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.series.history import History
from tests.recursions import IDENTITY, past_of

WEEK = np.array([0.4, 0.4, 0.5, 0.5, 1.0, 2.0, 1.5])


def rows(n=30, d=2, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.3, 2.0, n)
    X = rng.normal(size=(n, d))
    return X, X @ np.arange(1.0, d + 1.0) + 0.5 * noise * rng.normal(size=n), noise


def days(index):
    """Places in `WEEK`."""
    return ((index - pd.Timestamp("2000-01-01")) // pd.Timedelta(1, "D") % 7).to_numpy()


def week(n=280, seed=0):
    """Days whose noise is that of their weekday."""
    rng = np.random.default_rng(seed)
    index = pd.date_range("2024-01-01", periods=n)
    place = days(index)
    level = 50.0 + 5.0 * np.sin(2 * np.pi * place / 7)
    return pd.Series(level + WEEK[place] * rng.normal(size=n), index), place


# Regressors that are told the noise of their rows


def test_a_linear_model_is_the_bayesian_regression_of_its_rows():
    X, y, noise = rows()
    model = LinearRegressor(bias="shrunk").fit(X, y, relative_noise=noise)
    scale, offset = X.std(axis=0), X.mean(axis=0)
    Z = np.column_stack([(X - offset) / scale, np.ones(len(y))])
    prior = np.diag(model.precisions_[[0, 0, 1]])
    A = Z.T @ (Z / noise[:, None] ** 2) + prior
    weights = np.linalg.solve(A, Z.T @ (y / noise**2))
    assert_allclose(model.coef_, weights[:-1] / scale, rtol=1e-9)
    C = np.diag(noise**2) + Z @ np.linalg.inv(prior) @ Z.T
    square = y @ np.linalg.solve(C, y)
    assert_allclose(model.noise_std_**2, square / (len(y) - 2), rtol=1e-9)
    x = np.array([[0.3, -0.7]])
    z = np.append((x[0] - offset) / scale, 1.0)
    var = model.noise_std_**2 * (1.0 + z @ np.linalg.solve(A, z))
    assert_allclose(model.predict(x, return_std=True)[1] ** 2, var, rtol=1e-9)
    # relative to a multiple of C the evidence changes by what the density of y does
    other = LinearRegressor(bias="shrunk").fit(X, y, relative_noise=3.0 * noise)
    assert_allclose(other.noise_std_, model.noise_std_ / 3.0, rtol=1e-2)


def test_inputs_orthogonal_but_for_the_noise_are_not_taken_as_such():
    _, y, noise = rows(32)
    X = np.tile([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], (8, 1))
    exact = LinearRegressor().fit(X, y, relative_noise=noise)
    almost = LinearRegressor().fit(X + 1e-9 * y[:, None], y, relative_noise=noise)
    assert_allclose(exact.log_evidence_, almost.log_evidence_, rtol=1e-6)
    assert_allclose(exact.noise_std_, almost.noise_std_, rtol=1e-6)


def test_the_evidence_of_a_process_is_that_of_its_rows():
    X, y, noise = rows()
    evidence = GaussianProcessEvidence(X, y, True, errors=noise)
    at = np.array([0.2, -0.1, 0.3, -0.4, -0.8])

    def value(theta):
        l, (a, tau, s) = np.exp(theta[:2]), np.exp(theta[2:])
        return evidence(l, a, tau, s)

    l, (a, tau, s) = np.exp(at[:2]), np.exp(at[2:])
    squares = (((X[:, None] - X) / l) ** 2).sum(axis=2)
    K = a**2 * np.exp(-0.5 * squares) + tau**2 * X @ X.T + 1.0 + np.diag((s * noise) ** 2)
    assert_allclose(value(at)[0], -multivariate_normal(np.zeros(len(y)), K).logpdf(y), rtol=1e-9)
    assert check_grad(lambda t: value(t)[0], lambda t: value(t)[1], at) < 1e-4


def test_the_posterior_of_a_process_is_that_of_its_rows():
    X, y, noise = rows()
    model = GPRegressor(linear=False, lengthscales=1.5, noise_std=0.5).fit(
        X[:25], y[:25], relative_noise=noise[:25]
    )
    gone_on = model.condition(X, y, relative_noise=noise)
    squares = (((X[:, None] - X) / 1.5) ** 2).sum(axis=2)
    K = model.amplitude_**2 * np.exp(-0.5 * squares)
    new = np.array([[0.1, 0.2]])
    k = model.amplitude_**2 * np.exp(-0.5 * (((X - new) / 1.5) ** 2).sum(axis=1))
    for fitted, n in ((model, 25), (gone_on, 30)):
        C = K[:n, :n] + np.diag((0.5 * noise[:n]) ** 2)
        mean, std = fitted.predict(new, return_std=True)
        var = model.amplitude_**2 + 0.25 - k[:n] @ np.linalg.solve(C, k[:n])
        center = fitted.posterior_.output_offset
        assert_allclose(mean, center + k[:n] @ np.linalg.solve(C, y[:n] - center), rtol=1e-8)
        assert_allclose(std**2, var, rtol=1e-8)


@pytest.mark.parametrize("model", [LinearRegressor(), GPRegressor(lengthscales=1.0, noise_std=0.3)])
def test_leading_means_are_those_of_the_first_rows(model):
    X, y, noise = rows()
    model.fit(X, y, relative_noise=noise)
    new = X[[0, 5]] + 0.1
    means = model.leading_means(X, y, [12, 25], relative_noise=noise)(new)
    for mean, x, n in zip(means, new, (12, 25), strict=True):
        own = model.condition(X[:n], y[:n], relative_noise=noise[:n])
        assert_allclose(mean, own.predict(x[None])[0], rtol=1e-8)


@pytest.mark.parametrize("model", [LinearRegressor(), GPRegressor()])
@pytest.mark.parametrize("noise", [np.ones(29), np.zeros(30), np.full(30, np.nan), "much"])
def test_noise_that_is_none_is_refused(model, noise):
    X, y, _ = rows()
    with pytest.raises(ArgumentError) as refused:
        model.fit(X, y, relative_noise=noise)
    assert refused.value.argument == "relative_noise"
    assert refused.value.rule == "be 30 positive numbers, one a row"


def test_noise_of_rows_and_of_inputs_do_not_go_together():
    X, y, noise = rows()
    with pytest.raises(ArgumentError) as refused:
        GPRegressor(noisy_inputs="nigp").fit(X, y, relative_noise=noise)
    assert refused.value.argument == "relative_noise"
    assert not GPRegressor(noisy_inputs="nigp").takes_noise
    assert not RVMRegressor().takes_noise


# The recursion


@pytest.mark.parametrize("kind", ["exact", "taylor", "mixture", "monte_carlo", "naive"])
def test_each_step_adds_its_own_noise(kind):
    """Of a linear model whose weights are all but known: y_t = .7 y_(t-1) + r_t e_t."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1))
    posterior = LinearRegressor().fit(X, 0.7 * X[:, 0] + 0.5 * rng.normal(size=4000)).posterior_
    a, var = posterior.weights[0], posterior.noise_var
    noise = np.array([1.0, 3.0, 0.2, 1.0, 2.0])
    M = np.linalg.inv(np.eye(5) - a * np.eye(5, k=-1))
    expected = M @ np.diag(var * noise**2) @ M.T
    future = Future(np.empty((5, 0)), noise=noise)
    model = OneStepModel(posterior, (1,), IDENTITY)
    joint = propagate(model, past_of([0.1, 0.2]), future, Method(kind, True, 20_000, 0))
    if kind == "naive":
        expected = np.diag(var * noise**2)
    size = np.sqrt(np.diag(expected))
    error = (joint.cov - expected) / np.outer(size, size)
    assert np.abs(error).max() < {"monte_carlo": 0.04, "mixture": 0.08}.get(kind, 0.02)
    parts = joint.parts()
    assert_allclose(np.diag(parts["noise"]), var * noise**2, rtol=1e-12)
    assert_allclose(sum(parts.values()), joint.cov, atol=0.08 * size.max() ** 2)


@pytest.mark.parametrize("kind", ["exact", "monte_carlo"])
def test_a_gap_is_passed_with_its_own_noise(kind):
    """A value before a gap of one step: its variance is that of two, the first one's own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1))
    posterior = LinearRegressor().fit(X, 0.7 * X[:, 0] + 0.5 * rng.normal(size=4000)).posterior_
    a, var = posterior.weights[0], posterior.noise_var
    past = past_of([0.1, 0.2, np.nan])._replace(noise=np.array([1.0, 1.0, 4.0]))
    future = Future(np.empty((1, 0)), noise=np.array([0.5]))
    model = OneStepModel(posterior, (1,), IDENTITY)
    joint = propagate(model, past, future, Method(kind, True, 20_000, 0))
    assert_allclose(joint.cov[0, 0], var * (0.25 + a**2 * 16.0), rtol=0.05)


# What is learned of a season


def test_the_test_has_its_level():
    """Of residuals that do not differ, with tails and with volatility, 5 % are found to."""
    index = pd.date_range("2024-01-01", periods=280)
    rng = np.random.default_rng(0)
    found = {}
    for name in ("normal", "tails", "volatile"):
        draws = rng.normal(size=(300, 280)) if name != "tails" else rng.standard_t(4, (300, 280))
        if name == "volatile":
            slow = np.cumsum(rng.normal(size=(300, 280)), axis=1)
            draws *= np.exp(0.1 * slow)
        each = [SeasonalNoise.of(np.abs(e), np.arange(280), index, (7,)) for e in draws]
        found[name] = np.mean([one is not None for one in each])
    assert all(share < 0.1 for share in found.values()), found
    assert found["normal"] > 0.02


def learned(levels, index, periods):
    """The noise of steps of the season alone, None if it does not differ."""
    history = History.checked(pd.Series(levels, index))
    noise = RelativeNoise.learn(history.y, history, Effects(), periods, volatile=False)
    return None if noise is None else noise.seasonal


@pytest.mark.parametrize("n", [70, 280, 2800])
def test_sizes_of_a_week_are_found_and_shrunk(n):
    y, place = week(n, seed=1)
    noise = learned(y.to_numpy(), y.index, (7,))
    (sizes,) = noise.sizes
    truth = np.log(WEEK / np.sqrt(np.mean(WEEK**2)))
    error = np.log(sizes) - truth
    assert np.sqrt(np.mean(error**2)) < 2.5 * np.sqrt(0.57 / (n / 7))
    assert_allclose(np.mean(noise.of_rows(y.index)[place.argmin() :] ** 2), 1.0, rtol=0.2)


def test_a_short_day_is_one_of_the_week():
    """Hours: a factor of the day, and one of the week where it has more to say."""
    rng = np.random.default_rng(2)
    index = pd.date_range("2024-01-01", periods=24 * 7 * 10, freq="h")
    size = np.where(index.hour < 6, 0.2, 1.0) * np.where(index.day_of_week > 4, 0.3, 1.0)
    noise = learned(10.0 + size * rng.normal(size=len(index)), index, (24, 168))
    found = noise.of_rows(index)
    assert noise.periods == (24, 168)
    assert np.std(np.log(found / size)) < 0.2


def test_too_few_cycles_or_none_say_nothing():
    y, _ = week(27)
    assert learned(y.to_numpy(), y.index, (7,)) is None
    assert learned(y.to_numpy(), y.index, ()) is None
    index = pd.date_range("2024-01-01", periods=70)
    assert SeasonalNoise.of(np.zeros(70), np.arange(70), index, (7,)) is None
    assert learned(np.arange(70.0), index, (7,)) is None


# Forecasts


@pytest.fixture(scope="module")
def quiet():
    y, _ = week(280, seed=3)
    return y, Forecaster(seasonal_period=7).fit(y)


def test_the_bands_of_a_quiet_day_are_narrow(quiet):
    ahead = quiet[1].forecast(14)
    widths = np.diff(ahead.interval(0.8).to_numpy())[:, 0]
    ratio = widths / WEEK[days(ahead.index)]
    assert ratio.max() / ratio.min() < 2.0  # of one noise for all 5
    noise = np.sqrt(ahead.decompose()["noise"])
    assert noise.max() / noise.min() > 2.5


def test_all_members_have_it_and_the_choice_says_so(quiet):
    assert all(one.relative_noise is not None for one in quiet[1].models_)
    (line,) = (one for one in quiet[1].choices_ if one.kind == "noise")
    assert line.startswith("noise: it differs between the steps of a season of 7, 0.")


def test_a_saved_model_has_its_noise(quiet, tmp_path):
    _, model = quiet
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    pd.testing.assert_frame_equal(
        again.forecast(9).interval(0.8), model.forecast(9).interval(0.8), rtol=1e-9
    )


def test_steps_of_another_series_have_the_noise_of_their_day(quiet):
    y, model = quiet
    later = model.apply(y[:-3])
    widths = [np.diff(one.forecast(7).interval(0.8).to_numpy())[:, 0] for one in (model, later)]
    assert_allclose(widths[0][:4], widths[1][3:], rtol=0.25)


def test_widths_of_earlier_origins_are_those_of_their_day(quiet):
    _, model = quiet
    ensemble = model.ensemble_
    ahead = ensemble.history.future(7)
    predictions = [one.predict(ahead, Method()) for one in ensemble.models]
    now = [one.noise_ahead(ahead.index) for one in ensemble.models]
    spreads = rolling_spreads(ensemble.rolling, predictions, now, 7)
    in_levels = [i for i, one in enumerate(ensemble.models) if one.transform.power is None]
    assert len(in_levels) > 1
    for number in in_levels:
        one = ensemble.models[number]
        there = one.noise_from(ensemble.rolling.origins, 1).std[:, 0]
        var = spreads.width[number, 0] ** 2 - now[number].std[0] ** 2 + there**2
        assert_allclose(spreads.past_width[number, :, 0] ** 2, var, rtol=1e-6)


def test_fitted_bands_are_those_of_their_day(quiet):
    std = quiet[1].fitted().std
    by_day = std.groupby(days(std.index)).mean()
    assert by_day.max() / by_day.min() > 2.5


def test_days_of_a_year_have_no_noise_of_their_own(rng):
    """Holidays that the year's waves do not follow would be noise, and count for less."""
    index = pd.date_range("2010-01-01", periods=8 * 365)
    y = 100.0 + 5.0 * rng.normal(size=len(index)) - 40.0 * (index.day_of_year > 358)
    assert learned(y, index, (7, 365)) is None


HOURS = np.where(np.arange(24) // 6 % 3 == 0, 0.0, np.sin((np.arange(24) - 5.5) / 12 * np.pi))


@pytest.fixture(scope="module")
def nights():
    """Half of a day is 0, the rest is proportional to a process that goes on at night."""
    rng = np.random.default_rng(0)
    index = pd.date_range("2024-01-01", periods=24 * 60, freq="h")
    state = np.zeros(len(index))
    for t in range(1, len(state)):
        state[t] = 0.9 * state[t - 1] + np.sqrt(1.0 - 0.81) * rng.normal()
    y = pd.Series(HOURS[index.hour] * (10.0 + 3.0 * state), index)
    return y, Forecaster(seasonal_period=24, transform=None, lower=-np.inf).fit(y)


@pytest.mark.parametrize("model", ["LaggedModel", "SmoothingModel"])
def test_steps_that_never_vary_take_nothing_from_the_noise_of_others(nights, model):
    """Rows of nights have no residual, and bands of the others were .7 as wide."""
    y, fitted = nights
    weights = dict(zip(fitted.models_, fitted.weights_, strict=True))
    one = max((own for own in weights if type(own).__name__ == model), key=weights.__getitem__)
    noise, day = one.noise_ahead(y.index[-24:]).std, HOURS > 0.0
    assert noise[~day].max() < 0.03
    own = (noise / HOURS.clip(0.1))[day]
    assert np.median(own) == pytest.approx(3.0 * np.sqrt(1.0 - 0.81), rel=0.3)
    ahead = one.predict(one.history.future(24), Method()).joint
    assert np.median((ahead.std / HOURS.clip(0.1))[day]) == pytest.approx(3.0, rel=0.5)


def test_sums_of_a_day_move_with_the_size_of_its_hours(nights):
    """Of levels in plain units, which nights bring back to 0, their std was half of the days'."""
    y, fitted = nights
    days_before = y.to_numpy().reshape(-1, 24).sum(axis=1)
    total = fitted.forecast(24).aggregate("sum")
    assert float(total.std.iloc[0]) == pytest.approx(days_before.std(), rel=0.25)


def test_levels_are_in_units_of_their_steps():
    """Means and sizes of a step of the season, by hand; its steps that never vary are known."""
    rng = np.random.default_rng(0)
    size = np.array([0.0, 1.0, 2.0, 4.0])
    levels = np.resize(size, 400) * (5.0 + rng.normal(size=400))
    index = pd.RangeIndex(400)
    units = PhaseUnits.of(levels, index, (4,))
    assert units.still(index[:4]).tolist() == [True, False, False, False]
    assert units.varying == 0.75
    scale, by_step = units.at(index[:4]), levels.reshape(100, 4)
    assert_allclose(scale.center, by_step.mean(axis=0))
    sizes = by_step.std(axis=0)
    assert_allclose(scale.size[1:] / scale.size[3], sizes[1:] / sizes[3], rtol=0.1)
    assert_allclose(scale.levels(scale.standardized(levels[:4])), levels[:4])
    assert PhaseUnits.of(levels + rng.normal(size=400), index, (4,)) is None


def test_a_joint_of_levels_is_scaled_step_by_step():
    rng = np.random.default_rng(0)
    paths, by = rng.normal(size=(3, 50)), np.array([1.0, 0.5, 3.0])
    joint = LevelJoint.of_paths(paths, lambda: {"noise": np.eye(3)}).scaled(by)
    expected = by[:, None] * paths
    assert_allclose(joint.mean, expected.mean(axis=1))
    assert_allclose(joint.cov, np.cov(expected))
    assert_allclose(joint.paths, expected)
    assert_allclose(joint.parts()["noise"], np.diag(by**2))


def test_effects_that_a_model_knows_are_no_noise(rng):
    """Promotions on Saturdays alone: without the regressor they would be noise."""
    index = pd.date_range("2023-01-01", periods=210)
    promotion = np.where(index.day_of_week == 5, rng.integers(0, 2, 210), 0.0)
    y = pd.Series(50.0 + rng.normal(size=210) + 10.0 * promotion, index)
    model = Forecaster(seasonal_period=7).fit(y, pd.DataFrame({"promotion": promotion}, index))
    assert all(one.relative_noise is None for one in model.models_)


def test_steps_without_values_have_the_noise_of_the_others(rng):
    """Closed weekends: lags of them leave Wednesdays, Thursdays and Fridays."""
    index = pd.date_range("2024-01-01", periods=420)
    y = 10.0 + np.where(index.day_of_week == 2, 3.0, 1.0) * rng.normal(size=420)
    y[index.day_of_week > 4] = np.nan
    noise = learned(y, index, (7,)).of_rows(index[:7])
    assert 2.0 < noise[2] / noise[4] < 4.0
    assert noise[[0, 1, 5, 6]].min() > noise[[3, 4]].min()


def test_a_single_step_with_values_differs_from_none(rng):
    """Three hours a day: two are lags of the third."""
    index = pd.date_range("2024-01-01", periods=24 * 100, freq="h")
    y = np.where(np.isin(index.hour, [8, 9, 10]), rng.normal(size=len(index)), np.nan)
    assert learned(y, index, (24,)) is None


def test_half_months_can_have_it(rng):
    """Whose grid has no rule that an index without a time could be counted by."""
    index = pd.date_range("2010-01-01", periods=96, freq="SMS")
    y = pd.Series(50.0 + np.where(np.arange(96) % 4 < 2, 0.3, 3.0) * rng.normal(size=96), index)
    model = Forecaster(seasonal_period=4).fit(y)
    widths = np.diff(model.forecast(4).interval(0.8).to_numpy())[:, 0]
    assert widths[2:].min() > 2.0 * widths[:2].max()


@pytest.mark.parametrize("days", [7, 30])
def test_nights_are_0_for_certain_once_eight_were(days):
    """Before, half of their noise is below the bound, and all else: some variance is left."""
    index = pd.date_range("2024-01-01", periods=24 * days, freq="h")
    sun = np.maximum(np.sin(2 * np.pi * (index.hour.to_numpy() - 6) / 24), 0.0)
    clouds = np.random.default_rng(0).uniform(0.3, 1.0, len(index))
    ahead = Forecaster().fit(pd.Series((100.0 * sun * clouds).round(1), index)).forecast(24)
    assert (ahead.std.iloc[7:18] > 0.0).all()
    night = ahead.prob(upper=0.0).iloc[:5]
    assert (night == 1.0).all() if days == 30 else night.between(0.5, 1.0).all()
    assert ((ahead.std.iloc[:5] > 0.0) == (days == 7)).all()
