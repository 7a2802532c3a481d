r"""Steps turned upside down, :math:`-y_t = -q_t(-z_t)`: skewed downwards, with an upper bound."""

from collections.abc import Callable

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.distributions.marginals import Flags, Marginals
from forecast_unc.distributions.tail import Positions, Tail


class Mirrored(Marginals):
    """Distributions of -y, by those of y.

    Parameters
    ----------
    inner : Marginals
        Those of y.
    """

    __slots__ = ("inner",)

    def __init__(self, inner: Marginals) -> None:
        self.inner, self.components, self.offset = inner, inner.components, -inner.offset
        self.lower = self.start = np.full(len(inner), -np.inf)

    @property
    def normal(self) -> bool:
        """No: a normal forecast is turned as one."""
        return False

    def bounded(self, values: Array) -> Array:
        """Values (h, n) moved to the upper bound where they are above it."""
        return -self.inner.bounded(-values)

    def latent_quantile(self, z: Array) -> Array:
        """The same without the bound."""
        return -self.inner.latent_quantile(-z)

    def normal_score(self, y: Array) -> Array:
        """Largest z at which the value is at most y, (h,); inf from an upper bound on."""
        return np.where(-y <= self.inner.lower, np.inf, -self.inner.normal_score(-y))

    def mean(self) -> Array:
        """Mean of each step, (h,)."""
        return -self.inner.mean()

    def variance(self) -> Array:
        """Variance of each step, (h,)."""
        return self.inner.variance()

    def coupling(self) -> Callable[[Array], Array]:
        """The covariance, which is that of y, as a function of the correlations."""
        return self.inner.coupling()

    def atom(self, y: Array) -> Flags:
        """Whether each y, (h,), is a single value of positive probability: at the bound."""
        return self.inner.atom(-y)

    def nlpd(self, y: Array) -> Array:
        """Negative log density at y, of one y a step, (h,)."""
        return self.inner.nlpd(-y)

    def crps(self, y: Array) -> Array:
        """Continuous ranked probability score at y, of one y a step, (h,)."""
        return self.inner.crps(-y)

    def latent_scores(self, paths: Array) -> Array:
        """Normal scores of values before the bound, (n, h)."""
        return -self.inner.latent_scores(-paths)

    def picked(self, at: Positions) -> "Mirrored":
        """Distributions of the steps at the given positions."""
        return Mirrored(self.inner.picked(at))

    def conditioned(self, mean: Array, std: Array) -> "Mirrored":
        """Distributions once z is ``mean + std`` times a standard normal, (h,) each."""
        return Mirrored(self.inner.conditioned(-mean, std))

    def widened(self, factor: Array) -> "Mirrored":
        """Distributions of ``factor`` (h,) times the stds."""
        return Mirrored(self.inner.widened(factor))

    def with_dof(self, dof: float) -> "Mirrored":
        """Distributions with these tails of Student's t where there are others, or none."""
        return Mirrored(self.inner.with_dof(dof))

    def shaped(self, tail: Tail) -> "Mirrored":
        """Distributions with T(z) in the place of z, T odd."""
        return Mirrored(self.inner.shaped(tail))


def affine(marginals: Marginals, factor: float, shift: float) -> Marginals:
    """Distributions of ``factor * y + shift``, of either sign.

    Parameters
    ----------
    marginals : Marginals
        Those of y.
    factor, shift : float
        Finite, the factor not 0.

    Returns
    -------
    Marginals
    """
    if isinstance(marginals, Mirrored):
        return affine(marginals.inner, -factor, shift)
    if factor > 0:
        return marginals.affine(factor, shift)
    if marginals.normal:
        (component,) = marginals.components
        turned = component.like(factor * component.mean, -factor * component.std)
        return Marginals([turned], factor * marginals.offset + shift)
    return Mirrored(marginals.affine(-factor, -shift))
