"""Sample paths for darts and GluonTS: what their constructors are given, and without them an error.

With darts 0.48 and GluonTS 0.17 themselves where they are installed.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecast

COV = np.array([[1.0, 0.8, 0.1], [0.8, 2.0, 0.5], [0.1, 0.5, 3.0]])
TIMES = {
    "months": pd.period_range("2026-11", periods=3, freq="M"),
    "starts": pd.date_range("2026-11-01", periods=3, freq="MS"),
    "hours": pd.date_range("2026-11-01", periods=3, freq="h", tz="Europe/Paris"),
}


def forecast(index, name="load"):
    return Forecast(index, [1.0, 2.0, 3.0], COV, name=name)


def stub(monkeypatch, module, **members):
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**members))


@pytest.mark.parametrize("times", TIMES)
def test_paths_for_gluonts(times, monkeypatch):
    stub(monkeypatch, "gluonts.model.forecast", SampleForecast=lambda *a, **k: (a, k))
    ahead = forecast(TIMES[times])
    (paths,), given = ahead.to_gluonts(40, random_state=1)
    np.testing.assert_array_equal(paths, ahead.sample(40, random_state=1).T)
    freq = "h" if times == "hours" else "M"
    assert given == {"start_date": pd.Period("2026-11-01", freq), "item_id": "load"}


def test_gluonts_has_no_numbered_times():
    with pytest.raises(
        TypeError, match=r"index must hold dates or periods for GluonTS; got a RangeIndex\. Give"
    ):
        forecast(pd.RangeIndex(3)).to_gluonts()


@pytest.mark.parametrize("times", ["months", "starts", "numbers"])
def test_paths_for_darts(times, monkeypatch):
    made = SimpleNamespace(from_times_and_values=lambda *a, **k: (a, k))
    stub(monkeypatch, "darts", TimeSeries=made)
    index = pd.RangeIndex(6, 12, 2) if times == "numbers" else TIMES[times]
    ahead = forecast(index, name=None)
    (at, paths), given = ahead.to_darts(40, random_state=1)
    assert paths.shape == (3, 1, 40)
    np.testing.assert_array_equal(paths[:, 0], ahead.sample(40, random_state=1))
    assert at.equals(index if times == "numbers" else TIMES["starts"])
    assert given == {"freq": 2 if times == "numbers" else pd.offsets.MonthBegin(), "columns": ["y"]}


@pytest.mark.parametrize(("library", "ask"), [("darts", "to_darts"), ("gluonts", "to_gluonts")])
def test_without_the_library_it_is_asked_for(library, ask, monkeypatch):
    for module in (library, "gluonts.model.forecast"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"a \w+ needs {library}: install {library}\."):
        getattr(forecast(TIMES["months"]), ask)()


@pytest.mark.filterwarnings("ignore")
def test_darts_takes_them():
    pytest.importorskip("darts", reason="needs darts")
    ahead = forecast(TIMES["months"])
    series = ahead.to_darts(200, random_state=0)
    assert series.n_samples == 200
    wanted = ahead.sample(200, random_state=0).mean(axis=1)
    np.testing.assert_allclose(series.mean().values().ravel(), wanted, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_gluonts_takes_them():
    pytest.importorskip("gluonts", reason="needs GluonTS")
    ahead = forecast(TIMES["months"])
    made = ahead.to_gluonts(200, random_state=0)
    np.testing.assert_allclose(made.mean, ahead.sample(200, random_state=0).mean(axis=1), rtol=1e-9)
    assert made.index.equals(TIMES["months"])
