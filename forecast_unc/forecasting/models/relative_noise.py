"""Noise whose size differs between steps of a season, and follows its recent size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from forecast_unc._typing import Array, Positions, Times
from forecast_unc.forecasting.models.autoregression import Autoregression, Rows
from forecast_unc.forecasting.models.effects import Effects
from forecast_unc.forecasting.models.seasonal_noise import SeasonalNoise, told_apart
from forecast_unc.forecasting.models.volatility import Volatility
from forecast_unc.series.history import History

_MOST = 4000  # values that it is learned from, the last ones


@dataclass(frozen=True, eq=False)
class RelativeNoise:
    """Stds of the noise in units of their root mean square, by the time and the values before."""

    effects: Effects  # which the levels are without
    autoregression: Autoregression
    seasonal: SeasonalNoise | None
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
        seasonal, relative, rows = None, np.ones(len(levels)), Rows.of(levels, index, periods)
        if not rows.complete.any():
            return None
        for _ in range(2):  # the second time without what loud steps did to quiet ones
            plain = Autoregression.learn(rows, periods, relative)
            innovations = plain.innovations(rows, len(levels))
            times = np.flatnonzero(~np.isnan(innovations))
            seasonal = SeasonalNoise.of(np.abs(innovations[times]), times, index, periods)
            if seasonal is None:
                break
            relative = seasonal.of_rows(index)
        volatility = None
        if volatile and Volatility.shows(innovations, levels):
            volatility = Volatility.learn(_in_units(innovations, seasonal, index))
        if seasonal is None and volatility is None:
            return None
        return cls(effects, plain, seasonal, volatility)

    def given(self, levels: Array, history: History) -> GivenNoise:
        """The noise given the levels (n,) of a history, of these and of later times."""
        variances = np.ones(len(levels) + 1)
        if self.volatility is not None:
            levels = (levels - self.effects.at(history.index, history.exog))[-_MOST:]
            index = history.index[-_MOST:]
            rows = Rows.of(levels, index, self.autoregression.periods)
            innovations = self.autoregression.innovations(rows, len(levels))
            found = self.volatility.variances(_in_units(innovations, self.seasonal, index))
            variances[-len(found) :] = found
        return GivenNoise(self, self.season(history.index), variances)

    def season(self, index: Times) -> Array:
        """Relative stds (n,) of the steps of the season at some times."""
        return np.ones(len(index)) if self.seasonal is None else self.seasonal.at(index)

    def of_rows(self, index: Times) -> Array | None:
        """Relative stds (n,) of the noise of rows to learn from: of the season alone.

        With the recent size, too, CRPS was .4 % less on made autoregressions, and 2 % more where it
        was found in M4 weeks.
        """
        return None if self.seasonal is None else self.seasonal.of_rows(index)

    def named(self, index: Times) -> list[str]:
        """What it differs by, in words."""
        lines = list[str]()
        if self.seasonal is not None:
            sizes, steps = self.seasonal.at(index), " and ".join(map(str, self.seasonal.periods))
            apart = f"{sizes.min():.2g} to {sizes.max():.2g} times its root mean square"
            lines.append(f"it differs between the steps of a season of {steps}, {apart}")
        if self.volatility is not None:
            half = max(round(self.volatility.half_life), 1)
            steps = f"{half} steps" if half > 1 else "a step"
            lines.append(f"its size follows recent changes, half of it is forgotten in {steps}")
        return lines


def _in_units(innovations: Array, seasonal: SeasonalNoise | None, index: Times) -> Array:
    """Innovations (n,) in units of the noise of their steps; NaN at steps that never vary."""
    if seasonal is None:
        return innovations
    relative = seasonal.of_rows(index)
    return np.where(seasonal.varies(relative), innovations / relative, np.nan)


class StepNoise(NamedTuple):
    """Stds of the noise of steps (..., h), and the relative variances by its recent size."""

    std: Array
    variance: Array

    def scaled(self, by: float) -> StepNoise:
        """That of a noise whose root mean square is this number."""
        return self._replace(std=by * self.std)


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
        volatility = self.noise.volatility
        if volatility is None:
            return StepNoise(season, np.ones_like(season))
        variance = volatility.ahead(first, season.shape[-1])
        return StepNoise(season * np.sqrt(variance), variance)
