"""Forecast.check: against the moments of given paths, and on series where the answer is known."""

import functools
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge

from forecast_unc import Combination, Forecast, Forecaster, datasets
from forecast_unc.distributions.power import PowerTransform
from tests import oracles

COV = np.array([[1.0, 0.6, 0.3], [0.6, 2.0, 1.0], [0.3, 1.0, 3.0]])
MEAN = np.array([1.0, -2.0, 5.0])


class Given:
    """Paths in the place of a model's: draws of a normal distribution, or functions of them."""

    def __init__(self, mean, cov, change=lambda y: y):
        self.mean, self.cov, self.change = mean, cov, change

    def __call__(self, n_samples, random_state):
        rng = np.random.default_rng(random_state)
        return self.change(rng.multivariate_normal(self.mean, self.cov, n_samples))


def forecast(mean=MEAN, cov=COV, propagation="exact", paths=None, **options):
    made = Forecast(pd.RangeIndex(len(mean)), mean, cov, **options)
    return made._made(propagation, Given(MEAN, COV) if paths is None else paths)


@functools.cache
def fitted(name):
    if name == "ar2":
        y = oracles.autoregression([1.5, -0.8], 200, np.random.default_rng(0))
        return Forecaster(lags=2).fit(pd.Series(y))
    if name == "elnino":
        return Forecaster(lags=12).fit(datasets.load_elnino()[-240:])
    if name == "co2":
        return Forecaster(lags=13, differences=1).fit(datasets.load_co2()[-300:])
    return Forecaster(lags=9).fit(datasets.load_sunspots())


# The table


def test_the_table_is_that_of_the_moments_of_the_paths():
    n = 400
    ahead = forecast(MEAN + np.array([0.1, 0.0, -0.3]), 1.3 * COV)
    frame = ahead.check(n, random_state=3).frame
    paths = pd.DataFrame(Given(MEAN, COV)(n, 3))
    paths["sum"] = paths.sum(axis=1)
    mean = np.append(ahead.mean, ahead.mean.sum())
    std = np.append(ahead.std, ahead.aggregate("sum").std)
    center, spread = paths.mean(), paths.std(ddof=0)
    assert frame.index.tolist() == ["0", "1", "2", "sum"]
    np.testing.assert_allclose(frame["mean_error"], (mean - center) / (spread / np.sqrt(n)))
    np.testing.assert_allclose(frame["std_ratio"], std / spread)
    # pandas' figures are those of unbiased estimates
    np.testing.assert_allclose(frame["skewness"], paths.skew(), atol=0.01)
    np.testing.assert_allclose(frame["excess_kurtosis"], paths.kurt(), atol=0.05)
    for row, c, s, m, f in zip(frame["kl"], center, spread, mean, std, strict=True):
        p, q = norm(c, s), norm(m, f)
        kl, _ = quad(
            lambda y, p=p, q=q: p.pdf(y) * (p.logpdf(y) - q.logpdf(y)), c - 9 * s, c + 9 * s
        )
        assert row == pytest.approx(kl, rel=1e-6)


def test_errors_of_a_right_forecast_are_those_of_monte_carlo():
    errors = [
        forecast().check(200, seed).frame[["mean_error", "std_error"]].to_numpy()
        for seed in range(200)
    ]
    # 200 independent repetitions of four rows: the error of a std is 1 / sqrt(2 * 200) = .05
    np.testing.assert_allclose(np.std(errors, axis=0), 1.0, atol=0.2)
    np.testing.assert_allclose(np.mean(errors, axis=0), 0.0, atol=0.35)


def test_after_a_transform_the_scale_is_that_of_normal_steps():
    cov = 0.1 * COV
    log = forecast(MEAN, cov, paths=Given(MEAN, cov, np.exp), transform=PowerTransform(0.0))
    plain = forecast(MEAN, cov, paths=Given(MEAN, cov))
    pd.testing.assert_frame_equal(log.check(300, 1).frame, plain.check(300, 1).frame)


# The verdict


def bimodal(y):
    return MEAN + np.where(y > MEAN, 1.0, -1.0) * (1.0 + 0.1 * np.abs(y - MEAN))


def exponential(y):
    return MEAN + np.sqrt(np.diagonal(COV)) * (-np.log(norm.sf((y - MEAN) / COV.diagonal() ** 0.5)))


@pytest.mark.parametrize(
    ("ahead", "verdict", "reason"),
    [
        (forecast(), "exact", None),
        (forecast(propagation="taylor"), "taylor", None),
        (forecast(cov=1.1**2 * COV), "exact", None),
        (forecast(cov=0.7**2 * COV), "mixture", "3 of 3 steps and the sum: the std is off"),
        (forecast(cov=1.5**2 * COV), "mixture", "3 of 3 steps and the sum: the std is off"),
        (forecast(MEAN + np.array([0.0, 0.0, 0.6])), "mixture", "the mean is off"),
        (forecast(cov=0.7**2 * COV, propagation="mixture"), "monte_carlo", "the std is off"),
        (forecast(paths=Given(MEAN, COV, bimodal)), "monte_carlo", "bimodal"),
        (forecast(cov=np.diag([1e-4] * 3)), "mixture", "at worst 0.0"),
    ],
)
def test_verdicts(ahead, verdict, reason):
    for seed in range(3):
        check = ahead.check(random_state=seed)
        assert check.verdict == verdict
        assert (not check.reasons) if reason is None else any(reason in r for r in check.reasons)
        assert f'use "{verdict}"' in str(check)


def test_shapes_are_told():
    assert (
        forecast(paths=Given(MEAN, COV, bimodal)).check(random_state=0).frame["bimodal"][:3].all()
    )
    frame = forecast(paths=Given(MEAN, COV, exponential)).check(4000, random_state=0).frame
    # an exponential distribution: 2 and 6, of heavy-tailed estimates
    np.testing.assert_allclose(frame["skewness"][:3], 2.0, atol=0.3)
    assert (frame["excess_kurtosis"][:3] > 3).all()
    assert not forecast().check(random_state=0).frame["bimodal"].any()


@pytest.mark.parametrize("name", ["ar2", "co2"])
def test_it_is_silent_where_the_model_is_nearly_linear(name):
    for seed in range(3):
        check = fitted(name).forecast(24).check(random_state=seed)
        assert check.verdict == "exact", str(check)


@pytest.mark.parametrize("name", ["elnino", "sunspots"])
def test_it_flags_where_the_function_bends(name):
    check = fitted(name).forecast(24).check(random_state=0)
    assert check.verdict in ("mixture", "monte_carlo")
    assert check.frame.loc["sum", "std_ratio"] < 0.85
    merged = fitted(name).forecast(24, propagation="mixture").check(1500, random_state=0)
    # three errors of 1500 paths of excess kurtosis 8, .04, and of 256 pieces, .05
    assert merged.frame.loc["sum", "std_ratio"] == pytest.approx(1.0, abs=0.2)


# Averages, aggregates


def test_an_average_is_compared_with_that_of_its_members():
    wide = Given(MEAN + 1.0, 4.0 * COV)
    members = forecast(), forecast(MEAN + 0.5, COV, "mixture", wide)
    average = Forecast.average(members, [0.25, 0.75])
    check = average.check(300, random_state=2)
    first, second = Given(MEAN, COV)(300, 2), wide(300, 2)
    center = 0.25 * first.mean(axis=0) + 0.75 * second.mean(axis=0)
    spread = 0.25 * first.std(axis=0) + 0.75 * second.std(axis=0)
    frame = check.frame.iloc[:3]
    np.testing.assert_allclose(frame["std_ratio"], average.std / spread)
    shift = (average.mean - center) / spread
    np.testing.assert_allclose(frame["mean_error"], shift * np.sqrt(300))
    assert [m.verdict for m in check.members] == ["exact", "monte_carlo"]
    assert "member 2: use 'monte_carlo'" in str(check)
    assert average.propagation == ("exact", "mixture")
    assert check.verdict == "monte_carlo"
    assert Forecast.average([forecast(), forecast()]).propagation == "exact"


def test_the_automatic_choice_can_be_checked():
    ahead = Forecaster().fit(datasets.load_us_gdp()).forecast(8)
    check = ahead.check(100, random_state=0)
    assert len(check.members) > 1
    assert len(check.frame) == 9
    assert np.isfinite(check.frame.drop(columns="bimodal").to_numpy()).all()


def test_the_aggregate_is_checked_by_the_paths_of_the_aggregate():
    ahead = forecast(cov=0.7**2 * COV)
    whole, total = ahead.check(300, 4).frame, ahead.aggregate("sum").check(300, 4).frame
    np.testing.assert_allclose(total.loc["sum"].astype(float), whole.loc["sum"].astype(float))


@pytest.mark.parametrize(
    "ahead",
    [
        Forecast(pd.RangeIndex(3), MEAN, COV),
        forecast().condition(pd.Series([1.0], [0])),
        Forecast.average([forecast(), forecast(MEAN + 1)]).aggregate("sum"),
    ],
    ids=["by hand", "conditioned", "aggregate of an average"],
)
def test_a_forecast_without_its_model_says_so(ahead):
    with pytest.raises(ValueError, match="check must be called on a forecast that knows its model"):
        ahead.check()


def test_too_few_paths_are_refused():
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        forecast().check(20)


def test_a_forecast_goes_through_a_pickle():
    ahead = fitted("ar2").forecast(3)
    again = pickle.loads(pickle.dumps(ahead))
    pd.testing.assert_frame_equal(again.check(100, 0).frame, ahead.check(100, 0).frame)


@pytest.mark.parametrize(
    "ahead", [forecast(), forecast(MEAN[:1], COV[:1, :1], paths=Given(MEAN[:1], COV[:1, :1]))]
)
def test_the_picture_has_every_step_and_the_sum(ahead):
    _, ax = plt.subplots()
    assert ahead.check(100, 0).plot(ax) is ax
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert labels[-1] == "sum"
    assert labels[0] == "1"
    assert ax.get_xlabel() == "step"
    plt.close()


# propagation="auto"


def test_auto_is_exact_where_the_check_is_silent():
    model = fitted("ar2")
    auto, exact = model.forecast(12, propagation="auto", random_state=0), model.forecast(12)
    assert auto.propagation == exact.propagation == "exact"
    pd.testing.assert_frame_equal(auto.cov, exact.cov)


def test_auto_is_what_the_check_says_elsewhere():
    model, options = fitted("sunspots"), {"n_samples": 500, "random_state": 0}
    auto = model.forecast(24, propagation="auto", **options)
    verdict = model.forecast(24).check(500, 0).verdict
    assert auto.propagation == verdict != "exact"
    named = model.forecast(24, propagation=verdict, **options)
    pd.testing.assert_frame_equal(auto.cov, named.cov)
    again = model.forecast(24, propagation="auto", **options)
    pd.testing.assert_frame_equal(auto.cov, again.cov)


def test_auto_without_a_closed_form_begins_with_taylor():
    y = pd.Series(oracles.autoregression([0.6], 150, np.random.default_rng(1)))
    model = Forecaster(BayesianRidge(), lags=1).fit(y)
    assert model.forecast(5, propagation="auto", random_state=0).propagation == "taylor"


def test_auto_of_a_combination_is_by_member():
    y = datasets.load_sunspots()
    both = Combination([Forecaster(lags=9), Forecaster(lags=1)]).fit(y)
    kinds = both.forecast(24, propagation="auto", random_state=0).propagation
    assert len(kinds) == 2
    assert kinds[0] in ("mixture", "monte_carlo")


def test_auto_needs_one_function():
    with pytest.raises(ValueError, match="path_consistent must be True for propagation='auto'"):
        fitted("ar2").forecast(3, propagation="auto", path_consistent=False)
