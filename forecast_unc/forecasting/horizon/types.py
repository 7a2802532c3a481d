"""Types of the horizon: what goes into a propagation, and what comes out of it."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, NamedTuple, Self, get_args

import numpy as np

from forecast_unc._checks import RandomState, generator
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions.variance_parts import MakeParts, mapped_parts, with_more
from forecast_unc.forecasting.horizon.differencing import Differencing, LevelMap
from forecast_unc.regression.kernels import lower_root
from forecast_unc.regression.posterior import Posterior

Propagation = Literal["auto", "exact", "taylor", "mixture", "monte_carlo", "naive"]
PROPAGATIONS: tuple[str, ...] = get_args(Propagation)


class Method(NamedTuple):
    """Propagation of uncertainty and its options; see `Forecaster.forecast`."""

    propagation: Propagation = "exact"
    path_consistent: bool = True
    n_samples: int = 1000
    random_state: RandomState = None


class Past(NamedTuple):
    """Observations up to the origin, on the scale of the levels."""

    levels: Array  # (n,), NaN where missing
    stds: Array  # (n,), of the measurement errors
    exog: Array  # (n, k)
    learned: Flags  # (n,), part of the posterior's data
    noise: Array | None = None  # (n,), stds of the noise in units of the posterior's; None: all 1

    def before(self, t: int) -> "Past":
        """The first t values."""
        noise = None if self.noise is None else self.noise[:t]
        return Past(self.levels[:t], self.stds[:t], self.exog[:t], self.learned[:t], noise)

    def step(self, t: int) -> "Future":
        """The step of value t, after the first t."""
        noise = None if self.noise is None else self.noise[t, None]
        return Future(self.exog[t, None], None, noise)


class Future(NamedTuple):
    """Regressors of the h future steps."""

    exog: Array  # (h, k), means where they are uncertain
    exog_cov: Array | None = None  # (h u, h u), of the first u <= k; all u of step 1, then of 2
    noise: Array | None = None  # (h,), as of `Past`

    @property
    def uncertain(self) -> int:
        """Number u of uncertain regressors."""
        return 0 if self.exog_cov is None else len(self.exog_cov) // len(self.exog)


class Scales(NamedTuple):
    """Scale of the levels, and variances of the noises in units of its square."""

    scale: float
    noise_var: Array  # (h,), part of the series, of each step
    observation_var: float  # of the observations alone


@dataclass(frozen=True, eq=False)
class OneStepModel:
    """A posterior of the next standardized change given [lagged changes; regressors]."""

    posterior: Posterior
    lags: tuple[int, ...]  # in the order of the posterior's columns
    differencing: Differencing

    @cached_property
    def maps(self) -> LevelMap:
        """Linear maps between inputs and levels."""
        return LevelMap(self.lags, self.differencing)

    def noise_var(self, relative: Array | None, n: int) -> Array:
        """Variances (n,) of the noise that is fed back, of stds in units of the posterior's."""
        relative = np.ones(n) if relative is None else relative
        return np.asarray(self.posterior.noise_var * relative**2)

    def scales(self, future: Future) -> Scales:
        """Scale of the levels, and variances of the noises of the steps."""
        noise_var = self.noise_var(future.noise, len(future.exog))
        return Scales(self.differencing.scale, noise_var, self.posterior.observation_var)

    def limit(self, levels: Array) -> float:
        """Mean or std of a change beyond which a forecast from these levels has diverged."""
        changes = self.differencing.forward(levels)
        # Standardized: 1 is a usual change, if the last ones happen to be smaller. The factor is a
        # choice: what diverges gets there in some steps, and digits are left to say so.
        return 1e6 * float(np.abs(changes[~np.isnan(changes)]).max(initial=1.0))


class Given(NamedTuple):
    """What a step of moment matching starts from."""

    mean: Array  # (d,), of its inputs: the first are linear in coordinates, the others known
    at: Positions  # (q,), these coordinates
    noise_var: float


class Step(NamedTuple):
    """A step of moment matching: its standardized change, and what its variance is made of."""

    mean: float
    weights: Array  # (q,), on the coordinates of its inputs
    shared: Array | None  # (n,), covariance of the function's error with the coordinates so far
    learned: float  # of the function's variance, what observations on the way took away


class Matched(NamedTuple):
    """The h steps of moment matching."""

    levels: Array  # (h,), means
    cov: Array  # (h, h), of the levels, in units of scale^2
    inputs: Array  # (h, d), means
    steps: list[Step]


class LevelJoint(NamedTuple):
    """Mean and covariance of the next h levels as observed, and what the covariance is made of."""

    mean: Array  # (h,)
    cov: Array  # (h, h)
    parts: MakeParts | None
    """(h, h) each, see `LinearRecursion.parts`; what they do not add up to is not linear in the
    inputs. None if the noise is not told from the function."""
    paths: Array | None = None  # (h, n), whose moments these are, if they were sampled

    @classmethod
    def of_paths(cls, paths: Array, parts: MakeParts | None, ddof: int = 1) -> Self:
        """The moments of sample paths (h, n)."""
        return cls(paths.mean(axis=1), np.atleast_2d(np.cov(paths, ddof=ddof)), parts, paths)

    def scaled(self, by: Array) -> Self:
        """The joint of the levels times a known positive number for each step, (h,)."""
        if (by == 1.0).all():
            return self
        paths = None if self.paths is None else self.paths * by[:, None]
        parts = None if self.parts is None else partial(mapped_parts, self.parts, np.diag(by))
        cov = self.cov * np.outer(by, by)
        return self._replace(mean=self.mean * by, cov=cov, parts=parts, paths=paths)

    def shifted(self, by: Array) -> Self:
        """The joint of the levels plus a known number for each step, (h,)."""
        paths = None if self.paths is None else self.paths + by[:, None]
        return self._replace(mean=self.mean + by, paths=paths)

    def widened(self, cov: Array, name: str, random_state: RandomState) -> Self:
        """The joint of the levels plus independent errors, of a covariance (h, h): a named part."""
        if not cov.any():
            return self
        parts, paths = None, self.paths
        if self.parts is not None:
            parts = partial(with_more, self.parts, name, cov)
        if paths is not None:
            # a stream of its own: from the same seed the paths have drawn their noise
            draws = generator(random_state).spawn(1)[0].standard_normal(paths.shape)
            paths = paths + lower_root(cov) @ draws
        return self._replace(cov=self.cov + cov, parts=parts, paths=paths)
