"""Panels on a Dask cluster: two worker processes of one thread each."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

from forecast_unc import Forecaster, GPRegressor, backtest_panel, baselines, forecast_panel
from forecast_unc.panels import jobs
from forecast_unc.panels.panel_forecast import FailedSeriesWarning

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    # what a dead worker had is run again by the panel, not by Dask, which would kill four
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture
def panel(rng: np.random.Generator) -> pd.DataFrame:
    return many(rng, 6, 30)


def many(rng: np.random.Generator, n: int, length: int) -> pd.DataFrame:
    """Random walks by the month, one after the other."""
    months = pd.date_range("2020-01-01", periods=length, freq="MS")
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i:04d}" for i in range(n)], length),
            "ds": np.tile(months, n),
            "y": rng.standard_normal((n, length)).cumsum(axis=1).ravel(),
        }
    )


def test_the_figures_are_those_of_the_serial_run(client, panel):
    model = Forecaster(GPRegressor(lengthscales=3.0), lags=2, random_state=0)
    panel.loc[panel["unique_id"] == "s0003", "y"] = 1.0
    arguments = {"steps": 3, "propagation": "monte_carlo"}
    with pytest.warns(FailedSeriesWarning, match="1 of 6 series"):
        serial = forecast_panel(panel, model, **arguments)
    with (
        parallel_config(backend="dask"),
        pytest.warns(
            FailedSeriesWarning, match="1 of 6 series, .*: 's0003': ValueError: y must var"
        ),
    ):
        result = forecast_panel(panel, model, **arguments)
    pd.testing.assert_frame_equal(result, serial, check_exact=True)


def test_the_backtest_is_that_of_the_serial_run(client, panel):
    model = Forecaster(GPRegressor(lengthscales=3.0), lags=2)
    arguments = {"steps": 2, "n_origins": 3, "compare": {"naive": baselines.SeasonalNaive()}}
    serial = backtest_panel(panel, model, **arguments)
    with parallel_config(backend="dask"):
        result = backtest_panel(panel, model, **arguments)
    pd.testing.assert_frame_equal(result.frame, serial.frame, check_exact=True)
    pd.testing.assert_frame_equal(result.joint, serial.joint, check_exact=True)


class Here(baselines.SeasonalNaive):
    """Fails with the process that it is in."""

    def fit(self, y, exog=None):
        raise ValueError(f"in process {os.getpid()}")


def test_the_work_is_done_by_the_workers(client, panel):
    with parallel_config(backend="dask"), pytest.warns(FailedSeriesWarning, match="6 of 6"):
        result = forecast_panel(panel, Here(), 1)
    workers = set(client.run(os.getpid).values())
    assert os.getpid() not in workers
    assert set(result["error"]) <= {f"ValueError: in process {worker}" for worker in workers}


class Kills(baselines.SeasonalNaive):
    """Kills its own process for one series, once Dask has seen that it runs."""

    def fit(self, y, exog=None):
        if y.name == "s0003":
            time.sleep(1.0)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(y, exog)


class DaskDistributedBackend:
    """As joblib's: its futures get an exception, and the callback is for results alone."""

    def __init__(self):
        self.client = self

    def submit(self, func, callback):
        future = Future()
        try:
            future.set_result(func())
            callback(func())
        except ValueError as error:
            future.set_exception(error)
        return future

    def ncores(self):
        """One more core each time."""
        self.asked = getattr(self, "asked", -1) + 1
        return {"worker": self.asked}


def test_tasks_that_dask_gave_up_are_reported(monkeypatch):
    backend, heard = DaskDistributedBackend(), []
    monkeypatch.setattr(jobs, "get_active_backend", lambda: (backend, 2))
    gone = ValueError("gone")

    def fails():
        raise gone

    with jobs._dask_reports_failures():
        backend.submit(lambda: 3, heard.append)
        backend.submit(fails, heard.append)
    assert heard == [3, gone]
    backend.submit(fails, heard.append)
    assert heard == [3, gone]
    jobs._await_dask()
    assert backend.asked == 2


def test_what_killed_a_worker_is_not_tried_in_the_callers_process():
    _, outcome = jobs._outcome(str, 0, 1, jobs._process(), True)
    assert outcome.value is None
    assert outcome.error.startswith("the worker process died that had this series, and none was le")


@pytest.mark.slow
def test_a_series_that_kills_its_workers_is_a_row(client, panel):
    serial = forecast_panel(panel, baselines.SeasonalNaive(), 2)
    with parallel_config(backend="dask"), pytest.warns(FailedSeriesWarning, match="1 of 6"):
        result = forecast_panel(panel, Kills(), 2)
    failed = result["error"].notna()
    assert result["unique_id"][failed].tolist() == ["s0003"] * 2
    assert result["error"][failed].str.startswith("the worker process died twice").all()
    assert result["forecast_unc"].notna().all()
    others = serial[serial["unique_id"] != "s0003"].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        result[~failed].reset_index(drop=True), others, check_exact=True, check_dtype=False
    )


def forecast_part(part: pd.DataFrame) -> pd.DataFrame:
    part = part.sort_values(["unique_id", "ds"])  # of which a shuffle does not keep the order
    ahead = forecast_panel(part, baselines.SeasonalNaive(), 2, levels=(90,), freq="MS")
    return ahead.astype(
        dict.fromkeys(["error", "status", "notes"], "string")
    )  # of object columns Dask cannot tell the type


@pytest.mark.slow
def test_a_file_is_forecast_a_part_at_a_time(client, rng, tmp_path: Path):
    """The recipe of docs/how_to/panels.md: 60 series, cut in two by the row groups of a file."""
    frame = many(rng, 60, 12)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 5)):
        (tmp_path / "sales").mkdir(exist_ok=True)
        frame.iloc[part].to_parquet(tmp_path / "sales" / f"{number}.parquet", index=False)
    parts = dd.read_parquet(tmp_path / "sales").shuffle("unique_id", npartitions=3)
    meta = forecast_part(parts.head(0))
    parts.map_partitions(forecast_part, meta=meta).to_parquet(
        tmp_path / "forecasts", write_index=False
    )
    result = pd.read_parquet(tmp_path / "forecasts").sort_values(["unique_id", "ds"])
    assert result["error"].isna().all()
    assert len(result) == 120
    some = frame["unique_id"].isin(["s0000", "s0037", "s0059"])
    wanted = forecast_part(frame[some])
    found = result[result["unique_id"].isin(wanted["unique_id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_dtype=False)
