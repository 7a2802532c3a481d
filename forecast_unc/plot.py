"""Pictures of forecasts and of backtests: Axes in, Axes out.

Models are told apart by color, line style, marker and hatching at once: the pictures also read in
gray and for the color-blind. The legend stands above the axes, a title (``ax.set_title``) above it.
"""

from forecast_unc.distributions.picture import fan
from forecast_unc.evaluation.plot import COLORS, compare, decomposition, joint, members
from forecast_unc.evaluation.plot_backtest import (
    calibration,
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
