"""Pictures of forecasts and of backtests; Axes in, Axes out.

Several models on one picture are told apart by color, line style, marker and hatching at once, so
that it also reads in gray. The legend stands above the axes, where it covers no data, and a title
(``ax.set_title``) above the legend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from forecast_unc._checks import check_choice, check_mapping, check_whole, refusal
from forecast_unc._text import counted
from forecast_unc._typing import Array, Axes
from forecast_unc.distributions import picture
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.picture import (
    fan,
    fill_band,
    finish,
    given_or_new_axes,
    gray,
    places,
    plain,
)
from forecast_unc.evaluation.conditional import holm, share_interval
from forecast_unc.evaluation.results import Groups, Results

__all__ = [
    "COLORS",
    "calibration",
    "compare",
    "contributions",
    "coverage",
    "decomposition",
    "fan",
    "joint",
    "members",
    "origins",
    "pit",
    "scores_by_origin",
    "scores_by_step",
]

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
# Of 5 independent values none may lie in a right interval of 50 %, or all: with 2 * 0.5**5 > 5 %
# no share is too far off.
FEWEST = 6
_IN_UNITS_OF_Y = {"MAE", "RMSE", "CRPS", "energy"}


def __dir__() -> list[str]:
    return __all__


class _Style(NamedTuple):
    """Color, line style, marker and, of a band, hatching of one model."""

    color: str
    dashes: Any
    marker: str
    hatch: str

    def line(self, name: object) -> dict[str, Any]:
        """Style of the line of a model."""
        return {"color": self.color, "linestyle": self.dashes, "label": plain(name)}


def _styles() -> Iterator[_Style]:
    """Styles of one model after the other; color and dashes repeat together after 30 only."""
    return map(_Style, cycle(COLORS), cycle(_DASHES), cycle(_MARKERS), cycle(_HATCHES))


def compare(
    forecasts: Mapping[str, Forecast],
    *,
    coverage: float = 0.95,
    history: pd.Series[float] | None = None,
    actual: pd.Series[float] | None = None,
    ax: Axes | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw several forecasts of one series on top of each other; return the axes.

    ``forecasts`` has them by the name they get in the legend; ``coverage``, in (0, 1), is that of
    the intervals; `history`, `actual`, `ax` and `legend` are those of `fan`.
    """
    from matplotlib.patheffects import withStroke  # kept out of `import forecast_unc`

    remedy = "Pass {name: forecast}, one or more."
    check_mapping("forecasts", forecasts, "forecasts", remedy)
    if not forecasts:
        raise refusal("forecasts", "hold a forecast", "none", remedy)
    first = next(iter(forecasts.values()))
    for name, forecast in forecasts.items():
        picture.check_forecast(f"forecasts[{name!r}]", forecast)
        picture.check_times(f"forecasts[{name!r}]", forecast.index, first.index)
    history = picture.check_history(history, first)
    actual = picture.check_actual(actual, *forecasts.values())
    bands = [each.interval(coverage).assign(mean=each.mean) for each in forecasts.values()]
    ax = picture.draw_history(ax, history, first)
    handles: list[Any] = [*ax.get_legend_handles_labels()[0]]
    labels = [*ax.get_legend_handles_labels()[1]]
    halo = [withStroke(linewidth=3.5, foreground=gray(ax, 1.0))]
    widths = range(4 * len(forecasts) + 4, 4, -4)
    for style, width, band, (name, forecast) in zip(
        _styles(), widths, bands, forecasts.items(), strict=False
    ):
        times, whole = picture.continued(ax, history, forecast, band)
        line, marker = style.line(name), style.marker if len(forecast) == 1 else None
        mean: dict[str, Any] = {"lw": 2, "marker": marker, "zorder": 3, "path_effects": halo}
        drawn = ax.plot(times, whole["mean"], **line, **mean)
        # Filled, then hatched: where bands overlap both are seen, in gray too.
        face = "none" if style.hatch else (style.color, 0.3)
        edge: dict[str, Any] = {"edgecolor": (style.color, 0.5), "hatch": style.hatch, "lw": 0}
        patch = fill_band(ax, times, whole, width, facecolor=face, **edge)
        if len(forecast) > 1:
            ax.plot(times, whole[["lower", "upper"]], **{**line, "label": "_"}, lw=0.8)
        handles.append((patch, *drawn))
        labels.append(line["label"])
    handles += (points := picture.draw_actual(ax, actual))
    labels += ["actual"] * len(points)
    title = f"mean and {100 * coverage:g} % interval"
    names: dict[str, Any] = {"handles": handles, "labels": labels, "title": title}
    return finish(ax, first.index, shown=legend, **names)


def decomposition(
    forecast: Forecast, *, ax: Axes | None = None, legend: bool | None = None
) -> Axes:
    """Draw where the variance of each step comes from, as stacked bands; return the axes.

    The bands are the parts of ``forecast.decompose()``: positive ones are stacked from zero up,
    negative ones down, and the line is their sum, the variance. ``ax`` and ``legend`` are those
    of `fan`.
    """
    picture.check_forecast("forecast", forecast)
    parts, total = forecast.decompose(), forecast.var
    kept = (parts != 0.0).any()
    ax = given_or_new_axes(ax)
    times = places(ax, forecast.index)
    top, bottom = np.zeros(len(total)), np.zeros(len(total))
    for name, part in parts.loc[:, kept].items():
        values, (color, hatch) = part.to_numpy(), _PARTS[str(name)]
        style: dict[str, Any] = {"facecolor": color, "edgecolor": "white", "hatch": hatch}
        style |= {"alpha": 1.0, "lw": 0.6}
        for base, share in ((top, values.clip(min=0.0)), (bottom, values.clip(max=0.0))):
            if share.any():
                edges = pd.DataFrame({"lower": base, "upper": base + share}, index=forecast.index)
                fill_band(ax, times, edges, _BAR, **style)
                base += share
        ax.fill([], [], label=str(name).replace("_", ": "), **style)
    marker = "o" if len(forecast) == 1 else None
    ax.plot(times, total, color=gray(ax, 0.0), lw=1.5, marker=marker, label="variance")
    ax.axhline(0.0, color=gray(ax, 0.3), lw=0.8)
    if not ax.get_ylabel():
        of = "" if forecast.name is None else f" of {forecast.name}"
        ax.set_ylabel(plain(f"variance{of}"))
    return finish(ax, forecast.index, shown=legend)


def contributions(
    frame: pd.DataFrame, *, ax: Axes | None = None, legend: bool | None = None
) -> Axes:
    """Draw what regressors add to the past and to the forecast; return the axes.

    ``frame`` is that of :meth:`Forecaster.contributions`, or some of its rows. What raises the sum,
    the dark line, is stacked from the first column, the rest, up, and what lowers it down. ``ax``
    and ``legend`` are those of `fan`.
    """
    if not isinstance(frame, pd.DataFrame):
        must, got = "be a DataFrame", type(frame).__name__
        remedy = "Pass what Forecaster.contributions returns."
        raise refusal("frame", must, got, remedy, TypeError)
    ax = given_or_new_axes(ax)
    times, (rest, *added) = places(ax, frame.index), frame.columns
    top, bottom = (frame[rest].to_numpy(np.float64, copy=True) for _ in range(2))
    for style, name in zip(_styles(), added, strict=False):
        values = frame[name].to_numpy(np.float64)
        look: dict[str, Any] = {"facecolor": (style.color, 0.5), "hatch": style.hatch}
        look |= {"edgecolor": "white", "lw": 0}
        for base, share in ((top, values.clip(min=0.0)), (bottom, values.clip(max=0.0))):
            edges = pd.DataFrame({"lower": base, "upper": base + share}, index=frame.index)
            fill_band(ax, times, edges, _BAR, **look)
            base += share
        ax.fill([], [], label=plain(name), **look)
    ax.plot(times, frame[rest], color=gray(ax, 0.5), lw=1.2, label=plain(rest))
    total = frame.sum(axis=1, skipna=False)
    ax.plot(times, total, color=gray(ax, 0.0), lw=1.2, label="sum")
    return finish(ax, frame.index, shown=legend)


def members(
    forecast: Forecast,
    *,
    coverage: float = 0.95,
    history: pd.Series[float] | None = None,
    ax: Axes | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw the members of an average beside it, as strong as they count; return the axes.

    The means of the `forecast`'s members are lines as wide as the weights; the legend has each
    model and its weights at the first and the last step, and the ends of the intervals are dotted.
    The average is as dark as text. `coverage`, `history`, `ax` and `legend` are those of
    `compare`.
    """
    from matplotlib.collections import LineCollection

    picture.check_forecast("forecast", forecast)
    if not forecast.members:
        got, remedy = f"{forecast!r}, of one model", "Draw it with forecast.plot()."
        raise refusal("forecast", "be the average of several", got, remedy)
    band = forecast.interval(coverage).assign(mean=forecast.mean)
    history = picture.check_history(history, forecast)
    ax = picture.draw_history(ax, history, forecast)
    times, whole = picture.continued(ax, history, forecast, band)
    average = f"average, {100 * coverage:g} %"
    fill_band(ax, times, whole, _BAR, facecolor=gray(ax, 0.88), lw=0, label=average)
    marker = "_" if len(forecast) == 1 else None
    style: dict[str, Any] = {"lw": 1, "marker": marker, "ms": 30, "zorder": 5}
    ax.plot(times, whole["mean"], color=gray(ax, 0.0), **style, label="average")
    for one, (model, own, weights, _) in zip(_styles(), forecast.members, strict=False):
        at, mean, color = picture.axis_numbers(ax, own.index), own.mean.to_numpy(), one.color
        ends = dict.fromkeys(f"{100 * weights.iloc[end]:.0f}" for end in (0, -1))
        label = plain(f"{' to '.join(ends)} %: {model}")
        ax.plot(at, mean, one.marker, color=color, ms=4, zorder=4, label=label)
        if len(own) > 1:
            ax.plot(at, own.interval(coverage), color=color, lw=0.8, ls=":")
            weight, points = weights.to_numpy()[: len(own)], np.column_stack([at, mean])
            pieces = list(np.stack([points[:-1], points[1:]], axis=1))
            widths = 6.0 * (weight[1:] + weight[:-1])  # 12 points of a member that alone counts
            ax.add_collection(LineCollection(pieces, linewidths=widths, colors=color, zorder=3))
    title = "weight at the first and the last step"
    return finish(ax, forecast.index, shown=legend, title=title)


def joint(forecast: Forecast, *, ax: Axes | None = None) -> Axes:
    """Draw the correlations between the steps of a forecast; return the axes.

    Light is 1 and dark 0, or -1 if some are negative. Contours are .25 apart. Independent steps
    would be dark but for the diagonal, and their sums far less uncertain. ``forecast`` has two
    steps or more; ``ax`` is that of `fan`.
    """
    picture.check_forecast("forecast", forecast)
    if len(forecast) == 1:
        raise refusal("forecast", "have two steps or more", "one", "It is correlated with none.")
    std = forecast.std.to_numpy()
    correlations = forecast.cov.to_numpy() / np.outer(std, std)
    lowest = -1.0 if correlations.min() < -0.02 else 0.0
    steps = np.arange(1, len(forecast) + 1)
    ax = given_or_new_axes(ax)
    shown: dict[str, Any] = {"vmin": lowest, "vmax": 1.0, "cmap": "cividis", "origin": "lower"}
    shown |= {"interpolation": "nearest", "extent": 2 * (0.5, len(steps) + 0.5)}
    image = ax.imshow(correlations, **shown)
    if len(steps) > 2:
        levels = np.arange(lowest + 0.25, 1.0, 0.25)
        white: dict[str, Any] = {"colors": "white", "linewidths": 0.8}
        lines = ax.contour(steps, steps, correlations, levels=levels, **white)
        ax.clabel(lines, fontsize="x-small", fmt="%g")
    ax.figure.colorbar(image, ax=ax, label="correlation", ticks=np.arange(lowest, 1.01, 0.25))
    for axis in (ax.xaxis, ax.yaxis):
        _count(axis)
    ax.set(xlabel="steps ahead", ylabel="steps ahead")
    return ax


def _count(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def scores_by_step(
    backtest: Results,
    score: str = "CRPS",
    *,
    ax: Axes | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw how a score grows with the steps ahead, one line a model; return the axes.

    ``score`` is a column of ``backtest.scores(by=["model", "step"])`` other than ``"n"``, such as
    ``"MAE"`` or ``"coverage_95"`` (against a line at 0.95). ``ax`` and ``legend`` are those of
    `fan`.
    """
    ax = _score_lines(backtest, score, "step", ax)
    ax.set_xlabel("steps ahead")
    _count(ax.xaxis)
    return finish(ax, shown=legend)


def scores_by_origin(
    backtest: Results,
    score: str = "CRPS",
    *,
    ax: Axes | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw a score of each origin's forecast, one line a model; return the axes.

    `backtest`, `score`, `ax` and `legend` are those of `scores_by_step`; ``"energy"`` is a
    score, too. Where all values of an origin are missing there is a gap.
    """
    ax = _score_lines(backtest, score, "origin", ax)
    ax.set_xlabel("origin (last observed time)")
    return finish(ax, pd.Index(backtest.frame["origin"].unique()), shown=legend)


def origins(
    backtest: Results,
    model: str | None = None,
    *,
    coverage: float | None = None,
    most: int = 12,
    ax: Axes | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw the forecasts of one model from its origins beside what happened; return the axes.

    ``model`` is one of the names in ``backtest.frame``, by default the first. Each origin's mean is
    a line with the interval of ``coverage``, one of the backtest's and by default the widest; of
    more than ``most`` origins so many are drawn, evenly apart; a panel is refused. ``ax`` and
    ``legend`` are those of `fan`.
    """
    _check_backtest(backtest)
    frame, widest = backtest.frame, max(backtest.coverages)
    if backtest.id_col is not None:
        remedy = "Call backtest with one of its series."
        raise refusal("backtest", "be of one series", "a panel", remedy)
    check_choice("model", model, (None, *frame["model"].unique()), "None is the first.")
    level = widest if coverage is None else coverage
    if level not in backtest.coverages:
        must = f"be one of the backtest's, {', '.join(map(str, backtest.coverages))}"
        raise refusal("coverage", must, f"{coverage!r}", "None is the widest.")
    n = check_whole("most", most, 1, "12 can be told apart.")
    chosen = frame["model"].iloc[0] if model is None else model
    rows = frame[frame["model"] == chosen]
    ax = given_or_new_axes(ax)
    seen = rows.drop_duplicates("time").set_index("time")["actual"].sort_index()
    ax.plot(places(ax, seen.index), seen.to_numpy(), color=gray(ax, 0.0), lw=1, label="actual")
    each = [part.set_index("time") for _, part in rows.groupby("origin", sort=True)]
    at = np.unique(np.linspace(0, len(each) - 1, min(n, len(each))).round().astype(int))
    name, ends = plain(chosen), [f"lower_{100 * level:g}", f"upper_{100 * level:g}"]
    for i, part in enumerate(each[k] for k in at):
        color = COLORS[i % 2]  # neighbors overlap
        label = name if i == 0 else "_"
        times = places(ax, part.index)
        band = part[ends].set_axis(["lower", "upper"], axis=1)
        of = f"{100 * level:g} %" if i == 0 else "_"
        fill_band(ax, times, band, 8, facecolor=color, alpha=0.2, lw=0, label=of)
        marker = "o" if len(part) == 1 else None
        ax.plot(times, part["mean"].to_numpy(), color=color, marker=marker, ms=4, label=label)
    return finish(ax, seen.index, shown=legend)


def calibration(backtest: Results, ax: Axes | None = None, *, legend: bool | None = None) -> Axes:
    """Draw how often intervals held the value and how often they should; return the axes.

    On the diagonal the bands are right, below it they are too narrow, above it too wide; all steps
    are pooled. Calibrated models stay in the gray area with a probability of 95 %: in the dark one
    ("values") if all values are independent, in the light one ("horizons") if only horizons that do
    not overlap are, as the errors of one path are correlated. The truth lies between. With fewer
    than 6 such horizons nothing can be judged, and the picture says so. Of the `backtest` the
    columns ``model``, ``origin``, ``time`` and ``pit`` of its ``frame`` are drawn; ``ax`` and
    ``legend`` are those of `fan`.
    """
    _check_backtest(backtest)
    ax = given_or_new_axes(ax)
    nominal = np.linspace(0.0, 1.0, 101)
    _draw_chance(ax, backtest, nominal, nominal)
    for style, (model, values) in zip(_styles(), _pits(backtest), strict=False):
        # A value lies in the central interval of coverage p if and only if |2 pit - 1| <= p; of
        # counts nearly so, as quantiles jump.
        observed = (np.abs(2 * values - 1)[:, None] <= nominal).mean(axis=0)
        ax.plot(nominal, observed, lw=1.8, **style.line(model))
    limits = (-0.02, 1.02)
    ax.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=limits, ylim=limits)
    ax.set_aspect("equal")
    return finish(ax, shown=legend)


def coverage(
    backtest: Results,
    by: Groups = None,
    model: str | None = None,
    *,
    ax: Axes | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw the share of values that the intervals held in each group; return the axes.

    ``by`` is that of ``backtest.coverage``, and ``model`` one of the names in ``backtest.frame``,
    by default the first. Bars are 95 % intervals of the shares, lines the nominal coverages. Full
    marks are off by more than chance at 5 %, with the number of groups corrected for (Holm).
    ``ax`` and ``legend`` are those of `fan`.
    """
    _check_backtest(backtest)
    names = backtest.frame["model"].unique()
    check_choice("model", model, (None, *names), "None is the first.")
    table = backtest.coverage(by)
    kinds = [str(name) for name in table.index.names[1:-1]]
    table = table.reset_index()
    table = table[table["model"] == (names[0] if model is None else model)]
    parts = [table[kind].map(plain) for kind in kinds or ["model"]]
    labels = reduce(lambda before, part: before + ", " + part, parts)
    table["place"], groups = pd.factorize(labels)
    levels = table.groupby("coverage")
    ax, side = given_or_new_axes(ax), 0.6 / len(levels)  # from one level to that beside it
    size = 5 if len(groups) <= 48 else 3
    for i, (style, (level, rows)) in enumerate(zip(_styles(), levels, strict=False)):
        at = rows["place"].to_numpy() + (i - (len(levels) - 1) / 2) * side
        held, off = rows["held"].to_numpy(), holm(rows["p_value"]) < 0.05
        color, nominal = style.color, float(level)  # type: ignore[arg-type]
        ax.axhline(nominal, color=color, ls=style.dashes, lw=1, alpha=0.7)
        low, high = share_interval(held, rows["n_effective"])
        ax.vlines(at, low, high, color=color, lw=size / 4, alpha=0.7)
        mark: dict[str, Any] = {"marker": style.marker, "ls": "", "ms": size, "color": color}
        mark["clip_on"] = False  # 1 is near the edge
        ax.plot(at, held, **mark, mfc=gray(ax, 1.0), label=f"{100 * nominal:g} %")
        ax.plot(at[off], held[off], **mark)
    dark: dict[str, Any] = {"marker": "o", "ls": "", "ms": 5, "color": gray(ax, 0.4)}
    ax.plot([], [], **dark, label="off by more than chance")
    every = next((n for n in (1, 2, 3, 4, 6, 12, 24) if len(groups) <= 12 * n), len(groups) // 12)
    ax.set_xticks(range(0, len(groups), every), groups[::every])
    room = ax.get_window_extent().width / ax.figure.dpi / sum(map(len, groups[::every]))
    if room < 0.1:  # inches a letter
        ax.tick_params(axis="x", labelsize="small", labelrotation=0 if room > 0.08 else 30)
    share = "share of values inside"
    xlabel = plain(", ".join(kinds).replace("_", " "))
    ax.set(xlabel=xlabel, ylabel=share, xlim=(-0.6, len(groups) - 0.4), ylim=(None, 1.02))
    return finish(ax, shown=legend)


def pit(backtest: Results, ax: Axes | None = None, *, legend: bool | None = None) -> Axes:
    """Draw histograms of the probability integral transform, one a model; return the axes.

    Flat is calibrated; heaped at both ends the bands are too narrow, in the middle too wide; a
    slope is a bias. The gray areas hold 95 % of the bars of a calibrated model, and fewer than 6
    horizons say nothing. `backtest`, `ax` and `legend` are those of
    :func:`calibration`.
    """
    _check_backtest(backtest)
    ax = given_or_new_axes(ax)
    _draw_chance(ax, backtest, np.array([0.0, 1.0]), np.full(2, 0.1), 10)
    for style, (model, values) in zip(_styles(), _pits(backtest), strict=False):
        density, edges = np.histogram(values, bins=10, range=(0.0, 1.0), density=True)
        ax.stairs(density, edges, baseline=None, lw=1.8, **style.line(model))
    ax.set(xlabel="probability integral transform", ylabel="density")
    ax.set_ylim(bottom=0)
    return finish(ax, shown=legend)


def _check_backtest(backtest: object) -> None:
    if not (hasattr(backtest, "frame") and hasattr(backtest, "scores")):
        got, remedy = type(backtest).__name__, "Pass what backtest returns."
        raise refusal("backtest", "be a Backtest", got, remedy, TypeError)


def _score_lines(backtest: Results, score: str, by: str, ax: Axes | None) -> Axes:
    """Draw a score against a column of the frame, one line a model."""
    _check_backtest(backtest)
    table = backtest.scores(by=["model", by])
    names = [str(name) for name in table if name != "n"]
    check_choice("score", score, names, "Scores carry the names of backtest.scores().")
    ax = given_or_new_axes(ax)
    of_models = table[score].groupby(level="model", sort=False)
    for style, (model, values) in zip(_styles(), of_models, strict=False):
        at = places(ax, values.index.get_level_values(by))
        ax.plot(at, values.to_numpy(), marker=style.marker, markersize=4, **style.line(model))
    if score.startswith("coverage_"):
        nominal = float(score.removeprefix("coverage_")) / 100
        ax.axhline(nominal, color=gray(ax, 0.4), lw=1, label=f"nominal {nominal:g}")
    unit = backtest.frame.attrs.get("unit") if score in _IN_UNITS_OF_Y else None
    ax.set_ylabel(picture.with_unit(score, unit))
    return ax


def _draw_chance(
    ax: Axes, backtest: Results, x: Array, probability: Array, scale: float = 1.0
) -> None:
    """Draw calibrated shares, times `scale`, and 95 % of them by chance; or that it cannot be."""
    ends, dark = [0, -1], gray(ax, 0.4)
    ax.plot(x[ends], scale * probability[ends], color=dark, lw=1, label="calibrated")
    one = backtest.frame[backtest.frame["model"] == backtest.frame["model"].iloc[0]]
    n, apart = int(one["pit"].count()), horizons_apart(one, backtest.id_col)
    areas = [(apart, 0.93, "horizons")] if apart < n else []
    for size, level, of in areas + ([(n, 0.85, "values")] if apart else []):
        low, high = (scale * (binom.ppf(q, size, probability) / size) for q in (0.025, 0.975))
        style: dict[str, Any] = {"color": gray(ax, level), "lw": 0}
        ax.fill_between(x, low, high, **style, label=f"95 % range, {size} {of}")
    if apart < FEWEST:
        horizons = f"{counted(apart, 'horizon')} without\noverlap, {FEWEST} needed"
        note: dict[str, Any] = {"fontsize": "small", "ha": "center", "va": "center", "zorder": 5}
        box = {"facecolor": gray(ax, 1.0), "edgecolor": gray(ax, 0.3), "alpha": 0.9}
        text = f"Nothing can be judged:\n{horizons}"
        ax.text(0.5, 0.5, text, transform=ax.transAxes, bbox=box, **note)


def horizons_apart(frame: pd.DataFrame, id_col: str | None) -> int:
    """Horizons of one model's `frame` that do not overlap, in each series that `id_col` names."""
    apart = 0
    for _, rows in [(None, frame)] if id_col is None else frame.groupby(id_col, observed=True):
        scored = rows.groupby("origin")["pit"].transform("count") > 0
        apart += horizons(rows[scored]).nunique()
    return apart


def horizons(frame: pd.DataFrame) -> pd.Series[int]:
    """The number of each row's horizon in a `frame`, with later ones that overlap as one."""
    number, free, numbers = -1, None, {}
    for origin, end in frame.groupby("origin")["time"].max().items():
        if free is None or origin >= free:
            number, free = number + 1, end
        numbers[origin] = number
    return frame["origin"].map(numbers)


def _pits(backtest: Results) -> Iterator[tuple[str, Any]]:
    for model, values in backtest.frame.groupby("model", sort=False)["pit"]:
        yield str(model), values.dropna().to_numpy()
