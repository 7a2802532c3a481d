"""Saved forecasters and combinations, read back."""

from os import PathLike

from forecast_unc.forecasting.combination import COMBINATION_CLASSES, Combination
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.persistence.objects import load_object


def load_model(path: str | PathLike[str]) -> Forecaster | Combination:
    """Read a model written by ``Forecaster.save`` or ``Combination.save``; no code of a file runs.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Forecaster or Combination
        Fitted; its forecasts are those of the model that was saved.

    Raises
    ------
    ValueError
        If the file is of another kind, damaged, changed, or of a later format.
    OSError
        If there is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from forecast_unc import Forecaster, datasets, load_model
    >>> model = Forecaster(lags=2).fit(datasets.load_nile())
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/nile.npz")
    ...     again = load_model(f"{folder}/nile.npz")
    >>> bool((again.forecast(3).mean == model.forecast(3).mean).all())
    True
    """
    writer = "Forecaster.save or Combination.save"
    found: Forecaster | Combination = load_object(
        path, COMBINATION_CLASSES, (Forecaster, Combination), writer
    )
    return found
