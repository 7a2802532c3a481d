"""Requests of the choice: what to fit, and by which rules forecasts are averaged and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.series.calendar import in_profile

Calibrate = bool | Literal["conformal"]
Noise = Literal["process", "observation", "both", "auto"]
NOISES: tuple[str, ...] = get_args(Noise)
PriorMean = Literal["zero", "last", "seasonal"]
Transform = str  # a name of `POWERS`

# Fewer rows than this leave nothing to learn from.
MIN_ROWS = 3
# Values besides one season that a season is learned from, and that an origin inside has before it.
LEAST_BEYOND = 4
LARGEST_COUNT = 1000.0
"""Larger counts are as good as continuous."""
# Figures of the averages are of origins inside the training data, see docs/benchmarks/all.md.

# A member explodes where it is so many times as wide as the series' own changes over as many steps:
# with 3 MSIS of 534 yearly series is 13 % higher, of those with seasons .3 % lower.
WIDEST = 6.0
# Steps of the mean widths that say what explodes, and of the errors whose correlations count: one
# and a half seasons, from 4 to 18 (a choice, under the weights by width that were before).
LOOK_AHEAD, MOST_AHEAD = 4, 18


@dataclass(frozen=True, eq=False)
class Specification:
    """A model on lagged values, with nothing left open and nothing learned."""

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
    exog_bends: tuple[tuple[float, ...], ...] = ()  # where the effect of each regressor bends
    exog_as: Literal["inputs", "lasting", "evidence"] = "inputs"
    """"lasting": their effects are taken out of the levels; "evidence": the better of the two, with
    lags and bends, as the model is fitted."""
    weight: float = 1.0  # its vote in an average
    effects: tuple[str, ...] = ()  # words of the calendar: effects to take out of the levels
    bend: float = 0.0  # log evidence (nats) of a nonlinear function over a line, which chose it
    within: bool = False  # beside a profile, inputs for the steps of the seasons that it repeats

    @property
    def depth(self) -> int:
        """Values that a step looks back."""
        return max(max(self.lags) + sum(self.differences), self.exog_depth)

    @property
    def exog_depth(self) -> int:
        """Values of the regressors that a step looks back."""
        return 0 if self.exog_as == "lasting" else sum(self.exog_differences) + self.exog_lags

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
        parts += [str(word) for word in self.effects]
        waves, n = "smooth seasonal waves", in_profile(self.periods)
        effects = f"an effect for each of the {n} steps of the season" if n else waves
        seasons = [{"fourier": waves, "profile": effects}.get(part, part) for part in parts]
        lags = f"lags {_ranges(self.lags)}" if len(self.lags) > 1 else f"lag {self.lags[0]}"
        around = {"last": ["around the last value"], "seasonal": ["around the season before"]}
        whole = [f"{_KINDS.get(name, name)} of {series_named(self, power)}", lags]
        lasting = ["lasting effects of the regressors"] if self.exog_as == "lasting" else []
        return ", ".join([*whole, *around.get(self.prior_mean, []), *seasons, *lasting])


@dataclass(frozen=True, eq=False)
class SmoothingSpecification:
    """Exponential smoothing with nothing left open."""

    period: int  # of the season; 1 for none
    transform: str | None  # a name of `POWERS`
    max_train: int  # the most values, the last ones; fewer where more than 60 are missing
    why: str
    lower: float = 0.0  # what the transform measures values from
    weight: float = 1.0  # its vote in an average
    effects: tuple[str, ...] = ()  # words of the calendar: effects to take out of the levels
    exog_lags: int | None = None  # of the regressors whose effects are, too; None for none

    def described(self, power: float | None = None) -> str:
        """The specification as text, with the power of its Box-Cox transform once it is known."""
        season = f"season of {self.period} steps" if self.period > 1 else "no season"
        whole = [f"exponential smoothing of {series_named(self, power)}", season]
        return ", ".join([*whole, *map(str, self.effects)])


@dataclass(frozen=True, eq=False)
class CountSpecification:
    """Counts with nothing left open."""

    max_train: int  # the most values, the last ones
    why: str
    weight: float = 1.0

    def described(self, power: float | None = None) -> str:
        """The specification as text."""
        return "counts with an occurrence and a size"


MemberSpecification = Specification | SmoothingSpecification | CountSpecification


def longest_lag(one: MemberSpecification) -> int:
    """The longest lag, also of differences, or the season of states."""
    if isinstance(one, Specification):
        return max(*one.lags, *one.differences, 1)
    return one.period if isinstance(one, SmoothingSpecification) else 1


@dataclass(frozen=True)
class Averaging:
    """Rule by which quantiles are averaged.

    Weights depend on the step only, so a longer horizon never changes the first steps.
    """

    by_width: bool = False  # weight by 1 / width
    widest: float | None = None
    """A forecast is dropped from the step on at which its width is more than so many times that of
    the series' own changes, or else of the narrowest, or its mean is more than 7.4 medians (a
    lognormal of log std 2), and where it diverges. Without it none is dropped, and an error is that
    of the average."""
    look_ahead: int = LOOK_AHEAD
    """Steps of a width: the mean width of the 95 % band over so many steps that end with the step,
    or over the first of them before."""
    disagreement: bool = False  # whether bands are wider where members disagree


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules of averaging, calibration and censoring of the forecasts of a series."""

    averaging: Averaging
    periods: tuple[int, ...]  # seasonal, shortest first
    calibrate: Calibrate  # whether bands are as wide as errors inside the training part say
    lower: float = -np.inf  # the bound at which forecasts are censored
    lower_given: bool = False  # one that was chosen is dropped where a value is below it
    upper: float = np.inf
    whole: bool = False  # forecasts are rounded to whole numbers
    noise_periods: tuple[int, ...] = ()  # seasons between whose steps noise and errors may differ
    volatile: bool = False  # the size of the noise may follow its recent size
    otherwise: MemberSpecification | None = None  # what answers where no specification suits
    tested: bool = True  # the series had two cycles of a season that the index suggests


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


def are_counts(y: Array) -> bool:
    """Whether all observed values are whole numbers from 0 to 1000."""
    known = y[~np.isnan(y)]
    return bool(((known >= 0.0) & (known <= LARGEST_COUNT) & (known == np.round(known))).all())


def _ranges(lags: Sequence[int]) -> str:
    """Lags as text, with runs of them shortened: 1-4, 23-25."""
    runs: list[list[int]] = []
    for lag in lags:
        if runs and lag == runs[-1][-1] + 1:
            runs[-1].append(lag)
        else:
            runs.append([lag])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
