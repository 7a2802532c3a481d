"""Forecasts that are not normal: log, Box-Cox and averages. Those that are: test_forecast."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from scipy import special, stats
from scipy.integrate import trapezoid

from forecast_unc import Forecaster, LinearRegressor
from forecast_unc.distributions import scores
from forecast_unc.distributions.average import average
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.power import PowerTransform

H = 4
INDEX = pd.date_range("2023-11-30", periods=H, freq="ME")
LOG, ROOT = PowerTransform(0.0), PowerTransform(0.5)
GRID = np.linspace(-8.0, 8.0, 4001)  # normal scores


def make(transform=None, *, seed=0, level=1.0, size=0.3, index=INDEX, parts=True):
    """Forecast of H steps with a positively correlated covariance of its own."""
    rng = np.random.default_rng(seed)
    root = size * rng.uniform(0.1, 1, size=(H, H + 2))
    model, noise = 0.1 * root @ root.T, 0.2 * size**2 * np.eye(H)
    return Forecast(
        index,
        rng.normal(level, 0.3, size=H),
        root @ root.T + model + noise,
        parts={"noise": noise, "function_own": model} if parts else None,
        name="load",
        transform=transform,
    )


def mixed():
    return Forecast.average(
        [make(level=3.0), make(LOG, seed=1), make(ROOT, seed=2, level=2.0)], [0.2, 0.5, 0.3]
    )


FORECASTS = {
    "log": lambda: make(LOG),
    "root": lambda: make(ROOT, level=0.5, size=0.5),
    "root with zeros": lambda: make(ROOT, level=-0.5, size=0.8),
    "average of logs": lambda: Forecast.average([make(LOG), make(LOG, seed=3, level=1.5)]),
    "mixed": mixed,
}


@pytest.fixture(params=FORECASTS, ids=str)
def forecast(request):
    return FORECASTS[request.param]()


def on_scale(forecast, transform):
    """Mean and std of the steps on the scale on which they are normal, (H,) each."""
    center, upper = transform.forward(forecast._joint.q(np.array([[0.0, 1.0]]))).T
    return center, upper - center


def same(a, b, rtol=1e-6):
    """Assert that two forecasts have the same joint distribution, as far as their methods tell."""
    levels = [0.01, 0.3, 0.5, 0.95]
    np.testing.assert_allclose(a.quantile(levels), b.quantile(levels), rtol=rtol)
    np.testing.assert_allclose(a.mean, b.mean, rtol=rtol)
    np.testing.assert_allclose(a.cov, b.cov, rtol=rtol, atol=1e-14)
    np.testing.assert_allclose(a.sample(3, 0), b.sample(3, 0), rtol=1e-6, atol=1e-9)


# The distributions


def test_log_is_the_lognormal():
    log = make(LOG)
    x = make()
    lognormal = stats.lognorm(x.std, scale=np.exp(x.mean))
    np.testing.assert_allclose(log.mean, lognormal.mean(), rtol=1e-12)
    np.testing.assert_allclose(log.median, lognormal.median(), rtol=1e-12)
    np.testing.assert_allclose(log.std, lognormal.std(), rtol=1e-12)
    np.testing.assert_allclose(log.quantile(0.3), lognormal.ppf(0.3), rtol=1e-6)
    np.testing.assert_allclose(log.interval(0.9).T, lognormal.interval(0.9), rtol=1e-6)
    assert (log.mean > np.exp(x.mean) * 1.001).all()  # not the exponentiated mean
    m = lognormal.mean()
    np.testing.assert_allclose(log.cov, np.outer(m, m) * np.expm1(x.cov), rtol=1e-10)
    assert repr(log) == repr(x)


def test_quantiles_are_those_of_the_transformed_forecast():
    for transform in (LOG, ROOT, PowerTransform(0.2)):
        levels = [0.05, 0.5, 0.9]
        np.testing.assert_allclose(
            make(transform).quantile(levels), transform.inverse(make().quantile(levels)), rtol=1e-6
        )


def test_identity_transform_is_the_normal_forecast():
    plain, same_ = make(), make(PowerTransform())
    pd.testing.assert_frame_equal(plain.cov, same_.cov)
    pd.testing.assert_frame_equal(plain.sample(3, 0), same_.sample(3, 0))


def test_tables_hold_the_mean_and_the_interval(forecast):
    band = forecast.interval(0.95)
    frame = forecast.summary_frame(0.05)
    np.testing.assert_array_equal(frame["mean"], forecast.mean)
    np.testing.assert_array_equal(frame["mean_se"], forecast.std)
    np.testing.assert_array_equal(frame[["mean_ci_lower", "mean_ci_upper"]], band)
    table = forecast.to_nixtla(levels=(95,))
    np.testing.assert_array_equal(table["forecast_unc"], forecast.mean)
    np.testing.assert_array_equal(table[["forecast_unc-lo-95", "forecast_unc-hi-95"]], band)
    line = forecast.plot().lines[0]
    np.testing.assert_array_equal(line.get_ydata(), forecast.mean)


@given(
    power=st.just(0.0) | st.floats(1e-9, 1 - 1e-8),  # 1 - power rounds, and is at least 1e-9
    level=st.floats(-3, 3),
    size=st.floats(0.01, 2),
    seed=st.integers(0, 50),
    q=st.lists(st.floats(1e-6, 1 - 1e-6), min_size=2, max_size=5, unique=True),
)
def test_transformed_quantiles_increase_from_zero_on_and_have_their_pit(
    power, level, size, seed, q
):
    try:
        one = make(PowerTransform(power), level=level, size=size, seed=seed)
        two = make(PowerTransform(1 - power), level=level + 0.5, size=size, seed=seed + 1)
    except Diverged:  # certain to be 0
        reject()
    levels = sorted(q)
    for forecast in (one, Forecast.average([one, two], [0.3, 0.7])):
        values = forecast.quantile(levels)
        assert (values.to_numpy() >= 0).all()
        assert (np.diff(values) >= 0).all()
        for p in levels:
            pit = forecast.cdf(values[p]).to_numpy()
            positive = values[p].to_numpy() > 0
            np.testing.assert_allclose(pit[positive], p, rtol=1e-6, atol=1e-8)
            assert (pit[~positive] >= p * (1 - 1e-6)).all()
        assert (forecast.interval(0.999) >= 0).all(axis=None)


# Averages


@given(
    weight=st.floats(0.01, 0.99),
    power=st.none() | st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 20),
)
def test_average_with_itself_is_itself(weight, power, seed):
    forecast = make(PowerTransform(power), seed=seed)
    twice = Forecast.average([forecast, forecast], [weight, 1 - weight])
    same(twice, forecast, rtol=1e-6)
    parts = twice.decompose(), forecast.decompose()
    pd.testing.assert_frame_equal(*parts, atol=1e-6)  # Hermite series beside the closed form
    assert twice.name == "load"


def test_normal_members_give_a_normal_average():
    a, b = make(), make(seed=4, level=5.0)
    average = Forecast.average([a, b], [1, 3])
    np.testing.assert_allclose(average.mean, 0.25 * a.mean + 0.75 * b.mean, rtol=1e-13)
    np.testing.assert_allclose(average.std, 0.25 * a.std + 0.75 * b.std, rtol=1e-13)
    within = 0.25 * a.cov + 0.75 * b.cov
    std = np.sqrt(np.diag(within))
    cor = average.cov / np.outer(average.std, average.std)
    np.testing.assert_allclose(cor, within / np.outer(std, std), rtol=1e-12)
    # Normal: it conditions and aggregates in closed form.
    total = average.aggregate()
    assert total.var.item() == pytest.approx(average.cov.to_numpy().sum(), rel=1e-12)
    np.testing.assert_allclose(
        total.interval(0.8).to_numpy()[0],
        stats.norm(total.mean.item(), total.std.item()).interval(0.8),
        rtol=1e-12,
    )


def test_quantiles_and_means_are_averaged():
    members, weights = [make(), make(LOG, seed=1), make(ROOT, seed=2)], np.array([0.5, 0.2, 0.3])
    average = Forecast.average(members, 10 * weights)
    levels = [0.001, 0.25, 0.5, 0.9]
    expected = sum(w * m.quantile(levels) for w, m in zip(weights, members, strict=True))
    np.testing.assert_allclose(average.quantile(levels), expected, rtol=1e-6)
    means = sum(w * m.mean for w, m in zip(weights, members, strict=True))
    np.testing.assert_allclose(average.mean, means, rtol=1e-6)


@given(order=st.permutations(range(4)))
def test_order_of_the_members_does_not_matter(order):
    members = [make(), make(LOG, seed=1), make(ROOT, seed=2), make(seed=5)]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    shuffled = Forecast.average([members[i] for i in order], weights[list(order)])
    same(shuffled, Forecast.average(members, weights))


def test_averages_of_averages_average_quantiles():
    a, b, c = make(LOG), make(LOG, seed=1), make(ROOT, seed=2)
    nested = Forecast.average([Forecast.average([a, b]), c], [2, 1])
    flat = Forecast.average([a, b, c])
    levels = [0.1, 0.5, 0.99]
    np.testing.assert_allclose(nested.quantile(levels), flat.quantile(levels), rtol=1e-12)
    np.testing.assert_allclose(nested.cov, flat.cov, rtol=0.02)


def test_members_without_weight_do_not_count():
    a, b = make(LOG), make(seed=1)
    same(Forecast.average([a, b], [1.0, 0.0]), a)


def test_average_says_what_it_needs():
    a = make()
    later = make(index=INDEX + pd.offsets.MonthEnd(1))
    with pytest.raises(ValueError, match=r"forecasts must hold a forecast; got none\. "):
        Forecast.average([])
    with pytest.raises(TypeError, match=r"forecasts must be a sequence of Forecasts; got Forecast"):
        Forecast.average(a)
    with pytest.raises(TypeError, match=r"forecasts must hold Forecasts; got float\. "):
        Forecast.average([a, 1.0])
    with pytest.raises(
        ValueError, match=r"forecasts must be of the same times; .* 2024-03-31, .* the same steps"
    ):
        Forecast.average([a, later])
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\); got \(3,\)\. "):
        Forecast.average([a, a], [1, 2, 3])
    for weights in ([-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(
            ValueError,
            match=r"weights must not be negative, nor all 0 at a step; got \[.*\] at 2023-11-30\. ",
        ):
            Forecast.average([a, a], weights)
    with pytest.raises(ValueError, match=r"weights must have shape \(2, 4\); got \(2, 3\)\. "):
        Forecast.average([a, a], np.ones((2, 3)))
    with pytest.raises(TypeError, match=r"weights must be numbers; got 'ab'\. "):
        Forecast.average([a, a], "ab")
    with pytest.raises(
        ValueError, match=r"nor all 0 at a step; got \[0\.0, 0\.0\] at 2024-01-31\. "
    ):
        Forecast.average([first_steps(a, 2), a], [1, 0])
    with pytest.raises(
        ValueError, match=r"nor all 0 at a step; got \[0\.0, 0\.0\] at 2023-12-31\. "
    ):
        Forecast.average([a, a], [[1, 0, 1, 1], [1, 0, 0, 1]])
    with pytest.raises(
        ValueError,
        match=r"weights must be 0 beyond the end of a forecast; got 1 at 2024-01-31 for f",
    ):
        Forecast.average([first_steps(a, 2), a], np.ones((2, H)))
    with pytest.raises(
        ValueError, match=r"forecasts must be of the same times; .* 2024-01-31, 2 s"
    ):
        Forecast.average([first_steps(later, 2), a])


def first_steps(forecast, k):
    """The forecast of fewer steps, as its constructor makes it."""
    z = np.array([[0.0, 1.0, 0.5]])
    for transform in (PowerTransform(), LOG, ROOT, PowerTransform(0.3)):
        center, upper, between = transform.forward(forecast._joint.q(z)).T
        if np.allclose(between, 0.5 * (center + upper), rtol=1e-7):
            break
    center, std = center[:k], (upper - center)[:k]
    # Parts in units of y, as the constructor takes them on the scale of the transform.
    ratio = std / forecast.std.to_numpy()[:k]
    parts = None
    if forecast._joint.parts is not None:
        parts = {
            name: np.outer(ratio, ratio) * part[:k, :k]
            for name, part in forecast._joint.parts().items()
        }
    return Forecast(
        forecast.index[:k],
        center,
        np.outer(std, std) * forecast._joint.cor[:k, :k],
        parts=parts,
        name=forecast.name,
        transform=transform,
    )


def assert_begins_as(longer, shorter, rtol=1e-7):
    """Assert that the first steps of a forecast have the joint distribution of a shorter one."""
    k = len(shorter)
    levels = [0.001, 0.3, 0.5, 0.99]
    pd.testing.assert_index_equal(longer.index[:k], shorter.index)
    np.testing.assert_allclose(longer.mean[:k], shorter.mean, rtol=rtol)
    std = shorter.std.to_numpy()
    np.testing.assert_allclose(longer.std[:k], std, rtol=rtol)
    np.testing.assert_allclose(
        longer.quantile(levels)[:k].sub(shorter.mean, axis=0) / std[:, None],
        shorter.quantile(levels).sub(shorter.mean, axis=0) / std[:, None],
        rtol=0,
        atol=10 * rtol,
    )
    scale = np.outer(std, std)
    np.testing.assert_allclose(longer.cov.iloc[:k, :k] / scale, shorter.cov / scale, atol=rtol)
    np.testing.assert_allclose(longer._joint.cor[:k, :k], shorter._joint.cor, atol=rtol)
    np.testing.assert_allclose(
        longer.decompose()[:k] / std[:, None] ** 2,
        shorter.decompose() / std[:, None] ** 2,
        atol=rtol,
    )
    np.testing.assert_allclose(
        longer.score(longer.quantile(0.8))[:k], shorter.score(shorter.quantile(0.8)), rtol=1e-8
    )


POWERS = st.none() | st.just(0.0) | st.floats(1e-3, 1.0)
WEIGHTS = st.just(0.0) | st.floats(0.01, 1.0)


@given(
    powers=st.lists(POWERS, min_size=2, max_size=4),
    ends=st.lists(st.integers(1, H), min_size=4, max_size=4),
    weights=st.lists(st.lists(WEIGHTS, min_size=H, max_size=H), min_size=4, max_size=4),
    how=st.sampled_from(["steps", "members", "none"]),
    k=st.integers(1, H),
    seed=st.integers(0, 20),
)
def test_the_first_steps_of_an_average_are_the_average_of_the_first_steps(
    powers, ends, weights, how, k, seed
):
    n = len(powers)
    ends = [H, *ends[1:n]]
    given_ = np.array(weights[:n])
    given_[0] += 0.1
    given_ = np.where(np.arange(H) < np.array(ends)[:, None], given_, 0.0)
    members = [
        first_steps(make(PowerTransform(p), seed=seed + i, level=1.0 + i), end)
        for i, (p, end) in enumerate(zip(powers, ends, strict=True))
    ]
    short = [first_steps(m, min(k, len(m))) for m in members]
    longer, shorter = {"steps": given_, "members": given_[:, 0], "none": None}[how], None
    if how != "none":
        shorter = longer[:, :k] if how == "steps" else longer
    assert_begins_as(Forecast.average(members, longer), Forecast.average(short, shorter))


def test_each_step_has_the_average_of_its_own_weights():
    members = [make(), make(LOG, seed=1), make(ROOT, seed=2)]
    weights = np.array([[1, 0.5, 0, 0], [0, 0.5, 0.25, 2], [0, 0, 0.75, 1]])
    average = Forecast.average(members, weights)
    share = weights / weights.sum(axis=0)
    levels = [0.001, 0.25, 0.5, 0.9]
    expected = sum(m.quantile(levels).mul(w, axis=0) for w, m in zip(share, members, strict=True))
    np.testing.assert_allclose(average.quantile(levels), expected, rtol=1e-6)
    np.testing.assert_allclose(
        average.mean, sum(w * m.mean for w, m in zip(share, members, strict=True)), rtol=1e-6
    )
    within = sum(
        np.outer(np.sqrt(w) * m.std, np.sqrt(w) * m.std) * m._joint.cor
        for w, m in zip(share, members, strict=True)
    )
    std = np.sqrt(within.diagonal())
    np.testing.assert_allclose(average._joint.cor, within / np.outer(std, std), rtol=1e-6)
    for part in ("noise", "function_own", "inputs_nonlinear"):
        own = np.array([m.decompose()[part] for m in members])
        np.testing.assert_allclose(
            average.decompose()[part], (share * own).sum(axis=0), rtol=1e-6, atol=1e-6
        )


def test_paths_of_weights_by_step_have_the_joint_moments():
    members = [make(), make(LOG, seed=1), make(ROOT, seed=2)]
    average = Forecast.average(members, [[1, 0.5, 0, 0], [0, 0.5, 0.25, 2], [0, 0, 0.75, 1]])
    n = 200_000
    paths = average.sample(n, random_state=1).to_numpy()
    deviation = paths - average.mean.to_numpy()[:, None]
    products = deviation[:, None] * deviation[None]
    error = products.std(axis=2) / np.sqrt(n)
    np.testing.assert_array_less(abs(products.mean(axis=2) - average.cov.to_numpy()) / error, 4.5)
    total = average.aggregate("sum")
    assert total.mean.item() == pytest.approx(average.mean.sum(), rel=1e-9)
    assert total.var.item() == pytest.approx(average.cov.to_numpy().sum(), rel=1e-8)
    for q in (0.025, 0.1, 0.5, 0.9, 0.975):
        covered = (paths.sum(axis=0) <= total.quantile(q).item()).mean()
        assert covered == pytest.approx(q, abs=0.01)


def test_aggregates_of_weights_by_step_are_those_of_their_own_steps():
    """Groups in which a member has no weight at all are those of the others, of other paths."""
    log, plain = make(LOG), make(seed=1)
    both = Forecast.average([log, plain], [[1, 1, 0, 0], [0, 0, 1, 1]])
    years = both.aggregate("sum", freq="YE", partial="keep")
    levels = [0.01, 0.5, 0.9]
    expected = [log.aggregate("sum", "YE", partial="keep").quantile(levels).iloc[0]]
    expected.append(plain.aggregate("sum", "YE", partial="keep").quantile(levels).iloc[1])
    np.testing.assert_allclose(years.quantile(levels), expected, rtol=0.01, atol=0.001)


@pytest.mark.parametrize("poison", [np.inf, np.nan, 1e300])
@pytest.mark.parametrize("power", [None, 0.0, 0.5])
def test_nothing_is_read_where_there_is_no_weight(power, poison):
    members = [make(seed=3), make(PowerTransform(power), seed=1)]
    weights = np.array([[0.5, 0.0, 1.0, 0.75], [0.5, 1.0, 0.0, 0.25]])
    clean = [m._joint for m in members]
    bad = np.array([0, 0, 1, 0], dtype=bool)
    q = clean[1].q
    rows = {name: np.where(bad[:, None], poison, getattr(q, name)) for name in ("rest", "slopes")}
    rows |= {name: np.where(bad, poison, getattr(q, name)) for name in ("normal_std", "lower")}
    broken = replace(
        clean[1],
        q=replace(q, **rows),
        cor=np.where(bad | bad[:, None], poison, clean[1].cor),
        cov=np.where(bad | bad[:, None], poison, clean[1].cov),
    )
    expected, got = (average([clean[0], other], weights) for other in (clean[1], broken))
    z = np.array([[-2.0, 0.0, 1.0]])
    np.testing.assert_array_equal(got.q(z), expected.q(z))
    np.testing.assert_array_equal(got.cov, expected.cov)
    y = expected.q(z)[:, 2]
    for score in ("crps", "nlpd", "pit"):
        np.testing.assert_array_equal(getattr(got.q, score)(y), getattr(expected.q, score)(y))


def test_a_huge_member_without_weight_does_not_move_a_step():
    huge = Forecast(INDEX, [1.0, 1.0, 300.0, 340.0], np.diag([0.1, 0.1, 0.2, 0.3]), transform=LOG)
    a = make()
    both = Forecast.average([a, huge], [[1, 1, 1, 1], [1, 1, 0, 0]])
    shorter = Forecast.average([a, first_steps(huge, 2)])
    same(both, shorter, rtol=1e-12)
    np.testing.assert_allclose(both.mean[2:], a.mean[2:], rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-150, 1e-81, 1e77, 1e150])
def test_averages_of_extreme_units_are_those_of_plain_ones(scale):
    def scaled(forecast, factor):
        return Forecast(
            INDEX,
            factor * forecast.mean,
            factor**2 * forecast.cov,
            parts={name: factor**2 * part for name, part in forecast._joint.parts().items()},
        )

    members = [make(), make(seed=1, level=3.0)]
    log = make(LOG, seed=2)
    shift, size = on_scale(log, LOG)
    parts = {"noise": 0.1 * np.diag(size**2), "function_own": 0.2 * np.diag(size**2)}
    moved = Forecast(
        INDEX,
        shift + np.log(scale),
        np.outer(size, size) * log._joint.cor,
        parts=parts,
        transform=LOG,
    )
    plain = Forecast(
        INDEX,
        shift,
        np.outer(size, size) * log._joint.cor,
        parts=parts,
        transform=LOG,
    )
    for one, other in ((members, []), (members[:1], [plain])):
        expected = Forecast.average([*one, *other], [1, 2])
        got = Forecast.average(
            [*(scaled(m, scale) for m in one), *([moved] if other else [])], [1, 2]
        )
        # Logarithms near 345 keep 13 digits.
        np.testing.assert_allclose(got.mean / scale, expected.mean, rtol=2e-12)
        np.testing.assert_allclose(got.std / scale, expected.std, rtol=2e-12)
        np.testing.assert_allclose(got._joint.cor, expected._joint.cor, rtol=1e-12)
        np.testing.assert_allclose(
            got.decompose().div(got.var, axis=0),
            expected.decompose().div(expected.var, axis=0),
            rtol=1e-10,
        )
        total, sum_ = (
            got.aggregate("sum", "YE", partial="keep"),
            expected.aggregate("sum", "YE", partial="keep"),
        )
        np.testing.assert_allclose(total.std / scale, sum_.std, rtol=1e-10)


# Forecasts that diverge


def test_a_diverging_forecast_carries_its_step():
    with pytest.raises(
        Diverged, match=r"cov must leave .*; got none at 2024-01-31, where 95 % of y lie from "
    ) as caught:
        Forecast(INDEX, [1.0, 2.0, 400.0, 800.0], 0.1 * np.eye(H), transform=LOG)
    assert caught.value.step == 3
    assert isinstance(caught.value, ValueError)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.step, str(copy)) == (3, str(caught.value))
    Forecast(INDEX[:2], [1.0, 2.0], 0.1 * np.eye(2), transform=LOG)


@pytest.mark.parametrize("steps", [30, 40])
def test_a_logarithm_that_diverges_near_the_largest_float_does_not_warn(steps):
    y = pd.Series(np.exp(0.1 * 1.2 ** np.arange(20) + 0.01 * np.sin(np.arange(20) ** 2)))
    with pytest.raises(Diverged):
        Forecaster(LinearRegressor(), lags=1, transform="log").fit(y).forecast(steps)


# Scores


def test_score_of_a_lognormal():
    x, log = make(), make(LOG)
    actual = pd.Series([1.0, 4.0, np.nan, 60.0], index=INDEX)
    table = log.score(actual, 0.8)
    lognormal = stats.lognorm(x.std, scale=np.exp(x.mean))
    np.testing.assert_allclose(table["error"], actual - log.mean)
    np.testing.assert_allclose(table["pit"], lognormal.cdf(actual), rtol=1e-6)
    np.testing.assert_allclose(table["nlpd"], -lognormal.logpdf(actual), rtol=1e-6)
    band = log.interval(0.8)
    np.testing.assert_allclose(
        table["interval_score"],
        scores.interval_score(actual, band["lower"], band["upper"], 0.8),
    )
    assert table.iloc[2].isna().all()


def test_energy_score_is_that_of_the_paths(forecast):
    actual = forecast.median
    got = forecast.energy_score(actual.iloc[::-1], n_samples=50, random_state=2)
    assert got == scores.energy_score(actual, forecast.sample(50, 2).T)
    assert forecast.energy_score(actual, 50, 3) != got
    assert np.isnan(forecast.energy_score(actual.where(actual.index != INDEX[1]), 10, 0))
    with pytest.raises(ValueError, match=r"actual must hold each of the forecast's times; got no"):
        forecast.energy_score(actual.iloc[1:])
    with pytest.raises(ValueError, match=r"n_samples must be a whole number, at least 2; got 0\. "):
        forecast.energy_score(actual, 0)


# Aggregates


def test_sum_of_one_step_is_that_step(forecast):
    last = forecast.aggregate([0, 0, 0, 2.0])
    levels = [0.01, 0.5, 0.9]
    np.testing.assert_allclose(
        last.quantile(levels), 2 * forecast.quantile(levels).iloc[3:], rtol=1e-12
    )


# Conditioning


def test_condition_is_that_of_the_normal_scores():
    x, log = make(), make(LOG)
    observed = pd.Series([2.0, 5.0], index=INDEX[[3, 1]])
    rest, expected = log.condition(observed), x.condition(np.log(observed))
    same(rest, Forecast(expected.index, expected.mean, expected.cov, transform=LOG), rtol=1e-6)


def test_condition_is_the_distribution_of_the_paths_nearby(forecast):
    observed = forecast.quantile(0.7).iloc[[1]]
    rest = forecast.condition(observed)
    paths = forecast.sample(400_000, random_state=4)
    near = paths.loc[:, abs(paths.iloc[1] - observed.item()) < 0.05 * forecast.std.iloc[1]]
    near = near.drop(index=observed.index)
    n = near.shape[1]
    assert n > 2000
    for q in (0.1, 0.5, 0.9):
        below = near.le(rest.quantile(q), axis=0).mean(axis=1)
        np.testing.assert_allclose(below, q, atol=5 * np.sqrt(q * (1 - q) / n))


def test_condition_refuses_what_the_forecast_excludes():
    nothing = pd.Series([0.0], index=INDEX[[1]])
    for forecast in (make(LOG), Forecast.average([make(LOG), make(ROOT)])):
        with pytest.raises(
            ValueError, match=r"observed must hold values of positive density; got 0 at 2023-12-31"
        ):
            forecast.condition(nothing)
    both = Forecast.average([make(LOG), make()])
    assert len(both.condition(nothing)) == H - 1
    assert len(make(ROOT).condition(nothing)) == H - 1  # of positive probability


# Parts


def test_parts_keep_their_shares_of_the_variance():
    plain, log = make(), make(LOG)
    shares = plain.decompose().div(plain.var, axis=0)
    np.testing.assert_allclose(log.decompose().div(log.var, axis=0), shares, rtol=1e-10)


def test_parts_of_an_average_are_the_average_parts():
    a, b = make(LOG), make(seed=1, size=2.0)
    average = Forecast.average([a, b], [0.25, 0.75])
    expected = 0.25 * a.decompose() + 0.75 * b.decompose()
    parts = average.decompose()
    np.testing.assert_allclose(parts.drop(columns="members"), expected.drop(columns="members"))
    # Minus the variance of the members' distance from the average, by quadrature over z.
    levels = special.ndtr(GRID)
    apart = [m.quantile(levels).sub(m.mean, axis=0).to_numpy() for m in (a, b, average)]
    spread = 0.25 * (apart[0] - apart[2]) ** 2 + 0.75 * (apart[1] - apart[2]) ** 2
    density = np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(
        parts["members"], -trapezoid(spread * density, GRID, axis=1), rtol=1e-6
    )


def test_members_of_one_width_add_nothing_wherever_they_lie():
    a = make()
    far = Forecast(INDEX, a.mean + 100.0, a.cov, parts=a._joint.parts)
    both = Forecast.average([a, far, far])
    np.testing.assert_allclose(both.decompose(), a.decompose(), rtol=1e-10, atol=1e-10)


def test_the_parts_of_an_average_of_averages_are_those_of_the_one_average():
    a, b, c = (make(seed=seed, size=0.3 + 0.2 * seed) for seed in range(3))
    nested = Forecast.average([Forecast.average([a, b], [1, 3]), c], [4, 1]).decompose()
    flat = Forecast.average([a, b, c], [1, 3, 1]).decompose()
    np.testing.assert_allclose(nested, flat, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", FORECASTS)
def test_what_rescaling_adds_is_calibration(kind):
    before, factor = FORECASTS[kind](), np.array([1.2, 0.8, 1.0, 1.5])
    after = before.recalibrated(factor, correlation=-0.1)
    parts, old = after.decompose(), before.decompose()
    np.testing.assert_allclose(parts["calibration"], after.var - before.var, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        parts.drop(columns="calibration"), old.drop(columns="calibration"), rtol=0, atol=1e-12
    )
    total = after.aggregate("sum")
    added = after.cov.to_numpy().sum() - before.cov.to_numpy().sum()
    assert total.decompose()["calibration"].item() == pytest.approx(added, rel=1e-10)
    np.testing.assert_allclose(total.decompose().sum(axis=1), total.var, rtol=1e-10)
    again = after.recalibrated(np.ones(H))
    np.testing.assert_allclose(again.decompose(), parts, rtol=0, atol=1e-12)


def test_parts_are_unknown_if_those_of_a_member_are():
    average = Forecast.average([make(LOG), make(parts=False)])
    with pytest.raises(ValueError, match=r"decompose must be called on a forecast that knows its"):
        average.decompose()


# Messages


def test_a_forecast_that_diverged_is_refused():
    far = np.array([1.0, 1.0, 1.0, 400.0])
    with pytest.raises(
        ValueError,
        match=r"cov must leave each step a positive, finite variance; got none at 2024-02-29, "
        r"where 95 % of y lie from .* has diverged.*: ask for fewer steps",
    ):
        Forecast(INDEX, far, np.eye(H), transform=LOG)
    with pytest.raises(ValueError, match=r"got none at 2023-11-30, where 95 % of y lie from 0 to"):
        Forecast(INDEX, np.full(H, -1e3), np.eye(H), transform=ROOT)


def test_transform_is_a_power_transform():
    with pytest.raises(
        TypeError, match=r"transform must be a PowerTransform or None; got 'log'\. .* pass PowerTr"
    ):
        make("log")


def test_an_explanation_adds_up_to_the_change():
    members = [make(), make(LOG, seed=1), make(ROOT, seed=2).first(2)]
    h = len(members[0])
    weights = np.vstack([np.linspace(0.2, 0.7, h), np.full(h, 0.5), [0.3, 0.2, *[0.0] * (h - 2)]])
    average = Forecast.average(members, weights)
    for f in (average, average.recalibrated(np.linspace(1, 2, h)), average * 3.0, -average, make()):
        table = f.explain()
        assert table.index[-2:].tolist() == ["adjustments", "forecast"]
        ends = f.mean.iloc[[0, -1]].tolist()
        assert table.iloc[-1].tolist() == [1.0, 1.0, *ends, ends[1] - ends[0]]
        np.testing.assert_allclose(table["change"].iloc[:-1].sum(), ends[1] - ends[0], atol=1e-9)
    table = average.explain()
    assert table["weight_first"].iloc[:3].tolist() == pytest.approx([0.2, 0.5, 0.3])
    assert table["weight_last"].iloc[2] == 0.0
    assert np.isnan(table["mean_last"].iloc[2])
    assert table["mean_last"].iloc[1] == members[1].mean.iloc[-1]
    assert abs(table["change"].iloc[3]) < 1e-9  # no bound
    start, last, w = (
        average.mean.iloc[0],
        members[1].mean.iloc[-1],
        weights[1] / weights.sum(axis=0),
    )
    first = w[0] * (members[1].mean.iloc[0] - start)
    assert table["change"].iloc[1] == pytest.approx(w[-1] * (last - start) - first)
