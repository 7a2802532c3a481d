"""What is asked of a forecast: probabilities, quantiles, intervals, paths."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import overload

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from forecast_unc._checks import check_whole
from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.distributions import scores
from forecast_unc.distributions.checked import numbers
from forecast_unc.distributions.conditioned import Conditioned
from forecast_unc.distributions.joint_scores import reach_of_all


class Questions(Conditioned):
    """Steps with probabilities, quantiles, intervals and paths."""

    __slots__ = ()

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
            itself: a whole path lies within all of them with a smaller probability, over 24 steps
            within those of 95 % with some 60 % (35 to 79 % on the bundled series);
            :meth:`simultaneous_interval` holds the path. As much probability lies below as above.
            Of a Monte Carlo forecast it is that of its joint normal distribution, on the scale of
            the transform, not of its :attr:`paths`.

        Raises
        ------
        TypeError, ValueError
            If ``coverage`` is not a fraction.
        """
        scores.check_coverage(coverage)
        reach = -ndtri(0.5 * (1 - coverage))
        lower, upper = self._quantile(np.array([-reach, reach])).T
        return pd.DataFrame({"lower": lower, "upper": upper}, index=self.index)

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
            If ``coverage`` is not a fraction, or the covariance has an eigenvalue that is negative
            beyond roundoff.

        Notes
        -----
        Quasi-Monte Carlo over 8192 fixed points: no seed, and over 24 steps right to .001 in the
        probability. That is the probability under the joint distribution of :meth:`sample` without
        :attr:`paths`; with a bound within reach it is larger, as no path is below.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
        >>> walk = np.minimum.outer(np.arange(1.0, 25.0), np.arange(1.0, 25.0))
        >>> ahead = Forecast(pd.RangeIndex(24), np.zeros(24), walk)
        >>> ahead.simultaneous_interval(0.95).iloc[-1].round(1).tolist()
        [-13.2, 13.2]
        >>> ahead.interval(0.95).iloc[-1].round(1).tolist()
        [-9.6, 9.6]
        """
        scores.check_coverage(coverage)
        self._eigen()
        reach = reach_of_all(self._cor, coverage)
        lower, upper = self._quantile(np.array([-reach, reach])).T
        return pd.DataFrame({"lower": lower, "upper": upper}, index=self.index)

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
            Of a Monte Carlo forecast it is that of its joint normal distribution, on the scale of
            the transform, not of its :attr:`paths`.

        Raises
        ------
        TypeError, ValueError
            If a value is not a number, or the Series lacks a time.

        Examples
        --------
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
        >>> ahead = Forecast(pd.RangeIndex(2), [0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> ahead.cdf([0.0, 1.0]).round(2)
            0.0   1.0
        0  0.50  0.84
        1  0.16  0.50
        """
        if isinstance(values, (str, pd.Series)) or np.ndim(values) == 0:
            return self._series(self._marginals.pit(self._levels("values", values)))
        levels = numbers("values", values)
        if levels.ndim != 1 or not levels.size:
            raise ValueError(
                f"values must be a number, a Series or several numbers; got shape {levels.shape}. "
                "For one number at each step pass a Series."
            )
        columns = [self._marginals.pit(self._levels("values", level)) for level in levels]
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
            At least one is needed. The lower end does not belong to it, the upper one does, so that
            ``prob(lower=x)`` and ``prob(upper=x)`` add up to 1: ``prob(lower=0)`` is that of any
            sale at all where 0 has a probability.

        Returns
        -------
        Series
            Each step by itself. For a sum ask :meth:`aggregate`:
            ``ahead.aggregate("sum").prob(lower=100)``, and so for the maximum. Of a Monte Carlo
            forecast it is that of its joint normal distribution, on the scale of the transform, not
            of its :attr:`paths`.

        Raises
        ------
        TypeError, ValueError
            If there is no end, one is not a number, or they are not in order.

        Examples
        --------
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
        >>> ahead = Forecast(pd.RangeIndex(2), [0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
        >>> ahead.prob(lower=1.0).round(2).tolist()
        [0.16, 0.5]
        >>> ahead.aggregate("sum").prob(lower=1.0, upper=2.0).round(2).item()
        0.22
        """
        if lower is None and upper is None:
            raise ValueError(
                "lower or upper must be given; got neither. Any value has probability 1."
            )
        ends = self._levels("lower", lower, -np.inf), self._levels("upper", upper, np.inf)
        wrong = ends[0] > ends[1]
        if wrong.any():
            at = int(wrong.argmax())
            raise ValueError(
                f"lower must not be above upper; got {ends[0][at]:g} and {ends[1][at]:g} at "
                f"{self._label(at)}. Swap them."
            )
        low, high = (self._marginals.normal_score(end) for end in ends)
        # from the nearer tail, where small probabilities keep their digits
        turn = low > 0
        p = ndtr(np.where(turn, -low, high)) - ndtr(np.where(turn, -high, low))
        return self._series(p)

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
            Of a Monte Carlo forecast they are those of its joint normal distribution, on the scale
            of the transform, not of its :attr:`paths`.

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
        values, vectors = self._eigen()
        root = np.sqrt(np.where(values > 0, values, 0.0))
        # Not V sqrt(D): the signs of eigenvectors, hence the paths of a seed, differ by platform.
        factor = (vectors * root) @ vectors.T
        normals = generator(random_state).standard_normal((len(self), n))
        return pd.DataFrame(self._marginals.quantile(factor @ normals), index=self.index)

    def _levels(self, name: str, value: object, otherwise: float | None = None) -> Array:
        """A level for each step, (h,), from one for all, a Series, or None if allowed."""
        if value is None and otherwise is not None:
            return np.full(len(self), otherwise)
        if isinstance(value, pd.Series):
            return self._at_steps(name, value)
        if isinstance(value, bool) or not isinstance(value, Real) or np.isnan(float(value)):
            raise TypeError(
                f"{name} must be a number or a Series of one for each step; got {value!r}. "
                "It is a value of the series, in its units."
            )
        return np.full(len(self), float(value))


def _picked(paths: Array, n: int, random_state: RandomState) -> Array:
    """So many of the paths (h, n_paths), each once, in random order."""
    if n > paths.shape[1]:
        raise ValueError(
            f"n must be at most the number of the forecast's paths, {paths.shape[1]}; got {n}. "
            f"Forecast with n_samples={n}."
        )
    return np.asarray(paths[:, generator(random_state).permutation(paths.shape[1])[:n]])
