#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/fetch.sh: fetches what the guests are made of, so that the tests in them need no network and start at once:
# kernels, compilers, fio, Debians for the packages. All of it is kept in target/vm.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")" || exit
./run.sh fetch
./ip-san.sh fetch
./iosched.sh fetch
./dkms.sh fetch
./packages.sh fetch
