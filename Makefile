# `make demo` and `make test` need Rust and Python; what else they need they install (scripts/setup).
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench matrix fuzz docs

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 14

demo: ## build, serve the Flask example on 127.0.0.1:8080, show that the five stalls are gone (DEMO_ONCE=1: then exit)
	@scripts/demo

test: ## run every test: the workspace's and the adapters'
	@scripts/test

lint: ## check format, clippy, architecture, licences
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	.ci/architecture.py
	.ci/licences.py

bench: ## measure Keepwarm and its peers side by side (about ten minutes; run nothing else)
	@scripts/setup bench
	cargo build --release --locked -p keepwarm
	bench/.venv/bin/python bench/load/run.py

matrix: ## run keepwarm check on widely used servers and compare it with curl, ab and tcpdump (five minutes; needs root)
	@scripts/doctor-matrix

fuzz: ## run every fuzz target for a minute
	@scripts/setup fuzz
	fuzz/run 60

docs: ## build the crates' documentation, and docs/reference from the definitions in the code
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked
	cargo run --quiet --locked -p keepwarm -- reference >target/configuration.md
	cargo run --quiet --locked -p keepwarm -- reference --schema >target/keepwarm.schema.json
	cargo run --quiet --locked -p keepwarm -- reference --errors >target/errors.md
	mv target/configuration.md target/errors.md target/keepwarm.schema.json docs/reference/
	.ci/log_events.py --write
