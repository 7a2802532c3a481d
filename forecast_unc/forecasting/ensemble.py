"""A weighted list of one or more fitted models: what a `Forecaster` is once it is fitted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from forecast_unc._random import one_seed
from forecast_unc._typing import Array
from forecast_unc.distributions.fitted import PastSteps
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.averaging import Averaged, Averaging, as_far_as_they_go
from forecast_unc.forecasting.calibration import Errors, calibration, conformal, rolling_errors
from forecast_unc.forecasting.fitted import AskPast, averaged, past_steps
from forecast_unc.forecasting.members import Member, MemberSpecification, fit_member
from forecast_unc.forecasting.recursion import Method
from forecast_unc.forecasting.resolution import Resolution, check_above
from forecast_unc.forecasting.rolling import Rolling
from forecast_unc.forecasting.specification import Calibrate
from forecast_unc.series.history import Ahead, History

# A model whose errors inside the training part are more than so many times the least loses weight,
# as this power of what they are beyond it, down to so little of it. Where values grow by 5 % a
# month, models without a logarithm have small bands that are wrong together: coverage .50 to .95,
# MAE to a third (6 simulated series). On 880 origins inside ten sets of real ones nothing changes
# (MASE -.2 to +.1 %, errors .1 to .4). A power of all ratios, from 1 on, gains nothing there.
WORSE, _FADING, _LEAST = 2.0, 4.0, 1e-4
# Share of values at the bound beyond which a forecast keeps its mean. On 202 series in reserve CRPS
# -6.5 %, standard error .9; from 20 to 40 % it would be -.7, 1.0, and below 10 % +.4, .1.
_MANY = 0.4

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Refusal:
    """A specification that could not be fitted, or could not take in later values."""

    specification: MemberSpecification
    reason: str


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted models of one history, and how their forecasts are averaged. Immutable.

    Parameters
    ----------
    history : History
        The series up to the origin.
    models : tuple of FittedModel or SmoothingModel
        One or more.
    averaging : Averaging
        How their quantiles are averaged.
    refused : tuple of Refusal
        What was dropped, with the reasons.
    periods : tuple of int
        Seasonal periods.
    calibrate : {False, True, "conformal"}
        Whether bands are as wide as errors inside the training part say.
    trained : tuple of FittedModel or SmoothingModel
        The same models at the end of what they have learned from: those errors' source.
    lower : float, default=-inf
        The bound at which forecasts are censored.
    lower_given : bool, default=False
        Whether it was given. One that was chosen is dropped where a value is below it.
    """

    history: History
    models: tuple[Member, ...]
    averaging: Averaging
    refused: tuple[Refusal, ...]
    periods: tuple[int, ...]
    calibrate: Calibrate
    trained: tuple[Member, ...]
    lower: float = -np.inf
    lower_given: bool = False

    @classmethod
    def fit(cls, resolution: Resolution, history: History, earlier: Self | None = None) -> Self:
        """Fit every specification, and drop those that do not suit the series unless none does.

        Searches start from the hyper-parameters of an earlier ensemble, of the first of its models
        with the same inputs and target.
        """
        known = () if earlier is None else earlier.models
        models, refused = _those_that_can(
            resolution.specifications, lambda one: fit_member(one, history, known), lambda one: one
        )
        rest = resolution.averaging, refused, resolution.periods, resolution.calibrate, models
        return cls(history, models, *rest, resolution.lower, resolution.lower_given)

    @property
    def weights(self) -> Array:
        """Weights of the models before the widths are known, which add up to 1, (k,)."""
        return np.asarray(self.votes / self.votes.sum())

    @cached_property
    def votes(self) -> Array:
        """Those weights before they are made to add up to 1, (k,): 1 for most of the models."""
        own = np.array([model.specification.weight for model in self.models])
        worse = np.maximum(self.error_ratios / WORSE, 1.0)
        return np.asarray(own * np.maximum(worse**-_FADING, _LEAST), dtype=np.float64)

    @cached_property
    def error_ratios(self) -> Array:
        """The models' errors inside the training part over the least of them, (k,)."""
        if len(self.models) == 1:
            return np.ones(1)
        return self._rolling.error_ratios(self.averaging.look_ahead)

    @cached_property
    def _rolling(self) -> Rolling:
        return Rolling(self.trained)

    def extend(self, history: History) -> Self:
        """The models with the posteriors of a longer history; see `FittedModel.extend`."""
        longer = self._each(history, lambda model: model.extend(history))
        return replace(longer, trained=longer.models)

    def at(self, history: History) -> Self:
        """The models at the end of another history, with nothing learned."""
        return self._each(history, lambda model: model.at(history))

    def forecast(self, ahead: Ahead, method: Method) -> Forecast:
        """The averaged forecast, censored at the bound if there is one.

        Its models have learned from values that were never below, so that their mean is that of
        such values, and the bound would raise it: where many values are at the bound it is kept.

        The weights and the calibration are those of the exact forecasts whatever the method, so
        that methods can be compared.

        Parameters
        ----------
        ahead : Ahead
            The steps and their regressors.
        method : Method
            How uncertainty is propagated.

        Returns
        -------
        Forecast
        """
        free = self._uncensored(ahead, method)
        return free.censored(self.lower, keep_moments=self.keeps_moments)

    def past_steps(self) -> AskPast:
        """One-step forecasts of the history, each from the values before it.

        They are averaged with the widths of the time itself alone, and calibrated as the forecast
        of the last value is.

        Returns
        -------
        callable
            See `fitted.fitted`.
        """
        bands = self._bands_of_next() if self.calibrate else None

        def ask(at: NDArray[np.intp]) -> PastSteps | None:
            found = [past_steps(model, at) for model in self.models]
            steps = averaged(found, self.weights, self.averaging)
            if steps is None:
                return None
            forecast = steps.forecast if bands is None else bands(steps.forecast)
            return steps._replace(forecast=forecast.censored(self.lower))

        return ask

    def _bands_of_next(self) -> Callable[[Forecast], Forecast]:
        """What calibration does to forecasts of one step, as to that of the last value."""
        last = len(self.history.y) - 1
        ahead = Ahead(self.history.index[last:], self.history.exog[last:], None)
        before = self.at(self.history.before(last))
        # cheap, and of any regressor: widths and errors are those of the default forecasts
        average, seen, _ = before._averaged(ahead, Method("naive"))
        errors, known = before._errors(average, seen)
        first = Errors(errors.z[:, :1], errors.level[:1])
        if self.calibrate == "conformal":
            return partial(conformal, errors=first)
        return calibration(first, known.reference, 1).of

    def _uncensored(self, ahead: Ahead, method: Method) -> Forecast:
        """The averaged forecast before the bound: what errors and widths are taken from."""
        average, ahead, correlated = self._averaged(ahead, method)
        if not self.calibrate:
            return average.forecast
        errors, known = self._errors(average, ahead)
        if self.calibrate == "conformal":
            return conformal(average.forecast, errors)
        return calibration(errors, known.reference, correlated).of(average.forecast)

    def _averaged(self, ahead: Ahead, method: Method) -> tuple[Averaged, Ahead, int]:
        """The average, the steps known ahead, and how many of them tell of correlations."""
        steps, given = len(ahead.index), ahead.exog.shape[1] > 0
        ahead, horizon = self.horizon(ahead)
        if self.calibrate:
            self._rolling.prepare(len(ahead.index))
        # one generator for all would have its numbers depend on the horizon
        method = method._replace(random_state=one_seed(method.random_state))
        plain = method.propagation == "exact" and method.path_consistent
        looks_ahead = not given and len(ahead.index) >= self.averaging.look_ahead
        average = self.averaging.average(
            [partial(_first, model, ahead, method) for model in self.models],
            self.weights,
            steps,
            references=[] if plain else [partial(_first, m, ahead, None) for m in self.models],
            can_look_ahead=looks_ahead and horizon >= self.averaging.look_ahead,
        )
        # Two steps have a correlation; more of a forecast of two are not known everywhere.
        return average, ahead, self.averaging.look_ahead if looks_ahead else 2

    def _errors(self, average: Averaged, ahead: Ahead) -> tuple[Errors, Averaged]:
        """Errors of the average inside the training part, and what their unit is taken from."""
        known = self._from_known(average, ahead)
        return rolling_errors(self._rolling, known.members, known.shares), known

    @property
    def at_bound(self) -> float:
        """Share of the observed values that are at the bound."""
        observed = self.history.y[~np.isnan(self.history.y)]
        return float(np.mean(observed == self.lower))

    @property
    def keeps_moments(self) -> bool:
        """Whether forecasts keep their mean and variance at the bound."""
        return self.at_bound > _MANY

    def horizon(self, ahead: Ahead) -> tuple[Ahead, int]:
        """The steps that are known ahead, with those looked at for weights, and how many are used.

        Parameters
        ----------
        ahead : Ahead
            The steps asked for.

        Returns
        -------
        ahead : Ahead
            They and what follows.
        steps : int
            The first so many of them are forecast.
        """
        steps, look_ahead = len(ahead.index), self.averaging.look_ahead
        if ahead.exog.shape[1] > 0:
            return ahead, steps
        with suppress(ValueError):  # where the index cannot go on so far
            ahead = self.history.future(max(steps, look_ahead))
        needed = len(self.models) > 1 or bool(self.calibrate)
        return ahead, len(ahead.index) if needed and len(ahead.index) >= look_ahead else steps

    def bands(self) -> list[str]:
        """How bands are calibrated, a line if they are."""
        if not self.calibrate:
            return []
        kind = "conformal" if self.calibrate == "conformal" else "calibrated"
        origins = len(self._rolling.origins)
        by = f"by errors from up to {origins} origins"
        return [f"bands: {kind}, {by if origins else 'as usual for series as short as this'}"]

    def _from_known(self, averaged: Averaged, ahead: Ahead) -> Averaged:
        """What the models forecast from what is known: the unit of errors in the training part.

        At the origin the bands may be wider, and steps go together more, for missing or noisy
        values and uncertain regressors, or because it is that of another series: that says nothing
        of the errors before.
        """
        same = all(one is other for one, other in zip(self.models, self.trained, strict=True))
        if same and ahead.exog_cov is None and all(m.starts_known for m in self.trained):
            return averaged
        asks = [partial(_first, m.from_known(), ahead.known(), None) for m in self.trained]
        members, _ = as_far_as_they_go(asks, averaged.shares.shape[1])
        first = [member is not None for member in members] @ averaged.shares[:, 0]
        return replace(averaged, members=members, own=False) if first > 0.0 else averaged

    def _each(self, history: History, move: Callable[[Member], Member]) -> Self:
        lower = self.lower
        if self.lower_given:
            check_above(history, lower)
        elif (history.y < lower).any():
            lower = -np.inf
        pairs, refused = _those_that_can(
            tuple(zip(self.models, self.trained, strict=True)),
            lambda pair: (move(pair[0]), pair[1]),
            lambda pair: pair[0].specification,
        )
        models, trained = zip(*pairs, strict=True)
        refused = self.refused + refused
        moved = replace(self, history=history, lower=lower)
        return replace(moved, models=models, trained=trained, refused=refused)


def _first(model: Member, ahead: Ahead, method: Method | None, steps: int) -> Forecast:
    """A model's forecast of the first steps."""
    return model.forecast(ahead.first(steps), method)


def _those_that_can(
    items: tuple[T, ...],
    make: Callable[[T], R],
    named: Callable[[T], MemberSpecification],
) -> tuple[tuple[R, ...], tuple[Refusal, ...]]:
    """What is made of the items, and why others could not be; the first's error if none could."""
    models, errors = [], []
    for item in items:
        try:
            models.append(make(item))
        except ValueError as error:
            errors.append((named(item), error))
    if not models:
        raise errors[0][1]  # of the simplest
    return tuple(models), tuple(Refusal(one, str(error)) for one, error in errors)
