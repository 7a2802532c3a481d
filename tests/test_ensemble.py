"""A weighted list of fitted models: its weights, and that nothing changes it."""

import copy
import functools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone

from forecast_unc import Combination, Forecast, Forecaster, GPRegressor, RVMRegressor, datasets
from forecast_unc.forecasting.choose import choice
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models import training
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.models.effects import CalendarEffects
from forecast_unc.forecasting.models.exog_effects import ExogEffects
from forecast_unc.forecasting.models.smoothing import SmoothingModel
from forecast_unc.forecasting.pool.past_scores import weights_by_scores
from forecast_unc.forecasting.pool.weights import own_changes, shares_by_width
from forecast_unc.series import rows
from tests.members import ahead_of, in_turn, on_lags, predicted, smoothing
from tests.recursions import NAMED


def walk(n, seed, freq="D", level=100.0):
    values = level + np.random.default_rng(seed).standard_normal(n).cumsum()
    return pd.Series(values, pd.date_range("2020-01-01", periods=n, freq=freq), name="y")


def season(n, period, freq, noise=0.1):
    rng = np.random.default_rng(n)
    values = 3 + np.sin(2 * np.pi * np.arange(n) / period) + noise * rng.standard_normal(n)
    return pd.Series(values, pd.date_range("2020-01-01", periods=n, freq=freq))


SERIES = {
    "gdp": datasets.load_us_gdp,
    "short": lambda: walk(15, 0),
    "months": lambda: season(100, 12, "MS"),
}


@functools.cache
def fitted(name, calibrate="auto"):
    return Forecaster(calibrate=calibrate).fit(SERIES[name]())


# The weights belong to the fitted model


@pytest.mark.parametrize(("kind", "name"), in_turn(NAMED, ["short", "months"]))
def test_weights_are_those_of_the_exact_forecasts(name, kind):
    model, steps = fitted(name, calibrate=False), 6
    rule = model.ensemble_.rules.averaging
    horizon = max(steps, rule.look_ahead)
    judged = [predicted(one, horizon) for one in model.models_]
    changes = own_changes(model.ensemble_.history.y, horizon)
    index = model.ensemble_.history.future(horizon).index
    noise = [one.noise_ahead(index) for one in model.models_]
    shares = shares_by_width(rule, judged, horizon, rule.look_ahead, changes)
    shares *= weights_by_scores(model.ensemble_.rolling, noise, judged, shares > 0.0)
    shares = shares[:, :steps] * model.ensemble_.votes[:, None]
    method = Method(kind, True, 20, 0)
    apart = [ahead_of(one, steps, method) for one in model.models_]
    expected = Forecast.average(apart, shares, disagreement=True)
    ahead = model.forecast(steps, propagation=kind, n_samples=20, random_state=0)
    np.testing.assert_allclose(ahead.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(ahead.cov, expected.cov, rtol=1e-9)


def test_naive_is_as_wide_as_exact_at_step_1_and_never_wider_on_gdp():
    widths = {}
    for kind in ("naive", "exact"):
        band = fitted("gdp").forecast(12, propagation=kind).interval(0.95)
        widths[kind] = (band["upper"] - band["lower"]).to_numpy()
    assert widths["naive"][0] == pytest.approx(widths["exact"][0], rel=1e-9)
    assert (widths["naive"][1:] < widths["exact"][1:]).all()


# Nothing changes a fitted one


def state(model):
    """All that a forecaster rests on."""
    history = model.ensemble_.history
    posteriors = [one.regressor.posterior_ for one in on_lags(model)]
    nodes = [(one.smoothing.weights.tolist(), one.levels.tolist()) for one in smoothing(model)]
    return (
        history.index,
        history.y.tolist(),
        [one.n_rows for one in model.models_],
        [len(one.history.y) for one in model.models_],
        [(p.weights.tolist(), np.asarray(getattr(p, "centers", 0)).tolist()) for p in posteriors],
        nodes,
        len(model.refused_),
    )


def assert_as_it_was(model, before, ahead):
    assert before[0].equals(model.ensemble_.history.index)
    assert state(model)[1:] == before[1:]
    pd.testing.assert_frame_equal(model.forecast(4).cov, ahead.cov)
    pd.testing.assert_series_equal(model.forecast(4).mean, ahead.mean)


LOGISTIC = [0.1]
for _ in range(82):
    LOGISTIC.append(3.9 * LOGISTIC[-1] * (1 - LOGISTIC[-1]))


@pytest.mark.parametrize(
    "forecaster",
    [
        Forecaster(lags=2),
        Forecaster(lags=4, max_train=30, transform="log"),
        Forecaster(RVMRegressor(), lags=2),
        Forecaster(),
    ],
    ids=["lags", "last rows", "rvm", "automatic"],
)
def test_an_update_that_fails_leaves_all_as_it_was(forecaster, monkeypatch):
    y = pd.Series(LOGISTIC[:80], name="y")
    model = clone(forecaster).fit(y)
    before, ahead = state(model), model.forecast(4)
    later = pd.RangeIndex(80, 83)
    for values, error in (
        ([0.3, 0.4, np.inf], ValueError),
        (["a", "b", "c"], TypeError),
        ([0.3, "b", 0.4], TypeError),
    ):
        with pytest.raises(error, match="y_new must be"):
            model.update(pd.Series(values, later))
    with pytest.raises(ValueError, match="y_new must follow"):  # a gap in the index
        model.update(pd.Series([0.3, 0.4], pd.RangeIndex(81, 83)))
    with pytest.raises(ValueError, match="y_new must follow"):
        model.update(pd.Series([0.3, 0.4, 0.4], pd.Index([80, 81, 83])))
    assert_as_it_was(model, before, ahead)

    def refuses(self, *given):
        raise error

    for error in (ValueError("the factor has lost its digits"), KeyboardInterrupt()):
        for kind in {type(one.regressor) for one in on_lags(model)}:
            monkeypatch.setattr(kind, "condition", refuses)
        monkeypatch.setattr(SmoothingModel, "extend", refuses)
        with pytest.raises(type(error)):
            model.update(pd.Series([1e9, 1e9, 1e9], later))
        assert_as_it_was(model, before, ahead)


@pytest.mark.parametrize("forecaster", [Forecaster(lags=2), Forecaster()], ids=["lags", "auto"])
def test_three_huge_values_are_taken_in_by_all_or_by_none(forecaster):
    """Squares of 1e9 are beyond the digits of the posterior: some are refused."""
    y = pd.Series(LOGISTIC[:80], name="y")
    model = clone(forecaster).fit(y)
    before, ahead = state(model), model.forecast(4)
    try:
        model.update(pd.Series([1e9] * 3, pd.RangeIndex(80, 83)))
    except ValueError:
        assert_as_it_was(model, before, ahead)
        return
    assert len(model.ensemble_.history.y) == 83
    assert {len(one.history.y) for one in model.models_} == {83}
    assert all(one.n_rows == 83 - one.specification.depth for one in on_lags(model))
    assert all(one.n_rows == 83 for one in smoothing(model))


def test_gaps_are_taken_in():
    model = Forecaster(lags=2).fit(pd.Series(LOGISTIC[:80]))
    model.update(pd.Series([np.nan, 0.4, np.nan], pd.RangeIndex(80, 83)))
    assert len(model.ensemble_.history.y) == 83
    assert model.models_[0].n_rows == 78


class Interrupted(GPRegressor):
    """Stops what it is asked to learn, from a number of rows on."""

    def __init__(self, most=100):
        super().__init__(lengthscales=3.0)
        self.most = most

    def fit(self, X, y):
        if len(y) > self.most:
            raise KeyboardInterrupt
        return super().fit(X, y)

    def condition(self, X, y):
        if len(y) > self.most:
            raise KeyboardInterrupt
        return super().condition(X, y)


@pytest.mark.parametrize("lags", [2, "auto"])
def test_an_interrupt_leaves_an_earlier_fit(lags):
    y = walk(90, 5)
    model = Forecaster(Interrupted(60), lags=lags).fit(y[:60])
    before, ahead = state(model), model.forecast(4)
    with pytest.raises(KeyboardInterrupt):
        model.fit(y)
    assert_as_it_was(model, before, ahead)
    with pytest.raises(KeyboardInterrupt):
        model.update(y[60:])
    assert_as_it_was(model, before, ahead)
    both = Combination([model, Forecaster(lags=1)]).fit(y[:60])
    cov = both.forecast(3).cov
    for learn in (lambda: both.fit(y), lambda: both.update(y[60:])):
        with pytest.raises(KeyboardInterrupt):
            learn()
        pd.testing.assert_frame_equal(both.forecast(3).cov, cov)


def test_apply_and_update_leave_what_shares_the_model():
    y = walk(80, 6)
    model = Forecaster().fit(y[:70])
    shared, applied = copy.copy(model), model.apply(y)
    before, ahead = state(model), model.forecast(4)
    assert applied.models_[0].regressor is model.models_[0].regressor  # nothing is learned
    shared.update(y[70:])
    assert_as_it_was(model, before, ahead)


# Short lognormal series


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_of_a_short_lognormal_series_means_something(seed):
    """A member counts up to the step at which its mean is more than exp(2) = 7.4 medians.

    That is a lognormal of log std 2, whose std is 54 medians and 4.2 times what its 95 % band says.
    Mean and band of the average are the averages of the members', and its std is no more than the
    average of theirs: what holds for each of them holds for it. The median of a normal member may
    be negative: then its own is no measure of the others. So the bands are the models' own: the
    tails of Student's t that calibration gives a lognormal are wider at the same 95 % band, at one
    seed of 40 by 1.14 times what is asked for here (without them by .57 at most).
    """
    rng = np.random.default_rng(seed)
    index = pd.date_range("2024-01-01", periods=15, freq="B")
    y = pd.Series(np.exp(0.6 * rng.standard_normal(15)), index)
    model = Forecaster(calibrate=False).fit(y)
    ahead, limit = model.forecast(10), np.exp(2) * (1 + 1e-9)
    medians = np.array([ahead_of(one, 10).median for one in model.models_])
    assert (ahead.mean <= limit * medians.max(axis=0)).all()
    positive = (medians > 0).all(axis=0)
    assert (ahead.mean[positive] <= limit * ahead.median[positive]).all()
    band, quantile = ahead.interval(0.95), norm.ppf(0.975)
    largest = np.exp(2) * np.sqrt(np.expm1(4)) * quantile / np.sinh(2 * quantile)
    assert 4 < largest < 4.3
    said = (band["upper"] - band["lower"]) / (2 * quantile)
    assert (ahead.std <= largest * said * (1 + 1e-9)).all()


# Models that were wrong inside the series


def growing(n, seed):
    """Values that grow by 5 % a month, with an error of 3 %."""
    rng = np.random.default_rng(seed)
    values = 100.0 * np.exp(0.05 * np.arange(n) + 0.03 * rng.standard_normal(n))
    return pd.Series(values, pd.date_range("2015-01-01", periods=n, freq="MS"))


@pytest.mark.parametrize("seed", range(2))
def test_steady_growth_is_followed_though_most_models_miss_it(seed):
    """Equal votes: coverage .3, as models without a logarithm are wrong together."""
    y = growing(96, seed)
    model = Forecaster().fit(y[:72])
    ahead = model.forecast(24)
    inside = (ahead.interval(0.95)["lower"] < y[72:]) & (y[72:] < ahead.interval(0.95)["upper"])
    assert inside.mean() >= 0.8
    assert (np.abs(ahead.median / y[72:] - 1.0) < 0.15).all()


@pytest.mark.parametrize("n", [24, 36])
def test_a_straight_line_goes_on(n):
    """Models that follow it to 1e-3 and to 1e-6 count alike: else one of log changes is alone."""
    y = pd.Series(100.0 + 5.0 * np.arange(n), pd.date_range("2020-01-01", periods=n, freq="MS"))
    ahead = Forecaster().fit(y).forecast(12)
    assert ahead.mean.iloc[-1] == pytest.approx(100.0 + 5.0 * (n + 11), abs=5.0)


def test_members_that_are_hopeless_inside_the_series_are_left_out():
    """A forecast of the others could not be calibrated."""
    t, rng = np.arange(120), np.random.default_rng(0)
    values = 100 + 15 * np.sin(2 * np.pi * t / 12) + rng.normal(0, 2, 120)
    values[90:94] = 1e-6  # their logarithms are far away
    model = Forecaster().fit(pd.Series(values, pd.date_range("2000", periods=120, freq="MS")))
    assert model.weights_.min() == 0.0
    np.testing.assert_allclose(model.forecast(3).mean, values[24:27], atol=30)
    assert len(model.fitted()) > 0


@pytest.mark.parametrize("missing_at_end", [0, 2])
def test_rows_transforms_and_effects_are_found_once_in_a_fit(monkeypatch, rng, missing_at_end):
    calls = []

    def spy(where, name, what):
        before = getattr(where, name)

        def counted(*args):
            calls.append((name, *what(args)))
            return before(*args)

        monkeypatch.setattr(where, name, counted)

    spy(rows, "complete_rows", lambda args: args[1:])
    spy(training, "fitted_transform", lambda args: args[:2])
    spy(CalendarEffects, "learn", lambda args: ("calendar", args[1].round(9).tobytes()))
    spy(ExogEffects, "learn", lambda args: ("regressors", args[0].round(9).tobytes()))
    y = np.exp(season(120, 12, "MS"))
    exog = pd.DataFrame({"x": rng.standard_normal(120)}, y.index)
    y.iloc[[7, 30, 31]] = np.nan
    y.iloc[120 - missing_at_end :] = np.nan
    model = Forecaster(calendar="easter").fit(y, exog)
    assert len(model.models_) > 5
    kinds = {kind for kind, *_ in calls}
    assert kinds == {"complete_rows", "fitted_transform", "learn"}
    assert len(calls) == len(set(calls))


def test_a_specification_holds_what_was_asked_for_alone(rng):
    y = season(120, 12, "MS")
    exog = pd.DataFrame({"x": rng.standard_normal(120)}, y.index)
    model = Forecaster(calendar="easter", exog_lags=1).fit(y, exog)
    chosen = choice.resolve(model, model.ensemble_.history).specifications
    found = [one.specification for one in model.models_]
    assert [one.described() for one in found] == [one.described() for one in chosen]
    assert {one.effects for one in found} == {("easter",)}
    for one in model.models_:
        assert one.taken_out.calendar.names == (("easter", "Easter"),)
        is_smoothing = isinstance(one, SmoothingModel)
        lasting = is_smoothing or one.specification.exog_as == "lasting"
        assert (one.taken_out.exog.weights is not None) == lasting
        assert one.why.startswith(one.specification.why)
        assert ("regressors are taken out before" in one.why) == is_smoothing


def test_a_jump_of_the_season_is_shrunk_no_more_than_its_own_rows_say(rng):
    """Beside a season of 8 steps within one of 40: effects of jumps are the means of their rows."""
    t = np.arange(240)
    y = pd.Series(100 - 30.0 * (t % 40 >= 24) + 8 * np.sin(t * np.pi / 4))
    y += pd.Series(rng.normal(size=240)).ewm(alpha=0.1).mean() * 10
    model = Forecaster(seasonal_period=(8, 40), transform=None).fit(y)
    (one,) = [one for one in model.models_ if getattr(one.specification, "lags", 0) == (1, 2, 3, 4)]
    assert one.specification.within
    groups = np.array(one.regressor.groups)
    apart = np.flatnonzero(groups[4:44] == 3)
    assert apart.tolist() == [0, 24]
    X, weights = one.rows.X, one.regressor.coef_
    left = one.rows.y - X[:, :4] @ weights[:4]
    effects = weights[4:44] + np.tile(weights[44:], 5)
    of_rows = X[:, 4:44].T @ (left - left.mean()) / X[:, 4:44].sum(axis=0)
    np.testing.assert_allclose(effects[apart] / of_rows[apart], 1.0, atol=0.03)


def test_a_model_without_a_method_of_all_models_cannot_be_made():
    class Silent(SmoothingModel):
        learned = FittedModel.learned

    with pytest.raises(TypeError, match="abstract method '?learned"):
        Silent(None, None, None, None, None, None)
