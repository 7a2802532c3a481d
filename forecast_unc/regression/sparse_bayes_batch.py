"""Batch trainers of sparse Bayesian learning: all alphas at once, from the full design down.

EM and MacKay's fixed point (Tipping 2001), the evidence maximized directly (L-BFGS), EM on growing
active sets, and the one shared precision of the Bayesian extended linear model. Columns leave
for good when their alpha runs away; what is left is a local optimum of the evidence, which
depends on the start.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm, dgemv
from scipy.optimize import minimize

from forecast_unc._typing import Array
from forecast_unc.regression.sparse_bayes import (
    Evidence,
    EvidenceTerms,
    Indices,
    NoisePrior,
    SparseModel,
)

# A column leaves when the data determine its weight to less than this share (gamma): its alpha
# then grows without bound. EM approaches infinity like the number of iterations, so it needs a
# generous one, and the sign of q^2 - s to be sure.
_PRUNED = 1e-6
_PRUNED_EM = 1e-2
_TOLERANCE = 1e-6  # nats an iteration

Update = Callable[[Array, EvidenceTerms], Array]


def random_start(
    Phi: Array, y: Array, spread: float, random_state: np.random.Generator
) -> tuple[Array, float]:
    """Precisions (M,) and log s^2 to start from: equal shares of the variance of y.

    Parameters
    ----------
    Phi : ndarray of shape (n, M)
        Design.
    y : ndarray of shape (n,)
        Targets.
    spread : float
        Standard deviation of the logarithms around it; 0 for the standard start.
    random_state : Generator
        Source of the draws.
    """
    var = max(float(y @ y) / len(y), 1e-300)
    squares = np.einsum("ij,ij->j", Phi, Phi)
    alpha = np.maximum(squares, 1e-300) * np.count_nonzero(squares) / (len(y) * var)
    alpha = alpha * np.exp(spread * random_state.standard_normal(len(alpha)))
    return alpha, float(np.log(0.1 * var) + spread * random_state.standard_normal())


class BatchTrainer:
    """Trainers that start from every column of a design.

    Parameters
    ----------
    Phi : ndarray of shape (n, M), Fortran order
        Design.
    y : ndarray of shape (n,)
        Targets.
    noise : NoisePrior
        Prior, floor and ceiling of the noise.
    max_iter : int
        Most iterations.
    """

    def __init__(self, Phi: Array, y: Array, noise: NoisePrior, max_iter: int) -> None:
        self.Phi, self.y, self.noise, self.max_iter = Phi, y, noise, max_iter
        self.projection = dgemv(1.0, Phi, y, trans=1)
        self.y_squared = float(y @ y)

    def em(self, alpha: Array, log_var: float) -> SparseModel:
        """Expectation maximization: alpha = 1 / (mu^2 + Sigma_ii), s^2 = (|e|^2 + s^2 sum gamma) / n.

        The noise update is tr[Sigma Phi' Phi] = s^2 sum gamma in other words. Every iteration
        raises the evidence; columns that should leave take hundreds.
        """
        everything = np.arange(len(alpha))
        return self._iterate(everything, alpha, log_var, self._em_step, _PRUNED_EM)

    def mackay(self, alpha: Array, log_var: float) -> SparseModel:
        """MacKay's fixed point: alpha = gamma / mu^2, s^2 = |e|^2 / (n - sum gamma)."""
        everything = np.arange(len(alpha))
        return self._iterate(everything, alpha, log_var, self._mackay_step, _PRUNED)

    def subspace_em(
        self, alpha: Array, log_var: float, budget: int, order: Indices
    ) -> SparseModel:
        """EM on an active set that grows block by block and never exceeds a budget.

        Each cycle adds the next block of columns (a tenth of the budget), takes ten EM steps
        on the active set, and drops what should leave; over the budget the columns that the
        data determine least go. One pass over the columns, then EM on what is left.

        Parameters
        ----------
        alpha : ndarray of shape (M,)
            Precisions a column enters with.
        log_var : float
            Log noise variance to start from.
        budget : int
            Largest active set; the cost of an iteration grows with its cube.
        order : ndarray of shape (M,)
            Order in which the columns are tried.

        References
        ----------
        Quinonero-Candela & Winther, NIPS 15 (2003).
        """
        block = max(1, budget // 10)
        active, current = np.empty(0, dtype=np.intp), np.empty(0)
        n_iter = 0
        for first in range(0, len(order), block):
            if n_iter >= self.max_iter:
                break
            new = order[first : first + block]
            active = np.concatenate([active, new])
            current = np.concatenate([current, alpha[new]])
            active, current, log_var = self._trim(active, current, log_var, budget)
            part = self._iterate(active, current, log_var, self._em_step, _PRUNED_EM, limit=10)
            active, current, log_var = part.active, part.alpha, float(np.log(part.noise_var))
            n_iter += part.n_iter
        last = self._iterate(active, current, log_var, self._em_step, _PRUNED_EM)
        return last._replace(n_iter=n_iter + last.n_iter)

    def gradient(self, alpha: Array, log_var: float) -> SparseModel:
        """L-BFGS on the evidence in log alpha and log s^2, pruned between rounds."""
        active = np.arange(len(alpha))
        low, high = self.noise.bounds()
        log_var = min(max(log_var, low), high)
        n_iter, value, converged = 0, -np.inf, False
        while n_iter < self.max_iter:
            evidence = self._evidence(active)

            def objective(x: Array, evidence: Evidence = evidence) -> tuple[float, Array]:
                terms = evidence.gradient(np.exp(x[:-1]), x[-1])
                if terms is None:
                    return np.inf, np.zeros(len(x))
                prior = self.noise.terms(x[-1])
                slope = np.append(terms.by_log_alpha, terms.by_log_var + prior[1])
                return -terms.value - prior[0], -slope

            # beyond the upper bound a column has no part in the model
            top = np.log(np.einsum("ij,ij->j", self.Phi[:, active], self.Phi[:, active]) + 1e-300)
            top += 14.0 - log_var
            start = np.append(np.minimum(np.log(alpha), top), log_var)
            search = minimize(
                objective,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, t) for t in top] + [(low, high)],
                options={"maxiter": min(50, self.max_iter - n_iter), "ftol": 1e-13, "gtol": 1e-6},
            )
            n_iter += max(int(search.nit), 1)
            alpha, log_var = np.exp(search.x[:-1]), float(search.x[-1])
            active, alpha, _ = self._prune(evidence, active, alpha, log_var, _PRUNED * 10)
            gain, value = -search.fun - value, -search.fun
            if gain < _TOLERANCE * 10:
                converged = True
                break
        return SparseModel(active, alpha, float(np.exp(log_var)), converged, n_iter)

    def shared(self) -> SparseModel:
        """One precision for all columns: the evidence maximized over (log alpha, log s^2).

        With the eigenvalues e_k of Phi Phi' and y in their basis, C has the eigenvalues
        s^2 + e_k / alpha, so that a value costs O(n); the best of a grid is refined.
        """
        n, M = self.Phi.shape
        if n <= M:
            values, vectors = eigh(dgemm(1.0, self.Phi, self.Phi, trans_b=1))
            rotated = (vectors.T @ self.y) ** 2
            rest, rest_n = 0.0, 0
        else:
            values, vectors = eigh(dgemm(1.0, self.Phi, self.Phi, trans_a=1))
            values = np.maximum(values, values[-1] * 1e-15)
            rotated = (vectors.T @ self.projection) ** 2 / values
            rest, rest_n = max(self.y_squared - rotated.sum(), 0.0), n - M
        values = np.maximum(values, 0.0)

        def objective(x: Array) -> tuple[float, Array]:
            signal, noise = values * np.exp(-x[0]), np.exp(x[1])
            var = signal + noise
            prior = self.noise.terms(x[1])
            value = np.log(var).sum() + (rotated / var).sum() + rest_n * x[1] + rest / noise
            pull = (1.0 - rotated / var) / var
            by_noise = noise * pull.sum() + rest_n - rest / noise
            return 0.5 * value - prior[0], np.array(
                [-0.5 * signal @ pull, 0.5 * by_noise - prior[1]]
            )

        var = max(self.y_squared / n, 1e-300)
        low, high = self.noise.bounds()
        center = np.log(max(values.sum(), 1e-300) / (n * var))
        grid = [
            np.array([center + a, min(max(np.log(var) + t, low), high)])
            for a in (-6.0, -3.0, 0.0, 3.0)
            for t in (-7.0, -4.0, -1.0)
        ]
        start = min(grid, key=lambda x: objective(x)[0])
        search = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(center - 30.0, center + 30.0), (low, high)],
            options={"ftol": 1e-14, "gtol": 1e-7},
        )
        alpha = np.full(M, np.exp(search.x[0]))
        return SparseModel(
            np.arange(M), alpha, float(np.exp(search.x[1])), bool(search.success), int(search.nit)
        )

    def _evidence(self, active: Indices) -> Evidence:
        columns = np.asfortranarray(self.Phi[:, active])
        gram: Array = dgemm(1.0, columns, columns, trans_a=1)
        return Evidence(gram, self.projection[active], self.y_squared, len(self.y))

    def _iterate(
        self,
        active: Indices,
        alpha: Array,
        log_var: float,
        step: "Callable[[Array, float, EvidenceTerms], tuple[Array, float]]",
        pruned: float,
        limit: int | None = None,
    ) -> SparseModel:
        low, high = self.noise.bounds()
        log_var = min(max(log_var, low), high)
        evidence, value, converged = self._evidence(active), -np.inf, False
        n_iter = 0
        while n_iter < (self.max_iter if limit is None else limit):
            n_iter += 1
            active, alpha, evidence = self._prune(evidence, active, alpha, log_var, pruned)
            terms = evidence.gradient(alpha, log_var)
            if terms is None:
                break
            objective = terms.value + self.noise.terms(log_var)[0]
            if abs(objective - value) < _TOLERANCE:
                converged = True
                break
            value = objective
            alpha, log_var = step(alpha, log_var, terms)
        return SparseModel(active, alpha, float(np.exp(log_var)), converged, n_iter)

    def _em_step(self, alpha: Array, log_var: float, terms: EvidenceTerms) -> tuple[Array, float]:
        gamma = 1.0 - alpha * terms.variances
        squares = terms.squares + np.exp(log_var) * gamma.sum()
        updated = 1.0 / (terms.mean**2 + terms.variances)
        return updated, self.noise.update(squares, len(self.y), log_var)

    def _mackay_step(
        self, alpha: Array, log_var: float, terms: EvidenceTerms
    ) -> tuple[Array, float]:
        gamma = np.maximum(1.0 - alpha * terms.variances, 1e-15)
        # a weight of zero sends its alpha to infinity, in steps that keep the matrix regular
        updated = np.minimum(gamma / np.maximum(terms.mean**2, 1e-300), 1e4 * alpha)
        return updated, self.noise.update(terms.squares, len(self.y) - gamma.sum(), log_var)

    def _prune(
        self, evidence: Evidence, active: Indices, alpha: Array, log_var: float, pruned: float
    ) -> tuple[Indices, Array, Evidence]:
        """Drop the columns whose alpha runs to infinity: gamma below a share, and q^2 <= s."""
        terms = evidence.gradient(alpha, log_var)
        if terms is None or not len(active):
            return active, alpha, evidence
        keep = (1.0 - alpha * terms.variances > pruned) | (terms.by_log_alpha < 0)
        if keep.all():
            return active, alpha, evidence
        kept = np.asfortranarray(evidence.gram[np.ix_(keep, keep)])
        shrunk = Evidence(kept, evidence.projection[keep], self.y_squared, len(self.y))
        return active[keep], alpha[keep], shrunk

    def _trim(
        self, active: Indices, alpha: Array, log_var: float, budget: int
    ) -> tuple[Indices, Array, float]:
        """Keep the columns that the data determine best, up to the budget."""
        if len(active) <= budget:
            return active, alpha, log_var
        terms = self._evidence(active).gradient(alpha, log_var)
        gamma = np.zeros(len(active)) if terms is None else 1.0 - alpha * terms.variances
        kept = np.sort(np.argsort(-gamma, kind="stable")[:budget])
        return active[kept], alpha[kept], log_var
