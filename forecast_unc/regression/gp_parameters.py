"""What the parameters of `GPRegressor` may be, by themselves and together."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import check_whole
from forecast_unc._typing import Array
from forecast_unc.regression.learned_prior import LearnedPrior
from forecast_unc.regression.noisy_inputs.learn import check_input_cov
from forecast_unc.regression.standardize import check_lengthscales, check_noise_std

_CHOICES = (
    ("prior", ("weak", "shrunk", None), "Use None to switch it off."),
    ("bias", ("free", "shrunk", None), "Use None for none."),
    (
        "noisy_inputs",
        ("nigp", "annealed", "stochastic_em", None),
        "Use None for inputs without noise, or with noise that is known.",
    ),
)


def check_parameters(given: Mapping[str, Any], d: int) -> None:
    """Raise unless the parameters of a `GPRegressor` go together and with the inputs.

    Parameters
    ----------
    given : mapping
        By name; others are not looked at.
    d : int
        Number of inputs.
    """
    learned = isinstance(given["prior"], LearnedPrior)
    if learned:
        _check_learned(given, d)
    for name, allowed, remedy in _CHOICES[int(learned) :]:
        if given[name] not in allowed:
            raise ValueError(
                f"{name} must be {', '.join(map(repr, allowed[:-1]))} or None; got "
                f"{given[name]!r}. {remedy}"
            )
    if given["groups"] is not None:
        _check_groups(given["groups"], d)
    if not learns_or_not(given["linear"]):
        _check_weights(given["linear"], given["noisy_inputs"], d)
    tol = given["tol"]
    if not isinstance(tol, (int, float, np.number)) or not 0.0 < tol < 1.0:
        raise ValueError(f"tol must lie strictly between 0 and 1 nat; got {tol!r}. Leave it out.")
    if given["hyperparameters"] not in ("mode", "integrated"):
        raise ValueError(
            "hyperparameters must be 'mode' or 'integrated'; got "
            f"{given['hyperparameters']!r}. 'mode' takes the most probable ones."
        )
    if given["hyperparameters"] == "integrated":
        _check_integrated(given)
    check_lengthscales(given["lengthscales"], d, "learn them")
    check_noise_std(given["noise_std"])
    check_whole("n_restarts", given["n_restarts"], 0, "0 is one search from the standard start.")


def known_noise(
    given: Mapping[str, Any], input_cov: ArrayLike | None, shape: tuple[int, ...]
) -> Array | None:
    """Known noise of the inputs, (d, d) or (n, d, d), or None; an error if it is not to be had.

    Parameters
    ----------
    given : mapping
        Parameters by name.
    input_cov : array-like, optional
        As of `GPRegressor.fit`.
    shape : tuple of int
        Of the inputs, (n, d).

    Returns
    -------
    ndarray or None
    """
    S = check_input_cov(input_cov, shape, given["noisy_inputs"] is None)
    if S is None:
        return None
    if not learns_or_not(given["linear"]) and np.any(given["linear"]):
        raise ValueError(
            "input_cov must be None with weights of a linear prior mean; got one. Use linear=True."
        )
    if given["hyperparameters"] == "integrated":
        raise ValueError(
            "input_cov must be None with hyperparameters='integrated'; got one. Use 'mode' "
            "for inputs with noise."
        )
    return S


def learns_or_not(linear: Any) -> bool:
    """Whether `linear` is True or False, and not the weights of a linear prior mean."""
    return isinstance(linear, (bool, np.bool_))


def _check_learned(given: Mapping[str, Any], d: int) -> None:
    """Raise unless a learned prior is one for these inputs."""
    weights = given["prior"].weights
    if weights.shape != (d,):
        raise ValueError(
            f"prior must be learned from data with {d} inputs; got one of {len(weights)}. Use "
            f"{given['prior'].base!r}."
        )
    if given["noisy_inputs"] is not None:
        raise ValueError(
            f"prior must be 'weak', 'shrunk' or None with noisy_inputs; got {given['prior']!r}. "
            "Its weights are of inputs without noise."
        )


def _check_groups(given: Any, d: int) -> None:
    """Raise unless each input has the number of a group."""
    groups = np.asarray(given)
    if (
        groups.shape != (d,)
        or not np.issubdtype(groups.dtype, np.integer)
        or groups.min() < -1
        or groups.max() > d + 1
    ):
        raise ValueError(
            f"groups must number the group of each of the {d} inputs, from 0, or -1 "
            f"for no linear weight; got {given!r}. Use None for one group."
        )


def _check_weights(linear: Any, noisy_inputs: str | None, d: int) -> None:
    """Raise unless each input has a weight of the linear prior mean, and no noise."""
    weights = np.asarray(linear)
    if (
        weights.shape != (d,)
        or not np.issubdtype(weights.dtype, np.number)
        or not np.isfinite(weights).all()
    ):
        raise ValueError(
            f"linear must be True, False or {d} finite weights of a linear prior mean; got "
            f"{linear!r}. True learns them."
        )
    if noisy_inputs is not None:
        raise ValueError(
            "linear must be True or False with noisy_inputs; got weights. Their slopes "
            "would be noise of the output: take the linear part off y beforehand."
        )


def _check_integrated(given: Mapping[str, Any]) -> None:
    """Raise if what is integrated over has no mean, or no nodes."""
    if given["prior"] is None:
        raise ValueError(
            "prior must be 'weak' or 'shrunk' for hyperparameters='integrated'; got None. "
            "Without one their posterior may have no mean: use 'weak'."
        )
    if given["noisy_inputs"] is not None:
        raise ValueError(
            "noisy_inputs must be None with hyperparameters='integrated'; got "
            f"{given['noisy_inputs']!r}. Use 'mode' for inputs with noise."
        )
    if not learns_or_not(given["linear"]):
        raise ValueError(
            "linear must be True or False with hyperparameters='integrated'; got weights. Use "
            "'mode' for a linear prior mean."
        )
