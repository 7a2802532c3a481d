"""Forecasters of sktime: the package's models behind sktime's interface.

Point forecasts are means; intervals, quantiles and variances are those of the forecast itself, and
`predict_var(cov=True)` is the joint covariance over the horizon. Times up to the cutoff get the
one-step forecasts of `Forecaster.fitted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.special import ndtri

from forecast_unc import Forecast, Forecaster, GPRegressor, RVMRegressor
from forecast_unc._checks import RandomState, refusal
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.fitted import Fitted
from forecast_unc.series.calendar import Calendar

try:
    from sktime.forecasting.base import BaseForecaster, ForecastingHorizon
except ImportError as error:
    raise ImportError("forecast_unc.sktime needs sktime: install forecast_unc[sktime].") from error

# Quantiles, or paths, that stand for a distribution that is not normal.
_N_QUANTILES = 1000
_MEAN, _STD = attrgetter("mean"), attrgetter("std")

_TEST_GP = GPRegressor(lengthscales=2.0, noise_std=0.5)
_TEST_RVM = RVMRegressor(lengthscales=2.0)


class _Horizon(NamedTuple):
    steps: Positions  # (k,), after the cutoff, increasing; 0 is the cutoff
    times: pd.Index[Any]  # of length k
    past: Fitted | None  # of the steps up to 0
    ahead: Forecast | None  # of all steps from 1 to the last

    def table(self, ask: Callable[[Forecast | Fitted], pd.Series | pd.DataFrame]) -> pd.DataFrame:
        """A quantity of both past and future, a row a time; NaN before the series."""
        both = [pd.DataFrame(ask(one)).to_numpy() for one in (self.past, self.ahead) if one]
        rows = self.steps - 1 + (0 if self.past is None else len(self.past))
        values = np.where(rows[:, None] >= 0, np.vstack(both)[rows.clip(0)], np.nan)
        return pd.DataFrame(values, self.times)


@dataclass(eq=False, repr=False, kw_only=True)  # equality and text are sktime's own
class _SktimeForecaster(BaseForecaster):
    """Common part of the forecasters; the parameters are those of the automatic choice."""

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "forecast_unc developers",
        "maintainers": "forecast_unc developers",
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
        "capability:multivariate": False,
        "capability:exogenous": True,
        "capability:categorical_in_X": False,
        "capability:non_contiguous_X": False,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:missing_values": True,
        "capability:update": True,
        "capability:random_state": True,
        "property:randomness": "derandomized",
    }
    # sktime keeps no second copy of the data: the model has them.
    _config: ClassVar[dict[str, Any]] = {"remember_data": False}

    # without a regressor given; None is the automatic choice
    _regressor: ClassVar[type[GPRegressor | RVMRegressor] | None] = None
    _test_params: ClassVar[list[dict[str, Any]]]

    seasonal_period: Literal["auto"] | int | Sequence[int] | None = "auto"
    transform: Literal["auto", "log", "sqrt", "boxcox"] | None = "auto"
    lower: float | None = None
    calendar: Calendar = "auto"
    max_train: int | None = None
    calibrate: Literal["auto", "conformal"] | bool = "auto"
    outliers: Literal["mask", "keep"] = "mask"
    random_state: RandomState = None

    def __post_init__(self) -> None:
        """Set up sktime's part, which calls this once more at its end."""
        if "_state" not in vars(self):
            super().__init__()
        self._y = self._X = None  # which sktime asks for where it is told to keep the data

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters for sktime's checks, small and fast; there is one `parameter_set`."""
        return cls._test_params

    def _fit(self, y: pd.Series, X: pd.DataFrame | None, fh: ForecastingHorizon | None) -> Self:
        numbered = pd.api.types.is_integer_dtype(y.index.dtype) and len(y) > 1
        if numbered and (apart := y.index[1] - y.index[0]) != 1:
            remedy = "Number the values one by one, y.reset_index(drop=True)."
            raise refusal("y", "count its times by 1 in sktime", f"steps of {apart}", remedy)
        X, given = _rows(X, y.index), self.get_params(deep=False)
        regressor = given.pop("regressor", None) or (self._regressor and self._regressor())
        self.forecaster_ = self._learned = Forecaster(regressor, **given).fit(y, X)
        self._cur_y, self._cur_X, self._n_learned = y, X, len(y)
        return self

    def _update(
        self, y: pd.Series, X: pd.DataFrame | None = None, update_params: bool = True
    ) -> Self:
        new = y[y.index > self._cur_y.index[-1]]
        if len(new):
            self._cur_y = pd.concat([self._cur_y, new])
            if self._cur_X is not None:
                self._cur_X = pd.concat([self._cur_X, _rows(X, new.index)])
        if update_params and self._n_learned < len(self._cur_y):
            later = slice(self._n_learned, None)
            X_new = None if self._cur_X is None else self._cur_X[later]
            self._learned.update(self._cur_y[later], X_new)
            self._n_learned = len(self._cur_y)
        # the origin is the last of the values that were passed, as the cutoff is
        n = int(self._cur_y.index.searchsorted(y.index[-1], side="right"))
        self.forecaster_ = self._learned
        if n != self._n_learned:
            past = None if self._cur_X is None else self._cur_X[:n]
            self.forecaster_ = self._learned.apply(self._cur_y[:n], past)
        return self

    def _predict(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> pd.Series:
        mean: pd.Series = self._horizon(fh, X).table(_MEAN).iloc[:, 0]
        mean.name = self._cur_y.name
        return mean

    def _predict_quantiles(
        self, fh: ForecastingHorizon, X: pd.DataFrame | None, alpha: Sequence[float]
    ) -> pd.DataFrame:
        levels, places = np.unique(alpha, return_inverse=True)
        table = self._horizon(fh, X).table(lambda one: one.quantile(levels)).iloc[:, places]
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return table.set_axis(columns, axis=1)

    def _predict_var(
        self, fh: ForecastingHorizon, X: pd.DataFrame | None = None, cov: bool = False
    ) -> pd.DataFrame:
        """Variances, or the joint covariance: of times up to the cutoff their variances alone."""
        horizon, names = self._horizon(fh, X), self._get_varnames()
        table = horizon.table(_STD) ** 2
        if not cov:
            return table.set_axis(names, axis=1)
        matrix, after = np.diag(table.iloc[:, 0]), horizon.steps > 0
        if horizon.ahead is not None:
            at = horizon.steps[after] - 1
            matrix[np.ix_(after, after)] = horizon.ahead.cov.iloc[at, at]
        columns = pd.MultiIndex.from_product([names, table.index])
        return pd.DataFrame(matrix, table.index, columns)

    def _predict_proba(
        self, fh: ForecastingHorizon, X: pd.DataFrame | None, marginal: bool = True
    ) -> Any:
        """Distributions of skpro: normal ones, or 1000 quantiles; jointly 1000 sample paths."""
        from skpro.distributions import Empirical, Normal

        horizon, names = self._horizon(fh, X), self._get_varnames()
        labels = {"index": horizon.times, "columns": names}
        if not marginal:
            if horizon.ahead is None or horizon.past is not None:
                must = "be True for a horizon that begins before the cutoff"
                remedy = "One-step forecasts of the past have no joint distribution."
                raise NotImplementedError(str(refusal("marginal", must, "False", remedy)))
            paths = horizon.ahead.sample(_N_QUANTILES, self.random_state).iloc[horizon.steps - 1]
            samples = _samples(paths.set_axis(horizon.times), names)
            return Empirical(samples, time_indep=False, **labels)
        mean, std = (horizon.table(ask).to_numpy() for ask in (_MEAN, _STD))
        few = np.array([0.001, 0.1, 0.3, 0.8, 0.99])
        some = horizon.table(lambda one: one.quantile(few)).to_numpy()
        if not (np.abs(some - mean - std * ndtri(few)) > 1e-9 * std).any():
            return Normal(mean, std, **labels)
        levels = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
        quantiles = horizon.table(lambda one: one.quantile(levels))
        return Empirical(_samples(quantiles, names), **labels)

    def _horizon(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> _Horizon:
        """The forecast, and the one-step forecasts of the past, where they are asked for."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_pandas(), dtype=np.intp)
        past, ahead, last = None, None, int(steps.max())
        if steps.min() <= 0:
            past = self.forecaster_.fitted()
        if last > 0:
            until = ForecastingHorizon(np.arange(1, last + 1)).to_absolute_index(self.cutoff)
            future = None if self._cur_X is None else _rows(X, until)
            ahead = self.forecaster_.forecast(last, future)
        return _Horizon(steps, fh.to_absolute_index(self.cutoff), past, ahead)

    def _get_fitted_params(self) -> dict[str, Any]:
        model = self.forecaster_
        return {"choices": model.choices_, "weights": model.weights_, "models": model.models_}


@dataclass(eq=False, repr=False, kw_only=True)
class GPForecaster(_SktimeForecaster):
    """Gaussian processes on lagged values, iterated with their uncertainty.

    Parameters are those of `Forecaster` but ``exog_lags``, ``open`` and ``upper``; the fitted one
    is ``forecaster_``. The regressor is ``GPRegressor()`` by default.

    Examples
    --------
    >>> from forecast_unc import datasets
    >>> from forecast_unc.sktime import GPForecaster
    >>> model = GPForecaster(lags=3).fit(datasets.load_nile()[:60], fh=[1, 2, 5])
    >>> model.predict_interval(coverage=0.9).shape
    (3, 2)
    """

    _regressor = GPRegressor
    _test_params: ClassVar[list[dict[str, Any]]] = [
        {"lags": 2, "regressor": _TEST_GP},
        {"lags": 1, "prior_mean": "last", "regressor": _TEST_GP, "calibrate": True},
    ]

    lags: Literal["auto"] | int | Sequence[int] = field(default="auto", kw_only=False)
    differences: Literal["auto"] | int | Sequence[int] = "auto"
    prior_mean: Literal["auto", "zero", "last", "seasonal"] = "auto"
    noise: Literal["process", "observation", "both", "auto"] = "process"
    regressor: GPRegressor | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class RVMForecaster(_SktimeForecaster):
    """Relevance vector machines on lagged values, iterated with their uncertainty.

    As `GPForecaster`, without ``noise``; the regressor is ``RVMRegressor()`` by default.

    Examples
    --------
    >>> from forecast_unc import datasets
    >>> from forecast_unc.sktime import RVMForecaster
    >>> model = RVMForecaster(lags=3).fit(datasets.load_nile()[:60], fh=[1, 2, 5])
    >>> model.predict_quantiles(alpha=[0.1, 0.9]).shape
    (3, 2)
    """

    _regressor = RVMRegressor
    _test_params: ClassVar[list[dict[str, Any]]] = [
        {"lags": 2, "regressor": _TEST_RVM},
        {"lags": 1, "prior_mean": "last", "regressor": _TEST_RVM},
    ]

    lags: Literal["auto"] | int | Sequence[int] = field(default="auto", kw_only=False)
    differences: Literal["auto"] | int | Sequence[int] = "auto"
    prior_mean: Literal["auto", "zero", "last", "seasonal"] = "auto"
    regressor: RVMRegressor | None = None


class AutoForecaster(_SktimeForecaster):
    """The automatic choice: a few specifications that suit the series, their quantiles averaged.

    Parameters are those of `GPForecaster` without ``regressor``, ``lags``, ``differences``,
    ``prior_mean`` and ``noise``; ``forecaster_.choices_`` say what was chosen and why.

    Examples
    --------
    >>> from forecast_unc import datasets
    >>> from forecast_unc.sktime import AutoForecaster
    >>> model = AutoForecaster().fit(datasets.load_nile()[:60], fh=[1, 2, 5])
    >>> model.predict_quantiles(alpha=[0.1, 0.9]).shape
    (3, 2)
    """

    _test_params: ClassVar[list[dict[str, Any]]] = [
        {"seasonal_period": None, "transform": None, "max_train": 20, "calibrate": False},
        {"seasonal_period": None, "transform": None, "max_train": 20},
    ]


def _rows(X: pd.DataFrame | None, times: pd.Index[Any]) -> pd.DataFrame | None:
    return None if X is None else X[X.index.isin(times)]


def _samples(table: pd.DataFrame, names: Any) -> pd.DataFrame:
    """Columns of a table as samples by rows, each of all times."""
    values: Array = table.to_numpy()
    index = pd.MultiIndex.from_product([range(values.shape[1]), table.index])
    return pd.DataFrame(values.T.ravel(), index, names)
