# Everything a newcomer needs. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# More than cores: most tests wait for something most of the time.
WORKERS ?= $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN) )))
SEEDS ?= 200
FIRST ?= 0
FAULT_SECONDS ?= 120
FUZZ_SECONDS ?= 300

.DEFAULT_GOAL := help
.PHONY: help install demo test thorough unit compat check format bench sim fuzz faults docs clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-10s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Bifrost needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11.")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo 'This Python cannot make virtual environments: install the package python3-venv.'; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing into $(VENV), once; PySpark alone is some 400 MB:'
	@test -t 1 && terminal=1; set -o pipefail; { $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --constraint constraints.txt --editable '.[dev]' & pip=$$!; \
		while kill -0 $$pip 2>/dev/null; do echo tick; sleep 1; done; wait $$pip; } | awk -v terminal="$$terminal" ' \
		/^tick$$/ {seconds++} /^ *(Collecting|Downloading|Building|Preparing|Installing)/ {$$1 = $$1; doing = $$0} \
		terminal {printf "\r\033[K  %3d s  %.68s", seconds, doing; fflush()} END {if (terminal) printf "\r\033[K"}'
	@echo 'installed'
	@touch $@

install: $(READY) ## make the virtual environment in .venv

demo: $(READY) ## a fleet of trucks: cluster, Spark pipeline, alerts, a map; a broker is killed, and proof that nothing is missing
	@$(BIN)/python -m examples.fleet.demo

test: $(READY) ## unit and property tests, the simulator, real clients, Spark, Apache Kafka as oracle
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

thorough: $(READY) ## the same, with the long tests that are close to others
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m ''

unit: $(READY) ## the fast tests only: no sockets, no other software
	$(BIN)/python -m pytest -n $(WORKERS) tests/unit tests/property tests/test_tidy.py tests/test_hot_path.py

compat: $(READY) ## real clients and Apache Kafka as oracle only
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests/compat

# The quorum's cores alone play hundreds of seeds while a cluster plays one, so they are given ten for each.
sim: $(READY) ## the simulator: lone nodes, clusters, and the cores of the quorum: make sim SEEDS=1000 [FIRST=seed]; with ARGS lone nodes only
	$(BIN)/python -m tests.sim.run --seeds $(SEEDS) --first $(FIRST) $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.sim.run --compacted --seeds $(SEEDS) --first $(FIRST))
	$(if $(ARGS),,$(BIN)/python -m tests.sim.cluster.run --seeds $(SEEDS) --first $(FIRST))
	$(if $(ARGS),,$(BIN)/python -m tests.sim.quorum.run --seeds $(SEEDS)0 --first $(FIRST)0)

fuzz: $(READY) ## spoilt requests, answers, batches and files for as long as you like: make fuzz FUZZ_SECONDS=600 [FUZZ_SEED=seed]
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(if $(FUZZ_SEED),$(FUZZ_SEED),$$(date +%s)) $(BIN)/python -m pytest -q -p no:randomly tests/fuzz

faults: $(READY) ## killed, hung and cut-off nodes, bad disks: make faults FAULT_SECONDS=600 [FAULT_SEED=seed]
	$(BIN)/python -m pytest -n 2 -m '' tests/faults
	$(BIN)/python -m tests.faults.run --seconds $(FAULT_SECONDS) $(if $(FAULT_SEED),--seed $(FAULT_SEED)) $(ARGS)

check: $(READY) ## format, lint, types, import contracts, generated docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:randomly tests/test_tidy.py
	$(BIN)/python -m bifrost.cli.docs --check

format: $(READY) ## rewrite the sources in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## make the pages that come from code, and the whole site in site/
	$(BIN)/python -m bifrost.cli.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'the documentation is in site/: $(BIN)/python -m http.server --directory site'

bench: $(READY) ## side by side with Apache Kafka; needs java and mvn (clusters: python -m bench.cluster)
	$(BIN)/python -m bench.run $(ARGS)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache site
