"""Training over the true inputs: their joint maximum at annealed noise, or samples of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv, dger

from forecast_unc._typing import Array
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.kernels import factor, inverse, squared_exponential
from forecast_unc.regression.noisy_inputs.evidence import (
    Learned,
    Problem,
    Round,
    input_std,
)
from forecast_unc.regression.noisy_inputs.rows import linearized
from forecast_unc.regression.process import GaussianProcess

# Annealed: the output noise falls from that of the plain fit by this factor a level, to the last.
_FACTOR = 0.75
_LEVELS = 14
_LEVEL_STEPS = 30
# Levels in a row without a better held-out density before the descent ends.
_PATIENCE = 4
_FOLDS = 5
_LEAST_ROWS = 10
# Sampled: least noise variance in the largest prior variance, and the roundoff of a row's
# prediction beyond which the inverse is computed anew.
_LEAST_NOISE = 1e-8
_MOST_ROUNDOFF = 1e-3
# Samples of the inputs in a round. With one or two the noise of the M-step made the output noise
# wander to less than half of what was true on 2 of 6 sincs of 60 rows.
_SAMPLES = 8
_ROUND_STEPS = 10
# Rounds to begin with, added while the second half has not settled, and at most.
_ROUNDS, _MORE, _MOST_ROUNDS = 24, 12, 96
# Settled: the two quarters of the second half agree in the log stds of both noises, to this or to
# three standard errors.
_APART = 0.1


def joint_maximum(
    problem: Problem, theta: Array, shift: Array, roots: Array, tol: float
) -> tuple[Array, Array, int]:
    r"""True inputs and hyper-parameters that maximize their joint density, from a start.

    .. math:: \log \mathcal N(y \mid 0, K(X) + s^2 I) + \log p(\theta)
        - \tfrac12 \textstyle\sum_i (x_i - u_i)' S_i^{-1} (x_i - u_i)

    in c with x_i = u_i + S_i^(1/2) c_i, so that S may be singular. If s is free, the inputs move
    until they explain the targets, and s falls to its bound.
    """

    def evaluate(at: Array, c: Array) -> tuple[float, Array, Array]:
        c = c.reshape(shift.shape)
        X = problem.X + np.einsum("nde,ne->nd", roots, c)
        value, gradient, terms = problem(at, X)
        change = np.einsum("nde,nd->ne", roots, terms.inputs) + c
        return value + 0.5 * float(np.sum(c**2)), gradient, change.ravel()

    anywhere = np.tile([-np.inf, np.inf], (shift.size, 1))
    theta, found, n_iter = problem.search(
        evaluate, theta, shift.ravel(), anywhere, tol, _LEVEL_STEPS
    )
    return theta, found.reshape(shift.shape), n_iter


class Descent:
    """The joint maximum on some rows, followed from one output noise to the next."""

    def __init__(self, problem: Problem, rows: NDArray[np.intp], S: Array) -> None:
        whole = problem.evidence
        X = problem.X[rows]
        given = whole.linear, whole.groups, whole.bias_scale
        own = GaussianProcessEvidence(X, whole.y[rows], *given)
        space = problem.space._replace(free=np.append(problem.space.free[:-1], False))
        self.problem = Problem(own, space, problem.start, S[rows])
        self.S, self.roots = S[rows], symmetric_roots(S[rows])
        self.theta, self.shift, self.n_iter = problem.start, np.zeros_like(X), 0

    def to(self, log_noise: float, tol: float) -> None:
        """Go on at another output noise."""
        theta = np.append(self.theta[:-1], log_noise)
        found = joint_maximum(self.problem, theta, self.shift, self.roots, tol)
        self.theta, self.shift = found[:2]
        self.n_iter += found[2]

    def linearized(self) -> tuple[Array, Array]:
        """The inputs of the maximum and the slopes of the posterior mean there, each (n, d)."""
        inputs = self.problem.X + np.einsum("nde,ne->nd", self.roots, self.shift)
        weights = self.problem(self.theta, inputs)[2].weights
        return inputs, self.problem.slopes(self.theta, inputs, weights)

    def density(self, X: Array, y: Array, S: Array) -> float:
        """Sum of the log densities of targets given their inputs as observed."""
        problem = self.problem
        l, a, tau, noise_var = problem.scales(self.theta)
        linear_std = problem.evidence.linear_std(tau)
        process = GaussianProcess(l, a, linear_std, noise_var**0.5, np.zeros(len(l)), 0.0)
        rows = problem.X, problem.evidence.y
        posterior = linearized(process, *rows, *self.linearized(), self.S)
        moments = [posterior.moments(x, s) for x, s in zip(X, S, strict=True)]
        mean, var = (np.array([m[k] for m in moments]) for k in (0, 1))
        return float(-0.5 * np.sum(np.log(2.0 * np.pi * var) + (y - mean) ** 2 / var))


def learn_annealed(problem: Problem, start: Learned, tol: float) -> Learned:
    """The joint maximum, followed as the output noise falls from that of the plain fit.

    What is learned is where to stop: at the level of the highest mean log density of held-out
    targets (the rounds' score) given their inputs as observed, over five folds of every fifth row;
    converged if a lower level was worse. A given noise std, or that of fewer than ten rows, is the
    only level.
    """
    n, free = len(problem.X), problem.space.free[-1]
    S = np.broadcast_to(start.input_cov, (n, *start.input_cov.shape[-2:]))
    first = 0.5 * float(np.log(problem.scales(problem.start)[-1]))
    levels = first + np.log(_FACTOR) * np.arange(_LEVELS if free and n >= _LEAST_ROWS else 1)
    scores = held_out_densities(problem, S, levels, tol) if len(levels) > 1 else [np.nan]
    best = int(np.argmax(scores))
    whole = Descent(problem, np.arange(n), S)
    for level in levels[: best + 1]:
        whole.to(float(level), tol)
    rounds = [
        Round(float(np.exp(level)), input_std(S), score)
        for level, score in zip(levels, scores, strict=False)
    ]
    converged = best < len(scores) - 1 or not free
    return Learned(
        whole.theta, start.input_cov, *whole.linearized(), rounds, converged, whole.n_iter
    )


def held_out_densities(problem: Problem, S: Array, levels: Array, tol: float) -> list[float]:
    """Mean log density of a held-out target at the log noises, until it has fallen for a while."""
    rows = np.arange(len(problem.X))
    folds = [rows[rows % _FOLDS == k] for k in range(_FOLDS)]
    descents = [Descent(problem, np.setdiff1d(rows, fold), S) for fold in folds]
    scores: list[float] = []
    for level in levels:
        total = 0.0
        for fold, descent in zip(folds, descents, strict=True):
            descent.to(float(level), tol)
            total += descent.density(problem.X[fold], problem.evidence.y[fold], S[fold])
        scores.append(total / len(rows))
        if len(scores) - 1 - int(np.argmax(scores)) >= _PATIENCE:
            break
    return scores


class InputChain:
    r"""Elliptical slice sampling of one row's true input at a time, the function integrated out.

    Given the others, the input x_i = u_i + delta_i of a row matters through the prediction of its
    target alone,

    .. math:: p(x_i \mid X_{-i}, y) \propto \mathcal N(x_i \mid u_i, S_i)\,
        \mathcal N\bigl(y_i \mid m_{-i}(x_i), v_{-i}(x_i) + s^2\bigr) ,

    with mean and variance given the other rows, from the inverse of the covariance, of which a row
    is taken out and put back in O(n^2).

    References
    ----------
    Murray, Adams & MacKay, Elliptical slice sampling, AISTATS 2010.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.shift = np.zeros_like(problem.X)  # delta

    def sweep(self, theta: Array, roots: Array) -> Array:
        """Noise (n, d) of the inputs, each row's drawn anew from where the last sweep ended."""
        U = self.problem.X
        rows = _OtherRows(self.problem, theta, U + self.shift)
        draws = np.einsum("nde,ne->nd", roots, self.rng.standard_normal(U.shape))
        for i in range(len(U)):
            now = rows.take_out(i)
            found, self.shift[i] = self._slice(rows, i, now, draws[i])
            rows.put_in(i, found)
        return self.shift.copy()

    def _slice(
        self, rows: "_OtherRows", i: int, now: "_Candidate", draw: Array
    ) -> tuple["_Candidate", Array]:
        """A point of the ellipse through the present one and `draw`, above a random density."""
        u, y, rng, old = self.problem.X[i], self.problem.evidence.y[i], self.rng, self.shift[i]
        least = now.density(y) + np.log(1.0 - rng.random())
        angle = 2.0 * np.pi * rng.random()
        low, high = angle - 2.0 * np.pi, angle
        while True:
            new = old * np.cos(angle) + draw * np.sin(angle)
            candidate = rows.candidate(i, u + new)
            # an interval of no width is `old` itself, but for roundoff
            if candidate.density(y) >= least or high - low < 1e-12:
                return candidate, new
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = low + (high - low) * rng.random()


class _Candidate(NamedTuple):
    """A row's prediction from the others at a possible input."""

    scaled: Array  # (d,), x / l
    linear: Array  # (d + 1,), [x; 1] times the prior stds
    solved: Array  # (n,), inverse covariance of the others times the covariances with them
    mean: float
    var: float  # noise included

    def density(self, y: float) -> float:
        """Log density of a target, but for a constant."""
        return float(-0.5 * (np.log(self.var) + (y - self.mean) ** 2 / self.var))


class _OtherRows:
    """The inverse covariance P of rows, and b = P y; a row that is out has zeros there."""

    def __init__(self, problem: Problem, theta: Array, X: Array) -> None:
        self.lengthscales, self.amplitude, tau, noise_var = problem.scales(theta)
        self.linear_std, self.y = problem.evidence.linear_std(tau), problem.evidence.y
        self.Z = X / self.lengthscales
        self.C = np.column_stack([X, np.ones(len(X))]) * self.linear_std
        largest = self.amplitude**2 + float(np.einsum("nd,nd->n", self.C, self.C).max())
        self.noise_var = max(noise_var, _LEAST_NOISE * largest)
        self._invert()

    def _invert(self) -> None:
        kernel = squared_exponential(self.Z, self.Z, np.ones(self.Z.shape[1]))
        K = np.asfortranarray(self.amplitude**2 * kernel + self.C @ self.C.T)
        K.ravel(order="K")[:: len(K) + 1] += self.noise_var
        P = np.tril(inverse(factor(K, float(np.sqrt(self.noise_var))), overwrite=True))
        self.P = np.asfortranarray(P + np.tril(P, -1).T)
        self.b = dgemv(1.0, self.P, self.y)

    def take_out(self, i: int) -> _Candidate:
        """P - p p' / p_i and b - p b_i / p_i with p the column of row i; its prediction."""
        for _ in range(2):
            p, b = self.P[:, i].copy(), float(self.b[i])
            self.b -= p * (b / p[i])
            self.P = dger(-1.0 / p[i], p, p, a=self.P, overwrite_a=1)
            old = self.at(self.Z[i], self.C[i], i)
            # both are this variance; roundoff of small noise grows from row to row
            if abs(old.var * p[i] - 1.0) < _MOST_ROUNDOFF:
                break
            self._invert()
        return old

    def candidate(self, i: int, x: Array) -> _Candidate:
        """Prediction of row i, which is out, at an input."""
        return self.at(x / self.lengthscales, np.append(x, 1.0) * self.linear_std, i)

    def at(self, z: Array, c: Array, i: int) -> _Candidate:
        """The same at an input that is already scaled."""
        away = self.Z - z
        k = self.amplitude**2 * np.exp(-0.5 * np.einsum("nd,nd->n", away, away)) + self.C @ c
        k[i] = 0.0
        solved: Array = dgemv(1.0, self.P, k)
        var = self.amplitude**2 + float(c @ c) - float(k @ solved)
        # less than nothing only by roundoff
        return _Candidate(z, c, solved, float(k @ self.b), self.noise_var + max(var, 0.0))

    def put_in(self, i: int, found: _Candidate) -> None:
        """P + t t' / var and b + t (y - mean) / var, t = e_i - P k."""
        self.Z[i], self.C[i] = found.scaled, found.linear
        t = -found.solved
        t[i] = 1.0
        self.P = dger(1.0 / found.var, t, t, a=self.P, overwrite_a=1)
        self.b += t * ((self.y[i] - found.mean) / found.var)


def learn_stochastic_em(
    problem: Problem, start: Learned, rng: np.random.Generator, tol: float
) -> Learned:
    """Sampled inputs and fitted hyper-parameters in turn, averaged over the rounds' second half.

    A round draws the inputs eight times, then searches some steps for the highest log evidence
    averaged over them (its score). Input noise that is not known becomes the mean squares of what
    was drawn (with the prior). Rounds are added until the last two quarters agree in both noises.

    References
    ----------
    Celeux & Diebolt, The SEM algorithm, Computational Statistics Quarterly 2 (1985). Wei & Tanner,
    Journal of the American Statistical Association 85 (1990), for several samples a round.
    """
    X, chain, theta, S = problem.X, InputChain(problem, rng), start.theta, start.input_cov
    rounds: list[Round] = []
    thetas: list[Array] = []
    means: list[tuple[Array, Array]] = []  # of the sampled noise and the slopes, (n, d)
    n_rounds, n_iter, converged = _ROUNDS, 0, False
    while len(rounds) < n_rounds:
        roots = np.broadcast_to(symmetric_roots(S), (*X.shape, X.shape[1]))
        samples = np.array([chain.sweep(theta, roots) for _ in range(_SAMPLES)])
        theta, n_used = fit_samples(problem, theta, X + samples, tol)
        n_iter += n_used
        if problem.input_cov is None:
            mean_square = (samples**2).mean(axis=(0, 1))
            S = np.diag(np.exp(2.0 * problem.input_mode(mean_square, len(X))))
        terms = [problem(theta, X + shift)[2] for shift in samples]
        slopes = [
            problem.slopes(theta, X + shift, term.weights)
            for shift, term in zip(samples, terms, strict=True)
        ]
        score = -float(np.mean([term.value for term in terms]))
        rounds.append(Round(float(np.sqrt(problem.scales(theta)[-1])), input_std(S), score))
        thetas.append(theta)
        means.append((samples.mean(axis=0), np.mean(slopes, axis=0)))
        if len(rounds) == n_rounds:
            converged = settled(rounds)
            n_rounds += 0 if converged or n_rounds >= _MOST_ROUNDS else _MORE
    kept = slice(n_rounds // 2, None)
    if problem.input_cov is None:
        S = np.diag(np.exp(2.0 * np.mean([np.log(r.input_std) for r in rounds[kept]], axis=0)))
    shift, slope = (np.mean(part, axis=0) for part in zip(*means[kept], strict=True))
    return Learned(np.mean(thetas[kept], axis=0), S, X + shift, slope, rounds, converged, n_iter)


def fit_samples(problem: Problem, theta: Array, samples: Array, tol: float) -> tuple[Array, int]:
    """Log hyper-parameters of a higher average log evidence of samples (k, n, d) of the inputs."""

    def evaluate(at: Array, none: Array) -> tuple[float, Array, Array]:
        values, gradients, _ = zip(*(problem(at, X) for X in samples), strict=True)
        return float(np.mean(values)), np.mean(gradients, axis=0), none

    none = np.empty(0)
    theta, _, n_iter = problem.search(evaluate, theta, none, none.reshape(0, 2), tol, _ROUND_STEPS)
    return theta, n_iter


def settled(rounds: list[Round]) -> bool:
    """Whether the last two quarters of the rounds agree in the stds of both noises."""
    quarter = len(rounds) // 4
    stds = np.array([[r.noise_std, *r.input_std] for r in rounds[-2 * quarter :]])
    log_stds = np.log(np.maximum(stds, 1e-300))  # of known noise maybe 0
    late, last = log_stds[:quarter], log_stds[quarter:]
    # two rounds in a row count as one
    error = np.sqrt((late.var(axis=0) + last.var(axis=0)) / (0.5 * quarter))
    apart = np.abs(late.mean(axis=0) - last.mean(axis=0))
    return bool((apart <= np.maximum(_APART, 3.0 * error)).all())


def symmetric_roots(S: Array) -> Array:
    """Symmetric roots of covariances, (d, d) or (n, d, d), singular ones too."""
    values, axes = np.linalg.eigh(S)
    stretched = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(stretched @ np.swapaxes(axes, -1, -2))
