"""Significant seasons among those that the calendar suggests."""

from math import gcd

import numpy as np
from scipy.special import fdtrc

from forecast_unc._typing import Array, Flags
from forecast_unc.series.calendar import harmonics
from forecast_unc.series.rows import interpolated

# Cycles of a season at a bound in all of which a phase has to be, of at least so many values: four
# weeks of days, in which the sun rises up to two hours earlier. (Choices.)
_CYCLES, _LEAST_CYCLES = 28, 8
# Values a regressor, of which the test has the last value, too. (A choice.)
_PER_REGRESSOR = 20


def seasons_in(y: Array, periods: tuple[int, ...], exog: Array | None = None) -> tuple[int, ...]:
    """Periods whose Fourier terms are significant at 5 %, shortest first.

    Each is tested beside the shorter ones found, in two cycles or more; beside regressors (n, k),
    too, and one of both is enough: a slow temperature may hide a week.
    """
    # By simulation one is found in 2 to 15 % of white noise, walks, AR(1) of .5 to .95 and
    # ARIMA(0, 1, 1), most of all in two cycles. Of 414 origins of hours, where P is below .001 lags
    # and Fourier terms of a week take the MAE of a linear model down by 19 %, error 3, and up where
    # it is above .05, by 9 %, error 3.
    found: tuple[int, ...] = ()
    beside = [np.zeros((len(y), 0))]
    if exog is not None and 0 < _PER_REGRESSOR * exog.shape[1] <= len(y):
        beside.append(exog)
    for period in held_twice(y, periods):
        tested = any(_p_value(y, found, period, one) < 0.05 for one in beside)
        if tested or any(_p_of_shape(y, one, period) < 0.001 for one in found):
            found += (period,)
    return found


def held_twice(y: Array, periods: tuple[int, ...]) -> tuple[int, ...]:
    """Periods of which there are values for two cycles, shortest first."""
    return tuple(one for one in sorted(periods) if np.isfinite(y).sum() >= 2 * one)


def always_at(y: Array, bound: float, period: int, steps: int) -> Flags:
    """Next steps (h,) whose phase of a season was always at a bound, such as night for the sun.

    In the last 28 cycles, with an hour of margin where a cycle is a day, and around the same time a
    year before; not where it may be chance.
    """
    n, margin = len(y), -(-period // 24) if period >= 24 else 0
    first = max(n - _CYCLES * period, 0)
    known, is_at = ~np.isnan(y[first:]), y[first:] == bound
    phase, around = np.arange(first, n) % period, range(-margin, margin + 1)
    seen, at = (
        np.sum([np.roll(np.bincount(phase, one, period), k) for k in around], axis=0)
        for one in (known, is_at)
    )
    chance = period * np.mean(is_at[known]) ** seen if known.any() else np.ones(period)
    always = (at == seen) & (seen >= _LEAST_CYCLES * len(around)) & (chance < 0.01)
    ahead = n + np.arange(steps)
    cycles, days = (365, 14) if margin else (52, 4) if period in (5, 6, 7) else (0, 0)
    ago = (cycles + np.arange(-days, days + 1))[:, None] * period + np.array(around)
    back = ahead[:, None] - ago.ravel()
    in_past = (back >= 0) & (back < n)
    away = ~np.isnan(y) & (y != bound)
    last_year = (away[np.where(in_past, back, 0)] & in_past).any(axis=1)
    return np.asarray(always[ahead % period] & ~last_year)


def recurs(y: Array, n_lags: int) -> bool:
    """Whether so many levels tell more of the next one than a walk with two changes: P < 1e-4.

    Of F, beside a line: as of a cycle that no calendar suggests. Of positive values of the
    logarithm, too, in which growth is a line.
    """
    windows = np.lib.stride_tricks.sliding_window_view(y, n_lags + 1)
    at = np.flatnonzero(~np.isnan(windows).any(axis=1))
    windows, line, dof = windows[at], np.vander(at / len(y), 2), len(at) - n_lags - 2
    if n_lags < 4 or dof < 2:
        return False
    for view in (windows, np.log(windows)) if windows.min() > 0.0 else (windows,):
        if not np.ptp(view):
            return False
        z = (view - view.mean()) / view.std()
        changes = z[:, -3:-1] - z[:, -4:-2]
        target = z[:, -1:] - z[:, -2:-1]
        walk, levels = (
            _left(np.hstack([line, part, target]), 0)[0] for part in (changes, z[:, :-1])
        )
        if fdtrc(n_lags - 2, dof, (walk / levels - 1.0) * dof / (n_lags - 2)) >= 1e-4:
            return False
    return True


def _p_value(y: Array, shorter: tuple[int, ...], period: int, exog: Array) -> float:
    """P of F for the Fourier terms of a season, on the likelier of levels and logarithms.

    In a regression on them, a line, lagged values, regressors now and before, means of the steps of
    shorter seasons, and all else that differs between the steps of the season. Without the last the
    lags make up for the low frequencies that few terms take out: 25 % of walks of two years of days
    had a year, with it 7 %.
    """
    at = np.flatnonzero(~np.isnan(y))
    y, exog, at = y[at[0] :], exog[at[0] :], at - at[0]
    # The lags that take the autocorrelation out, by BIC, are four at most, and no more than half a
    # season: four lags of quarters follow a season that changes, and hid it in 9 of 214 tourism
    # series. They leave two values of each step; a step with one, which would take a shift of the
    # level, is left out: that of the first lag in just two cycles, and some beside gaps.
    most = max(1, min(4, period // 2, (len(at) - period) // 8, len(at) - 2 * period))
    t = at[at >= most]
    t = t[np.bincount(t % period)[t % period] > 1]
    # A missing lag is the value before: one interpolated would hold the value it is to predict.
    values = y[np.maximum.accumulate(np.where(np.isnan(y), 0, np.arange(len(y))))]
    phases, place = np.unique(t % period, return_inverse=True)
    terms = np.column_stack([np.ones(len(t)), harmonics(t, period)])
    # Steps of shorter seasons, if not among those of this one, and what follows their changes.
    others = [t % one == j for one in shorter for j in range(gcd(one, period), one)]
    seasonal_lags = [one + j for one in shorter for j in (0, 1)]
    size = exog.std(axis=0)
    exog = (exog - exog.mean(axis=0)) / np.where(size > 0.0, size, 1.0)
    # With a line, a shift of the level after the first of two cycles is a season: a ramp.
    ramp, ramps = (t - len(y)) % period, int(len(at) < 2 * period + 2)
    likeliest, p_value = np.inf, 1.0
    for log in (False, True) if values.min() > 0 else (False,):
        z = np.log(values) if log else values
        scale = z.std()
        if scale <= 1e-12 * np.abs(z).max():  # constant
            continue
        z = (z - z.mean()) / scale
        lagged = [np.where(t >= lag, z[t - lag], 0.0) for lag in seasonal_lags]
        lagged += [z[t - lag] for lag in range(1, most + 1)]
        X = np.column_stack([ramp, *others, t / len(y), exog[t], exog[t - 1], *lagged, z[t]])
        sums = np.column_stack([np.bincount(place, column) for column in X.T])
        means: Array = (sums / np.bincount(place)[:, None])[place]
        weights, _, rank, _ = np.linalg.lstsq(terms, means, rcond=None)
        alternative = X - means
        null = alternative + terms @ weights - X.mean(axis=0)
        with_terms, without = _left(alternative[:, 1:], most), _left(null[:, 1 - ramps :], most)
        n_lags = np.arange(most + 1)
        bic = len(t) * np.log(with_terms * scale**2) + np.log(len(t)) * n_lags
        if log:  # the density of the values themselves
            bic += 2.0 * np.log(values[t]).sum()
        best = int(np.argmin(bic))
        dof = len(t) - len(phases) - (X.shape[1] - 2 - most) - best
        if dof > 0 and bic[best] < likeliest:
            tested = rank - 1 - ramps
            ratio = (without[best] / with_terms[best] - 1.0) * dof / tested
            likeliest, p_value = bic[best], float(fdtrc(tested, dof, ratio))
    return p_value


def _p_of_shape(y: Array, shorter: int, period: int) -> float:
    """P of F that a shorter season has another shape at some cycles, as days at weekends have.

    Such a change has few low frequencies. Of the changes of the values without means of the steps,
    the periodogram at one and two waves of the season beside the first two of the shorter one is
    compared with its mean between these, where a day that is louder now and then has as much.
    """
    cycles = len(y) // period
    if period % shorter or period // shorter < 5 or cycles < 4:
        return 1.0
    days = interpolated(y[-cycles * period :]).reshape(-1, shorter)
    changes = np.diff((days - days.mean(axis=0)).ravel(), prepend=0.0)
    power = np.abs(np.fft.rfft(changes - changes.mean())) ** 2
    waves = cycles * (period // shorter) * np.array([[1], [2]])  # of the shorter season
    near = np.arange(-2 * cycles - cycles // 2, 2 * cycles + cycles // 2 + 1)
    at_lines = (near % cycles == 0) & (near != 0)
    lines, between = power[waves + near[at_lines]], power[waves + near[near % cycles != 0]]
    if not between.any():
        return 0.0 if lines.any() else 1.0
    return float(fdtrc(2 * lines.size, 2 * between.size, lines.mean() / between.mean()))


def _left(columns: Array, most: int) -> Array:
    """Sums of squares of the last column that those before leave, but for the last most ... 0."""
    R = np.asarray(np.linalg.qr(columns, mode="r"))
    squares = np.cumsum(R[::-1, -1] ** 2)[most::-1]
    return np.asarray(np.maximum(squares, 1e-20 * len(columns)))  # noise of a line by rounding
