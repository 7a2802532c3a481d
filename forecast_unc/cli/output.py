"""What the command line writes: messages, tables, pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._checks import refusal
from forecast_unc.cli.tables import STANDARD, is_parquet
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation.backtest import Backtest
from forecast_unc.evaluation.folds import percent
from forecast_unc.series.times import group_weights

# What messages of the package say in Python, and what it is in a shell.
_PHRASES = {
    "lower=-np.inf": "--lower=-inf",
    "Use -np.inf": "Use --lower=-inf",
    "Use None for a series without a season": "Leave it out for the season of the times",
    "Use None to learn": "Leave it out to learn",
    "True fits at every origin, False at the first alone": "1 fits at every origin, as "
    "many as --origins at the first alone",
    "must be None or a whole": "must be a whole",
    "Use 0 or () for none": "Use 0 for none",
    "Sort it with y.sort_index()": "Sort its rows by time",
    'Pass freq, for example freq="D"': "Pass --freq, for example --freq D",
    "outliers='keep'": "--outliers keep",
    "Pass a DataFrame with their values": "Pass them with --exog and --exog-future",
}


def say(message: str) -> None:
    """Print one line on standard error, with the name of the program and in words of a shell."""
    for python, shell in _PHRASES.items():
        message = message.replace(python, shell)
    print("forecast-unc:", " ".join(message.split()), file=sys.stderr)


def forecast_table(
    forecast: Forecast, coverage: Sequence[float], above: Sequence[float]
) -> pd.DataFrame:
    """Mean, std, intervals, and probabilities of more, of each step or sum."""
    columns = {"mean": forecast.mean, "std": forecast.std}
    for level in coverage:
        band = forecast.interval(level)
        columns[f"lower_{percent(level)}"] = band["lower"]
        columns[f"upper_{percent(level)}"] = band["upper"]
    for value in above:
        columns[f"above_{value:g}"] = forecast.prob(lower=value)
    return pd.DataFrame(columns)


def counted(index: pd.Index[Any], freq: str | None) -> pd.Series[int]:
    """How many steps are in each sum by a frequency, None one of all; or an error."""
    try:
        labels, weights = group_weights(index, "sum", freq)
    except ValueError as error:
        must = "be a frequency of pandas that suits the times, or all"
        remedy = "YS, MS and W are some, of quarters and other periods Y."
        raise refusal("--sum", must, repr(freq), remedy) from error
    return pd.Series(weights.sum(axis=1).astype(int), labels)


def write_table(table: pd.DataFrame, output: Path) -> None:
    """Write a table with all digits: Parquet, or CSV to a file or, -, standard output."""
    index = table.index.name is not None
    if is_parquet(output):
        if isinstance(table.index, pd.PeriodIndex):  # Parquet has none
            table = table.set_axis(table.index.to_timestamp())
        table.to_parquet(output, engine="pyarrow", index=index)
    else:
        table.to_csv(sys.stdout if output == STANDARD else output, index=index)


def print_table(table: pd.DataFrame, figures: pd.DataFrame, width: pd.Series[float]) -> None:
    """Print CSV whose figures, of intervals of this width, have the digits that tell them apart.

    Six digits, and more where the level is large beside the width: three of the least width.
    """
    ratio = figures.abs().max(axis=1) / width
    needed = float(np.log10(ratio[np.isfinite(ratio) & (ratio > 1)]).max())
    digits = 6 if np.isnan(needed) else max(6, 3 + int(np.ceil(needed)))
    others = table.drop(columns=figures.columns).select_dtypes("float")  # such as an id
    kept = dict.fromkeys(others.columns, object)
    index = table.index.name is not None
    print(table.astype(kept).to_csv(float_format=f"%.{digits}g", index=index), end="")


def draw_forecast(
    forecast: Forecast, history: pd.Series[float], coverage: Sequence[float], path: Path
) -> None:
    """Write a picture of a forecast and of four times as many values before it."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
    forecast.plot(history=history.iloc[-4 * len(forecast) :], coverage=coverage, ax=ax)
    figure.savefig(path)


def draw_backtest(result: Backtest, path: Path) -> None:
    """Write a picture of a backtest: CRPS by step, and calibration."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    result.plot_errors(ax=left)
    result.plot_calibration(ax=right)
    figure.savefig(path)
