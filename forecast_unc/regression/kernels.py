"""The squared-exponential kernel with one length-scale per input (ARD), in BLAS-sized pieces."""

from collections.abc import Iterator

import numpy as np
from scipy.linalg.blas import dgemm

from forecast_unc._typing import Array

# Edge of a tile of a symmetric matrix; it stays in the second-level cache. OpenBLAS shares
# products above some 10^4 results between threads, which gains nothing on thin ones, and on
# a busy machine lost a factor of 30.
TILE = 90


def squared_exponential(X1: Array, X2: Array, lengthscales: Array) -> Array:
    r"""Kernel matrix of two sets of inputs, in Fortran order.

    .. math:: k(x, x') = \exp\bigl[-\tfrac12 \textstyle\sum_j (x_j - x'_j)^2 / l_j^2\bigr]

    Parameters
    ----------
    X1 : ndarray of shape (n1, d)
        First inputs. Keep them centered: the squared distance is expanded into
        three terms, whose roundoff grows with the squared distance from zero.
    X2 : ndarray of shape (n2, d)
        Second inputs.
    lengthscales : ndarray of shape (d,)
        Length-scale of each input, in its units.

    Returns
    -------
    ndarray of shape (n1, n2)
        At most 1, and exactly 1 on the diagonal if X1 is X2.
    """
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
    """Two matrices whose product is minus half the squared distances of the columns of Z.

    With z_i a column, left_i . right_j = z_i . z_j - |z_i|^2 / 2 - |z_j|^2 / 2, so that one
    matrix product gives the whole exponent and no broadcast pass over it is needed.

    Parameters
    ----------
    Z : ndarray of shape (d, n)
        Inputs divided by their length-scales, one column each.

    Returns
    -------
    left, right : ndarray of shape (d + 2, n)
    """
    d, n = Z.shape
    left, right = np.empty((d + 2, n), order="F"), np.empty((d + 2, n), order="F")
    left[:d] = right[:d] = Z
    left[d] = right[d + 1] = -0.5 * np.einsum("ij,ij->j", Z, Z)
    left[d + 1] = right[d] = 1.0
    return left, right


def lower_tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles that cover the lower triangle of an (n, n) matrix.

    Those on the diagonal have equal rows and columns, and an upper half that is no part of
    the triangle.

    Parameters
    ----------
    n : int
        Rows of the matrix.

    Yields
    ------
    rows, columns : slice
    """
    blocks = [slice(start, min(n, start + TILE)) for start in range(0, n, TILE)]
    for j, columns in enumerate(blocks):
        for rows in blocks[j:]:
            yield rows, columns


def reshaped(scratch: Array, rows: slice, columns: slice) -> Array:
    """A tile's shape laid on kept memory: fresh pages for it cost as much as its numbers."""
    shape = rows.stop - rows.start, columns.stop - columns.start
    return scratch[: shape[0] * shape[1]].reshape(shape, order="F")
