"""The script that scores the files of the competitions, and its floor."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "benchmarks"))
import m4

sys.path.pop(0)

N, HORIZON = 20, 4


def quarters(values):
    """Rows of a file with one quarterly series, the last four of them its test part."""
    return pd.DataFrame({"unique_id": "a", "freq": "Quarterly", "y": values}).assign(
        is_test=np.arange(len(values)) >= len(values) - HORIZON
    )


def test_seasonal_naive_and_the_last_value_stand_beside(rng):
    values = 10 + np.tile([0.0, 3.0, 1.0, 2.0], N // 4) + rng.normal(0, 0.1, N)
    line = m4.evaluate(quarters(values))
    past, actual = values[:-HORIZON], values[-HORIZON:]
    scale = np.mean(np.abs(past[4:] - past[:-4]))
    assert line["naive_mase"] == pytest.approx(np.mean(np.abs(actual - past[-4:])) / scale)
    assert line["last_mase"] == pytest.approx(np.mean(np.abs(actual - past[-1])) / scale)
    means = m4.table(pd.DataFrame([line])).set_index("model")
    assert means["MASE"].to_dict() == {
        "forecast_unc": line["mase"],
        "seasonal naive": line["naive_mase"],
        "last value": line["last_mase"],
    }


def test_a_series_too_short_for_a_baseline_has_none(rng):
    y = pd.Series(rng.normal(size=9))
    assert np.isnan(list(m4.naive(y, y[:2], 1, 1).values())).all()
    longer = pd.Series(rng.normal(size=10))
    assert np.isfinite(list(m4.naive(longer, longer[:2], 1, 1).values())).all()
    assert np.isnan(list(m4.naive(longer, longer[:2], 1, 6).values())).all()


def test_series_below_the_floor_are_listed_the_worst_first():
    results = pd.DataFrame(
        {
            "unique_id": ["above", "below", "at", "far below", "without naive"],
            "msis": [4.0, 6.0, 5.0, 20.0, 100.0],
            "naive_msis": [1.0, 1.0, 1.0, 2.0, np.nan],
        }
    ).assign(freq="Yearly", n=9, mase=1.0, naive_mase=1.0)
    worst = m4.below_the_floor(results)
    assert list(worst["unique_id"]) == ["far below", "below"]
    assert list(worst["ratio"]) == [10.0, 6.0]
