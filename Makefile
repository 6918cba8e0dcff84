# Every target makes and refreshes .venv by itself; Python ≥ 3.11 and make are all it takes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Without the variable, Zig first compiles its build runner with full optimisation, for two minutes.
# The path is for build.zig, whose python3 should be one with a Brotli decoder.
ZIG    := ZIG_DEBUG_CMD=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m ziglang
WASM   := querymode/querymode.wasm
SAFE   := zig-out/bin/querymode_safe.wasm
UNIT   := zig-out/bin/unit_tests.wasm
# Two processes, as the machines that run this have two cores; a file's tests share what they made.
PYTEST := $(BIN)/python -m pytest tests -n 2 --dist loadfile
ZIG_SOURCES := build.zig $(shell find wasm -name '*.zig')

.PHONY: venv demo test check bench bench-smoke soak clean
venv: $(VENV)/.installed $(WASM)

demo: venv
	$(BIN)/querymode demo

test: venv $(SAFE) $(UNIT)
	$(ZIG) build test
	$(PYTEST)

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(ZIG) build fmt-check
	$(ZIG) build abi
	git diff --exit-code -- querymode/_abi.py

bench: venv
	$(BIN)/python -m benchmarks

bench-smoke: venv
	$(BIN)/python -m benchmarks --smoke

# A million mutated inputs, limits at length; then everything again with epochs on, which shows a
# loop that does not look at its cancel byte.
soak: venv $(SAFE) $(UNIT)
	$(ZIG) build test -Dtest-optimize=safe
	$(PYTEST) --soak
	QUERYMODE_HARDENED=1 $(PYTEST)

clean:
	rm -rf $(VENV) .zig-cache zig-out $(WASM) wasm/src/codec/brotli_dictionary.bin wasm/src/kernel/unicode_case.bin

# A stamp, not a phony target: pip runs again only when the metadata changes.
$(VENV)/.installed: pyproject.toml hatch_build.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "hatchling>=1.27" "setuptools>=80" editables "ziglang==0.17.0" "brotli>=1.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e ".[dev]"
	touch $@

# zig build has its own cache; touch marks "checked" when the bytes did not change.
$(WASM): $(ZIG_SOURCES) | $(VENV)/.installed
	$(ZIG) build wasm && touch $@
$(SAFE): $(ZIG_SOURCES) | $(VENV)/.installed
	$(ZIG) build wasm-safe && touch $@
$(UNIT): $(ZIG_SOURCES) | $(VENV)/.installed
	$(ZIG) build test-wasm && touch $@
