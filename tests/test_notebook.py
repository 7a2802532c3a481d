"""What a notebook shows of forecasts, models and backtests, read as a parser reads it."""

import base64
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from PIL import Image
from sklearn import config_context
from sklearn.exceptions import NotFittedError

from forecast_unc import Combination, Forecast, Forecaster, backtest, backtest_panel, baselines
from forecast_unc.datasets import load_nile
from forecast_unc.plot import COLORS

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)> $x_1$ \u202e'
START = pd.Timestamp("2020-01-31")


class Shown(HTMLParser):
    """Elements, the rows of the table and the text of HTML whose tags are balanced."""

    def __init__(self, shown):
        super().__init__(convert_charrefs=True)
        self.html = shown._repr_html_()
        self.html.encode()  # JSON takes no half of a pair of surrogates
        self.open, self.tags, self.rows, self.lists, self.text = [], [], [], [], ""
        self.feed(self.html)
        self.close()
        assert self.open == []
        images = [given for tag, given in self.tags if tag == "img"]
        assert len(images) == ("table" in self.all)
        for image in images:  # the picture is a part of it, and small
            kind, data = image["src"].split(",")
            assert kind == "data:image/png;base64"
            assert len(data) < 40_000
            self.pixels = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        assert self.all <= {
            *("div", "p", "b", "br", "img", "details", "summary", "ul", "li"),
            *("table", "thead", "tbody", "tr", "th", "td"),
        }
        assert not any(name.startswith("on") for _, given in self.tags for name in given)

    @property
    def all(self):
        return {tag for tag, _ in self.tags}

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "img"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
        elif tag == "li":
            self.lists.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] == "li":
            self.lists[-1] += data


def months(index=None, name="sales", n=60):
    """A season and a trend with a little noise."""
    t = np.arange(n)
    values = 50 + 0.2 * t + 8 * np.sin(t * np.pi / 6) + np.random.default_rng(5).normal(0, 1, n)
    index = pd.date_range(START, periods=n, freq="ME") if index is None else index
    return pd.Series(values, index, name=name)


KINDS = {
    "dates": pd.date_range(START, periods=60, freq="ME"),
    "time zone": pd.date_range("2020-03-28", periods=60, freq="h", tz="Europe/Berlin"),
    "periods": pd.period_range("2020-01", periods=60, freq="M"),
    "numbers": pd.RangeIndex(60),
}


@pytest.mark.parametrize("kind", ["time zone"])
def test_a_forecast_shows_its_first_steps_as_it_has_them(kind):
    model = Forecaster(lags=2).fit(months(KINDS[kind]))
    for forecast in (model.forecast(9), model.forecast(1)):
        shown = Shown(forecast)
        heads, *rows = shown.rows
        assert heads == [*("time", "mean", "lower 80 %", "upper 80 %", "lower 95 %", "upper 95 %")]
        assert [row[0] for row in rows] == list(forecast.index[:6].astype(str))
        bands = np.hstack([forecast.interval(level).iloc[:6] for level in (0.8, 0.95)])
        figures = np.column_stack([forecast.mean.iloc[:6], bands])
        shown_figures = [[float(figure) for figure in row[1:]] for row in rows]
        np.testing.assert_allclose(shown_figures, figures, atol=0.05 * forecast.std.min())
        assert len({len(x.partition(".")[2]) for row in rows for x in row[1:]}) == 1
        assert ("and 3 more" in shown.text) == (len(forecast) == 9)
        assert "Forecast of sales" in shown.text
        assert "One model: Gaussian process of the series, lags 1-2" in shown.text


def test_the_picture_is_light_and_has_the_forecast_on_it():
    shown = Shown(Forecaster(lags=3).fit(months()).forecast(12))
    assert plt.get_fignums() == []
    pixels = np.asarray(shown.pixels)
    assert (pixels[[0, -1]] == 255).all()  # paper of its own, for a dark notebook
    assert 0.02 < (pixels.min(axis=2) < 250).mean() < 0.6


def test_what_was_made_of_a_forecast_shows_too():
    y = months()
    ahead = Combination([Forecaster(lags=1), Forecaster(lags=2)]).fit(y).forecast(12)
    assert "An average of" in Shown(ahead).text
    total, known = ahead.aggregate("sum"), ahead.condition(ahead.mean.iloc[:2])
    for forecast, steps in ((known, 6), (ahead.aggregate("max"), 1)):
        assert len(Shown(forecast).rows) == 1 + steps
    assert "is not noted, as after a sum or a condition" in Shown(total).text
    plain = Forecast(pd.RangeIndex(3), [1.0, 2.0, 3.0], np.eye(3))
    assert "ForecastWhich" in Shown(plain).text  # of no name


def test_names_are_text_and_nothing_else():
    name = f"{HOSTILE} \ud800"
    y = months(KINDS["dates"].rename(name), name)
    exog = pd.DataFrame({HOSTILE: np.cos(np.arange(60))}, index=y.index)
    with_exog = Forecaster(lags=2).fit(y, exog)
    result = backtest(Forecaster(lags=2), y, 3, origins=4, compare={HOSTILE: "naive propagation"})
    both = Combination([Forecaster(lags=1)] * 2).fit(y)
    settings = Combination([Forecaster(regressor=HOSTILE)])
    mean = Forecast(y.index[:3].rename("mean"), np.zeros(3), np.eye(3), name="mean")
    assert "Forecast of mean" in Shown(mean).text  # though a column has this name
    for one in (both.forecast(3), both, with_exog, result, settings):
        shown = Shown(one)
        assert "<script" not in shown.html
        assert "onerror=" not in shown.html.replace("onerror=alert(2)&gt;", "")
        assert one is settings or name[:60] in shown.text


def test_a_model_shows_its_choices_and_what_comes_next():
    y = months()
    y.iloc[40] = 500.0
    model = Forecaster().fit(y)
    shown = Shown(model)
    assert "Forecaster of sales" in shown.text
    assert "Season of 12 steps: significant at 5 %" in shown.text
    assert "1 value treated as missing" in shown.text.partition("Choices")[0]
    assert shown.lists[: len(model.choices_)] == model.choices_
    assert [row[0] for row in shown.rows[1:]] == list(model.forecast(6).index.astype(str))


def test_a_model_that_was_not_fitted_shows_its_settings():
    shown = Shown(Forecaster(lags=7, transform="log"))
    assert "Not fitted" in shown.text
    assert {"lags = 7", "transform = 'log'"} <= set(shown.lists)
    assert "forecasters = [Forecaster(lags=7)]" in Shown(Combination([Forecaster(lags=7)])).lists


def test_a_model_with_regressors_says_why_it_shows_no_forecast():
    exog = pd.DataFrame({"price": np.cos(np.arange(60.0))}, index=months().index)
    shown = Shown(Forecaster(lags=2).fit(months(), exog))
    assert "No forecast to show: exog must" in shown.text
    assert shown.rows == []


def test_a_combination_shows_its_members_whatever_they_are():
    members = [Forecaster(lags=3), baselines.Theta()]
    both = Combination(members, weights=[3, 1])
    with pytest.raises(NotFittedError):
        both.choices_  # noqa: B018
    shown = Shown(both.fit(months()))
    assert both.choices_[:2] == ["weights: [3, 1]", "weight 0.75: Forecaster(lags=3)"]
    assert "An average of 2 models; the largest weight at the first step, 75 %" in shown.text
    assert "weight 0.25: Theta()" in shown.lists
    assert len(shown.rows) == 7


def test_showing_a_model_changes_nothing():
    def drawn(shows):
        model = Forecaster(lags=2, random_state=np.random.default_rng(1)).fit(months())
        if shows:
            model._repr_html_()
        return model.forecast(3, propagation="monte_carlo").mean

    pd.testing.assert_series_equal(drawn(True), drawn(False))


def test_a_backtest_shows_scores_of_all_methods_and_the_verdict():
    compare = {
        "naive": baselines.Naive(),
        "drift": baselines.Drift(),
        "last": baselines.SeasonalNaive(),
        "theta": baselines.Theta(),
    }
    result = backtest(Forecaster(lags=1), load_nile().iloc[:60], 3, origins=7, compare=compare)
    shown = Shown(result)
    assert [row[0] for row in shown.rows[1:]] == ["forecast_unc", *compare]
    crps = [float(row[shown.rows[0].index("CRPS")]) for row in shown.rows[1:]]
    np.testing.assert_allclose(crps, result.scores()["CRPS"], rtol=1e-3)
    assert "The mean CRPS of forecast_unc is" in shown.text
    assert "of 21 values: " in shown.text
    # The picture has few colors, those of the models among them.
    there = np.asarray(shown.pixels).reshape(-1, 3) / 255
    for color in COLORS[:5]:
        assert np.abs(there - to_rgb(color)).max(axis=1).min() < 0.01


def test_a_backtest_of_a_panel_shows_too():
    frame = pd.DataFrame({"item": np.repeat(["a", "b"], 40), "t": [*range(40)] * 2})
    frame["y"] = np.random.default_rng(3).normal(size=80).cumsum()
    result = backtest_panel(
        frame, Forecaster(lags=1), 2, origins=2, id_col="item", time_col="t", target_col="y"
    )
    assert "forecast_unc" in Shown(result).rows[1]


@pytest.mark.slow
def test_shows_are_alike_from_several_threads_and_leave_the_style_alone():
    model = Forecaster(lags=2).fit(months())
    forecasts = [model.forecast(steps) for steps in (2, 5, 9, 14)] * 3
    before, alone = dict(mpl.rcParams), [forecast._repr_html_() for forecast in forecasts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(Forecast._repr_html_, forecasts)) == alone
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_no_figure_stays_and_no_backend_is_chosen():
    code = (
        "import sys, pandas as pd, matplotlib; from forecast_unc import *\n"
        "assert 'jinja2' not in sys.modules\n"
        "y = pd.Series([1.0, 3.0, 2.0, 4.0, 3.0, 5.0] * 5)\n"
        "model = Forecaster(lags=2).fit(y)\n"
        "model._repr_html_(), backtest(Forecaster(lags=2), y, 2, origins=2)._repr_html_()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "import matplotlib.pyplot as plt; assert plt.get_fignums() == []\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_notebooks_ask_for_this_unless_scikit_learn_is_told_to_show_text():
    model = Forecaster()
    assert not callable(model._repr_mimebundle_)  # IPython would ask it first
    with config_context(display="text"):
        assert model._repr_html_() is None
