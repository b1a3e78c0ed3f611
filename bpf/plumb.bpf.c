/* SPDX-License-Identifier: GPL-2.0-only */
/* One object of all subsystems: they share the ring, the knobs and the flags.
 * A program carries the name of its event; the loader picks by that name. */
#include "emit.bpf.h"
#include "stack.bpf.h"
#include "sched.bpf.c"
#include "sample.bpf.c"
#include "irq.bpf.c"
#include "syscall.bpf.c"
#include "block.bpf.c"
#include "fs.bpf.c"
#include "lock.bpf.c"
#include "mem.bpf.c"
#include "net.bpf.c"
#include "message.bpf.h"
#include "tcp.bpf.c"
#include "span.bpf.c"

char LICENSE[] SEC("license") = "GPL";
