"""A posterior of posteriors: one is right at all inputs, by the rules of total (co)variance."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from forecast_unc._typing import Array, Positions
from forecast_unc.regression.posterior import FunctionPath, Moments, Posterior


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

    def function_path(self, n_steps: int, n_paths: int = 1) -> "MixturePath":
        """Empty paths with room for so many inputs each."""
        paths = [one.function_path(n_steps, n_paths) for one in self.posteriors]
        return MixturePath(self, paths)

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> None:
        """None: whole functions are drawn from each of the `alternatives`."""


class MixturePath:
    """The paths of k posteriors, and how far their means lie from the mixture's, (k, n_paths)."""

    def __init__(self, mixture: PosteriorMixture, paths: Sequence[FunctionPath]) -> None:
        self._mixture, self._paths = mixture, paths
        self._away: list[Array] = []

    def append(self, X: Array, keep: bool = True) -> Array:
        """Covariances with the kept inputs of each path and the variance, (t + 1, n_paths)."""
        means = np.array([one.mean(X) for one in self._mixture.posteriors])
        self._away.append(means - self._mixture.p @ means)
        between = np.stack(self._away, axis=1) * self._away[-1][:, None]  # (k, t + 1, n_paths)
        within = np.array([path.append(X, keep) for path in self._paths])
        if not keep:
            self._away.pop()
        return np.tensordot(self._mixture.p, between + within, 1)

    def take(self, paths: Positions) -> None:
        """Keep these paths, in this order; repeats are allowed."""
        self._away = [away[:, paths] for away in self._away]
        for path in self._paths:
            path.take(paths)
