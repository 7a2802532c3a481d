"""Regression of levels on columns, with autocorrelated errors beside a season."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc

from forecast_unc._typing import Array, Flags, Positions, Times
from forecast_unc.forecasting.choose.table import lags_for
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.series.calendar import calendar_inputs
from forecast_unc.series.rows import ROUNDOFF

_FEWEST = 20  # rows; of fewer there are no effects
_LEVEL = 0.01  # of a test that spares most regressors a search
_ROUNDS = 3  # of the autoregression and the regression in turn


class Weights(NamedTuple):
    """Posterior of the weights of d columns; of what does not change it is 0."""

    mean: Array  # (d,)
    cov: Array  # (d, d)
    log_evidence: float  # of the filtered levels, nats
    left: Array  # (rows,), of them by the weights
    without_prior: tuple[Array, Array]  # means and variances (d,), of each without its own
    precisions: Mapping[Hashable, float]  # of each kind, and of the season as None


class AutocorrelatedRegression:
    r"""Levels with :math:`z_t = y_t - w^\top x_t`, an autoregression beside a season.

    Cochrane and Orcutt (1949): the autoregression of what the columns leave, and the regression of
    levels and columns that it filters, in turn. Both are Bayesian, with precisions by evidence.
    """

    def __init__(self, levels: Array, index: Times, periods: tuple[int, ...]) -> None:
        self.lags = lags_for(int(np.isfinite(levels).sum()), periods[:1])
        self._times = _complete(levels, self.lags)
        if len(self._times) < _FEWEST:  # the lag that misses the gaps: of every third value, 3
            each = [_complete(levels, (lag,)) for lag in range(1, max(self.lags) + 1)]
            best = int(np.argmax([len(times) for times in each]))
            self.lags, self._times = (best + 1,), each[best]
        self.ar = np.zeros(len(self.lags))
        self._inflation = 1.0  # of variances, for the parameters of the autoregression
        self._levels = levels
        self._season = calendar_inputs(index, ("profile",), periods)[self._times]

    def changes(self, columns: Array) -> Flags:
        """Which of the columns (n, d) change; not where levels are alike, or rows few."""
        levels = self._levels[self._times]
        if len(levels) < _FEWEST or np.ptp(levels) <= ROUNDOFF * np.abs(levels).max():
            return np.zeros(columns.shape[1], dtype=np.bool_)
        return np.asarray(np.ptp(columns[self._times], axis=0) > 0.0)

    def learn(
        self, columns: Array, kinds: Sequence[Hashable], near: Weights | None = None
    ) -> Weights:
        """Weights of columns (n, d), of which those of a kind share a precision.

        `near`: weights of these columns by another autoregression.
        """
        for _ in range(_ROUNDS if near is None else 1):
            taken_out = 0.0 if near is None else columns @ near.mean
            self._filter_by(self._levels - taken_out)
            near = self.weights(columns, kinds, near)
        assert near is not None
        return near

    def weights(
        self, columns: Array, kinds: Sequence[Hashable], near: Weights | None = None
    ) -> Weights:
        """Weights by the autoregression as it is; the search starts from precisions of others."""
        some = self.changes(columns)
        d = int(some.sum())
        mean, cov = np.zeros(len(some)), np.zeros((len(some), len(some)))
        if not d:
            return Weights(mean, cov, -np.inf, self._filtered(self._levels), (mean, mean), {})
        used = [kind for kind, changes in zip(kinds, some, strict=True) if changes]
        distinct = list(dict.fromkeys(used))
        groups = [distinct.index(kind) for kind in used]
        season = (len(distinct),) * self._season.shape[1]
        regressor = LinearRegressor(groups=(*groups, *season))
        X = np.hstack([self._filtered(columns[:, some]), self._season])
        target = self._filtered(self._levels)
        all_of = [*distinct, *[None] * bool(season)]
        if near is None:
            regressor.fit(X, target)
        else:
            regressor.fit_near(X, target, [near.precisions.get(kind, 1.0) for kind in all_of])
        mean[some] = regressor.coef_[:d]
        cov[np.ix_(some, some)] = self._inflation * regressor.posterior_.weight_cov[:d, :d]
        left = target - regressor.posterior_.mean(X)
        precisions = dict(zip(all_of, regressor.precisions_, strict=True))
        without_prior = np.zeros((2, len(some)))
        without_prior[:, some] = np.array(regressor.without_prior())[:, :d]
        plain = without_prior[0], self._inflation * without_prior[1]
        return Weights(mean, cov, regressor.log_evidence_, left, plain, precisions)

    def shows(self, left: Array, column: Array, more: Array) -> bool:
        """Whether F of more columns (n, m) beside one (n,) is significant in what weights leave."""
        own = np.column_stack([np.ones(len(left)), self._filtered(column)])
        both = np.hstack([own, self._filtered(more)])
        sums = [
            np.sum((left - X @ np.linalg.lstsq(X, left, rcond=None)[0]) ** 2) for X in (own, both)
        ]
        m, dof = more.shape[1], len(left) - both.shape[1]
        if dof <= 0 or sums[1] == 0.0:
            return False
        return bool(fdtrc(m, dof, (sums[0] / sums[1] - 1.0) * dof / m) < _LEVEL)

    def nats_over_inputs(self, columns: Array, kinds: Sequence[Hashable], mean: Array) -> float:
        """Log evidence of weights of columns over that of an autoregression with columns as inputs.

        The weights are charged for by half the logarithm of the rows each (Schwarz 1978).
        """
        charge = 0.5 * np.count_nonzero(mean) * float(np.log(len(self._times)))
        lasting = self._filter_by(self._levels - columns @ mean) - charge
        distinct = list(dict.fromkeys(kinds))
        groups = [2 + distinct.index(kind) for kind in kinds]
        return lasting - self._autoregression(self._levels, columns, groups).log_evidence_

    def _filter_by(self, z: Array) -> float:
        """Learn the autoregression from what columns leave; its log evidence."""
        found = self._autoregression(z)
        n, used = len(self._times), found.determined()[: len(self.lags)].sum()
        self.ar, self._inflation = found.coef_[: len(self.lags)], n / max(n - used, 1.0)
        return found.log_evidence_

    def _autoregression(
        self, z: Array, inputs: Array | None = None, groups: Sequence[int] = ()
    ) -> LinearRegressor:
        """That of levels (n,), with inputs (n, d) of some groups, from 2 on."""
        t = self._times
        X = [*(z[t - lag] for lag in self.lags), self._season]
        X += [] if inputs is None else [inputs[t]]
        of_season = (1,) * self._season.shape[1]
        regressor = LinearRegressor(groups=(*(0,) * len(self.lags), *of_season, *groups))
        return regressor.fit(np.column_stack(X), z[t])

    def _filtered(self, values: Array) -> Array:
        """Values (n, ...) less what the autoregression expects of those before."""
        left = values[self._times].copy()
        for lag, weight in zip(self.lags, self.ar, strict=True):
            left -= weight * values[self._times - lag]
        return left


def _complete(levels: Array, lags: Sequence[int]) -> Positions:
    """Times of levels that are observed, with those at some lags."""
    t = np.arange(max(lags), len(levels))
    back = [t, *(t - lag for lag in lags)]
    return t[np.isfinite(levels[back]).all(axis=0)]
