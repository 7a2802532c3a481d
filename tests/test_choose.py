"""The script that chooses members on origins inside the training parts, and its statistics."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster
from forecast_unc.distributions.forecast import forecast_of
from forecast_unc.forecasting.choose.choice import Choice
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.pool.pool import Ensemble
from forecast_unc.series.rows import CompleteRows

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "benchmarks"))
import choose
import nested

sys.path.pop(0)

N, HORIZON = 26, 4


@pytest.fixture
def data(tmp_path, rng):
    """A file of three yearly series of 26 values, the last four of them the test part."""
    rows = [
        (name, "Yearly", t + 1, value, int(t >= N - HORIZON))
        for name in ("a", "b", "c")
        for t, value in enumerate(100 * np.exp(np.cumsum(rng.normal(0.02, 0.1, N))))
    ]
    path = tmp_path / "toy.csv"
    pd.DataFrame(rows, columns=["unique_id", "freq", "t", "y", "is_test"]).to_csv(path, index=False)
    return path


def run(monkeypatch, path, *arguments):
    """Scores of each series, window and rule, as the script writes them."""
    output = path.with_name("scores.csv")
    line = ["choose.py", "--data", str(path), "--output", str(output), "--folds", "3", *arguments]
    monkeypatch.setattr(sys, "argv", line)
    choose.main()
    return pd.read_csv(output).set_index(["rule", "set", "unique_id", "window"]).sort_index()


# --- the data


def test_origins_are_a_horizon_apart_inside_the_training_part(data):
    [series, *_] = choose.series_of([data], [], 1)
    assert len(series.y) == N - HORIZON
    found = choose.origins(series, 5)
    y = pd.read_csv(data)["y"].to_numpy()[: N - HORIZON]
    assert [len(window.past) for window in found] == [18, 14, 10]  # 6 and 2 are too few
    for window in found:
        np.testing.assert_array_equal(window.past, y[: len(window.past)])
        np.testing.assert_array_equal(window.actual, y[len(window.past) :][:HORIZON])


def test_origins_need_a_scale_and_something_to_compare_with(data):
    [series, *_] = choose.series_of([data], [], 1)
    y = series.y.copy()
    y.iloc[-HORIZON:] = np.nan
    assert [window.number for window in choose.origins(series._replace(y=y), 2)] == [1]
    y = series.y.copy()
    y.iloc[:14] = 1.0
    assert [len(window.past) for window in choose.origins(series._replace(y=y), 5)] == [18]


def test_nothing_of_the_test_part_counts(data, monkeypatch):
    rules = ("--origins", "1", "--rules", "only smoothing")
    before = run(monkeypatch, data, *rules)
    rows = pd.read_csv(data)
    rows.loc[rows["is_test"] == 1, "y"] = -1e9
    rows.to_csv(data, index=False)
    pd.testing.assert_frame_equal(run(monkeypatch, data, *rules), before, rtol=1e-12)


def test_a_task_ends_before_its_official_windows(tmp_path):
    task = {"task": "toy_M", "freq": "Monthly", "start": "2000-01", "horizon": 2, "season": 4}
    others = {"windows": 3, "series": 1, "exact": True}
    pd.DataFrame([task | others]).to_csv(tmp_path / "gift_tasks.csv", index=False)
    path = tmp_path / "gift_toy_M.csv.gz"
    pd.DataFrame({"unique_id": "007", "t": range(20), "y": range(20)}).to_csv(path, index=False)
    [series] = choose.series_of([path], ["Monthly"], None)
    assert (series.set, series.y.name, series.horizon, series.season) == (
        "toy_M Monthly",
        "007",
        2,
        4,
    )
    assert list(series.y) == list(range(14))
    assert str(series.y.index[-1]) == "2001-02"
    assert choose.series_of([path], ["Daily"], None) == []


# --- the members and the rules


@pytest.mark.slow
def test_kinds_are_named_by_what_members_are(rng):
    t = np.arange(100)
    y = 50 + 10 * np.sin(np.pi * t / 6) + rng.normal(size=100)
    months = pd.Series(y, pd.period_range("2000-01", periods=100, freq="M"))
    both = ["smoothing plain", "smoothing log"]
    assert choose.kinds(Forecaster().fit(months).models_) == [
        "changes 1 lag fourier",
        "levels log lags fourier",
        "levels lags profile linear",
        "levels log lags profile linear",
        "seasonal changes lags profile linear",
        "seasonal changes log lags profile linear",
        *both,
    ]
    hours = Forecaster(seasonal_period=(24, 48), transform=None).fit(pd.Series(np.tile(y, 3)))
    assert choose.kinds(hours.models_) == [
        "levels lags fourier",
        "levels lags profile linear",
        "seasonal changes lags profile linear",
        "changes over the longest season lags profile linear",
    ]
    rare = pd.Series(np.where(rng.random(100) < 0.3, 1.0 + t % 2, 0.0), months.index)
    assert choose.kinds(Forecaster().fit(rare).models_) == ["counts"]


def test_rules_take_members():
    names = ["levels", "changes", "levels", "smoothing plain", "smoothing log"]
    taken = {
        "default": [0, 1, 2, 3, 4],
        "without levels": [1, 3, 4],
        "without smoothing log": [0, 1, 2, 3],
        "without smoothing": [0, 1, 2],
        "only smoothing": [3, 4],
        "smoothing twice": [0, 1, 2, 3, 4, 3, 4],
        "without what is not there": [0, 1, 2, 3, 4],
    }
    assert {rule: choose.members(rule, names) for rule in taken} == taken
    assert choose.members("without levels", ["levels"]) == [0]  # nothing else is there
    assert choose.members("only smoothing", ["levels"]) == [0]


def test_a_run_scores_what_one_would_fit_by_hand(data, monkeypatch, capsys):
    results = run(monkeypatch, data, "--origins", "2", "--rules", "without smoothing")
    text = capsys.readouterr().out
    assert text.startswith("3 of 3 series, 6 origins; 0 have too little before")
    assert "in reserve, 3 folds: " in text
    [series] = [one for one in choose.series_of([data], [], None) if one.y.name == "b"]
    expected = {"default": [], "without smoothing": []}
    for n in (18, 14):
        past, actual = series.y.iloc[:n], series.y.to_numpy()[n : n + HORIZON]
        forecaster = Forecaster().fit(past)
        whole = forecaster.ensemble_
        lagged = tuple(m.specification for m in whole.models if "smoothing" not in str(m))
        assert 0 < len(lagged) < len(whole.models)
        chosen = Choice(lagged, whole.rules, CompleteRows(whole.history.y))
        part = Ensemble.fit(chosen, whole.history)
        future = part.history.future(HORIZON)
        ahead = {
            "default": forecaster.forecast(HORIZON),
            "without smoothing": forecast_of(future.index, part.predict(future, Method())),
        }
        scale = np.abs(np.diff(past)).mean()
        for rule, forecast in ahead.items():
            loss = 0.0
            for k in range(1, 10):
                error = actual - forecast.quantile(k / 10).to_numpy()
                loss += 2 * np.maximum(k / 10 * error, (k / 10 - 1) * error).mean() / 9
            mase = np.abs(actual - forecast.median.to_numpy()).mean()
            expected[rule].append((mase / scale, loss / scale))
    for rule, values in expected.items():
        found = results.loc[rule, "toy Yearly", "b"][["MASE", "quantile loss"]]
        np.testing.assert_allclose(found, values, rtol=1e-6)


@pytest.mark.slow
def test_rules_that_are_named_are_the_only_ones(data, monkeypatch, capsys):
    rules = ["--rules", "only smoothing", "without nobody", "--origins", "1"]
    results = run(monkeypatch, data, *rules)
    assert sorted(results.index.unique("rule")) == ["default", "only smoothing"]
    assert "same as the default everywhere: without nobody" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(monkeypatch, data, "--rules", "no smoothing")
    assert "got 'no smoothing'. Kinds are those of the table" in capsys.readouterr().err


@pytest.mark.slow
def test_a_rule_whose_members_diverge_is_never_chosen(data, monkeypatch):
    def failing(ensemble, ahead, method):
        if all("smoothing" in str(model) for model in ensemble.models):
            raise ValueError
        return forecast(ensemble, ahead, method)

    forecast = Ensemble.forecast
    monkeypatch.setattr(Ensemble, "forecast", failing)
    results = run(monkeypatch, data, "--origins", "1", "--rules", "only smoothing")
    assert np.isposinf(results.loc["only smoothing", "quantile loss"]).all()
    losses = pd.DataFrame(
        {rule: results.loc[rule, "quantile loss"] for rule in ("default", "only smoothing")}
    )
    assert nested.chosen(losses) == "default"
    monkeypatch.setattr(Ensemble, "forecast", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        run(monkeypatch, data)
    assert caught.value.__notes__[0].startswith("the default failed at {'set': 'toy Yearly'")


def test_there_have_to_be_origins(data, monkeypatch):
    with pytest.raises(SystemExit, match="--data must hold series of 10 values and more before an"):
        run(monkeypatch, data, "--freq", "Monthly")


# --- the choice


def table_of(rows, sets="s"):
    """Losses by (set, unique_id) of the rules default, x and y."""
    index = pd.MultiIndex.from_arrays([list(sets * len(rows))[: len(rows)], range(len(rows))])
    return pd.DataFrame(rows, index.set_names(nested.KEY), columns=["default", "x", "y"])


def test_the_error_of_a_ratio_is_that_of_the_jackknife(rng):
    default = rng.gamma(4.0, 1.0, 300)
    rule = default * np.exp(rng.normal(-0.05, 0.3, 300))
    losses = table_of(np.column_stack([default, rule, rule]))
    left_out = (rule.sum() - rule) / (default.sum() - default)
    error = np.sqrt(299 / 300 * ((left_out - left_out.mean()) ** 2).sum())
    found = nested.change(losses["x"], losses["default"])
    assert found.value == pytest.approx(100 * (rule.mean() / default.mean() - 1))
    assert found.error == pytest.approx(100 * error, rel=0.02)  # they differ by O(1 / n)
    found = nested.change(losses["x"], losses["default"], logarithms=True)
    logs = np.log(rule) - np.log(default)
    assert found == pytest.approx((100 * logs.mean(), 100 * logs.std(ddof=1) / np.sqrt(300)))


def test_each_set_has_one_vote(rng):
    """Whatever its scale, and however many series it has."""
    small, large = rng.gamma(9.0, 1.0, (10, 3)), 1e3 * rng.gamma(9.0, 1.0, (40, 3))
    losses = pd.concat([table_of(small, "s"), table_of(large, "t")])
    alone = [nested.change(part["x"], part["default"]) for _, part in losses.groupby(level="set")]
    found = nested.change(losses["x"], losses["default"])
    assert found.value == pytest.approx((alone[0].value + alone[1].value) / 2)
    assert found.error == pytest.approx(np.hypot(alone[0].error, alone[1].error) / 2)


def test_a_gain_has_to_be_sure():
    # stds of x and y are .2 / sqrt 3 and .9 / sqrt 3
    sure = [[1, 0.5, 0.1], [1, 0.7, 1.0], [1, 0.5, 0.1], [1, 0.7, 1.0]]
    losses = table_of(sure)
    assert nested.change(losses["x"], losses["default"]) == pytest.approx((-40, 20 / np.sqrt(12)))
    assert nested.change(losses["y"], losses["default"]) == pytest.approx((-45, 90 / np.sqrt(12)))
    assert nested.chosen(losses) == "default"  # the lowest is not sure
    assert nested.chosen(losses[["default", "x"]]) == "x"
    assert nested.chosen(losses[["default"]]) == "default"


def test_the_nested_choice_is_made_without_the_fold():
    # the first two series alone favor y, all others x; the fold of the first two has not seen them
    rows = [[1, 1.5, 0.1]] * 2 + [[1, 0.9, 1.0], [1, 0.8, 1.1]] * 2
    losses = table_of(rows)
    fold = np.array([0, 0, 1, 1, 1, 1])
    rules, reserve = nested.nested(losses, fold)
    assert rules == ["x", "y"]
    assert list(reserve) == [1.5, 1.5, 1.0, 1.1, 1.0, 1.1]
    # of all: x loses, y gains 1 - 4.4 / 6 = .27 with an error of .20
    assert nested.chosen(losses) == "default"


def test_folds_hold_as_many_of_each_set():
    losses = pd.concat([table_of(np.ones((13, 3)), "s"), table_of(np.ones((7, 3)), "t")])
    fold = pd.Series(nested.folds_of(losses.index, 5), index=losses.index)
    assert sorted(fold["s"].value_counts()) == [2, 2, 3, 3, 3]
    assert sorted(fold["t"].value_counts()) == [1, 1, 1, 2, 2]


def test_a_rule_without_a_line_is_the_default():
    lines = pd.DataFrame(
        [
            ("s", "a", 0, "default", 1.0),
            ("s", "a", 1, "default", 3.0),
            ("s", "a", 1, "x", 5.0),
            ("s", "b", 0, "default", 7.0),
        ],
        columns=[*nested.KEY, "window", "rule", "loss"],
    )
    means, changed = nested.by_series(lines)
    assert list(means["default", "loss"]) == [2.0, 7.0]
    assert list(means["x", "loss"]) == [3.0, 7.0]
    assert list(changed["x"]) == [True, False]


def scores_of(losses):
    """Lines of the losses, as choose.py writes them; those of the default's value left out."""
    lines = losses.melt(ignore_index=False, var_name="rule", value_name="quantile loss")
    kept = (lines["rule"] == "default") | (lines["quantile loss"] != 1)
    return lines[kept].assign(window=0, coverage=0.9).reset_index()


def test_the_report_is_of_outputs_put_together(tmp_path, monkeypatch, capsys):
    paths = []
    for name in ("s", "t"):
        losses = table_of([[1, 0.9, 1.0], [1, 0.8, 1.0]] * 5, name).drop(columns="y")
        paths.append(tmp_path / f"{name}.csv")
        scores_of(losses.rename(columns={"x": f"without {name}"})).to_csv(paths[-1], index=False)
    monkeypatch.setattr(sys, "argv", ["nested.py", "--scores", *map(str, paths)])
    nested.main()
    text = capsys.readouterr().out
    assert text.count("\nwithout s  ") == text.count("\nwithout t  ") == 2  # one set and all
    # each rule changes one set by - 15 % with an error of 5 / sqrt 9, the other one not at all
    assert [line.split()[:2] for line in text.splitlines() if "-7.50 ± 0.83" in line] == [
        ["without", "s"],
        ["without", "t"],
        ["chosen", "on"],
    ]
    assert "\ndefault: 1.0000, +0.00 ± 0.00 %\nchosen on all series, without s: 0.9250" in text
    assert "gap from chosen on to in reserve: " in text


@pytest.mark.slow
def test_the_report_drops_what_is_not_sure_and_names_the_gap():
    lines = scores_of(table_of([[1, 0.5, 0.1], [1, 0.7, 1.0]] * 2))
    rows = [line.split()[0] for line in nested.report(lines, 2, 2.0, False).splitlines() if line]
    assert rows[2:5] == ["default", "y", "x"]  # y: - 45.00 ± 25.98, x: - 40.00 ± 5.77
    text = nested.report(lines, 2, 2.0, True).splitlines()
    assert [line.split()[0] for line in text[2:4]] == ["default", "x"]
    lines = scores_of(table_of([[1, 0.9, 1.0], [1, 0.8, 1.0]] * 5).drop(columns="y"))
    text = nested.report(lines, 5, 2.0, False)
    assert "chosen on all series, x: 0.8500, -15.00 ± 1.67 %" in text
    assert "in reserve, 5 folds: 0.8500, -15.00 ± 1.67 %" in text
    assert "gap from chosen on to in reserve: +0.00 %" in text
    assert "chosen in 5 of 5: x" in text
    assert "chosen in 5 of 5: default" in nested.report(lines, 5, 20.0, False)


def test_folds_need_a_series_each():
    lines = scores_of(table_of(np.ones((3, 3))))
    for folds in (1, 4):
        with pytest.raises(SystemExit, match=f"from 2 to the series of each set; got {folds}, and"):
            nested.report(lines, folds, 2.0, False)
