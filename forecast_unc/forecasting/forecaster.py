"""The forecaster: a series in, a joint Gaussian forecast out."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from os import PathLike
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.tseries.offsets import BDay, CustomBusinessDay, CustomBusinessHour, Tick
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc import _checks
from forecast_unc._checks import RandomState, refusal
from forecast_unc._notes import Note
from forecast_unc._text import counted
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.forecast import Forecast, forecast_of, prediction_of
from forecast_unc.distributions.prediction import PastSteps, Prediction
from forecast_unc.distributions.scenarios import Correlated, Scenarios
from forecast_unc.errors import InvalidArgument
from forecast_unc.forecasting import saving
from forecast_unc.forecasting.choose import choice
from forecast_unc.forecasting.choose.arguments import Arguments, is_auto, suggested_periods
from forecast_unc.forecasting.choose.screen import (
    excursions_of_weeks,
    since_last_shift,
    without_outliers,
)
from forecast_unc.forecasting.horizon.types import PROPAGATIONS, Method, Propagation
from forecast_unc.forecasting.models.base import FittedModel
from forecast_unc.forecasting.models.smoothing import SmoothingModel
from forecast_unc.forecasting.past import Scored
from forecast_unc.forecasting.pool.backcast import AskPast
from forecast_unc.forecasting.pool.pool import Ensemble, Refusal
from forecast_unc.series.calendar import seasonal_periods
from forecast_unc.series.exog import shares_errors
from forecast_unc.series.history import Ahead, History
from forecast_unc.series.times import DAYS, ClosedDaysWarning, closed_days
from forecast_unc.series.values import check_is_series, check_two

_NAMED = 3  # outliers that `choices_` names, and runs
_MOST_KEPT = 100_000  # values past which a series that is updated grows no more: 11 years of hours


Uncertainties = pd.DataFrame | Array | Mapping[str, pd.DataFrame | Array] | None
"""Stds or a covariance of regressors, for all scenarios or by the name of each."""


@dataclass(kw_only=True, eq=False, repr=False)
class Forecaster(Scored, Arguments):
    """Forecasts of a series with the uncertainty of every step carried into the next.

    The series is transformed, differenced and standardized, a regressor learns the next value
    from lagged ones, and its one-step predictions are iterated: each forecast, with its
    uncertainty, becomes an input of the next. Moments of a step are exact given a Gaussian input;
    over several steps the joint Gaussian is an approximation. With ``lags="auto"`` what is left
    "auto" becomes a few specifications whose quantiles are averaged (`choices_`); with lags of
    one's own it is plain: no differences, no transform, prior mean zero and no calendar.

    Parameters
    ----------
    regressor : regressor of this package or of scikit-learn, optional
        Model of the next value, cloned; by default a Gaussian process, of reduced rank above 2000
        rows. One of scikit-learn's has to predict a std (``BayesianRidge()``); it has no "exact".
    lags : "auto", int or sequence of int, default="auto"
        Past values used as inputs; an int p means 1 to p, and 1 is the previous value. More
        lags see longer cycles but need more data.
    differences : "auto", int or tuple of int, default="auto"
        Lags of the differences taken first: 1 for a series that wanders or trends, 12 for the
        yearly season of a monthly one, (1, 12) for both. 0 or () for none.
    seasonal_period : "auto", int, tuple of int or None, default="auto"
        Seasonal periods, in observations. "auto" takes those of the index's frequency (24 and
        168 for hours, 12 for months, ...) that the data show. A given one is left out where y has
        fewer than four values more; beside given `lags` it has to be a lag or a difference, or
        needed by the `calendar` ("fourier", "profile") or the `prior_mean`.
    transform : {"auto", None, "log", "sqrt", "boxcox"}, default="auto"
        Taken first, of y less `lower` (or 0), below which no forecast is then. "log" is for a
        spread in proportion to the level, and needs values above the bound; "sqrt", for counts, and
        "boxcox" are for one that grows more slowly, and take values at the bound, too.
    lower : float, optional
        Lower bound of the series, 0 for sales: forecasts are censored there, and keep their mean
        where more than 40 % of the values are at it (``Forecast.censored``). ``-np.inf`` is none.
        By default 0 with ``lags="auto"`` where no value is negative, and

        - two or more are 0, or
        - all lie between 0 and 1, one above .1, or
        - the largest is more than 100 times the smallest (10 times for whole numbers).

        Where at most one value in a hundred is below 0 by less than a thousandth of the largest, as
        by rounding, and as many are as near above, it is the smallest. A phase of the season that
        was always at it of late, such as night for the sun, has no noise.
    prior_mean : {"auto", "zero", "last", "seasonal"}, default="auto"
        Value from which the regressor learns the deviation: 0, the previous one, or the one a
        season (the shortest) ago. Its lag has to be among `lags`.
    calendar : "auto", None, str, DatetimeIndex or sequence of them, default="auto"
        Further inputs, known in the future: "fourier" (sines and cosines of the seasons), "profile"
        (an indicator of each step of the longest season of up to 340 steps, sines and cosines of
        seasons that do not divide it), "hour_of_day", "day_of_week", "hour_of_week", "month", where
        they change with the steps, and holidays as a DatetimeIndex. Or effects that are learned and
        taken out before any model, beside what is chosen or given: "holidays:DE" or another country
        or a part of one, "holidays:DE-BY" (extra ``holidays``), for each feast and the days before
        and after it; "ramadan" and "lunar_new_year", for the weeks of it and around it (the same
        extra); for months, quarters and years "trading_days" and "easter".
    max_train : int, optional
        Learn from the last rows only. None takes all: up to 2000 exactly, at a cost that grows with
        their cube, and more by reduced rank. With ``lags="auto"`` it takes the last 800 or fewer,
        and numbers above 2000 are for linear models and a given `regressor` alone.
    noise : {"process", "observation", "both", "auto"}, default="process"
        Process noise enters the next values; an error of the observation does not: for dynamics
        that are all but deterministic. "auto" takes another than "process" for 4 nats more
        evidence. Only ``GPRegressor`` can have another than "process".
    calibrate : {"auto", False, True, "conformal"}, default="auto"
        Whether errors from origins inside the series make the bands wider or narrower: True by
        shrunk factors, with tails of Student's t; "conformal" by the errors' own quantiles. "auto"
        is True where lags are "auto" and `noise` is "process", else False.
    outliers : {"mask", "keep"}, default="mask"
        "mask" treats isolated values far from their neighbors and their season as missing, unless
        they recur a season apart. Where lags are "auto" and there are no regressors, so are up to
        three excursions of the level that come back, unless of one value alone, and values before a
        gross shift of the level are gone; `choices_` names them. "keep" takes all as they are.
    random_state : int, numpy.random.Generator or None
        Seed of "monte_carlo" forecasts, which differ from call to call with None, and of searches.
    exog_lags : int, default=0
        Regressors act up to so many steps later, too: their earlier values are further inputs.
    upper : float, optional
        Upper bound of the series, 100 for shares in percent: forecasts are censored there.
    open : hashable, optional
        Name of a regressor that is 1 where the series is open and 0 where it is closed, as shops on
        holidays. There y is 0, or missing, and forecasts are 0 for certain; the models learn from
        open times alone. Weekdays that are always closed are left out before, and hours outside
        regular opening hours (docs/how_to/seasonal.md); lags and seasons count the others.

    Attributes
    ----------
    choices_ : list of str
        What was chosen and why, a line each.
    notes_ : list of str
        Remarks on the series: outliers, shifts, repeats, closed weekdays, values forgotten.
    models_ : tuple of LaggedModel, SmoothingModel or CountModel
        The fitted models: each with its ``specification``, ``transform`` and ``n_rows``, and but
        for counts ``unit`` (of what it learned, in units of y at the median); one on lagged values
        also with its ``regressor`` (one of scikit-learn is its ``estimator_``) and
        ``differencing``, exponential smoothing with its ``smoothing``.
    weights_ : ndarray of shape (k,)
        Their weights in the forecast of the next step; they add up to 1.
    refused_ : tuple of Refusal
        Specifications that could not be fitted, or take in what came later, with the ``reason``.
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

    ensemble_: Ensemble = field(init=False)

    def fit(
        self,
        y: pd.Series | pd.DataFrame,
        exog: pd.DataFrame | None = None,
        y_std: pd.Series | None = None,
        *,
        time: Hashable | None = None,
        target: Hashable | None = None,
    ) -> Self:
        """Learn the one-step model from a series.

        Parameters
        ----------
        y : Series
            Numbers on a regular index: times or periods of a frequency, or evenly spaced integers.
            A DataFrame of one column will do, or of two, one of times (dates, or text with the year
            first) and one of values, also of polars or pyarrow, here and wherever a Series is asked
            for. Missing values (NaN) are not filled: rows that touch them are left out, and the
            forecast starts from uncertain inputs. With all arguments "auto" two observed values are
            enough, and a constant series is forecast as constant.
        exog : DataFrame, optional
            Regressors with the index of y, none missing: their values at the time of the target
            are further inputs, and `forecast` needs them for the future.
        y_std : Series, optional
            Std of the measurement error of each value of y, with its index; 0 is exact. The
            learning knows of it if `noise` is not "process", the forecast always.
        time, target : hashable, optional
            Names of the columns of times and of values, of a frame that has others beside.

        Returns
        -------
        Forecaster

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be; the message says what to do.
        """
        y = check_is_series(y, "y", time, target)
        # one assignment, so that an error or an interrupt leaves an earlier fit as it was
        self.ensemble_ = self._fitted(y, exog, y_std)
        return self

    def refit(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """Fit anew to another series or window, from the hyper-parameters of this fit.

        As `fit`, but a search for hyper-parameters is a single one that starts from those of a
        model of the same inputs, with a quarter fewer evaluations. It may end at another optimum
        than that of `fit`.

        Parameters
        ----------
        y, exog, y_std
            As for `fit`.

        Returns
        -------
        Forecaster
            A new one; this one is unchanged.
        """
        again: Self = clone(self, safe=False)
        again.ensemble_ = self._fitted(check_is_series(y), exog, y_std, self._ensemble())
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
            Itself, with the posterior of all rows: a GP's costs O(n^2) for each new one, or O(n^3)
            once old ones leave. Of several models one that cannot take in the values, such as a
            logarithm a zero, is refused from then on. Above `max_train` rows, or 3000 of a GP or
            RVM, the oldest leave the posterior. Of the series the last 100,000 values are kept, 43
            bytes each, or as many as were fitted; `notes_` says how many were forgotten.

        Raises
        ------
        TypeError, ValueError
            As by `fit`, or if no model can take in the values; the forecaster is as it was.
        """
        ensemble, before = self._ensemble(), self.history_
        history = before.followed_by(check_is_series(y_new, "y_new"), exog, y_std)
        history = history.part(max(0, len(history.y) - max(_MOST_KEPT, len(before.y))))
        self.ensemble_ = ensemble.extend(self._by_clock(without_outliers(self, history)))
        return self

    def apply(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """The fitted model at the end of another series, with nothing learned anew.

        Only the lagged values are taken from `y`: this moves the origin of a forecast at no cost.

        Parameters
        ----------
        y, exog, y_std
            As for `fit`, a series of the same kind; its last values are the forecast's inputs.

        Returns
        -------
        Forecaster
            A new one; this one is unchanged.
        """
        ensemble = self._ensemble()
        other = self.history_.alike(check_is_series(y), exog, y_std)
        history = without_outliers(self, other)
        applied = copy.copy(self)
        applied.ensemble_ = ensemble.at(self._by_clock(history))
        return applied

    def forecast(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_cov: pd.DataFrame | Array | None = None,
        *,
        exog_std: pd.DataFrame | Array | None = None,
        propagation: Propagation = "auto",
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
            Regressors, or their means, at the forecast times, if the model was fitted with some.
        exog_cov : DataFrame or ndarray, optional
            Covariance (steps * k, steps * k) of errors of the k columns of `exog`, independent of
            the series: all of step 1, then of step 2. A frame labelled by time and column may have
            another order, and one like `exog` is read as `exog_std`.
        exog_std : DataFrame or ndarray, optional
            Standard deviations of independent errors of `exog` instead, of its shape; 0 is known.
        propagation : {"exact", "taylor", "mixture", "monte_carlo", "naive", "auto"}
            How the uncertainty of one step enters the next: by "exact" moment matching, one
            Gaussian over all steps; by moments to first order in the variance; by a mixture of
            pieces, each with a function of its own, without a seed; by sample paths; or ("naive")
            not at all. "auto" is "exact" for an average of several models, where the difference is
            small, except for nonlinear members. For these and for one model it is the mixture; but
            "exact" of a single step, if values within the lags are noisy, or missing before the
            last one, if not `path_consistent`, and from the step on where a piece diverges or the
            mixture is six times as wide; "taylor" for regressors without a closed form
            (`Forecast.propagation` tells).
        path_consistent : bool, default=True
            Share the function uncertainty between the steps: it is one function at all of them.
            False is the classic recursion, whose intervals for sums and late steps are too narrow.
        n_samples : int, default=1000
            Sample paths of "monte_carlo" (`Forecast.paths`, of one model).
        random_state : int, Generator or None
            Seed of "monte_carlo"; None takes the forecaster's own.

        Returns
        -------
        Forecast

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be, or a variance is not positive.

        Notes
        -----
        ``Forecast.notes_`` names regressors that are beyond what was seen of them: there the effect
        is that of a function continued. It also tells of steps so far ahead of a series that stays
        in a range that all models leave it: they have mean and std of the past values.
        """
        ensemble = self._ensemble()
        steps = _checks.check_steps(steps)
        n_samples = _checks.check_paths(n_samples, 2, steps)
        remedy = "True shares the function uncertainty between the steps."
        _checks.check_truth("path_consistent", path_consistent, remedy)
        _checks.check_choice("propagation", propagation, PROPAGATIONS)
        ahead = self.history_.future(steps, exog, exog_std, exog_cov)
        local, places = ahead.by_clock(ensemble.history)
        seed = self.random_state if random_state is None else random_state
        method = Method(propagation, path_consistent, n_samples, seed)
        prediction = ensemble.predict(local, method)
        return _at_places(ahead, prediction.noted(self._beyond(ahead)), places)

    def scenarios(
        self,
        exog: Mapping[str, pd.DataFrame],
        steps: int,
        exog_cov: Uncertainties = None,
        *,
        exog_std: Uncertainties = None,
        propagation: Propagation = "auto",
        random_state: RandomState = None,
    ) -> Scenarios:
        r"""Joint forecasts of the next values under different futures of the regressors.

        Each is what `forecast` returns for its regressors. What is unknown is one and the same in
        all: the noise of each step, the values before the first one, the learned function and the
        effects of the regressors; and the errors of uncertain regressors, as of a weather forecast,
        where two scenarios have the same covariance of them. With the innovations w of the steps
        :math:`m + L w` of a future, of covariance :math:`L L'`, two futures a and b of a model have

        .. math:: \mathrm{Cov}[y^a, y^b] = L_a \mathrm{Cor}[w^a, w^b] L_b',

        the correlation that of the linear recursions along both (theory/questions.md). Models are
        averaged with the weights of `forecast`; what they disagree about is in the difference.

        Parameters
        ----------
        exog : mapping of str to DataFrame
            Regressors at the forecast times by the name of the scenario, one or more.
        steps : int
            Steps ahead, from 1.
        exog_cov, exog_std : DataFrame, ndarray or mapping of str to them, optional
            Uncertainty of the regressors, as for `forecast`: one for all scenarios, or by the name
            of the scenario, whose regressors are known where it is left out. A regressor of the
            same covariance over the steps in two scenarios has the same error in both, which leaves
            the difference of linear effects; one of another covariance has an error of its own.
        propagation, random_state
            As for `forecast`; all scenarios have one seed.

        Returns
        -------
        Scenarios
            A mapping of names to forecasts. ``s["plan"] - s["base"]`` is the forecast of the
            difference, with its interval, probability and sum.

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it must be, the model was fitted without regressors, or
            knows no covariances of its function (a regressor of scikit-learn).

        Notes
        -----
        What would happen, if the association of the past is an effect: see :meth:`effects`.
        """
        ensemble = self._ensemble()
        steps = _checks.check_steps(steps)
        _checks.check_choice("propagation", propagation, PROPAGATIONS)
        futures = check_scenarios(exog, self.history_, steps, exog_std, exog_cov)
        local = [ahead.by_clock(ensemble.history) for ahead in futures]
        places, n = local[0][1], len(local[0][0].index)
        seed = self.random_state if random_state is None else random_state
        method = Method(propagation, random_state=seed)
        made, cors = ensemble.scenarios([ahead for ahead, _ in local], method)
        forecasts = [
            _at_places(ahead, one.noted(self._beyond(ahead)), places)
            for ahead, one in zip(futures, made, strict=True)
        ]
        both = np.concatenate([places, n + places])
        cors = {pair: cor[np.ix_(both, both)] for pair, cor in cors.items()}
        apart = Correlated([prediction_of(one).joint for one in forecasts], cors)
        return Scenarios(dict(zip(exog, forecasts, strict=True)), apart)

    def effects(self, coverage: float = 0.9, steps: int | None = None) -> pd.DataFrame:
        """Return how much a value changes with one unit more of each regressor.

        An association in the past, not a cause, with the other inputs at their last values. Where
        the function bends, it is the mean over a step of one standard deviation of the regressor,
        or from one to the other of two values. Members count by their weight in a forecast of one
        step, those without regressors as 0; the interval is that of a normal distribution with the
        members' variance and disagreement.

        Parameters
        ----------
        coverage : float, default=0.9
            Coverage of the interval, in (0, 1).
        steps : int, optional
            Also the lasting effect: what one unit more from the next step on, with all others at
            their last values, has changed after so many steps. It costs a forecast a regressor.

        Returns
        -------
        DataFrame
            A row for each regressor, and lag of it (``exog_lags``): ``effect``, ``lower`` and
            ``upper`` in units of y for one unit of the regressor, after a transform at the median
            of the last season, or of eight values; NaN where no model has learned it, as it never
            changed where y was observed, or values were few. With `steps` also ``lasting``,
            ``lasting_lower`` and ``lasting_upper``, at the level of the forecast, in the row of
            lag 0.

        Raises
        ------
        ValueError
            If there are no regressors, or a model knows no covariances of its function.
        """
        coverage = _checks.check_coverage(coverage)
        ensemble, lags = self._ensemble(), range(int(self.exog_lags) + 1)
        names = [
            f"{name}, {lag} before" if lag else name
            for lag in lags
            for name in self.history_.columns
        ]
        if not names:
            must, got = "be given to `fit` for effects", "none"
            if (told := self.history_.opening) is not None:
                must, got = f"hold regressors beside open={told.column!r} for effects", "it alone"
            raise refusal("exog", must, got, "Fit with regressors.")
        mean, std = ensemble.effects(len(lags))
        known, past = ~np.isnan(self.history_.y), self.history_.exog
        seen = [past[: len(past) - lag][known[lag:]] for lag in lags]
        never = np.concatenate([np.ptp(one, axis=0) == 0.0 for one in seen])
        mean[never | ((mean == 0.0) & (std == 0.0))] = np.nan
        reach = -ndtri(0.5 * (1.0 - coverage)) * std
        columns = {"effect": mean, "lower": mean - reach, "upper": mean + reach}
        if steps is not None:
            lasting, std = np.full((2, len(names)), np.nan)
            k = len(self.history_.columns)
            lasting[:k], std[:k] = ensemble.lasting_effects(_checks.check_steps(steps))
            lasting[np.isnan(mean)] = np.nan
            reach = -ndtri(0.5 * (1.0 - coverage)) * std
            ends = {"lasting_lower": lasting - reach, "lasting_upper": lasting + reach}
            columns |= {"lasting": lasting, **ends}
        return pd.DataFrame(columns, index=pd.Index(names, name="regressor"))

    def contributions(self, exog: pd.DataFrame | None = None, steps: int = 0) -> pd.DataFrame:
        """Return what the regressors and the calendar add to the past and to the forecast.

        Each column is the change of the mean when that regressor is as it was, or will be, instead
        of usual: the mean of the past, of two values the lower. They are changed in the order of
        the columns, with those before as they are; without interactions the order makes no
        difference. In the past a row is that of the one-step forecast (`fitted`), to which the
        regressors of that time contribute; those of times before are in the values before, and so
        in ``rest``, as is the season.

        Parameters
        ----------
        exog : DataFrame, optional
            Regressors at the forecast times, as for `forecast`. None: the past alone.
        steps : int, default=0
            Steps ahead of a model without regressors; else those of `exog`.

        Returns
        -------
        DataFrame
            By time, of the past and then of the forecast, in units of y: ``rest``, a column for
            each regressor, and ``calendar`` for the effects of holidays, trading days and Easter,
            if there are some. The sum of a row is the mean of `fitted`, or of `forecast`; NaN where
            there is no one-step forecast. An association, not a cause. `plot.contributions` draws
            it.

        Raises
        ------
        TypeError, ValueError
            If `exog` is not what `forecast` asks for, or has a column named rest or calendar.
        """
        ensemble, columns = self._ensemble(), list(self.history_.columns)
        names = ["rest", *columns, "calendar"]
        if taken := {"rest", "calendar"} & set(columns):
            got = f"a regressor of the name {sorted(taken)[0]!r}"
            raise refusal("exog", "leave the names rest and calendar", got, "Rename it.")
        asks = [self._of_instants(ask) for ask in ensemble.past_stepwise()]
        past = [self._fitted_by(ask).mean for ask in asks]
        parts, index = [np.array(past)], past[0].index
        if exog is not None or steps:
            steps = _checks.check_steps(steps if exog is None else len(exog))
            ahead = self.history_.future(steps, exog)
            local, places = ahead.by_clock(ensemble.history)
            seed = _checks.one_seed(self.random_state)
            of_steps = ensemble.stepwise(local, Method("auto", random_state=seed))
            next_index, closed = ahead.given
            parts.append(np.where(closed, 0.0, np.array(of_steps)[:, places]))
            index = index.append(next_index)
        means = np.concatenate(parts, axis=1)
        added = np.vstack([means[:1], np.diff(means, axis=0)])
        frame = pd.DataFrame(added.T, index, pd.Index(names))
        return frame if (frame["calendar"].fillna(0.0) != 0.0).any() else frame[names[:-1]]

    @property
    def history_(self) -> History:
        """The series up to the origin, checked, with what of it is left out."""
        history = self._ensemble().history
        return history if history.instants is None else history.instants

    @property
    def models_(self) -> tuple[FittedModel, ...]:
        """The fitted models."""
        return self._ensemble().models

    @property
    def weights_(self) -> Array:
        """Weights of the models in the forecast of the next step, (k,)."""
        return self._ensemble().next_shares

    @property
    def refused_(self) -> tuple[Refusal, ...]:
        """Specifications that were refused, with the reasons."""
        return self._ensemble().refused

    @property
    def seasonal_period_(self) -> tuple[int, ...]:
        """Seasonal periods, shortest first."""
        return self._ensemble().rules.periods

    @property
    def notes_(self) -> list[Note]:
        """Remarks on the series: outliers, shifts, excursions, repeats, closed days, forgotten."""
        history = self.history_
        return [
            *outliers_named(history),
            *(excursions_named(self, history) if self.outliers == "mask" else []),
            *repeats_named(history),
            *closed_days_named(history),
            *week_named(history, self.seasonal_period_),
            *(upper_named(history) if self.upper is None else []),
            *forgotten_named(history),
        ]

    @property
    def choices_(self) -> list[Note]:
        """Choices with their reasons: lines on the season, the remarks, the bands, the models."""
        return self._choices(learned=False)

    def _choices(self, learned: bool) -> list[Note]:
        ensemble, why = self._ensemble(), "as given"
        periods, lower = ensemble.rules.periods, ensemble.rules.lower
        if is_auto(self.seasonal_period):
            suggested = " or ".join(map(str, seasonal_periods(ensemble.history.index)))
            why = "significant at 5 %"
            hedged = sorted({one.period for one in ensemble.smoothed if one.period > 1})
            if not periods and hedged:
                periods, why = tuple(hedged), f"kept as a hedge, though not {why}"
            elif not periods and suggested:
                why = f"is not {why}" if ensemble.rules.tested else "needed more values"
                why = f"one of {suggested} steps, as the index suggests, {why}"
            elif not periods:
                why = "the index suggests none"
        elif self.seasonal_period is not None and not periods:
            why = f"y has too few values for one of {self.seasonal_period} steps"
        season = f"season of {' and '.join(map(str, periods))} steps" if periods else "no season"
        lines = [Note("season", f"{season}: {why}")]
        lines += open_named(self.history_)
        lines += self.notes_ + ensemble.bend_named() + ensemble.regressors_named()
        lines += ensemble.disagreement_named()
        lines += ensemble.noise_named() + ensemble.bands_named()
        bounds, shares = (lower, ensemble.rules.upper), ensemble.at_bounds
        for name, bound, share in zip(("lower", "upper"), bounds, shares, strict=True):
            if np.isinf(bound):
                continue
            reason, remedy = Note("bound", "as given"), ""
            if name == "lower" and self.lower is None:
                reason = choice.never_below(ensemble.history.y)
                remedy = "; ".join(filter(None, [reason.remedy, "lower=-inf for no bound"]))
            fact = f"{name} {bound:g}: {reason.fact}"
            if ensemble.keeps_moments and share == max(shares):
                fact += f"; {share:.0%} are at it, so that forecasts keep their mean"
            lines.append(Note(reason.kind, fact, (bound,), remedy))
        if quiet := int(ensemble.without_noise(period := min(periods, default=0)).sum()):
            fact = f"no noise at {quiet} of the {period} steps of a season: {lower:g} of late"
            lines.append(Note("no noise", fact))
        if ensemble.rules.whole:
            whole = "whole numbers: all values are, so that forecasts are of counts"
            lines.append(Note("whole", whole))
        lines += ensemble.models_named(self.noise != "process", learned)
        without = choice.why_no_smoothing(self, ensemble.history, periods)
        smoothed = any(isinstance(model, SmoothingModel) for model in ensemble.models)
        if is_auto(self.lags) and without and not smoothed:
            lines.append(Note("no smoothing", f"no exponential smoothing: {', '.join(without)}"))
        for one in ensemble.refused:
            fact = f"refused: {one.specification.described()}; {one.reason}"
            lines.append(Note("refused", fact))
        return lines

    def summary(self) -> str:
        """The series, what was chosen and what each model learned, as text.

        Returns
        -------
        str
            The series in a line; `choices_`, below each model its noise, evidence and search.
            Standard deviations are in units of the series, those of a transform at its median. The
            evidences of two models cannot be compared.
        """
        return "\n".join(summary_lines(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted forecaster to a file, for `load_model`.

        Parameters
        ----------
        path : str or path
            File to write, a zip of arrays and JSON, replaced as a whole or left as it was.

        Raises
        ------
        TypeError
            If the model has a part that only other code can read, as a regressor of scikit-learn.
        OSError
            If the file cannot be written.
        """
        saving.save(self, path, (Forecaster,))

    def _fitted(
        self,
        y: pd.Series,
        exog: pd.DataFrame | None,
        y_std: pd.Series | None,
        earlier: Ensemble | None = None,
    ) -> Ensemble:
        arguments = self._checked()
        history = History.checked(y, exog, y_std).opened(arguments.open)
        check_two(history.y)
        for line in closed_days_named(history):
            warnings.warn(line, ClosedDaysWarning, stacklevel=3)
        history = since_last_shift(arguments, without_outliers(arguments, history))
        chosen, history = choice.resolve_by_clock(arguments, history)
        return Ensemble.fit(chosen, history, earlier)

    def _beyond(self, ahead: Ahead) -> tuple[Note, ...]:
        """Regressors that are beyond all values of the past, a line each."""
        past = self.history_.exog
        low, high = past.min(axis=0), past.max(axis=0)
        apart = np.maximum(low - ahead.exog, ahead.exog - high)
        notes = []
        for at in np.flatnonzero((apart > 0.0).any(axis=0)).tolist():
            column, steps = self.history_.columns[at], np.flatnonzero(apart[:, at] > 0.0)
            value = ahead.exog[apart[:, at].argmax(), at]
            each = list(dict.fromkeys([low[at], high[at]]))
            four = {f"{one:.4g}" for one in (value, *each)}
            digits = 4 if len(four) > len(each) else 10  # that tell them apart
            known = " to ".join(f"{one:.{digits}g}" for one in each)
            fact = f"{column} {value:.{digits}g} is beyond the {known} of the past"
            fact += f" at {len(steps)} of {counted(len(ahead.index), 'step')}"
            notes.append(Note("beyond", fact, tuple(steps.tolist())))
        return tuple(notes)

    def _by_clock(self, history: History) -> History:
        """A history as that of the fit, by the clock or not."""
        return history if self._ensemble().history.instants is None else history.by_clock()

    def _past_steps(self) -> AskPast:
        return self._of_instants(self._ensemble().past_steps())

    def _of_instants(self, ask: AskPast) -> AskPast:
        """One-step forecasts by the places in the series that was given."""
        history = self._ensemble().history
        if history.instants is None:
            return ask

        def by_clock(at: Positions) -> PastSteps | None:
            places = history.places[at]
            some = np.unique(places[places >= 0])
            found = ask(some) if len(some) else None
            if found is None:
                return None
            places = np.searchsorted(some, places)
            known = found.known[places] & (history.places[at] >= 0)
            return PastSteps(at, found.prediction.each(places), known)

        return by_clock

    def _ensemble(self) -> Ensemble:
        check_is_fitted(self, "ensemble_")
        return self.ensemble_


def check_scenarios(
    exog: Mapping[str, pd.DataFrame],
    history: History,
    steps: int,
    exog_std: Uncertainties = None,
    exog_cov: Uncertainties = None,
) -> list[Ahead]:
    """The next steps by scenario, or an error that names the one at fault."""
    remedy = "Pass {'base': exog, 'plan': other}, frames as for `forecast`."
    _checks.check_mapping("exog", exog, "regressors", remedy)
    if not exog:
        raise refusal("exog", "hold a scenario", "none", remedy)
    if not len(history.given_columns):
        must = "be used of a model fitted with regressors"
        raise refusal("scenarios", must, "one without", "Fit with `exog`.")
    given: dict[str, Any] = {"exog": exog, "exog_std": exog_std, "exog_cov": exog_cov}
    by_name = {argument: one for argument, one in given.items() if isinstance(one, Mapping)}
    for argument, one in by_name.items():
        for name in one:
            if not isinstance(name, str):
                raise refusal(argument, "have names that are text", repr(name), remedy, TypeError)
            if name not in exog:
                must = f"have names of scenarios, {', '.join(map(repr, exog))}"
                raise refusal(argument, must, repr(name), "Leave it out, or give its exog.")
    futures = list[Ahead]()
    for name in exog:
        own = {**given, **{argument: one.get(name) for argument, one in by_name.items()}}
        try:
            futures.append(history.future(steps, **own))
        except InvalidArgument as error:
            if error.argument not in by_name:
                raise
            raise error.but(argument=f"{error.argument}[{name!r}]") from None
    for first, second in combinations(futures, 2):
        if shares_errors(first.exog_cov, second.exog_cov, first.exog.shape[1]) is None:
            must = "have one covariance of the regressors whose errors two scenarios share"
            remedy = "Errors of the same covariance are the same: give them the same covariances "
            remedy += "with each other, too, or other variances."
            raise refusal("exog_cov", must, "two", remedy)
    return futures


def _at_places(ahead: Ahead, prediction: Prediction, places: Positions) -> Forecast:
    """The forecast of the steps ahead, which have these places."""
    if not np.array_equal(places, np.arange(len(prediction))):
        prediction = prediction.each(places)
    index, closed = ahead.given
    return forecast_of(index, prediction.at_zero(closed))


def summary_lines(model: Forecaster) -> list[Note]:
    """The lines of a forecaster's summary, as data."""
    return [Note("series", model.history_.described()), *model._choices(learned=True)]


def outliers_named(history: History) -> list[Note]:
    """The values of a history that are treated as missing, a line if there are any."""
    places = np.flatnonzero(~np.isnan(history.outliers))
    if not len(places):
        return []
    values = "1 value" if len(places) == 1 else f"{len(places)} values"
    named = list[str]()
    for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        first, last = history.time(run[0]), history.time(run[-1])
        if len(run) > _NAMED:
            named.append(f"{first} to {last}")
        else:
            named += [f"{history.time(i)} ({history.outliers[i]:,.6g})" for i in run]
    if len(named) > _NAMED:
        named = [*named[:_NAMED], f"and {len(named) - _NAMED} more"]
    listed = f"{values} treated as missing: {', '.join(named)}"
    remedy = "outliers='keep' keeps them"
    return [Note("outliers", f"outliers: {listed}", tuple(places.tolist()), remedy)]


def excursions_named(arguments: Arguments, history: History) -> list[Note]:
    """Weeks that are far from those of other years, as in a lockdown, and not masked, a line each.

    Found in 6 of 180 weekly series of M4. None beside regressors, which may explain them.
    """
    if history.exog.shape[1]:
        return []
    notes = []
    for run in excursions_of_weeks(history.y, suggested_periods(arguments, history)):
        first, last = history.time(run.start), history.time(run.stop - 1)
        fact = f"excursion: from {first} to {last} y is far from other years"
        remedy = "if it will not recur, leave it out: "
        remedy += f"y.iloc[{run.start}:{run.stop}] = np.nan"
        notes.append(Note("excursion", fact, tuple(range(run.start, run.stop)), remedy))
    return notes


def forgotten_named(history: History) -> list[Note]:
    """The values before a history that are left out, a line if there are any."""
    if not history.forgotten:
        return []
    start = history.time(0)
    if history.forgotten > history.shifted:
        fact = f"forgotten: the {history.forgotten:,} values before {start}"
        return [Note("forgotten", fact, (0,))]
    fact = f"shift: the level is another from {start} on; "
    fact += f"the {history.shifted:,} values before are left out"
    return [Note("shift", fact, (0,), "outliers='keep' keeps them")]


def repeats_named(history: History) -> list[Note]:
    """Runs of four equal values or more in a series that hardly ever repeats one, a line each.

    So named are 2 of 3,200 series of competitions. More runs than are named are how the series is,
    such as nights without sun.
    """
    y = history.y
    same = np.append(False, y[1:] == y[:-1])  # as the value before
    starts = np.flatnonzero(~same)
    lengths = np.diff(np.append(starts, len(y)))
    long = (lengths >= 4) & (starts > 0)
    others = len(y) - lengths[long].sum()
    often = same.sum() - (lengths[long] - 1).sum() > 0.01 * others
    often |= len(np.unique(y)) < 0.5 * others  # counts, which repeat themselves
    if often or not 0 < long.sum() <= _NAMED:
        return []
    notes = []
    for start, n in zip(starts[long], lengths[long], strict=True):
        times = f"from {history.time(start)} to {history.time(start + n - 1)}"
        fact = f"repeated: {n} values of {y[start]:,.6g} {times}"
        remedy = f"if a meter failed, leave them out: y.iloc[{start}:{start + n}] = np.nan"
        notes.append(Note("repeated", fact, tuple(range(start, start + n)), remedy))
    return notes


def upper_named(history: History) -> list[Note]:
    """A remark on values that look like shares, up to 1 or to 100, given without that bound."""
    known = history.y[~np.isnan(history.y)]
    top, n = float(known.max()), int((known == known.max()).sum())
    if top not in (1.0, 100.0) or known.min() < 0.0 or n < 2 or np.unique(known).size < 3:
        return []
    remedy = f"if none can be, give upper={top:g}"
    return [Note("highest", f"at {top:g}: {n} values, and none is above", (top,), remedy)]


def open_named(history: History) -> list[Note]:
    """What tells closed times, and the weekdays that are left out, a line if they are told."""
    if history.opening is None:
        return []
    fact = f"closed: 0 for certain where {history.opening.column} is 0"
    freq = getattr(history.index, "freq", None)
    if isinstance(freq, CustomBusinessDay):
        days = zip(DAYS, freq.calendar.weekmask, strict=True)
        fact += f", as on every {' and '.join(day for day, is_open in days if not is_open)}"
    elif isinstance(freq, CustomBusinessHour):
        hours: Any = freq
        shifts = zip(hours.start, hours.end, strict=True)
        named = [f"from {start:%H:%M} to {end:%H:%M}" for start, end in shifts]
        fact += f", as always but {' and '.join(named)}"
    elif isinstance(freq, Tick) and pd.Timedelta(freq) < pd.Timedelta(hours=1):
        fact += ", and missing to the models, whose lags do not step over it"
        return [Note("open", fact, (), "sums or means by the hour leave closed hours out")]
    return [Note("open", fact)]


def week_named(history: History, periods: tuple[int, ...]) -> list[Note]:
    """A remark on a season of seven steps where some weekdays are left out, if there is one."""
    is_open_days = isinstance(getattr(history.index, "freq", None), BDay | CustomBusinessDay)
    week = next(iter(seasonal_periods(history.index)), 7)
    if not is_open_days or 7 not in periods or week == 7:
        return []
    remedy = f"seasonal_period={week} is that of the week"
    return [Note("week", f"season of 7 steps: a week of open days has {week}", (week,), remedy)]


def closed_days_named(history: History) -> list[Note]:
    """The weekdays on which a daily series has no value, a line if there are any."""
    index, known = history.index, ~np.isnan(history.given)
    closed, mask = closed_days(index[known], getattr(index, "freq", None), len(index))
    if not closed or history.opening is not None:
        return []
    by = f"y.dropna().asfreq(pd.offsets.CustomBusinessDay(weekmask={mask!r}))"
    fact = f"closed: no value on any {' or '.join(closed)}"
    return [Note("closed", fact, (mask,), f"leave these days out: {by}")]
