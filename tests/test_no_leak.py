"""What comes after the origin changes no forecast, whatever the model and its options."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    backtest,
    baselines,
)
from tests.members import in_turn

N, STEPS, ORIGINS = 80, 3, (67, 70, 73)
GP = GPRegressor(lengthscales=3.0, noise_std=0.5)  # nothing to search
FORECASTS = [
    "model",
    "origin",
    "step",
    "mean",
    "median",
    "std",
    "lower_80",
    "upper_80",
]


def series(freq: str = "MS") -> pd.Series:
    rng = np.random.default_rng(7)
    noise = np.zeros(N)
    for t in range(1, N):
        noise[t] = 0.6 * noise[t - 1] + rng.standard_normal()
    t = np.arange(N)
    values = 40.0 + 0.1 * t + 6.0 * np.sin(2 * np.pi * t / 12) + noise
    return pd.Series(values, pd.date_range("2015-01-01", periods=N, freq=freq))


def gappy() -> pd.Series:
    y = series()
    y.iloc[[20, 21, 50, 66, 69, 72]] = np.nan
    return y


def regressors(y: pd.Series) -> pd.DataFrame:
    t = np.arange(float(N))
    return pd.DataFrame({"cos": np.cos(t), "cube": ((t - 40.0) / 20.0) ** 3}, y.index)


class Taylor(Forecaster):
    """By linearization: a scikit-learn regressor has no closed form."""

    def forecast(self, steps, exog=None):
        return super().forecast(steps, exog, propagation="taylor")


class WithErrors:
    """A forecaster that knows the measurement error of each value, past and future ones."""

    def __init__(self, y_std: pd.Series) -> None:
        self.y_std = y_std

    def fit(self, y):
        self.forecaster_ = Forecaster(GP, lags=3, calibrate=True).fit(y, y_std=self.y_std[y.index])

    def apply(self, y):
        applied = copy.copy(self)
        applied.forecaster_ = self.forecaster_.apply(y, y_std=self.y_std[y.index])
        return applied

    def forecast(self, steps):
        return self.forecaster_.forecast(steps)


SPOILED = tuple(zip(ORIGINS[1:], (1e30, np.nan), strict=True))  # from where, by what
MOVED, FITTED = SPOILED[:1], SPOILED[1:]  # with refit=2


def check(
    model, y, refit, *, exog=None, exog_future=None, stds=None, spoiled_by=SPOILED, **options
):
    """Forecasts from all origins, as they are and with what follows an origin spoiled.

    With refit=2 the models are fitted at the first and the last origin and moved to the one
    between: what follows one of the last two is spoiled, or each in turn, by one of the poisons.
    """

    def run(last, poison=None):
        own, spoiled, late = model, y, exog
        known = (np.arange(N) <= last) | (poison is None)
        if poison is not None:
            spoiled = y.where(known, poison)
            if stds is not None:
                own = WithErrors(stds.where(known, poison))
        if exog is not None:
            # Without forecasts of the regressors their values are known over the horizon.
            ahead = 0 if exog_future is not None else STEPS
            seen = (np.arange(N) <= last + ahead)[:, None] | (poison is None)
            # In one memory layout: another adds up in another order, and SARIMAX's optimizer made
            # 2e-7 of that roundoff.
            late = pd.DataFrame(np.where(seen, exog, poison).astype(float), y.index, exog.columns)
        origins = y.index[[origin for origin in ORIGINS if origin <= last]]
        return backtest(
            own,
            spoiled,
            STEPS,
            exog=late,
            exog_future=exog_future,
            origins=origins,
            refit=refit,
            coverage=(0.8,),
            **options,
        ).frame

    clean = run(spoiled_by[-1][0])
    assert np.isfinite(clean[["mean", "std"]]).all(axis=None)
    for last, poison in spoiled_by:
        poisoned = run(last, poison)
        expected = clean[clean["origin"] <= y.index[last]].reset_index(drop=True)
        pd.testing.assert_frame_equal(expected[FORECASTS], poisoned[FORECASTS], check_exact=True)
        # Else the poison was not where it should be.
        later = poisoned["time"] > y.index[last]
        assert later[poisoned["origin"] == y.index[last]].all()
        np.testing.assert_array_equal(poisoned.loc[later, "actual"], np.full(later.sum(), poison))
        np.testing.assert_array_equal(
            poisoned.loc[~later, "actual"], expected.loc[~later, "actual"]
        )


HOLIDAYS = pd.date_range("2015-03-01", periods=14, freq="6MS")
MODELS = {
    "plain": Forecaster(GPRegressor(lengthscales=3.0), lags=3),
    "boxcox": Forecaster(GP, lags=3, transform="boxcox"),
    "two differences": Forecaster(GP, lags=3, differences=(1, 12), transform="boxcox"),
    "last value": Forecaster(GP, lags=3, prior_mean="last"),
    "a season found": Forecaster(GP, lags=12, prior_mean="seasonal", transform="log"),
    "holidays": Forecaster(GP, lags=2, calendar=["fourier", HOLIDAYS]),
    "last rows": Forecaster(GP, lags=3, max_train=40),
    "shrunk": Forecaster(GPRegressor(prior="shrunk", bias="shrunk"), lags=2, differences=1),
    "calibrated": Forecaster(GP, lags=3, differences=1, calibrate=True),
    "conformal": Forecaster(GP, lags=3, calibrate="conformal"),
    "reduced rank": Forecaster(ReducedRankGPRegressor(n_support=10), lags=3),
    "rvm": Forecaster(RVMRegressor(lengthscales=3.0), lags=3),
    "bayesian ridge": Taylor(BayesianRidge(), lags=3),
    "combination": Combination(
        [Forecaster(GP, lags=3, transform="log"), Forecaster(GP, lags=2, differences=1)]
    ),
    "validated combination": Combination(
        [Forecaster(GP, lags=3), baselines.SeasonalNaive()],
        weights="validation",
    ),
    "SeasonalNaive": baselines.SeasonalNaive(),
    "AutoReg": baselines.AutoReg(),
    "ETS": baselines.ETS(),
    "Theta": baselines.Theta(),
    "SARIMAX": baselines.SARIMAX(order=(1, 0, 1)),
}


BOTH = ("two differences", "calibrated")


@pytest.mark.parametrize(
    ("name", "spoiled_by"),
    [
        *((name, SPOILED) for name in BOTH),
        *in_turn([name for name in MODELS if name not in BOTH], (MOVED, FITTED)),
    ],
    ids=str,
)
def test_the_future_of_the_series_is_not_read(name, spoiled_by):
    check(MODELS[name], series(), 2, spoiled_by=spoiled_by)


@pytest.mark.parametrize("name", ["calibrated", "AutoReg"])
def test_nor_with_a_fit_at_every_origin(name):
    check(MODELS[name], series(), True, spoiled_by=MOVED)


@pytest.mark.parametrize(("freq", "refit", "poison"), [("MS", 2, 1e30), ("YS", True, np.nan)])
def test_nor_by_the_automatic_choice(freq, refit, poison):
    check(Forecaster(), series(freq), refit, spoiled_by=[(ORIGINS[1], poison)])


def test_nor_with_inputs_of_the_hour():
    check(Forecaster(GP, lags=2, calendar="hour_of_week"), series("h"), 2)


@pytest.mark.parametrize(("gap", "window"), [(2, "expanding"), (0, "rolling")])
def test_nor_with_another_window_or_a_gap(gap, window):
    check(Forecaster(GP, lags=2, differences=1), series(), 2, window=window, gap=gap)


@pytest.mark.parametrize(
    ("calibrate", "options", "refit"),
    [(False, {}, True), (True, {"differences": 1, "transform": "log"}, 2)],
    ids=str,
)
def test_nor_with_gaps_in_the_history(calibrate, options, refit):
    check(Forecaster(GP, lags=2, calibrate=calibrate, **options), gappy(), refit)


def test_nor_with_measurement_errors():
    y = series()
    stds = pd.Series(np.linspace(0.1, 1.0, N), y.index)
    check(WithErrors(stds), y, 2, stds=stds, spoiled_by=MOVED)


@pytest.mark.parametrize(("name", "spoiled_by"), [("two differences", FITTED), ("SARIMAX", MOVED)])
def test_nor_regressors_beyond_the_horizon(name, spoiled_by):
    y = series()
    check(MODELS[name], y, 2, exog=regressors(y), spoiled_by=spoiled_by)


def forecast_regressors(origin, times):
    """What was forecast of them at the origin, with errors that grow with its age."""
    age = np.arange(1.0, len(times) + 1)
    mean = pd.DataFrame({"cos": 0.9**age, "cube": 3.0 + 0.1 * age}, times)
    return mean, pd.DataFrame({"cos": 0.1 * age, "cube": 0.2 * age}, times)


@pytest.mark.parametrize(
    ("name", "uncertain", "refit"),
    [("two differences", True, 2), ("plain", False, True)],
)
def test_nor_regressors_beyond_the_origin_where_they_are_forecast(name, uncertain, refit):
    y = series()
    future = forecast_regressors if uncertain else lambda *a: forecast_regressors(*a)[0]
    exog = {"exog": regressors(y), "exog_future": future}
    check(MODELS[name], y, refit, **exog, spoiled_by=FITTED if refit == 2 else MOVED)
