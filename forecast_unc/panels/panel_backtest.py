"""Backtests of all series of a long frame."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from forecast_unc._checks import check_coverages, check_jobs, check_several, refusal
from forecast_unc._progress import tqdm
from forecast_unc.evaluation.backtest import Backtest, backtest, check_arguments, with_n_origins
from forecast_unc.evaluation.folds import Model, contenders, percent
from forecast_unc.panels.jobs import Outcome, run_jobs, warn_again
from forecast_unc.panels.panel import Columns, OneSeries, Panel
from forecast_unc.panels.panel_forecast import warn_of_failures
from forecast_unc.series.times import spacing

# Columns of the frame and the joint scores of a backtest that do not depend on the coverage.
_OWN = (
    *("frequency", "model", "origin", "step", "time", "actual", "mean", "median", "std"),
    *("crps", "nlpd", "pit", "scale", "refit", "energy", "error"),
)


@with_n_origins
def backtest_panel(
    frame: Any,
    forecaster: Model,
    steps: int,
    *,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    freq: Any = None,
    origins: int | Sequence[Any] | pd.Index[Any] = 10,
    step: int | None = None,
    refit: bool | int = True,
    window: Literal["expanding", "rolling"] = "expanding",
    gap: int = 0,
    compare: Mapping[str, Model | str] | None = None,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    n_jobs: int | None = None,
    progress: bool = False,
) -> Backtest:
    """Backtest every series of a long frame, a job each.

    One ``FailedSeriesWarning`` says if some series failed; if all did, that is a ValueError.

    Parameters
    ----------
    frame : DataFrame
        As in `forecast_panel`. Its further columns are regressors, whose values over the horizon
        are taken as known at the origin.
    forecaster, steps, origins, step, refit, window, gap, compare, coverage
        As in `backtest`. A number of origins, which is taken as ``n_origins``, too, counts back
        from the end of each series; times are the same for all.
    id_col, time_col, target_col, freq, n_jobs, progress
        As in `forecast_panel`.

    Returns
    -------
    Backtest
        Its ``frame`` and ``joint`` begin with the id and ``frequency``, by which ``scores`` can
        group; ``failures`` lists the series that could not be backtested, with the reasons.

    Examples
    --------
    >>> import pandas as pd
    >>> from forecast_unc import backtest_panel, baselines, datasets
    >>> nile = datasets.load_nile().rename("y").rename_axis("ds").reset_index()
    >>> panel = pd.concat([nile.assign(unique_id="a"), nile[:60].assign(unique_id="b")])
    >>> result = backtest_panel(panel, baselines.ETS(), 2, origins=3)
    >>> result.scores(by="unique_id")["n"].to_dict()
    {'a': 6, 'b': 6}
    """
    coverage = check_coverages(coverage)
    if not isinstance(origins, int | np.integer):
        origins = check_several("origins", origins, "times of y", "how many, such as 10, or [time]")
    options: dict[str, Any] = {"origins": origins, "step": step, "refit": refit}
    options |= {"window": window, "gap": gap}
    check_arguments(steps, **options)
    options |= {"compare": compare, "coverage": coverage}
    n_jobs = check_jobs(n_jobs)
    own, *_ = contenders(forecaster, compare)
    bounds = {f"{end}_{percent(level)}" for level in coverage for end in ("lower", "upper")}
    if isinstance(id_col, Hashable) and id_col in {*_OWN, *bounds}:
        raise refusal("id_col", "not be a column of a backtest", repr(id_col), "Rename the column.")
    panel = Panel.checked(frame, Columns(id_col, time_col, target_col), freq)
    panel.check_taken(own)
    work = partial(_backtest, forecaster, steps, options)
    with tqdm(total=len(panel), disable=not progress, desc="backtest_panel") as bar:
        outcomes = run_jobs(work, panel, n_jobs=n_jobs, bar=bar)
    warn_again(outcomes, panel.ids.tolist())
    result = _assembled(outcomes, panel, coverage)
    warn_of_failures(outcomes, panel.ids.tolist(), "the backtest", "failures")
    return result


def _backtest(
    forecaster: Model, steps: int, options: dict[str, Any], one: OneSeries
) -> tuple[Backtest, Any]:
    """The job of one series: its backtest, and the frequency of its times."""
    y, exog = one.history()
    result = backtest(forecaster, y, steps, exog=exog, n_jobs=1, **options)
    return result, getattr(y.index, "freqstr", spacing(y.index))


def _assembled(outcomes: Sequence[Outcome], panel: Panel, coverage: tuple[float, ...]) -> Backtest:
    """The backtest of a panel from those of its series, or an error if all failed."""
    id_col = str(panel.columns.id)
    failed = np.array([outcome.error is not None for outcome in outcomes], dtype=bool)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    done = [outcome.value for outcome in outcomes if outcome.error is None]
    if not done:
        must, got = "have a series that can be backtested", f"none of {len(panel)}"
        if errors:
            got += f"; the first, {panel.ids.tolist()[0]!r}: {errors[0].rstrip('.')}"
        remedy = "Take fewer origins or steps if they are short."
        raise refusal("frame", must, got, remedy)

    def joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
        sizes = [len(table) for table in tables]
        rows = pd.concat(tables, ignore_index=True)
        rows.insert(0, id_col, panel.ids.take(np.repeat(np.flatnonzero(~failed), sizes)))
        rows.insert(1, "frequency", np.repeat([frequency for _, frequency in done], sizes))
        return rows

    frame, joint = (joined([getattr(one, key) for one, _ in done]) for key in ("frame", "joint"))
    seasons = {one.seasonal_period for one, _ in done}
    season = seasons.pop() if len(seasons) == 1 else None
    failures = pd.DataFrame({id_col: panel.ids[failed], "error": pd.Series(errors, dtype=object)})
    requests = [one.request for one, _ in done]
    known = [
        request.plan.exog.reindex(pd.Index(one.frame["time"]))
        for request, (one, _) in zip(requests, done, strict=True)
        if request is not None and request.plan.exog is not None
    ]
    regressors = pd.concat(known, ignore_index=True) if known else None
    return Backtest(frame, coverage, joint, season, id_col, failures, regressors=regressors)
