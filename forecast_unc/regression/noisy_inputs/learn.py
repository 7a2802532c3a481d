"""From rows and a choice of trainer to what a regressor keeps."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.regression.noisy_inputs.annealed import learn_annealed
from forecast_unc.regression.noisy_inputs.nigp import learn_nigp
from forecast_unc.regression.noisy_inputs.posterior import (
    BlurredRows,
    Hyperparameters,
    LinearizedRows,
    referred,
)
from forecast_unc.regression.noisy_inputs.search import Learned, Problem
from forecast_unc.regression.noisy_inputs.stochastic_em import learn_stochastic_em

NoisyInputs = Literal["nigp", "annealed", "stochastic_em"]
NoisyRows = BlurredRows | LinearizedRows
_EIGENVALUE_TOLERANCE = 1e-8


def train(kind: NoisyInputs, problem: Problem, random_state: RandomState, tol: float) -> Learned:
    """Run a trainer; those other than "nigp" start from what that finds."""
    found = learn_nigp(problem, tol)
    if kind == "annealed":
        return learn_annealed(problem, found, tol)
    if kind == "stochastic_em":
        return learn_stochastic_em(problem, found, generator(random_state), tol)
    return found


def check_input_cov(input_cov: ArrayLike, n: int, d: int, diagonal: bool) -> Array:
    """Covariance of the input noise, (d, d) or (n, d, d), or an error that says what is wrong.

    Parameters
    ----------
    input_cov : array-like
        What came.
    n, d : int
        Rows and inputs.
    diagonal : bool
        Whether it has to be the same variances for all rows.

    Returns
    -------
    ndarray of shape (d, d) or (n, d, d)
    """
    S = np.asarray(input_cov, dtype=np.float64)
    if S.shape not in ((d,), (d, d), (n, d, d)):
        raise ValueError(
            f"input_cov must have shape ({d},), ({d}, {d}) or ({n}, {d}, {d}); got {S.shape}. Give "
            "variances, a covariance for all rows, or one for each."
        )
    if not np.isfinite(S).all():
        raise ValueError(
            "input_cov must be finite; got NaN or infinity. Leave rows without an input out."
        )
    S = np.diag(S) if S.shape == (d,) else S
    symmetric = np.allclose(S, np.swapaxes(S, -1, -2), rtol=1e-8, atol=0.0)
    if not symmetric or np.linalg.eigvalsh(S).min() < -_EIGENVALUE_TOLERANCE * np.abs(S).max():
        raise ValueError(
            "input_cov must be symmetric and positive semi-definite; got a matrix that is not. "
            "Give variances alone."
        )
    if diagonal and (S.ndim == 3 or np.count_nonzero(S - np.diag(np.diagonal(S)))):
        raise ValueError(
            "input_cov must be variances that are the same for all rows with noisy_inputs=None; got "
            f"shape {np.shape(input_cov)}. Use noisy_inputs='nigp' for others."
        )
    return S


def linearized_rows(
    learned: Learned,
    hyper: Hyperparameters,
    X: Array,
    y: Array,
    scale: Array,
    smoothed: bool,
) -> LinearizedRows:
    """The rows as linearized by a trainer, in units of the data.

    Parameters
    ----------
    learned : Learned
        What the trainer found, on standardized data.
    hyper : Hyperparameters
        The same in units of the data.
    X, y : ndarray of shape (n, d) and (n,)
        The rows.
    scale : ndarray of shape (d + 1,)
        Units of the inputs and of y.
    smoothed : bool
        Whether inputs are smoothed.
    """
    S = learned.input_cov * np.outer(scale[:-1], scale[:-1])
    inputs = learned.inputs * scale[:-1] + hyper.input_offset
    slopes = learned.slopes * scale[-1] / scale[:-1]
    targets = y - np.einsum("nd,nd->n", slopes, X - inputs)
    curve = hyper.posterior(inputs, targets, hyper.noise_std**2 + referred(slopes, S))
    return LinearizedRows(hyper, curve, S, smoothed)
