# `make demo` runs the main job, `make test` passes the tests; both set everything up by themselves.
# The first Python that really runs and is new enough (a version manager's stand-in may do neither).
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$python; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PYTHONHASHSEED ?= 0

.PHONY: help setup demo test check e2e bench docs tools kubernetes test-kubernetes clean

help:
	@echo "make demo             live through every story of the KEPs (STORY=word for some of them)"
	@echo "make test             run the tests"
	@echo "make check            style and types"
	@echo "make e2e              a real kubectl against weir's API server"
	@echo "make bench [NAME=x]   measure"
	@echo "make docs             write the generated reference pages"
	@echo "make kubernetes       build a real Kubernetes for tests (needs Go, minutes, once)"
	@echo "make test-kubernetes  run the tests that need it"

$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "weir needs Python 3.11 or newer, and found none. Set PYTHON=/path/to/it"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@echo "installing weir and its tools into $(VENV) …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt 'pip>=25.1'
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt --group dev -e '.[etcd]'
	@touch $@

setup: $(READY)

demo: $(READY)
	@$(BIN)/weir demo $(STORY)

test: $(READY) tools
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

e2e: $(READY) tools
	$(BIN)/python -m pytest tests/e2e

bench: $(READY)
	@for name in $(or $(NAME),$$($(BIN)/python -m bench)); do $(BIN)/python -m bench $$name; done

docs: $(READY)
	@$(BIN)/python -m docs.generate

# System programs the tests talk to; where they cannot be installed, the tests that need them say so.
tools:
	@sh tests/tools

kubernetes:
	@tests/kubernetes/build

test-kubernetes: $(READY) tools
	@sh tests/kubernetes/run $(BIN)/python

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
