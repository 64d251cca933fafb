# `make run` and `make test` set up everything they need on a fresh machine: .venv, from the locked
# requirements. Only Python 3.11 or newer and make must be there. `make` alone lists the targets.

PYTHON ?= python3
# Test processes.
WORKERS ?= 2
# More options for pytest: make test PYTEST_OPTIONS="-k walk -x"
PYTEST_OPTIONS ?=
# Percent of branches and lines that unit tests and commands must reach. Raise it when they do.
COVERAGE_FLOOR := 84

VENV := .venv
BIN := $(VENV)/bin
# Stamps: each is newer than the locks whose packages are installed.
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
RELEASE_READY := $(VENV)/.release-ready
RIVALS_READY := $(VENV)/.rivals-ready
INSTALL := $(BIN)/python -m pip install --quiet --no-deps --require-hashes
# A file at a time: its tests share a town, a browser or a table that every process would make again.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(PYTEST_OPTIONS)
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet

.DEFAULT_GOAL := help

# The tests start the command hundreds of times: let Python keep compiled files.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "FedValue needs Python 3.11 or newer, found " + sys.version.split()[0] + "; call make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# These add to what dev.txt installs: `make lock` gives shared packages the same versions.
$(DOCS_READY): requirements/docs.txt $(READY)
	$(INSTALL) -r requirements/docs.txt
	touch $@

$(RELEASE_READY): requirements/release.txt $(READY)
	$(INSTALL) -r requirements/release.txt
	touch $@

$(RIVALS_READY): requirements/rivals.txt $(READY)
	$(INSTALL) -r requirements/rivals.txt
	touch $@

.PHONY: install
install: $(READY)  ## Create .venv with everything that development needs

.PHONY: run
run: $(READY)  ## Run a federated valuation on this machine, each role in its own process
	$(BIN)/fedvalue demo --output out/demo

.PHONY: test
test: $(READY)  ## Run the default test suite
	$(PYTEST) -m "not slow"

.PHONY: test-all
test-all: $(READY)  ## Run the default suite and the slow tests
	$(PYTEST)

.PHONY: check
check: $(DOCS_READY)  ## Run everything CI runs: lint, documentation, tests with the coverage floor
	$(MAKE) -j 2 lint docs kernels
	$(MAKE) test PYTEST_OPTIONS="-p tests.support.traced_tests --cov --cov-report= --cov-fail-under=$(COVERAGE_FLOOR) $(PYTEST_OPTIONS)"

.PHONY: kernels
kernels: $(READY)  ## Compile what runs compiled, as the tests do otherwise before they start
	$(BIN)/fedvalue warm-up

.PHONY: lint
lint: $(READY)  ## Check format, lint, types and layers (under a minute)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: hooks
hooks: $(READY)  ## Run the fast checks before every commit (pre-commit)
	$(BIN)/pre-commit install

.PHONY: coverage
coverage: $(READY)  ## Run the default suite with coverage of every test; list the lines missed
	$(PYTEST) -m "not slow" --cov --cov-report=term-missing:skip-covered

.PHONY: bench
bench: $(RIVALS_READY)  ## Measure speed against the published procedure and other tools
	$(BIN)/python benchmarks/run.py

.PHONY: study
study: $(READY)  ## Run the full statistical study behind docs/statistics.md
	$(BIN)/python -m tests.statistics.study

.PHONY: docs
docs: $(DOCS_READY)  ## Build the documentation in out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir out/site

.PHONY: lock
lock: $(READY)  ## Update requirements/*.txt from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml --constraints requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) --group docs --constraints requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) --group release --constraints requirements/dev.txt -o requirements/release.txt
	$(COMPILE) --group rivals --constraints requirements/dev.txt -o requirements/rivals.txt

.PHONY: dist
dist: $(RELEASE_READY)  ## Build the wheel, the source archive and their SBOM in out/dist
	rm -rf out/dist out/runtime
	$(BIN)/hatchling build -d out/dist
	$(PYTHON) -m venv --without-pip out/runtime
	$(BIN)/python -m pip --python out/runtime/bin/python install --quiet --no-deps --require-hashes -r requirements/runtime.txt
	$(BIN)/python -m pip --python out/runtime/bin/python install --quiet --no-deps --pre --no-index --find-links out/dist fedvalue
	out/runtime/bin/fedvalue --version
	$(BIN)/cyclonedx-py environment --output-reproducible -o out/dist/fedvalue.cdx.json out/runtime/bin/python
	cd out/dist && sha256sum * > SHA256SUMS

.PHONY: clean
clean:  ## Remove everything that the other targets made
	rm -rf $(VENV) out .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
