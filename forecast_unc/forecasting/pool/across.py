r"""Correlations of the scores of averaged forecasts of different futures of the regressors.

Of one member the steps of a future are :math:`m + L w`, with the covariance :math:`L L'` of its
forecast and innovations w, which two futures a and b share as far as `shared_innovations` says,

.. math:: A_k = L_a \mathrm{Cor}[w^a, w^b] L_b', \quad A = \textstyle\sum_k r_{ak} r_{bk}' \circ A_k

with the roots r of the members' shares, as within a future (`averages.average`). What the members
disagree about the difference of the futures, with d_k that of the medians, is shared by its steps.
In units of y it is added to

.. math::

    \mathrm{Cov}[(y^a, y^b)] = g g' \circ (\ldots) + v v' \circ \Delta, \quad
    v = (\alpha, \alpha - 1), \quad
    \Delta = \textstyle\sum_k w_k (d_k - \bar d)(d_k - \bar d)',

with alpha the regression of what they disagree about a on that about the difference, and g such
that the variances stay. So at each step the difference has the variance of the members' differences
and of their disagreement about it, and that of two futures that are the same is 0. Calibration
changes the correlations within a future; the innovations keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from forecast_unc._typing import Array
from forecast_unc.distributions.average import share_roots
from forecast_unc.distributions.joint import Joint
from forecast_unc.forecasting.horizon.futures import of_full_rank
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.pool.weights import Averaged
from forecast_unc.regression.kernels import lower_root
from forecast_unc.series.history import Ahead

_MOST = 0.99  # of the variance of a step is what the members disagree about


@dataclass(frozen=True, eq=False)
class AveragedFuture:
    """An averaged prediction of one future, before its bounds."""

    ahead: Ahead
    averaged: Averaged
    calibrated: Joint

    @property
    def weights(self) -> Array:
        """Weights (k, h) of all models."""
        return self.averaged.used

    @cached_property
    def members(self) -> dict[int, Joint]:
        """Joints of the models with a weight, by number from 0."""
        made = self.averaged.prediction
        if not made.members:
            return {int(self.weights.any(axis=1).argmax()): made.joint}
        return {one.number - 1: one.prediction.joint for one in made.members}

    @cached_property
    def roots(self) -> Array:
        """Roots (k, h) of their shares in the variance."""
        places, roots = list(self.members), np.zeros_like(self.weights)
        roots[places] = share_roots([*self.members.values()], self.weights[places])
        return roots

    @cached_property
    def medians(self) -> Array:
        """Their medians (k, h), 0 where they have none."""
        found = np.zeros_like(self.weights)
        for place, joint in self.members.items():
            found[place, : len(joint)] = joint.q.latent_spread.median
        return found

    @property
    def scale(self) -> Array:
        """Half the 68 % bands of the average, (h,)."""
        return self.averaged.prediction.joint.q.latent_spread.scale


def correlations(
    models: Sequence[FittedModel], futures: Sequence[AveragedFuture]
) -> dict[tuple[int, int], Array]:
    """Correlations (2 h, 2 h) of the scores of each two of s futures' steps, by places a < b."""
    s, h = len(futures), len(futures[0].ahead.index)
    shared = np.zeros((s, h, s, h))
    for number, model in enumerate(models):
        joints = [one.members[number] for one in futures if number in one.members]
        if len(joints) < s:  # without a weight in one, it is not shared
            continue
        n = min(map(len, joints))
        innovations = model.shared_innovations([one.ahead.first(n) for one in futures])
        root = block_diag(*(lower_root(joint.cor[:n, :n]) for joint in joints))
        share = np.concatenate([one.roots[number, :n] for one in futures])
        found = np.outer(share, share) * (root @ innovations @ root.T)
        shared[:, :n, :, :n] += found.reshape(s, n, s, n)
    calibrated = [one.calibrated.cor for one in futures]
    if any(one.calibrated.cor is not one.averaged.prediction.joint.cor for one in futures):
        shared = np.asarray(_with_blocks(shared, calibrated))
    return {
        (a, b): _joint_cor((futures[a], futures[b]), shared[a, :, b])
        for a in range(s)
        for b in range(a + 1, s)
    }


def _with_blocks(shared: Array, blocks: Sequence[Array]) -> Array:
    """Correlations (s, h, s, h) with these of one future (h, h), by the same innovations."""
    s, h = shared.shape[:2]
    cor = of_full_rank(shared.reshape(s * h, s * h), s)
    moves = []
    for i, block in enumerate(blocks):
        root = np.linalg.cholesky(cor[i * h : (i + 1) * h, i * h : (i + 1) * h])
        moves.append(solve_triangular(root, lower_root(block).T, lower=True, trans="T").T)
    move = block_diag(*moves)
    return np.asarray(move @ cor @ move.T).reshape(s, h, s, h)


def _joint_cor(pair: tuple[AveragedFuture, AveragedFuture], cross: Array) -> Array:
    """Correlations (2 h, 2 h) of the scores of two futures, with the rest of their difference."""
    one, other = pair
    cor = np.block([[one.calibrated.cor, cross], [cross.T, other.calibrated.cor]])
    share, between = _difference(one, other)
    size = np.concatenate([share / one.scale, (share - 1.0) / other.scale])
    var = size**2 * np.tile(between.diagonal(), 2)
    size = size * np.sqrt(np.minimum(1.0, _MOST / np.maximum(var, _MOST)))
    added = np.outer(size, size) * np.tile(between, (2, 2))
    left = np.sqrt(1.0 - added.diagonal())
    return np.asarray(np.outer(left, left) * cor + added)


def _difference(one: AveragedFuture, other: AveragedFuture) -> tuple[Array, Array]:
    """Share (h,) of the first future, and covariance (h, h), of what no innovations have."""
    weights = np.sqrt(one.weights * other.weights)
    weights = weights / weights.sum(axis=0)
    roots, medians = np.sqrt(weights), np.array([one.medians, other.medians])
    apart = roots * (medians - (weights * medians).sum(axis=1, keepdims=True))
    change = apart[0] - apart[1]
    var, share = (change**2).sum(axis=0), np.full(weights.shape[1], 0.5)
    np.divide((apart[0] * change).sum(axis=0), var, out=share, where=var > 0.0)
    cov = change.T @ change
    if not one.averaged.rule.disagreement:
        cov, share = np.zeros_like(cov), np.full_like(share, 0.5)
    return share, cov
