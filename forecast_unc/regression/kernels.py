"""The squared-exponential kernel with one length-scale an input (ARD), and Cholesky factors."""

from collections.abc import Iterator

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dgemm, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri

from forecast_unc._checks import refusal
from forecast_unc._typing import Array

# Edge of a tile of a symmetric matrix; it stays in the second-level cache. OpenBLAS shares products
# above some 10^4 results between threads: nothing gained on thin ones, on a busy machine 30 times
# slower.
TILE = 90


def squared_exponential(X1: Array, X2: Array, lengthscales: Array) -> Array:
    """Kernel exp(-|(x - x') / l|^2 / 2) of rows, (n1, n2), Fortran; center X1, for the digits."""
    if not (len(X1) and len(X2)):
        return np.zeros((len(X1), len(X2)), order="F")
    left, _ = exponent_factors((X1 / lengthscales).T)
    _, right = exponent_factors((X2 / lengthscales).T)
    kernel: Array = dgemm(1.0, left, right, trans_a=1)
    np.minimum(kernel, 0.0, out=kernel)  # of the largest 1 in spite of roundoff
    np.exp(kernel, out=kernel)
    if X1 is X2:
        np.fill_diagonal(kernel, 1.0)
    return kernel


def exponent_factors(Z: Array) -> tuple[Array, Array]:
    """Two (d + 2, n), left' right = z_i.z_j - |z_i|^2 / 2 - |z_j|^2 / 2 of the columns of Z."""
    d, n = Z.shape
    left, right = np.empty((d + 2, n), order="F"), np.empty((d + 2, n), order="F")
    left[:d] = right[:d] = Z
    left[d] = right[d + 1] = -0.5 * np.einsum("ij,ij->j", Z, Z)
    left[d + 1] = right[d] = 1.0
    return left, right


def blurred(lengthscales: Array, amplitude: float, var: Array) -> tuple[Array, float]:
    """Length-scales (d,) and amplitude of the mean kernel under noise of variances v (d,)."""
    ratio = 1.0 + var / lengthscales**2
    return lengthscales * np.sqrt(ratio), float(amplitude * np.exp(-0.25 * np.log(ratio).sum()))


def lower_tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles that cover the lower triangle, and the diagonal, of (n, n)."""
    blocks = [slice(start, min(n, start + TILE)) for start in range(0, n, TILE)]
    for j, columns in enumerate(blocks):
        for rows in blocks[j:]:
            yield rows, columns


def reshaped(scratch: Array, rows: slice, columns: slice) -> Array:
    """A tile's shape laid on kept memory: fresh pages for it cost as much as its numbers."""
    shape = rows.stop - rows.start, columns.stop - columns.start
    return scratch[: shape[0] * shape[1]].reshape(shape, order="F")


def factor(K: Array, noise_std: float) -> Array:
    """Lower Cholesky factor of a covariance, which it overwrites, or an error about the noise."""
    chol, info = dpotrf(K, lower=1, clean=1, overwrite_a=1)
    if info:
        must = "keep the covariance positive definite"
        got = f"a factorization that fails at row {info} with {noise_std:.3g}"
        raise refusal("noise_std", must, got, "Give a larger noise_std.")
    return np.asarray(chol)


def inverse(chol: Array, overwrite: bool = False) -> Array:
    """Lower triangle of (L L')^-1, Fortran, no meaning above."""
    return np.asarray(dpotri(chol, lower=1, overwrite_c=overwrite)[0])


def mirrored(lower: Array) -> Array:
    """The symmetric matrix of a lower triangle; what is above is not read."""
    out: Array = np.tril(lower)
    out += np.tril(out, -1).T
    return out


def symmetric(product: Array) -> Array:
    """A matrix that is symmetric up to roundoff, without it."""
    return np.asarray(0.5 * (product + product.T))


def extended(chol: Array, cross: Array, block: Array) -> Array:
    """Lower Cholesky factor (n + k) of a covariance with k more rows, O(n^2) each.

    `cross` (n, k) is between the rows of `chol` and the new ones, `block` (k, k) among the new.
    """
    n, k = cross.shape
    out = np.zeros((n + k, n + k), order="F")
    half: Array = dtrsm(1.0, chol, cross, lower=1)
    corner, info = dpotrf(block - dgemm(1.0, half, half, trans_a=1), lower=1, clean=1)
    if info:
        raise LinAlgError(f"the matrix is not positive definite at row {n + info}")
    out[:n, :n], out[n:, :n], out[n:, n:] = chol, half.T, corner
    return out


def lower_root(cov: Array) -> Array:
    """Lower triangular root (m, m) of a covariance of any rank; without pivots draws nest in m."""
    std = np.sqrt(np.diagonal(cov))
    unit = np.where(std > 0, std, 1.0)
    left, root = cov / np.outer(unit, unit), np.zeros_like(cov)
    for i in range(len(cov)):
        if left[i, i] > 1e-12:  # of its own beside those before it: below, it is roundoff
            root[i:, i] = left[i:, i] / np.sqrt(left[i, i])
            left -= np.outer(root[:, i], root[:, i])
    return np.asarray(unit[:, None] * root)
