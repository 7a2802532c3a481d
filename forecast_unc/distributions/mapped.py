"""Some of the steps, and sums of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from forecast_unc._checks import check_whole
from forecast_unc._typing import Array
from forecast_unc.distributions.aggregation import aggregate, bounds
from forecast_unc.distributions.check import MappedPaths
from forecast_unc.distributions.grouping import group_weights
from forecast_unc.distributions.parts import mapped
from forecast_unc.distributions.rescaled import Rescaled
from forecast_unc.distributions.steps import time_label


class Mapped(Rescaled):
    """Steps that can be picked and added up."""

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
        if n >= len(self):
            return self
        at = np.arange(n)
        marginals, matrix = self._marginals.picked(at), np.eye(n, len(self))
        moments = None if self._mixture is None else (self._mean[:n], self._cov[:n, :n])
        result = self._of(self._index[:n], marginals, self._cor[:n, :n], self._name, moments)
        result._parts, result._paths = self._mapped_parts(matrix), self._mapped_paths(matrix)
        result._mixture = None if self._mixture is None else self._mixture.mapped(matrix)
        sampler = None if self._sampler is None else MappedPaths(self._sampler, matrix)
        result._made(self._propagation, sampler)
        kept = ((m, weight[:n]) for m, weight in self._averaged if weight[:n].any())
        result._averaged = tuple((m.first(n), weight) for m, weight in kept)
        result._before = None if self._before is None else self._before.first(n)
        return result

    def aggregate(self, how: str | ArrayLike = "sum", freq: str | None = None) -> Self:
        """Return the forecast of a sum, mean or weighted sum of the steps.

        The joint covariance is used. Adding up the variances instead would take the steps for
        independent, and adding up the ends of intervals would take them for one and the same.
        :attr:`paths` are added up one by one.

        Of normal steps the aggregate is normal. Otherwise its mean and variance are exact and its
        shape is an approximation: that of the same transform with those moments (of logs, the
        lognormal of Fenton and Wilkinson), never negative, if no weight is negative; a normal
        distribution if one is. The covariance of the groups is exact, too, as far as such shapes
        can have it.

        Parameters
        ----------
        how : {"sum", "mean"} or array_like of shape (h,), default="sum"
            Weights give any linear combination: ``[-1, 0, 1]`` the change from step 1 to step 3.
        freq : str, optional
            Frequency of the groups, as for :meth:`pandas.Series.resample`, ``"YE"``; of a
            PeriodIndex, a plain one whose periods hold whole periods of it, ``"Y"``. None is one
            group.

        Returns
        -------
        Forecast
            One step a group, at the label that pandas gives it; without ``freq``, at the last
            time. A group at either end has only the steps that were forecast: a year that began
            before the forecast is not whole.

        Raises
        ------
        TypeError, ValueError
            If the weights are not h finite numbers, all zero within a group, ``freq`` does not suit
            the index, or a variance of the result is too large for a float.
        """
        labels, matrix = group_weights(self._index, how, freq)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = matrix @ self._mean, mapped(matrix, self._cov).diagonal()
        wrong = ~np.isfinite(sums).all(axis=0)
        if wrong.any():
            at = int(wrong.argmax())
            raise ValueError(
                "how must give a mean and a variance that fit a float; got a variance of "
                f"{sums[1][at]:g} at {time_label(labels, at)}. Divide the series by a constant."
            )
        result = self._aggregated(matrix, labels)
        before = None if self._before is None else self._before._uncalibrated()
        if before is not None and before._sampler is not None:
            result._before = before._aggregated(matrix, labels)
        return result

    def _aggregated(self, matrix: Array, labels: pd.Index[Any]) -> Self:
        """Forecast of ``matrix @ y``; see `aggregate`."""
        paths = None if self._sampler is None else MappedPaths(self._sampler, matrix)
        negative = bool((matrix < 0).any())
        if self._marginals.normal or self._mixture is not None or negative:
            result = self._map(matrix, labels)
            if not negative:
                result = result._bounded(bounds(matrix, self._marginals.lower))
            return result._made(self._propagation, paths)
        marginals, cor = aggregate(self._marginals, self._cor, matrix)
        result = self._of(labels, marginals, cor, self._name)
        result._parts = self._mapped_parts(matrix)
        result._paths = self._mapped_paths(matrix)
        return result._made(self._propagation, paths)

    def _map(self, matrix: Array, index: pd.Index[Any]) -> Self:
        """Normal forecast of ``matrix @ y``; the parts follow the same map."""
        return type(self)(
            index,
            matrix @ self._mean,
            mapped(matrix, self._cov),
            parts=self._mapped_parts(matrix),
            name=self._name,
            paths=self._mapped_paths(matrix),
            mixture=None if self._mixture is None else self._mixture.mapped(matrix),
        )
