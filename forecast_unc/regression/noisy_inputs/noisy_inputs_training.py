"""Training on rows with noisy inputs: theory/noisy_inputs.md."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dgemv, dger

from forecast_unc._checks import RandomState, generator
from forecast_unc._typing import Array, Positions
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence, RowTerms
from forecast_unc.regression.kernels import factor, inverse, mirrored, squared_exponential
from forecast_unc.regression.noisy_inputs.noisy_inputs_evidence import Round, linearized, referred
from forecast_unc.regression.search import PRIORS, SearchSpace, descend

NoisyInputs = Literal["nigp", "annealed", "stochastic_em"]
Evaluation = tuple[float, Array, Array]  # -log(evidence prior), gradients in theta and in more
Evaluate = Callable[[Array, Array], Evaluation]

# Bounds of the learned stds of input noise, on standardized inputs; median and log-std of their
# log-normal prior, those of the noise of standardized targets.
_INPUT_STD = (1e-4, 1.0)
_MEDIAN, _LOG_STD = PRIORS["weak"][2]


class Learned(NamedTuple):
    """Result of a trainer, on standardized data."""

    theta: Array  # (d + 2 + g,), log [l, a, tau, s]
    input_cov: Array  # (d, d) or (n, d, d)
    inputs: Array  # (n, d), where the rows were linearized
    slopes: Array  # (n, d)
    rounds: list[Round]
    converged: bool
    n_iter: int


def train(kind: NoisyInputs, problem: "Problem", random_state: RandomState) -> Learned:
    """Run a trainer on standardized data; those other than "nigp" start from what that finds."""
    found = learn_nigp(problem)
    if kind == "annealed":
        found = learn_annealed(problem, found)
    elif kind == "stochastic_em":
        found = learn_stochastic_em(problem, found, generator(random_state))
    found.theta[-1] = problem.log_noise(found.theta)
    return found


class Problem:
    """Standardized rows with what is known of them, and their evidence times the prior."""

    def __init__(
        self,
        evidence: GaussianProcessEvidence,  # of the inputs as observed
        space: SearchSpace,
        start: Array,  # (d + 2 + g,), theta of the fit that ignores input noise
        input_cov: Array | None,  # (d, d) or (n, d, d), where it is known
        tol: float,  # of its searches, in nats
    ) -> None:
        self.X, self.y = np.ascontiguousarray(evidence.X.T), evidence.y  # (n, d)
        self.evidence, self.space, self.tol = evidence, space, tol
        self.start, self.input_cov = start, input_cov
        self._precision = np.where(space.free, space.log_std**-2.0, 0.0)
        weak = np.isfinite(space.log_std).any()
        self.input_precision = _LOG_STD**-2.0 if weak else 0.0

    def scales(self, theta: Array) -> tuple[Array, float, Array, float]:
        """Length-scales, amplitude, linear scales, and the variance of the noise with its least."""
        d, scales = self.space.d, np.exp(theta)
        noise_var = scales[-1] ** 2 + (self.space.least_ratio * scales[d]) ** 2
        return scales[:d], float(scales[d]), scales[d + 1 : -1], float(noise_var)

    def log_noise(self, theta: Array) -> float:
        """Log std of the output noise, with its least."""
        return 0.5 * float(np.log(self.scales(theta)[-1]))

    def __call__(
        self, theta: Array, X: Array, added_var: Array | float = 0.0
    ) -> tuple[float, Array, RowTerms]:
        """-log(evidence prior) at X (n, d), of noise s^2 + `added_var`, gradient, and terms."""
        d, away = self.space.d, theta - self.space.median
        l, a, tau, noise_var = self.scales(theta)
        terms = self.evidence.of_rows(X, l, a, tau, np.broadcast_to(noise_var + added_var, len(X)))
        total, least = float(terms.row_var.sum()), (self.space.least_ratio * a) ** 2
        gradient = np.append(terms.hyper, 2.0 * total * (noise_var - least))
        gradient[d] += 2.0 * total * least
        value = terms.value + 0.5 * float(self._precision @ away**2)
        return value, gradient + self._precision * away, terms

    def slopes(self, theta: Array, X: Array, added_var: Array | float = 0.0) -> tuple[Array, float]:
        """Gradient of the posterior mean at rows as in `__call__`, (n, d), and log evidence."""
        terms = self(theta, X, added_var)[2]
        l, a, tau, _ = self.scales(theta)
        return self.evidence.slopes(X, l, a, tau, terms.weights), -terms.value

    def search(
        self, evaluate: Evaluate, theta: Array, more: Array, bounds: ArrayLike, most: int = 500
    ) -> tuple[Array, Array, int]:
        """theta, where free, and `more` (in `bounds`) at a minimum, and the steps to it."""
        free, found = self.space.free, theta.copy()
        k = int(free.sum())

        def objective(x: Array) -> tuple[float, Array]:
            found[free] = x[:k]
            value, gradient, further = evaluate(found, x[k:])
            return value, np.append(gradient[free], further)

        both = np.vstack([self.space.bounds[free], bounds])
        best = descend(objective, np.append(theta[free], more), both, self.tol, most)
        found[free] = best.x[:k]
        return found, best.x[k:], best.n_iter

    def input_cov_of(self, samples: Array) -> Array:
        """Nearly the mode of the input noise (d, d), given samples (k, n, d) of it."""
        log_std = np.log(np.maximum((samples**2).mean(axis=(0, 1)), _INPUT_STD[0] ** 2)) / 2.0
        # n draws have the information 2 n on a log std
        own, prior = 2.0 * len(self.X), self.input_precision
        log_std = (own * log_std + prior * np.log(_MEDIAN)) / (own + prior)
        return np.diag(np.exp(2.0 * np.minimum(log_std, np.log(_INPUT_STD[1]))))


def learn_nigp(problem: Problem) -> Learned:
    """Maximize the evidence with noise of inputs referred to the output by slopes, in rounds."""
    X, theta, known = problem.X, problem.start, problem.input_cov
    slopes, _ = problem.slopes(theta, X)
    log_std = np.full(X.shape[1] if known is None else 0, np.log(0.1))
    bounds = np.tile(np.log(_INPUT_STD), (len(log_std), 1))
    rounds: list[Round] = []
    n_iter, converged, before = 0, False, np.zeros(len(X))
    while len(rounds) < 50 and not converged:
        terms_at = partial(nigp_terms, problem, slopes)
        theta, log_std, n_used = problem.search(terms_at, theta, log_std, bounds)
        n_iter += n_used
        S = np.diag(np.exp(2.0 * log_std)) if known is None else known
        added, noise_std = referred(slopes, S), float(np.exp(problem.log_noise(theta)))
        fresh, score = problem.slopes(theta, X, added)
        rounds.append(Round(noise_std, input_std(S), score))
        # until the std of no row's error changes by more than a thousandth
        now = 0.5 * np.log(noise_std**2 + added)
        converged = len(rounds) > 1 and bool(np.abs(now - before).max() < 1e-3)
        # half way: full steps may alternate between two states
        before, slopes = now, fresh if len(rounds) == 1 else 0.5 * (slopes + fresh)
    return Learned(theta, S, X, slopes, rounds, converged, n_iter)


def nigp_terms(problem: Problem, slopes: Array, theta: Array, log_std: Array) -> Evaluation:
    """-log(evidence prior) at slopes, and its gradients in theta and log stds (q,) to learn."""
    each = slopes[:, : len(log_std)] ** 2 * np.exp(2.0 * log_std)  # (n, q), none where S is known
    known = problem.input_cov
    added = each.sum(axis=1) if known is None else referred(slopes, known)
    value, gradient, terms = problem(theta, problem.X, added)
    away = log_std - np.log(_MEDIAN)
    pull = problem.input_precision * away
    return value + 0.5 * float(pull @ away), gradient, 2.0 * terms.row_var @ each + pull


def input_std(S: Array) -> Array:
    """Root mean square of the input noise of each input over the rows, (d,)."""
    variances = np.diagonal(S, axis1=-2, axis2=-1)
    return np.asarray(np.sqrt(variances if S.ndim == 2 else variances.mean(axis=0)))


def symmetric_roots(S: Array) -> Array:
    """Symmetric roots of covariances, (d, d) or (n, d, d), singular ones too."""
    values, axes = np.linalg.eigh(S)
    stretched = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(stretched @ np.swapaxes(axes, -1, -2))


def learn_annealed(problem: Problem, start: Learned) -> Learned:
    """The joint maximum, followed as the output noise falls from that of the plain fit."""
    n, d = problem.X.shape
    S, rows = np.broadcast_to(start.input_cov, (n, d, d)), np.arange(n)
    learned, scores = problem.space.free[-1], [np.nan]
    levels = problem.log_noise(problem.start) + np.log(0.75) * np.arange(14)
    if learned and n >= 10:
        parts = [(rows[rows % 5 != fold], rows[rows % 5 == fold]) for fold in range(5)]
        descents = [annealed(problem, kept, S, levels) for kept, _ in parts]
        scores = []
        for level in zip(*descents, strict=True):
            densities = [
                held_out_density(problem, found, *part, S)
                for found, part in zip(level, parts, strict=True)
            ]
            scores.append(sum(densities) / n)
            if len(scores) - 1 - int(np.argmax(scores)) >= 4:  # levels in a row without a better
                break
    best = int(np.argmax(scores))
    *_, found = annealed(problem, rows, S, levels[: best + 1])
    rounds = [
        Round(float(np.exp(level)), input_std(S), score)
        for level, score in zip(levels, scores, strict=False)
    ]
    converged = best < len(scores) - 1 or not learned
    return found._replace(input_cov=start.input_cov, rounds=rounds, converged=converged)


def annealed(problem: Problem, rows: Positions, S: Array, levels: Array) -> Iterator[Learned]:
    """Joint maxima of some rows at the log output noises, each from the last."""
    whole, space = problem.evidence, problem.space
    given = whole.linear, whole.groups, whole.bias_scale
    evidence = GaussianProcessEvidence(problem.X[rows], whole.y[rows], *given)
    space = space._replace(free=np.append(space.free[:-1], False))
    part = Problem(evidence, space, problem.start, None, problem.tol)
    roots = symmetric_roots(S[rows])
    theta, shift, n_iter = problem.start, np.zeros_like(part.X), 0
    for level in levels:
        start = np.append(theta[:-1], level)
        theta, shift, n_used = joint_maximum(part, start, shift, roots)
        n_iter += n_used
        X = part.X + np.einsum("nde,ne->nd", roots, shift)
        yield Learned(theta, S[rows], X, part.slopes(theta, X)[0], [], False, n_iter)


def joint_maximum(
    problem: Problem, theta: Array, shift: Array, roots: Array
) -> tuple[Array, Array, int]:
    """Inputs u + S^(1/2) c and hyper-parameters that maximize their joint density, from a start."""

    def evaluate(at: Array, c: Array) -> Evaluation:
        c = c.reshape(shift.shape)
        X = problem.X + np.einsum("nde,ne->nd", roots, c)
        value, gradient, terms = problem(at, X)
        change = np.einsum("nde,nd->ne", roots, terms.inputs) + c
        return value + 0.5 * float(np.sum(c**2)), gradient, change.ravel()

    anywhere = np.tile([-np.inf, np.inf], (shift.size, 1))
    theta, found, n_iter = problem.search(evaluate, theta, shift.ravel(), anywhere, 30)
    return theta, found.reshape(shift.shape), n_iter


def held_out_density(
    problem: Problem, found: Learned, kept: Positions, out: Positions, S: Array
) -> float:
    """Sum of the log densities of targets left out, given their inputs as observed."""
    X, y = problem.X, problem.y
    l, a, tau, noise_var = problem.scales(found.theta)
    linear_std = problem.evidence.linear_std(tau)
    zero = np.zeros(len(l))
    process = GaussianProcess(l, a, linear_std, noise_var**0.5, zero, 0.0, zero)
    posterior = linearized(process, X[kept], y[kept], found.inputs, found.slopes, found.input_cov)
    moments = [posterior.moments(X[i], S[i])[:2] for i in out]
    mean, var = np.array(moments).T
    return float(-0.5 * np.sum(np.log(2.0 * np.pi * var) + (y[out] - mean) ** 2 / var))


def learn_stochastic_em(problem: Problem, start: Learned, rng: np.random.Generator) -> Learned:
    """Sampled inputs and fitted hyper-parameters in turn, averaged over the rounds' second half."""
    X, theta, S, learned = problem.X, start.theta, start.input_cov, problem.input_cov is None
    shift, none = np.zeros_like(X), np.empty(0)
    rounds: list[Round] = []
    parts: list[tuple[Array, Array, Array]] = []  # theta, and means of sampled noise and slopes
    n_rounds, n_iter, converged = 24, 0, False
    while len(rounds) < n_rounds:
        roots, samples = np.broadcast_to(symmetric_roots(S), (*X.shape, X.shape[1])), []
        # With one or two samples the noise of the M-step made the output noise wander to less than
        # half of what was true on 2 of 6 sincs of 60 rows.
        for _ in range(8):
            shift = sweep(problem, theta, shift, roots, rng)
            samples.append(shift)

        def evaluate(at: Array, none: Array, samples: list[Array] = samples) -> Evaluation:
            values, gradients, _ = zip(*(problem(at, X + each) for each in samples), strict=True)
            return float(np.mean(values)), np.mean(gradients, axis=0), none

        theta, _, n_used = problem.search(evaluate, theta, none, none.reshape(0, 2), 10)
        n_iter += n_used
        S = problem.input_cov_of(np.array(samples)) if learned else S
        slopes, scores = zip(*(problem.slopes(theta, X + each) for each in samples), strict=True)
        noise_std = float(np.exp(problem.log_noise(theta)))
        rounds.append(Round(noise_std, input_std(S), float(np.mean(scores))))
        parts.append((theta, np.mean(samples, axis=0), np.mean(slopes, axis=0)))
        if len(rounds) == n_rounds:
            converged = settled(rounds)
            n_rounds += 0 if converged or n_rounds >= 96 else 12
    kept = slice(n_rounds // 2, None)
    if learned:
        S = np.diag(np.exp(2.0 * np.mean([np.log(r.input_std) for r in rounds[kept]], axis=0)))
    theta, shift, slope = (np.mean(part, axis=0) for part in zip(*parts[kept], strict=True))
    return Learned(theta, S, X + shift, slope, rounds, converged, n_iter)


def settled(rounds: list[Round]) -> bool:
    """Whether the last two quarters of the rounds agree in the log stds of both noises."""
    quarter = len(rounds) // 4
    stds = np.array([[r.noise_std, *r.input_std] for r in rounds[-2 * quarter :]])
    log_stds = np.log(np.maximum(stds, 1e-300))  # of known noise maybe 0
    late, last = log_stds[:quarter], log_stds[quarter:]
    # two rounds in a row count as one
    error = np.sqrt((late.var(axis=0) + last.var(axis=0)) / (0.5 * quarter))
    apart = np.abs(late.mean(axis=0) - last.mean(axis=0))
    return bool((apart <= np.maximum(0.1, 3.0 * error)).all())


def sweep(
    problem: Problem, theta: Array, shift: Array, roots: Array, rng: np.random.Generator
) -> Array:
    """Noise (n, d) of the inputs by elliptical slice sampling, each row's given the others'."""
    U, shift = problem.X, shift.copy()
    rows = _Rows(problem, theta, U + shift)
    draws = np.einsum("nde,ne->nd", roots, rng.standard_normal(U.shape))
    for i, draw in enumerate(draws):
        old, now = shift[i].copy(), rows.take_out(i)
        # a point of the ellipse through the present one and `draw`, above a random density
        least = now.log_density + np.log(1.0 - rng.random())
        angle = 2.0 * np.pi * rng.random()
        low, high = angle - 2.0 * np.pi, angle
        while True:
            shift[i] = old * np.cos(angle) + draw * np.sin(angle)
            found = rows.candidate(i, U[i] + shift[i])
            # an interval of no width is `old` itself, but for roundoff
            if found.log_density >= least or high - low < 1e-12:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = low + (high - low) * rng.random()
        rows.put_in(i, found)
    return shift


class _Candidate(NamedTuple):
    """A row's prediction from the others at a possible input."""

    scaled: Array  # (d,), x / l
    linear: Array  # (d + 1,), [x; 1] times the prior stds
    solved: Array  # (n,), inverse covariance of the others times the covariances with them
    innovation: float  # its target less the mean
    var: float  # noise included
    log_density: float  # of its target, but for a constant


class _Rows:
    """The inverse covariance P of rows, and b = P y; a row that is out has zeros there."""

    def __init__(self, problem: Problem, theta: Array, X: Array) -> None:
        self.X = X
        self.lengthscales, self.amplitude, tau, noise_var = problem.scales(theta)
        self.linear_std, self.y = problem.evidence.linear_std(tau), problem.y
        self.Z = X / self.lengthscales
        self.C = np.column_stack([X, np.ones(len(X))]) * self.linear_std
        largest = self.amplitude**2 + float(np.einsum("nd,nd->n", self.C, self.C).max())
        self.noise_var = max(noise_var, 1e-8 * largest)
        self._invert()

    def _invert(self) -> None:
        kernel = squared_exponential(self.Z, self.Z, np.ones(self.Z.shape[1]))
        K = np.asfortranarray(self.amplitude**2 * kernel + self.C @ self.C.T)
        K.ravel(order="K")[:: len(K) + 1] += self.noise_var
        P = inverse(factor(K, float(np.sqrt(self.noise_var))), overwrite=True)
        self.P = np.asfortranarray(mirrored(P))
        self.b = dgemv(1.0, self.P, self.y)

    def take_out(self, i: int) -> _Candidate:
        """P - p p' / p_i and b - p b_i / p_i with p the column of row i; its prediction."""
        for _ in range(2):
            p, b = self.P[:, i].copy(), float(self.b[i])
            self.b -= p * (b / p[i])
            self.P = dger(-1.0 / p[i], p, p, a=self.P, overwrite_a=1)
            old = self.candidate(i, self.X[i])
            # both are this variance; roundoff of small noise grows from row to row
            if abs(old.var * p[i] - 1.0) < 1e-3:
                break
            self._invert()
        return old

    def candidate(self, i: int, x: Array) -> _Candidate:
        """Prediction of row i, which is out, at an input."""
        z, c = x / self.lengthscales, np.append(x, 1.0) * self.linear_std
        away = self.Z - z
        k = self.amplitude**2 * np.exp(-0.5 * np.einsum("nd,nd->n", away, away)) + self.C @ c
        k[i] = 0.0
        solved: Array = dgemv(1.0, self.P, k)
        # less than nothing only by roundoff
        var = self.noise_var + max(self.amplitude**2 + float(c @ c) - float(k @ solved), 0.0)
        innovation = float(self.y[i]) - float(k @ self.b)
        density = -0.5 * (np.log(var) + innovation**2 / var)
        return _Candidate(z, c, solved, innovation, var, density)

    def put_in(self, i: int, found: _Candidate) -> None:
        """P + t t' / var and b + t (y - mean) / var, t = e_i - P k."""
        self.Z[i], self.C[i] = found.scaled, found.linear
        t = -found.solved
        t[i] = 1.0
        self.P = dger(1.0 / found.var, t, t, a=self.P, overwrite_a=1)
        self.b += t * (found.innovation / found.var)
