"""Sums, means and extremes of steps."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from forecast_unc._typing import Array
from forecast_unc.distributions.aggregation import aggregate, bounds
from forecast_unc.distributions.check import MappedPaths
from forecast_unc.distributions.checked import frozen
from forecast_unc.distributions.extremes import extremes, marginals_of_paths, paths_at
from forecast_unc.distributions.grouping import group_weights
from forecast_unc.distributions.joint_scores import fixed_scores
from forecast_unc.distributions.mirrored import Mirrored
from forecast_unc.distributions.parts import mapped
from forecast_unc.distributions.rescaled import Rescaled
from forecast_unc.distributions.steps import time_label


class Aggregated(Rescaled):
    """Steps that can be added up, or compared."""

    __slots__ = ()

    def aggregate(self, how: str | ArrayLike = "sum", freq: str | None = None) -> Self:
        """Return the forecast of a sum, mean or weighted sum of the steps.

        The joint covariance is used. Adding up the variances instead would take the steps for
        independent, and adding up the ends of intervals would take them for one and the same.
        :attr:`paths` are added up one by one, but :meth:`prob` and the like of the sum are those of
        its mean and variance: the share of paths is ``(ahead.paths.sum() > x).mean()``.

        The largest or smallest value has no closed form. It is that of paths: the forecast's own,
        if it has :attr:`paths`, or 65,536 that are spread evenly over its joint distribution (fewer
        beyond 128 steps), the same every time. The probability that some step exceeds x is
        ``aggregate("max").prob(lower=x)``, right to about .002; of a conformal forecast, or with
        1000 paths of its own, to .02.

        Of normal steps the aggregate is normal. Otherwise its mean and variance are exact and its
        shape is an approximation: that of the same transform with those moments (of logs, the
        lognormal of Fenton and Wilkinson), never negative, if no weight is negative; a normal
        distribution if one is. The covariance of the groups is exact, too, as far as such shapes
        can have it.

        Parameters
        ----------
        how : {"sum", "mean", "max", "min"} or array_like of shape (h,), default="sum"
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
            the index, an extreme is the same in all
            paths, or a variance of the result is too large for a float.

        Examples
        --------
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
        >>> two = Forecast(pd.RangeIndex(2), [1.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> two.prob(lower=2.0).round(2).tolist()
        [0.16, 0.16]
        >>> two.aggregate("max").prob(lower=2.0).round(2).item()
        0.25
        """
        if isinstance(how, str) and how in ("max", "min"):
            return self._extreme(how == "max", freq)
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

    def _extreme(self, largest: bool, freq: str | None) -> Self:
        """Forecast of the largest or smallest value of each group."""
        if isinstance(self._marginals, Mirrored):
            return -(-self)._extreme(not largest, freq)
        labels, matrix = group_weights(self._index, "sum", freq)
        groups = matrix > 0
        if len(groups) == len(self):
            return self.aggregate("sum", freq)
        paths = self._paths
        if paths is None:
            self._eigen()
            paths = paths_at(self._marginals, fixed_scores(self._cor))
        values = extremes(paths, groups, largest)
        certain = (values == values[:, :1]).all(axis=1)
        if certain.any():
            at = int(certain.argmax())
            raise ValueError(
                "how must leave what is uncertain; got an extreme that is the same in all "
                f"{values.shape[1]} paths at {time_label(labels, at)}, as at a bound. "
                "It is as good as certain: take fewer steps, or the sum."
            )
        lower = extremes(self._marginals.lower[:, None], groups, largest)[:, 0]
        marginals, cor = marginals_of_paths(values, lower)
        moments = values.mean(axis=1), np.atleast_2d(np.cov(values))
        result = self._of(labels, marginals, cor, self._name, moments)
        result._paths = frozen("paths", values, values.shape)
        return result._made(self._propagation, None)

    def _aggregated(self, matrix: Array, labels: pd.Index[Any]) -> Self:
        """Forecast of ``matrix @ y``; see `aggregate`."""
        paths = None if self._sampler is None else MappedPaths(self._sampler, matrix)
        negative = bool((matrix < 0).any())
        if isinstance(self._marginals, Mirrored) and self._mixture is None and not negative:
            return -(-self)._aggregated(matrix, labels)
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
