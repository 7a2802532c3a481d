"""Bands by errors inside the training part: the formula by hand, and what must not count."""

import copy
import functools
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge

from forecast_unc import (
    Combination,
    Forecast,
    Forecaster,
    GPRegressor,
    RVMRegressor,
    load_model,
)
from forecast_unc.distributions.forecast import forecast_of, prediction_of
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.pool import calibration as module
from forecast_unc.forecasting.pool.backcast import Rolling, rolling_forecasts
from forecast_unc.forecasting.pool.calibration import (
    Calibration,
    Errors,
    calibration,
    conformal,
    rolling_errors,
)
from forecast_unc.forecasting.pool.past_scores import weights_by_scores
from forecast_unc.forecasting.pool.weights import average, own_changes
from forecast_unc.regression.predictor import ScikitLearnRegressor
from tests.members import ahead_of, in_turn, predicted
from tests.test_first_steps import assert_first_steps

N = 72
GP = GPRegressor(lengthscales=3.0, noise_std=0.5)  # nothing to search
HALF = stats.norm.cdf(1) - stats.norm.cdf(-1)


def series(n=N, gaps=(), seed=11):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    values = 20.0 + 3.0 * np.sin(2 * np.pi * t / 12) + np.cumsum(0.3 * rng.standard_normal(n))
    values += 0.5 * rng.standard_normal(n)
    values[list(gaps)] = np.nan
    return pd.Series(values, pd.date_range("2015-01-01", periods=n, freq="MS"), name="y")


def reference(h=4, cor=0.5, std=1.0):
    lag = np.abs(np.subtract.outer(np.arange(h), np.arange(h)))
    return Forecast(pd.RangeIndex(h), np.zeros(h), std**2 * cor**lag)


def made(forecast, change):
    """A forecast of another joint distribution."""
    prediction = prediction_of(forecast)
    return forecast_of(forecast.index, prediction.changed(change(prediction.joint)))


def conformal_of(forecast, z):
    return made(forecast, partial(conformal, errors=errors(z)))


def errors(z, level=0.0):
    z = np.asarray(z, dtype=float)
    return Errors(z, np.ones(z.shape), np.full(z.shape[1], level), 3 * len(z))


# The formula


def factor_by_hand(z, level, h):
    """The module's equation, step by step with plain loops."""
    sizes, weights = [], []
    for i, row in enumerate(z):
        known = [abs(v) for v in row[max(h // 2, 1) - 1 : h] if np.isfinite(v)]
        sizes += known
        weights += [np.exp(-2.0 * (len(z) - 1 - i) / (len(z) - 1))] * len(known)
    mean = np.average(np.minimum(sizes, 6.0), weights=weights)
    k = max(4, 3 * sum(np.isfinite(row[0]) for row in z))
    spread = np.clip(2 * np.log(mean / np.sqrt(2 / np.pi)), -1, 1) * (k / h) / (4 + k / h)
    b = module._BETA
    log_var = b[0] + spread + b[1] * np.clip(level, -1, 1) + b[2] / np.sqrt(1 + k)
    return np.exp(0.5 * log_var)


@pytest.mark.parametrize(
    ("size", "level"), in_turn([0.05, 0.7, 1.2, 4.0, 50.0], [-3.0, -0.4, 0.7, 5.0], times=2)
)
def test_factors_are_those_of_the_equation(rng, size, level):
    z = size * rng.standard_normal((9, 6))
    z[2, 0] = z[5, 3:] = np.nan
    found = calibration(errors(z, level), reference(6)._joint, 4)
    expected = [factor_by_hand(z, level, h) for h in range(1, 7)]
    np.testing.assert_allclose(found.factor, expected, rtol=1e-12)


def test_errors_count_by_the_widths_there(rng):
    """As sums of errors over sums of widths: quiet nights do not narrow the bands of the day."""
    z, unit = rng.standard_normal((9, 6)), rng.uniform(0.1, 3.0, (9, 6))
    z[4, 0] = unit[4, 0] = np.nan
    found = calibration(errors(z)._replace(unit=unit), reference(6)._joint, 4).factor
    recent = np.exp(-2.0 * (1.0 - np.arange(9) / 8.0))[:, None]
    sizes, units = np.nan_to_num(recent * np.abs(z * unit)), np.nan_to_num(recent * unit)
    for h in (1, 2, 6):
        steps = np.s_[:, max(h // 2, 1) - 1 : h]
        alike = np.full((9, 6), sizes[steps].sum() / units[steps].sum())
        alike[4, 0] = np.nan
        expected = calibration(errors(alike), reference(6)._joint, 4).factor
        assert found[h - 1] == pytest.approx(expected[h - 1], rel=1e-10)


def test_errors_of_recent_origins_count_most():
    later = np.repeat([[0.5], [2.0]], 5, axis=0)
    wider, narrower = (calibration(errors(z), reference(1)._joint, 1) for z in (later, later[::-1]))
    assert wider.factor > 1.2 * narrower.factor


def test_no_errors_leave_what_is_known_without():
    """The mean factor of bands of such a level, where four origins would say nothing."""
    for z in (np.zeros((0, 5)), np.full((7, 5), np.nan)):
        found = calibration(errors(z), reference(5)._joint, 4)
        b = module._BETA
        expected = np.exp(0.5 * (b[0] + b[2] / np.sqrt(5.0)))
        np.testing.assert_allclose(found.factor, expected, rtol=1e-12)
        assert found.correlation == 0.0
        assert found.dof == pytest.approx(module._degrees_of_freedom(np.zeros(0)))


def test_a_step_without_errors_takes_those_of_the_steps_before():
    z = np.full((6, 9), np.nan)
    z[:, 0] = 1.3
    found = calibration(errors(z), reference(9)._joint, 4).factor
    # steps 2 and 3 begin at step 1; of the later ones none has an error
    everywhere = calibration(errors(np.full((6, 9), 1.3)), reference(9)._joint, 4).factor
    np.testing.assert_allclose(found, everywhere, rtol=1e-12)


def test_errors_that_overlap_count_less():
    """Of errors above the usual size, later steps and fewer values believe less."""
    alike = errors(np.full((8, 6), 1.2))
    few, many = (
        calibration(alike._replace(n_values=n), reference(6)._joint, 4).factor for n in (20, 2000)
    )
    assert (np.diff(few) < 0).all()
    assert few[0] / few[-1] > 1.05 > many[0] / many[-1]


def test_larger_errors_and_lower_bands_make_wider_bands(rng):
    z = rng.standard_normal((20, 4))
    factors = [calibration(errors(s * z), reference()._joint, 4).factor for s in (0.8, 1.0, 1.3)]
    assert (np.diff(factors, axis=0) > 0).all()
    factors = [
        calibration(errors(z, level), reference()._joint, 4).factor for level in (-0.5, 0.0, 0.8)
    ]
    assert (np.diff(factors, axis=0) > 0).all()


def test_no_single_error_decides(rng):
    z = rng.standard_normal((20, 4))
    z[3, 0] = 6.0
    far = z.copy()
    far[3, 0] = 1e6
    a, b = (calibration(errors(each), reference()._joint, 4) for each in (z, far))
    np.testing.assert_allclose(a.factor, b.factor, rtol=1e-12)
    assert a.correlation == b.correlation


def test_errors_of_zero_are_finite():
    found = calibration(errors(np.zeros((12, 4))), reference()._joint, 4)
    assert np.isfinite(found.factor).all()
    assert (found.factor > 0).all()
    assert found.correlation == 0.0
    assert 3.0 <= found.dof <= 30.0


# Correlations


def correlated(rho, k=4000, h=4, seed=0):
    lag = np.abs(np.subtract.outer(np.arange(h), np.arange(h)))
    return np.random.default_rng(seed).standard_normal((k, h)) @ np.linalg.cholesky(rho**lag).T


def shown(z):
    """Sum of products over sum of mean squares, lags 1 to 3."""
    a, b = zip(*((i, j) for j in range(z.shape[1]) for i in range(j)), strict=True)
    left, right = z[:, a], z[:, b]
    return (left * right).sum() / (0.5 * (left**2 + right**2)).sum()


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("before", [0.2, 0.8])
def test_a_share_of_the_difference_of_the_correlations_is_believed(rho, before):
    z, ahead = correlated(rho), reference(4, before)
    r = calibration(errors(z), ahead._joint, 4).correlation
    was = np.mean([before, before, before, before**2, before**2, before**3])
    clipped = np.clip(z, -6, 6)
    target = was + module._BELIEVED * (shown(clipped) - was)
    changed = ahead.recalibrated(np.ones(4), correlation=r).cov.to_numpy()
    found = changed[np.triu_indices(4, 1)].mean()
    assert found == pytest.approx(target, abs=1e-9)
    assert np.sign(r) == np.sign(target - was)


def test_correlations_are_of_the_steps_looked_ahead_for_alone():
    z = correlated(0.5, 50, 9)
    spoiled = z.copy()
    spoiled[:, 4:] = 1e3
    found = [calibration(errors(each), reference(9)._joint, 4).correlation for each in (z, spoiled)]
    assert found[0] == found[1]


@pytest.mark.parametrize("z", [[[1.0, -1.0, 1.0, -1.0]] * 9, [[1.0, 1.0, 1.0, 1.0]] * 9])
@pytest.mark.parametrize("before", [-0.9, 0.0, 0.3, 1.0 - 1e-12])
def test_the_change_of_correlations_is_between_their_ends(z, before):
    cor = (1 - before) * np.eye(4) + before if before > 0 else np.eye(4)
    if before < 0:
        cor = np.array([[1, -0.9, 0.8, -0.7], [-0.9, 1, -0.9, 0.8]])
        cor = (-0.9) ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    ahead = Forecast(pd.RangeIndex(4), np.zeros(4), cor)
    r = calibration(errors(z), ahead._joint, 4).correlation
    assert -1.0 <= r <= 1.0
    ahead.recalibrated(np.ones(4), correlation=r)
    if before < 0:
        assert r == 0.0  # those that compensate stay as they are
    elif z[0][1] < 0 and before == 0.3:
        assert r == -1.0  # never below independence
    elif z[0][1] > 0 and before == 0.0:
        assert r == pytest.approx(module._BELIEVED)


def test_a_single_step_has_no_correlation():
    assert calibration(errors(np.ones((9, 1))), reference(1)._joint, 4).correlation == 0.0


# Degrees of freedom


def test_degrees_of_freedom_are_the_posterior_mean_of_their_logarithm(rng):
    """By scipy's density, the scale of each by a search."""
    z = rng.standard_t(4, 40)

    def log_likelihood(dof):
        loss = optimize.minimize_scalar(
            lambda s: -stats.t.logpdf(z, dof, 0.0, np.exp(s)).sum(),
            bounds=(-3, 3),
            method="bounded",
        )
        return -loss.fun

    prior = stats.norm.logpdf(np.log(module._DOF - 2), np.log(5), 1)
    log_p = prior + [log_likelihood(dof) for dof in module._DOF]
    weights = np.exp(log_p - log_p.max())
    expected = 2 + np.exp(np.sum(weights * np.log(module._DOF - 2)) / weights.sum())
    assert module._degrees_of_freedom(z) == pytest.approx(expected, rel=1e-3)
    assert module._degrees_of_freedom(100.0 * z) == pytest.approx(module._degrees_of_freedom(z))
    with_gaps = np.append(z, np.full(9, np.nan))
    assert module._degrees_of_freedom(with_gaps) == module._degrees_of_freedom(z)


def test_heavy_tails_have_fewer_degrees_of_freedom():
    levels = (np.arange(32) + 0.5) / 32
    heavy, light = stats.t.ppf(levels, 2), stats.norm.ppf(levels)
    none = module._degrees_of_freedom(np.zeros(0))
    assert 3.0 <= module._degrees_of_freedom(heavy) < none < module._degrees_of_freedom(light) <= 30
    assert module._degrees_of_freedom(np.array([0.1, 9.0, 0.1])) == none  # of three nothing
    spike = np.zeros(32)
    spike[3] = 1.0
    assert 3.0 <= module._degrees_of_freedom(spike) < none


def test_calibration_beyond_its_last_factor_takes_that_one():
    plain = reference(5)
    changed = made(plain, Calibration(np.array([1.0, 2.0]), 4.0, 0.0).of)
    expected = plain.recalibrated([1.0, 2.0, 2.0, 2.0, 2.0], dof=4.0)
    pd.testing.assert_frame_equal(changed.cov, expected.cov)
    longer = Calibration(np.array([1.0, 2.0, 3.0]), 4.0, 0.2).of
    assert_first_steps(made(plain, longer), made(plain.first(2), longer))


# Conformal


def test_conformal_takes_the_sizes_of_the_errors(rng):
    z, plain = rng.standard_normal((15, 3)), reference(3, std=2.0)
    found = conformal_of(plain, z)
    expected = plain.conformal(np.abs(z).T)
    q = np.linspace(0.01, 0.99, 25)
    np.testing.assert_allclose(found.quantile(q), expected.quantile(q), rtol=1e-9)


def test_conformal_steps_with_fewer_errors():
    """Own ones from 8 on, else those of the step before; whatever the other steps have."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((15, 4))
    z[10:, 1] = np.nan
    z[7:, 2] = np.nan
    plain = reference(6)
    found = conformal_of(plain, z)
    own = np.append(0.0, np.sort(np.abs(z[:10, 1])))
    scores = stats.norm.ppf(0.5 + 0.5 * np.arange(11) / 11)
    for i in range(1, 16):
        score = stats.norm.ppf(0.5 + 0.5 * i / 16)
        expected = np.interp(score, scores, own) * max(score / scores[-1], 1.0)
        upper = found.interval(i / 16)["upper"]
        np.testing.assert_allclose(upper[1:3], expected, rtol=1e-9)
    last = np.sort(np.abs(z[:, 3]))
    whole = found.interval(8 / 16).to_numpy()[:, 1]
    np.testing.assert_allclose(whole[3:], last[7], rtol=1e-9)


def test_conformal_bands_of_a_step_do_not_depend_on_those_after_it(rng):
    """Not even where more errors of these were observed."""
    z = rng.standard_normal((15, 3))
    z[:4, 0] = np.nan
    plain, q = reference(3), np.linspace(0.05, 0.95, 7)
    for n in (1, 2):
        fewer = conformal_of(plain.first(n), z[:, :n]).quantile(q)
        np.testing.assert_allclose(conformal_of(plain, z).quantile(q)[:n], fewer, rtol=1e-12)


def test_conformal_sizes_of_zero_are_small():
    z = np.zeros((10, 2))
    band = conformal_of(reference(2), z).interval(0.5)
    assert (band["upper"] > 0).all()
    assert (band["upper"] < 0.01).all()


@pytest.mark.parametrize("k", [0, 7])
def test_conformal_needs_errors(k):
    message = (
        "calibrate must not be 'conformal' with fewer than 8 errors; got "
        f"{k} from origins inside the series. Use True, or give more history."
    )
    with pytest.raises(ValueError, match=message):
        conformal(reference()._joint, errors(np.ones((k, 4))))
    y = series(14)
    model = Forecaster(GP, lags=4, calibrate="conformal").fit(y)
    with pytest.raises(ValueError, match="calibrate must not be 'conformal' with fewer than 8"):
        model.forecast(2)


# Errors of a model


def of_normal_scores(forecast):
    """A forecast that does not know its paths: bands are calibrated as of normal scores."""
    prediction = prediction_of(forecast)
    return forecast_of(forecast.index, prediction.changed(replace(prediction.joint, scores=None)))


@pytest.mark.parametrize("transform", [None, "boxcox"])
def test_errors_are_those_of_rolling_forecasts_in_units_of_the_band(transform):
    y = series()
    models = [Forecaster(GP, lags=p, transform=transform).fit(y).models_[0] for p in (2, 4)]
    members, own = [predicted(m, 5) for m in models], [ahead_of(m, 5) for m in models]
    shares = np.array([[0.5, 0.5, 0.9, 0.9, 1.0], [0.5, 0.5, 0.1, 0.1, 0.0]])
    found = rolling_errors(Rolling(tuple(models)), [None] * 2, members, shares)
    origins = Rolling(tuple(models)).origins
    for row in (*range(0, len(origins), 4), len(origins) - 1):
        origin = origins[row]
        for h in range(5):
            if origin + h >= N:
                assert np.isnan(found.z[row, h])
                continue
            center, unit = 0.0, 0.0
            for model, member, share in zip(models, own, shares[:, h], strict=True):
                rolled = rolling_forecasts(model, origins[row : row + 1], 5)
                band = member.interval(HALF).iloc[h]
                # the width on the scale, at the rolling forecast and at the one at the end
                power = model.transform.power
                exponent = 0.0 if power is None else 1.0 - power
                then, now = rolled.value[0, h], member.median.iloc[h]
                width = 0.5 * (band["upper"] - band["lower"])
                center += share * then
                unit += share * width * (then / now) ** exponent
            assert found.z[row, h] == pytest.approx((y.iloc[origin + h] - center) / unit, rel=1e-8)
    widths = [m.interval(HALF).to_numpy() @ [-0.5, 0.5] for m in own]
    unit = shares[0] * widths[0] + shares[1] * widths[1]
    np.testing.assert_allclose(found.level, np.log(y.var(ddof=0) / unit**2), rtol=1e-10)


def test_members_that_end_count_as_far_as_they_go():
    y = series()
    models = tuple(Forecaster(GP, lags=p).fit(y).models_[0] for p in (2, 4, 3))
    members = [predicted(m, 4) for m in models]
    shares = np.full((3, 4), 1 / 3)
    alike = [None] * 3
    half = np.array([[1 / 3] * 2 + [0.0] * 2, [1 / 3] * 4, [0.0] * 4])
    short = rolling_errors(Rolling(models), alike, [members[0].first(2), members[1], None], shares)
    expected = rolling_errors(Rolling(models), alike, members, half)
    np.testing.assert_allclose(short.level, expected.level, rtol=1e-12)
    np.testing.assert_allclose(short.z, expected.z, rtol=1e-12)
    none = rolling_errors(Rolling(models), alike, [None] * 3, shares)
    assert np.isnan(none.z).all()
    np.testing.assert_array_equal(none.level, 0.0)


def test_where_box_cox_ends_there_is_no_unit():
    """A median of 0 has no local scale; the step then has no errors, and the bands are defined."""
    y = series()
    (model,) = Forecaster(GP, lags=2, transform="boxcox").fit(y).models_
    model = replace(model, transform=PowerTransform(0.5))
    index = model.history.future(2).index
    at_zero = Forecast(index, [-2.2, 3.0], np.eye(2), transform=PowerTransform(0.5))
    assert at_zero.median.iloc[0] == 0.0
    found = rolling_errors(Rolling((model,)), [None], [prediction_of(at_zero)], np.ones((1, 2)))
    assert np.isnan(found.z[:, 0]).all()
    assert np.isfinite(found.z[:-1, 1]).all()
    assert np.isfinite(calibration(found, at_zero._joint, 2).factor).all()


def test_errors_against_what_was_not_observed_are_nan():
    y = series(gaps=(50, 60))
    (model,) = Forecaster(GP, lags=2).fit(y).models_
    member = predicted(model, 3)
    found = rolling_errors(Rolling((model,)), [None], [member], np.ones((1, 3)))
    origins = Rolling((model,)).origins
    times = origins[:, None] + np.arange(3)
    missing = np.isin(times, (50, 60)) | (times >= N)
    assert np.isnan(found.z[missing]).all()
    after = np.isin(origins, (51, 61))  # which look back at a gap that lasts until the origin
    assert np.isnan(found.z[after]).any(axis=1).all()
    known = ~missing & ~np.isin(origins, (51, 52, 61, 62))[:, None]
    assert np.isfinite(found.z[known]).all()


# The forecaster


MODELS = {
    "levels": Forecaster(GP, lags=3),
    "changes": Forecaster(GP, lags=2, differences=1, transform="log", max_train=40),
    "season": Forecaster(GP, lags=2, differences=(1, 12)),
    "boxcox": Forecaster(GP, lags=2, transform="boxcox"),
    "rvm": Forecaster(RVMRegressor(lengthscales=3.0), lags=3),
    "automatic": Forecaster(),
}


def fitted(name, calibrate=True, y=None):
    return _fitted(name, calibrate) if y is None else _model(name, calibrate).fit(y)


@functools.cache
def _fitted(name, calibrate):
    return _model(name, calibrate).fit(series())


def _model(name, calibrate):
    return clone(MODELS[name]).set_params(calibrate=calibrate)


@pytest.fixture(params=MODELS, ids=str)
def name(request):
    return request.param


@pytest.fixture(params=[True, "conformal"], ids=str)
def kind(request):
    return request.param


def uncalibrated(model):
    plain = copy.copy(model)
    rules = replace(model.ensemble_.rules, calibrate=False)
    plain.ensemble_ = replace(model.ensemble_, rules=rules)
    return plain


def test_automatic_lags_are_calibrated_and_given_ones_are_not():
    """So that a model that was specified is the model that was specified."""
    y = series()
    assert Forecaster().calibrate == "auto"
    automatic = Forecaster().fit(y)
    for model in (automatic, fitted("automatic")):
        assert model.forecast(3).decompose()["calibration"].abs().max() > 0
    for forecaster in (Forecaster(GP, lags=3), Forecaster(GP, lags=3, calibrate=False)):
        parts = forecaster.fit(y).forecast(3).decompose()
        assert (parts["calibration"] == 0).all()
    off = Forecaster(calibrate=False).fit(y).forecast(3)
    pd.testing.assert_frame_equal(off.cov, uncalibrated(automatic).forecast(3).cov)


@pytest.mark.parametrize("value", ["Conformal", "yes", None, 2, 0.5, "false"])
def test_calibrate_is_one_of_four(value):
    with pytest.raises(
        ValueError,
        match=r"calibrate must be one of 'auto', False, True, 'conformal'; got .*Leave it out",
    ):
        Forecaster(calibrate=value).fit(series())


def test_the_forecast_is_recalibrated_by_hand(name):
    model = fitted(name)
    plain, ahead = uncalibrated(model), model.forecast(6)
    before = plain.forecast(6)
    horizon = max(6, model.ensemble_.rules.averaging.look_ahead)
    rule = model.ensemble_.rules.averaging
    asks = [partial(predicted, m) for m in model.models_]
    changes = own_changes(model.ensemble_.history.y, horizon)
    index = model.ensemble_.history.future(horizon).index
    noise = [m.noise_ahead(index) for m in model.models_]
    factors = partial(weights_by_scores, model.ensemble_.rolling, noise)
    votes = model.ensemble_.votes
    averaged = average(rule, asks, votes, horizon, change_widths=changes, score_factors=factors)
    found = rolling_errors(
        Rolling(model.models_), noise, averaged.members, averaged.shares, rule.disagreement
    )
    made = calibration(found, averaged.reference.joint, rule.look_ahead)
    expected = before.recalibrated(made.factor[:6], dof=made.dof, correlation=made.correlation)
    np.testing.assert_allclose(ahead.cov, expected.cov, rtol=1e-8)
    np.testing.assert_allclose(ahead.median, before.median, rtol=1e-9)
    np.testing.assert_allclose(ahead.interval(0.95), expected.interval(0.95), rtol=1e-8)


@pytest.mark.parametrize(("name", "kind"), in_turn(list(MODELS), [True, "conformal"]))
def test_decompose_adds_up(name, kind):
    ahead = fitted(name, kind).forecast(8)
    parts = ahead.decompose()
    np.testing.assert_allclose(parts.sum(axis=1), ahead.var, rtol=1e-10)
    before = uncalibrated(fitted(name, kind)).forecast(8)
    np.testing.assert_allclose(parts["calibration"], ahead.var - before.var, rtol=1e-8, atol=1e-12)
    total = ahead.aggregate("sum")
    np.testing.assert_allclose(total.decompose().sum(axis=1), total.var, rtol=1e-10)


@pytest.mark.parametrize(
    ("propagation", "name", "kind"),
    in_turn(
        ["taylor", "monte_carlo", "naive", "mixture"],
        ["levels", "changes", "automatic"],
        [True, "conformal"],
    ),
)
def test_all_propagations_have_the_factors_of_the_exact_one(name, propagation, kind):
    model = fitted(name, kind)
    options = {"propagation": propagation, "n_samples": 50, "random_state": 0}
    before = uncalibrated(model).forecast(5, **options)
    exact, plain = (one.forecast(5, propagation="exact") for one in (model, uncalibrated(model)))
    ahead = model.forecast(5, **options)
    assert ahead.propagation == before.propagation
    before = of_normal_scores(before)
    for level in (0.7, 0.975):
        # on the scale of a single component; of an average the same ratio at each member's
        scale = model.models_[0].transform if len(model.models_) == 1 else PowerTransform()
        ratios = [
            (scale.forward(one.quantile(level)) - scale.forward(one.median))
            / (scale.forward(other.quantile(level)) - scale.forward(other.median))
            for one, other in ((ahead, before), (exact, plain))
        ]
        tolerance = 1e-5 if len(model.models_) == 1 else 0.2
        np.testing.assert_allclose(*ratios, rtol=tolerance)


def test_a_gap_at_the_origin_does_not_shrink_the_bands():
    """The factors are those of the steps since the last value, of the band from there."""
    y = series()
    model = fitted("levels", True, y)
    applied = model.apply(y.where(np.arange(N) < N - 1).iloc[:N])
    ratio, expected = (
        each.forecast(h, propagation="exact").std
        / uncalibrated(each).forecast(h, propagation="exact").std
        for each, h in ((applied, 4), (model, 5))
    )
    np.testing.assert_allclose(ratio, expected.iloc[1:], rtol=1e-9)


def test_measurement_errors_do_not_shrink_the_bands(kind):
    y = series()
    stds = pd.Series(np.where(np.arange(N) >= N - 3, 2.0, 0.0), y.index)
    noisy = Forecaster(GP, lags=3, calibrate=kind).fit(y, y_std=stds)
    exact = Forecaster(GP, lags=3, calibrate=kind).fit(y)
    ratio = [m.forecast(4).std / uncalibrated(m).forecast(4).std for m in (noisy, exact)]
    np.testing.assert_allclose(*ratio, rtol=1e-9)
    assert (noisy.forecast(1).std > exact.forecast(1).std).all()


def test_uncertain_regressors_do_not_shrink_the_bands(kind):
    y = series()
    times = pd.date_range(y.index[0], periods=N + 4, freq="MS")
    exog = pd.DataFrame({"sine": np.sin(np.arange(N + 4.0))}, times)
    y = y + 2.0 * exog["sine"].iloc[:N].to_numpy()
    model = Forecaster(GP, lags=2, calibrate=kind).fit(y, exog[:N])
    std = pd.DataFrame(1.0, times[N:], exog.columns)
    ratio = []
    for more in ({}, {"exog_std": std}):
        options = more | {"propagation": "exact"}
        ahead = model.forecast(4, exog[N:], **options)
        ratio.append(ahead.std / uncalibrated(model).forecast(4, exog[N:], **options).std)
    np.testing.assert_allclose(*ratio, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "automatic"])
def test_apply_keeps_the_calibration_and_update_renews_it(name):
    y, model = series(90), None
    model = fitted(name, True, y[:72])
    other = y[:80] + 1.0
    applied = model.apply(other)
    widths = [
        (one.forecast(3).quantile(0.9) - one.forecast(3).median)
        / (uncalibrated(one).forecast(3).quantile(0.9) - uncalibrated(one).forecast(3).median)
        for one in (model, applied)
    ]
    if len(model.models_) == 1 and model.models_[0].transform.power is None:
        # of a step that is as good as normal; others, of a mixture, keep its shape
        np.testing.assert_allclose(*widths, rtol=1e-2)
    assert applied.ensemble_.trained == model.ensemble_.trained
    updated = copy.copy(model).update(y[72:])
    assert updated.ensemble_.trained == updated.models_
    assert len(updated.ensemble_.trained[0].past.levels) == 90
    before = uncalibrated(updated).forecast(3)
    ratio = (updated.forecast(3).quantile(0.9) - before.median) / (
        before.quantile(0.9) - before.median
    )
    assert not np.allclose(ratio, widths[0], rtol=1e-6)
    assert len(model.ensemble_.history.y) == 72


def test_update_is_the_calibration_of_the_longer_series():
    """Of the same hyper-parameters and scale: the errors of all origins of the longer series."""
    y = series(90)
    updated = fitted("levels", True, y[:72]).update(y[72:])
    (model,) = updated.models_
    assert Rolling((model,)).origins[-1] == 89
    member = predicted(model, 4)
    found = rolling_errors(Rolling((model,)), [None], [member], np.ones((1, 4)))
    made = calibration(found, member.joint, 4)
    expected = ahead_of(model, 4).recalibrated(
        made.factor, dof=made.dof, correlation=made.correlation
    )
    found = updated.forecast(4, propagation="exact")
    np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-9)


@pytest.mark.parametrize(("name", "kind"), in_turn(["levels", "automatic"], ["conformal", True]))
def test_a_saved_model_and_a_clone_have_the_same_bands(name, kind, tmp_path):
    model = fitted(name, kind)
    ahead = model.forecast(4)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(model)).forecast(4).cov, ahead.cov)
    again = load_model(tmp_path / "model")
    np.testing.assert_allclose(again.forecast(4).cov, ahead.cov, rtol=1e-9)
    assert model.get_params()["calibrate"] == kind
    again = clone(model).fit(series())
    np.testing.assert_allclose(again.forecast(4).cov, ahead.cov, rtol=1e-8)


def test_a_scikit_learn_regressor_is_calibrated_by_taylor():
    model = Forecaster(BayesianRidge(), lags=3, calibrate=True).fit(series())
    assert isinstance(model.models_[0].regressor, ScikitLearnRegressor)
    ahead = model.forecast(4, propagation="taylor")
    before = uncalibrated(model).forecast(4, propagation="taylor")
    assert not np.allclose(ahead.std, before.std)
    np.testing.assert_allclose(ahead.median, before.median)
    assert_first_steps(ahead, model.forecast(2, propagation="taylor"), 1e-9)


def test_a_combination_keeps_its_members_bands():
    y = series()
    members = [Forecaster(GP, lags=p, calibrate=c) for p, c in ((2, True), (3, "conformal"))]
    both = Combination(members).fit(y).forecast(4)
    own = [clone(m).fit(y).forecast(4) for m in members]
    q = np.array([0.01, 0.2, 0.5, 0.95])
    expected = 0.5 * (own[0].quantile(q) + own[1].quantile(q))
    np.testing.assert_allclose(both.quantile(q), expected, rtol=1e-9)


def test_a_series_too_short_for_origins_is_calibrated_without():
    model = Forecaster(GPRegressor(lengthscales=3.0), lags=3, calibrate=True).fit(series(7))
    ahead, before = model.forecast(3), uncalibrated(model).forecast(3)
    assert np.isfinite(ahead.std).all()
    np.testing.assert_allclose(ahead.median, before.median, rtol=1e-6)


@pytest.mark.parametrize("name", ["levels", "season", "changes"])
def test_a_change_of_units_changes_the_units(name, kind):
    """To 1 %: where the searches for the hyper-parameters end differs by roundoff."""
    y, shift = series(), 0.0 if name == "changes" else 5.0  # a logarithm knows no shift
    ahead, moved = (fitted(name, kind, each).forecast(4) for each in (y, shift + 3.0 * y))
    np.testing.assert_allclose(moved.std, 3.0 * ahead.std, rtol=1e-2)
    np.testing.assert_allclose(moved.mean, shift + 3.0 * ahead.mean, rtol=1e-2)


def test_members_that_explode_are_averaged_without_a_warning():
    """Of one series of hours they were 1e200 apart."""
    shares, units = np.full((2, 1), 0.5), np.ones((2, 1))
    center, unit = module._average(np.array([[1.0], [1e200]]), units, shares, True)
    assert center[0] == pytest.approx(5e199)
    assert np.isinf(unit[0])


def test_changes_of_correlations_do_not_depend_on_units(rng):
    steps = np.arange(6)
    cov = 0.3 ** np.abs(np.subtract.outer(steps, steps))
    z = np.clip(rng.standard_normal((40, 6)).cumsum(axis=1), -2.0, 2.0)
    change = module._correlation(z, cov)
    assert 0.05 < change <= 1.0
    units = 10.0 ** (steps - 2.0)
    assert module._correlation(z, cov * np.outer(units, units)) == pytest.approx(change, rel=1e-9)
