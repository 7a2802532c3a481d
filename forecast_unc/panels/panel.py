"""A long frame as series by id: checks of the whole, and the rows that one job is sent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from forecast_unc._checks import check_whole, first_true, refusal
from forecast_unc.errors import ArgumentError, InvalidArgument
from forecast_unc.evaluation.folds import Contender
from forecast_unc.panels.groups import Groups
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import (
    AT_CLOCK_CHANGE,
    LOCAL_DAYS,
    DaysOfMonthsError,
    MissingTimesError,
    UnevenTimesError,
    as_frequency,
    conversion,
    epoch_unit,
    format_time,
    future_index,
    index_kind,
    left_out,
    on_grid,
    regular_index,
)
from forecast_unc.series.values import is_real, to_pandas


class Columns(NamedTuple):
    """Names of the columns of a long frame; all others are regressors."""

    id: Hashable
    time: Hashable
    target: Hashable


class OneSeries(NamedTuple):
    """The rows of one series, all that its job is sent."""

    columns: Columns
    name: Hashable
    past: pd.DataFrame  # the target and its regressors, on their times
    freq: Any  # None: inferred
    future: pd.DataFrame | None  # regressors, as many rows as the user gave, on their times

    def history(self) -> tuple[pd.Series[float], pd.DataFrame | None]:
        """The series and its regressors on a regular index, or an error."""
        times = self.past.index
        if self.has_no_frequency:
            must = "have 3 times or more for its frequency to be inferred"
            remedy = 'Pass freq, for example freq="D".'
            raise refusal("y", must, str(len(times)), remedy, code="no freq")
        try:
            given = self.freq is not None
            index = on_grid(times, self.freq, "y") if given else regular_index(times, "y")
        except ArgumentError as error:
            raise self._of_frame(error) from error
        if (at := first_true(~index.isin(times))) is not None and len(self.past.columns) > 1:
            got = f"no row of series {self.name!r} at {format_time(index, at)}"
            remedy = "Add one, its target left empty (NaN), with the regressors of that time."
            raise refusal("frame", "have regressors at each time", got, remedy)
        past = self.past.set_axis(index) if len(index) == len(times) else self.past.reindex(index)
        y = pd.Series(past.iloc[:, 0].to_numpy(), index, name=self.name)
        return y, past.iloc[:, 1:] if len(past.columns) > 1 else None

    @property
    def has_no_frequency(self) -> bool:
        """Whether its times are too few to show their frequency, and none is given."""
        few = isinstance(self.past.index, pd.DatetimeIndex) and len(self.past) < 3
        return self.freq is None and few

    def _of_frame(self, error: ArgumentError) -> ArgumentError:
        """An error about the times of a series, with a remedy in terms of a long frame."""
        if isinstance(error, MissingTimesError):
            return self._missing_times_of_frame(error)
        column = f"frame[{self.columns.time!r}]"
        if isinstance(error, UnevenTimesError):
            code = f"{column} = {error.periods(column, '.dt')}"
            return error.but(remedy=f"Take the periods of its times, {code}.")
        if error.code == "epochs":
            code = f'{column} = pd.to_datetime({column}, unit="{epoch_unit(self.past.index)}")'
            return error.but(remedy=f"Convert them, {code}.")
        if isinstance(error, DaysOfMonthsError):
            remedy = f"Number them, {column} = frame.groupby({self.columns.id!r}).cumcount(); "
            remedy += f"a year is {error.steps} steps."
            if error.freq not in ("", "dekad"):
                remedy = f'Pass freq="{error.freq}".'
            return error.but(remedy=remedy)
        rows = f"({list(self.columns[:2])})"
        duplicates = f"Aggregate the duplicates, for example frame.drop_duplicates{rows}."
        zone = "" if getattr(self.past.index, "tz", None) is not None else '.dt.tz_localize("UTC")'
        local = f'{column}{zone}.dt.tz_convert("Europe/Berlin")'
        remedies = {
            "order": f"Sort it with frame.sort_values{rows}.",
            "repeated": duplicates,
            "clock change": f"{duplicates} {AT_CLOCK_CHANGE}",
            "local days": LOCAL_DAYS.format(f"name their zone, for example {local}"),
        }
        return error.but(remedy=remedies.get(error.code, error.remedy))

    def _missing_times_of_frame(self, error: MissingTimesError) -> MissingTimesError:
        """An error about missing times, with `freq` as a remedy or, where it is none, rows."""
        numbered = pd.api.types.is_integer_dtype(self.past.index.dtype)
        freq = f"freq={error.freq}" if numbered else f'freq="{error.freq}"'
        regressed = len(self.past.columns) > 1
        if error.closed:
            return error.but(remedy=left_out(error.closed, freq))
        if regressed or isinstance(self.past.index, pd.PeriodIndex):
            remedy = "Add rows, the target left empty (NaN)"
            remedy += ", with the regressors of those times." if regressed else "."
            return error.but(remedy=remedy, code="missing rows")
        return error.but(remedy=f"Pass {freq}: missing values are then uncertain, not filled.")

    def ahead(self, index: pd.Index[Any], steps: int) -> pd.DataFrame | None:
        """The regressors of the steps after a regular index, or an error."""
        if self.future is None:
            return None
        if not len(self.future):
            remedy = f"Give its regressors at the {steps} steps after its last time."
            raise refusal("exog", "have rows of each series", "none of this one", remedy)
        times = future_index(index, steps)
        aligned = check_aligned(self.future, times, f"the {steps} steps after the origin")
        return aligned.set_axis(times)


@dataclass(frozen=True)
class Panel:
    """The series of a long frame, in the order in which they first appear."""

    columns: Columns
    ids: Any  # of the series, each once, of the frame's own dtype
    past: pd.DataFrame  # the target, NaN where missing, and regressors of all rows, on their times
    freq: Any  # of all series; None if each has its own
    rows: list[np.ndarray]  # of each series in `past`
    future: pd.DataFrame | None = None  # regressors, on their times
    rows_ahead: Sequence[np.ndarray] = ()  # of each series in `future`
    groups: Groups | None = None  # that sums are asked of

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> OneSeries:
        past = self.past.take(self.rows[position])
        future = None if self.future is None else self.future.take(self.rows_ahead[position])
        name = self.ids[position : position + 1].tolist()[0]  # of Python, so 1 in messages
        return OneSeries(self.columns, name, past, self.freq, future)

    @classmethod
    def checked(
        cls,
        given: object,
        columns: Columns,
        freq: Any,
        by: Sequence[Hashable] | None = None,
        correlation: object = None,
        otherwise: str = "Leave it out or encode it as numbers.",
    ) -> Panel:
        """The series of the user's frame, or an error about it as a whole.

        `otherwise` says what to do with a further column that is not of numbers.
        """
        frame = to_pandas(given, "frame")
        _check_columns(frame, columns, by or ())
        target, types = frame[columns.target], pd.api.types
        if not (types.is_float_dtype(target.dtype) or types.is_integer_dtype(target.dtype)):
            got = f"{columns.target!r} of dtype {target.dtype}"
            remedy = "Convert it with pd.to_numeric, truth values with astype(float)."
            raise refusal("target_col", "be a column of numbers", got, remedy, TypeError)
        times = _times(frame[columns.time], "time_col")
        codes, ids = _factorized(frame[columns.id], "id_col")
        rows = _positions(codes, len(ids))
        labels = None if by is None else _labels(frame[[*by]], codes, rows, ids)
        groups = Groups.checked(labels, correlation)
        past = frame.drop(columns=[*columns, *(by or ())]).set_axis(times)
        _check_regressors(past, "frame", otherwise)
        past.insert(0, columns.target, target.to_numpy(dtype=np.float64, na_value=np.nan))
        panel = cls(columns, ids, past, _checked_freq(freq, times), rows, groups=groups)
        panel._refuse_if_all(OneSeries.history, range(len(panel)))
        return panel

    def check_taken(self, contender: Contender, by: Sequence[Hashable] = ()) -> None:
        """Raise if there are regressors, and the model takes none."""
        further = list(self.past.columns[1:])
        if further and "exog" not in contender.can:
            model, kept = type(contender.model).__name__, [*self.columns, *by]
            must = f"have no further columns for {model}, which takes no regressors"
            raise refusal("frame", must, str(further), f"Leave them out, frame[{kept}].")

    def check_future(self, steps: int) -> None:
        """Raise if the regressors ahead fit none of some twenty series: the frame is wrong."""
        some = np.linspace(0, len(self) - 1, min(len(self), 20)).astype(int)
        sound = [i for i in some if _error_of(OneSeries.history, self[i]) is None]
        self._refuse_if_all(lambda one: one.ahead(one.history()[0].index, steps), sound)

    def _refuse_if_all(self, check: Callable[[OneSeries], Any], some: Iterable[int]) -> None:
        """Raise if a check refuses all of some series, but for those of too few times."""
        first = None
        for i in some:
            one = self[i]
            if one.has_no_frequency:
                continue
            error = _error_of(check, one)
            if error is None:
                return
            if first is None and isinstance(error, InvalidArgument):
                error = error.but(context=f"All series have this; the first is {one.name!r}.")
            first = first or error
        if first is not None:
            raise first

    def part(self, some: slice) -> Panel:
        """Some of the series."""
        groups = None if self.groups is None else self.groups.part(some)
        rows, ahead = self.rows[some], self.rows_ahead[some]
        return replace(self, ids=self.ids[some], rows=rows, rows_ahead=ahead, groups=groups)

    def with_future(self, given: object) -> Panel:
        """The panel with the regressors of the time after it, the user's frame, or an error."""
        further = list(self.past.columns[1:])
        if given is None and not further:
            return self
        if given is None:
            must, got = "be given if frame has further columns", f"None beside {further}"
            remedy = f"Pass regressors' future values, or leave them out, frame[{[*self.columns]}]."
            raise refusal("exog", must, got, remedy)
        if not further:
            remedy = "Give the past of the regressors as columns of frame."
            raise refusal("exog", "be None if frame has no further columns", "a DataFrame", remedy)
        exog = to_pandas(given, "exog")
        expected = [self.columns.id, self.columns.time, *further]
        if sorted(map(str, exog.columns)) != sorted(map(str, expected)):
            remedy = "The target is not known there, all regressors of frame are."
            raise refusal("exog", f"have the columns {expected}", f"{list(exog.columns)}", remedy)
        times = _times(exog[self.columns.time], "time_col of exog")
        ours, theirs = _time_kind(self.past.index), _time_kind(times)
        if ours != theirs:
            must = f"have times of the kind that frame has, {ours}"
            remedy = f"Write them in {self.columns.time!r} as in frame."
            if index_kind(self.past.index) != index_kind(times) and "numbers" not in ours + theirs:
                remedy = conversion(times, self.past.index, "exog", self.columns.time)
            raise refusal("exog", must, theirs, remedy, TypeError)
        future = exog[further].set_axis(times.astype(self.past.index.dtype))
        _check_regressors(future, "exog", "Encode it as numbers, as in frame.")
        _factorized(exog[self.columns.id], "id_col of exog")
        # ids of exog alone come after those of the frame, and are not asked for
        both = pd.concat([pd.Series(self.ids), exog[self.columns.id]], ignore_index=True)
        codes, _ = _factorized(both, "id_col of exog")
        rows = _positions(codes[len(self) :], len(self))
        one, other = (pd.Index(each[:1].tolist()) for each in (self.ids, exog[self.columns.id]))
        kind, theirs = index_kind(one), index_kind(other)
        if len(exog) and not any(map(len, rows)) and kind != theirs:
            column, dtype = f"exog[{self.columns.id!r}]", "str" if kind == "text" else one.dtype
            got = f"{theirs}, {other.tolist()[0]!r} beside {one.tolist()[0]!r}"
            remedy = f'Convert them: {column} = {column}.astype("{dtype}").'
            raise refusal("exog", f"have ids as frame has, {kind}", got, remedy, TypeError)
        return replace(self, future=future, rows_ahead=rows)


def _error_of(check: Callable[[OneSeries], Any], one: OneSeries) -> Exception | None:
    try:
        check(one)
    except (TypeError, ValueError) as error:
        return error
    return None


def _check_columns(frame: pd.DataFrame, columns: Columns, by: Sequence[Hashable]) -> None:
    """Raise unless the columns that are named are in a frame, each once."""
    arguments = ("id_col", "time_col", "target_col", *["by"] * len(by))
    for argument, name in zip(arguments, (*columns, *by), strict=True):
        if not isinstance(name, Hashable) or name not in frame.columns:
            must = "be a column of frame"
            got = f"{name!r}, and the columns are {list(frame.columns)}"
            raise refusal(argument, must, got, "An index becomes a column by frame.reset_index().")
    if len(set(columns)) < 3:
        three, got = "id_col, time_col and target_col", ", ".join(map(repr, columns))
        raise refusal(three, "be three columns", got, "Each has its own.")
    if len({*columns, *by}) < 3 + len(by):
        raise refusal("by", "hold further columns, each once", f"{list(by)}", "Leave it out.")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise refusal("frame", "have distinct columns", f"{twice!r} twice", "Rename one.")


def _labels(
    frame: pd.DataFrame, codes: np.ndarray, rows: list[np.ndarray], ids: Any
) -> pd.DataFrame:
    """The labels of each series by its first row, or an error if a later one differs."""
    labels = frame.take([each[0] for each in rows]).reset_index(drop=True)
    for name in labels:
        given = frame[name].reset_index(drop=True)
        other = ~(given == labels[name].take(codes).reset_index(drop=True)).fillna(False)  # NaN too
        if (at := first_true(other)) is not None:
            code = codes[at]
            if pd.isna(given[at]):
                got = f"none in column {name!r} for {ids.tolist()[code]!r}"
                raise refusal("by", "hold a label in each row", got, "Fill it in.")
            own, label = given.tolist()[at], labels[name].tolist()[code]
            got = f"{own!r} beside {label!r} for {ids.tolist()[code]!r}"
            remedy = f"Correct the column {name!r}."
            raise refusal("by", "hold one label throughout a series", got, remedy)
    return labels


def _check_regressors(frame: pd.DataFrame, name: str, remedy: str) -> None:
    for column, dtype in frame.dtypes.items():
        if not is_real(dtype):
            must = "have numbers in its further columns, which are regressors"
            got = f"{column!r} of dtype {dtype}"
            raise refusal(name, must, got, remedy, TypeError)


def _times(column: pd.Series[Any], name: str) -> pd.Index[Any]:
    """Times of all rows as an index, or an error; missing ones are for each series to refuse."""
    types = pd.api.types
    if types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if isinstance(column.dtype, pd.PeriodDtype) or types.is_integer_dtype(column.dtype):
        index: pd.Index[Any] = pd.Index(column.array)
        return index
    must = "be a column of datetimes, periods or whole numbers"
    got = f"{column.name!r} of dtype {column.dtype}"
    raise refusal(name, must, got, "Convert it with pd.to_datetime.", TypeError)


def _time_kind(times: pd.Index[Any]) -> str:
    if isinstance(times, pd.DatetimeIndex):
        return "datetimes" if times.tz is None else "datetimes with a time zone"
    return f"periods {times.freqstr}" if isinstance(times, pd.PeriodIndex) else "whole numbers"


def _checked_freq(freq: Any, times: pd.Index[Any]) -> Any:
    """The frequency of times as pandas has it, of whole numbers their distance, or an error."""
    if freq is None:
        return None
    if isinstance(times, pd.PeriodIndex):
        raise refusal("freq", "be None for periods, which have one", repr(freq), "Leave it out.")
    if not isinstance(times, pd.DatetimeIndex):
        return check_whole("freq", freq, 1, "Of whole-number times it is their distance.")
    try:
        return to_offset(as_frequency(freq))
    except (ValueError, TypeError) as error:
        remedy = "'D', 'MS' and 'h' are some."
        raise refusal("freq", "be a frequency of pandas", repr(freq), remedy) from error


def _factorized(ids: pd.Series[Any], name: str) -> tuple[np.ndarray, Any]:
    """Code of each row, (rows,), and the ids in order of first appearance."""
    try:
        own = isinstance(ids.array, pd.arrays.NumpyExtensionArray)
        codes, unique = pd.factorize(ids.to_numpy() if own else ids.array)  # else pandas 2.3 warns
    except TypeError as error:
        got = f"{ids.name!r} with an {error}"
        remedy = "Convert them, lists for example to tuples."
        raise refusal(name, "be a column of hashable ids", got, remedy, TypeError) from error
    if len(codes) and codes.min() < 0:
        got = f"no id in row {int(codes.argmin())}"
        raise refusal(name, "name the series of each row", got, "Fill it in, or drop the row.")
    return codes, unique


def _positions(codes: np.ndarray, n: int) -> list[np.ndarray]:
    """Rows of each of the first n codes, in the order of the frame."""
    ends = np.cumsum(np.bincount(codes, minlength=n))
    return np.split(np.argsort(codes, kind="stable"), ends[:-1])[:n]
