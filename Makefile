# Every target sets up what it needs: a clone, Python 3.11+ and make are enough to begin.
SHELL := /bin/bash
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
RUN := .venv/bin/
# uv's own cache and links: a copy works on every file system.
export UV_LINK_MODE := copy

.PHONY: help setup demo test coverage check format clean

help:  ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

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
	$(RUN)mypy
	$(RUN)pyright
	$(RUN)lint-imports

test: check  ## Everything: the static checks, then every test
	@$(RUN)python -m crewlog.dev
	$(RUN)python -m pytest

coverage: setup  ## Every test, with the lines and branches that none of them enters
	@$(RUN)python -m crewlog.dev
	$(RUN)coverage erase
	$(RUN)coverage run -m pytest
	@$(RUN)coverage combine --quiet && $(RUN)coverage report

format: setup  ## Put the code in order
	$(RUN)ruff format .
	$(RUN)ruff check --fix .

clean:  ## Remove what was built here; caches outside stay
	rm -rf .venv .tools build dist .coverage* .pytest_cache .mypy_cache .ruff_cache
