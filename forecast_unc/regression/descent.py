"""Descent of a negative log evidence by L-BFGS-B, which stops by what steps gain in nats."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from forecast_unc._typing import Array

# Steps whose gains count together. Near a saddle, as where the nonlinear part has yet to show,
# single steps gain nothing for a while: of 435 searches (Mackey-Glass, maps, autoregressions and
# series of competitions, 18 to 1000 rows) those that ended more than .1 nat below where they would
# have got to were 3 with 8 steps and 5 with 5; the rule before, a share of 1e-6 in one step: 9.
_STEPS = 8
# What SciPy would stop at itself: rounding. At 1e-10 and a gradient of 1e-4 a search stayed 75 nats
# below its end, at a saddle that it leaves four steps later.
_ROUNDING = {"ftol": 1e-14, "gtol": 1e-6}
# Pairs that the curvature is learned from: 20 in the place of 10 save a tenth of the evaluations.
_PAIRS = 20


class Minimum(NamedTuple):
    """Where a descent ended."""

    x: Array  # (q,)
    value: float
    converged: bool
    n_iter: int


def descend(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: ArrayLike,
    tol: float,
    unit: Array | float = 1.0,
    most: int = 500,
) -> Minimum:
    r"""Minimum of an objective in nats, near enough that further steps hardly gain.

    The search is of u = x o c, with c the root of the curvature to be expected. A log noise std has
    that of n residuals, 2 n, and all else some 1: unscaled, the first steps are as short as the
    noise wants them, and the search takes twice the evaluations and stays at more saddles.

    Parameters
    ----------
    objective : callable
        Value, in nats, and gradient (q,) at x (q,).
    start : ndarray of shape (q,)
        Taken into the bounds.
    bounds : array-like of shape (q, 2)
        Of x.
    tol : float
        The descent ends when its last eight steps together gained less, in nats.
    unit : ndarray of shape (q,)
        c.
    most : int
        Steps at most.

    Returns
    -------
    Minimum
        The value is infinite if that at the start is.
    """
    unit, limits = np.broadcast_to(unit, start.shape), np.asarray(bounds, dtype=np.float64)
    values: list[float] = []

    def scaled(u: Array) -> tuple[float, Array]:
        value, gradient = objective(u / unit)
        if not values:
            values.append(value)
        return value, gradient / unit

    def after_step(intermediate_result: Any) -> None:
        values.append(float(intermediate_result.fun))
        if len(values) > _STEPS and values[-1 - _STEPS] - values[-1] < tol:
            raise StopIteration

    options = {"maxiter": most, "maxcor": _PAIRS, **_ROUNDING}
    search: Any = minimize
    found = search(
        scaled,
        np.clip(start, *limits.T) * unit,
        jac=True,
        method="L-BFGS-B",
        bounds=limits * unit[:, None],
        callback=after_step,
        options=options,
    )
    # a line search that finds no lower value ends at rounding, too
    arrived = found.nit < most and len(values) > 1 and values[-2] - values[-1] < tol
    x = np.clip(found.x / unit, *limits.T)
    return Minimum(x, float(found.fun), bool(found.success) or arrived, int(found.nit))
