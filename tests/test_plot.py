import importlib
import pickle
from itertools import pairwise, permutations
from statistics import NormalDist

import matplotlib as mpl
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecast, backtest, baselines, plot, scores
from forecast_unc.errors import ArgumentError
from tests.named_case import case

STEPS = 8
INDEXES = {
    "dates": pd.date_range("2020-01-31", periods=40 + STEPS, freq="ME"),
    "time zone": pd.date_range("2024-03-29", periods=40 + STEPS, freq="h", tz="Europe/Berlin"),
    "periods": pd.period_range("2020-01", periods=40 + STEPS, freq="M"),
    "range": pd.RangeIndex(40 + STEPS),
}


class Backtest:
    """What the plots read of a backtest, on draws whose truth is N(0, step)."""

    id_col = None

    def __init__(self, unit=None):
        rng = np.random.default_rng(5)
        rows = [
            (model, origin, step, origin + step, factor * step**0.5, rng.normal(0, step**0.5))
            for model, factor in {"right": 1.0, "narrow": 0.4}.items()
            for origin in range(40)
            for step in range(1, 5)
        ]
        frame = pd.DataFrame(rows, columns=["model", "origin", "step", "time", "std", "actual"])
        frame["CRPS"] = scores.crps(frame["actual"], 0.0, frame["std"])
        frame["coverage_95"] = scores.interval_score(frame["actual"], -9.0, 9.0, 0.95)
        frame["pit"] = scores.pit(frame["actual"], 0.0, frame["std"])
        frame.loc[::7, "pit"] = np.nan
        if unit is not None:
            frame.attrs["unit"] = unit
        self.frame = frame

    def scores(self, by="model"):
        return self.frame.groupby(by, sort=False)[["CRPS", "coverage_95"]].mean()


@pytest.fixture
def index():
    """Of the four kinds one: the others are those of `test_fan_draws_...`."""
    return INDEXES["periods"]


def series(index, unit="MW"):
    y = pd.Series(50 + np.random.default_rng(1).normal(size=40).cumsum(), index[:40], name="load")
    if unit is not None:
        y.attrs["unit"] = unit
    return y


def ahead(index, spread=1.0, name="load"):
    t = np.arange(1.0, STEPS + 1)
    cov = spread**2 * np.minimum.outer(t, t)
    return Forecast(index[40:], 50 + np.sin(t), cov, name=name)


def numbers(index):
    """Positions of the times on the axis of matplotlib."""
    if isinstance(index, pd.RangeIndex):
        return index.to_numpy()
    stamps = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    return mdates.date2num(stamps.to_pydatetime())


def extents(band):
    """Lowest and highest drawn point at each time: times, lower, upper."""
    points = np.concatenate([path.vertices for path in band.get_paths()])
    times = np.unique(points[:, 0])
    ys = [points[points[:, 0] == t, 1] for t in times]
    return times, [y.min() for y in ys], [y.max() for y in ys]


def line(ax, label):
    (found,) = [each for each in ax.lines if each.get_label() == label]
    return found


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def assert_nothing_hidden(ax):
    """The legend covers no axes, and all that was drawn lies within the limits."""
    ax.figure.canvas.draw()
    assert not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())
    (left, bottom), (right, top) = ax.dataLim.min, ax.dataLim.max
    assert ax.get_xlim()[0] <= left <= right <= ax.get_xlim()[1]
    assert ax.get_ylim()[0] <= bottom <= top <= ax.get_ylim()[1]


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_fan_draws_the_mean_the_intervals_and_the_history(index):
    forecast, history = ahead(index), series(index)
    ax = plot.fan(forecast, history=history)
    mean, past = line(ax, "forecast"), line(ax, "history")
    last = history.iloc[-1]  # line and bands begin there
    np.testing.assert_array_equal(mean.get_ydata(), [last, *forecast.mean])
    np.testing.assert_allclose(mean.get_xdata(orig=False), numbers(index[39:]), rtol=1e-14)
    np.testing.assert_array_equal(past.get_ydata(), history)
    np.testing.assert_allclose(past.get_xdata(orig=False), numbers(index[:40]), rtol=1e-14)
    assert len(ax.collections) == 3
    for band, coverage in zip(ax.collections, (0.95, 0.8, 0.5), strict=True):
        times, lower, upper = extents(band)
        np.testing.assert_allclose(times, numbers(index[39:]), rtol=1e-14)
        np.testing.assert_allclose(lower, [last, *forecast.interval(coverage)["lower"]])
        np.testing.assert_allclose(upper, [last, *forecast.interval(coverage)["upper"]])
    assert legend(ax) == ["history", "forecast", "50 %", "80 %", "95 %"]
    assert ax.get_ylabel() == "load (MW)"
    assert ax.get_title() == ""
    assert_nothing_hidden(ax)


def test_a_forecast_goes_on_from_the_last_value_that_leads_up_to_it(index):
    history, forecast = series(index), ahead(index)
    history.iloc[38:] = np.nan
    mean = line(plot.fan(forecast, history=history, ax=plt.figure().gca()), "forecast")
    assert mean.get_xydata()[0] == pytest.approx([numbers(index)[37], history.iloc[37]])
    whole = pd.Series(np.arange(48.0), index)  # what happened, too
    mean = line(plot.fan(forecast, history=whole, ax=plt.figure().gca()), "forecast")
    assert mean.get_xydata()[0] == pytest.approx([numbers(index)[39], 39.0])
    for apart in (history.iloc[:30], history * np.nan, whole[40:]):
        mean = line(plot.fan(forecast, history=apart, ax=plt.figure().gca()), "forecast")
        np.testing.assert_array_equal(mean.get_ydata(), forecast.mean)
    single = line(plot.fan(forecast.first(1), history=whole, ax=plt.figure().gca()), "forecast")
    assert len(single.get_xdata()) == 1


@pytest.mark.parametrize("kind", ["time zone", "periods"])
def test_a_forecast_of_another_frequency_does_not_go_on_from_the_history(kind):
    whole = pd.period_range("2018-01", periods=60, freq="M")
    index = whole if kind == "periods" else whole.to_timestamp()
    index = index.tz_localize("UTC") if kind == "time zone" else index
    history = pd.Series(np.arange(36.0), index[:36])
    months = Forecast(index[36:], np.arange(24.0), np.eye(24))
    for freq in ("Y", "Q") if kind == "periods" else ("YS", "QE"):
        sums = months.aggregate("sum", freq=freq, partial="keep")
        ax = plot.fan(sums, history=history, ax=plt.figure().gca())
        np.testing.assert_array_equal(line(ax, "forecast").get_ydata(), sums.mean)
        ax = plot.compare({"sums": sums}, history=history, ax=plt.figure().gca())
        np.testing.assert_array_equal(line(ax, "sums").get_ydata(), sums.mean)
    ax = plot.fan(months, history=history.drop(index[30]), ax=plt.figure().gca())
    assert line(ax, "forecast").get_ydata()[0] == 35.0


def test_a_forecast_goes_on_over_a_weekend_and_a_leap_year():
    for index in (
        pd.date_range("2026-01-05", periods=12, freq="B"),  # two steps, Friday and Monday
        pd.date_range("2019-01-01", periods=12, freq="YS"),
    ):
        two = Forecast(index[9:11], [1.0, 2.0], np.eye(2))
        ax = plot.fan(two, history=pd.Series(7.0, index[:9]), ax=plt.figure().gca())
        assert line(ax, "forecast").get_ydata()[0] == 7.0


def test_what_happened_is_drawn_at_the_times_of_the_forecast_alone(index):
    whole = pd.Series(np.arange(48.0), index)
    forecast = ahead(index)
    for ax in (
        forecast.plot(actual=whole, ax=plt.figure().gca()),
        plot.compare({"a": forecast.first(2), "b": forecast}, actual=whole, ax=plt.figure().gca()),
    ):
        np.testing.assert_array_equal(line(ax, "actual").get_ydata(), np.arange(40.0, 48.0))
        np.testing.assert_allclose(
            line(ax, "actual").get_xdata(orig=False), numbers(index[40:]), rtol=1e-14
        )
        plt.close(ax.figure)
    for draw in (forecast.plot, lambda **given: plot.compare({"a": forecast}, **given)):
        with pytest.raises(ValueError, match=r"actual must hold one of the forecast's times, "):
            draw(actual=whole[:40])
    assert not plt.get_fignums()


def test_what_is_drawn_may_come_from_another_library():
    polars = pytest.importorskip("polars")
    index = INDEXES["dates"]
    past = polars.DataFrame({"ds": index[:40], "load": np.arange(40.0)})
    later = polars.DataFrame({"ds": index[40:], "load": np.arange(8.0)})
    ax = ahead(index).plot(past, actual=later)
    np.testing.assert_array_equal(line(ax, "history").get_ydata(), np.arange(40.0))
    assert line(ax, "forecast").get_ydata()[0] == 39.0
    np.testing.assert_array_equal(line(ax, "actual").get_ydata(), np.arange(8.0))


def test_a_fan_shows_what_happened(index):
    actual = pd.Series(np.linspace(48, 52, STEPS), index[40:])
    fig = plt.figure()
    ax = ahead(index).plot(series(index), (0.9,), actual, ax=fig.subplots())
    assert ax.figure is fig
    assert legend(ax) == ["history", "forecast", "90 %", "actual"]
    np.testing.assert_array_equal(line(ax, "actual").get_ydata(), actual)
    np.testing.assert_allclose(line(ax, "actual").get_xdata(orig=False), numbers(index[40:]))


def test_values_between_missing_ones_are_dots(index):
    history = series(index)
    history.iloc[[0, 2, 20, 21, 36, 38]] = np.nan
    ax = plot.fan(ahead(index), history=history)
    dots = next(line for line in ax.lines if line.get_marker() == ".")
    np.testing.assert_allclose(dots.get_xdata(orig=False), numbers(index)[[1, 37, 39]], rtol=1e-14)
    np.testing.assert_array_equal(dots.get_ydata(), history.iloc[[1, 37, 39]])
    assert "history" in legend(ax)
    assert len(legend(ax)) == 5


def test_the_bands_of_a_forecast_are_of_50_80_and_95_percent():
    ahead = Forecast(pd.RangeIndex(3), np.zeros(3), np.eye(3))
    assert {"50 %", "80 %", "95 %"} <= set(legend(ahead.plot()))


@pytest.mark.parametrize("index", ["periods", "range"])
@pytest.mark.parametrize("steps", [1, STEPS])
def test_regions_take_the_place_of_bands_where_a_step_has_two_peaks(index, steps):
    rng, times = np.random.default_rng(0), INDEXES[index][-steps:]
    sides = np.repeat([-1.0, 1.0], 200) + 0.2 * rng.standard_normal((steps, 400))
    one = 0.2 * rng.standard_normal((steps, 400))
    for paths, pieces in ((sides, 2), (one, 1)):
        ahead = Forecast(times, paths.mean(axis=1), np.cov(paths).reshape(steps, -1), paths=paths)
        drawn = {regions: ahead.plot(regions=regions) for regions in (None, True, False)}
        bands = len(drawn[False].collections)
        assert len(drawn[None].collections) == bands == 3
        shapes = [sum(len(band.get_paths()) for band in ax.collections) for ax in drawn.values()]
        assert shapes[1] >= pieces * 2 * steps
        assert (shapes[0] == shapes[1]) == (pieces == 2 or steps == 1)
        assert shapes[2] == 3
        low, high = drawn[True].get_ylim()
        assert low < np.quantile(paths, 0.05) < np.quantile(paths, 0.95) < high


def test_the_legend_shows_the_tints_that_are_drawn():
    ax = plot.fan(ahead(INDEXES["dates"]), coverage=(0.9, 0.5))
    swatches = dict(zip(legend(ax), ax.get_legend().legend_handles, strict=True))
    assert [band.get_alpha() for band in ax.collections] == [0.2, 0.2]
    assert swatches["90 %"].get_alpha() == pytest.approx(0.2)
    assert swatches["50 %"].get_alpha() == pytest.approx(1 - 0.8 * 0.8)


def test_days_are_written_with_their_month():
    index = pd.date_range("2025-05-25", periods=40, freq="D")
    ax = plot.fan(Forecast(index, np.zeros(40), np.eye(40)), ax=plt.figure().subplots())
    ax.figure.canvas.draw()
    shown = [tick.get_text() for tick in ax.get_xticklabels()]
    assert {"15 Jun", "Jul"} <= set(shown), shown
    assert ax.xaxis.get_offset_text().get_text() == "2025"


def test_dates_are_written_concisely_in_their_own_time_zone():
    for kind in ("dates", "periods", "time zone"):
        ax = plot.fan(ahead(INDEXES[kind]), ax=plt.figure().subplots())
        formatter = ax.xaxis.get_major_formatter()
        assert isinstance(formatter, mdates.ConciseDateFormatter)
        assert ax.get_xlabel() == ""
    ax.figure.canvas.draw()
    # 40 h after midnight: 16:00 in Berlin, 15:00 in UTC.
    first = line(ax, "forecast").get_xdata(orig=False)[0]
    assert mdates.num2date(first).hour == 15
    assert formatter.format_data_short(first).split()[1].startswith("16:00")


def test_whole_numbers_are_times_too():
    assert plot.fan(ahead(INDEXES["range"])).get_xlabel() == "time"


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [("load", "MW", "load (MW)"), ("load", None, "load"), (None, "MW", "load (MW)")],
)
def test_the_axis_tells_name_and_unit(name, unit, expected):
    index = INDEXES["dates"]
    ax = plot.fan(ahead(index, name=name), history=series(index, unit))
    assert ax.get_ylabel() == expected


def test_a_label_that_is_there_is_kept():
    ax = plt.figure().subplots()
    ax.set_ylabel("mine")
    assert plot.fan(ahead(INDEXES["dates"]), ax=ax) is ax
    assert ax.get_ylabel() == "mine"


def test_each_fan_on_the_axes_gets_its_own_color_and_name():
    ax = plt.figure().subplots()
    for spread in (1.0, 2.0, 3.0):
        ahead(INDEXES["dates"], spread).plot(coverage=(0.9,), ax=ax)
    numbered = ["forecast", "forecast 2", "forecast 3"]
    lines = [line(ax, name) for name in numbered]
    colors = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert [each.get_color() for each in lines] == colors[:3]
    for band, color in zip(ax.collections, colors, strict=False):
        assert mpl.colors.same_color(band.get_facecolor()[0, :3], color)
    assert legend(ax) == [
        *("forecast", "90 %", "forecast 2", "forecast 2, 90 %", "forecast 3", "forecast 3, 90 %")
    ]


def test_two_fans_share_the_axes():
    ax = plot.fan(ahead(INDEXES["dates"]), (0.9,), label="a")
    plot.fan(ahead(INDEXES["dates"], 2.0, name=None), (0.9,), ax=ax, label="b", color="C1")
    assert legend(ax) == ["a", "a, 90 %", "b", "b, 90 %"]
    assert ax.get_xlabel() == ""
    first, second = (mpl.colors.to_hex(line(ax, x).get_color()) for x in "ab")
    assert first != second


# pandas 2.2 sets what Matplotlib 3.11 deprecates.
@pytest.mark.filterwarnings("ignore:The locs attribute was deprecated")
@pytest.mark.parametrize("kind", ["dates", "periods", "time zone"])
def test_the_axes_of_a_pandas_plot_can_be_used(kind):
    index = INDEXES[kind]
    ax = series(index).plot(ax=plt.figure().subplots())
    plot.fan(ahead(index), ax=ax)
    past, mean = line(ax, "load").get_xdata(orig=False), line(ax, "forecast").get_xdata(orig=False)
    # pandas counts periods: the forecast must go on where the history ends.
    np.testing.assert_array_equal(np.diff(np.concatenate([np.asarray(past, float), mean])), 1.0)
    assert_nothing_hidden(ax)


def test_an_irregular_pandas_plot_can_be_used():
    dates = INDEXES["dates"]
    ax = series(dates).drop(dates[3]).plot(ax=plt.figure().subplots())
    plot.fan(ahead(dates), ax=ax)
    np.testing.assert_allclose(
        line(ax, "forecast").get_xdata(orig=False), numbers(dates[40:]), rtol=1e-14
    )
    assert_nothing_hidden(ax)


@pytest.mark.parametrize("color", [None, (0.0, 0.5, 1.0)])
def test_a_single_step_is_a_bar(color):
    total = ahead(INDEXES["dates"]).aggregate("sum")
    ax = plot.fan(total, coverage=(0.8,), color=color)
    (bar,) = ax.collections
    _, lower, upper = extents(bar)
    np.testing.assert_allclose([lower, upper], total.interval(0.8).T)
    assert line(ax, "forecast").get_marker() == "o"
    assert bar.get_linewidth()[0] > 5
    assert mpl.colors.same_color(bar.get_color()[0, :3], line(ax, "forecast").get_color())
    assert_nothing_hidden(ax)


@pytest.mark.parametrize("kind", ["time zone", "periods"])
def test_a_single_step_stands_between_its_neighbors(kind):
    """The default limits of a lone date are four years apart."""
    index = INDEXES[kind][40:43]
    ax = plot.fan(Forecast(index[1:2], [50.0], [[1.0]]))
    _, at, after = numbers(index)
    np.testing.assert_allclose(ax.get_xlim(), (at - (after - at), after), atol=1e-6)
    assert_nothing_hidden(ax)


def test_a_dark_background_gets_light_ink():
    with plt.style.context("dark_background"):
        index = INDEXES["dates"]
        _, (left, right) = plt.subplots(1, 2)
        plot.fan(ahead(index), history=series(index), actual=series(index[8:]), ax=left)
        plot.decomposition(with_parts(index[40:]), ax=right)
        right.set_facecolor("none")
        light = [line(left, name).get_color() for name in ("history", "actual")]
        light += [line(right, "variance").get_color(), plot.picture.gray(right, 0.0)]
        assert min(map(min, light)) >= 0.7
        assert max(left.get_xgridlines()[0].get_color()) <= 0.2
        assert plot.picture.gray(right, 1.0) == (0.0, 0.0, 0.0)
    assert plot.picture.gray(plt.figure().subplots(), 0.3) == pytest.approx((0.3, 0.3, 0.3))


def with_parts(index, name="load"):
    """Parts of which one changes its sign and some are not there; 10 to 17 in all."""
    h = len(index)
    variances = {
        "noise": np.full(h, 3.0),
        "function_shared": np.linspace(1.0, -1.0, h),
        "inputs_propagated": np.linspace(7.0, 18.0, h),
        "members": np.linspace(-1.0, -3.0, h),
    }
    parts = {part: np.diag(values) for part, values in variances.items()}
    return Forecast(index, np.zeros(h), sum(parts.values()), parts=parts, name=name)


def test_parts_are_stacked_from_zero_and_the_line_is_their_sum(index):
    forecast = with_parts(index[40:])
    axes = plot.decomposition(forecast)
    total = forecast.var.to_numpy()
    (line,) = (line for line in axes.lines if line.get_label() == "variance")
    np.testing.assert_allclose(line.get_ydata(), total)
    parts = forecast.decompose().to_numpy()
    ends = [extents(band)[1:] for band in axes.collections]
    bottom, top = np.min([low for low, _ in ends], axis=0), np.max([up for _, up in ends], axis=0)
    np.testing.assert_allclose(top, parts.clip(min=0.0).sum(axis=1))
    np.testing.assert_allclose(bottom, parts.clip(max=0.0).sum(axis=1))
    np.testing.assert_allclose(top + bottom, total)
    assert axes.get_legend_handles_labels()[1] == [
        *("noise", "function: shared", "inputs: propagated", "members", "variance")
    ]
    assert axes.get_ylabel() == "variance of load"


def test_parts_of_a_single_step_are_bars():
    axes = plot.decomposition(with_parts(pd.RangeIndex(1), name=None))
    ends = [bar.get_segments()[0][:, 1] for bar in axes.collections]
    np.testing.assert_allclose(ends, [[0, 3], [3, 4], [4, 11], [0, -1]])
    assert axes.get_ylabel() == "variance"


def test_without_axes_a_new_figure_is_made():
    current = plt.figure().subplots()
    assert ahead(INDEXES["range"]).plot().figure is not current.figure
    assert plot.calibration(Backtest()).figure is not current.figure


def test_a_legend_is_drawn_once_in_a_figure_or_as_asked():
    forecast, axes = ahead(INDEXES["dates"]), plt.figure(figsize=(9, 5)).subplots(2, 3)
    drawn = [forecast.plot(ax=ax).get_legend() for ax in axes.flat]
    assert [one is not None for one in drawn] == [True] + [False] * 5
    assert plot.fan(forecast, ax=axes[1, 1], label="other").get_legend() is not None
    assert forecast.plot(ax=axes[1, 2], legend=True).get_legend() is not None
    alone = forecast.plot(legend=False, color="C3", label="mine")
    assert alone.get_legend() is None
    assert alone.get_legend_handles_labels()[1][0] == "mine"
    for draw in (plot.calibration, plot.pit, plot.scores_by_step, plot.scores_by_origin):
        assert draw(Backtest(), legend=False).get_legend() is None
    with pytest.raises(ArgumentError, match="legend"):
        forecast.plot(legend="best")


def test_origins_are_drawn_by_model():
    y = pd.Series(np.arange(40.0) % 7, pd.date_range("2020", periods=40))
    result = backtest(baselines.Naive(), y, 3, origins=5, compare={"drift": baselines.Drift()})
    for model, name in ((None, "forecast_unc"), ("drift", "drift")):
        ax = result.plot(model, most=4)
        assert legend(ax) == ["actual", "95 %", name]
        first = result.frame[result.frame["model"] == name].iloc[:3]
        assert len(ax.lines) == 5
        np.testing.assert_allclose(ax.lines[1].get_ydata(), first["mean"])
    with pytest.raises(ArgumentError) as caught:
        result.plot("ets")
    assert caught.value.argument == "model"
    with pytest.raises(ArgumentError) as caught:
        plot.origins(result, coverage=0.9)
    assert caught.value.argument == "coverage"


def test_a_figure_of_plotly():
    pytest.importorskip("plotly")
    forecast = ahead(INDEXES["dates"])
    figure = forecast.to_plotly(series(INDEXES["dates"]), (0.8,))
    names = [trace.name for trace in figure.data]
    assert names == ["history", "80 %", "80 %", "forecast"]
    np.testing.assert_allclose(figure.data[3].y, forecast.mean)
    np.testing.assert_allclose(figure.data[2].y, forecast.interval(0.8)["upper"])
    one = forecast[:1].to_plotly(coverage=(0.8,)).data[0]  # a band of one step has no area
    np.testing.assert_allclose(one.y[:2], forecast.interval(0.8).iloc[0])


@pytest.mark.parametrize("index", ["time zone", "periods", "range"])
@pytest.mark.parametrize("whole", [False, True])
def test_regions_in_plotly_are_the_bars_of_highest_density(index, whole):
    pytest.importorskip("plotly")
    times = INDEXES[index][-STEPS:]
    paths = np.repeat([-2.0, 2.0], 200) + np.random.default_rng(0).normal(0.0, 0.4, (STEPS, 400))
    one = Forecast(times, paths.mean(axis=1), np.cov(paths), paths=paths)
    one = one.whole() if whole else one
    pieces, (*traces, _) = one.highest_density(0.8), one.to_plotly(coverage=(0.8,)).data
    ends, edges = [], set()
    for trace in traces:
        at = trace.y.index(None)  # corners of a bar, or ends of a stroke
        rows = np.array(trace.y, dtype=float).reshape(-1, at + 1)[:, :at]
        ends += [*np.column_stack([rows.min(axis=1), rows.max(axis=1)])]
        edges |= {*trace.x} - {None}
    assert len(edges) == STEPS + 1  # bars meet half way
    expected = pieces[["lower", "upper"]].to_numpy()
    np.testing.assert_allclose(np.sort(ends, axis=0), np.sort(expected, axis=0))
    assert len(one.to_plotly(coverage=(0.8,), regions=False).data) == 3
    with pytest.raises(ArgumentError) as caught:
        one.to_plotly(regions="yes")
    assert caught.value.argument == "regions"


@pytest.mark.parametrize("index", [INDEXES["time zone"]], ids=["time zone"])
def test_compare_draws_each_forecast_in_its_own_look(index):
    forecasts = {f"model {i}": ahead(index, 0.5 + 0.25 * i) for i in range(4)}
    actual = pd.Series(np.linspace(48, 52, STEPS), index[40:])
    ax = plot.compare(forecasts, coverage=0.8, history=series(index), actual=actual)
    assert legend(ax) == ["history", *forecasts, "actual"]
    assert ax.get_legend().get_title().get_text() == "mean and 80 % interval"
    last = series(index).iloc[-1]
    for i, (name, forecast) in enumerate(forecasts.items()):
        band, expected = ax.collections[i], forecast.interval(0.8)
        np.testing.assert_array_equal(line(ax, name).get_ydata(), [last, *forecast.mean])
        _, lower, upper = extents(band)
        np.testing.assert_allclose(np.transpose([lower, upper])[1:], expected)
        ends = [each for each in ax.lines if each.get_label() == "_"][2 * i : 2 * i + 2]
        for end, column in zip(ends, ("lower", "upper"), strict=True):
            np.testing.assert_array_equal(end.get_ydata(), [last, *expected[column]])
            # The outline carries the color and the dashes of the line, the area its color.
            assert end.get_color() == line(ax, name).get_color()
            assert end.get_linestyle() == line(ax, name).get_linestyle()
        assert mpl.colors.same_color(band.get_edgecolor()[0, :3], line(ax, name).get_color())
    looks = {(line(ax, name).get_color(), line(ax, name).get_linestyle()) for name in forecasts}
    assert len(looks) == len({color for color, _ in looks}) == len({dash for _, dash in looks}) == 4
    # In gray, where the colors are alike, bands are told apart by their hatching.
    assert len({band.get_hatch() for band in ax.collections}) == 4
    np.testing.assert_array_equal(line(ax, "actual").get_ydata(), actual)
    np.testing.assert_allclose(line(ax, "actual").get_xdata(orig=False), numbers(index[40:]))
    assert_nothing_hidden(ax)


def test_compared_single_steps_stay_apart():
    totals = {name: ahead(INDEXES["dates"]).aggregate("sum") for name in ("a", "b", "c")}
    ax = plot.compare(totals)
    widths = [bar.get_linewidth()[0] for bar in ax.collections]
    assert widths == sorted(set(widths), reverse=True)
    assert len({line(ax, name).get_marker() for name in totals}) == 3


def test_many_long_names_fit_above_the_axes():
    names = [f"Gaussian process number {i}" for i in range(7)]
    ax = plot.compare({name: ahead(INDEXES["dates"]) for name in names})
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1
    assert_nothing_hidden(ax)


def overlaps(ax, title):
    """Whether a title set by the user touches the legend, or leaves the figure."""
    ax.set_title(title)
    ax.figure.canvas.draw()
    box, legend_box = ax.title.get_window_extent(), ax.get_legend().get_window_extent()
    return box.overlaps(legend_box) or box.y1 > ax.figure.bbox.y1 + 0.5 or box.y0 < legend_box.y1


@pytest.mark.parametrize(
    ("layout", "n_names", "rows"),
    [(None, 9, 2), ("constrained", 3, 1)],
)
def test_titles_stand_above_the_legend(layout, n_names, rows):
    forecasts = {f"a model of some name {i}": ahead(INDEXES["dates"]) for i in range(n_names)}
    ax = np.ravel(plt.figure(layout=layout).subplots(rows))[-1]
    plot.compare(forecasts, ax=ax)
    assert not overlaps(ax, "Load")
    plot.fan(ahead(INDEXES["dates"]), ax=ax)  # draws the legend anew
    assert not overlaps(ax, "Load again")


def test_titles_of_all_pictures_stand_above_the_legend():
    backtest = Backtest()
    for draw in (plot.scores_by_step, plot.scores_by_origin, plot.calibration, plot.pit):
        assert not overlaps(draw(backtest, ax=plt.figure().subplots()), "Errors")
    forecast = with_parts(INDEXES["dates"][40:])
    assert not overlaps(plot.decomposition(forecast, ax=plt.figure().subplots()), "Parts")


def test_axes_with_a_title_can_be_pickled():
    ax = plot.fan(ahead(INDEXES["dates"]))
    copy = pickle.loads(pickle.dumps(ax.figure)).axes[0]
    assert not overlaps(copy, "Load")


@pytest.mark.parametrize(
    ("layout", "later", "rows", "n_names"),
    [
        (None, None, 2, 5),
        (None, "tight", 1, 9),
    ],
)
def test_a_legend_of_many_rows_is_not_cut_off(layout, later, rows, n_names):
    names = [f"Gaussian process of the family number {i}" for i in range(n_names)]
    figure = plt.figure(layout=layout)
    ax = np.ravel(figure.subplots(rows))[0]
    plot.compare({name: ahead(INDEXES["dates"]) for name in names}, ax=ax)
    if later is not None:
        figure.set_layout_engine(later)
    figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.y1 <= figure.bbox.y1 + 0.5
    assert box.x1 <= figure.bbox.x1
    assert ax.get_window_extent().height > 0.1 * figure.bbox.height
    assert_nothing_hidden(ax)


def test_axes_keep_their_place_if_the_legend_fits():
    ax = plt.figure().subplots()
    before = ax.get_position().bounds
    assert plot.fan(ahead(INDEXES["dates"]), ax=ax).get_position().bounds == before


@pytest.mark.parametrize(("level", "scale"), [(-1e9, 1.0), (0.0, 1e-9)])
def test_the_power_of_ten_of_the_axis_stays_clear_of_the_legend(level, scale):
    index = INDEXES["range"]
    forecast = Forecast(index[40:], level + scale * np.arange(STEPS), scale**2 * np.eye(STEPS))
    ax = plot.fan(forecast)
    ax.figure.canvas.draw()
    power = ax.yaxis.get_offset_text()
    assert power.get_text() != ""
    assert not power.get_window_extent().overlaps(ax.get_legend().get_window_extent())
    assert power.get_window_extent().x0 >= 0


def drawn(text):
    """Whether matplotlib draws the text as it stands, and not as mathematics."""
    return text._preprocess_math(text.get_text())


def test_dollars_in_names_are_not_mathematics():
    index = INDEXES["range"].rename("t in $, or $")
    y = pd.Series(np.arange(40.0), INDEXES["range"][:40], name="A$")
    y.attrs["unit"] = "US$"
    forecast = Forecast(index[40:], np.arange(STEPS), np.eye(STEPS), name="A$")
    both = {"$a_1$": forecast, "$b$ and $c$": forecast}
    ax = plot.compare(both, history=y)
    texts = [*ax.get_legend().get_texts()[1:], ax.yaxis.label, ax.xaxis.label]
    assert [drawn(text) for text in texts] == [
        (name, False) for name in (*both, "A$ (US$)", "t in $, or $")
    ]
    ax = plot.fan(forecast, (0.9,), label="$a$", ax=plt.figure().subplots())
    assert [drawn(text)[0] for text in ax.get_legend().get_texts()] == ["$a$", "$a$, 90 %"]
    backtest = Backtest()
    backtest.frame["model"] = "$a$"
    for draw in (plot.scores_by_step, plot.scores_by_origin, plot.calibration, plot.pit):
        ax = draw(backtest, ax=plt.figure().subplots())
        assert ("$a$", False) in [drawn(text) for text in ax.get_legend().get_texts()]


def test_every_name_is_in_the_legend_long_ones_cut():
    for name, expected in (
        ("x" * 5000 + "y", "x" * 60 + "…" + "x" * 18 + "y"),
        ("a\ud800b", "a?b"),
        ("x" * 80, "x" * 80),
        ("_a_", " _a_"),
    ):
        ax = plot.compare({name: ahead(INDEXES["dates"])}, ax=plt.figure().subplots())
        ax.figure.canvas.draw()
        assert legend(ax) == [expected]


@pytest.mark.parametrize(("kind", "other"), [*pairwise(INDEXES), ("range", "dates")])
def test_times_of_another_kind_are_refused(kind, other):
    forecast, history = ahead(INDEXES[kind]), series(INDEXES[other])
    for draw in (plot.fan, lambda f, **given: plot.compare({"a": f}, **given)):
        with pytest.raises(
            ValueError, match=r"history must have the forecast's kind of index, .*; got .*\. Pass "
        ):
            draw(forecast, history=history)


def test_compared_times_are_of_one_kind():
    dates, zone = INDEXES["dates"], INDEXES["time zone"]
    with pytest.raises(
        ValueError,
        match=r"actual must have the forecast's kind of index, DatetimeIndex without time zone; "
        r"got DatetimeIndex with time zone\. ",
    ):
        plot.compare({"a": ahead(dates)}, actual=series(zone))
    with pytest.raises(
        ValueError, match=r"forecasts\['b'\] must have the forecast's kind of index"
    ):
        plot.compare({"a": ahead(dates), "b": ahead(zone)})


def test_times_of_the_same_kind_need_not_be_the_same():
    dates, zone = INDEXES["dates"], INDEXES["time zone"]
    by_year = ahead(INDEXES["periods"]).aggregate("mean", freq="Y", partial="keep")
    assert plot.fan(by_year, history=series(INDEXES["periods"])).get_legend() is not None
    ax = plt.figure().subplots()
    elsewhere = series(zone.tz_convert("Asia/Tokyo"))
    plot.fan(ahead(zone), history=elsewhere.astype("float32"), ax=ax)
    np.testing.assert_allclose(line(ax, "history").get_xdata(orig=False), numbers(zone[:40]))
    whole = series(INDEXES["range"]).set_axis(np.arange(40))
    assert "history" in legend(plot.fan(ahead(INDEXES["range"]), history=whole, ax=ax.figure.gca()))
    assert len(dates) == 48


OF_ANOTHER_TYPE = [
    (lambda f: plot.fan(3), r"forecast must be a Forecast; got int\. Pass what .* returns\."),
    (lambda f: plot.fan(f, 0.9), r"coverage must be a sequence of fractions; got 0\.9\. "),
    (
        lambda f: plot.fan(f, series(INDEXES["dates"])),
        r"coverage must be a sequence of fractions; got a Series\. .* history=\.",
    ),
    (lambda f: plot.fan(f, history=[1.0]), r"history must be a pandas Series; got list\. "),
    (lambda f: plot.decomposition(3), r"forecast must be a Forecast; got int\. Pass what"),
    (lambda f: plot.compare([f]), r"forecasts must be a mapping of names to forecasts; got l"),
    (lambda f: plot.compare(f), r"forecasts must be a mapping of names .*; got Forecast\. Pas"),
    (lambda f: plot.compare({"a": 3}), r"forecasts\['a'\] must be a Forecast; got int\. "),
    (lambda f: plot.compare({"a": f}, actual=3), r"actual must be a pandas Series; got int\. "),
    (lambda f: f.plot(ax=1), r"ax must be matplotlib Axes; got int\. Pass one of those that"),
    (lambda f: plot.joint(f, ax=[None]), r"ax must be matplotlib Axes; got list\. Pass one"),
    (lambda f: plot.compare({"a": f}, coverage="a"), r"coverage must be a number; got 'a'\. "),
]


def test_arguments_of_another_type_are_named():
    for draw, message in OF_ANOTHER_TYPE:
        with case(message), pytest.raises(TypeError, match=message):
            draw(ahead(INDEXES["dates"]))
    assert not plt.get_fignums()


def test_a_fan_needs_an_interval():
    with pytest.raises(ValueError, match=r"coverage must hold a fraction; got none\. "):
        plot.fan(ahead(INDEXES["dates"]), [])


def averaged(index, weights=((0.25,) * STEPS, (0.75,) * STEPS)):
    h = len(weights[0])
    return Forecast.average([ahead(index).first(h), ahead(index, 2.0).first(h)], np.array(weights))


def test_members_are_drawn_as_wide_as_they_count(index):
    rising = np.linspace(0.1, 0.9, STEPS)
    average = averaged(index, (rising, 1 - rising))
    ax = plot.members(average, coverage=0.8, history=series(index))
    assert legend(ax) == [
        *("history", "average, 80 %", "average"),
        *("10 to 90 %: member 1", "90 to 10 %: member 2"),
    ]
    for label, member in zip(legend(ax)[3:], average.members, strict=True):
        drawn = line(ax, label)
        np.testing.assert_array_equal(drawn.get_ydata(), member.forecast.mean)
        np.testing.assert_allclose(drawn.get_xdata(orig=False), numbers(index[40:]), rtol=1e-14)
    band, first, second = ax.collections
    np.testing.assert_allclose(np.transpose(extents(band)[1:])[1:], average.interval(0.8))
    middle = 0.5 * (rising[1:] + rising[:-1])
    widths = np.array([first.get_linewidths(), second.get_linewidths()])
    np.testing.assert_allclose(widths / widths.sum(axis=0), [middle, 1 - middle])
    assert_nothing_hidden(ax)


def test_members_that_count_alike_throughout_have_one_weight():
    assert "25 %: member 1" in legend(plot.members(averaged(INDEXES["dates"])))
    single = plot.members(averaged(INDEXES["dates"], ((0.5,), (0.5,))), ax=plt.figure().gca())
    assert {"50 %: member 1", "50 %: member 2"} < set(legend(single))


def test_members_that_differ_at_the_end_alone_read_apart(monkeypatch):
    model = "Gaussian process of changes of the series, lags 1-12, %s, %d rows"
    for calendar, shown in (("month", "month, 7 rows"), ("day of week and hour of day " * 3, "…")):
        average = averaged(INDEXES["dates"])
        members = [
            member._replace(model=model % (calendar, rows))
            for rows, member in zip((7, 8), average.members, strict=True)
        ]
        with monkeypatch.context() as patch:
            patch.setattr(Forecast, "members", members)
            labels = legend(plot.members(average, ax=plt.figure().gca()))
        assert labels[-2].startswith("25 %: Gaussian process of changes of the series, lags")
        assert shown in labels[-2]
        assert labels[-2].endswith(", 7 rows")
        assert labels[-1].endswith(", 8 rows")


def test_only_averages_have_members_to_draw():
    with pytest.raises(ValueError, match=r"forecast must be the average of several; got Forecast"):
        plot.members(ahead(INDEXES["dates"]))
    for draw in (plot.members, plot.joint):
        with pytest.raises(TypeError, match=r"forecast must be a Forecast; got int\. Pass what"):
            draw(3)
    assert not plt.get_fignums()


def test_joint_draws_the_correlations():
    forecast = ahead(INDEXES["dates"])
    ax = plot.joint(forecast)
    (image,) = ax.images
    correlations = forecast.cov / np.outer(forecast.std, forecast.std)
    np.testing.assert_allclose(image.get_array(), correlations)
    assert image.get_clim() == (0.0, 1.0)
    # the first step is at 1, in the lower left
    assert image.get_extent() == [0.5, STEPS + 0.5, 0.5, STEPS + 0.5]
    assert image.origin == "lower"
    seesaw = Forecast(pd.RangeIndex(2), [0.0, 0.0], [[1.0, -0.5], [-0.5, 1.0]])
    (image,) = plot.joint(seesaw, ax=plt.figure().gca()).images
    assert image.get_clim() == (-1.0, 1.0)
    with pytest.raises(ValueError, match=r"forecast must have two steps or more; got one\. "):
        plot.joint(forecast[:1])


def test_the_module_can_be_imported_by_its_public_name():
    assert importlib.import_module("forecast_unc.plot") is plot


def test_the_module_lists_pictures_alone():
    pictures = ["COLORS", "calibration", "compare", "contributions", "coverage", "decomposition"]
    pictures += ["fan", "joint", "members", "origins", "pit", "scores_by_origin", "scores_by_step"]
    assert [name for name in dir(plot) if name[0] != "_"] == pictures


def test_a_decomposition_needs_the_parts():
    with pytest.raises(ValueError, match=r"decompose must be called on a forecast that knows its"):
        plot.decomposition(ahead(INDEXES["dates"]))
    assert not plt.get_fignums()


def test_compare_needs_a_forecast():
    with pytest.raises(ValueError, match=r"forecasts must hold a forecast; got none\. Pass \{name"):
        plot.compare({})


@pytest.mark.parametrize("unit", [None, "MW"])
def test_scores_by_step_draws_a_line_for_each_model(unit):
    backtest = Backtest(unit)
    ax = plot.scores_by_step(backtest)
    table = backtest.scores(by=["model", "step"])["CRPS"]
    for model in ("right", "narrow"):
        np.testing.assert_array_equal(line(ax, model).get_xdata(), [1, 2, 3, 4])
        np.testing.assert_array_equal(line(ax, model).get_ydata(), table[model])
    assert legend(ax) == ["right", "narrow"]
    assert ax.get_xlabel() == "steps ahead"
    assert ax.get_ylabel() == ("CRPS" if unit is None else "CRPS (MW)")
    assert all(float(tick).is_integer() for tick in ax.get_xticks())
    assert_nothing_hidden(ax)


def test_coverage_by_step_is_drawn_against_its_nominal_value():
    ax = plot.scores_by_step(Backtest("MW"), "coverage_95")
    np.testing.assert_array_equal(line(ax, "nominal 0.95").get_ydata(), [0.95, 0.95])
    assert ax.get_ylabel() == "coverage_95"


def test_unknown_scores_are_refused():
    backtest = Backtest()
    backtest.scores = lambda by: Backtest().scores(by).assign(n=1)
    with pytest.raises(ValueError, match=r"'CRPS', 'coverage_95'; got 'n'\. "):
        plot.scores_by_step(backtest, "n")
    with pytest.raises(ValueError, match=r"score must be one of 'CRPS', 'coverage_95'; got 'crps'"):
        plot.scores_by_step(Backtest(), "crps")


def test_calibration_counts_the_values_within_each_interval():
    backtest = Backtest()
    ax = plot.calibration(backtest)
    np.testing.assert_array_equal(line(ax, "calibrated").get_xydata(), [[0, 0], [1, 1]])
    for model, frame in backtest.frame.dropna().groupby("model"):
        curve = line(ax, model)
        for nominal, observed in zip(*curve.get_data(), strict=True):
            if 0 < nominal < 1:
                reach = frame["std"] * NormalDist().inv_cdf((1 + nominal) / 2)
                inside = scores.coverage(frame["actual"], -reach, reach)
                assert observed == pytest.approx(inside.mean(), abs=1e-12)
        assert curve.get_ydata()[[0, -1]].tolist() == [0.0, 1.0]
    narrow, right = (np.interp(0.5, *line(ax, m).get_data()) for m in ("narrow", "right"))
    assert narrow < 0.35 < 0.4 < right < 0.6
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("nominal coverage", "observed coverage")
    assert legend(ax) == [*CALIBRATED, "right", "narrow"]
    assert_nothing_hidden(ax)


CALIBRATED = ["calibrated", "95 % range, 10 horizons", "95 % range, 137 values"]


def test_gray_areas_hold_a_calibrated_model(rng):
    backtest = Backtest()
    rows = backtest.frame[backtest.frame["model"] == "right"]
    n = dict(zip(CALIBRATED[1:], (10, rows["pit"].count()), strict=True))  # every fourth origin
    for draw in (plot.calibration, plot.pit):
        ax = draw(backtest, ax=plt.figure().subplots())
        for area in ax.collections:
            places, lower, upper = extents(area)
            for p, low, high in list(zip(places, lower, upper, strict=True))[:: len(places) // 2]:
                scale, p = (10, 0.1) if draw is plot.pit else (1, p)
                shares = scale * rng.binomial(n[area.get_label()], p, 4000) / n[area.get_label()]
                held = np.mean((low - 1e-9 <= shares) & (shares <= high + 1e-9))
                assert 0.94 < held <= 1
                if 0 < p < 1 and draw is plot.calibration:  # and no more than they need
                    step = 1 / n[area.get_label()]
                    inner = (low + step - 1e-9 <= shares) & (shares <= high - step + 1e-9)
                    assert inner.mean() < 0.95
        assert [area.get_label() for area in ax.collections] == CALIBRATED[1:]


@pytest.mark.parametrize(
    ("draw", "origins", "apart"),
    [(plot.calibration, 4, 1), (plot.calibration, 21, 6), (plot.pit, 17, 5), (plot.pit, 21, 6)],
)
def test_pictures_of_few_origins_say_that_nothing_can_be_judged(draw, origins, apart):
    backtest = Backtest()
    backtest.frame = backtest.frame[backtest.frame["origin"] < origins]
    ax = draw(backtest)
    said = [text.get_text() for text in ax.texts]
    horizons = "1 horizon" if apart == 1 else f"{apart} horizons"
    expected = f"Nothing can be judged:\n{horizons} without\noverlap, 6 needed"
    assert said == ([expected] if apart < 6 else [])
    # The oracle: whether all or none of so many in a fair interval is too far off at 5 %.
    assert (2 * 0.5**apart > 0.05) == bool(said)


def test_one_step_has_one_gray_area():
    backtest = Backtest()
    backtest.frame = backtest.frame[backtest.frame["step"] == 1]
    assert legend(plot.calibration(backtest))[:2] == ["calibrated", "95 % range, 34 values"]
    assert len(plot.pit(backtest, ax=plt.figure().subplots()).collections) == 1


@pytest.mark.parametrize("n_models", [5])
def test_pictures_of_a_backtest_keep_clear_of_each_other(n_models):
    backtest = Backtest("MW")
    single = backtest.frame[backtest.frame["model"] == "right"]
    names = [f"a model of some name, number {i}" for i in range(n_models)]
    backtest.frame = pd.concat([single.assign(model=name) for name in names])
    figure, axes = plt.subplots(2, 2, figsize=(11, 9))
    draws = (plot.scores_by_step, plot.scores_by_origin, plot.calibration, plot.pit)
    for draw, ax in zip(draws, axes.ravel(), strict=True):
        draw(backtest, ax=ax)
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in axes.ravel()]
    for one, other in permutations(boxes, 2):
        assert not one.overlaps(other)
    assert min(ax.get_window_extent().height for ax in axes.ravel()) > 100


@pytest.mark.parametrize("index", [INDEXES["periods"], INDEXES["range"]], ids=["periods", "range"])
def test_scores_by_origin_draws_dates(index):
    backtest = Backtest("MW")
    backtest.frame["origin"] = index[backtest.frame["origin"]]
    ax = plot.scores_by_origin(backtest)
    table = backtest.scores(by=["model", "origin"])["CRPS"]
    for model in ("right", "narrow"):
        np.testing.assert_allclose(line(ax, model).get_xdata(orig=False), numbers(index[:40]))
        np.testing.assert_array_equal(line(ax, model).get_ydata(), table[model])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("origin (last observed time)", "CRPS (MW)")
    dated = isinstance(ax.xaxis.get_major_formatter(), mdates.ConciseDateFormatter)
    assert dated == (not isinstance(index, pd.RangeIndex))
    assert_nothing_hidden(ax)


def test_a_single_step_has_a_whole_number():
    backtest = Backtest()
    backtest.frame = backtest.frame[backtest.frame["step"] == 1]
    ax = plot.scores_by_step(backtest)
    low, high = ax.get_xlim()
    assert [tick for tick in ax.get_xticks() if low <= tick <= high] == [1]


def test_pit_draws_a_histogram_for_each_model():
    backtest = Backtest()
    ax = plot.pit(backtest)
    assert [step.get_label() for step in ax.patches] == ["right", "narrow"]
    for step in ax.patches:
        values = backtest.frame.loc[backtest.frame["model"] == step.get_label(), "pit"].dropna()
        density, edges, _ = step.get_data()
        np.testing.assert_allclose(edges, np.arange(11) / 10)
        tenth = np.minimum((values * 10).astype(int), 9)
        np.testing.assert_allclose(
            density, [10 * (tenth == i).mean() for i in range(10)], atol=1e-12
        )
        assert not step.get_fill()
    np.testing.assert_array_equal(line(ax, "calibrated").get_ydata(), [1, 1])
    assert ax.get_ylim()[0] == 0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("probability integral transform", "density")
    assert_nothing_hidden(ax)


def test_pictures_of_a_backtest_need_one():
    for draw in (plot.calibration, plot.pit, plot.scores_by_step, plot.scores_by_origin):
        with pytest.raises(
            TypeError, match=r"backtest must be a Backtest; got int\. Pass what back"
        ):
            draw(3)
