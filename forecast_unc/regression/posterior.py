"""One posterior for every kernel model: y | x ~ N(w.phi(x), c + phi(x)' G phi(x))."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm

from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import inverse
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.moments import Moments, covariance_root, departure


@dataclass(frozen=True)
class Factor:
    r"""A term sign * P' (L L')^-1 P of the matrix G, kept as its Cholesky factor.

    Variances come from a triangular solve with L, which keeps the digits that a product
    with the explicit G loses when the noise is small.

    Parameters
    ----------
    sign : {-1, 1}
        -1 for what data took away from a prior (GP), +1 for a posterior covariance of
        weights (RVM, reduced rank).
    chol : ndarray of shape (r, r)
        Lower Cholesky factor L, in Fortran order; only the lower triangle is read.
    scale : float
        P = [scale * I, linear]: the kernel part, padded with zero rows where r > m.
    linear : ndarray of shape (r, d + 1)
        The part of P on [x; 1].
    """

    sign: Literal[-1, 1]
    chol: Array
    scale: float
    linear: Array

    def project(self, kernel: Array, linear: Array) -> Array:
        """P times features: kernel part (m, k) and linear part (d + 1, k) to (r, k)."""
        out: Array = dgemm(1.0, self.linear, linear)
        out[: len(kernel)] += self.scale * kernel
        return out

    def whiten(self, kernel: Array, linear: Array) -> Array:
        """L^-1 P times features, of shape (r, k)."""
        return dtrsm(1.0, self.chol, self.project(kernel, linear), lower=1, overwrite_b=1)


@dataclass(frozen=True)
class KernelPosterior:
    r"""Posterior of a kernel model; all a regressor has to return.

    With phi(x) = [k_1(x) ... k_m(x); x; 1] and x measured from `input_offset`,

    .. math::
        y \mid x \sim \mathcal N\bigl(\mathrm{offset} + w \cdot \phi(x),\;
            \mathrm{noise} + a^2 + \phi(x)' G \phi(x)\bigr), \quad
        G = \mathrm{diag}(0, A) + \textstyle\sum_f \mathrm{sign}_f P_f' (L_f L_f')^{-1} P_f .

    The covariance of the function at two inputs is a^2 k(x, x') + phi(x)' G phi(x').

    Parameters
    ----------
    centers : ndarray of shape (m, d)
        Kernel centers, measured from `input_offset`. m may be 0.
    lengthscales : ndarray of shape (d,)
        Length-scales of the kernel, in units of the inputs.
    weights : ndarray of shape (m + d + 1,)
        Mean weights w.
    factors : tuple of Factor
        The terms of G.
    linear_var : ndarray of shape (d + 1,)
        Prior variances A of the linear weights and the bias that enter G directly;
        zeros for models whose weights are all in `factors`.
    kernel_var : float
        Prior variance a^2 of the function outside the span of the features, in squared
        units of y; 0 for degenerate models.
    noise_var : float
        Variance of the observation noise, in squared units of y.
    input_offset : ndarray of shape (d,)
        Subtracted from every input, so that the kernel's distances keep their digits.
    output_offset : float
        Added to every mean.
    """

    centers: Array
    lengthscales: Array
    weights: Array
    factors: tuple[Factor, ...]
    linear_var: Array
    kernel_var: float
    noise_var: float
    input_offset: Array
    output_offset: float = 0.0

    def features(self, X: Array) -> tuple[Array, Array]:
        """Kernel part (m, n) and linear part [x; 1] (d + 1, n) of phi at the rows of X."""
        X = X - self.input_offset
        linear = np.ones((X.shape[1] + 1, len(X)), order="F")
        linear[:-1] = X.T
        return squared_exponential(self.centers, X, self.lengthscales), linear

    def whiten(self, kernel: Array, linear: Array) -> list[Array]:
        """One whitened feature matrix (r, n) a factor; see `covariance`."""
        return [factor.whiten(kernel, linear) for factor in self.factors]

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return self._mean(*self.features(X))

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        kernel, linear = self.features(X)
        return self._mean(kernel, linear), self.noise_var + self._latent_var(kernel, linear)

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (no noise) between the rows of X, (n, n)."""
        out = self.prior_covariance(X, X)
        for factor, V in zip(self.factors, self.whiten(*self.features(X)), strict=True):
            out += dgemm(factor.sign, V, V, trans_a=1)
        return 0.5 * (out + out.T)  # symmetric but for roundoff

    def prior_covariance(self, X1: Array, X2: Array) -> Array:
        """The part of the function's covariance that is not in `factors`, (n1, n2)."""
        std = np.multiply.outer(self.kernel_std(X1), self.kernel_std(X2))
        X1, X2 = X1 - self.input_offset, X2 - self.input_offset
        linear = (X1 * self.linear_var[:-1]) @ X2.T + self.linear_var[-1]
        return np.asarray(linear + std * squared_exponential(X1, X2, self.lengthscales))

    def kernel_std(self, X: Array) -> Array:
        """Std of the function outside the span of the features at the rows of X, (n,)."""
        return np.full(len(X), np.sqrt(self.kernel_var))

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X, of shape (n, d)."""
        kernel, linear = self.features(X)
        m, L2 = len(self.centers), self.lengthscales**2
        weighted = self.weights[:m, None] * kernel  # (m, n)
        pull = self.centers.T @ weighted - linear[:-1] * weighted.sum(axis=0)
        return np.asarray((pull / L2[:, None]).T + self.weights[m:-1])

    def plus_input(self, column: int) -> Self:
        """The posterior of y + x_column: a unit weight added to the linear part."""
        weights = self.weights.copy()
        weights[len(self.centers) + column] += 1.0
        offset = self.output_offset + float(self.input_offset[column])
        return replace(self, weights=weights, output_offset=offset)

    def moments(self, mean: Array, cov: Array) -> Moments:
        """Exact mean, variance and mean slope of an observation, for x ~ N(mean, cov).

        Parameters
        ----------
        mean : ndarray of shape (d,)
            Mean of the input.
        cov : ndarray of shape (d, d)
            Covariance of the input; of any rank, zero included.

        Returns
        -------
        Moments
        """
        plain, var = self.predict(mean[None])
        mean = mean - self.input_offset
        departed = departure(
            mean,
            covariance_root(cov),
            ((self.centers - mean) / self.lengthscales).T,
            self.lengthscales,
            self.weights,
            self._second_moment,
        )
        delta = departed.mean
        # plain mean without the offset: w.phi is what D and delta are about
        mu = plain[0] - self.output_offset
        total = var[0] + departed.second - 2.0 * mu * delta - delta**2
        return Moments(float(plain[0] + delta), float(total), departed.slope)

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        r"""Moments by Taylor expansion: first order for the mean, second for the variance.

        .. math::
            E[y] \approx \mu, \quad
            \mathrm{Var}[y] \approx v + \tfrac12 \mathrm{tr}(v'' S) + \mu'^{\top} S \mu'

        with mean, variance and their derivatives at the mean input, S the input's covariance.
        The variance is right to first order in S. The second-order term of the mean,
        tr(mu'' S) / 2, is left out: iterated over many steps it was worse than no
        correction (sunspots, 9 lags, 20 steps from 20 origins 5 years apart: RMSE 40.2
        with it, 30.5 without, 32.8 exact). Far from small S the variance may come out
        negative, which the caller has to refuse.

        Parameters
        ----------
        mean : ndarray of shape (d,)
            Mean of the input.
        cov : ndarray of shape (d, d)
            Covariance of the input.

        Returns
        -------
        Moments

        References
        ----------
        Girard, Rasmussen, Quinonero-Candela, Murray-Smith, NIPS 15 (2003).
        """
        kernel, linear = self.features(mean[None])
        root = covariance_root(cov)
        scaled = ((self.centers - linear[:-1, 0]) / self.lengthscales).T  # (d, m)
        F = root / self.lengthscales[:, None]
        p = scaled.T @ F  # (m, r)
        bend = kernel[:, 0] * (np.einsum("ir,ir->i", p, p) - np.einsum("dr,dr->", F, F))
        slope = self.gradient(mean[None])[0]
        # columns: phi, its bend tr(phi'' S), and its tilt along each column of the root
        kernel = np.column_stack([kernel, bend, kernel * p])
        tilt = np.vstack([root, np.zeros((1, root.shape[1]))])
        linear = np.column_stack([linear, np.zeros(len(linear)), tilt])
        half_trace = np.einsum("a,ar,ar->", self.linear_var, tilt, tilt)
        for factor, V in zip(self.factors, self.whiten(kernel, linear), strict=True):
            half_trace += factor.sign * (
                V[:, 0] @ V[:, 1] + np.einsum("ir,ir->", V[:, 2:], V[:, 2:])
            )
        plain, var = self.predict(mean[None])
        push = root.T @ slope
        return Moments(
            float(plain[0]),
            float(var[0] + half_trace + push @ push),
            slope,
        )

    def _mean(self, kernel: Array, linear: Array) -> Array:
        m = len(kernel)
        mean: Array = dgemv(1.0, linear, self.weights[m:], trans=1)
        if m:
            mean += dgemv(1.0, kernel, self.weights[:m], trans=1)
        return mean + self.output_offset

    def _latent_var(self, kernel: Array, linear: Array) -> Array:
        var: Array = self.kernel_var + np.einsum("ij,i,ij->j", linear, self.linear_var, linear)
        for factor, V in zip(self.factors, self.whiten(kernel, linear), strict=True):
            var += factor.sign * np.einsum("ij,ij->j", V, V)
        return var

    @cached_property
    def _second_moment(self) -> tuple[Array, Array, Array]:
        """Blocks of G + w w', kernel-kernel, kernel-linear, linear-linear."""
        m = len(self.centers)
        w_kernel, w_linear = self.weights[:m], self.weights[m:]
        kk = np.asfortranarray(np.outer(w_kernel, w_kernel))
        kl = np.outer(w_kernel, w_linear)
        ll = np.diag(self.linear_var) + np.outer(w_linear, w_linear)
        for factor in self.factors:
            precision = np.tril(inverse(factor.chol))
            precision += np.tril(precision, -1).T
            kk += factor.sign * factor.scale**2 * precision[:m, :m]
            # Triangular solves and not the inverse: where the linear part explains nearly all,
            # A - A X' K^-1 X A loses the digits of cond(K) with it, of its root with them.
            V: Array = dtrsm(1.0, factor.chol, factor.linear, lower=1)
            kl += factor.sign * factor.scale * dtrsm(1.0, factor.chol, V, lower=1, trans_a=1)[:m]
            ll += factor.sign * dgemm(1.0, V, V, trans_a=1)
        return kk, kl, ll
