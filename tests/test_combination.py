"""The average of a few forecasters."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from forecast_unc import (
    Combination,
    Forecast,
    Forecaster,
    GPRegressor,
    baselines,
    load_model,
)
from forecast_unc.distributions.joint import Diverged
from tests.named_case import case

GP = GPRegressor(lengthscales=3.0, noise_std=0.5)
LEVELS, CHANGES = Forecaster(GP, lags=2), Forecaster(GP, lags=1, differences=1)
LOG = Forecaster(GP, lags=1, transform="log", outliers="keep")


@pytest.fixture
def y():
    rng = np.random.default_rng(3)
    values = np.zeros(90)
    for t in range(1, 90):
        values[t] = 0.7 * values[t - 1] + rng.standard_normal()
    return pd.Series(10 + values, pd.date_range("2024-01-01", periods=90, freq="D"), name="y")


def quantiles(forecast):
    return forecast.quantile([0.05, 0.3, 0.5, 0.9])


@pytest.mark.parametrize(
    ("weights", "other"), [(None, LOG), ((3, 1), CHANGES), ((3, 1), LOG), ((0.25, 0.0), LOG)]
)
def test_quantiles_are_averaged(y, weights, other):
    both = Combination([LEVELS, other], weights).fit(y)
    w = np.array([1, 1] if weights is None else weights) / np.sum(weights or 2)
    np.testing.assert_allclose(both.weights_, w, rtol=1e-14)
    ahead = both.forecast(4)
    apart = [clone(model).fit(y).forecast(4) for model in (LEVELS, other)]
    expected = sum(share * quantiles(f) for share, f in zip(w, apart, strict=True))
    pd.testing.assert_frame_equal(quantiles(ahead), expected, rtol=1e-6)
    means = np.column_stack([f.mean for f in apart])
    np.testing.assert_allclose(ahead.mean, means @ w, rtol=1e-9)
    pd.testing.assert_frame_equal(ahead.cov, Forecast.average(apart, w).cov)
    assert ahead.index.equals(apart[0].index)


def test_normal_members_give_the_average_std_and_the_correlation_of_the_average(y):
    ahead = Combination([LEVELS, CHANGES], (1, 3)).fit(y).forecast(5)
    a, b = (clone(model).fit(y).forecast(5) for model in (LEVELS, CHANGES))
    np.testing.assert_allclose(ahead.std, 0.25 * a.std + 0.75 * b.std, rtol=1e-12)
    mixed = 0.25 * a.cov.to_numpy() + 0.75 * b.cov.to_numpy()
    root = np.sqrt(np.diagonal(mixed))
    std = ahead.std.to_numpy()
    np.testing.assert_allclose(ahead.cov, mixed / np.outer(root, root) * np.outer(std, std))
    np.testing.assert_allclose(ahead.decompose().sum(axis=1), ahead.var, rtol=1e-10)


@pytest.mark.parametrize("kind", ["naive", "monte_carlo"])
def test_options_reach_every_member(y, kind):
    options = {"propagation": kind, "n_samples": 30, "random_state": 2}
    ahead = Combination([LEVELS, CHANGES]).fit(y).forecast(3, **options)
    apart = [clone(model).fit(y).forecast(3, **options) for model in (LEVELS, CHANGES)]
    pd.testing.assert_frame_equal(ahead.cov, Forecast.average(apart).cov)


def test_members_are_cloned_and_neither_data_nor_members_modified(y):
    members, before = [LEVELS, CHANGES], y.copy()
    both = Combination(members).fit(y)
    first = both.forecast(3)
    pd.testing.assert_series_equal(y, before)
    assert not hasattr(LEVELS, "choices_")
    y.iloc[:] = 0.0
    pd.testing.assert_frame_equal(both.forecast(3).cov, first.cov)


def test_update_is_that_of_the_members(y):
    both = Combination([LEVELS, CHANGES], (2, 1)).fit(y[:80])
    before, weights = both.forecast(2), both.weights_
    shared = both.apply(y[:80])
    assert both.update(y[80:]) is both
    members = [clone(model).fit(y[:80]).update(y[80:]) for model in (LEVELS, CHANGES)]
    expected = Forecast.average([m.forecast(3) for m in members], (2, 1))
    pd.testing.assert_frame_equal(both.forecast(3).cov, expected.cov)
    np.testing.assert_array_equal(both.weights_, weights)
    pd.testing.assert_frame_equal(shared.forecast(2).cov, before.cov)


def test_an_update_that_one_member_refuses_changes_none(y):
    both = Combination([LEVELS, LOG]).fit(y[:80])
    before = both.forecast(3)
    with pytest.raises(ValueError, match=r"y must be positive.* at 2024-03-21"):
        both.update(y[80:85] * 0 - 1)
    pd.testing.assert_frame_equal(both.forecast(3).cov, before.cov)
    assert both.update(y[80:81]).forecast(1).index[0] == y.index[81]


def test_apply_moves_the_origin_of_the_members(y):
    both = Combination([LEVELS, CHANGES]).fit(y[:60])
    before = both.forecast(2)
    applied = both.apply(y)
    assert applied is not both
    members = [clone(model).fit(y[:60]).apply(y) for model in (LEVELS, CHANGES)]
    expected = Forecast.average([m.forecast(2) for m in members])
    pd.testing.assert_frame_equal(applied.forecast(2).cov, expected.cov)
    pd.testing.assert_frame_equal(both.forecast(2).cov, before.cov)


def test_regressors_and_errors_go_to_every_member(y):
    exog = pd.DataFrame({"x": np.sin(np.arange(93.0))}, pd.date_range("2024-01-01", periods=93))
    std = pd.Series(0.0, y.index)
    std.iloc[-1] = 2.0
    both = Combination([LEVELS, CHANGES]).fit(y, exog[:90], std)
    cov = 0.3 * np.eye(3)
    ahead = both.forecast(3, exog[90:], cov)
    apart = [
        clone(model).fit(y, exog[:90], std).forecast(3, exog[90:], cov)
        for model in (LEVELS, CHANGES)
    ]
    pd.testing.assert_frame_equal(ahead.cov, Forecast.average(apart).cov)
    assert both.apply(y, exog[:90]).forecast(3, exog[90:]).std.iloc[0] < ahead.std.iloc[0]


def test_baselines_and_combinations_are_members_too(y):
    inner = Combination([LEVELS, CHANGES])
    both = Combination([baselines.SeasonalNaive(1), inner]).fit(y)
    apart = [clone(model).fit(y).forecast(3) for model in both.forecasters]
    pd.testing.assert_series_equal(both.forecast(3).mean, Forecast.average(apart).mean)
    assert both.update(y[:2].set_axis(y.index[-2:] + pd.Timedelta(days=2))).forecast(1).index[
        0
    ] == pd.Timestamp("2024-04-02")


def validated(models, y, cuts, steps):
    """CRPS of each model at the origins, fitted before the first of them."""
    total = np.zeros(len(models))
    for i, model in enumerate(models):
        fitted = clone(model).fit(y.iloc[: cuts[0]])
        for cut in cuts:
            ahead = fitted.apply(y.iloc[:cut]).forecast(steps)
            total[i] += ahead.score(y.iloc[cut : cut + steps])["crps"].mean()
    return total


def test_weights_of_validation_are_those_of_the_scores(y):
    both = Combination([LEVELS, CHANGES, LOG], "validation").fit(y)
    loss = validated([LEVELS, CHANGES, LOG], y, (73, 77, 81), 9)  # 9 steps, 4 apart
    np.testing.assert_allclose(both.weights_, loss**-2.0 / (loss**-2.0).sum(), rtol=1e-9)
    apart = [clone(model).fit(y).forecast(2) for model in (LEVELS, CHANGES, LOG)]
    expected = Forecast.average(apart, both.weights_)
    pd.testing.assert_frame_equal(both.forecast(2).cov, expected.cov)


def test_validation_prefers_the_better_member(y):
    walk = pd.Series(np.random.default_rng(0).standard_normal(120).cumsum())
    noise = Forecaster(GP, lags=1, transform=None)
    wild = Forecaster(GP, lags=1, differences=(1, 1))
    both = Combination([noise, wild], "validation").fit(walk)
    assert both.weights_[0] > 0.6


def test_validation_with_regressors_and_missing_values(y):
    exog = pd.DataFrame({"x": np.cos(np.arange(90.0))}, y.index)
    y.iloc[[20, 84, 88]] = np.nan
    both = Combination([LEVELS, CHANGES], "validation").fit(y, exog)
    assert both.weights_.sum() == pytest.approx(1.0)
    assert (both.weights_ > 0.05).all()


def test_validation_skips_an_origin_after_which_nothing_was_observed(y):
    gone = y.copy()
    gone.iloc[-9:] = np.nan
    both = Combination([LEVELS, CHANGES, LOG], "validation").fit(gone)
    # two origins of 9 steps count; the last sees only missing values
    loss = validated([LEVELS, CHANGES, LOG], gone, (73, 77), 9)
    np.testing.assert_allclose(both.weights_, loss**-2.0 / (loss**-2.0).sum(), rtol=1e-9)


@pytest.mark.parametrize("limit", [4.0, 1000.0])
def test_the_widest_members_are_dropped_step_by_step(y, limit):
    wide = Forecaster(GP, lags=1, differences=(1, 1))
    three = [LEVELS, CHANGES, wide]
    apart = [clone(model).fit(y).forecast(12) for model in three]
    bands = np.array([widths(f) for f in apart])
    ends = np.maximum(np.arange(1, 13), 4)  # the last four steps, before the fourth the first four
    trailing = np.array([bands[:, end - 4 : end].mean(axis=1) for end in ends]).T
    ratios = trailing / trailing.min(axis=0)
    ahead = Combination(three, (1, 2, 3), widest=limit).fit(y).forecast(12)
    for t in range(12):
        share = np.where(ratios[:, t] <= limit, [1, 2, 3], 0)
        share = share / share.sum()
        expected = sum(w * f.std.iloc[t] for w, f in zip(share, apart, strict=True))
        assert ahead.std.iloc[t] == pytest.approx(expected, rel=1e-9)
    assert (ratios.max(axis=0) > limit).any() == (limit < 1000)


class Fixed(baselines.SeasonalNaive):
    """Bands of a width that is given."""

    def __init__(self, width=1.0):
        super().__init__(1)
        self.width = width

    def forecast(self, steps, **options):
        plain = super().forecast(steps)
        return Forecast(plain.index, plain.mean, (self.width / 3.92) ** 2 * np.eye(steps))


def widths(forecast):
    band = forecast.interval(0.95)
    return (band["upper"] - band["lower"]).to_numpy()


@pytest.mark.parametrize("steps", [1, 8])
def test_inverse_width_weights_by_the_last_four_widths(y, steps):
    """Before the fourth step by the first four: a forecast of fewer steps looks ahead."""
    three = [LEVELS, LOG, Forecaster(GP, lags=1, differences=(1, 1))]
    both = Combination(three, "inverse_width").fit(y)
    np.testing.assert_allclose(both.weights_, 1 / 3)
    ahead = both.forecast(steps, propagation="exact")
    apart = [clone(model).fit(y).forecast(12, propagation="exact") for model in three]
    bands = np.array([widths(f) for f in apart])
    for t in range(steps):
        end = max(t + 1, 4)
        share = bands[:, end - 4 : end].mean(axis=1) ** -1.0
        share /= share.sum()
        expected = sum(w * quantiles(f).iloc[t] for w, f in zip(share, apart, strict=True))
        np.testing.assert_allclose(quantiles(ahead).iloc[t], expected, rtol=1e-6)


def test_a_member_whose_width_is_lost_to_roundoff_has_all_the_inverse_width(y):
    ahead = Combination([LEVELS, Fixed(1e-20)], "inverse_width").fit(y).forecast(3)
    assert not widths(ahead).any()
    assert (ahead.median == y.iloc[-1]).all()


def test_members_that_cannot_forecast_are_dropped_only_with_widest():
    rng = np.random.default_rng(0)
    y = pd.Series(1.5 ** np.arange(40.0) + rng.standard_normal(40))
    explodes, steady = Forecaster(lags=1), Forecaster(GP, lags=1, transform="log", differences=1)
    with pytest.raises(ValueError, match="steps must stay where the forecast is stable"):
        Combination([explodes, steady]).fit(y).forecast(60)
    ahead = Combination([explodes, steady], widest=2.0).fit(y).forecast(60)
    alone = clone(explodes).fit(y)
    with pytest.raises(Diverged) as error:
        alone.forecast(60)
    n = error.value.step - 1  # it counts up to there, where the other is the wider one by far
    narrow = alone.forecast(n)
    pd.testing.assert_frame_equal(ahead.cov.iloc[:n, :n], narrow.cov, check_freq=False)
    wide = clone(steady).fit(y).forecast(60)
    pd.testing.assert_frame_equal(ahead.cov.iloc[n:, n:], wide.cov.iloc[n:, n:])
    with pytest.raises(ValueError, match="steps must stay where the forecast is stable"):
        Combination([explodes, explodes], widest=2.0).fit(y).forecast(60)


def test_a_member_that_cannot_take_in_later_values_is_refused_only_with_widest(y):
    later = y[:3].set_axis(y.index[-3:] + pd.Timedelta(days=3)) * [1.0, 0.0, 1.0]
    both = Combination([LOG, LEVELS, CHANGES], widest=50.0).fit(y)
    applied = both.apply(pd.concat([y, later]))
    assert both.refused_ == {}
    both.update(later)
    for model in (both, applied):
        assert list(model.refused_) == [0]
        assert "y must be positive" in model.refused_[0]
        np.testing.assert_allclose(model.weights_, [0.5, 0.5])
        assert len(model.forecasters_) == 2
        assert model.numbers_ == [1, 2]
    apart = [clone(model).fit(y).update(later).forecast(3) for model in (LEVELS, CHANGES)]
    pd.testing.assert_frame_equal(both.forecast(3).cov, Forecast.average(apart).cov)
    both.update(later.set_axis(later.index + pd.Timedelta(days=3)))  # the member is dropped
    alone = Combination([LOG], widest=50.0).fit(y)
    with pytest.raises(ValueError, match="y must be positive"):
        alone.update(later)
    assert alone.refused_ == {}
    assert alone.forecast(1).index[0] == later.index[0]


def test_a_fit_refused_leaves_an_earlier_one(y):
    both = Combination([LEVELS, LOG]).fit(y)
    automatic = Forecaster().fit(y)
    before = [model.forecast(2).cov for model in (both, automatic)]
    with pytest.raises(ValueError, match="y must be positive") as error:
        both.fit(y - 20)
    assert error.value.__notes__[0].startswith("in member 1 of the combination, Forecaster(")
    with pytest.raises(ValueError, match="y must have"):
        automatic.fit(y[:1])
    for model, cov in zip((both, automatic), before, strict=True):
        pd.testing.assert_frame_equal(model.forecast(2).cov, cov)
    never = Forecaster()
    with pytest.raises(ValueError, match="y must have"):
        never.fit(y[:1])
    with pytest.raises(NotFittedError):
        never.forecast(1)


def test_an_update_refused_leaves_an_automatic_member_where_it_was(y):
    automatic = Forecaster().fit(y)
    shared = copy.copy(automatic)
    both = Combination([Forecaster(), LOG]).fit(y)
    below = pd.Series([-1.0], [y.index[-1] + pd.Timedelta(days=1)])
    with pytest.raises(ValueError, match="y must be positive"):
        both.update(below)
    assert both.forecast(1).index[0] == below.index[0]
    both.update(below + 11)
    shared.update(below)
    assert automatic.forecast(1).index[0] == below.index[0]
    assert shared.forecast(1).index[0] > below.index[0]


def test_members_without_weight_are_not_asked_and_carry_nothing_alone(y):
    class Silent(baselines.SeasonalNaive):
        def forecast(self, steps, **options):
            raise ValueError("must not be asked")

    ahead = Combination([LEVELS, Silent(1)], (1, 0)).fit(y).forecast(3)
    pd.testing.assert_frame_equal(ahead.cov, clone(LEVELS).fit(y).forecast(3).cov)
    wide = Forecaster(GP, lags=1, differences=(1, 1))
    ahead = Combination([LEVELS, wide], (0, 1), widest=1.5).fit(y).forecast(6)
    pd.testing.assert_frame_equal(ahead.cov, clone(wide).fit(y).forecast(6).cov)
    left = Combination([LOG, LEVELS, CHANGES], (1, 0, 0), widest=50.0).fit(y)
    with pytest.raises(ValueError, match="y must be positive"):
        left.update(pd.Series([0.0], [y.index[-1] + pd.Timedelta(days=1)]))
    assert left.refused_ == {}
    assert left.forecast(1).index[0] == y.index[-1] + pd.Timedelta(days=1)


def test_a_fitted_combination_does_not_follow_the_callers_list(y):
    members = [LEVELS, CHANGES]
    both = Combination(members).fit(y)
    before = both.forecast(2)
    members.append(LOG)
    pd.testing.assert_frame_equal(both.forecast(2).cov, before.cov)
    assert both.numbers_ == [0, 1]


def test_save_and_load(y, tmp_path):
    both = Combination([LEVELS, LOG]).fit(y)
    both.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(quantiles(loaded.forecast(4)), quantiles(both.forecast(4)))
    again = pickle.loads(pickle.dumps(both))
    pd.testing.assert_frame_equal(again.forecast(4).cov, both.forecast(4).cov)


def test_parameters_are_those_of_scikit_learn(y):
    both = Combination([LEVELS, CHANGES], (1, 2), widest=3.0)
    assert both.get_params(deep=False) == {
        "forecasters": [LEVELS, CHANGES],
        "weights": (1, 2),
        "widest": 3.0,
    }
    again = clone(both.fit(y))
    assert not hasattr(again, "forecasters_")
    assert again.forecasters[0] is not LEVELS
    assert again.forecasters[1].get_params()["differences"] == 1
    pd.testing.assert_frame_equal(again.fit(y).forecast(2).cov, both.forecast(2).cov)


BAD = [
    ([], {}, ValueError, r"forecasters must be a sequence of at least one .*; got \[\]\. Pass"),
    ("naive", {}, ValueError, "forecasters must be a sequence .*; got 'naive'"),
    (LEVELS, {}, ValueError, "forecasters must be a sequence of at least one forecaster; got"),
    (
        ["naive"],
        {},
        TypeError,
        "forecasters must hold models with fit and forecast; got 'naive'",
    ),
    ([Forecaster], {}, TypeError, r"forecasters must hold models .*Pass Forecaster\(\.\.\.\)"),
    (
        [LEVELS],
        {"weights": "best"},
        ValueError,
        "numbers, 'inverse_width', 'validation' or None",
    ),
    ([LEVELS], {"weights": [1, 2]}, ValueError, r"weights must be 1 numbers.*got \[1, 2\]"),
    ([LEVELS], {"weights": [0.0]}, ValueError, "none negative and not all 0; got"),
    (
        [LEVELS] * 2,
        {"weights": [1, -1]},
        ValueError,
        "weights must be 2 numbers, none negative",
    ),
    ([LEVELS] * 2, {"weights": [1, np.nan]}, ValueError, "weights must be 2 numbers"),
    ([LEVELS], {"widest": 1.0}, ValueError, r"widest must be greater than 1; got 1\.0\. Use"),
    ([LEVELS] * 2, {"weights": ["1", "2"]}, ValueError, "weights must be 2 numbers"),
    ([LEVELS], {"weights": {"a": 1}}, ValueError, r"weights must be 1 numbers.*got \{'a': 1\}"),
    ([LEVELS], {"widest": "2"}, ValueError, "widest must be greater than 1; got '2'"),
    ([LEVELS], {"widest": np.nan}, ValueError, "widest must be greater than 1; got nan"),
]


def test_bad_parameters(y):
    for forecasters, options, error, message in BAD:
        with case(forecasters, options), pytest.raises(error, match=message):
            Combination(forecasters, **options).fit(y)


def test_a_member_that_cannot_be_fitted_is_an_error(y):
    with pytest.raises(ValueError, match="y must be positive"):
        Combination([LEVELS, LOG]).fit(y - 20)
    with pytest.raises(TypeError, match="y must be a pandas Series; got ndarray"):
        Combination([LEVELS]).fit(y.to_numpy())


def test_not_fitted(y, tmp_path):
    for use in (
        lambda model: model.forecast(1),
        lambda model: model.update(y),
        lambda model: model.apply(y),
        lambda model: model.save(tmp_path / "m"),
    ):
        with pytest.raises(NotFittedError):
            use(Combination([LEVELS]))
