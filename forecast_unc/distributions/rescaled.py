"""Other bands: wider or narrower, of errors seen before, above a bound."""

from __future__ import annotations

from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from forecast_unc._checks import check_lower
from forecast_unc._typing import Array
from forecast_unc.distributions.bounded import moved, onto_moments
from forecast_unc.distributions.checked import frozen, numbers
from forecast_unc.distributions.marginals import Marginals
from forecast_unc.distributions.mirrored import Mirrored
from forecast_unc.distributions.parts import Deferred, stretched, with_change
from forecast_unc.distributions.pooled import Pooled
from forecast_unc.distributions.tail import LEAST_DOF, EmpiricalTail

# No values above a bound have their mean at it: so many stds above it at least.
_LEAST_ABOVE = 0.2


class Rescaled(Pooled):
    """Steps whose bands can be changed."""

    __slots__ = ()

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
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
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

    def censored(self, lower: float, *, keep_moments: bool = False) -> Self:
        """Return the forecast of a series that is never below a bound.

        What probability lies below the bound is put at it: max(y, lower) in the place of y. Where
        the series is never below, no quantile is farther from what happens than before.

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
            Mean, covariance and parts are those of the censored values, the parts with their
            shares of the variance before; :meth:`check` is that of the forecast before.

        Raises
        ------
        ValueError
            If ``lower`` is not a number below inf, or the forecast is one of -y.
        Diverged
            If a step is certain to be at the bound.

        Examples
        --------
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
        >>> sales = Forecast(pd.RangeIndex(1), [1.0], [[4.0]]).censored(0.0)
        >>> sales.interval(0.9).round(2)
           lower  upper
        0    0.0   4.29
        >>> round(sales.mean.item(), 3), sales.median.item()
        (1.396, 1.0)
        >>> rare = Forecast(pd.RangeIndex(1), [1.0], [[4.0]]).censored(0.0, keep_moments=True)
        >>> round(rare.mean.item(), 3), round(rare.std.item(), 3), rare.median.item()
        (1.0, 2.0, 0.0)
        """
        check_lower(lower)
        return self._bounded(np.full(len(self), float(lower)), keep_moments)

    def conformal(self, sizes: ArrayLike) -> Self:
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
        >>> import pandas as pd
        >>> from forecast_unc import Forecast
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

    def _calibrated(self, marginals: Marginals, cor: Array) -> Self:
        """Return it with other distributions; what its covariance gains is one more part."""
        changed = self._of(self._index, marginals, cor, self._name)
        changed._made(self._propagation, None, self._model)
        changed._before = self
        if self._parts is not None:
            make = partial(with_change, self._parts, "calibration", self._cov, changed._cov)
            changed._parts = Deferred(make)
        return changed

    def _bounded(self, lower: Array, keep_moments: bool = False) -> Self:
        """Forecast censored at the bounds (h,), -inf for none; see `censored`."""
        if np.isneginf(lower).all():
            return self
        if isinstance(self._marginals, Mirrored):
            raise ValueError(
                "lower must be the bound of a forecast that has not been turned upside down; got "
                "one for -y. Call `censored` before the minus sign."
            )
        marginals = self._marginals.censored(lower)
        if np.array_equal(marginals.lower, self._marginals.lower):
            return self
        near = bool(marginals.bitten.any())
        paths = self._paths
        if near and keep_moments:
            mean = np.maximum(self._mean, lower + _LEAST_ABOVE * self._std)
            factor, shift = onto_moments(marginals, mean, self._cov.diagonal())
            factor = np.where(marginals.bitten, factor, 1.0)
            shift = np.where(marginals.bitten, shift, 0.0)
            marginals = moved(marginals, factor, shift)
            paths = None if paths is None else factor[:, None] * paths + shift[:, None]
        moments = None if near else (self._mean, self._cov)
        result = self._of(self._index, marginals, self._cor, self._name, moments)
        result._made(self._propagation, None, self._model)._before = self
        result._mixture = None if near else self._mixture
        if paths is not None:
            result._paths = np.maximum(paths, lower[:, None])
        if self._parts is not None:
            growth = result._std / self._std
            result._parts = Deferred(partial(stretched, self._parts, np.outer(growth, growth)))
        return result

    def _width(self, coverage: float) -> Array:
        """Widths of the central intervals without the bound, (h,)."""
        reach = -ndtri(0.5 * (1 - coverage))
        lower, upper = self._marginals.latent_quantile(np.array([[-reach, reach]])).T
        return np.asarray(upper - lower)
