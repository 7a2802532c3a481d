r"""Scores of a forecast against what happened: pure functions of arrays, one value an entry.

Nothing is averaged, and arguments broadcast. All but :func:`pit` and :func:`coverage` are
lower-is-better. An ``actual`` that is NaN was not observed, so its score is NaN; a NaN in the
*forecast* is a failure of the model and raises a ValueError, as do arguments outside their domain.
CRPS, negative log density, interval and energy scores are proper: on average, no forecast scores
better than the distribution that the values come from (T. Gneiting and A. E. Raftery, JASA 102
(2007) 359-378, https://doi.org/10.1198/016214506000001437). `Forecast.score` scores steps that are
not normal, too.
"""

from __future__ import annotations

import reprlib

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from forecast_unc._checks import as_float, check_coverage, numbers, refusal
from forecast_unc._typing import Array
from forecast_unc.distributions.marginals import normal_density

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


def __dir__() -> list[str]:
    return __all__


def crps(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""Continuous ranked probability score of N(mean, std^2), in units of y.

    .. math::

        \int \bigl(F(t) - 1\{t \ge y\}\bigr)^2 dt
        = \sigma\bigl[z(2\Phi(z) - 1) + 2\varphi(z) - \pi^{-1/2}\bigr], \quad z = (y - \mu)/\sigma

    It is the absolute error of a forecast that has no spread, so it compares with MAE (T. Gneiting
    et al., Monthly Weather Review 133 (2005) 1098-1118, eq. 5, https://doi.org/10.1175/MWR2904.1).

    ``actual`` is what happened; ``mean`` and the positive ``std`` are the forecast's, in units of
    y.

    Examples
    --------
    >>> crps([0.0, 2.0], mean=0.0, std=1.0).round(4)
    array([0.2337, 1.4528])
    """
    y, mu, sigma = _gaussian(actual, mean, std)
    z = (y - mu) / sigma
    with np.errstate(over="ignore"):  # of a square beyond all floats
        density = normal_density(z)
    return np.asarray(sigma * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)))


def nlpd(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""Negative log predictive density of N(mean, std^2), in nats.

    .. math:: \tfrac12 \log 2\pi + \log\sigma + \tfrac12 z^2, \quad z = (y - \mu)/\sigma

    It punishes overconfidence far harder than :func:`crps` does, and it depends on the unit of y:
    y in a unit k times smaller adds log k (Gneiting and Raftery 2007, section 4.1).

    The arguments are those of :func:`crps`: ``actual``, ``mean`` and ``std``.

    Examples
    --------
    >>> nlpd([0.0, 2.0], mean=0.0, std=1.0).round(4)
    array([0.9189, 2.9189])
    """
    y, mu, sigma = _gaussian(actual, mean, std)
    with np.errstate(over="ignore"):
        return np.asarray(0.5 * np.log(2 * np.pi) + np.log(sigma) + 0.5 * ((y - mu) / sigma) ** 2)


def pit(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""Probability integral transform: the forecast's probability of a value up to ``actual``.

    .. math:: \Phi\bigl((y - \mu)/\sigma\bigr)

    Uniform on (0, 1) if the forecast is calibrated; heaped at both ends if its bands are too
    narrow (T. Gneiting, F. Balabdaoui and A. E. Raftery, JRSS B 69 (2007) 243-268,
    https://doi.org/10.1111/j.1467-9868.2007.00587.x).

    The arguments are those of :func:`crps`: ``actual``, ``mean`` and ``std``.

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

    Divided by :func:`naive_scale` and averaged it is the MSIS of the M4 competition (Gneiting and
    Raftery 2007, eq. 43).

    ``actual`` is what happened, ``lower`` and ``upper`` are the ends of the interval, in units of
    y, and ``coverage`` is the probability it claims, in (0, 1); the nearer to 1, the dearer a miss.

    Examples
    --------
    >>> interval_score([0.0, 3.0], lower=-2.0, upper=2.0, coverage=0.95).round(6)
    array([ 4., 44.])
    """
    coverage = check_coverage(coverage)
    y, low, high = _interval(actual, lower, upper)
    miss = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return np.asarray(high - low + 2 / (1 - coverage) * miss)


def coverage(actual: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    """Tell whether each value fell into its interval, 1.0 or 0.0; the ends belong to it.

    Averaged, it is the empirical coverage, which is right when near the claimed one (P. F.
    Christoffersen, International Economic Review 39 (1998) 841-862,
    https://doi.org/10.2307/2527341).

    The arguments are those of :func:`interval_score`: ``actual``, ``lower`` and ``upper``.

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

    It sees the correlation between the steps, which scores of single steps cannot, and is NaN if an
    entry of ``actual`` is. As an estimate of the score of the distribution that the samples come
    from it is too high by E||x - x'|| / (2 n); n (n - 1) in place of n^2 would take the bias away,
    but can give a negative score (Gneiting and Raftery 2007, eq. 22). Time O(n^2 h), memory O(n h)
    and 500 n distances.

    ``actual``, (h,), is what happened, in units of y; ``samples``, (n, h), are paths, one a row:
    ``forecast.sample(n).T``.

    Examples
    --------
    >>> energy_score([0.0, 0.0], [[3.0, 4.0], [0.0, 0.0]])
    1.25
    """
    y = numbers("actual", actual)
    (paths,) = _checked(samples=samples)
    if y.ndim != 1 or paths.ndim != 2 or paths.shape[0] == 0 or paths.shape[1] != y.size:
        must, got = "be of shape (n, h) for actual of shape (h,)", f"{paths.shape} for {y.shape}"
        remedy = "Sample paths are rows: pass forecast.sample(n).T."
        raise refusal("samples", must, got, remedy)
    from scipy.spatial.distance import cdist, pdist  # kept out of the import

    n, size, between = len(paths), 500, 0.0
    to_actual = np.linalg.norm(paths - y, axis=1).mean()
    for start in range(0, n, size):  # not all n^2 / 2 distances at once
        block, later = np.split(paths[start:], [size])
        between += pdist(block).sum() + cdist(block, later).sum()
    return float(to_actual - between / n**2)


def naive_scale(history: ArrayLike, seasonal_period: int = 1) -> float:
    r"""Mean absolute error of the seasonal naive forecast within the history, in units of y.

    .. math:: \operatorname{mean}_t \lvert y_t - y_{t-m}\rvert

    The common yardstick of :func:`mase` and of the MSIS, the mean interval score over this scale
    (R. J. Hyndman and A. B. Koehler, International Journal of Forecasting 22 (2006) 679-688,
    https://doi.org/10.1016/j.ijforecast.2006.03.001).

    ``history``, (n,), holds the values that the forecaster was trained on, and has to change over a
    season; pairs with a NaN are left out. ``seasonal_period`` is the number of steps in a season,
    m; 1 measures against "the same as last time".

    Examples
    --------
    >>> naive_scale([1.0, 2.0, 4.0])
    1.5
    """
    past = numbers("history", history)
    if not as_float(seasonal_period) >= 1 or seasonal_period % 1:
        got = reprlib.repr(seasonal_period)
        remedy = "Pass 12 for months with a yearly season, 1 for none."
        raise refusal("seasonal_period", "be a positive whole number", got, remedy)
    m = int(seasonal_period)
    if past.ndim != 1:
        remedy = "Pass the values of one series."
        raise refusal("history", "be one series, of shape (n,)", f"shape {past.shape}", remedy)
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

    ``actual`` is that of :func:`crps`, ``mean`` any point forecast (a `Backtest` scores the
    median), ``history`` and ``seasonal_period`` are those of :func:`naive_scale`.

    Examples
    --------
    >>> mase([5.0, 7.0], mean=[5.0, 4.0], history=[1.0, 2.0, 4.0])
    array([0., 2.])
    """
    y, mu = _checked(actual=actual, mean=mean)
    return np.asarray(np.abs(y - mu) / naive_scale(history, seasonal_period))


def smape(actual: ArrayLike, mean: ArrayLike) -> Array:
    r"""Symmetric absolute percentage error, in percent, from 0 to 200.

    .. math:: 200 \, \lvert y - \mu\rvert \,/\, (\lvert y\rvert + \lvert \mu\rvert)

    For positive series on a ratio scale only: adding a constant to y changes it, and an error near
    zero costs up to 200. Averaged, it is the sMAPE of the M competitions (S. Makridakis,
    International Journal of Forecasting 9 (1993) 527-529,
    https://doi.org/10.1016/0169-2070(93)90079-3).

    ``actual`` is that of :func:`crps`, ``mean`` any point forecast (a `Backtest` scores the
    median); where both are 0 the score is 0.

    Examples
    --------
    >>> smape([100.0, 0.0, 0.0], mean=[300.0, 1.0, 0.0])
    array([100., 200.,   0.])
    """
    y, mu = _checked(actual=actual, mean=mean)
    y, mu = 0.5 * y, 0.5 * mu  # whose sum is finite
    size = np.abs(y) + np.abs(mu)
    with np.errstate(invalid="ignore"):
        score = 200 * np.abs(y - mu) / np.where(size == 0, 1.0, size)
    return np.asarray(np.where(np.isinf(size), 200.0, score))


def _checked(**given: ArrayLike) -> list[Array]:
    """Arguments that broadcast; NaN in `actual` alone, inf there and at ends of intervals."""
    arrays = {name: numbers(name, value) for name, value in given.items()}
    for name, array in arrays.items():
        missing, endless = np.isnan(array), np.isinf(array)
        if missing.any() and name != "actual":
            remedy = "Only actual may be missing: score the entries that were forecast."
            raise refusal(name, "not be NaN", f"NaN at position {_first(missing)}", remedy)
        if endless.any() and name not in ("actual", "lower", "upper"):
            at = _first(endless)
            got = f"{array[at]} at position {at}"
            raise refusal(name, "be finite", got, "Leave these entries out.")
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        *names, last = arrays
        got = ", ".join(str(array.shape) for array in arrays.values())
        remedy = "Pass as many entries of each, or a single one."
        name, must = f"{', '.join(names)} and {last}", "have shapes that go together"
        raise refusal(name, must, got, remedy) from None
    return list(arrays.values())


def _gaussian(actual: ArrayLike, mean: ArrayLike, std: ArrayLike) -> list[Array]:
    y, mu, sigma = _checked(actual=actual, mean=mean, std=std)
    if (sigma <= 0).any():
        at = _first(sigma <= 0)
        remedy = "Score a forecast without spread by its absolute error, mase or smape."
        raise refusal("std", "be positive", f"{sigma[at]} at position {at}", remedy)
    return [y, mu, sigma]


def _interval(actual: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array, Array]:
    y, low, high = _checked(actual=actual, lower=lower, upper=upper)
    low, high = np.broadcast_arrays(low, high)
    if (high < low).any():
        at = _first(high < low)
        got = f"{high[at]} below {low[at]} at position {at}"
        raise refusal("upper", "not be below lower", got, "Pass the lower end first.")
    return y, low, high


def _first(flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int | tuple[int, ...]:
    at = tuple(int(i) for i in np.unravel_index(int(flags.argmax()), flags.shape))
    return at[0] if len(at) == 1 else at
