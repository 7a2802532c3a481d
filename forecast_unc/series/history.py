"""A checked series up to its origin, and what is asked of the steps after it."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.tseries.offsets import CustomBusinessDay

from forecast_unc._checks import refusal
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.errors import ArgumentError
from forecast_unc.series import clock, times
from forecast_unc.series.exog import check_exog, check_uncertainty
from forecast_unc.series.opening import (
    Closures,
    Opening,
    check_on_grid,
    check_zeros,
    is_open,
    on_grid_of,
    open_grid,
    place_of,
)
from forecast_unc.series.values import check_follows, check_series, check_y_std


@dataclass(frozen=True, eq=False)
class Ahead:
    """The times of the steps after the origin, and their regressors."""

    index: pd.Index[Any]  # of length h
    exog: Array  # (h, k), where they are uncertain their means
    exog_cov: Array | None  # (h * k, h * k), all of step 1, then of step 2; None: known
    closures: Closures | None = None  # of all steps, if closed ones are told

    def known(self) -> Self:
        """Steps with their regressors known."""
        return replace(self, exog_cov=None)

    @property
    def given(self) -> tuple[pd.Index[Any], Flags]:
        """All steps, and which of them are closed."""
        if (told := self.closures) is None:
            return self.index, np.zeros(len(self.index), dtype=np.bool_)
        return told.index, told.closed

    def first(self, steps: int) -> Self:
        """The first steps alone."""
        if steps >= len(self.index):
            return self
        size = steps * self.exog.shape[1]
        cov = None if self.exog_cov is None else self.exog_cov[:size, :size]
        return replace(self, index=self.index[:steps], exog=self.exog[:steps], exog_cov=cov)

    def by_clock(self, history: History) -> tuple[Self, Positions]:
        """The steps after a history, local ones if it is by the clock, and the place of all given.

        An hour that clocks repeat has one place.
        """
        local, steps = history.index, np.arange(len(self.index))
        all_steps = steps if self.closures is None else self.closures.places
        if history.instants is None:
            return self, all_steps
        at = clock.local_slots(self.index) - clock.local_slots(local[-1:]) - 1
        at = np.maximum(at, 0)
        n, k = int(at.max()) + 1, self.exog.shape[1]
        cov = self.exog_cov
        if cov is not None and not np.array_equal(at, steps):
            matrix = np.kron(clock.filled(np.eye(len(steps)), at, n), np.eye(k))
            cov = matrix @ cov @ matrix.T
        index = times.future_index(local, n)
        local_steps = replace(self, index=index, exog=clock.filled(self.exog, at, n), exog_cov=cov)
        return local_steps, at[all_steps]

    def after(self, index: pd.Index[Any], exog: Array) -> Self:
        """These steps after others (m, k) that follow an index."""
        steps, size = times.future_index(index, len(exog) + len(self.index)), exog.size
        cov = None if self.exog_cov is None else np.pad(self.exog_cov, ((size, 0), (size, 0)))
        return replace(self, index=steps, exog=np.vstack([exog, self.exog]), exog_cov=cov)


@dataclass(frozen=True, eq=False)
class History:
    """A series that was checked: what a model is fitted to and forecasts from."""

    y: Array  # (n,), NaN where missing
    stds: Array  # (n,) of the measurement errors, in units of the series; 0 is exact
    index: pd.Index  # regular, with its frequency set
    exog: Array  # (n, k) regressors; k may be 0
    columns: pd.Index  # their names
    name: Any
    outliers: Array  # (n,), the values that are treated as missing, NaN elsewhere
    forgotten: int = 0  # values before these
    shifted: int = 0  # those of them that were left out as of another level
    instants: History | None = None  # what was given, of a history by the clock
    opening: Opening | None = None  # what told closed times, which are missing or left out

    @classmethod
    def checked(
        cls,
        y: pd.Series[Any],
        exog: object = None,
        y_std: object = None,
        columns: pd.Index | None = None,
    ) -> Self:
        """The history of a user's series, or an error in terms of it; `columns` None: any."""
        values, index = check_series(y)
        regressors = check_exog(exog, index, columns, "y")
        stds = check_y_std(y_std, values, index)
        if columns is None:
            columns = exog.columns if isinstance(exog, pd.DataFrame) else pd.Index([])
        none = np.full(len(values), np.nan)
        return cls(values, stds, index, regressors, columns, y.name, none)

    def opened(self, column: Hashable | None, name: str = "y") -> Self:
        """The history of open times: closed ones are missing, always closed weekdays left out."""
        if column is None:
            return self
        at = place_of(column, self.columns)
        open_ = is_open(column, self.exog[:, at], self.index)
        check_zeros(column, self.y, open_, self.index, name)
        grid = open_grid(self.index, open_)
        return self._on(grid, Opening(column, at, self.index, open_))

    def _on(self, grid: pd.Index[Any], told: Opening) -> Self:
        """The history on a grid of open days, without the regressor that tells them."""
        open_ = told.opened
        kept = check_on_grid(told.column, open_, self.index, grid, "exog") >= 0
        return replace(
            self,
            y=np.where(open_, self.y, np.nan)[kept],
            stds=np.where(open_, self.stds, 0.0)[kept],
            index=grid,
            exog=np.delete(self.exog, told.at, axis=1)[kept],
            columns=self.columns.delete(told.at),
            outliers=self.outliers[kept],
            opening=told,
        )

    @property
    def given_columns(self) -> pd.Index:
        """The names of all regressors that are asked for."""
        told = self.opening
        return self.columns if told is None else self.columns.insert(told.at, told.column)

    @property
    def last(self) -> pd.Index:
        """The last time that was given, open or closed, as an index with its frequency."""
        return (self.index if self.opening is None else self.opening.index)[-1:]

    @property
    def all_times(self) -> tuple[pd.Index[Any], Flags, Positions]:
        """All times that were given, (m,), which are closed, and the place of each value there."""
        if (told := self.opening) is None:
            return self.index, np.zeros(len(self.y), dtype=bool), np.arange(len(self.y))
        places = np.asarray(told.index.get_indexer(self.index), dtype=np.intp)
        return told.index, ~told.opened, places

    @property
    def given(self) -> Array:
        """The series with its outliers, NaN where missing, (n,)."""
        return np.where(np.isnan(self.outliers), self.y, self.outliers)

    def without(self, outliers: Flags) -> Self:
        """The history with some of the values that were given treated as missing, and no others."""
        given = self.given
        return replace(
            self, y=np.where(outliers, np.nan, given), outliers=np.where(outliers, given, np.nan)
        )

    def part(self, start: int, stop: int | None = None) -> Self:
        """The history from one position to another, that one not included."""
        arrays = ("y", "stds", "index", "exog", "outliers")
        parts = {name: getattr(self, name)[start:stop] for name in arrays}
        instants = self.instants
        if instants is not None:
            inside = np.flatnonzero(self.places < len(self.y[:stop]))
            instants = instants.part(int((self.places < start).sum()), int(inside[-1]) + 1)
        told = self.opening
        if told is not None and start and instants is None:
            told = told.since(self.index[start])
        forgotten = self.forgotten + start
        return replace(self, **parts, forgotten=forgotten, instants=instants, opening=told)

    def by_clock(self) -> Self:
        """The history on the grid of local times; itself without a time zone, or of whole days.

        An hour that clocks skip is missing. One that they repeat has the mean of its two values,
        from when it is over.
        """
        if not clock.has_clock(self.index):
            return self
        slots = clock.local_slots(self.index)
        first, end = slots.min(), slots.max() + 1
        with suppress(ArgumentError):  # beyond the dates that an index can hold
            following = times.future_index(self.index, clock.steps_of_change(self.index))
            end = min(end, clock.local_slots(following).min())
        n = max(int(end - first), 1)
        some = slots - first < n
        at = slots[some] - first
        counts = np.maximum(np.bincount(at, ~np.isnan(self.y[some]), minlength=n), 1.0)
        stds = np.where(np.isnan(self.y), 0.0, self.stds)[some]
        return replace(
            self,
            y=clock.means(self.y[some], at, n),
            stds=np.sqrt(np.bincount(at, stds**2, minlength=n)) / counts,
            index=clock.local_grid(self.index, n),
            exog=clock.filled(self.exog[some], at, n),
            outliers=clock.means(self.outliers[some], at, n),
            instants=self,
        )

    @property
    def two_valued(self) -> Flags:
        """Which regressors have two values at most, such as a promotion, (k,)."""
        return np.array([len(np.unique(column)) <= 2 for column in self.exog.T], dtype=np.bool_)

    @property
    def places(self) -> Positions:
        """The place of each value that was given; one not in use has -1."""
        if self.instants is None:
            return np.arange(len(self.y))
        slots = clock.local_slots(self.instants.index)
        at = slots - slots.min()
        return np.where(at < len(self.y), at, -1)

    def to_last_value(self) -> Self:
        """The history up to its last observed value; itself if that is the last one."""
        missing = int(np.isnan(self.y[::-1]).argmin()) if len(self.y) else 0
        return self.part(0, len(self.y) - missing) if missing else self

    def alike(self, y: pd.Series[Any], exog: object = None, y_std: object = None) -> Self:
        """Another series of the same frequency, with the same regressors; see `checked`."""
        other = self.checked(y, exog, y_std, self.given_columns)
        if (told := self.opening) is not None:
            open_ = is_open(told.column, other.exog[:, told.at], other.index)
            check_zeros(told.column, other.y, open_, other.index, "y")
            grid = on_grid_of(other.index, times.spacing(self.index))
            other = other._on(grid, replace(told, index=other.index, opened=open_))
        if times.spacing(self.index) != times.spacing(other.index):
            must = f"have the frequency of the fit, {_named(self.index)}"
            raise refusal("y", must, _named(other.index), "Fit a new model.")
        if times.index_kind(self.index) != times.index_kind(other.index):
            must = f"have the kind of index of the fit, {times.index_kind(self.index)}"
            remedy = times.conversion(other.index, self.index, "y")
            raise refusal("y", must, times.index_kind(other.index), remedy)
        return other

    def followed_by(self, y_new: pd.Series[Any], exog: object = None, y_std: object = None) -> Self:
        """The history with its outliers and the values that came next, without a gap."""
        try:
            series = check_follows(y_new, self.last)
        except ArgumentError as error:
            late = "Values that were revised or came late: model = model.apply(corrected), "
            raise error.but(context=f"{late}with the whole corrected series.") from None
        told = self.opening
        values, _ = check_series(series, "y_new", all_missing=True)
        regressors = check_exog(exog, series.index, self.given_columns, "y_new")
        stds = check_y_std(y_std, values, series.index, "y_new")
        if told is not None:
            open_ = is_open(told.column, regressors[:, told.at], series.index)
            check_zeros(told.column, values, open_, series.index, "y_new")
            new = History(values, stds, series.index, regressors, self.given_columns, None, values)
            later = replace(told, index=series.index, opened=open_)
            new = new._on(on_grid_of(series.index, times.spacing(self.index)), later)
            values, stds, regressors = new.y, new.stds, new.exog
            index = times.extended_index(told.index, len(open_))
            told = replace(told, index=index, opened=np.append(told.opened, open_))
        return replace(
            self,
            y=np.concatenate([self.given, values]),
            stds=np.concatenate([self.stds, stds]),
            index=times.extended_index(self.index, len(values)),
            exog=np.vstack([self.exog, regressors]),
            outliers=np.full(len(self.y) + len(values), np.nan),
            opening=told,
        )

    def future(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_std: object = None,
        exog_cov: object = None,
    ) -> Ahead:
        """The next steps, with their regressors; see `Forecaster.forecast`."""
        told, columns = self.opening, self.given_columns
        index = times.future_index(self.last, steps)
        regressors = check_exog(exog, index, columns, f"the {steps} steps after the origin")
        cov = check_uncertainty(exog_std, exog_cov, exog, columns)
        if told is None:
            return Ahead(index, regressors, cov)
        open_ = is_open(told.column, regressors[:, told.at], index)
        grid = times.future_index(self.index, steps)
        grid = grid[: max(1, int((grid <= index[-1]).sum()))]
        places = check_on_grid(told.column, open_, index, grid, "exog")
        on_grid = np.flatnonzero(places >= 0)
        rows = on_grid if len(on_grid) else np.array([0])  # a step that is closed like all
        k = len(columns)
        if cov is not None:
            kept = (k * rows[:, None] + np.delete(np.arange(k), told.at)).ravel()
            if (var := cov.diagonal()[told.at :: k]).any():
                at, name = int(var.argmax()), "exog_std" if exog_cov is None else "exog_cov"
                size = np.sqrt(var[at]) if exog_cov is None else var[at]
                got = f"{size:g} at {times.format_time(index, at)}"
                raise refusal(name, f"be 0 for {told.column!r}", got, "Closed times are known.")
            cov = np.ascontiguousarray(cov[np.ix_(kept, kept)])
        closures = Closures(index, ~open_, np.maximum(places, 0))
        return Ahead(grid, np.delete(regressors, told.at, axis=1)[rows], cov, closures)

    def time(self, position: int) -> str:
        """The time at a position, as text."""
        return times.format_time(self.index, position)

    def described(self) -> str:
        """The series in a line: values, times, what is missing, regressors."""
        _, closed, places = self.all_times
        missing, k = int((np.isnan(self.given) & ~closed[places]).sum()), len(self.columns)
        said = [f"{'series' if self.name is None else self.name}: {len(self.y)} values"]
        freq = getattr(self.index, "freq", None)
        every = f"frequency {_named(self.index)}"
        if months := times.months_of(freq):
            every = "every month" if months == 1 else f"every {months} months"
        if isinstance(freq, CustomBusinessDay):
            mask = freq.calendar.weekmask
            days = [day for day, on in zip(times.WEEKDAYS, mask, strict=True) if on]
            every = f"open on {' '.join(days)}"
        said.append(f"from {self.time(0)} to {self.time(-1)}, {every}")
        said += [f"{missing} missing"] if missing else []
        said += [f"{k} {'regressor' if k == 1 else 'regressors'}"] if k else []
        return ", ".join(said)


def _named(index: pd.Index[Any]) -> str:
    """Spacing as text; the frequency of periods is spelled M, and not ME as that of dates."""
    return str(getattr(index, "freqstr", times.spacing(index)))
