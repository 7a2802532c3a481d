"""What valid regressors are: values at the given times, and their uncertainty."""

from __future__ import annotations

import numpy as np
import pandas as pd

from forecast_unc._checks import LARGEST, check_covariance
from forecast_unc._typing import Array
from forecast_unc.series.frames import kind
from forecast_unc.series.times import format_time, index_kind
from forecast_unc.series.values import is_real


def check_exog(exog: object, index: pd.Index, columns: pd.Index | None, when: str) -> Array:
    """Values of a frame of regressors aligned with `index`, of shape (len(index), k).

    Parameters
    ----------
    exog : DataFrame or None
        Regressors, one column each; None for none.
    index : Index
        The times it must have.
    columns : Index or None
        The columns it must have, in any order; None at the fit, where they are what they are.
    when : str
        What the times are, for the message: "y" or "the 12 steps after the origin".

    Returns
    -------
    ndarray of shape (len(index), k)
        In the order of `columns`.
    """
    if exog is None:
        if columns is not None and len(columns):
            raise ValueError(
                f"exog must be given for {when}; got None, but the model was fitted with "
                f"{list(columns)}. Pass a DataFrame with their values."
            )
        return np.empty((len(index), 0))
    frame = check_aligned(exog, index, when)
    _check_columns(frame, columns)
    if columns is not None:
        frame = frame[list(columns)]
    # contiguous, so that sums do not depend on the memory layout of the frame
    values: Array = np.array(frame.to_numpy(dtype=np.float64, na_value=np.nan), order="C")
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        rule, remedy = "finite", "Fill or drop it knowingly"
        if np.isfinite(values[row, column]):
            rule, remedy = f"within {LARGEST:g} of 0", "Divide the column by a constant"
        raise ValueError(
            f"exog must be {rule}; got {values[row, column]} at {format_time(index, int(row))} in "
            f"column {frame.columns[column]!r}. {remedy}."
        )
    return values


def _check_columns(frame: pd.DataFrame, columns: pd.Index | None) -> None:
    """Raise unless the columns are distinct, numeric, and those of the fit."""
    if columns is not None and not len(columns):
        raise ValueError(
            "exog must be None for a model fitted without regressors; got a DataFrame. Give it to "
            "fit too, or leave it out."
        )
    if not frame.columns.is_unique:
        raise ValueError(
            "exog must have distinct columns; got "
            f"{frame.columns[frame.columns.duplicated()][0]!r} twice. Rename one."
        )
    if columns is not None and set(frame.columns) != set(columns):
        raise ValueError(
            f"exog must have the columns of the fit, {list(columns)}; got {list(frame.columns)}. "
            "Select them."
        )
    for column, dtype in frame.dtypes.items():
        if not is_real(dtype):
            raise TypeError(
                f"exog must be numeric; got column {column!r} of dtype {dtype}. Encode it as "
                "numbers."
            )


def check_aligned(exog: object, index: pd.Index, when: str, name: str = "exog") -> pd.DataFrame:
    """The regressors, if they are a frame with exactly the given times, or an error.

    Parameters
    ----------
    exog : object
        The argument.
    index : Index
        The times it must have.
    when : str
        What the times are, for the message.
    name : str
        Name of the argument in the message.

    Returns
    -------
    DataFrame
    """
    if not isinstance(exog, pd.DataFrame):
        found = type(exog).__name__
        raise TypeError(
            f"{name} must be a pandas DataFrame; got "
            f"{kind(exog) if found == 'DataFrame' else found}. For one regressor use "
            "series.to_frame(), of another library's frame df.to_pandas().set_index(times)."
        )
    if exog.index.equals(index):
        return exog
    ours, theirs = index_kind(index), index_kind(exog.index)
    absent = index.difference(exog.index) if ours == theirs else index
    if ours != theirs:
        got, remedy = f"an index of another kind, {theirs} and not {ours}", "Convert it"
        if theirs == "text":
            remedy = f"Convert it with pd.to_datetime({name}.index)"
    elif len(absent):
        got, remedy = f"no row at {format_time(absent, 0)}", "Give a value for every time"
    elif len(exog) == len(index):
        got, remedy = "the same times in another order", f"Sort them with {name}.sort_index()"
    else:
        got, remedy = f"{len(exog)} rows", f"Select the times with {name}.loc[...]"
    raise ValueError(
        f"{name} must have exactly the times of {when}, {len(index)} rows from "
        f"{format_time(index, 0)}; got {got}. {remedy}."
    )


def check_uncertainty(
    exog_std: object,
    exog_cov: object,
    exog: pd.DataFrame | None,
    columns: pd.Index | None = None,
) -> Array | None:
    """Covariance of future regressors, of shape (h * k, h * k), or None if they are known.

    Parameters
    ----------
    exog_std : DataFrame, ndarray of shape (h, k) or None
        Standard deviations of independent errors, a frame with the index and columns of `exog`.
    exog_cov : DataFrame, ndarray of shape (h * k, h * k) or None
        Covariance of all errors, step by step: all columns of step 1, then of step 2, and so on.
        A frame with the index and columns of `exog` holds standard deviations.
    exog : DataFrame or None
        The regressors of h steps in k columns, checked by `check_exog`.
    columns : Index, optional
        The order of the columns in the result; by default that of `exog`. An array is always in
        that of `exog`, as a frame is by name.

    Returns
    -------
    ndarray of shape (h * k, h * k) or None
        A copy.
    """
    if exog_std is None and exog_cov is None:
        return None
    if exog_std is not None and exog_cov is not None:
        raise ValueError(
            "exog_std must be None beside exog_cov; got both. The diagonal of a covariance holds "
            "the squared stds: give one of the two."
        )
    name, given = ("exog_cov", exog_cov) if exog_std is None else ("exog_std", exog_std)
    if exog is None:
        raise ValueError(
            f"{name} must be None without exog; got one. Give the regressors' means as exog."
        )
    if not isinstance(given, (pd.DataFrame, np.ndarray)):
        raise TypeError(
            f"{name} must be a DataFrame or an array; got {type(given).__name__}. Give stds as "
            "exog_std, a frame like exog; a covariance as exog_cov, an array."
        )
    if exog_std is not None or _is_like(given, exog):
        cov = np.diag(_check_stds(name, given, exog).ravel() ** 2)
    else:
        cov = _finite(name, given)
        check_covariance(name, cov)
    if not cov.any():
        return None
    if columns is None:
        return cov
    h, k = exog.shape
    order = np.add.outer(k * np.arange(h), exog.columns.get_indexer(columns)).ravel()
    return np.ascontiguousarray(cov[np.ix_(order, order)])


def _check_stds(name: str, given: pd.DataFrame | np.ndarray, exog: pd.DataFrame) -> Array:
    """Standard deviations like the regressors, of shape (h, k)."""
    if isinstance(given, pd.DataFrame):
        check_aligned(given, exog.index, "exog", name)
        if not _same_columns(given, exog):
            raise ValueError(
                f"{name} must have the columns of exog, {list(exog.columns)}; got "
                f"{list(given.columns)}. Select them."
            )
        given = given[list(exog.columns)]
    elif given.shape != exog.shape:
        raise ValueError(
            f"{name} must have shape {exog.shape}, steps times regressors; got shape "
            f"{given.shape}. Give a covariance as exog_cov."
        )
    stds = _finite(name, given)
    if (stds < 0).any():
        raise ValueError(
            f"{name} must hold no negative std; got {stds.min():g}. Give 0 for a regressor that "
            "is known."
        )
    return stds


def _is_like(exog_cov: pd.DataFrame | np.ndarray, exog: pd.DataFrame) -> bool:
    """Whether a covariance is a frame of stds; an error unless it is clear, or for its shape."""
    if isinstance(exog_cov, pd.DataFrame):
        index, columns = exog_cov.index.equals(exog.index), _same_columns(exog_cov, exog)
        if index and columns:
            return True
        if columns or (index and exog_cov.shape == exog.shape):
            raise ValueError(
                "exog_cov must have exog's index and columns to be taken as stds; got other "
                f"{'index' if columns else 'columns'}. Give stds as exog_std, a covariance as an "
                "array."
            )
    if exog_cov.shape != (exog.size, exog.size):
        raise ValueError(
            f"exog_cov must be a covariance of shape {exog.size, exog.size}, steps times "
            f"regressors; got shape {exog_cov.shape}. Order it by step, the columns of exog within "
            "each; give stds as exog_std."
        )
    return False


def _same_columns(frame: pd.DataFrame, exog: pd.DataFrame) -> bool:
    """Whether a frame has the columns of the regressors, in any order."""
    return frame.columns.is_unique and set(frame.columns) == set(exog.columns)


def _finite(name: str, given: pd.DataFrame | np.ndarray) -> Array:
    """A copy of finite real numbers, contiguous."""
    dtypes = given.dtypes if isinstance(given, pd.DataFrame) else [given.dtype]
    if not all(is_real(dtype) for dtype in dtypes):
        raise TypeError(f"{name} must be numeric; got other values. Encode it as numbers.")
    if isinstance(given, pd.DataFrame):
        given = given.to_numpy(dtype=np.float64, na_value=np.nan)
    values: Array = np.array(given, dtype=np.float64, order="C")
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite; got {values[~np.isfinite(values)][0]}. Give 0 for a "
            "regressor that is known."
        )
    return values
