/* SPDX-License-Identifier: GPL-2.0-only */
/* Scheduling: who runs, who wakes whom, threads born, renamed, ended. */

/* When each thread of the target went to sleep; two threads that share a
 * place only cost one of them its stack. */
struct wait_since {
	u64 ts;
	u64 tid;
};
struct wait_since waits[PLUMB_WAIT_SLOTS] SEC(".data.waits") = {};

/* Nothing but events tells of who is outside of the recorder's PID namespace. */
static __noinline void tell_name(struct task_struct *task, u32 tid)
{
	u8 *flags = &task_flags[tid & (PLUMB_MAX_TASKS - 1)];

	if (*flags & PLUMB_TASK_TOLD)
		return;
	*flags |= PLUMB_TASK_TOLD;
	EMIT(sched_rename, tid, bpf_probe_read_kernel(e->comm, sizeof(e->comm), task->comm));
}

/* What the program of the thread that goes to sleep says that it waits for: it still has the CPU. */
static __noinline void say_wait(u32 tid, u32 tgid)
{
	struct wait_word *word = bpf_map_lookup_elem(&wait_words, &tgid);
	u64 at = 0;
	u32 event = 0;

	if (!word || bpf_probe_read_user(&at, sizeof(at), (void *)word->address) ||
	    bpf_probe_read_user(&event, sizeof(event), (void *)at) || !event)
		return;
	EMIT(span_wait, tid, {
		e->number = event;
		e->program = word->program;
		e->unused = 0;
	});
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 next_tid = tid_of(next);
	u32 tid = leaving_tid(prev, next_tid);
	u32 held = 0;
	u64 now;

	if (knobs.only_target && !is_target(tid) && !is_target(next_tid))
		return 0;
	if (knobs.pid_namespace && next_tid >= PLUMB_OUTSIDE)
		tell_name(next, next_tid);
	if (knobs.wait_words && prev_state && !preempt && (knobs.everyone || is_target(tid)))
		say_wait(tid, tgid_of(prev));
	if ((!prev_state || preempt) && (knobs.everyone || is_target(tid)) && over_quota(prev))
		held = 2;
	now = EMIT(sched_switch, tid, {
		e->next_tid = next_tid;
		e->prev_state = prev_state;
		e->prev_prio = prev->prio;
		e->next_prio = next->prio;
		e->preempt = preempt | held;
	});
	if (prev_state && !preempt && stacks_of(tid) && (u32)prev->tgid != knobs.recorder) {
		struct wait_since *w = &waits[tid & (PLUMB_WAIT_SLOTS - 1)];
		w->ts = now;
		w->tid = tid;
	}
	if (stacks_of(next_tid)) {
		struct wait_since *w = &waits[next_tid & (PLUMB_WAIT_SLOTS - 1)];
		if (w->tid == next_tid) {
			w->tid = 0;
			if (now - w->ts >= knobs.stack_threshold)
				wait_stack(next, next_tid, now);
		}
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *p)
{
	u32 wakee = tid_of(p);
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
		/* an interrupt's user stack would be a bystander's */
		if (w->tid == wakee && now - w->ts >= knobs.stack_threshold)
			own_stack(ctx, PLUMB_STACK_WAKER, wakee, now,
				  *flags_of(current_tid()) & PLUMB_TASK_IN_SYSCALL);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *p)
{
	u32 wakee = tid_of(p);

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

static __noinline void inherit_wait_word(u32 parent, u32 child)
{
	struct wait_word *word = bpf_map_lookup_elem(&wait_words, &parent);

	if (child == parent)
		return;
	if (word)
		bpf_map_update_elem(&wait_words, &child, word, BPF_ANY);
	else /* the id's last holder may have had one */
		bpf_map_delete_elem(&wait_words, &child);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 child_tid = tid_of(child);
	u32 target = is_target(tid_of(parent));

	*flags_of(child_tid) = target ? PLUMB_TASK_TARGET : 0;
	if (knobs.wait_words)
		inherit_wait_word(tgid_of(parent), tgid_of(child));
	if (!knobs.emit_fork || !wanted(child_tid))
		return 0;
	EMIT(sched_fork, current_tid(), {
		e->child_tid = child_tid;
		e->child_tgid = tgid_of(child);
		e->parent_tgid = tgid_of(parent);
		e->target = target;
	});
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	u32 tid = tid_of(p);

	/* exec from a thread that is not the leader takes over the leader's id; what
	 * old_pid was in another namespace is not known any more */
	if (!knobs.pid_namespace && old_pid != tid && is_target(old_pid))
		*flags_of(tid) |= PLUMB_TASK_TARGET;
	if (knobs.wait_words)
		bpf_map_delete_elem(&wait_words, &tid);
	if (!knobs.emit_exec || !wanted(tid))
		return 0;
	EMIT(sched_exec, tid, bpf_probe_read_kernel(e->comm, sizeof(e->comm), p->comm));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_exit, struct task_struct *p)
{
	u32 tid = tid_of(p);

	if (knobs.wait_words && tid == tgid_of(p))
		bpf_map_delete_elem(&wait_words, &tid);
	if (!wanted(tid))
		return 0;
	EMIT(sched_exit, tid, {
		e->tgid = tgid_of(p);
		e->exit_code = p->exit_code;
		e->run_ns = p->se.sum_exec_runtime;
	});
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate, struct task_struct *p, int dest_cpu)
{
	u32 moved = tid_of(p);

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
	u32 tid = tid_of(p);

	/* another thread may write to comm; exec says it itself */
	if (tid != current_tid() || !wanted(tid))
		return 0;
	EMIT(sched_rename, tid, bpf_probe_read_kernel(e->comm, sizeof(e->comm), comm));
	return 0;
}
