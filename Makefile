# Two commands do everything: `make gate` (the main job, on a real system) and `make test`.
# Both make their environment first, from nothing but python3 (3.11 or newer) and git.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
JOBS ?= 2
# Interpreters on which the tests drive targets. One that is missing is skipped by name.
TEST_PYTHONS ?= 3.11 3.13
ALL_PYTHONS ?= 3.10 3.11 3.12 3.13 3.14

.PHONY: setup gate test test-all lint types bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "stormdrain's host needs Python 3.11 or newer: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)" >&2
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $@

gate: $(STAMP)
	@$(BIN)/stormdrain gate --config probes/claude_agent_sdk/gate.toml

lint: $(STAMP)
	$(BIN)/ruff check harness probes tests
	$(BIN)/ruff format --check harness probes tests

types: $(STAMP)
	$(BIN)/mypy

test: lint types
	STORMDRAIN_TEST_PYTHONS="$(TEST_PYTHONS)" $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -q

test-all: lint types
	STORMDRAIN_TEST_PYTHONS="$(ALL_PYTHONS)" $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --long -q

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
