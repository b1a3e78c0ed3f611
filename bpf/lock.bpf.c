/* SPDX-License-Identifier: GPL-2.0-only */
/* Contention of kernel locks; futex lives with the system calls. */

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	u32 tid = current_tid();

	if (!wanted(tid))
		return 0;
	EMIT(contention_begin, tid, {
		e->lock = (u64)lock;
		e->flags = flags;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int ret)
{
	u32 tid = current_tid();

	if (!wanted(tid))
		return 0;
	EMIT(contention_end, tid, {
		e->lock = (u64)lock;
		e->ret = ret;
		e->unused = 0;
	});
	return 0;
}
