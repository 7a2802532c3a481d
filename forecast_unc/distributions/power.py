"""Nonlinear transforms of the values: logarithm and Box-Cox, from a lower bound on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize, minimize_scalar
from scipy.special import boxcox, log_ndtr, xlog1py
from scipy.stats import boxcox_llf

from forecast_unc._checks import as_float, first_true, refusal
from forecast_unc._typing import Array

# Powers by the names of transforms. That of Box-Cox is estimated; 1 stands for it where values are
# checked, which is the same for all powers above 0.
POWERS: dict[str | None, float | None] = {None: None, "log": 0.0, "sqrt": 0.5, "boxcox": 1.0}


@dataclass(frozen=True)
class PowerTransform:
    r"""Logarithm, Box-Cox transform or identity.

    .. math::

        x = ((y - L)^\lambda - 1)/\lambda, \qquad y = L + \max(\lambda x + 1, 0)^{1/\lambda}

    with x = log(y - L) at :math:`\lambda = 0`. A normal x below :math:`-1/\lambda` stands for
    y = L, and y is never below it (G. E. P. Box and D. R. Cox, JRSS B 26 (1964) 211-252,
    https://doi.org/10.1111/j.2517-6161.1964.tb00553.x).

    ``power`` is the exponent, 0 or from 1e-9 to 1; 0 is the logarithm, 1/2 the square root, None,
    the default, the identity. The nearer to 0, the faster the spread grows with the level; below 0,
    y would have no mean. ``lower`` is L, finite: what y is measured from, and never below. The
    identity has no bound.

    Examples
    --------
    >>> PowerTransform(0.5).forward([0.0, 1.0, 9.0]), PowerTransform(0.5).inverse([-3.0, 4.0])
    (array([-2.,  0.,  4.]), array([0., 9.]))
    """

    power: float | None = None
    lower: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.lower):
            remedy = "Transforms are measured from it."
            raise refusal("lower", "be finite", repr(self.lower), remedy)
        if self.power is None:
            return
        # Smaller powers are the logarithm to a float's digits, but for overflowing 1 / power.
        power = as_float(self.power)
        if not (power == 0 or 1e-9 <= power <= 1):
            remedy = "0 is the logarithm, None changes nothing."
            raise refusal("power", "be None, 0 or from 1e-9 to 1", repr(self.power), remedy)

    @classmethod
    def fit(cls, y: Array, lower: float = 0.0) -> Self:
        r"""Box-Cox transform of maximum likelihood of y (n,), NaN left out; its power in [0, 1].

        Values at the bound are censored: each has the probability of all x from
        :math:`-1/\lambda` down, and the more of them there are, the farther the power is from 0
        (D. J. Poirier, JASA 73 (1978) 284-287, https://doi.org/10.1080/01621459.1978.10481569).
        An error says if a value is below the bound, or those above it are all the same.
        """
        PowerTransform(1.0, lower).check(y)
        known = y[~np.isnan(y)] - lower
        n_at = int((known == 0.0).sum())
        known = known[known > 0.0]
        if len(np.unique(known)) < 2:
            got = f"{lower + known[0]:g} throughout" if known.size else "none"
            got = f"{got} above {lower:g}" if n_at else got
            must = "hold different values to fit a Box-Cox transform"
            raise refusal("y", must, got, "Use no transform.")

        def loss(power: float) -> float:
            if n_at:
                return _censored_loss(power, known, n_at)
            return -float(boxcox_llf(power, known))

        low = 0.01 if n_at else 0.0  # below, values at the bound are 100 or more from all others
        inner = float(minimize_scalar(loss, bounds=(low, 1.0), method="bounded").x)
        return cls(min((low, inner, 1.0), key=loss), lower)  # the search never reaches an end

    def check(self, y: Array, time: Callable[[int], str] | None = None) -> None:
        """Raise unless all values (n,) can be transformed, or are NaN; `time` names a position."""
        if self.power is None:
            return
        names = {power: name for name, power in POWERS.items() if name != "boxcox"}
        name = names.get(self.power, "Box-Cox")
        rule = "positive" if self.power == 0 else "nonnegative"
        if self.lower != 0.0:
            rule = f"{'above' if self.power == 0 else 'not below'} {self.lower:g}"
        wrong = y <= self.lower if self.power == 0 else y < self.lower
        if (at := first_true(wrong)) is not None:
            place = f"position {at}" if time is None else time(at)
            remedy = "Use no transform, or add a constant to y."
            raise refusal("y", f"be {rule} for a {name} transform", f"{y[at]:g} at {place}", remedy)

    def forward(self, y: ArrayLike) -> Array:
        """Transformed values; -inf below the bound, and of a logarithm at it."""
        values = np.asarray(y, dtype=np.float64)
        if self.power is None:
            return values.copy()
        above = values - self.lower
        return np.where(above < 0, -np.inf, boxcox(np.maximum(above, 0.0), self.power))

    def inverse(self, x: ArrayLike) -> Array:
        """Values of transformed ones, never below the bound; inf if too large for a float."""
        values = np.asarray(x, dtype=np.float64)
        if self.power is None:
            return values.copy()
        return np.asarray(self.lower + self._above(values))

    def slope(self, x: ArrayLike) -> Array:
        """Derivative of :meth:`inverse`: (y - L)^(1 - power), and 0 where y stays at L."""
        values = np.asarray(x, dtype=np.float64)
        if self.power is None:
            return np.ones_like(values)
        return np.where(self.power * values > -1, self._above(values) ** (1 - self.power), 0.0)

    def _above(self, values: Array) -> Array:
        """Distances of values above the bound, from transformed ones."""
        power = self.power or 0.0
        with np.errstate(over="ignore"):
            if power == 0:
                return np.asarray(np.exp(values))
            return np.asarray(np.exp(xlog1py(1 / power, np.maximum(power * values, -1.0))))


def _censored_loss(power: float, y: Array, n_at: int) -> float:
    """Negative log likelihood of a power with so many values at the bound: theory/transforms.md."""
    log_y = np.log(y) - np.log(y).mean()  # in units of the geometric mean
    x = np.asarray(boxcox(np.exp(log_y), power))
    end, ratio = float((-1 / power - x.mean()) / x.std()), n_at / len(y)

    def loss(parameters: Array) -> tuple[float, Array]:  # convex
        gamma, tau = parameters[0], np.exp(parameters[1])
        edge = tau * end - gamma
        tail = log_ndtr(edge)
        mills = ratio * np.exp(-0.5 * edge**2 - 0.5 * np.log(2 * np.pi) - tail)
        value = 0.5 * (tau**2 + gamma**2) - parameters[1] - ratio * tail
        slope = np.array([gamma + mills, tau**2 - 1.0 - mills * tau * end])
        return float(value), slope

    best = minimize(loss, np.zeros(2), jac=True, method="BFGS")
    return float(len(y) * (best.fun + np.log(x.std())))
