"""From rows and a choice of trainer to what a regressor keeps."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import check_covariance
from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.noisy_inputs.annealed import learn_annealed
from forecast_unc.regression.noisy_inputs.evidence import RowEvidence
from forecast_unc.regression.noisy_inputs.nigp import learn_nigp
from forecast_unc.regression.noisy_inputs.posterior import (
    BlurredRows,
    Hyperparameters,
    LinearizedRows,
    referred,
)
from forecast_unc.regression.noisy_inputs.search import Learned, Problem, Round, SearchSpace
from forecast_unc.regression.noisy_inputs.stochastic_em import learn_stochastic_em

NoisyInputs = Literal["nigp", "annealed", "stochastic_em"]
NoisyRows = BlurredRows | LinearizedRows

LEAST_NOISE_RATIO = 1e-4
"""Least noise std in amplitudes, where the noise is learned; that of the plain fit."""


def train(
    kind: NoisyInputs,
    evidence: GaussianProcessEvidence,
    space: SearchSpace,
    start: Array,
    input_cov: Array | None,
    random_state: RandomState,
    tol: float,
) -> Learned:
    """Run a trainer on standardized data; those other than "nigp" start from what that finds.

    Parameters
    ----------
    kind : {"nigp", "annealed", "stochastic_em"}
        The trainer.
    evidence : GaussianProcessEvidence
        Of the rows without input noise.
    space : SearchSpace
        Priors and bounds of the log hyper-parameters.
    start : ndarray of shape (d + 2 + g,)
        Those of the fit without input noise.
    input_cov : ndarray of shape (d, d) or (n, d, d), optional
        Covariance of the input noise, where it is known.
    random_state : int, Generator or None
        Seed of "stochastic_em".
    tol : float
        Of the searches.

    Returns
    -------
    Learned
        With the noise's least in its log hyper-parameters.
    """
    rows = RowEvidence(evidence.y, evidence.linear, evidence.groups, evidence.bias_scale)
    inputs = np.ascontiguousarray(evidence.X.T)
    problem = Problem(inputs, rows, space, start, input_cov, LEAST_NOISE_RATIO)
    found = learn_nigp(problem, tol)
    if kind == "annealed":
        found = learn_annealed(problem, found, tol)
    elif kind == "stochastic_em":
        found = learn_stochastic_em(problem, found, generator(random_state), tol)
    log_hyper = found.log_hyper.copy()
    log_hyper[-1] = 0.5 * np.log(problem.scales(log_hyper)[-1])
    return found._replace(log_hyper=log_hyper)


def check_input_cov(
    input_cov: ArrayLike | None, shape: tuple[int, ...], diagonal: bool
) -> Array | None:
    """Covariance of the input noise, (d, d) or (n, d, d), or an error that says what is wrong.

    Parameters
    ----------
    input_cov : array-like, optional
        What came; None stays None.
    shape : tuple of int
        Of the inputs, (n, d).
    diagonal : bool
        Whether it has to be the same variances for all rows.

    Returns
    -------
    ndarray of shape (d, d) or (n, d, d), or None
    """
    if input_cov is None:
        return None
    n, d = shape
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
    for each in S.reshape(-1, d, d):
        check_covariance("input_cov", each)
    if diagonal and (S.ndim == 3 or np.count_nonzero(S - np.diag(np.diagonal(S)))):
        raise ValueError(
            "input_cov must be the same variances for all rows with noisy_inputs=None; got "
            f"shape {np.shape(input_cov)}. Use noisy_inputs='nigp' for others."
        )
    return S


def noisy_rows(
    found: Learned, hyper: Hyperparameters, X: Array, y: Array, scale: Array, smoothed: bool
) -> LinearizedRows:
    """What a trainer makes of rows, in units of the data.

    Parameters
    ----------
    found : Learned
        What it found, on standardized data.
    hyper : Hyperparameters
        The same in units of the data.
    X : ndarray of shape (n, d)
        Inputs as observed.
    y : ndarray of shape (n,)
        Targets.
    scale : ndarray of shape (d + 1,)
        Units of the inputs and of y.
    smoothed : bool
        Whether inputs are smoothed.

    Returns
    -------
    LinearizedRows
    """
    S = found.input_cov * np.outer(scale[:-1], scale[:-1])
    inputs = found.inputs * scale[:-1] + hyper.input_offset
    slopes = found.slopes * scale[-1] / scale[:-1]
    targets = y - np.einsum("nd,nd->n", slopes, X - inputs)
    curve = hyper.posterior(inputs, targets, hyper.noise_std**2 + referred(slopes, S))
    return LinearizedRows(hyper, curve, S, smoothed)


def in_units(rounds: list[Round], scale: Array) -> list[Round]:
    """Rounds in units of the data; scale (d + 1,) as in `noisy_rows`."""
    return [Round(r.noise_std * scale[-1], r.input_std * scale[:-1], r.score) for r in rounds]
