"""The forecaster: a series in, a joint Gaussian forecast out."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import check_whole
from forecast_unc._random import RandomState
from forecast_unc._typing import Array
from forecast_unc.forecasting.arguments import (
    MIN_ROWS,
    as_lags,
    check_arguments,
    in_words,
    is_auto,
    plain,
)
from forecast_unc.forecasting.automatic import described, noted, resolved
from forecast_unc.forecasting.calendar import (
    Calendar,
    calendar_inputs,
    check_calendar,
    seasonal_periods,
)
from forecast_unc.forecasting.combination import Combination
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.embedding import complete_rows, lag_embedding
from forecast_unc.forecasting.exog import check_exog, check_uncertainty
from forecast_unc.forecasting.filtering import state_at_origin
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.persistence import save_model
from forecast_unc.forecasting.power import PowerTransform
from forecast_unc.forecasting.propagation import (
    PROPAGATIONS,
    Propagation,
    propagate,
    step_inputs,
)
from forecast_unc.forecasting.selection import averaging, seasons_in
from forecast_unc.forecasting.series import check_follows, check_series, check_varies, check_y_std
from forecast_unc.forecasting.times import extended_index, format_time, future_index
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.posterior import KernelPosterior
from forecast_unc.regression.predictor import PredictorPosterior, as_kernel_regressor


class Forecaster(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Forecasts of a series with the uncertainty of every step carried into the next.

    The series is transformed, differenced and standardized, a regressor learns the next value
    from lagged ones, and its one-step predictions are iterated: each forecast, with its doubt,
    becomes an input of the next. Each step's mean and variance are exact given a Gaussian
    input; over several steps the joint Gaussian is an approximation.

    One Forecaster is one specification. With ``lags="auto"`` what is left "auto" is resolved by
    `fit` into a `Combination` of a few, which `choices_` lists with the reasons; with lags of
    one's own it is the plain choice: no differences, no transform, prior mean zero and no
    calendar.

    Parameters
    ----------
    regressor : KernelRegressor or scikit-learn regressor, optional
        Model of the next value; cloned, never modified. ``GPRegressor()`` by default, with
        priors that suit the specification where that is chosen here. One of scikit-learn's has
        to predict a std (``BayesianRidge()``), and cannot do "exact".
    lags : "auto", int or sequence of int, default="auto"
        Past values used as inputs; an int p means 1 to p, and 1 is the previous value. More
        lags see longer cycles but need more data.
    differences : "auto", int or tuple of int, default="auto"
        Lags of the differences taken first: 1 for a series that wanders or trends, 12 for
        the yearly season of a monthly one, (1, 12) for both. 0 or () for none.
    seasonal_period : "auto", int, tuple of int or None, default="auto"
        Seasonal periods, in observations. "auto" takes those of the index's frequency (24 and
        168 for hours, 12 for months, ...) that the data show.
    transform : {"auto", None, "log", "boxcox"}, default="auto"
        Taken first; then quantiles are exact, the mean is in closed form or by quadrature, and
        nothing is negative. A logarithm for spreads that grow with the level; Box-Cox, its
        power by maximum likelihood, for those that grow more slowly.
    prior_mean : {"auto", "zero", "last", "seasonal"}, default="auto"
        What the regressor learns the departure from: nothing, the previous value, or that of
        a season ago (of several periods the shortest). The lag has to be among `lags`.
    calendar : "auto", None, str, DatetimeIndex or sequence of them, default="auto"
        Further inputs, known in the future: "fourier" (sines and cosines of the seasonal
        periods), "hour_of_day", "day_of_week", "hour_of_week", "month", and holidays as a
        DatetimeIndex.
    max_train : int, optional
        Learn from the last rows only; the cost of a GP grows with the cube of the rows. None
        takes all; where lags are "auto", the last 800 or fewer, see `choices_`.
    random_state : int, numpy.random.Generator or None
        Seed of "monte_carlo" forecasts and of the default regressor's restarts.

    Attributes
    ----------
    choices_ : list of str
        What was chosen and why, a line each.
    seasonal_period_ : tuple of int
        The seasonal periods.
    combination_ : Combination or None
        The combination, if there is one; then it has what follows, a member at a time.
    regressor_ : KernelRegressor
        The fitted model of the standardized differences.
    power_ : PowerTransform
        The nonlinear transform.
    transform_ : Differencing
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
        regressor: Any = None,
        lags: Literal["auto"] | int | Sequence[int] = "auto",
        *,
        differences: Literal["auto"] | int | Sequence[int] = "auto",
        seasonal_period: Literal["auto"] | int | Sequence[int] | None = "auto",
        transform: Literal["auto", "log", "boxcox"] | None = "auto",
        prior_mean: Literal["auto", "zero", "last", "seasonal"] = "auto",
        calendar: Calendar = "auto",
        max_train: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.regressor = regressor
        self.lags = lags
        self.differences = differences
        self.seasonal_period = seasonal_period
        self.transform = transform
        self.prior_mean = prior_mean
        self.calendar = calendar
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
        before = self.__dict__.copy()
        try:
            return self._fit(y, exog, y_std)
        except Exception:  # an earlier fit stays as it was
            self.__dict__ = before
            raise

    def _fit(self, y: pd.Series, exog: pd.DataFrame | None, y_std: pd.Series | None) -> Self:
        values, index = check_series(y)
        check_arguments(self)
        exog_values = check_exog(exog, index, None, "y")
        stds = check_y_std(y_std, values, index)
        check_varies(values)
        self.seasonal_period_ = self._seasonal_periods(values, index)
        self.exog_columns_ = pd.Index([]) if exog is None else exog.columns
        self.combination_ = None
        if is_auto(self.lags):
            members = resolved(self, values, index, exog_values.shape[1])
            n_observed = int((~np.isnan(values)).sum())
            weights, widest = averaging(n_observed, bool(self.seasonal_period_))
            self.combination_ = Combination(
                [member for _, member in members], weights, widest=widest
            )._fit_those_that_can(y, exog, y_std)
            self.choices_ = described(self, members, index)
            return self
        return self._fit_one(values, stds, index, exog_values, y.name)

    def _fit_one(self, values: Array, stds: Array, index: pd.Index, exog: Array, name: Any) -> Self:
        """Fit the one specification that is left, with nothing "auto" but the plain choices."""
        periods = self.seasonal_period_
        lags = as_lags("lags", self.lags, upto=True)
        differences = as_lags("differences", plain(self.differences, ()), upto=False)
        prior_mean = plain(self.prior_mean, "zero")
        kind = plain(self.transform, None)
        deepest = lags[-1] if isinstance(lags, range) else max(lags)
        used = deepest + sum(differences)
        if len(values) < used + MIN_ROWS:
            raise ValueError(
                f"y must have at least {used + MIN_ROWS} values for lags up to {deepest} and "
                f"differences {tuple(differences)}; got {len(values)}. Give more data, or "
                "fewer lags."
            )
        lags = tuple(lags)  # a range until it is known to be short
        self._anchor = None
        if prior_mean != "zero":
            if prior_mean == "seasonal" and not periods:
                raise ValueError(
                    "prior_mean must not be 'seasonal' for a series without a season; got one for "
                    f"which seasonal_period is {self.seasonal_period!r}. Give its period."
                )
            lag = 1 if prior_mean == "last" else periods[0]
            if lag not in lags:
                raise ValueError(
                    f"lags must hold {lag} for prior_mean={prior_mean!r}; got {self.lags!r}. "
                    "Add it."
                )
            self._anchor = lags.index(lag)
        complete = complete_rows(values, lags, tuple(differences))
        if complete.sum() < MIN_ROWS:
            raise ValueError(
                f"y must leave at least {MIN_ROWS} complete training rows for lags up to "
                f"{deepest} and differences {tuple(differences)}; got {complete.sum()} of "
                f"{len(complete)}, the others touch missing values. Use fewer lags, or some that "
                "miss the gaps, such as (2, 4) if every other value is missing."
            )
        self.power_ = PowerTransform(0.0) if kind == "log" else PowerTransform()
        if kind == "boxcox":
            if np.nanmin(values) <= 0:
                raise ValueError(
                    f"y must be positive for transform='boxcox'; got {np.nanmin(values):g} at "
                    f"{format_time(index, int(np.nanargmin(values)))}. Use no transform, or add "
                    "a constant to y."
                )
            self.power_ = PowerTransform.fit(values)
        self.power_.check(values, index)
        levels, stds = self._transformed(values, stds)
        transform = Differencing.fit(levels, tuple(differences))
        if transform.scale <= 1e-12 * np.nanmax(np.abs(levels)):
            raise ValueError(
                f"differences must leave some variation; got a constant series after differencing "
                f"at lags {differences}. Take fewer differences."
            )
        if isinstance(self.regressor, GPRegressor) and self.regressor.bias != "free":
            # Such a bias is the drift: it has to be seen.
            transform = replace(transform, shift=0.0)
        self.lags_, self.transform_ = lags, transform
        self._calendar = check_calendar(plain(self.calendar, None))
        self._set_history(levels, stds, index, self._with_calendar(exog, index), name)
        regressor = as_kernel_regressor(
            GPRegressor(random_state=self.random_state)
            if self.regressor is None
            else self.regressor
        )
        X, target = self._training_rows()
        self.regressor_ = clone(regressor).fit(X, target)
        if self._anchor is not None and isinstance(self.regressor_.posterior_, PredictorPosterior):
            raise ValueError(
                "prior_mean must be 'zero' for a regressor of scikit-learn; got "
                f"{prior_mean!r}. Use GPRegressor() or RVMRegressor()."
            )
        self._settle_posterior()
        self.choices_ = [
            *in_words(lags, tuple(differences), kind, prior_mean, self._calendar),
            f"seasonal period {', '.join(map(str, periods)) or 'none'}",
            f"rows {len(target)}",
        ]
        if kind == "boxcox":
            self.choices_[2] += f" of power {self.power_.power:.3g}"
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
            for each that came or went. A regressor of scikit-learn is fitted anew. What was left
            "auto" goes on without a specification that cannot take in the values, such as a
            logarithm a zero; `choices_` says so.
        """
        check_is_fitted(self, "choices_")
        if self.combination_ is not None:
            # a copy, as of the regressor below: what shares it stays where it is
            self.combination_ = copy.copy(self.combination_).update(y_new, exog, y_std)
            self.choices_ = noted(self.choices_, self.combination_)
            return self
        y_new = check_follows(y_new, self._index)
        expected = y_new.index
        values, _ = check_series(y_new, "y_new", all_missing=True)
        exog_values = check_exog(exog, expected, self.exog_columns_, "y_new")
        self.power_.check(values, expected)
        levels, stds = self._transformed(values, check_y_std(y_std, values, expected, "y_new"))
        self._set_history(
            np.concatenate([self._values, levels]),
            np.concatenate([self._stds, stds]),
            extended_index(self._index, len(values)),
            np.vstack([self._exog, self._with_calendar(exog_values, expected)]),
            self._name,
        )
        # a copy, since `apply` shares it; only the rows that came or went cost
        self.regressor_ = copy.copy(self.regressor_).condition(*self._training_rows())
        self._settle_posterior()
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
        check_is_fitted(self, "choices_")
        if self.combination_ is not None:
            applied = copy.copy(self)
            applied.combination_ = self.combination_.apply(y, exog, y_std)
            applied.choices_ = noted(self.choices_, applied.combination_)
            return applied
        values, index = check_series(y)
        freq, own = getattr(index, "freq", None), getattr(self._index, "freq", None)
        if freq != own:
            raise ValueError(
                f"y must have the frequency of the fit, {own!r}; got {freq!r}. Fit a new model."
            )
        used = max(self.lags_) + sum(self.transform_.differences)
        if len(values) < used:
            raise ValueError(
                f"y must have at least {used} values for lags up to {max(self.lags_)} and "
                f"differences {self.transform_.differences}; got {len(values)}. Give more history."
            )
        applied = copy.copy(self)
        exog_values = check_exog(exog, index, self.exog_columns_, "y")
        self.power_.check(values, index)
        levels, stds = self._transformed(values, check_y_std(y_std, values, index))
        applied._set_history(levels, stds, index, self._with_calendar(exog_values, index), y.name)
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
        check_is_fitted(self, "choices_")
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
        if self.combination_ is not None:
            return self.combination_.forecast(
                steps,
                exog,
                exog_cov,
                propagation=propagation,
                path_consistent=path_consistent,
                n_samples=n_samples,
                random_state=self.random_state if random_state is None else random_state,
            )
        index = future_index(self._index, steps)
        future_exog = check_exog(
            exog, index, self.exog_columns_, f"the {steps} steps after the origin"
        )
        regressors_cov = check_uncertainty(None, exog_cov, exog)
        future_exog = self._with_calendar(future_exog, index)
        posterior = self._posterior
        state = state_at_origin(
            posterior,
            self.lags_,
            self._values,
            self._exog,
            y_std=self._stds,
            transform=self.transform_,
            propagation=propagation,
            path_consistent=path_consistent,
        )
        history = np.concatenate([self._values[: -len(state.mean)], state.mean])
        joint = propagate(
            posterior,
            self.lags_,
            history,
            future_exog,
            transform=self.transform_,
            history_cov=state.cov,
            function_error=state.function_error,
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
            transform=None if self.power_.power is None else self.power_,
        )

    def summary(self) -> str:
        """What was chosen and learned, as text.

        Returns
        -------
        str
            The choices, and noise, evidence and convergence of each fitted model, numbered in
            the order of the choices.
        """
        check_is_fitted(self, "choices_")
        lines = list(self.choices_)
        numbered = [(0, self)]
        if self.combination_ is not None:
            parts = self.combination_
            numbered = list(zip(parts.numbers_, parts.forecasters_, strict=True))
        for number, member in numbered:
            regressor = member.regressor_
            learned = [
                f"{what} {getattr(regressor, name):.4g}"
                for what, name in (
                    ("noise std", "noise_std_"),
                    ("log evidence", "log_evidence_"),
                    ("iterations", "n_iter_"),
                )
                if hasattr(regressor, name)
            ]
            if not getattr(regressor, "converged_", True):
                learned.append("not converged")
            lines.append(f"model {number + 1}: {', '.join(learned) or repr(regressor)}")
        return "\n".join(lines)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted forecaster to a file, for `load_model`.

        Parameters
        ----------
        path : str or path
            File to write; a pickle, so load it only from a source you trust, and with the
            same version of the package.
        """
        check_is_fitted(self, "choices_")
        save_model(self, path)

    def _seasonal_periods(self, values: Array, index: pd.Index) -> tuple[int, ...]:
        if self.seasonal_period is None:
            return ()
        if is_auto(self.seasonal_period):
            return seasons_in(values, seasonal_periods(index))
        given = as_lags("seasonal_period", self.seasonal_period, upto=False)
        return tuple(sorted(set(given)))

    def _transformed(self, values: Array, stds: Array) -> tuple[Array, Array]:
        """Values and their stds on the scale of the power transform.

        A std s becomes g(y + s) - g(y): s g'(y) while s is small, and finite where y is near 0.
        """
        levels = self.power_.forward(values)
        if self.power_.power is None or not stds.any():
            return levels, stds
        return levels, np.where(np.isnan(levels), stds, self.power_.forward(values + stds) - levels)

    def _with_calendar(self, exog: Array, index: pd.Index) -> Array:
        return np.hstack([exog, calendar_inputs(index, self._calendar, self.seasonal_period_)])

    def _settle_posterior(self) -> None:
        posterior: KernelPosterior = self.regressor_.posterior_
        self._posterior = posterior if self._anchor is None else posterior.plus_input(self._anchor)

    def _set_history(
        self, values: Array, stds: Array, index: pd.Index, exog: Array, name: Any
    ) -> None:
        self._values, self._stds, self._index = values, stds, index
        self._exog, self._name = exog, name

    def _training_rows(self) -> tuple[Array, Array]:
        z = self.transform_.forward(self._values)
        X, target = lag_embedding(z, self.lags_, self._exog[len(self._values) - len(z) :])
        complete = complete_rows(self._values, self.lags_, self.transform_.differences)
        rows = np.flatnonzero(complete)[-self.max_train if self.max_train else None :]
        X, target = X[rows], target[rows]
        return X, target if self._anchor is None else target - X[:, self._anchor]
