# SPDX-License-Identifier: Apache-2.0
# make help tells what there is. demo and test set up everything they need.

PYTHON ?=
# Two for each processor, as tests wait for half of their time; the suite is tried with up to eight.
JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? 2 * n : 8)))
SLICE ?= 1/1
VENV := .venv/bin
C_FILES = $(shell find native tests -name '*.[ch]' -o -name '*.cc' -o -name '*.hh')

.DEFAULT_GOAL := help
.PHONY: help demo test quick soak stress lint format build bench clean setup-demo setup-test

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup-demo:
	@PYTHON='$(PYTHON)' scripts/setup.sh demo

setup-test:
	@PYTHON='$(PYTHON)' scripts/setup.sh test

demo: setup-demo ## set everything up and trace a real program
	@scripts/demo.sh

PYTEST = $(VENV)/python -m pytest -n $(JOBS) --dist loadgroup

test: setup-test ## set everything up and run the tests, with the checks of style
	$(PYTEST) -q $(ARGS)

quick: setup-test ## a test of each kind, for every change
	$(PYTEST) -q -m 'not slow' @tests/quick.txt tests/unit $(ARGS)

soak: setup-test ## the tests that make test leaves out; a part of them with SLICE=3/8
	$(PYTEST) -q --soak --slice $(SLICE) $(ARGS)

stress: setup-test ## tests again and again beside busy loops; ARGS='--rounds 20 TEST...'
	$(VENV)/python -m tests.stress $(ARGS)

lint: setup-test ## the checks of style alone
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/clang-format --dry-run --Werror $(C_FILES)

format: setup-test ## let the formatters rewrite Python and C
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .
	$(VENV)/clang-format -i $(C_FILES)

build: setup-demo ## the wheel, into dist/
	$(VENV)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

bench: setup-test ## costs per call, start-up and throughput, beside the peers
	$(VENV)/python -m benchmarks $(ARGS)

clean: ## everything that was made here
	rm -rf .venv build dist src/soscope/_agent .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
