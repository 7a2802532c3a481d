import re

import numpy as np
import pandas as pd
import pytest

from forecast_unc import Forecaster, GPRegressor, backtest, scores
from forecast_unc.evaluation.backtest import OWN_NAME


@pytest.fixture
def y(rng: np.random.Generator) -> pd.Series:
    values = np.zeros(90)
    for t in range(1, 90):
        values[t] = 0.8 * values[t - 1] + rng.standard_normal()
    return pd.Series(values, pd.date_range("2020-01-01", periods=90, freq="D"), name="y")


@pytest.fixture
def model() -> Forecaster:
    return Forecaster(GPRegressor(lengthscales=3.0), lags=2, random_state=0)


def test_rows_are_the_forecasts_of_a_loop_written_by_hand(y, model):
    result = backtest(model, y, steps=4, n_origins=3, step=5, gap=2, compare={"plain": "naive"})
    frame = result.frame.set_index(["model", "origin", "step"])
    assert list(result.frame["model"].unique()) == [OWN_NAME, "plain"]
    for position in (73, 78, 83):  # 90 - 1 - (4 + 2) = 83 is the latest
        past = y.iloc[: position + 1]
        for name, kind in ((OWN_NAME, "exact"), ("plain", "naive")):
            ahead = model.fit(past).forecast(6, propagation=kind)
            rows = frame.loc[(name, y.index[position])]
            assert list(rows.index) == [3, 4, 5, 6]
            np.testing.assert_array_equal(rows["mean"], ahead.mean[2:])
            np.testing.assert_array_equal(rows["std"], ahead.std[2:])
            np.testing.assert_array_equal(rows["actual"], y[rows["time"]])
            np.testing.assert_array_equal(rows["upper_80"], ahead.interval(0.8)["upper"][2:])
            score = ahead.score(y).iloc[2:]
            for column in ("crps", "nlpd", "pit"):
                np.testing.assert_array_equal(rows[column], score[column])
            assert (rows["scale"] == np.abs(np.diff(past)).mean()).all()
            assert rows["refit"].all()


def test_scores_are_the_means_of_their_definitions(y, model):
    result = backtest(model, y, steps=3, n_origins=5, seasonal_period=7, compare={"n": "naive"})
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


@pytest.mark.parametrize("refit", [True, False, 2])
@pytest.mark.parametrize("window", ["expanding", "rolling"])
def test_never_reads_past_the_origin(y, model, refit, window):
    exog = pd.DataFrame({"x": np.sin(np.arange(90.0))}, index=y.index)
    arguments = {"steps": 3, "origins": y.index[[60, 66]], "refit": refit, "window": window}
    clean = backtest(model, y, exog=exog, compare={"n": "naive"}, **arguments).frame
    columns = ["mean", "std", "lower_95", "upper_95"]
    for poison in (np.nan, 1e12):
        spoiled = y.where(np.arange(90) <= 66, poison)
        late = exog.where((np.arange(90) <= 69)[:, None], poison)  # the horizon is known ahead
        poisoned = backtest(model, spoiled, exog=late, compare={"n": "naive"}, **arguments).frame
        pd.testing.assert_frame_equal(clean[columns], poisoned[columns], check_exact=True)
        first = poisoned[poisoned["origin"] == y.index[60]]
        assert first["actual"].notna().all()


def test_refit_policy_and_shared_factorization(y, model, monkeypatch):
    fits, conditioned = [], []
    fit = GPRegressor.fit
    monkeypatch.setattr(GPRegressor, "fit", lambda *a: fits.append(1) or fit(*a))
    posterior = GPRegressor._posterior
    monkeypatch.setattr(
        GPRegressor, "_posterior", lambda *a: conditioned.append(1) or posterior(*a)
    )
    result = backtest(model, y, steps=2, n_origins=5, refit=2)
    flags = result.frame.groupby("origin")["refit"].first()
    assert flags.tolist() == [True, False, True, False, True]
    assert (len(fits), len(conditioned)) == (3, 3)
    fits.clear()
    conditioned.clear()
    backtest(model, y, steps=2, n_origins=5, refit=False, compare={"n": "naive"})
    assert (len(fits), len(conditioned)) == (1, 1)


def test_without_refit_the_fit_of_the_first_origin_is_applied(y, model):
    frame = backtest(model, y, steps=2, n_origins=3, step=4, refit=False).frame
    fitted = model.fit(y.iloc[:80])
    for position in (79, 83, 87):
        ahead = fitted.apply(y.iloc[: position + 1]).forecast(2)
        rows = frame[frame["origin"] == y.index[position]]
        np.testing.assert_array_equal(rows["mean"], ahead.mean)


def test_rolling_window_forgets(y, model):
    result = backtest(model, y, steps=2, n_origins=2, step=20, window="rolling")
    ahead = model.fit(y.iloc[20:88]).forecast(2)
    last = result.frame[result.frame["origin"] == y.index[87]]
    np.testing.assert_allclose(last["mean"], ahead.mean, rtol=1e-12)


def test_parallel_and_progress_change_nothing(y, model, capsys):
    arguments = {"steps": 2, "n_origins": 4, "refit": 2, "compare": {"mc": "monte_carlo"}}
    one = backtest(model, y, **arguments)
    two = backtest(model, y, n_jobs=2, progress=True, **arguments)
    pd.testing.assert_frame_equal(one.frame, two.frame, rtol=1e-9)
    assert "backtest" in capsys.readouterr().err


def test_another_forecaster_on_the_same_folds_keeps_its_place(y, model):
    other = Forecaster(GPRegressor(lengthscales=3.0), lags=5)
    compare = {"five": other, "naive": "naive"}
    result = backtest(model, y, steps=2, n_origins=2, compare=compare)
    assert list(result.scores().index) == [OWN_NAME, "five", "naive"]
    alone = backtest(other, y, steps=2, n_origins=2).frame
    five = result.frame[result.frame["model"] == "five"]
    np.testing.assert_array_equal(five["mean"], alone["mean"])


@pytest.mark.parametrize("kind", ["period", "range", "zone", "inferred"])
def test_every_kind_of_index(y, model, kind):
    index = {
        "period": pd.period_range("2020-01", periods=90, freq="M"),
        "range": pd.RangeIndex(90),
        "zone": pd.date_range("2020-03-01", periods=90, freq="D", tz="Europe/Paris"),
        "inferred": pd.DatetimeIndex(list(y.index)),
    }[kind]
    frame = backtest(model, y.set_axis(index), steps=2, n_origins=3).frame
    assert frame["time"].tolist() == index[84:].tolist()
    np.testing.assert_array_equal(frame["actual"], y.iloc[84:])
    np.testing.assert_array_equal(
        frame["mean"], backtest(model, y, steps=2, n_origins=3).frame["mean"]
    )


def test_missing_actuals_are_not_scored(y, model):
    hole = y.copy()
    hole.iloc[-1] = np.nan
    result = backtest(model, hole, steps=3, n_origins=2)
    assert result.scores()["n"].tolist() == [5]
    assert np.isfinite(result.scores().to_numpy()).all()


def test_unit_goes_to_the_frame_and_pictures_are_drawn(y, model):
    y.attrs["unit"] = "m"
    result = backtest(model, y, steps=2, n_origins=3)
    assert result.plot_errors("MAE").get_ylabel() == "MAE (m)"
    assert result.plot_calibration().get_xlabel() == "nominal coverage"
    assert result.plot_pit().get_ylabel() == "density"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps must be a whole number, at least 1; got 0"),
        ({"gap": -1}, "gap must be a whole number, at least 0; got -1"),
        ({"step": 0}, "step must be a whole number, at least 1; got 0"),
        ({"n_origins": 0}, "n_origins must be a whole number, at least 1; got 0"),
        ({"refit": 0}, "refit must be a whole number, at least 1; got 0"),
        ({"refit": 1.5}, "refit must be a whole number, at least 1; got 1.5. True fits at every"),
        ({"refit": "x"}, "refit must be a whole number, at least 1; got 'x'. True fits at every"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0; got 0. -1 takes all"),
        ({"n_jobs": 1.5}, "n_jobs must be None or a whole number other than 0; got 1.5. "),
        ({"coverage": []}, "coverage must hold a fraction; got none. "),
        ({"compare": {"a": 3}}, "compare must hold forecasters or one of exact, .*; got 3 for 'a'"),
        ({"window": "sliding"}, "window must be 'expanding' or 'rolling'; got 'sliding'"),
        ({"coverage": (95,)}, "coverage must lie strictly between 0 and 1; got 95"),
        ({"n_origins": 50}, "y must have more than 100 values for 50 origins, 2 apart"),
        ({"origins": ["2019-01-01"]}, "origins must be times of y; got 2019-01-01"),
        ({"origins": pd.to_datetime(["2020-03-30"])}, "origins must leave 2 values to score"),
        ({"origins": []}, "origins must be ascending times of y, at least one; got"),
        ({"compare": {"a": "exakt"}}, "compare must hold forecasters or one of exact, taylor"),
        ({"compare": {OWN_NAME: "naive"}}, "compare must not use the name 'forecast_unc'"),
        ({"n_origins": 44}, "y must have at least 5 values for lags up to 2"),
    ],
)
def test_bad_arguments(y, model, arguments, message):
    with pytest.raises(ValueError, match=message):
        backtest(model, y, **({"steps": 2} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coverage": 0.9}, r"coverage must be a sequence of fractions; got 0.9. Pass (0.9,)"),
        ({"compare": ["naive"]}, r"compare must be a mapping of names to forecasters; got list. "),
        ({"compare": "naive"}, r"compare must be a mapping of names to forecasters; got str. "),
        (
            {"origins": pd.Timestamp("2020-02-01")},
            "origins must be a sequence of times of y; got Timestamp('2020-02-01 00:00:00'). ",
        ),
        ({"origins": "2020-02-01"}, "origins must be a sequence of times of y; got '2020-02-01'. "),
    ],
)
def test_arguments_of_another_type(y, model, arguments, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        backtest(model, y, **({"steps": 2} | arguments))


def test_coverage_may_be_any_iterable(y, model):
    result = backtest(model, y, steps=2, n_origins=1, coverage=(p for p in (0.5, 0.9)))
    assert result.coverage == (0.5, 0.9)
    assert {"lower_50", "upper_90"} <= set(result.frame)


def test_repr_is_short(y, model):
    result = backtest(model, y, steps=2, n_origins=3, gap=1, compare={"n": "naive"})
    assert repr(result) == "Backtest(forecast_unc, n; 3 origins, steps 2 to 3)"
    assert repr(backtest(model, y, 1, n_origins=1)) == "Backtest(forecast_unc; 1 origin, step 1)"


def test_errors_name_the_origin(y, model):
    y.iloc[85] = np.inf
    with pytest.raises(ValueError, match="first at 2020-03-26") as caught:
        backtest(model, y, steps=1, n_origins=2)
    assert caught.value.__notes__ == ["while forecasting from origin 2020-03-28"]


def test_series_and_scores_by_are_checked(y, model):
    with pytest.raises(TypeError, match="y must be a pandas Series; got ndarray"):
        backtest(model, y.to_numpy(), steps=2)
    with pytest.raises(ValueError, match="by must name columns of the backtest's frame; got 'h'"):
        backtest(model, y, steps=2, n_origins=1).scores(by="h")
    for nothing in ([], ()):
        with pytest.raises(ValueError, match="by must name columns of the .*; got none. Use 'mod"):
            backtest(model, y, steps=2, n_origins=1).scores(by=nothing)
    with pytest.raises(ValueError, match="by must name columns of the backtest's frame; got 3"):
        backtest(model, y, steps=2, n_origins=1).scores(by=3)
    with pytest.raises(ValueError, match="exog must have exactly the times of y"):
        backtest(model, y, steps=2, exog=y.iloc[:-1].to_frame())
