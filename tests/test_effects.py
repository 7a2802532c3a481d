"""Regressors of the automatic choice: lags, changes, effects; against least squares and paths."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from forecast_unc import Forecaster, GPRegressor, load_model
from forecast_unc.forecasting.models.exog_effects import ExogEffects
from forecast_unc.regression.linear import LinearRegressor

N, H = 150, 8


@pytest.fixture(scope="module")
def index():
    return pd.period_range("2010-01", periods=N + H, freq="M")


@pytest.fixture(scope="module")
def exog(index):
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"promo": (rng.random(N + H) < 0.3).astype(float), "price": rng.normal(size=N + H)}, index
    )


@pytest.fixture(scope="module")
def y(index, exog):
    """A walk, moved by a promotion, by the same one month later, and by a price."""
    rng, promo = np.random.default_rng(6), exog["promo"].to_numpy()
    before = np.concatenate([[0.0], promo[:-1]])
    walk = rng.normal(0.0, 0.4, N + H).cumsum()
    values = (
        40.0 + walk + 6.0 * promo - 3.0 * before - 1.5 * exog["price"] + rng.normal(0, 0.3, N + H)
    )
    return pd.Series(values, index, name="sales")


@pytest.fixture(scope="module")
def model(y, exog):
    return Forecaster(exog_lags=1).fit(y[:N], exog[:N])


def test_effects_are_those_that_were_simulated(model):
    found = model.effects(0.95)
    truth = pd.Series([6.0, -1.5, -3.0, 0.0], found.index)
    assert found.index.tolist() == ["promo", "price", "promo, 1 before", "price, 1 before"]
    assert (found["effect"] - truth).abs().max() < 0.8
    assert ((found["lower"] <= truth) & (truth <= found["upper"])).all()
    assert (model.effects(0.5)["upper"] < found["upper"]).all()


def test_effects_of_a_plain_linear_model_are_those_of_least_squares(y, exog):
    own = LinearRegressor(groups=(0, 0, 0), bias="free")
    model = Forecaster(own, lags=1, transform=None).fit(y[:N], exog[:N])
    X = sm.add_constant(np.column_stack([y[: N - 1], exog[1:N]]))
    fit = sm.OLS(y[1:N].to_numpy(), X).fit()
    found = model.effects(0.9)
    np.testing.assert_allclose(found["effect"], fit.params[2:], rtol=0.03, atol=0.02)
    width = (found["upper"] - found["lower"]).to_numpy() / (2 * 1.645)
    np.testing.assert_allclose(width, fit.bse[2:], rtol=0.1)


def test_a_lasting_effect_is_the_sum_of_what_lags_pass_on(y, exog):
    model = Forecaster(LinearRegressor(), lags=1, exog_lags=1).fit(y[:N], exog[:N])
    found = model.effects(0.9, steps=H)
    one = model.models_[0].one_step
    ar, *now = one.posterior.gradient(np.zeros((1, 5)))[0]
    size = one.differencing.scale
    powers = ar ** np.arange(H)
    # today's from the first step on, that of a step before from the second
    expected = size * (np.array(now[:2]) * powers.sum() + np.array(now[2:]) * powers[:-1].sum())
    np.testing.assert_allclose(found["lasting"][:2], expected, rtol=0.03)
    assert found["lasting"][2:].isna().all()
    assert (found["lasting_lower"] < found["lasting"])[:2].all()
    pd.testing.assert_frame_equal(found.iloc[:, :3], model.effects(0.9))


def test_an_effect_on_levels_stays_over_the_horizon(model, exog):
    """Of models of changes too, where eight such changes would add up to -12."""
    future = exog[N:]
    higher = future.assign(price=future["price"] + 1.0)
    moved = model.forecast(H, higher).mean - model.forecast(H, future).mean
    np.testing.assert_allclose(moved, -1.5, atol=1.2)


def test_regressors_are_worth_what_they_explain(y, exog, model):
    """Three quarters of what the series gains that is without the effects."""
    effect = (
        6.0 * exog["promo"] - 3.0 * exog["promo"].shift(1, fill_value=0.0) - 1.5 * exog["price"]
    )
    plain = y - effect
    best = (plain[N:] - Forecaster().fit(plain[:N]).forecast(H).mean).abs().mean()
    found = (y[N:] - model.forecast(H, exog[N:]).mean).abs().mean()
    without = (y[N:] - Forecaster().fit(y[:N]).forecast(H).mean).abs().mean()
    assert found < best + 0.25 * (without - best)


def test_a_useless_regressor_changes_little(y, exog):
    rng, wide = np.random.default_rng(0), y[:N] - 6.0 * exog["promo"][:N]
    plain = Forecaster().fit(wide).forecast(H)
    for k in (1, 10):
        noise = pd.DataFrame(rng.normal(size=(N + H, k)), exog.index, [f"x{i}" for i in range(k)])
        model = Forecaster().fit(wide, noise[:N])
        ahead = model.forecast(H, noise[N:])
        assert ((ahead.mean - plain.mean).abs() < 0.35 * plain.std).all()
        np.testing.assert_allclose(ahead.std, plain.std, rtol=0.2)
        assert any("effects of the regressors are taken" in line for line in model.choices_)


def slopes(model, future, std):
    """Change of the mean, by std of each value of the regressors, as a matrix (h, h * k)."""
    columns = []
    for at in np.eye(future.size).reshape(-1, *future.shape):
        up, down = (model.forecast(len(future), future + sign * std * at).mean for sign in (1, -1))
        columns.append((up - down) / 2)
    return np.column_stack(columns)


def test_errors_of_regressors_pass_through_lags_and_changes(y, exog):
    """Variance with uncertain regressors = that without + variance of the mean, by its slopes."""
    own = LinearRegressor(groups=(0, 0, 0, 0, 0), bias="free")
    settings = {"lags": 1, "transform": None, "exog_lags": 1}
    model = Forecaster(own, **settings).fit(y[:N], exog[:N])
    rng = np.random.default_rng(2)
    root = np.tril(rng.normal(size=(6, 6)))
    cov = 0.02 * root @ root.T
    future = exog[N : N + 3]
    found = model.forecast(3, future, cov)
    J = slopes(model, future, 1.0)
    expected = model.forecast(3, future).cov + J @ cov @ J.T
    np.testing.assert_allclose(found.cov, expected, rtol=0.02, atol=0.005)


def test_changes_of_regressors_carry_their_errors(y, exog):
    """In an average with models of changes; std with errors against that of moved regressors."""
    model = Forecaster(transform=None, calibrate=False).fit(y[:N], exog[:N])
    future, std = exog[N : N + 3], 0.5
    found = model.forecast(3, future, exog_std=future * 0.0 + std)
    plain = model.forecast(3, future)
    expected = np.sqrt(plain.var + (slopes(model, future, std) ** 2).sum(axis=1))
    np.testing.assert_allclose(found.std, expected, rtol=0.15)


def test_lags_of_regressors_go_on_from_what_is_known(y, exog, model, tmp_path):
    ahead = model.forecast(3, exog[N : N + 3])
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_allclose(again.forecast(3, exog[N : N + 3]).mean, ahead.mean, rtol=1e-9)
    pd.testing.assert_frame_equal(again.effects(), model.effects(), rtol=1e-9)
    moved = model.apply(y[: N + 2], exog[: N + 2]).forecast(3, exog[N + 2 : N + 5])
    later = again.update(y[N : N + 2], exog[N : N + 2]).forecast(3, exog[N + 2 : N + 5])
    np.testing.assert_allclose(later.mean, moved.mean, atol=0.5)
    fitted = model.fitted()
    assert fitted.residuals.abs().mean() < 1.2


def test_errors_say_what_to_do(y, exog, model):
    with pytest.raises(ValueError, match="exog_lags must be a whole number, at least 0"):
        Forecaster(exog_lags=-1).fit(y[:N], exog[:N])
    with pytest.raises(ValueError, match="exog must be given to `fit` for effects; got none"):
        Forecaster().fit(y[:N]).effects()
    with pytest.raises(ValueError, match="coverage must"):
        model.effects(1.5)
    log = Forecaster(GPRegressor(), lags=1, transform="log").fit(y[:N], exog[:N])
    slope = (log.forecast(1, exog[N : N + 1] * 0.0 + [1.0, 0.0]).median.item()) - (
        log.forecast(1, exog[N : N + 1] * 0.0).median.item()
    )
    assert log.effects()["effect"].iloc[0] == pytest.approx(slope, rel=0.3)


def test_effects_before_smoothing_know_their_errors():
    """90 % intervals of a promotion in a walk with noise: .84 of 150."""
    inside = []
    for seed in range(30):
        rng, promo = np.random.default_rng(seed), np.zeros(40)
        promo[rng.choice(40, 6, replace=False)] = 1.0
        levels = 0.5 * rng.standard_normal(40).cumsum() + rng.standard_normal(40) + 3.0 * promo
        index = pd.period_range("2022-01", periods=40, freq="M")
        both = np.column_stack([promo, np.ones(40)])
        found = ExogEffects.learn(levels, index, both, 0, ())
        inside.append(abs(found.weights[0] - 3.0) < 1.645 * np.sqrt(found.cov[0, 0]))
        assert found.weights[1] == found.cov[1, 1] == 0.0
    assert 0.7 < np.mean(inside) < 0.97


@pytest.mark.parametrize(("price", "std", "effect"), [(2020.0, 3.0, 5.0)])
def test_the_zero_of_a_regressor_changes_no_effect(price, std, effect):
    """Taken out of logarithms, prices of 1000 had 43 times their effect, by the slope there."""
    rng, index = np.random.default_rng(0), pd.period_range("2018-01", periods=96, freq="M")
    x = std * rng.normal(size=96)
    y = pd.Series(100.0 * np.exp(effect / 100.0 * x + 0.05 * rng.normal(size=96)), index)
    found = [Forecaster().fit(y, pd.DataFrame({"price": zero + x}, index)) for zero in (0.0, price)]
    near, far = (one.effects() for one in found)
    np.testing.assert_allclose(far, near, rtol=0.02)
    assert far["effect"].item() == pytest.approx(effect, rel=0.2)
    stds = [re.findall(r"noise: standard deviation ([\d.]+)", one.summary()) for one in found]
    np.testing.assert_allclose(*(np.array(one, dtype=float) for one in stds), rtol=0.05)


@pytest.mark.parametrize("unit", [1e-3, 1e7])
def test_the_unit_of_a_regressor_is_that_of_its_effect(unit):
    """In thousandths one unit was a thousand stds away, and a logarithm's effect 1.5e33."""
    rng, index = np.random.default_rng(0), pd.period_range("2018-01", periods=96, freq="M")
    x = rng.normal(size=96)
    y = pd.Series(100.0 * np.exp(0.04 * x + 0.05 * rng.normal(size=96)), index)
    one, other = (
        Forecaster().fit(y, pd.DataFrame({"x": x * own}, index)).effects() for own in (1.0, unit)
    )
    assert one["effect"].item() == pytest.approx(4.0, rel=0.2)
    np.testing.assert_allclose(other * unit, one, rtol=0.02)


def test_an_effect_is_that_on_a_usual_value(y, exog):
    """Not on the last one, which a promotion may have raised."""
    x = exog[:N]
    at = Forecaster(GPRegressor(), lags=1, transform="log").fit(y[:N], x)
    raised = y[:N].copy()
    raised.iloc[-1] *= 1.5
    after = Forecaster(GPRegressor(), lags=1, transform="log", outliers="keep").fit(raised, x)
    np.testing.assert_allclose(after.effects()["effect"], at.effects()["effect"], rtol=0.2)


def test_correlated_errors_of_regressors_stay_correlated():
    """The calibration, learned where they were known, made the std of this sum .67 of the truth."""
    rng, steps, found = np.random.default_rng(0), 12, []
    cov = 0.9 ** np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    index = pd.date_range("2015-01-01", periods=96 + steps, freq="MS")
    for _ in range(3):
        x = pd.DataFrame({"x": rng.normal(size=96 + steps)}, index)
        y = 100.0 + 3.0 * x["x"] + 2.0 * rng.normal(size=96 + steps)
        model = Forecaster().fit(y[:96], x[:96])
        total = model.forecast(steps, x[96:], exog_cov=cov).aggregate("sum")
        found.append(total.std.item() / np.sqrt(4.0 * steps + 9.0 * cov.sum()))
    assert 0.85 < np.mean(found) < 1.15


def test_an_effect_that_no_model_has_learned_is_nan(y, exog):
    never = exog[:N].assign(price=1.0)
    found = Forecaster().fit(y[:N], never).effects()
    assert found.loc["price"].isna().all()
    assert found.loc["promo"].notna().all()
    few = Forecaster().fit(y[:5], exog[:5])
    assert few.effects().isna().all(axis=None)
    assert not any("taken out" in line for line in few.choices_)


def test_what_changes_only_where_y_is_missing_has_no_effect():
    rng, index = np.random.default_rng(0), pd.RangeIndex(40)
    exog = pd.DataFrame({"closed": 0.0, "price": rng.normal(size=40)}, index)
    y = pd.Series(5.0 + exog["price"] + 0.1 * rng.normal(size=40), index)
    exog.iloc[20:22, 0], y.iloc[20:22] = 1.0, np.nan
    found = Forecaster(LinearRegressor(), lags=1).fit(y, exog).effects()
    assert found.loc["closed"].isna().all()
    assert found.loc["price", "effect"] == pytest.approx(1.0, abs=0.2)
