"""What the steps of different futures of the regressors have in common."""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from forecast_unc._typing import Array
from forecast_unc.forecasting.horizon.decomposition import passed_on
from forecast_unc.forecasting.horizon.gaussian import matched_from
from forecast_unc.forecasting.horizon.origin import state_at_origin
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel, Past

# Shared by all futures beside their noise, of the variance of a step: keeps a root of correlations
# of any rank, as of what is all but deterministic.
_JITTER = 1e-12


def shared_innovations(
    model: OneStepModel,
    past: Past,
    futures: Sequence[Future],
    method: Method,
    errors: Array | None = None,
) -> Array:
    r"""Correlations (s h, s h) of the innovations :math:`L^{-1} (y - E y)` of s futures' steps.

    L is the lower root of a future's own covariance. By the linear recursions that the steps of
    the futures a and b amount to, with the same noise, start z_0 and function,

    .. math::

        \mathrm{Cov}[y^a, y^b] = M_a (s^2 I + K_{ab} + A_{0a} S A_{0b}') M_b' + s_o^2 I, \quad
        K_{ab} = \mathrm{Cov}[f(x^a), f(x^b)],

    in the letters of `LinearRecursion`, s_o the std of the error of an observation. `errors` are
    the covariance of the uncertain regressors of all futures that have some, which are in z_0.
    """
    state = state_at_origin(model, past, method._replace(path_consistent=False))
    matched = [matched_from(model, state, future, method) for future in futures]
    p, h = model.maps.depth, len(futures[0].exog)
    responses, from_start, from_regressors = list[Array](), list[Array](), list[Array]()
    for one in matched:
        through, carried = passed_on(model.maps, np.array([step.weights for step in one.steps]))
        rows, unit = through + carried, np.eye(h)
        own = unit - rows[:, -h:]
        responses.append(solve_triangular(own, unit, lower=True, unit_diagonal=True))
        from_start.append(rows[:, :p])
        from_regressors.append(rows[:, p:-h])
    scales, every = model.scales(futures[0]), np.ones((len(futures), len(futures)))
    added = model.posterior.covariance(np.vstack([one.inputs for one in matched]))
    added = added + np.kron(every, np.diag(scales.noise_var))
    start = np.vstack(from_start)
    response = block_diag(*responses)
    added = added + start @ state.cov @ start.T
    if errors is not None:
        regressors = block_diag(*from_regressors)
        added = added + regressors @ errors @ regressors.T
    cov = response @ added @ response.T
    cov += scales.observation_var * np.kron(every, np.eye(h))
    return innovations(cov, len(futures))


def of_full_rank(cor: Array, n_futures: int) -> Array:
    """Correlations (s h, s h) of s futures with a little more noise, which all share."""
    h = len(cor) // n_futures
    return np.asarray(cor + _JITTER * np.kron(np.ones((n_futures, n_futures)), np.eye(h)))


def innovations(cov: Array, n_futures: int) -> Array:
    """Correlations of the innovations of s futures with a joint covariance (s h, s h)."""
    h = len(cov) // n_futures
    std = np.sqrt(cov.diagonal())
    cor = cov / np.outer(std, std)
    cor = of_full_rank(cor, n_futures)
    blocks = [slice(i * h, (i + 1) * h) for i in range(n_futures)]
    inverse = [
        solve_triangular(np.linalg.cholesky(cor[at, at]), np.eye(h), lower=True) for at in blocks
    ]
    whitening = block_diag(*inverse)
    return np.asarray(whitening @ cor @ whitening.T)
