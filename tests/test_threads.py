"""Small problems get one BLAS thread, and what was before comes back."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from forecast_unc import GPRegressor, ReducedRankGPRegressor, RVMClassifier, RVMRegressor
from forecast_unc._threads import MANY_ROWS, blas_threads
from forecast_unc.regression import gp, gp_base
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import ReducedRankEvidence
from forecast_unc.regression.rvm import rvm, rvm_classifier
from forecast_unc.regression.rvm.sequential import SequentialTrainer


def threads() -> set[int]:
    """Numbers of threads of the BLAS libraries loaded, NumPy's and SciPy's."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def set_threads(number: int | None) -> None:
    """Set them from a thread that ends: threadpoolctl obeys one living thread at a time."""
    thread = threading.Thread(
        target=threadpool_limits, kwargs={"limits": number, "user_api": "blas"}
    )
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = threads()
    set_threads(2)
    if threads() != {2}:
        pytest.skip("needs a BLAS whose threads can be set")
    yield
    set_threads(max(before))


def test_a_small_problem_gets_one_thread_and_a_large_one_all():
    with blas_threads(MANY_ROWS - 1):
        assert threads() == {1}
    assert threads() == {2}
    with blas_threads(MANY_ROWS):
        assert threads() == {2}
        with blas_threads(10):
            assert threads() == {1}
        assert threads() == {2}


def test_the_outermost_limit_is_the_one_that_counts():
    with blas_threads(10):
        with blas_threads(10), blas_threads(MANY_ROWS):
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


def test_threads_are_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), blas_threads(10):
        _ = 1 / 0
    assert threads() == {2}
    with blas_threads(10):
        assert threads() == {1}


def test_a_user_limit_is_never_raised():
    with threadpool_limits(1, user_api="blas"):
        for n_rows in (10, MANY_ROWS):
            with blas_threads(n_rows):
                assert threads() == {1}
        assert threads() == {1}


def test_threads_that_overlap_leave_no_limit_behind():
    # who enters second and leaves last must not take the first one's limit for the state before
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    seen = []

    def first():
        with blas_threads(10):
            first_in.set()
            assert second_in.wait(60)
            seen.append(threads())
        seen.append(threads())
        first_out.set()

    def second():
        assert first_in.wait(60)
        with blas_threads(10):
            second_in.set()
            assert first_out.wait(60)
        seen.append(threads())

    workers = [threading.Thread(target=target) for target in (first, second)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [{1}, {2}, {2}]


def test_many_fits_in_threads_leave_no_limit_behind():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    Parallel(n_jobs=4, backend="threading")(delayed(GPRegressor().fit)(X, y) for _ in range(20))
    assert threads() == {2}
    with blas_threads(10):
        assert threads() == {1}


@pytest.mark.parametrize(
    ("module", "name", "model"),
    [
        (gp.GaussianProcessEvidence, "__call__", GPRegressor()),
        (gp_base.GaussianProcess, "posterior", GPRegressor()),
        (ReducedRankEvidence, "__call__", ReducedRankGPRegressor()),
        (SequentialTrainer, "fit", RVMRegressor()),
        (rvm, "weight_posterior", RVMRegressor()),
        (rvm_classifier, "_train", RVMClassifier()),
    ],
    ids=[
        "GP search",
        "GP posterior",
        "reduced-rank search",
        "RVM search",
        "RVM posterior",
        "RVM classifier",
    ],
)
def test_a_fit_of_few_rows_runs_on_one_thread(module, name, model, monkeypatch):
    seen, original = [], getattr(module, name)

    def spied(*args, **kwargs):
        seen.append(threads())
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, spied)
    X = np.linspace(-2, 2, 30)[:, None]
    model.fit(X, (X[:, 0] > 0.3).astype(float))
    assert seen
    assert all(each == {1} for each in seen)
    assert threads() == {2}
