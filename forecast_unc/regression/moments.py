"""Moments under a Gaussian input as departures from plain values: theory/one_step.md."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dpotrf, dpstrf

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import TILE, exponent_factors, lower_tiles, reshaped

# exp overflows at 709: beyond this kernel values, which underflow there, are multiplied in first.
LARGE_EXPONENT = 300.0
_EPS = float(np.finfo(np.float64).eps)


class Departure(NamedTuple):
    """Departure of the moments under N(m, S) from the plain values at m."""

    mean: float  # E[w.phi(x)] - w.phi(m)
    second: float  # tr[(G + w w') (E[phi phi'] - phi(m) phi(m)')]
    slope: Array  # (d,), E[d w.phi / dx]
    roundoff: float = 0.0  # of `second`, an upper estimate


Tile = tuple[slice, slice, Array]
"""Rows and columns of a part of the lower triangle of a symmetric matrix, and its values."""

# The blocks of G + w w': kernel-kernel by its tiles, with its diagonal, kernel-linear and
# linear-linear.
SecondMoment = tuple[Sequence[Tile], Array, Array, Array]


class MeanFeatures(NamedTuple):
    """Mean kernel features q_i = E[k_i(x)] under N(m, S), in the letters of `departure`."""

    log_kernel: Array  # (m,), log k_i(m)
    kernel: Array  # (m,), k_i(m)
    projected: Array  # (r, m), p_i = F' (c_i - m) / l
    pulled: Array  # (r, m), (I + F'F)^-1 p_i
    log_mean: Array  # (m,), log q_i
    mean: Array  # (m,), q_i
    change: Array  # (m,), q_i - k_i(m)


def covariance_root(cov: Array) -> Array:
    """F (d, rank), F F' = cov, by pivoted Cholesky: lags still observed cost nothing."""
    # Of the correlations, so that the numerical rank does not depend on the inputs' units.
    std = np.sqrt(np.diagonal(cov))
    unit = np.where(std > 0, std, 1.0)
    factor, pivot, rank, _ = dpstrf(cov / np.outer(unit, unit), lower=1)
    root = np.zeros((len(cov), rank), order="F")
    root[pivot - 1] = np.tril(factor)[:, :rank]
    root *= unit[:, None]
    return root


def departure(
    mean: Array,
    root: Array,  # (d, r), of S
    scaled: Array,  # (d, m), (c_i - m) / l
    lengthscales: Array,
    weights: Array,
    second_moment: SecondMoment,
) -> Departure:
    """Departure of the first two moments from the plain prediction, in length-scales S = F F'."""
    m = scaled.shape[1]
    tiles, diagonal, kl, ll = second_moment
    second = np.einsum("ar,br,ab->", root, root, ll[:-1, :-1])
    if not root.shape[1]:  # S = 0
        kernel = np.exp(-0.5 * np.einsum("ij,ij->j", scaled, scaled))
        slope = scaled @ (weights[:m] * kernel) / lengthscales + weights[m:-1]
        return Departure(0.0, 0.0, slope)
    if not m:
        return Departure(0.0, float(second), weights[:-1].copy())

    F = root / lengthscales[:, None]  # (d, r)
    features = mean_features(F, scaled)
    kernel, change = features.kernel, features.change
    delta = weights[:m] @ change
    # slope: (S + L)^-1 (c - m) = D (I + F F')^-1 zeta, D = diag(1 / l)
    wq = weights[:m] * features.mean
    slope = dgemv(1.0, scaled, wq) - F @ dgemv(1.0, features.pulled, wq)
    slope = slope / lengthscales + weights[m:-1]

    # kernel-linear, twice by symmetry; B^-1 S nu_i = l F (I + F'F)^-1 p_i = root pulled_i
    second += 2.0 * (kl @ np.append(mean, 1.0)) @ change
    second += 2.0 * np.einsum("ir,ri,i->", kl[:, :-1] @ root, features.pulled, features.mean)

    # kernel-kernel: E_ij = z_i . z_j + (|z_i|^2 + |z_j|^2) / 2 - log|R| / 2
    chol, half_log_det = _cholesky_of_identity_plus(2.0 * F.T @ F)
    z: Array = dtrsm(1.0, chol, features.projected, lower=1)
    second += _weighted_expm1(tiles, kernel, features.log_kernel, z, half_log_det)
    # |W_ij D_ij| as for positive semi-definite W and D: an upper estimate, by up to a factor of
    # 100, wherever the sum was compared with 80 digits
    exponent = 2.0 * np.einsum("ij,ij->j", z, z) - half_log_det  # E_ii
    spread = np.exp(2.0 * features.log_kernel + exponent) - kernel**2
    roundoff = _EPS * np.sqrt(np.abs(diagonal * spread)).sum() ** 2
    return Departure(float(delta), float(second), slope, float(roundoff))


def mean_features(F: Array, scaled: Array) -> MeanFeatures:
    """Mean features from the input's root in length-scales F (d, r) and (c_i - m) / l (d, m)."""
    log_kernel = -0.5 * np.einsum("ij,ij->j", scaled, scaled)
    kernel = np.exp(log_kernel)
    p: Array = dgemm(1.0, F, scaled, trans_a=1)
    # e_i: nu' B^-1 S nu = |u_i|^2 with u_i = chol(I + F'F)^-1 p_i
    chol, half_log_det = _cholesky_of_identity_plus(F.T @ F)
    u: Array = dtrsm(1.0, chol, p, lower=1)
    e = 0.5 * np.einsum("ij,ij->j", u, u) - half_log_det
    # q_i = k_i exp(e_i) <= 1, though exp(e_i) alone may overflow far from the data
    q = np.exp(log_kernel + e)
    change = np.where(e < LARGE_EXPONENT, kernel * np.expm1(np.minimum(e, 700.0)), q - kernel)
    pulled: Array = dtrsm(1.0, chol, u, lower=1, trans_a=1)
    return MeanFeatures(log_kernel, kernel, p, pulled, log_kernel + e, q, change)


def contiguous_tiles(matrix: Array) -> list[Tile]:
    """Copies of the tiles of the lower triangle, each in one piece: 6.4 ms a step, not 7.4."""
    return [(*at, np.asfortranarray(matrix[at])) for at in lower_tiles(len(matrix))]


def _cholesky_of_identity_plus(gram: Array) -> tuple[Array, float]:
    """Lower Cholesky factor of I + gram and half its log determinant."""
    chol, _ = dpotrf(np.eye(len(gram)) + gram, lower=1)
    return chol, float(np.log(np.diagonal(chol)).sum())


def _weighted_expm1(
    tiles: Sequence[Tile], kernel: Array, log_kernel: Array, z: Array, half_log_det: float
) -> float:
    """Sum over i, j of W_ij k_i k_j expm1(E_ij), in tiles of half the matrix that stay in cache."""
    half_norm = 0.5 * np.einsum("ij,ij->j", z, z)
    left, right = exponent_factors(z)
    left[-2], right[-1] = half_norm - half_log_det, half_norm
    overflows = 4.0 * half_norm.max() > LARGE_EXPONENT  # E_ij <= |z_i|^2 + |z_j|^2
    total, scratch = 0.0, np.empty(TILE**2)
    for rows, columns, weights in tiles:
        # the exponents and then the products live in one tile: no other large array
        tile = reshaped(scratch, rows, columns)
        dgemm(1.0, left[:, rows], right[:, columns], trans_a=1, c=tile, overwrite_c=1)
        part = 0.0
        if overflows:
            large = tile > LARGE_EXPONENT
            at, to = np.nonzero(large)
            at, to = at + rows.start, to + columns.start
            combined = np.exp(log_kernel[at] + log_kernel[to] + tile[large])
            part += float(weights[large] @ (combined - kernel[at] * kernel[to]))
            tile[large] = 0.0
        np.expm1(tile, out=tile)
        tile *= weights
        part += float(kernel[rows] @ dgemv(1.0, tile, kernel[columns]))
        total += part if rows == columns else 2.0 * part
    return total
