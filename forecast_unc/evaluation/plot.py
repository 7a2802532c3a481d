"""Pictures of forecasts and of backtests: Axes in, Axes out.

Several models on one picture are told apart by color, line style and marker at once, so that it
also reads in gray. The colors are those of Okabe and Ito, which color-blind readers can tell apart:
blue, vermilion, green, purple, orange, sky blue. The legend stands above the axes, where it covers
no data; a title goes above it with ``ax.set_title("...", pad=30)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from scipy.stats import binom

from forecast_unc._typing import Array
from forecast_unc.forecasting import scores
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.series import check_is_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "calibration", "compare", "fan", "pit", "scores_by_origin", "scores_by_step"]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = "os^Dvp<"
_BAND_ALPHA = 0.2
_BINS = 10  # of the histogram of pit
_IN_UNITS_OF_Y = {"MAE", "RMSE", "CRPS", "energy"}


def __dir__() -> list[str]:
    return __all__


class _Scored(Protocol):
    """What is read of a Backtest."""

    @property
    def frame(self) -> pd.DataFrame:
        """Columns ``model``, ``origin``, ``step``, ``time``, ``pit``; unit of y in ``attrs``."""
        ...

    def scores(self, by: Any = ...) -> pd.DataFrame:
        """Return a column a score, indexed by the names in ``by``."""
        ...


class _Look(NamedTuple):
    color: str
    dashes: Any
    marker: str


def fan(
    forecast: Forecast,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    *,
    history: pd.Series[float] | None = None,
    ax: Axes | None = None,
    color: str | None = None,
    label: str | None = None,
) -> Axes:
    """Draw the mean and nested central intervals of one forecast.

    Parameters
    ----------
    forecast : Forecast
        The forecast; of a single step, the intervals are drawn as bars.
    coverage : sequence of float, default=(0.5, 0.8, 0.95)
        Coverages of the intervals, in (0, 1).
    history : Series, optional
        Past values, drawn before the forecast; its ``attrs["unit"]`` goes to the axis label.
    ax : Axes, optional
        Where to draw; by default the current axes.
    color : str, optional
        Color of the line and, paler, of the intervals; by default the next one of the axes.
    label : str, optional
        Name of the forecast in the legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it must be, or ``history`` has another kind of times.
    """
    _check_forecast("forecast", forecast)
    levels = sorted(scores.check_coverages(coverage), reverse=True)
    bands = [forecast.interval(level) for level in levels]
    names = [f"{100 * level:g} %" for level in levels]
    ax = _start(ax, history, forecast)
    taken = ax.get_legend_handles_labels()[1]
    if label is None and "forecast" in taken:
        label = next(name for i in count(2) if (name := f"forecast {i}") not in taken)
    label = None if label is None else _plain(label)
    times = _times(ax, forecast.index)
    single = "o" if len(forecast) == 1 else None
    (line,) = ax.plot(
        times, forecast.mean, color=color, marker=single, zorder=3, label=label or "forecast"
    )
    shade = line.get_color()
    for band in bands:
        _fill(ax, times, band, 8, facecolor=shade, alpha=_BAND_ALPHA, lw=0)
    for depth in range(len(bands), 0, -1):
        # The bands lie on top of each other: the legend shows the tint that results.
        tint = 1 - (1 - _BAND_ALPHA) ** depth
        name = names[depth - 1] if label is None else f"{label}, {names[depth - 1]}"
        ax.fill([], [], facecolor=shade, alpha=tint, lw=0, label=name)
    return _finish(ax, forecast.index)


def compare(
    forecasts: Mapping[str, Forecast],
    *,
    coverage: float = 0.95,
    history: pd.Series[float] | None = None,
    actual: pd.Series[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw several forecasts of one series on top of each other.

    Parameters
    ----------
    forecasts : mapping of str to Forecast
        The forecasts by the name they get in the legend.
    coverage : float, default=0.95
        Coverage of the intervals, in (0, 1).
    history : Series, optional
        Past values, drawn before the forecasts; its ``attrs["unit"]`` goes to the axis label.
    actual : Series, optional
        What happened, drawn as points.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it must be, or not all have the same kind of times.
    """
    if not isinstance(forecasts, Mapping):
        raise TypeError(
            "forecasts must be a mapping of names to forecasts; "
            f"got {type(forecasts).__name__}. Pass {{name: forecast}}, one or more."
        )
    if not forecasts:
        raise ValueError(
            "forecasts must hold a forecast; got none. Pass {name: forecast}, one or more."
        )
    first = next(iter(forecasts.values()))
    for name, forecast in forecasts.items():
        _check_forecast(f"forecasts[{name!r}]", forecast)
        _check_times(f"forecasts[{name!r}]", forecast.index, first.index)
    if actual is not None:
        _check_times("actual", check_is_series(actual, "actual").index, first.index)
    bands = [forecast.interval(coverage) for forecast in forecasts.values()]
    ax = _start(ax, history, first)
    handles: list[Any] = [*ax.get_legend_handles_labels()[0]]
    labels = [*ax.get_legend_handles_labels()[1]]
    widest = 4 * len(forecasts) + 4
    for i, (look, band, (name, forecast)) in enumerate(
        zip(_looks(), bands, forecasts.items(), strict=False)
    ):
        times = _times(ax, forecast.index)
        (line,) = ax.plot(
            times,
            forecast.mean,
            color=look.color,
            linestyle=look.dashes,
            marker=look.marker if len(forecast) == 1 else None,
            zorder=3,
            label=_plain(name),
        )
        patch = _fill(
            ax,
            times,
            band,
            widest - 4 * i,
            facecolor=(look.color, 0.1),
            edgecolor=look.color,
            linestyle=look.dashes,
            lw=1,
        )
        handles.append((patch, line))
        labels.append(_plain(name))
    if actual is not None:
        handles += ax.plot(
            _times(ax, actual.index), actual, "o", color="black", ms=3, zorder=4, label="actual"
        )
        labels.append("actual")
    title = f"mean and {100 * coverage:g} % interval"
    return _finish(ax, first.index, handles=handles, labels=labels, title=title)


def scores_by_step(backtest: _Scored, score: str = "CRPS", *, ax: Axes | None = None) -> Axes:
    """Draw how a score grows with the number of steps ahead, one line a model.

    Parameters
    ----------
    backtest : Backtest
        Its ``scores(by=["model", "step"])`` is drawn.
    score : str, default="CRPS"
        Column of the scores: ``"MAE"``, ``"NLPD"``, ``"coverage_95"`` (against a line at 0.95).
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If there is no such score.
    """
    from matplotlib.ticker import MaxNLocator

    ax = _score_lines(backtest, score, "step", ax)
    ax.set_xlabel("steps ahead")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return _finish(ax)


def scores_by_origin(backtest: _Scored, score: str = "CRPS", *, ax: Axes | None = None) -> Axes:
    """Draw a score of each origin's forecast against its time, one line a model.

    Parameters
    ----------
    backtest : Backtest
        Its ``scores(by=["model", "origin"])`` is drawn; a gap where all values are missing.
    score : str, default="CRPS"
        Column of the scores, ``"energy"`` too.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If there is no such score.
    """
    ax = _score_lines(backtest, score, "origin", ax)
    ax.set_xlabel("origin (last observed time)")
    return _finish(ax, pd.Index(backtest.frame["origin"].unique()))


def calibration(backtest: _Scored, *, ax: Axes | None = None) -> Axes:
    """Draw how often central intervals held the value against how often they claim to.

    On the diagonal the bands are right, below it they are too narrow, above it too wide. The steps
    are pooled; values that were not observed are left out. At each nominal coverage a calibrated
    model stays in the gray area with a probability of 95 %: in the dark one ("by value") if all
    values are independent, in the light one ("by horizon") if there is one value a horizon that
    overlaps no other, as the steps of one path err together. The truth lies between.

    Parameters
    ----------
    backtest : Backtest
        The columns ``model``, ``origin``, ``time`` and ``pit`` of its ``frame`` are drawn.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    ax = _axes(ax)
    nominal = np.linspace(0.0, 1.0, 101)
    ax.plot([0, 1], [0, 1], color="0.4", lw=1, label="calibrated")
    for label, n, shade in _sizes(backtest):
        lower, upper = _chance(n, nominal)
        ax.fill_between(nominal, lower, upper, color=shade, lw=0, label=label)
    for look, (model, values) in zip(_looks(), _pits(backtest), strict=False):
        # A value lies in the central interval of coverage p if and only if |2 pit - 1| <= p.
        observed = (np.abs(2 * values - 1)[:, None] <= nominal).mean(axis=0)
        ax.plot(nominal, observed, color=look.color, linestyle=look.dashes, label=_plain(model))
    ax.set(
        xlabel="nominal coverage",
        ylabel="observed coverage",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    return _finish(ax)


def pit(backtest: _Scored, *, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transforms, one outline a model.

    Flat is calibrated; heaped at both ends the bands are too narrow, in the middle too wide; a
    slope is a bias. The steps are pooled; values that were not observed are left out. The gray
    areas hold 95 % of the bars of a calibrated model, as in :func:`calibration`.

    Parameters
    ----------
    backtest : Backtest
        The columns ``model``, ``origin``, ``time`` and ``pit`` of its ``frame`` are drawn.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    ax = _axes(ax)
    ax.plot([0, 1], [1, 1], color="0.4", lw=1, label="calibrated")
    for label, n, shade in _sizes(backtest):
        lower, upper = _chance(n, np.full(2, 1 / _BINS))
        ax.fill_between([0, 1], _BINS * lower, _BINS * upper, color=shade, lw=0, label=label)
    for look, (model, values) in zip(_looks(), _pits(backtest), strict=False):
        density, edges = np.histogram(values, bins=_BINS, range=(0.0, 1.0), density=True)
        ax.stairs(
            density,
            edges,
            baseline=None,
            color=look.color,
            linestyle=look.dashes,
            lw=1.5,
            label=_plain(model),
        )
    ax.set(xlabel="probability integral transform", ylabel="density")
    ax.set_ylim(bottom=0)
    return _finish(ax)


def _score_lines(backtest: _Scored, score: str, by: str, ax: Axes | None) -> Axes:
    """Draw a score against a column of the frame, one line a model."""
    table = backtest.scores(by=["model", by])
    if score not in table.columns:
        raise ValueError(
            f"score must be one of {', '.join(map(str, table.columns))}; got {score!r}. "
            "Scores carry the names of backtest.scores()."
        )
    ax = _axes(ax)
    for look, (model, values) in zip(
        _looks(), table[score].groupby(level="model", sort=False), strict=False
    ):
        places = values.index.get_level_values(by)
        ax.plot(
            _times(ax, places),
            values.to_numpy(),
            color=look.color,
            linestyle=look.dashes,
            marker=look.marker,
            markersize=4,
            label=_plain(model),
        )
    if score.startswith("coverage_"):
        nominal = float(score.removeprefix("coverage_")) / 100
        ax.axhline(nominal, color="0.4", lw=1, label=f"nominal {nominal:g}")
    unit = backtest.frame.attrs.get("unit") if score in _IN_UNITS_OF_Y else None
    ax.set_ylabel(_with_unit(score, unit))
    return ax


def _sizes(backtest: _Scored) -> Iterator[tuple[str, int, str]]:
    """Label, number and gray of the values that count: one a horizon by itself, and all."""
    frame = backtest.frame
    horizons = frame[frame["model"] == frame["model"].iloc[0]].groupby("origin")
    counts, ends = horizons["pit"].count(), horizons["time"].max()
    apart, free = 0, None
    for origin, end in ends[counts > 0].items():
        if free is None or origin >= free:
            apart, free = apart + 1, end
    if apart < counts.sum():
        yield "chance by horizon", apart, "0.93"
    if apart:
        yield "chance by value", int(counts.sum()), "0.85"


def _chance(n: int, probability: Array) -> tuple[Array, Array]:
    """Central 95 % range of a share among n independent values."""
    lower, upper = (np.asarray(binom.ppf(q, n, probability)) / n for q in (0.025, 0.975))
    return lower, upper


def _axes(ax: Axes | None) -> Axes:
    import matplotlib.pyplot as plt  # kept out of `import forecast_unc`

    return plt.gca() if ax is None else ax


def _start(ax: Axes | None, history: pd.Series[float] | None, forecast: Forecast) -> Axes:
    """Draw the history and label the values."""
    if history is not None:
        _check_times("history", check_is_series(history, "history").index, forecast.index)
    ax = _axes(ax)
    name, unit = forecast.name, None
    if history is not None:
        times, values = _times(ax, history.index), history.to_numpy(np.float64, na_value=np.nan)
        ax.plot(times, values, color="0.3", lw=1.2, label="history")
        gone = np.pad(np.isnan(values), 1, constant_values=True)
        alone = ~gone[1:-1] & gone[:-2] & gone[2:]  # no line leads to them
        if alone.any():
            ax.plot(times[alone], values[alone], ".", color="0.3", ms=4)
        name, unit = history.name if name is None else name, history.attrs.get("unit")
    if not ax.get_ylabel():
        ax.set_ylabel(_with_unit(name, unit))
    return ax


def _check_forecast(name: str, forecast: object) -> None:
    if not isinstance(forecast, Forecast):
        raise TypeError(
            f"{name} must be a Forecast; got {type(forecast).__name__}. "
            "Pass what Forecaster.forecast returns."
        )


def _check_times(name: str, index: pd.Index[Any], expected: pd.Index[Any]) -> None:
    """Raise if matplotlib would put the times of two indexes at unrelated places."""
    if _kind(index) != _kind(expected):
        raise ValueError(
            f"{name} must have the forecast's kind of index, {_kind(expected)}; got "
            f"{_kind(index)}. Pass the series that was forecast, or convert its index."
        )


def _kind(index: pd.Index[Any]) -> str:
    if isinstance(index, pd.DatetimeIndex):
        return f"DatetimeIndex {'without' if index.tz is None else 'with'} time zone"
    if isinstance(index, pd.PeriodIndex):
        return "PeriodIndex"
    return "numbers" if pd.api.types.is_numeric_dtype(index.dtype) else str(index.dtype)


def _fill(ax: Axes, times: Any, band: pd.DataFrame, width: float, **style: Any) -> Any:
    """Fill between the ends of a band; a band of one step has no area, so draw it as a bar."""
    if len(band) > 1:
        return ax.fill_between(times, band["lower"], band["upper"], **style)
    color, alpha = style.get("edgecolor", style["facecolor"]), style.get("alpha", 0.35)
    return ax.vlines(times, band["lower"], band["upper"], colors=color, alpha=alpha, lw=width)


def _times(ax: Axes, index: pd.Index[Any]) -> Any:
    times = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    # An axis that pandas drew on has its own converter of dates, and matplotlib would replace it.
    return ax.convert_xunits(times) if ax.xaxis.have_units() else times  # type: ignore[no-untyped-call]


def _looks() -> Iterator[_Look]:
    """Looks for one model after the other; color and dashes repeat together after 30 only."""
    for i in count():
        yield _Look(
            COLORS[i % len(COLORS)],
            _DASHES[i % len(_DASHES)],
            _MARKERS[i % len(_MARKERS)],
        )


def _pits(backtest: _Scored) -> Iterator[tuple[str, Any]]:
    for model, values in backtest.frame.groupby("model", sort=False)["pit"]:
        yield str(model), values.dropna().to_numpy()


def _with_unit(name: Any, unit: Any) -> str:
    if name is None or unit is None:
        return "" if name is unit else _plain(unit if name is None else name)
    return _plain(f"{name} ({unit})")


def _plain(text: object) -> str:
    """Text that matplotlib draws as it stands: between dollars it would set mathematics."""
    return str(text).replace("$", r"\$")


def _finish(ax: Axes, index: pd.Index[Any] | None = None, **legend: Any) -> Axes:
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
        ax.set_xlabel(_plain(index.name or "time"))
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
    if ax.figure.get_layout_engine() is None:
        # Nothing else makes room for a legend of many rows: lower the top of the subplots.
        over = (drawn.get_window_extent().y1 - ax.figure.bbox.y1) / ax.figure.bbox.height
        if over > 0:
            place = ax.figure.subplotpars
            ax.figure.subplots_adjust(top=max(place.top - over, place.bottom + 0.1))
        _part_rows(ax, drawn.get_window_extent().height)
    return ax


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
