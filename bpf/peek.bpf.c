/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the kernel's code as it runs: the file on disk lacks what was patched
 * at boot (alternatives, static calls, ftrace), and /proc/kcore is absent or
 * locked on many machines. An object of its own: it is loaded when a recording
 * is over, and a kernel that refuses it costs no recording.
 */
#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>

struct plumb_peek {
	u64 address;   /* where to read */
	u32 bytes;     /* how many of data */
	s32 result;    /* 0 or -errno */
	u8 data[4096]; /* what lies there */
};

struct plumb_peek peek = {};

SEC("syscall")
int read_kernel(void *ctx)
{
	u32 bytes = peek.bytes;

	if (bytes > sizeof(peek.data))
		bytes = sizeof(peek.data);
	peek.result = bpf_probe_read_kernel(peek.data, bytes, (const void *)peek.address);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
