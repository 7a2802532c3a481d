"""Kernel sets that cannot be run are told from those that can, and failures are passed on."""

import subprocess
import sys

import pytest

from tests import cpus


def answers(monkeypatch, **given):
    """Let every subprocess end with what is given; return the list of their (argv, env)."""
    asked = []

    def ended(argv, *, env, **_):
        asked.append((argv, env))
        return subprocess.CompletedProcess(argv, **({"stdout": "", "stderr": ""} | given))

    monkeypatch.setattr(subprocess, "run", ended)
    return asked


def test_kernels_that_openblas_does_not_have_are_found_out():
    # OpenBLAS takes the processor's own in their place, without a word
    assert "OpenBLAS" in (cpus.obstacle("NoSuchKernels") or "")


def test_kernels_that_the_processor_cannot_run_are_found_out(monkeypatch):
    answers(monkeypatch, returncode=-4)
    assert cpus.obstacle("SkylakeX") == "this processor cannot run them (exit code -4)"


@pytest.mark.parametrize(("kernels", "name"), [("Haswell", "Haswell"), ("Prescott", "Katmai")])
def test_kernels_go_by_their_names(kernels, name, monkeypatch):
    asked = answers(monkeypatch, returncode=0, stdout=f"{name}\n")
    assert cpus.obstacle(kernels) is None
    assert [env["OPENBLAS_CORETYPE"] for _, env in asked] == [kernels]
    assert cpus.obstacle("Nehalem") == f"not in this OpenBLAS, which takes {name} instead"


def test_a_failure_is_passed_on_with_what_failed(monkeypatch, capsys):
    stdout = "..F\nFAILED tests/test_a.py::test_b - assert False\n1 failed, 2 passed in 1.00s\n"
    asked = answers(monkeypatch, returncode=1, stdout=stdout)
    assert not cpus.run("Haswell", 1, numerical=True)
    assert capsys.readouterr().out == (
        "Haswell,      1 thread: 1 failed, 2 passed in 1.00s\n"
        "FAILED tests/test_a.py::test_b - assert False\n"
    )
    ((argv, env),) = asked
    assert "--ignore=tests/test_docs.py" in argv
    assert (env["OPENBLAS_CORETYPE"], env["OPENBLAS_NUM_THREADS"]) == ("Haswell", "1")


def test_all_kernel_sets_and_two_threads_are_run(monkeypatch):
    runs = []
    monkeypatch.setattr(cpus, "obstacle", lambda kernels: "no" if kernels == "SkylakeX" else None)
    monkeypatch.setattr(cpus, "run", lambda *given: runs.append(given) or given[0] != "Nehalem")
    monkeypatch.setattr(sys, "argv", ["cpus.py"])
    assert cpus.main() == 1
    assert runs == [
        ("Haswell", 1, False),
        ("Sandybridge", 1, False),
        ("Nehalem", 1, False),
        ("Prescott", 1, False),
        (None, 2, False),
    ]


def test_what_is_left_out_of_the_numerical_part_exists():
    assert [n for n in cpus.OTHER if not (cpus.ROOT / f"tests/test_{n}.py").exists()] == []
