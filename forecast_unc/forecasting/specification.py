"""One specification of a forecaster with nothing left open, and how arguments become some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from forecast_unc._checks import check_whole
from forecast_unc._random import RandomState
from forecast_unc._typing import Array
from forecast_unc.forecasting.averaging import LOOK_AHEAD, MOST_AHEAD, Averaging
from forecast_unc.forecasting.embedding import complete_rows
from forecast_unc.forecasting.noises import NOISES, Noise
from forecast_unc.forecasting.pooled_prior import PooledPrior
from forecast_unc.forecasting.selection import Candidate, averaging, candidates, seasons_in
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.predictor import as_kernel_regressor
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.regression.regressor import KernelRegressor
from forecast_unc.series.calendar import (
    Calendar,
    calendar_inputs,
    check_calendar,
    seasonal_periods,
)
from forecast_unc.series.history import History

# Fewer rows than this leave nothing to learn from.
MIN_ROWS = 3
# The most rows of an exact process where the choice is left open: a fit to 2000 takes minutes.
_MOST_EXACT = 2000
# Of a reduced-rank process: rows that its hyper-parameters are learned from, and centers where it
# is one model of several. With so many rows the bound's bands are right; those of the evidence are
# too wide (births: MSIS 2.3 and 3.3).
_SEARCH_ROWS, _CENTERS = 5000, 100
# Groups of linear weights in GPRegressor; the first is shrunk.
_LAG_GROUP = {"shrunk": 0, "free": 1, None: -1}

Auto = Literal["auto"]
Calibrate = bool | Literal["conformal"]


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a `Forecaster` was given, "auto" where it is left open; see there."""

    regressor: BaseEstimator | None  # one of the package's or of scikit-learn's
    lags: Auto | int | Sequence[int]
    differences: Auto | int | Sequence[int]
    seasonal_period: Auto | int | Sequence[int] | None
    transform: Literal["auto", "log", "boxcox"] | None
    prior_mean: Literal["auto", "zero", "last", "seasonal"]
    calendar: Calendar
    max_train: int | None
    noise: Noise
    calibrate: Auto | Calibrate
    prior: PooledPrior | None
    random_state: RandomState

    def check(self) -> None:
        """Raise unless each argument is one that it could be, whatever the series."""
        if not is_auto(self.lags):
            as_lags("lags", self.lags, upto=True)
        as_lags("differences", _plain(self.differences, ()), upto=False)
        if not is_auto(self.seasonal_period) and self.seasonal_period is not None:
            given = self.seasonal_period
            periods = list(given) if isinstance(given, Iterable) else [given]
            if not periods or not all(_is_whole(period) and period > 1 for period in periods):
                raise ValueError(
                    "seasonal_period must be 2 or more, or several such; got "
                    f"{given!r}. Use None for a series without a season."
                )
        for name, value, allowed in (
            ("transform", self.transform, ("auto", None, "log", "boxcox")),
            ("prior_mean", self.prior_mean, ("auto", "zero", "last", "seasonal")),
            ("noise", self.noise, NOISES),
            ("calibrate", self.calibrate, ("auto", False, True, "conformal")),
        ):
            if not any(value is item or value == item for item in allowed):
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}. "
                    "Leave it out if unsure."
                )
        if not is_auto(self.calendar):
            check_calendar(self.calendar)
        if self.max_train is not None:
            check_whole("max_train", self.max_train, MIN_ROWS, "Use None to learn from all rows.")
        if self.regressor is not None:
            as_kernel_regressor(self.regressor)
        if self.noise != "process":
            self._check_two_noises()
        if self.prior is not None:
            self._check_prior()

    def _check_prior(self) -> None:
        """Raise unless the other arguments go with a learned prior."""
        if not isinstance(self.prior, PooledPrior):
            raise TypeError(
                f"prior must be a PooledPrior or None; got {type(self.prior).__name__}. Make one "
                "with learn_prior(series)."
            )
        if self.regressor is not None or self.noise != "process":
            what = "regressor" if self.regressor is not None else "noise"
            raise ValueError(
                f"prior must be None with a {what} of one's own; got {self.prior!r}. It is for the "
                "default regressor with noise of the process."
            )

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

    def is_long(self, history: History) -> bool:
        """Whether the default regressor is of reduced rank, which has noise of the process alone.

        Where candidates are chosen, those of the last rows are not: `max_train` says otherwise.
        """
        n_rows = int((~np.isnan(history.y)).sum())
        if self.max_train is not None:
            n_rows = min(n_rows, self.max_train)
        elif is_auto(self.lags):
            return False
        return n_rows > _MOST_EXACT and self.noise == "process"

    def periods(self, history: History) -> tuple[int, ...]:
        """Seasonal periods: those given, or those of the index that the data show."""
        if self.seasonal_period is None:
            return ()
        if is_auto(self.seasonal_period):
            return seasons_in(history.y, seasonal_periods(history.index))
        return tuple(sorted(set(as_lags("seasonal_period", self.seasonal_period, upto=False))))


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
    transform : {None, "log", "boxcox"}
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
    """

    regressor: KernelRegressor
    lags: tuple[int, ...]
    differences: tuple[int, ...]
    periods: tuple[int, ...]
    transform: Literal["log", "boxcox"] | None
    prior_mean: Literal["zero", "last", "seasonal"]
    calendar: tuple[Any, ...]
    max_train: int | None
    noise: Noise
    why: str

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

    def kind(self, n_regressors: int) -> str:
        """What specifications of different series have in common, as text.

        Parameters
        ----------
        n_regressors : int
            Columns of exog.

        Returns
        -------
        str
        """
        also = f", {n_regressors} regressors" if n_regressors else ""
        return self.described() + also

    def pooled_weights(self, d: int) -> NDArray[np.bool_]:
        """Which of d inputs have linear weights that are pooled: lags with shrunk ones, (d,)."""
        groups = getattr(self.regressor, "groups", None)
        own = np.zeros(d, dtype=np.intp) if groups is None else np.asarray(groups)
        return np.asarray((own == _LAG_GROUP["shrunk"]) & (np.arange(d) < len(self.lags)))

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


@dataclass(frozen=True, eq=False)
class Resolution:
    """The specifications of a series, and how their forecasts are averaged."""

    specifications: tuple[Specification, ...]
    averaging: Averaging
    periods: tuple[int, ...]
    calibrate: Calibrate


def resolve(arguments: Arguments, history: History) -> Resolution:
    """Specifications with nothing left open: one for lags of one's own, else a few to average.

    Parameters
    ----------
    arguments : Arguments
        Checked ones.
    history : History
        The series.

    Returns
    -------
    Resolution

    Raises
    ------
    ValueError
        If the arguments do not suit the series.
    """
    periods = arguments.periods(history)
    if not is_auto(arguments.lags):
        specification = _given(arguments, history, periods)
        specification = _with_prior(specification, arguments.prior, history)
        return Resolution(
            (specification,), Averaging(), periods, _plain(arguments.calibrate, False)
        )
    n_observed = int((~np.isnan(history.y)).sum())
    found: dict[tuple[str, str], Specification] = {}
    for candidate in candidates(
        history.y, periods, arguments.transform is not None, history.exog.shape[1] > 0
    ):
        if candidate.rows is None and not _has_reduced_rank(arguments):
            continue
        chosen = _with_prior(
            _completed(arguments, candidate, history, periods), arguments.prior, history
        )
        key = (f"{chosen.described()}, {chosen.max_train}", repr(chosen.regressor.get_params()))
        found.setdefault(key, chosen)
    by_width, widest = averaging(n_observed, bool(periods))
    season = periods[0] if periods else 0
    look_ahead = int(np.clip(3 * season // 2, LOOK_AHEAD, MOST_AHEAD))
    rule = Averaging(by_width, widest, look_ahead)
    calibrate = _plain(arguments.calibrate, arguments.noise == "process")
    return Resolution(tuple(found.values()), rule, periods, calibrate)


def _with_prior(
    specification: Specification, prior: PooledPrior | None, history: History
) -> Specification:
    """The specification with the prior that was learned for its kind, if one was."""
    if prior is None:
        return specification
    learned = prior.kinds.get(specification.kind(history.exog.shape[1]))
    if learned is None or not isinstance(specification.regressor, GPRegressor):
        return replace(specification, why=f"{specification.why}; no prior for its kind")
    regressor = clone(specification.regressor).set_params(prior=learned)
    why = f"{specification.why}; prior of {learned.n_sets} series"
    return replace(specification, regressor=regressor, why=why)


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


def _given(arguments: Arguments, history: History, periods: tuple[int, ...]) -> Specification:
    """The one specification of lags of one's own: what else is left open is plain."""
    lags = as_lags("lags", arguments.lags, upto=True)
    differences = tuple(as_lags("differences", _plain(arguments.differences, ()), upto=False))
    deepest = lags[-1] if isinstance(lags, range) else max(lags)
    check_length(len(history.y), deepest, differences)  # before a range becomes numbers
    prior_mean = _plain(arguments.prior_mean, "zero")
    _check_prior_mean(arguments, prior_mean, lags, periods)
    regressor = arguments.regressor
    why = "as given"
    if regressor is None:
        regressor = GPRegressor(random_state=arguments.random_state)
        if arguments.is_long(history):
            regressor = _reduced_rank("weak", 2 * _CENTERS, arguments.random_state)
            why += f"; reduced rank for more than {_MOST_EXACT} rows"
    return Specification(
        regressor=as_kernel_regressor(regressor),
        lags=tuple(lags),
        differences=differences,
        periods=periods,
        transform=_plain(arguments.transform, None),
        prior_mean=prior_mean,
        calendar=check_calendar(_plain(arguments.calendar, None)),
        max_train=arguments.max_train,
        noise=arguments.noise,
        why=why,
    )


def _completed(
    arguments: Arguments, candidate: Candidate, history: History, periods: tuple[int, ...]
) -> Specification:
    """A candidate of the automatic choice, with what was given in the place of its own."""
    differences = candidate.differences
    if not is_auto(arguments.differences):
        differences = tuple(as_lags("differences", arguments.differences, upto=False))
    prior_mean = _plain(arguments.prior_mean, candidate.prior_mean)
    parts = check_calendar(_plain(arguments.calendar, candidate.calendar))
    lags = _affordable(candidate.lags, history.y, differences)
    if prior_mean == "seasonal" and periods:
        lags = tuple(sorted({*lags, periods[0]}))
    _check_prior_mean(arguments, prior_mean, lags, periods)
    regressor, why = arguments.regressor, candidate.why
    most = candidate.rows if arguments.max_train is None else arguments.max_train
    if regressor is None:
        n_others = history.exog.shape[1]
        n_others += calendar_inputs(history.index[:1], parts, periods).shape[1]
        regressor = GPRegressor(
            prior=candidate.prior,
            bias=candidate.bias if differences == candidate.differences else "free",
            groups=(_LAG_GROUP[candidate.lag_weights],) * len(lags) + (2,) * n_others,
            random_state=arguments.random_state,
        )
        if candidate.rows is None or arguments.is_long(history):
            regressor = _reduced_rank(candidate.prior, _CENTERS, arguments.random_state)
            why += f"; reduced rank, {_CENTERS} centers"
    elif isinstance(regressor, ReducedRankGPRegressor):
        most = arguments.max_train
    transform = _plain(arguments.transform, candidate.transform)
    as_chosen = arguments.regressor is None and (differences, transform, prior_mean) == (
        candidate.differences,
        candidate.transform,
        candidate.prior_mean,
    )
    own_parts = check_calendar(candidate.calendar)
    named = tuple(part if isinstance(part, str) else None for part in parts)  # holidays have none
    if not as_chosen or named != own_parts:
        why += "; but for what was given"
    if "fourier" in own_parts and "fourier" not in named:
        why += ", which leaves out the Fourier terms of the season"
    return Specification(
        regressor=clone(as_kernel_regressor(regressor)),
        lags=lags,
        differences=differences,
        periods=periods,
        transform=transform,
        prior_mean=prior_mean,
        calendar=parts,
        max_train=most,
        noise=arguments.noise,
        why=why,
    )


def _has_reduced_rank(arguments: Arguments) -> bool:
    """Whether candidates of all rows may be of reduced rank: exact ones have fewer."""
    if arguments.regressor is None:
        few = arguments.max_train is not None and arguments.max_train <= _MOST_EXACT
        return arguments.noise == "process" and not few
    return isinstance(arguments.regressor, ReducedRankGPRegressor)


def _reduced_rank(
    prior: Literal["weak", "shrunk"], n_support: int, random_state: RandomState
) -> ReducedRankGPRegressor:
    """The default regressor of many rows."""
    return ReducedRankGPRegressor(
        n_support=n_support,
        objective="bound",
        prior=prior,
        search_rows=_SEARCH_ROWS,
        random_state=random_state,
    )


def _check_prior_mean(
    arguments: Arguments, prior_mean: str, lags: Sequence[int], periods: tuple[int, ...]
) -> None:
    """Raise unless the lag that is the prior mean is among the lags."""
    if prior_mean == "seasonal" and not periods:
        raise ValueError(
            "prior_mean must not be 'seasonal' for a series without a season; got one for "
            f"which seasonal_period is {arguments.seasonal_period!r}. Give its period."
        )
    lag = {"zero": None, "last": 1}.get(prior_mean, periods[0] if periods else None)
    if lag is not None and lag not in lags:
        raise ValueError(
            f"lags must hold {lag} for prior_mean={prior_mean!r}; got {arguments.lags!r}. Add it."
        )


def _affordable(
    lags: tuple[int, ...], values: Array, differences: tuple[int, ...]
) -> tuple[int, ...]:
    """The lags without the deepest that gaps in the values leave too few rows to learn from."""
    if not np.isnan(values).any():
        return lags
    while len(lags) > 1:
        enough = min(2 * len(lags) + 10, len(values) // 3)
        if complete_rows(values, lags, differences).sum() >= enough:
            break
        lags = lags[:-1]
    return lags


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


def _plain(value: Any, otherwise: Any) -> Any:
    """The argument, or another value where it is left to be chosen."""
    return otherwise if is_auto(value) else value


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
