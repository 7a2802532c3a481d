"""What is asked of a forecast: probabilities, bands for whole paths, extremes, of every kind."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.stats import multivariate_normal

from forecast_unc import Combination, Forecast, Forecaster, baselines, datasets
from forecast_unc.distributions.condition import probability_within, reach_of_all
from forecast_unc.distributions.forecast import prediction_of
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.regression.kernels import lower_root
from tests.named_case import case

H = 6
INDEX = pd.date_range("2026-10-01", periods=H, freq="MS")
STEPS = np.arange(H)
COR = 0.8 ** abs(STEPS[:, None] - STEPS)
STD = 0.3 * np.sqrt(1.0 + STEPS)
MEAN, COV = 1.0 + 0.1 * STEPS, COR * np.outer(STD, STD)


def kinds():
    plain = Forecast(INDEX, MEAN, COV, name="y")
    sizes = np.abs(np.random.default_rng(0).standard_normal((H, 9))) + 0.05
    found = {
        "plain": plain,
        "log": Forecast(INDEX, MEAN, COV, transform=PowerTransform(0.0)),
        "sqrt": Forecast(INDEX, MEAN, COV, transform=PowerTransform(0.5)),
        "Box-Cox above 2": Forecast(INDEX, MEAN, COV, transform=PowerTransform(0.3, 2.0)),
        "censored": plain.censored(1.0),
        "t": plain.recalibrated(np.full(H, 1.5), dof=4, correlation=0.2),
        "conformal": plain.conformal(sizes),
    }
    average = Forecast.average([found[k] for k in ("plain", "log", "t", "conformal")], [1, 2, 1, 1])
    return found | {
        "average": average,
        "censored average": average.recalibrated(np.full(H, 1.1), dof=5).censored(0.5),
        "conditioned": average.condition(pd.Series([2.0], INDEX[2:3])),
        "quarters": found["log"].aggregate("sum", freq="QS", partial="keep"),
        "of -y": 3.0 - found["log"],
        "of -y, bounded": -found["censored"],
    }


KINDS = kinds()
# Of the bound, or of one of its steps' values, each of positive probability.
ATOMS = ("censored", "of -y, bounded", "censored average", "sqrt", "Box-Cox above 2")


# of each behaviour one; test_joint.py has more
ASKED = ("plain", "censored average", "conditioned", "quarters", "of -y, bounded")


@pytest.fixture(params=ASKED)
def kind(request):
    return request.param


@pytest.fixture
def forecast(kind):
    return KINDS[kind]


def share_inside(paths, band):
    return (paths.ge(band["lower"], axis=0) & paths.le(band["upper"], axis=0)).all().mean()


def error(p, n):
    """Four Monte Carlo errors of a probability."""
    return 4.0 * np.sqrt(p * (1 - p) / n)


# Probabilities of steps


def test_cdf_is_that_of_scipy():
    x = np.array([0.3, 1.0, 2.5])
    plain, log, t = (KINDS[name].cdf(x) for name in ("plain", "log", "t"))
    assert plain.columns.tolist() == x.tolist()
    for t_step in range(H):
        normal = stats.norm(MEAN[t_step], STD[t_step])
        np.testing.assert_allclose(plain.iloc[t_step], normal.cdf(x), rtol=1e-12)
        np.testing.assert_allclose(log.iloc[t_step], normal.cdf(np.log(x)), rtol=3e-4)  # far out
        scale = 1.5 * STD[t_step] * stats.norm.ppf(0.9) / stats.t.ppf(0.9, 4)
        expected = stats.t(4, MEAN[t_step], scale).cdf(x)
        np.testing.assert_allclose(t.iloc[t_step], expected, rtol=1e-5)


def test_cdf_takes_a_level_for_each_step(forecast):
    levels = pd.Series(np.linspace(0.9, 3.0, len(forecast)), forecast.index)
    table = forecast.cdf(levels.to_list())
    np.testing.assert_allclose(forecast.cdf(levels), np.diag(table), rtol=1e-12)
    one = levels.copy()
    one.iloc[0] = np.nan
    assert forecast.cdf(one).isna().tolist() == [True] + [False] * (len(forecast) - 1)
    with pytest.raises(TypeError, match=r"values must be a number or a Series .*; got None\. "):
        forecast.cdf(None)


def test_probabilities_are_shares_of_paths(forecast):
    n = 20_000
    paths = forecast.sample(n, random_state=3)
    for lower, upper in ((1.0, None), (None, 1.0), (1.2, 2.4), (-1.0, None), (-2.0, -1.0)):
        inside = (paths > (-np.inf if lower is None else lower)) & (
            paths <= (np.inf if upper is None else upper)
        )
        found = forecast.prob(lower, upper)
        assert (abs(found - inside.mean(axis=1)) <= error(found, n) + 1e-12).all()


def test_small_probabilities_keep_their_digits():
    far = KINDS["plain"].prob(lower=MEAN[0] + 9 * STD[0], upper=MEAN[0] + 10 * STD[0]).iloc[0]
    assert far == pytest.approx(stats.norm.sf(9) - stats.norm.sf(10), rel=1e-12)


def test_a_sum_is_asked_the_same_way():
    total = KINDS["plain"].aggregate("sum")
    expected = stats.norm.sf(10.0, MEAN.sum(), np.sqrt(COV.sum()))
    assert total.prob(lower=10.0).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda f: f.prob(), ValueError, r"lower or upper must be given; got neither\."),
        (lambda f: f.prob(3, 2), ValueError, r"lower must not be above upper; got 3 and 2 at 20"),
        (
            lambda f: f.prob("a"),
            TypeError,
            r"lower must be a number or a Series of one .*; got 'a'",
        ),
        (lambda f: f.prob(upper=np.nan), TypeError, r"upper must be a number .*; got nan\. It is"),
        (lambda f: f.cdf(True), TypeError, r"values must be a number .*; got True\. "),
        (
            lambda f: f.cdf([]),
            ValueError,
            r"values must be a number, a Series .*; got shape \(0,\)",
        ),
        (lambda f: f.cdf(f.mean[1:]), ValueError, r"values must hold each of the forecast's times"),
        (lambda f: f.simultaneous_interval(95), ValueError, r"coverage must lie strictly between"),
    ],
)
def test_questions_that_make_no_sense_are_refused(ask, error, message):
    with pytest.raises(error, match=message):
        ask(KINDS["plain"])


# Bands for whole paths


def equicorrelated(h, rho, reach):
    """P(|z_t| <= reach for all t) by one integral over what the scores share."""

    def integrand(u):
        scale = np.sqrt(1 - rho)
        ends = stats.norm.cdf(
            [(reach - np.sqrt(rho) * u) / scale, (-reach - np.sqrt(rho) * u) / scale]
        )
        return stats.norm.pdf(u) * (ends[0] - ends[1]) ** h

    return integrate.quad(integrand, -8, 8, epsabs=1e-10, limit=200)[0]


@pytest.mark.parametrize(("h", "rho"), [(2, 0.9), (24, 0.2), (100, 0.9)])
def test_the_probability_of_a_cube_is_its_integral(h, rho):
    cor = rho + (1 - rho) * np.eye(h)
    for reach in (1.5, 2.5, 3.5):
        found = probability_within(lower_root(cor), reach)
        assert found == pytest.approx(equicorrelated(h, rho, reach), abs=1e-3)


def test_the_probability_of_a_cube_is_that_of_scipy():
    expected = multivariate_normal.cdf(
        np.full(H, 2.0), cov=COR, maxpts=10**6, lower_limit=np.full(H, -2.0)
    )
    assert probability_within(lower_root(COR), 2.0) == pytest.approx(expected, abs=3e-4)


@pytest.mark.parametrize("h", [1, 7, 40])
def test_the_reach_lies_between_one_score_and_independent_ones(h):
    one = stats.norm.ppf(0.975)
    assert reach_of_all(np.ones((h, h)), 0.95) == pytest.approx(one, abs=1e-9)
    independent = stats.norm.ppf(0.5 + 0.5 * 0.95 ** (1 / h))
    assert reach_of_all(np.eye(h), 0.95) == pytest.approx(independent, abs=1e-4)


def test_correlations_of_low_rank_have_a_reach(rng):
    factor = rng.standard_normal((12, 3))
    factor /= np.linalg.norm(factor, axis=1)[:, None]
    reach = reach_of_all(factor @ factor.T, 0.9)
    scores = np.abs(factor @ rng.standard_normal((3, 200_000))).max(axis=0)
    assert (scores <= reach).mean() == pytest.approx(0.9, abs=error(0.9, 200_000) + 1e-3)


@pytest.mark.parametrize(
    ("steps", "paths"), [(24, 2**16), pytest.param(300, 2**14, marks=pytest.mark.slow)]
)
def test_extremes_of_a_long_horizon_are_those_of_fewer_paths(steps, paths):
    """64 MB of them at most."""
    ahead = Forecast(pd.RangeIndex(steps), np.zeros(steps), np.eye(steps))
    assert ahead.aggregate("max").paths.shape == (1, paths)


def test_the_band_of_one_sum_is_its_interval():
    log = Forecast(pd.RangeIndex(3), np.zeros(3), 0.2 * np.eye(3), transform=PowerTransform(0.0))
    total = log.aggregate("sum")
    np.testing.assert_allclose(total.simultaneous_interval(0.9), total.interval(0.9), rtol=1e-9)


def test_the_band_holds_whole_paths(kind, forecast):
    n = 20_000
    band = forecast.simultaneous_interval(0.9)
    inside = share_inside(forecast.sample(n, random_state=5), band)
    if kind in ATOMS:  # no path is beyond the bound
        assert inside >= 0.9 - error(0.9, n) - 1e-3
    else:
        assert inside == pytest.approx(0.9, abs=error(0.9, n) + 1e-3)
    pointwise = forecast.interval(0.9)
    assert (band["lower"] <= pointwise["lower"]).all()
    assert (band["upper"] >= pointwise["upper"]).all()
    pd.testing.assert_frame_equal(band, forecast.simultaneous_interval(0.9))  # no seed


def test_fewer_steps_have_a_narrower_band():
    plain = KINDS["plain"]
    few, all_ = plain[:3].simultaneous_interval(), plain.simultaneous_interval()
    assert (few["upper"] < all_["upper"][:3]).all()
    one = plain[:1]
    pd.testing.assert_frame_equal(one.simultaneous_interval(0.8), one.interval(0.8))


# Largest and smallest values


@pytest.mark.parametrize("how", ["max", "min"])
def test_extremes_of_equicorrelated_steps_are_their_integral(how):
    rho, h, sign = 0.5, 24, 1.0 if how == "max" else -1.0
    cov = rho + (1 - rho) * np.eye(h)
    found = Forecast(pd.RangeIndex(h), np.zeros(h), cov).aggregate(how)

    def integrand(u, x):
        return stats.norm.pdf(u) * stats.norm.cdf((x - np.sqrt(rho) * u) / np.sqrt(1 - rho)) ** h

    for x in (0.0, 1.0, 2.0, 3.0):  # exceedance by the largest, the mirror image of the smallest
        p = integrate.quad(integrand, -8, 8, args=(x,), epsabs=1e-10)[0]
        below = found.prob(upper=sign * x).item()
        assert (below if how == "max" else 1 - below) == pytest.approx(p, abs=2e-3)


def test_extremes_are_those_of_paths(forecast):
    n = 20_000
    paths = forecast.sample(n, random_state=7)
    for how, values in (("max", paths.max()), ("min", paths.min())):
        found = forecast.aggregate(how)
        assert found.mean.item() == pytest.approx(values.mean(), abs=5 * values.std() / np.sqrt(n))
        levels = [*values.quantile([0.05, 0.5, 0.95]), 1.0, -1.0]
        for x in levels:  # the bound among them
            share = (values > x).mean()
            assert found.prob(lower=x).item() == pytest.approx(share, abs=error(share, n) + 3e-3)


def test_extremes_of_groups_go_together():
    by_year = KINDS["plain"].aggregate("max", freq="YS", partial="keep")
    assert by_year.index.equals(pd.DatetimeIndex(["2026-01-01", "2027-01-01"]))
    paths = KINDS["plain"].sample(40_000, random_state=1)
    expected = np.cov(paths[:3].max(), paths[3:].max())
    np.testing.assert_allclose(by_year.cov, expected, rtol=0.05)
    again = by_year.aggregate("max").prob(lower=2.0).item()
    assert again == pytest.approx(KINDS["plain"].aggregate("max").prob(lower=2.0).item(), abs=1e-9)
    single = KINDS["log"].aggregate("max", freq="MS", partial="keep")
    pd.testing.assert_series_equal(single.std, KINDS["log"].std)


def test_extremes_are_of_the_forecasts_own_paths(rng):
    paths = rng.gamma(2.0, size=(H, 500))
    own = Forecast(INDEX, paths.mean(axis=1), np.cov(paths), paths=paths)
    largest = own.aggregate("max")
    assert sorted(largest.paths.iloc[0]) == sorted(paths.max(axis=0))
    above = (paths.max(axis=0) > 4.0).mean()
    assert largest.prob(lower=4.0).item() == pytest.approx(above, abs=0.015)  # smoothed


def test_a_maximum_says_what_it_does_not_know():
    largest = KINDS["plain"].aggregate("max")
    with pytest.raises(ValueError, match=r"decompose must be called on .* a maximum, or what is"):
        largest.decompose()
    with pytest.raises(ValueError, match=r"check must be called on .* a maximum or the aggregate"):
        largest.check()


# Some of the steps


KEYS = [
    (slice(2), slice(0, 2)),
    (slice(-2, None), slice(4, 6)),
    (slice(None, None, 2), slice(0, 6, 2)),
    ("2027", slice(3, 6)),
    ("2026-11", slice(1, 2)),
    (slice("2026-12", "2027-01"), slice(2, 4)),
    (INDEX[4], slice(4, 5)),
    (slice(INDEX[4], None), slice(4, 6)),
    (INDEX.month % 3 == 0, [2, 5]),
    (pd.Series(INDEX.month == 11, INDEX)[::-1], [1]),  # by its times
]


@pytest.mark.parametrize("name", ["plain", "average", "censored average", "of -y"])
def test_steps_are_picked_as_pandas_does(name):
    whole = KINDS[name]
    band = whole.interval(0.8)
    for key, expected in KEYS:
        with case(key):
            picked = whole[key]
            assert type(picked) is Forecast
            assert picked.index.equals(INDEX[expected])
            pd.testing.assert_series_equal(picked.mean, whole.mean.iloc[expected], check_freq=False)
            np.testing.assert_allclose(picked.cov, whole.cov.iloc[expected, expected], rtol=1e-12)
            pd.testing.assert_frame_equal(
                picked.interval(0.8), band.iloc[expected], check_freq=False
            )


def test_the_first_steps_are_a_slice():
    for name, forecast in KINDS.items():
        pd.testing.assert_frame_equal(forecast[:2].cov, forecast.first(2).cov, obj=name)
    assert KINDS["plain"][:] is KINDS["plain"]


def test_a_mask_reaches_members_that_end_before():
    weights = np.vstack([np.ones(H), np.arange(H) < 3])
    average = Forecast.average([KINDS["plain"], KINDS["plain"].first(3)], weights)
    late = average[np.arange(H) >= 2]
    pd.testing.assert_series_equal(late.mean, average[2:].mean, check_freq=False)
    assert len(late.members) == len(average[2:].members)


def test_periods_and_numbers_are_picked():
    periods = Forecast(INDEX.to_period("M"), MEAN, COV)
    assert periods["2027"].index.equals(periods.index[3:])
    assert periods[pd.Period("2026-11", "M")].index.equals(periods.index[1:2])
    numbered = Forecast(pd.RangeIndex(100, 100 + H), MEAN, COV)
    assert numbered[:2].index.equals(pd.RangeIndex(100, 102))


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (
            0,
            TypeError,
            r"a key must be a slice, a time or a mask .*; got 0\. A number could be .* pass \[:1\]",
        ),
        (
            [0, 1],
            TypeError,
            r"a key must be a slice, a time or a mask of the steps; got \[0, 1\]\. ",
        ),
        (
            pd.Series([True] * 6),
            TypeError,
            r"a mask must have the times of the forecast; got another index\. Pass its to_numpy",
        ),
        ([True, False], TypeError, r"a mask must hold a value for each of 6 steps.*shape \(2,\)"),
        ([[True] * 6], TypeError, r"a mask must hold .*; got shape \(1, 6\)\. Make it from"),
        ([False] * 6, TypeError, r"a mask must hold .* and one True or more; got only False\. "),
        (
            "2030",
            KeyError,
            r"pick steps of the forecast, .*; got '2030'\. They are those from 2026-1",
        ),
        (slice(None, None, -1), KeyError, r"a key must pick steps of the forecast, in their order"),
        (
            slice(None, None, 0),
            KeyError,
            r"a key must pick steps .*; got .*, an empty slice\. They",
        ),
        (slice(9, None), KeyError, r", an empty slice\. .*; positions count from 0 to 5\."),
        (slice(5, 2), KeyError, r", an empty slice\. .*; positions count from 0 to 5\."),
        (
            slice("2030", None),
            KeyError,
            r", an empty slice\. They are those from [-0-9]+ to [-0-9]+\.\W?$",
        ),
        ("no date", KeyError, r"a key must pick steps of the forecast, .*; got 'no date'\. "),
    ],
)
def test_keys_that_pick_nothing_are_refused(key, error, message):
    with pytest.raises(error, match=message):
        KINDS["plain"][key]


def test_a_forecast_is_no_sequence():
    with pytest.raises(TypeError, match="not iterable"):
        iter(KINDS["plain"])
    assert len(pd.Series([KINDS["plain"]])) == 1


# Arithmetic


def test_what_is_left_and_other_bands_are_turned_too():
    log, first = KINDS["log"], pd.Series([3.0], INDEX[:1])
    pd.testing.assert_frame_equal(
        (-(-log).condition(-first)).interval(0.8), log.condition(first).interval(0.8)
    )
    wider = np.full(H, 2.0)
    pd.testing.assert_frame_equal(
        (-(-log).recalibrated(wider)).interval(0.8), log.recalibrated(wider).interval(0.8)
    )
    both = Forecast.average([-log, -KINDS["plain"]])
    expected = Forecast.average([log, KINDS["plain"]])
    pd.testing.assert_frame_equal((-both).interval(0.8), expected.interval(0.8))
    assert (-log).censored(-np.inf).mean.equals(-log.mean)
    floor, q = -log.quantile(0.6).iloc[0], [0.1, 0.5, 0.95]
    censored = (-log).censored(floor).quantile(q)
    np.testing.assert_array_equal(censored, np.maximum((-log).quantile(q), floor))
    np.testing.assert_allclose(
        Forecast.average([-log, log], [1, 3]).quantile(q),
        0.25 * (-log).quantile(q) + 0.75 * log.quantile(q),
        rtol=1e-12,
        atol=1e-14,
    )


def test_members_parts_and_paths_move_along(rng):
    paths = rng.standard_normal((H, 50))
    own = Forecast(INDEX, MEAN, COV, parts={"noise": 0.5 * COV}, paths=paths)
    moved = 1.0 - 2.0 * own
    np.testing.assert_allclose(moved.paths, 1.0 - 2.0 * paths)
    np.testing.assert_allclose((own / 4.0 - 3.0).paths, paths / 4.0 - 3.0)
    np.testing.assert_allclose(moved.decompose()["noise"], 4.0 * own.decompose()["noise"])
    (first, *_), (before, *_) = (KINDS["average"] * 2 + 1).members, KINDS["average"].members
    pd.testing.assert_series_equal(first.forecast.mean, 2 * before.forecast.mean + 1)


def test_a_check_is_the_same_in_other_units():
    ahead = Forecaster(lags=2, transform="log").fit(datasets.load_nile()).forecast(3)
    one, other = ahead.check(100, 0).frame, (-3.0 * ahead + 5).check(100, 0).frame
    np.testing.assert_allclose(other["std_ratio"], one["std_ratio"], rtol=1e-9)
    np.testing.assert_allclose(other["mean_error"], -one["mean_error"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("combine", "error", "message"),
    [
        (lambda f: f + f, TypeError, r"a forecast must be combined with a number; got Forecast\. "),
        (lambda f: f.mean + f, TypeError, r"combined with a number; got Series\. For sums of its"),
        (lambda f: np.ones(H) * f, TypeError, r"combined with a number; got ndarray\. "),
        (lambda f: f * True, TypeError, r"combined with a number; got True\. "),
        (lambda f: f * 0, ValueError, r"multiplied by a number other than 0; got 0\. "),
        (lambda f: f / 0, ZeroDivisionError, r"divided by a number other than 0; got 0\."),
        (lambda f: f + np.inf, ValueError, r"combined with a finite number; got inf\. "),
        (lambda f: 1 / f, TypeError, r"unsupported operand"),
    ],
)
def test_only_numbers_are_combined_with_a_forecast(combine, error, message):
    with pytest.raises(error, match=message):
        combine(KINDS["plain"])


def test_numbers_of_numpy_are_numbers():
    doubled = np.float64(2) * KINDS["plain"] + np.int32(1)
    assert type(doubled) is Forecast
    pd.testing.assert_series_equal(doubled.std, 2 * KINDS["plain"].std)


# Members


def test_members_average_to_the_forecast():
    plain = KINDS["plain"]
    weights = np.array([np.linspace(0, 1, H), np.linspace(1, 0, H)])
    average = Forecast.average([plain, KINDS["log"]], weights)
    first, second = average.members
    assert prediction_of(first.forecast) is prediction_of(plain)
    assert (first.model, second.model) == ("member 1", "member 2")
    np.testing.assert_allclose([m.weight for m in average.members], weights)
    assert second.weight.index.equals(INDEX)
    assert plain.members == ()


def test_members_are_those_before_calibration_and_bound():
    members = KINDS["censored average"].members
    expected = KINDS["average"].members
    assert [prediction_of(m.forecast) for m in members] == [
        prediction_of(m.forecast) for m in expected
    ]
    np.testing.assert_allclose([m.weight.iloc[0] for m in members], [0.2, 0.4, 0.2, 0.2])


def test_members_of_the_automatic_choice_are_its_models():
    model = Forecaster().fit(datasets.load_us_gdp()[-120:])
    ahead = model.forecast(10)
    names = [str(one) for one in model.models_]
    assert {m.model for m in ahead.members} <= set(names)
    total = sum(m.weight for m in ahead.members)
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    weights = np.array([m.weight for m in ahead.members])
    assert np.ptp(weights, axis=1).max() > 1e-3  # they depend on the step
    again = Forecast.average([m.forecast for m in ahead.members], weights, disagreement=True)
    uncalibrated = Forecaster(calibrate=False).fit(datasets.load_us_gdp()[-120:]).forecast(10)
    np.testing.assert_allclose(again.mean, uncalibrated.mean, rtol=1e-9)
    np.testing.assert_allclose(again.std, uncalibrated.std, rtol=1e-9)


def test_members_of_a_combination_have_its_weights():
    y = datasets.load_nile()
    members = [Forecaster(lags=2), baselines.SeasonalNaive(1)]
    ahead = Combination(members, weights=[3, 1]).fit(y).forecast(4)
    first, second = ahead.members
    assert first.model == Forecaster(lags=2).fit(y).forecast(1).model
    assert second.model == "SeasonalNaive(seasonal_period=1)"
    np.testing.assert_allclose([first.weight, second.weight], [[0.75] * 4, [0.25] * 4])


# Three series against 100,000 paths

SERIES = {
    "El Nino": (datasets.load_elnino, Forecaster(lags=(1, 2, 3, 4, 12, 13, 24)), False),
    "GDP, the automatic choice": (datasets.load_us_gdp, Forecaster(), False),
    "sunspots, square roots": (
        datasets.load_sunspots,
        Forecaster(lags=range(1, 12), transform="sqrt"),
        True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SERIES)
def test_answers_are_shares_of_100_000_paths(name):
    load, model, bounded = SERIES[name]
    ahead, n = model.fit(load()).forecast(24, propagation="exact"), 100_000
    paths = ahead.sample(n, random_state=0)
    for how, values in (("sum", paths.sum()), ("max", paths.max())):
        found = ahead.aggregate(how)
        # sums of steps that are not normal have an approximate shape: off by .008 at most
        most = 0.01 if how == "sum" else 2e-3
        for x in values.quantile([0.05, 0.25, 0.5, 0.75, 0.95, 0.99]):
            share = (values > x).mean()
            assert found.prob(lower=x).item() == pytest.approx(share, abs=error(share, n) + most)
    for coverage in (0.5, 0.8, 0.95):
        inside = share_inside(paths, ahead.simultaneous_interval(coverage))
        if bounded:
            assert coverage - 3e-3 <= inside <= coverage + 0.03
        else:
            assert inside == pytest.approx(coverage, abs=error(coverage, n) + 2e-3)
    assert share_inside(paths, ahead.interval(0.95)) < 0.83  # GDP .815, its errors so correlated
