"""The arguments of a forecaster, checked, before the series is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from forecast_unc._checks import check_lower, check_whole
from forecast_unc._random import RandomState
from forecast_unc.forecasting.embedding import complete_rows
from forecast_unc.forecasting.noises import NOISES, Noise
from forecast_unc.forecasting.outliers import gross_outliers
from forecast_unc.forecasting.selection import seasons_in
from forecast_unc.forecasting.specification import MIN_ROWS, Calibrate
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.series.calendar import (
    Calendar,
    calendar_inputs,
    check_calendar,
    seasonal_periods,
)
from forecast_unc.series.history import History

Auto = Literal["auto"]

# One may be an error, or a difference that happens to be 0.
_FEWEST_ZEROS = 2


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a `Forecaster` was given, "auto" where it is left open; see there."""

    regressor: BaseEstimator | None  # one of the package's or of scikit-learn's
    lags: Auto | int | Sequence[int]
    differences: Auto | int | Sequence[int]
    seasonal_period: Auto | int | Sequence[int] | None
    transform: Literal["auto", "log", "sqrt", "boxcox"] | None
    lower: float | None
    prior_mean: Literal["auto", "zero", "last", "seasonal"]
    calendar: Calendar
    max_train: int | None
    noise: Noise
    calibrate: Auto | Calibrate
    outliers: Literal["mask", "keep"]
    random_state: RandomState

    def check(self) -> None:
        """Raise unless each argument is one that it could be, whatever the series."""
        if not is_auto(self.lags):
            as_lags("lags", self.lags, upto=True)
        as_lags("differences", plain(self.differences, ()), upto=False)
        if not is_auto(self.seasonal_period) and self.seasonal_period is not None:
            given = self.seasonal_period
            periods = list(given) if isinstance(given, Iterable) else [given]
            if not periods or not all(_is_whole(period) and period > 1 for period in periods):
                raise ValueError(
                    "seasonal_period must be 2 or more, or several such; got "
                    f"{given!r}. Use None for a series without a season."
                )
        for name, value, allowed in (
            ("transform", self.transform, ("auto", None, "log", "sqrt", "boxcox")),
            ("prior_mean", self.prior_mean, ("auto", "zero", "last", "seasonal")),
            ("noise", self.noise, NOISES),
            ("calibrate", self.calibrate, ("auto", False, True, "conformal")),
            ("outliers", self.outliers, ("mask", "keep")),
        ):
            if not any(value is item or value == item for item in allowed):
                none = None in allowed and str(value).lower() == "none"
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}. "
                    + ("Pass None, without quotes." if none else "Leave it out if unsure.")
                )
        if self.lower is not None:
            check_lower(self.lower)
        if not is_auto(self.calendar):
            check_calendar(self.calendar)
        if self.max_train is not None:
            check_whole("max_train", self.max_train, MIN_ROWS, "Use None to learn from all rows.")
        if self.regressor is not None:
            as_kernel_regressor(self.regressor)
        if self.noise != "process":
            self._check_two_noises()

    def _check_two_noises(self) -> None:
        """Raise unless the other arguments go with a noise of the observations."""
        if self.regressor is not None and type(self.regressor) is not GPRegressor:
            raise ValueError(
                f"noise must be 'process' for {type(self.regressor).__name__}; got "
                f"{self.noise!r}. Only GPRegressor() tells two kinds of noise apart."
            )
        if self.regressor is not None and self.regressor.noise_std is not None:
            raise ValueError(
                f"noise must be 'process' for GPRegressor(noise_std={self.regressor.noise_std!r}), "
                f"which is all the noise there is; got {self.noise!r}. Give known errors of the "
                "observations as y_std."
            )
        if self.regressor is not None and self.regressor.hyperparameters == "integrated":
            raise ValueError(
                "noise must be 'process' for GPRegressor(hyperparameters='integrated'); got "
                f"{self.noise!r}. Use GPRegressor() for two kinds of noise."
            )
        if self.regressor is not None and (
            self.regressor.noisy_inputs is not None or not isinstance(self.regressor.linear, bool)
        ):
            raise ValueError(
                f"noise must be 'process' for {self.regressor!r}; got {self.noise!r}. Use "
                "GPRegressor(), without noisy_inputs and weights of one's own."
            )

    def periods(self, history: History) -> tuple[int, ...]:
        """Seasonal periods: those given, or those of the index that the data show."""
        if self.seasonal_period is None:
            return ()
        if is_auto(self.seasonal_period):
            return seasons_in(history.y, seasonal_periods(history.index))
        return tuple(sorted(set(as_lags("seasonal_period", self.seasonal_period, upto=False))))

    def bound(self, history: History) -> float:
        """The lower bound: that given, or 0 for zeros without a value below; -inf for none."""
        if self.lower is not None:
            return float(self.lower)
        zeros = int((history.y == 0.0).sum())
        count = is_auto(self.lags) and zeros >= _FEWEST_ZEROS and np.nanmin(history.y) == 0.0
        return 0.0 if count else -np.inf

    def without_outliers(self, history: History) -> History:
        """The history with gross outliers taken for missing, unless they are to be kept.

        None is where a regressor has a rare value, or on a holiday that was given: they may explain
        it; nor where lags of one's own would lose more than half of their rows with them.
        """
        if self.outliers == "keep":
            return history
        auto = is_auto(self.seasonal_period)
        periods = seasonal_periods(history.index) if auto else self.periods(history)
        outliers = gross_outliers(history.given, periods)
        if outliers.any():
            outliers &= ~self._unusual(history)
        found = history.without(outliers)
        if is_auto(self.lags) or not outliers.any():
            return found
        lags = as_lags("lags", self.lags, upto=True)
        differences = tuple(as_lags("differences", plain(self.differences, ()), upto=False))
        deepest = lags[-1] if isinstance(lags, range) else max(lags)
        if deepest + sum(differences) >= len(found.y):  # before a range becomes numbers
            return found
        rows = [complete_rows(y, tuple(lags), differences).sum() for y in (found.y, found.given)]
        return found if 2 * rows[0] >= rows[1] else history

    def _unusual(self, history: History) -> NDArray[np.bool_]:
        """Where there is a holiday, or a regressor outside the central 90 % of its values, (n,)."""
        parts = check_calendar(plain(self.calendar, None))
        holidays = tuple(part for part in parts if not isinstance(part, str))
        low, high = np.quantile(history.exog, [0.05, 0.95], axis=0)
        rare = (history.exog < low) | (history.exog > high)
        return np.asarray(
            rare.any(axis=1) | (calendar_inputs(history.index, holidays, ()) > 0).any(axis=1)
        )


def is_auto(value: object) -> TypeGuard[Auto]:
    """Whether an argument is left to be chosen."""
    return isinstance(value, str) and value == "auto"


def as_lags(name: str, value: object, upto: bool) -> Sequence[int]:
    """Positive whole numbers from an int or a sequence of them; with `upto` p means 1 to p.

    Parameters
    ----------
    name : str
        Name of the argument in messages.
    value : int or sequence of int
        What came.
    upto : bool
        Whether a number stands for all up to it, and there has to be one; else 0 is none.

    Returns
    -------
    sequence of int
    """
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
        raise ValueError(
            f"{name} must be a positive whole number or distinct positive ones; got {value!r}. "
            "Lag 1 is the previous value."
        )
    if not valid:
        raise ValueError(
            f"{name} must be lags, positive whole numbers; got {value!r}. Use 0 or () for none."
        )
    return tuple(int(item) for item in items)


def plain(value: Any, otherwise: Any) -> Any:
    """The argument, or another value where it is left to be chosen."""
    return otherwise if is_auto(value) else value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
