"""Exact forecasts of several models that share a fit, made together before they are asked for."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd

from forecast_unc._typing import Array
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.members import Member
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
    asked = _Asked()
    for i, forecaster in enumerate(models):
        if not isinstance(forecaster, Forecaster):
            continue
        ensemble = forecaster.ensemble_
        try:
            ahead = ensemble.history.future(steps, exog[i], None, exog_cov[i])
        except (TypeError, ValueError):  # which the forecast itself will raise
            continue
        ahead, horizon = ensemble.horizon(ahead)
        for model, trained in zip(ensemble.models, ensemble.trained, strict=True):
            asked.add(i, model, ahead.first(horizon))
            if ensemble.calibrate and trained is not model:  # its bands are a unit of errors
                asked.add(i, trained, ahead.first(horizon).known())
    out: list[Any] = list(models)
    for i, new in asked.prepared().items():
        out[i], ensemble = copy.copy(out[i]), out[i].ensemble_
        ready = {
            name: tuple(new.get(id(model), model) for model in getattr(ensemble, name))
            for name in ("models", "trained")
        }
        out[i].ensemble_ = replace(ensemble, **ready)
    return out


_Group = tuple[int, int]  # the identity of a one-step model, and the steps


class _Asked:
    """Forecasts that are asked for, by the fit and the number of steps that they share."""

    def __init__(self) -> None:
        self._groups: dict[_Group, list[tuple[FittedModel, Ahead]]] = defaultdict(list)
        self._places: dict[tuple[int, int], tuple[_Group, int]] = {}  # of (origin, model)
        self._once: dict[tuple[int, int], tuple[_Group, int]] = {}  # what no regressors tell apart

    def add(self, origin: int, model: Member, ahead: Ahead) -> None:
        """Ask for a forecast of a model at an origin; the same one is made once."""
        if not isinstance(model, FittedModel):  # others are cheap
            return
        group = id(model.one_step), len(ahead.index)
        place = group, len(self._groups[group])
        if not model.future(ahead).exog.shape[1]:
            place = self._once.setdefault((id(model), len(ahead.index)), place)
        if place[1] == len(self._groups[group]):
            self._groups[group].append((model, ahead))
        self._places[origin, id(model)] = place

    def prepared(self) -> dict[int, dict[int, FittedModel]]:
        """For each origin by the identity of a model the same with its forecast at hand."""
        ready = {
            group: prepared(*zip(*asked, strict=True)) for group, asked in self._groups.items()
        }
        out: dict[int, dict[int, FittedModel]] = defaultdict(dict)
        for (origin, model), (group, place) in self._places.items():
            out[origin][model] = ready[group][place]
        return out
