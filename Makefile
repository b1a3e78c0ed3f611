# SPDX-License-Identifier: Apache-2.0 OR MIT
# The doors of the repository. Work is done by cargo and `cargo xtask`.

# rustup's cargo first: a distribution's own may be older than plumb needs.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin

CARGO ?= cargo

PREFIX ?= /usr/local
DEBUG ?= $(PREFIX)/bin/.debug/plumb.debug
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release
PROGRAM = $(or $(PLUMB),$(RELEASE)/plumb)
SHARE = $(DESTDIR)$(PREFIX)/share
DOC = $(SHARE)/doc/plumb

.PHONY: help deps build install packages demo quick test faults services waypoints bench clean

help:
	@echo 'make deps    install what is missing for build, demo and test (Debian packages)'
	@echo 'make build   build target/release/plumb'
	@echo 'make install install a stripped plumb, its debug information, manuals and completions below PREFIX'
	@echo 'make packages  .deb, .rpm, source tarball, list of contents (SPDX) in OUT, or in target/packages'
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

# PLUMB=FILE installs that program and builds none: packages are made of this with PREFIX=/usr and their own DEBUG.
# perf, gdb and plumb find the debug information by the link in the program, in .debug/ beside it, or by the build ID.
# A unit of systemd, when there is a daemon, goes to $(PREFIX)/lib/systemd/system.
install: $(if $(PLUMB),,build)
	install -d $(dir $(DESTDIR)$(DEBUG)) $(DESTDIR)$(PREFIX)/bin $(DOC)/docs $(DOC)/sql $(DOC)/monitoring $(SHARE)/bash-completion/completions \
		$(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	objcopy --only-keep-debug --compress-debug-sections=zlib $(PROGRAM) $(DESTDIR)$(DEBUG)
	chmod 644 $(DESTDIR)$(DEBUG)
	objcopy --strip-all --add-gnu-debuglink=$(DESTDIR)$(DEBUG) $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/plumb
	$(PROGRAM) help --man $(SHARE)/man
	gzip -9nf $(addprefix $(SHARE)/man/,man1/plumb.1 man1/plumb-*.1 man7/plumb-*.7)
	$(PROGRAM) completions bash >$(SHARE)/bash-completion/completions/plumb
	$(PROGRAM) completions zsh >$(SHARE)/zsh/site-functions/_plumb
	$(PROGRAM) completions fish >$(SHARE)/fish/vendor_completions.d/plumb.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|PREFIX|$(PREFIX)|' packages/plumb-watch.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/plumb-watch.service
	install -m 644 README.md CHANGELOG.md THIRD-PARTY-NOTICES.txt $(DOC)
	install -m 644 docs/* $(DOC)/docs
	install -m 644 sql/* $(DOC)/sql
	install -m 644 monitoring/* $(DOC)/monitoring

packages:
	@scripts/deps.sh build packages
	$(if $(wildcard .git),packages/source.sh $(or $(OUT),target/packages))
	packages/build.sh $(or $(OUT),target/packages)

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
