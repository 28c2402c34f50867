# Everything a contributor runs. Each target sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# Processes of the tests, many of which start, do not compile the sources again.
export PYTHONDONTWRITEBYTECODE :=
READY := $(VENV)/.ready

# Every room is measured. The tests of the first ones need no Spark, and must cover MIN_COVERAGE percent of them together.
COVERED := airport arrow auth catalog ducklake filters memory observability types
COVERED_WITH_SPARK := cli console lakehouse spark
MIN_COVERAGE := 90

FAST := not (spark or database_server or s3 or process or soak or exhaustive)
# For two cores: tests that start processes wait for them, and others run meanwhile.
WORKERS ?= 3
XDIST = -n $(WORKERS) --dist worksteal
PYTEST = $(BIN)/python -m pytest $(XDIST)
SOAK_SECONDS ?= 120

# DuckDB 2.0, for which there is no ducklake extension: a small environment without Spark.
VENV2 ?= .venv-duckdb2
READY2 := $(VENV2)/.ready
TESTS2 := tests/arrow tests/filters tests/memory tests/client tests/ducklake/test_lakes_of_1_1.py tests/ducklake/test_sql_filter.py \
  tests/ducklake/test_hostile_catalogs.py tests/ducklake/test_life_of_a_lake.py

# Other versions of Python, each with an environment of its own.
PYTHONS ?= 3.12 3.13

# Older versions of PySpark and pyarrow, each pair with an environment of its own.
MATRIX ?= 4.1.4:24.0.0 4.2.1:25.0.1
TESTS_OF_MATRIX := tests/types tests/client tests/memory/test_rows.py tests/spark/test_frames.py tests/spark/test_frame_files.py tests/spark/test_data_source.py \
  tests/lakehouse/test_catalog.py tests/lakehouse/test_time.py

# The peers of a benchmark, some of which need other versions of the same packages.
VENV_PEERS ?= .venv-peers
READY_PEERS := $(VENV_PEERS)/.ready

# Delta Lake, and the newest PySpark that it has a version for.
VENV_DELTA ?= .venv-delta
READY_DELTA := $(VENV_DELTA)/.ready-delta

comma := ,
paths = $(subst $() $(),$(comma),$(1:%=src/lakeport/%/*))

.PHONY: help demo lock clean check format test test-fast test-spark test-servers test-soak test-duckdb2 test-pythons test-matrix test-wheel coverage \
  bench bench-check bench-peers bench-delta recording diagram docs

help:  ## show this list
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Setup

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

$(READY2): requirements-duckdb2.lock pyproject.toml
	$(PYTHON) -m venv $(VENV2)
	$(VENV2)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-duckdb2.lock
	$(VENV2)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

lock: $(READY)  ## rewrite requirements.lock and requirements-duckdb2.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --group dev --group docs \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock
	sed -n '/^duckdb==/d; /^[A-Za-z0-9]/ s/ \\$$//p' requirements.lock > requirements-duckdb2.constraints
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --extra pandas --extra polars --group duckdb2 \
	  --constraints requirements-duckdb2.constraints --no-annotate \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements-duckdb2.lock
	rm requirements-duckdb2.constraints

clean:  ## remove the virtual environment and everything built
	rm -rf $(VENV) $(VENV2) $(VENV_PEERS) $(VENV_DELTA) $(PYTHONS:%=.venv-%) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

##@ Quality

check: $(READY)  ## lint, format, types, import contracts, documentation; name the step that fails
	$(call step,ruff check,$(BIN)/ruff check .)
	$(call step,ruff format,$(BIN)/ruff format --check .)
	$(call step,mypy,$(BIN)/mypy)
	$(call step,lint-imports,$(BIN)/lint-imports)
	$(call step,mkdocs,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site)

define step
@echo "== $(1)"
@$(2) || { echo "make check: $(1) failed" >&2; exit 1; }
endef

format: $(READY)  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

##@ Testing

test: $(READY)  ## run the test suite (WORKERS=3, ARGS="-k name" to choose), then some of it with DuckDB 2.0
	$(PYTEST) $(ARGS)
	@# A choice of tests is for DuckDB 1.5; the whole suite is for both versions.
	$(if $(ARGS),,$(MAKE) test-duckdb2)

test-fast: WORKERS = 2
test-fast: $(READY)  ## run the tests that start no Spark, server or process and are not exhaustive, in less than four minutes
	$(PYTEST) -q -m "$(FAST)" $(ARGS)

test-spark: $(READY)  ## run the tests that start Spark
	$(PYTEST) -m "spark and not soak" $(ARGS)

test-servers: $(READY)  ## run the tests that start PostgreSQL, MariaDB or an S3 server
	$(PYTEST) -m "database_server or s3" $(ARGS)

test-soak: $(READY)  ## run many clients for SOAK_SECONDS (120)
	LAKEPORT_SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -m soak $(ARGS)

test-duckdb2: $(READY2)  ## run the tests that need no ducklake extension with DuckDB 2.0 (ARGS="-k name" to choose)
	$(VENV2)/bin/python -m pytest -q $(XDIST) $(TESTS2) $(ARGS)

test-pythons:  ## run test-fast with other versions of Python (PYTHONS="3.12 3.13")
	@for version in $(PYTHONS); do \
	  echo "== Python $$version"; \
	  $(MAKE) --no-print-directory test-fast PYTHON=python$$version VENV=.venv-$$version || exit 1; \
	done

test-matrix:  ## run some tests with older versions of PySpark and pyarrow (MATRIX="4.1.4:24.0.0 4.2.1:25.0.1")
	@for cell in $(MATRIX); do \
	  spark=$${cell%%:*}; arrow=$${cell##*:}; venv=.venv-spark-$$spark; \
	  echo "== PySpark $$spark, pyarrow $$arrow"; \
	  $(MAKE) --no-print-directory $$venv/.ready VENV=$$venv || exit 1; \
	  $$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps pyspark==$$spark pyarrow==$$arrow || exit 1; \
	  $$venv/bin/python -m pytest -q $(XDIST) -W ignore::pytest.PytestUnraisableExceptionWarning $(TESTS_OF_MATRIX) $(ARGS) || exit 1; \
	done

test-wheel: $(READY)  ## build the wheel, install each extra in a clean environment and use it (ARGS="pandas spark,java" to choose)
	$(BIN)/python -m tests.wheel $(ARGS)

coverage: $(READY)  ## branch coverage of every room; below 90 % of the rooms without Spark is an error
	$(PYTEST) -q -m "not spark and not soak" --cov --cov-report= $(ARGS)
	$(BIN)/coverage report --skip-covered --fail-under=$(MIN_COVERAGE) --include="$(call paths,$(COVERED))"
	$(PYTEST) -q -m "spark and not soak" --cov --cov-append --cov-report= $(ARGS)
	$(BIN)/coverage report --skip-covered --include="$(call paths,$(COVERED_WITH_SPARK))"

bench: $(READY)  ## measure, as ratios to a baseline of the same run (SIZE=small|full, ARGS="--only doget")
	$(BIN)/python -m benchmarks --size $(or $(SIZE),full) $(ARGS)

bench-check: $(READY)  ## name what became slower between two result files (OLD=a.json NEW=b.json); status 1 if anything did
	$(BIN)/python -m benchmarks.check $(or $(OLD),$(error set OLD and NEW to result files)) $(NEW)

$(READY_PEERS): requirements-peers.txt
	$(PYTHON) -m venv $(VENV_PEERS)
	$(VENV_PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-peers.txt
	@touch $@

bench-peers: $(READY) $(READY_PEERS)  ## read the same rows with Lakeport, DuckDB, PySpark and other packages (ARGS="--scale 1 --rounds 9")
	$(BIN)/python -m benchmarks.peers $(VENV_PEERS)/bin/python $(ARGS)

$(READY_DELTA): requirements-delta.txt
	$(MAKE) --no-print-directory $(VENV_DELTA)/.ready VENV=$(VENV_DELTA)
	$(VENV_DELTA)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-delta.txt
	@touch $@

bench-delta: $(READY_DELTA)  ## append to and merge into lakes and Delta tables, on the same Spark (SIZE=small|full)
	$(VENV_DELTA)/bin/python -m benchmarks --size $(or $(SIZE),full) --only spark-append --only spark-merge

##@ Documentation

docs: $(READY)  ## serve the documentation on localhost
	$(BIN)/mkdocs serve

recording: $(READY)  ## draw what make demo prints
	$(BIN)/python -m tests.demo_recording

diagram: $(READY)  ## draw the rooms and their imports for the architecture page
	$(BIN)/python -m tests.room_diagram
