"""The script that scores the tasks of GIFT-Eval, and its picture."""

import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread
from matplotlib.text import Text
from scipy.optimize import minimize
from scipy.stats import norm

from forecast_unc import Forecaster

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "benchmarks"))
import gift_eval
import gift_picture

sys.path.pop(0)

TASK = gift_eval.Task("toy_M", "Monthly", "2000-01", 2, 4, 3, 2, True)


@pytest.fixture
def folder(tmp_path, rng):
    """Two series of 40 months, three windows of two, and four published entries."""
    t = np.arange(40)
    series = {name: 10 + np.sin(np.pi * t / 2) + rng.normal(0, 0.3, 40) for name in ("001", "002")}
    rows = [(name, k + 1, value) for name, y in series.items() for k, value in enumerate(y)]
    pd.DataFrame(rows, columns=["unique_id", "t", "y"]).to_csv(
        tmp_path / "gift_toy_M.csv.gz", index=False
    )
    pd.DataFrame([TASK]).to_csv(tmp_path / "gift_tasks.csv", index=False)
    entries = ["chronos-2", "seasonal_naive", "wide", "narrow"]
    published = pd.DataFrame({"task": "toy_M", "model": entries, "sMAPE": 0.1, "WQL": 0.1})
    published["MASE"] = [1e-6, 50.0, 60.0, 70.0]
    published["MSIS"] = [500.0, 1e-6, 600.0, 2e-6]
    published.to_csv(tmp_path / "gift_leaderboard.csv", index=False)
    return tmp_path


def run(monkeypatch, folder, *arguments):
    """The table that the script prints, as the scores that it writes."""
    output = folder / "scores.csv"
    line = ["gift_eval.py", "--data", str(folder), "--output", str(output), *arguments]
    monkeypatch.setattr(sys, "argv", line)
    gift_eval.main()
    return pd.read_csv(output, dtype={"unique_id": str}) if output.exists() else None


def test_windows_are_the_last_values_and_do_not_overlap():
    found = list(gift_eval.windows(np.arange(20.0), TASK, "a"))
    assert [list(window.actual) for window in found] == [[14, 15], [16, 17], [18, 19]]
    assert [list(window.past) for window in found] == [list(range(n)) for n in (14, 16, 18)]
    assert [window.number for window in found] == [0, 1, 2]
    assert str(found[0].past.index[-1]) == "2001-02"


def test_a_week_begins_on_the_weekday_of_the_first_day():
    task = TASK._replace(freq="Weekly", start="1969-01-01")
    index = gift_eval.times(task, 3)
    assert list(index.start_time.strftime("%Y-%m-%d")) == ["1969-01-01", "1969-01-08", "1969-01-15"]


def test_scores_are_those_of_the_protocol(rng):
    past, actual = rng.normal(size=12), rng.normal(size=5)
    quantiles = np.sort(rng.normal(size=(5, 11)), axis=1)
    window = gift_eval.Window(0, pd.Series(past), actual)
    found = gift_eval.scored(window, quantiles, season=4)

    scale = np.mean([abs(past[t] - past[t - 4]) for t in range(4, 12)])

    def msis(lower, upper):
        total = 0.0
        for y, low, high in zip(actual, lower, upper, strict=True):
            total += high - low
            total += 40 * (low - y) if y < low else 0.0  # 2 / .05
            total += 40 * (y - high) if y > high else 0.0
        return total / 5 / scale

    def tail(line):
        """Linear in the logarithm of the probability, through the outer deciles."""
        slope, at_one = np.polyfit(np.log([0.1, 0.2]), line, 1)
        return slope * np.log(0.025) + at_one

    lower = [tail(line[[1, 2]]) for line in quantiles]
    upper = [-tail(-line[[9, 8]]) for line in quantiles]
    loss = 0.0
    for y, line in zip(actual, quantiles, strict=True):
        for k in range(1, 10):
            loss += 2 * abs((y - line[k]) * ((y <= line[k]) - k / 10)) / 9
    median = quantiles[:, 5]
    expected = {
        "MASE": np.mean(np.abs(actual - median)) / scale,
        "sMAPE": np.mean(2 * np.abs(actual - median) / (np.abs(actual) + np.abs(median))),
        "MSIS": msis(quantiles[:, 0], quantiles[:, 10]),
        "MSIS 9q": msis(lower, upper),
        "coverage": np.mean((quantiles[:, 0] <= actual) & (actual <= quantiles[:, 10])),
        "loss": loss,
        "size": np.abs(actual).sum(),
    }
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
def test_seasonal_naive_is_the_published_one(shared_data):
    tasks = [
        gift_eval.Task(*row)
        for row in pd.read_csv(shared_data / "gift_tasks.csv").itertuples(index=False)
    ]
    board = pd.read_csv(shared_data / "gift_leaderboard.csv")
    published = board[board["model"] == "seasonal_naive"].set_index("task")
    exact = [task for task in tasks if task.exact]
    lines = [
        gift_eval.scored(window, gift_eval.seasonal_naive(window.past, task), task.season)
        | {"task": task.task, "unique_id": window.past.name, "window": window.number}
        | {"model": "seasonal_naive", "seconds": np.nan}
        for task in exact
        for window in gift_eval.jobs(shared_data, task)
    ]
    means = gift_eval.summary(pd.DataFrame(lines), {t.task: t for t in tasks}, board)
    means = means.set_index("task")
    assert set(means.index) == {"hospital_M", "us_births_D", "us_births_W", "us_births_M"}
    for score in ("MASE", "sMAPE", "WQL"):  # published with five decimals
        np.testing.assert_allclose(means[score], published[score][means.index], atol=6e-6)
    # four digits: what they were made from has single precision
    np.testing.assert_allclose(means["MSIS 9q"], published["MSIS"][means.index], rtol=5e-5)


@pytest.mark.slow
def test_a_run_writes_scores_prints_ranks_and_draws(folder, monkeypatch, capsys):
    picture = folder / "skill.png"
    results = run(
        monkeypatch, folder, "--rivals", "last_value", "seasonal_naive", "--plot", str(picture)
    )
    table = capsys.readouterr().out
    assert picture.stat().st_size > 0
    assert len(results) == 2 * 3 * 3  # series, windows, models
    y = pd.read_csv(folder / "gift_toy_M.csv.gz", dtype={"unique_id": str})
    y = y[y["unique_id"] == "002"]["y"].to_numpy()
    key = (results["unique_id"] == "002") & (results["window"] == 1)
    lines = results[key].set_index("model")
    scale = np.abs(y[4:36] - y[:32]).mean()
    by_hand = np.abs(y[36:38] - y[35]).mean() / scale
    assert lines["MASE"]["last_value"] == pytest.approx(by_hand)
    index = pd.period_range("2000-01", periods=36, freq="M")
    ahead = Forecaster().fit(pd.Series(y[:36], index=index)).forecast(2)
    ours = np.abs(y[36:38] - ahead.median.to_numpy()).mean() / scale
    assert lines["MASE"]["forecast_unc"] == pytest.approx(ours, rel=1e-6)
    # one published MASE is lower and two MSIS are
    measured = [line.split() for line in table.splitlines() if " measured " in line]
    assert [line[1] for line in measured] == ["forecast_unc", "last_value", "seasonal_naive"]
    assert [line[-3:] for line in measured] == [["2", "3", "3"]] * 3
    assert "published, best MASE" in table
    assert "among 4 entries" in table


def test_weighted_quantile_loss_is_a_ratio_of_sums(folder):
    board = pd.read_csv(folder / "gift_leaderboard.csv")
    results = pd.DataFrame(
        {"task": "toy_M", "unique_id": ["1", "2"], "window": 0, "model": "a", "seconds": 1.0}
        | dict.fromkeys(("MASE", "sMAPE", "MSIS", "MSIS 9q", "coverage"), 1.0)
        | {"loss": [1.0, 3.0], "size": [2.0, 38.0]}
    )
    means = gift_eval.summary(results, {"toy_M": TASK}, board)
    assert means["WQL"][0] == pytest.approx(0.1)
    assert means["rank MASE"].isna().all()  # two windows of six
    twice = pd.concat([results, results])
    with pytest.raises(ValueError, match="a model once for each window; got a twice for toy_M, 1."):
        gift_eval.summary(twice, {"toy_M": TASK}, board)


def test_part_of_a_task_has_no_rank(folder, monkeypatch, capsys):
    run(monkeypatch, folder, "--rivals", "last_value", "--rivals-only", "--sample", "2")
    [line] = [line for line in capsys.readouterr().out.splitlines() if " measured " in line]
    assert line.split()[3:5] == ["2", "6"]
    assert len(line.split()) == 12  # neither a rank nor a ratio to seasonal naive


def test_a_larger_sample_holds_the_smaller(folder):
    def names(sample):
        return [(w.past.name, w.number) for w in gift_eval.jobs(folder, TASK, sample)]

    assert names(None) == [(name, number) for name in ("001", "002") for number in range(3)]
    assert sorted(names(6)) == names(None)
    assert names(6) != names(None)
    assert names(4) == names(6)[:4]


def test_ratios_are_to_seasonal_naive_on_the_same_windows(folder):
    board = pd.read_csv(folder / "gift_leaderboard.csv")
    results = pd.DataFrame(
        [
            ("seasonal_naive", 0, 1.0, 3.0, 0.5),
            ("seasonal_naive", 1, 2.0, 5.0, 0.5),
            ("a", 1, 0.5, 4.0, 2.0),
        ],
        columns=["model", "window", "MASE", "MSIS 9q", "seconds"],
    ).assign(task="toy_M", unique_id="1", sMAPE=1.0, MSIS=1.0, coverage=1.0, loss=1.0, size=1.0)
    means = gift_eval.summary(results, {"toy_M": TASK}, board)
    table = gift_eval.skill(means, board).set_index("model")
    assert list(table["source"]) == ["measured", "measured", "published"]
    assert list(table["windows"][:2]) == [2, 1]
    assert table["MASE / naive"]["a"] == pytest.approx(0.5 / 2)
    assert table["MSIS 9q / naive"]["a"] == pytest.approx(4 / 5)
    assert table["MASE / naive"]["chronos-2"] == pytest.approx(1e-6 / 50)
    assert table["MSIS 9q / naive"]["chronos-2"] == pytest.approx(500 / 1e-6)
    alone = results[results["model"] == "a"]  # its window of seasonal naive is missing
    means = gift_eval.summary(alone, {"toy_M": TASK}, board)
    assert means[["MASE / naive", "MSIS 9q / naive"]].isna().all(axis=None)


def test_scores_of_earlier_runs_are_shown_beside(folder, monkeypatch, capsys):
    run(monkeypatch, folder, "--rivals", "last_value", "--rivals-only")
    earlier = folder / "scores.csv"
    with pytest.raises(SystemExit, match="--output must be a new file"):
        run(monkeypatch, folder, "--rivals-only", "--add", str(earlier))
    earlier = earlier.rename(folder / "earlier.csv")
    capsys.readouterr()
    run(monkeypatch, folder, "--rivals-only", "--add", str(earlier))
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in table if " measured " in line] == [
        "seasonal_naive",
        "last_value",
    ]


def test_a_library_that_is_not_installed_is_skipped(folder, monkeypatch, capsys):
    monkeypatch.setattr(gift_eval, "find_spec", lambda name: None)
    results = run(monkeypatch, folder, "--rivals", "mstl", "last_value", "--rivals-only")
    assert "skipped, statsforecast is not installed: mstl" in capsys.readouterr().out
    assert set(results["model"]) == {"last_value"}
    with pytest.raises(SystemExit, match="--rivals must name a model that is installed; got none"):
        run(monkeypatch, folder, "--rivals", "mstl", "--rivals-only")


def test_what_is_asked_for_has_to_exist(folder, monkeypatch):
    with pytest.raises(SystemExit, match="--task must be among toy_M; got toy_W."):
        run(monkeypatch, folder, "--task", "toy_W")
    with pytest.raises(ValueError, match="gift_toy_M.csv.gz must hold 3 series; got 2."):
        gift_eval.jobs(folder, TASK._replace(series=3))


def test_a_failure_says_where(monkeypatch):
    def failing(y, task):
        raise ZeroDivisionError

    monkeypatch.setitem(gift_eval.MODELS, "last_value", failing)
    [window, *_] = gift_eval.windows(np.arange(20.0), TASK, "a")
    with pytest.raises(ZeroDivisionError) as caught:
        gift_eval.evaluate(window, TASK, ["last_value"])
    [note] = caught.value.__notes__
    assert note.startswith("last_value failed at {'task': 'toy_M', 'unique_id': 'a', 'window': 0")


@pytest.mark.parametrize(("name", "season"), [("autoets", 7), ("mstl", [7, 365])])
def test_a_rival_gives_its_quantiles_in_order(name, season, monkeypatch):
    class Normal:
        """Stands for a model of statsforecast: the standard normal distribution."""

        def __init__(self, season_length):
            assert season_length == season

        def forecast(self, y, h, level):
            assert level == sorted(level)
            ends = {end: norm.ppf(0.5 + end / 200) for end in level}
            columns = {f"lo-{end}": np.full(h, -z) for end, z in ends.items()}
            return (
                columns
                | {f"hi-{e}": np.full(h, z) for e, z in ends.items()}
                | {"mean": np.zeros(h)}
            )

    library = ModuleType("statsforecast")
    library.models = SimpleNamespace(AutoETS=Normal, MSTL=Normal)
    monkeypatch.setitem(sys.modules, "statsforecast", library)
    task = TASK._replace(freq="Daily", horizon=3)
    quantiles = gift_eval.MODELS[name](pd.Series(np.zeros(9)), task)
    np.testing.assert_allclose(quantiles, np.tile(norm.ppf(gift_eval.LEVELS), (3, 1)), atol=1e-12)


# --- the picture


def test_labels_are_placed_apart_by_least_squares(rng):
    wanted = np.sort(rng.uniform(0.2, 0.8, 6))
    placed = gift_picture.placed_apart(wanted, 0.1, 0.0, 1.0)
    best = minimize(
        lambda p: ((p - wanted) ** 2).sum(),
        np.linspace(0, 1, 6),
        constraints={"type": "ineq", "fun": lambda p: np.diff(p) - 0.1},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(placed, best.x, atol=1e-5)
    crowded = gift_picture.placed_apart(np.full(5, 0.02), 0.1, 0.0, 1.0)
    np.testing.assert_allclose(crowded, [0, 0.1, 0.2, 0.3, 0.4], atol=1e-12)


def toy_table(models=("forecast_unc", *gift_picture.KINDS), tasks=("x", "y")):
    """Ratios and seconds of models on tasks, and five published entries close together."""
    measured = [
        (task, name, "measured", 0.5 + 0.1 * k + 0.1 * j, 0.7 - 0.1 * k, 10.0 ** (j - k))
        for k, name in enumerate(models)
        for j, task in enumerate(tasks)
    ]
    published = [
        (task, name, "published", 0.6 + 1e-4 * k, 0.5, np.nan)
        for k, name in enumerate(gift_picture.PRETRAINED)
        for task in tasks
    ]
    columns = ["task", "model", "source", "MASE / naive", "MSIS 9q / naive", "seconds"]
    return pd.DataFrame(measured + published, columns=columns).assign(windows=3, of=3)


def test_means_are_geometric_and_of_the_tasks_that_all_measured_models_have():
    table = toy_table(tasks=("x", "y", "z"))
    dropped = (table["task"] == "z") & (table["model"] == "mstl")
    dropped |= (table["task"] == "x") & (table["model"] == "TiRex")
    means = gift_picture.relative(table[~dropped])
    assert list(means.loc["measured"].index) == ["forecast_unc", *gift_picture.KINDS]
    assert set(means.loc["published"].index) == {*gift_picture.PRETRAINED} - {"TiRex"}
    ours = means.loc[("measured", "forecast_unc")]
    assert ours["MASE / naive"] == pytest.approx(np.sqrt(0.5 * 0.6))
    assert ours["seconds"] == pytest.approx(np.sqrt(1 * 10))
    assert (means["tasks"] == 2).all()


def test_a_model_without_all_windows_is_hollow_and_says_so():
    table = toy_table(models=("forecast_unc", "autoarima"))
    table.loc[(table["task"] == "y") & (table["model"] == "autoarima"), "windows"] = 2
    ax = gift_picture.draw(table).axes[0]
    points = {line.get_label(): line.get_markerfacecolor() for line in ax.lines}
    assert points["forecast_unc"] == "black"
    assert points["AutoARIMA, some windows"] == "white"


def test_a_table_without_a_common_task_or_a_naive_is_refused():
    table = toy_table(models=("forecast_unc", "mstl"))
    apart = (table["task"] == "x") ^ (table["model"] == "mstl")
    with pytest.raises(ValueError, match="a task that every measured model has; got none"):
        gift_picture.draw(table[apart])
    with pytest.raises(ValueError, match="ratios to seasonal_naive of every model; got missing"):
        gift_picture.draw(table.assign(**{"MASE / naive": np.nan}))
    with pytest.raises(ValueError, match="a measured model beside seasonal_naive; got none"):
        gift_picture.draw(toy_table(models=("seasonal_naive",)))


def test_a_model_as_good_as_seasonal_naive_is_drawn():
    table = toy_table(models=("last_value",)).query("source == 'measured'")
    table = table.assign(**{"MASE / naive": 1.0, "MSIS 9q / naive": 1.0})
    low, high = gift_picture.draw(table).axes[0].get_ylim()  # a warning of an empty axis fails
    assert low < 1 < high


@pytest.mark.slow
def test_no_name_covers_another():
    models = ("mstl", "forecast_unc", "autoets", "autotheta", "autoarima", "seasonal_naive")
    figure = gift_picture.draw(toy_table(models))
    FigureCanvasAgg(figure).draw()
    panels, strips = figure.axes[::2], figure.axes[1::2]
    [legend] = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["forecast_unc", "MSTL", "AutoETS", "AutoTheta", "AutoARIMA"]
    for ax in panels:
        markers = {line.get_marker() for line in ax.lines if line.get_marker() != "None"}
        assert len(markers) == len(names)  # told apart in gray
    for strip in strips:
        assert "published" in strip.get_xlabel()
        assert len(strip.get_xticks()) == 0  # no seconds
        frame = strip.get_window_extent()
        boxes = sorted((Text.get_window_extent(text) for text in strip.texts), key=lambda b: b.y0)
        assert len(boxes) == len(gift_picture.PRETRAINED)
        assert all(a.y1 <= b.y0 for a, b in pairwise(boxes))
        assert frame.y0 <= boxes[0].y0
        assert boxes[-1].y1 <= frame.y1
        assert max(box.x1 for box in boxes) <= frame.x1


@pytest.mark.slow
def test_the_picture_is_drawn_again_from_its_table(folder, monkeypatch):
    run(monkeypatch, folder, "--rivals-only", "--rivals", "last_value", "seasonal_naive",
        "--plot", str(folder / "first.png"))  # fmt: skip
    line = ["gift_picture.py", str(folder / "first.csv"), "--output", str(folder / "again.png")]
    monkeypatch.setattr(sys, "argv", line)
    gift_picture.main()
    first, again = (imread(folder / name) for name in ("first.png", "again.png"))
    assert first.shape == again.shape
    assert np.mean(first != again) < 0.001  # the table has five digits


def test_the_committed_table_has_what_the_picture_shows():
    table = pd.read_csv(Path(gift_picture.__file__).with_name("skill.csv"))
    means = gift_picture.relative(table)
    assert {"forecast_unc", *gift_picture.KINDS} <= set(means.loc["measured"].index)
    assert set(means.loc["published"].index) == set(gift_picture.PRETRAINED)
