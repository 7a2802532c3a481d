"""The result of forecasting: the joint distribution of all steps, with their times."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from forecast_unc._checks import (
    RandomState,
    check_coverage,
    check_lower,
    check_positive,
    check_several,
    check_symmetric,
    check_whole,
    frozen,
    generator,
    numbers,
    one_seed,
    refusal,
)
from forecast_unc._typing import Array
from forecast_unc.distributions import scores
from forecast_unc.distributions.average import average, check_weights
from forecast_unc.distributions.check import Check, check_average, check_model
from forecast_unc.distributions.condition import condition, reach_of_all
from forecast_unc.distributions.joint import Diverged, Draw, Joint
from forecast_unc.distributions.links import LEAST_DOF
from forecast_unc.distributions.mixture import NormalMixture
from forecast_unc.distributions.parts import Deferred, check_parts, mapped, of_kinds, variances
from forecast_unc.distributions.picture import fan
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.sums import extreme, linear
from forecast_unc.distributions.tables import (
    darts_series,
    gluonts_forecast,
    nixtla_frame,
    summary_frame,
)
from forecast_unc.series.times import group_weights, positions
from forecast_unc.series.values import check_is_series, numeric_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Share(NamedTuple):
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
    forecast: Forecast
    weight: pd.Series[float]


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
    >>> import pandas as pd
    >>> from forecast_unc.distributions.power import PowerTransform
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

    __slots__ = ("_averaged", "_before", "_index", "_joint", "_model", "_name", "_propagation")

    __iter__ = None  # or Python, and numpy with it, would go through positions

    # A Series or an array on the left leaves the operation to this class, which refuses it.
    __array_ufunc__ = None
    __pandas_priority__ = 10_000

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
            remedy = "Pass pd.RangeIndex(n) for n steps without a date."
            raise refusal("index", "be a pandas Index", type(index).__name__, remedy, TypeError)
        h = len(index)
        if h == 0:
            raise refusal("index", "hold a time", "none", "Forecast at least one step.")
        later = np.asarray(index[1:] > index[:-1])
        if not later.all():
            at = int(later.argmin())
            remedy = "Sort the times and drop repeated ones."
            got = f"{time_label(index, at + 1)} after {time_label(index, at)}"
            raise refusal("index", "increase", got, remedy)
        center = frozen("mean", mean, (h,))
        spread = frozen("cov", cov, (h, h))
        check_positive(spread, lambda at: time_label(index, at))
        std = np.sqrt(spread.diagonal())
        scale = np.outer(std, std)  # the product of variances can overflow
        check_symmetric("cov", spread, scale)
        checked: Mapping[str, Array] | None = None
        if parts is not None:
            checked = parts if isinstance(parts, Deferred) else check_parts(parts, scale)
        if transform is None:
            transform = PowerTransform()
        elif not isinstance(transform, PowerTransform):
            remedy = "For a logarithm pass PowerTransform(0.0)."
            got = repr(transform)
            raise refusal("transform", "be a PowerTransform or None", got, remedy, TypeError)
        if paths is not None:
            paths = frozen("paths", paths, (h, *np.shape(paths)[-1:]))
        joint = Joint.normal(center, spread, transform, checked, mixture, paths)
        self._settle(index, joint, name)

    def __len__(self) -> int:
        return len(self._index)

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
    def model(self) -> str | None:
        """The model that made it, as text: that of ``models_`` of the forecaster.

        None of an average, or if no model of this package did; among the members of a `Combination`
        such a forecast has the name of its forecaster.
        """
        return self._model

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step, in units of y: the point forecast."""
        return self._series(self._joint.mean)

    @property
    def median(self) -> pd.Series[float]:
        """Median of each step, in units of y; of a normal distribution, its mean."""
        return self._series(self._joint.q(np.zeros((1, 1)))[:, 0])

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step, in units of y."""
        return self._series(self._joint.std)

    @property
    def var(self) -> pd.Series[float]:
        """Variance of each step, in squared units of y."""
        return self._series(self._joint.cov.diagonal())

    @property
    def cov(self) -> pd.DataFrame:
        """Joint covariance, steps by steps, in squared units of y."""
        return pd.DataFrame(self._joint.cov.copy(), index=self.index, columns=self.index)

    @property
    def paths(self) -> pd.DataFrame | None:
        """Sample paths of the model, steps by paths, in units of y; None if it drew none.

        A forecast by ``propagation="monte_carlo"`` has them. Its intervals, quantiles and
        probabilities are those of its joint normal distribution, on the scale of the transform.
        """
        paths = self._joint.paths
        return None if paths is None else pd.DataFrame(paths.copy(), index=self.index)

    @property
    def members(self) -> tuple[Share, ...]:
        """Of an average, its members' forecasts with the weights that they were averaged with.

        Before calibration and bound, of which there is one for the average. Members dropped at all
        steps are not among them; an empty tuple says that this is no average, or that one member
        alone was used.

        >>> from forecast_unc import Forecaster, datasets
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

    def first(self, n: int) -> Self:
        """Return the forecast of the first steps.

        Parameters
        ----------
        n : int
            Number of steps, from 1; more than there are leaves them as they are.

        Returns
        -------
        Forecast
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
            must = "be multiplied by a number other than 0"
            raise refusal("a forecast", must, "0", "The product would be certain.")
        return self._each(slice(0, len(self)), factor)

    def __truediv__(self, other: float) -> Self:
        divisor = _number(other)
        if divisor == 0:
            raise ZeroDivisionError("a forecast must be divided by a number other than 0; got 0.")
        return self * (1.0 / divisor)

    __radd__, __rmul__ = __add__, __mul__

    @classmethod
    def average(cls, forecasts: Sequence[Self], weights: ArrayLike | None = None) -> Self:
        """Return the forecast whose quantiles are the averages of those of several.

        The average of normal forecasts is normal, with the average mean and the average std; unlike
        a mixture of their distributions, it is no wider where they disagree. The mean is the
        average of the means in any case. Of :meth:`censored` forecasts what lies before the bounds
        is averaged, and censored at the average of the bounds, without a bound where one has none.

        Parameters
        ----------
        forecasts : sequence of Forecast
            Forecasts from the same origin. Those shorter than the longest have its first times, and
            count for their own steps only.
        weights : array_like of shape (k,) or (k, h), optional
            Weight of each forecast, or of each at each of the h steps of the longest; not negative,
            not all 0 at a step. Only the ratios at each step count; by default all are the same.
            Where a weight is 0, nothing of that forecast is used.

        Returns
        -------
        Forecast
            As many steps as the longest; its first k steps are the average of the first k steps.
            The correlations of its normal scores are those of the weighted sum of the members'
            covariances std R std, std in units of y and R of the normal scores. :meth:`decompose`
            averages the members' parts. Of several members no :attr:`paths` are kept.

        Raises
        ------
        TypeError, ValueError
            If ``forecasts`` are not Forecasts of the same times, or the weights are not such.

        Examples
        --------
        >>> index = pd.RangeIndex(1)
        >>> a, b = Forecast(index, [1.0], [[1.0]]), Forecast(index, [4.0], [[9.0]])
        >>> both = Forecast.average([a, b])
        >>> both.mean.item(), both.std.item()
        (2.5, 2.0)
        """
        members = check_several("forecasts", forecasts, "Forecasts", "[forecast] for one")
        for member in members:
            if not isinstance(member, cls):
                remedy = "Pass what Forecaster.forecast returns."
                got = type(member).__name__
                raise refusal("forecasts", "hold Forecasts", got, remedy, TypeError)
        if not members:
            raise refusal("forecasts", "hold a forecast", "none", "Pass one or more.")
        longest = max(members, key=len)
        for member in members:
            if not member._index.equals(longest._index[: len(member)]):
                remedy = "Forecast the same steps from the same origin."
                got = f"{member!r} beside {longest!r}"
                raise refusal("forecasts", "be of the same times", got, remedy)
        shares = check_weights(weights, [len(m) for m in members], longest._label)
        used = [(m, w) for m, w in zip(members, shares, strict=True) if w.any()]
        if len(used) == 1:
            return used[0][0]
        name = longest._name if all(m._name == longest._name for m in members) else None
        joint = average([m._joint for m, _ in used], np.array([w for _, w in used]))
        kinds = {m._propagation for m, _ in used}
        kind = kinds.pop() if len(kinds) == 1 else _each_propagation(m for m, _ in used)
        result = cls._of(longest._index, joint, name, kind)
        result._averaged = tuple(used)
        return result

    def recalibrated(
        self, factor: ArrayLike, *, dof: float | None = None, correlation: float = 0.0
    ) -> Self:
        r"""Return the forecast with wider or narrower bands, and other correlations.

        .. math::

            \mu + c \sigma T(z), \qquad
            R' = (1 - |r|) R + |r|\,(I \text{ if } r < 0, \; 1 1' \text{ otherwise})

        for each component of mean mu and std sigma on its scale: medians stay as they are.

        Parameters
        ----------
        factor : array_like of shape (h,)
            What to multiply the widths of the bands by, c, on the scale of a ``transform``;
            positive.
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
            kept.

        Raises
        ------
        TypeError, ValueError
            If an argument is outside its range.

        Examples
        --------
        >>> two = Forecast(pd.RangeIndex(2), [5.0, 5.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> wider = two.recalibrated([2.0, 2.0], correlation=-1.0)
        >>> wider.std.tolist(), round(wider.aggregate("sum").std.item(), 6)
        ([2.0, 2.0], 2.828427)
        >>> two.recalibrated([1.0, 1.0], dof=4).interval(0.99).iloc[0].round(2).tolist()
        [1.15, 8.85]
        """
        factors = frozen("factor", factor, (len(self),))
        if not (factors > 0).all():
            raise refusal(
                "factor", "be positive", f"{factors.min():g}", "1 leaves a step as it is."
            )
        number = isinstance(dof, (int, float, np.number)) and not isinstance(dof, bool)
        if dof is not None and not (number and LEAST_DOF <= dof < np.inf):
            remedy = "None leaves the shape as it is."
            raise refusal("dof", f"be None or a number from {LEAST_DOF:g}", repr(dof), remedy)
        number = isinstance(correlation, (int, float, np.number))
        if not number or isinstance(correlation, bool) or not -1.0 <= correlation <= 1.0:
            remedy = "0 leaves the correlations as they are."
            raise refusal("correlation", "lie between -1 and 1", repr(correlation), remedy)
        return self._changed(self._joint.recalibrated(factors, dof, correlation))

    def censored(self, lower: float, *, keep_moments: bool = False) -> Self:
        """Return the forecast of a series that is never below a bound, max(y, lower).

        Where the series is never below, no quantile is farther from what happens than before.

        Parameters
        ----------
        lower : float
            The bound, in units of y; -inf for none.
        keep_moments : bool, default=False
            Whether the steps are moved and stretched before the bound, until the mean and the
            variance of what is censored are those of the forecast before: for a model that has
            learned from many values at the bound, whose mean is that of such values already, and
            which the bound would raise. A mean less than a fifth of its std above the bound is
            raised to there.

        Returns
        -------
        Forecast
            Mean, covariance and parts are those of the censored values, the parts with their shares
            of the variance before; :meth:`check` is that of the forecast before.

        Raises
        ------
        ValueError
            If ``lower`` is not a number below inf, or the forecast is one of -y.
        Diverged
            If a step is certain to be at the bound.

        Examples
        --------
        >>> sales = Forecast(pd.RangeIndex(1), [1.0], [[4.0]]).censored(0.0)
        >>> round(sales.mean.item(), 3), sales.median.item(), sales.interval(0.9)["lower"].item()
        (1.396, 1.0, 0.0)
        >>> rare = Forecast(pd.RangeIndex(1), [1.0], [[4.0]]).censored(0.0, keep_moments=True)
        >>> round(rare.mean.item(), 3), round(rare.std.item(), 3), rare.median.item()
        (1.0, 2.0, 0.0)
        """
        check_lower(lower)
        if lower > -np.inf and self._joint.q.turned:
            remedy = "Call `censored` before the minus sign."
            got = "one for -y"
            must = "be the bound of a forecast that has not been turned upside down"
            raise refusal("lower", must, got, remedy)
        joint = self._joint.censored(np.full(len(self), float(lower)), keep_moments)
        return self if joint is self._joint else self._changed(joint)

    def conformal(self, sizes: ArrayLike) -> Self:
        """Return the forecast whose bands are those of errors seen before.

        Half the central interval of coverage i / (k + 1) is the i-th smallest of the k sizes of a
        step, in between by straight lines in the normal score, and beyond the largest as for a
        normal distribution that has that quantile. If the next error is exchangeable with those,
        the interval of a step holds it with that probability, whatever the distribution. That says
        nothing of steps together: the correlations are those of the model.

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
        >>> bands = Forecast(pd.RangeIndex(1), [5.0], [[4.0]]).conformal([[0.5, 3.0, 1.0]])
        >>> bands.interval(0.25).iloc[0].tolist(), bands.interval(0.75).iloc[0].tolist()
        ([4.0, 6.0], [-1.0, 11.0])
        """
        given = numbers("sizes", sizes)
        k = given.shape[-1] if given.ndim == 2 else 1
        checked = np.sort(frozen("sizes", given, (len(self), k)), axis=1)
        if not k:
            remedy = "Leave the forecast as it is without."
            raise refusal("sizes", "hold an error or more of each step", "none", remedy)
        if not (checked > 0).all():
            raise refusal("sizes", "be positive", f"{checked.min():g}", "Leave out errors of 0.")
        return self._changed(self._joint.conformal(checked))

    def aggregate(self, how: str | ArrayLike = "sum", freq: str | None = None) -> Self:
        """Return the forecast of a sum, mean or weighted sum of the steps, or of an extreme.

        The joint covariance is used: the steps are neither independent nor one and the same. Of
        normal steps the aggregate is normal. Otherwise mean and variance are exact and the shape is
        an approximation: that of steps that move as one, with their scores drawn together and moved
        until the moments are right, hence within all bounds; a normal distribution if a weight is
        negative. The covariance of the groups is exact, too, as far as such shapes can have it.
        :attr:`paths` are added up one by one: their share is ``(ahead.paths.sum() > x).mean()``.

        The largest or smallest value is that of paths: the forecast's own, if it has :attr:`paths`,
        or 65,536 that are spread evenly over its joint distribution (fewer beyond 128 steps), the
        same every time. Probabilities are right to about .002; of a conformal forecast, or with
        1000 paths of its own, to .02.

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
            One step a group, at the label that pandas gives it; without ``freq``, at the last time.
            A group at either end has only the steps that were forecast.

        Raises
        ------
        TypeError, ValueError
            If the weights are not h finite numbers, all zero within a group, ``freq`` does not suit
            the index, an extreme is the same in all paths, or a variance is too large for a float.

        Examples
        --------
        >>> two = Forecast(pd.RangeIndex(2), [1.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> two.aggregate("sum").std.round(3).item()
        1.732
        >>> two.aggregate("max").prob(lower=2.0).round(2).item()
        0.25
        """
        if isinstance(how, str) and how in ("max", "min"):
            return self._extreme(how == "max", freq)
        labels, matrix = group_weights(self._index, how, freq)
        with np.errstate(over="ignore", invalid="ignore"):
            cov = mapped(matrix, self._joint.cov)
            sums = matrix @ self._joint.mean, cov.diagonal()
        wrong = ~np.isfinite(sums).all(axis=0)
        if wrong.any():
            at = int(wrong.argmax())
            remedy = "Divide the series by a constant."
            got = f"a variance of {sums[1][at]:g} at {time_label(labels, at)}"
            raise refusal("how", "give a mean and a variance that fit a float", got, remedy)
        check_positive(cov, lambda at: time_label(labels, at))
        result = self._of(labels, linear(self._joint, matrix), self._name, self._propagation)
        before = None if self._before is None else self._before._uncalibrated()
        if before is not None and before._joint.draw is not None:
            joint = linear(before._joint, matrix)
            result._before = self._of(labels, joint, self._name, before._propagation)
        return result

    def condition(self, observed: pd.Series[float]) -> Self:
        r"""Return the forecast of the remaining steps once some values are known.

        .. math:: B z_o, \quad R_{rr} - B R_{or}, \quad B = R_{ro} R_{oo}^{-1}

        are mean and covariance of the remaining normal scores z, given those observed; of normal
        steps z is (y - mean) / std. Of a value at the bound (:meth:`censored`) it is known that z
        is at most that of the bound: then they are those of the truncated normal distribution, of
        several such values by expectation propagation. The model is not refitted: this is what the
        forecast itself implies.

        Parameters
        ----------
        observed : Series
            Values at some of the forecast's times, in any order, in units of y.

        Returns
        -------
        Forecast
            The steps that were not observed, without :attr:`paths` and parts.

        Raises
        ------
        TypeError, ValueError
            If ``observed`` is not a Series of finite values at times of the forecast, leaves no
            step, holds a value without density (a negative one after a log, and of a mixture one at
            the bound), or steps that determine each other.
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
                raise refusal("observed", rule, f"{first}{got}", remedy)
        if len(at) == len(self):
            raise refusal(
                "observed", "leave a step to forecast", f"all {len(self)}", "Leave one out."
            )
        if not at.size:
            return self
        joint = condition(self._joint, at, values, self._label)
        return self._of(self._index.delete(np.sort(at)), joint, self._name)

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Return the central interval of each step.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability that the interval holds the value, in (0, 1); as much lies below as above.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, in units of y. The coverage is that of each step by
            itself: a whole path lies within all of them with a smaller probability, over 24 steps
            within those of 95 % with some 60 % (35 to 79 % on the bundled series); see
            :meth:`simultaneous_interval`.

        Raises
        ------
        TypeError, ValueError
            If ``coverage`` is not a fraction.
        """
        check_coverage(coverage)
        return self._band(-ndtri(0.5 * (1 - coverage)))

    def simultaneous_interval(self, coverage: float = 0.9) -> pd.DataFrame:
        r"""Return the band that holds the whole path.

        .. math:: [q_t(-c), q_t(c)], \qquad P(|z_t| \le c \;\forall t) = \text{coverage},

        with z the normal scores of the steps, of which :meth:`interval` has the same c at every
        horizon: each step counts alike, and the correlations decide how much wider the band is.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability that the band holds all values, in (0, 1).

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, in units of y. It depends on how many steps there are:
            ``ahead[:6].simultaneous_interval()`` is the narrower band of the first six.

        Raises
        ------
        TypeError, ValueError
            As :meth:`interval` and :meth:`sample`.

        Notes
        -----
        Quasi-Monte Carlo over 8192 fixed points: no seed, and over 24 steps right to .001 in the
        probability, that of the joint distribution; with a bound within reach it is larger.

        Examples
        --------
        >>> walk = np.minimum.outer(np.arange(1.0, 25.0), np.arange(1.0, 25.0))
        >>> ahead = Forecast(pd.RangeIndex(24), np.zeros(24), walk)
        >>> bands = ahead.simultaneous_interval(0.95), ahead.interval(0.95)
        >>> [band.iloc[-1].round(1).tolist() for band in bands]
        [[-13.2, 13.2], [-9.6, 9.6]]
        """
        check_coverage(coverage)
        self._joint.eigen()
        return self._band(reach_of_all(self._joint.cor, coverage))

    @overload
    def cdf(self, values: float | pd.Series[float]) -> pd.Series[float]: ...
    @overload
    def cdf(self, values: Sequence[float] | Array) -> pd.DataFrame: ...
    def cdf(
        self, values: float | pd.Series[float] | Sequence[float] | Array
    ) -> pd.Series[float] | pd.DataFrame:
        """Return the probability of a value up to the given ones, the inverse of :meth:`quantile`.

        Parameters
        ----------
        values : float, Series or sequence of float
            One number, or a Series with one for each of the forecast's times (NaN for none); or
            several numbers. In units of y.

        Returns
        -------
        Series or DataFrame
            A Series for one value a step; for several numbers a DataFrame with these as columns.

        Raises
        ------
        TypeError, ValueError
            If a value is not a number, or the Series lacks a time.

        Examples
        --------
        >>> ahead = Forecast(pd.RangeIndex(2), [0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> ahead.cdf([0.0, 1.0]).round(2)
            0.0   1.0
        0  0.50  0.84
        1  0.16  0.50
        """
        if isinstance(values, (str, pd.Series)) or np.ndim(values) == 0:
            return self._series(self._joint.q.pit(self._levels("values", values)))
        levels = numbers("values", values)
        if levels.ndim != 1 or not levels.size:
            remedy = "For one number at each step pass a Series."
            got = f"shape {levels.shape}"
            raise refusal("values", "be a number, a Series or several numbers", got, remedy)
        columns = [self._joint.q.pit(self._levels("values", level)) for level in levels]
        return pd.DataFrame(np.column_stack(columns), index=self.index, columns=levels)

    def prob(
        self,
        lower: float | pd.Series[float] | None = None,
        upper: float | pd.Series[float] | None = None,
    ) -> pd.Series[float]:
        """Return the probability of a value above ``lower`` and up to ``upper``, by step.

        Parameters
        ----------
        lower, upper : float or Series, optional
            Ends of the interval, in units of y; a Series has one for each of the forecast's times.
            At least one is needed. The lower end does not belong to it, the upper one does:
            ``prob(lower=x)`` and ``prob(upper=x)`` add up to 1, and ``prob(lower=0)`` is that of
            any sale at all where 0 has a probability.

        Returns
        -------
        Series
            Each step by itself. For a sum ask :meth:`aggregate`:
            ``ahead.aggregate("sum").prob(lower=100)``, and so for the maximum.

        Raises
        ------
        TypeError, ValueError
            If there is no end, one is not a number, or they are not in order.

        Examples
        --------
        >>> ahead = Forecast(pd.RangeIndex(2), [0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> ahead.prob(lower=1.0).round(2).tolist()
        [0.16, 0.5]
        """
        if lower is None and upper is None:
            remedy = "Any value has probability 1."
            raise refusal("lower or upper", "be given", "neither", remedy)
        ends = self._levels("lower", lower, -np.inf), self._levels("upper", upper, np.inf)
        wrong = ends[0] > ends[1]
        if wrong.any():
            at = int(wrong.argmax())
            remedy = "Swap them."
            got = f"{ends[0][at]:g} and {ends[1][at]:g} at {self._label(at)}"
            raise refusal("lower", "not be above upper", got, remedy)
        return self._series(self._joint.prob(*ends))

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
        remedy = "For the 95 % quantile pass 0.95."
        try:
            levels = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError):
            raise refusal("q", "be a number or several", repr(q), remedy, TypeError) from None
        if levels.ndim > 1:
            got = f"shape {levels.shape}"
            raise refusal("q", "be a number or a sequence of them", got, remedy)
        wrong = ~((levels > 0) & (levels < 1))
        if wrong.any():
            got = f"{levels[wrong].flat[0]:g}"
            raise refusal("q", "lie strictly between 0 and 1", got, remedy)
        values = self._joint.q(ndtri(np.atleast_1d(levels))[None])
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
            correlations have an eigenvalue that is negative by more than 1e-10 of the largest,
            which is roundoff.
        """
        check_whole("n", n, 1, "It is the number of paths to draw.")
        paths = self._joint.paths
        if paths is None:
            return pd.DataFrame(self._joint.sample(n, generator(random_state)), index=self.index)
        if n > paths.shape[1]:
            remedy = f"Forecast with n_samples={n}."
            got = f"{n}"
            must = f"be at most the number of the forecast's paths, {paths.shape[1]}"
            raise refusal("n", must, got, remedy)
        order = generator(random_state).permutation(paths.shape[1])
        return pd.DataFrame(paths[:, order[:n]], index=self.index)

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
        - ``inputs_nonlinear``: the rest, by which the variance differs from that of this linear
          recursion; may be negative;
        - ``hyperparameters``: of a mixture over hyper-parameters that are not known, the variance
          of its means; the other parts are averaged over it;
        - ``members``: of an average, what its variance is less than the average variance of its
          members: never positive, and 0 if the members are equally wide, wherever they lie;
        - ``calibration``: what rescaling added.

        After a transform the parts have the shares that they have of the variance on its scale; in
        a sum over such steps the curvature of the transform is in ``inputs_nonlinear``. Parts of a
        sum contain the covariances between its steps.

        Parameters
        ----------
        by_kind : bool, default=False
            Add up the parts of a kind: columns ``noise``, ``function``, ``inputs``,
            ``hyperparameters``, ``members`` and ``calibration``.

        Returns
        -------
        DataFrame
            One column a part, in squared units of y, those that do not apply zero. They add up to
            the variance.

        Raises
        ------
        ValueError
            If the forecast was made without its parts, by :meth:`condition`, or is an extreme.
        """
        if self._joint.parts is None:
            raise ValueError(
                "decompose must be called on a forecast that knows its parts; got none. "
                "Build it with parts; a forecast by a regressor that predicts "
                "a std alone, a maximum, or what is left after `condition` has no such split."
            )
        parts = variances(self._joint.parts, self._joint.cov)
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
            (one built by hand, after :meth:`condition`, an extreme, or an aggregate of an average),
            or a path diverges.
        """
        check_whole("n_samples", n_samples, 100, "500 is a good start.")
        return self._checked(n_samples, one_seed(random_state))[0]

    def score(self, actual: pd.Series[float], coverage: float = 0.95) -> pd.DataFrame:
        """Score each step against what happened.

        Parameters
        ----------
        actual : Series
            What happened, in units of y, at the forecast's times and perhaps others; NaN where it
            was not observed.
        coverage : float, default=0.95
            Coverage of the interval that is scored, in (0, 1).

        Returns
        -------
        DataFrame
            One row a step: ``error`` (actual - mean), ``crps``, ``nlpd``, ``interval_score`` and
            ``pit``, as in the module ``scores``; NaN where ``actual`` is. Where the forecast
            excludes a value, ``nlpd`` is inf; at a value of positive probability it is minus the
            log of that.

        Raises
        ------
        TypeError, ValueError
            If ``actual`` is not a Series, lacks one of the forecast's times or has one twice.
        """
        y, joint = self._at_steps("actual", actual), self._joint
        if joint.q.normal:
            normal = y, joint.mean, joint.std
            crps, nlpd, pit = scores.crps(*normal), scores.nlpd(*normal), scores.pit(*normal)
        else:
            crps, nlpd, pit = joint.q.crps(y), joint.q.nlpd(y), joint.q.pit(y)
        band = self.interval(coverage)
        return pd.DataFrame(
            {
                "error": y - joint.mean,
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
            :func:`scores.energy_score` of the paths, in units of y; NaN if ``actual`` is NaN at a
            step.

        Raises
        ------
        TypeError, ValueError
            As :meth:`score` and :meth:`sample`.
        """
        check_whole("n_samples", n_samples, 2, "1000 is a good start.")
        if self._joint.paths is not None:
            n_samples = min(n_samples, self._joint.paths.shape[1])
        y = self._at_steps("actual", actual)
        return scores.energy_score(y, self.sample(n_samples, random_state).to_numpy().T)

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
        n_samples, random_state
            As of :meth:`to_darts`.

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

    def plot(
        self,
        history: pd.Series[float] | None = None,
        coverage: Sequence[float] = (0.5, 0.8, 0.95),
        actual: pd.Series[float] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the mean and nested central intervals.

        The line is the mean, the point forecast of every table. Of a skewed forecast it is not the
        middle of the bands, and can leave a narrow one; the middle is :attr:`median`.

        Parameters
        ----------
        history : Series, optional
            Past values to draw before the forecast; pass the last few seasons only. If they go on
            to the forecast at its frequency, its line and bands begin at the last one.
        coverage : sequence of float, default=(0.5, 0.8, 0.95)
            Coverages of the intervals, in (0, 1).
        actual : Series, optional
            What happened, drawn as points at the forecast's times.
        ax : Axes, optional
            Where to draw; by default the current axes.

        Returns
        -------
        Axes
            The axes drawn on. The legend stands above them, where it hides nothing.
        """
        return fan(self, coverage, history=history, actual=actual, ax=ax)

    @classmethod
    def _of(
        cls,
        index: pd.Index[Any],
        joint: Joint,
        name: Any,
        propagation: str | tuple[str, ...] | None = None,
        model: str | None = None,
    ) -> Self:
        """The forecast of a joint distribution."""
        forecast = cls.__new__(cls)
        forecast._settle(index, joint, name)
        forecast._propagation, forecast._model = propagation, model
        return forecast

    def _settle(self, index: pd.Index[Any], joint: Joint, name: Any) -> None:
        """Set what a forecast is made of, if each step has a finite, positive variance."""
        self._index, self._joint, self._name = index.copy(), joint, name
        self._propagation: str | tuple[str, ...] | None = None
        self._model: str | None = None
        self._averaged: tuple[tuple[Self, Array], ...] = ()
        self._before: Self | None = None
        # Up to the diagonal: a step is not to blame for the covariance with a later one.
        finite = np.isfinite(joint.mean) & np.isfinite(np.tril(joint.cov)).all(axis=1)
        fails = ~finite | (joint.cov.diagonal() <= 0)
        if fails.any():
            at = int(fails.argmax())
            low, high = joint.q(np.array([[-2.0, 2.0]]))[at]
            raise Diverged(
                f"cov must leave each step a positive, finite variance; got none at "
                f"{self._label(at)}, where 95 % of y lie from {low:.3g} to {high:.3g}. The "
                "transformed forecast has diverged, or is certain to be at its bound: ask for "
                "fewer steps, difference the transformed series, or use no transform or bound; if "
                "its values are this large, divide the series by a constant.",
                step=at + 1,
            )
        for array in (joint.cor, joint.mean, joint.cov):
            array.setflags(write=False)

    def _made(self, propagation: str, draw: Draw | None, model: str | None = None) -> Self:
        """Note by which model it was made, before anyone else sees it."""
        self._joint = replace(self._joint, draw=draw)
        self._propagation, self._model = propagation, model
        return self

    def _named(self, model: str) -> Self:
        """It with the name of a model, if it has none."""
        if self._model is not None:
            return self
        named = copy.copy(self)
        named._model = model
        return named

    def _changed(self, joint: Joint) -> Self:
        """The same forecast with other bands."""
        changed = self._of(self._index, joint, self._name, self._propagation, self._model)
        changed._before = self
        return changed

    def _each(self, part: slice, factor: float = 1.0, shift: float = 0.0) -> Self:
        """Forecast of ``factor * y + shift`` at some of the steps, counted from 0."""
        at = np.arange(len(self))[part]
        joint = self._joint.each(at, factor, shift)
        result = self._of(self._index[part], joint, self._name, self._propagation, self._model)
        result._averaged = tuple(
            (member._each(part, factor, shift), weight[at])
            for member, weight in self._averaged
            if weight[at].any()
        )
        if self._before is not None:
            result._before = self._before._each(part, factor, shift)
        return result

    def _extreme(self, largest: bool, freq: str | None) -> Self:
        """Forecast of the largest or smallest value of each group."""
        labels, matrix = group_weights(self._index, "sum", freq)
        if len(labels) == len(self):
            return self.aggregate("sum", freq)
        joint = extreme(self._joint, matrix > 0, largest)
        assert joint.paths is not None
        certain = (joint.paths == joint.paths[:, :1]).all(axis=1)
        if certain.any():
            at = int(certain.argmax())
            raise ValueError(
                "how must leave what is uncertain; got an extreme that is the same in all "
                f"{joint.paths.shape[1]} paths at {time_label(labels, at)}, as at a bound. "
                "It is as good as certain: take fewer steps, or the sum."
            )
        return self._of(labels, joint, self._name, self._propagation)

    def _uncalibrated(self) -> Self:
        """The forecast of the bands before, of an average of calibrated ones that of those."""
        if self._before is not None:
            return self._before._uncalibrated()
        members = [member._uncalibrated() for member, _ in self._averaged]
        if all(own is m for own, (m, _) in zip(members, self._averaged, strict=True)):
            return self
        return self.average(members, np.array([weight for _, weight in self._averaged]))

    def _checked(self, n_samples: int, seed: int | None) -> tuple[Check, Joint]:
        """The check, and the joint distribution with the moments of the sample paths."""
        before = self._uncalibrated()
        if before is not self:
            return before._checked(n_samples, seed)
        labels = [self._label(at) for at in range(len(self))]
        names = self._propagation
        names = names if isinstance(names, tuple) else (names or "exact",)
        costly = [name for name in ("monte_carlo", "mixture") if name in names]
        kind = costly[0] if costly else names[0]
        if not self._averaged:
            return check_model(self._joint, labels, kind, n_samples, seed)
        checks, sampled = zip(
            *(member._checked(n_samples, seed) for member, _ in self._averaged), strict=True
        )
        weights = np.array([weight for _, weight in self._averaged])
        members = [member._joint for member, _ in self._averaged]
        both = self._joint, average(sampled, weights)
        return check_average(both, members, weights, checks, labels, kind), both[1]

    def _band(self, reach: float) -> pd.DataFrame:
        """Values at the scores -reach and reach."""
        band = self._joint.q(np.array([[-reach, reach]]))
        return pd.DataFrame(band, index=self.index, columns=["lower", "upper"])

    def _width(self, coverage: float) -> Array:
        """Widths of the central intervals without a bound, (h,)."""
        return self._joint.width(coverage)

    def _series(self, values: Array) -> pd.Series[float]:
        return pd.Series(values.copy(), index=self.index, name=self._name)

    def _label(self, position: int) -> str:
        return time_label(self._index, position)

    def _at_steps(self, name: str, given: pd.Series[float]) -> Array:
        """Values of a series at the steps, (h,)."""
        given = check_is_series(given, name)
        values = numeric_values(given, name)
        if not given.index.is_unique:
            first = given.index[given.index.duplicated()][0]
            raise refusal(name, "hold each time once", f"{first} twice", "Keep one value.")
        at = given.index.get_indexer(self._index)
        if (at < 0).any():
            remedy = "Pass NaN for what was not observed."
            got = f"no {self._label(int((at < 0).argmax()))}"
            raise refusal(name, "hold each of the forecast's times", got, remedy)
        return np.asarray(values[at])

    def _levels(self, name: str, value: object, otherwise: float | None = None) -> Array:
        """A level for each step, (h,), from one for all, a Series, or None if allowed."""
        if value is None and otherwise is not None:
            return np.full(len(self), otherwise)
        if isinstance(value, pd.Series):
            return self._at_steps(name, value)
        if isinstance(value, bool) or not isinstance(value, Real) or np.isnan(float(value)):
            remedy = "It is a value of the series, in its units."
            got = repr(value)
            must = "be a number or a Series of one for each step"
            raise refusal(name, must, got, remedy, TypeError)
        return np.full(len(self), float(value))


def _each_propagation(members: Iterable[Forecast]) -> tuple[str, ...]:
    """How the members were made."""
    names: list[str] = []
    for member in members:
        kind = member._propagation
        names.extend(kind if isinstance(kind, tuple) else [kind or "other"])
    return tuple(names)


def time_label(index: pd.Index[Any], position: int) -> str:
    """The time of a step, for a message."""
    return str(index.astype(str)[position])


def _number(value: object) -> float:
    """A finite number, or an error."""
    if isinstance(value, bool) or not isinstance(value, Real):
        remedy = (
            "For sums of its steps call `aggregate`; forecasts of different series have no joint "
            "distribution."
        )
        got = type(value).__name__
        raise refusal("a forecast", "be combined with a number", got, remedy, TypeError)
    number = float(value)
    if not np.isfinite(number):
        must = "be combined with a finite number"
        raise refusal("a forecast", must, f"{number}", "Leave it out.")
    return number
