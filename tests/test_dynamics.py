"""The script that compares methods on nonlinear series."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from forecast_unc import Forecast, scores

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "benchmarks"))
import dynamics

sys.path.pop(0)

FIELDS = {"smape": 1.0, "valid": 3, "nlpd": None, "in": [1.0, 1.0], "sum": None, "max": None}


def row(**crps):
    """Scores of a series by method."""
    return {
        name: {"crps": value, **FIELDS, "all": None, "seconds": 0.1} for name, value in crps.items()
    }


def test_the_crps_of_paths_is_that_of_its_definition(rng):
    paths, y = rng.normal(size=(3, 7)), np.array([0.1, 5.0, -1.0])
    first = np.abs(paths - y[:, None]).mean(axis=1)
    apart = np.abs(paths[:, :, None] - paths[:, None, :]).mean(axis=(1, 2))
    np.testing.assert_allclose(dynamics.of_paths(paths, y), first - apart / 2, rtol=1e-12)


def test_the_band_of_paths_holds_the_share_of_them_that_it_names(rng):
    paths = rng.normal(size=(8, 4000)).cumsum(axis=0)
    low, high = dynamics.band_of_paths(paths, 0.9)
    inside = ((low[:, None] <= paths) & (paths <= high[:, None])).all(axis=0)
    assert inside.mean() == pytest.approx(0.9, abs=0.005)
    one = ((low[:, None] <= paths) & (paths <= high[:, None])).mean(axis=1)
    assert np.ptp(one) < 0.005  # each step has the same share


def test_scores_of_a_forecast_are_those_of_its_moments_and_of_its_paths(rng):
    steps, y = 5, np.array([0.3, -0.2, 1.1, 2.0, -0.4])
    forecast = Forecast(pd.RangeIndex(steps), np.zeros(steps), np.eye(steps))
    exact = dynamics.scored(forecast, y, 2.0)
    moments = dynamics.scored(np.column_stack([np.zeros(steps), np.ones(steps)]), y, 2.0)
    paths = dynamics.scored(rng.normal(size=(steps, 20000)), y, 2.0)
    for field in ("crps", "nlpd", "in"):
        assert exact[field] == pytest.approx(moments[field])
    assert exact["crps"] == pytest.approx(scores.crps(y, 0.0, 1.0).mean() / 2)
    assert exact["crps"] == pytest.approx(paths["crps"], rel=0.02)
    for field in ("in", "sum", "max", "all"):
        assert exact[field] == paths[field]
    assert [moments[field] for field in ("sum", "max", "all")] == [None] * 3


@pytest.mark.parametrize(("q", "held"), [(0.5, [1, 1]), (0.93, [0, 1]), (0.99, [0, 0])])
def test_the_maximum_is_in_the_intervals_of_the_maximum(q, held):
    # P(max <= x) of four independent steps is Phi(x)^4
    y = np.array([0.2, 0.1, -0.3, ndtri(q**0.25)])
    forecast = Forecast(pd.RangeIndex(4), np.zeros(4), np.eye(4))
    assert dynamics.scored(forecast, y, 1.0)["max"] == held


def test_all_steps_are_in_the_band_or_not():
    reach = -ndtri((1 - 0.9**0.25) / 2)  # of four independent steps
    forecast = Forecast(pd.RangeIndex(4), np.zeros(4), np.eye(4))
    for factor, held in ((0.98, 1.0), (1.02, 0.0)):
        y = np.array([0.2, 0.1, -0.3, factor * reach])
        assert dynamics.scored(forecast, y, 1.0)["all"] == held


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        dynamics.scored(np.full((2, 10), np.nan), np.ones(2), 1.0)


def test_series_of_each_group_and_the_methods_that_are_run_on_them():
    keys = dynamics.keys(["others", "real", "laser"], [100, 1000], ["", "o03", "o10", "p03"], 3)
    assert len(set(keys)) == len(keys)
    of = {group: [key[1:] for key in keys if key[0] == group] for group in dynamics.GROUPS}
    # systems, seeds, noises of 100 and of 1000 values
    assert len(of["others"]) == 5 * 3 * (3 + 2)
    assert {n for name, n, *_ in of["real"] if name == "lynx"} == {100}
    assert {n for name, n, *_ in of["real"] if name == "sunspots"} == {100, 300}
    assert of["laser"] == [("laser", n, "", 0) for n in range(500, 1001, 100)]
    slow = "scikit-learn's process, iterated"
    assert not dynamics.run(slow, "maps", 1000)
    assert dynamics.run(slow, "maps", 300)
    assert dynamics.run(slow, "laser", 1000)
    assert dynamics.run("Forecaster()", "periods", 1000)
    assert set(dynamics.MOST) < set(dynamics.METHODS)


def test_the_laser_is_forecast_from_its_official_and_from_earlier_origins(tmp_path, monkeypatch):
    path = tmp_path / "laser.csv"
    frame = pd.DataFrame({"t": np.arange(1100), "y": np.arange(1100), "is_test": 0})
    frame.to_csv(path, index=False)
    monkeypatch.setattr(dynamics, "LASER", path)
    for n in (500, 1000):
        y, actual = dynamics.series("laser", "laser", n, "", 0)
        np.testing.assert_array_equal(y, np.arange(n))
        np.testing.assert_array_equal(actual, np.arange(n, n + 100))


def test_origins_of_a_real_series_and_noise_of_an_observation():
    y, actual = dynamics.series("real", "lynx", 100, "", 1)
    whole = np.array(dynamics.LYNX.split(), float)
    np.testing.assert_array_equal(np.append(y, actual), whole[:107][-108:])
    clean, noisy = (
        np.concatenate(dynamics.series("others", "bistable", 300, noise, 2))
        for noise in ("", "o10")
    )
    assert np.std(noisy - clean) == pytest.approx(0.1 * clean.std(), rel=0.15)


def test_only_missing_methods_are_computed(tmp_path, monkeypatch):
    asked = []

    def fails(y, steps):
        asked.append(steps)
        raise ValueError("diverges")

    monkeypatch.setitem(dynamics.METHODS, "fails", fails)
    key = ("real", "lynx", 100, "", 0)
    for methods in (["past values"], ["past values", "fails"], ["fails"]):
        found = dynamics.computed(key, methods, tmp_path)
    assert asked == [8]
    assert found["fails"]["error"] == "diverges"
    [path] = tmp_path.iterdir()
    assert json.loads(path.read_text()) == found
    assert found["past values"]["crps"] > 0


def test_tables_count_rows_and_name_the_largest_losses():
    found = {
        ("maps", "A", 100, "", 0): row(own=0.2, b=0.1, slow=0.3),
        ("maps", "B", 100, "", 0): row(own=0.1, b=0.3, slow=0.1),
        ("maps", "A", 1000, "o03", 0): row(own=0.103, b=0.1),
        ("laser", "laser", 500, "", 0): row(own=0.3, b=0.1, slow=0.2),
        ("laser", "laser", 900, "", 0): row(own=0.3, b=0.1) | {"slow": {"error": "diverges"}},
        ("periods", "A", 150, "", 0): row(own=0.3, b=2000.0, slow=0.2),
        ("periods", "A", 1000, "", 0): row(b=0.5),
    }
    tables = dynamics.tables(found, ["own", "b", "slow"])
    counts, _, rule, *lines = tables["CRPS"]
    assert counts.startswith("own is first in 1 of 5 rows, and within 5 % of the first in 2.")
    assert rule == "|---|---|---|---:|---:|---:|"
    assert lines == [
        "| 2 maps | 100 | none | **0.150** | 0.200 | 0.200 |",
        "| 1 maps | 1000 | 3 % observation | 0.103 | **0.100** |  |",
        "| 2 laser | 500 to 900 | none | 0.300 | **0.100** |  |",
        "| 1 periods | 150 | none | 0.300 | 2e+03 | **0.200** |",
        "| 1 periods | 1000 | none |  | **0.500** |  |",
    ]
    said, *_ = tables["Losses first"]
    assert "6 series" in said
    assert "at most 1.05 in 33%" in said
    assert "| laser, 500, none | 2.98 | b |" in tables["Losses first"]
    # without ten periods, 1000 values, and the series on which "slow" failed
    assert tables["All series"][0].startswith("3 series")
    assert tables["15 points a period"][0].startswith("1 series")


def test_paths_of_the_echo_state_network_follow_a_map():
    pytest.importorskip("reservoirpy", reason="reservoirpy is installed with the benchmarks")
    y = [0.4]
    for _ in range(149):
        y.append(3.8 * y[-1] * (1 - y[-1]))
    paths = dynamics.METHODS["echo state network"](np.array(y[:145]), 5)
    assert paths.shape == (5, 200)
    np.testing.assert_allclose(np.median(paths, axis=1)[:2], y[145:147], atol=0.05)


@pytest.mark.filterwarnings("ignore:Numba")
def test_maps_and_flows_of_dysts_by_name():
    pytest.importorskip("dysts", reason="dysts is installed with the benchmarks")
    assert len(dynamics.systems("maps")) >= 20
    y, actual = dynamics.series("maps", "Henon", 50, "", 0)
    whole = np.append(y, actual)
    # x' = 1 - 1.4 x^2 + .3 x before
    np.testing.assert_allclose(whole[2:], 1 - 1.4 * whole[1:-1] ** 2 + 0.3 * whole[:-2], rtol=1e-9)
