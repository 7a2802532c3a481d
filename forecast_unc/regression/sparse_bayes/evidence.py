"""Log evidence of a sparse Bayesian model, with two derivatives, from a Gram matrix."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri

from forecast_unc._typing import Array


class Evidence:
    """Log evidence of active columns, as a function of log alpha and log s^2.

    Works on Phi' Phi, Phi' y and y' y of the active columns, so that a call costs O(m^3),
    whatever the number of rows.

    Parameters
    ----------
    gram : ndarray of shape (m, m)
        Phi' Phi.
    projection : ndarray of shape (m,)
        Phi' y.
    y_squared : float
        y' y.
    n : int
        Number of rows.
    """

    def __init__(self, gram: Array, projection: Array, y_squared: float, n: int) -> None:
        self.gram = gram
        self.projection = projection
        self.y_squared = y_squared
        self.n = n

    @classmethod
    def of(cls, Phi: Array, y: Array) -> "Evidence":
        """Evidence of the columns of Phi (n, m)."""
        Phi = np.asfortranarray(Phi)
        gram: Array = dgemm(1.0, Phi, Phi, trans_a=1)
        return cls(gram, dgemv(1.0, Phi, y, trans=1), float(y @ y), len(y))

    def select(self, kept: "NDArray[np.intp] | NDArray[np.bool_] | list[int]") -> "Evidence":
        """The same for some of the columns, by index or by mask."""
        gram = np.asfortranarray(self.gram[kept][:, kept])
        return Evidence(gram, self.projection[kept], self.y_squared, self.n)

    def factor(self, alpha: Array, log_var: float) -> tuple[Array, Array, float, float] | None:
        """Cholesky factor of Sigma^-1, mean, squared residual and log evidence.

        None where the matrix is not numerically positive definite.
        """
        beta = np.exp(-log_var)
        if not len(alpha):  # BLAS refuses empty arrays
            value = -0.5 * (self.n * (np.log(2.0 * np.pi) + log_var) + beta * self.y_squared)
            return np.empty((0, 0), order="F"), alpha, self.y_squared, float(value)
        precision = beta * self.gram
        precision.ravel(order="K")[:: len(alpha) + 1] += alpha
        chol, info = dpotrf(precision, lower=1, clean=1, overwrite_a=1)
        if info:
            return None
        half = dtrsm(beta, chol, self.projection[:, None], lower=1)
        mean: Array = dtrsm(1.0, chol, half, lower=1, trans_a=1)[:, 0]
        # |y - Phi mu|^2 from the Gram matrix
        squares = float(
            self.y_squared - 2.0 * mean @ self.projection + mean @ dgemv(1.0, self.gram, mean)
        )
        squares = max(squares, 1e-14 * self.y_squared)
        log_det = 2.0 * np.log(np.diagonal(chol)).sum() - np.log(alpha).sum()
        value = -0.5 * (
            self.n * (np.log(2.0 * np.pi) + log_var)
            + log_det
            + beta * squares
            + alpha @ (mean * mean)
        )
        return chol, mean, squares, float(value)

    def gradient(self, alpha: Array, log_var: float) -> "EvidenceTerms | None":
        """Value, posterior and gradient; None as for `factor`."""
        factored = self.factor(alpha, log_var)
        if factored is None:
            return None
        chol, mean, squares, value = factored
        inverse = dpotri(chol, lower=1)[0] if len(alpha) else chol
        cov = np.add(
            inverse, inverse.T, order="F"
        )  # the upper triangle is zero, since the factor's is
        cov.ravel(order="K")[:: len(alpha) + 1] = variances = np.diagonal(inverse).copy()
        gamma = 1.0 - alpha * variances
        return EvidenceTerms(
            value,
            chol,
            mean,
            cov,
            variances,
            squares,
            0.5 * (gamma - alpha * mean**2),
            0.5 * (np.exp(-log_var) * squares - self.n + gamma.sum()),
        )


class EvidenceTerms(NamedTuple):
    """Log evidence, posterior of the active weights, and the gradient."""

    value: float
    chol: Array  # (m, m), lower triangular, L L' = Sigma^-1
    mean: Array  # (m,)
    cov: Array  # (m, m), Sigma
    variances: Array  # (m,), its diagonal
    squares: float  # |y - Phi mu|^2
    by_log_alpha: Array  # (m,), (gamma_i - alpha_i mu_i^2) / 2
    by_log_var: float  # (|y - Phi mu|^2 / s^2 - n + sum gamma) / 2

    def hessian(self, alpha: Array, log_var: float) -> Array:
        r"""Second derivatives in (log alpha, log s^2), of shape (m + 1, m + 1).

        .. math::
            \partial^2_{ij} &= \tfrac12[\alpha_i \alpha_j \Sigma_{ij}(\Sigma_{ij} + 2 \mu_i \mu_j)
                - \delta_{ij} \alpha_i (\Sigma_{ii} + \mu_i^2)], \\
            \partial^2_{i\sigma} &= -\tfrac12 \alpha_i [\Sigma_{ii} - (\Sigma A \Sigma)_{ii}
                - 2 \mu_i (\Sigma A \mu)_i], \\
            \partial^2_{\sigma\sigma} &= \tfrac12 [-\beta |e|^2 + 2 \mu' A \Sigma A \mu
                - \textstyle\sum_i \alpha_i (\Sigma_{ii} - (\Sigma A \Sigma)_{ii})]
        """
        m = len(alpha)
        out = np.empty((m + 1, m + 1), order="F")
        if not m:
            out[0, 0] = -0.5 * np.exp(-log_var) * self.squares
            return out
        am = alpha * self.mean
        block = self.cov * (self.cov + 2.0 * np.multiply.outer(self.mean, self.mean))
        block *= np.multiply.outer(0.5 * alpha, alpha)
        out[:m, :m] = block
        out[np.arange(m), np.arange(m)] -= 0.5 * alpha * (self.variances + self.mean**2)
        shrunk = dgemv(1.0, self.cov, am)  # Sigma A mu
        spread = self.variances - np.einsum("ij,ij,i->j", self.cov, self.cov, alpha)
        out[:m, m] = out[m, :m] = -0.5 * alpha * (spread - 2.0 * self.mean * shrunk)
        out[m, m] = 0.5 * (-np.exp(-log_var) * self.squares + 2.0 * am @ shrunk - alpha @ spread)
        return out
