"""Checks of arguments that any module may need."""

import numpy as np


def check_whole(name: str, value: object, lowest: int, remedy: str) -> None:
    """Raise unless a value is a whole number of at least `lowest`.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        What came.
    lowest : int
        The least it may be.
    remedy : str
        What to do, a sentence.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < lowest:  # type: ignore[operator]
        raise ValueError(
            f"{name} must be a whole number, at least {lowest}; got {value!r}. {remedy}"
        )
