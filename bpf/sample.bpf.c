/* SPDX-License-Identifier: GPL-2.0-only */
/* The sampling clock: what a CPU of the target is at. */

SEC("perf_event")
int cpu_sample(void *ctx)
{
	u32 tid = current_tid();

	if (!tid || !(knobs.everyone || is_target(tid)))
		return 0;
	own_stack(ctx, PLUMB_STACK_SAMPLE, tid, bpf_ktime_get_ns(), true);
	return 0;
}
