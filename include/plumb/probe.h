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
/* Added to the first id of a task that has none in the recorder's PID namespace:
 * a process, and a thread of the kernel. */
#define PLUMB_OUTSIDE PLUMB_MAX_TASKS
#define PLUMB_OUTSIDE_KERNEL (PLUMB_OUTSIDE << 1)
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
#define PLUMB_TASK_TOLD 8       /* of the one outside that has this id: its name was told */
#define PLUMB_TASK_WANT_USER 4  /* waited above the threshold: user stack at sys_exit */

#define PLUMB_STACK_FRAMES 64
#define PLUMB_MAX_DEVICES 8
#define PLUMB_MAX_PLACES 64
#define PLUMB_TEXT_BYTES 512 /* of the text that names a span */
#define PLUMB_NO_ARG 255
#define PLUMB_WAIT_SLOTS 8192

/* Index of a set in plumb_knobs.thin. */
enum plumb_thin {
	PLUMB_THIN_SYSCALL,
	PLUMB_THIN_BLOCK,
	PLUMB_THIN_FS,
	PLUMB_THIN_PAGECACHE,
	PLUMB_THIN_MEM,
	PLUMB_THIN_NET,
	PLUMB_THIN_TCP, /* whole connections are left out */
	PLUMB_THIN_SETS,
};

enum plumb_condition {
	PLUMB_PLACE_ALWAYS,
	PLUMB_PLACE_EQUAL,
	PLUMB_PLACE_OTHER,
};

enum plumb_key {
	PLUMB_KEY_NONE,
	PLUMB_KEY_NUMBER,
	PLUMB_KEY_TEXT,
	PLUMB_KEY_KERNEL_TEXT, /* in the kernel's memory, or in that of the program */
};

/* A place in a program or a kernel function where spans begin or end; the probe's cookie is its index. */
struct plumb_span_place {
	plumb_u32 value; /* that the argument is compared with */
	plumb_u16 span;
	plumb_u8 ends;
	plumb_u8 condition;     /* enum plumb_condition */
	plumb_u8 condition_arg; /* its argument, from 0 on */
	plumb_u8 key;           /* enum plumb_key */
	plumb_u8 key_arg;
	plumb_u8 length_arg;  /* of the text; PLUMB_NO_ARG: it ends with a NUL */
	plumb_s32 key_offset; /* of the memory behind a register, or the constant itself */
	plumb_u8 key_from;    /* enum plumb_from */
	plumb_u8 key_bytes;   /* of a USDT probe's argument: 1, 2, 4 or 8 */
	plumb_u8 key_signed;  /* 1: it has a sign */
	plumb_u8 unused;
};

/* Where a key comes from. Arguments of USDT probes lie wherever the compiler had them. */
enum plumb_from {
	PLUMB_FROM_ARGUMENT, /* key_arg: of the function's arguments */
	PLUMB_FROM_REGISTER, /* key_arg: index in the list of span.bpf.c */
	PLUMB_FROM_MEMORY,   /* at that register and key_offset */
	PLUMB_FROM_CONSTANT,
};

struct plumb_knobs {
	plumb_u64 slot_mask;             /* slots of one CPU's ring, minus one */
	plumb_u32 slot_shift;            /* log2 of the slots of one CPU's ring */
	plumb_u32 chunk_shift;           /* log2 of the chunks of one CPU's ring */
	plumb_u64 stack_threshold;       /* ns; 0 takes no stacks */
	plumb_u64 syscalls[8];           /* bit n: record system call n */
	plumb_u32 thin[PLUMB_THIN_SETS]; /* ratio minus one, a power of two minus one */
	plumb_u32 everyone;              /* 1: system calls and stacks of all, not of the target */
	plumb_u32 emit_fork;             /* 0: births only pass the target's mark on */
	plumb_u32 emit_exec;             /* 0: the same for a thread that takes over its leader's id */
	plumb_u32 emit_flow;             /* 1: connections are told before their first segment */
	plumb_u32 emit_message;          /* 1: headers of storage protocols are read */
	plumb_u32 packet_reads;   /* 1: the kernel reads packets for programs of tracepoints, from 6.11 on */
	plumb_u32 recorder;       /* 0, or the process whose waits get no stacks; first PID namespace */
	plumb_u32 futex_at_enter; /* 1: sys_enter emits futex too; two programs cost more */
	plumb_u32 pid_namespace;  /* inode of the recorder's; 0: the first, whose ids are the kernel's own */
	plumb_u32 only_target;    /* 1: no event that the target has no part in */
	plumb_u32 devices;        /* 0, or how many of device[] are set */
	plumb_u32 device[PLUMB_MAX_DEVICES]; /* whole disks to record block events of */
	plumb_u32 rethook_warns;             /* 1: the kernel is older than 6.10, see in_kretprobe() */
	plumb_u32 tick;                      /* ns of a tick of the kernel's clock (jiffies) */
	plumb_u32 wait_words;                /* 1: processes in the map of that name say what they wait for */
	struct plumb_span_place place[PLUMB_MAX_PLACES];
};

struct plumb_cursor {
	plumb_u64 head;
	plumb_u64 pad[15]; /* one CPU's line, and the prefetcher's next */
};

enum plumb_stack_kind {
	PLUMB_STACK_WAIT, /* where tid slept; user registers only when it was in no recorded system call */
	PLUMB_STACK_CALL, /* user stack of tid at the end of a system call in which it slept; no kernel frames */
	PLUMB_STACK_WAKER, /* where the one was who woke tid; user part when that was in a recorded system call */
	PLUMB_STACK_SAMPLE, /* where tid was at the sampling clock's tick */
	PLUMB_STACK_TEXT,   /* none: the text that names the span that tid began at `end` */
	/* The functions of an interpreter that `by` is in, in the place of kernel frames: what comes of the same thread
	 * at the same time is the stack that they belong to. */
	PLUMB_STACK_PYTHON,
};

/* In the address of a code object, which is aligned: its function was called from C. Alone: the one before was. */
#define PLUMB_PYTHON_ENTRY 1ULL

/* How a frame tells that the function of C in which its own function runs was called for it. */
enum plumb_python_entry {
	PLUMB_ENTRY_EACH, /* each is (CPython up to 3.10) */
	PLUMB_ENTRY_BYTE, /* a byte that is not 0 (3.11) */
	PLUMB_ENTRY_SHIM, /* the next one is none of a function: its owner is the C stack (3.12 and later) */
};

/* Where a CPython has what its threads are in: offsets in bytes, see crates/probe/src/user/python.rs. */
struct plumb_python {
	plumb_u64 interpreter; /* address of the main interpreter's pointer: _PyRuntime.interpreters.main */
	plumb_u16 threads;     /* PyInterpreterState: the newest thread */
	plumb_u16 next;        /* PyThreadState: the next one */
	plumb_u16 thread_id;   /* PyThreadState: pthread_self() */
	plumb_u16 frame;       /* PyThreadState: the innermost frame, or what points to it */
	plumb_u16
		indirect; /* of the latter: the frame, plus 1; 0 where `frame` is the frame's address itself */
	plumb_u16 back;   /* of a frame: its caller */
	plumb_u16 code;   /* of a frame: its code object */
	plumb_u16 entry;  /* of a frame: see enum plumb_python_entry */
	plumb_u16 kind;   /* enum plumb_python_entry */
	plumb_u16 line;   /* PyCodeObject: co_firstlineno */
	plumb_u16 filename; /* PyCodeObject: co_filename, behind which its name is */
	plumb_u16 unused;
};

/* A code object in a stack: its address, and above it what tells it from the one that had its memory before, a hash: its
 * first line, its file (address and length) and its name (address and the string's own hash, which interned ones
 * have). A name's memory goes to the next name as a code object's to the next: addresses alone tell nothing. */
#define PLUMB_PYTHON_ADDRESS 48
#define PLUMB_PYTHON_LENGTH 16 /* PyASCIIObject.length, CPython 3.8 to 3.13 */
#define PLUMB_PYTHON_HASH 24   /* PyASCIIObject.hash */
#define PLUMB_PYTHON_MIX 0x9e3779b97f4a7c15ULL

/* Why a stack was lost: index of stacks_lost. */
enum plumb_stack_lost {
	PLUMB_LOST_FULL, /* the ring buffer had no room */
	PLUMB_LOST_BUSY, /* its lock was held by what the sample interrupted */
	PLUMB_LOST_CAUSES,
};

/* How much of a user stack is copied: classes, which user space raises for a
 * thread whose stacks turn out to be deeper. */
#define PLUMB_COPY_0 2048
#define PLUMB_COPY_1 8192
#define PLUMB_COPY_2 32768
#define PLUMB_COPY_SLOTS 65536 /* threads by the low bits of their ids */

/* `copied` bytes of the user stack, from sp on, lie behind it. */
struct plumb_stack {
	plumb_u64 end;  /* ns: when tid ran again, its sys_exit, when it was woken or sampled */
	plumb_u32 tid;  /* who slept, was woken or ran */
	plumb_u32 by;   /* whose stack it is: tid, of WAKER the thread that woke it */
	plumb_u32 pid;  /* process of by */
	plumb_u16 kind; /* enum plumb_stack_kind */
	plumb_u16 cpu;
	plumb_s32 bytes;  /* of kernel frames, or -errno */
	plumb_u32 copied; /* bytes of the user stack that could be read; at most PLUMB_COPY_2 */
	plumb_u64 ip;     /* user registers; 0 where there is no user part */
	plumb_u64 sp;
	plumb_u64 bp; /* frame pointer: rbp, x29 */
	plumb_u64 lr; /* arm64: x30 */
	plumb_u64 kernel[PLUMB_STACK_FRAMES];
};

/* In the place of a stack: the text that names a span. */
struct plumb_text {
	plumb_u64 at;    /* ns: when the span began */
	plumb_u32 tid;   /* who began it */
	plumb_u32 by;    /* the same */
	plumb_u32 pid;   /* 0 */
	plumb_u16 kind;  /* PLUMB_STACK_TEXT */
	plumb_u16 span;  /* which */
	plumb_u32 bytes; /* of the text that could be read, with the NUL that ends it */
	char text[PLUMB_TEXT_BYTES];
	plumb_u32 unused;
};

#endif /* PLUMB_PROBE_H */
