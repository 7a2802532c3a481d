"""Functions drawn from the prior, for pathwise conditioning: theory/propagations.md."""

import numpy as np
from scipy.linalg.blas import sgemm
from scipy.special import chdtri

from forecast_unc._typing import Array

_FREQUENCIES = 512  # of a draw; what that costs is in theory/propagations.md
# Draws that share their frequencies. A common error of 6 % is small
# beside the Monte Carlo error of the variance of so many draws, 25 %.
_SHARING = 32


def frequencies(n: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Frequencies (d, n) and weights (n,) of cosines whose sum is unbiased for the kernel."""
    directions = rng.standard_normal((d, n))
    directions /= np.sqrt(np.einsum("df,df->f", directions, directions))
    strata = np.arange(n // 2) + 1.0 - rng.random((2, n // 2))  # never 0, of infinite radius
    # Half are wider: where data with little noise leave little variance, it is of frequencies that
    # the kernel's spectral density N(0, I) does not reach.
    widths = np.array([[1.0], [1.0 + 2.0 / np.sqrt(d)]])
    radii = (widths * np.sqrt(chdtri(d, strata / (n // 2)))).ravel()
    wide = widths[1, 0]
    ratio = 0.5 + 0.5 * np.exp(0.5 * radii**2 * (1.0 - wide**-2) - d * np.log(wide))  # q / p
    return directions * radii, 1.0 / (n * ratio)


def sharing(n: int) -> list[slice]:
    """Groups of n draws that share their frequencies, and stay in the cache together."""
    return [slice(i, min(i + _SHARING, n)) for i in range(0, n, _SHARING)]


class PriorDraws:
    """Draws of n functions of unit variance with the squared-exponential kernel."""

    def __init__(self, n: int, d: int, rng: np.random.Generator) -> None:
        self.groups = sharing(n)
        shape = (_FREQUENCIES, n)
        self.phases = np.asfortranarray(2.0 * np.pi * rng.random(shape, dtype=np.float32))
        self.sizes = np.asfortranarray(rng.standard_exponential(shape, dtype=np.float32))
        self.frequencies = []
        for group in self.groups:
            omega, weights = frequencies(_FREQUENCIES, d, rng)
            self.frequencies.append(np.asfortranarray(omega, dtype=np.float32))
            self.sizes[:, group] *= 2.0 * weights[:, None]
        np.sqrt(self.sizes, out=self.sizes)

    def at(self, Z: Array) -> Array:
        """Values of all functions at common inputs, the columns of Z (d, m): (m, n)."""
        Z32 = np.asfortranarray(Z, dtype=np.float32)
        out = np.empty((Z.shape[1], self.phases.shape[1]))
        for group, omega in zip(self.groups, self.frequencies, strict=True):
            angle = sgemm(1.0, omega, Z32, trans_a=1)  # (f, m)
            phase, size = self.phases[:, group], self.sizes[:, group]
            out[:, group] = sgemm(1.0, np.cos(angle), size * np.cos(phase), trans_a=1)
            out[:, group] += sgemm(1.0, np.sin(angle), size * np.sin(phase), trans_a=1)
        return out

    def along(self, Z: Array, group: int) -> Array:
        """Values of one group's functions, each at an input of its own, a column of Z (d, k)."""
        at = self.groups[group]
        angle = sgemm(1.0, self.frequencies[group], Z, trans_a=1)
        angle -= self.phases[:, at]
        np.cos(angle, out=angle)
        return np.asarray(np.einsum("fk,fk->k", angle, self.sizes[:, at]))
