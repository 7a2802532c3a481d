"""Sample paths: the distribution that the closed forms approximate.

With `path_consistent` a path has one function: drawn as a whole, or conditioned on its own earlier
values. Missing and noisy values are sampled by a particle filter from the last complete window on;
its functions are always conditioned: of whole ones, drawn before, few would be left.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from forecast_unc._checks import generator
from forecast_unc._typing import Array
from forecast_unc.forecasting.recursion import (
    Future,
    Method,
    OneStepModel,
    Trajectory,
    at_step,
    check_stable,
)
from forecast_unc.forecasting.state import RunIn
from forecast_unc.regression.kernels import lower_root
from forecast_unc.regression.posterior import FunctionSample, Posterior, check_positive_variance

# Bytes of what a block of sample paths keeps of its functions in so many steps. The size of a block
# must not depend on the horizon: the draws of the first steps would.
_PATH_MEMORY, _PATH_STEPS = 1 << 27, 64
# Paths of a block, if they have to be resampled: with 30 the std after a gap was 1.4 % too large,
# with 5 it was 19 %.
_LEAST_PARTICLES = 100
# Paths are resampled where the effective number of them has fallen to this share (the usual one).
_LEAST_EFFECTIVE = 0.5
# Pieces of a mixture, a choice between time and error; docs/benchmarks/all.md has the figures.
PIECES = 256
# A column of points is orthogonal to so many before it; fewer than PIECES / 2, which leave none.
_REACH = 100


class Points:
    r"""Points that stand for draws: columns of normal scores at which pieces of a mixture go on.

    Given its earlier values a piece's next one is exactly normal; piece j of M goes on from one
    point, :math:`m_{jt} + s_{jt} \varepsilon_{jt}`. The points are a cubature of degree 3,

    .. math:: \tfrac1M \sum_j \varepsilon_{jt} \varepsilon_{ju} = \delta_{tu}, \qquad
        \tfrac1M \sum_j \varepsilon_{jt} \varepsilon_{ju} \varepsilon_{jv} = 0 :

    where y is linear in them its moments are exact, whatever M; where quadratic, the mean is. A
    column is a permutation of normal quantiles for one half of the pieces (a Latin hypercube), made
    orthogonal to those before it; the other half has the opposite signs. There is no seed.
    """

    def __init__(self, pieces: slice | NDArray[np.intp]) -> None:
        half = PIECES // 2
        self._pieces = pieces  # of a block, m of all 256
        self._quantiles = ndtri((np.arange(half) + 0.5) / half)
        self._rng = np.random.default_rng(0)
        self._columns = np.zeros((0, half))

    def standard_normal(self, size: int | tuple[int, int], /) -> Array:
        """The next column, (m,), or the next k of them, (m, k)."""
        if isinstance(size, int):
            return self._next()
        rows, k = size
        return np.array([self._next() for _ in range(k)]).reshape(k, rows).T

    def random(self) -> float:
        """Where systematic resampling starts: in the middle of its first interval."""
        return 0.5

    def _next(self) -> Array:
        column = self._rng.permutation(self._quantiles)
        before = self._columns[-_REACH:]
        column -= (before @ column / len(column)) @ before
        column /= np.sqrt(column @ column / len(column))
        self._columns = np.vstack([before, column])
        return np.concatenate([column, -column])[self._pieces]


Normals = np.random.Generator | Points  # what paths draw, a row of standard normals a path


def sample_paths_from(model: OneStepModel, start: RunIn, future: Future, method: Method) -> Array:
    """Sample paths (n_samples, h) of one posterior from a run-in, or the 256 pieces of "mixture".

    Pieces have equal weight, and a value is where one goes on. Missing and noisy levels are split,
    too, from the last complete window on (pieces that disagree with what was observed later give
    way to those that agree), and so are uncertain regressors.
    """
    mixture = method.propagation == "mixture"
    n, numbers = PIECES if mixture else method.n_samples, model.posterior.path_size + _PATH_STEPS
    most = max(_LEAST_PARTICLES, _PATH_MEMORY // (8 * numbers * _PATH_STEPS))
    blocks = np.array_split(np.arange(n), -(-n // most))
    rng, rngs = generator(method.random_state), list[Normals]()
    if mixture:
        rngs += [Points(block) for block in blocks]
    elif len(blocks) == 1:
        rngs += [rng]
    else:  # each block its own: the next one's draws must not depend on the horizon
        seeds = rng.integers(2**63, size=len(blocks))
        rngs += [np.random.default_rng(seed) for seed in seeds]
    consistent = method.path_consistent
    return np.vstack(
        [
            _Paths(model, start, future, len(block), consistent, rng).draw()
            for block, rng in zip(blocks, rngs, strict=True)
        ]
    )


class _Paths:
    """n paths, from the run-in to the end of the horizon."""

    def __init__(
        self,
        model: OneStepModel,
        start: RunIn,
        future: Future,
        n: int,
        path_consistent: bool,
        rng: Normals,
    ) -> None:
        self.model, self.start, self.future, self.n, self.rng = model, start, future, n, rng
        self.limit = model.limit(start.past.levels)
        steps = len(start.past.levels) - start.now + len(future.exog)
        self.one_function = path_consistent and model.posterior.joint
        posterior, whole = model.posterior, None
        # points in the place of draws are those of innovations, given what a path has seen
        if isinstance(rng, np.random.Generator) and not start.observed[start.now :].any():
            whole = posterior.function_sample(n, rng) if self.one_function else None
        conditioned = self.one_function and whole is None
        self.function = (
            _OneFunction(posterior, n, steps) if conditioned else _Function(posterior, whole)
        )
        begin = np.tile(start.mean, (n, 1))
        if start.cov.any():
            normals = rng.standard_normal((n, len(start.mean)))
            begin += model.differencing.scale * (normals @ lower_root(start.cov).T)
        self.trajectory = Trajectory(model, begin, steps)
        self.log_weights = np.zeros(n)

    def draw(self) -> Array:
        """The paths of the horizon, (n, h)."""
        n_past = len(self.start.past.levels)
        for t in range(self.start.now, n_past):
            with at_step(0, f"on its way to the origin, {n_past - t} steps before it"):
                self._pass(t)
        if self.log_weights.any():
            self._resample()
        scale, h = self.model.differencing.scale, len(self.future.exog)
        observation_std = scale * np.sqrt(self.model.posterior.observation_var)
        paths = np.empty((self.n, h))
        for step, exog in enumerate(self._regressors()):
            X = self.trajectory.inputs(exog)
            with at_step(step + 1):
                mean, std = self.function.predict(X)
                draws = self.rng.standard_normal(self.n)
                changes = mean + std * draws
                check_stable(float(changes.mean()), float(changes.std()), self.limit)
                self.function.keep(draws)
                self.trajectory.append(changes)
            paths[:, step] = self.trajectory.levels[:, -1]
            if observation_std > 0.0:
                paths[:, step] += observation_std * self.rng.standard_normal(self.n)
        return paths

    def _pass(self, t: int) -> None:
        """One step on the way to the origin, given what was observed at its end."""
        start, y = self.start, self.start.past.levels[t]
        if start.passed_over(t, self.one_function):
            self.trajectory.append(0.0)
            self.trajectory.revise(np.full((self.n, 1), y))
            return
        X = self.trajectory.inputs(np.tile(start.past.exog[t], (self.n, 1)))
        # A row that was learned from is in the posterior: it has no more to tell.
        function = _Function(self.model.posterior) if start.learned[t] else self.function
        mean, std = function.predict(X)
        if not start.observed[t]:
            standard = self.rng.standard_normal(self.n)
            function.keep(standard)
            self.trajectory.append(mean + std * standard)
            return
        # the level's distribution given its observation, path by path
        self.trajectory.append(mean)
        innovation = (y - self.trajectory.levels[:, -1]) / self.model.differencing.scale
        total = std**2 + start.noise_var[t]
        self.log_weights -= 0.5 * (innovation**2 / total + np.log(total))
        change = std**2 * innovation / total
        if start.noise_var[t] > 0.0:
            left = std * np.sqrt(start.noise_var[t] / total)
            change = change + left * self.rng.standard_normal(self.n)
        function.keep(change / std)
        level = self.trajectory.levels[:, -1] + self.model.differencing.scale * change
        self.trajectory.revise(
            level[:, None] if start.noise_var[t] > 0.0 else np.full((self.n, 1), y)
        )
        weights = self._weights()
        if weights.sum() ** 2 < _LEAST_EFFECTIVE * self.n * (weights**2).sum():
            self._resample()

    def _weights(self) -> Array:
        """Weights of the paths, (n,), the largest 1."""
        return np.asarray(np.exp(self.log_weights - self.log_weights.max()))

    def _resample(self) -> None:
        """Paths in proportion to their weights, systematically; then all weigh the same."""
        cumulative = np.cumsum(self._weights())
        points = (np.arange(self.n) + self.rng.random()) / self.n * cumulative[-1]
        paths = np.minimum(np.searchsorted(cumulative, points), self.n - 1)
        self.trajectory.take(paths)
        self.function.take(paths)
        self.log_weights[:] = 0.0

    def _regressors(self) -> Iterator[Array]:
        """Draws of each step's regressors, (n, k), of which the first u vary.

        Step by step, so that the first draws do not depend on the horizon.
        """
        exog, cov = self.future
        u = self.future.uncertain
        root = np.zeros((0, 0)) if cov is None else lower_root(cov)
        normals = np.zeros((self.n, len(root)))
        for step, row in enumerate(exog):
            now, so_far = slice(step * u, (step + 1) * u), slice((step + 1) * u)
            normals[:, now] = self.rng.standard_normal((self.n, u))
            drawn = np.tile(row, (self.n, 1))
            drawn[:, :u] += normals[:, so_far] @ root[now, so_far].T
            yield drawn


class _Function:
    """Values of the function drawn independently at every step, or of one drawn whole a path."""

    def __init__(self, posterior: Posterior, whole: FunctionSample | None = None) -> None:
        self.posterior, self.whole = posterior, whole

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and std, (n,) each, of the next level's change at the inputs X (n, d)."""
        if self.whole is not None:
            return self.whole(X), np.full(len(X), np.sqrt(self.posterior.noise_var))
        mean, var = self.posterior.predict(X)
        var = var - self.posterior.observation_var
        check_positive_variance(var, self.posterior)
        return mean, np.sqrt(var)

    def keep(self, standard: Array) -> None:
        """Take in what it came out as, in stds from its mean."""

    def take(self, paths: NDArray[np.intp]) -> None:
        """Keep these paths; functions drawn whole are never resampled."""


class _OneFunction(_Function):
    """One function a path, observed with noise at one input a step.

    Each path's Cholesky factor of its own observations grows by a row a step. Observations are
    drawn, not function values: the distribution is the same, and the noise conditions the factor.
    """

    def __init__(self, posterior: Posterior, n: int, steps: int) -> None:
        super().__init__(posterior)
        self.path = posterior.function_path(steps, n)
        self.step = 0
        self.chol = np.zeros((steps, steps, n))
        self.draws = np.zeros((steps, n))

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and std, (n,) each, at the inputs X (n, d), one a path, given its earlier ones."""
        t, row = self.step, self.path.append(X)
        row[t] += self.posterior.noise_var
        for u in range(t):
            row[u] -= np.einsum("vn,vn->n", self.chol[u, :u], row[:u])
            row[u] /= self.chol[u, u]
        row[t] -= np.einsum("un,un->n", row[:t], row[:t])
        check_positive_variance(row[t], self.posterior)
        row[t] = np.sqrt(row[t])
        self.chol[t, : t + 1] = row
        learned = np.einsum("un,un->n", row[:t], self.draws[:t])
        return self.posterior.mean(X) + learned, row[t]

    def keep(self, standard: Array) -> None:
        """Take in what it came out as, in stds from its mean."""
        self.draws[self.step] = standard
        self.step += 1

    def take(self, paths: NDArray[np.intp]) -> None:
        """Keep these paths."""
        self.path.take(paths)
        self.chol[: self.step] = self.chol[: self.step, :, paths]
        self.draws[: self.step] = self.draws[: self.step, paths]
