"""A checked series and what follows it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from forecast_unc.series.history import History

INDEX = pd.date_range("2024-01-01", periods=6, freq="D")
EXOG = pd.DataFrame({"a": np.arange(9.0), "b": 1.0}, pd.date_range("2024-01-01", periods=9))


@pytest.fixture
def y():
    return pd.Series([1.0, 2.0, np.nan, 4.0, 5.0, 6.0], INDEX, name="sales")


def test_it_holds_what_was_given(y):
    std = pd.Series([0.0, 0.1, 0.0, 0.0, 0.0, 0.2], INDEX)
    history = History.checked(y, EXOG[:6], std)
    np.testing.assert_array_equal(history.y, y)
    np.testing.assert_array_equal(history.stds, std)
    np.testing.assert_array_equal(history.exog, EXOG[:6])
    assert list(history.columns) == ["a", "b"]
    assert history.name == "sales"
    assert history.time(2) == "2024-01-03"
    plain = History.checked(y)
    assert plain.exog.shape == (6, 0)
    assert not plain.stds.any()


def test_it_is_no_view_of_the_data(y):
    history = History.checked(y, EXOG[:6].copy())
    y.iloc[:] = 9.0
    np.testing.assert_array_equal(history.y[:2], [1.0, 2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        history.y = np.zeros(6)


def test_what_follows_makes_another(y):
    history = History.checked(y, EXOG[:6])
    later = pd.Series([7.0, np.nan], INDEX[-2:] + pd.Timedelta(days=2), name="other")
    std = pd.Series([0.3, 0.0], later.index)
    longer = history.followed_by(later, EXOG[6:8], std)
    assert len(history.y) == 6
    np.testing.assert_array_equal(longer.y, [*history.y, 7.0, np.nan])
    np.testing.assert_array_equal(longer.stds, [0.0] * 6 + [0.3, 0.0])
    np.testing.assert_array_equal(longer.exog, EXOG[:8])
    assert longer.index.equals(EXOG.index[:8])
    assert longer.index.freq == history.index.freq
    assert longer.name == "sales"
    missing = history.followed_by(later * np.nan, EXOG[6:8])  # nothing was observed
    assert np.isnan(missing.y[6:]).all()


@pytest.mark.parametrize(
    ("values", "start", "error", "message"),
    [
        ([7.0], "2024-01-08", ValueError, "y_new must follow"),
        ([7.0], "2024-01-06", ValueError, "y_new must follow"),
        (["seven"], "2024-01-07", TypeError, "y_new must be"),
        ([-np.inf], "2024-01-07", ValueError, "y_new must be finite or missing"),
    ],
)
def test_what_does_not_follow_is_an_error(y, values, start, error, message):
    history = History.checked(y)
    with pytest.raises(error, match=message):
        history.followed_by(pd.Series(values, pd.date_range(start, periods=1, freq="D")))
    assert len(history.y) == 6


def test_regressors_of_what_follows_are_those_of_the_fit(y):
    history = History.checked(y, EXOG[:6])
    later = pd.Series([7.0], INDEX[-1:] + pd.Timedelta(days=1))
    with pytest.raises(ValueError, match="exog must be given for y_new"):
        history.followed_by(later)
    with pytest.raises(ValueError, match=r"exog must have the columns of the fit, \['a', 'b'\]"):
        history.followed_by(later, EXOG[["b"]][6:7])
    with pytest.raises(ValueError, match="exog must be None for a model fitted without"):
        History.checked(y).followed_by(later, EXOG[6:7])


def test_another_series_has_the_same_spacing(y):
    history = History.checked(y)
    other = history.alike(y.set_axis(INDEX + pd.DateOffset(years=1)).rename("more")[3:])
    assert other.index[0] == pd.Timestamp("2025-01-04")
    assert other.name == "more"
    hours = y.set_axis(pd.date_range("2024-01-01", periods=6, freq="h"))
    with pytest.raises(ValueError, match=r"y must have the frequency of the fit, D; got h\."):
        history.alike(hours)
    numbers = History.checked(y.reset_index(drop=True))
    with pytest.raises(ValueError, match="y must have the frequency of the fit, 1; got 5"):
        numbers.alike(y.set_axis(5 * np.arange(6)))


def test_the_first_steps_of_what_is_ahead(y):
    history = History.checked(y, EXOG[:6])
    root = np.arange(36.0).reshape(6, 6)
    cov = root @ root.T
    ahead = history.future(3, EXOG[6:], exog_cov=cov)
    assert ahead.index.equals(EXOG.index[6:])
    first = ahead.first(2)
    assert first.index.equals(EXOG.index[6:8])
    np.testing.assert_array_equal(first.exog, EXOG[6:8])
    np.testing.assert_array_equal(first.exog_cov, cov[:4, :4])
    known = history.future(3, EXOG[6:])
    assert known.exog_cov is None
    assert known.first(1).exog_cov is None
    alone = History.checked(y).future(4).first(2)
    assert alone.exog.shape == (2, 0)


def test_what_is_ahead_needs_its_regressors(y):
    with pytest.raises(ValueError, match="exog must be given for the 3 steps after the origin"):
        History.checked(y, EXOG[:6]).future(3)


def test_known_regressors_are_their_means(y):
    cov = np.diag(np.arange(1.0, 7.0))
    ahead = History.checked(y, EXOG[:6]).future(3, EXOG[6:], exog_cov=cov)
    known = ahead.known()
    assert known.exog_cov is None
    np.testing.assert_array_equal(known.exog, EXOG[6:])
    assert known.index.equals(ahead.index)
    np.testing.assert_array_equal(ahead.exog_cov, cov)
