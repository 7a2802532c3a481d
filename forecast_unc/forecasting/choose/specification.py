"""Arguments of a forecaster, checked; and one specification, with nothing left open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator

from forecast_unc import _checks
from forecast_unc._checks import RandomState, check_whole, refusal
from forecast_unc.distributions.power import POWERS
from forecast_unc.forecasting.models.design import NOISES, Noise
from forecast_unc.forecasting.models.effects import NO_EFFECTS, NO_EXOG, CalendarEffects
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.series.calendar import Calendar, check_calendar, effects_apart, in_profile

_LONGEST = 1_000_000  # steps of a season
Auto = Literal["auto"]
Calibrate = bool | Literal["conformal"]
Transform = str  # a name of `POWERS`
PriorMean = Literal["zero", "last", "seasonal"]

# Fewer rows than this leave nothing to learn from.
MIN_ROWS = 3
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "transform": ("auto", *POWERS),
    "prior_mean": ("auto", "zero", "last", "seasonal"),
    "noise": NOISES,
    "calibrate": ("auto", False, True, "conformal"),
    "outliers": ("mask", "keep"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class Arguments(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Settings of a `Forecaster`, "auto" where one is left open; see there."""

    regressor: BaseEstimator | None = field(default=None, kw_only=False)
    lags: Auto | int | Sequence[int] = field(default="auto", kw_only=False)
    differences: Auto | int | Sequence[int] = "auto"
    seasonal_period: Auto | int | Sequence[int] | None = "auto"
    transform: Literal["auto", "log", "sqrt", "boxcox"] | None = "auto"
    lower: float | None = None
    prior_mean: Literal["auto", "zero", "last", "seasonal"] = "auto"
    calendar: Calendar = "auto"
    max_train: int | None = None
    noise: Noise = "process"
    calibrate: Literal["auto", "conformal"] | bool = "auto"
    outliers: Literal["mask", "keep"] = "mask"
    random_state: RandomState = None
    exog_lags: int = 0
    upper: float | None = None

    @property
    def _inputs(self) -> Calendar:
        """The part of the calendar that is inputs of a model."""
        return effects_apart(self.calendar)[0]

    @property
    def _effects(self) -> tuple[str, ...]:
        """The words of the calendar that are effects, learned before any model."""
        return effects_apart(self.calendar)[1]

    def _check(self) -> None:
        """Raise unless each argument is one that it could be, whatever the series."""
        if not is_auto(self.lags):
            as_lags("lags", self.lags, upto=True)
        as_lags("differences", value_or(self.differences, ()), upto=False)
        period = self.seasonal_period
        if not is_auto(period) and period is not None:
            periods: list[Any] = list(period) if isinstance(period, Iterable) else [period]
            if not periods or not all(_is_whole(one) and one > 1 for one in periods):
                remedy = "Use None for a series without a season."
                must = "be a whole number of steps, at least 2, or several"
                raise refusal("seasonal_period", must, repr(period), remedy, code="no season")
            if max(periods) > _LONGEST:
                remedy = "It counts steps of the series."
                raise refusal("seasonal_period", f"be at most {_LONGEST:,}", repr(period), remedy)
            self._check_season_used(periods)
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            quoted = None in allowed and str(value).lower() == "none"
            remedy = "Pass None, without quotes." if quoted else "Leave it out if unsure."
            _checks.check_choice(name, value, allowed, remedy)
        if self.lower is not None:
            _checks.check_lower(self.lower)
        if self.upper is not None:
            _checks.check_upper(self.upper, self.lower)
        if not is_auto(self._inputs):
            check_calendar(self._inputs)
        if self.max_train is not None:
            remedy = "Use None to learn from all rows."
            check_whole("max_train", self.max_train, MIN_ROWS, remedy, "all rows")
        check_whole("exog_lags", self.exog_lags, 0, "0 is the effect at the same time alone.")
        _checks.generator(self.random_state)
        if self.regressor is not None:
            as_kernel_regressor(self.regressor)
            if self.noise != "process":
                _check_two_noises(self.regressor, self.noise)

    def _check_season_used(self, periods: list[Any]) -> None:
        """Raise if lags of one's own, and what else was given, have no use for a season."""
        if is_auto(self.lags) or self.prior_mean == "seasonal":
            return
        parts = check_calendar(value_or(self._inputs, None))
        if any(isinstance(part, str) and part in ("fourier", "profile") for part in parts):
            return
        differences = as_lags("differences", value_or(self.differences, ()), upto=False)
        lags = as_lags("lags", self.lags, upto=True)
        if any(period not in lags and period not in differences for period in periods):
            must = "be a lag or one of the differences, or have calendar='fourier' or 'profile', "
            must += "or prior_mean='seasonal', where lags are given"
            remedy = "Add one of these, or leave it out."
            raise refusal("seasonal_period", must, repr(self.seasonal_period), remedy)


@dataclass(frozen=True, eq=False)
class Specification:
    """A model on lagged values with nothing left open."""

    regressor: KernelRegressor  # not fitted
    lags: tuple[int, ...]
    differences: tuple[int, ...]  # lags of the differences taken first
    periods: tuple[int, ...]  # seasonal periods, shortest first
    transform: Transform | None
    prior_mean: PriorMean  # what the regressor learns the deviation from
    calendar: tuple[Any, ...]  # names and holidays: inputs from the calendar
    max_train: int | None  # the most training rows
    noise: Noise
    why: str  # the reason for it, a few words
    lower: float = 0.0  # what the transform is measured from: the bound, or 0 without one
    exog_differences: tuple[int, ...] = ()  # of the regressors: those of y where both are changes
    exog_lags: int = 0  # of the regressors, from 0 on
    weight: float = 1.0  # of its forecast in an average, before the widths are known
    calendar_effects: CalendarEffects = NO_EFFECTS  # of holidays, taken out of the levels

    exog_effects: ClassVar = NO_EXOG  # regressors are inputs

    @property
    def depth(self) -> int:
        """Values that a step looks back."""
        return max(max(self.lags) + sum(self.differences), self.exog_depth)

    @property
    def exog_depth(self) -> int:
        """Values of the regressors that a step looks back."""
        return sum(self.exog_differences) + self.exog_lags

    @property
    def anchor(self) -> int | None:
        """Place of the lag that is the prior mean."""
        if self.prior_mean == "zero":
            return None
        return self.lags.index(1 if self.prior_mean == "last" else self.periods[0])

    def described(self, power: float | None = None) -> str:
        """The specification as text, with the power of its Box-Cox transform once it is known."""
        name = type(self.regressor).__name__
        parts = [part if isinstance(part, str) else "holidays" for part in self.calendar]
        parts += [str(word) for word in self.calendar_effects.words]
        waves, n = "smooth seasonal waves", in_profile(self.periods)
        effects = f"an effect for each of the {n} steps of the season" if n else waves
        seasons = [{"fourier": waves, "profile": effects}.get(part, part) for part in parts]
        lags = f"lags {_ranges(self.lags)}" if len(self.lags) > 1 else f"lag {self.lags[0]}"
        around = {"last": ["around the last value"], "seasonal": ["around the season before"]}
        whole = [f"{_KINDS.get(name, name)} of {series_named(self, power)}", lags]
        return ", ".join([*whole, *around.get(self.prior_mean, []), *seasons])


_KINDS = {
    "GPRegressor": "Gaussian process",
    "ErrorsInVariablesGP": "Gaussian process with noisy inputs",
    "LinearRegressor": "linear autoregression",
    "ReducedRankGPRegressor": "reduced-rank Gaussian process",
    "RVMRegressor": "relevance vector machine",
}
_OF = {None: "the series", "log": "the logarithm", "sqrt": "the square root"}


def series_named(specification: Any, power: float | None) -> str:
    """Target of a model in words: the series, its logarithm, or changes of these."""
    otherwise = "the Box-Cox transform" + ("" if power is None else f" of power {power:.3g}")
    name = _OF.get(specification.transform, otherwise)
    match getattr(specification, "differences", ()):
        case ():
            return name
        case (1,):
            return f"changes of {name}"
        case (lag,):
            return f"changes of {name} over {lag} steps"
        case lags:
            return f"differences of {name} at lags {', '.join(map(str, lags))}"


def check_length(n: int, deepest: int, differences: tuple[int, ...]) -> None:
    """Raise unless n values are enough to learn from lags so deep."""
    least = deepest + sum(differences) + MIN_ROWS
    if n < least:
        must = f"have at least {least} values for {deep(deepest, differences)}"
        raise refusal("y", must, f"{n}", "Give more data, or fewer lags.")


def deep(lag: int, differences: tuple[int, ...]) -> str:
    """How deep a model looks back, in words."""
    return f"lags up to {lag}" + (f" and differences {differences}" if differences else "")


def is_auto(value: object) -> TypeGuard[Auto]:
    """Whether an argument is left to be chosen."""
    return isinstance(value, str) and value == "auto"


def value_or(value: Any, otherwise: Any) -> Any:
    """The argument, or another value where it is left to be chosen."""
    return otherwise if is_auto(value) else value


def as_lags(name: str, value: object, upto: bool) -> Sequence[int]:
    """Positive whole numbers; with `upto` p means 1 to p and there is one at least, else 0 none."""
    items: list[Any]
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if _is_whole(value):
        if upto and value >= 1:
            return range(1, int(value) + 1)
        items = [value] if upto or value != 0 else []
    else:
        iterable = isinstance(value, Iterable) and not isinstance(value, str)
        items = list(value) if iterable else [value]  # type: ignore[call-overload]
    valid = all(_is_whole(item) and item >= 1 for item in items)
    if upto and (not valid or not items or len(set(items)) < len(items)):
        must = "be a positive whole number or distinct positive ones"
        raise refusal(name, must, repr(value), "Lag 1 is the previous value.")
    if not valid:
        must, remedy = "be lags, positive whole numbers", "Use 0 or () for none."
        raise refusal(name, must, repr(value), remedy, code="no lags")
    return tuple(int(item) for item in items)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_two_noises(regressor: BaseEstimator, noise: Noise) -> None:
    """Raise unless a regressor can learn a noise of the observations."""
    if type(regressor) is not GPRegressor:
        which = type(regressor).__name__
        remedy = "Only GPRegressor() tells two kinds of noise apart."
    elif regressor.noise_std is not None:
        which = f"GPRegressor(noise_std={regressor.noise_std!r}), which is all the noise there is"
        remedy = "Give known errors of the observations as y_std."
    elif regressor.hyperparameters == "integrated":
        which = "GPRegressor(hyperparameters='integrated')"
        remedy = "Use GPRegressor() for two kinds of noise."
    elif regressor.noisy_inputs is not None or not isinstance(regressor.linear, bool):
        which = repr(regressor)
        remedy = "Use GPRegressor(), without noisy_inputs and weights of one's own."
    else:
        return
    raise refusal("noise", f"be 'process' for {which}", repr(noise), remedy)


def _ranges(lags: Sequence[int]) -> str:
    """Lags as text, with runs of them shortened: 1-4, 23-25."""
    runs: list[list[int]] = []
    for lag in lags:
        if runs and lag == runs[-1][-1] + 1:
            runs[-1].append(lag)
        else:
            runs.append([lag])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
