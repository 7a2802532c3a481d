"""Arguments and a history become specifications with nothing left open."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, GPRegressor
from forecast_unc.forecasting.choose.arguments import as_lags
from forecast_unc.forecasting.choose.choice import resolve
from forecast_unc.forecasting.choose.specification import Specification
from forecast_unc.series.history import History


def arguments(**given):
    return Forecaster(**given)


def history(n=72, period=12, freq="MS"):
    rng = np.random.default_rng(0)
    values = 10 + np.sin(2 * np.pi * np.arange(n) / period) + 0.1 * rng.standard_normal(n)
    return History.checked(pd.Series(values, pd.date_range("2015-01-01", periods=n, freq=freq)))


HOLIDAYS = pd.DatetimeIndex(["2015-12-25", "2016-12-25"])


@pytest.mark.parametrize("lags", [2, np.array(2), np.int64(2), (1, 2), [1, 2], np.array([1, 2])])
def test_lags_are_a_number_or_several(lags):
    assert tuple(as_lags("lags", lags, upto=True)) == (1, 2)
    (one,) = resolve(arguments(lags=lags)._checked(), history()).specifications
    assert one.lags == (1, 2)


@pytest.mark.parametrize(
    "lags", [np.array(2.0), np.array(True), 0, -1, (), (1, 1), "2", 2.0, None, [[1]]], ids=repr
)
def test_other_lags_are_an_error(lags):
    with pytest.raises(ValueError, match="lags must be a positive whole number or distinct"):
        arguments(lags=lags)._checked()


def test_lags_of_ones_own_are_one_plain_specification():
    (one,), rules, _ = resolve(arguments(lags=3), history())
    plain = ((1, 2, 3), (), (12,), None, "zero", (), None, "process", "as given", 0.0, (), 0)
    plain += ((), "inputs", 1.0, (), 0.0, False)
    names = (field.name for field in dataclasses.fields(one) if field.name != "regressor")
    assert tuple(getattr(one, name) for name in names) == plain
    assert (rules.averaging.by_width, rules.averaging.widest) == (False, None)
    assert one.depth == 3
    assert one.anchor is None


def test_what_is_given_is_in_every_specification():
    given = {"differences": 12, "transform": None, "calendar": "month", "max_train": 50}
    found = resolve(arguments(**given), history()).specifications
    assert {one.differences for one in found} == {(12,)}
    assert {one.transform for one in found} == {None}
    assert {one.calendar for one in found} == {("month",)}
    assert {one.max_train for one in found} == {50}


def test_specifications_differ():
    """What is given may make two candidates the same: then there is one."""
    regressor = GPRegressor(lengthscales=3.0, noise_std=0.5)
    given = arguments(regressor=regressor, differences=1, transform=None)
    found = resolve(given, history()).specifications
    assert [len(one.lags) for one in found] == [1, 13]
    assert len({(one.described(), one.max_train) for one in found}) == len(found)


@pytest.mark.parametrize(
    ("calendar", "left_out"),
    [
        ("auto", False),
        ("fourier", False),
        (("fourier", HOLIDAYS), False),
        (HOLIDAYS, True),
        ([HOLIDAYS, "month"], True),
        ("month", True),
        (None, True),
    ],
    ids=str,
)
def test_the_reason_says_what_of_the_season_is_left_out(calendar, left_out):
    chosen, found = (
        [one for one in resolve(given, history()).specifications if isinstance(one, Specification)]
        for given in (arguments(), arguments(calendar=calendar))
    )
    assert len(chosen) == 6
    for one, own in zip(found, chosen, strict=True):
        terms = {"fourier": "the Fourier terms", "profile": "the profile"}[own.calendar[0]]
        without = left_out or (terms == "the profile" and calendar != "auto")
        assert (f"leaves out {terms} of the season" in one.why) == without
        assert (one.why == own.why) == (one.described() == own.described())
        assert one.why.startswith(own.why)


def test_without_a_season_no_terms_are_left_out():
    values = pd.Series(np.random.default_rng(0).standard_normal(30).cumsum())
    found = resolve(arguments(calendar=None), History.checked(values)).specifications
    assert not any("given" in one.why for one in found)


@pytest.mark.parametrize(
    ("period", "n", "freq", "ahead"), [(4, 40, "QS", 6), (12, 72, "MS", 18), (52, 160, "W", 18)]
)
def test_a_season_and_a_half_is_looked_ahead_for_up_to_18_steps(period, n, freq, ahead):
    rules = resolve(arguments(), history(n, period, freq)).rules
    assert rules.periods == (period,)
    assert rules.averaging.look_ahead == ahead


def test_a_specification_names_the_lag_that_is_its_prior_mean():
    (last,) = resolve(arguments(lags=(3, 1), prior_mean="last"), history()).specifications
    (season,) = resolve(arguments(lags=(3, 12), prior_mean="seasonal"), history()).specifications
    assert (last.anchor, season.anchor) == (1, 1)


def test_a_series_too_short_is_an_error_before_its_lags_are_numbers():
    with pytest.raises(ValueError, match="y must have at least 1000000000003 values for lags up"):
        resolve(arguments(lags=10**12), history())


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({"lags": 3}, False),
        ({"lags": (1, 7), "seasonal_period": (7, 12)}, False),
        ({"lags": 3, "calendar": "month"}, False),
        ({"lags": 12}, True),
        ({"lags": 3, "differences": (1, 12)}, True),
        (
            {"lags": 3, "calendar": ("fourier", pd.DatetimeIndex(["2024-01-01", "2025-01-01"]))},
            True,
        ),
        ({"lags": (1, 12), "prior_mean": "seasonal"}, True),
        ({}, True),
    ],
)
def test_a_season_that_lags_of_ones_own_do_not_use_is_refused(given, used):
    if used:
        arguments(**{"seasonal_period": 12, **given})._checked()
        return
    with pytest.raises(ValueError, match="seasonal_period must be a lag or one of the differences"):
        arguments(**{"seasonal_period": 12, **given})._checked()
