"""Parts of the covariance of a horizon: the linear recursion that its steps amount to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import block_diag
from scipy.linalg.lapack import dtrtri

from forecast_unc._typing import Array
from forecast_unc.forecasting.horizon.differencing import LevelMap
from forecast_unc.forecasting.horizon.origin import State, state_at_origin
from forecast_unc.forecasting.horizon.step import Trajectory
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel, Past, Scales, Step
from forecast_unc.regression.kernels import symmetric


@dataclass(frozen=True, eq=False)
class LinearRecursion:
    r"""Future levels :math:`y = A_0 z_0 + A_y y + e + \varepsilon` from a start of covariance S.

    .. math::

        \mathrm{Cov}[y] = M (s^2 I + K + A_0 C_0' + C_0 A_0' + A_0 S A_0') M', \quad
        M = (I - A_y)^{-1}, \; K = \mathrm{Cov}(e), \; C_0 = \mathrm{Cov}(e, z_0),

    with e the error of the function; in units of scale^2, and in those of the levels what the
    methods return.
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
        h = len(self.weights)
        b = len(self.start_cov)
        p = self.n_levels
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
                parts[name] = symmetric(root @ self.start_cov[of, of] @ root.T)
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
        return symmetric(self.response @ added @ self.response.T)


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
    h = len(weights)
    p = maps.depth
    regressors = weights.shape[1] - len(maps.lagged)
    first = p + h * regressors
    coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
    steps, uncertain = np.arange(h)[:, None], p + np.arange(h * regressors)
    at = np.hstack([coordinate[p + steps - maps.lagged], uncertain.reshape(h, regressors)])
    through, carried = np.zeros((2, h, first + h))
    np.add.at(through, (steps, at), weights)
    carried[steps, coordinate[p + steps - maps.own]] = -maps.carried
    return through, carried


def parts_of_paths(
    model: OneStepModel, past: Past, future: Future, method: Method, paths: Array
) -> dict[str, Array]:
    """Parts of the covariance of sample paths: of the recursion with the mean slopes along them.

    Their products can grow: weights are shortened to give no more than the variance of the paths.
    """
    state = state_at_origin(model, past, method._replace(path_consistent=False))
    maps = model.maps
    scales = model.scales(future)
    h = len(future.exog)
    some = np.vstack([paths.mean(axis=0), paths[:64]])  # so few cost little
    trajectory, inputs = Trajectory(model, np.tile(state.mean, (len(some), 1)), h), []
    for t in range(h):
        inputs.append(trajectory.inputs(np.tile(future.exog[t], (len(some), 1))))
        trajectory.append(0.0)
        trajectory.revise(some[:, t : t + 1])
    slopes = np.array([model.posterior.gradient(X[1:]).mean(axis=0) for X in inputs])
    mean_inputs = np.array([X[0] for X in inputs])
    combine = block_diag(maps.combine, np.eye(future.uncertain))
    function_cov = function_covariance(model, method, mean_inputs)
    start_cov = start_covariance(state, future)
    through, carried = passed_on(maps, slopes[:, : len(combine)] @ combine)
    largest = paths.var(axis=0, ddof=1) / scales.scale**2 - scales.observation_var
    b = len(start_cov)
    rows = np.zeros((h, b + h))
    joint = np.zeros((b + h, b + h))
    response = np.eye(h)
    joint[:b, :b] = start_cov
    for t in range(h):
        n, error = b + t, np.zeros(b + t)
        before = joint[:n, :n]
        x = through[t, :n]
        y = carried[t, :n]
        error[b:] = response[:t, :t] @ function_cov[:t, t]
        # Var y_t = square f^2 + 2 double f + rest, f the factor of the weights on the inputs
        square, double = x @ before @ x, x @ (before @ y + error)
        rest = y @ before @ y + 2.0 * (y @ error) + function_cov[t, t] + scales.noise_var[t]
        factor = 1.0
        if square + 2.0 * double + rest > largest[t] and square > 0.0:
            root = max(double**2 + square * (largest[t] - rest), 0.0)
            factor = float(np.clip((np.sqrt(root) - double) / square, 0.0, 1.0))
        row = rows[t, :n] = factor * x + y
        joint[n, :n] = joint[:n, n] = row @ before + error
        joint[n, n] = factor**2 * square + 2.0 * factor * double + rest
        response[t, :t] = row[b:] @ response[:t, :t]
    return LinearRecursion.along(rows, maps, scales, function_cov, start_cov).parts()


def start_covariance(state: State, future: Future) -> Array:
    """Covariance of the last levels, over scale^2, and of the regressors, (p + h u, p + h u)."""
    return state.cov if future.exog_cov is None else block_diag(state.cov, future.exog_cov)


def function_covariance(model: OneStepModel, method: Method, inputs: Array) -> Array:
    """Covariance of the function at the mean inputs, (h, h); diagonal if errors are independent."""
    function_cov = model.posterior.covariance(inputs)
    return function_cov if method.path_consistent else np.diag(np.diagonal(function_cov))
