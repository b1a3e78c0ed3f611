/* SPDX-License-Identifier: GPL-2.0-only */
/* Interrupts, hard and soft: time on top of a thread, and the wakers without one. */

#define IRQ_EVENT(name_, field_, value_) \
	{ \
		u32 tid_ = current_tid(); \
		if (!wanted(tid_)) \
			return 0; \
		EMIT(name_, tid_, { \
			((u64 *)e)[2] = 0; \
			((u64 *)e)[3] = 0; \
			e->field_ = value_; \
		}); \
		return 0; \
	}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq) IRQ_EVENT(irq_handler_entry, irq, irq)

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, struct irqaction *action, int ret)
{
	u32 tid = current_tid();

	if (!wanted(tid))
		return 0;
	EMIT(irq_handler_exit, tid, {
		e->irq = irq;
		e->ret = ret;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vec) IRQ_EVENT(softirq_entry, vec, vec)

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vec) IRQ_EVENT(softirq_exit, vec, vec)

SEC("tp_btf/local_timer_entry")
int BPF_PROG(local_timer_entry, int vec) IRQ_EVENT(local_timer_entry, vec, vec)

SEC("tp_btf/local_timer_exit")
int BPF_PROG(local_timer_exit, int vec) IRQ_EVENT(local_timer_exit, vec, vec)

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(call_function_single_entry, int vec) IRQ_EVENT(call_function_single_entry, vec, vec)

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(call_function_single_exit, int vec) IRQ_EVENT(call_function_single_exit, vec, vec)
