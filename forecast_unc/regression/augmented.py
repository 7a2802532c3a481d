"""RVM*: one more basis at every test input, so that uncertainty grows away from the data."""

from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn, Self

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.differences import taylor_by_differences
from forecast_unc.regression.kernel_posterior import KernelFunctionPath, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.moments import Moments


@dataclass(frozen=True, kw_only=True)
class AugmentedPosterior:
    r"""Posterior of an RVM whose design gains the basis k(., x*) at each test input x*.

    With phi_* = k(X, x*) on the training inputs, precision a_*, and C the covariance of y,

    .. math::
        e = 1 - \phi(x_*)' \Sigma \Phi' \phi_* / s^2, \quad s_* = \phi_*' C^{-1} \phi_*, \quad
        q_* = \phi_*' C^{-1} y,

    the mean grows by e q_* / (a_* + s_*) and the variance by e^2 / (a_* + s_*): what conditioning
    on the data in the enlarged model gives. Far from the data e = 1 and s_* = 0, and the variance
    returns to 1 / a_* plus noise.

    Parameters
    ----------
    plain : KernelPosterior
        The posterior without the added basis; its `kernel_var` is 0.
    inputs : ndarray of shape (n, d)
        Training inputs, measured from the plain posterior's `input_offset`.
    whitened : ndarray of shape (r, n)
        L^-1 P times the features of the training inputs.
    scaled_residual : ndarray of shape (n,)
        C^-1 y, which is the residual over the noise variance.
    augmented_precision : float
        a_*, inverse prior variance of the added weight, in inverse squared units of y.

    References
    ----------
    Rasmussen & Quinonero-Candela, ICML 2005.
    """

    closed_form: ClassVar[bool] = False
    joint: ClassVar[bool] = True

    plain: KernelPosterior
    inputs: Array
    whitened: Array
    scaled_residual: Array
    augmented_precision: float

    @property
    def alternatives(self) -> tuple[tuple[float, Self], ...]:
        """Itself, with certainty."""
        return ((1.0, self),)

    @property
    def noise_var(self) -> float:
        """Variance of the noise that is part of the series."""
        return self.plain.noise_var

    @property
    def observation_var(self) -> float:
        """Variance of an error of the observation alone."""
        return self.plain.observation_var

    @property
    def signal_var(self) -> float:
        """Prior variance of the added weight, to which the function's returns."""
        return 1.0 / self.augmented_precision

    @property
    def path_size(self) -> int:
        """As for the plain posterior."""
        return self.plain.path_size

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return self.predict(X)[0]

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        mean, var = self.plain.predict(X)
        _, _, e, room, q = self._augmentation(X)
        return mean + e * q / room, var + e**2 / room

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (no noise) between the rows of X, (n, n).

        Each row has its own added basis; between rows what they add is correlated like the
        kernel, so that the diagonal is the variance of `predict`.
        """
        std, inputs = self._added_std(X), X - self.plain.input_offset
        kernel = squared_exponential(inputs, inputs, self.plain.lengthscales)
        return np.asarray(self.plain.covariance(X) + np.multiply.outer(std, std) * kernel)

    def function_path(self, n_steps: int, n_paths: int = 1) -> KernelFunctionPath:
        """An empty path with room for so many inputs, or several abreast."""
        return KernelFunctionPath(self.plain, self._added_std, n_steps, n_paths)

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> None:
        """None: the added basis moves with the input, so there is no function to draw."""

    def plus_input(self, column: int) -> Self:
        """The posterior of y + x_column."""
        return replace(self, plain=self.plain.plus_input(column))

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X, of shape (n, d)."""
        features, own, e, room, q = self._augmentation(X)
        plain, beta = self.plain, 1.0 / self.noise_var
        pushed = self.whitened @ own  # (r, k)
        # d(e q / room) = by_own . d phi_* + by_features . d phi
        by_own = np.multiply.outer(self.scaled_residual, e / room)
        by_own -= beta * (self.whitened.T @ (features * (q / room)))
        inverse = beta * (own - beta * (self.whitened.T @ pushed))  # C^-1 phi_*
        by_own -= inverse * (2.0 * e * q / room**2)
        by_own *= own
        X0 = X - plain.input_offset
        pull = by_own.T @ self.inputs - X0 * by_own.sum(axis=0)[:, None]
        out = plain.gradient(X) + pull / plain.lengthscales**2
        for factor in plain.factors:  # Sigma Phi' phi_* / s^2 on the features
            by_whitened = -beta * pushed * (q / room)
            weights = np.linalg.solve(np.tril(factor.chol).T, by_whitened)  # (r, k)
            kernel, _ = plain.features(X)
            m = len(kernel)
            weighted = factor.scale * weights[:m] * kernel
            pull = weighted.T @ plain.centers - X0 * weighted.sum(axis=0)[:, None]
            out += pull / plain.lengthscales**2 + (factor.linear.T @ weights)[:-1].T
        return np.asarray(out)

    def moments(self, mean: Array, cov: Array) -> NoReturn:
        """Raise: the added basis moves with the input, so there is no closed form."""
        raise ValueError(
            "method or propagation must be 'taylor' or 'monte_carlo' for "
            "variance='augmented'; got 'exact'. The added basis moves with the input, so there "
            "is no closed form; or fit with variance='standard'."
        )

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Moments by Taylor expansion, second derivatives by differences; see `KernelPosterior`."""
        slope = self.gradient(mean[None])[0]
        return taylor_by_differences(self.predict, slope, mean, cov, self.plain.lengthscales)

    def _added_std(self, X: Array) -> Array:
        """Std that the added basis gives at the rows of X, (n,)."""
        _, _, e, room, _ = self._augmentation(X)
        return np.abs(e) / np.sqrt(room)

    def _augmentation(self, X: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Whitened features (r, k), phi_* (n, k), e, a_* + s_* and q_*, each (k,)."""
        plain = self.plain
        whitened = plain.whiten(*plain.features(X))
        own = squared_exponential(self.inputs, X - plain.input_offset, plain.lengthscales)
        beta = 1.0 / self.noise_var
        features = whitened[0] if whitened else np.zeros((0, len(X)))
        pushed = self.whitened @ own
        e = 1.0 - beta * np.einsum("rk,rk->k", features, pushed)
        s = beta * (np.einsum("nk,nk->k", own, own) - beta * np.einsum("rk,rk->k", pushed, pushed))
        return features, own, e, self.augmented_precision + s, self.scaled_residual @ own
