"""A weighted list of one or more fitted models: what a `Forecaster` is once it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from forecast_unc._checks import one_seed
from forecast_unc._typing import Array
from forecast_unc.distributions.fitted import PastSteps
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.averaging import POWER, Averaged, Averaging, until_diverged
from forecast_unc.forecasting.calibration import Errors, calibration, conformal, rolling_errors
from forecast_unc.forecasting.model import FittedModel, LaggedModel
from forecast_unc.forecasting.recursion import Method
from forecast_unc.forecasting.resolve import MemberSpecification, Resolution, check_above
from forecast_unc.forecasting.rolling import AskPast, Rolling, past_steps
from forecast_unc.forecasting.smoothing_model import SmoothingModel, SmoothingSpecification
from forecast_unc.forecasting.specification import Calibrate, Specification
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

MODELS: dict[type, Any] = {Specification: LaggedModel, SmoothingSpecification: SmoothingModel}
"""What fits each kind of specification, and makes its model again by a recipe: a `FittedModel`."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Refusal:
    """A specification that could not be fitted, or could not take in later values."""

    specification: MemberSpecification
    reason: str


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted models of one history, and how their forecasts are averaged. Immutable."""

    history: History  # the series up to the origin
    models: tuple[FittedModel, ...]
    averaging: Averaging
    refused: tuple[Refusal, ...]
    periods: tuple[int, ...]  # seasonal
    calibrate: Calibrate  # whether bands are as wide as errors inside the training part say
    rolling: Rolling
    """The same models at the end of what they have learned from: those errors' source."""
    lower: float = -np.inf  # the bound at which forecasts are censored
    lower_given: bool = False  # one that was chosen is dropped where a value is below it

    @classmethod
    def fit(cls, resolution: Resolution, history: History, earlier: Self | None = None) -> Self:
        """Fit every specification, and drop those that do not suit the series unless none does.

        Searches start from the hyper-parameters of an earlier ensemble, of the first of its models
        with the same inputs and target.
        """
        known = () if earlier is None else earlier.models
        specifications = resolution.specifications
        made, errors = those_that_can(
            specifications, lambda one: MODELS[type(one)].fit(one, history, known)
        )
        refused = tuple(Refusal(specifications[i], str(e)) for i, e in errors.items())
        models = tuple(made.values())
        return cls(
            history,
            models,
            resolution.averaging,
            refused,
            resolution.periods,
            resolution.calibrate,
            Rolling(models),
            resolution.lower,
            resolution.lower_given,
        )

    def extend(self, history: History) -> Self:
        """The models with the posteriors of a longer history."""
        return self._moved(history, self.models, lambda model: model.extend(history), learns=True)

    def at(self, history: History) -> Self:
        """The models at the end of another history, with nothing learned."""
        return self._moved(history, self.trained, lambda model: model.at(history), learns=False)

    def _moved(
        self,
        history: History,
        models: tuple[FittedModel, ...],
        move: Callable[[FittedModel], FittedModel],
        learns: bool,
    ) -> Self:
        lower = self.lower
        if self.lower_given:
            check_above(history, lower)
        elif (history.y < lower).any():
            lower = -np.inf
        made, errors = those_that_can(models, move)
        refused = tuple(Refusal(models[i].specification, str(e)) for i, e in errors.items())
        moved, rolling = tuple(made.values()), self.rolling
        if learns:
            rolling = Rolling(moved)
        elif errors:
            rolling = Rolling(tuple(self.trained[i] for i in made))
        refused = self.refused + refused
        return replace(
            self, history=history, models=moved, refused=refused, rolling=rolling, lower=lower
        )

    @property
    def trained(self) -> tuple[FittedModel, ...]:
        """The models at the end of what they have learned from."""
        return self.rolling.models

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
        return self.rolling.error_ratios(self.averaging.look_ahead)

    def forecast(self, ahead: Ahead, method: Method) -> Forecast:
        """The averaged forecast, censored at the bound if there is one.

        Its models have learned from values that were never below, so that their mean is that of
        such values, and the bound would raise it: where many values are at the bound it is kept.

        The weights and the calibration are those of the exact forecasts whatever the method, so
        that methods can be compared.
        """
        average, ahead, correlated = self._averaged(ahead, method)
        free = average.forecast
        if self.calibrate:
            errors, known = self._errors(average, ahead)
            if self.calibrate == "conformal":
                free = conformal(free, errors)
            else:
                free = calibration(errors, known.reference, correlated).of(free)
        return free.censored(self.lower, keep_moments=self.keeps_moments)

    def past_steps(self) -> AskPast:
        """One-step forecasts of the history, each from the values before it.

        They are averaged with the widths of the time itself alone, and calibrated as the forecast
        of the last value is.
        """
        bands = self._bands_of_next() if self.calibrate else None

        def ask(at: NDArray[np.intp]) -> PastSteps | None:
            found = [past_steps(model, at) for model in self.models]
            steps = self.averaging.average_past(found, self.weights)
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

    def _averaged(self, ahead: Ahead, method: Method) -> tuple[Averaged, Ahead, int]:
        """The average, the steps known ahead, and how many of them tell of correlations."""
        steps, given = len(ahead.index), ahead.exog.shape[1] > 0
        ahead, horizon = self.horizon(ahead)
        if self.calibrate:
            self.rolling.prepare(len(ahead.index))
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

    def horizon(self, ahead: Ahead) -> tuple[Ahead, int]:
        """The steps known ahead, with those looked at for weights, and how many are forecast."""
        steps, look_ahead = len(ahead.index), self.averaging.look_ahead
        if ahead.exog.shape[1] > 0:
            return ahead, steps
        with suppress(ValueError):  # where the index cannot go on so far
            ahead = self.history.future(max(steps, look_ahead))
        needed = len(self.models) > 1 or bool(self.calibrate)
        return ahead, len(ahead.index) if needed and len(ahead.index) >= look_ahead else steps

    def _errors(self, average: Averaged, ahead: Ahead) -> tuple[Errors, Averaged]:
        """Errors of the average inside the training part, and what their unit is taken from."""
        known = self._from_known(average, ahead)
        return rolling_errors(self.rolling, known.members, known.shares), known

    def _from_known(self, averaged: Averaged, ahead: Ahead) -> Averaged:
        """What the models forecast from what is known: the unit of errors in the training part.

        At the origin the bands may be wider, and steps go together more, for missing or noisy
        values and uncertain regressors, or because it is that of another series: that says nothing
        of the errors before.
        """
        known = [model.from_known() for model in self.trained]
        same = all(one is other for one, other in zip(self.models, known, strict=True))
        if same and ahead.exog_cov is None:
            return averaged
        asks = [partial(_first, model, ahead.known(), None) for model in known]
        members, _ = until_diverged(asks, averaged.shares.shape[1])
        first = [member is not None for member in members] @ averaged.shares[:, 0]
        return replace(averaged, members=members, own=False) if first > 0.0 else averaged

    @property
    def at_bound(self) -> float:
        """Share of the observed values that are at the bound."""
        observed = self.history.y[~np.isnan(self.history.y)]
        return float(np.mean(observed == self.lower))

    @property
    def keeps_moments(self) -> bool:
        """Whether forecasts keep their mean and variance at the bound."""
        return self.at_bound > _MANY

    def bands_named(self) -> list[str]:
        """How bands are calibrated, a line if they are."""
        if not self.calibrate:
            return []
        kind = "conformal" if self.calibrate == "conformal" else "calibrated"
        origins = len(self.rolling.origins)
        by = f"by errors from up to {origins} origins"
        return [f"bands: {kind}, {by if origins else 'as usual for series as short as this'}"]

    def models_named(self, noise: bool) -> list[str]:
        """The weight of each model, what it is and why, and its noise if that was asked for."""
        lines, by_width = [], self.averaging.by_width and len(self.models) > 1
        for number, model in enumerate(self.models):
            vote = f"{self.votes[number]:.2g} / width^{POWER:g}"
            label = vote if by_width else f"{self.weights[number]:.2f}"
            line = f"weight {label}: {model}: {model.specification.why}"
            if (ratio := self.error_ratios[number]) > WORSE:
                line += f"; its errors inside the series are {ratio:.2g} times the least"
            lines.append(line)
            if noise and isinstance(model, LaggedModel):
                lines.append(f"noise {model.noise}")
        return lines


def _first(model: FittedModel, ahead: Ahead, method: Method | None, steps: int) -> Forecast:
    """A model's forecast of the first steps."""
    return model.forecast(ahead.first(steps), method)


def those_that_can(
    items: Iterable[T], make: Callable[[T], R]
) -> tuple[dict[int, R], dict[int, ValueError]]:
    """What is made of the items, and the errors of others, by place; the first's if none could."""
    made, errors = {}, {}
    for place, item in enumerate(items):
        try:
            made[place] = make(item)
        except ValueError as error:
            errors[place] = error
    if not made:
        raise errors[0]  # of the simplest
    return made, errors
