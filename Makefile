# The commands of this project. `make demo` and `make test` need nothing but
# Python >= 3.10 with pip; everything else is installed into $(VENV).
#
#   make demo                render the pictures into out/
#   make test                run the tests against the installed package
#   make test-plain          the ones that matter without compiled modules
#   make test-targets        some on threads, and on an emulated device
#   make lint types docs     what CI checks besides
#   make develop             install in place: edits need no reinstall, and
#                            nothing is compiled
#   make ptx                 the gallery's kernels as PTX, into out/ptx
#   make gpu                 what runs on an NVIDIA GPU, where there is one (PEER=…)
#   make bench               the benchmark table (PEER=path/to/venv/bin/python)
#   make test-versions       the tests on every Python of $(PYTHONS) found here

PYTHON ?= python3
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
VENV ?= .venv
OUT ?= out
PEER ?=
# A process for each core, and each file's tests in one of them.
PARALLEL ?= -n auto --maxprocesses 8 --dist loadfile --max-worker-restart 0
PYTEST_ARGS ?=
GPU_TESTS ?= tests/compiler tests/dsl tests/examples
DEMO_ARGS ?=

# Of what is compiled elsewhere, and what replaces functions of it.
PLAIN_TESTS := tests/compiler/test_evaluate.py tests/compiler/test_trace.py \
  tests/compiler/test_numbering.py tests/compiler/test_simplify.py \
  tests/compiler/test_schedule.py tests/runtime tests/dsl/test_operators.py \
  tests/dsl/test_arrays.py tests/dsl/test_interrupts.py tests/dsl/replay

# Some of what runs on threads and on an emulated device, too, and failed there. (All
# tests do, but that takes as long again.)
TARGET_TESTS := tests/dsl/control/test_calls.py tests/dsl/control/test_call_data.py \
  tests/dsl/control/test_instances.py tests/dsl/control/test_pointers.py \
  tests/dsl/control/test_local.py tests/dsl/derivatives/test_custom.py \
  tests/dsl/derivatives/test_instances.py::test_some_are_tracked \
  tests/dsl/replay/test_kernel.py tests/dsl/tensors/test_updates.py

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SOURCES := setup.py $(shell find dsl compiler runtime -name '*.py*' -not -name '*.pyc')
EXTRAS := test,viz,dev

# `make develop` leaves a stamp of its own, and then counts as the installation.
INSTALLED := $(or $(wildcard $(VENV)/.develop),$(VENV)/.regular)

.PHONY: demo test test-plain test-targets lint types docs develop ptx gpu bench test-versions clean

demo: $(INSTALLED)
	$(BIN)/python -m examples.gallery --out $(OUT) $(DEMO_ARGS)
	$(BIN)/python -m examples.inverse --out $(OUT)

test: $(INSTALLED)
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

test-plain: $(INSTALLED)
	LUMIJIT_NO_COMPILED=1 $(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS) $(PLAIN_TESTS)

test-targets: $(INSTALLED)
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS) --target thread $(TARGET_TESTS)
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS) --target device $(TARGET_TESTS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory build/installed
	cd build/installed && PYTHONPATH=. $(abspath $(BIN))/lint-imports \
	  --config $(CURDIR)/pyproject.toml --no-cache

# The package as users install it, without the folder names of the source tree (`dsl`
# is `lumijit` there): for tools that follow imports.
.PHONY: build/installed
build/installed: $(INSTALLED)
	rm -rf build
	LUMIJIT_NO_COMPILED=1 $(PIP) --no-deps --upgrade --target build/installed .

# Types: strict of the package and the examples, and those of the tests.
types: build/installed
	cd build/installed && MYPYPATH=$(CURDIR) $(abspath $(BIN))/mypy \
	  --config-file $(CURDIR)/pyproject.toml \
	  --cache-dir $(CURDIR)/.mypy_cache -p lumijit -p examples -p tests

docs: $(INSTALLED)
	$(BIN)/python -m pytest tests/test_docs.py

# Without a GPU, the tests of GPUs are skipped, and the last line says what is missing.
gpu: $(INSTALLED)
	$(BIN)/python -m pytest $(PARALLEL) -rs tests/runtime/test_devices.py \
	  tests/runtime/test_cuda_driver.py \
	  tests/compiler/test_ptx.py tests/compiler/test_cooperative.py \
	  tests/dsl/test_cuda.py tests/dsl/test_devices.py tests/dsl/test_gpu.py
	if $(BIN)/python -c "import lumijit as dr; exit(not dr.has_backend(dr.JitBackend.CUDA))"; \
	  then $(BIN)/python -m pytest $(PARALLEL) --max-worker-restart 50 --target gpu $(GPU_TESTS); fi
	$(BIN)/python -m tests.benchmarks.gpu $(if $(PEER),--peer $(PEER))

ptx: $(INSTALLED)
	$(BIN)/python -m tests.tools.ptx --out $(OUT)/ptx

bench: $(INSTALLED)
	$(BIN)/python -m tests.benchmarks.table $(if $(PEER),--peer $(PEER))

develop: $(VENV)/.develop

$(VENV)/.develop: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$(EXTRAS)]'
	touch $@

# A stale build/ would smuggle deleted modules into the wheel.
$(VENV)/.regular: pyproject.toml $(SOURCES) | $(BIN)/python
	rm -rf build
	$(PIP) '.[$(EXTRAS)]'
	touch $@

# Where Python comes without ensurepip (Debian), the system's pip fills the venv.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	  $(PYTHON) -m pip --quiet --python $(VENV)/bin/python install pip; }

test-versions:
	@for python in $(PYTHONS); do \
	  if $$python --version >/dev/null 2>&1; then \
	    $(MAKE) test PYTHON=$$python VENV=$(VENV)-$$python || exit 1; \
	  else \
	    echo "$$python: not found here"; \
	  fi; \
	done

clean:
	rm -rf $(VENV) $(VENV)-python* $(OUT) build *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
