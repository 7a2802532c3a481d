"""Baselines without a search: the last value, the last season, a drift."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from forecast_unc import _checks
from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated


class SeasonalNaive(Baseline):
    r"""The last season again; without a season the last value (a random walk).

    The errors accumulate over the seasons, also over those without a value before the forecast:
    :math:`\psi_j = 1` where the period divides j, else 0.

    Fitted, ``seasonal_period_`` is the period in use, ``noise_std_`` the root mean square of the
    seasonal differences.

    Parameters
    ----------
    seasonal_period : int, optional
        Observations in a season; 1 for none. None takes the shortest that the frequency of the
        index suggests and that fits into the series twice.
    """

    _takes_missing: ClassVar[bool] = True
    _takes_constants: ClassVar[bool] = True

    def _learn(self, values: Array, exog: Array) -> float:
        self._least = m = self.seasonal_period_
        squares = (values[m:] - values[:-m]) ** 2
        if np.isnan(squares).all():
            must = f"have two values that are {m} steps apart"
            raise refusal("y", must, "none", "Give a longer history.")
        return float(np.sqrt(np.nanmean(squares)))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        y, m = self.history_.y, self.seasonal_period_
        phase = np.arange(steps) % m
        seasons = -(-len(y) // m)
        table = np.pad(y, (seasons * m - len(y), 0), constant_values=np.nan).reshape(-1, m)[::-1]
        known = ~np.isnan(table)
        if (first := _checks.first_true(~known.any(axis=0))) is not None:
            must = f"have a value at each of the {m} steps of the season"
            got = f"none at that of {self.history_.time(len(y) - m + first)}"
            raise refusal("y", must, got, "Give a longer history.")
        missed = known.argmax(axis=0)[phase]  # seasons without a value before the forecast
        var, same = self.noise_std_**2, phase[:, None] == phase
        cov = accumulated((phase == 0).astype(np.float64), var) + var * missed * same
        return table[missed, phase], cov


@dataclass(eq=False, repr=False)
class Naive(SeasonalNaive):
    r"""The last value again: a random walk, whose errors accumulate.

    Its ``noise_std_`` is the root mean square of the changes, in units of y.
    """

    seasonal_period: int | None = field(default=1, init=False)


@dataclass(eq=False, repr=False)
class Drift(Baseline):
    r"""The last value and the mean change since the first: a random walk with a drift.

    The drift is as uncertain as a mean of n changes:
    :math:`\mathrm{Cov}_{ij} = \sigma^2 (\min(i, j) + i j / n)`, steps counted from the last value.

    ``drift_`` is the mean change, ``noise_std_`` the standard deviation of the changes, in units of
    y.
    """

    _takes_missing: ClassVar[bool] = True
    _takes_constants: ClassVar[bool] = True

    seasonal_period: int | None = field(default=1, init=False)

    def _learn(self, values: Array, exog: Array) -> float:
        at = np.flatnonzero(~np.isnan(values))
        gaps = np.diff(at)
        changes = np.diff(values[at])
        self._n = int(at[-1] - at[0])
        self.drift_ = float(changes.sum() / self._n)
        squares = (changes - self.drift_ * gaps) ** 2 / gaps
        return float(np.sqrt(squares.sum() / (len(gaps) - 1)))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        y = self.history_.y
        last = int(np.flatnonzero(~np.isnan(y))[-1])
        step = len(y) - 1.0 - last + np.arange(1.0, steps + 1.0)
        shape = np.minimum.outer(step, step) + np.outer(step, step) / self._n
        return y[last] + self.drift_ * step, self.noise_std_**2 * shape
