"""Exact moments under several Gaussian inputs at once: the products of all of them together.

The equations are those of `moments.departure`, along the axes of the inputs' covariances: with
L^-1/2 S L^-1/2 = Q diag(g) Q' and P = Q' (c - m) / l,

    e_i = 1/2 sum_r g_r / (1 + g_r) P_ri^2 - 1/2 sum_r log(1 + g_r),
    E_ij = sum_r g_r / (1 + 2 g_r) [P_ri P_rj + 1/2 (P_ri^2 + P_rj^2)] - 1/2 sum_r log(1 + 2 g_r).

What is linear in the rows is one product for all inputs. The sum over pairs of rows is taken
tile by tile, so that a tile of the weights is read once for all inputs. Where few of the rows span
the kernels of all of them, the sum goes over pairs of these (`SpanningRows`).
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dpstrf

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.moments import LARGE_EXPONENT, Moments

# Edge of a tile: 128 took 1.02 ms for 1000 rows and 16 inputs, 90 took 1.17. Above some 170
# OpenBLAS shares the thin product between threads.
_TILE = 128
# Variance that the spanning rows leave of the other kernels, times the share of the noise in that
# of the function. At 3 lags of 1000 rows stds after 48 steps were 1e-8 off (noise of .08 of the
# signal) and 7e-12 (.8), with ten times as much 1e-7 and 2e-11. Below the second number it is
# roundoff of the kernel: with a noise of .009 they were 1e-4 off, over all rows 2e-6.
_LEFT, _ROUNDOFF_LEFT = 1e-12, 20.0 * float(np.finfo(np.float64).eps)
# Error of the mean of a kernel, in that variance, from which on an input goes over all rows: it is
# far from them. Of 1000 the variance was 2e-10 wrong.
_WITHIN = 1e3
# Rows that span all must be no more than this share: a half costs a quarter.
_FEW = 0.5
_EPS = float(np.finfo(np.float64).eps)


class SpanningRows(NamedTuple):
    """Rows S whose kernels give those of all rows, k(C, x) = T k(S, x), and their weights."""

    rows: NDArray[np.intp]  # (q,)
    T: Array  # (n, q)
    weights: Array  # (q, q), T' W T
    least: float  # variance that they leave of each kernel at most

    @classmethod
    def of(
        cls, centers: Array, lengthscales: Array, weights: Array, noise_share: float
    ) -> Self | None:
        """The first pivots of a Cholesky factorization of the kernels; None if many are needed.

        Parameters
        ----------
        centers : ndarray of shape (n, d)
            The rows.
        lengthscales : ndarray of shape (d,)
            Of the kernel.
        weights : ndarray of shape (n, n)
            W.
        noise_share : float
            Variance of the noise, in that of the function.

        Returns
        -------
        SpanningRows or None
        """
        n, least = len(centers), _LEFT * min(1.0, noise_share)
        if least < _ROUNDOFF_LEFT:
            return None
        kernel = squared_exponential(centers, centers, lengthscales)
        factor, pivot, q, _ = dpstrf(kernel, lower=1, tol=least)
        factor, pivot = np.tril(factor), pivot - 1  # beyond the first q columns nothing is meant
        if q > _FEW * n:
            return None
        T = np.empty((n, q), order="F")
        # of the first q columns: L_q^-T on the right
        T[pivot] = dtrsm(1.0, factor[:q, :q], factor[:, :q], side=1, lower=1)
        pushed = dgemm(1.0, T, dgemm(1.0, weights, T), trans_a=1)
        return cls(pivot[:q], T, 0.5 * (pushed + pushed.T), least)


class WeightedKernels(NamedTuple):
    """What the moments of a kernel posterior are made of; see `KernelPosterior`."""

    centers: Array  # (n, d)
    lengthscales: Array  # (d,)
    weights: Array  # (n + d + 1,), w
    second_moment: tuple[Array, Array, Array]  # blocks of W = G + w w'
    span: SpanningRows | None


class Inputs(NamedTuple):
    """Several Gaussian inputs, and the plain prediction at their means."""

    mean: Array  # (B, d), measured from the posterior's offset
    cov: Array  # (B, d, d)
    kernel: Array  # (n, B), of the means
    plain: Array  # (B,), w.phi at the means
    var: Array  # (B,), of an observation there


def moments_abreast(
    kernels: WeightedKernels, inputs: Inputs, most_roundoff: float
) -> list[Moments | None]:
    """Exact moments of an observation for each input, less the posterior's output offset.

    Parameters
    ----------
    kernels : WeightedKernels
        The posterior.
    inputs : Inputs
        B inputs.
    most_roundoff : float
        Share of a variance that may be roundoff, by the estimate of `moments.departure`.

    Returns
    -------
    list of Moments or None
        None where more is, or exponents are beyond what is summed here.
    """
    n, w = len(kernels.centers), kernels.weights
    kk, kl, ll = kernels.second_moment
    axes = _along_axes(kernels, inputs)
    P, g, half_norm = axes.rows, axes.g, axes.half_norm
    half_log_det = 0.5 * np.log1p(2.0 * g).sum(axis=1)
    k = np.ascontiguousarray(inputs.kernel.T)
    q, change = k * np.exp(axes.e), k * np.expm1(axes.e)
    spread = k**2 * np.expm1(4.0 * half_norm - half_log_det[:, None])  # of E_ii
    roundoff = _EPS * np.sqrt(np.abs(np.diagonal(kk) * spread)).sum(axis=1) ** 2
    slopes = _slopes(kernels, inputs, axes, q)
    # To first order: no pairs are summed in vain where a step costs ten times more anyway.
    about = inputs.var + np.einsum("bi,bij,bj->b", slopes, inputs.cov, slopes)
    inside = axes.inside & (roundoff <= most_roundoff * about)

    delta = change @ w[:n]
    second = np.einsum("bij,ij->b", inputs.cov, ll[:-1, :-1])
    lifted = inputs.mean @ kl[:, :-1].T + kl[:, -1]  # (B, n)
    second += 2.0 * np.einsum("bi,bi->b", lifted, change)
    pushed = kl[:, axes.uncertain] * kernels.lengthscales[axes.uncertain]
    crossed = (P * q[:, None]) @ pushed  # (B, r, r)
    second += 2.0 * np.einsum("br,bur,bru->b", g / (1.0 + g), axes.Q, crossed)
    z = np.sqrt(g / (1.0 + 2.0 * g))[:, :, None] * P
    second += _pairs(kernels, z, half_norm, half_log_det, k, q, inside)
    var = inputs.var + second - 2.0 * inputs.plain * delta - delta**2
    inside &= roundoff <= most_roundoff * np.abs(var)
    each = zip(inside, inputs.plain + delta, var, slopes, strict=True)
    return [Moments(float(m), float(v), slope) if ok else None for ok, m, v, slope in each]


class _Axes(NamedTuple):
    """Rows along the axes of the inputs' covariances, (B, ...), and their exponents.

    Zero where exponents are beyond what is summed here.
    """

    uncertain: NDArray[np.intp]  # (r,), coordinates
    g: Array  # (B, r)
    Q: Array  # (B, r, r)
    rows: Array  # (B, r, n), P
    e: Array  # (B, n)
    half_norm: Array  # (B, n), half the squared norms of z
    inside: NDArray[np.bool_]  # (B,)


def _along_axes(kernels: WeightedKernels, inputs: Inputs) -> _Axes:
    """The axes of each input, and the rows along them."""
    uncertain = np.flatnonzero(np.diagonal(inputs.cov, axis1=1, axis2=2).any(axis=0))
    scale = kernels.lengthscales[uncertain]
    cov = inputs.cov[:, uncertain[:, None], uncertain]
    g, Q = np.linalg.eigh(cov / np.multiply.outer(scale, scale))
    g = np.maximum(g, 0.0)  # of a semi-definite matrix but for roundoff
    nu = (kernels.centers[:, uncertain] - inputs.mean[:, None, uncertain]) / scale
    P = np.swapaxes(Q, 1, 2) @ np.swapaxes(nu, 1, 2)
    shares = np.stack([g / (1.0 + g), g / (1.0 + 2.0 * g)], axis=1)  # (B, 2, r)
    e, half_norm = 0.5 * np.moveaxis(shares @ P**2, 1, 0)
    e = e - 0.5 * np.log1p(g).sum(axis=1)[:, None]
    inside = 4.0 * half_norm.max(axis=1) <= LARGE_EXPONENT  # E_ij <= 4 max h, e <= 2 h
    for each in (P, e, half_norm):
        each[~inside] = 0.0
    return _Axes(uncertain, g, Q, P, e, half_norm, inside)


def _slopes(kernels: WeightedKernels, inputs: Inputs, axes: _Axes, q: Array) -> Array:
    """Mean slopes (S + L)^-1 sum_i w_i q_i (c_i - m) + w_lin, (B, d)."""
    n = len(kernels.centers)
    wq = q * kernels.weights[:n]
    pull = wq @ kernels.centers - wq.sum(axis=1)[:, None] * inputs.mean
    pull /= kernels.lengthscales
    along = np.swapaxes(axes.Q, 1, 2) @ pull[:, axes.uncertain, None]
    pull[:, axes.uncertain] = (axes.Q @ (along / (1.0 + axes.g)[:, :, None]))[..., 0]
    return np.asarray(pull / kernels.lengthscales + kernels.weights[n:-1])


def _pairs(
    kernels: WeightedKernels,
    z: Array,
    half_norm: Array,
    half_log_det: Array,
    k: Array,
    q: Array,
    inside: NDArray[np.bool_],
) -> Array:
    """Sums over pairs of rows of W_ij k_i k_j expm1(E_ij), one for each input, (B,)."""
    out = np.zeros(len(z))
    all_rows, span = inside, kernels.span
    if span is not None:
        # k(C, x) = T k(S, x) holds as well as it does for the mean of k
        error = np.abs(q - q[:, span.rows] @ span.T.T).max(axis=1)
        few = inside & (error <= _WITHIN * span.least)
        all_rows = inside & ~few
        at = span.rows
        parts = z[few][..., at], half_norm[few][:, at], half_log_det[few], k[few][:, at]
        out[few] = weighted_expm1(span.weights, *parts)
    if all_rows.any():
        parts = z[all_rows], half_norm[all_rows], half_log_det[all_rows], k[all_rows]
        out[all_rows] = weighted_expm1(kernels.second_moment[0], *parts)
    return out


def weighted_expm1(
    weights: Array, z: Array, half_norm: Array, half_log_det: Array, kernel: Array
) -> Array:
    """Sums over i, j of W_ij k_i k_j expm1(z_i.z_j + h_i + h_j - half_log_det), one an input.

    Parameters
    ----------
    weights : ndarray of shape (n, n)
        W, symmetric.
    z : ndarray of shape (B, r, n)
    half_norm : ndarray of shape (B, n)
        h.
    half_log_det : ndarray of shape (B,)
    kernel : ndarray of shape (B, n)
        k.

    Returns
    -------
    ndarray of shape (B,)
    """
    B, r, n = z.shape
    left, right = np.ones((2, B, n, r + 2))  # each input's transposed: columns are contiguous
    left[..., :r] = right[..., :r] = z.swapaxes(1, 2)
    left[..., r] = half_norm - half_log_det[:, None]
    right[..., r + 1] = half_norm
    total = np.zeros(B)
    room = np.empty(_TILE * _TILE)
    starts = range(0, n, _TILE)
    for j in starts:
        columns = slice(j, min(n, j + _TILE))
        for i in range(j, n, _TILE):
            rows = slice(i, min(n, i + _TILE))
            shape = rows.stop - rows.start, columns.stop - columns.start
            tile = room[: shape[0] * shape[1]].reshape(shape, order="F")
            part = np.asfortranarray(weights[rows, columns] * (1.0 if i == j else 2.0))
            for b in range(B):
                dgemm(1.0, left[b, rows].T, right[b, columns].T, trans_a=1, c=tile, overwrite_c=1)
                np.expm1(tile, out=tile)
                np.multiply(tile, part, out=tile)
                total[b] += kernel[b, rows] @ dgemv(1.0, tile, kernel[b, columns])
    return total
