#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# iosched/test/run.sh [STEPS [SEED]]: the policy's property tests, with the sanitizers for addresses and for
# undefined behaviour: on the simulator's requests, lists and trees (iosched/user), then on the module's (kmod/env.h),
# which behave as the kernel's do; then the module's call-backs (kmod/test).
set -euo pipefail

steps=${1:-10000000} seed=${2:-$RANDOM}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # NAME OPTION...
	"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -O2 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
		"${@:2}" -o "$work/$1"
}

# What the module includes of the kernel.
mkdir -p "$work/include/linux" "$work/include/trace/events"
for header in linux/{atomic,blk-cgroup,blk-mq,cgroup,hrtimer,ioprio,list,math64,module,rbtree,slab,spinlock,types,wait} \
	trace/events/block lp_abi; do
	echo '#include "kernel.h"' >"$work/include/$header.h"
done
kernel=(-Wno-unused-parameter -I"$work/include" -I../kmod/test -I../kmod -I.)

tests=(test/property.c test/oracle.c test/scenes.c)
build property -Iuser -I. lp_*.c user/sorted.c "${tests[@]}" &
user=$!
# The kernel's u64 is no uint64_t.
build kernel-property "${kernel[@]}" -DLP_LOCAL= -Wno-format lp_*.c ../kmod/test/rbtree.c "${tests[@]}"
wait $user
build module "${kernel[@]}" -Wno-unused-function ../kmod/{main,attributes,cgroups,policy}.c \
	../kmod/test/{module,elevator,rbtree}.c
for program in property kernel-property module; do
	echo "$program: $steps steps, seed $seed"
	"$work/$program" "$steps" "$seed"
done
