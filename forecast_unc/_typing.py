"""The one array alias of the package; shapes are written as trailing comments, ``# (n, d)``."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
