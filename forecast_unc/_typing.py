"""Aliases of arrays; shapes are written as trailing comments, ``# (n, d)``."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    Times = pd.Index[Any]
else:
    Axes = Times = Any  # matplotlib and pandas are kept out of the import

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Positions = NDArray[np.intp]

__all__ = ["Array", "Axes", "Flags", "Positions", "Times"]
