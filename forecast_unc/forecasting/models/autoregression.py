"""A plain linear autoregression, whose innovations tell how the size of the noise differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from forecast_unc._typing import Array, Flags, Times
from forecast_unc.series.calendar import calendar_inputs
from forecast_unc.series.rows import lag_embedding

# Without seasons, of the sum of squares of all inputs: more would leave of a smooth series, or of a
# walk, what is no noise.
_RIDGE = 1e-9
_LAGS = 2  # beside those of the seasons


class Rows(NamedTuple):
    """Lagged values, effects of the steps of seasons and a constant, (k, d), and their targets."""

    X: Array
    target: Array  # (k,), the last of the levels, NaN where missing

    @classmethod
    def of(cls, levels: Array, index: Times, periods: tuple[int, ...]) -> Self:
        """Those of levels (n,), from the deepest lag on."""
        lags = (*range(1, _LAGS + 1), *(period for period in periods if period > _LAGS))
        effects = calendar_inputs(index, ("profile",) if periods else (), periods)
        inputs = np.column_stack([effects, np.ones(len(index))])
        if len(levels) <= max(lags):
            return cls(np.zeros((0, len(lags) + inputs.shape[1])), np.zeros(0))
        return cls(*lag_embedding(levels, lags, inputs))

    @property
    def complete(self) -> Flags:
        """Rows (k,) of which nothing is missing."""
        return np.asarray(np.isfinite(self.X).all(axis=1) & np.isfinite(self.target))


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Weights of lagged values, of effects of the steps of some seasons, and of a constant."""

    periods: tuple[int, ...]
    weights: Array  # (d,)

    @classmethod
    def learn(cls, rows: Rows, periods: tuple[int, ...], relative: Array) -> Self:
        """That of rows, by least squares weighted by the relative stds (n,) of the noise."""
        known = rows.complete
        X, target, relative = rows.X[known], rows.target[known], relative[-len(known) :][known]
        center, scale = X.mean(axis=0), X.std(axis=0)
        center[-1], scale = 0.0, np.where(scale > 0.0, scale, 1.0)
        Z, mean = (X - center) / scale, target.mean()
        weighted = Z / relative[:, None] ** 2
        gram = weighted.T @ Z
        ridge = 1.0 if periods else _RIDGE * np.trace(gram)
        system = gram + ridge * np.eye(len(gram))
        weights = np.linalg.solve(system, weighted.T @ (target - mean)) / scale
        weights[-1] += mean - center @ weights
        return cls(periods, weights)

    def innovations(self, rows: Rows, n: int) -> Array:
        """Errors (n,) of one step of the last levels, NaN where they are not known."""
        errors = rows.target - rows.X @ self.weights
        return np.concatenate([np.full(n - len(errors), np.nan), errors])
