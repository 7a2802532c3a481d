"""The board of ordinary series: its series, its simple methods, its scores and its tables."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast_unc import scores

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "benchmarks"))
import ordinary
import ordinary_series

sys.path.pop(0)

SIMULATED = [one for one in ordinary.SITUATIONS if one.make]


@pytest.fixture
def case():
    """Twelve known values of a line, four steps ahead."""
    y = pd.Series(3.0 + 2 * np.arange(16), index=pd.date_range("2020", periods=16, freq="MS"))
    return ordinary.Case("line", "0", 0, y[:12], None, None, y[12:], (4,), 8.0)


# --- the series


def test_the_table_has_what_it_promises():
    names = [one.name for one in ordinary.SITUATIONS]
    assert len(set(names)) == len(names) >= 40
    for one in ordinary.SITUATIONS:
        series = one.series("all")
        assert len(set(series)) == len(series) >= 5
        assert len(one.reserve) * 3 == len(series)
        assert ordinary_series.ORIGINS >= 3


OF_EACH_GROUP = {one.group: one for one in SIMULATED}.values()


@pytest.mark.parametrize("one", OF_EACH_GROUP, ids=lambda one: one.name)
def test_simulated_series_depend_on_the_seed_alone(one):
    y, exog = ordinary_series.whole(one, "0")
    again, exog_again = ordinary_series.whole(one, "0")
    other, _ = ordinary_series.whole(one, "1")
    pd.testing.assert_series_equal(y, again)
    assert not y.equals(other)
    assert len(y) == one.n + 3 * one.steps
    assert y.index.freq is not None
    gaps = y.isna()
    assert np.isinf(y).sum() == 0
    assert gaps.any() == (one.group == "gaps")
    assert not gaps.iloc[0]
    if exog is not None:
        pd.testing.assert_frame_equal(exog, exog_again)
        assert exog.index.equals(y.index)
        assert np.isfinite(exog.to_numpy()).all()


def test_the_share_of_gaps_is_as_named():
    for one in SIMULATED:
        if one.group == "gaps":
            y = pd.concat([ordinary_series.whole(one, series)[0] for series in one.series("all")])
            wanted = float(one.name.split()[2]) / 100
            error = np.sqrt(wanted * (1 - wanted) / len(y))
            assert y.isna().mean() == pytest.approx(wanted, abs=3 * error)


def test_origins_are_a_horizon_apart_and_know_no_future():
    found = list(ordinary.cases("chosen", ["a promotion", "Nile"]))
    assert len(found) == 2 * 4 * 3
    assert [one.origin for one in found[:3]] == [0, 1, 2]
    for first, second in pairwise(found):
        steps = first.steps
        assert first.actual.index[0] == first.y.index[-1] + first.y.index.freq
        if first.series == second.series:
            pd.testing.assert_series_equal(second.y[-steps:], first.actual, check_freq=False)
        if first.situation == "a promotion":
            assert first.exog.index.equals(first.y.index)
            assert first.future.index.equals(first.actual.index)
    reserve = {one.series for one in ordinary.cases("reserve", ["Nile"])}
    assert reserve == {"1935", "1960"}


# --- the scores


def test_a_perfect_forecast_scores_zero(case):
    quantiles = np.repeat(case.actual.to_numpy()[:, None], len(ordinary.LEVELS), axis=1)
    assert ordinary.score(case, quantiles) == {"mae": 0, "crps": 0, "msis": 0, "coverage": 1}


def test_scores_are_those_of_normal_distributions(case, rng):
    y = pd.Series(rng.normal(size=2000))
    case = case._replace(actual=y, unit=2.0)
    found = ordinary.score(case, ordinary.normal(np.full(2000, 0.2), np.full(2000, 1.1)))
    width = 1.1 * 1.959964
    interval = scores.interval_score(y, 0.2 - width, 0.2 + width, 0.95)
    assert found["mae"] == pytest.approx(abs(y - 0.2).mean() / 2)
    assert found["msis"] == pytest.approx(interval.mean() / 2, rel=1e-6)
    assert found["crps"] == pytest.approx(scores.crps(y, 0.2, 1.1).mean() / 2, rel=0.05)
    assert found["coverage"] == pytest.approx(0.97, abs=0.02)


def test_steps_that_are_not_known_are_not_scored(case):
    quantiles = ordinary.normal(case.actual.to_numpy() + 8, np.ones(4))
    quantiles[1] = 1e6
    actual = case.actual.copy()
    actual.iloc[1] = np.nan
    assert ordinary.score(case._replace(actual=actual), quantiles)["mae"] == 1


def test_quantiles_that_are_not_finite_are_refused(case):
    with pytest.raises(ValueError, match="quantiles must be finite"):
        ordinary.score(case, np.full((4, len(ordinary.LEVELS)), np.nan))


# --- the simple methods


def test_simple_methods_on_a_line(case):
    middle = len(ordinary.LEVELS) // 2
    found = {name: ordinary.METHODS[name].run(case) for name in ("last value", "drift", "mean")}
    np.testing.assert_allclose(found["drift"], np.repeat(case.actual.to_numpy()[:, None], 21, 1))
    np.testing.assert_allclose(found["last value"][:, middle], 25)
    np.testing.assert_allclose(np.diff(found["last value"][:, [0, -1]])[3, 0], 2 * 1.959964 * 2 * 2)
    np.testing.assert_allclose(found["mean"][:, middle], 14)
    seasonal = ordinary.seasonal_last(case)
    np.testing.assert_allclose(seasonal[:, middle], case.actual - 8)
    assert ordinary.seasonal_last(case._replace(seasons=(12,))) is None


# --- the runs and the tables


@pytest.fixture
def toys(monkeypatch):
    """Three methods: ours is off by 2, one by 1, the other fails at the last origin."""
    calls = []

    def off(case, by):
        calls.append(case.origin)
        if by == 4 and case.origin == 2:
            raise ValueError("no\nmore")
        return ordinary.normal(case.actual.to_numpy() + by, np.full(case.steps, 1e-9))

    kinds = {"forecast_unc": ("ours", 2), "drift": ("simple", 4), "AutoETS": ("rival", 1)}
    methods = {
        name: ordinary.Method(lambda case, by=by: off(case, by), kind, name)
        for name, (kind, by) in kinds.items()
    }
    monkeypatch.setattr(ordinary, "METHODS", methods)
    monkeypatch.setattr(ordinary, "version_of", dict.fromkeys(methods, "1").get)
    return calls


def test_cached_results_are_not_computed_again(toys, case, tmp_path, monkeypatch):
    chosen = [case._replace(origin=origin) for origin in range(3)]
    first = ordinary.run(chosen, ordinary.METHODS, tmp_path)
    assert len(toys) == 9
    again = ordinary.run(chosen, ordinary.METHODS, tmp_path)
    assert len(toys) == 9
    pd.testing.assert_frame_equal(ordinary.means(first), ordinary.means(again))
    versions = {"forecast_unc": "2", "drift": None, "AutoETS": "1"}  # None: not installed
    monkeypatch.setattr(ordinary, "version_of", versions.get)
    third = ordinary.run(chosen, ordinary.METHODS, tmp_path)
    assert len(toys) == 12
    assert len(third) == 9
    other = [case._replace(actual=case.actual + 1)]  # what is cached is of other data
    assert ordinary.run(other, ["AutoETS"], tmp_path, compute=False).empty
    ordinary.run(other, ["AutoETS"], tmp_path)
    assert len(toys) == 13


@pytest.mark.slow
def test_tables_compare_with_the_best_in_hindsight(toys, case):
    results = ordinary.run([case._replace(origin=origin) for origin in range(3)], ordinary.METHODS)
    found = ordinary.means(results)
    unit = case.unit
    # at the origin where it fails, drift has the worst score of the others, which is ours
    assert found.loc[("line", "drift"), "mae"] == pytest.approx((4 + 4 + 2) / 3 / unit)
    assert found.loc[("line", "drift"), "failed"] == 1
    covered = ordinary.means(results.assign(coverage=results["coverage"] + 1.0))
    assert covered.loc[("line", "drift"), "coverage"] == 1.0  # of the others alone
    ratios = ordinary.over(found, ["simple", "rival"])["mae"]
    assert ratios["line", "forecast_unc"] == pytest.approx(2, rel=0.01)
    simple = ordinary.over(found, ["simple"])["mae"]
    assert simple["line", "forecast_unc"] == pytest.approx(0.6, rel=0.01)
    row = ordinary.by_situation(results).splitlines()[-1]
    assert row.startswith("| line | AutoETS | 1.99, ")
    assert "| chosen, over the best other | 1.992 | 0.00 | 1.99 (line) |" in ordinary.summary(
        results
    )
    assert ordinary.by_method(results).count("\n") == 4
    assert ordinary.errors(results) == "- drift, line, 1 times, as: ValueError: no"
    assert "Not yet run" not in ordinary.page(results, None, 3)
    rest = results[results["method"] != "AutoETS"]
    assert "Not yet run: AutoETS at 3 of 3 origins." in ordinary.page(rest, None, 3)
