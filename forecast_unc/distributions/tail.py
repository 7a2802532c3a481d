r"""Shapes that are not normal: increasing functions T of a normal score, T(0) = 0.

Student's t, a normal distribution whose variance is unknown, with F its distribution function:

.. math::

    T(z) = \frac{z_{.9}}{t_{\nu,.9}}\; F_\nu^{-1}(\Phi(z))

whose scale leaves the central 80 % interval where it was; and the shape of sorted errors.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, Self

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from forecast_unc._typing import Array

Positions = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


class Tail(Protocol):
    """An increasing function T of each step's normal score; a class has to have these members."""

    @property
    def var(self) -> Array | float:
        """Variance of T(z), z a standard normal; (h,) or the same for all."""
        ...

    @property
    def growth(self) -> Array | float:
        """Slope of T far out, (h,) or the same for all; 1 if it grows faster than any line."""
        ...

    def forward(self, z: Array) -> Array:
        """T at scores z, (h or 1, n)."""
        ...

    def slope(self, z: Array) -> Array:
        """Derivative of :meth:`forward` in z, (h, n)."""
        ...

    def inverse(self, t: Array) -> Array:
        """The z of one value of T a step, (h,)."""
        ...

    def corners(self) -> Array | None:
        """The z at which the slope of T jumps, (h, p); None if it is smooth."""
        ...

    def picked(self, at: Positions) -> Self:
        """The tail of the steps at the given positions."""
        ...

    def extended(self, h: int) -> Self:
        """The tail of h steps of which these are the first; any for the others."""
        ...

    def conditioned(self, mean: Array, std: Array) -> Self:
        """The tail of ``mean + std * z`` in place of z."""
        ...

    def of_groups(self, n: int) -> "Tail | None":
        """The tail of n sums of steps; None if they have none."""
        ...


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

    @property
    def growth(self) -> float:
        """T grows faster than any line."""
        return 1.0

    def forward(self, z: Array) -> Array:
        """T at scores z, (h or 1, n)."""
        x = self.mean[:, None] + self.std[:, None] * z
        # from the lower tail, where small probabilities keep their digits
        return np.asarray(-np.sign(x) * self.scale * stdtrit(self.dof, ndtr(-np.abs(x))))

    def slope(self, z: Array) -> Array:
        """Derivative of :meth:`forward` in z, (h, n)."""
        x = self.mean[:, None] + self.std[:, None] * z
        log_t = stats.t.logpdf(self.forward(z), self.dof, scale=self.scale)
        log_normal = stats.norm.logpdf(x) - np.log(self.scale)
        return np.asarray(self.std[:, None] * self.scale * np.exp(log_normal - log_t))

    def inverse(self, t: Array) -> Array:
        """The z of one value of T a step, (h,)."""
        x = -np.sign(t) * ndtri(stdtr(self.dof, -np.abs(t) / self.scale))
        return np.asarray((np.where(t == 0.0, 0.0, x) - self.mean) / self.std)

    def corners(self) -> None:
        """None: T is smooth."""

    def picked(self, at: Positions) -> Self:
        """The tail of the steps at the given positions."""
        return type(self)(self.dof, self.mean[at], self.std[at])

    def extended(self, h: int) -> Self:
        """The tail of h steps of which these are the first; a new one for the others."""
        more = (0, h - len(self.mean))
        mean, std = np.pad(self.mean, more), np.pad(self.std, more, constant_values=1.0)
        return type(self)(self.dof, mean, std)

    def conditioned(self, mean: Array, std: Array) -> Self:
        """The tail of ``mean + std * z`` in place of z."""
        return type(self)(self.dof, self.mean + self.std * mean, self.std * std)

    def of_groups(self, n: int) -> Self:
        """The tail of n sums of steps: of the same degrees of freedom."""
        return self.of(self.dof, n)


@dataclass(frozen=True, eq=False)
class EmpiricalTail:
    """Straight lines between sorted sizes of errors, beyond the last one that from 0 to it.

    Half the width of the central interval of coverage i / (k + 1) is the i-th smallest of k sizes:
    the interval holds the next of k + 1 exchangeable errors with that probability.

    Parameters
    ----------
    sizes : ndarray of shape (h, k)
        Sizes of the errors, sorted and positive.
    mean, std : ndarray of shape (h,)
        0 and 1, unless some of the steps are known by now.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World (2005), ch. 2
    """

    sizes: Array
    mean: Array
    std: Array

    @classmethod
    def of(cls, sizes: Array) -> Self:
        """The tail of h steps of which nothing is known, from sizes (h, k)."""
        return cls(sizes, np.zeros(len(sizes)), np.ones(len(sizes)))

    @cached_property
    def nodes(self) -> Array:
        """0 and the scores of the sizes, (k + 1,)."""
        k = self.sizes.shape[1]
        return np.asarray(ndtri(0.5 + 0.5 * np.arange(k + 1) / (k + 1.0)))

    @cached_property
    def values(self) -> Array:
        """T at the nodes, (h, k + 1)."""
        return np.pad(self.sizes, ((0, 0), (1, 0)))

    @cached_property
    def slopes(self) -> Array:
        """Slopes between the nodes, and last beyond them, (h, k + 1)."""
        between = np.diff(self.values, axis=1) / np.diff(self.nodes)
        return np.column_stack([between, self.values[:, -1] / self.nodes[-1]])

    @property
    def var(self) -> Array:
        """Variance of T(z), z a standard normal, (h,): of straight lines, by partial moments."""
        low, high = self.nodes, np.append(self.nodes[1:], np.inf)
        start = self.values - self.slopes * low
        p = ndtr(high) - ndtr(low)
        first = _density(low) - _density(high)
        edge = np.append(high[:-1] * _density(high[:-1]), 0.0)
        second = p + low * _density(low) - edge
        total = start**2 * p + 2.0 * start * self.slopes * first + self.slopes**2 * second
        return np.asarray(2.0 * total.sum(axis=1))

    @property
    def growth(self) -> Array:
        """Slope beyond the largest error, (h,)."""
        return np.asarray(self.slopes[:, -1])

    def forward(self, z: Array) -> Array:
        """T at scores z, (h or 1, n)."""
        x, at = self._located(z)
        sizes = np.take_along_axis(self.values, at, axis=1)
        steep = np.take_along_axis(self.slopes, at, axis=1)
        return np.asarray(np.sign(x) * (sizes + steep * (np.abs(x) - self.nodes[at])))

    def slope(self, z: Array) -> Array:
        """Derivative of :meth:`forward` in z, (h, n)."""
        _, at = self._located(z)
        return np.asarray(self.std[:, None] * np.take_along_axis(self.slopes, at, axis=1))

    def inverse(self, t: Array) -> Array:
        """The z of one value of T a step, (h,); the largest if equal sizes leave a choice."""
        x = np.empty_like(t)
        for step, (size, values) in enumerate(zip(np.abs(t), self.values, strict=True)):
            side: Literal["left", "right"] = "left" if t[step] < 0.0 else "right"
            at = int(np.searchsorted(values, size, side=side)) - 1 if size == size else 0
            x[step] = self.nodes[at] + (size - values[at]) / self.slopes[step, at]
        return np.asarray((np.sign(t) * x - self.mean) / self.std)

    def corners(self) -> Array:
        """The z of the sizes, negative and positive, and of 0, (h, 2 k + 1)."""
        x = np.concatenate([-self.nodes[:0:-1], self.nodes])
        return np.asarray((x - self.mean[:, None]) / self.std[:, None])

    def picked(self, at: Positions) -> Self:
        """The tail of the steps at the given positions."""
        return type(self)(self.sizes[at], self.mean[at], self.std[at])

    def extended(self, h: int) -> Self:
        """The tail of h steps of which these are the first, with the last one's sizes beyond."""
        more = (0, h - len(self.mean))
        mean, std = np.pad(self.mean, more), np.pad(self.std, more, constant_values=1.0)
        return type(self)(np.pad(self.sizes, (more, (0, 0)), mode="edge"), mean, std)

    def conditioned(self, mean: Array, std: Array) -> Self:
        """The tail of ``mean + std * z`` in place of z."""
        return type(self)(self.sizes, self.mean + self.std * mean, self.std * std)

    def of_groups(self, n: int) -> None:
        """Sums of steps are taken for normal: their errors are not known."""

    def _located(self, z: Array) -> tuple[Array, Positions]:
        """The x = mean + std z of each step, and the last node up to its size, (h, n)."""
        x = self.mean[:, None] + self.std[:, None] * z
        return x, np.searchsorted(self.nodes, np.abs(x), side="right") - 1


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))
