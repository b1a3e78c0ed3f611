/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * What the BPF programs and the process that loads them share besides the
 * events: knobs (fixed before load), ring cursors, task flags, stack records.
 * Never written to a trace.
 */
#ifndef PLUMB_PROBE_H
#define PLUMB_PROBE_H

#include "event.h"

#define PLUMB_MAX_CPUS 512
#define PLUMB_MAX_TASKS (1 << 22) /* PID_MAX_LIMIT of 64-bit kernels */
#define PLUMB_SLOT_BYTES 32
#define PLUMB_CHUNK_BYTES 65536 /* array values above KMALLOC_MAX_SIZE are refused before 6.4 */
#define PLUMB_CHUNK_SLOTS (PLUMB_CHUNK_BYTES / PLUMB_SLOT_BYTES)

/* A ring's head counts slots in its low bits and, above them, how many of
 * those are second halves, so that one atomic add keeps both and
 * events = slots - halves holds at every instant. */
#define PLUMB_HEAD_SLOT_BITS 36
#define PLUMB_HEAD_SLOT_MASK ((1ULL << PLUMB_HEAD_SLOT_BITS) - 1)

#define PLUMB_TASK_TARGET 1     /* belongs to the target */
#define PLUMB_TASK_IN_SYSCALL 2 /* between a recorded sys_enter and its sys_exit */
#define PLUMB_TASK_WANT_USER 4  /* waited above the threshold: user stack at sys_exit */

#define PLUMB_STACK_FRAMES 64
#define PLUMB_MAX_DEVICES 8
#define PLUMB_WAIT_SLOTS 8192

/* Index of a set in plumb_knobs.thin. */
enum plumb_thin {
	PLUMB_THIN_SYSCALL,
	PLUMB_THIN_BLOCK,
	PLUMB_THIN_FS,
	PLUMB_THIN_PAGECACHE,
	PLUMB_THIN_MEM,
	PLUMB_THIN_NET,
	PLUMB_THIN_SETS,
};

struct plumb_knobs {
	plumb_u64 slot_mask;                 /* slots of one CPU's ring, minus one */
	plumb_u32 slot_shift;                /* log2 of the slots of one CPU's ring */
	plumb_u32 chunk_shift;               /* log2 of the chunks of one CPU's ring */
	plumb_u64 stack_threshold;           /* ns; 0 takes no stacks */
	plumb_u64 syscalls[8];               /* bit n: record system call n */
	plumb_u32 thin[PLUMB_THIN_SETS];     /* ratio minus one, a power of two minus one */
	plumb_u32 everyone;                  /* 1: system calls and stacks of all, not of the target */
	plumb_u32 emit_fork;                 /* 0: births only pass the target's mark on */
	plumb_u32 emit_exec;                 /* 0: the same for a thread that takes over its leader's id */
	plumb_u32 only_target;               /* 1: no event that the target has no part in */
	plumb_u32 devices;                   /* 0, or how many of device[] are set */
	plumb_u32 device[PLUMB_MAX_DEVICES]; /* whole disks to record block events of */
};

struct plumb_cursor {
	plumb_u64 head;
	plumb_u64 pad[15]; /* one CPU's line, and the prefetcher's next */
};

struct plumb_build_id_frame {
	plumb_s32 status; /* 1 build id and offset, 2 address only */
	unsigned char build_id[20];
	plumb_u64 offset_or_ip;
};

enum plumb_stack_kind {
	PLUMB_STACK_WAIT,       /* kernel stack on which tid slept */
	PLUMB_STACK_WAIT_USER,  /* its user stack */
	PLUMB_STACK_WAKER,      /* kernel stack of who woke tid */
	PLUMB_STACK_WAKER_USER, /* where its user code is, and the words on top of its user stack */
	PLUMB_STACK_SAMPLE,     /* kernel stack of tid at the sampling clock's tick; empty in user mode */
};

struct plumb_stack {
	plumb_u64 end; /* ns: when tid ran again, was woken, or was sampled */
	plumb_u32 tid;
	plumb_s32 bytes; /* of frames, or -errno */
	plumb_u32 kind;  /* enum plumb_stack_kind */
	plumb_u32 other; /* CPU of a sample; process whose thread woke tid */
	union {
		plumb_u64 kernel[PLUMB_STACK_FRAMES];
		struct plumb_build_id_frame frames[PLUMB_STACK_FRAMES];
	};
};

#endif /* PLUMB_PROBE_H */
