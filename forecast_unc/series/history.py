"""A checked series up to its origin, and what is asked of the steps after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.series.exog import check_exog, check_uncertainty
from forecast_unc.series.times import (
    extended_index,
    format_time,
    future_index,
    index_kind,
)
from forecast_unc.series.values import check_follows, check_is_series, check_series, check_y_std


@dataclass(frozen=True, eq=False)
class Ahead:
    """The times of the steps after the origin, and their regressors.

    Parameters
    ----------
    index : Index of length h
        The times.
    exog : ndarray of shape (h, k)
        Regressors, where they are uncertain their means.
    exog_cov : ndarray of shape (h * k, h * k) or None
        Their covariance, all of step 1, then of step 2, and so on; None if they are known.
    """

    index: pd.Index[Any]
    exog: Array
    exog_cov: Array | None

    def known(self) -> Self:
        """The same with its regressors known."""
        return replace(self, exog_cov=None)

    def first(self, steps: int) -> Self:
        """The first steps alone."""
        size = steps * self.exog.shape[1]
        cov = None if self.exog_cov is None else self.exog_cov[:size, :size]
        return replace(self, index=self.index[:steps], exog=self.exog[:steps], exog_cov=cov)


@dataclass(frozen=True, eq=False)
class History:
    """A series that was checked: what a model is fitted to and forecasts from.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The series, NaN where missing.
    stds : ndarray of shape (n,)
        Stds of the measurement errors, in units of the series; 0 is exact.
    index : Index of length n
        Regular, with its frequency set.
    exog : ndarray of shape (n, k)
        Regressors; k may be 0.
    columns : Index of length k
        Their names.
    name : hashable
        Name of the series.
    outliers : ndarray of shape (n,)
        The values that are taken for missing, NaN elsewhere.
    """

    y: Array
    stds: Array
    index: pd.Index
    exog: Array
    columns: pd.Index
    name: Any
    outliers: Array

    @classmethod
    def checked(cls, y: object, exog: object = None, y_std: object = None) -> Self:
        """The history of a user's series, or an error in terms of it.

        Parameters
        ----------
        y : Series
            See `Forecaster.fit`.
        exog : DataFrame, optional
            Regressors.
        y_std : Series, optional
            Stds of the measurement errors.

        Returns
        -------
        History

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be.
        """
        series = check_is_series(y)
        values, index = check_series(series)
        regressors = check_exog(exog, index, None, "y")
        stds = check_y_std(y_std, values, index)
        columns = exog.columns if isinstance(exog, pd.DataFrame) else pd.Index([])
        none = np.full(len(values), np.nan)
        return cls(values, stds, index, regressors, columns, series.name, none)

    @property
    def given(self) -> Array:
        """The series with its outliers, NaN where missing, (n,)."""
        return np.where(np.isnan(self.outliers), self.y, self.outliers)

    def without(self, outliers: NDArray[np.bool_]) -> Self:
        """The history with some of the values that were given taken for missing, and no others."""
        given = self.given
        return replace(
            self, y=np.where(outliers, np.nan, given), outliers=np.where(outliers, given, np.nan)
        )

    def before(self, position: int) -> Self:
        """The history up to a position, that one not included."""
        first = slice(position)
        return replace(
            self,
            y=self.y[first],
            stds=self.stds[first],
            index=self.index[first],
            exog=self.exog[first],
            outliers=self.outliers[first],
        )

    def alike(self, y: object, exog: object = None, y_std: object = None) -> Self:
        """Another series of the same frequency, with the same regressors; see `checked`."""
        series = check_is_series(y)
        values, index = check_series(series)
        ours, theirs = _spacing(self.index), _spacing(index)
        if ours != theirs:
            raise ValueError(
                f"y must have the frequency of the fit, {ours!r}; got {theirs!r}. Fit a new model."
            )
        if index_kind(self.index) != index_kind(index):
            raise ValueError(
                f"y must have the kind of index of the fit, {index_kind(self.index)}; got "
                f"{index_kind(index)}. Convert it with y.tz_localize or y.tz_convert."
            )
        regressors = check_exog(exog, index, self.columns, "y")
        stds = check_y_std(y_std, values, index)
        return replace(
            self,
            y=values,
            stds=stds,
            index=index,
            exog=regressors,
            name=series.name,
            outliers=np.full(len(values), np.nan),
        )

    def followed_by(self, y_new: object, exog: object = None, y_std: object = None) -> Self:
        """The history with its outliers and the values that came next.

        Parameters
        ----------
        y_new : Series
            The next values; its index starts where this one ends.
        exog : DataFrame, optional
            Their regressors.
        y_std : Series, optional
            Stds of their measurement errors.

        Returns
        -------
        History

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be.
        """
        series = check_follows(y_new, self.index)
        values, _ = check_series(series, "y_new", all_missing=True)
        regressors = check_exog(exog, series.index, self.columns, "y_new")
        stds = check_y_std(y_std, values, series.index, "y_new")
        return replace(
            self,
            y=np.concatenate([self.given, values]),
            stds=np.concatenate([self.stds, stds]),
            index=extended_index(self.index, len(values)),
            exog=np.vstack([self.exog, regressors]),
            outliers=np.full(len(self.y) + len(values), np.nan),
        )

    def future(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_std: object = None,
        exog_cov: object = None,
    ) -> Ahead:
        """The next steps, with their regressors.

        Parameters
        ----------
        steps : int
            How many.
        exog, exog_std, exog_cov
            As of `Forecaster.forecast`.

        Returns
        -------
        Ahead

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be.
        """
        index = future_index(self.index, steps)
        regressors = check_exog(exog, index, self.columns, f"the {steps} steps after the origin")
        return Ahead(index, regressors, check_uncertainty(exog_std, exog_cov, exog, self.columns))

    def time(self, position: int) -> str:
        """The time at a position, as text."""
        return format_time(self.index, position)


def _spacing(index: pd.Index[Any]) -> object:
    """Frequency of a regular index, or the step of one of whole numbers."""
    return index.step if isinstance(index, pd.RangeIndex) else getattr(index, "freq", None)
