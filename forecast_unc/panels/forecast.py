"""Forecasts of all series of a long frame."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import clone

from forecast_unc._checks import check_jobs, check_steps, refusal
from forecast_unc._typing import Array
from forecast_unc.distributions.tables import (
    check_levels,
    first_instants,
    nixtla_columns,
    nixtla_figures,
)
from forecast_unc.evaluation.folds import Contender, Model, contenders
from forecast_unc.forecasting.recursion import Propagation, check_propagation
from forecast_unc.panels.jobs import Outcome, run_jobs, warn_again
from forecast_unc.panels.panel import Columns, OneSeries, Panel
from forecast_unc.series.values import narwhals

FrameT = TypeVar("FrameT")


class FailedSeriesWarning(UserWarning):
    """Some series of a panel have no result."""


class _Table(NamedTuple):
    """What comes of one series."""

    times: Any  # array of length h
    figures: Array  # (h, 1 + 2 * levels)


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
    propagation: Propagation = "exact",
    n_jobs: int | None = None,
    progress: bool = False,
) -> FrameT:
    """Forecast every series of a long frame, each by itself.

    Each series is fitted by a clone of the forecaster, in a job of its own on the joblib backend in
    force. A series that cannot be forecast has one row with the reason; the others are forecast.

    Parameters
    ----------
    frame : DataFrame
        One row a series and time, of pandas or of a library that narwhals reads (polars, pyarrow).
        The rows of a series are in ascending order of time; those of different series may be mixed.
        Missing values of the target are uncertain, not filled. Columns beyond the three named below
        are regressors.
    forecaster : Forecaster
        Cloned for each series, and itself left as it is. Anything with ``fit`` and ``forecast``
        will do, such as a `Combination` or a baseline.
    steps : int
        Steps ahead of the end of each series, from 1.
    id_col : str, default="unique_id"
        The column that names the series: hashable values, none missing.
    time_col : str, default="ds"
        The column of times: datetimes, periods, or whole numbers.
    target_col : str, default="y"
        The column of values.
    levels : sequence of float, default=(80, 95)
        Coverages of the intervals in percent.
    exog : DataFrame, optional
        Long, with the id, the time, and the regressors of `frame`: their values at the steps ahead
        of each series. Rows of ids that `frame` lacks are not read.
    freq : str, offset or int, optional
        Frequency of all series, of whole-number times their distance. By default each has that of
        its own times, for which it needs three. A series with another time or a gap fails.
    propagation : {"exact", "taylor", "mixture", "monte_carlo", "naive", "auto"}
        As in `Forecaster.forecast`.
    n_jobs : int, optional
        Parallel jobs; None takes those of ``joblib.parallel_config``, by default one. BLAS runs on
        one thread in each, and the figures do not depend on the number of jobs.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    DataFrame
        Of the library of `frame`, long, the series in order of their first rows: the id; the time
        (a period is written as its first instant, whole numbers as nullable ``Int64``);
        ``forecast_unc``, the mean; ``forecast_unc-lo-95``, ``-lo-80``, ``-hi-80``, ``-hi-95``; and
        ``error``, None where all is well. A series that failed has one row, with a missing time,
        NaN for figures, and the reason in ``error``.

    Raises
    ------
    TypeError, ValueError
        If an argument, or a column as a whole, is not what it must be; before any work.

    Warns
    -----
    FailedSeriesWarning
        Once, if some series failed.

    Notes
    -----
    A worker process that dies (out of memory, killed) costs no more than time: what it was at is
    run again, and a series that kills its worker twice fails. In serial runs and in threads it is
    the caller's own process that dies.

    Examples
    --------
    >>> import pandas as pd
    >>> from forecast_unc import Forecaster, datasets, forecast_panel
    >>> nile = datasets.load_nile().rename("y").rename_axis("ds").reset_index()
    >>> panel = pd.concat([nile.assign(unique_id="a"), nile[:60].assign(unique_id="b")])
    >>> ahead = forecast_panel(panel, Forecaster(lags=2), 2, levels=(90,))
    >>> ahead.set_index(["unique_id", "ds"]).iloc[:, :3].round(-1)
                          forecast_unc  forecast_unc-lo-90  forecast_unc-hi-90
    unique_id ds
    a         1971-01-01         810.0               570.0              1050.0
              1972-01-01         840.0               590.0              1100.0
    b         1931-01-01         900.0               630.0              1170.0
              1932-01-01         880.0               600.0              1170.0
    """
    check_steps(steps)
    levels = check_levels(levels)
    check_jobs(n_jobs)
    contender = contenders(forecaster, None)[0]
    options = _options(contender, propagation)
    columns = Columns(id_col, time_col, target_col)
    taken = {*nixtla_columns(levels), "error"} & {id_col, time_col}
    if taken:
        must = "not be columns of the result"
        raise refusal("id_col and time_col", must, repr(taken.pop()), "Rename the column.")
    panel = Panel.checked(frame, columns, freq, contender).with_future(exog)
    work = partial(_forecast, clone(forecaster, safe=False), steps, levels, options)
    outcomes = run_jobs(work, panel, n_jobs=n_jobs, progress=progress, title="forecast_panel")
    warn_again(outcomes, panel.names())
    warn_of_failures(outcomes, panel.names(), "forecast, see the column error")
    return _like(_assembled(outcomes, panel, levels), frame)


def _options(contender: Contender, propagation: Propagation) -> dict[str, Any]:
    """What `forecast` is given besides the steps: the propagation, where it is not the default."""
    check_propagation(propagation)
    if propagation == "exact":
        return {}
    if not contender.can.propagation:
        raise refusal(
            "propagation",
            f"be 'exact', the default, for {type(contender.model).__name__}, which has no choice "
            "of it",
            repr(propagation),
            "Leave it out.",
        )
    return {"propagation": propagation}


def _forecast(
    forecaster: Any,
    steps: int,
    levels: tuple[float, ...],
    options: dict[str, Any],
    one: OneSeries,
) -> _Table:
    """The job of one series."""
    model = clone(forecaster, safe=False)
    y, past = one.history()
    future = one.ahead(y.index, steps)
    if past is None:
        model.fit(y)
    else:
        model.fit(y, exog=past)
        options = {**options, "exog": future}
    forecast = model.forecast(steps, **options)
    return _Table(first_instants(forecast.index).array, nixtla_figures(forecast, levels))


def _assembled(
    outcomes: Sequence[Outcome[_Table]], panel: Panel, levels: tuple[float, ...]
) -> pd.DataFrame:
    """The long result of pandas."""
    names = nixtla_columns(levels)
    no_time = pd.Series(pd.array([None], dtype=_time_dtype(panel.past.index)))
    none = _Table(no_time.array, np.full((1, len(names)), np.nan))
    tables = [none if outcome.value is None else outcome.value for outcome in outcomes]
    sizes = [len(table.figures) for table in tables]
    times = [pd.Series(table.times).astype(no_time.dtype) for table in tables]
    figures = np.concatenate([none.figures[:0], *(table.figures for table in tables)])
    errors = np.array([outcome.error for outcome in outcomes], dtype=object)
    columns: dict[Hashable, Any] = {
        panel.columns.id: panel.ids.take(np.repeat(np.arange(len(panel)), sizes)),
        panel.columns.time: pd.concat([no_time[:0], *times], ignore_index=True),
        **dict(zip(names, figures.T, strict=True)),
        "error": pd.Series(np.repeat(errors, sizes), dtype=object),
    }
    return pd.DataFrame(columns)


def _time_dtype(times: pd.Index[Any]) -> Any:
    """Of the column of times in the result, where some may be missing."""
    if isinstance(times, pd.PeriodIndex):
        return times[:0].to_timestamp().dtype
    return times.dtype if isinstance(times, pd.DatetimeIndex) else pd.Int64Dtype()


def _like(result: pd.DataFrame, frame: FrameT) -> FrameT:
    """A result of pandas as a frame of the user's library; columns of both are of its types."""
    if isinstance(frame, pd.DataFrame):
        return result  # type: ignore[return-value]  # FrameT is pd.DataFrame here
    nw = narwhals(frame, "frame")
    given = nw.from_native(frame, eager_only=True)
    table = nw.from_arrow(result.astype({"error": pd.StringDtype()}), backend=given.implementation)
    types = {name: given.schema[name] for name in table.columns if name in given.schema}
    ours = [nw.col(name).cast(kind) for name, kind in types.items() if table.schema[name] != kind]
    native: FrameT = table.with_columns(ours).to_native()
    return native


def warn_of_failures(outcomes: Sequence[Outcome[Any]], names: Sequence[object], done: str) -> None:
    """One warning for all series that failed: what could not be done, and where the reasons are."""
    failed = [i for i, outcome in enumerate(outcomes) if outcome.error is not None]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(outcomes)} series could not be {done}; the first: "
            f"{names[failed[0]]!r}: {outcomes[failed[0]].error}",
            FailedSeriesWarning,
            stacklevel=3,
        )
