"""Aliases of arrays; shapes are written as trailing comments, ``# (n, d)``."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Positions = NDArray[np.intp]
