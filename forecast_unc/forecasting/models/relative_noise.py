"""Noise whose size differs between steps of a season, and follows its recent size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from forecast_unc._typing import Array, Flags, Positions, Times
from forecast_unc.forecasting.models.autoregression import Autoregression, Rows
from forecast_unc.forecasting.models.effects import Effects
from forecast_unc.forecasting.models.phase_units import PhaseScale, PhaseUnits
from forecast_unc.forecasting.models.seasonal_noise import SeasonalNoise, told_apart
from forecast_unc.forecasting.models.volatility import Volatility
from forecast_unc.series.history import History

_MOST = 4000  # values that it is learned from, the last ones
# Relative std of the rows of still steps, which say nothing.
_UNHEARD = 1e3


@dataclass(frozen=True, eq=False)
class RelativeNoise:
    """Stds of the noise in units of their root mean square, by the time and the values before."""

    effects: Effects  # which the levels are without
    units: PhaseUnits | None  # in which the levels are learned from and forecast
    autoregression: Autoregression
    seasonal: SeasonalNoise | None  # in these units
    volatility: Volatility | None

    @classmethod
    def learn(
        cls,
        levels: Array,
        history: History,
        effects: Effects,
        periods: tuple[int, ...],
        volatile: bool,
    ) -> Self | None:
        """That of levels (n,) of a history, NaN where missing; None if all noise is alike."""
        levels = levels - effects.at(history.index, history.exog)
        periods = told_apart(periods, int(np.count_nonzero(~np.isnan(levels))))
        levels, index = levels[-_MOST:], history.index[-_MOST:]
        units = PhaseUnits.of(levels, index, periods)
        if units is not None:
            levels = units.at(index).standardized(levels)
        seasonal, rows = None, Rows.of(levels, index, periods)
        if not rows.complete.any():
            return None
        for _ in range(2):  # the second time without what loud steps did to quiet ones
            stds = _stds_of_rows(units, seasonal, index)
            plain = Autoregression.learn(
                rows, periods, np.ones(len(levels)) if stds is None else stds
            )
            innovations = plain.innovations(rows, len(levels))
            if units is not None:
                innovations[units.still(index)] = np.nan
            times = np.flatnonzero(~np.isnan(innovations))
            seasonal = SeasonalNoise.of(np.abs(innovations[times]), times, index, periods)
            if seasonal is None:
                break
        noise = cls(effects, units, plain, seasonal, None)
        if volatile and Volatility.shows(innovations, levels):
            noise = replace(noise, volatility=Volatility.learn(innovations / noise._stds(index)))
        named = noise.units, noise.seasonal, noise.volatility
        return None if all(one is None for one in named) else noise

    def given(self, levels: Array, history: History) -> GivenNoise:
        """The noise given the levels (n,) of a history, of these and of later times."""
        variances = np.ones(len(levels) + 1)
        if self.volatility is not None:
            levels = (levels - self.effects.at(history.index, history.exog))[-_MOST:]
            index = history.index[-_MOST:]
            levels = self.scale(index).standardized(levels)
            rows = Rows.of(levels, index, self.autoregression.periods)
            innovations = self.autoregression.innovations(rows, len(levels))
            found = self.volatility.variances(innovations / self._stds(index))
            variances[-len(found) :] = found
        return GivenNoise(self, self.season(history.index), variances)

    def scale(self, index: Times) -> PhaseScale:
        """Centers and sizes of the units at some times."""
        return PhaseScale.plain(index) if self.units is None else self.units.at(index)

    def season(self, index: Times) -> Array:
        """Relative stds (n,) of the steps of the season at some times, in units of these steps."""
        stds = np.ones(len(index)) if self.seasonal is None else self.seasonal.of_rows(index)
        if self.units is None:
            return stds
        # at night, unseen, the noise is that of the day
        return np.where(self.units.still(index), 1.0, stds)

    @property
    def varying(self) -> float:
        """Share of the times at such steps."""
        return 1.0 if self.units is None else self.units.varying

    def varies(self, index: Times) -> Flags:
        """Times of steps that vary at all: nothing is learned from the others."""
        some = np.ones(len(index), dtype=np.bool_)
        return some if self.units is None else ~self.units.still(index)

    def _stds(self, index: Times) -> Array:
        """Relative stds (n,) of innovations of the autoregression; NaN of still steps."""
        stds = np.ones(len(index)) if self.seasonal is None else self.seasonal.of_rows(index)
        return stds if self.units is None else np.where(self.units.still(index), np.nan, stds)

    def of_rows(self, index: Times) -> Array | None:
        """Relative stds (n,) of the noise of rows to learn from: of the season alone.

        With the recent size, too, CRPS was .4 % less on made autoregressions, and 2 % more where it
        was found in M4 weeks.
        """
        return _stds_of_rows(self.units, self.seasonal, index)

    def named(self, index: Times) -> list[str]:
        """What it differs by, in words."""
        lines = list[str]()
        parts = [one for one in (self.units, self.seasonal) if one is not None]
        if parts:
            sizes = self.scale(index).size * self.season(index)
            periods = sorted({period for one in parts for period in one.periods})
            steps = " and ".join(map(str, periods))
            apart = f"{sizes.min():.2g} to {sizes.max():.2g} times its root mean square"
            lines.append(f"it differs between the steps of a season of {steps}, {apart}")
        if self.volatility is not None:
            half = max(round(self.volatility.half_life), 1)
            steps = f"{half} steps" if half > 1 else "a step"
            lines.append(f"its size follows recent changes, half of it is forgotten in {steps}")
        return lines


def _stds_of_rows(
    units: PhaseUnits | None, seasonal: SeasonalNoise | None, index: Times
) -> Array | None:
    """Relative stds (n,) of rows to learn from, where they differ; of still steps nothing is."""
    stds = None if seasonal is None else seasonal.of_rows(index)
    if units is None or not (still := units.still(index)).any():
        return stds
    return np.where(still, _UNHEARD, 1.0 if stds is None else stds)


class StepNoise(NamedTuple):
    """Stds of the noise of steps (..., h), and the relative variances by its recent size."""

    std: Array
    variance: Array
    size: Array  # of all that steps differ by: units of the season, in the std, too

    def scaled(self, by: float, size: Array) -> StepNoise:
        """That of a noise whose root mean square is this number, of levels of such sizes."""
        return StepNoise(by * size * self.std, self.variance, size)


@dataclass(frozen=True, eq=False)
class GivenNoise:
    """Relative noise given the values at some times."""

    noise: RelativeNoise
    seasonal: Array  # (n,), stds of the steps of the season
    variances: Array  # (n + 1,), by the recent size: of these times and the next

    @property
    def past(self) -> Array:
        """Stds (n,) of the noise of these times, each given the values before."""
        return np.asarray(self.seasonal * np.sqrt(self.variances[:-1]))

    def ahead(self, index: Times) -> StepNoise:
        """Noise of the next steps, at some times."""
        return self._steps(self.noise.season(index), self.variances[-1])

    def from_origins(self, origins: Positions, steps: int) -> StepNoise:
        """Noise of the next steps (k, h) after some numbers of these values."""
        times = np.minimum(origins[:, None] + np.arange(steps), len(self.seasonal) - 1)
        return self._steps(self.seasonal[times], self.variances[origins])

    def _steps(self, season: Array, first: Array) -> StepNoise:
        volatility, ones = self.noise.volatility, np.ones_like(season)
        variance = ones if volatility is None else volatility.ahead(first, season.shape[-1])
        return StepNoise(season * np.sqrt(variance), variance, ones)
