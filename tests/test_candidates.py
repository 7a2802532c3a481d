"""What is left "auto": lags and candidates."""

import numpy as np
import pytest

from forecast_unc.forecasting.choose.table import candidates, lags_for


@pytest.mark.parametrize(
    ("n", "periods", "lags"),
    [
        (59, (), (1,)),
        (60, (), tuple(range(1, 13))),
        (14, (4,), (1, 2, 3, 4)),  # a third of 14
        (500, (12,), tuple(range(1, 14))),
        (156, (52,), (1, 2, 3, 4, 5, 6, 7, 8, 51, 52)),
        (
            2000,
            (24, 168),
            (1, 2, 3, 4, 23, 24, 25, 47, 48, 49, 167, 168, 169, 336),
        ),
        (350, (24, 168), (1, 2, 3, 4, 23, 24, 25, 47, 48, 49)),
        (
            2000,
            (7, 365),
            (*range(1, 9), 13, 14, 15, 364, 365, 366),
        ),
        (3000, (365,), (*range(1, 9), 364, 365, 366)),
    ],
)
def test_lags(n, periods, lags):
    assert lags_for(n, periods) == lags


@pytest.mark.parametrize("periods", [(), (4,), (12,), (52,), (24, 168), (6, 7)])
@pytest.mark.parametrize("n", [1, 60, 3000])
def test_lags_are_distinct_ascending_and_no_deeper_than_a_third(n, periods):
    lags = lags_for(n, periods)
    assert lags[0] == 1
    assert list(lags) == sorted(set(lags))
    if periods or n < 60:
        assert max(lags) <= max(1, n / 3)


def described(found, *fields):
    return [tuple(getattr(one, field) for field in fields) for one in found]


def processes(y, periods=(), **options):
    """Gaussian processes on lagged values: kind, deepest lag, transform and rows."""
    found = [c for c in candidates(y, periods, **options) if c.model == "process"]
    return [(c.kind, c.lags[-1], c.transform, c.rows) for c in found]


# n values, seasons, the processes: the rows of the table by regime
REGIMES = {
    "few": (20, (), [("walk", 1, None, 800), ("relative", 2, "log", 800)]),
    "no season": (99, (), [("walk", 1, None, 104), ("levels", 12, "log", 208)]),
    "quarters": (99, (4,), [("walk", 1, "log", 800), ("seasonal", 5, "log", 800)]),
    "months": (72, (12,), [("walk", 1, None, 400), ("levels", 13, "log", 400)]),
    "weeks": (500, (52,), [("levels", 53, None, 208), ("relative", 53, "log", 208)]),
    "days of a year": (5000, (365,), [("levels", 366, None, 800), ("relative", 366, "log", 208)]),
    "hours": (1000, (24, 168), [("levels", 169, "log", 800)]),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_processes_by_regime(regime):
    n, periods, expected = REGIMES[regime]
    assert processes(np.arange(1.0, n + 1.0), periods) == expected


def test_what_processes_of_a_kind_are_made_of():
    fields = "differences", "prior_mean", "calendar", "prior", "lag_weights", "bias"
    found = {
        regime: described(candidates(np.arange(1.0, n + 1.0), periods), *fields)[:2]
        for regime, (n, periods, _) in REGIMES.items()
    }
    levels = ((), "zero", "fourier", "shrunk", "free", "free")
    assert found["months"] == [((1,), "zero", "fourier", "shrunk", None, "shrunk"), levels]
    assert found["hours"][0] == ((), "zero", "fourier", "weak", "free", "free")
    assert found["weeks"][0] == ((), "zero", None, "shrunk", "free", "free")
    assert found["quarters"] == [
        ((1,), "zero", "fourier", "shrunk", None, None),
        ((), "seasonal", None, "shrunk", "shrunk", "shrunk"),
    ]
    # relative changes have no drift, which would grow exponentially
    assert found["few"] == [
        ((1,), "zero", None, "shrunk", None, "shrunk"),
        ((1,), "zero", None, "shrunk", "shrunk", None),
    ]


def test_a_short_series_with_zeros_has_the_last_value_for_relative_changes():
    assert processes(np.arange(20.0)) == [("walk", 1, None, 800), ("last", 2, None, 800)]
    assert candidates(np.arange(20.0), ())[1].prior_mean == "last"


def test_regressors_join_the_candidates():
    y = np.arange(1.0, 61.0)
    for periods in ((), (12,), (4,), (7, 365)):
        assert candidates(y, periods, regressors=True) == candidates(y, periods)
    rare = np.where(np.arange(60) % 3, 0.0, y)
    assert len(candidates(rare, (), whole=True)) == 1
    assert len(candidates(rare, (), whole=True, regressors=True)) > 3


@pytest.mark.parametrize(
    ("n", "season", "kinds"),
    [(99, 4, []), (99, 12, []), (120, 52, ["levels"]), (99, 24, ["levels"])],
)
def test_a_season_that_the_values_do_not_show_is_smoothed_and_a_long_one_learned(n, season, kinds):
    y = np.arange(1.0, n + 1.0)
    plain, found = candidates(y, ()), candidates(y, (), not_found=(season,))
    more = [one for one in found if one not in plain]
    assert [one for one in found if one in plain] == list(plain)
    assert all(one.periods == (season,) for one in more)
    assert all("season is kept as a hedge, though not significant" in one.why for one in more)
    assert described(more, "kind") == [(kind,) for kind in ("smoothing", "smoothing", *kinds)]
    assert all(one.lags == lags_for(n, (season,)) for one in more)


def linear(n, periods=(), **options):
    return [
        c for c in candidates(np.arange(1.0, n + 1.0), periods, **options) if c.model == "linear"
    ]


@pytest.mark.parametrize("regressors", [False, True])
@pytest.mark.parametrize("periods", [(), (4,), (12,), (24,)])
def test_linear_models_count_from_72_values_on(periods, regressors):
    assert linear(71, periods, regressors=regressors) == []
    y = np.arange(1.0, 73.0)
    y[5] = np.nan  # what is missing does not count
    assert not any(one.model == "linear" for one in candidates(y, periods, regressors=regressors))
    found = linear(72, periods, regressors=regressors)
    assert {one.transform for one in found} == {None, "log"}
    assert {one.calendar for one in found} == ({"profile"} if periods else {None})


@pytest.mark.parametrize(
    ("periods", "differences"),
    [
        ((), {()}),
        ((4,), {(), (4,)}),
        ((12,), {(), (12,)}),
        ((52,), {(), (52,)}),
        ((24, 168), {(), (1,), (24,), (168,)}),
        ((7, 365), {(), (1,), (7,), (365,)}),
    ],
)
def test_linear_models_are_of_levels_and_of_changes_over_each_season(periods, differences):
    for transform in (None, "log"):
        found = [one for one in linear(3000, periods) if one.transform == transform]
        # of the last value and of the longest of several seasons one is enough
        left_out = {periods[-1:] if transform is None else (1,)} if len(periods) > 1 else set()
        expected = differences - left_out
        assert {one.differences for one in found} == expected
        assert {one.bias for one in found} == {"free"}
        assert len(found) == len(expected) + (len(periods) > 1)  # levels by recent lags, too


@pytest.mark.parametrize(
    ("periods", "rows"),
    [((), 300), ((12,), 600), ((52,), 312), ((101,), 606), ((24, 168), 1008), ((7, 365), 2190)],
)
def test_linear_models_learn_from_recent_rows_or_six_of_the_longest_season(periods, rows):
    assert {one.rows for one in linear(3000, periods)} == {rows}


@pytest.mark.parametrize("periods", [(), (4,), (12,), (52,), (24, 168), (7, 365)])
def test_linear_models_have_the_lags_of_the_others(periods):
    recent = {(1, 2, 3, 4)} if len(periods) > 1 else set()
    assert {one.lags for one in linear(3000, periods)} == {lags_for(3000, periods)} | recent


@pytest.mark.parametrize("periods", [(), (4,), (12,), (52,), (24, 168)])
@pytest.mark.parametrize("n", [20, 500])
def test_a_logarithm_needs_positive_values_and_leave(n, periods):
    y = np.arange(1.0, n + 1.0)
    holed = np.where(np.arange(n) == 3, np.nan, y)
    assert any(s.transform == "log" for s in candidates(holed, periods))
    without = candidates(y, periods, transform=False)
    assert {s.transform for s in without} == {None}
    for other in (y - 1.0, -y):  # a zero is enough
        assert candidates(other, periods) == without
    assert len(set(without)) == len(without)


@pytest.mark.parametrize(("least", "expected"), [(1.0, [None, "log"]), (0.0, [None])])
def test_exponential_smoothing_has_a_logarithm_of_positive_values(least, expected):
    y = np.where(np.arange(50) == 3, np.nan, np.arange(50) + least)
    found = candidates(y, (12,))
    assert [one.transform for one in found if one.kind == "smoothing"] == expected
    assert found[-1].rows == 800


@pytest.mark.parametrize(("n", "lags"), [(36, 9), (54, 12)])
def test_a_short_series_that_recurs_has_an_autoregression(n, lags):
    t, rng = np.arange(n), np.random.default_rng(2)
    y = 100 + 20 * np.sin(2 * np.pi * t / 9) + rng.normal(0, 3, n)
    linear = [one for one in candidates(y, ()) if one.model == "linear"]
    assert [one.lags for one in linear] == [tuple(range(1, lags + 1))]
    assert not any(one.model == "linear" for one in candidates(rng.normal(size=n).cumsum(), ()))


@pytest.mark.parametrize(("share", "expected"), [(0.0, "log"), (0.1, "sqrt"), (0.6, None)])
def test_the_square_root_stands_where_some_values_are_zero(rng, share, expected):
    y = rng.gamma(2.0, 10.0, 400)
    y[: int(share * 400)] = 0.0
    transforms = {one.transform for one in candidates(y, (7,))}
    assert transforms == {None, expected}


def test_zeros_of_closures_leave_the_values_as_they_are(rng):
    y = rng.normal(100.0, 10.0, 400)
    y[::100] = 0.0
    assert {one.transform for one in candidates(y, (7,))} == {None}
