"""Sources of the steps' covariance: the error of one function that they share, and the parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtbtrs, dtrtri

from forecast_unc._typing import Array, Positions
from forecast_unc.forecasting.horizon.differencing import LevelMap
from forecast_unc.regression.posterior import Posterior


class FunctionError:
    """Covariances of the function's posterior error at one step with all earlier levels.

    C[t, u] = Cov(error of f at step t, z_u) = r_u . C[t, :] + k_post(x_t, x_u), z_u the level of
    step u < t and r_u its weights on the levels before it: a unit triangular system a step. The
    std at a step is no more than what the step adds to the part its inputs explain, else the joint
    covariance might be none (11 % of 20,000 random GPs). Levels O that were observed, each when it
    is the last, with standard innovations e (docs/theory/state.md):

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
        self._chol = np.zeros((0, 0))  # L
        self._loadings = np.zeros((0, depth + n_steps))  # W
        self._innovations = np.zeros(0)  # e

    def next_step(
        self, x: Array, back: Positions, weights: Array, added: float, learned_from: bool = False
    ) -> tuple[float, float, Array]:
        """Enter a step of mean input x, its level with weights (q,) on those `back` (q,) steps ago.

        `added` is the function's variance that its inputs do not explain linearly. Returns the mean
        of its error, how much of its variance was learned, and its covariance with the levels.
        """
        n, p = self.step, self.depth
        row = self._path.append(x[None])[:, 0]
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
        known = np.zeros(len(self._observed))
        if len(known):
            known = solve_triangular(self._chol, cross[self._observed], lower=True)
            cross -= known @ self._loadings[:, : p + n]
        steps = back <= n
        np.subtract.at(self._carry, (back[steps], n - back[steps]), weights[steps])
        self._loadings[:, p + n] = self._loadings[:, p + n - back] @ weights + known
        self.step += 1
        return float(known @ self._innovations), float(known @ known), cross

    def skip_step(self) -> None:
        """Enter a step of known input and level that was learned from: it shares no error."""
        self._damping[self.step] = 0.0
        self.step += 1

    def observe(self, cov: Array, var: float, innovation: float) -> None:
        """Condition on an observation of the last level, of covariance (m,) with the last m."""
        last, m, std = self.depth + self.step - 1, len(self._observed), np.sqrt(var)
        chol = np.pad(self._chol, (0, 1))
        chol[m] = np.append(self._loadings[:, last], std)
        row = np.zeros(self._loadings.shape[1])
        row[last + 1 - len(cov) : last + 1] = cov / std
        self._chol, self._loadings = chol, np.vstack([self._loadings, row])
        self._innovations = np.append(self._innovations, innovation / std)
        self._observed.append(last)


class Scales(NamedTuple):
    """Scale of the levels, and variances of the noises in units of its square."""

    scale: float
    noise_var: float  # part of the series
    observation_var: float  # of the observations alone


@dataclass(frozen=True, eq=False)
class LinearRecursion:
    r"""Future levels :math:`y = A_0 z_0 + A_y y + e + \varepsilon` from a start of covariance S.

    .. math::

        \mathrm{Cov}[y] = M (s^2 I + K + A_0 C_0' + C_0 A_0' + A_0 S A_0') M', \quad
        M = (I - A_y)^{-1}, \; K = \mathrm{Cov}(e), \; C_0 = \mathrm{Cov}(e, z_0),

    with e the error of the function; in units of scale^2, but for what the methods return.
    """

    weights: Array  # (h, b + h), the rows a_t of A; zero from y_t on
    shared: Array  # (h, b + h), C_tu = Cov(e_t, z_u); zero from y_t on
    function_var: Array  # (h,), Var e_t
    scales: Scales  # s^2
    start_cov: Array  # (b, b), S, of the last p levels and, independent, the uncertain regressors
    n_levels: int  # p

    @classmethod
    def along(
        cls, rows: Array, maps: LevelMap, scales: Scales, function_cov: Array, start_cov: Array
    ) -> Self:
        """Recursion of rows a_t, with errors of the function independent of the start."""
        own, shared = np.diagonal(function_cov), np.zeros_like(rows)
        recursion = cls(rows, shared, own, scales, start_cov, maps.depth)
        # Cov(e_t, y_u) = K_t. M_u.
        shared[:, len(start_cov) :] = np.tril(function_cov @ recursion.response.T, -1)
        return recursion

    def covariance(self) -> Array:
        """Covariance of the next observations from a known start, (h, h): without the last term."""
        cov = self._from_known()
        cov.flat[:: len(cov) + 1] += self.scales.observation_var
        return self.scales.scale**2 * cov

    def parts(self) -> dict[str, Array]:
        """Parts, (h, h) each, of the next observations: docs/theory/questions.md; else zero."""
        h, b, p = len(self.weights), len(self.start_cov), self.n_levels
        scale, noise_var, observation_var = self.scales
        propagated = self._from_known()
        propagated.flat[:: h + 1] -= self.function_var + noise_var
        parts = {"noise": noise_var * np.eye(h), "function_own": np.diag(self.function_var)}
        if observation_var > 0.0:
            parts["noise_observation"] = observation_var * np.eye(h)
        if self.shared.any():
            lower = np.tril(self.shared[:, b:], -1)
            shared = lower + lower.T
            shared.flat[:: h + 1] = 2.0 * np.einsum("ij,ij->i", self.weights, self.shared)
            parts["function_shared"] = shared
            propagated -= shared
        parts["inputs_propagated"] = propagated
        for name, of in (("inputs_missing", slice(p)), ("inputs_regressors", slice(p, b))):
            if self.start_cov[of, of].any():
                root = self.response @ self.weights[:, of]
                part = root @ self.start_cov[of, of] @ root.T
                parts[name] = 0.5 * (part + part.T)
        return {name: scale**2 * part for name, part in parts.items()}

    @cached_property
    def response(self) -> Array:
        """M, (h, h), of the levels to what the steps add."""
        h = len(self.weights)
        inverse, _ = dtrtri(np.eye(h) - self.weights[:, -h:], lower=1, unitdiag=1)
        return np.asarray(inverse)

    def _from_known(self) -> Array:
        """Covariance of the next levels from a known start."""
        b, added = len(self.start_cov), np.diag(self.function_var + self.scales.noise_var)
        if self.shared.any():
            # Cov(e_t, e_u) = Cov(e_t, y_u) - a_u . Cov(e_t, z) for u < t
            lower = np.tril(self.shared[:, b:] - self.shared @ self.weights.T, -1)
            crossed = self.weights[:, :b] @ self.shared[:, :b].T
            added += lower + lower.T + crossed + crossed.T
        cov = self.response @ added @ self.response.T
        return np.asarray(0.5 * (cov + cov.T))  # the product is symmetric but for roundoff


class Step(NamedTuple):
    """A step of moment matching: its standardized change, and what its variance is made of."""

    mean: float
    weights: Array  # (q,), on the coordinates of its inputs
    shared: Array | None  # (n,), covariance of the function's error with the coordinates so far
    learned: float  # of the function's variance, what observations on the way took away


def parts_of_matching(
    maps: LevelMap, scales: Scales, steps: Sequence[Step], function_var: Array, start_cov: Array
) -> dict[str, Array]:
    """Parts of the covariance that moment matching found, to first order: of its mean slopes."""
    through, carried = passed_on(maps, np.array([step.weights for step in steps]))
    shared = np.zeros_like(through)
    for row, step in zip(shared, steps, strict=True):
        if step.shared is not None:
            row[: len(step.shared)] = step.shared
    # at the mean inputs, less what observations on the way took away
    own = function_var - np.array([step.learned for step in steps])
    return LinearRecursion(through + carried, shared, own, scales, start_cov, maps.depth).parts()


def passed_on(maps: LevelMap, weights: Array) -> tuple[Array, Array]:
    """Rows (h, b + h) of each level's weights on z: through its inputs, and as it is carried on.

    Weights (h, q + u) are those of each change on lagged levels and u uncertain regressors.
    """
    h, p, regressors = len(weights), maps.depth, weights.shape[1] - len(maps.lagged)
    first = p + h * regressors
    coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
    steps, uncertain = np.arange(h)[:, None], p + np.arange(h * regressors)
    at = np.hstack([coordinate[p + steps - maps.lagged], uncertain.reshape(h, regressors)])
    through, carried = np.zeros((2, h, first + h))
    np.add.at(through, (steps, at), weights)
    carried[steps, coordinate[p + steps - maps.own]] = -maps.carried
    return through, carried
