"""True inputs sampled from their posterior given the data, hyper-parameters fitted to the samples."""

import numpy as np
from scipy.linalg.blas import dgemv, dger
from scipy.linalg.lapack import dpotrf

from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import inverse
from forecast_unc.regression.noisy_inputs.search import (
    INPUT_STD_BOUNDS,
    INPUT_STD_LOG_STD,
    INPUT_STD_MEDIAN,
    Learned,
    Problem,
    Round,
    input_std,
    search,
    symmetric_roots,
)
from forecast_unc.regression.kernels import squared_exponential

# Samples of the inputs in a round, a sweep through the rows each, and iterations of its search.
_SAMPLES = 8
_SEARCH = 10
# Rounds to begin with, added while the second half has not settled, and at most.
_ROUNDS = 24
_MORE = 12
_MOST_ROUNDS = 96
# Settled: the two quarters of the second half agree in the log stds of both noises to this or to
# three of its standard errors.
_APART = 0.1


class InputChain:
    r"""Elliptical slice sampling of one row's true input at a time, the function integrated out.

    Given the others, the input x_i = u_i + delta_i of a row enters through the prediction of its
    target alone,

    .. math:: p(x_i \mid X_{-i}, y) \propto \mathcal N(x_i \mid u_i, S_i)\,
        \mathcal N\bigl(y_i \mid m_{-i}(x_i), v_{-i}(x_i) + s^2\bigr) ,

    with the leave-one-out mean and variance from the inverse of the covariance, which a row updates
    in O(n^2); a sweep costs O(n^3). There is nothing to tune.

    Parameters
    ----------
    problem : Problem
        The rows.
    rng : Generator
        The draws.

    References
    ----------
    Murray, Adams & MacKay, Elliptical slice sampling, AISTATS 2010.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.shift = np.zeros_like(problem.X)  # delta

    def sweeps(self, theta: Array, S: Array, k: int) -> Array:
        """k draws (k, n, d) of the noise of all inputs; S (d, d) or (n, d, d)."""
        roots = np.broadcast_to(symmetric_roots(S), (*self.shift.shape, self.shift.shape[1]))
        out = []
        for _ in range(k):
            self.sweep(theta, roots)
            out.append(self.shift.copy())
        return np.array(out)

    def sweep(self, theta: Array, roots: Array) -> None:
        """Draw every row's input once; roots (n, d, d) of the covariances of the input noise."""
        problem, rng, y = self.problem, self.rng, self.problem.evidence.y
        U, n = problem.X, len(problem.X)
        lengthscales, a, tau, noise_var = problem.scales(theta)
        linear_std = problem.evidence.linear_std(tau)
        # as one kernel of scaled columns: exp(-|z - z'|^2 / 2) and c.c'
        X = U + self.shift
        Z, C = X / lengthscales, np.column_stack([X, np.ones(n)]) * linear_std
        K = a**2 * squared_exponential(X, X, lengthscales) + C @ C.T
        K.ravel(order="K")[:: n + 1] += noise_var
        P = np.tril(inverse(dpotrf(K, lower=1, overwrite_a=1)[0], overwrite=True))
        P = np.asfortranarray(P + np.tril(P, -1).T)
        b = P @ y
        draws = np.einsum("nde,ne->nd", roots, rng.standard_normal((n, U.shape[1])))
        heights, angles = np.log(rng.random(n)), 2.0 * np.pi * rng.random(n)
        for i in range(n):
            p, own = P[:, i].copy(), P[i, i]
            P = dger(-1.0 / own, p, p, a=P, overwrite_a=1)  # of the other rows
            alpha = b - p * (b[i] / own)

            def density(shift: Array) -> tuple[float, Array, float, float, Array, Array]:
                x = U[i] + shift
                z, c = x / lengthscales, np.append(x, 1.0) * linear_std
                k = a**2 * np.exp(-0.5 * ((Z - z) ** 2).sum(axis=1)) + C @ c
                k[i] = 0.0
                q = dgemv(1.0, P, k)
                var, mean = a**2 + c @ c + noise_var - k @ q, k @ alpha
                return -0.5 * (np.log(var) + (y[i] - mean) ** 2 / var), q, var, mean, z, c

            old, now = self.shift[i].copy(), density(self.shift[i])
            least, angle = now[0] + heights[i], angles[i]
            low, high = angle - 2.0 * np.pi, angle
            while True:
                new = old * np.cos(angle) + draws[i] * np.sin(angle)
                now = density(new)
                if now[0] >= least or high - low < 1e-9:
                    break
                low, high = (angle, high) if angle < 0.0 else (low, angle)
                angle = rng.uniform(low, high)
            _, q, var, mean, z, c = now
            self.shift[i], Z[i], C[i] = new, z, c
            t = -q
            t[i] = 1.0
            P = dger(1.0 / var, t, t, a=P, overwrite_a=1)
            b = alpha + t * ((y[i] - mean) / var)


def learn_stochastic_em(
    problem: Problem, start: Learned, rng: np.random.Generator, tol: float
) -> Learned:
    """Sampled inputs and fitted hyper-parameters in turn; the average of the rounds that count.

    A round samples the inputs (`InputChain`), then takes some steps of the search for the
    hyper-parameters, given them, and where the input noise is not known its variances as the mean
    squares of the sampled noise (with its prior). The first half of the rounds is dropped. There are
    more rounds until the two quarters of the other half agree in both noises.

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

    References
    ----------
    Celeux & Diebolt, The SEM algorithm, Computational Statistics Quarterly 2 (1985).
    """
    X, free = problem.X, problem.space.free
    n, d = X.shape
    chain, theta, S = InputChain(problem, rng), start.log_hyper.copy(), start.input_cov
    rounds: list[Round] = []
    thetas, shifts, slopes, stds = [], [], [], []
    n_rounds, n_iter, converged = _ROUNDS, 0, False
    while len(rounds) < n_rounds:
        samples = chain.sweeps(theta, S, _SAMPLES)  # of the noise

        def objective(x: Array) -> tuple[float, Array]:
            at = theta.copy()
            at[free] = x
            each = [problem(at, X + shift)[:2] for shift in samples]
            return float(np.mean([e[0] for e in each])), np.mean([e[1] for e in each], axis=0)[free]

        best = search(objective, theta[free], problem.space.bounds[free], tol, _SEARCH)
        theta = theta.copy()
        theta[free] = best.x
        n_iter += int(best.nit)
        if problem.input_cov is None:
            S = _fitted_cov(samples, problem.weak)
        l, a, tau, noise_var = problem.scales(theta)
        terms = [problem(theta, X + shift)[2] for shift in samples]
        slopes.append(
            np.mean(
                [
                    problem.evidence.slopes(X + shift, l, a, tau, t.weights)
                    for shift, t in zip(samples, terms, strict=True)
                ],
                axis=0,
            )
        )
        noise_std = float(np.sqrt(noise_var))
        rounds.append(Round(noise_std, input_std(S), -float(np.mean([t.value for t in terms]))))
        thetas.append(theta)
        shifts.append(samples.mean(axis=0))
        stds.append(np.append(noise_std, input_std(S)))
        if len(rounds) == n_rounds:
            converged = _settled(np.log(stds))
            if not converged and n_rounds < _MOST_ROUNDS:
                n_rounds += _MORE
    kept = slice(n_rounds // 2, None)
    if problem.input_cov is None:
        S = np.diag(np.exp(2.0 * np.log(stds)[kept, 1:].mean(axis=0)))
    return Learned(
        np.mean(thetas[kept], axis=0),
        S,
        X + np.mean(shifts[kept], axis=0),
        np.mean(slopes[kept], axis=0),
        rounds,
        converged,
        n_iter,
    )


def _fitted_cov(shift: Array, weak: bool) -> Array:
    """Variances of sampled noise, a step towards the mode with the log-normal prior of the stds."""
    n = shift.shape[1]
    log_std = 0.5 * np.log((shift**2).mean(axis=(0, 1)) + 1e-300)
    if weak:  # information on a log std: 2 n from the rows
        precision = INPUT_STD_LOG_STD**-2.0
        log_std = (2.0 * n * log_std + precision * np.log(INPUT_STD_MEDIAN)) / (2.0 * n + precision)
    return np.diag(np.exp(2.0 * np.clip(log_std, *np.log(INPUT_STD_BOUNDS))))


def _settled(log_stds: Array) -> bool:
    """Whether the last two quarters of the rounds agree."""
    quarter = len(log_stds) // 4
    late, last = log_stds[-2 * quarter : -quarter], log_stds[-quarter:]
    # two rounds in a row count as one
    error = np.sqrt((late.var(axis=0) + last.var(axis=0)) / (0.5 * quarter))
    return bool((np.abs(late.mean(axis=0) - last.mean(axis=0)) < np.maximum(_APART, 3.0 * error)).all())
