"""What a backtest was asked: enough to tell of it, and to forecast once more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forecast_unc._threads import blas_threads
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.evaluation.contenders import Contender
from forecast_unc.evaluation.folds import Fold, Plan, ahead, fit_at


@dataclass(frozen=True)
class Request:
    """What a backtest of one series was asked."""

    plan: Plan
    own: Contender  # the backtested forecaster, and the propagations that share its fit
    compared: dict[str, str]  # the others, as they print
    folds: list[Fold]
    refit: bool | int
    window: str

    def latest(self) -> tuple[Any, Forecast]:
        """The forecaster fitted as late as it can be, and its forecast from there.

        That is at the end of the series; where there are regressors, of which nobody knows the
        next, at the last origin. The training window is that of the backtest.
        """
        fold, plan = self.folds[-1], self.plan
        if plan.exog is None:
            end = len(plan.y) - 1
            start = fold.start + end - fold.origin if self.window == "rolling" else 0
            fold = Fold(end, start, None, None)
        model = fit_at(self.own, fold, plan)
        with blas_threads(0):
            return model, model.forecast(plan.gap + plan.steps, **ahead(self.own.can, fold))
