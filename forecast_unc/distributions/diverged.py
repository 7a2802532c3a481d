"""The error of a forecast that leaves the range in which it means anything."""

from typing import Any


class Diverged(ValueError):
    """A forecast has no finite, positive variance from some step on.

    Parameters
    ----------
    message : str
        What went wrong, and what to do.
    step : int
        First step at which it did, from 1: a forecast of fewer steps is sound.

    Examples
    --------
    >>> Diverged("The variance of step 3 is inf.", step=3).step
    3
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.step)
