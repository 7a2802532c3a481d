"""The result of forecasting: one Gaussian over all the steps, with the times they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from forecast_unc._typing import Array
from forecast_unc.forecasting import scores
from forecast_unc.forecasting.series import check_is_series
from forecast_unc.regression.standardize import check_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANK_TOLERANCE = 1e-10
"""A negative eigenvalue of the correlations within this fraction of the largest is roundoff."""


class Forecast:
    """Joint normal distribution of the next h values; immutable.

    Every quantity is that of a future observation, noise included, in units of y. What changes a
    forecast returns a new one, computed from the whole covariance: the steps are not independent.

    Parameters
    ----------
    index : Index of length h
        The times of the steps, increasing: DatetimeIndex, PeriodIndex or RangeIndex.
    mean : array_like of shape (h,)
        Mean, in units of y.
    cov : array_like of shape (h, h)
        Joint covariance, in squared units of y.
    noise_cov, model_cov : array_like of shape (h, h), optional
        The parts of ``cov`` owed to observation noise and to doubt about the function; what is
        left is owed to uncertain inputs. Needed by :meth:`decompose` alone.
    name : hashable, optional
        Name of the series.

    Raises
    ------
    TypeError
        If ``index`` is not a pandas Index.
    ValueError
        If shapes do not fit, an entry is not finite, the times do not increase, or ``cov`` is not
        symmetric with a positive diagonal.

    Examples
    --------
    >>> index = pd.period_range("2024-01", periods=2, freq="M")
    >>> ahead = Forecast(index, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]], name="y")
    >>> ahead
    Forecast(name='y', 2024-01 to 2024-02, 2 steps)
    >>> ahead.aggregate("sum").std.item()
    1.7320508075688772
    """

    __slots__ = ("_cov", "_index", "_mean", "_model_cov", "_name", "_noise_cov")

    def __init__(
        self,
        index: pd.Index[Any],
        mean: ArrayLike,
        cov: ArrayLike,
        *,
        noise_cov: ArrayLike | None = None,
        model_cov: ArrayLike | None = None,
        name: Any = None,
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
        self._mean = _frozen("mean", mean, (h,))
        self._cov = _frozen("cov", cov, (h, h))
        var = self._cov.diagonal()
        if (var <= 0).any():
            at = int((var <= 0).argmax())
            raise ValueError(
                f"cov must have a positive diagonal; got {var[at]:.6g} at {self._label(at)}, from "
                f"a matrix of condition number {np.linalg.cond(self._cov):.3g}. A variance that is "
                "not positive is a numerical failure, or a value that is known already."
            )
        scale = np.outer(self._std, self._std)  # the product of variances can overflow
        _check_symmetric("cov", self._cov, scale)
        self._noise_cov = None if noise_cov is None else _frozen("noise_cov", noise_cov, (h, h))
        self._model_cov = None if model_cov is None else _frozen("model_cov", model_cov, (h, h))
        for part, value in (("noise_cov", self._noise_cov), ("model_cov", self._model_cov)):
            if value is not None:
                _check_symmetric(part, value, scale)

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
    def mean(self) -> pd.Series[float]:
        """Mean of each step, in units of y."""
        return self._series(self._mean)

    @property
    def median(self) -> pd.Series[float]:
        """Median of each step, in units of y; of a normal distribution, its mean."""
        return self.mean

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
            itself: a whole path lies within all of them with a smaller probability.

        Raises
        ------
        TypeError, ValueError
            If ``coverage`` is not a fraction.
        """
        scores.check_coverage(coverage)
        reach = -ndtri(0.5 * (1 - coverage)) * self._std
        return pd.DataFrame(
            {"lower": self._mean - reach, "upper": self._mean + reach}, index=self.index
        )

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
            If a ``q`` is not a number, or outside (0, 1).
        """
        try:
            levels = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"q must be a number or several; got {q!r}. For the 95 % quantile pass 0.95."
            ) from None
        wrong = ~((levels > 0) & (levels < 1))
        if wrong.any():
            raise ValueError(
                f"q must lie strictly between 0 and 1; got {levels[wrong].flat[0]:g}. "
                "For the 95 % quantile pass 0.95."
            )
        if levels.ndim == 0:
            return self._series(self._mean + ndtri(levels) * self._std)
        values = self._mean[:, None] + np.outer(self._std, ndtri(levels))
        return pd.DataFrame(values, index=self.index, columns=levels)

    def sample(self, n: int, random_state: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw paths from the joint distribution.

        Parameters
        ----------
        n : int
            Number of paths.
        random_state : int, Generator or None, optional
            An int gives the same paths every time.

        Returns
        -------
        DataFrame
            Steps by paths, in units of y. Each column is one coherent future.

        Raises
        ------
        ValueError
            If ``n`` is not a whole number from 1, or the covariance has an eigenvalue that is
            negative beyond roundoff.

        Notes
        -----
        The factor is the symmetric square root of the correlation matrix, which exists for a
        singular matrix too. An eigenvalue that is negative by at most 1e-10 of the largest is
        roundoff and counts as zero, which is what numerical rank means; beyond that it raises.
        """
        check_whole("n", n, 1, "It is the number of paths to draw.")
        values, vectors = np.linalg.eigh(self._cov / np.outer(self._std, self._std))
        if values[0] < -RANK_TOLERANCE * values[-1]:
            raise ValueError(
                f"cov must have no negative eigenvalue; got {values[0]:.3g} against a largest of "
                f"{values[-1]:.3g} (of the correlations), so no path can be drawn. "
                "Fewer steps, or more noise, condition it better."
            )
        root = np.sqrt(np.where(values > 0, values, 0.0))
        # Not V sqrt(D): the signs of eigenvectors, hence the paths of a seed, differ by platform.
        factor = (vectors * root) @ vectors.T
        normals = np.random.default_rng(random_state).standard_normal((len(self), n))
        return pd.DataFrame(
            self._mean[:, None] + self._std[:, None] * (factor @ normals), index=self.index
        )

    def aggregate(self, how: str | ArrayLike = "sum", freq: str | None = None) -> Forecast:
        """Return the forecast of a sum, mean or weighted sum of the steps.

        The joint covariance is used. Adding up the variances instead would take the steps for
        independent, and adding up the ends of intervals would take them for one and the same.

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
            If the weights are not h finite numbers, all zero within a group, or ``freq`` does not
            suit the index.
        """
        h = len(self)
        if freq is None:
            labels, group = self._index[-1:], np.zeros(h, dtype=np.intp)
        else:
            labels, group = self._groups(freq)
        member = (group == np.arange(len(labels))[:, None]).astype(np.float64)  # (groups, h)
        if isinstance(how, str):
            if how not in ("sum", "mean"):
                raise ValueError(
                    f'how must be "sum", "mean" or {h} weights; got {how!r}. '
                    "Pass the weight of each step for any other linear combination."
                )
            matrix = member / member.sum(axis=1, keepdims=True) if how == "mean" else member
        else:
            matrix = member * _frozen("how", how, (h,))
        if not matrix.any(axis=1).all():
            raise ValueError(
                "how must have a weight other than 0 in each group; got only zeros for "
                f"{labels[int((~matrix.any(axis=1)).argmax())]}. A sum of nothing has no forecast."
            )
        return self._map(matrix, 0.0, labels)

    def condition(self, observed: pd.Series[float]) -> Forecast:
        r"""Return the forecast of the remaining steps once some values are known.

        .. math:: \mu_r + B (y_o - \mu_o), \quad \Sigma_{rr} - B \Sigma_{or}, \quad
            B = \Sigma_{ro} \Sigma_{oo}^{-1}

        The model is not refitted: this is what the forecast itself implies. How much of the
        variance that is left comes from noise, model or inputs is not defined, so the result has
        no :meth:`decompose`.

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
            is left, or the observed steps determine each other under the joint distribution.
        """
        values = check_is_series(observed, "observed").to_numpy(dtype=np.float64)
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
        matrix = np.eye(len(self))[rest]  # picks the rest; then takes away B times the observed
        if at.size:
            std = self._std[at]
            cor = self._cov[np.ix_(at, at)] / np.outer(std, std)
            eigenvalues = np.linalg.eigvalsh(cor)
            # Beyond 1e12 the coefficients would keep fewer than four digits.
            if eigenvalues[0] < 1e-12 * eigenvalues[-1]:
                raise ValueError(
                    "observed must hold steps that do not determine each other; got correlations "
                    f"with eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}. "
                    "Leave some of them out."
                )
            cross = self._cov[np.ix_(rest, at)] / std
            matrix[:, at] = -np.linalg.solve(cor, cross.T).T / std
        rest_index = self._index.delete(np.sort(at))
        return self._map(matrix, -matrix[:, at] @ values, rest_index, parts=not at.size)

    def decompose(self) -> pd.DataFrame:
        """Return where the variance of each step comes from.

        Returns
        -------
        DataFrame
            Columns ``noise`` (observation noise of the step itself), ``model`` (doubt about the
            function) and ``inputs`` (the rest: uncertain inputs, earlier forecasts among them, and
            their interplay with the other two). They add up to the variance, in squared units of y.

        Raises
        ------
        ValueError
            If the forecast was made without its parts, or by :meth:`condition`.
        """
        if self._noise_cov is None or self._model_cov is None:
            raise ValueError(
                "decompose must be called on a forecast that knows its parts; got none. "
                "Build it with noise_cov and model_cov; a forecast by a regressor that predicts "
                "a std alone, or what is left after `condition` has no such split."
            )
        noise, model = self._noise_cov.diagonal(), self._model_cov.diagonal()
        rest = self._cov.diagonal() - noise - model
        return pd.DataFrame({"noise": noise, "model": model, "inputs": rest}, index=self.index)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return mean, standard error and interval, named as statsmodels names them.

        Parameters
        ----------
        alpha : float, default=0.05
            Probability outside the interval, in (0, 1): one minus its coverage.

        Returns
        -------
        DataFrame
            Columns ``mean``, ``mean_se``, ``mean_ci_lower`` and ``mean_ci_upper``, in units of y.

        Raises
        ------
        ValueError
            If ``alpha`` is outside (0, 1).
        """
        if not 0 < alpha < 1:
            raise ValueError(
                f"alpha must lie strictly between 0 and 1; got {alpha}. "
                "For a 95 % interval pass 0.05."
            )
        band = self.interval(1 - alpha)
        return pd.DataFrame(
            {
                "mean": self.mean,
                "mean_se": self.std,
                "mean_ci_lower": band["lower"],
                "mean_ci_upper": band["upper"],
            }
        )

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
            ``forecast_unc``, then ``forecast_unc-lo-95``, ``-lo-80``, ``-hi-80``, ``-hi-95``.

        Raises
        ------
        TypeError, ValueError
            If a level is not a percentage.
        """
        levels = scores.check_several("levels", levels, "percentages", "(95,) for one")
        wrong = [level for level in levels if not 1 <= level < 100]
        if wrong:
            raise ValueError(
                f"levels must be percentages from 1 to below 100; got {wrong[0]}. "
                "For a 95 % interval pass 95."
            )
        if unique_id is None:
            unique_id = "y" if self._name is None else str(self._name)
        times = self._index
        frame = pd.DataFrame(
            {
                "unique_id": unique_id,
                "ds": times.to_timestamp() if isinstance(times, pd.PeriodIndex) else times,
                "forecast_unc": self._mean,
            }
        )
        bands = {level: self.interval(level / 100) for level in sorted(levels)}
        for level in reversed(bands):
            frame[f"forecast_unc-lo-{level}"] = bands[level]["lower"].to_numpy()
        for level in bands:
            frame[f"forecast_unc-hi-{level}"] = bands[level]["upper"].to_numpy()
        return frame

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
            ``pit``, as in the module ``scores``; NaN where ``actual`` is.

        Raises
        ------
        TypeError
            If ``actual`` is not a Series.
        ValueError
            If ``actual`` lacks one of the forecast's times or has one twice.
        """
        if not check_is_series(actual, "actual").index.is_unique:
            first = actual.index[actual.index.duplicated()][0]
            raise ValueError(f"actual must hold each time once; got {first} twice. Keep one value.")
        at = actual.index.get_indexer(self._index)
        if (at < 0).any():
            raise ValueError(
                f"actual must hold each of the forecast's times; got no "
                f"{self._label(int((at < 0).argmax()))}. Pass NaN for what was not observed."
            )
        y = actual.to_numpy(dtype=np.float64)[at]
        band = self.interval(coverage)
        return pd.DataFrame(
            {
                "error": y - self._mean,
                "crps": scores.crps(y, self._mean, self._std),
                "nlpd": scores.nlpd(y, self._mean, self._std),
                "interval_score": scores.interval_score(y, band["lower"], band["upper"], coverage),
                "pit": scores.pit(y, self._mean, self._std),
            },
            index=self.index,
        )

    def plot(
        self,
        history: pd.Series[float] | None = None,
        coverage: Sequence[float] = (0.5, 0.8, 0.95),
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the mean and nested central intervals.

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
            The axes drawn on.
        """
        # The one import against the flow: a result should draw itself, and matplotlib is slow.
        from forecast_unc.evaluation.plot import fan

        return fan(self, coverage, history=history, ax=ax)

    @property
    def _std(self) -> Array:
        return np.sqrt(self._cov.diagonal())

    def _series(self, values: Array) -> pd.Series[float]:
        return pd.Series(values.copy(), index=self.index, name=self._name)

    def _label(self, position: int) -> str:
        return str(self._index.astype(str)[position])

    def _map(
        self, matrix: Array, offset: Array | float, index: pd.Index[Any], *, parts: bool = True
    ) -> Forecast:
        """Forecast of ``matrix @ y + offset``; the parts, if kept, follow the same map."""

        def spread(cov: Array) -> Array:
            mapped = matrix @ cov @ matrix.T
            return 0.5 * (mapped + mapped.T)  # the product is symmetric but for roundoff

        return Forecast(
            index,
            matrix @ self._mean + offset,
            spread(self._cov),
            noise_cov=spread(self._noise_cov) if parts and self._noise_cov is not None else None,
            model_cov=spread(self._model_cov) if parts and self._model_cov is not None else None,
            name=self._name,
        )

    def _groups(self, freq: str) -> tuple[pd.Index[Any], np.ndarray[Any, np.dtype[np.intp]]]:
        """Label of each group and, for each step, the number of its group."""
        index = self._index
        if not isinstance(freq, str | pd.DateOffset):
            raise TypeError(
                f'freq must be a frequency of pandas, a str; got {freq!r}. Pass one such as "YE".'
            )
        if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
            raise ValueError(
                f"freq must be None for a {type(index).__name__}; got {freq!r}. "
                "Give the series a DatetimeIndex or a PeriodIndex, or pass weights."
            )
        try:
            if isinstance(index, pd.PeriodIndex):
                labels = index.asfreq(freq)
                plain = labels[0].freq.n == 1  # "2M" would overlap
                whole = plain and bool((labels == index.asfreq(freq, how="START")).all())
                counts = pd.Series(1, index=labels).groupby(level=0).count()
            else:
                whole = True
                counts = pd.Series(1, index=index).resample(freq).count()
        except ValueError as error:
            raise ValueError(
                f"freq must be a frequency of pandas that suits a {type(index).__name__}; "
                f"got {freq!r}. {error}"
            ) from None
        if not whole:
            raise ValueError(
                f"freq must be a plain, coarser frequency than {index.freqstr}; got {freq!r}. "
                'Groups hold whole periods and do not overlap: pass one such as "Y", or weights.'
            )
        counts = counts[counts > 0]
        return counts.index, np.repeat(np.arange(len(counts)), counts.to_numpy())


def _frozen(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Own, write-protected copy of a finite array of the given shape."""
    array = np.array(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(
            f"{name} must have shape {shape}; got {array.shape}. One entry is needed for each step."
        )
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(
            f"{name} must be finite; got {array[wrong][0]} at step {np.argwhere(wrong)[0][0] + 1}. "
            "If a forecast has diverged, ask for fewer steps or difference the series."
        )
    array.setflags(write=False)
    return array


def _check_symmetric(name: str, cov: Array, scale: Array) -> None:
    """Raise if a covariance differs from its transpose by more than 1e-8 of ``scale`` (h, h)."""
    apart = float((np.abs(cov - cov.T) / scale).max())
    if apart > 1e-8:
        raise ValueError(
            f"{name} must be symmetric; got entries that differ by {apart:.3g} standard deviations "
            "squared. Pass 0.5 * (cov + cov.T) if only roundoff is to blame."
        )
