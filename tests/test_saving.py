"""Models on disk: the same forecasts to nine digits, no code, and one error for all other files."""

import copy
import datetime
import functools
import gzip
import hashlib
import io
import itertools
import json
import os
import pickle
import re
import stat
import struct
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

import forecast_unc
from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    LinearRegressor,
    ReducedRankGPRegressor,
    RVMRegressor,
    baselines,
    load_model,
)
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting import saving

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
            GPRegressor(lengthscales=np.array([1.0, 2.0], dtype=np.float32), linear=[0.5, 0.1]),
            lags=range(1, 3),
            max_train=np.int64(30),
            random_state=np.random.default_rng(3),
        ),
        {},
    ),
    "annealed": (Forecaster(GPRegressor(noisy_inputs="annealed"), lags=1), {}),
    "reduced rank": (Forecaster(ReducedRankGPRegressor(n_support=6), lags=2), {}),
    "rvm": (Forecaster(RVMRegressor(linear=True), lags=2), {}),
    "rvm*": (Forecaster(RVMRegressor(variance="augmented"), lags=2), {}),
    "which noise": (Forecaster(lags=2, noise="auto"), {}),
    "auto": (Forecaster(), {}),
    "auto of counts": (Forecaster(), {"y": (Y - Y.min()).round()}),
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


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return fitted(request.param)


def reloaded(model, folder):
    model.save(folder / "model.npz")
    return load_model(folder / "model.npz")


def assert_same(a, b, steps=4, exog=None, kinds=("taylor", "monte_carlo")):
    """Forecasts of two models agree, of means in stds."""
    for kind in kinds:
        options = {"propagation": kind, "n_samples": 20, "random_state": 1}
        one, other = (each.forecast(steps, exog=exog, **options) for each in (a, b))
        pd.testing.assert_index_equal(one.index, other.index)
        assert one.mean.name == other.mean.name
        std = other.std.to_numpy()
        scale = np.outer(std, std)
        np.testing.assert_allclose(one.mean / std, other.mean / std, rtol=0, atol=1e-9)
        np.testing.assert_allclose(one.cov / scale, other.cov / scale, rtol=0, atol=1e-9)
        levels = [0.025, 0.3, 0.9]
        np.testing.assert_allclose(
            one.quantile(levels).div(std, axis=0),
            other.quantile(levels).div(std, axis=0),
            rtol=0,
            atol=1e-9,
        )


def test_a_saved_model_forecasts_updates_and_applies_as_before(model, tmp_path):
    again = reloaded(model, tmp_path)
    history = model.ensemble_.history
    exog = EXOG if len(history.columns) else None
    at = (lambda first, last: None) if exog is None else lambda first, last: exog[first:last]
    assert again.choices_ == model.choices_
    assert again.summary() == model.summary()
    assert_same(again, model, exog=at(40, 44))
    new = pd.Series([10.5, 9.0], EXOG.index[40:42], name="y")
    after = [copy.copy(one).update(new, exog=at(40, 42)) for one in (again, model)]
    assert_same(*after, 2, at(42, 44), ["taylor"])
    assert_same(reloaded(after[1], tmp_path), after[1], 2, at(42, 44), ["taylor"])
    moved = [one.apply(Y[:39] + 0.1, exog=at(0, 39)) for one in (again, model)]
    assert_same(*moved, 2, at(39, 41), ["taylor"])


def test_a_model_at_another_origin_has_two_series(tmp_path):
    """That its posterior has learned from, and that at whose end it is: with gaps both count."""
    moved = fitted("missing").apply(gapped() + 0.1)
    assert moved.models_[0].past.learned is not None
    again = reloaded(moved, tmp_path)
    assert_same(again, moved)
    np.testing.assert_array_equal(again.models_[0].past.learned, moved.models_[0].past.learned)
    new = pd.Series([10.5], EXOG.index[40:41])
    assert_same(copy.copy(again).update(new), copy.copy(moved).update(new))
    calibrated = fitted("auto").apply(Y[:30])
    again = reloaded(calibrated, tmp_path)
    assert_same(again, calibrated)
    assert len(again.ensemble_.trained[0].history.y) == 40


def test_other_things_that_a_model_may_hold(tmp_path):
    rows = pd.DataFrame({"a": Y.to_numpy()[:-1]})
    regressor = GPRegressor().fit(rows, Y.to_numpy()[1:])  # to a frame, which leaves names
    model = Forecaster(regressor, lags=1).fit(Y)
    assert_same(reloaded(model, tmp_path), model)
    again = reloaded(fitted("gp"), tmp_path)  # starts a refit
    assert_same(again.refit(Y[:35]), fitted("gp").refit(Y[:35]))
    noise = np.random.default_rng(0).standard_normal(40)
    growing = pd.Series(np.exp(np.arange(40) / 10 + 0.2 * noise), Y.index)
    refused = Forecaster().fit(growing).update(pd.Series([-1.0], EXOG.index[40:41]))
    again = reloaded(refused, tmp_path)  # by logarithms, which cannot take the value in
    assert_same(again, refused)
    assert refused.refused_
    assert again.choices_ == refused.choices_


def test_a_combination_is_the_same(tmp_path):
    members = [fitted("gp"), Forecaster(lags=1, transform="log")]
    inner = Combination(members, (1.0, 2.0))
    both = Combination([inner, Forecaster(lags=3)], "inverse_width", widest=3.0).fit(Y)
    both.update(pd.Series([-1.0], EXOG.index[40:41]))  # which a logarithm cannot take in
    again = reloaded(both, tmp_path)
    assert_same(again, both)
    assert again.refused_ == both.refused_
    np.testing.assert_array_equal(again.weights_, both.weights_)


INDICES = {
    "dst": pd.date_range("2024-03-20", periods=30, tz="Europe/Berlin", name="when"),
    "fixed": pd.date_range("2024-03-20", periods=30, freq="2h", tz="+05:30"),
    "seconds": pd.date_range("2024-03-20", periods=30, freq="D").as_unit("s"),
    "months": pd.date_range("2020-01-31", periods=30, freq="ME"),
    "weeks": pd.date_range("2020-01-01", periods=30, freq="2W-WED"),
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
    model = Forecaster(GPRegressor(lengthscales=1.0, noise_std=0.5), lags=1).fit(y)
    again = reloaded(model, tmp_path)
    ahead, other = model.forecast(3), again.forecast(3)
    pd.testing.assert_series_equal(ahead.mean, other.mean, rtol=1e-9)
    assert getattr(ahead.index, "freq", None) == getattr(other.index, "freq", None)
    new = pd.Series(1.0, ahead.index)
    pd.testing.assert_series_equal(
        again.update(new).forecast(2).std, model.update(new).forecast(2).std
    )


@pytest.mark.parametrize(("name", "columns"), [
    (np.float32(2.5), ["a", "b"]), (("a", 1), [("a", 1), ("b", 2)]), (float("inf"), [1, 2.5]),
    (pd.Timestamp("2024-01-01", tz="UTC"), ["a", "b"]), (pd.Period("2024-01"), [1, 2]),
], ids=repr)  # fmt: skip
def test_names(name, columns, tmp_path):
    labels = pd.MultiIndex.from_tuples(columns) if isinstance(columns[0], tuple) else columns
    exog = EXOG[:40].set_axis(labels, axis=1)
    model = Forecaster(lags=1).fit(Y.rename(name), exog=exog)
    history = reloaded(model, tmp_path).ensemble_.history
    assert history.name == name
    pd.testing.assert_index_equal(history.columns, exog.columns, exact=True)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937])
def test_generators_go_on_where_they_were(bits, tmp_path):
    model = Forecaster(lags=1, random_state=np.random.Generator(bits(4))).fit(Y)
    model.forecast(2, propagation="monte_carlo", n_samples=5)
    again = reloaded(model, tmp_path)
    a, b = (one.forecast(2, propagation="monte_carlo", n_samples=5) for one in (model, again))
    np.testing.assert_allclose(a.paths, b.paths, rtol=1e-9)


def test_a_file_is_an_npz_without_pickles_of_the_size_of_the_series(tmp_path):
    model = Forecaster(GPRegressor(lengthscales=3.0), lags=2).fit(series(400))
    for name in ("a.npz", "b"):
        model.save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert json.loads(bytes(archive["content"]))["version"] == 7
        arrays = [archive[name] for name in archive.files[1:]]
    assert all(array.dtype != object for array in arrays)
    assert sum(array.size for array in arrays) < 10 * 400


def test_a_file_of_the_first_format_says_how_to_bring_it_over(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(gzip.decompress((REFERENCE / "saved_model_1.npz.gz").read_bytes()))
    with pytest.raises(
        ValueError,
        match=r"path must name a file of format 7; got .*model.npz, of format 1.*\. Load it with "
        r"the version that wrote it, save its series .* and fit them here\.",
    ):
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
    (with_note, "model must have the attributes of Forecaster alone in a model .* got 'note'"),
    (lambda: Forecaster(lags=1).fit(Y.tz_localize(MINE)),
     "index must have .* a time zone and frequency with a name, .* got DatetimeIndex of .* mine"),
    (lambda: Forecaster(lags=1).fit(pd.Series(1.0 * np.arange(len(LATE)) % 5, LATE)),
     "index must have .* frequency with a name, in a model that is saved; got .* and <B"),
    (lambda: Forecaster(lags=1).fit(Y.rename(frozenset("a"))), "name must be of this package"),
    (lambda: Forecaster(lags=1).fit(Y, exog=EXOG[:40].set_axis(
        pd.CategoricalIndex(["a", "b"]), axis=1)), "columns must be of this package"),
    (lambda: Forecaster(lags=1).fit(Y, exog=EXOG[:40].set_axis(
        pd.Index([1, 2], dtype="Int64"), axis=1)),
     "columns must have text, numbers or times as labels.* got Index of Int64"),
])  # fmt: skip
def test_what_only_other_code_could_read_is_refused(make, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        make().save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_frequency_without_a_name_is_refused(tmp_path):
    easter = pd.date_range("1990-01-01", periods=30, freq=pd.offsets.Easter())
    model = Forecaster(lags=1).fit(Y[:30].set_axis(easter))
    with pytest.raises(TypeError, match="index must have .* frequency with a name.*<East"):
        model.save(tmp_path / "model.npz")


def test_a_path_is_needed():
    model = Forecaster(lags=2).fit(forecast_unc.datasets.load_nile()[:30])
    with pytest.raises(TypeError, match=r"path must be a str or a path; got None\. Name the file"):
        model.save(None)
    with pytest.raises(FileNotFoundError, match=r"got /no/x.npz; there is no /no\. Name one in a"):
        model.save("/no/x.npz")
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
    with pytest.raises(FileNotFoundError, match=r"nowhere.model\.npz; there is no .*nowhere\. "):
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
    """Bytes with the checksum that makes them ours."""
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
    yield sealed(pickle.dumps(Bomb()))
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones(3), b=np.array([Bomb()]))
    yield buffer.getvalue()
    yield sealed(buffer.getvalue())
    content, *arrays = members
    first = arrays[0][1]
    for name in ("a.npy", "../../0.npy", "/tmp/0.npy", "0.npy", "content.npy", "run.py"):
        yield zipped([*members, (name, first)])
        yield zipped([content, (name + "x", first), *arrays[1:]])
    yield zipped([])
    yield zipped(arrays)
    yield zipped([content])
    yield zipped([content, *arrays[:-1]])
    yield zipped([("content.npy", npy(np.frombuffer(b"{}", np.uint8))), content, *arrays])
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
        yield zipped([("content.npy", npy(np.frombuffer(text, np.uint8))), *arrays])
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
        header(shape % ("'<f8'", "(10000000,)")),
        header(shape % ("'<f8'", "(-1, -1)"), bytes(8)),
        header(shape % ("'<f8'", "__import__('os').system('touch RAN')")),
        header("(" * 3000),
        header("-" * 30000),
        b"\x93NUMPY\x02\x00" + bytes(100),
        b"",
    ):
        yield zipped([content, ("0.npy", first), *arrays[1:]])


def crafted(content, arrays):
    """Content of wrong kinds and shapes with a checksum that is right: the rest."""

    def changed(change):
        copied = json.loads(json.dumps(content))
        change(copied)
        return copied, arrays

    for key in content:
        if key != "written_by":
            yield changed(lambda new, key=key: new.pop(key))
            for wrong in (None, [], {"array": 0}, {"os.system": {"command": "touch RAN"}}):
                yield changed(lambda new, key=key, wrong=wrong: new.update({key: wrong}))
    for version in (0, 4, "1", 10**400, -1):
        yield changed(lambda new, version=version: new.update(version=version))
    for wrong in (
        {"tuple": {"range": [0, 10**15, 1]}},
        {"dict": {"range": [0, 10**15, 1]}},
        {"range": [0, 10**15, 1]},
        {"RangeIndex": {"start": 0, "stop": 10**15, "step": 1, "name": None}},
    ):
        yield changed(lambda new, wrong=wrong: history(new).update(index=wrong))
        yield changed(lambda new, wrong=wrong: specification(new).update(lags=wrong))
    for name, values in NO_NUMBERS.items():
        for wrong in values:
            yield changed(lambda new, name=name, wrong=wrong: process(new).update({name: wrong}))
    for wrong in (10**15, 10**400, None, 0.5, "1", {"float": "nan"}):
        yield changed(lambda new, wrong=wrong: specification(new).update(exog_lags=wrong))
        if not isinstance(wrong, int):
            yield changed(lambda new, wrong=wrong: averaging(new).update(look_ahead=wrong))
    for one in (np.append(arrays[0], 1.0), arrays[0][:-1], arrays[0][None]):
        yield content, [one, *arrays[1:]]
    for kind in ("os.system", "Popen", "DataFrame", "BayesianRidge", "object", "type", "", "eval"):
        yield changed(lambda new, kind=kind: new.update(model={kind: {}}))
        yield changed(lambda new, kind=kind: ensemble(new).update(learned={kind: {}}))
    for array in (-1 - len(arrays), len(arrays), "0", 0.0, None):
        yield changed(lambda new, array=array: history(new).update(y={"array": array}))
    for fields in (ensemble, history, regressor):
        yield changed(lambda new, at=fields: at(new).update(__class__="os.system"))
        yield changed(lambda new, at=fields: at(new).update(fit="os.system"))
        for field in fields(content):
            for wrong in ({"set": []}, {"array": len(arrays)}, {"Popen": {"args": "touch RAN"}}):
                yield changed(
                    lambda new, at=fields, field=field, wrong=wrong: at(new).update({field: wrong})
                )


NAN = {"float": "nan"}
NO_NUMBERS = {
    "amplitude": (NAN, "1", None, [1.0], {"array": 0}, {"range": [0, 9, 1]}),
    "noise_std": (NAN, "x", {"tuple": [1.0]}, {"dict": []}),
    "lengthscales": (NAN, 1.0, "x", [1.0], None),
}


def ensemble(content):
    return content["model"]["Forecaster"]["ensemble_"]["Ensemble"]


def history(content):
    return ensemble(content)["learned"]["History"]


def averaging(content):
    return ensemble(content)["rules"]["Rules"]["averaging"]["Averaging"]


def first_model(content):
    return dict(map(tuple, ensemble(content)["models"][0]["dict"]))


def specification(content):
    return first_model(content)["specification"]["Specification"]


def regressor(content):
    return first_model(content)["regressor"]["GPRegressor"]


def process(content):
    return regressor(content)["_process"]["GaussianProcess"]


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


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_each_damaged_file_is_one_clear_error_and_runs_no_code(
    whole, tmp_path, monkeypatch, audited, every
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda _: None)  # for each of them
    path = tmp_path / "m.npz"
    members, (content, arrays) = members_of(whole), saving._parsed(saving._read(whole))

    def made():
        yield from damaged(whole.read_bytes())
        yield from foreign(members)
        for one in crafted(content, arrays):
            saving._write(path, saving._sealed(*one))
            yield path.read_bytes()

    load_model(whole)  # what is imported only once
    count, modules = 0, set(sys.modules)
    for data in itertools.islice(made(), 0, None, every):
        path.write_bytes(data)
        audited.clear()
        with pytest.raises(ValueError, match=MESSAGE) as caught:
            load_model(path)
        ran = list(audited)
        assert caught.value.argument == "path"
        assert ran == []
        count += 1
    assert count >= 200 // every
    assert set(sys.modules) == modules
    assert not (tmp_path / "RAN").exists()


def flipped(data, bits):
    """A file with one bit the other way, for each of some bits."""
    for bit in bits:
        one = bytearray(data)
        one[bit // 8] ^= 1 << bit % 8
        yield bytes(one)


def bits_of(data):
    """All bits of the first header, of the zip and of its array, and 2,000 others."""
    header = 8 * data.index(b"{", data.index(b"}"))  # where the JSON begins
    return [*range(header), *np.random.default_rng(7).integers(header, 8 * len(data), 2000)]


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_no_file_is_read_that_lost_a_byte_or_a_bit(whole, every):
    good, path = whole.read_bytes(), whole.with_name("model.npz")
    at = np.arange(0, len(good), every)
    ends = (good[:end] for end in [*at[:300], *at[at % 7 == 0], *at[at > len(good) - 300]])
    for bad in (*ends, *flipped(good, bits_of(good)[::every])):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="^path must name a file written by"):
            load_model(path)


@pytest.mark.parametrize("every", [80, pytest.param(1, marks=pytest.mark.slow)])
def test_bits_that_are_flipped_under_a_new_digest_are_an_error_or_a_model(
    whole, tmp_path, audited, monkeypatch, every
):
    """As an adversary writes them: nothing runs, and no more memory is taken than a model takes."""
    monkeypatch.chdir(tmp_path)
    body, path = whole.read_bytes()[:-71], tmp_path / "model.npz"
    refused = 0
    load_model(whole)
    tracemalloc.start()
    try:
        for bad in flipped(body, bits_of(body)[::every]):
            path.write_bytes(sealed(bad))
            audited.clear()
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of arithmetic on digits that were changed
                try:
                    assert type(load_model(path)) is Forecaster
                except ValueError as error:
                    assert re.match(MESSAGE.replace("Save it again", ".*"), str(error))  # noqa: PT017
                    refused += 1
            assert audited == []
            assert tracemalloc.get_traced_memory()[1] - before < 2e6
    finally:
        tracemalloc.stop()
    assert refused > 1000 // every


def test_parts_that_share_their_bytes_are_not_read(whole, tmp_path):
    """A zip in which a thousand parts are the same million bytes."""
    big = npy(np.zeros(10**5))
    data = bytearray(zipped([("content.npy", big)])[:-71])
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry, count = bytes(data[start:end]), 1000
    tail = bytearray(data[end:])
    tail[8:16] = struct.pack("<HHI", count, count, count * len(entry))
    (tmp_path / "model.npz").write_bytes(sealed(bytes(data[:start]) + count * entry + tail))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=MESSAGE):
            load_model(tmp_path / "model.npz")
        assert tracemalloc.get_traced_memory()[1] < 6 * len(data)
    finally:
        tracemalloc.stop()


def test_a_later_format_says_so_and_fields_with_defaults_may_be_missing(whole, tmp_path):
    content, arrays = saving._parsed(saving._read(whole))
    later = content | {"version": 8, "written_by": "9.1"}
    saving._write(tmp_path / "m.npz", saving._sealed(later, arrays))
    with pytest.raises(ValueError, match=r"of format 8, by forecast_unc 9.1, .* reads format 7"):
        load_model(tmp_path / "m.npz")
    del content["model"]["Forecaster"]["outliers"]
    del ensemble(content)["rules"]["Rules"]["averaging"]["Averaging"]["look_ahead"]
    saving._write(tmp_path / "m.npz", saving._sealed(content, arrays))
    assert_same(load_model(tmp_path / "m.npz"), load_model(whole))


FORGED = [
    ("lags", [10**8]),
    ("lags", [0]),
    ("lags", ["1"]),
    ("differences", [10**8]),
    ("periods", [10**9]),
    ("transform", 5),
    ("prior_mean", 3),
    ("noise", None),
    ("calendar", 10**8),
    ("regressor", {"History": None}),
    ("exog_lags", 10**8),
    ("weight", "1"),
    ("scale", 1e300),
    ("scale", -1.0),
    ("shift", 1e300),
]


def test_fields_beyond_their_type_or_range_are_refused(whole, tmp_path):
    """A lag of 1e8 asked for 24 GB, and rules of another type failed at the forecast."""
    content, arrays = saving._parsed(saving._read(whole))
    cases: list = list(FORGED)
    cases += [
        (field, value) for field in ("rules", "refused", "models") for value in (3, "x", None)
    ]
    tracemalloc.start()
    try:
        for field, value in cases:
            forged = copy.deepcopy(content)
            parts = ensemble(forged)
            if field not in parts:
                (model,) = parts["models"]
                learned = dict(model["dict"])
                parts = learned["specification"]["Specification"]
                scaled = learned["differencing"]["Differencing"]
                parts = scaled if field in scaled and field not in parts else parts
            parts[field] = {"tuple": value} if isinstance(value, list) else value
            saving._write(tmp_path / "m.npz", saving._sealed(forged, arrays))
            with pytest.raises(ArgumentError, match="Save it again"):
                load_model(tmp_path / "m.npz")
        assert tracemalloc.get_traced_memory()[1] < 1e7
    finally:
        tracemalloc.stop()


def test_members_of_another_kind_are_refused(tmp_path):
    model = Combination([Forecaster(LinearRegressor(), lags=1)]).fit(Y[:20])
    model.save(tmp_path / "m.npz")
    content, arrays = saving._parsed(saving._read(tmp_path / "m.npz"))
    for members in ([], ["x"], [None]):
        content["model"]["Combination"]["forecasters_"] = members
        saving._write(tmp_path / "m.npz", saving._sealed(content, arrays))
        with pytest.raises(ArgumentError):
            load_model(tmp_path / "m.npz")
