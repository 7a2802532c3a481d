"""Checks of regressors: values at the given times, and their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._checks import LARGEST, check_covariance, refusal
from forecast_unc._typing import Array, Flags
from forecast_unc.series.times import conversion, format_time, index_kind, native_times
from forecast_unc.series.values import is_real, kind, native


def check_exog(exog: object, index: pd.Index, columns: pd.Index | None, when: str) -> Array:
    """Regressors (len(index), k) at the times of `index`, in the order of `columns`.

    `columns` is None at the fit, where they are what they are; `when` says in messages what the
    times are, such as "y" or "the 12 steps after the origin".
    """
    if exog is None:
        if columns is not None and len(columns):
            got = f"None, but the model was fitted with {list(columns)}"
            remedy = "Pass a DataFrame with their values."
            raise refusal("exog", f"be given for {when}", got, remedy, code="absent")
        return np.empty((len(index), 0))
    frame = check_aligned(exog, index, when)
    if columns is not None and not len(columns):
        must = "be None for a model fitted without regressors"
        raise refusal("exog", must, "a DataFrame", "Give it to fit too, or leave it out.")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise refusal("exog", "have distinct columns", f"{twice!r} twice", "Rename one.")
    if columns is not None:
        if set(frame.columns) != set(columns):
            must = f"have the columns of the fit, {list(columns)}"
            raise refusal("exog", must, f"{list(frame.columns)}", "Select them.")
        frame = frame[list(columns)]
    for column, dtype in frame.dtypes.items():
        if not is_real(dtype):
            got = f"column {column!r} of dtype {dtype}"
            raise refusal("exog", "be numeric", got, "Encode it as numbers.", TypeError)
    # contiguous, so that sums do not depend on the memory layout of the frame
    values: Array = np.array(frame.to_numpy(dtype=np.float64, na_value=np.nan), order="C")
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = values[row, column]
        must, remedy = "be finite", "Fill or drop it knowingly."
        if np.isfinite(value):
            must, remedy = f"be within {LARGEST:g} of 0", "Divide the column by a constant."
        place = f"at {format_time(index, int(row))} in column {frame.columns[column]!r}"
        raise refusal("exog", must, f"{value} {place}", remedy)
    return values


def check_aligned(exog: object, index: pd.Index, when: str, name: str = "exog") -> pd.DataFrame:
    """The regressors, if they are a frame with exactly the given times, or an error."""
    if not isinstance(exog, pd.DataFrame):
        found = type(exog).__name__
        got = kind(exog) if found == "DataFrame" else found
        remedy = "For one regressor use series.to_frame(), of another library's frame "
        remedy += "df.to_pandas().set_index(times)."
        raise refusal(name, "be a pandas DataFrame", got, remedy, TypeError)
    exog, index = native(exog), native_times(index)
    if exog.index.equals(index):
        return exog
    ours, theirs = index_kind(index), index_kind(exog.index)
    absent = index.difference(exog.index) if ours == theirs else index
    if ours != theirs:
        got = f"an index of another kind, {theirs} and not {ours}"
        remedy = conversion(exog.index, index, name)
    elif len(absent):
        got, remedy = f"no row at {format_time(absent, 0)}", "Give a value for every time."
    elif len(exog) == len(index):
        got, remedy = "the same times in another order", f"Sort them with {name}.sort_index()."
    else:
        got, remedy = f"{len(exog)} rows", f"Select the times with {name}.loc[...]."
    times = f"{len(index)} rows from {format_time(index, 0)}"
    raise refusal(name, f"have exactly the times of {when}, {times}", got, remedy)


def check_uncertainty(
    exog_std: object, exog_cov: object, exog: pd.DataFrame | None, columns: pd.Index | None = None
) -> Array | None:
    """Covariance (h * k, h * k) of the regressors of h steps, step by step; None: known.

    Stds are a frame with the index and columns of `exog`, or an array (h, k) in its order; a
    covariance is an array, or a frame, which holds stds if it is like `exog`. The order of the
    result is that of `columns`, by default of `exog`.
    """
    if exog_std is None and exog_cov is None:
        return None
    if exog_std is not None and exog_cov is not None:
        remedy = "The diagonal of a covariance holds the squared stds: give one of the two."
        raise refusal("exog_std", "be None beside exog_cov", "both", remedy)
    name, given = ("exog_cov", exog_cov) if exog_std is None else ("exog_std", exog_std)
    if exog is None:
        raise refusal(name, "be None without exog", "one", "Give the regressors' means as exog.")
    if not isinstance(given, (pd.DataFrame, np.ndarray)):
        remedy = "Give stds as exog_std, a frame like exog; a covariance as exog_cov, an array."
        raise refusal(name, "be a DataFrame or an array", type(given).__name__, remedy, TypeError)
    stds = exog_std is not None
    dtypes: Any = [given.dtype] if isinstance(given, np.ndarray) else given.dtypes
    if isinstance(given, pd.DataFrame):
        times = given.index.equals(exog.index)
        same = given.columns.is_unique and set(given.columns) == set(exog.columns)
        if stds:
            check_aligned(given, exog.index, "exog", name)
            if not same:
                must = f"have the columns of exog, {list(exog.columns)}"
                raise refusal(name, must, f"{list(given.columns)}", "Select them.")
        elif times != same and (same or given.shape == exog.shape):
            must = "have exog's index and columns to be taken as stds"
            remedy = "Give stds as exog_std, a covariance as an array."
            raise refusal(name, must, f"other {'columns' if times else 'index'}", remedy)
        stds = times and same
        given = given[list(exog.columns)] if stds else given
    must, remedy = f"have shape {exog.shape}", "Give a covariance as exog_cov."
    if not stds:
        must = f"be a covariance of shape {exog.size, exog.size}"
        remedy = "Order it by step, the columns of exog within each; give stds as exog_std."
    if given.shape != (exog.shape if stds else (exog.size, exog.size)):
        must += ", steps times regressors"
        raise refusal(name, must, f"shape {given.shape}", remedy)
    if not all(map(is_real, dtypes)):
        raise refusal(name, "be numeric", "other values", "Encode it as numbers.", TypeError)
    if isinstance(given, pd.DataFrame):
        given = given if stds else _in_order(name, given, exog)
        given = given.to_numpy(dtype=np.float64, na_value=np.nan)
    cov: Array = np.array(given, dtype=np.float64, order="C")
    known = "Give 0 for a regressor that is known."
    if not np.isfinite(cov).all():
        raise refusal(name, "be finite", f"{cov[~np.isfinite(cov)][0]}", known)
    if stds:
        if (cov < 0).any():
            raise refusal(name, "hold no negative std", f"{cov.min():g}", known)
        if (cov > LARGEST).any():
            remedy = "Divide the column by a constant."
            raise refusal(name, f"be at most {LARGEST:g}", f"{cov.max():g}", remedy)
        cov = np.diag(cov.ravel() ** 2)
    else:
        check_covariance(name, cov)
    if not cov.any():
        return None
    if columns is None:
        return cov
    h, k = exog.shape
    order = np.add.outer(k * np.arange(h), exog.columns.get_indexer(columns)).ravel()
    return np.ascontiguousarray(cov[np.ix_(order, order)])


def shares_errors(one: Array | None, other: Array | None, k: int) -> Flags | None:
    """Which of k regressors of two futures have one error, (k,): those of the same covariance.

    None where these have other covariances with each other, and it is not known what is shared.
    """
    shared = np.zeros(k, dtype=np.bool_)
    if one is None or other is None:
        return shared
    h = len(one) // k
    both = np.array([one, other]).reshape(2, h, k, h, k)
    for j in range(k):
        own = both[:, :, j, :, j]
        shared[j] = own[0].any() and np.array_equal(own[0], own[1])
    among = both[:, :, shared][..., shared]
    return shared if np.array_equal(among[0], among[1]) else None


def joint_errors(covs: Sequence[Array | None], h: int, k: int) -> Array | None:
    """Covariance (s h k, s h k) of the errors of k regressors in s futures; None: all known.

    Two futures have those errors in common of which they have the same covariance; the others are
    independent given these.
    """
    if all(cov is None for cov in covs):
        return None
    n, s = h * k, len(covs)
    joint = np.zeros((s, n, s, n))
    for a, one in enumerate(covs):
        for b, other in enumerate(covs[: a + 1]):
            shared = np.tile(a == b, k) if a == b else shares_errors(one, other, k)
            if one is None or other is None or shared is None or not shared.any():
                continue
            joint[a, :, b] = one
            if a != b and not np.array_equal(one, other):
                some = np.tile(shared, h)
                own = one[np.ix_(some, some)]
                joint[a, :, b] = one[:, some] @ np.linalg.pinv(own, hermitian=True) @ other[some]
            joint[b, :, a] = joint[a, :, b].T
    return joint.reshape(s * n, s * n)


def _in_order(name: str, cov: pd.DataFrame, exog: pd.DataFrame) -> pd.DataFrame:
    """A covariance by step, then regressor; by position where its labels are neither."""
    both, order = pd.MultiIndex.from_product([exog.index, exog.columns]), []
    for axis, labels in enumerate(cov.axes):
        wanted: pd.Index = exog.index if labels.nlevels == 1 and exog.shape[1] == 1 else both
        some = labels.nlevels == wanted.nlevels and labels.is_unique
        at = labels.get_indexer(wanted) if some else np.array([-1])
        known = bool((at >= 0).all())
        if not known and isinstance(labels, (pd.MultiIndex, pd.DatetimeIndex, pd.PeriodIndex)):
            must = f"be labelled by time and regressor, such as {both[0]}, or not at all"
            remedy = "Label it by pd.MultiIndex.from_product([exog.index, exog.columns])."
            raise refusal(name, must, f"other {('rows', 'columns')[axis]}", remedy)
        order.append(at if known else np.arange(len(labels)))
    return cov.iloc[order[0], order[1]]


def check_exog_lags(lags: int, k: int) -> None:
    """Raise unless the covariance of the weights of k regressors at lags from 0 on takes .8 GB."""
    most = 10_000 // max(k, 1)
    if lags >= most:
        must = f"be less than {most:,} for {k} regressors"
        raise refusal("exog_lags", must, f"{lags:,}", "0 is the effect at the same time alone.")
