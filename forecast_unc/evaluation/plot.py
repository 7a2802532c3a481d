"""Pictures of forecasts: several beside each other, and where the variance comes from.

Several models on one picture are told apart by color, line style, marker and hatching at once, so
that it also reads in gray. The colors are those of Okabe and Ito, which color-blind readers can
tell apart: blue, vermilion, green, purple, orange, sky blue. The legend stands above the axes,
where it covers no data, and a title (``ax.set_title``) above the legend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forecast_unc.distributions.axes import (
    check_times,
    current_axes,
    finish,
    places,
    plain,
)
from forecast_unc.distributions.bands import Bands
from forecast_unc.distributions.fan import (
    check_actual,
    check_forecast,
    check_history,
    continued,
    draw_actual,
    draw_history,
    fill_band,
)
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation.forecast_pictures import check_is_forecast
from forecast_unc.evaluation.looks import looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    history : Series, optional
        Past values, drawn before the forecasts; its ``attrs["unit"]`` goes to the axis label. If it
        goes on to the forecasts at the same frequency, lines and bands begin at its last value.
    actual : Series, optional
        What happened, drawn as points at the forecasts' times; others are left out.
    ax : Axes, optional
        Where to draw; by default the current axes.

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
    for i, (look, band, (name, forecast)) in enumerate(
        zip(looks(), bands, forecasts.items(), strict=False)
    ):
        times, whole = continued(ax, history, forecast, band.assign(mean=forecast.mean))
        (line,) = ax.plot(
            times,
            whole["mean"],
            color=look.color,
            linestyle=look.dashes,
            lw=2,
            marker=look.marker if len(forecast) == 1 else None,
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
            facecolor="none" if look.hatch else (look.color, 0.3),
            edgecolor=(look.color, 0.5),
            hatch=look.hatch,
            lw=0,
        )
        if len(forecast) > 1:
            ends = {"color": look.color, "linestyle": look.dashes, "lw": 0.8}
            ax.plot(times, whole[["lower", "upper"]], label="_", **ends)
        handles.append((patch, line))
        labels.append(plain(name))
    handles += (points := draw_actual(ax, actual))
    labels += ["actual"] * len(points)
    title = f"mean and {100 * coverage:g} % interval"
    return finish(ax, first.index, handles=handles, labels=labels, title=title)


def _check_compared(forecasts: Mapping[str, Bands]) -> Bands:
    """Return the first of the forecasts, or raise unless all share one kind of times."""
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
    check_is_forecast(forecast)
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
