"""What regressors and the calendar add to the past and to the forecast."""

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, LinearRegressor, plot
from forecast_unc.errors import InvalidArgument

N, H = 90, 8
INDEX = pd.date_range("2024-10-01", periods=N + H)
KINDS = {
    "default": {},
    "calendar": {"regressor": LinearRegressor(), "lags": 2, "calendar": "holidays:DE"},
    "linear, lags of regressors": {"regressor": LinearRegressor(), "lags": 2, "exog_lags": 1},
    "logarithm": {"regressor": LinearRegressor(), "lags": 1, "transform": "log"},
}


@pytest.fixture(scope="module")
def exog():
    rng = np.random.default_rng(0)
    promotion = (rng.random(N + H) < 0.25).astype(float)
    return pd.DataFrame({"price": rng.uniform(3.0, 5.0, N + H), "promotion": promotion}, INDEX)


@pytest.fixture(scope="module")
def y(exog):
    noise = np.random.default_rng(1).normal(size=N + H)
    return (60.0 - 6.0 * exog["price"] + 8.0 * exog["promotion"] + noise).rename("sold")


@pytest.fixture(params=KINDS)
def model(request, y, exog):
    if request.param == "calendar":
        pytest.importorskip("holidays")
    some = slice(N - 30 if request.param == "default" else 0, N)
    return Forecaster(**KINDS[request.param]).fit(y[some], exog[some])


def test_they_add_up_to_the_fitted_values_and_to_the_forecast(model, exog):
    parts = model.contributions(exog[N:])
    total = parts.sum(axis=1, skipna=False)
    assert parts.index.equals(INDEX[-len(parts) :])
    np.testing.assert_allclose(total[:-H], model.fitted().mean, rtol=1e-12)
    np.testing.assert_allclose(total[-H:], model.forecast(H, exog[N:]).mean, rtol=1e-12)


def test_of_a_linear_model_they_are_effects_times_distances_from_usual(y, exog):
    model = Forecaster(LinearRegressor(), lags=1).fit(y[:N], exog[:N])
    parts, effects = model.contributions(exog[N:]), model.effects()["effect"]
    usual = pd.Series({"price": exog["price"][:N].mean(), "promotion": 0.0})
    expected = effects * (exog - usual)
    there = parts["rest"].notna() & (np.arange(N + H) <= N)  # then earlier values pass it on
    # effects are without their own prior, which shrinks strong ones by less than 1 %
    np.testing.assert_allclose(parts.loc[there, expected.columns], expected[there], rtol=0.01)


def test_without_a_future_they_are_of_the_past_and_the_calendar_needs_no_regressors(y):
    pytest.importorskip("holidays")
    christmas = pd.Timestamp("2024-12-25")
    known = y.where(~y.index.isin([christmas]), y - 25.0)
    options = {"calendar": "holidays:DE", "outliers": "keep"}
    model = Forecaster(LinearRegressor(), lags=1, **options).fit(known[:N])
    past, both = model.contributions(), model.contributions(steps=3)
    assert past.columns.tolist() == ["rest", "calendar"]
    assert past["calendar"].idxmin() == christmas
    pd.testing.assert_frame_equal(both[:N], past, check_freq=False)
    np.testing.assert_allclose(both[N:].sum(axis=1), model.forecast(3).mean)


def test_names_that_columns_have_are_refused(y, exog):
    model = Forecaster(LinearRegressor(), lags=1)
    model.fit(y[:N], exog[:N].rename(columns={"price": "rest"}))
    with pytest.raises(InvalidArgument) as error:
        model.contributions()
    assert error.value.argument == "exog"


def test_the_picture_stacks_them(y, exog):
    model = Forecaster(LinearRegressor(), lags=1).fit(y[:N], exog[:N])
    ax = plot.contributions(model.contributions(exog[N:]))
    assert ax.get_legend_handles_labels()[1] == ["price", "promotion", "rest", "sum"]
    with pytest.raises(TypeError):
        plot.contributions(3)
