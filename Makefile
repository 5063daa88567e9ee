# Everything here needs only python3 (3.11 or newer), make and a network.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
PEERS := .venv-bench
PEERS_INSTALLED := $(PEERS)/.installed
DASHBOARD := server/static/index.html
DASHBOARD_SOURCES := $(shell find dashboard -type f -not -path "*/node_modules/*" -not -name schema.d.ts)
COMPILE := $(VENV)/bin/uv pip compile --universal --python-version 3.11 --quiet \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header
LOCK := $(COMPILE) pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-all containers check bench zoo screenshots lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

install: $(INSTALLED) $(DASHBOARD) ## Install everything into .venv/, and build the dashboard

$(INSTALLED): requirements/dev.lock requirements/uv.lock requirements/install.sh pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "ampcore needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.12"; exit 1; }
	@echo "Creating $(VENV)/ …"
	@# Over an environment of another Python, venv would mix the two.
	@[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	@echo "Installing about 150 libraries (2.5 GB) into it …"
	@# no-deps: the lock has every package but tensorflow, which tf-keras wants beside tensorflow-cpu.
	@sh requirements/install.sh $(VENV) requirements/dev.lock --require-hashes --no-deps
	@# compat: a plain path, so that a folder named ampcore next to a script cannot stand in for it.
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--config-settings editable_mode=compat --editable .
	@touch $@

$(DASHBOARD): $(INSTALLED) $(DASHBOARD_SOURCES)
	@echo "Building the dashboard …"
	@$(RUN) dashboard/build.py
	@touch $@

demo: install ## Train one model in three precisions on a temporary local stack
	@$(RUN) examples/demo.py

test: install ## Run the quick tests: on each change
	$(RUN) -m pytest -m "not slow"

test-slow: install ## Run the other tests: browser, whole stacks, chaos, documents, fuzzing
	$(RUN) -m pytest -m slow

test-all: install ## Run all tests, also those in containers
	$(RUN) -m pytest
	$(RUN) -m pytest -n 0 tests/containers

containers: install ## Build the images, and test the Compose files with podman (root)
	$(RUN) -m pytest -n 0 tests/containers

check: install ## Run linters, type checks, the rules of imports and names, and the dashboard's checks
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m mypy --config-file benchmarks/mypy.ini benchmarks
	$(RUN) -m pytest -q -n 0 tests/test_architecture.py tests/test_retired_words.py \
		tests/test_variable_names.py
	$(RUN) dashboard/build.py check

bench: $(INSTALLED) $(PEERS_INSTALLED) ## Run the benchmarks that need no GPU, but the zoo; prints one JSON line each
	@for file in $(filter-out benchmarks/model_zoo.py benchmarks/gpu_step.py,$(wildcard benchmarks/*.py)); do \
		$(RUN) $$file || exit 1; done

zoo: $(INSTALLED) ## Check 127 models that nobody here designed; takes an hour or two
	@$(RUN) benchmarks/model_zoo.py

$(PEERS_INSTALLED): requirements/bench.txt requirements/uv.lock requirements/install.sh
	@echo "Installing PyTorch and JAX for comparison benchmarks into $(PEERS)/ (1.6 GB)."
	@$(PYTHON) -m venv $(PEERS)
	@sh requirements/install.sh $(PEERS) requirements/bench.txt
	@touch $@

screenshots: install ## Update the dashboard screenshots and the README pictures
	@$(RUN) -m dashboard.screenshots

lock: ## Pin the newest versions that pyproject.toml allows, with hashes
	$(LOCK) --extra server --extra worker-cpu --extra s3 --extra oidc --extra onnx --extra traces --extra dev --extra bench \
		--no-emit-package tensorflow -o requirements/dev.lock
	$(LOCK) --extra server --extra s3 --extra oidc --extra traces -o requirements/server.lock
	$(LOCK) --extra worker-cpu --extra s3 --extra traces -o requirements/worker-cpu.lock
	$(LOCK) --extra worker-gpu --extra s3 --extra traces -o requirements/worker-gpu.lock
	$(COMPILE) requirements/sbom.in -o requirements/sbom.lock
	$(COMPILE) -c requirements/dev.lock requirements/uv.in -o requirements/uv.lock

clean: ## Remove what `make install` and the tests made
	rm -rf $(VENV) $(PEERS) server/static dashboard/node_modules dashboard/src/api/schema.d.ts screenshots .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
