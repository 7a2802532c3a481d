"""What valid regressors are: values at the given times, and their uncertainty."""

from __future__ import annotations

import numpy as np
import pandas as pd

from forecast_unc._typing import Array
from forecast_unc.forecasting.times import format_time


def check_exog(exog: object, index: pd.Index, columns: pd.Index | None, when: str) -> Array:
    """Values of a frame of regressors aligned with `index`, of shape (len(index), k).

    Parameters
    ----------
    exog : DataFrame or None
        Regressors, one column each; None for none.
    index : Index
        The times it must have.
    columns : Index or None
        The columns it must have; None at the fit, where they are what they are.
    when : str
        What the times are, for the message: "y" or "the 12 steps after the origin".

    Returns
    -------
    ndarray of shape (len(index), k)
    """
    if exog is None:
        if columns is not None and len(columns):
            raise ValueError(
                f"exog must be given for {when}; got None, but the model was fitted with "
                f"{list(columns)}. Pass a DataFrame with their values."
            )
        return np.empty((len(index), 0))
    frame = check_aligned(exog, index, when)
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
    if columns is not None and list(frame.columns) != list(columns):
        raise ValueError(
            f"exog must have the columns of the fit, {list(columns)}; got {list(frame.columns)}. "
            "Select and order them."
        )
    not_numeric = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c].dtype)]
    if not_numeric:
        raise TypeError(
            f"exog must be numeric; got column {not_numeric[0]!r} of dtype "
            f"{frame[not_numeric[0]].dtype}. Encode it as numbers."
        )
    # contiguous, so that sums do not depend on the memory layout of the frame
    values: Array = np.array(frame.to_numpy(dtype=np.float64, na_value=np.nan), order="C")
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"exog must be finite; got {values[row, column]} at {format_time(index, int(row))} in "
            f"column {frame.columns[column]!r}. Fill or drop it knowingly."
        )
    return values


def check_aligned(exog: object, index: pd.Index, when: str) -> pd.DataFrame:
    """The regressors, if they are a frame with exactly the given times, or an error.

    Parameters
    ----------
    exog : object
        What came as regressors.
    index : Index
        The times it must have.
    when : str
        What the times are, for the message.

    Returns
    -------
    DataFrame
    """
    if not isinstance(exog, pd.DataFrame):
        raise TypeError(
            f"exog must be a pandas DataFrame; got {type(exog).__name__}. For one regressor use "
            "series.to_frame()."
        )
    if exog.index.equals(index):
        return exog
    absent = index.difference(exog.index)
    if len(absent):
        got, remedy = f"no row at {format_time(absent, 0)}", "Give a value for every time"
    elif len(exog) == len(index):
        got, remedy = "the same times in another order", "Sort them with exog.sort_index()"
    else:
        got, remedy = f"{len(exog)} rows", "Select the times with exog.loc[...]"
    raise ValueError(
        f"exog must have exactly the times of {when}, {len(index)} rows from "
        f"{format_time(index, 0)}; got {got}. {remedy}."
    )


def check_exog_cov(exog_cov: object, exog: pd.DataFrame | None) -> Array | None:
    """Covariance of future regressors, of shape (h * k, h * k), or None if they are known.

    Parameters
    ----------
    exog_cov : DataFrame, ndarray or None
        A frame like `exog` of standard deviations, for independent errors; or the covariance
        of all of them, step by step: all columns of step 1, then of step 2, and so on.
    exog : DataFrame or None
        The regressors, checked by `check_exog`.

    Returns
    -------
    ndarray of shape (h * k, h * k) or None
    """
    if exog_cov is None:
        return None
    if exog is None:
        raise ValueError(
            "exog_cov must be None without exog; got one. Give the regressors' means as exog."
        )
    size = exog.size
    if not isinstance(exog_cov, (pd.DataFrame, np.ndarray)):
        raise TypeError(
            "exog_cov must be a DataFrame or an array; got "
            f"{type(exog_cov).__name__}. Give stds as a frame like exog."
        )
    stds = (
        isinstance(exog_cov, pd.DataFrame)
        and exog_cov.columns.equals(exog.columns)
        and exog_cov.index.equals(exog.index)
    )
    if not stds and exog_cov.shape != (size, size):
        rule = f"stds with the index and columns of exog, or a covariance of shape {size, size}"
        raise ValueError(
            f"exog_cov must be {rule}; got shape {exog_cov.shape}. "
            "A covariance holds all columns of step 1, then of step 2, and so on."
        )
    try:
        values: Array = np.array(exog_cov, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "exog_cov must be numeric; got other values. Encode it as numbers."
        ) from None
    if not np.isfinite(values).all():
        raise ValueError(
            f"exog_cov must be finite; got {values[~np.isfinite(values)][0]}. Give 0 for a "
            "regressor that is known."
        )
    if stds:
        if values.min() < 0:
            raise ValueError(
                f"exog_cov must hold no negative std; got {values.min():g}. Give 0 for a "
                "regressor that is known."
            )
        values = np.diag(values.ravel() ** 2)
    else:
        # of the correlations, so that the units of the regressors do not matter
        std = np.sqrt(np.maximum(np.diagonal(values), 0.0))
        unit = np.where(std > 0, std, 1.0)
        correlation = values / np.outer(unit, unit)
        if np.abs(correlation - correlation.T).max() > 1e-8:
            raise ValueError(
                "exog_cov must be symmetric; got a matrix that is not. Check the order of its rows."
            )
        lowest = np.linalg.eigvalsh(correlation)[0]
        if lowest < -1e-8:
            raise ValueError(
                "exog_cov must be positive semidefinite; got a smallest eigenvalue of "
                f"{lowest:.2g}, rows and columns in units of their stds. Estimate it from data, or "
                "give stds."
            )
    return values if values.any() else None
