import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from forecast_unc.distributions import scores
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.variance_parts import PARTS

H = 6
INDEXES = {
    "daily": pd.date_range("2024-02-27", periods=H, freq="D"),
    "business": pd.bdate_range("2024-03-01", periods=H),
    "time zone": pd.date_range("2024-03-30 22:00", periods=H, freq="h", tz="Europe/Berlin"),
    "monthly period": pd.period_range("2023-11", periods=H, freq="M"),
    "range": pd.RangeIndex(40, 40 + H),
}


def make(index, *, seed=0, parts=True, name="load"):
    h = len(index)
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(h, h + 2))
    model = rng.normal(size=(h, h))
    model, noise = 0.1 * model @ model.T, 0.3 * np.eye(h)
    return Forecast(
        index,
        rng.normal(5, 2, size=h),
        root @ root.T + model + noise,
        parts={"noise": noise, "function_own": model} if parts else None,
        name=name,
    )


@pytest.fixture(params=INDEXES, ids=str)
def forecast(request):
    return make(INDEXES[request.param])


@pytest.fixture
def monthly():
    return make(pd.date_range("2023-11-30", periods=H, freq="ME"))


def conditional_density(forecast, observed):
    """Mean and covariance of the rest, from differences of the joint log density alone."""
    mean, cov = forecast.mean.to_numpy(), forecast.cov.to_numpy()
    known = forecast.index.isin(observed.index)
    y = np.where(known, observed.reindex(forecast.index).to_numpy(), 0.0)
    rest = np.flatnonzero(~known)
    joint = stats.multivariate_normal(mean, cov)

    def log_density(values):
        point = y.copy()
        point[rest] = values
        return joint.logpdf(point)

    unit = np.eye(rest.size)
    zero = log_density(0 * unit[0])
    # The log density is quadratic, so differences of step 1 are its derivatives.
    gradient = [0.5 * (log_density(e) - log_density(-e)) for e in unit]
    hessian = [
        [log_density(a + b) - log_density(a) - log_density(b) + zero for b in unit] for a in unit
    ]
    covariance = np.linalg.inv(-np.array(hessian))
    return covariance @ gradient, covariance


# What it holds


def test_series_and_frames_carry_the_times(forecast):
    for series in (forecast.mean, forecast.median, forecast.std, forecast.var):
        pd.testing.assert_index_equal(series.index, forecast.index)
        assert series.name == "load"
    for frame in (
        forecast.cov,
        forecast.interval(),
        forecast.quantile([0.1, 0.9]),
        forecast.sample(3, random_state=0),
        forecast.decompose(),
        forecast.summary_frame(),
    ):
        pd.testing.assert_index_equal(frame.index, forecast.index)
    pd.testing.assert_index_equal(forecast.cov.columns, forecast.index)
    np.testing.assert_array_equal(forecast.var, np.diag(forecast.cov))
    np.testing.assert_array_equal(forecast.std, np.sqrt(forecast.var))
    np.testing.assert_array_equal(forecast.median, forecast.mean)
    assert len(forecast) == H


def test_the_frequency_of_the_index_is_kept():
    assert make(INDEXES["business"]).mean.index.freq == INDEXES["business"].freq


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("daily", "Forecast(name='load', 2024-02-27 to 2024-03-03, 6 steps)"),
        ("monthly period", "Forecast(name='load', 2023-11 to 2024-04, 6 steps)"),
        ("range", "Forecast(name='load', 40 to 45, 6 steps)"),
    ],
)
def test_repr_names_the_times(kind, text):
    assert repr(make(INDEXES[kind])) == text


def test_repr_of_one_step():
    assert repr(Forecast(pd.RangeIndex(1), [0.0], [[1.0]])) == "Forecast(name=None, 0 to 0, 1 step)"


def test_forecasts_do_not_change():
    index = pd.date_range("2024-01-01", periods=2, name="time")
    mean, cov, noise = np.array([1.0, 2.0]), np.eye(2), 0.5 * np.eye(2)
    forecast = Forecast(index, mean, cov, parts={"noise": noise, "function_own": noise}, name="y")
    for array in (mean, cov, noise):
        array[0] = 99.0
    handed_out_mean, handed_out_cov = forecast.mean, forecast.cov
    handed_out_mean.iloc[0] = handed_out_cov.iloc[0, 0] = 99.0
    index.name = forecast.index.name = forecast.mean.index.name = "other"
    np.testing.assert_array_equal(forecast.mean, [1.0, 2.0])
    np.testing.assert_array_equal(forecast.cov, np.eye(2))
    np.testing.assert_array_equal(forecast.decompose()["noise"], [0.5, 0.5])
    assert forecast.index.name == "time"
    with pytest.raises(AttributeError):
        forecast.mean = pd.Series([0.0, 0.0])
    with pytest.raises(AttributeError):
        forecast.comment = "new attributes neither"


@pytest.mark.parametrize("through", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal(forecast, through):
    again = through(forecast)
    assert repr(again) == repr(forecast)
    pd.testing.assert_frame_equal(again.cov, forecast.cov)
    pd.testing.assert_frame_equal(again.decompose(), forecast.decompose())


# Intervals, quantiles, paths


@pytest.mark.parametrize("coverage", [0.01, 0.5, 0.9, 0.999])
def test_interval_is_that_of_the_normal_distribution(forecast, coverage):
    lower, upper = stats.norm(forecast.mean, forecast.std).interval(coverage)
    band = forecast.interval(coverage)
    assert list(band.columns) == ["lower", "upper"]
    np.testing.assert_allclose(band["lower"], lower, rtol=1e-12)
    np.testing.assert_allclose(band["upper"], upper, rtol=1e-12)


def test_quantiles_agree_with_intervals_and_each_other(forecast):
    several = forecast.quantile([0.05, 0.5, 0.95])
    assert list(several.columns) == [0.05, 0.5, 0.95]
    one = forecast.quantile(0.05)
    assert one.name == "load"
    pd.testing.assert_series_equal(one, several[0.05], check_names=False)
    np.testing.assert_allclose(several[0.5], forecast.median, rtol=1e-14)
    band = forecast.interval(0.9)
    np.testing.assert_allclose(several[[0.05, 0.95]], band[["lower", "upper"]], rtol=1e-12)


def test_paths_have_the_joint_moments():
    forecast, n = make(INDEXES["daily"]), 40_000
    paths = forecast.sample(n, random_state=1)
    assert paths.shape == (H, n)
    cov = forecast.cov.to_numpy()
    np.testing.assert_array_less(
        abs(paths.mean(axis=1) - forecast.mean) / forecast.std, 4.5 / np.sqrt(n)
    )
    var = np.diag(cov)
    # Standard error of a covariance of normal draws.
    error = np.sqrt((np.outer(var, var) + cov**2) / n)
    np.testing.assert_array_less(abs(np.cov(paths) - cov) / error, 4.5)
    inside = paths.ge(forecast.quantile(0.1), axis=0) & paths.le(forecast.quantile(0.9), axis=0)
    np.testing.assert_allclose(inside.mean(axis=1), 0.8, atol=4.5 * np.sqrt(0.16 / n))


def test_random_state_fixes_the_paths(forecast):
    first = forecast.sample(4, random_state=3)
    pd.testing.assert_frame_equal(forecast.sample(4, random_state=3), first)
    pd.testing.assert_frame_equal(forecast.sample(4, random_state=np.random.default_rng(3)), first)
    assert not forecast.sample(4, random_state=4).equals(first)


def test_paths_of_a_singular_covariance_keep_its_constraints():
    # y_2 = 2 y_1 and y_3 = y_1 + y_2 - 1, exactly.
    slopes = np.array([1.0, 2.0, 3.0])
    forecast = Forecast(pd.RangeIndex(3), [1.0, 2.0, 2.0], np.outer(slopes, slopes))
    paths = forecast.sample(200, random_state=0).to_numpy()
    np.testing.assert_allclose(paths[1], 2 * paths[0], atol=1e-6)
    np.testing.assert_allclose(paths[2], paths[0] + paths[1] - 1, atol=1e-6)
    assert paths[0].std() == pytest.approx(1, rel=0.2)


def test_roundoff_in_the_covariance_is_forgiven_but_not_more():
    def with_correlation(r):
        return Forecast(pd.RangeIndex(2), [0.0, 0.0], [[4.0, 2 * r], [2 * r, 1.0]])

    paths = with_correlation(1 + 1e-13).sample(10, random_state=0).to_numpy()
    np.testing.assert_allclose(paths[0], 2 * paths[1], atol=1e-5)
    with pytest.raises(
        ValueError, match=r"cov must have no negative eigenvalue; got -0\.01 against a largest of 2"
    ):
        with_correlation(1.01).sample(10)


# Paths of the model


@pytest.fixture
def sampled():
    """Skewed paths, and the forecast that has them and their moments."""
    rng = np.random.default_rng(6)
    paths = rng.standard_exponential((H, 200)).cumsum(axis=0)
    index = INDEXES["daily"]
    return paths, Forecast(index, paths.mean(axis=1), np.cov(paths), paths=paths, name="load")


def test_a_forecast_returns_its_paths_each_once(sampled):
    paths, forecast = sampled
    np.testing.assert_array_equal(forecast.paths, paths)
    everything = forecast.sample(200, random_state=0)
    assert everything.index.equals(forecast.index)
    order = np.argsort(everything.to_numpy()[0])
    np.testing.assert_array_equal(everything.to_numpy()[:, order], paths[:, np.argsort(paths[0])])
    assert (everything.to_numpy() != paths).any()
    pd.testing.assert_frame_equal(forecast.sample(30, random_state=0), everything[range(30)])
    assert not forecast.sample(200, random_state=1).equals(everything)
    again = forecast.sample(450, random_state=0)  # where more are asked for, they repeat
    assert set(again.to_numpy()[0]) == set(paths[0])
    with pytest.raises(ValueError, match=r"paths must have shape \(6, 3\); got \(2, 3\)"):
        Forecast(forecast.index, forecast.mean, forecast.cov, paths=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="paths must be finite; got nan at step 1"):
        Forecast(forecast.index, forecast.mean, forecast.cov, paths=np.full((H, 3), np.nan))


def test_paths_are_the_forecast_s_own(sampled):
    paths, forecast = sampled
    before = paths.copy()
    frame = forecast.paths
    frame.iloc[0] = 0.0
    paths[0] = 1.0
    np.testing.assert_array_equal(forecast.paths, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forecast)).paths, before)


@pytest.mark.parametrize("transform", [None, PowerTransform(0.0)], ids=["normal", "log"])
def test_aggregates_add_up_each_path(sampled, transform):
    paths, forecast = sampled
    if transform is not None:
        logs = np.log(paths)
        moments = logs.mean(axis=1), np.cov(logs)
        forecast = Forecast(forecast.index, *moments, transform=transform, paths=paths)
    total = forecast.aggregate("sum")
    np.testing.assert_allclose(total.paths.to_numpy()[0], paths.sum(axis=0), rtol=1e-12)
    change = forecast.aggregate([-1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(change.paths.to_numpy()[0], paths[2] - paths[0], rtol=1e-10)


def test_paths_are_dropped_where_they_would_not_fit(sampled):
    _, forecast = sampled
    assert forecast.condition(forecast.mean[:1]).paths is None
    assert Forecast.average([forecast, forecast]).paths.shape == (6, 200)
    assert Forecast.average([forecast]).paths is not None
    assert make(INDEXES["daily"]).paths is None


def test_the_energy_score_is_that_of_the_paths(sampled):
    paths, forecast = sampled
    actual = pd.Series(np.arange(6.0), forecast.index)
    expected = scores.energy_score(actual, paths.T)
    for n in (200, 1000):  # all of them, in whatever order
        assert forecast.energy_score(actual, n, random_state=0) == pytest.approx(expected)


# Aggregates


def test_sum_is_the_sum_of_the_joint_covariance(forecast):
    total = forecast.aggregate("sum")
    assert total.mean.item() == pytest.approx(forecast.mean.sum(), rel=1e-12)
    assert total.var.item() == pytest.approx(forecast.cov.to_numpy().sum(), rel=1e-12)
    assert total.var.item() != pytest.approx(forecast.var.sum(), rel=1e-2)
    assert total.index[0] == forecast.index[-1]
    assert len(total) == 1
    assert total.name == "load"


def test_mean_and_weights_are_multiples_of_the_sum(forecast):
    total, mean = forecast.aggregate("sum"), forecast.aggregate("mean")
    weighted = forecast.aggregate(np.full(H, 1 / H))
    assert mean.mean.item() == pytest.approx(total.mean.item() / H)
    assert mean.std.item() == pytest.approx(total.std.item() / H)
    assert weighted.std.item() == pytest.approx(mean.std.item())


def test_an_aggregate_says_what_it_is(monthly):
    named, one = Forecast(monthly.index, monthly.mean, monthly.cov, name="co2"), monthly[:1]
    largest = named.aggregate("max")
    assert largest.aggregated == largest[:1].aggregated == "maximum of 6 steps"
    assert "maximum of 6 steps" in repr(largest)
    assert "<b>Forecast of co2, maximum of 6 steps</b>" in largest._repr_html_()
    assert largest.plot().get_ylabel() == "co2, maximum of 6 steps"
    assert named.aggregated is one.aggregate("sum").aggregated is None
    sums = named.aggregate("sum", "QS", partial="keep")
    assert sums.aggregated == "sum of steps by QS"
    twice = sums.aggregate([1.0] * len(sums))
    assert twice.aggregated == f"weighted sum of {len(sums)} steps, each a sum of steps by QS"


@pytest.mark.parametrize("times", [pd.date_range("2024-01-01", periods=3), pd.RangeIndex(3)])
@pytest.mark.parametrize("end", [np.timedelta64(2, "D"), pd.Timedelta("2D")])
def test_durations_are_no_keys(times, end):
    ahead = Forecast(times, np.ones(3), np.eye(3))
    for key in (slice(None, end), slice(end, None), slice(None, None, end)):
        with pytest.raises(KeyError, match="must pick steps"):
            ahead[key]


def test_aggregates_are_those_of_the_paths(monthly):
    n, weights = 40_000, np.array([1.0, -2.0, 0.0, 0.5, 0.0, 1.0])
    paths = monthly.sample(n, random_state=2).to_numpy()
    aggregate = monthly.aggregate(weights)
    drawn = weights @ paths
    assert drawn.mean() == pytest.approx(
        aggregate.mean.item(), abs=4.5 * aggregate.std.item() / np.sqrt(n)
    )
    assert drawn.std() == pytest.approx(aggregate.std.item(), rel=4.5 / np.sqrt(2 * n))


def test_a_series_of_weights_is_read_by_time(monthly):
    weights = pd.Series(np.arange(1.0, H + 1.0), index=monthly.index)
    expected = weights.to_numpy() @ monthly.mean.to_numpy()
    for series in (weights, weights[::-1], weights.sample(frac=1.0, random_state=1)):
        assert monthly.aggregate(series).mean.item() == pytest.approx(expected, rel=1e-12)
    others = weights.set_axis(monthly.index + pd.DateOffset(years=1))
    for wrong in (others, weights[1:], weights.reset_index(drop=True)):
        with pytest.raises(
            ValueError, match=r"how must hold each of the forecast's times; got no .* Pass 0 for"
        ):
            monthly.aggregate(wrong)


@pytest.mark.parametrize(
    ("kind", "freq"),
    [
        ("daily", "ME"),
        ("daily", "W-FRI"),
        ("business", "W"),
        ("time zone", "D"),
        ("monthly period", "Y"),
    ],
)
@pytest.mark.parametrize("how", ["sum", "mean"])
def test_groups_are_those_of_pandas(kind, freq, how):
    forecast = make(INDEXES[kind])
    by_group = forecast.aggregate(how, freq=freq, partial="keep")
    paths = forecast.sample(5, random_state=0)
    if isinstance(paths.index, pd.PeriodIndex):
        groups = paths.groupby(paths.index.asfreq(freq))
    else:
        groups = paths.resample(freq)
    expected = groups.agg(how)
    assert 1 < len(by_group) < H
    pd.testing.assert_index_equal(by_group.index, expected.index, exact="equiv")
    # The same linear map must take the paths, hence every covariance, to their aggregates.
    shift = Forecast(forecast.index, paths[0], forecast.cov)
    np.testing.assert_allclose(
        shift.aggregate(how, freq=freq, partial="keep").mean, expected[0], rtol=1e-12
    )
    matrix = np.array(
        [
            Forecast(forecast.index, e, forecast.cov).aggregate(how, freq=freq, partial="keep").mean
            for e in np.eye(H)
        ]
    ).T
    np.testing.assert_allclose(by_group.cov, matrix @ forecast.cov.to_numpy() @ matrix.T)


@pytest.mark.parametrize("freq", ["2M", "2Q", "D", "h", "W"])
def test_groups_of_periods_hold_whole_periods_without_overlap(freq):
    with pytest.raises(
        ValueError,
        match=rf"freq must be a plain, coarser frequency .* M; got '{freq}'\. .* such as \"Y\"",
    ):
        make(INDEXES["monthly period"]).aggregate("sum", freq=freq, partial="keep")


def test_weeks_within_a_month_have_a_sum_and_others_none():
    weeks = pd.period_range("2024-02-05", periods=3, freq="W-SUN")  # 5 to 25 February
    assert len(make(weeks).aggregate("sum", freq="M", partial="keep")) == 1
    with pytest.raises(ValueError, match=r"coarser frequency than W-SUN; got 'M'\. "):
        make(weeks + 1).aggregate("sum", freq="M", partial="keep")


def test_groups_without_a_step_are_left_out():
    gap = pd.DatetimeIndex(["2024-01-30", "2024-01-31", "2024-03-01"])
    assert list(make(gap).aggregate("sum", freq="MS", partial="keep").index) == [
        pd.Timestamp("2024-01-01"),
        pd.Timestamp("2024-03-01"),
    ]


def test_the_sum_of_sums_is_the_sum(monthly):
    by_year = monthly.aggregate("sum", freq="YE", partial="keep")
    assert list(by_year.index.year) == [2023, 2024]
    total, again = monthly.aggregate("sum"), by_year.aggregate("sum")
    assert again.std.item() == pytest.approx(total.std.item(), rel=1e-12)
    assert again.mean.item() == pytest.approx(total.mean.item(), rel=1e-12)


# Conditioning


@pytest.mark.parametrize("known", [[0], [5], [1, 4], [5, 0, 2, 3, 1]])
def test_condition_is_the_conditional_density(forecast, known):
    observed = pd.Series(np.linspace(-1, 9, len(known)), index=forecast.index[known])
    rest = forecast.condition(observed)
    mean, cov = conditional_density(forecast, observed)
    assert list(rest.index) == [t for t in forecast.index if t not in observed.index]
    np.testing.assert_allclose(rest.mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(rest.cov, cov, rtol=1e-6, atol=1e-8)


def test_condition_in_turn_is_condition_at_once(forecast):
    values = pd.Series([4.0, 7.0], index=forecast.index[[3, 0]])
    at_once = forecast.condition(values)
    in_turn = forecast.condition(values.iloc[:1]).condition(values.iloc[1:])
    pd.testing.assert_index_equal(in_turn.index, at_once.index, exact="equiv")
    np.testing.assert_allclose(in_turn.mean, at_once.mean, rtol=1e-10)
    np.testing.assert_allclose(in_turn.cov, at_once.cov, rtol=1e-10, atol=1e-12)


def test_condition_on_nothing_changes_nothing(forecast):
    same = forecast.condition(pd.Series([], index=forecast.index[:0], dtype=float))
    pd.testing.assert_series_equal(same.mean, forecast.mean)
    pd.testing.assert_frame_equal(same.cov, forecast.cov)


def test_the_rest_of_a_regular_index_stays_regular():
    for kind in ("business", "time zone"):
        forecast = make(INDEXES[kind])
        assert forecast.condition(forecast.mean.iloc[[1, 0]]).index.freq == INDEXES[kind].freq


def test_the_expected_value_narrows_but_does_not_move(forecast):
    rest = forecast.condition(forecast.mean.iloc[[2]])
    left = forecast.index.delete(2)
    np.testing.assert_allclose(rest.mean, forecast.mean[left], rtol=1e-12)
    assert (rest.std < forecast.std[left]).all()


# Parts


def test_parts_add_up_after_aggregation(forecast):
    for each in (
        forecast,
        forecast.aggregate("mean"),
        forecast.aggregate([1, -1, 0, 0, 2, 0]),
    ):
        parts = each.decompose()
        assert list(parts.columns) == list(PARTS)
        kinds = each.decompose(by_kind=True)
        assert list(kinds.columns) == [
            "noise",
            "function",
            "inputs",
            "hyperparameters",
            "members",
            "calibration",
        ]
        for each_way in (parts, kinds):
            np.testing.assert_allclose(each_way.sum(axis=1), each.var, rtol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e120])
def test_roundoff_is_no_part(scale):
    """A part of less than 1e-9 of a step's variance is 0, not -0, and no other part."""
    index, var = pd.RangeIndex(3), scale * np.array([1.0, 4.0, 0.1])
    shares = {
        "noise": [0.7, 0.5, 1.0 + 1e-15],
        "function_own": [0.3, 0.5 - 1e-8, 0.0],
        "function_shared": [-8e-15, 1e-8, -2e-9],
        "inputs_missing": [9e-10, -9e-10, 2e-9],
    }
    parts = {name: np.diag(var * share) for name, share in shares.items()}
    found = Forecast(index, np.zeros(3), np.diag(var), parts=parts).decompose()
    expected = pd.DataFrame(0.0, index, list(PARTS))
    expected["noise"], expected["function_own"] = shares["noise"], shares["function_own"]
    expected["function_shared"] = [0.0, 1e-8, -2e-9]
    expected["inputs_missing"] = [0.0, 0.0, 2e-9]
    np.testing.assert_allclose(found.div(var, axis=0), expected, rtol=1e-9, atol=0.0)
    assert not np.signbit(found[expected == 0.0].fillna(0.0)).any(axis=None)
    np.testing.assert_allclose(found.sum(axis=1), var, rtol=1e-9)


def test_a_small_part_of_many_is_left_to_the_rest():
    """Where nine parts of 9e-10 go, the rest takes them: the sum stays the variance."""
    names = [name for name in PARTS if name != "inputs_nonlinear"]
    small = {name: [[9e-10]] for name in names[1:]}
    parts = {"noise": [[1.0 - 8.1e-9]], **small}
    found = Forecast(pd.RangeIndex(1), [0.0], [[1.0]], parts=parts).decompose().iloc[0]
    assert (found[names[1:]] == 0.0).all()
    assert found["inputs_nonlinear"] == pytest.approx(8.1e-9, rel=1e-6)
    assert found.sum() == 1.0


def test_parts_follow_the_weights():
    forecast, w = make(INDEXES["daily"]), np.array([1.0, -2.0, 0.0, 0.5, 0.0, 1.0])
    np.testing.assert_allclose(forecast.decompose()["noise"], 0.3, rtol=1e-13)
    assert forecast.aggregate(w).decompose()["noise"].item() == pytest.approx(0.3 * w @ w)


def test_decompose_needs_the_parts():
    with pytest.raises(ValueError, match=r"decompose must be called on a forecast that knows its"):
        make(INDEXES["daily"], parts=False).decompose()


def test_conditioning_leaves_no_parts(forecast):
    # The parts of what conditioning takes away are not parts of what is left.
    rest = forecast.condition(pd.Series([3.0, 4.0], index=forecast.index[[1, 4]]))
    with pytest.raises(ValueError, match=r"got none\. .* `condition` has no such split\."):
        rest.decompose()
    with pytest.raises(ValueError, match=r"decompose must be called on a forecast that knows its"):
        rest.aggregate("sum").decompose()


# Tables


def test_summary_frame_is_that_of_statsmodels():
    from statsmodels.tsa.ar_model import AutoReg

    y = pd.Series(np.random.default_rng(0).normal(size=60)).cumsum()
    theirs = AutoReg(y, lags=1).fit().get_prediction(60, 63)
    ours = Forecast(pd.RangeIndex(60, 64), theirs.predicted_mean, np.diag(theirs.var_pred_mean))
    pd.testing.assert_frame_equal(
        ours.summary_frame(0.1),
        theirs.summary_frame(0.1),
        check_names=False,
        check_index_type=False,
    )


def test_nixtla_table(forecast):
    table = forecast.to_nixtla()
    assert list(table.columns) == [
        "unique_id",
        "ds",
        "forecast_unc",
        "forecast_unc-lo-95",
        "forecast_unc-lo-80",
        "forecast_unc-hi-80",
        "forecast_unc-hi-95",
    ]
    assert list(table.index) == list(range(H))
    assert set(table["unique_id"]) == {"load"}
    times = forecast.index
    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    assert list(table["ds"]) == list(times)
    np.testing.assert_array_equal(table["forecast_unc"], forecast.mean)
    band = forecast.interval(0.8).to_numpy()
    np.testing.assert_array_equal(table[["forecast_unc-lo-80", "forecast_unc-hi-80"]], band)


def test_nixtla_names():
    nameless = make(INDEXES["daily"], name=None)
    assert set(nameless.to_nixtla()["unique_id"]) == {"y"}
    table = nameless.to_nixtla(levels=(97.5,), unique_id="a")
    assert set(table["unique_id"]) == {"a"}
    assert list(table.columns[3:]) == ["forecast_unc-lo-97.5", "forecast_unc-hi-97.5"]


def test_score_is_that_of_the_scores(forecast):
    rng = np.random.default_rng(7)
    actual = pd.Series(rng.normal(5, 3, size=H), index=forecast.index)
    actual.iloc[3] = np.nan
    table = forecast.score(actual.iloc[::-1], coverage=0.8)
    pd.testing.assert_index_equal(table.index, forecast.index)
    y, mean, std = actual.to_numpy(), forecast.mean.to_numpy(), forecast.std.to_numpy()
    lower, upper = forecast.interval(0.8).to_numpy().T
    expected = {
        "error": y - mean,
        "crps": scores.crps(y, mean, std),
        "nlpd": scores.nlpd(y, mean, std),
        "interval_score": scores.interval_score(y, lower, upper, 0.8),
        "pit": scores.pit(y, mean, std),
    }
    assert list(table.columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(table[name], values)
    assert table.iloc[3].isna().all()
    assert table.drop(index=table.index[3]).notna().all(axis=None)


@given(shift=st.floats(-100, 100), scale=st.floats(0.01, 100), seed=st.integers(0, 5))
def test_the_unit_of_y_is_carried_through(shift, scale, seed):
    old = make(INDEXES["daily"], seed=seed)
    new = Forecast(old.index, shift + scale * old.mean, scale**2 * old.cov)
    np.testing.assert_allclose(
        new.interval(0.8), shift + scale * old.interval(0.8), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        new.sample(3, random_state=0),
        shift + scale * old.sample(3, random_state=0),
        rtol=1e-7,
        atol=1e-7,
    )
    np.testing.assert_allclose(
        new.aggregate("mean").std, scale * old.aggregate("mean").std, rtol=1e-10
    )
    observed = pd.Series([2.0], index=old.index[[1]])
    a, b = old.condition(observed), new.condition(shift + scale * observed)
    np.testing.assert_allclose(b.mean, shift + scale * a.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(b.std, scale * a.std, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100, 1e150])
def test_extreme_units_neither_overflow_nor_vanish(scale):
    old = make(INDEXES["daily"])
    parts = old.decompose()
    new = Forecast(
        old.index,
        scale * old.mean,
        scale**2 * old.cov,
        parts={part: scale**2 * np.diag(parts[part]) for part in ("noise", "function_own")},
    )
    np.testing.assert_allclose(new.sample(3, 0) / scale, old.sample(3, 0), rtol=1e-9)
    np.testing.assert_allclose(
        new.aggregate("mean").std / scale, old.aggregate("mean").std, rtol=1e-12
    )
    observed = old.mean.iloc[[1]] + 1
    np.testing.assert_allclose(
        new.condition(scale * observed).std / scale, old.condition(observed).std, rtol=1e-9
    )
    with pytest.raises(ValueError, match=r"cov must be symmetric; got entries that differ by 1 "):
        Forecast(pd.RangeIndex(2), [0.0, 0.0], scale**2 * np.array([[1.0, 1.0], [0.0, 1.0]]))


def test_values_too_large_for_a_float_say_what_to_do():
    index = pd.RangeIndex(4)
    with pytest.raises(
        ValueError,
        match=r"mean must be finite; got inf at step 2\. .* if its values are this large, divide",
    ):
        Forecast(index, [1e308, np.inf, 0.0, 0.0], np.eye(4))
    huge = Forecast(index, np.full(4, 1e150), np.full((4, 4), 1e308) + 5e307 * np.eye(4))
    log = Forecast(index, np.full(4, 353.0), 0.5 * np.eye(4) + 0.5, transform=PowerTransform(0.0))
    for forecast in (huge, log):
        with pytest.raises(
            ValueError,
            match=r"how must give a mean and a variance that fit a float; got a variance of inf at "
            r"3\. Divide the series by a constant\.",
        ):
            forecast.aggregate("sum")
        assert np.isfinite(forecast.aggregate([0.1, 0.1, 0.1, 0.1]).std.item())


def test_missing_actual_values_of_a_nullable_dtype_have_no_score(monthly):
    actual = monthly.mean.astype("Float64")
    actual.iloc[2] = pd.NA
    expected = monthly.score(actual.astype("float64"))
    pd.testing.assert_frame_equal(monthly.score(actual), expected)
    assert expected.isna().all(axis=1).sum() == 1


# Messages


@pytest.mark.parametrize("coverage", [95, 0, 1])
def test_coverage_must_be_a_fraction(monthly, coverage):
    message = (
        rf"coverage must lie strictly between 0 and 1; got {coverage}\. "
        r"For a 95 % interval pass 0\.95\."
    )
    for use in (
        lambda: monthly.interval(coverage),
        lambda: monthly.score(monthly.mean, coverage),
        lambda: monthly.plot(coverage=(0.5, coverage)),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def test_levels_of_other_kinds_are_refused(monthly):
    with pytest.raises(ValueError, match=r"q must lie strictly between 0 and 1; got 95\. For the"):
        monthly.quantile([0.5, 95])
    for end in (0, 1):
        with pytest.raises(ValueError, match=rf"q must lie strictly between 0 and 1; got {end}\. "):
            monthly.quantile([0.5, end])
    with pytest.raises(
        ValueError, match=r"q must be a number or a sequence of them; got shape \(1, 1\)\. For the"
    ):
        monthly.quantile([[0.1]])
    with pytest.raises(ValueError, match=r"alpha must lie strictly between 0 and 1; got 5\. For a"):
        monthly.summary_frame(5)
    with pytest.raises(
        ValueError,
        match=r"levels must be percentages from 1 to below 100; got 0\.95\. For a 95 % interval",
    ):
        monthly.to_nixtla(levels=(0.95,))
    for n in (0, 2.5, "a"):
        with pytest.raises(
            ValueError, match=rf"n must be a whole number, at least 1; got {n!r}\. "
        ):
            monthly.sample(n)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda f: f.condition(3.0), r"observed must be a pandas Series; got float\. "),
        (lambda f: f.score(np.zeros(H)), r"actual must be a pandas Series; got ndarray\. "),
        (lambda f: f.plot(np.zeros(H)), r"history must be a pandas Series; got ndarray\. "),
        (lambda f: f.interval("a"), r"coverage must be a number; got 'a'\. For a 95 % interval"),
        (lambda f: f.interval(None), r"coverage must be a number; got None\. "),
        (lambda f: f.plot(coverage=0.9), r"coverage must be a sequence of fractions; got 0\.9\. "),
        (lambda f: f.quantile("a"), r"q must be numbers; got 'a'\. "),
        (lambda f: f.quantile([0.1, "a"]), r"q must be numbers; got \[0\.1, 'a'\]\. "),
        (lambda f: f.to_nixtla((None,)), r"levels must be percentages; got None\. For a 95 %"),
        (lambda f: f.to_nixtla(("80",)), r"levels must be percentages; got '80'\. For a 95 %"),
        (lambda f: f.summary_frame("a"), r"alpha must be a number; got 'a'\. For a 95 %"),
        (
            lambda f: f.score(f.mean.astype(str)),
            r"actual must be numeric; got dtype (object|str)\. Convert it with pd\.to_numeric\(act",
        ),
        (lambda f: f.energy_score(f.mean.astype(str)), r"actual must be numeric; got dtype "),
        (lambda f: f.condition(f.mean.astype(str)[:1]), r"observed must be numeric; got dtype "),
        (lambda f: f.plot(f.mean.astype(str)), r"history must be numeric; got dtype "),
        (
            lambda f: Forecast(f.index, ["a"] * H, f.cov),
            r"mean must be numbers; got \['a', 'a', .* Pass an array of floats, all rows as long",
        ),
        (lambda f: f.to_nixtla(80), r"levels must be a sequence of percentages; got 80\. Pass"),
        (lambda f: f.to_nixtla("80"), r"levels must be a sequence of percentages; got '80'\. "),
        (
            lambda f: f.aggregate(freq=10, partial="keep"),
            r"freq must be a frequency of pandas, a str; got 10\. ",
        ),
        (
            lambda f: Forecast([0, 1], [0.0, 0.0], np.eye(2)),
            r"index must be a pandas Index; got list\. Pass pd\.RangeIndex\(n\) for",
        ),
    ],
)
def test_arguments_of_another_type_are_named(monthly, use, message):
    with pytest.raises(TypeError, match=message):
        use(monthly)


def test_covariance_must_be_one():
    index = pd.date_range("2024-01-01", periods=2)
    with pytest.raises(
        ValueError,
        match=r"cov must have a positive diagonal; got -1e-12 at 2024-01-02, from a matrix of "
        r"condition number 1e\+12\. ",
    ):
        Forecast(index, [0.0, 0.0], np.diag([1.0, -1e-12]))
    with pytest.raises(ValueError, match=r"cov must be symmetric; got entries that differ by 0\.5"):
        Forecast(index, [0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"parts\['noise'\] must be symmetric; "):
        Forecast(index, [0.0, 0.0], np.eye(2), parts={"noise": [[1.0, 0.5], [0.0, 1.0]]})
    with pytest.raises(ValueError, match=r"cov must have shape \(2, 2\); got \(3, 3\)\. "):
        Forecast(index, [0.0, 0.0], np.eye(3))
    with pytest.raises(ValueError, match=r"parts\['noise'\] must have shape \(2, 2\); got \(2,\)"):
        Forecast(index, [0.0, 0.0], np.eye(2), parts={"noise": [0.1, 0.1]})
    with pytest.raises(
        ValueError, match=r"parts must have names among noise, noise_o.*; got 'inputs_nonl"
    ):
        Forecast(index, [0.0, 0.0], np.eye(2), parts={"inputs_nonlinear": np.eye(2)})
    with pytest.raises(ValueError, match=r"mean must have shape \(2,\); got \(2, 1\)\. "):
        Forecast(index, [[0.0], [0.0]], np.eye(2))
    with pytest.raises(ValueError, match=r"mean must be finite; got inf at step 2\. "):
        Forecast(index, [0.0, np.inf], np.eye(2))
    with pytest.raises(ValueError, match=r"cov must be finite; got nan at step 1\. "):
        Forecast(index, [0.0, 0.0], [[1.0, np.nan], [0.0, 1.0]])


def test_times_must_increase():
    with pytest.raises(ValueError, match=r"index must hold a time; got none\. "):
        Forecast(pd.RangeIndex(0), [], np.empty((0, 0)))
    for times in (["2024-01-02", "2024-01-01"], ["2024-01-01", "2024-01-01"]):
        with pytest.raises(
            ValueError, match=r"index must increase; got 2024-01-01 after 2024-01-0[12]\. Sort the"
        ):
            Forecast(pd.DatetimeIndex(times), [0.0, 0.0], np.eye(2))


def test_aggregate_says_what_it_needs(monthly):
    with pytest.raises(
        ValueError, match=r'how must be "sum", "mean", "max", "min" or 6 weights; got \'median\'\. '
    ):
        monthly.aggregate("median")
    with pytest.raises(ValueError, match=r"how must have shape \(6,\); got \(2,\)\. "):
        monthly.aggregate([1.0, 2.0])
    with pytest.raises(ValueError, match=r"how must be finite; got nan at step 2\. "):
        monthly.aggregate([1, np.nan, 1, 1, 1, 1])
    with pytest.raises(
        ValueError, match=r"how must have a weight other than 0 in each group; .* 2023-12-31 "
    ):
        monthly.aggregate([0, 0, 1, 1, 1, 1], freq="YE", partial="keep")
    with pytest.raises(
        ValueError, match=r"freq must be None for a RangeIndex; got 'YE'\. Give the"
    ):
        make(INDEXES["range"]).aggregate("sum", freq="YE", partial="keep")
    with pytest.raises(
        ValueError, match=r"freq must be a frequency of pandas that suits a PeriodIndex; got 'foo'"
    ):
        make(INDEXES["monthly period"]).aggregate("sum", freq="foo", partial="keep")
    with pytest.raises(
        ValueError, match=r"DatetimeIndex; got 'X'\. Pass one such as \"YE\", \"QS\" or \"MS\"\."
    ):
        monthly.aggregate("sum", freq="X", partial="keep")


def test_condition_says_what_it_needs(monthly):
    index = monthly.index
    with pytest.raises(
        ValueError,
        match=r"observed must lie at the forecast's times; got 2030-01-01\. They run from 2",
    ):
        monthly.condition(pd.Series([1.0, 2.0], index=[index[0], pd.Timestamp("2030-01-01")]))
    with pytest.raises(
        ValueError, match=r"observed must hold each time once; got 2023-11-30 twice"
    ):
        monthly.condition(pd.Series([1.0, 2.0], index=index[[0, 0]]))
    with pytest.raises(ValueError, match=r"observed must be finite; got 2023-12-31 not finite\. "):
        monthly.condition(pd.Series([1.0, np.nan], index=index[:2]))
    with pytest.raises(ValueError, match=r"observed must leave a step to forecast; got all 6\. "):
        monthly.condition(monthly.mean)
    twins = Forecast(pd.RangeIndex(3), np.zeros(3), np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0]))
    with pytest.raises(
        ValueError, match=r"observed must hold steps that do not determine each other; got corr"
    ):
        twins.condition(pd.Series([1.0, 1.0], index=[0, 1]))
    with pytest.raises(ValueError, match=r"cov must have a positive diagonal; got .* at 1, from a"):
        twins.condition(pd.Series([1.0], index=[0]))


def test_times_of_another_kind_do_not_match():
    zoned = make(INDEXES["time zone"])
    naive = zoned.mean.tz_localize(None)
    with pytest.raises(ValueError, match=r"actual must hold each of the forecast's times; got no"):
        zoned.score(naive)
    with pytest.raises(ValueError, match=r"observed must lie at the forecast's times; "):
        zoned.condition(naive.iloc[:1])


def test_score_names_the_missing_time(monthly):
    with pytest.raises(
        ValueError, match=r"actual must hold each of the forecast's times; got no 2024-01-31\. "
    ):
        monthly.score(monthly.mean.drop(monthly.index[2]))
    with pytest.raises(
        ValueError, match=r"actual must hold each time once; got 2023-11-30 .* twice"
    ):
        monthly.score(pd.concat([monthly.mean.iloc[:1], monthly.mean]))


def test_counts_that_are_certain_at_a_bound_have_diverged():
    """And counts of which one is lost beside the others have no atoms: both by generated calls."""
    counts = Forecast(pd.RangeIndex(2), [2.0, 3.0], np.eye(2)).censored(0.0).whole()
    with pytest.raises(ValueError, match="must leave each step a positive, finite variance"):
        counts.censored(100.0, upper=112.0)
    assert (counts + 1e300).atoms.empty
