r"""Shapes that are not normal: increasing functions T of a normal score, T(0) = 0.

Student's t, a normal distribution whose variance is unknown, with F its distribution function:

.. math::

    T(z) = \frac{z_{.9}}{t_{\nu,.9}}\; F_\nu^{-1}(\Phi(z))

whose scale leaves the central 80 % interval where it was; and straight lines between the quantiles
of errors or of paths.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

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
    """Straight lines between quantiles, and beyond the outermost those from 0 through them.

    Parameters
    ----------
    nodes : ndarray of shape (k,)
        Scores at which T is given: increasing, the one in the middle 0.
    values : ndarray of shape (h, k)
        T there: not decreasing, 0 in the middle, different from 0 at both ends.
    mean, std : ndarray of shape (h,)
        0 and 1, unless some of the steps are known by now.
    """

    nodes: Array
    values: Array
    mean: Array
    std: Array

    @classmethod
    def through(cls, nodes: Array, values: Array) -> Self:
        """The tail of h steps of which nothing is known, through values (h, k) at nodes (k,)."""
        h = len(values)
        return cls(nodes, values, np.zeros(h), np.ones(h))

    @classmethod
    def of(cls, sizes: Array) -> Self:
        """The tail of h steps of which nothing is known, from sizes of errors.

        Half the width of the central interval of coverage i / (k + 1) is the i-th smallest of k
        sizes: the interval holds the next of k + 1 exchangeable errors with that probability.

        Parameters
        ----------
        sizes : ndarray of shape (h, k)
            Sorted and positive.

        References
        ----------
        V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World (2005), ch. 2
        """
        k = sizes.shape[1]
        above = ndtri(0.5 + 0.5 * np.arange(1, k + 1) / (k + 1.0))
        nodes = np.concatenate([-above[::-1], [0.0], above])
        zero = np.zeros((len(sizes), 1))
        return cls.through(nodes, np.hstack([-sizes[:, ::-1], zero, sizes]))

    @cached_property
    def slopes(self) -> Array:
        """Slopes before the first node, between the nodes, and beyond the last, (h, k + 1)."""
        between = np.diff(self.values, axis=1) / np.diff(self.nodes)
        first, last = (self.values[:, end] / self.nodes[end] for end in (0, -1))
        return np.column_stack([first, between, last])

    @property
    def var(self) -> Array:
        """Variance of T(z), z a standard normal, (h,): of straight lines, by partial moments."""
        low, high = np.append(-np.inf, self.nodes), np.append(self.nodes, np.inf)
        start = self.values[:, [0, *range(len(self.nodes))]]
        start = start - self.slopes * self.nodes[[0, *range(len(self.nodes))]]
        p = ndtr(high) - ndtr(low)
        first = _density(low) - _density(high)
        edges = np.concatenate([[0.0], self.nodes * _density(self.nodes), [0.0]])
        second = p - np.diff(edges)
        mean = (start * p + self.slopes * first).sum(axis=1)
        square = start**2 * p + 2.0 * start * self.slopes * first + self.slopes**2 * second
        return np.asarray(square.sum(axis=1) - mean**2)

    @property
    def growth(self) -> Array:
        """Slope beyond the last node, (h,)."""
        return np.asarray(self.slopes[:, -1])

    def forward(self, z: Array) -> Array:
        """T at scores z, (h or 1, n)."""
        x, at = self._located(z)
        before = np.maximum(at, 0)
        values = np.take_along_axis(self.values, before, axis=1)
        steep = np.take_along_axis(self.slopes, at + 1, axis=1)
        return np.asarray(values + steep * (x - self.nodes[before]))

    def slope(self, z: Array) -> Array:
        """Derivative of :meth:`forward` in z, (h, n)."""
        _, at = self._located(z)
        return np.asarray(self.std[:, None] * np.take_along_axis(self.slopes, at + 1, axis=1))

    def inverse(self, t: Array) -> Array:
        """The z of one value of T a step, (h,); the largest if equal values leave a choice."""
        x = np.empty_like(t)
        for step, (value, values) in enumerate(zip(t, self.values, strict=True)):
            at = int(np.searchsorted(values, value, side="right")) - 1
            before = max(at, 0)
            rise = value - values[before]
            with np.errstate(divide="ignore"):  # below the lowest of values that are all the same
                x[step] = self.nodes[before] + (rise / self.slopes[step, at + 1] if rise else 0.0)
        return np.asarray((x - self.mean) / self.std)

    def corners(self) -> Array:
        """The z of the nodes, (h, k)."""
        return np.asarray((self.nodes - self.mean[:, None]) / self.std[:, None])

    def picked(self, at: Positions) -> Self:
        """The tail of the steps at the given positions."""
        return type(self)(self.nodes, self.values[at], self.mean[at], self.std[at])

    def extended(self, h: int) -> Self:
        """The tail of h steps of which these are the first, with the last one's values beyond."""
        more = (0, h - len(self.mean))
        mean, std = np.pad(self.mean, more), np.pad(self.std, more, constant_values=1.0)
        values = np.pad(self.values, (more, (0, 0)), mode="edge")
        return type(self)(self.nodes, values, mean, std)

    def conditioned(self, mean: Array, std: Array) -> Self:
        """The tail of ``mean + std * z`` in place of z."""
        means = self.mean + self.std * mean, self.std * std
        return type(self)(self.nodes, self.values, *means)

    def of_groups(self, n: int) -> None:
        """Sums of steps are taken for normal: their errors are not known."""

    def _located(self, z: Array) -> tuple[Array, Positions]:
        """The x = mean + std z of each step, and the last node up to it, -1 for none, (h, n)."""
        x = self.mean[:, None] + self.std[:, None] * z
        return x, np.searchsorted(self.nodes, x, side="right") - 1


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))
