/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ids of tasks. In the first PID namespace they are the task's own; a recorder
 * in another one (a container) matches them with its own /proc, so they are
 * those of its namespace. Tasks outside of it have none there: they get their
 * first id, above all others, and are not in its /proc: their names are told
 * when they are first seen.
 */
#ifndef PLUMB_TASK_BPF_H
#define PLUMB_TASK_BPF_H

#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "plumb/probe.h"

const volatile struct plumb_knobs knobs SEC(".rodata.knobs") = {};
/* Depth of the recorder's PID namespace; 0 is the first. Written by whoami. */
u32 pid_level SEC(".data.pid_level") = 0;
/* Who came to this CPU last: a task that has ended has no id any more when it leaves. */
u32 last_tid[PLUMB_MAX_CPUS] SEC(".data.last_tid") = {};

#define MOST_PID_LEVELS 32 /* MAX_PID_NS_LEVEL, include/linux/pid_namespace.h */

/* The id of a pid in a namespace of that level, if it is the recorder's; else 0. */
static __noinline u32 id_at(u64 pid, u32 level)
{
	u64 at = pid + bpf_core_field_offset(struct pid, numbers) +
		 (u64)(level & (MOST_PID_LEVELS - 1)) * bpf_core_type_size(struct upid);
	struct upid *upid = (void *)at;
	struct pid_namespace *ns = NULL;
	u32 inum = 0;
	int nr = 0;

	if (!pid || BPF_CORE_READ((struct pid *)pid, level) < level)
		return 0;
	bpf_core_read(&ns, sizeof(ns), &upid->ns);
	bpf_core_read(&inum, sizeof(inum), &ns->ns.inum);
	if (inum != knobs.pid_namespace)
		return 0;
	bpf_core_read(&nr, sizeof(nr), &upid->nr);
	return nr;
}

static __always_inline u32 outside(struct task_struct *task, u32 first)
{
	return first | (task->flags & PF_KTHREAD ? PLUMB_OUTSIDE_KERNEL : PLUMB_OUTSIDE);
}

static __always_inline u32 tid_of(struct task_struct *task)
{
	u32 first = task->pid, tid;
	u64 pid = 0;

	if (!knobs.pid_namespace || !first)
		return first;
	bpf_core_read(&pid, sizeof(pid), &task->thread_pid);
	tid = id_at(pid, pid_level);
	return tid ? tid : outside(task, first);
}

static __always_inline u32 tgid_of(struct task_struct *task)
{
	u32 first = task->tgid, tgid;
	u64 pid;

	if (!knobs.pid_namespace || !first)
		return first;
	pid = (u64)BPF_CORE_READ(task, signal, pids[PIDTYPE_TGID]);
	tgid = id_at(pid, pid_level);
	return tgid ? tgid : outside(task, first);
}

/* The one that leaves this CPU, and the one that comes. */
static __always_inline u32 leaving_tid(struct task_struct *prev, u32 next)
{
	u32 *last = &last_tid[bpf_get_smp_processor_id() & (PLUMB_MAX_CPUS - 1)];
	u32 tid = tid_of(prev);
	u64 pid = 0;

	if (!knobs.pid_namespace)
		return tid;
	bpf_core_read(&pid, sizeof(pid), &prev->thread_pid);
	if (!pid && *last)
		tid = *last;
	*last = next;
	return tid;
}

static __always_inline u32 current_tid(void)
{
	struct task_struct *me;
	u32 last;
	u64 pid = 0;

	if (!knobs.pid_namespace)
		return (u32)bpf_get_current_pid_tgid();
	me = bpf_get_current_task_btf();
	bpf_core_read(&pid, sizeof(pid), &me->thread_pid);
	/* the last thread of a process gives its id up before it wakes who waits for the process */
	last = last_tid[bpf_get_smp_processor_id() & (PLUMB_MAX_CPUS - 1)];
	return pid || !last ? tid_of(me) : last;
}

/* Run once by the recorder: how deep its namespace lies. */
SEC("raw_tp")
int whoami(void *ctx)
{
	struct task_struct *me = bpf_get_current_task_btf();
	u32 level = BPF_CORE_READ(me, thread_pid, level);
	u64 pid = (u64)BPF_CORE_READ(me, thread_pid);

	pid_level = id_at(pid, level) ? level : 0;
	return 0;
}

#endif /* PLUMB_TASK_BPF_H */
