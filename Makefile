# Two commands on a fresh machine: `make demo` shows an incident, `make test` runs the tests.
# Everything is installed into ./.venv; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERVICE := $(VENV)/.service-installed
TEST := $(VENV)/.test-installed
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test check lab test-kafka test-server test-lab test-all bench bench-collector recordings docs signatures clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(SERVICE) ## replay a recorded incident of real engines and show what the pager would say
	@$(BIN)/falseok demo

test: $(TEST) ## all tests that need no engine and no network
	$(BIN)/python -m pytest

check: $(TEST) ## formatting, lint, types, direction of imports, generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m falseok_collector.reference --check docs

lab: $(SERVICE) ## the same incident live: two real vLLM engines on this machine's CPU
	$(BIN)/falseok lab tour

test-kafka: $(TEST) ## tests against a real Apache Kafka broker: takes about 8 minutes
	@$(BIN)/python -m tests.kafka.needed
	$(BIN)/python -m pytest -m "kafka and not slow" -p no:randomly

CLICKHOUSE_URL ?=
test-server: $(TEST) ## the store's tests on a server of yours: CLICKHOUSE_URL=clickhouse://host:8123
	@test -n "$(CLICKHOUSE_URL)" || { echo "Name the server: make test-server CLICKHOUSE_URL=clickhouse://host:8123 (user and password: FALSEOK_STORE_USERNAME, FALSEOK_STORE_PASSWORD)"; exit 1; }
	FALSEOK_TEST_STORE_URL=$(CLICKHOUSE_URL) $(BIN)/python -m pytest tests/pipeline tests/alerts tests/cli/test_schema.py

test-lab: $(TEST) ## tests on real engines: builds vLLM environments, then takes about 11 minutes
	$(BIN)/python -m pytest -m lab -p no:randomly

test-all: $(TEST) ## everything, slow tests included
	@$(BIN)/python -m tests.kafka.needed
	$(BIN)/python -m pytest -m "" -p no:randomly

bench: $(TEST) ## measure what docs/benchmarks.md shows
	$(BIN)/python -m bench.hook_cost
	$(BIN)/python -m bench.tap_cost
	$(BIN)/python -m bench.event_cost
	$(BIN)/python -m bench.pipeline_rate

bench-collector: $(TEST) ## what the collector costs, hook, chunk and serving, against its budgets: about 17 minutes
	$(BIN)/python -m bench.collector

recordings: $(TEST) ## make the shipped recordings anew from real engines
	$(BIN)/python -m tests.e2e.make_recordings

docs: $(TEST) ## write the generated pages
	$(BIN)/python -m falseok_collector.reference docs

SOURCES ?= vllm-sources
signatures: $(TEST) ## read the vLLM packages in SOURCES=FOLDER and write what the hook table is checked against
	$(BIN)/python -m tests.source_check.extract $(SOURCES)

clean: ## remove the virtual environment, the demo's data and caches
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"FalseOK needs Python 3.11 or later; {sys.executable} is {v.major}.{v.minor}. Name another one: make PYTHON=/path/to/python3")'
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing. On Debian: apt-get install python3-venv"; exit 1; }

$(SERVICE): pyproject.toml requirements/service.txt | $(BIN)/python
	$(PIP) install --quiet --constraint requirements/service.txt --editable ".[service]"
	@touch $@

$(TEST): pyproject.toml requirements/service.txt requirements/test.txt $(SERVICE)
	$(PIP) install --quiet --constraint requirements/service.txt --constraint requirements/test.txt --editable ".[service,test]"
	@touch $@
