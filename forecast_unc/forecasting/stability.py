"""The linear part of a Gaussian process that explodes where the nonlinear part no longer undoes it.

A linear recursion is bounded if no root of its polynomial lies outside the unit circle, and the
kernel part is bounded anywhere. The evidence looks one step ahead at the data alone: with next to
no noise it can prefer weights with such a root, undone by the kernel part at the data and nowhere
else. Then forecasts run away from a series that never does.
"""

import copy
from collections.abc import Callable, Iterator
from itertools import compress
from typing import NamedTuple, cast

import numpy as np
from sklearn.base import clone

from forecast_unc._typing import Array
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.mixture import PosteriorMixture
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor

# Free runs leave the training values if they are farther out than this many of their ranges, and
# a recursion explodes if its largest root is so far above one and that of least squares. Of 34
# noise-free sections of Mackey-Glass and Lorenz whose means left the range in 100 steps, free runs
# were out by .56 or more but for two, whose roots are above 1.3.
_LEAVES, _EXPLODES = 0.5, 0.05
# Of what takes its place the evidence chooses among those that stay so near, in ranges.
_NEAR = 1.0
# The largest noise that counts as next to none, in stds of the changes: where Mackey-Glass and
# Lorenz ran away it was .0001 to .0009; without a limit 17 of 1400 fits to series of M3, M4 and
# tourism gave way, which no noise below .007 led to.
_LITTLE_NOISE = 3e-3
# A noise so many times what least squares leaves is there for the digits of the variances alone.
_NOISE_FOR_DIGITS = 2.0
# Free runs: how many, their longest, and how far out they are followed, in ranges.
_RUNS, _LONGEST, _FARTHEST = 20, 100, 100.0

# Rows, about, at which the kernel part is looked at: its features are a number a center and row.
_MOST_ROWS = 10_000
# The least weight of nodes that stay: with less it is likelier than not that the fit runs away.
_LEAST_STAYS = 0.5

Mean = Callable[[Array], Array]
Process = GPRegressor | ReducedRankGPRegressor


class Training(NamedTuple):
    """What a one-step model has learned from.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs: first the lagged changes, then the regressors.
    target : ndarray of shape (n,)
        Targets, less the prior mean.
    changes : ndarray of shape (m,)
        The standardized changes that the rows are made of, NaN where missing.
    exog : ndarray of shape (m, k)
        The regressors of the same times.
    lags : tuple of int
        Lags of the inputs.
    anchor : int or None
        Which of the lags is the prior mean, by place.
    """

    X: Array
    target: Array
    changes: Array
    exog: Array
    lags: tuple[int, ...]
    anchor: int | None


def bounded(regressor: KernelRegressor, training: Training) -> tuple[KernelRegressor, str]:
    """The fitted regressor, or one whose linear part does not explode, and in words why.

    A Gaussian process with a linear part and next to no noise is looked at where least squares on
    its inputs leave less than the std of the kernel part, which then undoes some of the linear
    part, or less than half of the noise. It gives way if the largest root of its linear recursion
    is .05 above one and above that of least squares, or if its mean, iterated from training values,
    leaves their range by half of it and half as much again as the recursion of least squares: where
    a series grows, both grow. In its place comes the process without a linear part, or with the
    linear weights of least squares for a prior mean, their roots drawn into the unit circle: of
    those that stay near what has the greater evidence, else the nearer. With ``prior=None`` the
    evidence alone decides, and nothing is done. With integrated hyper-parameters each node is
    looked at like that: those that run away are dropped, and their weight goes to the others; if
    they have more than half of it, the hyper-parameters are those of the mode.

    Parameters
    ----------
    regressor : KernelRegressor
        Fitted on the rows.
    training : Training
        The rows and the changes they are made of.

    Returns
    -------
    regressor : KernelRegressor
    why : str
        Empty if the regressor is the one that came.
    """
    if not isinstance(regressor, Process) or regressor.prior is None:
        return regressor, ""
    if isinstance(regressor, GPRegressor) and regressor.nodes_:
        return _bounded_nodes(regressor, training)
    root = _explodes(regressor, training)
    if root is None:
        return regressor, ""
    weights, _ = least_squares(training)
    of_linear = _excess_of_linear(weights, training)
    others = [
        (excess(one.posterior_.mean, training), -support, one, what)
        for one, support, what in _others(regressor, weights, training)
    ]
    near = [(0.0, *other[1:]) for other in others if other[0] <= of_linear + _NEAR]
    _, _, chosen, what = min(near or others, key=lambda other: other[:2])
    return chosen, f"{what}, as the fitted one runs away (root {root:.3f}, noise next to none)"


def _bounded_nodes(regressor: GPRegressor, training: Training) -> tuple[GPRegressor, str]:
    """An integrated regressor without the nodes that run away; that of the mode if most do."""
    stays = np.array([_explodes(node, training) is None for node in regressor.nodes_])
    if stays.all():
        return regressor, ""
    p = float(regressor.node_weights_[stays].sum())
    if p < _LEAST_STAYS:
        mode: GPRegressor = clone(regressor).set_params(hyperparameters="mode")
        chosen, why = bounded(mode.fit(training.X, training.target), training)
        why = why or "as most of their posterior runs away (noise next to none)"
        return cast(GPRegressor, chosen), f"hyper-parameters at the mode, {why}"
    kept = copy.copy(regressor)
    kept.nodes_ = tuple(compress(regressor.nodes_, stays))
    kept.node_weights_ = regressor.node_weights_[stays] / p
    kept.posterior_ = PosteriorMixture(
        tuple(node.posterior_ for node in kept.nodes_), kept.node_weights_
    )
    dropped = f"{len(stays) - stays.sum()} of {len(stays)} nodes of the hyper-parameters dropped"
    return kept, f"{dropped} (weight {1.0 - p:.2g}), as they run away (noise next to none)"


def _explodes(regressor: Process, training: Training) -> float | None:
    """The largest root of a process at one set of hyper-parameters that runs away, or None."""
    if not isinstance(regressor.posterior_, KernelPosterior):
        return None
    if not np.any(regressor.linear_scale_) or regressor.noise_std_ > _LITTLE_NOISE:
        return None
    if len(training.X) <= training.X.shape[1] + 1:
        return None
    weights, left = least_squares(training)
    own = regressor.posterior_.weights[-len(weights) - 1 : -1]
    centered = training.X - training.X.mean(axis=0)
    some = slice(None, None, max(1, len(centered) // _MOST_ROWS))
    smooth = regressor.posterior_.mean(training.X[some]) - centered[some] @ own
    if smooth.std() <= left and regressor.noise_std_ <= _NOISE_FOR_DIGITS * left:
        return None
    root = largest_root(own, training)
    most_root = max(1.0, largest_root(weights, training)) + _EXPLODES
    free = excess(regressor.posterior_.mean, training)
    of_linear = _excess_of_linear(weights, training)
    if root <= most_root and free <= _LEAVES + (1.0 + _LEAVES) * of_linear:
        return None
    return root


def _excess_of_linear(weights: Array, training: Training) -> float:
    """How far the recursion of linear weights leaves the range; see `excess`."""
    level, middle = training.target.mean(), training.X.mean(axis=0)
    return excess(lambda X: level + (X - middle) @ weights, training)


def least_squares(training: Training) -> tuple[Array, float]:
    """Weights of the inputs (d,), beside a constant, and the std that they leave."""
    centered = training.X - training.X.mean(axis=0)
    weights, _, rank, _ = np.linalg.lstsq(centered, training.target - training.target.mean())
    rest = training.target - training.target.mean() - centered @ weights
    return weights, float(np.sqrt(rest @ rest / (len(rest) - rank - 1)))


def largest_root(weights: Array, training: Training) -> float:
    """Largest modulus of a root of z^p - sum_j w_j z^(p - lag_j), with the prior mean among w."""
    polynomial = np.zeros(max(training.lags) + 1)
    polynomial[0] = 1.0
    polynomial[list(training.lags)] = -weights[: len(training.lags)]
    if training.anchor is not None:
        polynomial[training.lags[training.anchor]] -= 1.0
    return float(np.abs(np.roots(polynomial)).max(initial=0.0))


def excess(mean: Mean, training: Training) -> float:
    """How far a mean, iterated from training values, leaves their range; in units of it.

    Runs go on after the training values, unless there are regressors, which are known no further.
    """
    changes, lags, anchor = training.changes, np.array(training.lags), training.anchor
    depth, steps, last = int(lags.max()), _LONGEST, len(changes)
    if training.exog.shape[1]:
        steps = min(steps, (last - depth) // 2)
        last -= steps
    starts = np.unique(np.linspace(depth, last, _RUNS).astype(int))
    windows = changes[starts[:, None] + np.arange(-depth, 0)]
    known = ~np.isnan(windows).any(axis=1)
    starts, paths = starts[known], np.empty((known.sum(), depth + steps))
    paths[:, :depth] = windows[known]
    low, high = np.nanmin(changes), np.nanmax(changes)
    spread = float(high - low)
    if spread == 0.0:  # of the last rows
        return 0.0
    room = _FARTHEST * spread
    for step in range(depth, depth + steps):
        inputs = paths[:, step - lags]
        if training.exog.shape[1]:
            inputs = np.hstack([inputs, training.exog[starts + step - depth]])
        change = mean(inputs) + (0.0 if anchor is None else inputs[:, anchor])
        paths[:, step] = np.clip(change, low - room, high + room)
    out = max(paths.max(initial=low) - high, low - paths.min(initial=high))
    return float(max(out, 0.0) / spread)


def _others(
    regressor: Process, weights: Array, training: Training
) -> Iterator[tuple[Process, float, str]]:
    """The process with other linear parts, fitted, their evidence, and what they are.

    Weights learned from the same rows cost half a log n each, as in Schwarz's criterion.
    """
    if training.anchor is None:
        stable = weights.copy()
        root = max(1.0, largest_root(weights, training))
        stable[: len(training.lags)] *= root ** -np.array(training.lags, dtype=float)
        other = _fitted(regressor, stable, training)
        n = len(training.X)
        if isinstance(regressor, ReducedRankGPRegressor):
            n = regressor.n_searched(n)
        cost = 0.5 * len(weights) * float(np.log(n))
        yield other, other.log_evidence_ - cost, "linear part of least squares"
    other = _fitted(regressor, False, training)
    yield other, other.log_evidence_, "no linear part"


def _fitted(regressor: Process, linear: bool | Array, training: Training) -> Process:
    """The regressor with another linear part, learned anew."""
    other: Process = clone(regressor).set_params(linear=linear)
    return other.fit(training.X, training.target)
