"""Which centers: random rows, cluster means, or rows one by one by what they bring."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dtrsm
from scipy.linalg.lapack import dpotrf
from sklearn.cluster import kmeans_plusplus

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.reduced_rank.evidence import JITTER, Objective, row_blocks

SupportKind = Literal["greedy", "random", "kmeans"]

# Of 59 random rows the best is among the best 5 % of all with a probability of .95 (Smola &
# Bartlett, NIPS 13, 2001).
CANDIDATES = 59
# Candidates that are new in each round; the others keep their columns.
_FRESH = 15
# Rounds of k-means: the means are a start and no end, and move little after ten.
_MEANS_ROUNDS = 15


class GreedySupport:
    r"""Rows chosen one by one by the gain in evidence, with a cache of candidates.

    With C = Q + s^2 I the covariance of the targets so far, a row x_c adds h h' to it, where

    .. math:: h = g / \sqrt{\delta}, \quad g = a^2 k(X, x_c) - q(X, x_c), \quad
        \delta = a^2 (1 + j) - q(x_c, x_c),

    and the log evidence gains

    .. math:: \Delta = \tfrac12 \Bigl[\frac{Q^2}{1 + S} - \log(1 + S)\Bigr], \quad
        S = h' C^{-1} h, \quad Q = h' C^{-1} y .

    The bound gains |h|^2 / (2 s^2) more. Where no candidate raises the evidence, the one with the
    most |h|^2 is taken, which reaches furthest: near doubles of a center raise it by nothing, too.

    A candidate's g, g'C^-1 g and g'C^-1 y are kept, and follow each choice of another row i at
    O(n), by

    .. math:: g \leftarrow g - h_i h_{ic}, \quad
        C^{-1} \leftarrow C^{-1} - u u' / (1 + S_i), \quad u = C^{-1} h_i .

    A new candidate costs O(n m) for its column g; a choice O(n m) for u.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Inputs divided by their length-scales.
    y : ndarray of shape (n,)
        Targets.
    linear : ndarray of shape (n, p)
        Further features, times their prior stds: linear part and bias.
    amplitude : float
        Prior std a.
    noise_std : float
        Noise std s.
    n_support : int
        Rows to choose, at most n.
    objective : {"evidence", "bound"}
        What gains.

    References
    ----------
    Smola & Bartlett, NIPS 13 (2001); Keerthi & Chu, NIPS 18 (2006); Faul & Tipping, NIPS 14
    (2002).
    """

    def __init__(
        self,
        Z: Array,
        y: Array,
        linear: Array,
        amplitude: float,
        noise_std: float,
        n_support: int,
        objective: Objective,
    ) -> None:
        n, p = linear.shape
        self._Z, self._y, self._bound = Z, y, objective == "bound"
        self._amplitude_var, self._noise_var = amplitude**2, noise_std**2
        self._p, self._size = p, p
        # [linear, h_1, h_2, ...], and the Cholesky factor of I + H' H / s^2
        self._H = np.empty((n, p + n_support), order="F")
        self._H[:, :p] = linear
        self._chol = np.eye(p + n_support, order="F")
        if p:
            gram = dgemm(1.0 / self._noise_var, self._H[:, :p], self._H[:, :p], trans_a=1)
            self._chol[:p, :p] = dpotrf(np.eye(p) + gram, lower=1, clean=1)[0]
        self._pull = self._times_precision(y[:, None])[:, 0]  # C^-1 y
        self._rows = np.empty(0, dtype=np.intp)  # the candidates
        self._g = np.empty((n, 0), order="F")
        self._delta, self._gg, self._gy = np.empty(0), np.empty(0), np.empty(0)

    def choose(self, n_support: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Rows in the order of their choice.

        Parameters
        ----------
        n_support : int
            How many.
        rng : Generator
            Draws the candidates.

        Returns
        -------
        ndarray of int of shape (n_support,)
        """
        chosen: list[int] = []
        waiting = rng.permutation(len(self._y))
        for _ in range(n_support):
            missing = CANDIDATES - len(self._rows)
            fresh, waiting = waiting[:missing], waiting[missing:]
            if len(fresh):
                self._enter(fresh)
            gains = self._gains()
            best = int(gains.argmax())
            chosen.append(int(self._rows[best]))
            self._take(best)
            # the worst make room for others, as long as there are others; then they come again
            gains = np.delete(gains, best)
            leave = np.argsort(gains)[: min(_FRESH - 1, len(waiting))]
            waiting = np.concatenate([waiting, self._rows[leave]])
            self._keep(np.setdiff1d(np.arange(len(gains)), leave))
        return np.array(chosen, dtype=np.intp)

    def _times_precision(self, B: Array) -> Array:
        """C^-1 B = (B - H (I + H'H / s^2)^-1 H' B / s^2) / s^2."""
        beta, k = 1.0 / self._noise_var, self._size
        if not k:
            return beta * B
        H, chol = self._H[:, :k], np.asfortranarray(self._chol[:k, :k])
        half: Array = dtrsm(1.0, chol, dgemm(beta, H, B, trans_a=1), lower=1)
        return beta * (B - dgemm(1.0, H, dtrsm(1.0, chol, half, lower=1, trans_a=1)))

    def _enter(self, rows: NDArray[np.intp]) -> None:
        """New candidates: their columns and what is kept of them."""
        kernel = squared_exponential(self._Z, self._Z[rows], np.ones(self._Z.shape[1]))
        H = self._H[:, self._p : self._size]
        g = self._amplitude_var * kernel
        if H.shape[1]:
            g -= dgemm(1.0, H, H[rows], trans_b=1)
        solved = self._times_precision(g)
        delta = np.full(len(rows), self._amplitude_var * (1.0 + JITTER))
        delta -= np.einsum("ck,ck->c", H[rows], H[rows])
        self._rows = np.concatenate([self._rows, rows])
        self._g = np.asfortranarray(np.hstack([self._g, g]))
        self._delta = np.concatenate([self._delta, delta])
        self._gg = np.concatenate([self._gg, np.einsum("nc,nc->c", g, solved)])
        self._gy = np.concatenate([self._gy, g.T @ self._pull])

    def _gains(self) -> Array:
        """Gain of each candidate, in nats."""
        S, Q = self._gg / self._delta, self._gy / np.sqrt(self._delta)
        gains = 0.5 * (Q**2 / (1.0 + S) - np.log1p(S))
        if self._bound or gains.max() <= 0.0:
            reach = np.einsum("nc,nc->c", self._g, self._g) / self._delta
            gains = reach / (2.0 * self._noise_var) + (gains if self._bound else 0.0)
        return np.asarray(gains)

    def _take(self, best: int) -> None:
        """Make a candidate a center, and let the others follow."""
        k, beta = self._size, 1.0 / self._noise_var
        h = np.asfortranarray(self._g[:, best : best + 1] / np.sqrt(self._delta[best]))
        u = self._times_precision(h)[:, 0]
        S, Q = float(h[:, 0] @ u), float(h[:, 0] @ self._pull)
        self._keep(np.delete(np.arange(len(self._rows)), best))
        at = h[self._rows, 0]  # h_i at the other candidates
        gu = self._g.T @ u
        self._gg += at**2 * S - 2.0 * at * gu - (gu - at * S) ** 2 / (1.0 + S)
        self._gy += -at * Q - (gu - at * S) * Q / (1.0 + S)
        self._g -= np.multiply.outer(h[:, 0], at)
        self._delta -= at**2
        self._pull -= u * (Q / (1.0 + S))
        # one more row of the Cholesky factor
        if k:
            chol = np.asfortranarray(self._chol[:k, :k])
            cross = dgemm(beta, self._H[:, :k], h, trans_a=1)
            self._chol[k, :k] = dtrsm(1.0, chol, cross, lower=1)[:, 0]
        self._chol[k, k] = np.sqrt(1.0 + S)
        self._H[:, k] = h[:, 0]
        self._size = k + 1

    def _keep(self, kept: NDArray[np.intp]) -> None:
        """Forget all other candidates."""
        self._rows, self._g = self._rows[kept], np.asfortranarray(self._g[:, kept])
        self._delta, self._gg, self._gy = self._delta[kept], self._gg[kept], self._gy[kept]


def cluster_means(Z: Array, n_support: int, rng: np.random.Generator) -> Array:
    """Means of k-means clusters, by Lloyd's rounds from a k-means++ start.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Inputs divided by their length-scales.
    n_support : int
        Clusters, at most n; fewer where fewer rows differ.
    rng : Generator
        Seeds the clusters.

    Returns
    -------
    ndarray of shape (m, d)
    """
    different = np.unique(Z, axis=0)
    if len(different) <= n_support:
        return different
    means, _ = kmeans_plusplus(different, n_support, random_state=int(rng.integers(2**31)))
    for _ in range(_MEANS_ROUNDS):
        nearest = np.empty(len(Z), dtype=np.intp)
        half_norm = 0.5 * np.einsum("md,md->m", means, means)
        for rows in row_blocks(len(Z)):
            nearness = dgemm(1.0, means, Z[rows], trans_b=1) - half_norm[:, None]
            nearest[rows] = nearness.argmax(axis=0)
        counts = np.bincount(nearest, minlength=n_support)
        sums = np.array([np.bincount(nearest, column, n_support) for column in Z.T]).T
        used = counts > 0  # an empty cluster stays where it is
        means[used] = sums[used] / counts[used, None]
    return np.asarray(means)
