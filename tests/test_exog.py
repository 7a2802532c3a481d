"""Regressors at the boundary: their values and what is not known of them."""

import numpy as np
import pandas as pd
import pytest

from forecast_unc.series.exog import check_exog, check_uncertainty

TIMES = pd.date_range("2024-03-01", periods=3, freq="D")
EXOG = pd.DataFrame(np.arange(6.0).reshape(3, 2), TIMES, ["a", "b"])
STDS = pd.DataFrame([[0.5, 0.0], [1.0, 2.0], [0.1, 3.0]], TIMES, ["a", "b"])
DIAGONAL = np.diag([0.25, 0.0, 1.0, 4.0, 0.01, 9.0])
ONE = EXOG.iloc[:1, :1]  # one step, one regressor


def test_complex_regressors_are_refused():
    with pytest.raises(
        TypeError, match=r"exog must be numeric; got column 'b' of dtype complex64\. Encode it"
    ):
        check_exog(EXOG.astype({"b": "complex64"}), TIMES, None, "y")


def test_stds_are_a_diagonal_covariance():
    before = STDS.copy(deep=True)
    for stds in (
        STDS,
        STDS[["b", "a"]],
        STDS.to_numpy(),
        STDS.astype("Float64"),
        STDS.astype(object).astype(float),
    ):
        np.testing.assert_allclose(check_uncertainty(stds, None, EXOG), DIAGONAL, rtol=1e-14)
    np.testing.assert_allclose(check_uncertainty(None, STDS, EXOG), DIAGONAL, rtol=1e-14)
    pd.testing.assert_frame_equal(STDS, before)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, lambda c: pd.DataFrame(c, dtype="f4")])
def test_a_covariance_is_copied(make, rng):
    root = rng.integers(-3, 4, size=(6, 6)).astype(float)
    given = make(root @ root.T)
    cov = check_uncertainty(None, given, EXOG)
    np.testing.assert_array_equal(cov, root @ root.T)
    cov[:] = np.nan
    np.testing.assert_array_equal(given, root @ root.T)


def test_a_covariance_of_one_regressor_may_be_labeled_by_its_times():
    cov = pd.DataFrame(np.eye(3) + 0.5, TIMES, TIMES)
    np.testing.assert_array_equal(check_uncertainty(None, cov, EXOG[["a"]]), np.eye(3) + 0.5)


@pytest.mark.parametrize("columns", [["a", "b"], ["a"]])
def test_a_labeled_covariance_is_read_by_its_labels(columns, rng):
    exog = EXOG[columns]
    root = rng.normal(size=(exog.size, exog.size))
    labels = pd.MultiIndex.from_product([TIMES, columns])
    cov = pd.DataFrame(root @ root.T, labels, labels)
    shuffled = rng.permutation(exog.size)
    frames = [cov, cov.iloc[shuffled, shuffled], cov.iloc[shuffled], cov.iloc[::-1, shuffled]]
    if columns == ["a"]:
        frames += [frame.droplevel(1).droplevel(1, axis=1) for frame in frames]
    for frame in frames:
        np.testing.assert_array_equal(check_uncertainty(None, frame, exog), cov.to_numpy())
    by_position = pd.DataFrame(cov.to_numpy(), list("uvwxyz")[: exog.size])
    np.testing.assert_array_equal(check_uncertainty(None, by_position, exog), cov.to_numpy())
    later = pd.MultiIndex.from_product([TIMES + pd.DateOffset(years=1), columns])
    for axis, name in enumerate(("rows", "columns")):
        for wrong in (later, labels.swaplevel(), labels[[0, *range(exog.size - 1)]]):
            message = rf"exog_cov must be labelled by time and regressor, .*; got other {name}\. "
            with pytest.raises(ValueError, match=message):
                check_uncertainty(None, cov.set_axis(wrong, axis=axis), exog)


def test_known_regressors_have_no_covariance():
    for zero in (0 * STDS, np.zeros((3, 2))):
        assert check_uncertainty(zero, None, EXOG) is None
    assert check_uncertainty(None, np.zeros((6, 6)), EXOG) is None
    assert check_uncertainty(None, None, EXOG) is None
    assert check_uncertainty(None, None, None) is None


@pytest.mark.parametrize(
    ("frame", "wrong"),
    [
        (pd.DataFrame([[0.65]], TIMES[1:2], ["a"]), "index"),
        (pd.DataFrame([[0.65]], columns=["a"]), "index"),
        (pd.DataFrame([[0.65]], TIMES[:1], ["b"]), "columns"),
        (pd.DataFrame([[0.65]], TIMES[:1]), "columns"),
    ],
)
def test_stds_with_other_labels_are_no_covariance(frame, wrong):
    message = (
        rf"exog_cov must have exog's index and columns to be taken as stds; got other {wrong}\. "
        r"Give stds as exog_std, a covariance as an array\."
    )
    with pytest.raises(ValueError, match=message):
        check_uncertainty(None, frame, ONE)


def test_one_by_one_is_what_it_is_called():
    np.testing.assert_array_equal(check_uncertainty(np.array([[0.5]]), None, ONE), [[0.25]])
    np.testing.assert_array_equal(check_uncertainty(None, np.array([[0.5]]), ONE), [[0.5]])
    np.testing.assert_array_equal(check_uncertainty(None, pd.DataFrame([[0.5]]), ONE), [[0.5]])
    labeled = pd.DataFrame([[0.5]], TIMES[:1], ["a"])
    np.testing.assert_array_equal(check_uncertainty(None, labeled, ONE), [[0.25]])


BAD_STDS = {
    "list": ([[1.0, 2.0]] * 3, TypeError, "must be a DataFrame or an array; got list. Give"),
    "series": (STDS["a"], TypeError, "must be a DataFrame or an array; got Series. Give"),
    "other times": (
        STDS.shift(1, freq="D"),
        ValueError,
        "must have exactly the times of exog, 3 rows from 2024-03-01; got no row at 2024-03-01. ",
    ),
    "order of times": (STDS[::-1], ValueError, r"must have .* another order.*exog_std.sort_index"),
    "columns": (
        STDS[["b", "b"]],
        ValueError,
        r"must have the columns of exog, \['a', 'b'\]; got \['b', 'b'\]. Select them",
    ),
    "flat": (np.ones(6), ValueError, r"must have shape \(3, 2\), steps .*; got shape \(6,\). Give"),
    "covariance": (DIAGONAL, ValueError, r"must have .*; got shape \(6, 6\). .* exog_cov\."),
    "negative": (-STDS, ValueError, "must hold no negative std; got -3. Give 0"),
    "missing": (STDS.where(STDS > 0), ValueError, "must be finite; got nan. Give 0"),
    "infinite": (STDS + np.inf, ValueError, "must be finite; got inf. Give 0"),
    "text": (STDS.astype(str), TypeError, "must be numeric; got other values. Encode"),
    "complex": (STDS.to_numpy() + 0j, TypeError, "must be numeric; got other values. Encode"),
    "complex column": (STDS.astype({"b": complex}), TypeError, "must be numeric; got other val"),
}


@pytest.mark.parametrize("case", BAD_STDS)
def test_bad_stds_are_refused(case):
    stds, error, message = BAD_STDS[case]
    with pytest.raises(error, match=f"^exog_std {message}"):
        check_uncertainty(stds, None, EXOG)


def with_entry(i, j, value):
    cov = np.eye(6)
    cov[i, j] = cov[j, i] = value
    return cov


SHAPE = r"must be a covariance of shape \(6, 6\), .*; got shape "
BAD_COVARIANCES = {
    "list": ([1.0], TypeError, "must be a DataFrame or an array; got list. Give"),
    "too small": (np.eye(3), ValueError, SHAPE + r"\(3, 3\). Order it by step, .* exog_std"),
    "flat": (np.ones(6), ValueError, SHAPE + r"\(6,\). "),
    "stds as an array": (STDS.to_numpy(), ValueError, SHAPE + r"\(3, 2\). .*stds .* exog_std"),
    "stds, a row short": (STDS.iloc[1:], ValueError, "must have exog's index and columns to be ta"),
    "stds, other columns": (STDS.set_axis(["b", "c"], axis=1), ValueError, "must have exog's ind"),
    "negative stds": (-STDS, ValueError, "must hold no negative std; got -3. Give 0"),
    "nan": (with_entry(2, 2, np.nan), ValueError, "must be finite; got nan. Give 0"),
    "text": (pd.DataFrame(np.eye(6)).astype(str), TypeError, "must be numeric; got other values"),
    "complex": (np.eye(6) * 1j, TypeError, "must be numeric; got other values. Encode"),
    "lopsided": (
        np.eye(6) + np.eye(6, k=1) / 2,
        ValueError,
        "must be symmetric; got entries that differ by",
    ),
    "indefinite": (
        with_entry(0, 1, 1.5),
        ValueError,
        "must be positive semi-definite; got correlations with an eigenvalue of -0.5",
    ),
    "no variance": (with_entry(0, 1, 1.0) - np.eye(6), ValueError, "must be positive .* of -1"),
    "negative": (-np.eye(6), ValueError, "must be positive semi-definite; got .* of -1"),
}


@pytest.mark.parametrize("case", BAD_COVARIANCES)
def test_bad_covariances_are_refused(case):
    cov, error, message = BAD_COVARIANCES[case]
    with pytest.raises(error, match=f"^exog_cov {message}"):
        check_uncertainty(None, cov, EXOG)


def test_one_of_the_two_is_enough():
    with pytest.raises(
        ValueError, match=r"exog_std must be None beside exog_cov; got both\. The diagonal of a "
    ):
        check_uncertainty(STDS, DIAGONAL, EXOG)


@pytest.mark.parametrize("name", ["exog_std", "exog_cov"])
def test_uncertainty_needs_means(name):
    given = {"exog_std": None, "exog_cov": None, name: np.eye(2)}
    with pytest.raises(
        ValueError, match=f"{name} must be None without exog; got one. Give the regressors' means"
    ):
        check_uncertainty(**given, exog=None)


def test_regressors_whose_squares_overflow_are_refused():
    index = pd.date_range("2024-01-01", periods=3, freq="D")
    frame = pd.DataFrame({"a": [0.0, 1e160, 0.0]}, index)
    message = r"exog must be within 1e\+150 of 0; got 1e\+160 at 2024-01-02 in column 'a'. Divide"
    with pytest.raises(ValueError, match=message):
        check_exog(frame, index, None, "y")
