"""The recursion called with arrays: a posterior, its lags, a history and future regressors."""

from dataclasses import fields
from typing import NamedTuple

import numpy as np

from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.function_error import FunctionError
from forecast_unc.forecasting.horizon.gaussian import propagate as _propagate
from forecast_unc.forecasting.horizon.gaussian import propagate_from
from forecast_unc.forecasting.horizon.origin import RunIn, State
from forecast_unc.forecasting.horizon.origin import state_at_origin as _state_at_origin
from forecast_unc.forecasting.horizon.paths import sample_paths_from
from forecast_unc.forecasting.horizon.types import PROPAGATIONS, Future, Method, OneStepModel, Past
from forecast_unc.regression.kernel_posterior import KernelPosterior

# "auto" is one of the others, by the steps asked for.
NAMED = [name for name in PROPAGATIONS if name != "auto"]
IDENTITY = Differencing((), 0.0, 1.0)


class Conditioned(KernelPosterior):
    """A posterior whose paths condition the function on their own past; exact, and slow."""

    def function_sample(self, n_paths, rng):
        return None


def conditioned(posterior):
    return Conditioned(**{one.name: getattr(posterior, one.name) for one in fields(posterior)})


class MeanAndCov(NamedTuple):
    mean: np.ndarray
    cov: np.ndarray


def past_of(levels, stds=None, exog=None):
    n = len(levels)
    return Past(
        np.asarray(levels, dtype=float),
        np.zeros(n) if stds is None else stds,
        np.empty((n, 0)) if exog is None else exog,
        np.ones(n, dtype=bool),
    )


def state_at_origin(posterior, lags, y, exog, *, y_std=None, transform=IDENTITY, **method):
    model = OneStepModel(posterior, lags, transform)
    return _state_at_origin(model, past_of(y, y_std, exog), Method(**method), steps=50)


def propagate(
    posterior,
    lags,
    history,
    exog,
    *,
    transform=IDENTITY,
    history_cov=None,
    state=None,
    exog_cov=None,
    **method,
):
    """The joint from a known history, from one with a covariance, or from a state."""
    model, method = OneStepModel(posterior, lags, transform), Method(**method)
    past, future = past_of(history), Future(exog, exog_cov)
    if state is None and history_cov is None:
        return MeanAndCov(*_propagate(model, past, future, method)[:2])
    if state is None:
        function = None
        if method.path_consistent and posterior.joint:
            function = FunctionError(posterior, model.maps.depth, len(exog))
        mean = past.levels[-model.maps.depth :]
        cov = history_cov / transform.scale**2
        state = State(mean, cov, function, model.limit(past.levels))
    return MeanAndCov(*propagate_from(model, state, future, method)[:2])


def paths_of(model, past, future, method):
    """Sample paths (n, h) of a model."""
    return _propagate(model, past, future, method).paths.T


def sample_paths(
    posterior,
    lags,
    history,
    exog,
    n_samples,
    path_consistent,
    random_state,
    *,
    transform=IDENTITY,
    history_cov=None,
    exog_cov=None,
):
    model = OneStepModel(posterior, lags, transform)
    method = Method("monte_carlo", path_consistent, n_samples, random_state)
    past, future = past_of(history), Future(exog, exog_cov)
    if history_cov is None:
        return paths_of(model, past, future, method)
    p, n = model.maps.depth, len(history)
    everything, nothing = np.ones(n, dtype=bool), np.zeros(n)
    cov = history_cov / transform.scale**2
    mean = past.levels[-p:]
    start = RunIn(past, n, mean, cov, everything, nothing, everything, everything)
    return sample_paths_from(model, start, future, method)


def step_inputs(lags, history, mean, exog, transform=IDENTITY):
    """Inputs of the steps, with every uncertain value at its mean."""
    changes = transform.forward(np.concatenate([history, mean]))
    times = len(changes) - len(mean) + np.arange(len(mean))
    return np.column_stack([changes[times[:, None] - np.array(lags)], exog])
