"""What the arguments of a `Forecaster` may be, and what they mean."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeGuard

import numpy as np

from forecast_unc._checks import check_whole
from forecast_unc.forecasting.calendar import check_calendar
from forecast_unc.regression.predictor import as_kernel_regressor

# Fewer rows than this leave nothing to learn from.
MIN_ROWS = 3


def check_arguments(forecaster: Any) -> None:
    """Raise unless each argument of a `Forecaster` is one that it could be, whatever the series."""
    if not is_auto(forecaster.lags):
        as_lags("lags", forecaster.lags, upto=True)
    as_lags("differences", plain(forecaster.differences, ()), upto=False)
    if not is_auto(forecaster.seasonal_period) and forecaster.seasonal_period is not None:
        given = _scalar(forecaster.seasonal_period)
        periods = list(given) if isinstance(given, Iterable) else [given]
        if not periods or not all(_is_whole(period) and period > 1 for period in periods):
            raise ValueError(
                "seasonal_period must be 2 or more, or several such; got "
                f"{forecaster.seasonal_period!r}. Use None for a series without a season."
            )
    for name, value, allowed in (
        ("transform", forecaster.transform, ("auto", None, "log", "boxcox")),
        ("prior_mean", forecaster.prior_mean, ("auto", "zero", "last", "seasonal")),
    ):
        if not any(value is item or value == item for item in allowed):
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}. "
                "Leave it out if unsure."
            )
    if not is_auto(forecaster.calendar):
        check_calendar(forecaster.calendar)
    if forecaster.max_train is not None:
        check_whole("max_train", forecaster.max_train, MIN_ROWS, "Use None to learn from all rows.")
    if forecaster.regressor is not None:
        as_kernel_regressor(forecaster.regressor)


def is_auto(value: object) -> TypeGuard[Literal["auto"]]:
    """Whether an argument is left to be chosen."""
    return isinstance(value, str) and value == "auto"


def plain(value: Any, otherwise: Any) -> Any:
    """The argument, or another value where it is left to be chosen."""
    return otherwise if is_auto(value) else value


def as_lags(name: str, value: Any, upto: bool) -> Sequence[int]:
    """Positive whole numbers from an int or a sequence of them; with `upto` p means 1 to p."""
    value = _scalar(value)
    items: list[Any]
    if _is_whole(value):
        if upto and value >= 1:
            return range(1, int(value) + 1)
        items = [value] if upto or value != 0 else []
    else:
        iterable = isinstance(value, Iterable) and not isinstance(value, str)
        items = list(value) if iterable else [value]
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


def _scalar(value: Any) -> Any:
    """The number in an array without dimensions; anything else as it is."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _ranges(lags: Sequence[int]) -> str:
    """Lags as text, with runs of them shortened: 1-4, 23-25."""
    runs: list[list[int]] = []
    for lag in lags:
        if runs and lag == runs[-1][-1] + 1:
            runs[-1].append(lag)
        else:
            runs.append([lag])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def in_words(
    lags: Sequence[int],
    differences: tuple[int, ...],
    transform: str | None,
    prior_mean: str,
    calendar: tuple[Any, ...],
) -> list[str]:
    """A specification as text, an item each."""
    parts = (part if isinstance(part, str) else "holidays" for part in calendar)
    return [
        f"lags {_ranges(lags)}",
        f"differences {differences or 'none'}",
        f"transform {transform or 'none'}",
        f"prior mean {prior_mean}",
        f"calendar {', '.join(parts) or 'none'}",
    ]
