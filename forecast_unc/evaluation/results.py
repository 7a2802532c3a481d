"""What pictures and pages ask of a `Backtest`, which draws and writes them itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import pandas as pd

Grouping = str | Callable[[Any], Any]
Groups = Grouping | Sequence[Grouping] | None
"""Rows that belong together: a part of the date, a column, a function of the times; None: all."""


class Results(Protocol):
    """Attributes and methods of a `Backtest`; see there."""

    @property
    def frame(self) -> pd.DataFrame:
        """One row a model, origin and step."""

    @property
    def coverages(self) -> tuple[float, ...]:
        """Coverages of the intervals."""

    @property
    def seasonal_period(self) -> int | None:
        """Season of the unit of MASE."""

    @property
    def id_col(self) -> str | None:
        """Of a panel the column that names the series."""

    @property
    def failures(self) -> pd.DataFrame:
        """Of a panel the series that could not be backtested."""

    @property
    def request(self) -> Any:
        """What was asked, and of which data, or None."""

    @property
    def regressors(self) -> pd.DataFrame | None:
        """Of a panel the regressors at the times of the rows of the frame, or None."""

    def scores(self, by: str | Sequence[str] = "model") -> pd.DataFrame:
        """Scores by model, step or origin."""

    def significance(
        self, score: str, reference: str | None, by: Literal["model", "step"]
    ) -> pd.DataFrame:
        """Tests of differences of a score."""

    def coverage(self, by: Groups) -> pd.DataFrame:
        """Shares of values held in groups, with tests."""
