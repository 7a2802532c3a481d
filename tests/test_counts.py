"""Counts with zeros: the filter against its recursion, forecasts against paths and quadrature."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from forecast_unc import Forecaster, load_model
from forecast_unc.forecasting.models.counts import (
    _OCCURRENCE,
    _SIZE,
    CountModel,
    filtered,
    log_size,
)
from tests.members import ahead_of


@pytest.fixture
def parts(rng):
    """Monthly demand, seven of ten months without."""
    y = rng.binomial(1, 0.3, 60) * (1 + rng.poisson(2.0, 60))
    index = pd.period_range("2020-01", periods=60, freq="M")
    return pd.Series(y.astype(float), index, name="<part>")


def test_states_follow_their_recursion(parts):
    y, prior = parts.to_numpy().copy(), np.array([0.4, 1.7])
    y[[5, 17]] = np.nan
    found = filtered(y, prior)
    for i, delta in enumerate(_OCCURRENCE):
        a, b = 2.0 * 0.4, 2.0 * 0.6
        for t, value in enumerate(y):
            assert (found.a[i, t], found.b[i, t]) == pytest.approx((a, b))
            a, b = delta * a + (value > 0), delta * b + (value == 0)
        assert (found.a[i, -1], found.b[i, -1]) == pytest.approx((a, b))
    for i, (gamma, r) in enumerate(_SIZE):
        poisson = np.isinf(r)
        c = 2.0 * 1.7 if poisson else 2.0 * r + 3.0
        d = 2.0 if poisson else 1.7 * (c - 1.0) / r  # r d / (c - 1) is the mean
        for t, value in enumerate(y):
            assert (found.c[i, t], found.d[i, t]) == pytest.approx((c, d))
            if value > 0:
                x = value - 1.0
                c, d = gamma * c + (x if poisson else r), gamma * d + (1.0 if poisson else x)


@pytest.mark.parametrize(("r", "c", "d"), [(np.inf, 3.4, 2.1), (0.3, 4.2, 6.0), (3.0, 8.0, 2.5)])
def test_sizes_are_mixtures_over_the_state(r, c, d):
    x = np.arange(6.0)
    if np.isinf(r):
        rate = stats.gamma(c, scale=1.0 / d)
        of = [
            integrate.quad(lambda m, k=k: stats.poisson.pmf(k, m) * rate.pdf(m), 0, 60)[0]
            for k in x
        ]
    else:
        q = stats.beta(c, d)
        of = [
            integrate.quad(lambda p, k=k: stats.nbinom.pmf(k, r, p) * q.pdf(p), 0, 1)[0] for k in x
        ]
    np.testing.assert_allclose(np.exp(log_size(x, r, c, d)), of, rtol=1e-6)


def test_weights_are_the_evidence_of_what_came(parts):
    """Products of the probabilities of each value by those before it."""
    own, y = Forecaster().fit(parts).models_[0], parts.to_numpy()
    states, occurrence, size = (
        filtered(y, own.prior),
        np.ones(len(_OCCURRENCE)),
        np.ones(len(_SIZE)),
    )
    for t, value in enumerate(y):
        a, b, c, d = (one[:, t] for one in states)
        occurrence *= (a if value > 0 else b) / (a + b)
        if value > 0:
            for i, (_, r) in enumerate(_SIZE):
                size[i] *= np.exp(log_size(np.array([value - 1.0]), r, c[i], d[i])[0])
    np.testing.assert_allclose(own.occurrence, occurrence / occurrence.sum(), rtol=1e-9)
    np.testing.assert_allclose(own.size, size / size.sum(), rtol=1e-9)


def test_forecast_is_that_of_its_paths(parts):
    model = Forecaster().fit(parts)
    assert [type(one) for one in model.models_] == [CountModel]
    ahead = model.forecast(6)
    own = model.models_[0]
    paths = own.sample_paths(model.ensemble_.history.future(6), 200_000, 1)
    k = np.arange(8.0)
    np.testing.assert_allclose(ahead.cdf(k).iloc[0], [(paths <= v).mean() for v in k], atol=3e-3)
    assert ahead.mean.iloc[0] == pytest.approx(paths.mean(), rel=0.01)
    assert ahead.std.iloc[2] == pytest.approx(paths.std(), rel=0.01)
    before = ahead_of(own, 6)  # before it is rounded
    assert before.std.iloc[2] == pytest.approx(paths.std(), rel=0.01)
    assert before.mean.iloc[2] == pytest.approx(paths.mean(), rel=0.01)
    unrounded = before._joint.draw(200_000, 1)
    np.testing.assert_array_equal(np.round(unrounded), paths)
    cov = np.cov(paths.T)
    off = ~np.eye(6, dtype=bool)
    assert before.cov.to_numpy()[off].mean() == pytest.approx(cov[off].mean(), rel=0.03)
    assert ahead.cov.to_numpy()[off].mean() == pytest.approx(cov[off].mean(), abs=0.03 * cov[0, 0])
    total, sums = ahead.aggregate("sum"), paths.sum(axis=1)
    assert total.std.item() == pytest.approx(sums.std(), rel=0.02)
    for v in (0.0, 3.0, 10.0):
        assert total.cdf(v).item() == pytest.approx((sums <= v).mean(), abs=0.025)
        assert total.quantile(0.9).item() % 1.0 == 0.0


def test_the_prior_is_of_the_sizes_that_occur(parts):
    (model,) = Forecaster().fit(parts).models_
    sizes = parts[parts > 0]
    expected = (len(sizes) + 0.5) / (len(parts) + 1.0), sizes.mean() - 1.0
    np.testing.assert_allclose(model.prior, expected, rtol=1e-12)


def test_steps_that_are_0_or_1_share_their_probability_alone(rng):
    y = pd.Series(
        rng.binomial(1, 0.3, 80).astype(float), pd.period_range("2018-01", periods=80, freq="M")
    )
    ahead = Forecaster().fit(y).forecast(2)
    cov, var = ahead.cov.iloc[0, 1], ahead.var.iloc[0]
    assert 0.0 < cov < 0.3 * var
    # the joint of the scores has this covariance before values are rounded
    paths = ahead.paths.to_numpy()
    assert cov == pytest.approx(np.cov(paths)[0, 1], abs=4.0 * var / np.sqrt(paths.shape[1]))


def test_checks_compare_with_the_paths_of_the_model(parts):
    """Each step is exact, and the correlations of scores are nearly those of the paths."""
    found = Forecaster().fit(parts).forecast(6).check(4000, random_state=0)
    steps = found.frame.iloc[:-1]
    np.testing.assert_allclose(steps["std_ratio"], 1.0, atol=0.06)
    assert (steps["mean_error"].abs() < 4.0).all()  # in standard errors
    assert found.frame["std_ratio"].iloc[-1] == pytest.approx(1.0, abs=0.1)


def test_quantiles_are_whole_and_atoms_are_stated(parts):
    ahead = Forecaster().fit(parts).forecast(3)
    q = ahead.quantile([0.1, 0.5, 0.9, 0.99])
    assert (q >= 0).all(axis=None)
    assert (q % 1 == 0).all(axis=None)
    first = ahead.atoms.loc[ahead.index[0]].set_index("value")["probability"]
    assert first[0.0] == pytest.approx(ahead.prob(upper=0).iloc[0], abs=1e-9)
    assert first.sum() == pytest.approx(1.0, abs=1e-4)
    # at least 3 of a count is more than 2, and more than 2.9
    np.testing.assert_allclose(ahead.prob(lower=2), ahead.prob(lower=2.9), atol=1e-12)


def test_first_steps_are_those_of_a_longer_forecast(parts):
    model = Forecaster().fit(parts)
    short, long = model.forecast(2), model.forecast(9)
    np.testing.assert_allclose(short.mean, long.mean[:2], rtol=1e-9)
    np.testing.assert_allclose(short.cov, long.cov.iloc[:2, :2], rtol=1e-9)
    # scores that differ by roundoff may lie on both sides of a step
    assert np.mean(short.paths.to_numpy() != long.paths.iloc[:2].to_numpy()) < 1e-3


def test_saved_updated_and_applied_models_forecast_alike(parts, tmp_path):
    model = Forecaster().fit(parts[:-6])
    model.save(tmp_path / "parts.zip")
    again = load_model(tmp_path / "parts.zip")
    np.testing.assert_array_equal(again.forecast(4).cov, model.forecast(4).cov)
    applied = model.apply(parts).forecast(4)
    updated = again.update(parts[-6:]).forecast(4)
    np.testing.assert_allclose(updated.mean, applied.mean, rtol=1e-12)
    assert not np.allclose(updated.mean, model.forecast(4).mean)


def test_missing_values_tell_nothing(parts):
    gone = parts.copy()
    gone.iloc[[3, 30, 31, 59]] = np.nan
    ahead = Forecaster().fit(gone).forecast(2)
    assert np.isfinite(ahead.mean).all()
    fitted = Forecaster().fit(parts).fitted()
    assert np.isnan(fitted.mean.iloc[0])  # nothing is known before it
    assert fitted.mean.iloc[1:].notna().all()


def test_zeros_throughout_leave_room_for_a_first_sale():
    index = pd.period_range("2020-01", periods=24, freq="M")
    ahead = Forecaster().fit(pd.Series(0.0, index)).forecast(6)
    assert 0.0 < ahead.prob(lower=0).iloc[0] < 0.1
    assert 0.0 < ahead.mean.iloc[0] < 0.1


def test_ones_and_zeros(rng):
    index = pd.period_range("2010-01", periods=120, freq="M")
    y = pd.Series(rng.binomial(1, 0.2, 120).astype(float), index)
    ahead = Forecaster().fit(y).forecast(3)
    assert ahead.prob(lower=0).iloc[0] == pytest.approx(y.mean(), abs=0.12)
    assert ahead.prob(lower=1).iloc[0] < 0.03


def test_lumpy_sizes_have_wide_bands(rng):
    """Poisson sizes alone would have a band of 20 around 400."""
    index = pd.period_range("2010-01", periods=100, freq="M")
    y = pd.Series(rng.binomial(1, 0.4, 100) * (1 + rng.geometric(1 / 200, 100)), index).clip(
        upper=990
    )
    ahead = Forecaster().fit(y.astype(float)).forecast(1)
    sold = np.sort(y[y > 0])
    p = ahead.prob(lower=0).item()
    assert ahead.quantile(1 - 0.1 * p).item() == pytest.approx(sold[int(0.9 * len(sold))], rel=0.4)


def test_what_is_not_a_count_has_no_such_model(rng, parts):
    half = parts / 2.0
    assert not any(isinstance(one, CountModel) for one in Forecaster().fit(half).models_)
    for settings in ({"lower": -np.inf}, {"lags": 3}, {"transform": None}):
        model = Forecaster(**settings).fit(parts)
        assert not any(isinstance(one, CountModel) for one in model.models_)
    model = Forecaster().fit(parts)
    later = pd.Series([0.5], pd.period_range("2025-01", periods=1, freq="M"))
    with pytest.raises(ValueError, match="y must hold whole numbers from 0 to 1000"):
        model.update(later)


def test_zeros_after_hundreds_of_other_values(rng):
    y = pd.Series(np.append(1.0 + rng.poisson(130, 700), [0.0, 0.0, 131.0]))
    model = next(m for m in Forecaster().fit(y).models_ if isinstance(m, CountModel))
    assert model.occurrence.argmax() == len(_OCCURRENCE) - 1  # longer memories are less surprised


def test_counts_with_few_zeros_are_averaged_with_others(rng):
    index = pd.date_range("2024-01-01", periods=300, freq="D")
    rate = 2.5 * np.exp(0.6 * np.sin(2 * np.pi * np.arange(300) / 7))
    model = Forecaster().fit(pd.Series(rng.poisson(rate).astype(float), index))
    kinds = [type(one) for one in model.models_]
    assert CountModel in kinds
    assert len(kinds) > 1
    q = model.forecast(7).quantile([0.05, 0.5, 0.95])
    assert (q % 1 == 0).all(axis=None)
    assert q[0.5].max() > q[0.5].min()  # the week
