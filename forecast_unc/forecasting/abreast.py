"""Exact forecasts of several models that share a fit, made together before they are asked for."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd

from forecast_unc._typing import Array
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.model import FittedModel, prepared
from forecast_unc.series.history import Ahead

T = TypeVar("T")


def forecasts_together(
    models: Sequence[T],
    steps: int,
    exog: Sequence[pd.DataFrame | None],
    exog_cov: Sequence[pd.DataFrame | Array | None],
) -> list[T]:
    """The models, which then have their exact forecasts of these steps at hand.

    Their forecasts are the same but for roundoff. Left as they are, and forecast one at a time, are
    models other than `Forecaster`, those with a posterior without `moments_abreast` (RVM*, RRGP*,
    mixtures, regressors of scikit-learn), that start from missing or noisy values, have a noise of
    the observations, diverge, or share their fit with no other; and all methods but "exact".

    Parameters
    ----------
    models : sequence
        Fitted, each at its origin.
    steps : int
        Steps that will be asked for.
    exog, exog_cov : sequence of DataFrame or None
        What will be given to `forecast` of each of them.

    Returns
    -------
    list
        Copies where something is at hand.
    """
    out: list[Any] = list(models)
    asked: dict[int, list[tuple[int, int, FittedModel, Ahead]]] = defaultdict(list)
    for i, forecaster in enumerate(out):
        if not isinstance(forecaster, Forecaster):
            continue
        ensemble = forecaster.ensemble_
        with suppress(
            TypeError, ValueError
        ):  # an error is that of the forecast, when it is asked for
            ahead, horizon = ensemble.horizon(
                ensemble.history.future(steps, exog[i], None, exog_cov[i])
            )
            for j, model in enumerate(ensemble.models):
                asked[id(model.one_step)].append((i, j, model, ahead.first(horizon)))
    at_hand: dict[int, dict[int, FittedModel]] = defaultdict(dict)
    for group in asked.values():
        found = prepared([model for *_, model, _ in group], [ahead for *_, ahead in group])
        for (i, j, *_), model in zip(group, found, strict=True):
            at_hand[i][j] = model
    for i, new in at_hand.items():
        forecaster, ensemble = copy.copy(out[i]), out[i].ensemble_
        pairs = enumerate(ensemble.models)
        forecaster.ensemble_ = replace(ensemble, models=tuple(new.get(j, old) for j, old in pairs))
        out[i] = forecaster
    return out
