"""Models on disk: the same forecasts bit for bit, no code, and one error for all other files."""

import copy
import dataclasses
import datetime
import functools
import gzip
import hashlib
import importlib
import inspect
import io
import json
import os
import pickle
import pkgutil
import stat
import struct
import sys
import typing
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import BayesianRidge

import forecast_unc
from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    baselines,
    load_model,
)
from forecast_unc.evaluation.baselines.baseline import Baseline
from forecast_unc.forecasting.combination import COMBINATION_CLASSES, Member
from forecast_unc.forecasting.persistence.archive import parse_archive, read_bytes, write_archive
from forecast_unc.forecasting.persistence.classes import MODEL_CLASSES
from forecast_unc.forecasting.persistence.foreign import parts_of
from forecast_unc.forecasting.persistence.objects import load_object, save_object
from forecast_unc.forecasting.persistence.schema import Field, fields_of, fits, sizes_of, state_of
from forecast_unc.regression.augmented import AddedBasis
from forecast_unc.regression.estimator import KernelRegressor
from forecast_unc.regression.posterior import Posterior
from forecast_unc.regression.predictor import PredictorPosterior, ScikitLearnRegressor

REFERENCE = Path(__file__).parent / "reference"
MESSAGE = (
    r"^path must name a file written by Forecaster.save or Combination.save, whole and unchanged; "
    r"got .*m(odel)?\.npz, (which|whose|of) .*\. Save it again\.$"
)


def series(n=40):
    rng = np.random.default_rng(5)
    values = 10 + 2 * np.sin(np.arange(n) / 2) + 0.3 * rng.standard_normal(n)
    return pd.Series(values, pd.date_range("2024-01-01", periods=n), name="y")


Y = series()
EXOG = pd.DataFrame(
    {"price": np.cos(np.arange(44) / 3), 7: np.arange(44) % 5},
    Y.index.union(pd.date_range(Y.index[-1], periods=5)),
)
HOLIDAYS = pd.DatetimeIndex(["2024-01-06", "2024-01-20", "2024-02-10"])


def gapped():
    y = Y.copy()
    y.iloc[[10, 38]] = np.nan
    return y


# Name, forecaster, and what it is fitted to.
KINDS = {
    "gp": (Forecaster(GPRegressor(), lags=2), {}),
    "numbers": (
        Forecaster(
            GPRegressor(lengthscales=np.array([1.0, 2.0], dtype=np.float32), groups=[0, 1]),
            lags=np.array([1, 2]),
            max_train=np.int64(30),
            random_state=np.random.default_rng(3),
        ),
        {},
    ),
    "kept weights": (Forecaster(GPRegressor(linear=[0.5, 0.1]), lags=range(1, 3)), {}),
    "nigp": (Forecaster(GPRegressor(noisy_inputs="nigp"), lags=2), {}),
    "annealed": (Forecaster(GPRegressor(noisy_inputs="annealed"), lags=1), {}),
    "integrated": (Forecaster(GPRegressor(hyperparameters="integrated"), lags=2), {}),
    "reduced rank": (Forecaster(ReducedRankGPRegressor(n_support=6), lags=2), {}),
    "rrgp*": (Forecaster(ReducedRankGPRegressor(n_support=6, variance="augmented"), lags=2), {}),
    "rvm": (Forecaster(RVMRegressor(linear=True), lags=2), {}),
    "rvm*": (Forecaster(RVMRegressor(variance="augmented"), lags=2), {}),
    "observation": (Forecaster(lags=2, noise="observation"), {}),
    "both": (Forecaster(lags=2, noise="both"), {}),
    "which noise": (Forecaster(lags=2, noise="auto"), {}),
    "auto": (Forecaster(), {}),
    "auto of counts": (Forecaster(), {"y": (Y - Y.min()).round()}),
    "conformal": (Forecaster(lags=2, calibrate="conformal"), {}),
    "seasonal": (
        Forecaster(
            lags=(1, 7), differences=(1,), seasonal_period=7, transform="boxcox",
            prior_mean="seasonal", calendar=["fourier", "day_of_week", HOLIDAYS],
        ),
        {},
    ),
    "missing": (Forecaster(lags=2), {"y": gapped()}),
    "noisy": (Forecaster(lags=2), {"y_std": pd.Series(0.2, Y.index)}),
    "exog": (Forecaster(lags=2), {"exog": EXOG[:40]}),
}  # fmt: skip


@functools.cache
def fitted(kind):
    forecaster, data = KINDS[kind]
    return forecaster.fit(**{"y": Y, **data})


@functools.cache
def with_refusals():
    """A model that has learned a day, and whose logarithms could not take in another."""
    noise = np.random.default_rng(0).standard_normal(40)
    y = pd.Series(np.exp(np.arange(40) / 10 + 0.2 * noise), Y.index)
    return Forecaster().fit(y).update(pd.Series([-1.0], EXOG.index[40:41]))


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return fitted(request.param)


def reloaded(model, folder):
    model.save(folder / "model.npz")
    return load_model(folder / "model.npz")


def same(a, b, seen):
    """Raise unless two objects hold the same, bit for bit, and share it in the same way."""
    assert type(a) is type(b)
    if id(a) in seen:
        assert seen[id(a)] is b
        return
    if type(a) in COMBINATION_CLASSES:
        seen[id(a)] = b
        mine, theirs = state_of(a), state_of(b)
        assert mine.keys() == theirs.keys()
        for name in mine:
            same(mine[name], theirs[name], seen)
    elif isinstance(a, np.ndarray):
        seen[id(a)] = b
        assert a.dtype == b.dtype
        assert a.flags.c_contiguous == b.flags.c_contiguous
        assert a.flags.f_contiguous == b.flags.f_contiguous
        assert b.flags.writeable
        np.testing.assert_array_equal(a, b, strict=True)
    elif isinstance(a, pd.Index):
        pd.testing.assert_index_equal(a, b, exact=True)
        assert getattr(a, "freq", None) == getattr(b, "freq", None)
    elif isinstance(a, np.random.Generator):
        seen[id(a)] = b
        assert a.bit_generator.state == b.bit_generator.state
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other, seen)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key], seen)
    else:
        assert a == b or (a != a and b != b)


def forecasts(model, exog=None):
    """What several ways of a forecast give, as arrays."""
    found = []
    paths = {"propagation": "monte_carlo", "n_samples": 20, "random_state": 1}
    for options in ({"propagation": "taylor"}, {"propagation": "naive"}, paths):
        ahead = model.forecast(4, exog=exog, **options)
        found += [ahead.mean.to_numpy(), ahead.cov.to_numpy(), ahead.quantile([0.1, 0.9])]
    return found


def test_a_saved_model_is_the_same(model, tmp_path):
    again = reloaded(model, tmp_path)
    same(model, again, {})
    columns = model.ensemble_.history.columns
    exog = EXOG[40:] if len(columns) else None
    for a, b in zip(forecasts(model, exog), forecasts(again, exog), strict=True):
        np.testing.assert_array_equal(a, b)
    closed = all(
        getattr(m, "regressor", None) is None or m.regressor.posterior_.closed_form
        for m in model.models_
    )
    if closed:
        ahead, other = model.forecast(4, exog=exog), again.forecast(4, exog=exog)
        np.testing.assert_array_equal(ahead.cov, other.cov)
        pd.testing.assert_index_equal(ahead.index, other.index)
        assert ahead.mean.name == other.mean.name
    assert again.summary() == model.summary()
    assert again.choices_ == model.choices_


def test_a_loaded_model_goes_on_as_the_saved_one(model, tmp_path):
    with_exog = len(model.ensemble_.history.columns) > 0
    exog, later = (EXOG[40:42], EXOG[42:]) if with_exog else (None, None)
    new = pd.Series([10.5, 9.0], EXOG.index[40:42], name="y")
    ahead = []
    for one in (copy.copy(model), reloaded(model, tmp_path)):
        one.update(new, exog=exog)
        ahead.append(one.forecast(2, exog=later, propagation="taylor"))
    np.testing.assert_array_equal(ahead[0].cov, ahead[1].cov)
    np.testing.assert_array_equal(ahead[0].mean, ahead[1].mean)


def test_a_model_at_another_origin_is_the_same(tmp_path):
    moved = fitted("missing").apply(gapped() + 0.1)
    assert moved.models_[0].past.learned is not None
    again = reloaded(moved, tmp_path)
    same(moved, again, {})
    np.testing.assert_array_equal(moved.forecast(3).cov, again.forecast(3).cov)


def test_a_regressor_may_have_been_fitted_to_a_frame(tmp_path):
    rows = pd.DataFrame({"a": Y.to_numpy()[:-1]})
    regressor = GPRegressor().fit(rows, Y.to_numpy()[1:])
    model = Forecaster(regressor, lags=1).fit(Y)
    again = reloaded(model, tmp_path)
    same(model, again, {})
    np.testing.assert_array_equal(model.forecast(3).cov, again.forecast(3).cov)


def test_a_loaded_model_starts_a_refit(tmp_path):
    model = fitted("gp")
    a, b = (one.refit(Y[:35]).forecast(3).cov for one in (model, reloaded(model, tmp_path)))
    np.testing.assert_array_equal(a, b)


def test_a_combination_is_the_same(tmp_path):
    members = [fitted("gp"), Forecaster(lags=1, transform="log")]
    inner = Combination(members, (1.0, 2.0))
    both = Combination([inner, Forecaster(lags=3)], "inverse_width", widest=3.0).fit(Y)
    both.update(pd.Series([-1.0], EXOG.index[40:41]))  # which a logarithm cannot take in
    again = reloaded(both, tmp_path)
    same(both, again, {})
    np.testing.assert_array_equal(both.forecast(4).cov, again.forecast(4).cov)
    assert again.refused_ == both.refused_


def test_what_was_refused_and_what_bands_were_learned_from_is_the_same(tmp_path):
    model = with_refusals()
    assert model.refused_
    again = reloaded(model, tmp_path)
    same(model, again, {})
    np.testing.assert_array_equal(model.forecast(4).cov, again.forecast(4).cov)
    assert again.choices_ == model.choices_


INDICES = {
    "dst": pd.date_range("2024-03-20", periods=30, tz="Europe/Berlin", name="when"),
    "utc": pd.date_range("2024-03-20", periods=30, freq="15min", tz="UTC"),
    "fixed": pd.date_range("2024-03-20", periods=30, freq="2h", tz="+05:30"),
    "seconds": pd.date_range("2024-03-20", periods=30, freq="D").as_unit("s"),
    "months": pd.date_range("2020-01-31", periods=30, freq="ME"),
    "weeks": pd.date_range("2020-01-01", periods=30, freq="2W-WED"),
    "business": pd.bdate_range("2020-01-01", periods=30),
    "hours": pd.date_range("2020-01-01 08:00", periods=30, freq=pd.offsets.BusinessHour(
        start="08:00")),
    "custom": pd.date_range("2024-01-01", periods=30, freq=pd.offsets.CustomBusinessDay(
        weekmask="Mon Tue Wed Sun", holidays=["2024-01-10"])),
    "month periods": pd.period_range("2020-01", periods=30, freq="M"),
    "quarter periods": pd.period_range("2001Q1", periods=30, freq="2Q-NOV", name="q"),
    "numbers": pd.RangeIndex(10, 70, 2, name="row"),
    "integers": pd.Index(np.arange(30)),
}  # fmt: skip


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_every_kind_of_index(index, tmp_path):
    y = pd.Series(Y.to_numpy()[:30], index, name=("a", 1))
    model = Forecaster(lags=1).fit(y)
    again = reloaded(model, tmp_path)
    same(model, again, {})
    ahead, other = model.forecast(3), again.forecast(3)
    pd.testing.assert_series_equal(ahead.mean, other.mean, check_exact=True)
    assert ahead.index.freq == other.index.freq if hasattr(index, "freq") else True
    new = pd.Series(1.0, ahead.index)
    pd.testing.assert_series_equal(
        again.update(new).forecast(2).std, model.update(new).forecast(2).std
    )


@pytest.mark.parametrize("name", [
    None, 3, 2.5, np.float32(2.5), np.str_("a"), "\U0001f600", ("a", 1), float("inf"), True,
    pd.Timestamp("2024-01-01", tz="UTC"), pd.Period("2024-01"),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("columns", [["a", "b"], [1, 2.5], [("a", 1), ("b", 2)]], ids=repr)
def test_names(name, columns, tmp_path):
    labels = pd.MultiIndex.from_tuples(columns) if isinstance(columns[0], tuple) else columns
    exog = EXOG[:40].set_axis(labels, axis=1)
    model = Forecaster(lags=1).fit(Y.rename(name), exog=exog)
    history = reloaded(model, tmp_path).ensemble_.history
    assert history.name == name
    pd.testing.assert_index_equal(history.columns, exog.columns, exact=True)


@pytest.mark.parametrize("bits", [
    np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64,
])  # fmt: skip
def test_generators_go_on_where_they_were(bits, tmp_path):
    model = Forecaster(lags=1, random_state=np.random.Generator(bits(4))).fit(Y)
    model.forecast(2, propagation="monte_carlo", n_samples=5)
    again = reloaded(model, tmp_path)
    a, b = (one.forecast(2, propagation="monte_carlo", n_samples=5) for one in (model, again))
    np.testing.assert_array_equal(a.paths, b.paths)


# What is in a file ---------------------------------------------------------------------------

REFUSED = {ScikitLearnRegressor, PredictorPosterior, Baseline} | {
    value for value in vars(baselines).values() if inspect.isclass(value)
}


def own_classes():
    """Every class that the package defines."""
    for found in pkgutil.walk_packages(forecast_unc.__path__, "forecast_unc."):
        if found.name == "forecast_unc.sktime":
            continue  # a way in, which needs an extra
        module = importlib.import_module(found.name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == found.name:
                yield cls


def meant_by(hint):
    """Classes of the package that an annotation stands for: of a protocol, those that meet it."""
    for inner in typing.get_args(hint):
        yield from meant_by(inner)
    if not (inspect.isclass(hint) and hint.__module__.startswith("forecast_unc")):
        return
    if getattr(hint, "_is_protocol", False):
        members = {name for name in dir(hint) if not name.startswith("_")}
        fits_it = [cls for cls in own_classes() if members <= set(dir(cls))]
        yield from (cls for cls in fits_it if not getattr(cls, "_is_protocol", False))
    else:
        below = [cls for cls in own_classes() if issubclass(cls, hint)]
        yield from (cls for cls in below if not inspect.isabstract(cls))


def test_every_class_of_a_fitted_model_can_be_saved_and_no_other():
    found, new = set(), {Combination, Forecaster}
    while new:
        found |= new
        hints = [field.hint for cls in new for field in fields_of(cls).values()]
        for cls in new:
            if issubclass(cls, BaseEstimator):
                hints += typing.get_type_hints(cls.__init__).values()
        new = {cls for hint in hints for cls in meant_by(hint)} - found - REFUSED
    assert found == set(COMBINATION_CLASSES)


def test_the_walk_sees_posteriors_regressors_and_members():
    for hint in (Posterior, KernelRegressor, AddedBasis, Member):
        assert len(set(meant_by(hint)) - REFUSED) > 1


def test_every_class_is_in_some_file_of_these_tests(tmp_path):
    X = np.column_stack([Y[:-1], np.arange(39)])
    noisy = GPRegressor(lengthscales=3.0).fit(X, Y.to_numpy()[1:], input_cov=[0.1, 0.0])
    save_object(noisy, tmp_path / "noisy.npz", MODEL_CLASSES)
    again = load_object(tmp_path / "noisy.npz", MODEL_CLASSES, (GPRegressor,), "save_object")
    same(noisy, again, {})
    with_refusals().save(tmp_path / "refusals.npz")
    Combination([Forecaster(lags=1)]).fit(Y).save(tmp_path / "both.npz")
    for number, kind in enumerate(KINDS):
        fitted(kind).save(tmp_path / f"{number}.npz")
    contents = [parse_archive(read_bytes(path))[0] for path in tmp_path.iterdir()]
    seen = {entry["class"] for content in contents for entry in content["objects"]}
    assert {cls.__name__ for cls in COMBINATION_CLASSES} <= seen


def test_every_array_has_a_shape():
    for cls, shapes in COMBINATION_CLASSES.items():
        arrays = {
            name
            for name, field in fields_of(cls).items()
            if any(
                typing.get_origin(one) is np.ndarray or one is pd.Index
                for one in (field.hint, *typing.get_args(field.hint))
            )
        }
        assert arrays <= set(shapes), cls


def test_a_file_is_an_npz_without_pickles_and_always_the_same(tmp_path):
    model = fitted("gp")
    for name in ("a.npz", "b"):
        model.save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert json.loads(archive["content.json"])["version"] == 1
        assert all(archive[name].dtype != object for name in archive.files[1:])


def test_a_file_of_the_version_before_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(gzip.decompress((REFERENCE / "saved_model_1.npz.gz").read_bytes()))
    with pytest.raises(ValueError, match="path must name a file .*, whose content is not that of"):
        load_model(path)


# What cannot be saved ------------------------------------------------------------------------


class Mine(Forecaster):
    pass


def with_note():
    model = Forecaster(lags=1).fit(Y)
    model.note = "by hand"
    return model


MINE = datetime.timezone(datetime.timedelta(hours=1), "mine")
LATE = pd.date_range(
    "2024-01-01 01:00", periods=30, freq=pd.offsets.BusinessDay(offset=datetime.timedelta(hours=1))
)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Forecaster(BayesianRidge(), lags=1).fit(Y),
     r"regressor must be of this package, or plain data, in a model that is saved; got "
     r"BayesianRidge\(\). Only code of its own could read it back, and a saved model runs none"),
    (lambda: Combination([Forecaster(lags=1), baselines.Theta()]).fit(Y),
     "forecasters must be of this package.* got Theta"),
    (lambda: Mine(lags=1).fit(Y), "model must be of this package.* got Mine"),
    (with_note, "model must have the attributes of Forecaster alone to be saved; got 'note'"),
    (lambda: Forecaster(lags=1).fit(Y.tz_localize(MINE)),
     "index must have a time zone with a name in a model that is saved; got datetime.timezone"),
    (lambda: Forecaster(lags=1).fit(pd.Series(1.0 * np.arange(len(LATE)) % 5, LATE)),
     "index must have a frequency that pandas can name in a model that is saved; got <B"),
    (lambda: Forecaster(lags=1).fit(Y.rename(frozenset("a"))), "name must be of this package"),
    (lambda: Forecaster(lags=1).fit(Y, exog=EXOG[:40].set_axis(
        pd.CategoricalIndex(["a", "b"]), axis=1)), "columns must be of this package"),
    (lambda: Forecaster(lags=1).fit(Y, exog=EXOG[:40].set_axis(
        pd.Index([1, 2], dtype="Int64"), axis=1)),
     "columns must have text or numbers as labels in a model that is saved; got Int64"),
])  # fmt: skip
def test_what_only_other_code_could_read_is_refused(make, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        make().save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_frequency_without_a_name_is_refused():
    easter = pd.date_range("2000-01-01", periods=3, freq=pd.offsets.Easter())
    with pytest.raises(
        TypeError, match="index must have a frequency that pandas can name.*<Easter"
    ):
        parts_of("index", easter)


def test_a_path_is_needed():
    model = Forecaster(lags=2).fit(forecast_unc.datasets.load_nile()[:30])
    with pytest.raises(TypeError, match=r"path must be a str or a path; got None\. Name the file"):
        model.save(None)
    with pytest.raises(TypeError, match=r"path must be a str or a path; got 3\. "):
        load_model(3)


def test_an_unfitted_model_is_not_saved(tmp_path):
    for model in (Forecaster(), Combination([Forecaster()])):
        with pytest.raises(ValueError, match="not fitted"):
            model.save(tmp_path / "model.npz")


# The file system -----------------------------------------------------------------------------


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    fitted("gp").save(path)
    before = path.read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match=r"No space left on device: .*model\.npz'$"):
        fitted("rvm").save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match=r"nowhere.model\.npz'$"):
        fitted("gp").save(tmp_path / "nowhere" / "model.npz")
    for other in (tmp_path, os.devnull):
        with pytest.raises(ValueError, match="path must name a file; got .*, which is none"):
            fitted("gp").save(other)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")
    with pytest.raises(ValueError, match=MESSAGE.replace(r"m(odel)?\.npz", os.devnull)):
        load_model(os.devnull)


@pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")
def test_a_file_has_the_usual_mode_and_links_stay(tmp_path):
    usual, link = tmp_path / "usual", tmp_path / "link.npz"
    usual.touch()
    link.symlink_to(tmp_path / "model.npz")
    fitted("gp").save(link)
    assert link.is_symlink()
    assert stat.S_IMODE((tmp_path / "model.npz").stat().st_mode) == stat.S_IMODE(
        usual.stat().st_mode
    )


# Damaged and crafted files -------------------------------------------------------------------


def sealed(data):
    """A zip with the checksum that makes it ours."""
    comment = len(data) - 2
    assert data[comment:] == b"\0\0"
    data = data[:comment] + struct.pack("<H", 71)
    return data + b"sha256:" + hashlib.sha256(data).hexdigest().encode()


def zipped(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=compression)
    return sealed(buffer.getvalue())


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def header(text, data=b""):
    text = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


class Bomb:
    def __reduce__(self):
        return os.system, ("touch RAN",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "m.npz"
    Forecaster(GPRegressor(), lags=1, calendar="month").fit(Y[:15]).save(path)
    return path


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return [(one.filename, archive.read(one)) for one in archive.infolist()]


def damaged(data):
    """Flipped bits, missing, doubled and overwritten stretches of a file: 120."""
    rng = np.random.default_rng(6)
    for bit in rng.choice(8 * len(data), 60, replace=False):
        one = bytearray(data)
        one[bit // 8] ^= 1 << bit % 8
        yield bytes(one)
    for end in [0, 1, 21, 71, len(data) - 71, len(data) - 1, *rng.choice(len(data), 24)]:
        yield data[:end]
    for start in rng.choice(len(data), 10):
        yield data[start:]
        yield data[:start] + data[start + 1 :]
        yield data[:start] + b"\0\0" + data[start:]


def foreign(members):
    """Files of others, and zips with our checksum that numpy or zip would open: 40."""
    yield from (b"PK\x03\x04", b"\x89PNG\r\n", b"y\n1\n2\n", b"\0" * 500, b"sha256:" + b"0" * 64)
    yield pickle.dumps(Bomb())
    yield (
        pickle.dumps(Bomb())
        + b"sha256:"
        + hashlib.sha256(pickle.dumps(Bomb())).hexdigest().encode()
    )
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones(3), b=np.array([Bomb()]))
    yield buffer.getvalue()
    yield sealed(buffer.getvalue())
    content, *arrays = members
    yield zipped([])
    yield zipped(arrays)
    yield zipped([content])
    yield zipped([content, *arrays[:-1]])
    yield zipped([content, *arrays, ("more.npy", arrays[0][1])])
    yield zipped([content, *arrays, arrays[0]])
    yield zipped([content, *reversed(arrays)])
    yield zipped([content, ("../0.npy", arrays[0][1]), *arrays[1:]])
    yield zipped([("content.json", b"{}"), content, *arrays])
    yield zipped(members, zipfile.ZIP_DEFLATED)
    yield zipped([content, ("0.npy", npy(np.zeros(10**6))), *arrays[1:]], zipfile.ZIP_DEFLATED)
    for text in (
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format": 1}',
        b"[" * 10**5,
        b'{"a":' * 10**5,
    ):
        yield zipped([("content.json", text), *arrays])
    shape = "{'descr': %s, 'fortran_order': False, 'shape': %s, }"
    for first in (
        npy(np.array([Bomb()])),
        npy(np.array([Bomb()]))[:-1],
        npy(np.zeros(3, dtype=[("a", "f8")])),
        npy(np.array(["text"])),
        npy(np.zeros(3, dtype=complex)),
        npy(np.zeros(3, dtype=np.longdouble)),
        header(shape % ("'<f8'", "(10**15,)")),
        header(shape % ("'<f8'", "(1000000000000000,)")),
        header(shape % ("'<f8'", "(-1, -1)"), bytes(8)),
        header(shape % ("'<f8'", "__import__('os').system('touch RAN')")),
        header("(" * 3000),
        header("-" * 30000),
        b"\x93NUMPY\x02\x00" + bytes(100),
        b"",
    ):
        yield zipped([content, ("0.npy", first), *arrays[1:]])


def crafted(content, arrays):
    """Content of wrong types and shapes with a checksum that is right: the rest of 300."""
    named = {cls.__name__: cls for cls in COMBINATION_CLASSES}

    def changed(change):
        new = json.loads(json.dumps(content))
        change(new)
        return new, arrays

    for key in content:
        if key != "written_by":
            yield changed(lambda new, key=key: new.pop(key))
        for wrong in (None, [], {"object": 0}):
            if key != "written_by":
                yield changed(lambda new, key=key, wrong=wrong: new.update({key: wrong}))
    for version in (0, 2, "1", 10**400, -1):
        yield changed(lambda new, version=version: new.update(version=version))
    last = len(content["objects"])
    for model in (-1, last, last + 5, "0", 1.5, [0], None, True, 0):
        yield changed(lambda new, model=model: new.update(model={"object": model}))
    for kind in ("os.system", "Popen", "DataFrame", "BayesianRidge", "object", "type", "", None, 3):
        yield changed(lambda new, kind=kind: new["objects"][-1].update({"class": kind}))
    for array in (-1, len(arrays), "0", 0.0, None):
        yield changed(lambda new, array=array: at(new, "History", "y").update(y={"array": array}))
    for i, entry in enumerate(content["objects"]):
        cls = named.get(entry["class"])
        if cls is None:
            continue

        def more(new, i=i):
            new["objects"][i]["fields"]["__class__"] = "os.system"

        yield changed(more)
        for field, told in fields_of(cls).items():
            if field not in entry["fields"] or told.hint is typing.Any:
                continue

            def without(new, i=i, field=field):
                del new["objects"][i]["fields"][field]

            if told.required:
                yield changed(without)
            for wrong in ({"range": [0, 1, 1]}, {"number": ["O", 1]}, {"object": i}, {"set": []}):

                def to(new, i=i, field=field, wrong=wrong):
                    new["objects"][i]["fields"][field] = wrong

                yield changed(to)
    for i, j in ((0, 1), (0, 2), (1, 5), (0, len(arrays) - 1)):
        if arrays[i].shape != arrays[j].shape:
            swapped = list(arrays)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            yield content, swapped
    for i in range(len(arrays)):
        yield content, [*arrays[:i], arrays[i].astype(np.float32), *arrays[i + 1 :]]
        yield content, [*arrays[:i], arrays[i][..., None], *arrays[i + 1 :]]
        if len(arrays[i]):
            yield content, [*arrays[:i], np.repeat(arrays[i], 2, axis=0), *arrays[i + 1 :]]


def at(content, kind, field):
    """The fields of the first object of a class."""
    return next(
        one["fields"]
        for one in content["objects"]
        if one["class"] == kind and field in one["fields"]
    )


_EVENTS: list[str] = []


@pytest.fixture(scope="module")
def audited():
    """What the interpreter was asked to do since `_EVENTS` was cleared."""
    watched = {"exec", "os.system", "subprocess.Popen", "pickle.find_class", "os.exec", "os.fork"}
    on = [True]

    def hook(event, arguments):
        if on[0] and (event in watched or (event == "open" and arguments[1] not in ("r", "rb"))):
            _EVENTS.append(f"{event} {arguments}")

    sys.addaudithook(hook)  # which cannot be taken away again
    yield _EVENTS
    on[0] = False


def test_each_of_300_damaged_files_is_one_clear_error_and_runs_no_code(
    whole, tmp_path, monkeypatch, audited
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda _: None)  # for each of them
    path = tmp_path / "m.npz"
    members, (content, arrays) = members_of(whole), parse_archive(read_bytes(whole))

    def files():
        yield from damaged(whole.read_bytes())
        yield from foreign(members)
        for one in crafted(content, arrays):
            write_archive(path, *one)
            yield path.read_bytes()

    load_model(whole)  # what is imported only once
    count, modules = 0, set(sys.modules)
    for data in files():
        path.write_bytes(data)
        audited.clear()
        with pytest.raises(ValueError, match=MESSAGE) as caught:
            load_model(path)
        ran = list(audited)
        assert type(caught.value) is ValueError
        assert ran == []
        count += 1
    assert count >= 300
    assert set(sys.modules) == modules
    assert not (tmp_path / "RAN").exists()


@given(st.data())
def test_no_flipped_bit_is_read(whole, data):
    good = whole.read_bytes()
    place, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
    bad = bytearray(good)
    bad[place] ^= 1 << bit
    path = whole.with_name("model.npz")
    path.write_bytes(bad)
    with pytest.raises(ValueError, match=MESSAGE):
        load_model(path)


@pytest.mark.parametrize(("change", "why"), [
    (lambda c: c.update(version=2, written_by="9.1"),
     r"of format 2, by forecast_unc 9.1, where .* reads up to 1"),
    (lambda c: at(c, "Specification", "lags").update(lags={"tuple": [1, "2"]}),
     "whose content is not that of a model of this version"),
])  # fmt: skip
def test_the_message_says_why(change, why, whole, tmp_path):
    content, arrays = parse_archive(read_bytes(whole))
    change(content)
    write_archive(tmp_path / "m.npz", content, arrays)
    with pytest.raises(ValueError, match=why):
        load_model(tmp_path / "m.npz")


def test_fields_with_defaults_may_be_missing(whole, tmp_path):
    content, arrays = parse_archive(read_bytes(whole))
    del at(content, "Averaging", "look_ahead")["look_ahead"]
    del at(content, "Forecaster", "outliers")["outliers"]
    write_archive(tmp_path / "m.npz", content, arrays)
    again = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.forecast(3).cov, load_model(whole).forecast(3).cov)


@pytest.mark.parametrize(("value", "hint", "expected"), [
    (1, float, True), (True, float, False), (True, int, False), (np.int64(1), int, True),
    (1.0, int, False), (np.True_, bool, True), (1, bool, False), (None, int | None, True),
    ((1, 2), tuple[int, ...], True), ((1, "2"), tuple[int, ...], False),
    ((), tuple[int, ...], True), ([1], tuple[int, ...], False),
    ((1.0, 2.0), tuple[float, float], True), ((1.0,), tuple[float, float], False),
    ({"a": 1}, dict[str, int], True), ({1: 1}, dict[str, int], False), (1, dict[str, int], False),
    (1, typing.Literal[-1, 1], True), (True, typing.Literal[-1, 1], False),
    (np.zeros(2), NDArray[np.float64], True), (np.zeros(2, int), NDArray[np.float64], False),
    (b"any", typing.Any, True),
], ids=repr)  # fmt: skip
def test_types(value, hint, expected):
    assert fits(value, hint) is expected


def test_shapes_agree_throughout_an_object():
    @dataclasses.dataclass
    class Rows:
        X: object
        y: object
        inner: object = None

    assert sizes_of(Rows(np.zeros((4, 3, 2)), None), {"X": "... n d"}, {}) == {"n": 3, "d": 2}
    assert sizes_of(Rows(np.zeros((3, 2)), None), {"X": "... n d"}, {}) == {"n": 3, "d": 2}
    shapes = {"X": "n d", "y": "n+1", "inner": {"": "k", "q": "d"}}
    sizes = sizes_of(Rows(np.zeros((3, 2)), np.zeros(4)), shapes, {})
    assert sizes == {"n": 3, "d": 2}
    part = object()
    known = {id(part): {"q": 2}}
    assert sizes_of(Rows(np.zeros((3, 2)), None, (part, part)), shapes, known)["k"] == 2
    for wrong, why in (
        (Rows(np.zeros((3, 2)), np.zeros(3)), r"Rows.y has 3 entries along n\+1"),
        (Rows(np.zeros(3), np.zeros(3)), "Rows.X has 1 axes"),
        (Rows(np.zeros((3, 3)), None, (part,)), "Rows.inner has 2 entries along d"),
    ):
        with pytest.raises(ValueError, match=why):
            sizes_of(wrong, shapes, known)
    assert fields_of(Rows)["inner"] == Field(object, False)
