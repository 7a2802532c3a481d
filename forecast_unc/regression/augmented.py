"""RVM* and RRGP*: one more basis at every test input, so that uncertainty grows off the data."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn, Self

import numpy as np
from scipy.linalg.blas import dgemm, dtrsm

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.regression.kernel_posterior import KernelFunctionPath, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.posterior import Moments
from forecast_unc.regression.predictor import slope_by_differences, taylor_by_differences
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import JITTER, row_blocks
from forecast_unc.regression.reduced_rank.reduced_rank_posterior import Support


@dataclass(frozen=True, kw_only=True)
class AugmentedPosterior(ABC):
    """Posterior of weights whose design gains a basis at each test input: theory/rvm.md, RVM*."""

    closed_form: ClassVar[bool] = False
    joint: ClassVar[bool] = True
    observation_var: ClassVar[float] = 0.0

    plain: KernelPosterior  # without the added basis; its `kernel_var` is 0
    inputs: Array  # (n, d), training inputs
    scaled_residual: Array  # (n,), C^-1 y, which is the residual over the noise variance
    signal_var: float  # prior variance of what is added, to which the function's returns

    @abstractmethod
    def added(self, X: Array) -> tuple[Array, Array]:
        """Contributions of the basis to mean and variance at the rows of X, each (n,)."""

    def added_gradient(self, X: Array) -> Array:
        """Gradient of what it adds to the mean, by differences of fourth order, (n, d)."""
        return slope_by_differences(lambda rows: self.added(rows)[0], X, self.plain.lengthscales)

    @property
    def noise_var(self) -> float:
        """Variance of the noise that is part of the series."""
        return self.plain.noise_var

    @property
    def path_size(self) -> int:
        """Size of a path, that of the plain posterior."""
        return self.plain.path_size

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return self.plain.mean(X) + self.added(X)[0]

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        mean, var = self.plain.predict(X)
        added_mean, added_var = self.added(X)
        return mean + added_mean, var + added_var

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (n, n), added bases correlated like the kernel."""
        std, inputs = self._added_std(X), X - self.plain.input_offset
        kernel = squared_exponential(inputs, inputs, self.plain.lengthscales)
        return np.asarray(self.plain.covariance(X) + np.multiply.outer(std, std) * kernel)

    def function_path(self, n_steps: int, n_paths: int = 1) -> KernelFunctionPath:
        """Empty paths with room for so many inputs each."""
        return KernelFunctionPath(self.plain, self.added, n_steps, n_paths)

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> None:
        """None: the added basis moves with the input, so there is no function to draw."""
        return None

    def plus_input(self, column: int) -> Self:
        """The posterior of y + x_column."""
        return replace(self, plain=self.plain.plus_input(column))

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X, of shape (n, d)."""
        return self.plain.gradient(X) + self.added_gradient(X)

    def moments(self, mean: Array, cov: Array) -> NoReturn:
        """Raise: the added basis moves with the input, so there is no closed form."""
        must = "be 'taylor' or 'monte_carlo' for variance='augmented'"
        remedy = "The added basis moves with the input, so there is no closed form; "
        remedy += "or fit with another variance."
        raise refusal("method or propagation", must, "'exact'", remedy)

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Moments by Taylor expansion, second derivatives by differences; see `KernelPosterior`."""
        return taylor_by_differences(self, mean, cov, self.plain.lengthscales)

    def _added_std(self, X: Array) -> Array:
        """Std that the added basis gives at the rows of X, (n,)."""
        return np.sqrt(self.added(X)[1])


@dataclass(frozen=True, kw_only=True)
class KernelAtInput(AugmentedPosterior):
    """RVM*: the basis k(., x*), of value 1 at x*; far from the data its variance is 1 / a_*."""

    whitened: Array  # (r, n), L^-1 P times the features of the training inputs

    @classmethod
    def of(cls, plain: KernelPosterior, X: Array, y: Array, signal_var: float) -> Self:
        """The posterior with the basis, given the rows of the plain one."""
        return cls(
            plain=plain,
            inputs=X - plain.input_offset,
            scaled_residual=(y - plain.mean(X)) / plain.noise_var,
            signal_var=signal_var,
            whitened=_whitened(plain, X),
        )

    def added(self, X: Array) -> tuple[Array, Array]:
        """Contributions of the basis to mean and variance at the rows of X, each (n,)."""
        *_, e, room, q = self._parts(X)
        return e * q / room, e**2 / room

    def added_gradient(self, X: Array) -> Array:
        """Gradient of what it adds to the mean, at the rows of X, (n, d)."""
        features, own, pushed, e, room, q = self._parts(X)
        plain, beta = self.plain, 1.0 / self.plain.noise_var
        # d(e q / room) = by_own . d phi_* + by_features . d phi
        by_own = np.multiply.outer(self.scaled_residual, e / room)
        by_own -= beta * (self.whitened.T @ (features * (q / room)))
        inverse = beta * (own - beta * (self.whitened.T @ pushed))  # C^-1 phi_*
        by_own -= inverse * (2.0 * e * q / room**2)
        by_own *= own
        X0 = X - plain.input_offset
        pull = by_own.T @ self.inputs - X0 * by_own.sum(axis=0)[:, None]
        out = pull / plain.lengthscales**2
        for factor in plain.factors:  # Sigma Phi' phi_* / s^2 on the features
            by_whitened = -beta * pushed * (q / room)
            weights = np.linalg.solve(np.tril(factor.chol).T, by_whitened)  # (r, k)
            kernel, _ = plain.features(X)
            m = len(kernel)
            weighted = factor.scale * weights[:m] * kernel
            pull = weighted.T @ plain.centers - X0 * weighted.sum(axis=0)[:, None]
            out += pull / plain.lengthscales**2 + (factor.linear.T @ weights)[:-1].T
        return np.asarray(out)

    def _parts(self, X: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Whitened features (r, k), phi_* (n, k), its projection (r, k), e, a_* + s_* and q_*."""
        plain, features = self.plain, _whitened(self.plain, X)
        own = squared_exponential(self.inputs, X - plain.input_offset, plain.lengthscales)
        beta, pushed = 1.0 / plain.noise_var, self.whitened @ own
        e = 1.0 - beta * np.einsum("rk,rk->k", features, pushed)
        s = beta * (np.einsum("nk,nk->k", own, own) - beta * np.einsum("rk,rk->k", pushed, pushed))
        return features, own, pushed, e, 1.0 / self.signal_var + s, self.scaled_residual @ own


def _whitened(plain: KernelPosterior, X: Array) -> Array:
    """Whitened features at the rows of X, (r, n)."""
    whitened = plain.whiten(*plain.features(X))
    return whitened[0] if whitened else np.zeros((0, len(X)))


@dataclass(frozen=True, kw_only=True)
class CenterAtInput(AugmentedPosterior):
    """RRGP*: a center at the test input less its projection on others: theory/reduced_rank.md."""

    model: Support

    def added(self, X: Array) -> tuple[Array, Array]:
        """Contributions of the basis to mean and variance at the rows of X, each (n,)."""
        plain, model, a2 = self.plain, self.model, self.signal_var
        (factor,), beta = plain.factors, 1.0 / plain.noise_var
        kernel, linear = plain.features(X)
        half: Array = dtrsm(1.0, model.root, kernel, lower=1)
        projection: Array = dtrsm(1.0, model.root, half, lower=1, trans_a=1)
        left = a2 * (1.0 - np.einsum("mk,mk->k", half, half))  # g(x*)
        pushed = np.zeros((len(factor.chol), len(X)), order="F")  # P Phi' g
        squares, q = np.zeros(len(X)), np.zeros(len(X))
        for rows in row_blocks(len(self.inputs)):
            own, straight = plain.features(self.inputs[rows])
            g = a2 * squared_exponential(straight[:-1].T, linear[:-1].T, plain.lengthscales)
            g -= a2 * dgemm(1.0, own, projection, trans_a=1)
            pushed += dgemm(1.0, factor.project(own, straight), g)
            squares += np.einsum("rk,rk->k", g, g)
            q += self.scaled_residual[rows] @ g
        whitened: Array = dtrsm(1.0, factor.chol, pushed, lower=1)
        features = factor.whiten(kernel, linear)
        e = left - beta * np.einsum("rk,rk->k", features, whitened)
        s = beta * (squares - beta * np.einsum("rk,rk->k", whitened, whitened))
        room = left + JITTER * a2 + s
        return e * q / room, e**2 / room
