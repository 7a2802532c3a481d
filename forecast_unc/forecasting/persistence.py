"""Fitted forecasters on disk."""

import pickle
from os import PathLike
from pathlib import Path
from typing import Any

from forecast_unc._version import __version__


def save_model(model: object, path: str | PathLike[str]) -> None:
    """Write a fitted forecaster to a file, for `load_model`.

    Parameters
    ----------
    model : object
        The forecaster.
    path : str or path
        File to write, a pickle.
    """
    Path(path).write_bytes(pickle.dumps({"forecast_unc": __version__, "model": model}))


def load_model(path: str | PathLike[str]) -> Any:
    """Read a forecaster written by ``Forecaster.save``.

    Parameters
    ----------
    path : str or path
        A file from a source you trust: unpickling runs code.

    Returns
    -------
    Forecaster or Combination

    Raises
    ------
    ValueError
        If the file is of another kind or of another version of the package.
    """
    try:
        stored = pickle.loads(Path(path).read_bytes())
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError) as error:
        stored = error
    if not isinstance(stored, dict) or "forecast_unc" not in stored:
        raise ValueError(
            f"path must name a file written by Forecaster.save; got {path}. Save it first."
        )
    if stored["forecast_unc"] != __version__:
        raise ValueError(
            f"path must name a model of version {__version__}; got one of "
            f"{stored['forecast_unc']}. Fit and save it again."
        )
    return stored["model"]
