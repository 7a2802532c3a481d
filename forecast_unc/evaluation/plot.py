"""Pictures of forecasts and of backtests: Axes in, Axes out.

Several models on one picture are told apart by color, line style and marker at once, so that it
also reads in gray. The colors are those of Okabe and Ito, which color-blind readers can tell apart:
blue, vermilion, green, purple, orange, sky blue. The legend stands above the axes, where it covers
no data; a title goes above it with ``ax.set_title("...", pad=30)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from scipy.stats import binom

from forecast_unc._typing import Array
from forecast_unc.distributions.axes import (
    check_times,
    current_axes,
    finish,
    places,
    plain,
    with_unit,
)
from forecast_unc.distributions.fan import (
    check_actual,
    check_forecast,
    continued,
    draw_actual,
    draw_history,
    fan,
    fill_band,
)
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation.forecast_pictures import check_is_forecast, joint, members
from forecast_unc.evaluation.looks import COLORS, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLORS",
    "calibration",
    "compare",
    "decomposition",
    "fan",
    "joint",
    "members",
    "pit",
    "scores_by_origin",
    "scores_by_step",
]

# One hue a kind of part, so that a kind reads as one.
_PART_COLORS = {
    "noise": "0.75",
    "noise_observation": "0.88",
    "function_own": "#0072B2",
    "function_shared": "#8CC4E6",
    "inputs_propagated": "#E69F00",
    "inputs_missing": "#D55E00",
    "inputs_regressors": "#F3D08A",
    "inputs_nonlinear": "#8A4B00",
    "hyperparameters": "#56B4E9",
    "members": "#CC79A7",
    "calibration": "#009E73",
}
_BAR = 40  # width of a single step
_NO_PART = 1e-9  # a part below this share of the variance everywhere is roundoff
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
        Past values, drawn before the forecasts; its ``attrs["unit"]`` goes to the axis label. If it
        goes on to the forecasts, lines and bands begin at its last value.
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
    first = _check_compared(forecasts, actual)
    bands = [forecast.interval(coverage) for forecast in forecasts.values()]
    ax = draw_history(ax, history, first)
    handles: list[Any] = [*ax.get_legend_handles_labels()[0]]
    labels = [*ax.get_legend_handles_labels()[1]]
    widest = 4 * len(forecasts) + 4
    for i, (look, band, (name, forecast)) in enumerate(
        zip(looks(), bands, forecasts.items(), strict=False)
    ):
        times, whole = continued(ax, history, forecast, band.assign(mean=forecast.mean))
        (line,) = ax.plot(
            times,
            whole["mean"],
            color=look.color,
            linestyle=look.dashes,
            marker=look.marker if len(forecast) == 1 else None,
            zorder=3,
            label=plain(name),
        )
        patch = fill_band(
            ax,
            times,
            whole,
            widest - 4 * i,
            facecolor=(look.color, 0.1),
            edgecolor=look.color,
            linestyle=look.dashes,
            lw=1,
        )
        handles.append((patch, line))
        labels.append(plain(name))
    handles += (points := draw_actual(ax, actual))
    labels += ["actual"] * len(points)
    title = f"mean and {100 * coverage:g} % interval"
    return finish(ax, first.index, handles=handles, labels=labels, title=title)


def _check_compared(forecasts: Mapping[str, Forecast], actual: pd.Series[float] | None) -> Forecast:
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
    check_actual(actual, first)
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
        style: dict[str, Any] = {"facecolor": _PART_COLORS[name], "alpha": 1.0, "lw": 0}
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
    return finish(ax)


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
    return finish(ax, pd.Index(backtest.frame["origin"].unique()))


def calibration(backtest: _Scored, *, ax: Axes | None = None) -> Axes:
    """Draw how often central intervals held the value against how often they claim to.

    On the diagonal the bands are right, below it they are too narrow, above it too wide. The steps
    are pooled; values that were not observed are left out. At each nominal coverage a calibrated
    model stays in the gray area with a probability of 95 %: in the dark one ("by value") if all
    values are independent, in the light one ("by horizon") if only horizons that do not overlap
    are, as the errors of one path are correlated. The truth lies between.

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
    ax = current_axes(ax)
    nominal = np.linspace(0.0, 1.0, 101)
    ax.plot([0, 1], [0, 1], color="0.4", lw=1, label="calibrated")
    for label, n, shade in _sizes(backtest):
        lower, upper = _chance(n, nominal)
        ax.fill_between(nominal, lower, upper, color=shade, lw=0, label=label)
    for look, (model, values) in zip(looks(), _pits(backtest), strict=False):
        # A value lies in the central interval of coverage p if and only if |2 pit - 1| <= p.
        observed = (np.abs(2 * values - 1)[:, None] <= nominal).mean(axis=0)
        ax.plot(nominal, observed, color=look.color, linestyle=look.dashes, label=plain(model))
    ax.set(
        xlabel="nominal coverage",
        ylabel="observed coverage",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    return finish(ax)


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
    ax = current_axes(ax)
    ax.plot([0, 1], [1, 1], color="0.4", lw=1, label="calibrated")
    for label, n, shade in _sizes(backtest):
        lower, upper = _chance(n, np.full(2, 1 / _BINS))
        ax.fill_between([0, 1], _BINS * lower, _BINS * upper, color=shade, lw=0, label=label)
    for look, (model, values) in zip(looks(), _pits(backtest), strict=False):
        density, edges = np.histogram(values, bins=_BINS, range=(0.0, 1.0), density=True)
        ax.stairs(
            density,
            edges,
            baseline=None,
            color=look.color,
            linestyle=look.dashes,
            lw=1.5,
            label=plain(model),
        )
    ax.set(xlabel="probability integral transform", ylabel="density")
    ax.set_ylim(bottom=0)
    return finish(ax)


def _score_lines(backtest: _Scored, score: str, by: str, ax: Axes | None) -> Axes:
    """Draw a score against a column of the frame, one line a model."""
    table = backtest.scores(by=["model", by])
    if score not in table.columns:
        raise ValueError(
            f"score must be one of {', '.join(map(str, table.columns))}; got {score!r}. "
            "Scores carry the names of backtest.scores()."
        )
    ax = current_axes(ax)
    for look, (model, values) in zip(
        looks(), table[score].groupby(level="model", sort=False), strict=False
    ):
        at = values.index.get_level_values(by)
        ax.plot(
            places(ax, at),
            values.to_numpy(),
            color=look.color,
            linestyle=look.dashes,
            marker=look.marker,
            markersize=4,
            label=plain(model),
        )
    if score.startswith("coverage_"):
        nominal = float(score.removeprefix("coverage_")) / 100
        ax.axhline(nominal, color="0.4", lw=1, label=f"nominal {nominal:g}")
    unit = backtest.frame.attrs.get("unit") if score in _IN_UNITS_OF_Y else None
    ax.set_ylabel(with_unit(score, unit))
    return ax


def _sizes(backtest: _Scored) -> Iterator[tuple[str, int, str]]:
    """Label, number and gray: of horizons that do not overlap, and of all values."""
    frame = backtest.frame
    one = frame[frame["model"] == frame["model"].iloc[0]]
    id_col = getattr(backtest, "id_col", None)
    by_series = (
        [one] if id_col is None else [rows for _, rows in one.groupby(id_col, observed=True)]
    )
    apart, n = 0, int(one["pit"].count())
    for rows in by_series:
        horizons, free = rows.groupby("origin"), None
        for origin, end in horizons["time"].max()[horizons["pit"].count() > 0].items():
            if free is None or origin >= free:
                apart, free = apart + 1, end
    if apart < n:
        yield "95 %, by horizon", apart, "0.93"
    if apart:
        yield "95 %, by value", n, "0.85"


def _chance(n: int, probability: Array) -> tuple[Array, Array]:
    """Central 95 % range of a share among n independent values."""
    lower, upper = (np.asarray(binom.ppf(q, n, probability)) / n for q in (0.025, 0.975))
    return lower, upper


def _pits(backtest: _Scored) -> Iterator[tuple[str, Any]]:
    for model, values in backtest.frame.groupby("model", sort=False)["pit"]:
        yield str(model), values.dropna().to_numpy()
