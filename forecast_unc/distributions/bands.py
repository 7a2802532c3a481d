"""What tables and pictures ask of a forecast."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd


class Bands(Protocol):
    """Times, moments and central intervals of the steps; `Forecast` has them."""

    def __len__(self) -> int: ...

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""
        ...

    @property
    def name(self) -> Any:
        """Name of the series."""
        ...

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step."""
        ...

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step."""
        ...

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Central interval of each step, ``lower`` and ``upper``."""
        ...
