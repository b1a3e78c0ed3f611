/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of Python that a thread of CPython is in, read from the
 * interpreter's own memory: its frames lie on the heap, where a copy of the
 * stack does not reach. User space tells which processes have an interpreter,
 * and where its version keeps what.
 */
#ifndef PLUMB_PYTHON_BPF_H
#define PLUMB_PYTHON_BPF_H

#include "emit.bpf.h"

#define MOST_THREADS 64 /* of an interpreter, newest first */
#define SHIM_OWNER 3    /* FRAME_OWNED_BY_CSTACK */
#define MOST_OF_PTHREAD 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); /* allocated at once: kernels before 6.1 let samplers use no other */
	__type(key, u32);
	__type(value, struct plumb_python);
} pythons SEC(".maps");

static __always_inline u64 user_word(u64 address)
{
	u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

static __always_inline u8 user_byte(u64 address)
{
	u8 byte = 0;

	bpf_probe_read_user(&byte, sizeof(byte), (void *)address);
	return byte;
}

/* Whether that is glibc's or musl's pthread_self() of the thread: the base of its thread-local storage, or, on arm64, a
 * structure that ends there (struct pthread), whose length differs between versions. */
static __always_inline bool is_self(u64 id, u64 storage)
{
#if defined(__TARGET_ARCH_arm64)
	return storage - id - 1 < MOST_OF_PTHREAD;
#else
	return id == storage;
#endif
}

/* The running thread's PyThreadState. */
static __always_inline u64 python_thread(struct plumb_python *p, struct task_struct *me)
{
#if defined(__TARGET_ARCH_arm64)
	u64 storage = BPF_CORE_READ(me, thread.uw.tp_value);
#else
	u64 storage = BPF_CORE_READ(me, thread.fsbase);
#endif
	u64 thread = user_word(user_word(p->interpreter) + p->threads);
	int i;

	for (i = 0; i < MOST_THREADS && thread; i++) {
		if (is_self(user_word(thread + p->thread_id), storage))
			return thread;
		thread = user_word(thread + p->next);
	}
	return 0;
}

/* A code object as it stands in a stack; see PLUMB_PYTHON_ADDRESS. */
static __always_inline u64 python_code(struct plumb_python *p, u64 code)
{
	u64 of[2] = {}, hash;
	u32 line = 0;

	if (!code)
		return 0;
	bpf_probe_read_user(of, sizeof(of), (void *)(code + p->filename));
	bpf_probe_read_user(&line, sizeof(line), (void *)(code + p->line));
	hash = (line * PLUMB_PYTHON_MIX ^ of[0]) * PLUMB_PYTHON_MIX;
	hash = (hash ^ user_word(of[0] + PLUMB_PYTHON_LENGTH)) * PLUMB_PYTHON_MIX;
	hash = (hash ^ of[1]) * PLUMB_PYTHON_MIX;
	hash = (hash ^ user_word(of[1] + PLUMB_PYTHON_HASH)) * PLUMB_PYTHON_MIX;
	return hash >> PLUMB_PYTHON_ADDRESS << PLUMB_PYTHON_ADDRESS | code;
}

/* A record of its own, before that of the stack: most threads have none. Global, so that it is verified once. */
__noinline int python_stack(u32 tid, u64 end)
{
	struct task_struct *me = bpf_get_current_task_btf();
	u32 pid = tgid_of(me);
	struct plumb_python *p = bpf_map_lookup_elem(&pythons, &pid);
	struct plumb_stack *s;
	u64 frame, code;
	u8 entry;
	int i;

	if (!p)
		return 0;
	frame = python_thread(p, me);
	if (!frame)
		return 0;
	frame = user_word(frame + p->frame);
	if (p->indirect)
		frame = user_word(frame + p->indirect - 1);
	if (!frame)
		return 0;
	s = bpf_ringbuf_reserve(&stacks, sizeof(*s), 0);
	if (!s)
		return 0;
	s->end = end;
	s->tid = tid;
	s->by = tid_of(me);
	s->pid = pid;
	s->kind = PLUMB_STACK_PYTHON;
	s->cpu = bpf_get_smp_processor_id();
	s->copied = 0;
	s->ip = s->sp = s->bp = s->lr = 0;
	for (i = 0; i < PLUMB_STACK_FRAMES && frame; i++) {
		code = user_word(frame + p->code);
		entry = p->kind == PLUMB_ENTRY_EACH;
		if (p->kind != PLUMB_ENTRY_EACH)
			entry = user_byte(frame + p->entry);
		if (p->kind == PLUMB_ENTRY_SHIM) {
			/* of no function: what it called was called from C */
			entry = entry == SHIM_OWNER;
			code = entry ? 0 : code;
		}
		code = python_code(p, code);
		s->kernel[i] = entry ? code | PLUMB_PYTHON_ENTRY : code;
		frame = user_word(frame + p->back);
	}
	s->bytes = i * sizeof(u64);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif /* PLUMB_PYTHON_BPF_H */
