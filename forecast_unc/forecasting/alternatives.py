"""Several posteriors of which one is right, at all steps: the horizon through each of them.

Where one of them diverges, and all that do have no more than a tenth of the probability, its steps
from there on are taken from those that go further: independent of its own before, with the mean and
covariance of their mixture. So mean and covariance of these steps are those without it, and the
first steps do not depend on the horizon. A band can cover too little by the probability that was
lost, and no more. With more than a tenth the forecast diverges.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from forecast_unc._random import generator
from forecast_unc._typing import Array
from forecast_unc.distributions.diverged import Diverged
from forecast_unc.forecasting.recursion import Future, Method, OneStepModel

# Paths of an alternative: two, and one that rounding may take away.
_LEAST_PATHS = 3
# The most probability of what diverges that is left out. The likeliest of ten nodes has as much.
_MOST_LOST = 0.1

T = TypeVar("T")


class Alternative(NamedTuple):
    """A model that may be the right one."""

    p: float
    model: OneStepModel
    method: Method  # for it


def by_alternative(model: OneStepModel, method: Method) -> list[Alternative]:
    """Each model of which one is right, with its probability and the method for it.

    Of sample paths each gets its share, by rounding, and draws of its own. One that would get
    fewer than three is left out: of so few a variance means nothing.

    Parameters
    ----------
    model : OneStepModel
        The model.
    method : Method
        Without `path_consistent` the model stands for all of its alternatives, by two moments.

    Returns
    -------
    list of Alternative
        Of one if it has no alternatives.
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
    """What each alternative says of the whole horizon.

    Parameters
    ----------
    found : sequence of Alternative
        Of `by_alternative`.
    future : Future
        The horizon.
    ask : callable
        What an alternative says of a horizon; raises `Diverged` if it does not get to its end.
    go_on : callable
        From an alternative, what it says as far as it gets (None if nowhere), and what those that
        get further say of the whole horizon, with their probabilities, to what takes its place.

    Returns
    -------
    list
        In the order of the alternatives.

    Raises
    ------
    Diverged
        If more than a tenth of the probability diverges, with the step at which it does.
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
    """Sample paths (h, n) whose later steps are those of other paths, evenly taken from all.

    Parameters
    ----------
    own : ndarray of shape (k, n), optional
        As far as they go.
    others : sequence of (float, ndarray of shape (h, m))
        The others, whose numbers are in proportion to the probabilities.
    n_samples : int
        Their number n.

    Returns
    -------
    ndarray of shape (h, n)
    """
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
