"""Which of the calendar's seasons a series shows: the level of the test, and its power."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.signal import lfilter
from statsmodels.regression.linear_model import OLS

from forecast_unc import Forecaster, LinearRegressor
from forecast_unc.series.seasons import _p_of_shape, _p_value, always_at, recurs, seasons_in


def season(n, period, noise=0.3, seed=0):
    t = np.arange(n)
    rng = np.random.default_rng(seed)
    return 10 + np.sin(2 * np.pi * t / period) + noise * rng.standard_normal(n)


def noise(kind, n, rng):
    """Of variance 1, or a walk whose steps have it."""
    steps = rng.standard_normal(n + 100)
    if kind == "walk":
        return steps[100:].cumsum()
    if kind == "walk with a drift":
        return (steps[100:] + 0.3).cumsum()
    return np.sqrt(1 - kind**2) * lfilter([1], [1, -kind], steps)[100:]


@pytest.mark.parametrize(
    ("kind", "period", "n"),
    [
        ("walk with a drift", 12, 150),
        (0.95, 12, 25),
        ("walk with a drift", 12, 24),
        (0.0, 12, 24),
        (0.95, 4, 14),
        (0.0, 4, 8),
        ("walk with a drift", 52, 110),
    ],
)
def test_few_series_without_a_season_have_one(kind, period, n):
    """Some 5 %, up to 12 % in two cycles; not over three standard errors more."""
    rng = np.random.default_rng(0)
    found = np.mean([seasons_in(noise(kind, n, rng), (period,)) != () for _ in range(100)])
    level = 0.07 if n >= 3 * period else 0.12
    assert found < level + 3 * np.sqrt(level * (1 - level) / 100)


@pytest.mark.parametrize(("kind", "n"), [("walk", 760), (0.9, 1460)])
def test_few_series_of_days_without_a_year_have_one(kind, n):
    """5 %; with nothing beside its Fourier terms 25 % of walks of two years."""
    rng = np.random.default_rng(0)
    found = np.mean([seasons_in(noise(kind, n, rng), (365,)) != () for _ in range(60)])
    assert found < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


@pytest.mark.parametrize("profile", ["wave", "steps"])
def test_a_season_of_twelve_cycles_is_found(profile):
    """Of amplitude .7, a wave, or of standard deviation .7, any profile."""
    rng, found, t = np.random.default_rng(0), 0, np.arange(144)
    for _ in range(100):
        steps = rng.standard_normal(12)
        steps = 0.7 * (steps - steps.mean()) / steps.std()
        wave = 0.7 * np.sin(2 * np.pi * (t / 12 + rng.random()))
        y = rng.standard_normal(144) + (wave if profile == "wave" else steps[t % 12])
        found += seasons_in(y, (12,)) == (12,)
    assert found >= 90


@pytest.mark.parametrize("kind", [0.0, 0.7])
@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_a_smooth_year_of_days_is_found_beside_a_week(kind, gaps):
    """Three years, its amplitude the standard deviation of the noise."""
    rng, t, found = np.random.default_rng(0), np.arange(1100), []
    for _ in range(20):
        y = noise(kind, 1100, rng) + rng.standard_normal(7)[t % 7]
        y += np.sin(2 * np.pi * (t / 365.2425 + rng.random()))
        y[rng.random(1100) < gaps] = np.nan
        found.append(seasons_in(y, (7, 365)))
    assert sum(one == (7, 365) for one in found) >= 18


def test_hours_of_a_week_are_found_beside_a_day_that_changes():
    rng, t, found = np.random.default_rng(0), np.arange(1008), 0
    for _ in range(20):
        steps = rng.standard_normal(1008 + 480)
        ar = np.convolve([1.0, -0.7], np.r_[1.0, np.zeros(23), -0.5])
        weekend = np.where(t // 24 % 7 < 5, 0.0, -3.0)
        y = lfilter([1], ar, steps)[480:] + 3 * np.sin(2 * np.pi * t / 24) + weekend
        found += seasons_in(y, (24, 168)) == (24, 168)
    assert found >= 18


def no_exog(y):
    return np.zeros((len(y), 0))


def p_by_regressions(y, shorter, period, exog):
    """By least squares on all columns, the lags by BIC, for levels and logarithms."""
    at = np.flatnonzero(~np.isnan(y))
    y, exog, at = y[at[0] :], exog[at[0] :], at - at[0]
    room = (len(at) - period) // 8, len(at) - 2 * period
    most = min(4, period // 2, max(room[0], 1), max(room[1], 1))
    later = pd.Series(at[at >= most])
    t = later[later.groupby(later % period).transform("size") > 1].to_numpy()
    filled = pd.Series(y).ffill().to_numpy()
    steps = np.eye(period)[t % period][:, np.unique(t % period)]
    waves = [np.ones(len(t))]
    for k in range(1, min(period // 2, 4) + 1):
        waves += [np.cos(2 * np.pi * k * t / period), np.sin(2 * np.pi * k * t / period)]
    waves = np.array(waves).T
    beside = steps - waves @ np.linalg.lstsq(waves, steps, rcond=None)[0]
    beside = beside @ np.linalg.svd(beside)[2][: -np.linalg.matrix_rank(waves)].T
    few, found = len(at) < 2 * period + 2, []
    for z, own in ((filled, 0.0), (np.log(np.maximum(filled, 1e-9)), 2 * np.log(filled[t]).sum())):
        others = [t % one == j for one in shorter for j in range(np.gcd(one, period), one)]
        back = [one + j for one in shorter for j in (0, 1)]
        others += [np.where(t >= lag, (z - z.mean())[t - lag], 0.0) for lag in back]
        others += [*exog[t].T, *exog[t - 1].T]
        fits = []
        for lags in range(most + 1):
            more = [*others, t, *(z[t - lag] for lag in range(1, lags + 1))]
            full = OLS(z[t], np.column_stack([steps, *more])).fit()
            fits.append((len(t) * np.log(full.ssr) + np.log(len(t)) * lags + own, lags, full, more))
        bic, lags, full, more = min(fits, key=lambda one: one[:2])
        shift = [(t >= len(y) - period) * 1.0] if few else []
        less = OLS(z[t], np.column_stack([np.ones(len(t)), beside, *shift, *more])).fit()
        k, dof = np.linalg.matrix_rank(waves) - 1 - few, len(t) - steps.shape[1] - len(others) - 1
        dof -= lags
        found.append((bic, stats.f.sf((less.ssr / full.ssr - 1) * dof / k, k, dof)))
    return min(found)[1], found[1] < found[0]


@pytest.mark.parametrize(
    ("n", "period", "shorter"),
    [(16, 4, ()), (22, 12, ()), (60, 12, ()), (100, 12, (5,)), (120, 9, (7,))],
)
def test_p_is_that_of_regressions(n, period, shorter):
    """Of levels and of logarithms, whichever is likelier, some values missing."""
    logs = []
    for seed in range(4 if shorter else 8):
        rng = np.random.default_rng(seed)
        t = np.arange(n + 5)
        wave = 0.3 * np.sin(2 * np.pi * t / period) + 0.2 * rng.standard_normal(n + 5)
        wave += 0.1 * (t % 2) + (0.02 if n > 50 else 0.1) * t
        y = np.exp(wave) if seed % 2 else 8.0 + 3.0 * wave
        y[:2] = y[n // 2] = np.nan
        exog = np.cumsum(rng.standard_normal((n + 5, 2)), axis=0) if n == 60 else no_exog(y)
        p, log = p_by_regressions(y, shorter, period, exog)
        logs.append(log)
        np.testing.assert_allclose(_p_value(y, shorter, period, exog), p, rtol=1e-6)
    assert 0 < sum(logs) < len(logs)


def test_a_season_in_percent_is_found_in_logarithms():
    """Of amplitude .7 of the noise, beside growth from 1 to 1,000, whose last years hide it."""
    t, rng, found = np.arange(120), np.random.default_rng(0), []
    for _ in range(20):
        y = np.exp(t / 17 + 0.1 * rng.standard_normal(120) + 0.07 * np.sin(2 * np.pi * t / 12))
        found.append((seasons_in(y, (12,)) == (12,), seasons_in(y - 1e4, (12,)) == (12,)))
    in_logarithms, in_levels = np.mean(found, axis=0)
    assert in_logarithms >= 0.85
    assert in_levels < 0.5


def test_a_season_has_to_be_seen_twice():
    hourly = season(336, 24) + season(336, 168)
    assert seasons_in(hourly, (168, 24)) == (24, 168)
    assert seasons_in(hourly[:335], (24, 168)) == (24,)
    for period in (12, 144):
        y = season(2 * period, period) + 0.5 * np.arange(2 * period)
        assert seasons_in(y, (period,)) == (period,)
        assert seasons_in(y[1:], (period,)) == ()


@pytest.mark.parametrize("more", [0, 1, 3, 6])
def test_a_shift_of_the_level_between_two_cycles_is_no_season(more):
    rng, levels = np.random.default_rng(0), np.repeat([100.0, 150.0], [12 + more, 12])
    found = [seasons_in(levels + 3 * rng.standard_normal(24 + more), (12,)) for _ in range(50)]
    assert sum(one != () for one in found) <= 8  # P = .001 at 6 %


def test_a_season_that_a_regressor_hides_is_found_beside_it():
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        exog = np.cumsum(rng.standard_normal((140, 1)), axis=0)
        y = 20.0 * exog[:, 0] + 2.0 * (np.arange(140) % 7 >= 5) + 0.3 * rng.standard_normal(140)
        many = np.hstack([exog, rng.standard_normal((140, 7))])  # more than the values support
        found.append([seasons_in(y, (7,), one) == (7,) for one in (None, exog, many)])
    alone, beside, beside_many = np.sum(found, axis=0)
    assert beside == 10
    assert alone == beside_many <= 5


def test_a_longer_season_is_not_taken_for_a_shorter_one():
    y = season(80, 8, noise=0.0)
    assert seasons_in(y, (8,)) == (8,)
    assert seasons_in(y, (4,)) == ()
    assert seasons_in(y, (4, 8)) == (8,)


def test_seasons_depend_on_neither_level_nor_scale_nor_trend():
    for period in (4, 8, 12):
        y = season(96, 8) - 20.0  # no logarithms
        expected = _p_value(y, (), period, no_exog(y))
        for other in (-5.0 + 1e-3 * y, y + 7.0 * np.arange(96) - 1e3):
            p = _p_value(other, (), period, no_exog(y))
            np.testing.assert_allclose(p, expected, rtol=1e-4)


def test_missing_values_are_no_evidence():
    y = season(120, 12, noise=0.7)
    y[[3, 40, 41, 90]] = np.nan
    before = y.copy()
    assert seasons_in(y, (12,)) == (12,)
    np.testing.assert_array_equal(y, before)
    few = np.where(np.arange(120) % 4 < 1, np.nan, season(120, 12))
    assert seasons_in(few, (12,)) == (12,)
    rng, t = np.random.default_rng(0), np.arange(120)
    every_other = np.where(t % 2 == 0, season(120, 12), np.nan)
    assert seasons_in(every_other, (12,)) == (12,)
    assert seasons_in(np.where(t < 24, y, np.nan), (12,)) == ()
    assert seasons_in(np.r_[np.full(50, np.nan), y], (12,)) == (12,)
    walks = rng.standard_normal((100, 120)).cumsum(axis=1)
    walks[rng.random(walks.shape) < 0.3] = np.nan
    assert sum(seasons_in(walk, (12,)) == (12,) for walk in walks) <= 13  # P = .001 at 5 %


def test_a_line_and_next_to_nothing_have_no_season():
    assert seasons_in(np.arange(50.0), (12,)) == ()
    assert seasons_in(100.0 + 5.0 * np.arange(24), (12,)) == ()
    assert seasons_in(np.full(50, 0.1), (4, 12)) == ()
    assert seasons_in(np.zeros(50), (4, 12)) == ()
    assert seasons_in(np.array([]), (12,)) == ()
    assert seasons_in(np.array([1.0]), (12,)) == ()
    assert seasons_in(np.full(30, np.nan), (4,)) == ()
    assert seasons_in(season(100, 12), ()) == ()


def test_recurrence_is_the_f_test_of_levels_against_a_walk():
    """P below 1e-4, by the regressions of statsmodels; rows with a missing value are left out."""
    found = []
    for seed in range(40):
        y = season(59, 9, noise=0.2 + 0.05 * seed, seed=seed)
        y -= 11.0  # below 0: on its own scale alone
        y[20 if seed % 2 else 21 : 21] = np.nan
        lagged = np.column_stack([y[9 - lag : 59 - lag] for lag in range(10)])
        at = np.flatnonzero(~np.isnan(lagged).any(axis=1))
        rows, line = lagged[at], np.column_stack([np.ones(len(at)), at])
        full = OLS(rows[:, 0], np.hstack([line, rows[:, 1:]])).fit()
        # a walk with two changes: y[t] - y[t - 1] on the changes before
        changes = rows[:, 1:3] - rows[:, 2:4]
        walk = OLS(rows[:, 0] - rows[:, 1], np.hstack([line, changes])).fit()
        ratio = (walk.ssr / full.ssr - 1.0) * full.df_resid / 7
        p = stats.f.sf(ratio, 7, full.df_resid)
        assert recurs(y, 9) == (p < 1e-4), seed
        found.append(p < 1e-4)
    assert 5 < sum(found) < 35


@pytest.mark.parametrize("kind", [0.0, 0.7, "walk", "walk with a drift"])
def test_neither_noise_nor_walks_recur(kind):
    rng = np.random.default_rng(1)
    assert not any(recurs(noise(kind, n, rng), min(12, n // 4)) for n in [16, 30, 54] * 60)


def test_growth_does_not_recur():
    """Of the values an explosive root tells more than changes, of their logarithm a line."""
    steps = 0.15 + 0.05 * np.random.default_rng(2).standard_normal(44)
    growth = np.exp(steps.cumsum())
    assert recurs(growth - 1e3, 11)
    assert not recurs(growth, 11)
    assert recurs(20.0 + season(44, 9, noise=0.1), 11)


@pytest.mark.parametrize("y", [np.ones(30), np.full(30, np.nan), np.arange(15.0)], ids=str)
def test_what_has_no_cycle_does_not_recur(y):
    assert not recurs(y, min(12, len(y) // 4))


def sun(days):
    """Hours of a day that lasts 8 to 16 of them, with a cloud."""
    t, rng = np.arange(24 * days), np.random.default_rng(0)
    half = 6 + 2 * np.sin(2 * np.pi * (t // 24 - 80) / 365)
    shine = np.cos(np.clip((t % 24 - 12) / half, -1, 1) * np.pi / 2).round(6)
    return 500 * shine * rng.beta(2, 1.2, days)[t // 24]


def test_night_is_always_night():
    y = sun(800)
    for days in range(30, 780, 30):
        quiet, next_ = always_at(y[: 24 * days], 0.0, 24, 240), y[24 * days :][:240]
        assert not next_[quiet].any()
        assert quiet.sum() > 0.5 * (next_ == 0.0).sum()
        np.testing.assert_array_equal(quiet[:50], always_at(y[: 24 * days], 0.0, 24, 50))
    assert not always_at(y[: 24 * 7], 0.0, 24, 24).any()  # too few nights
    lit = y[: 24 * 440]
    lit[24 * (450 - 365) + 2] = 9.0  # of that hour, around that day a year ago
    assert np.flatnonzero(always_at(lit, 0.0, 24, 24)).tolist() == [0, 4, 20, 21, 22, 23]
    assert not always_at(np.full(999, np.nan), 0.0, 24, 24).any()


def test_closed_days_are_and_sparse_demand_is_not_always_zero():
    rng = np.random.default_rng(0)
    week = np.where(np.arange(280) % 7 == 6, 0.0, 1.0 + rng.poisson(5, 280))
    assert np.flatnonzero(always_at(week, 0.0, 7, 14)).tolist() == [6, 13]
    assert not always_at((rng.random(120) < 0.15) * 1.0, 0.0, 12, 12).any()
    assert not always_at(np.zeros(120), 0.0, 12, 12).any()


def test_a_forecast_is_certain_of_the_night():
    y = pd.Series(sun(40), pd.date_range("2022-01-01", periods=960, freq="h"))
    given = {"seasonal_period": 24, "lower": 0.0}
    model = Forecaster(LinearRegressor(), lags=[1, 24], **given).fit(y)
    ahead, quiet = model.forecast(24), always_at(y.to_numpy(), 0.0, 24, 24)
    assert 8 < quiet.sum() < 14
    assert (ahead.cdf(0.0)[quiet] > 0.999).all()
    assert (ahead.std[quiet] < 1.0).all()
    assert (ahead.std[~quiet] > 5.0).all()
    assert f"no noise at {quiet.sum()} of the 24 steps of a season: 0 of late" in model.choices_
    paths = model.forecast(24, propagation="monte_carlo", random_state=0).paths
    assert not paths[quiet].to_numpy().any()


def days_of_another_shape(rng, weeks=6):
    """Hours with two peaks on weekdays and one at weekends, of the same mean."""
    t = np.arange(168 * weeks)
    hour, weekend = t % 24, t % 168 >= 120
    peaks = np.exp(-((hour - 8) ** 2) / 8) + np.exp(-((hour - 17) ** 2) / 8)
    midday = np.exp(-((hour - 13) ** 2) / 32)
    y = np.where(weekend, midday / midday[:24].mean(), peaks / peaks[:24].mean())
    return y + 0.2 * rng.standard_normal(len(t))


def test_days_of_another_shape_make_a_week(rng):
    """Whose low frequencies, those that F of its Fourier terms tells of, are those of the days."""
    y = days_of_another_shape(rng)
    assert _p_value(y, (24,), 168, no_exog(y)) > 0.05
    assert seasons_in(y, (24, 168)) == (24, 168)
    p = _p_of_shape(y, 24, 168)
    assert p < 1e-9
    assert _p_of_shape(100.0 * y + 7.0, 24, 168) == pytest.approx(p, rel=1e-4)
    y[[30, 31, 400]] = np.nan
    assert _p_of_shape(y, 24, 168) < 1e-9
    assert _p_of_shape(y[: 3 * 168], 24, 168) == 1.0  # too few weeks
    assert _p_of_shape(y, 24, 96) == 1.0  # not of four days
    assert _p_of_shape(np.tile(np.arange(24.0), 42), 24, 168) == 1.0


@pytest.mark.parametrize("kind", ["noise", "walk", "loud days"])
def test_days_of_one_shape_make_no_week(kind, rng):
    p = []
    for _ in range(100):
        noise = rng.standard_normal(1008)
        y = 3.0 * np.sin(2 * np.pi * np.arange(1008) / 24) + noise
        if kind == "walk":
            y += noise.cumsum()
        if kind == "loud days":
            y *= np.repeat(np.exp(0.3 * rng.standard_normal(42)), 24)
        p.append(_p_of_shape(y, 24, 168))
    assert np.mean(np.array(p) < 0.001) <= 0.02
    if kind == "noise":
        assert stats.kstest(p, "uniform").pvalue > 1e-3
