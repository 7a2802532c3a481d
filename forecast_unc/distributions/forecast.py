"""The result of forecasting: the joint distribution of all steps, with their times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from forecast_unc._checks import check_lower, check_whole
from forecast_unc._random import RandomState, generator, one_seed
from forecast_unc._typing import Array
from forecast_unc.distributions import scores
from forecast_unc.distributions.aggregation import aggregate, bounds, score_correlations
from forecast_unc.distributions.check import Check, MappedPaths, Paths, from_moments, from_scores
from forecast_unc.distributions.checked import check_positive, check_symmetric, frozen, numbers
from forecast_unc.distributions.component import Component
from forecast_unc.distributions.diverged import Diverged
from forecast_unc.distributions.export import (
    darts_series,
    gluonts_forecast,
    nixtla_frame,
    summary_frame,
)
from forecast_unc.distributions.fan import fan
from forecast_unc.distributions.grouping import group_weights
from forecast_unc.distributions.marginals import Marginals
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.distributions.parts import (
    Deferred,
    check_parts,
    mapped,
    mapped_parts,
    of_kinds,
    pool_parts,
    stretched,
    variances,
    with_change,
)
from forecast_unc.distributions.pooling import Member, check_weights, pool
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.tail import LEAST_DOF, EmpiricalTail
from forecast_unc.series.values import check_is_series, numeric_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANK_TOLERANCE = 1e-10
"""A negative eigenvalue of the correlations within this fraction of the largest is roundoff."""


class Forecast:
    r"""Joint distribution of the next h values; immutable.

    Every quantity is that of a future observation, noise included, in units of y. What changes a
    forecast returns a new one, computed from the joint distribution: the steps are not
    independent.

    The steps are jointly normal, or so after a ``transform``, or an :meth:`average` of such: each
    an increasing function :math:`y_t = q_t(z_t)` of one of h correlated standard normals z. Then
    mean and median differ, and the point forecast is everywhere the mean.

    Parameters
    ----------
    index : Index of length h
        The times of the steps, increasing: DatetimeIndex, PeriodIndex or RangeIndex.
    mean : array_like of shape (h,)
        Mean, in units of y; with a ``transform``, that of the transformed y.
    cov : array_like of shape (h, h)
        Joint covariance, in squared units of y; with a ``transform``, that of the transformed y.
    parts : mapping of str to array_like of shape (h, h), optional
        What ``cov`` is the sum of, by the names of the columns of :meth:`decompose`, which alone
        needs them. Those left out are zero; what they do not add up to is ``inputs_nonlinear``.
    name : hashable, optional
        Name of the series.
    transform : PowerTransform, optional
        The scale on which the steps are jointly normal: log or Box-Cox, whose values are never
        below its bound. By default that of y itself.
    paths : array_like of shape (h, n), optional
        Sample paths of the model, in units of y, of which ``mean`` and ``cov`` are the moments.
        They are what :meth:`sample` returns and :meth:`aggregate` adds up; all else is of the
        joint normal distribution.
    mixture : NormalMixture, optional
        Joint normal distributions of which one is right, of which ``mean`` and ``cov`` are the
        moments. Quantiles of steps, and of sums of steps without a transform, are those of the
        mixture; paths of :meth:`sample` have its steps and its covariance.

    Raises
    ------
    TypeError
        If ``index`` is not a pandas Index, or ``transform`` not a PowerTransform.
    ValueError
        If shapes do not fit, an entry is not finite, the times do not increase, or ``cov`` is not
        symmetric with a positive diagonal.
    Diverged
        If the variance in units of y is too large for a float, or 0: a ValueError, whose ``step``
        is the first such step, from 1.

    Examples
    --------
    >>> index = pd.period_range("2024-01", periods=2, freq="M")
    >>> ahead = Forecast(index, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]], name="y")
    >>> ahead
    Forecast(name='y', 2024-01 to 2024-02, 2 steps)
    >>> ahead.aggregate("sum").std.item()
    1.7320508075688772
    >>> log = Forecast(index, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]], transform=PowerTransform(0.0))
    >>> log.median.round(2).tolist(), log.mean.round(2).tolist()
    ([2.72, 7.39], [4.48, 12.18])
    """

    __slots__ = (
        "_averaged",
        "_before",
        "_cor",
        "_cov",
        "_index",
        "_marginals",
        "_mean",
        "_mixture",
        "_name",
        "_parts",
        "_paths",
        "_propagation",
        "_sampler",
    )

    def __init__(
        self,
        index: pd.Index[Any],
        mean: ArrayLike,
        cov: ArrayLike,
        *,
        parts: Mapping[str, ArrayLike] | None = None,
        name: Any = None,
        transform: PowerTransform | None = None,
        paths: ArrayLike | None = None,
        mixture: NormalMixture | None = None,
    ) -> None:
        if not isinstance(index, pd.Index):
            raise TypeError(
                f"index must be a pandas Index; got {type(index).__name__}. "
                "Pass pd.RangeIndex(n) for n steps without a date."
            )
        h = len(index)
        if h == 0:
            raise ValueError("index must hold a time; got none. Forecast at least one step.")
        self._index = index.copy()
        later = np.asarray(index[1:] > index[:-1])
        if not later.all():
            at = int(later.argmin())
            raise ValueError(
                f"index must increase; got {self._label(at + 1)} after {self._label(at)}. "
                "Sort the times and drop repeated ones."
            )
        self._name = name
        center = frozen("mean", mean, (h,))
        spread = frozen("cov", cov, (h, h))
        check_positive(spread, self._label)
        std = np.sqrt(spread.diagonal())
        scale = np.outer(std, std)  # the product of variances can overflow
        check_symmetric("cov", spread, scale)
        checked: Mapping[str, Array] | None = None
        if parts is not None:
            checked = parts if isinstance(parts, Deferred) else check_parts(parts, scale)
        if transform is None:
            transform = PowerTransform()
        elif not isinstance(transform, PowerTransform):
            raise TypeError(
                f"transform must be a PowerTransform or None; got {transform!r}. "
                "For a logarithm pass PowerTransform(0.0)."
            )
        plain = transform.power is None
        scale_map, offset = PowerTransform(transform.power), np.full(h, transform.lower)
        component, cor = Component(np.ones(h), scale_map, center, std), spread / scale
        if mixture is not None:
            component = Component(component.weight, scale_map, *mixture.shape())
            cor = score_correlations(
                Marginals([replace(component, transform=PowerTransform())]), spread
            )
        marginals = Marginals([component], None if plain else offset)
        self._settle(marginals, cor, (center, spread) if plain else None)
        self._mixture = mixture if plain else None
        if checked is not None and not plain:
            # The same shares of the variance in units of y.
            stretch = np.outer(self._std / std, self._std / std)
            checked = Deferred(partial(stretched, checked, stretch))
        self._parts = checked
        if paths is not None:
            paths = frozen("paths", paths, (h, *np.shape(paths)[-1:]))
        self._paths: Array | None = paths
        self._made(None, None)

    @classmethod
    def average(cls, forecasts: Sequence[Forecast], weights: ArrayLike | None = None) -> Forecast:
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
        >>> index = pd.RangeIndex(1)
        >>> a, b = Forecast(index, [1.0], [[1.0]]), Forecast(index, [4.0], [[9.0]])
        >>> both = Forecast.average([a, b])
        >>> both.mean.item(), both.std.item()
        (2.5, 2.0)
        """
        members = scores.check_several("forecasts", forecasts, "Forecasts", "[forecast] for one")
        for member in members:
            if not isinstance(member, Forecast):
                raise TypeError(
                    f"forecasts must hold Forecasts; got {type(member).__name__}. "
                    "Pass what Forecaster.forecast returns."
                )
        if not members:
            raise ValueError("forecasts must hold a forecast; got none. Pass one or more.")
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

    def __len__(self) -> int:
        return len(self._mean)

    def __repr__(self) -> str:
        steps = f"{len(self)} step" + "s" * (len(self) > 1)
        return f"Forecast(name={self._name!r}, {self._label(0)} to {self._label(-1)}, {steps})"

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""
        return self._index.copy()  # an Index is immutable, but for its name

    @property
    def name(self) -> Any:
        """Name of the series."""
        return self._name

    @property
    def propagation(self) -> str | tuple[str, ...] | None:
        """How uncertainty was propagated: of an average a tuple, one a member, if not all alike.

        None if the forecast was not made by a model of this package.
        """
        return self._propagation

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step, in units of y: the point forecast."""
        return self._series(self._mean)

    @property
    def median(self) -> pd.Series[float]:
        """Median of each step, in units of y; of a normal distribution, its mean."""
        return self._series(self._quantile(np.zeros(1))[:, 0])

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step, in units of y."""
        return self._series(self._std)

    @property
    def var(self) -> pd.Series[float]:
        """Variance of each step, in squared units of y."""
        return self._series(self._cov.diagonal())

    @property
    def cov(self) -> pd.DataFrame:
        """Joint covariance, steps by steps, in squared units of y."""
        return pd.DataFrame(self._cov.copy(), index=self.index, columns=self.index)

    @property
    def paths(self) -> pd.DataFrame | None:
        """Sample paths of the model, steps by paths, in units of y; None if it drew none.

        A forecast by ``propagation="monte_carlo"`` has them.
        """
        return None if self._paths is None else pd.DataFrame(self._paths.copy(), index=self.index)

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Return the central interval of each step.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability that the interval holds the value, in (0, 1).

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, in units of y. The coverage is that of each step by
            itself: a whole path lies within all of them with a smaller probability. As much
            probability lies below as above.

        Raises
        ------
        TypeError, ValueError
            If ``coverage`` is not a fraction.
        """
        scores.check_coverage(coverage)
        reach = -ndtri(0.5 * (1 - coverage))
        lower, upper = self._quantile(np.array([-reach, reach])).T
        return pd.DataFrame({"lower": lower, "upper": upper}, index=self.index)

    @overload
    def quantile(self, q: float) -> pd.Series[float]: ...
    @overload
    def quantile(self, q: Sequence[float] | Array) -> pd.DataFrame: ...
    def quantile(self, q: float | Sequence[float] | Array) -> pd.Series[float] | pd.DataFrame:
        """Return quantiles of each step.

        Parameters
        ----------
        q : float or sequence of float
            Probability below the quantile, in (0, 1).

        Returns
        -------
        Series or DataFrame
            A Series for one ``q``; for several a DataFrame with the q's as columns. In units of y.

        Raises
        ------
        TypeError, ValueError
            If a ``q`` is not a number, or outside (0, 1), or they are not in one row.
        """
        try:
            levels = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"q must be a number or several; got {q!r}. For the 95 % quantile pass 0.95."
            ) from None
        if levels.ndim > 1:
            raise ValueError(
                f"q must be a number or a sequence of them; got shape {levels.shape}. "
                "For the 95 % quantile pass 0.95."
            )
        wrong = ~((levels > 0) & (levels < 1))
        if wrong.any():
            raise ValueError(
                f"q must lie strictly between 0 and 1; got {levels[wrong].flat[0]:g}. "
                "For the 95 % quantile pass 0.95."
            )
        values = self._quantile(ndtri(np.atleast_1d(levels)))
        if levels.ndim == 0:
            return self._series(values[:, 0])
        return pd.DataFrame(values, index=self.index, columns=levels)

    def sample(self, n: int, random_state: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw paths from the joint distribution.

        A forecast with :attr:`paths` returns some of these, each once, in random order: they have
        the shape of the model's distribution and not only its first two moments.

        Parameters
        ----------
        n : int
            Number of paths; at most as many as there are :attr:`paths`.
        random_state : int, Generator or None, optional
            An int gives the same paths every time.

        Returns
        -------
        DataFrame
            Steps by paths, in units of y. Each column is one coherent future.

        Raises
        ------
        ValueError
            If ``n`` is not a whole number from 1, or more than there are :attr:`paths`, or the
            covariance has an eigenvalue that is negative beyond roundoff.

        Notes
        -----
        The factor is the symmetric square root of the correlation matrix, which exists for a
        singular matrix too. An eigenvalue that is negative by at most 1e-10 of the largest is
        roundoff and counts as zero, which is what numerical rank means; beyond that it raises.
        """
        check_whole("n", n, 1, "It is the number of paths to draw.")
        if self._paths is not None:
            return pd.DataFrame(_picked(self._paths, n, random_state), index=self.index)
        values, vectors = np.linalg.eigh(self._cor)
        if values[0] < -RANK_TOLERANCE * values[-1]:
            raise ValueError(
                f"cov must have no negative eigenvalue; got {values[0]:.3g} against a largest of "
                f"{values[-1]:.3g} (of the correlations), so no path can be drawn. "
                "Fewer steps, or more noise, condition it better."
            )
        root = np.sqrt(np.where(values > 0, values, 0.0))
        # Not V sqrt(D): the signs of eigenvectors, hence the paths of a seed, differ by platform.
        factor = (vectors * root) @ vectors.T
        normals = generator(random_state).standard_normal((len(self), n))
        return pd.DataFrame(self._marginals.quantile(factor @ normals), index=self.index)

    def first(self, n: int) -> Forecast:
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

    def recalibrated(
        self, factor: ArrayLike, *, dof: float | None = None, correlation: float = 0.0
    ) -> Forecast:
        r"""Return the forecast with wider or narrower bands, and other correlations.

        .. math::

            \mu + c \sigma T(z), \qquad
            R' = (1 - |r|) R + |r|\,(I \text{ if } r < 0, \; 1 1' \text{ otherwise})

        for each component of mean mu and std sigma on its scale: medians stay as they are.

        Parameters
        ----------
        factor : array_like of shape (h,)
            What to multiply the widths of the bands by, c, on the scale of a ``transform``.
        dof : float, optional
            Degrees of freedom, from 3, of Student's t in the place of the normal distribution or of
            another t, wherever there is no transform; the 80 % interval stays where it is. Bands of
            :meth:`conformal` keep their shape, and None changes none.
        correlation : float, default=0.0
            r, from -1 for independent steps to 1 for steps that move as one.

        Returns
        -------
        Forecast
            :meth:`decompose` shows what changed as its part ``calibration``. :attr:`paths` are not
            kept: they are those of the bands before.

        Raises
        ------
        TypeError, ValueError
            If a factor is not positive, or an argument outside its range.

        Examples
        --------
        >>> two = Forecast(pd.RangeIndex(2), [5.0, 5.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> wider = two.recalibrated([2.0, 2.0], correlation=-1.0)
        >>> wider.std.tolist(), round(wider.aggregate("sum").std.item(), 6)
        ([2.0, 2.0], 2.828427)
        >>> two.recalibrated([1.0, 1.0], dof=4).interval(0.99).iloc[0].round(2).tolist()
        [1.15, 8.85]
        >>> two.interval(0.99).iloc[0].round(2).tolist()
        [2.42, 7.58]
        """
        factors = frozen("factor", factor, (len(self),))
        if not (factors > 0).all():
            raise ValueError(
                f"factor must be positive; got {factors.min():g}. 1 leaves a step as it is."
            )
        number = isinstance(dof, (int, float, np.number)) and not isinstance(dof, bool)
        if dof is not None and not (number and LEAST_DOF <= dof < np.inf):
            raise ValueError(
                f"dof must be None or a number from {LEAST_DOF:g}; got {dof!r}. None leaves the "
                "shape as it is."
            )
        number = isinstance(correlation, (int, float, np.number))
        if not number or isinstance(correlation, bool) or not -1.0 <= correlation <= 1.0:
            raise ValueError(
                f"correlation must lie between -1 and 1; got {correlation!r}. 0 leaves the "
                "correlations as they are."
            )
        target = np.eye(len(self)) if correlation < 0 else np.ones_like(self._cor)
        cor = (1.0 - abs(correlation)) * self._cor + abs(correlation) * target
        marginals = self._marginals.widened(factors)
        marginals = marginals if dof is None else marginals.with_dof(dof)
        return self._calibrated(marginals, cor)

    def censored(self, lower: float) -> Forecast:
        """Return the forecast of a series that is never below a bound.

        What probability lies below the bound is put at it: max(y, lower) in the place of y. Where
        the series is never below, no quantile is farther from what happens than before.

        Parameters
        ----------
        lower : float
            The bound, in units of y; -inf for none.

        Returns
        -------
        Forecast
            Mean, covariance and parts are those of the censored values, the parts with their
            shares of the variance before; :meth:`check` is that of the forecast before.

        Raises
        ------
        ValueError
            If ``lower`` is not a number below inf.
        Diverged
            If a step is certain to be at the bound.

        Examples
        --------
        >>> sales = Forecast(pd.RangeIndex(1), [1.0], [[4.0]]).censored(0.0)
        >>> sales.interval(0.9).round(2)
           lower  upper
        0    0.0   4.29
        >>> round(sales.mean.item(), 3), sales.median.item()
        (1.396, 1.0)
        """
        check_lower(lower)
        return self._bounded(np.full(len(self), float(lower)))

    def conformal(self, sizes: ArrayLike) -> Forecast:
        """Return the forecast whose bands are those of errors seen before.

        Half the central interval of coverage i / (k + 1) is the i-th smallest of the k sizes of a
        step, in between by straight lines in the normal score, and beyond the largest as for a
        normal distribution that has that quantile. If the next error is exchangeable with those,
        the interval of a step holds it with that probability, whatever the distribution. That
        says nothing of steps together: the correlations are those of the model.

        Parameters
        ----------
        sizes : array_like of shape (h, k)
            Sizes of errors at each step, in units of half the forecast's 68 % band; positive, in
            any order.

        Returns
        -------
        Forecast
            :meth:`decompose` shows what changed as its part ``calibration``.

        Raises
        ------
        TypeError, ValueError
            If there are not as many rows as steps, no size, or one that is not positive.

        Examples
        --------
        >>> one = Forecast(pd.RangeIndex(1), [5.0], [[4.0]])
        >>> bands = one.conformal([[0.5, 3.0, 1.0]])
        >>> bands.interval(0.25), bands.interval(0.75)
        (   lower  upper
        0    4.0    6.0,    lower  upper
        0   -1.0   11.0)
        """
        given = numbers("sizes", sizes)
        k = given.shape[-1] if given.ndim == 2 else 1
        checked = np.sort(frozen("sizes", given, (len(self), k)), axis=1)
        if not k:
            raise ValueError(
                "sizes must hold an error or more of each step; got none. Leave the forecast as it "
                "is without."
            )
        if not (checked > 0).all():
            raise ValueError(
                f"sizes must be positive; got {checked.min():g}. Leave out errors of 0."
            )
        marginals = self._marginals.shaped(EmpiricalTail.of(checked))
        return self._calibrated(marginals, self._cor)

    def aggregate(self, how: str | ArrayLike = "sum", freq: str | None = None) -> Forecast:
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
                f"{sums[1][at]:g} at {_label(labels, at)}. Divide the series by a constant."
            )
        result = self._aggregated(matrix, labels)
        before = None if self._before is None else self._before._uncalibrated()
        if before is not None and before._sampler is not None:
            result._before = before._aggregated(matrix, labels)
        return result

    def _aggregated(self, matrix: Array, labels: pd.Index[Any]) -> Forecast:
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

    def condition(self, observed: pd.Series[float]) -> Forecast:
        r"""Return the forecast of the remaining steps once some values are known.

        .. math:: B z_o, \quad R_{rr} - B R_{or}, \quad B = R_{ro} R_{oo}^{-1}

        are the mean and covariance of the remaining normal scores z, given those observed; of
        normal steps z is (y - mean) / std.

        The model is not refitted: this is what the forecast itself implies. How much of the
        variance that is left comes from noise, function or inputs is not defined, so the result has
        no :meth:`decompose`; nor has it :attr:`paths`, since none goes through the values.

        Parameters
        ----------
        observed : Series
            Values at some of the forecast's times, in any order, in units of y.

        Returns
        -------
        Forecast
            The steps that were not observed.

        Raises
        ------
        TypeError
            If ``observed`` is not a Series.
        ValueError
            If a time is not one of the forecast's or occurs twice, a value is not finite, no step
            is left, the forecast gives a value no density (a negative one after a log), or the
            observed steps determine each other under the joint distribution.
        """
        observed = check_is_series(observed, "observed")
        values = numeric_values(observed, "observed")
        at = self._index.get_indexer(observed.index)
        for wrong, rule, got, remedy in (
            (at < 0, "lie at the forecast's times", "", f"They are {self!r}."),
            (observed.index.duplicated(), "hold each time once", " twice", "Keep one value."),
            (~np.isfinite(values), "be finite", " not finite", "Leave out what is not known."),
        ):
            if wrong.any():
                first = observed.index[int(wrong.argmax())]
                raise ValueError(f"observed must {rule}; got {first}{got}. {remedy}")
        rest = np.setdiff1d(np.arange(len(self)), at)
        if rest.size == 0:
            raise ValueError(
                f"observed must leave a step to forecast; got all {len(self)}. Leave one out."
            )
        if not at.size:
            return self
        cor = self._cor[np.ix_(at, at)]
        eigenvalues = np.linalg.eigvalsh(cor)
        # Beyond 1e12 the coefficients would keep fewer than four digits.
        if eigenvalues[0] < 1e-12 * eigenvalues[-1]:
            raise ValueError(
                "observed must hold steps that do not determine each other; got correlations "
                f"with eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}. "
                "Leave some of them out."
            )
        known = self._marginals.picked(at)
        z = known.normal_score(values)
        wrong = ~np.isfinite(known.nlpd(values)) | known.atom(values)
        if wrong.any():
            first = int(wrong.argmax())
            raise ValueError(
                f"observed must hold values of positive density; got {values[first]:g} at "
                f"{observed.index[first]}, which the forecast excludes or lumps together. "
                "Leave it out."
            )
        cross = self._cor[np.ix_(rest, at)]
        gain = np.linalg.solve(cor, cross.T).T
        left = self._cor[np.ix_(rest, rest)] - gain @ cross.T
        left = 0.5 * (left + left.T)  # the product is symmetric but for roundoff
        index = self._index.delete(np.sort(at))
        if self._mixture is not None:
            known_now = self._mixture.conditioned(at, values, rest)
            free = Forecast(
                index, known_now.mean, known_now.cov, name=self._name, mixture=known_now
            )
            return free._bounded(self._marginals.lower[rest])
        check_positive(left, lambda at: _label(index, at))
        std = np.sqrt(left.diagonal())
        marginals = self._marginals.picked(rest).conditioned(gain @ z, std)
        return self._of(index, marginals, left / np.outer(std, std), self._name)

    def decompose(self, *, by_kind: bool = False) -> pd.DataFrame:
        r"""Return where the variance of each step comes from.

        Each value is :math:`y_t = a_t \cdot z + e_t + \varepsilon_t`, to first order: its inputs z
        (earlier values and regressors) passed on by the mean slope of the function, the error e of
        the function at the mean inputs, and noise. The parts of its variance are

        - ``noise``: :math:`\mathrm{Var}\,\varepsilon_t`, the noise of the step itself;
        - ``noise_observation``: of the error of its observation, which no later step has;
        - ``function_own``: :math:`\mathrm{Var}\,e_t`, the posterior variance of the function;
        - ``function_shared``: :math:`2\,\mathrm{Cov}(e_t, a_t \cdot z)`, as it is one and the same
          function that brought the inputs about; negative if the errors compensate;
        - ``inputs_propagated``: of :math:`a_t \cdot z`, what noise and function of earlier steps
          brought into it;
        - ``inputs_missing``: of missing or noisy values before the first step, through all steps;
        - ``inputs_regressors``: of uncertain regressors, through all steps;
        - ``inputs_nonlinear``: the rest, by which the step's variance differs from that of this
          linear recursion, as the function and its variance change over the uncertain inputs; may
          be negative;
        - ``hyperparameters``: of a mixture over hyper-parameters that are not known, the variance
          of its means; the other parts are averaged over it;
        - ``members``: of an average, what its variance is less than the average variance of its
          members. Averaging quantiles averages stds: never positive, and 0 if the members are
          equally wide, wherever they lie;
        - ``calibration``: what rescaling added.

        After a transform the parts have the shares that they have of the variance on its scale; in
        a sum over such steps the curvature of the transform is in ``inputs_nonlinear``. Parts of
        a sum contain the covariances between its steps: of ``function_shared`` that of the error at
        a step with the earlier values, of ``inputs_propagated`` that of the inputs with these.

        Parameters
        ----------
        by_kind : bool, default=False
            Add up the parts of a kind: columns ``noise``, ``function``, ``inputs``,
            ``hyperparameters``, ``members`` and ``calibration``.

        Returns
        -------
        DataFrame
            One column a part, in squared units of y, those that do not apply zero. They add up
            to the variance.

        Raises
        ------
        ValueError
            If the forecast was made without its parts, or by :meth:`condition`.
        """
        if self._parts is None:
            raise ValueError(
                "decompose must be called on a forecast that knows its parts; got none. "
                "Build it with parts; a forecast by a regressor that predicts "
                "a std alone, or what is left after `condition` has no such split."
            )
        parts = variances(self._parts, self._cov)
        return pd.DataFrame(of_kinds(parts) if by_kind else parts, index=self.index)

    def check(self, n_samples: int = 500, random_state: RandomState = None) -> Check:
        """Compare with sample paths of the same model, each of one function.

        The paths are those of ``propagation="monte_carlo"`` with ``path_consistent=True``: free of
        the joint Gaussian that closed forms keep to, up to their sampling error.

        Parameters
        ----------
        n_samples : int, default=500
            Paths, from 100. More find smaller errors, and take longer: 500 see 20 % of a std.
        random_state : int, Generator or None, optional
            An int gives the same paths, hence the same verdict, every time.

        Returns
        -------
        Check
            Errors of mean and std in Monte Carlo errors, the shape of the paths and a verdict. An
            average is compared with that of its members, each with the moments of its own paths,
            and lists their verdicts; its shape is the weighted one of theirs. Of a calibrated
            forecast it is that of the bands before.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a whole number from 100, the forecast does not know its model
            (one built by hand, after :meth:`condition`, or an aggregate of an average), or a path
            diverges.
        """
        check_whole("n_samples", n_samples, 100, "500 is a good start.")
        return self._checked(n_samples, one_seed(random_state))[0]

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return mean, standard error and interval, named as statsmodels names them.

        Parameters
        ----------
        alpha : float, default=0.05
            Probability outside the interval, in (0, 1): one minus its coverage.

        Returns
        -------
        DataFrame
            Columns ``mean``, ``mean_se`` (the std), ``mean_ci_lower`` and ``mean_ci_upper`` (the
            central interval), in units of y.

        Raises
        ------
        ValueError
            If ``alpha`` is outside (0, 1).
        """
        return summary_frame(self, alpha)

    def to_nixtla(
        self, levels: Sequence[float] = (80, 95), unique_id: str | None = None
    ) -> pd.DataFrame:
        """Return the long table that Nixtla's libraries exchange.

        Parameters
        ----------
        levels : sequence of float, default=(80, 95)
            Coverages in percent, from 1 to below 100, as these libraries count them.
        unique_id : str, optional
            Name of the series in the table; by default its own, or "y".

        Returns
        -------
        DataFrame
            Columns ``unique_id``, ``ds`` (a period is written as its first instant),
            ``forecast_unc`` (the mean), then ``forecast_unc-lo-95``, ``-lo-80``, ``-hi-80``,
            ``-hi-95``.

        Raises
        ------
        TypeError, ValueError
            If a level is not a percentage.
        """
        return nixtla_frame(self, levels, unique_id)

    def to_darts(self, n_samples: int = 500, random_state: RandomState = None) -> Any:
        """Return sample paths as a ``TimeSeries`` of darts, one component, a sample a path.

        Parameters
        ----------
        n_samples : int, default=500
            Number of paths.
        random_state : int, Generator or None
            Seed of :meth:`sample`.

        Returns
        -------
        darts.TimeSeries
            Periods as their first instants.

        Raises
        ------
        ImportError
            If darts is not installed.
        """
        return darts_series(self, n_samples, random_state)

    def to_gluonts(self, n_samples: int = 500, random_state: RandomState = None) -> Any:
        """Return sample paths as a ``SampleForecast`` of GluonTS.

        Parameters
        ----------
        n_samples : int, default=500
            Number of paths.
        random_state : int, Generator or None
            Seed of :meth:`sample`.

        Returns
        -------
        gluonts.model.forecast.SampleForecast
            Dates as periods of their frequency, without a time zone.

        Raises
        ------
        ImportError
            If GluonTS is not installed.
        TypeError
            If the times are whole numbers.
        """
        return gluonts_forecast(self, n_samples, random_state)

    def score(self, actual: pd.Series[float], coverage: float = 0.95) -> pd.DataFrame:
        """Score each step against what happened.

        Parameters
        ----------
        actual : Series
            What happened, in units of y, at the forecast's times and perhaps others. NaN is
            taken as not observed.
        coverage : float, default=0.95
            Coverage of the interval that is scored, in (0, 1).

        Returns
        -------
        DataFrame
            One row a step: ``error`` (actual - mean), ``crps``, ``nlpd``, ``interval_score`` and
            ``pit``, as in the module ``scores``; NaN where ``actual`` is. Where the forecast
            excludes a value, as a log does zero, ``nlpd`` is inf; at a zero of positive
            probability it is minus the log of that.

        Raises
        ------
        TypeError
            If ``actual`` is not a Series.
        ValueError
            If ``actual`` lacks one of the forecast's times or has one twice.
        """
        y = self._observed(actual)
        if self._marginals.normal:
            normal = y, self._mean, self._std
            crps, nlpd, pit = scores.crps(*normal), scores.nlpd(*normal), scores.pit(*normal)
        else:
            steps = self._marginals
            crps, nlpd, pit = steps.crps(y), steps.nlpd(y), steps.pit(y)
        band = self.interval(coverage)
        return pd.DataFrame(
            {
                "error": y - self._mean,
                "crps": crps,
                "nlpd": nlpd,
                "interval_score": scores.interval_score(y, band["lower"], band["upper"], coverage),
                "pit": pit,
            },
            index=self.index,
        )

    def energy_score(
        self,
        actual: pd.Series[float],
        n_samples: int = 1000,
        random_state: int | np.random.Generator | None = None,
    ) -> float:
        """Score all steps at once, correlation included; lower is better.

        Parameters
        ----------
        actual : Series
            What happened, in units of y, at the forecast's times and perhaps others.
        n_samples : int, default=1000
            Paths drawn, or all :attr:`paths` if there are fewer; the time grows with their square.
        random_state : int, Generator or None, optional
            An int gives the same paths, hence the same score, every time.

        Returns
        -------
        float
            :func:`scores.energy_score` of the paths, in units of y; NaN if ``actual`` is NaN
            at a step.

        Raises
        ------
        TypeError
            If ``actual`` is not a Series.
        ValueError
            If ``actual`` lacks one of the forecast's times or has one twice, or no paths can be
            drawn.
        """
        check_whole("n_samples", n_samples, 2, "1000 is a good start.")
        if self._paths is not None:
            n_samples = min(n_samples, self._paths.shape[1])
        y = self._observed(actual)
        return scores.energy_score(y, self.sample(n_samples, random_state).to_numpy().T)

    def plot(
        self,
        history: pd.Series[float] | None = None,
        coverage: Sequence[float] = (0.5, 0.8, 0.95),
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the mean and nested central intervals.

        The line is the mean, the point forecast of every table. Of a skewed forecast it is not the
        middle of the bands, and can leave a narrow one; the middle is :attr:`median`.

        Parameters
        ----------
        history : Series, optional
            Past values to draw before the forecast; pass the last few seasons only.
        coverage : sequence of float, default=(0.5, 0.8, 0.95)
            Coverages of the intervals, in (0, 1).
        ax : Axes, optional
            Where to draw; by default the current axes.

        Returns
        -------
        Axes
            The axes drawn on. The legend stands above them, where it hides nothing: a title
            needs room, ``set_title("...", pad=30)``.
        """
        return fan(self, coverage, history=history, ax=ax)

    def _made(self, propagation: str | tuple[str, ...] | None, paths: Paths | None) -> Self:
        """Note how it was made, before anyone else sees it."""
        self._propagation, self._sampler = propagation, paths
        self._averaged: tuple[tuple[Forecast, Array], ...] = ()
        self._before: Forecast | None = None
        return self

    def _checked(self, n_samples: int, seed: int | None) -> tuple[Check, Forecast]:
        """The check, and this forecast with the moments of its paths."""
        before = self._uncalibrated()
        if before is not self:
            return before._checked(n_samples, seed)
        labels = [self._label(at) for at in range(len(self))]
        if self._averaged:
            return self._checked_average(labels, n_samples, seed)
        if self._sampler is None:
            raise ValueError(
                "check must be called on a forecast that knows its model; got one that does not. "
                "Check what Forecaster.forecast returns: a forecast built by hand, what is left "
                "after `condition`, or the aggregate of an average have no sample paths."
            )
        (component,) = self._marginals.components
        paths = self._sampler(n_samples, seed) - self._marginals.offset
        scores = component.normal_score(paths)
        check = from_scores(labels, scores, component.std, self._cor, _one_name(self._propagation))
        std = scores.std(axis=0)
        marginals = self._marginals.conditioned(scores.mean(axis=0), std)
        cor = np.atleast_2d(np.cov(scores, rowvar=False, bias=True)) / np.outer(std, std)
        return check, self._of(self._index, marginals, cor, self._name)

    def _uncalibrated(self) -> Forecast:
        """The forecast of the bands before, of an average of calibrated ones that of those."""
        if self._before is not None:
            return self._before._uncalibrated()
        members = [member._uncalibrated() for member, _ in self._averaged]
        if all(own is m for own, (m, _) in zip(members, self._averaged, strict=True)):
            return self
        return Forecast.average(members, np.array([weight for _, weight in self._averaged]))

    def _checked_average(
        self, labels: list[str], n_samples: int, seed: int | None
    ) -> tuple[Check, Forecast]:
        """The same of an average: that of its members, with the moments of their paths."""
        checks, sampled = zip(
            *(member._checked(n_samples, seed) for member, _ in self._averaged), strict=True
        )
        weights = np.array([w for _, w in self._averaged])
        average = Forecast.average(sampled, weights)
        shares = np.zeros_like(weights)
        for row, (member, weight) in zip(shares, self._averaged, strict=True):
            row[: len(member)] = weight[: len(member)] * member._spread()[1]
        shares /= shares.sum(axis=0)
        kind = _one_name(self._propagation)
        both = (*self._spread(), self._cor), (*average._spread(), average._cor)
        return from_moments(labels, *both, checks, shares, kind), average

    def _spread(self) -> tuple[Array, Array]:
        """Median and half the distance of the quantiles at z = -1 and 1, (h,); std if normal."""
        low, center, high = self._quantile(np.array([-1.0, 0.0, 1.0])).T
        return center, 0.5 * (high - low)

    @property
    def _std(self) -> Array:
        return np.sqrt(self._cov.diagonal())

    def _series(self, values: Array) -> pd.Series[float]:
        return pd.Series(values.copy(), index=self.index, name=self._name)

    def _quantile(self, z: Array) -> Array:
        """Quantiles (h, n) at n normal scores."""
        return self._marginals.quantile(z[None])

    def _label(self, position: int) -> str:
        return _label(self._index, position)

    def _observed(self, actual: pd.Series[float]) -> Array:
        """What happened at each step, (h,)."""
        actual = check_is_series(actual, "actual")
        values = numeric_values(actual, "actual")
        if not actual.index.is_unique:
            first = actual.index[actual.index.duplicated()][0]
            raise ValueError(f"actual must hold each time once; got {first} twice. Keep one value.")
        at = actual.index.get_indexer(self._index)
        if (at < 0).any():
            raise ValueError(
                f"actual must hold each of the forecast's times; got no "
                f"{self._label(int((at < 0).argmax()))}. Pass NaN for what was not observed."
            )
        return np.asarray(values[at])

    @classmethod
    def _of(
        cls,
        index: pd.Index[Any],
        marginals: Marginals,
        cor: Array,
        name: Any,
        moments: tuple[Array, Array] | None = None,
    ) -> Self:
        """Forecast of given marginals and correlations of their normal scores, without parts."""
        forecast = cls.__new__(cls)
        forecast._index, forecast._name = index.copy(), name
        forecast._parts = forecast._paths = forecast._mixture = None
        forecast._settle(marginals, cor, moments)
        return forecast._made(None, None)

    def _settle(
        self, marginals: Marginals, cor: Array, moments: tuple[Array, Array] | None
    ) -> None:
        """Set the marginals of the steps and their moments, which may be known already."""
        self._marginals, self._cor = marginals, cor
        self._mean, self._cov = moments or (marginals.mean(), marginals.covariance(cor))
        # Up to the diagonal: a step is not to blame for the covariance with a later one.
        finite = np.isfinite(self._mean) & np.isfinite(np.tril(self._cov)).all(axis=1)
        fails = ~finite | (self._cov.diagonal() <= 0)
        if fails.any():
            at = int(fails.argmax())
            low, high = marginals.quantile(np.array([[-2.0, 2.0]]))[at]
            raise Diverged(
                f"cov must leave each step a positive, finite variance; got none at "
                f"{self._label(at)}, where 95 % of y lie from {low:.3g} to {high:.3g}. The "
                "transformed forecast has diverged, or is certain to be at its bound: ask for "
                "fewer steps, difference the transformed series, or use no transform or bound; if "
                "its values are this large, divide the series by a constant.",
                step=at + 1,
            )
        for array in (self._cor, self._mean, self._cov):
            array.setflags(write=False)

    def _map(self, matrix: Array, index: pd.Index[Any]) -> Forecast:
        """Normal forecast of ``matrix @ y``; the parts follow the same map."""
        return Forecast(
            index,
            matrix @ self._mean,
            mapped(matrix, self._cov),
            parts=self._mapped_parts(matrix),
            name=self._name,
            paths=self._mapped_paths(matrix),
            mixture=None if self._mixture is None else self._mixture.mapped(matrix),
        )

    def _mapped_parts(self, matrix: Array) -> Mapping[str, Array] | None:
        """Parts of ``matrix @ y``, if those of y are known."""
        return None if self._parts is None else Deferred(partial(mapped_parts, self._parts, matrix))

    def _calibrated(self, marginals: Marginals, cor: Array) -> Self:
        """Return it with other distributions; what its covariance gains is one more part."""
        changed = self._of(self._index, marginals, cor, self._name)._made(self._propagation, None)
        changed._before = self
        if self._parts is not None:
            make = partial(with_change, self._parts, "calibration", self._cov, changed._cov)
            changed._parts = Deferred(make)
        return changed

    def _bounded(self, lower: Array) -> Forecast:
        """Forecast censored at the bounds (h,), -inf for none; see `censored`."""
        marginals = self._marginals.censored(lower)
        if np.array_equal(marginals.lower, self._marginals.lower):
            return self
        near = bool(marginals.bitten.any())
        moments = None if near else (self._mean, self._cov)
        result = self._of(self._index, marginals, self._cor, self._name, moments)
        result._made(self._propagation, None)._before = self
        result._mixture = None if near else self._mixture
        if self._paths is not None:
            result._paths = np.maximum(self._paths, lower[:, None])
        if self._parts is not None:
            growth = result._std / self._std
            result._parts = Deferred(partial(stretched, self._parts, np.outer(growth, growth)))
        return result

    def _width(self, coverage: float) -> Array:
        """Widths of the central intervals without the bound, (h,)."""
        reach = -ndtri(0.5 * (1 - coverage))
        lower, upper = self._marginals.latent_quantile(np.array([[-reach, reach]])).T
        return np.asarray(upper - lower)

    def _mapped_paths(self, matrix: Array) -> Array | None:
        """Paths of ``matrix @ y``, if those of y are kept."""
        return None if self._paths is None else matrix @ self._paths


def _flat(members: Iterable[Forecast]) -> tuple[str, ...]:
    """How the members were made."""
    names: list[str] = []
    for member in members:
        kind = member._propagation
        names.extend(kind if isinstance(kind, tuple) else [kind or "other"])
    return tuple(names)


def _one_name(propagation: str | tuple[str, ...] | None) -> str:
    """The name for a verdict; of several, that of the most costly."""
    names = propagation if isinstance(propagation, tuple) else (propagation or "exact",)
    costly = [name for name in ("monte_carlo", "mixture") if name in names]
    return costly[0] if costly else names[0]


def _label(index: pd.Index[Any], position: int) -> str:
    return str(index.astype(str)[position])


def _picked(paths: Array, n: int, random_state: RandomState) -> Array:
    """So many of the paths (h, n_paths), each once, in random order."""
    if n > paths.shape[1]:
        raise ValueError(
            f"n must be at most the number of the forecast's paths, {paths.shape[1]}; got {n}. "
            f"Forecast with n_samples={n}."
        )
    return np.asarray(paths[:, generator(random_state).permutation(paths.shape[1])[:n]])
