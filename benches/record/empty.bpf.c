// SPDX-License-Identifier: GPL-2.0-only
/* What any BPF tracer pays at least: a program that does nothing, one for each
 * tracepoint of the benchmark; and one that counts, to learn how many events a
 * load makes. No kernel types, so no CO-RE and no vmlinux.h. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

enum {
#define TP(name) AT_##name,
#include "tracepoints.h"
#undef TP
	TRACEPOINTS
};

__u64 hits[TRACEPOINTS];

#define TP(name)                                                               \
	SEC("tp_btf/" #name) int empty_##name(void *ctx)                       \
	{                                                                      \
		return 0;                                                      \
	}                                                                      \
	SEC("tp_btf/" #name) int count_##name(void *ctx)                       \
	{                                                                      \
		__sync_fetch_and_add(&hits[AT_##name], 1);                     \
		return 0;                                                      \
	}
#include "tracepoints.h"

char LICENSE[] SEC("license") = "GPL";
