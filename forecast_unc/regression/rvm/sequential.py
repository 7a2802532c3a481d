"""Sequential sparse Bayesian learning: columns in, out and exchanged by gain."""

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm

from forecast_unc._typing import Array, Positions
from forecast_unc.regression.rvm import sparse_evidence
from forecast_unc.regression.rvm.batch import em_step, fixed_point, mackay_step
from forecast_unc.regression.rvm.sparse_evidence import Evidence, Maximum, SparseModel, Statistics

# Gain in nats below which no action is taken; q^2 / s < 1 + 6.4e-3 outside the model follows.
GAIN_TOLERANCE = 1e-5
# An exchange must gain this many nats, and half of what the formula promises, to be worth a refit.
# This and the numbers below are choices without a measurement on record. They guard the cost of a
# search: what they leave out for now is priced again after the next refit.
_LEAST_EXCHANGE = 1e-2
# Of the charge, in searches whose ends are starts.
_SHARES = (0.0, 0.25)


class SequentialTrainer:
    """Sequential maximization of the evidence on one design Phi (n, M), Fortran: theory/rvm.md.

    Models have positions in a pool of some hundred columns, of unit norm, whose Gram matrix is all
    a search needs; around it, the best candidates outside enter the pool, until none gains.
    """

    def __init__(
        self,
        Phi: Array,
        y: Array,
        noise: sparse_evidence.NoisePrior,
        random_state: np.random.Generator,
        max_iter: int = 10000,
        budget: int | None = None,
    ) -> None:
        self.Phi, self.y, self.noise, self.rng = Phi, y, noise, random_state
        self.max_iter, self.n_iter, self.budget = max_iter, 0, budget or Phi.shape[1]
        norms = np.sqrt(np.einsum("ij,ij->j", Phi, Phi))
        self.scale = np.where(norms > 0, norms, 1.0)
        self.norm_squared = np.where(norms > 0, 1.0, 0.0)
        self.projection = dgemv(1.0, Phi, y, trans=1) / self.scale  # Phi' y
        self.y_squared = float(y @ y)
        self.pool = np.empty(0, dtype=np.intp)
        # those of the pool, of unit norm, and room for more
        self._columns = np.empty((len(y), 0), order="F")
        self._products_in_pool = np.empty((0, 0), order="F")
        self._gram = self._products_in_pool  # its part in use
        self._products: dict[int, Array] = {}  # Phi' phi_j of columns once in the model, (M,)

    def fit(self, start: SparseModel | None = None, n_kicks: int | None = None) -> SparseModel:
        """Train from an empty model, or from another one; kicks by its size (None), or so many."""
        M = len(self.scale)
        # the pool's Gram matrix has to stay small beside the design
        first = self.rng.permutation(M)[: M if M <= 640 else 320]
        strongest = np.argsort(-np.abs(self.projection))[:40]
        given = np.empty(0, dtype=np.intp) if start is None else start.active
        # the last columns are the bias and the linear ones
        self._enter(np.unique(np.concatenate([first, strongest, given, [M - 1]])))
        states = [self._complete(self._search(self._start(start)))]
        if start is None:
            states += self._from_less_charged()
        best = max(states, key=lambda state: state.objective)
        # kicks cost about as much as the search before them, those of a large model no more than
        # its growth, whatever n is; one costs the cube of the model's size
        size, most, fruitless = len(best.active), n_kicks, 0
        if most is None:
            most = 20 if size > 100 else min(20, 1 + 6_000_000 // self.Phi.size)
        for kick in range(min(most, int(20 * (150 / max(150, size)) ** 2))):
            tried = self._search(self._kicked(best, kick))
            fruitless += 1
            if tried.objective > best.objective + 0.01:
                best, fruitless = self._complete(tried), 0
            if fruitless == 12:
                break
        columns = self.pool[best.active]
        order, alpha = np.argsort(columns), best.at.alpha * self.scale[columns] ** 2
        noise_var, converged = float(np.exp(best.at.log_var)), self.n_iter < self.max_iter
        return SparseModel(columns[order], alpha[order], noise_var, converged, self.n_iter)

    def _enter(self, new: Positions) -> None:
        """Let columns enter the pool."""
        if not len(new):  # BLAS refuses empty arrays
            return
        w, last = len(self.pool), len(self.pool) + len(new)
        if last > self._columns.shape[1]:  # room for as many again
            columns = np.empty((len(self.y), 2 * last), order="F")
            products = np.empty((2 * last, 2 * last), order="F")
            columns[:, :w], products[:w, :w] = self._columns[:, :w], self._gram
            self._columns, self._products_in_pool = columns, products
        block = np.divide(self.Phi[:, new], self.scale[new], out=self._columns[:, w:last])
        self._gram = gram = self._products_in_pool[:last, :last]
        gram[:, w:] = dgemm(1.0, self._columns[:, :last], block, trans_a=1)
        gram[w:, :w] = gram[:w, w:].T
        self.pool = np.concatenate([self.pool, new])

    def _evidence(self, active: Positions) -> Evidence:
        gram = np.asfortranarray(self._gram[np.ix_(active, active)])
        return Evidence(gram, self.projection[self.pool[active]], self.y_squared, len(self.y))

    def _joint(
        self, active: Positions, alpha: Array, log_var: float, tolerance: float = 1e-2
    ) -> Maximum | None:
        """Joint maximum from a start."""
        self.n_iter += 1
        end = sparse_evidence.maximize(
            self._evidence(active), alpha, log_var, self.noise, tolerance
        )
        return None if end is None else end._replace(active=active[end.active])

    def _from_less_charged(self) -> list[Maximum]:
        """Ends of searches that begin where those with a smaller charge end.

        Bases that explain y together may not be worth the charge one by one.
        """
        charged, ends = self.noise, []
        for share in _SHARES if charged.charge else ():
            self.noise = charged._replace(charge=share * charged.charge)
            state = self._search(self._start(None))
            self.noise = charged
            begin = self._joint(state.active, state.at.alpha, state.at.log_var)
            if begin is not None:
                ends.append(self._complete(self._search(begin)))
        return ends

    def _refined(self, state: Maximum) -> Maximum:
        """The joint maximum itself."""
        return self._joint(state.active, state.at.alpha, state.at.log_var, 1e-8) or state

    def _start(self, start: SparseModel | None) -> Maximum:
        """The model to begin with; without one, noise and the strongest column."""
        if start is not None and len(start.active):
            alpha = start.alpha / self.scale[start.active] ** 2
            active = np.searchsorted(self.pool, start.active)  # the first pool is sorted
            state = self._joint(active, alpha, float(np.log(start.noise_var)))
            if state is not None:
                return state
        log_var = float(np.log(max(0.1 * self.y_squared / len(self.y), 1e-300)))
        empty = self._joint(np.empty(0, dtype=np.intp), np.empty(0), log_var)
        assert empty is not None
        log_var = min(self.noise.within(log_var), empty.at.log_var)
        return empty._replace(at=empty.at._replace(log_var=log_var))

    def _search(self, state: Maximum) -> Maximum:
        """Add and exchange within the pool until nothing gains."""
        while self.n_iter < self.max_iter:
            grown = self._add(state)
            if grown is None:
                state = self._refined(state)
                grown = self._add(state) or self._exchange(state)
            if grown is None:
                break
            state = grown
        return state

    def _in_pool(self, state: Maximum) -> tuple[Array, Array, Array]:
        """Statistics of the columns of the pool."""
        P = self._gram[:, state.active]
        return _statistics(state.at, P, self.projection[self.pool], self.norm_squared[self.pool])

    def _gains(self, S: Array, Q: Array, at: Statistics) -> Array:
        """Nats that columns of unit norm gain."""
        return sparse_evidence.best_precisions(S, Q, np.exp(at.log_var), self.noise.charge)[1]

    def _add(self, state: Maximum) -> Maximum | None:
        """Add a batch of columns of the pool, or None where no addition gains."""
        at, (whitened, S, Q) = state.at, self._in_pool(state)
        gain = self._gains(S, Q, at)
        gain[state.active] = 0.0
        # whose gains are followed through the batch by rank-1 updates; neighbors are alike
        ranked = _ranked(gain, 64, 8)
        room = self.budget - len(state.active)
        if not len(ranked) or room <= 0:
            return None
        beta = np.exp(-at.log_var)
        # phi_i' C^-1 phi_j = beta (phi_i' phi_j - w_i . w_j)
        cross = np.asfortranarray(self._gram[np.ix_(ranked, ranked)])
        part = np.asfortranarray(whitened[ranked])
        cross = dgemm(-beta, part, part, trans_b=1, beta=beta, c=cross, overwrite_c=1)
        chosen, alphas = _batch(cross, Q[ranked], at.log_var, self.noise.charge)
        active = np.concatenate([state.active, ranked[chosen[:room]]])
        grown = self._joint(active, np.concatenate([at.alpha, alphas[:room]]), at.log_var)
        # a gain that is not there after the refit was roundoff
        if grown is None or grown.objective <= state.objective + 0.5 * GAIN_TOLERANCE:
            return None
        return grown

    def _exchange(self, state: Maximum) -> Maximum | None:
        """Exchange active columns for others of the pool where that gains, or None."""
        active, at = state.active, state.at
        if not len(active):
            return None
        worth, entering, alphas = _exchanges(at, *self._in_pool(state), active, self.noise.charge)
        order = np.argsort(-worth)
        order = order[worth[order] > _LEAST_EXCHANGE]
        for count in (8, 1) if len(order) else ():  # at once, before the best one alone
            _, unique = np.unique(entering[order[:count]], return_index=True)
            leaving = order[np.sort(unique)]
            tried = self._joint(
                np.append(np.delete(active, leaving), entering[leaving]),
                np.append(np.delete(at.alpha, leaving), alphas[leaving]),
                at.log_var,
            )
            if tried is not None and tried.objective > state.objective + 0.5 * worth[order[0]]:
                return tried
        return None

    def _kicked(self, state: Maximum, kick: int) -> Maximum:
        """The model and random columns beside it, thinned by MacKay's or EM's steps in turns."""
        # from the pool alone the last nats of large models stay out of reach
        chosen = self.rng.permutation(len(self.scale))[: max(100, 3 * len(state.active))]
        self._enter(np.setdiff1d(chosen, self.pool))
        others = np.setdiff1d(np.flatnonzero(np.isin(self.pool, chosen)), state.active)
        active = np.concatenate([state.active, others])
        spread = self.rng.standard_normal(len(active) + 1)
        alpha = len(active) / max(self.y_squared, 1e-300) * np.exp(spread[:-1])
        start, step = (alpha, state.at.log_var + spread[-1]), (mackay_step, em_step)[kick % 2]
        end = fixed_point(self._evidence(active), self.noise, start, step, 30)
        return self._joint(active[end.active], end.alpha, float(np.log(end.noise_var))) or state

    def _complete(self, state: Maximum) -> Maximum:
        """Search on with candidates from outside the pool until none gains."""
        while self.n_iter < self.max_iter:
            refined = self._refined(state)
            entrants = self._entrants(refined)
            if not len(entrants):
                break
            self._enter(entrants)  # and are not wanted again, should they bring nothing
            state = self._search(refined)
        return state

    def _entrants(self, state: Maximum) -> Positions:
        """Candidates outside the pool that would gain most."""
        columns = self.pool[state.active]
        new = [j for j in columns.tolist() if j not in self._products]
        if new:
            block: Array = dgemm(1.0, self.Phi, self.Phi[:, new], trans_a=1)
            block /= self.scale[:, None]
            block /= self.scale[new]
            self._products.update(zip(new, block.T, strict=True))
        P = np.array([self._products[j] for j in columns.tolist()]).reshape(-1, len(self.scale)).T
        whitened, S, Q = _statistics(state.at, P, self.projection, self.norm_squared)
        gain = self._gains(S, Q, state.at)
        if len(columns):
            charge = self.noise.charge
            worth, entering, _ = _exchanges(state.at, whitened, S, Q, columns, charge)
            swaps = entering[worth > _LEAST_EXCHANGE]
            gain[swaps] = np.maximum(gain[swaps], worth[worth > _LEAST_EXCHANGE])
        gain[self.pool] = 0.0
        return _ranked(gain, 48, 24)


def _ranked(gain: Array, most: int, top: int) -> Positions:
    """Columns that gain, by their gain; of too many the top ones and a sample of all ranks."""
    wanted = np.flatnonzero(gain > GAIN_TOLERANCE)
    ranked = wanted[np.argsort(-gain[wanted])]
    if len(ranked) > most:
        rest = np.linspace(top, len(ranked) - 1, most - top).astype(np.intp)
        ranked = np.concatenate([ranked[:top], ranked[rest]])
    return ranked


def _statistics(
    at: Statistics, P: Array, projection: Array, norm_squared: Array
) -> tuple[Array, Array, Array]:
    """W = sqrt(beta) P L^-T (k, m), S = phi' C^-1 phi, Q = phi' C^-1 y; P = Phi' Phi_active."""
    beta = np.exp(-at.log_var)
    if not len(at.alpha):
        return P, beta * norm_squared, beta * projection
    # a triangular solve keeps the digits of S that P Sigma P' loses to large weights
    W: Array = dtrsm(np.sqrt(beta), at.chol, P, side=1, lower=1, trans_a=1)
    S = beta * (norm_squared - np.einsum("ij,ij->i", W, W))
    return W, S, beta * (projection - dgemv(1.0, P, at.mean))


def _batch(cross: Array, Q: Array, log_var: float, charge: float) -> tuple[list[int], list[float]]:
    """Columns worth adding one after the other, and their alphas, given phi_i' C^-1 phi_j."""
    chosen: list[int] = []
    alphas: list[float] = []
    least = GAIN_TOLERANCE
    while True:
        S = np.diagonal(cross).copy()
        precisions, gain = sparse_evidence.best_precisions(S, Q, np.exp(log_var), charge)
        gain[chosen] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= least:
            return chosen, alphas
        # a share of the first gain: the rest is better judged after a refit
        least = max(least, 0.3 * gain[best])
        alpha = float(precisions[best])
        chosen.append(best)
        alphas.append(alpha)
        row = cross[best].copy()
        shrink = 1.0 / (alpha + S[best])  # C grows by phi phi' / alpha
        Q = Q - shrink * Q[best] * row
        cross = cross - np.multiply.outer(shrink * row, row)


def _exchanges(
    at: Statistics, W: Array, S: Array, Q: Array, members: Positions, charge: float
) -> tuple[Array, Positions, Array]:
    """Gain of the best exchange of each active column, the column that enters, its alpha."""
    alpha = at.alpha
    # C^-1 Phi_active = beta Phi Sigma A
    T: Array = dtrsm(np.exp(-0.5 * at.log_var), at.chol, W, side=1, lower=1)
    T *= alpha
    # of deleting i: q^2 / (alpha + s) and log(alpha / (alpha + s)) in terms of Sigma
    lost = 0.5 * (at.mean**2 / at.variances + np.log1p(-at.gamma))
    lost -= charge / (1.0 + np.exp(at.log_var) * alpha)
    with np.errstate(over="ignore"):
        room = alpha**2 * at.variances  # alpha_i - S_i
    # without column i, C^-1 grows by a rank-one term
    S_without = S[:, None] + T**2 / room
    Q_without = Q[:, None] + T * (alpha * at.mean / room)
    unit = np.exp(at.log_var)
    precisions, gain = sparse_evidence.best_precisions(S_without, Q_without, unit, charge)
    gain[members] = -np.inf
    entering = np.argmax(gain, axis=0)
    each = np.arange(len(alpha))
    gained = gain[entering, each]
    # where nothing is to be gained there is no alpha, however much the deletion itself brings
    worth = np.where(gained > 0.0, gained - lost, -np.inf)
    return worth, entering, precisions[entering, each]
