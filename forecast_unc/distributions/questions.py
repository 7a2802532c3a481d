"""What is asked of a forecast: quantiles, intervals, paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import pandas as pd
from scipy.special import ndtri

from forecast_unc._checks import check_whole
from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.distributions import scores
from forecast_unc.distributions.conditioned import Conditioned

RANK_TOLERANCE = 1e-10
"""A negative eigenvalue of the correlations within this fraction of the largest is roundoff."""


class Questions(Conditioned):
    """Steps with quantiles, intervals and paths."""

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


def _picked(paths: Array, n: int, random_state: RandomState) -> Array:
    """So many of the paths (h, n_paths), each once, in random order."""
    if n > paths.shape[1]:
        raise ValueError(
            f"n must be at most the number of the forecast's paths, {paths.shape[1]}; got {n}. "
            f"Forecast with n_samples={n}."
        )
    return np.asarray(paths[:, generator(random_state).permutation(paths.shape[1])[:n]])
