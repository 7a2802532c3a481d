"""Base of the regressors: predictions from a posterior, scales, checks of arguments."""

import copy
import os
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from forecast_unc import _checks
from forecast_unc._checks import FARTHEST, RandomState, numbers, refusal
from forecast_unc._typing import Array, Flags
from forecast_unc.regression.kernels import lower_root
from forecast_unc.regression.posterior import Moments, Posterior, check_positive_variance

_FAR = 1e-100  # ratio of a given std to the data's whose square is a float

Method = Literal["exact", "taylor", "monte_carlo"]
LeadingMeans = Callable[[Array], Array]
Lengthscales = float | Sequence[float] | Array | None


class KernelRegressor(ABC, RegressorMixin, BaseEstimator):
    """Base of the regressors: a subclass's `fit` has only to set `posterior_`."""

    most_rows: ClassVar[int | None] = None  # above which a Forecaster asks for `max_train`

    posterior_: Posterior
    n_features_in_: int
    random_state: RandomState = None

    # Of the search of the next fit, if it has one, and of the last one: what is free, and theta.
    _start: tuple[Flags, Array] | None = None
    _end: tuple[Flags, Array] | None = None

    @property
    def takes_noise(self) -> bool:
        """Whether `fit`, `condition` and `leading_means` take `relative_noise`, one of each row."""
        return False

    @property
    def centers(self) -> bool:
        """Whether targets may be measured from their mean: not with a bias shrunk, or without."""
        return getattr(self, "bias", "free") not in ("shrunk", None)

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows and set `posterior_`."""

    def condition(self, X: ArrayLike, y: ArrayLike) -> Self:
        """A new regressor of rows X (n, d), y (n,) with what this one, unchanged, has learned."""
        check_is_fitted(self)
        conditioned = copy.copy(self)
        conditioned._set_posterior(*self._checked_rows(X, y, reset=False))
        return conditioned

    def _checked_rows(self, X: ArrayLike, y: ArrayLike, reset: bool = True) -> tuple[Array, Array]:
        """Finite inputs (n, d) and targets (n,); `reset` takes their names and number as new."""
        # in one order of memory, whose roundoff decides where a flat search ends
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True, reset=reset)
        return within_floats(np.asarray(X), numbers("y", y))

    def _set_posterior(self, X: Array, y: Array) -> None:
        """Make the posterior of rows by what was learned: in `fit`, `condition` and from files."""
        raise NotImplementedError

    def starting_from(self, earlier: "KernelRegressor") -> Self:
        """A clone, not fitted, whose search starts where that of `earlier` ended, if it can."""
        new: Self = clone(self)
        new._start = earlier._end
        return new

    def leading_means(self, X: Array, y: Array, counts: Sequence[int]) -> LeadingMeans:
        """Means (k,) at k inputs (k, d) given the first `counts` of the fit's rows X, y, from 2."""
        return means_of([self.condition(X[:n], y[:n]).posterior_ for n in counts])

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Mean (n,), and standard deviation (n,) if asked for, of a new observation.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Also return the standard deviation; it includes the noise.
        """
        check_is_fitted(self)
        inputs: Array = validate_data(self, X, dtype=np.float64, reset=False)
        if not return_std:
            return self.posterior_.mean(inputs)
        mean, var = self.posterior_.predict(inputs)
        check_positive_variance(var, self.posterior_)
        return mean, np.sqrt(var)

    def predict_uncertain(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        method: Method = "exact",
        *,
        n_samples: int = 1000,
        random_state: RandomState = None,
    ) -> Moments:
        """Mean, var and slope of a new observation at x ~ N(mean, cov); Cov[x, y] = cov @ slope.

        Parameters
        ----------
        mean, cov : array-like of shape (d,) and (d, d)
            Mean and covariance of the input; any rank, zero included.
        method : {"exact", "taylor", "monte_carlo"}, default="exact"
            Closed form; Taylor expansion, the mean to zeroth and the variance to first order in
            `cov` (good only while it is small against the length-scales); or sampled inputs.
        n_samples, random_state : int, default=1000; int, Generator or None
            Inputs of "monte_carlo" and their seed; None takes the estimator's `random_state`.

        Raises
        ------
        ValueError
            If shapes do not fit, `cov` is no covariance, or the variance is not positive ("taylor"
            far outside its range, or a noise too small for double precision).
        """
        check_is_fitted(self)
        m, S = check_gaussian_input(mean, cov, self.n_features_in_)
        _checks.check_choice("method", method, ("exact", "taylor", "monte_carlo"))
        if method == "exact":
            moments = self.posterior_.moments(m, S)
        elif method == "taylor":
            moments = self.posterior_.taylor_moments(m, S)
        else:
            n_samples = _checks.check_paths(n_samples, 1, len(m))
            seed = self.random_state if random_state is None else random_state
            moments = _sampled_moments(self.posterior_, m, S, n_samples, seed)
        check_positive_variance(np.array([moments.var]), self.posterior_, method)
        return moments


def means_of(posteriors: Sequence[Posterior]) -> LeadingMeans:
    """The mean of each posterior at an input of its own."""

    def means(inputs: Array) -> Array:
        pairs = zip(posteriors, inputs, strict=True)
        return np.array([posterior.mean(x[None])[0] for posterior, x in pairs])

    return means


def _sampled_moments(
    posterior: Posterior, mean: Array, cov: Array, n_samples: int, random_state: RandomState
) -> Moments:
    """Moments of an observation by averaging over inputs drawn from N(mean, cov)."""
    root = lower_root(cov)
    draws = _checks.generator(random_state).standard_normal((n_samples, root.shape[1]))
    means, total, slope = [], 0.0, np.zeros(len(mean))
    for block in np.array_split(draws, max(1, n_samples // 1000)):
        X = mean + block @ root.T
        mu, var = posterior.predict(X)
        means.append(mu)
        total += var.sum()
        slope += posterior.gradient(X).sum(axis=0)
    mu = np.concatenate(means)
    return Moments(float(mu.mean()), float(total / n_samples + mu.var()), slope / n_samples)


def within_floats(X: Array, y: Array) -> tuple[Array, Array]:
    """Inputs (n, d) and targets (n,), if their squares are finite."""
    for name, values in (("X", X), ("y", y)):
        if (largest := float(np.abs(values).max())) > FARTHEST:
            remedy = "Divide it by a constant: squares have to be finite."
            raise refusal(name, f"lie within {FARTHEST:g} of 0", f"{largest:g}", remedy)
    return X, y


def check_relative_noise(given: ArrayLike | None, n: int) -> Array:
    """Stds of the noise of n rows in units of what is learned, (n,), checked; 1 if not given."""
    if given is None:
        return np.ones(n)
    if not _are_positive(given, (n,)):
        must = f"be {n} positive numbers, one a row"
        raise refusal("relative_noise", must, reprlib.repr(given), "Use None where all are alike.")
    return np.asarray(given, dtype=np.float64)


def check_gaussian_input(mean: ArrayLike, cov: ArrayLike, d: int) -> tuple[Array, Array]:
    """Mean (d,) and covariance (d, d) of an input as arrays, checked."""
    m, S = numbers("mean", mean), numbers("cov", cov)
    if m.shape != (d,):
        remedy = "Pass one input at a time."
        raise refusal("mean", f"have shape ({d},), one number an input", f"{m.shape}", remedy)
    if S.shape != (d, d):
        remedy = "For independent inputs pass np.diag(variances)."
        raise refusal("cov", f"have shape ({d}, {d})", f"{S.shape}", remedy)
    if not (np.isfinite(m).all() and np.isfinite(S).all()):
        remedy = "A missing input is one with a large variance, not NaN."
        raise refusal("mean and cov", "be finite", "NaN or infinity", remedy)
    _checks.check_covariance("cov", S)
    return m, S


def _are_positive(value: object, *shapes: tuple[int, ...]) -> bool:
    """Whether something is positive numbers of one of these shapes."""
    given = np.asarray(value)
    numbers = given.shape in shapes and given.dtype.kind in "iuf"
    return bool(numbers and (np.isfinite(given) & (given > 0)).all())


def check_lengthscales(lengthscales: Lengthscales, X: Array, otherwise: str) -> None:
    """Raise unless None or positive, one number or d, and not far from the stds of X (n, d).

    `otherwise`: what None would do, for the message.
    """
    d = X.shape[1]
    if lengthscales is not None and not _are_positive(lengthscales, (), (d,)):
        must = f"be positive, one number or {d} (one an input)"
        got, remedy = reprlib.repr(lengthscales), f"Use None to {otherwise}."
        raise refusal("lengthscales", must, got, remedy)
    _check_not_far("lengthscales", lengthscales, column_scale(X), 1e-6)


def check_noise_std(noise_std: float | None, y: Array, least: float = _FAR) -> None:
    """Raise unless a noise std is None or positive, at least so many stds of y (n,)."""
    if noise_std is not None and not _are_positive(noise_std, ()):
        remedy = "For data without noise pass 1e-4 of the std of y; use None to learn it."
        raise refusal("noise_std", "be positive", reprlib.repr(noise_std), remedy)
    _check_not_far("noise_std", noise_std, np.array([target_scale(y)]), least)


def _check_not_far(name: str, given: Lengthscales, scale: Array, least: float) -> None:
    """Raise if a std or length-scale is so far from the data's that squares lose all digits."""
    if given is None:
        return
    with np.errstate(over="ignore"):
        ratio = np.asarray(given, dtype=np.float64) / scale
    if ((ratio < least) | (ratio > 1.0 / _FAR)).any():
        must = f"be {least:g} to {1.0 / _FAR:g} times the std of the data"
        got = f"{reprlib.repr(np.asarray(given).tolist())} beside {scale.min():.3g}"
        raise refusal(name, must, got, "Rescale the data, or use None.")


def check_rows_in_memory(n: int, n_matrices: int) -> None:
    """Raise if so many (n, n) matrices, held at once, take more than the machine's memory."""
    needed = 8.0 * n_matrices * float(n) ** 2
    try:
        memory = float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not POSIX: the system does not tell
        return
    if needed > memory:
        must = f"have rows whose {n_matrices} matrices of shape (rows, rows) fit into memory"
        remedy = "Use fewer rows: the last ones, by Forecaster(max_train=...), or a sample."
        raise refusal("X", must, f"{n} rows, which need {needed / 2**30:.3g} GiB", remedy)


def column_scale(X: Array) -> Array:
    """Standard deviation of each column of (n, d), (d,); 1 where all values are the same."""
    std = X.std(axis=0)
    return np.asarray(np.where(std > 1e-12 * np.abs(X).max(axis=0), std, 1.0))


def target_scale(residual: Array, y: Array | None = None) -> float:
    """Standard deviation of (n,); if there is none, the size of y, by default these; 1 of zeros."""
    size, std = float(np.abs(residual if y is None else y).max()), float(residual.std())
    return std if std > 1e-12 * size else size or 1.0


def standard_lengthscales(given: Lengthscales, Z: Array, scale: Array) -> Array:
    """Length-scales that were given, in units of rows standardized by `scale`, or typical, (d,)."""
    if given is None:
        return np.full(Z.shape[1], typical_lengthscale(Z))
    return np.asarray(given, dtype=np.float64) / scale


def typical_lengthscale(Z: Array) -> float:
    """Half the median distance of at most 500 rows of Z (n, d), evenly spaced; 1 if most agree."""
    Z = Z[np.linspace(0, len(Z) - 1, min(len(Z), 500)).astype(np.intp)]
    squares = np.einsum("ij,ij->i", Z, Z)
    distances = squares[:, None] + squares - 2.0 * Z @ Z.T
    above = distances[np.triu_indices(len(Z), 1)]
    median = float(np.sqrt(max(np.median(above), 0.0))) if len(above) else 0.0
    return 0.5 * median if median > 1e-6 else 1.0
