"""Pictures of forecasts: several beside each other, and what is inside one.

Several models on one picture are told apart by color, line style, marker and hatching at once, so
that it also reads in gray. The legend stands above the axes, where it covers no data, and a title
(``ax.set_title``) above the legend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from forecast_unc._checks import refusal
from forecast_unc.distributions.forecast import Forecast, Share
from forecast_unc.distributions.picture import (
    axis_numbers,
    check_actual,
    check_forecast,
    check_history,
    check_times,
    continued,
    current_axes,
    draw_actual,
    draw_history,
    fill_band,
    finish,
    places,
    plain,
)
from forecast_unc.distributions.tables import Bands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of Okabe and Ito, which color-blind readers can tell apart: blue, vermilion, green, purple,
# orange, sky blue.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = "os^Dvp<"
_HATCHES = ("", "////", "\\\\\\\\", "....", "||||", "----", "xxxx")
# One hue a kind of part, so that a kind reads as one, and lightness and hatching for gray.
_PARTS = {
    "noise": ("0.82", ""),
    "noise_observation": ("0.93", ""),
    "function_own": ("#0072B2", "///"),
    "function_shared": ("#8CC4E6", "///"),
    "inputs_propagated": ("#E69F00", ""),
    "inputs_missing": ("#B34700", ""),
    "inputs_regressors": ("#F7DFAE", ""),
    "inputs_nonlinear": ("#6B3A00", ""),
    "hyperparameters": ("#56B4E9", ".."),
    "members": ("#CC79A7", "xxxx"),
    "calibration": ("#009E73", "\\\\\\\\"),
}
_BAR = 40  # width of a single step
_NO_PART = 1e-9  # a part below this share of the variance everywhere is roundoff
_WIDEST = 12.0  # of the line of a member that alone counts, in points
_NEGATIVE = 0.02  # correlations nearer to 0 are not shown as negative


class Style(NamedTuple):
    """Color, line style, marker and, of a band, hatching of one model."""

    color: str
    dashes: Any
    marker: str
    hatch: str


def styles() -> Iterator[Style]:
    """Styles of one model after the other; color and dashes repeat together after 30 only."""
    for i in count():
        yield Style(
            COLORS[i % len(COLORS)],
            _DASHES[i % len(_DASHES)],
            _MARKERS[i % len(_MARKERS)],
            _HATCHES[i % len(_HATCHES)],
        )


def compare(
    forecasts: Mapping[str, Bands],
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
    history, actual, ax
        As in `fan`.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it must be, not all have the same kind of times, or
        ``actual`` has none of the forecasts'.
    """
    from matplotlib.patheffects import withStroke  # kept out of `import forecast_unc`

    first = _check_compared(forecasts)
    history, actual = check_history(history, first), check_actual(actual, *forecasts.values())
    bands = [forecast.interval(coverage) for forecast in forecasts.values()]
    ax = draw_history(ax, history, first)
    handles: list[Any] = [*ax.get_legend_handles_labels()[0]]
    labels = [*ax.get_legend_handles_labels()[1]]
    widest = 4 * len(forecasts) + 4
    halo = [withStroke(linewidth=3.5, foreground="white")]
    for i, (style, band, (name, forecast)) in enumerate(
        zip(styles(), bands, forecasts.items(), strict=False)
    ):
        times, whole = continued(ax, history, forecast, band.assign(mean=forecast.mean))
        line: dict[str, Any] = {"color": style.color, "linestyle": style.dashes}
        (mean,) = ax.plot(
            times,
            whole["mean"],
            **line,
            lw=2,
            marker=style.marker if len(forecast) == 1 else None,
            zorder=3,
            label=plain(name),
            path_effects=halo,
        )
        # Filled, then hatched: where bands overlap both are seen, in gray too.
        patch = fill_band(
            ax,
            times,
            whole,
            widest - 4 * i,
            facecolor="none" if style.hatch else (style.color, 0.3),
            edgecolor=(style.color, 0.5),
            hatch=style.hatch,
            lw=0,
        )
        if len(forecast) > 1:
            ax.plot(times, whole[["lower", "upper"]], label="_", **line, lw=0.8)
        handles.append((patch, mean))
        labels.append(mean.get_label())
    handles += (points := draw_actual(ax, actual))
    labels += ["actual"] * len(points)
    title = f"mean and {100 * coverage:g} % interval"
    return finish(ax, first.index, handles=handles, labels=labels, title=title)


def _check_compared(forecasts: Mapping[str, Bands]) -> Bands:
    """Return the first of the forecasts, or raise unless all share one kind of times."""
    remedy = "Pass {name: forecast}, one or more."
    if not isinstance(forecasts, Mapping):
        must, got = "be a mapping of names to forecasts", type(forecasts).__name__
        raise refusal("forecasts", must, got, remedy, TypeError)
    if not forecasts:
        raise refusal("forecasts", "hold a forecast", "none", remedy)
    first = next(iter(forecasts.values()))
    for name, forecast in forecasts.items():
        check_forecast(f"forecasts[{name!r}]", forecast)
        check_times(f"forecasts[{name!r}]", forecast.index, first.index)
    return first


def decomposition(forecast: Forecast, *, ax: Axes | None = None) -> Axes:
    """Draw where the variance of each step comes from, as stacked bands.

    What widens the forecast is stacked from zero up, what narrows it from zero down, and the line
    is their sum, the variance. Parts that are zero at all steps are left out.

    Parameters
    ----------
    forecast : Forecast
        Its :meth:`Forecast.decompose` is drawn; of a single step, the parts are bars.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    TypeError, ValueError
        If it is no Forecast, or one that does not know its parts.
    """
    _check_forecast(forecast)
    parts, total = forecast.decompose(), forecast.var
    kept = (parts.abs() > _NO_PART * total.to_numpy()[:, None]).any()
    ax = current_axes(ax)
    times = places(ax, forecast.index)
    top, bottom = np.zeros(len(total)), np.zeros(len(total))
    for name in parts.columns[kept]:
        values = parts[name].to_numpy()
        label = name.replace("_", ": ")
        color, hatch = _PARTS[name]
        style: dict[str, Any] = {"facecolor": color, "edgecolor": "white", "hatch": hatch}
        style |= {"alpha": 1.0, "lw": 0.6}
        for base, share in ((top, values.clip(min=0.0)), (bottom, values.clip(max=0.0))):
            if share.any():
                edges = pd.DataFrame({"lower": base, "upper": base + share}, index=forecast.index)
                fill_band(ax, times, edges, _BAR, **style)
                base += share
        ax.fill([], [], label=label, **style)
    marker = "o" if len(forecast) == 1 else None
    ax.plot(times, total, color="black", lw=1.5, marker=marker, label="variance")
    ax.axhline(0.0, color="0.3", lw=0.8)
    if not ax.get_ylabel():
        name = forecast.name
        ax.set_ylabel("variance" if name is None else plain(f"variance of {name}"))
    return finish(ax, forecast.index)


def members(
    forecast: Forecast,
    *,
    coverage: float = 0.95,
    history: pd.Series[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the members of an average beside it, each as strong as it counts.

    The means of the members are drawn in the width of their weights at each step, of which the
    legend has those of the first and of the last one; the ends of their intervals are dotted. The
    average is black, its interval gray.

    Parameters
    ----------
    forecast : Forecast
        Its :attr:`Forecast.members` are drawn.
    coverage, history, ax
        As in `compare`.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    TypeError, ValueError
        If it is no Forecast, or not the average of several.
    """
    _check_forecast(forecast)
    if not forecast.members:
        got, remedy = f"{forecast!r}, of one model", "Draw it with forecast.plot()."
        raise refusal("forecast", "be the average of several", got, remedy)
    band = forecast.interval(coverage)
    history = check_history(history, forecast)
    ax = draw_history(ax, history, forecast)
    times, whole = continued(ax, history, forecast, band.assign(mean=forecast.mean))
    average = f"average, {100 * coverage:g} %"
    fill_band(ax, times, whole, _BAR, facecolor="0.88", lw=0, label=average)
    marker = "_" if len(forecast) == 1 else None
    black: dict[str, Any] = {"color": "black", "lw": 1, "marker": marker, "ms": 30, "zorder": 5}
    ax.plot(times, whole["mean"], **black, label="average")
    for style, share in zip(styles(), forecast.members, strict=False):
        _draw_member(ax, share, style, coverage)
    return finish(ax, forecast.index, title="weight at the first and the last step")


def _draw_member(ax: Axes, share: Share, style: Style, coverage: float) -> None:
    """Draw the mean of a member as wide as its weights, and the ends of its intervals."""
    from matplotlib.collections import LineCollection

    own = share.forecast
    times, mean = axis_numbers(ax, own.index), own.mean.to_numpy()
    ends = dict.fromkeys(f"{100 * share.weight.iloc[at]:.0f}" for at in (0, -1))
    label = plain(f"{' to '.join(ends)} %: {share.model}")
    ax.plot(times, mean, style.marker, color=style.color, ms=4, zorder=4, label=label)
    if len(own) == 1:
        return
    ax.plot(times, own.interval(coverage), color=style.color, lw=0.8, ls=":")
    weight = share.weight.to_numpy()[: len(own)]
    points = np.column_stack([times, mean])
    pieces = list(np.stack([points[:-1], points[1:]], axis=1))
    widths = _WIDEST * 0.5 * (weight[1:] + weight[:-1])
    ax.add_collection(LineCollection(pieces, linewidths=widths, colors=style.color, zorder=3))


def joint(forecast: Forecast, *, ax: Axes | None = None) -> Axes:
    """Draw the correlations between the steps of a forecast.

    Light is 1 and dark 0, or -1 if some are negative: the scale is one of lightness, which reads in
    gray, too. Contours are .25 apart. Independent steps would be dark but for the diagonal, and
    their sums far less uncertain.

    Parameters
    ----------
    forecast : Forecast
        Of two steps or more; the correlations are those of its :attr:`Forecast.cov`.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on, beside which there is a scale.

    Raises
    ------
    TypeError, ValueError
        If it is no Forecast, or one of a single step.
    """
    from matplotlib.ticker import MaxNLocator

    _check_forecast(forecast)
    if len(forecast) == 1:
        remedy = "It is correlated with none."
        raise refusal("forecast", "have two steps or more", "one", remedy)
    std = forecast.std.to_numpy()
    correlations = forecast.cov.to_numpy() / np.outer(std, std)
    lowest = -1.0 if correlations.min() < -_NEGATIVE else 0.0
    steps = np.arange(1, len(forecast) + 1)
    ax = current_axes(ax)
    image = ax.imshow(
        correlations,
        origin="lower",
        extent=2 * (0.5, len(steps) + 0.5),
        vmin=lowest,
        vmax=1.0,
        cmap="cividis",
        interpolation="nearest",
    )
    levels = np.arange(lowest + 0.25, 1.0, 0.25)
    if len(steps) > 2:
        lines = ax.contour(
            steps, steps, correlations, levels=levels, colors="white", linewidths=0.8
        )
        ax.clabel(lines, fontsize="x-small", fmt="%g")
    ax.figure.colorbar(image, ax=ax, label="correlation", ticks=np.arange(lowest, 1.01, 0.25))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set(xlabel="steps ahead", ylabel="steps ahead")
    return ax


def _check_forecast(forecast: object) -> None:
    """Raise unless something is a Forecast, and knows more than its bands."""
    if not isinstance(forecast, Forecast):
        got, remedy = type(forecast).__name__, "Pass what Forecaster.forecast returns."
        raise refusal("forecast", "be a Forecast", got, remedy, TypeError)
