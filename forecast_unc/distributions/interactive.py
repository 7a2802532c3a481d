"""The picture of one forecast in plotly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._checks import check_coverages
from forecast_unc.distributions.export import (
    Steps,
    described,
    first_instants,
    library,
    series_name,
)
from forecast_unc.distributions.picture import bars, with_regions
from forecast_unc.series.values import check_is_series, numeric_values

_SHADE = "rgba(0, 114, 178, 0.2)"


def plotly_figure(
    forecast: Steps,
    history: pd.Series[float] | None = None,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    regions: bool | None = None,
) -> Any:
    """Return the fan chart as a ``Figure`` of plotly, or an ImportError without it.

    The mean is a line, the central intervals of ``coverage`` are bands around it, and ``history``
    is a Series of past values. Periods become their first instants. Bands of a single step are
    strokes. ``regions`` draws :meth:`Forecast.highest_density` instead of intervals, None where a
    step of sample paths has two peaks, as in :func:`plot.fan`.
    """
    graphs = library("plotly.graph_objects", "Figure")
    levels = sorted(check_coverages(coverage), reverse=True)
    shaped = with_regions(forecast, regions)
    times, figure = first_instants(forecast.index), graphs.Figure()
    if history is not None:
        known = check_is_series(history, "history")
        values, past = numeric_values(known, "history"), first_instants(known.index)
        figure.add_scatter(x=past, y=values, name="history", line={"color": "#4d4d4d", "width": 1})
    for level in levels:
        name = f"{100 * level:g} %"
        if shaped is not None:
            traces = _bars(shaped.highest_density(level), forecast, times)
        elif len(times) == 1:  # a band of one step has no area
            traces = _bars(forecast.interval(level), forecast, times)
        else:
            traces = _band(forecast, level, times)
        for trace in traces:
            figure.add_scatter(**trace, legendgroup=name, name=name)
    mean = forecast.mean.array
    figure.add_scatter(x=times, y=mean, name="forecast", line={"color": "#0072B2"})
    named = described(series_name(forecast), forecast.aggregated)
    figure.update_layout(yaxis_title=named)
    return figure


def _band(forecast: Steps, level: float, times: pd.Index[Any]) -> list[dict[str, Any]]:
    """Traces of a central interval: its lower end, and the area up to its upper one."""
    band, hidden = forecast.interval(level), {"x": times, "mode": "lines", "line": {"width": 0}}
    return [
        hidden | {"y": band["lower"].array, "showlegend": False},
        hidden | {"y": band["upper"].array, "fill": "tonexty", "fillcolor": _SHADE},
    ]


def _bars(pieces: pd.DataFrame, forecast: Steps, times: pd.Index[Any]) -> list[dict[str, Any]]:
    """Traces of pieces of steps: their areas, and strokes for those without, if there are some."""
    drawn = bars(pieces, forecast.index, times)
    thin = (drawn["left"] == drawn["right"]) | (drawn["lower"] == drawn["upper"])
    areas, lines = drawn[~thin], drawn[thin]
    traces: list[dict[str, Any]] = []
    if len(areas):
        corners = ["left", "right", "right", "left"], ["lower", "lower", "upper", "upper"]
        traces.append(
            _outlines(areas, *corners)
            | {"mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": _SHADE}
        )
    if len(lines):
        point = (lines["left"] == lines["right"]) & (lines["lower"] == lines["upper"])
        bare = {"line": {"width": 0}}
        size = np.repeat(np.where(point, 8, 0), 3)  # a line without length is not drawn
        traces.append(
            _outlines(lines, ["left", "right"], ["lower", "upper"])
            | {"mode": "lines+markers", "line": {"width": 8, "color": _SHADE}}
            | {"marker": {"size": size, "symbol": "square", "color": _SHADE, "opacity": 1} | bare}
            | {"showlegend": not len(areas)}
        )
    return traces


def _outlines(drawn: pd.DataFrame, x: list[str], y: list[str]) -> dict[str, list[Any]]:
    """Corners of all bars, None between two."""
    return {
        axis: [
            value
            for corners in zip(*(drawn[name] for name in names), strict=True)
            for value in (*corners, None)
        ]
        for axis, names in (("x", x), ("y", y))
    }
