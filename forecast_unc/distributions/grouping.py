"""Groups of the steps of a forecast by a frequency of pandas, and the steps that a key names."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from forecast_unc._checks import frozen, refusal
from forecast_unc._typing import Array


def group_weights(
    index: pd.Index[Any], how: str | ArrayLike, freq: str | None
) -> tuple[pd.Index[Any], Array]:
    """Labels of the groups (g,) and the weights of the steps in each, (g, h)."""
    h = len(index)
    if freq is None:
        labels, group = index[-1:], np.zeros(h, dtype=np.intp)
    else:
        labels, group = _groups(index, freq)
    member = (group == np.arange(len(labels))[:, None]).astype(np.float64)  # (groups, h)
    if isinstance(how, str):
        if how not in ("sum", "mean"):
            remedy = "Pass the weight of each step for any other linear combination."
            must = f'be "sum", "mean", "max", "min" or {h} weights'
            raise refusal("how", must, repr(how), remedy)
        matrix = member / member.sum(axis=1, keepdims=True) if how == "mean" else member
    else:
        matrix = member * frozen("how", how, (h,))
    if not matrix.any(axis=1).all():
        raise ValueError(
            "how must have a weight other than 0 in each group; got only zeros for "
            f"{labels[int((~matrix.any(axis=1)).argmax())]}. A sum of nothing has no forecast."
        )
    return labels, matrix


def positions(index: pd.Index[Any], key: Any) -> slice:
    """Positions of the steps that a key of :meth:`Forecast.__getitem__` names, from 0."""
    if isinstance(key, Real) or np.ndim(key) > 0:
        raise TypeError(
            f"a key must be a slice or a time; got {key!r}. A number could be a position or a "
            "time: for the first step pass [:1]."
        )
    where: Any = key
    try:
        if not isinstance(key, slice):
            where = index.get_loc(key)  # of unique, increasing times a slice or a position
        elif not all(end is None or isinstance(end, Integral) for end in (key.start, key.stop)):
            where = index.slice_indexer(key.start, key.stop, key.step)
    except (KeyError, TypeError, ValueError, pd.errors.InvalidIndexError):
        where = slice(0)
    where = where if isinstance(where, slice) else slice(where, where + 1)
    part = slice(*where.indices(len(index)))
    if part.step < 0 or part.start >= part.stop:
        first, last = index[[0, -1]].astype(str)
        empty = ", an empty slice" if isinstance(key, slice) and part.step > 0 else ""
        places = f"; positions count from 0 to {len(index) - 1}" if where is key else ""
        raise KeyError(
            f"a key must pick steps of the forecast, in their order; got {key!r}{empty}. They are "
            f"those from {first} to {last}{places}."
        )
    return part


def _groups(
    index: pd.Index[Any], freq: str
) -> tuple[pd.Index[Any], np.ndarray[Any, np.dtype[np.intp]]]:
    """Label of each group and, for each step, the number of its group."""
    if not isinstance(freq, str | pd.DateOffset):
        must, remedy = "be a frequency of pandas, a str", 'Pass one such as "YE".'
        raise refusal("freq", must, repr(freq), remedy, TypeError)
    if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        remedy = "Give the series a DatetimeIndex or a PeriodIndex, or pass weights."
        raise refusal("freq", f"be None for a {type(index).__name__}", repr(freq), remedy)
    try:
        if isinstance(index, pd.PeriodIndex):
            labels = index.asfreq(freq)
            plain = labels[0].freq.n == 1  # "2M" would overlap
            whole = plain and bool((labels == index.asfreq(freq, how="START")).all())
            counts = pd.Series(1, index=labels).groupby(level=0).count()
        else:
            whole = True
            counts = pd.Series(1, index=index).resample(freq).count()
    except ValueError as error:
        must = f"be a frequency of pandas that suits a {type(index).__name__}"
        raise refusal("freq", must, repr(freq), str(error)) from None
    if not whole:
        must = f"be a plain, coarser frequency than {index.freqstr}"
        remedy = 'Groups hold whole periods and do not overlap: pass one such as "Y", or weights.'
        raise refusal("freq", must, repr(freq), remedy)
    counts = counts[counts > 0]
    return counts.index, np.repeat(np.arange(len(counts)), counts.to_numpy())
