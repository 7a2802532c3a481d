r"""Links: increasing functions of one number, a row a step, that chains from score to value are of.

Arrays are (h, n), one row for each of h steps; a row alone, (1, n), is the same for all steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol, Self

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from forecast_unc._typing import Array
from forecast_unc.distributions.power import PowerTransform

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Positions = np.ndarray[tuple[int, ...], np.dtype[np.intp]]

# With fewer the variance is that of values that no quadrature over 12 normal stds sees.
LEAST_DOF = 3.0
_FARTHEST = 36.0  # SciPy's quantiles of Student's t are inf for probabilities below 1e-300
_FIXED = 0.9  # the quantile of Student's t that is left where it was
_HALVINGS, _TOLERANCE = 128, 1e-14  # of a search; the second in units of 1 + |x|
_DOUBLINGS = 10  # of the bracket -4 to 4


class Link(Protocol):
    """An increasing function of a number, for each step; a new one needs no more than this."""

    def __call__(self, x: Array) -> Array:
        """Values at x."""
        ...

    def slope(self, x: Array) -> Array:
        """Derivative at x."""
        ...

    def inverse(self, y: Array) -> Array:
        """Largest x whose value is at most y; -inf if there is none."""
        ...

    def kinks(self) -> Array | None:
        """The x at which the slope jumps, (h or 1, p); None if it is smooth."""
        return None

    def picked(self, at: Positions) -> Self:
        """The link of the steps at the given positions: itself if it is the same for all."""
        return self


Chain = tuple[Link, ...]


@dataclass(frozen=True, eq=False)
class Affine(Link):
    """shift + scale x, with shift (h,) and a positive scale (h,)."""

    shift: Array
    scale: Array

    def __call__(self, x: Array) -> Array:
        """Values at x."""
        return self.shift[:, None] + self.scale[:, None] * x

    def slope(self, x: Array) -> Array:
        """The scale, (h, 1)."""
        return self.scale[:, None]

    def inverse(self, y: Array) -> Array:
        """The x of y."""
        return (y - self.shift[:, None]) / self.scale[:, None]

    def picked(self, at: Positions) -> Self:
        """The link of the steps at the given positions."""
        return type(self)(self.shift[at], self.scale[at])


@dataclass(frozen=True)
class Power(Link):
    """From the scale of a logarithm or Box-Cox transform back to values."""

    transform: PowerTransform

    def __call__(self, x: Array) -> Array:
        """Values at x."""
        return self.transform.inverse(x)

    def slope(self, x: Array) -> Array:
        """Derivative at x."""
        return self.transform.slope(x)

    def inverse(self, y: Array) -> Array:
        """The x of y; -inf below the bound."""
        return self.transform.forward(y)

    def kinks(self) -> Array | None:
        """Where Box-Cox leaves its bound."""
        power = self.transform.power
        return np.array([[-1.0 / power]]) if power else None


@dataclass(frozen=True)
class Student(Link):
    r"""Student's t with `dof` degrees of freedom, a normal whose variance is unknown.

    .. math:: T(z) = \frac{z_{.9}}{t_{\nu,.9}}\; F_\nu^{-1}(\Phi(z))

    The scale leaves the central 80 % interval where it was.
    """

    dof: float

    @cached_property
    def scale(self) -> float:
        """z_.9 / t_.9."""
        return float(ndtri(_FIXED) / stdtrit(self.dof, _FIXED))

    def __call__(self, x: Array) -> Array:
        """T(x), from the lower tail, where small probabilities keep their digits."""
        # Quantiles are most of what a calibration takes; nodes are often those of all steps.
        x = x[:1] if (x == x[:1]).all() else x
        p = ndtr(-np.minimum(np.abs(x), _FARTHEST))
        t = np.where(np.isinf(x), -np.inf, stdtrit(self.dof, p))
        return np.asarray(-np.sign(x) * self.scale * t)

    def slope(self, x: Array) -> Array:
        """Derivative at x."""
        log_t = stats.t.logpdf(self(x), self.dof, scale=self.scale)
        return np.asarray(np.exp(stats.norm.logpdf(x) - log_t))

    def inverse(self, y: Array) -> Array:
        """The x of y."""
        return np.where(
            y == 0.0, 0.0, -np.sign(y) * ndtri(stdtr(self.dof, -np.abs(y) / self.scale))
        )


@dataclass(frozen=True, eq=False)
class Polyline(Link):
    """Straight lines through values (h, k) at nodes (k,), and from 0 through the outermost.

    Nodes increase, the one in the middle is 0. Values do not decrease and are 0 in the middle.
    """

    nodes: Array
    values: Array

    @classmethod
    def of_sizes(cls, sizes: Array) -> Self:
        """From sizes of errors (h, k), sorted and positive.

        Half the width of the central interval of coverage i / (k + 1) is the i-th smallest: the
        interval holds the next of k + 1 exchangeable errors with that probability (V. Vovk, A.
        Gammerman and G. Shafer, Algorithmic Learning in a Random World (2005), ch. 2).
        """
        k = sizes.shape[1]
        above = ndtri(0.5 + 0.5 * np.arange(1, k + 1) / (k + 1.0))
        nodes = np.concatenate([-above[::-1], [0.0], above])
        return cls(nodes, np.hstack([-sizes[:, ::-1], np.zeros((len(sizes), 1)), sizes]))

    @cached_property
    def slopes(self) -> Array:
        """Slopes before the first node, between the nodes, and beyond the last, (h, k + 1)."""
        between = np.diff(self.values, axis=1) / np.diff(self.nodes)
        first, last = (self.values[:, end] / self.nodes[end] for end in (0, -1))
        return np.column_stack([first, between, last])

    def __call__(self, x: Array) -> Array:
        """Values at x."""
        row, at = np.arange(len(self.values))[:, None], self._last_node(x)
        before = np.maximum(at, 0)
        return np.asarray(
            self.values[row, before] + self.slopes[row, at + 1] * (x - self.nodes[before])
        )

    def slope(self, x: Array) -> Array:
        """Derivative at x."""
        return self.slopes[np.arange(len(self.values))[:, None], self._last_node(x) + 1]

    def inverse(self, y: Array) -> Array:
        """The x of y; the largest if equal values leave a choice."""
        x = np.empty((len(self.values), y.shape[1]))
        for row, one, values, slopes in zip(x, y, self.values, self.slopes, strict=True):
            at = np.searchsorted(values, one, side="right") - 1
            before = np.maximum(at, 0)
            rise = one - values[before]
            with np.errstate(divide="ignore", invalid="ignore"):  # where all values are the same
                row[:] = self.nodes[before] + np.where(rise == 0.0, 0.0, rise / slopes[at + 1])
        return x

    def kinks(self) -> Array:
        """The nodes."""
        return self.nodes[None]

    def picked(self, at: Positions) -> Self:
        """The link of the steps at the given positions."""
        return type(self)(self.nodes, self.values[at])

    def _last_node(self, x: Array) -> Positions:
        """The last node up to x, -1 for none."""
        return np.searchsorted(self.nodes, x, side="right") - 1


def peak(function: Callable[[Array], Array], h: int) -> Array:
    """Where the square of an increasing function counts most under N(0, 1), as z from 0, (h,)."""
    z = np.arange(64.0)[None]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        size = 2.0 * np.log(np.abs(function(z) - function(z[:, :1]))) - 0.5 * z**2
    size = np.broadcast_to(np.where(np.isfinite(size), size, -np.inf), (h, 64))
    return np.asarray(z[0, size.argmax(axis=1)])


def linked(*links: Link) -> Chain:
    """A chain of these links, neighbouring affine ones merged."""
    chain: list[Link] = []
    for link in links:
        last = chain[-1] if chain else None
        if isinstance(link, Affine) and isinstance(last, Affine):
            chain[-1] = Affine(link.shift + link.scale * last.shift, link.scale * last.scale)
        else:
            chain.append(link)
    return tuple(chain)


def value(chain: Chain, z: Array) -> Array:
    """Values of a chain at scores z."""
    return reduce(lambda x, link: link(x), chain, z)


def slope(chain: Chain, z: Array) -> Array:
    """Derivative of a chain at scores z."""
    x, product = z, np.ones((1, 1))
    for link in chain:
        product, x = product * link.slope(x), link(x)
    return product


def inverse(chain: Chain, y: Array) -> Array:
    """Largest scores at which a chain is at most y; -inf if there are none."""
    return reduce(lambda x, link: link.inverse(x), reversed(chain), y)


def kinks(chain: Chain) -> list[Array]:
    """Scores at which the slope of a chain jumps, an array (h or 1, p) a link that has some."""
    found = ((chain[:i], link.kinks()) for i, link in enumerate(chain))
    return [inverse(before, at) for before, at in found if at is not None]


def solve(function: Callable[[Array], Array], slope: Callable[[Array], Array], y: Array) -> Array:
    """Largest x at which an increasing function is at most y, (h, n); -inf if there is none."""
    known = np.isfinite(y)
    goal = np.where(known, y, 0.0)
    low, high = np.full(y.shape, -4.0), np.full(y.shape, 4.0)
    for _ in range(_DOUBLINGS):
        over, under = function(low) > goal, function(high) <= goal
        if not (over.any() or under.any()):
            break
        low, high = np.where(over, 2.0 * low, low), np.where(under, 2.0 * high, high)
    x = newton(lambda x: (function(x) - goal, slope(x)), low, high)
    x = np.where(function(low) > goal, -np.inf, np.where(function(high) <= goal, np.inf, x))
    return np.where(known, x, y)


def newton(function: Callable[[Array], tuple[Array, Array]], low: Array, high: Array) -> Array:
    """Largest x between low and high at which an increasing function, of known slope, is <= 0.

    Newton's method within brackets, an eighth of the evaluations of a bisection. Each entry stays
    once it has converged, so that it does not depend on the others.
    """
    x, last = np.clip(0.0, low, high), high - low
    done = np.zeros(x.shape, dtype=np.bool_)
    for _ in range(_HALVINGS):
        here, steep = function(x)
        low, high = np.where(here <= 0.0, x, low), np.where(here <= 0.0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = x - here / steep
        good = (low <= near) & (near <= high) & (np.abs(near - x) <= 0.5 * last)
        following = np.where(good, near, 0.5 * (low + high))
        last = np.abs(following - x)
        x = np.where(done, x, following)
        done |= last <= _TOLERANCE * (1.0 + np.abs(x))
        if done.all():
            break
    return np.asarray(x)
