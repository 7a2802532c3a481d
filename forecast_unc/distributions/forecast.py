"""The result of forecasting: the joint distribution of all steps, with their times."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple, NoReturn, Self, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from forecast_unc import _checks
from forecast_unc._checks import (
    FARTHEST,
    RandomState,
    as_float,
    check_paths,
    frozen,
    numbers,
    refusal,
)
from forecast_unc._notes import Note
from forecast_unc._text import counted
from forecast_unc._typing import Array, Axes, Positions
from forecast_unc.distributions import export, scores
from forecast_unc.distributions.condition import condition, reach_of_all, reach_of_paths
from forecast_unc.distributions.diagnose import Check, check
from forecast_unc.distributions.interactive import plotly_figure
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.marginals import LEAST_DOF
from forecast_unc.distributions.page import forecast_card
from forecast_unc.distributions.picture import fan
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.prediction import Member, Prediction, average
from forecast_unc.distributions.regions import highest_density
from forecast_unc.distributions.sums import extreme
from forecast_unc.distributions.variance_parts import (
    MakeParts,
    check_parts,
    mapped,
    of_kinds,
    variances,
)
from forecast_unc.series.times import format_time, group_weights, positions
from forecast_unc.series.values import check_is_series, numeric_values

Difference = Callable[["Forecast", "Forecast"], "Forecast"]
"""The difference of two forecasts that have a joint distribution."""

_AGGREGATES = {"max": "maximum", "min": "minimum"}


class Share(NamedTuple):
    """A member of an average: its model as text, its forecast, its weight at each step, its number.

    Numbers count all forecasts of the average, from 1: as `choices_` does, where it is a model's.
    """

    model: str
    forecast: Forecast
    weight: pd.Series[float]
    number: int


class Forecast:
    r"""Joint distribution of the next h values; immutable.

    Every quantity is that of a future observation, noise included, in units of y. Methods that
    change a forecast, and arithmetic with numbers, return a new one, computed from the joint
    distribution: the steps are not independent. Arguments outside their stated domain raise a
    TypeError or a ValueError.

    Each step is an increasing function :math:`y_t = q_t(z_t)` of one of h correlated standard
    normals z: steps are jointly normal, or so after a ``transform``, or an :meth:`average` of such.
    Where mean and median differ, the point forecast is everywhere the mean.

    Parameters
    ----------
    index : Index of length h
        The times of the steps, increasing: DatetimeIndex, PeriodIndex or RangeIndex.
    mean : array_like of shape (h,)
        Mean, in units of y; with a ``transform``, that of the transformed y.
    cov : array_like of shape (h, h)
        Joint covariance of the steps, in squared units of ``mean``.
    parts : mapping of str to array_like of shape (h, h), or function, optional
        Terms of ``cov`` by columns of :meth:`decompose`, which alone needs them, or a function
        without arguments that returns them. Those left out are zero, but ``inputs_nonlinear`` is
        the rest of ``cov``.
    name : hashable, optional
        Name of the series.
    transform : PowerTransform, optional
        To the scale on which the steps are jointly normal; by default that of y itself.
    paths : array_like of shape (h, n), optional
        Sample paths of the model, in units of y, of which ``mean`` and ``cov`` are the moments.
        :meth:`sample` returns and :meth:`aggregate` adds up these. Quantiles, probabilities,
        intervals and scores of steps and sums are those of the paths, smoothed, unless they are as
        likely under a normal distribution; :meth:`average`, :meth:`condition` and calibration are
        of the joint normal.

    Raises
    ------
    Diverged
        If after a ``transform`` the variance of a step is too large for a float, or 0: a
        ValueError, whose ``step`` is the first such step, from 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from forecast_unc.distributions.power import PowerTransform
    >>> index = pd.period_range("2024-01", periods=2, freq="M")
    >>> ahead = Forecast(index, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]], name="y")
    >>> ahead
    Forecast(name='y', 2024-01 to 2024-02, 2 steps)
    >>> log = Forecast(index, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]], transform=PowerTransform(0.0))
    >>> log.median.round(2).tolist(), log.mean.round(2).tolist()
    ([2.72, 7.39], [4.48, 12.18])
    """

    __slots__ = ("_index", "_minus", "_prediction")

    _repr_html_ = forecast_card  # in a notebook
    to_nixtla, to_darts = export.nixtla_frame, export.darts_series
    to_gluonts, to_plotly = export.gluonts_forecast, plotly_figure

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
        parts: Mapping[str, ArrayLike] | MakeParts | None = None,
        name: Any = None,
        transform: PowerTransform | None = None,
        paths: ArrayLike | None = None,
    ) -> None:
        if not isinstance(index, pd.Index):
            remedy = "Pass pd.RangeIndex(n) for n steps without a date."
            raise refusal("index", "be a pandas Index", type(index).__name__, remedy, TypeError)
        h = len(index)
        if h == 0:
            raise refusal("index", "hold a time", "none", "Forecast at least one step.")
        if not (index.is_monotonic_increasing and index.is_unique):  # an index keeps both
            at = int(np.asarray(index[1:] > index[:-1]).argmin())
            got = f"{format_time(index, at + 1)} after {format_time(index, at)}"
            raise refusal("index", "increase", got, "Sort the times and drop repeated ones.")
        center, spread = frozen("mean", mean, (h,)), frozen("cov", cov, (h, h))
        _checks.check_positive(spread, partial(format_time, index))
        std = np.sqrt(spread.diagonal())
        scale = np.outer(std, std)  # the product of variances can overflow
        _checks.check_symmetric("cov", spread, scale)
        if parts is not None and not callable(parts):
            parts = partial(dict, check_parts(parts, scale))
        transform = PowerTransform() if transform is None else transform
        if not isinstance(transform, PowerTransform):
            must, remedy = "be a PowerTransform or None", "For a log pass PowerTransform(0.0)."
            raise refusal("transform", must, repr(transform), remedy, TypeError)
        if paths is not None:
            paths = transform.forward(frozen("paths", paths, (h, *np.shape(paths)[-1:])))
        joint = Joint.normal(center, spread, transform, parts, paths)
        self._settle(index, Prediction(joint, name))

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        steps = counted(len(self), "step")
        what = f"{self.aggregated}, " if self.aggregated else ""
        times = f"{self._label(0)} to {self._label(-1)}"
        return f"Forecast(name={self.name!r}, {what}{times}, {steps})"

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""
        return self._index.copy()  # an Index is immutable, but for its name

    @property
    def name(self) -> Any:
        """Name of the series."""
        return self._prediction.name

    @property
    def aggregated(self) -> str | None:
        """What each value is after :meth:`aggregate`, such as "maximum of 24 steps"; or None."""
        return self._prediction.aggregated

    @property
    def propagation(self) -> str | tuple[str, ...] | None:
        """Name of the propagation: a tuple if members differ, None if it is not known."""
        return self._prediction.propagation

    @property
    def model(self) -> str | None:
        """The model, one of the forecaster's ``models_``, as text; None if several or unknown."""
        return self._prediction.model

    @property
    def notes_(self) -> list[Note]:
        """Remarks: regressors beyond what was seen of them, a line each; steps without a model."""
        return list(self._prediction.notes)

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step, in units of y: the point forecast."""
        return self._series(self._joint.mean)

    @property
    def median(self) -> pd.Series[float]:
        """Median of each step, in units of y; of a normal distribution, its mean."""
        return self._series(self._joint.marginals(np.zeros((1, 1)))[:, 0])

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step, in units of y."""
        return self._series(self._joint.std)

    @property
    def var(self) -> pd.Series[float]:
        """Variance of each step, in squared units of y."""
        return self._series(self._joint.cov.diagonal())

    @property
    def atoms(self) -> pd.DataFrame:
        """Single values of positive probability, by step: ``value`` and ``probability``.

        A bound that is within reach (:meth:`censored`), or the whole numbers of a count
        (:meth:`whole`) except those of less than a millionth. Everywhere else :meth:`cdf` and
        :meth:`quantile` are inverse of each other; at an atom the cdf jumps.
        """
        rows = self._joint.marginals.atoms()
        frame = pd.DataFrame(rows, columns=["step", "value", "probability"])
        times = self._index[frame.pop("step").to_numpy(np.intp)]
        return frame.set_axis(times)

    @property
    def cov(self) -> pd.DataFrame:
        """Joint covariance, steps by steps, in squared units of y."""
        return pd.DataFrame(self._joint.cov.copy(), index=self.index, columns=self.index)

    @property
    def paths(self) -> pd.DataFrame | None:
        """Sample paths, steps by paths, of Monte Carlo, a mixture, averages of these; else None."""
        paths = self._joint.paths
        return None if paths is None else pd.DataFrame(paths.copy(), index=self.index)

    @property
    def members(self) -> tuple[Share, ...]:
        """Members of an average: ``model`` (text), ``forecast``, ``weight`` (a Series), ``number``.

        Numbers are those of ``choices_``, or places among what was averaged, from 1. In a
        `Combination` the model of a baseline or an average is its repr, ``ETS()``. Members are as
        before the calibration and the bound, which are the average's; those dropped at all steps
        are left out, and there are none if one alone remains.
        """
        return tuple(
            Share(
                own.model or f"member {number}",
                forecast_of(self._index, own),
                pd.Series(weight.copy(), self.index, name="weight"),
                number,
            )
            for own, weight, number in self._prediction.averaged
        )

    def explain(self) -> pd.DataFrame:
        """Return why the forecast rises or falls: what each member adds to its change.

        Returns
        -------
        DataFrame
            A row a member, by its number in `members`, which say what each is:
            ``weight_first`` and ``weight_last``, its shares at the first and the last step;
            ``mean_first`` and ``mean_last``, its own forecasts there, in units of y; and
            ``change``, what it adds to the change of the average between them. With shares w and
            means m, and the mean M of the average, it is w (m - M_first) at the last step less that
            at the first. The row "adjustments" has what calibration, bounds and rounding add; the
            row "forecast", the last one, is the sum. A forecast of one model has one member.

        Examples
        --------
        >>> index = pd.RangeIndex(2)
        >>> flat, rising = (Forecast(index, mean, np.eye(2)) for mean in ([4, 4], [2, 6]))
        >>> Forecast.average([flat, rising], [3, 1]).explain()["change"]
        member 1       0.0
        member 2       1.0
        adjustments    0.0
        forecast       1.0
        Name: change, dtype: float64
        """
        alone = (Member(self._prediction, np.ones(len(self)), 1),)
        shares = self._prediction.averaged or alone
        weights = np.array([one.weight[[0, -1]] for one in shares])
        means = np.array([self._ends(one.prediction) for one in shares])  # (k, 2)
        start = weights[:, 0] @ np.where(weights[:, 0] > 0.0, means[:, 0], 0.0)
        from_start = np.where(weights > 0.0, weights * (means - start), 0.0)
        changes, own = from_start[:, 1] - from_start[:, 0], self._ends(self._prediction)
        whole = own[1] - own[0]
        rows = [*np.column_stack([weights, means, changes])]
        rows += [[np.nan] * 4 + [whole - changes.sum()], [1.0, 1.0, *own, whole]]
        names = [f"member {one.number}" for one in shares] + ["adjustments", "forecast"]
        columns = ["weight_first", "weight_last", "mean_first", "mean_last", "change"]
        return pd.DataFrame(rows, names, columns)

    def _ends(self, own: Prediction) -> list[float]:
        """Means of a prediction at the first and the last of these steps, NaN if it ended."""
        mean = own.joint.mean
        return [mean[0], mean[-1] if len(own) >= len(self) else np.nan]

    def first(self, n: int) -> Self:
        """Return the forecast of the first ``n`` steps, from 1; of all if there are fewer."""
        n = _checks.check_whole("n", n, 1, "It is the number of steps to keep.")
        return self if n >= len(self) else self._each(slice(n))

    def __getitem__(self, key: slice | str | datetime | pd.Period | ArrayLike) -> Self:
        """Return the forecast of some of the steps, as pandas picks them from a Series.

        The ``key`` has positions, ``ahead[:6]``; times, ``ahead["2027-03":"2027-06"]``, the end
        included; one time or period, ``ahead["2027"]``, which may hold several steps; or a mask,
        ``ahead[ahead.index.day_of_week == 5]``. A single number is a TypeError; no step, or another
        order, a KeyError.
        """
        part = positions(self._index, key)
        whole = isinstance(part, slice) and part == slice(0, len(self), 1)
        return self if whole else self._each(part)

    def __neg__(self) -> Self:
        return self._each(factor=-1.0)

    def __add__(self, other: float) -> Self:
        return self._each(shift=_number(other))

    def __sub__(self, other: float | Forecast) -> Self | Forecast:
        if isinstance(other, Forecast) and self._minus is not None and self._minus == other._minus:
            return self._minus(self, other)
        return self + -_number(other)

    def __rsub__(self, other: float) -> Self:
        return -self + other

    def __mul__(self, other: float) -> Self:
        return self._each(factor=_number(other, "multiplied"))

    def __truediv__(self, other: float) -> Self:
        return self * (1.0 / _number(other, "divided", ZeroDivisionError))

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, other: object) -> NoReturn:
        must, remedy = "be shifted or multiplied", "Raise its quantiles or paths, as of `sample`."
        raise refusal("a forecast", must, "a power or an absolute value", remedy, TypeError)

    def __abs__(self) -> NoReturn:
        self.__pow__(1)

    @classmethod
    def average(
        cls,
        forecasts: Sequence[Self],
        weights: ArrayLike | None = None,
        *,
        disagreement: bool = False,
    ) -> Self:
        """Return the forecast whose quantiles are the averages of those of several.

        The average of normal forecasts is normal, with the average mean and the average std; unlike
        a mixture of their distributions, it is no wider where they disagree. The correlations of
        its normal scores are those of the weighted sum of std R std, std in units of y and R those
        of a member's scores. :meth:`censored` forecasts are averaged before their bounds, and
        censored at the average of these if all have one; counts (:meth:`whole`) are averaged before
        rounding, and rounded if all are. Parts are averaged. If a member has :attr:`paths`, the
        average has as many: each has the ranks of a member's path, and averaged quantiles.

        ``forecasts`` are from the same origin; shorter ones count for their own steps only.
        ``weights`` are (k,), one a forecast, or (k, h), with a column for each step of the longest;
        only their ratios at a step count, none is negative, not all are 0 at a step, and by default
        all are the same. ``disagreement`` widens the bands where the members disagree: the square
        of half the width of the 68 % band grows by the weighted variance of their medians, and each
        member keeps its shape and its median.

        Examples
        --------
        >>> index = pd.RangeIndex(1)
        >>> both = Forecast.average([Forecast(index, [1], [[1]]), Forecast(index, [4], [[9]])])
        >>> both.mean.item(), both.std.item()
        (2.5, 2.0)
        """
        members = _checks.check_several("forecasts", forecasts, "Forecasts", "[forecast] for one")
        remedy = "Pass what Forecaster.forecast returns, one or more."
        for member in members:
            if not isinstance(member, cls):
                got = type(member).__name__
                raise refusal("forecasts", "hold Forecasts", got, remedy, TypeError)
        if not members:
            raise refusal("forecasts", "hold a forecast", "none", remedy)
        longest = max(members, key=len)
        for member in members:
            if not member._index.equals(longest._index[: len(member)]):
                remedy = "Forecast the same steps from the same origin."
                got = f"{member!r} beside {longest!r}"
                raise refusal("forecasts", "be of the same times", got, remedy)
        remedy = "True widens the bands where the members disagree."
        _checks.check_truth("disagreement", disagreement, remedy)
        made = average(
            [member._prediction for member in members],
            weights,
            disagreement,
            range(1, len(members) + 1),
            longest._label,
        )
        return cls._of(longest._index, made)

    def recalibrated(
        self, factor: ArrayLike, *, dof: float | None = None, correlation: float = 0.0
    ) -> Self:
        r"""Return the forecast with wider or narrower bands, and other correlations.

        .. math::

            \mu + c \sigma T(z), \qquad
            R' = (1 - |r|) R + |r|\,(I \text{ if } r < 0, \; 1 1' \text{ otherwise})

        for each step, or each member of an average at it, of mean mu and std sigma: medians stay as
        they are. The widths are multiplied by c, ``factor`` of shape (h,), positive, on the scale
        of a ``transform``: without ``dof`` a step :math:`q_t(z)` becomes :math:`q_t(c z)`.
        ``correlation`` is r, from -1 for independent steps to 1 for steps that
        move as one. T(z) is z, or with ``dof``, from 3, Student's t of so many degrees of freedom
        and the same 80 % interval, for what is normal in units of y. The steps of a single model's
        paths have :math:`q_t(c T(z))`, too, and :attr:`paths` keep their ranks, except for a share
        \|r\|. :meth:`decompose` shows what changed as its part ``calibration``.
        """
        factors = frozen("factor", factor, (len(self),))
        if not (factors > 0).all():
            remedy = "1 leaves a step as it is."
            raise refusal("factor", "be positive", f"{factors.min():g}", remedy)
        if dof is not None and not LEAST_DOF <= as_float(dof) < np.inf:
            remedy = "None leaves the shape as it is."
            raise refusal("dof", f"be None or a number from {LEAST_DOF:g}", repr(dof), remedy)
        if not -1.0 <= as_float(correlation) <= 1.0:
            remedy = "0 leaves the correlations as they are."
            raise refusal("correlation", "lie between -1 and 1", repr(correlation), remedy)
        dof = None if dof is None else float(dof)
        return self._changed(self._joint.recalibrated(factors, dof, float(correlation)))

    def censored(self, lower: float, *, upper: float = np.inf, keep_moments: bool = False) -> Self:
        """Return the forecast with values beyond the bounds of the series moved to the bound.

        Where the series keeps to the bounds, no quantile is farther from what happens than before.
        Mean and covariance are those of the censored values, the parts keep their shares, and
        :meth:`check` is that of the forecast before.

        ``lower`` and ``upper``, above it, are in units of y, infinite for none; a step certain to
        be at one raises ``Diverged``. With ``keep_moments`` the steps are moved and stretched until
        the mean and the variance of what is censored are those of the forecast before: for a model
        that has learned from many values at the bound, whose mean the bound would raise. The mean
        is then at least a fifth of the std inside each bound, or 4 % of the distance of both if
        that is less; a variance is at most 99 % of the largest between them, (mean - lower) *
        (upper - mean).

        Examples
        --------
        >>> sales = Forecast(pd.RangeIndex(1), [1.0], [[4.0]])
        >>> round(sales.censored(0.0).mean.item(), 3)
        1.396
        >>> round(sales.censored(0.0, keep_moments=True).mean.item(), 3)
        1.0
        """
        lower = _checks.check_lower(lower)
        upper = _checks.check_upper(upper, lower)
        _checks.check_truth("keep_moments", keep_moments, "False leaves the steps where they are.")
        low, high = np.full(len(self), lower), np.full(len(self), upper)
        return self._changed(self._joint.censored(low, high, keep_moments))

    def whole(self) -> Self:
        """Return the forecast of counts: each value rounded to the nearest whole number.

        Quantiles are whole numbers, each of which is an atom (:attr:`atoms`) with the probability
        of what is rounded to it, halves down; moments and scores are those of the counts. Bounds,
        given before or after, move to the whole numbers within them; a ValueError says if there is
        none. Sums and extremes are those of 65,536 paths.

        Examples
        --------
        >>> sold = Forecast(pd.RangeIndex(1), [1.2], [[1.0]]).censored(0.0).whole()
        >>> sold.quantile([0.1, 0.5, 0.9]).iloc[0].tolist(), round(sold.prob(lower=0).item(), 3)
        ([0.0, 1.0, 2.0], 0.758)
        """
        return self._changed(self._joint.whole())

    def conformal(self, sizes: ArrayLike) -> Self:
        """Return the forecast whose bands are those of errors seen before.

        The central interval of coverage i / (k + 1) is :math:`[q_t(-s), q_t(s)]` without bounds,
        with s the i-th smallest of the k sizes of a step: of normal steps half of it is s stds. In
        between s is linear in the normal score, beyond the largest on the line from 0 through it.
        If the next
        error is exchangeable with those, the interval of a step holds it with that probability,
        whatever the distribution; the correlations are those of the model. ``sizes``, of shape
        (h, k), are positive, in units of half the forecast's 68 % band. :meth:`decompose` shows
        what changed as its part ``calibration``.
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

    def aggregate(
        self,
        how: str | ArrayLike = "sum",
        freq: str | None = None,
        *,
        partial: Literal["warn", "keep", "drop"] = "warn",
    ) -> Self:
        """Return the forecast of a sum, mean or weighted sum of the steps, or of an extreme.

        Mean and variance of a linear combination are exact. With :attr:`paths`, which are added up
        one by one, it has the distribution of these. Without, that of normal steps is normal; of
        other steps its quantiles, and all of an extreme, are those of 65,536 paths that are spread
        evenly over the joint distribution (fewer beyond 128 steps), the same every time.

        Probabilities are right to about .002; of extremes of a conformal forecast, or with 1000
        paths of its own, to .02. Fewer than 16,384 paths of unbounded values are smoothed. A
        difference of steps at a bound may be 0 with a probability that :attr:`atoms` does not list;
        beside it they are right to .04. An extreme that is the same in all paths is refused; that
        of a step that is certain, as a closed one, is certain, too.

        ``how`` is "sum", "mean", "max", "min", or the weights (h,) of any linear combination:
        ``[-1, 0, 1]`` for the change from step 1 to step 3, or a Series of them by time. ``freq``
        is the frequency of the groups, as for :meth:`pandas.Series.resample`, which labels them,
        such as ``"YE"``; of a PeriodIndex ``"Y"``, of whole periods. None is one group, at the last
        time. Groups at the ends have only the steps that were forecast, such as three months of a
        year. ``partial`` says whether such parts of periods give a ``PartialPeriodWarning``, are
        kept without one, or are dropped.

        Examples
        --------
        >>> two = Forecast(pd.RangeIndex(2), [1.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> two.aggregate("sum").std.round(3).item(), two.aggregate("max").prob(2.0).round(2).item()
        (1.732, 0.25)
        """
        if isinstance(how, pd.Series):
            how = self._at_steps("how", how, "Pass 0 for a step that is left out.")
        of_one = isinstance(how, str) and how in ("max", "min")
        labels, matrix = group_weights(self._index, "sum" if of_one else how, freq, partial)
        if of_one and len(labels) < len(self):
            joint = extreme(self._joint, matrix > 0, how == "max")
            assert joint.paths is not None
            n, first, q = joint.paths.shape[1], joint.paths[:, :1], self._joint.q
            same = (joint.paths == first).all(axis=1)
            known = ((matrix > 0) & q.certain & (q.lower == first)).any(axis=1)  # of closed times
            joint = joint.certain(same & known, first[:, 0])
            if (at := _checks.first_true(same & ~known)) is not None:
                place = format_time(labels, at)
                got = f"an extreme that is the same in all {n} paths at {place}"
                remedy = "It is as good as certain: take fewer steps, or the sum."
                raise refusal("how", "leave what is uncertain", f"{got}, as at a bound", remedy)
            way = self._prediction.propagation
            made = Prediction(joint, self.name, way, aggregated=self._aggregated(how, freq))
            return self._of(labels, made)
        with np.errstate(over="ignore", invalid="ignore"):
            cov = mapped(matrix, self._joint.cov)
            wrong = ~np.isfinite(matrix @ self._joint.mean + cov.diagonal())
        if (at := _checks.first_true(wrong)) is not None:
            must = "give a mean and a variance that fit a float"
            got = f"a variance of {cov[at, at]:g} at {format_time(labels, at)}"
            raise refusal("how", must, got, "Divide the series by a constant.")
        uncertain = (matrix != 0.0) @ ~self._joint.q.certain
        _checks.check_positive(cov + np.diag(uncertain == 0), lambda i: format_time(labels, i))
        made = self._prediction.combined(matrix)
        return self._of(labels, replace(made, aggregated=self._aggregated(how, freq)))

    def _aggregated(self, how: object, freq: str | None) -> str | None:
        """What an aggregate of these steps is, in words."""
        if freq is None and len(self) == 1:
            return self.aggregated
        name = _AGGREGATES.get(how, how) if isinstance(how, str) else "weighted sum"
        steps = counted(len(self), "step") if freq is None else f"steps by {freq}"
        each = f", each a {self.aggregated}" if self.aggregated else ""
        return f"{name} of {steps}{each}"

    def condition(self, observed: pd.Series[float]) -> Self:
        r"""Return the forecast of the remaining steps once some values are known.

        .. math:: B z_o, \quad R_{rr} - B R_{or}, \quad B = R_{ro} R_{oo}^{-1}

        are mean and covariance of the remaining normal scores z, given those observed. Of a value
        at the bound (:meth:`censored`) z is at most that of the bound, and they are those of the
        truncated normal distribution, of several such values by expectation propagation. The model
        is not refitted. :attr:`paths` and parts are dropped.

        ``observed`` is a Series of values at some of the forecast's times, in any order. One
        without density is refused (a negative one after a log), and so are steps that determine
        each other.
        """
        observed = check_is_series(observed, "observed")
        values = numeric_values(observed, "observed")
        at = self._index.get_indexer(observed.index)
        times = f"They run from {self._label(0)} to {self._label(-1)}."
        far = ~(np.abs(values) <= FARTHEST)
        for wrong, rule, got, remedy in (
            (at < 0, "lie at the forecast's times", "", times),
            (observed.index.duplicated(), "hold each time once", " twice", "Keep one value."),
            (far, "be finite", " not finite", "Leave out what is not known."),
        ):
            if wrong.any():
                first = format_time(observed.index, int(wrong.argmax()))
                raise refusal("observed", rule, f"{first}{got}", remedy)
        if len(at) == len(self):
            must, got = "leave a step to forecast", f"all {len(self)}"
            raise refusal("observed", must, got, "Leave one out.")
        if not at.size:
            return self
        joint = condition(self._joint, at, values, self._label)
        made = Prediction(joint, self.name, aggregated=self.aggregated)
        return self._of(self._index.delete(np.sort(at)), made)

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Return the central interval of each step: columns ``lower`` and ``upper``, in units of y.

        It holds the value with a probability of ``coverage``, in (0, 1); as much lies below as
        above. Some 60 % of paths of 24 steps lie within the 95 % intervals of all steps (35 to 79 %
        on the bundled series); see :meth:`simultaneous_interval`.
        """
        coverage = _checks.check_coverage(coverage)
        return self._band(-ndtri(0.5 * (1 - coverage)))

    def highest_density(self, coverage: float = 0.9) -> pd.DataFrame:
        """Return the shortest region of each step that holds the value with this probability.

        Its density is the highest: of a distribution with two peaks it has two pieces, where the
        central :meth:`interval` is one, with all that is unlikely between them. A row a piece, by
        the time of the step: ``lower`` and ``upper``, in units of y, and ``probability``, which add
        up to ``coverage``, in (0, 1), within .002. Gaps below 3 % of the region are closed, and a
        single value, as of counts or at a bound, is whole or none: both make it more.

        Examples
        --------
        >>> paths = np.random.default_rng(0).normal(0, 0.2, (1, 1000)) + np.repeat([-1, 1], 500)
        >>> two = Forecast(pd.RangeIndex(1), paths.mean(axis=1), np.atleast_2d(np.cov(paths)),
        ...                paths=paths)
        >>> two.highest_density(0.8)[["lower", "upper"]].round(1).to_numpy().tolist()
        [[-1.3, -0.7], [0.7, 1.3]]
        """
        coverage = _checks.check_coverage(coverage)
        rows = highest_density(self._joint.marginals, coverage)
        frame = pd.DataFrame(rows, columns=["step", "lower", "upper", "probability"])
        return frame.set_axis(self._index[frame.pop("step").to_numpy(np.intp)])

    def simultaneous_interval(self, coverage: float = 0.9) -> pd.DataFrame:
        r"""Return the band that holds the whole path, ``lower`` and ``upper``, in units of y.

        .. math:: [q_t(-c), q_t(c)], \qquad P(|z_t| \le c \;\forall t) = \text{coverage},

        with z the normal scores of the steps: the correlations and the number of steps decide how
        much wider than :meth:`interval` the band is. The probability is one over 8192 fixed points,
        over 24 steps right to .001; of a forecast with :attr:`paths` it is their share within the
        band. With a bound within reach it is larger than ``coverage``, in (0, 1).
        """
        coverage = _checks.check_coverage(coverage)
        joint = self._joint
        if joint.paths is not None:
            return self._band(reach_of_paths(joint.marginals, joint.paths, coverage))
        joint.eigen()
        return self._band(reach_of_all(joint.cor, coverage))

    @overload
    def cdf(self, values: float | pd.Series[float]) -> pd.Series[float]: ...
    @overload
    def cdf(self, values: Sequence[float] | Array) -> pd.DataFrame: ...
    def cdf(
        self, values: float | pd.Series[float] | Sequence[float] | Array
    ) -> pd.Series[float] | pd.DataFrame:
        """Return the probability of a value up to the given ones, by step.

        The inverse of :meth:`quantile` but at :attr:`atoms`. One number as ``values``, or a Series
        of one for each of the forecast's times (NaN for none), gives a Series; several numbers give
        a DataFrame with these as columns.
        """
        if np.ndim(values) == 0 or isinstance(values, pd.Series):
            return self._series(self._joint.marginals.cdf(self._levels("values", values)))
        levels = numbers("values", values)
        if levels.ndim != 1 or not levels.size:
            must, remedy = "be a number, a Series or several numbers", "A Series has one a step."
            raise refusal("values", must, f"shape {levels.shape}", remedy)
        if (at := _checks.first_true(np.isnan(levels))) is not None:
            raise refusal("values", "be numbers", f"nan at position {at}", "Leave it out.")
        table = self._joint.marginals.cdf(np.tile(levels, (len(self), 1)))
        return pd.DataFrame(table, index=self.index, columns=levels)

    def prob(
        self,
        lower: float | pd.Series[float] | None = None,
        upper: float | pd.Series[float] | None = None,
    ) -> pd.Series[float]:
        """Return the probability of a value above ``lower`` and up to ``upper``, by step.

        Each step by itself; for the sum or maximum, ``ahead.aggregate("sum").prob(lower=100)``.
        The ends, one or both, are numbers or Series of one for each of the forecast's times.
        ``prob(lower=x)`` and ``prob(upper=x)`` add up to 1: where 0 has a probability,
        ``prob(lower=0)`` is that of any sale at all.
        """
        if lower is None and upper is None:
            raise refusal("lower or upper", "be given", "neither", "Any value has probability 1.")
        low, high = self._levels("lower", lower, -np.inf), self._levels("upper", upper, np.inf)
        if (at := _checks.first_true(low > high)) is not None:
            got = f"{low[at]:g} and {high[at]:g} at {self._label(at)}"
            raise refusal("lower", "not be above upper", got, "Swap them.")
        return self._series(self._joint.prob(low, high))

    @overload
    def quantile(self, q: float) -> pd.Series[float]: ...
    @overload
    def quantile(self, q: Sequence[float] | Array) -> pd.DataFrame: ...
    def quantile(self, q: float | Sequence[float] | Array) -> pd.Series[float] | pd.DataFrame:
        """Return quantiles of each step, in units of y, with probability q below, in (0, 1).

        One q gives a Series, several give a DataFrame with these as columns.
        """
        levels, remedy = numbers("q", q), "For the 95 % quantile pass 0.95."
        wrong = levels[~((levels > 0) & (levels < 1))]
        if levels.ndim > 1:
            raise refusal("q", "be a number or a sequence of them", f"shape {levels.shape}", remedy)
        if wrong.size:
            raise refusal("q", "lie strictly between 0 and 1", f"{wrong[0]:g}", remedy)
        values = self._joint.marginals(ndtri(np.atleast_1d(levels))[None])
        if levels.ndim == 0:
            return self._series(values[:, 0])
        return pd.DataFrame(values, index=self.index, columns=levels)

    def sample(self, n: int, random_state: RandomState = None) -> pd.DataFrame:
        """Draw ``n`` paths from the joint distribution: steps by paths, in units of y.

        A forecast with :attr:`paths` returns these in random order, none twice before all came
        once. Others need correlations without a negative eigenvalue, apart from roundoff (1e-10 of
        the largest). An int as ``random_state`` gives the same paths every time, here and wherever
        paths are drawn; it may be a numpy Generator.
        """
        n = check_paths(n, 1, len(self), "n")
        paths, random = self._joint.paths, _checks.generator(random_state)
        if paths is None:
            return pd.DataFrame(self._joint.sample(n, random), index=self.index)
        known = paths.shape[1]
        at = np.concatenate([random.permutation(known) for _ in range(0, n, known)])[:n]
        return pd.DataFrame(paths[:, at], index=self.index)

    def decompose(self, *, by_kind: bool = False) -> pd.DataFrame:
        r"""Return where the variance of each step comes from, a column a part.

        To first order :math:`y_t = a_t \cdot z + e_t + \varepsilon_t` with its inputs z (earlier
        values and regressors), the error e of the function at the mean inputs, and noise. The
        parts, which add up to the variance in squared units of y (below 1e-9 of it one is 0), are

        - ``noise``: :math:`\mathrm{Var}\,\varepsilon_t`; ``noise_observation``: of the error of its
          observation, which no later step has;
        - ``function_own``: :math:`\mathrm{Var}\,e_t`; ``function_shared``:
          :math:`2\,\mathrm{Cov}(e_t, a_t \cdot z)`, negative if the errors compensate;
        - ``inputs_propagated``: of :math:`a_t \cdot z`, from noise and function of earlier steps;
        - ``inputs_missing``, ``inputs_regressors``: of missing or noisy values before the first
          step, and of uncertain regressors, through all steps;
        - ``inputs_nonlinear``: the rest, which may be negative;
        - ``hyperparameters``: of smoothing, the variance of the means over its parameters;
        - ``members``: the variance of the average less the average variance of its members.
          Averaging quantiles makes it smaller, by :math:`\sum_k w_k (s_k - \bar s)^2` with the stds
          s of the members; their disagreement (in the default) makes it larger;
        - ``calibration``: what rescaling added.

        After a transform the parts have the shares that they have of the variance on its scale.
        Parts of a sum contain the covariances between its steps. A forecast built without parts, by
        :meth:`condition`, or of an extreme has none: a ValueError. ``by_kind`` adds up the parts of
        a kind, which is the first word of their names.
        """
        _checks.check_truth("by_kind", by_kind, "True adds up the parts of a kind.")
        if self._joint.parts is None:
            remedy = "Build it with parts; a forecast by a regressor that predicts a std alone, a "
            remedy += "maximum, or what is left after `condition` has no such split."
            must = "be called on a forecast that knows its parts"
            raise refusal("decompose", must, "none", remedy)
        parts = variances(self._joint.parts(), self._joint.cov)
        return pd.DataFrame(of_kinds(parts) if by_kind else parts, index=self.index)

    def check(self, n_samples: int = 500, random_state: RandomState = None) -> Check:
        """Compare with sample paths of the same model, each of one function.

        The paths are those of ``propagation="monte_carlo"``: free of the joint Gaussian that closed
        forms keep to. An average is compared with that of its members, each with the moments of its
        own paths; a calibrated forecast is checked as before it was calibrated.

        More than 500 paths (``n_samples``, from 100; ``random_state`` as in :meth:`sample`) find
        smaller errors, and take longer: 500 find 20 % of a std. A ValueError says if the model is
        not known (of a forecast built by hand, after :meth:`condition`, of an extreme, or an
        aggregate of an average), or a path diverges.
        """
        n_samples = check_paths(n_samples, 100, len(self))
        labels, seed = self._index.astype(str).tolist(), _checks.one_seed(random_state)
        return check(self._prediction, labels, n_samples, seed)[0]

    def score(self, actual: pd.Series[float], coverage: float = 0.95) -> pd.DataFrame:
        """Score each step against what happened.

        A row has ``error`` (actual - mean), ``crps``, ``nlpd``, ``interval_score`` and ``pit``, as
        in the module ``scores``; of an atom, a count say, ``pit`` has half of its probability.
        ``nlpd`` is inf where the forecast excludes the value, and minus the log of a positive
        probability. The interval scored is that of ``coverage``, in (0, 1).

        ``actual`` is a Series of what happened, in units of y, at the forecast's times and perhaps
        others; NaN where it was not observed, for scores that are NaN.
        """
        y, joint = self._at_steps("actual", actual), self._joint
        q = joint.marginals
        if q.is_normal:
            normal = y, joint.mean, joint.std
            crps, nlpd, pit = scores.crps(*normal), scores.nlpd(*normal), scores.pit(*normal)
        else:
            crps, nlpd, pit = q.crps(y), q.nlpd(y), q.pit(y)
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
        self, actual: pd.Series[float], n_samples: int = 1000, random_state: RandomState = None
    ) -> float:
        """Score all steps at once by :func:`scores.energy_score` of paths, in units of y.

        ``actual`` is that of :meth:`score`; the score is NaN if a step is. ``n_samples`` paths are
        drawn as by :meth:`sample`, with its ``random_state``, or all :attr:`paths` if there are
        fewer; the time grows with their square.
        """
        n_samples = check_paths(n_samples, 2, len(self))
        if self._joint.paths is not None:
            n_samples = min(n_samples, self._joint.paths.shape[1])
        y = self._at_steps("actual", actual)
        return scores.energy_score(y, self.sample(n_samples, random_state).to_numpy().T)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return mean, std and interval, named as statsmodels names them.

        The columns are ``mean``, ``mean_se``, ``mean_ci_lower`` and ``mean_ci_upper``; ``alpha``,
        in (0, 1), is the probability outside the interval.
        """
        alpha = _checks.check_coverage(alpha, "alpha", of_95="0.05")
        frame = pd.DataFrame({"mean": self.mean, "mean_se": self.std})
        return frame.join(self.interval(1 - alpha).add_prefix("mean_ci_"))

    def plot(
        self,
        history: pd.Series[float] | None = None,
        coverage: Sequence[float] = (0.5, 0.8, 0.95),
        actual: pd.Series[float] | None = None,
        ax: Axes | None = None,
        **style: Any,
    ) -> Axes:
        """Draw the mean and nested central intervals, and return the axes.

        Where a step of sample paths has two peaks, the shortest regions (:meth:`highest_density`)
        take the place of the intervals, unless ``regions`` is False. The line is the mean. Of a
        skewed forecast it can leave a narrow band, whose middle is :attr:`median`. The legend
        stands above the axes.

        Parameters
        ----------
        history : Series, optional
            Past values, such as the last few seasons. If they go on to the forecast at its
            frequency, its line and bands begin at the last one.
        coverage, actual, ax
            Coverages of the intervals, in (0, 1); what happened, a Series drawn as points at the
            forecast's times; where to draw, by default a new figure, as `DataFrame.plot` of pandas
            and statsmodels do.
        style
            ``color``, ``label``, ``legend`` and ``regions``, as for :func:`plot.fan`.
        """
        return fan(self, coverage, history=history, actual=actual, ax=ax, **style)

    @classmethod
    def _of(cls, index: pd.Index[Any], prediction: Prediction) -> Self:
        """The forecast of what was predicted for some times."""
        forecast = cls.__new__(cls)
        forecast._settle(index, prediction)
        return forecast

    def _settle(self, index: pd.Index[Any], prediction: Prediction) -> None:
        self._index = index.copy()
        self._minus: Difference | None = None
        self._prediction = prediction.checked(partial(format_time, index))
        joint = prediction.joint
        for array in (joint.cor, joint.mean, joint.cov):
            array.setflags(write=False)

    @property
    def _joint(self) -> Joint:
        return self._prediction.joint

    def _changed(self, joint: Joint) -> Self:
        changed = self._prediction.changed(joint)
        return self if changed is self._prediction else self._of(self._index, changed)

    def _each(
        self, part: slice | Positions = slice(None), factor: float = 1.0, shift: float = 0.0
    ) -> Self:
        """Forecast of ``factor * y + shift`` at some of the steps, counted from 0."""
        at = np.arange(len(self))[part]
        return self._of(self._index[part], self._prediction.each(at, factor, shift))

    def _band(self, reach: float) -> pd.DataFrame:
        band = self._joint.marginals(np.array([[-reach, reach]]))
        return pd.DataFrame(band, index=self.index, columns=["lower", "upper"])

    def _series(self, values: Array) -> pd.Series[float]:
        return pd.Series(values.copy(), index=self.index, name=self.name)

    def _label(self, position: int) -> str:
        return format_time(self._index, position)

    def _at_steps(
        self,
        name: str,
        given: pd.Series[float],
        remedy: str = "Pass NaN for what was not observed.",
    ) -> Array:
        """Values of a series at the steps, (h,)."""
        given = check_is_series(given, name)
        values = numeric_values(given, name)
        if not given.index.is_unique:
            first = given.index[given.index.duplicated()][0]
            raise refusal(name, "hold each time once", f"{first} twice", "Keep one value.")
        at = given.index.get_indexer(self._index)
        if (at < 0).any():
            got = f"no {self._label(int((at < 0).argmax()))}"
            raise refusal(name, "hold each of the forecast's times", got, remedy)
        return np.asarray(values[at])

    def _levels(self, name: str, value: Any, otherwise: float | None = None) -> Array:
        """A level for each step, (h,), from one for all, a Series, or None if allowed."""
        value = otherwise if value is None else value
        if isinstance(value, pd.Series):
            return self._at_steps(name, value)
        level = as_float(value)
        if np.isnan(level):
            must, remedy = "be a number or a Series of one for each step", "It is in units of y."
            raise refusal(name, must, reprlib.repr(value), remedy, TypeError)
        return np.full(len(self), level)


def forecast_of(index: pd.Index[Any], prediction: Prediction) -> Forecast:
    """The forecast of what was predicted for the first of some times."""
    n = len(prediction)
    return Forecast._of(index if n == len(index) else index[:n], prediction)


def prediction_of(forecast: Forecast) -> Prediction:
    """The joint distribution of a forecast, and how it was made."""
    return forecast._prediction


def with_difference(forecast: Forecast, minus: Difference) -> Forecast:
    """The forecast with its difference to others of the same futures."""
    made = forecast_of(forecast._index, forecast._prediction)
    made._minus = minus
    return made


def _number(value: Any, verb: str = "combined", of_zero: type[Exception] = ValueError) -> float:
    """A finite number, or an error; not 0 but where a forecast is moved."""
    number = as_float(value)
    if np.isnan(number) and not isinstance(value, (float, np.floating)):
        remedy = "For sums of its steps call `aggregate`. Two forecasts have a joint distribution "
        remedy += "as they come from `Forecaster.scenarios` alone."
        got = reprlib.repr(value) if isinstance(value, Real) else type(value).__name__
        raise refusal("a forecast", "be combined with a number", got, remedy, TypeError)
    if not np.isfinite(number):
        raise refusal("a forecast", "be combined with a finite number", f"{value}", "Leave it out.")
    if number == 0 and verb != "combined":
        must, remedy = f"be {verb} by a number other than 0", "Nothing would be uncertain."
        raise refusal("a forecast", must, "0", remedy, of_zero)
    return number
