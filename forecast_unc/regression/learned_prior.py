r"""Priors of a Gaussian process learned from other data sets of the same kind: empirical Bayes.

The linear weights of series i have w_i ~ N(m, S). With its rows X_i, y_i, free of what else the
model has (a constant, other inputs), in units of its own, and noise variance s_i^2, expectation
maximization takes

.. math::
    w_i | m, S \sim \mathcal N(V_i (X_i'y_i / s_i^2 + S^{-1} m), V_i), \quad
    V_i = (X_i'X_i / s_i^2 + S^{-1})^{-1}, \quad
    m = \overline{w_i}, \quad S = \overline{V_i + (w_i - m)(w_i - m)'} .

Log hyper-parameters have independent normal distributions; with the mode of each data set and the
inverse curvature there, their means and variances are those of the same kind of mixture, in one
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array

# Data sets below which nothing is pooled: a mean of fewer is no better than zero.
LEAST_SETS = 30
# The share of the mean weights that is believed. On an origin inside the training parts of M3, M4
# and tourism .75 and 1 gained about as much, and where 1 lost, .75 lost less; other origins and the
# test parts do not decide (docs/benchmarks/all.md).
_BELIEVED = 0.75
_EM_STEPS = 50
_FIRST_VAR = 0.04  # of a weight
# Log-stds of hyper-parameters stay in here: one round of few sets can make them too small.
_LEAST_LOG_STD, _MOST_LOG_STD = 0.2, 3.0
_LEAST_BIAS_STD = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class LearnedPrior:
    """A prior for `GPRegressor`, learned from data sets of the same kind.

    Parameters
    ----------
    base : {"weak", "shrunk"}
        The prior that counts where nothing was learned.
    weights : ndarray of shape (d,)
        Prior mean of the linear weights, in units of y per unit of the inputs.
    n_sets : int
        How many data sets it was learned from.
    bias : tuple of float, optional
        Mean and std of a bias that is "shrunk", in stds of the targets.
    median : ndarray of shape (d + 2 + g,), optional
        Means of log [l, a, tau, s], on standardized data.
    log_std : ndarray of shape (d + 2 + g,), optional
        Their stds.
    """

    base: Literal["weak", "shrunk"]
    weights: Array
    n_sets: int
    bias: tuple[float, float] | None = None
    median: Array | None = None
    log_std: Array | None = None

    def __repr__(self) -> str:
        return f"LearnedPrior({self.base!r}, of {self.n_sets} data sets)"

    def sharpened(self, modes: Array, variances: Array) -> Self:
        """The prior with the distribution of the log hyper-parameters.

        Parameters
        ----------
        modes : ndarray of shape (k, d + 2 + g)
            Of k data sets under this prior; NaN where not learned.
        variances : ndarray of shape (k, d + 2 + g)
            Posterior variances there.

        Returns
        -------
        LearnedPrior
        """
        learned = ~np.isnan(modes).any(axis=0)
        median, log_std = np.full((2, modes.shape[1]), np.nan)
        median[learned] = modes[:, learned].mean(axis=0)
        var = (variances + (modes - median) ** 2)[:, learned].mean(axis=0)
        log_std[learned] = np.clip(np.sqrt(var), _LEAST_LOG_STD, _MOST_LOG_STD)
        return replace(self, median=median, log_std=log_std)


class LinearRows(NamedTuple):
    """What the rows of one data set say of its linear weights."""

    gram: Array  # (k, k), X'X of the pooled inputs, free of the others
    product: Array  # (k,), X'y
    square: float  # y'y
    dof: int  # rows less what was taken out
    bias: float  # mean of the targets in their stds
    n: int


def linear_rows(X: Array, y: Array, pooled: NDArray[np.bool_], constant: bool) -> LinearRows:
    """Sufficient statistics of the pooled weights.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Targets.
    pooled : ndarray of bool of shape (d,)
        Inputs whose weights are pooled; the others and the constant are taken out.
    constant : bool
        Whether the model has a constant.

    Returns
    -------
    LinearRows
    """
    others = np.hstack([np.ones((len(y), int(constant))), X[:, ~pooled]])
    own, rest = X[:, pooled], y
    if others.shape[1]:
        Q, _ = np.linalg.qr(others)
        own, rest = own - Q @ (Q.T @ own), y - Q @ (Q.T @ y)
    std = y.std()
    return LinearRows(
        own.T @ own,
        own.T @ rest,
        float(rest @ rest),
        max(len(y) - others.shape[1], 1),
        float(y.mean() / std) if std > 0.0 else 0.0,
        len(y),
    )


def pooled_weights(sets: Sequence[LinearRows]) -> tuple[Array, Array]:
    """Mean m (k,) and covariance S (k, k) of the weights of several data sets.

    Parameters
    ----------
    sets : sequence of LinearRows
        One for each.

    Returns
    -------
    mean : ndarray of shape (k,)
    cov : ndarray of shape (k, k)
    """
    k = len(sets[0].product)
    mean, cov = np.zeros(k), _FIRST_VAR * np.eye(k)
    gram, product, square, dof = (np.array([one[i] for one in sets]) for i in range(4))
    tiny = np.finfo(np.float64).tiny
    noise = np.maximum(square / dof, tiny)
    for _ in range(_EM_STEPS):
        precision = np.linalg.inv(cov)
        V = np.linalg.inv(gram / noise[:, None, None] + precision)
        w = np.einsum("ijk,ik->ij", V, product / noise[:, None] + precision @ mean)
        left = square - 2.0 * np.einsum("ij,ij->i", w, product)
        left += np.einsum("ij,ijk,ik->i", w, gram, w) + np.einsum("ijk,ikj->i", gram, V)
        noise = np.maximum(left / dof, tiny)
        mean = w.mean(axis=0)
        away = w - mean
        cov = V.mean(axis=0) + away.T @ away / len(sets)
    return mean, cov


def learned_prior(
    base: Literal["weak", "shrunk"], sets: Sequence[LinearRows], pooled: NDArray[np.bool_]
) -> LearnedPrior:
    """The prior of the linear part, from the rows of several data sets.

    That of the bias where no weights are pooled: beside weights of levels a mean of it is part of
    what they explain (MASE of M3's quarterly series in training + 2 %).

    Parameters
    ----------
    base : {"weak", "shrunk"}
        The prior otherwise.
    sets : sequence of LinearRows
        One for each data set.
    pooled : ndarray of bool of shape (d,)
        Inputs whose weights are pooled.

    Returns
    -------
    LearnedPrior
    """
    weights = np.zeros(len(pooled))
    if pooled.any():
        weights[pooled] = _BELIEVED * pooled_weights(sets)[0]
        return LearnedPrior(base, weights, len(sets))
    bias = np.array([one.bias for one in sets])
    middle = float(np.median(bias))
    var = np.mean((bias - middle) ** 2) - np.mean([1.0 / one.n for one in sets])
    std = max(float(var), _LEAST_BIAS_STD**2) ** 0.5
    return LearnedPrior(base, weights, len(sets), (middle, std))
