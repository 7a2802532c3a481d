"""What is left "auto": lags and candidates."""

from dataclasses import replace

import numpy as np
import pytest

from forecast_unc.forecasting import candidates as table
from forecast_unc.forecasting.candidates import averaging, lags_for


def season(n, period, noise=0.3, seed=0):
    t = np.arange(n)
    rng = np.random.default_rng(seed)
    return 10 + np.sin(2 * np.pi * t / period) + noise * rng.standard_normal(n)


def candidates(y, periods, **options):
    """Those on lagged values."""
    return tuple(c for c in table.candidates(y, periods, **options) if c.kind != "smoothing")


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
            (1, 2, 3, 4, 23, 24, 25, 47, 48, 49, 143, 144, 167, 168, 169),
        ),
        (350, (24, 168), (1, 2, 3, 4, 23, 24, 25, 47, 48, 49)),
        (
            2000,
            (7, 365),
            (*range(1, 9), 13, 14, 15, 357, 358, 364, 365, 366),
        ),
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


def kinds(y, periods=(), **options):
    return [
        (s.lags[-1], s.differences, s.transform, s.bias, s.calendar, s.rows)
        for s in candidates(y, periods, **options)
    ]


def test_candidates_of_a_short_series():
    y = np.arange(1.0, 21.0)
    assert kinds(y) == [
        (1, (1,), None, "shrunk", None, 800),
        (2, (1,), "log", None, None, 800),
    ]
    assert candidates(y, ())[0].lag_weights is None
    assert kinds(y - 1.0) == [
        (1, (1,), None, "shrunk", None, 800),
        (2, (), None, "shrunk", None, 800),
    ]
    assert candidates(y - 1.0, ())[1].prior_mean == "last"


def test_candidates_of_a_long_series_without_a_season():
    assert kinds(np.arange(1.0, 100.0)) == [
        (1, (1,), None, "shrunk", None, 800),
        (12, (1,), "log", None, None, 800),
        (12, (), "log", "free", None, 800),
        (12, (), "log", "shrunk", None, 800),
    ]
    assert candidates(np.arange(1.0, 100.0), ())[-1].prior_mean == "last"
    assert kinds(np.arange(-9.0, 90.0)) == [
        (1, (1,), None, "shrunk", None, 800),
        (12, (1,), None, "shrunk", None, 800),
        (12, (), None, "free", None, 800),
        (12, (), None, "shrunk", None, 800),
    ]


def test_candidates_of_quarters():
    expected = [
        (1, (1,), "log", None, "fourier", 800),
        (5, (1,), None, None, "fourier", 800),
        (5, (1,), "log", None, "fourier", 800),
        (5, (1,), "log", None, "fourier", 24),
        (5, (), "log", "shrunk", None, 800),
    ]
    assert kinds(np.arange(1.0, 100.0), (4,)) == expected
    assert kinds(np.arange(1.0, 25.0), (4,)) == expected[:3] + expected[4:]
    assert candidates(np.arange(1.0, 100.0), (4,))[-1].prior_mean == "seasonal"


@pytest.mark.parametrize("n", [72, 73, 800])
def test_candidates_of_months_are_learned_from_recent_rows_too(n):
    """Changes from recent rows alone, once there are others."""
    steady, changes, relative, levels = (
        (1, (1,), None, "shrunk", "fourier"),
        (13, (1,), None, "shrunk", "fourier"),
        (13, (1,), "log", None, "fourier"),
        (13, (), "log", "free", "fourier"),
    )
    every = (steady, changes, relative, levels)
    if n == 72:
        expected = [(*kind, 400) for kind in every]
    else:
        expected = [(*steady, 400), (*levels, 400), *((*kind, 72) for kind in every)]
    assert kinds(np.arange(1.0, n + 1.0), (12,)) == expected


@pytest.mark.parametrize(("n", "rows"), [(180, [208, 104]), (416, [208, 104])])
def test_candidates_of_weeks_take_the_season_from_the_lags_but_for_one(n, rows):
    expected = [
        (53, (1,), None, "shrunk", None),
        (53, (1,), None, "shrunk", "fourier"),
        (53, (1,), "log", None, None),
        (53, (), None, "free", None),
    ]
    assert kinds(np.arange(1.0, n + 1.0), (52,)) == [(*kind, r) for r in rows for kind in expected]


@pytest.mark.parametrize(("period", "rows"), [(200, {400, 800}), (365, {800, 730})])
def test_long_seasons_are_learned_from_800_rows_at_most(period, rows):
    found = candidates(np.arange(1.0, 5001.0), (period,))
    assert {s.rows for s in found} == {*rows, None}
    assert len(set(found)) == len(found)


def test_candidates_of_two_seasons():
    seasonal, levels, more, lately = candidates(np.arange(1.0, 1001.0), (24, 168))
    assert (seasonal.prior_mean, seasonal.calendar, seasonal.bias) == ("seasonal", None, "shrunk")
    assert 168 in seasonal.lags
    assert (levels.prior_mean, levels.calendar, levels.bias) == ("zero", "fourier", "free")
    assert levels.lags == (1, 2, 24, 25, 168, 169)
    assert more == replace(levels, lags=seasonal.lags, prior="weak")
    assert lately == replace(seasonal, rows=400)
    assert {s.rows for s in (seasonal, levels, more)} == {800}
    assert candidates(np.arange(1.0, 401.0), (24, 168))[-1].prior == "weak"


@pytest.mark.parametrize(
    ("periods", "longest", "kinds"),
    [
        ((), 1600, [("levels", 12), ("last", 12)]),
        ((52,), 416, [("levels", 53), ("changes", 53)]),
        ((7, 365), 1600, [("levels", 366), ("twice", 737), ("seasonal", 366)]),
    ],
)
def test_all_rows_of_long_series_count(periods, longest, kinds):
    """Where there are twice as many as the other candidates learn from, and beside these."""
    y = np.arange(1.0, 3001.0)
    recent = candidates(y[:longest], periods)
    assert None not in {s.rows for s in recent}
    found = candidates(y, periods)
    whole = [s for s in found if s.rows is None]
    assert [s for s in found if s.rows is not None] == list(recent)
    assert [s.lags[-1] for s in whole] == [lag for _, lag in kinds]
    for one, (kind, _) in zip(whole, kinds, strict=True):
        assert one.differences == ((1,) if kind == "changes" else ())
        named = {"last": "last", "seasonal": "seasonal"}.get(kind, "zero")
        assert one.prior_mean == named
    assert candidates(y[: longest + 1], periods)[len(recent)].rows is None
    explained = candidates(y, periods, regressors=True)
    assert [s.prior_mean for s in explained if s.rows is None] == ["zero"] * max(1, len(periods))


def test_deeper_lags_are_those_the_series_can_have():
    whole = [s for s in candidates(np.arange(1.0, 2001.0), (7, 365)) if s.rows is None]
    assert [s.lags[-1] for s in whole] == [366, 366, 366]
    assert set(whole[1].lags) - set(whole[0].lags) == {21, 28}


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


def test_roots_are_of_values_with_zeros_and_a_week_or_a_year():
    """Cubes of normal values censored at 0: the likelihood has a power of about a third."""
    rng = np.random.default_rng(0)
    cubes = np.maximum(1.5 + rng.standard_normal(200), 0.0) ** 3
    assert (cubes == 0.0).sum() > 2

    def transforms(y, periods, **options):
        options = {"bounded": True} | options
        return {one.transform for one in candidates(y, periods, **options)}

    for period in (7, 12):
        assert transforms(cubes, (period,)) == {None, "sqrt"}
    (roots,) = {
        (one.differences, one.bias, one.lags)
        for one in candidates(cubes, (12,), bounded=True)
        if one.transform == "sqrt"
    }
    assert roots == ((1,), None, tuple(range(1, 14)))
    for periods in ((), (4,), (24,), (7, 365)):  # not measured
        assert transforms(cubes, periods) == {None}
    assert transforms(cubes, (12,), bounded=False) == {None}
    assert transforms(cubes, (12,), transform=False) == {None}
    assert transforms(np.where(cubes > 0, 3.0, 0.0), (12,)) == {None}  # one value has no power
    assert transforms(np.maximum(2.0 + rng.standard_normal(200), 0.0), (12,)) == {None}
    assert transforms(cubes + 1.0, (12,)) == {None, "log"}


@pytest.mark.parametrize(("least", "expected"), [(1.0, [None, "log"]), (0.0, [None])])
def test_exponential_smoothing_has_a_logarithm_of_positive_values(least, expected):
    y = np.where(np.arange(50) == 3, np.nan, np.arange(50) + least)
    found = table.candidates(y, (12,))
    assert [one.transform for one in found if one.kind == "smoothing"] == expected
    assert found[-1].rows == 800


@pytest.mark.parametrize(
    ("n", "seasonal", "expected"),
    [
        (59, False, (False, 8.0)),
        (60, False, (True, 4.0)),
        (30, True, (True, 4.0)),
    ],
)
def test_how_members_are_averaged(n, seasonal, expected):
    assert averaging(n, seasonal) == expected
