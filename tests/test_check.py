"""Forecast.check: against the moments of given paths, and on series where the answer is known."""

import functools
import pickle
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge

from forecast_unc import Forecast, Forecaster, datasets
from forecast_unc.distributions.forecast import forecast_of, prediction_of
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.regression.posterior import Unstable
from tests import oracles

COV = np.array([[1.0, 0.6, 0.3], [0.6, 2.0, 1.0], [0.3, 1.0, 3.0]])
MEAN = np.array([1.0, -2.0, 5.0])
STD = np.sqrt(COV.diagonal())
ALIKE = np.outer(STD, STD)


class Given:
    """Paths in the place of a model's: draws of a normal distribution, or functions of them."""

    def __init__(self, mean, cov, change=lambda y: y):
        self.mean, self.cov, self.change = mean, cov, change

    def __call__(self, n_samples, random_state):
        rng = np.random.default_rng(random_state)
        return self.change(rng.multivariate_normal(self.mean, self.cov, n_samples))


def forecast(mean=MEAN, cov=COV, propagation="exact", paths=None, **options):
    made = Forecast(pd.RangeIndex(len(mean)), mean, cov, **options)
    return with_paths(made, Given(MEAN, COV) if paths is None else paths, propagation)


def with_paths(forecast, draw, propagation="exact"):
    """The forecast as if a model had made it by a propagation, whose paths are drawn so."""
    made = prediction_of(forecast)
    joint = replace(made.joint, draw=draw)
    return forecast_of(forecast.index, replace(made, joint=joint, propagation=propagation))


@functools.cache
def fitted(name):
    if name == "ar2":
        y = oracles.autoregression([1.5, -0.8], 200, np.random.default_rng(0))
        return Forecaster(lags=2).fit(pd.Series(y))
    if name == "elnino":
        return Forecaster(lags=12).fit(datasets.load_elnino()[-240:])
    if name == "co2":
        return Forecaster(lags=13, differences=1).fit(datasets.load_co2()[-150:])
    return Forecaster(lags=9).fit(datasets.load_sunspots())


# The table


def test_a_check_shows_its_verdict_first():
    shown = forecast().check(100, random_state=0)
    assert repr(shown) == str(shown)
    assert repr(shown).startswith('keep propagation="exact" (100 sample paths)\n')


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
        for seed in range(80)
    ]
    # 80 independent repetitions of four rows: the error of a std is 1 / sqrt(2 * 80) = .08
    np.testing.assert_allclose(np.std(errors, axis=0), 1.0, atol=0.25)
    np.testing.assert_allclose(np.mean(errors, axis=0), 0.0, atol=0.35)


def test_after_a_transform_the_scale_is_that_of_normal_steps():
    cov = 0.1 * COV
    log = forecast(MEAN, cov, paths=Given(MEAN, cov, np.exp), transform=PowerTransform(0.0))
    plain = forecast(MEAN, cov, paths=Given(MEAN, cov))
    found, expected = (one.check(300, 1).frame for one in (log, plain))
    pd.testing.assert_frame_equal(found[:-1], expected[:-1], rtol=1e-4)
    assert found.loc["sum", "std_ratio"] == pytest.approx(expected.loc["sum", "std_ratio"], rel=0.1)


# The verdict


def bimodal(y):
    return MEAN + np.where(y > MEAN, 1.0, -1.0) * (1.0 + 0.1 * np.abs(y - MEAN))


def piled(y):
    """Of the same mean and std, with a third of the values at one, which is not bimodal."""
    return MEAN + STD * (np.maximum((y - MEAN) / STD, -0.4) - 0.2304) / 0.7142


def exponential(y):
    return MEAN + np.sqrt(np.diagonal(COV)) * (-np.log(norm.sf((y - MEAN) / COV.diagonal() ** 0.5)))


@pytest.mark.parametrize(
    ("ahead", "verdict", "reason"),
    [
        (forecast(), "exact", None),
        (forecast(propagation="taylor"), "taylor", None),
        (forecast(cov=1.1**2 * COV), "exact", None),
        (forecast(cov=0.7**2 * COV), "mixture", "3 of 3 steps and the sum: too narrow, "),
        (forecast(cov=1.5**2 * COV), "mixture", "3 of 3 steps and the sum: too wide, "),
        (forecast(MEAN + np.array([0.0, 0.0, 0.6])), "mixture", "biased, "),
        (forecast(cov=0.7**2 * COV, propagation="mixture"), "monte_carlo", "too narrow"),
        (forecast(paths=Given(MEAN, COV, bimodal)), "mixture", "bimodal"),
        (
            forecast(cov=ALIKE, paths=Given(MEAN, ALIKE, piled)),
            "mixture",
            "the sum: the distribution",
        ),
        (forecast(cov=np.diag([1e-4] * 3)), "mixture", "too narrow, the std is 0.0"),
    ],
)
def test_verdicts(ahead, verdict, reason):
    for seed in range(3):
        check = ahead.check(random_state=seed)
        assert check.verdict == verdict
        assert (not check.reasons) if reason is None else any(reason in r for r in check.reasons)
        kept = verdict == ahead.propagation
        assert f'{"keep" if kept else "use"} propagation="{verdict}"' in str(check)


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
    check = fitted(name).forecast(24, propagation="exact").check(random_state=0)
    assert check.verdict == "exact", str(check)


@pytest.mark.parametrize("name", ["elnino", pytest.param("sunspots", marks=pytest.mark.slow)])
def test_it_flags_where_the_function_bends(name):
    check = fitted(name).forecast(24, propagation="exact").check(random_state=0)
    assert check.verdict in ("mixture", "monte_carlo")
    assert check.frame.loc["sum", "std_ratio"] < 0.85
    merged = fitted(name).forecast(24, propagation="mixture").check(1500, random_state=0)
    # errors of 1500 paths, of excess kurtosis 8 (sunspots) and 200, and as much of 1024 pieces
    assert abs(merged.frame.loc["sum", "std_error"]) < 3 * np.sqrt(1 + 1500 / 1024)


def test_it_says_where_moment_matching_is_too_wide_and_biased():
    """Errors that the logistic map folds back add up in a normal distribution."""
    x, rng = [0.4], np.random.default_rng(0)
    for _ in range(60):
        x.append(3.8 * x[-1] * (1.0 - x[-1]) + 0.01 * rng.normal())
    model = Forecaster(lags=1).fit(pd.Series(x))
    check = model.forecast(10, propagation="exact").check(random_state=0)
    assert check.verdict == "mixture"
    assert check.frame.loc["sum", "std_ratio"] > 3.0
    assert {reason.split(": ")[1].split(", ")[0] for reason in check.reasons} >= {
        "too wide",
        "biased",
    }
    mixture = model.forecast(10, propagation="mixture").check(random_state=0)
    assert mixture.frame.loc["sum", "std_ratio"] == pytest.approx(1.0, abs=0.15)


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


@functools.cache
def random_walk():
    """A short autoregression of coefficient .95, so that an error of the slope compounds."""
    y = oracles.autoregression([0.95], 60, np.random.default_rng(4))
    return Forecaster(lags=1).fit(pd.Series(y))


@pytest.mark.parametrize("name", [pytest.param("sunspots", marks=pytest.mark.slow), "short"])
def test_the_default_of_one_model_is_near_its_own_paths(name):
    model, steps = (random_walk(), 12) if name == "short" else (fitted(name), 24)
    auto = model.forecast(steps)
    assert auto.propagation == "mixture"
    exact = model.forecast(steps, propagation="exact")
    paths = model.forecast(steps, propagation="monte_carlo", n_samples=4000, random_state=0)
    for how in ("sum", "max"):
        # 1024 pieces and 4000 paths of excess kurtosis 8: .05 and .025
        std = paths.aggregate(how).std.item()
        assert auto.aggregate(how).std.item() == pytest.approx(std, rel=0.15)
    total = paths.aggregate("sum").std.item()
    assert exact.aggregate("sum").std.item() < 0.95 * auto.aggregate("sum").std.item()
    assert exact.aggregate("sum").std.item() < total
    again = model.forecast(steps, random_state=5)  # without a seed
    pd.testing.assert_frame_equal(auto.cov, again.cov)
    pd.testing.assert_frame_equal(auto.cov, model.forecast(steps, propagation="mixture").cov)


def test_first_steps_of_the_default_do_not_depend_on_the_horizon():
    """Beyond those that a piece's function is conditioned on, too."""
    model = fitted("ar2")
    longest = model.forecast(70)
    for steps in (2, 12, 68):
        first = model.forecast(steps)
        np.testing.assert_allclose(first.mean, longest.mean[:steps], rtol=1e-9)
        np.testing.assert_allclose(first.cov, longest.cov.iloc[:steps, :steps], rtol=1e-9)
    one = model.forecast(1)  # in closed form, as `fitted` and `score` have it
    assert one.propagation == "exact"
    assert one.mean.item() == pytest.approx(longest.mean.iloc[0], abs=0.01 * one.std.item())
    assert one.std.item() == pytest.approx(longest.std.iloc[0], rel=0.01)


def test_the_default_is_exact_from_where_the_mixture_is_unstable():
    y = pd.Series(1000 * np.exp(-0.1 * np.arange(60)))
    model = Forecaster(lags=2).fit(y)
    longest = model.forecast(60)  # of which a piece diverges at step 45
    assert longest.propagation == ("mixture", "exact")
    assert longest.std.iloc[-1] == model.forecast(60, propagation="exact").std.iloc[-1]
    for steps in (2, 12, 40):
        first = model.forecast(steps)
        np.testing.assert_allclose(first.mean, longest.mean[:steps], rtol=1e-9)
        np.testing.assert_allclose(first.cov, longest.cov.iloc[:steps, :steps], atol=1e-9)
        assert longest.decompose().iloc[:steps].to_numpy() == pytest.approx(
            first.decompose().to_numpy(), rel=1e-6, abs=1e-9
        )


def test_the_default_of_an_average_is_exact():
    model = Forecaster().fit(datasets.load_us_gdp())
    ahead = model.forecast(4)
    assert len(ahead.members) > 1
    assert ahead.propagation == "exact"
    pd.testing.assert_frame_equal(ahead.cov, model.forecast(4, propagation="exact").cov)


@pytest.mark.parametrize("case", ["noisy", "gap", "classic"])
def test_the_default_is_exact_where_pieces_would_be_weighted(case):
    y = pd.Series(oracles.autoregression([0.6], 60, np.random.default_rng(1)))
    if case == "gap":
        y[56:58] = np.nan
    y_std = pd.Series(0.2, y.index) if case == "noisy" else None
    model = Forecaster(lags=3).fit(y, y_std=y_std)
    options = {"path_consistent": case != "classic"}
    auto, exact = model.forecast(4, **options), model.forecast(4, propagation="exact", **options)
    assert auto.propagation == "exact"
    pd.testing.assert_frame_equal(auto.cov, exact.cov)


def test_the_default_is_exact_where_a_piece_diverges(monkeypatch):
    def diverges(mean, std, limit):
        raise Unstable("steps", "stay stable", "one that diverges", "Ask for fewer.")

    model = random_walk()
    monkeypatch.setattr("forecast_unc.forecasting.horizon.paths.check_stable", diverges)
    assert model.forecast(4).propagation == "exact"
    with pytest.raises(ValueError, match="diverges"):
        model.forecast(4, propagation="mixture")


def test_the_default_without_a_closed_form_is_taylor():
    y = pd.Series(oracles.autoregression([0.6], 150, np.random.default_rng(1)))
    assert Forecaster(BayesianRidge(), lags=1).fit(y).forecast(5).propagation == "taylor"
