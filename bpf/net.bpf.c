/* SPDX-License-Identifier: GPL-2.0-only */
/* Network: device queue, driver, receive, TCP. */

#include <bpf/bpf_endian.h>

#define NET_WANTED \
	u32 tid = current_tid(); \
	if (!wanted(tid) || thinned(PLUMB_THIN_NET)) \
	return 0

#define SKB_EVENT(name_) \
	{ \
		NET_WANTED; \
		EMIT(name_, tid, { \
			e->skb = (u64)skb; \
			e->len = skb->len; \
			e->ifindex = skb->dev->ifindex; \
		}); \
		return 0; \
	}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb) SKB_EVENT(net_dev_queue)

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit, struct sk_buff *skb) SKB_EVENT(net_dev_start_xmit)

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb) SKB_EVENT(netif_receive_skb)

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sk, struct sk_buff *skb)
{
	NET_WANTED;
	EMIT(tcp_retransmit_skb, tid, {
		e->sk = (u64)sk;
		e->skb = (u64)skb;
	});
	return 0;
}

/* The first that waits in a queue; NULL when nobody does. */
static __always_inline struct wait_queue_entry *first_waiter(struct wait_queue_head *queue)
{
	struct list_head *first = BPF_CORE_READ(queue, head.next);

	if (!first || first == &queue->head)
		return NULL;
	return (void *)first - bpf_core_field_offset(struct wait_queue_entry, entry);
}

/* The thread behind it: in a call on the socket it is the entry's own; poll(2) has its table there, and the entry
 * within that; epoll has nothing, and who waits for the set waits in the set's queue. */
static __always_inline struct task_struct *waiting_task(struct wait_queue_entry *entry)
{
	void *private = BPF_CORE_READ(entry, private);
	struct poll_wqueues *poll = private;
	struct eppoll_entry *epoll;
	struct eventpoll *set;

	if (private && private <= (void *)entry &&
	    (void *)entry < private + bpf_core_type_size(struct poll_wqueues))
		return BPF_CORE_READ(poll, polling_task);
	if (private)
		return private;
	epoll = (void *)entry - bpf_core_field_offset(struct eppoll_entry, wait);
	set = BPF_CORE_READ(epoll, base, ep);
	if (!set)
		return NULL;
	entry = first_waiter(&set->wq);
	return entry ? BPF_CORE_READ(entry, private) : NULL;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_waiter, struct sock *sk, struct sk_buff *skb)
{
	struct socket_wq *queue = BPF_CORE_READ(sk, sk_wq);
	struct wait_queue_entry *entry = queue ? first_waiter(&queue->wait) : NULL;
	struct task_struct *task = entry ? waiting_task(entry) : NULL;
	u32 waiter;

	if (!task || thinned(PLUMB_THIN_NET))
		return 0;
	waiter = BPF_CORE_READ(task, pid);
	if (knobs.pid_namespace)
		waiter = id_at((u64)BPF_CORE_READ(task, thread_pid), pid_level);
	if (!waiter || !wanted(waiter))
		return 0;
	EMIT(tcp_retransmit_waiter, current_tid(), {
		e->sk = (u64)sk;
		e->waiter = waiter;
		e->unused = 0;
	});
	return 0;
}

/* Data whose reader was woken at once is not worth a record. */
#define READ_WAITED_US 50

/* Of the threads whose calls are recorded; thinned, some requests would seem to have come later. tcp_mstamp is of the
 * last segment of either direction: a delayed acknowledgement goes out 40 ms after the data came. lrcvtime, in ticks, is
 * of data alone. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tcp_read_waited, struct sock *sk)
{
	u32 tid = current_tid();
	u64 tick = knobs.tick / 1000;
	struct tcp_sock *tcp;
	s64 waited;
	u32 ticks;

	if (!knobs.everyone && !is_target(tid))
		return 0;
	/* its fields are plain loads, not a bpf_probe_read_kernel() each */
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	waited = bpf_ktime_get_ns() / 1000 - tcp->tcp_mstamp;
	ticks = (u32)bpf_jiffies64() - ((struct inet_connection_sock *)tcp)->icsk_ack.lrcvtime;
	if (ticks > 1 && waited < (s64)((ticks - 1) * tick))
		waited = ticks * tick;
	if (waited < READ_WAITED_US)
		return 0;
	EMIT(tcp_read_waited, tid, {
		e->waited = waited * 1000;
		e->port = sk->__sk_common.skc_num;
		e->peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
	});
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int old_state, int new_state)
{
	NET_WANTED;
	EMIT(inet_sock_set_state, tid, {
		e->sk = (u64)sk;
		e->old_state = old_state;
		e->new_state = new_state;
	});
	return 0;
}
