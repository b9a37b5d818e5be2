# `make help` lists the targets.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PAPER ?= rdtcp
# How the simulator is built; the profiles are in Cargo.toml.
PROFILE ?= release
# What tests run is built once for them in Rust and in Python.
FEATURES := $(if $(filter dev,$(PROFILE)),--features as-tests)
# The simulator, and the scheduler for programs, which is installed without it too.
EDITABLE := --editable . --editable python/incast-requests
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The bindings are tested from Python; parts of the schema are behind features.
CARGO_FLAGS := --workspace --all-features --locked
# A workspace of its own, since it needs what nothing else does.
HOST_FLAGS := --manifest-path crates/host/Cargo.toml --locked --target-dir target/host
# Pages that the program makes are always made anew.
SPHINX := $(BIN)/sphinx-build -q -W --keep-going -E

.DEFAULT_GOAL := help
.PHONY: help install quick demo linux linux-prerequisites test test-rust test-python test-linux test-kills docs docs-links \
	docs-output test-cluster test-own-protocol test-aarch64 test-kernels coverage mutants lint lint-rust lint-python lint-dependencies lint-linux \
	audit sbom release-check version fuzz format reproduce bench bench-works bench-peers validate-ns3 validate-linux validate-requests soak requests-prerequisites \
	schema tables clean prerequisites

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: prerequisites .venv/installed ## build everything; the command is then .venv/bin/incast
	@echo "building the simulator (some minutes the first time)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" MATURIN_PEP517_ARGS="--locked --profile $(PROFILE) $(FEATURES)" \
		$(PIP) install --quiet --no-deps --no-build-isolation $(EDITABLE)

quick: prerequisites ## after a change in Rust: build fast, run slower; PART=dctcp runs the tests of that part first
	@$(if $(PART),cargo test --quiet -p incast-protocols --lib $(PART))
	@$(MAKE) --silent install PROFILE=quick

linux: linux-prerequisites .venv/installed ## build .venv/bin/incast-host, the remedies on the kernel (needs clang, libelf)
	@cargo build --quiet --release $(HOST_FLAGS)
	@install -m 755 target/host/release/incast-host $(BIN)/incast-host

demo: install ## show TCP incast on one page: out/demo/index.html
	@$(BIN)/incast demo --out out/demo

test: install test-rust test-python docs test-own-protocol ## test everything: Rust, Python, the documentation

# Tests ask whether the kernel does what was planned. A machine that is too busy to measure can tell that, too.
test test-rust test-python test-linux docs: export INCAST_LINUX_BUSY ?= warn
test test-rust test-python test-linux docs: export INCAST_LINUX_ATTEMPTS ?= 3
# Tests on the kernel find incast-host there, if it was built.
test-rust: prerequisites
	PATH="$(CURDIR)/$(BIN):$$PATH" cargo test $(CARGO_FLAGS)

test-python: install
	$(BIN)/pytest --numprocesses auto --dist worksteal

test-linux: linux install ## test the remedies on this machine's kernel (needs root)
	cargo test --release $(HOST_FLAGS)
	$(BIN)/pytest tests/linux

test-kills: linux install ## kill incast-host 100 times in the middle of transfers: every byte arrives (needs root)
	INCAST_KILLS=100 $(BIN)/pytest tests/linux/test_enable.py -k killed

test-kernels: linux ## test incast-host on other kernels, in an emulator (a quarter of an hour; needs qemu-system-x86)
	@$(BIN)/python tests/kernels/boot.py

test-cluster: install ## sweep on a real Slurm, sshd and Dask of this machine while they are killed (a minute; needs root, and Debian for apt-get)
	@command -v slurmctld munged sshd ssh >/dev/null && [ -x /usr/sbin/sshd ] || \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge openssh-server openssh-client
	INCAST_CLUSTER_TESTS=1 $(BIN)/pytest tests/cluster

test-aarch64: prerequisites ## compare tables with those of aarch64, emulated, byte for byte (minutes; needs qemu-user)
	@.ci/aarch64

test-own-protocol: install
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/_tools/own_protocol.py out/own-protocol

docs: install ## run the examples of the documentation, build it, check its links: out/docs/index.html
	@rm -rf docs/_made out/docs
	@$(BIN)/python docs/_tools/run_pages.py
	@$(SPHINX) -b html -d out/doctrees docs out/docs

docs-output: install ## update the outputs shown in the documentation
	@$(BIN)/python docs/_tools/run_pages.py --update
	@$(BIN)/python docs/_tools/quoted_tables.py --update
	@$(BIN)/python docs/_tools/scale_picture.py
	@$(BIN)/python docs/_tools/trust.py --update
	@$(BIN)/python docs/_tools/own_protocol.py out/own-protocol --update

docs-links: docs ## check the external links of the documentation (needs the net)
	@$(SPHINX) -b linkcheck -d out/doctrees docs out/docs-links

version: .venv/installed ## state another version in every place that has it (VERSION=1.2.3)
	@$(BIN)/python .ci/release.py --set "$(VERSION)"

fuzz: install ## look for inputs that end in anything but a result or a clear error (SECONDS=600, TARGETS=scenario)
	@$(BIN)/python tests/fuzz/fuzz.py --seconds $(or $(SECONDS),600) $(TARGETS)

# What docs/_tools/trust.py reads.
# Branches are counted by a part of the compiler that is not stable yet; nothing else is built so.
coverage: prerequisites ## which lines and branches the tests in Rust reach, and how much they simulate; CRATES="plan world" (needs cargo-llvm-cov)
	@cargo llvm-cov --version >/dev/null 2>&1 || { echo "make coverage needs cargo-llvm-cov: cargo install cargo-llvm-cov, \
	and rustup component add llvm-tools" >&2; exit 1; }
	@mkdir -p out && : >out/tally
	RUSTC_BOOTSTRAP=1 INCAST_TALLY=$(CURDIR)/out/tally cargo llvm-cov --branch \
		$(if $(CRATES),$(CRATES:%=--package incast-%) --all-features --locked,$(CARGO_FLAGS)) --json --summary-only \
		--output-path out/coverage.json
	@sed 's/^/tally: /' out/tally
	@cat out/coverage.json

mutants: prerequisites ## mutation testing (needs cargo-mutants; takes hours)
	@.ci/mutants $(MUTANTS)

lint: lint-rust lint-python lint-dependencies ## check format, lints, types, and licences of dependencies

lint-rust: prerequisites
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	cargo clippy --package incast-requests --no-default-features --locked -- -D warnings

lint-python: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lint-dependencies: prerequisites .venv/installed
	$(BIN)/python .ci/dependencies.py

lint-linux: linux-prerequisites
	cargo fmt --check --manifest-path crates/host/Cargo.toml
	cargo clippy --release $(HOST_FLAGS) --all-targets -- -D warnings

format: .venv/installed ## format Rust and Python
	cargo fmt --all
	cargo fmt --manifest-path crates/host/Cargo.toml
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

audit: .venv/installed ## look for known vulnerabilities of dependencies (needs the net)
	@.ci/audit

# maturin puts a list of the crates into what it builds.
sbom: install ## list all dependencies in CycloneDX's form: out/sbom
	@rm -rf out/sbom && mkdir -p out/sbom
	@cp .venv/lib/python*/site-packages/incast*.dist-info/sboms/*.cyclonedx.json out/sbom/
	@$(BIN)/uv export --quiet --frozen --no-dev --all-extras --format cyclonedx1.5 --preview-features sbom-export \
		--output-file out/sbom/python.cyclonedx.json
	@ls out/sbom/*

release-check: install ## build wheels, source distributions and crates, and prove that they work in fresh environments: out/release
	@$(BIN)/python .ci/release.py $(CHECKS)

reproduce: install ## compute a paper's figures and judge its claims (PAPER=pulser): out/rdtcp/report.html
	@$(BIN)/incast reproduce $(PAPER)

bench: install ## measure the simulator's speed, and count instructions (needs valgrind; UPDATE=1 keeps the counts)
	@$(BIN)/incast bench leaf-spine
	@$(BIN)/python .ci/instructions.py $(if $(UPDATE),--update)

bench-works: prerequisites ## time the works of make bench in turns, and their ratios (a minute; WORK="leaf-spine, detector" one of them; as root before all of ordinary priority)
	@$(PYTHON) .ci/turns.py $(if $(WORK),"$(WORK)")

bench-peers: install ## time the same work here, in ns-3 and in Days, in turns (installs both; needs g++; LARGE=1: twenty minutes)
	@$(MAKE) --silent -C validation/ns3/programs
	@test -x out/peers/bin/daytone || { $(PYTHON) -m venv out/peers && \
		out/peers/bin/pip --disable-pip-version-check install --quiet --no-deps daytone==0.3.4; }
	@$(BIN)/python validation/ns3/bench_peers.py $(if $(LARGE),--large)

validate-ns3: install ## compare the simulator with ns-3, flow by flow (an hour or two; needs g++)
	@$(MAKE) --silent -C validation/ns3/programs
	@$(BIN)/python validation/ns3/compare.py all

validate-linux: install ## compare the simulator with this machine's Linux (an hour; needs root and iproute2)
	@$(BIN)/python validation/linux/compare_linux.py all

validate-requests: requests-prerequisites install ## judge the request scheduler on real servers (half an hour, GRID=full: hours; needs root)
	@cargo build --quiet --release -p incast-requests --features hyper --example fan_in
	@$(BIN)/python validation/requests/validate_requests.py $(if $(GRID),--grid $(GRID)) $(if $(SHARD),--shard $(SHARD))

soak: install ## run the request scheduler beside servers that misbehave for ten minutes (MINUTES=1, BUFFER_KB=128: told a port): does anything grow?
	@$(BIN)/python validation/requests/soak.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(BUFFER_KB),--buffer-kb $(BUFFER_KB))

schema: prerequisites ## update the JSON Schema of scenario files
	cargo run --quiet -p incast-scenario --example schema > .schema.new && mv .schema.new schema/scenario.schema.json

tables: prerequisites ## update docs/reference/results.md from the definitions of the tables
	cargo run --quiet -p incast-tables --example dictionary > .results.new && mv .results.new docs/reference/results.md

clean: ## remove everything that was built or written
	rm -rf .venv out docs/_made target .pytest_cache .ruff_cache .mypy_cache
	rm -f python/incast/_native*.so python/incast-requests/src/incast_requests/_core*.so

prerequisites:
	@command -v cargo >/dev/null || { echo "incast needs Rust (cargo): see https://rustup.rs" >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "incast needs Python 3.11 or later: see https://www.python.org/downloads \
	(Debian, Ubuntu: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it \
	(Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "incast needs a linker (cc): install a C compiler \
	(Debian, Ubuntu: apt-get install gcc libc6-dev)" >&2; exit 1; }

# Headers are looked for as the compiler does, wherever the system has them.
linux-prerequisites: prerequisites
	@missing=; \
	command -v clang >/dev/null || missing="$$missing clang"; \
	echo '#include <libelf.h>' | cc -fsyntax-only -x c - 2>/dev/null || missing="$$missing libelf-dev"; \
	echo '#include <zlib.h>' | cc -fsyntax-only -x c - 2>/dev/null || missing="$$missing zlib1g-dev"; \
	command -v pkg-config >/dev/null || missing="$$missing pkg-config"; \
	test -z "$$missing" || { echo "incast-host needs$$missing (Debian, Ubuntu: apt-get install$$missing)" >&2; exit 1; }

# Debian has servers where paths of users do not look.
requests-prerequisites: prerequisites
	@PATH="$$PATH:/usr/sbin:/sbin"; missing=; \
	command -v nginx >/dev/null || missing="$$missing nginx-light"; \
	command -v openssl >/dev/null || missing="$$missing openssl"; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	command -v memcached >/dev/null || missing="$$missing memcached"; \
	command -v tc >/dev/null || missing="$$missing iproute2"; \
	test -z "$$missing" || { echo "validate-requests needs$$missing (Debian, Ubuntu: apt-get install$$missing)" >&2; exit 1; }

# What uv.lock pins, hash by hash, is fetched by pip: it knows the machine's own index and certificates.
.venv/installed: uv.lock pyproject.toml python/incast-requests/pyproject.toml | prerequisites
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) install --quiet \
		"uv==$$(sed -n '/^name = "uv"$$/{n;s/version = "\(.*\)"/\1/p;}' uv.lock)"
	@$(BIN)/uv export --quiet --frozen --all-groups --no-emit-workspace --output-file .venv/requirements.txt
	@$(PIP) install --quiet --require-hashes -r .venv/requirements.txt
	@touch $@
