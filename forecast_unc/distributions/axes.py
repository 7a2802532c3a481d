"""What all pictures share: where times lie on an axis, its labels, and the legend above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forecast_unc._typing import Array
from forecast_unc.series.times import index_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

_LONGEST = 80  # letters of a name
_LEGEND_PLACE = "_legend_place"  # label of the child axes that keep titles off the legend


def current_axes(ax: Axes | None) -> Axes:
    """Return the axes given, or else the current ones."""
    import matplotlib.pyplot as plt  # kept out of `import forecast_unc`

    return plt.gca() if ax is None else ax


def places(ax: Axes, index: pd.Index[Any]) -> Any:
    """Times as what the axes draw them at; a period lies at its first instant."""
    times = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    # An axis that pandas drew on has its own converter of dates, and matplotlib would replace it.
    return ax.convert_xunits(times) if ax.xaxis.have_units() else times  # type: ignore[no-untyped-call]


def axis_numbers(ax: Axes, index: pd.Index[Any]) -> Array:
    """Times as the numbers that the axes count by, once something was drawn on them."""
    at = ax.convert_xunits(places(ax, index))  # type: ignore[no-untyped-call]
    return np.asarray(at, dtype=np.float64)


def check_times(name: str, index: pd.Index[Any], expected: pd.Index[Any]) -> None:
    """Raise if matplotlib would put the times of two indexes at unrelated places."""
    if index_kind(index) != index_kind(expected):
        raise ValueError(
            f"{name} must have the forecast's kind of index, {index_kind(expected)}; got "
            f"{index_kind(index)}. Pass the series that was forecast, or convert its index."
        )


def with_unit(name: Any, unit: Any) -> str:
    """Label of an axis, ``name (unit)``, of what there is of the two."""
    if name is None or unit is None:
        return "" if name is unit else plain(unit if name is None else name)
    return plain(f"{name} ({unit})")


def plain(text: object) -> str:
    """Text that matplotlib draws as it stands, cut where it would fill the picture."""
    drawable = str(text).encode("utf-8", "replace").decode()  # half a surrogate pair is an error
    short = drawable if len(drawable) <= _LONGEST else f"{drawable[: _LONGEST - 1]}…"
    shown = short.replace("$", r"\$")  # between dollars it would set mathematics
    return f" {shown}" if shown.startswith("_") else shown  # and leave such names out of legends


def finish(ax: Axes, index: pd.Index[Any] | None = None, **legend: Any) -> Axes:
    """Set readable dates, a light grid, and the legend above the axes, where it covers nothing."""
    from matplotlib.dates import AutoDateFormatter, AutoDateLocator, ConciseDateFormatter

    dated = isinstance(index, pd.DatetimeIndex | pd.PeriodIndex)
    if hasattr(ax, "freq"):
        # pandas drew here: it counts periods, not days, and ends the axis with its own series.
        ax.autoscale(axis="x")
    elif isinstance(ax.xaxis.get_major_formatter(), AutoDateFormatter):
        tz = index.tz if isinstance(index, pd.DatetimeIndex) else None
        locator = AutoDateLocator(tz=tz, minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=tz))  # type: ignore[no-untyped-call]
    elif index is not None and not dated and not ax.get_xlabel():
        ax.set_xlabel(plain(index.name or "time"))
    ax.grid(visible=True, color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    # The power of ten, as in 1e9, goes above the numbers and out of the legend.
    ax.yaxis.get_offset_text().set_horizontalalignment("right")
    labels = legend.get("labels") or ax.get_legend_handles_labels()[1]
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
    _keep_titles_above(ax)
    if ax.figure.get_layout_engine() is None:
        # Nothing else makes room for a legend of many rows: lower the top of the subplots.
        points = ax.title.get_fontproperties().get_size_in_points()
        title = 1.7 * points * ax.figure.dpi / 72  # a line and its padding
        over = (drawn.get_window_extent().y1 + title - ax.figure.bbox.y1) / ax.figure.bbox.height
        if over > 0:
            place = ax.figure.subplotpars
            ax.figure.subplots_adjust(top=max(place.top - over, place.bottom + 0.1))
        _part_rows(ax, drawn.get_window_extent().height + title)
    return ax


class _LegendPlace:
    """Where the legend of some axes lies, as a locator of child axes."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax

    def __call__(self, _: Any, renderer: Any) -> Bbox:
        """Return the box of the legend in the coordinates of the figure."""
        figure, legend = self.ax.figure, self.ax.get_legend()
        box = self.ax.bbox if legend is None else legend.get_window_extent(renderer)
        return box.transformed(figure.transSubfigure.inverted())


def _keep_titles_above(ax: Axes) -> None:
    """Have titles stand above the legend: matplotlib puts them above child axes, not legends."""
    if all(child.get_label() != _LEGEND_PLACE for child in ax.child_axes):
        place = ax.inset_axes((0, 1, 1, 0), label=_LEGEND_PLACE)
        place.set_axis_off()
        place.set_axes_locator(_LegendPlace(ax))


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
