"""What the steps of a recursion have in common: the doubt about one and the same function."""

import copy
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from forecast_unc._typing import Array
from forecast_unc.regression.posterior import Posterior


class Shared(NamedTuple):
    """Law of the function's error at the next step, given what was observed so far."""

    mean: float
    learned: float  # how much of its variance the observations took away
    cross: Array  # (p + steps,), covariance with the levels


class FunctionError:
    """Covariances of the function's posterior error at one step with all earlier levels.

    The levels z are the p before the first step, which do not depend on the error, and that of each
    step. C[t, u] = Cov(error of f at step t, z_u) = r_u . C[t, :] + k_post(x_t, x_u) for earlier
    steps u, r_u the weights of z_u on the levels before it: a unit triangular system a step.

    The covariance J of the steps so built satisfies (I - R) J (I - R)' = k_post + noise +
    rest, with rest the diagonal that makes the steps' own variances exact, and what an
    uncertain start adds. Where a mean
    input is a local maximum of the function's variance, rest is negative and J may not be a
    covariance (11 % of 20,000 random one-dimensional GPs). So the function's std at a step
    is taken to be no more than what the step adds to the part its inputs explain: with that
    J is positive definite by construction, and not further from Monte Carlo.

    Some levels may be observed, each when it is the last: then the law of the error is given
    these. With v_o the variance of such an observation given the earlier ones, and W[o, u] its
    covariance with z_u, given them too, over sqrt(v_o),

        c = L^-1 C[t, O],  L[o, o'] = W[o', o] for o' < o,  L[o, o] = sqrt(v_o),
        Cov(error, z | O) = C[t, :] - c W,  E[error | O] = c . e,  Var(error | O) = k_post - c . c,

    e the observations' departures from what was expected, over sqrt(v_o).

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
        self.posterior, self.depth = posterior, depth
        self.step = 0
        self.path = posterior.function_path(n_steps)
        self.entered: list[int] = []  # steps on the path
        self.carry = np.eye(n_steps)  # I - R
        self.damping = np.ones(n_steps)
        self.observed: list[int] = []  # levels
        self.chol = np.zeros((0, 0))  # L
        self.loadings = np.zeros((0, depth + n_steps))  # W
        self.departures = np.zeros(0)  # e

    def with_room(self, n_steps: int) -> Self:
        """A copy with room for so many steps more."""
        longer = copy.copy(self)
        now = self.step
        longer.path, longer.entered = self.path.with_room(n_steps), list(self.entered)
        longer.carry = np.eye(now + n_steps)
        longer.carry[:now, :now] = self.carry[:now, :now]
        longer.damping = np.append(self.damping[:now], np.ones(n_steps))
        longer.observed = list(self.observed)
        longer.loadings = _extended(self.loadings[:, : self.depth + now].T, n_steps).T
        return longer

    def next_step(
        self,
        x: Array,
        at: NDArray[np.intp],
        weights: Array,
        added: float,
        learned_from: bool = False,
    ) -> Shared:
        """Enter a step, and return what its error has in common with all before it.

        Parameters
        ----------
        x : ndarray of shape (d,)
            Its mean input.
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
        between = np.zeros(n + 1)
        self.entered.append(n)
        between[self.entered] = self.path.append(x[None])[:, 0]
        own = between[n]
        if learned_from:
            self.damping[n] = 0.0
        elif own > 0.0:
            self.damping[n] = min(1.0, np.sqrt(added / own))
        cross = np.zeros(p + n)
        if n and self.damping[n] > 0.0:
            between = between[:n] * (self.damping[n] * self.damping[:n])
            cross[p:] = solve_triangular(
                self.carry[:n, :n], between, lower=True, unit_diagonal=True
            )
        known = np.zeros(len(self.observed))
        if len(known):
            known = solve_triangular(self.chol, cross[self.observed], lower=True)
            cross -= known @ self.loadings[:, : p + n]
        np.subtract.at(self.carry[n], at[at >= p] - p, weights[at >= p])
        self.loadings[:, p + n] = self.loadings[:, at] @ weights + known
        self.step += 1
        return Shared(float(known @ self.departures), float(known @ known), cross)

    def skip_step(self) -> None:
        """Enter a step whose input and level are known: it has nothing in common with others."""
        self.damping[self.step] = 0.0
        self.step += 1

    def observe(self, cov: Array, var: float, departure: float) -> None:
        """Condition what follows on an observation of the last level.

        Parameters
        ----------
        cov : ndarray of shape (m,)
            Its covariance with the last m levels, itself the last.
        var : float
            Variance of the observation, its own noise included.
        departure : float
            The observation less its mean.
        """
        last, m, std = self.depth + self.step - 1, len(self.observed), np.sqrt(var)
        chol = np.zeros((m + 1, m + 1))
        chol[:m, :m] = self.chol
        chol[m, :m] = self.loadings[:, last]
        chol[m, m] = std
        row = np.zeros(self.loadings.shape[1])
        row[last + 1 - len(cov) : last + 1] = cov / std
        self.chol, self.loadings = chol, np.vstack([self.loadings, row])
        self.departures = np.append(self.departures, departure / std)
        self.observed.append(last)


def _extended(values: Array, more: int) -> Array:
    """A copy with so many rows of zeros more."""
    return np.concatenate([values, np.zeros((more, *values.shape[1:]))])
