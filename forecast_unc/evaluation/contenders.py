"""Who runs in a backtest: what is asked of a model, what it can do, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Protocol

import pandas as pd

from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.recursion import PROPAGATIONS

# The name of the backtested forecaster itself among those it is compared with.
OWN_NAME = "forecast_unc"


class Model(Protocol):
    """What a backtest asks of a model; nothing need be inherited.

    A model with more is given more, by the names of its methods and of their parameters:

    - ``fit(y, exog)`` and ``forecast(steps, exog)``: the regressors, unless its attribute
      ``takes_exog`` is False;
    - ``forecast(..., exog_cov)``: the uncertainty of the future regressors;
    - ``update(y_new)``, which takes in the next values in place, or ``apply(y)``, which returns
      the fitted model at the end of a longer series (with ``exog`` too if ``fit`` takes them):
      the way to the next origin without a fit. A model with neither is fitted at every origin;
    - ``refit(y)``, which returns a new model fitted to another window from what this one has
      learned (with ``exog`` too if ``fit`` takes them): all fits after the first one.
    """

    def fit(self, y: pd.Series[Any], /) -> Any:
        """Learn from a series, in place."""
        ...

    def forecast(self, steps: int, /) -> Forecast:
        """Return the forecast of the next steps."""
        ...


@dataclass(frozen=True)
class Capabilities:
    """What a model can do beyond ``fit`` and ``forecast``."""

    exog: bool
    exog_cov: bool
    propagation: bool
    update: bool
    apply: bool
    refit: bool

    @classmethod
    def of(cls, model: Model) -> Capabilities:
        """Those of a model, by the names of its methods and of their parameters."""
        exog = bool(getattr(model, "takes_exog", _takes(model.fit, "exog")))
        return cls(
            exog=exog,
            exog_cov=exog and _takes(model.forecast, "exog_cov"),
            propagation=_takes(model.forecast, "propagation"),
            update=callable(getattr(model, "update", None)),
            apply=callable(getattr(model, "apply", None)),
            refit=callable(getattr(model, "refit", None)),
        )

    @property
    def moves(self) -> bool:
        """Whether the model gets to the next origin without a fit."""
        return self.update or self.apply


@dataclass(frozen=True)
class Contender:
    """A model, and the names and propagations (None for its own) that share its fit."""

    model: Model
    names: tuple[tuple[str, str | None], ...]
    can: Capabilities


def contenders(forecaster: Model, compare: Mapping[str, Model | str] | None) -> list[Contender]:
    """The forecaster and those it is compared with, or an error."""
    if not _is_model(forecaster):
        raise TypeError(
            f"forecaster must have fit and forecast; got {forecaster!r}. Pass a Forecaster()."
        )
    can = Capabilities.of(forecaster)
    own: list[tuple[str, str | None]] = [(OWN_NAME, None)]
    others: list[Contender] = []
    for name, model in (compare or {}).items():
        if name == OWN_NAME:
            raise ValueError(
                f"compare must not use the name {OWN_NAME!r}; got it twice. "
                "It is the forecaster itself."
            )
        if isinstance(model, str) and model in PROPAGATIONS:
            if not can.propagation:
                raise ValueError(
                    f"compare must hold no propagation if the forecaster has none; got {model!r} "
                    f"for {name!r} with {type(forecaster).__name__}. Pass a Forecaster instead."
                )
            own.append((name, model))
        elif not isinstance(model, str) and _is_model(model):
            others.append(Contender(model, ((name, None),), Capabilities.of(model)))
        else:
            raise ValueError(
                f"compare must hold forecasters or one of {', '.join(PROPAGATIONS)}; got {model!r} "
                f"for {name!r}. Spell the propagation as in Forecaster.forecast; a forecaster has "
                "fit and forecast."
            )
    return [Contender(forecaster, tuple(own), can), *others]


def _is_model(model: object) -> bool:
    return not isinstance(model, type) and all(
        callable(getattr(model, method, None)) for method in ("fit", "forecast")
    )


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    return parameter in signature(function).parameters
