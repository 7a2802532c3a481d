"""The baselines against statsmodels, closed forms and simulation."""

import copy
import functools
import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.signal import lfilter
from sklearn.base import clone
from statsmodels.tools.sm_exceptions import ConvergenceWarning
from statsmodels.tsa import ar_model
from statsmodels.tsa.arima_process import arma2ma
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.forecasting.theta import ThetaModel
from statsmodels.tsa.statespace import sarimax

from forecast_unc import Combination, Forecaster, GPRegressor, backtest, baselines
from forecast_unc.errors import ArgumentError
from forecast_unc.evaluation.baselines.baseline import steps_between
from forecast_unc.evaluation.baselines.exponential_smoothing import _fit_ets, _Form
from forecast_unc.series.times import InterpolatedWarning

MODELS = [
    baselines.SeasonalNaive(),
    baselines.AutoReg(),
    baselines.ETS(),
    baselines.Theta(),
    baselines.SARIMAX(seasonal_order=(0, 0, 0)),
]
TAKE_EXOG = [model for model in MODELS if model.takes_exog]


def ident(model):
    return type(model).__name__


def monthly(values: np.ndarray) -> pd.Series:
    return pd.Series(values, pd.period_range("2010-01", periods=len(values), freq="M"), name="y")


@pytest.fixture
def seasonal(rng: np.random.Generator) -> pd.Series:
    """Nine years of months: a random walk around 60 with a season that is half as large."""
    level = 60 + np.cumsum(rng.standard_normal(108))
    return monthly(level * (1 + 0.25 * np.sin(2 * np.pi * np.arange(108) / 12)))


@pytest.fixture
def walk(rng: np.random.Generator) -> pd.Series:
    return pd.Series(50 + np.cumsum(rng.standard_normal(120)), name="y")


def psi_cov(psi: np.ndarray, var: float) -> np.ndarray:
    h = len(psi)
    rows = np.array([[psi[t - u] if u <= t else 0.0 for u in range(h)] for t in range(h)])
    return var * rows @ rows.T


# What each one is


@pytest.mark.parametrize("m", [1, 4, 7])
def test_seasonal_naive_in_closed_form(walk, m):
    ahead = baselines.SeasonalNaive(m).fit(walk).forecast(15)
    y = walk.to_numpy()
    var = np.mean((y[m:] - y[:-m]) ** 2)
    t = np.arange(1, 16)
    seasons = np.ceil(np.minimum.outer(t, t) / m)
    expected = np.where(np.subtract.outer(t, t) % m == 0, var * seasons, 0.0)
    np.testing.assert_allclose(ahead.cov, expected, rtol=1e-12)
    np.testing.assert_array_equal(ahead.mean, [y[120 - m + i % m] for i in range(15)])


def test_sum_of_a_random_walk(walk):
    ahead = baselines.SeasonalNaive(1).fit(walk).forecast(12)
    step = ahead.var.iloc[0]  # sum of i^2, i = 1..12
    assert ahead.aggregate("sum").var.item() == pytest.approx(step * 12 * 13 * 25 / 6)


@pytest.mark.parametrize(
    ("trend", "has_season"), [("c", False), ("n", False), ("ct", True), ("t", True)]
)
def test_autoreg_is_that_of_statsmodels(seasonal, trend, has_season):
    model = baselines.AutoReg(3, trend=trend, seasonal=has_season).fit(seasonal)
    theirs = ar_model.AutoReg(
        seasonal.to_numpy(), 3, trend=trend, seasonal=has_season, period=12
    ).fit()
    expected = theirs.get_prediction(108, 108 + 23)
    ahead = model.forecast(24)
    np.testing.assert_allclose(ahead.mean, expected.predicted_mean, rtol=1e-8)
    np.testing.assert_allclose(ahead.std, expected.se_mean, rtol=1e-8)
    psi = arma2ma(np.r_[1, -model.coef_], [1.0], 24)
    np.testing.assert_allclose(ahead.cov, psi_cov(psi, theirs.sigma2), rtol=1e-8)


@pytest.mark.parametrize("criterion", ["aic", "bic", "hqic"])
def test_autoreg_chooses_the_order_of_statsmodels(seasonal, criterion):
    order = ar_model.ar_select_order(seasonal.to_numpy(), 20, ic=criterion)
    assert baselines.AutoReg(criterion).fit(seasonal).lags_ == max(order.ar_lags)


def test_autoreg_without_lags_is_a_regression(rng):
    noise = monthly(rng.standard_normal(60))
    model = baselines.AutoReg(0).fit(noise)
    np.testing.assert_allclose(model.forecast(3).mean, noise.mean())
    np.testing.assert_allclose(model.forecast(3).cov, np.eye(3) * noise.var(ddof=0), atol=1e-12)


@functools.cache
def fitted_ets(values: tuple[float, ...]) -> baselines.ETS:
    return baselines.ETS().fit(monthly(np.array(values)))


def kept(form: _Form, y: pd.Series) -> tuple[baselines.ETS, ETSModel]:
    """The baseline in a form given, and statsmodels' of the same parameters in units of y."""
    model = copy.copy(fitted_ets(tuple(y)))
    fit = _fit_ets(y.to_numpy(), form, 12, "estimated")
    model.noise_std_ = model._keep(form, fit)
    names = fit.results.model.param_names
    scaled = [
        n.startswith("initial") and not (n.startswith("initial_s") and form.season == "M")
        for n in names
    ]
    params = np.where(scaled, fit.unit, 1.0) * np.asarray(fit.results.params)
    params[names.index("initial_level")] += fit.shift
    theirs = ETSModel(
        y,
        error="add" if form.error == "A" else "mul",
        trend=None if form.trend == "N" else "add",
        damped_trend=form.trend == "Ad",
        seasonal={"N": None, "A": "add", "M": "mul"}[form.season],
        seasonal_periods=12 if form.season != "N" else None,
    ).smooth(params)
    return model, theirs


FORMS = [
    _Form(error, trend, season)
    for error, season in ("AN", "AA", "MN", "MM")
    for trend in ("N", "A", "Ad")
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_ets_is_that_of_statsmodels(seasonal, form):
    model, theirs = kept(form, seasonal)
    ahead = model.forecast(18)
    np.testing.assert_allclose(ahead.mean, theirs.forecast(18), rtol=1e-8)
    if form.error == "A":
        # their formula for damped trends divides by (1 - phi)^2 and loses digits near 1
        expected = theirs.get_prediction(108, 108 + 17).forecast_variance
        np.testing.assert_allclose(ahead.var, expected, rtol=1e-6 if form.trend == "Ad" else 1e-8)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_joint_covariance_of_ets_is_that_of_simulated_paths(seasonal, form):
    model, theirs = kept(form, seasonal)
    n = 20_000
    errors = np.sqrt(theirs.scale) * np.random.default_rng(1).standard_normal((15, n))
    paths = theirs.simulate(15, anchor="end", repetitions=n, random_errors=errors)
    expected, ahead = np.cov(np.asarray(paths)), model.forecast(15)
    std = np.sqrt(np.diag(expected))
    # a covariance of n Gaussian pairs has a standard error of at most sqrt(2 / n) s_t s_u
    error = np.abs(ahead.cov.to_numpy() - expected) / np.outer(std, std)
    assert error.max() < 5 * np.sqrt(2 / n) * (np.sqrt(2) if form.season == "M" else 1)


def test_multiplicative_season_is_exact_within_the_first_one(seasonal):
    """There the seasons are known, and y / s is an exponential smoothing without them."""
    model, theirs = kept(_Form("M", "A", "M"), seasonal)
    alpha, beta, *_ = model.params_.values()
    t = np.arange(1, 13)
    level = theirs.level.iloc[-1] + t * theirs.slope.iloc[-1]
    season = theirs.season.iloc[-12:].to_numpy()
    psi = np.append(1.0, alpha + beta * t[:-1])
    var = np.zeros(12)  # of the errors of each step
    for i in range(12):
        var[i] = theirs.scale * (level[i] ** 2 + sum(psi[i - j] ** 2 * var[j] for j in range(i)))
    rows = np.array([[psi[i - j] if j <= i else 0.0 for j in range(12)] for i in range(12)])
    ahead = model.forecast(12)
    np.testing.assert_allclose(ahead.mean, level * season, rtol=1e-8)
    cov = (rows * var) @ rows.T * np.outer(season, season)
    np.testing.assert_allclose(ahead.cov, cov, rtol=0.06)
    with pytest.raises(ValueError, match="y must end a season of 12 values after the start"):
        model.apply(seasonal[:11])


def test_ets_finds_the_form(rng):
    t = np.arange(96)
    noise = rng.standard_normal(96)
    trending = baselines.ETS().fit(pd.Series(5 + 2 * t + noise))
    assert trending.form_.trend == "A"
    season = np.sin(2 * np.pi * t / 12)
    assert baselines.ETS().fit(monthly(30 * season + noise)).form_.season == "A"
    growing = monthly(np.exp(0.03 * t + 0.5 * season + 0.02 * noise))
    assert baselines.ETS().fit(growing).form_.season == "M"


@pytest.mark.parametrize("positive", [True, False])
def test_theta_is_that_of_statsmodels(seasonal, positive):
    y = seasonal if positive else seasonal - 60
    model = baselines.Theta().fit(y)
    theirs = ThetaModel(y.to_numpy(), period=12).fit()
    assert model.multiplicative_ is positive
    ahead = model.forecast(30)
    np.testing.assert_allclose(ahead.mean, theirs.forecast(30), rtol=1e-8)
    # an integrated moving average, times the factors of the season
    var = model.noise_std_**2 * (1 + np.arange(30) * model.alpha_**2)
    factors = model.season_[np.arange(108, 138) % 12] if positive else 1.0
    np.testing.assert_allclose(ahead.var, var * factors**2, rtol=1e-10)


def test_theta_without_a_season(walk):
    model = baselines.Theta().fit(walk)
    theirs = ThetaModel(walk.to_numpy(), deseasonalize=False).fit()
    ahead = model.forecast(10)
    np.testing.assert_allclose(ahead.mean, theirs.forecast(10), rtol=1e-8)
    # the smoothed errors of an integrated moving average with coefficient alpha - 1
    psi = np.cumsum(arma2ma([1.0], [1.0, model.alpha_ - 1], 10))
    np.testing.assert_allclose(ahead.cov, psi_cov(psi, model.noise_std_**2), rtol=1e-10)
    # of their interval's variance, 1 + (h - 1)(1 + (alpha - 1)^2), only the first step is ours
    band = theirs.prediction_intervals(1)
    width = (band["upper"] - band["lower"]).item() / (2 * 1.959963984540054)
    assert ahead.std.iloc[0] == pytest.approx(width, rel=0.03)  # two estimates of the noise


def polynomial(coefficients, lag: int, sign: int) -> np.ndarray:
    full = np.zeros(lag * len(coefficients) + 1)
    full[0], full[lag::lag] = 1.0, sign * np.asarray(coefficients)
    return full


def arima_psi(model: baselines.SARIMAX, steps: int) -> np.ndarray:
    """Weights of the fitted ARIMA, differences included, from its polynomials."""
    (p, d, q), (P, D, Q, m) = model.order_, model.seasonal_order_
    ar, ma, sar, sma = np.split(model._params[-1 - p - q - P - Q : -1], [p, p + q, p + q + P])
    factors = [polynomial(ar, 1, -1), *[np.array([1.0, -1.0])] * d]
    if m:
        factors += [polynomial(sar, m, -1), *[polynomial([1.0], m, -1)] * D]
    moving = np.convolve(polynomial(ma, 1, 1), polynomial(sma, m, 1)) if m else np.r_[1.0, ma]
    return arma2ma(functools.reduce(np.convolve, factors), moving, steps)


ORDERS = [  # season, order, seasonal order, with a regressor
    (1, (0, 1, 1), (0, 1, 1), False),
    (1, (2, 0, 1), (0, 0, 0), True),
    (4, (1, 0, 0), (1, 0, 0), False),
    (4, (0, 1, 1), (0, 1, 1), True),
    (12, (1, 1, 0), (1, 1, 0), False),
]


@pytest.mark.parametrize(("m", "order", "seasonal_order", "has_exog"), ORDERS, ids=str)
def test_sarimax_is_that_of_statsmodels_and_of_its_psi_weights(
    rng, m, order, seasonal_order, has_exog
):
    """Mean, variances and, of the weights, the joint covariance, in units of y."""
    (p, d, q), (P, D, Q) = order, seasonal_order if m > 1 else (0, 0, 0)
    factors = [polynomial([0.6] * bool(p), 1, -1), polynomial([0.6] * P, m, -1)]
    factors += [polynomial([1.0], 1, -1)] * d + [polynomial([1.0], m, -1)] * D
    moving = np.convolve(polynomial([0.4] * q, 1, 1), polynomial([0.4] * Q, m, -1))
    z = lfilter(moving, functools.reduce(np.convolve, factors), rng.standard_normal(160))
    x = rng.standard_normal(176)
    y = pd.Series(300 + 20 * z + (40 * x[:160] if has_exog else 0.0))
    exog = pd.DataFrame({"x": 7 + x}) if has_exog else None
    model = baselines.SARIMAX(m, order=order, seasonal_order=seasonal_order)
    known = () if exog is None else (exog[:160],)
    ahead = model.fit(y, *known).forecast(16, *(() if exog is None else (exog[160:],)))

    season = (P, D, Q, m if any((P, D, Q)) else 0)
    assert (model.order_, model.seasonal_order_) == (order, season)
    unit, scaled = y.std(ddof=0), ((x - x[:160].mean()) / x[:160].std())[:, None]
    X, future = (scaled[:160], scaled[160:]) if has_exog else (None, None)
    theirs = sarimax.SARIMAX(
        ((y - y.mean()) / unit).to_numpy(),
        exog=X,
        order=order,
        seasonal_order=season,
        trend="n" if d + D else "c",
        use_exact_diffuse=True,
    )
    result = theirs.fit(disp=False, maxiter=100, cov_type="none", warn_convergence=False)
    expected = result.get_forecast(16, exog=future)
    np.testing.assert_allclose(ahead.mean, y.mean() + unit * expected.predicted_mean, rtol=1e-6)
    np.testing.assert_allclose(ahead.std, unit * expected.se_mean, rtol=1e-6)
    assert model.noise_std_ == pytest.approx(unit * np.sqrt(result.params[-1]), rel=1e-6)
    cov = psi_cov(arima_psi(model, 16), model.noise_std_**2)
    np.testing.assert_allclose(ahead.cov, cov, rtol=1e-6, atol=1e-6 * cov[0, 0])


def test_orders_of_sarimax_without_a_season(rng):
    """Series of less than three seasons have none; zeros have none of any length."""
    y = monthly(np.cumsum(rng.standard_normal(36)))
    assert baselines.SARIMAX().fit(y[:35]).seasonal_order_ == (0, 0, 0, 0)
    assert baselines.SARIMAX().fit(y).seasonal_order_ == (0, 1, 1, 12)
    hours = pd.Series(y.to_numpy(), pd.date_range("2024-01-01", periods=36, freq="h"))
    model = baselines.SARIMAX(order=(1, 0, 0), seasonal_order=(0, 0, 0))
    assert model.fit(hours).seasonal_order_ == (0, 0, 0, 0)


def test_missing_values_at_the_origin_are_steps_ahead(walk):
    """Two values missing: the forecast is what it was two steps earlier, further on."""
    model = baselines.SARIMAX().fit(walk)
    before = model.forecast(6)
    later = pd.Series([np.nan, np.nan], pd.RangeIndex(120, 122))
    after = clone(model).fit(walk).update(later).forecast(4)
    np.testing.assert_allclose(after.mean, before.mean[2:], rtol=1e-10)
    np.testing.assert_allclose(after.cov, before.cov.iloc[2:, 2:], rtol=1e-10)


def test_missing_values_inside_are_not_filled(walk, rng):
    holes = walk.mask(rng.random(120) < 0.1)
    model = baselines.SARIMAX().fit(holes)
    full = baselines.SARIMAX().fit(walk)
    # Interpolated, a walk with a tenth missing would lose 7 % of its one-step std.
    assert model.noise_std_ == pytest.approx(full.noise_std_, rel=0.05)


@pytest.mark.parametrize("model", TAKE_EXOG, ids=ident)
def test_regressors_are_used(rng, model):
    x = rng.standard_normal(130)
    exog = pd.DataFrame({"x": 1e5 + 1e4 * x})
    y = pd.Series(3 * x + 0.1 * rng.standard_normal(130))
    model = clone(model).fit(y[:120], exog[:120])
    ahead = model.forecast(10, exog[120:])
    np.testing.assert_allclose(ahead.mean, 3 * x[120:], atol=0.4)
    moved = model.apply(y[20:125], exog[20:125]).forecast(5, exog[125:])
    np.testing.assert_allclose(moved.mean, 3 * x[125:], atol=0.4)


# What they share


@pytest.mark.parametrize("model", MODELS, ids=ident)
def test_constructor_is_that_of_scikit_learn(seasonal, model):
    parameters = model.get_params()
    assert set(parameters) == set(inspect.signature(type(model)).parameters)
    copied = clone(model)
    copied.fit(seasonal)
    assert copied.get_params() == parameters
    for name in parameters:
        assert re.search(rf"^ *{name} : ", type(model).__doc__, re.MULTILINE)


@pytest.mark.parametrize(
    ("model", "kind"),
    [*((model, "whole numbers") for model in MODELS), (MODELS[0], "zone"), (MODELS[3], "business")],
    ids=str,
)
def test_every_kind_of_index(seasonal, model, kind):
    index = {
        "zone": pd.date_range("2010-03-01", periods=108, freq="h", tz="Europe/Paris"),
        "business": pd.date_range("2010-01-01", periods=108, freq="B"),
        "whole numbers": pd.RangeIndex(10, 10 + 2 * 108, 2),
    }[kind]
    model = clone(model).set_params(seasonal_period=12)
    expected = clone(model).fit(seasonal[:96]).apply(seasonal[6:]).forecast(5)
    y = seasonal.set_axis(index)
    ahead = model.fit(y[:96]).apply(y[6:]).forecast(5)
    np.testing.assert_array_equal(ahead.cov, expected.cov)
    np.testing.assert_array_equal(ahead.mean, expected.mean)
    assert ahead.index[0] == (226 if kind == "whole numbers" else index[-1] + index.freq)
    assert ahead.name == "y"


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-03-25", periods=300, freq="h", tz="Europe/Paris"),
        pd.date_range("2024-03-25", periods=300, freq="3h"),
        pd.date_range("2024-01-01 06:00", periods=300, freq="D", tz="Europe/Paris"),
        pd.date_range("2024-01-01", periods=300, freq="2D"),
        pd.date_range("2024-01-01", periods=300, freq="5s").as_unit("s"),
        pd.date_range("1950-01-01", periods=300, freq="MS"),
        pd.date_range("2024-01-01", periods=300, freq="B"),
        pd.date_range("2024-01-01", periods=300, freq="bh"),
        pd.date_range("1800-01-01", periods=300, freq="YS"),
        pd.period_range("1990-01", periods=300, freq="M"),
        pd.period_range("1990-01", periods=300, freq="2M"),
        pd.period_range("1990-01-01", periods=300, freq="15min"),
        pd.RangeIndex(-40, 560, 2),
    ],
    ids=lambda index: f"{type(index).__name__}-{getattr(index, 'freqstr', 2)}",
)
def test_steps_between_two_starts(index):
    for first, second in ((0, 0), (0, 299), (3, 250), (250, 3), (100, 101)):
        assert steps_between(index[first:], index[second:]) == second - first


def test_steps_between_starts_that_are_not_on_one_grid():
    hours = pd.date_range("2024-01-01", periods=9, freq="3h")
    assert steps_between(hours, hours + pd.Timedelta("1h")) is None
    assert steps_between(hours, hours.tz_localize("UTC")) is None
    days = pd.date_range("2024-01-01", periods=9, freq="2D")
    assert steps_between(days, days + pd.Timedelta("1D")) is None
    assert steps_between(days, days + pd.Timedelta("1h")) is None
    months = pd.period_range("2024-01", periods=9, freq="2M")
    assert steps_between(months, months + 1) == 1
    odd = pd.period_range("2024-02", periods=9, freq="2M")
    assert steps_between(months, odd) is None
    assert steps_between(pd.RangeIndex(0, 9, 3), pd.RangeIndex(1, 10, 3)) is None


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1]], ids=ident)
def test_a_history_far_from_the_fit_needs_no_grid_up_to_it(walk, model):
    """Sixty years of seconds, a grid of 15 GB."""
    y = walk.set_axis(pd.date_range("1970-01-01", periods=120, freq="s", unit="s"))
    later = walk.set_axis(pd.date_range("2030-01-01", periods=120, freq="s", unit="s"))
    fitted = clone(model).set_params(seasonal_period=1).fit(y)
    moved = fitted.apply(later).forecast(3)
    np.testing.assert_array_equal(moved.mean, fitted.forecast(3).mean)
    assert moved.index[0] == later.index[-1] + pd.Timedelta("1s")


@pytest.mark.parametrize("model", MODELS, ids=ident)
def test_update_is_apply_to_the_longer_series(seasonal, model):
    fitted = clone(model).fit(seasonal[:100])
    before = fitted.forecast(14)
    applied = fitted.apply(seasonal)
    np.testing.assert_array_equal(fitted.forecast(14).cov, before.cov)
    updated = fitted.update(seasonal[100:103]).update(seasonal[103:])
    assert updated is fitted
    expected, ahead = applied.forecast(14), updated.forecast(14)
    np.testing.assert_array_equal(ahead.mean, expected.mean)
    np.testing.assert_array_equal(ahead.cov, expected.cov)
    assert ahead.index.equals(expected.index)


@pytest.mark.parametrize("model", MODELS, ids=ident)
@pytest.mark.parametrize("start", [5, 103])
def test_a_window_that_starts_later_keeps_phase_trend_and_state(seasonal, model, start):
    """A series without noise: the forecast continues it."""
    t = np.arange(140)
    y = monthly(80 + 0.5 * t + 10 * np.sin(2 * np.pi * t / 12))
    noisy = y[:100] + 0.01 * seasonal.diff().fillna(0).to_numpy()[:100]
    if isinstance(model, baselines.AutoReg):
        model = baselines.AutoReg(2, trend="ct", seasonal=True)
    if isinstance(model, baselines.SARIMAX):
        model = baselines.SARIMAX(seasonal_order=(0, 1, 0))
    fitted = clone(model).fit(noisy)
    whole = fitted.apply(pd.concat([noisy, y[100:]])).forecast(6)
    part = fitted.apply(pd.concat([noisy, y[100:]])[start:]).forecast(6)
    atol = 6.1 if isinstance(model, baselines.SeasonalNaive) else 0.5  # no trend in that one
    np.testing.assert_allclose(part.mean, whole.mean, atol=0.25)
    t = np.arange(140, 146)
    truth = 80 + 0.5 * t + 10 * np.sin(2 * np.pi * t / 12)
    if not isinstance(model, baselines.Theta):  # half the trend, times the season, in that one
        np.testing.assert_allclose(part.mean, truth, atol=atol)


def test_backtest_never_reads_past_the_origin(walk):
    walk = walk[:84]
    own = Forecaster(GPRegressor(lengthscales=3.0), lags=2)
    compare = {ident(m): m for m in MODELS}
    arguments = {"steps": 3, "origins": [70, 74, 79], "refit": 2, "window": "rolling"}
    clean = backtest(own, walk, compare=compare, **arguments).frame
    assert list(clean["model"].unique()[1:]) == list(compare)
    spoiled = walk.where(np.arange(84) <= 79, 1e12)
    frame = backtest(own, spoiled, compare=compare, **arguments).frame
    columns = ["model", "origin", "mean", "std", "lower_95", "upper_95", "refit"]
    pd.testing.assert_frame_equal(clean[columns], frame[columns], check_exact=True)


def test_backtest_holds_the_forecasts_of_a_loop_written_by_hand(seasonal):
    own = Forecaster(GPRegressor(lengthscales=3.0), lags=2)
    for name, model in {"naive": baselines.SeasonalNaive(), "theta": baselines.Theta()}.items():
        result = backtest(own, seasonal, steps=3, origins=4, refit=3, compare={name: model})
        rows = result.frame[result.frame["model"] == name].set_index(["origin", "step"])
        for i, position in enumerate((95, 98, 101, 104)):
            past = seasonal[: position + 1]
            model = model.fit(past) if i % 3 == 0 else model.apply(past)
            fold = rows.loc[seasonal.index[position]]
            np.testing.assert_array_equal(fold["mean"], model.forecast(3).mean)
            np.testing.assert_array_equal(fold["std"], model.forecast(3).std)
            assert (fold["refit"] == (i % 3 == 0)).all()


def within_binomial_error(hits: np.ndarray, level: float) -> None:
    assert np.abs(hits.mean(axis=0) - level).max() < 4 * np.sqrt(level * (1 - level) / len(hits))


@pytest.mark.slow
def test_coverage_of_seasonal_walks(rng):
    m, hits = 4, []
    for _ in range(200):
        shocks = rng.standard_normal(212)
        y = pd.Series([shocks[t % m : t + 1 : m].sum() for t in range(212)])
        ahead, actual = baselines.SeasonalNaive(m).fit(y[:200]).forecast(12), y[200:]
        band, total = ahead.interval(0.9), ahead.aggregate("sum").interval(0.9).iloc[0]
        inside = actual.between(band["lower"], band["upper"])
        hits.append([*inside, total["lower"] < actual.sum() < total["upper"]])
    within_binomial_error(np.array(hits), 0.9)


@pytest.mark.parametrize("model", [MODELS[1], *MODELS[2:]], ids=ident)
def test_coverage_of_a_fitted_model_on_new_paths_of_its_process(rng, model):
    """Steps and their sum; an integrated moving average, for AutoReg an autoregression."""

    def path(n: int) -> pd.Series:
        e = rng.standard_normal(n + 50)
        if isinstance(model, baselines.AutoReg):
            return pd.Series(lfilter([1.0], [1.0, -0.7, 0.2], e)[50:])
        return pd.Series(np.cumsum(e[1:] - 0.6 * e[:-1])[-n:] + 100)

    fitted = clone(model).fit(path(1000))
    hits = []
    for _ in range(150):
        y = path(108)
        ahead, actual = fitted.apply(y[:100]).forecast(8), y[100:]
        band, total = ahead.interval(0.9), ahead.aggregate("sum").interval(0.9).iloc[0]
        inside = actual.between(band["lower"], band["upper"])
        hits.append([*inside, total["lower"] < actual.sum() < total["upper"]])
    within_binomial_error(np.array(hits), 0.9)


@pytest.mark.parametrize(
    ("model", "scale"), list(zip(MODELS, (1e6, 1e-6, 1e6, 1e-6, 1e6), strict=True)), ids=str
)
def test_a_change_of_unit_is_one_of_the_forecast(seasonal, model, scale):
    one = clone(model).fit(seasonal).forecast(13)
    two = clone(model).fit(scale * seasonal).forecast(13)
    np.testing.assert_allclose(two.mean, scale * one.mean, rtol=1e-4)
    np.testing.assert_allclose(two.std, scale * one.std, rtol=1e-3)


@pytest.mark.parametrize("model", MODELS, ids=ident)
def test_a_large_offset_is_no_lack_of_errors(walk, model):
    one, two = (clone(model).fit(walk + shift).forecast(4) for shift in (0.0, 1e8))
    np.testing.assert_allclose(two.mean - 1e8, one.mean, atol=0.5)
    np.testing.assert_allclose(two.std, one.std, rtol=0.05)


@pytest.mark.parametrize("period", [None, 1, 4])
def test_seasonal_period_is_the_shortest_that_fits_twice(walk, period):
    hourly = walk.set_axis(pd.date_range("2024-01-01", periods=120, freq="h"))
    expected = {None: 24, 1: 1, 4: 4}[period]
    assert baselines.SeasonalNaive(period).fit(hourly).seasonal_period_ == expected
    if period is None:
        assert baselines.SeasonalNaive().fit(hourly[:47]).seasonal_period_ == 1


@pytest.mark.parametrize("model", [baselines.ETS(), baselines.SARIMAX()], ids=ident)
@pytest.mark.parametrize("converged", [True, False])
def test_convergence_is_that_of_statsmodels_without_a_warning(
    seasonal, monkeypatch, model, converged
):
    """Its optimizer stops at the first step, and then says what the test lets it say."""
    kind = {"ETS": ETSModel, "SARIMAX": sarimax.SARIMAX}[ident(model)]
    fit = kind.fit

    def first_step(self, *args, **kwargs):
        result = fit(self, *args, **(kwargs | {"maxiter": 1}))
        assert result.mle_retvals["converged"] in (True, False)
        result.mle_retvals["converged"] = converged
        return result

    monkeypatch.setattr(kind, "fit", first_step)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fitted = clone(model).fit(seasonal)
    assert fitted.converged_ is converged


# What is refused


@pytest.mark.parametrize("model", [baselines.AutoReg(), baselines.ETS(), baselines.Theta()])
def test_models_that_estimate_refuse_a_constant(seasonal, model):
    with pytest.raises(ValueError, match="y must vary; got the constant 3 throughout"):
        model.fit(seasonal * 0 + 3)


@pytest.mark.parametrize("value", [3.0, 0.0])
@pytest.mark.parametrize(
    "model", [baselines.Naive(), baselines.Drift(), baselines.SeasonalNaive(12)], ids=repr
)
def test_a_constant_goes_on_as_in_exponential_smoothing(seasonal, model, value):
    y = seasonal * 0 + value
    y.iloc[5] = np.nan
    ahead = model.fit(y).forecast(2)
    np.testing.assert_array_equal(ahead.mean, value)
    assert model.noise_std_ == 1e-9 * (value or 1.0)
    assert (ahead.std > 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y[:9], "y must have at least 10 values; got 9"),
        (lambda y: y.mask(y.index == y.index[4], np.inf), "got 1 infinite value.*2010-05"),
        (lambda y: y.set_axis(y.index[::-1]), "y must be in ascending order of time"),
    ],
)
def test_series_that_are_refused(seasonal, change, message):
    with pytest.raises(ValueError, match=message):
        baselines.SeasonalNaive().fit(change(seasonal))


def test_missing_values_of_walks_are_steps_and_seasons_further_ahead(seasonal, walk):
    """The normal distribution given the values that are known, of a walk in each season."""
    for model, y, m in ((baselines.Naive(), walk, 1), (baselines.SeasonalNaive(12), seasonal, 12)):
        gone = np.isin(np.arange(len(y)), [7, 30, len(y) - 3, len(y) - 1, len(y) - 1 - m])
        fitted = clone(model).fit(y.mask(gone))
        errors = (y.mask(gone).to_numpy()[m:] - y.mask(gone).to_numpy()[:-m]) ** 2
        assert fitted.noise_std_ == pytest.approx(np.sqrt(np.nanmean(errors)))
        n, steps = len(y), 14
        t = np.arange(n + steps)
        far = (t // m + 1000.0) * (t[:, None] % m == t % m)  # a wide start
        cov = np.minimum(far, far.T)
        known, ahead = np.flatnonzero(~gone), t[n:]
        gain = np.linalg.solve(cov[np.ix_(known, known)], cov[np.ix_(known, ahead)]).T
        left = cov[np.ix_(ahead, ahead)] - gain @ cov[np.ix_(known, ahead)]
        found = fitted.forecast(steps)
        np.testing.assert_allclose(found.cov, fitted.noise_std_**2 * left, atol=1e-6)
        at = np.array([max(k for k in known if (k - one) % m == 0) for one in ahead])
        np.testing.assert_array_equal(found.mean, y.to_numpy()[at])


def test_a_drift_over_gaps_is_that_of_generalized_least_squares(walk):
    y = walk + 0.4 * np.arange(len(walk))
    gone = np.isin(np.arange(len(y)), [0, 5, 6, 70, len(y) - 2, len(y) - 1])
    model, at = baselines.Drift().fit(y.mask(gone)), np.flatnonzero(~gone)
    gaps, changes = np.diff(at), np.diff(y.to_numpy()[at])
    by = sm.WLS(changes, gaps, weights=1.0 / gaps).fit()
    assert model.drift_ == pytest.approx(by.params[0])
    assert model.noise_std_ == pytest.approx(np.sqrt(by.scale))
    ahead, step = model.forecast(3), np.arange(3.0, 6.0)  # after two missing ones
    np.testing.assert_allclose(ahead.mean, y.iloc[-3] + by.params[0] * step)
    var = by.scale * step + by.cov_params()[0, 0] * step**2
    np.testing.assert_allclose(ahead.var, var)


def test_other_baselines_say_that_they_interpolate(seasonal):
    holes = seasonal.mask(np.isin(np.arange(108), [4, 50, 51, 106]))
    filled = holes.interpolate()
    for model in MODELS[1:4]:
        said = f"missing values are interpolated for {ident(model)}, whose intervals may be too"
        with pytest.warns(InterpolatedWarning, match=said) as caught:
            found = clone(model).fit(holes).forecast(5)
        assert caught[0].filename == __file__
        expected = clone(model).fit(filled).forecast(5)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
    with pytest.raises(ValueError, match="a value at each of the 12 steps .* none at that of"):
        baselines.SeasonalNaive(12).fit(seasonal.mask(seasonal.index.month == 5)).forecast(1)
    with pytest.raises(ValueError, match="y must have two values that are 12 steps apart"):
        baselines.SeasonalNaive(12).fit(seasonal.mask(np.arange(108) >= 12))


@pytest.mark.parametrize("model", MODELS[1:4], ids=ident)
def test_values_missing_before_the_first_and_after_the_last_are_not_made_up(model, seasonal):
    """A flat line in their place made ETS eight times as wrong on CO2, in silence."""
    late = seasonal.mask((np.arange(108) < 30) | (np.arange(108) >= 105))
    expected = clone(model).fit(seasonal.iloc[30:105]).forecast(8)
    found = clone(model).fit(late)
    both = found.forecast(5), found.apply(late).forecast(5)
    updated = clone(model).fit(late.iloc[:107]).update(late.iloc[107:]).forecast(5)
    for ahead in (*both, updated):
        pd.testing.assert_index_equal(ahead.index, expected.index[3:])
        np.testing.assert_allclose(ahead.mean, expected.mean.iloc[3:], rtol=1e-9)
        np.testing.assert_allclose(ahead.cov, expected.cov.iloc[3:, 3:], rtol=1e-7)


def test_regressors_at_values_missing_at_the_end_count(seasonal):
    index = pd.period_range(seasonal.index[0], periods=116)
    x = pd.DataFrame({"x": np.sin(np.arange(116.0))}, index)
    y = seasonal + 50.0 * x["x"]
    late = y[seasonal.index].mask(np.arange(108) >= 105)
    model = baselines.AutoReg(1)
    found = model.fit(late, x.iloc[:108]).forecast(5, x.iloc[108:113])
    expected = model.fit(y.iloc[:105], x.iloc[:105]).forecast(8, x.iloc[105:113])
    np.testing.assert_allclose(found.mean, expected.mean.iloc[3:], rtol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=ident)
def test_an_empty_series_is_too_short(model, seasonal):
    with pytest.raises(ValueError, match="y must have at least 10 values; got 0"):
        clone(model).fit(seasonal[:0])


def test_types_are_checked(seasonal):
    with pytest.raises(TypeError, match="y must be a pandas Series; got ndarray"):
        baselines.Theta().fit(seasonal.to_numpy())
    with pytest.raises(TypeError, match="y must be numeric; got dtype object"):
        baselines.Theta().fit(seasonal.astype(object))
    for missing in (pd.Series([np.nan] * 20), pd.Series([pd.NA] * 20, dtype="Float64")):
        with pytest.raises(ValueError, match="y must hold numbers; got only missing values"):
            baselines.SARIMAX().fit(missing)


def test_regressors_are_refused(seasonal):
    exog = pd.DataFrame({"x": np.arange(108.0)}, index=seasonal.index)
    for model in (MODELS[0], *MODELS[2:4]):
        message = f"exog must be None for {ident(model)}; got a DataFrame. It takes no regressors"
        with pytest.raises(ValueError, match=message):
            clone(model).fit(seasonal, exog)
    fitted, message = baselines.Theta().fit(seasonal), "exog must be None for Theta; got a DataFr"
    for call in (
        lambda: fitted.forecast(108, exog),
        lambda: fitted.apply(seasonal, exog),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (baselines.SeasonalNaive(0), "seasonal_period must be a whole number, at least 1; got 0"),
        (baselines.ETS(55), "y must have at least 110 values for a seasonal_period of 55; got 108"),
        (baselines.AutoReg("aicc"), "lags must be a whole number, at least 0; got 'aicc'. 'aic', "),
        (baselines.AutoReg(-1), "lags must be a whole number, at least 0; got -1"),
        (baselines.AutoReg(36), "lags must be at most 35 for 108 values; got 36"),
        (baselines.AutoReg(trend="x"), "trend must be one of 'c', 'n', 't', 'ct'; got 'x'"),
        (baselines.AutoReg(trend=1), "trend must be one of 'c', 'n', 't', 'ct'; got 1"),
        (baselines.AutoReg(seasonal=True, seasonal_period=54), None),
    ],
)
def test_parameters_that_are_refused(seasonal, model, message):
    if message is None:
        assert model.fit(seasonal).lags_ >= 0
        return
    with pytest.raises(ValueError, match=message):
        model.fit(seasonal)


@pytest.mark.parametrize(
    ("options", "argument", "got"),
    [
        ({"order": (0, -1, 1)}, "order", "(0, -1, 1)"),
        ({"order": 2}, "order", "2"),
        ({"order": (0, True, 1)}, "order", "(0, True, 1)"),
        ({"seasonal_order": (0, 1, 1, 12)}, "seasonal_order", "(0, 1, 1, 12)"),
        ({"seasonal_order": (0, 0.5, 1)}, "seasonal_order", "(0, 0.5, 1)"),
        ({"order": (12, 0, 0), "seasonal_order": (1, 0, 0)}, "order", "(12, 0, 0)"),
        ({"order": (0, 1, 12)}, "order", "(0, 1, 12)"),
        ({"order": (60, 0, 0)}, "y", "108"),
        ({"seasonal_period": 13}, "seasonal_order", "(0, 1, 1) and 13 steps"),
        ({"seasonal_period": 37}, "y", "108"),
    ],
    ids=str,
)
def test_orders_and_seasons_of_sarimax_that_are_refused(seasonal, options, argument, got):
    with pytest.raises(ArgumentError) as caught:
        baselines.SARIMAX(**options).fit(seasonal)
    assert (caught.value.argument, caught.value.got) == (argument, got)


def test_steps_and_histories_that_are_refused(seasonal):
    fitted = baselines.SeasonalNaive().fit(seasonal[5:100])
    counts = seasonal.set_axis(pd.RangeIndex(0, 324, 3))
    hours = seasonal.set_axis(pd.date_range("2024-01-01", periods=108, freq="3h"))
    counted, by_hours = (baselines.SeasonalNaive().fit(y) for y in (counts, hours))
    for call, message in (
        (lambda: fitted.forecast(0), "steps must be a whole number, at least 1; got 0"),
        (lambda: fitted.apply(seasonal), "begin with it or later, at 2010-06 .*; got 2010-01"),
        (
            lambda: fitted.apply(seasonal.set_axis(pd.RangeIndex(108))),
            "y must have the frequency of the fit, M; got 1. Fit a new model",
        ),
        (lambda: by_hours.apply(hours[::2]), "y must have the frequency of the fit, 3h; got 6h"),
        (
            lambda: by_hours.apply(hours.tz_localize("UTC")),
            "y must have the kind of index of the fit, DatetimeIndex without time zone",
        ),
        (
            lambda: counted.apply(counts.set_axis(pd.RangeIndex(30, 138))),
            "y must have the frequency of the fit, 3; got 1",
        ),
        (lambda: fitted.update(seasonal[101:]), "y_new must follow .* from 2018-05; got 7 values"),
        (lambda: fitted.update(seasonal[:0]), "y_new must follow .* got 0 values"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_histories_too_short_for_the_fitted_model_are_refused(seasonal):
    naive = baselines.SeasonalNaive().fit(seasonal)
    with pytest.raises(ValueError, match="at least 12 values for the fitted SeasonalNaive; got 11"):
        naive.apply(seasonal[-11:])
    sarimax_ = baselines.SARIMAX(order=(0, 2, 1)).fit(seasonal)
    with pytest.raises(ValueError, match="at least .* values for the fitted SARIMAX; got 2"):
        sarimax_.apply(seasonal[-2:])


def test_a_series_without_error_is_refused():
    sawtooth = monthly(np.tile(np.arange(12.0), 5))
    message = "y must leave an error to learn from; got a series that SeasonalNaive predicts exact"
    with pytest.raises(ValueError, match=message):
        baselines.SeasonalNaive().fit(sawtooth)


def test_a_baseline_in_a_combination_refuses_the_options_of_a_forecaster(seasonal):
    forecaster, model = Forecaster(GPRegressor(lengthscales=3.0), lags=2), baselines.SeasonalNaive()
    both = Combination([forecaster, model]).fit(seasonal)
    for option in ({"propagation": "naive"}, {"path_consistent": False}, {"exog_cov": np.eye(3)}):
        (name,) = option
        with pytest.raises(TypeError, match=f"{name} must be left out for {ident(model)}; got "):
            both.forecasters_[1].forecast(3, **option)
    with pytest.raises(TypeError, match=f"propagation must be left out for {ident(model)}; got 'n"):
        both.forecast(3, propagation="naive")


def test_constant_regressors_are_refused_where_the_model_has_a_constant(seasonal):
    exog = pd.DataFrame({"x": 1.0}, index=seasonal.index)
    with pytest.raises(ValueError, match="exog must vary; got column 'x' constant"):
        baselines.SARIMAX().fit(seasonal, exog)


def test_simulated_covariances_have_a_seed(seasonal):
    model, _ = kept(_Form("M", "N", "M"), seasonal)
    one, two = model.forecast(5).cov, model.forecast(5).cov
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    model.random_state = 1
    assert not one.equals(model.forecast(5).cov)
