"""A normal forecast on a transformed scale: its values, moments and partial moments in units of y.

Those of identity and log are closed forms; those of Box-Cox and of heavy tails come from
Gauss-Legendre quadrature over the normal score z, from the point on where y is positive.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import erf, ndtr, roots_legendre

from forecast_unc._typing import Array
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.tail import Positions, Tail

N_NODES = 200  # Gauss-Legendre, on each panel
# Panels between the corners of a tail, with so many nodes each, and so many panels besides. With
# corners inside panels of 200 nodes variances were 1 % wrong.
FEW_NODES, N_PANELS = 12, 40
REACH = 12.0  # z beyond this from where the integrand peaks does not count: exp(-72) = 5e-32


@dataclass(frozen=True, eq=False)
class Component:
    """A normal forecast on a transformed scale, and its weight in the average.

    Parameters
    ----------
    weight : ndarray of shape (h,)
        Weight at each step, not negative; :class:`Marginals` reads nothing where it is 0.
    transform : PowerTransform
        The scale.
    mean, std : ndarray of shape (h,)
        Mean and standard deviation of each step on that scale; with a tail, what T is
        multiplied by and added to.
    tail : Tail, optional
        A shape that is not normal: T(z) takes the place of z. After a transform not that of
        Student's t, with which the mean of y would be infinite.
    """

    weight: Array  # (h,)
    transform: PowerTransform
    mean: Array  # (h,)
    std: Array  # (h,)
    tail: Tail | None = None

    @property
    def closed(self) -> bool:
        """Whether moments need no quadrature."""
        return not self.transform.power and self.tail is None

    def quantile(self, z: Array) -> Array:
        """Values at normal scores z, (h or 1, n); the same for all steps if of one row."""
        x = z if self.tail is None else self.tail.forward(z)
        return self.transform.inverse(self.mean[:, None] + self.std[:, None] * x)

    def slope(self, z: Array) -> Array:
        """Derivative of :meth:`quantile` in z, (h, n)."""
        x, steep = (z, 1.0) if self.tail is None else (self.tail.forward(z), self.tail.slope(z))
        x = self.mean[:, None] + self.std[:, None] * x
        return np.asarray(self.std[:, None] * steep * self.transform.slope(x))

    def normal_score(self, y: Array) -> Array:
        """Inverse of :meth:`quantile` at one y a step, (h,); -inf below all values."""
        x = (self.transform.forward(y) - self.mean) / self.std
        return x if self.tail is None else self.tail.inverse(x)

    def partial_mean(self, z: Array) -> Array:
        """E[y; z_t <= z], the part of the mean that comes from below z, (h,)."""
        if self.transform.power is None and self.tail is None:
            density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
            return np.asarray(self.mean * ndtr(z) - self.std * density)
        if self.transform.power == 0 and self.tail is None:
            return np.asarray(np.exp(self.mean + 0.5 * self.std**2) * ndtr(z - self.std))
        start, end = self._range()
        nodes, weights = self._panels(start, np.clip(z, start, end))
        return np.asarray((weights * self.quantile(nodes)).sum(axis=1))

    def expectation(self) -> Array:
        """Mean of y, (h,)."""
        return self.partial_mean(np.full(len(self.mean), np.inf))

    def mean_difference(self) -> Array:
        """Half the mean distance of two independent draws, E[y (2 Phi(z) - 1)], (h,)."""
        if self.transform.power is None and self.tail is None:
            return np.asarray(self.std / np.sqrt(np.pi))
        if self.transform.power == 0 and self.tail is None:
            return np.asarray(self.expectation() * erf(0.5 * self.std))
        nodes, weights = self._panels(*self._range())
        return np.asarray((weights * self.quantile(nodes) * (2 * ndtr(nodes) - 1)).sum(axis=1))

    def gradient(self) -> Array:
        """E[dy/dz], (h,), of the closed forms alone."""
        return self.std if self.transform.power is None else self.expectation() * self.std

    def scaled(self, factor: Array) -> "Component":
        """Component of ``factor * y``, factor (h,) positive: still a normal on the same scale."""
        power = self.transform.power
        slope = factor if power is None else factor**power
        shift = 0.0 if power is None else self.transform.forward(factor)
        return self.like(slope * self.mean + shift, slope * self.std)

    def extended(self, weight: Array) -> "Component":
        """Component of h steps of which these are the first, with weights (h,), 0 beyond them."""
        more = (0, len(weight) - len(self.mean))
        mean, std = np.pad(self.mean, more), np.pad(self.std, more)
        tail = None if self.tail is None else self.tail.extended(len(weight))
        own = np.pad(self.weight, more)
        return Component(weight * own, self.transform, mean, std, tail)

    def picked(self, at: Positions) -> "Component":
        """Component of the steps at the given positions."""
        tail = None if self.tail is None else self.tail.picked(at)
        return Component(self.weight[at], self.transform, self.mean[at], self.std[at], tail)

    def conditioned(self, mean: Array, std: Array) -> "Component":
        """Component of ``mean + std * z`` in place of z."""
        if self.tail is not None:
            return replace(self, tail=self.tail.conditioned(mean, std))
        return self.like(self.mean + self.std * mean, self.std * std)

    def widened(self, factor: Array) -> "Component":
        """Component of ``factor`` (h,) times the std on its scale, and the same median."""
        if self.tail is None:
            return replace(self, std=factor * self.std)
        median = self.tail.forward(np.zeros((1, 1)))[:, 0]  # not 0 once some steps are known
        mean = self.mean + (1.0 - factor) * self.std * median
        return replace(self, mean=mean, std=factor * self.std)

    def shaped(self, tail: Tail) -> "Component":
        """Component with T(z) in the place of z, of the same median and in units of its 68 %."""
        if self.tail is None:
            return replace(self, tail=tail)
        low, median, high = self.tail.forward(np.array([[-1.0, 0.0, 1.0]])).T
        mean, std = self.mean + self.std * median, 0.5 * (high - low) * self.std
        return replace(self, mean=mean, std=std, tail=tail)

    def bounds(self) -> tuple[Array, Array]:
        """Where y begins to be positive, and where y^2 exp(-z^2 / 2) peaks, as z, (h,)."""
        h = len(self.mean)
        if self.transform.power is None:
            return np.full(h, -np.inf), np.zeros(h)
        std = self.std if self.tail is None else self.std * self.tail.growth
        if self.transform.power == 0:
            return np.full(h, -np.inf), 2 * std
        a, b = self.transform.power * std, self.transform.power * self.mean + 1
        root = np.sqrt(b**2 + 8 * a * std)
        # The root of a z^2 + b z = 2 std, in the form that does not cancel.
        peak = np.where(b > 0, 4 * std / (root + np.abs(b)), (root - b) / (2 * a))
        start = -b / (self.transform.power * self.std)
        return start if self.tail is None else self.tail.inverse(start), peak

    def _panels(self, start: Array, end: Array) -> tuple[Array, Array]:
        """Nodes and weights (h, n) of the integral over N(0, 1) between two z, (h,) each."""
        corners = None if self.tail is None else self.tail.corners()
        if corners is None:
            return panels(np.column_stack([start, end]))
        return panels(divided(start, end, corners), FEW_NODES)

    def _range(self) -> tuple[Array, Array]:
        start, peak = self.bounds()
        return np.maximum(start, -REACH), peak + REACH

    def like(self, mean: Array, std: Array) -> "Component":
        """Component of another mean and std on its scale, (h,) each."""
        return replace(self, mean=mean, std=std)


def divided(start: Array, end: Array, corners: Array) -> Array:
    """Breaks (h, p + 1) from start (h,) to end: corners, and so many that all panels are narrow."""
    edges = np.linspace(start, end, N_PANELS + 1, axis=1)
    between = np.clip(corners, start[:, None], end[:, None])
    return np.sort(np.column_stack([edges, between]), axis=1)


def panels(breaks: Array, n_nodes: int = N_NODES) -> tuple[Array, Array]:
    """Nodes and weights (h, p n) of the integral over N(0, 1) between breaks (h, p + 1)."""
    points, weights = _legendre(n_nodes)
    half = 0.5 * np.diff(breaks, axis=1)[:, :, None]
    nodes = breaks[:, :-1, None] + half * (1 + points)
    density = np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
    h = len(breaks)
    return nodes.reshape(h, -1), (half * weights * density).reshape(h, -1)


@lru_cache(maxsize=2)
def _legendre(n_nodes: int) -> tuple[Array, Array]:
    points, weights = roots_legendre(n_nodes)
    return points, weights
