"""Nonlinear transforms of the values: logarithm and Box-Cox."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import boxcox, xlog1py
from scipy.stats import boxcox_llf

from forecast_unc._typing import Array


@dataclass(frozen=True)
class PowerTransform:
    r"""Logarithm, Box-Cox transform or identity.

    .. math:: x = (y^\lambda - 1)/\lambda, \qquad y = \max(\lambda x + 1, 0)^{1/\lambda}

    with x = log y at :math:`\lambda = 0`. A normal x below :math:`-1/\lambda` stands for y = 0, so
    y is never negative.

    Parameters
    ----------
    power : float or None, default=None
        The exponent, 0 or from 1e-9 to 1; 0 is the logarithm, None the identity. The nearer to 0,
        the faster the spread grows with the level.

    Raises
    ------
    ValueError
        If ``power`` is something else. Below 0, y would have no mean; above 1, the spread would
        shrink as the level grows.

    References
    ----------
    G. E. P. Box and D. R. Cox, "An analysis of transformations", JRSS B 26 (1964) 211-252,
    https://doi.org/10.1111/j.2517-6161.1964.tb00553.x

    Examples
    --------
    >>> PowerTransform(0.5).forward([0.0, 1.0, 9.0])
    array([-2.,  0.,  4.])
    >>> PowerTransform(0.5).inverse([-3.0, 0.0, 4.0])
    array([0., 1., 9.])
    """

    power: float | None = None

    def __post_init__(self) -> None:
        if self.power is None:
            return
        # Smaller powers are the logarithm to a float's digits, but for overflowing 1 / power.
        if not isinstance(self.power, Real) or not (self.power == 0 or 1e-9 <= self.power <= 1):
            raise ValueError(
                f"power must be None, 0 or from 1e-9 to 1; got {self.power!r}. "
                "0 is the logarithm, None changes nothing."
            )

    @classmethod
    def fit(cls, y: Array) -> Self:
        """Box-Cox transform of maximum likelihood, its power in [0, 1].

        Parameters
        ----------
        y : ndarray of shape (n,)
            Positive values; NaN is left out.

        Returns
        -------
        PowerTransform
            With ``power=0`` or ``power=1`` where an end of the interval is the most likely.

        Raises
        ------
        ValueError
            If a value is not positive, or all are the same.

        Examples
        --------
        >>> PowerTransform.fit(np.exp(np.linspace(0, 5, 50)))
        PowerTransform(power=0.0...)
        """
        PowerTransform(0.0).check(y)
        known = y[~np.isnan(y)]
        if known.size == 0 or known.min() == known.max():
            got = "none" if known.size == 0 else f"{known[0]:g} throughout"
            raise ValueError(
                f"y must hold different values to fit a Box-Cox transform; got {got}. "
                "Use no transform."
            )

        def loss(power: float) -> float:
            return -float(boxcox_llf(power, known))

        inner = float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x)
        return cls(min((0.0, inner, 1.0), key=loss))  # the search never reaches an end

    def check(self, y: Array, time: Callable[[int], str] | None = None) -> None:
        """Raise unless all values can be transformed.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Values; NaN passes, as not observed.
        time : callable, optional
            What to call a position in the message; by default a position.

        Raises
        ------
        ValueError
            If a logarithm would be taken of zero, or any other power of a negative value.
        """
        if self.power is None:
            return
        name, rule = ("log", "positive") if self.power == 0 else ("Box-Cox", "nonnegative")
        wrong = y <= 0 if self.power == 0 else y < 0
        if wrong.any():
            at = int(wrong.argmax())
            place = f"position {at}" if time is None else time(at)
            raise ValueError(
                f"y must be {rule} for a {name} transform; got {y[at]:g} at {place}. "
                "Use no transform, or add a constant to y."
            )

    def forward(self, y: ArrayLike) -> Array:
        """Transformed values; -inf below zero, and of a logarithm at zero.

        Parameters
        ----------
        y : array_like
            Values. Call :meth:`check` first where they come from a user.

        Returns
        -------
        ndarray
        """
        values = np.asarray(y, dtype=np.float64)
        if self.power is None:
            return values.copy()
        return np.where(values < 0, -np.inf, boxcox(np.maximum(values, 0.0), self.power))

    def inverse(self, x: ArrayLike) -> Array:
        """Values of transformed ones; never negative, unless this is the identity.

        Parameters
        ----------
        x : array_like
            Transformed values.

        Returns
        -------
        ndarray
            inf where they are too large for a float.
        """
        values = np.asarray(x, dtype=np.float64)
        if self.power is None:
            return values.copy()
        with np.errstate(over="ignore"):
            if self.power == 0:
                return np.asarray(np.exp(values))
            base = np.maximum(self.power * values, -1.0)
            return np.asarray(np.exp(xlog1py(1 / self.power, base)))

    def slope(self, x: ArrayLike) -> Array:
        """Derivative of :meth:`inverse`: y^(1 - power), and 0 where y stays at 0.

        Parameters
        ----------
        x : array_like
            Transformed values.

        Returns
        -------
        ndarray
        """
        values = np.asarray(x, dtype=np.float64)
        if self.power is None:
            return np.ones_like(values)
        return np.where(self.power * values > -1, self.inverse(values) ** (1 - self.power), 0.0)
