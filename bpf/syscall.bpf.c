/* SPDX-License-Identifier: GPL-2.0-only */
/* System calls of the target, and the futex words it waits for. */

static __always_inline bool call_wanted(u32 tid, u32 nr)
{
	u32 word = nr >> 6;

	if (nr >= 512 || (!knobs.everyone && !is_target(tid)))
		return false;
	/* the compiler knows that word < 8 and drops the mask that the verifier needs */
	asm volatile("" : "+r"(word));
	return knobs.syscalls[word & 7] >> (nr & 63) & 1;
}

#if defined(__TARGET_ARCH_arm64)
#define NR_FUTEX 98
#else
#define NR_FUTEX 202
#endif

static __always_inline void emit_futex(struct pt_regs *regs, u32 tid)
{
	u64 uaddr = get_syscall_arg(regs, 0);
	u32 op = (u32)get_syscall_arg(regs, 1) & 127;
	u32 owner = 0;

	/* glibc's mutexes keep the owner's tid 8 bytes behind the futex word */
	if (op == 0 || op == 9)
		bpf_probe_read_user(&owner, sizeof(owner), (void *)(uaddr + 8));
	EMIT(futex, tid, {
		e->uaddr = uaddr;
		e->op = op;
		e->val = get_syscall_arg(regs, 2);
		e->owner = owner;
	});
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long id)
{
	u32 tid = current_tid();
	u32 nr = id;

	if (call_wanted(tid, nr) && !thinned(PLUMB_THIN_SYSCALL)) {
		*flags_of(tid) |= PLUMB_TASK_IN_SYSCALL;
		EMIT(sys_enter, tid, {
			e->nr = nr;
			e->arg0 = get_syscall_arg(regs, 0);
			e->arg2 = get_syscall_arg(regs, 2);
		});
	}
	if (nr == NR_FUTEX && knobs.futex_at_enter && (knobs.everyone || is_target(tid)))
		emit_futex(regs, tid);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	u32 tid = current_tid();
	u8 flags = *flags_of(tid);
	u32 nr;
	u64 now;

	/* the pair of an enter that was recorded, and no other */
	if (!(flags & PLUMB_TASK_IN_SYSCALL))
		return 0;
	*flags_of(tid) = flags & PLUMB_TASK_TARGET;
	nr = get_syscall_nr(regs);
	now = EMIT(sys_exit, tid, {
		e->nr = nr;
		e->unused = 0;
		e->ret = ret;
	});
	if (flags & PLUMB_TASK_WANT_USER)
		own_stack(ctx, PLUMB_STACK_CALL, tid, now, true);
	return 0;
}

/* Alone, where sys_enter is not recorded. */
SEC("tp_btf/sys_enter")
int BPF_PROG(futex, struct pt_regs *regs, long id)
{
	u32 tid;

	if (id != NR_FUTEX)
		return 0;
	tid = current_tid();
	if (knobs.everyone || is_target(tid))
		emit_futex(regs, tid);
	return 0;
}
