"""The picture of one forecast, and what all pictures share: times on an axis, labels, legends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forecast_unc._checks import check_coverages, check_truth, refusal
from forecast_unc._typing import Array, Axes, Flags
from forecast_unc.distributions.export import (
    ShapedSteps,
    Steps,
    described,
    first_instants,
)
from forecast_unc.series.times import index_kind
from forecast_unc.series.values import check_is_series, numeric_values

if TYPE_CHECKING:
    from matplotlib.transforms import Bbox

_PEAKS, _LEAST_PEAK = 0.8, 0.1  # coverage of a region, and probability of each of its two pieces


def fan(
    forecast: Steps,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    *,
    history: pd.Series[float] | None = None,
    actual: pd.Series[float] | None = None,
    ax: Axes | None = None,
    color: str | None = None,
    label: str | None = None,
    legend: bool | None = None,
    regions: bool | None = None,
) -> Axes:
    """Draw the mean and nested central intervals of one forecast; return the axes.

    Of a single step the intervals are drawn as bars. `coverage`, `history`, `actual` and `ax` are
    those of :meth:`Forecast.plot`; ``history.attrs["unit"]`` goes to the axis label. ``color`` is
    that of the line and, paler, of the intervals, by default the next one of the axes, and
    ``label`` the name of the forecast in the legend. ``legend`` is True or False; None leaves it
    out where another picture of the figure has the same, as of small multiples.

    ``regions`` draws :meth:`Forecast.highest_density` instead of intervals, a bar a step,
    of several pieces where the distribution has several peaks. None draws them if the forecast has
    paths and the region of 80 % at some step has two pieces of .1 or more.
    """
    check_forecast("forecast", forecast)
    shaped = with_regions(forecast, regions)
    history, actual = check_history(history, forecast), check_actual(actual, forecast)
    if isinstance(coverage, pd.Series):
        remedy = "Pass past values as history=."
        raise refusal("coverage", "be a sequence of fractions", "a Series", remedy, TypeError)
    levels = sorted(check_coverages(coverage), reverse=True)
    bands = [forecast.interval(level) for level in levels]
    ax = draw_history(ax, history, forecast)
    taken = ax.get_legend_handles_labels()[1]
    if label is None and "forecast" in taken:
        label = next(name for i in count(2) if (name := f"forecast {i}") not in taken)
    times, mean = continued(ax, history, forecast, forecast.mean.to_frame("mean"))
    style: dict[str, Any] = {"color": color, "marker": "o" if len(forecast) == 1 else None}
    (line,) = ax.plot(times, mean, **style, zorder=3, label=plain(label or "forecast"))
    shade, alpha = line.get_color(), 0.2
    if shaped is not None:
        for level in levels:
            _fill_regions(ax, shaped, level, facecolor=shade, alpha=alpha, lw=0)
        bands = []
    for band in bands:
        _, whole = continued(ax, history, forecast, band)
        fill_band(ax, times, whole, 8, facecolor=shade, alpha=alpha, lw=0)
    for depth, level in reversed([*enumerate(levels, start=1)]):
        # The bands lie on top of each other: the legend shows the tint that results.
        tint = 1 - (1 - alpha) ** depth
        name = f"{100 * level:g} %" if label is None else f"{plain(label)}, {100 * level:g} %"
        ax.fill([], [], facecolor=shade, alpha=tint, lw=0, label=name)
    draw_actual(ax, actual)
    return finish(ax, forecast.index, shown=legend)


def with_regions(forecast: Steps, regions: bool | None) -> ShapedSteps | None:
    """The forecast if its picture has regions, by None where a step of its paths has two peaks."""
    if regions is not None:
        check_truth("regions", regions, "None draws them where a step has two peaks.")
    if not isinstance(forecast, ShapedSteps):
        if regions:
            remedy, got = "Leave out regions=True.", type(forecast).__name__
            raise refusal("forecast", "know its density", got, remedy, TypeError)
        return None
    if regions is None and forecast.paths is not None:
        pieces = forecast.highest_density(_PEAKS)
        likely = pieces.index[pieces["probability"] >= _LEAST_PEAK]
        regions = bool(likely.has_duplicates)
    return forecast if regions else None


def bars(pieces: pd.DataFrame, index: pd.Index[Any], at: pd.Index[Any]) -> pd.DataFrame:
    """Bars of pieces of steps, from half way to the step before to half way to the next.

    `at` are the places of the steps of `index`, numbers or times; a single step has no width.
    """
    step = index.get_indexer(pieces.index)
    half = 0.5 * (at[1:] - at[:-1]) if len(at) > 1 else at[:1] - at[:1]
    between = np.arange(len(at))
    left = at - half[np.maximum(between - 1, 0)]
    right = at + half[np.minimum(between, len(half) - 1)]
    ends = {"left": left[step], "right": right[step]}
    return pieces[["lower", "upper"]].reset_index(drop=True).assign(**ends)


def _fill_regions(ax: Axes, forecast: ShapedSteps, coverage: float, **style: Any) -> None:
    """Fill the region of each step with bars; those without an area are strokes."""
    at = pd.Index(axis_numbers(ax, forecast.index))
    drawn = bars(forecast.highest_density(coverage), forecast.index, at)
    left, right, low, high = drawn[["left", "right", "lower", "upper"]].to_numpy().T
    stroke: dict[str, Any] = {"alpha": style["alpha"], "colors": style["facecolor"]}
    flat = low == high  # of single values, as of counts
    if len(forecast) == 1:
        for rows, cap in ((~flat, "butt"), (flat, "projecting")):  # which has length, too
            if rows.any():
                ends = low[rows], high[rows]
                ax.vlines(left[rows], *ends, lw=8, capstyle=cap, **stroke)
        return
    from matplotlib.collections import PolyCollection

    if flat.any():
        ax.hlines(low[flat], left[flat], right[flat], lw=6, **stroke)
    corners = np.array([[left, low], [right, low], [right, high], [left, high]])
    ax.add_collection(PolyCollection(list(corners.transpose(2, 0, 1)), **style))
    ax.autoscale_view()


def draw_history(ax: Axes | None, history: pd.Series[float] | None, forecast: Steps) -> Axes:
    """Draw checked values before a forecast, if given, and label the axis; return the axes."""
    ax = given_or_new_axes(ax)
    name, unit = forecast.name, None
    if history is not None:
        history = check_is_series(history, "history")
        values = numeric_values(history, "history")
        times = places(ax, history.index)
        # the same may be there, before another forecast
        past = [line.get_ydata() for line in ax.lines if line.get_label() == "history"]
        if any(np.array_equal(one, values, equal_nan=True) for one in past):
            return ax
        ax.plot(times, values, color=gray(ax, 0.3), lw=1.2, label="history")
        gone = np.pad(np.isnan(values), 1, constant_values=True)
        alone = ~gone[1:-1] & gone[:-2] & gone[2:]  # no line leads to them
        if alone.any():
            ax.plot(times[alone], values[alone], ".", color=gray(ax, 0.3), ms=4)
        name, unit = history.name if name is None else name, history.attrs.get("unit")
    if not ax.get_ylabel():
        ax.set_ylabel(with_unit(described(name, forecast.aggregated), unit))
    return ax


def continued(
    ax: Axes, history: pd.Series[float] | None, forecast: Steps, frame: pd.DataFrame
) -> tuple[Any, pd.DataFrame]:
    """Places and columns (h, k) of a forecast, from the last value of a history leading to it."""
    times = places(ax, forecast.index)
    if history is None or len(forecast) == 1:  # a single step is a point
        return times, frame
    ahead, past = (axis_numbers(ax, index) for index in (forecast.index, history.index))
    past, values = past[past < ahead[0]], history.to_numpy(dtype=np.float64)[past < ahead[0]]
    seen = np.flatnonzero(~np.isnan(values))
    ours, theirs = np.diff(ahead), np.diff(past)
    if not seen.size or ahead[0] - past[-1] > 1.5 * max(ours.max(), theirs.max(initial=0.0)):
        return times, frame
    # Not at another frequency: a sum over a year does not go on from the value of a month. By
    # ranges of distances, which calendars vary: months by a tenth, business days by weekends
    if theirs.size and max(ours.min(), theirs.min()) > 1.2 * min(ours.max(), theirs.max()):
        return times, frame
    last = pd.DataFrame(np.full((1, frame.shape[1]), values[seen[-1]]), columns=frame.columns)
    return np.append(past[seen[-1]], ahead), pd.concat([last, frame])


def check_history(history: pd.Series[float] | None, forecast: Steps) -> pd.Series[float] | None:
    """The values before a forecast, if given, or an error."""
    return None if history is None else _timed("history", history, forecast)


def check_actual(actual: pd.Series[float] | None, *forecasts: Steps) -> pd.Series[float] | None:
    """Observed values, if given, at the times of the forecasts, or an error if there are none."""
    if actual is None:
        return None
    actual = _timed("actual", actual, forecasts[0])
    there: Flags = np.logical_or.reduce([actual.index.isin(each.index) for each in forecasts])
    if not there.any():
        first, last = forecasts[0].index[[0, -1]].astype(str)
        must = f"hold one of the forecast's times, {first} to {last}"
        remedy = "Pass what happened at these; past values are history."
        raise refusal("actual", must, "none of them", remedy)
    return actual.loc[there]


def _timed(name: str, series: pd.Series[float], forecast: Steps) -> pd.Series[float]:
    """A Series of numbers with times of the kind that a forecast has, or an error."""
    series = check_is_series(series, name)
    numeric_values(series, name)
    check_times(name, series.index, forecast.index)
    return series


def draw_actual(ax: Axes, actual: pd.Series[float] | None) -> list[Any]:
    """Draw what happened, if given, as points; return them."""
    if actual is None:
        return []
    at = places(ax, actual.index)
    return list(ax.plot(at, actual, "o", color=gray(ax, 0.0), ms=3, zorder=4, label="actual"))


def fill_band(ax: Axes, times: Any, band: pd.DataFrame, width: float, **style: Any) -> Any:
    """Fill between the ends of a band; a band of one step has no area, so draw it as a bar."""
    if len(band) > 1:
        return ax.fill_between(times, band["lower"], band["upper"], **style)
    face, alpha = style["facecolor"], style.get("alpha", 0.35)
    color = style["edgecolor"] if face == "none" else face
    return ax.vlines(times, band["lower"], band["upper"], colors=color, alpha=alpha, lw=width)


def check_forecast(name: str, forecast: object) -> None:
    """Raise unless something has the times and intervals of a Forecast."""
    # Not isinstance: the Forecast draws itself with this module.
    if not (hasattr(forecast, "index") and hasattr(forecast, "interval")):
        remedy = "Pass what Forecaster.forecast returns."
        raise refusal(name, "be a Forecast", type(forecast).__name__, remedy, TypeError)


def given_or_new_axes(ax: Axes | None) -> Axes:
    """Return the axes given, or else those of a new figure, as `DataFrame.plot` of pandas does."""
    if ax is not None:  # without pyplot, which chooses a backend
        from matplotlib.axes import Axes

        if not isinstance(ax, Axes):
            remedy = "Pass one of those that plt.subplots() returns, or None for a new figure."
            raise refusal("ax", "be matplotlib Axes", type(ax).__name__, remedy, TypeError)
        return ax
    import matplotlib.pyplot as plt  # kept out of `import forecast_unc`

    return plt.figure().add_subplot()


def gray(ax: Axes, level: float) -> tuple[float, ...]:
    """The gray from the color of text, at 0, to that of the axes, at 1, which may be dark."""
    from matplotlib import colors, rcParams

    ink, back = (np.array(colors.to_rgba(c)) for c in (rcParams["text.color"], ax.get_facecolor()))
    paper = back if back[3] else 1.0 - ink  # of transparent axes unlike the text
    return tuple(ink[:3] + level * (paper - ink)[:3])


def places(ax: Axes, index: pd.Index[Any]) -> Any:
    """Times as what the axes draw them at; a period lies at its first instant."""
    times = first_instants(index)
    # An axis that pandas drew on has its own converter of dates, and matplotlib would replace it.
    return ax.convert_xunits(times) if ax.xaxis.have_units() else times  # type: ignore[no-untyped-call]


def axis_numbers(ax: Axes, index: pd.Index[Any]) -> Array:
    """Times as the numbers that the axes count by, once something was drawn on them."""
    at = ax.convert_xunits(places(ax, index))  # type: ignore[no-untyped-call]
    return np.asarray(at, dtype=np.float64)


def check_times(name: str, index: pd.Index[Any], expected: pd.Index[Any]) -> None:
    """Raise if matplotlib would put the times of two indexes at unrelated places."""
    if index_kind(index) != index_kind(expected):
        must = f"have the forecast's kind of index, {index_kind(expected)}"
        remedy = "Pass the series that was forecast, or convert its index."
        raise refusal(name, must, index_kind(index), remedy)


def with_unit(name: Any, unit: Any) -> str:
    """Label of an axis, ``name (unit)``, of what there is of the two."""
    if name is None or unit is None:
        return "" if name is unit else plain(unit if name is None else name)
    return plain(f"{name} ({unit})")


def plain(text: object) -> str:
    """Text that matplotlib draws as it stands, cut within where it would fill the picture."""
    drawable = str(text).encode("utf-8", "replace").decode()  # half a surrogate pair is an error
    short = drawable if len(drawable) <= 80 else f"{drawable[:60]}…{drawable[-19:]}"
    shown = short.replace("$", r"\$")  # between dollars it would set mathematics
    return f" {shown}" if shown.startswith("_") else shown  # and leave such names out of legends


def finish(
    ax: Axes, index: pd.Index[Any] | None = None, *, shown: bool | None = None, **legend: Any
) -> Axes:
    """Set readable dates, a light grid, and the legend above the axes, where it covers nothing."""
    if shown is not None:
        check_truth("legend", shown, "None leaves out what another picture of the figure has.")
    _set_scales(ax, index)
    labels = legend.get("labels") or ax.get_legend_handles_labels()[1]
    if shown or (shown is None and not _has_legend(ax, labels)):
        _draw_legend(ax, labels, legend)
    return ax


def _has_legend(ax: Axes, labels: list[str]) -> bool:
    """Whether the legend of other axes of the figure has these labels."""
    legends = [other.get_legend() for other in ax.figure.axes if other is not ax]
    return any(
        one is not None and {*labels} <= {text.get_text() for text in one.get_texts()}
        for one in legends
    )


def _set_scales(ax: Axes, index: pd.Index[Any] | None) -> None:
    """Set readable dates and a light grid."""
    from matplotlib.dates import AutoDateFormatter, AutoDateLocator, ConciseDateFormatter

    dated = index if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex) else None
    if hasattr(ax, "freq"):
        # pandas drew here: it counts periods, not days, and ends the axis with its own series.
        ax.autoscale(axis="x")
    elif isinstance(ax.xaxis.get_major_formatter(), AutoDateFormatter):
        tz = index.tz if isinstance(index, pd.DatetimeIndex) else None
        locator = AutoDateLocator(tz=tz, minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        dates = ConciseDateFormatter(locator, tz=tz)  # type: ignore[no-untyped-call]
        dates.formats[2], dates.offset_formats[2] = "%d %b", "%Y"  # 15 Jun, not 15 beside Jul
        ax.xaxis.set_major_formatter(dates)
        if dated is not None and len(dated) == 1 and dated.freq and not ax.dataLim.width:
            # alone it would stand in the middle of years
            (at,), (after,) = axis_numbers(ax, dated), axis_numbers(ax, dated.shift(1))
            ax.set_xlim(2 * at - after, after)
    elif index is not None and dated is None and not ax.get_xlabel():
        ax.set_xlabel(plain(index.name or "time"))
    ax.grid(visible=True, color=gray(ax, 0.9), lw=0.8)
    ax.set_axisbelow(True)
    # The power of ten, as in 1e9, goes above the numbers and out of the legend.
    ax.yaxis.get_offset_text().set_horizontalalignment("right")


def _draw_legend(ax: Axes, labels: list[str], legend: dict[str, Any]) -> None:
    """Draw the legend above the axes, and make room for it."""
    widths = [0.45 + 0.065 * len(label) for label in labels]  # inches, in small type
    room = ax.get_window_extent().width / ax.figure.dpi
    drawn = ax.legend(
        **legend,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        ncols=len(labels) if sum(widths) < room else max(1, int(room / max(widths))),
        columnspacing=1,
        fontsize="small",
        title_fontsize="small",
        alignment="left",
        frameon=False,
    )
    label = "_legend_place"  # of child axes: matplotlib puts titles above these, not above legends
    if all(child.get_label() != label for child in ax.child_axes):
        place = ax.inset_axes((0, 1, 1, 0), label=label)
        place.set_axis_off()
        place.set_axes_locator(partial(_legend_box, ax))
    if ax.figure.get_layout_engine() is None:
        # Nothing else makes room for a legend of many rows: lower the top of the subplots.
        points = ax.title.get_fontproperties().get_size_in_points()
        title = 1.7 * points * ax.figure.dpi / 72  # a line and its padding
        over = (drawn.get_window_extent().y1 + title - ax.figure.bbox.y1) / ax.figure.bbox.height
        if over > 0:
            at = ax.figure.subplotpars
            ax.figure.subplots_adjust(top=max(at.top - over, at.bottom + 0.1))
        _part_rows(ax, drawn.get_window_extent().height + title)


def _legend_box(ax: Axes, _: Any, renderer: Any) -> Bbox:
    """The box of the legend in the coordinates of the figure."""
    figure, legend = ax.figure, ax.get_legend()
    box = ax.bbox if legend is None else legend.get_window_extent(renderer)
    return box.transformed(figure.transSubfigure.inverted())


def _part_rows(ax: Axes, legend: float) -> None:
    """Set the rows of subplots apart by a legend's height in pixels, and the labels above it."""
    spec, figure = ax.get_subplotspec(), ax.figure
    if spec is None or spec.rowspan.start == 0:
        return
    rows, place = spec.get_gridspec().nrows, figure.subplotpars
    inches = (place.top - place.bottom) * figure.bbox.height / figure.dpi
    between = legend / figure.dpi + 0.6  # ticks and label of the row above
    height = (inches - (rows - 1) * between) / rows
    if between > place.hspace * inches / (rows + (rows - 1) * place.hspace) and height > 0.5:
        figure.subplots_adjust(hspace=between / height)
