"""Evidence of a Gaussian process whose rows have noise of their own, or inputs with known noise."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dgemv, dsymm
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import inverse
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.kernels import squared_exponential


class RowTerms(NamedTuple):
    """-log N(y | 0, K + diag(v)) and its gradients."""

    value: float  # inf where the covariance is not numerically positive definite
    hyper: Array  # (d + 1 + g,), in log l, log a, log tau
    row_var: Array  # (n,), in v
    inputs: Array  # (n, d), in X
    weights: Array  # (n,), b = (K + diag(v))^-1 y


class RowEvidence:
    r"""-log N(y | 0, K(X) + diag(v)) as a function of hyper-parameters, row variances and inputs.

    .. math:: K = a^2 K_{se}(l) + \textstyle\sum_j \tau_j^2 x_j x_j' + \tau_0^2 1 1'

    With W = (K + diag(v))^-1 - b b', M = W o a^2 K_se, r = M 1 and Z = X / l,

    .. math::
        \frac{\partial}{\partial v_i} &= \tfrac12 W_{ii}, \qquad
        \frac{\partial}{\partial X} = \bigl(M Z - \mathrm{diag}(r) Z\bigr) / l + W X A, \\
        \frac{\partial}{\partial \log l_j}
            &= \textstyle\sum_i r_i Z_{ij}^2 - \sum_i Z_{ij} (M Z)_{ij} .

    All from one factorization and one inverse.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets, about centered and scaled.
    linear : bool
        Whether the linear term and the bias are part of the model.
    groups : ndarray of shape (d,)
        Group of each input's linear weight; -1 for none.
    bias_scale : float
        Prior std tau_0 of the bias.
    """

    def __init__(self, y: Array, linear: bool, groups: NDArray[np.intp], bias_scale: float) -> None:
        self.y, self.linear, self.groups, self.bias_scale = y, linear, groups, bias_scale

    def linear_std(self, tau: Array) -> Array:
        """Prior stds of the linear weights and the bias, (d + 1,)."""
        std = np.append(np.where(self.groups < 0, 0.0, tau[self.groups]), self.bias_scale)
        return np.asarray(std * self.linear)

    def __call__(
        self, X: Array, lengthscales: Array, amplitude: float, tau: Array, row_var: Array
    ) -> RowTerms:
        """The negative log evidence at inputs X (n, d) and variances (n,), and its gradients."""
        n, d = X.shape
        Z = np.asfortranarray(X / lengthscales)
        kernel = amplitude**2 * squared_exponential(X, X, lengthscales)
        U = np.column_stack([X, np.ones(n)]) * self.linear_std(tau)
        K: Array = dgemm(1.0, U, U, trans_b=1, beta=1.0, c=kernel)
        K.ravel(order="K")[:: n + 1] += row_var
        chol, info = dpotrf(K, lower=1, clean=0, overwrite_a=1)
        if info:
            empty = np.zeros(d + 1 + len(tau))
            return RowTerms(np.inf, empty, np.zeros(n), np.zeros((n, d)), np.zeros(n))
        b, _ = dpotrs(chol, self.y, lower=1)
        value = 0.5 * self.y @ b + np.log(np.diagonal(chol)).sum() + 0.5 * n * np.log(2.0 * np.pi)
        W = np.tril(inverse(chol, overwrite=True))
        W += np.tril(W, -1).T
        W -= np.multiply.outer(b, b)
        M = np.asfortranarray(W * kernel)
        row_sums = M.sum(axis=1)
        MZ: Array = dsymm(1.0, M, Z, lower=1)
        WX: Array = dsymm(1.0, np.asfortranarray(W), np.asfortranarray(X), lower=1)
        change = self.linear * np.einsum("ij,ij->j", X, WX)
        hyper = np.concatenate(
            [
                row_sums @ Z**2 - np.einsum("ij,ij->j", Z, MZ),
                [row_sums.sum()],
                tau**2 * np.bincount(self.groups + 1, change, len(tau) + 1)[1:],
            ]
        )
        inputs = (MZ - row_sums[:, None] * Z) / lengthscales
        inputs += WX * self.linear_std(tau)[:-1] ** 2
        return RowTerms(float(value), hyper, 0.5 * np.diagonal(W).copy(), inputs, b)

    def slopes(
        self, X: Array, lengthscales: Array, amplitude: float, tau: Array, weights: Array
    ) -> Array:
        """Gradient of the posterior mean at its own rows, (n, d), from the weights b."""
        kernel = amplitude**2 * squared_exponential(X, X, lengthscales)
        weighted = np.asfortranarray(kernel * weights)
        pull = dgemm(1.0, weighted, np.asfortranarray(X)) - weighted.sum(axis=1)[:, None] * X
        linear = self.linear_std(tau)[:-1] ** 2 * dgemv(1.0, np.asfortranarray(X), weights, trans=1)
        return np.asarray(pull / lengthscales**2 + linear)


def blurred(lengthscales: Array, amplitude: float, var: Array) -> tuple[Array, float]:
    r"""Length-scales and amplitude of the squared-exponential kernel under a noisy distance.

    .. math::
        \mathrm E\bigl[a^2 e^{-\frac12 \sum_j (x_j + \delta_j)^2 / l_j^2}\bigr]
        = A^2 e^{-\frac12 \sum_j x_j^2 / L_j^2}, \quad L_j^2 = l_j^2 + v_j, \quad
        A^2 = a^2 \textstyle\prod_j l_j / L_j, \qquad \delta \sim \mathcal N(0, \mathrm{diag}(v)) .

    Parameters
    ----------
    lengthscales : ndarray of shape (d,)
        Length-scales l.
    amplitude : float
        Amplitude a.
    var : ndarray of shape (d,)
        Variances v of the distance: those of one input, or of two.

    Returns
    -------
    lengthscales : ndarray of shape (d,)
    amplitude : float
    """
    ratio = 1.0 + var / lengthscales**2
    return lengthscales * np.sqrt(ratio), float(amplitude * np.exp(-0.25 * np.log(ratio).sum()))


class BlurredEvidence(GaussianProcessEvidence):
    r"""The evidence where each input is known up to independent noise of given variances v.

    The covariance of two rows is the kernel's own expectation over their inputs; of one row
    it is that at one input, so that what the expectation takes from the others is its noise:

    .. math::
        \mathrm{Cov}[y_i, y_j] = \mathrm E[k(x_i, x_j)] = A^2 e^{-\frac12 |u_i - u_j|_L^2}
            + u_i' T u_j + \tau_0^2 + \delta_{ij} N^2, \qquad
        N^2 = s^2 + a^2 - A^2 + \textstyle\sum_j \tau_j^2 v_j ,

    with L and A of `blurred` at 2 v and T the prior variances of the linear weights. It is a
    Gaussian process of other hyper-parameters, and the gradient follows by the chain rule.

    Parameters
    ----------
    plain : GaussianProcessEvidence
        That of the inputs as observed.
    input_var : ndarray of shape (d,)
        Variances v, in the units of its inputs.
    """

    def __init__(self, plain: GaussianProcessEvidence, input_var: Array) -> None:
        super().__init__(plain.X.T, plain.y, plain.linear, plain.groups, plain.bias_scale)
        self.input_var = input_var

    def __call__(
        self,
        lengthscales: Array,
        amplitude: float,
        linear_scale: Array | float,
        noise_std: float,
        error_std: float = 0.0,
    ) -> tuple[float, Array]:
        """As that of the plain evidence; s is the noise without what the inputs add."""
        d, v = len(lengthscales), self.input_var
        tau = np.atleast_1d(np.asarray(linear_scale, dtype=np.float64))
        L, A, added = self._blurred(lengthscales, amplitude, tau)
        lost = amplitude**2 - A**2
        noise_var = noise_std**2 + lost + added.sum()
        value, g = super().__call__(L, A, tau, float(np.sqrt(noise_var)), error_std)
        share = v / L**2  # d log A / d log l
        gradient = g.copy()
        gradient[:d] = g[:d] * (lengthscales / L) ** 2 + share * (g[d] - g[-1] * A**2 / noise_var)
        gradient[d] += g[-1] * lost / noise_var
        gradient[d + 1 : -1] += g[-1] * added / noise_var
        gradient[-1] *= noise_std**2 / noise_var
        return value, gradient

    def value(
        self,
        lengthscales: Array,
        amplitude: float,
        linear_scale: Array | float,
        noise_std: float,
        error_std: float = 0.0,
    ) -> float:
        """Negative log evidence alone; see :meth:`__call__`."""
        tau = np.atleast_1d(np.asarray(linear_scale, dtype=np.float64))
        L, A, added = self._blurred(lengthscales, amplitude, tau)
        noise_var = noise_std**2 + amplitude**2 - A**2 + added.sum()
        return super().value(L, A, tau, float(np.sqrt(noise_var)), error_std)

    def _blurred(
        self, lengthscales: Array, amplitude: float, tau: Array
    ) -> tuple[Array, float, Array]:
        """L, A and what the inputs add to the noise by each group of linear weights."""
        L, A = blurred(lengthscales, amplitude, 2.0 * self.input_var)
        var = np.bincount(self.groups + 1, self.input_var, len(tau) + 1)[1:]
        return L, A, np.asarray(self.linear * tau**2 * var)
