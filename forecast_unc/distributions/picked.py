"""Some of the steps, and the steps in other units."""

from __future__ import annotations

from datetime import datetime
from numbers import Real
from typing import Self

import numpy as np
import pandas as pd

from forecast_unc._checks import check_whole
from forecast_unc.distributions.check import MappedPaths
from forecast_unc.distributions.grouping import positions
from forecast_unc.distributions.mirrored import affine
from forecast_unc.distributions.steps import Steps


class Picked(Steps):
    """Steps that can be picked, scaled and shifted."""

    __slots__ = ()

    def first(self, n: int) -> Self:
        """Return the forecast of the first steps.

        Parameters
        ----------
        n : int
            Number of steps; more than there are leaves them as they are.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError
            If ``n`` is not a whole number from 1.
        """
        check_whole("n", n, 1, "It is the number of steps to keep.")
        return self if n >= len(self) else self._each(slice(0, n))

    def __getitem__(self, key: slice | str | datetime | pd.Period) -> Self:
        """Return the forecast of some of the steps, as pandas picks them from a Series.

        Parameters
        ----------
        key : slice or time
            Positions, ``ahead[:6]``; times, ``ahead["2027-03":"2027-06"]``, the end included; or
            one time or period, ``ahead["2027"]``, which may hold several steps.

        Returns
        -------
        Forecast

        Raises
        ------
        TypeError
            If the key is a number, which could be a position or a time.
        KeyError
            If there is no such step, or the key turns their order around.
        """
        part = positions(self._index, key)
        return self if part == slice(0, len(self), 1) else self._each(part)

    __iter__ = None  # or Python, and numpy with it, would go through positions

    # A Series or an array on the left leaves the operation to this class, which refuses it.
    __array_ufunc__ = None
    __pandas_priority__ = 10_000

    def __neg__(self) -> Self:
        return self._each(slice(0, len(self)), -1.0)

    def __add__(self, other: float) -> Self:
        return self._each(slice(0, len(self)), shift=_number(other))

    def __sub__(self, other: float) -> Self:
        return self + -_number(other)

    def __rsub__(self, other: float) -> Self:
        return -self + other

    def __mul__(self, other: float) -> Self:
        factor = _number(other)
        if factor == 0:
            raise ValueError(
                "a forecast must be multiplied by a number other than 0; got 0. The product would "
                "be certain."
            )
        return self._each(slice(0, len(self)), factor)

    def __truediv__(self, other: float) -> Self:
        divisor = _number(other)
        if divisor == 0:
            raise ZeroDivisionError("a forecast must be divided by a number other than 0; got 0.")
        return self * (1.0 / divisor)

    __radd__, __rmul__ = __add__, __mul__

    def _each(self, part: slice, factor: float = 1.0, shift: float = 0.0) -> Self:
        """Forecast of ``factor * y + shift`` at some of the steps, counted from 0."""
        at = np.arange(len(self))[part]
        marginals, moments = self._marginals.picked(at), (self._mean[at], self._cov[np.ix_(at, at)])
        if (factor, shift) != (1.0, 0.0):
            marginals = affine(marginals, factor, shift)
            with np.errstate(over="ignore"):
                moments = factor * moments[0] + shift, np.square(factor) * moments[1]
        cor, matrix = self._cor[np.ix_(at, at)], factor * np.eye(len(self))[at]
        result = self._of(self._index[part], marginals, cor, self._name, moments)
        result._parts = self._mapped_parts(matrix)
        result._paths = None if self._paths is None else factor * self._paths[at] + shift
        result._mixture = None if self._mixture is None else self._mixture.mapped(matrix, shift)
        sampler = None if self._sampler is None else MappedPaths(self._sampler, matrix, shift)
        result._made(self._propagation, sampler, self._model)
        result._averaged = tuple(
            (member._each(part, factor, shift), weight[at])
            for member, weight in self._averaged
            if weight[at].any()
        )
        if self._before is not None:
            result._before = self._before._each(part, factor, shift)
        return result


def _number(value: object) -> float:
    """A finite number, or an error."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"a forecast must be combined with a number; got {type(value).__name__}. For sums of "
            "its steps call `aggregate`; forecasts of different series have no joint distribution."
        )
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(
            f"a forecast must be combined with a finite number; got {number}. Leave it out."
        )
    return number
