# The few commands that contributors and CI use. `make` alone lists them.

PYTHON ?= python3.11
VENV ?= .venv
SHAPE ?= chain-200
export PATH := $(abspath $(VENV))/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup test test-all lint ui strings screenshots docs docs-links bench faults simulate mutants pythons lowest newest lock audit sbom image ci release

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv with everything for development, aiosched in editable mode
	$(PYTHON) -m venv $(VENV)
	pip install --editable '.[dev]'

test: ## the quick tier of the tests, on two processes (T= selects: make test T=tests/core)
	pytest -n 2 $(T)

test-all: ## all tests, half an hour and more (T= selects)
	pytest -n 2 --tier all $(T)

lint: ## ruff, mypy --strict, import contracts
	.ci/lint

ui: ## format the web UI's source, write its types from docs/openapi.json, check them (needs npm)
	npm ci --prefix tools/ui --no-audit --no-fund
	npm run --prefix tools/ui all

strings: ## every string of the web UI and the command line that people read, in build/strings (needs npm)
	mkdir -p build/strings
	node tools/ui/strings.mjs > build/strings/ui.txt
	python -m tools.cli_strings > build/strings/cli.txt

screenshots: ## pictures of all pages in build/screenshots, those of the documentation in docs/images (needs Chromium)
	mkdir -p build/screenshots
	AIOSCHED_SCREENSHOTS=$(abspath build/screenshots) pytest tests/browser/test_every_page.py tests/browser/test_first_steps.py tests/browser/test_search_box.py
	python -m tests.browser.pictures build/screenshots

docs: ## build the documentation site into build/docs, where the web server finds it (warnings are errors)
	.ci/docs

docs-links: ## ask the addresses of other sites that the documentation links to (needs a network; CI does it at night)
	.ci/docs linkcheck

bench: ## run one benchmark (SHAPE=chain-200; A= adds options: A='--executor local')
	python -m benchmarks $(SHAPE) $(A)

faults: ## fault campaigns in their long form, hours (C=kills: one of them; KILLS=1000; A= adds options: A='--rounds 5')
	python -m tests.faults.campaign $(if $(KILLS),kills --faults $(KILLS),$(or $(C),all)) --long --out faults.jsonl $(A)

simulate: ## simulated fleets, many seeds (SEEDS=20000; A= adds options: A='--seed 17 --trace')
	python -m tests.simulation --seeds $(or $(SEEDS),20000) --processes 2 $(A)

mutants: ## which tests notice a change of the code, tried on a sample: hours (A='--number 200 --seed 1')
	python -m tools.mutants $(A)

pythons: ## the quick tier on each of Python 3.11, 3.12 and 3.13 that is here (T= selects)
	.ci/pythons all $(T)

lowest: ## the quick tier with the lowest versions that pyproject.toml allows (T= selects)
	.ci/pythons lowest $(T)

newest: ## the quick tier with the newest versions that pyproject.toml allows (T= selects)
	.ci/pythons newest $(T)

lock: ## renew the lock files, which the image and CI install (UPGRADE=1: the newest versions)
	.ci/lock

audit: ## known vulnerabilities of what the lock files install (needs PyPI)
	.ci/audit audit

sbom: ## a bill of materials of this version, build/aiosched-VERSION.cdx.json (CycloneDX)
	.ci/audit sbom

image: ## build the image without a registry and run the compose file, as root (needs docker.io and debootstrap)
	pytest -v tests/deploy/test_containers.py

release: ## make and try everything of a release but tag and upload, in build/release
	.ci/release

ci: ## what CI runs: fresh environments, lint, the quick tier, the documentation, all other tests
	.ci/run
