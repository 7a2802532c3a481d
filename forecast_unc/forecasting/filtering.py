"""The state at the origin: what is known of the last levels where some are missing or noisy.

The recursion runs through the stretch with missing values and is conditioned on every value
observed after them. Nothing is filled.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.function_error import FunctionError
from forecast_unc.forecasting.propagation import Propagation
from forecast_unc.forecasting.recursion import LevelMap, Recursion
from forecast_unc.regression.posterior import Posterior

# A complete window is looked for so many steps back; each step costs the moments of one.
_FARTHEST = 1000
# Without one: so many windows, and observed values, before the origin.
_RUN_IN_WINDOWS, _RUN_IN_VALUES = 2, 100
# A variance left with less than this of what it was is roundoff.
_ROUNDOFF = 1e-14


class State(NamedTuple):
    """Law of the last p levels; a covariance of None if all are known."""

    mean: Array  # (p,)
    cov: Array | None  # (p, p)
    function_error: FunctionError | None  # at the steps on the way, if it is shared


def state_at_origin(
    posterior: Posterior,
    lags: tuple[int, ...],
    y: Array,
    exog: Array,
    *,
    y_std: Array | None = None,
    transform: Differencing,
    propagation: Propagation = "exact",
    path_consistent: bool = True,
) -> State:
    """Gaussian law of the last p = max(lags) + sum(differences) levels, given all of y.

    The observation of time t is y_t = level_t + e_t, e_t ~ N(0, y_std_t^2). If none of the
    last p is missing or noisy, the state is these values. Otherwise the recursion starts at
    the last window of p values that are neither, where the state is known, and runs to the
    origin. At each step the next level joins the last p as in a forecast, and the joint is
    conditioned on its observation, if there is one: this sharpens what is missing before it,
    too, and with `path_consistent` what is known of the function.

    Without such a window among the last 1000 steps it starts two windows and 100 observed
    values before the origin (or where the series begins) with independent levels of the mean
    and variance of the observed series, at least that of its changes, each conditioned on its
    observation: a wide prior, which is forgotten on the way.

    Parameters
    ----------
    posterior : Posterior
        One-step model of the standardized change on [lagged changes; regressors].
    lags : tuple of int
        Lags of the inputs.
    y : ndarray of shape (n,)
        The series up to the origin, n >= p, with NaN where it was not observed.
    exog : ndarray of shape (n, k)
        Its regressors; k may be 0.
    y_std : ndarray of shape (n,), optional
        Standard deviation of each observation's error, in units of y; None for no errors.
    transform : Differencing
        Differences, shift and scale between the series and what the model sees.
    propagation : {"exact", "taylor", "monte_carlo", "naive"}
        The forecast's. Moments are exact, but for "taylor", and where there is no closed form
        in "monte_carlo" and "naive".
    path_consistent : bool, default=True
        Whether the unknown function is one and the same at all steps, on the way and after. Rows
        without a missing value count as learned from, and have no doubt in common with others.

    Returns
    -------
    State
    """
    maps, n = LevelMap(lags, transform), len(y)
    p = maps.depth
    observed = ~np.isnan(y)
    noise = np.zeros(n) if y_std is None else np.where(observed, y_std, 0.0) / transform.scale
    known = observed & (noise == 0.0)
    if known[n - p :].all():
        return State(y[n - p :].copy(), None, None)
    now = _start(known, observed, p)
    window = slice(now - p, now)
    # noise and covariances in units of scale^2
    prior = max(y[observed].var() / transform.scale**2, 1.0)
    gain = np.where(observed[window], prior / (prior + noise[window] ** 2), 0.0)
    center = y[observed].mean()
    mean = center + gain * (np.where(observed[window], y[window], center) - center)
    start_var = np.where(observed[window], gain * noise[window] ** 2, prior)
    mean[known[window]] = y[window][known[window]]

    closed_form = propagation != "taylor" and (propagation == "exact" or posterior.closed_form)
    function = None
    if path_consistent and posterior.joint:
        function = FunctionError(posterior, p, n - now)
    method: Literal["exact", "taylor"] = "exact" if closed_form else "taylor"
    recursion = Recursion(posterior, maps, method, transform.forward(y), function)
    lagged, own, levels = p - maps.lagged, p - maps.own, np.arange(p)
    back, steps_back = np.array(lags), np.append(maps.lagged, maps.own)
    cov = np.zeros((p + 1, p + 1))  # of the last p levels and the next
    cov[:p, :p] = np.diag(start_var)
    for t in range(now, n):
        x = np.append(transform.forward(mean)[max(lags) - back], exog[t])
        if known[t] and not np.any(cov[lagged, lagged]) and not np.any(cov[own, own]):
            level = y[t]  # known, and of known inputs: it tells nothing of the others
            cov[p] = cov[:, p] = 0.0
            if function is not None:
                function.skip_step()
        else:
            learned_from = bool(observed[t - np.append(0, steps_back)].all())
            where = f"on its way to the origin, {n - t} steps before the first forecast"
            change = recursion.step(cov, p, x, lagged, levels, where, learned_from)
            level = transform.scale * change + transform.shift - maps.carried @ mean[own]
        mean = np.append(mean, level)
        if observed[t] and cov[p, p] > 0.0:
            if function is not None:
                departure = (y[t] - level) / transform.scale
                function.observe(cov[p], cov[p, p] + noise[t] ** 2, departure)
            _observe(mean, cov, y[t], noise[t])
        mean = mean[1:]
        cov[:p, :p] = cov[1:, 1:].copy()
    return State(mean, transform.scale**2 * cov[:p, :p], function)


def _start(known: NDArray[np.bool_], observed: NDArray[np.bool_], p: int) -> int:
    """The time at which the recursion starts, its state the p levels before."""
    n = len(known)
    ends = np.flatnonzero(np.convolve(known, np.ones(p), "valid") > p - 0.5) + p
    if len(ends) and n - ends[-1] <= _FARTHEST:
        return int(ends[-1])
    later = np.cumsum(observed[::-1])[::-1]  # values observed from each time on
    enough = np.flatnonzero(later >= _RUN_IN_VALUES)
    last = enough[-1] if len(enough) else 0
    return int(max(p, min(last, n - _RUN_IN_WINDOWS * p)))


def _observe(mean: Array, cov: Array, value: float, noise: float) -> None:
    """Condition in place on an observation of the last coordinate: J -= g g' / v."""
    before = np.diagonal(cov).copy()
    g = cov[:, -1].copy()
    v = g[-1] + noise**2
    mean += g * ((value - mean[-1]) / v)
    cov -= np.multiply.outer(g, g / v)
    cov[:] = 0.5 * (cov + cov.T)  # symmetric but for roundoff
    known = np.diagonal(cov) <= _ROUNDOFF * before
    if noise == 0.0:
        mean[-1], known[-1] = value, True
    cov[known] = 0.0
    cov[:, known] = 0.0
