# Everything a newcomer needs is here: `make help` lists it.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PAPER ?= rdtcp
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Modules that a macro declares are invisible to cargo fmt, so every file is named.
RUST_FILES = $(shell git ls-files --cached --others --exclude-standard '*.rs')
# The bindings are tested from Python; parts of the schema are behind features.
CARGO_FLAGS := --workspace --all-features --locked
# Pages that the program makes are always made anew.
SPHINX := $(BIN)/sphinx-build -q -W --keep-going -E

.DEFAULT_GOAL := help
.PHONY: help install demo test test-rust test-python docs docs-links docs-output test-own-protocol mutants lint \
	lint-rust lint-python format reproduce bench validate-ns3 schema tables clean prerequisites

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: prerequisites .venv/installed ## build everything; the command is then .venv/bin/incast
	@echo "building the simulator (some minutes the first time)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --quiet --no-deps --no-build-isolation --editable .

demo: install ## see TCP incast happen: out/demo/index.html
	@$(BIN)/incast demo --out out/demo

test: install test-rust test-python docs test-own-protocol ## test everything: Rust, Python, the documentation

test-rust: prerequisites
	cargo test $(CARGO_FLAGS)

test-python: install
	$(BIN)/pytest

test-own-protocol: install
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/_tools/own_protocol.py out/own-protocol

docs: install ## run what the documentation shows, build it, check its links: out/docs/index.html
	@rm -rf docs/_made out/docs
	@$(BIN)/python docs/_tools/run_pages.py
	@$(SPHINX) -b html -d out/doctrees docs out/docs
	@$(BIN)/python docs/_tools/links.py out/docs

docs-output: install ## write what the pages' commands print now into the pages
	@$(BIN)/python docs/_tools/run_pages.py --update
	@$(BIN)/python docs/_tools/own_protocol.py out/own-protocol --update

docs-links: docs ## check what the documentation links to elsewhere (needs the net)
	@$(SPHINX) -b linkcheck -d out/doctrees docs out/docs-links

mutants: prerequisites ## change the code at one place after another: does a test fail? (needs cargo-mutants; hours)
	@.ci/mutants $(MUTANTS)

lint: lint-rust lint-python ## check format, lints and types

lint-rust: prerequisites
	rustfmt --check --edition 2024 $(RUST_FILES)
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings

lint-python: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: .venv/installed ## format Rust and Python
	rustfmt --edition 2024 $(RUST_FILES)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

reproduce: install ## compute a paper's figures and judge its claims (PAPER=pulser): out/rdtcp/report.html
	@$(BIN)/incast reproduce $(PAPER)

bench: install ## measure the simulator's speed
	@$(BIN)/incast bench leaf-spine

validate-ns3: install ## hold the simulator against ns-3, side by side (an hour or two; needs g++)
	@$(BIN)/python validation/ns3/compare.py all

schema: prerequisites ## renew the JSON Schema of scenario files
	cargo run --quiet -p incast-scenario --example schema > .schema.new && mv .schema.new schema/scenario.schema.json

tables: prerequisites ## renew docs/reference/results.md from the definitions of the tables
	cargo run --quiet -p incast-results --example dictionary > .results.new && mv .results.new docs/reference/results.md

clean: ## remove what was built and what was written
	rm -rf .venv out docs/_made target .pytest_cache .ruff_cache .mypy_cache
	rm -f python/incast/_native*.so

prerequisites:
	@command -v cargo >/dev/null || { echo "incast needs Rust (cargo): see https://rustup.rs" >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "incast needs Python 3.11 or later: see https://www.python.org/downloads \
	(Debian, Ubuntu: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it \
	(Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "incast needs a linker (cc): install a C compiler \
	(Debian, Ubuntu: apt-get install gcc libc6-dev)" >&2; exit 1; }

# What uv.lock pins, hash by hash, is fetched by pip: it knows the machine's own index and certificates.
.venv/installed: uv.lock pyproject.toml | prerequisites
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) install --quiet \
		"uv==$$(sed -n '/^name = "uv"$$/{n;s/version = "\(.*\)"/\1/p;}' uv.lock)"
	@$(BIN)/uv export --quiet --frozen --all-groups --no-emit-project --output-file .venv/requirements.txt
	@$(PIP) install --quiet --require-hashes -r .venv/requirements.txt
	@touch $@
