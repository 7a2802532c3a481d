"""The automatic forecaster: what it chooses, says, takes and refuses."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge

from forecast_unc import (
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    load_model,
)
from forecast_unc._text import figure
from forecast_unc.distributions.forecast import forecast_of
from forecast_unc.forecasting.choose import choice
from forecast_unc.forecasting.choose.specification import Averaging, SmoothingSpecification
from forecast_unc.forecasting.models.smoothing import SmoothingModel
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.forecasting.pool.past_scores import weights_by_scores
from forecast_unc.forecasting.pool.weights import average, own_changes
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.series.history import History
from forecast_unc.series.times import ClosedDaysWarning
from tests.members import ahead_of, in_turn, on_lags, predicted, smoothing


def series(n, freq="D", seed=0, start="2020-01-01"):
    """A positive autoregression; daily, with a week too weak to be told from none."""
    rng = np.random.default_rng(seed)
    values = np.zeros(n)
    for t in range(1, n):
        values[t] = 0.8 * values[t - 1] + rng.standard_normal()
    index = pd.RangeIndex(n) if freq is None else pd.date_range(start, periods=n, freq=freq)
    return pd.Series(20 + values, index, name="y")


def monthly(n=72, seed=0):
    t = np.arange(n)
    rng = np.random.default_rng(seed)
    values = np.exp(2 + 0.01 * t + 0.3 * np.sin(2 * np.pi * t / 12))
    values *= np.exp(0.05 * rng.standard_normal(n))
    return pd.Series(values, pd.date_range("2015-01-01", periods=n, freq="MS"), name="sales")


@pytest.fixture(scope="module")
def fitted():
    return Forecaster().fit(monthly())


def same(a, b, **tolerance):
    pd.testing.assert_series_equal(a.mean, b.mean, **tolerance)
    pd.testing.assert_frame_equal(a.cov, b.cov, **tolerance)


# What is chosen


def parts(models, what):
    return [getattr(member.specification, what) for member in models]


def by_hand(specification, y, later=None):
    """A member, of a forecaster to which everything that was chosen is given, or by itself."""
    if isinstance(specification, SmoothingSpecification):
        one = SmoothingModel.fit(specification, TrainingSeries(History.checked(y)))
        return one if later is None else one.extend(History.checked(pd.concat([y, later])))
    names = ("lags", "differences", "transform", "prior_mean", "calendar", "max_train")
    given = {name: getattr(specification, name) for name in names}
    model = Forecaster(
        specification.regressor, **given, seasonal_period=specification.periods or None
    ).fit(y)
    return (model if later is None else model.update(later)).models_[0]


def test_it_averages_a_few_specifications(fitted):
    assert fitted.seasonal_period_ == (12,)
    assert fitted.refused_ == ()
    votes = np.array([1.0] * 6 + [2.0] * 2)
    np.testing.assert_allclose(fitted.ensemble_.votes, votes / votes.sum(), rtol=1e-12)
    models = on_lags(fitted)
    assert parts(models, "lags") == [(1,), *[tuple(range(1, 14))] * 5]
    assert parts(models, "differences") == [(1,), (), (), (), (12,), (12,)]
    assert parts(models, "periods") == [(12,)] * 6
    assert parts(models, "transform") == [None, "log"] * 3
    assert parts(models, "prior_mean") == ["zero"] * 6
    assert parts(models, "calendar") == [("fourier",)] * 2 + [("profile",)] * 4
    assert parts(models, "max_train") == [400] * 2 + [600] * 4
    assert [type(m.regressor) for m in models] == [GPRegressor] * 2 + [LinearRegressor] * 4
    assert [m.n_rows for m in models] == [70, 59, 59, 59, 47, 47]
    assert [m.differencing.differences for m in models] == parts(models, "differences")
    assert [m.transform.power for m in models] == [None, 0.0] * 3
    assert [m.regressor.bias for m in models] == ["shrunk"] + ["free"] * 5
    assert models[2].regressor.groups == (0,) * 13 + (1,) * 12  # lags, and the profile
    smooth = smoothing(fitted)
    assert fitted.models_ == (*models, *smooth)
    assert parts(smooth, "period") == [12, 12]
    assert parts(smooth, "transform") == [None, "log"]
    assert parts(smooth, "max_train") == [800, 800]
    assert [m.n_rows for m in smooth] == [72, 72]
    assert [m.transform.power for m in smooth] == [None, 0.0]


@pytest.mark.parametrize(
    ("y", "smoothed"),
    [(monthly(), 2), (series(40), 4)],
    ids=["months", "days"],
)
def test_the_members_can_be_fitted_by_hand(y, smoothed):
    """Each on its own, averaged over the season that is looked ahead for.

    Smoothing has the week of days, too, though the test does not find it.
    """
    model = Forecaster(calibrate=False).fit(y)
    asks = [partial(predicted, by_hand(m.specification, y)) for m in model.models_]
    assert (len(on_lags(model)) > 1, len(smoothing(model))) == (True, smoothed)
    look_ahead = {72: 18, 40: 4}[len(y)]
    rule = Averaging(False, 6.0, look_ahead, disagreement=True)
    changes = own_changes(y.to_numpy(), max(6, look_ahead))
    ensemble, votes = model.ensemble_, model.ensemble_.votes
    index = ensemble.history.future(max(6, look_ahead)).index
    noise = [one.noise_ahead(index) for one in ensemble.models]
    factors = partial(weights_by_scores, ensemble.rolling, noise)
    expected = average(rule, asks, votes, 6, change_widths=changes, score_factors=factors)
    ahead = model.forecast(6)
    same(ahead, forecast_of(ahead.index, expected.prediction))


def test_a_series_without_origins_inside_has_the_usual_calibration():
    lines = Forecaster().fit(series(6, "YS")).choices_
    assert "bands: calibrated as usual for series as short as this" in lines


def test_choices_are_sentences():
    """The only test of their words: the others are of what they are made of."""
    y = monthly()
    model = Forecaster(seasonal_period=12, outliers="keep").fit(y)
    model.update(pd.Series([0.0], y.index[-1:] + pd.DateOffset(months=1), name="sales"))
    zero = "y must be positive for a log transform; got 0 at 2021-01-01"
    season, bands, *averaged, no_levels, no_linear, no_changes, no_smoothing = model.choices_
    assert season == "season of 12 steps: as given"
    assert bands == "bands: calibrated on errors of forecasts from up to 28 earlier origins"
    shares = [share.weight.iloc[0] for share in model.forecast(1).members]
    assert [line.split(": ", 1)[0] for line in averaged] == [
        f"model {number}, weight {100 * share:.0f} %"
        for number, share in enumerate(shares, start=1)
    ]
    assert [line.split(": ", 1)[1] for line in averaged] == [
        "a random walk with a drift, and the season "
        "(Gaussian process of changes of the series, lag 1, smooth seasonal waves, 71 rows)",
        "levels that return to their mean "
        "(linear autoregression of the series, lags 1-13, "
        "an effect for each of the 12 steps of the season, 60 rows)",
        "the last season again, with the change since the one before "
        "(linear autoregression of changes of the series over 12 steps, lags 1-13, "
        "an effect for each of the 12 steps of the season, 48 rows)",
        "level, trend and season, recent values counting most "
        "(exponential smoothing of the series, season of 12 steps, 73 values)",
    ]
    levels = "Gaussian process of the logarithm, lags 1-13, smooth seasonal waves"
    assert no_levels.startswith(f"refused: {levels}; {zero}")
    of_changes = "changes of the logarithm over 12 steps"
    for line, what in ((no_linear, "the logarithm"), (no_changes, of_changes)):
        effects = "an effect for each of the 12 steps of the season"
        linear = f"linear autoregression of {what}, lags 1-13, {effects}"
        assert line.startswith(f"refused: {linear}; {zero}")
    smooth = "exponential smoothing of the logarithm, season of 12 steps"
    assert no_smoothing.startswith(f"refused: {smooth}; {zero}")
    one = Forecaster(lags=(1, 2, 5), transform="boxcox", max_train=60).fit(y)
    assert one.choices_ == [
        "season of 12 steps: significant at 5 %",
        "model: as given (Gaussian process of the Box-Cox transform of power "
        f"{one.models_[0].transform.power:.3g}, lags 1-2, 5, last 60 rows)",
    ]


def test_a_season_is_not_tested_in_less_than_two_cycles():
    y = series(26, "MS")
    model = Forecaster().fit(y[:20])
    season, _, *models = model.choices_
    assert season == "no season: one of 12 steps, as the index suggests, needed more values"
    assert model.update(y[20:]).choices_[0] == season
    smoothed = [line for line in models if "exponential smoothing" in line]
    assert all(": level and trend, recent values counting most (" in line for line in smoothed)
    assert smoothed


def test_models_are_numbered_as_the_members_of_a_forecast():
    """Four values near 0 make those of the logarithm hopeless; the others keep their numbers."""
    t, rng = np.arange(120), np.random.default_rng(0)
    values = 100 + 15 * np.sin(2 * np.pi * t / 12) + rng.normal(0, 2, 120)
    values[90:94] = 1e-6
    y = pd.Series(values, pd.date_range("2000", periods=120, freq="MS"))
    model = Forecaster(outliers="keep").fit(y)
    named = [line for line in model.choices_ if line.startswith("model ")]
    ahead = model.forecast(1)
    assert len(ahead.members) < len(named) == len(model.models_)
    assert max(one.number for one in ahead.members) > len(ahead.members)
    for one in ahead.members:
        assert named[one.number - 1].startswith(f"model {one.number}, weight ")
        assert one.model in named[one.number - 1]
        assert f"member {one.number}" in ahead.explain().index
    out = ", left out of the next step: it diverges, is far too wide, or was far worse: "
    assert sum(out in line for line in named) == len(named) - len(ahead.members)
    check = ahead.check(n_samples=256)
    assert check.numbers == tuple(one.number for one in ahead.members)
    assert f"member {check.numbers[-1]}: use" in repr(check)


def test_choices_are_made_of_what_was_chosen(fitted):
    assert len(fitted.choices_) == 10
    for line, model in zip(fitted.choices_[2:], fitted.models_, strict=True):
        assert f": {model.why} ({model})" in line


def test_the_steps_of_a_profile_are_those_of_the_longest_season(rng):
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    y = pd.Series(rng.normal(size=60), days)
    for periods, said in (
        ((7, 14), "an effect for each of the 14 steps of the season"),
        (None, "smooth seasonal waves"),
    ):
        model = Forecaster(lags=2, calendar="profile", seasonal_period=periods).fit(y)
        assert f"lags 1-2, {said}, 58 rows)" in model.choices_[-1]


def test_summary_lists_choices_and_what_was_learned(fitted):
    first, *lines = fitted.summary().splitlines()
    assert first == "sales: 72 values, from 2015-01-01 to 2020-12-01, frequency MS"
    assert lines[:2] + lines[2::2] == fitted.choices_
    assert len(lines) == 18
    model = fitted.models_[3]
    noise = model.regressor.noise_std_ * model.unit
    assert lines[9].startswith(f"    noise: standard deviation {figure(noise)} (units of y")
    evidence = r"log evidence -?[\d.,]+ \(nats, of its own rows\)"
    assert re.search(rf"; {evidence}; iterations of the search: \d+$", lines[9])
    smooth = fitted.models_[7].smoothing
    noise = np.sqrt(smooth.weights @ smooth.variance)  # of a mixture of equal means
    noise *= fitted.models_[7].unit
    assert lines[-1].startswith(f"    noise: standard deviation {figure(noise)} (units of y")
    assert lines[-1].endswith(
        f"; hyper-parameters averaged over {len(smooth.weights)} sets of values"
    )
    y = monthly().rename(None)
    y.iloc[3] = np.nan
    one = Forecaster(lags=(1, 2, 5), differences=1).fit(y, pd.DataFrame({"x": 0.0}, y.index))
    lines = one.summary().splitlines()
    assert lines[0].endswith("frequency MS, 1 missing, 1 regressor")
    assert lines[1:3] == one.choices_
    assert lines[3].startswith("    noise: standard deviation ")
    assert "BayesianRidge()" in Forecaster(BayesianRidge(), lags=2).fit(monthly()).summary()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2450.6, "2,451"),
        (-154_512.3, "-154,500"),
        (999.96, "1,000"),
        (12.3456, "12.35"),
        (0.000123456, "0.0001235"),
        (1.5e-9, "1.5e-09"),
        (3e15, "3e+15"),
    ],
)
def test_figures_are_written_as_people_write_them(value, written):
    assert figure(value) == written


def test_noises_are_in_units_of_the_series():
    """Relative noise of .1 about a level of 200; that of a logarithm is .1 itself."""
    rng = np.random.default_rng(0)
    y = pd.Series(200 * np.exp(0.1 * rng.standard_normal(200)))
    model = Forecaster().fit(y)
    assert {one.specification.transform for one in model.models_} == {None, "log"}
    stds = re.findall(r"noise: standard deviation (\S*) \(units of y", model.summary())
    assert len(stds) == len(model.models_)
    np.testing.assert_allclose([float(std) for std in stds], 20.0, rtol=0.25)
    ten = Forecaster(lags=2, transform="log").fit(10 * y).models_[0]
    one = Forecaster(lags=2, transform="log").fit(y).models_[0]
    assert ten.unit == pytest.approx(10 * one.unit, rel=1e-6)


def test_lags_of_ones_own_keep_the_plain_choice():
    y = monthly()
    model = Forecaster(lags=3).fit(y)
    (specification,) = (member.specification for member in model.models_)
    assert specification.lags == (1, 2, 3)
    assert specification.differences == ()
    assert specification.transform is None
    assert specification.prior_mean == "zero"
    assert specification.calendar == ()
    assert specification.max_train is None
    assert specification.periods == model.seasonal_period_ == (12,)
    assert model.models_[0].n_rows == 69
    np.testing.assert_array_equal(model.weights_, [1.0])


@pytest.mark.parametrize("transform", [None, "log"])
def test_a_given_transform_is_every_members(transform):
    model = Forecaster(transform=transform).fit(monthly())
    assert parts(model.models_, "transform") == [transform] * len(model.models_)
    assert len(smoothing(model)) == 1
    described = [
        m.specification.described() + repr(getattr(m, "regressor", None)) for m in model.models_
    ]
    assert len(set(described)) == len(described)  # none of them twice
    ahead = model.forecast(12)
    if transform is not None:
        assert (ahead.quantile(1e-9) >= 0).all()


@pytest.mark.parametrize(("prior_mean", "lag"), [("last", 1), ("seasonal", 12)])
def test_a_given_prior_mean_is_every_members(prior_mean, lag):
    model = Forecaster(prior_mean=prior_mean).fit(monthly())
    assert set(parts(model.models_, "prior_mean")) == {prior_mean}
    specifications = [m.specification for m in model.models_]
    assert all(one.lags[one.anchor] == lag for one in specifications)
    assert np.isfinite(model.forecast(3).std).all()


@pytest.mark.parametrize("differences", [0, (1, 12)])
def test_given_differences_are_every_members(differences):
    y = monthly()
    model = Forecaster(differences=differences).fit(y)
    expected = differences if isinstance(differences, tuple) else (differences,) * bool(differences)
    assert set(parts(model.models_, "differences")) == {expected}
    assert {m.differencing.differences for m in model.models_} == {expected}
    assert np.isfinite(model.forecast(3).std).all()


def test_a_given_season_takes_the_place_of_the_calendars(fitted):
    y = monthly()
    given = Forecaster(seasonal_period=12).fit(y)
    assert given.seasonal_period_ == (12,)
    same(given.forecast(3), fitted.forecast(3))
    none = Forecaster(seasonal_period=None).fit(y)
    assert none.seasonal_period_ == ()
    assert set(parts(on_lags(none), "calendar")) == {()}
    assert set(parts(smoothing(none), "period")) == {1}
    assert Forecaster(lags=6, seasonal_period=(6, 3)).fit(y).seasonal_period_ == (3, 6)
    numbers = Forecaster(seasonal_period=12).fit(y.reset_index(drop=True))
    assert numbers.seasonal_period_ == (12,)
    # whole numbers start at another phase of the season, which the fit does not see
    ahead = numbers.forecast(3)
    np.testing.assert_allclose(ahead.mean, given.forecast(3).mean, rtol=1e-2)


def test_parts_of_the_date_and_holidays_are_inputs():
    y = series(90)
    holidays = pd.DatetimeIndex(["2020-01-20", "2020-02-17", "2020-03-31"])
    y[y.index.isin(holidays)] += 15.0
    calendar = ["day_of_week", holidays]
    model = Forecaster(calendar=calendar).fit(y)
    for member in model.models_:
        given = member.specification.calendar
        assert given[0] == "day_of_week"
        assert given[1] is holidays
        assert member.regressor.n_features_in_ == len(member.specification.lags) + 7 + 1
    ahead = model.forecast(3).mean
    assert ahead.iloc[0] > ahead.iloc[1:].max() + 4
    names = Forecaster(lags=2, calendar="month").fit(y)
    assert names.models_[0].regressor.n_features_in_ == 2 + 12
    with pytest.raises(ValueError, match="None, 'fourier' or 'profile' for a RangeIndex"):
        Forecaster(lags=1, calendar="month").fit(y.reset_index(drop=True))


def test_calendar_and_regressors_of_the_future_stand_together():
    y = series(60)
    exog = pd.DataFrame(
        {"x": np.sin(np.arange(63.0))}, pd.date_range("2020-01-01", periods=63, freq="D")
    )
    model = Forecaster(lags=2, calendar="day_of_week").fit(y, exog[:60])
    known = model.forecast(3, exog[60:])
    uncertain = model.forecast(3, exog[60:], 0.5 * np.eye(3))
    assert (uncertain.var > known.var).all()
    same(model.forecast(3, exog[60:], np.zeros((3, 3))), known, rtol=1e-9)
    auto = Forecaster(calendar="day_of_week").fit(y, exog[:60])
    assert (
        auto.forecast(3, exog[60:], 0.5 * np.eye(3)).var >= auto.forecast(3, exog[60:]).var
    ).all()
    with pytest.raises(ValueError, match="exog must be given for the 3 steps after the origin"):
        auto.forecast(3)


def test_max_train_is_every_members():
    model = Forecaster(max_train=30).fit(monthly(120))
    assert set(parts(model.models_, "max_train")) == {30}
    assert {m.n_rows for m in model.models_} == {30}
    assert (len(on_lags(model)), len(smoothing(model))) == (6, 2)


def long_series(n, seed=0):
    """Noise around a season of 7 and a slow one of 800 steps."""
    t, rng = np.arange(n), np.random.default_rng(seed)
    y = 10 + np.sin(2 * np.pi * t / 7) + 2 * np.sin(2 * np.pi * t / 800)
    return pd.Series(y + 0.3 * rng.standard_normal(n))


@pytest.mark.slow
def test_max_train_above_the_most_exact_is_that_of_linear_models_alone(monkeypatch):
    monkeypatch.setattr(choice, "_MOST_EXACT", 610)
    model = Forecaster(seasonal_period=7, max_train=620, calibrate=False).fit(long_series(640))
    assert [m.n_rows for m in model.models_] == [400] * 2 + [620] * 4 + [620] * 2
    linear = [isinstance(m.regressor, LinearRegressor) for m in on_lags(model)]
    assert linear == [False] * 2 + [True] * 4


def test_rows_count_not_values(monkeypatch):
    monkeypatch.setattr(choice, "_MOST_EXACT", 60)
    y = long_series(69)
    assert "reduced rank" not in Forecaster(lags=10).fit(y).choices_[-1]  # of 59 rows
    assert "reduced rank" in Forecaster(lags=8).fit(y).choices_[-1]
    y.iloc[30] = np.nan
    assert "reduced rank" not in Forecaster(lags=8).fit(y).choices_[-1]


@pytest.mark.parametrize(
    ("options", "n_rows"), [({}, 76), ({"max_train": 70}, 70), ({"max_train": 60}, 60)]
)
def test_lags_of_ones_own_have_a_reduced_rank_above_so_many_rows(monkeypatch, options, n_rows):
    assert choice._MOST_EXACT == 2000
    monkeypatch.setattr(choice, "_MOST_EXACT", 60)
    y = long_series(80)
    model = Forecaster(lags=4, **options).fit(y)
    fitted = model.models_[0]
    assert fitted.n_rows == n_rows
    reduced = isinstance(fitted.regressor, ReducedRankGPRegressor)
    assert reduced == (n_rows > 60)
    why = "as given; reduced rank for more than 60 rows" if reduced else "as given"
    assert model.choices_[-1] == f"model: {why} ({fitted})"
    exact = Forecaster(GPRegressor(lengthscales=3.0, noise_std=0.5), lags=4).fit(y)
    assert isinstance(exact.models_[0].regressor, GPRegressor)


@pytest.mark.parametrize("fitted", [106, pytest.param(112, marks=pytest.mark.slow)])
def test_bands_of_two_years_of_weeks_are_as_wide_as_the_noise(fitted):
    """One row an effect of the season left none for the noise: bands of 2 beside errors of 40."""
    index = pd.date_range("2020-01-06", periods=112, freq="W-MON")
    noise = np.random.default_rng(0).normal(0, 40, 112)
    y = pd.Series(300 + 100 * np.cos(2 * np.pi * np.arange(112) / 52) + noise, index)
    model = Forecaster().fit(y[:fitted])
    if fitted < 112:
        model.update(y[fitted:])
    assert model.forecast(8).std.min() > 30


def test_a_given_reduced_rank_learns_from_all_rows():
    y = long_series(420)  # more than the window of the default
    model = Forecaster(ReducedRankGPRegressor(n_support=10), calibrate=False).fit(y)
    assert {m.n_rows for m in model.models_} == {418, 408}
    assert all(len(m.regressor.support_) == 10 for m in model.models_)


@pytest.mark.parametrize(
    "options", [{"noise": "both", "calibrate": False}, {"regressor": BayesianRidge()}]
)
def test_there_are_no_linear_models_with_two_noises_or_another_regressor(options):
    model = Forecaster(seasonal_period=7, max_train=60, **options).fit(long_series(100))
    assert parts(model.models_, "calendar") == [("fourier",)] * 2
    assert not any(isinstance(m.regressor, LinearRegressor) for m in model.models_)
    assert {m.n_rows for m in model.models_} == {60}


@pytest.mark.parametrize(
    "regressor",
    [pytest.param(RVMRegressor(), marks=pytest.mark.slow), BayesianRidge()],
    ids=["rvm", "ridge"],
)
def test_a_given_regressor_is_every_members(regressor):
    model = Forecaster(regressor, calibrate=False).fit(monthly(48))
    assert len(model.models_) == 2
    kind = "naive" if isinstance(regressor, BayesianRidge) else "exact"
    ahead = model.forecast(4, propagation=kind)
    assert (ahead.std > 0).all()
    member = model.models_[1]
    assert repr(regressor) in repr(member.regressor)  # one of scikit-learn's is wrapped
    assert not hasattr(regressor, "n_features_in_")


def test_a_regressor_of_scikit_learn_has_no_prior_mean():
    with pytest.raises(ValueError, match="prior_mean must be 'zero' for a regressor of scikit-lea"):
        Forecaster(BayesianRidge(), lags=2, prior_mean="last").fit(monthly())
    rng = np.random.default_rng(0)
    quarters = pd.date_range("2004-01-01", periods=60, freq="QS")
    values = np.sin(np.pi * np.arange(60) / 2) + 0.1 * rng.standard_normal(60)
    model = Forecaster(BayesianRidge()).fit(pd.Series(values, quarters))
    assert model.seasonal_period_ == (4,)
    (refused,) = model.refused_
    assert refused.specification.prior_mean == "seasonal"
    assert refused.reason.startswith("prior_mean must be 'zero' for a regressor of scikit-learn")
    assert parts(model.models_, "prior_mean") == ["zero"]


# The prior mean of one specification


def test_the_last_value_as_prior_mean_is_the_regression_of_the_change():
    """With the hyper-parameters fixed: y - x_1 is learned, and x_1 added to the mean."""
    y = series(60)
    gp = GPRegressor(lengthscales=2.0, noise_std=0.5)
    model = Forecaster(gp, lags=(2, 1), prior_mean="last").fit(y)
    z = ((y - y.mean()) / y.std(ddof=0)).to_numpy()
    X = np.column_stack([z[:-2], z[1:-1]])
    by_hand = clone(gp).fit(X, z[2:] - z[1:-1])
    mean, std = by_hand.predict([[z[-2], z[-1]]], return_std=True)
    ahead = model.forecast(1, propagation="exact")
    assert ahead.mean.item() == pytest.approx(y.mean() + y.std(ddof=0) * (mean[0] + z[-1]))
    assert ahead.std.item() == pytest.approx(y.std(ddof=0) * std[0], rel=1e-9)


def test_updates_keep_the_prior_mean():
    y = series(60)
    gp = GPRegressor(lengthscales=2.0, noise_std=0.5)
    model = Forecaster(gp, lags=(2, 1), prior_mean="last").fit(y[:50])
    z = (y.to_numpy() - y[:50].mean()) / y[:50].std(ddof=0)
    X, change = np.column_stack([z[:-2], z[1:-1]]), z[2:] - z[1:-1]
    by_hand = clone(gp).fit(X[:48], change[:48]).condition(X, change)
    expected = y[:50].mean() + y[:50].std(ddof=0) * (by_hand.predict([[z[-2], z[-1]]])[0] + z[-1])
    moved = model.apply(y).forecast(1, propagation="exact").mean.item()
    updated = model.update(y[50:]).forecast(1, propagation="exact").mean.item()
    assert updated == pytest.approx(expected, rel=1e-9)
    assert abs(moved - updated) > 1e-6


def test_the_season_ago_is_far_from_the_data_what_comes():
    y = monthly()
    silent = GPRegressor(lengthscales=1.0, noise_std=100.0)  # learns nothing
    model = Forecaster(silent, lags=[1, 12], prior_mean="seasonal").fit(y)
    ahead = model.forecast(12, propagation="naive")
    centered = y.iloc[-12:].to_numpy()
    drift = (y.iloc[12:].to_numpy() - y.iloc[:-12].to_numpy()).mean()
    np.testing.assert_allclose(ahead.mean, centered + drift, rtol=2e-2)


def test_bad_prior_means():
    y = monthly()
    with pytest.raises(ValueError, match="lags must hold 1 for prior_mean='last'; got .2,.. Add"):
        Forecaster(lags=(2,), prior_mean="last").fit(y)
    with pytest.raises(ValueError, match="lags must hold 12 for prior_mean='seasonal'; got 3. Add"):
        Forecaster(lags=3, prior_mean="seasonal").fit(y)
    with pytest.raises(
        ValueError, match="prior_mean must not be 'seasonal' for a series without a"
    ):
        Forecaster(lags=3, prior_mean="seasonal", seasonal_period=None).fit(y)
    with pytest.raises(
        ValueError, match="prior_mean must not be 'seasonal' for a series without a"
    ):
        Forecaster(prior_mean="seasonal").fit(series(40, None))


# Invariances


@pytest.mark.parametrize(
    ("y", "a", "b"),
    [(series(40), 5.0, 100.0), (monthly(), -1000.0, 1e-3)],
    ids=["days", "months"],
)
def test_offset_and_scale_of_levels(y, a, b):
    model = Forecaster(transform=None)
    ahead = model.fit(y).forecast(4)
    other = model.fit(a + b * y).forecast(4)
    # a drift is worth its parameter whatever the level: it is that of changes
    np.testing.assert_allclose((other.mean - a) / b, ahead.mean, rtol=1e-4)
    np.testing.assert_allclose(other.std / b, ahead.std, rtol=1e-3)


@pytest.mark.parametrize("transform", ["auto", pytest.param("boxcox", marks=pytest.mark.slow)])
def test_scale_of_positive_values(transform):
    y = monthly()
    model = Forecaster(transform=transform)
    ahead = model.fit(y).forecast(4)
    other = model.fit(1000.0 * y).forecast(4)
    if transform == "boxcox":  # its power is one of the data's units
        assert all(0 <= m.transform.power <= 1 for m in model.models_)
    tolerance = 2e-2 if transform == "boxcox" else 1e-3
    np.testing.assert_allclose(other.mean / 1000.0, ahead.mean, rtol=tolerance)
    np.testing.assert_allclose(
        other.quantile([0.1, 0.9]) / 1000.0, ahead.quantile([0.1, 0.9]), rtol=tolerance
    )


def test_shift_of_the_index_by_whole_periods(fitted):
    y = monthly()
    ahead = fitted.forecast(5)
    later = Forecaster().fit(y.set_axis(y.index + pd.DateOffset(years=24))).forecast(5)
    np.testing.assert_allclose(later.mean, ahead.mean, rtol=1e-4)
    np.testing.assert_allclose(later.cov, ahead.cov, rtol=1e-3)
    assert list(later.index) == list(ahead.index + pd.DateOffset(years=24))


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-03-28", periods=70, freq="h", tz="Europe/Paris"),
        pd.period_range("2020-01", periods=70, freq="Q"),
        pd.Index(np.arange(70) * 5),
    ],
    ids=lambda index: f"{type(index).__name__} {getattr(index, 'freqstr', '')}",
)
def test_every_kind_of_index(index):
    y = series(70).set_axis(index)
    model = Forecaster().fit(y.iloc[:-4])
    ahead = model.forecast(4)
    assert list(ahead.index) == list(index[-4:])
    assert (ahead.std > 0).all()
    once = model.apply(y).forecast(2)
    twice = model.update(y.iloc[-4:]).forecast(2)
    assert list(once.index) == list(twice.index)
    np.testing.assert_allclose(once.mean, twice.mean, atol=2 * ahead.std.iloc[0])


# Data that are not as they should be


@pytest.mark.parametrize(("n", "freq"), in_turn([5, 6, 8, 12, 20], ["D", "MS", None]), ids=str)
def test_very_short_series(n, freq):
    y = series(n, freq)
    ahead = Forecaster().fit(y).forecast(3)
    assert np.isfinite(ahead.mean).all()
    assert (ahead.std > 0).all()
    assert (ahead.mean - y.iloc[-1]).abs().max() < 5 * np.ptp(y)
    assert ahead.std.iloc[-1] < 20 * np.ptp(y)


def test_changes_without_variation():
    line = Forecaster().fit(pd.Series(np.arange(1.0, 71.0)))  # its changes do not vary
    (refused,) = line.refused_
    assert refused.specification.lags == (1,)
    assert refused.reason.startswith("differences must leave some variation")
    counter = pd.Series(np.arange(50.0) * 10)  # a zero, and too few values for more kinds
    ahead = Forecaster().fit(counter).forecast(3)
    np.testing.assert_allclose(ahead.mean, [500, 510, 520], atol=5)


@pytest.mark.parametrize("low", [0.0, pytest.param(-3.0, marks=pytest.mark.slow)])
def test_zeros_and_negative_values_have_no_logarithm(low):
    y = series(90)
    y.iloc[30] = low
    model = Forecaster(outliers="keep").fit(y)
    assert set(parts(model.models_, "transform")) == {None}
    assert model.refused_ == ()
    with pytest.raises(ValueError, match="y must be positive.*at 2020-01-31"):
        Forecaster(transform="log", outliers="keep").fit(y)
    positive = Forecaster(outliers="keep").fit(series(90))
    positive.update(pd.Series([low], pd.date_range("2020-03-31", periods=1)))
    assert {m.transform.power for m in positive.models_} == {None}
    assert positive.forecast(1).index[0] == pd.Timestamp("2020-04-01")


def test_missing_values(fitted):
    y = monthly()
    y.iloc[[5, 30, 31, 70]] = np.nan
    before = y.copy()
    model = Forecaster().fit(y)
    pd.testing.assert_series_equal(y, before)
    assert model.seasonal_period_ == (12,)
    known = fitted.forecast(3)
    ahead = model.forecast(3)
    np.testing.assert_allclose(ahead.mean, known.mean, rtol=0.15)
    y.iloc[-2:] = np.nan
    assert model.apply(y).forecast(3).std.iloc[0] > ahead.std.iloc[0]
    every_other = series(100).where(np.arange(100) % 2 == 0)
    assert all(isinstance(one, SmoothingModel) for one in Forecaster().fit(every_other).models_)
    with pytest.raises(ValueError, match="y must leave at least 3 complete training rows"):
        Forecaster(differences=1).fit(every_other)  # nor is there exponential smoothing


def test_errors_of_measurement_pass_the_logarithm(fitted):
    y = monthly()
    std = pd.Series(0.0, y.index)
    std.iloc[-1] = 0.02 * y.iloc[-1]
    gp = GPRegressor(lengthscales=3.0)
    model = Forecaster(gp, lags=1, transform="log").fit(y)
    on_log = Forecaster(gp, lags=1).fit(np.log(y))
    levels = pd.Series(0.0, y.index)
    levels.iloc[-1] = np.log(1.02)
    a = model.apply(y, y_std=std).forecast(3).quantile([0.1, 0.5, 0.8])
    b = on_log.apply(np.log(y), y_std=levels).forecast(3).quantile([0.1, 0.5, 0.8])
    np.testing.assert_allclose(a, np.exp(b), rtol=1e-9)
    auto = Forecaster().fit(y, y_std=10 * std)
    assert auto.forecast(1).std.item() > 1.02 * fitted.forecast(1).std.item()


# What follows a fit


def test_update_is_that_of_the_members():
    y = monthly()
    model = Forecaster().fit(y[:66])
    shared = model.apply(y[:66])
    before = model.forecast(3)
    members = [by_hand(m.specification, y[:66], y[66:]) for m in model.models_]
    assert model.update(y[66:]) is model
    for got, expected in zip(model.models_, members, strict=True):
        assert got.n_rows == expected.n_rows
        same(ahead_of(got, 4), ahead_of(expected, 4))
    same(shared.forecast(3), before)


def test_a_later_zero_costs_the_logarithms():
    y = monthly()
    fitted = Forecaster(outliers="keep").fit(y)
    later = pd.Series([0.0], [y.index[-1] + pd.DateOffset(months=1)], name="sales")
    model = fitted.apply(y)
    chosen = [m.specification for m in model.models_]
    applied = model.apply(pd.concat([y, later]).asfreq("MS"))
    assert model.refused_ == ()
    model.update(later)
    for lean in (model, applied):
        assert [m.specification for m in lean.models_] == chosen[::2]
        assert [one.specification for one in lean.refused_] == chosen[1::2]
        assert {one.specification.transform for one in lean.refused_} == {"log"}
        assert all("y must be positive" in one.reason for one in lean.refused_)
        assert lean.weights_.shape == (4,)
    # what the levels take in, they forecast from
    assert model.forecast(3).index[0] == pd.Timestamp("2021-02-01")
    few = Forecaster(outliers="keep").fit(y[:12].reset_index(drop=True))
    np.testing.assert_allclose(few.ensemble_.votes, np.array([1, 1, 2, 2]) / 6, rtol=1e-15)
    few.update(pd.Series([0.0], [12], name="sales"))
    np.testing.assert_allclose(few.ensemble_.votes, [1 / 3, 2 / 3], rtol=1e-15)
    few.update(pd.Series([1.0], [13], name="sales"))
    assert len(few.refused_) == 2  # once each


@pytest.mark.parametrize(
    ("n", "factor"), [(1, 20.0), pytest.param(6, 100.0, marks=pytest.mark.slow)]
)
def test_a_shock_leaves_the_sane_members(n, factor):
    """Most members explode after it; the bands of the random walks are far narrower.

    How much of a single shock stays, smoothing says with the walks: from the level before to this.
    """
    y = monthly(90)
    later = y[84:][:n] * factor
    model = Forecaster(outliers="keep").fit(y[:84]).update(later)
    ahead = model.forecast(12)
    assert ahead.median.between(y.min() / 2, later.iloc[-1] * 2).all()
    band = ahead.interval(0.95)
    assert ahead.mean.between(band["lower"], band["upper"]).all()


def test_a_long_season_that_was_given_may_be_longer_than_the_windows():
    y = pd.Series(np.random.default_rng(0).normal(50, 5, 380), pd.RangeIndex(380))
    model = Forecaster(seasonal_period=365).fit(y)
    assert model.forecast(3).mean.between(40, 60).all()


def test_apply_saves_and_clones(fitted, tmp_path):
    y = monthly(84)
    applied = fitted.apply(y)
    ahead = fitted.forecast(3)
    assert applied.forecast(1).index[0] == pd.Timestamp("2022-01-01")
    assert ahead.index[0] == pd.Timestamp("2021-01-01")
    same(fitted.apply(monthly()).forecast(3), ahead)
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    same(loaded.forecast(3), ahead)
    assert loaded.summary() == fitted.summary()
    copy = clone(fitted)
    assert not hasattr(copy, "choices_")
    assert copy.get_params() == Forecaster().get_params()


@pytest.mark.parametrize("kind", ["taylor", "monte_carlo"])
def test_every_propagation(fitted, kind):
    ahead = fitted.forecast(2, propagation=kind, n_samples=100, random_state=1)
    np.testing.assert_allclose(ahead.mean, fitted.forecast(2).mean, rtol=0.05)
    np.testing.assert_allclose(ahead.decompose().sum(axis=1), ahead.var, rtol=1e-9)
    other = fitted.forecast(2, propagation=kind, n_samples=100, random_state=2)
    assert other.mean.equals(ahead.mean) == (kind != "monte_carlo")  # a seed is for sample paths


def test_a_refit_forgets():
    model = Forecaster(lags=2).fit(monthly())
    assert parts(model.models_, "lags") == [(1, 2)]
    model.set_params(lags="auto").fit(monthly())
    assert parts(model.models_, "max_train") == [400] * 2 + [600] * 4 + [800] * 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lags": "many"}, "lags must be a positive whole number or distinct positive ones; got"),
        ({"differences": "some"}, "differences must be lags, positive whole numbers; got 'some'"),
        (
            {"seasonal_period": 1},
            "seasonal_period must be a whole number of steps, at least 2, or several; got 1. Use",
        ),
        (
            {"seasonal_period": ()},
            r"seasonal_period must be a whole number of steps, at least 2, or several; got \(\)",
        ),
        (
            {"seasonal_period": 2.5},
            "seasonal_period must be a whole number of steps, at least 2, or several; got 2.5",
        ),
        (
            {"transform": "cube"},
            "transform must be one of 'auto', None, 'log', 'sqrt', 'boxcox'; got 'cube",
        ),
        ({"transform": "none"}, "got 'none'. Pass None, without quotes"),
        ({"prior_mean": None}, "prior_mean must be one of 'auto', 'zero', 'last', 'seasonal'; got"),
        (
            {"calendar": "hours"},
            "calendar must name fourier, profile, .*; got 'hours'",
        ),
        ({"max_train": 2}, "max_train must be a whole number, at least 3; got 2"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Forecaster(**parameters).fit(series(30))


def test_an_error_of_measurement_near_zero_stays_finite():
    y = monthly()
    y.iloc[-1] = 1e-3
    std = pd.Series(0.0, y.index)
    std.iloc[-1] = 0.1
    model = Forecaster(lags=2, transform="log", outliers="keep").fit(y, y_std=std)
    ignored = model.apply(y.mask(std > 0)).forecast(1).median.item()
    assert model.forecast(1).median.item() < 0.99 * ignored


def test_regressors_explain_levels():
    rng = np.random.default_rng(0)
    index = pd.date_range("2012", periods=102, freq="MS")
    exog = pd.DataFrame({"a": rng.standard_normal(102)}, index)
    y = 10 + 3 * exog["a"] + 0.1 * rng.standard_normal(102)
    model = Forecaster().fit(y[:96], exog[:96])
    error = model.forecast(6, exog[96:]).median - y[96:]
    assert np.sqrt((error**2).mean()) < 0.3


def test_gaps_that_recur_leave_the_lags_that_they_can():
    values = series(120, freq="D")
    y = values[values.index.day_of_week < 5].asfreq("D")
    with pytest.warns(
        ClosedDaysWarning, match="no value on any Saturday or Sunday; leave these days out"
    ):
        model = Forecaster().fit(y)
    assert max(max(lags) for lags in parts(on_lags(model), "lags")) <= 4
    assert np.isfinite(model.forecast(3).std).all()


@pytest.mark.parametrize(
    ("given", "count"),
    [({"transform": None}, 5), ({"transform": None, "differences": 1}, 3)],
)
def test_no_model_is_there_twice(given, count):
    """What is given makes different candidates the same."""
    model = Forecaster(**given).fit(monthly())
    described = {(str(m), repr(getattr(m, "regressor", None))) for m in model.models_}
    assert len(described) == len(model.models_) == count


def test_the_tail_of_a_logarithm_does_not_run_away():
    y = pd.Series(np.random.default_rng(6).random(60))
    ahead = Forecaster().fit(y).forecast(2)
    assert (ahead.interval(0.95)["upper"] < 3).all()
    assert (ahead.mean < 1).all()


def test_apply_refuses_another_frequency():
    model = Forecaster(lags=3).fit(monthly())
    with pytest.raises(ValueError, match="y must have the frequency of the fit, MS; got D"):
        model.apply(series(60, freq="D"))


def test_box_cox_names_what_is_negative():
    y = monthly()
    y.iloc[8] = -1.0
    message = "y must be nonnegative for a Box-Cox transform; got -1 at 2015-09-01"
    with pytest.raises(ValueError, match=message):
        Forecaster(lags=3, transform="boxcox").fit(y)


def test_reasons_are_those_of_what_was_chosen(fitted):
    assert not any("given" in why for why in parts(fitted.models_, "why"))
    given = parts(Forecaster(differences=(), transform=None).fit(monthly()).models_, "why")
    assert given == [
        "a random walk with a drift, and the season; but for what was given",
        "levels that return to their mean",
        "levels that return to their mean",
    ]


def test_given_holidays_are_every_members():
    holidays = pd.DatetimeIndex(["2015-12-25", "2017-12-25"])
    model = Forecaster(calendar=holidays).fit(monthly())
    assert all(given[0] is holidays for given in parts(model.models_, "calendar"))
    assert ", holidays, " in str(model.models_[0])
    without = "but for what was given, which leaves out the {} of the season"
    terms = ["Fourier terms"] * 2 + ["profile"] * 4
    whys = [why.split("; ")[1] for why in parts(model.models_, "why")]
    assert whys == [without.format(one) for one in terms]
    both = Forecaster(calendar=["fourier", "profile", holidays]).fit(monthly())
    assert all(why.endswith("; but for what was given") for why in parts(both.models_, "why"))
