"""What a backtest says, as one page of HTML."""

from __future__ import annotations

from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forecast_unc._checks import check_path
from forecast_unc._version import __version__
from forecast_unc.distributions.axes import finish, places, with_unit
from forecast_unc.evaluation import page, plot_backtest
from forecast_unc.evaluation.folds import percent
from forecast_unc.evaluation.report_forecast import decomposition, forecast
from forecast_unc.evaluation.request import Request
from forecast_unc.series.times import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forecast_unc.evaluation.backtest import Backtest

_LEVEL = 0.05  # of the tests


def write_report(backtest: Backtest, path: str | PathLike[str]) -> None:
    """Write the report of a backtest.

    Parameters
    ----------
    backtest : Backtest
        What it is about.
    path : str or path-like
        The file.
    """
    check_path(path)
    request = backtest.request
    name = None if request is None else request.plan.y.name
    title = "Backtest" if name is None else f"Backtest of {name}"
    sections = {"What was asked": _asked(backtest)}
    ahead = None
    if request is not None:
        model, ahead = request.latest()
        sections["The data"] = _data(backtest, request)
        sections |= forecast(backtest.frame, request, model, ahead)
    sections |= {
        "Scores": _scores(backtest),
        "Scores by step": _by_step(backtest),
        "Calibration": _calibration(backtest),
    }
    if ahead is not None:
        sections["Where the variance comes from"] = decomposition(ahead)
    if backtest.id_col is not None:
        sections["Series"] = _series(backtest, backtest.id_col)
    body = [
        page.heading(title),
        page.paragraph(_verdict(backtest), "lead"),
        page.contents(sections),
        *(page.section(heading, inner) for heading, inner in sections.items()),
        page.paragraph(f"forecast_unc {__version__}"),
    ]
    Path(path).write_bytes(page.page(title, body))


def _verdict(backtest: Backtest) -> str:
    """The result in two sentences: against the best of the others, and of the widest interval."""
    table, widest = backtest.scores(), max(backtest.coverage)
    own, crps = table.index[0], table["CRPS"]
    held = 100 * table.loc[own, f"coverage_{percent(widest)}"]
    text = f"Its {100 * widest:g} % interval held {held:.1f} % of {table.loc[own, 'n']} values."
    others = crps.drop(own).dropna()
    if others.empty:
        return f"The mean CRPS of {own} is {page.number(crps[own])}. {text}"
    best, test = others.idxmin(), _significance(backtest)
    change = 100 * (crps[own] / crps[best] - 1)
    p_value = np.nan if isinstance(test, str) else test.loc[best, "p_value"]
    chance = "not tested" if np.isnan(p_value) else f"p = {p_value:.2g}"
    return (
        f"The mean CRPS of {own} is {page.number(crps[own])}, {abs(change):.1f} % "
        f"{'below' if change < 0 else 'above'} that of {best}, the best of the others ({chance}). "
        f"{text}"
    )


def _asked(backtest: Backtest) -> str:
    frame, request = backtest.frame, backtest.request
    origins = pd.Index(frame["origin"].drop_duplicates().sort_values())
    span = f"{format_time(origins, 0)} to {format_time(origins, -1)}"
    pairs: dict[str, object] = {
        "steps ahead": f"{frame['step'].min()} to {frame['step'].max()}",
        "origins": span if len(origins) == 1 else f"{len(origins)}, {span}",
        "intervals": ", ".join(f"{100 * level:g} %" for level in backtest.coverage),
        "season of MASE": backtest.seasonal_period or "that of each series",
    }
    if backtest.id_col is not None:
        pairs["series"] = frame[backtest.id_col].nunique()
    if request is None:
        return page.terms({"models": ", ".join(map(str, frame["model"].unique())), **pairs})
    every = {1: "at every origin", 0: "at the first origin"}
    pairs |= {
        "fitted": every.get(int(request.refit), f"at one origin in {request.refit}"),
        "window": request.window,
    }
    if request.plan.exog is not None:
        pairs["regressors"] = ", ".join(map(str, request.plan.exog.columns))
    models = {request.own.names[0][0]: repr(request.own.model), **request.compared}
    return page.pictures(page.terms(models), page.terms(pairs))


def _data(backtest: Backtest, request: Request) -> str:
    y = request.plan.y
    values = y.to_numpy(dtype=np.float64, na_value=np.nan)
    unit = backtest.frame.attrs.get("unit")
    span = f"{format_time(y.index, 0)} to {format_time(y.index, -1)}"
    pairs = {
        "values": f"{len(y)}, of which {int(np.isnan(values).sum())} are missing",
        "times": span,
        "frequency": getattr(y.index, "freqstr", f"every {getattr(y.index, 'step', 1)}"),
        "unit": "not given" if unit is None else unit,
        "mean": page.number(float(np.nanmean(values))),
        "least": page.number(float(np.nanmin(values))),
        "largest": page.number(float(np.nanmax(values))),
    }
    origins = pd.Index(backtest.frame["origin"].unique())
    shown = page.picture(
        partial(_draw_series, y.index, values, origins, with_unit(y.name, unit)),
        f"The series from {span}, with the origins of the backtest marked.",
        "The whole series. Marks along the bottom are the origins.",
    )
    return page.pictures(page.terms(pairs), shown)


def _draw_series(
    index: pd.Index[Any], values: Any, origins: pd.Index[Any], label: str, ax: Axes
) -> None:
    ax.plot(places(ax, index), values, color="0.3", lw=1, label="series")
    ax.plot(
        places(ax, origins),
        np.zeros(len(origins)),
        "|",
        color="#D55E00",
        ms=12,
        transform=ax.get_xaxis_transform(),
        label="origins",
    )
    ax.set_ylabel(label)
    finish(ax, index)


def _significance(backtest: Backtest, **options: Any) -> pd.DataFrame | str:
    """Tests of the models against the first one, or why there are none."""
    try:
        return backtest.significance("CRPS", backtest.frame["model"].iloc[0], **options)
    except ValueError as error:
        return str(error)


def _scores(backtest: Backtest) -> str:
    scores = page.table(
        backtest.scores().reset_index(),
        "Scores by model: lower is better; a coverage should be what its name says",
    )
    test = _significance(backtest)
    if isinstance(test, str):
        return scores + page.paragraph(f"No test of the differences: {test}")
    own, clear = backtest.frame["model"].iloc[0], test["p_value"] < _LEVEL
    direction = np.where(test["difference"] < 0, "better", "worse")
    test = test.assign(verdict=np.where(clear, direction, "no clear difference"))
    return scores + page.table(
        test.reset_index(),
        f"CRPS less that of {own}, by the test of Diebold and Mariano. The verdict is on the "
        f"model of the row, where p is below {_LEVEL:g}",
    )


def _by_step(backtest: Backtest) -> str:
    table = backtest.scores(["model", "step"])
    widest = max(backtest.coverage)
    captions = {
        "CRPS": "How far the distribution of a step is from what happened, in units of the series.",
        f"coverage_{percent(widest)}": f"Share of the values in the {100 * widest:g} % interval.",
    }
    shown = page.pictures(
        *(
            page.picture(
                partial(_draw_score, backtest, score),
                f"{score} by step. {_ends(table[score])}",
                text,
            )
            for score, text in captions.items()
        )
    )
    test = _significance(backtest, by="step")
    if isinstance(test, str):
        return shown + page.table(table.reset_index(), "Scores by model and step")
    table = table.join(test[["difference", "p_value"]])
    own = backtest.frame["model"].iloc[0]
    text = f"Scores by model and step; the difference is that of the CRPS to {own}"
    return shown + page.table(table.reset_index(), text)


def _draw_score(backtest: Backtest, score: str, ax: Axes) -> None:
    plot_backtest.scores_by_step(backtest, score, ax=ax)


def _ends(score: pd.Series[float]) -> str:
    """Of each model the score of the first and of the last step, in words."""
    groups = score.groupby(level="model", sort=False)
    return "; ".join(
        f"{model}: {page.number(values.iloc[0])} at first, {page.number(values.iloc[-1])} at last"
        for model, values in groups
    )


def _calibration(backtest: Backtest) -> str:
    table = backtest.scores()
    shares = "; ".join(
        f"{model}: "
        + ", ".join(
            f"{100 * row[f'coverage_{percent(level)}']:.0f} % in that of {100 * level:g} %"
            for level in backtest.coverage
        )
        for model, row in table.iterrows()
    )
    return page.pictures(
        page.picture(
            lambda ax: plot_backtest.calibration(backtest, ax=ax),
            f"Observed against nominal coverage. Values within the intervals: {shares}.",
            "On the diagonal the bands are right, below it they are too narrow, above it too wide. "
            "Calibrated models stay in the gray areas.",
        ),
        page.picture(
            lambda ax: plot_backtest.pit(backtest, ax=ax),
            "Histogram of the probability integral transform of each model.",
            "Flat is calibrated; heaped at both ends the bands are too narrow, in the middle too "
            "wide; a slope is a bias.",
        ),
    )


def _series(backtest: Backtest, id_col: str) -> str:
    scores = backtest.scores([id_col, "model"]).reset_index()
    crps = scores.pivot_table("CRPS", id_col, "model", sort=False, observed=True).reset_index()
    shown = page.table(crps, "CRPS by series and model")
    if len(backtest.failures):
        shown += page.table(backtest.failures, "Series that could not be backtested")
    return shown
