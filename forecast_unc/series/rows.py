"""Values of a series as rows: differences, lagged values, and the rows that are complete."""

from __future__ import annotations

import numpy as np

from forecast_unc._typing import Array, Flags, Positions

# Levels whose range or changes are a smaller share of their size are all the same.
ROUNDOFF = 1e-12


def difference(y: Array, lags: tuple[int, ...]) -> Array:
    """Differences at the lags, one after the other, along the last axis."""
    for lag in lags:
        y = y[..., lag:] - y[..., :-lag]
    return y


def lag_embedding(y: Array, lags: tuple[int, ...], exog: Array) -> tuple[Array, Array]:
    """Rows X (n - max(lags), l + k) of lagged values and regressors (n, k), and their targets."""
    first = max(lags)
    past = [y[first - lag : len(y) - lag] for lag in lags]
    return np.column_stack([*past, exog[first:]]), y[first:].copy()


def complete_rows(values: Array, lags: tuple[int, ...], differences: tuple[int, ...]) -> Positions:
    """Times, increasing, of the targets of rows of lagged differences without a missing value."""
    first, lost = max(lags), sum(differences)
    if len(values) <= first + lost:
        return np.zeros(0, dtype=np.intp)
    observed = ~np.isnan(difference(values, differences))
    complete = observed[first:].copy()
    for lag in lags:
        complete &= observed[first - lag : len(observed) - lag]
    return first + lost + np.flatnonzero(complete)


def interpolated(levels: Array) -> Array:
    """Levels with straight lines over what is missing, and the nearest value at the ends."""
    known = np.flatnonzero(~np.isnan(levels))
    return np.interp(np.arange(len(levels)), known, levels[known])


class CompleteRows:
    """The complete rows of one series, found once for each set of lags and differences."""

    def __init__(self, values: Array) -> None:
        self.values = values  # (n,), NaN where missing
        self._times: dict[tuple[tuple[int, ...], tuple[int, ...]], Positions] = {}

    def times(self, lags: tuple[int, ...], differences: tuple[int, ...]) -> Positions:
        """Times of the rows' targets; see `complete_rows`."""
        key = lags, differences
        if key not in self._times:
            self._times[key] = complete_rows(self.values, lags, differences)
        return self._times[key]

    def count(
        self, lags: tuple[int, ...], differences: tuple[int, ...], most: int | None = None
    ) -> int:
        """Number of complete rows, or of the last of them that a model learns from at most."""
        n = len(self.times(lags, differences))
        return n if most is None else min(n, most)


def runs_of(flags: Flags) -> list[tuple[int, int]]:
    """First and last place, that one not included, of each run."""
    ends = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return list(zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True))
