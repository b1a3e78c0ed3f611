/* SPDX-License-Identifier: GPL-2.0-only */
/* Spans: places in programs and kernel functions where a named interval of a thread begins and ends. */

/* The text that names a span goes the way of the stacks: it is longer than an event. */
static __always_inline void span_text(u32 tid, u64 now, struct plumb_span_place place, u64 address, u32 most)
{
	struct plumb_text *t = bpf_ringbuf_reserve(&stacks, sizeof(*t), 0);
	long read = -1;

	if (!t) {
		count_lost(sizeof(*t));
		return;
	}
	t->at = now;
	t->tid = tid;
	t->by = tid;
	t->pid = 0;
	t->kind = PLUMB_STACK_TEXT;
	t->span = place.span;
	if (place.key == PLUMB_KEY_KERNEL_TEXT)
		read = bpf_probe_read_kernel_str(t->text, sizeof(t->text), (void *)address);
	if (read < 0)
		read = bpf_probe_read_user_str(t->text, sizeof(t->text), (void *)address);
	if (read < 0)
		read = 0;
	t->bytes = most && most < read ? most : read;
	bpf_ringbuf_submit(t, BPF_RB_NO_WAKEUP);
}

/* At uprobes and kprobes: both are programs of one type, and their cookies are read in one way. */
SEC("uprobe")
int span(struct pt_regs *regs)
{
	u32 n = bpf_get_attach_cookie(regs);
	u32 tid = current_tid();
	struct plumb_span_place place;
	u64 key = 0, now;

	if (n >= PLUMB_MAX_PLACES || !(knobs.everyone || is_target(tid)))
		return 0;
	place = knobs.place[n];
	if (place.condition != PLUMB_PLACE_ALWAYS) {
		u32 value = get_call_arg(regs, place.condition_arg);
		if ((value == place.value) != (place.condition == PLUMB_PLACE_EQUAL))
			return 0;
	}
	if (place.ends) {
		EMIT(span_end, tid, {
			e->span = place.span;
			e->unused = 0;
			e->unused2 = 0;
		});
		return 0;
	}
	if (place.key != PLUMB_KEY_NONE)
		key = get_call_arg(regs, place.key_arg);
	now = EMIT(span_begin, tid, {
		e->span = place.span;
		e->unused = 0;
		e->key = place.key == PLUMB_KEY_NUMBER ? key : 0;
	});
	if (place.key >= PLUMB_KEY_TEXT && key && now)
		span_text(tid, now, place, key,
			  place.length_arg < PLUMB_NO_ARG ? (u32)get_call_arg(regs, place.length_arg) : 0);
	return 0;
}
