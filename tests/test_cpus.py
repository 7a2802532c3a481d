"""Machines that can be simulated are told from those that cannot, and failures are passed on."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

from tests import cpus, deviations
from tests.cpus import MACHINES, Machine

OLD = Machine("old", "Nehalem", ("X86_V3", "AVX2"), "glibc.cpu.hwcaps=-AVX2")


def answers(monkeypatch, returncode=0, kernels=("Haswell",), loops=("X86_V3",), stdout=None):
    """Let every subprocess end with what is given; return the list of their (argv, env)."""
    asked = []
    told = json.dumps({"kernels": kernels, "loops": loops}) if stdout is None else stdout

    def ended(argv, *, env, **_):
        asked.append((argv, env))
        return subprocess.CompletedProcess(argv, returncode, told, "")

    monkeypatch.setattr(subprocess, "run", ended)
    monkeypatch.setattr(cpus, "loops_here", lambda: ["X86_V3"])
    monkeypatch.setattr(cpus, "probe", cpus.probe.__wrapped__)
    return asked


def test_kernels_that_openblas_does_not_have_are_found_out():
    # OpenBLAS takes the processor's own in their place, without a word
    assert "OpenBLAS" in (cpus.obstacle(Machine("none", "NoSuchKernels")) or "")


def test_kernels_that_the_processor_cannot_run_are_found_out(monkeypatch):
    answers(monkeypatch, returncode=-4)
    assert cpus.obstacle(OLD) == "this processor cannot run its kernels (exit code -4)"


def test_kernels_go_by_their_names(monkeypatch):
    asked = answers(monkeypatch, kernels=["Katmai"], loops=[])
    assert cpus.obstacle(Machine("Prescott", "Prescott")) is None
    assert [env["OPENBLAS_CORETYPE"] for _, env in asked] == ["Prescott"]
    assert cpus.obstacle(OLD) == "not in this OpenBLAS, which takes Katmai instead"


def test_loops_that_numpy_has_are_disabled_and_no_others(monkeypatch):
    asked = answers(monkeypatch, kernels=["Nehalem"])
    assert cpus.obstacle(OLD) == "this NumPy cannot disable X86_V3"
    ((_, env),) = asked
    assert env["NPY_DISABLE_CPU_FEATURES"] == "X86_V3"  # NumPy warns of AVX2, which it lacks
    assert env["GLIBC_TUNABLES"] == OLD.tunables
    assert "NPY_DISABLE_CPU_FEATURES" not in cpus.environment(MACHINES[0])


@pytest.mark.slow  # .ci/run asks for it, too
def test_the_other_machine_is_not_this_one():
    for machine in cpus.other_than_this():
        here, there = cpus.probe(MACHINES[0]), cpus.probe(machine)
        assert all(here[part] != there[part] for part in ("kernels", "loops"))


def test_a_failure_is_passed_on_with_what_failed(monkeypatch, capsys):
    stdout = "..F\nFAILED tests/test_a.py::test_b - assert False\n1 failed, 2 passed in 1.00s\n"
    asked = answers(monkeypatch, returncode=1, stdout=stdout)
    assert not cpus.run(OLD, numerical=True, half=1)
    failed = "1 failed, 2 passed in 1.00s\nFAILED tests/test_a.py::test_b - assert False\n"
    assert capsys.readouterr().out == f"old         : {failed}old          demo: {failed}"
    (argv, env), (demo, same) = asked
    assert demo[-1] == "tests/test_demo.py"
    assert same == env
    assert argv[argv.index("--half") + 1] == "1"
    assert "--ignore=tests/test_cli.py" in argv
    assert "--ignore=tests/test_docs.py" not in argv  # pages have numbers
    assert (env["OPENBLAS_CORETYPE"], env["OPENBLAS_NUM_THREADS"]) == ("Nehalem", "1")


def test_all_machines_that_can_be_simulated_are_run(monkeypatch, capsys):
    runs = []
    monkeypatch.setattr(cpus, "obstacle", lambda one: "no" if one.name == "SkylakeX" else None)
    monkeypatch.setattr(cpus, "run", lambda one, *_: runs.append(one.name) or one.name != "Nehalem")
    monkeypatch.setattr(sys, "argv", ["cpus.py"])
    assert cpus.main() == 1
    assert runs == [one.name for one in MACHINES if one.name != "SkylakeX"]
    assert capsys.readouterr().out == "SkylakeX    : skipped: no\n"


def test_what_is_left_out_of_the_numerical_part_exists():
    assert [n for n in cpus.OTHER if not (cpus.ROOT / f"tests/test_{n}.py").exists()] == []


def test_the_share_of_each_limit_is_recorded(tmp_path, monkeypatch):
    for owner, name in (np.testing, "assert_allclose"), (type(pytest.approx(1.0)), "__eq__"):
        plain = inspect.unwrap(getattr(owner, name))  # of a run that records, too
        monkeypatch.setattr(owner, name, plain)
    recorder = deviations.Recorder(tmp_path / "old")
    np.testing.assert_allclose([1.0, 2.0 + 1e-12], [1.0, 2.0], rtol=1e-11)  # a twentieth
    assert pytest.approx(1.0, rel=1e-9) == 1.0 + 5e-10  # a half
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(0.0, 3e-9, rtol=0.0, atol=1e-9)  # three times
    recorder.keep(1e-3, 0.9, "tests/test_a.py:1")  # wide enough not to count
    recorder.pytest_sessionfinish(None)
    found = cpus.margins(tmp_path)
    assert sorted(share for _, share, _ in found.values()) == pytest.approx([0.05, 0.5, 3.0], 1e-3)
    assert {machine for _, _, machine in found.values()} == {"old"}
    lines = [*cpus.told(found)]
    assert [line.split(":")[0] for line in lines[-3:]] == ["tests/test_cpus.py"] * 3


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3.2e-13 < 1e-10", ("3.2e-13", "1e-10")),
        ("np.float64(2e-09) <= 1e-08", ("2e-09", "1e-08")),
        ("abs((1.0 - 2.0)) < 3", None),
        ("'a' < 'b'", None),
    ],
)
def test_plain_asserts_are_read(text, numbers):
    match = deviations._BELOW.match(text)
    assert (match and match.groups()) == numbers
