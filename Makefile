SHELL := bash
.SHELLFLAGS := -o pipefail -c

PY ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup java servers demo test test-more test-on-sail test-on-spark test-live test-on-cluster test-long lint bench clean

setup: $(VENV)/.ready java

$(VENV)/.ready: pyproject.toml
	$(PY) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

java:
	@sh tools/ensure-java.sh

# The tests start database servers of their own.
servers:
	@sh tools/ensure-servers.sh

demo: setup
	$(BIN)/stillframe demo

lint: setup
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

# One engine to a process. At the same time: everything on Sail, with the tests of live sources, which mostly wait,
# beside the others; and what runs on an engine on Apache Spark.
LIVE := tests/live tests/sources

test: setup servers lint
	@$(MAKE) --no-print-directory -j3 test-on-sail test-on-spark test-live SLOW=--slow=without

# The slow ones, which tools/slow_tests.py has put aside.
test-more: setup servers
	@$(MAKE) --no-print-directory -j3 test-on-sail test-on-spark test-live SLOW=--slow=only

DURATIONS := --durations=40 --durations-min=3

test-on-sail:
	$(BIN)/pytest -m 'not long' $(LIVE:%=--ignore=%) $(SLOW) $(DURATIONS) 2>&1 | sed -u 's/^/sail   /'

test-live:
	$(BIN)/pytest -m 'not long' $(LIVE) $(SLOW) $(DURATIONS) 2>&1 | sed -u 's/^/live   /'

# Short runs of Spark spend most of their time on loading and compiling classes.
CLASSES := $(VENV)/spark-classes.jsa
QUICK_START := -XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=$(CURDIR)/$(CLASSES) -Xlog:disable -Xlog:all=error:stderr

$(CLASSES): $(VENV)/.ready tools/archive_spark_classes.py
	$(BIN)/python tools/archive_spark_classes.py $@

test-on-spark: $(CLASSES)
	SPARK_SUBMIT_OPTS='$(QUICK_START)' $(BIN)/pytest -m 'engine and not long and not slow_on_spark' --engine=spark $(SLOW) $(DURATIONS) 2>&1 | sed -u 's/^/spark  /'

# On a master and two workers whose Python, in .venv-workers, does not have this package.
CLUSTER := tests/cluster tests/faults/test_executor_killed.py tests/records/test_executors_killed.py \
	tests/spark/test_copies.py tests/spark/test_stage_net.py \
	tests/spark/test_engine_aggregates.py tests/spark/test_small_changes.py tests/spark/test_lake_content.py \
	tests/live/test_large_transactions.py

test-on-cluster: setup servers
	$(BIN)/pytest -m engine --engine=spark --master=standalone $(CLUSTER) --durations=15

test-long: setup servers lint
	STILLFRAME_LONG=1 $(BIN)/pytest --durations=30
	STILLFRAME_LONG=1 $(BIN)/pytest -m engine --engine=spark --durations=30
	STILLFRAME_LONG=1 $(MAKE) --no-print-directory test-on-cluster

# All of the benchmark of the paper's view takes hours: BENCH_TPCH="--scale 0.1 --frames 12" tries it.
BENCH_TPCH ?= --scale 1 --frames 52 --engine all --spread all

bench: setup servers
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python -m benchmarks.tpch all $(BENCH_TPCH)
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.refresh
	$(BIN)/python -m benchmarks.explore
	$(BIN)/python -m benchmarks.capture_cost
	$(BIN)/python -m benchmarks.propagation
	$(BIN)/python -m benchmarks.records
	$(BIN)/python -m benchmarks.calibration --engine sail
	$(BIN)/python -m benchmarks.calibration --engine spark

clean:
	rm -rf $(VENV) .venv-workers build dist .mypy_cache .ruff_cache .pytest_cache
