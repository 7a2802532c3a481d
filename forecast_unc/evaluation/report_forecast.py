"""What a report says of one forecast: choices, bands, members and parts of the variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from forecast_unc.distributions.fan import fan
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation import page, plot
from forecast_unc.evaluation.folds import percent
from forecast_unc.evaluation.request import Request
from forecast_unc.series.times import format_time

_HISTORY = (2, 24)  # of the past beside a forecast: horizons, and values at least
_COMPARED = 3  # models on one picture
_ROUNDOFF = 1e-9  # share of the variance


def forecast(frame: pd.DataFrame, request: Request, model: Any, ahead: Forecast) -> dict[str, str]:
    """Sections on the choices of a model, its forecast and what it averages.

    Parameters
    ----------
    frame : DataFrame
        Of the backtest.
    request : Request
        What it was asked.
    model : object
        The forecaster, fitted as late as it can be.
    ahead : Forecast
        Its forecast.

    Returns
    -------
    dict
        HTML by heading.
    """
    sections = {}
    if lines := getattr(model, "choices_", None):
        sections["Choices and why"] = page.listed(lines)
    origin = format_time(_past(request, ahead.index).index, -1)
    columns = {"time": ahead.index, "mean": ahead.mean.array, "std": ahead.std.array}
    for level in request.plan.coverage:
        for end, values in ahead.interval(level).items():
            columns[f"{end} {percent(level)} %"] = values.array
    sections["Forecast"] = page.pictures(
        page.picture(
            lambda ax: fan(
                ahead, request.plan.coverage, history=_past(request, ahead.index), ax=ax
            ),
            f"Forecast of {len(ahead)} steps from {origin}: mean and intervals after the past.",
            f"The forecast from {origin}: the mean, and the intervals around it.",
        ),
        _judged(frame, request),
    ) + page.table(pd.DataFrame(columns), f"The forecast from {origin} by step")
    if members := _members(ahead):
        sections["Members"] = members
    return sections


def decomposition(ahead: Forecast) -> str:
    """Where the variance of a forecast comes from: a picture and a table, or why it is unknown."""
    try:
        parts = ahead.decompose()
    except ValueError:
        return page.paragraph("The parts of the variance of this forecast are not known.")
    total = ahead.var.to_numpy()[:, None]
    parts = parts.where(parts.abs() > _ROUNDOFF * total, 0.0)
    parts = parts.loc[:, (parts != 0).any()]
    shares = parts.sum() / total.sum()
    text = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    table = parts.assign(variance=total).rename_axis("time").reset_index()
    return page.picture(
        lambda ax: plot.decomposition(ahead, ax=ax),
        f"Parts of the variance, over all steps: {text}.",
        "Parts of the variance of each step. Those above zero less those below are the line.",
    ) + page.table(table, "Parts of the variance by step")


@dataclass(frozen=True)
class _Rows:
    """The forecast of one model from one origin, as the frame of a backtest has it."""

    rows: pd.DataFrame
    name: Any

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""
        return self.mean.index

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step."""
        return self.rows.set_index("time")["mean"]

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step."""
        return self.rows.set_index("time")["std"]

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Interval of each step, of a coverage that the backtest has."""
        names = {f"{end}_{percent(coverage)}": end for end in ("lower", "upper")}
        return self.rows.set_index("time")[list(names)].rename(columns=names)


def _judged(frame: pd.DataFrame, request: Request) -> str:
    """The forecasts of the first models from the last origin, and what happened."""
    last = frame[frame["origin"] == frame["origin"].iloc[-1]]
    names = list(last["model"].unique()[:_COMPARED])
    forecasts = {str(n): _Rows(last[last["model"] == n], request.plan.y.name) for n in names}
    first = forecasts[str(names[0])]
    actual = first.rows.set_index("time")["actual"]
    widest = max(request.plan.coverage)
    origin = format_time(pd.Index(last["origin"]), 0)
    return page.picture(
        lambda ax: plot.compare(
            forecasts,
            coverage=widest,
            history=_past(request, first.index),
            actual=actual,
            ax=ax,
        ),
        f"Forecasts from the last origin, {origin}, of {', '.join(forecasts)}, and what happened.",
        f"From the last origin of the backtest, {origin}, with what happened.",
    )


def _past(request: Request, index: pd.Index[Any]) -> pd.Series[float]:
    """The last values before some times."""
    y = request.plan.y
    horizons, least = _HISTORY
    n = max(horizons * len(index), least)
    past: pd.Series[float] = y.loc[y.index < index[0]].iloc[-n:]
    past.attrs = y.attrs
    return past


def _members(ahead: Forecast) -> str:
    """The models that are averaged, with the weights that their forecasts were averaged with."""
    if not ahead.members:
        return ""
    rows = [(one.model, one.weight.iloc[0], one.weight.iloc[-1]) for one in ahead.members]
    table = pd.DataFrame(rows, columns=["member", "weight at the first step", "at the last step"])
    return page.table(table, "Models averaged, and their weights")
