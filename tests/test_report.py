"""The report of a backtest, read as a parser reads it; in a browser: test_report_browser.py."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from forecast_unc import (
    Combination,
    Forecaster,
    backtest,
    backtest_panel,
    baselines,
    datasets,
    plot,
)
from forecast_unc.cli import main
from forecast_unc.evaluation import report as page
from forecast_unc.evaluation.backtest import Backtest
from forecast_unc.panels.panel_forecast import FailedSeriesWarning

VOID = {"meta", "link", "img", "br", "hr", "input"}
SCRIPT = "</title></script><script>window.pwned = 1</script>"
IMAGE = '"><img src="http://example.org/x" onerror="window.pwned = 2">'
HOSTILE = "$x_1$ & <b>'bold'</b> \u202e"


class Page(HTMLParser):
    """Elements, tables and text of a page whose tags are balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.tables, self.texts = [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        self.texts.setdefault(tag, [])
        if tag in VOID:
            return
        self.open.append(tag)
        self.texts[tag].append("")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(attrs.get("data-value"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def nile(name="flow", n=60):
    return datasets.load_nile().iloc[:n].rename(name)


@pytest.fixture(scope="module")
def result():
    compare = {"naive": "naive propagation", "last season": baselines.SeasonalNaive()}
    return backtest(Forecaster(lags=2), nile(), 3, origins=7, compare=compare)


@pytest.fixture(scope="module")
def text(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    with pytest.raises(
        TypeError, match=r"path must be a str or a path; got None\. .*'report.html'"
    ):
        result.report(None)
    with pytest.raises(
        FileNotFoundError, match=r"got .*; there is no .*none\. Name one in a folder"
    ):
        result.report(path.parent / "none" / "report.html")
    for name in ("report.pdf", "report"):
        with pytest.raises(
            ValueError, match=rf"path must end in \.html or \.htm; got '{name}'\. A"
        ):
            result.report(path.with_name(name))
        assert not path.with_name(name).exists()
    assert result.report(path) is None
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(text):
    return Page(text)


@pytest.fixture
def no_pictures(monkeypatch):
    """Pages without drawings, nine tenths of their cost, for tests of what they say."""
    monkeypatch.setattr(page.page, "picture", lambda draw: "")


@pytest.fixture
def unsaved_pictures(monkeypatch):
    """Pages whose pictures are drawn and not written, most of their cost."""

    def drawn(draw):
        draw(ax=Figure().subplots())
        return ""

    monkeypatch.setattr(page.page, "picture", drawn)


def written(result, tmp_path):
    path = tmp_path / "report.html"
    result.report(path)
    return Page(path.read_text(encoding="utf-8"))


def table(report, caption):
    """Rows of the table of this caption, as what they are sorted by."""
    (rows,) = (
        rows
        for said, rows in zip(report.texts["caption"], report.tables, strict=True)
        if caption in said
    )
    return rows[1:]


def test_the_page_is_a_document_of_headings_and_labeled_parts(report):
    tags = [tag for tag, _ in report.elements]
    assert tags[0] == "html"
    assert report.all("html") == [{"lang": "en"}]
    assert report.texts["title"] == report.texts["h1"] == ["Backtest of flow"]
    assert report.texts["h2"] == [
        "What was asked",
        "The data",
        "Choices and why",
        "Forecast",
        "Scores",
        "Scores by step",
        "Calibration",
        "Where the variance comes from",
    ]
    ids = [attrs["id"] for _, attrs in report.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert [attrs["href"] for attrs in report.all("a")] == [f"#{name}" for name in ids]
    assert len(report.texts["caption"]) == len(report.tables) >= 5
    assert all(report.texts["caption"])
    images = report.all("img")
    assert len(images) == len(report.texts["figcaption"]) == 8
    assert all(len(image["alt"]) > 20 for image in images)
    assert all(region["tabindex"] == "0" for region in report.all("div") if "role" in region)
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in (
        report.all("meta")
    )


def test_the_page_loads_nothing_and_runs_its_own_script_alone(report, text):
    for _, attrs in report.elements:
        assert not [name for name in attrs if name.startswith("on") or name == "style"]
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:"))
    (policy,) = (m["content"] for m in report.all("meta") if "http-equiv" in m)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag in ("style", "script"):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
        assert "url(" not in inner
        assert "http" not in inner


def test_pictures_are_drawings_without_links(report):
    for image in report.all("img"):
        kind, data = image["src"].split(",")
        assert kind == "data:image/svg+xml;base64"
        drawing = ElementTree.fromstring(base64.b64decode(data))
        links = [
            value
            for element in drawing.iter()
            for name, value in element.attrib.items()
            if name.endswith("href")
        ]
        assert all(link.startswith("#") for link in links)


def test_scores_are_those_of_the_backtest(report, result):
    scores = result.scores()
    rows = table(report, "Scores by model: ")
    assert [row[0] for row in rows] == list(scores.index)
    shown = np.array([row[1:] for row in rows], dtype=float)
    np.testing.assert_array_equal(shown, scores.to_numpy())


def test_scores_by_step_and_tests_are_those_of_the_backtest(report, result):
    by_step, test = result.scores(["model", "step"]), result.significance(by="step")
    rows = table(report, "Scores by model and step")
    assert [(row[0], int(row[1])) for row in rows] == list(by_step.index)
    shown = np.array([row[2:] for row in rows], dtype=float)
    np.testing.assert_array_equal(shown[:, :-2], by_step.to_numpy())
    expected = test[["difference", "p_value"]].reindex(by_step.index)
    np.testing.assert_allclose(shown[:, -2:], expected.to_numpy(), rtol=1e-12, atol=1e-12)
    rows, test = table(report, "by the test of Diebold and Mariano"), result.significance()
    assert [row[0] for row in rows] == list(test.index)
    np.testing.assert_array_equal([float(row[1]) for row in rows], test["difference"])
    for row, p_value in zip(rows, test["p_value"], strict=True):
        assert (row[-1] == "no clear difference") == (p_value >= 0.05)


def test_the_forecast_is_that_of_a_fit_to_the_whole_series(report):
    ahead = Forecaster(lags=2).fit(nile()).forecast(3)
    rows = table(report, "The forecast from 1930")
    assert [row[0] for row in rows] == [str(time.date()) for time in ahead.index]
    shown = np.array([row[1:] for row in rows], dtype=float)
    expected = [ahead.mean, ahead.std]
    for level in (0.5, 0.8, 0.95):
        expected += [ahead.interval(level)["lower"], ahead.interval(level)["upper"]]
    np.testing.assert_allclose(shown, np.transpose(expected), rtol=1e-12)
    rows = table(report, "Parts of the variance by step")
    parts = np.array([row[1:] for row in rows], dtype=float)
    np.testing.assert_allclose(parts[:, :-1].sum(axis=1), ahead.var, rtol=1e-6)
    np.testing.assert_allclose(parts[:, -1], ahead.var, rtol=1e-12)


@pytest.mark.parametrize(
    ("unit", "squared"),
    [("kg/m", "(kg/m)²"), (None, "the squared unit of the series")],
)
def test_parts_of_the_variance_have_a_unit_and_are_explained(no_pictures, tmp_path, unit, squared):
    y = nile()
    y.attrs["unit"] = unit
    report = written(backtest(Forecaster(lags=2), y, 2, origins=2), tmp_path)
    assert table(report, f"Parts of the variance by step, in {squared}")
    heads = [text for text in report.texts["th"] if ": " in text or text == "noise"]
    assert {"noise", "function: own", "inputs: propagated"} <= set(heads)
    said = dict(zip(report.texts["dt"], report.texts["dd"], strict=True))
    assert said["function: own"] == "uncertainty of the learned function at this step"
    assert set(heads) <= set(said)


def test_the_first_sentence_says_who_is_better(report, result):
    scores, said = result.scores(), report.texts["p"][0]
    best = scores["CRPS"].drop("forecast_unc").idxmin()
    change = 100 * (scores["CRPS"]["forecast_unc"] / scores["CRPS"][best] - 1)
    side = f"{abs(change):.1f} % {'below' if change < 0 else 'above'}"
    p_value = result.significance().loc[best, "p_value"]
    assert f", not significantly different from that of {best}, the best of the others" in said
    assert f"({side}, p = {p_value:.2g})" in said
    held = 100 * scores.loc["forecast_unc", "coverage_95"]
    held = f"Its 95 % interval held {held:.1f} % of 21 values"
    assert f"{held}: as it should, within chance." in said


@pytest.mark.parametrize(
    ("share", "origins", "words"),
    [(0.0, 8, "too narrow"), (1.0, 8, "too wide"), (0.5, 8, "as it should"), (0.2, 4, "too few")],
)
def test_a_share_of_values_inside_gets_a_verdict(result, share, origins, words):
    frame = result.frame[result.frame["model"] == "forecast_unc"]
    one = frame[frame["step"] == 1].iloc[[0] * origins].reset_index(drop=True)
    one["time"] = one["origin"] = np.arange(origins)
    inside = np.arange(origins) < round(share * origins)
    one["lower_50"] = np.where(inside, one["actual"], one["actual"] + 1.0)
    one["upper_50"] = one["actual"] + 2.0
    joint = one[["model", "origin", "refit"]].assign(energy=1.0)
    assert words in page.verdict(Backtest(one, (0.5,), joint, 1))


def test_models_that_are_alike_are_said_to_be(no_pictures, result, tmp_path):
    own, frame = result.frame["model"].iloc[0], result.frame
    mine = frame[frame["model"] == own]
    twice = pd.concat([mine, mine.assign(model="twin")])
    report = written(Backtest(twice, result.coverages, {}, 1), tmp_path)
    assert ", equal to that of twin, the best of the others" in report.texts["p"][0]


def test_groups_that_are_off_are_named_and_drawn(result, unsaved_pictures, tmp_path, monkeypatch):
    assert "Off by more than chance" not in page.verdict(result)
    named = "steps 1 to 2 (80 % hold 10 %)"
    monkeypatch.setattr(page, "off_groups", lambda _: {"step": named})
    report = written(result, tmp_path)
    assert report.texts["p"][0].endswith(f"Off by more than chance: {named}.")
    assert any(one["alt"].endswith(f"{named}.") for one in report.all("img"))


@pytest.mark.parametrize(
    ("season", "said"),
    [(1, "1 step"), (None, "the seasonal period of each series")],
)
def test_the_unit_of_mase_is_said(no_pictures, result, tmp_path, season, said):
    report = written(Backtest(result.frame, result.coverages, result.joint, season), tmp_path)
    at = report.texts["dt"].index("unit of MASE, MSIS")
    assert report.texts["dd"][at] == f"mean absolute change over {said} in the past"


def test_the_same_backtest_gives_the_same_page(result, tmp_path, monkeypatch):
    def draw(ax):
        plot.scores_by_step(result, ax=ax)

    assert page.page.picture(draw) == page.page.picture(draw)
    monkeypatch.setattr(page.page, "picture", lambda draw: "")
    names = ("once.html", "again.HTM")
    for name in names:
        result.report(str(tmp_path / name))
    once, again = ((tmp_path / name).read_text(encoding="utf-8") for name in names)
    assert once == again


def test_hostile_names_are_text(tmp_path, monkeypatch):
    compare = {IMAGE: "naive propagation", HOSTILE: baselines.SeasonalNaive(), "x" * 3000: "taylor"}
    picture, drawings = page.page.picture, []

    def drawn(draw):
        if not drawings:  # of the series, by its name
            drawings.append(base64.b64decode(picture(draw)))
        else:
            draw(ax=Figure().subplots())
        return ""

    monkeypatch.setattr(page.page, "picture", drawn)
    y = nile(SCRIPT + "\ud800")  # half a pair of surrogates, which has no bytes
    y.attrs["unit"] = IMAGE
    result = backtest(Forecaster(lags=1), y, 2, origins=2, compare=compare)
    report = written(result, tmp_path)
    assert report.texts["h1"] == [f"Backtest of {SCRIPT}\ufffd"]
    assert len(report.texts["script"]) == 1
    assert not report.all("b")
    assert all(image["src"].startswith("data:") for image in report.all("img"))
    assert not any("onerror" in attrs for _, attrs in report.elements)
    rows = table(report, "Scores by model: ")
    assert [row[0] for row in rows[:2]] == ["forecast_unc", IMAGE]
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert raw.count("<script") == 1
    assert '<img src="http' not in raw
    drawings.append(base64.b64decode(picture(lambda ax: plot.scores_by_step(result, ax=ax))))
    for drawing in drawings:
        tags = {
            element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawing).iter()
        }
        assert not tags & {"script", "img", "a"}


INDEXES = {
    "periods": pd.period_range("2020-01", periods=60, freq="M"),
    "whole numbers": pd.RangeIndex(5, 125, 2),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_every_kind_of_index_and_missing_values_have_a_page(unsaved_pictures, kind, tmp_path):
    y = nile(None).set_axis(INDEXES[kind])
    y.iloc[[3, 58]] = np.nan
    result = backtest(Forecaster(lags=1), y, 2, origins=1, gap=1)
    report = written(result, tmp_path)
    assert report.texts["h1"] == ["Backtest"]
    assert "60, of which 2 are missing" in report.texts["dd"]
    assert "must have models to compare; got 'forecast_unc' alone" in " ".join(report.texts["p"])
    assert len(table(report, "The forecast from")) == 3


def test_times_are_sorted_by_when_they_were(no_pictures, tmp_path):
    end = pd.Timestamp("2024-10-27 00:00", tz="Europe/Berlin")  # before an hour that comes twice
    y = nile().set_axis(pd.date_range(end=end, periods=60, freq="h"))
    result = backtest(baselines.SeasonalNaive(1), y, 4, origins=1)
    report = written(result, tmp_path)
    keys = [row[0] for row in table(report, "The forecast from")]
    assert (
        keys
        == sorted(keys)
        == [f"2024-10-2{d} {h}:00:00+00:00" for d, h in ((6, 23), (7, "00"), (7, "01"), (7, "02"))]
    )
    assert {"2024-10-27 02:00:00+02:00", "2024-10-27 02:00:00+01:00"} < set(report.texts["th"])


def test_with_regressors_the_forecast_is_from_the_last_origin(no_pictures, tmp_path):
    y = nile()
    exog = pd.DataFrame({"<i>x": np.sin(np.arange(len(y)))}, y.index)
    result = backtest(Forecaster(lags=1), y, 4, exog=exog, origins=2)
    report = written(result, tmp_path)
    ahead = Forecaster(lags=1).fit(y.iloc[:-4], exog.iloc[:-4]).forecast(4, exog.iloc[-4:])
    rows = table(report, "The forecast from")
    assert [row[0] for row in rows] == [str(time.date()) for time in y.index[-4:]]
    np.testing.assert_allclose([float(row[1]) for row in rows], ahead.mean, rtol=1e-12)
    assert "<i>x" in report.texts["dd"]


def test_a_rolling_window_is_kept_to_the_end(no_pictures, tmp_path):
    result = backtest(Forecaster(lags=1), nile(), 4, origins=2, window="rolling")
    report = written(result, tmp_path)
    ahead = Forecaster(lags=1).fit(nile().iloc[8:]).forecast(4)  # 52 values, as at each origin
    rows = table(report, "The forecast from")
    np.testing.assert_allclose([float(row[1]) for row in rows], ahead.mean, rtol=1e-12)


def test_a_forecaster_changed_later_does_not_change_the_report(no_pictures, tmp_path):
    model = Forecaster(lags=1)
    result = backtest(model, nile(), 2, origins=1)
    model.set_params(lags=3)
    assert "Forecaster(lags=1)" in written(result, tmp_path).texts["dd"]


def test_members_are_listed_with_their_weights(no_pictures, tmp_path):
    model = Combination([Forecaster(lags=1), Forecaster(lags=2)], weights=[3, 1])
    report = written(backtest(model, nile(), 2, origins=1), tmp_path)
    rows = table(report, "Models averaged")
    assert [row[0].split(", ")[1] for row in rows] == ["lag 1", "lags 1-2"]
    assert [float(row[1]) for row in rows] == [float(row[2]) for row in rows] == [0.75, 0.25]


def test_outliers_that_rivals_keep_are_said_beside_the_scores(no_pictures, tmp_path):
    said = "gross outliers as missing; the other models and the unit of MASE and MSIS keep them."
    for outlier, kind, shown in ((5000.0, "mask", 1), (5000.0, "keep", 0)):
        y = nile()
        y.iloc[30] = outlier
        report = written(backtest(Forecaster(lags=2, outliers=kind), y, 3, origins=2), tmp_path)
        assert sum(said in text for text in report.texts["p"]) == shown


def test_a_model_that_knows_no_parts_has_a_page(no_pictures, tmp_path):
    report = written(backtest(baselines.SeasonalNaive(), nile(), 1, origins=1), tmp_path)
    assert "Choices and why" not in report.texts["h2"]
    assert "The parts of the variance of this forecast are not known." in report.texts["p"]


def test_a_panel_has_its_scores_by_series(no_pictures, tmp_path):
    y = nile()
    index = pd.date_range("2000-01-01", periods=len(y), freq="MS")
    frame = pd.concat(
        pd.DataFrame({"unique_id": name, "ds": index, "y": scale * y.to_numpy()})
        for name, scale in (("<u>a", 1.0), ("b", 2.0))
    )
    frame = pd.concat([frame, frame.iloc[:2].assign(unique_id="short")])
    with pytest.warns(FailedSeriesWarning, match="the backtest failed for 1 of 3 series"):
        result = backtest_panel(
            frame, Forecaster(lags=1), 2, origins=2, compare={"naive": "naive propagation"}
        )
    report = written(result, tmp_path)
    rows = table(report, "CRPS by series and model")
    crps = result.scores(["unique_id", "model"])["CRPS"]
    assert [row[0] for row in rows] == ["<u>a", "b"]
    for row in rows:
        np.testing.assert_allclose([float(x) for x in row[1:]], crps[row[0]], rtol=1e-12)
    assert table(report, "could not be backtested")[0][0] == "short"
    assert "The data" not in report.texts["h2"]


def test_a_backtest_made_by_hand_has_what_follows_from_its_scores(no_pictures, result, tmp_path):
    by_hand = Backtest(result.frame, result.coverages, result.joint, result.seasonal_period)
    assert written(by_hand, tmp_path).texts["h2"] == [
        *("What was asked", "Scores", "Scores by step", "Calibration")
    ]


@pytest.mark.slow
def test_long_series_are_drawn_in_pixels():
    def size(n):
        return len(page.page.picture(lambda ax: ax.plot(np.sin(np.arange(float(n))))))

    assert size(8000) < 1.2 * size(5001) < 400_000


def test_numbers_keep_what_is_before_the_point():
    values = {3: "3", 0.123456: "0.1235", 12345.6: "12346", 1e-9: "1e-09", 2e15: "2e+15"}
    assert {value: page.number(value) for value in values} == values
    assert page.number(np.nan) == "–"


def test_numbers_of_a_column_have_digits_alike():
    frame = pd.DataFrame({"a": [136.0, 95.02, 0.0, 1234.0, np.nan], "b": [1.0, 2.0, 3.0, 4.0, 5.0]})
    columns = zip(*page.page.table(frame)["rows"], strict=True)
    a, b = ([text for *_, text in cells] for cells in columns)
    assert a == ["136.0", "95.02", "0", "1234", "–"]
    assert b == ["1", "2", "3", "4", "5"]


def test_the_command_line_writes_a_report(no_pictures, tmp_path, capsys):
    data, path = tmp_path / "data.csv", tmp_path / "report.html"
    y = nile("y").set_axis(pd.date_range("2000-01-01", periods=60, freq="MS", name="ds"))
    y.to_csv(data)
    arguments = ["backtest", str(data), "--steps", "2", "--origins", "2", "--lags", "1"]
    assert main([*arguments, "--report", str(path)]) == 0
    rows = table(Page(path.read_text(encoding="utf-8")), "Scores by model: ")
    assert [row[0] for row in rows] == [
        "forecast_unc",
        "naive_propagation",
        "seasonal_naive",
        "ets",
    ]
    assert main([*arguments, "--report", str(data)]) == 2
    assert "--report must be another file than data" in capsys.readouterr().err
    assert main([*arguments, "--report", str(tmp_path / "report.pdf")]) == 2
    assert "--report must end in .html or .htm; got 'report.pdf'. A" in capsys.readouterr().err


def test_the_package_stays_small():
    package = Path(page.__file__).parents[1]
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".html", ".css", ".js")]
    assert sum(path.stat().st_size for path in files) < 1.8e6  # and the data .1 MB


def test_differences_of_roundoff_are_0():
    test = pd.DataFrame({"difference": [5.551e-16, -5e-16, 1e-3, np.nan], "p_value": 0.3})
    expected = test.assign(difference=[0.0, 0.0, 1e-3, np.nan])
    backtest, table = Mock(), pd.DataFrame({"CRPS": [0.8]}, ["own"])
    backtest.significance.return_value = test
    found, reason = page._tested(backtest, table)
    assert reason == ""
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
