# SPDX-License-Identifier: Apache-2.0 OR MIT
# The doors of the repository. Work is done by cargo and `cargo xtask`.

# rustup's cargo first: a distribution's own may be older than plumb needs.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin

CARGO ?= cargo

PREFIX ?= /usr/local
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: help deps build install demo quick test faults services waypoints bench clean

help:
	@echo 'make deps    install what is missing for build, demo and test (Debian packages)'
	@echo 'make build   build target/release/plumb'
	@echo 'make install install a stripped plumb, its debug information, manual pages and bash completion below PREFIX'
	@echo 'make demo    nine readers, one by one and at once, and what that changes (as root)'
	@echo 'make quick   check what changed since main: formatting, clippy, unit tests; under a minute'
	@echo 'make test    run every test; as root also those that record this machine,'
	@echo '             and with QEMU those that boot other kernels'
	@echo '             (cargo xtask test STAGE... runs single stages)'
	@echo 'make faults  inject faults whose cause is known and compare what plumb finds (as root);'
	@echo '             results go to OUT, or to results/DATE-faults'
	@echo 'make services  the same with servers under load, by --pid alone (as root; 5 minutes)'
	@echo 'make waypoints  where the time goes inside the system call that creates a file, in a guest (2 minutes)'
	@echo 'make bench   measure what recording costs, beside other tracers (as root)'
	@echo 'make clean   remove target/'

deps:
	@scripts/deps.sh build demo test peers

build:
	@scripts/deps.sh build
	$(CARGO) build --release --locked

# perf, gdb and plumb find the debug information by the link in the program, in .debug/ beside it.
install: build
	install -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(PREFIX)/share/man $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	objcopy --only-keep-debug $(RELEASE)/plumb $(DESTDIR)$(PREFIX)/bin/.debug/plumb.debug
	chmod 644 $(DESTDIR)$(PREFIX)/bin/.debug/plumb.debug
	objcopy --strip-all --add-gnu-debuglink=$(DESTDIR)$(PREFIX)/bin/.debug/plumb.debug $(RELEASE)/plumb $(DESTDIR)$(PREFIX)/bin/plumb
	$(RELEASE)/plumb help --man $(DESTDIR)$(PREFIX)/share/man
	$(RELEASE)/plumb completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/plumb

demo:
	@scripts/deps.sh build demo
	$(CARGO) build --profile fast --locked -p plumb --bin plumb
	PLUMB=$(or $(CARGO_TARGET_DIR),target)/fast/plumb scripts/demo.sh

quick:
	$(CARGO) xtask quick

test:
	@scripts/deps.sh build demo test peers
	$(CARGO) xtask test

faults:
	@scripts/deps.sh build demo test
	$(CARGO) build --release --locked -p plumb -p plumb-faults
	$(or $(CARGO_TARGET_DIR),target)/release/plumb-faults suite --out $(or $(OUT),results/$(shell date +%F)-faults)
	$(if $(OUT),,scripts/evidence.sh results/$(shell date +%F)-faults 'make faults')

services:
	@scripts/deps.sh build services
	$(CARGO) build --release --locked
	benches/services/run.sh $(if $(OUT),--out $(OUT))

waypoints:
	@scripts/deps.sh build demo test
	$(CARGO) build --release --locked
	benches/record/waypoints.sh $(or $(OUT),results/$(shell date +%F)-waypoints)

bench:
	@scripts/deps.sh build bench
	$(CARGO) build --release --locked
	benches/record/run.sh

clean:
	$(CARGO) clean
