r"""Noise whose standard deviation differs between the steps of a season.

With e the residuals of a plain linear autoregression with an effect for each step, the sizes of
step g of a season of m steps are

.. math:: a_g = \log \overline{|e|}_g - \text{their mean} = \eta_g + N(0, v), \qquad
    v = \frac{\mathrm{Var}(|e|) / \mathrm{E}(|e|)^2}{n / m},

and :math:`\eta` is a process on a circle of m steps, white or with neighbours alike, whose variance
and length are those of the highest evidence. Its posterior mean is what the steps differ by: the
less was seen, the less. All of it is diagonal in the Fourier transform of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import fdtrc

from forecast_unc._typing import Array, Positions, Times
from forecast_unc.series.calendar import in_profile, season_steps

# Values of each step of the season that its noise is learned from, at least.
_FEWEST = 4
# Level of Brown and Forsythe's test (1974) about 0: an analysis of variance of |e|.
_LEVEL = 0.05
# The least mean |e| of a step, over that of all: a log has to be finite.
_LEAST = 1e-2
# Variances of the log sizes, and in seasons the lengths of what neighbours share; 0: nothing.
_VARIANCES = np.geomspace(1e-3, 10.0, 25)
_LENGTHS = (0.0, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, eq=False)
class SeasonalNoise:
    """Stds of the noise at the steps of some seasons, in units of that of the root mean square."""

    periods: tuple[int, ...]
    sizes: tuple[Array, ...]  # (m,) of each period; a time has the product

    @classmethod
    def of(
        cls, sizes: Array, times: Positions, index: Times, periods: tuple[int, ...]
    ) -> Self | None:
        """That of sizes (k,) at some times of an index; None if they do not differ."""
        found, factors = list[int](), list[Array]()
        for period in periods:
            steps = season_steps(index, period)[times]
            enough = np.bincount(steps, minlength=period) >= _FEWEST
            rows = enough[steps]
            few = len(sizes) < _FEWEST * period or enough.sum() < 2
            if not few and _p_value(sizes[rows], steps[rows], period) < _LEVEL:
                found.append(period)
                factors.append(_relative(sizes[rows], steps[rows], period))
                sizes = sizes / factors[-1][steps]
        if not found:
            return None
        noise = cls(tuple(found), tuple(factors))
        unit = np.sqrt(np.mean(noise.of_rows(index)[times] ** 2))
        return cls(noise.periods, (factors[0] / unit, *factors[1:]))

    def of_rows(self, index: Times) -> Array:
        """Relative stds (n,) of the noise of rows to learn from."""
        each = zip(self.periods, self.sizes, strict=True)
        factors = [sizes[season_steps(index, period)] for period, sizes in each]
        return np.asarray(np.prod(factors, axis=0))


def told_apart(periods: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Seasons, shortest first, whose steps n values can tell apart.

    Not one without an effect for each step, a year of days: its holidays would be noise. Errors of
    a daily consumption in December were 1.6 times as large.
    """
    most = min(n // _FEWEST, in_profile(periods))
    return tuple(period for period in sorted(periods) if period <= most)


def _p_value(sizes: Array, steps: Positions, period: int) -> float:
    """P of F of an analysis of variance of the sizes (n,) between the steps."""
    counts = np.bincount(steps, minlength=period)
    means = np.bincount(steps, sizes, period) / np.maximum(counts, 1)
    groups, n = int((counts > 0).sum()), len(sizes)
    between = counts @ (means - sizes.mean()) ** 2 / (groups - 1)
    within = ((sizes - means[steps]) ** 2).sum() / (n - groups)
    return float(fdtrc(groups - 1, n - groups, between / within)) if within > 0.0 else 1.0


def _relative(sizes: Array, steps: Positions, period: int) -> Array:
    """Relative sizes of the steps (m,), by the posterior mean of their logarithms.

    Steps of which none are given have the mean of the others.
    """
    counts = np.bincount(steps, minlength=period)
    known, (groups, n) = counts > 0, (np.count_nonzero(counts), len(sizes))
    means = np.bincount(steps, sizes, period) / np.maximum(counts, 1)
    means = np.maximum(means, _LEAST * sizes.mean())
    spread = ((sizes / means[steps] - 1.0) ** 2).sum() / max(n - groups, 1)
    error = spread * groups / n
    logs = np.log(means)
    observed = np.fft.fft(np.where(known, logs, logs[known].mean()))[1:]
    squares = np.abs(observed) ** 2 / period
    apart = np.arange(period) / period
    best, shares = -np.inf, np.zeros(period - 1)
    for length in _LENGTHS:
        kernel = (apart == 0.0).astype(np.float64)
        if length > 0.0:
            kernel = np.exp((np.cos(2.0 * np.pi * apart) - 1.0) / (2.0 * np.pi * length) ** 2)
        prior = _VARIANCES[:, None] * np.maximum(np.fft.fft(kernel).real[1:], 0.0)
        evidence = -0.5 * (np.log(prior + error) + squares / (prior + error)).sum(axis=1)
        if evidence.max() > best:
            best, own = float(evidence.max()), prior[evidence.argmax()]
            shares = own / (own + error)
    return np.asarray(np.exp(np.fft.ifft(np.append(0.0, shares * observed)).real))
