"""Descent of a negative log evidence by L-BFGS-B, which stops by what steps gain in nats."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from forecast_unc._typing import Array

# Steps whose gains count together. Near a saddle, as where the nonlinear part has yet to show,
# single steps gain nothing for a while: of 493 searches (Mackey-Glass, Lorenz, autoregressions and
# series of competitions, 18 to 588 rows) 4 ended more than .1 nat below where they would have
# got to, at most 1.1 nats; 6 with 8 steps, at most 14.
_STEPS = 10
# What SciPy would stop at itself: rounding. At 1e-10 and a gradient of 1e-4 a search stayed 75 nats
# below its end, at a saddle that it leaves four steps later.
_ROUNDING = {"ftol": 1e-14, "gtol": 1e-6}
# Pairs that the curvature is learned from, in the place of SciPy's 10. Scaled by the curvature that
# log noise has, 2 n, ordinary data took a sixth fewer evaluations, but series without noise a third
# more, and 10 of 58 of them ended more than 10 nats short.
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
    most: int = 500,
) -> Minimum:
    """Minimum of an objective in nats, near enough that further steps hardly gain.

    Parameters
    ----------
    objective : callable
        Value, in nats, and gradient (q,) at x (q,).
    start : ndarray of shape (q,)
        Taken into the bounds.
    bounds : array-like of shape (q, 2)
        Of x.
    tol : float
        The descent ends when its last ten steps together gained less, in nats.
    most : int
        Steps at most.

    Returns
    -------
    Minimum
        The value is infinite if that at the start is.
    """
    limits = np.asarray(bounds, dtype=np.float64)
    values: list[float] = []

    def valued(x: Array) -> tuple[float, Array]:
        value, gradient = objective(x)
        if not values:
            values.append(value)
        return value, gradient

    def after_step(intermediate_result: Any) -> None:
        values.append(float(intermediate_result.fun))
        if len(values) > _STEPS and values[-1 - _STEPS] - values[-1] < tol:
            raise StopIteration

    options = {"maxiter": most, "maxcor": _PAIRS, **_ROUNDING}
    search: Any = minimize
    found = search(
        valued,
        np.clip(start, *limits.T),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        callback=after_step,
        options=options,
    )
    # a line search that finds no lower value ends at rounding, too
    arrived = found.nit < most and len(values) > 1 and values[-2] - values[-1] < tol
    converged = bool(np.isfinite(found.fun)) and (bool(found.success) or arrived)
    return Minimum(found.x, float(found.fun), converged, int(found.nit))
