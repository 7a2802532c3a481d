"""Forecasts under different futures of the regressors, and the distribution of their difference."""

import pickle

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Combination, Forecaster, LinearRegressor, baselines
from forecast_unc.errors import ArgumentError, InvalidArgument
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.futures import shared_innovations
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel, Past
from tests.test_propagation import linear_posterior

N, H = 60, 6
KINDS = {
    "default": {},
    "mixture": {"lags": 2},
    "logarithm": {"regressor": LinearRegressor(), "lags": 1, "transform": "log", "calibrate": True},
}


def arx(n, seed=0):
    """Values that follow ``y_t = 20 + .6 y_(t - 1) - 3 price_t + e_t``, and prices of 6 more."""
    rng = np.random.default_rng(seed)
    price = rng.uniform(3.0, 5.0, n + H)
    y = np.zeros(n)
    for t in range(n):
        y[t] = 20.0 + 0.6 * (y[t - 1] if t else 30.0) - 3.0 * price[t] + rng.normal()
    index = pd.date_range("2024-01-01", periods=n + H)
    return pd.Series(y, index[:n], name="sold"), pd.DataFrame({"price": price}, index)


@pytest.fixture(scope="module")
def data():
    return arx(N)


@pytest.fixture(scope="module")
def futures(data):
    base = data[1][N:]
    late = base.copy()
    late.iloc[3:] += 0.5
    return {"base": base, "plan": 1.2 * base, "late": late, "same": base.copy()}


@pytest.fixture(scope="module", params=KINDS)
def model(request, data):
    y, exog = data
    return Forecaster(**KINDS[request.param]).fit(y, exog[:N])


@pytest.fixture(scope="module")
def linear(data):
    return Forecaster(LinearRegressor(), lags=2).fit(data[0], data[1][:N])


@pytest.fixture(scope="module")
def scenarios(model, futures):
    return model.scenarios(futures, H)


@pytest.fixture(scope="module")
def change(scenarios):
    return scenarios["plan"] - scenarios["base"]


def drawn_differences(model, first, second, errors=(0.0, 0.0), n=40_000):
    """Differences (n, h) of paths of linear models with drawn weights and the same noise.

    `errors` (n, h) of the regressor are in each of the futures.
    """
    one, rng = model.models_[0], np.random.default_rng(1)
    posterior, lags, scale = one.one_step.posterior, one.one_step.lags, one.differencing.scale
    d = len(lags) + first.shape[1]
    units = np.vstack([np.zeros(d), np.eye(d)])
    to_weights = np.eye(d + 1)
    to_weights[1:, 0] = -1.0
    mean = to_weights @ posterior.mean(units)
    weights = rng.multivariate_normal(
        mean, to_weights @ posterior.covariance(units) @ to_weights.T, n
    )
    noise = np.sqrt(posterior.noise_var) * rng.standard_normal((n, len(first)))
    start = (one.history.y[-max(lags) :] - one.differencing.shift) / scale
    ends = []
    for future, error in zip((first, second), errors, strict=True):
        z = np.tile(start, (n, 1))
        prices = future.to_numpy().T + error + np.zeros((n, 1))
        for t in range(len(future)):
            known = [np.ones(n), *(z[:, -lag] for lag in lags), prices[:, t]]
            now = (weights * np.column_stack(known)).sum(axis=1) + noise[:, t]
            z = np.column_stack([z, now])
        ends.append(scale * z[:, -len(first) :])
    return ends[0] - ends[1]


@pytest.mark.parametrize("propagation", ["exact", "mixture"])
def test_a_difference_is_that_of_paths_of_the_same_noise_and_weights(linear, futures, propagation):
    both = linear.scenarios(futures, H, propagation=propagation)
    change = both["plan"] - both["base"]
    drawn = drawn_differences(linear, futures["plan"], futures["base"])
    np.testing.assert_allclose(change.mean, drawn.mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(change.std, drawn.std(axis=0), rtol=0.02)
    np.testing.assert_allclose(change.cov, np.cov(drawn.T), rtol=0.05)
    total = change.aggregate("sum")
    np.testing.assert_allclose(total.std, drawn.sum(axis=1).std(), rtol=0.02)
    # a fifth of the width of either, whose noise is gone
    assert (change.std < 0.5 * both["base"].std).all()


COV = 0.09 * 0.8 ** np.abs(np.subtract.outer(range(H), range(H)))
ERRORS = {"shared": (1.0, 1.0), "of one": (1.0, 0.0), "of each": (2.0, 1.0)}


def drawn_errors(sizes, n=40_000):
    """Errors (n, h) of covariances of these sizes: one for both if they are the same."""
    drawn = np.random.default_rng(2).multivariate_normal(np.zeros(H), COV, (2, n))
    return sizes[0] * drawn[0], sizes[1] * drawn[int(sizes[0] != sizes[1])]


def uncertain(sizes):
    return {name: size**2 * COV for name, size in zip(("plan", "base"), sizes, strict=True) if size}


@pytest.mark.parametrize("sizes", ERRORS.values(), ids=ERRORS)
def test_scenarios_of_uncertain_regressors_share_errors_of_the_same_covariance(
    linear, futures, sizes
):
    both = linear.scenarios({name: futures[name] for name in ("base", "plan")}, H, uncertain(sizes))
    change = both["plan"] - both["base"]
    drawn = drawn_differences(linear, futures["plan"], futures["base"], drawn_errors(sizes))
    np.testing.assert_allclose(change.mean, drawn.mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(change.cov, np.cov(drawn.T), rtol=0.07)
    alone = linear.forecast(H, futures["plan"], sizes[0] ** 2 * COV)
    np.testing.assert_array_equal(both["plan"].cov, alone.cov)


def test_one_std_of_two_regressors_is_of_all_scenarios_and_clear(data, futures):
    y, exog = data
    both = exog.assign(wind=np.random.default_rng(5).normal(size=len(exog)))
    model = Forecaster(LinearRegressor(), lags=1).fit(y, both[:N])
    base = both[N:]
    plan, std = base.assign(price=5.0), base.assign(price=0.0, wind=0.5)
    cov = np.diag(std.to_numpy().ravel() ** 2)
    pairs = {"exog_std": std}, {"exog_cov": {"base": cov, "plan": cov}}
    changes = [model.scenarios({"base": base, "plan": plan}, H, **one) for one in pairs]
    first, second = (one["plan"] - one["base"] for one in changes)
    np.testing.assert_array_equal(first.cov, second.cov)
    known = model.scenarios({"base": base, "plan": plan}, H)
    np.testing.assert_allclose(first.std, (known["plan"] - known["base"]).std, rtol=0.01)
    price_too = cov + np.kron(np.eye(H), np.diag([0.04, 0.0]))
    other = model.scenarios({"base": base, "plan": plan}, H, {"base": cov, "plan": price_too})
    assert ((other["plan"] - other["base"]).std[1:] > 1.2 * first.std[1:]).all()
    wide = np.kron(np.eye(H), [[0.04, 0.0], [0.0, 0.04]])
    tied = np.kron(np.eye(H), [[0.04, 0.02], [0.02, 0.04]])
    with pytest.raises(ArgumentError) as error:
        model.scenarios({"base": base, "plan": plan}, H, {"base": wide, "plan": tied})
    assert error.value.argument == "exog_cov"


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"exog_cov": {"other": COV}}, "exog_cov"),
        ({"exog_std": {1: COV}}, "exog_std"),
        ({"exog_cov": {"plan": COV[1:]}}, "exog_cov['plan']"),
        ({"exog_cov": COV[1:]}, "exog_cov"),
    ],
)
def test_wrong_uncertainties_are_named(linear, futures, given, argument):
    with pytest.raises(InvalidArgument) as error:
        linear.scenarios(futures, H, **given)
    assert error.value.argument == argument


def test_a_difference_of_a_nonlinear_model_is_that_of_paths_of_the_same_functions():
    rng = np.random.default_rng(3)
    exog = pd.DataFrame({"u": rng.uniform(-2.0, 2.0, N + H)}, pd.RangeIndex(N + H))
    y = 2.0 * np.tanh(exog["u"]) + 0.4 * rng.normal(size=N + H)
    y = y + 0.5 * y.shift(1, fill_value=0.0)
    model = Forecaster(lags=1).fit(y[:N], exog[:N])
    futures = {"low": exog[N:], "high": exog[N:] + 0.7}
    both = model.scenarios(futures, H)
    # functions are drawn first, whole, then the noise: one seed has them in common
    low, high = (
        model.models_[0].sample_paths(model.history_.future(H, one), 2000, 7)
        for one in futures.values()
    )
    change = both["high"] - both["low"]
    np.testing.assert_allclose(change.std, (high - low).std(axis=0), rtol=0.15)
    np.testing.assert_allclose(
        change.aggregate("sum").std, (high - low).sum(axis=1).std(), rtol=0.1
    )


def test_of_a_known_linear_function_all_noise_is_shared():
    posterior = linear_posterior(np.array([0.6, 0.25, -1.5]))
    model = OneStepModel(posterior, (1, 2), Differencing((), 0.0, 1.0))
    past = Past(np.array([1.0, -0.5, 0.2]), np.zeros(3), np.zeros((3, 1)), np.ones(3, bool))
    two = [Future(np.zeros((8, 1))), Future(np.arange(8.0)[:, None])]
    shared = shared_innovations(model, past, two, Method())
    np.testing.assert_allclose(shared, np.tile(np.eye(8), (2, 2)), atol=1e-9)


def test_a_scenario_is_the_forecast_with_its_regressors(model, scenarios, futures):
    for name, exog in futures.items():
        alone = model.forecast(H, exog)
        np.testing.assert_array_equal(scenarios[name].cov, alone.cov)
        pd.testing.assert_frame_equal(scenarios[name].interval(0.9), alone.interval(0.9))


def test_where_futures_are_the_same_the_difference_is_0(scenarios):
    late, none = scenarios["late"] - scenarios["base"], scenarios.difference("same", "base")
    assert (none.mean == 0.0).all()
    assert (none.interval(0.95) == 0.0).all(axis=None)
    assert (none.std == 0.0).all()
    total = none.aggregate("sum")
    assert (total.std.iloc[0], *total.interval(0.95).iloc[0]) == (0.0, 0.0, 0.0)
    assert (late.std[:3] == 0.0).all()
    assert (late[:3].interval(0.95) == 0.0).all(axis=None)
    assert (late[:3].prob(lower=0.0) < 1e-6).all()
    assert (late[3:].std > 0.01).all()


def test_a_difference_has_the_difference_of_the_means(scenarios, change):
    back = scenarios.difference("base", "plan")
    gap = scenarios["plan"].mean - scenarios["base"].mean
    pd.testing.assert_series_equal(change.mean, gap)
    np.testing.assert_allclose(back.cov, change.cov, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(change.prob(lower=0.0), back.prob(upper=0.0), atol=0.003)
    total = change.aggregate("sum")
    np.testing.assert_allclose(total.mean, gap.sum())
    assert total.aggregated == "sum of 6 steps, each a difference of plan and base"
    assert total.prob(upper=0.0).item() > 0.9


def test_the_first_steps_do_not_depend_on_the_horizon(model, change, futures):
    fewer = model.scenarios({name: futures[name][:3] for name in ("base", "plan")}, 3)
    np.testing.assert_allclose((fewer["plan"] - fewer["base"]).std, change[:3].std, rtol=1e-5)


def test_scenarios_are_a_mapping(linear, futures):
    scenarios = linear.scenarios(futures, H)
    assert scenarios.names == tuple(scenarios) == ("base", "plan", "late", "same")
    assert [one.name for _, one in scenarios.items()] == ["sold"] * 4
    assert "other" not in scenarios
    again = pickle.loads(pickle.dumps(scenarios))
    pd.testing.assert_frame_equal(
        (again["plan"] - again["base"]).cov, (scenarios["plan"] - scenarios["base"]).cov
    )


def test_a_difference_of_revenues_is_that_of_their_paths(linear, futures):
    both = linear.scenarios(futures, H)
    price = futures["plan"]["price"]
    change = both.difference("plan", "base", {"plan": price, "base": 4.0})
    gap = price * both["plan"].mean - 4.0 * both["base"].mean
    np.testing.assert_allclose(change.mean, gap)
    # Var[a x - b y] of the same noise, with the difference d = x - y: (a - b) x + b d
    plain = both["plan"] - both["base"]
    most = (price - 4.0).abs() * both["plan"].std + 4.0 * plain.std
    assert ((change.std <= most + 1e-9) & (change.std >= 0.5 * most)).all()
    np.testing.assert_allclose(
        both.difference("plan", "base", {"plan": 2.0, "base": 2.0}).cov, 4.0 * plain.cov
    )


def test_regressors_beyond_those_of_the_past_are_named(linear, data, futures):
    low, high = data[1]["price"][:N].agg(["min", "max"])
    far = futures["base"].copy()
    far.loc[far.index[2:4], "price"] = 12.0, 7.5
    text = f"price 12 is beyond the {low:.4g} to {high:.4g} of the past at 2 of 6 steps"
    (note,) = linear.forecast(H, far).notes_
    assert note == text
    assert note.places == (2, 3)
    both = linear.scenarios({"base": futures["base"], "far": far}, H)
    assert both["base"].notes_ == []
    assert both["far"].notes_ == (both["far"] - both["base"]).notes_ == [text]


def test_one_scenario_is_enough(linear, futures):
    assert linear.scenarios({"base": futures["base"]}, H).names == ("base",)


def test_gaps_before_the_origin_and_clocks_are_passed(futures):
    y, exog = arx(N, seed=2)
    index = pd.date_range("2024-03-30", periods=N + H, freq="h", tz="Europe/Berlin")
    y, exog = y.set_axis(index[:N]), exog.set_axis(index)
    y.iloc[-2:] = np.nan
    model = Forecaster(LinearRegressor(), lags=2, calibrate=True).fit(y, exog[:N])
    both = model.scenarios({"base": exog[N:], "plan": exog[N:] + 1.0}, H)
    change = both["plan"] - both["base"]
    assert (change.std < 0.7 * both["base"].std).all()
    assert change.index.equals(index[N:])


def test_a_forecast_that_is_of_no_common_scenarios_has_no_difference(linear, futures):
    both = linear.scenarios(futures, H)
    for other in (linear.forecast(H, futures["base"]), both["base"][:3], 2.0 * both["base"]):
        with pytest.raises(TypeError):
            both["plan"] - other


@pytest.mark.parametrize(
    ("exog", "argument", "kind"),
    [
        (None, "exog", TypeError),
        ({}, "exog", ValueError),
        ({1: "base"}, "exog", TypeError),
        ({"base": "base", "plan": "rows"}, "exog['plan']", ValueError),
        ({"base": "base", "plan": "none"}, "exog['plan']", ValueError),
        ({"plan": "column"}, "exog['plan']", ValueError),
    ],
)
def test_wrong_scenarios_are_named(linear, futures, exog, argument, kind):
    base = futures["base"]
    frames = {"base": base, "rows": base[1:], "none": None}
    frames["column"] = base.rename(columns={"price": "x"})
    given = exog and {name: frames[frame] for name, frame in exog.items()}
    with pytest.raises(kind) as error:
        linear.scenarios(given, H)
    assert isinstance(error.value, InvalidArgument)
    assert error.value.argument == argument


def test_a_difference_needs_two_names(linear, futures):
    scenarios = linear.scenarios(futures, H)
    for names, argument in ((("plan", "other"), "second"), (("plan", "plan"), "second")):
        with pytest.raises(ArgumentError) as error:
            scenarios.difference(*names)
        assert error.value.argument == argument


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        ({"no": 1.0}, "values"),
        ({"plan": 0.0}, "values['plan']"),
        ({"plan": pd.Series([1.0])}, "values['plan']"),
        ({"plan": "a"}, "values['plan']"),
    ],
)
def test_values_of_a_unit_are_positive_and_of_scenarios(linear, futures, values, argument):
    with pytest.raises(InvalidArgument) as error:
        linear.scenarios(futures, H).difference("plan", "base", values)
    assert error.value.argument == argument


def test_a_model_without_regressors_has_no_scenarios(data, futures):
    model = Forecaster(LinearRegressor(), lags=1).fit(data[0])
    with pytest.raises(ArgumentError) as error:
        model.scenarios(futures, H)
    assert error.value.argument == "scenarios"


def test_the_picture_has_one_legend_of_all(linear, futures, data):
    scenarios = linear.scenarios(futures, H)
    ax = scenarios.plot(data[0][-20:])
    labels = ax.get_legend_handles_labels()[1]
    assert labels.count("history") == 1
    assert [name for name in labels if name in scenarios] == list(scenarios)


@pytest.fixture(scope="module")
def both_models(data):
    y, exog = data
    members = [Forecaster(LinearRegressor(), lags=lags) for lags in (1, 3)]
    return Combination(members, weights=[3.0, 1.0]).fit(y, exog[:N])


@pytest.mark.parametrize("sizes", [(0.0, 0.0), (1.0, 1.0), (2.0, 1.0)])
def test_the_difference_of_averages_is_the_average_of_differences(both_models, futures, sizes):
    """Each normal: of means and stds; and by the quantiles of the members' paths."""
    two = {name: futures[name] for name in ("base", "plan", "late")}
    made = both_models.scenarios(two, H, uncertain(sizes))
    each = [one.scenarios(two, H, uncertain(sizes)) for one in both_models.forecasters_]
    change, parts = made["plan"] - made["base"], [one["plan"] - one["base"] for one in each]
    for name in ("mean", "std"):
        expected = 0.75 * getattr(parts[0], name) + 0.25 * getattr(parts[1], name)
        np.testing.assert_allclose(getattr(change, name), expected)
    cov = uncertain(sizes).get("plan")
    alone = both_models.forecast(H, two["plan"], cov)
    np.testing.assert_allclose(made["plan"].cov, alone.cov)
    np.testing.assert_allclose(change.mean, made["plan"].mean - made["base"].mean)
    stds = [one.aggregate("sum").std.item() for one in (*parts, change)]
    assert min(stds[:2]) < stds[2] < max(stds[:2])
    if not any(sizes):
        late = made["late"] - made["base"]
        assert (late.std[:3] == 0.0).all()
        assert (late[:3].interval(0.9) == 0.0).all(axis=None)
    back = pickle.loads(pickle.dumps(made))
    np.testing.assert_allclose((back["base"] - back["plan"]).cov, change.cov, rtol=1e-9, atol=1e-12)
    twice = made.difference("plan", "base", {"plan": 2.0, "base": 2.0})
    np.testing.assert_allclose(twice.std, 2.0 * change.std)


def test_weights_by_width_have_the_difference_of_the_means(data, futures):
    y, exog = data
    members = [Forecaster(LinearRegressor(), lags=1), Forecaster(LinearRegressor(), lags=3)]
    model = Combination(members, weights="inverse_width", widest=5.0).fit(y, exog[:N])
    made = model.scenarios(futures, H, propagation="mixture")
    alone = model.forecast(H, futures["plan"], propagation="mixture")
    np.testing.assert_allclose(made["plan"].cov, alone.cov)
    change = made["plan"] - made["base"]
    np.testing.assert_allclose(change.mean, made["plan"].mean - made["base"].mean)
    np.testing.assert_allclose(change.interval(0.9).mean(axis=1), change.mean, atol=0.02)


def test_a_member_without_scenarios_is_named(data, futures):
    y, exog = data
    both = Combination([baselines.SARIMAX(order=(1, 0, 0))]).fit(y, exog[:N])
    with pytest.raises(InvalidArgument) as error:
        both.scenarios(futures, H)
    assert error.value.argument == "forecasters"
    assert isinstance(error.value, TypeError)
