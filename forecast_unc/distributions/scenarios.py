"""Forecasts of one series under different futures, and their differences."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast_unc._checks import numbers, refusal
from forecast_unc._typing import Array, Axes
from forecast_unc.distributions.average import average
from forecast_unc.distributions.forecast import (
    Forecast,
    forecast_of,
    prediction_of,
    with_difference,
)
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.picture import fan
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.distributions.sums import difference

Pair = tuple[int, int]

Apart = Callable[[int, int, Array], Joint]
"""The joint of the difference of two scenarios, by their places, with factors (2, h) of each."""


@dataclass(frozen=True, eq=False)
class Correlated:
    """Differences by the correlations (2 h, 2 h) of the scores of two, by their places a < b."""

    joints: Sequence[Joint]
    correlations: Mapping[Pair, Array]

    def __call__(self, a: int, b: int, factors: Array) -> Joint:
        """The joint of a difference."""
        cor = self.correlations[min(a, b), max(a, b)]
        if a > b:
            order = np.roll(np.arange(len(cor)), len(cor) // 2)
            cor = cor[np.ix_(order, order)]
        return difference(self.joints[a], self.joints[b], cor, factors)


@dataclass(frozen=True, eq=False)
class OfMembers:
    """Averages of the differences of members; of other weights in two scenarios, by their roots."""

    joints: Sequence[Joint]
    members: Sequence[Apart]
    weights: Array  # (s, k, h), of each member in each scenario

    def __call__(self, a: int, b: int, factors: Array) -> Joint:
        """The joint of a difference."""
        weights = np.sqrt(self.weights[a] * self.weights[b])
        some = np.flatnonzero(weights.any(axis=1)).tolist()
        each = []
        for place in some:
            n = int(np.flatnonzero(weights[place])[-1]) + 1
            each.append(self.members[place](a, b, factors[:, :n]))
        joint = average(each, weights[some] / weights[some].sum(axis=0))
        mean = factors[0] * self.joints[a].mean - factors[1] * self.joints[b].mean
        shift = mean - joint.mean
        return joint.by_step(np.ones(len(mean)), shift, joint.q.affine(1.0, shift))


class Scenarios(Mapping[str, Forecast]):
    """Forecasts of one series under different futures of its regressors; immutable.

    A mapping of names to forecasts, each that of :meth:`Forecaster.forecast` with its regressors.
    They share what is unknown: the noise, the values before the first step, the learned function,
    the weights of the models. So a :meth:`difference` has a distribution, far narrower than those
    of the two where they differ by little. Made by :meth:`Forecaster.scenarios`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from forecast_unc import Forecaster, LinearRegressor
    >>> random, times = np.random.default_rng(0), pd.RangeIndex(60)
    >>> price = pd.DataFrame({"price": random.uniform(3.0, 5.0, 60)}, times)
    >>> sold = 90 - 10 * price["price"] + random.normal(0, 3, 60)
    >>> model = Forecaster(LinearRegressor(), lags=1).fit(sold[:56], price[:56])
    >>> what_if = model.scenarios({"base": price[56:], "plan": 1.1 * price[56:]}, 4)
    >>> change = what_if["plan"] - what_if["base"]
    >>> change.aggregate("sum").interval(0.9).round().to_numpy().tolist()
    [[-17.0, -13.0]]
    """

    __slots__ = ("_apart", "_forecasts")

    def __init__(self, forecasts: Mapping[str, Forecast], apart: Apart) -> None:
        made = {name: with_difference(one, self._minus) for name, one in forecasts.items()}
        self._forecasts = made
        self._apart = apart

    def __getitem__(self, name: str) -> Forecast:
        return self._forecasts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._forecasts)

    def __len__(self) -> int:
        return len(self._forecasts)

    def __repr__(self) -> str:
        first = next(iter(self.values()))
        return f"Scenarios({', '.join(map(repr, self._forecasts))}: {first!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scenarios, in their order."""
        return tuple(self._forecasts)

    @property
    def apart(self) -> Apart:
        """What makes the joint of a difference."""
        return self._apart

    def difference(
        self, first: str, second: str, values: Mapping[str, pd.Series[float] | float] | None = None
    ) -> Forecast:
        """Return the forecast of the first scenario's values less the second's, step by step.

        Its mean is the difference of the means. Noise that both have cancels; what remains is the
        uncertainty of what the change of the regressors does. Up to the step at which the futures
        begin to differ it is 0 for certain: an atom (:attr:`Forecast.atoms`).

        Parameters
        ----------
        first, second : str
            Names of two scenarios. ``s["plan"] - s["base"]`` is ``s.difference("plan", "base")``.
        values : mapping of str to float or Series, optional
            Value of one unit of y by scenario, positive, such as its price: then the difference is
            of revenues. A Series has one for each of the times; a scenario left out has 1.

        Returns
        -------
        Forecast
            In units of y, times those of `values`. ``aggregate("sum")`` is the difference of the
            sums, ``prob(lower=0)`` the probability that the first is higher.

        Raises
        ------
        TypeError, ValueError
            If there is no scenario of a name, or the two are one; if a value is not positive.
        """
        for argument, name in (("first", first), ("second", second)):
            if name not in self._forecasts:
                remedy = f"They are {', '.join(map(repr, self.names))}."
                raise refusal(argument, "be the name of a scenario", repr(name), remedy)
        if first == second:
            must = "be another scenario than the first"
            raise refusal("second", must, repr(second), "Name two.")
        a, b = (self.names.index(name) for name in (first, second))
        one, other = (prediction_of(self[name]) for name in (first, second))
        joint = self._apart(a, b, self._factors(values or {})[[a, b]])
        what = f"difference of {first} and {second}"
        notes = tuple(dict.fromkeys(one.notes + other.notes))
        made = Prediction(joint, one.name, one.propagation, aggregated=what, notes=notes)
        return forecast_of(self[first].index, made)

    def _factors(self, values: Mapping[str, pd.Series[float] | float]) -> Array:
        """Values of one unit of y, (s, h)."""
        index = next(iter(self.values())).index
        factors = np.ones((len(self), len(index)))
        for name, value in values.items():
            remedy = "It is the price of one unit, say."
            if name not in self._forecasts:
                must = f"have names among {', '.join(map(repr, self.names))}"
                raise refusal("values", must, repr(name), remedy)
            if isinstance(value, pd.Series):
                value = value.reindex(index)
            row = numbers(f"values[{name!r}]", value)
            if row.shape not in ((), index.shape) or not ((row > 0) & (row < np.inf)).all():
                must = "be positive, one for all steps or a Series of one for each"
                raise refusal(f"values[{name!r}]", must, reprlib.repr(value), remedy)
            factors[self.names.index(name)] = row
        return factors

    def _minus(self, first: Forecast, second: Forecast) -> Forecast:
        names = {id(one): name for name, one in self.items()}
        return self.difference(names[id(first)], names[id(second)])

    def plot(
        self,
        history: pd.Series[float] | None = None,
        coverage: Sequence[float] = (0.8,),
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the mean and intervals of each scenario, with one legend; return the axes.

        `history`, `coverage` and `ax` are those of :meth:`Forecast.plot`.
        """
        for name, one in self.items():
            ax = fan(one, coverage, history=history, ax=ax, label=name)
        assert ax is not None
        return ax
