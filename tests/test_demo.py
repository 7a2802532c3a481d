"""The table of the README is the one that the demo prints, on every machine.

To one unit of the last digit, as on other pages, or to 4 %: on another processor pieces of the
mixture get other draws, as which are alike is decided by their last digits.
"""

import csv
import re

import pytest

from forecast_unc.demo import demo
from tests.test_docs import table_rows


@pytest.mark.slow  # half a minute; .ci/run and tests/cpus.py ask for it
def test_the_readme_has_the_table_of_the_demo(tmp_path):
    demo(tmp_path)
    with (tmp_path / "scores.csv").open() as file:
        printed = list(csv.reader(file))[1:]
    # the README says more of a name: "Monte Carlo, 1000 paths"
    readme = [row for row in table_rows("README.md") if len(row) == len(printed[0])][-5:]
    assert [re.split(r",| \(", row[0])[0] for row in readme] == [row[0] for row in printed]
    for ours, theirs in zip(readme, printed, strict=True):
        for number, other in zip(ours[1:], theirs[1:], strict=True):
            assert len(number) == len(other)
            unit = 10.0 ** -len(number.partition(".")[2])
            near = pytest.approx(float(other), abs=1.01 * unit, rel=0.04)
            assert float(number) == near, (ours, theirs)
