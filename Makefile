# Every target sets up what it needs: a clone, Python 3.11+ and make are enough to begin.
SHELL := /bin/bash
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
RUN := .venv/bin/
# uv's own cache and links: a copy works on every file system.
export UV_LINK_MODE := copy
# Compiled modules: without them every process that the tests start takes three times as long.
export UV_COMPILE_BYTECODE := 1
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test coverage cluster cluster-stop test-cluster check format clean chaos costs bench test-size test-scenarios test-replay test-encrypted test-authority

help:  ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 26

setup: .venv/.ready  ## The virtual environment, as the lock pins it

.venv/.ready: pyproject.toml uv.lock
	@if [ "$(UV)" = .tools/bin/uv ] && [ ! -x .tools/bin/uv ]; then \
	  echo "▸ uv (builds the environment)"; \
	  $(PYTHON) -c 'import sys; sys.exit("Crewlog needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)' && \
	  $(PYTHON) -m venv .tools && .tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'; fi
	@echo "▸ environment (.venv)"
	@$(UV) sync --locked --quiet --python $(PYTHON)
	@touch $@

demo: setup  ## The Flutter music app crew, from nothing to its result
	@$(RUN)crewlog demo

check: setup  ## Format, lint, types, layers
	$(RUN)ruff format --check .
	$(RUN)ruff check .
	@$(MAKE) --no-print-directory --jobs 2 types
	$(RUN)lint-imports

.PHONY: types mypy pyright
types: mypy pyright

mypy: setup
	$(RUN)mypy

pyright: setup
	$(RUN)pyright

# Tests that need the machine for themselves. The others run in four processes, each with servers
# of its own: two leave a third of the processor time of two cores unused. `tests/conftest.py` has their order.
SIDE_BY_SIDE := --numprocesses 4 --dist loadfile --no-loadscope-reorder
ALONE := tests/size tests/faults tests/state/test_topology_cost.py

# The store is tested behind Debian's PgBouncer. Whoever may not install it skips those tests.
.PHONY: pgbouncer
pgbouncer:
	@[ -x /usr/sbin/pgbouncer ] || { \
	  echo "▸ PgBouncer"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install --yes --quiet --no-install-recommends pgbouncer >/dev/null; \
	} || echo "  PgBouncer cannot be installed here: its tests are skipped"

test: check pgbouncer  ## Everything: the static checks, then every test
	$(RUN)python -m pytest $(SIDE_BY_SIDE) $(ALONE:%=--ignore=%)
	$(RUN)python -m pytest $(ALONE)

chaos: setup  ## The long set of faults, an hour: SEED=1 CHAOS="--scenario workers --report chaos.json"
	$(RUN)python -m tests.faults.chaos --seed $(or $(SEED),1) $(CHAOS)

test-size: setup  ## The tests of size at their full size: 5,000 steps, 1,000 open runs, 50,000 aborted reads
	CREWLOG_SIZE=full $(RUN)python -m pytest tests/size tests/dev/test_aborted_reads.py

test-scenarios: setup  ## Two hundred random scenarios of splits and run merges, under kills
	CREWLOG_SCENARIOS=200 $(RUN)python -m pytest tests/acceptance/test_graph_scenarios.py

test-replay: setup  ## Every test but those of size, with workers that replay at every task
	CREWLOG_MAX_CACHED_RUNS=0 $(RUN)python -m pytest --ignore tests/size --timeout 600

test-encrypted: setup  ## Every test but those of size, with all payloads and rows encrypted
	@rm -f .encrypted/keys.json && $(RUN)crewlog encryption init .encrypted/keys.json >/dev/null 2>&1
	CREWLOG_ENCRYPTION_KEYS=$(CURDIR)/.encrypted/keys.json $(RUN)python -m pytest $(SIDE_BY_SIDE) $(ALONE:%=--ignore=%)
	CREWLOG_ENCRYPTION_KEYS=$(CURDIR)/.encrypted/keys.json $(RUN)python -m pytest $(filter-out tests/size,$(ALONE))

.PHONY: coverage-of-capabilities
coverage-of-capabilities: setup  ## Which of docs/capabilities.md no test shows; COVERS=--tests: by which tests
	@$(RUN)python -m tests.covers $(COVERS)

HUNTS := CREWLOG_HOSTILE=100000 CREWLOG_HOSTILE_TURNS=100000 CREWLOG_WIDENINGS=10000
HUNTS += CREWLOG_AUDIENCE_LAYOUTS=10000 CREWLOG_AUDIENCE_HUNTS=10000

test-authority: setup  ## The hunts for what authority lets through, at their full size
	$(HUNTS) $(RUN)python -m pytest $(SIDE_BY_SIDE) --timeout 7200 tests/authority

coverage: setup  ## Every test, with the lines and branches that none of them enters
	$(RUN)coverage erase
	$(RUN)coverage run -m pytest
	@$(RUN)coverage combine --quiet && $(RUN)coverage report

CLUSTER := $(RUN)python deploy/local-cluster/cluster.py

cluster: setup  ## A real Temporal cluster on Postgres, checked; prints the two exports that lead to it
	@$(CLUSTER) up

cluster-stop: setup  ## End the cluster's processes and remove its data
	@$(CLUSTER) down

test-cluster: setup  ## The acceptance tests on that cluster, with two workers
	@$(CLUSTER) up >/dev/null
	eval "$$($(CLUSTER) env)" && $(RUN)python -m pytest tests/acceptance

costs: setup  ## What a step, a tool call, a swap … costs, counted, in a minute; COSTS=--write: for good
	@$(RUN)python -m tests.costs $(COSTS)

# In an environment of its own: what is compared with is no dependency of ours.
bench: setup  ## This engine beside others, 35 minutes; a part: BENCH="--only tools --pairs 3"
	@echo "▸ environment (.venv-bench)"
	@UV_PROJECT_ENVIRONMENT=.venv-bench $(UV) sync --locked --quiet --no-dev --group bench --python $(PYTHON)
	.venv-bench/bin/python -m bench $(BENCH)

format: setup  ## Put the code in order
	$(RUN)ruff format .
	$(RUN)ruff check --fix .

clean:  ## Remove what was built here; caches outside stay
	@if [ -e .cluster/state.json ] && [ -e .venv/.ready ]; then $(CLUSTER) down; fi
	rm -rf .venv .venv-bench .bench .tools .encrypted build dist .coverage* .pytest_cache .mypy_cache .ruff_cache
