"""The result of forecasting: the joint distribution of all steps, with their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from forecast_unc._random import RandomState
from forecast_unc.distributions.export import (
    darts_series,
    gluonts_forecast,
    nixtla_frame,
    summary_frame,
)
from forecast_unc.distributions.fan import fan
from forecast_unc.distributions.judged import Judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Forecast(Judged):
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

    __slots__ = ()

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
            The axes drawn on. The legend stands above them, where it hides nothing, and a title
            above it.
        """
        return fan(self, coverage, history=history, actual=actual, ax=ax)
