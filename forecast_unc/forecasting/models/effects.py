"""Effects of the calendar, and of regressors, on levels, learned before a model.

Taken out of the levels they do not come back through lagged values, and members of every kind have
them: on daily births the CRPS is as with an input for each, at three quarters of the time; with one
effect for the days around all feasts it is 5 % higher, with one for feasts seen once the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.forecasting.choose.table import lags_for
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.series.calendar import calendar_inputs, daily_means, effect_inputs
from forecast_unc.series.exog import lagged


@dataclass(frozen=True, eq=False)
class CalendarEffects:
    """Effects on the levels at the times that some words of a calendar name."""

    words: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    weights: Array | None = None  # (k,) of the names, in units of the levels

    @classmethod
    def learn(
        cls, words: tuple[str, ...], levels: Array, index: Any, periods: tuple[int, ...]
    ) -> Self:
        """Shrunk effects, with a precision for each kind by evidence."""
        levels, index, periods = daily_means(levels, index, periods)
        found = effect_inputs(index, words)
        kinds = [kind for kind, _ in found]
        weights, _ = _shrunk(levels, index, periods, [*found.values()], kinds)
        return cls(words) if weights is None else cls(words, tuple(found), weights)

    def at(self, index: Any) -> Array:
        """The sum of the effects at each time, (n,); what was never seen has none."""
        total = np.zeros(len(index))
        if self.weights is None:
            return total
        known = dict(zip(self.names, self.weights, strict=True))
        for name, column in effect_inputs(index, self.words).items():
            total += known.get(name, 0.0) * column
        return total


NO_CALENDAR = CalendarEffects()


@dataclass(frozen=True, eq=False)
class ExogEffects:
    """Effects of regressors on levels whose model has no inputs for them."""

    weights: Array | None = None  # (k l,), of k regressors at l lags from 0 on
    lags: int = 0
    stds: Array | None = None  # of the weights; 0 for what never changed

    @classmethod
    def learn(
        cls, levels: Array, index: Any, exog: Array, lags: int, periods: tuple[int, ...]
    ) -> Self:
        """Shrunk effects, with a precision for each regressor by evidence."""
        columns = lagged(exog, lags)
        kinds = [*range(exog.shape[1])] * (lags + 1)
        weights, stds = _shrunk(levels, index, periods, [*columns.T], kinds)
        return cls(weights, lags, stds)

    def at(self, exog: Array, before: Array | None = None) -> Array:
        """The sum of the effects at times of regressors (n, k), after others if there are."""
        if self.weights is None:
            return np.zeros(len(exog))
        past = exog[:0] if before is None else before
        return np.asarray(lagged(np.vstack([past, exog]), self.lags)[len(past) :] @ self.weights)

    def now(self, exog: Array) -> Array:
        """The sum of the effects at their own time of regressors (n, k), (n,)."""
        if self.weights is None:
            return np.zeros(len(exog))
        return np.asarray(exog @ self.weights[: exog.shape[1]])

    def covariance(self, exog: Array) -> Array:
        """Covariance (n, n) of the sum at times of regressors (n, k), 0 before: of the weights."""
        if self.stds is None:
            return np.zeros((len(exog), len(exog)))
        spread = lagged(exog, self.lags) * self.stds
        return np.asarray(spread @ spread.T)


NO_EXOG = ExogEffects()


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects that are taken out of the levels of a model: of the calendar, and of regressors."""

    calendar: CalendarEffects = NO_CALENDAR
    exog: ExogEffects = NO_EXOG

    def at(self, index: Any, exog: Array, before: Array | None = None) -> Array:
        """The sum of the effects at times of regressors (n, k), after others if there are."""
        return np.asarray(self.calendar.at(index) + self.exog.at(exog, before))


NO_EFFECTS = Effects()


def _shrunk(
    levels: Array, index: Any, periods: tuple[int, ...], columns: list[Array], kinds: list[Any]
) -> tuple[Array | None, Array | None]:
    """Weights of columns by an autoregression and a regression of its filtered levels in turn.

    Cochrane and Orcutt (1949), with stds; None if there are too few rows. What does not change
    weighs 0.
    """
    season = calendar_inputs(index, ("profile",), periods)
    lags = lags_for(int(np.isfinite(levels).sum()), periods[:1])
    t = np.arange(max(lags), len(levels))
    t = t[np.isfinite(levels[[t, *(t - lag for lag in lags)]]).all(axis=0)]
    # of fewer than 20 rows there are no effects
    some = np.array([len(t) >= 20 and np.ptp(one[t]) > 0.0 for one in columns], bool)
    if not some.any():
        return None, None
    H, used = np.array(columns).T[:, some], [k for k, s in zip(kinds, some, strict=True) if s]
    distinct = list(dict.fromkeys(used))
    weights, groups = np.zeros(H.shape[1]), [distinct.index(kind) for kind in used]
    own = LinearRegressor(groups=(0,) * len(lags) + (1,) * season.shape[1])
    both = LinearRegressor(groups=(*groups, *(len(distinct),) * season.shape[1]))
    for _ in range(3):
        z = levels - H @ weights
        own.fit(np.column_stack([*(z[t - lag] for lag in lags), season[t]]), z[t])
        ar = own.coef_[: len(lags)]
        filtered, at = levels[t].copy(), H[t]
        for lag, weight in zip(lags, ar, strict=True):
            filtered -= weight * levels[t - lag]
            at = at - weight * H[t - lag]
        weights = both.fit(np.hstack([at, season[t]]), filtered).coef_[: len(weights)]
    found, stds = np.zeros((2, len(columns)))
    units = np.vstack([np.zeros(both.n_features_in_), np.eye(both.n_features_in_)])
    cov = both.posterior_.covariance(units[: len(weights) + 1])
    var = cov[0, 0] + cov.diagonal()[1:] - 2.0 * cov[0, 1:]
    found[some], stds[some] = weights, np.sqrt(np.maximum(var, 0.0))
    return found, stds
