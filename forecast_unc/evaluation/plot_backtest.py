"""Pictures of backtests: scores by step and by origin, calibration and PIT; Axes in, Axes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.distributions.picture import current_axes, finish, places, plain, with_unit
from forecast_unc.evaluation.plot import Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forecast_unc.evaluation.backtest import Backtest

_BINS = 10  # of the histogram of pit
# Of 5 independent values none may lie in a right interval of 50 %, or all: with 2 * 0.5**5 > 5 %
# no share is too far off.
_FEWEST = 6
_IN_UNITS_OF_Y = {"MAE", "RMSE", "CRPS", "energy"}


def scores_by_step(backtest: Backtest, score: str = "CRPS", *, ax: Axes | None = None) -> Axes:
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


def scores_by_origin(backtest: Backtest, score: str = "CRPS", *, ax: Axes | None = None) -> Axes:
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


def calibration(backtest: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw how often central intervals held the value against how often they claim to.

    On the diagonal the bands are right, below it they are too narrow, above it too wide. The steps
    are pooled; values that were not observed are left out. At each nominal coverage a calibrated
    model stays in the gray area with a probability of 95 %: in the dark one ("by value") if all
    values are independent, in the light one ("by horizon") if only horizons that do not overlap
    are, as the errors of one path are correlated. The truth lies between. With fewer than 6 such
    horizons nothing can be judged, and the picture says so.

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
    _draw_chance(ax, backtest, nominal, nominal)
    for style, (model, values) in zip(styles(), _pits(backtest), strict=False):
        # A value lies in the central interval of coverage p if and only if |2 pit - 1| <= p.
        observed = (np.abs(2 * values - 1)[:, None] <= nominal).mean(axis=0)
        ax.plot(nominal, observed, lw=1.8, **_line(style, model))
    limits = (-0.02, 1.02)
    ax.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=limits, ylim=limits)
    ax.set_aspect("equal")
    return finish(ax)


def pit(backtest: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transforms, one outline a model.

    Flat is calibrated; heaped at both ends the bands are too narrow, in the middle too wide; a
    slope is a bias. The steps are pooled; values that were not observed are left out. The gray
    areas hold 95 % of the bars of a calibrated model, and fewer than 6 horizons say nothing, as in
    :func:`calibration`.

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
    _draw_chance(ax, backtest, np.array([0.0, 1.0]), np.full(2, 1 / _BINS), _BINS)
    for style, (model, values) in zip(styles(), _pits(backtest), strict=False):
        density, edges = np.histogram(values, bins=_BINS, range=(0.0, 1.0), density=True)
        ax.stairs(density, edges, baseline=None, lw=1.8, **_line(style, model))
    ax.set(xlabel="probability integral transform", ylabel="density")
    ax.set_ylim(bottom=0)
    return finish(ax)


def _score_lines(backtest: Backtest, score: str, by: str, ax: Axes | None) -> Axes:
    """Draw a score against a column of the frame, one line a model."""
    table = backtest.scores(by=["model", by])
    if score not in table.columns:
        must = f"be one of {', '.join(map(str, table.columns))}"
        remedy = "Scores carry the names of backtest.scores()."
        raise refusal("score", must, f"{score!r}", remedy)
    ax = current_axes(ax)
    for style, (model, values) in zip(
        styles(), table[score].groupby(level="model", sort=False), strict=False
    ):
        at = values.index.get_level_values(by)
        line = {"marker": style.marker, "markersize": 4, **_line(style, model)}
        ax.plot(places(ax, at), values.to_numpy(), **line)
    if score.startswith("coverage_"):
        nominal = float(score.removeprefix("coverage_")) / 100
        ax.axhline(nominal, color="0.4", lw=1, label=f"nominal {nominal:g}")
    unit = backtest.frame.attrs.get("unit") if score in _IN_UNITS_OF_Y else None
    ax.set_ylabel(with_unit(score, unit))
    return ax


def _line(style: Style, model: object) -> dict[str, Any]:
    """How the line of a model is drawn."""
    return {"color": style.color, "linestyle": style.dashes, "label": plain(model)}


def _draw_chance(
    ax: Axes, backtest: Backtest, x: Array, probability: Array, scale: float = 1.0
) -> None:
    """Draw calibrated shares, times `scale`, and the central 95 % of them by chance.

    Among as many values as there are horizons that do not overlap, and among all values; with a
    note where these horizons are too few to judge by.
    """
    ax.plot(x[[0, -1]], scale * probability[[0, -1]], color="0.4", lw=1, label="calibrated")
    frame = backtest.frame
    n = int(frame.loc[frame["model"] == frame["model"].iloc[0], "pit"].count())
    apart = _horizons_apart(backtest)
    for size, shade, by, drawn in (
        (apart, "0.93", "horizon", apart < n),
        (n, "0.85", "value", apart),
    ):
        if drawn:
            low, high = (scale * (binom.ppf(q, size, probability) / size) for q in (0.025, 0.975))
            ax.fill_between(x, low, high, color=shade, lw=0, label=f"95 %, by {by}")
    if apart < _FEWEST:
        ax.text(
            0.5,
            0.5,
            f"Nothing can be judged:\n{apart} horizon{'s' * (apart != 1)} without\n"
            f"overlap, {_FEWEST} needed",
            fontsize="small",
            transform=ax.transAxes,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "0.3", "alpha": 0.9},
            zorder=5,
        )


def _horizons_apart(backtest: Backtest) -> int:
    """Horizons with a value that do not overlap, over all series of a panel."""
    frame, id_col = backtest.frame, backtest.id_col
    one = frame[frame["model"] == frame["model"].iloc[0]]
    apart = 0
    for _, rows in [(None, one)] if id_col is None else one.groupby(id_col, observed=True):
        horizons, free = rows.groupby("origin"), None
        for origin, end in horizons["time"].max()[horizons["pit"].count() > 0].items():
            if free is None or origin >= free:
                apart, free = apart + 1, end
    return apart


def _pits(backtest: Backtest) -> Iterator[tuple[str, Any]]:
    for model, values in backtest.frame.groupby("model", sort=False)["pit"]:
        yield str(model), values.dropna().to_numpy()
