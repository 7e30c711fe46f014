# Everything is made in .venv, with constraints.txt's versions. A stamp file there says what need not be done again.
SHELL := bash
.SHELLFLAGS := -e -u -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PLAYWRIGHT_BROWSERS_PATH := $(CURDIR)/$(VENV)/browsers
# Tests start hundreds of Pythons: each finds what the first has compiled.
unexport PYTHONDONTWRITEBYTECODE

PACKAGED := $(shell find kin_nb examples kernelspec \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -o -type f -print)
PYTEST = $(BIN)/python -m pytest -q
# Tests on N workers, more than CI's two cores: they wait for other processes. nbval would import nbformat in each, slowly.
WORKERS = -p no:nbval -n
QUICK = -m "not long"
# timed NAME, COMMAND: run it, and say how long it took
timed = @echo "== $(1)" && SECONDS=0 && $(2) && echo "== $(1): $$SECONDS s"
comma := ,
SPHINX = $(BIN)/sphinx-build -q -W --keep-going -j 2 -d docs/_build/doctrees
BENCHMARKS := $(filter-out shapes sizes,$(patsubst benchmarks/%.py,%,$(wildcard benchmarks/*.py)))

.PHONY: help demo test test-fast test-all lint lowest bench screenshots docs docs-links release-check unit kernel nbval peers peers-servers browser \
  chromium programs

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  PYTHON=python3.12 make ...  another interpreter (3.11 or newer) for a new $(VENV)"

demo: $(VENV)/with-nothing  ## see it work: re-execute the quickstart session, without a key or a network
	@$(BIN)/kin-nb demo

test: programs unit kernel nbval peers browser  ## all that CI runs: unit, kernels, examples, MCP servers, browsers

test-fast: unit  ## the unit tests

test-all: QUICK =
test-all: test  ## the same with the long matrices

lint: $(VENV)/with-test-dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lowest: $(VENV)/with-test  ## the unit tests with the lowest versions that pyproject.toml allows
	@rm -rf $(VENV)/lowest && $(PYTHON) -m venv $(VENV)/lowest && $(BIN)/python scripts/lowest-versions > $(VENV)/lowest/constraints.txt
	@$(VENV)/lowest/bin/pip install --quiet -c $(VENV)/lowest/constraints.txt '.[test]'
	$(VENV)/lowest/bin/python -m pytest -q $(WORKERS) 3 $(QUICK) tests/unit tests/seeds

bench: $(VENV)/with-test chromium  ## the figures of benchmarks/
	@for name in $(BENCHMARKS); do echo "== benchmarks/$$name.py"; $(BIN)/python -m benchmarks.$$name || exit 1; done

screenshots: $(VENV)/with-test chromium  ## take all pictures again, in real JupyterLab and Notebook; docs/images gets its own
	@folder="$$(mktemp -d)" && KIN_SCREENSHOTS="$$folder" $(PYTEST) tests/browser && \
	  for picture in docs/images/*; do cp "$$folder/$${picture##*/}" "$$picture"; done && echo "== all of them: $$folder"

release-check:  ## build sdist and wheel, check them, install the wheel in a clean environment, run its demo
	@scripts/release-check $(PYTHON) $(VENV)

docs: $(VENV)/with-docs  ## build the documentation in docs/_build/html; warnings and broken links are errors
	$(call timed,$@,$(SPHINX) -b html docs docs/_build/html && $(BIN)/python scripts/check-links docs/_build/html)

docs-links: $(VENV)/with-docs  ## check the documentation's links to other sites; needs a network
	@$(SPHINX) -b linkcheck docs docs/_build/links

# The parts of `make test`

unit: $(VENV)/with-test
	$(call timed,$@,$(PYTEST) $(WORKERS) 4 $(QUICK) tests/unit tests/seeds)

kernel: $(VENV)/with-test
	$(call timed,$@,$(PYTEST) $(WORKERS) 4 --dist loadfile $(QUICK) $(wildcard tests/kernel tests/notebook))

nbval: $(VENV)/with-test  # as on a teammate's machine: no key, no settings
	$(call timed,$@,env -i HOME="$$(mktemp -d)" PATH="$$PATH" $(PYTEST) --nbval examples/*.ipynb)

peers: $(VENV)/with-test peers-servers  # MCP against servers that others wrote; needs npm
	$(call timed,$@,$(PYTEST) tests/peers)

browser: $(VENV)/with-test chromium
	$(call timed,$@,$(PYTEST) $(WORKERS) 3 --dist loadgroup $(QUICK) tests/browser)

# Set-up

programs:
	@scripts/programs

chromium: $(VENV)/with-test
	@scripts/chromium $(BIN)/playwright

peers-servers: $(VENV)/with-test
	@scripts/peers $(VENV)/peers $(BIN)/python

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "kin_nb needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 || true). Choose one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "== $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet -c constraints.txt hatchling hatch-fancy-pypi-readme
	@touch $@

# with-nothing, with-test, with-test-dev: the package as a user gets it (a copy, not a link) with those extras
$(VENV)/with-%: $(VENV)/made pyproject.toml constraints.txt README.md $(PACKAGED)
	@echo "== installing kin_nb with $*"
	@$(BIN)/pip install --quiet --no-build-isolation -c constraints.txt '.$(if $(filter nothing,$*),,[$(subst -,$(comma),$*)])'
	@touch $@
