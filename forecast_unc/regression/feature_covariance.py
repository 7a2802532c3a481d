"""A factor R of the covariance of features under a Gaussian input: theory/one_step.md, digits."""

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.moments import LARGE_EXPONENT, MeanFeatures, mean_features

# Hermite columns at most, where they have not converged before: a choice, which bounds the cost
# in many wide directions. In two directions of a tenth of a squared length-scale 64 were enough.
_MOST_HERMITE = 512
_BLOCK = 32  # columns that come at once


class Spread(NamedTuple):
    """The columns of R of first order, and what the others are made of; along the axes of F'F."""

    linear: Array  # (d, r), rows of the inputs: a root of their covariance
    kernel: Array  # (m, r), rows of the kernels
    features: MeanFeatures
    g: Array  # (r,), diagonal of F'F


def feature_spread(root: Array, scaled: Array, lengthscales: Array) -> Spread:
    """Columns of R of first order in the input, which are all of the linear part."""
    _, size, axes = np.linalg.svd(root / lengthscales[:, None], full_matrices=False)
    root = root @ axes.T  # (d, r), of the input's covariance
    features = mean_features(root / lengthscales[:, None], scaled)
    return Spread(root, (features.mean * features.pulled).T, features, size**2)


def beyond_first_order(spread: Spread) -> Iterator[Array]:
    """Further columns of R, those of the kernels, blocks (m, k) at a time."""
    given = [spread.kernel]
    for block in _hermite_columns(spread.features, spread.g):
        given.append(block)
        yield block
    yield from _pivoted_columns(spread.features, spread.g, np.hstack(given))


def _hermite_columns(features: MeanFeatures, g: Array) -> Iterator[Array]:
    """Blocks (m, k) of Hermite columns of order two and more."""
    mu, share = features.pulled.T, g / (1.0 + g)
    tables = [np.ones_like(mu), mu]  # h_n of each center and direction, (m, r)
    orders = islice(_by_decay(share), _MOST_HERMITE)
    while block := list(islice(orders, _BLOCK)):
        for n in range(len(tables) - 1, max(map(max, block))):
            following = mu * tables[n] - share * np.sqrt(n) * tables[n - 1]
            tables.append(following / np.sqrt(n + 1.0))
        columns = np.empty((len(mu), len(block)), order="F")
        for column, alpha in zip(columns.T, block, strict=True):
            column[:] = features.mean
            for direction, n in enumerate(alpha):
                if n:
                    column *= tables[n][:, direction]
        yield columns


def _by_decay(share: Array) -> Iterator[tuple[int, ...]]:
    """Orders alpha, |alpha| >= 2, of each direction by falling product of share**alpha."""
    cost = -np.log(np.maximum(share, 1e-300))
    unit = np.eye(len(cost), dtype=np.intp)
    heap = [(c, tuple(unit[j].tolist()), j) for j, c in enumerate(cost.tolist())]
    heapq.heapify(heap)
    while heap:
        total, alpha, last = heapq.heappop(heap)
        if sum(alpha) > 1:
            yield alpha
        for j in range(last, len(cost)):  # each alpha has one way to it: directions in turn
            more = tuple(n + (i == j) for i, n in enumerate(alpha))
            heapq.heappush(heap, (total + float(cost[j]), more, j))


def _pivoted_columns(features: MeanFeatures, g: Array, given: Array) -> Iterator[Array]:
    """Blocks (m, k) of a Cholesky factor of the kernels' covariance less given @ given.T."""
    p = features.projected.T  # (m, r)
    log_q, q = features.log_mean, features.mean
    half = 0.5 * (p**2) @ (g / ((1.0 + g) * (1.0 + 2.0 * g)))
    log_det = 0.5 * np.log1p(-((g / (1.0 + g)) ** 2)).sum()

    def entries(j: slice | np.intp) -> Array:
        """Covariances of all kernels with kernel j; with slice(None) their variances."""
        exponent = (p * p[j]) @ (1.0 / (1.0 + 2.0 * g)) - half - half[j] - log_det
        large = exponent > LARGE_EXPONENT
        combined = np.exp(np.where(large, log_q + log_q[j] + exponent, 0.0))
        plain = q * q[j] * np.expm1(np.where(large, 0.0, exponent))
        return np.asarray(np.where(large, combined - q * q[j], plain))

    m, start, left = len(p), given.shape[1], entries(slice(None))
    least = 1e-14 * left.max()  # close to roundoff
    left = left - (given**2).sum(axis=1)
    out = np.asfortranarray(np.hstack([given, np.empty((m, m))]))
    k = first = start
    while k < start + m and left.max() > least:
        pivot = np.argmax(left)
        out[:, k] = (entries(pivot) - out[:, :k] @ out[pivot, :k]) / np.sqrt(left[pivot])
        left -= out[:, k] ** 2
        left[pivot] = 0.0  # but for roundoff
        k += 1
        if k - first == _BLOCK:
            yield out[:, first:k]
            first = k
    yield out[:, first:k]
