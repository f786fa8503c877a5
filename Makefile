# The one entry to building, running and checking Switchboard.
# `make run` and `make test` do all the set-up that a fresh machine needs (Rust, a C compiler, make, python3 and apt are there).

CARGO ?= cargo
# Built with the whole workspace: `cargo run -p` would unify features differently and build most of it twice.
STORES := $${CARGO_TARGET_DIR:-target}/debug/with-stores
RUN_ARGS ?=
FUZZ_SECONDS ?= 600

.PHONY: run test fuzz bench lint fmt doc check release setup reference

## Builds and starts the gateway with its embedded default; prints a `curl` line that answers.
run:
	$(CARGO) build --release -p switchboard
	$${CARGO_TARGET_DIR:-target}/release/switchboard serve --demo $(RUN_ARGS)

## Installs what the tests need, then runs everything: unit, contract, scenarios, real client libraries.
test: setup
	$(CARGO) build --workspace --all-targets
	$(STORES) $(CARGO) test --workspace --quiet

## Fuzzes one target (`make fuzz TARGET=sse`): needs the nightly toolchain and `cargo install cargo-fuzz`.
fuzz:
	mkdir -p target/fuzz-corpus/$(TARGET)
	$(CARGO) +nightly fuzz run --fuzz-dir integration-tests/fuzz $(TARGET) target/fuzz-corpus/$(TARGET) \
		integration-tests/fuzz/corpus/$(TARGET) -- -max_total_time=$(FUZZ_SECONDS)

## Compares with a direct call and a bare proxy; writes target/bench.json.
bench: setup release
	$(CARGO) run --release -q -p switchboard-bench -- $(BENCH_ARGS)

release:
	$(CARGO) build --release -p switchboard -p fake-upstream -p switchboard-bench

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

fmt:
	$(CARGO) fmt --all

doc:
	$(CARGO) doc --workspace --no-deps --open

## What CI runs.
check: lint test

## Rewrites the generated references under deploy/reference.
reference:
	UPDATE_REFERENCE=1 $(CARGO) test -p switchboard --test it -- reference metrics

## PostgreSQL, Redis and Python's venv; does nothing where they are there. The tests make their own environment with it.
setup:
	./.ci/setup
