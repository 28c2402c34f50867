# Everything a contributor runs. Each target sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

COVERED := "src/lakeport/catalog/*,src/lakeport/filters/*,src/lakeport/airport/*,src/lakeport/ducklake/*"
UNCOVERED := spark lakehouse cli

.PHONY: help demo test coverage check format bench docs lock clean

help:  ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Lakeport needs Python 3.11 or newer: set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV): Spark, Java, DuckDB and the rest, some minutes and two gigabytes."
	$(PYTHON) -m venv $(VENV)
	@# The lock file is complete. Without --no-deps, pip 23 looks up packages with extras again and stops at a newer release.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: $(READY)  ## make a lake, serve it and query it (ARGS=--once to exit afterwards)
	@$(BIN)/lakeport demo $(ARGS)

test: $(READY)  ## run the test suite on two workers (ARGS="-k name" to choose)
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

coverage: $(READY)  ## branch coverage of the rooms below Spark, by their own tests; below 90 % is an error
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov --cov-report= $(UNCOVERED:%=--ignore tests/%) $(ARGS)
	$(BIN)/coverage report --skip-covered --fail-under=90 --include=$(COVERED)

check: $(READY)  ## lint, format, types, import contracts, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

format: $(READY)  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## measure, as ratios to a baseline of the same run (SIZE=small|full, ARGS="--only doget")
	$(BIN)/python -m benchmarks --size $(or $(SIZE),full) $(ARGS)

docs: $(READY)  ## serve the documentation on localhost
	$(BIN)/mkdocs serve

lock: $(READY)  ## rewrite requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --group dev --group docs \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock

clean:  ## remove the virtual environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
