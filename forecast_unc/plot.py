"""Pictures of forecasts and of backtests: Axes in, Axes out; they also read in gray."""

from forecast_unc.distributions.picture import fan
from forecast_unc.evaluation.plot import (
    COLORS,
    calibration,
    compare,
    decomposition,
    joint,
    members,
    pit,
    scores_by_origin,
    scores_by_step,
)

__all__ = [
    "COLORS",
    "calibration",
    "compare",
    "decomposition",
    "fan",
    "joint",
    "members",
    "pit",
    "scores_by_origin",
    "scores_by_step",
]


def __dir__() -> list[str]:
    return __all__
