# make demo   first result on a fresh machine: own environment, torch, this package, `hicache demo`
# make test   everything CI checks: C++ tests, lint, types, pytest
# make lint   the pre-commit hooks: ruff, mypy --strict, clang-format    make format   applies the fixes
# make clean  removes the environment and the builds
#
# Variables: PYTHON (3.10 or newer), VENV, TORCH (the pinned requirement), DEMO (options of `hicache demo`),
# JOBS (parallel compile jobs).

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
DEMO ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CPP_BUILD ?= build/cpp-tests

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The package is installed again when one of these has changed.
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src cpp -type f -not -name '*.pyc' -not -path 'cpp/tests/*')
CPP_FILES = $(shell find cpp -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

.PHONY: help demo test lint format test-cpp test-python install-demo install-test clean
.DEFAULT_GOAL := help

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: install-demo
	$(BIN)/hicache demo $(DEMO)

test: install-test
	$(MAKE) --no-print-directory test-cpp
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test-python

# ---- environment -----------------------------------------------------------------------------

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# First and alone: the largest download, and the one version the figures were measured with.
$(VENV)/.torch: $(VENV)/.created
	$(PIP) install --quiet '$(TORCH)'
	@touch $@

$(VENV)/.demo: $(VENV)/.torch $(SOURCES)
	$(PIP) install --quiet '.[demo]'
	@touch $@

$(VENV)/.test: $(VENV)/.torch $(SOURCES)
	$(PIP) install --quiet '.[demo,test]' 'cmake>=3.26' ninja
	@touch $@

install-demo: $(VENV)/.demo

install-test: $(VENV)/.test

# ---- checks ----------------------------------------------------------------------------------

test-cpp: install-test
	bash .ci/debian-packages
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(CPP_BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Debug \
	    -DHICACHE_TESTS=ON -DHICACHE_WERROR=ON -DHICACHE_PYTHON=OFF
	PATH="$(abspath $(BIN)):$$PATH" cmake --build $(CPP_BUILD) --parallel $(JOBS)
	PATH="$(abspath $(BIN)):$$PATH" ctest --test-dir $(CPP_BUILD) --output-on-failure --no-tests=error

# The hooks of .pre-commit-config.yaml, over every file: one definition for commits and for CI.
lint: install-test
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pre-commit run --all-files --show-diff-on-failure

format: install-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i --style=file $(CPP_FILES)

# Passive: torch's threads must not spin on cores that other work needs.
test-python: install-test
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -q

clean:
	rm -rf $(VENV) build dist
