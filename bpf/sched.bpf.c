/* SPDX-License-Identifier: GPL-2.0-only */
/* Scheduling: who runs, who wakes whom, threads born, renamed, ended. */

/* When each thread of the target went to sleep; two threads that share a
 * place only cost one of them its stack. */
struct wait_since {
	u64 ts;
	u64 tid;
};
struct wait_since waits[PLUMB_WAIT_SLOTS] SEC(".data.waits") = {};

static __always_inline bool stacks_of(u32 tid)
{
	return knobs.stack_threshold && tid && (knobs.everyone || is_target(tid));
}

/* The kernel stack on which task slept; called when it is about to run. */
static __always_inline void kernel_stack(struct task_struct *task, u32 tid, u64 now)
{
	struct plumb_stack *s = bpf_ringbuf_reserve(&stacks, sizeof(*s), 0);

	if (!s) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return;
	}
	s->end = now;
	s->tid = tid;
	s->kind = PLUMB_STACK_WAIT;
	s->other = bpf_get_smp_processor_id();
	s->bytes = bpf_get_task_stack(task, s->kernel, sizeof(s->kernel), 0);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	if (*flags_of(tid) & PLUMB_TASK_IN_SYSCALL)
		*flags_of(tid) |= PLUMB_TASK_WANT_USER;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 tid = prev->pid;
	u32 next_tid = next->pid;
	u64 now;

	if (knobs.only_target && !is_target(tid) && !is_target(next_tid))
		return 0;
	now = EMIT(sched_switch, tid, {
		e->next_tid = next_tid;
		e->prev_state = prev_state;
		e->prev_prio = prev->prio;
		e->next_prio = next->prio;
		e->preempt = preempt;
	});
	if (prev_state && !preempt && stacks_of(tid)) {
		struct wait_since *w = &waits[tid & (PLUMB_WAIT_SLOTS - 1)];
		w->ts = now;
		w->tid = tid;
	}
	if (stacks_of(next_tid)) {
		struct wait_since *w = &waits[next_tid & (PLUMB_WAIT_SLOTS - 1)];
		if (w->tid == next_tid) {
			w->tid = 0;
			if (now - w->ts >= knobs.stack_threshold)
				kernel_stack(next, next_tid, now);
		}
	}
	return 0;
}

/* Where the waker is: the function that released what wakee waited for. */
static __always_inline void waker_stack(void *ctx, u32 wakee, u64 now)
{
	struct plumb_stack *s = bpf_ringbuf_reserve(&stacks, sizeof(*s), 0);

	if (!s) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return;
	}
	s->end = now;
	s->tid = wakee;
	s->kind = PLUMB_STACK_WAKER;
	s->other = current_tid();
	s->bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

/* Its user code. Libraries keep no frame pointers, and the function that lets
 * go of a lock is the one right above the library's: so the words on top of the
 * stack, among which user space finds the return addresses. */
static __always_inline void waker_user_stack(u32 wakee, u64 now)
{
	struct plumb_stack *s = bpf_ringbuf_reserve(&stacks, sizeof(*s), 0);
	struct pt_regs *regs;

	if (!s) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return;
	}
	s->end = now;
	s->tid = wakee;
	s->kind = PLUMB_STACK_WAKER_USER;
	s->other = (u32)(bpf_get_current_pid_tgid() >> 32);
	s->bytes = sizeof(s->kernel);
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
#if defined(__TARGET_ARCH_arm64)
	s->kernel[0] = regs->pc;
	s->kernel[1] = regs->regs[30];
#else
	s->kernel[0] = regs->ip;
	s->kernel[1] = 0;
#endif
	if (bpf_probe_read_user(&s->kernel[2], sizeof(s->kernel) - 16, (void *)regs->sp))
		s->bytes = 16;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *p)
{
	u32 wakee = p->pid;
	u64 now;

	if (!wanted(wakee))
		return 0;
	now = EMIT(sched_waking, current_tid(), {
		e->wakee = wakee;
		e->wakee_prio = p->prio;
		e->target_cpu = p->wake_cpu;
		e->unused = 0;
	});
	if (stacks_of(wakee)) {
		struct wait_since *w = &waits[wakee & (PLUMB_WAIT_SLOTS - 1)];
		if (w->tid == wakee && now - w->ts >= knobs.stack_threshold) {
			waker_stack(ctx, wakee, now);
			/* an interrupt's user stack would be a bystander's */
			if (*flags_of(current_tid()) & PLUMB_TASK_IN_SYSCALL)
				waker_user_stack(wakee, now);
		}
	}
	return 0;
}

/* What a CPU is at: for the share of user code, and the kernel's functions. */
SEC("perf_event")
int cpu_sample(void *ctx)
{
	u32 tid = current_tid();
	struct plumb_stack *s;

	if (!tid || !(knobs.everyone || is_target(tid)))
		return 0;
	s = bpf_ringbuf_reserve(&stacks, sizeof(*s), 0);
	if (!s) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return 0;
	}
	s->end = bpf_ktime_get_ns();
	s->tid = tid;
	s->kind = PLUMB_STACK_SAMPLE;
	s->other = bpf_get_smp_processor_id();
	s->bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *p)
{
	u32 wakee = p->pid;

	if (!wanted(wakee))
		return 0;
	EMIT(sched_wakeup_new, current_tid(), {
		e->wakee = wakee;
		e->wakee_prio = p->prio;
		e->target_cpu = p->wake_cpu;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 child_tid = child->pid;
	u32 target = is_target(parent->pid);

	*flags_of(child_tid) = target ? PLUMB_TASK_TARGET : 0;
	if (!knobs.emit_fork || !wanted(child_tid))
		return 0;
	EMIT(sched_fork, current_tid(), {
		e->child_tid = child_tid;
		e->child_tgid = child->tgid;
		e->parent_tgid = parent->tgid;
		e->target = target;
	});
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	u32 tid = p->pid;

	/* exec from a thread that is not the leader takes over the leader's id */
	if (old_pid != tid && is_target(old_pid))
		*flags_of(tid) |= PLUMB_TASK_TARGET;
	if (!knobs.emit_exec || !wanted(tid))
		return 0;
	EMIT(sched_exec, tid, bpf_probe_read_kernel(e->comm, sizeof(e->comm), p->comm));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_exit, struct task_struct *p)
{
	u32 tid = p->pid;

	if (!wanted(tid))
		return 0;
	EMIT(sched_exit, tid, {
		e->tgid = p->tgid;
		e->exit_code = p->exit_code;
		e->run_ns = p->se.sum_exec_runtime;
	});
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate, struct task_struct *p, int dest_cpu)
{
	u32 moved = p->pid;

	if (!wanted(moved))
		return 0;
	EMIT(sched_migrate, current_tid(), {
		e->moved_tid = moved;
		e->from_cpu = p->wake_cpu;
		e->to_cpu = dest_cpu;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(sched_rename, struct task_struct *p, const char *comm)
{
	u32 tid = p->pid;

	/* another thread may write to comm; exec says it itself */
	if (tid != current_tid() || !wanted(tid))
		return 0;
	EMIT(sched_rename, tid, bpf_probe_read_kernel(e->comm, sizeof(e->comm), comm));
	return 0;
}
