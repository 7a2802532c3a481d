# Only Python and make are needed; everything else goes into .venv, which `make clean` leaves alone.
PYTHON ?= python3
SHELL := /bin/bash
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo docs test coverage fuzz mutants test-slow test-cpus test-matrix lint package bench benchmarks clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.base: pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

# .venv/.test, .venv/.lint and .venv/.docs: one stamp for each extra of pyproject.toml
.venv/.%: .venv/.base
	$(PIP) -e '.[$*]'
	@touch $@

demo: .venv/.base  ## forecast bundled data, write a picture and a table into demo/
	$(BIN)/forecast-unc demo --output demo

docs: .venv/.docs  ## write docs/_build/html and run the gallery; a warning is an error
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

# One BLAS thread a worker: the workers already fill the cores, and more threads slow each other down.
test: .venv/.test  ## run the tests and doctests
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Apart, as it takes 1.4 times as long before Python 3.14 (sys.monitoring).
coverage: .venv/.test  ## the same, with the lines that no test runs
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal --cov

# sktime 1.2 wants a pandas below 3.1, and in .venv would take all other tests back to it.
.venv/sktime/.test: pyproject.toml
	$(PYTHON) -m venv .venv/sktime
	.venv/sktime/bin/python -m pip install --quiet --disable-pip-version-check -e '.[sktime,test]'
	@touch $@

test-slow: .venv/.test .venv/sktime/.test  ## run the tests that take minutes, and sktime's conformance suite
	$(BIN)/python -m pytest -m slow
	.venv/sktime/bin/python -m pytest -m slow -s tests/test_sktime.py

fuzz: .venv/.test  ## 20,000 generated calls of the whole public surface, a seed a case
	$(BIN)/python tests/fuzz.py

mutants: .venv/.test  ## a sample of mutants of the mathematics, an hour; mutants.csv keeps what was tried
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/mutate.py

test-cpus: .venv/.test  ## run the tests on simulated processors, and how much of its limit each comparison used
	$(BIN)/python tests/cpus.py --deviations .deviations

test-matrix: .venv/.test  ## run the tests with the oldest and the newest libraries, on each Python here
	$(BIN)/python tests/matrix.py

lint: .venv/.lint  ## ruff, codespell and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy

package: .venv/.package  ## build sdist and wheel, install it into an empty environment, forecast there
	.ci/package

# statsforecast 2.1 wants a pandas below 3.
.venv/benchmarks/.benchmarks: pyproject.toml
	$(PYTHON) -m venv .venv/benchmarks
	.venv/benchmarks/bin/python -m pip install --quiet --disable-pip-version-check -e '.[benchmarks]'
	@touch $@

bench: .venv/benchmarks/.benchmarks  ## every ratio of speed that was promised, into the docs; items a second
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv/benchmarks/bin/python examples/benchmarks/promises.py --write docs/benchmarks/index.md
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv/benchmarks/bin/python examples/benchmarks/throughput.py

benchmarks: .venv/benchmarks/.benchmarks  ## compare with other libraries (installs PyTorch), write docs/ordinary.md
	set -e; for script in $$(grep -L required=True examples/benchmarks/*.py | grep -v /ordinary.py); do .venv/benchmarks/bin/python "$$script"; done
	.venv/benchmarks/bin/python examples/benchmarks/ordinary.py --part all --cache .benchmarks --write docs/ordinary.md

clean:  ## remove what the other targets wrote, except .venv
	rm -rf .benchmarks .deviations build dist demo mutants docs/_build docs/api/generated docs/gallery .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
