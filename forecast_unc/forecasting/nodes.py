"""Several posteriors of which one is right at all steps, and the pieces of a mixture."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri

from forecast_unc._checks import generator
from forecast_unc._typing import Array
from forecast_unc.distributions.joint import Diverged
from forecast_unc.forecasting.recursion import Future, Method, OneStepModel

# Paths of an alternative: two, and one that rounding may take away.
_LEAST_PATHS = 3
# The most probability of what diverges that is left out. The likeliest of ten nodes has as much.
_MOST_LOST = 0.1
# Pieces of a mixture, a choice between time and error; docs/benchmarks/all.md has the figures.
PIECES = 256
# A column of points is orthogonal to so many before it; fewer than PIECES / 2, which leave none.
_REACH = 100

T = TypeVar("T")


class Alternative(NamedTuple):
    """A model that may be the right one."""

    p: float
    model: OneStepModel
    method: Method  # for it


def by_alternative(model: OneStepModel, method: Method) -> list[Alternative]:
    """Each model of which one is right; without `path_consistent` the whole, by two moments.

    Of sample paths each gets its share, by rounding, and draws of its own. One that would get fewer
    than three is left out: of so few a variance means nothing.
    """
    found = model.alternatives
    if len(found) == 1 or not method.path_consistent:
        return [Alternative(1.0, model, method)]
    if method.propagation != "monte_carlo":
        return [Alternative(p, one, method) for p, one in found]
    n, likeliest = method.n_samples, max(p for p, _ in found)
    kept = [(p, one) for p, one in found if p == likeliest or p * n >= _LEAST_PATHS]
    shares = np.array([p for p, _ in kept])
    counts = np.diff(np.rint(n * np.cumsum([0.0, *shares / shares.sum()])).astype(np.intp))
    seeds = generator(method.random_state).integers(2**63, size=len(kept))
    return [
        Alternative(count / n, one, method._replace(n_samples=int(count), random_state=int(seed)))
        for (_, one), count, seed in zip(kept, counts, seeds, strict=True)
    ]


def through_each(
    found: Sequence[Alternative],
    future: Future,
    ask: Callable[[Alternative, Future], T],
    go_on: Callable[[Alternative, T | None, Sequence[tuple[float, T]]], T],
) -> list[T]:
    """What each alternative says of the whole horizon, by `ask`.

    Where some diverge, with no more than a tenth of the probability, their steps from there on are
    taken from those that get further, by `go_on`: from what an alternative says as far as it gets
    (None if nowhere), and from what the others say of the whole horizon, with their probabilities.
    So mean and covariance of these steps are those without it, the first steps do not depend on the
    horizon, and a band covers too little by the probability that was lost, at most. With more than
    a tenth the forecast diverges.
    """
    if len(found) == 1:
        return [ask(found[0], future)]
    reached = [_as_far_as_it_goes(one, future, ask) for one in found]
    lost = 0.0
    pairs = zip(found, reached, strict=True)
    for one, (_, _, error) in sorted(pairs, key=lambda pair: pair[1][1]):
        lost += 0.0 if error is None else one.p
        if error is not None and lost > _MOST_LOST:
            raise error
    said = [value for value, _, _ in reached]
    for reach in sorted({reach for _, reach, error in reached if error is not None}, reverse=True):
        further = [
            (one.p, value)
            for one, value, (_, other, _) in zip(found, said, reached, strict=True)
            if other > reach and value is not None
        ]
        for i, (value, own, _) in enumerate(reached):
            if own == reach:
                said[i] = go_on(found[i], value, further)
    return [value for value in said if value is not None]


def go_on_as_others(
    own: Array | None, others: Sequence[tuple[float, Array]], n_samples: int
) -> Array:
    """Sample paths (h, n) whose steps after their own (k, n) are those of others, evenly taken."""
    paths = np.hstack([each for _, each in others])
    columns = (np.arange(n_samples) * paths.shape[1]) // n_samples
    end = 0 if own is None else len(own)
    rest = paths[end:, columns]
    return rest if own is None else np.vstack([own, rest])


def _as_far_as_it_goes(
    one: Alternative, future: Future, ask: Callable[[Alternative, Future], T]
) -> tuple[T | None, int, Diverged | None]:
    """What it says of the steps before it diverges, their number, and the error if it does."""
    reach, error = len(future.exog), None
    while reach > 0:
        try:
            return ask(one, future.first(reach)), reach, error
        except Diverged as diverged:
            # a shorter one may fail at an earlier step, for another reason
            error, reach = diverged, min(reach, diverged.step) - 1
    return None, 0, error


class Points:
    r"""Points that stand for draws: columns of normal scores at which pieces of a mixture go on.

    Given a piece's earlier values, its function and the noise, its next value is exactly normal,
    and the step is a mixture of M such normals of equal weight. Piece j goes on from one point,
    :math:`m_{jt} + s_{jt} \varepsilon_{jt}`. The points are a cubature of degree 3,

    .. math:: \tfrac1M \sum_j \varepsilon_{jt} \varepsilon_{ju} = \delta_{tu}, \qquad
        \tfrac1M \sum_j \varepsilon_{jt} \varepsilon_{ju} \varepsilon_{jv} = 0 :

    where y is linear in them its moments are exact, whatever M; where quadratic, the mean is.

    A column is a permutation of the quantiles of one half of the pieces (a Latin hypercube), made
    orthogonal to those before it, and the other half has the opposite signs. A column depends on
    those before it alone: the first steps do not depend on the horizon. There is no seed.
    """

    def __init__(self, pieces: slice) -> None:
        half = PIECES // 2
        self._pieces = pieces  # of a block, m of all 256
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
