r"""Scores of a forecast against what happened: pure functions of arrays, one value an entry.

Those of steps that are not normal are methods of `distributions.maps.Map`.

Nothing is averaged here, and the arguments broadcast like numpy arrays. All but :func:`pit` and
:func:`coverage` are lower-is-better. An ``actual`` that is NaN was not observed, so its score is
NaN; a NaN in the *forecast* is a failure of the model and raises. CRPS, negative log density,
interval and energy scores are proper: on average, no forecast scores better than the distribution
that the values come from.

References
----------
T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA
102 (2007) 359-378, https://doi.org/10.1198/016214506000001437
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from forecast_unc._checks import check_coverage, numbers, refusal
from forecast_unc._typing import Array

__all__ = [
    "coverage",
    "crps",
    "energy_score",
    "interval_score",
    "mase",
    "naive_scale",
    "nlpd",
    "pit",
    "smape",
]

# Paths whose distances to all later ones are kept at once.
_BLOCK = 500


def __dir__() -> list[str]:
    return __all__


def crps(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""Continuous ranked probability score of N(mean, std^2), in units of y.

    .. math::

        \int \bigl(F(t) - 1\{t \ge y\}\bigr)^2 dt
        = \sigma\bigl[z(2\Phi(z) - 1) + 2\varphi(z) - \pi^{-1/2}\bigr], \quad z = (y - \mu)/\sigma

    It is the absolute error of a forecast that has no spread, so it compares with MAE.

    Parameters
    ----------
    actual, mean, std : array_like
        What happened, and the forecast's mean and standard deviation, in units of y.

    Returns
    -------
    ndarray
        The score of each entry; NaN where ``actual`` is NaN.

    Raises
    ------
    ValueError
        If a ``std`` is not positive, or the forecast is NaN.

    References
    ----------
    T. Gneiting et al., "Calibrated probabilistic forecasting using ensemble model output
    statistics", Monthly Weather Review 133 (2005) 1098-1118, eq. 5,
    https://doi.org/10.1175/MWR2904.1

    Examples
    --------
    >>> crps([0.0, 2.0], mean=0.0, std=1.0).round(4)
    array([0.2337, 1.4528])
    """
    y, mu, sigma = _gaussian(actual, mean, std)
    z = (y - mu) / sigma
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(sigma * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)))


def nlpd(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""Negative log predictive density of N(mean, std^2), in nats.

    .. math:: \tfrac12 \log 2\pi + \log\sigma + \tfrac12 z^2, \quad z = (y - \mu)/\sigma

    It punishes overconfidence far harder than :func:`crps` does, and it depends on the unit of y:
    y in a unit k times smaller adds log k.

    Parameters
    ----------
    actual, mean, std : array_like
        As of :func:`crps`, with the same errors and NaN.

    References
    ----------
    Gneiting and Raftery (2007), section 4.1, https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> nlpd([0.0, 2.0], mean=0.0, std=1.0).round(4)
    array([0.9189, 2.9189])
    """
    y, mu, sigma = _gaussian(actual, mean, std)
    return np.asarray(0.5 * np.log(2 * np.pi) + np.log(sigma) + 0.5 * ((y - mu) / sigma) ** 2)


def pit(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""Probability integral transform: the forecast's probability of a value up to ``actual``.

    .. math:: \Phi\bigl((y - \mu)/\sigma\bigr)

    Uniform on (0, 1) if the forecast is calibrated; heaped at both ends if its bands are too
    narrow. Not a score: neither low nor high is better.

    Parameters
    ----------
    actual, mean, std : array_like
        As of :func:`crps`, with the same errors and NaN.

    References
    ----------
    T. Gneiting, F. Balabdaoui and A. E. Raftery, "Probabilistic forecasts, calibration and
    sharpness", JRSS B 69 (2007) 243-268, https://doi.org/10.1111/j.1467-9868.2007.00587.x

    Examples
    --------
    >>> pit([0.0, 1.96], mean=0.0, std=1.0).round(3)
    array([0.5  , 0.975])
    """
    y, mu, sigma = _gaussian(actual, mean, std)
    return np.asarray(ndtr((y - mu) / sigma))


def interval_score(actual: ArrayLike, lower: ArrayLike, upper: ArrayLike, coverage: float) -> Array:
    r"""Width of a central interval plus a penalty for each miss, in units of y.

    .. math::

        (u - l) + \frac{2}{\alpha}(l - y)_+ + \frac{2}{\alpha}(y - u)_+,
        \quad \alpha = 1 - \text{coverage}

    Divided by :func:`naive_scale` and averaged it is the MSIS of the M4 competition.

    Parameters
    ----------
    actual, lower, upper : array_like
        What happened, and the ends of the interval, in units of y.
    coverage : float
        Probability the interval claims, in (0, 1); the nearer to 1, the dearer a miss.

    Returns
    -------
    ndarray
        The score of each entry; NaN where ``actual`` is NaN.

    Raises
    ------
    ValueError
        If ``coverage`` is outside (0, 1), or an interval is NaN or upside down.

    References
    ----------
    Gneiting and Raftery (2007), eq. 43, https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> interval_score([0.0, 3.0], lower=-2.0, upper=2.0, coverage=0.95).round(6)
    array([ 4., 44.])
    """
    check_coverage(coverage)
    y, low, high = _interval(actual, lower, upper)
    miss = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return np.asarray(high - low + 2 / (1 - coverage) * miss)


def coverage(actual: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    """Tell whether each value fell into its interval, 1.0 or 0.0; the ends belong to it.

    Averaged, it is the empirical coverage. Not a score: it is right when near the claimed coverage.

    Parameters
    ----------
    actual, lower, upper : array_like
        As of :func:`interval_score`, with the same errors; an ``actual`` of NaN is not a miss.

    References
    ----------
    P. F. Christoffersen, "Evaluating interval forecasts", International Economic Review 39 (1998)
    841-862, https://doi.org/10.2307/2527341

    Examples
    --------
    >>> coverage([0.0, 3.0, float("nan")], lower=-2.0, upper=2.0)
    array([ 1.,  0., nan])
    """
    y, low, high = _interval(actual, lower, upper)
    inside = ((low <= y) & (y <= high)).astype(np.float64)
    return np.asarray(np.where(np.isnan(y), np.nan, inside))


def energy_score(actual: ArrayLike, samples: ArrayLike) -> float:
    r"""Energy score of sample paths: the CRPS of a whole path, in units of y.

    .. math::

        \frac1n \sum_i \lVert x_i - y\rVert - \frac1{2n^2}\sum_i\sum_j \lVert x_i - x_j\rVert

    It sees the correlation between the steps, which scores of single steps cannot.

    Parameters
    ----------
    actual : array_like of shape (h,)
        What happened, in units of y.
    samples : array_like of shape (n, h)
        Sample paths, one a row: ``forecast.sample(n).T``.

    Returns
    -------
    float
        One score for the path; NaN if any entry of ``actual`` is NaN.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a sample is NaN.

    Notes
    -----
    This is the score of the empirical distribution of the samples. As an estimate of the score of
    the distribution they came from, it is too high by E||x - x'|| / (2 n); n (n - 1) in place of
    n^2 would take the bias away, but can give a negative score. Time O(n^2 h), memory O(n h), and
    500 n distances.

    References
    ----------
    Gneiting and Raftery (2007), eq. 22, https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> energy_score([0.0, 0.0], [[3.0, 4.0], [0.0, 0.0]])
    1.25
    """
    y = numbers("actual", actual)
    paths = _known("samples", samples)
    if y.ndim != 1 or paths.ndim != 2 or paths.shape[0] == 0 or paths.shape[1] != y.size:
        raise ValueError(
            "samples must be of shape (n, h) for actual of shape (h,); "
            f"got {paths.shape} for {y.shape}. Sample paths are rows: pass forecast.sample(n).T."
        )
    from scipy.spatial.distance import cdist, pdist  # kept out of the import

    n, between = len(paths), 0.0
    to_actual = np.linalg.norm(paths - y, axis=1).mean()
    for start in range(0, n, _BLOCK):  # not all n^2 / 2 distances at once
        block, later = np.split(paths[start:], [_BLOCK])
        between += pdist(block).sum() + cdist(block, later).sum()
    return float(to_actual - between / n**2)


def naive_scale(history: ArrayLike, seasonal_period: int = 1) -> float:
    r"""Mean absolute error of the seasonal naive forecast within the history, in units of y.

    .. math:: \operatorname{mean}_t \lvert y_t - y_{t-m}\rvert

    The common yardstick of :func:`mase` and of the MSIS (mean interval score over this scale).

    Parameters
    ----------
    history : array_like of shape (n,)
        The values the forecaster was trained on; pairs with a NaN are left out.
    seasonal_period : int, default=1
        Steps in a season, m; 1 measures against "the same as last time".

    Returns
    -------
    float
        The scale, positive.

    Raises
    ------
    ValueError
        If the history is shorter than a season and one step, or never changes over a season.

    References
    ----------
    R. J. Hyndman and A. B. Koehler, "Another look at measures of forecast accuracy", International
    Journal of Forecasting 22 (2006) 679-688, https://doi.org/10.1016/j.ijforecast.2006.03.001

    Examples
    --------
    >>> naive_scale([1.0, 2.0, 4.0])
    1.5
    """
    past = numbers("history", history)
    if seasonal_period < 1 or seasonal_period != int(seasonal_period):
        remedy = "Pass 12 for monthly data with a yearly season, 1 for none."
        must = "be a positive whole number"
        raise refusal("seasonal_period", must, f"{seasonal_period}", remedy)
    m = int(seasonal_period)
    if past.ndim != 1:
        got = f"shape {past.shape}"
        remedy = "Pass the values of one series."
        raise refusal("history", "be one series, of shape (n,)", got, remedy)
    change = np.abs(past[m:] - past[:-m])
    change = change[~np.isnan(change)]
    if change.size == 0:
        got = f"{np.isfinite(past).sum()} values"
        remedy = "Pass a longer history, or a smaller seasonal_period."
        raise refusal("history", f"hold two values {m} steps apart", got, remedy)
    scale = float(change.mean())
    if scale == 0:
        got = f"{change.size} differences of 0"
        remedy = "No error can be scaled by it: use crps or the absolute error."
        raise refusal("history", f"change over {m} steps", got, remedy)
    return scale


def mase(actual: ArrayLike, mean: ArrayLike, history: ArrayLike, seasonal_period: int = 1) -> Array:
    r"""Absolute scaled error: ``|y - mean|`` over the naive error within the history; no unit.

    .. math:: \lvert y - \mu\rvert \,/\, \operatorname{mean}_t \lvert y_t - y_{t-m}\rvert

    Below 1, the forecast beats what the seasonal naive forecast did, on average, in the history.
    Averaged, it is the MASE.

    Parameters
    ----------
    actual, mean : array_like
        As of :func:`crps`, with the same NaN.
    history, seasonal_period
        As of :func:`naive_scale`, with the same errors and reference.

    Examples
    --------
    >>> mase([5.0, 7.0], mean=[5.0, 4.0], history=[1.0, 2.0, 4.0])
    array([0., 2.])
    """
    error = numbers("actual", actual) - _known("mean", mean)
    return np.asarray(np.abs(error) / naive_scale(history, seasonal_period))


def smape(actual: ArrayLike, mean: ArrayLike) -> Array:
    r"""Symmetric absolute percentage error, in percent, from 0 to 200.

    .. math:: 200 \, \lvert y - \mu\rvert \,/\, (\lvert y\rvert + \lvert \mu\rvert)

    For positive series on a ratio scale only: adding a constant to y changes it, and an error near
    zero costs up to 200. Averaged, it is the sMAPE of the M competitions.

    Parameters
    ----------
    actual, mean : array_like
        As of :func:`crps`, with the same NaN. Where both are 0 the score is 0.

    References
    ----------
    S. Makridakis, "Accuracy measures: theoretical and practical concerns", International Journal of
    Forecasting 9 (1993) 527-529, https://doi.org/10.1016/0169-2070(93)90079-3

    Examples
    --------
    >>> smape([100.0, 0.0, 0.0], mean=[300.0, 1.0, 0.0])
    array([100., 200.,   0.])
    """
    y, mu = numbers("actual", actual), _known("mean", mean)
    size = np.abs(y) + np.abs(mu)
    return np.asarray(200 * np.abs(y - mu) / np.where(size == 0, 1.0, size))


def _known(name: str, value: ArrayLike) -> Array:
    array = numbers(name, value)
    if np.isnan(array).any():
        remedy = "Only actual may be missing: score the entries that were forecast."
        raise refusal(name, "not be NaN", f"NaN at position {_first(np.isnan(array))}", remedy)
    return array


def _gaussian(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array, Array]:
    sigma = _known("std", std)
    if (sigma <= 0).any():
        at = _first(sigma <= 0)
        remedy = "Score a forecast without spread by its absolute error, mase or smape."
        raise refusal("std", "be positive", f"{sigma[at]} at position {at}", remedy)
    return numbers("actual", actual), _known("mean", mean), sigma


def _interval(actual: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array, Array]:
    low, high = np.broadcast_arrays(_known("lower", lower), _known("upper", upper))
    if (high < low).any():
        at = _first(high < low)
        got = f"{high[at]} below {low[at]} at position {at}"
        raise refusal("upper", "not be below lower", got, "Pass the lower end first.")
    return numbers("actual", actual), low, high


def _first(flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int | tuple[int, ...]:
    """Position of the first true flag: a number in one dimension, a tuple in several."""
    at = tuple(int(i) for i in np.unravel_index(int(flags.argmax()), flags.shape))
    return at[0] if len(at) == 1 else at
