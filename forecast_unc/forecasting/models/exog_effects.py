"""Lasting effects of regressors on levels, which may bend and come later, by evidence."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import block_diag, csr_array, kron, lil_array
from scipy.special import ndtr

from forecast_unc._typing import Array
from forecast_unc.distributions.marginals import normal_density
from forecast_unc.forecasting.models.autocorrelated import AutocorrelatedRegression
from forecast_unc.regression.kernels import lower_root
from forecast_unc.series.exog import joint_errors

# Nats that an effect has to gain by bends, or all effects by lags; those of useless regressors gain
# .1 to .15 each by chance, so that lags of many have to gain more.
_MARGIN, _MARGIN_EACH = 5.0, 0.25
# Numbers of lags that are tried, each after the one before has gained.
_LAGS = (1, 3, 7)
# Where an effect may bend: quantiles of a regressor with so many distinct values or more.
_BENDS, _FEWEST = (0.1, 0.3, 0.5, 0.7, 0.9), 20

# Share of the largest std of an effect, by its weight, below which that of another adds nothing.
_NEGLIGIBLE = 1e-3

Carried = Callable[[Array], Array]
"""Past columns (n, d) to what a model expects of the next levels (h, d) for one of each."""


class Added(NamedTuple):
    """What regressors add to the next h levels, with the errors of the weights and regressors."""

    mean: Array  # (h,)
    of_weights: Array  # (h, h), covariance
    of_regressors: Array  # (h, h)


@dataclass(frozen=True)
class ExogColumns:
    r"""Columns of regressors: they are linear in the k regressors between places where they bend.

    First the regressors, then hinges max(x - c, 0) at the bends of each, then the regressors of a
    step before, and so on.
    """

    lags: int = 0
    bends: tuple[tuple[float, ...], ...] = ()  # c of each regressor; none where it is a line

    def of(self, exog: Array, before: Array | None = None) -> Array:
        """Columns (n, d) at times of regressors (n, k), after others if there are.

        Before the first they are as at the first.
        """
        past = exog[:0] if before is None else before
        x = np.vstack([past, exog])
        hinges = [
            np.maximum(x[:, j] - place, 0.0)
            for j, places in enumerate(self.bends)
            for place in places
        ]
        t = np.arange(len(x))
        earlier = [x[np.maximum(t - lag, 0)] for lag in range(1, self.lags + 1)]
        return np.column_stack([x, *hinges, *earlier])[len(past) :]

    def moments(self, exog: Array, cov: Array, before: Array) -> tuple[Array, Array]:
        """Means (h, d) and covariance (h d, h d), by step, of columns of uncertain regressors.

        The covariance is that of the part which is linear in them.
        """
        means, linear = self.linear(exog, cov, before)
        return means, np.asarray((linear @ (linear @ cov).T).T)

    def linear(self, exog: Array, cov: Array, before: Array) -> tuple[Array, csr_array]:
        """Means (h, d), and mean slopes (h d, h k) by step, in Gaussian regressors: exact."""
        h, k = exog.shape
        std = np.sqrt(cov.diagonal()).reshape(h, k)
        means = self.of(exog, before)
        d, steps = means.shape[1], np.arange(h)
        slopes = lil_array((h * d, h * k))
        at = [(j, j, 0, np.ones(h)) for j in range(k)]  # column, regressor, lag, slope
        for j, places in enumerate(self.bends):
            for place in places:
                above, s = exog[:, j] - place, std[:, j]
                z = np.divide(above, s, out=np.where(above > 0.0, np.inf, -np.inf), where=s > 0.0)
                means[:, len(at)] = above * ndtr(z) + s * normal_density(z)
                at.append((len(at), j, 0, ndtr(z)))
        for lag in range(1, self.lags + 1):
            at += [(len(at) + j, j, lag, np.ones(h)) for j in range(k)]
        for column, j, lag, slope in at:
            slopes[steps[lag:] * d + column, steps[: max(h - lag, 0)] * k + j] = slope[lag:]
        return means, slopes.tocsr()

    def moved(self, exog: Array, more: Array) -> Array:
        """Changes (n, d) of the columns by more (n, k) of regressors at their own time alone."""
        now = replace(self, lags=0)
        changes = now.of(exog + more) - now.of(exog)
        return np.hstack([changes, np.zeros((len(exog), self.lags * exog.shape[1]))])

    def changes(self, steps: Array, around: Array) -> Array:
        """What a step of each regressor, around some (k,), changes the columns by: (m, d).

        `steps` (m,) are of the k regressors now, then of those a step before, and so on.
        """
        k = len(around)
        changed = np.tile(around, (len(steps), 2, self.lags + 1, 1))
        for i, step in enumerate(steps):
            lag, j = divmod(i, k)
            if lag <= self.lags:
                changed[i, :, self.lags - lag, j] += (-0.5 * step, 0.5 * step)
        each = [[self.of(exog)[-1] for exog in both] for both in changed]
        return np.diff(np.array(each), axis=1)[:, 0]

    @property
    def kinds(self) -> list[Hashable]:
        """What columns share a precision: line, bends and lags of each regressor."""
        k = range(len(self.bends))
        bends = [("bends", j) for j, places in enumerate(self.bends) for _ in places]
        later = [("lags", j) for j in k] * self.lags
        return [*(("line", j) for j in k), *bends, *later]


@dataclass(frozen=True, eq=False)
class ExogEffects:
    r"""Effects :math:`w^\top \phi(x)` on levels whose model has no inputs for regressors x.

    From their means, as a model expects a level that columns far from 0 would move.
    """

    columns: ExogColumns = ExogColumns()
    center: Array | None = None  # (d,), means of the columns phi, which they are measured from
    weights: Array | None = None  # (d,), of these
    cov: Array | None = None  # (d, d), of the weights; 0 for what never changed
    plain: tuple[Array, Array] | None = None  # means, variances (d,) of each without its prior
    nats: float = 0.0  # log evidence over columns that are inputs of an autoregression

    @classmethod
    def learn(
        cls, levels: Array, index: Any, exog: Array, lags: int, periods: tuple[int, ...]
    ) -> Self:
        """Shrunk effects, with precisions by evidence; bends and more lags where they gain."""
        regression = AutocorrelatedRegression(levels, index, periods)
        best = ExogColumns(lags, ((),) * exog.shape[1])
        if not regression.changes(exog).any():
            return cls(best)

        def centered(tried: ExogColumns) -> Array:
            columns = tried.of(exog)
            return np.asarray(columns - columns.mean(axis=0))

        found = regression.learn(centered(best), best.kinds)
        start = best

        def gains(tried: ExogColumns, margin: float = _MARGIN) -> bool:
            nonlocal best, found
            weights = regression.weights(centered(tried), tried.kinds, found)
            gained = weights.log_evidence > found.log_evidence + margin
            if gained:
                best, found = tried, weights
            return gained

        for j, column in enumerate(exog.T):
            places = _places_of_bends(column)
            hinges = np.maximum(column[:, None] - np.array(places), 0.0)
            if places and regression.shows(found.left, column - column.mean(), hinges):
                gains(replace(best, bends=(*best.bends[:j], places, *best.bends[j + 1 :])))
        margin = max(_MARGIN, _MARGIN_EACH * exog.shape[1])
        for more in _LAGS:
            if more > lags and not gains(replace(best, lags=more), margin):
                break
        columns = centered(best)
        if best != start:
            found = regression.learn(columns, best.kinds, found)
        nats = regression.nats_over_inputs(columns, best.kinds, found.mean)
        center = best.of(exog).mean(axis=0)
        return cls(best, center, found.mean, found.cov, found.without_prior, nats)

    def columns_at(self, exog: Array, before: Array | None = None) -> Array:
        """Columns (n, d) from their means, at times of regressors (n, k), after others."""
        return self._centered(self.columns.of(exog, before))

    def _centered(self, columns: Array) -> Array:
        return columns if self.center is None else np.asarray(columns - self.center)

    def at(self, exog: Array, before: Array | None = None) -> Array:
        """The sum of the effects at times of regressors (n, k), after others if there are."""
        if self.weights is None:
            return np.zeros(len(exog))
        return np.asarray(self.columns_at(exog, before) @ self.weights)

    def moved(self, exog: Array, more: Array) -> Array:
        """Change (n,) of the effects by more (n, k) of the regressors at their own time alone."""
        if self.weights is None:
            return np.zeros(len(exog))
        return np.asarray(self.columns.moved(exog, more) @ self.weights)

    def added(self, exog: Array, cov: Array | None, before: Array, carried: Carried) -> Added:
        r"""What regressors (h, k) with a covariance (h k, h k) add after others (n, k).

        With columns z and w ~ N(m, C), the error of the weights is that of z less what the model
        carries on of it, :math:`\bar z^\top C \bar z + tr(C Cov[z])`. The mean and the slope of a
        column of Gaussian regressors are exact, its covariance is that of its linear part.
        """
        h = len(exog)
        nothing = np.zeros((h, h))
        if self.weights is None or self.cov is None:
            return Added(np.zeros(h), nothing, nothing)
        columns, of_regressors, more = self.columns_at(exog, before), nothing, nothing
        if cov is not None:
            means, spread = self.columns.moments(exog, cov, before)
            columns = self._centered(means)
            spread = spread.reshape(h, len(self.weights), h, len(self.weights))
            of_regressors = np.einsum("d,sdte,e->st", self.weights, spread, self.weights)
            more = np.einsum("de,sdte->st", self.cov, spread)
        beyond = self.beyond(columns, before, carried)
        of_weights = beyond @ self.cov @ beyond.T + more
        return Added(columns @ self.weights, of_weights, of_regressors)

    def added_jointly(
        self, exogs: Sequence[Array], covs: Sequence[Array | None], before: Array, carried: Carried
    ) -> Array:
        """Covariance (s h, s h) of what regressors of s futures add, as by `added` of one."""
        s, (h, k) = len(exogs), exogs[0].shape
        if self.weights is None or self.cov is None:
            return np.zeros((s * h, s * h))
        none = np.zeros((h * k, h * k))
        each = [
            self.columns.linear(exog, none if cov is None else cov, before)
            for exog, cov in zip(exogs, covs, strict=True)
        ]
        columns = [self._centered(means) for means, _ in each]
        first = self.beyond(columns[0], before, carried)
        moved = first.any(axis=0)  # the others add nothing
        beyond = np.vstack([first + np.where(moved, one - columns[0], 0.0) for one in columns])
        added = beyond @ self.cov @ beyond.T
        errors = joint_errors(covs, h, k)
        if errors is not None:
            slopes, unit = block_diag([linear for _, linear in each], format="csr"), np.eye(s * h)
            for row in [self.weights, *lower_root(self.cov).T]:
                if row.any():
                    passed = csr_array(kron(unit, row[None])) @ slopes
                    added += passed @ (passed @ errors).T
        return np.asarray(added)

    def beyond(self, columns: Array, before: Array, carried: Carried) -> Array:
        """Columns (n, d) less what the model carries on of those of others (m, k) before.

        0 for those whose weights add nothing to a variance.
        """
        past, std = self.columns_at(before), np.zeros(columns.shape[1])
        if self.cov is not None:
            std = np.sqrt(self.cov.diagonal()) * past.std(axis=0)
        some = std > _NEGLIGIBLE * std.max(initial=0.0)
        left = np.zeros_like(columns)
        if some.any():
            left[:, some] = columns[:, some] - carried(past[:, some])
        return left

    def of_steps(self, steps: Array, around: Array) -> tuple[Array, Array]:
        """Means and stds (m,) of the effects of a step of each regressor; see `changes`."""
        if self.weights is None or self.cov is None:
            return np.zeros(len(steps)), np.zeros(len(steps))
        changes = self.columns.changes(steps, around)
        mean = changes @ self.weights
        var = np.einsum("md,de,me->m", changes, self.cov, changes)
        if self.plain is not None:
            mean, var = without_prior(changes, mean, var, self.plain)
        return mean, np.sqrt(np.maximum(var, 0.0))


NO_EXOG = ExogEffects()


def without_prior(
    changes: Array, mean: Array, var: Array, plain: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Means and variances (m,) of changes (m, d) of columns: of one alone without its prior.

    A prior that shrinks a weak effect leaves intervals that are too narrow for it.
    """
    alone = np.count_nonzero(changes, axis=1) == 1
    return np.where(alone, changes @ plain[0], mean), np.where(alone, changes**2 @ plain[1], var)


def _places_of_bends(column: Array) -> tuple[float, ...]:
    """Where the effect of a regressor (n,) may bend; nowhere with few distinct values."""
    if len(np.unique(column)) < _FEWEST:
        return ()
    places = np.unique(np.quantile(column, _BENDS))
    return tuple(places[places > column.min()].tolist())
