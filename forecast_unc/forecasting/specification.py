"""One specification of a forecaster, with nothing left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forecast_unc.forecasting.noises import Noise
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.regressor import KernelRegressor

# Fewer rows than this leave nothing to learn from.
MIN_ROWS = 3
# Groups of linear weights in GPRegressor; the first is shrunk.
LAG_GROUP = {"shrunk": 0, "free": 1, None: -1}

Calibrate = bool | Literal["conformal"]


@dataclass(frozen=True, eq=False)
class Specification:
    """A forecaster with nothing left open.

    Parameters
    ----------
    regressor : KernelRegressor
        Not fitted.
    lags : tuple of int
        Past values used as inputs.
    differences : tuple of int
        Lags of the differences taken first.
    periods : tuple of int
        Seasonal periods, shortest first.
    transform : {None, "log", "sqrt", "boxcox"}
        Nonlinear transform of the values.
    prior_mean : {"zero", "last", "seasonal"}
        What the regressor learns the deviation from.
    calendar : tuple of str or DatetimeIndex
        Inputs from the calendar.
    max_train : int or None
        The most training rows.
    noise : {"process", "observation", "both", "auto"}
        Which noise its regressor learns.
    why : str
        The reason for it, a few words.
    origin : float, default=0.0
        What its transform is measured from: the lower bound, or 0 where there is none.
    weight : float, default=1.0
        Of its forecast in an average, beside the others' and before the widths are known.
    """

    regressor: KernelRegressor
    lags: tuple[int, ...]
    differences: tuple[int, ...]
    periods: tuple[int, ...]
    transform: Literal["log", "sqrt", "boxcox"] | None
    prior_mean: Literal["zero", "last", "seasonal"]
    calendar: tuple[Any, ...]
    max_train: int | None
    noise: Noise
    why: str
    origin: float = 0.0
    weight: float = 1.0

    @property
    def depth(self) -> int:
        """Values that a step looks back."""
        return max(self.lags) + sum(self.differences)

    @property
    def anchor(self) -> int | None:
        """Which of the lags is the prior mean, by place."""
        if self.prior_mean == "zero":
            return None
        return self.lags.index(1 if self.prior_mean == "last" else self.periods[0])

    @property
    def centered(self) -> bool:
        """Whether changes are measured from their mean. A bias that is shrunk is a drift to see."""
        return not isinstance(self.regressor, GPRegressor) or self.regressor.bias == "free"

    def described(self, power: float | None = None) -> str:
        """The specification as text.

        Parameters
        ----------
        power : float, optional
            Power of its Box-Cox transform, once it is known.

        Returns
        -------
        str
        """
        parts = (part if isinstance(part, str) else "holidays" for part in self.calendar)
        of_power = "" if power is None else f" of power {power:.3g}"
        return (
            f"lags {_ranges(self.lags)}, differences {self.differences or 'none'}, "
            f"transform {self.transform or 'none'}{of_power}, prior mean {self.prior_mean}, "
            f"calendar {', '.join(parts) or 'none'}"
        )


def check_length(n: int, deepest: int, differences: tuple[int, ...]) -> None:
    """Raise unless a series is long enough to learn from lags so deep.

    Parameters
    ----------
    n : int
        Length of the series.
    deepest : int
        The deepest lag.
    differences : tuple of int
        Lags of the differences.
    """
    least = deepest + sum(differences) + MIN_ROWS
    if n < least:
        raise ValueError(
            f"y must have at least {least} values for lags up to {deepest} and "
            f"differences {differences}; got {n}. Give more data, or fewer lags."
        )


def _ranges(lags: Sequence[int]) -> str:
    """Lags as text, with runs of them shortened: 1-4, 23-25."""
    runs: list[list[int]] = []
    for lag in lags:
        if runs and lag == runs[-1][-1] + 1:
            runs[-1].append(lag)
        else:
            runs.append([lag])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
