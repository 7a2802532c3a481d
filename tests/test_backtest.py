import copy
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from forecast_unc import Combination, Forecast, Forecaster, GPRegressor, backtest, baselines, scores
from forecast_unc.cli import main
from forecast_unc.evaluation.backtest import _LOSSES
from forecast_unc.evaluation.folds import OWN_NAME, Contender
from forecast_unc.evaluation.significance import diebold_mariano
from forecast_unc.series.times import InterpolatedWarning, future_index
from tests.named_case import case


@pytest.fixture
def y(rng: np.random.Generator) -> pd.Series:
    values = np.zeros(90)
    for t in range(1, 90):
        values[t] = 0.8 * values[t - 1] + rng.standard_normal()
    return pd.Series(values, pd.date_range("2020-01-01", periods=90, freq="D"), name="y")


@pytest.fixture
def model() -> Forecaster:
    return Forecaster(GPRegressor(lengthscales=3.0, noise_std=0.5), lags=2, random_state=0)


class LastValue:
    """A random walk: the least a backtest asks for, and it accepts missing values."""

    n_fits = 0

    def fit(self, y):
        type(self).n_fits += 1
        self.y = y.dropna()
        self.index = y.index

    def forecast(self, steps):
        t = np.arange(1.0, steps + 1)
        var = np.mean(np.diff(self.y) ** 2)
        last = np.full(steps, self.y.iloc[-1])
        return Forecast(future_index(self.index, steps), last, var * np.minimum.outer(t, t))


def test_a_warning_of_many_fits_is_given_once_a_model(y):
    y = y[:40]
    y.iloc[[20, 30]] = np.nan
    compare = {"ets": baselines.ETS(), "theta": baselines.Theta()}
    with pytest.warns(InterpolatedWarning) as caught:
        backtest(LastValue(), y, steps=2, origins=2, compare=compare)
    told = [str(one.message).split(",")[0] for one in caught]
    assert told == [f"missing values are interpolated for {name}" for name in ("ETS", "Theta")]


def test_a_warning_of_fits_in_processes_is_given_once(y):
    class Filled(baselines.Naive):  # of no module, which the processes would have to import
        def fit(self, y):
            warnings.warn("filled", InterpolatedWarning, stacklevel=1)
            return super().fit(y)

    compare = {"filled": Filled()}
    with pytest.warns(InterpolatedWarning) as caught:
        backtest(baselines.Naive(), y, steps=2, origins=3, compare=compare, n_jobs=2)
    assert [str(one.message) for one in caught] == ["filled"]


class Given:
    """Forecasts the regressor, and keeps what it was given."""

    def fit(self, y, exog=None):
        self.index = y.index
        self.past = exog

    def forecast(self, steps, exog=None, *, exog_cov=None):
        mean = np.zeros(steps) if exog is None else exog["x"].to_numpy()
        std = np.ones(steps) if exog_cov is None else exog_cov["x"].to_numpy()
        return Forecast(future_index(self.index, steps), mean, np.diag(std**2))


class Skewed(Forecast):
    """A forecast whose median and quantiles are not those of a normal distribution."""

    @property
    def median(self):
        return self.mean - 0.5

    def interval(self, coverage=0.9):
        return super().interval(coverage).add([-1.0, 2.0])


def test_rows_are_the_forecasts_of_a_loop_written_by_hand(y, model):
    result = backtest(
        model, y, steps=4, origins=3, step=5, gap=2, compare={"plain": "naive propagation"}
    )
    frame = result.frame.set_index(["model", "origin", "step"])
    assert list(result.frame["model"].unique()) == [OWN_NAME, "plain"]
    first = clone(model).fit(y.iloc[:74])
    for position in (73, 78, 83):  # 90 - 1 - (4 + 2) = 83 is the latest
        past = y.iloc[: position + 1]
        fitted = first if position == 73 else first.refit(past)
        for name, kind in ((OWN_NAME, "auto"), ("plain", "naive")):
            ahead = fitted.forecast(6, propagation=kind)
            rows = frame.loc[(name, y.index[position])]
            assert list(rows.index) == [3, 4, 5, 6]
            expected = {"mean": ahead.mean, "median": ahead.median, "std": ahead.std}
            expected |= {"upper_80": ahead.interval(0.8)["upper"]}
            expected |= ahead.score(y)[["crps", "nlpd", "pit"]]
            for column, values in expected.items():
                np.testing.assert_allclose(rows[column], values[2:], rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(rows["actual"], y[rows["time"]])
            np.testing.assert_allclose(rows["scale"], np.abs(np.diff(past)).mean(), rtol=1e-12)
            assert rows["refit"].all()


def test_scores_are_the_means_of_their_definitions(y, model):
    result = backtest(model, y, steps=3, origins=5, compare={"n": "naive propagation"})
    rows = result.frame[result.frame["model"] == "n"]
    table = result.scores().loc["n"]
    error = rows["actual"] - rows["mean"]
    assert table["MAE"] == pytest.approx(error.abs().mean())
    assert table["RMSE"] == pytest.approx(np.sqrt((error**2).mean()))
    assert table["MASE"] == pytest.approx((error.abs() / rows["scale"]).mean())
    assert table["sMAPE"] == pytest.approx(scores.smape(rows["actual"], rows["mean"]).mean())
    below, above = rows["lower_95"] - rows["actual"], rows["actual"] - rows["upper_95"]
    width = rows["upper_95"] - rows["lower_95"]
    interval = width + 2 / 0.05 * (below.clip(lower=0) + above.clip(lower=0))
    assert table["MSIS"] == pytest.approx((interval / rows["scale"]).mean())
    inside = rows["actual"].between(rows["lower_50"], rows["upper_50"])
    assert table["coverage_50"] == inside.mean()
    assert table["n"] == 15
    by_step = result.scores(by=["model", "step"])["RMSE"].loc["n"]
    expected = error.groupby(rows["step"]).apply(lambda e: np.sqrt((e**2).mean()))
    np.testing.assert_allclose(by_step, expected)


@pytest.mark.parametrize(("refit", "calls"), [(True, "frrrr"), (2, "furur"), (False, "fuuuu")])
def test_refit_policy_and_shared_fits(y, model, monkeypatch, refit, calls):
    seen = []

    def spy(name):
        method = getattr(Forecaster, name)

        def call(self, *args, **kwargs):
            seen.append(name[0])
            return method(self, *args, **kwargs)

        monkeypatch.setattr(Forecaster, name, call)

    for name in ("fit", "refit", "update", "apply"):
        spy(name)
    result = backtest(model, y, steps=2, origins=5, refit=refit, compare={"n": "naive propagation"})
    assert "".join(seen) == calls
    flags = result.frame.groupby("origin")["refit"].first()
    assert flags.tolist() == [call in "fr" for call in calls]


GP = GPRegressor(lengthscales=3.0, noise_std=0.5)
UPDATED = {
    "plain": Forecaster(GP, lags=2),
    "difference": Forecaster(GP, lags=2, differences=1, prior_mean="last"),
    "last rows": Forecaster(GP, lags=2, max_train=50),
    "combination": Combination([Forecaster(GP, lags=2), Forecaster(GP, lags=1, differences=1)]),
    "SeasonalNaive": baselines.SeasonalNaive(),
    "AutoReg": baselines.AutoReg(),
    "ETS": baselines.ETS(),
    "Theta": baselines.Theta(),
    "SARIMAX": baselines.SARIMAX(order=(1, 0, 1)),
}
TAKE_GAPS = ["difference", "last rows", "combination"]
TAKE_EXOG = ["plain", "combination", "SARIMAX", "AutoReg"]


def check_updated(model, y, exog=None):
    """A fold is the fit at the first origin, updated once with all values to its own."""
    positions = (70, 75, 81)
    arguments = {"refit": False, "exog": exog, "gap": 1}
    frame = backtest(model, y, 3, origins=y.index[list(positions)], **arguments).frame

    def given(a, b):
        return () if exog is None else (exog.iloc[a:b],)

    fitted = clone(model).fit(y.iloc[:71], *given(0, 71))
    for position in positions:
        by_hand = copy.deepcopy(fitted)
        if position > 70:
            by_hand.update(y.iloc[71 : position + 1], *given(71, position + 1))
        ahead = by_hand.forecast(4, *given(position + 1, position + 5))
        rows = frame[frame["origin"] == y.index[position]]
        # Rows taken in one after the other or all at once differ by roundoff.
        np.testing.assert_allclose(rows["mean"], ahead.mean[1:], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(rows["std"], ahead.std[1:], rtol=1e-8)


@pytest.mark.parametrize("name", [name for name in UPDATED if name != "SARIMAX"])
def test_between_fits_the_new_values_are_taken_in(y, name):
    check_updated(UPDATED[name], y)


@pytest.mark.parametrize("name", TAKE_EXOG)
def test_between_fits_regressors_are_taken_in(y, name):
    check_updated(UPDATED[name], y, regressors(y))


@pytest.mark.parametrize("name", TAKE_GAPS)
def test_between_fits_missing_values_are_taken_in(y, name):
    y.iloc[[30, 72, 75]] = np.nan
    check_updated(UPDATED[name], y)


def test_a_rolling_window_drops_old_values_at_the_next_fit(y, model):
    frame = backtest(model, y, 2, origins=3, step=5, refit=2, window="rolling").frame
    for position, ahead in (
        (82, clone(model).fit(y.iloc[:78]).update(y.iloc[78:83]).forecast(2)),
        (87, clone(model).fit(y.iloc[:78]).refit(y.iloc[10:88]).forecast(2)),
    ):
        rows = frame[frame["origin"] == y.index[position]]
        np.testing.assert_allclose(rows["mean"], ahead.mean, rtol=1e-8)


class Applied(LastValue):
    """Moves on by ``apply`` alone."""

    def apply(self, y):
        moved = copy.copy(self)
        moved.y, moved.index = y.dropna(), y.index
        return moved


class Updated(LastValue):
    """Moves on by ``update`` alone."""

    def update(self, y_new):
        self.y = pd.concat([self.y, y_new.dropna()])
        self.index = self.y.index


def test_a_model_moves_on_as_it_can(y, monkeypatch):
    monkeypatch.setattr(LastValue, "n_fits", 0)  # each class counts its own from here
    for model, n_fits in ((LastValue(), 4), (Applied(), 1), (Updated(), 1)):
        type(model).n_fits = 0
        frame = backtest(model, y, 2, origins=4, refit=False).frame
        assert type(model).n_fits == n_fits
        np.testing.assert_array_equal(frame["mean"], np.repeat(y.iloc[[81, 83, 85, 87]], 2))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (LastValue(), set()),
        (Applied(), {"apply"}),
        (Updated(), {"update"}),
        (Given(), {"exog", "exog_cov"}),
        (baselines.ETS(), {"update", "apply"}),
        (baselines.SARIMAX(), {"exog", "update", "apply"}),
        (Forecaster(), {"exog", "exog_cov", "propagation", "update", "apply", "refit"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_model_can_do_follows_from_its_methods(model, expected):
    assert Contender(model).can == expected


def test_rolling_window_drops_old_values(y, model):
    result = backtest(model, y, steps=2, origins=2, step=20, window="rolling")
    ahead = clone(model).fit(y.iloc[:68]).refit(y.iloc[20:88]).forecast(2)
    last = result.frame[result.frame["origin"] == y.index[87]]
    np.testing.assert_allclose(last["mean"], ahead.mean, rtol=1e-12)


def test_parallel_and_progress_change_nothing(y, model, capsys):
    compare = {"mc": "monte_carlo", "last": baselines.Naive()}
    arguments = {"steps": 2, "origins": 4, "refit": 2, "compare": compare}
    one = backtest(model, y, **arguments)
    two = backtest(model, y, n_jobs=2, progress=True, **arguments)
    # another process may have another number of BLAS threads, and a search end elsewhere
    pd.testing.assert_frame_equal(one.frame, two.frame, rtol=1e-6, atol=1e-8)
    pd.testing.assert_frame_equal(one.joint, two.joint, rtol=1e-6, atol=1e-8)
    assert "backtest" in capsys.readouterr().err


def test_another_forecaster_on_the_same_folds_keeps_its_place(y, model):
    other = Forecaster(GPRegressor(lengthscales=3.0, noise_std=0.5), lags=5)
    compare = {"five": other, "naive": "naive propagation"}
    result = backtest(model, y, steps=2, origins=2, compare=compare)
    assert list(result.scores().index) == [OWN_NAME, "five", "naive"]
    alone = backtest(other, y, steps=2, origins=2).frame
    five = result.frame[result.frame["model"] == "five"]
    np.testing.assert_array_equal(five["mean"], alone["mean"])


def test_every_kind_of_index(y, model):
    y = y[:40]
    expected = backtest(model, y, steps=2, origins=3, refit=2).frame["mean"]
    for index in (
        pd.period_range("2020-01", periods=40, freq="M"),
        pd.RangeIndex(40),
        pd.date_range("2020-03-01", periods=40, freq="D", tz="Europe/Paris"),
        pd.DatetimeIndex(list(y.index)),
    ):
        frame = backtest(model, y.set_axis(index), steps=2, origins=3, refit=2).frame
        assert frame["time"].tolist() == index[34:].tolist()
        np.testing.assert_array_equal(frame["actual"], y.iloc[34:])
        np.testing.assert_array_equal(frame["mean"], expected)


def test_a_loss_is_one_row(y, model, monkeypatch, tmp_path, capsys):
    """A row of the table has its column, its test and its picture, and is printed by the shell."""
    monkeypatch.setitem(_LOSSES, "miss", lambda rows, low, high, _: 1.0 * (rows["actual"] > high))
    compare = {"naive": "naive propagation"}
    result = backtest(model, y, steps=3, origins=5, compare=compare)
    above = result.frame["actual"] > result.frame["upper_95"]
    expected = above.groupby(result.frame["model"], sort=False).mean()
    assert result.scores()["miss"].tolist() == expected.tolist()
    assert list(result.scores().columns)[6:9] == ["MSIS", "miss", "energy"]
    by_step = result.significance("miss", by="step")["difference"]
    assert by_step.index.tolist() == [("naive", step) for step in (1, 2, 3)]
    assert result.plot_errors("miss").get_ylabel() == "miss"
    plt.close("all")
    y.rename_axis("ds").rename("y").to_csv(tmp_path / "y.csv")
    main(["backtest", str(tmp_path / "y.csv"), "--steps", "3", "--origins", "2", "--lags", "2"])
    assert " miss " in capsys.readouterr().out


def test_missing_actuals_are_not_scored(y, model):
    hole = y.copy()
    hole.iloc[-1] = np.nan
    result = backtest(model, hole, steps=3, origins=2)
    assert result.scores()["n"].tolist() == [5]
    assert np.isfinite(result.scores().to_numpy()).all()


def test_unit_goes_to_the_frame_and_pictures_are_drawn(y, model):
    y.attrs["unit"] = "m"
    result = backtest(model, y, steps=2, origins=3)
    assert result.plot_errors("energy", by="origin").get_ylabel() == "energy (m)"
    plt.figure()
    assert result.plot_errors("MAE").get_ylabel() == "MAE (m)"
    assert result.plot_calibration().get_xlabel() == "nominal coverage"
    assert result.plot_pit().get_ylabel() == "density"


BAD = [
    ({"steps": 0}, "steps must be a whole number, at least 1; got 0"),
    ({"gap": -1}, "gap must be a whole number, at least 0; got -1"),
    ({"step": 0}, "step must be a whole number, at least 1; got 0"),
    ({"origins": 0}, "origins must be a whole number, at least 1; got 0"),
    ({"refit": 0}, "refit must be a whole number, at least 1; got 0"),
    ({"refit": 1.5}, "refit must be a whole number, at least 1; got 1.5. True fits at every"),
    ({"refit": "x"}, "refit must be a whole number, at least 1; got 'x'. True fits at every"),
    ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0; got 0. -1 takes all"),
    ({"n_jobs": 1.5}, "n_jobs must be None or a whole number other than 0; got 1.5. "),
    ({"coverage": []}, "coverage must hold a fraction; got none. "),
    ({"compare": {"a": 3}}, "compare must hold forecasters or one of auto, .*; got 3 for 'a'"),
    ({"window": "sliding"}, "window must be one of 'expanding', 'rolling'; got 'sliding'"),
    ({"coverage": (95,)}, "coverage must lie strictly between 0 and 1; got 95"),
    ({"origins": 50}, "y must have more than 100 values for 50 origins, 2 apart"),
    ({"origins": ["2019-01-01"]}, "origins must be times of y; got 2019-01-01"),
    ({"origins": pd.to_datetime(["2020-03-30"])}, "origins must leave 2 values to score"),
    ({"origins": []}, "origins must be ascending times of y, at least one; got"),
    ({"compare": {"a": "exakt"}}, "compare must hold forecasters or one of auto, exact"),
    ({"compare": {OWN_NAME: "naive"}}, "compare must not use the name 'forecast_unc'"),
    ({"origins": 44}, "y must have at least 5 values for lags up to 2"),
    ({"exog_future": print}, "exog must be given with exog_future; got None. The models lea"),
    ({"compare": {"a": LastValue}}, r"compare must .*for 'a'. .*: call it, LastValue\(\)\.$"),
    ({"compare": {"a": int}}, "compare must hold forecasters .*for 'a'. A forecaster has"),
]


def test_bad_arguments(y, model):
    for arguments, message in BAD:
        with case(arguments), pytest.raises(ValueError, match=message):
            backtest(model, y, **({"steps": 2} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coverage": 0.9}, r"coverage must be a sequence of fractions; got 0.9. Pass (0.9,)"),
        ({"compare": ["naive"]}, r"compare must be a mapping of names to forecasters; got list. "),
        ({"compare": "naive"}, r"compare must be a mapping of names to forecasters; got str. "),
        (
            {"origins": pd.Timestamp("2020-02-01")},
            "of times of y; got Timestamp('2020-02-01 00:00:00'). Pass how many, such as 10, or [",
        ),
        ({"origins": "2020-02-01"}, "origins must be a sequence of times of y; got '2020-02-01'. "),
    ],
)
def test_arguments_of_another_type(y, model, arguments, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        backtest(model, y, **({"steps": 2} | arguments))


def test_coverage_may_be_any_iterable(y, model):
    result = backtest(model, y, steps=2, origins=1, coverage=(p for p in (0.5, 0.9)))
    assert result.coverages == (0.5, 0.9)
    assert {"lower_50", "upper_90"} <= set(result.frame)


def test_repr_is_short(y, model):
    result = backtest(model, y, steps=2, origins=3, gap=1, compare={"n": "naive propagation"})
    assert repr(result) == "Backtest(forecast_unc, n; 3 origins, steps 2 to 3)"
    assert repr(backtest(model, y, 1, origins=1)) == "Backtest(forecast_unc; 1 origin, step 1)"


def test_errors_name_the_origin(y, model):
    y.iloc[85] = np.inf
    with pytest.raises(ValueError, match="first at 2020-03-26") as caught:
        backtest(model, y, steps=1, origins=2)
    note = "while forecasting from origin 2020-03-28 with 'forecast_unc'"
    assert caught.value.__notes__ == [note]


def test_series_and_scores_by_are_checked(y, model):
    with pytest.raises(TypeError, match="y must be a pandas Series; got ndarray"):
        backtest(model, y.to_numpy(), steps=2)
    with pytest.raises(ValueError, match="by must name columns of the backtest's frame; got 'h'"):
        backtest(model, y, steps=2, origins=1).scores(by="h")
    for nothing in ([], ()):
        with pytest.raises(ValueError, match="by must name columns of the .*; got none. Use 'mod"):
            backtest(model, y, steps=2, origins=1).scores(by=nothing)
    with pytest.raises(ValueError, match="by must name columns of the backtest's frame; got 3"):
        backtest(model, y, steps=2, origins=1).scores(by=3)
    with pytest.raises(ValueError, match="exog must have exactly the times of y"):
        backtest(model, y, steps=2, exog=y.iloc[:-1].to_frame())


def regressors(y):
    return pd.DataFrame({"x": np.cos(np.arange(90.0))}, index=y.index)


def archive(origin, times):
    """What was forecast of the regressor: off by the age of the forecast."""
    age = np.arange(1.0, len(times) + 1)
    return pd.DataFrame({"x": age}, times), pd.DataFrame({"x": 0.1 * age}, times)


def test_regressors_forecast_at_the_origin_replace_their_values(y):
    arguments = {"steps": 3, "gap": 1, "origins": 4, "exog": regressors(y)}
    known = backtest(Given(), y, **arguments).frame
    np.testing.assert_array_equal(known["mean"], arguments["exog"]["x"][known["time"]])
    assert (known["std"] == 1).all()
    both = backtest(Given(), y, exog_future=archive, **arguments).frame
    np.testing.assert_array_equal(both["mean"], both["step"])
    np.testing.assert_allclose(both["std"], 0.1 * both["step"])
    alone = backtest(Given(), y, exog_future=lambda *a: archive(*a)[0], **arguments).frame
    np.testing.assert_array_equal(alone["mean"], both["mean"])
    assert (alone["std"] == 1).all()


def test_regressors_are_forecast_once_an_origin_for_the_times_after_it(y):
    calls = []

    def ask(origin, times):
        calls.append((origin, list(times)))
        return archive(origin, times)

    arguments = {"exog": regressors(y), "exog_future": ask, "compare": {"a": Given(), "b": Given()}}
    backtest(Given(), y, 2, origins=2, step=5, **arguments)
    assert calls == [(y.index[82], list(y.index[83:85])), (y.index[87], list(y.index[88:90]))]


@pytest.mark.parametrize(("refit", "poison"), [(True, np.nan), (False, 1e12)])
def test_forecast_regressors_are_all_that_is_read_past_the_origin(y, model, refit, poison):
    origins = y.index[[60, 66]]

    def run(y, exog):
        compare = {"n": "naive propagation", "last": LastValue()}
        arguments = {"exog_future": lambda *a: archive(*a)[0], "compare": compare}
        return backtest(model, y, 3, exog=exog, origins=origins, refit=refit, **arguments).frame

    clean = run(y, regressors(y))
    columns = ["mean", "median", "std", "lower_95", "upper_95", "scale"]
    known = np.arange(90) <= 66
    poisoned = run(y.where(known, poison), regressors(y).where(known[:, None], poison))
    pd.testing.assert_frame_equal(clean[columns], poisoned[columns], check_exact=True)


def test_models_get_the_regressors_they_take(y, model):
    class Refuses(Given):
        takes_exog = False

    compare = {"last": LastValue(), "refuses": Refuses()}
    frame = backtest(model, y, 2, origins=2, exog=regressors(y), compare=compare).frame
    rows = {name: frame[frame["model"] == name] for name in (OWN_NAME, *compare)}
    expected = model.fit(y[:86], regressors(y)[:86]).forecast(2, regressors(y)[86:88])
    np.testing.assert_allclose(rows[OWN_NAME]["mean"][:2], expected.mean, rtol=1e-9)
    np.testing.assert_array_equal(rows["last"]["mean"], y.iloc[[85, 85, 87, 87]])
    assert (rows["refuses"]["mean"] == 0).all()


def test_a_model_without_update_and_apply_is_fitted_at_every_origin(y, model, monkeypatch):
    monkeypatch.setattr(LastValue, "n_fits", 0)
    result = backtest(model, y, 2, origins=4, refit=False, compare={"last": LastValue()})
    assert LastValue.n_fits == 4
    flags = result.joint.groupby("model")["refit"].apply(list)
    assert flags["last"] == [True] * 4
    assert flags[OWN_NAME] == [True, False, False, False]
    last = result.frame[result.frame["model"] == "last"]
    np.testing.assert_array_equal(last["mean"], np.repeat(y.iloc[[81, 83, 85, 87]], 2))


def test_any_model_may_be_the_backtested_one_and_see_missing_values(y):
    hole = y.astype("Float64")
    hole.iloc[[40, 70, 88]] = pd.NA
    result = backtest(LastValue(), hole, 2, origins=3)
    table = result.scores()
    assert table["n"].item() == 5
    assert np.isfinite(table.to_numpy()).all()
    changes = np.abs(np.diff(hole.iloc[:84].to_numpy(dtype=float, na_value=np.nan)))
    assert result.frame["scale"].iloc[0] == pytest.approx(np.nanmean(changes))


def test_nothing_is_taken_for_normal(y):
    class Skew(LastValue):
        def forecast(self, steps):
            plain = super().forecast(steps)
            return Skewed(plain.index, plain.mean, plain.cov)

    result = backtest(Skew(), y, 2, origins=4, coverage=(0.8,))
    frame, table = result.frame, result.scores().iloc[0]
    np.testing.assert_array_equal(frame["median"], frame["mean"] - 0.5)
    reach = 1.2815515655446004 * frame["std"]
    np.testing.assert_allclose(frame["lower_80"], frame["mean"] - reach - 1)
    np.testing.assert_allclose(frame["upper_80"], frame["mean"] + reach + 2)
    assert table["MAE"] == pytest.approx((frame["actual"] - frame["median"]).abs().mean())
    assert table["RMSE"] == pytest.approx(((frame["actual"] - frame["mean"]) ** 2).mean() ** 0.5)
    inside = frame["actual"].between(frame["lower_80"], frame["upper_80"])
    assert table["coverage_80"] == inside.mean()


def test_energy_is_the_score_of_paths_over_the_scored_steps(y):
    hole = y.copy()
    hole.iloc[[84, 87, 88, 89]] = np.nan
    result = backtest(LastValue(), hole, 3, gap=1, origins=3, compare={"b": LastValue()})
    last = LastValue()
    for position, scored in ((79, [1, 2, 3]), (82, [2, 3])):
        last.fit(hole.iloc[: position + 1])
        paths = last.forecast(4).sample(500, random_state=position).iloc[scored]
        energy = scores.energy_score(y[paths.index], paths.T)
        found = result.joint.set_index(["model", "origin"])["energy"]
        assert found[OWN_NAME, y.index[position]] == pytest.approx(energy, rel=1e-9)
        assert found["b", y.index[position]] == pytest.approx(energy, rel=1e-9)
    assert result.joint["energy"].isna().tolist() == [False, False, True] * 2
    by_origin = result.scores(by=["model", "origin"])["energy"]
    np.testing.assert_array_equal(by_origin, result.joint["energy"])
    assert result.scores()["energy"].iloc[0] == pytest.approx(by_origin.iloc[:2].mean())
    assert "energy" not in result.scores(by="step")


def test_energy_is_that_of_few_sampled_paths(y):
    class Sampled(LastValue):
        def forecast(self, steps):
            plain = super().forecast(steps)
            paths = plain.sample(40, random_state=0)
            return Forecast(plain.index, plain.mean, plain.cov, paths=paths)

    energy = backtest(Sampled(), y, 3, origins=2).joint["energy"]
    model = Sampled()
    for found, position in zip(energy, (83, 86), strict=True):
        model.fit(y.iloc[: position + 1])
        actual = y.iloc[position + 1 : position + 4]
        assert found == pytest.approx(scores.energy_score(actual, model.forecast(3).paths.T))


def test_of_one_step_energy_is_the_crps(y):
    table = backtest(LastValue(), y, 1, origins=40).scores()
    assert table["energy"].item() == pytest.approx(table["CRPS"].item(), rel=0.03)


def test_a_covariance_that_cannot_be_drawn_from_has_no_energy(y):
    class Broken(LastValue):
        def forecast(self, steps):
            plain = super().forecast(steps)
            cov = np.full((3, 3), -0.9) + 1.9 * np.eye(3)
            return Forecast(plain.index, plain.mean, cov)

    table = backtest(Broken(), y, 3, origins=2).scores().iloc[0]
    assert np.isnan(table["energy"])
    assert np.isfinite(table.drop("energy")).all()


@pytest.mark.parametrize(
    ("freq", "n", "expected"),
    [
        *(("30min", 90, 48), ("2ME", 90, 6), ("QS-OCT", 90, 4), ("D", 90, 1), (None, 90, 1)),
        *(("h", 28, 1), ("h", 29, 24)),
    ],
)
def test_the_season_of_the_scale_follows_from_the_frequency(y, freq, n, expected):
    times = pd.RangeIndex(n) if freq is None else pd.date_range("2020-01-01", periods=n, freq=freq)
    result = backtest(LastValue(), y.iloc[:n].set_axis(times), 2, origins=2)
    assert result.seasonal_period == expected
    past = y.to_numpy()[: n - 4]
    scale = np.abs(past[expected:] - past[:-expected]).mean()
    assert result.frame["scale"].iloc[0] == pytest.approx(scale)


def test_without_a_scale_the_scores_that_need_one_are_unknown(y):
    y = y.set_axis(pd.date_range("2020-01-01", periods=90, freq="30min"))
    flat = y.where(np.arange(90) > 80, 1.0)
    flat.iloc[30] = 2.0  # a change, but none over a day of 48 up to the first origin
    result = backtest(LastValue(), flat, 1, origins=y.index[[60, 85]])
    table = result.scores()
    assert result.frame["scale"].isna().tolist() == [True, False]
    assert table[["MASE", "MSIS"]].isna().all(axis=None)
    assert np.isfinite(table[["MAE", "CRPS", "energy"]]).all(axis=None)
    with pytest.raises(ValueError, match="score must be known at every origin; got NaN for 'MASE'"):
        compared(flat, origins=y.index[[60, 85]]).significance("MASE")


def compared(y, steps=1, **arguments):
    class Wide(LastValue):
        def forecast(self, steps):
            plain = super().forecast(steps)
            return Forecast(plain.index, 0.5 * plain.mean, 2 * plain.cov)

    class Narrow(LastValue):
        def forecast(self, steps):
            plain = super().forecast(steps)
            return Forecast(plain.index, 0.9 * plain.mean, plain.cov / 4)

    compare = {"wide": Wide(), "narrow": Narrow()}
    return backtest(LastValue(), y, steps, compare=compare, **arguments)


@pytest.mark.parametrize(("steps", "gap", "step"), [(3, 1, 1), (5, 0, 3)])
def test_significance_is_the_test_of_the_mean_losses_of_the_origins(y, steps, gap, step):
    result = compared(y, steps, gap=gap, step=step, origins=10)
    losses = result.scores(by=["model", "origin"])
    losses["MSE"] = losses["RMSE"] ** 2
    lags = -(-(steps + gap) // step) - 1
    for score in ("MAE", "MSE", "MASE", "sMAPE", "CRPS", "NLPD", "MSIS", "energy"):
        table = result.significance(score, reference="narrow")
        assert list(table.index) == [OWN_NAME, "wide"]
        for name, row in table.iterrows():
            loss, reference = losses[score][name].to_numpy(), losses[score]["narrow"].to_numpy()
            assert (row["n"], row["lags"]) == (10, lags)
            assert row["difference"] == pytest.approx((loss - reference).mean())
            test = diebold_mariano(loss, reference, lags)
            assert row["statistic"] == pytest.approx(test.statistic)
            assert row["p_value"] == pytest.approx(test.p_value)
            assert row["kernel"] == test.kernel


def test_significance_by_step_has_the_lags_of_the_step(y):
    result = compared(y, 6, step=2, origins=10)
    table = result.significance("MAE", by="step")
    assert list(table.loc["narrow"].index) == [1, 2, 3, 4, 5, 6]
    assert table["lags"].tolist() == [0, 0, 1, 1, 2, 2] * 2
    frame = result.frame[result.frame["step"] == 3].set_index(["model", "origin"])
    error = (frame["actual"] - frame["median"]).abs()
    test = diebold_mariano(error["wide"], error[OWN_NAME], 1)
    assert table.loc[("wide", 3), "statistic"] == pytest.approx(test.statistic)


def test_origins_of_the_user_and_missing_values_in_significance(y):
    hole = y.copy()
    hole.iloc[70:73] = np.nan
    result = compared(hole, 3, origins=y.index[[50, 58, 60, 61, 69, 80, 86]])
    row = result.significance().loc["narrow"]
    assert (row["n"], row["lags"]) == (6, 1)  # 61 is before 60 + 3; nothing is known after 69
    same = backtest(LastValue(), hole, 3, compare={"same": LastValue()}).significance().loc["same"]
    assert same["difference"] == 0
    assert np.isnan(same["p_value"])


def test_significance_and_pictures_take_every_kind_of_index(y):
    arguments = {"steps": 2, "step": 1, "origins": 6}
    expected = compared(y, **arguments).significance(by="step")
    for index in (
        pd.period_range("2020-01-01", periods=90, freq="D"),
        pd.date_range("2020-03-01", periods=90, freq="D", tz="Europe/Paris"),
    ):
        result = compared(y.set_axis(index), **arguments)
        pd.testing.assert_frame_equal(result.significance(by="step"), expected)
        ax = result.plot_errors(by="origin", ax=plt.figure().subplots())
        assert len(ax.lines[0].get_xdata()) == 6
        ax.figure.canvas.draw()


REFUSED = [
    (
        lambda r: r.significance("RMSE"),
        "score must be one of 'MAE', 'MSE', .*; got 'RMSE'. Squared",
    ),
    (
        lambda r: r.significance("energy", by="step"),
        "score must be one of 'MAE'.* got 'energy'. ",
    ),
    (
        lambda r: r.significance(reference="x"),
        "reference must be one of 'forecast_unc', .* 'x'. It is",
    ),
    (
        lambda r: r.significance(by="origin"),
        "by must be one of 'model', 'step'; got 'o",
    ),
    (
        lambda r: r.significance(),
        "significance must have 5 origins or more where the horizons of 4 overlap; got 4. Take",
    ),
    (
        lambda r: r.plot_errors(by="model"),
        "by must be one of 'step', 'origin'; got 'mod",
    ),
    (
        lambda r: r.plot_errors("crps"),
        "score must be one of 'MAE', 'RMSE', .*; got 'crps'",
    ),
]


def test_results_refuse_what_they_do_not_hold(y):
    result = compared(y, 4, step=1, origins=4)
    for call, message in REFUSED:
        with case(message), pytest.raises(ValueError, match=message):
            call(result)


def test_a_number_of_origins_goes_by_its_former_name_too(y):
    result = backtest(LastValue(), y, 2, n_origins=3)
    pd.testing.assert_frame_equal(result.frame, backtest(LastValue(), y, 2, origins=3).frame)
    with pytest.raises(ValueError, match="n_origins must be left out beside origins; got both"):
        backtest(LastValue(), y, 2, n_origins=3, origins=3)


def test_one_model_has_nothing_to_be_compared_with(y):
    with pytest.raises(ValueError, match="significance must have models to .*; got 'forecast_unc'"):
        backtest(LastValue(), y, 2).significance()


def test_models_are_checked(y, model):
    with pytest.raises(TypeError, match="forecaster must have fit and forecast; got 3. Pass a For"):
        backtest(3, y, 2)
    with pytest.raises(ValueError, match="compare must hold no propagation if the .* with LastVal"):
        backtest(LastValue(), y, 2, compare={"n": "naive propagation"})
    exog = regressors(y)
    with pytest.raises(TypeError, match="exog_future must be callable; got DataFrame. Pass a fun"):
        backtest(model, y, 2, exog=exog, exog_future=exog)
    with pytest.raises(TypeError, match="exog_future must return a DataFrame.*int for origin 2020"):
        backtest(model, y, 2, exog=exog, exog_future=lambda origin, times: 3)
    with pytest.raises(ValueError, match="exog must have exactly the times of the 2 steps after"):
        backtest(model, y, 2, exog=exog, exog_future=lambda origin, times: exog.iloc[:2])

    class Short(LastValue):
        def forecast(self, steps):
            return super().forecast(steps - 1)

    with pytest.raises(
        ValueError,
        match="forecast of 's' must be for the 2 times after the origin, 2020-03-11 to 2020-03-12;",
    ):
        backtest(model, y, 2, compare={"s": Short()})


def test_a_forecast_of_another_library_is_refused():
    class Another:
        def fit(self, y):
            return self

        def forecast(self, steps):
            return pd.DataFrame({"mean": np.zeros(steps)})

    y = pd.Series(np.arange(20.0) % 7)
    wanted = (
        "compare must hold forecasters whose forecast returns a Forecast; got DataFrame of 'it'"
    )
    with pytest.raises(TypeError, match=wanted):
        backtest(Forecaster(lags=1), y, steps=2, origins=2, compare={"it": Another()})
