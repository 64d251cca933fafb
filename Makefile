# Two commands do all the set-up on a fresh machine: `make run` and `make test`.
# Both create .venv from the locked requirements; only Python 3.11 or newer and make are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet

.DEFAULT_GOAL := help

# The tests start the command hundreds of times: let Python keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "FedValue needs Python 3.11 or newer, found " + sys.version.split()[0] + "; call make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.PHONY: install
install: $(READY)  ## Create .venv with everything that development needs

.PHONY: run
run: $(READY)  ## A whole federated valuation on this machine, every role its own process
	$(BIN)/fedvalue demo --output out/demo

.PHONY: test
test: $(READY)  ## The default test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow"

.PHONY: test-all
test-all: $(READY)  ## The default suite and the slow tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: check
check: $(READY)  ## What CI runs: format, lint, types, layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

.PHONY: coverage
coverage: $(READY)  ## The default suite with branch coverage
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" --cov --cov-report=term-missing

.PHONY: bench
bench: $(READY)  ## Ratios against the published procedure and other tools, measured in one run
	$(BIN)/python benchmarks/run.py

.PHONY: study
study: $(READY)  ## The full statistical study behind docs/statistics.md
	$(BIN)/python -m tests.statistics.study

.PHONY: docs
docs: $(READY)  ## Build these pages as a site in out/site
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir out/site

.PHONY: lock
lock: $(READY)  ## Write requirements/*.txt anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(COMPILE) --group docs --constraints requirements/dev.txt -o requirements/docs.txt

.PHONY: clean
clean:  ## Remove what the other targets made
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
