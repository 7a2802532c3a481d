"""The linear part of a Gaussian process that explodes where the nonlinear part no longer undoes it.

With next to no noise the evidence, one step ahead, can prefer linear weights with a root outside
the unit circle: forecasts run away from a series that never does. See docs/theory/horizon.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from forecast_unc._typing import Array
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor

# Free runs leave the training values if they are farther out than this many of their ranges, and
# a recursion explodes if its largest root is so far above one and that of least squares. Of 50 fits
# to noise-free sections of Mackey-Glass by the kernels of two processors the forecasts of 22 left
# the range by twice or more of it: free runs of these were out by 1.6 or more, of the others by .6
# at most but for five; runs of means alone by .02 or more and by .3 at most.
_LEAVES, _EXPLODES = 1.0, 0.05

Process = GPRegressor | ReducedRankGPRegressor


class Training(NamedTuple):
    """Training data of a one-step model."""

    X: Array  # (n, d), first the lagged changes, then the regressors
    target: Array  # (n,), less the prior mean
    changes: Array  # (m,), standardized, that the rows are made of; NaN where missing
    exog: Array  # (m, k), of the same times
    lags: tuple[int, ...]
    anchor: int | None  # which of the lags is the prior mean, by place
    noise: Array | None = None  # (n,), stds of the rows' noise, relative; None: all 1


def bounded(regressor: KernelRegressor, training: Training) -> tuple[KernelRegressor, str]:
    """Replace the regressor if its linear part is unstable; return it and the reason.

    With `prior=None` the evidence alone decides, and the regressor stays.
    """
    if not isinstance(regressor, Process) or regressor.prior is None:
        return regressor, ""
    root = _exploding_root(regressor, training)
    if root is None:
        return regressor, ""
    chosen, what = _replaced(regressor, training)
    return chosen, f"{what}, as the fitted one runs away (root {root:.3f}, noise next to none)"


def _replaced(regressor: Process, training: Training) -> tuple[Process, str]:
    """The process learned anew with another linear part, and what that is.

    None, or the weights of least squares, their roots shrunk to the unit circle: by evidence if
    they stay within a range, else the nearer. Each alone loses: CRPS of Mackey-Glass .50 -> 1.15 by
    none, of Lorenz .69 -> 2.20 by least squares.
    """
    weights, _ = least_squares(training)
    linear: dict[str, bool | Array] = {}
    given = {} if training.noise is None else {"relative_noise": training.noise}
    if training.anchor is None:
        stable = weights.copy()
        root = max(1.0, largest_root(weights, training))
        stable[: len(training.lags)] *= root ** -np.array(training.lags, dtype=float)
        linear["linear part of least squares"] = stable
    linear["no linear part"] = False
    near, best = _excess_of_linear(weights, training) + 1.0, []
    for what, part in linear.items():
        other: Process = clone(regressor).set_params(linear=part)
        other.fit(training.X, training.target, **given)
        out, cost = excess(other.posterior_.mean, training), 0.0
        if part is not False:  # half a log n each, as in Schwarz's criterion
            n = len(training.X)
            n = regressor.n_searched(n) if isinstance(regressor, ReducedRankGPRegressor) else n
            cost = 0.5 * len(weights) * float(np.log(n))
        best.append((0.0 if out <= near else out, cost - other.log_evidence_, other, what))
    _, _, chosen, what = min(best, key=lambda one: one[:2])
    return chosen, what


def _exploding_root(regressor: Process, training: Training) -> float | None:
    """The largest root of a process that runs away, or None.

    It is looked at where the kernel part undoes some of the linear part: where least squares leave
    less than its std, or than half of the noise. It runs away if its root is .05 above one and that
    of least squares, or if it, iterated with draws of what is not known of the function, leaves
    the training range by all of it and twice as much as least squares: where a series grows, both
    grow.
    """
    if not isinstance(regressor.posterior_, KernelPosterior):
        return None
    # Next to no noise, in stds of the changes: where Mackey-Glass and Lorenz ran away it was .0001
    # to .0009; without a limit 17 of 1400 fits to series of M3, M4 and tourism gave way, which no
    # noise below .007 led to.
    if not np.any(regressor.linear_scale_) or regressor.noise_std_ > 3e-3:
        return None
    if len(training.X) <= training.X.shape[1] + 1:
        return None
    weights, left = least_squares(training)
    own = regressor.posterior_.weights[-len(weights) - 1 : -1]
    centered = training.X - training.X.mean(axis=0)
    # at some 10,000 rows: features of the kernel part are a number a center and row
    some = slice(None, None, max(1, len(centered) // 10_000))
    smooth = regressor.posterior_.mean(training.X[some]) - centered[some] @ own
    # a noise twice what least squares leaves is there for the digits of the variances alone
    if smooth.std() <= left and regressor.noise_std_ <= 2.0 * left:
        return None
    root = largest_root(own, training)
    most_root = max(1.0, largest_root(weights, training)) + _EXPLODES
    random, posterior = np.random.default_rng(0), regressor.posterior_

    def drawn(X: Array) -> Array:
        mean, var = posterior.predict(X)
        return mean + np.sqrt(np.maximum(var, 0.0)) * random.standard_normal(len(X))

    free = excess(drawn, training, repeats=10)
    of_linear = _excess_of_linear(weights, training)
    if root <= most_root and free <= _LEAVES + (1.0 + _LEAVES) * of_linear:
        return None
    return root


def _excess_of_linear(weights: Array, training: Training) -> float:
    """Distance of the recursion of linear weights from the range; see `excess`."""
    level, middle = training.target.mean(), training.X.mean(axis=0)
    return excess(lambda X: level + (X - middle) @ weights, training)


def least_squares(training: Training) -> tuple[Array, float]:
    """Weights of the inputs (d,), beside a constant, and the std that they leave."""
    centered = training.X - training.X.mean(axis=0)
    weights, _, rank, _ = np.linalg.lstsq(centered, training.target - training.target.mean(), None)
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


def excess(function: Callable[[Array], Array], training: Training, repeats: int = 1) -> float:
    """Distance of a function, iterated from training values, from their range; in units of it.

    Twenty runs of 100 steps, followed to 100 ranges, go on after the training values, unless there
    are regressors, which are known no further.
    """
    changes = training.changes
    lags = np.array(training.lags)
    anchor = training.anchor
    depth = int(lags.max())
    steps = 100
    last = len(changes)
    if training.exog.shape[1]:
        steps = min(steps, (last - depth) // 2)
        last -= steps
    starts = np.repeat(np.unique(np.linspace(depth, last, 20).astype(int)), repeats)
    windows = changes[starts[:, None] + np.arange(-depth, 0)]
    known = ~np.isnan(windows).any(axis=1)
    starts, paths = starts[known], np.empty((known.sum(), depth + steps))
    paths[:, :depth] = windows[known]
    low, high = np.nanmin(changes), np.nanmax(changes)
    spread = float(high - low)
    if spread == 0.0:  # of the last rows
        return 0.0
    room = 100.0 * spread
    for step in range(depth, depth + steps):
        inputs = paths[:, step - lags]
        if training.exog.shape[1]:
            inputs = np.hstack([inputs, training.exog[starts + step - depth]])
        change = function(inputs) + (0.0 if anchor is None else inputs[:, anchor])
        paths[:, step] = np.clip(change, low - room, high + room)
    out = max(paths.max(initial=low) - high, low - paths.min(initial=high))
    return float(max(out, 0.0) / spread)
