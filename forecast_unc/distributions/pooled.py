"""Averages of forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from forecast_unc.distributions import scores
from forecast_unc.distributions.mirrored import Mirrored
from forecast_unc.distributions.parts import Deferred, pool_parts
from forecast_unc.distributions.picked import Picked
from forecast_unc.distributions.pooling import Member, check_weights, pool
from forecast_unc.distributions.steps import Steps

F = TypeVar("F")


class Share(NamedTuple, Generic[F]):
    """A member of an average: what it forecast, and what it counted for.

    Parameters
    ----------
    model : str
        The model, as text.
    forecast : Forecast
        Its forecast.
    weight : Series
        Its weight at each step of the average; those of all members add up to 1.
    """

    model: str
    forecast: F
    weight: pd.Series[float]


class Pooled(Picked):
    """Steps that may be the average of several forecasts."""

    __slots__ = ()

    @classmethod
    def average(cls, forecasts: Sequence[Self], weights: ArrayLike | None = None) -> Self:
        """Return the forecast whose quantiles are the averages of those of several.

        The average of normal forecasts is normal, with the average mean and the average std; unlike
        a mixture of their distributions, it is no wider where they disagree. The mean is the
        average of the means in any case.

        Of :meth:`censored` forecasts what lies before the bounds is averaged, and the average is
        censored at the average of the bounds, without a bound where one has none.

        Parameters
        ----------
        forecasts : sequence of Forecast
            Forecasts from the same origin. Those shorter than the longest have its first times, and
            count for their own steps only.
        weights : array_like of shape (k,) or (k, h), optional
            Weight of each forecast, or of each at each of the h steps of the longest; not
            negative, not all 0 at a step. Only the ratios at each step count; by default all are
            the same. Where a weight is 0, nothing of that forecast is used.

        Returns
        -------
        Forecast
            As many steps as the longest; the first k steps of an average are the average of the
            first k steps. The correlations of its normal scores are those of the weighted sum of
            the covariances std R std of its members, with the std in units of y and the
            correlations R of the normal scores. :meth:`decompose` averages the members' parts. Of
            several members no :attr:`paths` are kept.

        Raises
        ------
        TypeError
            If ``forecasts`` are not Forecasts.
        ValueError
            If there are none, their times differ, or the weights are negative, all 0 at a step, or
            not 0 beyond the end of a forecast.

        Examples
        --------
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
        >>> index = pd.RangeIndex(1)
        >>> a, b = Forecast(index, [1.0], [[1.0]]), Forecast(index, [4.0], [[9.0]])
        >>> both = Forecast.average([a, b])
        >>> both.mean.item(), both.std.item()
        (2.5, 2.0)
        """
        members = scores.check_several("forecasts", forecasts, "Forecasts", "[forecast] for one")
        for member in members:
            if not isinstance(member, cls):
                raise TypeError(
                    f"forecasts must hold Forecasts; got {type(member).__name__}. "
                    "Pass what Forecaster.forecast returns."
                )
        if not members:
            raise ValueError("forecasts must hold a forecast; got none. Pass one or more.")
        if any(isinstance(member._marginals, Mirrored) for member in members):
            return cls._turned_average(members, weights)
        longest = max(members, key=len)
        for member in members:
            if not member._index.equals(longest._index[: len(member)]):
                raise ValueError(
                    f"forecasts must be of the same times; got {member!r} beside {longest!r}. "
                    "Forecast the same steps from the same origin."
                )
        shares = check_weights(weights, [len(m) for m in members], longest._label)
        used = [(w, m) for w, m in zip(shares, members, strict=True) if w.any()]
        if len(used) == 1:
            return used[0][1]
        shares = np.array([w for w, _ in used])
        pooled = [Member(m._marginals, m._cor, m._std) for _, m in used]
        name = longest._name if all(m._name == longest._name for m in members) else None
        result = cls._of(longest._index, *pool(pooled, shares), name)
        parts = [m._parts for _, m in used if m._parts is not None]
        if len(parts) == len(used):
            covs = [m._cov for _, m in used]
            result._parts = Deferred(partial(pool_parts, parts, covs, shares, result._cov))
        result._averaged = tuple((m, w) for w, m in used)
        kinds = {m._propagation for _, m in used}
        result._propagation = kinds.pop() if len(kinds) == 1 else _flat(m for _, m in used)
        return result

    @classmethod
    def _turned_average(cls, members: Sequence[Self], weights: ArrayLike | None) -> Self:
        """The average of forecasts of -y: minus that of those of y."""
        turned = [-member for member in members]
        if any(isinstance(member._marginals, Mirrored) for member in turned):
            raise ValueError(
                "forecasts must be skewed, or bounded, on the same side; got some of y and some of "
                "-y. Average before the minus sign."
            )
        return -cls.average(turned, weights)

    @property
    def members(self) -> tuple[Share[Self], ...]:
        """Of an average, its members' forecasts with the weights that they were averaged with.

        Before calibration and bound, of which there is one for the average. Members that were
        dropped at all steps are not among them: an empty tuple says that this is no average,
        or that of several members one alone was used. Their average is the forecast, before
        calibration and bound:

        >>> from forecast_unc import Forecast, Forecaster, datasets
        >>> ahead = Forecaster(calibrate=False).fit(datasets.load_us_gdp()).forecast(8)
        >>> forecasts, weights = zip(*[(m.forecast, m.weight) for m in ahead.members])
        >>> again = Forecast.average(forecasts, weights)
        >>> bool(abs(again.mean - ahead.mean).max() < 1e-6 * ahead.std.min())
        True
        """
        if not self._averaged:
            return () if self._before is None else self._before.members
        return tuple(
            Share(
                forecast.model or f"member {number}",
                forecast,
                pd.Series(weight.copy(), index=self.index, name="weight"),
            )
            for number, (forecast, weight) in enumerate(self._averaged, start=1)
        )

    def _uncalibrated(self) -> Self:
        """The forecast of the bands before, of an average of calibrated ones that of those."""
        if self._before is not None:
            return self._before._uncalibrated()
        members = [member._uncalibrated() for member, _ in self._averaged]
        if all(own is m for own, (m, _) in zip(members, self._averaged, strict=True)):
            return self
        return self.average(members, np.array([weight for _, weight in self._averaged]))


def _flat(members: Iterable[Steps]) -> tuple[str, ...]:
    """How the members were made."""
    names: list[str] = []
    for member in members:
        kind = member._propagation
        names.extend(kind if isinstance(kind, tuple) else [kind or "other"])
    return tuple(names)
