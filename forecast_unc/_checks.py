"""Checks of arguments that any module may need, and seeds of random numbers."""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh

from forecast_unc._typing import Array
from forecast_unc.errors import (
    ArgumentError,
    ArgumentFileExistsError,
    ArgumentFileNotFoundError,
    ArgumentNotADirectoryError,
    ArgumentTypeError,
    ArgumentZeroDivisionError,
    InvalidArgument,
)

_T = TypeVar("_T")

RandomState = int | np.random.Generator | None

_MADE: dict[type[Exception], type[InvalidArgument]] = {
    ValueError: ArgumentError,
    TypeError: ArgumentTypeError,
    FileNotFoundError: ArgumentFileNotFoundError,
    FileExistsError: ArgumentFileExistsError,
    NotADirectoryError: ArgumentNotADirectoryError,
    ZeroDivisionError: ArgumentZeroDivisionError,
}

# Sums of squares of some thousand such values are finite.
LARGEST = 1e150
FARTHEST = 1e152  # from 0 of what is computed from such, or given beside a forecast
# Squares of a hundredth of it are normal floats.
SMALLEST = 1e-150
# The joint covariance of so many steps takes .8 GB, of which a model holds several.
_MOST_STEPS = 10_000
_MOST_JOBS = 10_000  # as many processes as no machine starts
# Asymmetry and negative eigenvalues of correlations that count as roundoff: a covariance written
# with nine digits passes, and what is neglected is a std of 1e-4 of an input's own.
_TOLERANCE = 1e-8


def refusal(
    name: str,
    must: str,
    got: str,
    remedy: str,
    kind: type[Exception] = ValueError,
    code: str = "",
) -> InvalidArgument:
    """The error of an argument: its rule, what came, and what to do, a sentence."""
    return _MADE[kind](name, must, got, remedy, code)


def check_whole(name: str, value: object, lowest: int, remedy: str, code: str = "") -> int:
    """Value as an int, in which nothing overflows, or an error unless it is `lowest` or more."""
    if not is_whole(value) or value < lowest:
        must = f"be a whole number, at least {lowest}"
        raise refusal(name, must, reprlib.repr(value), remedy, code=code)
    return int(value)


def check_paths(n: object, lowest: int, steps: int, name: str = "n_samples") -> int:
    """Number of paths as an int, if so many can be drawn: 8 bytes a path and step."""
    paths = check_whole(name, n, lowest, "It is the number of paths; 1000 is a good start.")
    if paths * steps > _MOST_STEPS**2:
        got = f"{paths:,}, which would take {8e-9 * min(paths, 10**300) * steps:,.3g} GB"
        must = f"be at most {_MOST_STEPS**2 // steps:,} for {steps} steps"
        raise refusal(name, must, got, "Draw them in parts.")
    return paths


def check_mapping(name: str, value: object, of: str, remedy: str) -> None:
    """Raise unless a value maps names to what `of` says, in the plural."""
    if not isinstance(value, Mapping):
        must, got = f"be a mapping of names to {of}", type(value).__name__
        raise refusal(name, must, got, remedy, TypeError)


def check_choice(
    name: str, value: object, allowed: Sequence[str | bool | None], remedy: str = ""
) -> None:
    """Raise unless a value is one of the allowed names; the remedy suggests the first."""
    if not isinstance(value, str | bool | np.bool_ | None) or value not in allowed:
        listed = ", ".join(map(repr, allowed))
        remedy = remedy or f"Use {allowed[0]!r} unless you compare."
        raise refusal(name, f"be one of {listed}", reprlib.repr(value), remedy)


def check_truth(name: str, value: object, remedy: str) -> None:
    """Raise unless a value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise refusal(name, "be True or False", repr(value), remedy)


def check_steps(steps: object, name: str = "steps") -> int:
    """Number of steps as an int, if so many can be forecast together."""
    remedy = "1 is the next value."
    if not isinstance(steps, Real):  # times, as other packages take them
        remedy += " Count them, and pick times from the forecast: forecast(24)['2027-06':]."
    h = check_whole(name, steps, 1, remedy)
    if h > _MOST_STEPS:
        memory = 8e-9 * float(min(h, 10**150)) ** 2
        got = f"{h:,}, whose joint covariance would take {memory:,.3g} GB"
        remedy = "Forecast a coarser series, such as y.resample('D').mean()."
        raise refusal(name, f"be at most {_MOST_STEPS:,}", got, remedy)
    return h


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number: no truth value, and no duration, an integer to numpy."""
    others = bool, np.timedelta64
    return isinstance(value, (int, np.integer)) and not isinstance(value, others)


def as_float(value: object) -> float:
    """A real number as a float; NaN of anything else, a duration or what no float can hold."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_, np.timedelta64)):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.nan


def check_lower(lower: object) -> float:
    """A lower bound as a float, or an error unless it is a number, or -inf for none."""
    bound = as_float(lower)
    if bound != -np.inf and not abs(bound) <= LARGEST:
        must, remedy = "be a number below inf", "Use -np.inf for no bound."
        raise refusal("lower", must, reprlib.repr(lower), remedy, code="lower")
    return bound


def check_upper(upper: object, lower: float) -> float:
    """An upper bound as a float, or an error unless it is above the lower one, or inf for none."""
    bound = as_float(upper)
    if not bound > lower or LARGEST < bound < np.inf:
        must, remedy = f"be a number above {lower:g}", "Use np.inf for no bound."
        raise refusal("upper", must, reprlib.repr(upper), remedy, code="upper")
    return bound


def check_path(path: object, example: str = "model.npz", writes: bool = False) -> None:
    """Raise unless `path` is a str or a path; to write, its folder has to exist."""
    if not isinstance(path, (str, PathLike)):
        remedy = f"Name the file, such as '{example}'."
        raise refusal("path", "be a str or a path", f"{path!r}", remedy, TypeError)
    folder = Path(path).resolve().parent
    if writes and not folder.exists():
        must, got = "name a file that can be written", f"{path}; there is no {folder}"
        remedy = "Name one in a folder that is there."
        raise refusal("path", must, got, remedy, FileNotFoundError)


def check_jobs(n_jobs: object) -> int | None:
    """Number of jobs as an int, or None, as joblib takes it."""
    if n_jobs is None:
        return None
    if not is_whole(n_jobs) or not 0 < abs(int(n_jobs)) <= _MOST_JOBS:
        must = "be None or a whole number other than 0"
        must += f", at most {_MOST_JOBS:,}" if is_whole(n_jobs) and n_jobs else ""
        raise refusal("n_jobs", must, reprlib.repr(n_jobs), "-1 takes all processors.")
    return int(n_jobs)


def check_covariance(name: str, cov: Array) -> None:
    """Raise unless a finite matrix (n, n) is symmetric and positive semi-definite, of any rank."""
    # Of the correlations, so that what is roundoff does not depend on units; a zero variance
    # leaves its covariances as they are, which then have to be zero too.
    var = np.diagonal(cov)
    unit = np.sqrt(np.where(var > 0, var, 1.0))
    scale = np.outer(unit, unit)
    check_symmetric(name, cov, scale)
    lowest = float(eigvalsh(cov / scale)[0]) if len(cov) else 0.0
    if lowest < -_TOLERANCE:
        got = f"correlations with an eigenvalue of {lowest:.3g}"
        remedy = "Estimate it from data, or give variances alone."
        raise refusal(name, "be positive semi-definite", got, remedy)


def check_symmetric(name: str, cov: Array, scale: Array) -> None:
    """Raise if a covariance differs from its transpose by more than 1e-8 of ``scale`` (h, h)."""
    apart = float((np.abs(cov - cov.T) / scale).max(initial=0.0))
    if apart > _TOLERANCE:
        got = f"entries that differ by {apart:.3g} standard deviations squared"
        remedy = f"Pass 0.5 * ({name} + {name}.T) if only roundoff is to blame."
        raise refusal(name, "be symmetric", got, remedy)


def generator(random_state: RandomState) -> np.random.Generator:
    """Random numbers from a seed; a generator is returned as it is, None seeds from the system."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        must = "be a whole number, not negative, a numpy Generator or None"
        remedy = "Pass 0 for the same numbers every time."
        raise refusal("random_state", must, f"{random_state!r}", remedy) from error


def one_seed(random_state: RandomState) -> int | None:
    """A seed for the same numbers several times: of a generator its next number, None of None."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    return random_state


def numbers(name: str, value: ArrayLike) -> Array:
    """Copy as an array of floats, or a TypeError."""
    try:
        array = np.array(value)
        if array.dtype.kind in "biufO":  # strings of digits are no numbers
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # the last of an int of 400 digits
        pass
    remedy = "Pass an array of floats, all rows as long as each other."
    raise refusal(name, "be numbers", reprlib.repr(value), remedy, TypeError)


def frozen(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Write-protected copy of a finite array of the given shape."""
    array = numbers(name, value)
    if array.shape != shape:
        remedy = "One entry is needed for each step."
        raise refusal(name, f"have shape {shape}", f"{array.shape}", remedy)
    wrong = ~np.isfinite(array)
    if wrong.any():
        got = f"{array[wrong][0]} at step {np.argwhere(wrong)[0][0] + 1}"
        remedy = "If a forecast has diverged, ask for fewer steps or difference the series; if its "
        remedy += "values are this large, divide the series by a constant."
        raise refusal(name, "be finite", got, remedy)
    array.setflags(write=False)
    return array


def first_true(flags: Any) -> int | None:
    """Position of the first flag that is set, (n,), or None."""
    return int(flags.argmax()) if flags.any() else None


def check_positive(cov: Array, label: Callable[[int], str]) -> None:
    """Raise if a variance is not positive."""
    var = cov.diagonal()
    if (at := first_true(var <= 0)) is not None:
        condition = f"from a matrix of condition number {np.linalg.cond(cov):.3g}"
        got = f"{var[at]:.6g} at {label(at)}, {condition}"
        remedy = "A variance that is not positive is a numerical failure, or a value that is known "
        remedy += "already."
        raise refusal("cov", "have a positive diagonal", got, remedy)


def check_coverage(coverage: float, name: str = "coverage", of_95: str = "0.95") -> float:
    """A coverage as a float, if it is a fraction, in (0, 1); 95 is never read as 0.95."""
    remedy = f"For a 95 % interval pass {of_95}."
    if not isinstance(coverage, Real) or isinstance(coverage, np.timedelta64):
        raise refusal(name, "be a number", repr(coverage), remedy, TypeError)
    if not 0 < coverage < 1:
        got = reprlib.repr(coverage) if is_whole(coverage) else f"{coverage}"
        raise refusal(name, "lie strictly between 0 and 1", got, remedy)
    return float(coverage)


def check_coverages(coverage: Iterable[float]) -> tuple[float, ...]:
    """Coverages of several intervals, or an error if one number, none, or no fractions."""
    levels = check_several("coverage", coverage, "fractions", "(0.9,) for one interval")
    if not levels:
        remedy = "Pass (0.9,) for one interval."
        raise refusal("coverage", "hold a fraction", "none", remedy)
    return tuple(map(check_coverage, levels))


def check_several(name: str, values: Iterable[_T], kind: str, remedy: str) -> tuple[_T, ...]:
    """Entries of an argument that takes several, or an error if it is a single value."""
    if isinstance(values, str) or not np.iterable(values):
        raise refusal(name, f"be a sequence of {kind}", f"{values!r}", f"Pass {remedy}.", TypeError)
    return tuple(values)
