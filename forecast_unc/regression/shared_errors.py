"""Errors that targets and inputs of several rows have in common, as those of lagged values do."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, find, tril

from forecast_unc._typing import Array
from forecast_unc.regression.evidence import CorrelatedErrors


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """Errors of n rows as linear maps of independent ones, N in all.

    Parameters
    ----------
    targets : ndarray of int of shape (n, k)
        Which of the errors each target has.
    target_weights : ndarray of shape (k,)
        Their weights there.
    inputs : ndarray of int of shape (n, m)
        Which of them the inputs of each row have.
    input_weights : ndarray of shape (q, m)
        Their weights in the first q <= d inputs; the others are known.
    known_var : ndarray of shape (N,)
        Their variances besides the one that is learned, in squares of the target's unit.
    """

    targets: NDArray[np.intp]
    target_weights: Array
    inputs: NDArray[np.intp]
    input_weights: Array
    known_var: Array

    def in_rows(self, slopes: Array) -> csr_array:
        """The matrix B of shape (n, N), with the slopes (n, d) of the function at the rows."""
        through = -slopes[:, : len(self.input_weights)] @ self.input_weights
        own = np.broadcast_to(self.target_weights, self.targets.shape)
        values, columns = np.hstack([own, through]), np.hstack([self.targets, self.inputs])
        n, k = columns.shape
        shape = (n, len(self.known_var))
        return csr_array((values.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape)

    def in_inputs(self, errors: Array) -> Array:
        """Errors (n, q) of the inputs that have some, from the errors (N,)."""
        return np.asarray(errors[self.inputs] @ self.input_weights.T)

    def first(self, m: int) -> Self:
        """Those of the first m rows alone."""
        return replace(self, targets=self.targets[:m], inputs=self.inputs[:m])

    def covariance(self, slopes: Array, unit: float = 1.0) -> CorrelatedErrors:
        """Their covariance in the rows, with the variances in squares of a unit."""
        B = self.in_rows(slopes)
        i, j, shape = find(tril(B @ B.T))
        known = ((B * (self.known_var / unit**2)) @ B.T).tocsr()
        entries: Array = np.asarray(known[i, j]).ravel()
        return CorrelatedErrors(i.astype(np.intp), j.astype(np.intp), shape, entries)
