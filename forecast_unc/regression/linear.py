"""The extended linear model: Bayesian linear regression, a precision for each group of inputs."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import add
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dgemm, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs
from scipy.special import gammaln
from sklearn.utils.validation import check_is_fitted, validate_data

from forecast_unc._checks import check_choice, numbers, refusal
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.regression.estimator import (
    KernelRegressor,
    LeadingMeans,
    check_relative_noise,
    column_scale,
    target_scale,
    within_floats,
)
from forecast_unc.regression.kernels import inverse, mirrored
from forecast_unc.regression.posterior import FunctionSample, Moments
from forecast_unc.regression.search import NOISE_BOUNDS

# Prior precisions of standardized weights, in rows: half decades, from next to nothing, for lines
# without noise, to no weight at all.
_GRID = np.geomspace(1e-8, 1e7, 31)
# From little and from much weight: where groups cancel each other, the one ends 120 nats below.
_STARTS = (1.0, 1e-6)
_ROUNDS = 10  # of a search over the groups, at most; two or three suffice
_LEAST_GAIN = 1e-6  # nats, of a step of the search
_AT_ONCE = 16  # groups that the search looks at before it moves one
_MOST_DIGITS = 6.0 * np.log(10.0)  # that updating an inverse may cost before it is made anew


@dataclass(frozen=True)
class LinearPosterior:
    """y | x ~ N(offset + w . phi(x), s^2 + phi' D (L L')^-1 D phi), phi(x) = [x - offset; 1]."""

    closed_form: ClassVar[bool] = True
    joint: ClassVar[bool] = True
    signal_var: ClassVar[None] = None
    observation_var: ClassVar[float] = 0.0

    weights: Array  # (d + 1,), w
    chol: Array  # (d + 1, d + 1), L in Fortran order; the upper triangle is not read
    scale: Array  # (d + 1,), the diagonal of D
    noise_var: float  # s^2
    input_offset: Array  # (d,)
    output_offset: float = 0.0  # added to every mean

    @property
    def path_size(self) -> int:
        """Weights."""
        return len(self.weights)

    def _features(self, X: Array) -> Array:
        return np.column_stack([X - self.input_offset, np.ones(len(X))])

    def whiten(self, X: Array) -> Array:
        """L^-1 D phi of the rows of X, (d + 1, n): the function's covariance is of its columns."""
        scaled = np.asfortranarray((self._features(X) * self.scale).T)
        return dtrsm(1.0, self.chol, scaled, lower=1, overwrite_b=1)

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return np.asarray(self._features(X) @ self.weights + self.output_offset)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        V = self.whiten(X)
        return self.mean(X), self.noise_var + np.einsum("rn,rn->n", V, V)

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X, of shape (n, d)."""
        return np.tile(self.weights[:-1], (len(X), 1))

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (no noise) between the rows of X, (n, n)."""
        V = self.whiten(X)
        return dgemm(1.0, V, V, trans_a=1)

    @property
    def weight_cov(self) -> Array:
        """Posterior covariance of the inputs' weights, (d, d)."""
        cov = mirrored(inverse(self.chol)) * np.outer(self.scale, self.scale)
        return np.asarray(cov[:-1, :-1])

    @cached_property
    def _second_moment(self) -> Array:
        """E[w w'] of the inputs' weights, (d, d)."""
        return np.asarray(self.weight_cov + np.outer(self.weights[:-1], self.weights[:-1]))

    def moments(self, mean: Array, cov: Array) -> Moments:
        r"""Exact moments, x ~ N(m, S): the variance is that at m and :math:`tr(E[w w'] S)`."""
        plain, var = self.predict(mean[None])
        at = np.flatnonzero(cov.diagonal())
        added = np.sum(self._second_moment[np.ix_(at, at)] * cov[np.ix_(at, at)])
        return Moments(float(plain[0]), float(var[0] + added), self.weights[:-1].copy())

    taylor_moments = moments

    def plus_input(self, column: int) -> Self:
        """The posterior of y + x_column."""
        weights = self.weights.copy()
        weights[column] += 1.0
        offset = self.output_offset + float(self.input_offset[column])
        return replace(self, weights=weights, output_offset=offset)

    def function_path(self, n_steps: int, n_paths: int = 1) -> "LinearFunctionPath":
        """Empty paths with room for so many inputs each."""
        return LinearFunctionPath(self, n_steps, n_paths)

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> FunctionSample:
        """Linear functions drawn from the posterior, one a path."""
        draws = np.asfortranarray(rng.standard_normal((len(self.weights), n_paths)))
        error = dtrsm(1.0, self.chol, draws, lower=1, trans_a=1, overwrite_b=1)
        weights = self.weights + error.T * self.scale
        return lambda X: self.output_offset + np.einsum("nd,nd->n", weights, self._features(X))


class LinearFunctionPath:
    """Posterior covariances of a linear function along paths of inputs, by whitened features."""

    def __init__(self, posterior: LinearPosterior, n_steps: int, n_paths: int) -> None:
        self._posterior, self._length = posterior, 0
        self._kept = np.empty((n_steps, len(posterior.weights), n_paths))

    def append(self, X: Array, keep: bool = True) -> tuple[Array, Array]:
        """Means (n_paths,); covariances with the kept inputs and variances, (t + 1, n_paths)."""
        t = self._length
        self._kept[t] = now = self._posterior.whiten(X)
        self._length += keep
        cov = np.einsum("trn,rn->tn", self._kept[: t + 1], now)
        return self._posterior.mean(X), np.asarray(cov)

    def take(self, paths: Positions) -> None:
        """Keep these paths, in this order; repeats are allowed."""
        self._kept = self._kept[:, :, paths]


class _Statistics(NamedTuple):
    """Sums over rows z = [(x - offset) / scale, 1]."""

    gram: Array  # (d + 1, d + 1), sum z z'
    moment: Array  # (d + 1,), sum z y
    square: float  # sum y^2
    n: int


class LinearRegressor(KernelRegressor):
    r"""Bayesian linear regression with a precision for each group of inputs, by evidence.

    With z the inputs in units of their standard deviations,

    .. math::
        y = \textstyle\sum_j w_j z_j + b + \varepsilon, \quad
        w_j \sim \mathcal N(0, s^2 / a_{g(j)}), \quad \varepsilon \sim \mathcal N(0, s^2 r^2) ,

    r the relative noise of a row, 1 unless it is given.

    The precisions a are chosen from a grid to maximize the evidence, with s^2 integrated out under
    p(s^2) = 1 / s^2. An uncertain input goes through it in closed form, with the uncertainty of the
    weights. A fit takes O(n d^2): 6 ms for 3000 rows of 20 inputs.

    Parameters
    ----------
    groups : array-like of int of shape (d,), optional
        The group of each input, from 0 on; inputs of a group share a precision. None: one group.
        Give inputs whose effects differ in size, such as lags and the steps of a season, groups of
        their own.
    bias : {"free", "shrunk"}, default="free"
        The bias is the mean of y at the mean input: free, or shrunk to 0 by a precision of its own.
        On differences, where it is a drift, "shrunk" leaves as much of it as the data support.

    Attributes
    ----------
    posterior_ : LinearPosterior
        Predictive distribution.
    coef_ : ndarray of shape (d,)
        Posterior means of the weights, in units of y over those of the inputs.
    precisions_ : ndarray
        Precision of each group, by increasing number, in rows: a value of 10 counts as ten further
        rows. With ``bias="shrunk"`` that of the bias comes last.
    log_evidence_ : float
        log p(y | a) in nats, with s integrated out under 1 / s^2, a free bias under a flat prior.
    noise_std_ : float
        Noise standard deviation s, the root of its variance's posterior mean; at least 1e-4 of the
        standard deviation of y.
    n_iter_ : int
        Rounds of the search over the groups, of the better of two starts.
    converged_ : bool
        Whether the last of at most ten rounds changed nothing.

    References
    ----------
    Bishop, Pattern Recognition and Machine Learning (2006), 3.3 and 3.5.

    Examples
    --------
    >>> x = np.arange(20.0)[:, None]
    >>> line = LinearRegressor().fit(x, 3 * x[:, 0] + np.sin(9 * x[:, 0]))
    >>> m = line.predict_uncertain([5.0], [[4.0]])
    >>> round(float(m.slope[0]), 1), round(float(m.var))
    (3.0, 37)
    """

    posterior_: LinearPosterior
    coef_: Array
    precisions_: Array
    log_evidence_: float
    noise_std_: float
    n_iter_: int
    converged_: bool
    n_features_in_: int

    # Where inputs are measured from and in what units; the precision of each weight, 0 for flat.
    _offset: Array
    _output_offset: float
    _scale: Array
    _weight_precisions: Array

    def __init__(
        self, *, groups: ArrayLike | None = None, bias: Literal["free", "shrunk"] = "free"
    ) -> None:
        self.groups = groups
        self.bias = bias

    def fit(self, X: ArrayLike, y: ArrayLike, relative_noise: ArrayLike | None = None) -> Self:
        """Maximize the evidence and compute the posterior.

        Parameters
        ----------
        X, y : array-like of shape (n, d) and (n,)
            Inputs and targets.
        relative_noise : array-like of shape (n,), optional
            Standard deviation of the noise of each row in units of `noise_std_`, where they are
            known to differ; None: all 1. Predictions are of rows with 1.

        Raises
        ------
        ValueError
            If `groups` or `bias` is not one of its choices, `relative_noise` is not positive, or
            inputs are so far from 0 in their standard deviations that they have no digits left.
        """
        return self._fit(X, y, relative_noise, _STARTS)

    def fit_near(self, X: ArrayLike, y: ArrayLike, precisions: ArrayLike) -> Self:
        """Fit from one start, the precisions of like rows: of many groups in a tenth of the time.

        `X`, `y`: as of `fit`; `precisions` of shape (g,), of each group, and of a shrunk bias.
        """
        start = np.clip(numbers("precisions", precisions), _GRID[0], _GRID[-1])
        return self._fit(X, y, None, (start,))

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        relative_noise: ArrayLike | None,
        starts: Sequence[float | Array],
    ) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        X, y = within_floats(np.asarray(X), numbers("y", y))
        noise = check_relative_noise(relative_noise, len(y))
        groups = self._checked_groups(X.shape[1])
        free, unit = self.bias == "free", target_scale(y)
        # an orthogonal group, such as a profile of the season, stays so, and is eliminated fast; a
        # shrunk bias is that at the mean input, which would mix the columns
        self._scale = np.append(column_scale(X), 1.0)
        own = groups == np.bincount(groups).argmax()
        weighted = X[:, own] / noise[:, None]
        gram = weighted.T @ weighted
        alone = free and own.sum() > 1 and not (gram - np.diag(gram.diagonal())).any()
        orthogonal = own & alone
        self._offset = np.where(orthogonal, 0.0, X.mean(axis=0))
        self._output_offset = float(y.mean()) if free else 0.0
        labels = np.append(groups, -1 if free else groups.max() + 1)
        sums = self._sums(X, (y - self._output_offset) / unit, noise)
        objective = _Evidence(sums, labels, orthogonal)
        found = [_maximized(objective, np.full(labels.max() + 1, start)) for start in starts]
        best, value, self.n_iter_ = max(found, key=lambda one: one[1])
        if not np.isfinite(value):
            must = "leave a covariance that is positive definite in double precision"
            raise refusal("X", must, "one that is not", "Measure inputs from their means.")
        self.converged_ = self.n_iter_ < _ROUNDS
        self.precisions_ = best
        self.log_evidence_ = value - objective.dof * float(np.log(unit)) - np.log(noise).sum()
        self._weight_precisions = np.where(labels < 0, 0.0, best[labels])
        left = objective.solution(best).left / max(objective.dof - 2, 1)
        self.noise_std_ = unit * float(np.sqrt(max(left, NOISE_BOUNDS[0] ** 2)))
        self._set_posterior(X, y, noise)
        return self

    @property
    def takes_noise(self) -> bool:
        """Always."""
        return True

    def _checked_groups(self, d: int) -> Positions:
        """Groups of the inputs as 0, 1, ...; raises for what is none."""
        check_choice("bias", self.bias, ("free", "shrunk"), "Use 'free' if unsure.")
        if self.groups is None:
            return np.zeros(d, dtype=np.intp)
        given = np.asarray(self.groups)
        if given.shape != (d,) or given.dtype.kind not in "iu" or (d and given.min() < 0):
            must = f"be {d} whole numbers from 0 on, one an input"
            raise refusal("groups", must, repr(self.groups), "Use None for one group.")
        return np.unique(given, return_inverse=True)[1].astype(np.intp)

    def _sums(self, X: Array, y: Array, noise: Array) -> _Statistics:
        """Sums over rows, each over its relative noise (n,)."""
        Z = np.column_stack([X - self._offset, np.ones(len(X))]) / self._scale / noise[:, None]
        y = y / noise
        gram = mirrored(dsyrk(1.0, Z, trans=1, lower=1))
        return _Statistics(gram, Z.T @ y, float(y @ y), len(y))

    def condition(
        self, X: ArrayLike, y: ArrayLike, relative_noise: ArrayLike | None = None
    ) -> Self:
        """A new regressor with the precisions and noise of this one, and other rows.

        `X`, `y`, `relative_noise`: as of `fit`.
        """
        check_is_fitted(self)
        conditioned, rows = copy.copy(self), self._checked_rows(X, y, reset=False)
        conditioned._set_posterior(*rows, check_relative_noise(relative_noise, len(rows[1])))
        return conditioned

    def _set_posterior(self, X: Array, y: Array, noise: Array | None = None) -> None:
        """The posterior given rows, by the precisions and the noise as learned."""
        relative = check_relative_noise(noise, len(y))
        sums = self._sums(X, y - self._output_offset, relative)
        chol, standardized_weights = _solved(sums, self._weight_precisions)
        unit = 1.0 / self._scale  # of weights
        self.posterior_ = LinearPosterior(
            weights=standardized_weights * unit,
            chol=chol,
            scale=self.noise_std_ * unit,
            noise_var=self.noise_std_**2,
            input_offset=self._offset,
            output_offset=self._output_offset,
        )
        self.coef_ = self.posterior_.weights[:-1]

    def without_prior(self) -> tuple[Array, Array]:
        """Means and variances (d,) of the weights, of each without its own prior.

        The posterior over the prior of one weight, which is flat for it then: intervals hold what
        they say of weak effects, too, which the prior shrinks.
        """
        share = self.determined()
        # a weight of which rows say nothing has no figure without its prior
        share = np.where(share > 1e-12, share, 1.0)
        return self.coef_ / share, self.posterior_.weight_cov.diagonal() / share

    def determined(self) -> Array:
        """Shares (d,) of the information on each weight that are of the rows, not of its prior.

        Their sum is the number of parameters that the rows determine (Bishop 2006, 3.5.3).
        """
        check_is_fitted(self)
        known = 1.0 / np.diagonal(mirrored(inverse(self.posterior_.chol)))
        return np.asarray(1.0 - self._weight_precisions / known)[:-1]

    def leading_means(
        self, X: Array, y: Array, counts: Sequence[int], relative_noise: Array | None = None
    ) -> LeadingMeans:
        """Means given the first `counts` of the rows X, y, with the precisions of all.

        `relative_noise`: as of `fit`.
        """
        noise = check_relative_noise(relative_noise, len(y))
        weights, total, before = {}, None, 0
        for count in sorted(set(counts)):
            some = slice(before, count)
            part = self._sums(X[some], y[some] - self._output_offset, noise[some])
            total = part if total is None else _Statistics(*map(add, total, part))
            weights[count], before = _solved(total, self._weight_precisions)[1], count
        w = np.array([weights[count] for count in counts]) / self._scale

        def means(inputs: Array) -> Array:
            own = np.einsum("kd,kd->k", inputs - self._offset, w[:, :-1])
            return np.asarray(own + w[:, -1] + self._output_offset)

        return means


class _Solution(NamedTuple):
    """What the evidence of some precisions is made of."""

    precisions: Array  # (g,)
    inverse: Array  # (r, r), of A among the columns that are not eliminated
    weights: Array  # (r,), posterior means
    prior: float  # log |a| of the columns with a precision
    log_det: float
    left: float
    log_evidence: float


class _Evidence:
    """log p(y | a) for the precisions of the groups, from sums over the rows."""

    def __init__(self, sums: _Statistics, labels: Positions, orthogonal: Flags) -> None:
        self.sums, self.labels = sums, labels
        out = np.append(orthogonal, False)
        self.first, self.rest = np.flatnonzero(out), np.flatnonzero(~out)
        self.dof = sums.n - int((labels < 0).sum())
        self.least = np.finfo(np.float64).eps * sums.square + np.finfo(np.float64).tiny
        self.constant = float(gammaln(0.5 * self.dof) - 0.5 * self.dof * np.log(np.pi))
        gram, moment = sums.gram, sums.moment
        self.diagonal = gram.diagonal()[self.first]
        self.across = gram[np.ix_(self.first, self.rest)]
        self.inner, self.first_moment = gram[np.ix_(self.rest, self.rest)], moment[self.first]
        self.sizes = np.bincount(labels[labels >= 0]).astype(np.float64)
        self.members = [np.flatnonzero(labels[self.rest] == g) for g in range(len(self.sizes))]

    def __call__(self, precisions: Array) -> Array:
        """Log evidence (k,) of precisions (k, g); -inf where A is not positive definite."""
        own, inner, moment = self._reduced(precisions)
        chol = _factored(inner)
        w = np.linalg.solve(chol, moment[:, :, None])[:, :, 0]
        explained = (w**2).sum(axis=1) + (self.first_moment**2 / own).sum(axis=1)
        diagonals = np.diagonal(chol, axis1=1, axis2=2)
        log_det = 2.0 * np.log(diagonals).sum(axis=1) + np.log(own).sum(axis=1)
        prior = np.log(precisions) @ self.sizes
        return self._evidence(prior, log_det, self.sums.square - explained)

    def _evidence(self, prior: Array, log_det: Array, left: Array) -> Array:
        left = np.maximum(left, self.least)
        return np.asarray(self.constant + 0.5 * (prior - log_det - self.dof * np.log(left)))

    def _reduced(self, precisions: Array) -> tuple[Array, Array, Array]:
        """Of A = Z'Z + a for k precisions: the diagonal that is eliminated, the rest, Z'y there."""
        a = np.where(self.labels < 0, 0.0, precisions[:, self.labels])
        own = self.diagonal + a[:, self.first]  # eliminated first, by the Schur complement
        share = self.across / own[:, :, None]
        inner = self.inner - self.across.T @ share
        diagonal = np.arange(len(self.rest))
        inner[:, diagonal, diagonal] += a[:, self.rest]
        moment = self.sums.moment[self.rest] - np.einsum("kfr,f->kr", share, self.first_moment)
        return own, inner, moment

    def solution(self, precisions: Array) -> _Solution:
        """The inverse, the weights and the evidence of precisions (g,)."""
        own, inner, moment = (one[0] for one in self._reduced(precisions[None]))
        chol = np.asfortranarray(_factored(inner[None])[0])
        half = dtrtrs(chol, moment, lower=1)[0]
        left = self.sums.square - half @ half - (self.first_moment**2 / own).sum()
        log_det = 2.0 * np.log(chol.diagonal()).sum() + np.log(own).sum()
        prior = np.log(precisions) @ self.sizes
        value = self._evidence(prior, log_det, left)
        weights = dtrtrs(chol, half, lower=1, trans=1)[0]
        of_a = mirrored(inverse(chol))
        figures = float(prior), float(log_det), float(left), float(value)
        return _Solution(precisions, of_a, weights, *figures)

    def each_alone(self, now: _Solution) -> _Solution:
        """End of one round over the groups, each with the best of the grid given the others."""
        group, before = 0, now
        while group < len(self.members):
            some = self._next(group)
            values = self._values(some, now)
            # nats; of two rows and a free bias the evidence is the same everywhere
            gain = values.max(axis=1) > now.log_evidence + _LEAST_GAIN
            group = some[-1] + 1
            if gain.any():
                i = int(gain.argmax())
                now, group = self._moved(some[i], _GRID[values[i].argmax()], now), some[i] + 1
        return now if now is before else self.solution(now.precisions)

    def _next(self, group: int) -> range:
        """Groups whose values are found at once: some of one column each, or one group."""
        stop = group
        while stop < min(len(self.members), group + _AT_ONCE) and len(self.members[stop]) == 1:
            stop += 1
        return range(group, max(stop, group + 1))

    def _values(self, groups: Sequence[int], now: _Solution) -> Array:
        """Log evidence (k, len(_GRID)) of the grid for each of k groups, the others as they are.

        With P the group's block of A^-1 and w its weights, a change d of its precision adds
        log |I + d P| to log |A|, and d w' (I + d P)^-1 w to the least sum of squares.
        """
        members = np.concatenate([self.members[group] for group in groups])
        if len(members) == len(groups):
            spread = now.inverse[members, members][:, None, None]
            squares = now.weights[members][:, None, None] ** 2
        elif not len(members) and len(self.first) > len(self.rest):
            tried = np.tile(now.precisions, (len(_GRID), 1))
            tried[:, groups[0]] = _GRID
            return self(tried)[None]
        else:
            block, weights = self._block(members, now) if len(members) else self._first(now)
            spread, axes = np.linalg.eigh(block)
            squares = (axes.T @ weights) ** 2
        before = now.precisions[list(groups)][:, None]
        change = (_GRID - before)[..., None]
        factors = np.maximum(1.0 + change * spread, np.finfo(np.float64).tiny)
        log_det = now.log_det + np.log(factors).sum(axis=2)
        left = now.left + (change * squares / factors).sum(axis=2)
        prior = now.prior + self.sizes[list(groups)][:, None] * np.log(_GRID / before)
        return self._evidence(prior, log_det, left)

    def _block(self, members: Positions, now: _Solution) -> tuple[Array, Array]:
        """Block of A^-1 and weights of columns that are not eliminated."""
        return now.inverse[np.ix_(members, members)], now.weights[members]

    def _first(self, now: _Solution) -> tuple[Array, Array]:
        """Block of A^-1 and weights of the columns that are eliminated."""
        own = self.diagonal + now.precisions[self.labels[self.first]]
        share = self.across / own[:, None]
        block = np.diag(1.0 / own) + share @ now.inverse @ share.T
        return block, self.first_moment / own - share @ now.weights

    def _moved(self, group: int, precision: float, now: _Solution) -> _Solution:
        """The solution with another precision of one group, if it gains."""
        precisions, members = now.precisions.copy(), self.members[group]
        precisions[group] = precision
        change = precision - now.precisions[group]
        block, weights = self._block(members, now)
        spread, axes = np.linalg.eigh(block)
        factors = 1.0 + change * spread
        if not len(members) or np.abs(np.log(np.maximum(factors, 1e-300))).max() > _MOST_DIGITS:
            reached = self.solution(precisions)
            return reached if reached.log_evidence > now.log_evidence + _LEAST_GAIN else now
        across = now.inverse[:, members] @ axes
        share, along = change / factors, axes.T @ weights
        of_a = now.inverse - (across * share) @ across.T
        log_det, left = now.log_det + np.log(factors).sum(), now.left + share @ along**2
        prior = now.prior + self.sizes[group] * np.log(precision / now.precisions[group])
        value = float(self._evidence(prior, log_det, left))
        moved = now.weights - across @ (share * along)
        return _Solution(precisions, of_a, moved, prior, log_det, left, value)

    def all_together(self, now: _Solution) -> _Solution:
        """End of an ascent by steps of the grid in the direction in which the evidence grows."""
        block, weights = self._first(now)
        diagonal, w = np.empty((2, len(self.labels)))
        diagonal[self.first], diagonal[self.rest] = block.diagonal(), now.inverse.diagonal()
        w[self.first], w[self.rest] = weights, now.weights
        learned = self.labels >= 0
        a = now.precisions[self.labels[learned]]
        shrunk = diagonal + self.dof * (w**2 / max(now.left, self.least))
        slope = 1.0 - a * shrunk[learned]
        step = _GRID[1] / _GRID[0]
        for factor, free in ((step, a < _GRID[-1]), (1.0 / step, a > _GRID[0])):
            if slope[free].sum() * np.log(factor) <= 0.0:
                continue
            while True:
                reached = self.solution(np.clip(now.precisions * factor, _GRID[0], _GRID[-1]))
                if reached.log_evidence <= now.log_evidence + _LEAST_GAIN:
                    break
                now = reached
        return now


def _factored(matrices: Array) -> Array:
    """Cholesky factors of matrices (k, r, r): of inf where one is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(matrices))
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.diag(np.full(matrices.shape[1], np.inf))[None]
        return np.concatenate([_factored(one[None]) for one in matrices])


def _maximized(objective: _Evidence, precisions: Array) -> tuple[Array, float, int]:
    """End of an ascent over the grid, group after group, then all together; its rounds."""
    now = objective.solution(precisions)
    while not np.isfinite(now.log_evidence) and now.precisions.max() < _GRID[-1]:
        now = objective.solution(np.minimum(10.0 * now.precisions, _GRID[-1]))
    if not np.isfinite(now.log_evidence):
        return precisions, -np.inf, 0
    rounds, moved = 0, True
    while moved and rounds < _ROUNDS:
        before = now
        now, rounds = objective.all_together(objective.each_alone(now)), rounds + 1
        moved = not np.array_equal(now.precisions, before.precisions)
    return now.precisions, now.log_evidence, rounds


def _solved(sums: _Statistics, precisions: Array) -> tuple[Array, Array]:
    """Cholesky factor of Z'Z + a, and the posterior mean of the weights."""
    A = np.asfortranarray(sums.gram + np.diag(precisions))
    chol, _ = dpotrf(A, lower=1, overwrite_a=1)
    return chol, dpotrs(chol, sums.moment, lower=1)[0]
