"""A Markov chain over the true inputs of a Gaussian process, given its noisy ones."""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemv, dger

from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import inverse
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.noisy_inputs.posterior import factor
from forecast_unc.regression.noisy_inputs.search import Problem

# Least noise variance in the largest prior variance, and the roundoff of a row's prediction beyond
# which the inverse is computed afresh.
_LEAST_NOISE = 1e-8
_MOST_ROUNDOFF = 1e-3


class InputChain:
    r"""Elliptical slice sampling of one row's true input at a time, the function integrated out.

    Given the others, the input x_i = u_i + delta_i of a row matters through the prediction of its
    target alone,

    .. math:: p(x_i \mid X_{-i}, y) \propto \mathcal N(x_i \mid u_i, S_i)\,
        \mathcal N\bigl(y_i \mid m_{-i}(x_i), v_{-i}(x_i) + s^2\bigr) ,

    with mean and variance given the other rows. They come from the inverse of the covariance, of
    which a row is taken out and put back in O(n^2): a sweep costs O(n^3). There is nothing to tune.

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

    def sweep(self, theta: Array, roots: Array) -> Array:
        """Draw every row's input anew; the noise of all, (n, d), is returned and gone on from.

        Parameters
        ----------
        theta : ndarray of shape (d + 2 + g,)
            Log hyper-parameters.
        roots : ndarray of shape (n, d, d)
            Of the covariances of the input noise.
        """
        U = self.problem.X
        rows = _Rows(self.problem, theta, U + self.shift)
        draws = np.einsum("nde,ne->nd", roots, self.rng.standard_normal(U.shape))
        for i in range(len(U)):
            now = rows.take_out(i)
            found, self.shift[i] = self._slice(rows, i, now, draws[i])
            rows.put_in(i, found)
        return self.shift.copy()

    def _slice(
        self, rows: "_Rows", i: int, now: "_Candidate", draw: Array
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


class _Rows:
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
