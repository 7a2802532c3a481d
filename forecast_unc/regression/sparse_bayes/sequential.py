r"""Sequential sparse Bayesian learning: columns in, out and exchanged by gain.

Tipping & Faul (2003) change one alpha at a time. That stops short: on lagged data the best single
change gains nothing where moving a basis to a neighboring row does, and thousands of re-estimates
creep along ridges that one joint step crosses. Here

* alphas and noise are re-estimated together, by Newton's method (`sparse_bayes.newton`), and
  columns with q^2 <= s are deleted on the way;
* additions come in batches: gains are computed one after the other by rank-1 updates on a short
  list, so that no two columns claim the same gain;
* when no addition gains, every exchange of an active column for another is priced in closed form;
* when no exchange gains, the search is kicked: the model and random columns beside it start anew
  with equal shares, a few EM or MacKay steps thin them out, and the search continues from there.
  Greedy growth from nothing explains the signal by noise at first, and its early choices stay;
  kicks come from the side of a full model. The best optimum is kept.

All of this happens on a pool of a few hundred columns, whose Gram matrix is all it needs: no pass
over the rows. Around it, the candidates outside are priced (one thin product) and the best of them
enter the pool, until none gains; the random columns of a kick enter it, too.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm

from forecast_unc._typing import Array
from forecast_unc.regression.sparse_bayes.batch import em_step, iterate, mackay_step
from forecast_unc.regression.sparse_bayes.evidence import Evidence, EvidenceTerms
from forecast_unc.regression.sparse_bayes.model import Indices, NoisePrior, SparseModel
from forecast_unc.regression.sparse_bayes.newton import maximize

# Gain in nats below which no action is taken; q^2 / s < 1 + 6.4e-3 outside the model follows.
GAIN_TOLERANCE = 1e-5
# A candidate this close to the span of the model (share of its squared norm that is left) is not
# a candidate: its s and q are roundoff.
SPAN_TOLERANCE = 1e-9
# The following are choices without a measurement on record. They guard the cost of a search: what
# they leave out for now is priced again after the next refit.
# An exchange must gain this many nats, and half of what the formula promises, to be worth a refit.
_LEAST_EXCHANGE = 1e-2
# Additions of a batch must gain this share of the first: the rest is better judged after a refit.
_BATCH_SHARE = 0.3
# Candidates whose gains are followed through a batch by rank-1 updates.
_SHORT_LIST = 64
# Exchanges tried at once, before the best one alone.
_EXCHANGES = 8
# Columns of the pool at the start: its Gram matrix has to stay small beside the design.
_POOL = 320
# Candidates from outside that enter the pool at a time.
_ENTRANTS = 48
# Columns in a model above which kicks are not limited by the size of the design.
_LARGE = 100


class _State(NamedTuple):
    """A model; positions in the pool, columns of unit norm."""

    active: Indices
    alpha: Array
    log_var: float
    terms: EvidenceTerms
    objective: float  # log evidence plus the log prior of the noise


class SequentialTrainer:
    """Sequential maximization of the evidence on one design.

    Parameters
    ----------
    Phi : ndarray of shape (n, M), Fortran order
        Design, one candidate a column.
    y : ndarray of shape (n,)
        Targets.
    noise : NoisePrior
        Prior, floor and ceiling of the noise.
    random_state : Generator
        Source of the first pool and of the kicks.
    n_kicks : int, optional
        Most kicks; by default 20 for small designs, and fewer from 600 rows on unless more than
        100 columns are in the model, so that they cost about as much as the rest. Models of more
        than 150 columns get fewer, too.
    max_iter : int
        Most joint re-estimations.
    """

    def __init__(
        self,
        Phi: Array,
        y: Array,
        noise: NoisePrior,
        random_state: np.random.Generator,
        n_kicks: int | None = None,
        max_iter: int = 10000,
    ) -> None:
        self.Phi, self.y, self.noise, self.rng = Phi, y, noise, random_state
        n, M = Phi.shape
        self.n_kicks = n_kicks
        self.max_iter, self.n_iter = max_iter, 0
        norms = np.sqrt(np.einsum("ij,ij->j", Phi, Phi))
        self.scale = np.where(norms > 0, norms, 1.0)
        self.norm_squared = np.where(norms > 0, 1.0, 0.0)
        self.projection = dgemv(1.0, Phi, y, trans=1) / self.scale  # Phi' y
        self.y_squared = float(y @ y)
        self.pool = np.empty(0, dtype=np.intp)
        self._columns = np.empty((n, 0), order="F")  # the pool's, of unit norm, and room for more
        self._products_in_pool = np.empty((0, 0), order="F")
        self._gram = self._products_in_pool  # its part in use
        self._products = np.empty((M, 64), order="F")  # Phi' phi_j of columns once in the model
        self._slot: dict[int, int] = {}

    def fit(self, start: SparseModel | None = None) -> SparseModel:
        """Train from an empty model, or from another one.

        Parameters
        ----------
        start : SparseModel, optional
            Columns, precisions and noise to begin with.

        Returns
        -------
        SparseModel
        """
        M = len(self.scale)
        first = self.rng.permutation(M)[: M if M <= 2 * _POOL else _POOL]
        strongest = np.argsort(-np.abs(self.projection))[: _POOL // 8]
        given = np.empty(0, dtype=np.intp) if start is None else start.active
        # the last columns are the bias and the linear ones
        self._enter(np.unique(np.concatenate([first, strongest, given, [M - 1]])))
        best = self._complete(self._search(self._start(start)))
        fruitless = 0
        size, most = len(best.active), self.n_kicks
        # 20 kicks, 12 without a gain of 0.01 nats, fewer from 150 columns or 6e6 entries of the
        # design on: choices, by which the kicks cost about as much as the search before them
        if most is None:  # that of a large model costs no more than its growth, whatever n is
            most = 20 if size > _LARGE else min(20, 1 + 6_000_000 // self.Phi.size)
        # a kick costs the cube of the model's size
        for kick in range(min(most, int(20 * (150 / max(150, size)) ** 2))):
            tried = self._search(self._kicked(best, kick))
            fruitless += 1
            if tried.objective > best.objective + 0.01:
                best, fruitless = self._complete(tried), 0
            if fruitless == 12:
                break
        columns = self.pool[best.active]
        order = np.argsort(columns)
        return SparseModel(
            columns[order],
            (best.alpha * self.scale[columns] ** 2)[order],
            float(np.exp(best.log_var)),
            self.n_iter < self.max_iter,
            self.n_iter,
        )

    def _enter(self, new: Indices) -> None:
        """Let columns enter the pool."""
        if not len(new):  # BLAS refuses empty arrays
            return
        w, last = len(self.pool), len(self.pool) + len(new)
        if last > self._columns.shape[1]:  # room for as many again
            columns = np.empty((len(self.y), 2 * last), order="F")
            columns[:, :w] = self._columns[:, :w]
            gram = np.empty((2 * last, 2 * last), order="F")
            gram[:w, :w] = self._gram
            self._columns, self._products_in_pool = columns, gram
        block = self._columns[:, w:last]
        np.divide(self.Phi[:, new], self.scale[new], out=block)
        gram = self._products_in_pool[:last, :last]
        gram[:, w:] = dgemm(1.0, self._columns[:, :last], block, trans_a=1)
        gram[w:, :w] = gram[:w, w:].T
        self._gram = gram
        self.pool = np.concatenate([self.pool, new])

    def _evidence(self, active: Indices) -> Evidence:
        gram = np.asfortranarray(self._gram[np.ix_(active, active)])
        return Evidence(gram, self.projection[self.pool[active]], self.y_squared, len(self.y))

    def _joint(
        self, active: Indices, alpha: Array, log_var: float, tolerance: float
    ) -> _State | None:
        """Joint maximum from a start."""
        self.n_iter += 1
        end = maximize(self._evidence(active), alpha, log_var, self.noise, tolerance)
        return None if end is None else _State(active[end.kept], *end[1:])

    def _start(self, start: SparseModel | None) -> _State:
        """The model to begin with; without one, noise and the strongest column."""
        if start is not None and len(start.active):
            at = {int(column): i for i, column in enumerate(self.pool)}
            active = np.array([at[int(column)] for column in start.active], dtype=np.intp)
            alpha = start.alpha / self.scale[start.active] ** 2
            state = self._joint(active, alpha, float(np.log(start.noise_var)), 1e-2)
            if state is not None:
                return state
        log_var = float(np.log(0.1 * self.y_squared / len(self.y))) if self.y_squared else -np.inf
        empty = self._joint(np.empty(0, dtype=np.intp), np.empty(0), log_var, 1e-2)
        assert empty is not None
        return empty._replace(log_var=min(max(log_var, self.noise.bounds()[0]), empty.log_var))

    def _search(self, state: _State) -> _State:
        """Add and exchange within the pool until nothing gains."""
        while self.n_iter < self.max_iter:
            grown = self._add(state)
            if grown is None:
                state = self._joint(state.active, state.alpha, state.log_var, 1e-8) or state
                grown = self._add(state) or self._exchange(state)
            if grown is None:
                break
            state = grown
        return state

    def _add(self, state: _State) -> _State | None:
        """Add a batch of columns of the pool, or None where no addition gains."""
        P = self._gram[:, state.active]
        projection = self.projection[self.pool]
        whitened, S, Q = _statistics(state, P, projection, self.norm_squared[self.pool])
        gain = gain_of_adding(S, Q, state.log_var)
        gain[state.active] = 0.0
        candidates = np.flatnonzero(gain > GAIN_TOLERANCE)
        if not len(candidates):
            return None
        ranked = candidates[np.argsort(-gain[candidates])]
        if len(ranked) > _SHORT_LIST:  # the best, and a sample of all ranks: neighbors are alike
            top = _SHORT_LIST // 8
            rest = np.linspace(top, len(ranked) - 1, _SHORT_LIST - top).astype(np.intp)
            ranked = np.concatenate([ranked[:top], ranked[rest]])
        beta = np.exp(-state.log_var)
        # phi_i' C^-1 phi_j = beta (phi_i' phi_j - w_i . w_j)
        cross = np.asfortranarray(self._gram[np.ix_(ranked, ranked)])
        part = np.asfortranarray(whitened[ranked])
        cross = dgemm(-beta, part, part, trans_b=1, beta=beta, c=cross, overwrite_c=1)
        chosen, alphas = _batch(cross, Q[ranked], state.log_var)
        grown = self._joint(
            np.concatenate([state.active, ranked[chosen]]),
            np.concatenate([state.alpha, alphas]),
            state.log_var,
            1e-2,
        )
        # a gain that is not there after the refit was roundoff
        if grown is None or grown.objective <= state.objective + 0.5 * GAIN_TOLERANCE:
            return None
        return grown

    def _exchange(self, state: _State) -> _State | None:
        """Exchange active columns for others of the pool where that gains, or None."""
        if not len(state.active):
            return None
        P = self._gram[:, state.active]
        projection = self.projection[self.pool]
        statistics = _statistics(state, P, projection, self.norm_squared[self.pool])
        worth, entering, alphas = _exchanges(state, *statistics, state.active)
        order = np.argsort(-worth)
        order = order[worth[order] > _LEAST_EXCHANGE]
        for count in (_EXCHANGES, 1):
            if not len(order):
                return None
            _, unique = np.unique(entering[order[:count]], return_index=True)
            leaving = order[np.sort(unique)]
            keep = np.setdiff1d(np.arange(len(state.active)), leaving)
            tried = self._joint(
                np.concatenate([state.active[keep], entering[leaving]]),
                np.concatenate([state.alpha[keep], alphas[leaving]]),
                state.log_var,
                1e-2,
            )
            if tried is not None and tried.objective > state.objective + 0.5 * worth[order[0]]:
                return tried
        return None

    def _kicked(self, state: _State, kick: int) -> _State:
        """The model and random columns beside it, thinned from about equal shares.

        MacKay's steps thin boldly, EM's gently; they take turns.
        """
        size = max(100, 3 * len(state.active))
        # from the pool alone the last nats of large models stay out of reach
        chosen = self.rng.permutation(len(self.scale))[:size]
        self._enter(np.setdiff1d(chosen, self.pool))
        position = np.empty(len(self.scale), dtype=np.intp)
        position[self.pool] = np.arange(len(self.pool))
        others = np.setdiff1d(position[chosen], state.active)
        active = np.concatenate([state.active, others])
        spread = self.rng.standard_normal(len(active) + 1)
        alpha = len(active) / max(self.y_squared, 1e-300) * np.exp(spread[:-1])
        log_var = state.log_var + spread[-1]
        step = (mackay_step, em_step)[kick % 2]
        end = iterate(self._evidence(active), alpha, log_var, self.noise, step, 30)
        return self._joint(active[end.kept], end.alpha, end.log_var, 1e-2) or state

    def _complete(self, state: _State) -> _State:
        """Search on with candidates from outside the pool until none gains."""
        while self.n_iter < self.max_iter:
            grown = self._price(state)
            if grown is None:
                return state
            state = grown
        return state

    def _price(self, state: _State) -> _State | None:
        """Price all candidates, let the best enter the pool, and search on; None at the end."""
        state = self._joint(state.active, state.alpha, state.log_var, 1e-8) or state
        columns = self.pool[state.active]
        P = self._cached_products(columns)
        whitened, S, Q = _statistics(state, P, self.projection, self.norm_squared)
        gain = gain_of_adding(S, Q, state.log_var)
        if len(columns):
            worth, entering, _ = _exchanges(state, whitened, S, Q, columns)
            swaps = entering[worth > _LEAST_EXCHANGE]
            gain[swaps] = np.maximum(gain[swaps], worth[worth > _LEAST_EXCHANGE])
        gain[self.pool] = 0.0
        wanted = np.flatnonzero(gain > GAIN_TOLERANCE)
        if not len(wanted):
            return None
        ranked = wanted[np.argsort(-gain[wanted])]
        if len(ranked) > _ENTRANTS:
            half = _ENTRANTS // 2
            rest = np.linspace(half, len(ranked) - 1, half).astype(np.intp)
            ranked = np.concatenate([ranked[:half], ranked[rest]])
        self._enter(ranked)  # and is not wanted again, should it bring nothing
        return self._search(state)

    def _cached_products(self, columns: Indices) -> Array:
        """Phi' Phi_active of unit-norm columns, (M, m); one product for those not yet seen."""
        new = [int(j) for j in columns if int(j) not in self._slot]
        if new:
            first, last = len(self._slot), len(self._slot) + len(new)
            if last > self._products.shape[1]:
                wider = np.empty((len(self.scale), 2 * last), order="F")
                wider[:, :first] = self._products[:, :first]
                self._products = wider
            block: Array = dgemm(1.0, self.Phi, self.Phi[:, new], trans_a=1)
            block /= self.scale[:, None]
            block /= self.scale[new]
            self._products[:, first:last] = block
            self._slot.update(zip(new, range(first, last), strict=True))
        return self._products[:, [self._slot[int(j)] for j in columns]]


def gain_of_adding(s: Array, q: Array, log_var: float) -> Array:
    """Gain in log evidence of adding a column of unit norm at its best alpha; 0 where q^2 <= s.

    Parameters
    ----------
    s, q : ndarray
        Sparsity and quality.
    log_var : float
        Log s^2: tells s from its roundoff.

    Returns
    -------
    ndarray
        1/2 (q^2/s - 1 - log(q^2/s)), in nats.
    """
    ratio = np.ones_like(s)
    np.divide(q * q, s, out=ratio, where=s > SPAN_TOLERANCE * np.exp(-log_var))
    np.maximum(ratio, 1.0, out=ratio)
    return np.asarray(0.5 * (ratio - 1.0 - np.log(ratio)))


def _statistics(
    state: _State, P: Array, projection: Array, norm_squared: Array
) -> tuple[Array, Array, Array]:
    """W = sqrt(beta) P L^-T of shape (k, m), and S, Q of k columns, from P = Phi' Phi_active."""
    beta = np.exp(-state.log_var)
    if not len(state.active):
        return P, beta * norm_squared, beta * projection
    # a triangular solve keeps the digits of S that P Sigma P' loses to large weights
    W: Array = dtrsm(np.sqrt(beta), state.terms.chol, P, side=1, lower=1, trans_a=1)
    S = beta * (norm_squared - np.einsum("ij,ij->i", W, W))
    Q = beta * (projection - dgemv(1.0, P, state.terms.mean))
    return W, S, Q


def _batch(cross: Array, Q: Array, log_var: float) -> tuple[list[int], list[float]]:
    """Columns worth adding one after the other, and their alphas, given phi_i' C^-1 phi_j."""
    chosen: list[int] = []
    alphas: list[float] = []
    least = GAIN_TOLERANCE
    while True:
        S = np.diagonal(cross).copy()
        gain = gain_of_adding(S, Q, log_var)
        gain[chosen] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= least:
            return chosen, alphas
        least = max(least, _BATCH_SHARE * gain[best])
        alpha = float(S[best] ** 2 / (Q[best] ** 2 - S[best]))
        chosen.append(best)
        alphas.append(alpha)
        row = cross[best].copy()
        shrink = 1.0 / (alpha + S[best])  # C grows by phi phi' / alpha
        Q = Q - shrink * Q[best] * row
        cross = cross - np.multiply.outer(shrink * row, row)


def _exchanges(
    state: _State, W: Array, S: Array, Q: Array, members: Indices
) -> tuple[Array, Indices, Array]:
    """Gain of the best exchange of each active column, the column that enters, its alpha.

    Without column i, C^-1 grows by a rank-one term: with T_ji = phi_j' C^-1 phi_i,
    S_j + T_ji^2 / (alpha_i - S_i) and Q_j + T_ji Q_i / (alpha_i - S_i).
    """
    terms, alpha = state.terms, state.alpha
    # C^-1 Phi_active = beta Phi Sigma A
    T: Array = dtrsm(np.exp(-0.5 * state.log_var), terms.chol, W, side=1, lower=1)
    T *= alpha
    gamma = 1.0 - alpha * terms.variances
    # of deleting i: q^2 / (alpha + s) and log(alpha / (alpha + s)) in terms of Sigma
    lost = 0.5 * (terms.mean**2 / terms.variances + np.log1p(-gamma))
    room = alpha**2 * terms.variances  # alpha_i - S_i
    S_without = S[:, None] + T**2 / room
    Q_without = Q[:, None] + T * (alpha * terms.mean / room)
    gain = gain_of_adding(S_without, Q_without, state.log_var)
    gain[members] = -np.inf
    entering = np.argmax(gain, axis=0)
    each = np.arange(len(alpha))
    s, q, gained = (of[entering, each] for of in (S_without, Q_without, gain))
    # where nothing is to be gained there is no alpha, however much the deletion itself brings
    worth = np.where(gained > 0.0, gained - lost, -np.inf)
    with np.errstate(divide="ignore"):
        return worth, entering, s**2 / (q**2 - s)
