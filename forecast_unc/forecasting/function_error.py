"""What the steps of a recursion share: the posterior error of one and the same function."""

import copy
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtbtrs

from forecast_unc._typing import Array
from forecast_unc.regression.posterior import Posterior


class Shared(NamedTuple):
    """Distribution of the function's error at the next step, given what was observed so far."""

    mean: float
    learned: float  # how much of its variance the observations took away
    cross: Array  # (p + steps,), covariance with the levels


class FunctionError:
    """Covariances of the function's posterior error at one step with all earlier levels.

    The levels z are the p before the first step, which do not depend on the error, and that of each
    step. C[t, u] = Cov(error of f at step t, z_u) = r_u . C[t, :] + k_post(x_t, x_u) for earlier
    steps u, r_u the weights of z_u on the levels before it: a unit triangular system a step, of
    bandwidth p.

    The covariance J of the steps so built satisfies (I - R) J (I - R)' = k_post + noise +
    rest, with rest the diagonal that makes the steps' own variances exact, and what an
    uncertain start adds. Where a mean
    input is a local maximum of the function's variance, rest is negative and J may not be a
    covariance (11 % of 20,000 random one-dimensional GPs). So the function's std at a step
    is taken to be no more than what the step adds to the part its inputs explain: with that
    J is positive definite by construction, and not further from Monte Carlo.

    Some levels may be observed, each when it is the last: then the distribution of the error is
    given these. With v_o the variance of such an observation given the earlier ones, and W[o, u]
    its covariance with z_u, given them too, over sqrt(v_o),

        c = L^-1 C[t, O],  L[o, o'] = W[o', o] for o' < o,  L[o, o] = sqrt(v_o),
        Cov(error, z | O) = C[t, :] - c W,  E[error | O] = c . e,  Var(error | O) = k_post - c . c,

    e the standardized innovations, the observations less their means over sqrt(v_o).

    Parameters
    ----------
    posterior : Posterior
        One-step model.
    depth : int
        Levels before the first step, p.
    n_steps : int
        Room for so many steps.
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
        self._chol = np.zeros((0, 0))  # L
        self._loadings = np.zeros((0, depth + n_steps))  # W
        self._innovations = np.zeros(0)  # e

    def with_room(self, n_steps: int) -> Self:
        """A copy with room for so many steps more."""
        longer, now = copy.copy(self), self.step
        longer.covariance = _widened(self.covariance[:now, :now], n_steps, n_steps)
        longer._path = self._path.with_room(n_steps)
        longer._entered, longer._observed = list(self._entered), list(self._observed)
        longer._carry = np.asfortranarray(_widened(self._carry[:, :now], 0, n_steps))
        longer._carry[0] = 1.0
        longer._damping = np.append(self._damping[:now], np.ones(n_steps))
        longer._loadings = _widened(self._loadings[:, : self.depth + now], 0, n_steps)
        return longer

    def covariances(self, x: Array) -> Array:
        """Covariances of the function at the mean input of the next step: `row` of `next_step`."""
        return self._path.append(x[None])[:, 0]

    def next_step(
        self,
        row: Array,
        at: NDArray[np.intp],
        weights: Array,
        added: float,
        learned_from: bool = False,
    ) -> Shared:
        """Enter a step, and return what its error has in common with all before it.

        Parameters
        ----------
        row : ndarray of shape (k + 1,)
            Covariances of the function at its mean input with that at the k entered before, and
            its variance.
        at : ndarray of shape (q,)
            The levels that its own is taken from, counted from the first of all.
        weights : ndarray of shape (q,)
            Its weights on them; those of repeated ones are added up.
        added : float
            Variance of the function that its inputs do not explain linearly.
        learned_from : bool, default=False
            Whether the step is a row that the model was fitted to, so that what it has in common
            with others is in the posterior already.

        Returns
        -------
        Shared
        """
        n, p = self.step, self.depth
        self.covariance[n, [*self._entered, n]] = row
        self._entered.append(n)
        own = row[-1]
        if learned_from:
            self._damping[n] = 0.0
        elif own > 0.0:
            self._damping[n] = min(1.0, np.sqrt(added / own))
        cross = np.zeros(p + n)
        if n and self._damping[n] > 0.0:
            between = self.covariance[n, :n] * self._damping[n] * self._damping[:n]
            solved, _ = dtbtrs(self._carry[:, :n], between[:, None], uplo="L", diag="U")
            cross[p:] = solved[:, 0]
        known = np.zeros(len(self._observed))
        if len(known):
            known = solve_triangular(self._chol, cross[self._observed], lower=True)
            cross -= known @ self._loadings[:, : p + n]
        steps = at[at >= p] - p
        np.subtract.at(self._carry, (n - steps, steps), weights[at >= p])
        self._loadings[:, p + n] = self._loadings[:, at] @ weights + known
        self.step += 1
        return Shared(float(known @ self._innovations), float(known @ known), cross)

    def skip_step(self) -> None:
        """Enter a step of known input and level that was learned from: it shares no error."""
        self._damping[self.step] = 0.0
        self.step += 1

    def observe(self, cov: Array, var: float, innovation: float) -> None:
        """Condition what follows on an observation of the last level.

        Parameters
        ----------
        cov : ndarray of shape (m,)
            Its covariance with the last m levels, itself the last.
        var : float
            Variance of the observation, its own noise included.
        innovation : float
            The observation less its mean.
        """
        last, m, std = self.depth + self.step - 1, len(self._observed), np.sqrt(var)
        chol = np.zeros((m + 1, m + 1))
        chol[:m, :m] = self._chol
        chol[m, :m] = self._loadings[:, last]
        chol[m, m] = std
        row = np.zeros(self._loadings.shape[1])
        row[last + 1 - len(cov) : last + 1] = cov / std
        self._chol, self._loadings = chol, np.vstack([self._loadings, row])
        self._innovations = np.append(self._innovations, innovation / std)
        self._observed.append(last)


def _widened(values: Array, rows: int, columns: int) -> Array:
    """A copy with so many rows and columns of zeros more."""
    return np.pad(values, ((0, rows), (0, columns)))
