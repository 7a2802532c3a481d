"""Protocol of the posteriors that regressors return, with their capabilities stated."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from forecast_unc._typing import Array, Positions
from forecast_unc.errors import ArgumentError

# Functions drawn from a posterior, one a path: values (n_paths,), without noise, at (n_paths, d).
FunctionSample = Callable[[Array], Array]


class Moments(NamedTuple):
    """Mean and variance of y, and the mean slope of y in x."""

    mean: float
    var: float
    slope: Array  # (d,)


class FunctionPath(Protocol):
    """Means and covariances of the function along several paths, each with inputs of its own."""

    def append(self, X: Array, keep: bool = True) -> tuple[Array, Array]:
        """Means (n_paths,), and covariances (t + 1, n_paths) with those kept before, own last."""

    def take(self, paths: Positions) -> None:
        """Keep these paths, in this order, repeats allowed; for the resampling of particles."""


@runtime_checkable
class Posterior(Protocol):
    """Predictions of y = f(x) + noise + observation error, independent; the noise is fed back."""

    @property
    def closed_form(self) -> bool:
        """Whether `moments` has a closed form; if not, it raises."""

    @property
    def joint(self) -> bool:
        """Whether covariances of the function are known; else what needs them raises."""

    @property
    def noise_var(self) -> float:
        """Variance of the noise that is part of the series and is fed back, in squares of y."""

    @property
    def observation_var(self) -> float:
        """Variance of the error of an observation alone, never fed back, in squares of y."""

    @property
    def signal_var(self) -> float | None:
        """Prior variance of the function far from all data, in squares of y; None if unknown."""

    @property
    def path_size(self) -> int:
        """Numbers that `function_path` keeps for each input, by which paths go in blocks."""

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X, of shape (n, d)."""

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (no noise) between the rows of X, (n, n)."""

    def moments(self, mean: Array, cov: Array) -> Moments:
        """Exact mean, variance and mean slope of an observation, for x ~ N(mean, cov)."""

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Approximate moments by Taylor expansion; see `KernelPosterior.taylor_moments`."""

    def plus_input(self, column: int) -> Self:
        """The posterior of y + x_column."""

    def function_path(self, n_steps: int, n_paths: int = 1) -> FunctionPath:
        """Empty paths with room for so many inputs each."""

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> FunctionSample | None:
        """Functions drawn once and for all, or None: then paths condition by `function_path`."""


class Unstable(ArgumentError):
    """A prediction without a meaning: it ran away, or its variance has lost its digits."""


def check_positive_variance(var: Array, posterior: Posterior, method: str = "exact") -> None:
    """Raise Unstable if a predictive variance is not positive."""
    if (var > 0).all():
        return
    noise_var, ratio = posterior.noise_var + posterior.observation_var, 1.0
    if noise_var > 0.0 and posterior.signal_var is not None:
        ratio = np.sqrt(noise_var / (posterior.signal_var + noise_var))
    if method == "taylor":
        other = "Use 'exact'." if posterior.closed_form else "Forecast by 'monte_carlo'."
        remedy = f"The expansion is used outside its range, at too wide an input. {other}"
    elif ratio > 1e-3:  # a choice: learned noise is at least 1e-4, and digits were kept at .001
        remedy = "The inputs have run far away from the data: ask for fewer steps, or differences."
    else:
        remedy = f"The noise is {ratio:.2g} of the signal, too little here. Fix a larger noise_std."
    raise Unstable("variance", "be positive", f"{var.min():.3g}", remedy)
