"""Report of a backtest, one page of HTML that needs nothing else: words in report.html."""

from __future__ import annotations

import base64
import hashlib
from functools import partial
from importlib.resources import files
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from forecast_unc import plot
from forecast_unc._checks import check_path
from forecast_unc._files import whole_file
from forecast_unc._typing import Axes
from forecast_unc._version import __version__
from forecast_unc.distributions import page
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.page import number
from forecast_unc.distributions.picture import finish, places, with_unit
from forecast_unc.evaluation.folds import Request, percent
from forecast_unc.series.times import format_time

if TYPE_CHECKING:
    from forecast_unc.evaluation.backtest import Backtest

_LEVEL = 0.05  # of the tests
_ROUNDOFF = 1e-9  # share of the variance, or of a score


def write_report(backtest: Backtest, path: str | PathLike[str]) -> None:
    """Write the report of a backtest to a file."""
    check_path(path, "report.html", writes=True)
    request = backtest.request
    name = None if request is None else request.plan.y.name
    panel, id_col = None, backtest.id_col
    if id_col is not None:
        scores = backtest.scores([id_col, "model"]).reset_index()
        crps = scores.pivot_table("CRPS", id_col, "model", sort=False, observed=True).reset_index()
        failures = page.table(backtest.failures) if len(backtest.failures) else None
        panel = {"crps": page.table(crps), "failures": failures}
    style, script = _file("report.css"), _file("report.js")
    # The page loads nothing and runs no script but its own, whatever a name may hold.
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    page_itself = {"policy": policy, "style": style, "script": script, "version": __version__}
    text = page.render(
        "forecast_unc.evaluation",
        "report.html",
        title="Backtest" if name is None else f"Backtest of {name}",
        latest=None if request is None else _latest(backtest, request),
        panel=panel,
        **page_itself,
        **_asked(backtest),
        **_judged(backtest),
    )
    with whole_file(path) as unfinished:
        unfinished.write_bytes(text.encode())


def _asked(backtest: Backtest) -> dict[str, Any]:
    frame, request = backtest.frame, backtest.request
    origins = pd.Index(frame["origin"].drop_duplicates().sort_values())
    last = format_time(origins, -1)
    span = f"{format_time(origins, 0)} to {last}"
    asked: dict[str, object] = {
        "steps ahead": f"{frame['step'].min()} to {frame['step'].max()}",
        "origins": span if len(origins) == 1 else f"{len(origins)}, {span}",
        "intervals": ", ".join(f"{100 * level:g} %" for level in backtest.coverage),
        "season of MASE": backtest.seasonal_period or "that of each series",
    }
    if backtest.id_col is not None:
        asked["series"] = frame[backtest.id_col].nunique()
    if request is None:
        return {"asked": {"models": ", ".join(map(str, frame["model"].unique())), **asked}}
    every = {1: "at every origin", 0: "at the first origin"}
    asked["fitted"] = every.get(int(request.refit), f"at one origin in {request.refit}")
    asked["window"] = request.window
    if request.plan.exog is not None:
        asked["regressors"] = ", ".join(map(str, request.plan.exog.columns))
    own = {request.own.names[0][0]: repr(request.own.model)}
    return {"asked": asked, "models": own | request.compared, "last_origin": last}


def _judged(backtest: Backtest) -> dict[str, Any]:
    own, widest = backtest.frame["model"].iloc[0], max(backtest.coverage)
    table, by_step = backtest.scores(), backtest.scores(["model", "step"])
    context: dict[str, Any] = {"own": own, "level": f"{_LEVEL:g}", "widest": f"{100 * widest:g} %"}
    context |= {"scores": page.table(table.reset_index()), "untested": None}
    context["tested_by_step"] = False
    test, reason = _tested(backtest, table)
    if test is None:
        context["untested"] = reason
    else:
        clear, better = test["p_value"] < _LEVEL, test["difference"] < 0
        verdict = np.where(clear, np.where(better, "better", "worse"), "no clear difference")
        context["tests"] = page.table(test.assign(verdict=verdict).reset_index())
    for key, score in (("crps", "CRPS"), ("coverage", f"coverage_{percent(widest)}")):
        ends = "; ".join(
            f"{model}: {number(values.iloc[0])} at first, {number(values.iloc[-1])} at last"
            for model, values in by_step[score].groupby(level="model", sort=False)
        )
        data = page.picture(partial(plot.scores_by_step, backtest, score))
        context[f"{key}_by_step"] = {"name": score, "data": data, "ends": ends}
    by_each, _ = _tested(backtest, table, "step")
    if by_each is not None:
        by_step = by_step.join(by_each[["difference", "p_value"]])
        context["tested_by_step"] = True
    inside = {level: 100 * table[f"coverage_{percent(level)}"] for level in backtest.coverage}
    context["shares"] = "; ".join(
        f"{model}: "
        + ", ".join(f"{of[model]:.0f} % in that of {100 * k:g} %" for k, of in inside.items())
        for model in table.index
    )
    return context | {
        "verdict": _verdict(backtest, table, test),
        "calibration": page.picture(partial(plot.calibration, backtest)),
        "pit": page.picture(partial(plot.pit, backtest)),
        "by_step": page.table(by_step.reset_index()),
    }


def _tested(
    backtest: Backtest, table: pd.DataFrame, by: Literal["model", "step"] = "model"
) -> tuple[pd.DataFrame | None, str]:
    """The test of the CRPS, differences that are roundoff 0; or None and why there is none."""
    own = table.index[0]
    try:
        test = backtest.significance("CRPS", own, by)
    except ValueError as reason:
        return None, str(reason)
    small = test["difference"].abs() < _ROUNDOFF * table.loc[own, "CRPS"]
    return test.assign(difference=test["difference"].mask(small, 0.0)), ""


def _verdict(backtest: Backtest, table: pd.DataFrame, test: pd.DataFrame | None) -> str:
    own, widest, chance = table.index[0], max(backtest.coverage), "not tested"
    said = f"The mean CRPS of {own} is {number(table.loc[own, 'CRPS'])}"
    if table["CRPS"].drop(own).notna().any():
        best = table["CRPS"].drop(own).idxmin()
        if test is not None and test.loc[best, "p_value"] >= 0:  # not NaN
            chance = f"p = {test.loc[best, 'p_value']:.2g}"
        change = 100 * (table.loc[own, "CRPS"] / table.loc[best, "CRPS"] - 1)
        side = "below" if change < 0 else "above"
        said += f", {abs(change):.1f} % {side} that of {best}, the best of the others ({chance})"
    inside = 100 * table.loc[own, f"coverage_{percent(widest)}"]
    held = f"held {inside:.1f} % of {table.loc[own, 'n']} values"
    return f"{said}. Its {100 * widest:g} % interval {held}."


def backtest_card(backtest: Backtest) -> str:
    """A backtest in a notebook: the verdict, scores by model, and the CRPS by step."""
    table, n = backtest.scores(), len(backtest.failures)
    said = _verdict(backtest, table, _tested(backtest, table)[0])
    said += f" Without {n} series that failed." if n else ""
    few = table.drop(columns=["sMAPE", "NLPD", "MSIS", "energy"], errors="ignore").reset_index()
    image = page.picture(partial(plot.scores_by_step, backtest), small=True)
    name = None if backtest.request is None else backtest.request.plan.y.name
    return page.card(kind="Backtest", of=name, said=said, table=page.table(few), picture=image)


def _latest(backtest: Backtest, request: Request) -> dict[str, Any]:
    """The data, the model fitted as late as can be, and its forecast."""
    model, ahead = request.latest()
    y, coverage, frame = request.plan.y, request.plan.coverage, backtest.frame
    values = y.to_numpy(dtype=np.float64, na_value=np.nan)
    unit = frame.attrs.get("unit")
    data = {
        "values": f"{len(y)}, of which {int(np.isnan(values).sum())} are missing",
        "times": f"{format_time(y.index, 0)} to {format_time(y.index, -1)}",
        "frequency": getattr(y.index, "freqstr", f"every {getattr(y.index, 'step', 1)}"),
        "unit": "not given" if unit is None else unit,
        "mean": number(float(np.nanmean(values))),
        "least": number(float(np.nanmin(values))),
        "largest": number(float(np.nanmax(values))),
    }

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
        "data": data,
        "series": page.picture(draw_series),
        "choices": getattr(model, "choices_", None),
        "steps": len(ahead),
        "origin": format_time(past.index, -1),
        "forecast": page.table(pd.DataFrame(columns)),
        "fan": page.picture(partial(plot.fan, ahead, coverage, history=past)),
        "shown": ", ".join(compared),
        "compared": page.picture(partial(plot.compare, compared, coverage=max(coverage), **beside)),
        "members": page.table(pd.DataFrame(members, columns=heads)) if members else None,
        "parts": _parts(ahead),
    }


def _parts(ahead: Forecast) -> dict[str, Any] | None:
    """Parts of the variance of a forecast; None where they are unknown."""
    try:
        parts = ahead.decompose()
    except ValueError:
        return None
    total = ahead.var.to_numpy()[:, None]
    parts = parts.where(parts.abs() > _ROUNDOFF * total, 0.0)
    parts = parts.loc[:, (parts != 0).any()]
    shares = parts.sum() / total.sum()
    return {
        "shares": ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items()),
        "picture": page.picture(partial(plot.decomposition, ahead)),
        "table": page.table(parts.assign(variance=total).rename_axis("time").reset_index()),
    }


class _Rows:
    """The forecast of one model from one origin, as the frame of a backtest has it."""

    def __init__(self, rows: pd.DataFrame, name: Any) -> None:
        self.rows, self.name = rows.set_index("time"), name
        self.index, self.mean, self.std = self.rows.index, self.rows["mean"], self.rows["std"]

    def __len__(self) -> int:
        return len(self.rows)

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Interval of each step, of a coverage that the backtest has."""
        names = {f"{end}_{percent(coverage)}": end for end in ("lower", "upper")}
        return self.rows[list(names)].rename(columns=names)


def _file(name: str) -> str:
    return files("forecast_unc.evaluation").joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
