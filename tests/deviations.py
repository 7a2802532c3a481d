"""How much of its limit each numerical comparison uses: `pytest --deviations FOLDER`.

Recorded are `numpy.testing.assert_allclose`, `pytest.approx`, and plain asserts of a number below
another where pytest runs with ``-o enable_assertion_pass_hook=true``. A process writes one file
into the folder: from the place of a comparison to its limit and the largest share of it. The limit
is the larger one of the relative and the absolute tolerance. `tests/cpus.py` reads the files.
"""

import json
import os
import re
import sys
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_HERE = Path(__file__).parent
_NUMBER = r"\(?(?:np\.float64\()?(-?\d[\d.]*(?:e[-+]?\d+)?)\)*"
_BELOW = re.compile(rf"{_NUMBER} <=? {_NUMBER}")


class Recorder:
    """A plugin of pytest that keeps the largest share of its limit that a comparison has used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, tuple[float, float]] = {}
        self._patch()

    def keep(self, limit: float, share: float, place: str | None = None) -> None:
        """Record a comparison at a place, by default the innermost line of a test."""
        place = place or _place()
        if np.isfinite(share) and share >= self.found.get(place, (0.0, -1.0))[1]:
            self.found[place] = float(limit), float(share)

    def _patch(self) -> None:
        allclose, scalar = np.testing.assert_allclose, type(pytest.approx(1.0))
        scalar_equal: Any = scalar.__eq__

        @wraps(allclose)
        def assert_allclose(
            actual: Any, desired: Any, rtol: Any = 1e-7, atol: Any = 0, **more: Any
        ) -> None:
            got, want = np.asarray(actual), np.asarray(desired)
            if got.dtype.kind in "biuf" and want.dtype.kind in "biuf":
                with np.errstate(all="ignore"):
                    room = atol + rtol * np.abs(want.astype(float))
                    off = np.abs(got.astype(float) - want)
                    share = np.where(off == 0.0, 0.0, off / room)
                if share.size:
                    self.keep(max(np.max(rtol), np.max(atol)), np.nanmax(share, initial=0.0))
            allclose(actual, desired, rtol=rtol, atol=atol, **more)

        @wraps(scalar_equal)
        def equal(own: Any, actual: Any) -> Any:
            try:
                off, room = abs(float(actual) - float(own.expected)), own.tolerance
                self.keep(room / max(abs(float(own.expected)), room), off / room if off else 0.0)
            except (TypeError, ValueError, ZeroDivisionError):
                pass
            return scalar_equal(own, actual)

        np.testing.assert_allclose = assert_allclose  # type: ignore[assignment]
        scalar.__eq__ = equal  # type: ignore[method-assign]

    def pytest_assertion_pass(self, item: pytest.Item, lineno: int, expl: str) -> None:
        """A plain assert of a number below a limit."""
        if (below := _BELOW.match(expl.split("\n")[0])) and float(below[2]) > 0.0:
            file = Path(str(item.path)).relative_to(_HERE.parent)
            self.keep(float(below[2]), abs(float(below[1])) / float(below[2]), f"{file}:{lineno}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what this process has seen."""
        if self.found:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = os.environ.get("PYTEST_XDIST_WORKER", "main")
            (self.folder / f"{name}.json").write_text(json.dumps(self.found, indent=0))


def _place() -> str:
    """File and line of the innermost frame in a test module or one of its helpers."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = Path(frame.f_code.co_filename)
        if file.parent == _HERE and file.name != "deviations.py":
            return f"tests/{file.name}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"
