"""An automatic forecaster as a few that leave nothing to choose, and what is said of them."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from forecast_unc._typing import Array
from forecast_unc.forecasting.arguments import as_lags, in_words, is_auto, plain
from forecast_unc.forecasting.calendar import calendar_inputs, check_calendar, seasonal_periods
from forecast_unc.forecasting.combination import POWER, Combination
from forecast_unc.forecasting.embedding import complete_rows
from forecast_unc.forecasting.selection import specifications
from forecast_unc.regression.gp import GPRegressor

# Of the evidence: half the time of 1e-10, and no different in the scores of M4. With several
# seasons and their many rows, and only there, 1e-5 is no different either.
_TOLERANCE, _LOOSE = 1e-6, 1e-5
# Groups of linear weights in GPRegressor; the first is shrunk.
_LAG_GROUP = {"shrunk": 0, "free": 1, None: -1}


def resolved(forecaster: Any, values: Array, index: pd.Index, n_exog: int) -> list[tuple[str, Any]]:
    """Forecasters with nothing left to choose, one a specification, each with its reason.

    Parameters
    ----------
    forecaster : Forecaster
        With `seasonal_period_`, and arguments that are left "auto".
    values : ndarray of shape (n,)
        The series.
    index : Index
        Its times.
    n_exog : int
        Number of regressors.

    Returns
    -------
    list of (str, Forecaster)
        Not fitted.
    """
    periods = forecaster.seasonal_period_
    members: dict[tuple[str, str], tuple[str, Any]] = {}
    given = as_lags("differences", plain(forecaster.differences, ()), upto=False)
    for candidate in specifications(values, periods, forecaster.transform is not None, n_exog > 0):
        differences = candidate.differences if is_auto(forecaster.differences) else tuple(given)
        prior_mean = plain(forecaster.prior_mean, candidate.prior_mean)
        parts = check_calendar(plain(forecaster.calendar, candidate.calendar))
        lags = _affordable(candidate.lags, values, differences)
        if prior_mean == "seasonal" and periods:
            lags = tuple(sorted({*lags, periods[0]}))
        regressor = forecaster.regressor
        if regressor is None:
            n_others = n_exog + calendar_inputs(index[:1], parts, periods).shape[1]
            regressor = GPRegressor(
                prior=candidate.prior,
                bias=candidate.bias if differences == candidate.differences else "free",
                groups=(_LAG_GROUP[candidate.lag_weights],) * len(lags) + (2,) * n_others,
                tol=_LOOSE if len(periods) > 1 else _TOLERANCE,
                random_state=forecaster.random_state,
            )
        most = candidate.rows if forecaster.max_train is None else forecaster.max_train
        transform = plain(forecaster.transform, candidate.transform)
        member = clone(forecaster).set_params(
            regressor=regressor,
            lags=lags,
            differences=differences,
            seasonal_period=periods or None,
            transform=transform,
            prior_mean=prior_mean,
            calendar=parts or None,
            max_train=most,
        )
        words = in_words(lags, differences, transform, prior_mean, parts)
        chosen = (candidate.differences, candidate.transform, candidate.prior_mean)
        as_chosen = forecaster.regressor is None and words == in_words(
            lags, *chosen, check_calendar(candidate.calendar)
        )
        why = candidate.why + ("" if as_chosen else "; but for what was given")
        what = ", ".join([*words, f"last {most} rows"])
        key = (what, repr(regressor))
        members.setdefault(key, (f"{what}: {why}", member))
    return list(members.values())


def described(forecaster: Any, members: list[tuple[str, Any]], index: pd.Index) -> list[str]:
    """A line on the season, and one on each of the resolved members, kept or refused."""
    suggested = seasonal_periods(index)
    seen = ", ".join(map(str, forecaster.seasonal_period_)) or "none"
    origin = (
        f"of {', '.join(map(str, suggested)) or 'none'} that the index suggests"
        if is_auto(forecaster.seasonal_period)
        else "given"
    )
    lines = [f"seasonal period {seen}: {origin}"]
    lines += [f"weight: {what}" for what, _ in members]
    return noted(lines, forecaster.combination_)


def noted(lines: list[str], combination: Combination) -> list[str]:
    """The lines of `described`, with the weights as they are and the members refused since."""
    weight = f"1 / width^{POWER}"
    if combination.weights is None:
        weight = f"{1 / len(combination.forecasters_):.2f}"
    season, *lines = lines
    for number, line in enumerate(lines):
        before, what = line.split(": ", 1)
        if number not in combination.refused_:
            lines[number] = f"weight {weight}: {what}"
        elif before != "refused":
            lines[number] = f"refused: {what}; {combination.refused_[number]}"
    return [season, *lines]


def _affordable(
    lags: tuple[int, ...], values: Array, differences: tuple[int, ...]
) -> tuple[int, ...]:
    """The lags without the deepest that gaps in the values leave too few rows to learn from."""
    if not np.isnan(values).any():
        return lags
    while len(lags) > 1:
        enough = min(2 * len(lags) + 10, len(values) // 3)
        if complete_rows(values, lags, differences).sum() >= enough:
            break
        lags = lags[:-1]
    return lags
