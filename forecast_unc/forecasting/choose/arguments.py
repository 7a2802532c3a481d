"""Arguments of a forecaster and their checks, alone and beside a series."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator

from forecast_unc import _checks
from forecast_unc._checks import RandomState, check_whole, first_true, is_whole, refusal
from forecast_unc.distributions.power import POWERS
from forecast_unc.forecasting.choose.specification import MIN_ROWS, NOISES, Noise
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.series.calendar import Calendar, check_calendar, effects_apart, seasonal_periods
from forecast_unc.series.history import History
from forecast_unc.series.seasons import seasons_in

Auto = Literal["auto"]

LONGEST = 1_000_000  # steps of a season
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
    open: Hashable | None = None

    def _checked(self) -> Arguments:
        """The arguments alone, counts as ints; an error if one could be none, whatever the series.

        Numpy's integers overflow.
        """
        if not is_auto(self.lags):
            as_lags("lags", self.lags, upto=True)
        as_lags("differences", value_or(self.differences, ()), upto=False)
        period = self.seasonal_period
        if not is_auto(period) and period is not None:
            periods: list[Any] = np.atleast_1d(np.asarray(period, dtype=object)).tolist()
            if not periods or not all(is_whole(one) and one > 1 for one in periods):
                remedy = "Use None for a series without a season."
                must = "be a whole number of steps, at least 2, or several"
                raise refusal("seasonal_period", must, repr(period), remedy, code="no season")
            if max(periods) > LONGEST:
                remedy = "It counts steps of the series."
                raise refusal("seasonal_period", f"be at most {LONGEST:,}", repr(period), remedy)
            self._check_season_used(periods)
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            quoted = None in allowed and str(value).lower() == "none"
            remedy = "Pass None, without quotes." if quoted else "Leave it out if unsure."
            _checks.check_choice(name, value, allowed, remedy)
        lower = -np.inf if self.lower is None else _checks.check_lower(self.lower)
        if self.upper is not None:
            _checks.check_upper(self.upper, lower)
        inputs = calendar_inputs_of(self)
        if not is_auto(inputs):
            check_calendar(inputs)
        max_train = self.max_train
        if max_train is not None:
            remedy = "Use None to learn from all rows."
            max_train = check_whole("max_train", max_train, MIN_ROWS, remedy, "all rows")
        remedy = "0 is the effect at the same time alone."
        exog_lags = check_whole("exog_lags", self.exog_lags, 0, remedy)
        _checks.generator(self.random_state)
        if self.regressor is not None:
            as_kernel_regressor(self.regressor)
            if self.noise != "process":
                _check_two_noises(self.regressor, self.noise)
        given = {one.name: getattr(self, one.name) for one in fields(Arguments)}
        return Arguments(**given | {"max_train": max_train, "exog_lags": exog_lags})

    def _check_season_used(self, periods: list[Any]) -> None:
        """Raise if nothing that was given beside lags uses a season that was given, too."""
        if is_auto(self.lags) or self.prior_mean == "seasonal":
            return
        parts = check_calendar(value_or(calendar_inputs_of(self), None))
        if any(isinstance(part, str) and part in ("fourier", "profile") for part in parts):
            return
        differences = as_lags("differences", value_or(self.differences, ()), upto=False)
        lags = as_lags("lags", self.lags, upto=True)
        if any(period not in lags and period not in differences for period in periods):
            must = "be a lag or one of the differences, or have calendar='fourier' or 'profile', "
            must += "or prior_mean='seasonal', where lags are given"
            remedy = "Add one of these, or leave it out."
            raise refusal("seasonal_period", must, repr(self.seasonal_period), remedy)


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
    if is_whole(value):
        if upto and value >= 1:
            return range(1, int(value) + 1)
        items = [value] if upto or value != 0 else []
    else:
        iterable = isinstance(value, Iterable) and not isinstance(value, str)
        items = list(value) if iterable else [value]  # type: ignore[call-overload]
    valid = all(is_whole(item) and item >= 1 for item in items)
    if upto and (not valid or not items or len(set(items)) < len(items)):
        must = "be a positive whole number or distinct positive ones"
        raise refusal(name, must, repr(value), "Lag 1 is the previous value.")
    if not valid:
        must, remedy = "be lags, positive whole numbers", "Use 0 or () for none."
        raise refusal(name, must, repr(value), remedy, code="no lags")
    return tuple(int(item) for item in items)


def calendar_inputs_of(arguments: Arguments) -> Calendar:
    """The part of the calendar that is inputs of a model."""
    return effects_apart(arguments.calendar)[0]


def calendar_effects_of(arguments: Arguments) -> tuple[str, ...]:
    """The words of the calendar that are effects, learned before any model."""
    return effects_apart(arguments.calendar)[1]


def given_lags(arguments: Arguments) -> tuple[Sequence[int], tuple[int, ...]]:
    """Lags of one's own, which may be a long range, and differences."""
    return as_lags("lags", arguments.lags, upto=True), differences_or(arguments, ())


def differences_or(arguments: Arguments, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    """The differences that were given, or others where they are left to be chosen."""
    return tuple(as_lags("differences", value_or(arguments.differences, otherwise), upto=False))


def deepest(lags: Sequence[int]) -> int:
    """The largest lag; of a range without listing it."""
    return lags[-1] if isinstance(lags, range) else max(lags)


def periods_of(arguments: Arguments, history: History) -> tuple[int, ...]:
    """Seasonal periods: those given, or those of the index that the data show."""
    if arguments.seasonal_period is None:
        return ()
    if is_auto(arguments.seasonal_period):
        return seasons_in(history.y, seasonal_periods(history.index), history.exog)
    return tuple(sorted(set(as_lags("seasonal_period", arguments.seasonal_period, upto=False))))


def suggested_periods(arguments: Arguments, history: History) -> tuple[int, ...]:
    """Seasonal periods: those given, or all that the index suggests."""
    auto = is_auto(arguments.seasonal_period)
    return seasonal_periods(history.index) if auto else periods_of(arguments, history)


def check_within(history: History, lower: float, upper: float) -> None:
    """Raise unless no value of a history is beyond a bound."""
    for name, end, beyond, rule, other, no_bound in (
        ("lower", lower, history.y < lower, "at most", "smaller", "-np.inf"),
        ("upper", upper, history.y > upper, "at least", "larger", "None"),
    ):
        if (at := first_true(beyond)) is not None:
            got = f"{end:g}, and y is {history.y[at]:g} at {history.time(at)}"
            remedy = f"Take a {other} one, or {name}={no_bound} for none."
            raise refusal(name, f"be {rule} every value of y", got, remedy, code=f"{name} of y")


def _check_two_noises(regressor: BaseEstimator, noise: Noise) -> None:
    """Raise unless a regressor can learn a noise of the observations."""
    if type(regressor) is not GPRegressor:
        which = type(regressor).__name__
        remedy = "Only GPRegressor() tells two kinds of noise apart."
    elif regressor.noise_std is not None:
        which = f"GPRegressor(noise_std={regressor.noise_std!r}), which is all the noise there is"
        remedy = "Give known errors of the observations as y_std."
    elif regressor.noisy_inputs is not None or not isinstance(regressor.linear, bool):
        which = repr(regressor)
        remedy = "Use GPRegressor(), without noisy_inputs and weights of one's own."
    else:
        return
    raise refusal("noise", f"be 'process' for {which}", repr(noise), remedy)
