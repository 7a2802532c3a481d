"""The joint distribution of the other steps once some are known, and bands for whole paths."""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from forecast_unc._checks import check_positive, first_true, refusal
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.marginals import REACH, Marginals
from forecast_unc.distributions.sums import sobol_points
from forecast_unc.regression.kernels import lower_root, symmetric

# 2^13 points: probabilities of .5 to .98 were right to .0006 over 24 steps, to .003 over 400.
_LOG_POINTS = 13


def condition(joint: Joint, at: Positions, y: Array, label: Callable[[int], str]) -> Joint:
    """The joint of the steps that are not at some positions, of known values y (n,)."""
    rest = np.setdiff1d(np.arange(len(joint)), at)
    cor = joint.cor[np.ix_(at, at)]
    eigenvalues = np.linalg.eigvalsh(cor)
    # Beyond 1e12 the coefficients would keep fewer than four digits.
    if eigenvalues[0] < 1e-12 * eigenvalues[-1]:
        got = f"correlations with eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"
        must = "hold steps that do not determine each other"
        raise refusal("observed", must, got, "Leave some of them out.")
    known = joint.q[at]
    low, z = (scores[:, 0] for scores in known.jump(y[:, None]))
    if (first := first_true(~np.isfinite(known.nlpd(y)))) is not None:
        place = f"{label(at[first])}, which the forecast excludes or lumps together"
        must = "hold values of positive density"
        raise refusal("observed", must, f"{y[first]:g} at {place}", "Leave it out.")
    z, variance = as_observed(cor, low, z)
    cross = joint.cor[np.ix_(rest, at)]
    gain = np.linalg.solve(cor + np.diag(variance), cross.T).T
    cov = symmetric(joint.cor[np.ix_(rest, rest)] - gain @ cross.T)
    check_positive(cov, lambda i: label(rest[i]))
    std = np.sqrt(cov.diagonal())
    return Joint.of(joint.q[rest].at_scores(gain @ z, std), cov / np.outer(std, std))


def as_observed(cor: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Observations, and variances of their errors, that stand for scores between two ends (n,)."""
    # By expectation propagation (theory/transforms.md): given all others, mean and variance of a
    # limited score are those of the truncated normal; with one limit those of all are exact.
    limited = high - low > 1e-4  # nearer, the score is known: its variance would be roundoff
    observed, variance = np.where(limited, 0.0, high), np.where(limited, 1.0, 0.0)
    places = np.flatnonzero(limited)
    for _ in range(200 if len(places) else 0):
        before = variance[places]
        inverse = np.linalg.inv(cor + np.diag(variance))
        for i in places:
            # mean and variance of z_i given the others
            mean = observed[i] - (inverse[i] @ observed) / inverse[i, i]
            var = 1.0 / inverse[i, i] - variance[i]
            shift, share = _truncated(*((np.array([low[i], high[i]]) - mean) / np.sqrt(var)))
            share = np.clip(share, 1e-9, 1.0 - 1e-9)  # beyond, it would be roundoff
            replaced = variance[i]
            variance[i] = var * (1.0 - share) / share  # not by a sum, which could round it to 0
            change = variance[i] - replaced
            observed[i] = mean + np.sqrt(var) * shift / share
            column = inverse[:, i].copy()
            inverse -= np.outer(column, column * (change / (1.0 + change * column[i])))
        change_of_precision = np.abs(1.0 / variance[places] - 1.0 / before)
        if (change_of_precision <= 1e-9 * (1.0 + 1.0 / before)).all():
            break
    return observed, variance


def _truncated(low: float, high: float) -> tuple[float, float]:
    """Mean of a normal between two ends, and the share of its variance that is lost."""
    if low > 0.0:  # from the nearer tail, where small probabilities keep their digits
        mean, share = _truncated(-high, -low)
        return -mean, share
    log_p = log_ndtr(high)
    if np.isfinite(low):
        log_p += np.log1p(-np.exp(log_ndtr(low) - log_p))
    ends = np.array([low, high])[np.isfinite([low, high])]
    sign = np.where(ends == high, -1.0, 1.0)
    density = sign * np.exp(-0.5 * ends**2 - 0.5 * np.log(2.0 * np.pi) - log_p)
    mean = float(density.sum())
    return mean, float(mean**2 - density @ ends)


def reach_of_all(cor: Array, coverage: float) -> float:
    """The reach within which all scores stay with a given probability."""
    h = len(cor)
    # The bounds hold whatever the correlations (Z. Sidak, JASA 62 (1967) 626-633).
    one, independent = -ndtri(0.5 * (1 - coverage)), -ndtri(-0.5 * np.expm1(np.log(coverage) / h))
    root, points = lower_root(cor), sobol_points(h, _LOG_POINTS)

    @cache
    def excess(reach: float) -> float:
        return probability_within(root, reach, points) - coverage

    if excess(one) >= 0.0:  # all are one and the same
        return float(one)
    if excess(independent) <= 0.0:  # independent, but for the error of the quadrature
        return float(independent)
    return float(brentq(excess, one, independent, xtol=1e-4))


def reach_of_paths(q: Marginals, paths: Array, coverage: float) -> float:
    """The reach within which a share of the paths (h, n) stays."""
    first, last = q.jump(paths)
    reach = np.maximum(first, -last).max(axis=0).clip(0.0, REACH)
    return float(np.quantile(reach, coverage, method="inverted_cdf"))


def probability_within(root: Array, reach: float, points: Array | None = None) -> float:
    """Probability that all scores L x are in reach, by points (h, n): theory/questions.md."""
    w = sobol_points(len(root), _LOG_POINTS) if points is None else points
    x, product = np.empty_like(w), np.ones(w.shape[1])
    for t, row in enumerate(root):
        center, scale = row[:t] @ x[:t], max(row[t], 1e-12)  # 0 where those before determine it
        low, high = (-reach - center) / scale, (reach - center) / scale
        below, within = ndtr(low), ndtr(high) - ndtr(low)
        product *= within
        x[t] = np.clip(ndtri(below + w[t] * within), low, high)  # finite where nothing is within
    return float(product.mean())
