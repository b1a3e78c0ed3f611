#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# iosched/test/run.sh [STEPS [SEED]]: the policy's property tests, with the sanitizers for addresses and for
# undefined behaviour.
set -euo pipefail

steps=${1:-10000000} seed=${2:-$RANDOM}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -O2 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
	-Iuser -I. lp_*.c user/sorted.c test/property.c test/oracle.c test/scenes.c -o "$work/property"
echo "property: $steps steps, seed $seed"
"$work/property" "$steps" "$seed"
