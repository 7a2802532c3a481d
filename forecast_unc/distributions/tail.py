r"""Heavy tails: normal scores turned into those of Student's t.

.. math::

    T(z) = \frac{z_{.9}}{t_{\nu,.9}}\; F_\nu^{-1}(\Phi(z))

with F the distribution function of Student's t with nu degrees of freedom, a normal distribution
whose variance is unknown. The scale leaves the central 80 % interval where it was.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from forecast_unc._typing import Array

Positions = np.ndarray[tuple[int, ...], np.dtype[np.intp]]

# With fewer the variance is that of values that no quadrature over 12 normal stds sees.
LEAST_DOF = 3.0
_FIXED = 0.9  # the quantile that is left where it was


@dataclass(frozen=True, eq=False)
class StudentTail:
    r"""The function T of a mean and a std of z, :math:`z \mapsto T(m + s z)`.

    Parameters
    ----------
    dof : float
        Degrees of freedom, from 3; not infinite.
    mean, std : ndarray of shape (h,)
        0 and 1, unless some of the steps are known by now.
    """

    dof: float
    mean: Array
    std: Array

    @classmethod
    def of(cls, dof: float, h: int) -> Self:
        """The tail of h steps of which nothing is known."""
        return cls(dof, np.zeros(h), np.ones(h))

    @cached_property
    def scale(self) -> float:
        """z_.9 / t_.9."""
        return float(ndtri(_FIXED) / stdtrit(self.dof, _FIXED))

    @property
    def var(self) -> float:
        """Variance of T(z), z a standard normal."""
        return self.scale**2 * self.dof / (self.dof - 2.0)

    def forward(self, z: Array) -> Array:
        """T at scores z, (h or 1, n)."""
        x = self.mean[:, None] + self.std[:, None] * z
        # from the lower tail, where small probabilities keep their digits
        return np.asarray(-np.sign(x) * self.scale * stdtrit(self.dof, ndtr(-np.abs(x))))

    def slope(self, z: Array) -> Array:
        """Derivative of :meth:`forward` in z, (h, n)."""
        x = self.mean[:, None] + self.std[:, None] * z
        t, nu = self.forward(z) / self.scale, self.dof
        log_t = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi)
        log_t = log_t - 0.5 * (nu + 1) * np.log1p(t**2 / nu)
        log_normal = -0.5 * x**2 - 0.5 * np.log(2 * np.pi)
        return np.asarray(self.std[:, None] * self.scale * np.exp(log_normal - log_t))

    def inverse(self, t: Array) -> Array:
        """The z of one value of T a step, (h,)."""
        x = -np.sign(t) * ndtri(stdtr(self.dof, -np.abs(t) / self.scale))
        return np.asarray((np.where(t == 0.0, 0.0, x) - self.mean) / self.std)

    def picked(self, at: Positions) -> Self:
        """The tail of the steps at the given positions."""
        return type(self)(self.dof, self.mean[at], self.std[at])

    def conditioned(self, mean: Array, std: Array) -> Self:
        """The tail of ``mean + std * z`` in place of z."""
        return type(self)(self.dof, self.mean + self.std * mean, self.std * std)
