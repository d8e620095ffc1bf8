# Every target sets up what it needs in .venv on its first run: Python 3.11, make and pip are enough.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Code in C++, built where there is a compiler: tests and benchmarks run with it. TENSORCLASS_NATIVE=0 leaves it out.
NATIVE := tensorclass/td/native/.built
# Test processes: one more than there are cores (tests/scheduling.py); `make test JOBS=0` runs all tests in one process, as a
# debugger needs it.
JOBS   ?= auto
# The versions of every package; `make test CONSTRAINTS=` takes the newest that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test clients pytest mutate test-long sanitize versions wheels release-check lint format typecheck types stubs docs bench programs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## score two bundled sample runs: table, comparison, plot
	@$(BIN)/python examples/demo.py $(ARGS)

# Lint and types run beside the tests. Their output is shown whole once the tests are through; each failure is make's.
test: $(NATIVE) ## lint, check the package's types, run the tests (ARGS="-k name" selects)
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; trap 'kill $$checks; exit 130' INT TERM; \
	$(MAKE) --no-print-directory --keep-going lint typecheck >"$$log" 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory pytest; tested=$$?; \
	wait $$checks; checked=$$?; \
	cat "$$log"; \
	[ $$tested -eq 0 ] && [ $$checked -eq 0 ]

# Tests start some 150 processes: without bytecode each of them would compile the package.
pytest: export PYTHONDONTWRITEBYTECODE :=
pytest: $(NATIVE) ## the tests alone
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

# TorchRL asks for a tensordict of its own: an environment beside the first, with the packages of that one.
CLIENTS := $(VENV)-clients
TORCHRL := torchrl==0.14.1 gymnasium==1.4.0 cloudpickle farama-notifications
# the folder of its packages does not lead to the checkout, which processes started in other folders need
clients programs: export PYTHONPATH := $(CURDIR)
$(CLIENTS)/.made: $(NATIVE) Makefile
	@[ -x $(CLIENTS)/bin/python ] || { $(BIN)/python -m venv --without-pip $(CLIENTS) && \
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' >$$(echo $(CLIENTS)/lib/python3.*/site-packages)/shared.pth; }
	@$(BIN)/python -m pip install -q --no-deps --target $$(echo $(CLIENTS)/lib/python3.*/site-packages) --upgrade $(TORCHRL)
	@touch $@
clients: $(CLIENTS)/.made ## tests with libraries that use tensordict (TorchRL), in an environment of their own
	@$(CLIENTS)/bin/python -m pytest -n 0 tests/compat tests/examples/test_replay_buffer.py $(ARGS)

# mutmut makes the mistakes, coverage says which test runs which line; in a folder of their own, with no other package
MUTMUT := $(VENV)/mutmut
$(MUTMUT)/.made: $(READY) Makefile
	@$(BIN)/python -m pip install -q --no-deps --target $(MUTMUT) --upgrade mutmut==3.8.1 coverage==7.17.3
	@touch $@
mutate: export PYTHONPATH := $(abspath $(MUTMUT))
mutate: $(MUTMUT)/.made ## do tests notice mistakes in a module? (ARGS="tensorclass/td/packing.py --sample 30")
	@$(BIN)/python -m tests.mutate $(ARGS)

test-long: $(READY) ## searches that take hours: all lines, all files, many rounds (ARGS="--only interrupts")
	@$(BIN)/python -m tests.long $(ARGS)

sanitize: $(READY) ## native code under gcc's sanitizers: its tests and searches, and errors that must be found (ARGS="--only leaks")
	@[ -n "$(ARGS)" ] || $(BIN)/python -m tests.td.native.sanitizers --plant
	@$(BIN)/python -m tests.td.native.sanitizers $(ARGS)

wheels: $(READY) ## an sdist, the wheel and those of native code, in dist/ (ARGS="--environment 3.13-torch-2.15")
	@$(BIN)/python -m tests.versions.wheels $(ARGS)

release-check: $(READY) ## build a release, check its metadata, types and changelog, and run it from empty environments
	@$(BIN)/python -m tests.versions.release_check $(ARGS)

versions: ## the package on another Python and PyTorch, in an environment of its own (ARGS="--python 3.12 --torch 2.15")
	@$(PYTHON) -m tests.versions $(ARGS)

lint: $(READY) ## ruff: rules and formatting; import-linter: which package may import which; the workflows of CI
	@$(BIN)/ruff check --output-format concise
	@$(BIN)/ruff format --check --output-format concise
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml

format: $(READY) ## rewrite the files as lint wants them
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# node's default of 16 MB for new objects has it collect garbage for an eighth of pyright's time
typecheck: export NODE_OPTIONS := --max-semi-space-size=128
typecheck: $(READY)
	@$(BIN)/mypy
	@$(BIN)/pyright --project pyproject.toml

types: $(READY) ## what four type checkers see of records: facts right and wrong (ARGS="--checker ty --verbose")
	@$(BIN)/python -m tests.typing $(ARGS)

stubs: $(READY) ## write the methods of converters and the type stubs of the package anew (ARGS=--check compares them)
	@$(BIN)/python -m tests.declarations $(ARGS)
	@$(BIN)/python -m tensorclass.typing.stubs.package $(ARGS)

docs: $(READY) ## build the site with guides and reference; warnings are errors
	@$(BIN)/python -m sphinx -E -W --keep-going -n -j auto -q $(ARGS) docs build/site
	@echo "build/site/index.html"

bench: $(NATIVE) ## time the package beside the peer and hand-written code (ARGS="--quick --filter stack", ARGS=--programs)
	@case " $(ARGS)" in *" --programs"*) $(MAKE) --no-print-directory programs ;; *) $(BIN)/python -m benchmarks $(ARGS) ;; esac

programs: $(CLIENTS)/.made
	@$(CLIENTS)/bin/python -W ignore -m benchmarks $(ARGS)

clean: ## remove the environment, caches and what the commands wrote
	rm -rf $(VENV) $(CLIENTS) $(NATIVE) tensorclass/td/native/_native_torch_* build dist demo-out .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Old pip reads PIP_CONSTRAINT for what it builds with, too; new pip has a variable of its own for that.
$(READY): export PIP_CONSTRAINT := $(CONSTRAINTS)
$(READY): export PIP_BUILD_CONSTRAINT := $(CONSTRAINTS)
$(READY): export PIP_DISABLE_PIP_VERSION_CHECK := 1
$(READY): pyproject.toml $(CONSTRAINTS)
	@echo "Setting up $(VENV) (once; a few minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(NATIVE): $(READY) $(wildcard tensorclass/td/native/source/*)
	@if [ "$$TENSORCLASS_NATIVE" != 0 ]; then \
	if $(BIN)/python -m tensorclass native --build >$(VENV)/native.log 2>&1; then touch $@; \
	else echo "Operations run in Python alone: native code was not built, see $(VENV)/native.log"; fi; fi
