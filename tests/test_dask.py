"""Panels on a Dask cluster: two worker processes of one thread each."""

import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from tqdm import tqdm

from forecast_unc import Forecaster, GPRegressor, backtest_panel, baselines, forecast_panel
from forecast_unc.panels import jobs
from forecast_unc.panels.panel_forecast import FailedSeriesWarning

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
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
    pd.testing.assert_frame_equal(result, serial, rtol=1e-6)


@pytest.mark.slow
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


def test_the_work_is_done_by_the_workers(client, rng):
    """In batches of two."""
    panel = many(rng, 130, 12)
    with parallel_config(backend="dask"), pytest.warns(FailedSeriesWarning, match="130 of 130"):
        result = forecast_panel(panel, Here(), 1)
    assert result["unique_id"].tolist() == panel["unique_id"].unique().tolist()
    workers = set(client.run(os.getpid).values())
    assert os.getpid() not in workers
    assert set(result["error"]) <= {f"ValueError: in process {worker}" for worker in workers}


class Kills(baselines.SeasonalNaive):
    """Kills its own process for one series so many times, once Dask has seen that it runs."""

    def __init__(self, folder=None, times=None, seasonal_period=None):
        super().__init__(seasonal_period)
        self.folder, self.times = folder, times

    def fit(self, y, exog=None):
        deaths = len(list(self.folder.iterdir()))
        if y.name == "s0003" and deaths < self.times:
            (self.folder / str(deaths)).touch()
            time.sleep(1.0)  # a worker that dies while it starts is not started again
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(y, exog)


@pytest.mark.parametrize("times", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_what_a_dead_worker_had_is_run_again_by_dask(client, panel, tmp_path, times):
    """A series whose workers die once more than Dask allows is a row with an error."""
    serial = forecast_panel(panel, baselines.SeasonalNaive(), 2)
    with warnings.catch_warnings(record=True) as caught, parallel_config(backend="dask"):
        warnings.simplefilter("always", FailedSeriesWarning)
        result = forecast_panel(panel, Kills(tmp_path, times), 2)
    failed = result["error"].notna()
    if times == 1:
        assert caught == []
        assert not failed.any()
    else:
        assert len(list(tmp_path.iterdir())) == 4  # twice among others, twice alone
        assert "1 of 6" in str(caught[0].message)
        assert result["unique_id"][failed].tolist() == ["s0003"] * 2
        assert result["error"][failed].str.contains("died each time that Dask gave it").all()
        assert result["forecast_unc"].notna().all()
    others = serial[~failed].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        result[~failed].reset_index(drop=True), others, check_exact=True, check_dtype=False
    )


def test_without_a_worker_no_series_waits_for_ever(panel, monkeypatch):
    monkeypatch.setattr(jobs, "_PATIENCE", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
        pytest.warns(FailedSeriesWarning, match="6 of 6"),
    ):
        result = forecast_panel(panel, baselines.SeasonalNaive(), 2)
    assert result["error"].str.startswith("Dask had no worker for this series").all()


def fails(*arguments, **named):
    raise OSError("not in the work itself")


def test_other_errors_of_the_workers_are_those_of_the_caller(client, monkeypatch):
    monkeypatch.setattr(jobs, "_batch", fails)
    with parallel_config(backend="dask"), pytest.raises(OSError, match="not in the work itself"):
        jobs.run_jobs(str, [1], n_jobs=2, bar=tqdm(disable=True))


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
