"""A long frame as series by id: checks of the whole, and the rows that one job is sent."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from forecast_unc._checks import check_whole
from forecast_unc._typing import Array
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import future_index, on_frequency, regular_index
from forecast_unc.series.values import is_real


class Columns(NamedTuple):
    """Names of the columns of a long frame."""

    id: Hashable
    time: Hashable
    target: Hashable


class OneSeries(NamedTuple):
    """The rows of one series, all that its job is sent."""

    name: Hashable
    times: pd.Index[Any]
    values: Array  # (n,)
    freq: Any  # None: inferred
    exog: pd.DataFrame | None  # (n, k)
    future: pd.DataFrame | None  # as many rows as the user gave, on their times

    def y(self) -> pd.Series[float]:
        """The series on a regular index, or an error."""
        if self.freq is not None:
            index = on_frequency(self.times, self.freq, "y")
        elif isinstance(self.times, pd.DatetimeIndex) and len(self.times) < 3:
            raise ValueError(
                "y must have 3 times or more for its frequency to be inferred; got "
                f'{len(self.times)}. Pass freq, for example freq="D".'
            )
        else:
            index = regular_index(self.times, "y")
        return pd.Series(self.values, index, name=self.name)

    def regressors(self, index: pd.Index[Any]) -> pd.DataFrame | None:
        """Those of the past, on the regular index."""
        return None if self.exog is None else self.exog.set_axis(index)

    def ahead(self, index: pd.Index[Any], steps: int) -> pd.DataFrame | None:
        """The regressors of the steps after a regular index, or an error."""
        if self.future is None:
            return None
        if not len(self.future):
            raise ValueError(
                "exog must have rows of each series; got none of this one. Give its regressors at "
                f"the {steps} steps after its last time."
            )
        times = future_index(index, steps)
        aligned = check_aligned(self.future, times, f"the {steps} steps after the origin")
        return aligned.set_axis(times)


@dataclass(frozen=True)
class Panel:
    """The series of a long frame, in the order in which they first appear.

    Parameters
    ----------
    columns : Columns
        Names of the columns.
    ids : array
        Of the series, each once, of the frame's own dtype.
    times : Index
        Of all rows.
    values : ndarray of shape (rows,)
        Of the target, NaN where missing.
    freq : str, offset, int or None
        Frequency of all series; None if each has its own.
    exog, future : DataFrame or None
        Regressors of all rows; those ahead, on their times.
    rows, rows_ahead : list of ndarray
        Positions of each series' rows, in the frame's order; in `future`.
    """

    columns: Columns
    ids: Any
    times: pd.Index[Any]
    values: Array
    freq: Any
    exog: pd.DataFrame | None
    future: pd.DataFrame | None
    rows: list[np.ndarray]
    rows_ahead: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> OneSeries:
        rows = self.rows[position]
        return OneSeries(
            self.ids[position],
            self.times.take(rows),
            self.values[rows],
            self.freq,
            None if self.exog is None else self.exog.take(rows),
            None if self.future is None else self.future.take(self.rows_ahead[position]),
        )

    def names(self) -> list[Any]:
        """The ids, of Python's own types where they have one."""
        names: list[Any] = self.ids.tolist()
        return names

    @classmethod
    def checked(cls, frame: pd.DataFrame, columns: Columns, freq: Any) -> Panel:
        """The series of a long frame, or an error about it as a whole.

        Parameters
        ----------
        frame : DataFrame
            The user's.
        columns : Columns
            Names of the columns; all others are regressors.
        freq : str, offset, int or None
            Frequency of all series.

        Returns
        -------
        Panel

        Raises
        ------
        TypeError, ValueError
            If a column is not there or not of a type that any series could have.
        """
        _check_columns(frame, columns)
        target = frame[columns.target]
        if not (
            pd.api.types.is_float_dtype(target.dtype) or pd.api.types.is_integer_dtype(target.dtype)
        ):
            raise TypeError(
                f"target_col must be a column of numbers; got {columns.target!r} of dtype "
                f"{target.dtype}. Convert it with pd.to_numeric, truth values with astype(float)."
            )
        times = _times(frame[columns.time], "time_col")
        codes, ids = _factorized(frame[columns.id])
        further = frame.drop(columns=list(columns)).reset_index(drop=True)
        _check_regressors(further, "frame")
        return cls(
            columns,
            ids,
            times,
            target.to_numpy(dtype=np.float64, na_value=np.nan),
            _checked_freq(freq, times),
            further if len(further.columns) else None,
            None,
            _positions(codes, len(ids)),
            [],
        )


def with_future(panel: Panel, frame: pd.DataFrame, exog: pd.DataFrame | None) -> Panel:
    """The panel with the regressors of the time after it, or an error.

    Parameters
    ----------
    panel : Panel
        Without them.
    frame : DataFrame
        What it was made of.
    exog : DataFrame or None
        Long: the id and the time of `panel`, and the columns of its regressors.

    Returns
    -------
    Panel
    """
    further = [] if panel.exog is None else list(panel.exog.columns)
    id_col, time_col, _ = panel.columns
    if exog is None:
        if further:
            raise ValueError(
                f"exog must be given if frame has further columns; got None beside {further}. They "
                "are regressors: pass their future values, or leave the columns out, "
                f"frame[{list(panel.columns)}]."
            )
        return panel
    if not further:
        raise ValueError(
            "exog must be None if frame has no further columns; got a DataFrame. Give the past of "
            "the regressors as columns of frame."
        )
    if sorted(map(str, exog.columns)) != sorted(map(str, [id_col, time_col, *further])):
        raise ValueError(
            f"exog must have the columns {[id_col, time_col, *further]}; got {list(exog.columns)}. "
            "The target is not known there, all regressors of frame are."
        )
    times = _times(exog[time_col], "time_col of exog")
    ours, theirs = _time_kind(panel.times), _time_kind(times)
    if ours != theirs:
        raise TypeError(
            f"exog must have times of the kind that frame has, {ours}; got {theirs}. Convert them."
        )
    future = exog[further].set_axis(times.astype(panel.times.dtype))
    _check_regressors(future, "exog")
    _factorized(exog[id_col], "id_col of exog")
    codes, _ = _factorized(pd.concat([frame[id_col], exog[id_col]], ignore_index=True))
    # ids of exog alone come after those of the frame, and are not asked for
    rows = _positions(codes[len(frame) :], max(len(panel), int(codes.max(initial=-1)) + 1))
    return replace(panel, future=future, rows_ahead=rows[: len(panel)])


def _check_columns(frame: pd.DataFrame, columns: Columns) -> None:
    """Raise unless the three are distinct columns of the frame, and no name is there twice."""
    for argument, name in zip(("id_col", "time_col", "target_col"), columns, strict=True):
        if name not in frame.columns:
            raise ValueError(
                f"{argument} must be a column of frame; got {name!r}, and the columns are "
                f"{list(frame.columns)}. An index becomes a column by frame.reset_index()."
            )
    if len(set(columns)) < 3:
        raise ValueError(
            "id_col, time_col and target_col must be three columns; got "
            f"{', '.join(map(repr, columns))}. Each has its own."
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"frame must have distinct columns; got {twice!r} twice. Rename one.")


def _check_regressors(frame: pd.DataFrame, name: str) -> None:
    for column, dtype in frame.dtypes.items():
        if not is_real(dtype):
            raise TypeError(
                f"{name} must have numbers in its further columns, which are regressors; got "
                f"{column!r} of dtype {dtype}. Encode it as numbers, or leave it out."
            )


def _times(column: pd.Series[Any], name: str) -> pd.Index[Any]:
    """Times of all rows as an index, or an error; missing ones are for each series to refuse."""
    types = pd.api.types
    if types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if isinstance(column.dtype, pd.PeriodDtype) or types.is_integer_dtype(column.dtype):
        index: pd.Index[Any] = pd.Index(column.array)
        return index
    raise TypeError(
        f"{name} must be a column of datetimes, periods or whole numbers; got {column.name!r} of "
        f"dtype {column.dtype}. Convert it with pd.to_datetime."
    )


def _time_kind(times: pd.Index[Any]) -> str:
    if isinstance(times, pd.DatetimeIndex):
        return "datetimes" if times.tz is None else "datetimes with a time zone"
    return f"periods {times.freqstr}" if isinstance(times, pd.PeriodIndex) else "whole numbers"


def _checked_freq(freq: Any, times: pd.Index[Any]) -> Any:
    if freq is None:
        return None
    if isinstance(times, pd.PeriodIndex):
        raise ValueError(
            f"freq must be None for periods, which have one; got {freq!r}. Leave it out."
        )
    if not isinstance(times, pd.DatetimeIndex):
        check_whole("freq", freq, 1, "Of whole-number times it is their distance.")
        return int(freq)
    try:
        return to_offset(freq)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"freq must be a frequency of pandas; got {freq!r}. 'D', 'MS' and 'h' are some."
        ) from error


def _factorized(ids: pd.Series[Any], name: str = "id_col") -> tuple[np.ndarray, Any]:
    """Code of each row, (rows,), and the ids in order of first appearance."""
    try:
        codes, unique = pd.factorize(ids.array)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a column of hashable ids; got {ids.name!r} with an {error}. Convert "
            "them, lists for example to tuples."
        ) from error
    if len(codes) and codes.min() < 0:
        raise ValueError(
            f"{name} must name the series of each row; got no id in row {int(codes.argmin())}. "
            "Fill it in, or drop the row."
        )
    if isinstance(unique, pd.arrays.NumpyExtensionArray):
        unique = unique.to_numpy()
    return codes, unique


def _positions(codes: np.ndarray, n: int) -> list[np.ndarray]:
    """Rows of each of n codes, in the order of the frame."""
    ends = np.cumsum(np.bincount(codes, minlength=n))
    return np.split(np.argsort(codes, kind="stable"), ends[:-1]) if n else []
