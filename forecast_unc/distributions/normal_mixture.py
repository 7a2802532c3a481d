"""Steps of which one of several joint normal distributions is right: theory/hyperparameters.md."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.marginals import Affine, Chain, Link, newton


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """Joint normal distributions of h steps, of which one is right."""

    p: Array  # (k,), probability of each; they add up to 1
    means: Array  # (k, h)
    covs: Array  # (k, h, h)

    @cached_property
    def mean(self) -> Array:
        """Mean of each step, (h,)."""
        return np.asarray(self.p @ self.means)

    @cached_property
    def between(self) -> Array:
        """Covariance of the means, (h, h)."""
        away = self.means - self.mean
        return np.asarray((self.p * away.T) @ away)

    @cached_property
    def cov(self) -> Array:
        """Joint covariance of the steps, (h, h)."""
        return np.asarray(np.tensordot(self.p, self.covs, 1) + self.between)

    def mapped(self, matrix: Array, shift: float = 0.0) -> "NormalMixture":
        """The mixture of ``matrix @ y + shift``, of the same probabilities."""
        means = self.means @ matrix.T + shift
        return NormalMixture(self.p, means, matrix @ self.covs @ matrix.T)

    def conditioned(self, at: Positions, values: Array, rest: Positions) -> "NormalMixture":
        """The mixture of the other steps once those at some positions are known."""
        log_p, means, covs = np.log(self.p), [], []
        for k, (mean, cov) in enumerate(zip(self.means, self.covs, strict=True)):
            chol = np.linalg.cholesky(cov[np.ix_(at, at)])
            away = np.linalg.solve(chol, values - mean[at])
            cross = np.linalg.solve(chol, cov[np.ix_(at, rest)])
            log_p[k] -= 0.5 * away @ away + np.log(np.diagonal(chol)).sum()
            means.append(mean[rest] + cross.T @ away)
            covs.append(cov[np.ix_(rest, rest)] - cross.T @ cross)
        p = np.exp(log_p - logsumexp(log_p))
        return NormalMixture(p, np.array(means), np.array(covs))

    def chain(self) -> Chain:
        """Map from normal scores to steps: the shape in units of the std, from the median on."""
        std, used = np.sqrt(self.cov.diagonal()), self.p > 0.0
        log_p, means = np.log(self.p[used]), self.means[used] / std
        stds = np.sqrt(self.covs[used].diagonal(axis1=1, axis2=2)) / std
        center = MixtureShape(log_p, means, stds)(np.zeros((1, 1)))[:, 0]
        return MixtureShape(log_p, means - center, stds), Affine(std * center, std)


@dataclass(frozen=True, eq=False)
class MixtureShape(Link):
    r"""The link T with :math:`\sum_k p_k \Phi((T(z) - m_k) / s_k) = \Phi(z)` at each step."""

    log_p: Array  # (k,)
    means: Array  # (k, h)
    stds: Array  # (k, h)

    def __call__(self, x: Array) -> Array:
        k, h = self.means.shape
        x = np.broadcast_to(x, (h, x.shape[1]))
        side = np.where(x > 0.0, -1.0, 1.0)  # by symmetry all are in the lower tail
        means = (self.means[:, :, None] * side).reshape(k, -1)
        stds = np.repeat(self.stds, x.shape[1], axis=1)
        # A root in the score, between the quantiles of the normals, and where p_k Phi((t - m_k) /
        # s_k) is no more than Phi(x): far out that leaves next to no room.
        known, log_p = np.isfinite(x).ravel(), self.log_p[:, None]
        z = np.where(known, -np.abs(x).ravel(), 0.0)
        each = means + stds * z
        most = means + stds * ndtri_exp(np.minimum(log_ndtr(z) - log_p, 0.0))
        low, high = each.min(axis=0), np.minimum(each.max(axis=0), most.min(axis=0))

        def excess(t: Array) -> tuple[Array, Array]:
            u = (t - means) / stds
            score = ndtri_exp(_log_sum(log_p + log_ndtr(u)))
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # between far parts
                return score - z, _steepness(log_p, u, stds, score)

        t = np.where(known, newton(excess, low, high, np.exp(self.log_p) @ each), -np.inf)
        return np.asarray(side * t.reshape(x.shape))

    def slope(self, x: Array) -> Array:
        stds = self.stds[:, :, None]
        u = (self(x) - self.means[:, :, None]) / stds
        with np.errstate(divide="ignore"):  # beyond what the density of a float is
            return np.asarray(1.0 / _steepness(self.log_p[:, None, None], u, stds, x))

    def inverse(self, y: Array) -> Array:
        """The z with Phi(z) = F(y), from the nearer tail for its digits."""
        u = (y - self.means[:, :, None]) / self.stds[:, :, None]
        below, above = (_log_sum(self.log_p[:, None, None] + log_ndtr(v)) for v in (u, -u))
        return np.asarray(np.where(below < above, ndtri_exp(below), -ndtri_exp(above)))

    def kinks(self) -> Array:
        """Scores at which one normal gives way to another: smooth there, but steep."""
        return self.inverse(np.vstack([self.means - 3 * self.stds, self.means + 3 * self.stds]).T)

    def __getitem__(self, at: Positions) -> Self:
        return type(self)(self.log_p, self.means[:, at], self.stds[:, at])


def _steepness(log_p: Array, u: Array, stds: Array, score: Array) -> Array:
    """Derivative in t of the score, f(t) / phi(z), from u = (t - m) / s."""
    log_density = _log_sum(log_p - 0.5 * u**2 - np.log(stds))
    # far out the difference of the squares is roundoff
    return np.asarray(np.exp(np.minimum(log_density + 0.5 * score**2, 700.0)))


def _log_sum(terms: Array) -> Array:
    """log sum exp over the first axis; a twentieth of the time of SciPy's, for ten terms."""
    most = np.maximum(terms.max(axis=0), np.finfo(np.float64).min)
    with np.errstate(divide="ignore"):
        return np.asarray(most + np.log(np.exp(terms - most).sum(axis=0)))
