r"""Noise whose variance follows its recent size: a generalized autoregression of the variance.

With e the innovations in units of their root mean square (Bollerslev 1986, the mean variance fixed)

.. math:: h_{t+1} = 1 + \phi (h_t - 1) + \alpha (\min(e_t^2, c h_t) - h_t), \qquad
    \mathrm{E}\, h_{t+k} = 1 + \phi^{k-1} (h_{t+1} - 1),

:math:`h_1 = 1`; where :math:`e_t` is missing the second term is left out. :math:`\phi` and
:math:`\alpha` are those of the highest likelihood of a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr
from scipy.stats import rankdata

from forecast_unc._typing import Array, Flags

# Innovations that it is learned from, at least.
_FEWEST = 100
# Innovations that are a smaller share of the levels are roundoff.
_ROUNDOFF = 1e-6
# Level of the test of positive autocorrelation of ranks of |e|.
_LEVEL = 0.01
# Nats of likelihood at least, more than of a constant size and of a slow mean of squares: a
# drift that models of recent rows follow. With 4, 60 series of M4 weeks have MSIS .2 % higher.
_NATS, _SLOW = 8.0, 0.02
# What prices have: a slow return, small news. Other estimates are of something else, as of a season
# or a scale that varies: of 11 such series of M4 weeks CRPS would be 1 % higher.
_LEAST_PHI, _MOST_ALPHA = 0.9, 0.2
# The autocorrelations that are tested: weights fall by this factor from lag to lag.
_DECAY, _LAGS = 0.9, 30
# What one innovation counts for at most, in units of its variance.
_MOST = 16.0
# Degrees of freedom of the likelihood: few large innovations do not decide.
_FREEDOM = 8.0
_PHI = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98)
_ALPHA = (0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3)
# Of a finite fourth moment, without which the mean of squares says little of the mean variance.
_GRID = np.array(
    [(phi, alpha) for phi in _PHI for alpha in _ALPHA if alpha < phi and phi**2 + 2 * alpha**2 < 1]
)


@dataclass(frozen=True)
class Volatility:
    """Variance of the noise by the innovations before, which returns to its mean."""

    phi: float  # share of the distance from the mean that is left after a step
    alpha: float  # weight of the last innovation
    std: float  # root mean square of the innovations

    @staticmethod
    def shows(innovations: Array, levels: Array) -> bool:
        """Whether innovations are enough, and more than roundoff of the levels (n,)."""
        known = np.abs(innovations[~np.isnan(innovations)])
        return len(known) >= _FEWEST and known.max() > _ROUNDOFF * np.nanmax(np.abs(levels))

    @property
    def half_life(self) -> float:
        """Steps in which half of the distance from the mean is left."""
        return float(np.log(0.5) / np.log(self.phi))

    @classmethod
    def learn(cls, innovations: Array) -> Self | None:
        """That of innovations (n,), NaN where missing; None if their sizes are not alike."""
        known = innovations[~np.isnan(innovations)]
        if len(known) < _FEWEST or not known.any() or p_value(innovations) >= _LEVEL:
            return None
        std = float(np.sqrt(np.mean(known**2)))
        squares = (innovations / std) ** 2
        logs = log_likelihoods(squares, *_GRID.T)
        best = int(logs.argmax())
        others = log_likelihoods(squares, np.array([0.0, 1.0]), np.array([0.0, _SLOW]))
        phi, alpha = map(float, _GRID[best])
        unlike = phi < _LEAST_PHI or alpha > _MOST_ALPHA
        if unlike or logs[best] < others.max() + _NATS:
            return None
        return cls(phi, alpha, std)

    def variances(self, innovations: Array) -> Array:
        """Relative variances (n + 1,) of innovations (n,) and the next, each by those before."""
        h = np.ones(len(innovations) + 1)
        now, phi, alpha = 1.0, self.phi, self.alpha
        for t, square in enumerate(((innovations / self.std) ** 2).tolist(), start=1):
            news = 0.0 if np.isnan(square) else min(square, _MOST * now) - now
            h[t] = now = 1.0 + phi * (now - 1.0) + alpha * news
        return h

    def ahead(self, first: Array, steps: int) -> Array:
        """Expected variances (..., h) of the next steps, by that of the first, (...,)."""
        return np.asarray(1.0 + self.phi ** np.arange(steps) * (first[..., None] - 1.0))


def p_value(innovations: Array) -> float:
    """P of autocorrelations of |e| (n,), NaN where missing, beyond those that e itself brings.

    Of ranks: outliers do not decide. If e is normal with autocorrelations r, those of |e| are r^2.
    """
    known = ~np.isnan(innovations)
    sizes, own = (_scores(one, known) for one in (np.abs(innovations), innovations))
    lags = range(1, min(_LAGS, len(known) - 1) + 1)
    weights = _DECAY ** np.arange(len(lags))
    pairs = np.array([max(np.count_nonzero(known[lag:] & known[:-lag]), 1) for lag in lags])
    both = np.array([[x[lag:] @ x[:-lag] for lag in lags] for x in (sizes, own)]) / pairs
    # scores are measured from their own mean, which makes each autocorrelation 1 / n smaller
    n = np.count_nonzero(known)
    brought = np.maximum((both[1] + 1.0 / n) ** 2 - 1.0 / n, 0.0)
    score = (weights * pairs) @ (both[0] + 1.0 / n - brought)
    return float(ndtr(-score / np.sqrt(weights**2 @ pairs)))


def _scores(values: Array, known: Flags) -> Array:
    """Ranks of values (n,), standardized; 0 where they are not known."""
    scores, ranks = np.zeros(len(values)), rankdata(values[known])
    scores[known] = (ranks - ranks.mean()) / max(ranks.std(), 1.0)
    return scores


def log_likelihoods(squares: Array, phi: Array, alpha: Array) -> Array:
    """Log likelihoods (k,) of squares (n,), NaN where missing, under k pairs of parameters."""
    h, total = np.ones(len(phi)), np.zeros(len(phi))
    for square in squares.tolist():
        if np.isnan(square):
            h = 1.0 + phi * (h - 1.0)
            continue
        total -= 0.5 * np.log(h)
        total -= 0.5 * (_FREEDOM + 1.0) * np.log1p(square / h / (_FREEDOM - 2.0))
        h = 1.0 + phi * (h - 1.0) + alpha * (np.minimum(square, _MOST * h) - h)
    return total
