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

/* The order of REGISTERS in crates/probe/src/span/usdt.rs; on arm64 x0 to x30, then sp, which lies behind them. */
static __noinline u64 register_of(struct pt_regs *regs, u32 n)
{
	u64 value = 0;
#if defined(__TARGET_ARCH_x86)
	const void *at = n == 0    ? &regs->ax
			 : n == 1  ? &regs->bx
			 : n == 2  ? &regs->cx
			 : n == 3  ? &regs->dx
			 : n == 4  ? &regs->si
			 : n == 5  ? &regs->di
			 : n == 6  ? &regs->bp
			 : n == 7  ? &regs->sp
			 : n == 8  ? &regs->r8
			 : n == 9  ? &regs->r9
			 : n == 10 ? &regs->r10
			 : n == 11 ? &regs->r11
			 : n == 12 ? &regs->r12
			 : n == 13 ? &regs->r13
			 : n == 14 ? &regs->r14
				   : &regs->r15;

	bpf_probe_read_kernel(&value, sizeof(value), at);
#else
	bpf_probe_read_kernel(&value, sizeof(value), &regs->regs[n & 31]);
#endif
	return value;
}

static __always_inline u64 span_key(struct pt_regs *regs, struct plumb_span_place place)
{
	u32 bits = 64 - 8 * place.key_bytes;
	u64 value = 0;

	switch (place.key_from) {
	case PLUMB_FROM_ARGUMENT:
		return get_call_arg(regs, place.key_arg);
	case PLUMB_FROM_CONSTANT:
		return (s64)place.key_offset;
	case PLUMB_FROM_REGISTER:
		value = register_of(regs, place.key_arg);
		break;
	case PLUMB_FROM_MEMORY:
		if (place.key_bytes > sizeof(value) ||
		    bpf_probe_read_user(&value, place.key_bytes,
					(void *)(register_of(regs, place.key_arg) + (s64)place.key_offset)))
			return 0;
		break;
	}
	bits &= 63;
	return place.key_signed ? (u64)((s64)(value << bits) >> bits) : value << bits >> bits;
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
		key = span_key(regs, place);
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
