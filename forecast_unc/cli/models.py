"""The model that the options describe."""

from __future__ import annotations

import argparse
from typing import Any

from forecast_unc._checks import check_whole
from forecast_unc.cli.reading import read_holidays
from forecast_unc.evaluation import baselines
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.regression.rvm import RVMRegressor

REGRESSORS = {
    "gp": GPRegressor,
    "rvm": RVMRegressor,
    "reduced-rank": ReducedRankGPRegressor,
}
BASELINES = {
    "seasonal_naive": baselines.SeasonalNaive,
    "autoreg": baselines.AutoReg,
    "ets": baselines.ETS,
    "theta": baselines.Theta,
    "sarimax": baselines.SARIMAX,
}
# Options of the forecaster: None where they were not given.
OPTIONS = (
    *("model", "lags", "differences", "transform", "lower", "outliers", "period", "calendar"),
    *("holidays", "max_train", "seed"),
)


def make_forecaster(arguments: argparse.Namespace) -> Forecaster:
    """The forecaster of the options, not fitted; what was not given has its own default.

    Parameters
    ----------
    arguments : Namespace
        The options.

    Returns
    -------
    Forecaster
    """
    seed = 0 if arguments.seed is None else arguments.seed
    check_whole("--seed", seed, 0, "Any such number will do.")
    given: dict[str, Any] = {
        "lags": _one_or_several(arguments.lags),
        "differences": _one_or_several(arguments.differences),
        "seasonal_period": arguments.period,
        "lower": arguments.lower,
        "outliers": arguments.outliers,
        "max_train": arguments.max_train,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if arguments.transform is not None:
        options["transform"] = None if arguments.transform == "none" else arguments.transform
    if arguments.calendar is not None or arguments.holidays is not None:
        options["calendar"] = _calendar(arguments)
    if arguments.model in REGRESSORS:
        options["regressor"] = REGRESSORS[arguments.model]()
    return Forecaster(random_state=seed, **options)


def _calendar(arguments: argparse.Namespace) -> tuple[Any, ...]:
    """Parts of the calendar, and holidays."""
    parts = arguments.calendar
    if parts is None:
        # What is chosen with lags has the Fourier terms of the season, which holidays alone would
        # take the place of.
        parts = ["fourier"] if arguments.lags is None else []
    if "none" in parts and len(parts) > 1:
        raise ValueError(
            f"--calendar must be none or parts of the calendar; got {' '.join(parts)}. Leave none "
            "out."
        )
    names = tuple(part for part in parts if part != "none")
    return names if arguments.holidays is None else (*names, read_holidays(arguments.holidays))


def _one_or_several(values: list[int] | None) -> Any:
    return values[0] if values is not None and len(values) == 1 else values
