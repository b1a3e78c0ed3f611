/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stacks. The kernel's part is walked here; of the user's part registers and a
 * piece of memory are copied, for programs and libraries keep no frame pointers
 * and their unwind tables are too much for a BPF program. A record has one of
 * four sizes, each reserved with a size that the verifier knows.
 */
#ifndef PLUMB_STACK_BPF_H
#define PLUMB_STACK_BPF_H

#include "emit.bpf.h"
#include "python.bpf.h"

/* Steps in which a stack is copied that ends, or is not resident, within the copy. */
#define COPY_STEP 1024
#define COPY_FINE 128

static __always_inline bool stacks_of(u32 tid)
{
	return knobs.stack_threshold && tid && (knobs.everyone || is_target(tid));
}

/* An exiting thread has no memory any more; a kernel thread may borrow another's. */
static __always_inline bool has_user_code(struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD) && task->mm;
}

static __always_inline void count_lost(const u32 bytes)
{
	u64 used = bpf_ringbuf_query(&stacks, BPF_RB_AVAIL_DATA);
	u64 size = bpf_ringbuf_query(&stacks, BPF_RB_RING_SIZE);
	/* each record has a head of 8 bytes */
	bool full = used + bytes + 8 > size;

	__sync_fetch_and_add(&stacks_lost[full ? PLUMB_LOST_FULL : PLUMB_LOST_BUSY], 1);
}

static __always_inline struct plumb_stack *reserve_stack(const enum plumb_stack_kind kind, u32 tid, u64 end,
							 struct task_struct *by, const u32 room)
{
	struct plumb_stack *s = bpf_ringbuf_reserve(&stacks, sizeof(*s) + room, 0);

	if (!s) {
		count_lost(sizeof(*s) + room);
		return NULL;
	}
	s->end = end;
	s->tid = tid;
	s->by = tid_of(by);
	s->pid = tgid_of(by);
	s->kind = kind;
	s->cpu = bpf_get_smp_processor_id();
	s->bytes = 0;
	s->copied = 0;
	s->ip = 0;
	s->sp = 0;
	s->bp = 0;
	s->lr = 0;
	return s;
}

/* Bytes from sp on that can be read. A read that fails leaves nothing of what it
 * could have read, so such a stack is read again in parts. */
static __always_inline u32 copy_user(u8 *to, u64 sp, const u32 room)
{
	u32 done, step;

	if (!bpf_probe_read_user(to, room, (void *)sp))
		return room;
	for (done = 0; done < room; done += COPY_STEP)
		if (bpf_probe_read_user(to + done, COPY_STEP, (void *)(sp + done)))
			break;
	for (step = 0; step < COPY_STEP / COPY_FINE && done < room; step++, done += COPY_FINE)
		if (bpf_probe_read_user(to + done, COPY_FINE, (void *)(sp + done)))
			break;
	return done;
}

static __always_inline void put_own_stack(void *ctx, const enum plumb_stack_kind kind, u32 tid, u64 end,
					  struct task_struct *me, const u32 room)
{
	struct plumb_stack *s = reserve_stack(kind, tid, end, me, room);

	if (!s)
		return;
	if (kind != PLUMB_STACK_CALL)
		s->bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	if (room) {
		get_user_regs(s, (struct pt_regs *)bpf_task_pt_regs(me));
		s->copied = copy_user((u8 *)(s + 1), s->sp, room);
	}
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

/* The stack of the thread that runs this: of its own memory alone can a copy be taken. */
static __always_inline void own_stack(void *ctx, const enum plumb_stack_kind kind, u32 tid, u64 end,
				      bool user)
{
	struct task_struct *me = bpf_get_current_task_btf();
	u8 class;

	if (!user || !has_user_code(me)) {
		put_own_stack(ctx, kind, tid, end, me, 0);
		return;
	}
	python_stack(tid, end);
	class = copy_class[current_tid() & (PLUMB_COPY_SLOTS - 1)];
	if (class == 0)
		put_own_stack(ctx, kind, tid, end, me, PLUMB_COPY_0);
	else if (class == 1)
		put_own_stack(ctx, kind, tid, end, me, PLUMB_COPY_1);
	else
		put_own_stack(ctx, kind, tid, end, me, PLUMB_COPY_2);
}

/* Where task slept; called when it is about to run. Of its user code only the
 * registers: in a system call it takes the rest itself, on its way out of it. */
static __always_inline void wait_stack(struct task_struct *task, u32 tid, u64 now)
{
	struct plumb_stack *s;
	bool in_call = *flags_of(tid) & PLUMB_TASK_IN_SYSCALL;
	bool walk = !knobs.rethook_warns || !in_kretprobe(task);

	if (in_call)
		*flags_of(tid) |= PLUMB_TASK_WANT_USER;
	/* 6.1 takes a record that was looked at in between for one that is lost */
	s = reserve_stack(PLUMB_STACK_WAIT, tid, now, task, 0);
	if (!s)
		return;
	s->bytes = walk ? bpf_get_task_stack(task, s->kernel, sizeof(s->kernel), 0) : 0;
	if (!in_call && has_user_code(task))
		get_user_regs(s, (struct pt_regs *)bpf_task_pt_regs(task));
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

#endif /* PLUMB_STACK_BPF_H */
