"""Report of a backtest, one page of HTML that needs nothing else: words in report.html."""

from __future__ import annotations

import base64
import hashlib
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import binom

from forecast_unc import plot
from forecast_unc._checks import check_path, refusal
from forecast_unc._files import whole_file
from forecast_unc._notes import kind_of
from forecast_unc._text import counted
from forecast_unc._typing import Axes
from forecast_unc._version import __version__
from forecast_unc.distributions import page
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.page import number
from forecast_unc.distributions.picture import finish, places, with_unit
from forecast_unc.distributions.variance_parts import PARTS
from forecast_unc.evaluation.conditional import holm
from forecast_unc.evaluation.folds import Request, percent
from forecast_unc.evaluation.grouping import parts_of
from forecast_unc.evaluation.results import Results
from forecast_unc.series.times import format_time

_LEVEL = 0.05  # of the tests
_ROUNDOFF = 1e-9  # share of a score
_MOST = 3  # stretches of groups of a kind that are named
# Kinds of groups, and words for one and for several beside each other.
_GROUPS = {
    "hour": ("hour {}", "hours {} to {}"),
    "weekday": ("{}", "{} to {}"),
    "month": ("month {}", "months {} to {}"),
    "level": ("{} third of the forecasts", "{} to {} third of the forecasts"),
    "step": ("step {}", "steps {} to {}"),
}


def check_suffix(name: str, path: Path) -> None:
    """Raise unless the name of a file says that it is a page of HTML."""
    if path.suffix.lower() not in (".html", ".htm"):
        remedy = "A browser can print it as PDF."
        raise refusal(name, "end in .html or .htm", repr(path.name), remedy)


def write_report(backtest: Results, path: str | PathLike[str]) -> None:
    """Write the report of a backtest to a file."""
    check_path(path, "report.html", writes=True)
    check_suffix("path", Path(path))
    request, id_col, panel = backtest.request, backtest.id_col, None
    if id_col is not None:
        scores = backtest.scores([id_col, "model"]).reset_index()
        crps = scores.pivot_table("CRPS", id_col, "model", sort=False, observed=True).reset_index()
        failures = page.table(backtest.failures) if len(backtest.failures) else None
        panel = {"crps": page.table(crps), "failures": failures}
    origins = pd.Index(backtest.frame["origin"].drop_duplicates().sort_values())
    text = page.render(
        "forecast_unc.evaluation",
        "report.html",
        backtest=backtest,
        origins=[format_time(origins, i) for i in range(len(origins))],
        latest=None if request is None else _latest(backtest, request),
        panel=panel,
        level=_LEVEL,
        percent=percent,
        number=number,
        digest=_digest,
        version=__version__,
        **_judged(backtest),
    )
    with whole_file(path) as unfinished:
        unfinished.write_bytes(text.encode())


def _judged(backtest: Results) -> dict[str, Any]:
    """What the page says of the scores: verdict, tables, tests and pictures."""
    table, by_step = backtest.scores(), backtest.scores(["model", "step"])
    off = off_groups(backtest)
    test, untested = _tested(backtest, table)
    by_each, _ = _tested(backtest, table, "step")
    lines = [
        (score, by_step[score], page.picture(partial(plot.scores_by_step, backtest, score)))
        for score in ("CRPS", f"coverage_{percent(max(backtest.coverages))}")
    ]
    if by_each is not None:
        by_step = by_step.join(by_each[["difference", "p_value"]])
    tests = None
    if test is not None:
        clear, better = test["p_value"] < _LEVEL, test["difference"] < 0
        word = np.where(clear, np.where(better, "better", "worse"), "no clear difference")
        tests = page.table(test.assign(verdict=word).reset_index())
    return {
        "verdict": verdict(backtest, off),
        "unit_of_mase": unit_of_mase(backtest),
        "mean_scores": table,
        "scores": page.table(table.reset_index()),
        "tests": tests,
        "untested": untested,
        "lines": lines,
        "calibration": page.picture(partial(plot.calibration, backtest)),
        "pit": page.picture(partial(plot.pit, backtest)),
        "off": [
            (named, page.picture(partial(plot.coverage, backtest, by))) for by, named in off.items()
        ],
        "by_step": page.table(by_step.reset_index()),
        "tested_by_step": by_each is not None,
    }


def _tested(
    backtest: Results, table: pd.DataFrame, by: Literal["model", "step"] = "model"
) -> tuple[pd.DataFrame | None, str]:
    """The test of the CRPS, differences that are roundoff 0; or None and why there is none."""
    own = table.index[0]
    try:
        test = backtest.significance("CRPS", own, by)
    except ValueError as reason:
        return None, str(reason)
    small = test["difference"].abs() < _ROUNDOFF * table.loc[own, "CRPS"]
    return test.assign(difference=test["difference"].mask(small, 0.0)), ""


def verdict(backtest: Results, off: dict[str, str] | None = None) -> str:
    """The CRPS of the first model beside that of the best other, and its coverage, in words."""
    table = backtest.scores()
    test, _ = _tested(backtest, table)
    own, widest, chance = table.index[0], max(backtest.coverages), "not tested"
    said = f"The mean CRPS of {own} is {number(table.loc[own, 'CRPS'])}"
    if table["CRPS"].drop(own).notna().any():
        best = table["CRPS"].drop(own).idxmin()
        change = 100 * (table.loc[own, "CRPS"] / table.loc[best, "CRPS"] - 1)
        side = f"{abs(change):.1f} % {'below' if change < 0 else 'above'}"
        equal = abs(change) < 0.05
        if test is not None and (p := test.loc[best, "p_value"]) >= 0:  # not NaN
            chance = f"p = {p:.2g}"
            if p >= _LEVEL and not equal:
                chance = f"{side}, {chance}"
                side = "not significantly different from"
        side = "equal to" if equal else side
        said += f", {side} that of {best}, the best of the others ({chance})"
    inside = table.loc[own, f"coverage_{percent(widest)}"]
    held = f"held {100 * inside:.1f} % of {table.loc[own, 'n']} values"
    said += f". Its {100 * widest:g} % interval {held}: {_calibrated(backtest, inside, widest)}."
    off = off_groups(backtest) if off is None else off
    return f"{said} Off by more than chance: {', '.join(off.values())}." if off else said


def _calibrated(backtest: Results, inside: float, nominal: float) -> str:
    """The verdict on a share of values inside an interval, by horizons that do not overlap."""
    frame = backtest.frame
    n = plot.horizons_apart(frame[frame["model"] == frame["model"].iloc[0]], backtest.id_col)
    if n < plot.FEWEST:
        return f"too few to judge, with {counted(n, 'horizon')} without overlap"
    low, high = (float(binom.ppf(q, n, nominal)) / n for q in (0.025, 0.975))
    if low <= inside <= high:
        return "as it should, within chance"
    return "it is too narrow" if inside < low else "it is too wide"


def off_groups(backtest: Results) -> dict[str, str]:
    """Groups of which the first model's intervals hold too few or too many, in words, by kind.

    Of kinds whose groups differ at 5 %, the coverage at which they differ most, and of their groups
    those that are off at 5 %, both with the number of tests corrected for (Holm).
    """
    parts = [part for part in parts_of(backtest.frame) if part in _GROUPS]
    own = backtest.frame["model"].iloc[0]
    if backtest.frame.loc[backtest.frame["model"] == own, "actual"].isna().all():
        return {}
    tables: dict[str, pd.DataFrame] = {}
    for by in (*parts, "level", "step"):
        table = backtest.coverage(by).loc[own]
        # Steps of forecasts that all start at one hour are hours, and are not named again.
        shares = np.sort(table["held"])
        if not any(np.array_equal(shares, np.sort(one["held"])) for one in tables.values()):
            tables[by] = table
    p_equal = {by: table["p_equal"].groupby("coverage").first() for by, table in tables.items()}
    sizes = [len(each) for each in p_equal.values()]
    adjusted = np.split(holm(pd.concat(p_equal)), np.cumsum(sizes)[:-1])
    off = {}
    for (by, table), p_values in zip(tables.items(), adjusted, strict=True):
        if (p_values < _LEVEL).any():
            level = float(p_equal[by].index[int(np.nanargmin(p_values))])
            rows: Any = table.xs(level, level="coverage")
            if named := _named(rows, level, _GROUPS[by]):
                off[by] = named
    return off


def _named(rows: pd.DataFrame, level: float, words: tuple[str, str]) -> str:
    """Stretches of groups that are off on one side, the farthest first; "" if none is."""
    side = np.sign(rows["held"] - level).where(holm(rows["p_value"]) < _LEVEL, 0.0)
    stretches = (side != side.shift()).cumsum()[side != 0.0]
    said = {}
    for _, each in rows[side != 0.0].groupby(stretches):
        held = np.average(each["held"], weights=each["n"])
        name = words[len(each) > 1].format(*each.index[[0, -1]])
        said[f"{name} ({percent(level)} % hold {100 * held:.0f} %)"] = abs(held - level)
    return ", ".join(sorted(said, key=lambda text: -said[text])[:_MOST])


def unit_of_mase(backtest: Results) -> str:
    """The unit of MASE and MSIS, from the period that the backtest took, in words."""
    season = backtest.seasonal_period
    over = "the seasonal period of each series" if season is None else counted(season, "step")
    return f"mean absolute change over {over} in the past"


def backtest_card(backtest: Results) -> str:
    """A backtest in a notebook: the verdict, scores by model, and the CRPS by step."""
    table, n = backtest.scores(), len(backtest.failures)
    said = verdict(backtest) + (f" Without {n} series that failed." if n else "")
    few = table.drop(columns=["sMAPE", "NLPD", "MSIS", "energy"], errors="ignore").reset_index()
    image = page.picture(partial(plot.scores_by_step, backtest), small=True)
    name = None if backtest.request is None else backtest.request.plan.y.name
    return page.card(kind="Backtest", of=name, said=said, table=page.table(few), picture=image)


def _latest(backtest: Results, request: Request) -> dict[str, Any]:
    """The data, the model fitted as late as can be, and its forecast."""
    model, ahead = request.latest()
    y, coverage, frame = request.plan.y, request.plan.coverage, backtest.frame
    values = pd.Series(y.to_numpy(dtype=np.float64, na_value=np.nan))
    unit = frame.attrs.get("unit")

    def draw_series(ax: Axes) -> None:
        ax.plot(places(ax, y.index), values, color="0.3", lw=1, label="series")
        origins = pd.Index(frame["origin"].unique())
        marks: dict[str, Any] = {"color": "#D55E00", "ms": 12, "label": "origins"}
        marks["transform"] = ax.get_xaxis_transform()
        ax.plot(places(ax, origins), np.zeros(len(origins)), "|", **marks)
        ax.set_ylabel(with_unit(y.name, unit))
        finish(ax, y.index)

    past = page.past(y, ahead.index)
    columns = {"time": ahead.index, "mean": ahead.mean.array, "std": ahead.std.array}
    for level in coverage:
        for end, ends in ahead.interval(level).items():
            columns[f"{end} {percent(level)} %"] = ends.array
    members = [(one.model, one.weight.iloc[0], one.weight.iloc[-1]) for one in ahead.members]
    heads = ["member", "weight at the first step", "at the last step"]
    # The forecasts of the first models from the last origin, beside what happened.
    last = frame[frame["origin"] == frame["origin"].iloc[-1]]
    names = last["model"].unique()[:3]
    compared: dict[str, Any] = {str(n): _Rows(last[last["model"] == n], y.name) for n in names}
    first = compared[str(names[0])]
    beside: dict[str, Any] = {"history": page.past(y, first.index), "actual": first.rows["actual"]}
    return {
        "values": values,
        "times": f"{format_time(y.index, 0)} to {format_time(y.index, -1)}",
        "frequency": getattr(y.index, "freqstr", f"every {getattr(y.index, 'step', 1)}"),
        "unit": unit,
        "series": page.picture(draw_series),
        "choices": getattr(model, "choices_", None),
        "outliers": any(kind_of(note) == "outliers" for note in getattr(model, "notes_", [])),
        "steps": len(ahead),
        "origin": format_time(past.index, -1),
        "forecast": page.table(pd.DataFrame(columns)),
        "fan": page.picture(partial(plot.fan, ahead, coverage, history=past)),
        "shown": ", ".join(compared),
        "compared": page.picture(partial(plot.compare, compared, coverage=max(coverage), **beside)),
        "members": page.table(pd.DataFrame(members, columns=heads)) if members else None,
        "parts": _parts(ahead, unit),
    }


def _parts(ahead: Forecast, unit: Any) -> dict[str, Any] | None:
    """Parts of the variance of a forecast, in its squared unit; None where they are unknown."""
    try:
        parts = ahead.decompose()
    except ValueError:
        return None
    parts, total = parts.loc[:, (parts != 0).any()], ahead.var
    squared = None if unit is None else f"{unit if str(unit).isalpha() else f'({unit})'}²"

    def draw(ax: Axes) -> None:
        plot.decomposition(ahead, ax=ax)
        ax.set_ylabel(with_unit(ax.get_ylabel(), squared))

    said = {name: (name.replace("_", ": "), PARTS[name]) for name in map(str, parts)}
    parts = parts.rename(columns={name: label for name, (label, _) in said.items()})
    return {
        "unit": squared or "the squared unit of the series",
        "names": list(said.values()),
        "shares": parts.sum() / total.sum(),
        "picture": page.picture(draw),
        "table": page.table(parts.assign(variance=total).rename_axis("time").reset_index()),
    }


class _Rows:
    """The forecast of one model from one origin, as the frame of a backtest has it."""

    aggregated = None

    def __init__(self, rows: pd.DataFrame, name: Any) -> None:
        self.rows, self.name = rows.set_index("time"), name
        self.index, self.mean, self.std = self.rows.index, self.rows["mean"], self.rows["std"]

    def __len__(self) -> int:
        return len(self.rows)

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Interval of each step, of a coverage that the backtest has."""
        names = {f"{end}_{percent(coverage)}": end for end in ("lower", "upper")}
        return self.rows[list(names)].rename(columns=names)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
