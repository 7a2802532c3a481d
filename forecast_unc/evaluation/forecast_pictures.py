"""Pictures of what is inside one forecast: its members, and the correlations of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from forecast_unc.distributions.axes import axis_numbers, current_axes, finish, plain
from forecast_unc.distributions.fan import check_history, continued, draw_history, fill_band
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.pooled import Share
from forecast_unc.evaluation.looks import Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 40  # width of a single step
_WIDEST = 12.0  # of the line of a member that alone counts, in points
_NEGATIVE = 0.02  # correlations nearer to 0 are not shown as negative


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
    coverage : float, default=0.95
        Coverage of the intervals, in (0, 1).
    history : Series, optional
        Past values, drawn before the forecast; its ``attrs["unit"]`` goes to the axis label.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    TypeError, ValueError
        If it is no Forecast, or not the average of several.
    """
    check_is_forecast(forecast)
    if not forecast.members:
        raise ValueError(
            f"forecast must be the average of several; got {forecast!r}, of one model. Draw it "
            "with forecast.plot()."
        )
    band = forecast.interval(coverage)
    history = check_history(history, forecast)
    ax = draw_history(ax, history, forecast)
    times, whole = continued(ax, history, forecast, band.assign(mean=forecast.mean))
    percent = f"average, {100 * coverage:g} %"
    fill_band(ax, times, whole, _BAR, facecolor="0.88", lw=0, label=percent)
    single = "_" if len(forecast) == 1 else None
    ax.plot(
        times, whole["mean"], color="black", lw=1, marker=single, ms=30, zorder=5, label="average"
    )
    for look, share in zip(looks(), forecast.members, strict=False):
        _draw_member(ax, share, look, coverage)
    return finish(ax, forecast.index, title="weight at the first and the last step")


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

    check_is_forecast(forecast)
    if len(forecast) == 1:
        raise ValueError(
            "forecast must have two steps or more; got one. It is correlated with none."
        )
    std = forecast.std.to_numpy()
    correlations = forecast.cov.to_numpy() / np.outer(std, std)
    lowest = -1.0 if correlations.min() < -_NEGATIVE else 0.0
    steps = np.arange(1, len(forecast) + 1)
    ax = current_axes(ax)
    image = ax.imshow(
        correlations,
        origin="lower",
        extent=(0.5, len(steps) + 0.5, 0.5, len(steps) + 0.5),
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


def _draw_member(ax: Axes, share: Share[Forecast], look: Look, coverage: float) -> None:
    """Draw the mean of a member as wide as its weights, and the ends of its intervals."""
    from matplotlib.collections import LineCollection

    own = share.forecast
    times, mean = axis_numbers(ax, own.index), own.mean.to_numpy()
    ends = dict.fromkeys(f"{100 * share.weight.iloc[at]:.0f}" for at in (0, -1))
    label = plain(f"{' to '.join(ends)} %: {share.model}")
    ax.plot(times, mean, look.marker, color=look.color, ms=4, zorder=4, label=label)
    if len(own) == 1:
        return
    ax.plot(times, own.interval(coverage), color=look.color, lw=0.8, ls=":")
    weight = share.weight.to_numpy()[: len(own)]
    points = np.column_stack([times, mean])
    pieces = list(np.stack([points[:-1], points[1:]], axis=1))
    widths = _WIDEST * 0.5 * (weight[1:] + weight[:-1])
    ax.add_collection(LineCollection(pieces, linewidths=widths, colors=look.color, zorder=3))


def check_is_forecast(forecast: object) -> None:
    """Raise unless something is a Forecast, and knows more than its bands."""
    if not isinstance(forecast, Forecast):
        raise TypeError(
            f"forecast must be a Forecast; got {type(forecast).__name__}. "
            "Pass what Forecaster.forecast returns."
        )
