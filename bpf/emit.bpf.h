/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The record path. An event is: one atomic add on this CPU's cursor, one clock
 * reading, plain stores into an array that user space has mapped, and last the
 * 8-byte word {id, lap, tid} that commits it. No wakeup, no lock, no helper
 * but the clock.
 *
 * Interrupts nest: a program may be interrupted between its add and its last
 * store, and the interrupting one takes the next slot. So slots may be
 * committed out of order, and neighbours' times may be swapped; the reader
 * waits for the lap in order, and sorts.
 */
#ifndef PLUMB_EMIT_BPF_H
#define PLUMB_EMIT_BPF_H

#include "task.bpf.h"
#include "plumb/event.h"
#include "plumb/schema_hash.h"
#include "core_fixes.bpf.h"

const volatile u64 plumb_schema SEC(".rodata.schema") = PLUMB_SCHEMA_HASH;
/* never read: a struct is in BTF, and so in the loader's types, only when a variable has it */
const volatile struct plumb_stack plumb_stack_type SEC(".rodata.schema") = {};
const volatile struct plumb_text plumb_text_type SEC(".rodata.schema") = {};
struct plumb_cursor cursors[PLUMB_MAX_CPUS] SEC(".data.cursors") = {};
/* alone in .bss: a map value above 4 MiB would be refused before 6.4 */
u8 task_flags[PLUMB_MAX_TASKS];
u64 stacks_lost[PLUMB_LOST_CAUSES] SEC(".data.counts") = {};
/* which PLUMB_COPY_ a thread's user stacks need; written by user space, only read here */
u8 copy_class[PLUMB_COPY_SLOTS] SEC(".data.copy_class") = {};

struct chunk {
	u8 bytes[PLUMB_CHUNK_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load: CPUs << chunk_shift */
	__type(key, u32);
	__type(value, struct chunk);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23); /* set before load: more on more than four CPUs */
} stacks SEC(".maps");

/* Bios and requests of the target, for only_target: the completion of a
 * request comes in an interrupt that knows nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} ours SEC(".maps");

/* Of processes that keep a word of what they wait for: where in their memory its
 * address is. A child has it where its parent has. */
struct wait_word {
	u64 address;
	u32 program;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct wait_word);
} wait_words SEC(".maps");

/* of tasks outside of the recorder's PID namespace */
u8 no_flags SEC(".data.no_flags") = 0;

static __always_inline u8 *flags_of(u32 tid)
{
	if (knobs.pid_namespace && tid >= PLUMB_OUTSIDE)
		return &no_flags;
	return &task_flags[tid & (PLUMB_MAX_TASKS - 1)];
}

static __always_inline bool is_target(u32 tid)
{
	return *flags_of(tid) & PLUMB_TASK_TARGET;
}

/* Whether an event in tid's context is wanted at all. */
static __always_inline bool wanted(u32 tid)
{
	return !knobs.only_target || is_target(tid);
}

/* Keeps one of (ratio) at random; for sets whose events stand alone. */
static __always_inline bool thinned(const enum plumb_thin set)
{
	return knobs.thin[set] && (bpf_get_prandom_u32() & knobs.thin[set]);
}

static __always_inline void *slot_at(u32 cpu, u64 n)
{
	u64 slot = n & knobs.slot_mask;
	u32 chunk = (cpu << knobs.chunk_shift) | (u32)(slot / PLUMB_CHUNK_SLOTS);
	u8 *base = bpf_map_lookup_elem(&ring, &chunk);

	if (!base)
		return NULL;
	return base + (slot & (PLUMB_CHUNK_SLOTS - 1)) * PLUMB_SLOT_BYTES;
}

static __always_inline u64 take(u32 cpu, const u64 add)
{
	return __sync_fetch_and_add(&cursors[cpu & (PLUMB_MAX_CPUS - 1)].head, add) & PLUMB_HEAD_SLOT_MASK;
}

static __always_inline u16 lap_of(u64 n)
{
	return (u16)((n >> knobs.slot_shift) + 1);
}

static __always_inline void commit(struct plumb_head *head, u16 id, u16 lap, u32 tid)
{
	u64 word = (u64)id | (u64)lap << 16 | (u64)tid << 32;
	u64 *at = (u64 *)&head->id;

	/* x86 keeps stores in order; elsewhere a full barrier is the only one
	 * that BPF offered before 6.15 */
#if defined(__TARGET_ARCH_x86)
	asm volatile("" ::: "memory");
	*(volatile u64 *)at = word;
#else
	__sync_lock_test_and_set(at, word);
#endif
}

/*
 * EMIT(name, tid, stores...): one 32-byte event; the stores write to `e`.
 * EMIT64 the same for 64 bytes: the stores of the first half write to `e`,
 * those of the second to `h`, which points at the same struct so that
 * h->field lands in the second slot wherever the ring wraps.
 */
#define EMIT(name_, tid_, ...) \
	({ \
		u64 now_ = 0; \
		u32 cpu_ = bpf_get_smp_processor_id(); \
		u64 n_ = take(cpu_, 1); \
		struct plumb_##name_ *e = slot_at(cpu_, n_); \
		if (e) { \
			now_ = bpf_ktime_get_ns(); \
			e->ts = now_; \
			__VA_ARGS__; \
			commit((struct plumb_head *)e, PLUMB_ID_##name_, lap_of(n_), tid_); \
		} \
		now_; \
	})

#define EMIT64(name_, tid_, first_, second_) \
	({ \
		u32 cpu_ = bpf_get_smp_processor_id(); \
		u64 n_ = take(cpu_, 2 | 1ULL << PLUMB_HEAD_SLOT_BITS); \
		struct plumb_##name_ *e = slot_at(cpu_, n_); \
		u8 *half_ = slot_at(cpu_, n_ + 1); \
		if (e && half_) { \
			struct plumb_##name_ *h = (void *)(half_ - PLUMB_SLOT_BYTES); \
			e->ts = bpf_ktime_get_ns(); \
			first_; \
			second_; \
			h->cont_id = PLUMB_CONT_ID; \
			h->cont_lap = lap_of(n_ + 1); \
			commit((struct plumb_head *)e, PLUMB_ID_##name_, lap_of(n_), tid_); \
		} \
	})

#endif /* PLUMB_EMIT_BPF_H */
