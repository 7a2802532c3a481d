"""Levels in units of the step of a season: what they differ by from its mean, over their size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from forecast_unc._typing import Array, Flags, Positions, Times
from forecast_unc.forecasting.models.seasonal_noise import SeasonalNoise
from forecast_unc.series.calendar import season_steps

# A step never varies whose size is below so much of the root mean square. It is the least: should
# one vary later, what follows would be as far off.
_STILL = 0.02


class PhaseScale(NamedTuple):
    """Centers and sizes (..., n) of the levels of some times."""

    center: Array
    size: Array

    @classmethod
    def plain(cls, index: Times) -> Self:
        """Levels as they are."""
        return cls(np.zeros(len(index)), np.ones(len(index)))

    def taken(self, places: Positions) -> PhaseScale:
        """Those of some of the times."""
        return PhaseScale(self.center[places], self.size[places])

    def standardized(self, levels: Array) -> Array:
        """Levels in these units."""
        return np.asarray((levels - self.center) / self.size)

    def levels(self, standardized: Array) -> Array:
        """Levels of standardized ones."""
        return np.asarray(standardized * self.size + self.center)


@dataclass(frozen=True, eq=False)
class PhaseUnits:
    """Means of the steps of some seasons, and root mean squares of what is left there.

    Those are in units of that of all steps: levels keep their scale.
    """

    periods: tuple[int, ...]
    means: tuple[Array, ...]  # (m,) of each period; a time has the sum
    sizes: SeasonalNoise
    varying: float  # share of times at steps that vary at all

    @classmethod
    def of(cls, levels: Array, index: Times, periods: tuple[int, ...]) -> Self | None:
        """Those of levels (n,), NaN where missing; None if all steps vary."""
        known = np.flatnonzero(~np.isnan(levels))
        left, means = levels[known], list[Array]()
        for period in periods:
            steps = season_steps(index, period)[known]
            counts = np.bincount(steps, minlength=period)
            means.append(np.bincount(steps, left, period) / np.maximum(counts, 1))
            left = left - means[-1][steps]
        sizes = SeasonalNoise.of(np.abs(left), known, index, periods)
        if sizes is None:
            return None
        varies = _varies(sizes.of_rows(index)[known])
        return None if varies.all() else cls(periods, tuple(means), sizes, float(varies.mean()))

    def at(self, index: Times) -> PhaseScale:
        """Those of some times."""
        each = zip(self.means, self.periods, strict=True)
        center = np.sum([means[season_steps(index, period)] for means, period in each], axis=0)
        return PhaseScale(center, np.maximum(self.sizes.of_rows(index), _STILL))

    def still(self, index: Times) -> Flags:
        """Times of steps that never vary."""
        return ~_varies(self.sizes.of_rows(index))


def _varies(sizes: Array) -> Flags:
    """Whether times of such sizes (n,) are of steps that vary at all."""
    return np.asarray(sizes > _STILL)
