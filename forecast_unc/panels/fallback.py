"""Answers for series of few values, or whose model failed: what the others of the panel lend."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import stdtr, stdtrit

from forecast_unc._text import counted
from forecast_unc._typing import Array, Flags
from forecast_unc.distributions.export import first_instants, nixtla_tails
from forecast_unc.panels.panel import OneSeries, Panel
from forecast_unc.series.opening import check_name
from forecast_unc.series.times import regular_index, spacing

FEW = 4  # a series of so many observed values borrows
# One of fewer values than this borrows the bound at 0 of a panel without negative values: of items
# that sell 5 to 12 months, a third to three quarters had 95 % bounds below 0.
FEW_BOUND = 24
_PRIOR = 4.0  # changes that the panel's spread counts for, beside those of the series itself


class Lent(NamedTuple):
    """Spread of the changes of a panel, lent to a series of few values."""

    lenders: int
    sizes: Array  # (k,) mean |y| of lenders that have one
    changes: Array  # (k, h) root mean square of h-step changes of these over their mean |y|
    size: float  # mean |y|, median of lenders
    least: float  # smallest |y| of lenders that is not 0
    level: float  # last value, median of lenders
    between: float  # standard deviation of last values
    lower: float  # 0 where no value of the panel is negative
    whole: bool  # all values of the panel are whole numbers, none below 0
    freq: Any  # of the longest series that shows one
    opening: Hashable | None = None  # the regressor that is 0 where a series is closed

    def spread(self, size: float) -> Array:
        """Median of the changes of the lenders nearest in size, (h,).

        Items that sell rarely change by more than their size, large ones by a part of it.
        """
        few = max(12, len(self.sizes) // 4)
        apart = np.abs(np.log(self.sizes) - np.log(size or 1.0))
        near = np.argsort(apart, kind="stable")[:few]
        changes = self.changes[near]
        steps = changes.shape[1]
        known = int(np.isfinite(changes).any(axis=0).sum())
        spread, ahead = np.zeros(steps), np.sqrt(np.arange(1.0, steps + 1))
        if known:
            spread[:known] = np.nanmedian(changes[:, :known], axis=0)
        if spread[0] <= 0:  # nothing to borrow: a spread as wide as the level
            return ahead
        spread[known:] = spread[known - 1] * ahead[known:] / ahead[known - 1]
        return np.maximum.accumulate(spread)


def open_values(past: pd.DataFrame, opening: Hashable | None) -> Array:
    """The first column, NaN where the regressor that tells closed times is 0, (n,)."""
    y: Array = past.iloc[:, 0].to_numpy()
    return np.where(_is_zero(past.iloc[:, 1:], opening), np.nan, y)


def _is_zero(exog: pd.DataFrame, opening: Hashable | None) -> Flags:
    """Where the regressor that tells closed times is 0, (n,); nowhere without one."""
    check_name(opening)
    if opening is None or opening not in exog:
        return np.zeros(len(exog), dtype=bool)
    return np.asarray(exog[opening].to_numpy(dtype=np.float64, na_value=np.nan) == 0.0)


def lend(panel: Panel, steps: int, opening: Hashable | None = None) -> Lent:
    """Spread over so many steps of the series of a panel that have enough values, while open."""
    target = open_values(panel.past, opening)
    finite = np.isfinite(target)
    able = [rows for rows in panel.rows if np.count_nonzero(finite[rows]) >= 8]
    some = np.linspace(0, len(able) - 1, min(len(able), 500)).astype(int)
    taken = [np.where(finite[able[i]], target[able[i]], np.nan) for i in some]
    sizes = np.array([np.nanmean(np.abs(y)) for y in taken])
    last = np.array([y[np.isfinite(y)][-1] for y in taken])
    rows = [_relative_changes(y, size, steps) for y, size in zip(taken, sizes, strict=True) if size]
    changes = np.array(rows).reshape(-1, steps)
    between = float(np.std(last, ddof=1)) if len(last) > 1 else float(np.abs(last).sum())
    size, level = (float(np.median(each)) if len(each) else np.nan for each in (sizes, last))
    known, positive = target[finite], np.concatenate([[], *(np.abs(y[y != 0]) for y in taken)])
    least = float(np.nanmin(positive, initial=np.inf)) if len(positive) else 1.0
    lower = 0.0 if len(known) and known.min() >= 0 else -np.inf
    whole = lower == 0.0 and bool((known == np.round(known)).all())
    sized, freq = sizes[sizes > 0], _frequency(panel)
    opens = lower, whole, freq, opening
    return Lent(len(able), sized, changes, size, least, level, between, *opens)


def _relative_changes(y: Array, size: float, steps: int) -> Array:
    """Root mean square of changes over 1 to h steps over the size, NaN beyond half of y, (h,)."""
    found = np.full(steps, np.nan)
    for h in range(1, min(steps, len(y) // 2) + 1):
        changes = y[h:] - y[:-h]
        if not np.isfinite(changes).any():
            break
        found[h - 1] = np.sqrt(np.nanmean(changes**2)) / size
    return found


def _frequency(panel: Panel) -> Any:
    """The frequency of a panel, or of the longest of its series that shows one, or None."""
    times = panel.past.index
    if panel.freq is not None or isinstance(times, pd.PeriodIndex):
        return panel.freq
    for i in sorted(range(len(panel)), key=lambda i: -len(panel.rows[i]))[:20]:
        if len(panel.rows[i]) < 3:
            break
        try:
            return spacing(regular_index(times.take(panel.rows[i]), "y"))
        except (TypeError, ValueError):
            continue
    return None


class Answer(NamedTuple):
    """Student's t about one level at each step, censored at a bound; rounded if y is whole.

    Closed steps are 0 for certain.
    """

    times: pd.Index[Any]
    level: float
    scale: Array  # (h,)
    dof: float
    lower: float
    whole: bool
    status: str
    closed: Flags  # (h,)

    def figures(self, levels: tuple[float, ...]) -> Array:
        """The mean and the bounds of intervals, (h, 1 + 2 * levels), as of a forecast."""
        return np.column_stack([self.mean(), self.quantiles(nixtla_tails(levels))])

    def mean(self) -> Array:
        """Mean of each step, (h,): E max(z + T, 0) = z F(z) + (dof + z^2) / (dof - 1) f(z)."""
        if np.isneginf(self.lower):
            return np.where(self.closed, 0.0, self.level)
        z, dof = (self.level - self.lower) / self.scale, self.dof
        above = z * stdtr(dof, z) + (dof + z**2) / (dof - 1.0) * stats.t.pdf(z, dof)
        return np.where(self.closed, 0.0, self.lower + self.scale * above)

    def quantiles(self, q: Array) -> Array:
        """Quantiles of each step at several probabilities, (h, len(q))."""
        found = np.maximum(self.level + self.scale[:, None] * stdtrit(self.dof, q), self.lower)
        found[self.closed] = 0.0
        return np.ceil(found - 0.5) + 0.0 if self.whole else found  # no -0

    def aggregated(self, how: str) -> Self:
        """The sum or the mean over the steps, as of a random walk with this spread."""
        some = self.scale[~self.closed]
        share = 1.0 if how == "sum" else 1.0 / len(self.scale)
        std = np.sqrt((np.minimum.outer(some, some) ** 2).sum()) if len(some) else 1.0
        return self._replace(
            times=self.times[-1:],
            level=share * len(some) * self.level,
            scale=np.array([share * std]),
            whole=self.whole and how == "sum",
            closed=np.array([not len(some)]),
        )


def answer(one: OneSeries, steps: int, lent: Lent) -> Answer | str:
    """The last value, with its own changes and the panel's; or a status where there is no time."""
    past = one.past[one.past.index.notna()].sort_index(kind="stable")
    y = open_values(past, lent.opening)
    y = y[np.isfinite(y)]
    times = _times_ahead(one, steps, lent.freq)
    if times is None:
        return "no forecast: no frequency to continue its times by, in the panel either; pass freq"
    closed = _closed_ahead(one, times, lent.opening)
    borrowed = "the panel's changes" if lent.lenders else "its size, none to borrow"
    if not len(y):
        if not lent.lenders:
            return "no forecast: no value, and no series of the panel to borrow from"
        scale = np.hypot(lent.spread(lent.size) * lent.size, lent.between)
        status = "no value: median level of the panel, spread of its levels and changes"
        return Answer(times, lent.level, scale, _PRIOR, lent.lower, lent.whole, status, closed)
    # of zeros alone: as if the smallest value of the panel came next
    size = float(np.mean(np.abs(y))) or lent.least / (len(y) + 1)
    own, dof = float(np.sum(np.diff(y) ** 2)), _PRIOR + len(y) - 1
    spread = lent.spread(size)
    # the conjugate update of a variance, with the panel's as prior
    first = np.sqrt((_PRIOR * (spread[0] * size) ** 2 + own) / dof)
    if len(y) <= FEW:
        status = f"{counted(len(y), 'value')}: last value, spread of {borrowed}"
    else:
        status = f"the model failed: last value, spread of its own and {borrowed}"
    scale = first * spread / spread[0]
    return Answer(times, float(y[-1]), scale, dof, lent.lower, lent.whole, status, closed)


def _closed_ahead(one: OneSeries, times: pd.Index[Any], opening: Hashable | None) -> Flags:
    """Which of the steps are closed, (h,): where the regressor that tells it was given as 0."""
    if one.future is None:
        return np.zeros(len(times), dtype=bool)
    given = one.future.index
    zero = first_instants(given[_is_zero(one.future, opening) & given.notna()])
    return np.asarray(times.isin(zero))


def _times_ahead(one: OneSeries, steps: int, freq: Any) -> Any:
    """An index of the steps, by the frequency of the series or the panel's; None without one."""
    ahead: Any
    times = one.past.index[one.past.index.notna()]
    if not len(times):
        return None
    if isinstance(times, pd.PeriodIndex):
        ahead = pd.period_range(times.max(), periods=steps + 1, freq=times.freq)[1:]
        return ahead.to_timestamp()
    with suppress(TypeError, ValueError):  # irregular or too short: that of the panel
        freq = spacing(regular_index(times.sort_values(), "y"))
    if freq is None:
        return None
    if isinstance(times, pd.DatetimeIndex):
        ahead = pd.date_range(times.max(), periods=steps + 1, freq=freq)
        return ahead[ahead > times.max()][:steps].astype(times.dtype)
    return pd.Index(times.max() + int(freq) * np.arange(1, steps + 1))
