"""What the parts of a reduced-rank process share: the centers' kernel matrix, blocks of rows."""

from collections.abc import Iterator

from scipy.linalg.lapack import dpotrf

from forecast_unc._typing import Array
from forecast_unc.regression.kernels import squared_exponential

JITTER = 1e-8
"""Variance of an error of the function's value at each center, in squared amplitudes.

Centers that nearly coincide would make the matrix of their kernels singular. The model with these
errors is a model too: evidence, gradient and posterior are exactly its own. The centers leave the
function no more than this variance there, that of the least noise of `GPRegressor`. With 1e-6 the
error of a smooth function without noise was 7e-4 in the place of 1.5e-4 (2000 rows, 200 centers).
"""

# Rows of a block: (500, 512) numbers take 2 MB. Products of 256 to 1024 columns ran at the same
# rate, 2048 were 4 % to 10 % slower.
BLOCK = 512


def row_blocks(n: int) -> Iterator[slice]:
    """Slices of `BLOCK` rows that cover n rows.

    Parameters
    ----------
    n : int
        Rows.

    Yields
    ------
    slice
    """
    for start in range(0, n, BLOCK):
        yield slice(start, min(n, start + BLOCK))


def center_root(centers: Array, lengthscales: Array) -> Array:
    """Lower Cholesky factor of the kernel matrix of the centers, `JITTER` on its diagonal.

    Parameters
    ----------
    centers : ndarray of shape (m, d)
        Centers.
    lengthscales : ndarray of shape (d,)
        Length-scales.

    Returns
    -------
    ndarray of shape (m, m)
        In Fortran order, zeros above the diagonal.
    """
    kernel = squared_exponential(centers, centers, lengthscales)
    kernel.ravel(order="K")[:: len(kernel) + 1] += JITTER
    chol, _ = dpotrf(kernel, lower=1, clean=1, overwrite_a=1)
    out: Array = chol
    return out
