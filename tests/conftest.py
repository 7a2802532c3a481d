"""Fixtures shared by all tests; every source of chance and every window is pinned here."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.printed import PrintedOutput

# Scripts that made the reference numbers; they need mpmath.
collect_ignore_glob = ["reference/*"]

# Read by matplotlib at its first import, here and in every subprocess.
os.environ["MPLBACKEND"] = "Agg"

settings.register_profile(
    "forecast_unc",
    deadline=None,
    derandomize=True,
    max_examples=16,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("forecast_unc")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "folder to write how much of its limit each comparison used, see tests/deviations.py"
    parser.addoption("--deviations", help=text)
    text = "every second test only, by its name: 0 or 1, see tests/cpus.py"
    parser.addoption("--half", type=int, choices=(0, 1), help=text)


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--deviations"):
        from tests.deviations import Recorder

        config.pluginmanager.register(Recorder(Path(folder)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without a search for garbage, 3.4 of 12 s: what is collected stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Docstrings are compared like the pages; pytest's own option NUMBER refuses 3.88 for 3.89."""
    if (half := config.getoption("--half")) is not None:
        halves: tuple[list[pytest.Item], list[pytest.Item]] = [], []
        for item in items:
            halves[crc32(item.nodeid.encode()) % 2].append(item)
        config.hook.pytest_deselected(items=halves[1 - half])
        items[:] = halves[half]
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.runner._checker = PrintedOutput()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20030405)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the data sets in ../shared/data, which are not part of the repository")
    return folder


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
