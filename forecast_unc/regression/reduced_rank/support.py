"""Centers and hyper-parameters of a reduced-rank process, in turns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dger, dtrsm
from scipy.linalg.lapack import dpotrf
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from forecast_unc._checks import refusal
from forecast_unc._typing import Array, Positions
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import (
    JITTER,
    Criterion,
    ReducedRankEvidence,
)
from forecast_unc.regression.search import Objective, Optimum, SearchSpace, maximize

SupportKind = Literal["greedy", "random", "kmeans"]

# Rows, drawn at random, on which centers and hyper-parameters take turns: "greedy" holds the
# columns of all centers. With more rows one more search, on all of them, follows.
_SELECTION_ROWS = 10_000
# Of 59 random rows the best is among the best 5 % of all with a probability of .95 (Smola &
# Bartlett, NIPS 13, 2001).
CANDIDATES = 59


@dataclass
class Learner:
    """Centers and hyper-parameters in turns, each given the other, on standardized data."""

    Z: Array  # (n, d)
    t: Array  # (n,)
    linear: bool
    space_of: Callable[[GaussianProcessEvidence], SearchSpace]
    objective: Criterion
    tol: float
    rng: np.random.Generator

    def __post_init__(self) -> None:
        """Start from the hyper-parameters of the exact process of some rows."""
        some = some_rows(len(self.t), 500, self.rng)
        evidence = GaussianProcessEvidence(self.Z[some], self.t[some], self.linear)
        self.space = self.space_of(evidence)
        self.start = self.space.start
        if not self.space.warm:
            starts, most = self.space.starts(0, None), self.tol * len(some) / 1e3
            self.start = maximize(Objective(evidence, self.space), starts, most).theta

    def learn(
        self, n_support: int, support: SupportKind, independent_rest: bool
    ) -> tuple[Array, Optimum]:
        """Centers (m, d) and hyper-parameters, at last by FITC if the rest is independent."""
        some = some_rows(len(self.t), max(_SELECTION_ROWS, n_support), self.rng)
        Z, t = self.Z[some], self.t[some]
        centers = self._centers(Z, t, n_support, support, self.start)
        best = self._search(Z, t, centers, self.start)
        if support != "random":
            others = self._centers(Z, t, n_support, support, best.theta)
            found = self._search(Z, t, others, best.theta)
            if found.value < best.value:
                centers, best = others, found
        if independent_rest:
            evidence = ReducedRankEvidence(self.Z, self.t, centers, self.linear, "fitc")
            best = self._maximum(evidence, best.theta)
        elif len(some) < len(self.t):
            best = self._search(self.Z, self.t, centers, best.theta)
        return centers, best

    def _search(self, Z: Array, t: Array, centers: Array, theta: Array) -> Optimum:
        """Hyper-parameters for these rows and centers."""
        d, scales, theta = Z.shape[1], np.exp(theta), theta.copy()
        evidence = ReducedRankEvidence(Z, t, centers, self.linear, self.objective)
        if self.space.free[-1]:
            # From the noise of the exact process the bound's search may end at an amplitude of 0:
            # its first steps see nothing but the penalty on the rest.
            stds = scales[-1] * 2.0 ** np.arange(-2.0, 8.0)
            stds = np.clip(stds, *np.exp(self.space.bounds[-1]))
            amplitude, tau = float(scales[d]), float(scales[d + 1])
            profile = evidence.noise_profile(scales[:d], amplitude, tau, stds)
            theta[-1] = np.log(stds[profile.argmin()])
        return self._maximum(evidence, theta)

    def _maximum(self, evidence: ReducedRankEvidence, theta: Array) -> Optimum:
        """The maximum by the search from these hyper-parameters."""
        objective, tol = Objective(evidence, self.space), self.tol * len(evidence.y) / 1e3
        found = maximize(objective, [theta[self.space.free]], tol, most=200)
        if not np.isfinite(found.value):
            must, got = "give a finite evidence", "one that is not, with what was given"
            remedy = "Give a larger noise_std, or learn both."
            raise refusal("noise_std and lengthscales", must, got, remedy)
        return found

    def _centers(
        self, Z: Array, t: Array, n_support: int, support: SupportKind, theta: Array
    ) -> Array:
        """Centers for these hyper-parameters, (m, d), all of them different."""
        (n, d), scales = Z.shape, np.exp(theta)
        n_support = min(n_support, n)
        if support == "random":
            return _different(Z[self.rng.permutation(n)[:n_support]])
        inputs = Z / scales[:d]
        if support == "kmeans":
            return np.asarray(cluster_means(inputs, n_support, self.rng) * scales[:d])
        linear = np.empty((n, 0))
        if self.linear:
            linear = np.column_stack([scales[d + 1] * Z, np.ones(n)])
        amplitude, noise_std = float(scales[d]), float(scales[-1])
        greedy = GreedySupport(inputs, t, linear, amplitude, noise_std, n_support, self.objective)
        return _different(Z[greedy.choose(n_support, self.rng)])


def _different(Z: Array) -> Array:
    """The rows without repeats, in their order: doubles cost the gradient its digits."""
    _, first = np.unique(Z, axis=0, return_index=True)
    return np.asarray(Z[np.sort(first)])


def some_rows(n: int, most: int, rng: np.random.Generator) -> Positions:
    """All rows, or so many of them drawn at random, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False))


class GreedySupport:
    """Rows chosen one by one by the gain in evidence (theory/reduced_rank.md); O(n m) a row.

    Candidates keep g = a^2 k(X, x_c) - q(X, x_c), h = g / sqrt(delta). They follow the choice of
    another row i by g -= h_i h_ic, C^-1 -= u u' / (1 + S_i), u = C^-1 h_i (Keerthi & Chu 2006).
    """

    def __init__(
        self,
        Z: Array,  # (n, d), in length-scales
        y: Array,
        linear: Array,  # (n, p), further features times their prior stds
        amplitude: float,
        noise_std: float,
        n_support: int,
        objective: Criterion,
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
        self._pull = self._times_precision(y)  # C^-1 y
        # the candidates, in slots that stay where they are: columns of 10,000 rows are not copied
        size = min(CANDIDATES, n)
        self._rows = np.empty(size, dtype=np.intp)
        self._g = np.zeros((n, size), order="F")
        self._delta, self._gg, self._gy = np.ones(size), np.zeros(size), np.zeros(size)
        self._free = np.arange(size)

    def choose(self, n_support: int, rng: np.random.Generator) -> Positions:
        """Rows in the order of their choice, (n_support,)."""
        chosen: list[int] = []
        waiting = rng.permutation(len(self._y))
        for _ in range(n_support):
            fresh, waiting = waiting[: len(self._free)], waiting[len(self._free) :]
            self._enter(fresh)
            gains = self._gains()
            best = int(gains.argmax())
            chosen.append(int(self._rows[best]))
            self._take(best)
            # The 14 worst make room for others, as long as there are others; then they come again.
            # Those that stay keep their columns.
            used = np.setdiff1d(np.arange(len(gains)), self._free)
            leave = used[np.argsort(gains[used])[: min(14, len(waiting))]]
            waiting = np.concatenate([waiting, self._rows[leave]])
            self._free = np.concatenate([self._free, leave])
        return np.array(chosen, dtype=np.intp)

    def _whitened(self, B: Array) -> Array:
        """M^-1 H' B / s^2 with M the Cholesky factor of I + H'H / s^2."""
        k, beta = self._size, 1.0 / self._noise_var
        if not k:
            return np.zeros((0, B.shape[1]))
        chol = np.asfortranarray(self._chol[:k, :k])
        return np.asarray(dtrsm(1.0, chol, dgemm(beta, self._H[:, :k], B, trans_a=1), lower=1))

    def _times_precision(self, b: Array) -> Array:
        """C^-1 b = (b - H (I + H'H / s^2)^-1 H' b / s^2) / s^2, (n,)."""
        k, beta = self._size, 1.0 / self._noise_var
        if not k:
            return beta * b
        chol = np.asfortranarray(self._chol[:k, :k])
        weights = dtrsm(1.0, chol, self._whitened(b[:, None]), lower=1, trans_a=1)
        return np.asarray(beta * (b - dgemv(1.0, self._H[:, :k], weights[:, 0])))

    def _enter(self, rows: Positions) -> None:
        """New candidates in free slots: their columns and what is kept of them."""
        slots, self._free = self._free[: len(rows)], self._free[len(rows) :]
        if not len(rows):
            return
        kernel = squared_exponential(self._Z, self._Z[rows], np.ones(self._Z.shape[1]))
        H = self._H[:, self._p : self._size]
        g = self._amplitude_var * kernel
        if H.shape[1]:
            g -= dgemm(1.0, H, H[rows], trans_b=1)
        left = self._amplitude_var * (1.0 + JITTER) - np.einsum("ck,ck->c", H[rows], H[rows])
        self._rows[slots], self._g[:, slots], self._delta[slots] = rows, g, left
        half, beta = self._whitened(g), 1.0 / self._noise_var
        self._gg[slots] = beta * np.einsum("nc,nc->c", g, g) - np.einsum("kc,kc->c", half, half)
        self._gy[slots] = dgemv(1.0, g, self._pull, trans=1)

    def _gains(self) -> Array:
        """Gain of each slot, in nats; minus infinity where it is free."""
        # a square, but of a double of a center nothing but roundoff is left
        S = np.maximum(self._gg, 0.0) / self._delta
        Q = self._gy / np.sqrt(self._delta)
        gains = 0.5 * (Q**2 / (1.0 + S) - np.log1p(S))
        gains[self._free] = -np.inf
        # where none raises the evidence, as near doubles of a center, the one that reaches furthest
        if self._bound or gains.max() <= 0.0:
            reach = np.einsum("nc,nc->c", self._g, self._g) / self._delta
            gains = reach / (2.0 * self._noise_var) + (gains if self._bound else 0.0)
            gains[self._free] = -np.inf
        return np.asarray(gains)

    def _take(self, best: int) -> None:
        """Make a candidate a center, free its slot, and let the others follow."""
        k = self._size
        h: Array = self._g[:, best] / np.sqrt(self._delta[best])
        u = self._times_precision(h)
        S, Q = float(h @ u), float(h @ self._pull)
        self._free = np.append(self._free, best)
        at = h[self._rows]  # h_i at the candidates
        at[self._free] = 0.0
        gu = dgemv(1.0, self._g, u, trans=1)
        self._gg += at**2 * S - 2.0 * at * gu - (gu - at * S) ** 2 / (1.0 + S)
        self._gy += -at * Q - (gu - at * S) * Q / (1.0 + S)
        self._g = dger(-1.0, h, at, a=self._g, overwrite_a=1)
        self._delta -= at**2
        self._pull -= u * (Q / (1.0 + S))
        # one more row of the Cholesky factor
        self._chol[k, :k] = self._whitened(h[:, None])[:, 0]
        self._chol[k, k] = np.sqrt(1.0 + S)
        self._H[:, k] = h
        self._size = k + 1


def cluster_means(Z: Array, n_support: int, rng: np.random.Generator) -> Array:
    """Means (m, d) of clusters by k-means; fewer where fewer rows differ."""
    from sklearn.cluster import KMeans  # kept out of the import: .2 s

    different = np.unique(Z, axis=0)
    if len(different) <= n_support:
        return different
    # the means are a start and no end, and move little after ten rounds
    kmeans = KMeans(n_support, n_init=1, max_iter=15, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1, user_api="openmp"):  # else sums differ by roundoff from run to run
        return np.asarray(kmeans.fit(Z).cluster_centers_)
