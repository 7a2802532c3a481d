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
from forecast_unc.forecasting.models.autocorrelated import AutocorrelatedRegression
from forecast_unc.forecasting.models.exog_effects import NO_EXOG, ExogEffects
from forecast_unc.series.calendar import daily_means, effect_inputs


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
        columns = np.array([*found.values()]).T
        regression = AutocorrelatedRegression(levels, index, periods)
        if not (found and regression.changes(columns).any()):
            return cls(words)
        return cls(words, tuple(found), regression.learn(columns, kinds).mean)

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
class Effects:
    """Effects that are taken out of the levels of a model: of the calendar, and of regressors."""

    calendar: CalendarEffects = NO_CALENDAR
    exog: ExogEffects = NO_EXOG

    def at(self, index: Any, exog: Array, before: Array | None = None) -> Array:
        """The sum of the effects at times of regressors (n, k), after others if there are."""
        return np.asarray(self.calendar.at(index) + self.exog.at(exog, before))


NO_EFFECTS = Effects()
