"""The forecaster: a series in, a joint Gaussian forecast out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from os import PathLike
from typing import Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import RandomState, check_steps, check_whole, refusal
from forecast_unc._typing import Array
from forecast_unc.distributions.fitted import Fitted
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting import files
from forecast_unc.forecasting.ensemble import Ensemble, Refusal
from forecast_unc.forecasting.model import FittedModel, LaggedModel
from forecast_unc.forecasting.recursion import Method, Propagation, check_propagation
from forecast_unc.forecasting.resolve import resolve, unsmoothed, without_outliers
from forecast_unc.forecasting.rolling import AskPast, fitted, score
from forecast_unc.forecasting.rows import Noise
from forecast_unc.forecasting.specification import Arguments, is_auto
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.series.calendar import Calendar, seasonal_periods
from forecast_unc.series.history import History
from forecast_unc.series.values import check_varies

# Outliers that `choices_` names.
_NAMED = 3
# What `summary` says of a model, and the names of it.
_LEARNED = {
    "noise_std_": "noise std",
    "observation_std_": "observation noise std",
    "log_evidence_": "log evidence",
    "n_iter_": "iterations",
}


class Forecaster(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Forecasts of a series with the uncertainty of every step carried into the next.

    The series is transformed, differenced and standardized, a regressor learns the next value
    from lagged ones, and its one-step predictions are iterated: each forecast, with its
    uncertainty, becomes an input of the next. Each step's mean and variance are exact given a
    Gaussian input; over several steps the joint Gaussian is an approximation.

    A fitted Forecaster is a weighted list of one or more models. With ``lags="auto"`` what is left
    "auto" is resolved by `fit` into a few specifications, whose quantiles are averaged and which
    `choices_` lists with the reasons; with lags of one's own it is one, the plain choice: no
    differences, no transform, prior mean zero and no calendar.

    Parameters
    ----------
    regressor : KernelRegressor or scikit-learn regressor, optional
        Model of the next value; cloned, never modified. ``GPRegressor()`` by default, or for many
        rows ``ReducedRankGPRegressor()``, with priors that suit the specification where that is
        chosen here. Where a series has next to no noise and the linear part of a GP runs away, it
        is learned anew without that part, or with the one of least squares, and `choices_` says so;
        not with ``prior=None``. One of scikit-learn's has to predict a std (``BayesianRidge()``),
        and cannot do "exact".
    lags : "auto", int or sequence of int, default="auto"
        Past values used as inputs; an int p means 1 to p, and 1 is the previous value. More
        lags see longer cycles but need more data.
    differences : "auto", int or tuple of int, default="auto"
        Lags of the differences taken first: 1 for a series that wanders or trends, 12 for
        the yearly season of a monthly one, (1, 12) for both. 0 or () for none.
    seasonal_period : "auto", int, tuple of int or None, default="auto"
        Seasonal periods, in observations. "auto" takes those of the index's frequency (24 and
        168 for hours, 12 for months, ...) that the data show.
    transform : {"auto", None, "log", "sqrt", "boxcox"}, default="auto"
        Taken first, of y less `lower`; then quantiles are exact, the mean is in closed form or by
        quadrature, and nothing is below `lower`, or negative without one. A logarithm for spreads
        that grow with the level, of values above the bound; the square root, for counts, or
        Box-Cox, its power by maximum likelihood, for those that grow more slowly, of zeros too.
    lower : float, optional
        What the series is never below: 0 for sales. Forecasts are censored there: what probability
        would lie below is put at it, so that no quantile, sample or mean is below. By default 0
        with ``lags="auto"`` where two values or more are 0 and none is negative, as `choices_`
        says, else none; ``-np.inf`` for none. Where more than 40 % of the values are at the bound
        the mean stays that of the models, as by ``Forecast.censored(lower, keep_moments=True)``.
    prior_mean : {"auto", "zero", "last", "seasonal"}, default="auto"
        What the regressor learns the deviation from: nothing, the previous value, or that of
        a season ago (of several periods the shortest). The lag has to be among `lags`.
    calendar : "auto", None, str, DatetimeIndex or sequence of them, default="auto"
        Further inputs, known in the future: "fourier" (sines and cosines of the seasonal
        periods), "hour_of_day", "day_of_week", "hour_of_week", "month", and holidays as a
        DatetimeIndex.
    max_train : int, optional
        Learn from the last rows only. None takes all: of a default regressor up to 2000 exactly, at
        a cost that grows with their cube, and more by reduced rank: 200 centers by the bound, with
        5000 rows to search by (`ReducedRankGPRegressor`). With ``lags="auto"`` most models learn
        from the last 800 or fewer, and of a long series two or three from all rows by reduced rank,
        100 centers (`choices_`): up to 2000 this is for all models, and there are none of reduced
        rank; above it is for these alone.
    noise : {"process", "observation", "both", "auto"}, default="process"
        What the noise is. That of the process is part of the series: it is in the values that the
        next ones are made of. An error of the observation is not: it blurs lagged values, and is
        added once to each forecast. "observation" learns such an error and keeps the noise of the
        process at 3 % of it, for dynamics that are all but deterministic; "both" learns both;
        "auto" takes what has the most evidence, and another than "process" if it has 4 nats more.
        For ``GPRegressor``, with no model of reduced rank for many rows; "monte_carlo" then costs
        O(n^2) a path and step.
    calibrate : {"auto", False, True, "conformal"}, default="auto"
        Whether errors from origins inside the training part make the bands wider or narrower: True
        by factors of the width and of the correlations that are shrunk, with tails of Student's t;
        "conformal" takes the quantiles of the errors themselves, without an assumption on their
        distribution, for each step by itself. Medians stay as they are. "auto" is True where lags
        are "auto" and `noise` is "process", else False.
    outliers : {"mask", "keep"}, default="mask"
        What becomes of gross outliers, isolated values far from what those before and after them
        say, the season considered: "mask" takes them for missing, and `choices_` names them. A last
        value has to be farther out, as a new level may begin with it. What recurs is none: more
        than three values and more than one in a hundred (of fewer than 60 more than one, and more
        than one in twenty). Nor is what a holiday or a rare value of a regressor may explain, nor
        anything in fewer than 12 values. "keep" takes all as they are.
    random_state : int, numpy.random.Generator or None
        Seed of "monte_carlo" and "auto" forecasts and of the default regressor's restarts.

    Attributes
    ----------
    choices_ : list of str
        What was chosen and why, a line each.
    models_ : tuple of LaggedModel or SmoothingModel
        The fitted models: each with its ``specification``, ``transform`` (the nonlinear one),
        ``unit`` (of what it learned, in units of y) and ``n_rows``. One on lagged values, whose
        specification has ``lags`` and ``differences``, also has its ``regressor`` and
        ``differencing`` (differences, shift and scale); a regressor of scikit-learn is the
        ``estimator_`` of that ``regressor``. Exponential smoothing, whose specification has a
        ``period``, has none of these but ``smoothing``: its nodes and their weights.
    weights_ : ndarray of shape (k,)
        Their weights before the widths of a forecast are known; they add up to 1.
    refused_ : tuple of Refusal
        Specifications that could not be fitted, or could not take in what came later, with the
        ``reason``.
    seasonal_period_ : tuple of int
        The seasonal periods.

    Examples
    --------
    >>> from forecast_unc import Forecaster, datasets
    >>> sunspots = datasets.load_sunspots()
    >>> ahead = Forecaster(lags=9).fit(sunspots[:-20]).forecast(20)
    >>> ahead.interval(0.9).shape
    (20, 2)
    """

    ensemble_: Ensemble

    def __init__(
        self,
        regressor: BaseEstimator | None = None,
        lags: Literal["auto"] | int | Sequence[int] = "auto",
        *,
        differences: Literal["auto"] | int | Sequence[int] = "auto",
        seasonal_period: Literal["auto"] | int | Sequence[int] | None = "auto",
        transform: Literal["auto", "log", "sqrt", "boxcox"] | None = "auto",
        lower: float | None = None,
        prior_mean: Literal["auto", "zero", "last", "seasonal"] = "auto",
        calendar: Calendar = "auto",
        max_train: int | None = None,
        noise: Noise = "process",
        calibrate: Literal["auto", "conformal"] | bool = "auto",
        outliers: Literal["mask", "keep"] = "mask",
        random_state: RandomState = None,
    ) -> None:
        self.regressor = regressor
        self.lags = lags
        self.differences = differences
        self.seasonal_period = seasonal_period
        self.transform = transform
        self.lower = lower
        self.prior_mean = prior_mean
        self.calendar = calendar
        self.max_train = max_train
        self.noise = noise
        self.calibrate = calibrate
        self.outliers = outliers
        self.random_state = random_state

    def fit(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """Learn the one-step model from a series.

        Parameters
        ----------
        y : Series
            Numbers on a regular index: DatetimeIndex with a frequency set or inferable,
            PeriodIndex, or evenly spaced integers. Time zones are kept. A DataFrame of one column
            will do, or a frame of polars or pyarrow with a column of times beside it, here and
            wherever a Series is asked for. Missing values (NaN)
            are not filled: training rows that touch them are left out, and what the forecast
            needs of them is uncertain, given all that was observed.
        exog : DataFrame, optional
            Regressors with the index of y, none missing; their values at the time of the
            target are further inputs, and `forecast` needs them for the future. They are not
            differenced.
        y_std : Series, optional
            Std of the measurement error of each value of y, in its units and with its index;
            0 is exact. The forecast then starts from uncertain values. With `noise` "process" it
            does not enter the learning: what the noise of these values does to the fit is not
            undone. Otherwise it does, and the error that is learned comes on top.

        Returns
        -------
        Forecaster

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be; the message names the first offending
            time and says what to do.
        """
        # one assignment, so that an error or an interrupt leaves an earlier fit as it was
        self.ensemble_ = self._fitted(y, exog, y_std)
        return self

    def refit(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """Fit anew to another series or window, from the hyper-parameters of this fit.

        All is chosen and learned as by `fit`. But where a specification has a model of the same
        lags, differences and transform here, the search for its hyper-parameters is a single one
        that starts from those of that model: for windows of one series in three quarters of the
        evaluations (7 series). Where the evidence has several optima it may end at another one than
        `fit`, a better or a worse one. A search for two kinds of noise starts as in `fit`.

        Parameters
        ----------
        y : Series
        exog : DataFrame, optional
        y_std : Series, optional
            As for `fit`.

        Returns
        -------
        Forecaster
            A new one; this one is unchanged.

        Raises
        ------
        TypeError, ValueError
            As `fit`.
        """
        again: Self = clone(self, safe=False)
        again.ensemble_ = self._fitted(y, exog, y_std, self._ensemble())
        return again

    def update(
        self, y_new: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
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
            for each that came or went. A regressor of scikit-learn is fitted anew. Of several
            models one that cannot take in the values, such as a logarithm a zero, is refused from
            then on; `choices_` says so. Two kinds of noise (`noise`) cost O(n^3).

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be, or no model can take in the values; the
            forecaster is then as it was.
        """
        ensemble = self._ensemble()
        history = ensemble.history.followed_by(y_new, exog, y_std)
        self.ensemble_ = ensemble.extend(without_outliers(self._arguments(), history))
        return self

    def apply(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
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
        ensemble = self._ensemble()
        history = without_outliers(self._arguments(), ensemble.history.alike(y, exog, y_std))
        applied = copy.copy(self)
        applied.ensemble_ = ensemble.at(history)
        return applied

    def forecast(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_cov: pd.DataFrame | Array | None = None,
        *,
        exog_std: pd.DataFrame | Array | None = None,
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
            are uncertain, their means. Columns are aligned by name.
        exog_cov : DataFrame or ndarray, optional
            Covariance of `exog` where it is uncertain, of shape (steps * k, steps * k) for its k
            columns: all columns of step 1, then all of step 2, and so on, in the order that `exog`
            has here. The errors are taken for
            Gaussian and independent of the series. A frame with the index and columns of `exog` is
            taken for `exog_std`. None takes the regressors for known.
        exog_std : DataFrame or ndarray, optional
            Standard deviations of independent errors of `exog` instead, of its shape; 0 for a
            known value.
        propagation : {"exact", "taylor", "mixture", "monte_carlo", "naive", "auto"}
            How the uncertainty of one step enters the next: exact moment matching; moments to
            first order in the variance; a mixture of 256 pieces, without a seed, where the
            distribution bends too much for one Gaussian; sample paths; or not at all. "exact" by
            default. "auto" takes exact, mixture or Monte Carlo, each model by its `Forecast.check`
            over the steps asked for; `Forecast.propagation` says which. Of several models the
            weights are those of the exact forecasts in any case.
        path_consistent : bool, default=True
            Share the function uncertainty between the steps, since it is one and the
            same function at all of them. False is the classic recursion, whose intervals
            for sums and late steps are too narrow.
        n_samples : int, default=1000
            Sample paths of "monte_carlo", of which a forecast of one model keeps them
            (`Forecast.paths`), and of the check of "auto", there at least 500.
        random_state : int, Generator or None
            Seed of "monte_carlo" and "auto"; None takes the forecaster's own.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError
            If an argument is not what it must be, or a variance is not positive.
        """
        ensemble = self._ensemble()
        check_steps(steps)
        check_whole("n_samples", n_samples, 2, "1000 is a good start.")
        if not isinstance(path_consistent, (bool, np.bool_)):
            remedy = "True shares the function uncertainty between the steps."
            raise refusal("path_consistent", "be True or False", repr(path_consistent), remedy)
        check_propagation(propagation)
        if propagation == "auto" and not path_consistent:
            raise refusal(
                "path_consistent",
                "be True for propagation='auto', which compares with paths of one function each",
                "False",
                "Name the propagation.",
            )
        ahead = ensemble.history.future(steps, exog, exog_std, exog_cov)
        seed = self.random_state if random_state is None else random_state
        return ensemble.forecast(ahead, Method(propagation, path_consistent, n_samples, seed))

    def fitted(self) -> Fitted:
        """One-step forecasts of the series itself, each from the values before it.

        At each time what the fitted model says of the next value at the end of the values before,
        as after :meth:`apply`. It has learned from all of them: residuals are smaller than errors
        of forecasts are, next to 0 where there is next to no noise. How good forecasts are
        `backtest` tells. Outliers are masked as in the series as a whole, which may tell them only
        by what followed. An average has the weights of its members' widths at that time alone, so
        that its mean differs a little, too, and is calibrated as that of the last value.

        Returns
        -------
        Fitted
            Mean, std, intervals, quantiles and residuals by time, NaN where there is no forecast.
            Times whose lagged values are missing or have errors cost a forecast each.
        """
        return fitted(self._past_steps(), self._history)

    def score(self, y: pd.Series, exog: pd.DataFrame | None = None) -> float:
        """Negative mean CRPS, in units of y: the higher, the better.

        Where y goes on after the series of the fit, what comes after it is forecast from there and
        scored, over however many steps that takes. So score searches with a splitter of time, such
        as ``GridSearchCV(Forecaster(), {"lags": [3, 12]}, cv=TimeSeriesSplit(5)).fit(y)``;
        regressors stand there in the place of a target, ``fit(y, exog)``. Where y does not go on,
        its last fold is forecast by the fitted model from the values before, nothing learned: a
        tenth of the values, 24 at most. If it has learned from them, that flatters it.

        Parameters
        ----------
        y : Series
            What followed, the whole series, or another one of its kind. Missing values do not
            count.
        exog : DataFrame, optional
            Regressors at the times of y, if the model was fitted with some.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If nothing of what would be scored was observed.
        """
        return score(self, self._history.index, y, exog)

    @property
    def models_(self) -> tuple[FittedModel, ...]:
        """The fitted models."""
        return self._ensemble().models

    @property
    def weights_(self) -> Array:
        """Weights of the models before the widths of a forecast are known, (k,)."""
        return self._ensemble().weights

    @property
    def refused_(self) -> tuple[Refusal, ...]:
        """Specifications that were refused, with the reasons."""
        return self._ensemble().refused

    @property
    def seasonal_period_(self) -> tuple[int, ...]:
        """Seasonal periods, shortest first."""
        return self._ensemble().rules.periods

    @property
    def choices_(self) -> list[str]:
        """What was chosen and why: lines on the season, outliers and bands, one on each model."""
        ensemble = self._ensemble()
        origin = "given"
        if is_auto(self.seasonal_period):
            suggested = seasonal_periods(ensemble.history.index)
            origin = f"of {', '.join(map(str, suggested)) or 'none'} that the index suggests"
        periods, lower = ensemble.rules.periods, ensemble.rules.lower
        seen = ", ".join(map(str, periods)) or "none"
        lines = [
            f"seasonal period {seen}: {origin}",
            *outliers_named(ensemble.history),
            *ensemble.bands_named(),
        ]
        if np.isfinite(lower):
            why = "some values are 0 and none is below; lower=-inf for no bound"
            why = why if self.lower is None else "as given"
            if ensemble.keeps_moments:
                why += f"; {ensemble.at_bound:.0%} are at it, so that forecasts keep their mean"
            lines.append(f"lower {lower:g}: {why}")
        lines += ensemble.models_named(noise=self.noise != "process")
        without = unsmoothed(self._arguments(), ensemble.history, periods)
        if is_auto(self.lags) and without:
            lines.append(f"no exponential smoothing: {', '.join(without)}")
        refused = (f"{one.specification.described()}; {one.reason}" for one in ensemble.refused)
        return [*lines, *(f"refused: {one}" for one in refused)]

    def summary(self) -> str:
        """What was chosen and learned, as text.

        Returns
        -------
        str
            The choices, and noise, evidence and convergence of each fitted model, in the order of
            the choices. Stds are in units of the series, of a transformed one where it is at its
            median. Evidences are of each model's own rows and scale: they do not compare models.
        """
        lines = self.choices_
        for number, model in enumerate(self.models_, start=1):
            learned, parts = model.learned(), []
            for name, words in _LEARNED.items():
                if name in learned:
                    unit = model.unit if name.endswith("_std_") else 1
                    parts.append(f"{words} {learned[name] * unit:.4g}")
            regressor = model.regressor if isinstance(model, LaggedModel) else None
            if isinstance(regressor, ReducedRankGPRegressor):
                searched = regressor.n_searched(model.n_rows)
                parts.append(f"{regressor.objective} of {searched} rows")
            if learned.get("nodes_"):
                parts.append(f"hyper-parameters integrated over {len(learned['nodes_'])} nodes")
            if not learned.get("converged_", True):
                parts.append("not converged")
            lines.append(f"model {number}: {', '.join(parts) or repr(regressor)}")
        return "\n".join(lines)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted forecaster to a file, for `load_model`.

        Parameters
        ----------
        path : str or path
            File to write, a zip of arrays and JSON. It is replaced as a whole or left as it was.

        Raises
        ------
        TypeError
            If something in the model could be read back only by code of its own: a regressor of
            scikit-learn, a class of one's own.
        OSError
            If the file cannot be written.
        """
        self._ensemble()
        files.save(self, path, (Forecaster,))

    def _fitted(
        self,
        y: pd.Series,
        exog: pd.DataFrame | None,
        y_std: pd.Series | None,
        earlier: Ensemble | None = None,
    ) -> Ensemble:
        """What is chosen and learned of a series."""
        arguments = self._arguments()
        arguments.check()
        history = History.checked(y, exog, y_std)
        check_varies(history.y)
        history = without_outliers(arguments, history)
        return Ensemble.fit(*resolve(arguments, history), history, earlier)

    @property
    def _history(self) -> History:
        """The series up to where forecasts start."""
        return self._ensemble().history

    def _past_steps(self) -> AskPast:
        """One-step forecasts of the past by their places in the series, for :meth:`fitted`."""
        return self._ensemble().past_steps()

    def _arguments(self) -> Arguments:
        return Arguments(**self.get_params(deep=False))

    def _ensemble(self) -> Ensemble:
        check_is_fitted(self, "ensemble_")
        return self.ensemble_


def outliers_named(history: History) -> list[str]:
    """The values of a history that are taken for missing, a line if there are any."""
    places = np.flatnonzero(~np.isnan(history.outliers))
    if not len(places):
        return []
    named = [f"{history.time(i)} ({history.outliers[i]:,.6g})" for i in places[:_NAMED]]
    more = [f"and {len(places) - _NAMED} more"] if len(places) > _NAMED else []
    values = "1 value" if len(places) == 1 else f"{len(places)} values"
    return [
        f"outliers: {values} taken for missing: {', '.join(named + more)}; "
        "outliers='keep' keeps them"
    ]
