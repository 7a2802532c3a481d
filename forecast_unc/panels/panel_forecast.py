"""Forecasts of all series of a long frame."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from joblib import hash as joblib_hash
from sklearn.base import clone

from forecast_unc._checks import check_choice, check_jobs, check_several, check_steps, refusal
from forecast_unc._notes import Notes
from forecast_unc._progress import tqdm
from forecast_unc._typing import Array
from forecast_unc.distributions import export
from forecast_unc.evaluation.folds import Model, contenders
from forecast_unc.forecasting.horizon.types import PROPAGATIONS, Propagation
from forecast_unc.panels.checkpoints import in_parts, write
from forecast_unc.panels.fallback import FEW, FEW_BOUND, Lent, answer, lend, open_values
from forecast_unc.panels.groups import POINTS, SAID, SeriesResult
from forecast_unc.panels.jobs import Outcome, cause_of, run_jobs, warn_again
from forecast_unc.panels.panel import Columns, OneSeries, Panel
from forecast_unc.series.values import narwhals

FrameT = TypeVar("FrameT")


class FailedSeriesWarning(UserWarning):
    """The model of some series of a panel failed."""


class Asked(NamedTuple):
    """What is asked for of each series."""

    steps: int
    levels: tuple[float, ...]
    points: Array | None  # probabilities of quantiles, for groups
    aggregate: str | None


def forecast_panel(
    frame: FrameT,
    forecaster: Model,
    steps: int,
    *,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    levels: Sequence[float] = (80, 95),
    exog: FrameT | None = None,
    freq: Any = None,
    propagation: Propagation = "auto",
    n_jobs: int | None = None,
    progress: bool = False,
    output: str | PathLike[str] | None = None,
    by: str | Sequence[str] | None = None,
    correlation: float | None = None,
    aggregate: Literal["sum", "mean"] | None = None,
) -> FrameT:
    r"""Forecast every series of a long frame, each by itself.

    Each is fitted by a clone of the forecaster, in a job of its own on the joblib backend in force.
    The forecast of a series of at most four observed values, or whose model fails, is its last
    value, with a spread from the other series; the column ``status`` says so. That spread, and
    the draws behind sums of groups, are defined in docs/how_to/panels.md.

    One ``FailedSeriesWarning`` says if some models failed; a model that kills its worker process
    twice has failed, too. What is wrong with an argument, or a column as a whole, is an error
    before any work.

    Parameters
    ----------
    frame : DataFrame
        One row a series and time, of pandas or of a library that narwhals reads (polars, pyarrow),
        for each series in ascending order of time. Missing values of the target are uncertain, not
        filled. Columns beyond the three named below are regressors.
    forecaster : Forecaster
        Cloned for each series. Anything with ``fit`` and ``forecast`` will do, such as a
        `Combination` or a baseline.
    steps : int
        Steps ahead of the end of each series, from 1.
    id_col, time_col, target_col : str
        The columns that name the series (hashable values, none missing), their times (datetimes,
        periods or whole numbers) and their values.
    levels : sequence of float, default=(80, 95)
        Coverages of the intervals in percent, from 1 to below 100.
    exog : DataFrame, optional
        Long, with the id, the time, and the regressors of `frame`: their values at the steps ahead.
    freq : str, offset or int, optional
        Frequency of all series, of whole-number times their distance; times without a row count as
        missing values. By default each has that of its own times, for which it needs three and all
        rows; a shorter one takes that of the longest series.
    propagation : {"exact", "taylor", "mixture", "monte_carlo", "naive", "auto"}
        As in `Forecaster.forecast`.
    n_jobs : int, optional
        Parallel jobs; None takes those of ``joblib.parallel_config``, by default one. The figures
        do not depend on it.
    progress : bool, default=False
        Show a progress bar.
    output : path, optional
        A directory in which the result of each 200 series is written as a Parquet file once they
        are done. The same call again reads what is there and goes on with the rest.
    by : str or sequence of str, optional
        Columns of `frame` that group the series, such as a region: each is one label throughout a
        series. The sums of each group follow the series, with a missing id; ``by=[]`` sums all.
    correlation : float, optional
        From 0 to 1, needed with `by`: that of the forecast errors of any two series of a group at
        one time, of their normal scores where they are not normal. It widens the intervals of the
        sums, and is yours to state: nothing here estimates it.
    aggregate : {None, "sum", "mean"}, default=None
        One row a series: the sum or the mean of its steps, such as the demand until a delivery, by
        `Forecast.aggregate`; its time is that of the last step. Bounds of steps do not add up to
        those of their sum.

    Returns
    -------
    DataFrame
        Of the library of `frame`, long, the series in order of their first rows: the id; the time
        (of a period its first instant, whole numbers as nullable ``Int64``); ``forecast_unc``, the
        mean; ``forecast_unc-lo-95``, ``-lo-80``, ``-hi-80``, ``-hi-95``; ``error``, None or why the
        model failed; ``status``, "ok" or what was done instead; and ``notes``, the remarks of
        `Forecaster.notes_` on outliers, repeats and closed days. Columns of `by` stand after the
        time. A series without a frequency, or without a value where no other has eight values, has
        one row: a missing time, NaN, the status.

    Examples
    --------
    >>> import pandas as pd
    >>> from forecast_unc import Forecaster, datasets, forecast_panel
    >>> nile = datasets.load_nile().rename("y").rename_axis("ds").reset_index()
    >>> panel = pd.concat([nile.assign(unique_id="a"), nile[:60].assign(unique_id="b")])
    >>> ahead = forecast_panel(panel, Forecaster(lags=2), 2, levels=(80,))
    >>> ahead.set_index(["unique_id", "ds"]).iloc[:, :3].round(-1)
                          forecast_unc  forecast_unc-lo-80  forecast_unc-hi-80
    unique_id ds
    a         1971-01-01         810.0               630.0              1000.0
              1972-01-01         840.0               640.0              1040.0
    b         1931-01-01         900.0               690.0              1110.0
              1932-01-01         880.0               660.0              1100.0
    """
    steps = check_steps(steps)
    levels = export.check_levels(levels)
    n_jobs = check_jobs(n_jobs)
    contender = contenders(forecaster, None)[0]
    check_choice("propagation", propagation, PROPAGATIONS)
    check_choice("aggregate", aggregate, (None, "sum", "mean"), "None keeps the steps.")
    if output == "":
        raise refusal("output", "name a directory", "''", "Give a new one, or None for no files.")
    options = {} if propagation == "auto" else {"propagation": propagation}
    if options and "propagation" not in contender.can:
        must = f"be 'exact', the default, for {type(forecaster).__name__}, which has no choice"
        raise refusal("propagation", must, repr(propagation), "Leave it out.")
    columns, names = Columns(id_col, time_col, target_col), export.nixtla_columns(levels)
    if by is not None:
        by = [by] if isinstance(by, str) else check_several("by", by, "columns", "by='region'")
    otherwise = "Leave it out, encode it as numbers, or name it in by= if it groups the series."
    panel = Panel.checked(frame, columns, freq, by, correlation, otherwise)
    panel.check_taken(contender, by or ())
    panel = panel.with_future(exog)
    if exog is not None:
        panel.check_future(steps)
    taken = {*names, *SAID} & {id_col, time_col, *(by or ())}
    if taken:
        must, remedy = "not name columns of the result", "Rename the column."
        raise refusal("id_col, time_col and by", must, repr(taken.pop()), remedy)
    lent = lend(panel, steps, getattr(forecaster, "open", None))
    few = FEW if lent.lenders else -1
    model = clone(forecaster, safe=False)
    points = None if panel.groups is None else POINTS
    bound = lent.lower if getattr(forecaster, "lower", 0.0) is None else -np.inf
    asked = Asked(steps, levels, points, aggregate)
    work = partial(_forecast, model, options, asked, few, bound)

    def run(part: Panel) -> list[pd.DataFrame]:
        outcomes = run_jobs(work, part, n_jobs=n_jobs, bar=bar)
        warn_again(outcomes, part.ids.tolist())
        return _assembled(outcomes, part, asked, lent)

    with tqdm(total=len(panel), disable=not progress, desc="forecast_panel") as bar:
        if output is None:
            result, *sums = run(panel)
        else:
            call = joblib_hash((model, steps, levels, options, lent, correlation, aggregate))
            result, *sums = in_parts(run, panel, Path(output), call, bar)
    errors = result.loc[~result[id_col].duplicated(), "error"]
    failed = [Outcome(None, None if pd.isna(error) else error) for error in errors]
    warn_of_failures(failed, panel.ids.tolist(), "the model", "the columns error and status")
    if panel.groups is not None:
        if pd.api.types.is_integer_dtype(result[id_col].dtype):
            result[id_col] = result[id_col].astype("Int64")  # has a missing value
        table = panel.groups.table(sums, result, levels)
        if output is not None:
            write(table, Path(output) / "sums.parquet")
        result = pd.concat([result, table], ignore_index=True)
    return _like(result, frame)


def _forecast(
    forecaster: Any, options: dict[str, Any], asked: Asked, few: int, bound: float, one: OneSeries
) -> SeriesResult | None:
    """The job of one series: its result, or None if it has so few values that it borrows."""
    observed = open_values(one.past, getattr(forecaster, "open", None))
    if np.count_nonzero(~np.isnan(observed)) <= few:
        return None
    model = clone(forecaster, safe=False)
    y, past = one.history()
    future = one.ahead(y.index, asked.steps)
    if past is None:
        model.fit(y)
    else:
        model.fit(y, exog=past)
        options = {**options, "exog": future}
    forecast = model.forecast(asked.steps, **options)
    if bound == 0.0 and y.count() < FEW_BOUND:
        forecast = forecast.censored(bound)
    if asked.aggregate is not None:
        forecast = forecast.aggregate(asked.aggregate)
    figures = export.nixtla_figures(forecast, asked.levels)
    quantiles = None if asked.points is None else forecast.quantile(asked.points).to_numpy()
    notes = Notes.of(getattr(model, "notes_", ()))
    return SeriesResult(
        export.first_instants(forecast.index).array, figures, quantiles, notes=notes
    )


def _assembled(
    outcomes: Sequence[Outcome], panel: Panel, asked: Asked, lent: Lent
) -> list[pd.DataFrame]:
    """The long result of pandas, and the sums of groups, if any are asked for."""
    names = export.nixtla_columns(asked.levels)
    index = panel.past.index
    dates = export.first_instants(index[:0])
    dtype: Any = dates.dtype if isinstance(dates, pd.DatetimeIndex) else pd.Int64Dtype()
    none = SeriesResult(pd.array([None], dtype=dtype), np.full((1, len(names)), np.nan), None)

    def without_model(one: OneSeries) -> SeriesResult:
        answered = answer(one, asked.steps, lent)
        if isinstance(answered, str):
            return none._replace(status=answered)
        if asked.aggregate is not None:
            answered = answered.aggregated(asked.aggregate)
        quantiles = None if asked.points is None else answered.quantiles(asked.points)
        figures = answered.figures(asked.levels)
        return SeriesResult(answered.times.array, figures, quantiles, answered.status)

    found = [outcome.value or without_model(panel[i]) for i, outcome in enumerate(outcomes)]
    times = [pd.Series(each.times).astype(dtype) for each in found]
    rows = np.repeat(np.arange(len(panel)), list(map(len, times)))
    figures = np.concatenate([none.figures[:0], *(each.figures for each in found)])
    said = np.array([(one.status, one.notes) for one in found], dtype=object).reshape(-1, 2)
    errors = np.array([outcome.error for outcome in outcomes], dtype=object)
    columns: dict[Hashable, Any] = {
        panel.columns.id: panel.ids.take(rows),
        panel.columns.time: pd.concat([pd.Series(none.times)[:0], *times], ignore_index=True),
        **({} if panel.groups is None else panel.groups.columns(rows)),
        **dict(zip(names, figures.T, strict=True)),
        "error": pd.Series(errors[rows], dtype=object),
        "status": pd.Series(said[rows, 0], dtype="string"),
        "notes": pd.Series(said[rows, 1], dtype=object),
    }
    result = pd.DataFrame(columns)
    return [result] if panel.groups is None else [result, panel.groups.totals(found)]


def _like(result: pd.DataFrame, frame: FrameT) -> FrameT:
    """A result of pandas as a frame of the user's library; columns of both are of its types."""
    if isinstance(frame, pd.DataFrame):
        return result  # type: ignore[return-value]  # FrameT is pd.DataFrame here
    nw = narwhals(frame, "frame")
    given = nw.from_native(frame, eager_only=True)
    table = nw.from_arrow(
        result.astype(dict.fromkeys(SAID, "string")), backend=given.implementation
    )
    types = {name: given.schema[name] for name in table.columns if name in given.schema}
    ours = [nw.col(name).cast(kind) for name, kind in types.items() if table.schema[name] != kind]
    native: FrameT = table.with_columns(ours).to_native()
    return native


def warn_of_failures(
    outcomes: Sequence[Outcome], names: Sequence[object], what: str, where: str
) -> None:
    """One warning for all series that failed: what did, where the reasons are, and three causes."""
    causes: dict[object, list[int]] = {}
    for i, outcome in enumerate(outcomes):
        if outcome.error is not None:
            causes.setdefault(cause_of(outcome.error), []).append(i)
    if causes:
        by_size = sorted(causes.values(), key=len, reverse=True)
        reasons = []
        for failed in by_size[:3]:
            n = f" of {len(failed)}" if len(by_size) > 1 else ""
            reasons.append(f"the first{n}: {names[failed[0]]!r}: {outcomes[failed[0]].error}")
        if other := sum(map(len, by_size[3:])):
            reasons.append(f"{other} of other causes")
        *earlier, last = reasons
        all_failed = f"{sum(map(len, by_size))} of {len(outcomes)} series"
        warnings.warn(
            f"{what} failed for {all_failed}, see {where}; "
            + "; ".join([*(reason.rstrip(".") for reason in earlier), last]),
            FailedSeriesWarning,
            stacklevel=3,
        )
