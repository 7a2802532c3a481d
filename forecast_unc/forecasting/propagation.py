"""The recursion: one-step predictions iterated over the horizon, with their uncertainty.

The input of each step is made of lagged values, observed or forecast, and of regressors.
What is uncertain of them is a coordinate of one joint Gaussian: noisy or missing history,
future regressors, earlier forecasts. The methods differ in what they remember of that
doubt; all return the joint mean and covariance of the next h observations.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.function_error import FunctionError
from forecast_unc.forecasting.recursion import LevelMap, Recursion
from forecast_unc.regression.moments import covariance_root
from forecast_unc.regression.posterior import Posterior, check_positive_variance

Propagation = Literal["exact", "taylor", "monte_carlo", "naive"]
PROPAGATIONS: tuple[str, ...] = get_args(Propagation)

# Bytes of whitened features kept per block of sample paths.
_PATH_MEMORY = 1 << 28

IDENTITY = Differencing((), 0.0, 1.0)


class Joint(NamedTuple):
    """Mean and covariance of the next h observations, noise included."""

    mean: Array  # (h,)
    cov: Array  # (h, h)


def propagate(
    posterior: Posterior,
    lags: tuple[int, ...],
    history: Array,
    exog: Array,
    *,
    transform: Differencing = IDENTITY,
    history_cov: Array | None = None,
    function_error: FunctionError | None = None,
    exog_cov: Array | None = None,
    propagation: Propagation = "exact",
    path_consistent: bool = True,
    n_samples: int = 1000,
    random_state: RandomState = None,
) -> Joint:
    """Joint mean and covariance of the next values of a series.

    Parameters
    ----------
    posterior : Posterior
        One-step model of the standardized change on [lagged changes; regressors].
    lags : tuple of int
        Lags of the inputs, in the order of the model's columns.
    history : ndarray of shape (n,)
        Values up to the origin, n >= p = max(lags) + sum(differences); where they are
        uncertain, their means. Only the last p enter.
    exog : ndarray of shape (h, k)
        Regressors of the h future steps, where they are uncertain their means; k may be 0.
    transform : Differencing
        Differences, shift and scale between the series and what the model sees.
    history_cov : ndarray of shape (p, p), optional
        Covariance of the last p values; None if they are known.
    function_error : FunctionError, optional
        What is known of the function's error at steps before the origin, where the uncertain
        history comes from them; for the paths of "monte_carlo" it is drawn afresh.
    exog_cov : ndarray of shape (h * u, h * u), optional
        Covariance of the first u <= k regressors, all u of step 1, then of step 2, and so on;
        the others are known. None if all are.
    propagation : {"exact", "taylor", "monte_carlo", "naive"}
        How the uncertainty is carried on. "naive" knows no uncertain inputs.
    path_consistent : bool
        Whether the unknown function is one and the same at all steps (True), or its error
        is drawn afresh at each, as in the recursion of Girard et al. 2003 (False).
    n_samples : int
        Sample paths of "monte_carlo".
    random_state : int, Generator or None
        Seed of "monte_carlo".

    Returns
    -------
    Joint
    """
    path_consistent = path_consistent and posterior.joint
    if propagation == "naive":
        return _naive(posterior, lags, history, exog, transform, path_consistent)
    if propagation == "monte_carlo":
        paths = sample_paths(
            posterior,
            lags,
            history,
            exog,
            n_samples,
            path_consistent,
            random_state,
            transform=transform,
            history_cov=history_cov,
            exog_cov=exog_cov,
        )
        return Joint(paths.mean(axis=0), np.atleast_2d(np.cov(paths, rowvar=False)))
    return _gaussian(
        posterior,
        lags,
        history,
        exog,
        transform,
        history_cov,
        function_error,
        exog_cov,
        path_consistent,
        propagation,
    )


def step_inputs(
    lags: tuple[int, ...],
    history: Array,
    mean: Array,
    exog: Array,
    transform: Differencing = IDENTITY,
) -> Array:
    """Inputs of the h steps, with every uncertain value at its mean, of shape (h, d).

    Parameters
    ----------
    lags : tuple of int
        Lags of the inputs.
    history : ndarray of shape (n,)
        Values up to the origin.
    mean : ndarray of shape (h,)
        Means of the steps.
    exog : ndarray of shape (h, k)
        Regressors.
    transform : Differencing
        Differences, shift and scale.

    Returns
    -------
    ndarray of shape (h, len(lags) + k)
    """
    changes = transform.forward(np.concatenate([history, mean]))
    times = len(changes) - len(mean) + np.arange(len(mean))
    return np.column_stack([changes[times[:, None] - np.array(lags)], exog])


def _gaussian(
    posterior: Posterior,
    lags: tuple[int, ...],
    history: Array,
    exog: Array,
    transform: Differencing,
    history_cov: Array | None,
    function_error: FunctionError | None,
    exog_cov: Array | None,
    path_consistent: bool,
    method: Literal["exact", "taylor"],
) -> Joint:
    """Moment matching: z = (last levels, regressors, y_1, y_2, ...) is kept jointly Gaussian.

    Regressors that are known are no coordinates.
    """
    maps, back, h = LevelMap(lags, transform), np.array(lags), len(exog)
    p, uncertain = maps.depth, 0 if exog_cov is None else len(exog_cov) // h
    regressors = p + np.arange(h * uncertain).reshape(h, uncertain)  # their coordinates
    first = p + regressors.size  # coordinate of y_1
    coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
    cov = np.zeros((first + h, first + h))
    if history_cov is not None:
        cov[:p, :p] = history_cov / transform.scale**2
    if exog_cov is not None:
        cov[p:first, p:first] = exog_cov
    past = transform.forward(history)
    changes = np.concatenate([past[-max(lags) :], np.zeros(h)])
    levels = np.concatenate([history[-p:], np.zeros(h)])
    function = None
    if path_consistent:
        function = function_error.with_room(h) if function_error else FunctionError(posterior, p, h)
    recursion = Recursion(posterior, maps, method, past, function, uncertain)
    for step in range(h):
        t, now = p + step, max(lags) + step
        at = np.concatenate([coordinate[t - maps.lagged], regressors[step]])
        x = np.append(changes[now - back], exog[step])
        where = f"at step {step + 1}"
        changes[now] = recursion.step(cov, first + step, x, at, coordinate[:t], where)
        levels[t] = transform.scale * changes[now] + transform.shift
        levels[t] -= maps.carried @ levels[t - maps.own]
    return Joint(levels[p:], transform.scale**2 * cov[first:, first:])


def _naive(
    posterior: Posterior,
    lags: tuple[int, ...],
    history: Array,
    exog: Array,
    transform: Differencing,
    path_consistent: bool,
) -> Joint:
    """Plug each mean in as if it had been observed."""
    maps, h = LevelMap(lags, transform), len(exog)
    p, now = maps.depth, max(lags)
    levels = np.concatenate([history[-p:], np.zeros(h)])
    changes = np.concatenate([transform.forward(levels[:p]), np.zeros(h)])
    inputs = np.empty((h, len(lags) + exog.shape[1]))
    for step in range(h):
        t = p + step
        inputs[step] = np.append(changes[now + step - np.array(lags)], exog[step])
        changes[now + step] = change = posterior.mean(inputs[step][None])[0]
        levels[t] = transform.scale * change + transform.shift
        levels[t] -= maps.carried @ levels[t - maps.own]
    if path_consistent:
        cov = posterior.covariance(inputs) + posterior.noise_var * np.eye(h)
    else:
        cov = np.diag(posterior.predict(inputs)[1])
    check_positive_variance(np.diagonal(cov), posterior)
    # T y = changes + constants, T the Toeplitz matrix of the difference polynomial
    column = np.zeros(h + p)
    column[0] = 1.0
    column[maps.own] = maps.carried
    root = solve_triangular(
        toeplitz(column[:h], np.zeros(h)), np.eye(h), lower=True, unit_diagonal=True
    )
    return Joint(levels[p:], transform.scale**2 * (root @ cov @ root.T))


def sample_paths(
    posterior: Posterior,
    lags: tuple[int, ...],
    history: Array,
    exog: Array,
    n_samples: int,
    path_consistent: bool,
    random_state: RandomState,
    *,
    transform: Differencing = IDENTITY,
    history_cov: Array | None = None,
    exog_cov: Array | None = None,
) -> Array:
    """Sample paths of the next h observations, of shape (n_samples, h).

    With `path_consistent` each path draws one function: at every step the posterior is
    conditioned on the path's own earlier observations. This is the law that the other
    propagations approximate. Without, function values are drawn afresh at every step.
    An uncertain history and uncertain regressors are drawn once a path.

    Parameters
    ----------
    posterior : Posterior
        One-step model.
    lags : tuple of int
        Lags of the inputs.
    history : ndarray of shape (n,)
        Values up to the origin, or their means.
    exog : ndarray of shape (h, k)
        Regressors, or their means.
    n_samples : int
        Number of paths.
    path_consistent : bool
        Whether a path keeps its function.
    random_state : int, Generator or None
        Seed.
    transform, history_cov, exog_cov
        As for `propagate`.

    Returns
    -------
    ndarray of shape (n_samples, h)
    """
    rng = generator(random_state)
    block = max(
        1, _PATH_MEMORY // (8 * max(1, posterior.path_size) * (len(exog) if path_consistent else 1))
    )
    sizes = [min(block, n_samples - start) for start in range(0, n_samples, block)]
    start = history[-LevelMap(lags, transform).depth :]
    return np.vstack(
        [
            _block_of_paths(
                posterior,
                lags,
                _draws(start, history_cov, n, rng),
                _drawn_regressors(exog, exog_cov, n, rng),
                transform,
                path_consistent,
                rng,
            )
            for n in sizes
        ]
    )


def _draws(mean: Array, cov: Array | None, n: int, rng: np.random.Generator) -> Array:
    """n draws of a Gaussian, of shape (n, *mean.shape); of a known one n times the mean."""
    draws = np.tile(mean, (n,) + (1,) * mean.ndim)
    if cov is not None:
        root = covariance_root(cov)
        draws += (rng.standard_normal((n, root.shape[1])) @ root.T).reshape(draws.shape)
    return draws


def _drawn_regressors(exog: Array, cov: Array | None, n: int, rng: np.random.Generator) -> Array:
    """n draws of the regressors, (n, h, k), of which the first len(cov) / h columns vary."""
    uncertain = 0 if cov is None else len(cov) // len(exog)
    drawn = _draws(exog[:, :uncertain], cov, n, rng)
    return np.concatenate([drawn, np.tile(exog[:, uncertain:], (n, 1, 1))], axis=2)


def _block_of_paths(
    posterior: Posterior,
    lags: tuple[int, ...],
    start: Array,
    exog: Array,
    transform: Differencing,
    path_consistent: bool,
    rng: np.random.Generator,
) -> Array:
    """Paths (n, h) from the levels start (n, p), with regressors (n, h, k)."""
    maps, n, h = LevelMap(lags, transform), len(start), exog.shape[1]
    p = maps.depth
    levels = np.concatenate([start, np.zeros((n, h))], axis=1)
    changes = np.concatenate([transform.forward(start), np.zeros((n, h))], axis=1)
    function = _PathFunction(posterior, n, h) if path_consistent else None
    for step in range(h):
        t, now = p + step, max(lags) + step
        X = np.column_stack([changes[:, now - np.array(lags)], exog[:, step]])
        standard = rng.standard_normal(n)
        if function is not None:
            changes[:, now] = function.observe(X, standard)
        else:
            mean, var = posterior.predict(X)
            check_positive_variance(var, posterior, where=f" at step {step + 1}")
            changes[:, now] = mean + np.sqrt(var) * standard
        levels[:, t] = transform.scale * changes[:, now] + transform.shift
        levels[:, t] -= levels[:, t - maps.own] @ maps.carried
    return levels[:, p:]


class _PathFunction:
    """One function draw a path, observed with noise at one input a step.

    Row t of each path's Cholesky factor of the covariance of its own observations is
    appended by forward substitution, all paths abreast. The observations and not the
    function values are drawn: the law is the same, and the noise keeps the factor
    well conditioned where a path's past leaves no doubt about the function.
    """

    def __init__(self, posterior: Posterior, n: int, h: int) -> None:
        self.posterior = posterior
        self.step = 0
        self.chol = np.zeros((h, h, n))
        self.draws = np.zeros((h, n))
        self.path = posterior.function_path(h, n)

    def observe(self, X: Array, standard: Array) -> Array:
        """Observations (n,) at the inputs X (n, d), one a path, given its earlier ones."""
        posterior, t = self.posterior, self.step
        row = self.path.append(X)
        row[t] += posterior.noise_var
        for u in range(t):
            row[u] -= np.einsum("vn,vn->n", self.chol[u, :u], row[:u])
            row[u] /= self.chol[u, u]
        row[t] -= np.einsum("un,un->n", row[:t], row[:t])
        check_positive_variance(row[t], posterior, where=f" at step {t + 1}")
        row[t] = np.sqrt(row[t])
        self.chol[t, : t + 1] = row
        self.draws[t] = standard
        self.step += 1
        return np.asarray(posterior.mean(X) + np.einsum("un,un->n", row, self.draws[: t + 1]))
