"""The series that models learn from, with what they share of it: rows, transforms, effects."""

from __future__ import annotations

import numpy as np

from forecast_unc._checks import refusal
from forecast_unc.distributions.power import POWERS, PowerTransform
from forecast_unc.forecasting.models.effects import (
    NO_CALENDAR,
    CalendarEffects,
    Effects,
)
from forecast_unc.forecasting.models.exog_effects import ExogEffects
from forecast_unc.forecasting.models.relative_noise import RelativeNoise
from forecast_unc.series.history import History
from forecast_unc.series.rows import ROUNDOFF, CompleteRows


class TrainingSeries:
    """A history, and what models of it share: each found once."""

    def __init__(
        self,
        history: History,
        periods: tuple[int, ...] = (),
        noise_periods: tuple[int, ...] = (),
        rows: CompleteRows | None = None,
        volatile: bool = False,
    ) -> None:
        self.history = history
        self.periods = periods  # seasonal, which effects are told apart from
        self.noise_periods = noise_periods  # seasons between whose steps the noise may differ
        self.volatile = volatile  # the size of the noise may follow its recent size
        self.rows = CompleteRows(history.y) if rows is None else rows
        self._transforms: dict[tuple[str | None, float], PowerTransform] = {}
        self._noise: dict[tuple[PowerTransform, tuple[str, ...], int], RelativeNoise | None] = {}
        self._calendar: dict[tuple[PowerTransform, tuple[str, ...]], CalendarEffects] = {}
        self._exog: dict[tuple[PowerTransform, tuple[str, ...], int], ExogEffects] = {}

    def transform(self, kind: str | None, lower: float) -> PowerTransform:
        """The transform of a kind, measured from an origin."""
        key = kind, lower
        if key not in self._transforms:
            self._transforms[key] = fitted_transform(kind, lower, self.history)
        return self._transforms[key]

    def relative_noise(
        self, transform: PowerTransform, words: tuple[str, ...], exog_lags: int
    ) -> RelativeNoise | None:
        """Sizes of the noise on the scale of a transform; None if all are alike.

        Of levels without the effects that models know: those of a calendar's words, of regressors.
        """
        key = transform, words, exog_lags
        if (self.noise_periods or self.volatile) and key not in self._noise:
            history = self.history
            effects = self.effects(transform, words, exog_lags if history.exog.shape[1] else None)
            levels = transform.forward(history.y)
            noises = self.noise_periods, self.volatile
            self._noise[key] = RelativeNoise.learn(levels, history, effects, *noises)
        return self._noise.get(key)

    def effects(
        self, transform: PowerTransform, words: tuple[str, ...], exog_lags: int | None = None
    ) -> Effects:
        """Effects of a calendar's words on transformed levels, and of regressors up to a lag."""
        calendar = self._calendar_effects(transform, words) if words else NO_CALENDAR
        if exog_lags is None:
            return Effects(calendar)
        key = transform, words, exog_lags
        if key not in self._exog:
            index, exog = self.history.index, self.history.exog
            levels = transform.forward(self.history.y) - calendar.at(index)
            self._exog[key] = ExogEffects.learn(levels, index, exog, exog_lags, self.periods)
        return Effects(calendar, self._exog[key])

    def _calendar_effects(
        self, transform: PowerTransform, words: tuple[str, ...]
    ) -> CalendarEffects:
        key = transform, words
        if key not in self._calendar:
            levels = transform.forward(self.history.y)
            index = self.history.index
            self._calendar[key] = CalendarEffects.learn(words, levels, index, self.periods)
        return self._calendar[key]


def fitted_transform(kind: str | None, lower: float, history: History) -> PowerTransform:
    """The nonlinear transform of a history, measured from an origin; checked."""
    transform = PowerTransform(POWERS[kind], lower)
    transform.check(history.y, history.time)
    if kind == "boxcox":
        transform = PowerTransform.fit(history.y, lower)
    levels = transform.forward(history.y)
    spread, size = np.ptp(levels[~np.isnan(levels)]), np.nanmax(np.abs(levels))
    varies = np.nanmin(history.y) < np.nanmax(history.y)
    if transform.power and varies and spread <= ROUNDOFF * size:
        must = f"be larger for a {kind} transform, after which all its values are the same"
        got = f"{np.nanmax(history.y):g} at most"
        raise refusal("y", f"{must} to 12 digits", got, "Multiply the series by a constant.")
    return transform
