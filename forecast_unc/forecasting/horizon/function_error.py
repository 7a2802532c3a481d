"""The error of one function that the steps of a horizon share."""

import copy
from typing import Self

import numpy as np
from scipy.linalg.blas import dtpsv
from scipy.linalg.lapack import dtbtrs

from forecast_unc._typing import Array, Positions
from forecast_unc.regression.posterior import Posterior


class FunctionError:
    """Covariances of the function's posterior error at one step with all earlier levels.

    C[t, u] = Cov(error of f at step t, z_u) = r_u . C[t, :] + k_post(x_t, x_u), z_u the level of
    step u < t and r_u its weights on the levels before it: a unit triangular system a step. The
    std at a step is no more than what the step adds to the part its inputs explain; otherwise the
    joint matrix may not be a covariance (11 % of 20,000 random GPs). Levels O that were observed,
    each when it is the last, with standard innovations e (docs/theory/state.md):

        c = L^-1 C[t, O],  L[o, o'] = W[o', o] for o' < o,  W[o, u] = Cov(o, z_u) / L[o, o],
        Cov(error, z | O) = C[t, :] - c W,  E[error | O] = c . e,  Var(error | O) = k_post - c . c.
    """

    def __init__(self, posterior: Posterior, depth: int, n_steps: int) -> None:
        self.depth, self.step = depth, 0
        self.covariance = np.zeros((n_steps, n_steps))  # k_post, lower triangle
        self._path = posterior.function_path(n_steps)
        self._entered: list[int] = []  # steps whose input is part of the path
        self._carry = np.zeros((depth + 1, n_steps), order="F")  # I - R, by its subdiagonals
        self._carry[0] = 1.0
        self._damping = np.ones(n_steps)
        self._observed: list[int] = []  # levels
        self._chol = np.empty(n_steps * (n_steps + 1) // 2)  # L, the rows after each other
        self._loadings = np.zeros((n_steps, depth + n_steps))  # W
        self._innovations = np.empty(n_steps)  # e

    def next_step(
        self, x: Array, back: Positions, weights: Array, added: float, learned_from: bool = False
    ) -> tuple[float, float, Array]:
        """Enter a step of mean input x, its level with weights (q,) on those `back` (q,) steps ago.

        `added` is the function's variance that its inputs do not explain linearly. Returns the mean
        of its error, how much of its variance was learned, and its covariance with the levels.
        """
        n, p = self.step, self.depth
        row = self._path.append(x[None])[1][:, 0]
        self.covariance[n, [*self._entered, n]] = row
        self._entered.append(n)
        own = row[-1]
        if learned_from:  # it is in the posterior already, and shares no error with others
            self._damping[n] = 0.0
        elif own > 0.0:
            self._damping[n] = min(1.0, np.sqrt(added / own))
        cross = np.zeros(p + n)
        if n and self._damping[n] > 0.0:
            between = self.covariance[n, :n] * self._damping[n] * self._damping[:n]
            solved, _ = dtbtrs(self._carry[:, :n], between[:, None], uplo="L", diag="U")
            cross[p:] = solved[:, 0]
        m = len(self._observed)
        known, loadings = np.zeros(m), self._loadings[:m]
        if m:
            if self._damping[n] > 0.0:
                packed = self._chol[: m * (m + 1) // 2]
                known = dtpsv(m, packed, cross[self._observed], trans=1)
                cross -= known @ loadings[:, : p + n]
            loadings[:, p + n] = loadings[:, p + n - back] @ weights + known
        steps = back <= n
        np.subtract.at(self._carry, (back[steps], n - back[steps]), weights[steps])
        self.step += 1
        return float(known @ self._innovations[:m]), float(known @ known), cross

    def copy(self) -> Self:
        """Another one with the steps so far."""
        copied = copy.copy(self)
        copied._path = copy.copy(self._path)  # writes after the steps so far alone
        copied._entered, copied._observed = [*self._entered], [*self._observed]
        arrays = ("covariance", "_carry", "_damping", "_chol", "_loadings", "_innovations")
        for name in arrays:
            setattr(copied, name, getattr(self, name).copy(order="K"))
        return copied

    def skip_step(self) -> None:
        """Enter a step of known input and level that was learned from: it shares no error."""
        self._damping[self.step] = 0.0
        self.step += 1

    def observe(self, cov: Array, var: float, innovation: float) -> None:
        """Condition on an observation of the last level, of covariance (m,) with the last m."""
        last = self.depth + self.step - 1
        m = len(self._observed)
        std, first = np.sqrt(var), m * (m + 1) // 2
        self._chol[first : first + m] = self._loadings[:m, last]
        self._chol[first + m] = std
        self._loadings[m, last + 1 - len(cov) : last + 1] = cov / std
        self._innovations[m] = innovation / std
        self._observed.append(last)
