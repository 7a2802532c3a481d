"""True inputs sampled given the data, and hyper-parameters that fit the samples, in turn."""

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.descent import descend
from forecast_unc.regression.noisy_inputs.input_chain import InputChain
from forecast_unc.regression.noisy_inputs.search import (
    Learned,
    Problem,
    Round,
    input_std,
    symmetric_roots,
)

# Samples of the inputs in a round. With one or two the noise of the M-step made the output noise
# wander to less than half of what was true on 2 of 6 sincs of 60 rows.
_SAMPLES = 8
_SEARCH = 10  # iterations of a round's search
# Rounds to begin with, added while the second half has not settled, and at most.
_ROUNDS, _MORE, _MOST_ROUNDS = 24, 12, 96
# Settled: the two quarters of the second half agree in the log stds of both noises, to this or to
# three standard errors.
_APART = 0.1


def learn_stochastic_em(
    problem: Problem, start: Learned, rng: np.random.Generator, tol: float
) -> Learned:
    """Sampled inputs and fitted hyper-parameters in turn; the average of the rounds that count.

    A round draws the inputs eight times (`InputChain`), then searches some steps for the
    hyper-parameters of the highest log evidence, averaged over the samples. Where the input noise
    is not known, its variances become the mean squares of the sampled noise (with the prior of its
    std). The first half of the rounds is the burn-in and dropped. There are more rounds until the
    two quarters of the other half agree in both noises, which `converged` says.

    Parameters
    ----------
    problem : Problem
        The rows.
    start : Learned
        What "nigp" found.
    rng : Generator
        The draws.
    tol : float
        Of the searches.

    Returns
    -------
    Learned
        The score of its rounds is the log evidence, averaged over the samples.

    References
    ----------
    Celeux & Diebolt, The SEM algorithm, Computational Statistics Quarterly 2 (1985). Wei & Tanner,
    Journal of the American Statistical Association 85 (1990), for several samples a round.
    """
    X, chain, theta, S = problem.X, InputChain(problem, rng), start.log_hyper, start.input_cov
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
    free = problem.space.free

    def objective(x: Array) -> tuple[float, Array]:
        at = theta.copy()
        at[free] = x
        values, gradients, _ = zip(*(problem(at, X) for X in samples), strict=True)
        return float(np.mean(values)), np.mean(gradients, axis=0)[free]

    best = descend(objective, theta[free], problem.space.bounds[free], tol, most=_SEARCH)
    found = theta.copy()
    found[free] = best.x
    return found, int(best.n_iter)


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
