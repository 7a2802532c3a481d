"""Coverage in groups, on intervals whose coverage is known: `Backtest.coverage`."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import binomtest, f, norm

from forecast_unc import backtest, baselines
from forecast_unc.errors import ArgumentError, ArgumentTypeError
from forecast_unc.evaluation.backtest import Backtest
from forecast_unc.evaluation.conditional import holm, share_interval, shares_tested
from forecast_unc.evaluation.report import off_groups


def oracle(rng, n_origins=40, steps=24, apart=24, spread=None, **arguments):
    """A backtest of N(0, 1) on hours; what happened has the std that `spread` gives the times."""
    start = pd.Timestamp("2026-01-05") + pd.to_timedelta(apart * np.arange(n_origins), "h")
    origin, step = start.repeat(steps), np.tile(np.arange(1, steps + 1), n_origins)
    time = origin + pd.to_timedelta(step, "h")
    actual = rng.normal(size=len(time)) * (1.0 if spread is None else spread(time))
    columns = {"model": "right", "origin": origin, "step": step, "time": time, "actual": actual}
    frame = pd.DataFrame(columns | {"median": 0.1 * time.hour, "pit": norm.cdf(actual)})
    for level, z in ((80, 1.2816), (95, 1.96)):
        frame[f"lower_{level}"], frame[f"upper_{level}"] = -z, z
    return Backtest(frame, (0.8, 0.95), pd.DataFrame(), 24, **arguments)


def test_independent_values_have_the_binomial_test(rng):
    held = rng.random(90) < 0.7
    groups = np.repeat([0, 1, 2], 30)
    tests = shares_tested(held * 1.0, groups, np.tile(np.arange(30), 3), 0.8)
    np.testing.assert_array_equal(tests.n_effective, 30)
    for group in range(3):
        k = int(held[groups == group].sum())
        tails = [binomtest(k, 30, 0.8, side).pvalue for side in ("less", "greater")]
        assert tests.p_value[group] == pytest.approx(min(1.0, 2 * min(tails)))
    low, high = share_interval([0.0, 0.7, 1.0], 30)
    exact = [binomtest(k, 30).proportion_ci(0.95) for k in (0, 21, 30)]
    np.testing.assert_allclose(np.transpose([low, high]), exact, atol=1e-9)


def test_values_that_move_together_count_as_one(rng):
    of_units = rng.random(12) < 0.5
    held, units = np.repeat(of_units, 8) * 1.0, np.repeat(np.arange(12), 8)
    one, all_held = (shares_tested(x, 0 * units, units, 0.8) for x in (held, np.ones(96)))
    assert one.n_effective == pytest.approx([12], rel=0.02)
    assert all_held.n_effective == pytest.approx([12])  # nothing tells that they would not
    assert np.isnan(shares_tested(held[:8], 0 * units[:8], 0 * units[:8], 0.8).p_value).all()


def test_two_groups_have_the_paired_test(rng):
    """Student's, with the variance about the hypothesis: F of 1 and m - 1 degrees of freedom."""
    held = (rng.random((20, 2)) < (0.9, 0.6)) * 1.0
    units, groups = (places.ravel() for places in np.indices(held.shape))
    difference = held[:, 0] - held[:, 1]
    statistic = difference.sum() ** 2 / (20 / 19 * (difference**2).sum())
    got = shares_tested(held.ravel(), groups, units, 0.8).p_equal
    assert got == pytest.approx(f.sf(statistic, 1, 19))
    assert shares_tested(np.ones(40), groups, units, 0.8).p_equal == 1.0


def test_sizes_and_power_with_correlated_steps(rng):
    """A test at 5 % rejects right intervals in about 5 % or fewer; wrong hours are found."""
    units, steps = (places.ravel() for places in np.indices((20, 24)))
    lag = np.subtract.outer(np.arange(24), np.arange(24))
    factor = np.linalg.cholesky(0.9 ** np.abs(lag))
    rejected = []
    for _ in range(300):
        z = rng.normal(size=(20, 24)) @ factor.T
        for scale in (1.0, np.where(np.arange(24) // 6 == 1, 2.5, 1.0)):
            held = (np.abs(scale * z) <= 1.2816).ravel() * 1.0
            quarters, all_hours = (
                shares_tested(held, x, units, 0.8) for x in (steps // 6, 0 * steps)
            )
            rejected += [quarters.p_value[1], quarters.p_equal, all_hours.p_value[0]]
    shares = (np.reshape(rejected, (300, 2, 3)) < 0.05).mean(axis=0)
    assert (shares[0] < 0.085).all()
    assert (shares[0, [0, 2]] > 0.01).all()
    assert (shares[1, :2] > 0.9).all()


def test_hours_of_wrong_bands_are_found(rng):
    result = oracle(rng, spread=lambda times: np.where(times.hour == 8, 3.0, 1.0))
    table = result.coverage("hour").loc["right"].xs(0.8, level="coverage")
    assert table.index.tolist() == list(range(24))
    assert table["held"].idxmin() == table["p_value"].idxmin() == 8
    assert holm(table["p_value"])[8] < 0.05 > table["p_equal"].iloc[0]
    assert (holm(table["p_value"].drop(8)) > 0.05).all()
    frame = result.frame[result.frame["time"].dt.hour == 8]
    inside = frame["actual"].between(frame["lower_80"], frame["upper_80"]).mean()
    assert table.loc[8, "held"] == pytest.approx(inside)
    assert (table["n"] == 40).all()


def test_groups_of_every_kind(rng):
    result = oracle(rng, n_origins=21)
    right = result.coverage().loc["right"]
    pd.testing.assert_frame_equal(result.coverage("model").loc["right"], right)
    assert right["n"].tolist() == [504, 504]
    assert right["p_equal"].isna().all()
    days = result.coverage("weekday").loc["right"].index.unique(0)
    assert days[[0, -1]].tolist() == ["Monday", "Sunday"]
    thirds = result.coverage("level").loc["right"].xs(0.95, level="coverage")
    assert thirds["n"].to_dict() == {"low": 168, "middle": 168, "high": 168}
    assert len(result.coverage("step")) == 48 == len(result.coverage("hour"))
    quarters = result.coverage(lambda times: np.where(times.hour < 6, None, times.hour // 6))
    assert quarters.index.names == ["model", "group", "coverage"]
    assert quarters["n"].unique().tolist() == [126]
    assert quarters.index.unique("group").tolist() == [1, 2, 3]


def test_several_kinds_of_groups_are_crossed(rng):
    result = oracle(rng, n_origins=21)
    quarter = lambda times: np.where(times.hour < 6, None, times.hour // 6)  # noqa: E731
    table = result.coverage(["weekday", quarter]).loc["right"]
    assert table.index.names == ["weekday", "group", "coverage"]
    assert (table["n"] == 18).all()
    assert len(table) == 7 * 3 * 2
    frame = result.frame[result.frame["time"].dt.hour >= 18]
    frame = frame[frame["time"].dt.day_of_week == 6]
    inside = frame["actual"].between(frame["lower_80"], frame["upper_80"]).mean()
    assert table.loc[("Sunday", 3, 0.8), "held"] == pytest.approx(inside)
    pd.testing.assert_frame_equal(result.coverage(["hour"]), result.coverage("hour"))
    ax = result.plot_coverage(["weekday", quarter], ax=Figure().subplots())
    assert ax.get_xlabel() == "weekday, group"
    assert ax.get_xticklabels()[0].get_text() == "Monday, 1"


def test_thirds_of_the_forecasts_hold_alike_where_those_of_values_do_not(rng):
    result = oracle(rng, 200)
    shift = pd.Series(rng.normal(size=4800))
    columns = ["actual", "median", "lower_80", "upper_80"]
    frame = result.frame.assign(median=0.0)
    frame[columns] = frame[columns].add(shift, axis=0)
    shifted = Backtest(frame, (0.8,), pd.DataFrame(), 24)
    assert shifted.coverage("level")["held"].between(0.77, 0.83).all()
    of_values = shifted.coverage(lambda _: pd.qcut(frame["actual"], 3, labels=False))["held"]
    assert (of_values.iloc[[0, 2]] < 0.77).all()


def test_a_value_on_an_end_does_not_count_against_its_interval(rng):
    """Nights of 0 with an interval from 0 to 0: all held, as it should be."""
    result = oracle(rng)
    night = result.frame["time"].dt.hour < 6
    result.frame.loc[night, ["actual", "lower_80", "upper_80", "lower_95", "upper_95"]] = 0.0
    table = result.coverage(lambda times: times.hour < 6).loc["right"]
    assert (table.loc[True, "held"] == 1.0).all()
    assert (table["p_value"] > 0.05).all()
    assert (table["p_equal"] > 0.05).all()


def test_origins_whose_horizons_overlap_are_one_unit(rng):
    """240 origins, 4 a horizon: 30 stretches of two horizons."""
    result = oracle(rng, 240, apart=6)
    first = result.frame.drop_duplicates("time").set_index("time")["actual"]
    result.frame["actual"] = first.loc[result.frame["time"]].to_numpy()  # the same values again
    at_step = result.coverage("step").xs(0.8, level="coverage")["n_effective"]
    assert (at_step.between(60, 240)).all()
    assert result.coverage().loc[("right", 0.8), "n_effective"] < 2500


def test_regressors_and_panels_have_groups():
    y = pd.Series(np.sin(np.arange(60.0)), pd.date_range("2026-01-05", periods=60, freq="D"))
    exog = pd.DataFrame({"open": (y.index.day_of_week < 5) * 1}, y.index)
    result = backtest(baselines.Naive(), y, 7, exog=exog, origins=4)
    assert result.coverage("open").index.unique("open").tolist() == [0, 1]
    with pytest.raises(ArgumentError) as caught:
        result.coverage("hour")
    assert caught.value.argument == "by"
    with pytest.raises(ArgumentError) as caught:
        result.coverage("price")
    assert caught.value.remedy.endswith("refit, open.")
    frame = pd.concat([result.frame.assign(shop=name) for name in "abc"], ignore_index=True)
    panel = Backtest(frame, result.coverages, result.joint, 7, "shop")
    table = panel.coverage("weekday")
    assert table["n_effective"].max() <= 12
    assert panel.coverage("shop")["p_value"].notna().all()
    by_origin = panel.coverage(unit="origin")["n_effective"]
    assert (by_origin > 0).all()


@pytest.mark.parametrize(
    ("by", "kind"),
    [
        (3, ArgumentTypeError),
        ([3], ArgumentTypeError),
        (["hour", "hour"], ArgumentError),
        (np.arange(3), ArgumentTypeError),
        (lambda times: 1, ArgumentError),
        (lambda times: times[:3], ArgumentError),
    ],
)
def test_what_groups_nothing_is_refused(rng, by, kind):
    with pytest.raises(kind) as caught:
        oracle(rng, 2).coverage(by)
    assert caught.value.argument == "by"


def test_without_dates_or_values_there_is_nothing_to_group(rng):
    result = oracle(rng, 2)
    frame = result.frame.assign(origin=0, time=result.frame["step"])
    numbered = Backtest(frame, (0.8,), pd.DataFrame(), 1)
    assert np.isnan(numbered.coverage("step")["p_value"]).all()  # one origin
    with pytest.raises(ArgumentError) as caught:
        numbered.coverage("month")
    assert caught.value.argument == "by"
    empty = Backtest(frame.assign(actual=np.nan), (0.8,), pd.DataFrame(), 1)
    with pytest.raises(ArgumentError) as caught:
        empty.coverage()
    assert caught.value.argument == "coverage"


def test_the_picture_has_a_mark_a_group_and_full_ones_where_bands_are_wrong(rng):
    result = oracle(rng, spread=lambda times: np.where(times.hour == 8, 3.0, 1.0))
    ax = result.plot_coverage("hour", ax=Figure().subplots())
    marks = [line for line in ax.lines if line.get_marker() != "None" and len(line.get_xdata())]
    hollow, full = marks[0], marks[1]
    table = result.coverage("hour").xs(0.8, level="coverage")
    np.testing.assert_array_equal(hollow.get_ydata(), table["held"])
    assert full.get_xdata().round().tolist() == [8]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["80 %", "95 %", "off by more than chance"]
    alone = result.plot_coverage(model="right", ax=Figure().subplots())
    assert [tick.get_text() for tick in alone.get_xticklabels()] == ["right"]


def test_groups_that_are_off_are_named(rng):
    """Steps are the hours of these forecasts, and are not named again."""
    spread = {8: 3.0, 9: 3.0, 20: 0.05}
    result = oracle(rng, spread=lambda times: times.hour.map(lambda hour: spread.get(hour, 1.0)))
    result.frame["median"] = 0.0
    named = off_groups(result)
    assert list(named) == ["hour"]
    held = result.frame["actual"].abs() <= 1.2816
    both = 100 * held[result.frame["time"].dt.hour.isin([8, 9])].mean()
    assert named["hour"] == f"hours 8 to 9 (80 % hold {both:.0f} %), hour 20 (80 % hold 100 %)"
    assert off_groups(oracle(rng)) == {}
    result.frame["actual"] = np.nan
    assert off_groups(result) == {}
