"""The recursion as a linear map of its sources: what each brings to the covariance of the steps."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dtrtri

from forecast_unc._typing import Array
from forecast_unc.forecasting.recursion import LevelMap, OneStepModel, Step


class Scales(NamedTuple):
    """Scale of the levels and variances of the noises in units of its square, of a model."""

    scale: float
    noise_var: float  # part of the series
    observation_var: float  # of the observations alone

    @classmethod
    def of(cls, model: OneStepModel) -> Self:
        """Scales of a one-step model."""
        posterior = model.posterior
        return cls(model.differencing.scale, posterior.noise_var, posterior.observation_var)


class LinearRecursion(NamedTuple):
    r"""Future levels as a linear map of the start, and of what every step adds.

    The coordinates z are b at the start, the last p levels and then the uncertain regressors, with
    covariance S, and the h future levels, each

    .. math:: y_t = a_t \cdot z_{<t} + e_t + \varepsilon_t + \text{const},

    with e the error of the function at the mean inputs and independent noise :math:`\varepsilon`.
    With :math:`y = A_0 z_0 + A_y y + e + \varepsilon`, the rows of :math:`[A_0, A_y]` being
    :math:`a_t`, and :math:`M = (I - A_y)^{-1}`, the covariance of y is

    .. math::

        M (s^2 I + K) M' + M (A_0 C_0' + C_0 A_0') M' + M A_0 S A_0' M', \quad
        K = \mathrm{Cov}(e), \; C_0 = \mathrm{Cov}(e, z_0).

    Everything is in units of scale^2, but for what the methods return.
    """

    weights: Array  # (h, b + h), a_t; zero from y_t on
    shared: Array  # (h, b + h), C_tu = Cov(e_t, z_u); zero from y_t on
    function_var: Array  # (h,), Var e_t
    scales: Scales  # s^2
    start_cov: Array  # (b, b), S: no covariance between levels and regressors
    n_levels: int  # p

    def covariance(self) -> Array:
        """Covariance of the next observations from a known start, (h, h): without the last term."""
        cov = self._covariance(self.response())
        cov.flat[:: len(cov) + 1] += self.scales.observation_var
        return self.scales.scale**2 * cov

    def parts(self) -> dict[str, Array]:
        r"""Parts of the covariance of the next observations, (h, h) each; those left out are zero.

        - `noise`: :math:`s^2 I`, of what is part of the series;
        - `noise_observation`: of the errors of the observations, which are added once;
        - `function_own`: the diagonal of :math:`\mathrm{Var}\,e_t`;
        - `function_shared`: :math:`2 a_t \cdot C_t` at a step, :math:`C_{tu}` between it and an
          earlier one;
        - `inputs_missing`, `inputs_regressors`: :math:`M A_0 S A_0' M'`, of the levels before the
          first step and of the regressors;
        - `inputs_propagated`: what is left of the covariance from a known start, at a step the
          variance of :math:`a_t \cdot z` that is due to noise and function of earlier steps.
        """
        h, b, p = len(self.weights), len(self.start_cov), self.n_levels
        scale, noise_var, observation_var = self.scales
        response, own = self.response(), np.diag(self.function_var)
        propagated = self._covariance(response)
        propagated.flat[:: h + 1] -= self.function_var + noise_var
        parts = {"noise": noise_var * np.eye(h), "function_own": own}
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
                root = response @ self.weights[:, of]
                part = root @ self.start_cov[of, of] @ root.T
                parts[name] = 0.5 * (part + part.T)
        return {name: scale**2 * part for name, part in parts.items()}

    def response(self) -> Array:
        """M, (h, h), of the levels to what the steps add."""
        h = len(self.weights)
        inverse, _ = dtrtri(np.eye(h) - self.weights[:, -h:], lower=1, unitdiag=1)
        return np.asarray(inverse)

    def _covariance(self, response: Array) -> Array:
        b, fresh = len(self.start_cov), np.diag(self.function_var + self.scales.noise_var)
        if self.shared.any():
            # Cov(e_t, e_u) = Cov(e_t, y_u) - a_u . Cov(e_t, z) for u < t
            lower = np.tril(self.shared[:, b:] - self.shared @ self.weights.T, -1)
            crossed = self.weights[:, :b] @ self.shared[:, :b].T
            fresh += lower + lower.T + crossed + crossed.T
        cov = response @ fresh @ response.T
        return np.asarray(0.5 * (cov + cov.T))  # the product is symmetric but for roundoff


def parts_of_matching(
    maps: LevelMap, scales: Scales, steps: Sequence[Step], function_var: Array, start_cov: Array
) -> dict[str, Array]:
    """Parts of the covariance that moment matching found, to first order: of its mean slopes.

    Parameters
    ----------
    maps : LevelMap
        What inputs and levels are made of.
    scales : Scales
        Of the model.
    steps : sequence of Step
        The h steps.
    function_var : ndarray of shape (h,)
        Of the function at the mean inputs, before anything was observed on the way to the origin.
    start_cov : ndarray of shape (p + h u, p + h u)
        Of the last levels and of the u uncertain regressors of each step.

    Returns
    -------
    dict of str to ndarray of shape (h, h)
        As of :meth:`LinearRecursion.parts`.
    """
    through, carried = _passed_on(maps, np.array([step.weights for step in steps]))
    shared = np.zeros_like(through)
    for row, step in zip(shared, steps, strict=True):
        if step.shared is not None:
            row[: len(step.shared)] = step.shared
    own = function_var - np.array([step.learned for step in steps])
    return LinearRecursion(through + carried, shared, own, scales, start_cov, maps.depth).parts()


def along_means(
    maps: LevelMap, scales: Scales, function_cov: Array, start_cov: Array, weights: Array
) -> LinearRecursion:
    """The recursion with given weights on the inputs.

    Parameters
    ----------
    maps : LevelMap
        What inputs and levels are made of.
    scales : Scales
        Of the model.
    function_cov : ndarray of shape (h, h)
        Of the function at the mean inputs.
    start_cov : ndarray of shape (p + h u, p + h u)
        Of the last levels and of the u uncertain regressors of each step.
    weights : ndarray of shape (h, q + u)
        Weights of each change on the levels at `maps.lagged` and on its regressors.

    Returns
    -------
    LinearRecursion
    """
    through, carried = _passed_on(maps, weights)
    return _along(through + carried, maps, scales, function_cov, start_cov)


def parts_of_paths(
    maps: LevelMap,
    scales: Scales,
    function_cov: Array,
    start_cov: Array,
    weights: Array,
    var: Array,
) -> dict[str, Array]:
    """Parts of the covariance of sample paths, of the recursion with the mean slopes along them.

    Where a function bends, a product of slopes can grow without limit: the weights of a step on its
    inputs are shortened to give no more than the variance of the paths.

    Parameters
    ----------
    maps, scales, function_cov, start_cov, weights
        As for :func:`along_means`.
    var : ndarray of shape (h,)
        Variance of the paths.

    Returns
    -------
    dict of str to ndarray of shape (h, h)
        As of :meth:`LinearRecursion.parts`.
    """
    through, carried = _passed_on(maps, weights)
    largest = var / scales.scale**2 - scales.observation_var
    h, b = len(through), len(start_cov)
    rows, joint, response = np.zeros((h, b + h)), np.zeros((b + h, b + h)), np.eye(h)
    joint[:b, :b] = start_cov
    for t in range(h):
        n, error = b + t, np.zeros(b + t)
        before, x, y = joint[:n, :n], through[t, :n], carried[t, :n]
        error[b:] = response[:t, :t] @ function_cov[:t, t]
        # Var y_t = square f^2 + 2 double f + rest, f the factor of the weights on the inputs
        square, double = x @ before @ x, x @ (before @ y + error)
        rest = y @ before @ y + 2.0 * (y @ error) + function_cov[t, t] + scales.noise_var
        factor = 1.0
        if square + 2.0 * double + rest > largest[t] and square > 0.0:
            root = max(double**2 + square * (largest[t] - rest), 0.0)
            factor = float(np.clip((np.sqrt(root) - double) / square, 0.0, 1.0))
        row = rows[t, :n] = factor * x + y
        joint[n, :n] = joint[:n, n] = row @ before + error
        joint[n, n] = factor**2 * square + 2.0 * factor * double + rest
        response[t, :t] = row[b:] @ response[:t, :t]
    return _along(rows, maps, scales, function_cov, start_cov).parts()


def _along(
    rows: Array, maps: LevelMap, scales: Scales, function_cov: Array, start_cov: Array
) -> LinearRecursion:
    """The recursion with the rows a_t, the function's errors independent of the start."""
    recursion = LinearRecursion(
        rows, np.zeros_like(rows), np.diagonal(function_cov), scales, start_cov, maps.depth
    )
    # Cov(e_t, y_u) = K_t. M_u.
    recursion.shared[:, len(start_cov) :] = np.tril(function_cov @ recursion.response().T, -1)
    return recursion


def _passed_on(maps: LevelMap, weights: Array) -> tuple[Array, Array]:
    """Rows (h, b + h) of each level's weights on z: through its inputs, and as it is carried on."""
    h, p, regressors = len(weights), maps.depth, weights.shape[1] - len(maps.lagged)
    first = p + h * regressors
    coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
    steps, uncertain = np.arange(h)[:, None], p + np.arange(h * regressors)
    at = np.hstack([coordinate[p + steps - maps.lagged], uncertain.reshape(h, regressors)])
    through, carried = np.zeros((2, h, first + h))
    np.add.at(through, (steps, at), weights)
    carried[steps, coordinate[p + steps - maps.own]] = -maps.carried
    return through, carried
