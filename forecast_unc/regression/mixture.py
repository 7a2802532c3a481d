"""A posterior of posteriors: one is right at all inputs, by the rules of total (co)variance."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, Self

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.posterior import Moments, Posterior


@dataclass(frozen=True)
class PosteriorMixture:
    """One of several posteriors, which one is unknown: its first two moments."""

    posteriors: tuple[Posterior, ...]  # two or more, of the same inputs
    p: Array  # (k,), their probabilities, which add up to 1

    @property
    def alternatives(self) -> tuple[tuple[float, Posterior], ...]:
        """Each posterior with its probability."""
        return tuple(zip(map(float, self.p), self.posteriors, strict=True))

    @property
    def closed_form(self) -> bool:
        """Whether all of them have moments in closed form."""
        return all(one.closed_form for one in self.posteriors)

    @property
    def joint(self) -> bool:
        """Whether all of them know the covariance of their function."""
        return all(one.joint for one in self.posteriors)

    @property
    def noise_var(self) -> float:
        """Mean variance of the noise that is fed back."""
        return float(self.p @ [one.noise_var for one in self.posteriors])

    @property
    def observation_var(self) -> float:
        """Mean variance of the error of an observation alone."""
        return float(self.p @ [one.observation_var for one in self.posteriors])

    @property
    def signal_var(self) -> float | None:
        """Mean prior variance of the function; None if one of them does not know it."""
        known = [one.signal_var for one in self.posteriors if one.signal_var is not None]
        return float(self.p @ known) if len(known) == len(self.p) else None

    @property
    def path_size(self) -> int:
        """Numbers that all paths keep for each input, and a mean each."""
        return sum(one.path_size + 1 for one in self.posteriors)

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return np.asarray(self.p @ [one.mean(X) for one in self.posteriors])

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        means, variances = np.swapaxes([one.predict(X) for one in self.posteriors], 0, 1)
        return self.p @ means, self.p @ (variances + (means - self.p @ means) ** 2)

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X, of shape (n, d)."""
        return np.tensordot(self.p, [one.gradient(X) for one in self.posteriors], 1)

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (no noise) between the rows of X, (n, n)."""
        away = np.array([one.mean(X) for one in self.posteriors]) - self.mean(X)
        covs = np.array([one.covariance(X) for one in self.posteriors])
        return np.tensordot(self.p, covs + away[:, :, None] * away[:, None], 1)

    def moments(self, mean: Array, cov: Array) -> Moments:
        """Exact mean, variance and mean slope of an observation, for x ~ N(mean, cov)."""
        return self._total([one.moments(mean, cov) for one in self.posteriors])

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Approximate moments by the Taylor expansion of each of them."""
        return self._total([one.taylor_moments(mean, cov) for one in self.posteriors])

    def _total(self, found: Sequence[Moments]) -> Moments:
        means, variances = np.array([(one.mean, one.var) for one in found]).T
        mean = float(self.p @ means)
        var = float(self.p @ (variances + (means - mean) ** 2))
        return Moments(mean, var, np.asarray(self.p @ [one.slope for one in found]))

    def plus_input(self, column: int) -> Self:
        """The posterior of y + x_column."""
        return replace(self, posteriors=tuple(one.plus_input(column) for one in self.posteriors))

    def function_path(self, n_steps: int, n_paths: int = 1) -> NoReturn:
        """Raise: a path has one function, which is that of one of the `alternatives`."""
        raise NotImplementedError("paths are those of the alternatives")

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> None:
        """None: whole functions are drawn from each of the `alternatives`."""
