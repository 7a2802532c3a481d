r"""Counts with zeros: whether something occurs and how much, two discounted conjugate states.

With :math:`z_t = [y_t > 0]` and sizes :math:`y_t - 1 = x_t` where something occurs,

.. math::

    z_t \sim \mathrm{Bernoulli}(p), \quad p \sim \mathrm{Beta}(a, b), \qquad
    a \leftarrow \delta a + z_t, \quad b \leftarrow \delta b + 1 - z_t

and :math:`x_t` is Poisson of a gamma rate, :math:`c \leftarrow \gamma c + x_t`,
:math:`d \leftarrow \gamma d + 1`, or negative binomial with r successes of a probability that is
beta, :math:`c \leftarrow \gamma c + r`, :math:`d \leftarrow \gamma d + x_t` (Harvey and Fernandes,
J. Bus. Econ. Stat. 7 (1989) 407-417; West and Harrison, Bayesian Forecasting and Dynamic Models,
1997, chapters 10 and 14). Discounts and r are averaged by their evidence. Ahead the states have the
weight of the prior besides, and all steps share one p and one rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, gammaln, ndtr, ndtri, softmax

from forecast_unc._checks import RandomState, generator, refusal
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.marginals import Marginals, normal_density
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.forecasting.choose.specification import LARGEST_COUNT, CountSpecification
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.models.effects import NO_EFFECTS
from forecast_unc.forecasting.models.training import TrainingSeries
from forecast_unc.series.history import Ahead, History
from forecast_unc.series.times import format_time

# Discounts of the occurrence; of sizes, with the successes of a negative binomial (inf: Poisson).
# Against 1 among them, Poisson alone and no prior ahead the pinball loss of 627 demands of car
# parts (three origins inside) is 1 % lower, of six months' sums 2.5 %, standard errors .3 and .5.
_OCCURRENCE = np.array([0.8, 0.85, 0.9, 0.93, 0.96])
_SIZE = np.array([(one, r) for one in (0.8, 0.9, 0.96) for r in (0.3, 1.0, 3.0, np.inf)])
_PRIOR = 2.0  # values that the prior counts for
_RARE = 1e-10  # probability of sizes of which no more is kept


class States(NamedTuple):
    """States before each of n + 1 times, a row a discount."""

    a: Array  # (5, n + 1)
    b: Array
    c: Array  # (12, n + 1)
    d: Array


@dataclass(frozen=True, eq=False)
class CountModel(FittedModel):
    """Occurrence and size at the end of the history that they were fitted on, or of another."""

    specification: CountSpecification
    history: History = field(repr=False)
    prior: Array  # probability of an occurrence, and mean of the sizes beyond 1
    occurrence: Array = field(repr=False)  # weights of the discounts, (5,)
    size: Array = field(repr=False)  # (12,)
    states: States = field(repr=False)

    made_of = ("specification", "prior", "occurrence", "size")
    transform = PowerTransform()
    taken_out = NO_EFFECTS
    depth = 1

    @classmethod
    def fit(
        cls,
        specification: CountSpecification,
        series: TrainingSeries,
        earlier: Sequence[FittedModel] = (),
    ) -> Self:
        """Learn the weights of the discounts from a series; nothing of an earlier fit is used."""
        y = _counts(specification, series.history)
        known = y[~np.isnan(y)]
        sizes = known[known > 0] - 1.0
        p = (np.count_nonzero(known) + 0.5) / (len(known) + 1.0)
        prior = np.array([p, max(sizes.mean() if len(sizes) else 0.0, 0.1)])
        a, b, c, d = (one[:, :-1] for one in filtered(y, prior))
        occurrence = np.log(np.where(y > 0, a, b) / (a + b))[:, ~np.isnan(y)].sum(axis=1)
        size = np.array(
            [
                log_size(y[y > 0] - 1.0, r, own_c[y > 0], own_d[y > 0]).sum()
                for (_, r), own_c, own_d in zip(_SIZE, c, d, strict=True)
            ]
        )
        weights = softmax(occurrence), softmax(size)
        return cls.made(series.history, specification, prior, *weights)

    @classmethod
    def made(
        cls,
        history: History,
        specification: CountSpecification,
        prior: Array,
        occurrence: Array,
        size: Array,
    ) -> Self:
        """A model by its recipe, at the end of a history."""
        states = filtered(_counts(specification, history), prior)
        return cls(specification, history, prior, occurrence, size, states)

    def predict(self, ahead: Ahead, method: Method) -> Prediction:
        """Joint distribution of the next values, before they are rounded.

        `propagation` has no effect except "naive" (independent steps) and "monte_carlo" (paths).
        """
        steps = len(ahead.index)
        end = self._end
        mean, var, shared = self._moments(end)
        q = count_marginals(*self._table(end), steps)
        cor = np.eye(steps)
        cov = var * np.eye(steps)
        if steps > 1 and method.propagation != "naive":
            one = q[np.arange(1)]

            def excess(correlation: float) -> float:
                return float(one.covariance(np.array([[correlation]])).item() - shared)

            apart = ~np.eye(steps, dtype=np.bool_)
            cor[apart] = brentq(excess, 0.0, 1.0) if excess(1.0) > 0.0 else 1.0
            cov[apart] = shared
        draw = partial(self._unrounded, ahead)
        asked = method.propagation == "monte_carlo"
        n_paths, seed = (method.n_samples, method.random_state) if asked else (4096, 0)
        # Sums are of these, as the steps are tied together by more than correlations of scores.
        paths = None
        if method.propagation != "naive":
            paths = self.sample_paths(ahead, n_paths, seed).T
        joint = Joint(q, cor, np.full(steps, mean), cov, paths=paths, draw=draw)
        made = Prediction(joint, self.history.name, method.propagation, str(self))
        return made.checked(partial(format_time, ahead.index))

    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h), each of one probability and one rate."""
        random, steps = generator(random_state), len(ahead.index)
        a, b, c, d = self._end
        k, j = (random.choice(len(w), n_samples, p=w) for w in (self.occurrence, self.size))
        r = _SIZE[j, 1]
        poisson = np.isinf(r)
        p = random.beta(a[k], b[k])
        rate = random.gamma(np.where(poisson, c[j], 1.0), 1.0 / np.where(poisson, d[j], 1.0))
        chance = random.beta(np.where(poisson, 1.0, c[j]), np.where(poisson, 1.0, d[j]))
        odds = np.where(poisson, rate, (1.0 - chance) / chance)
        found = np.empty((n_samples, steps))
        for step in range(steps):  # the first steps of more are the same
            happens = random.random(n_samples) < p
            spread = np.where(poisson, 1.0, random.gamma(np.where(poisson, 1.0, r)))
            found[:, step] = np.where(happens, 1.0 + random.poisson(odds * spread), 0.0)
        return found

    def _unrounded(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths of what is rounded to counts."""
        random = generator(random_state)
        paths = self.sample_paths(ahead, n_samples, random)
        return paths + random.uniform(-0.5, 0.5, paths.shape)

    def plug_in(self, origins: Positions, steps: int) -> Array:
        """Means (k, h) at origins inside."""
        return np.repeat(self._moments(self._at(origins))[0][:, None], steps, axis=1)

    def next_levels(self, at: Positions) -> tuple[Array, Array]:
        """One-step forecasts of k times of the history."""
        mean, var = np.full((2, len(at)), np.nan)
        some = at > len(self.history.y) - self.span
        mean[some], var[some], _ = self._moments(self._at(at[some]))
        return mean, var

    def __str__(self) -> str:
        return f"{self.specification.described()}, {self.n_rows} values"

    @property
    def n_rows(self) -> int:
        """Values that it rests on."""
        return int((~np.isnan(self.history.y[-self.span :])).sum())

    @property
    def span(self) -> int:
        """Values of the history from the first that it rests on."""
        return len(self.states.a[0]) - 1

    def learned(self) -> list[str]:
        """The discounts, on average."""
        discount = f"discount per step of the occurrence {self.occurrence @ _OCCURRENCE:.2f}"
        return [discount, f"of the size {self.size @ _SIZE[:, 0]:.2f}"]

    def _at(self, origins: Positions | int) -> States:
        """The states after so many values, with the weight of the prior besides."""
        places = np.maximum(origins - (len(self.history.y) - self.span), 0)
        pairs = zip(self.states, initial(self.prior), strict=True)
        return States(*((s + one[:, None])[:, places] for s, one in pairs))

    @property
    def _end(self) -> States:
        return self._at(len(self.history.y))

    def _moments(self, at: States) -> tuple[Array, Array, Array]:
        """Mean and variance of the next value, and its covariance with a later one."""
        (a, b, c, d), r = at, _SIZE[:, 1].reshape(-1, *[1] * (at.c.ndim - 1))
        p, poisson = self.occurrence @ (a / (a + b)), np.isinf(r)
        p_square = self.occurrence @ (a * (a + 1.0) / ((a + b) * (a + b + 1.0)))
        with np.errstate(divide="ignore", invalid="ignore"):
            # odds (1 - q) / q of a beta probability q
            odds, odds_square = d / (c - 1.0), d * (d + 1.0) / ((c - 1.0) * (c - 2.0))
            # E m, E m^2 and E s^2 of mean m and variance s^2 of the sizes beyond 1
            rate = self.size @ np.where(poisson, c / d, r * odds)
            rate_square = self.size @ np.where(poisson, c * (c + 1.0) / d**2, r**2 * odds_square)
            spread = self.size @ np.where(poisson, c / d, r * (odds + odds_square))
        mean, square = p * (1.0 + rate), 1.0 + 2.0 * rate + rate_square
        return mean, p * (square + spread) - mean**2, p_square * square - mean**2

    def _table(self, at: States) -> tuple[Array, Array, Array]:
        """Values half way between whole numbers, and probabilities up to them and beyond."""
        known, p = self.history.y[-self.span :], self.occurrence @ (at.a / (at.a + at.b))
        sizes = np.arange(20 * np.nanmax(known) + 50)
        mass = np.zeros(len(sizes))
        for (_, r), weight, c, d in zip(_SIZE, self.size, at.c, at.d, strict=True):
            if weight > _RARE:
                mass += weight * np.exp(log_size(sizes, r, c, d))
        above = np.append(p * mass[::-1].cumsum()[::-1], 0.0)  # that of sizes from each on
        above *= p / above[0]
        last = int(np.searchsorted(-above, -_RARE)) + 1
        above = np.append(above[:last], 0.0)
        values = np.arange(-1.0, len(above)) + 0.5
        return values, np.concatenate([[0.0], 1.0 - above]), np.concatenate([[1.0], above])


def count_marginals(values: Array, below: Array, above: Array, steps: int) -> Marginals:
    """Steps alike, with values where a probability lies below, straight in the probability."""
    scores = np.where(below < 0.5, ndtri(below), -ndtri(above))

    def curve(z: Array) -> tuple[Array, Array]:
        low = np.interp(ndtr(z), below, values)
        y = np.where(z < 0.0, low, np.interp(-ndtr(-z), -above, values))
        at = np.clip(np.searchsorted(scores, z, side="right"), 1, len(values) - 1)
        mass = np.where(below[at] < 0.5, np.diff(below)[at - 1], -np.diff(above)[at - 1])
        return y, np.diff(values)[at - 1] / mass * normal_density(z)

    return Marginals.of(curve, steps, scores[None, 1:-1])


def filtered(y: Array, prior: Array) -> States:
    """States before each of n values, and after the last; what is missing tells of nothing."""
    known, happens = ~np.isnan(y), np.nan_to_num(y) > 0
    a, b, c, d = initial(prior)
    absent = known & ~happens
    occurrence = [
        np.array([_discounted(delta, s, z) for delta, s in zip(_OCCURRENCE, start, strict=True)])
        for start, z in ((a, happens.astype(np.float64)), (b, absent.astype(np.float64)))
    ]
    # Sizes are discounted where there is one.
    sizes, at = y[happens] - 1.0, np.concatenate([[0], np.cumsum(happens)])
    one, size = np.ones_like(sizes), np.empty((2, len(_SIZE), len(at)))
    for i, (gamma, r) in enumerate(_SIZE):
        seen = (sizes, one) if np.isinf(r) else (r * one, sizes)
        for row, start, x in zip(size[:, i], (c[i], d[i]), seen, strict=True):
            row[:] = _discounted(gamma, start, x)[at]
    return States(*occurrence, *size)


def initial(prior: Array) -> tuple[Array, Array, Array, Array]:
    """a, b, c, d of the prior: means as given, with a finite variance."""
    p, size = prior
    one = np.ones(len(_OCCURRENCE))
    r = _SIZE[:, 1]
    with np.errstate(invalid="ignore"):
        c = np.where(np.isinf(r), _PRIOR * size, _PRIOR * r + 3.0)
        d = np.where(np.isinf(r), _PRIOR, size * (c - 1.0) / r)
    return _PRIOR * p * one, _PRIOR * (1.0 - p) * one, c, d


def log_size(x: Array, r: float, c: Array | float, d: Array | float) -> Array:
    """Log probability of sizes x beyond 1: negative binomial, or beta negative binomial."""
    if np.isinf(r):
        log_p = gammaln(x + c) - gammaln(c) - gammaln(x + 1.0)
        return np.asarray(log_p - c * np.log1p(1.0 / d) - x * np.log1p(d))
    log_p = gammaln(x + r) - gammaln(r) - gammaln(x + 1.0)
    return np.asarray(log_p + betaln(c + r, d + x) - betaln(c, d))


def _discounted(discount: float, start: float, seen: Array) -> Array:
    """s <- discount s + x before each of n values x, and after the last, (n + 1,)."""
    from scipy.signal import lfilter  # kept out of the import: .1 s

    if not len(seen):
        return np.array([start])
    after, _ = lfilter([1.0], [1.0, -discount], seen, zi=[discount * start])
    return np.concatenate([[start], after])


def _counts(specification: CountSpecification, history: History) -> Array:
    """The last values of a history, checked, from one that was observed."""
    y = history.y[-specification.max_train :]
    y = y[(~np.isnan(y)).argmax() :]
    wrong = (y < 0) | (y > LARGEST_COUNT) | (y != np.round(y)) & ~np.isnan(y)
    if wrong.any():
        place = len(history.y) - len(y) + int(wrong.argmax())
        got = f"{history.y[place]:g} at {history.time(place)}"
        must = f"hold whole numbers from 0 to {LARGEST_COUNT:g} for a model of counts"
        raise refusal("y", must, got, "Fit the forecaster again.")
    if history.stds.any():
        must = "be None for a model of counts, which knows no errors of measurement"
        raise refusal("y_std", must, "some", "Fit the forecaster again.")
    return y
