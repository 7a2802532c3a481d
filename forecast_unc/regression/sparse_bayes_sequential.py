r"""Sequential sparse Bayesian learning: columns in, out and exchanged by the largest gain in evidence.

Tipping & Faul (2003) change one alpha at a time. That stops short: on lagged data the best
single change gains nothing while moving a basis to a neighboring row does, and thousands of
re-estimates creep along ridges that a joint step crosses at once. Here

* the alphas in the model and the noise are re-estimated together by Newton's method on the
  exact evidence (O(m^3) a step, no pass over the rows), columns with q^2 <= s deleted on the way;
* additions come in batches: their gains are computed one after the other by rank-1 updates on a
  short list of candidates, so that no two of them claim the same gain;
* when no addition gains, every exchange of an active column for another is priced in closed
  form, and the best are tried;

and S, Q of all candidates are computed from the cached products Phi' Phi_active after each joint
step, never updated in place, so that no roundoff accumulates.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.sparse_bayes import Evidence, EvidenceTerms, NoisePrior, SparseModel

# Gain in nats below which an action is not worth taking; q^2 / s - 1 < 2.1e-3 follows from it.
GAIN_TOLERANCE = 1e-6
# A candidate this close to the span of the model (share of its squared norm that is left) is
# not a candidate: its s and q are roundoff.
_SPAN_TOLERANCE = 1e-9
_SHORT_LIST = 64
_EXCHANGES = 8


class _State(NamedTuple):
    """A model with its evidence terms; columns have unit norm."""

    active: list[int]
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
    max_iter : int
        Most rounds of pricing all candidates.
    """

    def __init__(self, Phi: Array, y: Array, noise: NoisePrior, max_iter: int = 1000) -> None:
        self.Phi, self.y, self.noise, self.max_iter = Phi, y, noise, max_iter
        n, M = Phi.shape
        norms = np.sqrt(np.einsum("ij,ij->j", Phi, Phi))
        self.scale = np.where(norms > 0, norms, 1.0)
        self.norm_squared = np.where(norms > 0, 1.0, 0.0)
        self.projection = dgemv(1.0, Phi, y, trans=1) / self.scale  # Phi' y
        self.y_squared = float(y @ y)
        self._products = np.empty((M, 64), order="F")  # Phi' Phi_j of every column j seen so far
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
        state = self._start(start)
        converged = False
        for n_iter in range(1, self.max_iter + 1):
            grown = self._add(state)
            if grown is None:
                state = self._newton(state.active, state.alpha, state.log_var, 1e-9)
                grown = self._add(state) or self._exchange(state)
            if grown is None:
                converged = True
                break
            state = grown
        order = np.argsort(state.active)
        active = np.array(state.active, dtype=np.intp)[order]
        alpha = state.alpha[order] * self.scale[active] ** 2
        return SparseModel(active, alpha, float(np.exp(state.log_var)), converged, n_iter)

    def _start(self, start: SparseModel | None) -> _State:
        low, high = self.noise.bounds()
        if start is not None and len(start.active):
            active = [int(j) for j in start.active]
            alpha = start.alpha / self.scale[start.active] ** 2
            log_var = np.log(start.noise_var)
        else:
            log_var = np.log(0.1 * self.y_squared / len(self.y)) if self.y_squared else low
            beta = np.exp(-log_var)
            first = int(np.argmax(self.projection**2))
            quality = (beta * self.projection[first]) ** 2
            if quality <= beta:  # nothing is explained by any column: noise alone
                active, alpha = [], np.zeros(0)
            else:
                active, alpha = [first], np.array([beta**2 / (quality - beta)])
        log_var = min(max(log_var, low), high)
        return self._newton(active, alpha, log_var, 1e-3)

    def _columns(self, active: list[int]) -> Array:
        """Phi' Phi_active of unit-norm columns, (M, m); products are computed once a column."""
        new = [j for j in active if j not in self._slot]
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
        return np.asfortranarray(self._products[:, [self._slot[j] for j in active]])

    def _evidence(self, active: list[int]) -> Evidence:
        self._columns(active)
        slots = [self._slot[j] for j in active]
        gram = np.asfortranarray(self._products[np.ix_(active, slots)])
        return Evidence(gram, self.projection[active], self.y_squared, len(self.y))

    def _newton(self, active: list[int], alpha: Array, log_var: float, tolerance: float) -> _State:
        """Joint maximum in (log alpha, log s^2) of the active columns; hopeless ones are deleted.

        Marquardt's damping keeps the steps uphill where the Hessian is not negative definite.
        """
        active, evidence = list(active), self._evidence(active)
        low, high = self.noise.bounds()
        terms = evidence.gradient(alpha, log_var)
        if terms is None:
            raise FloatingPointError
        damping = 1e-3
        for _ in range(100):
            # alpha at its own maximum is infinite where q^2 <= s: the column goes
            s, q = 1.0 / terms.variances - alpha, terms.mean / terms.variances
            if len(active):
                excess = q**2 / np.maximum(s, 1e-300)
                worst = int(np.argmin(excess))
                if excess[worst] <= 1.0:
                    keep = np.arange(len(active)) != worst
                    del active[worst]
                    alpha, evidence = alpha[keep], self._evidence(active)
                    terms = evidence.gradient(alpha, log_var)
                    assert terms is not None
                    continue
            prior = self.noise.terms(log_var)
            gradient = np.append(terms.by_log_alpha, terms.by_log_var + prior[1])
            hessian = -terms.hessian(alpha, log_var)
            hessian[-1, -1] -= prior[2]
            free = np.ones(len(gradient), dtype=bool)
            free[-1] = not (
                (log_var <= low and gradient[-1] < 0) or (log_var >= high and gradient[-1] > 0)
            ) and low < high
            if np.abs(gradient[free]).max(initial=0.0) < tolerance:
                break
            if not free[-1]:
                gradient[-1] = 0.0
                hessian[-1, :-1] = hessian[:-1, -1] = 0.0
            objective = terms.value + prior[0]
            diagonal = np.maximum(np.abs(np.diagonal(hessian)), 1e-6)
            while True:
                damped = hessian + np.diag(damping * diagonal)
                chol, info = dpotrf(damped, lower=1)
                if not info:
                    step, _ = dpotrs(chol, gradient, lower=1)
                    step *= min(1.0, 3.0 / np.abs(step).max())
                    tried_alpha = alpha * np.exp(step[:-1])
                    tried_var = min(max(log_var + step[-1], low), high)
                    tried = evidence.gradient(tried_alpha, tried_var)
                    if tried is not None:
                        gain = tried.value + self.noise.terms(tried_var)[0] - objective
                        if gain >= 0:
                            break
                damping = max(10.0 * damping, 1e-4)
                if damping > 1e8:
                    break
            if damping > 1e8:
                break
            alpha, log_var, terms = tried_alpha, tried_var, tried
            damping *= 0.1
            if gain < 1e-12 * abs(objective):
                break
        return _State(
            active, alpha, log_var, terms, terms.value + self.noise.terms(log_var)[0]
        )

    def _statistics(self, state: _State) -> tuple[Array, Array, Array, Array]:
        """Products P (M, m), beta P Sigma, and S, Q of every column."""
        beta = np.exp(-state.log_var)
        P = self._columns(state.active)
        if not state.active:
            return P, P, beta * self.norm_squared, beta * self.projection
        # a triangular solve keeps the digits of S that P Sigma P' loses to large weights
        whitened = dtrsm(np.sqrt(beta), state.terms.chol, P, side=1, lower=1, trans_a=1)
        S = beta * (self.norm_squared - np.einsum("ij,ij->i", whitened, whitened))
        pulled: Array = dtrsm(np.sqrt(beta), state.terms.chol, whitened, side=1, lower=1)
        Q = beta * (self.projection - dgemv(1.0, P, state.terms.mean))
        return P, pulled, S, Q

    def _add(self, state: _State) -> _State | None:
        """Add a batch of columns and refit, or None where no addition gains."""
        beta = np.exp(-state.log_var)
        _, pulled, S, Q = self._statistics(state)
        gain = _gain_of_adding(S, Q, beta)
        gain[state.active] = 0.0
        candidates = np.flatnonzero(gain > GAIN_TOLERANCE)
        if not len(candidates):
            return None
        ranked = candidates[np.argsort(-gain[candidates])]
        if len(ranked) > _SHORT_LIST:  # the best, and a sample of all ranks: neighbors are alike
            top = _SHORT_LIST // 8
            rest = np.linspace(top, len(ranked) - 1, _SHORT_LIST - top).astype(np.intp)
            ranked = np.concatenate([ranked[:top], ranked[rest]])
        chosen, alphas = self._greedy(ranked, S[ranked], Q[ranked], pulled[ranked], state)
        grown = self._newton(
            [*state.active, *chosen], np.append(state.alpha, alphas), state.log_var, 1e-2
        )
        # a gain that is not there after the refit was roundoff
        return grown if grown.objective > state.objective + GAIN_TOLERANCE else None

    def _greedy(
        self, columns: Array, S: Array, Q: Array, pulled: Array, state: _State
    ) -> tuple[list[int], list[float]]:
        """Columns of a short list worth adding one after the other, by rank-1 updates."""
        beta = np.exp(-state.log_var)
        block = self.Phi[:, columns] / self.scale[columns]
        cross: Array = dgemm(beta, block, block, trans_a=1)  # phi_i' C^-1 phi_j
        if state.active:
            P = self._products[np.ix_(columns, [self._slot[j] for j in state.active])]
            cross = dgemm(-beta, pulled, P, trans_b=1, beta=1.0, c=cross, overwrite_c=1)
        S, Q = S.copy(), Q.copy()
        chosen: list[int] = []
        alphas: list[float] = []
        least = 0.0
        while len(chosen) < len(columns):
            gain = _gain_of_adding(S, Q, beta)
            best = int(np.argmax(gain))
            if gain[best] <= max(least, GAIN_TOLERANCE):
                break
            # what gains far less than the first is better judged after the refit
            least = least or _WORTH * gain[best]
            alpha = S[best] ** 2 / (Q[best] ** 2 - S[best])
            chosen.append(int(columns[best]))
            alphas.append(float(alpha))
            shrink = 1.0 / (alpha + S[best])
            row = cross[best].copy()
            Q -= shrink * Q[best] * row
            cross -= np.multiply.outer(shrink * row, row)
            S = np.diagonal(cross).copy()
            S[best] = Q[best] = 0.0
            cross[best] = cross[:, best] = 0.0
        return chosen, alphas

    def _exchange(self, state: _State) -> _State | None:
        """Exchange active columns for others where that gains, or None."""
        if not state.active:
            return None
        beta = np.exp(-state.log_var)
        P, pulled, S, Q = self._statistics(state)
        active, alpha = state.active, state.alpha
        # phi_j' C^-1 phi_i = beta alpha_i (P Sigma)_ji; without column i, C^-1 grows by rank one
        T = pulled * alpha
        s_in = 1.0 / state.terms.variances - alpha
        q_in = state.terms.mean / state.terms.variances
        lost = 0.5 * (q_in**2 / (alpha + s_in) + np.log(alpha / (alpha + s_in)))
        room = alpha**2 * state.terms.variances  # alpha - S of an active column
        S_out = S[:, None] + T**2 / room
        Q_out = Q[:, None] + T * (alpha * state.terms.mean / room)
        gain = _gain_of_adding(S_out, Q_out, beta) - lost
        gain[active] = -np.inf
        best = np.argmax(gain, axis=0)  # the best substitute of each
        worth = gain[best, np.arange(len(active))]
        order = [i for i in np.argsort(-worth) if worth[i] > _LEAST_EXCHANGE]
        for count in (min(_EXCHANGES, len(order)), 1):
            if not order:
                return None
            leaving, entering, alphas = [], [], []
            for i in order[:count]:
                j = int(best[i])
                if j not in entering:
                    leaving.append(int(i))
                    entering.append(j)
                    alphas.append(S_out[j, i] ** 2 / (Q_out[j, i] ** 2 - S_out[j, i]))
            keep = np.setdiff1d(np.arange(len(active)), leaving)
            tried = self._newton(
                [*(active[i] for i in keep), *entering],
                np.append(alpha[keep], alphas),
                state.log_var,
                1e-2,
            )
            if tried.objective > state.objective + 0.5 * worth[order[0]]:
                return tried
        return None


_WORTH = 0.3
_LEAST_EXCHANGE = 1e-3


def _gain_of_adding(s: Array, q: Array, beta: float) -> Array:
    """Gain in log evidence of adding a column at its best alpha; 0 where q^2 <= s."""
    ratio = np.ones_like(s)
    able = s > _SPAN_TOLERANCE * beta
    np.divide(q * q, s, out=ratio, where=able)
    np.maximum(ratio, 1.0, out=ratio)
    return np.asarray(0.5 * (ratio - 1.0 - np.log(ratio)))
