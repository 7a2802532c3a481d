"""How several models on one picture are told apart: by color, line style and marker at once."""

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = "os^Dvp<"


class Look(NamedTuple):
    """Color, line style and marker of one model."""

    color: str
    dashes: Any
    marker: str


def looks() -> Iterator[Look]:
    """Looks for one model after the other; color and dashes repeat together after 30 only."""
    for i in count():
        yield Look(
            COLORS[i % len(COLORS)],
            _DASHES[i % len(_DASHES)],
            _MARKERS[i % len(_MARKERS)],
        )
