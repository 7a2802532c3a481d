r"""The horizon as a mixture: pieces of equal weight, each with a past and a function of its own.

Given the earlier values of a piece, one and the same function and the noise, its next value is
exactly normal, and with :math:`m_{jt}, s_{jt}` its mean and std

.. math:: p(y_t) = \tfrac1M \sum_j \mathcal N(y_t \mid m_{jt}, s_{jt}^2), \qquad
    y_{jt} = m_{jt} + s_{jt}\, \varepsilon_{jt} .

Each step splits every such normal distribution once more: piece j goes on from one point of it,
:math:`\varepsilon_{jt}`. No Gaussian closure is left, nor an expansion in the function's error: the
posterior of a piece is conditioned on the piece's own values. What is approximate is the number of
pieces, and the points are spread so that it matters little,

.. math:: \tfrac1M \sum_j \varepsilon_{jt} \varepsilon_{ju} = \delta_{tu}, \qquad
    \tfrac1M \sum_j \varepsilon_{jt} \varepsilon_{ju} \varepsilon_{jv} = 0 :

a cubature of degree 3. Where :math:`y` is linear in the :math:`\varepsilon` its moments are exact,
whatever M; where it is quadratic, the mean is.
"""

from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from forecast_unc._typing import Array
from forecast_unc.forecasting.filtering import run_in
from forecast_unc.forecasting.recursion import Future, Method, OneStepModel, Past
from forecast_unc.forecasting.sampling import block_sizes, paths_from_normals

# A choice between time and error; docs/benchmarks/all.md has the figures.
PIECES = 256
# A column of points is orthogonal to so many before it; fewer than PIECES / 2, which leave none.
_REACH = 100


class Points:
    """The points at which the pieces go on: columns of normal scores, in the place of draws.

    A column is a permutation of the quantiles of one half of the pieces (a Latin hypercube), made
    orthogonal to the columns before it, and the other half has the opposite signs. A column
    depends on those before it alone: the first steps do not depend on the horizon. There is no
    seed: the permutations are always the same.

    Parameters
    ----------
    pieces : slice
        Those of a block, m of all 256.
    """

    def __init__(self, pieces: slice) -> None:
        half = PIECES // 2
        self._pieces = pieces
        self._quantiles = ndtri((np.arange(half) + 0.5) / half)
        self._rng = np.random.default_rng(0)
        self._columns = np.zeros((0, half))

    def standard_normal(self, size: int | tuple[int, int], /) -> Array:
        """The next column, (m,), or the next k of them, (m, k)."""
        if isinstance(size, int):
            return self._next()
        rows, k = size
        return np.array([self._next() for _ in range(k)]).reshape(k, rows).T

    def random(self) -> float:
        """Where systematic resampling starts: in the middle of its first interval."""
        return 0.5

    def _next(self) -> Array:
        column = self._rng.permutation(self._quantiles)
        before = self._columns[-_REACH:]
        column -= (before @ column / len(column)) @ before
        column /= np.sqrt(column @ column / len(column))
        self._columns = np.vstack([before, column])
        return np.concatenate([column, -column])[self._pieces]


def pieces(model: OneStepModel, past: Past, future: Future, method: Method) -> Array:
    """Where the pieces go on at each of the next h observations, of shape (256, h).

    Parameters
    ----------
    model : OneStepModel
        One-step model; it need not have moments in closed form.
    past : Past
        The levels up to the origin. Missing and noisy ones are split, too, from the last complete
        window on; pieces that disagree with what was observed later give way to those that agree.
    future : Future
        Regressors; uncertain ones are split like the levels.
    method : Method
        With `path_consistent` a piece keeps its function.

    Returns
    -------
    ndarray of shape (256, h)
        Of equal weight.
    """
    start = run_in(model, past)
    ends = np.cumsum([0, *block_sizes(model.posterior, PIECES)])
    return np.vstack(
        [
            paths_from_normals(
                model, start, past, future, b - a, method.path_consistent, Points(slice(a, b))
            )
            for a, b in pairwise(ends.tolist())
        ]
    )
