# `make demo` runs the main job, `make test` passes the tests; both set everything up by themselves.
# The first Python that really runs and is new enough (a version manager's stand-in may do neither).
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$python; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RELEASE := .venv-release
PIP := -m pip install -q --disable-pip-version-check
# What `make test` runs, for example TESTS=tests/unit/cel. In the order of the folders: xdist's own begins with the files
# that have the most tests, and would leave the few long ones, which wait for whole clusters, to the end of one process.
# More processes than two cores need: a test of a whole cluster waits for it a third of its time. Each costs nine seconds
# of a processor by itself, to collect the tests (WORKERS=2 for other machines). A worker that crashes fails its test and
# is not replaced: xdist would wait for the rest of its file for ever.
WORKERS ?= 4
IN_PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
TESTS ?=
export PYTHONHASHSEED ?= 0
# Whatever the machine says: without bytecode every worker, and every `weir` that a test starts, compiles all of weir anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo demo-real-time soak faults test test-fresh test-forecast test-plan fuzz hostile hostile-operator mutants prove test-newest test-old-kubectl check test-ui e2e bench docs changelog release tools \
  kubernetes test-kubernetes test-stock test-ecosystem test-upstream clean

help:
	@echo "make demo             live through every story of the KEPs (STORY=word for some of them)"
	@echo "make demo-real-time   the same by a clock that runs by itself, up to ten times as fast (21 minutes)"
	@echo "make test             run the tests (TESTS=folder for some of them)"
	@echo "make test-newest      run the unit tests on the newest Python of this machine"
	@echo "make test-old-kubectl run what a person does with the distribution's kubectl and with none"
	@echo "make test-fresh       run the property tests on fresh cases, and whole tables of hostile inputs"
	@echo "make test-forecast    compare forecasts with copies of the control plane on 2,000 clusters (N=count)"
	@echo "make test-plan        carry out plans on 500 random clusters, and hold 500 against every division (N=count)"
	@echo "make fuzz             send 100,000 hostile requests (N=count)"
	@echo "make hostile          hold 2,000 hostile connections for a minute, then 5,000 over TLS"
	@echo "make hostile-operator send the operator 5,000 requests of strangers a second for a minute"
	@echo "make mutants          change the core line by line: do the tests notice?"
	@echo "make prove            make each statement of docs/coverage false: do its tests notice? (ROWS=5471-12)"
	@echo "make soak             ten minutes of churn: memory, files and latency stay flat (SECONDS=x)"
	@echo "make faults           take parts of a highly available cluster away in turn, under load (SECONDS=x)"
	@echo "make check            style and types"
	@echo "make test-ui          the page of weir ui in a real Chromium (PICTURES=1 takes its pictures anew)"
	@echo "make e2e              a real kubectl against weir's API server"
	@echo "make bench [NAME=x]   measure"
	@echo "make docs             write the generated reference pages"
	@echo "make changelog        write CHANGELOG.md from changelog.d (RELEASE_VERSION=x uses the fragments up)"
	@echo "make release          build sdist and wheel into dist/ and check both"
	@echo "make generate         make the tables taken from Kubernetes' own code again (needs Go)"
	@echo "make kubernetes       build a real Kubernetes for tests (needs Go, minutes, once; VERSION=1.35)"
	@echo "make test-kubernetes  run the tests that need it"
	@echo "make test-ecosystem   Karpenter, cert-manager, Helm, kwok and others against weir up (needs Go; NAME=kopf for one)"
	@echo "make test-upstream    run Kubernetes' own end-to-end tests against weir up (GROUP=sig-apps, FOCUS=words, WRITE=1)"
	@echo "make test-stock       change taints under 3,000 running pods of a stock Kubernetes, live 500 random histories"

$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "weir needs Python 3.11 or newer, and found none. Set PYTHON=/path/to/it"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@echo "installing weir and its tools into $(VENV) …"
	@$(BIN)/python $(PIP) -c constraints.txt 'pip>=25.1'
	@$(BIN)/python $(PIP) -c constraints.txt --group dev -e '.[etcd]'
	@$(BIN)/python -m compileall -q src  # as an installed wheel is: half of what a command takes to start
	@touch $@

setup: $(READY)

demo: $(READY)
	@$(BIN)/weir demo $(STORY)

demo-real-time: $(READY)
	@$(BIN)/python -m tests.integration.paced_stories $(STORY)

test: $(READY) tools
	@$(BIN)/python -m compileall -q src  # for the commands that tests start, not by each of them
	$(BIN)/python -m pytest $(IN_PARALLEL) $(TESTS)

# Does a plan that is carried out break its goals; is there none where it says so? (N=count)
test-plan: $(READY)
	WEIR_PLAN_SEEDS=$(or $(N),500) $(BIN)/python -m pytest $(IN_PARALLEL) tests/property/test_plan.py

# Requests that want to break the server, beside what `make test` sends (N=count, SEED=number).
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(or $(N),100000) $(SEED)

# Two thousand hostile connections beside an ordinary client, then 5,000 over TLS (CONNECTIONS=count, SECONDS=number);
# then whether every process that evaluates ends within two seconds of SIGTERM.
hostile: $(READY)
	$(BIN)/python -m tests.hostile $(or $(CONNECTIONS),2000) $(or $(SECONDS),60)
	$(BIN)/python -m tests.hostile $(or $(CONNECTIONS),5000) $(or $(SECONDS),60) tls
	STOP_SECONDS=2 $(BIN)/python -m pytest tests/e2e/test_stopping.py

# Five thousand requests of strangers a second at the operator's webhooks, for a minute (SECONDS=number, RATE=a second).
hostile-operator: $(READY)
	$(BIN)/python -m tests.hostile_operator $(or $(SECONDS),60) $(or $(RATE),5000)

# Does a busy cluster stay as it was? Ten minutes of churn, then SIGKILL and a comparison of every acknowledged write.
soak: $(READY)
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),600)

# Every process of docs/howto/run-highly-available.md is killed in turn, then its ways to etcd are cut: some minutes.
faults: $(READY) tools
	$(BIN)/python -m tests.faults --seconds $(or $(SECONDS),20)

# Property tests on cases that no run has seen, and whole tables of hostile inputs; what fails is repeated with the seed that is printed.
test-fresh: $(READY)
	@seed=$${SEED:-$$(date +%s)}; echo "fresh cases; these again: make test-fresh SEED=$$seed"; \
	  timeout 1200 $(BIN)/python -m pytest $(IN_PARALLEL) --hypothesis-profile=fresh --hypothesis-seed=$$seed -m "hypothesis or table" tests/property tests/unit tests/integration/test_hostile_definitions.py

# Some ten minutes: what-if's forecast against a copy of the whole control plane, on random clusters and changes.
test-forecast: $(READY)
	$(BIN)/python -m tests.property.forecast_clusters $(or $(N),2000)

# Would a test notice if this line were wrong? NAME=module for one, REUSE=1 to go on, WRITE=1 to list survivors.
mutants: $(READY)
	$(BIN)/python -m tests.mutants $(if $(REUSE),--reuse) $(if $(WRITE),--write) $(TESTS:%=--tests %) $(NAME)

# Each statement of docs/coverage is made false in a copy of the checkout: its tests must fail (ROWS="5471-12 5721" for some).
prove: $(READY)
	$(BIN)/python -m tests.prove $(ROWS)

# The oldest Python is tested in full by `make test`; a newer one differs in the standard library, which these meet.
test-newest:
	@newest=$$(sh tests/newest-python) || exit 1; \
	version=$$($$newest -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	echo "the newest Python is $$version ($$newest)"; \
	$(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON=$$newest TESTS="tests/unit"

# A machine may have the distribution's old kubectl or none: the same tests pass, or say in one line what is left out.
test-old-kubectl: $(READY) tools
	CI= KUBECTL=$$(sh tests/tools --old-kubectl) $(BIN)/python -m pytest -rs $(addprefix tests/e2e/,kubectl.py test_tutorial.py test_safe_eviction.py)
	CI= KUBECTL= $(BIN)/python -m pytest $(addprefix tests/e2e/,kubectl.py test_tutorial.py test_kubectl.py)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.prove --check
	$(BIN)/python -m tests.ui.check

# The page of `weir ui` in a real Chromium; PICTURES=1 also writes those of the documentation anew.
test-ui: $(READY) tools
	$(if $(PICTURES),WEIR_PICTURES=1) $(BIN)/python -m pytest tests/ui tests/unit/ui

e2e: $(READY) tools
	$(BIN)/python -m pytest tests/e2e

bench: $(READY)
	@for name in $(or $(NAME),$$($(BIN)/python -m bench)); do $(BIN)/python -m bench $$name; done

docs: $(READY)
	@$(BIN)/python -m docs.generate

changelog: $(READY)
	@$(BIN)/python -m docs.changelog $(RELEASE_VERSION)

# In an environment of its own: what builds a package is no part of weir's tools.
release:
	@[ -x $(RELEASE)/bin/python ] || $(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python $(PIP) build twine check-wheel-contents
	@rm -rf dist
	$(RELEASE)/bin/python -m build --quiet
	$(RELEASE)/bin/python -m twine check --strict dist/*
	$(RELEASE)/bin/check-wheel-contents dist/*.whl
	@ls -l dist

# Tables taken over from Kubernetes' own code, of the version that tools/go.mod pins (TABLE=name for one of them).
generate: $(READY)
	@$(BIN)/python tools/generate.py $(TABLE)

# System programs the tests talk to; where they cannot be installed, the tests that need them say so.
tools:
	@sh tests/tools

kubernetes:
	@VERSION=$(VERSION) tests/kubernetes/build

test-kubernetes: $(READY) tools
	@sh tests/kubernetes/run $(BIN)/python

test-stock: $(READY) tools
	@binaries=$$(tests/kubernetes/build) && KUBERNETES_BIN=$$binaries $(BIN)/python -m tests.stock flips $(or $(FLIPS),500)
	@$(BIN)/python -m tests.stock histories $(or $(HISTORIES),500)

# Operators and tools of the field, unmodified, built once from Go modules (half an hour) and run against `weir up`.
test-ecosystem: $(READY) tools
	@sh tests/ecosystem/run $(BIN)/python $(NAME)

# Upstream's suite, of the version that tests/kubernetes/go.mod pins: built once (ten minutes and more), then most of an hour.
test-upstream: $(READY) tools
	@$(BIN)/python -m tests.upstream $(GROUP:%=--group %) $(if $(FOCUS),--focus "$(FOCUS)") $(JOBS:%=--jobs %) $(if $(WRITE),--write)

clean:
	rm -rf $(VENV) .venv-* dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
