# `make demo` and `make test` need Rust and Python, and install everything else (scripts/setup).
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench matrix fuzz docs dist site

help: ## list targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 14

demo: ## show each of the five stalls on a server that has it and on Keepwarm, then serve an example on 127.0.0.1:8080 (DEMO_ONCE=1: exit)
	@scripts/demo

test: ## run every test of the workspace and the adapters
	@scripts/test

lint: ## check formatting, clippy, architecture and licences
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	.ci/architecture.py
	.ci/licences.py

bench: ## compare Keepwarm with its peers (about ten minutes on an otherwise idle machine)
	@scripts/setup bench
	cargo build --release --locked -p keepwarm
	bench/.venv/bin/python bench/load/run.py

matrix: ## run keepwarm check on widely used servers and compare it with curl, ab and tcpdump (five minutes; needs root)
	@scripts/doctor-matrix

fuzz: ## run each fuzz target for one minute
	@scripts/setup fuzz
	fuzz/run 60

docs: ## build the crate documentation, and generate docs/reference from the code
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked
	cargo run --quiet --locked -p keepwarm -- reference >target/configuration.md
	cargo run --quiet --locked -p keepwarm -- reference --schema >target/keepwarm.schema.json
	cargo run --quiet --locked -p keepwarm -- reference --errors >target/errors.md
	mv target/configuration.md target/errors.md target/keepwarm.schema.json docs/reference/
	.ci/log_events.py --write

dist: ## build the programs for x86_64 and aarch64, and every package of them, into dist/ (half an hour on two cores)
	@scripts/setup dist
	packaging/dist.py $(DIST_OPTIONS)

site: ## build the documentation as a site, in target/site
	@scripts/site
