"""One posterior for every kernel model: y | x ~ N(w.phi(x), kappa + phi(x)' G phi(x))."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtrs

from forecast_unc._typing import Array, Positions
from forecast_unc.regression.feature_covariance import beyond_first_order, feature_spread
from forecast_unc.regression.kernels import (
    exponent_factors,
    inverse,
    mirrored,
    squared_exponential,
    symmetric,
)
from forecast_unc.regression.moments import (
    SecondMoment,
    contiguous_tiles,
    covariance_root,
    departure,
)
from forecast_unc.regression.posterior import FunctionSample, Moments
from forecast_unc.regression.prior_draws import PriorDraws, sharing

# Share of a variance that may be roundoff, by an upper estimate. Beyond it the variance comes from
# a factor of the features' covariance instead of an explicit G + w w', at up to 100 times the cost.
# Not the condition decides: at 3e9 the explicit form kept 8 digits where rows agree, and one where
# they do not.
_MOST_ROUNDOFF = 1e-6
# What few centers leave of the prior variance at a row, in units of the noise, and at least, of the
# prior; what that costs is in theory/propagations.md. The first ones leave a tenth of that.
_LEFT, _LEAST_LEFT, _FIRST = 0.01, 1e-12, 32


@dataclass(frozen=True)
class Factor:
    """A term sign * P' (L L')^-1 P of G, solved by L: that keeps digits which explicit G loses."""

    sign: Literal[-1, 1]  # -1: what data took from a prior (GP); +1: weights (RVM, reduced rank)
    chol: Array  # (r, r), L in Fortran order, of the data's covariance or the weights' precision
    scale: float  # P = [scale * I, linear], r rows: m of the kernels, maybe none, those of [x; 1]
    linear: Array  # (r, d + 1)
    # Of sign -1: variance of the independent errors in L L', of all rows or of each. Without it no
    # functions are drawn.
    error_var: float | Array | None = None

    def project(self, kernel: Array, linear: Array) -> Array:
        """P times features: kernel part (m, k) and linear part (d + 1, k) to (r, k)."""
        out: Array = dgemm(1.0, self.linear, linear)
        out[: len(kernel)] += self.scale * kernel
        return out

    def whiten(self, kernel: Array, linear: Array) -> Array:
        """L^-1 P times features, of shape (r, k)."""
        out = self.project(kernel, linear)
        if out.shape[1] == 1:  # 0.3 ms at 2000 rows, dtrsm 1.1
            return dtrsv(self.chol, out[:, 0], lower=1, overwrite_x=1)[:, None]
        return dtrsm(1.0, self.chol, out, lower=1, overwrite_b=1)


@dataclass(frozen=True)
class KernelPosterior:
    """y | x ~ N(offset + w.phi(x), noises + a^2 + phi' G phi), phi(x) = [k_1(x) ... k_m(x); x; 1].

    G = diag(0, A) + the sum of `factors`; Cov[f, f'] = a^2 k(x, x') + phi(x)' G phi(x').
    """

    closed_form: ClassVar[bool] = True
    joint: ClassVar[bool] = True

    centers: Array  # (m, d), of the kernels, measured from `input_offset`; m may be 0
    lengthscales: Array  # (d,), of the kernels, in units of the inputs
    weights: Array  # (m + d + 1,), w
    factors: tuple[Factor, ...]  # the terms of G
    linear_var: Array  # (d + 1,), A: what of the prior of the linear part is not in `factors`
    kernel_var: float  # a^2, outside the span of the features; 0 for degenerate models
    noise_var: float  # of the noise that is part of the series
    input_offset: Array  # (d,), subtracted from inputs, so that distances keep their digits
    output_offset: float = 0.0  # added to every mean
    observation_var: float = 0.0  # of an error of the observation alone, which is not fed back
    # (d,), those of k(x, x') above where the features have others, as for rows with noisy inputs
    prior_lengthscales: Array | None = None

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: what was computed from them has the size of a factor."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def signal_var(self) -> float:
        """Prior variance of the function outside the span of the features."""
        return self.kernel_var

    @property
    def function_lengthscales(self) -> Array:
        """Length-scales of the prior covariance between two inputs."""
        return self.lengthscales if self.prior_lengthscales is None else self.prior_lengthscales

    @property
    def path_size(self) -> int:
        """Rows of all factors."""
        return sum(len(factor.chol) for factor in self.factors)

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
        return self.mean_of(*self.features(X))

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        kernel, linear = self.features(X)
        var: Array = self.kernel_var + np.einsum("ij,i,ij->j", linear, self.linear_var, linear)
        for factor, V in zip(self.factors, self.whiten(kernel, linear), strict=True):
            var += factor.sign * np.einsum("ij,ij->j", V, V)
        return self.mean_of(kernel, linear), self.noise_var + self.observation_var + var

    def covariance(self, X: Array) -> Array:
        """Posterior covariance of the function (no noise) between the rows of X, (n, n)."""
        kernel, linear = self.features(X)
        inputs = linear[:-1].T
        out = self.kernel_var * squared_exponential(inputs, inputs, self.function_lengthscales)
        out += linear.T @ (self.linear_var[:, None] * linear)
        for factor, V in zip(self.factors, self.whiten(kernel, linear), strict=True):
            out += dgemm(factor.sign, V, V, trans_a=1)
        return symmetric(out)

    def function_path(self, n_steps: int, n_paths: int = 1) -> "KernelFunctionPath":
        """Empty paths with room for so many inputs each."""

        def added(X: Array) -> tuple[Array, Array]:
            return np.zeros(len(X)), np.full(len(X), self.kernel_var)

        return KernelFunctionPath(self, added, n_steps, n_paths)

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> FunctionSample | None:
        """Functions drawn from the posterior; None if a factor does not state its data's errors.

        Pathwise conditioning: a draw from the prior, less what data would take from it had they
        been that draw with errors; of weights, a draw from their posterior.
        """
        if not self._can_be_drawn():
            return None
        m, d = self.centers.shape
        prior = PriorDraws(n_paths, d, rng) if self.kernel_var > 0.0 else None
        prior_linear = np.sqrt(self.linear_var)[:, None] * rng.standard_normal((d + 1, n_paths))
        weights = np.repeat(self.weights[:, None], n_paths, axis=1)
        weights[m:] += prior_linear
        for factor in self.factors:
            normal = rng.standard_normal((len(factor.chol), n_paths))
            if factor.sign > 0:
                change, _ = dtrtrs(factor.chol, normal, lower=1, trans=1)
            else:
                data = self._data_of_prior(factor, normal, prior, prior_linear)
                change, _ = dpotrs(factor.chol, data, lower=1)
            weights[:m] += factor.sign * factor.scale * change[:m]
            weights[m:] += factor.sign * dgemm(1.0, factor.linear, change, trans_a=1)
        return _functions(self, weights, prior)

    def _can_be_drawn(self) -> bool:
        """Whether data took from the prior once at most, with errors that the draws resolve."""
        taken = [factor for factor in self.factors if factor.sign < 0]
        if not taken:
            return True
        (factor, *others) = taken
        # features in single precision are off by 1e-6 of the amplitude
        least = 9e-10 * factor.scale**2 / self.kernel_var if self.kernel_var > 0.0 else 0.0
        known = factor.error_var
        return not others and known is not None and bool(np.min(known) >= least)

    def _data_of_prior(
        self, factor: Factor, normal: Array, prior: PriorDraws | None, linear: Array
    ) -> Array:
        """Values at training rows of functions from the prior, with normal errors, (r, n)."""
        data = np.sqrt(np.reshape(np.asarray(factor.error_var), (-1, 1))) * normal
        if prior is not None:
            amplitude = factor.scale / float(np.sqrt(self.kernel_var))
            data[: len(self.centers)] += amplitude * prior.at((self.centers / self.lengthscales).T)
        known = np.where(self.linear_var > 0.0, self.linear_var, np.inf)
        data += factor.linear / known @ linear
        return np.asarray(data)

    @cached_property
    def on_few_centers(self) -> Self:
        """A GP on the rows that leave a hundredth of the noise of the others; else itself."""
        m, d = self.centers.shape
        if len(self.factors) != 1 or not self.kernel_var or self.prior_lengthscales is not None:
            return self
        (factor,) = self.factors
        if factor.sign > 0 or factor.error_var is None:
            return self
        var = factor.scale**2 / self.kernel_var  # a^2, before all is widened
        left = _LEFT * float(np.min(factor.error_var)) / var
        if left < _LEAST_LEFT:
            return self
        kernel = squared_exponential(self.centers, self.centers, self.lengthscales)
        root, order, rank, _ = dpstrf(kernel, tol=max(0.1 * left, _LEAST_LEFT), lower=1)
        pivots = np.diagonal(root)[:rank] ** 2
        rank = max(int(np.count_nonzero(pivots > left)), min(rank, _FIRST, m // 2))
        if 2 * rank > m:
            return self
        whole, order = np.tril(root)[:, :rank].T, order - 1
        v = np.empty((rank, m))
        v[:, order] = whole
        root, unit = np.asfortranarray(whole[:, :rank].T), np.sqrt(self.kernel_var / var)
        std = np.sqrt(self.linear_var) / unit
        used = np.flatnonzero(std)
        rows = np.column_stack([self.centers, np.ones(m)]).T
        scaled = np.vstack([np.sqrt(var) * v, std[used, None] * rows[used]])
        precision = np.eye(len(scaled)) + scaled / factor.error_var @ scaled.T
        chol, _ = dpotrf(precision, lower=1, clean=1)
        chol[:rank] = root @ chol[:rank] / np.sqrt(var)  # of the weights on k(U, x)
        linear = np.zeros((len(scaled), d + 1), order="F")
        linear[rank + np.arange(len(used)), used] = unit * std[used]
        weights = dtrsm(1.0, root, v @ self.weights[:m, None], lower=1, trans_a=1)[:, 0]
        none = np.zeros((rank, d + 1), order="F")
        up = Factor(1, np.asfortranarray(chol), float(unit), linear)
        down = Factor(-1, root, float(np.sqrt(self.kernel_var)), none)
        return replace(
            self,
            centers=self.centers[order[:rank]],
            weights=np.append(weights, self.weights[m:]),
            factors=(up, down),
            linear_var=np.zeros(d + 1),
        )

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
        """Exact mean, variance and mean slope of an observation, for x ~ N(mean, cov)."""
        plain, var = self.predict(mean[None])
        x, root = mean - self.input_offset, covariance_root(cov)
        scaled = ((self.centers - x) / self.lengthscales).T
        own = self.lengthscales, self.weights, self._second_moment
        delta, second, slope, roundoff = departure(x, root, scaled, *own)
        # plain mean without the offset: w.phi is what D and delta are about
        mu = plain[0] - self.output_offset
        total = var[0] + second - 2.0 * mu * delta - delta**2
        if roundoff > _MOST_ROUNDOFF * abs(total):
            total = var[0] + self._added_variance(mean, root, scaled)
        return Moments(float(plain[0] + delta), float(total), slope)

    def _added_variance(self, mean: Array, root: Array, scaled: Array) -> float:
        """Variance added by an uncertain input, as a sum of squares: see `feature_spread`."""
        m, w = len(self.centers), self.weights
        spread = feature_spread(root, scaled, self.lengthscales)
        change = spread.features.change
        kernel, linear = self.features(mean[None])
        kernel = np.column_stack([kernel, change, spread.kernel])
        columns = np.vstack([spread.linear, np.zeros(spread.linear.shape[1])])
        linear = np.column_stack([linear, np.zeros(len(linear)), columns])
        push = w[:m] @ spread.kernel + w[m:-1] @ spread.linear
        var = push @ push + self.linear_var[:-1] @ (root**2).sum(axis=1)
        for factor, V in zip(self.factors, self.whiten(kernel, linear), strict=True):
            var += factor.sign * (2.0 * V[:, 0] + V[:, 1]) @ V[:, 1]
            var += factor.sign * np.einsum("ij,ij->", V[:, 2:], V[:, 2:])
        for block in beyond_first_order(spread):
            terms = [float(np.sum((w[:m] @ block) ** 2))]
            still = np.zeros((len(linear), block.shape[1]), order="F")
            for factor, V in zip(self.factors, self.whiten(block, still), strict=True):
                terms.append(factor.sign * np.einsum("ij,ij->", V, V))
            var += sum(terms)
            # what followed such a block added no more than ten times as much (5 sizes of problem,
            # 3 of uncertainty, conditions to 1e12)
            if sum(map(abs, terms)) < 1e-7 * abs(var):
                break
        return float(var)

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Moments by Taylor expansion, right to first order in cov: theory/propagations.md."""
        # Without tr(mu'' S) / 2 in the mean: iterated it was worse (sunspots, 20 steps: RMSE 40.2
        # with it, 30.5 without, 32.8 exact).
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
            squares = np.einsum("ir,ir->", V[:, 2:], V[:, 2:])
            half_trace += factor.sign * (V[:, 0] @ V[:, 1] + squares)
        plain, var = self.predict(mean[None])
        push = root.T @ slope
        return Moments(float(plain[0]), float(var[0] + half_trace + push @ push), slope)

    def mean_of(self, kernel: Array, linear: Array) -> Array:
        """Predictive mean at features, (n,)."""
        m = len(kernel)
        mean: Array = dgemv(1.0, linear, self.weights[m:], trans=1)
        if m:
            mean += dgemv(1.0, kernel, self.weights[:m], trans=1)
        return mean + self.output_offset

    @cached_property
    def _second_moment(self) -> SecondMoment:
        """Blocks of G + w w', as steps read them."""
        m = len(self.centers)
        w_kernel, w_linear = self.weights[:m], self.weights[m:]
        kk = np.asfortranarray(np.outer(w_kernel, w_kernel))
        kl = np.outer(w_kernel, w_linear)
        ll = np.diag(self.linear_var) + np.outer(w_linear, w_linear)
        for factor in self.factors:
            precision = mirrored(inverse(factor.chol))
            kk += factor.sign * factor.scale**2 * precision[:m, :m]
            # Triangular solves and not the inverse: where the linear part explains nearly all,
            # A - A X' K^-1 X A loses the digits of cond(K) with it, of its root with them.
            V: Array = dtrsm(1.0, factor.chol, factor.linear, lower=1)
            kl += factor.sign * factor.scale * dtrsm(1.0, factor.chol, V, lower=1, trans_a=1)[:m]
            ll += factor.sign * dgemm(1.0, V, V, trans_a=1)
        return contiguous_tiles(kk), np.diagonal(kk).copy(), kl, ll


class KernelFunctionPath:
    """Posterior covariances of the function along paths: a solve a factor and a product a step."""

    def __init__(
        self,
        posterior: KernelPosterior,
        added: Callable[[Array], tuple[Array, Array]],
        n_steps: int,
        n_paths: int,
    ) -> None:
        self._posterior, self._added = posterior, added  # mean and variance, correlated like k
        self._length = 0
        rows = [len(posterior.lengthscales), 1, *(len(f.chol) for f in posterior.factors)]
        # z, sigma and the V of each factor, contiguous by input for one path, by path for many
        self._kept = [np.empty((n_steps, r, n_paths)) for r in rows]

    def append(self, X: Array, keep: bool = True) -> tuple[Array, Array]:
        """Means (n_paths,); covariances with the kept inputs and variances, (t + 1, n_paths)."""
        posterior, t = self._posterior, self._length
        kernel, linear = posterior.features(X)
        added_mean, added_var = self._added(X)
        lengthscales = posterior.function_lengthscales
        z = linear[:-1] / lengthscales[:, None]
        now = [z, np.sqrt(added_var)[None], *posterior.whiten(kernel, linear)]
        for kept, new in zip(self._kept, now, strict=True):
            kept[t] = new
        self._length += keep
        past, std, *whitened = (kept[: t + 1] for kept in self._kept)
        away = past - z
        out = np.exp(-0.5 * np.einsum("tdn,tdn->tn", away, away))
        out *= std[:, 0] * std[t, 0]
        linear_var = posterior.linear_var[:-1] * lengthscales**2
        out += _products(past, linear_var[:, None] * z) + posterior.linear_var[-1]
        for factor, V in zip(posterior.factors, whitened, strict=True):
            out += factor.sign * _products(V, V[t])
        return posterior.mean_of(kernel, linear) + added_mean, np.asarray(out)

    def take(self, paths: Positions) -> None:
        """Keep these paths, in this order; repeats are allowed."""
        for i, kept in enumerate(self._kept):
            self._kept[i] = np.empty((*kept.shape[:2], len(paths)))
            self._kept[i][: self._length] = kept[: self._length][..., paths]


def _functions(
    posterior: KernelPosterior, weights: Array, prior: PriorDraws | None
) -> FunctionSample:
    """Functions a f_0(x / l) + phi(x) . w: f_0 from the prior, a column of weights each."""
    m, amplitude = len(posterior.centers), float(np.sqrt(posterior.kernel_var))
    center_factors, _ = exponent_factors((posterior.centers / posterior.lengthscales).T)
    kernel_weights = np.asfortranarray(weights[:m])
    slopes, intercepts = weights[m:-1].T, weights[-1] + posterior.output_offset

    def values_of_each(X: Array) -> Array:
        """Value (n,) of each function at an input of its own, a row of X (n, d)."""
        inputs = X - posterior.input_offset
        values = intercepts + np.einsum("nd,nd->n", slopes, inputs)
        Z = (inputs / posterior.lengthscales).T
        _, input_factors = exponent_factors(Z)
        for i, group in enumerate(sharing(len(X))):
            if m:
                kernel = dgemm(1.0, center_factors, input_factors[:, group], trans_a=1)  # (m, k)
                np.exp(kernel, out=kernel)
                values[group] += np.einsum("mk,mk->k", kernel, kernel_weights[:, group])
            if prior is not None:
                values[group] += amplitude * prior.along(Z[:, group], i)
        return np.asarray(values)

    return values_of_each


def _products(past: Array, now: Array) -> Array:
    """Inner products of (t, r, n) with (r, n) over r, one for each path: (t, n)."""
    if now.shape[1] == 1:
        return np.asarray(past[..., 0] @ now)
    return np.asarray(np.einsum("trn,rn->tn", past, now))
