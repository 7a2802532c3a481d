"""The script that measures the default against its own members."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, scores

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "benchmarks"))
import regret

sys.path.pop(0)


def test_ratios_to_the_best_in_hindsight_and_on_average():
    nan = np.nan
    table = [(2.0, 1.0, 4.0, 0.1), (3.0, 6.0, 2.0, nan), (1.0, 2.0, nan, nan)]
    lines = [
        {"set": "a", "series": number, "member": name, "crps": value, "in 80%": 0.5}
        for number, row in enumerate(table)
        for name, value in zip(("", "usual", "twice", "once"), row, strict=True)
        if value == value
    ]
    [row] = regret.summary(pd.DataFrame(lines)).to_dict("records")
    assert row["series"] == 3
    # 2 / .1, 3 / 2 and 1 / 2; of members only "usual" occurs in 80 % of the series: 6 / 9
    assert [row[one] for one in ("median", "mean", "worst tenth")] == [
        1.5,
        pytest.approx(22 / 3),
        20,
    ]
    assert (row["best on average"], row["over best on average"]) == ("usual", pytest.approx(2 / 3))


def test_members_are_those_of_the_average_and_those_without_weight(monkeypatch):
    y = regret.MADE["falling, months"].case("falling, months", 0).y[-30:]
    forecaster = Forecaster(random_state=0).fit(y)
    ahead = forecaster.forecast(4)
    found = regret.members(forecaster, ahead)
    assert len(found) == len(forecaster.models_)
    monkeypatch.setattr(type(ahead), "members", ())  # all by their own models
    for name, forecast in regret.members(forecaster, ahead).items():
        np.testing.assert_allclose(forecast.mean, found[name].mean)
        np.testing.assert_allclose(forecast.std, found[name].std)


@pytest.mark.parametrize(("bend", "name"), [(0.0, "process"), (9.0, "nonlinear process")])
def test_members_that_differ_by_nonlinearity_have_two_names(bend, name):
    class Model:
        specification = SimpleNamespace(bend=bend)

        def __str__(self):
            return "process, last 208 rows"

    assert regret.named(Model()) == name


def test_paths_of_the_truth_follow_the_last_state():
    case = regret.MAPS["stochastic volatility"].case("volatility", 0, n=100)
    assert case.truth.shape == (10, regret.PATHS)
    made = regret.MAPS["Henon map"].case("Henon", 3, n=100)
    assert made.truth[0].std() == pytest.approx(0.01, rel=0.05)  # the noise of a step
    assert abs(made.truth[0].mean() - made.actual[0]) < 0.05


def test_crps_of_samples_is_that_of_the_distribution(rng):
    actual = np.array([0.3, -1.0])
    found = regret.sample_crps(rng.normal(0, 2, (2, 20_000)), actual)
    np.testing.assert_allclose(found, scores.crps(actual, 0.0, 2.0), rtol=0.03)
