"""Printed output, compared number by number: conftest.py and test_docs.py use it for doctests.

Processors differ in the last digits, and so in the sign of a zero and the width of its column.

>>> print("mean    3.89\\nerror  -0.00")
mean   3.88
error  0.00
"""

import doctest
import re
from collections.abc import Sequence
from decimal import Decimal

# With a point or an exponent: dates and whole numbers are words.
NUMBER = r"(?<![\w.])[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?(?!\w|\.\d)"
TOKEN = re.compile(rf"{NUMBER}|\.\.\.|\w+|\S")


def _agree(want: str, got: str) -> bool:
    """Numbers: within a unit of the last decimal of ``want``. All else: equal."""
    if not (re.fullmatch(NUMBER, want) and re.fullmatch(NUMBER, got)):
        return want == got
    unit = Decimal(want).as_tuple().exponent
    assert isinstance(unit, int)
    tolerance = Decimal((0, (1,), unit)) if re.search(r"\.\d", want) else Decimal(0)
    return abs(Decimal(want) - Decimal(got)) <= tolerance


def _match(want: Sequence[str], got: Sequence[str]) -> bool:
    """Token by token; ``...`` stands for any number of them."""
    if "..." not in want:
        return len(want) == len(got) and all(map(_agree, want, got))
    start = want.index("...")
    return _match(want[:start], got[:start]) and any(
        _match(want[start + 1 :], got[end:]) for end in range(start, len(got) + 1)
    )


class PrintedOutput(doctest.OutputChecker):
    """Accepts what doctest does, other white space, and numbers that agree as printed."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        tokens = TOKEN.findall(want.replace("<BLANKLINE>", ""))
        return super().check_output(want, got, optionflags) or _match(tokens, TOKEN.findall(got))
