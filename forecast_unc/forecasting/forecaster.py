"""The forecaster: a series in, a joint Gaussian forecast out."""

import copy
import pickle
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc._typing import Array
from forecast_unc._version import __version__
from forecast_unc.forecasting.embedding import lag_embedding
from forecast_unc.forecasting.filtering import state_at_origin
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.propagation import (
    PROPAGATIONS,
    Propagation,
    propagate,
    step_inputs,
)
from forecast_unc.forecasting.series import (
    check_exog,
    check_exog_cov,
    check_is_series,
    check_series,
    check_y_std,
    format_time,
    future_index,
    prolonged,
)
from forecast_unc.forecasting.transforms import Transform, difference
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.posterior import KernelPosterior
from forecast_unc.regression.predictor import PredictorPosterior, as_kernel_regressor
from forecast_unc.regression.regressor import KernelRegressor, RandomState
from forecast_unc.regression.standardize import check_whole

# Fewer rows than this leave nothing to learn from.
_MIN_ROWS = 3


class Forecaster(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Forecasts of a series with the uncertainty of every step carried into the next.

    The series is differenced and standardized, a regressor learns the next value from
    lagged ones, and its one-step predictions are iterated: each forecast, with its doubt,
    becomes an input of the next. Each step's mean and variance are exact given a Gaussian
    input; over several steps the joint Gaussian is an approximation.

    Parameters
    ----------
    regressor : KernelRegressor or scikit-learn regressor, optional
        Model of the next value; cloned, never modified. ``GPRegressor()`` by default. One of
        scikit-learn's has to predict a std (``BayesianRidge()``), and cannot do "exact".
    lags : int or sequence of int, default=12
        Past values used as inputs; an int p means 1 to p, and 1 is the previous value. More
        lags see longer cycles but need more data.
    differences : int or tuple of int, default=()
        Lags of the differences taken first: 1 for a series that wanders or trends, 12 for
        the yearly season of a monthly one, (1, 12) for both. 0 or () for none.
    max_train : int, optional
        Learn from the last rows only; the cost of a GP grows with the cube of the rows.
    random_state : int, numpy.random.Generator or None
        Seed of "monte_carlo" forecasts and of the default regressor's restarts.

    Attributes
    ----------
    regressor_ : KernelRegressor
        The fitted model of the standardized differences.
    transform_ : Transform
        Differences, shift and scale.
    lags_ : tuple of int
        The lags in use.

    Examples
    --------
    >>> from forecast_unc import Forecaster, datasets
    >>> sunspots = datasets.load_sunspots()
    >>> ahead = Forecaster(lags=9).fit(sunspots[:-20]).forecast(20)
    >>> ahead.interval(0.9).shape
    (20, 2)
    """

    def __init__(
        self,
        regressor: KernelRegressor | None = None,
        lags: int | Sequence[int] = 12,
        *,
        differences: int | Sequence[int] = (),
        max_train: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.regressor = regressor
        self.lags = lags
        self.differences = differences
        self.max_train = max_train
        self.random_state = random_state

    def fit(
        self,
        y: pd.Series,
        exog: pd.DataFrame | None = None,
        y_std: pd.Series | None = None,
    ) -> Self:
        """Learn the one-step model from a series.

        Parameters
        ----------
        y : Series
            Numbers on a regular index: DatetimeIndex with a frequency set or inferable,
            PeriodIndex, or evenly spaced integers. Time zones are kept. Missing values (NaN)
            are not filled: training rows that touch them are left out, and what the forecast
            needs of them is uncertain, given all that was observed.
        exog : DataFrame, optional
            Regressors with the index of y, none missing; their values at the time of the
            target are further inputs, and `forecast` needs them for the future. They are not
            differenced.
        y_std : Series, optional
            Std of the measurement error of each value of y, in its units and with its index;
            0 is exact. The forecast then starts from uncertain values. It does not enter the
            learning: what the noise of these values does to the fit is not undone.

        Returns
        -------
        Forecaster

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be; the message names the first offending
            time and says what to do.
        """
        values, index = check_series(y)
        lags = _as_lags("lags", self.lags, upto=True)
        differences = _as_lags("differences", self.differences, upto=False)
        if self.max_train is not None:
            check_whole("max_train", self.max_train, _MIN_ROWS, "Use None to learn from all rows.")
        regressor = (
            GPRegressor(random_state=self.random_state)
            if self.regressor is None
            else self.regressor
        )
        regressor = as_kernel_regressor(regressor)
        deepest = lags[-1] if isinstance(lags, range) else max(lags)
        used = deepest + sum(differences)
        if len(values) < used + _MIN_ROWS:
            raise ValueError(
                f"y must have at least {used + _MIN_ROWS} values for lags up to {deepest} and "
                f"differences {tuple(differences)}; got {len(values)}. Give more data, or "
                "fewer lags."
            )
        lags = tuple(lags)  # a range until it is known to be short
        exog_values = check_exog(exog, index, None, "y")
        stds = check_y_std(y_std, values, index)
        observed = values[~np.isnan(values)]
        if np.ptp(observed) <= 1e-12 * np.abs(observed).max():
            raise ValueError(
                f"y must vary; got the constant {observed[0]:g} throughout, to 12 digits. There is "
                "nothing to learn; subtract a large offset if there is one."
            )
        complete = _complete_rows(values, lags, tuple(differences))
        if complete.sum() < _MIN_ROWS:
            raise ValueError(
                f"y must leave at least {_MIN_ROWS} complete training rows for lags up to "
                f"{deepest} and differences {tuple(differences)}; got {complete.sum()} of "
                f"{len(complete)}, the others touch missing values. Use fewer lags."
            )
        transform = Transform.fit(values, tuple(differences))
        if transform.scale <= 1e-12 * np.abs(observed).max():
            raise ValueError(
                f"differences must leave some variation; got a constant series after differencing "
                f"at lags {differences}. Take fewer differences."
            )
        self.lags_, self.transform_ = lags, transform
        self.exog_columns_ = pd.Index([]) if exog is None else exog.columns
        self._set_history(values, stds, index, exog_values, y.name)
        self.regressor_ = clone(regressor).fit(*self._training_rows())
        return self

    def update(
        self,
        y_new: pd.Series,
        exog: pd.DataFrame | None = None,
        y_std: pd.Series | None = None,
    ) -> Self:
        """Take in the values that followed, with the same hyper-parameters.

        Parameters
        ----------
        y_new : Series
            The next values; its index starts where the series ended. NaN where missing.
        exog : DataFrame, optional
            Regressors at the times of `y_new`, if the model was fitted with some.
        y_std : Series, optional
            Std of the measurement error of each new value; exact if left out.

        Returns
        -------
        Forecaster
            Itself, with the posterior of all rows, or of the last `max_train`. A GP's costs O(n^2)
            for each that came or went. A regressor of scikit-learn is fitted anew.
        """
        check_is_fitted(self, "regressor_")
        y_new = check_is_series(y_new, "y_new")
        expected = future_index(self._index, max(1, len(y_new)))
        if not y_new.index.equals(expected):
            raise ValueError(
                f"y_new must follow the series without a gap, from {format_time(expected, 0)}; got "
                f"{len(y_new)} values from {format_time(y_new.index, 0) if len(y_new) else None}. "
                "Pass only the new values."
            )
        values, _ = check_series(y_new.set_axis(expected), "y_new", all_missing=True)
        exog_values = check_exog(exog, expected, self.exog_columns_, "y_new")
        self._set_history(
            np.concatenate([self._values, values]),
            np.concatenate([self._stds, check_y_std(y_std, values, expected, "y_new")]),
            prolonged(self._index, len(values)),
            np.vstack([self._exog, exog_values]),
            self._name,
        )
        # a copy, since `apply` shares it; only the rows that came or went cost
        self.regressor_ = copy.copy(self.regressor_).condition(*self._training_rows())
        return self

    def apply(
        self,
        y: pd.Series,
        exog: pd.DataFrame | None = None,
        y_std: pd.Series | None = None,
    ) -> Self:
        """The fitted model at the end of another series, with nothing learned anew.

        Hyper-parameters, scale and posterior stay as they are and are shared; only the
        lagged values are taken from `y`. This moves the origin of a forecast at no cost.

        Parameters
        ----------
        y : Series
            A series of the same kind; its last values are the inputs of the forecast.
        exog : DataFrame, optional
            Regressors with the index of y, if the model was fitted with some.
        y_std : Series, optional
            Std of the measurement error of each value of y; exact if left out.

        Returns
        -------
        Forecaster
            A new one; this one is unchanged.
        """
        check_is_fitted(self, "regressor_")
        values, index = check_series(y)
        used = max(self.lags_) + sum(self.transform_.differences)
        if len(values) < used:
            raise ValueError(
                f"y must have at least {used} values for lags up to {max(self.lags_)} and "
                f"differences {self.transform_.differences}; got {len(values)}. Give more history."
            )
        applied = copy.copy(self)
        exog_values = check_exog(exog, index, self.exog_columns_, "y")
        stds = check_y_std(y_std, values, index)
        applied._set_history(values, stds, index, exog_values, y.name)
        return applied

    def forecast(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_cov: pd.DataFrame | Array | None = None,
        *,
        propagation: Propagation = "exact",
        path_consistent: bool = True,
        n_samples: int = 1000,
        random_state: RandomState = None,
    ) -> Forecast:
        """Joint forecast of the next values.

        Parameters
        ----------
        steps : int
            Steps ahead, from 1.
        exog : DataFrame, optional
            Regressors at the forecast times, if the model was fitted with some; where they
            are uncertain, their means.
        exog_cov : DataFrame or ndarray, optional
            Uncertainty of `exog`, whose errors are taken for Gaussian and independent of the
            series: a frame of stds with its index and columns, for independent errors, 0 for
            a known value; or the covariance of shape (steps * k, steps * k) of its k columns,
            all columns of step 1, then all of step 2, and so on. None takes them for known.
        propagation : {"exact", "taylor", "monte_carlo", "naive"}, default="exact"
            How the doubt of one step enters the next: exact moment matching; moments to
            first order in the doubt; sample paths; or not at all.
        path_consistent : bool, default=True
            Share the doubt about the function between the steps, since it is one and the
            same function at all of them. False is the classic recursion, whose intervals
            for sums and late steps are too narrow.
        n_samples : int, default=1000
            Sample paths of "monte_carlo".
        random_state : int, Generator or None
            Seed of "monte_carlo"; None takes the forecaster's own.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError
            If an argument is not what it must be, or a variance is not positive.
        """
        check_is_fitted(self, "regressor_")
        check_whole("steps", steps, 1, "1 is the next value.")
        check_whole("n_samples", n_samples, 2, "1000 is a good start.")
        if not isinstance(path_consistent, (bool, np.bool_)):
            raise ValueError(
                f"path_consistent must be True or False; got {path_consistent!r}. "
                "True shares the doubt about the function between the steps."
            )
        if propagation not in PROPAGATIONS:
            raise ValueError(
                f"propagation must be one of {', '.join(PROPAGATIONS)}; got {propagation!r}. "
                "Use 'exact' unless you compare methods."
            )
        index = future_index(self._index, steps)
        future_exog = check_exog(
            exog, index, self.exog_columns_, f"the {steps} steps after the origin"
        )
        regressors_cov = check_exog_cov(exog_cov, exog)
        posterior: KernelPosterior = self.regressor_.posterior_
        state = state_at_origin(
            posterior,
            self.lags_,
            self._values,
            self._exog,
            y_std=self._stds,
            transform=self.transform_,
            propagation=propagation,
        )
        history = np.concatenate([self._values[: -len(state.mean)], state.mean])
        joint = propagate(
            posterior,
            self.lags_,
            history,
            future_exog,
            transform=self.transform_,
            history_cov=state.cov,
            exog_cov=regressors_cov,
            propagation=propagation,
            path_consistent=path_consistent,
            n_samples=n_samples,
            random_state=self.random_state if random_state is None else random_state,
        )
        inputs = step_inputs(self.lags_, state.mean, joint.mean, future_exog, self.transform_)
        model = posterior.covariance(inputs)
        if not path_consistent:
            model = np.diag(np.diagonal(model))
        scale = self.transform_.scale
        split = not isinstance(posterior, PredictorPosterior)  # noise and model are told apart
        return Forecast(
            index,
            joint.mean,
            joint.cov,
            # What enters at each step anew; what uncertain inputs carry over is their part.
            noise_cov=scale**2 * posterior.noise_var * np.eye(steps) if split else None,
            model_cov=scale**2 * model if split else None,
            name=self._name,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted forecaster to a file, for `load_model`.

        Parameters
        ----------
        path : str or path
            File to write; a pickle, so load it only from a source you trust, and with the
            same version of the package.
        """
        check_is_fitted(self, "regressor_")
        Path(path).write_bytes(pickle.dumps({"forecast_unc": __version__, "model": self}))

    def _set_history(
        self, values: Array, stds: Array, index: pd.Index, exog: Array, name: Any
    ) -> None:
        self._values, self._stds, self._index = values, stds, index
        self._exog, self._name = exog, name

    def _training_rows(self) -> tuple[Array, Array]:
        z = self.transform_.forward(self._values)
        X, target = lag_embedding(z, self.lags_, self._exog[len(self._values) - len(z) :])
        complete = _complete_rows(self._values, self.lags_, self.transform_.differences)
        rows = np.flatnonzero(complete)[-self.max_train if self.max_train else None :]
        return X[rows], target[rows]


def load_model(path: str | PathLike[str]) -> Forecaster:
    """Read a forecaster written by ``Forecaster.save``.

    Parameters
    ----------
    path : str or path
        A file from a source you trust: unpickling runs code.

    Returns
    -------
    Forecaster

    Raises
    ------
    ValueError
        If the file is of another kind or of another version of the package.
    """
    try:
        stored = pickle.loads(Path(path).read_bytes())
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError) as error:
        stored = error
    if not isinstance(stored, dict) or "forecast_unc" not in stored:
        raise ValueError(
            f"path must name a file written by Forecaster.save; got {path}. Save it first."
        )
    if stored["forecast_unc"] != __version__:
        raise ValueError(
            f"path must name a model of version {__version__}; got one of "
            f"{stored['forecast_unc']}. Fit and save it again."
        )
    model: Forecaster = stored["model"]
    return model


def _complete_rows(
    values: Array, lags: tuple[int, ...], differences: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Which training rows touch no missing value."""
    changes = difference(values, differences)
    X, target = lag_embedding(changes, lags, np.empty((len(changes), 0)))
    return ~(np.isnan(X).any(axis=1) | np.isnan(target))


def _as_lags(name: str, value: int | Sequence[int], upto: bool) -> Sequence[int]:
    """Positive whole numbers from an int or a sequence of them; with `upto` p means 1 to p."""
    items: list[Any]
    if _is_whole(value):
        if upto and value >= 1:
            return range(1, int(value) + 1)
        items = [value] if upto or value != 0 else []
    else:
        iterable = isinstance(value, Iterable) and not isinstance(value, str)
        items = list(value) if iterable else [value]  # type: ignore[arg-type]
    valid = all(_is_whole(item) and item >= 1 for item in items)
    if upto and (not valid or not items or len(set(items)) < len(items)):
        raise ValueError(
            f"{name} must be a positive whole number or distinct positive ones; got {value!r}. "
            "Lag 1 is the previous value."
        )
    if not valid:
        raise ValueError(
            f"{name} must be lags, positive whole numbers; got {value!r}. Use 0 or () for none."
        )
    return tuple(int(item) for item in items)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
