"""Sample paths of one function each, by a particle filter where values are missing or noisy."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from forecast_unc._checks import generator
from forecast_unc._typing import Array, Positions
from forecast_unc.forecasting.horizon.origin import RunIn
from forecast_unc.forecasting.horizon.step import Trajectory, at_step, check_stable
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.kernels import lower_root
from forecast_unc.regression.posterior import FunctionSample, Posterior, check_positive_variance

# Bytes of what a block of sample paths keeps of its functions in so many steps. The size of a block
# must not depend on the horizon: the draws of the first steps would.
_PATH_MEMORY, _PATH_STEPS = 1 << 27, 64
# Paths of a block, if they have to be resampled: with 30 the std after a gap was 1.4 % too large,
# with 5 it was 19 %.
_LEAST_PARTICLES = 100
# Pieces of a mixture, a choice between time and error; docs/benchmarks/all.md has the figures.
# Where the posterior has few rows, which a step takes time for, up to eight times as many.
PIECES, _MORE, _ROWS = 1024, 8, 256


class Points:
    r"""Points in the place of draws: piece j goes on from :math:`m_{jt} + s_{jt} \varepsilon_{jt}`.

    .. math:: \sum_j \varepsilon_{jt} = 0, \qquad
        \tfrac1m \sum_j \varepsilon_{jt} \varepsilon_{ju} = \delta_{tu} :

    a column is a permutation of normal quantiles for the m pieces of a block (a Latin hypercube),
    made orthogonal to those before it. Pieces that are alike get quantiles far apart, as in
    array-RQMC (L'Ecuyer, Lecot & Tuffin, Operations Research 56 (2008)). There is no seed.
    """

    def __init__(self, m: int, block: int = 0) -> None:
        self._quantiles = ndtri((np.arange(m) + 0.5) / m)
        self._reversed = _reversed_bits(int(m - 1).bit_length())
        self._rng = np.random.default_rng([7, 77, block])  # stds of sums: 3 % from one to the next
        self._columns = np.zeros((0, m))

    def standard_normal(self, size: int | tuple[int, int], /) -> Array:
        """The next column, (m,), or the next k of them, (m, k)."""
        if isinstance(size, int):
            return self._next(self._rng.permutation(self._quantiles))
        rows, k = size
        return np.array([self.standard_normal(rows) for _ in range(k)]).reshape(k, rows).T

    def beside(self, first: Array, second: Array) -> Array:
        """The next column, (m,), of pieces that are alike if both of these, (m,) each, are near."""
        m = len(first)
        # numbers with reversed bits: 2^k neighbors have a quantile in each of 2^k equal parts
        mixed = (self._reversed ^ self._rng.integers(len(self._reversed)))[:m]
        column = np.empty(m)
        column[_along_curve(first, second)] = self._quantiles[_inverse(mixed.argsort())]
        return self._next(column)

    def random(self) -> float:
        """Start of systematic resampling: the middle of its first interval."""
        return 0.5

    def _next(self, column: Array) -> Array:
        # orthogonal to 200 before it; as many as there are pieces would leave none
        before = self._columns[-min(200, len(column) // 4) :]
        column = column - (before @ column / len(column)) @ before
        column /= np.sqrt(column @ column / len(column))
        self._columns = np.vstack([before, column])
        return column


def _reversed_bits(k: int) -> Positions:
    """The numbers below 2^k with their k bits in reverse order (van der Corput's sequence)."""
    out = np.zeros(1, dtype=np.intp)
    for _ in range(k):
        out = np.concatenate([2 * out, 2 * out + 1])
    return out


_CELLS = 256  # of a number; two of them have a place on the curve
_SPREAD = np.array([int(f"{i:b}", 4) for i in range(_CELLS)])  # its bits, with room between them


def _along_curve(first: Array, second: Array) -> Positions:
    """An order in which neighbors are near in both numbers: Morton's curve through their ranks."""
    rank, other = _ranks(first), _ranks(second)
    m = len(rank)
    place = 2 * _SPREAD[_CELLS * rank // m] + _SPREAD[_CELLS * other // m]
    return np.asarray((m * place + rank).argsort())


def _ranks(x: Array) -> Positions:
    """Ranks (m,) from 0; numbers that differ by roundoff keep their order, on every machine."""
    digits = np.round(x / max(float(np.abs(x).max()), 1e-300), 9)
    return _inverse(digits.argsort(kind="stable"))


def _inverse(order: Positions) -> Positions:
    """The permutation that undoes another, (m,)."""
    out = np.empty_like(order)
    out[order] = np.arange(len(order))
    return out


Normals = np.random.Generator | Points  # what paths draw, a row of standard normals a path


def pieces(posterior: Posterior) -> int:
    """Number of pieces of a mixture, a power of two."""
    if not (isinstance(posterior, KernelPosterior) and len(posterior.centers)):
        return PIECES  # they are exact where it is linear
    return PIECES << int(np.log2(np.clip(_ROWS / posterior.path_size, 1, _MORE)))


def sample_paths_from(model: OneStepModel, start: RunIn, future: Future, method: Method) -> Array:
    """Sample paths (n_samples, h) of one posterior from a run-in; the pieces of "mixture"."""
    mixture = method.propagation == "mixture"
    if mixture and isinstance(model.posterior, KernelPosterior):
        model = replace(model, posterior=model.posterior.on_few_centers)
    n = pieces(model.posterior) if mixture else method.n_samples
    numbers = model.posterior.path_size + _PATH_STEPS
    most = max(_LEAST_PARTICLES, _PATH_MEMORY // (8 * numbers * _PATH_STEPS))
    blocks, rng = np.array_split(np.arange(n), -(-n // most)), generator(method.random_state)
    rngs: list[Normals] = [rng]
    if mixture:
        rngs = [Points(len(block), int(block[0])) for block in blocks]
    elif len(blocks) > 1:  # each its own: the next one's draws must not depend on the horizon
        rngs = [np.random.default_rng(one) for one in rng.integers(2**63, size=len(blocks))]
    each = zip(blocks, rngs, strict=True)
    consistent = method.path_consistent
    return np.vstack(
        [_Paths(model, start, future, len(block), consistent, rng).draw() for block, rng in each]
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
        self.model = model
        self.start = start
        self.future = future
        self.n = n
        self.rng = rng
        posterior, n_past = model.posterior, len(start.past.levels)
        self.limit, self.scale = model.limit(start.past.levels), model.differencing.scale
        self.past_noise_var = model.noise_var(start.past.noise, n_past)
        self.one_function = path_consistent and posterior.joint
        self.passed = start.passed_over(self.one_function)
        steps, whole = n_past - start.now + len(future.exog), None
        # Whole functions are drawn with a random generator and without an observation on the way
        # only: resampling would leave few distinct functions, and points are of innovations.
        alone = self.one_function and not start.observed[start.now :].any()
        if alone and isinstance(rng, np.random.Generator):
            whole = posterior.function_sample(n, rng)
        self.function = _Function(posterior, whole)
        if self.one_function and whole is None:
            # a piece is conditioned on 64 values of its own: the cost of later steps is constant
            room = 64 if alone and isinstance(rng, Points) else steps
            self.function = _OneFunction(posterior, n, min(steps, room))
        begin = np.tile(start.mean, (n, 1))
        if start.cov.any():
            normals = rng.standard_normal((n, len(start.mean)))
            begin += self.scale * (normals @ lower_root(start.cov).T)
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
        observation_std = self.scale * np.sqrt(self.model.posterior.observation_var)
        paths = np.empty((self.n, len(self.future.exog)))
        noise_var = self.model.noise_var(self.future.noise, paths.shape[1])
        for step, exog in enumerate(self._regressors()):
            X = self.trajectory.inputs(exog)
            with at_step(step + 1):
                mean, std = self.function.predict(X, noise_var[step])
                draws = self._innovations(mean, paths[:, :step].sum(axis=1))
                changes = mean + std * draws
                check_stable(float(changes.mean()), float(changes.std()), self.limit)
                self.function.keep(draws)
                self.trajectory.append(changes)
            paths[:, step] = self.trajectory.levels[:, -1]
            if observation_std > 0.0:
                paths[:, step] += observation_std * self.rng.standard_normal(self.n)
        return paths

    def _innovations(self, mean: Array, total: Array) -> Array:
        """Standardized draws (n,) of the next change, by its means and the totals so far."""
        if isinstance(self.rng, Points):
            return self.rng.beside(mean, total)
        return self.rng.standard_normal(self.n)

    def _pass(self, t: int) -> None:
        """One step on the way to the origin, given what was observed at its end."""
        start, known = self.start, np.full((self.n, 1), self.start.past.levels[t])
        if self.passed[t]:
            self.trajectory.append(0.0)
            self.trajectory.revise(known)
            return
        X = self.trajectory.inputs(np.tile(start.past.exog[t], (self.n, 1)))
        # A row that was learned from is in the posterior: it has no more to tell.
        function = _Function(self.model.posterior) if start.learned[t] else self.function
        mean, std = function.predict(X, self.past_noise_var[t])
        if not start.observed[t]:
            standard = self.rng.standard_normal(self.n)
            function.keep(standard)
            self.trajectory.append(mean + std * standard)
            return
        # the level's distribution given its observation, path by path
        self.trajectory.append(mean)
        level, noise_var = self.trajectory.levels[:, -1], start.noise_var[t]
        innovation, total = (known[:, 0] - level) / self.scale, std**2 + noise_var
        self.log_weights -= 0.5 * (innovation**2 / total + np.log(total))
        change = std**2 * innovation / total
        if noise_var > 0.0:
            left = std * np.sqrt(noise_var / total)
            change = change + left * self.rng.standard_normal(self.n)
            known = (level + self.scale * change)[:, None]
        function.keep(change / std)
        self.trajectory.revise(known)
        weights = self._weights()
        if weights.sum() ** 2 < 0.5 * self.n * (weights**2).sum():  # the effective number
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
        """Draws (n, k) of each step's regressors, of which the first few are uncertain."""
        exog, cov, _ = self.future
        n_uncertain = self.future.uncertain
        root = np.zeros((0, 0)) if cov is None else lower_root(cov)
        normals = np.zeros((self.n, len(root)))
        for step, mean in enumerate(exog):
            now = slice(step * n_uncertain, (step + 1) * n_uncertain)  # rows of the root
            so_far = slice(now.stop)
            normals[:, now] = self.rng.standard_normal((self.n, n_uncertain))
            drawn = np.tile(mean, (self.n, 1))
            drawn[:, :n_uncertain] += normals[:, so_far] @ root[now, so_far].T
            yield drawn


class _Function:
    """Values of the function drawn independently at every step, or of one drawn whole a path."""

    def __init__(self, posterior: Posterior, whole: FunctionSample | None = None) -> None:
        self.posterior, self.whole = posterior, whole

    def predict(self, X: Array, noise_var: float) -> tuple[Array, Array]:
        """Mean and std, (n,) each, of the next level's change at the inputs X (n, d)."""
        if self.whole is not None:
            return self.whole(X), np.full(len(X), np.sqrt(noise_var))
        mean, var = self.posterior.predict(X)
        var = var + (noise_var - self.posterior.noise_var - self.posterior.observation_var)
        check_positive_variance(var, self.posterior)
        return mean, np.sqrt(var)

    def keep(self, standard: Array) -> None:
        """Record the standardized draw of this step, (n,)."""

    def take(self, paths: Positions) -> None:
        """Keep these paths; functions drawn whole are never resampled."""


class _OneFunction(_Function):
    """One function a path, whose Cholesky factor of its first observations grows by a row a step.

    Observations are drawn, not function values: so the noise conditions the factor.
    """

    def __init__(self, posterior: Posterior, n: int, room: int) -> None:
        super().__init__(posterior)
        self.path = posterior.function_path(room + 1, n)
        self.step = 0
        self.room = room
        self.chol, self.draws = np.zeros((room + 1, room + 1, n)), np.zeros((room, n))

    def predict(self, X: Array, noise_var: float) -> tuple[Array, Array]:
        """Mean and std, (n,) each, at the inputs X (n, d), one a path, given its earlier ones."""
        t, (mean, row) = self.step, self.path.append(X, keep=self.step < self.room)
        row[t] += noise_var
        for u in range(t):
            row[u] -= np.einsum("vn,vn->n", self.chol[u, :u], row[:u])
            row[u] /= self.chol[u, u]
        row[t] -= np.einsum("un,un->n", row[:t], row[:t])
        check_positive_variance(row[t], self.posterior)
        row[t] = np.sqrt(row[t])
        self.chol[t, : t + 1] = row
        learned = np.einsum("un,un->n", row[:t], self.draws[:t])
        return mean + learned, row[t]

    def keep(self, standard: Array) -> None:
        """Record the standardized draw of this step, (n,)."""
        if self.step < self.room:
            self.draws[self.step] = standard
            self.step += 1

    def take(self, paths: Positions) -> None:
        """Keep these paths."""
        self.path.take(paths)
        self.chol[: self.step] = self.chol[: self.step, :, paths]
        self.draws[: self.step] = self.draws[: self.step, paths]
