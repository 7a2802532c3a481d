"""Faults and load: killed workers, interrupts, full disks, threads, memory. Nothing is lost."""

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    LinearRegressor,
    ReducedRankGPRegressor,
    RVMClassifier,
    RVMRegressor,
    backtest,
    baselines,
    datasets,
    forecast_panel,
    load_model,
)
from forecast_unc.cli import main
from forecast_unc.distributions import page
from forecast_unc.errors import ArgumentError
from forecast_unc.forecasting import forecaster

resource = pytest.importorskip("resource", reason="limits and signals of POSIX")

NILE = datasets.load_nile()
DATA = str(Path(__file__).parents[1] / "datasets" / "nile.csv")
COLUMNS = ("--time", "time", "--target", "nile")


def panel(n_series, n=12):
    """Rows of walks, long."""
    values = np.random.default_rng(0).standard_normal((n_series, n)).cumsum(axis=1)
    ids = np.repeat([f"s{i:04}" for i in range(n_series)], n)
    days = np.tile(pd.date_range("2024", periods=n).to_numpy(), n_series)
    return pd.DataFrame({"unique_id": ids, "ds": days, "y": values.ravel()})


# --- workers that are killed


class Slow(baselines.Naive):
    """Some milliseconds a series, so that there is time to kill."""

    def fit(self, y):
        time.sleep(0.005)
        return super().fit(y)


def children():
    """Processes of this one that joblib works with."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            command = stat.with_name("cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == os.getpid() and b"popen_loky" in command:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers by /proc")
@pytest.mark.filterwarnings("ignore:the model failed for")
def test_2000_series_are_answered_once_whoever_is_killed():
    frame, over, killed = panel(2000), threading.Event(), []
    expected = forecast_panel(frame, baselines.Naive(), 2)

    def kills():
        rng = np.random.default_rng()
        while not over.wait(rng.uniform(1, 4)) and len(killed) < 4:
            for worker in rng.permutation(children())[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    killer = threading.Thread(target=kills)
    killer.start()
    try:
        result = forecast_panel(frame, Slow(), 2, n_jobs=2)
    finally:
        over.set()
        killer.join()
    assert killed
    pd.testing.assert_frame_equal(result.iloc[:, :2], expected.iloc[:, :2])
    blamed = result["error"].notna()  # alone with the workers when they were killed, twice
    assert result.loc[blamed, "error"].str.startswith("the worker process died twice").all()
    assert blamed.sum() <= 2 * len(killed)
    pd.testing.assert_frame_equal(result[~blamed], expected[~blamed], check_exact=True)


# --- an interrupt


PANEL = """
import sys, time, numpy as np, pandas as pd
from forecast_unc import baselines, forecast_panel
from forecast_unc.panels import checkpoints

class Slow(baselines.Naive):
    def fit(self, y):
        time.sleep(0.05)
        return super().fit(y)

checkpoints.SIZE = 10
days = np.tile(pd.date_range("2024", periods=12).to_numpy(), 1000)
ids = np.repeat(np.arange(1000), 12)
frame = pd.DataFrame({"unique_id": ids, "ds": days, "y": np.arange(12000.0) % 7})
forecast_panel(frame, Slow(), 2, n_jobs=JOBS, output=sys.argv[1])
"""
FIT = """
import sys, numpy as np, pandas as pd
from pathlib import Path
from forecast_unc import Forecaster, GPRegressor
Path(sys.argv[1], "part-begun.parquet").touch()
MODEL.fit(pd.Series(np.random.default_rng(0).standard_normal(2000).cumsum()))
"""
LONG = {
    "panel": PANEL.replace("JOBS", "1"),
    "jobs": PANEL.replace("JOBS", "2"),
    "gp": FIT.replace("MODEL", "Forecaster(lags=12)"),
    "restarts": FIT.replace("MODEL", "Forecaster(GPRegressor(n_restarts=99), lags=9)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_an_interrupt_ends_at_once_and_keeps_what_is_done(name, tmp_path):
    """Within two seconds; four times as many processes as cores took 1.7."""
    run = subprocess.Popen(
        [sys.executable, "-c", LONG[name], tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not list(tmp_path.glob("part-*.parquet")):
        assert run.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    begun = time.monotonic()
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does, to the workers too
    err = run.communicate()[1]
    assert time.monotonic() - begun < 2
    assert run.returncode == -signal.SIGINT
    assert err.rstrip().endswith(b"KeyboardInterrupt")
    if name in ("panel", "jobs"):
        done = pd.read_parquet(tmp_path)
        assert len(done) % 20 == 0
        assert done["unique_id"].is_monotonic_increasing


# --- a disk that is full, and a folder that is none


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 100 bytes: the error of a full disk, without one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


FITTED = Forecaster(lags=2).fit(NILE)
TESTED = backtest(baselines.Naive(), NILE, 4, origins=2)


def by_command(command, *more):
    """What writes a file by a command line on the Nile."""

    def write(path):
        options = ["--steps", "4", *COLUMNS, *more, str(path)]
        with redirect_stderr(StringIO()) as err, redirect_stdout(StringIO()):
            if main([command, DATA, *options]) == 2:
                raise OSError(err.getvalue())

    return write


FORECAST = ("--lags", "2")
WRITERS = {
    "m.npz": FITTED.save,
    "r.html": TESTED.report,
    "f.csv": by_command("forecast", *FORECAST, "--output"),
    "f.csv.gz": by_command("forecast", *FORECAST, "--output"),
    "f.parquet": by_command("forecast", *FORECAST, "--output"),
    "f.png": by_command("forecast", *FORECAST, "--plot"),
    "f.svg": by_command("forecast", *FORECAST, "--plot"),
    "n.npz": by_command("forecast", *FORECAST, "--save"),
    "b.html": by_command("backtest", *FORECAST, "--origins", "2", "--report"),
}


@pytest.fixture
def no_pictures(monkeypatch):
    """Pages without drawings, nine tenths of their cost: the file is written at the end, whole."""
    monkeypatch.setattr(page, "picture", lambda draw: "")


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_an_error_and_leaves_the_old_file(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)  # what is imported once
    path.write_bytes(b"mine")
    with full_disk(), pytest.raises(OSError, match=f"File too large: '?{path}"):
        WRITERS[name](path)
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_in_the_place_of_a_folder_is_an_error(name, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=str(tmp_path / "file" / name)):
        WRITERS[name](tmp_path / "file" / name)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_parts_of_a_panel_on_a_full_disk_are_whole_or_absent(tmp_path):
    frame, folder = panel(3), tmp_path / "parts"
    with full_disk(), pytest.raises(OSError, match="File too large: .*part-00000"):
        forecast_panel(frame, baselines.Naive(), 2, output=folder)
    assert list(folder.iterdir()) == []
    result = forecast_panel(frame, baselines.Naive(), 2, output=folder)
    pd.testing.assert_frame_equal(result, forecast_panel(frame, baselines.Naive(), 2))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        forecast_panel(frame, baselines.Naive(), 2, output=tmp_path / "file")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_that_is_full_is_one_line_each_time():
    program = (
        "import sys; from forecast_unc.cli import main\n"
        "codes = [main([*sys.argv[1:], *more]) for more in ([], ['--output', '-'])]\n"
        "sys.exit(codes[0] if codes[0] == codes[1] else 1)\n"
    )
    options = ["--steps", "4", *COLUMNS, "--lags", "2"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-c", program, "forecast", DATA, *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert run.stderr == 2 * b"forecast-unc: [Errno 28] No space left on device\n"
    assert run.returncode == 2


# --- threads


FORECASTERS = {
    "gp": Forecaster(lags=2),
    "gaps": Forecaster(lags=2, noise="observation"),
    "rvm": Forecaster(RVMRegressor(variance="augmented"), lags=2),
    "reduced rank": Forecaster(ReducedRankGPRegressor(n_support=8), lags=2),
    "automatic": Forecaster(),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n != "gp" else []) for n in FORECASTERS],
)
def test_sixteen_threads_on_one_model_give_the_serial_answers(name):
    y = NILE.where(np.arange(len(NILE)) != 97) if name == "gaps" else NILE
    model = clone(FORECASTERS[name]).fit(y)
    kinds = ("auto", "taylor", "monte_carlo", "naive")

    def answers(at):
        kind = kinds[at % 4]
        ahead = model.forecast(2 + at % 3, propagation=kind, n_samples=20, random_state=at % 4)
        return ahead.cov, ahead.quantile([0.1, 0.9]), ahead.sample(5, 0)

    serial = [answers(at) for at in range(12)]
    with ThreadPoolExecutor(16) as threads:
        for at, found in enumerate(threads.map(answers, range(48))):
            for one, other in zip(found, serial[at % 12], strict=True):
                # not bit for bit: BLAS of two threads splits a product as the threads are free
                pd.testing.assert_frame_equal(one, other, rtol=1e-6)


# --- memory


def peak_of(call):
    """Bytes that a call takes beside what was there."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ROWS = np.zeros((10**6, 1))
WALK = pd.Series(np.random.default_rng(0).standard_normal(10**5).cumsum())
TOO_MUCH = [
    (lambda: GPRegressor().fit(ROWS, ROWS[:, 0]), "X"),
    (lambda: RVMRegressor().fit(ROWS, ROWS[:, 0]), "X"),
    (lambda: Forecaster(GPRegressor(), lags=2).fit(WALK), "max_train"),
    (lambda: FITTED.forecast(10**7), "steps"),
    (lambda: FITTED.forecast(10, n_samples=10**9), "n_samples"),
    (lambda: FITTED.forecast(4).sample(10**9), "n"),
]


def test_what_takes_too_much_memory_is_refused_before_the_work():
    for call, argument in TOO_MUCH:

        def refused(call=call, argument=argument):
            with pytest.raises(ArgumentError) as caught:
                call()
            assert caught.value.argument == argument

        assert peak_of(refused) < 10 * ROWS.nbytes


def test_updates_keep_the_window_and_the_most_values_alone(monkeypatch, tmp_path):
    """43 bytes a value are kept, and no row that left."""
    monkeypatch.setattr(forecaster, "_MOST_KEPT", 300)
    model = Forecaster(GPRegressor(lengthscales=3.0), lags=2, max_train=50).fit(WALK[:100])
    whole = clone(model).fit(WALK[:100])
    model.update(WALK[100:101])
    tracemalloc.start()
    try:
        sizes = []
        for start in range(101, 4101, 100):
            model.update(WALK[start : start + 100])
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert model.models_[0].n_rows == 50
    assert sizes[-1] - sizes[9] < 43 * 100 * 15
    assert "last 50 rows" in model.summary()
    assert model.notes_ == ["forgotten: the 3,801 values before 3801"]
    assert len(model.ensemble_.history.y) == 300
    model.save(tmp_path / "model.npz")
    monkeypatch.undo()
    whole.update(WALK[100:4101])
    assert not whole.notes_
    for one in (model, load_model(tmp_path / "model.npz")):
        assert one.notes_ == model.notes_
        np.testing.assert_allclose(one.forecast(3).cov, whole.forecast(3).cov, rtol=1e-9)


def test_a_fit_is_kept_whole_when_updates_forget(monkeypatch):
    monkeypatch.setattr(forecaster, "_MOST_KEPT", 90)
    model = Forecaster(LinearRegressor(), lags=2, outliers="keep").fit(WALK[:100])
    assert not model.notes_
    model.update(WALK[100:103])
    assert len(model.ensemble_.history.y) == 100
    assert model.notes_ == ["forgotten: the 3 values before 3"]


def test_a_posterior_that_is_updated_grows_to_the_most_rows_alone(monkeypatch):
    monkeypatch.setattr(GPRegressor, "most_rows", 60)
    gp = GPRegressor(lengthscales=3.0)
    model = Forecaster(gp, lags=2).fit(WALK[:60]).update(WALK[60:70])
    windowed = Forecaster(gp, lags=2, max_train=60).fit(WALK[:60]).update(WALK[60:70])
    assert "last 60 rows" in model.summary()
    np.testing.assert_allclose(model.forecast(3).cov, windowed.forecast(3).cov, rtol=1e-9)


# --- a call that raises


X = np.linspace(-1.0, 1.0, 30)[:, None]
BAD = np.where(np.arange(30) == 7, np.nan, X[:, 0])
REGRESSORS = [
    GPRegressor(),
    LinearRegressor(),
    ReducedRankGPRegressor(n_support=6),
    RVMRegressor(),
]


@pytest.mark.parametrize("regressor", REGRESSORS, ids=repr)
def test_a_regressor_whose_fit_or_condition_fails_is_as_it_was(regressor):
    model = clone(regressor).fit(X, np.sin(3 * X[:, 0]) + 0.1 * np.cos(40 * X[:, 0]))
    before = model.predict(X, return_std=True)
    for wrong in (lambda: model.fit(X, BAD), lambda: model.fit(X[:, :0], X[:, 0])):
        with pytest.raises(ValueError, match="."):
            wrong()
        np.testing.assert_array_equal(model.predict(X, return_std=True), before)
    with pytest.raises(ValueError, match="."):
        model.condition(X, BAD)
    np.testing.assert_array_equal(model.predict(X, return_std=True), before)


def test_a_classifier_whose_fit_fails_is_as_it_was():
    model = RVMClassifier().fit(X, X[:, 0] > 0.1)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="."):
        model.fit(X, np.zeros(30))
    np.testing.assert_array_equal(model.predict_proba(X), before)


MODELS = [
    baselines.Naive(),
    baselines.Drift(),
    baselines.SeasonalNaive(4),
    baselines.AutoReg(2),
    baselines.ETS(),
    baselines.Theta(),
    Combination([Forecaster(lags=1), baselines.Naive()]),
    Forecaster(lags=2),
    Forecaster(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_whose_fit_fails_forecasts_as_before(model):
    model = clone(model).fit(NILE)
    before = model.forecast(4)
    for wrong in (NILE[:1], NILE.astype(str), NILE.iloc[::-1], NILE * np.inf, NILE.to_frame()[[]]):
        with pytest.raises((ValueError, TypeError), match="must"):
            model.fit(wrong)
        after = model.forecast(4)
        pd.testing.assert_series_equal(after.mean, before.mean, check_exact=True)
        pd.testing.assert_frame_equal(after.cov, before.cov, check_exact=True)


def test_a_forecast_of_which_a_call_fails_is_as_it_was():
    ahead = FITTED.forecast(4)
    before = [ahead.mean.copy(), ahead.cov.copy(), ahead.quantile([0.2, 0.7])]
    for wrong in (
        lambda: ahead.quantile(2.0),
        lambda: ahead.condition(pd.Series([np.nan], ahead.index[:1])),
        lambda: ahead.aggregate("median"),
        lambda: ahead.sample(0),
        lambda: ahead.censored(np.inf),
        lambda: ahead.recalibrated(-1.0),
    ):
        with pytest.raises((ValueError, TypeError), match="must"):
            wrong()
    with suppress(ValueError):  # read-only from pandas 3 on
        ahead.mean.to_numpy()[:] = 0.0
    for one, other in zip(before, [ahead.mean, ahead.cov, ahead.quantile([0.2, 0.7])], strict=True):
        (pd.testing.assert_series_equal if one.ndim == 1 else pd.testing.assert_frame_equal)(
            one, other, check_exact=True
        )


KILLED = """
import os, signal, sys
from forecast_unc._files import whole_file

with whole_file(sys.argv[1]) as unfinished:
    unfinished.write_bytes(b"0" * 1000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_save_leaves_is_removed_by_the_next(tmp_path):
    path = tmp_path / "model.npz"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    left = list(tmp_path.iterdir())
    assert len(left) == 1
    assert left[0].name.startswith(".model.npz.")
    of_other_file, of_this_process = (tmp_path / f".{name}.x" for name in ("other", "model.npz"))
    of_other_file.mkdir()
    living = left[0].with_name(f"{left[0].name.rsplit('-', 2)[0]}-{os.getpid()}-x")
    living.mkdir()
    of_this_process.mkdir()
    Forecaster(LinearRegressor(), lags=1).fit(NILE).save(path)
    kept = {path, of_other_file, of_this_process, living}
    assert set(tmp_path.iterdir()) == kept


def test_an_update_by_revised_values_names_the_way():
    model = Forecaster(LinearRegressor(), lags=1).fit(NILE[:50])
    for new in (NILE[45:52] * 1.1, NILE[52:54]):
        with pytest.raises(ArgumentError) as caught:
            model.update(new)
        assert caught.value.argument == "y_new"
        assert "apply(corrected)" in caught.value.context
    corrected = NILE[:52] * 1.1
    moved = model.apply(corrected).forecast(1)
    assert moved.index[0] == NILE.index[52]
